//! Collective operations of few bytes among members that share a node's memory: each writes a line on a board, and reads
//! the others' (decisions/0029). No message goes.
//!
//! What decides that an operation goes this way is the same at all members: which one it is and how long, where they sit, and
//! whether a board was to be had, of which rank 0 tells the others once.

mod beside;
mod elsewhere;
mod facing;
mod of_two;
mod pairs;
mod passage;
mod pieces;
#[cfg(test)]
mod pieces_tests;
mod plan;
#[cfg(test)]
mod reads_tests;
mod several;
#[cfg(test)]
mod sums_tests;
#[cfg(test)]
mod switches_tests;
mod trials;
mod turn;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use collectives::{Activity, Block, Buffers, Cause, Collective, Cores, Failed, Listed, judge};
use fabric::{Heap, Payload, UserMemory};
use job::error::{Class, Error, Result};
use job::fabrics::{Board, Boards, Course, Ring, is_before};
use job::lock::{Guard, Lock, Threads};
use messaging::{Envelope, Failures, Mode, Pattern, Rank, Sending, Standing};

use self::beside::Begun;
use self::elsewhere::Stage;
pub(super) use self::elsewhere::Watch;
use self::pairs::Pairs;
use self::pieces::{Carried, is_whole};
use self::plan::{Hears, Plan, ROOM_BYTES, Sum, Then, others};
use self::turn::{Flow, Turn};
use super::Communicator;
use super::combining::Combining;
use crate::memory::{giving, reading, writing};
use crate::process::WaitsFor;
use crate::recent::Kind;

/// A board, and how far this member is on it.
pub(super) struct Bulletin {
    board: Board,
    /// Who has failed of the members.
    failures: Failures,
    standing: Arc<Standing>,
    /// Held by the thread that is in an operation.
    turn: Lock<Turn>,
    /// The operations that go on beside.
    begun: Begun,
    /// How many operations by messages were begun before there was a board; the same at all members.
    by_messages_before: u32,
}

/// What the founding of a board came to: none where there is none for this communicator, and an error where it is not known,
/// since rank 0 is lost.
pub(super) type Founded = Result<Option<Box<Bulletin>>>;

/// An operation on a board, of which this member is through with it when it is dropped.
struct Visit<'a> {
    of: &'a Communicator,
    bulletin: &'a Bulletin,
    turn: Guard<'a, Turn>,
    number: u32,
    /// Of two members: data goes from one to the other, one operation behind the other.
    goes_on_behind: bool,
}

impl Communicator {
    /// Does an operation on the board, if there is to be one and it fits. `None`: nothing has happened.
    pub(super) fn perform_by_board(
        &self,
        collective: Collective,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: Combining<'_>,
    ) -> Option<Result<()>> {
        self.perform_plan(self.plan(collective)?, input, output, combining)
    }

    /// Does what the plan says, where it fits, or goes in pieces.
    fn perform_plan(
        &self,
        plan: Plan<'_>,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: Combining<'_>,
    ) -> Option<Result<()>> {
        if !plan.is_one_round() {
            return self.perform_long_plan(plan, input, output, combining);
        }
        let visit = self.visit_at(plan.goes_up_tree(), plan.flow(), plan.longest_bytes())?;
        Some(visit.and_then(|mut visit| match plan.of_two() {
            Some(two) => visit.carry_of_two(two, input, output, combining),
            None => visit.carry_out(&plan, false, input, output, combining),
        }))
    }

    fn perform_long_plan(
        &self,
        plan: Plan<'_>,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: Combining<'_>,
    ) -> Option<Result<()>> {
        let flow = plan.flow();
        if let Some(Carried { lengths, passed_bytes, .. }) = self.goes_in_pieces(plan.in_pieces()) {
            let carry = |mut visit: Visit<'_>| visit.carry_pieces(&plan, lengths, input, output, combining);
            return Some(self.visit(flow, passed_bytes)?.and_then(carry));
        }
        if plan.goes_among_several() && self.shares_cores() {
            let visit = self.visit_at(matches!(plan.then, Then::Combined(_)), flow, 0)?;
            return Some(
                visit.and_then(|mut visit| visit.carry_among_several(&plan, input, output, combining)),
            );
        }
        if !plan.is_one_piece() || !self.shares_cores() {
            return None;
        }
        let visit = self.visit_at(plan.goes_up_tree(), flow, plan.longest_bytes())?;
        Some(visit.and_then(|mut visit| visit.carry_out(&plan, true, input, output, combining)))
    }

