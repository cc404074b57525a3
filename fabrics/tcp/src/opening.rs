//! A connection on its way: every address of the peer is dialled, and the first over which the peer proves
//! itself wins.
//!
//! The dials start a little after one another, the likeliest first, and none waits for another to fail: on a
//! host with several networks the wrong ones may swallow packets, or lead to somebody else. Nothing here
//! blocks, and the clock comes in as an argument. A time limit holds for each dial until the network answers;
//! after that the peer may take as long as it likes, since a process that computes answers only when it next
//! communicates. That it is the peer who is silent, and nobody else, is found out within the same limit (see
//! `knock`).

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fabric::{FabricError, Peer};
use rustix::io::Errno;

use crate::frame::Frame;
use crate::handshake::{
    ANSWER_BYTES, Answer, BadText, HELLO_BYTES, Hello, Refusal, Secret, Transcript, VERDICT_BYTES, Verdict,
    foreign_version, is_answer_proved, proof,
};
use crate::knock::{Barred, Trial};
use crate::poller::{Interest, Poller, Token};
use crate::socket::{Reading, Text, dial, is_connected, local_port, send_text};
use crate::trouble::{Failure, Tried, unreachable};

/// All that is known of a connection before there is one.
pub(crate) struct Opening {
    hello: [u8; HELLO_BYTES],
    secret: Secret,
    barred: Barred,
    dials: Vec<Dial>,
    is_same_machine: bool,
    /// How long the network may leave a dial without an answer.
    limit: Duration,
    /// Whom the events are for.
    token: Token,
    /// "from process 0 on here to process 1 on there", for messages.
    pair: String,
    there_host: String,
}

/// Both ends of a connection to be.
pub(crate) struct Ends<'a> {
    pub(crate) here: Peer,
    pub(crate) here_host: &'a str,
    pub(crate) there: Peer,
    pub(crate) there_host: &'a str,
    /// One kernel runs both.
    pub(crate) is_same_machine: bool,
    /// The secret on the card of the peer, by which both ends prove themselves.
    pub(crate) secret: Secret,
    /// The ports from which the peer takes no connection.
    pub(crate) barred: Barred,
}

/// One turn of an opening, as its dials need it.
#[derive(Clone, Copy)]
struct OpeningTurn<'a> {
    now: Instant,
    /// How long the network may leave a dial without an answer.
    limit: Duration,
    poller: &'a Poller,
    /// The token of the opening, by which the poller tells its events.
    token: Token,
}

/// What became of an opening.
pub(crate) enum Outcome {
    /// Still on its way; whether a step was made.
    Going { stepped: bool },
    /// The peer has proved itself and taken the connection.
    Open { socket: OwnedFd, remote: SocketAddr },
    /// No address leads to the peer.
    Failed(FabricError),
}

