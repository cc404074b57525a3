//! Inter-communicators: two groups, whose members send to each other by their ranks in the other group (MPI
//! 5.0 §7.6).
//!
//! Behind each stands a bridge: a communicator of both groups, first the one whose first member has the lower
//! peer number. What all members must agree on goes over it, by the same operations as in any other
//! communicator.

mod meeting;

use std::borrow::Cow;
use std::sync::Arc;

use collectives::{Across, Collective, Crossing, LivingAcross};
use fabric::{Payload, UserMemory};
use job::error::{Class, Error, Result};
use messaging::Rank;

use self::meeting::{Both, Line, Side, check_apart, check_leader, not_met};
use super::combining::Combining;
use super::mismatch_reports::{Purpose, ReportKind};
use super::strangers::{Strangers, Told, count_of, length_of};
use super::topologies::Arranged;
use super::{Communicator, Kept, Label, Parts};
use crate::contexts::{Lease, mix, mix_text};
use crate::group::{Comparison, Group};
use crate::process::Process;

/// What is special about an inter-communicator.
pub(super) struct Inter {
    pub local: Group,
    pub remote: Group,
    /// Both groups in one.
    pub bridge: Communicator,
}

/// A communicator of two groups. Its sends and receives name ranks of the other group.
///
/// It is a type of its own where the compiler can see the difference; the C interface keeps both kinds in
/// one.
#[derive(Clone, Debug)]
pub struct Intercommunicator {
    both: Communicator,
}

impl Intercommunicator {
    /// Connects the members of `local` with those of another communicator (MPI 5.0 §7.6.2). Each side has a
    /// leader, and the leaders have `peers` in common, where `remote_leader` is the other side's; others give
    /// `None`. Collective over both sides.
    ///
    /// # Errors
    /// [`Class::Rank`] for a leader that does not exist, [`Class::Communicator`] where the groups overlap,
    /// [`Class::Tag`]; when a member is lost.
    pub fn connect(
        local: &Communicator,
        local_leader: Rank,
        peers: Option<(&Communicator, Rank)>,
        tag: i32,
    ) -> Result<Intercommunicator> {
        local.connect(local_leader, peers, tag).map(|both| Intercommunicator { both })
    }

    /// This process's rank in the local group.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.both.rank()
    }

    /// The group that this process is in.
    #[must_use]
    pub fn local(&self) -> &Group {
        self.both.group()
    }

    /// The group that ranks of partners are ranks in.
    #[must_use]
    pub fn remote(&self) -> &Group {
        &self.both.inner.group
    }

    /// One communicator of both groups: the group whose members give `high` comes second (MPI 5.0 §7.6.2).
    /// Collective.
    ///
    /// # Errors
    /// [`Class::Argument`] where members of one group say different things; when a member is lost.
    pub fn merge(&self, high: bool) -> Result<Communicator> {
        self.both.merge(high)
    }

    /// A new inter-communicator of the same two groups, with the attributes whose keys say so (MPI 5.0
    /// §7.4.2). Collective.
    ///
    /// # Errors
    /// When a member is lost.
    pub fn duplicate(&self) -> Result<Intercommunicator> {
        self.both.duplicate().map(|both| Intercommunicator { both })
    }

    /// New inter-communicators of the members of both groups that give the same color, in the order of `key`
    /// and then of rank (MPI 5.0 §7.4.2). `None` as color: this process is in none of them. A color that only
    /// one group gives leads to none. Collective.
    ///
    /// # Errors
    /// When a member is lost.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Intercommunicator>> {
        Ok(self.both.split(color, key)?.map(|both| Intercommunicator { both }))
    }

    /// A new inter-communicator of a part of each group (MPI 5.0 §7.4.2). Every member calls. `group` is a
    /// part of the local group, the same at all members of that group; members that are not in it get none,
    /// as do all where the other group's part is empty. Collective.
    ///
    /// # Errors
    /// [`Class::Group`] where `group` names processes that are not members, and where the members of one
    /// group do not give the same part of it; at all members. [`Class::ProcFailed`] where nobody in the other
    /// group lives. When a member is lost.
    pub fn create(&self, group: &Group) -> Result<Option<Intercommunicator>> {
        Ok(self.both.create(group)?.map(|both| Intercommunicator { both }))
    }

    /// Sends and receives, which name ranks of the other group.
    #[must_use]
    pub fn messages(&self) -> &Communicator {
        &self.both
    }
}

