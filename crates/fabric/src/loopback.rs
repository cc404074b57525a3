//! The fabric to oneself, and the template to copy: complete, and small enough to read at one sitting.
//!
//! weft uses it for messages that a process sends to itself. A [`Loopback`] has one peer, its own, unless a
//! test asks for two ends of one wire by [`Loopback::pair`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    Abilities, Atomic, Attached, Begun, Cost, Elements, Fabric, FabricError, Fault, Header, Limits, OneSided,
    Payload, Peer, Posted, Sink, Unbelled, UserMemory,
};

/// One direction of the wire: messages posted and not yet polled.
type Wire = Arc<Mutex<VecDeque<(Header, Vec<u8>)>>>;
/// The memory that one end has attached, by its numbers.
type Memories = Arc<Mutex<Vec<Option<UserMemory>>>>;

/// A fabric whose messages stay in this process.
pub struct Loopback {
    here: Peer,
    there: Peer,
    outgoing: Wire,
    incoming: Wire,
    /// What the other end may use.
    attached: Memories,
    /// What may be used of the other end.
    theirs: Memories,
}

impl Loopback {
    /// The loopback of process `here`: what it posts, it polls.
    #[must_use]
    pub fn new(here: Peer) -> Loopback {
        let (wire, attached) = (Wire::default(), Memories::default());
        let (outgoing, theirs) = (wire.clone(), attached.clone());
        Loopback { here, there: here, outgoing, incoming: wire, attached, theirs }
    }

    /// Two ends of one wire, for tests: peers 0 and 1.
    #[must_use]
    pub fn pair() -> (Loopback, Loopback) {
        let mut left = Loopback::new(Peer(0));
        let mut right = Loopback::new(Peer(1));
        (left.there, right.there) = (Peer(1), Peer(0));
        (left.outgoing, right.outgoing) = (right.incoming.clone(), left.incoming.clone());
        (left.theirs, right.theirs) = (right.attached.clone(), left.attached.clone());
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
        Limits { eager_bytes_max: 64 << 10, chunk_bytes_max: 16 << 10, pull: false, look: false }
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

/// Both ends are of one process, so each does at once what it wants of the other's memory.
impl OneSided for Loopback {
    type Remote = Remote;

    fn abilities(&self, _lane: ()) -> Abilities {
        Abilities { put: true, get: true }
    }

    fn atomic_count_max(&self, _lane: (), atomic: Atomic, _fetches: bool) -> usize {
        if atomic.is_defined() { ELEMENTS_MAX } else { 0 }
    }

    fn attach(&mut self, memory: UserMemory) -> Result<(Attached, Vec<u8>), FabricError> {
        let mut attached = hold(&self.attached);
        let number = attached.len() as u32;
        let key = [&number.to_le_bytes()[..], &(memory.bytes() as u64).to_le_bytes()].concat();
        attached.push(Some(memory));
        Ok((Attached(number), key))
    }

    fn detach(&mut self, attached: Attached) {
        if let Some(place) = hold(&self.attached).get_mut(attached.0 as usize) {
            *place = None;
        }
    }

    fn remote(&self, _lane: (), key: &[u8]) -> Option<Remote> {
        let (number, bytes) = key.split_first_chunk()?;
        let bytes = usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()?;
        Some(Remote { number: u32::from_le_bytes(*number), bytes })
    }

    fn put(&mut self, _lane: (), from: UserMemory, (to, offset): (Remote, usize), _ticket: u64) -> Begun {
        self.with(to, (offset, from.bytes()), |mut part| {
            part.write_at(0, from.payload());
        })
    }

    fn get(&mut self, _lane: (), (from, offset): (Remote, usize), mut into: UserMemory, _: u64) -> Begun {
        self.with(from, (offset, into.bytes()), |part| {
            into.write_at(0, part.payload());
        })
    }

    fn atomic(
        &mut self,
        _lane: (),
        atomic: Atomic,
        mut elements: Elements<'_>,
        (there, offset): (Remote, usize),
        _ticket: u64,
    ) -> Begun {
        let element = atomic.scalar.bytes();
        if !atomic.is_defined() || !elements.fit(atomic) || elements.count > ELEMENTS_MAX {
            return Begun::Refused;
        }
        let (operand, compare) = (elements.operand.to_vec(), elements.compare.to_vec());
        let mut is_aligned = false;
        let begun = self.with(there, (offset, elements.count * element), |mut part| {
            is_aligned = part.start().addr().is_multiple_of(element);
            if is_aligned {
                let mut found = part.payload().to_vec();
                elements.fetched.write_at(0, Payload::from(&found[..]));
                atomic.apply(&mut found, &operand, &compare);
                part.write_at(0, Payload::from(&found[..]));
            }
        });
        if is_aligned { begun } else { Begun::Refused }
    }
}

impl Loopback {
    /// Does something with a part of the other end's memory, if it has it.
    fn with(&self, there: Remote, (offset, bytes): (usize, usize), act: impl FnOnce(UserMemory)) -> Begun {
        let mut theirs = hold(&self.theirs);
        let Some(Some(memory)) = theirs.get_mut(there.number as usize) else { return Begun::Refused };
        // The key is a claim; what counts is how much is there.
        let room = memory.bytes().min(there.bytes);
        if offset > room || bytes > room - offset {
            return Begun::Refused;
        }
        act(memory.part(offset, bytes));
        Begun::Done
    }
}

/// Memory of the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    number: u32,
    bytes: usize,
}

/// What is shared by the two ends, also after a panic elsewhere: it is whole between any two calls on it.
fn hold<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Beyond this many messages on the wire the answer is Busy, as it is everywhere else.
const MESSAGES_MAX: usize = 256;
/// Elements that one atomic changes.
const ELEMENTS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::Loopback;

    crate::conformance!(Loopback);
    crate::conformance_one_sided!(Loopback);

    impl crate::conformance::Pair for Loopback {
        type Fabric = Loopback;

        fn pair() -> (Loopback, Loopback) {
            Loopback::pair()
        }
    }
}