impl Opening {
    /// Prepares to dial `addresses`; [`drive`](Opening::drive) does it.
    pub(crate) fn new(
        ends: &Ends<'_>,
        addresses: Vec<SocketAddr>,
        limit: Duration,
        token: Token,
        now: Instant,
    ) -> Result<Opening, Errno> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|_| Errno::IO)?;
        let hello = Hello { from: ends.here, to: ends.there, nonce, host: ends.here_host.to_string() };
        let pair = format!(
            "from process {} on {} to process {} on {}",
            ends.here.0, ends.here_host, ends.there.0, ends.there_host
        );
        let dials = addresses
            .into_iter()
            .enumerate()
            .map(|(number, address)| Dial::new(address, now + STAGGER * number as u32))
            .collect();
        let there_host = ends.there_host.to_string();
        let is_same_machine = ends.is_same_machine;
        Ok(Opening {
            hello: hello.encode(),
            secret: ends.secret,
            barred: ends.barred,
            dials,
            is_same_machine,
            limit,
            token,
            pair,
            there_host,
        })
    }

    /// The peer's host, as its card names it.
    pub(crate) fn there_host(&self) -> &str {
        &self.there_host
    }

    /// Whether the proof has gone out: then the peer may already have taken the connection, and only its
    /// verdict ends the matter.
    pub(crate) fn is_committed(&self) -> bool {
        self.dials.iter().any(Dial::is_proving)
    }

    /// Whether no further address need be dialled meanwhile: behind the loopback of this host stands the peer
    /// itself, however long it takes to answer.
    fn has_favourite(&self) -> bool {
        let is_at_door = |dial: &Dial| matches!(dial.state, DialState::Greeted { .. });
        self.is_committed()
            || self.dials.iter().any(|dial| is_at_door(dial) && dial.address.ip().is_loopback())
    }

    /// When `drive` has something to do though nothing comes.
    pub(crate) fn due(&self) -> Option<Instant> {
        let has_favourite = self.has_favourite();
        self.dials
            .iter()
            .filter_map(|dial| match &dial.state {
                DialState::Resting { until } if !has_favourite => Some(*until),
                DialState::Connecting { until, .. } => Some(*until),
                DialState::Greeted { .. } => dial.trial.as_ref().and_then(Trial::due),
                _ => None,
            })
            .min()
    }

    /// Makes every step that can be made now.
    pub(crate) fn drive(&mut self, now: Instant, poller: &Poller) -> Outcome {
        let mut stepped = false;
        while self.step_each(now, poller) {
            stepped = true;
            if let Some(at) = self.dials.iter().position(Dial::is_open) {
                return self.finish(at);
            }
            // A failure lets the next address start at once.
            if !self.dials.iter().any(|dial| dial.is_trying() || dial.is_proving()) {
                self.hurry(now);
            }
        }
        if self.dials.iter().all(|dial| matches!(dial.state, DialState::Failed(_))) {
            return Outcome::Failed(unreachable(&self.pair, &self.tried()));
        }
        Outcome::Going { stepped }
    }

    /// This process leaves. The peer may have taken a dial whose proof is out, or take it yet: it finds a
    /// goodbye behind the proof.
    pub(crate) fn say_goodbye(&self) {
        for dial in &self.dials {
            if let DialState::Proving { socket, .. } = &dial.state {
                // Whoever does not hear it hears that the connection ends.
                let _ = send_text(socket, &Frame::of_goodbye());
            }
        }
    }

    /// One step of each dial that can make one; whether any could.
    fn step_each(&mut self, now: Instant, poller: &Poller) -> bool {
        (0..self.dials.len()).fold(false, |stepped, at| self.step(at, now, poller) | stepped)
    }

    /// One step of one dial; false when it has to wait.
    fn step(&mut self, at: usize, now: Instant, poller: &Poller) -> bool {
        let has_favourite = self.has_favourite();
        let turn = OpeningTurn { now, limit: self.limit, poller, token: self.token };
        let dial = &mut self.dials[at];
        match std::mem::replace(&mut dial.state, DialState::Stepping) {
            DialState::Resting { until } if until <= now && !has_favourite => {
                dial.begin(self.is_same_machine, self.barred, turn)
            }
            DialState::Connecting { socket, until } => dial.greet(socket, until, &self.hello, turn),
            DialState::Greeted { socket, answer } => {
                self.hear_answer(at, socket, answer, now) || self.doubt(at, now, poller)
            }
            DialState::Proving { socket, verdict } => dial.hear_verdict(socket, verdict, now),
            waiting => {
                dial.state = waiting;
                false
            }
        }
    }

    /// The answer decides which of several dials goes on: the first that proves the peer.
    fn hear_answer(
        &mut self,
        at: usize,
        socket: OwnedFd,
        mut answer: Text<ANSWER_BYTES>,
        now: Instant,
    ) -> bool {
        let reading = answer.read(&socket);
        let dial = &mut self.dials[at];
        if reading == Reading::Part {
            dial.state = DialState::Greeted { socket, answer };
            return false;
        }
        if let Some(theirs) = foreign_version(answer.so_far()) {
            return dial.fail(Failure::Version(theirs));
        }
        if let Reading::Ended(_) = reading {
            return dial.rest(now);
        }
        match Answer::decode(answer.whole()) {
            Ok(Answer::Nonce { nonce, mac }) => self.prove(at, socket, &nonce, &mac, now),
            Ok(Answer::Refusal(Refusal::NoDescriptors)) => dial.rest_because(Failure::NoDescriptors, now),
            Ok(Answer::Refusal(Refusal::OtherVersion)) | Err(BadText::Foreign) => {
                dial.fail(Failure::Stranger)
            }
            Err(BadText::Version { theirs }) => dial.fail(Failure::Version(theirs)),
        }
    }

    /// Asks who is silent; true when it is not the peer.
    fn doubt(&mut self, at: usize, now: Instant, poller: &Poller) -> bool {
        let (barred, limit) = (self.barred, self.limit);
        let dial = &mut self.dials[at];
        let trial = dial.trial.get_or_insert_with(|| Trial::new(barred, now, limit));
        trial.finds_a_stranger(dial.address, now, self.token, poller) && dial.fail(Failure::Unproved)
    }

    fn prove(
        &mut self,
        at: usize,
        socket: OwnedFd,
        answer_nonce: &[u8; 16],
        mac: &[u8; 32],
        now: Instant,
    ) -> bool {
        let transcript = Transcript { hello: &self.hello, answer_nonce };
        if !is_answer_proved(&self.secret, &transcript, mac) {
            return self.dials[at].fail(Failure::Stranger);
        }
        // Now it is known that this address is right; from here on it is tried for as long as it takes.
        self.dials[at].tries_left = TRIES_MAX;
        if send_text(&socket, &proof(&self.secret, &transcript)).is_err() {
            return self.dials[at].rest(now);
        }
        for other in self.dials.iter_mut().filter(|dial| dial.is_trying()) {
            other.state = DialState::Resting { until: now };
        }
        self.dials[at].trial = None;
        self.dials[at].state = DialState::Proving { socket, verdict: Text::new() };
        true
    }

    fn finish(&mut self, at: usize) -> Outcome {
        let dial = &mut self.dials[at];
        match std::mem::replace(&mut dial.state, DialState::Stepping) {
            DialState::Open { socket } => Outcome::Open { socket, remote: dial.address },
            other => unreachable!("a dial that is open was found as {}", other.name()),
        }
    }

    /// The next address that has not been tried yet does not wait for its time.
    fn hurry(&mut self, now: Instant) {
        let is_new = |dial: &&mut Dial| dial.tries_left == TRIES_MAX && dial.is_resting();
        if let Some(dial) = self.dials.iter_mut().find(is_new) {
            dial.state = DialState::Resting { until: now };
        }
    }

    fn tried(&self) -> Vec<Tried> {
        let tried = self.dials.iter().map(|dial| {
            let DialState::Failed(reason) = dial.state else {
                unreachable!("a list of failures was made while a dial was {}", dial.state.name())
            };
            Tried { address: dial.address, reason }
        });
        tried.collect()
    }
}

