//! Random elements of each basic type, and when two of them are equal.

use datatype::Basic;

use crate::exact::Exact;
use crate::reference::{Kind, kind, parts, real, real_bytes};

/// Numbers that look random and are the same every time.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn random_integer(bytes: usize, random: &mut Random) -> Vec<u8> {
    let wide = [random.next().to_le_bytes(), random.next().to_le_bytes()].concat();
    let sign = 1u128 << (8 * bytes - 1);
    let edges = [0, 1, 2, 3, u128::MAX, sign, sign - 1, sign + 1, 0x80, 0xff00];
    let value = match random.below(3) {
        0 => edges[random.below(edges.len() as u64) as usize],
        1 => u128::from(random.below(7)),
        _ => u128::from_le_bytes(wide.try_into().expect("16 bytes")),
    };
    value.to_le_bytes()[..bytes].to_vec()
}

fn random_real(bytes: usize, random: &mut Random) -> Vec<u8> {
    let edges = [0.0, -0.0, 1.0, -1.0, 1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 6e-8, -6e-8, 65504.0];
    match random.below(4) {
        0 => real_bytes(edges[random.below(edges.len() as u64) as usize], bytes),
        1 => real_bytes(random.below(9) as f64 - 4.0, bytes),
        _ => random.next().to_le_bytes()[..bytes].to_vec(),
    }
}

/// Normal numbers of like magnitude, small integers and zeroes: where the reference is exact. The other
/// values stand in tests of their own.
fn random_long_double(random: &mut Random) -> Vec<u8> {
    let negative = random.below(2) == 1;
    match random.below(5) {
        0 => Exact { negative, mantissa: 0, exponent: 0 }.write(),
        1 => Exact { negative, mantissa: u128::from(random.below(9)), exponent: 0 }.write(),
        _ => {
            let mantissa = u128::from(random.next() | 1 << 63);
            Exact { negative, mantissa, exponent: random.below(9) as i32 - 63 }.write()
        }
    }
}

/// Short enough that products, and sums of two products, are numbers of the format.
fn random_quadruple(random: &mut Random) -> Vec<u8> {
    let negative = random.below(2) == 1;
    let mantissa = match random.below(3) {
        0 => u128::from(random.below(3)),
        _ => u128::from(random.next() >> 19),
    };
    Exact { negative, mantissa, exponent: random.below(9) as i32 - 63 }.write_quadruple()
}

pub fn random_element(basic: Basic, random: &mut Random) -> Vec<u8> {
    let mut part = |part: Basic| match kind(part) {
        Kind::Integer { .. } => random_integer(part.bytes(), random),
        Kind::Real => random_real(part.bytes(), random),
        Kind::LongDouble => random_long_double(random),
        Kind::Quadruple => random_quadruple(random),
    };
    match basic.pair() {
        // An index that is no number means nothing, so there is none here.
        Some((value, Basic::F32 | Basic::F64)) => {
            [part(value), real_bytes(random.below(5) as f64, value.bytes())].concat()
        }
        _ => parts(basic).into_iter().flat_map(part).collect(),
    }
}

pub fn random_elements(basic: Basic, count: usize, random: &mut Random) -> Vec<u8> {
    (0..count).flat_map(|_| random_element(basic, random)).collect()
}

/// Equal bytes, except that one NaN is as good as another.
pub fn same(basic: Basic, left: &[u8], right: &[u8]) -> bool {
    let (mut left, mut right) = (left, right);
    parts(basic).into_iter().all(|part| {
        let ((a, rest_left), (b, rest_right)) = (left.split_at(part.bytes()), right.split_at(part.bytes()));
        (left, right) = (rest_left, rest_right);
        a == b || kind(part) == Kind::Real && real(a).is_nan() && real(b).is_nan()
    })
}
