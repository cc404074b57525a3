//! What a person is told where one process has no way to another.

use fabric::{FabricError, Fault, Peer};

use super::Fabrics;

impl Fabrics {
    pub(super) fn unreachable(&self, peer: Peer) -> FabricError {
        let open = self.open_names();
        let has_no_network = self.tcp.as_ref().is_some_and(|tcp| !tcp.has_addresses());
        let (why, remedy) = match has_no_network {
            true => (
                "this host has no network interface that is up, not even the loopback".to_owned(),
                "bring one up (`ip link set lo up`; `ip address` shows them all), or use shared memory: WEFT_FABRIC=shm",
            ),
            false => {
                let open = if open.is_empty() { "nothing".to_owned() } else { open.join(", ") };
                (
                    format!("open here: {open}"),
                    "allow a fabric that both have, for example WEFT_FABRIC=shm,tcp",
                )
            }
        };
        let what =
            format!("process {} cannot be reached from process {}: {why}\n{remedy}", peer.0, self.here.0);
        FabricError { fabric: "weft", fault: Fault::Unreachable, what }
    }
}
