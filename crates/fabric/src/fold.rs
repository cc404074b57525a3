//! Elements of one memory combined with those of another, in one pass: `inout = with(incoming, inout)`.
//!
//! What the elements mean knows whoever calls; here they are arrays of bytes. The loop is compiled once for
//! every processor and for those with vectors of 32 and of 64 bytes, and which one runs is asked of the
//! processor. Elements do not know of each other, so all of them give the same bits.

use crate::{Payload, UserMemory};

/// Bytes of an element: no gaps, no alignment, and any bytes are one.
///
/// # Safety
/// All of that is so.
pub unsafe trait Bytes: Copy {}

// SAFETY: a byte is a byte.
unsafe impl Bytes for u8 {}
// SAFETY: an array has the alignment of its elements, and no gaps between them.
unsafe impl<B: Bytes, const COUNT: usize> Bytes for [B; COUNT] {}

/// Bytes of two kinds side by side.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Beside<A, B>(pub A, pub B);

// SAFETY: neither part is aligned, so there is no gap between them or behind them.
unsafe impl<A: Bytes, B: Bytes> Bytes for Beside<A, B> {}

/// The first element; `None` where there are not bytes enough.
#[inline]
#[must_use]
pub fn front<B: Bytes>(payload: Payload<'_>) -> Option<B> {
    // SAFETY: the claim covers an element, any bytes are one, and bytes need no alignment.
    (size_of::<B>() <= payload.bytes()).then(|| unsafe { payload.start().cast::<B>().read() })
}

/// Combines as many elements as both hold: `inout[i] = with(incoming[i], inout[i])`. `with` is best small and
/// inlined.
///
/// The two may overlap; each element is read before it is written then.
#[inline]
pub fn fold<B: Bytes>(incoming: Payload<'_>, inout: &mut UserMemory, with: impl Fn(B, B) -> B) {
    let (from, to, count) = elements(incoming, inout);
    // SAFETY: both claims cover `count` elements.
    unsafe { each_by_longest_vectors::<B, true, false>(from, to, to, count, with) }
}

/// Combines as many elements as all three hold, into other memory: `out[i] = with(left[i], right[i])`. `with`
/// is best small and inlined, and `out` is best apart from both operands. If these elements are all that
/// `out` holds, an [offer](UserMemory::offer) to write over an operand, too, is taken.
#[inline]
pub fn fold_into<B: Bytes>(
    left: Payload<'_>,
    right: Payload<'_>,
    out: &mut UserMemory,
    with: impl Fn(B, B) -> B,
) {
    let (one, to, count) = elements(left, out);
    let (other, count) = (right.start().cast::<B>(), count.min(right.bytes() / size_of::<B>()));
    if count * size_of::<B>() == out.bytes() {
        if let Some(over) = out.take_offer(right.start()) {
            // SAFETY: all claims cover `count` elements, also where the offer begins.
            return unsafe {
                each_by_longest_vectors::<B, true, true>(one, over.cast(), to, count, with);
            };
        }
        if let Some(over) = out.take_offer(left.start()) {
            let with = |right, left| with(left, right);
            // SAFETY: as above.
            return unsafe {
                each_by_longest_vectors::<B, true, true>(other, over.cast(), to, count, with);
            };
        }
    }
    // SAFETY: all claims cover `count` elements; nothing is written over the operands.
    unsafe { each_by_longest_vectors::<B, false, true>(one, other.cast_mut(), to, count, with) }
}

/// Combines as many elements as both hold, `inout[i] = with(incoming[i], inout[i])`, where `with` gives one
/// of its two arguments by a comparison. The two memories may overlap; each element is read before it is
/// written then.
///
/// Compilers make stores under a mask of that where vectors are wide, and on some processors these take many
/// times as long as what they save. Vectors of 16 bytes have no such stores.
#[inline]
pub fn fold_choosing<B: Bytes>(incoming: Payload<'_>, inout: &mut UserMemory, with: impl Fn(B, B) -> B) {
    let (from, to, count) = elements(incoming, inout);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if WIDE_BYTES_MIN <= count * size_of::<B>() && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: both claims cover `count` elements, and the processor has what the function needs.
        return unsafe { each_by_16_bytes::<B, true, false>(from, to, to, count, with) };
    }
    // SAFETY: both claims cover `count` elements.
    unsafe { each::<B, true, false>(from, to, to, count, with) }
}

/// The longest vectors that serve.
#[cfg(all(target_arch = "x86_64", not(miri)))]
enum Vectors {
    Usual,
    Of32,
    Of64,
}

/// Those of this processor, for so many bytes. The first processors with vectors of 64 bytes run slower for a
/// while once they have met one; those that have AVX-512 VBMI2 as well do not.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn vectors_for(bytes: usize) -> Vectors {
    use std::arch::is_x86_feature_detected;
    if bytes < WIDE_BYTES_MIN {
        return Vectors::Usual;
    }
    // All of these come with VBMI2 on every processor so far; what is relied on is asked for.
    let has_long = is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    if has_long {
        Vectors::Of64
    } else if is_x86_feature_detected!("avx2") {
        Vectors::Of32
    } else {
        Vectors::Usual
    }
}

