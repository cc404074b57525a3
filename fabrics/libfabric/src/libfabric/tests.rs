//! The suite of every fabric: on the providers that this machine has, and on one that demands what these do not.

use super::*;
use fabric::conformance::Pair;
use libfabric_sys::mock::{self, Rules};

mod faults;

/// Two ends on a real provider. `WEFT_LIBFABRIC` names another library than the system's.
fn real(provider: &str, strict_memory: bool) -> (Libfabric, Libfabric) {
    let library = std::env::var_os("WEFT_LIBFABRIC");
    let settings = Settings { library, provider: Some(provider.to_owned()), peers: 2, strict_memory };
    let open = |number| Libfabric::open(Peer(number), &settings).expect("a fabric opens");
    (open(0), open(1))
}

/// Two ends on a network of the mock provider.
fn mocked(rules: Rules) -> (Libfabric, Libfabric) {
    let library = mock::library(rules);
    let settings = Settings { provider: Some(mock::PROVIDER.to_owned()), peers: 8, ..Settings::default() };
    let open = |number| Libfabric::open_with(Peer(number), library, &settings).expect("a fabric opens");
    (open(0), open(1))
}

/// What RDMA hardware demands of memory, all of it together.
const MEMORY: Rules = Rules {
    local: true,
    by_address: true,
    provider_keys: true,
    by_endpoint: true,
    key_bytes: 4,
    message_bytes_max: 100_000,
    ..Rules::NONE
};

/// Memory that is registered for an endpoint, by keys of our own and counted from its start; and nothing may be injected that
/// is of use to us.
const OWN_KEYS: Rules = Rules {
    local: true,
    by_endpoint: true,
    key_bytes: 4,
    inject_bytes_max: 8,
    message_bytes_max: 2000,
    ..Rules::NONE
};

/// Everything that makes a provider unpleasant.
const STORMY: Rules =
    Rules { seed: 7, busy_percent: 50, queue_entries: 24, reorders: true, inject_bytes_max: 48, ..MEMORY };

/// The suite on a fabric that is opened in one particular way.
macro_rules! suite {
    ($module:ident, $open:expr) => {
        mod $module {
            use super::*;

            fabric::conformance!(Opened);

            /// So opened.
            struct Opened(Libfabric);

            impl Pair for Opened {
                fn pair() -> (Self, Self) {
                    let (left, right) = $open;
                    (Opened(left), Opened(right))
                }
            }

            impl Drop for Opened {
                fn drop(&mut self) {
                    if !std::thread::panicking() {
                        assert_eq!(mock::broken_rules(), [""; 0]);
                    }
                }
            }

            impl Fabric for Opened {
                type Lane = Lane;
                type Bell = LibfabricBell;

                fn name(&self) -> &'static str {
                    self.0.name()
                }
                fn address(&self) -> Vec<u8> {
                    self.0.address()
                }
                fn reach(&self, peer: Peer, address: &[u8]) -> Option<Cost> {
                    self.0.reach(peer, address)
                }
                fn connect(&mut self, peer: Peer, address: &[u8]) -> Result<Lane, FabricError> {
                    self.0.connect(peer, address)
                }
                fn limits(&self, lane: Lane) -> Limits {
                    self.0.limits(lane)
                }
                fn post(&mut self, lane: Lane, header: &Header, payload: Payload<'_>) -> Posted {
                    self.0.post(lane, header, payload)
                }
                fn resume(&mut self, lane: Lane, rest: Payload<'_>) -> Posted {
                    self.0.resume(lane, rest)
                }
                fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize {
                    self.0.poll(sink, events)
                }
                fn bell(&self) -> LibfabricBell {
                    self.0.bell()
                }
                fn expose(&mut self, lane: Lane, memory: Payload<'_>) -> Exposed {
                    self.0.expose(lane, memory)
                }
                fn conceal(&mut self, peer: Peer, exposed: Exposed) {
                    self.0.conceal(peer, exposed);
                }
                fn pull(
                    &mut self,
                    lane: Lane,
                    exposed: Exposed,
                    offset: usize,
                    into: &mut UserMemory,
                    ticket: u64,
                ) -> Pulled {
                    self.0.pull(lane, exposed, offset, into, ticket)
                }
                fn flush(&mut self) -> bool {
                    self.0.flush()
                }
                fn leave(&mut self) -> bool {
                    self.0.leave()
                }
            }
        }
    };
}

suite!(tcp_rxm, real("tcp;ofi_rxm", false));
suite!(tcp_rxm_strict, real("tcp;ofi_rxm", true));
suite!(shm, real("shm", false));
suite!(shm_strict, real("shm", true));
suite!(mock_plain, mocked(Rules::NONE));
suite!(mock_memory, mocked(MEMORY));
suite!(mock_own_keys, mocked(OWN_KEYS));
suite!(mock_stormy, mocked(STORMY));
