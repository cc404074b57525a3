//! Tests of memory that the library allocates for the program.

use super::*;
use crate::bodies::testing::{self, Answer};
use crate::generated::constants::*;
use std::ptr::{null_mut, without_provenance_mut};

fn new(size: MPI_Aint, info: MPI_Info) -> Answer<*mut u8> {
    let mut base = null_mut();
    let code = mpi_alloc_mem(size, info, Place::of(&mut base));
    if code == MPI_SUCCESS { Ok(base.cast()) } else { Err(code) }
}

fn free(base: *mut u8) -> c_int {
    mpi_free_mem(base.cast())
}

#[test]
fn memory_is_writable_and_aligned() {
    testing::start();
    for bytes in [0, 1, 64, 1 << 20] {
        let base = new(bytes, MPI_INFO_NULL).unwrap();
        assert_eq!(base.addr() % CACHE_LINE_BYTES, 0);
        // SAFETY: so many bytes were asked for.
        unsafe { base.write_bytes(7, bytes as usize) };
        assert_eq!([free(base), free(base)], [MPI_SUCCESS, MPI_ERR_BASE]);
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
    assert_eq!(mpi_alloc_mem(8, MPI_INFO_NULL, Place::NULL), MPI_ERR_ARG);
    assert_eq!([free(null_mut()), free(without_provenance_mut(0x1000))], [MPI_SUCCESS, MPI_ERR_BASE]);
}
