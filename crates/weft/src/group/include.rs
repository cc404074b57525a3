//! Parts of a group by rank (MPI 5.0 §7.3.2): include and exclude, by lists and by ranges.

use std::borrow::Borrow;

use job::error::{Class, Error, Result};
use messaging::Rank;

use super::members::{Builder, Members, Without};
use super::progression::{Progression, Runs, check_disjoint, check_distinct, in_order};
use super::{Group, RankRange};

impl Group {
    /// The members at those ranks, in that order.
    ///
    /// # Errors
    /// [`Class::Rank`] for a rank that is none, or named twice.
    pub fn include(&self, ranks: impl IntoIterator<Item = impl Borrow<Rank>>) -> Result<Group> {
        if self.size() <= u128::BITS {
            self.include_few(ranks)
        } else {
            Ok(self.at(self.listed(ranks)?.runs()))
        }
    }

    /// The members at those ranks, in that order, of a group whose members can be marked in one number. Fails
    /// as [`Group::include`] does.
    fn include_few(&self, ranks: impl IntoIterator<Item = impl Borrow<Rank>>) -> Result<Group> {
        let mut builder = Builder::default();
        let mut named = 0u128;
        for rank in ranks {
            let rank = *rank.borrow();
            let Some(peer) = self.peer(rank) else { return Err(self.no_rank(i64::from(rank.0))) };
            if named >> rank.0 & 1 == 1 {
                return Err(named_twice(rank.0));
            }
            named |= 1 << rank.0;
            builder.push_one(peer.0);
        }
        Ok(builder.finish())
    }

    /// All members but those at the ranks, in their order.
    ///
    /// # Errors
    /// [`Class::Rank`] for a rank that is none, or named twice.
    pub fn exclude(&self, ranks: &[Rank]) -> Result<Group> {
        let listed = self.listed(ranks)?;
        if listed.runs().len() <= FEW_PIECES {
            return Ok(self.without(listed.into_runs()));
        }
        let mut sorted: Vec<u32> = ranks.iter().map(|rank| rank.0).collect();
        sorted.sort_unstable();
        let mut gone = Builder::default();
        sorted.into_iter().for_each(|rank| gone.push_one(rank));
        Ok(self.without(gone.into_runs()))
    }

    /// The members at the ranks of all ranges, in that order. No range is enumerated.
    ///
    /// # Errors
    /// [`Class::Argument`] for a stride of 0 or one that leads away from the last rank; [`Class::Rank`] for a
    /// rank that is none, or named twice.
    pub fn include_ranges(&self, ranges: impl IntoIterator<Item = impl Borrow<RankRange>>) -> Result<Group> {
        Ok(self.at(&self.ranged(ranges)?))
    }

    /// All members but those at the ranks of the ranges, in their order. No range is enumerated.
    ///
    /// # Errors
    /// [`Class::Argument`] for a stride of 0 or one that leads away from the last rank; [`Class::Rank`] for a
    /// rank that is none, or named twice.
    pub fn exclude_ranges(&self, ranges: impl IntoIterator<Item = impl Borrow<RankRange>>) -> Result<Group> {
        Ok(self.without(self.ranged(ranges)?))
    }

    /// Ranks in the order given, as runs; checked.
    fn listed(&self, ranks: impl IntoIterator<Item = impl Borrow<Rank>>) -> Result<Builder> {
        let mut places = Builder::default();
        for rank in ranks {
            let Rank(rank) = *rank.borrow();
            if rank >= self.size() {
                return Err(self.no_rank(i64::from(rank)));
            }
            places.push_one(rank);
        }
        check_distinct(places.runs(), self.size()).map_err(named_twice)?;
        Ok(places)
    }

    /// Ranges as runs of ranks; checked.
    fn ranged(&self, ranges: impl IntoIterator<Item = impl Borrow<RankRange>>) -> Result<Runs> {
        let runs: Runs =
            ranges.into_iter().map(|range| self.run_of(range.borrow())).collect::<Result<_>>()?;
        check_disjoint(&runs, self.size()).map_err(named_twice)?;
        Ok(runs)
    }

    fn run_of(&self, range: &RankRange) -> Result<Progression> {
        let RankRange { first, last, stride } = *range;
        let length = last.checked_sub(first);
        let (Some(length), true) = (length, stride != 0) else { return Err(endless(range)) };
        if length != 0 && length.signum() != stride.signum() {
            return Err(endless(range));
        }
        let steps = length / stride;
        // Both ends are in the group, so what is between them is.
        for rank in [first, first + steps * stride] {
            if !(0..i64::from(self.size())).contains(&rank) {
                return Err(self.no_rank(rank));
            }
        }
        Ok(Progression::new(first as u32, steps as u32 + 1, stride))
    }

