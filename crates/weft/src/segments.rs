//! What all members bring to one, where some places may be blank: what nobody has written cannot be read.

use job::error::{Class, Error, Result};
use messaging::Rank;

use collectives::{Collective, Each, Rooted};

use crate::communicator::Communicator;
use crate::memory::{Datatype, blank, value_bytes};

/// A segment of values from each member that lives, of one length. Those of blank ranks are not there.
///
/// ```
/// # weft::run_threads(3, &weft::Config::default(), |session| {
/// let world = session.world();
/// let segments = world.all_gather_segments(&[world.rank().0, 7])?;
/// for (rank, values) in segments.iter() {
///     assert_eq!(values, [rank.0, 7]);
/// }
/// // Where a rank may be blank: `None` then, and there is nothing else to be had.
/// let from_one = segments.of(weft::Rank(1)).unwrap_or(&[0, 0]);
/// # assert_eq!(from_one, [1, 7]);
/// # Ok::<_, weft::Error>(())
/// # })?.into_iter().collect::<weft::Result<Vec<_>>>()?;
/// # Ok::<_, weft::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segments<T> {
    values: Vec<T>,
    /// Of each.
    count: usize,
    /// Whose segment is there, in their order; all ranks have a place.
    present: Box<[Rank]>,
    size: u32,
}

impl<T> Segments<T> {
    /// The values that came from a rank; `None` where nobody is there any more, or there is no such rank.
    #[must_use]
    pub fn of(&self, rank: Rank) -> Option<&[T]> {
        self.present.binary_search(&rank).ok()?;
        let at = rank.0 as usize * self.count;
        self.values.get(at..at + self.count)
    }

    /// The ranks that have brought something, in their order.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + '_ {
        self.present.iter().copied()
    }

    /// All that was brought, with the rank it came from.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, &[T])> + '_ {
        self.ranks().filter_map(|rank| Some((rank, self.of(rank)?)))
    }

    /// Whether no rank was blank.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.present.len() == self.size as usize
    }

    /// The values of all ranks, one behind the other.
    ///
    /// # Errors
    /// The segments as they are, where some are missing.
    pub fn into_values(self) -> std::result::Result<Vec<T>, Segments<T>> {
        if self.is_complete() { Ok(self.values) } else { Err(self) }
    }

    /// The values of all ranks, one behind the other, blank ones where nobody is.
    pub(crate) fn or_blank(self) -> Vec<T> {
        self.values
    }
}

impl Communicator {
    /// Brings every rank's values to the root, as one segment for each rank that lives; `None` at the other
    /// ranks (MPI 5.0 §6.5). Ranks may be blank: they have no segment.
    ///
    /// # Errors
    /// [`Class::Root`], also for a blank one; a lost peer.
    pub fn gather_segments<T: Datatype>(&self, values: &[T], root: Rank) -> Result<Option<Segments<T>>> {
        self.check_root(root)?;
        self.check(|| format!("gather, root {}, {}", root.0, crate::typed::amount::<T>(values.len())))?;
        let bytes = values.len() * value_bytes::<T>();
        let gather = Collective::Gather(Rooted { root, bytes, in_place: false });
        let here = self.rank() == root;
        let mut all = blank(if here { values.len() * self.size() as usize } else { 0 });
        self.move_values(gather, values, &mut all)?;
        Ok(here.then(|| self.segments(all, values.len())))
    }

    /// Brings every rank's values to every rank, as one segment for each rank that lives (MPI 5.0 §6.7).
    /// Ranks may be blank: they have no segment.
    ///
    /// # Errors
    /// A lost peer.
    pub fn all_gather_segments<T: Datatype>(&self, values: &[T]) -> Result<Segments<T>> {
        self.check(|| format!("all_gather, {}", crate::typed::amount::<T>(values.len())))?;
        let bytes = values.len() * value_bytes::<T>();
        let mut all = blank(values.len() * self.size() as usize);
        self.move_values(Collective::Allgather(Each { bytes, in_place: false }), values, &mut all)?;
        Ok(self.segments(all, values.len()))
    }

    /// Sends the i-th part of `values` to rank i, and returns what came, as one segment for each rank that
    /// lives (MPI 5.0 §6.8). Ranks may be blank: the values for them are not read, and they have no segment.
    ///
    /// # Errors
    /// [`Class::Count`] where the values cannot be dealt out evenly to all ranks, the blank ones too.
    pub fn all_to_all_segments<T: Datatype>(&self, values: &[T]) -> Result<Segments<T>> {
        let size = self.size() as usize;
        if !values.len().is_multiple_of(size) {
            let what = format!("{}: {} values for {size} ranks", self.place(), values.len());
            return Err(Error::new(Class::Count, what));
        }
        self.check(|| format!("all_to_all, {}", crate::typed::amount::<T>(values.len())))?;
        let bytes = values.len() * value_bytes::<T>() / size;
        let mut all = blank(values.len());
        self.move_values(Collective::Alltoall(Each { bytes, in_place: false }), values, &mut all)?;
        Ok(self.segments(all, values.len() / size))
    }

    fn segments<T>(&self, values: Vec<T>, count: usize) -> Segments<T> {
        let present = (0..self.size()).map(Rank).filter(|&rank| !self.is_blank(rank)).collect();
        Segments { values, count, present, size: self.size() }
    }

    /// The values of operations that have no way to say that some are missing.
    pub(crate) fn complete<T>(&self, segments: Segments<T>, instead: &str) -> Result<Vec<T>> {
        segments.into_values().map_err(|segments| {
            let missing = segments.size as usize - segments.present.len();
            let what = format!(
                "{}: {missing} of {} ranks are blank, and bring nothing",
                self.place(),
                segments.size
            );
            Error::new(Class::Rank, what).remedy(format!("{instead} tells what is there"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(present: &[u32]) -> Segments<u8> {
        let present = present.iter().copied().map(Rank).collect();
        Segments { values: vec![10, 11, 20, 21, 30, 31], count: 2, present, size: 3 }
    }

    #[test]
    fn what_was_not_written_cannot_be_read() {
        let some = segments(&[0, 2]);
        assert_eq!((some.of(Rank(0)), some.of(Rank(1)), some.of(Rank(3))), (Some(&[10, 11][..]), None, None));
        assert_eq!(some.iter().collect::<Vec<_>>(), [(Rank(0), &[10, 11][..]), (Rank(2), &[30, 31][..])]);
        assert!(!some.is_complete());
        assert_eq!(some.clone().into_values(), Err(some));
        let all = segments(&[0, 1, 2]);
        assert_eq!(all.into_values(), Ok(vec![10, 11, 20, 21, 30, 31]));
    }

    #[test]
    fn segments_of_nothing_are_there_as_well() {
        let none: Segments<u8> =
            Segments { values: Vec::new(), count: 0, present: [Rank(1)].into(), size: 2 };
        assert_eq!((none.of(Rank(1)), none.of(Rank(0))), (Some(&[][..]), None));
    }
}
