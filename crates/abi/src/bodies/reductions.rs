//! Collective operations that combine data (MPI 5.0 §6.9 to §6.13), in each of their
//! [ways](crate::bodies::ways).

use std::ffi::c_int;

use weft::collectives::{self, Collective, Crossing, Operator, Uneven};
use weft::{Class, Communicator, Error, Rank, Result};

use crate::arguments;
use crate::bodies::across::{self, OverTwo};
use crate::bodies::collectives::{amount, amounts, is_in_place, refuse_in_place, side, whole};
use crate::bodies::datatypes::resolve_committed;
use crate::bodies::operators::{self, TypedOperator};
use crate::bodies::plain;
use crate::bodies::ways::{Described, Side, Way, What};
use crate::claims::{Received, Sent};
use crate::convert::Counts;
use crate::state::Runtime;
use crate::types::*;

/// A reduction, checked: how elements are combined, and how many there are.
pub(crate) struct Reduction {
    operation: TypedOperator,
    pub operator: Operator,
    pub count: usize,
}

impl Reduction {
    fn new(runtime: &'static Runtime, count: i64, datatype: MPI_Datatype, op: MPI_Op) -> Result<Reduction> {
        let resolved = resolve_committed(runtime, datatype)?;
        let operation = operators::resolve(runtime, op, (&resolved, count), datatype)?;
        arguments::bytes_of(count, &resolved)?;
        let element_bytes = resolved.size() as usize;
        // Elements without data have nothing to combine, and a schedule cannot divide by their length.
        let (element_bytes, count) =
            if element_bytes == 0 { (1, 0) } else { (element_bytes, count as usize) };
        let operator = Operator { element_bytes, commutative: operation.commutative() };
        Ok(Reduction { operation, operator, count })
    }

    /// Compares the calls of all ranks (`WEFT_CHECK`); `more` is what must be the same beside operator and
    /// length.
    fn check(
        &self,
        way: &Way<'_>,
        comm: &Communicator,
        more: impl FnOnce() -> String,
        count: i64,
    ) -> Result<()> {
        way.check(comm, || {
            let call = way.name().to_string() + &more();
            match &self.operation {
                TypedOperator::Predefined(operator, basic) => {
                    format!("{call}, {operator}, {count} of {}", basic.name())
                }
                TypedOperator::Search(operator, pair) => {
                    format!("{call}, {operator}, {count} of {pair}")
                }
                TypedOperator::User { datatype, .. } => {
                    format!("{call}, an operator of the program, {}", amount(count, datatype))
                }
            }
        })
    }

    /// What its schedule depends on.
    fn shaped(&self, in_place: bool) -> collectives::Reduction {
        collectives::Reduction { count: self.count, operator: self.operator, in_place }
    }

    /// An operation that combines so.
    pub(crate) fn combining(self, described: Described) -> Described {
        Described { operation: Some(self.operation), ..described }
    }

    /// The operation on these buffers.
    fn describe(self, what: What, gives: Side<Sent>, gets: Side<Received>, loaded: bool) -> Described {
        self.combining(Described::new(what, gives, gets, loaded))
    }
}

/// Combines everybody's elements; the root gets the result.
pub fn mpi_reduce(
    sendbuf: Sent,
    recvbuf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let plain = plain::reduce(&way, (sendbuf, count, datatype), recvbuf, op, root, comm);
    if let Some(code) = plain {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        if let Some(two) = OverTwo::of(&way, comm) {
            let reduction = || Reduction::new(runtime, count, datatype, op);
            let gives = || across::part(runtime, sendbuf, count, datatype);
            let gets = || across::part(runtime, recvbuf, count, datatype);
            return two.reduce(root, reduction, gives, gets);
        }
        let root = arguments::root(comm, root)?;
        let (here, in_place) = (comm.rank() == root, is_in_place(sendbuf));
        match here {
            true => refuse_in_place(recvbuf)?,
            false => refuse_in_place(sendbuf)?,
        }
        let reduction = Reduction::new(runtime, count, datatype, op)?;
        reduction.check(&way, comm, || format!(", root {}", root.0), count)?;
        let (gives, _) = side(runtime, sendbuf, count, datatype, in_place)?;
        let (gets, _) = side(runtime, recvbuf, count, datatype, !here)?;
        let what = What::Even(Collective::Reduce(root, reduction.shaped(in_place)));
        Ok(reduction.describe(what, gives, gets, in_place))
    };
    way.call(comm, describe)
}

