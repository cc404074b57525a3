//! Exchanges between the neighbours of a topology that has two members: all that one of them has for the other stands in one entry, or is
//! one piece, one block behind the other.
//!
//! Both know how much that is, each way, however the blocks stand in the program's memory and whatever lengths they have, so they
//! decide alike whether it goes so.

use collectives::{Block, Cause, Neighbourhood, Surround};
use fabric::{Heap, Payload, UserMemory};
use job::error::Result;
use job::fabrics::Board;
use messaging::Rank;

use super::pieces::{Lengths, PIECE_BYTES_MIN};
use super::plan::ROOM_BYTES;
use super::turn::Flow;
use super::{Communicator, Visit};
use crate::memory::giving;

/// One member's part in such an exchange.
struct Facing<'a> {
    neighbourhood: &'a Neighbourhood,
    surround: Surround<'a>,
    /// How much it gives to the other, and gets from it.
    gives: usize,
    gets: usize,
}

impl<'a> Facing<'a> {
    fn of(neighbourhood: &'a Neighbourhood, surround: Surround<'a>) -> Facing<'a> {
        let mut facing = Facing { neighbourhood, surround, gives: 0, gets: 0 };
        let total = |blocks: &mut dyn Iterator<Item = Block>| blocks.map(|block| block.bytes).sum();
        let other = Rank(1 - neighbourhood.here.0);
        (facing.gives, facing.gets) =
            (total(&mut facing.given_to(other)), total(&mut facing.gotten_from(other)));
        facing
    }

    /// The blocks for that member, in the order in which they are sent.
    fn given_to(&self, to: Rank) -> impl Iterator<Item = Block> {
        self.neighbourhood.sent().filter(move |(rank, _)| *rank == to).map(|(_, at)| self.surround.given(at))
    }

    /// Where those of that member go, in the order in which it sends them.
    fn gotten_from(&self, from: Rank) -> impl Iterator<Item = Block> {
        let of = self.neighbourhood.received().filter(move |(rank, _)| *rank == from);
        of.map(|(_, at)| self.surround.gotten(at))
    }

    /// Brings what that member has sent to its places.
    fn deliver(&self, from: Rank, sent: Payload<'_>, output: &mut UserMemory) {
        let mut at = 0;
        for Block { offset, bytes } in self.gotten_from(from) {
            output.write_at(offset, sent.part(at, bytes));
            at += bytes;
        }
    }

    fn flow(&self) -> Flow {
        Flow { gives: self.gives > 0, gets: self.gets > 0 }
    }
}

impl Communicator {
    /// Exchanges with the neighbours, where there are two members and it fits. `None`: nothing has happened.
    pub(in crate::communicator) fn perform_around_by_board(
        &self,
        neighbourhood: &Neighbourhood,
        surround: Surround<'_>,
        input: Payload<'static>,
        output: &mut UserMemory,
    ) -> Option<Result<()>> {
        if self.size() != 2 {
            return None;
        }
        let facing = Facing::of(neighbourhood, surround);
        let longest = facing.gives.max(facing.gets);
        let is_entry = (1..=Board::PAYLOAD_BYTES_MAX).contains(&longest);
        // What goes one way is not put together.
        let goes_both_ways = facing.gives > 0 && facing.gets > 0;
        let is_piece = goes_both_ways && !is_entry && longest <= PIECE_BYTES_MIN;
        if !is_entry && !is_piece {
            return None;
        }
        let visit = self.visit(facing.flow(), longest)?;
        Some(visit.and_then(|mut visit| match is_piece {
            true => visit.exchange_around_in_pieces(&facing, input, output),
            false => visit.exchange_around(&facing, input, output),
        }))
    }
}

impl Visit<'_> {
    fn exchange_around(
        &mut self,
        facing: &Facing<'_>,
        input: Payload<'_>,
        output: &mut UserMemory,
    ) -> Result<()> {
        let (here, other) = (facing.neighbourhood.here, Rank(1 - facing.neighbourhood.here.0));
        if facing.gives > 0 {
            self.await_room(Board::DEPTH)?;
            let mut at = 0;
            for Block { offset, bytes } in facing.given_to(other) {
                self.board().fill(self.number, at, input.part(offset, bytes));
                at += bytes;
            }
            self.board().post(self.number, facing.gives);
            self.board().wake();
        }
        let kept = self.keep_own(facing, input, output);
        if facing.gets > 0 {
            let gets = facing.gets;
            self.hear(other, &|from| (from == other).then_some(gets))?;
            self.board()
                .read_either(other.0, self.number, gets, |entry| facing.deliver(other, entry, output));
            self.turn.course.heard_all();
        }
        kept.map_err(|mismatch| self.of.collective_receive_failed(here, mismatch))
    }

    /// The same of what is too long for an entry; it is one piece.
    fn exchange_around_in_pieces(
        &mut self,
        facing: &Facing<'_>,
        input: Payload<'_>,
        output: &mut UserMemory,
    ) -> Result<()> {
        let (here, other) = (facing.neighbourhood.here, Rank(1 - facing.neighbourhood.here.0));
        let room = self.turn.room.take().unwrap_or_else(|| Heap::new(ROOM_BYTES));
        let (mut sent, mut at) = (room.memory(), 0);
        for Block { offset, bytes } in facing.given_to(other) {
            at += sent.write_at(at, input.part(offset, bytes));
        }
        let lengths = Lengths { gives: facing.gives, gets: facing.gets, element_bytes: 1 };
        let passed =
            self.pass(lengths, giving(&sent).part(0, at), &mut |_, data| facing.deliver(other, data, output));
        self.turn.room = Some(room);
        passed?;
        let kept = self.keep_own(facing, input, output);
        kept.map_err(|mismatch| self.of.collective_receive_failed(here, mismatch))
    }

    /// What a member gives to itself goes to its place.
    fn keep_own(
        &self,
        facing: &Facing<'_>,
        input: Payload<'_>,
        output: &mut UserMemory,
    ) -> std::result::Result<(), Cause> {
        let here = facing.neighbourhood.here;
        let mut given = facing.given_to(here);
        for Block { offset, bytes } in facing.gotten_from(here) {
            let from = given.next().unwrap_or(Block::NOTHING);
            if from.bytes != bytes {
                return Err(Cause::Mismatch { sent_bytes: from.bytes, expected_bytes: bytes });
            }
            output.write_at(offset, input.part(from.offset, bytes));
        }
        Ok(())
    }
}
