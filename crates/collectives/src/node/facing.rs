//! Exchanges between the neighbours of a topology that has two members: all that one of them has for the other stands in one entry, or is
//! one piece, one block behind the other.
//!
//! Both know how much that is, each way, however the blocks stand in the program's memory and whatever lengths they have, so they
//! decide alike whether it goes so.

use fabric::slots::{DEPTH, SLOT_BYTES_MAX, Slots};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

use super::pieces::{Lengths, PIECE_BYTES_MIN};
use super::plan::ROOM_BYTES;
use super::turn::Flow;
use super::{Fault, Member, Result, Visit};
use crate::memory::reading;
use crate::{Block, Neighbourhood, Surround};

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
}

/// An exchange of neighbours in a topology of two members that goes through the segment: in a slot or one chunk each way.
pub struct Around<'a> {
    facing: Facing<'a>,
    is_chunk: bool,
}

impl<'a> Around<'a> {
    /// This member's part in the exchange; `None` where it goes by messages. Both members decide alike.
    #[must_use]
    pub fn of(neighbourhood: &'a Neighbourhood, surround: Surround<'a>) -> Option<Around<'a>> {
        let facing = Facing::of(neighbourhood, surround);
        let longest = facing.gives.max(facing.gets);
        let is_entry = (1..=SLOT_BYTES_MAX).contains(&longest);
        // What goes one way is not put together.
        let goes_both_ways = facing.gives > 0 && facing.gets > 0;
        let is_chunk = goes_both_ways && !is_entry && longest <= PIECE_BYTES_MIN;
        (is_entry || is_chunk).then_some(Around { facing, is_chunk })
    }

    /// Which way data flows, and how many bytes one way at most.
    #[must_use]
    pub fn flow(&self) -> (Flow, usize) {
        let Facing { gives, gets, .. } = self.facing;
        (Flow { gives: gives > 0, gets: gets > 0 }, gives.max(gets))
    }
}

impl<M: Member> Visit<'_, M> {
    /// Exchanges blocks with the neighbours.
    ///
    /// # Errors
    /// When the peer has failed, or sends what does not fit.
    pub fn carry_around(
        &mut self,
        around: &Around<'_>,
        input: Payload<'static>,
        output: &mut UserMemory,
    ) -> Result<()> {
        match around.is_chunk {
            true => self.exchange_around_in_pieces(&around.facing, input, output),
            false => self.exchange_around(&around.facing, input, output),
        }
    }
}

impl<M: Member> Visit<'_, M> {
    fn exchange_around(
        &mut self,
        facing: &Facing<'_>,
        input: Payload<'_>,
        output: &mut UserMemory,
    ) -> Result<()> {
        let (here, other) = (facing.neighbourhood.here, Rank(1 - facing.neighbourhood.here.0));
        if facing.gives > 0 {
            self.await_room(DEPTH)?;
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
            self.turn.credit.heard_all();
        }
        kept.map_err(|[sent_bytes, expected_bytes]| Fault::mismatch(here, sent_bytes, expected_bytes))
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
        let passed = self
            .pass(lengths, reading(&sent).part(0, at), &mut |_, data| facing.deliver(other, data, output));
        self.turn.room = Some(room);
        passed?;
        let kept = self.keep_own(facing, input, output);
        kept.map_err(|[sent_bytes, expected_bytes]| Fault::mismatch(here, sent_bytes, expected_bytes))
    }

    /// What a member gives to itself goes to its place.
    fn keep_own(
        &self,
        facing: &Facing<'_>,
        input: Payload<'_>,
        output: &mut UserMemory,
    ) -> std::result::Result<(), [usize; 2]> {
        let here = facing.neighbourhood.here;
        let mut given = facing.given_to(here);
        for Block { offset, bytes } in facing.gotten_from(here) {
            let from = given.next().unwrap_or(Block::NOTHING);
            if from.bytes != bytes {
                return Err([from.bytes, bytes]);
            }
            output.write_at(offset, input.part(from.offset, bytes));
        }
        Ok(())
    }
}
