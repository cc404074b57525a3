//! Operations whose data is too long for slots: it goes in chunks, one number for each, which stand in
//! staging buffers (decisions/0005). So nothing is asked for, no call of the system is made, and each chunk
//! is combined or taken while it is in the caches. Of two members here; of more in
//! [`n_ranks`](super::n_ranks).
//!
//! A member gives up to [`Ring::ahead`] chunks before it takes the first one; of an exchange of more, the
//! last of these beside it. How long the data is, and in how many chunks it comes, stands in each slot: where
//! that is not what the other expects, both go on to the last chunk, so that they are at the same number
//! afterwards, and the data is lost.

use std::ops::Range;

use fabric::slots::{Ring, SLOT_BYTES_MAX, chunk_bytes_max};
use fabric::{Payload, UserMemory};
use messaging::Rank;

/// How long the data is that each of two members gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TransferLengths {
    pub gives: usize,
    pub gets: usize,
    /// Chunks are whole elements of so many bytes.
    pub element_bytes: usize,
}

/// Which staging buffers chunks go through that are so long in all: the same at both members.
fn ring_for(bytes: usize) -> Ring {
    if LONG_FROM <= bytes { Ring::Long } else { Ring::Short }
}

/// What slots say of so many chunks, beside how long all are.
fn telling(ring: Ring, chunks: u32) -> u32 {
    chunks | if ring == Ring::Long { LONG } else { 0 }
}

/// The number behind this one with which a chunk comes, both counted from the first, as slots say that tell
/// this.
pub(super) fn following(announced: u32, number: u32) -> u32 {
    let each = (announced >> EACH_BITS.start) & EACH_MAX;
    if each == 0 {
        return number + 1;
    }
    let round = if announced & LONG != 0 { Ring::Long } else { Ring::Short }.ahead();
    if number % round + 1 == each { number + 1 + round - each } else { number + 1 }
}

/// Whether a slot that says this holds so many bytes, or stands for one chunk of so many.
#[inline(always)]
pub(super) fn is_whole([told_bytes, chunks]: [u32; 2], bytes: usize) -> bool {
    told_bytes as usize == bytes && chunks <= 1
}

/// How many chunks a slot tells of, through whichever staging buffers.
pub(super) fn told_chunks(announced: u32) -> u32 {
    (announced & ((1 << EACH_BITS.start) - 1)).min(CHUNKS_MAX)
}

/// What one of two members does in an operation in which nothing is combined.
pub(super) struct PairExchange {
    pub lengths: TransferLengths,
    pub give: Payload<'static>,
    /// What it has for itself, with the place in its output where that belongs.
    pub kept: Option<(usize, Payload<'static>)>,
    /// Where what comes belongs.
    pub place: usize,
    /// Whether that is where what it gives stands; the same at both.
    pub is_written_over: bool,
}

/// Which lengths of an operation of two go in chunks, by what was measured (decisions/0005, 0003). Other data
/// goes by slots or messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChunkedLengths {
    /// The shortest and the longest, in bytes.
    range: [usize; 2],
    /// Up to here it is a message all the same where data goes one way time after time.
    passed: usize,
}

/// What goes in chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChunkedTransfer {
    pub lengths: TransferLengths,
    /// How much of it may go by a message all the same, where data goes one way time after time.
    pub passed_bytes: usize,
}

impl ChunkedLengths {
    /// Both members give and get, and keep or combine what they get. Where they keep it, they time whether
    /// they sooner read each other's memory (decisions/0005).
    pub(super) const BOTH_WAYS: ChunkedLengths = ChunkedLengths::new(ENTRY_BYTES_MAX + 1, BYTES_MAX);
    /// One member gives, and the other combines, each in its turn.
    pub(super) const REDUCED: ChunkedLengths = ChunkedLengths::new(TURNED_BYTES_MAX + 1, BYTES_MAX);
    /// The lower one gives, and the higher one combines, time after time.
    pub(super) const SCANNED: ChunkedLengths =
        ChunkedLengths { passed: 0, ..ChunkedLengths::new(16 << 10, BYTES_MAX) };
    /// One member gives, and the other keeps it: one chunk at most. Longer data is a message, of which the
    /// receiver times whether it is sooner pulled or pushed (decisions/0003).
    pub(super) const ONE_WAY: ChunkedLengths = ChunkedLengths::new(SLOT_BYTES_MAX + 1, TURNED_BYTES_MAX);

