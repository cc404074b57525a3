//! The part of an array that a process of a grid has (MPI 5.0 section 5.1.4, as High Performance Fortran
//! deals arrays out): block by block in turn along each dimension.
//!
//! ```text
//! 10 elements, blocks of 3, 2 processes
//!            0 0 0 1 1 1 0 0 0 1
//! ```

use crate::bounds::Range;
use crate::build::{DatatypeError, FAR};
use crate::datatype::Parts;
use crate::{ArrayOrder, Datatype};

/// How one dimension is dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Not at all: its one process has all of it.
    Whole,
    /// One block of this many elements for each process. `None` is the least number with which the blocks
    /// cover all elements.
    Block(Option<i64>),
    /// Blocks of this many elements, dealt out to the processes in turn. `None` is 1.
    Cyclic(Option<i64>),
}

/// One dimension of an array that is dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distributed {
    /// Elements of the whole array.
    pub elements: i64,
    /// How the elements are dealt out.
    pub distribution: Distribution,
    /// Processes of the grid in this dimension.
    pub processes: i64,
}

/// One process of the grid that an array is dealt out to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The process, from 0 on; the last dimension of the grid runs fastest, whatever the order of the array.
    pub rank: i64,
    /// How many processes the grid has.
    pub size: i64,
}

impl Datatype {
    /// The part of an array that one process of a grid has, with the extent of the whole array
    /// (MPI_Type_create_darray).
    ///
    /// # Errors
    /// A negative count, an overflow of a bound or of the size, or nesting too deep. Further
    /// [`DatatypeError::Distribution`], where the array cannot be dealt out as is asked.
    pub fn distributed(
        place: Place,
        dimensions: &[Distributed],
        order: ArrayOrder,
        element: &Datatype,
    ) -> Result<Datatype, DatatypeError> {
        let mut dealt = dealt(place, dimensions)?;
        if order == ArrayOrder::C {
            dealt.reverse();
        }
        let (mut part, mut stride) = (element.parts().clone(), element.extent());
        for dimension in dealt {
            part = dimension.of(&part, stride)?;
            stride = stride.checked_mul(dimension.elements).ok_or(FAR)?;
        }
        part.bounds.marks = Some(Range { start: 0, end: stride });
        let made_of = element.made_of().filter(|_| 0 < part.layout.bytes());
        Datatype::derived(part, made_of)
    }
}

/// What one process has of one dimension: the blocks `first`, `first + step`, and so on.
struct Dealt {
    elements: i64,
    block: i64,
    first: i64,
    step: i64,
}

impl Dealt {
    /// That part, of elements that are `stride` bytes apart.
    fn of(&self, element: &Parts, stride: i64) -> Result<Parts, DatatypeError> {
        let blocks = self.elements / self.block;
        let rest = self.elements % self.block;
        let whole = if self.first < blocks { (blocks - 1 - self.first) / self.step + 1 } else { 0 };
        let bytes = |elements: i64| elements.checked_mul(stride).ok_or(FAR);
        let row = element.repeated(self.block.min(self.elements), stride)?;
        let mut part = row.repeated(whole, if whole < 2 { 0 } else { bytes(self.block * self.step)? })?;
        if 0 < whole {
            part = part.shifted(bytes(self.block * self.first)?)?;
        }
        if rest == 0 || blocks % self.step != self.first {
            return Ok(part);
        }
        let last = element.repeated(rest, stride)?.shifted(bytes(self.block * blocks)?)?;
        Parts::joined(vec![part, last])
    }
}

fn dealt(place: Place, dimensions: &[Distributed]) -> Result<Vec<Dealt>, DatatypeError> {
    let Place { rank, size } = place;
    let product = dimensions.iter().try_fold(1_i64, |product, dimension| {
        if dimension.processes < 1 { None } else { product.checked_mul(dimension.processes) }
    });
    if dimensions.is_empty() || product != Some(size) {
        return Err(refused(format!(
            "its grid of {} dimensions is not one of {size} processes",
            dimensions.len()
        )));
    }
    if !(0..size).contains(&rank) {
        return Err(refused(format!("there is no process {rank} among {size}")));
    }
    let mut rest = rank;
    let mut dealt = Vec::with_capacity(dimensions.len());
    for (index, dimension) in dimensions.iter().enumerate().rev() {
        dealt.push(dimension.dealt(index, rest % dimension.processes)?);
        rest /= dimension.processes;
    }
    dealt.reverse();
    Ok(dealt)
}

