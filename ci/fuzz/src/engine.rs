//! An engine above a fabric whose peers say anything: any header with any payload, whole or in chunks, for
//! requests that exist and for those that do not, while the program sends, receives, probes and cancels.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use fabric::{
    Brought, Cost, Exposed, Fabric, FabricError, Fault, Header, Heap, Limits, Looked, Payload, Peer, Posted,
    Pulled, PulledShared, Sink, Unbelled, UserMemory,
};
use messaging::{
    Engine, Envelope, EveryoneHere, Message, Mode, Pattern, Rank, Receiving, RequestId, Sending, Settings,
};

use crate::memory::reading;
use crate::tape::{Tape, Writer};

/// Plays a tape against an engine.
pub fn run(input: &[u8]) {
    let mut tape = Tape::new(input);
    let mut stage = EngineStage::new();
    while !tape.is_over() {
        stage.step(&mut tape);
    }
    stage.finish();
}

/// The engine with its program, and the wire that both share with the script.
struct EngineStage {
    engine: Engine<Scripted>,
    wire: Shared,
    /// Memory that sends read from; it must outlive them.
    sent: Vec<Heap>,
    requests: Vec<RequestId>,
    matched: Vec<Message>,
    delivered_bytes: usize,
}

impl EngineStage {
    fn new() -> EngineStage {
        let wire = Shared::default();
        let settings = Settings { unexpected_bytes_max: 4000 };
        let engine = Engine::new(Scripted(wire.clone()), PEERS, Box::new(EveryoneHere), settings);
        EngineStage {
            engine,
            wire,
            sent: Vec::new(),
            requests: Vec::new(),
            matched: Vec::new(),
            delivered_bytes: 0,
        }
    }

    fn step(&mut self, tape: &mut Tape<'_>) {
        match tape.below(12) {
            0 => self.send(tape),
            1 => self.receive(tape),
            2 | 3 => self.deliver(tape),
            4 => self.answer(tape),
            5 => drop(self.engine.progress()),
            6 => self.test(usize::from(tape.byte())),
            7 => self.cancel(usize::from(tape.byte())),
            8 => self.probe(tape),
            9 => self.receive_matched(tape),
            10 => self.wire.hold().moods.extend(tape.array::<4>()),
            _ => self.lose(u32::from(tape.below(PEERS as u8))),
        }
    }

    fn send(&mut self, tape: &mut Tape<'_>) {
        let (to, envelope) = (Peer(u32::from(tape.below(PEERS as u8))), envelope(tape));
        let (mode, bytes) = (tape.byte(), usize::from(tape.short()) % 3000);
        let mode = if mode & 1 == 0 { Mode::Standard } else { Mode::Synchronous };
        let heap = Heap::new(bytes);
        let payload = reading(&heap);
        self.sent.push(heap);
        if let Ok(Sending::Pending(request)) = self.engine.send(to, envelope, payload, mode) {
            self.requests.push(request);
        }
    }

    fn receive(&mut self, tape: &mut Tape<'_>) {
        let pattern = pattern(tape);
        let bytes = usize::from(tape.short()) % 3000;
        let from = pattern.source.map(|source| Peer(source.0 % PEERS));
        if let Receiving::Pending(request) = self.engine.receive(pattern, from, Heap::new(bytes).memory()) {
            self.requests.push(request);
        }
    }

    /// A peer sends any header. Its words are small numbers more often than wild ones.
    fn deliver(&mut self, tape: &mut Tape<'_>) {
        let how = tape.byte();
        let mut words = [u32::from(how & 15), 0, 0, 0, 0, 0];
        for word in &mut words[1..] {
            *word = if how & 128 == 0 { u32::from(tape.below(4)) } else { tape.word() };
        }
        let length = usize::from(tape.byte());
        let (from, in_chunks) = (u32::from(tape.below(PEERS as u8)), how & 64 != 0);
        let payload = tape.chunk(length).to_vec();
        // A chunk may announce more than it will ever send.
        let bytes = if how & 32 == 0 { payload.len() } else { tape.long() as usize >> ((how & 7) * 8) };
        self.incoming(from, Header { words }, payload, in_chunks.then_some(bytes));
    }

