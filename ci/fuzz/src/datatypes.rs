//! Datatypes of any shape with any numbers, as a program may pass them; and messages of any length, unpacked
//! into them from any byte on.

use datatype::{
    ArrayOrder, Block, Datatype, DatatypeError, Distributed, Distribution, Field, Place, Predefined, pack,
    pack_external, unpack, unpack_external,
};
use fabric::{Heap, Payload};

use crate::tape::{Tape, Writer};

/// Builds datatypes from a tape, then moves bytes with the last.
pub fn run(input: &[u8]) {
    let mut tape = Tape::new(input);
    let steps = tape.below(12);
    let mut known: Vec<Datatype> = Predefined::ALL.iter().map(|one| one.datatype().clone()).collect();
    for _ in 0..steps {
        if let Some(next) = build(&mut tape, &known) {
            check(&next);
            known.push(next);
        }
    }
    let count = i64::from(tape.below(9));
    let last = &known[known.len() - 1];
    move_bytes(last, count, &mut tape);
}

fn build(tape: &mut Tape<'_>, known: &[Datatype]) -> Option<Datatype> {
    let choice = tape.byte();
    let element = one_of(known, tape.byte());
    let (first, second, third) = (number(tape), number(tape), number(tape));
    let lists = usize::from(tape.below(5));
    let mut list = || (0..lists).map(|_| number(tape)).collect::<Vec<_>>();
    match choice % 9 {
        0 => Datatype::contiguous(first, element),
        1 => Datatype::vector(first, second, third, element),
        2 => Datatype::hvector(first, second, third, element),
        3 => Datatype::indexed(&blocks(&list(), &list()), element),
        4 => Datatype::hindexed(&blocks(&list(), &list()), element),
        5 => Datatype::indexed_block(first, &list(), element),
        6 if choice & 64 != 0 => {
            let lists = [list(), list(), list()];
            distributed((first, second), &lists, order(choice), element)
        }
        6 => Datatype::subarray(&list(), &list(), &list(), order(choice), element),
        7 => Datatype::resized(element, first, second),
        _ => {
            let (lengths, displacements) = (list(), list());
            let fields: Vec<Field<'_>> = blocks(&lengths, &displacements)
                .iter()
                .zip([element, one_of(known, choice), one_of(known, choice / 2)].into_iter().cycle())
                .map(|(block, datatype)| Field {
                    length: block.length,
                    displacement: block.displacement,
                    datatype,
                })
                .collect();
            Datatype::structure(&fields)
        }
    }
    .ok()
}

/// An array dealt out to a grid, which has so many processes as are said half of the time.
fn distributed(
    (rank, size): (i64, i64),
    [elements, kinds, processes]: &[Vec<i64>; 3],
    order: ArrayOrder,
    element: &Datatype,
) -> Result<Datatype, DatatypeError> {
    let grid = processes.iter().fold(1, |product: i64, &number| product.saturating_mul(number));
    let size = if size % 2 == 0 { grid } else { size };
    let distribution = |kind: i64| match (kind.rem_euclid(5), kind / 5) {
        (0, _) => Distribution::Whole,
        (1, _) => Distribution::Block(None),
        (2, block) => Distribution::Block(Some(block)),
        (3, _) => Distribution::Cyclic(None),
        (_, block) => Distribution::Cyclic(Some(block)),
    };
    let dimensions: Vec<Distributed> = (0..elements.len())
        .map(|at| Distributed {
            elements: elements[at],
            distribution: distribution(kinds[at]),
            processes: processes[at],
        })
        .collect();
    Datatype::distributed(Place { rank, size }, &dimensions, order, element)
}

fn one_of(known: &[Datatype], which: u8) -> &Datatype {
    // The latest are the most interesting.
    &known[known.len() - 1 - usize::from(which) % known.len()]
}

fn order(choice: u8) -> ArrayOrder {
    if choice & 128 == 0 { ArrayOrder::C } else { ArrayOrder::Fortran }
}

fn blocks(lengths: &[i64], displacements: &[i64]) -> Vec<Block> {
    let pairs = lengths.iter().zip(displacements);
    pairs.map(|(&length, &displacement)| Block { length, displacement }).collect()
}

/// Mostly small, now and then as wild as can be.
fn number(tape: &mut Tape<'_>) -> i64 {
    match tape.byte() {
        255 => tape.long() as i64,
        254 => i64::from(tape.word() as i32),
        253 => i64::MAX - i64::from(tape.byte()),
        252 => i64::MIN + i64::from(tape.byte()),
        small => i64::from(small) - 100,
    }
}

/// What must hold of every datatype.
fn check(datatype: &Datatype) {
    assert!(datatype.size() >= 0 && datatype.true_extent() >= 0);
    for count in [0, 1, 2, 1000, i64::MAX] {
        let (Ok(span), Ok(packed)) = (datatype.span(count), datatype.packed_bytes(count)) else { continue };
        assert!(span.bytes >= 0 && span.start.checked_add(span.bytes).is_some(), "{count}: {span:?}");
        assert!(packed == 0 || span.bytes > 0, "{packed} packed bytes in {span:?}");
        if datatype.size() > 0 {
            assert_eq!(datatype.count_in(packed), Some(count));
        }
    }
    assert!(datatype.span(-1).is_err());
}

