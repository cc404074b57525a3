//! Operations that go on while the program does something else: each turn of progress takes them a step
//! further.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use job::fabrics::Fabrics;
use job::lock::lock;
use messaging::{Engine, RequestId};

use crate::process::WaitsFor;

/// Something that is done in steps.
pub(crate) trait Operation: Send {
    /// Goes as far as it can without waiting; true when it is over.
    fn advance(&mut self, engine: &mut Engine<Fabrics>) -> bool;

    /// The process may go to sleep when it has looked once more.
    fn lie_down(&mut self) {}

    /// Somebody looks or waits for the end of that request, which may be the one that ends with this
    /// operation.
    fn want(&mut self, _request: RequestId) {}

    /// What it waits for, where it ends that request and knows it.
    fn waits_for(&self, _request: RequestId) -> Option<WaitsFor> {
        None
    }
}

/// The operations under way. Only who holds the engine touches them.
#[derive(Default)]
pub(crate) struct Background {
    count: AtomicUsize,
    operations: Mutex<Vec<Box<dyn Operation>>>,
}

impl Background {
    /// Whether there are any.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Begins one.
    pub(crate) fn add(&self, mut operation: Box<dyn Operation>, engine: &mut Engine<Fabrics>) {
        let bound = Bound;
        let is_over = operation.advance(engine);
        std::mem::forget(bound);
        if is_over {
            return;
        }
        let mut operations = lock(&self.operations);
        operations.push(operation);
        self.count.store(operations.len(), Ordering::Relaxed);
    }

    /// Somebody looks or waits for the end of that request.
    #[cold]
    pub(crate) fn want(&self, request: RequestId) {
        lock(&self.operations).iter_mut().for_each(|operation| operation.want(request));
    }

    /// The process may go to sleep when all have been taken further once more.
    #[cold]
    pub(crate) fn lie_down(&self) {
        lock(&self.operations).iter_mut().for_each(|operation| operation.lie_down());
    }

    /// What the operation waits for that ends that request, where it knows it.
    pub(crate) fn waits_for(&self, request: RequestId) -> Option<WaitsFor> {
        lock(&self.operations).iter().find_map(|operation| operation.waits_for(request))
    }

    /// Takes all of them further.
    #[cold]
    pub(crate) fn advance(&self, engine: &mut Engine<Fabrics>) {
        let mut operations = lock(&self.operations);
        let bound = Bound;
        operations.retain_mut(|operation| !operation.advance(engine));
        std::mem::forget(bound);
        self.count.store(operations.len(), Ordering::Relaxed);
    }
}

/// What a function of the program throws comes no further: the call that makes this turn of progress may be
/// any, whose own message is under way to or from memory that its caller would give up.
struct Bound;

impl Drop for Bound {
    #[cold]
    fn drop(&mut self) {
        if !std::thread::panicking() {
            crate::tell(
                "weft: an operator of the program threw an exception in a nonblocking or persistent collective operation\n  \
                 Only blocking operations and MPI_Reduce_local let exceptions through: catch it in the operator, or call a \
                 blocking operation",
            );
            std::process::abort();
        }
    }
}
