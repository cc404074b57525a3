//! Reduction operators: the predefined ones and those of the program (MPI 5.0 §6.9.2, §6.9.5).
//!
//! Collective operations combine packed elements. A function of the program sees elements as they stand in an
//! array of its datatype: in place where they are dense and aligned, and in a copy with gaps otherwise.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use datatype::{Datatype, Operator, Pair, Predefined, combine_packed, pack_memory, reduce_elements, unpack};
use weft::claims::{Payload, UserMemory};
use weft::{Class, Error, Result};

use crate::arguments::{buffer_span, bytes_of};
use crate::bodies::datatypes::{self, resolve_committed};
use crate::calls;
use crate::claims::{Buffer, Place, Received, Sent, Variable};
use crate::convert::UserFunction;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{Meaning, OpObject, Type};
use crate::state::{self, Runtime, call, too_many};
use crate::types::*;

/// An operator together with the datatype that it combines, checked to fit each other.
#[derive(Clone)]
pub(crate) enum TypedOperator {
    /// The library's own.
    Predefined(Operator, Predefined),
    /// A search among values with an index, of a datatype without a name.
    Search(Operator, Pair),
    /// A function of the program. It is called with at most `most` elements, which is as many as the
    /// operation has, though contributions of several ranks may be combined at once. The handle of the
    /// datatype that it is called with lives as long as this operation, also where the program has freed the
    /// datatype.
    User { object: OpObject, handle: MPI_Datatype, datatype: Datatype, most: i64, _lent: Option<Arc<()>> },
}

impl TypedOperator {
    /// Whether the order of the operands makes no difference.
    pub(crate) fn commutative(&self) -> bool {
        match self {
            TypedOperator::Predefined(operator, _) | TypedOperator::Search(operator, _) => {
                operator.is_commutative()
            }
            TypedOperator::User { object, .. } => object.commutative,
        }
    }

    /// This operator for an operation of `elements` elements: a function of the program is called with at
    /// most as many, and at least with one.
    pub(crate) fn among(mut self, elements: i64) -> TypedOperator {
        if let TypedOperator::User { most, .. } = &mut self {
            *most = elements.max(1);
        }
        self
    }

    /// Combines packed elements: `out = left op right`, or `out = left op out` without `right`, as far as all
    /// reach.
    pub(crate) fn combine(&self, left: Payload<'_>, right: Option<Payload<'_>>, out: &mut UserMemory) {
        if let TypedOperator::Predefined(operator, predefined) = self {
            return combine_packed(*operator, *predefined, left, right, out)
                .expect("`resolve` has checked that the operator is defined for the datatype");
        }
        let mut out = match right {
            None => out.part(0, left.bytes()),
            Some(right) => {
                let bytes = out.write_at(0, right);
                out.part(0, bytes.min(left.bytes()))
            }
        };
        let bytes = out.bytes();
        match self {
            TypedOperator::Predefined(..) => {}
            TypedOperator::Search(operator, pair) => pair.search(is_for_highest(*operator), left, &mut out),
            &TypedOperator::User { object, handle, ref datatype, most, .. } => {
                let count = (bytes as i64).checked_div(datatype.size()).unwrap_or(0);
                Call { function: object.function, handle, datatype, most }.packed(count, left, &mut out);
            }
        }
    }
}

/// The operator of the handle `op` for `count` elements of `datatype`, whose handle is `handle`. An error
/// where the operator is not defined for the datatype.
pub(crate) fn resolve(
    runtime: &'static Runtime,
    op: MPI_Op,
    (datatype, count): (&Type, i64),
    handle: MPI_Datatype,
) -> Result<TypedOperator> {
    if let Some(operator) = predefined(op) {
        return library(runtime, operator, datatype, handle)
            .ok_or_else(|| illegal(runtime, operator, handle));
    }
    let object = user(runtime, op)?;
    let lent = runtime.objects().datatype(handle).map(|object| Arc::clone(&object.lent));
    Ok(TypedOperator::User {
        object,
        handle,
        datatype: Datatype::clone(datatype),
        most: count.max(1),
        _lent: lent,
    })
}

/// One of the library's own operators on elements of a datatype; `None` where it is not defined for them.
fn library(
    runtime: &'static Runtime,
    operator: Operator,
    datatype: &Datatype,
    handle: MPI_Datatype,
) -> Option<TypedOperator> {
    let means = datatype.predefined().map(Meaning::Number).or_else(|| datatypes::meaning(runtime, handle));
    match means? {
        Meaning::Number(predefined) => {
            let legal = operator.is_collective() && operator.is_legal_for(predefined);
            if legal && state::checks() && !operator.is_standard_for(predefined) {
                warn(runtime, operator, predefined);
            }
            legal.then_some(TypedOperator::Predefined(operator, predefined))
        }
        Meaning::Pair(pair) => {
            let searches = matches!(operator, Operator::MinLocation | Operator::MaxLocation);
            searches.then_some(TypedOperator::Search(operator, pair))
        }
    }
}

