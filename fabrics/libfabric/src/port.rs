//! The endpoint as the fabric uses it: which operations are under way, for whom, and what has become of them.

use fabric::{Attached, Payload, UserMemory};
use libfabric_sys::{
    Address, Answer, Atomics, Capacity, Completed, Endpoint, Failure, LibfabricError, Offer, Operation,
    Remote, Takes, Terms, Use,
};

use crate::memory::{BUFFER_BYTES_MAX, BUFFERS, BUFFERS_MAX, Deed, Memory, RAILS_MAX, Shown, TransferId};
use crate::transfers::About;
use crate::wire::FRAME_BYTES;

/// An endpoint with its operations. Sends come first among them, then receive buffers, then those of transfers; rails have
/// only the last.
pub(crate) struct Port {
    memory: Memory,
    /// What each slot was used for last.
    slots: Vec<Task>,
    free_slots: Places,
    /// Slots that short operations are in.
    short: u32,
    /// For each rail and each of its operations, which transfer it is a part of.
    moves: Vec<[TransferId; MOVES]>,
    free_moves: [Places; RAILS_MAX],
    /// Receive buffers that the provider could not take yet.
    idle_buffers: Vec<u32>,
    /// Those that it does not have.
    free_buffers: Places,
    /// For each receive buffer a bit: another has taken its place.
    replaced: u64,
    /// How many receive buffers have been used so far; those of which an error has told are not used again.
    buffers: u32,
    /// What is injected is put together here.
    scratch: Box<[u8]>,
    /// The longest message.
    frame_bytes_max: usize,
    moved_bytes_max: usize,
    /// Completions that have been read from a queue, and how many of them have been told.
    batch: (usize, usize),
    /// Whose queue that is.
    rail: usize,
    /// What a queue has told of when somebody only wanted to see what is next.
    failure: Option<Box<Failure>>,
}

/// What a slot is used for.
enum Task {
    /// A message.
    Message(Stamp),
    /// A short operation, with the room for what it fetches.
    Short(Errand, UserMemory),
}

/// A short operation on memory of a peer: whose, and what the engine calls it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errand {
    pub(crate) link: u32,
    pub(crate) ticket: u64,
}

/// What the queue told.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message has left, and with it all before it.
    Left(Stamp),
    /// A message has come; it lies in that buffer until [`Port::seen`].
    Came(Arrival),
    /// A part of a transfer has ended.
    Moved(TransferId),
    /// A short operation has ended.
    Done(Errand),
    /// Something has failed.
    Failed(Failed, Box<Failure>),
}

/// What the queue of the endpoint tells next, where nobody has taken it yet.
#[derive(Debug)]
pub(crate) enum Ahead {
    Nothing,
    /// A message has come. Who takes it says [`Port::pass`], and [`Port::seen`] when he has read it.
    Message(Arrival),
    /// Something else: [`Port::next`] takes it.
    Other,
}

/// What has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failed {
    /// A message for a link.
    Message(Stamp),
    /// A part of a transfer.
    Transfer(TransferId),
    /// A short operation.
    Short(Errand),
    /// A receive buffer, which belongs to nobody and in whose place another is; or what was told before.
    Nothing,
    /// The provider does not say.
    Something,
}

/// Whose message it is, and its number among those for that link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stamp {
    pub(crate) link: u32,
    pub(crate) sequence: u32,
}

/// Up to 64 places for operations: which are free, and whose turn it is in each.
///
/// Some providers tell of a failure twice. The second word must not end what has taken the place since, so each turn is
/// an operation of its own: a place is given back only by the operation that has it, and after a failure it is another's
/// turn. What an operation has failed with is told again long before so many others have failed in its place that its
/// turn comes round.
#[derive(Clone, Copy)]
struct Places {
    free: u64,
    turns: [u8; 64],
}

impl Places {
    fn all(places: usize) -> Places {
        Places { free: u64::MAX >> (64 - places), turns: [0; 64] }
    }

    fn first(&self) -> Option<u32> {
        (self.free != 0).then(|| self.free.trailing_zeros())
    }

    fn has(&self, place: u32) -> bool {
        self.free & 1 << place != 0
    }

    fn count(&self) -> u32 {
        self.free.count_ones()
    }

    fn take(&mut self, place: u32) {
        self.free &= !(1 << place);
    }

