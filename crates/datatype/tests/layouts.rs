//! Random nested datatypes against the definition of a type map, entry by entry (MPI 5.0 section 5.1):
//! bounds, packing in any chunks, unpacking in any chunks, blocks, counts.

mod plans;

use datatype::{
    ArrayOrder, Block, Datatype, DatatypeError, Field, Predefined, ShortClaim, each_block, pack, pack_memory,
    unpack,
};
use fabric::{Heap, Payload};
use plans::{cuts, plan};
use proptest::prelude::*;

/// A byte that depends on its place, so that a misplaced one shows.
fn pattern(place: usize) -> u8 {
    (place * 167 + place / 256 + 13) as u8
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bounds_and_sizes_obey_the_definition(plan in plan(), count in 0..4_i64) {
        let (datatype, map) = (plan.build().expect("small"), plan.type_map());
        let (start, end) = map.true_range();
        prop_assert_eq!(datatype.size(), map.places(1).len() as i64);
        prop_assert_eq!(datatype.elements(), map.entries.len() as i64);
        prop_assert_eq!(datatype.lower_bound(), map.lower_bound());
        prop_assert_eq!(datatype.extent(), map.extent());
        prop_assert_eq!(datatype.true_lower_bound(), start);
        prop_assert_eq!(datatype.true_extent(), end - start);
        let places = map.places(count);
        let span = datatype.span(count).expect("small");
        prop_assert_eq!(span.start, places.iter().copied().min().unwrap_or(0));
        prop_assert_eq!(span.start + span.bytes, places.iter().map(|place| place + 1).max().unwrap_or(0));
    }

    #[test]
    fn a_whole_reaches_as_far_as_its_parts(
        plan in plan(),
        count in 1..4_i64,
        length in 1..4_i64,
        stride in -300..300_i64,
        places in proptest::collection::vec(-99..99_i64, 1..5),
    ) {
        let part = plan.build().expect("small");
        // Where nothing is, nothing ends.
        prop_assume!(part.size() > 0);
        let upper = |datatype: &Datatype| datatype.lower_bound() + datatype.extent();
        let last = (length - 1) * part.extent();
        let vector = Datatype::hvector(count, length, stride, &part).expect("small");
        for place in [0, last] {
            for round in [0, (count - 1) * stride] {
                prop_assert!(upper(&vector) >= round + place + upper(&part));
                prop_assert!(vector.lower_bound() <= round + place + part.lower_bound());
            }
        }
        let blocks = Datatype::hindexed_block(length, &places, &part).expect("small");
        for place in places {
            prop_assert!(upper(&blocks) >= place + last.max(0) + upper(&part));
            prop_assert!(blocks.lower_bound() <= place + last.min(0) + part.lower_bound());
        }
    }

    #[test]
    fn blocks_name_every_packed_byte_in_order(plan in plan(), count in 0..4_i64, cut in (0..200_i64, 0..200_i64)) {
        let (datatype, places) = (plan.build().expect("small"), plan.type_map().places(count));
        let span = datatype.span(count).expect("small");
        let mut named = Vec::new();
        let mut visit = |start: usize, bytes: usize| named.extend(start as i64..(start + bytes) as i64);
        each_block(&datatype, count, cut.0..cut.0 + cut.1, &mut visit).expect("small");
        let expected = places.iter().map(|place| place - span.start).skip(cut.0 as usize).take(cut.1 as usize);
        prop_assert_eq!(named, expected.collect::<Vec<_>>());
    }

    #[test]
    fn packs_in_any_chunks(plan in plan(), count in 0..4_i64, lengths in proptest::collection::vec(1..70_usize, 1..6)) {
        let (datatype, places) = (plan.build().expect("small"), plan.type_map().places(count));
        let span = datatype.span(count).expect("small");
        let source: Vec<u8> = (0..span.bytes as usize).map(pattern).collect();
        let expected: Vec<u8> = places.iter().map(|place| pattern((place - span.start) as usize)).collect();
        for cut in cuts(expected.len(), &lengths) {
            let mut chunk = vec![0; cut.len()];
            let packed = pack(&datatype, count, Payload::from(&source[..]), &mut chunk, cut.start as i64);
            prop_assert_eq!(packed.expect("whole claim"), cut.len());
            prop_assert_eq!(&chunk, &expected[cut.clone()], "{:?} of {:?}", cut, datatype.layout());
            let heap = Heap::new(cut.len());
            let packed =
                pack_memory(&datatype, count, Payload::from(&source[..]), &mut heap.memory(), cut.start as i64);
            prop_assert_eq!(packed.expect("whole claim"), cut.len());
            prop_assert_eq!(heap.payload().to_vec(), &expected[cut]);
        }
    }

    #[test]
    fn unpacks_in_any_chunks(plan in plan(), count in 0..4_i64, lengths in proptest::collection::vec(1..70_usize, 1..6)) {
        let (datatype, places) = (plan.build().expect("small"), plan.type_map().places(count));
        let span = datatype.span(count).expect("small");
        let packed: Vec<u8> = (0..places.len()).map(pattern).collect();
        let mut expected = vec![0xee; span.bytes as usize];
        for (&place, &byte) in places.iter().zip(&packed) {
            expected[(place - span.start) as usize] = byte;
        }
        let heap = Heap::new(span.bytes as usize);
        heap.memory().write_at(0, Payload::from(&vec![0xee; span.bytes as usize][..]));
        for cut in cuts(packed.len(), &lengths) {
            let chunk = Payload::from(&packed[cut.clone()]);
            let taken = unpack(&datatype, count, chunk, &mut heap.memory(), cut.start as i64);
            prop_assert_eq!(taken.expect("whole claim"), cut.len());
        }
        prop_assert_eq!(heap.payload().to_vec(), expected, "{:?}", datatype.layout());
    }

    #[test]
    fn counts_whole_elements(plan in plan(), bytes in 0..400_i64) {
        let (datatype, map) = (plan.build().expect("small"), plan.type_map());
        let size = datatype.size();
        if size == 0 {
            let zero = (bytes == 0).then_some(0);
            prop_assert_eq!((datatype.count_in(bytes), datatype.elements_in(bytes)), (zero, zero));
            return Ok(());
        }
        let mut ends = vec![0];
        while *ends.last().expect("one") < bytes {
            for entry in &map.entries {
                ends.push(ends.last().expect("one") + entry.0.size());
            }
        }
        let elements = ends.iter().position(|&end| end == bytes).map(|place| place as i64);
        prop_assert_eq!(datatype.elements_in(bytes), elements);
        for (elements, &end) in ends.iter().enumerate() {
            prop_assert_eq!(datatype.bytes_of_elements(elements as i64), Some(end));
        }
        prop_assert_eq!(datatype.count_in(bytes), (bytes % size == 0).then_some(bytes / size));
    }
}

