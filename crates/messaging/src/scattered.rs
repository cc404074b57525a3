//! Messages whose bytes do not stand in a row: who sends one makes them while it goes, who receives one takes
//! them apart while it comes. What lies behind the places of the bytes, the engine does not know.

use fabric::{Heap, Payload, Room, UserMemory};

/// The bytes of a message, from wherever they stand.
pub trait Gather: Send {
    /// Length of the message; always the same.
    fn bytes(&self) -> usize;

    /// Fills `into` with the bytes from `from` on; there are that many.
    fn gather(&self, from: usize, into: &mut UserMemory);

    /// A message of the same bytes that borrows from nobody, for a send that goes on after the call that
    /// began it.
    fn kept(&self) -> Box<dyn Gather>;
}

/// What a send is given.
#[derive(Clone, Copy)]
pub enum Data<'a> {
    /// Bytes in a row. The claim behind them must hold until the send is over: see [`Payload::claim`].
    Row(Payload<'static>),
    /// Bytes in a row as in [`Data::Row`], with a number by which the sender says what elements they are. The
    /// outcome of the receive has that number; it means nothing to the engine, and 0 says nothing.
    Signed(Payload<'static>, u32),
    /// Bytes that are gathered from their places while the message goes. They must stay there until the send
    /// is over.
    Apart(&'a dyn Gather),
}

/// What can be sent: a payload, or any [`Data`]. A payload that a fabric takes at once never becomes
/// [`Data`], so that it stays in registers.
pub trait Sendable<'a>: Copy {
    /// The bytes, where they stand in a row and nothing is said of their elements.
    fn row(self) -> Option<Payload<'static>>;

    /// What is sent, as one of the kinds of [`Data`].
    fn data(self) -> Data<'a>;
}

impl<'a> Sendable<'a> for Payload<'static> {
    #[inline(always)]
    fn row(self) -> Option<Payload<'static>> {
        Some(self)
    }

    #[inline(always)]
    fn data(self) -> Data<'a> {
        Data::Row(self)
    }
}

impl<'a> Sendable<'a> for Data<'a> {
    #[inline(always)]
    fn row(self) -> Option<Payload<'static>> {
        if let Data::Row(payload) = self { Some(payload) } else { None }
    }

    #[inline(always)]
    fn data(self) -> Data<'a> {
        self
    }
}

impl Data<'_> {
    /// What a request keeps of it until the send is over.
    pub(crate) fn source(self) -> Source {
        match self {
            Data::Row(payload) | Data::Signed(payload, _) => Source::Row(payload),
            Data::Apart(gather) => Source::Made(gather.kept()),
        }
    }

    /// Length of the message.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Data::Row(payload) | Data::Signed(payload, _) => payload.bytes(),
            Data::Apart(gather) => gather.bytes(),
        }
    }

    /// What its sender says of its elements; 0 is nothing.
    pub(crate) fn signature(self) -> u32 {
        if let Data::Signed(_, signature) = self { signature } else { 0 }
    }
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
    /// Bytes that are made in chunks.
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

/// A message that was made as a whole, and is sent in chunks nevertheless.
pub(crate) struct Packed(pub Heap);

impl Gather for Packed {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn gather(&self, from: usize, into: &mut UserMemory) {
        into.write_at(0, self.0.payload().after(from));
    }

    fn kept(&self) -> Box<dyn Gather> {
        Box::new(Packed(self.0.clone()))
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
    pub fn write_at(&mut self, at: usize, data: Payload<'_>) {
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