    /// Whose turn it is.
    fn turn(&self, place: u32) -> u32 {
        u32::from(self.turns[place as usize])
    }

    /// Gives a place back; false where it was free, or another has it now.
    fn give_back(&mut self, place: u32, turn: u32) -> bool {
        let was_taken = !self.has(place) && self.turn(place) == turn;
        self.free |= u64::from(was_taken) << place;
        was_taken
    }

    /// What was in the place has failed.
    #[cold]
    fn pass_on(&mut self, place: u32) {
        let turn = &mut self.turns[place as usize];
        *turn = (*turn + 1) % TURNS as u8;
    }
}

/// Where a message lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    buffer: usize,
    turn: u32,
    completed: Completed,
}

impl Port {
    /// Opens an endpoint, and the rails that can be opened beside it; others do not stay in the list. A slot has
    /// `slot_bytes` bytes, if messages may be so long. `injects`: messages are as short as can be injected.
    pub(crate) fn open(
        offer: &Offer,
        rails: &mut Vec<&Offer>,
        slot_bytes: usize,
        injects: bool,
    ) -> Result<Port, LibfabricError> {
        let terms = offer.terms();
        let inject_bytes = terms.inject_bytes_max.min(INJECT_BYTES_MAX);
        let slot_bytes = terms.message_bytes_max.min(slot_bytes) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
        let are_injected = injects && inject_bytes >= INJECT_BYTES_MAX;
        let frame_bytes_max = if are_injected { inject_bytes } else { slot_bytes };
        let capacity = Capacity { operations: (PLACES * TURNS) as u32, message_bytes_max: frame_bytes_max };
        let endpoint = Endpoint::open(offer, capacity)?;
        let for_moves = Capacity { operations: (MOVES * TURNS) as u32, message_bytes_max: slot_bytes };
        let mut opened = Vec::new();
        rails.retain(|rail| {
            let is_wanted = opened.len() < RAILS_MAX - 1 && rail.terms().memory == terms.memory;
            let endpoint = if is_wanted { Endpoint::open(rail, for_moves).ok() } else { None };
            let is_open = endpoint.is_some();
            opened.extend(endpoint);
            is_open
        });
        let buffer_bytes = (FRAMES_OF_BUFFER * frame_bytes_max).min(BUFFER_BYTES_MAX);
        let memory = Memory::new(endpoint, opened, (SLOTS, slot_bytes), buffer_bytes)?;
        let mut port = Port {
            slots: (0..SLOTS).map(|_| Task::Message(Stamp::default())).collect(),
            free_slots: Places::all(SLOTS),
            short: 0,
            moves: vec![[TransferId::NONE; MOVES]; memory.rails()],
            free_moves: [Places::all(MOVES); RAILS_MAX],
            memory,
            idle_buffers: (0..BUFFERS as u32).collect(),
            free_buffers: Places::all(BUFFERS_MAX),
            replaced: 0,
            buffers: BUFFERS as u32,
            scratch: vec![0; inject_bytes].into(),
            frame_bytes_max,
            moved_bytes_max: terms.message_bytes_max.min(MOVED_BYTES_MAX),
            batch: (0, 0),
            rail: 0,
            failure: None,
        };
        port.post_buffers();
        Ok(port)
    }

    pub(crate) fn terms(&self) -> &Terms {
        self.memory.endpoint_ref().terms()
    }

    /// The name of the endpoint, or of one of the rails.
    pub(crate) fn name(&self, rail: usize) -> &[u8] {
        self.memory.rail_ref(rail).name()
    }

    /// How many endpoints there are, with those that only help.
    pub(crate) fn rails(&self) -> usize {
        self.memory.rails()
    }

    pub(crate) fn atomics(&self) -> &Atomics {
        self.memory.endpoint_ref().atomics()
    }

    #[cfg(test)]
    pub(crate) fn library(&self) -> &libfabric_sys::Library {
        self.memory.endpoint_ref().library()
    }

    pub(crate) fn text(&self, code: i32) -> String {
        self.memory.endpoint_ref().library().text(code)
    }

    pub(crate) fn insert(&mut self, rail: usize, name: &[u8]) -> Result<Address, LibfabricError> {
        self.memory.rail(rail).insert(name)
    }

    /// The longest payload of a message that is copied.
    pub(crate) fn copied_bytes_max(&self) -> usize {
        self.frame_bytes_max - FRAME_BYTES
    }

