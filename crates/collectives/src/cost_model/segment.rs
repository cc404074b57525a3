//! What operations through a segment with slots take ([`node`](crate::node)).

use super::{CostModel, PredictedCost};
use crate::simulation::SHARED_CORES;

/// One round of an operation through a segment: what each member that gives does in it, and each that hears.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct SegmentRound {
    /// How often it comes.
    pub times: usize,
    /// How many members give something.
    pub givers: u32,
    /// How many bytes each of them gives.
    pub gives: usize,
    /// How many members hear others.
    pub hearers: u32,
    /// How many others each of them hears.
    pub hears: u32,
    /// How many bytes it reads of each of these.
    pub reads: usize,
    /// Whether it combines what it reads.
    pub combines: bool,
}

impl CostModel<'_> {
    /// What rounds through a segment take, in nanoseconds.
    pub(crate) fn through_segment_ns(&self, rounds: &[SegmentRound]) -> f64 {
        self.ns(rounds.iter().map(|round| self.round(round)).sum())
    }

    /// A byte that goes through shared memory is written once and read by each who hears it: half of what a
    /// byte of a message that is sent at once takes.
    fn round(&self, round: &SegmentRound) -> PredictedCost {
        let (costs, link) = (self.costs, self.near());
        let byte_ns = link.eager_byte_ns / 2.0;
        let hears = f64::from(round.hears);
        let giving = costs.step_ns + byte_ns * round.gives as f64;
        let combining = if round.combines { costs.combine.of_ns(round.reads) * hears } else { 0.0 };
        let hearing = costs.step_ns + byte_ns * round.reads as f64 * hears + combining;
        let awaiting = link.latency_ns * (1.0 + (hears - 1.0).max(0.0) / LINES_AT_ONCE);
        // Who gives and hears nothing gives the next one meanwhile.
        let is_apart = round.givers + round.hearers <= self.size;
        let times = round.times as f64;
        let path = match is_apart {
            true => giving + times * (awaiting + hearing.max(giving)),
            false => times * (giving + awaiting + hearing),
        };
        // While one member alone is at work, other cores have nothing to do.
        let busy = |members: u32| f64::from(members.max(SHARED_CORES.min(self.size)));
        let work = times * (giving * busy(round.givers) + hearing * busy(round.hearers));
        PredictedCost { path, work, waits: times * f64::from(round.hearers) / f64::from(self.size) }
    }
}

/// Reads of lines that several cores have written overlap: so many take the time of one.
const LINES_AT_ONCE: f64 = 3.0;