/// One address, and how far it has come.
struct Dial {
    address: SocketAddr,
    /// How often it may still be closed on before it counts as failed.
    tries_left: u32,
    /// Somebody has taken a connection there.
    was_taken: bool,
    /// Who it is that has been greeted there and is silent.
    trial: Option<Trial>,
    state: DialState,
}

enum DialState {
    /// Not dialled yet, or to be dialled again.
    Resting {
        until: Instant,
    },
    /// The network has not answered yet.
    Connecting {
        socket: OwnedFd,
        until: Instant,
    },
    /// The hello is out.
    Greeted {
        socket: OwnedFd,
        answer: Text<ANSWER_BYTES>,
    },
    /// The peer has proved itself, and our proof is out.
    Proving {
        socket: OwnedFd,
        verdict: Text<VERDICT_BYTES>,
    },
    Open {
        socket: OwnedFd,
    },
    Failed(Failure),
    /// Taken out for the length of a step.
    Stepping,
}

impl DialState {
    fn name(&self) -> &'static str {
        match self {
            DialState::Resting { .. } => "resting",
            DialState::Connecting { .. } => "connecting",
            DialState::Greeted { .. } => "greeted",
            DialState::Proving { .. } => "proving",
            DialState::Open { .. } => "open",
            DialState::Failed(_) => "failed",
            DialState::Stepping => "stepping",
        }
    }
}

impl Dial {
    fn new(address: SocketAddr, at: Instant) -> Dial {
        Dial {
            address,
            tries_left: TRIES_MAX,
            was_taken: false,
            trial: None,
            state: DialState::Resting { until: at },
        }
    }

