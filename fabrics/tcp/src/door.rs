//! The listening socket, and the accepted connections that have proved nothing yet.
//!
//! Anybody on the network can connect. An unproved connection costs one descriptor and some 200 bytes, there
//! are at most [`CONNECTIONS_MAX`] of them, and each is closed at its first wrong byte. When there are so
//! many, further ones wait in the kernel's queue, and the oldest unproved connection is closed as soon as it
//! has had its time. An honest process whose connection was closed dials again.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fabric::Peer;
use rustix::io::Errno;

use crate::handshake::{
    Answer, BadText, HELLO_BYTES, Hello, KIND_HELLO, Nonce, PROOF_BYTES, Refusal, Secret, Transcript,
    check_beginning, is_proof,
};
use crate::poller::{Interest, Poller, Token};
use crate::socket::{Reading, Text, accept, remote_address, send_text};
use crate::trouble::is_out_of_descriptors;

/// The door of one process.
pub(crate) struct Door {
    listeners: Vec<OwnedFd>,
    here: Peer,
    /// How many processes the job has.
    peers: u32,
    secret: Secret,
    connections: Vec<Connection>,
    /// The number of the next connection; events name connections by it.
    next_serial: u32,
    /// Given up when no other descriptor is left, so that a process that connects can be told why it is
    /// refused.
    spare: Option<OwnedFd>,
    /// While no connection can be accepted, the poller does not watch the listener.
    closed: Option<Closed>,
}

/// A connection that has proved that it belongs to the job, before it becomes a link.
pub(crate) struct Arrived {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
    pub(crate) host: String,
    pub(crate) remote: Option<SocketAddr>,
}

/// While the door accepts no connection.
struct Closed {
    until: Instant,
    /// It opens as soon as a connection is closed or has proved itself.
    is_crowded: bool,
}

impl Door {
    pub(crate) fn new(
        listeners: Vec<OwnedFd>,
        here: Peer,
        peers: u32,
        secret: Secret,
        poller: &Poller,
    ) -> Result<Door, Errno> {
        for listener in &listeners {
            poller.add(listener, Token::Door, Interest::Read)?;
        }
        let connections = Vec::new();
        let spare = Some(spare()?);
        Ok(Door { listeners, here, peers, secret, connections, next_serial: 0, spare, closed: None })
    }

    pub(crate) fn has_unproved(&self) -> bool {
        !self.connections.is_empty()
    }

    /// Lets in who knocks, a few at a time. Returns how many came.
    pub(crate) fn open(&mut self, now: Instant, poller: &Poller) -> usize {
        for count in 0..CONNECTIONS_PER_TURN {
            if self.room_at(now) > now {
                self.close(self.room_at(now), true, poller);
                return count;
            }
            match self.admit() {
                Ok(socket) => self.seat(socket, now, poller),
                Err(errno) if is_out_of_descriptors(errno) => {
                    self.refuse_one();
                    self.close(now + DESCRIPTORS_PAUSE, false, poller);
                    return count;
                }
                // The one who knocked has left again, or an error of the network that concerns only it.
                Err(Errno::AGAIN) => return count,
                Err(_) => {}
            }
        }
        CONNECTIONS_PER_TURN
    }

    /// What is due by time: opens the door again, and shows out those who have stood for too long.
    pub(crate) fn tick(&mut self, now: Instant, poller: &Poller) {
        self.connections.retain(|connection| {
            !connection.stage.is_unproved() || now < connection.since + UNPROVED_TIME_MAX
        });
        if self.closed.as_ref().is_some_and(|closed| closed.until <= now) {
            self.reopen(poller);
        }
    }

