//! Large messages stay where they are: the sender shows its memory, and the receiver reads it straight into where it goes.

use std::collections::{HashMap, VecDeque};

use fabric::{Exposed, Payload, Peer, Pulled, Sink, UserMemory};
use libfabric_sys::{Answer, LibfabricError, Remote};

use crate::bell::Haste;
use crate::libfabric::{Libfabric, Notice};
use crate::memory::{LandingId, Shown};
use crate::trouble;

/// What peers read here, and what is read from them.
#[derive(Default)]
pub(crate) struct Pulls {
    /// What is shown, and to whom. Of one piece of memory there may be several: providers that keep registrations answer
    /// the same key for all within one of them.
    shown: HashMap<(Peer, [u64; 2]), Vec<Shown>>,
    readings: Vec<Option<Reading>>,
    free: Vec<ReadingId>,
    /// Those of which not all has been asked for, in turn.
    asking: VecDeque<ReadingId>,
}

/// Memory of a peer that is being read.
#[derive(Clone, Copy)]
struct Reading {
    link: u32,
    ticket: u64,
    landing: LandingId,
    remote: Remote,
    bytes: usize,
    /// How many of them have been asked for.
    asked: usize,
    /// It waits to ask for more.
    is_waiting: bool,
}

/// The place of a reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadingId(u32);

impl ReadingId {
    /// That of none.
    pub(crate) const NONE: ReadingId = ReadingId(u32::MAX);
}

impl Pulls {
    fn begin(&mut self, reading: Reading) -> ReadingId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.readings.push(None);
            ReadingId(self.readings.len() as u32 - 1)
        });
        self.readings[id.0 as usize] = Some(reading);
        id
    }

    fn get(&mut self, id: ReadingId) -> Option<&mut Reading> {
        self.readings.get_mut(id.0 as usize)?.as_mut()
    }

    fn end(&mut self, id: ReadingId) -> Option<Reading> {
        let reading = self.readings.get_mut(id.0 as usize)?.take()?;
        self.free.push(id);
        if reading.is_waiting {
            self.asking.retain(|asking| *asking != id);
        }
        Some(reading)
    }

    /// Whose memory a reading reads.
    pub(crate) fn link_of(&mut self, id: ReadingId) -> Option<u32> {
        self.get(id).map(|reading| reading.link)
    }

    /// Whether something must be asked for.
    #[inline]
    pub(crate) fn is_asking(&self) -> bool {
        !self.asking.is_empty()
    }

    #[inline]
    pub(crate) fn haste(&self) -> Haste {
        match (self.free.len() < self.readings.len(), self.shown.is_empty()) {
            (true, _) => Haste::Reading,
            (false, false) => Haste::Shown,
            (false, true) => Haste::None,
        }
    }

    /// Whether something is read from the peer at the end of that link.
    pub(crate) fn reads_from(&self, link: u32) -> bool {
        self.readings.iter().flatten().any(|reading| reading.link == link)
    }
}

/// The sender's side.
impl Libfabric {
    /// Lets the peer read `memory`; the default where the provider does not register it. Then the message goes as one.
    pub(crate) fn show(&mut self, index: u32, memory: Payload<'_>) -> Exposed {
        let link = &self.links[index as usize];
        // Nothing can be read of nothing, and no provider registers it.
        if !link.is_open() || memory.bytes() == 0 {
            return Exposed::default();
        }
        let peer = link.peer;
        let shown = match self.port.show(memory) {
            Ok(shown) => shown,
            Err(error) => return self.note_refusal(memory.bytes(), &error),
        };
        let exposed = Exposed { words: [shown.remote.address, shown.remote.key] };
        if exposed == Exposed::default() {
            // No provider answers so; but then it could not be told from what is not shown.
            self.port.hide(shown);
            return exposed;
        }
        self.pulls.shown.entry((peer, exposed.words)).or_default().push(shown);
        self.note_haste();
        exposed
    }

    /// A message whose memory is not registered goes in pieces, which a person should know.
    #[cold]
    fn note_refusal(&mut self, bytes: usize, error: &LibfabricError) -> Exposed {
        if matches!(self.notice, Notice::None) {
            let notice = trouble::cannot_register(&self.provider, bytes, error);
            self.notice = Notice::Untold(Box::new(notice));
        }
        Exposed::default()
    }

