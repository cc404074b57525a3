//! Receives that find their message here already.

use fabric::{Fabric, Peer};

use super::{Engine, Receiving};
use crate::arrivals::Transfer;
use crate::envelope::Envelope;
use crate::matching::Body;
use crate::peers::Arriving;
use crate::request::{Carrier, Outcome, Postscript, RequestId, State};
use crate::scattered::Target;

impl<F: Fabric> Engine<F> {
    /// Receives a message that is there already.
    #[cold]
    pub(super) fn receive_unexpected(&mut self, found: u32, target: Target) -> Receiving {
        let message = self.core.matching.take(found).expect("it was found a moment ago");
        self.core.resume_sending();
        self.accept(message.envelope, message.from, message.body, Some(found), target)
    }

    pub(super) fn accept(
        &mut self,
        envelope: Envelope,
        from: Peer,
        body: Body,
        index: Option<u32>,
        mut target: Target,
    ) -> Receiving {
        let Envelope { source, tag, .. } = envelope;
        let receiving = match body {
            Body::Whole { payload, postscript } => {
                target.write_at(0, payload.payload());
                if let Postscript::Acknowledge(send) = postscript {
                    self.core.tell_done(from, send);
                }
                let outcome = Outcome::received(source, tag, payload.bytes(), target.bytes());
                Receiving::Done(outcome.with(postscript))
            }
            Body::Arriving { bytes, postscript } => {
                let state = State::Following { from, target, source, tag, sent_bytes: bytes, postscript };
                let request = self.core.requests.insert(state);
                self.follow(from, index, request);
                Receiving::Pending(request)
            }
            Body::Waiting { offer, send } => {
                let state = State::Landing {
                    from,
                    target,
                    source,
                    tag,
                    sent_bytes: offer.bytes,
                    postscript: offer.postscript(),
                    by: Carrier::Undecided,
                };
                let receive = self.core.requests.insert(state);
                self.core.transfers.push_back(Transfer { receive, from, send, offer });
                Receiving::Pending(receive)
            }
        };
        self.act_on_notes();
        match receiving {
            Receiving::Pending(request) => self.test(request).map_or(receiving, Receiving::Done),
            done => done,
        }
    }

    /// The message that is arriving as unexpected goes on to a receive.
    fn follow(&mut self, from: Peer, index: Option<u32>, request: RequestId) {
        let arriving = self.core.peers.find(from).and_then(|state| state.arriving.as_mut());
        if let Some(arriving) = arriving
            && let Arriving::Unexpected(unexpected, heap) = &*arriving
            && Some(*unexpected) == index
        {
            *arriving = Arriving::Following(request, heap.clone());
        }
    }
}
