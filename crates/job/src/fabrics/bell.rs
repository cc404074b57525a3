//! What a process sleeps on that has several fabrics open.

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fabric::{Bell, Fabric};

use super::poller_thread::PollerThread;
use super::{Libfabric, NAP, Shm, Tcp};

/// What a process with these fabrics sleeps on.
///
/// With shm and tcp it sleeps on shm's, which a thread rings when something comes over tcp. With libfabric
/// there is no one thing to sleep on: it sleeps on the first of shm and libfabric, in naps.
#[derive(Clone)]
pub struct FabricsBell {
    shm: Option<<Shm as Fabric>::Bell>,
    tcp: Option<<Tcp as Fabric>::Bell>,
    libfabric: Option<<Libfabric as Fabric>::Bell>,
    /// Over tcp, for who sleeps in shared memory; begun with the first sleep.
    sleep_watch: Arc<OnceLock<Option<PollerThread>>>,
}

impl FabricsBell {
    pub(super) fn new(shm: Option<&Shm>, tcp: Option<&Tcp>, libfabric: Option<&Libfabric>) -> FabricsBell {
        FabricsBell {
            shm: shm.map(Fabric::bell),
            tcp: tcp.map(Fabric::bell),
            libfabric: libfabric.map(Fabric::bell),
            sleep_watch: Arc::default(),
        }
    }

    /// Wakes sleepers also when something is written to this, which nobody reads. False where nobody could
    /// hear it.
    pub fn hear(&self, writes: OwnedFd) -> bool {
        self.libfabric.is_none() && self.tcp.as_ref().is_some_and(|tcp| tcp.hear(writes).is_ok())
    }

    /// Sleeps in shared memory until something comes there or over tcp.
    fn sleep_over_both(
        &self,
        shm: &<Shm as Fabric>::Bell,
        tcp: &<Tcp as Fabric>::Bell,
        armed: u32,
        at_most: Duration,
    ) {
        match self.sleep_watch.get_or_init(|| PollerThread::begin(shm, tcp)) {
            Some(sleep_watch) if sleep_watch.arm() => shm.sleep(armed, tcp.until_due(at_most)),
            _ => shm.sleep(armed, at_most.min(NAP)),
        }
    }
}

impl Bell for FabricsBell {
    fn arm(&self) -> u32 {
        match (&self.shm, &self.libfabric, &self.tcp) {
            (Some(bell), None, Some(tcp)) => {
                // The look that follows has the poller watch all connections.
                tcp.arm();
                bell.arm()
            }
            (Some(bell), ..) => bell.arm(),
            (None, Some(bell), _) => bell.arm(),
            (None, None, Some(bell)) => bell.arm(),
            (None, None, None) => 0,
        }
    }

    fn sleep(&self, armed: u32, at_most: Duration) {
        match (&self.shm, &self.libfabric, &self.tcp) {
            (Some(bell), None, None) => bell.sleep(armed, at_most),
            (Some(bell), Some(libfabric), _) => match libfabric.nap() {
                Some(nap) => bell.sleep(armed, at_most.min(nap)),
                None => std::thread::yield_now(),
            },
            (Some(bell), None, Some(tcp)) => self.sleep_over_both(bell, tcp, armed, at_most),
            (None, Some(bell), _) => bell.sleep(armed, at_most.min(NAP)),
            (None, None, Some(bell)) => bell.sleep(armed, at_most),
            (None, None, None) => std::thread::sleep(at_most.min(NAP)),
        }
    }

    fn disarm(&self) {
        match (&self.shm, &self.libfabric, &self.tcp) {
            (Some(bell), None, Some(tcp)) => {
                bell.disarm();
                tcp.disarm();
            }
            (Some(bell), ..) => bell.disarm(),
            (None, Some(bell), _) => bell.disarm(),
            (None, None, Some(bell)) => bell.disarm(),
            (None, None, None) => {}
        }
    }

