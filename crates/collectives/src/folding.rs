//! Reducing what comes in, in the order of the ranks where the operator needs it.
//!
//! [`Folding`] is for whole vectors: the running result and the room for the next contribution change places,
//! since a step can only put its result where the right operand stood. [`Summing`] is for slices of
//! commutative reductions, where it does not matter which operand is on which side.

use messaging::Rank;

use crate::schedule::{Buffer, Schedule, Span};

/// The running result of one rank: it stands for a run of ranks, this one among them.
pub(crate) struct Folding {
    /// Where the result stands now. The input is never written to.
    pub at: Span,
    vacant: Option<Span>,
    commutative: bool,
    /// The rank's own contribution, where that must not be written to either.
    kept: Option<Span>,
}

impl Folding {
    /// Begins with the rank's own contribution. `room` is memory to be used before scratch is.
    pub(crate) fn new(own: Span, room: Option<Span>, commutative: bool) -> Folding {
        Folding { at: own, vacant: room, commutative, kept: None }
    }

    /// Begins with the rank's own contribution, which is never written to, in whichever buffer it stands.
    pub(crate) fn keeping(own: Span, commutative: bool) -> Folding {
        Folding { kept: Some(own), ..Folding::new(own, None, commutative) }
    }

    /// Where the next contribution is to be received.
    fn room(&mut self, schedule: &mut Schedule) -> Span {
        *self.vacant.get_or_insert_with(|| schedule.scratch(self.at.bytes))
    }

    /// Receives from a rank whose result stands for the ranks behind ours, and adds it.
    pub(crate) fn receive_higher(&mut self, schedule: &mut Schedule, from: Rank) {
        let room = self.room(schedule);
        schedule.receive(from, room);
        schedule.wait();
        self.add_higher(schedule, room);
    }

    /// Receives from a rank whose result stands for the ranks before ours, and adds it.
    pub(crate) fn receive_lower(&mut self, schedule: &mut Schedule, from: Rank) {
        self.become_writable(schedule);
        let room = self.room(schedule);
        schedule.receive(from, room);
        schedule.wait();
        schedule.reduce(room, self.at);
    }

    /// Exchanges results with a rank, and adds its own: both then have the same.
    pub(crate) fn exchange(&mut self, schedule: &mut Schedule, here: Rank, with: Rank) {
        if with < here {
            self.become_writable(schedule);
            schedule.send(with, self.at);
            self.receive_lower(schedule, with);
        } else {
            schedule.send(with, self.at);
            self.receive_higher(schedule, with);
        }
    }

    /// Puts the result where it is wanted.
    pub(crate) fn finish(&self, schedule: &mut Schedule, into: Span) {
        schedule.copy(self.at, into);
    }

    /// Adds what was received from ranks behind ours.
    fn add_higher(&mut self, schedule: &mut Schedule, received: Span) {
        if self.commutative && !self.is_read_only() {
            schedule.reduce(received, self.at);
        } else {
            schedule.reduce(self.at, received);
            self.move_to(received);
        }
    }

    /// A contribution that comes from before ours is added to ours, which must not be the input then.
    fn become_writable(&mut self, schedule: &mut Schedule) {
        if self.is_read_only() {
            let room = self.room(schedule);
            schedule.copy(self.at, room);
            self.move_to(room);
        }
    }

    /// The result stands in the room now, and where it stood is room.
    fn move_to(&mut self, room: Span) {
        self.vacant = (!self.is_read_only()).then_some(self.at);
        self.at = room;
    }

    fn is_read_only(&self) -> bool {
        self.at.buffer == Buffer::Input || self.kept == Some(self.at)
    }
}

/// A vector of which slices are reduced here, each where it belongs. Commutative operators only.
pub(crate) struct Summing {
    /// Where this rank's contributions stand that nothing was added to.
    pub own: Span,
    /// Where results go; the same as `own` once that may be written to.
    pub out: Span,
    room: Span,
}

impl Summing {
    pub(crate) fn new(own: Span, out: Span) -> Summing {
        Summing { own, out, room: Span::output(0) }
    }

    /// Sends something to a rank, and adds what another contributes to a slice. That slice is part of `out`.
    /// What is sent must stay as it is until the next wait, which is the caller's: it may still be on its way
    /// while the slices are added.
    pub(crate) fn exchange(&mut self, schedule: &mut Schedule, sent: (Rank, Span), received: (Rank, Span)) {
        schedule.send(sent.0, sent.1);
        let landing = self.landing(schedule, received.1);
        schedule.receive(received.0, landing);
        schedule.wait_received();
        self.add(schedule, landing, received.1);
    }

    /// Where this rank's own part of that slice stands.
    pub(crate) fn own_part(&self, slice: Span) -> Span {
        self.own.part(slice.offset - self.out.offset, slice.bytes)
    }

    /// Where a contribution to that slice is to be received: where the result goes, if nothing is lost there.
    fn landing(&mut self, schedule: &mut Schedule, slice: Span) -> Span {
        if self.own != self.out {
            return slice;
        }
        if self.room.bytes < slice.bytes {
            self.room = schedule.scratch(slice.bytes);
        }
        self.room.part(0, slice.bytes)
    }

    fn add(&self, schedule: &mut Schedule, landing: Span, slice: Span) {
        let other = if landing == slice { self.own_part(slice) } else { landing };
        schedule.reduce(other, slice);
    }
}