    /// A peer answers what was posted to it, as a sane one would or nearly so.
    fn answer(&mut self, tape: &mut Tape<'_>) {
        let (which, twist) = (usize::from(tape.byte()), tape.byte());
        let (to, header, payload) = {
            let wire = self.wire.hold();
            if wire.posted.is_empty() {
                return;
            }
            wire.posted[which % wire.posted.len()].clone()
        };
        let [kind, first, second, third, fourth, fifth] = header.words;
        let own = [u32::from(twist & 3), u32::from(twist >> 6)];
        let (words, body) = match kind {
            // To a request, that it is cleared or that help is wanted; to a synchronous message, that it is
            // matched or comes back.
            2 | 3 if twist & 16 == 0 => ([6, fourth, fifth, u32::from(twist & 8 != 0), 0, 0], Vec::new()),
            3 if twist & 4 != 0 => ([9, fourth, fifth, 0, own[0], own[1]], tape.array::<16>().to_vec()),
            2 | 3 => ([4, fourth, fifth, 0, own[0], own[1]], u64::from(tape.short()).to_le_bytes().to_vec()),
            // To an invitation, that some of it was brought.
            9 => ([10, fourth, fifth, 0, 0, 0], u64::from(tape.short()).to_le_bytes().to_vec()),
            // To a question for a message, that it comes back.
            13 => ([6, first, second, u32::from(twist & 8 == 0), 0, 0], Vec::new()),
            // To a clearance, the data, with a length that fits or does not.
            4 => ([5, fourth, fifth, 0, 0, 0], vec![1; wanted(&payload) + usize::from(twist & 16 != 0)]),
            // To anything else, the same back.
            _ => ([kind, first, second, third, fourth, fifth], payload),
        };
        let bytes = body.len();
        let in_chunks = (twist & 32 != 0).then_some(bytes);
        self.incoming(to.0, Header { words }, body, in_chunks);
    }

    fn incoming(&mut self, from: u32, header: Header, payload: Vec<u8>, announced: Option<usize>) {
        self.delivered_bytes +=
            payload.len().max(announced.unwrap_or(0).min(ANNOUNCED_BYTES_KEPT)) + OVERHEAD;
        let mut wire = self.wire.hold();
        wire.incoming.push_back(Incoming { from: Peer(from), header, payload, announced });
    }

    fn test(&mut self, which: usize) {
        if self.requests.is_empty() {
            return;
        }
        let at = which % self.requests.len();
        if self.engine.test(self.requests[at]).is_some() {
            assert!(self.engine.test(self.requests[at]).is_none(), "a request ends once");
            self.requests.swap_remove(at);
        }
    }

    fn cancel(&mut self, which: usize) {
        if !self.requests.is_empty() {
            self.engine.cancel(self.requests[which % self.requests.len()]);
        }
    }

    fn probe(&mut self, tape: &mut Tape<'_>) {
        let pattern = pattern(tape);
        let seen = self.engine.probe(&pattern);
        if let Some(message) = self.engine.take(&pattern) {
            assert_eq!(Some(message.probed()), seen, "a probe told of another message");
            self.matched.push(message);
        }
    }

    fn receive_matched(&mut self, tape: &mut Tape<'_>) {
        let Some(message) = self.matched.pop() else { return };
        let memory = Heap::new(usize::from(tape.short()) % 3000).memory();
        if let Receiving::Pending(request) = self.engine.receive_matched(message, memory) {
            self.requests.push(request);
        }
    }

    fn lose(&mut self, peer: u32) {
        let mut wire = self.wire.hold();
        wire.incoming.retain(|incoming| incoming.from != Peer(peer));
        wire.losing.push(Peer(peer));
    }

    /// Whatever was said, the engine can be told that everybody is gone, and then nothing waits any more but
    /// receives from anybody.
    fn finish(mut self) {
        let unexpected = self.engine.unexpected_bytes();
        assert!(unexpected <= self.delivered_bytes, "{unexpected} bytes kept of {}", self.delivered_bytes);
        for peer in 0..PEERS {
            self.lose(peer);
        }
        for _ in 0..8 {
            self.engine.progress();
        }
        for request in std::mem::take(&mut self.requests) {
            self.engine.cancel(request);
            let over = self.engine.test(request).is_some();
            assert!(over, "a request outlives everybody:\n{}", self.engine.describe());
        }
    }
}

