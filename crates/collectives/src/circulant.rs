//! Circulant graphs: every rank talks to those a few fixed distances away, round the ring of all ranks.
//!
//! The distances, here *skips*, come from halving the number of ranks, rounding up: 17, 9, 5, 3, 2, 1. So
//! there are ceil(log2 p) of them below p for any number p of ranks, and in rounds in which everybody sends
//! along one skip and receives along the same, everything can be gathered, summed or broadcast without a
//! special case for numbers that are no power of two. The graphs and the broadcast are Träff's (arXiv
//! 2407.18004, 2410.14234).
//!
//! # Gathering and summing
//! A rank that knows the blocks of the s ranks from itself on learns as many more from the rank s places
//! ahead: skips from 1 up gather everything, and p - 1 blocks come to each rank, which is the least that can.
//! Sums go the same way backwards: a rank that has sums for the ranks from itself on sends those for the
//! ranks from s places ahead on to the rank s places ahead.
//!
//! # Broadcasting many chunks
//! Let q be the number of skips below p. In round i a rank sends along skip number i modulo q, and receives
//! so: q rounds are a *phase*. The root, place 0, begins a new chunk in each round, chunk i in round i. What
//! is wanted is a rule that says for each place which chunk comes in which round, such that in every phase q
//! different chunks come, each of them once in all, and that whoever sends a chunk has it. Then n chunks are
//! everywhere after n - 1 + q rounds, and nothing can be faster, since the last chunk leaves the root in
//! round n - 1 and needs q more to be everywhere.
//!
//! The places that chunk number i reaches within the phase in which it starts are those whose number, written
//! as a sum of falling skips, greedily, ends with skip i: that is the place's *first chunk*, and comes along
//! the largest skip that is not greater than the place. In the next phase it reaches all others. So in each
//! phase the first chunk of a place comes fresh, and q - 1 others come that began a phase ago. Their order
//! follows from where they come from: for round k = 0, 1, … we look for the highest place, at most as high as
//! the sender of that round, that has a first chunk which does not come in an earlier round; all on a line on
//! which the root stands at 0 and once more at p, and the place itself behind p. Such places are sums of
//! falling skips of chunks not yet used; the search walks through these sums from high to low and goes on
//! where it stood, so that it visits about two of them for each round. Which chunk a place sends is which one
//! the receiver gets. Computing the latter for q receivers, all takes about 2 q² steps and no message: some
//! microseconds for a million ranks.
//!
//! That the rule does what is wanted is tested for each number of ranks up to some hundreds and for samples
//! of larger ones.

use messaging::Rank;

use crate::blocks::{Blocks, Rotated};
use crate::pipeline::Move;
use crate::schedule::{Schedule, Span};
use crate::shape::{Shape, around};

/// Half of `size`, rounded up, and so on down to 1; falling. None for a single rank.
pub(crate) fn halvings(size: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(size), |&size| (size > 1).then(|| size.div_ceil(2))).skip(1)
}

/// A vector of all ranks' blocks, one behind the other by rank, of which each rank sums up its own or gathers
/// all.
pub(crate) struct Circulant<'a> {
    pub shape: &'a Shape,
    pub blocks: Blocks<'a>,
}

