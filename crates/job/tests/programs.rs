//! The engine's random programs of sends and receives with wildcards, over the real fabrics, both ends in one
//! process.

use fabric::{Fabric, FabricError, Peer};
use libfabric::Libfabric;
use libfabric_sys::mock::{self, Rules};
use messaging::conformance::random_program;
use messaging::{Directory, Engine, Settings};
use proptest::prelude::*;
use shm::{Segment, Shm};
use tcp::Tcp;

/// The addresses of all ends.
#[derive(Clone)]
struct All(Vec<Vec<u8>>);

impl Directory for All {
    fn address(&mut self, peer: Peer) -> Result<Vec<u8>, FabricError> {
        Ok(self.0[peer.0 as usize].clone())
    }
}

fn engines<F: Fabric + 'static>(fabrics: Vec<F>, settings: Settings) -> Vec<Engine<F>> {
    let addresses = All(fabrics.iter().map(Fabric::address).collect());
    let ranks = fabrics.len() as u32;
    fabrics
        .into_iter()
        .map(|fabric| Engine::new(fabric, ranks, Box::new(addresses.clone()), settings))
        .collect()
}

/// Ends that disagree on where eager ends.
fn shm_ends(ranks: u32, pull: bool) -> Vec<Shm> {
    let segment = Segment::adopt(Segment::create(ranks).unwrap(), ranks).unwrap();
    let peers: Vec<Peer> = (0..ranks).map(Peer).collect();
    let settings = |seat| shm::Settings {
        pull,
        eager_bytes_max: [8 << 10, 0, 100, 64 << 10][seat as usize % 4],
        ways: [None, Some(shm::Ways::COPIES)][seat as usize % 2],
        has_core: seat % 3 > 0,
    };
    (0..ranks).map(|seat| Shm::open(segment.clone(), seat, peers.clone(), settings(seat)).unwrap()).collect()
}

fn tcp_ends(ranks: u32) -> Vec<Tcp> {
    (0..ranks).map(|rank| Tcp::open(Peer(rank), tcp::Settings::default()).unwrap()).collect()
}

/// On a provider of libfabric's. `WEFT_LIBFABRIC` names another library than the system's.
fn libfabric_ends(ranks: u32, provider: &str) -> Vec<Libfabric> {
    let library = std::env::var_os("WEFT_LIBFABRIC");
    let provider = Some(provider.to_owned());
    let settings = libfabric::Settings { library, provider, peers: ranks, ..Default::default() };
    (0..ranks).map(|rank| Libfabric::open(Peer(rank), &settings).unwrap()).collect()
}

/// On a provider that demands and refuses whatever one may.
fn mock_ends(ranks: u32, seed: u64) -> Vec<Libfabric> {
    let library = mock::library(Rules {
        seed,
        local: true,
        by_address: seed.is_multiple_of(2),
        provider_keys: seed.is_multiple_of(3),
        by_endpoint: true,
        key_bytes: 4,
        inject_bytes_max: (seed % 100) as usize,
        message_bytes_max: 1024 + (seed % 100_000) as usize,
        busy_percent: 30,
        queue_entries: 30,
        reorders: true,
        ..Rules::NONE
    });
    let provider = Some(mock::PROVIDER.to_owned());
    let settings = libfabric::Settings { provider, peers: ranks, ..libfabric::Settings::default() };
    (0..ranks).map(|rank| Libfabric::open_with(Peer(rank), library, &settings).unwrap()).collect()
}

/// Programs send to themselves too, which the real fabrics leave to loopback.
mod with_loopback {
    use super::*;
    use fabric::loopback::Loopback;
    use fabric::{Cost, Exposed, Header, Limits, Looked, Payload, Posted, Pulled, Sink, UserMemory};

    pub struct WithLoopback<F>(pub Peer, pub F, pub Loopback);

    impl<F: Fabric> Fabric for WithLoopback<F> {
        type Lane = Option<F::Lane>;
        type Bell = F::Bell;

