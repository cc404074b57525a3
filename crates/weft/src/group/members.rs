//! How the members of a group are stored, and how a rank leads to a peer and back.

use std::fmt;
use std::sync::{Arc, OnceLock};

use fabric::Peer;

use super::Group;
use super::progression::{Progression, Runs, append};

/// The members, in the shortest form of several.
#[derive(Clone)]
pub(super) enum Members {
    /// All in one run, or none.
    One(Progression),
    /// Several runs.
    Many(Arc<Many>),
    /// Rank by rank.
    List(Arc<List>),
    /// Those of a group that are not at some ranks.
    Without(Arc<Without>),
}

/// Several runs, in rank order.
pub(super) struct Many {
    pub runs: Box<[Progression]>,
    /// The rank of the first member of each.
    pub ranks: Box<[u32]>,
    size: u32,
    back: OnceLock<Back>,
}

pub(super) struct List {
    pub peers: Box<[u32]>,
    back: OnceLock<Back>,
}

/// What range_excl leaves where it would leave many runs.
pub(super) struct Without {
    /// Never of this kind itself.
    pub base: Group,
    /// Ranks in `base`: rising, and disjoint.
    pub gone: Box<[Progression]>,
    size: u32,
    expanded: OnceLock<Group>,
}

/// The way from peers to ranks, made when it is first asked for.
enum Back {
    /// By peer, from a first one on; [`NOBODY`] for those that are no members.
    Dense { first: u32, ranks: Box<[u32]> },
    /// Pairs of peer and rank, by peer.
    Sorted(Box<[(u32, u32)]>),
    /// Runs by step, remainder and lowest peer. Those of one step and remainder do not overlap.
    Steps { steps: Box<[u32]>, runs: Box<[(u32, u32, u32, u32)]> },
}

impl Members {
    pub(super) fn world(size: u32) -> Members {
        Members::One(Progression { first: 0, count: size, stride: i64::from(size > 1) })
    }

    #[inline]
    pub(super) fn size(&self) -> u32 {
        match self {
            Members::One(run) => run.count,
            Members::Many(many) => many.size,
            Members::List(list) => list.peers.len() as u32,
            Members::Without(without) => without.size,
        }
    }

    #[inline(always)]
    pub(super) fn peer(&self, rank: u32) -> Option<u32> {
        match self {
            Members::One(run) => (rank < run.count).then(|| run.at(rank)),
            _ => self.peer_of_many(rank),
        }
    }

    fn peer_of_many(&self, rank: u32) -> Option<u32> {
        match self {
            Members::One(_) => None,
            Members::Many(many) if rank < many.size => {
                let (run, at) = many.place(rank);
                Some(run.at(at))
            }
            Members::Many(_) => None,
            Members::List(list) => list.peers.get(rank as usize).copied(),
            Members::Without(without) => without.peer(rank),
        }
    }

    pub(super) fn rank(&self, peer: u32) -> Option<u32> {
        match self {
            Members::One(run) => run.place(peer),
            Members::Many(many) => many.rank(peer),
            Members::List(list) => list.rank(peer),
            Members::Without(without) => without.rank(peer),
        }
    }

    /// The runs with the rank of each one's first member; `None` where members are kept otherwise.
    pub(super) fn runs(&self) -> Option<&[Progression]> {
        match self {
            Members::One(Progression { count: 0, .. }) => Some(&[]),
            Members::One(run) => Some(std::slice::from_ref(run)),
            Members::Many(many) => Some(&many.runs),
            Members::List(_) | Members::Without(_) => None,
        }
    }

