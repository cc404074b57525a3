//! What a process sleeps on that has several fabrics open.

use std::time::Duration;

use fabric::{Bell, Fabric};

use super::{Libfabric, NAP, Shm, Tcp};

/// What a process with these fabrics sleeps on.
///
/// With several open there is no one thing to sleep on: it sleeps on the first of shm, libfabric and tcp, in naps.
#[derive(Clone)]
pub struct FabricsBell {
    pub(super) shm: Option<<Shm as Fabric>::Bell>,
    pub(super) tcp: Option<<Tcp as Fabric>::Bell>,
    pub(super) libfabric: Option<<Libfabric as Fabric>::Bell>,
}

impl Bell for FabricsBell {
    fn arm(&self) -> u32 {
        match (&self.shm, &self.libfabric, &self.tcp) {
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
            (Some(bell), ..) => bell.sleep(armed, at_most.min(NAP)),
            (None, Some(bell), _) => bell.sleep(armed, at_most.min(NAP)),
            (None, None, Some(bell)) => bell.sleep(armed, at_most),
            (None, None, None) => std::thread::sleep(at_most.min(NAP)),
        }
    }

    fn disarm(&self) {
        match (&self.shm, &self.libfabric, &self.tcp) {
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
