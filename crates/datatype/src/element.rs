//! The elements that operators work on, as Rust values: read from bytes at any address, written back
//! likewise.
//!
//! The kernels in [`reduce`](crate::reduce) are generic over these traits. Reading through byte arrays of
//! constant size costs nothing and lets the compiler vectorise the loops.

use fabric::fold::{Beside, Bytes};
use half::f16;

use crate::{binary16, x87};

/// A value of a basic datatype, which can be converted from and to its packed bytes.
pub(crate) trait Element: Copy {
    type Packed: Bytes;
    fn of_packed(bytes: Self::Packed) -> Self;
    fn packed(self) -> Self::Packed;
}

/// Elements with a sum and a product. Integers wrap; complex numbers multiply by the school formula, part by
/// part, as Fortran does and C does without its recovery of infinities.
pub(crate) trait Number: Element {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn negated(self) -> Self;
}

/// Elements with an order. Some values may be outside of it: a NaN.
pub(crate) trait Ordered: Element {
    /// Whether processors have an instruction for the lower and the higher of two, or a few that are as good.
    const IS_QUICK: bool = false;

    fn is_below(self, other: Self) -> bool;
    fn is_equal(self, other: Self) -> bool;
    fn is_nan(self) -> bool;
    /// Whether the sign bit is set, of a zero too.
    fn is_negative(self) -> bool;

    /// The lower of the two; a NaN if there is one; of two zeroes the negative one. So the order of the
    /// operands does not show in the result, but for the bits inside a NaN.
    ///
    /// Conditions are combined by `&` and `|` here and below, so that they are no branches.
    #[inline]
    fn lower(self, other: Self) -> Self {
        let equal = self.is_equal(other) & self.is_negative();
        if self.is_below(other) | self.is_nan() | equal { self } else { other }
    }

    /// The higher of the two; a NaN if there is one; of two zeroes the positive one.
    #[inline]
    fn higher(self, other: Self) -> Self {
        let equal = self.is_equal(other) & !self.is_negative();
        if other.is_below(self) | self.is_nan() | equal { self } else { other }
    }
}

/// Elements with bits. An element is true when any bit is set.
pub(crate) trait Bits: Element {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn is_true(self) -> bool;
    fn from_truth(truth: bool) -> Self;
}

macro_rules! element {
    ($($type:ty)*) => {$(
        impl Element for $type {
            type Packed = [u8; size_of::<$type>()];

            #[inline]
            fn of_packed(bytes: Self::Packed) -> $type {
                <$type>::from_ne_bytes(bytes)
            }

            #[inline]
            fn packed(self) -> Self::Packed {
                self.to_ne_bytes()
            }
        }
    )*};
}

macro_rules! integer {
    ($($type:ty)*) => {$(
        impl Number for $type {
            #[inline]
            fn plus(self, other: $type) -> $type { self.wrapping_add(other) }
            #[inline]
            fn times(self, other: $type) -> $type { self.wrapping_mul(other) }
            #[inline]
            fn negated(self) -> $type { self.wrapping_neg() }
        }

        impl Ordered for $type {
            const IS_QUICK: bool = size_of::<$type>() <= 4;

            #[inline]
            fn is_below(self, other: $type) -> bool { self < other }
            #[inline]
            fn is_equal(self, other: $type) -> bool { self == other }
            #[inline]
            fn is_nan(self) -> bool { false }
            #[inline]
            fn is_negative(self) -> bool { false }
            #[inline]
            fn lower(self, other: $type) -> $type { self.min(other) }
            #[inline]
            fn higher(self, other: $type) -> $type { self.max(other) }
        }

        impl Bits for $type {
            #[inline]
            fn and(self, other: $type) -> $type { self & other }
            #[inline]
            fn or(self, other: $type) -> $type { self | other }
            #[inline]
            fn xor(self, other: $type) -> $type { self ^ other }
            #[inline]
            fn is_true(self) -> bool { self != 0 }
            #[inline]
            fn from_truth(truth: bool) -> $type { <$type>::from(truth) }
        }
    )*};
}

