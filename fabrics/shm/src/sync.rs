//! Atomic words and barriers: the only file of this crate that names them.
//!
//! Under `--cfg loom` they are loom's, so that the models in `loom_tests` explore every interleaving. The
//! asymmetric pair of barriers is then a full fence on both sides, which is what it amounts to.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32 as Word, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32 as Word, Ordering};

/// The cheap half of an asymmetric barrier, for those who publish: keeps the compiler from reordering, and
/// leaves the processor to [`heavy_barrier`].
#[inline]
pub fn light_barrier() {
    #[cfg(not(any(loom, miri)))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(miri)]
    core::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// The dear half, for those about to sleep: afterwards either the others' earlier writes are seen here, or
/// our earlier writes are seen by whatever the others read after their [`light_barrier`].
///
/// Holds between processes that have all [`enlisted`]; costs a few microseconds.
#[cfg(not(any(loom, miri)))]
pub fn heavy_barrier() {
    use rustix::thread::{MembarrierCommand, membarrier};
    core::sync::atomic::fence(Ordering::SeqCst);
    // A refusal is no surprise here: `enlisted` has told of it, and the sleep is kept short instead.
    let _ = membarrier(MembarrierCommand::GlobalExpedited);
}

/// Miri knows no membarrier.
#[cfg(miri)]
pub fn heavy_barrier() {
    core::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub fn heavy_barrier() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Enters this process in the kernel's list for [`heavy_barrier`]; false where the kernel will not.
///
/// Entering costs most in a process of many threads, so it is done once.
#[cfg(not(loom))]
pub fn enlisted() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    static ENLISTED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ENLISTED.get_or_init(|| membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok())
}