    /// Sends a message: in one call where it is short, or out of a slot, which tells when it has left. `head` goes before
    /// the payload.
    #[inline]
    pub(crate) fn send<const N: usize>(
        &mut self,
        stamp: Stamp,
        to: Address,
        head: [u8; N],
        payload: Payload<'_>,
    ) -> Answer {
        let bytes = N + payload.bytes();
        if bytes > self.scratch.len() {
            return self.send_long(stamp, to, head, payload);
        }
        let (front, rest) = self.scratch.split_at_mut(N);
        front.copy_from_slice(&head);
        payload.copy_to(rest);
        self.memory.endpoint().inject(&self.scratch[..bytes], to)
    }

    #[inline(never)]
    fn send_long<const N: usize>(
        &mut self,
        stamp: Stamp,
        to: Address,
        head: [u8; N],
        payload: Payload<'_>,
    ) -> Answer {
        // Some slots are left for what ends a link, or one peer that takes nothing would keep this process for ever.
        let has_room = self.free_slots.count() > SLOTS_KEPT;
        if has_room { self.send_slot(stamp, to, &head, payload) } else { Answer::Again }
    }

    /// Sends a message so that the queue tells when it has left.
    #[inline]
    pub(crate) fn send_slot(
        &mut self,
        stamp: Stamp,
        to: Address,
        head: &[u8],
        payload: Payload<'_>,
    ) -> Answer {
        let Some(slot) = self.free_slots.first() else { return Answer::Again };
        let operation = Part::Slot(slot as usize).operation(0, self.free_slots.turn(slot));
        let answer = self.memory.send_slot(operation, slot as usize, (head, payload), to);
        if answer == Answer::Taken {
            self.free_slots.take(slot);
            self.slots[slot as usize] = Task::Message(stamp);
        }
        answer
    }

    /// The longest data of a short operation.
    pub(crate) fn short_bytes_max(&self) -> usize {
        self.memory.short_bytes_max()
    }

    /// Begins a short operation on memory of a peer; what it fetches goes to `into`.
    pub(crate) fn short(
        &mut self,
        errand: Errand,
        deed: Deed<'_>,
        into: UserMemory,
        to: Address,
        remote: Remote,
    ) -> Answer {
        let Some(slot) = self.free_slots.first().filter(|_| self.free_slots.count() > SLOTS_KEPT) else {
            return Answer::Again;
        };
        let operation = Part::Slot(slot as usize).operation(0, self.free_slots.turn(slot));
        let answer = self.memory.short(operation, slot as usize, deed, to, remote);
        if answer == Answer::Taken {
            self.free_slots.take(slot);
            self.slots[slot as usize] = Task::Short(errand, into);
            self.short += 1;
        }
        answer
    }

    /// For whom short operations have not ended.
    pub(crate) fn errands(&self) -> impl Iterator<Item = u32> {
        let slots = (0..).zip(&self.slots).filter(|_| self.short > 0);
        slots.filter(|(slot, _)| !self.free_slots.has(*slot)).filter_map(|(_, task)| match task {
            Task::Short(errand, _) => Some(errand.link),
            Task::Message(_) => None,
        })
    }

    /// Whether memory of peers is read or changed.
    pub(crate) fn is_transferring(&self) -> bool {
        self.short > 0 || self.memory.is_transferring()
    }

    /// Closes the endpoint. Nothing may be sent or looked for afterwards.
    pub(crate) fn close(&mut self) {
        self.memory.close();
    }

    /// Whether another part of a transfer may begin.
    pub(crate) fn may_transfer(&self) -> bool {
        self.free_moves[..self.rails()].iter().any(|free| free.first().is_some())
    }

    /// For whom something that was sent has not left yet.
    pub(crate) fn sending(&self) -> impl Iterator<Item = u32> {
        let slots = (0..).zip(&self.slots);
        slots.filter(|(slot, _)| !self.free_slots.has(*slot)).map(|(_, task)| match task {
            Task::Message(stamp) => stamp.link,
            Task::Short(errand, _) => errand.link,
        })
    }

    pub(crate) fn show(&mut self, payload: Payload<'_>, over_rails: bool) -> Result<Shown, LibfabricError> {
        self.memory.show(payload, over_rails)
    }

