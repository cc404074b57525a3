//! Puts, gets and accumulates (MPI 5.0 §12.3).

use std::ffi::c_int;

use datatype::{Datatype, Operator, Predefined};
use weft::claims::{Data, Gathered, Heap, Payload, RequestId, Scattered, Target as Room};
use weft::{
    Begun, Change, Class, CompletedBy, Error, Operands as Given, Rank, Result, TargetElements, Window,
};

use crate::arguments;
use crate::bodies::datatypes::{self, resolve_elements, row_bytes};
use crate::bodies::operators;
use crate::claims::{Buffer, Place, Received, Sent};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::{RequestObject, Type};
use crate::requests::SENT;
use crate::state::{self, Runtime, call};
use crate::types::*;

/// Elements at the origin, as C hands them over.
#[derive(Clone, Copy)]
struct Origin<B> {
    buffer: B,
    count: MPI_Count,
    datatype: MPI_Datatype,
}

impl<B> Origin<B> {
    fn new(buffer: B, count: MPI_Count, datatype: MPI_Datatype) -> Origin<B> {
        Origin { buffer, count, datatype }
    }
}

/// Elements at the target, as C hands them over.
#[derive(Clone, Copy)]
struct There {
    rank: c_int,
    displacement: MPI_Aint,
    count: MPI_Count,
    datatype: MPI_Datatype,
}

impl There {
    fn new(rank: c_int, displacement: MPI_Aint, count: MPI_Count, datatype: MPI_Datatype) -> There {
        There { rank, displacement, count, datatype }
    }
}

/// One operation: its window, and what it goes to.
struct Operation<'call> {
    name: &'static str,
    win: MPI_Win,
    there: There,
    /// Where the request of the operation goes; none for one that a synchronization completes.
    request: Option<Place<'call, MPI_Request>>,
}

/// What a call is about, once the arguments are right.
struct Checked<'a> {
    runtime: &'static Runtime,
    window: &'a Window,
    datatype: Type,
    elements: TargetElements,
}

