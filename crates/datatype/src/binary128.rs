//! Quadruple-precision numbers, `MPI_REAL16` and the parts of `MPI_COMPLEX32`: `__float128` of C, `real(16)`
//! of gfortran. No processor of today computes with them, and Rust has no stable type for them, so their sums
//! and products are a crate's.

use rustc_apfloat::Float;
use rustc_apfloat::ieee::Quad;

use crate::element::{Element, Number, Ordered};

/// The bits: a sign, 15 of exponent, 112 of fraction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quadruple(u128);

impl Quadruple {
    fn of(number: Quad) -> Quadruple {
        Quadruple(number.to_bits())
    }

    fn quad(self) -> Quad {
        Quad::from_bits(self.0)
    }

    /// A number that is ordered as these are, -0 and +0 being one.
    fn key(self) -> i128 {
        let magnitude = (self.0 & !SIGN) as i128;
        if self.is_negative() { -magnitude } else { magnitude }
    }
}

impl Element for Quadruple {
    type Packed = [u8; 16];

    #[inline]
    fn of_packed(bytes: [u8; 16]) -> Quadruple {
        Quadruple(u128::from_ne_bytes(bytes))
    }

    #[inline]
    fn packed(self) -> [u8; 16] {
        self.0.to_ne_bytes()
    }
}

impl Number for Quadruple {
    fn plus(self, other: Quadruple) -> Quadruple {
        Quadruple::of((self.quad() + other.quad()).value)
    }

    fn times(self, other: Quadruple) -> Quadruple {
        Quadruple::of((self.quad() * other.quad()).value)
    }

    fn negated(self) -> Quadruple {
        Quadruple(self.0 ^ SIGN)
    }
}

impl Ordered for Quadruple {
    fn is_below(self, other: Quadruple) -> bool {
        !self.is_nan() && !other.is_nan() && self.key() < other.key()
    }

    fn is_equal(self, other: Quadruple) -> bool {
        !self.is_nan() && !other.is_nan() && self.key() == other.key()
    }

    fn is_nan(self) -> bool {
        self.0 & !SIGN > INFINITY
    }

    fn is_negative(self) -> bool {
        self.0 & SIGN != 0
    }
}

const SIGN: u128 = 1 << 127;
const INFINITY: u128 = 0x7fff << 112;
