//! What each member does in an operation on a board: what its entry holds, whose entries it reads, and what becomes of them.
//!
//! All that decides whether an operation goes by a board, and how long its entries are, is the same at all members.

use collectives::{
    Block, COMBINED_BY_ALL_BYTES_MAX, Collective, Cores, Each, Halves, Listed, Reduction, Rooted, Uneven,
    combining_order, reducing_order, scanning_order,
};
use job::fabrics::Board;
use messaging::Rank;

use super::pieces::{BYTES_MAX, Carried, Lengths, Lot};
use super::several;
use super::turn::Flow;

/// One member's part in an operation.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    /// This member.
    pub here: Rank,
    pub size: u32,
    /// Whether it writes an entry.
    pub gives: bool,
    /// Whose entries it reads.
    pub hears: Hears,
    /// What an entry holds.
    pub(super) holds: Holds,
    /// How the data is divided among the members.
    blocks: Blocks<'a>,
    /// Whether this member's contribution stands in its output.
    pub is_loaded: bool,
    /// Whether its own block must be brought to where it gets the others'.
    brings_own: bool,
    /// What becomes of what it reads.
    pub then: Then,
    /// Data is cut between elements of so many bytes.
    element_bytes: usize,
    /// What of it goes in pieces between two.
    in_pieces: Lot,
}

/// Whose entries a member reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hears {
    Nobody,
    One(Rank),
    /// Those of the members before it.
    Lower,
    Others,
}

/// What an entry holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// Its writer's block, for all who read it.
    Own,
    /// A block for each other member, in the order in which they come behind the writer.
    ForEach,
}

/// The block of each member in a buffer of all.
#[derive(Clone, Copy)]
enum Blocks<'a> {
    /// All so long, one behind the other.
    Even(usize),
    /// As listed.
    Listed(&'a [Block]),
}

/// What becomes of what a member reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing comes but that it is there.
    Nothing,
    /// It is what this member gets.
    Taken,
    /// Each goes to its writer's place.
    Placed,
    /// It is combined with the others, and perhaps with this member's own.
    Combined(Sum),
}

/// Which contributions are combined, and in which order: the same as by the schedules that are chosen at such lengths.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    /// Those of all, in the order of operands.
    OfAll,
    /// Those of all, as up a tree to that rank.
    UpTree(Rank),
    /// Those of the ranks up to this one.
    UpTo(Rank),
}

impl Sum {
    /// The members whose contributions are combined.
    pub(super) fn of(self, size: u32) -> impl Iterator<Item = Rank> {
        let last = if let Sum::UpTo(last) = self { last.0 } else { size - 1 };
        (0..=last).map(Rank)
    }

    /// Where a member's contribution is put, so that [many](Sum::in_runs) are combined at once.
    pub(super) fn place(self, size: u32, of: Rank) -> usize {
        match self {
            Sum::OfAll => Halves::of(size).place(of) as usize,
            Sum::UpTree(_) | Sum::UpTo(_) => of.0 as usize,
        }
    }

    /// Hands out runs of such places: so many from the first on are put before as many from the second on, where the results
    /// stand then. The answer is where that of all stands. The bits are those of [`Sum::in_order`].
    pub(super) fn in_runs(self, size: u32, mut combine: impl FnMut(usize, usize, usize)) -> usize {
        if self == Sum::OfAll {
            let halves = Halves::of(size);
            halves.runs().for_each(|(lower, higher, count)| {
                combine(lower as usize, higher as usize, count as usize);
            });
            return halves.result() as usize;
        }
        self.in_order(size, |lower, higher| combine(lower.0 as usize, higher.0 as usize, 1)).0 as usize
    }

    /// Hands out each pair of contributions: the first is put before the second, where the result stands then. The answer is
    /// where that of all stands.
    pub(super) fn in_order(self, size: u32, mut combine: impl FnMut(Rank, Rank)) -> Rank {
        match self {
            Sum::OfAll => {
                combining_order(size).for_each(|(lower, higher)| combine(lower, higher));
                Rank(size - 1)
            }
            Sum::UpTree(top) => {
                reducing_order(size, top).for_each(|(lower, higher)| combine(lower, higher));
                Rank((top.0 + size - 1) % size)
            }
            Sum::UpTo(last) => {
                scanning_order(last).for_each(|(lower, higher)| combine(lower, higher));
                last
            }
        }
    }
}

