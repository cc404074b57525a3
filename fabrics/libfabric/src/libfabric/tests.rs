//! The suite of every fabric: on the providers that this machine has, and on one that demands what these do
//! not.

use super::*;
use crate::memory::BUFFER_BYTES_MAX;
use crate::packets::PACKET_BYTES;
use crate::wire::FRAME_BYTES;
use fabric::conformance::Pair;
use libfabric_sys::mock::{self, Rules};

mod cards;
mod faults;
mod memory;

/// Two ends on a real provider. `WEFT_LIBFABRIC` names another library than the system's.
fn real(provider: &str, strict_memory: bool) -> (Libfabric, Libfabric) {
    let library = std::env::var_os("WEFT_LIBFABRIC");
    let provider = Some(provider.to_owned());
    let settings = Settings { library, provider, peers: 2, strict_memory, ..Settings::default() };
    let open = |number| Libfabric::open(Peer(number), &settings).expect("a fabric opens");
    (open(0), open(1))
}

#[test]
fn slots_are_as_long_as_the_packets_of_the_layer_below() {
    let open = |provider: &str, packet_bytes| {
        let library = std::env::var_os("WEFT_LIBFABRIC");
        let provider = Some(provider.to_owned());
        let settings = Settings { library, provider, peers: 2, packet_bytes, ..Settings::default() };
        Libfabric::open(Peer(0), &settings).expect("a fabric opens").port.copied_bytes_max()
    };
    let least = open("tcp;ofi_rxm", Some(0));
    assert_eq!(open("tcp;ofi_rxm", Some(4096)), 4096 - FRAME_BYTES);
    assert!(open("tcp;ofi_rxm", Some(PACKET_BYTES)) >= 16 << 10);
    // Two of the longest have room in a receive buffer.
    assert_eq!(open("tcp;ofi_rxm", Some(1 << 20)), BUFFER_BYTES_MAX / 2 - FRAME_BYTES);
    assert!(open("tcp;ofi_rxm", None) < 16 << 10 && (1000..4000).contains(&least), "{least}");
    // Others have no such packets.
    assert_eq!(open("shm", Some(16)), open("shm", None));
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

/// Memory that is registered for an endpoint, by keys of our own and counted from its start; and nothing may
/// be injected that is of use to us.
const OWN_KEYS: Rules = Rules {
    local: true,
    by_endpoint: true,
    key_bytes: 4,
    inject_bytes_max: 8,
    message_bytes_max: 2000,
    ..Rules::NONE
};

/// Messages that come too early leave no place for receives.
const FEW_PLACES: Rules = Rules { receives_max: 16, inject_bytes_max: 4096, ..Rules::NONE };

/// Everything that makes a provider unpleasant.
const STORMY: Rules =
    Rules { seed: 7, busy_percent: 50, queue_entries: 24, reorders: true, inject_bytes_max: 48, ..MEMORY };

/// The suite on a fabric that is opened in one particular way.
macro_rules! suite {
    ($module:ident, $open:expr) => {
        suite!($module, $open, |_| None);
    };
    ($module:ident, $open:expr, $left_out:expr) => {
        mod $module {
            use super::*;

            fabric::conformance!(Opened);
            fabric::conformance_one_sided!(Opened);

            /// So opened.
            struct Opened;

            impl Pair for Opened {
                type Fabric = Libfabric;

                fn pair() -> (Libfabric, Libfabric) {
                    $open
                }

                fn over() {
                    assert_eq!(mock::broken_rules(), [""; 0]);
                }

                fn left_out(case: &str) -> Option<&'static str> {
                    let left_out: fn(&str) -> Option<&'static str> = $left_out;
                    left_out(case)
                }
            }
        }
    };
}

/// What the provider shm does not do.
fn not_by_shm(case: &str) -> Option<&'static str> {
    match case {
        "keys_that_are_none_harm_nobody" | "detaches_while_others_write" => {
            Some("shm never ends an operation whose key is none")
        }
        "ends_all_when_the_peer_goes" => {
            Some("shm crashes when an endpoint of the same process is closed that something is under way to")
        }
        _ => None,
    }
}

suite!(tcp_rxm, real("tcp;ofi_rxm", false));
suite!(tcp_rxm_strict, real("tcp;ofi_rxm", true));
suite!(shm, real("shm", false), not_by_shm);
suite!(shm_strict, real("shm", true), not_by_shm);
suite!(mock_plain, mocked(Rules::NONE));
suite!(mock_memory, mocked(MEMORY));
suite!(mock_own_keys, mocked(OWN_KEYS));
suite!(mock_few_places, mocked(FEW_PLACES));
suite!(mock_stormy, mocked(STORMY));
