//! Swaps on a board of two: what each gives the other stands in an entry, or in a tray, and nothing is waited for but that. The
//! shortest way of all, of which every step counts (decisions/0063).

use fabric::{Payload, Peer, Room};
use job::error::Result;
use job::fabrics::{Board, Course, Pair, Ring};
use messaging::Rank;

use super::pieces::{ENTRY_BYTES_MAX, PIECE_BYTES_MIN, is_whole};
use super::turn::{Flow, Turn};
use super::{Bulletin, Swapped, Visit, is_turn_due};
use crate::communicator::Communicator;
use crate::communicator::ongoing::{Ongoing, Undertaking};
use crate::communicator::swap::{By, Swapping, longest_bytes};

impl Communicator {
    /// Gives the other of two members something, and gets something, as the next operation on the board, or as a message. `None`:
    /// nothing has happened, and [`Communicator::perform`] knows what to do. What is not over at once is `left`.
    #[inline(always)]
    pub(in crate::communicator) fn swap_by_board(
        &self,
        bulletin: &Bulletin,
        peer: Peer,
        give: Option<Payload<'static>>,
        get: Option<Room>,
        left: &mut Option<Swapping>,
    ) -> Option<()> {
        let longest = longest_bytes(give.as_ref(), get.as_ref());
        let is_some = longest > 0;
        let flow = Flow { gives: is_some && give.is_some(), gets: is_some && get.is_some() };
        if longest <= Board::LINE_BYTES_MAX {
            return self.swap_by_lines(bulletin, flow, give, get, left);
        }
        let process = &self.inner.process;
        let mut turn = bulletin.turn.try_hold()?;
        let number = turn.course.next();
        let gives = give.map_or(0, |payload| payload.bytes());
        if turn.has_left {
            return None;
        }
        if turn.is_message(flow, longest) {
            drop(turn);
            return self.swap_by_messages(peer, give, get, false, left);
        }
        let is_piece = longest > ENTRY_BYTES_MAX && !flow.goes_on_behind(turn.last);
        // As much as is one piece in any case: so whoever goes the general way has it in one, too.
        let is_short = longest <= if is_piece { PIECE_BYTES_MIN } else { Board::PAYLOAD_BYTES_MAX };
        let ahead = if is_piece { bulletin.board.pieces_round(Ring::Short) } else { Board::DEPTH };
        let can_give = || !is_piece || !turn.owes_renewal && bulletin.board.can_give_pieces(Ring::Short);
        let has_room = give.is_none() || can_give() && turn.course.has_room_behind(number, ahead);
        if process.is_busy_beside() || !is_short {
            return None;
        }
        if !has_room && (is_piece || !self.soon_has_room(bulletin, &mut turn, number)) {
            return None;
        }
        if is_turn_due(number) && !self.makes_turn(&turn) {
            return None;
        }
        turn.course.begin();
        turn.note(flow);
        if let Some(payload) = give {
            bulletin.give_whole(number, [payload, Payload::EMPTY], is_piece);
            bulletin.board.wake();
        }
        let next = number.wrapping_add(1);
        let Some(room) = get else {
            bulletin.leave(number);
            if turn.course.has_room(next) {
                bulletin.board.make_ready(next, gives);
            }
            return Some(());
        };
        let other = 1 - self.inner.rank.0;
        if give.is_none() {
            bulletin.board.look_ahead(other, next, room.bytes());
        }
        // An entry that is not as long as it was to be is seen again, and told, by who waits for it.
        let in_entry = if is_piece { 0 } else { room.bytes() };
        let is_there = process.is_at_once(|| bulletin.board.has_all(other, number, in_entry))
            && bulletin.take(&mut turn.course, other, room);
        if !is_there {
            *left = self.swapping(By::Board(number), Swapped::Awaited);
        }
        Some(())
    }