/// Where the elements of both begin, and how many of them both hold.
#[inline]
fn elements<B: Bytes>(incoming: Payload<'_>, inout: &UserMemory) -> (*const B, *mut B, usize) {
    let count = incoming.bytes().min(inout.bytes()) / size_of::<B>();
    (incoming.start().cast(), inout.start().cast(), count)
}

/// [`each`], by the longest vectors that serve.
///
/// # Safety
/// `one` and `other` are readable, and what is written (`other` where `OVER`, `to` where `APART`) is
/// writable, for `count` elements. Others may write there meanwhile; then results are made of any mixture of
/// old and new bytes.
#[inline]
unsafe fn each_by_longest_vectors<B: Bytes, const OVER: bool, const APART: bool>(
    one: *const B,
    other: *mut B,
    to: *mut B,
    count: usize,
    with: impl Fn(B, B) -> B,
) {
    // SAFETY: the caller's promise is handed on, and the processor has what each of these needs.
    unsafe {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        match vectors_for(count * size_of::<B>()) {
            Vectors::Of64 => return each_by_64_bytes::<B, OVER, APART>(one, other, to, count, with),
            Vectors::Of32 => return each_by_32_bytes::<B, OVER, APART>(one, other, to, count, with),
            Vectors::Usual => {}
        }
        each::<B, OVER, APART>(one, other, to, count, with);
    }
}

/// [`each`], in the instructions of processors with vectors of 64 bytes.
///
/// # Safety
/// `one` and `other` are readable, and what is written (`other` where `OVER`, `to` where `APART`) is
/// writable, for `count` elements. Others may write there meanwhile; then results are made of any mixture of
/// old and new bytes. The processor has AVX-512 with its BW, DQ and VL.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn each_by_64_bytes<B: Bytes, const OVER: bool, const APART: bool>(
    one: *const B,
    other: *mut B,
    to: *mut B,
    count: usize,
    with: impl Fn(B, B) -> B,
) {
    // SAFETY: the caller's promise is handed on.
    unsafe { each::<B, OVER, APART>(one, other, to, count, with) }
}

/// [`each`], in the instructions of processors with vectors of 32 bytes.
///
/// # Safety
/// `one` and `other` are readable, and what is written (`other` where `OVER`, `to` where `APART`) is
/// writable, for `count` elements. Others may write there meanwhile; then results are made of any mixture of
/// old and new bytes. The processor has AVX2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
unsafe fn each_by_32_bytes<B: Bytes, const OVER: bool, const APART: bool>(
    one: *const B,
    other: *mut B,
    to: *mut B,
    count: usize,
    with: impl Fn(B, B) -> B,
) {
    // SAFETY: the caller's promise is handed on.
    unsafe { each::<B, OVER, APART>(one, other, to, count, with) }
}

/// [`each`], in the instructions of processors with all that there is for vectors of 16 bytes.
///
/// # Safety
/// `one` and `other` are readable, and what is written (`other` where `OVER`, `to` where `APART`) is
/// writable, for `count` elements. Others may write there meanwhile; then results are made of any mixture of
/// old and new bytes. The processor has SSE 4.2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse4.2")]
unsafe fn each_by_16_bytes<B: Bytes, const OVER: bool, const APART: bool>(
    one: *const B,
    other: *mut B,
    to: *mut B,
    count: usize,
    with: impl Fn(B, B) -> B,
) {
    // SAFETY: the caller's promise is handed on.
    unsafe { each::<B, OVER, APART>(one, other, to, count, with) }
}

/// The loop: what comes of one operand and the other is written OVER the other, or to memory APART from both,
/// or to both. Which of these is known when it is compiled, since a compiler that is told of one memory by
/// two names takes an element at a time.
///
/// # Safety
/// Both operands are readable, and what is written is writable, for `count` elements. Others may write there
/// meanwhile; then results are made of any mixture of old and new bytes.
#[inline(always)]
unsafe fn each<B: Bytes, const OVER: bool, const APART: bool>(
    one: *const B,
    other: *mut B,
    to: *mut B,
    count: usize,
    with: impl Fn(B, B) -> B,
) {
    for at in 0..count {
        // SAFETY: `at < count`; bytes need no alignment.
        unsafe {
            let result = with(one.add(at).read(), other.add(at).read());
            if APART {
                to.add(at).write(result);
            }
            if OVER {
                other.add(at).write(result);
            }
        }
    }
}

