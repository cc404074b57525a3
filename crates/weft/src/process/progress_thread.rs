//! A thread that makes progress while the program's own threads compute: it carries out what other processes
//! ask of windows that they reach by messages (MPI 5.0 §12.7.3).
//!
//! It is there while such a window is, in a process whose library any thread may call. While another thread
//! makes the turns of progress it rests, since senders would have to wake it for each message; else it sleeps
//! on the bell that senders ring.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use fabric::Bell;
use job::fabrics::NoSignals;
use job::lock::lock;

use super::Process;

/// The thread of a process, shared by all that need it; it ends with the last of them.
pub(crate) struct ProgressThread {
    process: Arc<Process>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    beginner: u32,
}

impl Process {
    /// The thread that makes progress beside the program's; none where the library serves one thread alone,
    /// or the system has none to give.
    pub(crate) fn progress_thread(self: &Arc<Process>) -> Option<Arc<ProgressThread>> {
        if !self.is_shared() {
            return None;
        }
        let mut known = lock(&self.progress_thread);
        if let Some(thread) = known.upgrade() {
            return Some(thread);
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (process, told) = (self.clone(), is_over.clone());
        let no_signals = NoSignals::begin();
        let thread = Builder::new()
            .name("weft-progress".into())
            .spawn(move || process.make_progress_until(&told))
            .ok()?;
        drop(no_signals);
        let beginner = std::process::id();
        let begun =
            Arc::new(ProgressThread { process: self.clone(), is_over, thread: Some(thread), beginner });
        *known = Arc::downgrade(&begun);
        Some(begun)
    }

    fn make_progress_until(&self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::SeqCst) {
            if self.crowd.is_turning() {
                std::thread::park_timeout(REST);
                continue;
            }
            // What came before is seen by this turn, what comes later makes the sleep short.
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            let armed = self.bell.arm();
            let mut engine = self.hold();
            let happened = self.turn(&mut engine);
            drop(engine);
            if happened == 0 && !is_over.load(Ordering::SeqCst) {
                self.bell.sleep(armed, SLEEP_MAX);
            }
            self.disarm();
        }
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        // A child made by fork has no such thread.
        let Some(thread) = self.thread.take().filter(|_| std::process::id() == self.beginner) else { return };
        self.is_over.store(true, Ordering::SeqCst);
        thread.thread().unpark();
        self.process.ring();
        let _ = thread.join();
    }
}

/// Where the thread is known, so that the next window finds it.
pub(super) type KnownThread = std::sync::Mutex<Weak<ProgressThread>>;

/// How long it rests while another thread makes the turns.
const REST: Duration = Duration::from_millis(1);
/// The longest sleep, where nobody rings.
const SLEEP_MAX: Duration = Duration::from_millis(100);
