//! Collective operations over the two groups of an inter-communicator (MPI 5.0 §6.2.3): what one group gives,
//! the other gets. Nothing is in place there, since nobody gets what it gives.

use std::ffi::c_int;

use weft::collectives::{Crossing, Operator, Root};
use weft::{Class, Communicator, Error, Rank, Result};

use crate::bodies::collectives::{refuse_in_place, whole};
use crate::bodies::datatypes::resolve_committed;
use crate::bodies::reductions::Reduction;
use crate::bodies::ways::{Described, Side, Way, What};
use crate::claims::{Buffer, Received, Sent};
use crate::generated::constants::*;
use crate::parts::Section;
use crate::state::Runtime;
use crate::types::*;

/// An operation that was called with an inter-communicator.
pub(crate) struct OverTwo<'a> {
    way: &'a Way<'a>,
    comm: &'a Communicator,
}

impl<'a> OverTwo<'a> {
    /// `None` where the communicator has one group.
    #[inline]
    pub(crate) fn of(way: &'a Way<'a>, comm: &'a Communicator) -> Option<OverTwo<'a>> {
        comm.is_inter().then_some(OverTwo { way, comm })
    }

    /// How many ranks the remote group has: arrays of counts and displacements have one entry for each of
    /// them.
    pub(crate) fn ranks(&self) -> usize {
        self.comm.partners() as usize
    }

    /// An operation without a root: each rank sends and receives.
    pub(crate) fn even(
        &self,
        crossing: Crossing,
        gives: Side<Sent>,
        gets: Side<Received>,
    ) -> Result<Described> {
        self.way.check(self.comm, || self.way.name().to_owned())?;
        Ok(self.describe(crossing, gives, gets))
    }

    /// An operation in which the ranks of the remote group send and the root receives. `gives` is asked for
    /// at the senders only, and `gets` at the root only.
    pub(crate) fn gathering(
        &self,
        root: c_int,
        crossing: impl FnOnce(Root) -> Crossing,
        gives: impl FnOnce() -> Result<Side<Sent>>,
        gets: impl FnOnce() -> Result<Side<Received>>,
    ) -> Result<Described> {
        let root = self.root(root)?;
        self.rooted(root, crossing(root), || Ok((Side::none(), gets()?)), || Ok((gives()?, Side::none())))
    }

    /// An operation in which the root sends and the ranks of the remote group receive. `gives` is asked for
    /// at the root only, and `gets` at the receivers only.
    pub(crate) fn scattering(
        &self,
        root: c_int,
        crossing: impl FnOnce(Root) -> Crossing,
        gives: impl FnOnce() -> Result<Side<Sent>>,
        gets: impl FnOnce() -> Result<Side<Received>>,
    ) -> Result<Described> {
        let root = self.root(root)?;
        self.rooted(root, crossing(root), || Ok((gives()?, Side::none())), || Ok((Side::none(), gets()?)))
    }

    /// A broadcast: the root's buffer is copied to the buffers of the remote group. `buffer` answers this
    /// rank's buffer and its length in bytes.
    pub(crate) fn bcast(
        &self,
        root: c_int,
        buffer: impl FnOnce() -> Result<(Side<Received>, usize)>,
    ) -> Result<Described> {
        let root = self.root(root)?;
        let (buffer, bytes) = if root == Root::Elsewhere { (Side::none(), 0) } else { buffer()? };
        self.check(root)?;
        let here = root == Root::Here;
        let described = self.describe(Crossing::Bcast { root, bytes }, Side::none(), buffer);
        Ok(Described { loaded: here, receives: !here, ..described })
    }

    /// A reduction: the contributions of the remote group are combined at the root.
    pub(crate) fn reduce(
        &self,
        root: c_int,
        reduction: impl FnOnce() -> Result<Reduction>,
        gives: impl FnOnce() -> Result<Side<Sent>>,
        gets: impl FnOnce() -> Result<Side<Received>>,
    ) -> Result<Described> {
        if self.root(root)? == Root::Elsewhere {
            let nothing = |root| Crossing::Reduce { root, count: 0, operator: NOTHING };
            return self.gathering(root, nothing, gives, gets);
        }
        let reduction = reduction()?;
        let Reduction { count, operator, .. } = reduction;
        let described =
            self.gathering(root, |root| Crossing::Reduce { root, count, operator }, gives, gets)?;
        Ok(reduction.combining(described))
    }

    /// An operation with a root: what it gives and gets, and what each of the other group does. The others
    /// have no part in it, and nothing that they say is looked at.
    fn rooted(
        &self,
        root: Root,
        crossing: Crossing,
        at_root: impl FnOnce() -> Result<(Side<Sent>, Side<Received>)>,
        at_others: impl FnOnce() -> Result<(Side<Sent>, Side<Received>)>,
    ) -> Result<Described> {
        let (gives, gets) = match root {
            Root::Here => at_root()?,
            Root::Elsewhere => (Side::none(), Side::none()),
            Root::Remote(_) => at_others()?,
        };
        self.check(root)?;
        Ok(self.describe(crossing, gives, gets))
    }

    /// Scans have an order of ranks, and two groups have none (MPI 5.0 §6.11).
    pub(crate) fn refuse(&self) -> Error {
        let what = format!("{}: {} is not for inter-communicators", self.comm.place(), self.way.name());
        Error::new(Class::Communicator, what)
    }

    fn describe(&self, crossing: Crossing, gives: Side<Sent>, gets: Side<Received>) -> Described {
        Described::new(What::Across(crossing), gives, gets, false)
    }

    /// `MPI_ROOT` at the root, `MPI_PROC_NULL` at the others of its group, and its rank at the other group.
    fn root(&self, root: c_int) -> Result<Root> {
        match u32::try_from(root) {
            Ok(rank) if rank < self.comm.partners() => Ok(Root::Remote(Rank(rank))),
            _ if root == MPI_ROOT => Ok(Root::Here),
            _ if root == MPI_PROC_NULL => Ok(Root::Elsewhere),
            _ => {
                let what = format!(
                    "{}: the root is {root}; it is MPI_ROOT at the root, MPI_PROC_NULL at the others of its group, and its \
                     rank at the other group, 0 to {}",
                    self.comm.place(),
                    self.comm.partners().saturating_sub(1)
                );
                Err(Error::new(Class::Root, what))
            }
        }
    }

    /// Compares the calls of all (`WEFT_CHECK`), and the roots on each side.
    fn check(&self, root: Root) -> Result<()> {
        self.way.check(self.comm, || self.way.name().to_owned())?;
        self.way.check_sides(self.comm, || match root {
            Root::Here | Root::Elsewhere => format!("{}, the root in this group", self.way.name()),
            Root::Remote(rank) => format!("{}, root {} of the other group", self.way.name(), rank.0),
        })
    }
}

/// A buffer of `count` elements.
pub(crate) fn part<B: Buffer>(
    runtime: &'static Runtime,
    buffer: B,
    count: i64,
    datatype: MPI_Datatype,
) -> Result<Side<B>> {
    refuse_in_place(buffer)?;
    Ok(Side::whole(buffer, whole(runtime, count, datatype)?))
}

/// Sections of a buffer.
pub(crate) fn listed_side<B: Buffer>(buffer: B, sections: Vec<Section>) -> Result<Side<B>> {
    refuse_in_place(buffer)?;
    Ok(Side::listed(buffer, sections))
}

/// A buffer with `count` elements for each of `ranks` ranks, one behind the other.
pub(crate) fn parts<B: Buffer>(
    runtime: &'static Runtime,
    ranks: usize,
    buffer: B,
    count: i64,
    datatype: MPI_Datatype,
) -> Result<Side<B>> {
    refuse_in_place(buffer)?;
    let extent = resolve_committed(runtime, datatype)?.extent();
    let section = |rank: usize| {
        let offset = count.checked_mul(extent).and_then(|bytes| bytes.checked_mul(rank as i64));
        let offset = offset.ok_or_else(|| Error::new(Class::Count, format!("the count is {count}")))?;
        Ok(Section { offset, count, datatype: resolve_committed(runtime, datatype)? })
    };
    Ok(Side::listed(buffer, (0..ranks).map(section).collect::<Result<_>>()?))
}

/// The operator of a rank in the root's group that is not the root. It combines nothing, and its arguments
/// are not looked at.
const NOTHING: Operator = Operator { element_bytes: 1, commutative: true };
