//! The world as it is once new processes have come into the places of the dead (decision 0014).
//!
//! A new process has a number of its own, so that nothing that was meant for the dead one can reach it, nor
//! the other way round. The world is made anew, with the new ones in their ranks: another communicator, which
//! comes into the place of the one before wherever that is asked for. All who live have agreed on what it is
//! made of, and the new ones are told.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use fabric::{Peer, crash};
use job::config::{MessageMode, Rebuilt};
use job::error::{Class, Error, Result};
use job::lock::lock;
use messaging::{Rank, Standing};

use super::recovery::{Found, FtModes, Past, Recovery};
use super::{Communicator, Kept, Label, Parts};
use crate::contexts::{self, Lease, mix};
use crate::group::Group;
use crate::process::Process;

/// What a world knows of itself.
pub(super) struct World {
    /// Some have been taken out, so that ranks are not those that the launcher knows.
    has_shrunk: bool,
    /// The one that has come into its place, the same for all that have.
    latest: Arc<Mutex<Latest>>,
    /// Where messages go by the context of the one before: what keeps that, and what failures have made of
    /// it.
    messages: OnceLock<(Arc<Lease>, Arc<Standing>)>,
}

/// The world as it is, once it is another one than in the beginning.
#[derive(Default)]
struct Latest {
    world: Option<Communicator>,
    /// The one before stays until the next recovery: what others have sent in it is still to be dropped when
    /// it comes.
    before: Option<Communicator>,
}

impl Latest {
    /// The answer is what nobody needs any more; it has locks to take when it goes.
    fn succeed(&mut self, before: &Communicator, world: &Communicator) -> Option<Communicator> {
        self.world = Some(world.clone());
        self.before.replace(before.clone())
    }
}

/// What all members of a new world know, the new ones too.
struct Facts {
    /// What the others have asked for new processes by.
    asked: u64,
    /// Its context number.
    context: u32,
    /// The number of the context that messages go by, and what it is told of by, where that is the one
    /// before.
    messages: Option<(u32, u64)>,
    generation: u32,
    modes: FtModes,
    /// How many collective operations the survivors had completed.
    completed: Option<RangeInclusive<u64>>,
}

impl Facts {
    /// What the world remembers of it.
    fn past(&self, new: &[(u32, Peer)]) -> Past {
        let (mode, completed) = (self.modes.comm, self.completed.clone());
        let failed = Group::of(new.iter().map(|(_, peer)| *peer));
        Past { mode, failed, restarted: new.len() as u32, completed }
    }

    /// One word.
    fn encode(&self) -> String {
        let Facts { context, generation, .. } = self;
        let (messages, identity) = self.messages.unwrap_or((contexts::NOWHERE, 0));
        let (least, most) = self.completed.clone().unwrap_or(0..=0).into_inner();
        format!("{context}.{generation}.{}.{messages}.{identity}.{least}.{most}", self.modes.encode())
    }

    fn read(asked: u64, text: &str) -> Option<Facts> {
        let numbers: Vec<u64> = text.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let [context, generation, modes, messages, identity, least, most] = numbers[..] else { return None };
        let context_number =
            |number: u64| u32::try_from(number).ok().filter(|number| *number <= contexts::NOWHERE);
        let messages = context_number(messages)?;
        Some(Facts {
            asked,
            context: context_number(context)?,
            messages: (messages != contexts::NOWHERE).then_some((messages, identity)),
            generation: u32::try_from(generation).ok()?,
            modes: FtModes::decode(u32::try_from(modes).ok()?),
            completed: Some(least..=most),
        })
    }
}

impl Communicator {
    /// All processes of a job that begins.
    pub(crate) fn world(process: Arc<Process>, size: u32) -> Option<Communicator> {
        let world = Communicator::new(process, Group::world(size), contexts::WORLD, WORLD)?;
        world.begin_world(false, Arc::default());
        Some(world)
    }

