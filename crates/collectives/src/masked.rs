//! Collective operations of a communicator that has lost some of its ranks and keeps their places (decision
//! 0013).
//!
//! Those who live do the operation among themselves, numbered anew in their order; their blocks stand where
//! those of their ranks stand. So the places of the blank ranks are neither read nor written, nothing is
//! combined for them, and no schedule has to know of them.

use messaging::Rank;

use crate::blocks::{Block, packed};
use crate::{Collective, Listed, Reduction, Uneven};

/// What the living do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Masked {
    /// The operation.
    pub what: Among,
    /// The parts of this rank's contribution that are to stand one behind the other as its input; none where
    /// it stands as it is to stand.
    pub pack: Option<Packed>,
}

/// An operation among the living, by their new numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Among {
    /// With as much for every rank.
    Even(Collective),
    /// With a block of its own for each.
    Uneven {
        /// Which.
        what: Uneven,
        /// The blocks of the input.
        sends: Vec<Block>,
        /// Those of the output.
        receives: Vec<Block>,
    },
}

/// What is to be brought together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packed {
    /// The parts.
    pub parts: Vec<Block>,
    /// Whether they stand in the output.
    pub in_place: bool,
}

/// The new number of a rank that lives.
///
/// # Panics
/// Where it does not: who asks for an operation has seen to it that its root lives.
pub(crate) fn number_of(rank: Rank, living: &[Rank]) -> Rank {
    let at = living.binary_search(&rank).expect("the root was seen to live");
    Rank(at as u32)
}

/// Blocks of one length at the places of the living.
fn at_their_places(living: &[Rank], bytes: usize) -> Vec<Block> {
    living.iter().map(|rank| Block { offset: rank.0 as usize * bytes, bytes }).collect()
}

impl Collective {
    /// The root of the operation; `None` where it has none.
    #[must_use]
    pub fn root(&self) -> Option<Rank> {
        match *self {
            Collective::Bcast { root, .. } | Collective::Reduce(root, _) => Some(root),
            Collective::Gather(of) | Collective::Scatter(of) => Some(of.root),
            _ => None,
        }
    }

    /// This operation among the living alone. `living` has their ranks, in ascending order.
    ///
    /// # Panics
    /// Where the root is not among the living.
    #[must_use]
    pub fn masked(self, living: &[Rank]) -> Masked {
        let own = |bytes| vec![Block { offset: 0, bytes }];
        let uneven = |what, sends, receives| Among::Uneven { what, sends, receives };
        let what = match self {
            Collective::Barrier | Collective::Allreduce(_) | Collective::Scan(_) | Collective::Exscan(_) => {
                Among::Even(self)
            }
            Collective::Bcast { root, bytes } => {
                Among::Even(Collective::Bcast { root: number_of(root, living), bytes })
            }
            Collective::Reduce(root, of) => Among::Even(Collective::Reduce(number_of(root, living), of)),
            Collective::Gather(of) => {
                let what = Uneven::Gather { root: number_of(of.root, living), in_place: of.in_place };
                uneven(what, own(of.bytes), at_their_places(living, of.bytes))
            }
            Collective::Scatter(of) => {
                let what = Uneven::Scatter { root: number_of(of.root, living), in_place: of.in_place };
                uneven(what, at_their_places(living, of.bytes), own(of.bytes))
            }
            Collective::Allgather(of) => {
                let what = Uneven::Allgather { in_place: of.in_place };
                uneven(what, own(of.bytes), at_their_places(living, of.bytes))
            }
            Collective::Alltoall(of) => {
                let places = at_their_places(living, of.bytes);
                uneven(Uneven::Alltoall { in_place: of.in_place }, places.clone(), places)
            }
            Collective::ReduceScatterBlock(of) => {
                let parts = at_their_places(living, of.count * of.operator.element_bytes);
                let what = Among::Even(Collective::ReduceScatterBlock(Reduction { in_place: false, ..of }));
                return Masked { what, pack: Some(Packed { parts, in_place: of.in_place }) };
            }
        };
        Masked { what, pack: None }
    }
}

impl Uneven {
    /// The root of the operation; `None` where it has none.
    #[must_use]
    pub fn root(&self) -> Option<Rank> {
        match *self {
            Uneven::Gather { root, .. } | Uneven::Scatter { root, .. } => Some(root),
            _ => None,
        }
    }
}

