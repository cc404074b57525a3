//! Reduction: each element of one buffer combined with its neighbour in another, `inout = incoming op inout`.
//!
//! The kernels work on packed elements, at any address, in one pass ([`fold()`]). [`reduce`] is for slices,
//! [`reduce_packed`] for claims on memory; elements with gaps go through a small buffer that stays in the
//! first-level cache ([`reduce_elements`]).

use std::ops::Range;

use fabric::fold::{fold, fold_choosing, fold_into};
use fabric::{Payload, UserMemory, made};
use half::f16;
use thiserror::Error;

use crate::binary128::Quadruple;
use crate::element::{Bits, Complex, Element, Located, LongDouble, Number, Ordered};
use crate::{Basic, Datatype, Operator, Predefined, ShortClaim, pack, unpack, x87};

/// Why two buffers cannot be combined.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReduceError {
    /// The operator is not defined for the datatype.
    #[error(
        "reduce: {operator} is not defined for {predefined}\nthe table of predefined operators says which datatypes each takes; MPI_Op_create makes others"
    )]
    NotDefined {
        /// The operator.
        operator: Operator,
        /// The datatype.
        predefined: Predefined,
    },
    /// Buffers of different length, or not of whole elements.
    #[error(
        "reduce: {incoming} bytes cannot be combined with {inout} bytes of {predefined}\nboth must be the same number of whole elements"
    )]
    UnequalBuffers {
        /// Bytes coming in.
        incoming: usize,
        /// Bytes they are to be combined with.
        inout: usize,
        /// The datatype.
        predefined: Predefined,
    },
    /// A claim does not cover its elements.
    #[error(transparent)]
    ShortClaim(#[from] ShortClaim),
}

/// Combines packed elements: `inout[i] = incoming[i] op inout[i]`. Neither slice need be aligned.
///
/// Results do not depend on how a buffer is cut in chunks, and those of commuted operands are the same, but
/// for the bits inside a NaN.
///
/// # Errors
/// [`ReduceError`]; nothing is written then.
pub fn reduce(
    operator: Operator,
    predefined: Predefined,
    incoming: &[u8],
    inout: &mut [u8],
) -> Result<(), ReduceError> {
    let bytes = element_bytes(operator, predefined)?;
    if incoming.len() != inout.len() || !inout.len().is_multiple_of(bytes) {
        let (incoming, inout) = (incoming.len(), inout.len());
        return Err(ReduceError::UnequalBuffers { incoming, inout, predefined });
    }
    let mut done = Ok(());
    let left = Payload::from(incoming);
    made(inout, |out| done = combine(operator, predefined, Operands { left, right: None, out }));
    done
}

/// Combines one element of eight bytes, `left op right`; operands and result are the bits of the element. It
/// takes a few instructions, where [`reduce`] prepares for any number of elements. `None` where the operator
/// is not legal for the datatype, or where the element is neither an integer nor a real number of eight
/// bytes.
///
/// One function and not a part of its callers: the same operands in the same order give all of them the same
/// bits, also inside a NaN.
#[inline(never)]
#[must_use]
pub fn reduce_eight_bytes(operator: Operator, predefined: Predefined, left: u64, right: u64) -> Option<u64> {
    let operands = [left, right].map(u64::to_ne_bytes);
    let legal = operator.is_legal_for(predefined).then(|| predefined.basic());
    let result = match legal? {
        Basic::F64 => one_real::<f64>(operator, operands),
        Basic::I64 => one_integer::<i64>(operator, operands),
        Basic::U64 => one_integer::<u64>(operator, operands),
        _ => None,
    };
    result.map(u64::from_ne_bytes)
}

/// Combines one element of four bytes, `left op right`; operands and result are the bits of the element. It
/// takes a few instructions, where [`reduce`] prepares for any number of elements. `None` where the operator
/// is not legal for the datatype, or where the element is neither an integer nor a real number of four bytes.
#[inline(never)]
#[must_use]
pub fn reduce_four_bytes(operator: Operator, predefined: Predefined, left: u32, right: u32) -> Option<u32> {
    let operands = [left, right].map(u32::to_ne_bytes);
    let legal = operator.is_legal_for(predefined).then(|| predefined.basic());
    let result = match legal? {
        Basic::F32 => one_real::<f32>(operator, operands),
        Basic::I32 => one_integer::<i32>(operator, operands),
        Basic::U32 => one_integer::<u32>(operator, operands),
        _ => None,
    };
    result.map(u32::from_ne_bytes)
}