    /// The world that this process has come into, in the place of another; none where it is not among its
    /// members.
    pub(crate) fn rejoin(
        process: &Arc<Process>,
        size: u32,
        rebuilt: &Rebuilt,
    ) -> Result<Option<Communicator>> {
        let facts = Facts::read(rebuilt.asked, &rebuilt.facts).ok_or_else(|| {
            Error::new(
                Class::Other,
                format!("what weftrun tells of the job makes no sense: {}", rebuilt.facts),
            )
        })?;
        let Some(new) = process.rejoin(rebuilt.asked)? else {
            let what = "the others go on without this process, which was started in the place of another";
            return Err(Error::new(Class::Other, what).remedy("weftrun says why"));
        };
        let moved = rebuilt.moved.iter().map(|&(rank, number)| (rank, Peer(number)));
        let group = replaced(&Group::world(size), moved.chain(new.iter().copied()));
        process.contexts().take(facts.context);
        let lease = Lease::new(Arc::clone(process), facts.context);
        let world = Communicator::renewed(process, group.clone(), lease, (&facts, &new), Arc::default());
        if let (Some(world), Some((context, identity))) = (&world, facts.messages) {
            process.contexts().take(context);
            let lease = Lease::new(Arc::clone(process), context);
            let standing = process.failures().watch(context * 2, identity, world.rank(), Arc::new(group));
            world.keep_messages(Arc::new(lease), standing);
        }
        Ok(world)
    }

    fn begin_world(&self, has_shrunk: bool, latest: Arc<Mutex<Latest>>) {
        let world = World { has_shrunk, latest, messages: OnceLock::new() };
        // It is set once, by who makes the communicator.
        let _ = self.inner.recoveries.world.set(world);
    }

    /// Whether that is the world, before or after it was rebuilt.
    pub(super) fn is_world(&self) -> bool {
        self.inner.recoveries.world.get().is_some()
    }

    /// The world as it is now; none where it is as it was, or this is not the world's.
    pub(super) fn latest_world(&self) -> Option<Communicator> {
        lock(&self.inner.recoveries.world.get()?.latest).world.clone()
    }

    /// This one, which has taken some out, comes into the place of the world before.
    pub(super) fn shrink_world(&self, before: &Communicator) -> Result<()> {
        let latest = Arc::clone(&before.world_of_itself()?.latest);
        self.begin_world(true, Arc::clone(&latest));
        let gone = lock(&latest).succeed(before, self);
        drop(gone);
        Ok(())
    }

    /// The job is over: the latest world, which knows itself, is let go.
    pub(crate) fn forget_latest(&self) {
        let world = self.inner.recoveries.world.get();
        drop(world.map(|world| std::mem::take(&mut *lock(&world.latest))));
    }

    /// The last step of a recovery that has new processes started. Who asks the launcher gets what all get.
    pub(super) fn rebuild(
        &self,
        current: &Communicator,
        failed: Group,
        modes: FtModes,
        found: Found,
    ) -> Result<Recovery> {
        let keeps_messages = found.keeps && modes.messages == MessageMode::Continue;
        let standing = self.standing_of_messages();
        let seed = found.seed;
        let facts = Facts {
            asked: seed,
            context: found.lease.number(),
            messages: keeps_messages.then(|| (standing.context() / 2, standing.identity())),
            generation: self.generation() + 1,
            modes,
            completed: found.completed.clone(),
        };
        // Where there are blank ranks, there were no processes for them, and so there are none; who was taken
        // out has no rank.
        let new = if self.has_blanks() || self.world_of_itself()?.has_shrunk {
            None
        } else if failed.is_empty() {
            Some(Vec::new())
        } else {
            let ranks = failed.iter().filter_map(|peer| self.group().rank(peer)).map(|Rank(rank)| rank);
            self.process().rebuild(seed, &ranks.collect::<Vec<_>>(), &facts.encode())
        };
        crash::point();
        let Some(new) = new else {
            let mode = self.process().rebuild_fallback();
            let blank = FtModes { comm: mode, ..modes };
            return self.go_on_without(current, failed, blank, found);
        };
        self.renew(&failed, &new, found.lease, &facts)
    }

