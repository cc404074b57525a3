//! A second implementation of the predefined operators, for the tests to compare with: integers as 128 bits,
//! reals as `f64` rounded after every step, long doubles and quadruple numbers by exact integers.

use datatype::{Basic, Operator};
use half::f16;

use crate::exact::Exact;

/// What a single element (not a pair, not a complex number) is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Integer { signed: bool },
    Real,
    LongDouble,
    Quadruple,
}

pub fn kind(basic: Basic) -> Kind {
    match basic {
        Basic::F16 | Basic::F32 | Basic::F64 => Kind::Real,
        Basic::F80 => Kind::LongDouble,
        Basic::F128 => Kind::Quadruple,
        Basic::U8 | Basic::U16 | Basic::U32 | Basic::U64 | Basic::U128 => Kind::Integer { signed: false },
        _ => Kind::Integer { signed: true },
    }
}

pub fn parts(basic: Basic) -> Vec<Basic> {
    match basic {
        Basic::C16 => vec![Basic::F16; 2],
        Basic::C32 => vec![Basic::F32; 2],
        Basic::C64 => vec![Basic::F64; 2],
        Basic::C80 => vec![Basic::F80; 2],
        Basic::C128 => vec![Basic::F128; 2],
        basic => basic.pair().map_or(vec![basic], |(value, index)| vec![value, index]),
    }
}
fn integer(bytes: &[u8], signed: bool) -> u128 {
    let negative = signed && bytes[bytes.len() - 1] >> 7 == 1;
    let mut wide = [if negative { 0xff } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(wide)
}

fn is_below(left: u128, right: u128, signed: bool) -> bool {
    if signed { (left as i128) < (right as i128) } else { left < right }
}

fn integer_reference(operator: Operator, signed: bool, left: &[u8], right: &[u8]) -> Vec<u8> {
    let (a, b) = (integer(left, signed), integer(right, signed));
    let result = match operator {
        Operator::Sum => a.wrapping_add(b),
        Operator::Prod => a.wrapping_mul(b),
        Operator::Min => {
            if is_below(a, b, signed) {
                a
            } else {
                b
            }
        }
        Operator::Max => {
            if is_below(a, b, signed) {
                b
            } else {
                a
            }
        }
        Operator::BitAnd => a & b,
        Operator::BitOr => a | b,
        Operator::BitXor => a ^ b,
        Operator::LogicalAnd => u128::from(a != 0 && b != 0),
        Operator::LogicalOr => u128::from(a != 0 || b != 0),
        Operator::LogicalXor => u128::from((a != 0) != (b != 0)),
        other => panic!("no integer reference for {other}"),
    };
    result.to_le_bytes()[..left.len()].to_vec()
}

pub fn real(bytes: &[u8]) -> f64 {
    match *bytes {
        [a, b] => f16::from_le_bytes([a, b]).to_f64(),
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        _ => f64::from_le_bytes(bytes.try_into().expect("8 bytes")),
    }
}

/// Rounds to the format of so many bytes. An f64 holds sums and products of the narrower formats with bits
/// enough that rounding twice gives what rounding once does.
pub fn real_bytes(value: f64, bytes: usize) -> Vec<u8> {
    match bytes {
        2 => f16::from_f64(value).to_le_bytes().to_vec(),
        4 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

/// The higher or the lower of two numbers. A NaN wins; of two zeroes the sign decides.
fn real_extreme(a: f64, b: f64, highest: bool) -> f64 {
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    let a_is_lower = a.total_cmp(&b).is_lt();
    if a_is_lower == highest { b } else { a }
}

fn real_reference(operator: Operator, left: &[u8], right: &[u8]) -> Vec<u8> {
    let (a, b) = (real(left), real(right));
    let result = match operator {
        Operator::Sum => a + b,
        Operator::Prod => a * b,
        Operator::Min => real_extreme(a, b, false),
        Operator::Max => real_extreme(a, b, true),
        other => panic!("no real reference for {other}"),
    };
    real_bytes(result, left.len())
}

fn exact_reference(operator: Operator, kind: Kind, left: &[u8], right: &[u8]) -> Vec<u8> {
    let (a, b) = (Exact::read_as(kind, left), Exact::read_as(kind, right));
    match operator {
        Operator::Sum => a.sum(b).write_as(kind),
        Operator::Prod => a.product(b).write_as(kind),
        Operator::Min => {
            if b.is_below(a) {
                right.to_vec()
            } else {
                left.to_vec()
            }
        }
        Operator::Max => {
            if a.is_below(b) {
                right.to_vec()
            } else {
                left.to_vec()
            }
        }
        other => panic!("no long double reference for {other}"),
    }
}

fn single_reference(operator: Operator, basic: Basic, left: &[u8], right: &[u8]) -> Vec<u8> {
    match kind(basic) {
        Kind::Integer { signed } => integer_reference(operator, signed, left, right),
        Kind::Real => real_reference(operator, left, right),
        kind => exact_reference(operator, kind, left, right),
    }
}

fn negated(basic: Basic, bytes: &[u8]) -> Vec<u8> {
    let mut negated = bytes.to_vec();
    let sign = if basic == Basic::F80 { 9 } else { bytes.len() - 1 };
    negated[sign] ^= 0x80;
    negated
}

fn complex_reference(operator: Operator, part: Basic, left: &[u8], right: &[u8]) -> Vec<u8> {
    let ((a, b), (c, d)) = (left.split_at(part.bytes()), right.split_at(part.bytes()));
    let sum = |x: &[u8], y: &[u8]| single_reference(Operator::Sum, part, x, y);
    let product = |x: &[u8], y: &[u8]| single_reference(Operator::Prod, part, x, y);
    let (real, imaginary) = match operator {
        Operator::Sum => (sum(a, c), sum(b, d)),
        _ => {
            let squares = negated(part, &product(b, d));
            (sum(&product(a, c), &squares), sum(&product(a, d), &product(b, c)))
        }
    };
    [real, imaginary].concat()
}

/// Which of two values a search takes: 1 for `left`, -1 for `right`, 0 when they tie.
pub fn better(highest: bool, basic: Basic, left: &[u8], right: &[u8]) -> i32 {
    let below = |a: &[u8], b: &[u8]| match kind(basic) {
        Kind::Integer { signed } => is_below(integer(a, signed), integer(b, signed), signed),
        Kind::Real => real(a) < real(b),
        kind => {
            let (a, b) = (Exact::read_as(kind, a), Exact::read_as(kind, b));
            a.is_below(b) && (a.mantissa, b.mantissa) != (0, 0)
        }
    };
    let nan = |a: &[u8]| kind(basic) == Kind::Real && real(a).is_nan();
    match (nan(left), nan(right)) {
        (true, true) => 0,
        (true, false) => 1,
        (false, true) => -1,
        _ if below(left, right) => {
            if highest {
                -1
            } else {
                1
            }
        }
        _ if below(right, left) => {
            if highest {
                1
            } else {
                -1
            }
        }
        _ => 0,
    }
}

fn pair_reference(highest: bool, value: Basic, index: Basic, left: &[u8], right: &[u8]) -> Vec<u8> {
    let (left_value, left_index) = left.split_at(value.bytes());
    let (right_value, right_index) = right.split_at(value.bytes());
    let takes_left = match better(highest, value, left_value, right_value) {
        0 => better(false, index, left_index, right_index) >= 0,
        verdict => verdict > 0,
    };
    if takes_left { left.to_vec() } else { right.to_vec() }
}

/// What `operator` makes of two elements of a legal type.
pub fn reference(operator: Operator, basic: Basic, left: &[u8], right: &[u8]) -> Vec<u8> {
    match (operator, basic) {
        (Operator::Replace, _) => left.to_vec(),
        (Operator::NoOperation, _) => right.to_vec(),
        (_, Basic::C16 | Basic::C32 | Basic::C64 | Basic::C80 | Basic::C128) => {
            complex_reference(operator, parts(basic)[0], left, right)
        }
        _ => match basic.pair() {
            Some((value, index)) => {
                pair_reference(operator == Operator::MaxLocation, value, index, left, right)
            }
            None => single_reference(operator, basic, left, right),
        },
    }
}