/// The kernels of [`integers`] for one element.
#[inline]
fn one_integer<T: Number + Ordered + Bits>(
    operator: Operator,
    operands: [T::Packed; 2],
) -> Option<T::Packed> {
    let [left, right] = operands.map(T::of_packed);
    let result = match operator {
        Operator::BitAnd => left.and(right),
        Operator::BitOr => left.or(right),
        Operator::BitXor => left.xor(right),
        Operator::LogicalAnd => T::from_truth(left.is_true() & right.is_true()),
        Operator::LogicalOr => T::from_truth(left.is_true() | right.is_true()),
        Operator::LogicalXor => T::from_truth(left.is_true() ^ right.is_true()),
        _ => return one_real::<T>(operator, operands),
    };
    Some(result.packed())
}

/// Those of [`reals`].
#[inline]
fn one_real<T: Number + Ordered>(operator: Operator, operands: [T::Packed; 2]) -> Option<T::Packed> {
    let [left, right] = operands.map(T::of_packed);
    let result = match operator {
        Operator::Min => left.lower(right),
        Operator::Max => left.higher(right),
        Operator::Sum => left.plus(right),
        Operator::Prod => left.times(right),
        _ => return None,
    };
    Some(result.packed())
}

/// Combines `count` packed elements over claims on memory: `inout[i] = incoming[i] op inout[i]`. Each element
/// takes [`Predefined::size`] bytes. The claims may be longer: what is behind the elements is not touched.
///
/// # Errors
/// [`ReduceError`]; nothing is written then.
pub fn reduce_packed(
    operator: Operator,
    predefined: Predefined,
    count: usize,
    incoming: Payload<'_>,
    inout: &mut UserMemory,
) -> Result<(), ReduceError> {
    let each = element_bytes(operator, predefined)?;
    let bytes = each.saturating_mul(count);
    if incoming.bytes() < bytes || inout.bytes() < bytes {
        let (incoming, inout) = (incoming.bytes(), inout.bytes());
        return Err(ReduceError::UnequalBuffers { incoming, inout, predefined });
    }
    combine(operator, predefined, Operands { left: incoming.part(0, bytes), right: None, out: inout })
}

/// Combines packed elements: `out = left op right`, or `out = left op out` where there is no `right`, as many
/// whole elements as all of them hold. `out` overlaps neither operand. One element of four or eight bytes
/// takes a few instructions; any rank that combines the same operands in the same order gets the same bits,
/// also inside a NaN, as long as all combine as many elements at a time.
///
/// # Errors
/// [`ReduceError::NotDefined`]; nothing is written then.
#[inline]
pub fn combine_packed(
    operator: Operator,
    predefined: Predefined,
    left: Payload<'_>,
    right: Option<Payload<'_>>,
    out: &mut UserMemory,
) -> Result<(), ReduceError> {
    let bytes = left.bytes().min(out.bytes()).min(right.map_or(usize::MAX, |right| right.bytes()));
    if bytes == 8
        && let Some(done) = one_element(left, right, out, |[left, right]| {
            let operands = [left, right].map(u64::from_ne_bytes);
            reduce_eight_bytes(operator, predefined, operands[0], operands[1]).map(u64::to_ne_bytes)
        })
    {
        return Ok(done);
    }
    if bytes == 4
        && let Some(done) = one_element(left, right, out, |[left, right]| {
            let operands = [left, right].map(u32::from_ne_bytes);
            reduce_four_bytes(operator, predefined, operands[0], operands[1]).map(u32::to_ne_bytes)
        })
    {
        return Ok(done);
    }
    combine_many(operator, predefined, bytes, Operands { left, right, out })
}

/// Combines one element of `N` bytes; `None`, and nothing has happened, where `combine` cannot.
#[inline(always)]
fn one_element<const N: usize>(
    left: Payload<'_>,
    right: Option<Payload<'_>>,
    out: &mut UserMemory,
    combine: impl FnOnce([[u8; N]; 2]) -> Option<[u8; N]>,
) -> Option<()> {
    let (left, _) = left.split_first()?;
    let right = match right {
        Some(right) => right.split_first()?.0,
        None => out.payload().split_first()?.0,
    };
    let result = combine([left, right])?;
    out.write_at(0, Payload::from(&result[..]));
    Some(())
}

#[inline(never)]
fn combine_many(
    operator: Operator,
    predefined: Predefined,
    bytes: usize,
    Operands { left, right, out }: Operands<'_, '_>,
) -> Result<(), ReduceError> {
    let each = element_bytes(operator, predefined)?;
    let bytes = bytes / each * each;
    let right = right.map(|right| right.part(0, bytes));
    // All of `out` goes down: an offer goes with it.
    combine(operator, predefined, Operands { left: left.part(0, bytes), right, out })
}

