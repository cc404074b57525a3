//! The endpoint as the fabric uses it: which operations are under way, for whom, and what has become of them.

use fabric::{Payload, UserMemory};
use libfabric_sys::{
    Address, Answer, Capacity, Completed, Endpoint, Failure, LibfabricError, Offer, Operation, Remote, Terms,
};

use crate::memory::{BUFFERS, BUFFERS_MAX, LandingId, Memory, Shown};
use crate::pulls::ReadingId;
use crate::wire::FRAME_BYTES;

/// An endpoint with its operations. Sends come first among them, then receive buffers, then reads.
pub(crate) struct Port {
    memory: Memory,
    /// For each slot, whose message it held last, and its number.
    slots: Vec<Stamp>,
    free_slots: Free,
    /// For each read, where it goes and what it is part of.
    reads: Vec<(ReadingId, LandingId)>,
    free_reads: Free,
    /// Receive buffers that the provider could not take yet.
    idle_buffers: Vec<u32>,
    /// How many receive buffers have been used so far; those of which an error has told are not used again.
    buffers: u32,
    /// What is injected is put together here.
    scratch: Box<[u8]>,
    slot_bytes: usize,
    read_bytes_max: usize,
    /// Completions that have been read from the queue, and how many of them have been told.
    batch: (usize, usize),
}

/// What the queue told.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message has left, and with it all before it.
    Left(Stamp),
    /// A message has come; it lies in that buffer until [`Port::seen`].
    Came(Arrival),
    /// A read has ended.
    Read(ReadingId),
    /// Something has failed.
    Failed(Failed, Box<Failure>),
}

/// What has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failed {
    /// A message for a link.
    Message(Stamp),
    /// A read.
    Read(ReadingId),
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

/// Which of up to 64 places are free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Free(u64);

impl Free {
    fn all(places: usize) -> Free {
        Free(u64::MAX >> (64 - places))
    }

    fn first(self) -> Option<u32> {
        (self.0 != 0).then(|| self.0.trailing_zeros())
    }

    fn has(self, place: u32) -> bool {
        self.0 & 1 << place != 0
    }

    fn count(self) -> u32 {
        self.0.count_ones()
    }

    fn take(&mut self, place: u32) {
        self.0 &= !(1 << place);
    }

    /// Gives a place back; false where it was free.
    fn give_back(&mut self, place: u32) -> bool {
        let was_taken = !self.has(place);
        self.0 |= 1 << place;
        was_taken
    }
}

/// Where a message lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    buffer: usize,
    completed: Completed,
}

impl Port {
    pub(crate) fn open(offer: &Offer) -> Result<Port, LibfabricError> {
        let terms = offer.terms();
        let slot_bytes = terms.message_bytes_max.min(SLOT_BYTES);
        let capacity =
            Capacity { operations: (SLOTS + BUFFERS_MAX + READS) as u32, message_bytes_max: slot_bytes };
        let memory = Memory::new(Endpoint::open(offer, capacity)?, SLOTS, slot_bytes)?;
        let mut port = Port {
            memory,
            slots: vec![Stamp::default(); SLOTS],
            free_slots: Free::all(SLOTS),
            reads: vec![(ReadingId::NONE, LandingId::NONE); READS],
            free_reads: Free::all(READS),
            idle_buffers: (0..BUFFERS as u32).collect(),
            buffers: BUFFERS as u32,
            scratch: vec![0; terms.inject_bytes_max.min(INJECT_BYTES_MAX)].into(),
            slot_bytes,
            read_bytes_max: terms.message_bytes_max.min(READ_BYTES_MAX),
            batch: (0, 0),
        };
        port.post_buffers();
        Ok(port)
    }

    pub(crate) fn terms(&self) -> &Terms {
        self.memory.endpoint_ref().terms()
    }

    pub(crate) fn name(&self) -> &[u8] {
        self.memory.endpoint_ref().name()
    }

    #[cfg(test)]
    pub(crate) fn library(&self) -> &libfabric_sys::Library {
        self.memory.endpoint_ref().library()
    }

    pub(crate) fn text(&self, code: i32) -> String {
        self.memory.endpoint_ref().library().text(code)
    }

