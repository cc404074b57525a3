//! Which way messages go between the processes of a job, why, and what that way costs: for people who ask.

use std::time::Instant;

use fabric::{Fabric, Peer};
use messaging::Rank;

use crate::communicator::Communicator;
use crate::config::Config;
use crate::constants::{Constants, Found};
use crate::error::{Class, Error, Result};
pub use crate::fabrics::Effort;
use crate::fabrics::{self, Fabrics, Lane};
use crate::process::Process;

/// The lane to one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneAccount {
    /// The fabric that was chosen: `shm`, `tcp`, `libfabric`, or `loopback` to oneself.
    pub fabric: &'static str,
    /// What that fabric uses, where it has a choice: a provider, with its network cards.
    pub over: Option<String>,
    /// Up to here a message is sent at once.
    pub eager_bytes_max: usize,
    /// How larger ones go, once their receiver is known.
    pub large: Large,
}

/// How large messages go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Large {
    /// The receiver reads the sender's memory (CMA): tried, and allowed.
    Pulled {
        /// Those of up to so many bytes are sent at once, too, while there is room for all of them; 0 where none is.
        at_once_bytes_max: usize,
        /// From here on the sender helps, and writes parts into the receiver's memory.
        shared_bytes_min: usize,
    },
    /// Copied through shared memory, as reading was not allowed.
    Copied {
        /// Why not.
        why: String,
    },
    /// The receiver reads the sender's memory over the network.
    Read,
    /// Sent when the receiver has asked.
    Sent,
}

/// Times in nanoseconds, with the bytes they were measured for.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// One way of an empty message.
    pub hand_over_ns: f64,
    /// One way of messages that are copied.
    pub copied: Vec<(usize, f64)>,
    /// Reads of the other process's memory; none where they are refused.
    pub pulled: Vec<(usize, f64)>,
}

impl Measured {
    /// The lesser of two times for each.
    #[must_use]
    pub fn or_less(&self, other: &Measured) -> Measured {
        let least = |times: &[(usize, f64)], others: &[(usize, f64)]| {
            times.iter().zip(others).map(|(&(bytes, one), &(_, other))| (bytes, one.min(other))).collect()
        };
        Measured {
            hand_over_ns: self.hand_over_ns.min(other.hand_over_ns),
            copied: least(&self.copied, &other.copied),
            pulled: least(&self.pulled, &other.pulled),
        }
    }

    /// The constants that follow.
    ///
    /// # Errors
    /// When the times fit no line: something else ran in between.
    pub fn constants(&self) -> Result<Constants> {
        Constants::fit(self.hand_over_ns, &self.copied, &self.pulled).ok_or_else(|| {
            Error::new(Class::Other, "what was measured makes no sense")
                .remedy("measure again while nothing else runs on this machine")
        })
    }
}

impl Process {
    /// The lane to a process that was spoken to; none to others, since a lane is chosen at the first message.
    #[must_use]
    pub fn lane(&self, peer: Peer) -> Option<LaneAccount> {
        self.with_engine(|engine| {
            let lane = engine.lane(peer)?;
            Some(account(engine.fabric(), lane))
        })
    }

    /// The names of the fabrics that are open here.
    #[must_use]
    pub fn fabrics(&self) -> Vec<&'static str> {
        self.with_engine(|engine| engine.fabric().open_names())
    }

    /// The constants of the cost model in use, and where they are from; none where no memory is shared.
    #[must_use]
    pub fn constants(&self) -> Option<Found> {
        self.with_engine(|engine| engine.fabric().constants().cloned())
    }
}

fn account(fabrics: &Fabrics, lane: Lane) -> LaneAccount {
    LaneAccount {
        fabric: lane.fabric(),
        over: fabrics.over(lane),
        eager_bytes_max: fabrics.limits(lane).eager_bytes_max,
        large: fabrics.large(lane),
    }
}

/// Measures shared memory between rank 0 of `world` and another one, who both must call and be on one node.
///
/// # Errors
/// What kept them from it.
pub fn measure(world: &Communicator, other: Rank, config: &Config, effort: Effort) -> Result<Measured> {
    match world.rank() {
        Rank(0) => fabrics::measure_first(config, effort, |card| world.send(&card, other, TAG)),
        _ => {
            let (card, _) = world.receive::<u8>(Rank(0), TAG)?;
            fabrics::measure_second(config, effort, &card)
        }
    }
}

/// One way of an empty message between rank 0 of `world` and another one, who both must call: the least of some runs.
///
/// # Errors
/// What kept them from it.
pub fn message_ns(world: &Communicator, other: Rank) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        for _ in 0..TURNS {
            if world.rank() == Rank(0) {
                world.send::<u8>(&[], other, TAG)?;
                world.receive::<u8>(other, TAG)?;
            } else {
                world.receive::<u8>(Rank(0), TAG)?;
                world.send::<u8>(&[], Rank(0), TAG)?;
            }
        }
        least = least.min(start.elapsed().as_nanos() as f64 / (2 * TURNS) as f64);
    }
    Ok(least)
}

const TAG: i32 = 1;
const RUNS: usize = 20;
const TURNS: usize = 20;
