//! A segment with slots in plain memory of one process, for simulations and tests.
//!
//! Members are threads, of which one runs at a time. Before each access a member calls its [`Step`], where a
//! scheduler may let another member run, or have this one die: every order of accesses can be tried that
//! members could come into.
//!
//! The segment watches that members keep the contract of [`Slots`]: a slot or staging buffer that is written
//! before its readers have consumed it, and data that is read before it is published or after it is gone, are
//! panics that name the member. And it counts cache lines: each line that a member reads or writes while
//! another member's cache holds the only valid copy is one transfer.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    BEFORE_ALL, Chunk, DEPTH, HEADER_BYTES, Ring, SLOT_BYTES_MAX, Slots, chunk_bytes_max, is_before,
    staging_buffer, way_at,
};
use crate::{Heap, Payload, UserMemory};

/// What happens before an access of one member. False: the member is dead, and its accesses have no effect
/// any more.
pub type Step = Arc<dyn Fn() -> bool + Send + Sync>;

/// Makes the two or more sides of a segment, whose members take those steps. `reads`: whether two members may
/// read each other's memory. `calls_alike`: whether members do the same operations. Where they do not, chunks
/// are lost that nobody waits for, and what is read may be anything.
#[must_use]
pub fn segment(steps: Vec<Step>, reads: bool, calls_alike: bool) -> Vec<PlainSlots> {
    let members = (0..steps.len()).map(|_| Own::default()).collect();
    let shared = Shared {
        members,
        buffers: HashMap::new(),
        lines: HashMap::new(),
        transfers: 0,
        lent: vec![],
        reads,
        calls_alike,
    };
    let shared = Arc::new(Mutex::new(shared));
    let side = |(here, step)| PlainSlots { shared: Arc::clone(&shared), here, step };
    (0..).zip(steps).map(side).collect()
}

/// One member's side of a segment in plain memory.
pub struct PlainSlots {
    shared: Arc<Mutex<Shared>>,
    here: u32,
    step: Step,
}

struct Shared {
    members: Vec<Own>,
    /// Staging buffers, by index.
    buffers: HashMap<u32, Buffer>,
    /// Which members' caches hold a line.
    lines: HashMap<(u32, u32), u64>,
    transfers: u64,
    /// Memory that members have lent.
    lent: Vec<Vec<u8>>,
    reads: bool,
    calls_alike: bool,
}

/// What one member writes.
struct Own {
    slots: Vec<Slot>,
    consumed: u32,
    stands: u32,
    owes: u32,
    ways: [(u32, u32); 2],
    has_withdrawn: bool,
}

#[derive(Clone, Default)]
struct Slot {
    number: u32,
    told: [u32; 2],
    data: Vec<u8>,
}

struct Buffer {
    number: u32,
    writer: u32,
    /// Which members have read it.
    read_by: u64,
    data: Vec<u8>,
}

impl Default for Own {
    fn default() -> Own {
        let numbered = |back: u32| Slot { number: BEFORE_ALL.wrapping_sub(back), ..Slot::default() };
        let mut slots = vec![Slot::default(); DEPTH as usize];
        (0..DEPTH).for_each(|back| slots[(BEFORE_ALL.wrapping_sub(back) % DEPTH) as usize] = numbered(back));
        let ways = [(BEFORE_ALL, 0), (BEFORE_ALL.wrapping_sub(1), 0)];
        Own { slots, consumed: BEFORE_ALL, stands: BEFORE_ALL, owes: 0, ways, has_withdrawn: false }
    }
}

impl Own {
    fn slot(&self, number: u32) -> &Slot {
        &self.slots[(number % DEPTH) as usize]
    }

    fn has(&self, number: u32) -> bool {
        self.slot(number).number == number
    }
}

impl Shared {
    fn reads_line(&mut self, line: (u32, u32), here: u32) {
        let held = self.lines.entry(line).or_default();
        if *held & (1 << here) == 0 {
            self.transfers += u64::from(*held != 0);
            *held |= 1 << here;
        }
    }

    fn writes_line(&mut self, line: (u32, u32), here: u32) {
        let held = self.lines.entry(line).or_default();
        self.transfers += u64::from(*held & !(1 << here) != 0);
        *held = 1 << here;
    }

    /// The lines of a slot of so many bytes.
    fn slot_lines(number: u32, bytes: usize) -> impl Iterator<Item = u32> {
        let first = (number % DEPTH) * 64 + 2;
        first..first + ((HEADER_BYTES + bytes).div_ceil(64)).max(1) as u32
    }

    fn buffer_lines(&mut self, key: u32, bytes: Range<usize>, here: u32, is_written: bool) {
        let first = key << 12;
        for line in first + (bytes.start / 64) as u32..first + bytes.end.div_ceil(64) as u32 {
            if is_written {
                self.writes_line((u32::MAX, line), here);
            } else {
                self.reads_line((u32::MAX, line), here);
            }
        }
    }

    /// Which staging buffer a chunk of a member stands in.
    fn buffer(&self, ring: Ring, member: u32, number: u32) -> u32 {
        staging_buffer(self.members.len() as u32, ring, member, number)
    }
}