    /// When `tick` has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        let leaves = self.oldest().map(|(_, since)| since + UNPROVED_TIME_MAX);
        let opens = self.closed.as_ref().map(|closed| closed.until);
        [opens, leaves].into_iter().flatten().min()
    }

    /// Goes on with a connection on which bytes came. One that has proved itself is returned, and stands at
    /// the door no more unless it is asked to [`wait`](Door::wait).
    pub(crate) fn attend(&mut self, serial: u32, poller: &Poller) -> Option<Arrived> {
        let at = self.connections.iter().position(|connection| connection.serial == serial)?;
        let step = self.connections[at].go_on(self.here, self.peers, &self.secret);
        if let Step::Stay = step {
            return None;
        }
        let Connection { socket, remote, .. } = self.connections.swap_remove(at);
        if self.closed.as_ref().is_some_and(|closed| closed.is_crowded) {
            self.reopen(poller);
        }
        match step {
            Step::Arrive { peer, host } => Some(Arrived { socket, peer, host, remote }),
            Step::Leave | Step::Stay => None,
        }
    }

    /// Keeps one who has proved itself until it is clear whether this process' own connection to it stands.
    pub(crate) fn wait(&mut self, arrived: Arrived, poller: &Poller) {
        let Arrived { socket, peer, host, remote } = arrived;
        let serial = self.number();
        if poller.change(&socket, Token::Connection(serial), Interest::Read).is_ok() {
            let stage = Stage::Waiting { peer, host };
            self.connections.push(Connection { serial, socket, remote, since: Instant::now(), stage });
        }
    }

    /// Takes back one who waits and comes from `peer`.
    pub(crate) fn take_waiting(&mut self, from: Peer) -> Option<Arrived> {
        let is_it =
            |connection: &Connection| matches!(connection.stage, Stage::Waiting { peer, .. } if peer == from);
        let at = self.connections.iter().position(is_it)?;
        let Connection { socket, remote, stage, .. } = self.connections.swap_remove(at);
        match stage {
            Stage::Waiting { peer, host } => Some(Arrived { socket, peer, host, remote }),
            other => unreachable!("a connection that waits was found in the stage {other:?}"),
        }
    }

    fn seat(&mut self, socket: OwnedFd, now: Instant, poller: &Poller) {
        if self.connections.len() >= CONNECTIONS_MAX
            && let Some((oldest, _)) = self.oldest()
        {
            self.connections.swap_remove(oldest);
        }
        let (remote, serial) = (remote_address(&socket), self.number());
        if poller.add(&socket, Token::Connection(serial), Interest::Read).is_ok() {
            self.connections.push(Connection {
                serial,
                socket,
                remote,
                since: now,
                stage: Stage::Hello(Text::new()),
            });
        }
    }

    /// Takes a connection from whichever listener has one.
    fn admit(&self) -> Result<OwnedFd, Errno> {
        // Each time another comes first, so that a waiting threads at one cannot shut the others.
        let (before, after) = self.listeners.split_at(self.next_serial as usize % self.listeners.len());
        for listener in after.iter().chain(before) {
            match accept(listener) {
                Err(Errno::AGAIN) => {}
                outcome => return outcome,
            }
        }
        Err(Errno::AGAIN)
    }

    fn number(&mut self) -> u32 {
        self.next_serial = self.next_serial.wrapping_add(1);
        self.next_serial
    }

    /// When another connection can be accepted: at once, or when the oldest unproved one has had its time.
    fn room_at(&self, now: Instant) -> Instant {
        if self.connections.len() < CONNECTIONS_MAX {
            return now;
        }
        self.oldest().map_or(now, |(_, since)| since) + UNPROVED_PATIENCE
    }

    /// The oldest unproved connection: its index, and since when it is there.
    fn oldest(&self) -> Option<(usize, Instant)> {
        let unproved =
            self.connections.iter().enumerate().filter(|(_, connection)| connection.stage.is_unproved());
        unproved.map(|(at, connection)| (at, connection.since)).min_by_key(|(_, since)| *since)
    }

    fn close(&mut self, until: Instant, is_crowded: bool, poller: &Poller) {
        self.closed = Some(Closed { until, is_crowded });
        self.watch(Interest::Nothing, poller);
    }

    fn reopen(&mut self, poller: &Poller) {
        self.closed = None;
        self.watch(Interest::Read, poller);
    }

    fn watch(&self, interest: Interest, poller: &Poller) {
        // Registered since the beginning, so this cannot fail for want of memory or descriptors.
        for listener in &self.listeners {
            let changed = poller.change(listener, Token::Door, interest);
            debug_assert_eq!(changed, Ok(()), "the listener is registered");
        }
    }

    /// Tells one who knocks that no descriptor is left, on the spare one.
    fn refuse_one(&mut self) {
        self.spare = None;
        if let Ok(socket) = self.admit() {
            // Whether the text arrives or not, the connection closes.
            let _ = send_text(&socket, &Answer::refuse(Refusal::NoDescriptors));
            // A close with unread bytes would destroy the text on its way.
            let _ = Text::<HELLO_BYTES>::new().read(&socket);
        }
        self.spare = spare().ok();
    }
}

/// One accepted connection.
struct Connection {
    serial: u32,
    socket: OwnedFd,
    remote: Option<SocketAddr>,
    since: Instant,
    stage: Stage,
}

/// How far a connection has come.
enum Stage {
    /// Its hello is awaited.
    Hello(Text<HELLO_BYTES>),
    /// It was answered, and its proof is awaited.
    Proof { hello: [u8; HELLO_BYTES], answer_nonce: Nonce, proof: Text<PROOF_BYTES> },
    /// It has proved itself; this process' own connection to the same peer is decided first.
    Waiting { peer: Peer, host: String },
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stage::Hello(_) => "Hello",
            Stage::Proof { .. } => "Proof",
            Stage::Waiting { .. } => "Waiting",
        })
    }
}

impl Stage {
    fn is_unproved(&self) -> bool {
        !matches!(self, Stage::Waiting { .. })
    }
}

/// What becomes of a connection.
enum Step {
    Stay,
    Leave,
    Arrive { peer: Peer, host: String },
}

