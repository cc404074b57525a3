//! Serves the members that reach this process's memory by messages alone: each turn of progress carries out
//! the requests that have come.
//!
//! Requests of one origin are carried out in the order in which it made them; one that has to wait (for a
//! lock, or for data that is still coming in) holds up those behind it, and nobody else's.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fabric::{Heap, Payload, UserMemory};
use job::fabrics::Fabrics;
use messaging::{Engine, Envelope, Mode, Pattern, Rank, Receiving, RequestId, Sending};

use super::blocks::Block;
use super::exposure::Exposure;
use super::protocol::{DATA, Ended, REQUEST, Request, answer_tag};
use super::update::{Change, Update};
use super::words::Wanted;
use crate::background::Operation;
use crate::communicator::Communicator;
use crate::memory::{exposed, sending};

/// What a window and its server tell each other.
#[derive(Default)]
pub(super) struct Service {
    /// No member has requests any more: the server ends when its answers are gone.
    is_closed: AtomicBool,
    has_ended: AtomicBool,
}

impl Service {
    /// Says that no member will ask for anything any more.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Whether the server, which was told so, has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }
}

/// The server of one window.
pub(super) struct Server {
    pub service: Arc<Service>,
    pub exposure: Arc<Exposure>,
    /// The window's own, whose context is another one once it has recovered.
    pub comm: Communicator,
    pub origins: HashMap<Rank, Origin>,
    /// Answers that are under way, with the memory that they are sent from.
    pub answers: Vec<(RequestId, Option<Heap>)>,
}

/// What is known of a member that has asked for something.
#[derive(Default)]
pub(super) struct Origin {
    requests: VecDeque<Incoming>,
    /// Data of puts that is coming in; of what is not wanted, with the memory that it comes to.
    data: Vec<(RequestId, Option<Heap>)>,
    ended: Option<Ended>,
    /// What it has taken.
    holds: Vec<Wanted>,
}

/// A message with a request.
enum Incoming {
    Arriving(RequestId, Heap),
    There(Heap),
}

/// Whether a request was carried out.
enum Carried {
    Out,
    /// It waits, and is to be looked at again.
    NotYet,
}

impl Operation for Server {
    fn advance(&mut self, engine: &mut Engine<Fabrics>) -> bool {
        self.take_requests(engine);
        let mut origins = std::mem::take(&mut self.origins);
        for (rank, origin) in &mut origins {
            self.serve(engine, *rank, origin);
        }
        if origins.values().any(Origin::waits_for_lock) {
            self.release_locks_of_the_dead(engine, &mut origins);
        }
        self.origins = origins;
        self.answers.retain(|(request, _)| engine.test(*request).is_none());
        let is_over = self.service.is_closed.load(Ordering::SeqCst) && self.answers.is_empty();
        self.service.has_ended.store(is_over, Ordering::SeqCst);
        is_over
    }
}

impl Server {
    fn take_requests(&mut self, engine: &mut Engine<Fabrics>) {
        let pattern = Pattern { context: self.comm.context(), source: None, tag: Some(REQUEST) };
        while let Some(message) = engine.take(&pattern) {
            let probed = message.probed();
            let heap = Heap::new(probed.bytes);
            let incoming = match engine.receive_matched(message, heap.memory()) {
                Receiving::Pending(request) => Incoming::Arriving(request, heap),
                Receiving::Done(outcome) if outcome.failure.is_none() => Incoming::There(heap),
                Receiving::Done(_) => continue,
            };
            self.origins.entry(probed.source).or_default().requests.push_back(incoming);
        }
    }

    /// Carries out what an origin has asked for, as far as that goes.
    fn serve(&mut self, engine: &mut Engine<Fabrics>, rank: Rank, origin: &mut Origin) {
        let mut has_failed = false;
        origin.data.retain(|(request, _)| match engine.test(*request) {
            None => true,
            Some(outcome) => {
                has_failed |= outcome.failure.is_some();
                false
            }
        });
        if has_failed {
            origin.went_wrong(Ended::Unsound);
        }
        while let Some(incoming) = origin.requests.pop_front() {
            let message = match incoming {
                Incoming::There(message) => message,
                Incoming::Arriving(request, message) => match engine.test(request) {
                    None => {
                        origin.requests.push_front(Incoming::Arriving(request, message));
                        return;
                    }
                    Some(outcome) if outcome.failure.is_some() => continue,
                    Some(_) => message,
                },
            };
            let carried = match Request::decode(message.payload()) {
                Some((request, data)) => self.carry_out(engine, rank, origin, &request, data),
                None => {
                    origin.went_wrong(Ended::Unsound);
                    Carried::Out
                }
            };
            if matches!(carried, Carried::NotYet) {
                origin.requests.push_front(Incoming::There(message));
                return;
            }
        }
    }

