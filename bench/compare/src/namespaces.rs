//! Two network namespaces joined by a pair of virtual interfaces: two nodes, as far as TCP can tell.

use std::process::Command;

/// The namespaces; they go away with this value.
#[derive(Debug)]
pub struct Namespaces(());

/// Address of the first one's interface.
pub const ADDRESS: &str = "10.213.77.1";
/// What Open MPI needs so that its ranks reach their launcher: other than those of the rest, it listens
/// on a socket, which has to be one that both namespaces reach.
pub const OPEN_MPI_ENVIRONMENT: [(&str, &str); 2] =
    [("PMIX_MCA_ptl_base_if_include", "weftcmp0"), ("PMIX_MCA_ptl_base_remote_connections", "1")];

impl Namespaces {
    /// Makes them.
    ///
    /// # Errors
    /// Why not, for the row that says so.
    pub fn make() -> Result<Namespaces, String> {
        let guard = Namespaces(());
        let output = Command::new("sh").args(["-c", SETUP, "sh", &name(0), &name(1)]).output();
        let output = output.map_err(|error| format!("no shell: {error}"))?;
        if output.status.success() {
            return Ok(guard);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().next().unwrap_or("no reason given");
        Err(format!("cannot make network namespaces (needs root and `ip`): {first}"))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for side in 0..2 {
            // Fails only where it was never made.
            let _ = Command::new("ip").args(["netns", "delete", &name(side)]).output();
        }
    }
}

/// The name of one of the two.
pub fn name(side: usize) -> String {
    format!("weft-compare-{}-{side}", std::process::id())
}

/// Words before a launcher that is to run in the first one.
pub fn enter_first() -> Vec<String> {
    ["ip", "netns", "exec", &name(0)].map(str::to_owned).into()
}

/// Words before a program that put each rank into its namespace.
pub fn enter() -> Vec<String> {
    let script = "rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}; exec ip netns exec \"$0-$rank\" \"$@\"";
    let stem = name(0);
    let stem = stem.trim_end_matches("-0");
    ["sh", "-c", script, stem].map(str::to_owned).into()
}

const SETUP: &str = "set -e
ip netns add \"$1\"
ip netns add \"$2\"
ip link add weftcmp0 netns \"$1\" type veth peer name weftcmp1 netns \"$2\"
ip -n \"$1\" addr add 10.213.77.1/24 dev weftcmp0
ip -n \"$2\" addr add 10.213.77.2/24 dev weftcmp1
ip -n \"$1\" link set weftcmp0 up
ip -n \"$2\" link set weftcmp1 up
ip -n \"$1\" link set lo up
ip -n \"$2\" link set lo up";
