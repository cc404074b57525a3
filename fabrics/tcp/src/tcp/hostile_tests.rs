//! Garbage, texts cut short, texts with more behind them and silence, at every state of a handshake and after
//! it, at either end of it. A job that is under way meanwhile does not notice.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::frame::Frame;
use crate::handshake::{ANSWER_BYTES, Answer, HELLO_BYTES, Hello, Transcript, Verdict, proof};
use fabric::{Heap, UserMemory};

/// How far a dialler goes as it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Until {
    /// It has connected.
    Knocked,
    /// It has said the beginning of a hello.
    HelloBegun,
    /// It has been answered.
    Answered,
    /// It has said the beginning of its proof.
    ProofBegun,
    /// It has proved itself, and a message may come.
    Open,
    /// It has said the beginning of a frame.
    FrameBegun,
    /// It has announced a message and sent the beginning of it.
    MessageBegun,
}

/// What it does then.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Garbage,
    /// Far more than any text has.
    Flood,
    HangUp,
    /// It goes on as it should, a byte at a time.
    Slowly,
}

const STATES: [Until; 7] = [
    Until::Knocked,
    Until::HelloBegun,
    Until::Answered,
    Until::ProofBegun,
    Until::Open,
    Until::FrameBegun,
    Until::MessageBegun,
];

#[test]
fn nothing_said_at_any_state_reaches_the_job() {
    for state in STATES {
        for deed in [Deed::Garbage, Deed::Flood, Deed::HangUp, Deed::Slowly] {
            let mut job = Job::new();
            let mut dialler = Dialler::knock(&job);
            dialler.go_as_far_as(state, &mut job);
            dialler.act(deed, state, &mut job);
            job.is_unharmed(&format!("{deed:?} when {state:?}"));
            let (messages, losses) = due(deed, state);
            assert_eq!(job.heard.from_dialler, messages, "{deed:?} when {state:?}");
            assert_eq!(job.heard.lost.len(), losses, "{deed:?} when {state:?}");
            for (peer, error) in &job.heard.lost {
                assert_eq!(*peer, DIALLER);
                assert!(error.what.contains("process 7 on"), "{error}");
            }
        }
    }
}

/// How many messages are heard of the dialler, and whether its end is told: only somebody who has proved
/// itself is a peer that can be lost.
fn due(deed: Deed, state: Until) -> (usize, usize) {
    match deed {
        Deed::Slowly => (1, 0),
        // Any bytes are a payload; what is behind it is not a frame.
        Deed::Garbage => (usize::from(state == Until::MessageBegun), usize::from(state >= Until::Open)),
        // The text that is due, and a flood behind it: a proof is a proof.
        Deed::Flood => (usize::from(state >= Until::Open), usize::from(state >= Until::Answered)),
        Deed::HangUp => (0, usize::from(state >= Until::Open)),
    }
}

impl PartialOrd for Until {
    fn partial_cmp(&self, other: &Until) -> Option<std::cmp::Ordering> {
        let place = |state: &Until| STATES.iter().position(|one| one == state);
        place(self).partial_cmp(&place(other))
    }
}

#[test]
fn nothing_answered_at_any_state_of_a_dial_reaches_the_job() {
    let garbage: &[u8] = &[0xee; 96];
    let flood: &[u8] = &[0x11; 100_000];
    for (text, deed) in [
        (Told::Nothing, garbage),
        (Told::Nothing, flood),
        (Told::Nothing, b""),
        (Told::HalfAnAnswer, garbage),
        (Told::HalfAnAnswer, b""),
        (Told::Answer, garbage),
        (Told::Answer, flood),
        (Told::AnswerAndMore, garbage),
        (Told::HalfAVerdict, garbage),
        (Told::Verdict, garbage),
        (Told::Verdict, flood),
        (Told::Verdict, b""),
    ] {
        let mut job = Job::new();
        let (listener, lane) = dialled(&mut job);
        until("the dial ends", || {
            job.poll();
            if let Ok((socket, _)) = listener.accept() {
                tell(socket, text, deed, &mut job);
            }
            !job.heard.lost.is_empty()
        });
        let (peer, error) = &job.heard.lost[0];
        assert_eq!(*peer, DIALLER, "{text:?}: {error}");
        assert!(error.what.contains("process 7 on"), "{text:?}: {error}");
        assert_eq!(job.heard.from_dialler, 0, "{text:?}");
        assert_eq!(job.right.post(lane, &Header::default(), Payload::EMPTY), Posted::Sent, "to the lost");
        job.is_unharmed(&format!("{text:?}"));
    }
}