/// The arguments of a reduction whose result every rank gets.
struct Everywhere {
    sendbuf: Sent,
    recvbuf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
}

impl Everywhere {
    fn call(
        self,
        way: &Way<'_>,
        collective: fn(collectives::Reduction) -> Collective,
        crossing: Option<fn(usize, Operator) -> Crossing>,
    ) -> c_int {
        let Everywhere { sendbuf, recvbuf, count, datatype, op, comm } = self;
        let describe = |runtime, comm: &Communicator| {
            let in_place = is_in_place(sendbuf);
            if let Some(two) = OverTwo::of(way, comm) {
                refuse_in_place(recvbuf)?;
                let crossing = crossing.ok_or_else(|| two.refuse())?;
                let reduction = Reduction::new(runtime, count, datatype, op)?;
                let crossing = crossing(reduction.count, reduction.operator);
                let gives = across::part(runtime, sendbuf, count, datatype)?;
                let gets = across::part(runtime, recvbuf, count, datatype)?;
                return Ok(reduction.combining(two.even(crossing, gives, gets)?));
            }
            let reduction = Reduction::new(runtime, count, datatype, op)?;
            let collective = collective(reduction.shaped(in_place));
            // The first rank of an exclusive scan gets nothing, and need not say where (MPI 5.0 section
            // 6.11.2).
            let gets_nothing =
                matches!(collective, Collective::Exscan(_)) && comm.rank() == Rank(0) && !in_place;
            let (gives, _) = side(runtime, sendbuf, count, datatype, in_place)?;
            let gets = if gets_nothing {
                Side::none()
            } else {
                refuse_in_place(recvbuf)?;
                Side::whole(recvbuf, whole(runtime, count, datatype)?)
            };
            reduction.check(way, comm, String::new, count)?;
            // What stands in the output is loaded in any case: among those who live the first may be another
            // one.
            Ok(reduction.describe(What::Even(collective), gives, gets, !gets_nothing))
        };
        way.call(comm, describe)
    }
}

/// Combines everybody's elements; all get the result.
pub fn mpi_allreduce(
    sendbuf: Sent,
    recvbuf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    if let Some(code) = plain::allreduce(&way, sendbuf, (recvbuf, count, datatype), op, comm) {
        return code;
    }
    let everywhere = Everywhere { sendbuf, recvbuf, count, datatype, op, comm };
    everywhere.call(
        &way,
        Collective::Allreduce,
        Some(|count, operator| Crossing::Allreduce { count, operator }),
    )
}

/// Combines the elements of ranks 0 to this one.
pub fn mpi_scan(
    sendbuf: Sent,
    recvbuf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    if let Some(code) = plain::scan(&way, false, sendbuf, (recvbuf, count, datatype), op, comm) {
        return code;
    }
    let everywhere = Everywhere { sendbuf, recvbuf, count, datatype, op, comm };
    everywhere.call(&way, Collective::Scan, None)
}

/// Combines the elements of the ranks below this one.
pub fn mpi_exscan(
    sendbuf: Sent,
    recvbuf: Received,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    if let Some(code) = plain::scan(&way, true, sendbuf, (recvbuf, count, datatype), op, comm) {
        return code;
    }
    let everywhere = Everywhere { sendbuf, recvbuf, count, datatype, op, comm };
    everywhere.call(&way, Collective::Exscan, None)
}