    /// Whether who waits for another gives a core away, so that one turn for all is better than several; the same at all.
    fn shares_cores(&self) -> bool {
        self.inner.process.cores() == Cores::Shared
    }

    /// What goes in pieces between two members, who both work at it; the same at both.
    #[inline]
    fn goes_in_pieces(&self, what: Option<Carried>) -> Option<Carried> {
        let is_quick = || self.process().guide().costs.copies_are_quick();
        what.filter(|carried| !carried.wants_quick || is_quick())
    }

    /// This member's part in an operation, if that goes by boards.
    #[inline(always)]
    fn plan(&self, collective: Collective) -> Option<Plan<'static>> {
        Plan::of(collective, self.inner.rank, self.size(), self.inner.process.cores())
    }

    /// The same with blocks that differ in length.
    #[inline]
    pub(super) fn perform_uneven_by_board(
        &self,
        listed: Listed<'_>,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: Combining<'_>,
    ) -> Option<Result<()>> {
        let (here, size) = (self.inner.rank, self.size());
        if let Some(pairs) = Pairs::of(listed, here, size) {
            if let Some(Carried { lengths, passed_bytes, .. }) = self.goes_in_pieces(pairs.in_pieces()) {
                let exchange = |mut visit: Visit<'_>| visit.exchange_pieces(&pairs, lengths, input, output);
                return Some(self.visit(pairs.flow(), passed_bytes)?.and_then(exchange));
            }
            // Of two members both know that nothing goes by an entry.
            if size == 2 && pairs.are_all_long() {
                return None;
            }
            let mut visit = match self.visit(pairs.flow(), pairs.passed_bytes())? {
                Ok(visit) => visit,
                Err(error) => return Some(Err(error)),
            };
            let exchanged = visit.exchange(&pairs, input, output);
            drop(visit);
            return Some(self.exchange_rest(exchanged, &pairs, input, output, combining));
        }
        let plan = Plan::listed(listed, here, size)?;
        self.perform_plan(plan, input, output, combining)
    }

    /// Exchanges the blocks that are too long for entries, as an operation of its own: of more than two members each counts it,
    /// whether it has such blocks or not; of two, both have them. Where a short block has not fitted, others wait for the long ones
    /// all the same.
    fn exchange_rest(
        &self,
        exchanged: Result<()>,
        pairs: &Pairs<'_>,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: Combining<'_>,
    ) -> Result<()> {
        let goes_on = exchanged.as_ref().err().is_none_or(|error| error.class == Class::Truncated);
        let Some(rest) = pairs.rest().filter(|_| goes_on) else {
            let is_given_up = exchanged.as_ref().is_err_and(|error| error.class == Class::NotSame);
            if self.size() > 2 || is_given_up {
                self.next_tag();
            }
            if is_given_up {
                self.say_last_given_up();
            }
            return exchanged;
        };
        let (listed, buffers) = (rest.listed(), Buffers { input, output: output.part(0, output.bytes()) });
        let new = || (Kind::listed(listed), listed.schedule(&self.shape()));
        exchanged.and(self.repeat(|kept| kept.is_listed(listed), new, buffers, combining))
    }

    /// Nothing is done in it any more: what it has kept for operations to come goes, unless somebody is within one.
    pub(super) fn put_away(&self) {
        if let Some(mut recent) = self.inner.recent.try_hold() {
            *recent = crate::recent::Recent::default();
        }
        if let Some(Ok(Some(bulletin))) = self.inner.bulletin.get() {
            bulletin.begun.no_more.store(true, Ordering::SeqCst);
            // Who holds it now leaves the board itself.
            if let Some(mut turn) = bulletin.turn.try_hold() {
                bulletin.end(&mut turn);
            }
        }
    }

    /// Begins the next operation on the board, if there is one; of two members, in which one of them gives so many bytes to the
    /// other. `None` also where that goes by a message.
    fn visit(&self, flow: Flow, bytes: usize) -> Option<Result<Visit<'_>>> {
        self.visit_at(false, flow, bytes)
    }

    /// The same; `at_once` where a board is to be had from the first operation on, so that sums are always made in one order.
    fn visit_at(&self, at_once: bool, flow: Flow, bytes: usize) -> Option<Result<Visit<'_>>> {
        // What has lost a member, or is revoked, says so by messages.
        if self.inner.standing.is_closed() {
            return None;
        }
        let founded = match self.inner.bulletin.get() {
            Some(known) => known,
            None => self.found_bulletin(at_once)?,
        };
        let bulletin = match founded {
            Ok(bulletin) => bulletin.as_deref()?,
            Err(lost) => return Some(Err(lost.clone())),
        };
        // One blocking operation is under way at a time (MPI 5.0 §6.14).
        let Some(turn) = bulletin.turn.try_hold() else { return self.turn_is_held(bulletin).map(Err) };
        let mut visit = self.visit_in(bulletin, turn, flow, bytes)?;
        Some(visit.begin().map(|()| visit))
    }

    /// The next operation on the board, about to begin; `None` where another thread is in one, or it goes by a message.
    #[inline(always)]
    fn enter_board<'a>(&'a self, bulletin: &'a Bulletin, flow: Flow, bytes: usize) -> Option<Visit<'a>> {
        self.visit_in(bulletin, bulletin.turn.try_hold()?, flow, bytes)
    }

    /// The same for the thread that holds the turn.
    #[inline(always)]
    fn visit_in<'a>(
        &'a self,
        bulletin: &'a Bulletin,
        mut turn: Guard<'a, Turn>,
        flow: Flow,
        bytes: usize,
    ) -> Option<Visit<'a>> {
        if turn.has_left || turn.is_message(flow, bytes) {
            return None;
        }
        let goes_on_behind = flow.goes_on_behind(turn.last);
        turn.note(flow);
        Some(Visit { of: self, bulletin, number: turn.course.next(), turn, goes_on_behind })
    }

    /// Another thread is in an operation, which is an error; or it takes the board away, and what there is to do goes by messages.
    #[cold]
    pub(super) fn turn_is_held(&self, bulletin: &Bulletin) -> Option<Error> {
        (!bulletin.begun.no_more.load(Ordering::SeqCst)).then(|| self.two_at_once())
    }

    /// What came from a member is not what was to come.
    #[cold]
    fn collective_receive_failed(&self, with: Rank, cause: Cause) -> Error {
        self.told(&Failed { with, activity: Activity::Receiving, cause })
    }

    /// Several threads call collective operations of one communicator at the same time.
    #[cold]
    fn two_at_once(&self) -> Error {
        let what =
            format!("{}: another thread is in a collective operation of this communicator", self.place());
        Error::new(Class::Other, what).remedy(
            "call its collective operations from one thread at a time, or give each thread a duplicate",
        )
    }

    /// The board, if there is to be one: rank 0 takes one and tells the others, when a few operations that could have gone
    /// by it have shown that it is worth its memory.
    #[cold]
    fn found_bulletin(&self, at_once: bool) -> Option<&Founded> {
        let inner = &*self.inner;
        if !self.may_have_board() {
            return Some(inner.bulletin.get_or_init(|| Ok(None)));
        }
        if !at_once && inner.before_bulletin.fetch_add(1, Ordering::Relaxed) < OPERATIONS_BEFORE {
            return None;
        }
        Some(inner.bulletin.get_or_init(|| self.join_board()))
    }

    /// Whether a board serves; the same at all members.
    fn may_have_board(&self) -> bool {
        let process = self.process();
        (2..=Board::MEMBERS_MAX).contains(&self.size())
            && process.boards().is_some()
            && !process.guide().is_forced()
            && !process.checks()
            && self.is_on_one_node()
    }

    fn join_board(&self) -> Founded {
        let Some(boards) = self.process().boards() else { return Ok(None) };
        let number = self.agree_on_board(boards)?;
        let Some(board) = boards.join(number, self.rank().0, self.group().iter()) else { return Ok(None) };
        let threads = if self.process().is_shared() { Threads::Many } else { Threads::One };
        let (failures, standing) = (self.process().failures().clone(), Arc::clone(&self.inner.standing));
        let turn = Lock::new(threads, Turn::default());
        let (begun, by_messages_before) = (Begun::default(), self.by_messages_at_all());
        let bulletin = Bulletin { board, failures, standing, turn, begun, by_messages_before };
        Ok(Some(Box::new(bulletin)))
    }

    /// The number of the board that rank 0 has taken. It tells each member by a message of its own: whoever has died then, all
    /// who live know of the board, as long as rank 0 does; the operation itself tells of the lost one.
    fn agree_on_board(&self, boards: &Boards) -> Result<u32> {
        let (context, tag, source) = (self.collective_context(), self.next_tag(), Rank(0));
        if self.rank() != source {
            let mut number = [NO_BOARD];
            let (pattern, expected) =
                (Pattern { context, source: Some(source), tag: Some(tag) }, size_of_val(&number));
            let from = self.group().peer(source);
            let outcome = self.process().receive_awaited(pattern, from, writing(&mut number));
            judge(&outcome, source, Activity::Receiving, expected).map_err(|failed| self.told(&failed))?;
            return Ok(number[0]);
        }
        let number = [boards.found(self.size()).unwrap_or(NO_BOARD)];
        let tell = |to| {
            let sent =
                self.process().send(to, Envelope { context, source, tag }, reading(&number), Mode::Standard);
            if let Ok(Sending::Pending(request)) = sent { Some(request) } else { None }
        };
        let under_way: Vec<_> = self.group().iter().skip(1).filter_map(tell).collect();
        for request in under_way {
            self.wait(request);
        }
        Ok(number[0])
    }
}

