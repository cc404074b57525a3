//! The sequence of basic elements of a datatype, without their places: what `MPI_Get_elements` counts, and
//! what `external32` converts.
//!
//! Kept as a tree that repeats parts instead of writing them out, so that a million structs cost one node.

mod digest;

use std::sync::Arc;

use crate::Predefined;

/// Which basic elements follow each other in packed form.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    bytes: i64,
    /// Bytes in the format `external32`, never more than in this machine's.
    external_bytes: i64,
    elements: i64,
    depth: u32,
    shape: SignatureShape,
}

#[derive(Clone, Debug)]
enum SignatureShape {
    /// `elements` of one kind; none of it when there are no bytes.
    Uniform(Predefined),
    Repeat {
        inner: Arc<Signature>,
    },
    Sequence(Arc<[Signature]>),
}

impl Signature {
    /// No element at all.
    pub(crate) const EMPTY: Signature = Signature {
        bytes: 0,
        external_bytes: 0,
        elements: 0,
        depth: 0,
        shape: SignatureShape::Uniform(Predefined::Byte),
    };

    /// One element; a pair is two (MPI 5.0 section 5.1.11 counts elements of the type map).
    pub(crate) fn of(predefined: Predefined) -> Signature {
        match predefined.pair() {
            Some((value, index)) if value == index => Signature::run(value, 2),
            Some((value, index)) => {
                Signature::joined(vec![Signature::run(value, 1), Signature::run(index, 1)])
                    .unwrap_or(Signature::EMPTY)
            }
            None => Signature::run(predefined, 1),
        }
    }

    fn run(predefined: Predefined, elements: i64) -> Signature {
        let bytes = elements * predefined.size();
        let external_bytes = elements * predefined.external_size();
        Signature { bytes, external_bytes, elements, depth: 0, shape: SignatureShape::Uniform(predefined) }
    }

    /// `count` times this; `None` on overflow.
    pub(crate) fn repeated(self: &Arc<Signature>, count: i64) -> Option<Signature> {
        let bytes = self.bytes.checked_mul(count)?;
        let elements = self.elements.checked_mul(count)?;
        let (depth, shape) = match &self.shape {
            _ if count == 1 => (self.depth, self.shape.clone()),
            SignatureShape::Uniform(_) | SignatureShape::Repeat { .. } => (self.depth, self.shape.clone()),
            SignatureShape::Sequence(_) => {
                (self.depth + 1, SignatureShape::Repeat { inner: Arc::clone(self) })
            }
        };
        // What the larger number allowed, this one needs not check; so it is below.
        let external_bytes = self.external_bytes * count;
        Some(Signature { bytes, external_bytes, elements, depth, shape })
    }

