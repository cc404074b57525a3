//! Reads, writes and atomics: what one endpoint does with another's memory.
//!
//! An operation that is only to leave (`Until::Left`) completes at once, and the memory over there changes at
//! some later turn: whoever takes the one for the other sees old bytes.

use std::ffi::c_void;

use super::MockAtomics;
use super::atomics::{self, MockAtomicKind};
use super::network::{Entry, MockRegion, MockSpan, Network, Used};
use crate::bindings::*;

/// An operation that has been taken.
pub(super) struct Work {
    deed: Deed,
    /// What is written, or where goes what is read.
    memory: MockSpan,
    to: usize,
    address: u64,
    key: u64,
    context: usize,
    /// Of what it uses on its own side; zero where nothing is registered.
    descriptors: [usize; 3],
    /// The provider keeps what it takes, and is done when it has.
    only_leaves: bool,
}

/// What is to be done.
#[derive(Clone, Copy)]
pub(super) enum Deed {
    Read,
    Write,
    Atomic {
        kind: MockAtomicKind,
        datatype: fi_datatype,
        op: fi_op,
        compare: Option<MockSpan>,
        result: Option<MockSpan>,
    },
}

impl Work {
    /// The descriptors of the memory of its own side that it uses.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = usize> {
        self.descriptors.iter().copied()
    }
}

/// A one-sided operation as C asks for it.
#[derive(Clone, Copy)]
pub(super) struct OneSided {
    pub(super) deed: Deed,
    pub(super) flags: u64,
    /// The address of the peer.
    pub(super) to: u64,
    /// Where in the peer's memory it begins.
    pub(super) address: u64,
    /// The key of that memory.
    pub(super) key: u64,
    pub(super) context: *mut c_void,
}

/// What has left and not arrived.
pub(super) struct Underway {
    deed: Deed,
    data: Vec<u8>,
    /// The region that it goes to, and where in it.
    region: usize,
    start: *mut u8,
}

impl Deed {
    fn wants(self) -> (u64, u64) {
        match self {
            Deed::Read => (FI_READ, FI_REMOTE_READ),
            Deed::Write => (FI_WRITE, FI_REMOTE_WRITE),
            Deed::Atomic { .. } => (FI_ATOMIC, FI_REMOTE_READ | FI_REMOTE_WRITE),
        }
    }

    fn flags(self) -> u64 {
        match self {
            Deed::Read => FI_READ | FI_RMA,
            Deed::Write => FI_WRITE | FI_RMA,
            Deed::Atomic { .. } => FI_WRITE | FI_ATOMIC,
        }
    }
}

/// Beginning.
impl Network {
    /// Takes an operation that uses memory of its own side; the first is what is written, or where goes what
    /// is read.
    pub(super) fn begin_one_sided(&mut self, ep: usize, call: OneSided, used: &[Used]) -> i32 {
        let OneSided { deed, flags, to, address, key, context } = call;
        if let Err(answer) = self.check_deed(ep, deed, flags, used[0].memory.bytes) {
            return answer;
        }
        for further in &used[1..] {
            if let Err(answer) = self.check_local(ep, further.memory, further.descriptor, further.access) {
                return answer;
            }
        }
        match self.begin(ep, to, used[0], context) {
            Err(answer) => answer,
            Ok(context) if self.fails(to) => self.tell_failure(ep, context),
            Ok(context) => {
                let is_kept = match deed {
                    Deed::Read => false,
                    Deed::Write => true,
                    Deed::Atomic { kind, .. } => kind == MockAtomicKind::Update,
                };
                let only_leaves = is_kept && flags & FI_DELIVERY_COMPLETE == 0;
                let (memory, to) = (used[0].memory, to as usize);
                let descriptors =
                    std::array::from_fn(|place| used.get(place).map_or(0, |used| used.descriptor.addr()));
                let work = Work { deed, memory, to, address, key, context, descriptors, only_leaves };
                self.endpoints[ep].works.push_back(work);
                0
            }
        }
    }

    fn check_deed(&mut self, ep: usize, deed: Deed, flags: u64, bytes: usize) -> Result<(), i32> {
        let (capability, _) = deed.wants();
        if self.endpoints[ep].capabilities & capability != capability {
            return Err(self.breaks("writes and atomics are asked for when a provider is"));
        }
        if flags & FI_DELIVERY_COMPLETE != 0 && !self.rules.delivers {
            return Err(self.breaks("delivery is asked for before it is used"));
        }
        if let Deed::Atomic { kind, datatype, op, .. } = deed {
            let count = self.atomic_count_max(kind, datatype, op).unwrap_or(0);
            let element = atomics::element_bytes(datatype).unwrap_or(1);
            if bytes == 0 || bytes > count * element {
                return Err(self.breaks(format!(
                    "the provider is asked whether it has an atomic before that is used, and for how many: {op} of type \
                     {datatype}, {bytes} bytes"
                )));
            }
        }
        Ok(())
    }

    /// How many elements an atomic may have, or the answer that there is none.
    pub(super) fn atomic_count_max(
        &self,
        kind: MockAtomicKind,
        datatype: fi_datatype,
        op: fi_op,
    ) -> Result<usize, i32> {
        let MockAtomics::Bytes(bytes) = self.rules.atomics else { return Err(-FI_ENOSYS) };
        let element = atomics::element_bytes(datatype).filter(|_| atomics::is_known(kind, datatype, op));
        let element = element.ok_or(-FI_EOPNOTSUPP)?;
        // Those that compare have two elements each to send.
        Ok(if kind == MockAtomicKind::Compare { bytes / element / 2 } else { bytes / element })
    }
}