    pub(crate) fn hide(&mut self, shown: Shown) {
        self.memory.hide(shown);
    }

    pub(crate) fn attach(
        &mut self,
        memory: UserMemory,
        purpose: Use,
    ) -> Result<(Attached, Remote), LibfabricError> {
        self.memory.attach(memory, purpose)
    }

    pub(crate) fn detach(&mut self, attached: Attached) {
        self.memory.detach(attached);
    }

    pub(crate) fn is_anything_attached(&self) -> bool {
        self.memory.is_anything_attached()
    }

    pub(crate) fn land(&mut self, room: UserMemory, about: About) -> Result<TransferId, LibfabricError> {
        self.memory.land(room, about)
    }

    pub(crate) fn launch(&mut self, source: UserMemory, about: About) -> Result<TransferId, LibfabricError> {
        self.memory.launch(source, about)
    }

    pub(crate) fn about(&mut self, id: TransferId) -> Option<&mut About> {
        self.memory.about(id)
    }

    pub(crate) fn transfers(&self) -> impl Iterator<Item = (TransferId, &About)> {
        self.memory.transfers()
    }

    pub(crate) fn can_move(&self, id: TransferId, rail: usize) -> bool {
        self.memory.can_move(id, rail)
    }

    /// Ends a transfer; `None` while a part of it is under way.
    pub(crate) fn end(&mut self, id: TransferId) -> Option<About> {
        self.memory.end(id)
    }

    /// The longest part of a transfer.
    pub(crate) fn moved_bytes_max(&self) -> usize {
        self.moved_bytes_max
    }

    /// Begins to move a part of a transfer over one of the rails.
    pub(crate) fn transfer(
        &mut self,
        rail: usize,
        id: TransferId,
        part: (usize, usize),
        peer: Address,
        remote: Remote,
    ) -> Answer {
        let Some(place) = self.free_moves[rail].first() else { return Answer::Again };
        let operation = Part::Move(place as usize).operation(rail, self.free_moves[rail].turn(place));
        let answer = self.memory.transfer((rail, operation), id, part, peer, remote);
        if answer == Answer::Taken {
            self.free_moves[rail].take(place);
            self.moves[rail][place as usize] = id;
        }
        answer
    }

    /// The next thing that the queues tell; `at_most` says how many are wanted in all. Rails are looked at where
    /// something may move over them.
    #[inline]
    pub(crate) fn next(&mut self, at_most: usize, with_rails: bool) -> Option<Event> {
        loop {
            if self.batch.0 == self.batch.1 {
                if !self.idle_buffers.is_empty() {
                    self.post_buffers();
                }
                self.rail = 0;
                if let Some(failure) = self.failure.take() {
                    return Some(self.failed(failure));
                }
                let mut answer = self.memory.endpoint().poll(at_most);
                while with_rails && matches!(answer, Ok(0)) && self.rail + 1 < self.memory.rails() {
                    self.rail += 1;
                    answer = self.memory.rail(self.rail).poll(at_most);
                }
                match answer {
                    Ok(0) => return None,
                    Ok(count) => self.batch = (0, count),
                    Err(failure) => return Some(self.failed(failure)),
                }
            }
            let completed = self.memory.rail_ref(self.rail).completed(self.batch.0);
            self.batch.0 += 1;
            if let Some(event) = self.event(completed) {
                return Some(event);
            }
        }
    }

    /// What the queue tells next, without taking it.
    #[inline(always)]
    pub(crate) fn ahead(&mut self) -> Ahead {
        if self.failure.is_some() {
            return Ahead::Other;
        }
        if self.batch.0 == self.batch.1 {
            self.rail = 0;
            match self.memory.endpoint().poll(AHEAD) {
                Ok(0) => return Ahead::Nothing,
                Ok(count) => self.batch = (0, count),
                Err(failure) => {
                    self.failure = Some(failure);
                    return Ahead::Other;
                }
            }
        }
        let completed = self.memory.rail_ref(self.rail).completed(self.batch.0);
        match completed.operation.map(|operation| Part::of(self.rail, operation)) {
            Some((Part::Buffer(buffer), turn)) if completed.received => {
                Ahead::Message(Arrival { buffer, turn, completed })
            }
            _ => Ahead::Other,
        }
    }

