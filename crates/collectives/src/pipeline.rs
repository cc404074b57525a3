//! Long vectors cut into chunks that follow one another: while a rank receives one chunk it sends the one
//! before.
//!
//! A broadcast in chunks is a list of moves for each rank. A reduction is the same list backwards: where a
//! chunk came from, there its sum goes, and where it went, from there contributions come.

use messaging::Rank;

use crate::blocks::Blocks;
use crate::schedule::{Schedule, Span};
use crate::shape::{Operator, Shape, around, back};

/// What a rank does with a chunk of a broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// The chunk of that number goes to the rank.
    Give(Rank, usize),
    /// The chunk of that number comes from the rank.
    Take(Rank, usize),
    /// The chunks taken before must have come before the next move.
    Pause,
}

/// How many chunks so many bytes of whole elements are cut into, where the first chunk takes `depth` rounds
/// to be everywhere.
pub(crate) fn chunks(bytes: usize, element_bytes: usize, depth: usize, shape: &Shape) -> usize {
    let (costs, link) = (shape.costs(), shape.slowest_link());
    costs.chunks(link, bytes, depth).min((bytes / element_bytes.max(1)).max(1))
}

/// Round i of a chain from the root on: chunk i comes from the rank behind, and the one before it goes ahead.
pub(crate) fn chain(shape: &Shape, root: Rank, count: usize) -> Vec<Move> {
    let place = back(shape.rank().0, root.0, shape.size());
    let behind = (place > 0).then(|| shape.behind(1));
    let ahead = (place + 1 < shape.size()).then(|| shape.ahead(1));
    down(behind, ahead, count)
}

/// The moves of `count` chunks down a binary tree from the root on: chunk i comes in round i from the place
/// above, and the one before it goes to the places below, which are 2 i + 1 and 2 i + 2 for place i.
pub(crate) fn binary_tree(shape: &Shape, root: Rank, count: usize) -> Vec<Move> {
    let place = u64::from(back(shape.rank().0, root.0, shape.size()));
    let rank = |place: u64| Rank(around(place as u32, root.0, shape.size()));
    let above = (place > 0).then(|| rank((place - 1) / 2));
    let below = [2 * place + 1, 2 * place + 2].into_iter().filter(|&place| place < u64::from(shape.size()));
    down(above, below.map(rank), count)
}

fn down(above: Option<Rank>, below: impl IntoIterator<Item = Rank>, count: usize) -> Vec<Move> {
    let below: Vec<Rank> = below.into_iter().collect();
    let mut moves = Vec::new();
    for round in 0..=count {
        if let Some(chunk) = round.checked_sub(1) {
            moves.extend(below.iter().map(|&rank| Move::Give(rank, chunk)));
        }
        if let (Some(above), true) = (above, round < count) {
            moves.push(Move::Take(above, round));
        }
        moves.push(Move::Pause);
    }
    moves
}

/// Broadcasts `data` in so many chunks.
pub(crate) fn bcast(schedule: &mut Schedule, data: Span, count: usize, moves: &[Move]) {
    let slices = Blocks::Slices { count: data.bytes, element_bytes: 1, parts: count as u32 };
    for &one in moves {
        match one {
            Move::Give(to, chunk) => schedule.send(to, slices.of(data, chunk as u32)),
            Move::Take(from, chunk) => schedule.receive(from, slices.of(data, chunk as u32)),
            Move::Pause => schedule.wait_received(),
        }
    }
}

/// Sums everybody's vectors at the rank that the moves begin at; `out` is where the sum goes there.
/// For commutative operators.
pub(crate) fn reduce(
    schedule: &mut Schedule,
    (own, out): (Span, Option<Span>),
    operator: Operator,
    count: usize,
    moves: &[Move],
) {
    let Operator { element_bytes, .. } = operator;
    let elements = own.bytes / element_bytes.max(1);
    let slices = Blocks::Slices { count: elements, element_bytes, parts: count as u32 };
    let adds = moves.iter().any(|one| matches!(one, Move::Give(..)));
    let sums = match out {
        Some(out) => out,
        None if adds => schedule.scratch(own.bytes),
        None => own,
    };
    let mut piling =
        Piling { own, sums, slices, begun: vec![own == sums; count], rooms: Vec::new(), open: Vec::new() };
    for &one in moves.iter().rev() {
        match one {
            Move::Give(from, chunk) => piling.receive(schedule, from, chunk),
            Move::Take(to, chunk) => {
                let sum = piling.sum(chunk);
                schedule.send(to, sum);
            }
            Move::Pause => piling.pause(schedule),
        }
    }
    piling.pause(schedule);
    if !adds {
        schedule.copy(own, sums);
    }
}

/// Sums in chunks: contributions of a round are received side by side, and added when all of them are there.
struct Piling<'a> {
    own: Span,
    sums: Span,
    slices: Blocks<'a>,
    /// Whether anything stands where the sum of a chunk goes.
    begun: Vec<bool>,
    /// Where contributions to sums that have begun are received.
    rooms: Vec<Span>,
    /// What is to be added at the end of the round: an operand and the sum.
    open: Vec<(Span, Span)>,
}

impl Piling<'_> {
    /// Where the sum of a chunk stands so far.
    fn sum(&self, chunk: usize) -> Span {
        self.slices.of(if self.begun[chunk] { self.sums } else { self.own }, chunk as u32)
    }

    fn receive(&mut self, schedule: &mut Schedule, from: Rank, chunk: usize) {
        let sum = self.slices.of(self.sums, chunk as u32);
        if !self.begun[chunk] {
            // The first one lies where the sum goes, and our own is added to it.
            self.begun[chunk] = true;
            schedule.receive(from, sum);
            self.open.push((self.slices.of(self.own, chunk as u32), sum));
            return;
        }
        let used = self
            .open
            .iter()
            .filter(|(operand, _)| self.rooms.iter().any(|room| room.overlaps(operand)))
            .count();
        if used == self.rooms.len() {
            self.rooms.push(schedule.scratch(self.slices.longest(self.begun.len() as u32)));
        }
        let room = self.rooms[used].part(0, sum.bytes);
        schedule.receive(from, room);
        self.open.push((room, sum));
    }

    fn pause(&mut self, schedule: &mut Schedule) {
        schedule.wait_received();
        for (operand, sum) in self.open.drain(..) {
            schedule.reduce(operand, sum);
        }
    }
}