    const fn new(least: usize, most: usize) -> ChunkedLengths {
        ChunkedLengths { range: [least, most], passed: TURNED_BYTES_MAX }
    }
}

/// Data in chunks of one length; the last one may be shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chunking {
    bytes: usize,
    chunk_bytes: usize,
    /// From the last one to the first.
    is_back: bool,
}

impl TransferLengths {
    /// In how many chunks it goes each way.
    pub(super) fn chunks(&self) -> [u32; 2] {
        Chunking::both(*self).map(Chunking::chunks)
    }

    /// Whether it goes in chunks, and how: the same at both members.
    #[inline]
    pub(super) fn carried(self, lot: ChunkedLengths) -> Option<ChunkedTransfer> {
        let longest = self.gives.max(self.gets);
        let [least, most] = lot.range;
        let goes = least <= longest && longest <= most && self.element_bytes <= STRIP_BYTES;
        let passed_bytes = if longest <= lot.passed { longest } else { 0 };
        goes.then_some(ChunkedTransfer { lengths: self, passed_bytes })
    }

    /// Whether data that goes one way goes in chunks, and how: the same at both members. Short data is in one
    /// chunk even where its length is not in `lot`, whichever member has received something before.
    #[inline]
    pub(super) fn carried_one_way(self, lot: ChunkedLengths) -> Option<ChunkedTransfer> {
        self.carried(lot).or_else(|| self.carried(ChunkedLengths::ONE_WAY))
    }
}

impl Chunking {
    fn new(bytes: usize, chunk_bytes: usize) -> Chunking {
        Chunking { bytes, chunk_bytes, is_back: false }
    }

    /// What is given and what is gotten: two chunks at least, so that one is taken while the other is given,
    /// and as many each way as the longer one has, so that staging buffers are swapped with each.
    fn both(lengths: TransferLengths) -> [Chunking; 2] {
        let TransferLengths { gives, gets, element_bytes } = lengths;
        let longest = gives.max(gets);
        let half = longest.div_ceil(2).next_multiple_of(CHUNK_BYTES_MIN);
        let chunk_bytes = half.clamp(CHUNK_BYTES_MIN, chunk_bytes_max(2));
        let longest = Chunking::new(longest, whole(chunk_bytes.max(element_bytes), element_bytes));
        let chunks = longest.chunks().max(1) as usize;
        [gives, gets].map(|bytes| {
            let least = whole(bytes.div_ceil(chunks) + element_bytes - 1, element_bytes);
            let lines = whole(least.next_multiple_of(LINE), element_bytes).max(least);
            Chunking::new(bytes, lines.clamp(element_bytes, longest.chunk_bytes))
        })
    }

    fn chunks(self) -> u32 {
        let Chunking { bytes, chunk_bytes, .. } = self;
        // A division takes longer than all of the rest, and most of the time there are two.
        if bytes.div_ceil(2) <= chunk_bytes {
            return u32::from(bytes > 0) + u32::from(bytes > chunk_bytes);
        }
        bytes.div_ceil(chunk_bytes) as u32
    }

    fn chunk(self, number: u32) -> Range<usize> {
        let place = if self.is_back { self.chunks().checked_sub(number + 1) } else { Some(number) };
        let at = place.map_or(self.bytes, |place| place as usize * self.chunk_bytes);
        at.min(self.bytes)..self.bytes.min(at + self.chunk_bytes)
    }
}

/// How two members who give each other all that they have, and combine it, share that out: each combines one
/// half, and gives the other what came of it (decisions/0005). So each byte is read and written four times,
/// and not five. A round is a few chunks of contributions and as many of results, each in the staging buffer
/// in which the other's contribution stood that was combined last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReduceScatterAllgather {
    /// Where this member's half begins, and where the other member's does.
    starts: [usize; 2],
    /// The chunks of this member's half, and of the other member's: as many in both, of which the last ones
    /// may be empty.
    cuts: [Chunking; 2],
    rounds: u32,
    /// A round has so many contributions, and as many results: no more than may be given ahead, of which each
    /// has a number.
    each: u32,
    ring: Ring,
}

