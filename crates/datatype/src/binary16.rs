//! Half-precision numbers as singles and back, and their order, without a branch: compilers make vectors of
//! it.
//!
//! A sum or product of two halves in single precision, rounded once more, is the right one: singles have more
//! than twice the digits.

use half::f16;

/// `number` in single precision, which holds every half-precision number exactly.
#[inline(always)]
pub(crate) fn widened(number: f16) -> f32 {
    let bits = u32::from(number.to_bits());
    let (sign, magnitude) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
    let usual = magnitude + (EXPONENT_OFFSET << 23);
    // Infinities and what is no number have the highest exponent here as well.
    let special = if magnitude >= 0x7c00 << 13 { usual + (EXPONENT_OFFSET << 23) } else { usual };
    // Below the normal numbers: as digits behind those of the lowest one, which is taken away.
    let lowest = f32::from_bits((EXPONENT_OFFSET + 1) << 23);
    let small = (f32::from_bits(usual + (1 << 23)) - lowest).to_bits();
    let magnitude = if magnitude < 0x0400 << 13 { small } else { special };
    f32::from_bits(sign | magnitude)
}

/// The nearest number, of two that are as near the even one.
#[inline(always)]
pub(crate) fn narrowed(number: f32) -> f16 {
    let bits = number.to_bits();
    let (sign, magnitude) = (bits & 0x8000_0000, bits & 0x7fff_ffff);
    let to_even = magnitude >> 13 & 1;
    let usual = magnitude.wrapping_sub(EXPONENT_OFFSET << 23).wrapping_add(0xfff + to_even) >> 13;
    // Below the normal numbers: the sum with a number whose last digit is theirs rounds as it should.
    let small = (f32::from_bits(magnitude) + f32::from_bits(SMALL)).to_bits().wrapping_sub(SMALL);
    let large = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    let finite = if magnitude < (EXPONENT_OFFSET + 1) << 23 { small } else { usual };
    let magnitude = if magnitude >= (EXPONENT_OFFSET + 31) << 23 { large } else { finite };
    f16::from_bits((sign >> 16 | magnitude) as u16)
}

/// The lower of the two; a NaN if there is one; of two zeroes the negative one.
#[inline(always)]
pub(crate) fn lower(one: f16, other: f16) -> f16 {
    of_key(key(one, i16::MIN).min(key(other, i16::MIN)))
}

/// The higher of the two; a NaN if there is one; of two zeroes the positive one.
#[inline(always)]
pub(crate) fn higher(one: f16, other: f16) -> f16 {
    of_key(key(one, i16::MAX).max(key(other, i16::MAX)))
}

/// An integer that is ordered as the numbers are, the negative zero below the other; `beyond` for what is no
/// number.
#[inline(always)]
fn key(number: f16, beyond: i16) -> i16 {
    let bits = number.to_bits() as i16;
    if bits & i16::MAX > 0x7c00 { beyond } else { turned(bits) }
}

/// The number of a key. The lowest and the highest key are NaNs.
#[inline(always)]
fn of_key(key: i16) -> f16 {
    f16::from_bits(turned(key) as u16)
}

/// The magnitudes of negative numbers upside down, or back.
#[inline(always)]
fn turned(bits: i16) -> i16 {
    bits ^ (bits >> 15 & i16::MAX)
}

/// What the exponent of a single has more than that of a half.
const EXPONENT_OFFSET: u32 = 127 - 15;
/// One half as a single: the last of its digits is that of the halves below the normal ones.
const SMALL: u32 = 126 << 23;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every number; under an interpreter, which takes a thousand times as long, one of each 251.
    fn all() -> impl Iterator<Item = f16> {
        (0..=u16::MAX).step_by(if cfg!(miri) { 251 } else { 1 }).map(f16::from_bits)
    }

    fn same(one: f16, other: f16) -> bool {
        one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
    }

    #[test]
    fn each_number_is_the_same_in_singles_and_back() {
        for number in all() {
            let wide = widened(number);
            let right = number.to_f32();
            assert!(
                wide.to_bits() == right.to_bits() || wide.is_nan() && number.is_nan(),
                "{number:?}: {wide}"
            );
            assert!(same(narrowed(wide), number), "{number:?}: {:?}", narrowed(wide));
        }
    }

    #[test]
    fn what_lies_between_two_numbers_becomes_the_nearest() {
        for number in all().filter(|number| number.is_finite()) {
            let next = f16::from_bits(number.to_bits() + 1);
            let next = if next.is_infinite() { 65536f32.copysign(next.to_f32()) } else { next.to_f32() };
            let middle = (number.to_f32() + next) / 2.0;
            for bits in [middle.to_bits() - 1, middle.to_bits(), middle.to_bits() + 1] {
                let between = f32::from_bits(bits);
                assert!(same(narrowed(between), f16::from_f32(between)), "{between:e}");
            }
        }
    }

    #[test]
    fn the_order_has_all_numbers_and_nan_is_the_answer_where_it_is_asked() {
        let spread = (0..=u16::MAX).step_by(if cfg!(miri) { 4001 } else { 257 });
        let few: Vec<f16> = spread.chain(0x7bfe..0x7c03).chain(0xfbfe..0xfc03).map(f16::from_bits).collect();
        let zeroes = [f16::ZERO, f16::NEG_ZERO];
        for &one in few.iter().chain(&zeroes) {
            for &other in few.iter().chain(&zeroes) {
                let (low, high) = (lower(one, other), higher(one, other));
                if one.is_nan() || other.is_nan() {
                    assert!(low.is_nan() && high.is_nan());
                } else if one == other {
                    let negative = one.is_sign_negative() | other.is_sign_negative();
                    let positive = one.is_sign_positive() | other.is_sign_positive();
                    assert!(low == one && low.is_sign_negative() == negative);
                    assert!(high == one && high.is_sign_positive() == positive);
                } else {
                    let (first, second) = if one < other { (one, other) } else { (other, one) };
                    assert!(same(low, first) && same(high, second));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_single_becomes_the_nearest_number(bits: u32, near in 0x3300_0000u32..0x4800_0000) {
            for bits in [bits, near, near | 0x8000_0000] {
                let number = f32::from_bits(bits);
                prop_assert!(same(narrowed(number), f16::from_f32(number)), "{:e}: {:?}", number, narrowed(number));
            }
        }

        #[test]
        fn sums_and_products_are_rounded_once(one: u16, other: u16) {
            let (one, other) = (f16::from_bits(one), f16::from_bits(other));
            let (exact_sum, exact_product) = (one.to_f64() + other.to_f64(), one.to_f64() * other.to_f64());
            prop_assert!(same(narrowed(widened(one) + widened(other)), f16::from_f64(exact_sum)));
            prop_assert!(same(narrowed(widened(one) * widened(other)), f16::from_f64(exact_product)));
        }
    }
}
