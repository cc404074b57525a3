//! The constructors of datatypes (MPI 5.0 section 5.1.2 to 5.1.7), and what they refuse.
//!
//! All are made of two steps: repeat what there is, and put parts behind each other. Both combine the bounds
//! first, with checks, and the layout after, so that the layout needs none.

use std::sync::Arc;

use thiserror::Error;

use crate::bounds::{Bounds, Range};
use crate::datatype::Parts;
use crate::signature::Signature;
use crate::{Basic, Datatype, Layout, Predefined};

/// Why a datatype cannot be made or used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DatatypeError {
    /// A count of elements or blocks below 0.
    #[error("datatype: the count {count} is negative\ncounts and block lengths must be 0 or more")]
    NegativeCount {
        /// The count that was given.
        count: i64,
    },
    /// A length or a place that 64 bits cannot hold.
    #[error(
        "datatype: {what} does not fit 64 bits\ncheck counts, strides and displacements for one that was never set"
    )]
    Overflow {
        /// What became too large.
        what: &'static str,
    },
    /// Constructors nested beyond what this library will follow.
    #[error(
        "datatype: nested more than {max} levels deep\nbuild it from fewer, longer lists of blocks: MPI_Type_create_struct takes any number"
    )]
    TooDeep {
        /// The most levels there may be.
        max: u32,
    },
    /// A subarray that does not lie in its array.
    #[error(
        "datatype: dimension {dimension} of the subarray ({start} + {subsize} of {size}) is not inside the array\nsizes and subsizes begin at 1, starts at 0, and start + subsize is at most size"
    )]
    OutsideArray {
        /// Index of the dimension.
        dimension: usize,
        /// Elements of the array there.
        size: i64,
        /// Elements of the subarray there.
        subsize: i64,
        /// First element of the subarray there.
        start: i64,
    },
    /// Lists of one constructor with different lengths.
    #[error(
        "datatype: the array has {sizes} sizes, {subsizes} subsizes and {starts} starts\neach must have one entry per dimension, and there must be a dimension"
    )]
    UnequalDimensions {
        /// Entries of the list of sizes.
        sizes: usize,
        /// Entries of the list of subsizes.
        subsizes: usize,
        /// Entries of the list of starts.
        starts: usize,
    },
    /// An array that cannot be dealt out to processes as is asked.
    #[error(
        "datatype: the array cannot be distributed: {what}\nMPI_Type_create_darray wants as many processes as its grid has, and in each dimension at least one element, and blocks that reach over all elements where each process has one block"
    )]
    Distribution {
        /// What does not fit.
        what: String,
    },
}

/// `length` elements in a row from `displacement` on. Whether displacements are extents or bytes says the
/// constructor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of elements.
    pub length: i64,
    /// Where the first element begins, in extents or in bytes, as the constructor says.
    pub displacement: i64,
}

/// One part of a struct: `length` elements of `datatype` in a row, `displacement` bytes from its start.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Number of elements.
    pub length: i64,
    /// Where the first element begins, in bytes from the start of the struct.
    pub displacement: i64,
    /// The datatype of an element.
    pub datatype: &'a Datatype,
}

/// Which index of an array runs fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayOrder {
    /// The last.
    C,
    /// The first.
    Fortran,
}

impl Datatype {
    /// `count` elements behind each other (MPI_Type_contiguous).
    ///
    /// # Errors
    /// A negative count, an overflow of a bound or of the size, or nesting too deep.
    pub fn contiguous(count: i64, element: &Datatype) -> Result<Datatype, DatatypeError> {
        Datatype::derived(element.row(count)?, made_of(count, element))
    }

    /// `count` blocks of `length` elements, `stride` extents apart (MPI_Type_vector).
    ///
    /// # Errors
    /// A negative count, an overflow of a bound or of the size, or nesting too deep.
    pub fn vector(
        count: i64,
        length: i64,
        stride: i64,
        element: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        Datatype::hvector(count, length, element.extents(stride)?, element)
    }

    /// `count` blocks of `length` elements, `stride` bytes apart (MPI_Type_create_hvector).
    ///
    /// # Errors
    /// A negative count, an overflow of a bound or of the size, or nesting too deep.
    pub fn hvector(
        count: i64,
        length: i64,
        stride: i64,
        element: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        Datatype::derived(element.row(length)?.repeated(count, stride)?, made_of(count.min(length), element))
    }

    /// Blocks of elements, displacements in extents (MPI_Type_indexed).
    ///
    /// # Errors
    /// A negative count, an overflow of a bound or of the size, or nesting too deep.
    pub fn indexed(blocks: &[Block], element: &Datatype) -> Result<Datatype, DatatypeError> {
        let in_bytes = |block: &Block| {
            Ok(Block { displacement: element.extents(block.displacement)?, length: block.length })
        };
        let blocks: Result<Vec<Block>, DatatypeError> = blocks.iter().map(in_bytes).collect();
        Datatype::hindexed(&blocks?, element)
    }

