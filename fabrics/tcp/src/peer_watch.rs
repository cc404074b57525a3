//! The poller thread: how somebody who sleeps on another fabric's bell hears of what comes over tcp.
//!
//! A thread watches the poller's set for him, and rings. It watches only from when it is told that somebody
//! goes to sleep, and until something has come once: who is awake looks himself, and no message costs the
//! thread anything then. The kernel keeps count of that (a set within a set, `EPOLLONESHOT`), so telling is
//! one call that wakes nobody, and what came a moment before is found by it.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

use crate::poller::{Poller, TcpBell};

/// Watches the poller's set for a thread that sleeps on another fabric's bell. The thread that waits here is
/// the caller's.
pub struct SleepWatch {
    poller: Arc<Poller>,
    /// Holds the poller's set, and the end.
    set: OwnedFd,
    /// An eventfd; readable when nobody is to be told any more.
    end: OwnedFd,
}

impl TcpBell {
    /// A poller thread over the fabric of this bell.
    ///
    /// # Errors
    /// What the system says where it has no descriptors left.
    pub fn sleep_watch(&self) -> Result<SleepWatch, Errno> {
        let sleep_watch = SleepWatch {
            poller: self.poller().clone(),
            set: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            end: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        };
        let nothing = epoll::EventFlags::empty();
        epoll::add(&sleep_watch.set, sleep_watch.poller.set(), epoll::EventData::new_u64(COME), nothing)?;
        epoll::add(
            &sleep_watch.set,
            &sleep_watch.end,
            epoll::EventData::new_u64(END),
            epoll::EventFlags::IN,
        )?;
        Ok(sleep_watch)
    }

    /// How long somebody may sleep elsewhere, at most so long: until something is due though nothing comes.
    #[must_use]
    pub fn until_due(&self, at_most: Duration) -> Duration {
        self.poller().until_due(at_most)
    }
}

impl SleepWatch {
    /// Tells that a thread that has armed the bell goes to sleep: [`SleepWatch::wait`] ends once, when
    /// something has come or if it is there already. False where the system does not do it.
    #[must_use]
    pub fn arm(&self) -> bool {
        let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        epoll::modify(&self.set, self.poller.set(), epoll::EventData::new_u64(COME), once).is_ok()
    }

    /// Waits until the sleeper is to be woken; false when that is over.
    #[must_use]
    pub fn wait(&self) -> bool {
        let mut room = [MaybeUninit::uninit(); 2];
        loop {
            match epoll::wait(&self.set, &mut room[..], None) {
                Ok((events, _)) if events.iter().any(|event| { event.data }.u64() == END) => return false,
                Ok((events, _)) if !events.is_empty() => return true,
                Ok(_) | Err(Errno::INTR) => {}
                // It cannot be: the set and both of its descriptors are open.
                Err(_) => return false,
            }
        }
    }

    /// Ends all waits.
    pub fn end(&self) {
        // A full counter is as readable as any other.
        let _ = rustix::io::write(&self.end, &1u64.to_ne_bytes());
    }
}

const COME: u64 = 0;
const END: u64 = 1;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::JoinHandle;

    use fabric::{Bell, Fabric, Header, Payload, Peer, Posted};

    use super::*;
    use crate::tcp::{Settings, Tcp};

    /// A thread that says each time when it would wake somebody.
    fn watched(sleep_watch: &Arc<SleepWatch>) -> (JoinHandle<()>, Receiver<()>) {
        let (says, heard) = channel();
        let sleep_watch = sleep_watch.clone();
        let thread = std::thread::spawn(move || {
            while sleep_watch.wait() {
                says.send(()).expect("the test listens");
            }
        });
        (thread, heard)
    }

    #[derive(Default)]
    struct Count(usize);

    impl fabric::Sink for Count {
        fn message(&mut self, _: Peer, _: &Header, _: Payload<'_>) {
            self.0 += 1;
        }

        fn arriving(&mut self, _: Peer, _: &Header, _: usize) -> fabric::UserMemory {
            unreachable!("all messages are short")
        }

        fn landed(&mut self, _: Peer) {}

        fn lost(&mut self, peer: Peer, error: fabric::FabricError) {
            unreachable!("{peer:?} is lost: {error}")
        }
    }

    #[test]
    fn a_message_ends_one_wait_and_only_who_has_armed_hears_of_it() {
        let mut pair = [0, 1].map(|here| Tcp::open(Peer(here), Settings::default()).expect("a fabric"));
        let addresses = [0, 1].map(|here: usize| pair[1 - here].address());
        let lanes = [0, 1]
            .map(|here: usize| pair[here].connect(Peer(1 - here as u32), &addresses[here]).expect("a lane"));
        let [left, right] = &mut pair;
        let (sleep_watch, mut count) =
            (Arc::new(right.bell().sleep_watch().expect("a watch")), Count::default());
        let (thread, heard) = watched(&sleep_watch);
        let bell = right.bell();
        let mut send = |right: &mut Tcp, count: &mut Count, taken: bool| {
            let before = count.0;
            while left.post(lanes[0], &Header::default(), Payload::from(&[1u8][..])) != Posted::Sent {
                left.poll(&mut Count::default(), 1);
                right.poll(count, 1);
            }
            while taken && count.0 == before {
                left.poll(&mut Count::default(), 1);
                right.poll(count, 1);
            }
        };
        send(right, &mut count, true);
        assert!(heard.try_recv().is_err(), "nobody had armed");
        for _ in 0..3 {
            bell.arm();
            // The look after arming: from here on the poller watches the connection.
            right.poll(&mut count, 1);
            assert!(sleep_watch.arm());
            send(right, &mut count, false);
            heard.recv_timeout(LONG).expect("a message wakes");
            assert!(heard.recv_timeout(SHORT).is_err(), "it wakes once, though nobody has read it yet");
            // What is there already wakes as well.
            assert!(sleep_watch.arm());
            heard.recv_timeout(LONG).expect("a message that has come before wakes");
            bell.disarm();
            let before = count.0;
            while count.0 == before {
                right.poll(&mut count, 1);
            }
        }
        sleep_watch.end();
        thread.join().expect("the thread ends");
    }

    #[test]
    fn the_end_is_heard_by_who_comes_later_too() {
        let tcp = Tcp::open(Peer(0), Settings::default()).expect("a fabric");
        let sleep_watch = tcp.bell().sleep_watch().expect("a watch");
        sleep_watch.end();
        assert!(!sleep_watch.wait() && !sleep_watch.wait());
    }

    /// Far more than any machine needs; only a hang takes so long.
    const LONG: Duration = Duration::from_secs(60);
    /// Long enough for a thread that is woken without need to say so, mostly.
    const SHORT: Duration = Duration::from_millis(20);
}
