//! Which way messages go between the processes of a job, why, and what that way costs: for people who ask.

use std::time::Instant;

use fabric::Peer;
use job::config::Config;
use job::constants::Found;
use job::error::Result;
use job::fabrics;
use messaging::Rank;

use crate::communicator::Communicator;
use crate::process::Process;
pub use job::lanes::{LaneAccount, Large, Measured, Thoroughness};

impl Process {
    /// The lane to a process that was spoken to; none to others, since a lane is chosen at the first message.
    #[must_use]
    pub fn lane(&self, peer: Peer) -> Option<LaneAccount> {
        self.with_engine(|engine| {
            let lane = engine.lane(peer)?;
            Some(engine.fabric().account(lane))
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

/// Measures shared memory between rank 0 of `world` and another one, who both must call and be on one node.
///
/// # Errors
/// What kept them from it.
pub fn measure(
    world: &Communicator,
    other: Rank,
    config: &Config,
    thoroughness: Thoroughness,
) -> Result<Measured> {
    match world.rank() {
        Rank(0) => fabrics::measure_first(config, thoroughness, |card| world.send(&card, other, TAG)),
        _ => {
            let (card, _) = world.receive::<u8>(Rank(0), TAG)?;
            fabrics::measure_second(config, thoroughness, &card)
        }
    }
}

/// The time of one way of an empty message between rank 0 of `world` and rank `other`, in nanoseconds: the
/// least of some runs. Both ranks must call.
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
