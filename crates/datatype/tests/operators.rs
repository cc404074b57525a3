//! Every operator with every predefined datatype: legal pairs against a reference written without the library's
//! number types, illegal ones refused with nothing written.

use datatype::{
    Basic, Operator, Predefined, ReduceError, reduce, reduce_eight_bytes, reduce_elements, reduce_four_bytes,
    reduce_packed,
};
use fabric::{Heap, Payload};
use half::f16;

/// Numbers that look random and are the same every time.
struct Random(u64);

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

/// What a single element (not a pair, not a complex number) is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Integer { signed: bool },
    Real,
    LongDouble,
    Quadruple,
}

fn kind(basic: Basic) -> Kind {
    match basic {
        Basic::F16 | Basic::F32 | Basic::F64 => Kind::Real,
        Basic::F80 => Kind::LongDouble,
        Basic::F128 => Kind::Quadruple,
        Basic::U8 | Basic::U16 | Basic::U32 | Basic::U64 | Basic::U128 => Kind::Integer { signed: false },
        _ => Kind::Integer { signed: true },
    }
}

fn parts(basic: Basic) -> Vec<Basic> {
    match basic {
        Basic::C16 => vec![Basic::F16; 2],
        Basic::C32 => vec![Basic::F32; 2],
        Basic::C64 => vec![Basic::F64; 2],
        Basic::C80 => vec![Basic::F80; 2],
        Basic::C128 => vec![Basic::F128; 2],
        basic => basic.pair().map_or(vec![basic], |(value, index)| vec![value, index]),
    }
}

// --- the reference: integers as 128 bits, reals as f64 rounded after every step, long doubles by exact integers ---

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

fn real(bytes: &[u8]) -> f64 {
    match *bytes {
        [a, b] => f16::from_le_bytes([a, b]).to_f64(),
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        _ => f64::from_le_bytes(bytes.try_into().expect("8 bytes")),
    }
}