    fn carry_out(
        &mut self,
        engine: &mut Engine<Fabrics>,
        from: Rank,
        origin: &mut Origin,
        request: &Request,
        data: Payload<'_>,
    ) -> Carried {
        let here = self.exposure.rank;
        match request {
            Request::Put { blocks } => {
                let is_inside = self.are_inside(blocks);
                let bytes: u64 = blocks.iter().map(|block| block.bytes).sum();
                if is_inside && bytes != data.bytes() as u64 {
                    origin.went_wrong(Ended::Unsound);
                } else if !is_inside || self.exposure.spread(here, blocks, data).is_err() {
                    origin.went_wrong(Ended::Outside);
                }
            }
            Request::PutData { block } => self.receive_data(engine, from, origin, *block),
            Request::Get { blocks, answer } => self.answer_get(engine, from, origin, blocks, *answer),
            Request::Update { blocks, change, predefined, answer } => {
                let bytes = blocks.iter().map(|block| block.bytes as usize).sum();
                let compared = if *change == Change::CompareAndSwap { bytes } else { 0 };
                let (compare, operand) = (data.part(0, compared), data.after(compared));
                let (change, predefined, by) = (*change, *predefined, from);
                let update = Update { change, predefined, target: here, blocks, by, operand, compare };
                self.update(engine, origin, &update, answer.map(|answer| (answer, bytes)));
            }
            Request::Flush { answer } => {
                if !origin.data.is_empty() {
                    return Carried::NotYet;
                }
                self.answer_ended(engine, from, origin, *answer);
            }
            Request::Take { wanted, answer } => {
                let words = self.exposure.words(here);
                if words.is_some_and(|words| words.try_take(*wanted, from)) {
                    origin.holds.push(*wanted);
                } else if self.is_held_by_failed(engine, *wanted) {
                    origin.went_wrong(Ended::HolderFailed);
                } else {
                    return Carried::NotYet;
                }
                self.answer_ended(engine, from, origin, *answer);
            }
            Request::GiveBack { wanted, answer } => {
                if !origin.data.is_empty() {
                    return Carried::NotYet;
                }
                self.give_back(from, origin, *wanted);
                self.answer_ended(engine, from, origin, *answer);
            }
        }
        Carried::Out
    }

    /// Changes elements, and answers with what they were before, where that is wanted: so many bytes.
    fn update(
        &mut self,
        engine: &mut Engine<Fabrics>,
        origin: &mut Origin,
        update: &Update<'_>,
        answer: Option<(u32, usize)>,
    ) {
        let is_inside = self.are_inside(update.blocks);
        let is_right = is_inside && update.is_sound();
        let before = answer.map(|(answer, bytes)| (answer, Heap::new(if is_right { bytes } else { 0 })));
        if !is_right {
            origin.went_wrong(if is_inside { Ended::Unsound } else { Ended::Outside });
        } else {
            let mut before = before.as_ref().map(|(_, before)| before.memory());
            if update.apply(&self.exposure, |_| false, before.as_mut()).is_err() {
                origin.went_wrong(Ended::Outside);
            }
        }
        if let Some((answer, before)) = before {
            self.answer_with(engine, update.by, answer, sending(&before), Some(before));
        }
    }

    fn give_back(&self, from: Rank, origin: &mut Origin, wanted: Wanted) {
        let Some(at) = origin.holds.iter().position(|held| *held == wanted) else {
            return origin.went_wrong(Ended::Unsound);
        };
        origin.holds.swap_remove(at);
        if let Some(words) = self.exposure.words(self.exposure.rank) {
            words.give_back(wanted, from);
        }
    }

    /// Nobody waits for a lock that a process has taken with it.
    #[cold]
    fn release_locks_of_the_dead(&self, engine: &mut Engine<Fabrics>, origins: &mut HashMap<Rank, Origin>) {
        for (rank, origin) in origins.iter_mut().filter(|(_, origin)| !origin.holds.is_empty()) {
            if self.comm.group().peer(*rank).is_some_and(|peer| engine.is_lost(peer)) {
                while let Some(wanted) = origin.holds.first().copied() {
                    self.give_back(*rank, origin, wanted);
                }
            }
        }
    }

