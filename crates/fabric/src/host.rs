//! Which host a process is on: the one place that asks the kernel for it.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Which host a process is on: 8 bytes for the boot of the kernel, 8 for the network namespace that it is
/// seen through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostIdentity(pub [u8; 16]);

impl HostIdentity {
    /// The identity of the host of this process. Where the kernel does not tell, random bytes: then no other
    /// process is taken for a neighbour, which costs time and breaks nothing.
    #[must_use]
    pub fn here() -> HostIdentity {
        let namespace = std::fs::read_link("/proc/self/ns/net");
        let parts = boot().and_then(|boot| {
            let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
            let boot = u128::from_str_radix(&digits, 16).ok()?;
            // As `net:[4026531840]`.
            let namespace =
                namespace.ok()?.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()?;
            Some([(boot >> 64) as u64 ^ boot as u64, namespace])
        });
        let random = || [(); 2].map(|()| RandomState::new().build_hasher().finish());
        let [boot, namespace] = parts.unwrap_or_else(random).map(u64::to_le_bytes);
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&boot);
        identity[8..].copy_from_slice(&namespace);
        HostIdentity(identity)
    }

    /// Whether the two share a loopback: one kernel, one network namespace.
    #[must_use]
    pub fn shares_loopback(self, other: HostIdentity) -> bool {
        self == other
    }

    /// Whether one kernel runs both, so that what one sends to the other meets no network.
    #[must_use]
    pub fn shares_machine(self, other: HostIdentity) -> bool {
        self.0[..8] == other.0[..8]
    }
}

/// What the kernel calls the time since it was started; none where it does not tell.
#[must_use]
pub fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|boot| !boot.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_like_itself_and_a_namespace_makes_a_difference() {
        let here = HostIdentity::here();
        let is_told = boot().is_some() && std::fs::read_link("/proc/self/ns/net").is_ok();
        assert_eq!(here.shares_loopback(HostIdentity::here()), is_told);
        let mut elsewhere = here;
        elsewhere.0[15] ^= 1;
        assert!(here.shares_machine(elsewhere) && !here.shares_loopback(elsewhere));
        elsewhere.0[0] ^= 1;
        assert!(!here.shares_machine(elsewhere));
    }
}
