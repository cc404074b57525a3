//! What a program has its signals do stays as it is while a foreign library is loaded.
//!
//! Constructors of libraries that providers link to take signals for themselves: libinfinipath those that end
//! a process, to write a file with a backtrace into the working directory.

use std::ffi::c_int;
use std::mem::MaybeUninit;

/// What each signal does. Dropping it makes them do so again.
pub(crate) struct Dispositions(Vec<(c_int, libc::sigaction)>);

impl Dispositions {
    /// Those of now.
    pub(crate) fn keep() -> Dispositions {
        Dispositions((1..libc::SIGRTMAX() + 1).filter_map(|signal| Some((signal, of(signal)?))).collect())
    }
}

impl Drop for Dispositions {
    fn drop(&mut self) {
        for (signal, before) in &self.0 {
            // Two signals cannot be set, and one that nobody has changed stays untouched, as other threads
            // may set it now.
            let is_as_before = |now: libc::sigaction| {
                (now.sa_sigaction, now.sa_flags) == (before.sa_sigaction, before.sa_flags)
            };
            if of(*signal).is_none_or(is_as_before) {
                continue;
            }
            // SAFETY: a disposition that the system has given, for the signal it was given for; its function
            // was the program's choice then and stays so.
            unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
    }
}

/// What the signal does; `None` where there is no such signal for programs.
fn of(signal: c_int) -> Option<libc::sigaction> {
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only asks, with room for the answer.
    let answer = unsafe { libc::sigaction(signal, std::ptr::null(), found.as_mut_ptr()) };
    // SAFETY: zeros are a value, over which the system has written one where it had one.
    (answer == 0).then(|| unsafe { found.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn nothing(_signal: c_int) {}

    #[test]
    fn what_was_changed_meanwhile_is_changed_back() {
        let kept = Dispositions::keep();
        let before = of(libc::SIGUSR2).expect("a signal of programs");
        let mut other = before;
        other.sa_sigaction = nothing as extern "C" fn(c_int) as usize;
        // SAFETY: the handler does nothing.
        assert_eq!(unsafe { libc::sigaction(libc::SIGUSR2, &other, std::ptr::null_mut()) }, 0);
        assert_eq!(of(libc::SIGUSR2).expect("as before").sa_sigaction, other.sa_sigaction);
        drop(kept);
        assert_eq!(of(libc::SIGUSR2).expect("as before").sa_sigaction, before.sa_sigaction);
    }
}
