//! A whole tcp fabric among strangers: they knock, say anything at every state of the handshake, prove
//! themselves or nearly so, and are dialled in their turn. Who has not proved that it holds the right secret
//! is never heard.

use std::cell::RefCell;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fabric::{Fabric, Header, Payload, Peer, Posted};
use rustix::net::sockopt::set_socket_linger;
use tcp::{Lane, Settings, Tcp, fuzzing};

use crate::heard::Heard;
use crate::tape::{Tape, Writer, say};

/// Plays a tape against a fabric.
pub fn run(input: &[u8]) {
    LISTENER.with_borrow_mut(|dialled| {
        let mut tape = Tape::new(input);
        let mut stage = MeetingStage::new(dialled);
        while !tape.is_over() {
            stage.step(&mut tape);
        }
        stage.poll(16);
    });
}

thread_local! {
    /// Where the fabric finds its peers when it dials them.
    static LISTENER: RefCell<Dialled> = RefCell::new(Dialled::new());
}

struct Dialled {
    listener: TcpListener,
    address: SocketAddr,
}

impl Dialled {
    fn new() -> Dialled {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        listener.set_nonblocking(true).expect("a fuzzer must not block");
        let address = listener.local_addr().expect("its address");
        Dialled { listener, address }
    }

    fn accept(&self) -> Option<TcpStream> {
        let (socket, _) = self.listener.accept().ok()?;
        Some(prepared(socket))
    }
}

struct MeetingStage<'a> {
    tcp: Tcp,
    secret: [u8; 16],
    door: SocketAddr,
    dialled: &'a mut Dialled,
    strangers: Vec<Stranger>,
    lanes: Vec<Outgoing>,
    heard: Heard,
}

/// A lane, and what is left of a message that was taken partly.
struct Outgoing {
    lane: Lane,
    unsent: Option<usize>,
}

/// One connection to the fabric or from it.
struct Stranger {
    socket: TcpStream,
    /// The hello that was said here, or heard here.
    hello: [u8; 96],
    /// Whom it claims to be.
    claims: u32,
    answer: Vec<u8>,
}