/// What goes with one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChunkKind {
    Contribution,
    Result,
}

impl ReduceScatterAllgather {
    /// Through that ring, or through the one for a half so long.
    #[must_use]
    pub fn of(here: Rank, bytes: usize, element_bytes: usize, ring: Option<Ring>) -> ReduceScatterAllgather {
        let unit = if LINE.is_multiple_of(element_bytes) { LINE } else { element_bytes };
        let lower = bytes.div_ceil(2).next_multiple_of(unit).min(bytes);
        let ring = ring.unwrap_or(ring_for(lower));
        let longest = whole(HALF_CHUNK_BYTES, unit);
        let rounds = lower.div_ceil(ring.ahead() as usize * longest).max(1) as u32;
        let each = lower.div_ceil(rounds as usize * longest).max(1) as u32;
        let chunk_bytes = lower.div_ceil((rounds * each) as usize).next_multiple_of(unit);
        let [mut starts, mut cuts] = [[0, lower], [lower, bytes - lower]];
        if here != Rank(0) {
            starts.reverse();
            cuts.reverse();
        }
        ReduceScatterAllgather {
            starts,
            cuts: cuts.map(|bytes| Chunking::new(bytes, chunk_bytes)),
            rounds,
            each,
            ring,
        }
    }

    /// How many numbers it takes.
    #[must_use]
    pub fn chunks(self) -> u32 {
        2 * self.ring.ahead() * self.rounds
    }

    /// What goes with the number that is so many behind the first one, and which chunk of a half it is; there
    /// is none for numbers that are passed over.
    fn part(self, number: u32) -> (ChunkKind, u32) {
        let (round, place) = (number / self.ring.ahead(), number % self.ring.ahead());
        let part = if round % 2 == 0 { ChunkKind::Contribution } else { ChunkKind::Result };
        (part, round / 2 * self.each + place)
    }

    /// The bytes that this member gives with it: of a contribution to the other's half, or of the result of
    /// its own.
    pub(super) fn gives(self, number: u32) -> (ChunkKind, Range<usize>) {
        let (part, chunk) = self.part(number);
        (part, self.bytes_of(usize::from(part == ChunkKind::Contribution), chunk))
    }

    /// The bytes that it gets.
    pub(super) fn gets(self, number: u32) -> (ChunkKind, Range<usize>) {
        let (part, chunk) = self.part(number);
        (part, self.bytes_of(usize::from(part == ChunkKind::Result), chunk))
    }

    fn bytes_of(self, whose: usize, chunk: u32) -> Range<usize> {
        let Range { start, end } = self.cuts[whose].chunk(chunk);
        self.starts[whose] + start..self.starts[whose] + end
    }
}

/// As many whole elements as fit.
pub(super) fn whole(bytes: usize, element_bytes: usize) -> usize {
    // Most elements are such, and a division takes a while.
    if element_bytes.is_power_of_two() {
        return bytes & element_bytes.wrapping_neg();
    }
    bytes / element_bytes * element_bytes
}