    /// Begins an operation in which this one of two members gives something, or gets as many bytes as there is room for, and which is over
    /// then: it only gives, or the other's entry is there within a few looks. As [`Next::begin`](super::beside::Next) has it, it stands in an entry. `None`: nothing has happened.
    #[must_use]
    pub fn swap_if_there(&self, give: Option<Payload<'static>>, get: Option<Room>) -> Option<()> {
        let (inner, bulletin) = (&*self.inner, self.bulletin()?);
        let longest = longest_bytes(give.as_ref(), get.as_ref());
        let is_usual = inner.standing.pair().is_some() && longest <= Board::PAYLOAD_BYTES_MAX;
        if !is_usual || inner.process.is_busy_beside() {
            return None;
        }
        let mut turn = bulletin.turn.try_hold()?;
        let (number, board, other) = (turn.course.next(), &bulletin.board, 1 - inner.rank.0);
        let has_room = give.is_none() || bulletin.finds_room(&mut turn.course, number, [Rank(other)]);
        if turn.has_left || is_turn_due(number) || !has_room {
            return None;
        }
        let is_there = |bytes: usize| {
            let told = [bytes as u32, 0];
            inner.process.is_there_now(|| board.has(other, number) && board.announced(other, number) == told)
        };
        if !get.as_ref().is_none_or(|room| is_there(room.bytes())) {
            return None;
        }
        // The other one may have begun it before, and look at what this one gives when it likes.
        if give.is_some() {
            turn.course.begin_beside();
        } else {
            turn.course.begin();
        }
        let is_some = longest > 0;
        turn.note(Flow { gives: is_some && give.is_some(), gets: is_some && get.is_some() });
        if let Some(payload) = give {
            board.put(number, [payload, Payload::EMPTY]);
            board.wake();
        }
        match get {
            Some(room) => {
                let is_taken = bulletin.take(&mut turn.course, other, room);
                debug_assert!(is_taken, "it was there, and as long as the room");
            }
            None => bulletin.leave(number),
        }
        inner.completed.one_begun();
        Some(())
    }

    /// Begins an exchange in which this one of two members gives something, and gets as many bytes as there is room for. If the other's is there
    /// within a few looks it is over, and the answer has nothing; else what is exchanged goes on by itself, as `described`. `None`:
    /// nothing has happened.
    #[must_use]
    pub fn begin_swap(
        &self,
        give: Payload<'static>,
        get: Room,
        described: impl FnOnce() -> Undertaking,
    ) -> Option<Option<Ongoing>> {
        let (inner, bulletin) = (&*self.inner, self.bulletin()?);
        let longest = give.bytes().max(get.bytes());
        if inner.standing.pair().is_none() || longest > Board::PAYLOAD_BYTES_MAX {
            return None;
        }
        let mut turn = bulletin.turn.try_hold()?;
        if turn.has_left {
            return None;
        }
        self.prepare_to_begin(bulletin, &mut turn)?;
        let (board, other) = (&bulletin.board, 1 - inner.rank.0);
        // The other one looks at it when it likes.
        let number = turn.course.begin_beside();
        turn.note(Flow { gives: longest > 0, gets: longest > 0 });
        let is_given = bulletin.finds_room(&mut turn.course, number, [Rank(other)]);
        if is_given {
            board.put(number, [give, Payload::EMPTY]);
            board.wake();
        }
        let is_over = is_given
            && !inner.process.is_busy_beside()
            && inner.process.is_there_now(|| board.has_all(other, number, get.bytes()))
            && bulletin.take(&mut turn.course, other, get);
        if is_over {
            inner.completed.one_begun();
            return Some(None);
        }
        let part = self.part_in_exchange(bulletin, number, is_given, described());
        // Whoever holds the engine may want it.
        drop(turn);
        Some(Some(self.let_go_on(part)))
    }

    /// The same for what stands in one line: it is no piece, and never goes by a message.
    #[inline(always)]
    fn swap_by_lines(
        &self,
        bulletin: &Bulletin,
        flow: Flow,
        give: Option<Payload<'static>>,
        get: Option<Room>,
        left: &mut Option<Swapping>,
    ) -> Option<()> {
        let (process, board) = (&self.inner.process, bulletin.board.pair()?);
        let mut turn = bulletin.turn.try_hold()?;
        let number = turn.course.next();
        if turn.has_left || process.is_busy_beside() {
            return None;
        }
        if give.is_some() && !turn.course.has_room(number) && !self.soon_has_room(bulletin, &mut turn, number)
        {
            return None;
        }
        if is_turn_due(number) && !self.makes_turn(&turn) {
            return None;
        }
        // Shown as early as can be: the rest is done while the line is on its way.
        if let Some(payload) = give {
            board.put(number, payload);
            bulletin.wake(board);
        }
        turn.course.begin();
        turn.note(flow);
        let Some(room) = get else {
            bulletin.leave_pair(board, number);
            let next = number.wrapping_add(1);
            if turn.course.has_room(next) {
                bulletin.board.make_ready(next, 0);
            }
            return Some(());
        };
        if give.is_none() {
            bulletin.board.look_ahead(1 - self.inner.rank.0, number.wrapping_add(1), 0);
        }
        for _ in 0..process.looks_at_line() {
            // An entry that is not as long as it was to be is seen again, and told, by who waits for it.
            match board.entry(number) {
                None => process.rest_before_line(),
                Some(told) if told != [room.bytes() as u32, 0] => break,
                Some(_) => {
                    let _ = board.read(number, room.bytes(), |data| room.take(data));
                    turn.course.heard_all();
                    bulletin.leave_pair(board, number);
                    return Some(());
                }
            }
        }
        *left = self.swapping(By::Board(number), Swapped::Awaited);
        Some(())
    }