impl<'call> Operation<'call> {
    fn new(name: &'static str, win: MPI_Win, there: There) -> Operation<'call> {
        Operation { name, win, there, request: None }
    }

    fn with_request(mut self, request: Place<'call, MPI_Request>) -> Operation<'call> {
        self.request = Some(request);
        self
    }

    /// Who waits for the end of the operation.
    fn completed_by(&self) -> CompletedBy {
        if self.request.is_some() { CompletedBy::Request } else { CompletedBy::Synchronization }
    }

    /// Checks what it goes to, and begins it.
    #[inline]
    fn begin(&self, begin: impl FnOnce(Checked<'_>) -> Result<(Begun, Kind)>) -> c_int {
        call(self.name, Target::Win(self.win), |runtime| {
            let object = runtime.win(self.win)?;
            let window = &object.window;
            let request = match self.request {
                Some(request) => Some(request.checked("request")?),
                None => None,
            };
            let (begun, kind) = if self.there.rank == MPI_PROC_NULL {
                (Begun::Locally, Kind::Put)
            } else {
                let There { rank, displacement, count, datatype } = self.there;
                let datatype = resolve_elements(runtime, count, datatype)?;
                let rank = u32::try_from(rank).map(Rank).map_err(|_| no_rank(window, rank))?;
                if window.is_with_nobody(rank)? {
                    (Begun::Locally, Kind::Put)
                } else {
                    let elements = window.elements(rank, displacement as i64, count, &datatype)?;
                    begin(Checked { runtime, window, datatype, elements })?
                }
            };
            let Some(request) = request else { return Ok(()) };
            let handle = match begun {
                Begun::Locally => SENT,
                Begun::Underway(id) => runtime.adopt_request(kind.object(window, self.there.rank, id))?,
            };
            request.set(handle);
            Ok(())
        })
    }
}

/// What a request stands for.
#[derive(Clone, Copy)]
enum Kind {
    Put,
    Get,
}

impl Kind {
    fn object(self, window: &Window, target: c_int, id: RequestId) -> RequestObject {
        let (comm, errors_to) = (window.communicator().clone(), MPI_COMM_WORLD);
        match self {
            Kind::Put => {
                RequestObject::Send { comm, errors_to, id, to: Rank(target as u32), tag: 0, keeps: None }
            }
            Kind::Get => RequestObject::Receive { comm, errors_to, id, unpack: None },
        }
    }
}

#[cold]
fn no_rank(window: &Window, rank: c_int) -> Error {
    Error::new(Class::Rank, format!("{}: rank {rank} does not exist", window.place()))
}

impl Origin<Sent> {
    /// Has `act` use the elements, where they stand if that can be.
    #[inline]
    fn with_data<R>(self, runtime: &'static Runtime, act: impl FnOnce(Data<'_>) -> Result<R>) -> Result<R> {
        let datatype = resolve_elements(runtime, self.count, self.datatype)?;
        let span = arguments::readable(self.buffer, self.count, &datatype)?;
        if datatype.is_dense() {
            return act(Data::Row(span));
        }
        act(Data::Apart(&Gathered::new(&datatype, self.count, span)?))
    }

    /// The elements as packed operands; of others than `predefined` an error.
    fn operands(self, runtime: &'static Runtime, predefined: Predefined) -> Result<Operands> {
        let datatype = resolve_elements(runtime, self.count, self.datatype)?;
        if self.count > 0 && datatype.made_of() != Some(predefined) {
            let what = format!(
                "the origin's datatype is made of {}, and the target's of {}",
                datatype.made_of().map_or("several predefined datatypes", Predefined::name),
                predefined.name()
            );
            return Err(Error::new(Class::Type, what).remedy("give both the same predefined datatype"));
        }
        let span = arguments::readable(self.buffer, self.count, &datatype)?;
        if datatype.is_dense() {
            return Ok(Operands::InPlace(span));
        }
        Ok(Operands::Packed(arguments::copied(span, self.count, &datatype)?))
    }
}

impl Origin<Received> {
    /// Room for the elements.
    fn room(self, runtime: &'static Runtime) -> Result<Room> {
        let datatype = resolve_elements(runtime, self.count, self.datatype)?;
        let span = arguments::writable(self.buffer, self.count, &datatype)?;
        if datatype.is_dense() {
            return Ok(span.into());
        }
        Ok(Room::Scattered(Box::new(Scattered::new(&datatype, self.count, span)?)))
    }
}

/// Packed operands of an accumulate.
enum Operands {
    InPlace(Payload<'static>),
    Packed(Heap),
}

impl Operands {
    fn payload(&self) -> Payload<'_> {
        match self {
            Operands::InPlace(payload) => *payload,
            Operands::Packed(heap) => heap.payload(),
        }
    }
}

/// The predefined datatype that the target's elements are made of.
fn elements_of(datatype: &Datatype) -> Result<Predefined> {
    let what = || {
        Error::new(Class::Type, "the target's datatype is not made of one predefined datatype")
            .remedy("accumulates take a predefined datatype, or one that is derived from it alone")
    };
    datatype.made_of().ok_or_else(what)
}

/// The operator of an accumulate: one of the library's own (MPI 5.0 §12.3.4).
fn operator(op: MPI_Op) -> Result<Operator> {
    let what = || {
        Error::new(Class::Operator, "an accumulate takes predefined operators only")
            .remedy("use one of MPI_SUM, MPI_REPLACE and the like; an operator of MPI_Op_create is refused")
    };
    operators::predefined(op).ok_or_else(what)
}

fn put(operation: &Operation<'_>, origin: Origin<Sent>) -> c_int {
    operation.begin(|Checked { runtime, window, elements, .. }| {
        let completed_by = operation.completed_by();
        let begun = origin.with_data(runtime, |data| window.put(data, &elements, completed_by))?;
        Ok((begun, Kind::Put))
    })
}

fn get(operation: &Operation<'_>, origin: Origin<Received>) -> c_int {
    operation.begin(|Checked { runtime, window, elements, .. }| {
        let room = origin.room(runtime)?;
        Ok((window.get(&elements, room, operation.completed_by())?, Kind::Get))
    })
}

fn accumulate(operation: &Operation<'_>, origin: Origin<Sent>, op: MPI_Op) -> c_int {
    operation.begin(|Checked { runtime, window, datatype, elements }| {
        let (operator, predefined) = (operator(op)?, elements_of(&datatype)?);
        let operands = origin.operands(runtime, predefined)?;
        window.accumulate(operands.payload(), &elements, (operator, predefined))?;
        Ok((Begun::Locally, Kind::Put))
    })
}

fn get_accumulate(
    operation: &Operation<'_>,
    origin: Origin<Sent>,
    result: Origin<Received>,
    op: MPI_Op,
) -> c_int {
    operation.begin(|Checked { runtime, window, datatype, elements }| {
        let (operator, predefined) = (operator(op)?, elements_of(&datatype)?);
        let operands = match operator {
            // Its buffer, count and datatype mean nothing (MPI 5.0 §12.3.4).
            Operator::NoOperation => Operands::InPlace(Payload::EMPTY),
            _ => origin.operands(runtime, predefined)?,
        };
        let room = result.room(runtime)?;
        let what = (operator, predefined);
        let begun =
            window.get_accumulate(operands.payload(), &elements, what, room, operation.completed_by())?;
        Ok((begun, Kind::Get))
    })
}

/// Fetches one element of a predefined datatype, and combines it with the origin's (MPI 5.0 §12.3.4).
fn fetch(operation: &Operation<'_>, origin: Origin<Sent>, result: Origin<Received>, op: MPI_Op) -> c_int {
    let is_derived = datatypes::predefined(origin.datatype).is_none() && origin.datatype != MPI_DATATYPE_NULL;
    if is_derived && operation.there.rank != MPI_PROC_NULL {
        return operation.begin(|_| {
            Err(Error::new(Class::Type, "the datatype is not a predefined one")
                .remedy("MPI_Get_accumulate takes derived datatypes"))
        });
    }
    get_accumulate(operation, origin, result, op)
}

/// Writes to a member's memory in which this process stores, where nothing is unusual. `None`: nothing has
/// happened.
#[inline(always)]
fn put_usual(origin: Origin<Sent>, there: There, win: MPI_Win) -> Option<()> {
    let bytes = usual_bytes(origin, there)?;
    let rank = Rank(u32::try_from(there.rank).ok()?);
    state::usual_window(win, |window| {
        let mut memory = window.reach(rank, there.displacement as i64, bytes)?;
        memory.write_at(0, origin.buffer.payload(0, bytes));
        Some(())
    })
}

/// Reads from a member's memory that this process loads from, where nothing is unusual. `None`: nothing has
/// happened.
#[inline(always)]
fn get_usual(origin: Origin<Received>, there: There, win: MPI_Win) -> Option<()> {
    let bytes = usual_bytes(origin, there)?;
    let rank = Rank(u32::try_from(there.rank).ok()?);
    state::usual_window(win, |window| {
        let memory = window.reach(rank, there.displacement as i64, bytes)?;
        origin.buffer.memory(0, bytes).write_at(0, memory.payload());
        Some(())
    })
}

/// The length of elements of predefined datatypes without gaps, as many bytes on both sides.
#[inline(always)]
fn usual_bytes<B: Buffer>(origin: Origin<B>, there: There) -> Option<usize> {
    let bytes = row_bytes(origin.datatype, origin.count)?;
    let is_usual = row_bytes(there.datatype, there.count) == Some(bytes) && origin.buffer.is_plain();
    is_usual.then_some(bytes)
}

/// Changes one element of a member's memory that this process loads and stores, where nothing is unusual.
/// `None`: nothing has happened.
#[inline(always)]
fn change_usual(
    (origin, result): (Sent, Received),
    there: There,
    (change, compare): (Change, Sent),
    win: MPI_Win,
) -> Option<()> {
    let predefined = datatypes::predefined(there.datatype)?;
    let bytes = row_bytes(there.datatype, 1)?;
    let rank = Rank(u32::try_from(there.rank).ok()?);
    let reads = change == Change::Combine(Operator::NoOperation);
    let compares = change == Change::CompareAndSwap;
    if !(result.is_plain() && (reads || origin.is_plain()) && (!compares || compare.is_plain())) {
        return None;
    }
    let given =
        |is_given: bool, buffer: Sent| if is_given { buffer.payload(0, bytes) } else { Payload::EMPTY };
    let operands = Given { operands: given(!reads, origin), compare: given(compares, compare) };
    state::usual_window(win, |window| {
        let element = (rank, there.displacement as i64);
        window.change_reached(element, (change, predefined), operands, &mut result.memory(0, bytes))
    })
}

/// Writes to a member's memory.
#[inline]
pub fn mpi_put(
    origin_addr: Sent,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> c_int {
    let there = There::new(target_rank, target_disp, target_count, target_datatype);
    let origin = Origin::new(origin_addr, origin_count, origin_datatype);
    match put_usual(origin, there, win) {
        Some(()) => MPI_SUCCESS,
        None => put(&Operation::new("MPI_Put", win, there), origin),
    }
}

/// Writes to a member's memory, with a request that is over when the origin's buffer is free.
pub fn mpi_rput(
    origin_addr: Sent,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let there = There::new(target_rank, target_disp, target_count, target_datatype);
    let origin = Origin::new(origin_addr, origin_count, origin_datatype);
    put(&Operation::new("MPI_Rput", win, there).with_request(request), origin)
}

/// Reads from a member's memory.
pub fn mpi_get(
    origin_addr: Received,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> c_int {
    let there = There::new(target_rank, target_disp, target_count, target_datatype);
    let origin = Origin::new(origin_addr, origin_count, origin_datatype);
    match get_usual(origin, there, win) {
        Some(()) => MPI_SUCCESS,
        None => get(&Operation::new("MPI_Get", win, there), origin),
    }
}

/// Reads from a member's memory, with a request that is over when the data is there.
pub fn mpi_rget(
    origin_addr: Received,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let there = There::new(target_rank, target_disp, target_count, target_datatype);
    let origin = Origin::new(origin_addr, origin_count, origin_datatype);
    get(&Operation::new("MPI_Rget", win, there).with_request(request), origin)
}

/// Combines elements of a member's memory with those of the origin.
pub fn mpi_accumulate(
    origin_addr: Sent,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let there = There::new(target_rank, target_disp, target_count, target_datatype);
    let origin = Origin::new(origin_addr, origin_count, origin_datatype);
    accumulate(&Operation::new("MPI_Accumulate", win, there), origin, op)
}

/// Combines elements of a member's memory with those of the origin, with a request that is over when the
/// origin's buffer is free.
pub fn mpi_raccumulate(
    origin_addr: Sent,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let there = There::new(target_rank, target_disp, target_count, target_datatype);
    let origin = Origin::new(origin_addr, origin_count, origin_datatype);
    accumulate(&Operation::new("MPI_Raccumulate", win, there).with_request(request), origin, op)
}

/// Combines elements of a member's memory with those of the origin, and fetches what they were before.
pub fn mpi_get_accumulate(
    origin_addr: Sent,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    result_addr: Received,
    result_count: MPI_Count,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let there = There::new(target_rank, target_disp, target_count, target_datatype);
    let origin = Origin::new(origin_addr, origin_count, origin_datatype);
    let result = Origin::new(result_addr, result_count, result_datatype);
    get_accumulate(&Operation::new("MPI_Get_accumulate", win, there), origin, result, op)
}

/// Combines elements of a member's memory with those of the origin, and fetches what they were before, with a
/// request that is over when that is there.
pub fn mpi_rget_accumulate(
    origin_addr: Sent,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    result_addr: Received,
    result_count: MPI_Count,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: Place<'_, MPI_Request>,
) -> c_int {
    let there = There::new(target_rank, target_disp, target_count, target_datatype);
    let origin = Origin::new(origin_addr, origin_count, origin_datatype);
    let result = Origin::new(result_addr, result_count, result_datatype);
    let operation = Operation::new("MPI_Rget_accumulate", win, there).with_request(request);
    get_accumulate(&operation, origin, result, op)
}

/// Combines one element of a member's memory with one of the origin, and fetches what it was before.
pub fn mpi_fetch_and_op(
    origin_addr: Sent,
    result_addr: Received,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let there = There::new(target_rank, target_disp, 1, datatype);
    let origin = Origin::new(origin_addr, 1, datatype);
    let result = Origin::new(result_addr, 1, datatype);
    let change = operators::predefined(op).map(|operator| (Change::Combine(operator), Sent::NULL));
    match change.and_then(|change| change_usual((origin_addr, result_addr), there, change, win)) {
        Some(()) => MPI_SUCCESS,
        None => fetch(&Operation::new("MPI_Fetch_and_op", win, there), origin, result, op),
    }
}

/// Writes one element of a member's memory where it equals another one, and fetches what it was before.
pub fn mpi_compare_and_swap(
    origin_addr: Sent,
    compare_addr: Sent,
    result_addr: Received,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    win: MPI_Win,
) -> c_int {
    let there = There::new(target_rank, target_disp, 1, datatype);
    let change = (Change::CompareAndSwap, compare_addr);
    if datatypes::predefined(datatype).is_some_and(is_compared)
        && change_usual((origin_addr, result_addr), there, change, win).is_some()
    {
        return MPI_SUCCESS;
    }
    let operation = Operation::new("MPI_Compare_and_swap", win, there);
    operation.begin(|Checked { runtime, window, datatype: element, elements }| {
        let predefined = compared(&element)?;
        let origin = |buffer| Origin::new(buffer, 1, datatype);
        let operand = origin(origin_addr).operands(runtime, predefined)?;
        let compare = origin(compare_addr).operands(runtime, predefined)?;
        let room = Origin::new(result_addr, 1, datatype).room(runtime)?;
        let begun =
            window.compare_and_swap(operand.payload(), compare.payload(), &elements, predefined, room)?;
        Ok((begun, Kind::Get))
    })
}

/// Whether elements can be compared as bytes.
fn is_compared(predefined: Predefined) -> bool {
    use datatype::Class as Numbers;
    !matches!(predefined.class(), Numbers::Floating | Numbers::Complex | Numbers::Pair)
}

/// The predefined datatype of elements that can be compared: integers, logicals and bytes (MPI 5.0 §12.3.4).
fn compared(datatype: &Datatype) -> Result<Predefined> {
    let what = || {
        Error::new(Class::Type, "a compare-and-swap takes one integer, logical or byte")
            .remedy("use a predefined datatype such as MPI_INT64_T")
    };
    datatype.predefined().filter(|predefined| is_compared(*predefined)).ok_or_else(what)
}