impl Visit<'_> {
    /// The operation begins.
    #[inline(always)]
    fn begin(&mut self) -> Result<()> {
        self.turn.course.begin();
        if is_turn_due(self.number) { self.make_turn() } else { Ok(()) }
    }

    /// A turn of progress is due, and perhaps a renewal.
    #[cold]
    fn make_turn(&mut self) -> Result<()> {
        self.of.process().progress();
        if self.turn.owes_renewal || Course::is_renewal_due(self.number) {
            return self.renew();
        }
        Ok(())
    }

    #[cold]
    fn renew(&mut self) -> Result<()> {
        let last = self.number.wrapping_sub(1);
        self.await_all(|through| !is_before(through, last))?;
        self.turn.course.renewed();
        self.turn.owes_renewal = false;
        self.board().renew(self.number);
        Ok(())
    }

    /// Writes this member's entry, or gives its only piece, and reads what is for it.
    fn carry_out(
        &mut self,
        plan: &Plan<'_>,
        is_piece: bool,
        input: Payload<'_>,
        output: &mut UserMemory,
        combining: Combining<'_>,
    ) -> Result<()> {
        let contribution = if plan.is_loaded { giving(output) } else { input };
        let part = |Block { offset, bytes }| contribution.part(offset, bytes);
        // Shown as early as can be: the rest is done while the lines are on their way.
        if plan.gives {
            self.give(plan.entry().map(part), is_piece)?;
        }
        if let Some(place) = plan.kept() {
            output.write_at(place, part(plan.own()));
        }
        if plan.hears == Hears::Nobody {
            return Ok(());
        }
        if plan.gives {
            self.board().wake();
        }
        let owes = |rank: Rank| plan.writers().any(|from| from == rank).then(|| plan.heard(rank).0);
        plan.writers().try_for_each(|from| self.hear(from, &owes))?;
        match plan.hears {
            Hears::Others => self.turn.course.heard_all(),
            _ => self.turn.course.heard_one(),
        }
        self.bulletin.deliver(self.number, plan, part(plan.own()), (combining, &mut self.turn.room), output);
        Ok(())
    }

    /// Exchanges the blocks that go by entries; a member's own as well where these are all, since it is copied beside messages else.
    fn exchange(&mut self, pairs: &Pairs<'_>, input: Payload<'_>, output: &mut UserMemory) -> Result<()> {
        let contribution = if pairs.is_loaded() { giving(output) } else { input };
        if pairs.writes() {
            self.await_room(Board::DEPTH)?;
            pairs.write(self.board(), self.number, contribution);
            self.board().wake();
        }
        if let Some([own, place]) = pairs.kept().filter(|_| !pairs.has_long()) {
            output.write_at(place.offset, contribution.part(own.offset, own.bytes));
        }
        let mut heard = 0;
        for from in others(self.of.rank(), self.of.size()) {
            let Some(block) = pairs.heard(from) else { continue };
            let entry_bytes = pairs.entry_bytes(block.bytes);
            self.hear(from, &|from| pairs.heard(from).map(|block| pairs.entry_bytes(block.bytes)))?;
            let sent_bytes = self.board().read_either(from.0, self.number, entry_bytes, |entry| {
                let (sent_bytes, data) = pairs.find(from, entry);
                if sent_bytes == block.bytes {
                    output.write_at(block.offset, data);
                }
                sent_bytes
            });
            if sent_bytes != block.bytes {
                let mismatch = Cause::Mismatch { sent_bytes, expected_bytes: block.bytes };
                return Err(self.of.collective_receive_failed(from, mismatch));
            }
            heard += 1;
        }
        match heard {
            0 => {}
            all if all == self.of.size() - 1 => self.turn.course.heard_all(),
            _ => self.turn.course.heard_one(),
        }
        Ok(())
    }

    /// Writes this member's entry, or gives its only piece, when all members are through with what stood there.
    #[inline(always)]
    fn give(&mut self, parts: [Payload<'_>; 2], is_piece: bool) -> Result<()> {
        let ahead = if is_piece { self.board().pieces_round(Ring::Short) } else { Board::DEPTH };
        self.await_room(ahead)?;
        self.bulletin.give_whole(self.number, parts, is_piece);
        Ok(())
    }

    /// Waits until all members are through with what was written so many numbers before.
    #[inline(always)]
    fn await_room(&mut self, ahead: u32) -> Result<()> {
        let has_room = self.turn.course.has_room_behind(self.number, ahead);
        if has_room { Ok(()) } else { self.await_room_long(ahead) }
    }

    #[cold]
    fn await_room_long(&mut self, ahead: u32) -> Result<()> {
        // The other of two takes what this one gives ahead of it, and each look takes from it the line in which it says how far it is: so
        // a few looks wait until half of all entries are free.
        if self.of.size() == 2 && ahead == Board::DEPTH {
            let (bulletin, other) = (self.bulletin, Rank(1 - self.of.rank().0));
            let half = self.number.wrapping_add(Board::DEPTH / 2);
            let course = &mut self.turn.course;
            if self.of.process().is_at_once(|| bulletin.finds_room(course, half, [other])) {
                return Ok(());
            }
        }
        let before = self.number.wrapping_sub(ahead);
        let least = self.await_all(|through| !is_before(through, before))?;
        self.turn.course.all_through(least);
        Ok(())
    }

    /// Waits until all others are so far; the number that all are through with then.
    fn await_all(&self, so: impl Fn(u32) -> bool) -> Result<u32> {
        let mut least = self.number;
        for place in others(self.of.rank(), self.of.size()) {
            self.until(None, |board| so(board.through(place.0)))?;
            let through = self.board().through(place.0);
            if is_before(through, least) {
                least = through;
            }
        }
        Ok(least)
    }

    /// Waits for an entry. `owes` says who writes one, and how long it has to be.
    fn hear(&mut self, from: Rank, owes: &dyn Fn(Rank) -> Option<usize>) -> Result<()> {
        let expected_bytes = owes(from).unwrap_or(0);
        self.until(Some(owes), |board| board.has(from.0, self.number))?;
        if is_whole(self.board().announced(from.0, self.number), expected_bytes) {
            return Ok(());
        }
        Err(self.misfit(from, owes))
    }

    /// The error of an entry that is not what was to come. If it is one of [several pieces](pieces), this member goes past all
    /// of them, since their numbers count for all.
    #[cold]
    fn misfit(&mut self, from: Rank, owes: &dyn Fn(Rank) -> Option<usize>) -> Error {
        let [bytes, _] = self.board().announced(from.0, self.number);
        let (sent_bytes, expected_bytes) = (bytes as usize, owes(from).unwrap_or(0));
        // Who learns of a loss meanwhile says nothing of it: this is told already.
        let _ = self.pass_pieces(owes);
        self.turn.course.begin_up_to(self.number);
        match sent_bytes == expected_bytes {
            true if self.of.size() == 2 => self.of.expects_more(from, sent_bytes),
            true => self.of.is_elsewhere(from),
            false => self.of.misled(from, sent_bytes, expected_bytes),
        }
    }

    /// Goes on to the last number that any of the members has announced that are heard, and shows those who wait for all that this
    /// one is there.
    fn pass_pieces(&mut self, owes: &dyn Fn(Rank) -> Option<usize>) -> Result<()> {
        let (here, size) = (self.of.rank(), self.of.size());
        let (first, mut pieces, mut next) = (self.number, 1, 1);
        loop {
            for from in others(here, size).filter(|&from| owes(from).is_some()) {
                self.until(Some(owes), |board| board.has(from.0, self.number))?;
                let [_, theirs] = self.board().announced(from.0, self.number);
                pieces = pieces.max(pieces::told_pieces(theirs));
                next = pieces::following(theirs, self.number.wrapping_sub(first));
            }
            // Of a last round some numbers may have nothing.
            let is_last = next >= pieces;
            if is_last {
                self.number = first.wrapping_add(pieces - 1);
            }
            self.bulletin.leave(self.number);
            if is_last {
                return Ok(());
            }
            self.number = first.wrapping_add(next);
            if size > 2 {
                self.give([Payload::EMPTY; 2], false)?;
                self.board().wake();
            }
        }
    }

    /// Waits; an error where a member is lost, or where one that owes an entry of some length does another operation.
    #[inline(always)]
    fn until(&self, owes: Option<&dyn Fn(Rank) -> Option<usize>>, so: impl Fn(&Board) -> bool) -> Result<()> {
        if self.of.process().is_soon(|| so(self.board())) { Ok(()) } else { self.until_long(owes, so) }
    }

    #[inline(never)]
    fn until_long(
        &self,
        owes: Option<&dyn Fn(Rank) -> Option<usize>>,
        so: impl Fn(&Board) -> bool,
    ) -> Result<()> {
        let (comm, bulletin, board) = (self.of, self.bulletin, self.board());
        let stage = Stage { number: self.number, by_messages: comm.by_messages(bulletin) };
        if owes.is_some() && !board.owes() {
            board.stand(self.number);
        }
        board.await_others();
        let ended = comm.process().until_seen(
            |_| self.waits_for(owes),
            |engine| {
                if so(board) {
                    return Some(Ok(()));
                }
                if let Some(failure) = engine.closed(comm.collective_context()) {
                    return Some(Err(comm.nothing_comes(&failure)));
                }
                let owes = owes?;
                others(comm.inner.rank, comm.size())
                    .find(|&from| owes(from).is_some() && bulletin.will_not_write(from, stage))
                    .map(|from| Err(comm.is_elsewhere(from)))
            },
        );
        if owes.is_none() && ended.is_err() {
            // Its entry is owed for ever: nobody learns anything any more from where this member stands.
            board.owe();
        }
        board.await_no_more();
        ended
    }

    /// Those whose entries are not there, or who are not through with what was before.
    #[cold]
    fn waits_for(&self, owes: Option<&dyn Fn(Rank) -> Option<usize>>) -> WaitsFor {
        let (board, last) = (self.board(), self.number.wrapping_sub(1));
        let is_awaited = |&from: &Rank| match owes {
            Some(owes) => owes(from).is_some() && !board.has(from.0, self.number),
            None => self.of.size() == 2 || is_before(board.through(from.0), last),
        };
        WaitsFor::members(self.of, others(self.of.rank(), self.of.size()).filter(is_awaited))
    }

    fn board(&self) -> &Board {
        &self.bulletin.board
    }
}