impl PlainSlots {
    /// How many cache lines have moved between members so far.
    #[must_use]
    pub fn transfers(&self) -> u64 {
        self.lock().transfers
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next access; `None` for a member that is dead.
    fn access(&self) -> Option<MutexGuard<'_, Shared>> {
        (self.step)().then(|| self.lock())
    }

    fn publish(&self, number: u32, told: [u32; 2], data: Option<Vec<u8>>) {
        let Some(mut shared) = self.access() else { return };
        let reused = number.wrapping_sub(DEPTH);
        for (member, own) in shared.members.iter().enumerate() {
            let has_consumed = member as u32 == self.here || !is_before(own.consumed, reused);
            assert!(
                has_consumed,
                "member {} writes slot {number:#x} before {member} has consumed {reused:#x}",
                self.here
            );
        }
        let bytes = if told[1] == 0 { told[0] as usize } else { 0 };
        for line in Shared::slot_lines(number, bytes) {
            shared.writes_line((self.here, line), self.here);
        }
        let slot = &mut shared.members[self.here as usize].slots[(number % DEPTH) as usize];
        (slot.number, slot.told) = (number, told);
        if let Some(data) = data {
            slot.data = data;
        }
    }

    fn stage(&self, ring: Ring, number: u32, data: Vec<u8>) {
        let Some(mut shared) = self.access() else { return };
        let (here, key) = (self.here, shared.buffer(ring, self.here, number));
        assert!(
            data.len() <= chunk_bytes_max(shared.members.len() as u32),
            "a chunk of {} bytes",
            data.len()
        );
        if let Some(before) = shared.buffers.get(&key) {
            let is_free = if before.writer == here {
                let all = shared.members.iter().enumerate();
                all.filter(|(member, _)| *member as u32 != here)
                    .all(|(_, own)| !is_before(own.consumed, before.number))
            } else {
                before.read_by >> here & 1 == 1
                    || !is_before(shared.members[here as usize].consumed, before.number)
            };
            assert!(
                is_free || !shared.calls_alike,
                "member {here} writes a chunk {number:#x} over {:#x} of {}",
                before.number,
                before.writer
            );
        }
        shared.buffer_lines(key, 0..data.len(), here, true);
        shared.buffers.insert(key, Buffer { number, writer: here, read_by: 0, data });
    }

    /// What the member has written of its own state.
    fn own<R>(&self, change: impl FnOnce(&mut Own) -> R) -> Option<R> {
        let mut shared = self.access()?;
        shared.writes_line((self.here, 0), self.here);
        Some(change(&mut shared.members[self.here as usize]))
    }

    fn of<R>(&self, member: u32, look: impl FnOnce(&Own) -> R) -> Option<R> {
        let mut shared = self.access()?;
        shared.reads_line((member, 0), self.here);
        Some(look(&shared.members[member as usize]))
    }
}

