//! Memory of peers that is used without their doing. What is short goes through a slot, what is long straight
//! from and to where it belongs, as large messages do; all of it over the endpoint, and nothing over rails.

use fabric::{
    Abilities, Atomic, Attached, Begun, Change, Elements, FabricError, OneSided, Scalar, Sink, UserMemory,
};
use libfabric_sys as sys;
use libfabric_sys::{Answer, AtomicKind, Use};

use crate::libfabric::{Lane, Libfabric};
use crate::memory::Deed;
use crate::port::Errand;
use crate::transfers::{About, Purpose, Way};
use crate::trouble;

/// Memory of a peer, as its key tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    at: sys::Remote,
    bytes: usize,
    /// The memory begins at a multiple of so many bytes.
    alignment: usize,
}

impl Remote {
    /// The key of memory:
    ///
    /// ```text
    /// 0 address u64   8 key u64   16 length u64   24 alignment: its logarithm u8
    /// ```
    fn encode(self) -> Vec<u8> {
        let words = [self.at.address, self.at.key, self.bytes as u64];
        let mut key: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        key.push(self.alignment.trailing_zeros() as u8);
        key
    }

    fn decode(key: &[u8]) -> Option<Remote> {
        let (words, [alignment]) = key.as_chunks::<8>() else { return None };
        let [address, key, bytes] = *words else { return None };
        let [address, key, bytes] = [address, key, bytes].map(u64::from_le_bytes);
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= isize::MAX as usize)?;
        let alignment =
            1_usize.checked_shl(u32::from(*alignment)).filter(|alignment| *alignment <= ALIGNMENT_MAX)?;
        Some(Remote { at: sys::Remote { address, key }, bytes, alignment })
    }

    /// A part of it; `None` beyond its end.
    fn part(self, offset: usize, bytes: usize) -> Option<sys::Remote> {
        let is_within = offset <= self.bytes && bytes <= self.bytes - offset;
        let address = self.at.address.wrapping_add(offset as u64);
        is_within.then_some(sys::Remote { address, ..self.at })
    }
}

impl OneSided for Libfabric {
    type Remote = Remote;

    fn abilities(&self, _lane: Lane) -> Abilities {
        let terms = self.port.terms();
        // Without delivery nobody can say when something is written.
        Abilities { put: terms.writes && terms.delivers, get: true }
    }

    fn atomic_count_max(&self, _lane: Lane, atomic: Atomic, fetches: bool) -> usize {
        let what = translate(atomic, 1);
        if !atomic.is_defined() || (atomic.change.compares() || atomic.change == Change::Read) && !fetches {
            return 0;
        }
        let count = self.port.atomics().count_max(self.kind(atomic, fetches), what.change, what.scalar);
        count.min(self.port.short_bytes_max() / atomic.scalar.bytes())
    }

    fn attach(&mut self, memory: UserMemory) -> Result<(Attached, Vec<u8>), FabricError> {
        let (bytes, start) = (memory.bytes(), memory.start().addr());
        let purpose = if self.port.terms().writes { Use::Shared } else { Use::Remote };
        let (attached, at) = self
            .port
            .attach(memory, purpose)
            .map_err(|error| trouble::cannot_attach(&self.provider, bytes, &error))?;
        self.note_haste();
        let alignment = (1 << start.trailing_zeros().min(63)).min(ALIGNMENT_MAX);
        Ok((attached, Remote { at, bytes, alignment }.encode()))
    }

    fn detach(&mut self, attached: Attached) {
        self.port.detach(attached);
        self.note_haste();
    }

    fn remote(&self, _lane: Lane, key: &[u8]) -> Option<Remote> {
        Remote::decode(key)
    }

    fn put(&mut self, lane: Lane, from: UserMemory, (to, offset): (Remote, usize), ticket: u64) -> Begun {
        let Some(at) = to.part(offset, from.bytes()).filter(|_| self.abilities(lane).put) else {
            return Begun::Refused;
        };
        if from.bytes() <= self.port.short_bytes_max() {
            return self.short(lane, ticket, Deed::Put(from.payload()), UserMemory::EMPTY, at);
        }
        let about = About::new(lane.0, ticket, Purpose::OneSided, Way::single(at), from.bytes());
        self.long(lane, |fabric| fabric.port.launch(from, about))
    }

    fn get(&mut self, lane: Lane, (from, offset): (Remote, usize), into: UserMemory, ticket: u64) -> Begun {
        let bytes = into.bytes();
        let Some(at) = from.part(offset, bytes) else { return Begun::Refused };
        if bytes <= self.port.short_bytes_max() {
            return self.short(lane, ticket, Deed::Get(bytes), into, at);
        }
        let about = About::new(lane.0, ticket, Purpose::OneSided, Way::single(at), bytes);
        self.long(lane, |fabric| fabric.port.land(into, about))
    }

