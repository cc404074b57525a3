//! A whole network in one process: thousands of ranks, one thread, one seed.
//!
//! A [`Network`] makes endpoints; each endpoint is a [`Fabric`]. Everything a real network may do and a
//! program must bear happens here by dice: messages to different peers overtake each other, queues are full,
//! payloads come in chunks, pulls are refused, peers vanish. The same seed and the same calls give the same
//! run.
//!
//! Time is the number of polls made by all endpoints together. What a process does to the network is counted
//! as its steps, so that a test can end it at each of them in turn ([`Network::kill_at`]).

mod network;
mod weather;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::network::{Arriving, Dice, Flight, Inbox, Pulling, SharedCopy, SimulatedShared, Steps};
pub use self::weather::Weather;
use crate::{
    Brought, Cost, Exposed, Fabric, FabricError, Fault, Header, Limits, Looked, Payload, Peer, Posted,
    Pulled, PulledShared, Sink, Unbelled, UserMemory,
};

/// The network that endpoints are made of.
#[derive(Clone)]
pub struct Network {
    shared: Arc<Mutex<SimulatedShared>>,
}

impl Network {
    /// A network of `peers` processes.
    #[must_use]
    pub fn new(peers: u32, weather: Weather) -> Network {
        let inboxes = (0..peers).map(|_| Inbox::default()).collect();
        let dice = Dice { state: weather.seed ^ 0x9e37_79b9_7f4a_7c15 };
        Network {
            shared: Arc::new(Mutex::new(SimulatedShared {
                weather,
                dice,
                now: 0,
                posted: 0,
                inboxes,
                last_delivery: HashMap::new(),
                exposures: HashMap::new(),
                exposed: 0,
                shares: HashMap::new(),
                lost: Vec::new(),
                notices: BTreeMap::new(),
                steps: vec![Steps { taken: 0, ends_at: u64::MAX }; peers as usize],
            })),
        }
    }

    /// The fabric of one process.
    #[must_use]
    pub fn endpoint(&self, here: Peer) -> Simulated {
        Simulated {
            network: self.clone(),
            here,
            open: BTreeMap::new(),
            arriving: BTreeMap::new(),
            pulling: Vec::new(),
        }
    }

    /// The process dies: it does nothing any more, and everybody is told, each in its time and behind what
    /// comes from it.
    pub fn kill(&self, peer: Peer) {
        self.hold().kill(peer);
    }

    /// The process dies instead of its step of that number, counted from 1 since the beginning. A step is a
    /// call of its fabric that others can notice, or that takes something in.
    pub fn kill_at(&self, peer: Peer, step: u64) {
        self.hold().steps[peer.0 as usize].ends_at = step;
    }

    /// How many steps the process has taken.
    #[must_use]
    pub fn steps(&self, peer: Peer) -> u64 {
        self.hold().steps[peer.0 as usize].taken
    }

    /// Whether the process is dead.
    #[must_use]
    pub fn is_dead(&self, peer: Peer) -> bool {
        self.hold().lost.contains(&peer)
    }

    /// Memory that is exposed now, by all who live.
    #[must_use]
    pub fn exposures(&self) -> usize {
        self.hold().exposures.len()
    }

    /// Messages posted since the beginning.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.hold().posted
    }

    fn hold(&self) -> MutexGuard<'_, SimulatedShared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One process's end of a [`Network`].
pub struct Simulated {
    network: Network,
    here: Peer,
    /// Messages that `post` took partly, by receiver.
    open: BTreeMap<Peer, Flight>,
    /// Messages that come in chunks, by sender.
    arriving: BTreeMap<Peer, Arriving>,
    /// Pulls that end later.
    pulling: Vec<Pulling>,
}

impl Fabric for Simulated {
    type Lane = Peer;
    type Bell = Unbelled;

