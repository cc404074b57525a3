//! Messages of a process: what every communicator sends and receives by.

use std::sync::atomic::Ordering;

use fabric::{Bell, FabricError, Payload, Peer, Room};
use job::fabrics::{Fabrics, Lane};
use messaging::{
    Engine, Envelope, Gather, Mode, Outcome, Pattern, Probed, Receiving, RequestId, Sending, Target,
};

use super::Process;

impl Process {
    /// Sends without waiting.
    #[inline(always)]
    pub(crate) fn send(
        &self,
        to: Peer,
        envelope: Envelope,
        payload: Payload<'static>,
        mode: Mode,
    ) -> Result<Sending, Box<FabricError>> {
        let sending = self.with(|engine| engine.send(to, envelope, payload, mode));
        // What goes to this process itself waits for whoever looks next, and all may be asleep.
        if to == self.here && self.sleepers.load(Ordering::SeqCst) > 0 {
            self.bell.ring();
        }
        sending
    }

    /// Sends without waiting, and says what the elements of the message are.
    pub(crate) fn send_signed(
        &self,
        to: Peer,
        envelope: Envelope,
        payload: Payload<'static>,
        mode: Mode,
        signature: u32,
    ) -> Result<Sending, Box<FabricError>> {
        let sending = self.with(|engine| engine.send_signed(to, envelope, payload, mode, signature));
        if to == self.here && self.sleepers.load(Ordering::SeqCst) > 0 {
            self.bell.ring();
        }
        sending
    }

    /// Sends what `gather` makes, without waiting.
    pub(crate) fn send_made(
        &self,
        to: Peer,
        envelope: Envelope,
        gather: Box<dyn Gather>,
        mode: Mode,
    ) -> Result<Sending, Box<FabricError>> {
        let sending = self.with(|engine| engine.send_made(to, envelope, gather, mode));
        if to == self.here && self.sleepers.load(Ordering::SeqCst) > 0 {
            self.bell.ring();
        }
        sending
    }

    /// Sends a message that is gathered from its places if it can leave at once; false where it cannot, and nothing has happened.
    #[inline]
    pub(crate) fn send_made_at_once(&self, to: Peer, envelope: Envelope, gather: &dyn Gather) -> bool {
        to != self.here && self.hold().send_made_at_once(to, envelope, gather)
    }

    /// Hands parts of an operation to the engine, all of them for one peer.
    pub(crate) fn send_parts(&self, to: Peer, act: impl FnOnce(&mut Engine<Fabrics>)) {
        self.with(act);
        if to == self.here && self.sleepers.load(Ordering::SeqCst) > 0 {
            self.bell.ring();
        }
    }

    /// Sends if nothing stands in the way; `None` when nothing has happened.
    #[inline(always)]
    pub(crate) fn send_at_once(
        &self,
        to: Peer,
        envelope: Envelope,
        payload: Payload<'static>,
    ) -> Option<Sending> {
        if to == self.here {
            return None;
        }
        match self.engine.hold_owned() {
            Some(mut engine) => engine.send_at_once(to, envelope, payload),
            None => self.send_at_once_among_threads(to, envelope, payload),
        }
    }

    #[inline(never)]
    fn send_at_once_among_threads(
        &self,
        to: Peer,
        envelope: Envelope,
        payload: Payload<'static>,
    ) -> Option<Sending> {
        self.hold().send_at_once(to, envelope, payload)
    }

    /// Posts a receive without waiting.
    #[inline]
    pub(crate) fn receive(
        &self,
        pattern: Pattern,
        from: Option<Peer>,
        target: impl Into<Target>,
    ) -> Receiving {
        self.with(|engine| engine.receive(pattern, from, target))
    }

    /// Posts a receive that no message waits for yet; `None` when nothing has happened.
    #[inline(always)]
    pub(crate) fn receive_later(&self, envelope: Envelope, from: Peer, room: Room) -> Option<RequestId> {
        match self.engine.hold_owned() {
            Some(mut engine) => engine.receive_later(envelope, from, room),
            None => self.receive_later_among_threads(envelope, from, room),
        }
    }

    #[inline(never)]
    fn receive_later_among_threads(&self, envelope: Envelope, from: Peer, room: Room) -> Option<RequestId> {
        self.hold().receive_later(envelope, from, room)
    }

    /// Receives if the message comes within a few looks; `None` when nothing has happened.
    #[inline(always)]
    pub(crate) fn receive_at_once(&self, pattern: Pattern, from: Peer, room: Room) -> Option<Probed> {
        match self.engine.hold_owned() {
            Some(mut engine) => self.look_for(&mut engine, pattern, from, room),
            None => self.receive_at_once_among_threads(pattern, from, room),
        }
    }

    #[inline(never)]
    fn receive_at_once_among_threads(&self, pattern: Pattern, from: Peer, room: Room) -> Option<Probed> {
        self.look_for(&mut self.hold(), pattern, from, room)
    }

    #[inline(always)]
    fn look_for(
        &self,
        engine: &mut Engine<Fabrics>,
        pattern: Pattern,
        from: Peer,
        room: Room,
    ) -> Option<Probed> {
        let lane = engine.may_look(pattern, from)?;
        for _ in 0..self.looks {
            if let Some(found) = engine.look(lane, pattern, room) {
                return Some(found);
            }
            if engine.is_turn_due() {
                break;
            }
            self.rest_before(lane);
        }
        None
    }

    /// What lies between two looks at one lane.
    #[inline(always)]
    pub(super) fn rest_before(&self, lane: Lane) {
        if lane.wants_rests() {
            self.rest.take();
        }
    }

    /// Receives, and waits until that is over.
    pub(crate) fn receive_awaited(
        &self,
        pattern: Pattern,
        from: Option<Peer>,
        target: impl Into<Target>,
    ) -> Outcome {
        let mut engine = self.hold();
        let begun = engine.receive_awaited(pattern, from, target);
        // As in `with`: a message that was there already may have set others going.
        if self.is_shared() {
            self.rouse(&engine);
        }
        match begun {
            Ok(ticket) => self.until_held(engine, ticket.into(), |engine| engine.take_awaited(ticket)),
            Err(outcome) => outcome,
        }
    }
}
