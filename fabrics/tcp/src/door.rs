//! The listening socket, and the guests: accepted connections that have proved nothing yet.
//!
//! Anybody on the network can knock. A guest costs one descriptor and some 200 bytes, there are at most
//! [`GUESTS_MAX`] of them, and each is shown out at its first wrong byte. When all places are taken, those
//! who knock wait in the kernel's queue, and the longest-standing guest goes as soon as it has had its time;
//! an honest process that was shown out simply dials again.

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
    guests: Vec<Connection>,
    /// The number of the next guest; events name guests by it.
    next_serial: u32,
    /// Given up when no other descriptor is left, so that who knocks can be told why it cannot come in.
    spare: Option<OwnedFd>,
    /// While nobody can be let in, the poller does not watch the listener.
    closed: Option<Closed>,
}

/// A connection that has proved that it belongs to the job, before it becomes a link.
pub(crate) struct Arrived {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
    pub(crate) host: String,
    pub(crate) remote: Option<SocketAddr>,
}

/// A door that lets nobody in.
struct Closed {
    until: Instant,
    /// It opens as soon as one of the guests leaves.
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
        let guests = Vec::new();
        let spare = Some(spare()?);
        Ok(Door { listeners, here, peers, secret, guests, next_serial: 0, spare, closed: None })
    }

    pub(crate) fn has_guests(&self) -> bool {
        !self.guests.is_empty()
    }

    /// Lets in who knocks, a few at a time. Returns how many came.
    pub(crate) fn open(&mut self, now: Instant, poller: &Poller) -> usize {
        for count in 0..GUESTS_PER_TURN {
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
        GUESTS_PER_TURN
    }

    /// What is due by time: opens the door again, and shows out those who have stood for too long.
    pub(crate) fn tick(&mut self, now: Instant, poller: &Poller) {
        self.guests.retain(|guest| !guest.stage.is_unproved() || now < guest.since + GUEST_TIME_MAX);
        if self.closed.as_ref().is_some_and(|closed| closed.until <= now) {
            self.reopen(poller);
        }
    }

    /// When `tick` has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        let leaves = self.oldest().map(|(_, since)| since + GUEST_TIME_MAX);
        let opens = self.closed.as_ref().map(|closed| closed.until);
        [opens, leaves].into_iter().flatten().min()
    }

    /// Goes on with a guest from whom something came. Whoever has proved itself is returned, and stands at
    /// the door no more unless it is asked to [`wait`](Door::wait).
    pub(crate) fn attend(&mut self, serial: u32, poller: &Poller) -> Option<Arrived> {
        let at = self.guests.iter().position(|guest| guest.serial == serial)?;
        let step = self.guests[at].go_on(self.here, self.peers, &self.secret);
        if let Step::Stay = step {
            return None;
        }
        let Connection { socket, remote, .. } = self.guests.swap_remove(at);
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
            self.guests.push(Connection { serial, socket, remote, since: Instant::now(), stage });
        }
    }

    /// Takes back one who waits and comes from `peer`.
    pub(crate) fn take_waiting(&mut self, from: Peer) -> Option<Arrived> {
        let is_it = |guest: &Connection| matches!(guest.stage, Stage::Waiting { peer, .. } if peer == from);
        let at = self.guests.iter().position(is_it)?;
        let Connection { socket, remote, stage, .. } = self.guests.swap_remove(at);
        match stage {
            Stage::Waiting { peer, host } => Some(Arrived { socket, peer, host, remote }),
            other => unreachable!("a guest that waits was found in the stage {other:?}"),
        }
    }

    fn seat(&mut self, socket: OwnedFd, now: Instant, poller: &Poller) {
        if self.guests.len() >= GUESTS_MAX
            && let Some((oldest, _)) = self.oldest()
        {
            self.guests.swap_remove(oldest);
        }
        let (remote, serial) = (remote_address(&socket), self.number());
        if poller.add(&socket, Token::Connection(serial), Interest::Read).is_ok() {
            self.guests.push(Connection {
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

    /// When there is a place for another: at once, or when the oldest guest has had its time.
    fn room_at(&self, now: Instant) -> Instant {
        if self.guests.len() < GUESTS_MAX {
            return now;
        }
        self.oldest().map_or(now, |(_, since)| since) + GUEST_PATIENCE
    }

    /// The unproved guest that has stood longest: its place, and since when.
    fn oldest(&self) -> Option<(usize, Instant)> {
        let unproved = self.guests.iter().enumerate().filter(|(_, guest)| guest.stage.is_unproved());
        unproved.map(|(at, guest)| (at, guest.since)).min_by_key(|(_, since)| *since)
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

/// How far a guest has come.
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

/// What becomes of a guest.
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
pub(crate) const GUESTS_MAX: usize = 64;
/// Let in per turn, so that a flood of strangers leaves time for messages.
const GUESTS_PER_TURN: usize = 8;
/// While others wait outside, an unproved guest has this long: many round trips of an honest process that is
/// attending to it, and too short for strangers who say nothing to keep the door shut.
const GUEST_PATIENCE: Duration = Duration::from_millis(200);
/// Nobody stands at the door for longer, whether others wait or not. An honest process that computes
/// meanwhile dials again.
const GUEST_TIME_MAX: Duration = Duration::from_secs(30);
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
        let mut strangers: Vec<TcpStream> = (0..GUESTS_MAX + 1).map(knock).collect();
        let now = Instant::now();
        while door.open(now, &poller) > 0 {}
        assert_eq!(door.guests.len(), GUESTS_MAX);
        assert_eq!(door.due(), Some(now + GUEST_PATIENCE), "then the oldest has had its time");
        let first = door.guests[0].serial;
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
        let _strangers: Vec<TcpStream> = (0..GUESTS_MAX + 4).map(knock).collect();
        let now = Instant::now();
        while door.open(now, &poller) > 0 {}
        let later = now + GUEST_PATIENCE;
        door.tick(later, &poller);
        assert_eq!(door.open(later, &poller), 4, "those outside take the places of the oldest");
        assert_eq!(door.guests.len(), GUESTS_MAX);
        door.tick(later + GUEST_TIME_MAX, &poller);
        assert!(!door.has_guests(), "nobody stands at the door for ever");
    }
}