impl Circulant<'_> {
    /// The blocks from `first` to before `end` places ahead of this rank, in at most two chunks.
    fn runs(&self, data: Span, first: u32, end: u32) -> impl Iterator<Item = Span> {
        let (root, size) = (self.shape.rank().0, self.shape.size());
        let rotated = Rotated { blocks: self.blocks, root, size };
        rotated.runs(data, first, end).into_iter().filter(|run| run.bytes > 0)
    }

    /// Sums everybody's vectors of all blocks: this rank's contribution stands in `own`, and the sum of its
    /// block is left in `out`, at the block's place. What `out` has elsewhere is lost; they may be the same.
    pub(crate) fn sum(&self, schedule: &mut Schedule, own: Span, out: Span) {
        let size = self.shape.size();
        let (mut known, mut from) = (size, own);
        let mut room = Span::output(0);
        for skip in halvings(size) {
            let kept = known - skip;
            let (to, behind) = (self.shape.ahead(skip), self.shape.behind(skip));
            self.runs(from, skip, known).for_each(|run| schedule.send(to, run));
            let sums: Vec<Span> = self.runs(out, 0, kept).collect();
            // Where nothing stood before, contributions are received in place, and our own is added to them.
            let (landings, added) = match from == out {
                true => {
                    let landings = landings(schedule, &mut room, &sums);
                    (landings.clone(), landings)
                }
                false => (sums.clone(), self.runs(from, 0, kept).collect()),
            };
            landings.iter().for_each(|&landing| schedule.receive(behind, landing));
            schedule.wait_received();
            added.iter().zip(&sums).for_each(|(&other, &sum)| schedule.reduce(other, sum));
            self.runs(from, kept, skip)
                .zip(self.runs(out, kept, skip))
                .for_each(|(alone, place)| schedule.copy(alone, place));
            (known, from) = (skip, out);
        }
        if size == 1 {
            schedule.copy(own, out);
        }
        schedule.wait();
    }

    /// Gathers all blocks in `data`, where this rank's own stands already.
    pub(crate) fn gather(&self, schedule: &mut Schedule, data: Span) {
        self.gather_into(schedule, data, data);
    }

    /// Takes part in gathering all blocks: this rank sends blocks from `data`, and leaves those that it
    /// receives in `room`, each at its place. Where `room` is not `data`, `data` has all blocks already.
    pub(crate) fn gather_into(&self, schedule: &mut Schedule, data: Span, room: Span) {
        let mut rounds: Vec<u32> = halvings(self.shape.size()).collect();
        rounds.reverse();
        let ends = rounds.iter().skip(1).copied().chain([self.shape.size()]);
        for (&known, end) in rounds.iter().zip(ends) {
            let (to, from) = (self.shape.behind(known), self.shape.ahead(known));
            self.runs(data, 0, end - known).for_each(|run| schedule.send(to, run));
            self.runs(room, known, end).for_each(|run| schedule.receive(from, run));
            schedule.wait_received();
        }
    }
}

/// Places for what is to be added to the sums, in one room that grows where it must.
fn landings(schedule: &mut Schedule, room: &mut Span, sums: &[Span]) -> Vec<Span> {
    let bytes = sums.iter().map(|sum| sum.bytes).sum();
    if room.bytes < bytes {
        *room = schedule.scratch(bytes);
    }
    let mut end = 0;
    let place = |sum: &Span| {
        end += sum.bytes;
        room.part(end - sum.bytes, sum.bytes)
    };
    sums.iter().map(place).collect()
}

/// The broadcast of many chunks from one place.
pub(crate) struct Chunks {
    /// 1, …, and the number of ranks at the end.
    skips: Vec<u64>,
    place: u64,
    root: Rank,
}

impl Chunks {
    pub(crate) fn new(shape: &Shape, root: Rank) -> Chunks {
        let mut skips: Vec<u64> =
            [shape.size()].into_iter().chain(halvings(shape.size())).map(u64::from).collect();
        skips.reverse();
        let place = crate::shape::back(shape.rank().0, root.0, shape.size());
        Chunks { skips, place: u64::from(place), root }
    }

    /// Rounds in a phase, ceil(log2 p).
    fn phase(&self) -> usize {
        self.skips.len() - 1
    }

    fn size(&self) -> u64 {
        self.skips[self.phase()]
    }

    fn rank(&self, place: u64) -> Rank {
        Rank(around((place % self.size()) as u32, self.root.0, self.size() as u32))
    }

    /// What this rank does in the broadcast of `count` chunks, round by round.
    pub(crate) fn moves(&self, count: usize) -> Vec<Move> {
        let phase = self.phase();
        if phase == 0 || count == 0 {
            return Vec::new();
        }
        let (comes, goes) = (self.comes(self.place), self.goes());
        // Rounds before the first, so that the last one is the last of a phase.
        let idle = (phase - (count - 1) % phase) % phase;
        let mut moves = Vec::with_capacity(3 * (count + phase));
        for round in idle..idle + count - 1 + phase {
            let (at, past) = (round % phase, (round - round % phase) as i64 - idle as i64);
            let number = |chunk: i64| usize::try_from(chunk + past).ok().map(|chunk| chunk.min(count - 1));
            let to = (self.place + self.skips[at]) % self.size();
            if let (Some(chunk), true) = (number(goes[at]), to != 0) {
                moves.push(Move::Give(self.rank(to), chunk));
            }
            if let (Some(chunk), true) = (number(comes[at]), self.place != 0) {
                moves.push(Move::Take(self.rank(self.place + self.size() - self.skips[at]), chunk));
            }
            moves.push(Move::Pause);
        }
        moves
    }

