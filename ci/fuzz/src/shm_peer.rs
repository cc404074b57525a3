//! A process of the node that writes what it likes into shared memory, at any moment between two calls of
//! another. The other gets an error that names it, and goes on talking to an honest third.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use fabric::{Fabric, Header, Payload, Peer, Posted};
use shm::{Segment, Settings, Shm, ShmLane, fuzzing};

use crate::heard::Heard;
use crate::tape::{Tape, Writer, say};

/// Plays a tape against a node of three.
pub fn run(input: &[u8]) {
    SEGMENT.with_borrow_mut(|segment| {
        let mut tape = Tape::new(input);
        let mut node = Node::open(segment);
        while !tape.is_over() {
            node.step(&mut tape);
        }
        node.honest_peers_still_talk();
    });
}

/// A client connects to fetch a segment and sends any bytes, in chunks.
pub fn client(input: &[u8]) {
    SEGMENT.with_borrow_mut(|segment| {
        let mut tape = Tape::new(input);
        let secret = [3; 16];
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        ours.set_nonblocking(true).expect("a fuzzer must not block");
        let mut client = fuzzing::FuzzedClient::new(OwnedFd::from(ours));
        let mut said = Vec::new();
        while !tape.is_over() {
            let length = usize::from(tape.byte());
            let chunk = tape.chunk(length);
            said.extend(chunk);
            say(&theirs, chunk);
            match client.go_on(secret, segment.file().as_fd()) {
                Some(true) => {
                    assert!(said.starts_with(&secret) && said.len() > secret.len(), "served for {said:?}");
                    return;
                }
                Some(false) => return,
                None => {}
            }
        }
    });
}

thread_local! {
    /// Mapped once; each run puts the part that it uses back to what a new segment holds. Of many seats,
    /// since their rings are the smallest, so that few steps reach every corner.
    static SEGMENT: RefCell<Segment> = RefCell::new({
        let segment = Segment::create(SEATS).and_then(|file| Segment::adopt(file, SEATS)).expect("a segment");
        for from in 0..3 {
            for to in 0..3 {
                fuzzing::reserve(&segment, fuzzing::ring(&segment, from, to));
            }
        }
        segment
    });
}

struct Node<'a> {
    segment: &'a Segment,
    victim: Shm,
    /// As a sane process has it; what the tape writes besides is beyond it.
    vandal: Shm,
    honest: Shm,
    to_vandal: ShmLane,
    from_vandal: ShmLane,
    to_victim: ShmLane,
    to_honest: ShmLane,
    /// The rest of a message to the vandal that was taken partly.
    unsent: usize,
    heard: Heard,
    honest_heard: Heard,
    vandal_heard: Heard,
    sent_by_honest: u32,
}