    /// Takes the message that [`Port::ahead`] has told of.
    #[inline(always)]
    pub(crate) fn pass(&mut self) {
        self.batch.0 += 1;
    }

    #[inline]
    fn event(&mut self, completed: Completed) -> Option<Event> {
        match Part::of(self.rail, completed.operation?) {
            (Part::Buffer(buffer), turn) if completed.received => {
                Some(Event::Came(Arrival { buffer, turn, completed }))
            }
            (Part::Buffer(buffer), turn) => {
                self.release(buffer, turn, completed.released);
                None
            }
            (Part::Alone(buffer), turn) => {
                // Where a message of a buffer for many begins, the completion tells; of one alone it need not.
                let completed =
                    Completed { released: true, start: self.memory.start_of(buffer), ..completed };
                Some(Event::Came(Arrival { buffer, turn, completed }))
            }
            (part, turn) => self.ended(part, turn, true),
        }
    }

    /// A send, a short operation or a part of a transfer is over, well or not. `None` for one that was over before: some
    /// providers tell of an error twice.
    fn ended(&mut self, part: Part, turn: u32, well: bool) -> Option<Event> {
        let (place, places) = match part {
            Part::Slot(slot) => (slot as u32, &mut self.free_slots),
            Part::Move(place) => (place as u32, &mut self.free_moves[self.rail]),
            Part::Buffer(_) | Part::Alone(_) => return None,
        };
        if !places.give_back(place, turn) {
            return None;
        }
        if !well {
            places.pass_on(place);
        }
        let slot = match part {
            Part::Slot(slot) => slot,
            _ => {
                let id = self.moves[self.rail][place as usize];
                self.memory.operation_ended(id);
                return Some(Event::Moved(id));
            }
        };
        let done = match &mut self.slots[slot] {
            Task::Message(stamp) => return Some(Event::Left(*stamp)),
            Task::Short(errand, into) => {
                if well {
                    self.memory.fetched(slot, into);
                }
                Event::Done(*errand)
            }
        };
        self.short -= 1;
        self.slots[slot] = Task::Message(Stamp::default());
        Some(done)
    }

    /// A message, as it lies in its buffer. `None` where the completion tells what cannot be.
    #[inline(always)]
    pub(crate) fn message(&self, arrival: Arrival) -> Option<Payload<'_>> {
        self.memory.message(arrival.buffer, &arrival.completed)
    }

    /// The message is not needed any more.
    #[inline(always)]
    pub(crate) fn seen(&mut self, arrival: Arrival) {
        self.release(arrival.buffer, arrival.turn, arrival.completed.released);
    }

    #[inline(always)]
    fn release(&mut self, buffer: usize, turn: u32, released: bool) {
        if released {
            self.take_back(buffer, turn);
        }
    }

    #[cold]
    fn take_back(&mut self, buffer: usize, turn: u32) {
        if self.free_buffers.give_back(buffer as u32, turn) {
            self.idle_buffers.push(buffer as u32);
            self.post_buffers();
        }
    }

    /// Hands all receive buffers to the provider that it does not have, as far as it takes them.
    fn post_buffers(&mut self) {
        while let Some(&buffer) = self.idle_buffers.last() {
            if self.post_buffer(buffer) != Answer::Taken {
                break;
            }
            self.free_buffers.take(buffer);
            self.idle_buffers.pop();
        }
    }

    /// The provider shm of libfabric 1 keeps a message that came before a buffer in one of as many places as it takes
    /// messages at a time, and a buffer for many needs such a place: where messages have all of them, neither would ever move.
    /// A buffer for one takes over the place of a message.
    fn post_buffer(&mut self, buffer: u32) -> Answer {
        let (place, turn) = (buffer as usize, self.free_buffers.turn(buffer));
        match self.memory.post_buffer(Part::Buffer(place).operation(0, turn), place, Takes::Many) {
            Answer::NO_ROOM => {
                self.memory.post_buffer(Part::Alone(place).operation(0, turn), place, Takes::One)
            }
            answer => answer,
        }
    }

    /// Something has failed. Only who is named by the provider gives back what it has: of others it is not known whether
    /// they are over.
    #[cold]
    fn failed(&mut self, failure: Box<Failure>) -> Event {
        let Some((part, turn)) = failure.operation.map(|operation| Part::of(self.rail, operation)) else {
            return Event::Failed(Failed::Something, failure);
        };
        let is_released = failure.released || matches!(part, Part::Alone(_));
        match part {
            Part::Buffer(buffer) | Part::Alone(buffer) if is_released => {
                if self.free_buffers.give_back(buffer as u32, turn) {
                    self.free_buffers.pass_on(buffer as u32);
                    self.idle_buffers.push(buffer as u32);
                    self.post_buffers();
                }
            }
            Part::Buffer(buffer) => self.replace_buffer(buffer),
            part => {
                let failed = match self.ended(part, turn, false) {
                    Some(Event::Left(stamp)) => Failed::Message(stamp),
                    Some(Event::Moved(id)) => Failed::Transfer(id),
                    Some(Event::Done(errand)) => Failed::Short(errand),
                    _ => Failed::Nothing,
                };
                return Event::Failed(failed, failure);
            }
        }
        Event::Failed(Failed::Nothing, failure)
    }

    /// Nobody knows whether the provider still writes into a buffer of which it has told an error and not the release.
    fn replace_buffer(&mut self, buffer: usize) {
        let was_replaced = self.replaced & 1 << buffer != 0;
        self.replaced |= 1 << buffer;
        if !was_replaced && (self.buffers as usize) < BUFFERS_MAX {
            self.idle_buffers.push(self.buffers);
            self.buffers += 1;
            self.post_buffers();
        }
    }
}