impl Drop for Visit<'_> {
    /// Whatever came of it, and also where an operator has panicked: the others may go on.
    #[inline]
    fn drop(&mut self) {
        self.bulletin.leave(self.number);
        if self.bulletin.begun.no_more.load(Ordering::Relaxed) {
            self.bulletin.end(&mut self.turn);
        }
    }
}

impl Drop for Bulletin {
    fn drop(&mut self) {
        self.quit();
    }
}

impl Bulletin {
    /// How many members the board has.
    #[inline(always)]
    pub(super) fn members(&self) -> u32 {
        self.board.members()
    }

    /// No operation follows.
    #[cold]
    fn end(&self, turn: &mut Turn) {
        *turn = Turn { has_left: true, ..Turn::default() };
        self.quit_unless_busy();
    }

    /// Leaves the board for good, unless operations go on beside: the last of those does it.
    fn quit_unless_busy(&self) {
        if !self.begun.is_busy_still() {
            self.quit();
        }
    }

    /// Leaves the board, for those who have died as well.
    fn quit(&self) {
        let members = self.standing.members();
        let dead = self.failures.of(&self.standing).into_iter().filter_map(|peer| members.rank(peer));
        self.board.leave(&dead.map(|Rank(place)| place).collect::<Vec<_>>());
    }