    fn name(&self) -> &'static str {
        "simulated"
    }

    fn address(&self) -> Vec<u8> {
        self.here.0.to_le_bytes().to_vec()
    }

    fn reach(&self, peer: Peer, address: &[u8]) -> Option<Cost> {
        let known = (peer.0 as usize) < self.network.hold().inboxes.len() && address == peer.0.to_le_bytes();
        known.then_some(Cost { latency_ns: 1000, mebibyte_ns: 100_000 })
    }

    fn connect(&mut self, peer: Peer, address: &[u8]) -> Result<Peer, FabricError> {
        self.reach(peer, address).map(|_| peer).ok_or_else(|| FabricError {
            fabric: "simulated",
            fault: Fault::Unreachable,
            what: format!("process {} is not part of this network", peer.0),
        })
    }

    fn limits(&self, _lane: Peer) -> Limits {
        let weather = self.network.hold().weather;
        Limits {
            eager_bytes_max: weather.eager_bytes_max,
            chunk_bytes_max: weather.chunk_bytes_max,
            pull: weather.pull,
            look: true,
        }
    }

    fn post(&mut self, lane: Peer, header: &Header, payload: Payload<'_>) -> Posted {
        let mut shared = self.network.hold();
        if !shared.step(self.here) || shared.is_busy(lane) {
            return Posted::Busy;
        }
        let mut flight = Flight { header: *header, bytes: payload.bytes(), payload: Vec::new() };
        let chance = shared.weather.partly_percent;
        if payload.bytes() > 1 && shared.dice.happens(chance) {
            let taken = 1 + shared.dice.below(payload.bytes() as u64 - 1) as usize;
            flight.payload = payload.part(0, taken).to_vec();
            drop(shared);
            self.open.insert(lane, flight);
            return Posted::Partly(taken);
        }
        flight.payload = payload.to_vec();
        shared.send(self.here, lane, flight);
        Posted::Sent
    }

    fn post_made(
        &mut self,
        lane: Peer,
        header: &Header,
        bytes: usize,
        write: impl FnOnce(&mut UserMemory),
    ) -> Option<Posted> {
        let mut shared = self.network.hold();
        // Now and then there is no memory for it.
        let chance = shared.weather.partly_percent;
        if shared.dice.happens(chance) {
            return None;
        }
        if !shared.step(self.here) || shared.is_busy(lane) {
            return Some(Posted::Busy);
        }
        let mut payload = vec![0; bytes];
        crate::made(&mut payload, write);
        shared.send(self.here, lane, Flight { header: *header, bytes, payload });
        Some(Posted::Sent)
    }

    fn resume(&mut self, lane: Peer, rest: Payload<'_>) -> Posted {
        let mut shared = self.network.hold();
        if !shared.step(self.here) || shared.is_busy(lane) {
            return Posted::Busy;
        }
        let flight = self.open.get_mut(&lane).expect("resume only follows a post that was taken partly");
        let chance = shared.weather.partly_percent;
        let partly = rest.bytes() > 1 && shared.dice.happens(chance);
        let taken =
            if partly { 1 + shared.dice.below(rest.bytes() as u64 - 1) as usize } else { rest.bytes() };
        flight.payload.extend(rest.part(0, taken).to_vec());
        if partly {
            return Posted::Partly(taken);
        }
        let flight = self.open.remove(&lane).expect("it was there a moment ago");
        assert_eq!(flight.payload.len(), flight.bytes, "the caller resumed with other bytes than the rest");
        shared.send(self.here, lane, flight);
        Posted::Sent
    }

    fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        if !self.network.hold().step(self.here) {
            return 0;
        }
        let mut happened = self.end_pulls(sink) + self.report_lost(sink) + self.go_on_arriving(sink);
        self.network.hold().now += 1;
        while happened < events {
            let Some((from, flight, in_chunks)) = self.take_next() else { break };
            if in_chunks {
                let memory = sink.arriving(from, &flight.header, flight.bytes);
                self.arriving.insert(from, Arriving { memory, payload: flight.payload, done: 0 });
            } else {
                sink.message(from, &flight.header, Payload::from(&flight.payload[..]));
            }
            happened += 1;
        }
        happened
    }

    fn look<R>(&mut self, lane: Peer, reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>) -> Looked<R> {
        let mut shared = self.network.hold();
        if !shared.step(self.here) {
            return Looked::Nothing;
        }
        let (now, chance) = (shared.now, shared.weather.chunks_percent);
        // What comes in chunks is left to a poll, and so is now and then what does not.
        let is_left = shared.dice.happens(chance);
        let inbox = &mut shared.inboxes[self.here.0 as usize];
        let (Some(due), Some(flights)) = (inbox.due.peek(), inbox.flights.get_mut(&lane)) else {
            return Looked::Nothing;
        };
        if due.from != lane || due.at > now || self.arriving.contains_key(&lane) {
            return Looked::Nothing;
        }
        let found = match flights.front() {
            Some(flight) if !is_left => reader(&flight.header, Payload::from(&flight.payload[..])),
            _ => None,
        };
        let Some(found) = found else { return Looked::Left };
        flights.pop_front();
        inbox.due.pop();
        inbox.messages -= 1;
        Looked::Taken(found)
    }

    fn bell(&self) -> Unbelled {
        Unbelled
    }

    fn register_memory(&mut self, _lane: Peer, memory: Payload<'_>) -> Exposed {
        let mut shared = self.network.hold();
        if !shared.step(self.here) {
            return Exposed::default();
        }
        shared.exposed += 1;
        let key = shared.exposed;
        shared.exposures.insert((self.here, key), memory.to_vec());
        Exposed { words: [key, memory.bytes() as u64] }
    }

    fn deregister_memory(&mut self, _peer: Peer, exposed: Exposed) {
        let mut shared = self.network.hold();
        if !shared.step(self.here) {
            return;
        }
        let was = shared.exposures.remove(&(self.here, exposed.words[0]));
        assert!(was.is_some(), "what is concealed was not exposed, or concealed before");
    }

    fn pull(
        &mut self,
        lane: Peer,
        exposed: Exposed,
        offset: usize,
        into: &mut UserMemory,
        ticket: u64,
    ) -> Pulled {
        let mut shared = self.network.hold();
        let Weather { refuse_percent, later_percent, delay_polls_max, pull, .. } = shared.weather;
        if !shared.step(self.here)
            || !pull
            || shared.lost.contains(&lane)
            || shared.dice.happens(refuse_percent)
        {
            return Pulled::Refused;
        }
        if shared.dice.happens(later_percent) {
            let due = shared.now + shared.dice.below(delay_polls_max + 1);
            let room = into.part(0, into.bytes());
            self.pulling.push(Pulling { from: lane, exposed, offset, room, ticket, due });
            return Pulled::Underway;
        }
        if shared.read(lane, exposed, offset, into) { Pulled::Done } else { Pulled::Refused }
    }

    fn takes_at_once(&mut self, _lane: Peer, _payload: Payload<'_>) -> bool {
        let mut shared = self.network.hold();
        let chance = shared.weather.at_once_percent;
        shared.dice.happens(chance)
    }

    fn rather_posted(&mut self, _lane: Peer, _exposed: Exposed, _bytes: usize) -> bool {
        let mut shared = self.network.hold();
        let chance = shared.weather.at_once_percent;
        shared.dice.happens(chance)
    }

    fn invite(&mut self, lane: Peer, _exposed: Exposed, into: &UserMemory) -> Option<Exposed> {
        let mut shared = self.network.hold();
        let chance = shared.weather.share_percent;
        if !shared.step(self.here) || into.bytes() < 2 || !shared.dice.happens(chance) {
            return None;
        }
        shared.exposed += 1;
        let (key, posted) = (shared.exposed, shared.posted);
        shared.shares.insert(key, SharedCopy { sender: lane, receiver: self.here, posted, left: None });
        Some(Exposed { words: [key, into.bytes() as u64] })
    }

    fn pull_shared(
        &mut self,
        lane: Peer,
        exposed: Exposed,
        invitation: Exposed,
        into: &mut UserMemory,
    ) -> PulledShared {
        let key = invitation.words[0];
        let own = {
            let mut shared = self.network.hold();
            if !shared.step(self.here) {
                return PulledShared::Refused { peer_brings: false };
            }
            let on_its_way = shared.shares.get(&key).is_some_and(|share| shared.posted > share.posted);
            if on_its_way { shared.dice.below(into.bytes() as u64) as usize } else { into.bytes() }
        };
        // What is refused here may be brought all the same, and is then sent anew.
        let mut shared = self.network.hold();
        let Weather { refuse_percent, pull, .. } = shared.weather;
        let refused = !pull || shared.lost.contains(&lane) || shared.dice.happens(refuse_percent);
        let pulled = !refused && shared.read(lane, exposed, 0, &mut into.part(0, own));
        let brings = own < into.bytes() && !shared.lost.contains(&lane);
        match shared.shares.get_mut(&key) {
            Some(share) if brings => share.left = Some((own, into.part(own, into.bytes()))),
            _ => drop(shared.shares.remove(&key)),
        }
        if pulled { PulledShared::Own(own) } else { PulledShared::Refused { peer_brings: brings } }
    }

    fn bring(&mut self, _lane: Peer, invitation: Exposed, memory: Payload<'_>) -> Brought {
        let mut shared = self.network.hold();
        if !shared.step(self.here) {
            return Brought { claimed: false, bytes: 0 };
        }
        let copy = shared.shares.remove(&invitation.words[0]);
        let Some((offset, mut room)) = copy.and_then(|share| share.left) else {
            return Brought { claimed: false, bytes: 0 };
        };
        let chance = shared.weather.refuse_percent;
        if shared.dice.happens(chance) {
            return Brought { claimed: true, bytes: 0 };
        }
        let bytes = room.bytes();
        room.write_at(0, memory.part(offset, bytes));
        Brought { claimed: true, bytes }
    }
}

