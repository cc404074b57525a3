//! Lists of numbers that all members tell all others.

use collectives::{Block, allgatherv};
use job::error::Result;
use messaging::Rank;

use super::Communicator;
use crate::communicator::combining::Combining;
use crate::memory::{reading, writing};

/// A list of each member, by rank.
pub(super) struct Lists {
    numbers: Vec<i32>,
    /// Where each list ends.
    ends: Vec<usize>,
}

impl Lists {
    pub(super) fn of(&self, Rank(rank): Rank) -> &[i32] {
        let rank = rank as usize;
        let start = rank.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.numbers[start..self.ends[rank]]
    }
}

impl Communicator {
    /// Everybody's list at everybody, unless they are more than `most` numbers together: then none at all
    /// members.
    pub(super) fn all_gather_lists(&self, mine: &[i32], most: usize) -> Result<Option<Lists>> {
        let lengths = self.all_gather_segments(&[mine.len() as u64])?.or_blank();
        let ends: Vec<usize> = lengths
            .iter()
            .scan(0usize, |end, &length| {
                *end = end.saturating_add(length as usize);
                Some(*end)
            })
            .collect();
        let total = ends.last().copied().unwrap_or_default();
        if most < total {
            return Ok(None);
        }
        let mut numbers = vec![0; total];
        let block = |(&end, &length): (&usize, &u64)| {
            let bytes = length as usize * NUMBER_BYTES;
            Block { offset: end * NUMBER_BYTES - bytes, bytes }
        };
        let blocks: Vec<Block> = ends.iter().zip(&lengths).map(block).collect();
        let schedule = allgatherv(&self.shape(), &blocks, false);
        self.run(schedule, reading(mine), writing(&mut numbers), Combining::Nothing)?;
        Ok(Some(Lists { numbers, ends }))
    }
}

const NUMBER_BYTES: usize = size_of::<i32>();
