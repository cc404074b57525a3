//! The shm fabric: messages between processes of one node, through rings in shared memory.
//!
//! A launcher makes a [`Segment`] and hands its descriptor down; where there is none, [`Offer`] and [`fetch`]
//! pass one over a socket. Each process opens a [`Shm`] on its process slot. Small messages are one cache
//! line, larger ones go through the ring in chunks, and large ones can be pulled straight out of the peer's
//! memory where the kernel allows it.
//!
//! The file to begin with is `channel`; `layout` draws what stands where; `docs/decisions/0002` says why.
//!
//! **Invariants:** it does not know what a tag means. Only `memory` touches shared bytes and only `sync`
//! names atomics. What a peer writes is checked before use. A peer that dies leaves nothing half done for
//! others, and is lost to those who wait for it.

// A fabric tells its caller, who tells the person.
#![deny(clippy::print_stderr)]
#![cfg_attr(loom, allow(dead_code, reason = "the models use the lock-free parts only"))]

mod channel;
mod cooperative_copy;
mod layout;
mod memory;
mod process_slot;
mod ring;
mod single_slot;
mod slot_table;
mod staging_buffers;
mod sync;

#[cfg(not(loom))]
mod anonymous;
#[cfg(not(loom))]
mod bell;
#[cfg(not(loom))]
mod choices;
mod cma;
#[cfg(not(loom))]
mod collective_segment;
#[cfg(not(loom))]
mod common;
#[cfg(not(loom))]
mod failure_log;
#[cfg(all(feature = "fuzzing", not(loom)))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(not(loom))]
mod handout;
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod liveness;
#[cfg(not(loom))]
mod measure;
#[cfg(not(loom))]
mod presence;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod shm;
#[cfg(not(loom))]
mod system;
#[cfg(not(loom))]
mod wait_states;

#[cfg(all(test, not(loom)))]
mod hostile_tests;
#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(not(loom))]
pub use crate::{
    anonymous::{anew, memfd_refusal},
    bell::ShmBell,
    choices::Ways,
    cma::{MemoryCard, OfferedMemory, PeerMemory, Refusal, least_read_ns},
    collective_segment::{CollectiveSegment, CollectiveSegments},
    common::Common,
    failure_log::{Answer, FailureLog, FailureLogWriter},
    handout::{HandoutError, Offer, fetch},
    heap::{NoBlock, SharedHeap},
    liveness::{LivenessDescriptor, LivenessDescriptors},
    measure::{Measured, Thoroughness, measure},
    segment::{Segment, SegmentError},
    shm::explain::{Explained, PullExplained},
    shm::{Settings, Shm, ShmLane},
    system::{NoSignals, be_prompt, same_user, second_cache_bytes},
    wait_states::{WaitState, WaitStates, WaitStatesReader},
};