    fn ring(&self) {
        match (&self.shm, &self.libfabric, &self.tcp) {
            (Some(bell), ..) => bell.ring(),
            (None, Some(bell), _) => bell.ring(),
            (None, None, Some(bell)) => bell.ring(),
            (None, None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::thread;
    use std::time::Instant;

    use collectives::Cores;
    use fabric::{Header, Payload, Peer, Posted};

    use super::*;
    use crate::config::Config;
    use crate::fabrics::{
        Fabrics, FailureLogWriter, Opened, Place, TURNS_BETWEEN_NETWORKS, anew, create_segment, tcp_settings,
    };
    use crate::key_value_exchange::Exchange;
    use crate::liveness_connections::tests::Heard;

    /// Process 0, with process 1 on its node and process 2 elsewhere.
    struct Three {
        here: Fabrics,
        near: Fabrics,
        far: Tcp,
    }

    impl Three {
        fn open(cores: Cores) -> Three {
            let (config, file) = (Config::default(), create_segment(2).expect("memory"));
            let on_node = |peer| {
                let place = Place { here: Peer(peer), ranks: 1, peers: 1, config: &config };
                let exchange = &mut Exchange::Manager(Arc::default());
                let Opened { mut fabrics, .. } = Fabrics::open(&place, exchange).expect("a process alone");
                let segment = anew(file.as_raw_fd()).expect("the file");
                let peers = vec![Peer(0), Peer(1)];
                fabrics.open_shm(&place, segment, peers, cores).expect("a seat");
                fabrics
            };
            let tcp = |peer| Tcp::open(Peer(peer), tcp_settings(&config, 3)).expect("sockets");
            let mut three = Three { here: on_node(0), near: on_node(1), far: tcp(2) };
            (three.here.tcp, three.here.tcp_brings) = (Some(tcp(0)), true);
            three.say_far();
            three
        }

        fn say_near(&mut self) {
            let lane = self.near.connect(Peer(0), &[]).expect("a lane");
            let posted = self.near.post(lane, &Header::default(), Payload::from(&[1u8][..]));
            assert_eq!(posted, Posted::Sent);
        }

        /// A message from elsewhere, over a connection that the first makes.
        fn say_far(&mut self) {
            let address = self.here.tcp.as_ref().expect("it is open").address();
            let lane = self.far.connect(Peer(0), &address).expect("a lane");
            while self.far.post(lane, &Header::default(), Payload::from(&[1u8][..])) != Posted::Sent {
                self.far.poll(&mut Heard::default(), 1);
                self.here.poll(&mut Heard::default(), 1);
            }
        }

        /// Goes to sleep as a process does, and is told `news` meanwhile; false when nothing has ended the
        /// sleep.
        fn is_woken_by(&mut self, news: impl FnOnce(&mut Three)) -> bool {
            let bell = self.here.bell();
            let armed = bell.arm();
            let mut sink = Heard::default();
            while self.here.poll(&mut sink, 1) > 0 {}
            let since = Instant::now();
            thread::scope(|scope| {
                let sleeper = scope.spawn(|| bell.sleep(armed, PATIENCE));
                // Mostly it sleeps by then; if not, the news are there before it does.
                thread::sleep(Duration::from_millis(5));
                news(self);
                sleeper.join().expect("it wakes");
            });
            bell.disarm();
            while self.here.poll(&mut sink, 1) > 0 {}
            since.elapsed() < PATIENCE
        }
    }

    #[test]
    fn a_message_by_either_fabric_ends_a_sleep() {
        let mut three = Three::open(Cores::Own);
        for round in 0..3 {
            assert!(three.is_woken_by(Three::say_far), "round {round}: slept through a message over tcp");
            assert!(three.is_woken_by(Three::say_near), "round {round}: slept through a message by memory");
        }
        let bell = three.here.bell();
        assert!(three.is_woken_by(|_| bell.ring()), "slept through a ring of another thread");
    }

    #[test]
    fn what_the_launcher_writes_ends_a_sleep() {
        let mut three = Three::open(Cores::Own);
        let mut writer = FailureLogWriter::create(8, None).expect("a ledger");
        let pipe = writer.files().last().expect("a pipe").as_raw_fd();
        assert!(three.here.bell().hear(anew(pipe).expect("the pipe")));
        for peer in 3..6 {
            assert!(three.is_woken_by(|_| writer.write(Peer(peer))), "slept through the end of {peer}");
        }
    }

    #[test]
    fn who_hears_nothing_sleeps_as_long_as_it_may() {
        let mut three = Three::open(Cores::Own);
        let bell = three.here.bell();
        let armed = bell.arm();
        three.here.poll(&mut Heard::default(), 8);
        let since = Instant::now();
        bell.sleep(armed, Duration::from_millis(30));
        bell.disarm();
        assert!(since.elapsed() >= Duration::from_millis(30), "it took a nap");
    }

    /// Between two of its turns all others may have theirs.
    #[test]
    fn who_shares_a_core_looks_at_networks_with_each_turn() {
        for (cores, turns) in [(Cores::Own, TURNS_BETWEEN_NETWORKS), (Cores::Shared, 0)] {
            let mut three = Three::open(cores);
            while three.here.networks_rest > 0 {
                three.here.poll(&mut Heard::default(), 8);
            }
            three.here.poll(&mut Heard::default(), 8);
            assert_eq!(three.here.networks_rest, turns, "{cores:?}");
        }
    }

    /// Far more than any machine needs; only a hang takes so long.
    const PATIENCE: Duration = Duration::from_secs(60);
}
