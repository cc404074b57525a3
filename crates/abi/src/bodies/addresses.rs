//! Arithmetic on addresses (MPI 5.0 §5.1.5).

use crate::types::MPI_Aint;

/// The address `disp` bytes behind `base`. It wraps, so that no argument is an error.
pub fn mpi_aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

/// The distance in bytes from `addr2` to `addr1`.
pub fn mpi_aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_a_difference_leads_back() {
        for (left, right) in [(0, 5), (MPI_Aint::MAX, MPI_Aint::MIN), (-3, 9)] {
            assert_eq!(mpi_aint_add(right, mpi_aint_diff(left, right)), left);
        }
    }
}
