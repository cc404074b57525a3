//! Elements that say who they are from, so that a wrong result names its mistake.
//!
//! ```text
//! bytes         0..4         4..8         8..12
//! a block       from rank    to rank      index
//! a sum         ranks in it, one bit each index, or SPOILT
//! ```
//! Twelve bytes: no power of two, so that a slice cut inside an element shows.

/// Length of an element in bytes.
pub const ELEMENT_BYTES: usize = 12;

/// What nobody may write to holds this.
pub const UNTOUCHED: u8 = 0xee;

/// `count` blocks from one rank to another.
pub fn chunked_messages(from: u32, to: u32, count: usize) -> Vec<u8> {
    let chunked_message = |index| [from, to, index].map(u32::to_le_bytes).concat();
    (0..count as u32).flat_map(chunked_message).collect()
}

/// The sums of `count` elements over ranks `first` to before `end`; indices begin at `index`.
pub fn sums(first: u32, end: u32, index: usize, count: usize) -> Vec<u8> {
    let ranks = (first..end).map(|rank| 1u64 << rank).sum();
    (index..index + count).flat_map(|index| encode(ranks, index as u32)).collect()
}

/// Room that is not to be touched, or only by results.
pub fn untouched(bytes: usize) -> Vec<u8> {
    vec![UNTOUCHED; bytes]
}

/// `into` = `from` op `into`, where no rank may come twice.
pub fn add_disjoint(from: &[u8], into: &mut [u8]) {
    add(from, into, |left, right| left & right == 0);
}

/// The same, where the left operand must end just before the right one begins: associative, not commutative.
pub fn add_in_order(from: &[u8], into: &mut [u8]) {
    add(from, into, |left, right| {
        left != 0 && right != 0 && left.ilog2() + 1 == right.trailing_zeros() && left & right == 0
    });
}

fn add(from: &[u8], into: &mut [u8], fits: impl Fn(u64, u64) -> bool) {
    assert_eq!(from.len() % ELEMENT_BYTES, 0, "a slice was cut inside an element");
    for (left, right) in from.chunks(ELEMENT_BYTES).zip(into.chunks_mut(ELEMENT_BYTES)) {
        let ((ranks, index), (others, other_index)) = (decode(left), decode(right));
        let good = index == other_index && index != SPOILT && fits(ranks, others);
        right.copy_from_slice(&encode(ranks | others, if good { index } else { SPOILT }));
    }
}

fn encode(ranks: u64, index: u32) -> [u8; ELEMENT_BYTES] {
    let mut element = [0; ELEMENT_BYTES];
    element[..8].copy_from_slice(&ranks.to_le_bytes());
    element[8..].copy_from_slice(&index.to_le_bytes());
    element
}

fn decode(element: &[u8]) -> (u64, u32) {
    let ranks = u64::from_le_bytes(element[..8].try_into().unwrap());
    (ranks, u32::from_le_bytes(element[8..].try_into().unwrap()))
}

/// Panics with the first element that is not as expected, in both readings.
pub fn assert_same(what: &str, rank: usize, got: &[u8], expected: &[u8]) {
    assert_eq!(got.len(), expected.len(), "{what}: rank {rank}: the test's own lengths differ");
    let Some(at) = (0..got.len()).find(|&at| got[at] != expected[at]) else { return };
    let element = at - at % ELEMENT_BYTES..(at - at % ELEMENT_BYTES + ELEMENT_BYTES).min(got.len());
    panic!(
        "{what}: rank {rank}, element at byte {}:\n  got      {}\n  expected {}",
        element.start,
        read(&got[element.clone()]),
        read(&expected[element.clone()]),
    );
}

fn read(element: &[u8]) -> String {
    if element.len() < ELEMENT_BYTES || element.iter().all(|&byte| byte == UNTOUCHED) {
        return format!("{element:x?}");
    }
    let (ranks, index) = decode(element);
    let (from, to) = (ranks as u32, (ranks >> 32) as u32);
    let spoilt = if index == SPOILT { " SPOILT" } else { "" };
    format!("as a parcel {from} -> {to}; as a sum {ranks:#b}; index {index}{spoilt}")
}

/// The index of an element that came about in a way it must not.
const SPOILT: u32 = u32::MAX;