/// Combines `count` elements as they stand in a program's memory, with the gaps that pairs have. The result
/// is `inout[i] = incoming[i] op inout[i]`. Both claims cover [`Datatype::span`]; gaps are left as they are.
///
/// # Errors
/// [`ReduceError`]; nothing is written then.
pub fn reduce_elements(
    operator: Operator,
    predefined: Predefined,
    count: usize,
    incoming: Payload<'_>,
    inout: &mut UserMemory,
) -> Result<(), ReduceError> {
    let each = element_bytes(operator, predefined)?;
    let datatype = predefined.datatype();
    if datatype.is_dense() {
        return reduce_packed(operator, predefined, count, incoming, inout);
    }
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    combine_apart(datatype, count, each, incoming, inout, |left, right| {
        reduce(operator, predefined, left, right)
    })
}

/// Combines `count` elements of `datatype` as they stand in a program's memory. Each element has `each` bytes
/// in packed form. `combine` is called with packed elements of both sides, as many as fit into a small buffer
/// at a time. Nothing is written where a claim does not cover its elements.
pub(crate) fn combine_apart<E: From<ShortClaim>>(
    datatype: &Datatype,
    count: i64,
    each: usize,
    incoming: Payload<'_>,
    inout: &mut UserMemory,
    combine: impl FnMut(&[u8], &mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    check_claims(datatype, count, incoming, inout)?;
    let bytes = each.saturating_mul(count as usize);
    let job = ElementsJob { datatype, count, each, bytes };
    match bytes {
        ..=STAGE_BYTES_SMALL => job.run(&mut [0; 2 * STAGE_BYTES_SMALL], incoming, inout, combine),
        // Threads may have small stacks.
        _ => job.run(&mut vec![0; 2 * STAGE_BYTES], incoming, inout, combine),
    }
}

/// A reduction over claims that cover the span of `count` elements, which are `bytes` bytes in packed form.
struct ElementsJob<'a> {
    datatype: &'a Datatype,
    count: i64,
    each: usize,
    bytes: usize,
}

impl ElementsJob<'_> {
    fn run<E: From<ShortClaim>>(
        &self,
        stages: &mut [u8],
        incoming: Payload<'_>,
        inout: &mut UserMemory,
        mut combine: impl FnMut(&[u8], &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let stage = stages.len() / 2;
        let (left, right) = stages.split_at_mut(stage);
        for chunk in chunks(self.bytes, self.each, stage) {
            let (left, right) = (&mut left[..chunk.len()], &mut right[..chunk.len()]);
            let at = chunk.start as i64;
            pack(self.datatype, self.count, incoming, left, at)?;
            pack(self.datatype, self.count, inout.payload(), right, at)?;
            combine(left, right)?;
            unpack(self.datatype, self.count, Payload::from(&*right), inout, at)?;
        }
        Ok(())
    }
}

/// `0..bytes` in chunks of whole elements, each at most `stage` bytes.
fn chunks(bytes: usize, each: usize, stage: usize) -> impl Iterator<Item = Range<usize>> {
    let chunk = stage / each * each;
    (0..bytes).step_by(chunk).map(move |at| at..bytes.min(at + chunk))
}

/// Whether this machine computes with elements of this format. Bytes move all the same where it does not.
#[inline]
pub(crate) fn is_computable(basic: Basic) -> bool {
    x87::AVAILABLE || !matches!(basic, Basic::F80 | Basic::C80 | Basic::PairF80I32)
}

/// Bytes of a packed element, when the operator is defined for it.
fn element_bytes(operator: Operator, predefined: Predefined) -> Result<usize, ReduceError> {
    let refusal = ReduceError::NotDefined { operator, predefined };
    operator.is_legal_for(predefined).then(|| predefined.basic().bytes()).ok_or(refusal)
}

/// Both claims are looked at before the first byte is written.
fn check_claims(
    datatype: &Datatype,
    count: i64,
    incoming: Payload<'_>,
    inout: &UserMemory,
) -> Result<(), ShortClaim> {
    pack(datatype, count, incoming, &mut [], 0)?;
    pack(datatype, count, inout.payload(), &mut [], 0)?;
    Ok(())
}

/// Two operands, and where the result comes to stand.
struct Operands<'a, 'b> {
    left: Payload<'a>,
    /// Where it is not what stands in `out` before.
    right: Option<Payload<'a>>,
    out: &'b mut UserMemory,
}

/// Combines as many whole elements as all hold.
fn combine(operator: Operator, predefined: Predefined, of: Operands<'_, '_>) -> Result<(), ReduceError> {
    let done = match operator {
        Operator::Replace => {
            of.out.write_at(0, of.left);
            Some(())
        }
        Operator::NoOperation => {
            of.right.map(|right| of.out.write_at(0, right));
            Some(())
        }
        _ => dispatch(operator, predefined.basic(), of),
    };
    done.ok_or(ReduceError::NotDefined { operator, predefined })
}