    /// The world with new processes in their ranks comes into the place of this one.
    fn renew(&self, failed: &Group, new: &[(u32, Peer)], lease: Lease, facts: &Facts) -> Result<Recovery> {
        let (process, latest) = (self.process(), Arc::clone(&self.world_of_itself()?.latest));
        let group = replaced(self.group(), new.iter().copied());
        let world = Communicator::renewed(process, group.clone(), lease, (facts, new), Arc::clone(&latest));
        let world = world.ok_or_else(|| self.lost_itself())?;
        world.rename(&self.name());
        world.attributes().take_over(self.attributes());
        world.set_error_range(self.error_range());
        crash::point();
        let (messages, own) = (self.standing_of_messages(), &self.inner.standing);
        let stays = facts.messages.is_some();
        process.act(|engine| {
            if !stays {
                engine.retire(&messages);
            }
            if own.context() != messages.context() {
                engine.retire(own);
            }
        });
        if stays {
            let gone = failed.iter().collect();
            let settled = process.failures().settle_among(&messages, gone, Arc::new(group));
            world.keep_messages(self.lease_of_messages()?, settled);
            world.keep_notices(self);
        }
        own.close();
        // Other threads may be within this one.
        self.put_away();
        let gone = lock(&latest).succeed(self, &world);
        drop(gone);
        Ok(world.recovery(facts.past(new)))
    }

    /// A world that was rebuilt, as each of its members makes it. `None` where this process is not one.
    fn renewed(
        process: &Arc<Process>,
        group: Group,
        lease: Lease,
        (facts, new): (&Facts, &[(u32, Peer)]),
        latest: Arc<Mutex<Latest>>,
    ) -> Option<Communicator> {
        let world = Communicator::assemble(Parts {
            process: Arc::clone(process),
            group,
            inter: None,
            lease: Kept::Shared(Arc::new(lease)),
            identity: mix(facts.asked),
            label: Label::own(WORLD),
            topology: None,
        })?;
        world.begin_world(false, latest);
        world.be_born(facts.generation, facts.past(new));
        world.set_ft_modes(facts.modes);
        Some(world)
    }

    /// Messages between two go by the context that they went by before.
    fn keep_messages(&self, lease: Arc<Lease>, standing: Arc<Standing>) {
        self.inner.context.store(lease.number(), Ordering::Relaxed);
        if let Some(world) = self.inner.recoveries.world.get() {
            let _ = world.messages.set((lease, standing));
        }
    }

    fn lease_of_messages(&self) -> Result<Arc<Lease>> {
        match (self.world_of_itself()?.messages.get(), &self.inner.lease) {
            (Some((lease, _)), _) | (None, Kept::Shared(lease)) => Ok(Arc::clone(lease)),
            (None, Kept::Own(_)) => Err(self.lost_itself()),
        }
    }

    fn world_of_itself(&self) -> Result<&World> {
        self.inner.recoveries.world.get().ok_or_else(|| self.lost_itself())
    }
}

/// The group with other processes in some ranks.
fn replaced(group: &Group, new: impl IntoIterator<Item = (u32, Peer)>) -> Group {
    let new: HashMap<u32, Peer> = new.into_iter().collect();
    Group::of((0..).zip(group.peers()).map(|(rank, peer)| new.get(&rank).copied().unwrap_or(peer)))
}

const WORLD: &str = "MPI_COMM_WORLD";

#[cfg(test)]
mod tests {
    use job::config::FtMode;

    use super::super::BlankPartner;
    use super::*;

    #[test]
    fn facts_come_out_as_they_went_in() {
        let modes = FtModes {
            comm: FtMode::Rebuild,
            messages: MessageMode::Continue,
            blanks: BlankPartner::Error,
            ..FtModes::NONE
        };
        for messages in [None, Some((7, u64::MAX))] {
            let completed = Some(4..=6);
            let facts = Facts { asked: 5, context: 3, messages, generation: 9, modes, completed };
            let read = Facts::read(5, &facts.encode()).unwrap();
            assert_eq!((read.context, read.messages, read.generation, read.modes), (3, messages, 9, modes));
            assert_eq!(read.completed, facts.completed);
        }
        for text in ["", "1.2.3.4.5.6", "1.2.3.4.5.6.7.8", "1.2.x.4.5.6.7", "4294967296.1.1.1.1.1.1"] {
            assert!(Facts::read(5, text).is_none(), "{text}");
        }
    }

    #[test]
    fn new_processes_are_in_the_ranks_of_the_dead() {
        let group = replaced(&Group::world(4), [(2, Peer(5)), (0, Peer(4))]);
        assert_eq!(group.peers().map(|peer| peer.0).collect::<Vec<_>>(), [4, 1, 5, 3]);
    }
}
