//! What operations take by parts in which each rank has a block for every other.

use super::{CostModel, PredictedCost, RankPlacement};
use crate::alltoall::PAIRS_AT_ONCE;
use crate::choice::Asked;
use crate::{Reduce, ReduceScatter, Scatter};

impl CostModel<'_> {
    /// Within each of the widest parts, a message between any two of them, and within them again; with copies
    /// between.
    pub(super) fn alltoall_by_parts(&self, bytes: usize) -> PredictedCost {
        // The smallest part says how many slices there are, and has most parts for a rank to serve; the
        // largest has the most bytes.
        let ((least, most), parts) =
            (self.least_and_most_of_part(), self.size.div_ceil(self.ranks_of_part()));
        let (served, slices) = (parts.div_ceil(least), (least / parts).max(1));
        let served_by_most = parts.div_ceil(most);
        let (wide, narrow) = (most as usize, most.div_ceil(slices) as usize);
        let (row, message) = (bytes * narrow * served_by_most as usize, bytes * wide * narrow);
        let largest = self.within_part_of(most);
        let within = largest.each_to_all(row) + largest.copies(row);
        let within = PredictedCost { work: within.work * f64::from(parts), ..within };

        let crossing = (parts - 1) * slices;
        let path = if self.has_nodes() {
            // The largest sends most, over all.
            let away = (wide * (self.size - most) as usize).div_ceil(crossing as usize);
            self.far_message(bytes * away, crossing)
        } else {
            self.near_message_both_ways(message, self.near()) * f64::from(served)
        };
        let path = path + 2.0 * self.costs.step_ns * f64::from(served - 1);
        let work = self.handling(message) * f64::from(parts) * f64::from(crossing);
        let between = PredictedCost { path, work, waits: f64::from(served.div_ceil(PAIRS_AT_ONCE)) };

        // A chunk of each rank for each part that is served, and then a block of each rank there for each
        // here.
        let chunks = self.costs.copy.fixed_ns * (wide * (narrow + 1)) as f64;
        let path = (chunks + 2.0 * self.costs.copy.byte_ns * message as f64) * f64::from(served_by_most);
        let servants = f64::from(parts) * f64::from((parts * slices).min(most));
        let sorting = PredictedCost { path, work: path * servants, waits: 0.0 };
        within * 2.0 + between + sorting + self.sorting_by_place(bytes) * 2.0
    }

    /// To one rank of each of the widest parts, between these, and from each to the ranks of its part.
    pub(super) fn reduce_scatter_by_leaders(&self, asked: Asked) -> PredictedCost {
        self.in_each_part::<Reduce>(asked.of_blocks(self.size))
            + self.sorting_by_place(asked.bytes)
            + self.among_parts::<ReduceScatter>(asked.of_blocks(self.ranks_of_part()))
            + self.in_each_part::<Scatter>(asked)
    }

    /// Each rank has its slice of the blocks of all, and all ranks of a part are between the parts at once.
    pub(super) fn reduce_scatter_in_slices(&self, asked: Asked) -> PredictedCost {
        let (least, _) = self.least_and_most_of_part();
        let lanes = CostModel { beside: least, ..self.between() };
        // There are as many lanes as the smallest part has ranks, and they share all blocks.
        let of_lane = asked.bytes * self.size as usize / least as usize;
        let of_part = of_lane.div_ceil(lanes.size as usize);
        let across = lanes.around(of_part, self.costs.combine) + lanes.copies(of_part);
        self.copies_of_blocks(asked.bytes)
            + self.in_each_part::<ReduceScatter>(Asked { bytes: of_lane, ..asked })
            + PredictedCost { work: across.work * f64::from(least), ..across }
    }

    /// The blocks of all ranks are copied into the order of places, where that is another one.
    fn sorting_by_place(&self, bytes: usize) -> PredictedCost {
        match self.seating {
            RankPlacement::Mixed => self.copies_of_blocks(bytes),
            RankPlacement::Plain | RankPlacement::InOrder => PredictedCost::default(),
        }
    }

    /// Everybody copies a block of each rank, one by one.
    fn copies_of_blocks(&self, bytes: usize) -> PredictedCost {
        self.copies(bytes) * f64::from(self.size)
    }
}

impl Asked {
    /// What is asked of an operation on `blocks` blocks of this length together.
    fn of_blocks(self, blocks: u32) -> Asked {
        Asked { bytes: self.bytes * blocks as usize, ..self }
    }
}