    pub(super) fn iter(&self) -> Peers<'_> {
        match self {
            Members::List(list) => Peers { left: Left::List(list.peers.iter()) },
            Members::Without(without) => without.expanded().iter(),
            _ => {
                let nothing = Progression { first: 0, count: 0, stride: 0 };
                let runs = self.runs().unwrap_or_default();
                Peers { left: Left::Runs { run: nothing, at: 0, behind: runs, size: self.size() } }
            }
        }
    }

    pub(super) fn fingerprint(&self) -> u64 {
        let mix = |sum: u64, number: u64| crate::contexts::mix(sum ^ number);
        match self {
            Members::Without(without) => without.expanded().fingerprint(),
            Members::List(list) => list.peers.iter().fold(1, |sum, &peer| mix(sum, u64::from(peer))),
            _ => self.runs().unwrap_or_default().iter().fold(2, |sum, run| {
                mix(mix(mix(sum, u64::from(run.first)), u64::from(run.count)), run.stride as u64)
            }),
        }
    }

    /// A kind, then the runs or the peers.
    pub(super) fn encode(&self) -> Vec<i64> {
        match self {
            Members::Without(without) => without.expanded().encode(),
            Members::List(list) => {
                [LIST].into_iter().chain(list.peers.iter().map(|&peer| i64::from(peer))).collect()
            }
            _ => {
                let runs = self.runs().unwrap_or_default().iter();
                let numbers = runs.flat_map(|run| [i64::from(run.first), i64::from(run.count), run.stride]);
                [RUNS].into_iter().chain(numbers).collect()
            }
        }
    }

    pub(super) fn decode(numbers: &[i64], end: u32) -> Option<Group> {
        let (&kind, numbers) = numbers.split_first()?;
        let peer = |number: i64| u32::try_from(number).ok().filter(|&peer| peer < end);
        let mut builder = Builder::default();
        match kind {
            LIST => numbers.iter().try_for_each(|&number| peer(number).map(|peer| builder.push_one(peer)))?,
            RUNS => {
                let (runs, []) = numbers.as_chunks::<3>() else { return None };
                for &[first, count, stride] in runs {
                    peer(first)?;
                    peer(stride.checked_mul(count.checked_sub(1)?)?.checked_add(first)?)?;
                    let count = u32::try_from(count).ok().filter(|&count| count > 0)?;
                    if count > 1 && stride == 0 {
                        return None;
                    }
                    builder.push(Progression::new(first as u32, count, stride));
                }
            }
            _ => return None,
        }
        super::progression::check_distinct(builder.runs(), end).ok()?;
        Some(builder.finish())
    }
}

impl List {
    fn rank(&self, peer: u32) -> Option<u32> {
        if self.peers.len() <= FEW_PEERS {
            return self.peers.iter().position(|&other| other == peer).map(|rank| rank as u32);
        }
        self.back.get_or_init(|| Back::of_peers(&self.peers)).rank(peer, &[], &[])
    }
}

impl Many {
    /// The run of a rank, and the place in it.
    #[inline]
    pub(super) fn place(&self, rank: u32) -> (&Progression, u32) {
        let at = self.ranks.partition_point(|&first| first <= rank) - 1;
        (&self.runs[at], rank - self.ranks[at])
    }

    fn rank(&self, peer: u32) -> Option<u32> {
        if self.runs.len() <= FEW_RUNS {
            return rank_in(&self.runs, &self.ranks, peer);
        }
        self.back.get_or_init(|| Back::of_runs(&self.runs, self.size)).rank(peer, &self.runs, &self.ranks)
    }
}

fn rank_in(runs: &[Progression], ranks: &[u32], peer: u32) -> Option<u32> {
    runs.iter().zip(ranks).find_map(|(run, rank)| Some(rank + run.place(peer)?))
}

impl Without {
    pub(super) fn group(base: &Group, gone: Box<[Progression]>) -> Group {
        let base = base.settled();
        let size = base.size() - gone.iter().map(|gone| gone.count).sum::<u32>();
        let without = Without { base, gone, size, expanded: OnceLock::new() };
        Group { members: Members::Without(Arc::new(without)) }
    }

