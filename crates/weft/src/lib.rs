//! Message passing for Rust over pluggable fabrics: MPI's nouns as Rust values.
//!
//! A [`Session`] joins the job; its world is a [`Communicator`]; ranks send slices and vectors of numbers to
//! each other and combine them.
//!
//! ```
//! use weft::{Config, Operator, Rank};
//!
//! // Ranks are processes under `weftrun`; here they are four threads.
//! let sums = weft::run_threads(4, &Config::default(), |session| {
//!     let world = session.world();
//!     if world.rank() == Rank(0) {
//!         world.send(&[1.5f64, 2.5], Rank(1), 7).unwrap();
//!     } else if world.rank() == Rank(1) {
//!         let (values, status) = world.receive::<f64>(Rank(0), 7).unwrap();
//!         assert_eq!((values, status.source), (vec![1.5, 2.5], Rank(0)));
//!     }
//!     world.all_reduce(&[world.rank().0], Operator::Sum).unwrap()[0]
//! })?;
//! assert_eq!(sums, [6, 6, 6, 6]);
//! # Ok::<(), weft::Error>(())
//! ```
//!
//! Structs are messages too, by `derive(`[`Datatype`](trait@Datatype)`)`; columns of a matrix are
//! [`Strided`]; requests own their values and are futures, which [`block_on`] or any executor waits for.
//!
//! Errors are values: what C reports to an error handler is the `Err` of a call here, with its [`Class`] and
//! a sentence for a person; nothing ends the job but a panic or [`Process::abort`]. A library hangs its own
//! data on a communicator under a [`Key`], and asks a session for [another](Session::another). `WEFT_CHECK=1`
//! compares collective calls between ranks.
//!
//! **Invariants.** A rank is a value, never a process global: a test runs four ranks as four threads. No
//! fabric is named here: `job` makes one of them all.

// `weft::tell` writes a line in one piece, so that those of several ranks do not get mixed.
#![deny(clippy::print_stderr)]

mod attributes;
mod background;
mod cartesian;
mod communicator;
mod contexts;
#[cfg(feature = "crash-points")]
#[doc(hidden)]
pub mod crash;
mod future;
mod group;
pub mod lanes;
mod memory;
mod process;
mod recent;
mod scattered;
mod segments;
mod session;
pub mod sets;
mod strided;
mod typed;
mod values;
mod window;

pub use attributes::Key;
pub use cartesian::{Cartesian, CartesianBuilder, Neighbour, Shift};
pub use collectives;
pub use communicator::{
    Agreed, AgreeingFailed, BlankPartner, Brings, CollectiveMode, Combining, Communicator, Duplicating, Edge,
    FtModes, Intercommunicator, Ongoing, PartitionedReceive, PartitionedSend, Received, RecoverFlags,
    Recovery, SplitBy, SplitPart, Status, Topology, hardware,
};
pub use datatype::Operator;
pub use derive::Datatype;
pub use fabric::Peer;
pub use future::block_on;
pub use group::{Comparison, Group, Peers, RankRange};
pub use job::config::{
    Config, CpuTime, FabricName, FtMode, InitialErrors, MessageMode, SetOfRanks, VARIABLES, Variable, Wait,
};
pub use job::constants::{Constants, ConstantsFrom, Found, Line, Owner};
pub use job::error::{Class, Error, Result, Told};
pub use job::fabrics::{Lane, SharedHeap};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use job::fuzzing;
pub use job::lock::{Guard, Lock, OwnedGuard, Threads};
pub use job::numa_partition::Parts;
pub use job::tuning::CostsFrom;
pub use job::{Besides, doctor, launch, tell};
pub use memory::{Allocation, Datatype, Shareable, Transferable};
pub use messaging::{ErrorRange, Rank};
pub use process::{Process, WaitListEntry};
pub use process_manager::{Protocol, Wishes};
pub use segments::Segments;
pub use session::{Session, run_threads, run_threads_for};
pub use strided::{Strided, StridedMut};
pub use topology::{
    Adjacent, Graph, Grid, Level, NotAGraph, NotAGrid, NotAStencil, Offset, Placement, Stencil, WEIGHT_MAX,
    Weights, dims_create,
};
pub use typed::{Begins, FromMessage, NotBegun, OwnedRequest};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use window::fuzz_window_request;

pub use window::{
    Begun, Change, CompletedBy, Extent, FencePromises, Flavor, LockKind, Operands, SharedPlacement,
    SharedWindow, TargetElements, Window,
};

/// What this process knows of its machine.
pub mod machine {
    pub use job::machine::{KnownMachine, MachineFrom, Origin, SwitchesFrom, Trouble};
}

/// What a type holds, for those who implement [`Datatype`] by hand.
pub mod shape {
    pub use datatype::{Predefined, ShapePart, TypeShape};
}

/// Claims on memory, and requests by name: what the C interface is built on.
pub mod claims {
    pub use crate::communicator::{Called, CombineFn, OwnedCombining, SentCombineFn};
    pub use crate::scattered::{Gathered, Scattered};
    pub use fabric::{Heap, Payload, Pool, Room, UserMemory, copy, made};
    pub use messaging::{Data, Lent, Message, Mode, Outcome, Probed, Receiving, RequestId, Sending, Target};
}
