//! Blocking collective operations that combine data (MPI 5.0 §6.9 to §6.11).

use std::ffi::{c_int, c_void};

use weft::collectives::{self, Collective, Operator, Schedule};
use weft::{Class, Communicator, Error, Result};

use crate::arguments;
use crate::bodies::collectives::{amount, amounts, give, is_in_place, refuse_in_place, whole};
use crate::bodies::datatypes::resolve_committed;
use crate::bodies::operators::{self, Operation};
use crate::convert::Counts;
use crate::entry::Target;
use crate::parts::{Input, Output};
use crate::state::{Runtime, call};
use crate::types::*;

/// A reduction, checked: how elements are combined, and how many there are.
struct Reduction {
    operation: Operation,
    operator: Operator,
    count: usize,
}

impl Reduction {
    fn new(runtime: &'static Runtime, count: i64, datatype: MPI_Datatype, op: MPI_Op) -> Result<Reduction> {
        let resolved = resolve_committed(runtime, datatype)?;
        let operation = operators::resolve(runtime, op, &resolved, datatype)?;
        arguments::bytes_of(count, &resolved)?;
        let element_bytes = resolved.size() as usize;
        // Elements without data have nothing to combine, and a schedule cannot divide by their length.
        let (element_bytes, count) =
            if element_bytes == 0 { (1, 0) } else { (element_bytes, count as usize) };
        let operator = Operator { element_bytes, commutative: operation.commutative() };
        Ok(Reduction { operation, operator, count })
    }

    /// Compares the calls of all ranks (`WEFT_CHECK`).
    fn check(&self, comm: &Communicator, name: &str, count: i64) -> Result<()> {
        comm.check(|| match &self.operation {
            Operation::Predefined(operator, basic) => {
                format!("{name}, {operator}, {count} of {}", basic.name())
            }
            Operation::User { datatype, .. } => {
                format!("{name}, an operator of the program, {}", amount(count, datatype))
            }
        })
    }

    /// What its schedule depends on.
    fn shaped(&self, in_place: bool) -> collectives::Reduction {
        collectives::Reduction { count: self.count, operator: self.operator, in_place }
    }

    /// Does the operation, and brings the result to its place.
    fn perform(
        &self,
        comm: &Communicator,
        collective: Collective,
        input: &Input,
        mut output: Output,
    ) -> Result<()> {
        comm.perform(collective, input.payload, output.lend(), &mut |input, inout| {
            self.operation.apply(input, inout);
        })?;
        output.finish()
    }

    /// Runs the schedule, and brings the result to its place.
    fn run(&self, comm: &Communicator, schedule: Schedule, input: &Input, mut output: Output) -> Result<()> {
        comm.run(schedule, input.payload, output.lend(), &mut |input, inout| {
            self.operation.apply(input, inout);
        })?;
        output.finish()
    }
}

/// Combines everybody's elements; the root gets the result.
///
/// # Safety
/// `sendbuf` holds `count` elements; at the root `recvbuf` has room for as many.
pub unsafe fn mpi_reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Reduce", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let root = arguments::root(comm, root)?;
        let (here, in_place) = (comm.rank() == root, is_in_place(sendbuf));
        if here {
            refuse_in_place(recvbuf)?;
        } else {
            refuse_in_place(sendbuf)?;
        }
        let reduction = Reduction::new(runtime, count, datatype, op)?;
        reduction.check(comm, &format!("MPI_Reduce, root {}", root.0), count)?;
        // SAFETY: the program's promises are handed on.
        let (input, output) = unsafe {
            let input = give(runtime, sendbuf, count, datatype, in_place)?;
            let output = match here {
                true => Output::new(recvbuf, &whole(runtime, count, datatype)?, in_place)?,
                false => Output::none(),
            };
            (input, output)
        };
        reduction.perform(comm, Collective::Reduce(root, reduction.shaped(in_place)), &input, output)
    })
}

/// The arguments of a reduction whose result every rank gets.
struct Everywhere {
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
}

impl Everywhere {
    /// # Safety
    /// `sendbuf` holds `count` elements, and `recvbuf` has room for as many.
    unsafe fn call(self, name: &'static str, collective: fn(collectives::Reduction) -> Collective) -> c_int {
        let Everywhere { sendbuf, recvbuf, count, datatype, op, comm } = self;
        call(name, Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            let comm = &object.comm;
            let in_place = is_in_place(sendbuf);
            refuse_in_place(recvbuf)?;
            let reduction = Reduction::new(runtime, count, datatype, op)?;
            let pieces = whole(runtime, count, datatype)?;
            // SAFETY: the caller's promises are handed on. What stands in the output is loaded in any case, since
            // the first rank of an exclusive scan leaves it as it is.
            let (input, output) = unsafe {
                let input = give(runtime, sendbuf, count, datatype, in_place)?;
                (input, Output::new(recvbuf, &pieces, true)?)
            };
            reduction.check(comm, name, count)?;
            reduction.perform(comm, collective(reduction.shaped(in_place)), &input, output)
        })
    }
}

