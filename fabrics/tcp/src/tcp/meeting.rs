//! How two processes come to share one connection.
//!
//! Either may dial, and both may at the same moment. A dial is *committed* once its proof has gone out: then
//! the other end may have taken it. Of two committed dials that cross, the one from the lower process number
//! stands: the lower lets the other wait at its door until its own is decided, and the higher takes the
//! lower's and drops its own. A dial that is not committed gives way to whoever arrives. So both ends always
//! keep the same one.

use super::*;
use crate::door::Arrived;
use crate::handshake::Verdict;
use crate::opening::{Ends, Outcome};
use crate::socket::{self, send_text};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;

impl Tcp {
    /// Asks the poller who is ready, and attends to them and to what is due by time.
    pub(super) fn attend_ready(&mut self, sink: &mut impl Sink, turn: &mut Turn) {
        self.choose_watching();
        self.poller.ready(&mut self.batch);
        let count = self.batch.count();
        for step in 0..count {
            // Each time another comes first, or a busy few would use up every turn.
            let (token, is_writable) = self.batch.event((self.turns + step) % count);
            match token {
                Token::Link(index) => self.attend_link(index, is_writable, sink, turn),
                Token::Wake => {}
                // Connections alone need no clock; those who meet do.
                meeting => turn.happened += self.attend_meeting(meeting, Instant::now()),
            }
        }
        if self.is_waiting || !self.opening.is_empty() || self.door.due().is_some() {
            self.tick(Instant::now(), turn);
        }
    }

    fn attend_meeting(&mut self, token: Token, now: Instant) -> usize {
        match token {
            Token::Door => self.door.open(now, &self.poller),
            Token::Connection(serial) => usize::from(self.attend_connection(serial)),
            Token::Opening(index) => usize::from(self.drive(index, now)),
            Token::Link(_) | Token::Wake => 0,
        }
    }

    fn attend_link(&mut self, index: u32, is_writable: bool, sink: &mut impl Sink, turn: &mut Turn) {
        let State::Open(open) = &mut self.links[index as usize].state else { return };
        if is_writable && open.is_blocked() {
            open.unblock();
            turn.happened += 1;
            self.watch(index);
        }
        let before = turn.happened;
        self.read_link(index, sink, turn);
        if turn.happened > before {
            self.heard_by_poller(index);
        }
    }

    /// Does what is due by time, and tells the poller when that is next, for those who sleep.
    fn tick(&mut self, now: Instant, turn: &mut Turn) {
        self.door.tick(now, &self.poller);
        for index in self.opening.clone() {
            if self.opening_due(index).is_some_and(|due| due <= now) {
                turn.happened += usize::from(self.drive(index, now));
            }
        }
        let due =
            self.opening.iter().filter_map(|index| self.opening_due(*index)).chain(self.door.due()).min();
        self.is_waiting = due.is_some();
        self.poller.set_due(due);
    }

    fn opening_due(&self, index: u32) -> Option<Instant> {
        match &self.links[index as usize].state {
            State::Opening(opening) => opening.due(),
            _ => None,
        }
    }

    /// Makes the link to a peer that nobody has dialled yet.
    pub(super) fn begin(
        &mut self,
        peer: Peer,
        card: &Card,
        dials: Vec<SocketAddr>,
    ) -> Result<u32, FabricError> {
        let ends = Ends {
            here: self.here,
            here_host: &self.host.name,
            there: peer,
            there_host: &card.host_name,
            is_same_machine: card.host_identity.shares_machine(self.host.identity),
            secret: card.secret,
            barred: card.barred,
        };
        let token = Token::Opening(self.links.len() as u32);
        let now = Instant::now();
        let opening = Opening::new(&ends, dials, self.connect_timeout, token, now)
            .map_err(|errno| trouble::cannot_open("get random bytes", errno))?;
        let index = self.add_link(peer, State::Opening(Box::new(opening)));
        self.opening.push(index);
        Ok(index)
    }

    fn add_link(&mut self, peer: Peer, state: State) -> u32 {
        let index = self.links.len() as u32;
        self.links.push(Link { peer, state, is_listed: false, watched: None });
        self.by_peer.insert(peer, index);
        index
    }

    /// Goes on with an opening; whether a step was made.
    pub(super) fn drive(&mut self, index: u32, now: Instant) -> bool {
        let link = &mut self.links[index as usize];
        let peer = link.peer;
        let State::Opening(opening) = &mut link.state else { return false };
        match opening.drive(now, &self.poller) {
            Outcome::Going { stepped } => {
                let is_committed = opening.is_committed();
                stepped | (!is_committed && self.take_waiting(index))
            }
            Outcome::Open { socket, remote } => {
                // The one who waited has lost to this connection.
                drop(self.door.take_waiting(peer));
                let who = who(peer, opening.there_host(), Some(remote));
                self.establish(index, socket, who);
                true
            }
            Outcome::Failed(error) => {
                if !self.take_waiting(index) {
                    self.fail(index, error);
                }
                true
            }
        }
    }

