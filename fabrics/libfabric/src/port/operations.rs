//! The numbers of operations: what an operation of an endpoint is by its number, and which numbers are free.

use libfabric_sys::Operation;

use crate::memory::BUFFERS_MAX;

/// Up to 64 places for operations: which are free, and whose turn it is in each.
///
/// Some providers tell of a failure twice. The second word must not end what has taken the place since, so
/// each turn is an operation of its own: a place is given back only by the operation that has it, and after a
/// failure it is another's turn. What an operation has failed with is told again long before so many others
/// have failed in its place that its turn comes round.
#[derive(Clone, Copy)]
pub(super) struct Places {
    free: u64,
    turns: [u8; 64],
}

impl Places {
    pub(super) fn all(places: usize) -> Places {
        Places { free: u64::MAX >> (64 - places), turns: [0; 64] }
    }

    pub(super) fn first(&self) -> Option<u32> {
        (self.free != 0).then(|| self.free.trailing_zeros())
    }

    pub(super) fn has(&self, place: u32) -> bool {
        self.free & 1 << place != 0
    }

    pub(super) fn count(&self) -> u32 {
        self.free.count_ones()
    }

    pub(super) fn take(&mut self, place: u32) {
        self.free &= !(1 << place);
    }

    /// The number of the present turn of a place.
    pub(super) fn turn(&self, place: u32) -> u32 {
        u32::from(self.turns[place as usize])
    }

    /// Frees a place that an operation of this turn has. False where the place was free, or it is another
    /// turn.
    pub(super) fn give_back(&mut self, place: u32, turn: u32) -> bool {
        let was_taken = !self.has(place) && self.turn(place) == turn;
        self.free |= u64::from(was_taken) << place;
        was_taken
    }

    /// Begins the next turn of a place, after the operation in it has failed.
    #[cold]
    pub(super) fn pass_on(&mut self, place: u32) {
        let turn = &mut self.turns[place as usize];
        *turn = (*turn + 1) % TURNS as u8;
    }
}

/// What an operation of an endpoint belongs to, with the number of it.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Slot(usize),
    /// A receive buffer, for many messages.
    Buffer(usize),
    Move(usize),
    /// A receive buffer, for one message.
    Alone(usize),
}

impl Part {
    /// What the operation of a rail belongs to, and the turn of its place.
    #[inline]
    pub(super) fn of(rail: usize, operation: Operation) -> (Part, u32) {
        let operation = operation.0 as usize;
        let (place, turn) = (operation / TURNS, (operation % TURNS) as u32);
        if rail > 0 {
            return (Part::Move(place), turn);
        }
        let part = match place {
            slot if slot < SLOTS => Part::Slot(slot),
            buffer if buffer < FIRST_MOVE => Part::Buffer(buffer - SLOTS),
            place if place < FIRST_ALONE => Part::Move(place - FIRST_MOVE),
            place => Part::Alone(place - FIRST_ALONE),
        };
        (part, turn)
    }

    /// The operation for a turn of this place at a rail.
    #[inline]
    pub(super) fn operation(self, rail: usize, turn: u32) -> Operation {
        let place = match self {
            Part::Slot(slot) => slot,
            Part::Buffer(buffer) => SLOTS + buffer,
            Part::Move(place) if rail > 0 => place,
            Part::Move(place) => FIRST_MOVE + place,
            Part::Alone(buffer) => FIRST_ALONE + buffer,
        };
        Operation((place * TURNS) as u32 + turn)
    }
}

/// How many messages and short operations can be under way out of slots.
pub(super) const SLOTS: usize = 64;
/// How many parts of transfers can be under way over one rail.
pub(super) const MOVES: usize = 16;
/// The first place at the endpoint for a part of a transfer.
const FIRST_MOVE: usize = SLOTS + BUFFERS_MAX;
/// The first place at the endpoint for a receive buffer that takes one message.
const FIRST_ALONE: usize = FIRST_MOVE + MOVES;
/// How many operations can be under way at the endpoint.
pub(super) const PLACES: usize = FIRST_ALONE + BUFFERS_MAX;
/// How many turns a place has before the first comes round again.
pub(super) const TURNS: usize = 8;
