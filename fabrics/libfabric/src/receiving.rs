//! What comes from peers, and what is done when one is lost.

use fabric::{FabricError, Header, Looked, Payload, Sink};
use libfabric_sys::Failure;

use crate::libfabric::Libfabric;
use crate::link::{State, Taken, Turn};
use crate::port::{Ahead, Arrival, Failed};
use crate::trouble;
use crate::wire::{FRAME_BYTES, Frame, Kind};

impl Libfabric {
    /// Shows `reader` what the queue tells next, if it is the next message of that link and whole.
    #[inline(always)]
    pub(crate) fn look_at<R>(
        &mut self,
        index: u32,
        reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>,
    ) -> Looked<R> {
        if self.is_closed {
            return Looked::Nothing;
        }
        let arrival = match self.port.ahead() {
            Ahead::Nothing => return Looked::Nothing,
            Ahead::Message(arrival) => arrival,
            Ahead::Other => return Looked::Left,
        };
        let Some(found) = self.read_ahead(index, arrival, reader) else { return Looked::Left };
        self.port.pass();
        self.port.seen(arrival);
        self.note_events(1);
        Looked::Taken(found)
    }

    #[inline(always)]
    fn read_ahead<R>(
        &mut self,
        index: u32,
        arrival: Arrival,
        reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>,
    ) -> Option<R> {
        let message = self.port.message(arrival)?;
        let (frame, payload) = self.frame_of(message)?;
        let link = &mut self.links[index as usize];
        if frame.from != link.peer || !link.is_next(&frame) {
            return None;
        }
        let found = reader(&frame.header, payload)?;
        link.heard = frame.sequence.wrapping_add(1);
        if link.has_early() {
            self.ready.push(index);
        }
        Some(found)
    }

    /// A message that has come, taken apart, if a process of the job sent it.
    #[inline(always)]
    fn frame_of<'a>(&self, message: Payload<'a>) -> Option<(Frame, Payload<'a>)> {
        let (head, payload) = message.split_first()?;
        let frame = Frame::decode(&head).filter(|frame| self.is_of_the_job(frame))?;
        Some((frame, payload))
    }

    #[inline]
    pub(crate) fn arrived(&mut self, arrival: Arrival, sink: &mut impl Sink) {
        let message = self.port.message(arrival);
        if let Some((frame, _)) = message.and_then(|message| self.frame_of(message)) {
            let index = self.link_of(frame.from);
            match self.links[index as usize].turn_of(frame.sequence) {
                Turn::Now => self.in_turn(index, &frame, arrival, sink),
                Turn::Later => self.keep(index, &frame, arrival),
                Turn::Never => self.break_with(index, "a message out of all order"),
            }
        }
        self.port.seen(arrival);
    }

    /// Whoever does not know this process's seal is a stranger, and is not answered.
    #[inline]
    fn is_of_the_job(&self, frame: &Frame) -> bool {
        frame.seal == self.card.seal && frame.from.0 < self.peers && frame.from != self.here
    }

    #[inline]
    fn in_turn(&mut self, index: u32, frame: &Frame, arrival: Arrival, sink: &mut impl Sink) {
        let Some(message) = self.port.message(arrival) else { return };
        let link = &mut self.links[index as usize];
        let taken = link.take(frame, message.after(FRAME_BYTES), sink);
        if link.has_early() {
            self.ready.push(index);
        }
        if !matches!(taken, Taken::Whole) {
            self.follow(index, taken);
        }
    }

    /// Does what a frame is for besides the engine.
    #[cold]
    fn follow(&mut self, index: u32, taken: Taken) {
        match taken {
            Taken::Whole => {}
            Taken::Card(card) => self.greeted(index, &card),
            Taken::Wrong(what) => self.break_with(index, what),
        }
    }

    #[cold]
    fn keep(&mut self, index: u32, frame: &Frame, arrival: Arrival) {
        let link = &mut self.links[index as usize];
        if let Some(message) = self.port.message(arrival).filter(|_| link.is_open()) {
            link.keep(frame.sequence, message.to_vec());
        }
    }

    /// Goes on with messages of which the provider told too early, and whose turn it is now.
    #[cold]
    pub(crate) fn deliver_early(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        let mut happened = 0;
        while let Some(&index) = self.ready.last()
            && happened < events
        {
            let Some(message) = self.links[index as usize].take_early() else {
                self.ready.pop();
                continue;
            };
            let frame = message.first_chunk().and_then(Frame::decode).expect("a frame was kept");
            let taken = self.links[index as usize].take(&frame, Payload::from(&message[FRAME_BYTES..]), sink);
            self.follow(index, taken);
            happened += 1;
        }
        happened
    }

    /// A peer tells where it is.
    fn greeted(&mut self, index: u32, payload: &[u8]) {
        let peer = self.links[index as usize].peer;
        let learned = self.checked(peer, payload).and_then(|card| self.learn(index, &card));
        if let Err(error) = learned {
            self.fail(index, error);
        }
    }
}