impl<'a> Plan<'a> {
    /// What that member does; `None` where the operation never goes by boards.
    #[inline]
    pub(super) fn of(collective: Collective, here: Rank, size: u32, cores: Cores) -> Option<Plan<'a>> {
        let is_at = |root: Rank| here == root;
        let to = |root: Rank| if is_at(root) { Hears::Others } else { Hears::Nobody };
        let from = |root: Rank| if is_at(root) { Hears::Nobody } else { Hears::One(root) };
        let new = |bytes, then| Plan::each_to_all((here, size), bytes, then);
        let exchange = |of: Each| Plan {
            is_loaded: of.in_place,
            brings_own: !of.in_place,
            in_pieces: Lot::EXCHANGE,
            ..new(of.bytes, Then::Placed)
        };
        let sum = |of: Reduction, sum| Plan {
            is_loaded: of.in_place,
            element_bytes: of.operator.element_bytes,
            ..new(of.count * of.operator.element_bytes, Then::Combined(sum))
        };
        let brings = |of: Rooted| is_at(of.root) && !of.in_place;
        let plan = match collective {
            Collective::Barrier => new(0, Then::Nothing),
            // The root's data stands where that of the others goes.
            Collective::Bcast { root, bytes } => {
                Plan { gives: is_at(root), hears: from(root), is_loaded: true, ..new(bytes, Then::Taken) }
            }
            Collective::Gather(of) => Plan {
                gives: !is_at(of.root),
                hears: to(of.root),
                brings_own: brings(of),
                ..new(of.bytes, Then::Placed)
            },
            Collective::Scatter(of) => Plan {
                gives: is_at(of.root),
                hears: from(of.root),
                holds: Holds::ForEach,
                brings_own: brings(of),
                ..new(of.bytes, Then::Taken)
            },
            Collective::Allgather(of) => exchange(of),
            Collective::Alltoall(of) => Plan { holds: Holds::ForEach, ..exchange(of) },
            Collective::Allreduce(of) => Plan { in_pieces: Lot::COMBINED, ..sum(of, Sum::OfAll) },
            // The order in which a reduce-scatter of more adds up is that of its algorithm, which changes with lengths and cores.
            Collective::Reduce(root, of) if size == 2 => {
                let in_pieces = Lot::REDUCED;
                Plan { gives: !is_at(root), hears: to(root), in_pieces, ..sum(of, Sum::OfAll) }
            }
            Collective::ReduceScatterBlock(of) if size == 2 => {
                Plan { holds: Holds::ForEach, in_pieces: Lot::SCATTERED, ..sum(of, Sum::OfAll) }
            }
            Collective::Scan(of) => {
                let (gives, in_pieces) = (here.0 + 1 < size, Lot::SCANNED);
                Plan { gives, hears: Hears::Lower, in_pieces, ..sum(of, Sum::UpTo(here)) }
            }
            Collective::Exscan(of) => {
                let hears = if here.0 == 0 { Hears::Nobody } else { Hears::Lower };
                let before = Rank(here.0.saturating_sub(1));
                Plan { gives: here.0 + 1 < size, hears, ..sum(of, Sum::UpTo(before)) }
            }
            // One turn of all is better than one for each level of a tree. With cores of their own more ranks combine on their way, so that
            // not one of them does it all.
            Collective::Reduce(root, of) if cores == Cores::Shared => {
                let top = if of.operator.commutative { root } else { Rank(0) };
                Plan { gives: !is_at(root), hears: to(root), ..sum(of, Sum::UpTree(top)) }
            }
            Collective::Reduce(..) | Collective::ReduceScatterBlock(_) => return None,
        };
        Some(plan)
    }

    /// All hear so many bytes of all.
    #[inline]
    fn each_to_all((here, size): (Rank, u32), bytes: usize, then: Then) -> Plan<'a> {
        Plan {
            here,
            size,
            gives: true,
            hears: Hears::Others,
            holds: Holds::Own,
            blocks: Blocks::Even(bytes),
            is_loaded: false,
            brings_own: false,
            then,
            element_bytes: 1,
            in_pieces: Lot::ONE_WAY,
        }
    }

    /// The same with blocks that differ; only where all members know all of them.
    pub(super) fn listed(listed: Listed<'a>, here: Rank, size: u32) -> Option<Plan<'a>> {
        let (blocks, in_place, holds, then, element_bytes) = match listed.what {
            Uneven::Allgather { in_place } => (listed.receives, in_place, Holds::Own, Then::Placed, 1),
            Uneven::ReduceScatter { in_place, operator } if size == 2 => {
                let sum = Then::Combined(Sum::OfAll);
                (listed.sends, in_place, Holds::ForEach, sum, operator.element_bytes)
            }
            _ => return None,
        };
        Some(Plan {
            here,
            size,
            gives: true,
            hears: Hears::Others,
            holds,
            blocks: Blocks::Listed(blocks),
            is_loaded: in_place,
            brings_own: then == Then::Placed && !in_place,
            then,
            element_bytes,
            in_pieces: if then == Then::Placed { Lot::EXCHANGE } else { Lot::SCATTERED },
        })
    }

    /// Whether what comes of a sum is written over what is still to be given, or combined: in place, and of another length.
    pub(super) fn is_in_the_way(&self) -> bool {
        let Blocks::Listed(blocks) = self.blocks else { return false };
        let is_uneven = || blocks.windows(2).any(|both| both[0].bytes != both[1].bytes);
        self.is_loaded && self.then != Then::Placed && is_uneven()
    }

    /// Whether entries have room for it, and there is anything to put there; the same at all members.
    #[inline]
    pub(super) fn fits(&self) -> bool {
        let (longest, entry) = self.entry_bytes();
        let all_bytes_max = match self.then {
            Then::Combined(Sum::UpTree(_)) => ROOM_BYTES,
            Then::Combined(_) => COMBINED_BY_ALL_BYTES_MAX,
            Then::Nothing | Then::Taken | Then::Placed => usize::MAX,
        };
        let is_some = longest > 0 || self.then == Then::Nothing;
        let all = longest.saturating_mul(self.size as usize);
        is_some && entry <= Board::PAYLOAD_BYTES_MAX && all <= all_bytes_max
    }

    /// Whether one member combines what all have, which others do in a tree.
    #[inline]
    pub(super) fn goes_up_tree(&self) -> bool {
        matches!(self.then, Then::Combined(Sum::UpTree(_)))
    }

    /// Whether an entry, which is too long for the board's places, is one piece. Elements are combined faster in parts.
    pub(super) fn is_one_piece(&self) -> bool {
        let (longest, entry) = self.entry_bytes();
        let is_long =
            longest > 0 && entry > Board::PAYLOAD_BYTES_MAX && entry <= Board::piece_bytes_max(self.size);
        is_long
            && !matches!(self.then, Then::Combined(_))
            && (3..=Board::PIECES_MEMBERS_MAX).contains(&self.size)
    }

    /// Whether it goes in pieces among several who share cores: what all hear, or all hear of one.
    #[inline]
    pub(super) fn goes_among_several(&self) -> bool {
        let (longest, _) = self.entry_bytes();
        let all_hear_all = self.gives && self.hears == Hears::Others;
        let least = match self.then {
            Then::Placed if all_hear_all => several::piece_bytes(self.size, 1),
            Then::Taken => several::piece_bytes(self.size, 1),
            Then::Combined(Sum::OfAll) if all_hear_all && !self.fits() => 0,
            Then::Combined(Sum::UpTree(_)) if !self.fits() && self.size > 3 => 0,
            _ => return false,
        };
        let are_few = (3..=Board::PIECES_MEMBERS_MAX).contains(&self.size);
        let is_cut = self.element_bytes <= several::ELEMENT_BYTES_MAX && longest <= BYTES_MAX;
        self.holds == Holds::Own && are_few && is_cut && least < longest
    }

    /// The longest block of any member.
    pub(super) fn longest_bytes(&self) -> usize {
        self.entry_bytes().0
    }

    /// Data is cut between elements of so many bytes.
    pub(super) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// The length of the pieces of a [long operation among several](Plan::goes_among_several).
    pub(super) fn several_piece_bytes(&self) -> usize {
        match self.goes_up_tree() {
            true => several::root_piece_bytes(self.element_bytes),
            false => several::piece_bytes(self.size, self.element_bytes),
        }
    }

    /// The longest block, and the longest entry.
    #[inline]
    fn entry_bytes(&self) -> (usize, usize) {
        match (self.blocks, self.holds) {
            (Blocks::Even(bytes), Holds::Own) => (bytes, bytes),
            (Blocks::Even(bytes), Holds::ForEach) => (bytes, bytes.saturating_mul(self.size as usize - 1)),
            // An entry has one block, also where it is for the other of two.
            (Blocks::Listed(blocks), _) => {
                let longest = blocks.iter().map(|block| block.bytes).max().unwrap_or(0);
                (longest, longest)
            }
        }
    }

    /// What this one of two members does.
    #[inline]
    pub(super) fn flow(&self) -> Flow {
        let is_some = self.size == 2 && self.then != Then::Nothing;
        Flow { gives: is_some && self.gives, gets: is_some && self.writers().next().is_some() }
    }

    /// What two members give each other, where it goes in pieces; the same lengths as seen by the other.
    #[inline]
    pub(super) fn in_pieces(&self) -> Option<Carried> {
        if self.size != 2 {
            return None;
        }
        let [front, back] = self.entry();
        let gives = if self.gives { front.bytes + back.bytes } else { 0 };
        let gets = self.writers().next().map_or(0, |from| self.heard(from).0);
        let lengths = Lengths { gives, gets, element_bytes: self.element_bytes };
        match self.flow().is_one_way() {
            true => lengths.carried_one_way(self.in_pieces),
            false => lengths.carried(self.in_pieces),
        }
    }

    /// Whether what all members give is combined, and is the same at all.
    pub(super) fn is_same_for_all(&self) -> bool {
        self.hears == Hears::Others && self.holds == Holds::Own && matches!(self.then, Then::Combined(_))
    }

    /// Where a member's block stands in a buffer of all members' blocks.
    #[inline]
    pub(super) fn block(&self, of: Rank) -> Block {
        match self.blocks {
            Blocks::Even(bytes) => Block { offset: of.0 as usize * bytes, bytes },
            Blocks::Listed(blocks) => blocks[of.0 as usize],
        }
    }

    /// Where all blocks end that stand one behind the other.
    fn end(&self) -> usize {
        let Block { offset, bytes } = self.block(Rank(self.size - 1));
        offset + bytes
    }

    /// The parts of this member's contribution that make its entry.
    #[inline]
    pub(super) fn entry(&self) -> [Block; 2] {
        match self.holds {
            Holds::Own => [self.own(), Block::NOTHING],
            Holds::ForEach => {
                let Block { offset, bytes } = self.block(self.here);
                let behind = offset + bytes;
                [Block { offset: behind, bytes: self.end() - behind }, Block { offset: 0, bytes: offset }]
            }
        }
    }

    /// What this member contributes for itself, where its contribution stands.
    #[inline]
    pub(super) fn own(&self) -> Block {
        let block = self.block(self.here);
        let has_all = self.holds == Holds::ForEach || self.is_loaded && self.then == Then::Placed;
        Block { offset: if has_all { block.offset } else { 0 }, ..block }
    }

    /// The length of that member's entry, and the part of it that this member reads.
    #[inline]
    pub(super) fn heard(&self, from: Rank) -> (usize, Block) {
        let theirs = self.block(from);
        match self.holds {
            Holds::Own => (theirs.bytes, Block { offset: 0, bytes: theirs.bytes }),
            Holds::ForEach => {
                let (end, behind, own) = (self.end(), theirs.offset + theirs.bytes, self.block(self.here));
                let offset = if self.here > from { own.offset - behind } else { end - behind + own.offset };
                (end - theirs.bytes, Block { offset, bytes: own.bytes })
            }
        }
    }

    /// Where this member's own block goes, if it must be brought there.
    #[inline]
    pub(super) fn kept(&self) -> Option<usize> {
        self.brings_own.then(|| self.place(self.here))
    }

    /// Where what that member has written goes.
    #[inline]
    pub(super) fn place(&self, from: Rank) -> usize {
        if self.then == Then::Placed { self.block(from).offset } else { 0 }
    }

    /// The members whose entries are read, beginning behind this one.
    #[inline]
    pub(super) fn writers(&self) -> impl Iterator<Item = Rank> + use<> {
        let (here, size) = (self.here.0, self.size);
        let (behind, before) = match self.hears {
            Hears::Nobody => (0..0, 0..0),
            Hears::One(rank) => (rank.0..rank.0 + 1, 0..0),
            Hears::Lower => (0..0, 0..here),
            Hears::Others => (here + 1..size, 0..here),
        };
        behind.chain(before).map(Rank)
    }
}