    /// Blocks of elements, displacements in bytes (MPI_Type_create_hindexed).
    ///
    /// # Errors
    /// A negative count, an overflow of a bound or of the size, or nesting too deep.
    pub fn hindexed(blocks: &[Block], element: &Datatype) -> Result<Datatype, DatatypeError> {
        let fields: Vec<Field<'_>> = blocks
            .iter()
            .map(|&Block { length, displacement }| Field { length, displacement, datatype: element })
            .collect();
        Datatype::structure(&fields)
    }

    /// Blocks of `length` elements each, displacements in extents (MPI_Type_create_indexed_block).
    ///
    /// # Errors
    /// A negative count, an overflow of a bound or of the size, or nesting too deep.
    pub fn indexed_block(
        length: i64,
        displacements: &[i64],
        element: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        Datatype::indexed(&blocks_of(length, displacements), element)
    }

    /// Blocks of `length` elements each, displacements in bytes (MPI_Type_create_hindexed_block).
    ///
    /// # Errors
    /// A negative count, an overflow of a bound or of the size, or nesting too deep.
    pub fn hindexed_block(
        length: i64,
        displacements: &[i64],
        element: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        Datatype::hindexed(&blocks_of(length, displacements), element)
    }

    /// Blocks of different datatypes (MPI_Type_create_struct).
    ///
    /// # Errors
    /// A negative count, an overflow of a bound or of the size, or nesting too deep.
    pub fn structure(fields: &[Field<'_>]) -> Result<Datatype, DatatypeError> {
        let mut rows = Rows::default();
        let parts: Result<Vec<Parts>, DatatypeError> = fields.iter().map(|field| rows.of(field)).collect();
        Datatype::derived(Parts::joined(parts?)?, made_of_fields(fields))
    }

    /// The part of an array that begins at `starts` and is `subsizes` large, with the extent of the whole
    /// array (MPI_Type_create_subarray). One entry per dimension in each list.
    ///
    /// # Errors
    /// A negative count, an overflow of a bound or of the size, or nesting too deep. Further a part that lies
    /// outside the array, or lists of unequal length.
    pub fn subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: ArrayOrder,
        element: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        let (mut part, mut stride, mut first) = (element.parts().clone(), element.extent(), 0_i64);
        for Dimension { size, subsize, start } in dimensions(sizes, subsizes, starts, order)? {
            part = part.repeated(subsize, stride)?;
            first = start.checked_mul(stride).and_then(|bytes| first.checked_add(bytes)).ok_or(FAR)?;
            stride = stride.checked_mul(size).ok_or(FAR)?;
        }
        part = part.shifted(first)?;
        part.bounds.marks = Some(Range { start: 0, end: stride });
        Datatype::derived(part, element.made_of())
    }

    /// A datatype with the same data, but with another lower bound and extent, in bytes
    /// (MPI_Type_create_resized).
    ///
    /// # Errors
    /// Overflow of their sum.
    pub fn resized(&self, lower_bound: i64, extent: i64) -> Result<Datatype, DatatypeError> {
        let end = lower_bound.checked_add(extent).ok_or(FAR)?;
        let mut parts = self.parts().clone();
        parts.bounds.marks = Some(Range { start: lower_bound, end });
        Datatype::derived(parts, self.made_of())
    }

    /// `count` elements of this in a row.
    fn row(&self, count: i64) -> Result<Parts, DatatypeError> {
        self.parts().repeated(count, self.extent())
    }

    /// `count` extents of this in bytes.
    fn extents(&self, count: i64) -> Result<i64, DatatypeError> {
        self.extent().checked_mul(count).ok_or(FAR)
    }
}

impl Parts {
    /// One element of a number format.
    pub(crate) fn of(predefined: Predefined, basic: Basic) -> Parts {
        let (data, alignment) = (basic_end(basic), basic.alignment_bytes() as i64);
        Parts {
            bounds: Bounds::of_data(Range { start: 0, end: data }, alignment),
            layout: Arc::new(basic_layout(basic)),
            signature: Arc::new(Signature::of(predefined)),
        }
    }

    /// `count` rounds, `stride` bytes apart.
    pub(crate) fn repeated(&self, count: i64, stride: i64) -> Result<Parts, DatatypeError> {
        if count < 0 {
            return Err(DatatypeError::NegativeCount { count });
        }
        let bounds = self.bounds.repeated(count, stride).ok_or(FAR)?;
        let signature = self.signature.repeated(count).ok_or(LARGE)?;
        let layout = Layout::repeated(&self.layout, count, stride);
        Ok(Parts { bounds, layout: Arc::new(layout), signature: Arc::new(signature) })
    }

