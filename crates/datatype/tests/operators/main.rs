//! Every operator with every predefined datatype: legal pairs against a reference written without the
//! library's number types, illegal ones refused with nothing written.

use datatype::{
    Basic, Operator, Predefined, ReduceError, reduce, reduce_eight_bytes, reduce_elements, reduce_four_bytes,
    reduce_packed,
};
use fabric::{Heap, Payload};

use reference::{better, parts, reference};
use values::{Random, random_element, random_elements, same};

mod exact;
mod reference;
mod values;
mod wide_reals;

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
    let table = include_bytes!("../../tables/operators.csv");
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

/// Whether a search ties on value and index too, so that either pair may stay: a zero beside a zero of the
/// other sign, or two NaNs.
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

/// One element in registers has the bits that it has in a buffer, NaNs and zeroes included; what is no single
/// number of that length, or not legal, is left to who can tell.
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

/// Whatever the vectors of the processor are: their whole loops, what is left behind these, and addresses
/// between.
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