impl Simulated {
    /// Tells the sink of the dead whose time to be told of has come: behind all that they have sent, unless
    /// that is cut off.
    fn report_lost(&mut self, sink: &mut impl Sink) -> usize {
        let told = {
            let mut shared = self.network.hold();
            let under_way = |peer: &Peer| self.arriving.contains_key(peer);
            shared.take_notices(self.here, under_way)
        };
        for &peer in &told {
            self.arriving.remove(&peer);
            self.open.remove(&peer);
            let what = format!("process {} was killed", peer.0);
            sink.lost(peer, FabricError { fabric: "simulated", fault: Fault::Died, what });
        }
        told.len()
    }

    /// Ends the pulls that are due, and those from peers that were killed.
    fn end_pulls(&mut self, sink: &mut impl Sink) -> usize {
        let mut shared = self.network.hold();
        let (now, refuse_percent) = (shared.now, shared.weather.refuse_percent);
        let is_over = |pulling: &mut Pulling| pulling.due <= now || shared.lost.contains(&pulling.from);
        let mut over: Vec<Pulling> = self.pulling.extract_if(.., is_over).collect();
        for pulling in &mut over {
            let Pulling { from, exposed, offset, room, ticket, .. } = pulling;
            let fails = shared.lost.contains(from) || shared.dice.happens(refuse_percent);
            let whole = !fails && shared.read(*from, *exposed, *offset, room);
            sink.pulled(*from, *ticket, whole);
        }
        over.len()
    }