    /// Ends what [`Libfabric::show`] began.
    pub(crate) fn hide(&mut self, peer: Peer, exposed: Exposed) {
        let place = (peer, exposed.words);
        let Some(all) = self.pulls.shown.get_mut(&place) else { return };
        if let Some(shown) = all.pop() {
            self.port.hide(shown);
        }
        if all.is_empty() {
            self.pulls.shown.remove(&place);
        }
        self.note_haste();
    }

    fn note_haste(&self) {
        self.bell.note_haste(self.pulls.haste());
    }
}

/// The receiver's side.
impl Libfabric {
    /// Begins to read what the peer shows.
    pub(crate) fn read(
        &mut self,
        link: u32,
        exposed: Exposed,
        offset: usize,
        into: &mut UserMemory,
        ticket: u64,
    ) -> Pulled {
        let is_ready = self.links[link as usize].is_open() && self.links[link as usize].there.is_some();
        if exposed == Exposed::default() || !is_ready {
            return Pulled::Refused;
        }
        let bytes = into.bytes();
        if bytes == 0 {
            return Pulled::Done;
        }
        let landing = match self.port.land(into.part(0, bytes)) {
            Ok(landing) => landing,
            Err(error) => {
                self.note_refusal(bytes, &error);
                return Pulled::Refused;
            }
        };
        let [address, key] = exposed.words;
        let remote = Remote { address: address.wrapping_add(offset as u64), key };
        let reading = Reading { link, ticket, landing, remote, bytes, asked: 0, is_waiting: false };
        let id = self.pulls.begin(reading);
        self.note_haste();
        self.ask(id);
        Pulled::Underway
    }

    /// Asks for what has not been asked for.
    fn ask(&mut self, id: ReadingId) {
        let Some(&mut Reading { link: index, landing, remote, bytes, mut asked, .. }) = self.pulls.get(id)
        else {
            return;
        };
        let link = &self.links[index as usize];
        let Some(there) = link.there.filter(|_| link.is_open()) else { return self.ask_later(id) };
        while asked < bytes {
            match self.port.read((id, landing), (asked, bytes - asked), there.address, remote) {
                Ok(taken) => asked += taken,
                Err(Answer::Failed(code)) => {
                    self.refused(index, code);
                    break;
                }
                Err(_) => break,
            }
        }
        if let Some(reading) = self.pulls.get(id) {
            reading.asked = asked;
        }
        if asked < bytes {
            self.ask_later(id);
        }
    }

    fn ask_later(&mut self, id: ReadingId) {
        let reading = self.pulls.get(id);
        if reading.is_some_and(|reading| !std::mem::replace(&mut reading.is_waiting, true)) {
            self.pulls.asking.push_back(id);
        }
    }

    /// Goes on with all of which not everything has been asked for.
    #[cold]
    pub(crate) fn ask_on(&mut self, sink: &mut impl Sink) -> usize {
        let mut ended = 0;
        for _ in 0..self.pulls.asking.len() {
            let Some(id) = self.pulls.asking.pop_front() else { break };
            if let Some(reading) = self.pulls.get(id) {
                reading.is_waiting = false;
            }
            self.ask(id);
            ended += usize::from(self.read_ended(id, sink));
            if !self.port.may_read() {
                break;
            }
        }
        ended
    }

    /// Tells the engine of a reading if it is over: all has been asked for, or its peer is lost, and nothing is under way.
    pub(crate) fn read_ended(&mut self, id: ReadingId, sink: &mut impl Sink) -> bool {
        let Some(&mut Reading { link: index, landing, bytes, asked, .. }) = self.pulls.get(id) else {
            return false;
        };
        let is_open = self.links[index as usize].is_open();
        if (is_open && asked < bytes) || !self.port.take_off(landing) {
            return false;
        }
        if let Some(reading) = self.pulls.end(id) {
            self.note_haste();
            sink.pulled(self.links[index as usize].peer, reading.ticket, is_open);
        }
        true
    }

    /// Goes on with what is read from a peer that is lost: what has not been asked for never comes.
    pub(crate) fn give_up_on(&mut self, index: u32) {
        for place in 0..self.pulls.readings.len() {
            if self.pulls.readings[place].is_some_and(|reading| reading.link == index) {
                self.ask_later(ReadingId(place as u32));
            }
        }
    }
}