fn named(predefined: Predefined) -> &'static Datatype {
    predefined.datatype()
}

#[test]
fn common_datatypes_compile_to_loops_round_a_block() {
    let double = named(Predefined::Double);
    let column = Datatype::vector(100, 1, 64, double).expect("small");
    assert_eq!(format!("{:?}", column.layout()), "100 x +512 of 8 bytes at 0");
    let rows = Datatype::vector(100, 64, 64, double).expect("small");
    assert_eq!((rows.is_dense(), rows.layout().blocks()), (true, 1));
    let face = Datatype::subarray(&[10, 20, 30], &[10, 20, 1], &[0, 0, 7], ArrayOrder::C, double);
    assert_eq!(format!("{:?}", face.expect("inside").layout()), "(+56) 200 x +240 of 8 bytes at 0");
    let block = Datatype::subarray(&[10, 20, 30], &[5, 6, 7], &[1, 2, 3], ArrayOrder::C, double);
    let layout = "(+5304) 5 x +4800 of 6 x +240 of 56 bytes at 0";
    assert_eq!(format!("{:?}", block.expect("inside").layout()), layout);
    let gather = Datatype::indexed_block(1, &[4, 6, 8, 10], double).expect("small");
    assert_eq!(format!("{:?}", gather.layout()), "4 x +16 of 8 bytes at 32");
}

