//! The sequence of basic elements of a datatype, without their places: what `MPI_Get_elements` counts.
//!
//! Kept as a tree that repeats parts instead of writing them out, so that a million structs cost one node.

use std::sync::Arc;

use crate::Basic;

/// Which basic elements follow each other in packed form.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    bytes: i64,
    elements: i64,
    depth: u32,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// `elements` of one kind; none of it when there are no bytes.
    Uniform(Basic),
    Repeat {
        inner: Arc<Signature>,
    },
    Sequence(Arc<[Signature]>),
}

impl Signature {
    /// No element at all.
    pub(crate) const EMPTY: Signature =
        Signature { bytes: 0, elements: 0, depth: 0, shape: Shape::Uniform(Basic::U8) };

    /// One element; a pair is two (MPI 5.0 section 5.1.11 counts elements of the type map).
    pub(crate) fn of(basic: Basic) -> Signature {
        match basic.pair() {
            Some((value, index)) if value == index => Signature::run(value, 2),
            Some((value, index)) => {
                Signature::joined(vec![Signature::run(value, 1), Signature::run(index, 1)])
                    .unwrap_or(Signature::EMPTY)
            }
            None => Signature::run(basic, 1),
        }
    }

    fn run(basic: Basic, elements: i64) -> Signature {
        let bytes = elements * basic.bytes() as i64;
        Signature { bytes, elements, depth: 0, shape: Shape::Uniform(basic) }
    }

    /// `count` times this; `None` on overflow.
    pub(crate) fn repeated(self: &Arc<Signature>, count: i64) -> Option<Signature> {
        let bytes = self.bytes.checked_mul(count)?;
        let elements = self.elements.checked_mul(count)?;
        let (depth, shape) = match &self.shape {
            _ if count == 1 => (self.depth, self.shape.clone()),
            Shape::Uniform(_) | Shape::Repeat { .. } => (self.depth, self.shape.clone()),
            Shape::Sequence(_) => (self.depth + 1, Shape::Repeat { inner: Arc::clone(self) }),
        };
        Some(Signature { bytes, elements, depth, shape })
    }

    /// One after the other; `None` on overflow.
    pub(crate) fn joined(parts: Vec<Signature>) -> Option<Signature> {
        let mut merged: Vec<Signature> = Vec::new();
        for part in parts.into_iter().filter(|part| part.bytes > 0) {
            match merged.last_mut() {
                Some(last) if last.absorbs(&part) => last.absorb(&part)?,
                _ => merged.push(part),
            }
        }
        if merged.len() < 2 {
            return Some(merged.pop().unwrap_or(Signature::EMPTY));
        }
        let sum = |start: i64, part: i64| start.checked_add(part);
        Some(Signature {
            bytes: merged.iter().map(|part| part.bytes).try_fold(0, sum)?,
            elements: merged.iter().map(|part| part.elements).try_fold(0, sum)?,
            depth: merged.iter().map(|part| part.depth).max().unwrap_or(0) + 1,
            shape: Shape::Sequence(merged.into()),
        })
    }

    fn absorbs(&self, next: &Signature) -> bool {
        matches!((&self.shape, &next.shape), (Shape::Uniform(left), Shape::Uniform(right)) if left == right)
    }

    fn absorb(&mut self, next: &Signature) -> Option<()> {
        self.bytes = self.bytes.checked_add(next.bytes)?;
        self.elements = self.elements.checked_add(next.elements)?;
        Some(())
    }

    /// How many elements there are.
    pub(crate) fn elements(&self) -> i64 {
        self.elements
    }

    /// How deep the tree is.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// How many elements the first `bytes` packed bytes hold; `None` when they end inside an element or there
    /// are not so many.
    pub(crate) fn elements_in(&self, bytes: i64) -> Option<i64> {
        if !(0..=self.bytes).contains(&bytes) {
            return None;
        }
        match &self.shape {
            Shape::Uniform(basic) => whole(bytes, basic.bytes() as i64),
            Shape::Repeat { inner } => {
                Some(bytes / inner.bytes * inner.elements + inner.elements_in(bytes % inner.bytes)?)
            }
            Shape::Sequence(parts) => elements_in_sequence(parts, bytes),
        }
    }
}

fn elements_in_sequence(parts: &[Signature], mut bytes: i64) -> Option<i64> {
    let mut elements = 0;
    for part in parts {
        if bytes <= part.bytes {
            return Some(elements + part.elements_in(bytes)?);
        }
        elements += part.elements;
        bytes -= part.bytes;
    }
    None
}

/// `bytes / each`, when nothing remains.
fn whole(bytes: i64, each: i64) -> Option<i64> {
    (bytes % each == 0).then_some(bytes / each)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(parts: &[Signature]) -> Arc<Signature> {
        Arc::new(Signature::joined(parts.to_vec()).expect("no overflow"))
    }

    #[test]
    fn counts_elements_of_a_prefix() {
        let record = joined(&[Signature::run(Basic::F64, 2), Signature::of(Basic::I32)]);
        let many = record.repeated(1_000_000).expect("no overflow");
        assert_eq!((many.bytes, many.elements()), (20_000_000, 3_000_000));
        for (bytes, elements) in [(0, Some(0)), (8, Some(1)), (20, Some(3)), (36, Some(5)), (40, Some(6))] {
            assert_eq!(many.elements_in(bytes), elements, "{bytes}");
        }
        for bytes in [1, 18, 30, 20_000_001, -1] {
            assert_eq!(many.elements_in(bytes), None, "{bytes}");
        }
    }

    #[test]
    fn a_pair_is_two_elements() {
        assert_eq!(Signature::of(Basic::PairF64I32).elements_in(12), Some(2));
        assert_eq!(Signature::of(Basic::PairF64I32).elements_in(8), Some(1));
        assert_eq!(Signature::of(Basic::PairI32I32).elements(), 2);
    }

    #[test]
    fn like_parts_merge_and_empty_ones_vanish() {
        let ints = Signature::run(Basic::I32, 3);
        let merged = joined(&[ints.clone(), Signature::EMPTY, ints]);
        assert_eq!((merged.elements(), merged.depth()), (6, 0));
        assert!(merged.repeated(i64::MAX).is_none());
    }
}