impl Slots for PlainSlots {
    fn put(&self, number: u32, [front, back]: [Payload<'_>; 2]) {
        let data = [front.to_vec(), back.to_vec()].concat();
        assert!(data.len() <= SLOT_BYTES_MAX, "a slot of {} bytes", data.len());
        self.publish(number, [data.len() as u32, 0], Some(data));
    }

    fn fill(&self, number: u32, at: usize, part: Payload<'_>) {
        let Some(mut shared) = self.access() else { return };
        let slot = &mut shared.members[self.here as usize].slots[(number % DEPTH) as usize];
        slot.data.resize(SLOT_BYTES_MAX, 0);
        let part = part.part(0, SLOT_BYTES_MAX - at).to_vec();
        slot.data[at..][..part.len()].copy_from_slice(&part);
    }

    fn post(&self, number: u32, bytes: usize) {
        self.publish(number, [bytes as u32, 0], None);
    }

    fn has(&self, member: u32, number: u32) -> bool {
        let Some(mut shared) = self.access() else { return false };
        for line in Shared::slot_lines(number, 0) {
            shared.reads_line((member, line), self.here);
        }
        shared.members[member as usize].has(number)
    }

    fn read<R>(&self, member: u32, number: u32, bytes: usize, reader: impl FnOnce(Payload<'_>) -> R) -> R {
        let mut data = vec![0; bytes.min(SLOT_BYTES_MAX)];
        if let Some(mut shared) = self.access() {
            for line in Shared::slot_lines(number, bytes) {
                shared.reads_line((member, line), self.here);
            }
            let slot = shared.members[member as usize].slot(number);
            assert!(
                slot.number == number,
                "member {} reads slot {number:#x} of {member}, which is gone",
                self.here
            );
            let held = slot.data.len().min(data.len());
            data[..held].copy_from_slice(&slot.data[..held]);
        }
        reader(Payload::from(&data[..]))
    }

    fn can_send_chunks(&self, _ring: Ring) -> bool {
        true
    }

    fn send_chunk(&self, ring: Ring, number: u32, told: [u32; 2], [front, back]: [Payload<'_>; 2]) {
        let data = [front.to_vec(), back.to_vec()].concat();
        // What is empty stands in no buffer.
        if !data.is_empty() {
            self.stage(ring, number, data);
        }
        self.announce_chunk(number, told);
    }

    fn fill_chunk(&self, ring: Ring, number: u32, bytes: usize, write: impl FnOnce(&mut UserMemory)) {
        let heap = Heap::new(bytes);
        write(&mut heap.memory());
        self.stage(ring, number, heap.payload().to_vec());
    }

    fn announce_chunk(&self, number: u32, told: [u32; 2]) {
        self.publish(number, told, None);
    }

    fn read_chunk<R>(&self, chunk: Chunk, bytes: Range<usize>, reader: impl FnOnce(Payload<'_>) -> R) -> R {
        let Chunk { ring, member, number } = chunk;
        let mut data = vec![0; bytes.len()];
        if !bytes.is_empty()
            && let Some(mut shared) = self.access()
        {
            let key = shared.buffer(ring, member, number);
            shared.buffer_lines(key, bytes.clone(), self.here, false);
            let here = self.here;
            let calls_alike = shared.calls_alike;
            let buffer =
                shared.buffers.get_mut(&key).filter(|held| (held.number, held.writer) == (number, member));
            assert!(
                buffer.is_some() || !calls_alike,
                "member {here} reads chunk {number:#x} of {member}, which is not there"
            );
            if let Some(buffer) = buffer {
                buffer.read_by |= 1 << here;
                let held = buffer.data.get(bytes.start..).unwrap_or_default();
                let held = &held[..held.len().min(bytes.len())];
                data[..held.len()].copy_from_slice(held);
            }
        }
        reader(Payload::from(&data[..]))
    }

    fn announced(&self, member: u32, number: u32) -> [u32; 2] {
        let Some(shared) = self.access() else { return [0; 2] };
        let slot = shared.members[member as usize].slot(number);
        assert!(
            slot.number == number,
            "member {} looks at slot {number:#x} of {member}, which is gone",
            self.here
        );
        slot.told
    }

    fn consume(&self, number: u32) {
        self.own(|own| own.consumed = number);
    }

    fn consumed(&self, member: u32) -> u32 {
        self.of(member, |own| own.consumed).unwrap_or(BEFORE_ALL)
    }

    fn stand(&self, number: u32) {
        self.own(|own| own.stands = number);
    }

    fn publish_ways(&self, slot: usize, from_ways: (u32, u32)) {
        self.own(|own| own.ways[slot & 1] = from_ways);
    }

    fn ways(&self, member: u32, number: u32) -> u32 {
        let Some(said) = self.of(member, |own| own.ways) else { return 0 };
        way_at(said, number)
    }

    fn owe(&self) {
        self.own(|own| own.owes += 1);
    }

    fn owe_no_more(&self) {
        self.own(|own| own.owes -= 1);
    }

    fn owes(&self) -> bool {
        self.of(self.here, |own| own.owes > 0).unwrap_or(false)
    }

    fn will_not_write(&self, member: u32, number: u32, _by_messages: u32) -> bool {
        let will_not = |own: &Own| {
            let has_written = !is_before(own.consumed, number) || !is_before(own.stands, number);
            has_written && own.owes == 0 && !own.has(number)
        };
        self.of(member, will_not).unwrap_or(false)
    }

    fn renew(&self, number: u32) {
        let ways = self.ways(self.here, number);
        self.own(|own| {
            own.stands = number.wrapping_sub(1);
            own.ways = [(number, ways), (number.wrapping_sub(1), ways)];
            for before in (1..=DEPTH).map(|back| number.wrapping_sub(back)) {
                own.slots[(before % DEPTH) as usize].number = before;
            }
        });
    }

    fn await_others(&self) {}

    fn await_no_more(&self) {}

    fn wake(&self) {}

    fn can_both_read(&self) -> bool {
        self.lock().reads
    }

    fn lend(&self, memory: Payload<'_>) -> u64 {
        let Some(mut shared) = self.access() else { return 0 };
        shared.lent.push(memory.to_vec());
        (shared.lent.len() as u64) << LENT_BITS
    }

    fn fetch(&self, address: u64, into: &mut UserMemory) -> bool {
        let Some(shared) = self.access() else { return false };
        let (number, at) = (address >> LENT_BITS, (address & ((1 << LENT_BITS) - 1)) as usize);
        let lent = number.checked_sub(1).and_then(|number| shared.lent.get(number as usize));
        let part = lent.and_then(|lent| lent.get(at..at + into.bytes()));
        part.is_some_and(|part| into.write_at(0, Payload::from(part)) == part.len())
    }

    fn withdraw(&self) {
        self.own(|own| own.has_withdrawn = true);
    }

    fn has_peer_withdrawn(&self) -> bool {
        self.of(1 - self.here, |own| own.has_withdrawn).unwrap_or(false)
    }
}

/// Behind so many bits of an address stands which memory it is of.
const LENT_BITS: u32 = 40;