    pub(crate) fn insert(&mut self, name: &[u8]) -> Result<Address, LibfabricError> {
        self.memory.endpoint().insert(name)
    }

    /// The longest payload of a message that is copied.
    pub(crate) fn copied_bytes_max(&self) -> usize {
        self.slot_bytes - FRAME_BYTES
    }

    /// Sends a message: in one call where it is short, or out of a slot, which tells when it has left. `head` goes before
    /// the payload.
    #[inline]
    pub(crate) fn send(&mut self, stamp: Stamp, to: Address, head: &[u8], payload: Payload<'_>) -> Answer {
        let bytes = head.len() + payload.bytes();
        if bytes > self.scratch.len() {
            // Some slots are left for what ends a link, or one peer that takes nothing would keep this process for ever.
            let has_room = self.free_slots.count() > SLOTS_KEPT;
            return if has_room { self.send_slot(stamp, to, head, payload) } else { Answer::Again };
        }
        let (front, rest) = self.scratch.split_at_mut(head.len());
        front.copy_from_slice(head);
        payload.copy_to(rest);
        self.memory.endpoint().inject(&self.scratch[..bytes], to)
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
        let answer = self.memory.send_slot(Operation(slot), slot as usize, (head, payload), to);
        if answer == Answer::Taken {
            self.free_slots.take(slot);
            self.slots[slot as usize] = stamp;
        }
        answer
    }

    /// Closes the endpoint. Nothing may be sent or looked for afterwards.
    pub(crate) fn close(&mut self) {
        self.memory.close();
    }

    /// Whether another read may begin.
    pub(crate) fn may_read(&self) -> bool {
        self.free_reads.first().is_some()
    }

    /// For whom something that was sent has not left yet.
    pub(crate) fn sending(&self) -> impl Iterator<Item = u32> {
        let slots = (0..).zip(&self.slots);
        slots.filter(|(slot, _)| !self.free_slots.has(*slot)).map(|(_, stamp)| stamp.link)
    }

    pub(crate) fn show(&mut self, payload: Payload<'_>) -> Result<Shown, LibfabricError> {
        self.memory.show(payload)
    }

    pub(crate) fn hide(&mut self, shown: Shown) {
        self.memory.hide(shown);
    }

    pub(crate) fn land(&mut self, room: UserMemory) -> Result<LandingId, LibfabricError> {
        self.memory.land(room)
    }

    /// Gives room back that was read into; false while reads are under way.
    pub(crate) fn take_off(&mut self, landing: LandingId) -> bool {
        self.memory.take_off(landing)
    }

    /// Begins to read what is missing of `bytes` bytes from `offset` on; how much of it, or why nothing.
    pub(crate) fn read(
        &mut self,
        (reading, landing): (ReadingId, LandingId),
        (offset, bytes): (usize, usize),
        from: Address,
        remote: Remote,
    ) -> Result<usize, Answer> {
        let Some(read) = self.free_reads.first() else { return Err(Answer::Again) };
        let bytes = bytes.min(self.read_bytes_max);
        let address = remote.address.wrapping_add(offset as u64);
        let operation = Operation((SLOTS + BUFFERS_MAX) as u32 + read);
        let remote = Remote { address, ..remote };
        match self.memory.read(operation, landing, (offset, bytes), from, remote) {
            Answer::Taken => {
                self.free_reads.take(read);
                self.reads[read as usize] = (reading, landing);
                Ok(bytes)
            }
            refused => Err(refused),
        }
    }

    /// The next thing that the queue tells; `at_most` says how many are wanted in all.
    #[inline]
    pub(crate) fn next(&mut self, at_most: usize) -> Option<Event> {
        loop {
            if self.batch.0 == self.batch.1 {
                if !self.idle_buffers.is_empty() {
                    self.post_buffers();
                }
                match self.memory.endpoint().poll(at_most) {
                    Ok(0) => return None,
                    Ok(count) => self.batch = (0, count),
                    Err(failure) => return Some(self.failed(failure)),
                }
            }
            let completed = self.memory.endpoint_ref().completed(self.batch.0);
            self.batch.0 += 1;
            if let Some(event) = self.event(completed) {
                return Some(event);
            }
        }
    }

