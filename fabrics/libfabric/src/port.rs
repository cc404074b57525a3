//! The endpoint as the fabric uses it: which operations are under way, for whom, and what has become of them.

use fabric::{Payload, UserMemory};
use libfabric_sys::{
    Address, Answer, Capacity, Completed, Endpoint, Failure, LibfabricError, Offer, Operation, Remote, Terms,
};

use crate::memory::{BUFFERS, LandingId, Memory, Shown};
use crate::pulls::ReadingId;
use crate::wire::{FRAME_BYTES, Frame};

/// An endpoint with its operations. Sends come first among them, then receive buffers, then reads.
pub(crate) struct Port {
    memory: Memory,
    /// For each slot, whose message it held last.
    slots: Vec<u32>,
    free_slots: Vec<u32>,
    /// For each read, where it goes and what it is part of.
    reads: Vec<(ReadingId, LandingId)>,
    free_reads: Vec<u32>,
    /// Receive buffers that the provider could not take yet.
    idle_buffers: Vec<u32>,
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
    /// Something has left.
    Left,
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
    /// A message for that link.
    Message(u32),
    /// A read.
    Read(ReadingId),
    /// A receive buffer, which belongs to nobody and has been posted again.
    Buffer,
    /// The provider does not say.
    Something,
}

/// Where a message lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    buffer: usize,
    completed: Completed,
}

/// What became of a message.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// Gone, and nobody will tell whether well.
    Injected,
    /// On its way; the queue will tell.
    Underway,
    /// Not taken.
    Busy,
    /// Refused, with an error number of libfabric.
    Failed(i32),
}

impl Port {
    pub(crate) fn open(offer: &Offer) -> Result<Port, LibfabricError> {
        let terms = offer.terms();
        let slot_bytes = terms.message_bytes_max.min(SLOT_BYTES);
        let capacity =
            Capacity { operations: (SLOTS + BUFFERS + READS) as u32, message_bytes_max: slot_bytes };
        let memory = Memory::new(Endpoint::open(offer, capacity)?, SLOTS, slot_bytes)?;
        let mut port = Port {
            memory,
            slots: vec![0; SLOTS],
            free_slots: (0..SLOTS as u32).rev().collect(),
            reads: vec![(ReadingId::NONE, LandingId::NONE); READS],
            free_reads: (0..READS as u32).rev().collect(),
            idle_buffers: (0..BUFFERS as u32).collect(),
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

    /// Sends a message: in one call where it is short, or out of a slot, which tells when it has left.
    #[inline]
    pub(crate) fn send(&mut self, link: u32, to: Address, frame: &Frame, payload: Payload<'_>) -> Sent {
        let bytes = FRAME_BYTES + payload.bytes();
        if bytes > self.scratch.len() {
            return self.send_slot(link, to, frame, payload);
        }
        let (head, rest) = self.scratch.split_at_mut(FRAME_BYTES);
        head.copy_from_slice(&frame.encode());
        payload.copy_to(rest);
        match self.memory.endpoint().inject(&self.scratch[..bytes], to) {
            Answer::Taken => Sent::Injected,
            Answer::Again => Sent::Busy,
            Answer::Failed(code) => Sent::Failed(code),
        }
    }

    /// Sends a message so that the queue tells when it has left.
    #[inline]
    pub(crate) fn send_slot(&mut self, link: u32, to: Address, frame: &Frame, payload: Payload<'_>) -> Sent {
        let Some(&slot) = self.free_slots.last() else { return Sent::Busy };
        match self.memory.send_slot(Operation(slot), slot as usize, (&frame.encode(), payload), to) {
            Answer::Taken => {
                self.free_slots.pop();
                self.slots[slot as usize] = link;
                Sent::Underway
            }
            Answer::Again => Sent::Busy,
            Answer::Failed(code) => Sent::Failed(code),
        }
    }

    /// For whom something that was sent has not left yet.
    pub(crate) fn sending(&self) -> impl Iterator<Item = u32> {
        let slots = self.slots.iter().enumerate();
        slots.filter(|(slot, _)| !self.free_slots.contains(&(*slot as u32))).map(|(_, link)| *link)
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
    ) -> Result<usize, Sent> {
        let Some(&read) = self.free_reads.last() else { return Err(Sent::Busy) };
        let bytes = bytes.min(self.read_bytes_max);
        let address = remote.address.wrapping_add(offset as u64);
        let operation = Operation((SLOTS + BUFFERS) as u32 + read);
        let remote = Remote { address, ..remote };
        match self.memory.read(operation, landing, (offset, bytes), from, remote) {
            Answer::Taken => {
                self.free_reads.pop();
                self.reads[read as usize] = (reading, landing);
                Ok(bytes)
            }
            Answer::Again => Err(Sent::Busy),
            Answer::Failed(code) => Err(Sent::Failed(code)),
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
            part => Some(self.ended(part)),
        }
    }

    /// A send or a read is over, well or not.
    fn ended(&mut self, part: Part) -> Event {
        match part {
            Part::Slot(slot) => {
                self.free_slots.push(slot as u32);
                Event::Left
            }
            Part::Read(read) => {
                let (reading, landing) = self.reads[read];
                self.free_reads.push(read as u32);
                self.memory.read_ended(landing);
                Event::Read(reading)
            }
            Part::Buffer(_) => Event::Left,
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

    #[cold]
    fn failed(&mut self, failure: Box<Failure>) -> Event {
        // A provider may not say what has failed; where one thing only was under way, that is it.
        let operation = failure.operation.or_else(|| self.only_operation());
        let Some(part) = operation.map(Part::of) else { return Event::Failed(Failed::Something, failure) };
        let failed = match part {
            Part::Slot(slot) => Failed::Message(self.slots[slot]),
            Part::Read(read) => Failed::Read(self.reads[read].0),
            Part::Buffer(buffer) => {
                self.release(buffer, failure.released);
                return Event::Failed(Failed::Buffer, failure);
            }
        };
        self.ended(part);
        Event::Failed(failed, failure)
    }

    /// The one send or read that is under way, if it is one.
    fn only_operation(&self) -> Option<Operation> {
        let taken =
            |free: &[u32], all: usize| (0..all as u32).filter(|index| !free.contains(index)).collect();
        let (slots, reads): (Vec<u32>, Vec<u32>) =
            (taken(&self.free_slots, SLOTS), taken(&self.free_reads, READS));
        match (&slots[..], &reads[..]) {
            ([slot], []) => Some(Operation(*slot)),
            ([], [read]) => Some(Operation((SLOTS + BUFFERS) as u32 + read)),
            _ => None,
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
            buffer if buffer < SLOTS + BUFFERS => Part::Buffer(buffer - SLOTS),
            read => Part::Read(read - SLOTS - BUFFERS),
        }
    }
}

/// Messages that can be on their way out of slots.
const SLOTS: usize = 64;
/// What a slot holds. The providers that stand on others (rxm) copy up to here, too.
const SLOT_BYTES: usize = 16 << 10;
/// Reads that can be under way.
const READS: usize = 16;
/// One read. Providers cut it as they need; this only bounds what one failure costs.
const READ_BYTES_MAX: usize = 1 << 30;
/// Beyond this a copy into a slot costs no more than a copy to be injected.
const INJECT_BYTES_MAX: usize = 4 << 10;