/// Shorter memory is not worth the question what the processor can do.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const WIDE_BYTES_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Heap, made};

    fn memory(bytes: &[u8]) -> Heap {
        let heap = Heap::new(bytes.len());
        heap.memory().write_at(0, Payload::from(bytes));
        heap
    }

    #[test]
    fn whole_elements_that_both_hold_are_combined() {
        for (incoming, inout) in [(7, 9), (9, 7), (400, 397), (397, 400), (2, 2), (0, 0)] {
            let left: Vec<u8> = (0..incoming).map(|at| at as u8).collect();
            let right: Vec<u8> = (0..inout).map(|at| (3 * at + 1) as u8).collect();
            let add = |[a, b, c]: [u8; 3], [d, e, f]: [u8; 3]| [a ^ d, b ^ e, c ^ f];
            let whole = incoming.min(inout) / 3 * 3;
            let expected: Vec<u8> =
                (0..inout).map(|at| if at < whole { left[at] ^ right[at] } else { right[at] }).collect();
            let (one, other) = (memory(&right), memory(&right));
            fold(Payload::from(&left[..]), &mut one.memory(), add);
            fold_choosing(Payload::from(&left[..]), &mut other.memory(), add);
            assert_eq!(one.payload().to_vec(), expected);
            assert_eq!(other.payload().to_vec(), expected);
        }
    }

    #[test]
    fn three_memories_are_combined_as_two_are() {
        let left: Vec<u8> = (0..=255).collect();
        let right: Vec<u8> = (0..=255).map(|at: u8| at.wrapping_mul(3)).collect();
        let with = |[a]: [u8; 1], [b]: [u8; 1]| [a.wrapping_sub(b)];
        for (lefts, rights, outs) in
            [(256, 256, 256), (100, 7, 256), (7, 100, 256), (256, 256, 70), (0, 9, 9)]
        {
            let count = lefts.min(rights).min(outs);
            let mut expected = vec![9; outs];
            (0..count).for_each(|at| expected[at] = left[at].wrapping_sub(right[at]));
            let out = memory(&vec![9; outs]);
            let (one, other) = (Payload::from(&left[..lefts]), Payload::from(&right[..rights]));
            fold_into(one, other, &mut out.memory(), with);
            assert_eq!(out.payload().to_vec(), expected, "{lefts}, {rights}, {outs}");
        }
    }

    /// Whether or not it is taken, all is there: what takes it says so.
    #[test]
    fn results_stand_in_both_places_where_that_is_offered() {
        let with = |[a]: [u8; 1], [b]: [u8; 1]| [a.wrapping_mul(3).wrapping_sub(b)];
        for bytes in [0, 1, 63, 64, 100, 1000] {
            let [left, right] = [3, 7].map(|by| (0..bytes).map(|at| (at * by) as u8).collect::<Vec<_>>());
            let expected: Vec<u8> = (0..bytes).map(|at| with([left[at]], [right[at]])[0]).collect();
            for (is_left, room) in [(true, bytes), (false, bytes), (true, bytes + 1), (false, bytes + 1)] {
                let (own, theirs) = if is_left { (&right, &left) } else { (&left, &right) };
                let (out, mut place) = (memory(&vec![9; room]), theirs.clone());
                let (mut is_offered, mut is_left_over) = (false, false);
                made(&mut place, |over| {
                    let mut claim = out.memory();
                    is_offered = claim.offer(over);
                    let (own, theirs) = (Payload::from(&own[..]), over.payload());
                    let [left, right] = if is_left { [theirs, own] } else { [own, theirs] };
                    fold_into(left, right, &mut claim, with);
                    is_left_over = claim.has_offer();
                });
                assert_eq!((is_offered, is_left_over), (room == bytes, false), "{bytes} bytes for {room}");
                assert_eq!(out.payload().to_vec()[..bytes], expected);
                assert_eq!(&place, if is_offered { &expected } else { theirs }, "{bytes} bytes, {is_left}");
            }
        }
    }

    /// Where it is of something else, or of memory that is not claimed for long enough, it is not taken.
    #[test]
    fn nothing_else_is_written_over() {
        let with = |[a]: [u8; 1], [b]: [u8; 1]| [a.wrapping_add(b)];
        let (own, theirs) = (vec![1; 300], memory(&[2; 300]));
        let mut elsewhere = vec![7; 300];
        made(&mut elsewhere, |over| {
            let out = memory(&[9; 300]);
            let mut claim = out.memory();
            assert!(claim.offer(over));
            fold_into(Payload::from(&own[..]), theirs.payload(), &mut claim, with);
            assert!(claim.has_offer() && out.payload().to_vec() == [3; 300]);
            assert!(!claim.offer(&mut theirs.memory()) && !claim.has_offer(), "the library's own");
        });
        assert_eq!(elsewhere, [7; 300]);
    }

    #[test]
    fn memory_that_overlaps_is_combined_in_order() {
        let heap = memory(&[1; 200]);
        // Each byte is added to the next one, which it has been added to before.
        fold(heap.payload(), &mut heap.memory().part(1, 199), |[a], [b]: [u8; 1]| [a.wrapping_add(b)]);
        let counted: Vec<u8> = (1..=200).collect();
        assert_eq!(heap.payload().to_vec(), counted);
    }

    #[test]
    fn parts_stand_side_by_side() {
        type Element = Beside<[u8; 2], [u8; 1]>;
        let heap = memory(&[1, 2, 3, 4, 5, 6]);
        let swap =
            |Beside([a, b], [c]): Element, Beside([d, e], [f]): Element| Beside([d, a], [b + c + e + f]);
        fold(Payload::from(&[10, 20, 30, 40, 50, 60][..]), &mut heap.memory(), swap);
        assert_eq!(heap.payload().to_vec(), [1, 10, 55, 4, 40, 121]);
    }
}