    /// All of it, `bytes` further on.
    pub(crate) fn shifted(self, bytes: i64) -> Result<Parts, DatatypeError> {
        let bounds = self.bounds.shifted(bytes).ok_or(FAR)?;
        let layout = Layout::clone(&self.layout).shifted(bytes);
        Ok(Parts { bounds, layout: Arc::new(layout), signature: self.signature })
    }

    /// The parts one after the other, each at its own offset: what the constructor of a struct makes of its
    /// fields.
    pub(crate) fn joined(parts: Vec<Parts>) -> Result<Parts, DatatypeError> {
        let bounds = parts.iter().map(|part| part.bounds).fold(Bounds::EMPTY, Bounds::union);
        let signatures = parts.iter().map(|part| Signature::clone(&part.signature)).collect();
        let signature = Signature::joined(signatures).ok_or(LARGE)?;
        let layout = Layout::sequence(parts.iter().map(|part| Layout::clone(&part.layout)).collect());
        Ok(Parts { bounds, layout: Arc::new(layout), signature: Arc::new(signature) })
    }

    /// Both trees are walked by recursion, so a bottomless one is refused.
    pub(crate) fn check_depth(&self) -> Result<(), DatatypeError> {
        if DEPTH_MAX < self.layout.depth().max(self.signature.depth()) {
            return Err(DatatypeError::TooDeep { max: DEPTH_MAX });
        }
        Ok(())
    }
}

/// The rows of a struct. A field like the one before shares its layout, so that like parts are seen to be
/// alike.
#[derive(Default)]
struct Rows<'a> {
    last: Option<(i64, &'a Datatype, Parts)>,
}

impl<'a> Rows<'a> {
    fn of(&mut self, field: &Field<'a>) -> Result<Parts, DatatypeError> {
        let row = match &self.last {
            Some((length, datatype, row)) if *length == field.length && datatype.is_same(field.datatype) => {
                row.clone()
            }
            _ => field.datatype.row(field.length)?,
        };
        self.last = Some((field.length, field.datatype, row.clone()));
        row.shifted(field.displacement)
    }
}

/// One dimension of a subarray, checked.
struct Dimension {
    size: i64,
    subsize: i64,
    start: i64,
}

/// The dimensions, fastest first.
fn dimensions(
    sizes: &[i64],
    subsizes: &[i64],
    starts: &[i64],
    order: ArrayOrder,
) -> Result<Vec<Dimension>, DatatypeError> {
    let lengths = (sizes.len(), subsizes.len(), starts.len());
    if sizes.is_empty() || lengths.0 != lengths.1 || lengths.1 != lengths.2 {
        let (sizes, subsizes, starts) = lengths;
        return Err(DatatypeError::UnequalDimensions { sizes, subsizes, starts });
    }
    let dimension = |at: usize| dimension(at, sizes[at], subsizes[at], starts[at]);
    let mut dimensions: Vec<Dimension> = (0..sizes.len()).map(dimension).collect::<Result<_, _>>()?;
    if order == ArrayOrder::C {
        dimensions.reverse();
    }
    Ok(dimensions)
}

fn dimension(dimension: usize, size: i64, subsize: i64, start: i64) -> Result<Dimension, DatatypeError> {
    if size < 1 || subsize < 1 || size < subsize || start < 0 || size - subsize < start {
        return Err(DatatypeError::OutsideArray { dimension, size, subsize, start });
    }
    Ok(Dimension { size, subsize, start })
}

fn blocks_of(length: i64, displacements: &[i64]) -> Vec<Block> {
    displacements.iter().map(|&displacement| Block { length, displacement }).collect()
}

/// What `count` elements are made of: nothing, when there are none.
fn made_of(count: i64, element: &Datatype) -> Option<Predefined> {
    element.made_of().filter(|_| 0 < count)
}

fn made_of_fields(fields: &[Field<'_>]) -> Option<Predefined> {
    let mut with_data = fields.iter().filter(|field| field.length > 0 && field.datatype.size() > 0);
    let first = with_data.next()?.datatype.made_of()?;
    with_data.all(|field| field.datatype.made_of() == Some(first)).then_some(first)
}

/// Where the data of an element ends, before its extent is rounded up.
fn basic_end(basic: Basic) -> i64 {
    match basic.pair() {
        Some((_, index)) => (basic.index_offset() + index.bytes()) as i64,
        None => basic.bytes() as i64,
    }
}

fn basic_layout(basic: Basic) -> Layout {
    match basic.pair() {
        Some((value, index)) => Layout::sequence(vec![
            Layout::block(0, value.bytes() as i64),
            Layout::block(basic.index_offset() as i64, index.bytes() as i64),
        ]),
        None => Layout::block(0, basic.bytes() as i64),
    }
}

pub(crate) const FAR: DatatypeError = DatatypeError::Overflow { what: "a bound" };
const LARGE: DatatypeError = DatatypeError::Overflow { what: "the size" };

/// The deepest nesting that is followed, far beyond what real programs build and far within any thread's
/// stack.
const DEPTH_MAX: u32 = 512;