impl MeetingStage<'_> {
    fn new(dialled: &mut Dialled) -> MeetingStage<'_> {
        // Nobody from an earlier run may be let in to this one.
        while dialled.accept().is_some() {}
        let settings =
            Settings { connect_timeout: Duration::from_secs(60), peers: PEERS, ..Settings::default() };
        let tcp = Tcp::open(HERE, settings).expect("a fabric opens");
        let door = SocketAddr::from(([127, 0, 0, 1], tcp.addresses()[0].port()));
        let secret = fuzzing::secret_of(&tcp.address());
        let (strangers, lanes) = (Vec::new(), Vec::new());
        MeetingStage { tcp, secret, door, dialled, strangers, lanes, heard: Heard::default() }
    }

    fn step(&mut self, tape: &mut Tape<'_>) {
        let choice = tape.byte();
        // Half of the bits choose who, so that one byte is enough.
        let who = usize::from(choice >> 5);
        match choice & 31 {
            0 | 1 => self.knock(),
            2..=5 => {
                let length = usize::from(tape.byte());
                self.say(who, tape.chunk(length));
            }
            6 | 7 => self.say_hello(who, tape.byte(), None),
            8 => {
                let change = (tape.byte(), tape.byte());
                self.say_hello(who, tape.byte(), Some(change));
            }
            9 | 10 => self.prove(who, None),
            11 => {
                let change = (tape.byte(), tape.byte());
                self.prove(who, Some(change));
            }
            12 => self.hang_up(who),
            13 => self.dial(who as u32),
            14 => self.let_in(who as u32),
            15 => self.answer(who, None),
            16 => {
                let change = (tape.byte(), tape.byte());
                self.answer(who, Some(change));
            }
            17 => self.say(who, &fuzzing::verdict(tape.byte() & 1 == 0)),
            18 => self.say(who, &fuzzing::refusal()),
            19 => self.say(who, &fuzzing::frame([tape.word(); 6], usize::from(tape.short()))),
            20 => self.post(who, usize::from(tape.short())),
            21 => self.hear(who),
            _ => self.poll(1 + who * 4),
        }
    }

    fn knock(&mut self) {
        if self.strangers.len() < STRANGERS_MAX
            && let Ok(socket) = TcpStream::connect(self.door)
        {
            let stranger =
                Stranger { socket: prepared(socket), hello: [0; 96], claims: 0, answer: Vec::new() };
            self.strangers.push(stranger);
        }
    }

    fn say(&mut self, who: usize, bytes: &[u8]) {
        if let Some(stranger) = self.strangers.get_mut(who) {
            say(&stranger.socket, bytes);
        }
    }

    fn say_hello(&mut self, who: usize, claims: u8, change: Option<(u8, u8)>) {
        let mut hello = fuzzing::hello(u32::from(claims % 9), HERE.0, [claims; 16]);
        alter(&mut hello, change);
        if let Some(stranger) = self.strangers.get_mut(who) {
            stranger.hello = hello;
            stranger.claims = u32::from_le_bytes([hello[8], hello[9], hello[10], hello[11]]);
        }
        self.say(who, &hello);
    }

    /// Shows the proof for what was answered; only an unchanged one admits.
    fn prove(&mut self, who: usize, change: Option<(u8, u8)>) {
        self.hear(who);
        let Some(stranger) = self.strangers.get(who) else { return };
        let Some(answer) = stranger.answer.first_chunk() else { return };
        let Some(mut proof) = fuzzing::proof_for(&self.secret, &stranger.hello, answer) else { return };
        if !alter(&mut proof, change) {
            self.heard.admitted.extend((stranger.claims < PEERS).then_some(Peer(stranger.claims)));
        }
        self.say(who, &proof);
    }

    fn hang_up(&mut self, who: usize) {
        if who < self.strangers.len() {
            self.strangers.remove(who);
        }
    }

    /// The fabric dials `peer`.
    fn dial(&mut self, peer: u32) {
        let card = fuzzing::card_of(THEIR_SECRET, self.dialled.address);
        if let Ok(lane) = self.tcp.connect(Peer(peer), &card)
            && !self.lanes.iter().any(|known| known.lane == lane)
        {
            self.lanes.push(Outgoing { lane, unsent: None });
        }
    }

    /// A dial of the fabric arrives at the one it is for.
    fn let_in(&mut self, claims: u32) {
        if self.strangers.len() < STRANGERS_MAX
            && let Some(socket) = self.dialled.accept()
        {
            self.strangers.push(Stranger { socket, hello: [0; 96], claims, answer: Vec::new() });
        }
    }

    /// Answers the fabric's hello with the right proof, or with one that is changed.
    fn answer(&mut self, who: usize, change: Option<(u8, u8)>) {
        self.hear(who);
        let Some(stranger) = self.strangers.get_mut(who) else { return };
        let Some(hello) = stranger.answer.first_chunk::<96>() else { return };
        let (hello, nonce) = (*hello, [1; 16]);
        let mut answer = fuzzing::answer(&THEIR_SECRET, &hello, &nonce);
        let wanted = u32::from_le_bytes([hello[12], hello[13], hello[14], hello[15]]);
        stranger.answer.drain(..96);
        if !alter(&mut answer, change) {
            self.heard.admitted.insert(Peer(wanted));
        }
        self.say(who, &answer);
    }

    /// Begins a message, or goes on with the one that was begun.
    fn post(&mut self, who: usize, bytes: usize) {
        let Some(lane) = self.lanes.get_mut(who) else { return };
        let payload = vec![1; lane.unsent.unwrap_or(bytes)];
        let posted = match lane.unsent {
            None => self.tcp.post(lane.lane, &Header::default(), Payload::from(&payload[..])),
            Some(_) => self.tcp.resume(lane.lane, Payload::from(&payload[..])),
        };
        match posted {
            Posted::Partly(taken) => lane.unsent = Some(payload.len() - taken),
            Posted::Sent => lane.unsent = None,
            Posted::Busy => {}
        }
    }

    /// Reads what was said to a stranger.
    fn hear(&mut self, who: usize) {
        if let Some(stranger) = self.strangers.get_mut(who) {
            let mut room = [0; 4096];
            let bytes = stranger.socket.read(&mut room).unwrap_or(0);
            stranger.answer.extend(&room[..bytes]);
        }
    }

    fn poll(&mut self, events: usize) {
        for _ in 0..3 {
            self.tcp.poll(&mut self.heard, events);
        }
    }
}

