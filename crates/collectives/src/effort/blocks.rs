//! What operations take by parts in which each rank has a block for every other.

use super::{Effort, Seating, Terrain};
use crate::alltoall::PAIRS_AT_ONCE;
use crate::choice::Asked;
use crate::{Reduce, ReduceScatter, Scatter};

impl Terrain<'_> {
    /// Within each of the widest parts, a message between any two of them, and within them again; with copies between.
    pub(super) fn alltoall_by_parts(&self, bytes: usize) -> Effort {
        let (together, parts) = (self.ranks_of_part(), self.size.div_ceil(self.ranks_of_part()));
        let (served, slices) = (parts.div_ceil(together), (together / parts).max(1));
        let (wide, narrow) = (together as usize, together.div_ceil(slices) as usize);
        let (row, message) = (bytes * narrow * served as usize, bytes * wide * narrow);
        let within = self.within().each_to_all(row) + self.within().copies(row);
        let within = Effort { work: within.work * f64::from(parts), ..within };

        let crossing = (parts - 1) * slices;
        let path = if self.has_nodes() {
            self.far_message(message, crossing)
        } else {
            self.near_message_both_ways(message, self.near()) * f64::from(served)
        };
        let path = path + 2.0 * self.costs.step_ns * f64::from(served - 1);
        let work = self.handling(message) * f64::from(parts) * f64::from(crossing);
        let between = Effort { path, work, waits: f64::from(served.div_ceil(PAIRS_AT_ONCE)) };

        // A piece of each rank for each part that is served, and then a block of each rank there for each here.
        let pieces = self.costs.copy.fixed_ns * (wide * (narrow + 1)) as f64;
        let path = (pieces + 2.0 * self.costs.copy.byte_ns * message as f64) * f64::from(served);
        let servants = f64::from(parts) * f64::from((parts * slices).min(together));
        let sorting = Effort { path, work: path * servants, waits: 0.0 };
        within * 2.0 + between + sorting + self.sorting_by_place(bytes) * 2.0
    }

    /// To one rank of each of the widest parts, between these, and from each to the ranks of its part.
    pub(super) fn reduce_scatter_by_leaders(&self, asked: Asked) -> Effort {
        self.in_each_part::<Reduce>(asked.of_blocks(self.size))
            + self.sorting_by_place(asked.bytes)
            + self.among_parts::<ReduceScatter>(asked.of_blocks(self.ranks_of_part()))
            + self.in_each_part::<Scatter>(asked)
    }

    /// Each rank has its slice of the blocks of all, and all ranks of a part are between the parts at once.
    pub(super) fn reduce_scatter_in_slices(&self, asked: Asked) -> Effort {
        let together = self.ranks_of_part();
        let lanes = Terrain { beside: together, ..self.between() };
        let across = lanes.around(asked.bytes, self.costs.combine) + lanes.copies(asked.bytes);
        self.copies_of_blocks(asked.bytes)
            + self.in_each_part::<ReduceScatter>(asked.of_blocks(lanes.size))
            + Effort { work: across.work * f64::from(together), ..across }
    }

    /// The blocks of all ranks are copied into the order of places, where that is another one.
    fn sorting_by_place(&self, bytes: usize) -> Effort {
        match self.seating {
            Seating::Mixed => self.copies_of_blocks(bytes),
            Seating::Plain | Seating::InOrder => Effort::default(),
        }
    }

    /// Everybody copies a block of each rank, one by one.
    fn copies_of_blocks(&self, bytes: usize) -> Effort {
        self.copies(bytes) * f64::from(self.size)
    }
}

impl Asked {
    /// The same for so many blocks together.
    fn of_blocks(self, blocks: u32) -> Asked {
        Asked { bytes: self.bytes * blocks as usize, ..self }
    }
}
