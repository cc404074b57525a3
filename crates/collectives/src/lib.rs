//! Collective operations as schedules, and their executor.
//!
//! A [`Schedule`] is one rank's part of a collective operation as plain data: send, receive, copy, reduce,
//! wait. Each function here makes one, from nothing but the rank, the number of ranks and the lengths; so a
//! schedule can be printed, checked and counted without a job, for a million ranks as well as for two. An
//! [`Execution`] runs a schedule on an engine, a chunk at each call, and never waits: blocking, nonblocking
//! and persistent operations differ only in who calls it, and when.
//!
//! All lengths are bytes of *packed* data: elements stand one behind the other. Whoever has datatypes with
//! gaps packs and unpacks around the schedule. All ranks must ask for the same collective with the same
//! lengths and the same root; then they choose the same algorithm and their schedules fit.
//!
//! **In place.** Where `in_place` is true, the rank's own contribution stands in the output and its input is
//! not looked at (MPI 5.0 §6.2.1 and the operations' own sections). The messages are the same either way.
//!
//! **Order of operands.** A reduction gives a(0) op a(1) op … op a(p-1). Operators are associative; only
//! where they are said to be commutative does an algorithm change the order (MPI 5.0 §6.9.1).
//!
//! ```
//! use collectives::{Rank, Shape, bcast};
//! let middle = bcast(&Shape::new(Rank(2), 4), Rank(0), 1000);
//! let text = "bcast by binomial tree: 3 steps, 0 scratch bytes
//!   receive output 0..1000 from rank 0
//!   wait
//!   send    output 0..1000 to rank 3
//! ";
//! assert_eq!(middle.to_string(), text);
//! ```
//!
//! **Invariant:** knows no environment, clock, socket or file; `unsafe` in `memory` alone, for one promise.

mod across;
mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod blocks;
mod choice;
mod circulant;
mod collective;
mod combining;
mod cost_model;
mod costs;
mod execution;
mod folding;
mod gather;
mod hierarchy;
mod masked;
mod memory;
mod names;
mod neighbourhood;
mod nested;
pub mod node;
mod pipeline;
mod reduce;
mod reduce_scatter;
mod scan;
mod scatter;
mod schedule;
mod shape;
mod simulation;
mod tree;
mod uneven;

pub use across::{Across, Crossing, LivingAcross, Root};
pub use allgather::{Allgather, allgather, allgatherv};
pub use allreduce::{Allreduce, allreduce};
pub use alltoall::{Alltoall, alltoall, alltoallv};
pub use barrier::{Barrier, barrier};
pub use bcast::{Bcast, bcast};
pub use blocks::{Block, packed};
pub use choice::{OneMessageOfTwo, TuningConfig};
pub use collective::{Candidate, Collective, Each, Reduction, Rooted};
pub use combining::{BitReversedOrder, COMBINED_BY_ALL_BYTES_MAX, combining_order};
pub use costs::{Costs, HierarchyLevel, Link, Work};
pub use execution::{Activity, Advance, Buffers, Cause, Execution, Failed, ReduceFn, judge};
pub use gather::{Gather, gather, gatherv};
pub use hierarchy::{Hierarchy, Run};
pub use masked::{Among, Masked, Packed};
pub use messaging::Rank;
pub use names::{Forced, NotForced, OPERATIONS, names_of};
pub use neighbourhood::{Around, Neighbourhood, Surround};
pub use reduce::{Reduce, reduce, reducing_order};
pub use reduce_scatter::{ReduceScatter, reduce_scatter, reduce_scatter_block};
pub use scan::{exscan, scan, scanning_order};
pub use scatter::{Scatter, scatter, scatterv};
pub use schedule::{Buffer, Schedule, Span, Step};
pub use shape::{Cores, Operator, Shape};
pub use simulation::{Forecast, forecast};
pub use uneven::{Listed, Uneven};
