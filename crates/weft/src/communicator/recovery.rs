//! Recovery: members that have failed are taken out of a communicator, or their places are kept blank
//! (decision 0013).
//!
//! A communicator that keeps the places of the dead has its blank ranks, and another communicator behind it:
//! that of the members who live. What all members do together, those do among themselves, with blocks at the
//! places of their ranks; and messages between two go by its context, or by the old one where what was sent
//! before is still to be received.

mod modes;

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use collectives::{Among, Buffers, Listed, Masked, Neighbourhood, Packed};
use fabric::{Heap, Payload, UserMemory, crash};
use job::config::{FtMode, MessageMode};
use job::error::{Class, Error, Result};
use messaging::{Rank, Standing};

use self::modes::Said;
pub use self::modes::{BlankPartner, CollectiveMode, FtModes, RecoverFlags};
use super::atomic::Call;
use super::combining::{Combining, OwnedCombining};
use super::generations::{Recovered, RecoveryCourse};
use super::ongoing::Ongoing;
use super::rebuild::World;
use super::repairs::{Calling, RepairNumbers, Verdict};
use super::succession::Succession;
use super::topologies::Arranged;
use super::{Called, Communicator, Kept, Label};
use crate::contexts::{Lease, mix};
use crate::group::Group;
use crate::memory::{giving, sending};

/// What a recovery has come to; the same at all who live.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The communicator to go on with.
    pub communicator: Communicator,
    /// How often it has lost something.
    pub generation: u32,
    /// By what mode.
    pub mode: FtMode,
    /// The members that were taken out, or became blank; where new processes have come into the places of the
    /// dead, those.
    pub failed: Group,
    /// How many of them are new.
    pub restarted: u32,
    /// How many collective operations the members had completed before ([`Communicator::completed`]): the
    /// least and the most of them. Where they did not ask each other, since the world has recovered with all
    /// that was made from it, nobody knows.
    pub completed: Option<RangeInclusive<u64>>,
}

/// What a communicator remembers of its last recovery.
#[derive(Clone)]
pub(super) struct Past {
    pub mode: FtMode,
    pub failed: Group,
    pub restarted: u32,
    pub completed: Option<RangeInclusive<u64>>,
}

/// What the last step of a recovery begins with.
pub(super) struct Found {
    pub lease: Lease,
    pub seed: u64,
    /// Whether messages may keep their context.
    pub keeps: bool,
    /// Whether those who live come into the place of all.
    pub in_place: bool,
    pub completed: Option<RangeInclusive<u64>>,
}

/// What a communicator needs to recover.
#[derive(Default)]
pub(super) struct Recoveries {
    modes: AtomicU32,
    pub(super) course: Mutex<RecoveryCourse>,
    /// What the world knows of itself, which alone can be rebuilt.
    pub(super) world: OnceLock<World>,
    pub(super) succession: Succession,
}

impl Communicator {
    /// How the communicator recovers.
    #[must_use]
    pub fn ft_modes(&self) -> FtModes {
        FtModes::decode(self.inner.recoveries.modes.load(Ordering::Relaxed))
    }

    /// Sets how the communicator recovers; all members set the same. Communicators that are made from it
    /// begin with that.
    pub fn set_ft_modes(&self, modes: FtModes) {
        let (living, messages) = (self.among_living().into_owned(), self.standing_of_messages());
        self.take_ft_modes(modes);
        messages.set_strict(modes.is_strict());
        self.process().act(|engine| {
            engine.look_at_strict(&messages);
            engine.look_at_strict(&living.inner.standing);
        });
    }

    /// What failures have made of the context that messages between two go by: where they go on over a
    /// recovery, not that of those who live.
    pub(super) fn standing_of_messages(&self) -> Arc<Standing> {
        let standing = self.process().failures().standing(self.context());
        standing.unwrap_or_else(|| Arc::clone(&self.inner.standing))
    }