    fn is_trying(&self) -> bool {
        matches!(self.state, DialState::Connecting { .. } | DialState::Greeted { .. })
    }

    fn is_open(&self) -> bool {
        matches!(self.state, DialState::Open { .. })
    }

    fn is_resting(&self) -> bool {
        matches!(self.state, DialState::Resting { .. })
    }

    fn is_proving(&self) -> bool {
        matches!(self.state, DialState::Proving { .. })
    }

    fn begin(&mut self, is_same_machine: bool, barred: Barred, turn: OpeningTurn<'_>) -> bool {
        let OpeningTurn { now, limit, poller, token } = turn;
        let until = now + limit;
        let dial = || {
            let socket = dial(self.address, is_same_machine)?;
            Ok((local_port(&socket)?, socket))
        };
        // Kernels may be told to choose from all ports; then it is one of the barred now and then.
        let is_let_in = |dialled: &Result<(u16, OwnedFd), Errno>| !matches!(dialled, Ok((port, _)) if barred.contains(*port));
        let dialled = (0..TRIES_MAX).map(|_| dial()).find(is_let_in).unwrap_or(Err(Errno::ADDRNOTAVAIL));
        let socket =
            dialled.and_then(|(_, socket)| poller.add(&socket, token, Interest::Write).map(|()| socket));
        match socket {
            Ok(socket) => {
                self.state = DialState::Connecting { socket, until };
                true
            }
            Err(reason) => self.fail(Failure::System(reason)),
        }
    }

    fn greet(
        &mut self,
        socket: OwnedFd,
        until: Instant,
        hello: &[u8; HELLO_BYTES],
        turn: OpeningTurn<'_>,
    ) -> bool {
        let OpeningTurn { now, limit, poller, token } = turn;
        match is_connected(&socket) {
            Ok(false) if until <= now => self.fail(Failure::Silence(limit)),
            Ok(false) => {
                self.state = DialState::Connecting { socket, until };
                false
            }
            Err(Errno::CONNREFUSED) if self.was_taken => self.fail(Failure::Gone),
            Err(reason) => self.fail(Failure::System(reason)),
            Ok(true) => {
                self.was_taken = true;
                match send_text(&socket, hello).and_then(|()| poller.change(&socket, token, Interest::Read)) {
                    Ok(()) => {
                        self.state = DialState::Greeted { socket, answer: Text::new() };
                        true
                    }
                    Err(_) => self.rest(now),
                }
            }
        }
    }

    fn hear_verdict(&mut self, socket: OwnedFd, mut verdict: Text<VERDICT_BYTES>, now: Instant) -> bool {
        match verdict.read(&socket) {
            Reading::Part => {
                self.state = DialState::Proving { socket, verdict };
                false
            }
            Reading::Ended(_) => self.rest(now),
            Reading::Whole => match Verdict::decode(verdict.whole()) {
                Ok(Verdict::Open) => {
                    self.state = DialState::Open { socket };
                    true
                }
                Ok(Verdict::Another) => self.fail(Failure::Another),
                Err(_) => self.fail(Failure::Stranger),
            },
        }
    }

    /// The other end closed early: it may have been crowded, or have tired of waiting. Again, a little later.
    fn rest(&mut self, now: Instant) -> bool {
        self.rest_because(Failure::Closed, now)
    }

    fn rest_because(&mut self, failure: Failure, now: Instant) -> bool {
        if self.tries_left == 0 {
            return self.fail(failure);
        }
        self.tries_left -= 1;
        self.state = DialState::Resting { until: now + REST * (TRIES_MAX - self.tries_left) };
        true
    }

    fn fail(&mut self, failure: Failure) -> bool {
        self.trial = None;
        self.state = DialState::Failed(failure);
        true
    }
}

/// Between the starts of two dials: many round trips of any network that jobs run on, and not felt by a
/// person.
const STAGGER: Duration = Duration::from_millis(30);
/// An address that closes on us is tried this often again, with ever longer rests: one second and a half in
/// all.
const TRIES_MAX: u32 = 8;
const REST: Duration = Duration::from_millis(40);