macro_rules! floating {
    ($($type:ty { $($quick:tt)* })*) => {$(
        impl Number for $type {
            #[inline]
            fn plus(self, other: $type) -> $type { self + other }
            #[inline]
            fn times(self, other: $type) -> $type { self * other }
            #[inline]
            fn negated(self) -> $type { -self }
        }

        impl Ordered for $type {
            #[inline]
            fn is_below(self, other: $type) -> bool { self < other }
            #[inline]
            fn is_equal(self, other: $type) -> bool { self == other }
            #[inline]
            fn is_nan(self) -> bool { self != self }
            #[inline]
            fn is_negative(self) -> bool { self.is_sign_negative() }
            $($quick)*
        }
    )*};
}

/// The lower and the higher of two by the instruction that processors have, which gives the second of two
/// zeroes, and the second where one is no number. Asked both ways round, it gives either; their bits together
/// are a negative zero where one is, and a NaN where one is.
macro_rules! quick {
    () => {
        const IS_QUICK: bool = true;

        #[inline]
        fn lower(self, other: Self) -> Self {
            let lower = |one: Self, other: Self| if one < other { one } else { other };
            Self::from_bits(lower(self, other).to_bits() | lower(other, self).to_bits())
        }

        #[inline]
        fn higher(self, other: Self) -> Self {
            -(-self).lower(-other)
        }
    };
}

element! { i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f16 f32 f64 }
integer! { i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 }
floating! {
    f32 { quick!(); }
    f64 { quick!(); }
}

impl Number for f16 {
    #[inline]
    fn plus(self, other: f16) -> f16 {
        binary16::narrowed(binary16::widened(self) + binary16::widened(other))
    }

    #[inline]
    fn times(self, other: f16) -> f16 {
        binary16::narrowed(binary16::widened(self) * binary16::widened(other))
    }

    #[inline]
    fn negated(self) -> f16 {
        f16::from_bits(self.to_bits() ^ 0x8000)
    }
}

impl Ordered for f16 {
    const IS_QUICK: bool = true;

    #[inline]
    fn is_below(self, other: f16) -> bool {
        self < other
    }

    #[inline]
    fn is_equal(self, other: f16) -> bool {
        self == other
    }

    #[inline]
    fn is_nan(self) -> bool {
        f16::is_nan(self)
    }

    #[inline]
    fn is_negative(self) -> bool {
        self.is_sign_negative()
    }

    #[inline]
    fn lower(self, other: f16) -> f16 {
        binary16::lower(self, other)
    }

    #[inline]
    fn higher(self, other: f16) -> f16 {
        binary16::higher(self, other)
    }
}

/// An x87 long double: ten bytes of number, six unused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongDouble(x87::Bytes);

impl LongDouble {
    /// Sign and exponent, and the mantissa with its leading bit.
    fn fields(self) -> (u16, u64) {
        let [m0, m1, m2, m3, m4, m5, m6, m7, e0, e1, ..] = self.0;
        (u16::from_le_bytes([e0, e1]), u64::from_le_bytes([m0, m1, m2, m3, m4, m5, m6, m7]))
    }

    /// A number that is ordered as the long doubles are, -0 and +0 being one.
    fn key(self) -> i128 {
        let (sign_exponent, mantissa) = self.fields();
        // Exponents 0 and 1 mean the same power of two: they tell only whether the leading bit is expected.
        let exponent = (sign_exponent & EXPONENT).max(1) - 1;
        let magnitude = i128::from(exponent) << 64 | i128::from(mantissa);
        if self.is_negative() { -magnitude } else { magnitude }
    }
}

impl Element for LongDouble {
    type Packed = x87::Bytes;

    #[inline]
    fn of_packed(bytes: x87::Bytes) -> LongDouble {
        LongDouble(bytes)
    }

    #[inline]
    fn packed(self) -> x87::Bytes {
        self.0
    }
}

impl Number for LongDouble {
    #[inline]
    fn plus(self, other: LongDouble) -> LongDouble {
        LongDouble(x87::sum(self.0, other.0))
    }