    /// Sets how a communicator recovers that is just made, or being made, in which nothing is under way. All
    /// members set the same.
    pub fn take_ft_modes(&self, modes: FtModes) {
        self.inner.recoveries.modes.store(modes.encode(), Ordering::Relaxed);
        self.inner.standing.set_strict(modes.is_strict());
        let is_atomic = modes.collectives == CollectiveMode::Atomic;
        if !self.is_inter() && self.last_recovered().is_none() {
            self.process().failures().set_atomic(&self.inner.standing, is_atomic);
        }
        if is_atomic {
            // No short way asks for the others' opinion.
            self.inner.standing.close();
        }
        if let Some(recovered) = self.recovered() {
            recovered.living.take_ft_modes(modes);
        }
    }

    /// The members of one that is made from this one keep their blank places.
    pub(super) fn hand_down(&self, child: &Communicator, lease: Option<Arc<Lease>>, seed: u64) -> Result<()> {
        child.take_ft_modes(self.ft_modes());
        lease.map_or(Ok(()), |lease| child.keep_blank(&self.live(), lease, seed))
    }

    /// In one that is just made the places of those who do not live are blank.
    pub(super) fn keep_blank(&self, living: &Group, lease: Arc<Lease>, identity: u64) -> Result<()> {
        let failed = self.everybody() - living;
        if failed.is_empty() {
            return Ok(());
        }
        let past = Past { mode: FtMode::Blank, failed, restarted: 0, completed: None };
        self.keep_places(living, Kept::Shared(lease), identity, past).map(drop)
    }

    /// What it has become by the last recovery; none before there was one that has kept places.
    #[inline]
    pub(super) fn recovered(&self) -> Option<Arc<Recovered>> {
        // Who has blank ranks is closed.
        if self.inner.standing.is_closed() { self.last_recovered() } else { None }
    }

    /// Whether messages between two go by that context, or went by it before a recovery.
    #[must_use]
    pub fn has_gone_by(&self, context: u32) -> bool {
        self.contexts().contains(&context)
    }

