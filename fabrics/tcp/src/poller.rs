//! The one poller of a fabric, and the bell that threads sleep on.
//!
//! Everything a fabric waits for is registered in one epoll set, level-triggered, so that an event which was
//! not dealt with comes again. Of several sleeping threads one watches the set, the leader, and the others
//! wait for it: so no thread can eat the wake-up of another.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

/// What threads that wait for tcp sleep on.
#[derive(Clone)]
pub struct TcpBell {
    poller: Arc<Poller>,
}

impl TcpBell {
    pub(crate) fn new(poller: Arc<Poller>) -> TcpBell {
        TcpBell { poller }
    }

    pub(crate) fn poller(&self) -> &Arc<Poller> {
        &self.poller
    }

    /// From now on sleepers wake also when something is written to this, which nobody reads: each write wakes
    /// once.
    ///
    /// # Errors
    /// What the system says where it cannot be watched.
    pub fn hear(&self, writes: OwnedFd) -> Result<(), Errno> {
        self.poller.add(&writes, Token::Wake, Interest::Writes)?;
        self.poller.heard.lock().unwrap_or_else(PoisonError::into_inner).push(writes);
        Ok(())
    }
}

impl fabric::Bell for TcpBell {
    fn arm(&self) -> u32 {
        self.poller.sleepers.fetch_add(1, Ordering::SeqCst);
        self.poller.rings.load(Ordering::SeqCst)
    }

    fn sleep(&self, armed: u32, at_most: Duration) {
        self.poller.sleep(armed, at_most);
    }

    fn disarm(&self) {
        self.poller.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn ring(&self) {
        self.poller.ring();
    }
}

/// The epoll set with what is needed to sleep on it.
pub(crate) struct Poller {
    set: OwnedFd,
    /// An eventfd in the set; readable after a ring that the leader has not seen.
    wake: OwnedFd,
    /// Threads between `arm` and `disarm`.
    sleepers: AtomicU32,
    /// Counts the rings, so that one between `arm` and `sleep` is not missed.
    rings: AtomicU32,
    is_led: Mutex<bool>,
    leader_left: Condvar,
    began: Instant,
    /// When something is due though nothing comes, in nanoseconds since `began`; `u64::MAX` is never.
    due_ns: AtomicU64,
    /// What is watched beside, kept open.
    heard: Mutex<Vec<OwnedFd>>,
}

impl Poller {
    pub(crate) fn new() -> Result<Poller, Errno> {
        let poller = Poller {
            set: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            sleepers: AtomicU32::new(0),
            rings: AtomicU32::new(0),
            is_led: Mutex::new(false),
            leader_left: Condvar::new(),
            began: Instant::now(),
            due_ns: AtomicU64::new(u64::MAX),
            heard: Mutex::default(),
        };
        poller.add(&poller.wake, Token::Wake, Interest::Read)?;
        Ok(poller)
    }

    /// The set, to be watched by another one.
    pub(crate) fn set(&self) -> &OwnedFd {
        &self.set
    }

    /// Whether a thread is about to sleep or sleeps.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::SeqCst) > 0
    }

    /// Sleepers wake at `due` even if nothing comes.
    pub(crate) fn set_due(&self, due: Option<Instant>) {
        let nanoseconds = due.map_or(u64::MAX, |due| {
            u64::try_from(due.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX)
        });
        self.due_ns.store(nanoseconds, Ordering::SeqCst);
    }

    /// Registers a socket. Closing it takes it out of the set.
    pub(crate) fn add(&self, socket: &OwnedFd, token: Token, interest: Interest) -> Result<(), Errno> {
        epoll::add(&self.set, socket, epoll::EventData::new_u64(token.encode()), interest.flags())
    }

    /// Changes what a registered socket is watched for, and for whom.
    pub(crate) fn change(&self, socket: &OwnedFd, token: Token, interest: Interest) -> Result<(), Errno> {
        epoll::modify(&self.set, socket, epoll::EventData::new_u64(token.encode()), interest.flags())
    }