    /// This member is through with the operation.
    #[inline(always)]
    fn leave(&self, number: u32) {
        if self.begun.is_busy() {
            self.begun.left(&self.board, number);
        } else {
            self.board.pass(number);
        }
        // A member some entries ahead may sleep until this one is through.
        self.board.wake();
    }

    /// Writes this member's entry, or gives its only piece.
    #[inline(always)]
    fn give_whole(&self, number: u32, parts: [Payload<'_>; 2], is_piece: bool) {
        if is_piece {
            let bytes = parts[0].bytes() + parts[1].bytes();
            self.board.give_piece((Ring::Short, number), [bytes as u32, 1], parts);
        } else {
            self.board.put(number, parts);
        }
    }

    /// Hands over what the entries hold that are for this member, all of which are there.
    fn deliver(
        &self,
        number: u32,
        plan: &Plan<'_>,
        own: Payload<'_>,
        (combining, room): (Combining<'_>, &mut Option<Heap>),
        output: &mut UserMemory,
    ) {
        match plan.then {
            Then::Combined(sum) if plan.size == 2 => {
                let operands = sum.of_two(plan.here);
                let own = (own, plan.is_loaded);
                self.read(number, Rank(1 - plan.here.0), plan, |theirs| {
                    let mut out = output.part(0, theirs.bytes());
                    of_two::combine(operands, own, theirs, (combining, room), &mut out);
                    theirs.bytes()
                });
            }
            Then::Combined(sum) => self.combine(number, plan, (sum, own), (combining, room), output),
            Then::Nothing => {}
            Then::Taken | Then::Placed => {
                for from in plan.writers() {
                    self.read(number, from, plan, |data| output.write_at(plan.place(from), data));
                }
            }
        }
    }

    /// Combines contributions.
    fn combine(
        &self,
        number: u32,
        plan: &Plan<'_>,
        (sum, own): (Sum, Payload<'_>),
        (combining, room): (Combining<'_>, &mut Option<Heap>),
        output: &mut UserMemory,
    ) {
        let heap = room.take().unwrap_or_else(|| Heap::new(ROOM_BYTES));
        let (bytes, mut places) = (own.bytes(), heap.memory());
        for from in sum.of(plan.size) {
            let at = sum.place(plan.size, from) * bytes;
            if from == plan.here {
                places.write_at(at, own);
            } else {
                self.read(number, from, plan, |data| places.write_at(at, data));
            }
        }
        let result = sum.in_runs(plan.size, |lower, higher, count| {
            let left = heap.payload().part(lower * bytes, count * bytes);
            combining.combine(left, None, &mut places.part(higher * bytes, count * bytes));
        });
        output.write_at(0, heap.payload().part(result * bytes, bytes));
        *room = Some(heap);
    }

    /// Lends the part of an entry that is for this member.
    fn read(&self, number: u32, from: Rank, plan: &Plan<'_>, reader: impl FnOnce(Payload<'_>) -> usize) {
        let (entry, Block { offset, bytes }) = plan.heard(from);
        self.board.read_either(from.0, number, entry, |data| reader(data.part(offset, bytes)));
    }
}

#[inline(always)]
fn is_turn_due(number: u32) -> bool {
    number.is_multiple_of(VISITS_PER_TURN)
}

/// Before so many operations a board is not worth its memory.
const OPERATIONS_BEFORE: u32 = 3;
/// A program whose operations all go by boards makes a turn of progress for each so many of them.
const VISITS_PER_TURN: u32 = 32;
/// What rank 0 says where no board is to be had.
const NO_BOARD: u32 = u32::MAX;