/// Rounds to the format of so many bytes. An f64 holds sums and products of the narrower formats with bits enough
/// that rounding twice gives what rounding once does.
fn real_bytes(value: f64, bytes: usize) -> Vec<u8> {
    match bytes {
        2 => f16::from_f64(value).to_le_bytes().to_vec(),
        4 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

/// NaN first, then the sign of a zero, then the value.
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

/// A finite long double, or quadruple number, as `mantissa * 2^exponent`, with sign.
#[derive(Clone, Copy, Debug)]
struct Exact {
    negative: bool,
    mantissa: u128,
    exponent: i32,
}

const BIAS: i32 = 16383 + 63;
const BIAS_QUADRUPLE: i32 = 16383 + 112;

impl Exact {
    fn read_as(kind: Kind, bytes: &[u8]) -> Exact {
        if kind == Kind::Quadruple { Exact::read_quadruple(bytes) } else { Exact::read(bytes) }
    }

    fn write_as(self, kind: Kind) -> Vec<u8> {
        if kind == Kind::Quadruple { self.write_quadruple() } else { self.write() }
    }

    /// Of a normal number or 0, with the shortest mantissa.
    fn read_quadruple(bytes: &[u8]) -> Exact {
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

    /// Only for results that are normal numbers or 0, and need no rounding.
    fn write_quadruple(self) -> Vec<u8> {
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

    fn read(bytes: &[u8]) -> Exact {
        let sign_exponent = u16::from_le_bytes([bytes[8], bytes[9]]);
        let mantissa = u128::from(u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")));
        let exponent = i32::from(sign_exponent & 0x7fff) - BIAS;
        Exact { negative: sign_exponent >> 15 == 1, mantissa, exponent }
    }

    /// Rounds to 64 bits, ties to even. Only for results that are normal numbers or 0.
    fn write(mut self) -> Vec<u8> {
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

    fn product(self, other: Exact) -> Exact {
        Exact {
            negative: self.negative != other.negative,
            mantissa: self.mantissa * other.mantissa,
            exponent: self.exponent + other.exponent,
        }
    }

    /// Exponents at most 60 apart, so that the sum fits 126 bits.
    fn sum(self, other: Exact) -> Exact {
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

    fn sum_with_zero(self, other: Exact) -> Exact {
        match (self.mantissa, other.mantissa) {
            (0, 0) => Exact { negative: self.negative && other.negative, ..self },
            (0, _) => other,
            _ => self,
        }
    }

    /// The value, near enough to order corpus numbers that differ.
    fn is_below(self, other: Exact) -> bool {
        let zero = self.mantissa == 0 && other.mantissa == 0;
        let difference = self.sum(Exact { negative: !other.negative, ..other });
        if zero { self.negative && !other.negative } else { difference.negative && difference.mantissa > 0 }
    }
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

/// 1 when left is better, -1 when right is, 0 when they tie.
fn better(highest: bool, basic: Basic, left: &[u8], right: &[u8]) -> i32 {
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

fn pair_reference(highest: bool, (value, index): (Basic, Basic), left: &[u8], right: &[u8]) -> Vec<u8> {
    let (left_value, left_index) = left.split_at(value.bytes());
    let (right_value, right_index) = right.split_at(value.bytes());
    let takes_left = match better(highest, value, left_value, right_value) {
        0 => better(false, index, left_index, right_index) >= 0,
        verdict => verdict > 0,
    };
    if takes_left { left.to_vec() } else { right.to_vec() }
}

fn reference(operator: Operator, basic: Basic, left: &[u8], right: &[u8]) -> Vec<u8> {
    match (operator, basic) {
        (Operator::Replace, _) => left.to_vec(),
        (Operator::NoOperation, _) => right.to_vec(),
        (_, Basic::C16 | Basic::C32 | Basic::C64 | Basic::C80 | Basic::C128) => {
            complex_reference(operator, parts(basic)[0], left, right)
        }
        _ => match basic.pair() {
            Some(pair) => pair_reference(operator == Operator::MaxLocation, pair, left, right),
            None => single_reference(operator, basic, left, right),
        },
    }
}

// --- values ---

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

/// Normal numbers of like magnitude, small integers and zeroes: where the reference is exact. The other values
/// stand in tests of their own.
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

fn random_element(basic: Basic, random: &mut Random) -> Vec<u8> {
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

fn random_elements(basic: Basic, count: usize, random: &mut Random) -> Vec<u8> {
    (0..count).flat_map(|_| random_element(basic, random)).collect()
}

/// Equal bytes, except that one NaN is as good as another.
fn same(basic: Basic, left: &[u8], right: &[u8]) -> bool {
    let (mut left, mut right) = (left, right);
    parts(basic).into_iter().all(|part| {
        let ((a, rest_left), (b, rest_right)) = (left.split_at(part.bytes()), right.split_at(part.bytes()));
        (left, right) = (rest_left, rest_right);
        a == b || kind(part) == Kind::Real && real(a).is_nan() && real(b).is_nan()
    })
}

fn legal_pairs() -> impl Iterator<Item = (Operator, Predefined, Basic)> {
    let all =
        Operator::ALL.into_iter().flat_map(|operator| Predefined::ALL.iter().map(move |&p| (operator, p)));
    all.filter(|(operator, predefined)| operator.is_legal_for(*predefined))
        .map(|(operator, predefined)| (operator, predefined, predefined.basic()))
}

#[test]
fn every_legal_pair_agrees_with_the_reference() {
    let mut random = Random(1);
    let mut checked = 0;
    for (operator, predefined, basic) in legal_pairs() {
        let bytes = basic.bytes();
        for count in [1, 2, 7, 33, 1500] {
            let incoming = random_elements(basic, count, &mut random);
            let before = random_elements(basic, count, &mut random);
            let mut inout = before.clone();
            reduce(operator, predefined, &incoming, &mut inout).expect("legal");
            let elements = incoming.chunks(bytes).zip(before.chunks(bytes)).zip(inout.chunks(bytes));
            for ((left, right), got) in elements {
                let expected = reference(operator, basic, left, right);
                assert!(
                    same(basic, got, &expected),
                    "{left:02x?} {operator} {right:02x?} of {predefined}: got {got:02x?}, expected {expected:02x?}"
                );
            }
        }
        checked += 1;
    }
    assert!(checked > 350, "only {checked} pairs were legal");
}

/// A pair is legal where the standard's table has it, and where both other libraries take it.
#[test]
fn the_table_of_pairs_says_what_is_legal() {
    let table = include_bytes!("../tables/operators.csv");
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(&table[..]);
    let headings = reader.headers().expect("headings").clone();
    let mut named = Vec::new();
    for row in reader.into_records().map(|row| row.expect("a row")) {
        let predefined = Predefined::named(&row[0]).unwrap_or_else(|| panic!("{} is unknown", &row[0]));
        for (heading, cell) in headings.iter().zip(&row).skip(1) {
            let is_named = |operator: &Operator| operator.name() == format!("MPI_{heading}");
            let operator = Operator::ALL.into_iter().find(is_named).expect("an operator");
            let (standard, others) = (cell.contains('s'), cell.contains('m') && cell.contains('o'));
            let taken = operator.is_collective() && operator.is_legal_for(predefined);
            assert_eq!(taken, standard || others, "{operator} {predefined}: {cell}");
            let in_table = operator.is_collective() && operator.is_standard_for(predefined);
            assert_eq!(in_table, standard, "{operator} {predefined}: {cell}");
        }
        assert_eq!(row.len(), Operator::ALL.len() + 1);
        named.push(predefined);
    }
    assert_eq!(named, Predefined::ALL);
}

#[test]
fn every_illegal_pair_is_refused_and_nothing_written() {
    let mut refused = 0;
    for operator in Operator::ALL {
        for &predefined in Predefined::ALL.iter().filter(|p| !operator.is_legal_for(**p)) {
            let mut inout = [7u8; 96];
            let error = ReduceError::NotDefined { operator, predefined };
            assert_eq!(reduce(operator, predefined, &[3; 96], &mut inout), Err(error.clone()));
            let heap = Heap::new(96);
            let incoming = Payload::from(&[3u8; 96][..]);
            let packed = reduce_packed(operator, predefined, 1, incoming, &mut heap.memory());
            let elements = reduce_elements(operator, predefined, 1, incoming, &mut heap.memory());
            assert_eq!((packed, elements), (Err(error.clone()), Err(error)));
            assert_eq!((inout, heap.payload().to_vec()), ([7; 96], vec![0; 96]));
            refused += 1;
        }
    }
    assert!(refused > 400, "only {refused} pairs were illegal");
}

#[test]
fn swapped_operands_give_the_same_bytes() {
    let mut random = Random(2);
    for (operator, predefined, basic) in legal_pairs().filter(|(operator, ..)| operator.is_commutative()) {
        for _ in 0..200 {
            let (left, right) = (random_element(basic, &mut random), random_element(basic, &mut random));
            let (mut forth, mut back) = (right.clone(), left.clone());
            reduce(operator, predefined, &left, &mut forth).expect("legal");
            reduce(operator, predefined, &right, &mut back).expect("legal");
            let tie = same_values(basic, &left, &right);
            assert!(same(basic, &forth, &back) || tie, "{left:02x?} {operator} {right:02x?} of {predefined}");
        }
    }
}

/// Whether a search ties on value and index too, so that either pair may stay: a zero beside a zero of the other
/// sign, or two NaNs.
fn same_values(basic: Basic, left: &[u8], right: &[u8]) -> bool {
    let Some((value, index)) = basic.pair() else { return false };
    let ((a, i), (b, j)) = (left.split_at(value.bytes()), right.split_at(value.bytes()));
    better(true, value, a, b) == 0 && better(true, index, i, j) == 0
}

#[test]
fn claims_give_what_slices_give() {
    let mut random = Random(3);
    for (operator, predefined, basic) in legal_pairs() {
        let datatype = predefined.datatype();
        let count = 9000 / basic.bytes();
        let incoming = random_elements(basic, count, &mut random);
        let before = random_elements(basic, count, &mut random);
        let mut expected = before.clone();
        reduce(operator, predefined, &incoming, &mut expected).expect("legal");

        let packed = Heap::new(before.len());
        packed.memory().write_at(0, Payload::from(&before[..]));
        reduce_packed(operator, predefined, count, Payload::from(&incoming[..]), &mut packed.memory())
            .expect("legal");
        assert_eq!(packed.payload().to_vec(), expected, "{operator} {predefined}");

        let span = datatype.span(count as i64).expect("small").bytes as usize;
        let (left, right) = (Heap::new(span), Heap::new(span));
        right.memory().write_at(0, Payload::from(&vec![0xee; span][..]));
        for (heap, bytes) in [(&left, &incoming), (&right, &before)] {
            datatype::unpack(datatype, count as i64, Payload::from(&bytes[..]), &mut heap.memory(), 0)
                .expect("covers");
        }
        reduce_elements(operator, predefined, count, left.payload(), &mut right.memory()).expect("legal");
        let mut repacked = vec![0; expected.len()];
        datatype::pack(datatype, count as i64, right.payload(), &mut repacked, 0).expect("covers");
        assert_eq!(repacked, expected, "{operator} {predefined}");
        assert_gaps_untouched(basic, &right.payload().to_vec());
    }
}

/// One element in registers has the bits that it has in a buffer, NaNs and zeroes included; what is no single number of that
/// length, or not legal, is left to who can tell.
#[test]
fn one_element_is_combined_as_many_are() {
    let mut random = Random(11);
    let mut combined = 0;
    for (&operator, &predefined) in
        Operator::ALL.iter().flat_map(|operator| Predefined::ALL.iter().map(move |of| (operator, of)))
    {
        let basic = predefined.basic();
        let legal = operator.is_legal_for(predefined) && operator.is_collective();
        let bytes = (legal && parts(basic).len() == 1).then(|| basic.bytes());
        for _ in 0..64 {
            let mut one = || random_elements(basic, 1, &mut random);
            let (left, right) = (one(), one());
            let four =
                left.as_slice().try_into().ok().zip(right.as_slice().try_into().ok()).and_then(|(l, r)| {
                    let [l, r] = [l, r].map(u32::from_ne_bytes);
                    reduce_four_bytes(operator, predefined, l, r).map(|done| done.to_ne_bytes().to_vec())
                });
            let eight =
                left.as_slice().try_into().ok().zip(right.as_slice().try_into().ok()).and_then(|(l, r)| {
                    let [l, r] = [l, r].map(u64::from_ne_bytes);
                    reduce_eight_bytes(operator, predefined, l, r).map(|done| done.to_ne_bytes().to_vec())
                });
            let mut expected = right.clone();
            match bytes {
                Some(4 | 8) => {
                    reduce(operator, predefined, &left, &mut expected).unwrap();
                    assert_eq!(four.or(eight), Some(expected), "{operator} of {predefined}");
                    combined += 1;
                }
                _ => assert_eq!(four.or(eight), None, "{operator} of {predefined}"),
            }
        }
    }
    assert!(combined > 1000, "{combined}");
}

fn assert_gaps_untouched(basic: Basic, memory: &[u8]) {
    let Some((value, _)) = basic.pair() else { return };
    for element in memory.chunks(basic.extent_bytes()) {
        assert!(element[value.bytes()..basic.index_offset()].iter().all(|&byte| byte == 0xee), "{basic:?}");
    }
}

#[test]
fn buffers_may_stand_at_any_address() {
    let mut random = Random(4);
    for (operator, predefined, basic) in legal_pairs() {
        let incoming = random_elements(basic, 40, &mut random);
        let before = random_elements(basic, 40, &mut random);
        let mut expected = before.clone();
        reduce(operator, predefined, &incoming, &mut expected).expect("legal");
        let shifted: Vec<u8> = [0; 3].into_iter().chain(incoming).collect();
        let mut inout: Vec<u8> = [0].into_iter().chain(before).collect();
        reduce(operator, predefined, &shifted[3..], &mut inout[1..]).expect("legal");
        assert_eq!(inout[1..], expected, "{operator} {predefined}");
    }
}

/// Whatever the vectors of the processor are: their whole loops, what is left behind these, and addresses between.
#[test]
fn all_lengths_at_all_addresses_agree_with_the_reference() {
    const MOST: usize = 67;
    let mut random = Random(5);
    for (operator, predefined, basic) in legal_pairs() {
        let bytes = basic.bytes();
        let incoming = random_elements(basic, MOST, &mut random);
        let before = random_elements(basic, MOST, &mut random);
        let pairs = incoming.chunks(bytes).zip(before.chunks(bytes));
        let expected: Vec<u8> = pairs.flat_map(|(a, b)| reference(operator, basic, a, b)).collect();
        for (left_at, right_at) in [(0, 0), (1, 1), (0, 8), (5, 2), (31, 17), (16, 63)] {
            let (left, right) = (Heap::new(MOST * bytes + 64), Heap::new(MOST * bytes + 64));
            left.memory().write_at(left_at, Payload::from(&incoming[..]));
            for count in 0..=MOST {
                right.memory().write_at(right_at, Payload::from(&before[..]));
                let mut inout = right.memory().part(right_at, MOST * bytes);
                reduce_packed(operator, predefined, count, left.payload().after(left_at), &mut inout)
                    .expect("legal");
                let got = inout.payload().to_vec();
                let (done, rest) = got.split_at(count * bytes);
                let mut elements = done.chunks(bytes).zip(expected.chunks(bytes));
                assert!(
                    elements.all(|(got, expected)| same(basic, got, expected)),
                    "{count} of {operator} {predefined} at {left_at} and {right_at}"
                );
                assert_eq!(rest, &before[count * bytes..], "{count} of {operator} {predefined}");
            }
        }
    }
}

#[test]
fn unequal_buffers_are_refused() {
    let unequal =
        |incoming, inout| Err(ReduceError::UnequalBuffers { incoming, inout, predefined: Predefined::Int });
    assert_eq!(reduce(Operator::Sum, Predefined::Int, &[1; 8], &mut [1; 4]), unequal(8, 4));
    assert_eq!(reduce(Operator::Sum, Predefined::Int, &[1; 7], &mut [1; 7]), unequal(7, 7));
    let heap = Heap::new(8);
    let incoming = Payload::from(&[1u8; 12][..]);
    for count in [3, usize::MAX] {
        let result = reduce_packed(Operator::Sum, Predefined::Int, count, incoming, &mut heap.memory());
        assert_eq!(result, unequal(12, 8));
    }
    let short =
        reduce_elements(Operator::MinLocation, Predefined::DoubleInt, 2, incoming, &mut heap.memory());
    assert!(matches!(short, Err(ReduceError::ShortClaim(_))), "{short:?}");
    assert_eq!(heap.payload().to_vec(), [0; 8]);
}

// --- quadruple numbers outside the reference ---

#[test]
fn quadruple_numbers_round_to_even_and_go_beyond_other_formats() {
    const ONE: u128 = 0x3fff << 112;
    const INFINITY: u128 = 0x7fff << 112;
    const SIGN: u128 = 1 << 127;
    let of = |operator, left: u128, right: u128| {
        let mut inout = right.to_ne_bytes();
        reduce(operator, Predefined::Real16, &left.to_ne_bytes(), &mut inout).expect("legal");
        u128::from_ne_bytes(inout)
    };
    let power = |exponent: u128| (0x3fff - exponent) << 112;
    // The last digit of numbers between 1 and 2 is worth 2^-112: half of it rounds to even, a little more rounds up.
    assert_eq!(of(Operator::Sum, ONE, power(112)), ONE | 1);
    assert_eq!(of(Operator::Sum, ONE, power(113)), ONE);
    assert_eq!(of(Operator::Sum, ONE | 1, power(113)), ONE | 2);
    assert_eq!(of(Operator::Sum, ONE, power(113) | 1), ONE | 1);
    // (1 + 2^-112)^2 = 1 + 2^-111 + 2^-224.
    assert_eq!(of(Operator::Prod, ONE | 1, ONE | 1), ONE | 2);
    let (huge, tiny) = (0x7ffe << 112, 1 << 112);
    assert_eq!(of(Operator::Sum, huge, huge), INFINITY);
    assert_eq!(of(Operator::Prod, tiny, power(1)), 1 << 111);
    assert_eq!(of(Operator::Max, SIGN, 0), 0);
    assert_eq!(of(Operator::Min, 0, SIGN), SIGN);
    assert_eq!(of(Operator::Min, SIGN | INFINITY, huge), SIGN | INFINITY);
    let nan = of(Operator::Sum, INFINITY, SIGN | INFINITY);
    assert!(nan & !SIGN > INFINITY);
    for operator in [Operator::Min, Operator::Max] {
        assert_eq!([of(operator, nan, huge), of(operator, huge, nan)], [nan; 2]);
    }
}

// --- long doubles outside the reference ---

fn long_double(sign_exponent: u16, mantissa: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mantissa.to_le_bytes());
    bytes[8..10].copy_from_slice(&sign_exponent.to_le_bytes());
    bytes
}

fn combined(operator: Operator, left: [u8; 16], right: [u8; 16]) -> [u8; 16] {
    let mut inout = right;
    reduce(operator, Predefined::LongDouble, &left, &mut inout).expect("legal");
    inout
}

const LEADING: u64 = 1 << 63;

#[test]
fn long_doubles_keep_all_64_bits_and_the_wide_exponent() {
    let one = long_double(16383, LEADING);
    let epsilon = long_double(16383 - 63, LEADING);
    assert_eq!(combined(Operator::Sum, one, epsilon), long_double(16383, LEADING | 1));
    let huge = long_double(0x7ff0, LEADING);
    assert_eq!(combined(Operator::Prod, huge, one), huge);
    let tiny = long_double(1, LEADING);
    let half = long_double(16382, LEADING);
    assert_eq!(combined(Operator::Prod, tiny, half), long_double(0, LEADING >> 1));
    assert_eq!(combined(Operator::Sum, huge, tiny), huge);
}

#[test]
fn long_doubles_overflow_to_infinity_and_spoil_to_nan() {
    let infinity = long_double(0x7fff, LEADING);
    let minus_infinity = long_double(0xffff, LEADING);
    let huge = long_double(0x7ffe, u64::MAX);
    assert_eq!(combined(Operator::Sum, huge, huge), infinity);
    assert_eq!(combined(Operator::Min, minus_infinity, huge), minus_infinity);
    assert_eq!(combined(Operator::Max, huge, infinity), infinity);
    let nan = combined(Operator::Sum, infinity, minus_infinity);
    assert_eq!(nan[8] & nan[9] | 0x80, 0xff, "an exponent of ones");
    assert_ne!(nan[..8], LEADING.to_le_bytes());
    for operator in [Operator::Min, Operator::Max] {
        assert_eq!(combined(operator, nan, huge), nan);
        assert_eq!(combined(operator, huge, nan), nan);
    }
}

#[test]
fn long_doubles_are_ordered_down_to_the_smallest() {
    let ascending = [
        long_double(0xffff, LEADING),
        long_double(0x8001, LEADING),
        long_double(0x8000, LEADING >> 1),
        long_double(0x8000, 1),
        long_double(0x8000, 0),
        long_double(0, 0),
        long_double(0, 1),
        long_double(0, LEADING >> 1),
        long_double(1, LEADING),
        long_double(1, LEADING | 1),
        long_double(0x7fff, LEADING),
    ];
    for (place, &low) in ascending.iter().enumerate() {
        for &high in &ascending[place..] {
            for (left, right) in [(low, high), (high, low)] {
                assert_eq!(combined(Operator::Min, left, right), low);
                assert_eq!(combined(Operator::Max, left, right), high);
            }
        }
    }
}