/// Changes a byte; true where that makes a difference. The last byte of the prefix means nothing.
fn alter(text: &mut [u8], change: Option<(u8, u8)>) -> bool {
    let Some((at, bits)) = change else { return false };
    let at = usize::from(at) % text.len();
    text[at] ^= bits;
    bits != 0 && at != 7
}

/// Never waits, and leaves nothing behind in the kernel when it is closed.
fn prepared(socket: TcpStream) -> TcpStream {
    socket.set_nonblocking(true).expect("a fuzzer must not block");
    socket.set_nodelay(true).expect("what is said goes at once");
    set_socket_linger(&socket, Some(Duration::ZERO)).expect("an end without a rest");
    socket
}

/// Meetings that succeed, from both sides and crossing, and some that fail at the last step.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    [accepted(), dials()].concat()
}

fn accepted() -> Vec<(&'static str, Vec<u8>)> {
    let frame = fuzzing::frame([1, 2, 3, 4, 5, 6], 5);
    let hello = fuzzing::hello(3, HERE.0, [9; 16]);
    let goodbye = [&[0; 31][..], &[1]].concat();
    let knocked = || Writer::default().bytes(&[0, POLL]);
    let proved = || knocked().bytes(&[6, 3, POLL, 9, POLL]);
    let again = [0, POLL, 6 | 1 << 5, 3, POLL, 9 | 1 << 5, POLL];
    vec![
        ("accepted", proved().counted(2, &frame).counted(2, b"hello").bytes(&[POLL]).0),
        ("false-proof", knocked().bytes(&[6, 3, POLL, 11, 20, 1, POLL, POLL]).0),
        ("false-hello", knocked().bytes(&[8, 5, 1, 3, POLL, POLL]).0),
        ("slow", knocked().counted(2, &hello[..3]).bytes(&[POLL]).counted(2, &hello[3..]).bytes(&[POLL]).0),
        ("garbage", knocked().counted(2, b"GET / HTTP/1.1\r\n\r\n").bytes(&[POLL]).0),
        ("twice", proved().bytes(&again).0),
        ("goodbye", proved().counted(2, &goodbye).bytes(&[POLL]).0),
    ]
}

fn dials() -> Vec<(&'static str, Vec<u8>)> {
    let dialled = || Writer::default().bytes(&[13 | 2 << 5, POLL, 14]);
    // The higher number's dial waits while ours is committed, and is taken when ours breaks.
    let to_higher = Writer::default().bytes(&[13 | 6 << 5, POLL, 14 | 6 << 5, 15, POLL]);
    let from_higher = [0, POLL, 6 | 1 << 5, 6, POLL, 9 | 1 << 5, POLL, 12, POLL, POLL];
    vec![
        ("dial", dialled().bytes(&[15, POLL, POLL, 17, 0, POLL, 20, 9, 0, 21, POLL]).0),
        ("dial-false", dialled().bytes(&[16, 30, 1, POLL, POLL]).0),
        ("dial-refused", dialled().bytes(&[18, POLL]).0),
        ("dial-another", dialled().bytes(&[15, POLL, 17, 1, POLL]).0),
        ("crossing", to_higher.bytes(&from_higher).0),
    ]
}

const HERE: Peer = Peer(4);
const THEIR_SECRET: [u8; 16] = [7; 16];
const PEERS: u32 = 8;
const STRANGERS_MAX: usize = 6;
/// A step that only polls.
const POLL: u8 = 31 | 3 << 5;