    /// Brings each message that comes in chunks a chunk further.
    fn go_on_arriving(&mut self, sink: &mut impl Sink) -> usize {
        let mut landed = Vec::new();
        for (&from, arriving) in &mut self.arriving {
            let left = arriving.payload.len() - arriving.done;
            let chunk = (1 + self.network.hold().dice.below(left.max(1) as u64) as usize).min(left);
            let data = Payload::from(&arriving.payload[..]).part(arriving.done, chunk);
            arriving.memory.write_at(arriving.done, data);
            arriving.done += chunk;
            if arriving.done == arriving.payload.len() {
                landed.push(from);
            }
        }
        for from in &landed {
            self.arriving.remove(from);
            sink.landed(*from);
        }
        landed.len()
    }

    /// The next message that may be seen now, and whether it comes in chunks.
    fn take_next(&mut self) -> Option<(Peer, Flight, bool)> {
        let mut shared = self.network.hold();
        let now = shared.now;
        let inbox = &mut shared.inboxes[self.here.0 as usize];
        let due = inbox.due.peek()?;
        if due.at > now || self.arriving.contains_key(&due.from) {
            return None;
        }
        let from = inbox.due.pop()?.from;
        let flight = inbox.flights.get_mut(&from)?.pop_front()?;
        inbox.messages -= 1;
        let chance = shared.weather.chunks_percent;
        let in_chunks = flight.bytes > 0 && shared.dice.happens(chance);
        Some((from, flight, in_chunks))
    }
}

#[cfg(test)]
mod tests;
