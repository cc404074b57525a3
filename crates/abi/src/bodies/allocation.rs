//! Memory that the library allocates for the program (MPI 5.0 §9.2).
//!
//! What was handed out is kept in a table, so that a foreign address is an error and not a broken heap.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Mutex;

use weft::{Allocation, Class, Error, Result};

use crate::bodies::info::{self, Pairs};
use crate::claims::Place;
use crate::entry::Target;
use crate::objects::lock;
use crate::state::call;
use crate::types::*;

/// What is handed out, by address.
static ALLOCATED: Mutex<Option<HashMap<usize, AllocatedBlock>>> = Mutex::new(None);

/// Memory that was handed out.
struct AllocatedBlock {
    memory: Allocation,
    bytes: usize,
}

/// Allocates memory, at least at the beginning of a cache line, or aligned as the info key
/// `mpi_minimum_memory_alignment` asks.
pub fn mpi_alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: Place<'_, *mut c_void>) -> c_int {
    call("MPI_Alloc_mem", Target::World, |runtime| {
        let place = baseptr.checked("baseptr")?;
        let layout = layout(size, &info::pairs(info)?)?;
        let memory = Allocation::new(layout, runtime.process().shared_heap())?;
        let (start, bytes) = (memory.start(), layout.size());
        lock(&ALLOCATED).get_or_insert_default().insert(start.addr(), AllocatedBlock { memory, bytes });
        place.set(start.cast());
        Ok(())
    })
}

/// The memory handed out that an address lies in.
pub(crate) fn allocation_of(address: usize) -> Option<Range<usize>> {
    let allocated = lock(&ALLOCATED);
    let mut ranges = allocated.iter().flatten().map(|(&start, memory)| start..start + memory.bytes);
    ranges.find(|range| range.contains(&address))
}

/// How memory is aligned where the program gives these hints.
pub(crate) fn alignment_bytes(hints: &Pairs) -> usize {
    // What cannot be read as a number is a hint that is not understood, and ignored (MPI 5.0 §10).
    let asked = hints
        .value("mpi_minimum_memory_alignment")
        .and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    asked.filter(|bytes: &usize| bytes.is_power_of_two()).unwrap_or(1).max(CACHE_LINE_BYTES)
}

fn layout(size: MPI_Aint, hints: &Pairs) -> Result<Layout> {
    // An allocation of no bytes has an address of its own all the same, so that it can be freed.
    let bytes = usize::try_from(size).map(|bytes| bytes.max(1));
    let layout = bytes.ok().and_then(|bytes| Layout::from_size_align(bytes, alignment_bytes(hints)).ok());
    layout.ok_or_else(|| Error::new(Class::Argument, format!("the size is {size} bytes")))
}

/// Frees memory of [`mpi_alloc_mem`]. A null pointer is nothing to free.
pub fn mpi_free_mem(base: *mut c_void) -> c_int {
    call("MPI_Free_mem", Target::World, |_| {
        if base.is_null() {
            return Ok(());
        }
        let allocation = lock(&ALLOCATED).as_mut().and_then(|allocated| allocated.remove(&base.addr()));
        let what = || format!("{base:p} was not allocated by MPI_Alloc_mem, or is freed already");
        allocation.map(|allocation| drop(allocation.memory)).ok_or_else(|| Error::new(Class::Base, what()))
    })
}

/// The least alignment that is worth having.
const CACHE_LINE_BYTES: usize = 64;

#[cfg(test)]
#[path = "allocation_tests.rs"]
mod tests;