    /// Whether a process that has failed may hold a lock that it has taken without messages: it is the
    /// holder, or one of those who share locks, of whom nobody keeps a list.
    #[cold]
    fn is_held_by_failed(&self, engine: &mut Engine<Fabrics>, wanted: Wanted) -> bool {
        let mut has_failed =
            |rank: &Rank| self.comm.group().peer(*rank).is_some_and(|peer| engine.is_lost(peer));
        let holder = self.exposure.words(self.exposure.rank).and_then(super::words::Words::holder);
        match (wanted, holder) {
            (Wanted::Member(_), Some(holder)) => {
                self.exposure.sharers().contains(&holder) && has_failed(&holder)
            }
            _ => self.exposure.sharers().iter().any(has_failed),
        }
    }

    fn are_inside(&self, blocks: &[Block]) -> bool {
        let is_inside =
            |block: &Block| block.bytes == 0 || self.exposure.block(self.exposure.rank, *block).is_some();
        blocks.iter().all(is_inside)
    }

    fn block(&self, block: Block) -> UserMemory {
        self.exposure.block(self.exposure.rank, block).unwrap_or(UserMemory::EMPTY)
    }

    /// Receives the data of a put where it belongs, or aside where it belongs nowhere.
    fn receive_data(&mut self, engine: &mut Engine<Fabrics>, from: Rank, origin: &mut Origin, block: Block) {
        let pattern = Pattern { context: self.comm.context(), source: Some(from), tag: Some(DATA) };
        let (memory, aside) = match self.exposure.block(self.exposure.rank, block) {
            Some(memory) => (memory, None),
            None => {
                origin.went_wrong(Ended::Outside);
                // The rest of a message that is longer than its room is dropped.
                let aside = Heap::new(1);
                (aside.memory(), Some(aside))
            }
        };
        match engine.receive(pattern, self.comm.group().peer(from), memory) {
            Receiving::Pending(request) => origin.data.push((request, aside)),
            Receiving::Done(outcome) if outcome.failure.is_some() => origin.went_wrong(Ended::Unsound),
            Receiving::Done(_) => {}
        }
    }

    fn answer_get(
        &mut self,
        engine: &mut Engine<Fabrics>,
        from: Rank,
        origin: &mut Origin,
        blocks: &[Block],
        answer: u32,
    ) {
        if !self.are_inside(blocks) {
            origin.went_wrong(Ended::Outside);
            return self.answer_with(engine, from, answer, Payload::EMPTY, None);
        }
        if let [block] = blocks {
            let memory = self.block(*block);
            return self.answer_with(engine, from, answer, exposed(&memory), None);
        }
        let packed = Heap::new(blocks.iter().map(|block| block.bytes as usize).sum());
        if self.exposure.collect(self.exposure.rank, blocks, &mut packed.memory()).is_err() {
            origin.went_wrong(Ended::Outside);
        }
        self.answer_with(engine, from, answer, sending(&packed), Some(packed));
    }

    /// Answers how the requests before a flush have ended, and begins anew.
    fn answer_ended(&mut self, engine: &mut Engine<Fabrics>, to: Rank, origin: &mut Origin, answer: u32) {
        let ended = Heap::new(1);
        let byte = [origin.ended.take().unwrap_or(Ended::Well) as u8];
        ended.memory().write_at(0, Payload::from(&byte[..]));
        self.answer_with(engine, to, answer, sending(&ended), Some(ended));
    }

    fn answer_with(
        &mut self,
        engine: &mut Engine<Fabrics>,
        to: Rank,
        answer: u32,
        data: Payload<'static>,
        keeps: Option<Heap>,
    ) {
        let Some(peer) = self.comm.group().peer(to) else { return };
        let envelope =
            Envelope { context: self.comm.context(), source: self.exposure.rank, tag: answer_tag(answer) };
        // One that cannot be sent goes to a process that is gone.
        if let Ok(Sending::Pending(request)) = engine.send(peer, envelope, data, Mode::Standard) {
            self.answers.push((request, keeps));
        }
    }
}

impl Origin {
    /// The first thing that went wrong is told.
    fn went_wrong(&mut self, how: Ended) {
        self.ended.get_or_insert(how);
    }

    fn waits_for_lock(&self) -> bool {
        let Some(Incoming::There(message)) = self.requests.front() else { return false };
        matches!(Request::decode(message.payload()), Some((Request::Take { .. }, _)))
    }
}