/// Calls the kernel for a number format; `None` when there is none for the operator.
fn dispatch(operator: Operator, basic: Basic, of: Operands<'_, '_>) -> Option<()> {
    match basic {
        Basic::I8 => integers::<i8>(operator, of),
        Basic::I16 => integers::<i16>(operator, of),
        Basic::I32 => integers::<i32>(operator, of),
        Basic::I64 => integers::<i64>(operator, of),
        Basic::I128 => integers::<i128>(operator, of),
        Basic::U8 => integers::<u8>(operator, of),
        Basic::U16 => integers::<u16>(operator, of),
        Basic::U32 => integers::<u32>(operator, of),
        Basic::U64 => integers::<u64>(operator, of),
        Basic::U128 => integers::<u128>(operator, of),
        Basic::F16 => reals::<f16>(operator, of),
        Basic::F32 => reals::<f32>(operator, of),
        Basic::F64 => reals::<f64>(operator, of),
        Basic::F80 => reals::<LongDouble>(operator, of),
        Basic::F128 => reals::<Quadruple>(operator, of),
        Basic::C16 => numbers::<Complex<f16>>(operator, of),
        Basic::C32 => numbers::<Complex<f32>>(operator, of),
        Basic::C64 => numbers::<Complex<f64>>(operator, of),
        Basic::C80 => numbers::<Complex<LongDouble>>(operator, of),
        Basic::C128 => numbers::<Complex<Quadruple>>(operator, of),
        Basic::PairF32I32 => pairs::<f32, i32>(operator, of),
        Basic::PairF64I32 => pairs::<f64, i32>(operator, of),
        Basic::PairI64I32 => pairs::<i64, i32>(operator, of),
        Basic::PairI32I32 => pairs::<i32, i32>(operator, of),
        Basic::PairI16I32 => pairs::<i16, i32>(operator, of),
        Basic::PairF80I32 => pairs::<LongDouble, i32>(operator, of),
        Basic::PairF32F32 => pairs::<f32, f32>(operator, of),
        Basic::PairF64F64 => pairs::<f64, f64>(operator, of),
    }
}

fn integers<T: Number + Ordered + Bits>(operator: Operator, of: Operands<'_, '_>) -> Option<()> {
    match operator {
        Operator::BitAnd => each(of, T::and),
        Operator::BitOr => each(of, T::or),
        Operator::BitXor => each(of, T::xor),
        Operator::LogicalAnd => each(of, |a: T, b| T::from_truth(a.is_true() & b.is_true())),
        Operator::LogicalOr => each(of, |a: T, b| T::from_truth(a.is_true() | b.is_true())),
        Operator::LogicalXor => each(of, |a: T, b| T::from_truth(a.is_true() ^ b.is_true())),
        _ => return reals::<T>(operator, of),
    }
    Some(())
}

fn reals<T: Number + Ordered>(operator: Operator, of: Operands<'_, '_>) -> Option<()> {
    match operator {
        Operator::Min if T::IS_QUICK => each(of, T::lower),
        Operator::Max if T::IS_QUICK => each(of, T::higher),
        Operator::Min => each_chosen(of, T::lower),
        Operator::Max => each_chosen(of, T::higher),
        _ => return numbers::<T>(operator, of),
    }
    Some(())
}

fn numbers<T: Number>(operator: Operator, of: Operands<'_, '_>) -> Option<()> {
    match operator {
        Operator::Sum => each(of, T::plus),
        Operator::Prod => each(of, T::times),
        _ => return None,
    }
    Some(())
}

fn pairs<V: Ordered, I: Ordered>(operator: Operator, of: Operands<'_, '_>) -> Option<()> {
    match operator {
        Operator::MinLocation => each_chosen(of, Located::<V, I>::lowest),
        Operator::MaxLocation => each_chosen(of, Located::<V, I>::highest),
        _ => return None,
    }
    Some(())
}

/// One kernel: a loop over elements as values.
#[inline]
fn each<T: Element>(Operands { left, right, out }: Operands<'_, '_>, with: impl Fn(T, T) -> T) {
    let with = |left, right| with(T::of_packed(left), T::of_packed(right)).packed();
    match right {
        None => fold(left, out, with),
        Some(right) => fold_into(left, right, out, with),
    }
}

/// One kernel whose result is always one of its two operands, such as a minimum: a loop over elements as
/// values.
#[inline]
fn each_chosen<T: Element>(Operands { left, right, out }: Operands<'_, '_>, with: impl Fn(T, T) -> T) {
    // These do not wait for memory: a copy before costs little.
    let bytes = right.map_or(out.bytes(), |right| out.write_at(0, right));
    fold_choosing(left, &mut out.part(0, bytes), |left, right| {
        with(T::of_packed(left), T::of_packed(right)).packed()
    });
}

/// A chunk of each buffer is copied to the stack; both together fit well into a first-level cache.
const STAGE_BYTES: usize = 4096;

/// The stage of short reductions, for which clearing the other would cost more than the work.
const STAGE_BYTES_SMALL: usize = 128;