    /// Takes a registered socket out of the set.
    pub(crate) fn remove(&self, socket: &OwnedFd) -> Result<(), Errno> {
        epoll::delete(&self.set, socket)
    }

    /// What is ready now, without waiting; sockets beyond the batch come next time, since the kernel rotates.
    pub(crate) fn ready(&self, batch: &mut Batch) {
        let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut room = [MaybeUninit::uninit(); BATCH];
        batch.events.clear();
        // An interrupted call is the same as one that found nothing: the next turn asks again.
        if let Ok((events, _)) = epoll::wait(&self.set, &mut room[..], Some(&nothing)) {
            batch.events.extend(events.iter().map(|event| {
                let (flags, data) = (event.flags, event.data);
                (Token::decode(data.u64()), flags.contains(epoll::EventFlags::OUT))
            }));
        }
    }

    fn sleep(&self, armed: u32, at_most: Duration) {
        let until = Instant::now() + at_most.min(SLEEP_MAX);
        let mut is_led = self.hold();
        while *is_led && self.rings.load(Ordering::SeqCst) == armed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            is_led = self.leader_left.wait_timeout(is_led, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if self.rings.load(Ordering::SeqCst) != armed {
            return;
        }
        *is_led = true;
        drop(is_led);
        self.watch(until);
        *self.hold() = false;
        self.leader_left.notify_all();
    }

    /// Waits for the set as its leader.
    fn watch(&self, until: Instant) {
        let left = self.until_due(until.saturating_duration_since(Instant::now()));
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut first = [MaybeUninit::uninit(); 1];
        // Whatever ended the wait, also a signal, is for the caller to look at.
        let _ = epoll::wait(&self.set, &mut first[..], Some(&left));
        // Empty is fine: then no ring was the reason.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    /// So long at most, and not longer than until something is due.
    pub(crate) fn until_due(&self, at_most: Duration) -> Duration {
        let due = Duration::from_nanos(self.due_ns.load(Ordering::SeqCst));
        self.began
            .checked_add(due)
            .map_or(at_most, |due| at_most.min(due.saturating_duration_since(Instant::now())))
    }

    fn ring(&self) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        if self.has_sleepers() {
            drop(self.hold());
            self.leader_left.notify_all();
            // A full counter is as readable as any other.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    fn hold(&self) -> MutexGuard<'_, bool> {
        self.is_led.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whom an event is for. One that comes late, for somebody who has gone, is harmless: it means no more than
/// "look once".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// The listening socket.
    Door,
    /// A ring; sleepers read it.
    Wake,
    /// An accepted connection that has proved nothing yet, by its serial number.
    Connection(u32),
    /// A link that is being opened, by its index.
    Opening(u32),
    /// An open link, by its index.
    Link(u32),
}

impl Token {
    fn encode(self) -> u64 {
        match self {
            Token::Door => 0,
            Token::Wake => 1 << 32,
            Token::Connection(serial) => 2 << 32 | u64::from(serial),
            Token::Opening(index) => 3 << 32 | u64::from(index),
            Token::Link(index) => 4 << 32 | u64::from(index),
        }
    }

    fn decode(code: u64) -> Token {
        let number = code as u32;
        match code >> 32 {
            0 => Token::Door,
            2 => Token::Connection(number),
            3 => Token::Opening(number),
            4 => Token::Link(number),
            _ => Token::Wake,
        }
    }
}

/// What a socket is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interest {
    Read,
    /// Until a connection is made.
    Write,
    Both,
    /// Each write to it, whether what was written before is still there or not.
    Writes,
    /// Stays registered, and silent.
    Nothing,
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        match self {
            Interest::Read => epoll::EventFlags::IN,
            Interest::Write => epoll::EventFlags::OUT,
            Interest::Both => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            Interest::Writes => epoll::EventFlags::IN | epoll::EventFlags::ET,
            Interest::Nothing => epoll::EventFlags::empty(),
        }
    }
}

/// The events of one turn; its room is kept between turns.
pub(crate) struct Batch {
    events: Vec<(Token, bool)>,
}

impl Batch {
    pub(crate) fn new() -> Batch {
        Batch { events: Vec::with_capacity(BATCH) }
    }

