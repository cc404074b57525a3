//! The fabric to oneself, and the template to copy: complete, and small enough to read at one sitting.
//!
//! weft uses it for messages that a process sends to itself. A [`Loopback`] has one peer, its own, unless a
//! test asks for two ends of one wire by [`Loopback::pair`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Cost, Fabric, FabricError, Fault, Header, Limits, Payload, Peer, Posted, Sink, Unbelled};

/// One direction of the wire: messages posted and not yet polled.
type Wire = Arc<Mutex<VecDeque<(Header, Vec<u8>)>>>;

/// A fabric whose messages stay in this process.
pub struct Loopback {
    here: Peer,
    there: Peer,
    outgoing: Wire,
    incoming: Wire,
}

impl Loopback {
    /// The loopback of process `here`: what it posts, it polls.
    #[must_use]
    pub fn new(here: Peer) -> Loopback {
        let wire = Wire::default();
        Loopback { here, there: here, outgoing: wire.clone(), incoming: wire }
    }

    /// Two ends of one wire, for tests: peers 0 and 1.
    #[must_use]
    pub fn pair() -> (Loopback, Loopback) {
        let (forth, back) = (Wire::default(), Wire::default());
        let left =
            Loopback { here: Peer(0), there: Peer(1), outgoing: forth.clone(), incoming: back.clone() };
        let right = Loopback { here: Peer(1), there: Peer(0), outgoing: back, incoming: forth };
        (left, right)
    }
}

impl Fabric for Loopback {
    type Lane = ();
    type Bell = Unbelled;

    fn name(&self) -> &'static str {
        "loopback"
    }

    fn address(&self) -> Vec<u8> {
        self.here.0.to_le_bytes().to_vec()
    }

    fn reach(&self, peer: Peer, address: &[u8]) -> Option<Cost> {
        let reachable = peer == self.there && address == peer.0.to_le_bytes();
        reachable.then_some(Cost { latency_ns: 50, mebibyte_ns: 50_000 })
    }

    fn connect(&mut self, peer: Peer, address: &[u8]) -> Result<(), FabricError> {
        match self.reach(peer, address) {
            Some(_) => Ok(()),
            None => Err(FabricError {
                fabric: "loopback",
                fault: Fault::Unreachable,
                what: format!(
                    "process {} reaches only process {}, not {}",
                    self.here.0, self.there.0, peer.0
                ),
            }),
        }
    }

    fn limits(&self, _lane: ()) -> Limits {
        Limits { eager_bytes_max: 64 << 10, pull: false, look: false }
    }

    fn post(&mut self, _lane: (), header: &Header, payload: Payload<'_>) -> Posted {
        let mut wire = hold(&self.outgoing);
        if wire.len() == MESSAGES_MAX {
            return Posted::Busy;
        }
        wire.push_back((*header, payload.to_vec()));
        Posted::Sent
    }

    fn resume(&mut self, _lane: (), rest: Payload<'_>) -> Posted {
        unreachable!("loopback takes every message whole, and was asked to go on with {rest:?}")
    }

    fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        for done in 0..events {
            let Some((header, payload)) = hold(&self.incoming).pop_front() else { return done };
            sink.message(self.there, &header, Payload::from(&payload[..]));
        }
        events
    }

    fn bell(&self) -> Unbelled {
        Unbelled
    }
}

/// The wire, also after a panic elsewhere: a queue is whole between any two calls on it.
fn hold(wire: &Wire) -> MutexGuard<'_, VecDeque<(Header, Vec<u8>)>> {
    wire.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Beyond this many messages on the wire the answer is Busy, as it is everywhere else.
const MESSAGES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::Loopback;

    crate::conformance!(Loopback);

    impl crate::conformance::Pair for Loopback {
        type Fabric = Loopback;

        fn pair() -> (Loopback, Loopback) {
            Loopback::pair()
        }
    }
}