fn wanted(payload: &[u8]) -> usize {
    payload
        .first_chunk()
        .map_or(0, |bytes| usize::try_from(u64::from_le_bytes(*bytes)).unwrap_or(0).min(4000))
}

fn envelope(tape: &mut Tape<'_>) -> Envelope {
    let choice = tape.byte();
    Envelope {
        context: u32::from(choice & 1),
        source: Rank(u32::from(choice >> 1 & 3)),
        tag: i32::from(choice >> 3 & 3),
    }
}

fn pattern(tape: &mut Tape<'_>) -> Pattern {
    let (Envelope { context, source, tag }, wild) = (envelope(tape), tape.byte());
    Pattern { context, source: (wild & 1 == 0).then_some(source), tag: (wild & 2 == 0).then_some(tag) }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Wire>>);

impl Shared {
    fn hold(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().expect("a finding has ended the run")
    }
}

/// What the script and the fabric share.
#[derive(Default)]
struct Wire {
    incoming: VecDeque<Incoming>,
    losing: Vec<Peer>,
    lost: Vec<Peer>,
    /// What the engine has posted whole.
    posted: Vec<(Peer, Header, Vec<u8>)>,
    /// The message that each peer gets a part at a time.
    partly: HashMap<Peer, (Header, Vec<u8>)>,
    arriving: HashMap<Peer, Arriving>,
    /// Pulls that end with a later turn: from whom, under which ticket, and where the bytes go.
    pulling: Vec<(Peer, u64, UserMemory)>,
    /// How the next posts and pulls are answered.
    moods: VecDeque<u8>,
}

/// Something a peer says.
struct Incoming {
    from: Peer,
    header: Header,
    payload: Vec<u8>,
    /// In chunks, with this many bytes announced.
    announced: Option<usize>,
}

struct Arriving {
    memory: UserMemory,
    payload: Vec<u8>,
    announced: usize,
    done: usize,
}

impl Wire {
    fn mood(&mut self) -> u8 {
        self.moods.pop_front().unwrap_or(0)
    }

    /// Takes a message, a part of it, or nothing.
    fn take(&mut self, to: Peer, header: Header, payload: Payload<'_>, before: Vec<u8>) -> Posted {
        let mood = self.mood();
        let all = payload.bytes();
        let taken = if mood & 2 == 0 { all } else { usize::from(mood >> 2) % all.max(1) };
        let mut bytes = before;
        bytes.extend(payload.part(0, taken).to_vec());
        if taken == all {
            self.partly.remove(&to);
            self.posted.push((to, header, bytes));
            return Posted::Sent;
        }
        self.partly.insert(to, (header, bytes));
        Posted::Partly(taken)
    }

    fn report(&mut self, sink: &mut impl Sink) -> usize {
        let mut happened = self.pulling.len();
        for (from, ticket, mut room) in std::mem::take(&mut self.pulling) {
            let whole = self.mood() & 1 == 0 && !self.losing.contains(&from);
            if whole {
                room.write_at(0, Payload::from(&vec![2; room.bytes()][..]));
            }
            sink.pulled(from, ticket, whole);
        }
        for peer in std::mem::take(&mut self.losing) {
            if !self.lost.contains(&peer) {
                self.lost.push(peer);
                self.arriving.remove(&peer);
                self.partly.remove(&peer);
                let what = "the script said so".into();
                sink.lost(peer, FabricError { fabric: "scripted", fault: Fault::Died, what });
                happened += 1;
            }
        }
        happened + self.go_on(sink)
    }

    /// Brings what arrives a chunk further.
    fn go_on(&mut self, sink: &mut impl Sink) -> usize {
        let mut landed = Vec::new();
        for (&from, arriving) in &mut self.arriving {
            let left = arriving.payload.len() - arriving.done;
            let chunk = left.div_ceil(2);
            let bytes = &arriving.payload[arriving.done..arriving.done + chunk];
            arriving.memory.write_at(arriving.done, Payload::from(bytes));
            arriving.done += chunk;
            if arriving.done == arriving.announced {
                landed.push(from);
            }
        }
        landed.sort();
        for from in &landed {
            self.arriving.remove(from);
            sink.landed(*from);
        }
        landed.len()
    }
}

