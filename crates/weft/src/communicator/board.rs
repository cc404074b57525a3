//! Collective operations of few bytes among members that share a node's memory: each writes a line on a board, and reads
//! the others' (decisions/0029). No message goes.
//!
//! What decides that an operation goes this way is the same at all members: which one it is and how long, where they sit, and
//! whether a board was to be had, of which rank 0 tells the others once.

mod plan;

use std::sync::atomic::{AtomicU32, Ordering};

use collectives::{Block, Cause, Collective, Listed, bcast};
use fabric::{Heap, Payload, Room, UserMemory};
use messaging::Rank;

use self::plan::{Hears, Plan, ROOM_BYTES, Sum, Then};
use super::{Communicator, Reduce};
use crate::error::Result;
use crate::fabrics::Board;
use crate::lock::{Lock, Threads};
use crate::memory::{giving, writing};

/// A board, and how far this member is on it.
pub(super) struct Bulletin {
    board: Board,
    /// The number of the last operation.
    number: AtomicU32,
    /// All members are through with the entries up to this number.
    read_by_all: AtomicU32,
    /// Where contributions are combined.
    room: Lock<Option<Heap>>,
}

/// How a swap goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Swapped {
    /// What was to come is here, or nothing was.
    Got,
    /// It is so long, which is not as long as it was to be.
    Odd(usize),
    /// It is not there yet.
    Awaited,
}

/// An operation on a board, of which this member is through with it when it is dropped.
struct Visit<'a> {
    of: &'a Communicator,
    bulletin: &'a Bulletin,
    number: u32,
}

impl Communicator {
    /// Does an operation on the board, where there is one and it fits. `None`: nothing has happened.
    #[inline]
    pub(super) fn perform_by_board(
        &self,
        collective: Collective,
        input: Payload<'static>,
        output: &mut UserMemory,
        reduce: Reduce<'_>,
    ) -> Option<Result<()>> {
        let plan = Plan::of(collective, self.inner.rank, self.size())?;
        Some(self.visit()?.carry_out(&plan, input, output, reduce))
    }

    /// The same with blocks that differ in length.
    #[inline]
    pub(super) fn perform_uneven_by_board(
        &self,
        listed: Listed<'_>,
        input: Payload<'static>,
        output: &mut UserMemory,
        reduce: Reduce<'_>,
    ) -> Option<Result<()>> {
        let plan = Plan::listed(listed, self.inner.rank, self.size())?;
        Some(self.visit()?.carry_out(&plan, input, output, reduce))
    }

    /// Begins the next operation on the board, if there is one.
    fn visit(&self) -> Option<Visit<'_>> {
        // What has lost a member, or is revoked, says so by messages.
        if self.inner.standing.is_closed() {
            return None;
        }
        let bulletin = match self.inner.bulletin.get() {
            Some(known) => known.as_deref()?,
            None => self.found_bulletin()?,
        };
        let number = bulletin.next();
        // One blocking operation is under way at a time (MPI 5.0 §6.14).
        bulletin.number.store(number, Ordering::Relaxed);
        if is_turn_due(number) {
            self.process().progress();
        }
        Some(Visit { of: self, bulletin, number })
    }

    /// Gives the other of two members something, and gets something, as the next operation on the board: [`Swapped::Got`],
    /// [`Swapped::Odd`] and [`Swapped::Awaited`] as it is found. `None`: nothing has happened, and
    /// [`Communicator::perform`] knows what to do.
    #[inline(always)]
    pub(super) fn swap_by_board(
        &self,
        bulletin: &Bulletin,
        give: Option<Payload<'static>>,
        get: Option<Room>,
    ) -> Option<(u32, Swapped)> {
        let (number, process) = (bulletin.next(), &self.inner.process);
        let gives = give.map_or(0, |payload| payload.bytes());
        let is_short = gives.max(get.as_ref().map_or(0, |room| room.bytes())) <= Board::PAYLOAD_BYTES_MAX;
        let has_room = give.is_none() || bulletin.has_room(number);
        if is_turn_due(number) || process.is_busy_beside() || !is_short || !has_room {
            return None;
        }
        bulletin.number.store(number, Ordering::Relaxed);
        if let Some(payload) = give {
            bulletin.board.put(number, [payload, Payload::EMPTY]);
            bulletin.board.wake();
        }
        let Some(room) = get else {
            bulletin.leave(number);
            return Some((number, Swapped::Got));
        };
        let other = 1 - self.inner.rank.0;
        if process.is_at_once(|| bulletin.board.has(other, number)) {
            return Some((number, bulletin.take(other, number, room)));
        }
        Some((number, Swapped::Awaited))
    }

    /// Waits for the rest of a swap by the board.
    pub(super) fn finish_swap_by_board(&self, number: u32, room: Room) -> Result<()> {
        let bulletin = self.inner.bulletin.get().and_then(Option::as_deref).expect("a swap was begun on it");
        let visit = Visit { of: self, bulletin, number };
        let other = Rank(1 - self.rank().0);
        visit.hear(other, room.bytes())?;
        visit.board().read(other.0, number, room.bytes(), |data| room.memory().write_at(0, data));
        visit.heard_all();
        Ok(())
    }

    /// The board, if there is to be one: rank 0 takes one and tells the others, when a few operations that could have gone
    /// by it have shown that it is worth its memory.
    #[cold]
    fn found_bulletin(&self) -> Option<&Bulletin> {
        let inner = &*self.inner;
        if !self.may_have_board() {
            return inner.bulletin.get_or_init(|| None).as_deref();
        }
        if inner.before_bulletin.fetch_add(1, Ordering::Relaxed) < OPERATIONS_BEFORE {
            return None;
        }
        inner.bulletin.get_or_init(|| self.join_board().map(Box::new)).as_deref()
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

    fn join_board(&self) -> Option<Bulletin> {
        let boards = self.process().boards()?;
        let mut number = [NO_BOARD];
        if self.rank() == Rank(0) {
            number = [boards.found(self.size()).unwrap_or(NO_BOARD)];
        }
        let schedule = bcast(&self.shape(), Rank(0), size_of_val(&number));
        // Where it goes wrong a member is lost, which the operation itself will tell.
        self.run(schedule, Payload::EMPTY, writing(&mut number), &mut |_, _| {}).ok()?;
        let board = boards.join(number[0], self.rank().0, self.group().iter())?;
        let (number, read_by_all) = (AtomicU32::new(0), AtomicU32::new(0));
        let threads = if self.process().is_shared() { Threads::Many } else { Threads::One };
        let room = Lock::new(threads, None);
        Some(Bulletin { board, number, read_by_all, room })
    }
}

