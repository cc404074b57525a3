//! A datatype: which bytes round an address belong to one element of a message.

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::signature::Signature;
use crate::{DatatypeError, Layout, Predefined};

/// A datatype: immutable, and cheap to clone. Whether it is committed and what a user calls it is kept with
/// its handle, outside of this crate.
///
/// All lengths are bytes. Offsets count from the address that is given to MPI together with the datatype.
#[derive(Clone, Debug)]
pub struct Datatype {
    facts: Arc<Facts>,
}

#[derive(Clone, Debug)]
struct Facts {
    size: i64,
    lower_bound: i64,
    extent: i64,
    true_lower_bound: i64,
    true_extent: i64,
    dense: bool,
    predefined: Option<Predefined>,
    made_of: Option<Predefined>,
    parts: Parts,
}

/// The parts of a datatype that its constructors combine.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) bounds: Bounds,
    pub(crate) layout: Arc<Layout>,
    pub(crate) signature: Arc<Signature>,
}

/// Where the data of some elements stands: `bytes` bytes from `start` on, counted from the address given to
/// MPI.
///
/// `start` may be negative. The claims given to [`pack`](crate::pack) and [`unpack`](crate::unpack) cover
/// exactly these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: i64,
    /// Bytes up to the end of the last, gaps included.
    pub bytes: i64,
}

impl Datatype {
    /// Size in bytes: the data of one element without gaps.
    #[inline]
    #[must_use]
    pub fn size(&self) -> i64 {
        self.facts.size
    }

    /// Bytes from one element to the next.
    #[inline]
    #[must_use]
    pub fn extent(&self) -> i64 {
        self.facts.extent
    }

    /// Where an element begins, by its markers if it has some.
    #[inline]
    #[must_use]
    pub fn lower_bound(&self) -> i64 {
        self.facts.lower_bound
    }

    /// Bytes from the first to the end of the last byte of data.
    #[inline]
    #[must_use]
    pub fn true_extent(&self) -> i64 {
        self.facts.true_extent
    }

    /// Offset of the first byte of data.
    #[inline]
    #[must_use]
    pub fn true_lower_bound(&self) -> i64 {
        self.facts.true_lower_bound
    }

