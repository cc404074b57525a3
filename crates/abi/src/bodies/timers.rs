//! The clock (MPI 5.0 §9.6). Both calls work before `MPI_Init` and after `MPI_Finalize`.

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// Seconds since some moment before this process began, never going back.
pub fn mpi_wtime() -> f64 {
    seconds(clock_gettime(ClockId::Monotonic))
}

/// The step of that clock, in seconds.
pub fn mpi_wtick() -> f64 {
    seconds(clock_getres(ClockId::Monotonic))
}

fn seconds(time: Timespec) -> f64 {
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_moves_on_by_no_less_than_its_tick() {
        let tick = mpi_wtick();
        assert!(tick > 0.0 && tick < 1.0, "{tick}");
        let begin = mpi_wtime();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(mpi_wtime() - begin >= 0.002 - tick);
    }
}