/// What becomes of a chunk that has come: it begins there in all that comes, or, of halves, in the whole. And
/// what is to be written with it: the next chunk that is given, to its staging buffer; or, of a contribution
/// to a sum by halves, what comes of it, to the staging buffer in which that stands.
pub(super) type ChunkHandler<'a> =
    &'a mut dyn FnMut(ChunkKind, usize, Payload<'_>, (UserMemory, Payload<'_>));

/// What goes, chunk by chunk.
#[derive(Clone, Copy)]
pub(super) enum TransferKind {
    /// Each gives something.
    Each { give: Payload<'static>, gives: Chunking, gets: Chunking, ring: Ring },
    /// Each gives half of what it has, and of what both have combined.
    Halves { contribution: Payload<'static>, halves: ReduceScatterAllgather },
    /// Each reads the other's memory: it is told where, and then that the other has done so.
    Read,
}

impl TransferKind {
    pub(super) fn each(lengths: TransferLengths, give: Payload<'static>) -> TransferKind {
        let [gives, gets] = Chunking::both(lengths);
        TransferKind::Each { give, gives, gets, ring: ring_for(lengths.gives.max(lengths.gets)) }
    }

    /// This transfer, through the staging buffers of `other`; for [`TransferKind::Each`] alone.
    pub(super) fn through(mut self, other: Ring) -> TransferKind {
        if let TransferKind::Each { ring, .. } = &mut self {
            *ring = other;
        }
        self
    }

    /// In how many chunks it goes each way.
    pub(super) fn chunks(&self) -> [u32; 2] {
        match self {
            TransferKind::Each { gives, gets, .. } => [gives.chunks(), gets.chunks()],
            TransferKind::Halves { halves, .. } => [halves.chunks(); 2],
            TransferKind::Read => [READ_CHUNKS; 2],
        }
    }

    /// What slots say of so many numbers, beside how long all is.
    pub(super) fn telling(&self, numbers: u32) -> u32 {
        let of_kind = match self {
            TransferKind::Each { .. } => 0,
            TransferKind::Halves { halves, .. } => halves.each << EACH_BITS.start,
            TransferKind::Read => READ,
        };
        telling(self.ring(), numbers) | of_kind
    }

    /// Which staging buffers it goes through.
    pub(super) fn ring(&self) -> Ring {
        match self {
            TransferKind::Each { ring, .. } => *ring,
            TransferKind::Halves { halves, .. } => halves.ring,
            TransferKind::Read => Ring::Short,
        }
    }

    /// The last chunks go first: what was written or read last is still in the caches (decisions/0005).
    pub(super) fn turn_back(&mut self) {
        match self {
            TransferKind::Each { gives, gets, .. } => [gives.is_back, gets.is_back] = [true; 2],
            TransferKind::Halves { halves, .. } => halves.cuts.iter_mut().for_each(|cut| cut.is_back = true),
            TransferKind::Read => {}
        }
    }

    /// The chunk that is given so many numbers behind the first one; `None` where it stands in its staging
    /// buffer, since it was made there.
    pub(super) fn given(&self, number: u32) -> Option<Payload<'static>> {
        let (all, Range { start, end }) = match *self {
            TransferKind::Each { give, gives, .. } => (give, gives.chunk(number)),
            TransferKind::Halves { contribution, halves } => match halves.gives(number) {
                (ChunkKind::Contribution, chunk) => (contribution, chunk),
                (ChunkKind::Result, _) => return None,
            },
            // It is made when it is given.
            TransferKind::Read => return Some(Payload::EMPTY),
        };
        Some(all.part(start, end - start))
    }

    /// Where that belongs which is gotten.
    pub(super) fn gotten(&self, number: u32) -> (ChunkKind, Range<usize>) {
        match self {
            TransferKind::Each { gets, .. } => (ChunkKind::Contribution, gets.chunk(number)),
            TransferKind::Halves { halves, .. } => halves.gets(number),
            TransferKind::Read => (ChunkKind::Contribution, 0..size_of::<u64>()),
        }
    }
}

/// What two exchange stands in slots up to here, which are two lines then.
pub(super) const ENTRY_BYTES_MAX: usize = 112;
/// The shortest chunk, in bytes, of long data of two members: data up to this length is one chunk, which
/// takes less time than two of half its length (decisions/0005).
pub(super) const CHUNK_BYTES_MIN: usize = 16 << 10;
/// What goes one way is in a staging buffer up to here.
pub const TURNED_BYTES_MAX: usize = CHUNK_BYTES_MIN;
/// From this length on, in bytes, an allreduce of two members may go as a reduce-scatter and an allgather.
pub const HALVES_FROM: usize = 32 << 10;
/// The longest chunks then. Longer ones are fewer, which takes less; shorter ones are still in the nearest
/// caches when what was combined is given.
pub(super) const HALF_CHUNK_BYTES: usize = 24 << 10;
const _: () = assert!(STRIP_BYTES <= HALF_CHUNK_BYTES && HALF_CHUNK_BYTES <= chunk_bytes_max(2));
/// From this length on, in bytes, chunks of two members go through the ring that has more staging buffers
/// (decisions/0005).
pub const LONG_FROM: usize = 256 << 10;
/// Told beside the number of chunks where they do.
const LONG: u32 = 1 << 31;
/// Told beside it by one of several who gives nothing this time.
pub(super) const NOTHING: u32 = 1 << 30;
/// Told where each of two reads the other's memory.
pub const READ: u32 = 1 << 28;
/// Told where chunks come with a few of the numbers of each round only: with how many. As many fit there as a
/// round has.
const EACH_BITS: Range<u32> = 24..28;
const EACH_MAX: u32 = (1 << (EACH_BITS.end - EACH_BITS.start)) - 1;
const _: () = assert!(Ring::Long.ahead() <= EACH_MAX && CHUNKS_MAX < 1 << EACH_BITS.start);
/// So many numbers that takes.
const READ_CHUNKS: u32 = 2;
/// The length that is told of a chunk that holds nothing to be used, since its sender has given the operation
/// up; no data is so long.
pub(super) const GIVEN_UP: u32 = u32::MAX;
/// The length that is told of a chunk that holds nothing to be used, since what members contribute does not
/// fit together; no data is so long.
pub(super) const MISFIT: u32 = GIVEN_UP - 1;
/// The longest data; it is told in 32 bits.
pub(super) const BYTES_MAX: usize = 1 << 30;
/// No data has more chunks.
pub(super) const CHUNKS_MAX: u32 = (BYTES_MAX / STRIP_BYTES) as u32;
/// So much is given before anything is taken: three chunks at most, as whole elements of any length.
pub(super) const AHEAD_BYTES: usize = 2 * CHUNK_BYTES_MIN;
const _: () = assert!(3 <= Ring::Short.ahead());
/// Chunks begin where lines do, as far as elements let them.
pub(super) const LINE: usize = 64;
/// What is combined at a time.
pub(super) const STRIP_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    /// Lengths around those at which there is one chunk more, up to what takes staging buffers several times.
    fn counts(element_bytes: usize) -> impl Iterator<Item = usize> {
        let lengths =
            [120, 2048, 2160, 4096, 6144, 16 << 10, 64 << 10, 96 << 10, 128 << 10, 225_000, 700_000];
        lengths.into_iter().flat_map(move |bytes| {
            let whole = bytes / element_bytes;
            (whole.max(2) - 1..=whole + 1).map(|count| count.max(1))
        })
    }

    /// What one gives is what the other gets, each byte is combined once and comes once as a result, behind
    /// the contribution to it.
    #[test]
    fn halves_fit_together() {
        let lengths = |element_bytes: usize| counts(element_bytes).map(move |count| count * element_bytes);
        for (bytes, element_bytes) in
            [1, 2, 8, 12, 24, 1000, 4096].into_iter().flat_map(|of| lengths(of).map(move |all| (all, of)))
        {
            for ring in [None, Some(Ring::Short)] {
                fit_together(bytes, element_bytes, ring);
            }
        }
    }

    fn fit_together(bytes: usize, element_bytes: usize, ring: Option<Ring>) {
        let [one, other] =
            [0, 1].map(|here| ReduceScatterAllgather::of(Rank(here), bytes, element_bytes, ring));
        assert_eq!(one.chunks(), other.chunks());
        let mut seen = [vec![0; bytes], vec![0; bytes]];
        let cargo = TransferKind::Halves { contribution: Payload::EMPTY, halves: one };
        let telling = cargo.telling(one.chunks());
        let numbers: Vec<u32> =
            iter::successors(Some(0), |&at| Some(following(telling, at)).filter(|&at| at < one.chunks()))
                .collect();
        assert_eq!(following(telling, numbers[numbers.len() - 1]), one.chunks(), "the last one ends a round");
        for number in numbers {
            assert_eq!((one.gives(number), other.gives(number)), (other.gets(number), one.gets(number)));
            if one.gives(number).0 == ChunkKind::Result {
                // It stands in the staging buffer in which the contribution stood.
                let contribution = one.gets(number - cargo.ring().ahead());
                assert_eq!(contribution, (ChunkKind::Contribution, one.gives(number).1));
            }
            for (part, chunk) in [one.gives(number), other.gives(number)] {
                assert!(chunk.len() <= HALF_CHUNK_BYTES && chunk.start % element_bytes == 0);
                let (now, before) = if part == ChunkKind::Contribution { (0, 0) } else { (1, 1) };
                assert!(chunk.clone().all(|at| seen[0][at] == before), "{bytes} bytes, {number}");
                chunk.for_each(|at| seen[now][at] += 1);
            }
        }
        assert!(seen.iter().flatten().all(|times| *times == 1), "{bytes} bytes of {element_bytes}");
    }
}