    /// For each round of a phase the chunk that this place sends, counted from the phase's own first.
    fn goes(&self) -> Vec<i64> {
        if self.place == 0 {
            return (0..self.phase() as i64).collect();
        }
        let to = |skip: u64| (self.place + skip) % self.size();
        let chunk = |round: usize| self.comes(to(self.skips[round]))[round];
        (0..self.phase()).map(chunk).collect()
    }

    /// For each round of a phase the chunk that comes to a place, counted from the phase's own first:
    /// negative for those that began in the phase before.
    fn comes(&self, place: u64) -> Vec<i64> {
        let first = self.first_chunk(place);
        let mut search = Search::new(&self.skips, self.size() + place, first);
        search.walk(0, search.next[self.skips.len()]);
        debug_assert_eq!(search.found.len(), self.phase(), "place {place} of {}", self.size());
        let root = self.phase();
        let number = |&chunk: &usize| match chunk == root {
            true => first as i64,
            false => chunk as i64 - root as i64,
        };
        search.found.iter().map(number).collect()
    }

    /// The smallest of the skips that a place is the sum of. The root has its own number.
    fn first_chunk(&self, place: u64) -> usize {
        let mut left = place;
        for (number, &skip) in self.skips.iter().enumerate().rev() {
            if left == skip {
                return number;
            }
            if left > skip {
                left -= skip;
            }
        }
        self.phase()
    }
}

/// The search for the places that the chunks of a phase come from.
struct Search<'a> {
    skips: &'a [u64],
    /// The place itself, on the line where the root stands at 0 and at p.
    target: u64,
    /// The chunks that are not used yet, falling: the one behind each, and behind the last number the
    /// highest.
    next: Vec<usize>,
    previous: Vec<usize>,
    found: Vec<usize>,
    /// The place that was found last; all places to come are lower.
    last: u64,
}

/// Behind the lowest chunk.
const END: usize = usize::MAX;

