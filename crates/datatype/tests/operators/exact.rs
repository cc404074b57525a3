//! Long doubles and quadruple numbers as exact integers with a binary exponent, rounded only when they are
//! written.

use crate::reference::Kind;

/// A finite long double, or quadruple number, as `mantissa * 2^exponent`, with sign.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    pub negative: bool,
    pub mantissa: u128,
    pub exponent: i32,
}

const BIAS: i32 = 16383 + 63;
const BIAS_QUADRUPLE: i32 = 16383 + 112;

impl Exact {
    pub fn read_as(kind: Kind, bytes: &[u8]) -> Exact {
        if kind == Kind::Quadruple { Exact::read_quadruple(bytes) } else { Exact::read(bytes) }
    }

    pub fn write_as(self, kind: Kind) -> Vec<u8> {
        if kind == Kind::Quadruple { self.write_quadruple() } else { self.write() }
    }

    /// Reads a normal quadruple number or 0, with the shortest mantissa.
    pub fn read_quadruple(bytes: &[u8]) -> Exact {
        let bits = u128::from_le_bytes(bytes.try_into().expect("16 bytes"));
        let (negative, magnitude) = (bits >> 127 == 1, bits << 1 >> 1);
        let mantissa = magnitude & ((1 << 112) - 1) | 1 << 112;
        let zeroes = mantissa.trailing_zeros();
        let exponent = (magnitude >> 112) as i32 - BIAS_QUADRUPLE + zeroes as i32;
        match magnitude {
            0 => Exact { negative, mantissa: 0, exponent: 0 },
            _ => Exact { negative, mantissa: mantissa >> zeroes, exponent },
        }
    }

    /// Writes a quadruple number that is normal or 0 and needs no rounding.
    pub fn write_quadruple(self) -> Vec<u8> {
        let sign = u128::from(self.negative) << 127;
        if self.mantissa == 0 {
            return sign.to_le_bytes().to_vec();
        }
        let shift = self.mantissa.leading_zeros() as i32 - 15;
        let mantissa = if shift >= 0 { self.mantissa << shift } else { self.mantissa >> -shift };
        assert!(shift >= 0 || mantissa << -shift == self.mantissa, "it would have to be rounded");
        let exponent = (self.exponent - shift + BIAS_QUADRUPLE) as u128;
        (sign | exponent << 112 | mantissa & ((1 << 112) - 1)).to_le_bytes().to_vec()
    }

    pub fn read(bytes: &[u8]) -> Exact {
        let sign_exponent = u16::from_le_bytes([bytes[8], bytes[9]]);
        let mantissa = u128::from(u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")));
        let exponent = i32::from(sign_exponent & 0x7fff) - BIAS;
        Exact { negative: sign_exponent >> 15 == 1, mantissa, exponent }
    }

    /// Writes a long double that is normal or 0, rounded to 64 bits, ties to even.
    pub fn write(mut self) -> Vec<u8> {
        let excess = (128 - self.mantissa.leading_zeros() as i32) - 64;
        if excess > 0 {
            let rest = self.mantissa & ((1 << excess) - 1);
            let half = 1 << (excess - 1);
            self.mantissa >>= excess;
            self.mantissa += u128::from(rest > half || rest == half && self.mantissa & 1 == 1);
            if self.mantissa >> 64 == 1 {
                self.mantissa >>= 1;
                self.exponent += 1;
            }
        } else if self.mantissa > 0 {
            self.mantissa <<= -excess;
        }
        self.exponent += excess;
        let exponent = if self.mantissa == 0 { 0 } else { (self.exponent + BIAS) as u16 };
        let sign = u16::from(self.negative) << 15;
        let mut bytes = (self.mantissa as u64).to_le_bytes().to_vec();
        bytes.extend((sign | exponent).to_le_bytes());
        bytes.resize(16, 0);
        bytes
    }

    pub fn product(self, other: Exact) -> Exact {
        Exact {
            negative: self.negative != other.negative,
            mantissa: self.mantissa * other.mantissa,
            exponent: self.exponent + other.exponent,
        }
    }

    /// The exact sum. The exponents are at most 60 apart, so that it fits 126 bits.
    pub fn sum(self, other: Exact) -> Exact {
        if self.mantissa == 0 || other.mantissa == 0 {
            return self.sum_with_zero(other);
        }
        let exponent = self.exponent.min(other.exponent);
        let aligned = |number: Exact| {
            let magnitude = (number.mantissa << (number.exponent - exponent)) as i128;
            if number.negative { -magnitude } else { magnitude }
        };
        let total = aligned(self) + aligned(other);
        Exact { negative: total < 0, mantissa: total.unsigned_abs(), exponent }
    }

    pub fn sum_with_zero(self, other: Exact) -> Exact {
        match (self.mantissa, other.mantissa) {
            (0, 0) => Exact { negative: self.negative && other.negative, ..self },
            (0, _) => other,
            _ => self,
        }
    }

    /// The value, near enough to order corpus numbers that differ.
    pub fn is_below(self, other: Exact) -> bool {
        let zero = self.mantissa == 0 && other.mantissa == 0;
        let difference = self.sum(Exact { negative: !other.negative, ..other });
        if zero { self.negative && !other.negative } else { difference.negative && difference.mantissa > 0 }
    }
}
