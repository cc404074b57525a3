//! An open tcp connection: any byte stream, cut anywhere, while messages go the other way.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use fabric::{Header, Heap, Peer, Posted};
use tcp::fuzzing::FuzzedLink;

use crate::heard::Heard;
use crate::tape::{Tape, Writer, say};

/// Plays a tape against one connection.
pub fn run(input: &[u8]) {
    let mut tape = Tape::new(input);
    let mut stage = LinkStage::new();
    while !tape.is_over() && !stage.is_over {
        stage.step(&mut tape);
    }
    stage.finish();
}

struct LinkStage {
    link: FuzzedLink,
    peer: Option<UnixStream>,
    heard: Heard,
    payload: Heap,
    /// How much of a message was taken, and of how many bytes it is.
    partly: Option<(usize, usize)>,
    is_over: bool,
}

impl LinkStage {
    fn new() -> LinkStage {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        ours.set_nonblocking(true).expect("a fuzzer must not block");
        theirs.set_nonblocking(true).expect("a fuzzer must not block");
        let mut heard = Heard::default();
        heard.admitted.insert(PEER);
        let link = FuzzedLink::new(OwnedFd::from(ours), PEER);
        LinkStage {
            link,
            peer: Some(theirs),
            heard,
            payload: Heap::new(1 << 20),
            partly: None,
            is_over: false,
        }
    }

    fn step(&mut self, tape: &mut Tape<'_>) {
        match tape.below(8) {
            0 | 1 => {
                let length = usize::from(tape.byte());
                self.say(tape.chunk(length));
            }
            2 => {
                let (bytes, word) = (usize::from(tape.short()), tape.word());
                self.say(&tcp::fuzzing::frame([word; 6], bytes));
            }
            3 => self.say(&vec![tape.byte(); usize::from(tape.short())]),
            4 => self.poll(1 + usize::from(tape.byte())),
            5 => self.poll(16),
            6 => self.post(tape.word() as usize % (1 << 20)),
            _ => self.listen(tape.byte()),
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        if let Some(peer) = &mut self.peer {
            say(peer, bytes);
        }
    }

    fn poll(&mut self, events: usize) {
        match self.link.poll(&mut self.heard, events) {
            Ok(_) => {}
            Err(error) => {
                if let Some(error) = error {
                    assert!(error.what.contains("the fuzzer"), "who was it? {error}");
                }
                self.is_over = true;
            }
        }
    }

    /// Begins a message, or goes on with the one that was begun.
    fn post(&mut self, bytes: usize) {
        let before = self.partly.take();
        let (done, bytes) = before.unwrap_or((0, bytes));
        let payload = self.payload.payload().part(0, bytes);
        let posted = match before {
            None => self.link.post(&Header::default(), payload),
            Some(_) => self.link.resume(payload.after(done)),
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

    /// The peer reads, or hangs up.
    fn listen(&mut self, how: u8) {
        if how == 0 {
            self.peer = None;
        }
        if let Some(peer) = &mut self.peer {
            let mut room = vec![0; 1 << 16];
            let _ = peer.read(&mut room);
        }
    }

    fn finish(mut self) {
        self.peer = None;
        for _ in 0..1000 {
            if self.is_over {
                return;
            }
            self.poll(16);
        }
        panic!("the end of a connection is not noticed");
    }
}

/// Messages that are as they should be, and ends of every kind.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let frame = |bytes| tcp::fuzzing::frame([1, 2, 3, 4, 5, 6], bytes);
    let tape = Writer::default;
    let mut goodbye = [0; 32];
    goodbye[31] = 1;
    vec![
        ("small", tape().counted(0, &frame(5)).counted(0, b"hello").bytes(&[5]).0),
        ("two-in-one", tape().counted(0, &[&frame(3)[..], b"abc", &frame(0)].concat()).bytes(&[4, 0, 5]).0),
        ("cut", tape().counted(0, &frame(5)[..7]).bytes(&[5]).counted(0, &frame(5)[7..]).bytes(&[5]).0),
        ("large", tape().bytes(&[2, 0, 200, 1, 0, 0, 0, 3, 7, 255, 255, 5, 3, 7, 0, 200, 5, 5]).0),
        ("goodbye", tape().counted(0, &frame(0)).counted(0, &goodbye).bytes(&[5]).0),
        ("wild", tape().counted(0, &[0xee; 32]).bytes(&[5]).0),
        ("both-ways", tape().bytes(&[6, 0, 0, 8, 0, 7, 9, 6, 0, 0, 0, 0, 5, 7, 9, 6, 0, 0, 0, 0]).0),
        ("hung-up", tape().bytes(&[6, 16, 0, 0, 0, 7, 0, 6, 16, 0, 0, 0, 6, 16, 0, 0, 0, 5]).0),
    ]
}

const PEER: Peer = Peer(3);