impl Communicator {
    /// Whether this is an inter-communicator: a communicator of two groups.
    #[inline]
    #[must_use]
    pub fn is_inter(&self) -> bool {
        self.inner.inter.is_some()
    }

    /// How the groups compare (MPI 5.0 §7.4.1): where there are two, those on the same side. A communicator
    /// of one group and one of two are unequal.
    #[must_use]
    pub fn compare(&self, other: &Communicator) -> Comparison {
        let local = self.group().compare(other.group());
        match (self.remote_group(), other.remote_group()) {
            (None, None) => local,
            (Some(mine), Some(theirs)) => local.max(mine.compare(theirs)),
            _ => Comparison::Unequal,
        }
    }

    /// The other group of an inter-communicator.
    #[must_use]
    pub fn remote_group(&self) -> Option<&Group> {
        self.inner.inter.as_ref().map(|inter| &inter.remote)
    }

    /// Where all members meet: the bridge, or this communicator itself; of one with blank ranks those who
    /// live.
    #[inline]
    pub(super) fn meeting(&self) -> Cow<'_, Communicator> {
        match self.among_living() {
            Cow::Borrowed(living) => Cow::Borrowed(living.bridge()),
            Cow::Owned(living) => Cow::Owned(living.bridge().clone()),
        }
    }

    /// Where all members meet while all live.
    #[inline]
    fn bridge(&self) -> &Communicator {
        self.inner.inter.as_ref().map_or(self, |inter| &inter.bridge)
    }

    /// All members, of both groups where there are two.
    pub(super) fn everybody(&self) -> &Group {
        self.inner.inter.as_ref().map_or(self.group(), |inter| inter.bridge.group())
    }

    /// A communicator of so many groups as this one has, of those members.
    pub(super) fn of_members(
        &self,
        members: &Group,
        lease: Kept,
        identity: u64,
        label: Label,
        topology: Option<Arc<Arranged>>,
    ) -> Option<Communicator> {
        let process = self.process();
        let Some(inter) = &self.inner.inter else {
            let (process, group) = (Arc::clone(process), self.group() & members);
            return Communicator::assemble(Parts {
                process,
                group,
                inter: None,
                lease,
                identity,
                label,
                topology,
            });
        };
        let lease = match lease {
            Kept::Own(lease) => Arc::new(lease),
            Kept::Shared(lease) => lease,
        };
        let (local, remote) = (&inter.local & members, &inter.remote & members);
        Both { process, local: &local, remote: &remote }.assemble(lease, identity, label)
    }

    /// Connects the members of this communicator with those of another one (MPI 5.0 §7.6.2): the answer is an
    /// inter-communicator. Each side has a leader, and the leaders have `peers` in common, with the other
    /// side's leader as a rank there; other members give `None`. Collective over both sides.
    ///
    /// # Errors
    /// [`Class::Rank`] for a leader that does not exist or is blank, [`Class::Communicator`] where the groups
    /// overlap or this is an inter-communicator, [`Class::Tag`]; when a member is lost.
    pub fn connect(
        &self,
        local_leader: Rank,
        peers: Option<(&Communicator, Rank)>,
        tag: i32,
    ) -> Result<Communicator> {
        if self.is_inter() {
            return Err(self.not_for_inter("connect"));
        }
        self.check_leader(self.group(), local_leader)?;
        self.check_that_leads(local_leader)?;
        let seed = self.next_seed();
        let mut failed = None;
        let mut told = None;
        if self.rank() == local_leader {
            let met = self.check_tag(tag).and_then(|()| self.meet(peers, tag, seed));
            told = Some(met.map_err(|error| failed.insert(error).class));
        }
        let told = self.broadcast_told(told, local_leader)?;
        if let Some(error) = failed {
            return Err(error.during(self.place()));
        }
        let numbers = told.map_err(|class| not_met(class, local_leader).during(self.place()))?;
        let theirs = Side::read(&numbers, self.inner.process.peers());
        let theirs = theirs.ok_or_else(|| self.nonsense("the other leader told"))?;
        let both = Both { process: &self.inner.process, local: self.group(), remote: &theirs.group };
        let seed = mix(seed.wrapping_add(theirs.seed) ^ (tag as u64).rotate_left(32));
        let living = &self.live() | &theirs.living;
        let (lease, made) = both.connect(seed, &living, self.label_of_child("connected "))?;
        made.take_ft_modes(self.ft_modes());
        made.keep_blank(&living, lease, mix(seed))?;
        made.enter();
        Ok(made)
    }

    /// Tells the other leader about this side, and hears about the other.
    fn meet(&self, peers: Option<(&Communicator, Rank)>, tag: i32, seed: u64) -> Result<Vec<i64>> {
        let Some((peers, remote)) = peers else {
            return Err(Error::new(Class::Communicator, "the leader gives no communicator to meet in"));
        };
        let Some(peer) = peers.inner.group.peer(remote) else {
            let what = format!("{}: there is no rank {} to be the other leader", peers.place(), remote.0);
            return Err(Error::new(Class::Rank, what));
        };
        peers.check_that_leads(remote)?;
        let line = Line {
            process: &self.inner.process,
            peer,
            purpose: Purpose {
                kind: ReportKind::Meet,
                base: peers.inner.identity,
                group: 0,
                tag: tag as u64,
            },
        };
        line.exchange(&Side { seed, group: self.group().clone(), living: self.live() }.encode())
    }

    /// Brings what the root has found out to all, who need not know how many numbers it is.
    fn broadcast_told(&self, told: Option<Told>, root: Rank) -> Result<Told> {
        let mut length = [told.as_ref().map_or(0, length_of)];
        self.broadcast(&mut length, root)?;
        let count = match count_of(self.process(), length[0])? {
            Ok(count) => count,
            Err(class) => return Ok(Err(class)),
        };
        let mut numbers = told.and_then(std::result::Result::ok).unwrap_or_else(|| vec![0; count]);
        self.broadcast(&mut numbers, root)?;
        Ok(Ok(numbers))
    }

    fn check_leader(&self, group: &Group, leader: Rank) -> Result<()> {
        check_leader(group, leader).map_err(|error| error.during(self.place()))
    }

    /// Who is blank leads nobody.
    fn check_that_leads(&self, leader: Rank) -> Result<()> {
        if !self.is_blank(leader) {
            return Ok(());
        }
        let what =
            format!("{}: rank {} is to lead, and is blank: its process has failed", self.place(), leader.0);
        Err(Error::new(Class::Rank, what).remedy("MPIX_Comm_is_blank tells which ranks are"))
    }

    fn nonsense(&self, who: &str) -> Error {
        Error::new(Class::Internal, format!("{}: {who} no group", self.place()))
    }

    /// One communicator of both groups: the group whose members give `high` comes second (MPI 5.0 §7.6.2).
    /// Collective.
    ///
    /// # Errors
    /// [`Class::Communicator`] where there is but one group; [`Class::Argument`] where members of one group
    /// say different things; when a member is lost.
    pub fn merge(&self, high: bool) -> Result<Communicator> {
        let inter = self.across()?;
        // The votes for `high`, of the bridge's first group in the lower half.
        let first = self.is_first();
        let vote = if high { if first { 1 } else { 1 << 32 } } else { 0 };
        let bridge = self.meeting();
        let seed = bridge.next_seed();
        let (lease, sum) = bridge.vote(seed, vote)?;
        let (low, other) = if first { (&inter.local, &inter.remote) } else { (&inter.remote, &inter.local) };
        let said = |votes: u64, group: &Group| match votes {
            0 => Some(false),
            votes => (votes == u64::from((group & bridge.group()).size())).then_some(true),
        };
        let (Some(low_is_high), Some(other_is_high)) =
            (said(sum & u64::from(u32::MAX), low), said(sum >> 32, other))
        else {
            let what = format!("{}: members of one group do not agree on which group is high", self.place());
            return Err(Error::new(Class::Argument, what));
        };
        let group = if low_is_high && !other_is_high { other | low } else { low | other };
        let label = self.label_of_child("merged ");
        self.child(group, lease, seed, label).ok_or_else(|| self.lost_itself())
    }

    fn across(&self) -> Result<&Inter> {
        self.inner.inter.as_deref().ok_or_else(|| {
            Error::new(Class::Communicator, format!("{} is no inter-communicator", self.label()))
        })
    }

    /// The number of members of the group that comes first in the bridge; 0 where there is but one group.
    pub(super) fn first_part(&self) -> u32 {
        let living = self.among_living();
        let remote = living.remote_group().map(Group::size);
        remote.map_or(0, |remote| if self.is_first() { living.size() } else { remote })
    }

    /// Whether the local group comes first in the bridge; of those who live, where ranks are blank.
    fn is_first(&self) -> bool {
        self.meeting().group().peer(Rank(0)) == self.among_living().group().peer(Rank(0))
    }

    /// An inter-communicator of members of this one.
    pub(super) fn child_across(
        &self,
        local: Group,
        remote: Group,
        lease: Lease,
        seed: u64,
        label: Label,
    ) -> Option<Communicator> {
        let (lease, identity) = (Arc::new(lease), mix(seed));
        let both = Both { process: &self.inner.process, local: &local, remote: &remote };
        let child = both.assemble(Arc::clone(&lease), identity, label)?;
        self.hand_down(&child, self.has_blanks().then_some(lease), identity).ok()?;
        child.enter();
        Some(child)
    }

    /// [`Communicator::create`] over two groups: an inter-communicator of the part of each group that its
    /// members give.
    pub(super) fn create_across(&self, group: &Group) -> Result<Option<Communicator>> {
        self.across()?;
        self.check_that_others_live()?;
        let part = self.check_part(group);
        let bridge = self.meeting();
        let seed = bridge.next_seed();
        // The first of each group tells its side's part to all.
        let second = self.first_part();
        let mine = if part.is_ok() { group.encode() } else { Vec::new() };
        let mut told = Vec::new();
        for root in [Rank(0), Rank(second)] {
            let numbers = (bridge.rank() == root).then(|| Ok(mine.clone()));
            told.push(bridge.broadcast_told(numbers, root)?.unwrap_or_default());
        }
        if !self.is_first() {
            told.swap(0, 1);
        }
        let parts: Option<Vec<Group>> =
            told.iter().map(|numbers| Group::decode(numbers, self.inner.process.peers())).collect();
        let agrees = parts.as_ref().is_some_and(|parts| part.is_ok() && parts[0] == *group);
        let (lease, objections) = bridge.vote(seed, u64::from(!agrees))?;
        part?;
        let parts = parts.filter(|_| objections == 0);
        let Some([local, remote]) = parts.and_then(|parts| <[Group; 2]>::try_from(parts).ok()) else {
            let what = format!("{}: the members do not agree on the groups of MPI_Comm_create", self.place());
            return Err(Error::new(Class::Group, what)
                .remedy("all members of one side must give the same part of it, in the same order"));
        };
        if remote.is_empty() {
            return Ok(None);
        }
        Ok(self.child_across(local, remote, lease, seed, self.label_of_child("group of ")))
    }

    /// [`Communicator::split`] over two groups: an inter-communicator of the members of both that give the
    /// same color.
    pub(super) fn split_across(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator>> {
        self.across()?;
        let bridge = self.meeting();
        let choices = bridge.gather_choices(color, key)?;
        let seed = bridge.next_seed();
        let (lease, _) = bridge.vote(seed, 0)?;
        let Some(mine) = color else { return Ok(None) };
        let (first, second) = choices.split_at(self.first_part() as usize);
        let (here, there) = if self.is_first() { (first, second) } else { (second, first) };
        // Choices name ranks of the bridge.
        let [local, remote] = [here, there].map(|choices| bridge.group().chosen(choices, mine));
        if remote.is_empty() {
            return Ok(None);
        }
        Ok(self.child_across(local, remote, lease, seed, self.label_of_child("part of ")))
    }

    /// Both groups, as collective operations over them see them (MPI 5.0 §6.2.3).
    ///
    /// # Errors
    /// [`Class::Communicator`] where there is but one; [`Class::ProcFailed`] where nobody in the other one
    /// lives.
    pub fn two_groups(&self) -> Result<Across> {
        self.across()?;
        self.check_that_others_live()?;
        let living = self.among_living();
        let (local, remote) = (living.size(), living.partners());
        let (local_first, remote_first) = if self.is_first() { (0, local) } else { (remote, 0) };
        let who = self.recovered().map(|recovered| LivingAcross {
            local: self
                .group()
                .iter()
                .filter_map(|peer| living.group().rank(peer).and(self.group().rank(peer)))
                .collect(),
            remote: recovered.ranks.clone(),
        });
        let remote_size = self.partners();
        Ok(Across { shape: living.shape(), local_first, remote_first, remote_size, living: who })
    }

    fn check_that_others_live(&self) -> Result<()> {
        if self.among_living().partners() > 0 {
            return Ok(());
        }
        let what = format!("{}: all processes of the other group have failed", self.place());
        Err(Error::new(Class::ProcFailed, what).remedy("nothing can be done with nobody; free it"))
    }

    /// An operation that is described for one group.
    #[cold]
    pub(super) fn perform_across(&self, collective: Collective) -> Result<()> {
        if collective != Collective::Barrier {
            return Err(self.not_for_inter("an operation within one group"));
        }
        let schedule = Crossing::Barrier.schedule(&self.two_groups()?, &[], &[]);
        self.run(schedule, Payload::EMPTY, UserMemory::EMPTY, Combining::Nothing)
    }
}