#[test]
fn neighbours_that_share_data_but_not_extent_are_told_apart() {
    let int = named(Predefined::Int);
    let still = int.resized(0, 0).expect("small");
    let wide = int.resized(0, 12).expect("small");
    let field = |datatype| Field { length: 2, displacement: 0, datatype };
    let made = Datatype::structure(&[field(int), field(&still), field(&wide)]).expect("small");
    assert_eq!((made.size(), made.true_extent()), (24, 16));
    let mut blocks = Vec::new();
    each_block(&made, 1, 0..24, &mut |start, bytes| blocks.push((start, bytes))).expect("small");
    assert_eq!(blocks, [(0, 8), (0, 4), (0, 4), (0, 4), (12, 4)]);
}

#[test]
fn made_of_sees_through_constructors() {
    let int = named(Predefined::Int);
    let vector = Datatype::vector(3, 2, 5, int).expect("small");
    assert_eq!(vector.made_of(), Some(Predefined::Int));
    assert_eq!((vector.predefined(), vector.name()), (None, ""));
    assert_eq!((int.predefined(), int.name()), (Some(Predefined::Int), "MPI_INT"));
    let field = |datatype, displacement| Field { length: 1, displacement, datatype };
    let same = Datatype::structure(&[field(&vector, 0), field(int, 100)]).expect("small");
    assert_eq!(same.made_of(), Some(Predefined::Int));
    let mixed = Datatype::structure(&[field(int, 0), field(named(Predefined::Unsigned), 4)]).expect("small");
    assert_eq!(mixed.made_of(), None);
    assert!(mixed.is_dense());
    assert_eq!(Datatype::contiguous(0, int).expect("small").made_of(), None);
}

#[test]
fn impossible_datatypes_are_refused() {
    let double = named(Predefined::Double);
    let overflow = |made: Result<Datatype, DatatypeError>| {
        assert!(matches!(made, Err(DatatypeError::Overflow { .. })), "{made:?}");
    };
    assert_eq!(
        Datatype::contiguous(-1, double).expect_err("negative"),
        DatatypeError::NegativeCount { count: -1 }
    );
    overflow(Datatype::contiguous(i64::MAX / 8 + 1, double));
    overflow(Datatype::hvector(3, 1, i64::MAX / 2, double));
    overflow(Datatype::hindexed_block(1, &[i64::MAX - 4], double));
    overflow(Datatype::hindexed_block(1, &[i64::MIN, 0], double));
    overflow(Datatype::indexed_block(1, &[i64::MAX / 4], double));
    overflow(double.resized(i64::MAX, 1));
    let half = Datatype::contiguous(i64::MAX / 16, double).expect("fits");
    let field = Field { length: 1, displacement: 0, datatype: &half };
    overflow(Datatype::structure(&[field; 3]));
    overflow(Datatype::subarray(&[1 << 40, 1 << 40], &[1, 1], &[0, 0], ArrayOrder::C, double));
    for (sizes, subsizes, starts) in [([4], [0], [0]), ([4], [5], [0]), ([4], [2], [3]), ([0], [0], [0])] {
        let made = Datatype::subarray(&sizes, &subsizes, &starts, ArrayOrder::C, double);
        assert!(matches!(made, Err(DatatypeError::OutsideArray { dimension: 0, .. })), "{made:?}");
    }
    let unequal = Datatype::subarray(&[2, 2], &[1], &[0, 0], ArrayOrder::C, double);
    assert!(matches!(unequal, Err(DatatypeError::UnequalDimensions { .. })), "{unequal:?}");
}

