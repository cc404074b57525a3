//! Random nested datatypes against the definition of a type map, entry by entry (MPI 5.0 section 5.1): bounds,
//! packing in any pieces, unpacking in any pieces, blocks, counts.

use datatype::{
    ArrayOrder, Basic, Block, Datatype, DatatypeError, Field, Predefined, ShortClaim, each_block, pack,
    pack_memory, unpack,
};
use fabric::{Heap, Payload};
use proptest::prelude::*;

/// How a datatype is made; built twice, by the library and by the definition.
#[derive(Clone, Debug)]
enum Plan {
    Named(Predefined),
    Contiguous(i64, Box<Plan>),
    Vector(i64, i64, i64, Box<Plan>),
    Hvector(i64, i64, i64, Box<Plan>),
    Indexed(Vec<(i64, i64)>, Box<Plan>),
    Hindexed(Vec<(i64, i64)>, Box<Plan>),
    IndexedBlock(i64, Vec<i64>, Box<Plan>),
    HindexedBlock(i64, Vec<i64>, Box<Plan>),
    Structure(Vec<(i64, i64, Plan)>),
    Resized(i64, i64, Box<Plan>),
    Subarray(Vec<(i64, i64, i64)>, bool, Box<Plan>),
    Duplicate(Box<Plan>),
}

impl Plan {
    fn build(&self) -> Result<Datatype, DatatypeError> {
        match self {
            Plan::Named(predefined) => Ok(predefined.datatype().expect("supported").clone()),
            Plan::Contiguous(count, of) => Datatype::contiguous(*count, &of.build()?),
            Plan::Vector(count, length, stride, of) => {
                Datatype::vector(*count, *length, *stride, &of.build()?)
            }
            Plan::Hvector(count, length, stride, of) => {
                Datatype::hvector(*count, *length, *stride, &of.build()?)
            }
            Plan::Indexed(list, of) => Datatype::indexed(&blocks(list), &of.build()?),
            Plan::Hindexed(list, of) => Datatype::hindexed(&blocks(list), &of.build()?),
            Plan::IndexedBlock(length, list, of) => Datatype::indexed_block(*length, list, &of.build()?),
            Plan::HindexedBlock(length, list, of) => Datatype::hindexed_block(*length, list, &of.build()?),
            Plan::Structure(fields) => build_structure(fields),
            Plan::Resized(lower_bound, extent, of) => of.build()?.resized(*lower_bound, *extent),
            Plan::Subarray(dimensions, fortran, of) => build_subarray(dimensions, *fortran, &of.build()?),
            Plan::Duplicate(of) => Ok(of.build()?.duplicate()),
        }
    }

    fn type_map(&self) -> TypeMap {
        match self {
            Plan::Named(predefined) => TypeMap::of(predefined.basic().expect("supported")),
            Plan::Contiguous(count, of) => of.type_map().row(*count),
            Plan::Vector(count, length, stride, of) => {
                let of = of.type_map();
                of.row(*length).rounds(*count, *stride * of.extent())
            }
            Plan::Hvector(count, length, stride, of) => of.type_map().row(*length).rounds(*count, *stride),
            Plan::Indexed(list, of) => of.type_map().blocks_in_extents(list),
            Plan::Hindexed(list, of) => of.type_map().blocks(list),
            Plan::IndexedBlock(length, list, of) => of.type_map().blocks_in_extents(&alike(*length, list)),
            Plan::HindexedBlock(length, list, of) => of.type_map().blocks(&alike(*length, list)),
            Plan::Structure(fields) => TypeMap::joined(
                fields.iter().map(|(length, at, of)| of.type_map().row(*length).shifted(*at)).collect(),
            ),
            Plan::Resized(lower_bound, extent, of) => {
                of.type_map().marked(*lower_bound, *lower_bound + *extent)
            }
            Plan::Subarray(dimensions, fortran, of) => of.type_map().subarray(dimensions, *fortran),
            Plan::Duplicate(of) => of.type_map(),
        }
    }
}

fn blocks(list: &[(i64, i64)]) -> Vec<Block> {
    list.iter().map(|&(length, displacement)| Block { length, displacement }).collect()
}

fn alike(length: i64, displacements: &[i64]) -> Vec<(i64, i64)> {
    displacements.iter().map(|&displacement| (length, displacement)).collect()
}

fn build_structure(fields: &[(i64, i64, Plan)]) -> Result<Datatype, DatatypeError> {
    let types: Vec<Datatype> = fields.iter().map(|field| field.2.build()).collect::<Result<_, _>>()?;
    let fields: Vec<Field<'_>> = fields
        .iter()
        .zip(&types)
        .map(|(&(length, displacement, _), datatype)| Field { length, displacement, datatype })
        .collect();
    Datatype::structure(&fields)
}

