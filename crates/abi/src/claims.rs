//! What the program hands over by address, claimed once: in the exported function that it calls.
//!
//! C gives an address and a promise, which the MPI standard words for each argument: that a result may be
//! written there, that so many elements stand there, that a buffer is left alone until its operation is over.
//! An exported function takes each address for what it is promised to be, by the `unsafe` function `claim` of
//! the types here. Everything behind it is safe code: it checks for null pointers, reads, and writes, and has
//! no way to make a claim of its own out of an address.
//!
//! A claim with the lifetime `'call` cannot be kept beyond the call. [`Sent`] and [`Received`] have none,
//! since the standard has the program leave data buffers alone until the operation is over, which may be long
//! after the call.
//!
//! How many elements a list has is said where it is looked at, for it may be the size of a communicator; and
//! where each element counts, `at` takes a place without a look at the number. What the standard says of the
//! argument is all that may be given there: it is what the program has promised.

mod buffers;
mod callbacks;
mod lists;
mod places;
mod statuses;
mod texts;

pub use self::buffers::{Buffer, Received, Sent};
pub use self::callbacks::{CFunction, Callback};
#[cfg(test)]
pub(crate) use self::lists::in_place;
pub use self::lists::{List, Places, Slots, Variables};
pub use self::places::{Place, Slot, Variable};
pub use self::statuses::{GivenStatus, StatusPlace, StatusPlaces, StatusVariable};
pub use self::texts::{Text, TextPlace};

use weft::{Class, Error};

/// A pointer that must not be null is.
#[cold]
pub(crate) fn null(argument: &str) -> Error {
    Error::new(Class::Argument, format!("{argument} is a null pointer"))
}
