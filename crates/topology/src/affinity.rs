//! Where the kernel lets this thread run, and asking it to run elsewhere.

use rustix::io::Errno;
use rustix::thread::{CpuSet as KernelSet, sched_getaffinity, sched_setaffinity};
use thiserror::Error;

use crate::{CpuSet, Host};

/// Why the affinity mask could not be read or set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AffinityError {
    /// The kernel does not say where this thread may run.
    #[error("cpus: the affinity mask of this process cannot be read: {cause}\nis /proc mounted?")]
    Unreadable {
        /// What the system said.
        cause: String,
    },
    /// A set that names no cpu, or one beyond what this call can express.
    #[error(
        "cpus: cannot bind to cpus {set}: the set must name at least one cpu, and cpus below {}\nbind with taskset or the launcher instead",
        KernelSet::MAX_CPU
    )]
    Inexpressible {
        /// The cpus that were asked for.
        set: CpuSet,
    },
    /// The kernel refused.
    #[error("cpus: cannot bind to cpus {set}: {cause}\nchoose among the cpus that this process may use")]
    Refused {
        /// The cpus that were asked for.
        set: CpuSet,
        /// What the system said.
        cause: Errno,
    },
}

/// The cpus that the calling thread may run on.
///
/// # Errors
/// [`AffinityError::Unreadable`].
pub fn cpus_allowed() -> Result<CpuSet, AffinityError> {
    match sched_getaffinity(None) {
        Ok(mask) => Ok((0..KernelSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).collect()),
        // The kernel is built for more cpus than the fixed mask of this call holds; its text form has no
        // limit.
        Err(Errno::INVAL) => cpus_in_status(),
        Err(cause) => Err(AffinityError::Unreadable { cause: cause.to_string() }),
    }
}

/// Binds the calling thread to some cpus.
///
/// # Errors
/// An empty set, a cpu of 1024 or above, or what the kernel refuses: cpus that are absent or forbidden.
pub fn bind_current_thread(cpus: &CpuSet) -> Result<(), AffinityError> {
    if cpus.is_empty() || cpus.iter().any(|cpu| KernelSet::MAX_CPU <= cpu) {
        return Err(AffinityError::Inexpressible { set: cpus.clone() });
    }
    let mut mask = KernelSet::new();
    cpus.iter().for_each(|cpu| mask.set(cpu));
    sched_setaffinity(None, &mask).map_err(|cause| AffinityError::Refused { set: cpus.clone(), cause })
}

fn cpus_in_status() -> Result<CpuSet, AffinityError> {
    let unreadable = |cause: String| AffinityError::Unreadable { cause };
    let status = std::fs::read_to_string(STATUS).map_err(|error| unreadable(format!("{STATUS}: {error}")))?;
    let allowed =
        allowed_in(&status).ok_or_else(|| unreadable(format!("{STATUS} has no list of allowed cpus")))?;
    // The status also names cpus that are switched off, or could be plugged in one day; the call does not.
    Ok(Host::here().online().map_or(allowed.clone(), |online| allowed.intersection(&online)))
}

/// The list in a status file.
fn allowed_in(status: &str) -> Option<CpuSet> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty())
}

/// The status of the calling thread, not of the first one.
const STATUS: &str = "/proc/thread-self/status";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_reading_agree() {
        assert_eq!(cpus_allowed(), cpus_in_status());
    }

    #[test]
    fn lists_beyond_the_fixed_mask_are_read() {
        let status = "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7,2040-2047\nMems_allowed:\t1\n";
        assert_eq!(allowed_in(status).map(|cpus| cpus.len()), Some(16));
        for nonsense in ["", "Cpus_allowed_list:\tall\n", "Cpus_allowed_list:\n"] {
            assert_eq!(allowed_in(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn a_thread_runs_where_it_was_bound() {
        let allowed = cpus_allowed().expect("readable");
        let last = CpuSet::from_iter(allowed.iter().last());
        let bound = std::thread::spawn({
            let last = last.clone();
            move || bind_current_thread(&last).and_then(|()| cpus_allowed())
        });
        assert_eq!(bound.join().expect("no panic"), Ok(last));
        assert_eq!(cpus_allowed().expect("readable"), allowed, "other threads stay where they were");
    }

    #[test]
    fn impossible_bindings_are_refused() {
        for set in [CpuSet::new(), CpuSet::from_iter([0, 1024])] {
            assert_eq!(bind_current_thread(&set), Err(AffinityError::Inexpressible { set }));
        }
        let absent = CpuSet::from_iter([1023]);
        if Host::here().online().is_some_and(|online| !online.contains(1023)) {
            let refusal = AffinityError::Refused { set: absent.clone(), cause: Errno::INVAL };
            assert_eq!(bind_current_thread(&absent), Err(refusal));
        }
    }
}