    /// Ranks of the base below that one which are gone.
    fn gone_below(&self, rank: u32) -> u32 {
        self.gone.iter().map(|gone| gone.below(rank)).sum()
    }

    fn peer(&self, rank: u32) -> Option<u32> {
        if rank >= self.size {
            return None;
        }
        // The lowest rank of the base that has so many remaining ranks up to itself.
        let (mut low, mut high) = (rank, self.base.size() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if middle + 1 - self.gone_below(middle + 1) > rank { high = middle } else { low = middle + 1 }
        }
        self.base.members.peer(low)
    }

    fn rank(&self, peer: u32) -> Option<u32> {
        let rank = self.base.members.rank(peer)?;
        let gone = self.gone.iter().any(|gone| gone.place(rank).is_some());
        (!gone).then(|| rank - self.gone_below(rank))
    }

    /// This group as runs or a list, which the first call makes.
    pub(super) fn expanded(&self) -> &Group {
        self.expanded.get_or_init(|| {
            let mut stays = vec![true; self.base.size() as usize];
            self.gone.iter().flat_map(|gone| gone.numbers()).for_each(|rank| stays[rank as usize] = false);
            let left = self.base.iter().zip(stays).filter(|(_, stays)| *stays);
            Group::of(left.map(|(peer, _)| peer))
        })
    }
}

impl Back {
    fn of_peers(peers: &[u32]) -> Back {
        let (Some(&first), Some(&last)) = (peers.iter().min(), peers.iter().max()) else {
            return Back::Sorted(Box::default());
        };
        let pairs = || (0..).zip(peers);
        if (last - first) as usize <= DENSE_PEERS_PER_MEMBER * peers.len() {
            let mut ranks = vec![NOBODY; (last - first) as usize + 1];
            pairs().for_each(|(rank, &peer)| ranks[(peer - first) as usize] = rank);
            return Back::Dense { first, ranks: ranks.into() };
        }
        let mut sorted: Vec<(u32, u32)> = pairs().map(|(rank, &peer)| (peer, rank)).collect();
        sorted.sort_unstable();
        Back::Sorted(sorted.into())
    }

    fn of_runs(runs: &[Progression], size: u32) -> Back {
        let mut steps: Vec<u32> = runs.iter().map(step_of).collect();
        steps.sort_unstable();
        steps.dedup();
        if steps.len() > STEPS_MAX {
            let peers: Vec<u32> = runs.iter().flat_map(|run| run.numbers()).collect();
            debug_assert_eq!(peers.len(), size as usize);
            return Back::of_peers(&peers);
        }
        let key = |(at, run): (u32, &Progression)| (step_of(run), run.low() % step_of(run), run.low(), at);
        let mut sorted: Vec<_> = (0..).zip(runs).map(key).collect();
        sorted.sort_unstable();
        Back::Steps { steps: steps.into(), runs: sorted.into() }
    }

    fn rank(&self, peer: u32, runs: &[Progression], ranks: &[u32]) -> Option<u32> {
        match self {
            Back::Dense { first, ranks } => {
                let at = peer.checked_sub(*first)? as usize;
                ranks.get(at).copied().filter(|&rank| rank != NOBODY)
            }
            Back::Sorted(pairs) => {
                let at = pairs.binary_search_by_key(&peer, |&(peer, _)| peer).ok()?;
                Some(pairs[at].1)
            }
            Back::Steps { steps, runs: sorted } => steps.iter().find_map(|&step| {
                let wanted = (step, peer % step, peer, u32::MAX);
                let &(_, _, _, at) =
                    sorted.get(sorted.partition_point(|run| *run <= wanted).checked_sub(1)?)?;
                Some(ranks[at as usize] + runs[at as usize].place(peer)?)
            }),
        }
    }
}

/// The distance of neighbours in a run.
fn step_of(run: &Progression) -> u32 {
    // Peers are numbers of 32 bits, and so are their distances.
    run.stride.unsigned_abs().max(1) as u32
}