impl<'a> Search<'a> {
    fn new(skips: &'a [u64], target: u64, used: usize) -> Search<'a> {
        let count = skips.len();
        let next = (0..=count).map(|number| number.wrapping_sub(1)).collect();
        let previous = (1..=count + 1).collect();
        let found = Vec::with_capacity(count);
        let mut search = Search { skips, target, next, previous, found, last: u64::MAX };
        search.take_out(used);
        search
    }

    fn take_out(&mut self, number: usize) {
        let (before, behind) = (self.previous[number], self.next[number]);
        self.next[before] = behind;
        if behind != END {
            self.previous[behind] = before;
        }
    }

    /// The highest place that the round which is next may take its chunk from; none when all rounds are done.
    fn limit(&self) -> Option<u64> {
        let round = self.found.len();
        (round + 1 < self.skips.len()).then(|| self.target - self.skips[round])
    }

    /// Looks through the sums that begin with `sum`, with unused skips from `number` down behind it.
    fn walk(&mut self, sum: u64, mut number: usize) {
        while number != END {
            let place = sum + self.skips[number];
            let is_low_enough = |search: &Search<'_>| search.limit().is_some_and(|limit| place <= limit);
            if is_low_enough(self) {
                // Longer sums are higher.
                self.walk(place, self.next[number]);
                if is_low_enough(self) && place < self.last {
                    self.last = place;
                    self.found.push(number);
                    self.take_out(number);
                }
                // What `sum` itself is, is nearer than anything that is left here.
                let round = self.found.len();
                if self.limit().is_none() || sum > self.target - self.skips[round + 1] {
                    return;
                }
            }
            number = self.next[number];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(size: u32, place: u32) -> Chunks {
        Chunks::new(&Shape::new(Rank(place), size), Rank(0))
    }

    #[test]
    fn skips_halve() {
        assert_eq!(halvings(17).collect::<Vec<_>>(), [9, 5, 3, 2, 1]);
        assert_eq!(halvings(16).collect::<Vec<_>>(), [8, 4, 2, 1]);
        assert_eq!(halvings(1).count(), 0);
        for size in 1..300 {
            assert_eq!(halvings(size).count() as u32, size.next_power_of_two().ilog2());
        }
    }

    /// In each phase all chunks but the own one of the phase before come, and the own one of this.
    fn check_what_comes(size: u32, place: u32, comes: &[i64]) {
        let here = graph(size, place);
        let (phase, first) = (here.phase() as i64, here.first_chunk(u64::from(place)) as i64);
        let mut sorted = comes.to_vec();
        sorted.sort_unstable();
        let expected: Vec<i64> = (-phase..0).filter(|&chunk| chunk != first - phase).chain([first]).collect();
        assert_eq!(sorted, expected, "place {place} of {size}");
    }

    /// Whoever sends a chunk has it: from the phase before, or since a round of this one.
    fn check_what_goes(size: u32, place: u32, comes: &[i64]) {
        let here = graph(size, place);
        let (phase, first) = (here.phase() as i64, here.first_chunk(u64::from(place)) as i64);
        for (round, chunk) in here.goes().into_iter().enumerate() {
            let is_to_root = (u64::from(place) + here.skips[round]).is_multiple_of(u64::from(size));
            let has = chunk == first - phase || comes[..round].contains(&chunk);
            assert!(is_to_root || has, "place {place} of {size} has no {chunk} in round {round}: {comes:?}");
        }
    }

    fn check(size: u32, places: impl Iterator<Item = u32>) {
        for place in places {
            let comes = graph(size, place).comes(u64::from(place));
            check_what_comes(size, place, &comes);
            check_what_goes(size, place, &comes);
        }
        let root = graph(size, 0);
        for (round, &skip) in root.skips[..root.phase()].iter().enumerate() {
            assert_eq!(root.comes(skip % u64::from(size))[round], round as i64, "{size} ranks");
        }
    }

    #[test]
    fn every_place_has_what_it_sends_and_gets_every_chunk() {
        (2..400).for_each(|size| check(size, 1..size));
        for size in [1000, 1023, 1025, 4097] {
            check(size, 1..size);
        }
    }

    #[test]
    fn the_same_holds_for_samples_of_a_million() {
        for size in [1 << 20, (1 << 20) - 1, (1 << 20) + 1, 777_777, u32::MAX] {
            check(size, (1..400).map(|step: u32| 1 + step.wrapping_mul(0x9e37_79b9) % (size - 1)));
        }
    }

    /// Round by round, with all ranks at once: everybody gives and takes at most one chunk, gives what
    /// it has, and to somebody who takes it in this round.
    #[test]
    fn all_chunks_are_everywhere_in_as_few_rounds_as_can_be() {
        for (size, count) in (2..40).flat_map(|size| [1, 2, 3, 7, 50].map(|count| (size, count))) {
            let root = size / 3;
            let moves = |rank| Chunks::new(&Shape::new(Rank(rank), size), Rank(root)).moves(count);
            let rounds =
                |moves: Vec<Move>| moves.split(|&one| one == Move::Pause).map(<[Move]>::to_vec).collect();
            let all: Vec<Vec<Vec<Move>>> = (0..size).map(moves).map(rounds).collect();
            let mut has: Vec<Vec<bool>> = (0..size).map(|rank| vec![rank == root; count]).collect();
            let least = count - 1 + size.next_power_of_two().ilog2() as usize;
            for round in 0..least {
                let (mut given, mut taken) = (Vec::new(), Vec::new());
                for (here, rounds) in (0..size).zip(&all) {
                    for &one in &rounds[round] {
                        match one {
                            Move::Give(to, chunk) => given.push((here, to.0, chunk)),
                            Move::Take(from, chunk) => taken.push((from.0, here, chunk)),
                            Move::Pause => unreachable!("rounds end with it"),
                        }
                    }
                }
                assert!(given.iter().all(|&(from, _, chunk)| has[from as usize][chunk]), "{size} ranks");
                assert!(taken.windows(2).all(|pair| pair[0].1 < pair[1].1), "two at a time");
                assert!(given.windows(2).all(|pair| pair[0].0 < pair[1].0), "two at a time");
                for &(_, to, chunk) in &taken {
                    assert!(!std::mem::replace(&mut has[to as usize][chunk], true), "it has come before");
                }
                given.sort_unstable();
                taken.sort_unstable();
                assert_eq!(given, taken, "{size} ranks, {count} chunks, round {round}");
            }
            assert!(all.iter().all(|rounds| rounds.len() == least + 1 && rounds[least].is_empty()));
            assert!(has.iter().flatten().all(|&has| has));
        }
    }
}