#[test]
fn one_that_hangs_up_after_its_proof_is_dialled_again() {
    // Honest ones do, when they are crowded.
    let mut job = Job::new();
    let (listener, lane) = dialled(&mut job);
    let mut dials = 0;
    until("the dial succeeds", || {
        job.poll();
        if let Ok((socket, _)) = listener.accept() {
            dials += 1;
            let told = [Told::Answer, Told::HalfAVerdict, Told::Verdict][dials.min(3) - 1];
            tell(socket, told, b"", &mut job);
        }
        dials == 3 && job.right.post(lane, &Header::default(), Payload::EMPTY) == Posted::Sent
    });
    wait_for(&mut job, |heard| !heard.lost.is_empty());
    job.is_unharmed("a dial that took three attempts");
}

/// Somebody whom the right one of the two dials.
fn dialled(job: &mut Job) -> (TcpListener, Lane) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    listener.set_nonblocking(true).expect("one thread must not block");
    let address = listener.local_addr().expect("its address");
    let card =
        Card { secret: SECRET, port: address.port(), addresses: vec![address.ip()], ..job.right.card() };
    let lane = job.right.connect(DIALLER, &card.encode()).expect("a lane");
    (listener, lane)
}

/// How far somebody who is dialled answers as it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Nothing,
    HalfAnAnswer,
    Answer,
    /// Where a verdict should stand there is more of something else.
    AnswerAndMore,
    HalfAVerdict,
    Verdict,
}

/// Answers a dial so far, then says `deed` and hangs up.
fn tell(mut socket: TcpStream, told: Told, deed: &[u8], job: &mut Job) {
    socket.set_nonblocking(true).expect("one thread must not block");
    let hello: [u8; HELLO_BYTES] = read(&mut socket, job);
    let answer = Answer::prove(&SECRET, &Transcript { hello: &hello, answer_nonce: &[1; 16] });
    let mut text = match told {
        Told::Nothing => Vec::new(),
        Told::HalfAnAnswer => answer[..30].to_vec(),
        Told::AnswerAndMore => [&answer[..], &answer[..]].concat(),
        _ => answer.to_vec(),
    };
    if matches!(told, Told::HalfAVerdict | Told::Verdict) {
        say(&mut socket, &text, job);
        let _: [u8; 40] = read(&mut socket, job);
        let verdict = Verdict::Open.encode();
        text = verdict[..if told == Told::Verdict { 8 } else { 4 }].to_vec();
    }
    text.extend(deed);
    say(&mut socket, &text, job);
}

/// Two processes that exchange messages.
struct Job {
    left: Tcp,
    right: Tcp,
    lane: Lane,
    heard: Heard,
    sent: usize,
}

#[derive(Default)]
struct Heard {
    from_left: usize,
    from_dialler: usize,
    lost: Vec<(Peer, FabricError)>,
}

impl Sink for Heard {
    fn message(&mut self, from: Peer, _: &Header, payload: Payload<'_>) {
        match from {
            Peer(0) => self.from_left += usize::from(payload.to_vec() == MESSAGE),
            DIALLER => self.from_dialler += 1,
            other => panic!("{other:?} is heard"),
        }
    }
    fn arriving(&mut self, from: Peer, _: &Header, bytes: usize) -> UserMemory {
        assert_eq!(from, DIALLER);
        Heap::new(bytes.min(1 << 16)).memory()
    }
    fn landed(&mut self, _: Peer) {
        self.from_dialler += 1;
    }
    fn lost(&mut self, peer: Peer, error: FabricError) {
        self.lost.push((peer, error));
    }
}

impl Job {
    fn new() -> Job {
        let open = |number| Tcp::open(Peer(number), Settings::default()).expect("a fabric opens");
        let (mut left, right) = (open(0), open(1));
        let lane = left.connect(Peer(1), &right.address()).expect("a lane");
        let mut job = Job { left, right, lane, heard: Heard::default(), sent: 0 };
        job.is_unharmed("the beginning");
        job
    }

    fn poll(&mut self) {
        let mut heard = Heard::default();
        self.left.poll(&mut heard, 16);
        assert!(heard.lost.is_empty(), "{:?}", heard.lost);
        self.right.poll(&mut self.heard, 16);
    }

    /// A message still arrives, and nobody stands at the door for longer than it may.
    fn is_unharmed(&mut self, after: &str) {
        let mut is_sent = false;
        until(after, || {
            is_sent = is_sent
                || self.left.post(self.lane, &Header::default(), Payload::from(MESSAGE)) == Posted::Sent;
            self.poll();
            self.heard.from_left > self.sent && !self.right.door.has_unproved()
        });
        self.sent += 1;
    }
}

struct Dialler {
    socket: TcpStream,
    secret: Secret,
    hello: [u8; HELLO_BYTES],
    answer: Option<[u8; ANSWER_BYTES]>,
}

impl Dialler {
    fn knock(job: &Job) -> Dialler {
        let socket = TcpStream::connect(("127.0.0.1", job.right.port)).expect("the port is open");
        socket.set_nonblocking(true).expect("one thread must not block");
        let hello = Hello { from: DIALLER, to: Peer(1), nonce: [3; 16], host: "dialler".into() }.encode();
        Dialler { socket, secret: job.right.secret, hello, answer: None }
    }

