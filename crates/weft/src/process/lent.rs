//! Receives that the engine alone knows of, by their names.

use std::cell::Cell;

use job::fabrics::Fabrics;
use messaging::{Engine, Lent, Probed, RequestId};

use super::{Process, WaitListEntry, WaitsFor};
use crate::communicator::Status;

impl Process {
    /// Whether that names a receive of [`Communicator::receive_later`](crate::Communicator::receive_later)
    /// that has not been ended.
    #[inline(always)]
    #[must_use]
    pub fn is_lent(&self, request: RequestId) -> bool {
        self.hold().is_lent(request)
    }

    /// Takes a receive of that kind back: its name is worth nothing to others from then on. Of several
    /// callers, one is told that it has it.
    #[must_use]
    pub fn reclaim(&self, request: RequestId) -> bool {
        self.hold().reclaim(request)
    }

    /// The context of a receive of that kind; `None` where it is none.
    #[must_use]
    pub fn lent_in(&self, request: RequestId) -> Option<u32> {
        self.hold().lent_in(request)
    }

    /// The receive of that kind at a place in the engine's table, if there is one.
    #[must_use]
    pub fn lent_at(&self, index: u32) -> Option<RequestId> {
        self.hold().lent_at(index)
    }

    /// How many places there are, from the first, at which such receives stand or nothing.
    #[inline(always)]
    pub fn count_lent(&self, mut name: impl FnMut(usize) -> WaitListEntry) -> usize {
        let engine = self.hold();
        let known = |place: &usize| match name(*place) {
            WaitListEntry::Stop => false,
            WaitListEntry::Nothing => true,
            WaitListEntry::Receive(request) => engine.is_lent(request),
        };
        (0..).take_while(known).count()
    }

    /// Ends such a receive if it is over, after a turn of progress where it is not yet.
    #[inline(always)]
    pub fn test_lent(&self, request: RequestId) -> Lent {
        let ended = self.look(|engine| match engine.end_lent(request) {
            Lent::Under => None,
            ended => Some(ended),
        });
        ended.unwrap_or(Lent::Under)
    }

    /// Waits for receives of a list, one after the other. `name` returns the list's entry at an index:
    /// [`WaitListEntry::Nothing`] where the program has no receive to wait for, [`WaitListEntry::Stop`] at
    /// the end. For each receive, either `received` is called with what was received (nothing where the
    /// receive had ended before), or `ended` is called: the receive is over in another way, and its request
    /// still exists.
    #[inline(always)]
    pub fn wait_lent(
        &self,
        name: impl Fn(usize) -> WaitListEntry,
        mut received: impl FnMut(usize, Option<Status>),
        mut ended: impl FnMut(usize),
    ) -> usize {
        let place = Cell::new(0);
        let waits_for = |engine: &mut Engine<Fabrics>| {
            let names = (place.get()..).map(&name).take_while(|name| *name != WaitListEntry::Stop);
            let receives = names.filter_map(|name| match name {
                WaitListEntry::Receive(request) => Some(request),
                _ => None,
            });
            WaitsFor::requests(engine, receives)
        };
        self.until_told(waits_for, |engine| {
            loop {
                let at = place.get();
                let status = match name(at) {
                    WaitListEntry::Stop => return Some(()),
                    WaitListEntry::Nothing => None,
                    WaitListEntry::Receive(request) => match engine.end_lent(request) {
                        Lent::Received(Probed { source, tag, bytes }) => {
                            Some(Status { source, tag, bytes, cancelled: false })
                        }
                        Lent::Under => return None,
                        Lent::Unknown => None,
                        Lent::Over => {
                            ended(at);
                            place.set(at + 1);
                            continue;
                        }
                    },
                };
                received(at, status);
                place.set(at + 1);
            }
        });
        place.get()
    }
}