/// The predefined operator of a handle.
#[inline]
pub(crate) fn predefined(op: MPI_Op) -> Option<Operator> {
    OPERATORS.iter().find(|(handle, _)| *handle == op).map(|&(_, operator)| operator)
}

/// With `WEFT_CHECK`: says once that the standard does not have this pair, so that other libraries may refuse
/// it.
#[cold]
fn warn(runtime: &'static Runtime, operator: Operator, predefined: Predefined) {
    static SAID: Mutex<Vec<(Operator, Predefined)>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.contains(&(operator, predefined)) {
        return;
    }
    said.push((operator, predefined));
    weft::tell(format_args!(
        "weft: rank {}: {operator} of {predefined} is outside the table of MPI 5.0 section 6.9.2; weft, MPICH and Open MPI take it\n  \
         other libraries may refuse it: for them use a datatype that the table has, or an operator of MPI_Op_create",
        runtime.rank()
    ));
}

fn is_for_highest(operator: Operator) -> bool {
    operator == Operator::MaxLocation
}

fn user(runtime: &'static Runtime, op: MPI_Op) -> Result<OpObject> {
    runtime.objects().ops.find(op.value()).copied().ok_or_else(|| no_operator(op))
}

#[cold]
fn no_operator(op: MPI_Op) -> Error {
    if op == MPI_OP_NULL {
        return Error::new(Class::Operator, "the operator is MPI_OP_NULL");
    }
    Error::new(Class::Operator, format!("{:#x} is not an operator, or not any more", op.value()))
}

#[cold]
fn illegal(runtime: &'static Runtime, operator: Operator, handle: MPI_Datatype) -> Error {
    if !operator.is_collective() {
        let what = format!("{operator} is for one-sided communication only");
        return Error::new(Class::Operator, what);
    }
    let name = datatypes::name(runtime, handle).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    let name = if name.is_empty() { "a datatype made by a constructor" } else { &*name };
    Error::new(Class::Operator, format!("{operator} is not defined for {name}"))
        .remedy("use a predefined datatype that the operator takes, or make an operator with MPI_Op_create")
}

thread_local! {
    static WITHIN: Cell<Option<Holding>> = const { Cell::new(None) };
}

/// The lock that this thread holds while it is in an operator of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// None: the operator may call whatever the program may call elsewhere.
    Nothing,
    /// The progress engine's: functions that the operator calls must leave the engine alone.
    Engine,
}

/// What this thread holds, if it is in an operator of the program; `None` outside. An operator that holds
/// nothing, and that the program has left by `longjmp`, still counts as entered.
pub(crate) fn within() -> Option<Holding> {
    WITHIN.get()
}

/// A thread in an operator of the program.
pub(crate) struct Within {
    before: Option<Holding>,
    /// What the program has called, which the operator may call other functions in.
    called: &'static str,
}

impl Within {
    pub(crate) fn enter(holding: Holding) -> Within {
        let before = WITHIN.get();
        // What is held outside is held inside.
        WITHIN.set(Some(before.filter(|&before| before == Holding::Engine).unwrap_or(holding)));
        Within { before, called: calls::current() }
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        WITHIN.set(self.before);
        calls::enter(self.called);
    }
}

/// A function of the program, about to be called.
struct Call<'a> {
    function: UserFunction,
    handle: MPI_Datatype,
    datatype: &'a Datatype,
    /// It is called with so many elements at most.
    most: i64,
}

