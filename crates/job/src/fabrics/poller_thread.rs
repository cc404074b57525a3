//! A thread that wakes those who sleep on shared memory when something comes over tcp.
//!
//! There is no one thing in the kernel to sleep on for both. So a process that has both open and goes to
//! sleep for the first time begins this thread, which sleeps on tcp's poller and rings the bell in shared
//! memory (decision 0007).

use std::sync::Arc;
use std::thread::JoinHandle;

use fabric::{Bell, Fabric};

use super::{NoSignals, Shm, Tcp, TcpLookout};

/// The thread, until this is dropped.
pub(super) struct PollerThread {
    tcp: Arc<TcpLookout>,
    thread: Option<JoinHandle<()>>,
    beginner: u32,
}

impl PollerThread {
    /// Begins it; none where the system has no thread or descriptor for it.
    pub(super) fn begin(shm: &<Shm as Fabric>::Bell, tcp: &<Tcp as Fabric>::Bell) -> Option<PollerThread> {
        let tcp = Arc::new(tcp.sleep_watch().ok()?);
        let (watched, sleepers) = (tcp.clone(), shm.clone());
        let _no_signals = NoSignals::begin();
        let thread = std::thread::Builder::new()
            .name("weft-poller".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                while watched.wait() {
                    sleepers.ring();
                }
            })
            .ok()?;
        Some(PollerThread { tcp, thread: Some(thread), beginner: std::process::id() })
    }

    /// To be called between arming and sleeping: whatever comes over tcp from then on, or has come, rings the
    /// bell. False where it does not.
    pub(super) fn arm(&self) -> bool {
        self.tcp.arm()
    }
}

impl Drop for PollerThread {
    fn drop(&mut self) {
        // A child made by fork has no such thread, and the end would be that of its parent's.
        if let Some(thread) = self.thread.take().filter(|_| std::process::id() == self.beginner) {
            self.tcp.end();
            let _ = thread.join();
        }
    }
}

/// It calls nothing deep.
const STACK_BYTES: usize = 64 << 10;