/// Packs, and unpacks in two parts that are cut anywhere; claims may be too short, and messages too long.
fn move_bytes(datatype: &Datatype, count: i64, tape: &mut Tape<'_>) {
    let (Ok(span), Ok(packed)) = (datatype.span(count), datatype.packed_bytes(count)) else { return };
    if span.bytes > BYTES_MAX || packed > BYTES_MAX {
        return;
    }
    let (cut, lack) = (i64::from(tape.short()) % (packed + 1), usize::from(tape.byte()));
    let contents: Vec<u8> = (0..packed + 9).map(|at| at as u8).collect();
    let heap = Heap::new(span.bytes as usize);
    let mut memory = heap.memory();
    let (first, second) = contents.split_at(cut as usize);
    let taken = unpack(datatype, count, Payload::from(second), &mut memory, cut).expect("the claim is whole");
    assert_eq!(taken as i64, packed - cut, "beyond its end a message is not taken");
    let taken = unpack(datatype, count, Payload::from(first), &mut memory, 0).expect("the claim is whole");
    assert_eq!(taken as i64, cut);
    let mut again = vec![0; packed as usize];
    let written = pack(datatype, count, heap.payload(), &mut again, 0).expect("the claim is whole");
    assert_eq!(written as i64, packed);
    if !overlaps(datatype, count, packed) {
        assert_eq!(again, contents[..packed as usize], "what was unpacked is not what is packed");
    }
    let shorter = heap.payload().part(0, (span.bytes as usize).saturating_sub(lack));
    let short = pack(datatype, count, shorter, &mut again, i64::from(tape.word() as i32));
    assert!(short.is_ok() || shorter.bytes() < span.bytes as usize);
    let _ = pack(datatype, count, heap.payload(), &mut again, tape.long() as i64);
    let _ = unpack(datatype, count, Payload::from(&contents[..]), &mut memory, tape.long() as i64);
    move_external(datatype, count, &contents, &heap);
}

/// Any bytes are external32; what came out of it goes into it again, unless one element was written over
/// another.
fn move_external(datatype: &Datatype, count: i64, contents: &[u8], heap: &Heap) {
    let bytes = datatype.external_bytes(count).expect("no more than packed bytes") as usize;
    let foreign = Payload::from(&contents[..bytes]);
    unpack_external(datatype, count, foreign, &mut heap.memory()).expect("the claims are whole");
    let back = Heap::new(bytes);
    let packed = pack_external(datatype, count, heap.payload(), &mut back.memory());
    let total = datatype.packed_bytes(count).expect("known before");
    assert!(packed.is_ok() || overlaps(datatype, count, total), "{packed:?}");
    if bytes > 0 {
        let short = Payload::from(&contents[..bytes - 1]);
        assert!(unpack_external(datatype, count, short, &mut heap.memory()).is_err());
    }
}

/// Whether two packed bytes stand at one place.
fn overlaps(datatype: &Datatype, count: i64, packed: i64) -> bool {
    let mut seen = std::collections::HashSet::new();
    let mut twice = false;
    datatype::each_block(datatype, count, 0..packed, &mut |at, bytes| {
        twice |= !(at..at + bytes).all(|at| seen.insert(at));
    })
    .expect("the span is known");
    twice
}

/// One of each constructor, nested.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let small = |number: i8| (i16::from(number) + 100) as u8;
    let of = |choice: u8, element: u8, numbers: [i8; 3], lists: &[&[i8]]| {
        let length = lists.first().map_or(0, |list| list.len()) as u8;
        let lists = lists.iter().flat_map(|list| list.iter().map(|&number| small(number)));
        [choice, element]
            .into_iter()
            .chain(numbers.map(small))
            .chain([length])
            .chain(lists)
            .collect::<Vec<u8>>()
    };
    let tape = |steps: &[Vec<u8>]| {
        let tape = Writer::default().bytes(&[steps.len() as u8]);
        steps.iter().fold(tape, |tape, step| tape.bytes(step)).bytes(&[3, 5, 0, 1]).0
    };
    vec![
        ("contiguous", tape(&[of(0, 5, [3, 0, 0], &[])])),
        ("vector", tape(&[of(1, 5, [3, 2, 4], &[]), of(1, 0, [2, 1, -3], &[])])),
        ("hvector", tape(&[of(2, 9, [3, 2, 40], &[])])),
        ("indexed", tape(&[of(3, 4, [0; 3], &[&[2, 0, 1], &[5, 1, -2]])])),
        ("hindexed", tape(&[of(4, 4, [0; 3], &[&[2, 3], &[50, 1]])])),
        ("indexed-block", tape(&[of(5, 4, [2, 0, 0], &[&[3, 0, 9]])])),
        ("subarray", tape(&[of(6, 4, [0; 3], &[&[4, 5], &[2, 2], &[1, 3]])])),
        ("distributed", tape(&[of(96, 4, [1, 2, 0], &[&[7, 9], &[24, 1], &[2, 3]])])),
        ("resized", tape(&[of(1, 5, [3, 2, 4], &[]), of(7, 0, [-8, 100, 0], &[])])),
        ("structure", tape(&[of(8, 4, [0; 3], &[&[1, 2, 1], &[0, 16, 32]]), of(0, 0, [2, 0, 0], &[])])),
    ]
}

const BYTES_MAX: i64 = 1 << 16;
