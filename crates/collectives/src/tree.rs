//! The binomial tree: a place's subtree is a run of places, and its depth is log2 of their number.
//!
//! Places are counted round the ring from the top on: the top is place 0. The parent of a place is the place
//! without its lowest set bit; so the subtree below place v are the places v to before v + lowest bit of v.

use messaging::Rank;

use crate::shape::{Shape, around, back, distances};

/// One rank's view of the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    place: u32,
    top: u32,
    size: u32,
}

/// A rank below, and the places of its subtree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Child {
    pub rank: Rank,
    pub first: u32,
    pub end: u32,
}

impl Tree {
    pub(crate) fn new(shape: &Shape, top: Rank) -> Tree {
        let size = shape.size();
        Tree { place: back(shape.rank().0, top.0, size), top: top.0, size }
    }

    /// Where this rank stands, counted from the top.
    pub(crate) fn place(&self) -> u32 {
        self.place
    }

    /// The first place behind this rank's subtree.
    pub(crate) fn end(&self) -> u32 {
        self.end_of(self.place)
    }

    /// Whether the subtree of the rank at `place` has that other place.
    pub(crate) fn covers(&self, place: u32, other: u32) -> bool {
        place <= other && other < self.end_of(place)
    }

    /// The rank above; none above the top.
    pub(crate) fn parent(&self) -> Option<Rank> {
        (self.place > 0).then(|| self.rank(self.place & (self.place - 1)))
    }

    /// The ranks right below, those with the smallest subtrees first.
    pub(crate) fn children(self) -> impl DoubleEndedIterator<Item = Child> {
        let below = self.end() - self.place;
        distances(below).map(move |distance| {
            let first = self.place + distance;
            Child { rank: self.rank(first), first, end: self.end_of(first) }
        })
    }

    fn end_of(&self, place: u32) -> u32 {
        let lowest_bit = place & place.wrapping_neg();
        if place == 0 { self.size } else { place.saturating_add(lowest_bit).min(self.size) }
    }

    fn rank(&self, place: u32) -> Rank {
        Rank(around(place, self.top, self.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_one_parent_and_subtrees_join_without_gaps() {
        for size in 1..70 {
            for top in [0, size / 2, size - 1] {
                let tree = |rank| Tree::new(&Shape::new(Rank(rank), size), Rank(top));
                for rank in 0..size {
                    let here = tree(rank);
                    let mut next = here.place() + 1;
                    for child in here.children() {
                        assert_eq!(child.first, next);
                        assert_eq!(tree(child.rank.0).parent(), Some(Rank(rank)));
                        assert_eq!(
                            (tree(child.rank.0).place(), tree(child.rank.0).end()),
                            (child.first, child.end)
                        );
                        next = child.end;
                    }
                    assert_eq!(next, here.end());
                }
                assert_eq!((tree(top).parent(), tree(top).end()), (None, size));
            }
        }
    }
}
