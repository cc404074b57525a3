//! Changes of elements at one blow, and what each does: one definition for whoever does them here, or checks
//! others.

use std::ops::{Add, BitAnd, BitOr, BitXor, Mul};

/// An atomic: what is done with each element, and what kind of number it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Atomic {
    /// What is done.
    pub change: Change,
    /// What the elements are.
    pub scalar: Scalar,
}

/// What is done with an element over there and one from here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// The less of the two.
    Min,
    /// The greater.
    Max,
    /// The sum; integers wrap.
    Sum,
    /// The product, likewise.
    Product,
    /// One if neither is zero, else zero.
    LogicalAnd,
    /// One if either is not zero, else zero.
    LogicalOr,
    /// One if just one of them is zero, else zero.
    LogicalXor,
    /// The bits that both have.
    BitAnd,
    /// The bits that either has.
    BitOr,
    /// The bits that just one of them has.
    BitXor,
    /// The element from here.
    Replace,
    /// No change; there is no element from here.
    Read,
    /// The element from here where that to compare with equals that over there.
    SwapIfEqual,
}

impl Change {
    /// All of them.
    pub const ALL: [Change; 13] = [
        Change::Min,
        Change::Max,
        Change::Sum,
        Change::Product,
        Change::LogicalAnd,
        Change::LogicalOr,
        Change::LogicalXor,
        Change::BitAnd,
        Change::BitOr,
        Change::BitXor,
        Change::Replace,
        Change::Read,
        Change::SwapIfEqual,
    ];

    /// Whether there is an element from here.
    #[must_use]
    pub fn has_operand(self) -> bool {
        self != Change::Read
    }

    /// Whether there is one to compare with.
    #[must_use]
    pub fn compares(self) -> bool {
        self == Change::SwapIfEqual
    }

    fn is_of_bits(self) -> bool {
        matches!(self, Change::BitAnd | Change::BitOr | Change::BitXor)
    }
}

/// A kind of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scalar {
    /// `i8`.
    I8,
    /// `u8`.
    U8,
    /// `i16`.
    I16,
    /// `u16`.
    U16,
    /// `i32`.
    I32,
    /// `u32`.
    U32,
    /// `i64`.
    I64,
    /// `u64`.
    U64,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

impl Scalar {
    /// All of them.
    pub const ALL: [Scalar; 10] = [
        Scalar::I8,
        Scalar::U8,
        Scalar::I16,
        Scalar::U16,
        Scalar::I32,
        Scalar::U32,
        Scalar::I64,
        Scalar::U64,
        Scalar::F32,
        Scalar::F64,
    ];

    /// The length of one, which is its alignment, too.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Scalar::I8 | Scalar::U8 => 1,
            Scalar::I16 | Scalar::U16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 => 8,
        }
    }
}

impl Atomic {
    /// Whether it means anything: numbers with a floating point have no bits.
    #[must_use]
    pub fn is_defined(self) -> bool {
        !(self.change.is_of_bits() && matches!(self.scalar, Scalar::F32 | Scalar::F64))
    }

    /// Changes the elements `there`, of which `operand` and `compare` have as many, or none where they are
    /// not looked at.
    ///
    /// # Panics
    /// For one that is not defined.
    pub fn apply(self, there: &mut [u8], operand: &[u8], compare: &[u8]) {
        assert!(self.is_defined(), "{self:?} means nothing");
        let change = self.change;
        match self.scalar {
            Scalar::I8 => each::<1, i8>(change, there, operand, compare),
            Scalar::U8 => each::<1, u8>(change, there, operand, compare),
            Scalar::I16 => each::<2, i16>(change, there, operand, compare),
            Scalar::U16 => each::<2, u16>(change, there, operand, compare),
            Scalar::I32 => each::<4, i32>(change, there, operand, compare),
            Scalar::U32 => each::<4, u32>(change, there, operand, compare),
            Scalar::I64 => each::<8, i64>(change, there, operand, compare),
            Scalar::U64 => each::<8, u64>(change, there, operand, compare),
            Scalar::F32 => each::<4, f32>(change, there, operand, compare),
            Scalar::F64 => each::<8, f64>(change, there, operand, compare),
        }
    }
}

fn each<const BYTES: usize, T: Number<BYTES>>(
    change: Change,
    there: &mut [u8],
    operand: &[u8],
    compare: &[u8],
) {
    for (index, there) in there.as_chunks_mut::<BYTES>().0.iter_mut().enumerate() {
        let of = |bytes: &[u8]| bytes.as_chunks().0.get(index).map_or(T::ZERO, |bytes| T::from_bytes(*bytes));
        *there = changed(change, T::from_bytes(*there), of(operand), of(compare)).to_bytes();
    }
}

fn changed<const BYTES: usize, T: Number<BYTES>>(change: Change, there: T, operand: T, compare: T) -> T {
    let logical = |is: bool| if is { T::ONE } else { T::ZERO };
    let (is_there, is_here) = (there != T::ZERO, operand != T::ZERO);
    match change {
        Change::Min if operand < there => operand,
        Change::Max if operand > there => operand,
        Change::Min | Change::Max | Change::Read => there,
        Change::Sum => there.plus(operand),
        Change::Product => there.times(operand),
        Change::LogicalAnd => logical(is_there && is_here),
        Change::LogicalOr => logical(is_there || is_here),
        Change::LogicalXor => logical(is_there != is_here),
        Change::Replace => operand,
        Change::SwapIfEqual if compare == there => operand,
        Change::SwapIfEqual => there,
        Change::BitAnd | Change::BitOr | Change::BitXor => there.bits(change, operand),
    }
}

