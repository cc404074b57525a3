//! The suite of every fabric, on every provider that this machine has.

use super::*;
use fabric::conformance::Pair;

/// Two ends on one provider.
fn pair(provider: &str, strict_memory: bool) -> (Libfabric, Libfabric) {
    let library = std::env::var_os("WEFT_LIBFABRIC");
    let settings = Settings { library, provider: Some(provider.to_owned()), peers: 2, strict_memory };
    let open = |number| Libfabric::open(Peer(number), &settings).expect("a fabric opens");
    (open(0), open(1))
}

/// A fabric that is the other one, opened in one particular way.
macro_rules! on {
    ($module:ident, $provider:literal, $strict:literal) => {
        mod $module {
            use super::*;

            fabric::conformance!(Opened);

            /// So opened.
            struct Opened(Libfabric);

            impl Pair for Opened {
                fn pair() -> (Self, Self) {
                    let (left, right) = super::pair($provider, $strict);
                    (Opened(left), Opened(right))
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
                fn flush(&mut self) -> bool {
                    self.0.flush()
                }
            }
        }
    };
}

on!(tcp_rxm, "tcp;ofi_rxm", false);
on!(tcp_rxm_strict, "tcp;ofi_rxm", true);
on!(shm, "shm", false);
on!(shm_strict, "shm", true);
