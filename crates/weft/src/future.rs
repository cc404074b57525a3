//! Requests as futures, and a place to wait for them.
//!
//! Nobody makes progress in the background: a request gets on while somebody polls it, or waits in any call
//! of this library. [`block_on`] polls, and then waits as a blocking call does: it looks, spins or yields,
//! and sleeps in the end; a waker wakes it. Under any other executor a request that is polled asks to be
//! polled again at once, so that it gets on as often as the executor comes round; so it is with one that
//! blocks inside of [`block_on`], and with whatever else brings wakers of its own.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use job::lock::lock;
use messaging::RequestId;

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
    let _scope = Scope::enter(waker.clone());
    loop {
        alarm.woken.store(false, Ordering::SeqCst);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        alarm.rest();
    }
}

/// Has the waker called when the request may be over: by [`block_on`] where it is the waker of the one that
/// this thread is in, otherwise at once. Another waker may be that of an executor that blocks this very
/// thread: then nobody would look.
pub(crate) fn wake_later(process: &Arc<Process>, request: RequestId, context: &Context<'_>) {
    let kept = AWAITED.with_borrow_mut(|scopes| {
        let Some(scope) = scopes.last_mut() else { return false };
        if !scope.waker.will_wake(context.waker()) {
            scope.has_strangers = true;
            return false;
        }
        if !scope.awaited.iter().any(|known| known.is(process, request)) {
            scope.awaited.push(Awaited { process: Arc::clone(process), request });
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
        for scope in &mut *scopes.borrow_mut() {
            scope.awaited.retain(|known| !known.is(process, request));
        }
    });
}

thread_local! {
    /// What each `block_on` of this thread waits for, the innermost last.
    static AWAITED: RefCell<Vec<WaitingFuture>> = const { RefCell::new(Vec::new()) };
}

/// What one `block_on` waits for.
struct WaitingFuture {
    /// Its own.
    waker: Waker,
    awaited: Vec<Awaited>,
    /// Requests were polled with other wakers, and so will be polled again at once.
    has_strangers: bool,
}

struct Awaited {
    process: Arc<Process>,
    request: RequestId,
}

impl Awaited {
    fn is(&self, process: &Arc<Process>, request: RequestId) -> bool {
        Arc::ptr_eq(&self.process, process) && self.request == request
    }
}

/// As long as it lives, requests are noted down for the innermost `block_on`.
struct Scope;

impl Scope {
    fn enter(waker: Waker) -> Scope {
        AWAITED.with_borrow_mut(|scopes| {
            scopes.push(WaitingFuture { waker, awaited: Vec::new(), has_strangers: false });
        });
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
        let (wanted, has_strangers) = AWAITED.with_borrow_mut(|scopes| {
            let Some(scope) = scopes.last_mut() else { return (Vec::new(), false) };
            let wanted = scope.awaited.iter().map(|known| (Arc::clone(&known.process), known.request));
            (wanted.collect::<Vec<_>>(), std::mem::take(&mut scope.has_strangers))
        });
        if has_strangers && self.woken.load(Ordering::SeqCst) {
            return thread::yield_now();
        }
        let Some((process, _)) = wanted.first() else {
            while !self.woken.load(Ordering::SeqCst) {
                thread::park();
            }
            return;
        };
        let process = Arc::clone(process);
        let one = wanted.iter().all(|(other, _)| Arc::ptr_eq(other, &process));
        let over = if one { self.rest_in(&process, &wanted) } else { self.rest_between(&wanted) };
        // The future is polled now; what it does not ask for again is not waited for.
        for (process, request) in over {
            forget(&process, request);
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