impl Visit<'_> {
    /// Writes this member's entry, and reads those that are for it.
    fn carry_out(
        &self,
        plan: &Plan<'_>,
        input: Payload<'_>,
        output: &mut UserMemory,
        reduce: Reduce<'_>,
    ) -> Result<()> {
        let contribution = if plan.is_loaded { giving(output) } else { input };
        let part = |Block { offset, bytes }| contribution.part(offset, bytes);
        if let Some(place) = plan.kept() {
            output.write_at(place, part(plan.own()));
        }
        if plan.gives {
            self.give(plan.entry().map(part))?;
        }
        if plan.hears == Hears::Nobody {
            return Ok(());
        }
        if plan.gives {
            self.board().wake();
        }
        plan.writers().try_for_each(|from| self.hear(from, plan.heard(from).0))?;
        match plan.hears {
            Hears::Others => self.heard_all(),
            _ => self.heard_some(),
        }
        match plan.then {
            Then::Combined(sum) => self.combine(plan, sum, part(plan.own()), reduce, output),
            Then::Taken | Then::Placed => {
                for from in plan.writers() {
                    self.read(from, plan, |data| output.write_at(plan.place(from), data));
                }
            }
        }
        Ok(())
    }

    /// Combines contributions, which are there.
    fn combine(
        &self,
        plan: &Plan<'_>,
        sum: Sum,
        own: Payload<'_>,
        reduce: Reduce<'_>,
        output: &mut UserMemory,
    ) {
        let (here, size, bytes) = (self.of.rank(), self.of.size(), own.bytes());
        let room = self.bulletin.room.hold().take().unwrap_or_else(|| Heap::new(ROOM_BYTES));
        let mut places = room.memory();
        let at = |rank: Rank| rank.0 as usize * bytes;
        for from in sum.of(size) {
            if from == here {
                places.write_at(at(from), own);
            } else {
                self.read(from, plan, |data| places.write_at(at(from), data));
            }
        }
        let result = sum.in_order(size, |lower, higher| {
            reduce(room.payload().part(at(lower), bytes), &mut places.part(at(higher), bytes));
        });
        output.write_at(0, room.payload().part(at(result), bytes));
        *self.bulletin.room.hold() = Some(room);
    }

    /// Writes this member's entry, when all members are through with the one whose place it takes.
    fn give(&self, parts: [Payload<'_>; 2]) -> Result<()> {
        self.await_room()?;
        self.board().put(self.number, parts);
        Ok(())
    }

    fn await_room(&self) -> Result<()> {
        if self.bulletin.has_room(self.number) {
            return Ok(());
        }
        let mut least = self.number;
        for place in self.others() {
            self.until(|board| is_room(self.number, board.through(place.0)))?;
            let through = self.board().through(place.0);
            if is_before(through, least) {
                least = through;
            }
        }
        self.bulletin.read_by_all.store(least, Ordering::Relaxed);
        Ok(())
    }

    /// Waits for an entry, which has to be so long.
    fn hear(&self, from: Rank, expected_bytes: usize) -> Result<()> {
        self.until(|board| board.has(from.0, self.number))?;
        match self.board().bytes(from.0, self.number) {
            sent_bytes if sent_bytes != expected_bytes => {
                Err(self.of.swap_failed(from, Cause::Mismatch { sent_bytes, expected_bytes }))
            }
            _ => Ok(()),
        }
    }

    /// Whoever has written an entry knew that all are through with the one whose place it takes.
    fn heard_some(&self) {
        let least = self.number.wrapping_sub(Board::DEPTH);
        if is_before(self.bulletin.read_by_all.load(Ordering::Relaxed), least) {
            self.bulletin.read_by_all.store(least, Ordering::Relaxed);
        }
    }

    /// Who has written an entry is through with all before.
    fn heard_all(&self) {
        self.bulletin.read_by_all.store(self.number.wrapping_sub(1), Ordering::Relaxed);
    }

    /// Waits; an error where a member is lost.
    #[inline]
    fn until(&self, so: impl Fn(&Board) -> bool) -> Result<()> {
        if self.of.process().is_soon(|| so(self.board())) { Ok(()) } else { self.until_long(so) }
    }

    #[inline(never)]
    fn until_long(&self, so: impl Fn(&Board) -> bool) -> Result<()> {
        let (comm, board) = (self.of, self.board());
        board.await_others();
        let closed = comm.process().until_seen(|engine| match so(board) {
            true => Some(None),
            false => engine.closed(comm.context() + 1).map(Some),
        });
        board.await_no_more();
        match closed {
            None => Ok(()),
            Some(failure) => Err(comm.nothing_comes(failure)),
        }
    }

    /// Lends the part of an entry that is for this member.
    #[inline]
    fn read(&self, from: Rank, plan: &Plan<'_>, reader: impl FnOnce(Payload<'_>) -> usize) {
        let (entry, Block { offset, bytes }) = plan.heard(from);
        self.board().read(from.0, self.number, entry, |data| reader(data.part(offset, bytes)));
    }

    /// The other members, beginning behind this one.
    fn others(&self) -> impl Iterator<Item = Rank> + use<> {
        let (here, size) = (self.of.rank().0, self.of.size());
        (here + 1..size).chain(0..here).map(Rank)
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
    }
}

