//! Requests as futures, and a place to wait for them.
//!
//! Nobody makes progress in the background: a request gets on while somebody polls it, or waits in any call of this
//! library. [`block_on`] polls, and then waits as a blocking call does: it looks, spins or yields, and sleeps in the end;
//! a waker wakes it. Under any other executor a request that is polled asks to be polled again at once, so that it gets on
//! as often as the executor comes round.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use messaging::RequestId;

use crate::lock::lock;
use crate::process::Process;

/// Runs a future to its end on this thread. Where it waits for messages only, so does the thread, politely.
///
/// ```
/// use weft::{Config, Rank, block_on, run_threads};
///
/// run_threads(2, &Config::default(), |session| {
///     let world = session.world();
///     let other = Rank(1 - world.rank().0);
///     let sum = block_on(async {
///         let receive = world.ireceive::<f64>(3, other, 0)?;
///         let (sent, _) = world.isend(vec![1.0, 2.0, 3.0], other, 0)?.await?;
///         let (came, _) = receive.await?;
///         Ok::<f64, weft::Error>(sent.iter().chain(&came).sum())
///     });
///     assert_eq!(sum.unwrap(), 12.0);
/// })?;
/// # Ok::<(), weft::Error>(())
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let alarm = Arc::new(Alarm {
        woken: AtomicBool::new(false),
        thread: thread::current(),
        sleeps: Mutex::default(),
    });
    let waker = Waker::from(Arc::clone(&alarm));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let _scope = Scope::enter();
    loop {
        alarm.woken.store(false, Ordering::SeqCst);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        alarm.rest();
    }
}

/// Has the waker called when the request may be over: by [`block_on`] where the thread is in one, otherwise at once.
pub(crate) fn wake_later(process: &Arc<Process>, request: RequestId, context: &Context<'_>) {
    let kept = AWAITED.with_borrow_mut(|scopes| {
        let Some(awaited) = scopes.last_mut() else { return false };
        let waker = context.waker().clone();
        match awaited.iter_mut().find(|known| known.is(process, request)) {
            Some(known) => known.waker = waker,
            None => awaited.push(Awaited { process: Arc::clone(process), request, waker }),
        }
        true
    });
    if !kept {
        context.waker().wake_by_ref();
    }
}

/// Forgets a request that is over or given up.
pub(crate) fn forget(process: &Arc<Process>, request: RequestId) {
    // A thread that ends has forgotten all.
    let _ = AWAITED.try_with(|scopes| {
        for awaited in &mut *scopes.borrow_mut() {
            awaited.retain(|known| !known.is(process, request));
        }
    });
}

thread_local! {
    /// The requests that each `block_on` of this thread waits for, the innermost last.
    static AWAITED: RefCell<Vec<Vec<Awaited>>> = const { RefCell::new(Vec::new()) };
}

struct Awaited {
    process: Arc<Process>,
    request: RequestId,
    waker: Waker,
}

impl Awaited {
    fn is(&self, process: &Arc<Process>, request: RequestId) -> bool {
        Arc::ptr_eq(&self.process, process) && self.request == request
    }
}

/// As long as it lives, requests are noted down for the innermost `block_on`.
struct Scope;

impl Scope {
    fn enter() -> Scope {
        AWAITED.with_borrow_mut(|scopes| scopes.push(Vec::new()));
        Scope
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let _ = AWAITED.try_with(|scopes| scopes.borrow_mut().pop());
    }
}

/// What wakes a `block_on`.
struct Alarm {
    woken: AtomicBool,
    thread: Thread,
    /// In whose call the thread sleeps.
    sleeps: Mutex<Option<Arc<Process>>>,
}

impl Alarm {
    /// Waits until a request may be over or somebody has called the waker.
    fn rest(&self) {
        let wanted: Vec<(Arc<Process>, RequestId)> = AWAITED.with_borrow(|scopes| {
            let innermost = scopes.last().map_or(&[][..], Vec::as_slice);
            innermost.iter().map(|known| (Arc::clone(&known.process), known.request)).collect()
        });
        let Some((process, _)) = wanted.first() else {
            while !self.woken.load(Ordering::SeqCst) {
                thread::park();
            }
            return;
        };
        let process = Arc::clone(process);
        let one = wanted.iter().all(|(other, _)| Arc::ptr_eq(other, &process));
        let over = if one { self.rest_in(&process, &wanted) } else { self.rest_between(&wanted) };
        for (process, request) in over {
            wake(&process, request);
        }
    }

    /// In one process the wait is that of its other calls.
    fn rest_in(
        &self,
        process: &Arc<Process>,
        wanted: &[(Arc<Process>, RequestId)],
    ) -> Vec<(Arc<Process>, RequestId)> {
        let requests: Vec<Option<RequestId>> = wanted.iter().map(|(_, request)| Some(*request)).collect();
        *lock(&self.sleeps) = Some(Arc::clone(process));
        let ready = process.wait_ready_or(&requests, &self.woken);
        *lock(&self.sleeps) = None;
        ready.into_iter().map(|at| wanted[at].clone()).collect()
    }

    /// Where one thread is several processes, each gets its turn.
    fn rest_between(&self, wanted: &[(Arc<Process>, RequestId)]) -> Vec<(Arc<Process>, RequestId)> {
        loop {
            let is_over = |(process, request): &&(Arc<Process>, RequestId)| process.peek(*request).is_some();
            let over: Vec<_> = wanted.iter().filter(is_over).cloned().collect();
            if self.woken.load(Ordering::SeqCst) || !over.is_empty() {
                return over;
            }
            thread::yield_now();
        }
    }
}

/// Calls the waker of a request once. It may do anything, so nothing is borrowed meanwhile.
fn wake(process: &Arc<Process>, request: RequestId) {
    let waker = AWAITED.with_borrow_mut(|scopes| {
        let awaited = scopes.last_mut()?;
        let at = awaited.iter().position(|known| known.is(process, request))?;
        Some(awaited.swap_remove(at).waker)
    });
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Alarm>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Alarm>) {
        // First said, then rung: whoever goes to sleep looks at what is said after it has armed the bell.
        self.woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
        if let Some(process) = &*lock(&self.sleeps) {
            process.ring();
        }
    }
}