    pub(crate) fn count(&self) -> usize {
        self.events.len()
    }

    /// Whom the event is for, and whether its socket takes bytes.
    pub(crate) fn event(&self, at: usize) -> (Token, bool) {
        self.events[at]
    }
}

/// Events taken from the kernel per turn; what is beyond comes with the next turn.
const BATCH: usize = 64;

/// Nobody sleeps longer at a stretch, whatever the caller says; keeps sums of times in range.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::Bell;
    use std::sync::mpsc;

    #[test]
    fn tokens_come_back() {
        for number in [0, 1, u32::MAX] {
            for token in [Token::Connection(number), Token::Opening(number), Token::Link(number)] {
                assert_eq!(Token::decode(token.encode()), token);
            }
        }
        assert_eq!(Token::decode(Token::Door.encode()), Token::Door);
        assert_eq!(Token::decode(Token::Wake.encode()), Token::Wake);
    }

    #[test]
    fn a_ring_after_arm_is_not_slept_through() {
        let bell = TcpBell::new(Arc::new(Poller::new().expect("a poller")));
        let armed = bell.arm();
        bell.ring();
        let began = Instant::now();
        bell.sleep(armed, LONG);
        assert!(began.elapsed() < LONG, "slept through a ring");
        bell.disarm();
    }

    #[test]
    fn one_ring_wakes_all_sleepers() {
        let bell = TcpBell::new(Arc::new(Poller::new().expect("a poller")));
        let (woken, count) = mpsc::channel();
        let (armed, ready) = mpsc::channel();
        for _ in 0..4 {
            let (bell, woken, armed) = (bell.clone(), woken.clone(), armed.clone());
            std::thread::spawn(move || {
                let token = bell.arm();
                armed.send(()).expect("the test waits");
                bell.sleep(token, LONG);
                bell.disarm();
                woken.send(()).expect("the test waits");
            });
        }
        for _ in 0..4 {
            ready.recv_timeout(LONG).expect("every thread arms");
        }
        bell.ring();
        for number in 0..4 {
            assert!(count.recv_timeout(LONG / 2).is_ok(), "only {number} of 4 sleepers woke");
        }
        assert!(!bell.poller.has_sleepers());
    }

    #[test]
    fn what_is_due_ends_a_sleep() {
        let poller = Arc::new(Poller::new().expect("a poller"));
        let bell = TcpBell::new(poller.clone());
        poller.set_due(Some(Instant::now() + Duration::from_millis(20)));
        let (armed, began) = (bell.arm(), Instant::now());
        bell.sleep(armed, LONG);
        assert!(began.elapsed() < LONG, "slept past what was due");
        bell.disarm();
    }

    #[test]
    fn each_write_to_what_is_heard_ends_a_sleep_of_everybody() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let bells = [(); 2].map(|()| TcpBell::new(Arc::new(Poller::new().expect("a poller"))));
        for bell in &bells {
            bell.hear(reader.try_clone().expect("a descriptor").into()).expect("a pipe can be watched");
        }
        for _ in 0..3 {
            rustix::io::write(&writer, &[1]).expect("room in the pipe");
            for bell in &bells {
                let (armed, began) = (bell.arm(), Instant::now());
                bell.sleep(armed, LONG);
                assert!(began.elapsed() < LONG, "slept through a write");
                bell.disarm();
            }
        }
        let bell = &bells[0];
        bell.sleep(bell.arm(), Duration::from_millis(5));
        bell.disarm();
    }

    /// Far more than any machine needs; only a hang takes so long.
    const LONG: Duration = Duration::from_secs(60);
}