/// The fabric below the engine.
struct Scripted(Shared);

impl Fabric for Scripted {
    type Lane = Peer;
    type Bell = Unbelled;

    fn name(&self) -> &'static str {
        "scripted"
    }

    fn address(&self) -> Vec<u8> {
        Vec::new()
    }

    fn reach(&self, _: Peer, _: &[u8]) -> Option<Cost> {
        None
    }

    fn connect(&mut self, peer: Peer, _: &[u8]) -> Result<Peer, FabricError> {
        let what = "the script does not want it".into();
        match self.0.hold().mood() {
            mood if mood & 1 == 0 => Ok(peer),
            _ => Err(FabricError { fabric: "scripted", fault: Fault::Unreachable, what }),
        }
    }

    fn limits(&self, lane: Peer) -> Limits {
        Limits { eager_bytes_max: 500, chunk_bytes_max: 200, pull: lane.0.is_multiple_of(2), look: true }
    }

    fn post(&mut self, lane: Peer, header: &Header, payload: Payload<'_>) -> Posted {
        let mut wire = self.0.hold();
        assert!(!wire.partly.contains_key(&lane), "a post in the midst of another message");
        if wire.mood() & 1 != 0 {
            return Posted::Busy;
        }
        wire.take(lane, *header, payload, Vec::new())
    }

    fn resume(&mut self, lane: Peer, rest: Payload<'_>) -> Posted {
        let mut wire = self.0.hold();
        if wire.mood() & 1 != 0 {
            return Posted::Busy;
        }
        let (header, before) =
            wire.partly.remove(&lane).expect("resume follows a post that was taken partly");
        wire.take(lane, header, rest, before)
    }

    fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        let mut wire = self.0.hold();
        let mut happened = wire.report(sink);
        while happened < events {
            let at = wire.incoming.iter().position(|incoming| !wire.arriving.contains_key(&incoming.from));
            let Some(Incoming { from, header, payload, announced }) =
                at.and_then(|at| wire.incoming.remove(at))
            else {
                break;
            };
            happened += 1;
            if wire.lost.contains(&from) {
                continue;
            }
            match announced {
                None => sink.message(from, &header, Payload::from(&payload[..])),
                Some(announced) => {
                    let mut payload = payload;
                    payload.truncate(announced);
                    let memory = sink.arriving(from, &header, announced);
                    wire.arriving.insert(from, Arriving { memory, payload, announced, done: 0 });
                }
            }
        }
        happened
    }

    fn look<R>(&mut self, lane: Peer, reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>) -> Looked<R> {
        let mut wire = self.0.hold();
        let at = wire.incoming.iter().position(|incoming| incoming.from == lane);
        let is_nothing = wire.arriving.contains_key(&lane) || wire.lost.contains(&lane);
        let Some(at) = at.filter(|_| !is_nothing) else { return Looked::Nothing };
        let Incoming { header, payload, announced, .. } = &wire.incoming[at];
        let found = match announced {
            None => reader(header, Payload::from(&payload[..])),
            Some(_) => None,
        };
        let Some(found) = found else { return Looked::Left };
        wire.incoming.remove(at);
        Looked::Taken(found)
    }

    fn bell(&self) -> Unbelled {
        Unbelled
    }

    fn register_memory(&mut self, _: Peer, memory: Payload<'_>) -> Exposed {
        Exposed { words: [1, memory.bytes() as u64] }
    }

    fn takes_at_once(&mut self, _: Peer, _: Payload<'_>) -> bool {
        self.0.hold().mood() & 8 != 0
    }

    fn pull(&mut self, from: Peer, _: Exposed, _: usize, into: &mut UserMemory, ticket: u64) -> Pulled {
        let mut wire = self.0.hold();
        match wire.mood() {
            mood if mood & 1 != 0 => return Pulled::Refused,
            mood if mood & 2 != 0 => {
                wire.pulling.push((from, ticket, into.part(0, into.bytes())));
                return Pulled::Underway;
            }
            _ => {}
        }
        into.write_at(0, Payload::from(&vec![2; into.bytes()][..]));
        Pulled::Done
    }

    fn invite(&mut self, _: Peer, _: Exposed, into: &UserMemory) -> Option<Exposed> {
        (self.0.hold().mood() & 4 != 0).then(|| Exposed { words: [7, into.bytes() as u64] })
    }

    fn pull_shared(&mut self, _: Peer, _: Exposed, _: Exposed, into: &mut UserMemory) -> PulledShared {
        let mood = self.0.hold().mood();
        if mood & 1 != 0 {
            return PulledShared::Refused { peer_brings: mood & 2 != 0 };
        }
        let own = into.bytes() * usize::from(mood >> 2) / 63;
        into.write_at(0, Payload::from(&vec![2; own][..]));
        PulledShared::Own(own)
    }

    fn bring(&mut self, _: Peer, _: Exposed, memory: Payload<'_>) -> Brought {
        let mood = self.0.hold().mood();
        let claimed = mood & 1 != 0;
        Brought { claimed, bytes: if claimed { memory.bytes() * usize::from(mood >> 2) / 63 } else { 0 } }
    }
}

