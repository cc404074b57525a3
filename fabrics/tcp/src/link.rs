//! An open connection: messages out, messages in.
//!
//! Out: frame and payload leave in one system call, straight from the payload's memory. Where many small ones
//! are posted in one turn, the kernel is asked to gather the later ones; they are given to it all the same,
//! so that they arrive even if this process does nothing more.
//!
//! In: small messages are read many at a time into the inbox that all connections share; a payload that is
//! larger than what has come is read straight to where the sink wants it. A connection keeps 64 bytes of its
//! own for what was cut in two.

use std::os::fd::{AsFd, OwnedFd};

use fabric::{FabricError, Header, Payload, Peer, Posted, Sink, UserMemory};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};

use crate::frame::{FRAME_BYTES, Frame};
use crate::memory;
use crate::socket::{Controls, Pace};
use crate::tcp::silence::Silence;
use crate::trouble;

/// One open connection.
pub(crate) struct Open {
    pub(crate) socket: OwnedFd,
    peer: Peer,
    outgoing: Outgoing,
    incoming: Incoming,
    pace: Pace,
    burst: Burst,
    /// The last message was a large one, so the next probably is, too.
    is_streaming: bool,
    /// A part of a goodbye has gone out, and the rest waits.
    is_parting: bool,
    /// Of the host at the other end.
    pub(crate) silence: Silence,
    /// Which process it leads to, its host and its address, for messages.
    who: Box<str>,
    /// System calls that moved payloads or tried to.
    #[cfg(test)]
    pub(crate) calls: std::cell::Cell<u16>,
}

/// Why a connection is none any more.
pub(crate) enum Ended {
    /// The peer said goodbye.
    Goodbye,
    /// The connection broke, or the peer broke the protocol.
    Lost(FabricError),
}

/// How much may still be reported in this turn, and how much happened.
pub(crate) struct Turn {
    pub(crate) left: usize,
    pub(crate) happened: usize,
}

impl Turn {
    pub(crate) fn new(events: usize) -> Turn {
        Turn { left: events, happened: 0 }
    }

    #[inline]
    fn count(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.happened += 1;
    }
}

impl Open {
    pub(crate) fn new(socket: OwnedFd, peer: Peer, who: String) -> Open {
        let (outgoing, incoming) = (Outgoing::default(), Incoming::BETWEEN);
        let pace = Controls::pace(&socket);
        let burst = Burst::default();
        Open {
            socket,
            peer,
            outgoing,
            incoming,
            pace,
            burst,
            is_streaming: false,
            is_parting: false,
            silence: Silence::default(),
            who: who.into(),
            #[cfg(test)]
            calls: std::cell::Cell::default(),
        }
    }

    /// It has become known where the peer is.
    pub(crate) fn choose_control(&mut self, controls: &Controls, is_same_machine: bool) {
        self.pace = controls.choose(&self.socket, is_same_machine);
    }

    pub(crate) fn who(&self) -> &str {
        &self.who
    }