    fn go_as_far_as(&mut self, state: Until, job: &mut Job) {
        match state {
            Until::Knocked => {}
            Until::HelloBegun => self.say(&{ self.hello }[..20], job),
            _ => {
                self.say(&self.hello.clone(), job);
                self.answer = Some(read(&mut self.socket, job));
            }
        }
        if state == Until::ProofBegun {
            self.say(&self.proof()[..20], job);
        } else if state >= Until::Open {
            self.say(&self.proof(), job);
            assert_eq!(Verdict::decode(&read(&mut self.socket, job)), Ok(Verdict::Open));
        }
        match state {
            Until::FrameBegun => self.say(&message()[..20], job),
            Until::MessageBegun => self.say(&message()[..40], job),
            _ => {}
        }
    }

    /// What is left of the text that is due in that state.
    fn rest(&self, state: Until) -> Vec<u8> {
        match state {
            Until::Knocked => self.hello.to_vec(),
            Until::HelloBegun => self.hello[20..].to_vec(),
            Until::Answered => self.proof().to_vec(),
            Until::ProofBegun => self.proof()[20..].to_vec(),
            Until::Open => message(),
            Until::FrameBegun => message()[20..].to_vec(),
            Until::MessageBegun => message()[40..].to_vec(),
        }
    }

    fn act(mut self, deed: Deed, state: Until, job: &mut Job) {
        let text = match deed {
            Deed::Garbage if state == Until::MessageBegun => [&self.rest(state)[..], &[0xee; 200]].concat(),
            Deed::Garbage => vec![0xee; 200],
            Deed::Flood => [&self.rest(state)[..], &[0x77; 100_000]].concat(),
            Deed::HangUp => Vec::new(),
            Deed::Slowly => return self.go_on_slowly(state, job),
        };
        self.say(&text, job);
        if !matches!(deed, Deed::HangUp) {
            let socket = &mut self.socket;
            until("the dialler is shown out", || {
                job.poll();
                is_closed(socket)
            });
        }
        drop(self);
        let (_, losses) = due(deed, state);
        wait_for(job, |heard| heard.lost.len() == losses);
    }

    /// Byte by byte, up to a message and a goodbye.
    fn go_on_slowly(mut self, mut state: Until, job: &mut Job) {
        loop {
            for byte in self.rest(state) {
                self.say(&[byte], job);
            }
            state = match state {
                Until::Knocked | Until::HelloBegun => {
                    self.answer = Some(read(&mut self.socket, job));
                    Until::Answered
                }
                Until::Answered | Until::ProofBegun => {
                    assert_eq!(Verdict::decode(&read(&mut self.socket, job)), Ok(Verdict::Open));
                    Until::Open
                }
                _ => break,
            };
        }
        wait_for(job, |heard| heard.from_dialler == 1);
        // In good order, so that the end of this test is no loss.
        self.say(&Frame::of_goodbye(), job);
    }

    fn proof(&self) -> [u8; 40] {
        let Some(Ok(Answer::Nonce { nonce, .. })) = self.answer.as_ref().map(Answer::decode) else {
            panic!("{:?} is no answer", self.answer)
        };
        proof(&self.secret, &Transcript { hello: &self.hello, answer_nonce: &nonce })
    }

    fn say(&mut self, text: &[u8], job: &mut Job) {
        say(&mut self.socket, text, job);
    }
}

/// A frame with its payload.
fn message() -> Vec<u8> {
    let frame = Frame::of_message(&Header { words: [9; 6] }, 20_000);
    [&frame[..], &[5; 20_000]].concat()
}

/// Says all of it, unless the other end has closed.
fn say(socket: &mut TcpStream, text: &[u8], job: &mut Job) {
    let mut said = 0;
    until("somebody listens", || {
        job.poll();
        match socket.write(&text[said..]) {
            Ok(bytes) => said += bytes,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return true,
        }
        said == text.len()
    });
}

fn read<const N: usize>(socket: &mut TcpStream, job: &mut Job) -> [u8; N] {
    let (mut text, mut have) = ([0; N], 0);
    until("a text comes", || {
        job.poll();
        have += socket.read(&mut text[have..]).unwrap_or(0);
        have == N
    });
    text
}

fn is_closed(socket: &mut TcpStream) -> bool {
    match socket.read(&mut [0; 256]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

fn wait_for(job: &mut Job, done: impl Fn(&Heard) -> bool) {
    until("something is heard", || {
        job.poll();
        done(&job.heard)
    });
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: hangs");
    }
}

const DIALLER: Peer = Peer(7);
const SECRET: Secret = [7; 16];
const MESSAGE: &[u8] = b"as it was sent";
