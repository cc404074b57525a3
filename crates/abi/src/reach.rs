//! With `WEFT_CHECK=1`: whether the elements of a buffer lie in memory that the program has. A datatype whose
//! gaps reach farther than its buffer is found where the memory behind is nobody's, or the buffer is one of
//! `MPI_Alloc_mem`, whose end is known.

use std::ffi::c_void;
use std::ops::Range;

use datatype::Datatype;
use weft::{Class, Error, Result};

use crate::bodies::allocation;

/// What is to be done with the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Looks at every element of a buffer whose arguments are right.
#[cold]
pub(crate) fn check(buffer: *const c_void, count: i64, datatype: &Datatype, access: Access) -> Result<()> {
    let wrong = |error: datatype::DatatypeError| Error::new(Class::Count, error.to_string());
    let span = datatype.span(count).map_err(wrong)?;
    let start = buffer.addr().wrapping_add(span.start as usize);
    let mut blocks = ReachedBlocks { parts: Vec::new() };
    let packed = datatype.packed_bytes(count).map_err(wrong)?;
    datatype::each_block(datatype, count, 0..packed, &mut |offset, bytes| {
        blocks.add(start.wrapping_add(offset), bytes);
    })
    .map_err(wrong)?;
    let Some(first) = blocks.parts.first().cloned() else { return Ok(()) };
    if let Some(allocated) = allocation::allocation_of(first.start) {
        return blocks.lie_in(&[allocated], "the memory that MPI_Alloc_mem gave");
    }
    match mapped(access) {
        Some(mapped) => blocks.lie_in(&mapped, "the memory that this process has"),
        None => Ok(()),
    }
}

/// Parts of memory, those that touch as one.
struct ReachedBlocks {
    parts: Vec<Range<usize>>,
}

impl ReachedBlocks {
    fn add(&mut self, start: usize, bytes: usize) {
        let end = start.wrapping_add(bytes);
        match self.parts.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.parts.push(start..end),
        }
    }

    /// All of them must lie in one of `places` each, which are in order.
    fn lie_in(&self, places: &[Range<usize>], whose: &str) -> Result<()> {
        for part in &self.parts {
            let before = places.partition_point(|place| place.start <= part.start);
            let holds = before.checked_sub(1).and_then(|at| places.get(at));
            if holds.is_none_or(|place| part.end > place.end || part.start > part.end) {
                let what = format!("the elements at {:#x} to {:#x} lie beyond {whose}", part.start, part.end);
                return Err(Error::new(Class::Buffer, what).remedy(
                    "compare the extent of the datatype, times the count, with the size of the buffer",
                ));
            }
        }
        Ok(())
    }
}

/// The memory of this process that may be read, or written, in order; `None` where the kernel does not tell.
fn mapped(access: Access) -> Option<Vec<Range<usize>>> {
    let text = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut places: Vec<Range<usize>> = Vec::new();
    for place in text.lines().filter_map(|line| mapping(line, access)) {
        match places.last_mut() {
            Some(last) if last.end == place.start => last.end = place.end,
            _ => places.push(place),
        }
    }
    Some(places)
}

/// The range of a line of `/proc/self/maps`, where it may be used so.
fn mapping(line: &str, access: Access) -> Option<Range<usize>> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let letter = if access == Access::Read { 'r' } else { 'w' };
    let number = |text| usize::from_str_radix(text, 16).ok();
    rest.split(' ').next()?.contains(letter).then_some(number(start)?..number(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = "7f00-8f00 r--p 00000000 00:00 0   [stack]";
        assert_eq!(mapping(line, Access::Read), Some(0x7f00..0x8f00));
        assert_eq!(mapping(line, Access::Write), None);
        assert_eq!(mapping("no line", Access::Read), None);
        let here = &raw const line;
        assert!(mapped(Access::Read).unwrap().iter().any(|place| place.contains(&here.addr())));
    }

    #[test]
    fn parts_that_touch_are_one_and_must_lie_in_one_place() {
        let mut blocks = ReachedBlocks { parts: Vec::new() };
        [(10, 5), (15, 5), (40, 2)].into_iter().for_each(|(start, bytes)| blocks.add(start, bytes));
        assert_eq!(blocks.parts, [10..20, 40..42]);
        assert!(blocks.lie_in(&[0..30, 40..50], "it").is_ok());
        for wrong in [[0..30, 50..60], [0..15, 16..50], [11..50, 50..60]] {
            assert_eq!(blocks.lie_in(&wrong, "it").unwrap_err().class, Class::Buffer, "{wrong:?}");
        }
        assert!(blocks.lie_in(&[], "it").is_err());
    }
}