/// Puts a group together from the lowest rank on.
#[derive(Default)]
pub(super) struct Builder {
    runs: Runs,
}

impl Builder {
    #[inline]
    pub(super) fn push_one(&mut self, peer: u32) {
        append(&mut self.runs, Progression::one(peer));
    }

    pub(super) fn push(&mut self, run: Progression) {
        append(&mut self.runs, run);
    }

    pub(super) fn runs(&self) -> &[Progression] {
        &self.runs
    }

    pub(super) fn into_runs(self) -> Runs {
        self.runs
    }

    /// The form depends on the members and their order only, so equal groups have equal forms.
    pub(super) fn finish(self) -> Group {
        let size: usize = self.runs.iter().map(|run| run.count as usize).sum();
        let members = match &self.runs[..] {
            [] => Members::world(0),
            [run] => Members::One(*run),
            runs if runs.len() * LIST_MEMBERS_PER_RUN > size => {
                let mut peers = Vec::with_capacity(size);
                runs.iter().for_each(|run| peers.extend(run.numbers()));
                Members::List(Arc::new(List { peers: peers.into(), back: OnceLock::new() }))
            }
            runs => {
                let ranks = runs.iter().scan(0, |next, run| {
                    let rank = *next;
                    *next += run.count;
                    Some(rank)
                });
                let ranks = ranks.collect();
                let many =
                    Many { ranks, runs: self.runs.into_boxed(), size: size as u32, back: OnceLock::new() };
                Members::Many(Arc::new(many))
            }
        };
        Group { members }
    }
}

/// The members of a group in rank order.
#[derive(Clone)]
pub struct Peers<'a> {
    left: Left<'a>,
}

#[derive(Clone)]
enum Left<'a> {
    List(std::slice::Iter<'a, u32>),
    /// What is left of `run` from `at` on, and the runs behind it.
    Runs {
        run: Progression,
        at: u32,
        behind: &'a [Progression],
        size: u32,
    },
}

impl Iterator for Peers<'_> {
    type Item = Peer;

    #[inline]
    fn next(&mut self) -> Option<Peer> {
        match &mut self.left {
            Left::List(peers) => peers.next().copied().map(Peer),
            Left::Runs { run, at, behind, size } => {
                if *at == run.count {
                    let (first, rest) = behind.split_first()?;
                    (*run, *at, *behind) = (*first, 0, rest);
                }
                let peer = run.at(*at);
                *at += 1;
                *size -= 1;
                Some(Peer(peer))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.left {
            Left::List(peers) => peers.len(),
            Left::Runs { size, .. } => *size as usize,
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Peers<'_> {}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Members::List(list) if list.peers.len() > SHOWN_MAX => {
                write!(f, "a list, {:?}…", &list.peers[..SHOWN_MAX])
            }
            Members::List(list) => write!(f, "{:?}", list.peers),
            Members::Without(without) => write!(f, "{:?} without {:?}", without.base, without.gone),
            _ => f.debug_list().entries(self.runs().unwrap_or_default().iter().take(SHOWN_MAX)).finish(),
        }
    }
}

/// No member, in a table by peer.
const NOBODY: u32 = u32::MAX;
/// Up to so many runs, or members of a list, are simply looked through.
const FEW_RUNS: usize = 8;
const FEW_PEERS: usize = 16;
/// Runs take four times the memory of a member in a list, so they must have more members than that to be
/// worth it.
const LIST_MEMBERS_PER_RUN: usize = 4;
/// A table by peer is used where at most so many peers fall to a member.
const DENSE_PEERS_PER_MEMBER: usize = 4;
/// With more different steps than that, looking for a peer under each would take longer than a table.
const STEPS_MAX: usize = 8;
/// Numbers that a person is shown.
const SHOWN_MAX: usize = 16;
/// How encoded groups begin.
const LIST: i64 = 1;
const RUNS: i64 = 2;