/// Losing.
impl Libfabric {
    /// The next report tells of it.
    #[cold]
    pub(crate) fn fail(&mut self, index: u32, error: FabricError) {
        let link = &mut self.links[index as usize];
        if link.is_open() {
            link.state = State::Failing(Box::new(error));
            link.forget();
            self.failing.push(index);
            self.give_up_on(index);
        }
    }

    #[cold]
    pub(crate) fn break_with(&mut self, index: u32, what: &str) {
        let error = trouble::broke_protocol(&self.who(index), what);
        self.fail(index, error);
    }

    /// The queue tells that something has failed.
    #[cold]
    pub(crate) fn failed(&mut self, failed: Failed, failure: &Failure, sink: &mut impl Sink) {
        match failed {
            Failed::Message(stamp) => self.lost_by_provider(stamp.link, &failure.text),
            Failed::Transfer(id) => {
                self.transfer_failed(id, &failure.text);
                self.transfer_ended(id, sink);
            }
            Failed::Short(errand) => {
                let error = self.denied(errand.link, &failure.text);
                self.errand_ended(errand, Err(error), sink);
            }
            Failed::Nothing => {}
            Failed::Something => self.ask_suspects(),
        }
    }

    /// Somebody's message is gone, and the provider does not say whose. Whoever it may be gets a message of
    /// which the provider does tell: the one that fails has lost its peer.
    fn ask_suspects(&mut self) {
        for index in 0..self.links.len() as u32 {
            let link = &self.links[index as usize];
            if link.is_waited_for() && link.is_unconfirmed() {
                self.send_confirmed(index, Kind::Nothing);
            }
        }
    }

    /// A peer's memory could not be used. The peer may have gone: another message shows it.
    pub(crate) fn denied(&mut self, index: u32, said: &str) -> FabricError {
        let error = trouble::denied(&self.who(index), &self.provider, said);
        if self.links[index as usize].is_waited_for() {
            self.send_confirmed(index, Kind::Nothing);
        }
        error
    }

    /// Whether memory of a peer is being used, or written from it.
    fn is_moving(&self, index: u32) -> bool {
        self.port.transfers().any(|(_, about)| about.link == index)
            || self.port.errands().any(|link| link == index)
    }

    /// What fails on the way to a peer that has left in good order is no loss.
    pub(crate) fn lost_by_provider(&mut self, index: u32, said: &str) {
        if self.links[index as usize].is_waited_for() {
            let error = trouble::lost(&self.who(index), &self.provider, said);
            self.fail(index, error);
        }
    }

    /// Tells of those that were lost, once nothing is written into their messages any more.
    #[cold]
    pub(crate) fn report_failing(&mut self, sink: &mut impl Sink) -> usize {
        let mut told = 0;
        for index in std::mem::take(&mut self.failing) {
            if self.is_moving(index) {
                self.failing.push(index);
                continue;
            }
            let link = &mut self.links[index as usize];
            if let State::Failing(error) = std::mem::replace(&mut link.state, State::Lost) {
                sink.lost(link.peer, *error);
                told += 1;
            }
        }
        told
    }
}