impl Call<'_> {
    /// Combines `count` packed elements.
    fn packed(&self, count: i64, input: Payload<'_>, inout: &mut UserMemory) {
        let offset = self.datatype.true_lower_bound() as isize;
        let left = input.start().cast_mut().wrapping_offset(-offset);
        let right = inout.start().wrapping_offset(-offset);
        if self.datatype.is_dense() && self.is_aligned(left) && self.is_aligned(right) {
            // SAFETY: dense elements in packed form are an array of them, and both claims cover `count`.
            unsafe { self.array(left, right, count) };
        } else {
            self.spread(count, input, inout);
        }
    }

    /// Whether elements there are aligned, whatever they are made of: to the greatest power of two that
    /// divides the extent, but no more than C ever asks for.
    fn is_aligned(&self, start: *const u8) -> bool {
        let extent = self.datatype.extent().unsigned_abs() as usize;
        let alignment_bytes = 1 << extent.trailing_zeros().min(ALIGNMENT_BYTES_MAX.trailing_zeros());
        start.addr().is_multiple_of(alignment_bytes)
    }

    /// Spreads packed elements as they stand in an array, a chunk at a time, and packs the results.
    fn spread(&self, count: i64, input: Payload<'_>, inout: &mut UserMemory) {
        let size = self.datatype.size();
        let each = (CHUNK_BYTES / self.datatype.extent().unsigned_abs().max(1) as i64).clamp(1, count.max(1));
        let (mut left, mut right) = (Scratch::new(self.datatype, each), Scratch::new(self.datatype, each));
        for first in (0..count).step_by(each as usize) {
            let elements = each.min(count - first);
            let (at, bytes) = ((first * size) as usize, (elements * size) as usize);
            left.fill(self.datatype, elements, input.part(at, bytes));
            right.fill(self.datatype, elements, inout.payload().part(at, bytes));
            // SAFETY: both are arrays of as many elements.
            unsafe { self.array(left.origin(), right.origin(), elements) };
            right.empty(self.datatype, elements, &mut inout.part(at, bytes));
        }
    }

    /// Calls the function, more than once where there are more elements than it may be called with, or than
    /// an `int` holds.
    ///
    /// # Safety
    /// `left` and `right` are the addresses of arrays of `count` elements.
    unsafe fn array(&self, left: *mut u8, right: *mut u8, count: i64) {
        let mut handle = self.handle;
        let each = match self.function {
            UserFunction::Int(_) => self.most.min(i64::from(c_int::MAX)),
            UserFunction::Count(_) => self.most,
        };
        let mut first = 0;
        while first < count {
            let mut length = each.min(count - first);
            let distance = (first * self.datatype.extent()) as isize;
            let input = left.wrapping_offset(distance).cast::<c_void>();
            let inout = right.wrapping_offset(distance).cast::<c_void>();
            let _within = Within::enter(Holding::Nothing);
            // SAFETY: the program gave functions of these types, and MPI_Op_create refuses null; the arrays
            // go on for `length` elements. What the function does is its own affair.
            unsafe {
                match self.function {
                    UserFunction::Int(function) => {
                        let mut short = length as c_int;
                        function.function().inspect(|f| f(input, inout, &raw mut short, &raw mut handle));
                    }
                    UserFunction::Count(function) => {
                        function.function().inspect(|f| f(input, inout, &raw mut length, &raw mut handle));
                    }
                }
            }
            first += each.min(count - first);
        }
    }
}

/// Room for an array of elements with their gaps, aligned for whatever they are.
struct Scratch {
    room: Vec<u128>,
    /// Bytes from the beginning of the room to the elements' data.
    lead_bytes: usize,
    /// Where the data begins, counted from the address of the first element.
    start: i64,
}

impl Scratch {
    fn new(datatype: &Datatype, count: i64) -> Scratch {
        let span = datatype.span(count).unwrap_or(datatype::Span { start: 0, bytes: 0 });
        // The address of the first element is to be a multiple of the unit, wherever its data begins.
        let lead_bytes = span.start.rem_euclid(ALIGNMENT_BYTES_MAX as i64) as usize;
        let units = (lead_bytes + span.bytes as usize).div_ceil(ALIGNMENT_BYTES_MAX);
        Scratch { room: vec![0; units], lead_bytes, start: span.start }
    }

    fn data(&mut self) -> *mut u8 {
        self.room.as_mut_ptr().cast::<u8>().wrapping_add(self.lead_bytes)
    }

    /// The address of the first element.
    fn origin(&mut self) -> *mut u8 {
        self.data().wrapping_offset(-self.start as isize)
    }

    fn memory(&mut self) -> UserMemory {
        let bytes = self.room.len() * ALIGNMENT_BYTES_MAX - self.lead_bytes;
        // SAFETY: the room goes on for that many bytes, and is not used otherwise while the claim is.
        unsafe { UserMemory::claim(self.data(), bytes) }
    }

    fn fill(&mut self, datatype: &Datatype, count: i64, packed: Payload<'_>) {
        unpack(datatype, count, packed, &mut self.memory(), 0)
            .expect("the room was made for that many elements");
    }

    fn empty(&mut self, datatype: &Datatype, count: i64, packed: &mut UserMemory) {
        pack_memory(datatype, count, self.memory().payload(), packed, 0)
            .expect("the room was made for that many elements");
    }
}

