//! Memory that the library allocates for the program (MPI 5.0 §9.2).
//!
//! Larger pieces come from memory that the other processes of the node can map, where there is such. What was handed
//! out is kept in a table, so that a foreign address is an error and not a broken heap.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use weft::{Class, Error, Result, SharedHeap};

use crate::bodies::info;
use crate::bodies::pointers::Place;
use crate::entry::Target;
use crate::objects::lock;
use crate::state::call;
use crate::types::*;

/// What is handed out, by address.
static ALLOCATED: Mutex<Option<HashMap<usize, Allocation>>> = Mutex::new(None);

/// Where memory was taken, and is given back.
enum Allocation {
    Private(Layout),
    Shared(SharedHeap),
}

/// Allocates memory, at least at the beginning of a cache line, or aligned as the info key
/// `mpi_minimum_memory_alignment` asks.
///
/// # Safety
/// `baseptr` is null or the address of a pointer, writable.
pub unsafe fn mpi_alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: *mut c_void) -> c_int {
    call("MPI_Alloc_mem", Target::World, |runtime| {
        // SAFETY: the program's promise is handed on.
        let place = unsafe { Place::new(baseptr.cast::<*mut c_void>(), "baseptr")? };
        let heap = runtime.process().shared_heap();
        place.set(allocate(layout(size, info)?, heap)?);
        Ok(())
    })
}

fn layout(size: MPI_Aint, info: MPI_Info) -> Result<Layout> {
    let asked = info::pairs(info)?;
    // What cannot be read as a number is a hint that is not understood, and ignored (MPI 5.0 §10).
    let asked = asked
        .value("mpi_minimum_memory_alignment")
        .and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    let alignment_bytes =
        asked.filter(|bytes: &usize| bytes.is_power_of_two()).unwrap_or(1).max(CACHE_LINE_BYTES);
    // An allocation of no bytes has an address of its own all the same, so that it can be freed.
    let bytes = usize::try_from(size).map(|bytes| bytes.max(1));
    let layout = bytes.ok().and_then(|bytes| Layout::from_size_align(bytes, alignment_bytes).ok());
    layout.ok_or_else(|| Error::new(Class::Argument, format!("the size is {size} bytes")))
}

fn allocate(layout: Layout, heap: Option<&SharedHeap>) -> Result<*mut c_void> {
    let (start, allocation) = match heap {
        Some(heap) => match heap.take(layout.size(), layout.align()) {
            Ok(Some(start)) => (start, Allocation::Shared(heap.clone())),
            Ok(None) => allocate_private(layout)?,
            Err(error) => return Err(Error::of_text(Class::NoMemory, &error.to_string())),
        },
        None => allocate_private(layout)?,
    };
    lock(&ALLOCATED).get_or_insert_default().insert(start.addr(), allocation);
    Ok(start.cast())
}

fn allocate_private(layout: Layout) -> Result<(*mut u8, Allocation)> {
    // SAFETY: the layout has at least one byte.
    let start = unsafe { alloc(layout) };
    if start.is_null() {
        let what = format!("{} bytes, aligned to {}, cannot be allocated", layout.size(), layout.align());
        return Err(Error::new(Class::NoMemory, what).remedy("ask for less, or give the job more memory"));
    }
    Ok((start, Allocation::Private(layout)))
}

/// Frees memory of [`mpi_alloc_mem`]. A null pointer is nothing to free.
///
/// # Safety
/// Nobody uses the memory any more.
pub unsafe fn mpi_free_mem(base: *mut c_void) -> c_int {
    call("MPI_Free_mem", Target::World, |_| {
        if base.is_null() {
            return Ok(());
        }
        let allocation = lock(&ALLOCATED).as_mut().and_then(|allocated| allocated.remove(&base.addr()));
        match allocation {
            None => {
                let what = format!("{base:p} was not allocated by MPI_Alloc_mem, or is freed already");
                return Err(Error::new(Class::Argument, what));
            }
            // SAFETY: the table says that this address was allocated with this layout and not freed since.
            Some(Allocation::Private(layout)) => unsafe { dealloc(base.cast(), layout) },
            Some(Allocation::Shared(heap)) => {
                heap.give_back(base.cast());
            }
        }
        Ok(())
    })
}

/// The least alignment that is worth having.
const CACHE_LINE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::testing::{self, Answer};
    use crate::generated::constants::*;
    use std::ptr::{null_mut, without_provenance_mut};

    fn new(size: MPI_Aint, info: MPI_Info) -> Answer<*mut u8> {
        let mut base: *mut u8 = null_mut();
        // SAFETY: `base` is a pointer.
        let code = unsafe { mpi_alloc_mem(size, info, (&raw mut base).cast()) };
        if code == MPI_SUCCESS { Ok(base) } else { Err(code) }
    }

    fn free(base: *mut u8) -> c_int {
        // SAFETY: no test uses what it has freed.
        unsafe { mpi_free_mem(base.cast()) }
    }

    #[test]
    fn memory_is_writable_and_aligned() {
        testing::start();
        for bytes in [0, 1, 64, 1 << 20] {
            let base = new(bytes, MPI_INFO_NULL).unwrap();
            assert_eq!(base.addr() % CACHE_LINE_BYTES, 0);
            // SAFETY: so many bytes were asked for.
            unsafe { base.write_bytes(7, bytes as usize) };
            assert_eq!([free(base), free(base)], [MPI_SUCCESS, MPI_ERR_ARG]);
        }
    }

    #[test]
    fn a_greater_alignment_can_be_asked_for() {
        testing::start();
        for (hint, bytes) in [("8192", 8192), ("8", 64), ("300", 64), ("many", 64)] {
            let pairs = [("mpi_minimum_memory_alignment", hint.to_owned())].into_iter().collect();
            let base = new(10, info::adopt(pairs).unwrap()).unwrap();
            assert_eq!(base.addr() % bytes, 0, "{hint}");
            assert_eq!(free(base), MPI_SUCCESS);
        }
    }

    #[test]
    fn wrong_arguments_get_their_class() {
        testing::start();
        assert_eq!(new(-1, MPI_INFO_NULL), Err(MPI_ERR_ARG));
        assert_eq!(new(MPI_Aint::MAX, MPI_INFO_NULL), Err(MPI_ERR_ARG));
        assert_eq!(new(1 << 60, MPI_INFO_NULL), Err(MPI_ERR_NO_MEM));
        assert_eq!(new(8, MPI_Info::from_value(0x5000)), Err(MPI_ERR_INFO));
        // SAFETY: null is refused.
        assert_eq!(unsafe { mpi_alloc_mem(8, MPI_INFO_NULL, null_mut()) }, MPI_ERR_ARG);
        assert_eq!([free(null_mut()), free(without_provenance_mut(0x1000))], [MPI_SUCCESS, MPI_ERR_ARG]);
    }
}