    #[cold]
    fn no_rank(&self, rank: i64) -> Error {
        Error::new(Class::Rank, format!("rank {rank} is not in a group of {}", self.size()))
    }

    /// The members at the ranks that stand as peers in the other group. They are known to be right.
    pub(crate) fn at_ranks(&self, ranks: &Group) -> Group {
        let ranks = ranks.plain();
        match ranks.members.runs() {
            Some(runs) => self.at(runs),
            None => Group::of(ranks.iter().filter_map(|rank| self.peer(Rank(rank.0)))),
        }
    }

    /// The members at those ranks, which are known to be right.
    pub(super) fn at(&self, ranks: &[Progression]) -> Group {
        let mut builder = Builder::default();
        ranks.iter().for_each(|ranks| self.add_part(*ranks, &mut builder));
        builder.finish()
    }

    fn add_part(&self, ranks: Progression, builder: &mut Builder) {
        match &self.members {
            Members::One(run) => {
                builder.push(Progression::new(run.at(ranks.first), ranks.count, run.stride * ranks.stride));
            }
            Members::Many(many) => {
                // From run to run, or from rank to rank where each is in another run.
                let mut left = Some(ranks);
                while let Some(ranks) = left {
                    let (run, at) = many.place(ranks.first);
                    let here = Progression::new(at, ranks.count, ranks.stride);
                    let inside = Progression::new(0, run.count, 1);
                    let count = here.places_in(&inside).map_or(1, |places| places.count);
                    let stride = run.stride * ranks.stride;
                    builder.push(Progression::new(run.at(at), count, stride));
                    left = ranks.rest(count);
                }
            }
            Members::List(list) => {
                ranks.numbers().for_each(|rank| builder.push_one(list.peers[rank as usize]));
            }
            Members::Without(without) => without.expanded().add_part(ranks, builder),
        }
    }

    /// All members but those at the ranks, which are known to be right and disjoint.
    pub(super) fn without(&self, gone: Runs) -> Group {
        let count: u32 = gone.iter().map(|gone| gone.count).sum();
        if count == 0 {
            return self.clone();
        }
        if count == self.size() {
            return Group::empty();
        }
        let most = FEW_PIECES + PIECES_PER_RANGE * gone.len();
        let pieces = in_order(gone.clone(), most).and_then(|gone| gaps(&gone, self.size(), most));
        match pieces {
            Some(pieces) => self.at(&pieces),
            None => {
                let gone = gone.iter().map(Progression::rising).collect();
                Without::group(self, gone)
            }
        }
    }
}

/// The numbers below `end` that are in none of the sequences, each of which ends before the next begins.
/// `None` where that takes more than `most` pieces.
fn gaps(sequences: &[Progression], end: u32, most: usize) -> Option<Runs> {
    let mut pieces = Runs::default();
    let mut next = 0;
    for sequence in sequences {
        if next < sequence.first {
            pieces.push(Progression::new(next, sequence.first - next, 1));
        }
        next = sequence.last() + 1;
        // Between neighbours at a distance lie one number less than it.
        let between = sequence.stride as u32;
        match between {
            0 | 1 => {}
            2 => pieces.push(Progression::new(sequence.first + 1, sequence.count - 1, 2)),
            _ if sequence.count as usize > most => return None,
            _ => (0..sequence.count - 1)
                .for_each(|at| pieces.push(Progression::new(sequence.at(at) + 1, between - 1, 1))),
        }
        if pieces.len() > most {
            return None;
        }
    }
    if next < end {
        pieces.push(Progression::new(next, end - next, 1));
    }
    Some(pieces)
}

#[cold]
fn named_twice(rank: u32) -> Error {
    Error::new(Class::Rank, format!("rank {rank} is named twice"))
}

#[cold]
fn endless(range: &RankRange) -> Error {
    let RankRange { first, last, stride } = range;
    Error::new(Class::Argument, format!("the range from {first} to {last} in steps of {stride} never ends"))
        .remedy("the stride is not 0, and leads from the first rank to the last")
}

/// What is left of a group is written out as runs where they are not many more than the ranges that are gone.
const PIECES_PER_RANGE: usize = 4;
const FEW_PIECES: usize = 64;