    /// Whether the other of two members is through with the entry whose place that of this number takes. It takes what this one gives ahead of
    /// it, and each look takes from it the line in which it says how far it is: so a few looks wait until half of all entries are free.
    #[cold]
    #[inline(never)]
    fn soon_has_room(&self, bulletin: &Bulletin, turn: &mut Turn, number: u32) -> bool {
        let other = Rank(1 - self.inner.rank.0);
        let mut has_room = |number| bulletin.finds_room(&mut turn.course, number, [other]);
        let half = number.wrapping_add(Board::DEPTH / 2);
        self.inner.process.is_at_once(|| has_room(half)) || has_room(number)
    }

    /// Makes the turn of progress that is due before the operation of that number; false where there is more to do.
    #[cold]
    fn makes_turn(&self, turn: &Turn) -> bool {
        let is_all = !turn.owes_renewal && !Course::is_renewal_due(turn.course.next());
        if is_all {
            self.inner.process.progress();
        }
        is_all
    }

    /// Waits for the rest of a swap by the board.
    pub(in crate::communicator) fn finish_swap_by_board(&self, number: u32, room: Room) -> Result<()> {
        let bulletin = self.inner.bulletin.get().and_then(|founded| founded.as_ref().ok()?.as_deref());
        let bulletin = bulletin.expect("a swap was begun on it");
        // What came may be gone when another thread has begun another operation meanwhile.
        let turn = bulletin.turn.try_hold().filter(|turn| turn.course.number() == number);
        let Some(turn) = turn else { return Err(self.lost_turn(bulletin)) };
        let mut visit = Visit { of: self, bulletin, turn, number };
        let other = Rank(1 - self.rank().0);
        visit.hear(other, &|_| Some(room.bytes()))?;
        bulletin.board.read_either(other.0, number, room.bytes(), |data| room.memory().write_at(0, data));
        visit.turn.course.heard_all();
        Ok(())
    }
}

impl Bulletin {
    /// Takes the other member's entry, which is there, and leaves; false where it is not as long as it was to be, and nothing has
    /// happened.
    #[inline(always)]
    fn take(&self, course: &mut Course, other: u32, room: Room) -> bool {
        let number = course.number();
        let bytes = room.bytes();
        let is_fit = is_whole(self.board.announced(other, number), bytes);
        let is_taken = is_fit && self.board.read_either(other, number, bytes, |data| room.take(data));
        if is_taken {
            course.heard_all();
            self.leave(number);
        }
        is_taken
    }

    /// Writes this member's entry, or gives its only piece.
    #[inline(always)]
    pub(super) fn give_whole(&self, number: u32, parts: [Payload<'_>; 2], is_piece: bool) {
        if is_piece {
            let bytes = parts[0].bytes() + parts[1].bytes();
            self.board.give_piece((Ring::Short, number), [bytes as u32, 1], parts);
        } else {
            self.board.put(number, parts);
        }
    }

    /// Wakes the other of two members, if it may sleep.
    #[inline(always)]
    fn wake(&self, board: &Pair) {
        if board.is_awaited() {
            self.board.wake_sleepers();
        }
    }

    /// As [`Bulletin::leave`].
    #[inline(always)]
    fn leave_pair(&self, board: &Pair, number: u32) {
        if self.begun.is_busy() {
            self.begun.left(&self.board, number);
        } else {
            board.pass(number);
        }
        self.wake(board);
    }
}
