//! Messages whose bytes come after the receiver has asked for them, and what their ends tell each other.

use fabric::{Exposed, Heap, Payload, Peer, UserMemory};

use super::{Core, Transfer};
use crate::envelope::Envelope;
use crate::matching::Body;
use crate::peers::{Parcel, Then};
use crate::protocol::{Kind, Offer};
use crate::request::{Carrier, Outcome, Postscript, RequestId, State};

impl<L> Core<L> {
    /// A message that waits at its sender.
    pub(super) fn request(&mut self, from: Peer, envelope: Envelope, send: RequestId, offer: Offer) {
        let Some(receive) = self.take_receive(&envelope) else {
            self.keep(from, envelope, Body::Waiting { offer, send });
            return;
        };
        self.land(receive, from, envelope, (offer.bytes, Carrier::Undecided), offer.postscript());
        self.transfers.push_back(Transfer { receive, from, send, offer });
    }

    /// A posted receive has found its message, whose bytes are still to come.
    pub(super) fn land(
        &mut self,
        receive: RequestId,
        from: Peer,
        envelope: Envelope,
        (sent_bytes, by): (usize, Carrier),
        postscript: Postscript,
    ) {
        let Some(state) = self.requests.find(receive) else { return };
        let State::Posted { target, .. } = std::mem::replace(state, State::Queued { to: from }) else {
            return;
        };
        let Envelope { source, tag, .. } = envelope;
        *state = State::Landing { from, target, source, tag, sent_bytes, postscript, by };
    }

    /// The sender has brought its parts of a message that both copy.
    pub(super) fn brought(&mut self, from: Peer, receive: RequestId, bytes: usize) {
        match self.carrier_of(from, receive) {
            Some(Carrier::Sender { send, missing }) => {
                self.carried(from, send, receive, missing == Some(bytes));
            }
            _ => self.reject(from, "parts of a message that nobody shares"),
        }
    }

    /// The bytes of a landing message do not come by a message.
    pub(crate) fn carried_by(&mut self, receive: RequestId, carrier: Carrier) {
        if let Some(State::Landing { by, .. }) = self.requests.find(receive) {
            *by = carrier;
        }
    }

    pub(super) fn carrier_of(&mut self, from: Peer, receive: RequestId) -> Option<Carrier> {
        match self.requests.find(receive)? {
            State::Landing { from: expected, by, .. } if *expected == from => Some(*by),
            _ => None,
        }
    }

    /// Whoever carried the bytes of a landing message is through: all of them are there, or it must be sent
    /// anew.
    pub(super) fn carried(&mut self, from: Peer, send: RequestId, receive: RequestId, whole: bool) {
        self.carried_by(receive, Carrier::Undecided);
        if whole {
            self.tell_done(from, send);
            return self.finish_landing(receive);
        }
        if let Some(State::Landing { target, sent_bytes, .. }) = self.requests.find(receive) {
            let wanted = target.bytes().min(*sent_bytes);
            self.ask_for(from, send, receive, wanted);
        }
    }

    /// Notes that a payload is not read any more.
    pub(crate) fn deregister_memory(&mut self, peer: Peer, exposed: Exposed) {
        if exposed != Exposed::default() {
            self.concealed.push((peer, exposed));
        }
    }

    /// Asks the sender for a message as a message.
    pub(crate) fn ask_for(&mut self, from: Peer, send: RequestId, receive: RequestId, wanted: usize) {
        let wanted = Parcel::small(&(wanted as u64).to_le_bytes());
        let in_chunks = self.is_scattered(receive);
        self.carried_by(receive, Carrier::Message);
        self.reply(from, Kind::Clear { send, receive, in_chunks }, wanted, Then::Nothing);
    }

    /// Tells the sender that its memory is not needed any more, since a receive has what it wants of the
    /// message.
    pub(crate) fn tell_done(&mut self, to: Peer, send: RequestId) {
        self.reply(to, Kind::Done { send, is_retracted: false }, Parcel::small(&[]), Then::Nothing);
    }

    /// The receiver has what it wants; or nobody will receive the message, since it was taken back in time.
    pub(super) fn done(&mut self, from: Peer, send: RequestId, is_retracted: bool) {
        let (exposed, outcome) = match self.requests.find(send) {
            Some(State::AwaitingReceiver { to, exposed, retracted, .. }) if *to == from => {
                match (is_retracted, retracted.take()) {
                    (false, _) => (*exposed, Outcome::sent()),
                    (true, Some(reason)) => (*exposed, reason.outcome()),
                    (true, None) => return self.reject(from, "back a message that nobody takes back"),
                }
            }
            _ => return self.reject(from, "the end of a send that does not wait"),
        };
        self.deregister_memory(from, exposed);
        self.requests.complete(send, outcome);
    }

    /// Bytes for a receive that was cleared.
    pub(super) fn data(&mut self, from: Peer, receive: RequestId, payload: Payload<'_>) {
        match self.requests.find(receive) {
            Some(State::Landing { from: expected, target, sent_bytes, by: Carrier::Message, .. })
                if *expected == from && payload.bytes() == target.bytes().min(*sent_bytes) =>
            {
                target.write_at(0, payload);
                self.finish_landing(receive);
            }
            _ => self.reject(from, "data for a receive that does not wait"),
        }
    }
}

impl<L> Core<L> {
    /// The memory of a landing message, where it comes to stand in a row.
    pub(super) fn landing_memory(&mut self, receive: RequestId) -> Option<UserMemory> {
        match self.requests.find(receive) {
            Some(State::Landing { target, .. }) => target.row(0, target.bytes()),
            _ => Some(UserMemory::EMPTY),
        }
    }

    /// A landing message is taken apart when it is here as a whole.
    pub(super) fn follow_landing(&mut self, receive: RequestId) {
        let Some(state) = self.requests.find(receive) else { return };
        match std::mem::replace(state, State::Done(Outcome::sent())) {
            State::Landing { from, target, source, tag, sent_bytes, postscript, .. } => {
                *state = State::Following { from, target, source, tag, sent_bytes, postscript };
            }
            other => *state = other,
        }
    }

    /// A receive that was posted while its message came in gets its copy.
    pub(super) fn finish_following(&mut self, from: Peer, receive: RequestId, heap: &Heap) {
        let Some(State::Following { target, source, tag, sent_bytes, postscript, .. }) =
            self.requests.find(receive)
        else {
            return;
        };
        target.write_at(0, heap.payload());
        let (outcome, postscript) =
            (Outcome::received(*source, *tag, *sent_bytes, target.bytes()), *postscript);
        self.requests.complete(receive, outcome.with(postscript));
        self.acknowledge(from, postscript);
    }
}
