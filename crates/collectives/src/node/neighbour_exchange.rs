//! Exchanges between the neighbours of a topology that has two members: all that one of them has for the
//! other stands in one slot, or is one chunk, one block behind the other.
//!
//! Both know how much that is, each way, however the blocks stand in the program's memory and whatever
//! lengths they have, so they decide alike whether it goes so.

use fabric::slots::{DEPTH, SLOT_BYTES_MAX, Slots};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

use super::chunking::{CHUNK_BYTES_MIN, TransferLengths};
use super::plan::ROOM_BYTES;
use super::segment_state::Flow;
use super::{Fault, Result, SegmentMember, SegmentOperation};
use crate::memory::reading;
use crate::{Block, Neighbourhood, Surround};

/// One member's part in an exchange of neighbours, in a topology of two members, that goes through the
/// segment: in a slot or one chunk each way.
pub struct NeighbourExchange<'a> {
    neighbourhood: &'a Neighbourhood,
    surround: Surround<'a>,
    /// How many bytes it gives to the other, and gets from it.
    gives: usize,
    gets: usize,
}

impl<'a> NeighbourExchange<'a> {
    /// This member's part in the exchange; `None` where it goes by messages. Both members decide alike.
    #[must_use]
    pub fn of(neighbourhood: &'a Neighbourhood, surround: Surround<'a>) -> Option<NeighbourExchange<'a>> {
        let mut around = NeighbourExchange { neighbourhood, surround, gives: 0, gets: 0 };
        let total = |blocks: &mut dyn Iterator<Item = Block>| blocks.map(|block| block.bytes).sum();
        let other = Rank(1 - neighbourhood.here.0);
        (around.gives, around.gets) =
            (total(&mut around.given_to(other)), total(&mut around.gotten_from(other)));
        // What goes one way is not put together.
        let goes_both_ways = around.gives > 0 && around.gets > 0;
        let most = if goes_both_ways { CHUNK_BYTES_MIN } else { SLOT_BYTES_MAX };
        (1..=most).contains(&around.longest()).then_some(around)
    }

    /// Which way data flows, and how many bytes one way at most.
    #[must_use]
    pub fn flow(&self) -> (Flow, usize) {
        (Flow { gives: self.gives > 0, gets: self.gets > 0 }, self.longest())
    }

    fn longest(&self) -> usize {
        self.gives.max(self.gets)
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

impl<M: SegmentMember> SegmentOperation<'_, M> {
    /// Exchanges blocks with the neighbours.
    ///
    /// # Errors
    /// When the peer has failed, or sends what does not fit.
    pub fn carry_around(
        &mut self,
        around: &NeighbourExchange<'_>,
        input: Payload<'static>,
        output: &mut UserMemory,
    ) -> Result<()> {
        match around.longest() > SLOT_BYTES_MAX {
            true => self.exchange_around_in_chunks(around, input, output),
            false => self.exchange_around(around, input, output),
        }
    }

    fn exchange_around(
        &mut self,
        around: &NeighbourExchange<'_>,
        input: Payload<'_>,
        output: &mut UserMemory,
    ) -> Result<()> {
        let (here, other) = (around.neighbourhood.here, Rank(1 - around.neighbourhood.here.0));
        if around.gives > 0 {
            self.await_room(DEPTH)?;
            let mut at = 0;
            for Block { offset, bytes } in around.given_to(other) {
                self.segment().fill(self.number, at, input.part(offset, bytes));
                at += bytes;
            }
            self.segment().post(self.number, around.gives);
            self.segment().wake();
        }
        let kept = self.keep_own(around, input, output);
        if around.gets > 0 {
            let gets = around.gets;
            self.hear(other, gets, &|from| (from == other).then_some(gets))?;
            self.segment()
                .read_either(other.0, self.number, gets, |entry| around.deliver(other, entry, output));
            self.turn.credit.heard_all();
        }
        kept.map_err(|[sent_bytes, expected_bytes]| Fault::mismatch(here, sent_bytes, expected_bytes))
    }

    /// Exchanges blocks that are too long for a slot, in one chunk each way.
    fn exchange_around_in_chunks(
        &mut self,
        around: &NeighbourExchange<'_>,
        input: Payload<'_>,
        output: &mut UserMemory,
    ) -> Result<()> {
        let (here, other) = (around.neighbourhood.here, Rank(1 - around.neighbourhood.here.0));
        let room = self.turn.room.take().unwrap_or_else(|| Heap::new(ROOM_BYTES));
        let (mut sent, mut at) = (room.memory(), 0);
        for Block { offset, bytes } in around.given_to(other) {
            at += sent.write_at(at, input.part(offset, bytes));
        }
        let lengths = TransferLengths { gives: around.gives, gets: around.gets, element_bytes: 1 };
        let passed = self
            .pass(lengths, reading(&sent).part(0, at), &mut |_, data| around.deliver(other, data, output));
        self.turn.room = Some(room);
        passed?;
        let kept = self.keep_own(around, input, output);
        kept.map_err(|[sent_bytes, expected_bytes]| Fault::mismatch(here, sent_bytes, expected_bytes))
    }

    /// What a member gives to itself goes to its place.
    fn keep_own(
        &self,
        around: &NeighbourExchange<'_>,
        input: Payload<'_>,
        output: &mut UserMemory,
    ) -> std::result::Result<(), [usize; 2]> {
        let here = around.neighbourhood.here;
        let mut given = around.given_to(here);
        for Block { offset, bytes } in around.gotten_from(here) {
            let from = given.next().unwrap_or(Block::NOTHING);
            if from.bytes != bytes {
                return Err([from.bytes, bytes]);
            }
            output.write_at(offset, input.part(from.offset, bytes));
        }
        Ok(())
    }
}
