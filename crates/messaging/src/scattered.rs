//! Messages whose bytes do not stand in a row: who sends one makes them while it goes, who receives one takes them
//! apart while it comes. What lies behind the places of the bytes, the engine does not know.

use fabric::{Heap, Payload, Room, UserMemory};

/// The bytes of a message, from wherever they stand.
pub trait Gather: Send {
    /// Length of the message; always the same.
    fn bytes(&self) -> usize;

    /// Fills `into` with the bytes from `from` on; there are that many.
    fn gather(&self, from: usize, into: &mut UserMemory);
}

/// The places that the bytes of a message are brought to.
pub trait Scatter: Send {
    /// Room in bytes; always the same.
    fn bytes(&self) -> usize;

    /// Brings `data`, which are the bytes from `at` on, to their places, as far as there are places.
    fn scatter(&mut self, at: usize, data: Payload<'_>);
}

/// What a message is made of.
pub(crate) enum Source {
    /// Bytes in a row, claimed until the send is over.
    Row(Payload<'static>),
    /// Bytes that are made in pieces.
    Made(Box<dyn Gather>),
}

impl Source {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Source::Row(payload) => payload.bytes(),
            Source::Made(gather) => gather.bytes(),
        }
    }

    /// The bytes, where they stand in a row.
    pub(crate) fn row(&self) -> Option<Payload<'static>> {
        match self {
            Source::Row(payload) => Some(*payload),
            Source::Made(_) => None,
        }
    }
}

/// A message that was made as a whole, and is sent in pieces nevertheless.
pub(crate) struct Packed(pub Heap);

impl Gather for Packed {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn gather(&self, from: usize, into: &mut UserMemory) {
        into.write_at(0, self.0.payload().after(from));
    }
}

/// Where a receive puts its message.
pub enum Target {
    /// Into memory that is claimed until the receive is over.
    Room(Room),
    /// Into memory of the library's own.
    Kept(UserMemory),
    /// To many places.
    Scattered(Box<dyn Scatter>),
}

impl From<UserMemory> for Target {
    #[inline(always)]
    fn from(memory: UserMemory) -> Target {
        match memory.room() {
            Some(room) => Target::Room(room),
            None => Target::Kept(memory),
        }
    }
}

impl Target {
    /// Room in bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Target::Room(room) => room.bytes(),
            Target::Kept(memory) => memory.bytes(),
            Target::Scattered(scatter) => scatter.bytes(),
        }
    }

    /// Brings bytes of the message from `at` on to their place, as far as there is room.
    #[inline]
    pub(crate) fn write_at(&mut self, at: usize, data: Payload<'_>) {
        match self {
            Target::Room(room) => {
                room.memory().write_at(at, data);
            }
            Target::Kept(memory) => {
                memory.write_at(at, data);
            }
            Target::Scattered(scatter) => scatter.scatter(at, data),
        }
    }

    /// The room for bytes of the message, where they come to stand in a row; cut to what there is.
    pub(crate) fn row(&mut self, at: usize, bytes: usize) -> Option<UserMemory> {
        match self {
            Target::Room(room) => Some(room.memory().part(at, bytes)),
            Target::Kept(memory) => Some(memory.part(at, bytes)),
            Target::Scattered(_) => None,
        }
    }
}
