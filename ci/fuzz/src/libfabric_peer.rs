//! The libfabric fabric: any frames of anybody, and any answers of a provider, while messages go the other
//! way.

use fabric::{Exposed, Fabric, Header, Heap, Peer, Posted, Pulled};
use libfabric::fuzzing::{Vandal, texts};
use libfabric::{Lane, Libfabric, Settings};
use libfabric_sys::mock::{self, Rules};

use crate::heard::Heard;
use crate::tape::{Tape, Writer};

/// Plays a tape against one process.
pub fn run(input: &[u8]) {
    texts(input);
    let mut tape = Tape::new(input);
    let mut stage = ProviderStage::new(&mut tape);
    while !tape.is_over() {
        stage.step(&mut tape);
    }
    stage.finish();
}

struct ProviderStage {
    victim: Libfabric,
    vandal: Vandal,
    heard: Heard,
    lane: Option<Lane>,
    memory: Heap,
    /// How much of a message was taken, and of how many bytes it is.
    partly: Option<(usize, usize)>,
    shown: Vec<Exposed>,
    pulls: usize,
    /// The number of the next frame of each peer.
    sequences: [u32; PEERS as usize],
}

impl ProviderStage {
    fn new(tape: &mut Tape<'_>) -> ProviderStage {
        let demands = tape.byte();
        let library = mock::library(Rules {
            seed: tape.byte().into(),
            local: demands & 1 != 0,
            by_address: demands & 2 != 0,
            provider_keys: demands & 4 != 0,
            by_endpoint: demands & 8 != 0,
            key_bytes: if demands & 16 != 0 { 4 } else { 8 },
            inject_bytes_max: 4096,
            message_bytes_max: 5000,
            busy_percent: if demands & 32 != 0 { 30 } else { 0 },
            failing_percent: if demands & 64 != 0 { 5 } else { 0 },
            reorders: demands & 128 != 0,
            ..Rules::NONE
        });
        let settings =
            Settings { provider: Some(mock::PROVIDER.to_owned()), peers: PEERS, ..Settings::default() };
        let victim = Libfabric::open_with(VICTIM, library, &settings).expect("a fabric opens");
        let vandal = Vandal::at(&victim, library);
        let mut heard = Heard::default();
        heard.admitted.extend((0..PEERS).map(Peer).filter(|peer| *peer != VICTIM));
        ProviderStage {
            victim,
            vandal,
            heard,
            lane: None,
            memory: Heap::new(1 << 16),
            partly: None,
            shown: Vec::new(),
            pulls: 0,
            sequences: [0; PEERS as usize],
        }
    }

    fn step(&mut self, tape: &mut Tape<'_>) {
        match tape.below(12) {
            0 => self.hello(tape.byte()),
            1..=3 => self.frame(tape),
            4 => {
                let length = usize::from(tape.byte());
                self.vandal.raw(tape.chunk(length));
            }
            5 | 6 => self.poll(1 + usize::from(tape.below(32))),
            7 => {
                let length = usize::from(tape.byte());
                let address = tape.chunk(length);
                let _ = self.victim.connect(VANDAL, address);
            }
            8 => self.connect(),
            9 => self.post(tape.short().into()),
            10 => self.pull(tape),
            _ => self.show_or_hide(tape.short().into()),
        }
    }

    /// The vandal says who it is, or a peer whose turn it is says that it is the vandal.
    fn hello(&mut self, who: u8) {
        let card = self.vandal.card();
        self.say(u32::from(who) % PEERS, (0, None, 0), &card);
    }

    fn frame(&mut self, tape: &mut Tape<'_>) {
        let (from, kind, wrong) = (u32::from(tape.below(PEERS as u8 + 1)), tape.byte(), tape.byte());
        let sequence = (wrong & 1 != 0).then(|| tape.word());
        let seal = u32::from(wrong == 0xff);
        let length = usize::from(tape.byte());
        self.say(from, (seal, sequence, kind), tape.chunk(length));
    }

    fn say(&mut self, from: u32, (seal, sequence, kind): (u32, Option<u32>, u8), payload: &[u8]) {
        let next = self.sequences.get(from as usize).copied().unwrap_or_default();
        let gone = self.vandal.frame(Peer(from), (seal, sequence.unwrap_or(next), kind), payload);
        if let Some(next) = self.sequences.get_mut(from as usize).filter(|_| gone && sequence.is_none()) {
            *next += 1;
        }
    }

