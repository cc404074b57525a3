//! Communicators that have shrunk in place (decision 0014): those who live have another one, with other
//! ranks, and whoever asks for the one before gets that.

use std::sync::{Arc, OnceLock};

use fabric::crash;
use job::error::Result;

use super::recovery::{Past, Recovery};
use super::{Communicator, Kept};
use crate::contexts::{Lease, mix};

/// In whose place a communicator is, and which one is in its own.
#[derive(Default)]
pub(super) struct Succession {
    birth: OnceLock<Box<Birth>>,
    /// Nothing for the world, which is found otherwise.
    successor: OnceLock<Communicator>,
}

/// By what it has come into the place of another one.
struct Birth {
    /// How often that had recovered then.
    generation: u32,
    past: Past,
}

impl Communicator {
    /// The communicator that a recovery has put into the place of this one; itself where none has. What is in
    /// the place of another one is what to go on with: nobody receives what is sent in the one before.
    #[must_use]
    pub fn latest(&self) -> Communicator {
        if let Some(world) = self.latest_world() {
            return world;
        }
        let mut latest = self;
        while let Some(next) = latest.inner.recoveries.succession.successor.get() {
            latest = next;
        }
        latest.clone()
    }

    /// Whether another one is in its place.
    pub(super) fn has_successor(&self) -> bool {
        self.inner.recoveries.succession.successor.get().is_some()
    }

    /// It is in the place of another one.
    pub(super) fn be_born(&self, generation: u32, past: Past) {
        // Who makes it says so, once.
        let _ = self.inner.recoveries.succession.birth.set(Box::new(Birth { generation, past }));
    }

    /// How often it had recovered when it was made.
    pub(super) fn born_in(&self) -> u32 {
        self.inner.recoveries.succession.birth.get().map_or(0, |birth| birth.generation)
    }

    /// By what recovery it was made.
    pub(super) fn born_by(&self) -> Option<Past> {
        self.inner.recoveries.succession.birth.get().map(|birth| birth.past.clone())
    }

    /// The last step of a recovery after which only those who live are there. `current` has those who have
    /// lived before it.
    pub(super) fn shrink_in_place(
        &self,
        current: &Communicator,
        lease: Lease,
        seed: u64,
        past: Past,
    ) -> Result<Recovery> {
        let process = self.process();
        let living = current.everybody() - &past.failed;
        // Of a grid that has lost a cell there is none left.
        let topology = self.inner.topology.clone().filter(|_| living.size() == self.size());
        let lease = Kept::Shared(Arc::new(lease));
        let new = self.of_members(&living, lease, mix(seed), self.inner.label.clone(), topology);
        let new = new.ok_or_else(|| self.lost_itself())?;
        new.rename(&self.name());
        new.attributes().take_over(self.attributes());
        new.be_born(self.generation() + 1, past.clone());
        new.set_ft_modes(self.ft_modes());
        new.set_error_range(self.error_range());
        crash::point();
        let messages = self.standing_of_messages();
        process.act(|engine| {
            engine.retire(&messages);
            for standing in [&self.inner.standing, &current.inner.standing] {
                if standing.context() != messages.context() {
                    engine.retire(standing);
                }
            }
        });
        for before in [self, current] {
            before.inner.standing.close();
            // Other threads may be within it.
            before.meeting().put_away();
        }
        if self.is_world() {
            new.shrink_world(self)?;
        } else {
            let _ = self.inner.recoveries.succession.successor.set(new.clone());
            new.enter();
        }
        Ok(new.recovery(past))
    }
}
