//! How a buffer is divided among ranks.

use crate::schedule::{Buffer, Span};
use crate::shape::around;

/// One rank's part of a buffer, for the operations whose parts differ in length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Where it begins, in bytes from the beginning of the buffer.
    pub offset: usize,
    /// Its length.
    pub bytes: usize,
}

impl Block {
    /// No bytes, at the beginning.
    pub const NOTHING: Block = Block { offset: 0, bytes: 0 };

    /// The block as a part of that buffer.
    pub(crate) fn of(self, buffer: Buffer) -> Span {
        Span { buffer, offset: self.offset, bytes: self.bytes }
    }
}

/// The parts of a buffer, by index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blocks<'a> {
    /// All of one length, one behind the other.
    Equal { bytes: usize },
    /// As even as whole elements allow, one behind the other; the first ones are the longer.
    Slices { count: usize, element_bytes: usize, parts: u32 },
    /// As listed, anywhere.
    Listed(&'a [Block]),
}

impl Blocks<'_> {
    /// Block `index` of the buffer that begins where `data` does.
    pub(crate) fn of(&self, data: Span, index: u32) -> Span {
        match self {
            Blocks::Listed(blocks) => {
                let Block { offset, bytes } = blocks[index as usize];
                data.part(offset, bytes)
            }
            _ => self.run(data, index, index + 1),
        }
    }

    /// The blocks from `first` to before `end` together. Listed blocks must stand one behind the other for
    /// this.
    pub(crate) fn run(&self, data: Span, first: u32, end: u32) -> Span {
        if first >= end {
            return data.part(0, 0);
        }
        let start = self.start(first);
        data.part(start, self.end(end - 1) - start)
    }

    /// The blocks from `first` to before `end`, as spans that sender and receiver cut alike: one span of all
    /// of them, or one for each where they are listed, since listed blocks may be contiguous at one rank and
    /// not at another.
    pub(crate) fn rows(&self, data: Span, first: u32, end: u32) -> impl Iterator<Item = Span> + use<'_> {
        let step = if matches!(self, Blocks::Listed(_)) { 1 } else { end - first };
        (first..end).step_by(step as usize).map(move |row| self.run(data, row, row + step))
    }

    /// Length of the longest of the first `count` blocks.
    pub(crate) fn longest(&self, count: u32) -> usize {
        match *self {
            Blocks::Equal { bytes } => bytes,
            Blocks::Slices { .. } => self.end(0),
            Blocks::Listed(blocks) => {
                blocks[..count as usize].iter().map(|block| block.bytes).max().unwrap_or(0)
            }
        }
    }

    /// Where block `index` begins.
    fn start(&self, index: u32) -> usize {
        let index = index as usize;
        match *self {
            Blocks::Equal { bytes } => index * bytes,
            Blocks::Slices { count, element_bytes, parts } => {
                let (each, longer) = (count / parts as usize, count % parts as usize);
                (index * each + index.min(longer)) * element_bytes
            }
            Blocks::Listed(blocks) => blocks[index].offset,
        }
    }

    /// Where block `index` ends.
    fn end(&self, index: u32) -> usize {
        match self {
            Blocks::Listed(blocks) => blocks[index as usize].offset + blocks[index as usize].bytes,
            _ => self.start(index + 1),
        }
    }
}

/// Blocks of all ranks, counted round the ring from a root on: block 0 is the root's.
pub(crate) struct Rotated<'a> {
    pub blocks: Blocks<'a>,
    pub root: u32,
    pub size: u32,
}

impl Rotated<'_> {
    /// Blocks `first` to before `end`: one run, or two where they pass the last rank; then the second is not
    /// empty.
    pub(crate) fn runs(&self, data: Span, first: u32, end: u32) -> [Span; 2] {
        let start = around(first, self.root, self.size);
        let stop = start + (end - first);
        let ahead = self.blocks.run(data, start, stop.min(self.size));
        let wrapped = self.blocks.run(data, 0, stop.saturating_sub(self.size));
        if ahead.bytes == 0 { [wrapped, ahead] } else { [ahead, wrapped] }
    }

    /// Length of the blocks `first` to before `end`.
    pub(crate) fn bytes(&self, first: u32, end: u32) -> usize {
        self.runs(Span::output(0), first, end).iter().map(|run| run.bytes).sum()
    }
}

/// Blocks of these lengths, one behind the other.
#[must_use]
pub fn packed(lengths: impl IntoIterator<Item = usize>) -> Vec<Block> {
    let mut end = 0;
    let block = |bytes| {
        let offset = end;
        end += bytes;
        Block { offset, bytes }
    };
    lengths.into_iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_even_and_cut_no_element() {
        for (count, parts) in [(0, 3), (2, 5), (10, 3), (12, 4), (1000, 17)] {
            let slices = Blocks::Slices { count, element_bytes: 12, parts };
            let lengths: Vec<_> = (0..parts).map(|part| slices.of(Span::output(0), part).bytes).collect();
            assert_eq!(lengths.iter().sum::<usize>(), count * 12);
            assert!(lengths.iter().all(|bytes| bytes % 12 == 0));
            assert!(lengths[0] - lengths[parts as usize - 1] <= 12, "{lengths:?}");
            assert_eq!(slices.longest(parts), lengths[0]);
        }
    }

    #[test]
    fn rotated_runs_pass_the_end_at_most_once() {
        let listed = packed([1, 2, 0, 4, 5]);
        let rotated = Rotated { blocks: Blocks::Listed(&listed), root: 3, size: 5 };
        assert_eq!(rotated.bytes(0, 5), 12);
        let [ahead, wrapped] = rotated.runs(Span::input(12), 1, 4);
        assert_eq!((ahead.offset, ahead.bytes, wrapped.offset, wrapped.bytes), (7, 5, 0, 3));
        let [only, none] = rotated.runs(Span::input(12), 2, 4);
        assert_eq!((only.offset, only.bytes, none.bytes), (0, 3, 0));
    }
}
