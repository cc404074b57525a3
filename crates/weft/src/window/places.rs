//! Which members share memory, and where their parts stand in it: arithmetic, and nothing else.

use messaging::Rank;

use super::Extent;

/// The members of a window that share memory, each by its number among them.
#[derive(Clone, Debug)]
pub(super) enum Sharers {
    /// All members; their numbers are their ranks.
    All,
    /// The members of this node, by rising rank.
    Node(Box<[Rank]>),
}

impl Sharers {
    /// The number of a member among the sharers; none where it is not one of them.
    #[inline]
    pub(super) fn number(&self, rank: Rank) -> Option<u32> {
        match self {
            Sharers::All => Some(rank.0),
            Sharers::Node(ranks) => ranks.binary_search(&rank).ok().map(|at| at as u32),
        }
    }

    /// The rank of the sharer with that number.
    pub(super) fn rank(&self, number: u32) -> Rank {
        match self {
            Sharers::All => Rank(number),
            Sharers::Node(ranks) => ranks.get(number as usize).copied().unwrap_or(Rank(number)),
        }
    }
}

/// The parts of all sharers, one behind the other.
#[derive(Debug)]
pub(super) enum Places {
    /// All sharers have the same, so many bytes apart.
    Even { members: u32, extent: Extent, stride: usize },
    /// What each has, and where its part begins.
    Listed(Box<[Place]>),
}

/// A sharer's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub offset: usize,
    pub extent: Extent,
}

impl Places {
    /// Parts of the same extent; each begins at a multiple of `alignment`. `None` where that is more than can
    /// be addressed.
    pub(super) fn even(members: u32, extent: Extent, alignment: usize) -> Option<Places> {
        let stride = extent.bytes.checked_next_multiple_of(alignment)?;
        stride.checked_mul(members as usize)?;
        Some(Places::Even { members, extent, stride })
    }

    /// Parts of those extents, in the order of ranks.
    pub(super) fn listed(extents: impl Iterator<Item = Extent>, alignment: usize) -> Option<Places> {
        let mut offset = 0usize;
        let place = |extent: Extent| {
            let place = Place { offset, extent };
            offset = offset.checked_add(extent.bytes.checked_next_multiple_of(alignment)?)?;
            Some(place)
        };
        Some(Places::Listed(extents.map(place).collect::<Option<_>>()?))
    }

    /// The part of the sharer with that number.
    #[inline]
    pub(super) fn of(&self, number: u32) -> Option<Place> {
        match self {
            Places::Even { members, extent, stride } => {
                (number < *members).then(|| Place { offset: stride * number as usize, extent: *extent })
            }
            Places::Listed(places) => places.get(number as usize).copied(),
        }
    }

    /// The number of the first sharer that has any memory; 0 where none has.
    pub(super) fn first(&self) -> u32 {
        match self {
            Places::Even { .. } => 0,
            Places::Listed(places) => {
                let first = places.iter().position(|place| place.extent.bytes > 0);
                first.unwrap_or(0) as u32
            }
        }
    }

    /// All parts together.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Places::Even { members, stride, .. } => stride * *members as usize,
            Places::Listed(places) => places.last().map_or(0, |last| last.offset + last.extent.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(bytes: &[usize]) -> impl Iterator<Item = Extent> {
        bytes.iter().map(|&bytes| Extent { bytes, unit: 1 })
    }

    fn offsets(places: &Places, members: u32) -> Vec<usize> {
        (0..members).map(|rank| places.of(rank).unwrap().offset).collect()
    }

    #[test]
    fn parts_follow_each_other_without_a_gap_unless_aligned() {
        let even = Places::even(3, Extent { bytes: 10, unit: 2 }, 1).unwrap();
        assert_eq!((offsets(&even, 3), even.bytes(), even.first()), (vec![0, 10, 20], 30, 0));
        let aligned = Places::even(3, Extent { bytes: 10, unit: 2 }, 64).unwrap();
        assert_eq!((offsets(&aligned, 3), aligned.bytes()), (vec![0, 64, 128], 192));
        let listed = Places::listed(extents(&[0, 7, 0, 5]), 1).unwrap();
        assert_eq!((offsets(&listed, 4), listed.bytes(), listed.first()), (vec![0, 0, 7, 7], 12, 1));
        let listed = Places::listed(extents(&[0, 7, 0, 5]), 16).unwrap();
        assert_eq!((offsets(&listed, 4), listed.bytes()), (vec![0, 0, 16, 16], 21));
        assert!(even.of(3).is_none() && listed.of(4).is_none());
        assert_eq!(Places::listed(extents(&[0, 0]), 1).unwrap().first(), 0);
    }

    #[test]
    fn sharers_are_numbered_by_rising_rank() {
        let node = Sharers::Node(Box::new([2, 5, 9].map(Rank)));
        assert_eq!([2, 3, 5, 9].map(|rank| node.number(Rank(rank))), [Some(0), None, Some(1), Some(2)]);
        assert_eq!((node.rank(1), Sharers::All.rank(7)), (Rank(5), Rank(7)));
        assert_eq!(Sharers::All.number(Rank(7)), Some(7));
    }

    #[test]
    fn what_cannot_be_addressed_is_refused() {
        let huge = Extent { bytes: usize::MAX / 2, unit: 1 };
        assert!(Places::even(3, huge, 1).is_none());
        assert!(Places::even(1, Extent { bytes: usize::MAX, unit: 1 }, 4096).is_none());
        assert!(Places::listed([huge; 3].into_iter(), 1).is_none());
    }
}