    /// Whether the socket took less than was offered, and bytes of ours wait or the poster was told so.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.outgoing.is_blocked
    }

    /// The socket takes bytes again.
    pub(crate) fn unblock(&mut self) {
        self.outgoing.is_blocked = false;
    }

    /// Whether sending has failed, so that the end must be looked for.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.outgoing.failure.is_some()
    }

    /// Begins a message, in the turn of this number.
    #[inline]
    pub(crate) fn post(&mut self, header: &Header, payload: Payload<'_>, turn: u32) -> Posted {
        debug_assert!(
            !self.outgoing.is_mid_message,
            "a message was posted before the one under way was finished"
        );
        if !self.send_tail() {
            return Posted::Busy;
        }
        self.burst.count(turn);
        if self.burst.is_long() || self.burst.is_gathered {
            self.choose_gathering(payload.bytes());
        }
        let frame = Frame::of_message(header, payload.bytes());
        let first = payload.part(0, self.call_bytes(payload.bytes()));
        let sent = self.send_first(&frame, first);
        let Some(sent) = self.outcome(sent, FRAME_BYTES + first.bytes()) else { return self.refused() };
        if sent < FRAME_BYTES {
            self.outgoing.tail.keep(&frame[sent..]);
        }
        let taken = sent.saturating_sub(FRAME_BYTES);
        if taken == payload.bytes() {
            Posted::Sent
        } else if taken < first.bytes() {
            self.partly(taken)
        } else {
            self.go_on(payload, taken, POST_BYTES_MAX.saturating_sub(taken))
        }
    }

    /// Goes on with a message.
    pub(crate) fn resume(&mut self, rest: Payload<'_>) -> Posted {
        if !self.send_tail() {
            return Posted::Busy;
        }
        match self.go_on(rest, 0, POST_BYTES_MAX) {
            Posted::Partly(0) => Posted::Busy,
            posted => posted,
        }
    }

    /// How much of a payload one call takes. Of a short one that comes alone, half: then the other end begins
    /// to read while the second half is still sent. Of others much, unless the kernel meters it out.
    #[inline]
    fn call_bytes(&self, payload_bytes: usize) -> usize {
        let is_alone = payload_bytes <= 2 * CALL_BYTES && self.burst.posts <= 1;
        if is_alone || self.pace == Pace::Metered { CALL_BYTES } else { LONG_CALL_BYTES }
    }

    /// Whether small messages wait in the kernel for others; [`stop_gathering`](Open::stop_gathering) sends
    /// them.
    #[inline]
    pub(crate) fn is_gathering(&self) -> bool {
        self.burst.is_gathered
    }

    /// Of many small messages in one turn, the later ones go out together: then the kernel makes one packet
    /// of all that come until the peer has taken the earlier ones, or until the next turn.
    #[cold]
    fn choose_gathering(&mut self, payload_bytes: usize) {
        let wanted = self.burst.is_long() && payload_bytes <= GATHERED_BYTES_MAX;
        if wanted != self.burst.is_gathered && sockopt::set_tcp_nodelay(&self.socket, !wanted).is_ok() {
            self.burst.is_gathered = wanted;
        }
    }

    /// Sends what waits for others.
    #[cold]
    pub(crate) fn stop_gathering(&mut self) {
        self.burst.posts = 0;
        self.choose_gathering(0);
    }

    /// Sends up to `at_most` more bytes of a payload of which `taken` are gone.
    fn go_on(&mut self, payload: Payload<'_>, mut taken: usize, at_most: usize) -> Posted {
        let end = payload.bytes().min(taken + at_most);
        while taken < end {
            let part = payload.part(taken, self.call_bytes(payload.bytes() - taken));
            let sent = memory::send(self.socket.as_fd(), part);
            let Some(sent) = self.outcome(sent, part.bytes()) else { break };
            taken += sent;
            if sent < part.bytes() {
                break;
            }
        }
        if taken == payload.bytes() || self.has_failed() {
            self.outgoing.is_mid_message = false;
            return Posted::Sent;
        }
        self.partly(taken)
    }

    fn partly(&mut self, taken: usize) -> Posted {
        self.outgoing.is_mid_message = true;
        Posted::Partly(taken)
    }

    /// The first call of a message. A small payload joins the frame in one piece of memory, which the kernel
    /// takes faster than two.
    #[inline]
    fn send_first(&self, frame: &[u8; FRAME_BYTES], payload: Payload<'_>) -> Result<usize, Errno> {
        if payload.bytes() > JOINED_BYTES_MAX {
            return memory::send_both(self.socket.as_fd(), frame, payload);
        }
        let mut joined = [0; FRAME_BYTES + JOINED_BYTES_MAX];
        joined[..FRAME_BYTES].copy_from_slice(frame);
        let end = FRAME_BYTES + payload.copy_to(&mut joined[FRAME_BYTES..]);
        rustix::net::send(&self.socket, &joined[..end], SendFlags::NOSIGNAL)
    }

    /// Sends what is left of a frame that was cut in two; true when nothing is left.
    #[inline]
    pub(crate) fn send_tail(&mut self) -> bool {
        self.outgoing.tail.is_empty() || self.send_tail_now()
    }

    #[cold]
    fn send_tail_now(&mut self) -> bool {
        let tail = self.outgoing.tail.bytes();
        let offered = tail.len();
        let sent = rustix::net::send(&self.socket, tail, SendFlags::NOSIGNAL);
        let Some(sent) = self.outcome(sent, offered) else { return self.has_failed() };
        self.outgoing.tail.drop_front(sent);
        self.outgoing.tail.is_empty()
    }

    /// Says goodbye, if the stream stands between two messages. True when it went out.
    pub(crate) fn say_goodbye(&mut self) -> bool {
        if self.outgoing.is_mid_message || self.has_failed() || !self.send_tail() {
            return false;
        }
        let goodbye = Frame::of_goodbye();
        let sent = rustix::net::send(&self.socket, &goodbye, SendFlags::NOSIGNAL);
        match self.outcome(sent, FRAME_BYTES) {
            Some(FRAME_BYTES) => true,
            // Once the tail is out the peer has a whole goodbye; that another follows does no harm.
            Some(sent) => {
                self.outgoing.tail.keep(&goodbye[sent..]);
                self.is_parting = true;
                false
            }
            None => false,
        }
    }

    /// Whether what waits to be sent is the rest of a goodbye, behind all messages.
    pub(crate) fn is_parting(&self) -> bool {
        self.is_parting
    }

    /// Throws away what came and will not be read. A socket that is closed over unread bytes would take back
    /// what it has not sent yet.
    pub(crate) fn discard_unread(&self) {
        let mut nowhere = [0; DISCARD_BYTES];
        for _ in 0..DISCARD_READS_MAX {
            match rustix::net::recv(&self.socket, &mut nowhere[..], RecvFlags::empty()) {
                Ok((bytes, _)) if bytes > 0 => {}
                _ => break,
            }
        }
    }

    /// Bytes sent; `None` when the socket takes none now, or never again.
    #[inline]
    fn outcome(&mut self, sent: Result<usize, Errno>, offered: usize) -> Option<usize> {
        #[cfg(test)]
        self.calls.set(self.calls.get().wrapping_add(1));
        match sent {
            Ok(sent) => {
                self.outgoing.is_blocked = sent < offered;
                Some(sent)
            }
            Err(reason) => {
                self.note(reason);
                None
            }
        }
    }

    #[cold]
    fn note(&mut self, reason: Errno) {
        match reason {
            Errno::AGAIN | Errno::INTR | Errno::NOBUFS => self.outgoing.is_blocked = true,
            // What the peer sent before it ended is still to be read; the end is reported after it.
            reason => self.outgoing.failure = Some(reason),
        }
    }

    /// Nothing was taken. A message to the lost counts as sent: the loss will be, or was, told.
    #[cold]
    fn refused(&self) -> Posted {
        if self.has_failed() { Posted::Sent } else { Posted::Busy }
    }

    /// Reads what has come, within the turn, and reports it. The inbox must be empty.
    pub(crate) fn receive(
        &mut self,
        inbox: &mut Inbox,
        sink: &mut impl Sink,
        turn: &mut Turn,
    ) -> Result<(), Ended> {
        for _ in 0..READS_PER_TURN {
            let is_more_likely = match self.incoming {
                Incoming::Between { .. } => self.read_messages(inbox, sink, turn)?,
                Incoming::Landing { .. } => self.read_landing(inbox, sink, turn)?,
            };
            if !is_more_likely || turn.left == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Reads as many messages as have come and fit. True when more may be waiting.
    fn read_messages(
        &mut self,
        inbox: &mut Inbox,
        sink: &mut impl Sink,
        turn: &mut Turn,
    ) -> Result<bool, Ended> {
        let Incoming::Between { cut } = &mut self.incoming else { return Ok(false) };
        debug_assert!(inbox.is_empty(), "the inbox still holds messages of somebody");
        let kept = cut.bytes().len();
        let end = if self.is_streaming { STREAMING_BYTES } else { INBOX_BYTES };
        inbox.buffer[..kept].copy_from_slice(cut.bytes());
        let received = rustix::net::recv(&self.socket, &mut inbox.buffer[kept..end], RecvFlags::empty());
        let Some(received) = self.received(received.map(|(bytes, _)| bytes))? else { return Ok(false) };
        if let Incoming::Between { cut } = &mut self.incoming {
            cut.drop_front(kept);
        }
        inbox.fill(kept + received);
        self.is_streaming = false;
        self.deliver(inbox, sink, turn)?;
        Ok(kept + received == end && inbox.is_empty())
    }

    /// Reports the messages in the inbox, as many as the turn allows; what is left stays there.
    pub(crate) fn deliver(
        &mut self,
        inbox: &mut Inbox,
        sink: &mut impl Sink,
        turn: &mut Turn,
    ) -> Result<(), Ended> {
        while turn.left > 0 {
            let Some((frame, rest)) = inbox.bytes().split_first_chunk::<FRAME_BYTES>() else { break };
            match Frame::decode(frame) {
                Ok(Frame::Message { header, bytes }) if bytes <= rest.len() => {
                    sink.message(self.peer, &header, Payload::from(&rest[..bytes]));
                    inbox.start += FRAME_BYTES + bytes;
                }
                Ok(Frame::Message { header, bytes }) => {
                    self.incoming = begin_landing(sink, self.peer, &header, bytes, rest);
                    self.is_streaming = bytes > INBOX_BYTES;
                    inbox.clear();
                }
                Ok(Frame::Goodbye) => return Err(Ended::Goodbye),
                Err(bad) => return Err(Ended::Lost(trouble::broke_protocol(&self.who, &bad))),
            }
            turn.count();
        }
        self.keep_cut(inbox);
        Ok(())
    }

    /// Takes the beginning of a frame out of the inbox, which others need.
    #[inline]
    fn keep_cut(&mut self, inbox: &mut Inbox) {
        if let Incoming::Between { cut } = &mut self.incoming
            && inbox.bytes().len() < FRAME_BYTES
        {
            cut.keep(inbox.bytes());
            inbox.clear();
        }
    }

    /// Reads a chunk of the payload under way straight to its place, or past it where there is no room.
    fn read_landing(
        &mut self,
        inbox: &mut Inbox,
        sink: &mut impl Sink,
        turn: &mut Turn,
    ) -> Result<bool, Ended> {
        let Incoming::Landing { room, at, left } = &mut self.incoming else { return Ok(false) };
        let room_left = room.bytes().saturating_sub(*at).min(*left);
        let asked = if room_left > 0 { room_left.min(LANDING_BYTES) } else { (*left).min(INBOX_BYTES) };
        let received = if room_left > 0 {
            memory::receive(self.socket.as_fd(), room, *at, asked)
        } else {
            let surplus = &mut inbox.buffer[..asked];
            rustix::net::recv(&self.socket, surplus, RecvFlags::empty()).map(|(bytes, _)| bytes)
        };
        let Some(received) = self.received(received)? else { return Ok(false) };
        turn.count();
        Ok(self.landed(received, sink) && received == asked)
    }

    /// Notes bytes of a payload that have come to their place; true while more are to come.
    fn landed(&mut self, bytes: usize, sink: &mut impl Sink) -> bool {
        let Incoming::Landing { at, left, .. } = &mut self.incoming else { return false };
        *at += bytes;
        *left -= bytes;
        if *left > 0 {
            return true;
        }
        self.incoming = Incoming::BETWEEN;
        sink.landed(self.peer);
        false
    }

    /// Bytes received; `None` when nothing has come; an error when nothing will.
    #[inline]
    fn received(&self, received: Result<usize, Errno>) -> Result<Option<usize>, Ended> {
        #[cfg(test)]
        self.calls.set(self.calls.get().wrapping_add(1));
        match received {
            Ok(bytes) if bytes > 0 => Ok(Some(bytes)),
            Ok(_) => Err(self.broken("it closed the connection without a goodbye".to_string())),
            Err(Errno::AGAIN | Errno::INTR) => match self.outgoing.failure {
                None => Ok(None),
                Some(reason) => Err(self.broken(trouble::reason(reason))),
            },
            Err(reason) => Err(self.broken(trouble::reason(reason))),
        }
    }

    /// Why it is a connection no more.
    #[cold]
    pub(crate) fn broken(&self, how: String) -> Ended {
        Ended::Lost(trouble::died(&self.who, &how))
    }
}

/// Asks where a payload shall go and puts its beginning there.
fn begin_landing(
    sink: &mut impl Sink,
    from: Peer,
    header: &Header,
    bytes: usize,
    beginning: &[u8],
) -> Incoming {
    let mut room = sink.arriving(from, header, bytes);
    room.write_at(0, Payload::from(beginning));
    Incoming::Landing { room, at: beginning.len(), left: bytes - beginning.len() }
}

/// Messages posted in one turn.
#[derive(Default)]
struct Burst {
    turn: u32,
    posts: u8,
    /// The kernel gathers.
    is_gathered: bool,
}

impl Burst {
    #[inline]
    fn count(&mut self, turn: u32) {
        self.posts = if self.turn == turn { self.posts.saturating_add(1) } else { 1 };
        self.turn = turn;
    }

    #[inline]
    fn is_long(&self) -> bool {
        self.posts > SINGLE_POSTS
    }
}

/// What is on its way out.
#[derive(Default)]
struct Outgoing {
    /// The end of a frame of which the socket took only the beginning.
    tail: Cut,
    /// The socket took less than was offered.
    is_blocked: bool,
    /// Part of a payload is out, and the rest must follow before anything else.
    is_mid_message: bool,
    /// Why nothing can be sent any more.
    failure: Option<Errno>,
}

/// What is on its way in.
enum Incoming {
    /// The stream stands between two messages, or inside a frame of which `cut` is the beginning.
    Between { cut: Cut },
    /// A payload goes to its place: `at` bytes have come, `left` are to come.
    Landing { room: UserMemory, at: usize, left: usize },
}

impl Incoming {
    const BETWEEN: Incoming = Incoming::Between { cut: Cut { bytes: [0; FRAME_BYTES], from: 0, to: 0 } };
}

/// Less than a frame of bytes.
#[derive(Default)]
struct Cut {
    bytes: [u8; FRAME_BYTES],
    from: u8,
    to: u8,
}

impl Cut {
    #[inline]
    fn is_empty(&self) -> bool {
        self.from == self.to
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.from)..usize::from(self.to)]
    }

    fn keep(&mut self, bytes: &[u8]) {
        debug_assert!(self.is_empty(), "a cut was kept over another");
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        (self.from, self.to) = (0, bytes.len() as u8);
    }

    fn drop_front(&mut self, bytes: usize) {
        self.from += bytes as u8;
        debug_assert!(self.from <= self.to, "more of a cut was used than there was");
    }
}

