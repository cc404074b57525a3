//! external32 of random nested datatypes against an interpreter of the type map, element by element, both
//! ways.

mod plans;

use datatype::{Predefined, pack_external, unpack_external};
use fabric::{Heap, Payload};
use plans::plan;
use proptest::prelude::*;

/// Bytes of one element here, and what they are in external32. The value depends on `seed`.
fn element(predefined: Predefined, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed >> 7;
    match predefined {
        Predefined::Long => {
            let value = random as i32;
            (i64::from(value).to_ne_bytes().to_vec(), value.to_be_bytes().to_vec())
        }
        Predefined::UnsignedLong => {
            let value = random as u32;
            (u64::from(value).to_ne_bytes().to_vec(), value.to_be_bytes().to_vec())
        }
        Predefined::Wchar => {
            let value = random as u16;
            (i32::from(value).to_ne_bytes().to_vec(), value.to_be_bytes().to_vec())
        }
        Predefined::LongDouble => long_double(random),
        Predefined::CLongDoubleComplex | Predefined::CxxLongDoubleComplex => {
            let (real, imaginary) = (long_double(random), long_double(!random));
            ([real.0, imaginary.0].concat(), [real.1, imaginary.1].concat())
        }
        _ => {
            let bytes = predefined.size() as usize;
            let native: Vec<u8> =
                (0..bytes).map(|at| (random >> (at % 8 * 8)) as u8 ^ (at / 8) as u8).collect();
            let part = if predefined.name().contains("COMPLEX") { bytes / 2 } else { bytes };
            let external =
                native.chunks(part).flat_map(|part| part.iter().rev().copied().collect::<Vec<_>>());
            (native.clone(), external.collect())
        }
    }
}

/// `fraction * 2^(exponent - bias)` with a fraction in 1..2, in both formats.
fn long_double(random: u64) -> (Vec<u8>, Vec<u8>) {
    let (sign, exponent) = (random & 0x8000, 1 + random % 0x7ffe);
    let mantissa = random | 1 << 63;
    let mut native = mantissa.to_le_bytes().to_vec();
    native.extend(((sign | exponent) as u16).to_le_bytes());
    native.extend([0; 6]);
    let quadruple = u128::from(sign | exponent) << 112 | u128::from(mantissa << 1) << 48;
    (native, quadruple.to_be_bytes().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_ways_agree_with_the_definition(plan in plan(), count in 0..4_i64, seed in any::<u64>()) {
        let (datatype, map) = (plan.build().expect("small"), plan.type_map());
        let span = datatype.span(count).expect("small");
        // Elements that overlap have one value, that of the last; so each place is written once only here.
        let entries: Vec<(Predefined, i64)> = (0..count)
            .flat_map(|round| map.entries.iter().map(move |&(predefined, at)| (predefined, at, round)))
            .map(|(predefined, at, round)| (predefined, at + round * map.extent() - span.start))
            .collect();
        let mut taken = vec![false; span.bytes as usize];
        for &(predefined, at) in &entries {
            let bytes = predefined.size();
            for place in at..at + bytes {
                prop_assume!(!std::mem::replace(&mut taken[place as usize], true));
            }
        }
        let mut memory = vec![0xee; span.bytes as usize];
        let mut expected = Vec::new();
        for (number, &(predefined, at)) in entries.iter().enumerate() {
            let (native, external) = element(predefined, seed.wrapping_add(number as u64));
            memory[at as usize..][..native.len()].copy_from_slice(&native);
            expected.extend(external);
        }
        prop_assert_eq!(datatype.external_bytes(count).expect("small"), expected.len() as i64);
        let packed = Heap::new(expected.len());
        pack_external(&datatype, count, Payload::from(&memory[..]), &mut packed.memory()).expect("enough room");
        prop_assert_eq!(packed.payload().to_vec(), expected, "{:?}", datatype.layout());
        let back = Heap::new(memory.len());
        back.memory().write_at(0, Payload::from(&vec![0xee; memory.len()][..]));
        unpack_external(&datatype, count, packed.payload(), &mut back.memory()).expect("enough room");
        prop_assert_eq!(back.payload().to_vec(), memory, "{:?}", datatype.layout());
    }
}

#[test]
fn long_rows_go_through_the_stage_in_many_chunks() {
    let record = {
        let field = |length, displacement, predefined: Predefined| datatype::Field {
            length,
            displacement,
            datatype: predefined.datatype(),
        };
        let fields = [
            field(3, 0, Predefined::Short),
            field(2, 8, Predefined::Long),
            field(1, 32, Predefined::LongDouble),
        ];
        datatype::Datatype::structure(&fields).expect("small")
    };
    let count = 1000;
    let mut memory = Vec::new();
    let mut expected = Vec::new();
    for number in 0..count {
        for (gap, predefined) in [
            (0, Predefined::Short),
            (0, Predefined::Short),
            (0, Predefined::Short),
            (2, Predefined::Long),
            (0, Predefined::Long),
            (8, Predefined::LongDouble),
        ] {
            memory.extend(vec![0; gap]);
            let (native, external) = element(predefined, number);
            memory.extend(native);
            expected.extend(external);
        }
    }
    let packed = Heap::new(expected.len());
    pack_external(&record, count as i64, Payload::from(&memory[..]), &mut packed.memory())
        .expect("enough room");
    assert!(packed.payload().to_vec() == expected);
    let back = Heap::new(memory.len());
    unpack_external(&record, count as i64, packed.payload(), &mut back.memory()).expect("enough room");
    assert!(back.payload().to_vec() == memory);
    let short = Payload::from(&expected[1..]);
    assert!(unpack_external(&record, count as i64, short, &mut back.memory()).is_err());
}
