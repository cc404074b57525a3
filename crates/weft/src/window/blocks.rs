//! Where the elements of an operation stand at its target: offsets and lengths in bytes.

use datatype::{Datatype, each_block};
use job::error::{Class, Error, Result};

/// Blocks of a target's memory, in packed order. Offsets count from the beginning of the window's memory
/// there, or are addresses where that is attached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Blocks {
    /// All bytes in a row; the usual case takes no memory.
    One(Block),
    Many(Vec<Block>),
}

/// Bytes in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Block {
    pub at: u64,
    pub bytes: u64,
}

impl Block {
    pub(super) fn end(self) -> Option<u64> {
        self.at.checked_add(self.bytes)
    }
}

impl Blocks {
    /// `count` elements of a datatype that begin `start` bytes behind the beginning.
    ///
    /// # Errors
    /// [`Class::Count`] where the elements are too many, [`Class::RmaRange`] where they begin before the
    /// beginning.
    pub(super) fn of(datatype: &Datatype, count: i64, start: i64) -> Result<Blocks> {
        if let Some(bytes) = datatype.row_bytes(count) {
            return Ok(Blocks::One(Block { at: offset(Some(start))?, bytes: bytes as u64 }));
        }
        let too_many = |error: datatype::DatatypeError| Error::new(Class::Count, error.to_string());
        let span = datatype.span(count).map_err(too_many)?;
        let bytes = datatype.packed_bytes(count).map_err(too_many)?;
        let first = offset(start.checked_add(span.start))?;
        if datatype.is_dense() || bytes == 0 {
            return Ok(Blocks::One(Block { at: first, bytes: bytes as u64 }));
        }
        let mut blocks: Vec<Block> = Vec::new();
        each_block(datatype, count, 0..bytes, &mut |at, bytes| {
            let block = Block { at: first + at as u64, bytes: bytes as u64 };
            match blocks.last_mut().filter(|last| last.end() == Some(block.at)) {
                Some(last) => last.bytes += block.bytes,
                None => blocks.push(block),
            }
        })
        .map_err(too_many)?;
        Ok(match blocks[..] {
            [block] => Blocks::One(block),
            _ => Blocks::Many(blocks),
        })
    }

    pub(super) fn list(&self) -> &[Block] {
        match self {
            Blocks::One(block) => std::slice::from_ref(block),
            Blocks::Many(blocks) => blocks,
        }
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> usize {
        self.list().iter().map(|block| block.bytes as usize).sum()
    }

    /// The first block that is not within so many bytes.
    pub(super) fn outside(&self, bytes: u64) -> Option<Block> {
        self.list().iter().copied().find(|block| block.bytes > 0 && block.end().is_none_or(|end| end > bytes))
    }
}

fn offset(at: Option<i64>) -> Result<u64> {
    let wrong = || Error::new(Class::RmaRange, "the target's elements begin before its memory does");
    at.and_then(|at| u64::try_from(at).ok()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use datatype::Predefined;

    use super::*;

    #[test]
    fn blocks_of_rows_and_of_vectors() {
        let double = Predefined::Double.datatype();
        let one = |at, bytes| Blocks::One(Block { at, bytes });
        assert_eq!(Blocks::of(double, 3, 40).unwrap(), one(40, 24));
        assert_eq!(Blocks::of(double, 0, 40).unwrap().bytes(), 0);
        assert_eq!(Blocks::of(double, 1, -1).unwrap_err().class, Class::RmaRange);
        let vector = Datatype::vector(3, 2, 4, double).unwrap();
        let Blocks::Many(blocks) = Blocks::of(&vector, 1, 8).unwrap() else { panic!("it has gaps") };
        let expected = [8, 40, 72].map(|at| Block { at, bytes: 16 });
        assert_eq!(blocks, expected);
        assert_eq!(Blocks::Many(blocks.clone()).outside(87), Some(expected[2]));
        assert_eq!(Blocks::Many(blocks).outside(88), None);
        // What stands in a row is one block, whatever it is made of.
        let row = Datatype::vector(3, 2, 2, double).unwrap();
        assert_eq!(Blocks::of(&row, 2, 0).unwrap(), one(0, 96));
        assert!(one(u64::MAX, 2).outside(u64::MAX).is_some());
    }
}
