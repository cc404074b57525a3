//! Who of those that are reached over a silent network still lives.
//!
//! Providers of libfabric do not tell when a process dies; some answer for ever that a message to it cannot go yet. But
//! the kernel ends a tcp connection with its process. So whoever waits for long opens a connection to each process that it
//! has spoken to over such a network, one at a time; nothing is sent over it, and where it ends the process has ended.

use std::collections::{HashSet, VecDeque};

use fabric::{Fabric, FabricError, Fault, Header, Payload, Peer, Sink, UserMemory};
use tcp::Tcp;

/// The connections of one process that nothing is sent over.
#[derive(Default)]
pub(crate) struct Lifelines {
    watched: HashSet<Peer>,
    /// Those to whom no connection was opened yet, with where they are.
    waiting: VecDeque<(Peer, Vec<u8>)>,
    /// Those that have ended, and nobody knows.
    ended: Vec<(Peer, FabricError)>,
}

impl Lifelines {
    /// From now on the end of that process is noticed, if it can be reached over tcp.
    pub(crate) fn watch(&mut self, peer: Peer, address: Vec<u8>) {
        if self.watched.insert(peer) {
            self.waiting.push_back((peer, address));
        }
    }

    /// Watched processes that have ended in good order, as often as this is asked.
    pub(crate) fn have_left(&self, tcp: &Tcp) -> Vec<Peer> {
        self.watched.iter().copied().filter(|peer| tcp.has_ended(*peer)).collect()
    }

    /// Opens a connection more. That one cannot be opened says nothing of its process.
    pub(crate) fn open_another(&mut self, tcp: &mut Tcp) {
        if let Some((peer, address)) = self.waiting.pop_front() {
            drop(tcp.connect(peer, &address));
        }
    }

    /// Looks at what comes over tcp: messages, and ends of watched processes.
    pub(crate) fn poll(&mut self, tcp: &mut Tcp, sink: &mut impl Sink, events: usize) -> usize {
        tcp.poll(&mut Watching { sink, lifelines: self }, events)
    }

    /// Watched processes that have ended since this was asked, and how.
    pub(crate) fn ended(&mut self) -> Vec<(Peer, FabricError)> {
        std::mem::take(&mut self.ended)
    }
}

/// A sink that keeps the losses of watched processes to itself.
struct Watching<'a, S> {
    sink: &'a mut S,
    lifelines: &'a mut Lifelines,
}

impl<S: Sink> Sink for Watching<'_, S> {
    fn message(&mut self, from: Peer, header: &Header, payload: Payload<'_>) {
        self.sink.message(from, header, payload);
    }

    fn arriving(&mut self, from: Peer, header: &Header, bytes: usize) -> UserMemory {
        self.sink.arriving(from, header, bytes)
    }

    fn landed(&mut self, from: Peer) {
        self.sink.landed(from);
    }

    fn enough(&self) -> bool {
        self.sink.enough()
    }

    fn pulled(&mut self, from: Peer, ticket: u64, whole: bool) {
        self.sink.pulled(from, ticket, whole);
    }

    fn lost(&mut self, peer: Peer, error: FabricError) {
        if !self.lifelines.watched.contains(&peer) {
            self.sink.lost(peer, error);
        } else if error.fault == Fault::Died {
            self.lifelines.ended.push((peer, error));
        }
    }
}