    /// The blocks that make up an element.
    #[inline]
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.facts.parts.layout
    }

    /// Which predefined datatype this is; `None` for what a constructor made, also a duplicate.
    #[inline]
    #[must_use]
    pub fn predefined(&self) -> Option<Predefined> {
        self.facts.predefined
    }

    /// The one predefined datatype that all elements are of, as accumulate operations ask; `None` when there
    /// are several or none.
    #[inline]
    #[must_use]
    pub fn made_of(&self) -> Option<Predefined> {
        self.facts.made_of
    }

    /// The name of a predefined datatype; empty for others (MPI 5.0 section 7.8: no name is the empty
    /// string).
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.facts.predefined.map_or("", Predefined::name)
    }

    /// Whether any number of elements is one row of bytes, so that packing is copying.
    #[inline]
    #[must_use]
    pub fn is_dense(&self) -> bool {
        self.facts.dense
    }

    /// How many basic elements an element has; a pair such as `MPI_DOUBLE_INT` has two.
    #[must_use]
    pub fn elements(&self) -> i64 {
        self.facts.parts.signature.elements()
    }

    /// Bytes that `count` elements take in packed form.
    ///
    /// # Errors
    /// A negative count, or a number beyond `i64`.
    #[inline]
    pub fn packed_bytes(&self, count: i64) -> Result<i64, DatatypeError> {
        if count < 0 {
            return Err(DatatypeError::NegativeCount { count });
        }
        self.size().checked_mul(count).ok_or(DatatypeError::Overflow { what: "the size of the message" })
    }

    /// Bytes of `count` elements that stand in one row from the very address on; `None` where they do not, or
    /// where the count is bad. The quick answer for most buffers.
    #[inline]
    #[must_use]
    pub fn row_bytes(&self, count: i64) -> Option<i64> {
        let Facts { dense, true_lower_bound, size, .. } = *self.facts;
        if dense && true_lower_bound == 0 && count >= 0 { size.checked_mul(count) } else { None }
    }

    /// Where the data of `count` elements stands; no bytes when there is no data.
    ///
    /// # Errors
    /// A negative count, or a place beyond `i64`.
    #[inline]
    pub fn span(&self, count: i64) -> Result<Span, DatatypeError> {
        let packed_bytes = self.packed_bytes(count)?;
        if packed_bytes == 0 {
            return Ok(Span { start: 0, bytes: 0 });
        }
        if self.facts.dense {
            let start = self.facts.true_lower_bound;
            let end = start.checked_add(packed_bytes);
            end.ok_or(DatatypeError::Overflow { what: "the span of the buffer" })?;
            return Ok(Span { start, bytes: packed_bytes });
        }
        self.span_between_ends(count).ok_or(DatatypeError::Overflow { what: "the span of the buffer" })
    }

    /// The span of `count > 0` elements with gaps, whether they go up or down in memory.
    fn span_between_ends(&self, count: i64) -> Option<Span> {
        let Facts { true_lower_bound, true_extent, extent, .. } = *self.facts;
        let last = extent.checked_mul(count - 1)?;
        let start = true_lower_bound.checked_add(last.min(0))?;
        let bytes = true_extent.checked_add(last.checked_abs()?)?;
        start.checked_add(bytes)?;
        Some(Span { start, bytes })
    }

    /// How many elements `bytes` packed bytes are, for `MPI_Get_count`; `None` (`MPI_UNDEFINED`) when they
    /// end inside one (MPI 5.0 section 3.2.5). A datatype without data counts 0 in no bytes.
    #[must_use]
    pub fn count_in(&self, bytes: i64) -> Option<i64> {
        match self.size() {
            0 => (bytes == 0).then_some(0),
            size => (0 <= bytes && bytes % size == 0).then_some(bytes / size),
        }
    }

    /// How many basic elements `bytes` packed bytes are, for `MPI_Get_elements`; `None` when they end inside
    /// one (MPI 5.0 section 5.1.11).
    #[must_use]
    pub fn elements_in(&self, bytes: i64) -> Option<i64> {
        let signature = &self.facts.parts.signature;
        match self.size() {
            0 => (bytes == 0).then_some(0),
            _ if bytes < 0 => None,
            size => {
                let rest = signature.elements_in(bytes % size)?;
                (bytes / size).checked_mul(signature.elements())?.checked_add(rest)
            }
        }
    }

    /// How many packed bytes `elements` basic elements are: what [`Datatype::elements_in`] counts them in.
    /// `None` for a negative number and beyond `i64`. A datatype without data has any number of them in no
    /// bytes.
    #[must_use]
    pub fn bytes_of_elements(&self, elements: i64) -> Option<i64> {
        let signature = &self.facts.parts.signature;
        match signature.elements() {
            _ if elements < 0 => None,
            0 => Some(0),
            each => {
                let rest = signature.bytes_of(elements % each)?;
                (elements / each).checked_mul(self.size())?.checked_add(rest)
            }
        }
    }

    /// A datatype with the same layout and elements that is not predefined (MPI_Type_dup).
    #[must_use]
    pub fn duplicate(&self) -> Datatype {
        Datatype { facts: Arc::new(Facts { predefined: None, ..Facts::clone(&self.facts) }) }
    }

    /// Whether both are clones of one datatype.
    #[inline]
    #[must_use]
    pub fn is_same(&self, other: &Datatype) -> bool {
        Arc::ptr_eq(&self.facts, &other.facts)
    }

    /// The datatype of a table row.
    pub(crate) fn of_predefined(predefined: Predefined) -> Datatype {
        let parts = Parts::of(predefined, predefined.basic());
        Datatype::with(parts, Some(predefined), Some(predefined)).expect("a number is small")
    }

    /// The datatype of parts that a constructor has combined. An error where its nesting is too deep, or on
    /// overflow of its extent.
    pub(crate) fn derived(parts: Parts, made_of: Option<Predefined>) -> Result<Datatype, DatatypeError> {
        Datatype::with(parts, None, made_of)
    }

    fn with(
        mut parts: Parts,
        predefined: Option<Predefined>,
        made_of: Option<Predefined>,
    ) -> Result<Datatype, DatatypeError> {
        parts.check_depth()?;
        let overflow = DatatypeError::Overflow { what: "the extent" };
        parts.bounds = parts.bounds.closed().ok_or(overflow.clone())?;
        let range = parts.bounds.range().ok_or(overflow.clone())?;
        let extent = range.end.checked_sub(range.start).ok_or(overflow.clone())?;
        let data = parts.bounds.data.map_or((0, 0), |data| (data.start, data.end));
        let facts = Facts {
            lower_bound: range.start,
            extent,
            true_lower_bound: data.0,
            true_extent: data.1.checked_sub(data.0).ok_or(overflow)?,
            size: parts.layout.bytes(),
            dense: parts.layout.as_block().is_some() && extent == parts.layout.bytes(),
            predefined,
            made_of,
            parts,
        };
        Ok(Datatype { facts: Arc::new(facts) })
    }

    /// The kinds of the elements in order, without their offsets.
    pub(crate) fn signature(&self) -> &Signature {
        &self.facts.parts.signature
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.facts.parts
    }
}
