//! What each of several members gives all others in one line: the usual case of a barrier and of sums of few bytes among more than
//! two. The same entries as [`Visit::carry_out`] writes and reads, with less around them.

use fabric::Payload;
use messaging::Rank;

use super::plan::others;
use super::{Communicator, Visit, is_turn_due};
use crate::error::Result;
use crate::fabrics::Board;

impl Communicator {
    /// Gives all other members the same few bytes, as the next collective operation, and hands over those of each other one in turn,
    /// which are as many. `None`: nothing has happened, and [`Communicator::perform`] knows what to do.
    ///
    /// # Errors
    /// As [`Communicator::run`].
    #[inline]
    pub fn share(&self, give: Payload<'_>, take: impl FnMut(Rank, Payload<'_>)) -> Option<Result<()>> {
        let bulletin = self.bulletin()?;
        let are_several = (3..=Board::MEMBERS_MAX).contains(&bulletin.board.members());
        if !are_several || give.bytes() > Board::LINE_BYTES_MAX || self.inner.standing.is_closed() {
            return None;
        }
        let mut turn = bulletin.turn.try_hold()?;
        let number = turn.course.next();
        let is_usual = !turn.has_left && !is_turn_due(number) && turn.course.has_room(number);
        if !is_usual || self.inner.process.is_busy_beside() {
            return None;
        }
        turn.course.begin();
        let mut visit = Visit { of: self, bulletin, number, turn };
        Some(self.counted(visit.share(give, take)))
    }
}

impl Visit<'_> {
    #[inline]
    fn share(&mut self, give: Payload<'_>, mut take: impl FnMut(Rank, Payload<'_>)) -> Result<()> {
        let (board, number, bytes) = (&self.bulletin.board, self.number, give.bytes());
        board.put(number, [give, Payload::EMPTY]);
        board.wake();
        for from in others(self.of.inner.rank, board.members()) {
            let fits = || board.announced(from.0, number) == [bytes as u32, 0];
            if !(board.has(from.0, number) && fits()) {
                self.hear(from, &|_| Some(bytes))?;
            }
            board.read(from.0, number, bytes, |data| take(from, data));
        }
        self.turn.course.heard_all();
        Ok(())
    }
}
