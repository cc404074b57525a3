//! A sink that holds a fabric to its contract, whatever the peers do.

use std::collections::{HashMap, HashSet};

use fabric::{FabricError, Header, Heap, Payload, Peer, Sink, UserMemory};

/// The reports of a fabric to its sink.
#[derive(Default)]
pub struct Heard {
    /// Whole messages.
    pub messages: usize,
    /// The peers that were reported lost.
    pub lost: HashSet<Peer>,
    /// The peers that the fabric may report anything of.
    pub admitted: HashSet<Peer>,
    /// A peer whose whole messages are kept, and the messages that have arrived from it.
    pub kept: Option<(Peer, Vec<Vec<u8>>)>,
    /// Pulls that have ended.
    pub pulled: usize,
    arriving: HashMap<Peer, Heap>,
}

impl Heard {
    fn note(&self, from: Peer) {
        assert!(self.admitted.contains(&from), "{from:?} is heard and has proved nothing");
        assert!(!self.lost.contains(&from), "{from:?} speaks after it was lost");
    }

    fn keep(&mut self, from: Peer, message: Vec<u8>) {
        self.messages += 1;
        if let Some((peer, kept)) = &mut self.kept
            && *peer == from
        {
            kept.push(message);
        }
    }
}

impl Sink for Heard {
    fn message(&mut self, from: Peer, _header: &Header, payload: Payload<'_>) {
        self.note(from);
        assert!(!self.arriving.contains_key(&from), "{from:?} overtakes its own message");
        self.keep(from, payload.to_vec());
    }

    fn arriving(&mut self, from: Peer, _header: &Header, bytes: usize) -> UserMemory {
        self.note(from);
        // Whatever length was announced: the fabric must keep to the room that it is given.
        let heap = Heap::new(bytes.min(ROOM_BYTES_MAX));
        let memory = heap.memory();
        assert!(self.arriving.insert(from, heap).is_none(), "two messages of {from:?} arrive at once");
        memory
    }

    fn landed(&mut self, from: Peer) {
        self.note(from);
        let heap = self.arriving.remove(&from).expect("what landed was arriving");
        self.keep(from, heap.payload().to_vec());
    }

    fn pulled(&mut self, from: Peer, _ticket: u64, _whole: bool) {
        assert!(!self.lost.contains(&from), "a pull from {from:?} ends after it was lost");
        self.pulled += 1;
    }

    fn lost(&mut self, peer: Peer, error: FabricError) {
        assert!(!error.what.is_empty());
        assert!(self.lost.insert(peer), "{peer:?} is lost twice: {error}");
        self.arriving.remove(&peer);
    }
}

const ROOM_BYTES_MAX: usize = 3000;