impl Process {
    /// Connects two groups that have no communicator in common (MPI 5.0 §7.6.2). The leaders know both
    /// groups; others give `None` as the remote one. Both sides give the same tag. Collective over both
    /// groups.
    ///
    /// # Errors
    /// [`Class::Group`] where this process is not in `local`, [`Class::Rank`] for leaders that do not exist,
    /// [`Class::Communicator`] where the groups overlap or the leaders do not mean the same groups.
    pub fn connect(
        self: &Arc<Process>,
        local: &Group,
        local_leader: Rank,
        remote: Option<(&Group, Rank)>,
        tag: &str,
    ) -> Result<Communicator> {
        self.check_group(local)?;
        let Some(rank) = local.rank(self.here()) else {
            return Err(Error::new(Class::Group, "this process is not in its own group"));
        };
        check_leader(local, local_leader)?;
        let tag = mix_text(tag);
        let mut failed = None;
        let mut told = None;
        if rank == local_leader {
            let met = self.meet_stranger(local, remote, tag);
            told = Some(met.map_err(|error| failed.insert(error).class));
        }
        let purpose = Purpose { kind: ReportKind::Side, base: 0, group: local.fingerprint(), tag };
        let side = Strangers { process: self, group: local, rank, purpose };
        let told = side.broadcast(told.as_ref(), local_leader)?;
        if let Some(error) = failed {
            return Err(error);
        }
        let numbers = told.map_err(|class| not_met(class, local_leader))?;
        let remote = Group::decode(&numbers, self.peers())
            .ok_or_else(|| Error::new(Class::Internal, "the other leader told no group"))?;
        let number = mix(tag ^ local.fingerprint().wrapping_add(remote.fingerprint()));
        let both = Both { process: self, local, remote: &remote };
        let (seed, label) = (mix(number ^ self.made().of(number)), Label::own("connected groups"));
        let (_, made) = both.connect(seed, &both.bridged(), label)?;
        self.made().add(number);
        made.enter();
        Ok(made)
    }

    /// Makes sure that the other leader means the same groups; the answer is the other group, to be told.
    fn meet_stranger(&self, local: &Group, remote: Option<(&Group, Rank)>, tag: u64) -> Result<Vec<i64>> {
        let Some((remote, leader)) = remote else {
            return Err(Error::new(Class::Group, "the leader gives no group to connect with"));
        };
        self.check_group(remote)?;
        check_leader(remote, leader)?;
        check_apart(local, remote)?;
        let peer = remote.peer(leader).ok_or_else(|| Error::new(Class::Rank, "no leader"))?;
        let purpose = Purpose { kind: ReportKind::MeetStranger, base: 0, group: 0, tag };
        let line = Line { process: self, peer, purpose };
        let theirs = line.exchange(&local.encode())?;
        if Group::decode(&theirs, self.peers()).as_ref() != Some(remote) {
            return Err(Error::new(Class::Group, "the leaders do not mean the same groups"));
        }
        Ok(theirs)
    }
}