impl Node<'_> {
    fn open(segment: &Segment) -> Node<'_> {
        for seat in 0..3 {
            let (offset, bytes) = fuzzing::process_slot(segment, seat);
            fuzzing::write(segment, offset, &vec![0; bytes]);
            for to in 0..3 {
                let (offset, bytes) = fuzzing::ring(segment, seat, to);
                fuzzing::write(segment, offset, &vec![0; bytes]);
            }
        }
        let open = |seat| {
            let settings = Settings { pull: false, ..Settings::default() };
            Shm::open(segment.clone(), seat, vec![VICTIM, VANDAL, HONEST], settings).expect("a seat")
        };
        let (mut victim, mut vandal, mut honest) = (open(0), open(1), open(2));
        let to_vandal = victim.connect(VANDAL, &vandal.address()).expect("a lane");
        let to_honest = victim.connect(HONEST, &honest.address()).expect("a lane");
        let to_victim = honest.connect(VICTIM, &victim.address()).expect("a lane");
        let from_vandal = vandal.connect(VICTIM, &victim.address()).expect("a lane");
        let mut vandal_heard = Heard::default();
        vandal_heard.admitted.extend([VICTIM]);
        let mut heard = Heard::default();
        heard.admitted.extend([VANDAL, HONEST]);
        heard.kept = Some((HONEST, Vec::new()));
        let mut honest_heard = Heard::default();
        honest_heard.admitted.extend([VICTIM]);
        Node {
            segment,
            victim,
            vandal,
            from_vandal,
            vandal_heard,
            honest,
            to_vandal,
            to_victim,
            to_honest,
            unsent: 0,
            heard,
            honest_heard,
            sent_by_honest: 0,
        }
    }

    fn step(&mut self, tape: &mut Tape<'_>) {
        match tape.below(17) {
            0 | 1 => self.write_line(tape),
            2 => {
                let (at, bytes) = (tape.short(), usize::from(tape.byte()));
                self.write(fuzzing::ring(self.segment, 1, 0), at, tape.chunk(bytes));
            }
            3 => {
                let (at, bytes) = (tape.byte(), usize::from(tape.byte()));
                self.write(fuzzing::ring(self.segment, 0, 1), u16::from(at), tape.chunk(bytes));
            }
            4 => {
                let (at, bytes) = (tape.byte(), usize::from(tape.byte()));
                self.write(fuzzing::process_slot(self.segment, 1), u16::from(at), tape.chunk(bytes));
            }
            5 => self.knock(tape.short(), tape.word()),
            6 => self.knock(0, 1 << 1),
            7 | 8 => {
                self.victim.poll(&mut self.heard, 8);
            }
            9 => self.post(usize::from(tape.short())),
            10 => {
                self.honest_sends(usize::from(tape.short()));
            }
            11 => {
                self.honest.poll(&mut self.honest_heard, 8);
            }
            12 => {
                let data = vec![3; usize::from(tape.short()) % 2000];
                let _ = self.vandal.post(self.from_vandal, &Header::default(), Payload::from(&data[..]));
            }
            13 => {
                self.vandal.poll(&mut self.vandal_heard, 8);
            }
            14 => self.write_letter(tape),
            15 => self.claim(tape),
            _ => {
                let (at, bytes) = (tape.short(), usize::from(tape.byte()));
                self.write(fuzzing::single_slot(self.segment, 0, 1), at, tape.chunk(bytes));
            }
        }
    }

    /// A line that is nearly right: sequence number, kind and length, header, and the first bytes of payload.
    fn write_line(&mut self, tape: &mut Tape<'_>) {
        let (slot, sequence) = (tape.byte(), tape.byte());
        let (kind, length) = (u32::from(tape.byte()) << 30, u32::from(tape.short()));
        let total = tape.word();
        let mut line = [0; 64];
        line[..4].copy_from_slice(&u32::from(sequence).to_le_bytes());
        line[4..8].copy_from_slice(&(kind | length).to_le_bytes());
        line[32..36].copy_from_slice(&total.to_le_bytes());
        let at = LINES_AT + u16::from(slot % 62) * 64;
        self.write(fuzzing::ring(self.segment, 1, 0), at, &line);
    }

    /// Claims parts of a copy whose cursor the vandal may have written.
    fn claim(&mut self, tape: &mut Tape<'_>) {
        let (choice, bytes) = (tape.byte(), tape.word() as usize);
        let (from, to) = if choice & 1 == 0 { (0, 1) } else { (1, 0) };
        let ring = fuzzing::ring(self.segment, from, to);
        for _ in 0..300 {
            let ticket = u16::from(choice >> 2);
            let Some((offset, part)) = fuzzing::claim(self.segment, ring, ticket, bytes, choice & 2 == 0)
            else {
                return;
            };
            assert!(offset + part <= bytes, "{part} bytes at {offset} of {bytes}");
        }
        panic!("a copy has no end");
    }

    /// A message in the single-slot channel that is nearly right: number, length, lines before it.
    fn write_letter(&mut self, tape: &mut Tape<'_>) {
        let (number, bytes, lines_before) = (tape.byte(), tape.short(), tape.short());
        let mut letter = [0; 32];
        letter[..4].copy_from_slice(&u32::from(number).to_le_bytes());
        letter[4..6].copy_from_slice(&bytes.to_le_bytes());
        letter[6..8].copy_from_slice(&lines_before.to_le_bytes());
        self.write(fuzzing::single_slot(self.segment, 0, 1), 0, &letter);
    }

    /// Writes into what belongs to the vandal, cut to it.
    fn write(&mut self, (offset, all): fuzzing::Place, at: u16, bytes: &[u8]) {
        let at = usize::from(at) % all;
        fuzzing::write(self.segment, offset + at, &bytes[..bytes.len().min(all - at)]);
    }

    /// Sets bits in the victim's seat, where everybody may write: bell, sleepers, knocks.
    fn knock(&mut self, at: u16, bits: u32) {
        let (offset, bytes) = fuzzing::process_slot(self.segment, 0);
        let knocks = bytes - KNOCKS_AT;
        // Of the honest ones nobody knocks in another's name; that would be heard as nothing, and proves
        // nothing.
        fuzzing::set_bits(self.segment, offset + KNOCKS_AT + usize::from(at) % knocks, bits);
    }

    /// The victim sends to the vandal, who takes what it likes.
    fn post(&mut self, bytes: usize) {
        if self.heard.lost.contains(&VANDAL) {
            return;
        }
        let data = vec![1; if self.unsent > 0 { self.unsent } else { bytes }];
        let payload = Payload::from(&data[..]);
        let posted = match self.unsent {
            0 => self.victim.post(self.to_vandal, &Header::default(), payload),
            _ => self.victim.resume(self.to_vandal, payload),
        };
        match posted {
            Posted::Sent => self.unsent = 0,
            Posted::Partly(taken) => self.unsent = data.len() - taken,
            Posted::Busy => {}
        }
    }

    /// The honest one sends a message that can be told from all others.
    fn honest_sends(&mut self, bytes: usize) -> bool {
        let data = contents(self.sent_by_honest, bytes % 2000);
        let posted = self.honest.post(self.to_victim, &Header::default(), Payload::from(&data[..]));
        assert!(!matches!(posted, Posted::Partly(_)), "a chunk goes whole or not at all");
        self.sent_by_honest += u32::from(posted == Posted::Sent);
        posted == Posted::Sent
    }

    /// Polls until there is nothing. What was written into the rings has an end.
    fn drain(&mut self) {
        let mut polls = 0;
        while self.victim.poll(&mut self.heard, 64) > 0 {
            polls += 1;
            assert!(polls < 1000, "a ring never gets empty");
        }
    }

    fn honest_peers_still_talk(&mut self) {
        self.drain();
        assert!(self.honest_sends(1000), "a ring that was read empty has no room");
        self.drain();
        let (_, kept) = self.heard.kept.as_ref().expect("set at the beginning");
        assert_eq!(kept.len(), self.sent_by_honest as usize, "an honest peer is not heard");
        for (number, message) in (0..).zip(kept) {
            assert_eq!(*message, contents(number, message.len()), "message {number} of an honest peer");
        }
        assert!(!self.heard.lost.contains(&HONEST) && self.honest_heard.lost.is_empty());
        let posted = self.victim.post(self.to_honest, &Header::default(), Payload::from(&[9; 600][..]));
        assert_eq!(posted, Posted::Sent);
        let before = self.honest_heard.messages;
        self.honest.poll(&mut self.honest_heard, 64);
        assert!(self.honest_heard.messages > before, "the victim is not heard");
    }
}

