//! Accumulates: elements of a member changed where they stand, each at one blow (MPI 5.0 §12.3.4, §12.7.1).
//!
//! Aligned integers of four and eight bytes are changed by the processor's atomics, each by itself. All
//! others, and those that the kernel alone reaches, are changed while this process alone
//! [changes](super::words::Words::change) elements of the member: processors add no reals at one blow, and a
//! loop of compare-and-exchange takes a hundred times as long for many as the vector unit does. Which way an
//! element goes follows from its type and its address alone, so that all who change it go the same.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use datatype::{Basic, Operator, Predefined, combine_packed, reduce_eight_bytes, reduce_four_bytes};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

use super::blocks::Block;
use super::exposure::{Exposure, Unreached};

/// What an accumulate does with each element of the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It is combined with one of the origin's.
    Combine(Operator),
    /// It becomes one of the origin's, where it has the value that the origin compares it with.
    CompareAndSwap,
}

/// Changes an atomic, whatever its width; what it was before.
macro_rules! changed {
    ($change:expr, $atomic:expr, $operand:expr, $compare:expr, $reduce:expr) => {
        match $change {
            Change::Combine(Operator::NoOperation) => $atomic.load(Ordering::SeqCst),
            Change::Combine(Operator::Replace) => $atomic.swap($operand, Ordering::SeqCst),
            Change::Combine(Operator::Sum) => $atomic.fetch_add($operand, Ordering::SeqCst),
            Change::Combine(operator) => $atomic
                .try_update(Ordering::SeqCst, Ordering::SeqCst, |old| $reduce(operator, old))
                .unwrap_or_else(|old| old),
            Change::CompareAndSwap => $atomic
                .compare_exchange($compare, $operand, Ordering::SeqCst, Ordering::SeqCst)
                .unwrap_or_else(|old| old),
        }
    };
}

/// An accumulate at its target.
pub(super) struct Update<'a> {
    pub change: Change,
    pub predefined: Predefined,
    /// The target, which this process reaches.
    pub target: Rank,
    pub blocks: &'a [Block],
    /// Who changes them.
    pub by: Rank,
    /// Packed elements of the origin; none for an operator that reads alone.
    pub operand: Payload<'a>,
    /// For a compare-and-swap.
    pub compare: Payload<'a>,
}