    fn poll(&mut self, events: usize) {
        self.victim.poll(&mut self.heard, events);
        self.pulls -= self.heard.pulled;
        self.heard.pulled = 0;
    }

    fn connect(&mut self) {
        if self.lane.is_none() && !self.heard.lost.contains(&VANDAL) {
            self.lane = self.victim.connect(VANDAL, &self.vandal.card()).ok();
        }
    }

    fn post(&mut self, bytes: usize) {
        let Some(lane) = self.lane else { return };
        let before = self.partly.take();
        let (done, bytes) = before.unwrap_or((0, bytes));
        let payload = self.memory.payload().part(0, bytes);
        let posted = match before {
            None => self.victim.post(lane, &Header::default(), payload),
            Some(_) => self.victim.resume(lane, payload.after(done)),
        };
        match posted {
            Posted::Partly(more) => {
                assert!(done + more < bytes, "{done} and {more} of {bytes} bytes are not a part");
                self.partly = Some((done + more, bytes));
            }
            Posted::Busy => self.partly = before,
            Posted::Sent => {}
        }
    }

    /// What a peer says of its memory is not believed by whoever reads it.
    fn pull(&mut self, tape: &mut Tape<'_>) {
        let Some(lane) = self.lane else { return };
        let exposed = Exposed { words: [tape.long(), tape.word().into()] };
        let mut room = Heap::new(tape.short().into()).memory();
        let pulled = self.victim.pull(lane, exposed, tape.byte().into(), &mut room, 7);
        self.pulls += usize::from(pulled == Pulled::Underway);
    }

    fn show_or_hide(&mut self, bytes: usize) {
        let Some(lane) = self.lane else { return };
        match self.shown.pop() {
            Some(exposed) if bytes.is_multiple_of(2) => self.victim.deregister_memory(VANDAL, exposed),
            shown => {
                self.shown.extend(shown);
                self.shown.push(self.victim.register_memory(lane, self.memory.payload().part(0, bytes)));
            }
        }
    }

    /// Whatever was said: what is read ends, and who leaves is not kept once it is known that the others, who
    /// take nothing, have gone.
    fn finish(mut self) {
        for turn in 0.. {
            self.poll(64);
            if turn == 100 {
                (0..PEERS).for_each(|peer| self.victim.let_go(Peer(peer)));
            }
            if self.pulls == 0 && self.victim.leave() {
                break;
            }
            assert!(turn < 10_000, "{} pulls do not end, or leaving does not", self.pulls);
        }
        assert_eq!(mock::broken_rules(), [""; 0]);
    }
}

/// Peers that speak in turn, out of turn and over each other.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let tape = || Writer::default().bytes(&[0, 0]);
    let frame = |kind: u8, payload: &[u8]| {
        Writer::default().bytes(&[1, 3, kind, 0]).counted(payload.len() as u8, payload).0
    };
    let long = |bytes: u64, first: &[u8]| frame(2, &[&bytes.to_le_bytes()[..], first].concat());
    let all = |parts: &[&[u8]]| tape().bytes(&parts.concat()).0;
    let hello: &[u8] = &[0, 3];
    let poll: &[u8] = &[5, 31];
    vec![
        ("hello", all(&[hello, poll])),
        ("message", all(&[hello, &frame(1, b"hello"), poll])),
        ("chunks", all(&[hello, &long(9, b"abc"), &frame(3, b"defghi"), poll])),
        ("too-long", all(&[hello, &long(9, b"abc"), &frame(3, b"defghij"), poll])),
        ("within", all(&[hello, &long(9, b"abc"), &frame(1, b"x"), poll])),
        ("out-of-turn", all(&[&[1, 3, 1, 1, 1, 0, 0, 0, 1, b'x'], hello, poll])),
        ("farewell", all(&[hello, &frame(5, &[]), poll, &[8, 9, 5, 0], poll])),
        ("posting", all(&[&[8, 9, 5, 0], poll, &[9, 0xff, 0xff, 9, 0, 0], poll])),
        ("pulling", all(&[&[8, 10, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 100, 0, 0], poll])),
        ("showing", all(&[&[8, 11, 101, 0, 11, 100, 0], poll])),
        (
            "everything",
            Writer::default()
                .bytes(&[0xff, 7])
                .bytes(&all(&[hello, &long(9, b"abc"), &[8, 9, 0, 99], poll])[2..])
                .0,
        ),
    ]
}

const VICTIM: Peer = Peer(0);
const VANDAL: Peer = Peer(3);
const PEERS: u32 = 5;