#[test]
fn hierarchy_has_a_bottom() {
    let mut datatype = named(Predefined::Double).clone();
    let refused = (0..5000).find_map(|level| {
        let stride = datatype.true_extent() + 3 + level % 2;
        let made = Datatype::structure(&[
            Field { length: 1, displacement: 0, datatype: named(Predefined::Char) },
            Field { length: 1, displacement: 16 + stride % 8, datatype: &datatype },
        ]);
        match made {
            Ok(deeper) => {
                datatype = deeper;
                None
            }
            Err(error) => Some(error),
        }
    });
    assert_eq!(refused, Some(DatatypeError::TooDeep { max: 512 }));
    let span = datatype.span(1).expect("small");
    let source = vec![1; span.bytes as usize];
    let mut packed = vec![0; datatype.size() as usize];
    assert_eq!(pack(&datatype, 1, Payload::from(&source[..]), &mut packed, 0), Ok(packed.len()));
    assert!(packed.iter().all(|&byte| byte == 1));
}

#[test]
fn doubling_a_datatype_again_and_again_costs_little() {
    let mut datatype = named(Predefined::Char).clone();
    for _ in 0..30 {
        let extent = datatype.extent();
        datatype = Datatype::hindexed_block(1, &[0, extent + 1, 3 * extent + 5], &datatype).expect("fits");
    }
    assert_eq!(datatype.size(), 3_i64.pow(30));
    assert_eq!(datatype.layout().blocks(), 3_i64.pow(30));
}

#[test]
fn claims_that_are_too_short_are_refused_before_a_byte_moves() {
    let vector = Datatype::vector(4, 1, 2, named(Predefined::Int)).expect("small");
    let heap = Heap::new(27);
    let short = ShortClaim::Bytes { count: 1, needed: 28, given: 27 };
    assert_eq!(pack(&vector, 1, heap.payload(), &mut [0; 16], 0), Err(short.clone()));
    assert_eq!(unpack(&vector, 1, Payload::from(&[1; 16][..]), &mut heap.memory(), 0), Err(short));
    assert_eq!(heap.payload().to_vec(), [0; 27]);
    let negative = pack(&vector, -1, heap.payload(), &mut [0; 16], 0);
    assert_eq!(negative, Err(ShortClaim::Span(DatatypeError::NegativeCount { count: -1 })));
    assert!(matches!(vector.span(i64::MAX), Err(DatatypeError::Overflow { .. })));
}

#[test]
fn positions_outside_the_message_move_nothing() {
    let int = named(Predefined::Int);
    let source = [7u8; 8];
    for from in [8, 9, i64::MAX, -1] {
        assert_eq!(pack(int, 2, Payload::from(&source[..]), &mut [0; 8], from), Ok(0), "{from}");
    }
    assert_eq!(pack(int, 2, Payload::from(&source[..]), &mut [0; 8], 6), Ok(2));
    assert_eq!(pack(int, 0, Payload::EMPTY, &mut [0; 8], 0), Ok(0));
}

#[test]
fn data_at_either_end_of_all_addresses_is_moved() {
    // Sums on the way to a place wrap round here; found by the fuzzer.
    for first in [i64::MIN, i64::MIN + 1, i64::MAX - 60] {
        let two = [Block { length: 1, displacement: first }, Block { length: 1, displacement: first + 6 }];
        let pair = Datatype::hindexed(&two, named(Predefined::Short)).expect("it ends before the numbers do");
        let far = Datatype::hvector(3, 1, 20, &pair).expect("so does this");
        let span = far.span(1).expect("all of it lies within the numbers");
        let contents: Vec<u8> = (1..=12).collect();
        for from in 0..12 {
            let heap = Heap::new(span.bytes as usize);
            let packed = Payload::from(&contents[from..]);
            assert_eq!(unpack(&far, 1, packed, &mut heap.memory(), from as i64), Ok(12 - from));
            let mut again = vec![0; 12 - from];
            assert_eq!(pack(&far, 1, heap.payload(), &mut again, from as i64), Ok(12 - from));
            assert_eq!(again, contents[from..], "from byte {from}, displaced by {first}");
        }
    }
}