impl Distributed {
    /// What the process with this coordinate has of the dimension.
    fn dealt(&self, index: usize, coordinate: i64) -> Result<Dealt, DatatypeError> {
        let Distributed { elements, distribution, processes } = *self;
        if elements < 1 {
            return Err(refused(format!("dimension {index} has {elements} elements")));
        }
        let block = match distribution {
            Distribution::Whole if processes != 1 => {
                return Err(refused(format!(
                    "dimension {index} is whole, and its grid has {processes} processes"
                )));
            }
            Distribution::Whole => elements,
            Distribution::Block(block) => block.unwrap_or_else(|| (elements - 1) / processes + 1),
            Distribution::Cyclic(block) => block.unwrap_or(1),
        };
        let reached = block.saturating_mul(processes);
        if block < 1 || matches!(distribution, Distribution::Block(_)) && reached < elements {
            let what = format!("{processes} blocks of {block} for {elements} elements");
            return Err(refused(format!("dimension {index} has {what}")));
        }
        // A block reaches no further than the elements do, so that all products stay within them.
        Ok(Dealt { elements, block: block.min(elements), first: coordinate, step: processes })
    }
}

#[cold]
fn refused(what: String) -> DatatypeError {
    DatatypeError::Distribution { what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Predefined;

    fn made(rank: i64, size: i64, dimensions: &[Distributed]) -> Result<Datatype, DatatypeError> {
        let int = Predefined::Int.datatype();
        Datatype::distributed(Place { rank, size }, dimensions, ArrayOrder::C, int)
    }

    fn dimension(elements: i64, distribution: Distribution, processes: i64) -> Distributed {
        Distributed { elements, distribution, processes }
    }

    #[test]
    fn layouts_are_loops() {
        let cyclic = dimension(1000, Distribution::Cyclic(Some(3)), 4);
        let found = made(2, 4, &[cyclic]).expect("valid");
        assert_eq!(format!("{:?}", found.layout()), "(+24) 83 x +48 of 12 bytes at 0");
        assert_eq!((found.lower_bound(), found.extent()), (0, 4000));
        let last = made(3, 4, &[dimension(1000, Distribution::Block(None), 4)]).expect("valid");
        assert_eq!(format!("{:?}", last.layout()), "1000 bytes at 3000");
    }

    #[test]
    fn who_has_nothing_has_the_extent_all_the_same() {
        let none = made(2, 3, &[dimension(4, Distribution::Block(Some(2)), 3)]).expect("valid");
        assert_eq!((none.size(), none.extent(), none.made_of()), (0, 16, None));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let block = |block| Distribution::Block(Some(block));
        for ((rank, size), dimensions) in [
            ((0, 1), vec![]),
            ((0, 3), vec![dimension(4, block(4), 2)]),
            ((2, 2), vec![dimension(4, block(4), 2)]),
            ((-1, 2), vec![dimension(4, block(4), 2)]),
            ((0, 2), vec![dimension(4, block(1), 2)]),
            ((0, 2), vec![dimension(4, block(0), 2)]),
            ((0, 2), vec![dimension(4, Distribution::Cyclic(Some(-1)), 2)]),
            ((0, 2), vec![dimension(4, Distribution::Whole, 2)]),
            ((0, 2), vec![dimension(0, Distribution::Block(None), 2)]),
            ((0, 4), vec![dimension(4, block(4), -2), dimension(4, block(4), -2)]),
        ] {
            let found = made(rank, size, &dimensions);
            assert!(
                matches!(found, Err(DatatypeError::Distribution { .. })),
                "rank {rank} of {size}, {dimensions:?}: {found:?}"
            );
        }
    }

    #[test]
    fn huge_arrays_are_dealt_out_or_refused() {
        let far = dimension(1 << 40, Distribution::Cyclic(Some(1 << 35)), 8);
        let found = made(7, 8, &[far]).expect("valid");
        assert_eq!((found.size(), found.true_lower_bound()), (1 << 39, 7 << 37));
        let odd = dimension(i64::MAX / 4, Distribution::Cyclic(Some(i64::MAX)), 1);
        assert_eq!(made(0, 1, &[odd]).expect("valid").size(), i64::MAX / 4 * 4);
        let beyond = dimension(i64::MAX / 2, Distribution::Block(None), 1);
        assert!(matches!(made(0, 1, &[beyond]), Err(DatatypeError::Overflow { .. })));
    }
}