    /// Takes the connection of the peer itself, if one waits at the door; whether it did.
    fn take_waiting(&mut self, index: u32) -> bool {
        let peer = self.links[index as usize].peer;
        self.door.take_waiting(peer).is_some_and(|arrived| self.take(arrived))
    }

    /// Goes on with a connection; whether it has become a link.
    fn attend_connection(&mut self, serial: u32) -> bool {
        let Some(arrived) = self.door.attend(serial, &self.poller) else { return false };
        let Some(&index) = self.by_peer.get(&arrived.peer) else { return self.take(arrived) };
        match &self.links[index as usize].state {
            State::Opening(opening) if opening.is_committed() && self.here < arrived.peer => {
                self.door.wait(arrived, &self.poller);
                false
            }
            State::Opening(_) => self.take(arrived),
            State::Open(_) | State::Ended { .. } | State::Failing(_) | State::Lost => {
                // Whether it hears this or only the close, it will not come again.
                let _ = send_text(&arrived.socket, &Verdict::Another.encode());
                false
            }
        }
    }

    /// Makes a proved connection the link to its peer, in place of an opening from here.
    fn take(&mut self, arrived: Arrived) -> bool {
        let Arrived { socket, peer, host, remote } = arrived;
        if send_text(&socket, &Verdict::Open.encode()).is_err() {
            return false;
        }
        let index = match self.by_peer.get(&peer) {
            Some(index) => *index,
            None => self.add_link(peer, State::Lost),
        };
        self.establish(index, socket, who(peer, &host, remote));
        true
    }

    fn establish(&mut self, index: u32, socket: OwnedFd, who: String) {
        self.opening.retain(|opening| *opening != index);
        // It was watched while it was opened; from now on that depends.
        if let Err(errno) = self.poller.remove(&socket) {
            return self.fail(index, trouble::died(&who, &trouble::reason(errno)));
        }
        if let Err(errno) = socket::probe(&socket, self.node_timeout) {
            return self.fail(index, trouble::died(&who, &trouble::reason(errno)));
        }
        let link = &mut self.links[index as usize];
        link.state = State::Open(Open::new(socket, link.peer, who));
        self.open.push(index);
        self.watch(index);
    }
}

impl Tcp {
    /// Says goodbye to a peer, and closes the connection; false while the socket is full. Who `is_late` waits
    /// for the ends of messages only. A process may live on after it has left, and what ends without a
    /// goodbye is a loss to the peer.
    pub(super) fn part_from(&mut self, index: u32, is_late: bool) -> bool {
        let link = &mut self.links[index as usize];
        let who = match &mut link.state {
            State::Open(open) => {
                // The rest of a goodbye is not waited for as messages are.
                let may_end = is_late && (open.is_parting() || open.send_tail());
                if !open.say_goodbye() && !open.has_failed() && !may_end {
                    self.note_blocked(index);
                    return false;
                }
                close(open);
                open.who().into()
            }
            State::Opening(opening) => {
                opening.say_goodbye();
                who(link.peer, opening.there_host(), None).into()
            }
            State::Ended { .. } | State::Failing(_) | State::Lost => return true,
        };
        link.state = State::Ended { who };
        self.opening.retain(|opening| *opening != index);
        if self.inbox_of.take_if(|of| *of == index).is_some() {
            self.inbox.clear();
        }
        self.forget(index);
        true
    }
}

impl Drop for Tcp {
    /// Says goodbye on every connection, so that the peers see an end in good order. A panic is none.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let until = Instant::now() + FAREWELL;
        for link in &mut self.links {
            if let State::Open(open) = &mut link.state {
                farewell(open, until);
            }
        }
    }
}

/// Says goodbye and closes for writing; waits a little where the socket is full.
fn farewell(open: &mut Open, until: Instant) {
    while !open.say_goodbye() && !open.has_failed() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !open.is_blocked() {
            return;
        }
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(&open.socket, PollFlags::OUT)], Some(&left));
    }
    close(open);
}

/// Ends what goes to the peer, after all that is on its way.
fn close(open: &Open) {
    let _ = rustix::net::shutdown(&open.socket, rustix::net::Shutdown::Write);
    open.discard_unread();
}

/// "process 3 on node7 (10.0.0.7:20003)".
fn who(peer: Peer, host: &str, remote: Option<SocketAddr>) -> String {
    let number = peer.0;
    remote.map_or_else(
        || format!("process {number} on {host}"),
        |remote| format!("process {number} on {host} ({remote})"),
    )
}

/// How long the end waits with goodbyes for full sockets, all together. A peer that does not read for so long
/// hears of a loss, as if this process had died.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);
