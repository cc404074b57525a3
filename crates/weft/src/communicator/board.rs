//! Collective operations of few bytes among members that share a node's memory: each writes a line on a board, and reads
//! the others' (decisions/0029). No message goes.
//!
//! What decides that an operation goes this way is the same at all members: which one it is and how long, where they sit, and
//! whether a board was to be had, of which rank 0 tells the others once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use collectives::{Collective, Reduction, bcast, combining_order};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

use super::{Communicator, Reduce};
use crate::error::Result;
use crate::fabrics::Board;
use crate::memory::writing;

/// A board, and how far this member is on it.
pub(super) struct Bulletin {
    board: Board,
    /// The number of the last operation.
    number: AtomicU32,
    /// All members are through with the entries up to this number.
    read_by_all: AtomicU32,
    /// Where contributions are combined.
    room: OnceLock<Heap>,
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
        let bytes = entry_bytes(collective, self.size())?;
        // What has lost a member, or is revoked, says so by messages.
        if self.inner.standing.is_closed() {
            return None;
        }
        let bulletin = match self.inner.bulletin.get() {
            Some(known) => known.as_deref()?,
            None => self.found_bulletin()?,
        };
        let number = bulletin.number.load(Ordering::Relaxed).wrapping_add(1);
        // One blocking operation is under way at a time (MPI 5.0 §6.14).
        bulletin.number.store(number, Ordering::Relaxed);
        if number.is_multiple_of(VISITS_PER_TURN) {
            self.process().progress();
        }
        let visit = Visit { of: self, bulletin, number };
        Some(match collective {
            Collective::Bcast { root, .. } => visit.bcast(root, bytes, output),
            Collective::Allreduce(of) => visit.allreduce(of, input, output, reduce),
            Collective::Allgather(of) => visit.allgather((bytes, of.in_place), input, output),
            _ => visit.barrier(),
        })
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
        (3..=Board::MEMBERS_MAX).contains(&self.size())
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
        Some(Bulletin { board, number, read_by_all, room: OnceLock::new() })
    }
}

impl Visit<'_> {
    fn barrier(&self) -> Result<()> {
        self.give(Payload::EMPTY)?;
        self.hear_all()
    }

    fn bcast(&self, root: Rank, bytes: usize, output: &mut UserMemory) -> Result<()> {
        if root == self.of.rank() {
            return self.give_and_go(output.payload().part(0, bytes));
        }
        self.hear(root)?;
        self.read(root, bytes, |data| output.write_at(0, data));
        Ok(())
    }

    fn allgather(
        &self,
        (bytes, in_place): (usize, bool),
        input: Payload<'_>,
        output: &mut UserMemory,
    ) -> Result<()> {
        let here = self.of.rank().0 as usize * bytes;
        if !in_place {
            output.write_at(here, input.part(0, bytes));
        }
        self.give(output.payload().part(here, bytes))?;
        self.hear_all()?;
        for from in self.others() {
            self.read(from, bytes, |data| output.write_at(from.0 as usize * bytes, data));
        }
        Ok(())
    }

    /// All members combine all contributions, in one order: so all have the same bits.
    fn allreduce(
        &self,
        of: Reduction,
        input: Payload<'_>,
        output: &mut UserMemory,
        reduce: Reduce<'_>,
    ) -> Result<()> {
        let (size, bytes) = (self.of.size(), of.count * of.operator.element_bytes);
        let room = self.bulletin.room.get_or_init(|| Heap::new(ROOM_BYTES));
        let mut places = room.memory();
        let own = if of.in_place { output.payload() } else { input }.part(0, bytes);
        places.write_at(self.of.rank().0 as usize * bytes, own);
        self.give(own)?;
        self.hear_all()?;
        for from in self.others() {
            self.read(from, bytes, |data| places.write_at(from.0 as usize * bytes, data));
        }
        for (lower, higher) in combining_order(size) {
            let mut into = places.part(higher.0 as usize * bytes, bytes);
            reduce(room.payload().part(lower.0 as usize * bytes, bytes), &mut into);
        }
        output.write_at(0, room.payload().part((size as usize - 1) * bytes, bytes));
        Ok(())
    }

    /// Writes this member's entry, when all members are through with the one whose place it takes.
    fn give(&self, payload: Payload<'_>) -> Result<()> {
        self.await_room()?;
        self.board().put(self.number, payload);
        self.board().wake();
        Ok(())
    }

    /// The same for a member that has no more to do.
    fn give_and_go(&self, payload: Payload<'_>) -> Result<()> {
        self.await_room()?;
        self.board().put(self.number, payload);
        Ok(())
    }

    fn await_room(&self) -> Result<()> {
        let needed = self.number.wrapping_sub(Board::DEPTH);
        let is_behind = |number: u32| (number.wrapping_sub(needed) as i32) < 0;
        if !is_behind(self.bulletin.read_by_all.load(Ordering::Relaxed)) {
            return Ok(());
        }
        let mut least = self.number;
        for place in self.others() {
            self.until(|board| !is_behind(board.through(place.0)))?;
            let through = self.board().through(place.0);
            if through.wrapping_sub(least) as i32 <= 0 {
                least = through;
            }
        }
        self.bulletin.read_by_all.store(least, Ordering::Relaxed);
        Ok(())
    }

    /// Waits for everybody's entry. Who has written it is through with all before.
    fn hear_all(&self) -> Result<()> {
        self.others().try_for_each(|from| self.hear(from))?;
        self.bulletin.read_by_all.store(self.number.wrapping_sub(1), Ordering::Relaxed);
        Ok(())
    }

    fn hear(&self, from: Rank) -> Result<()> {
        self.until(|board| board.has(from.0, self.number))
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
        let closed = comm.process().until(|engine| match so(board) {
            true => Some(None),
            false => engine.closed(comm.context() + 1).map(Some),
        });
        board.await_no_more();
        match closed {
            None => Ok(()),
            Some(failure) => Err(comm.nothing_comes(failure)),
        }
    }

    #[inline]
    fn read(&self, from: Rank, bytes: usize, reader: impl FnOnce(Payload<'_>) -> usize) {
        self.board().read(from.0, self.number, bytes, reader);
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
        self.board().pass(self.number);
        // A member some entries ahead may sleep until this one is through.
        self.board().wake();
    }
}

/// The length of an entry of that operation, where it goes by a board among so many members.
#[inline]
fn entry_bytes(collective: Collective, size: u32) -> Option<usize> {
    let bytes = match collective {
        Collective::Barrier => return Some(0),
        Collective::Bcast { bytes, .. } => bytes,
        Collective::Allgather(of) => of.bytes,
        Collective::Allreduce(of) => {
            let bytes = of.count * of.operator.element_bytes;
            if bytes.saturating_mul(size as usize) > ROOM_BYTES {
                return None;
            }
            bytes
        }
        _ => return None,
    };
    (1..=Board::PAYLOAD_BYTES_MAX).contains(&bytes).then_some(bytes)
}

/// Before so many operations a board is not worth its memory.
const OPERATIONS_BEFORE: u32 = 3;
/// What all contributions may take that each member combines: more are combined faster in parts.
const ROOM_BYTES: usize = 8 << 10;
/// A program whose operations all go by boards makes a turn of progress for each so many of them.
const VISITS_PER_TURN: u32 = 16;
/// What rank 0 says where no board is to be had.
const NO_BOARD: u32 = u32::MAX;