    #[inline]
    fn times(self, other: LongDouble) -> LongDouble {
        LongDouble(x87::product(self.0, other.0))
    }

    #[inline]
    fn negated(mut self) -> LongDouble {
        self.0[9] ^= 0x80;
        self
    }
}

impl Ordered for LongDouble {
    fn is_below(self, other: LongDouble) -> bool {
        !self.is_nan() && !other.is_nan() && self.key() < other.key()
    }

    fn is_equal(self, other: LongDouble) -> bool {
        !self.is_nan() && !other.is_nan() && self.key() == other.key()
    }

    /// Also true for the bit patterns that the unit refuses as no number: an exponent without its leading
    /// bit.
    fn is_nan(self) -> bool {
        let (sign_exponent, mantissa) = self.fields();
        match sign_exponent & EXPONENT {
            0 => false,
            EXPONENT => mantissa != LEADING_BIT,
            _ => mantissa & LEADING_BIT == 0,
        }
    }

    fn is_negative(self) -> bool {
        self.0[9] & 0x80 != 0
    }
}

/// The exponent bits of byte 8 and 9.
const EXPONENT: u16 = 0x7fff;

/// The highest bit of the mantissa, set in every normal number.
const LEADING_BIT: u64 = 1 << 63;

/// A complex number: real part, then imaginary part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Complex<T> {
    real: T,
    imaginary: T,
}

impl<T: Element> Element for Complex<T> {
    type Packed = [T::Packed; 2];

    #[inline]
    fn of_packed([real, imaginary]: [T::Packed; 2]) -> Complex<T> {
        Complex { real: T::of_packed(real), imaginary: T::of_packed(imaginary) }
    }

    #[inline]
    fn packed(self) -> [T::Packed; 2] {
        [self.real.packed(), self.imaginary.packed()]
    }
}

impl<T: Number> Number for Complex<T> {
    #[inline]
    fn plus(self, other: Complex<T>) -> Complex<T> {
        Complex { real: self.real.plus(other.real), imaginary: self.imaginary.plus(other.imaginary) }
    }

    #[inline]
    fn times(self, other: Complex<T>) -> Complex<T> {
        let squares = self.imaginary.times(other.imaginary);
        Complex {
            real: self.real.times(other.real).plus(squares.negated()),
            imaginary: self.real.times(other.imaginary).plus(self.imaginary.times(other.real)),
        }
    }

    #[inline]
    fn negated(self) -> Complex<T> {
        Complex { real: self.real.negated(), imaginary: self.imaginary.negated() }
    }
}

/// A value and where it was found. Its packed form has no gap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<V, I> {
    value: V,
    index: I,
}

impl<V: Element, I: Element> Element for Located<V, I> {
    type Packed = Beside<V::Packed, I::Packed>;

    #[inline]
    fn of_packed(Beside(value, index): Self::Packed) -> Located<V, I> {
        Located { value: V::of_packed(value), index: I::of_packed(index) }
    }

    #[inline]
    fn packed(self) -> Self::Packed {
        Beside(self.value.packed(), self.index.packed())
    }
}

impl<V: Ordered, I: Ordered> Located<V, I> {
    /// The pair with the lower value; a NaN counts as the lowest; of equal values the lower index.
    #[inline]
    pub(crate) fn lowest(self, other: Self) -> Self {
        self.first(other, other.value.is_below(self.value), self.value.is_below(other.value))
    }

    /// The pair with the higher value; a NaN counts as the highest; of equal values the lower index.
    #[inline]
    pub(crate) fn highest(self, other: Self) -> Self {
        self.first(other, self.value.is_below(other.value), other.value.is_below(self.value))
    }

    #[inline]
    fn first(self, other: Self, other_wins: bool, self_wins: bool) -> Self {
        let self_wins = self_wins | self.value.is_nan();
        let other_wins = other_wins | other.value.is_nan();
        let is_tie = self_wins == other_wins;
        if (other_wins & !self_wins) | (is_tie & other.index.is_below(self.index)) { other } else { self }
    }
}
