//! Transfers of long messages: the receiver pulls, asks for help, or is sent the bytes.

use fabric::{Exposed, Fabric, Payload, Peer, Posted, Pulled, PulledShared, UserMemory};

use super::Engine;
use crate::arrivals::{Told, Transfer};
use crate::peers::{Outgoing, Parcel, Then};
use crate::protocol::{Kind, encode_exposed};
use crate::request::{Carrier, RequestId, State};

impl<F: Fabric> Engine<F> {
    /// Does what the sink noted down: transfers, replies, losses.
    #[cold]
    pub(super) fn act_on_notes(&mut self) -> usize {
        let mut acted = 0;
        while let Some(transfer) = self.core.transfers.pop_front() {
            self.start_transfer(transfer);
            acted += 1;
        }
        while let Some((from, send, receive, invitation)) = self.core.invitations.pop_front() {
            self.bring(from, send, receive, invitation);
            acted += 1;
        }
        while let Some((to, outgoing)) = self.core.outbox.pop_front() {
            match self.ensure_link(to) {
                Ok(()) => self.core.enqueue(to, outgoing),
                Err(error) => self.core.lose(to, error, Told::Here),
            }
            acted += 1;
        }
        // Behind whatever may have lost a peer: who was told that a send is over may take the memory away.
        while let Some((peer, exposed)) = self.core.concealed.pop() {
            self.fabric.deregister_memory(peer, exposed);
        }
        if !self.core.busy.is_empty() {
            self.pump();
        }
        acted + self.act_on_notices()
    }

    /// A matched message waits at its sender: reads it from there, or asks for it.
    fn start_transfer(&mut self, transfer: Transfer) {
        let Transfer { receive, from, send, offer } = transfer;
        if let Err(error) = self.ensure_link(from) {
            return self.core.lose(from, error, Told::Here);
        }
        let lane = self.core.peers.link(from).expect("ensured above").lane;
        let Some(State::Landing { target, .. }) = self.core.requests.find(receive) else { return };
        let wanted = offer.bytes.min(target.bytes());
        // What is made or taken apart on its way comes in chunks, of which one is made while another is taken
        // apart.
        let row = if wanted == 0 { Some(UserMemory::EMPTY) } else { target.row(0, wanted) };
        let Some(mut into) = row.filter(|_| wanted == 0 || offer.is_readable()) else {
            return self.core.ask_for(from, send, receive, wanted);
        };
        let is_posted = wanted > 0
            && offer.is_attended
            && !self.core.offers(from)
            && self.fabric.rather_posted(lane, offer.exposed, wanted);
        if is_posted {
            return self.core.ask_for(from, send, receive, wanted);
        }
        let pulled = if wanted == 0 {
            PulledShared::Own(0)
        } else if let Some(invitation) = self.invite(from, lane, send, receive, offer.exposed, &into) {
            self.fabric.pull_shared(lane, offer.exposed, invitation, &mut into)
        } else {
            // Some memory can be read also where the lane's limits promise nothing.
            match self.fabric.pull(lane, offer.exposed, 0, &mut into, receive.ticket()) {
                Pulled::Done => PulledShared::Own(wanted),
                Pulled::Underway => return self.core.carried_by(receive, Carrier::Fabric { send }),
                Pulled::Refused => PulledShared::Refused { peer_brings: false },
            }
        };
        let by_sender = |missing| Carrier::Sender { send, missing };
        match pulled {
            PulledShared::Own(bytes) if bytes >= wanted => {
                self.core.tell_done(from, send);
                self.core.finish_landing(receive);
            }
            PulledShared::Own(bytes) => self.core.carried_by(receive, by_sender(Some(wanted - bytes))),
            PulledShared::Refused { peer_brings: true } => self.core.carried_by(receive, by_sender(None)),
            PulledShared::Refused { peer_brings: false } => self.core.ask_for(from, send, receive, wanted),
        }
    }

    /// Asks the sender to bring parts of a large message, if that can be said at once: later it would be in
    /// vain. Who is to copy a message of ours at the same time has no time for that, and all the talk about
    /// it would be for nothing.
    fn invite(
        &mut self,
        from: Peer,
        lane: F::Lane,
        send: RequestId,
        receive: RequestId,
        exposed: Exposed,
        into: &UserMemory,
    ) -> Option<Exposed> {
        if !self.core.peers.link(from)?.queue.is_empty() || !self.fabric.limits(lane).pull {
            return None;
        }
        if self.core.offers(from) {
            return None;
        }
        let invitation = self.fabric.invite(lane, exposed, into)?;
        let words = encode_exposed(invitation);
        let header = Kind::Share { send, receive }.header();
        match self.fabric.post(lane, &header, Payload::from(&words[..])) {
            Posted::Sent => {}
            // Then nobody comes to help, and all parts are left to this side.
            Posted::Busy => {}
            Posted::Partly(taken) => {
                let payload = Parcel::small(&words);
                let outgoing = Outgoing { header, payload, taken: Some(taken), then: Then::Nothing };
                self.core.enqueue(from, outgoing);
            }
        }
        Some(invitation)
    }

    /// Brings parts of a message to a receiver that copies it. A send that is over has nothing left to bring.
    fn bring(&mut self, to: Peer, send: RequestId, receive: RequestId, invitation: Exposed) {
        let payload = match self.core.requests.find(send) {
            Some(State::AwaitingReceiver { to: expected, source, .. }) if *expected == to => source.row(),
            _ => return,
        };
        let Some(payload) = payload else { return };
        let Some(lane) = self.core.peers.link(to).map(|link| link.lane) else { return };
        let brought = self.fabric.bring(lane, invitation, payload);
        if brought.claimed {
            let bytes = Parcel::small(&(brought.bytes as u64).to_le_bytes());
            self.core.reply(to, Kind::Brought { receive }, bytes, Then::Nothing);
        }
    }
}