/// Combines everybody's elements; all get the result.
///
/// # Safety
/// `sendbuf` holds `count` elements, and `recvbuf` has room for as many.
pub unsafe fn mpi_allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    let everywhere = Everywhere { sendbuf, recvbuf, count, datatype, op, comm };
    // SAFETY: the program's promises are handed on.
    unsafe { everywhere.call("MPI_Allreduce", Collective::Allreduce) }
}

/// Combines the elements of ranks 0 to this one.
///
/// # Safety
/// `sendbuf` holds `count` elements, and `recvbuf` has room for as many.
pub unsafe fn mpi_scan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    let everywhere = Everywhere { sendbuf, recvbuf, count, datatype, op, comm };
    // SAFETY: the program's promises are handed on.
    unsafe { everywhere.call("MPI_Scan", Collective::Scan) }
}

/// Combines the elements of the ranks below this one.
///
/// # Safety
/// `sendbuf` holds `count` elements, and `recvbuf` has room for as many.
pub unsafe fn mpi_exscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    let everywhere = Everywhere { sendbuf, recvbuf, count, datatype, op, comm };
    // SAFETY: the program's promises are handed on.
    unsafe { everywhere.call("MPI_Exscan", Collective::Exscan) }
}

/// Combines everybody's elements; each rank gets a block of the result.
///
/// # Safety
/// `sendbuf` holds `recvcount` elements for every rank, and `recvbuf` has room for `recvcount`; in place `recvbuf`
/// holds the elements for every rank.
pub unsafe fn mpi_reduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Reduce_scatter_block", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let in_place = is_in_place(sendbuf);
        refuse_in_place(recvbuf)?;
        let reduction = Reduction::new(runtime, recvcount, datatype, op)?;
        let total = recvcount.checked_mul(i64::from(comm.size())).ok_or_else(|| too_many(recvcount))?;
        // SAFETY: the program's promises are handed on.
        let (input, output) =
            unsafe { blocks(runtime, sendbuf, recvbuf, total, recvcount, datatype, in_place)? };
        reduction.check(comm, "MPI_Reduce_scatter_block", recvcount)?;
        let scattered = Collective::ReduceScatterBlock(reduction.shaped(in_place));
        reduction.perform(comm, scattered, &input, output)
    })
}

/// Combines everybody's elements; each rank gets as many of the result as the counts say.
///
/// # Safety
/// As for [`mpi_reduce_scatter_block`]; `recvcounts` has an entry for every rank.
pub unsafe fn mpi_reduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    call("MPI_Reduce_scatter", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let comm = &object.comm;
        let in_place = is_in_place(sendbuf);
        refuse_in_place(recvbuf)?;
        if recvcounts.is_null() {
            return Err(crate::bodies::world::null("recvcounts"));
        }
        // SAFETY: not null, and the program promised an entry for every rank.
        let counts: Vec<i64> = (0..comm.size() as usize).map(|rank| unsafe { recvcounts.at(rank) }).collect();
        if let Some(bad) = counts.iter().find(|&&count| count < 0) {
            return Err(too_many(*bad));
        }
        let total = counts.iter().try_fold(0i64, |sum, &count| sum.checked_add(count));
        let total = total.ok_or_else(|| too_many(i64::MAX))?;
        let mine = counts[comm.rank().0 as usize];
        let reduction = Reduction::new(runtime, total, datatype, op)?;
        // SAFETY: the program's promises are handed on.
        let (input, output) = unsafe { blocks(runtime, sendbuf, recvbuf, total, mine, datatype, in_place)? };
        let lengths = counts.iter().map(|&count| count as usize);
        reduction.check(comm, &format!("MPI_Reduce_scatter, {}", amounts(lengths)), total)?;
        let dataless = reduction.count == 0;
        let counts: Vec<usize> =
            counts.iter().map(|&count| if dataless { 0 } else { count as usize }).collect();
        let schedule = collectives::reduce_scatter(&comm.shape(), &counts, reduction.operator, in_place);
        reduction.run(comm, schedule, &input, output)
    })
}

/// The buffers of the two above.
///
/// # Safety
/// See [`mpi_reduce_scatter_block`].
unsafe fn blocks(
    runtime: &'static Runtime,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    total: i64,
    mine: i64,
    datatype: MPI_Datatype,
    in_place: bool,
) -> Result<(Input, Output)> {
    let room = if in_place { total } else { mine };
    // SAFETY: the caller's promise is handed on. In place, the elements behind the result are scratch (MPI 5.0
    // §6.10), so it does no harm that they are written back as they were.
    unsafe {
        let input = give(runtime, sendbuf, total, datatype, in_place)?;
        Ok((input, Output::new(recvbuf, &whole(runtime, room, datatype)?, in_place)?))
    }
}

#[cold]
fn too_many(count: i64) -> Error {
    Error::new(Class::Count, format!("the count is {count}"))
}
