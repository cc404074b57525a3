//! Sums, products and extremes of long doubles and quadruple numbers that the reference does not reach.

use datatype::{Operator, Predefined, reduce};

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
    // The last digit of numbers between 1 and 2 is worth 2^-112: half of it rounds to even, a little more
    // rounds up.
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
