//! What a schedule is made for: a place in a group, and an operator.

use messaging::Rank;

/// A rank's place among the ranks of a collective operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    rank: Rank,
    size: u32,
}

/// What a schedule must know of a reduction: nothing of what it computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operator {
    /// Length of one packed element; data is never cut inside an element.
    pub element_bytes: usize,
    /// Whether a op b is b op a.
    pub commutative: bool,
}

impl Shape {
    /// Rank `rank` of `size`.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn new(rank: Rank, size: u32) -> Shape {
        assert!(rank.0 < size, "rank {} is not among {size} ranks", rank.0);
        Shape { rank, size }
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of ranks, at least 1.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The rank `steps` places further round the ring; `steps` is at most the number of ranks.
    pub(crate) fn ahead(&self, steps: u32) -> Rank {
        Rank(around(self.rank.0, steps, self.size))
    }

    /// The rank `steps` places back on the ring; `steps` is at most the number of ranks.
    pub(crate) fn behind(&self, steps: u32) -> Rank {
        Rank(back(self.rank.0, steps, self.size))
    }
}

/// `place + steps` on a ring of `size` places.
pub(crate) fn around(place: u32, steps: u32, size: u32) -> u32 {
    ((u64::from(place) + u64::from(steps)) % u64::from(size)) as u32
}

/// `place - steps` on a ring of `size` places; `steps` is at most `size`.
pub(crate) fn back(place: u32, steps: u32, size: u32) -> u32 {
    around(place, size - steps, size)
}

/// The powers of two below `size`, ascending: the distances of a dissemination.
pub(crate) fn distances(size: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..u32::BITS - (size - 1).leading_zeros()).map(|bit| 1 << bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_close() {
        let shape = Shape::new(Rank(4), 5);
        assert_eq!((shape.ahead(1), shape.ahead(5)), (Rank(0), Rank(4)));
        assert_eq!((shape.behind(4), shape.behind(5)), (Rank(0), Rank(4)));
        assert_eq!(back(0, 1, u32::MAX), u32::MAX - 1);
    }

    #[test]
    fn distances_are_the_powers_below_the_size() {
        for (size, expected) in [(1, &[][..]), (2, &[1]), (3, &[1, 2]), (8, &[1, 2, 4]), (9, &[1, 2, 4, 8])] {
            assert_eq!(distances(size).collect::<Vec<_>>(), expected, "{size} ranks");
        }
    }
}
