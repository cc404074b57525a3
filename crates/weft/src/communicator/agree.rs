//! How the members of a new communicator agree on its context number and on one more thing (decision 0011).

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use collectives::{Collective, Operator, Reduction};
use fabric::{Heap, Payload, UserMemory};
use job::error::{Class, Error, Result};
use job::lock::lock;
use messaging::Rank;

use super::combining::{Combining, in_place};
use super::topologies::Arranged;
use super::{Communicator, Kept, Label, Parts};
use crate::contexts::{Lease, Proposal, Spread, mix};
use crate::group::Group;
use crate::memory::{reading, writing};
use crate::process::Process;

/// What a member says, and what all say together: the numbers that are free, which all must be, and a sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ballot {
    free: u8,
    pub sum: u64,
}

impl Ballot {
    pub(super) fn of(proposal: &Proposal, sum: u64) -> Ballot {
        Ballot { free: proposal.free, sum }
    }

    /// Takes the number that was agreed on; none where the attempt was in vain, at all members alike.
    pub(super) fn settle(&self, process: &Arc<Process>, proposal: &Proposal) -> Option<Lease> {
        let number = process.contexts().settle(proposal, self.free)?;
        Some(Lease::new(process.clone(), number))
    }

    /// The operation that combines ballots. Both words are one element, so that no schedule cuts between
    /// them.
    pub(super) const COMBINE: Collective = Collective::Allreduce(Reduction {
        count: 1,
        operator: Operator { element_bytes: BALLOT_BYTES, commutative: true },
        in_place: false,
    });

    /// Room with this ballot, and room for the outcome.
    pub(super) fn rooms(&self) -> (Heap, Heap) {
        let mine = Heap::new(BALLOT_BYTES);
        mine.memory().write_at(0, Payload::from(&self.encode()[..]));
        (mine, Heap::new(BALLOT_BYTES))
    }

    fn encode(&self) -> [u8; BALLOT_BYTES] {
        let mut bytes = [0; BALLOT_BYTES];
        bytes[..8].copy_from_slice(&u64::from(self.free).to_le_bytes());
        bytes[8..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    pub(super) fn read(room: Payload<'_>) -> Ballot {
        let mut words = [[0u8; 8]; 2];
        room.copy_to(words.as_flattened_mut());
        let [free, sum] = words.map(u64::from_le_bytes);
        Ballot { free: free as u8, sum }
    }

    fn with(self, other: Ballot) -> Ballot {
        Ballot { free: self.free & other.free, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// `inout = in op inout` on any number of ballots.
pub(super) fn combine(input: Payload<'_>, inout: &mut UserMemory) {
    for at in (0..inout.bytes()).step_by(BALLOT_BYTES) {
        let ballot = |of: Payload<'_>| Ballot::read(of.part(at, BALLOT_BYTES));
        let both = ballot(input).with(ballot(inout.payload()));
        inout.write_at(at, Payload::from(&both.encode()[..]));
    }
}

/// How often something was done, by what.
#[derive(Default)]
pub(crate) struct Counts {
    times: Mutex<Times>,
}

type Times = HashMap<u64, u64, BuildHasherDefault<Spread>>;

impl Counts {
    /// How often it was done before.
    pub(crate) fn of(&self, what: u64) -> u64 {
        self.hold().get(&what).copied().unwrap_or_default()
    }

    /// It was done once more. What was tried in vain does not count: not all who are needed have tried it.
    pub(crate) fn add(&self, what: u64) {
        *self.hold().entry(what).or_default() += 1;
    }

    fn hold(&self) -> MutexGuard<'_, Times> {
        lock(&self.times)
    }
}

impl Communicator {
    /// A number that is the same at all members, and another for each communicator that is made from this
    /// one.
    pub(super) fn next_seed(&self) -> u64 {
        let living = self.among_living();
        let inner = &*living.inner;
        mix(inner.identity ^ inner.children.fetch_add(1, Ordering::Relaxed).rotate_left(32))
    }

    /// Agrees with all members on a context number; the answer also has the sum of what all gave. The one
    /// reduction is all that it costs.
    pub(super) fn vote(&self, seed: u64, sum: u64) -> Result<(Lease, u64)> {
        agree_by(&self.inner.process, seed, sum, |ballot| self.reduce_ballot(ballot))
    }

    fn reduce_ballot(&self, ballot: Ballot) -> Result<Ballot> {
        if self.size() == 1 {
            return Ok(ballot);
        }
        let (mine, mut all) = (ballot.encode(), [0; BALLOT_BYTES]);
        self.perform(Ballot::COMBINE, reading(&mine), writing(&mut all), Combining::By(&in_place(combine)))?;
        Ok(Ballot::read(Payload::from(&all[..])))
    }

    /// A communicator of those members, made from this one.
    pub(super) fn child(&self, group: Group, lease: Lease, seed: u64, label: Label) -> Option<Communicator> {
        self.arranged_child(group, lease, seed, label, None)
    }

    /// A communicator of the members of `group`, made from this one, with that topology if there is one.
    /// `None` where this process gets none.
    pub(super) fn arranged_child(
        &self,
        group: Group,
        lease: Lease,
        seed: u64,
        label: Label,
        topology: Option<Arc<Arranged>>,
    ) -> Option<Communicator> {
        let (process, identity) = (self.inner.process.clone(), mix(seed));
        let (lease, shared) = match self.has_blanks() {
            false => (Kept::Own(lease), None),
            true => {
                let lease = Arc::new(lease);
                (Kept::Shared(Arc::clone(&lease)), Some(lease))
            }
        };
        let child =
            Communicator::assemble(Parts { process, group, inter: None, lease, identity, label, topology })?;
        self.hand_down(&child, shared, identity).ok()?;
        child.enter();
        Some(child)
    }

    /// What a member adds to the sum of [`Communicator::vote`] so that it is 0 if all give the same number;
    /// if one gives another it is so only by an accident of 1 in 2^64.
    pub(super) fn alike(&self, number: u64) -> u64 {
        let living = self.among_living();
        alike_in(number, living.rank(), living.size())
    }

    pub(super) fn lost_itself(&self) -> Error {
        Error::new(Class::Internal, format!("{}: this process is not among the members", self.place()))
    }
}

/// What a member of some `size` adds to a sum so that it is 0 if all give the same number: the first
/// subtracts what the others add.
pub(super) fn alike_in(number: u64, rank: Rank, size: u32) -> u64 {
    match rank.0 {
        0 => number.wrapping_mul(1u64.wrapping_sub(u64::from(size))),
        _ => number,
    }
}

/// Agrees by attempts; `reduce` combines the ballots of all who take part.
pub(super) fn agree_by(
    process: &Arc<Process>,
    seed: u64,
    sum: u64,
    mut reduce: impl FnMut(Ballot) -> Result<Ballot>,
) -> Result<(Lease, u64)> {
    for attempt in 0.. {
        let proposal = process.propose_context(attempt_of(seed, attempt));
        match reduce(Ballot::of(&proposal, sum)) {
            Ok(all) => {
                if let Some(lease) = all.settle(process, &proposal) {
                    return Ok((lease, all.sum));
                }
            }
            Err(error) => {
                process.contexts().settle(&proposal, 0);
                return Err(error);
            }
        }
    }
    Err(Error::new(Class::Internal, "no context number is free"))
}

/// Where the candidates of an attempt come from.
pub(super) fn attempt_of(seed: u64, attempt: u64) -> u64 {
    mix(seed ^ attempt)
}

const BALLOT_BYTES: usize = 16;