    /// The communicator of those who live; this one where no rank is blank.
    #[must_use]
    pub fn among_living(&self) -> Cow<'_, Communicator> {
        let behind = |recovered: Arc<Recovered>| Cow::Owned(recovered.living.clone());
        self.recovered().map_or(Cow::Borrowed(self), behind)
    }

    /// The members whose places are not blank; of both groups, where there are two.
    #[must_use]
    pub fn live(&self) -> Group {
        self.meeting().group().clone()
    }

    /// The members whose places are blank; of both groups, where there are two.
    #[must_use]
    pub fn blank(&self) -> Group {
        self.everybody() - &self.live()
    }

    /// Whether any place is blank.
    #[inline]
    #[must_use]
    pub fn has_blanks(&self) -> bool {
        self.recovered().is_some()
    }

    /// Whether nobody is at that rank any more, since the communicator has recovered from its loss. Where
    /// there are two groups, ranks are those of the other one.
    #[inline]
    #[must_use]
    pub fn is_blank(&self, rank: Rank) -> bool {
        match self.recovered() {
            Some(recovered) => rank.0 < self.partners() && recovered.ranks.binary_search(&rank).is_err(),
            None => false,
        }
    }

    /// Whether a message to that rank, or from it, is over at once, since nobody is there any more.
    ///
    /// # Errors
    /// [`Class::Rank`] where nobody is, and that is an error ([`BlankPartner::Error`]).
    #[inline]
    pub fn is_with_nobody(&self, rank: Rank) -> Result<bool> {
        if self.is_blank(rank) { self.answer_for_blank(rank) } else { Ok(false) }
    }

    #[cold]
    fn answer_for_blank(&self, rank: Rank) -> Result<bool> {
        match self.ft_modes().blanks {
            BlankPartner::Nobody => Ok(true),
            BlankPartner::Error => {
                let what = format!("{}: rank {} is blank: its process has failed", self.place(), rank.0);
                Err(Error::new(Class::Rank, what).remedy("MPIX_Comm_is_blank tells which ranks are"))
            }
        }
    }

    /// Sees to it that a rank can be the root of an operation; of the other group, where there are two.
    ///
    /// # Errors
    /// [`Class::Root`] where there is no such rank, or its place is blank.
    #[inline]
    pub fn check_root(&self, root: Rank) -> Result<()> {
        if root.0 < self.partners() && !self.is_blank(root) { Ok(()) } else { Err(self.no_root(root)) }
    }

    #[cold]
    fn no_root(&self, root: Rank) -> Error {
        let (place, Rank(root), size) = (self.place(), root, self.partners());
        if root < size {
            let what = format!("{place}: the root is {root}, which is blank: its process has failed");
            return Error::new(Class::Root, what).remedy("MPIX_Comm_is_blank tells which ranks are");
        }
        Error::new(Class::Root, format!("{place}: the root is {root}, ranks are 0 to {}", size - 1))
    }

    /// How often the communicator has recovered from something, in place.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.recovered().map_or_else(|| self.born_in(), |recovered| recovered.generation)
    }

    /// Makes the communicator usable again when members have failed or it was revoked, by its mode. It
    /// succeeds whichever members fail meanwhile, and all living members get the same answer. Where nothing
    /// has happened, nothing does. Collective over the living members.
    ///
    /// # Errors
    /// [`Class::Argument`] where members have different modes, or the mode is that nothing is done; at all
    /// alike, and nothing has changed. [`Class::Communicator`] for any but the world where the mode is
    /// [`FtMode::Rebuild`].
    pub fn recover(&self) -> Result<Recovery> {
        self.recover_with(RecoverFlags::default())
    }

    /// Makes the communicator usable again, by its mode, as [`Communicator::recover`] does; where it shrinks,
    /// nobody needs the one before any more. The new communicator then has the name and attributes of the one
    /// before, and the topology where nobody is lost. [`Communicator::latest`] of the one before is the new
    /// one, and so is [`Session::world`](crate::Session::world) where it is the world's. Collective over the
    /// living members.
    ///
    /// # Errors
    /// [`Class::Argument`] where members have different modes, where the mode is that nothing is done, and
    /// where it would shrink and messages are to go on ([`MessageMode::Continue`]), since ranks change;
    /// [`Class::Communicator`] for any but the world where the mode is [`FtMode::Rebuild`]. At all alike, and
    /// nothing has changed.
    pub fn recover_in_place(&self) -> Result<Recovery> {
        self.recover_with(RecoverFlags { in_place: true, ..RecoverFlags::default() })
    }

    /// Makes the world usable again, by its mode, and all communicators that its processes have made: without
    /// another agreement in them, failed processes become blank there. With [`MessageMode::Reset`] all of
    /// them begin anew, whether they have lost members or not, and a process that waits in one of them when
    /// another one comes here to recover from something gets [`Class::Revoked`] and can come here, too. With
    /// [`MessageMode::Continue`] a communicator that has lost nobody stays as it is. Where the world shrinks,
    /// which it can in place only, all shrink alike. Collective over the living members.
    ///
    /// # Errors
    /// [`Class::Communicator`] for any but the world; [`Class::Argument`] where members have different modes,
    /// where the mode is that nothing is done, and where it is [`FtMode::Shrink`], which takes
    /// [`Communicator::recover_with`] in place. At all alike, and nothing has changed.
    pub fn recover_all(&self) -> Result<Recovery> {
        self.recover_with(RecoverFlags { all: true, ..RecoverFlags::default() })
    }

    /// Recovers by its mode and what is asked for beside it: see [`Communicator::recover`],
    /// [`Communicator::recover_in_place`] and [`Communicator::recover_all`].
    ///
    /// # Errors
    /// As these.
    pub fn recover_with(&self, flags: RecoverFlags) -> Result<Recovery> {
        let latest = self.latest();
        if !latest.is_same(self) {
            return latest.recover_with(flags);
        }
        // What is refused here is refused everywhere, and calls nobody away from what is under way.
        let calls = flags.all && self.refusal(true, self.ft_modes(), flags).is_none();
        let mut calling = calls.then(|| Calling::new(self));
        loop {
            if let Some(recovered) = self.try_to_recover(flags, calling.as_mut()) {
                return recovered;
            }
        }
    }

    /// One agreement, and what follows from it; none where no context number was free at all members.
    fn try_to_recover(
        &self,
        flags: RecoverFlags,
        mut calling: Option<&mut Calling>,
    ) -> Option<Result<Recovery>> {
        let (process, modes) = (self.process(), self.ft_modes());
        if let Some(calling) = &mut calling {
            process.act(|engine| calling.look(engine));
        }
        let current = self.among_living();
        let number = current.next_agreement();
        let seed = mix(current.inner.identity ^ mix(RECOVERED ^ u64::from(number)));
        let numbers = RepairNumbers::propose(process, seed, flags.all);
        let said = Said {
            free: numbers.free(),
            asked: modes.encode() | flags.encode(),
            keeps: !self.is_revoked_anywhere() && numbers.keep(),
        };
        let mut deciding = current.deciding(said.encode(), number, self.completed());
        let decision = process.until(|engine| {
            if let Some(calling) = &mut calling {
                calling.look(engine);
            }
            deciding.advance(engine)
        });
        let failed = current.members_of(&decision.failed);
        crash::point();
        process.learn(&failed);
        crash::point();
        // None where it was the end of a collective operation of others, who come here next.
        if let Err(error) = Call::Recover.heard(self, &decision)? {
            return Some(Err(error));
        }
        let agreed = Said::agreed(decision.flags);
        let refused = self.refusal(agreed.is_some(), modes, flags);
        let Some(all) = agreed.filter(|_| refused.is_none()) else { return refused.map(Err) };
        let has_happened = !failed.is_empty() || !all.keeps;
        let is_to_change = has_happened || modes.comm == FtMode::Shrink && !flags.in_place;
        // What else needs a number is not known to all.
        if all.free == 0 && (is_to_change || flags.all) {
            return None;
        }
        let number = numbers.take(if is_to_change { all.free } else { 0 });
        let completed = Some(decision.counts.least..=decision.counts.most);
        let past =
            Past { mode: modes.comm, failed: failed.clone(), restarted: 0, completed: completed.clone() };
        let found = number.map(|number| Found {
            lease: Lease::new(Arc::clone(process), number),
            seed,
            keeps: all.keeps,
            in_place: flags.in_place,
            completed,
        });
        let recovered = match (found, modes.comm) {
            (None, _) => Ok(self.recovery(past)),
            (Some(found), FtMode::Rebuild) => self.rebuild(&current, failed, modes, found),
            (Some(found), _) => self.go_on_without(&current, failed, modes, found),
        };
        Some(recovered.and_then(|recovery| {
            let living = &recovery.communicator.live();
            let verdict = Verdict { living, modes, has_happened, keeps: all.keeps, free: all.free };
            numbers.carry_out(&verdict)?;
            Ok(recovery)
        }))
    }

    /// What the last recovery has come to, by which this communicator is as it is; none where there was none.
    /// A process that was started again learns so who else was.
    #[must_use]
    pub fn last_recovery(&self) -> Option<Recovery> {
        let latest = self.latest();
        if !latest.is_same(self) {
            return latest.last_recovery();
        }
        let past = self.recovered().map(|recovered| recovered.past.clone()).or_else(|| self.born_by())?;
        Some(self.recovery(past))
    }

    pub(super) fn recovery(&self, past: Past) -> Recovery {
        let Past { mode, failed, restarted, completed } = past;
        let generation = self.generation();
        Recovery { communicator: self.clone(), generation, mode, failed, restarted, completed }
    }

    /// How many collective operations of it this process has completed since it was made, or has recovered;
    /// to make a communicator counts as all that it takes. It is the same number at all members where the
    /// same operations have succeeded.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.meeting().inner.completed.so_far()
    }

    /// The last step of a recovery, in which nobody has to ask anybody.
    pub(super) fn go_on_without(
        &self,
        current: &Communicator,
        failed: Group,
        modes: FtModes,
        found: Found,
    ) -> Result<Recovery> {
        let Found { lease, seed, keeps, in_place, completed } = found;
        let past = Past { mode: modes.comm, failed: failed.clone(), restarted: 0, completed };
        match modes.comm {
            FtMode::Shrink if in_place => self.shrink_in_place(current, lease, seed, past),
            FtMode::Shrink => {
                let label = self.label_of_child("survivors of ");
                let child = current.survivors(&failed, lease, seed, label);
                let child = child.ok_or_else(|| self.lost_itself())?;
                child.take_ft_modes(modes);
                let generation = self.generation() + u32::from(!failed.is_empty());
                Ok(Recovery { generation, ..child.recovery(past) })
            }
            FtMode::Abort => self.process().abort(1),
            _ => {
                let keeps = keeps && modes.messages == MessageMode::Continue;
                let living = current.everybody() - &failed;
                let before = self.keep_places(&living, Kept::Own(lease), seed, past.clone())?;
                crash::point();
                self.change_context(&before, keeps);
                Ok(self.recovery(past))
            }
        }
    }

    /// From now on only these live. The answer is what was there before.
    pub(super) fn keep_places(
        &self,
        living: &Group,
        lease: Kept,
        identity: u64,
        past: Past,
    ) -> Result<Arc<Standing>> {
        let lives = |rank: &Rank| self.inner.group.peer(*rank).is_some_and(|peer| living.contains(peer));
        let ranks: Vec<Rank> = (0..self.partners()).map(Rank).filter(lives).collect();
        let last = self.last_recovered();
        let topology = self.inner.topology.as_ref().map(|arranged| Arc::new(arranged.masked(&ranks)));
        let living = self.of_members(living, lease, identity, Label::own(&self.label()), topology);
        let living = living.ok_or_else(|| self.lost_itself())?;
        living.take_ft_modes(self.ft_modes());
        living.set_error_range(self.error_range());
        if !self.is_inter() {
            // What goes wrong among those is told in the numbers that the program knows.
            let _ = living.inner.names.set(ranks.clone().into());
        }
        let before = Arc::clone(&self.among_living().inner.standing);
        self.meeting().put_away();
        let generation = self.generation() + 1;
        self.become_recovered(last, Recovered { living, ranks, generation, past })?;
        self.inner.standing.close();
        Ok(before)
    }

    /// The context of its messages becomes that of those who live, or stays.
    fn change_context(&self, before: &Standing, stays: bool) {
        let messages = self.standing_of_messages();
        if !stays {
            self.inner
                .context
                .store(self.among_living().inner.context.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.process().act(|engine| {
            if !stays {
                engine.retire(&messages);
            }
            // Those who lived before are gone as such, unless messages went by their context.
            if before.context() != messages.context() {
                engine.retire(before);
            }
        });
        if stays {
            // Of others this process may have heard since; those hinder it until they are acknowledged.
            self.process().failures().settle(&messages, self.blank().iter().collect());
        }
    }

    pub(super) fn is_revoked_anywhere(&self) -> bool {
        let (living, messages) = (self.among_living(), self.standing_of_messages());
        let living = &living.inner.standing;
        self.process().act(|engine| engine.is_revoked(living) || engine.is_revoked(&messages))
    }

    /// Does what those who live do together.
    #[cold]
    pub(super) fn perform_masked(
        &self,
        recovered: &Recovered,
        masked: Masked,
        input: Payload<'static>,
        output: UserMemory,
        combining: Combining<'_>,
    ) -> Result<()> {
        let packed = masked.pack.map(|packed| together(&packed, input, &output));
        let input = packed.as_ref().map_or(input, sending);
        match masked.what {
            Among::Even(collective) => recovered.living.perform(collective, input, output, combining),
            Among::Uneven { what, sends, receives } => {
                let listed = Listed { what, sends: &sends, receives: &receives };
                recovered.living.perform_uneven(listed, input, output, combining)
            }
        }
    }

    /// Begins what those who live do together.
    #[cold]
    pub(super) fn start_masked(
        &self,
        recovered: &Recovered,
        masked: Masked,
        buffers: Buffers,
        combining: OwnedCombining,
        tag: Option<i32>,
        called: Option<Called>,
    ) -> Ongoing {
        let living = &recovered.living;
        let packed = masked.pack.map(|packed| together(&packed, buffers.input, &buffers.output));
        let input = packed.as_ref().map_or(buffers.input, sending);
        let schedule = match masked.what {
            Among::Even(collective) => collective.schedule(&living.shape()),
            Among::Uneven { what, sends, receives } => {
                Listed { what, sends: &sends, receives: &receives }.schedule(&living.shape())
            }
        };
        let buffers = Buffers { input, output: buffers.output };
        living.start_keeping(schedule, buffers, combining, tag, called, packed)
    }
}

impl Arranged {
    /// This topology and its neighbours among the living, by their new numbers: there is no neighbour where
    /// one was that is blank. `living` has the ranks of the living, in ascending order.
    fn masked(&self, living: &[Rank]) -> Arranged {
        let number = |rank: Rank| living.binary_search(&rank).ok().map(|at| Rank(at as u32));
        let all = |ranks: &[Option<Rank>]| ranks.iter().map(|rank| rank.and_then(number)).collect();
        let neighbourhood = self.neighbourhood.as_ref().map(|before| Neighbourhood {
            here: number(before.here).unwrap_or(before.here),
            sources: all(&before.sources),
            destinations: all(&before.destinations),
            is_paired: before.is_paired,
        });
        Arranged { topology: self.topology.clone(), neighbourhood }
    }
}

/// Parts of a contribution, one behind the other.
fn together(packed: &Packed, input: Payload<'static>, output: &UserMemory) -> Heap {
    let from = if packed.in_place { giving(output) } else { input };
    let room = Heap::new(packed.parts.iter().map(|part| part.bytes).sum());
    let (mut memory, mut at) = (room.memory(), 0);
    for part in &packed.parts {
        memory.write_at(at, from.part(part.offset, part.bytes));
        at += part.bytes;
    }
    room
}

/// Beside the modes: all that was made from the world recovers with it; and what shrinks does so in place.
const WITH_ALL: u32 = 1 << 6;
const IN_PLACE: u32 = 1 << 7;
/// Keeps the numbers of communicators that have recovered apart from those of others.
const RECOVERED: u64 = 0x0072_6563_6f76_6572;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, run_threads};

    #[test]
    fn modes_of_one_with_blank_places_are_those_of_its_living_members() {
        run_threads(3, &Config::default(), |session| {
            let copy = session.world().duplicate().unwrap();
            let lease = Arc::new(Lease::new(Arc::clone(copy.process()), crate::contexts::NOWHERE));
            let living = copy.group().iter().take(copy.rank().0 as usize + 1).collect();
            copy.keep_blank(&living, lease, 7).unwrap();
            let modes = FtModes { comm: FtMode::Blank, messages: MessageMode::Continue, ..FtModes::NONE };
            copy.take_ft_modes(modes);
            assert_eq!((copy.ft_modes(), copy.among_living().ft_modes()), (modes, modes));
        })
        .unwrap();
    }
}