        fn name(&self) -> &'static str {
            self.1.name()
        }
        fn address(&self) -> Vec<u8> {
            self.1.address()
        }
        fn reach(&self, peer: Peer, address: &[u8]) -> Option<Cost> {
            self.1.reach(peer, address)
        }
        fn connect(&mut self, peer: Peer, address: &[u8]) -> Result<Self::Lane, FabricError> {
            if peer == self.0 { Ok(None) } else { self.1.connect(peer, address).map(Some) }
        }
        fn limits(&self, lane: Self::Lane) -> Limits {
            lane.map_or_else(|| self.2.limits(()), |lane| self.1.limits(lane))
        }
        fn post(&mut self, lane: Self::Lane, header: &Header, payload: Payload<'_>) -> Posted {
            match lane {
                Some(lane) => self.1.post(lane, header, payload),
                None => self.2.post((), header, payload),
            }
        }
        fn post_made(
            &mut self,
            lane: Self::Lane,
            header: &Header,
            bytes: usize,
            write: impl FnOnce(&mut UserMemory),
        ) -> Option<Posted> {
            match lane {
                Some(lane) => self.1.post_made(lane, header, bytes, write),
                None => self.2.post_made((), header, bytes, write),
            }
        }
        fn resume(&mut self, lane: Self::Lane, rest: Payload<'_>) -> Posted {
            match lane {
                Some(lane) => self.1.resume(lane, rest),
                None => self.2.resume((), rest),
            }
        }
        fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize {
            self.2.poll(sink, events) + self.1.poll(sink, events)
        }
        fn look<R>(
            &mut self,
            lane: Self::Lane,
            reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>,
        ) -> Looked<R> {
            lane.map_or(Looked::Nothing, |lane| self.1.look(lane, reader))
        }
        fn bell(&self) -> F::Bell {
            self.1.bell()
        }
        fn register_memory(&mut self, lane: Self::Lane, memory: Payload<'_>) -> Exposed {
            lane.map_or_else(Exposed::default, |lane| self.1.register_memory(lane, memory))
        }
        fn deregister_memory(&mut self, peer: Peer, exposed: Exposed) {
            self.1.deregister_memory(peer, exposed);
        }
        fn pull(
            &mut self,
            lane: Self::Lane,
            exposed: Exposed,
            offset: usize,
            into: &mut UserMemory,
            ticket: u64,
        ) -> Pulled {
            lane.map_or(Pulled::Refused, |lane| self.1.pull(lane, exposed, offset, into, ticket))
        }
        fn takes_at_once(&mut self, lane: Self::Lane, payload: Payload<'_>) -> bool {
            lane.is_some_and(|lane| self.1.takes_at_once(lane, payload))
        }
        fn rather_posted(&mut self, lane: Self::Lane, exposed: Exposed, bytes: usize) -> bool {
            lane.is_some_and(|lane| self.1.rather_posted(lane, exposed, bytes))
        }
    }

    pub fn all<F: Fabric>(ends: Vec<F>) -> Vec<WithLoopback<F>> {
        let end = |(rank, end)| WithLoopback(Peer(rank), end, Loopback::new(Peer(rank)));
        (0..).zip(ends).map(end).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn on_shm_with_pull(seed: u64, ranks in 2u32..5) {
        random_program(&mut engines(with_loopback::all(shm_ends(ranks, true)), Settings::default()), seed);
    }

    #[test]
    fn on_shm_without_pull(seed: u64, ranks in 2u32..5) {
        random_program(&mut engines(with_loopback::all(shm_ends(ranks, false)), Settings::default()), seed);
    }

    #[test]
    fn on_shm_with_hardly_any_unexpected_memory(seed: u64, ranks in 2u32..5) {
        let settings = Settings { unexpected_bytes_max: 1000 };
        random_program(&mut engines(with_loopback::all(shm_ends(ranks, true)), settings), seed);
    }

    #[test]
    fn on_tcp(seed: u64, ranks in 2u32..5) {
        random_program(&mut engines(with_loopback::all(tcp_ends(ranks)), Settings::default()), seed);
    }

    #[test]
    fn on_a_provider_that_demands_everything(seed: u64, ranks in 2u32..5) {
        let ends = with_loopback::all(mock_ends(ranks, seed));
        random_program(&mut engines(ends, Settings::default()), seed);
        prop_assert_eq!(mock::broken_rules(), [""; 0]);
    }
}

proptest! {
    // Endpoints of libfabric take a while to open.
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn on_libfabric_over_sockets(seed: u64, ranks in 2u32..5) {
        let ends = with_loopback::all(libfabric_ends(ranks, "tcp;ofi_rxm"));
        random_program(&mut engines(ends, Settings::default()), seed);
    }

    #[test]
    fn on_libfabric_over_shm(seed: u64, ranks in 2u32..5) {
        let ends = with_loopback::all(libfabric_ends(ranks, "shm"));
        random_program(&mut engines(ends, Settings::default()), seed);
    }
}
