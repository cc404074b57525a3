//! Where a datatype begins and ends: lower bound, upper bound, and the rules by which they combine.
//!
//! Three ranges are kept. `data` is what the elements really cover, the *true* bounds. `padded` is what the
//! parts cover with the padding that rounds up their extents. `marks` are bounds that somebody has set by
//! hand (`MPI_Type_create_resized`); once a part has marks, only marks count for the whole (MPI 5.0 section
//! 5.1.6 and 5.1.7). Every sum is checked.
//!
//! A datatype reaches at least as far as the extents of its parts: a program that lays out memory by the
//! extents of parts has room for them within the extent of the whole. The standard's formula rounds up only
//! the end of the data, and can end before the padding of the last part does; Open MPI and MPICH count that
//! padding, too.

/// Bytes from `start` up to, not including, `end`, counted from the address given to MPI. A marked range may
/// end before it starts; a range of data never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: i64,
    pub(crate) end: i64,
}

impl Range {
    fn shifted(self, bytes: i64) -> Option<Range> {
        Some(Range { start: self.start.checked_add(bytes)?, end: self.end.checked_add(bytes)? })
    }

    fn union(self, other: Range) -> Range {
        Range { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// Where a datatype begins and ends, in bytes: by markers, by its data, and by its data with padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) marks: Option<Range>,
    pub(crate) data: Option<Range>,
    pub(crate) padded: Option<Range>,
    /// The strictest alignment of any element, which rounds up an extent that nobody has set.
    pub(crate) alignment: i64,
}

impl Bounds {
    /// Nothing at all.
    pub(crate) const EMPTY: Bounds = Bounds { marks: None, data: None, padded: None, alignment: 1 };

    /// `data` that nobody has marked, and that has no padding.
    pub(crate) const fn of_data(data: Range, alignment: i64) -> Bounds {
        Bounds { marks: None, data: Some(data), padded: Some(data), alignment }
    }

    /// The bounds of a finished datatype: its extent is padded to the alignment, unless it has markers.
    /// `None` on overflow.
    pub(crate) fn closed(self) -> Option<Bounds> {
        match (self.marks, self.padded) {
            (None, Some(padded)) => Some(Bounds { padded: Some(self.rounded(padded)?), ..self }),
            _ => Some(self),
        }
    }

    /// All of it, `bytes` further on.
    pub(crate) fn shifted(self, bytes: i64) -> Option<Bounds> {
        let shifted = |range: Option<Range>| range.map_or(Some(None), |range| range.shifted(bytes).map(Some));
        Some(Bounds {
            marks: shifted(self.marks)?,
            data: shifted(self.data)?,
            padded: shifted(self.padded)?,
            alignment: self.alignment,
        })
    }

    /// Both together.
    pub(crate) fn union(self, other: Bounds) -> Bounds {
        Bounds {
            marks: either(self.marks, other.marks),
            data: either(self.data, other.data),
            padded: either(self.padded, other.padded),
            alignment: self.alignment.max(other.alignment),
        }
    }

    /// `count` copies, each `stride` bytes after the one before. A stride may be negative.
    pub(crate) fn repeated(self, count: i64, stride: i64) -> Option<Bounds> {
        if count == 0 {
            return Some(Bounds::EMPTY);
        }
        let last = stride.checked_mul(count - 1)?;
        Some(self.union(self.shifted(last)?))
    }

    /// Lower and upper bound: the marks, or else what the parts cover with their padding, rounded up to the
    /// alignment. `None` on overflow.
    pub(crate) fn range(self) -> Option<Range> {
        match (self.marks, self.padded) {
            (Some(marks), _) => Some(marks),
            (None, Some(padded)) => self.rounded(padded),
            (None, None) => Some(Range { start: 0, end: 0 }),
        }
    }

    fn rounded(self, range: Range) -> Option<Range> {
        let extent = range.end.checked_sub(range.start)?;
        let gap = (self.alignment - extent % self.alignment) % self.alignment;
        Some(Range { start: range.start, end: range.end.checked_add(gap)? })
    }
}

fn either(left: Option<Range>, right: Option<Range>) -> Option<Range> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.union(right)),
        (left, right) => left.or(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(start: i64, end: i64, alignment: i64) -> Bounds {
        Bounds::of_data(Range { start, end }, alignment)
    }

    #[test]
    fn extents_round_up_to_the_alignment() {
        assert_eq!(data(0, 12, 8).range(), Some(Range { start: 0, end: 16 }));
        assert_eq!(data(-3, 6, 4).range(), Some(Range { start: -3, end: 9 }));
        assert_eq!(Bounds::EMPTY.range(), Some(Range { start: 0, end: 0 }));
    }

    #[test]
    fn the_padding_of_parts_counts() {
        let part = data(0, 66, 4).closed().unwrap();
        assert_eq!(part.range(), Some(Range { start: 0, end: 68 }));
        let whole = part.repeated(3, 68).unwrap().repeated(2, 273).unwrap();
        assert_eq!(whole.range(), Some(Range { start: 0, end: 480 }));
        assert_eq!(whole.data, Some(Range { start: 0, end: 475 }));
    }

    #[test]
    fn marks_win_over_data() {
        let marked = Bounds { marks: Some(Range { start: 2, end: 4 }), ..data(0, 8, 8) };
        assert_eq!(marked.union(data(-8, 20, 8)).range(), Some(Range { start: 2, end: 4 }));
    }

    #[test]
    fn repetition_reaches_both_ways_and_checks_every_sum() {
        assert_eq!(data(0, 4, 4).repeated(3, -8), Some(data(-16, 4, 4)));
        assert_eq!(data(0, 4, 4).repeated(0, i64::MAX), Some(Bounds::EMPTY));
        assert_eq!(data(0, 4, 4).repeated(1, i64::MAX), Some(data(0, 4, 4)));
        assert_eq!(data(0, 4, 4).repeated(3, i64::MAX / 2), None);
        assert_eq!(data(0, i64::MAX, 8).range(), None);
    }
}