/// Every protocol from both ends.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let tape = Writer::default;
    let deliver = |how: u8, words: [u8; 5], payload: &[u8]| {
        [&[2, how][..], &words, &[payload.len() as u8, 1], payload].concat()
    };
    let receive = [1, 2, 0, 200, 0];
    let offer = [&[100, 0, 0, 0, 0, 0, 0, 0][..], &[0; 16]].concat();
    vec![
        ("eager", tape().bytes(&receive).bytes(&deliver(1, [0, 1, 0, 0, 0], b"hello")).bytes(&[5, 6, 0]).0),
        ("unexpected", tape().bytes(&deliver(1, [0, 1, 0, 0, 0], b"hello")).bytes(&[5]).bytes(&receive).0),
        (
            "synchronous",
            tape().bytes(&receive).bytes(&deliver(2, [0, 1, 0, 3, 0], b"hello")).bytes(&[5, 5]).0,
        ),
        (
            "request",
            tape().bytes(&receive).bytes(&deliver(3, [0, 1, 0, 3, 0], &offer)).bytes(&[5, 5, 4, 0, 0, 5]).0,
        ),
        (
            "chunks",
            tape()
                .bytes(&receive)
                .bytes(&deliver(1 | 64, [0, 1, 0, 0, 0], &[7; 90]))
                .bytes(&[5, 5, 5, 5, 5, 5, 5, 5])
                .0,
        ),
        (
            "shared",
            tape()
                .bytes(&[10, 0, 0, 4, 60])
                .bytes(&receive)
                .bytes(&deliver(3, [0, 1, 0, 3, 0], &offer))
                .bytes(&[5, 5, 4, 0, 0, 100, 0, 5, 6, 0])
                .0,
        ),
        (
            "brought",
            tape()
                .bytes(&[0, 1, 0, 0, 184, 11, 5, 10, 1, 255, 0, 0, 4, 0, 20])
                .bytes(&[0; 16])
                .bytes(&[5, 5, 6, 0])
                .0,
        ),
        ("rendezvous", tape().bytes(&[0, 1, 0, 0, 184, 11, 5, 4, 0, 16, 100, 0, 5, 5, 6, 0]).0),
        ("done", tape().bytes(&[0, 1, 0, 1, 100, 0, 5, 4, 0, 0, 5, 6, 0]).0),
        (
            "choke",
            tape()
                .bytes(&deliver(7, [0; 5], b""))
                .bytes(&[5, 0, 1, 0, 0, 10, 0, 5])
                .bytes(&deliver(8, [0; 5], b""))
                .bytes(&[5])
                .0,
        ),
        ("probe", tape().bytes(&deliver(1, [0, 1, 0, 0, 0], b"hi")).bytes(&[5, 8, 2, 0, 9, 9, 0]).0),
        ("lost", tape().bytes(&receive).bytes(&[11, 1, 5, 6, 0]).0),
        ("busy", tape().bytes(&[10, 1, 3, 255, 2, 0, 1, 0, 0, 100, 0, 5, 5, 5]).0),
    ]
}

const PEERS: u32 = 4;
/// What a message costs beyond its bytes, at most.
const OVERHEAD: usize = 256;
/// The engine allocates at most so much for a message that is only announced.
const ANNOUNCED_BYTES_KEPT: usize = 16 << 20;