    #[inline]
    fn event(&mut self, completed: Completed) -> Option<Event> {
        match Part::of(completed.operation?) {
            Part::Buffer(buffer) if completed.received => Some(Event::Came(Arrival { buffer, completed })),
            Part::Buffer(buffer) => {
                self.release(buffer, completed.released);
                None
            }
            part => self.ended(part),
        }
    }

    /// A send or a read is over, well or not. `None` for one that was over before: some providers tell of an error twice.
    fn ended(&mut self, part: Part) -> Option<Event> {
        match part {
            Part::Slot(slot) => self.free_slots.give_back(slot as u32).then(|| Event::Left(self.slots[slot])),
            Part::Read(read) => {
                let (reading, landing) = self.reads[read];
                if !self.free_reads.give_back(read as u32) {
                    return None;
                }
                self.memory.read_ended(landing);
                Some(Event::Read(reading))
            }
            Part::Buffer(_) => None,
        }
    }

    /// A message, as it lies in its buffer. `None` where the completion tells what cannot be.
    #[inline]
    pub(crate) fn message(&self, arrival: Arrival) -> Option<Payload<'_>> {
        self.memory.message(arrival.buffer, &arrival.completed)
    }

    /// The message is not needed any more.
    #[inline]
    pub(crate) fn seen(&mut self, arrival: Arrival) {
        self.release(arrival.buffer, arrival.completed.released);
    }

    fn release(&mut self, buffer: usize, released: bool) {
        if released {
            self.idle_buffers.push(buffer as u32);
            self.post_buffers();
        }
    }

    /// Hands all receive buffers to the provider that it does not have, as far as it takes them.
    fn post_buffers(&mut self) {
        while let Some(&buffer) = self.idle_buffers.last() {
            let operation = Operation(SLOTS as u32 + buffer);
            if self.memory.post_buffer(operation, buffer as usize) != Answer::Taken {
                break;
            }
            self.idle_buffers.pop();
        }
    }

    /// Something has failed. Only who is named by the provider gives back what it has: of others it is not known whether
    /// they are over.
    #[cold]
    fn failed(&mut self, failure: Box<Failure>) -> Event {
        let Some(part) = failure.operation.map(Part::of) else {
            return Event::Failed(Failed::Something, failure);
        };
        match part {
            Part::Buffer(buffer) if failure.released => self.release(buffer, true),
            Part::Buffer(_) => self.replace_buffer(),
            part => {
                let failed = match self.ended(part) {
                    Some(Event::Left(stamp)) => Failed::Message(stamp),
                    Some(Event::Read(reading)) => Failed::Read(reading),
                    _ => Failed::Nothing,
                };
                return Event::Failed(failed, failure);
            }
        }
        Event::Failed(Failed::Nothing, failure)
    }

    /// Nobody knows whether the provider still writes into a buffer of which it has told an error and not the release.
    fn replace_buffer(&mut self) {
        if (self.buffers as usize) < BUFFERS_MAX {
            self.idle_buffers.push(self.buffers);
            self.buffers += 1;
            self.post_buffers();
        }
    }
}

/// What an operation is.
enum Part {
    Slot(usize),
    Buffer(usize),
    Read(usize),
}

impl Part {
    #[inline]
    fn of(operation: Operation) -> Part {
        match operation.0 as usize {
            slot if slot < SLOTS => Part::Slot(slot),
            buffer if buffer < SLOTS + BUFFERS_MAX => Part::Buffer(buffer - SLOTS),
            read => Part::Read(read - SLOTS - BUFFERS_MAX),
        }
    }
}

/// Messages that can be on their way out of slots.
const SLOTS: usize = 64;
/// Of these, so many are kept for what ends a link.
const SLOTS_KEPT: u32 = 4;
/// What a slot holds. The providers that stand on others (rxm) copy up to here, too.
const SLOT_BYTES: usize = 16 << 10;
/// Reads that can be under way.
const READS: usize = 16;
/// One read. Providers cut it as they need; this only bounds what one failure costs.
const READ_BYTES_MAX: usize = 1 << 30;
/// Beyond this a copy into a slot costs no more than a copy to be injected.
const INJECT_BYTES_MAX: usize = 4 << 10;