impl Connection {
    fn go_on(&mut self, here: Peer, peers: u32, secret: &Secret) -> Step {
        match &mut self.stage {
            Stage::Hello(text) => match text.read(&self.socket) {
                Reading::Whole => {
                    let hello = *text.whole();
                    self.answer(hello, here, peers, secret)
                }
                Reading::Part => self.look_at_beginning(),
                Reading::Ended(_) => Step::Leave,
            },
            Stage::Proof { hello, answer_nonce, proof } => match proof.read(&self.socket) {
                Reading::Whole => arrive(secret, &Transcript { hello, answer_nonce }, proof.whole()),
                Reading::Part => Step::Stay,
                Reading::Ended(_) => Step::Leave,
            },
            // It may not say anything before the verdict; if something came, it hung up or is confused.
            Stage::Waiting { .. } => match Text::<1>::new().read(&self.socket) {
                Reading::Part => Step::Stay,
                Reading::Whole | Reading::Ended(_) => Step::Leave,
            },
        }
    }

    /// Garbage is known by its first bytes; another version is told before it leaves.
    fn look_at_beginning(&self) -> Step {
        let Stage::Hello(text) = &self.stage else { return Step::Stay };
        match check_beginning(text.so_far(), KIND_HELLO) {
            Ok(()) => Step::Stay,
            Err(bad) => self.dismiss(bad),
        }
    }

    fn dismiss(&self, bad: BadText) -> Step {
        if let BadText::Version { .. } = bad {
            let _ = send_text(&self.socket, &Answer::refuse(Refusal::OtherVersion));
        }
        Step::Leave
    }

    fn answer(&mut self, hello: [u8; HELLO_BYTES], here: Peer, peers: u32, secret: &Secret) -> Step {
        match Hello::decode(&hello) {
            Err(bad) => return self.dismiss(bad),
            Ok(read) if read.to != here || read.from == here || read.from.0 >= peers => return Step::Leave,
            Ok(_) => {}
        }
        let mut answer_nonce = Nonce::default();
        if getrandom::fill(&mut answer_nonce).is_err() {
            return Step::Leave;
        }
        let answer = Answer::prove(secret, &Transcript { hello: &hello, answer_nonce: &answer_nonce });
        if send_text(&self.socket, &answer).is_err() {
            return Step::Leave;
        }
        self.stage = Stage::Proof { hello, answer_nonce, proof: Text::new() };
        Step::Stay
    }
}

fn arrive(secret: &Secret, transcript: &Transcript<'_>, proof: &[u8; PROOF_BYTES]) -> Step {
    match Hello::decode(transcript.hello) {
        Ok(hello) if is_proof(secret, transcript, proof) => {
            Step::Arrive { peer: hello.from, host: hello.host }
        }
        _ => Step::Leave,
    }
}

/// Any descriptor will do; this one exists everywhere and needs no file.
fn spare() -> Result<OwnedFd, Errno> {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)
}

/// Unproved connections held at a time; the others wait in the kernel's queue.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// Let in per turn, so that a flood of strangers leaves time for messages.
const CONNECTIONS_PER_TURN: usize = 8;
/// While others wait in the queue, an unproved connection has this long: many round trips of an honest
/// process that is attending to it, and too short for strangers who say nothing to keep the door shut.
const UNPROVED_PATIENCE: Duration = Duration::from_millis(200);
/// Nobody stands at the door for longer, whether others wait or not. An honest process that computes
/// meanwhile dials again.
const UNPROVED_TIME_MAX: Duration = Duration::from_secs(30);
/// After running out of descriptors; one more is refused each time.
const DESCRIPTORS_PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::listen;
    use std::net::{Ipv4Addr, TcpStream};

    #[test]
    fn a_crowded_door_opens_when_one_leaves() {
        let poller = Poller::new().expect("a poller");
        let (listener, port) = listen(None, 0).expect("a listener");
        let mut door = Door::new(vec![listener], Peer(0), 9, [0; 16], &poller).expect("a door");
        let knock = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the port is open");
        let mut strangers: Vec<TcpStream> = (0..CONNECTIONS_MAX + 1).map(knock).collect();
        let now = Instant::now();
        while door.open(now, &poller) > 0 {}
        assert_eq!(door.connections.len(), CONNECTIONS_MAX);
        assert_eq!(door.due(), Some(now + UNPROVED_PATIENCE), "then the oldest has had its time");
        let first = door.connections[0].serial;
        drop(strangers.remove(0));
        assert!(door.attend(first, &poller).is_none());
        assert!(door.closed.is_none(), "one has left and the door is still closed");
        assert_eq!(door.open(now, &poller), 1, "the last one outside comes in");
    }

    #[test]
    fn the_oldest_makes_room_when_its_time_is_over() {
        let poller = Poller::new().expect("a poller");
        let (listener, port) = listen(None, 0).expect("a listener");
        let mut door = Door::new(vec![listener], Peer(0), 9, [0; 16], &poller).expect("a door");
        let knock = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the port is open");
        let _strangers: Vec<TcpStream> = (0..CONNECTIONS_MAX + 4).map(knock).collect();
        let now = Instant::now();
        while door.open(now, &poller) > 0 {}
        let later = now + UNPROVED_PATIENCE;
        door.tick(later, &poller);
        assert_eq!(door.open(later, &poller), 4, "those outside take the places of the oldest");
        assert_eq!(door.connections.len(), CONNECTIONS_MAX);
        door.tick(later + UNPROVED_TIME_MAX, &poller);
        assert!(!door.has_unproved(), "nobody stands at the door for ever");
    }
}