impl Bulletin {
    /// The number of the next operation.
    #[inline(always)]
    fn next(&self) -> u32 {
        self.number.load(Ordering::Relaxed).wrapping_add(1)
    }

    /// Whether all members are known to be through with the entry whose place that of this number takes.
    #[inline(always)]
    fn has_room(&self, number: u32) -> bool {
        is_room(number, self.read_by_all.load(Ordering::Relaxed))
    }

    /// Takes the other member's entry, which is there, and leaves.
    #[inline(always)]
    fn take(&self, other: u32, number: u32, room: Room) -> Swapped {
        let sent = self.board.bytes(other, number);
        let is_taken = sent == room.bytes() && self.board.read(other, number, sent, |data| room.take(data));
        let swapped = if is_taken { Swapped::Got } else { Swapped::Odd(sent) };
        self.read_by_all.store(number.wrapping_sub(1), Ordering::Relaxed);
        self.leave(number);
        swapped
    }

    /// This member is through with the operation.
    #[inline(always)]
    fn leave(&self, number: u32) {
        self.board.pass(number);
        // A member some entries ahead may sleep until this one is through.
        self.board.wake();
    }
}

/// Whether an entry may be written, where everybody is through up to a number.
#[inline(always)]
fn is_room(number: u32, through: u32) -> bool {
    !is_before(through, number.wrapping_sub(Board::DEPTH))
}

/// Numbers grow for ever, and come round.
#[inline(always)]
fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

#[inline(always)]
fn is_turn_due(number: u32) -> bool {
    number.is_multiple_of(VISITS_PER_TURN)
}

/// Before so many operations a board is not worth its memory.
const OPERATIONS_BEFORE: u32 = 3;
/// A program whose operations all go by boards makes a turn of progress for each so many of them.
const VISITS_PER_TURN: u32 = 16;
/// What rank 0 says where no board is to be had.
const NO_BOARD: u32 = u32::MAX;