fn build_subarray(
    dimensions: &[(i64, i64, i64)],
    fortran: bool,
    of: &Datatype,
) -> Result<Datatype, DatatypeError> {
    let sizes: Vec<i64> = dimensions.iter().map(|dimension| dimension.0).collect();
    let subsizes: Vec<i64> = dimensions.iter().map(|dimension| dimension.1).collect();
    let starts: Vec<i64> = dimensions.iter().map(|dimension| dimension.2).collect();
    let order = if fortran { ArrayOrder::Fortran } else { ArrayOrder::C };
    Datatype::subarray(&sizes, &subsizes, &starts, order, of)
}

/// The definition: each basic element with its place, and the marks that resizing leaves.
#[derive(Clone, Debug, Default)]
struct TypeMap {
    entries: Vec<(Basic, i64)>,
    lower_marks: Vec<i64>,
    upper_marks: Vec<i64>,
}

impl TypeMap {
    fn of(basic: Basic) -> TypeMap {
        let entries = match basic.pair() {
            Some((value, index)) => vec![(value, 0), (index, basic.index_offset() as i64)],
            None => vec![(basic, 0)],
        };
        TypeMap { entries, ..TypeMap::default() }
    }

    fn joined(parts: Vec<TypeMap>) -> TypeMap {
        let mut whole = TypeMap::default();
        for part in parts {
            whole.entries.extend(part.entries);
            whole.lower_marks.extend(part.lower_marks);
            whole.upper_marks.extend(part.upper_marks);
        }
        whole
    }

    fn shifted(&self, bytes: i64) -> TypeMap {
        TypeMap {
            entries: self.entries.iter().map(|&(basic, at)| (basic, at + bytes)).collect(),
            lower_marks: self.lower_marks.iter().map(|at| at + bytes).collect(),
            upper_marks: self.upper_marks.iter().map(|at| at + bytes).collect(),
        }
    }

    fn rounds(&self, count: i64, stride: i64) -> TypeMap {
        TypeMap::joined((0..count).map(|round| self.shifted(round * stride)).collect())
    }

    fn row(&self, count: i64) -> TypeMap {
        self.rounds(count, self.extent())
    }

    fn blocks(&self, list: &[(i64, i64)]) -> TypeMap {
        TypeMap::joined(list.iter().map(|&(length, at)| self.row(length).shifted(at)).collect())
    }

    fn blocks_in_extents(&self, list: &[(i64, i64)]) -> TypeMap {
        let extent = self.extent();
        let list: Vec<_> = list.iter().map(|&(length, at)| (length, at * extent)).collect();
        self.blocks(&list)
    }

    fn marked(mut self, lower: i64, upper: i64) -> TypeMap {
        (self.lower_marks, self.upper_marks) = (vec![lower], vec![upper]);
        self
    }

    /// Every element of the array in memory order, kept when its index lies in the part.
    fn subarray(&self, dimensions: &[(i64, i64, i64)], fortran: bool) -> TypeMap {
        let mut slowest_first = dimensions.to_vec();
        if fortran {
            slowest_first.reverse();
        }
        let total: i64 = slowest_first.iter().map(|dimension| dimension.0).product();
        let kept = (0..total).filter(|&place| {
            let mut rest = place;
            slowest_first.iter().rev().all(|&(size, subsize, start)| {
                let index = rest % size;
                rest /= size;
                (start..start + subsize).contains(&index)
            })
        });
        let extent = self.extent();
        let parts = kept.map(|place| self.shifted(place * extent)).collect();
        TypeMap::joined(parts).marked(0, total * extent)
    }

    fn true_range(&self) -> (i64, i64) {
        let start = self.entries.iter().map(|entry| entry.1).min().unwrap_or(0);
        let end = self.entries.iter().map(|&(basic, at)| at + basic.bytes() as i64).max().unwrap_or(0);
        (start, end)
    }

    fn lower_bound(&self) -> i64 {
        self.lower_marks.iter().copied().min().unwrap_or(self.true_range().0)
    }

    fn extent(&self) -> i64 {
        if let Some(upper) = self.upper_marks.iter().copied().max() {
            return upper - self.lower_bound();
        }
        let (start, end) = self.true_range();
        let aligned = self.entries.iter().map(|entry| entry.0.alignment_bytes() as i64).max().unwrap_or(1);
        (end - start + aligned - 1) / aligned * aligned
    }

    /// The place of every packed byte of `count` elements.
    fn places(&self, count: i64) -> Vec<i64> {
        let row = self.rounds(count, self.extent());
        row.entries.iter().flat_map(|&(basic, at)| at..at + basic.bytes() as i64).collect()
    }
}

fn predefined() -> impl Strategy<Value = Plan> {
    let supported: Vec<Plan> = Predefined::ALL
        .iter()
        .filter(|predefined| predefined.datatype().is_some())
        .map(|&predefined| Plan::Named(predefined))
        .collect();
    // Every datatype has its turn, but some come often, so that parts of one datatype meet.
    let common =
        [Predefined::Int, Predefined::Double, Predefined::Char, Predefined::ShortInt].map(Plan::Named);
    prop_oneof![proptest::sample::select(supported), proptest::sample::select(common.to_vec())]
}