/// Where small messages are read, for all connections; between two turns it may hold what one of them has
/// sent.
pub(crate) struct Inbox {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox { buffer: vec![0; INBOX_BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    #[inline]
    fn fill(&mut self, bytes: usize) {
        (self.start, self.end) = (0, bytes);
    }
}

/// Payload bytes per system call of what is short or metered.
const CALL_BYTES: usize = 32 << 10;
/// Payload bytes per system call of what is long.
const LONG_CALL_BYTES: usize = 512 << 10;
/// Payload bytes per `post` or `resume`, so that a turn of progress stays short.
const POST_BYTES_MAX: usize = 512 << 10;
/// Up to here a payload is copied behind its frame: dearer than a second chunk of memory only above.
const JOINED_BYTES_MAX: usize = 256;
/// So many messages of one turn go out at once each. A program that exchanges a few and then computes has
/// them all under way; one that sends a hundred to one peer cares for their number.
const SINGLE_POSTS: u8 = 8;
/// Larger messages make packets of their own.
const GATHERED_BYTES_MAX: usize = 4 << 10;
/// What one read takes of small messages. Larger would copy more of the first large payload twice; smaller
/// would take fewer small messages per call.
const INBOX_BYTES: usize = 16 << 10;
/// What one read takes right behind a large message, in bytes: the frame of the next large message, with
/// little of its payload, so that most of that is copied only once.
const STREAMING_BYTES: usize = 1 << 10;
/// Payload bytes per read into their place.
const LANDING_BYTES: usize = 128 << 10;
/// Reads from one connection before the others have their turn.
const READS_PER_TURN: usize = 8;
/// At the end, what is unread is thrown away in chunks of this size, up to so many.
const DISCARD_BYTES: usize = 16 << 10;
const DISCARD_READS_MAX: usize = 1024;