impl Listed<'_> {
    /// This operation among the living alone, of the `extent` ranks of a group. `living` has their ranks, in
    /// ascending order.
    ///
    /// # Panics
    /// Where the root is not among the living.
    #[must_use]
    pub fn masked(self, living: &[Rank], extent: u32) -> Masked {
        let kept = |blocks: &[Block]| match blocks.len() == extent as usize {
            true => living.iter().map(|rank| blocks[rank.0 as usize]).collect(),
            // One block for all, or none.
            false => blocks.to_vec(),
        };
        let (all_sends, all_receives) = (self.sends.to_vec(), self.receives.to_vec());
        let (what, sends, receives) = match self.what {
            Uneven::Gather { root, in_place } => {
                let root = number_of(root, living);
                (Uneven::Gather { root, in_place }, all_sends, kept(self.receives))
            }
            Uneven::Scatter { root, in_place } => {
                let root = number_of(root, living);
                (Uneven::Scatter { root, in_place }, kept(self.sends), all_receives)
            }
            Uneven::Allgather { .. } => (self.what, all_sends, kept(self.receives)),
            Uneven::Alltoall { .. } => (self.what, kept(self.sends), kept(self.receives)),
            Uneven::ReduceScatter { operator, in_place } => {
                let parts = kept(self.sends);
                let sends = packed(parts.iter().map(|part| part.bytes));
                let what = Uneven::ReduceScatter { operator, in_place: false };
                let what = Among::Uneven { what, sends, receives: all_receives };
                return Masked { what, pack: Some(Packed { parts, in_place }) };
            }
        };
        Masked { what: Among::Uneven { what, sends, receives }, pack: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Each, Operator, Rooted};

    const LIVING: [Rank; 3] = [Rank(0), Rank(2), Rank(5)];
    const SUM: Operator = Operator { element_bytes: 8, commutative: true };

    fn blocks(all: &[(usize, usize)]) -> Vec<Block> {
        all.iter().map(|&(offset, bytes)| Block { offset, bytes }).collect()
    }

    #[test]
    fn blocks_stand_at_the_places_of_the_living() {
        let gather = Collective::Gather(Rooted { root: Rank(5), bytes: 10, in_place: true }).masked(&LIVING);
        let Among::Uneven { what, sends, receives } = gather.what else { panic!("{gather:?}") };
        assert_eq!(what, Uneven::Gather { root: Rank(2), in_place: true });
        assert_eq!((sends, receives), (blocks(&[(0, 10)]), blocks(&[(0, 10), (20, 10), (50, 10)])));
        let exchange = Collective::Alltoall(Each { bytes: 4, in_place: false }).masked(&LIVING);
        let Among::Uneven { sends, receives, .. } = exchange.what else { panic!("{exchange:?}") };
        assert_eq!((&sends, &sends), (&receives, &blocks(&[(0, 4), (8, 4), (20, 4)])));
    }

    #[test]
    fn blocks_of_the_blank_are_not_looked_at() {
        let all = blocks(&[(90, 1), (80, 2), (70, 3), (60, 4), (50, 5), (40, 6)]);
        let what = Uneven::Scatter { root: Rank(2), in_place: false };
        let at_root = Listed { what, sends: &all, receives: &all[2..3] }.masked(&LIVING, 6);
        let Among::Uneven { what, sends, receives } = at_root.what else { panic!("{at_root:?}") };
        assert_eq!(what, Uneven::Scatter { root: Rank(1), in_place: false });
        assert_eq!((sends, receives), (blocks(&[(90, 1), (70, 3), (40, 6)]), blocks(&[(70, 3)])));
    }

    #[test]
    fn what_is_reduced_and_scattered_is_brought_together_first() {
        let of = Reduction { count: 2, operator: SUM, in_place: true };
        let even = Collective::ReduceScatterBlock(of).masked(&LIVING);
        let parts = blocks(&[(0, 16), (32, 16), (80, 16)]);
        assert_eq!(even.pack, Some(Packed { parts, in_place: true }));
        let not_in_place = Reduction { in_place: false, ..of };
        assert_eq!(even.what, Among::Even(Collective::ReduceScatterBlock(not_in_place)));
        let lengths = packed([8, 16, 24, 32, 40, 48]);
        let what = Uneven::ReduceScatter { operator: SUM, in_place: false };
        let uneven = Listed { what, sends: &lengths, receives: &[] }.masked(&LIVING, 6);
        let Among::Uneven { sends, .. } = uneven.what else { panic!("{uneven:?}") };
        assert_eq!(sends, packed([8, 24, 48]));
        assert_eq!(uneven.pack.unwrap().parts, blocks(&[(0, 8), (24, 24), (120, 48)]));
    }
}