/// Combines everybody's elements; each rank gets a block of the result.
pub fn mpi_reduce_scatter_block(
    sendbuf: Sent,
    recvbuf: Received,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let plain = plain::reduce_scatter_block(&way, sendbuf, (recvbuf, recvcount, datatype), op, comm);
    if let Some(code) = plain {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        let in_place = is_in_place(sendbuf);
        refuse_in_place(recvbuf)?;
        let total = recvcount.checked_mul(i64::from(comm.size())).ok_or_else(|| too_many(recvcount))?;
        let mut reduction = Reduction::new(runtime, recvcount, datatype, op)?;
        reduction.operation = reduction.operation.among(total);
        let (gives, gets) = blocks(runtime, (sendbuf, recvbuf), (total, recvcount), datatype, in_place)?;
        if let Some(two) = OverTwo::of(&way, comm) {
            refuse_in_place(sendbuf)?;
            let counts = vec![reduction.count; comm.size() as usize];
            let crossing = Crossing::ReduceScatter { counts, operator: reduction.operator };
            return Ok(reduction.combining(two.even(crossing, gives, gets)?));
        }
        reduction.check(&way, comm, String::new, recvcount)?;
        let what = What::Even(Collective::ReduceScatterBlock(reduction.shaped(in_place)));
        Ok(reduction.describe(what, gives, gets, in_place))
    };
    way.call(comm, describe)
}

/// Combines everybody's elements; each rank gets as many of the result as the counts say.
pub fn mpi_reduce_scatter(
    sendbuf: Sent,
    recvbuf: Received,
    recvcounts: Counts<'_>,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    way: Way<'_>,
) -> c_int {
    let plain = plain::reduce_scatter(&way, sendbuf, recvbuf, recvcounts, datatype, op, comm);
    if let Some(code) = plain {
        return code;
    }
    let describe = |runtime, comm: &Communicator| {
        let in_place = is_in_place(sendbuf);
        refuse_in_place(recvbuf)?;
        if recvcounts.is_null() {
            return Err(crate::claims::null("recvcounts"));
        }
        let counts: Vec<i64> = (0..comm.size() as usize).map(|rank| recvcounts.at(rank)).collect();
        if let Some(bad) = counts.iter().find(|&&count| count < 0) {
            return Err(too_many(*bad));
        }
        let total = counts.iter().try_fold(0i64, |sum, &count| sum.checked_add(count));
        let total = total.ok_or_else(|| too_many(i64::MAX))?;
        let mine = counts[comm.rank().0 as usize];
        let reduction = Reduction::new(runtime, total, datatype, op)?;
        let (gives, gets) = blocks(runtime, (sendbuf, recvbuf), (total, mine), datatype, in_place)?;
        let dataless = reduction.count == 0;
        let counts: Vec<usize> =
            counts.iter().map(|&count| if dataless { 0 } else { count as usize }).collect();
        if let Some(two) = OverTwo::of(&way, comm) {
            refuse_in_place(sendbuf)?;
            let crossing = Crossing::ReduceScatter { counts, operator: reduction.operator };
            return Ok(reduction.combining(two.even(crossing, gives, gets)?));
        }
        reduction.check(&way, comm, || format!(", {}", amounts(counts.iter().copied())), total)?;
        let lengths = counts.iter().map(|count| count * reduction.operator.element_bytes);
        let what = Uneven::ReduceScatter { operator: reduction.operator, in_place };
        let what = What::Uneven { what, sends: Some(collectives::packed(lengths)) };
        Ok(reduction.describe(what, gives, gets, in_place))
    };
    way.call(comm, describe)
}

/// The buffers of the two above. In place, the elements behind the result stay as they are, so it does no
/// harm that they are written back.
fn blocks(
    runtime: &'static Runtime,
    (sendbuf, recvbuf): (Sent, Received),
    (total, mine): (i64, i64),
    datatype: MPI_Datatype,
    in_place: bool,
) -> Result<(Side<Sent>, Side<Received>)> {
    let room = if in_place { total } else { mine };
    let (gives, _) = side(runtime, sendbuf, total, datatype, in_place)?;
    Ok((gives, Side::whole(recvbuf, whole(runtime, room, datatype)?)))
}

#[cold]
fn too_many(count: i64) -> Error {
    Error::new(Class::Count, format!("the count is {count}"))
}
