//! Fuzz targets: one function for each place where foreign bytes are read.
//!
//! A target takes any bytes, plays them against our code and panics where a promise is broken. libFuzzer
//! drives it with `ci/fuzz/run`; the test `corpus` plays every committed input to it, on any toolchain.
//!
//! **Invariant:** a target needs nothing but its input: the same bytes are the same run, as far as the kernel
//! lets it.

mod cards;
pub mod corpus;
mod datatypes;
mod engine;
mod heard;
mod libfabric_peer;
mod machine;
mod memory;
mod pmi;
mod shm_peer;
mod tape;
mod tcp_link;
mod tcp_meeting;

/// A fuzz target.
pub struct Target {
    /// Its name, that of its program, and that of its folder in the corpus.
    pub name: &'static str,
    /// Plays one input.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<(&'static str, Vec<u8>)>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "cards", run: cards::run, seeds: cards::seeds },
    Target { name: "datatypes", run: datatypes::run, seeds: datatypes::seeds },
    Target { name: "engine", run: engine::run, seeds: engine::seeds },
    Target { name: "libfabric_peer", run: libfabric_peer::run, seeds: libfabric_peer::seeds },
    Target { name: "machine", run: machine::run, seeds: machine::seeds },
    Target { name: "pmi_client", run: pmi::client, seeds: pmi::client_seeds },
    Target { name: "pmi_client2", run: pmi::client2, seeds: pmi::client2_seeds },
    Target { name: "pmi_server", run: pmi::server, seeds: pmi::server_seeds },
    Target { name: "shm_client", run: shm_peer::client, seeds: shm_peer::client_seeds },
    Target { name: "shm_peer", run: shm_peer::run, seeds: shm_peer::seeds },
    Target { name: "tcp_link", run: tcp_link::run, seeds: tcp_link::seeds },
    Target { name: "tcp_meeting", run: tcp_meeting::run, seeds: tcp_meeting::seeds },
];

/// Plays one input to the target of that name.
///
/// # Panics
/// When there is no such target, and when the target has found something.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target's name");
    (target.run)(input);
}