/// A count, now and then 0.
fn few(most: i64) -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(0), 15 => 1..most + 1]
}

fn list(displacement: std::ops::Range<i64>) -> impl Strategy<Value = Vec<(i64, i64)>> {
    proptest::collection::vec((few(3), displacement), 1..6)
}

fn dimensions() -> impl Strategy<Value = Vec<(i64, i64, i64)>> {
    let dimension = (1..5_i64, 0..5_i64, 0..5_i64).prop_map(|(size, subsize, start)| {
        let subsize = 1 + subsize % size;
        (size, subsize, start % (size - subsize + 1))
    });
    proptest::collection::vec(dimension, 1..4)
}

fn plan() -> impl Strategy<Value = Plan> {
    predefined()
        .prop_recursive(4, 24, 3, |inner| {
            let boxed = inner.clone().prop_map(Box::new);
            let displacements = proptest::collection::vec(-9..10_i64, 1..7);
            prop_oneof![
                (few(4), boxed.clone()).prop_map(|(count, of)| Plan::Contiguous(count, of)),
                (few(9), few(3), -5..6_i64, boxed.clone())
                    .prop_map(|(a, b, c, of)| Plan::Vector(a, b, c, of)),
                (few(9), few(3), -70..71_i64, boxed.clone())
                    .prop_map(|(a, b, c, of)| Plan::Hvector(a, b, c, of)),
                (list(-9..10), boxed.clone()).prop_map(|(list, of)| Plan::Indexed(list, of)),
                (list(-90..91), boxed.clone()).prop_map(|(list, of)| Plan::Hindexed(list, of)),
                (few(3), displacements.clone(), boxed.clone())
                    .prop_map(|(length, list, of)| Plan::IndexedBlock(length, list, of)),
                (few(3), displacements, boxed.clone())
                    .prop_map(|(length, list, of)| Plan::HindexedBlock(length, list, of)),
                proptest::collection::vec((few(2), -64..65_i64, inner), 1..5).prop_map(Plan::Structure),
                (-20..21_i64, -40..80_i64, boxed.clone())
                    .prop_map(|(lb, extent, of)| Plan::Resized(lb, extent, of)),
                (dimensions(), any::<bool>(), boxed.clone()).prop_map(|(d, f, of)| Plan::Subarray(d, f, of)),
                boxed.prop_map(Plan::Duplicate),
            ]
        })
        .prop_filter("small enough for the definition", |plan| plan.type_map().entries.len() < 4000)
}

/// A byte that depends on its place, so that a misplaced one shows.
fn pattern(place: usize) -> u8 {
    (place * 167 + place / 256 + 13) as u8
}

/// Cuts `0..total` into pieces, at lengths that repeat.
fn cuts(total: usize, lengths: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut cuts = Vec::new();
    let mut at = 0;
    for length in lengths.iter().cycle() {
        if at == total {
            break;
        }
        let end = total.min(at + length);
        cuts.push(at..end);
        at = end;
    }
    cuts
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
    fn packs_in_any_pieces(plan in plan(), count in 0..4_i64, lengths in proptest::collection::vec(1..70_usize, 1..6)) {
        let (datatype, places) = (plan.build().expect("small"), plan.type_map().places(count));
        let span = datatype.span(count).expect("small");
        let source: Vec<u8> = (0..span.bytes as usize).map(pattern).collect();
        let expected: Vec<u8> = places.iter().map(|place| pattern((place - span.start) as usize)).collect();
        for cut in cuts(expected.len(), &lengths) {
            let mut piece = vec![0; cut.len()];
            let packed = pack(&datatype, count, Payload::from(&source[..]), &mut piece, cut.start as i64);
            prop_assert_eq!(packed.expect("whole claim"), cut.len());
            prop_assert_eq!(&piece, &expected[cut.clone()], "{:?} of {:?}", cut, datatype.layout());
            let heap = Heap::new(cut.len());
            let packed =
                pack_memory(&datatype, count, Payload::from(&source[..]), &mut heap.memory(), cut.start as i64);
            prop_assert_eq!(packed.expect("whole claim"), cut.len());
            prop_assert_eq!(heap.payload().to_vec(), &expected[cut]);
        }
    }

    #[test]
    fn unpacks_in_any_pieces(plan in plan(), count in 0..4_i64, lengths in proptest::collection::vec(1..70_usize, 1..6)) {
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
            let piece = Payload::from(&packed[cut.clone()]);
            let taken = unpack(&datatype, count, piece, &mut heap.memory(), cut.start as i64);
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
                ends.push(ends.last().expect("one") + entry.0.bytes() as i64);
            }
        }
        let elements = ends.iter().position(|&end| end == bytes).map(|place| place as i64);
        prop_assert_eq!(datatype.elements_in(bytes), elements);
        prop_assert_eq!(datatype.count_in(bytes), (bytes % size == 0).then_some(bytes / size));
    }
}

fn named(predefined: Predefined) -> &'static Datatype {
    predefined.datatype().expect("supported")
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
fn nesting_has_a_bottom() {
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