/// What an operation is.
#[derive(Clone, Copy)]
enum Part {
    Slot(usize),
    /// A receive buffer, for many messages.
    Buffer(usize),
    Move(usize),
    /// A receive buffer, for one message.
    Alone(usize),
}

impl Part {
    /// What an operation at one of the rails is, and which turn of its place.
    #[inline]
    fn of(rail: usize, operation: Operation) -> (Part, u32) {
        let operation = operation.0 as usize;
        let (place, turn) = (operation / TURNS, (operation % TURNS) as u32);
        if rail > 0 {
            return (Part::Move(place), turn);
        }
        let part = match place {
            slot if slot < SLOTS => Part::Slot(slot),
            buffer if buffer < FIRST_MOVE => Part::Buffer(buffer - SLOTS),
            place if place < FIRST_ALONE => Part::Move(place - FIRST_MOVE),
            place => Part::Alone(place - FIRST_ALONE),
        };
        (part, turn)
    }

    /// The operation of that turn.
    #[inline]
    fn operation(self, rail: usize, turn: u32) -> Operation {
        let place = match self {
            Part::Slot(slot) => slot,
            Part::Buffer(buffer) => SLOTS + buffer,
            Part::Move(place) if rail > 0 => place,
            Part::Move(place) => FIRST_MOVE + place,
            Part::Alone(buffer) => FIRST_ALONE + buffer,
        };
        Operation((place * TURNS) as u32 + turn)
    }
}

/// Messages and short operations that can be on their way out of slots.
const SLOTS: usize = 64;
/// Of these, so many are kept for what ends a link.
const SLOTS_KEPT: u32 = 4;
/// What a slot holds where nothing else is said. The providers that stand on others (rxm) copy up to here, too.
pub(crate) const SLOT_BYTES: usize = 16 << 10;
/// Slots begin at multiples of this.
const SLOT_ALIGNMENT: usize = 64;
/// So many of the longest messages have room in a receive buffer, if that is not too long. Messages go through all buffers in
/// turn, so that those of short messages should fit into a second-level cache together.
const FRAMES_OF_BUFFER: usize = 16;
/// Parts of transfers that can be under way over one rail.
const MOVES: usize = 16;
/// Their first operation at the endpoint.
const FIRST_MOVE: usize = SLOTS + BUFFERS_MAX;
/// The first operation of a receive buffer for one message.
const FIRST_ALONE: usize = FIRST_MOVE + MOVES;
/// Operations that can be under way at the endpoint, and how many turns there are of each.
const PLACES: usize = FIRST_ALONE + BUFFERS_MAX;
const TURNS: usize = 8;
/// So many things that the queue tells are read at once by who only wants to know the next.
const AHEAD: usize = 16;
/// One part. Providers cut it as they need; this only bounds what one failure costs.
const MOVED_BYTES_MAX: usize = 1 << 30;
/// Beyond this a copy into a slot costs no more than a copy to be injected.
const INJECT_BYTES_MAX: usize = 4 << 10;