/// The other members, beginning behind this one.
pub(super) fn others(here: Rank, size: u32) -> impl Iterator<Item = Rank> {
    (here.0 + 1..size).chain(0..here.0).map(Rank)
}

/// What all contributions may take that one member combines.
pub(super) const ROOM_BYTES: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use collectives::{Operator, packed};

    use super::*;

    /// What all members have.
    #[derive(Clone)]
    struct Buffers {
        inputs: Vec<Vec<u8>>,
        outputs: Vec<Vec<u8>>,
    }

    /// Does an operation with the plans of all members, and looks at what each has gotten. Contributions that are combined are
    /// elements of two bytes: the first rank that has contributed, and how many have; only neighbours can be combined.
    fn carry_out<'a>(
        what: &str,
        plan_of: impl Fn(Rank) -> Option<Plan<'a>>,
        Buffers { inputs, outputs }: Buffers,
        expected: &[Vec<u8>],
    ) {
        let plans: Vec<Plan<'_>> =
            (0..expected.len() as u32).map(|rank| plan_of(Rank(rank)).expect("it fits")).collect();
        let given = |rank: usize| if plans[rank].is_loaded { &outputs[rank] } else { &inputs[rank] };
        let part = |data: &[u8], Block { offset, bytes }| data[offset..offset + bytes].to_vec();
        let entry = |rank: usize| -> Option<Vec<u8>> {
            let plan = &plans[rank];
            plan.gives.then(|| plan.entry().map(|block| part(given(rank), block)).concat())
        };
        let entries: Vec<Option<Vec<u8>>> = (0..plans.len()).map(entry).collect();
        for (rank, plan) in plans.iter().enumerate() {
            let mut output = outputs[rank].clone();
            let mut put = |at: usize, data: &[u8]| output[at..at + data.len()].copy_from_slice(data);
            let own = || part(given(rank), plan.own());
            if let Some(place) = plan.kept() {
                put(place, &own());
            }
            let heard = |from: Rank| {
                let entry = entries[from.0 as usize].as_ref().expect("who is heard has written");
                let (bytes, block) = plan.heard(from);
                assert_eq!(entry.len(), bytes, "{what}: {rank} hears {from:?}");
                part(entry, block)
            };
            match plan.then {
                _ if plan.hears == Hears::Nobody => assert_eq!(plan.writers().count(), 0),
                Then::Nothing | Then::Taken | Then::Placed => {
                    plan.writers().for_each(|from| put(plan.place(from), &heard(from)));
                }
                Then::Combined(sum) => {
                    let of = |from: Rank| if from.0 as usize == rank { own() } else { heard(from) };
                    let mut places: Vec<Vec<u8>> = sum.of(plan.size).map(of).collect();
                    let mut runs = places.clone();
                    sum.of(plan.size).zip(&places).for_each(|(from, given)| {
                        runs[sum.place(plan.size, from)] = given.clone();
                    });
                    let all = sum.in_runs(plan.size, |lower, higher, count| {
                        for at in 0..count {
                            runs[higher + at] = joined(&runs[lower + at], &runs[higher + at]);
                        }
                    });
                    let at = sum.in_order(plan.size, |lower, higher| {
                        places[higher.0 as usize] =
                            joined(&places[lower.0 as usize], &places[higher.0 as usize]);
                    });
                    assert_eq!(runs[all], places[at.0 as usize], "{what}: in runs and in pairs");
                    put(0, &runs[all]);
                }
            }
            assert_eq!(output, expected[rank], "{what}: rank {rank} of {}", plans.len());
        }
    }

    fn joined(lower: &[u8], higher: &[u8]) -> Vec<u8> {
        let pairs = lower.chunks(2).zip(higher.chunks(2));
        let join = |(lower, higher): (&[u8], &[u8])| {
            assert_eq!(lower[0] + lower[1], higher[0], "these are not neighbours");
            [lower[0], lower[1] + higher[1]]
        };
        pairs.flat_map(join).collect()
    }

    /// Elements to which so many ranks have contributed, the first of which is that one.
    fn sum(first: u32, ranks: u32, count: usize) -> Vec<u8> {
        [first as u8, ranks as u8].repeat(count)
    }

    /// What one rank has for another.
    fn block(from: u32, to: u32, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| [from as u8, to as u8, at as u8][at % 3]).collect()
    }

    fn of_all(size: u32, one: impl Fn(u32) -> Vec<u8>) -> Vec<Vec<u8>> {
        (0..size).map(one).collect()
    }

    /// No bytes that anybody has.
    fn blank(bytes: usize) -> Vec<u8> {
        vec![0xee; bytes]
    }

    const SUM: Operator = Operator { element_bytes: 2, commutative: false };

    #[test]
    fn data_goes_from_a_root_and_to_one() {
        let bytes = 3;
        for (size, root) in sizes().flat_map(|size| [0, size / 2, size - 1].map(|root| (size, root))) {
            let all = bytes * size as usize;
            let at_root = |rank: u32, data: Vec<u8>| if rank == root { data } else { blank(data.len()) };
            let row = |of: &dyn Fn(u32) -> Vec<u8>| of_all(size, of).concat();
            let bcast = |rank| {
                let collective = Collective::Bcast { root: Rank(root), bytes };
                Plan::of(collective, rank, size, Cores::Own)
            };
            let data = block(root, 0, bytes);
            let buffers = Buffers {
                inputs: of_all(size, |_| Vec::new()),
                outputs: of_all(size, |rank| at_root(rank, data.clone())),
            };
            carry_out("bcast", bcast, buffers, &of_all(size, |_| data.clone()));
            for in_place in [false, true] {
                let rooted = |rank: Rank| {
                    let in_place = in_place && rank.0 == root;
                    Rooted { root: Rank(root), bytes, in_place }
                };
                let has_own = |rank: u32| in_place && rank == root;
                let gathered = row(&|from| block(from, root, bytes));
                let expected = of_all(size, |rank| at_root(rank, gathered.clone()));
                let mut outputs = of_all(size, |_| blank(all));
                if in_place {
                    let own = root as usize * bytes;
                    outputs[root as usize][own..own + bytes].copy_from_slice(&block(root, root, bytes));
                }
                let inputs = of_all(size, |rank| block(rank, root, if has_own(rank) { 0 } else { bytes }));
                let gather = |rank| Plan::of(Collective::Gather(rooted(rank)), rank, size, Cores::Own);
                carry_out("gather", gather, Buffers { inputs, outputs }, &expected);

                let inputs = of_all(size, |rank| at_root(rank, row(&|to| block(root, to, bytes))));
                let outputs = of_all(size, |_| blank(bytes));
                let expected =
                    of_all(size, |rank| if has_own(rank) { blank(bytes) } else { block(root, rank, bytes) });
                let scatter = |rank| Plan::of(Collective::Scatter(rooted(rank)), rank, size, Cores::Own);
                carry_out("scatter", scatter, Buffers { inputs, outputs }, &expected);
            }
        }
    }

    #[test]
    fn data_goes_from_all_to_all() {
        let bytes = 3;
        for (size, in_place) in sizes().flat_map(|size| [(size, false), (size, true)]) {
            let all = bytes * size as usize;
            let each = Each { bytes, in_place };
            let barrier = |rank| Plan::of(Collective::Barrier, rank, size, Cores::Own);
            let nothing = of_all(size, |_| Vec::new());
            let buffers = Buffers { inputs: nothing.clone(), outputs: nothing.clone() };
            carry_out("barrier", barrier, buffers, &nothing);
            assert!((0..size).all(|rank| {
                barrier(Rank(rank))
                    .is_some_and(|plan| plan.gives && plan.writers().count() == size as usize - 1)
            }));

            let gathered = of_all(size, |rank| block(rank, 0, bytes)).concat();
            let place = |rank: u32| rank as usize * bytes..(rank as usize + 1) * bytes;
            let loaded = |rank: u32| {
                let mut output = blank(all);
                output[place(rank)].copy_from_slice(&block(rank, 0, bytes));
                output
            };
            let buffers = Buffers {
                inputs: of_all(size, |rank| if in_place { Vec::new() } else { block(rank, 0, bytes) }),
                outputs: of_all(size, |rank| if in_place { loaded(rank) } else { blank(all) }),
            };
            let allgather = |rank| Plan::of(Collective::Allgather(each), rank, size, Cores::Own);
            carry_out("allgather", allgather, buffers, &of_all(size, |_| gathered.clone()));

            let given = |from: u32| of_all(size, |to| block(from, to, bytes)).concat();
            let gotten = |to: u32| of_all(size, |from| block(from, to, bytes)).concat();
            let buffers = Buffers {
                inputs: of_all(size, |rank| if in_place { Vec::new() } else { given(rank) }),
                outputs: of_all(size, |rank| if in_place { given(rank) } else { blank(all) }),
            };
            let alltoall = |rank| Plan::of(Collective::Alltoall(each), rank, size, Cores::Own);
            carry_out("alltoall", alltoall, buffers, &of_all(size, gotten));
        }
    }

    /// Blocks of any length, some of none, with gaps between them.
    #[test]
    fn blocks_may_differ() {
        for (size, in_place) in sizes().flat_map(|size| [(size, false), (size, true)]) {
            let bytes = |rank: u32| (rank as usize * 5 + 1) % 7;
            let blocks: Vec<Block> =
                (0..size).map(|rank| Block { offset: 10 * rank as usize + 2, bytes: bytes(rank) }).collect();
            let with = |ranks: &dyn Fn(u32) -> bool| {
                let mut data = blank(10 * size as usize);
                for rank in (0..size).filter(|rank| ranks(*rank)) {
                    let Block { offset, bytes } = blocks[rank as usize];
                    data[offset..offset + bytes].copy_from_slice(&block(rank, 0, bytes));
                }
                data
            };
            let buffers = Buffers {
                inputs: of_all(size, |rank| block(rank, 0, if in_place { 0 } else { bytes(rank) })),
                outputs: of_all(size, |rank| with(&|other| in_place && other == rank)),
            };
            let what = Uneven::Allgather { in_place };
            let listed = Listed { what, sends: &[], receives: &blocks };
            let allgather = |rank| Plan::listed(listed, rank, size);
            carry_out("allgatherv", allgather, buffers, &of_all(size, |_| with(&|_| true)));
        }
    }

    #[test]
    fn contributions_are_combined_in_their_order() {
        let count = 4;
        for (size, in_place) in sizes().flat_map(|size| [(size, false), (size, true)]) {
            let of = Reduction { count, operator: SUM, in_place };
            let own = |rank: u32| sum(rank, 1, count);
            let empty = blank(2 * count);
            let buffers = Buffers {
                inputs: of_all(size, |rank| if in_place { Vec::new() } else { own(rank) }),
                outputs: of_all(size, |rank| if in_place { own(rank) } else { empty.clone() }),
            };
            let before = |rank: usize| buffers.outputs[rank].clone();
            let run = |name: &str, collective: Collective, expected: Vec<Vec<u8>>| {
                carry_out(
                    name,
                    |rank| Plan::of(collective, rank, size, Cores::Own),
                    buffers.clone(),
                    &expected,
                );
            };
            let upto = |ranks: u32| sum(0, ranks, count);
            run("allreduce", Collective::Allreduce(of), of_all(size, |_| upto(size)));
            run("scan", Collective::Scan(of), of_all(size, |rank| upto(rank + 1)));
            let exclusive = |rank: u32| if rank == 0 { before(0) } else { upto(rank) };
            run("exscan", Collective::Exscan(of), of_all(size, exclusive));
        }
    }

    fn reduce_to(root: u32, size: u32, cores: Cores, count: usize, in_place: bool) {
        let of = |rank: Rank| Reduction { count, operator: SUM, in_place: in_place && rank.0 == root };
        let own = |rank: u32| sum(rank, 1, count);
        let loaded = |rank: u32| in_place && rank == root;
        let buffers = Buffers {
            inputs: of_all(size, |rank| if loaded(rank) { Vec::new() } else { own(rank) }),
            outputs: of_all(size, |rank| if loaded(rank) { own(rank) } else { blank(2 * count) }),
        };
        let result = |rank| if rank == root { sum(0, size, count) } else { blank(2 * count) };
        let reduce = |rank| Plan::of(Collective::Reduce(Rank(root), of(rank)), rank, size, cores);
        carry_out("reduce", reduce, buffers, &of_all(size, result));
    }

    #[test]
    fn data_is_reduced_to_one_and_two_reduce_and_scatter() {
        let count = 4;
        for in_place in [false, true] {
            for (size, cores) in
                [(2, Cores::Own), (2, Cores::Shared), (3, Cores::Shared), (11, Cores::Shared)]
            {
                for root in 0..size {
                    reduce_to(root, size, cores, count, in_place);
                }
            }
            for counts in [[count, count], [1, 3], [3, 0], [0, 2]] {
                let all = |rank| sum(rank, 1, counts[0] + counts[1]);
                let buffers =
                    Buffers {
                        inputs: of_all(2, |rank| if in_place { Vec::new() } else { all(rank) }),
                        outputs: of_all(2, |rank| {
                            if in_place { all(rank) } else { blank(2 * counts[rank as usize]) }
                        }),
                    };
                let expected = of_all(2, |rank| {
                    let mut output = buffers.outputs[rank as usize].clone();
                    let mine = sum(0, 2, counts[rank as usize]);
                    output[..mine.len()].copy_from_slice(&mine);
                    output
                });
                let blocks = packed(counts.map(|count| 2 * count));
                let what = Uneven::ReduceScatter { operator: SUM, in_place };
                let listed = Listed { what, sends: &blocks, receives: &[] };
                let reduce_scatter = |rank| Plan::listed(listed, rank, 2);
                carry_out("reduce-scatter", reduce_scatter, buffers.clone(), &expected);
                if counts[0] == counts[1] {
                    let of = Reduction { count, operator: SUM, in_place };
                    let even = |rank| Plan::of(Collective::ReduceScatterBlock(of), rank, 2, Cores::Own);
                    carry_out("reduce-scatter-block", even, buffers, &expected);
                }
            }
        }
    }

    /// Whether an operation goes by a board is the same at all members, and lengths decide it.
    #[test]
    fn all_members_go_the_same_way() {
        let entry = Board::PAYLOAD_BYTES_MAX;
        for size in sizes() {
            let goes = |collective: Collective| {
                let ways: Vec<bool> = (0..size)
                    .map(|rank| {
                        Plan::of(collective, Rank(rank), size, Cores::Shared).is_some_and(|plan| plan.fits())
                    })
                    .collect();
                assert!(ways.iter().all(|way| *way == ways[0]), "{collective:?} of {size}");
                ways[0]
            };
            let reduction = |bytes: usize| {
                let operator = Operator { element_bytes: 1, commutative: true };
                Reduction { count: bytes, operator, in_place: false }
            };
            let each = |bytes| Each { bytes, in_place: false };
            let others = size as usize - 1;
            let combined = entry.min(COMBINED_BY_ALL_BYTES_MAX / size as usize);
            for (longest, of) in [
                (
                    entry,
                    &(|bytes| Collective::Bcast { root: Rank(1), bytes }) as &dyn Fn(usize) -> Collective,
                ),
                (entry, &|bytes| Collective::Allgather(each(bytes))),
                (entry / others, &|bytes| Collective::Alltoall(each(bytes))),
                (entry.min(ROOM_BYTES / size as usize), &|bytes| {
                    Collective::Reduce(Rank(1), reduction(bytes))
                }),
                (entry, &|bytes| Collective::Gather(Rooted { root: Rank(1), bytes, in_place: false })),
                (entry / others, &|bytes| {
                    Collective::Scatter(Rooted { root: Rank(1), bytes, in_place: false })
                }),
                (combined, &|bytes| Collective::Allreduce(reduction(bytes))),
                (combined, &|bytes| Collective::Scan(reduction(bytes))),
                (combined, &|bytes| Collective::Exscan(reduction(bytes))),
            ] {
                assert_eq!(
                    [0, 1, longest, longest + 1].map(|bytes| goes(of(bytes))),
                    [false, true, true, false]
                );
            }
            assert!(goes(Collective::Barrier));
            let reduce = Collective::Reduce(Rank(1), reduction(8));
            assert_eq!(Plan::of(reduce, Rank(0), size, Cores::Own).is_some(), size == 2);
            assert_eq!(goes(Collective::ReduceScatterBlock(reduction(8))), size == 2);
        }
    }

    fn sizes() -> impl Iterator<Item = u32> {
        2..=Board::MEMBERS_MAX
    }
}
