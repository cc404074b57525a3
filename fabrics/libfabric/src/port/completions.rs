//! The queues of completions: which messages have come and what has ended or failed; and the receive buffers,
//! which go back to the provider when their messages have been seen.

use fabric::Payload;
use libfabric_sys::{Answer, Completed, Failure, Takes};

use super::operations::Part;
use super::{Errand, Port, Stamp, Task};
use crate::memory::{BUFFERS_MAX, TransferId};

/// What a queue of completions has told.
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

/// What the queue of the endpoint tells next, before the caller takes it.
#[derive(Debug)]
pub(crate) enum Ahead {
    Nothing,
    /// A message has come. The caller takes it by [`Port::pass`], and calls [`Port::seen`] when it has read
    /// it.
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
    /// A receive buffer, which belongs to no link and which another has replaced; or an operation whose
    /// failure was told before.
    Nothing,
    /// An operation that the provider does not name.
    Something,
}

/// Where a message that has come lies: in which receive buffer, and where in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    buffer: usize,
    turn: u32,
    completed: Completed,
}

impl Port {
    /// The next event of the queues. `at_most` is how many events the caller wants in all. The queues of
    /// rails are read only `with_rails`, while parts of transfers may be under way over them.
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
                // Where a message of a buffer for many begins, the completion tells; of one alone it need
                // not.
                let completed =
                    Completed { released: true, start: self.memory.start_of(buffer), ..completed };
                Some(Event::Came(Arrival { buffer, turn, completed }))
            }
            (part, turn) => self.ended(part, turn, true),
        }
    }

    /// A send, a short operation or a part of a transfer is over, well or not. `None` for one that was over
    /// before: some providers tell of an error twice.
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

    /// Ends the use of a message: its receive buffer may go back to the provider.
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

    /// Posts the receive buffers that the provider does not have, as many as it takes.
    pub(super) fn post_buffers(&mut self) {
        while let Some(&buffer) = self.idle_buffers.last() {
            if self.post_buffer(buffer) != Answer::Taken {
                break;
            }
            self.free_buffers.take(buffer);
            self.idle_buffers.pop();
        }
    }

    /// The provider shm of libfabric 1 keeps a message that came before a buffer in one of as many places as
    /// it takes messages at a time, and a buffer for many needs such a place: where messages have all of
    /// them, neither would ever move. A buffer for one takes over the place of a message.
    fn post_buffer(&mut self, buffer: u32) -> Answer {
        let (place, turn) = (buffer as usize, self.free_buffers.turn(buffer));
        match self.memory.post_buffer(Part::Buffer(place).operation(0, turn), place, Takes::Many) {
            Answer::NO_ROOM => {
                self.memory.post_buffer(Part::Alone(place).operation(0, turn), place, Takes::One)
            }
            answer => answer,
        }
    }

    /// Something has failed. Only who is named by the provider gives back what it has: of others it is not
    /// known whether they are over.
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

    /// Nobody knows whether the provider still writes into a buffer of which it has told an error and not the
    /// release.
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

/// How many completions [`Port::ahead`] reads from the queue at once.
const AHEAD: usize = 16;