impl Update<'_> {
    /// Whether it makes sense: the operator takes the elements, and there are as many on both sides. No
    /// elements make sense with any operator.
    pub(super) fn is_sound(&self) -> bool {
        let bytes: u64 = self.blocks.iter().map(|block| block.bytes).sum();
        let is_right = |given: Payload<'_>| given.bytes() as u64 == bytes;
        let whole = bytes.is_multiple_of(self.predefined.size() as u64);
        bytes == 0
            || whole
                && match self.change {
                    Change::Combine(Operator::NoOperation) => true,
                    Change::Combine(operator) => {
                        operator.is_legal_for(self.predefined) && is_right(self.operand)
                    }
                    Change::CompareAndSwap => is_right(self.operand) && is_right(self.compare),
                }
    }

    /// Changes the elements, and writes what they were before to `before`, packed, if that has room for them.
    /// All blocks lie within the target's memory.
    ///
    /// # Errors
    /// [`Unreached`] where the kernel does not reach it; elements behind that are as they were.
    pub(super) fn apply(
        &self,
        exposure: &Exposure,
        is_gone: impl Fn(Rank) -> bool,
        mut before: Option<&mut UserMemory>,
    ) -> Result<(), Unreached> {
        let size = match self.predefined.basic() {
            _ if !exposure.has_atomics() => {
                return self.one_by_one(self.blocks, 0, exposure, is_gone, before);
            }
            Basic::I64 | Basic::U64 => 8,
            Basic::I32 | Basic::U32 => 4,
            _ => return self.one_by_one(self.blocks, 0, exposure, is_gone, before),
        };
        let mut done = 0;
        for block in self.blocks {
            if !self.is_atomic(exposure, *block, size) {
                let block = std::slice::from_ref(block);
                self.one_by_one(block, done, exposure, &is_gone, before.as_deref_mut())?;
                done += block[0].bytes as usize;
                continue;
            }
            for at in (block.at..block.at + block.bytes).step_by(size) {
                let old =
                    if size == 8 { self.eight(exposure, at, done) } else { self.four(exposure, at, done) };
                if let (Some(before), Some(old)) = (before.as_deref_mut(), old) {
                    before.write_at(done, Payload::from(&old[..size]));
                }
                done += size;
            }
        }
        Ok(())
    }

    /// Whether the elements of a block are changed by atomics. A block begins where an element does, so its
    /// address tells of all of them.
    fn is_atomic(&self, exposure: &Exposure, block: Block, size: usize) -> bool {
        let is_aligned = match size {
            _ if block.bytes == 0 => true,
            8 => exposure.atomic::<AtomicU64>(self.target, block.at).is_some(),
            _ => exposure.atomic::<AtomicU32>(self.target, block.at).is_some(),
        };
        is_aligned && block.bytes.is_multiple_of(size as u64)
    }

    /// Changes the elements of those blocks, the first of which belongs to the origin's `done` bytes behind
    /// its first, while nobody else changes any.
    fn one_by_one(
        &self,
        blocks: &[Block],
        done: usize,
        exposure: &Exposure,
        is_gone: impl Fn(Rank) -> bool,
        before: Option<&mut UserMemory>,
    ) -> Result<(), Unreached> {
        let Some(words) = exposure.words(self.target) else { return Err(Unreached::Outside) };
        let bytes = blocks.iter().map(|block| block.bytes as usize).sum();
        let [operand, compare] = [self.operand, self.compare].map(|packed| packed.part(done, bytes));
        if let (Change::Combine(operator), Some(mut memory)) =
            (self.change, self.mapped_row(exposure, blocks))
        {
            words.change(self.by, is_gone, || {
                if let Some(before) = before {
                    before.write_at(done, memory.payload());
                }
                match operator {
                    Operator::NoOperation => {}
                    Operator::Replace => _ = memory.write_at(0, operand),
                    // `is_sound` has seen to it that the operator is defined.
                    _ => _ = combine_packed(operator, self.predefined, operand, None, &mut memory),
                }
            });
            return Ok(());
        }
        words.change(self.by, is_gone, || {
            let old = Heap::new(bytes);
            exposure.collect(self.target, blocks, &mut old.memory())?;
            if let Some(before) = before {
                before.write_at(done, old.payload());
            }
            match self.change {
                Change::Combine(Operator::NoOperation) => Ok(()),
                Change::Combine(Operator::Replace) => exposure.spread(self.target, blocks, operand),
                Change::Combine(operator) => {
                    // `is_sound` has seen to it that the operator is defined.
                    match combine_packed(operator, self.predefined, operand, None, &mut old.memory()) {
                        Ok(()) => exposure.spread(self.target, blocks, old.payload()),
                        Err(_) => Ok(()),
                    }
                }
                Change::CompareAndSwap if compare.to_vec() == old.payload().to_vec() => {
                    exposure.spread(self.target, blocks, operand)
                }
                Change::CompareAndSwap => Ok(()),
            }
        })
    }

    /// The memory of the only block, where this process loads from it and stores to it.
    fn mapped_row(&self, exposure: &Exposure, blocks: &[Block]) -> Option<UserMemory> {
        let [block] = blocks else { return None };
        exposure.block(self.target, *block)
    }

    /// Changes the element of eight bytes at `at`, with that of the origin `done` bytes behind its first;
    /// what it was.
    fn eight(&self, exposure: &Exposure, at: u64, done: usize) -> Option<[u8; 8]> {
        let atomic = exposure.atomic::<AtomicU64>(self.target, at)?;
        let operand = element(self.operand, done).map_or(0, u64::from_ne_bytes);
        let compare = element(self.compare, done).map_or(0, u64::from_ne_bytes);
        let reduce = |operator, old| reduce_eight_bytes(operator, self.predefined, operand, old);
        Some(changed!(self.change, atomic, operand, compare, reduce).to_ne_bytes())
    }

    /// Changes the element of four bytes at `at`, as [`Update::eight`] does.
    fn four(&self, exposure: &Exposure, at: u64, done: usize) -> Option<[u8; 8]> {
        let atomic = exposure.atomic::<AtomicU32>(self.target, at)?;
        let operand = element(self.operand, done).map_or(0, u32::from_ne_bytes);
        let compare = element(self.compare, done).map_or(0, u32::from_ne_bytes);
        let reduce = |operator, old| reduce_four_bytes(operator, self.predefined, operand, old);
        let mut old = [0; 8];
        let bytes = changed!(self.change, atomic, operand, compare, reduce).to_ne_bytes();
        old[..4].copy_from_slice(&bytes);
        Some(old)
    }
}

/// The packed element that begins `done` bytes behind the first.
fn element<const BYTES: usize>(packed: Payload<'_>, done: usize) -> Option<[u8; BYTES]> {
    packed.after(done).split_first().map(|(bytes, _)| bytes)
}
