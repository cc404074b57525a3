//! What one or each of several members gives all others in one entry: the usual case of a barrier, a broadcast, an allgather, and of sums of
//! few bytes among more than two. The same entries as [`Visit::carry_out`] writes and reads, with less around them.

use fabric::Payload;
use job::error::Result;
use job::fabrics::Board;
use messaging::Rank;

use super::plan::others;
use super::{Communicator, Visit, is_turn_due};

/// What a member gives and hears of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Share<'a> {
    /// All give, and hear all others, which give as many bytes.
    OfAll(Payload<'a>),
    /// It gives all others something, and hears nothing.
    Given(Payload<'a>),
    /// It hears so many bytes of that member.
    Of(Rank, usize),
}

impl<'a> Share<'a> {
    #[inline(always)]
    fn given(self) -> Option<Payload<'a>> {
        match self {
            Share::OfAll(payload) | Share::Given(payload) => Some(payload),
            Share::Of(..) => None,
        }
    }
}

impl Communicator {
    /// Does this member's part in the next collective operation, of few bytes, and hands over what each other member that it hears
    /// has given, one after the other. `None`: nothing has happened, and [`Communicator::perform`] knows what to do.
    ///
    /// # Errors
    /// As [`Communicator::run`].
    #[inline]
    pub fn share(&self, share: Share<'_>, take: impl FnMut(Rank, Payload<'_>)) -> Option<Result<()>> {
        let bulletin = self.bulletin()?;
        let members = bulletin.board.members();
        let (is_rank, bytes) = match share {
            Share::OfAll(give) | Share::Given(give) => (true, give.bytes()),
            Share::Of(from, bytes) => (from.0 < members && from != self.inner.rank, bytes),
        };
        let are_several = (3..=Board::MEMBERS_MAX).contains(&members);
        let is_closed = self.inner.standing.is_closed();
        if !are_several || !is_rank || bytes > Board::PAYLOAD_BYTES_MAX || is_closed {
            return None;
        }
        let mut turn = bulletin.turn.try_hold()?;
        let number = turn.course.next();
        if turn.has_left || is_turn_due(number) || self.inner.process.is_busy_beside() {
            return None;
        }
        let others = others(self.inner.rank, members);
        if share.given().is_some() && !bulletin.finds_room(&mut turn.course, number, others) {
            return None;
        }
        turn.course.begin();
        let mut visit = Visit { of: self, bulletin, number, turn };
        Some(self.counted(visit.share(share, take)))
    }
}

impl Visit<'_> {
    #[inline]
    fn share(&mut self, share: Share<'_>, mut take: impl FnMut(Rank, Payload<'_>)) -> Result<()> {
        let board = &self.bulletin.board;
        if let Some(give) = share.given() {
            board.put(self.number, [give, Payload::EMPTY]);
            board.wake();
        }
        match share {
            Share::OfAll(give) => {
                for from in others(self.of.inner.rank, board.members()) {
                    self.hear_share(from, give.bytes(), &|_| true, &mut take)?;
                }
                self.turn.course.heard_all();
            }
            Share::Given(_) => {}
            Share::Of(from, bytes) => {
                self.hear_share(from, bytes, &|other| other == from, &mut take)?;
                self.turn.course.heard_one();
            }
        }
        Ok(())
    }

    /// Hears one that gives, and says which others do.
    #[inline]
    fn hear_share(
        &mut self,
        from: Rank,
        bytes: usize,
        gives: &dyn Fn(Rank) -> bool,
        take: &mut impl FnMut(Rank, Payload<'_>),
    ) -> Result<()> {
        let (board, number) = (&self.bulletin.board, self.number);
        if !(board.has(from.0, number) && board.announced(from.0, number) == [bytes as u32, 0]) {
            self.hear(from, &|other| gives(other).then_some(bytes))?;
        }
        board.read(from.0, number, bytes, |data| take(from, data));
        Ok(())
    }
}
