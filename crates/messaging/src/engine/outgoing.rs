//! What goes out and is not simply posted: queues of messages that the fabric has not taken, and what is kept
//! back.

use fabric::{Exposed, Fabric, FabricError, Header, Payload, Peer, Pool, Posted, UserMemory};

use super::{Engine, SENDS_PER_TURN, Sending};
use crate::envelope::Envelope;
use crate::peers::{Outgoing, Parcel, Then};
use crate::protocol::{Kind, Offer, eager_header};
use crate::request::{Mode, RequestId, Requests, State};
use crate::scattered::{Data, Packed, Source};

impl<F: Fabric> Engine<F> {
    /// A send that is not simply posted: the peer is new or busy, the message long, synchronous or apart.
    #[cold]
    pub(super) fn send_by_queue(
        &mut self,
        to: Peer,
        envelope: Envelope,
        data: Data<'_>,
        mode: Mode,
    ) -> Result<Sending, Box<FabricError>> {
        self.core.begun += 1;
        if self.core.begun > self.core.begun_before + SENDS_PER_TURN {
            // A program that only sends must hear that its receiver keeps too much already.
            self.progress();
        }
        if self.core.is_troubled
            && let Some(failure) = self.core.obstacle(envelope.context, Some(to))
        {
            return Ok(Sending::Pending(self.failed(failure)));
        }
        self.ensure_link(to).map_err(Box::new)?;
        if mode.is_standard() && self.is_made_at_once(to, envelope, data) {
            return Ok(Sending::Done);
        }
        let (signature, eager) = (data.signature(), self.is_eager(to, data, mode));
        let link = self.core.peers.link(to).expect("ensured above");
        let source = data.source();
        if eager && mode.is_standard() {
            let kind = if signature == 0 { Kind::Eager(envelope) } else { Kind::Signed(envelope, signature) };
            return Ok(self.queue_and_pump(to, kind.header(), source));
        }
        let (send, kind, payload, then) = if eager && signature == 0 {
            // Nobody can have matched it before it is gone, whatever a peer says.
            let send = self.core.requests.insert(State::Queued { to });
            let chunked_message = self.core.whole(source);
            (
                send,
                Kind::Synchronous(envelope, send),
                chunked_message,
                Then::AwaitReceiver(send, envelope.context, envelope.tag),
            )
        } else {
            let exposed = match &source {
                Source::Row(payload) => self.fabric.register_memory(link.lane, *payload),
                Source::Made(_) => Exposed::default(),
            };
            let is_attended = mode == Mode::Blocking;
            let offer = Offer { bytes: source.bytes(), exposed, signature, is_attended };
            let Envelope { context, tag, .. } = envelope;
            let waiting = State::AwaitingReceiver { to, source, exposed, context, tag, retracted: None };
            let send = self.core.requests.insert(waiting);
            (send, Kind::Request(envelope, send), offer.chunked_message(), Then::Nothing)
        };
        self.core.enqueue(to, Outgoing { header: kind.header(), payload, taken: None, then });
        self.pump();
        Ok(self.settle(send))
    }

    /// Whether a message goes at once, or as soon as what waits before it has gone, and not when its receiver
    /// asks for it.
    fn is_eager(&mut self, to: Peer, data: Data<'_>, mode: Mode) -> bool {
        let Some(link) = self.core.peers.link(to) else { return false };
        match data {
            // What is made in one stroke is a copy as long as it waits; behind others it is made in chunks,
            // when its turn comes.
            Data::Apart(gather) if gather.bytes() < link.eager_bytes_end => {
                gather.bytes() <= link.limits.chunk_bytes_max || link.queue.is_empty()
            }
            _ if data.bytes() < link.eager_bytes_end => true,
            // Not behind others, nor to a peer that keeps too much already.
            Data::Row(payload) | Data::Signed(payload, _)
                if mode.is_standard() && link.eager_bytes_end > 0 =>
            {
                let takes = link.queue.is_empty() && self.fabric.takes_at_once(link.lane, payload);
                if takes {
                    // A turn for each mebibyte: the receiver may have asked for no more.
                    self.core.begun += (payload.bytes() >> 12) as u32;
                }
                takes
            }
            _ => false,
        }
    }

