//! Descriptors that become readable when somebody has failed, for programs that sleep in an event loop of
//! their own.
//!
//! Each that is asked for is an end of a stream of its own, so that nobody takes another's news away, and the
//! program may close it when it likes. Where the launcher writes a failure log, a thread sleeps on that and
//! tells, whatever the program does meanwhile. Elsewhere a process learns of failures within its calls of MPI
//! only, and it is these that tell (decision 0013).

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use fabric::Peer;
use job::error::{Class, Error, Result};
use job::fabrics::{FailureLog, NoSignals};
use job::lock::lock;

use super::Process;

impl Process {
    /// A descriptor that becomes readable when some process of the job has failed, a member of whatever it
    /// was or not. It never blocks: a reader that has read what is there waits for the next failure. Each
    /// call gives another descriptor; at the end of MPI it has nothing more to read.
    ///
    /// Under `weftrun --ft` it tells whatever this process does; elsewhere when a call of this process has
    /// learned of a failure.
    ///
    /// # Errors
    /// Where the system has no descriptor or thread left, or MPI is over.
    pub fn failure_descriptor(&self) -> Result<OwnedFd> {
        let mut news = lock(&self.news);
        if self.finished.load(Ordering::SeqCst) {
            let what = "a descriptor for failures was asked for after the end of MPI";
            return Err(Error::new(Class::Other, what));
        }
        let news = match &mut *news {
            Some(news) => news,
            none => none.insert(News::begin(self).map_err(|error| refused(&error))?),
        };
        let (told, teller) = pair().map_err(|error| refused(&error))?;
        let mut tellers = lock(&news.tellers);
        tellers.retain(is_open);
        // Who fails from here on is told by those who watch.
        let is_news =
            |failure_log: &Arc<FailureLog>| failure_log.count() != self.read.load(Ordering::Relaxed);
        if self.failure_log.as_ref().is_some_and(is_news) {
            let _ = (&teller).write(&NEWS);
        }
        tellers.push(teller);
        Ok(told.into())
    }
}

/// Who is told, and who watches for what there is to tell.
pub(super) struct News {
    tellers: Arc<Mutex<Vec<UnixStream>>>,
    watcher: Option<Watcher>,
}

impl News {
    fn begin(process: &Process) -> std::io::Result<News> {
        let tellers = Arc::default();
        let watcher = match &process.failure_log {
            Some(failure_log) => Some(Watcher::begin(failure_log, process.here, &tellers)?),
            None => {
                let tellers = Arc::clone(&tellers);
                process.failures.tell(move || tell(&tellers));
                None
            }
        };
        Ok(News { tellers, watcher })
    }
}

impl Drop for News {
    fn drop(&mut self) {
        drop(self.watcher.take());
        // A child that was forked may have the descriptors, too.
        for teller in lock(&self.tellers).drain(..) {
            let _ = teller.shutdown(Shutdown::Both);
        }
    }
}

/// The thread that sleeps on the failure log, until this is dropped.
struct Watcher {
    failure_log: Arc<FailureLog>,
    here: Peer,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    beginner: u32,
}

impl Watcher {
    fn begin(
        failure_log: &Arc<FailureLog>,
        here: Peer,
        tellers: &Arc<Mutex<Vec<UnixStream>>>,
    ) -> std::io::Result<Watcher> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (watched, tellers, ends) = (Arc::clone(failure_log), Arc::clone(tellers), Arc::clone(&is_over));
        let mut seen = failure_log.count();
        let _no_signals = NoSignals::begin();
        let builder = std::thread::Builder::new().name("weft-failures".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || {
            while !ends.load(Ordering::SeqCst) {
                watched.sleep(seen, here);
                let count = watched.count();
                if count != seen {
                    seen = count;
                    tell(&tellers);
                }
            }
        })?;
        let (failure_log, beginner) = (Arc::clone(failure_log), std::process::id());
        Ok(Watcher { failure_log, here, is_over, thread: Some(thread), beginner })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // A child made by fork has no such thread.
        let Some(thread) = self.thread.take().filter(|_| std::process::id() == self.beginner) else { return };
        self.is_over.store(true, Ordering::SeqCst);
        // Who was about to sleep has not heard it, and is told again.
        loop {
            self.failure_log.rouse(self.here);
            if thread.is_finished() {
                break;
            }
            sleep(BETWEEN_CALLS);
        }
        let _ = thread.join();
    }
}

/// Two ends of which neither blocks: what is read, and where it comes from.
fn pair() -> std::io::Result<(UnixStream, UnixStream)> {
    let (told, teller) = UnixStream::pair()?;
    told.set_nonblocking(true)?;
    teller.set_nonblocking(true)?;
    Ok((told, teller))
}

/// Tells all, and forgets those that were closed.
fn tell(tellers: &Mutex<Vec<UnixStream>>) {
    // One that has no room left has not been read for long, and is readable.
    let is_told = |told: std::io::Result<usize>| match told {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    };
    lock(tellers).retain(|mut teller| is_told(teller.write(&NEWS)));
}

/// Whether the other end is there.
fn is_open(teller: &UnixStream) -> bool {
    let mut teller = teller;
    // Nobody writes there, but for a program that has mistaken it for something else.
    teller.read(&mut [0; 64]).map_or_else(|error| error.kind() == ErrorKind::WouldBlock, |bytes| bytes > 0)
}

fn refused(error: &std::io::Error) -> Error {
    let what = format!("a descriptor for failures cannot be made: {error}");
    Error::new(Class::Other, what)
        .remedy("ulimit -n and ulimit -u say how many descriptors and threads there may be")
}

/// What is written means nothing; that there is something does.
const NEWS: [u8; 1] = [0];
/// It calls nothing deep.
const STACK_BYTES: usize = 64 << 10;
const BETWEEN_CALLS: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use job::config::Config;

    use super::*;
    use crate::session::run_threads;

    fn bytes(descriptor: &mut UnixStream) -> std::io::Result<usize> {
        descriptor.read(&mut [0; 64])
    }

    fn is_silent(descriptor: &mut UnixStream) -> bool {
        bytes(descriptor).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    #[test]
    fn each_has_its_own_news_and_those_that_are_closed_are_forgotten() {
        let (mut asked, tellers): (Vec<_>, Vec<_>) = [(); 3].into_iter().map(|()| pair().unwrap()).unzip();
        let tellers = Mutex::new(tellers);
        assert!(asked.iter_mut().all(is_silent), "nobody has failed");
        tell(&tellers);
        for descriptor in &mut asked {
            assert_eq!(bytes(descriptor).unwrap(), 1, "it is told once");
            assert!(is_silent(descriptor));
        }
        asked.pop();
        // More than there is room for.
        (0..100_000).for_each(|_| tell(&tellers));
        assert_eq!(lock(&tellers).len(), 2);
        assert!(asked.iter_mut().all(|descriptor| bytes(descriptor).is_ok_and(|bytes| bytes > 0)));
    }

    #[test]
    fn who_has_closed_it_is_forgotten_and_the_end_of_mpi_is_its_end() {
        let left = run_threads(1, &Config::default(), |session| {
            let process = session.process();
            for _ in 0..3 {
                drop(process.failure_descriptor().unwrap());
            }
            let told = process.failure_descriptor().unwrap();
            let news = lock(&process.news);
            assert_eq!(lock(&news.as_ref().unwrap().tellers).len(), 1);
            told
        });
        let left = left.unwrap().pop().unwrap();
        assert_eq!(bytes(&mut UnixStream::from(left)).unwrap(), 0);
    }
}
