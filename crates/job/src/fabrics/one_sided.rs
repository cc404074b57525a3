//! Memory of peers that is used without their doing, over whichever of the fabrics has that.

use fabric::{Abilities, Atomic, Attached, Begun, Elements, FabricError, OneSided, UserMemory};

use super::{Fabrics, Lane, Libfabric, Loopback};

/// Memory of a peer, over the fabric that leads to it.
#[derive(Clone, Copy, Debug)]
pub enum Remote {
    /// This process's own.
    Loopback(<Loopback as OneSided>::Remote),
    /// Over a provider of libfabric.
    Libfabric(<Libfabric as OneSided>::Remote),
}

/// What is attached is attached to each fabric that has this, and its key holds the keys of all of them:
///
/// ```text
/// 0 n u8  [n] of the loopback   then, where libfabric is open:  n u8  [n] of libfabric
/// ```
impl OneSided for Fabrics {
    type Remote = Remote;

    fn abilities(&self, lane: Lane) -> Abilities {
        match (lane, &self.libfabric) {
            (Lane::Loopback, _) => self.loopback.abilities(()),
            (Lane::Libfabric(lane), Some(libfabric)) => libfabric.abilities(lane),
            _ => Abilities::default(),
        }
    }

    fn atomic_count_max(&self, lane: Lane, atomic: Atomic, fetches: bool) -> usize {
        match (lane, &self.libfabric) {
            (Lane::Loopback, _) => self.loopback.atomic_count_max((), atomic, fetches),
            (Lane::Libfabric(lane), Some(libfabric)) => libfabric.atomic_count_max(lane, atomic, fetches),
            _ => 0,
        }
    }

    fn attach(&mut self, mut memory: UserMemory) -> Result<(Attached, Vec<u8>), FabricError> {
        let bytes = memory.bytes();
        let (own, key) = self.loopback.attach(memory.part(0, bytes))?;
        let mut all = sized(&key);
        let mut beyond = None;
        if let Some(libfabric) = &mut self.libfabric {
            match libfabric.attach(memory) {
                Ok((attached, key)) => {
                    beyond = Some(attached);
                    all.extend(sized(&key));
                }
                Err(error) => {
                    self.loopback.detach(own);
                    return Err(error);
                }
            }
        }
        // One of the loopback's never has the number of another again.
        self.attached.insert(own, beyond);
        Ok((own, all))
    }

    fn detach(&mut self, attached: Attached) {
        let Some(beyond) = self.attached.remove(&attached) else { return };
        self.loopback.detach(attached);
        if let (Some(libfabric), Some(beyond)) = (&mut self.libfabric, beyond) {
            libfabric.detach(beyond);
        }
    }

    fn remote(&self, lane: Lane, key: &[u8]) -> Option<Remote> {
        let (own, rest) = split(key)?;
        match (lane, &self.libfabric) {
            (Lane::Loopback, _) => self.loopback.remote((), own).map(Remote::Loopback),
            (Lane::Libfabric(lane), Some(libfabric)) => {
                let (beyond, _) = split(rest)?;
                libfabric.remote(lane, beyond).map(Remote::Libfabric)
            }
            _ => None,
        }
    }

    fn put(&mut self, lane: Lane, from: UserMemory, (to, offset): (Remote, usize), ticket: u64) -> Begun {
        match (lane, to, &mut self.libfabric) {
            (Lane::Loopback, Remote::Loopback(to), _) => self.loopback.put((), from, (to, offset), ticket),
            (Lane::Libfabric(lane), Remote::Libfabric(to), Some(libfabric)) => {
                libfabric.put(lane, from, (to, offset), ticket)
            }
            _ => Begun::Refused,
        }
    }

    fn get(&mut self, lane: Lane, (from, offset): (Remote, usize), into: UserMemory, ticket: u64) -> Begun {
        match (lane, from, &mut self.libfabric) {
            (Lane::Loopback, Remote::Loopback(from), _) => {
                self.loopback.get((), (from, offset), into, ticket)
            }
            (Lane::Libfabric(lane), Remote::Libfabric(from), Some(libfabric)) => {
                libfabric.get(lane, (from, offset), into, ticket)
            }
            _ => Begun::Refused,
        }
    }

    fn atomic(
        &mut self,
        lane: Lane,
        atomic: Atomic,
        elements: Elements<'_>,
        (there, offset): (Remote, usize),
        ticket: u64,
    ) -> Begun {
        match (lane, there, &mut self.libfabric) {
            (Lane::Loopback, Remote::Loopback(there), _) => {
                self.loopback.atomic((), atomic, elements, (there, offset), ticket)
            }
            (Lane::Libfabric(lane), Remote::Libfabric(there), Some(libfabric)) => {
                libfabric.atomic(lane, atomic, elements, (there, offset), ticket)
            }
            _ => Begun::Refused,
        }
    }
}

fn sized(key: &[u8]) -> Vec<u8> {
    [&[key.len() as u8], key].concat()
}

/// The key at the beginning, and what stands behind it.
fn split(keys: &[u8]) -> Option<(&[u8], &[u8])> {
    let (bytes, rest) = keys.split_first()?;
    rest.split_at_checked(usize::from(*bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fabric::{Change, Fabric, Heap, Payload, Peer, Scalar};

    use super::*;
    use crate::config::Config;
    use crate::fabrics::Place;
    use crate::key_value_exchange::{Exchange, KeyValueStore};

    #[test]
    fn memory_of_ones_own_is_used_as_that_of_others() {
        let config = Config::default();
        let place = Place { here: Peer(0), ranks: 1, peers: 1, config: &config };
        let mut exchange = Exchange::KeyValueStore(Arc::new(KeyValueStore::new(1)));
        let mut fabrics = Fabrics::open(&place, &mut exchange).unwrap().fabrics;
        let lane = fabrics.connect(Peer(0), &[]).unwrap();
        let (heap, room) = (Heap::new(64), Heap::new(8));
        let (attached, key) = fabrics.attach(heap.memory()).unwrap();
        let there = fabrics.remote(lane, &key).unwrap();
        assert_eq!(fabrics.abilities(lane), Abilities { put: true, get: true });
        room.memory().write_at(0, Payload::from(&5u64.to_ne_bytes()[..]));
        assert_eq!(fabrics.put(lane, room.memory(), (there, 8), 1), Begun::Done);
        let sum = Atomic { change: Change::Sum, scalar: Scalar::U64 };
        assert!(fabrics.atomic_count_max(lane, sum, true) > 0);
        let operand = 2u64.to_ne_bytes();
        let (operand, compare) = (Payload::from(&operand[..]), Payload::EMPTY);
        let elements = Elements { count: 1, operand, compare, fetched: room.memory() };
        assert_eq!(fabrics.atomic(lane, sum, elements, (there, 8), 2), Begun::Done);
        assert_eq!(room.payload().to_vec(), 5u64.to_ne_bytes());
        assert_eq!(fabrics.get(lane, (there, 8), room.memory(), 3), Begun::Done);
        assert_eq!(room.payload().to_vec(), 7u64.to_ne_bytes());
        for bytes in 0..key.len() {
            assert!(fabrics.remote(lane, &key[..bytes]).is_none(), "{bytes} bytes of a key");
        }
        fabrics.detach(attached);
        fabrics.detach(attached);
        assert_eq!(fabrics.get(lane, (there, 8), room.memory(), 4), Begun::Refused);
    }
}