/// Makes an operator of a function.
pub fn mpi_op_create(user_fn: UserFunction, commute: c_int, op: Place<'_, MPI_Op>) -> c_int {
    call("MPI_Op_create", Target::World, |runtime| {
        let place = op.checked("op")?;
        if user_fn.is_null() {
            return Err(Error::new(Class::Argument, "the function of an operator is a null pointer"));
        }
        let object = OpObject { function: user_fn, commutative: commute != 0 };
        let handle = runtime.objects().ops.insert(object).ok_or_else(too_many)?;
        place.set(MPI_Op::from_value(handle));
        Ok(())
    })
}

/// Gives an operator up. Operations that are under way go on with it.
pub fn mpi_op_free(op: Variable<'_, MPI_Op>) -> c_int {
    call("MPI_Op_free", Target::World, |runtime| {
        let place = op.checked("op")?;
        let handle = place.get();
        if let Some(operator) = predefined(handle) {
            return Err(Error::new(Class::Operator, format!("{operator} cannot be freed")));
        }
        runtime.objects().ops.remove(handle.value()).ok_or_else(|| no_operator(handle))?;
        place.set(MPI_OP_NULL);
        Ok(())
    })
}

/// Whether the order of the operands makes no difference.
pub fn mpi_op_commutative(op: MPI_Op, commute: Place<'_, c_int>) -> c_int {
    call("MPI_Op_commutative", Target::World, |runtime| {
        let place = commute.checked("commute")?;
        let commutative = match predefined(op) {
            Some(operator) => operator.is_commutative(),
            None => user(runtime, op)?.commutative,
        };
        place.set(c_int::from(commutative));
        Ok(())
    })
}

/// Combines the elements of two buffers of this process.
pub fn mpi_reduce_local(
    inbuf: Sent,
    inoutbuf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> c_int {
    call("MPI_Reduce_local", Target::World, |runtime| {
        let resolved = resolve_committed(runtime, datatype)?;
        let operation = resolve(runtime, op, (&resolved, count), datatype)?;
        bytes_of(count, &resolved)?;
        let (start, bytes) = buffer_span(inbuf.start(), count, &resolved)?;
        buffer_span(inoutbuf.start(), count, &resolved)?;
        if inbuf.start() == inoutbuf.start() && bytes > 0 {
            return Err(Error::new(Class::Buffer, "inbuf and inoutbuf are the same buffer"));
        }
        let (input, mut inout) = (inbuf.payload(start, bytes), inoutbuf.memory(start, bytes));
        match operation {
            TypedOperator::Predefined(operator, predefined) => {
                reduce_elements(operator, predefined, count as usize, input, &mut inout)
                    .map_err(|error| Error::new(Class::Operator, error.to_string()))
            }
            TypedOperator::Search(operator, pair) => pair
                .search_elements(is_for_highest(operator), (&resolved, count), input, &mut inout)
                .map_err(|error| Error::new(Class::Buffer, error.to_string())),
            TypedOperator::User { object, handle, datatype, .. } => {
                let call = Call { function: object.function, handle, datatype: &datatype, most: count };
                let (left, right) = (inbuf.start().cast_mut().cast(), inoutbuf.start().cast_mut().cast());
                // SAFETY: the program promised arrays of that many elements, the second of them writable.
                unsafe { call.array(left, right, count) };
                Ok(())
            }
        }
    })
}

/// The handles of the predefined operators.
const OPERATORS: [(MPI_Op, Operator); 14] = [
    (MPI_SUM, Operator::Sum),
    (MPI_MIN, Operator::Min),
    (MPI_MAX, Operator::Max),
    (MPI_PROD, Operator::Prod),
    (MPI_BAND, Operator::BitAnd),
    (MPI_BOR, Operator::BitOr),
    (MPI_BXOR, Operator::BitXor),
    (MPI_LAND, Operator::LogicalAnd),
    (MPI_LOR, Operator::LogicalOr),
    (MPI_LXOR, Operator::LogicalXor),
    (MPI_MINLOC, Operator::MinLocation),
    (MPI_MAXLOC, Operator::MaxLocation),
    (MPI_REPLACE, Operator::Replace),
    (MPI_NO_OP, Operator::NoOperation),
];

/// The strictest alignment of any C type, which is that of the units of scratch room.
const ALIGNMENT_BYTES_MAX: usize = align_of::<u128>();
const _: () = assert!(ALIGNMENT_BYTES_MAX == size_of::<u128>());

/// Elements with gaps are spread in chunks of about so many bytes, which stay in a cache.
const CHUNK_BYTES: i64 = 1 << 14;

#[cfg(test)]
#[path = "operators_tests.rs"]
mod tests;