    /// The signatures in `parts` one after the other; `None` on overflow.
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
            external_bytes: merged.iter().map(|part| part.external_bytes).sum(),
            elements: merged.iter().map(|part| part.elements).try_fold(0, sum)?,
            depth: merged.iter().map(|part| part.depth).max().unwrap_or(0) + 1,
            shape: SignatureShape::Sequence(merged.into()),
        })
    }

    fn absorbs(&self, next: &Signature) -> bool {
        matches!((&self.shape, &next.shape), (SignatureShape::Uniform(left), SignatureShape::Uniform(right)) if left == right)
    }

    fn absorb(&mut self, next: &Signature) -> Option<()> {
        self.bytes = self.bytes.checked_add(next.bytes)?;
        self.external_bytes += next.external_bytes;
        self.elements = self.elements.checked_add(next.elements)?;
        Some(())
    }

    /// How many elements there are.
    pub(crate) fn elements(&self) -> i64 {
        self.elements
    }

    /// How many bytes they take in the format `external32`.
    pub(crate) fn external_bytes(&self) -> i64 {
        self.external_bytes
    }

    /// Calls `visit` for the elements of `count` times this signature, in order: with a kind and the number
    /// of its elements in a run, then with the next kind. Pairs are visited as a value and an index.
    pub(crate) fn each_run<E>(
        &self,
        count: i64,
        visit: &mut impl FnMut(Predefined, i64) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.shape {
            _ if self.bytes == 0 => Ok(()),
            SignatureShape::Uniform(predefined) => visit(*predefined, self.elements * count),
            SignatureShape::Repeat { inner } => inner.each_run(self.bytes / inner.bytes * count, visit),
            SignatureShape::Sequence(parts) => {
                (0..count).try_for_each(|_| parts.iter().try_for_each(|part| part.each_run(1, visit)))
            }
        }
    }

    /// How deep the tree is.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// How many elements the first `bytes` packed bytes hold; `None` when these bytes end inside an element
    /// or behind the last one.
    pub(crate) fn elements_in(&self, bytes: i64) -> Option<i64> {
        if !(0..=self.bytes).contains(&bytes) {
            return None;
        }
        match &self.shape {
            SignatureShape::Uniform(predefined) => whole(bytes, predefined.size()),
            SignatureShape::Repeat { inner } => {
                Some(bytes / inner.bytes * inner.elements + inner.elements_in(bytes % inner.bytes)?)
            }
            SignatureShape::Sequence(parts) => elements_in_sequence(parts, bytes),
        }
    }

    /// How many packed bytes the first `elements` elements take; `None` when the signature has fewer
    /// elements.
    pub(crate) fn bytes_of(&self, elements: i64) -> Option<i64> {
        if !(0..=self.elements).contains(&elements) {
            return None;
        }
        match &self.shape {
            SignatureShape::Uniform(predefined) => Some(elements * predefined.size()),
            SignatureShape::Repeat { inner } => {
                Some(elements / inner.elements * inner.bytes + inner.bytes_of(elements % inner.elements)?)
            }
            SignatureShape::Sequence(parts) => bytes_of_sequence(parts, elements),
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

fn bytes_of_sequence(parts: &[Signature], mut elements: i64) -> Option<i64> {
    let mut bytes = 0;
    for part in parts {
        if elements <= part.elements {
            return Some(bytes + part.bytes_of(elements)?);
        }
        bytes += part.bytes;
        elements -= part.elements;
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
        let record = joined(&[Signature::run(Predefined::Double, 2), Signature::of(Predefined::Int)]);
        let many = record.repeated(1_000_000).expect("no overflow");
        assert_eq!((many.bytes, many.elements()), (20_000_000, 3_000_000));
        for (bytes, elements) in [(0, Some(0)), (8, Some(1)), (20, Some(3)), (36, Some(5)), (40, Some(6))] {
            assert_eq!(many.elements_in(bytes), elements, "{bytes}");
            assert_eq!(elements.and_then(|elements| many.bytes_of(elements)), Some(bytes), "{bytes}");
        }
        for bytes in [1, 18, 30, 20_000_001, -1] {
            assert_eq!(many.elements_in(bytes), None, "{bytes}");
        }
        assert_eq!((many.bytes_of(-1), many.bytes_of(3_000_001)), (None, None));
    }

    #[test]
    fn a_pair_is_two_elements() {
        assert_eq!(Signature::of(Predefined::DoubleInt).elements_in(12), Some(2));
        assert_eq!(Signature::of(Predefined::DoubleInt).elements_in(8), Some(1));
        assert_eq!(Signature::of(Predefined::TwoInt).elements(), 2);
    }

    #[test]
    fn runs_are_named_in_order() {
        let record = joined(&[Signature::run(Predefined::Long, 2), Signature::of(Predefined::ShortInt)]);
        let twice = record.repeated(2).expect("no overflow");
        assert_eq!((twice.bytes, twice.external_bytes()), (44, 28));
        let mut runs = Vec::new();
        let all: Result<(), ()> = twice.each_run(2, &mut |predefined, elements| {
            runs.push((predefined, elements));
            Ok(())
        });
        assert!(all.is_ok());
        let one = [(Predefined::Long, 2), (Predefined::Short, 1), (Predefined::Int, 1)];
        assert_eq!(runs, one.repeat(4));
        assert_eq!(twice.each_run(1, &mut |_, _| Err("no")), Err("no"));
    }

    #[test]
    fn like_parts_merge_and_empty_ones_vanish() {
        let ints = Signature::run(Predefined::Int, 3);
        let merged = joined(&[ints.clone(), Signature::EMPTY, ints]);
        assert_eq!((merged.elements(), merged.depth()), (6, 0));
        assert!(merged.repeated(i64::MAX).is_none());
    }
}
