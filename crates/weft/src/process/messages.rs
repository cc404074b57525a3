//! Messages of a process: what every communicator sends and receives by.

use std::sync::atomic::Ordering;

use fabric::{Bell, FabricError, Peer, Room};
use job::fabrics::{Fabrics, Lane};
use job::lock::OwnedGuard;
use messaging::{
    Engine, Envelope, Mode, Outcome, Pattern, Probed, Receiving, RequestId, Sendable, Sending, Target,
};

use super::Process;

impl Process {
    /// The engine, for a message to that peer, where one thread does all the calls; [`Process::send`] serves
    /// any thread, and this process itself as the peer.
    #[inline(always)]
    pub(crate) fn hold_to_send(&self, to: Peer) -> Option<OwnedGuard<'_, Engine<Fabrics>>> {
        if to == self.here { None } else { self.engine.hold_owned() }
    }

    /// Sends without waiting.
    pub(crate) fn send<'a>(
        &self,
        to: Peer,
        envelope: Envelope,
        data: impl Sendable<'a>,
        mode: Mode,
    ) -> Result<Sending, Box<FabricError>> {
        self.send_with(to, |engine| engine.send(to, envelope, data, mode))
    }

    /// Has the engine send to one peer whatever `act` hands to it.
    pub(crate) fn send_with<R>(&self, to: Peer, act: impl FnOnce(&mut Engine<Fabrics>) -> R) -> R {
        let answer = self.with(act);
        // What goes to this process itself waits for whoever looks next, and all may be asleep.
        if to == self.here && self.sleepers.load(Ordering::SeqCst) > 0 {
            self.bell.ring();
        }
        answer
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
            None => self.hold().receive_later(envelope, from, room),
        }
    }

    /// Receives if the message comes within a few looks; `None` when nothing has happened.
    #[inline(always)]
    pub(crate) fn receive_if_soon(&self, pattern: Pattern, from: Peer, room: Room) -> Option<Probed> {
        match self.engine.hold_owned() {
            Some(mut engine) => self.look_for(&mut engine, pattern, from, room),
            None => self.look_for(&mut self.hold(), pattern, from, room),
        }
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