trait Number<const BYTES: usize>: Copy + PartialOrd {
    const ZERO: Self;
    const ONE: Self;
    fn from_bytes(bytes: [u8; BYTES]) -> Self;
    fn to_bytes(self) -> [u8; BYTES];
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn bits(self, change: Change, other: Self) -> Self;
}

macro_rules! numbers {
    ($($bytes:literal: $($type:ty),*; $zero:literal, $one:literal, $add:ident, $multiply:ident, $bits:path;)*) => {$($(
        impl Number<$bytes> for $type {
            const ZERO: $type = $zero;
            const ONE: $type = $one;
            fn from_bytes(bytes: [u8; $bytes]) -> $type {
                <$type>::from_ne_bytes(bytes)
            }
            fn to_bytes(self) -> [u8; $bytes] {
                self.to_ne_bytes()
            }
            fn plus(self, other: $type) -> $type {
                self.$add(other)
            }
            fn times(self, other: $type) -> $type {
                self.$multiply(other)
            }
            fn bits(self, change: Change, other: $type) -> $type {
                $bits(change, self, other)
            }
        }
    )*)*};
}

numbers! {
    1: i8, u8; 0, 1, wrapping_add, wrapping_mul, bits;
    2: i16, u16; 0, 1, wrapping_add, wrapping_mul, bits;
    4: i32, u32; 0, 1, wrapping_add, wrapping_mul, bits;
    8: i64, u64; 0, 1, wrapping_add, wrapping_mul, bits;
    4: f32; 0.0, 1.0, add, mul, no_bits;
    8: f64; 0.0, 1.0, add, mul, no_bits;
}

fn bits<T: BitAnd<Output = T> + BitOr<Output = T> + BitXor<Output = T>>(
    change: Change,
    one: T,
    other: T,
) -> T {
    match change {
        Change::BitAnd => one & other,
        Change::BitOr => one | other,
        _ => one ^ other,
    }
}

fn no_bits<T>(change: Change, _one: T, _other: T) -> T {
    unreachable!("{change:?} of a number that has no bits: `apply` has looked")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(change: Change, there: [i16; 2], operand: [i16; 2], compare: [i16; 2]) -> [i16; 2] {
        let bytes = |numbers: [i16; 2]| numbers.map(i16::to_ne_bytes).concat();
        let mut there = bytes(there);
        Atomic { change, scalar: Scalar::I16 }.apply(&mut there, &bytes(operand), &bytes(compare));
        [0, 2].map(|at| i16::from_ne_bytes([there[at], there[at + 1]]))
    }

    #[test]
    fn each_element_is_changed_by_its_own() {
        let none = [0; 2];
        assert_eq!(changed(Change::Sum, [1, i16::MAX], [2, 1], none), [3, i16::MIN]);
        assert_eq!(changed(Change::Product, [3, 300], [-2, 300], none), [-6, 24464]);
        assert_eq!(changed(Change::Min, [1, 5], [2, -5], none), [1, -5]);
        assert_eq!(changed(Change::Max, [1, 5], [2, -5], none), [2, 5]);
        assert_eq!(changed(Change::LogicalAnd, [3, 3], [0, -7], none), [0, 1]);
        assert_eq!(changed(Change::LogicalOr, [0, 3], [0, 0], none), [0, 1]);
        assert_eq!(changed(Change::LogicalXor, [4, 3], [0, -7], none), [1, 0]);
        assert_eq!(changed(Change::BitAnd, [0b1100, 7], [0b1010, 0], none), [0b1000, 0]);
        assert_eq!(changed(Change::BitOr, [0b1100, 7], [0b1010, 0], none), [0b1110, 7]);
        assert_eq!(changed(Change::BitXor, [0b1100, 7], [0b1010, 0], none), [0b0110, 7]);
        assert_eq!(changed(Change::Replace, [1, 5], [8, 9], none), [8, 9]);
        assert_eq!(changed(Change::Read, [1, 5], [8, 9], none), [1, 5]);
        assert_eq!(changed(Change::SwapIfEqual, [1, 5], [8, 9], [1, 4]), [8, 5]);
    }

    #[test]
    fn all_that_is_defined_can_be_applied() {
        for change in Change::ALL {
            for scalar in Scalar::ALL {
                let atomic = Atomic { change, scalar };
                if atomic.is_defined() {
                    let mut there = vec![1; 2 * scalar.bytes()];
                    let other = there.clone();
                    atomic.apply(&mut there, &other, &other);
                } else {
                    assert!(change.is_of_bits());
                }
            }
        }
        let mut there = 1.5f64.to_ne_bytes();
        Atomic { change: Change::Sum, scalar: Scalar::F64 }.apply(&mut there, &2.25f64.to_ne_bytes(), &[]);
        assert_eq!(f64::from_ne_bytes(there), 3.75);
    }
}