/// Doing.
impl Network {
    /// Does one thing that an endpoint has begun.
    pub(super) fn work(&mut self, ep: usize) {
        let count = self.endpoints[ep].works.len();
        let place = if self.rules.reorders && count > 0 { self.chance() as usize % count } else { 0 };
        let Some(work) = self.endpoints[ep].works.remove(place) else { return };
        let error = match self.find_remote(ep, &work) {
            Ok((region, start)) => {
                self.perform(&work, region, start);
                self.endpoints[ep].moved_bytes += work.memory.bytes;
                0
            }
            Err(error) => error,
        };
        self.give_back(work.context);
        self.tell(ep, Entry { context: work.context, flags: work.deed.flags(), bytes: 0, start: 0, error });
    }

    fn perform(&mut self, work: &Work, region: usize, start: *mut u8) {
        let MockSpan { start: near, bytes } = work.memory;
        if let Deed::Read = work.deed {
            // SAFETY: both ends have vouched for their memory, and the region covers what is read.
            unsafe { start.copy_to_nonoverlapping(near, bytes) };
            return;
        }
        let reads_only = matches!(work.deed, Deed::Atomic { op: FI_ATOMIC_READ, .. });
        // SAFETY: the initiator has vouched for its memory; one that only fetches may have none.
        let data = if reads_only { Vec::new() } else { unsafe { copied(near, bytes) } };
        let underway = Underway { deed: work.deed, data, region, start };
        if work.only_leaves {
            self.underway.push(underway);
        } else {
            arrive(&underway, bytes);
        }
    }

    /// Lets arrive what has left, sooner or later.
    pub(super) fn arrivals(&mut self) {
        while !self.underway.is_empty()
            && (self.underway.len() > UNDERWAY_MAX || self.chance().is_multiple_of(2))
        {
            let place = if self.rules.reorders { self.chance() as usize % self.underway.len() } else { 0 };
            let underway = self.underway.remove(place);
            arrive(&underway, underway.data.len());
        }
    }

    /// The region that an operation goes to, and where in memory.
    fn find_remote(&mut self, ep: usize, work: &Work) -> Result<(usize, *mut u8), i32> {
        let (_, wanted) = work.deed.wants();
        let domain = self.endpoints[work.to].domain;
        let has_key =
            |region: &MockRegion| !region.is_closed && region.domain == domain && region.key == work.key;
        let all = (0..).zip(&self.regions).filter(|(_, region)| has_key(region));
        let (place, _) = all.max_by_key(|(_, region)| region.memory.bytes).ok_or(FI_EACCES)?;
        let region = &self.regions[place];
        let is_theirs = !self.rules.by_endpoint || region.endpoint == Some(work.to);
        if !is_theirs || !region.is_enabled || region.access & wanted != wanted {
            return Err(FI_EACCES);
        }
        let MockSpan { start, bytes: room } = region.memory;
        let origin = if self.rules.by_address { start.addr() as u64 } else { 0 };
        let offset = work.address.checked_sub(origin).and_then(|offset| usize::try_from(offset).ok());
        let offset = offset.filter(|offset| *offset <= room && work.memory.bytes <= room - offset);
        let Some(offset) = offset else {
            self.breaks(format!(
                "endpoint {ep} stays inside of what endpoint {} has registered: {} bytes at {} of {room} at {origin}",
                work.to, work.memory.bytes, work.address
            ));
            return Err(FI_EACCES);
        };
        let found = start.wrapping_add(offset);
        if let Deed::Atomic { datatype, .. } = work.deed
            && !found.addr().is_multiple_of(atomics::element_bytes(datatype).unwrap_or(1))
        {
            self.breaks(format!("atomics go to elements as they are aligned, not to {}", work.address));
            return Err(FI_EINVAL);
        }
        Ok((place, found))
    }

    /// What was on its way to a region is lost with it.
    pub(super) fn forget_underway(&mut self, region: usize) {
        self.underway.retain(|underway| underway.region != region);
    }
}

/// Changes memory, and brings back what was there where that is wanted.
fn arrive(underway: &Underway, bytes: usize) {
    let start = underway.start;
    match underway.deed {
        Deed::Read => {}
        // SAFETY: the peer has vouched for its memory as long as it is registered, and the region covers what
        // is written.
        Deed::Write => unsafe { underway.data.as_ptr().copy_to_nonoverlapping(start, bytes) },
        Deed::Atomic { datatype, op, compare, result, .. } => {
            // SAFETY: as above; the initiator has vouched for what it compares with and for where the old
            // elements go.
            unsafe {
                let mut there = copied(start, bytes);
                let with = compare.map_or_else(Vec::new, |compare| copied(compare.start, bytes));
                if let Some(result) = result {
                    there.as_ptr().copy_to_nonoverlapping(result.start, bytes);
                }
                atomics::apply(datatype, op, &mut there, &underway.data, &with);
                there.as_ptr().copy_to_nonoverlapping(start, bytes);
            }
        }
    }
}

/// # Safety
/// `start..start + bytes` can be read.
unsafe fn copied(start: *const u8, bytes: usize) -> Vec<u8> {
    let mut copy = vec![0; bytes];
    // SAFETY: the caller's promise.
    unsafe { start.copy_to_nonoverlapping(copy.as_mut_ptr(), bytes) };
    copy
}

/// More than this is never on its way.
const UNDERWAY_MAX: usize = 64;
