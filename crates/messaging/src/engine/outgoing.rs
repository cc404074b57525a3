//! What goes out and is not simply posted: queues of messages that the fabric has not taken, and what is kept back.

use fabric::{Fabric, FabricError, Header, Payload, Peer, Posted};

use super::{Engine, SENDS_PER_TURN, Sending};
use crate::envelope::Envelope;
use crate::peers::{Outgoing, Parcel, Then};
use crate::protocol::{Kind, Offer};
use crate::request::{Mode, RequestId, Requests, State};

impl<F: Fabric> Engine<F> {
    /// A send that is not simply posted: the peer is new or busy, the message long or synchronous.
    #[cold]
    pub(super) fn send_slowly(
        &mut self,
        to: Peer,
        envelope: Envelope,
        payload: Payload<'static>,
        mode: Mode,
        signature: u32,
    ) -> Result<Sending, Box<FabricError>> {
        self.core.begun += 1;
        if self.core.begun > SENDS_PER_TURN {
            // A program that only sends must hear that its receiver keeps too much already.
            self.progress();
        }
        self.ensure_link(to).map_err(Box::new)?;
        let link = self.core.peers.link(to).expect("ensured above");
        let eager = payload.bytes() < link.eager_bytes_end;
        if eager && mode == Mode::Standard {
            let kind = if signature == 0 { Kind::Eager(envelope) } else { Kind::Signed(envelope, signature) };
            return Ok(self.queue_and_pump(to, kind.header(), payload));
        }
        let (send, kind, payload, then) = if eager && signature == 0 {
            // Nobody can have matched it before it is gone, whatever a peer says.
            let send = self.core.requests.insert(State::Queued { to });
            (send, Kind::Synchronous(envelope, send), Parcel::User(payload), Then::AwaitReceiver(send))
        } else {
            let exposed = self.fabric.expose(link.lane, payload);
            let offer = Offer { bytes: payload.bytes(), exposed, signature };
            let send = self.core.requests.insert(State::AwaitingReceiver { to, payload, exposed });
            (send, Kind::Request(envelope, send), offer.parcel(), Then::Nothing)
        };
        self.core.enqueue(to, Outgoing { header: kind.header(), payload, taken: None, then });
        self.pump();
        Ok(self.settle(send))
    }

    /// Queues an eager message behind what waits already, and sends what can be sent.
    fn queue_and_pump(&mut self, to: Peer, header: Header, payload: Payload<'static>) -> Sending {
        let Sending::Pending(send) = self.queue_eager(to, header, payload, None) else {
            return Sending::Done;
        };
        self.pump();
        self.settle(send)
    }

    /// Done, if the send is over already.
    fn settle(&mut self, send: RequestId) -> Sending {
        match self.core.requests.find(send) {
            Some(State::Done(outcome)) if outcome.failure.is_none() => {
                self.core.requests.remove(send);
                Sending::Done
            }
            _ => Sending::Pending(send),
        }
    }

    #[cold]
    pub(super) fn queue_eager(
        &mut self,
        to: Peer,
        header: Header,
        payload: Payload<'static>,
        taken: Option<usize>,
    ) -> Sending {
        let send = self.core.requests.insert(State::Queued { to });
        let payload = Parcel::User(payload);
        self.core.enqueue(to, Outgoing { header, payload, taken, then: Then::Complete(send) });
        Sending::Pending(send)
    }

    /// Sends what waits, as far as the fabric takes it.
    #[cold]
    pub(super) fn pump(&mut self) -> usize {
        let Engine { fabric, core, .. } = self;
        let mut moved = 0;
        let mut at = 0;
        while at < core.busy.len() {
            let peer = core.busy[at];
            let Some(link) = core.peers.link(peer) else {
                core.busy.swap_remove(at);
                continue;
            };
            while let Some(front) = link.queue.front_mut() {
                if link.eager_bytes_end == 0 {
                    withhold(fabric, &mut core.requests, peer, link.lane, front);
                }
                match push(fabric, link.lane, front) {
                    Posted::Sent => {
                        moved += 1;
                        let then = link.queue.pop_front().map_or(Then::Nothing, |outgoing| outgoing.then);
                        core.requests.sent(peer, then);
                    }
                    // The rest waits for the next turn: what comes in must be taken between, or two ranks that send
                    // to each other fill all buffers there are and wait for ever.
                    Posted::Partly(_) => {
                        moved += 1;
                        break;
                    }
                    Posted::Busy => break,
                }
            }
            if link.queue.is_empty() {
                core.busy.swap_remove(at);
            } else {
                at += 1;
            }
        }
        moved
    }
}

/// Keeps the payload of an eager message here that was queued before the receiver has asked for that: only its header
/// travels then.
fn withhold<F: Fabric>(
    fabric: &mut F,
    requests: &mut Requests,
    to: Peer,
    lane: F::Lane,
    outgoing: &mut Outgoing,
) {
    let (envelope, signature) = match Kind::of(&outgoing.header) {
        Some(Kind::Eager(envelope)) => (envelope, 0),
        Some(Kind::Signed(envelope, signature)) => (envelope, signature),
        _ => return,
    };
    let (Then::Complete(send), None, Parcel::User(payload)) =
        (outgoing.then, outgoing.taken, &outgoing.payload)
    else {
        return;
    };
    let (payload, exposed) = (*payload, fabric.expose(lane, *payload));
    if let Some(state) = requests.find(send) {
        *state = State::AwaitingReceiver { to, payload, exposed };
    }
    let offer = Offer { bytes: payload.bytes(), exposed, signature };
    *outgoing = Outgoing {
        header: Kind::Request(envelope, send).header(),
        payload: offer.parcel(),
        taken: None,
        then: Then::Nothing,
    };
}

/// Offers one message to the fabric; what it takes is noted in the message.
fn push<F: Fabric>(fabric: &mut F, lane: F::Lane, outgoing: &mut Outgoing) -> Posted {
    let payload = outgoing.payload.payload();
    let posted = match outgoing.taken {
        None => fabric.post(lane, &outgoing.header, payload),
        Some(taken) => fabric.resume(lane, payload.after(taken)),
    };
    if let Posted::Partly(bytes) = posted {
        outgoing.taken = Some(outgoing.taken.unwrap_or(0) + bytes);
    }
    posted
}
