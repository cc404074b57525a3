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
            struct Opened;

            impl Pair for Opened {
                type Fabric = Libfabric;

                fn pair() -> (Libfabric, Libfabric) {
                    $open
                }

                fn over() {
                    assert_eq!(mock::broken_rules(), [""; 0]);
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