fn contents(number: u32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (number as usize * 31 + at * 7) as u8).collect()
}

/// Honest lines, and each kind of lie.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let line = |slot: u8, sequence: u8, kind: u8, bytes: u16, total: u32| {
        [&[0, slot, sequence, kind][..], &bytes.to_le_bytes(), &total.to_le_bytes()].concat()
    };
    let tape = Writer::default;
    let (knock, poll) = ([6], [7]);
    let whole = tape().bytes(&knock).bytes(&line(0, 1, 0, 20, 0)).bytes(&poll);
    let streamed = tape().bytes(&knock).bytes(&line(0, 1, 1, 2048, 5000)).bytes(&line(1, 2, 2, 2048, 0));
    // Both speak for a while, then take turns in the single-slot channel.
    let turn = [9, 5, 0, 13, 12, 5, 0, 7];
    let talk = (0..24).fold(tape(), |tape, _| tape.bytes(&turn));
    vec![
        ("letters", talk.clone().0),
        ("letter-long", talk.clone().bytes(&[14, 9, 255, 255, 20, 0, 7, 7]).0),
        ("letter-early", talk.bytes(&[14, 5, 5, 0, 90, 0, 7, 7, 12, 5, 0, 7]).0),
        ("whole", whole.clone().bytes(&line(1, 2, 0, 1000, 0)).bytes(&poll).0),
        ("streamed", streamed.clone().bytes(&poll).bytes(&line(2, 3, 2, 904, 0)).bytes(&poll).0),
        ("streamed-wrong", streamed.bytes(&poll).bytes(&line(2, 3, 2, 905, 0)).bytes(&poll).0),
        (
            "changed-after",
            whole.clone().bytes(&line(1, 2, 0, 9, 0)).bytes(&line(1, 2, 3, 9, 0)).bytes(&poll).0,
        ),
        ("sequence", tape().bytes(&knock).bytes(&line(0, 77, 0, 1, 0)).bytes(&poll).0),
        ("progress", tape().bytes(&[9, 0, 1, 3, 0, 8, 232, 3, 0, 0, 0, 0, 0, 0, 9, 255, 255, 7, 9, 0, 90]).0),
        ("seat", tape().bytes(&[4, 64, 24, 9]).bytes(&[0xff; 23]).bytes(&[9, 9, 0, 7]).0),
        ("all-knock", tape().bytes(&[5, 0, 0, 255, 255, 255, 255, 5, 249, 0, 255, 255, 255, 255, 7, 7]).0),
        (
            "talk",
            tape().bytes(&[10, 9, 0, 10, 0, 7, 7, 10, 3, 3, 11, 7, 9, 200, 0, 9, 255, 255, 9, 0, 0, 7]).0,
        ),
    ]
}

/// The secret at once, in chunks, wrong, and too much.
#[must_use]
pub fn client_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let tape = |chunks: &[&[u8]]| {
        chunks
            .iter()
            .fold(Writer::default(), |writer, chunk| writer.bytes(&[chunk.len() as u8]).bytes(chunk))
            .0
    };
    vec![
        ("served", tape(&[&[3; 16], &[1]])),
        ("chunks", tape(&[&[3; 5], &[], &[3; 11], &[], &[1]])),
        ("wrong", tape(&[&[3; 15], &[4], &[1]])),
        ("much", tape(&[&[3; 100], &[]])),
    ]
}

const VICTIM: Peer = Peer(10);
const VANDAL: Peer = Peer(11);
const HONEST: Peer = Peer(12);
/// The least number of process slots with the smallest rings; chunked messages, which these do not have, are
/// tested in the fabric itself.
const SEATS: u32 = 1025;
/// Where the first line of a ring stands, and the knocks of a seat.
const LINES_AT: u16 = 128;
const KNOCKS_AT: usize = 128;