    fn atomic(
        &mut self,
        lane: Lane,
        atomic: Atomic,
        elements: Elements<'_>,
        (there, offset): (Remote, usize),
        ticket: u64,
    ) -> Begun {
        let Elements { count, operand, compare, fetched } = elements;
        let fetches = fetched.bytes() > 0;
        let elements = Elements { count, operand, compare, fetched };
        let element = atomic.scalar.bytes();
        let is_aligned = there.alignment.is_multiple_of(element) && offset.is_multiple_of(element);
        if !elements.fit(atomic) || count > self.atomic_count_max(lane, atomic, fetches) || !is_aligned {
            return Begun::Refused;
        }
        let Some(at) = there.part(offset, count * element) else { return Begun::Refused };
        let kind = self.kind(atomic, fetches);
        let deed = Deed::Atomic(kind, translate(atomic, count), [operand, compare]);
        self.short(lane, ticket, deed, elements.fetched, at)
    }
}

impl Libfabric {
    /// Which of the provider's functions an atomic takes. One that fetches nothing but cannot say when it is
    /// done fetches for nobody: then it is done when that has come.
    fn kind(&self, atomic: Atomic, fetches: bool) -> AtomicKind {
        match atomic.change.compares() {
            true => AtomicKind::Compare,
            false if fetches || !self.port.terms().delivers => AtomicKind::Fetch,
            false => AtomicKind::Update,
        }
    }

    fn short(
        &mut self,
        Lane(index): Lane,
        ticket: u64,
        deed: Deed<'_>,
        into: UserMemory,
        at: sys::Remote,
    ) -> Begun {
        let is_nothing = matches!(deed, Deed::Get(0)) || matches!(deed, Deed::Put(data) if data.bytes() == 0);
        let link = &self.links[index as usize];
        let Some(there) = link.there.filter(|_| link.is_waited_for()) else { return Begun::Refused };
        if is_nothing {
            return Begun::Done;
        }
        match self.port.short(Errand { link: index, ticket }, deed, into, there.address, at) {
            Answer::Taken => {
                self.note_haste();
                Begun::Underway
            }
            Answer::Again => Begun::Busy,
            Answer::Failed(_) => Begun::Refused,
        }
    }

    fn long(
        &mut self,
        Lane(index): Lane,
        begin: impl FnOnce(&mut Libfabric) -> Result<crate::memory::TransferId, sys::LibfabricError>,
    ) -> Begun {
        let link = &self.links[index as usize];
        if !link.is_waited_for() || link.there.is_none() {
            return Begun::Refused;
        }
        match begin(self) {
            Ok(id) => {
                self.begin_transfer(id);
                Begun::Underway
            }
            Err(_) => Begun::Refused,
        }
    }

    /// Tells the engine of a short operation that has ended.
    pub(crate) fn errand_ended(
        &mut self,
        errand: Errand,
        outcome: Result<(), FabricError>,
        sink: &mut impl Sink,
    ) {
        self.note_haste();
        sink.done(self.links[errand.link as usize].peer, errand.ticket, outcome);
    }
}

/// `atomic`, on `count` elements, in libfabric's words.
fn translate(atomic: Atomic, count: usize) -> sys::Atomic {
    let change = match atomic.change {
        Change::Min => sys::Change::Min,
        Change::Max => sys::Change::Max,
        Change::Sum => sys::Change::Sum,
        Change::Product => sys::Change::Product,
        Change::LogicalAnd => sys::Change::LogicalAnd,
        Change::LogicalOr => sys::Change::LogicalOr,
        Change::LogicalXor => sys::Change::LogicalXor,
        Change::BitAnd => sys::Change::BitAnd,
        Change::BitOr => sys::Change::BitOr,
        Change::BitXor => sys::Change::BitXor,
        Change::Replace => sys::Change::Replace,
        Change::Read => sys::Change::Read,
        Change::SwapIfEqual => sys::Change::SwapIfEqual,
    };
    let scalar = match atomic.scalar {
        Scalar::I8 => sys::Scalar::I8,
        Scalar::U8 => sys::Scalar::U8,
        Scalar::I16 => sys::Scalar::I16,
        Scalar::U16 => sys::Scalar::U16,
        Scalar::I32 => sys::Scalar::I32,
        Scalar::U32 => sys::Scalar::U32,
        Scalar::I64 => sys::Scalar::I64,
        Scalar::U64 => sys::Scalar::U64,
        Scalar::F32 => sys::Scalar::F32,
        Scalar::F64 => sys::Scalar::F64,
    };
    sys::Atomic { change, scalar, count }
}

/// No element needs more.
const ALIGNMENT_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_as_they_were_and_nonsense_does_not() {
        let remote = Remote { at: sys::Remote { address: u64::MAX, key: 7 }, bytes: 100, alignment: 8 };
        let key = remote.encode();
        assert_eq!(Remote::decode(&key), Some(remote));
        for bytes in 0..key.len() {
            assert_eq!(Remote::decode(&key[..bytes]), None);
        }
        assert_eq!(Remote::decode(&[&key[..], &[0]].concat()), None);
        assert_eq!(Remote::decode(&[&key[..24], &[7]].concat()), None);
        assert_eq!(Remote::decode(&[&key[..16], &[255; 8], &key[24..]].concat()), None);
    }
}