    /// Sends a short message that is apart by making it in memory of the fabric, if that has some and nothing
    /// waits to go there; false where nothing has happened.
    fn is_made_at_once(&mut self, to: Peer, envelope: Envelope, data: Data<'_>) -> bool {
        let (Data::Apart(gather), Some(link)) = (data, self.core.peers.link(to)) else { return false };
        let bytes = gather.bytes();
        if !link.is_free_for(bytes) {
            return false;
        }
        let write = |room: &mut UserMemory| gather.gather(0, room);
        self.fabric.post_made(link.lane, &eager_header(envelope), bytes, write) == Some(Posted::Sent)
    }

    /// Queues an eager message behind what waits already, and sends what can be sent.
    fn queue_and_pump(&mut self, to: Peer, header: Header, source: Source) -> Sending {
        let payload = self.core.whole(source);
        let send = self.queue(to, header, payload, None);
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
        Sending::Pending(self.queue(to, header, Parcel::User(payload), taken))
    }

    fn queue(&mut self, to: Peer, header: Header, payload: Parcel, taken: Option<usize>) -> RequestId {
        let send = self.core.requests.insert(State::Queued { to });
        self.core.enqueue(to, Outgoing { header, payload, taken, then: Then::Complete(send) });
        send
    }

    /// Sends what waits, as far as the fabric takes it.
    #[cold]
    pub(super) fn pump(&mut self) -> usize {
        let Engine { fabric, core, .. } = self;
        let mut moved = 0;
        let mut at = 0;
        // Sends that wait for their receivers from now on.
        let mut waiting = Vec::new();
        while at < core.busy.len() {
            let peer = core.busy[at];
            let Some(link) = core.peers.link(peer) else {
                core.busy.swap_remove(at);
                continue;
            };
            while let Some(front) = link.queue.front_mut() {
                if link.eager_bytes_end == 0
                    && let Some(send) = withhold(fabric, &mut core.requests, peer, link.lane, front)
                    && core.is_troubled
                {
                    waiting.push(send);
                }
                match push(fabric, link.lane, front, &mut core.pool) {
                    Posted::Sent => {
                        moved += 1;
                        let then = link.queue.pop_front().map_or(Then::Nothing, |outgoing| outgoing.then);
                        core.requests.sent(peer, then);
                        if let Then::AwaitReceiver(send, ..) = then
                            && core.is_troubled
                        {
                            waiting.push(send);
                        }
                    }
                    // The rest waits for the next turn: what comes in must be taken between, or two ranks
                    // that send to each other fill all buffers there are and wait for ever.
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
        for send in waiting {
            moved += core.take_back(send);
        }
        moved
    }
}

/// Keeps the payload of an eager message here that was queued before the receiver has asked for that: only
/// its header travels then. The answer is the send that waits for its receiver so.
fn withhold<F: Fabric>(
    fabric: &mut F,
    requests: &mut Requests,
    to: Peer,
    lane: F::Lane,
    outgoing: &mut Outgoing,
) -> Option<RequestId> {
    let (envelope, signature) = match Kind::of(&outgoing.header) {
        Some(Kind::Eager(envelope)) => (envelope, 0),
        Some(Kind::Signed(envelope, signature)) => (envelope, signature),
        _ => return None,
    };
    let (Then::Complete(send), None) = (outgoing.then, outgoing.taken) else { return None };
    let (source, exposed) = match &outgoing.payload {
        Parcel::User(payload) => (Source::Row(*payload), fabric.register_memory(lane, *payload)),
        Parcel::Packed(heap) => (Source::Made(Box::new(Packed(heap.clone()))), Exposed::default()),
        Parcel::Small { .. } | Parcel::Chunks(_) => return None,
    };
    let offer = Offer { bytes: source.bytes(), exposed, signature, is_attended: false };
    if let Some(state) = requests.find(send) {
        let Envelope { context, tag, .. } = envelope;
        *state = State::AwaitingReceiver { to, source, exposed, context, tag, retracted: None };
    }
    *outgoing = Outgoing {
        header: Kind::Request(envelope, send).header(),
        payload: offer.chunked_message(),
        taken: None,
        then: Then::Nothing,
    };
    Some(send)
}

/// Offers one message to the fabric; what it takes is noted in the message.
fn push<F: Fabric>(fabric: &mut F, lane: F::Lane, outgoing: &mut Outgoing, pool: &mut Pool) -> Posted {
    if let Parcel::Chunks(chunks) = &mut outgoing.payload {
        return chunks.push(fabric, lane, pool);
    }
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
