//! Which way messages go to a process, and what shared memory costs: for people who ask.

use fabric::Fabric;

use crate::constants::Constants;
use crate::error::{Class, Error, Result};
pub use crate::fabrics::Thoroughness;
use crate::fabrics::{Fabrics, Lane};

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
        /// Messages of up to so many bytes are sent at once, too, while there are free slots for all of them;
        /// 0 where none is.
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
    /// The time of one way of an empty message.
    pub hand_over_ns: f64,
    /// The times of one way of messages that are copied.
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

impl Fabrics {
    /// What people are told of a lane.
    #[must_use]
    pub fn account(&self, lane: Lane) -> LaneAccount {
        LaneAccount {
            fabric: lane.fabric(),
            over: self.over(lane),
            eager_bytes_max: self.limits(lane).eager_bytes_max,
            large: self.large(lane),
        }
    }
}
