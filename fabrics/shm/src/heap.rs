//! Memory for messages that the other processes of the node can map: read in one copy, with nobody's
//! permission.
//!
//! Behind the rings every process slot has an area of the segment for its heap, far larger than any machine's
//! memory; the file is sparse, so what is not allocated costs nothing. Its owner takes blocks there
//! ([`SharedHeap`]): memory is reserved first, so that a full machine is an error and never a signal, and
//! given back when the block is freed. Where a message in such a block waits for its receiver, its
//! description says where in the file it stands, and the receiver maps that place ([`MappedHeap`]).
//!
//! Descriptions come from a peer: a place outside of that peer's area is an error with its name. A place
//! inside that is not allocated (any more) reads as zeros.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabric::{Exposed, Payload, UserMemory};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::layout::PAGE;
use crate::memory::{Mapped, Memory};
use crate::segment::{self, Segment};

/// The heap of this process's process slot. Clones are the same heap.
#[derive(Clone)]
pub struct SharedHeap {
    blocks: Arc<Mutex<Blocks>>,
}

struct Blocks {
    segment: Segment,
    /// The area, by its place in the file.
    at: u64,
    bytes: u64,
    /// What is taken: where each block ends, by where it begins in the file.
    taken: BTreeMap<u64, u64>,
    /// The taken blocks, by the address at which each is mapped in this process.
    mapped: BTreeMap<usize, Block>,
}

struct Block {
    at: u64,
    mapping: MmapRaw,
}

/// Why there is no block.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "shm: {bytes} bytes of memory to be shared cannot be had: {reason}\n\
     ask for less, or give the job (its container or cgroup) more memory"
)]
pub struct NoBlock {
    /// How much was asked for.
    pub bytes: usize,
    /// The system's reason.
    pub reason: String,
}

impl SharedHeap {
    /// The heap of a process slot.
    pub(crate) fn new(segment: Segment, process_slot: u32) -> SharedHeap {
        let (at, bytes) = (segment.layout().heap_at(process_slot), segment.layout().heap_bytes);
        let blocks = Blocks { segment, at, bytes, taken: BTreeMap::new(), mapped: BTreeMap::new() };
        SharedHeap { blocks: Arc::new(Mutex::new(blocks)) }
    }

    /// Takes a block of zeros; `None` where this heap is not made for it: it is small, so that its messages
    /// go at once and nobody would map it, or wants a greater alignment than a page's, or does not fit the
    /// area.
    ///
    /// # Errors
    /// [`NoBlock`] where memory is exhausted.
    pub fn take(&self, bytes: usize, alignment_bytes: usize) -> Result<Option<*mut u8>, NoBlock> {
        if bytes < BLOCK_BYTES_LEAST || alignment_bytes > PAGE {
            return Ok(None);
        }
        self.hold().take(bytes)
    }

    /// Gives back the block that begins at `start`; false where none does. Nobody uses its memory any more.
    pub fn give_back(&self, start: *mut u8) -> bool {
        self.hold().give_back(start.addr())
    }

    /// Where memory stands in the file, if all of it lies in one block.
    pub(crate) fn locate(&self, memory: Payload<'_>) -> Option<u64> {
        let blocks = self.hold();
        let start = memory.start().addr();
        let (first, block) = blocks.mapped.range(..=start).next_back()?;
        let into = start - first;
        let inside = memory.bytes() <= block.mapping.len().checked_sub(into)?;
        inside.then_some(block.at + into as u64)
    }

    fn hold(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Blocks {
    fn take(&mut self, bytes: usize) -> Result<Option<*mut u8>, NoBlock> {
        let Some(room) = bytes.checked_next_multiple_of(PAGE) else { return Ok(None) };
        let Some(at) = self.gap(room as u64) else { return Ok(None) };
        let refused = |reason: String| NoBlock { bytes, reason };
        // Reserving more would take all there is before it failed.
        if room as u64 > segment::machine_bytes() {
            return Err(refused("the whole machine has less".to_owned()));
        }
        if let Err(errno) = self.segment.reserve(at as usize, room) {
            // What was reserved before memory ran out.
            self.punch(at, room);
            return Err(refused(errno.to_string()));
        }
        let mapping = MmapOptions::new().offset(at).len(room).map_raw(&self.segment.file());
        let mapping = mapping.map_err(|error| {
            self.punch(at, room);
            refused(error.to_string())
        })?;
        let start = mapping.as_mut_ptr();
        self.taken.insert(at, at + room as u64);
        self.mapped.insert(start.addr(), Block { at, mapping });
        Ok(Some(start))
    }

    /// The first gap of the area that is wide enough.
    fn gap(&self, bytes: u64) -> Option<u64> {
        let area_end = self.at + self.bytes;
        let mut free = self.at;
        for (&start, &end) in &self.taken {
            if bytes <= start - free {
                break;
            }
            free = end;
        }
        (bytes <= area_end - free).then_some(free)
    }

    fn give_back(&mut self, start: usize) -> bool {
        let Some(Block { at, mapping }) = self.mapped.remove(&start) else { return false };
        let room = mapping.len();
        drop(mapping);
        self.punch(at, room);
        self.taken.remove(&at);
        true
    }

    /// Gives memory back to the system. Where that fails it stays taken in the file until the job ends, and
    /// nothing else happens: a later block there has its old contents overwritten by whoever uses it.
    fn punch(&self, at: u64, bytes: usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        while rustix::fs::fallocate(self.segment.file(), flags, at, bytes as u64) == Err(Errno::INTR) {}
    }
}

/// The description of memory at a place in the file. Addresses do not have the mark: no process has that
/// many.
pub(crate) fn described(at: u64, bytes: usize) -> Exposed {
    Exposed { words: [at | IN_FILE, bytes as u64] }
}

/// The place in the file that a description names, if it names one and not an address.
#[inline]
pub(crate) fn place(exposed: Exposed) -> Option<u64> {
    (exposed.words[0] & IN_FILE != 0).then_some(exposed.words[0] & !IN_FILE)
}

/// A peer's heap, as far as it is mapped here: from its beginning to twice of what was needed last.
#[derive(Default)]
pub(crate) struct MappedHeap {
    mapped: Option<Mapped>,
}

/// Why nothing was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unread {
    /// The place is none of that peer's heap.
    Stray,
    /// The block cannot be mapped.
    Refused,
}

impl MappedHeap {
    /// Fills `into` with what stands at `at` of the file, in the heap of `process_slot`.
    pub(crate) fn read(
        &mut self,
        segment: &Segment,
        process_slot: u32,
        at: u64,
        into: &mut UserMemory,
    ) -> Result<(), Unread> {
        let (area, area_bytes) = (segment.layout().heap_at(process_slot), segment.layout().heap_bytes);
        let offset = at.checked_sub(area).ok_or(Unread::Stray)?;
        let end =
            offset.checked_add(into.bytes() as u64).filter(|end| *end <= area_bytes).ok_or(Unread::Stray)?;
        let mapped = match &mut self.mapped {
            Some(mapped) if end <= mapped.bytes() as u64 => mapped,
            narrow => {
                // The old one goes first: both together may be too much.
                *narrow = None;
                let bytes =
                    end.next_power_of_two().clamp(WINDOW_BYTES_LEAST, WINDOW_BYTES_LEAST.max(area_bytes));
                let bytes = bytes.min(area_bytes);
                let mapping = MmapOptions::new()
                    .offset(area)
                    .len(bytes as usize)
                    .map_raw_read_only(&segment.file())
                    .map_err(|_| Unread::Refused)?;
                narrow.insert(Mapped::new(mapping))
            }
        };
        mapped.read(offset as usize, into.bytes(), |payload| into.write_at(0, payload));
        Ok(())
    }
}

/// Marks a place in the file.
const IN_FILE: u64 = 1 << 63;
/// Messages of smaller blocks go at once, and nobody maps them.
const BLOCK_BYTES_LEAST: usize = 8 << 10;
/// Mapping costs address space and a system call, so it is done in large steps.
const WINDOW_BYTES_LEAST: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::Heap;

    fn segment() -> Segment {
        Segment::adopt(Segment::create(2).unwrap(), 2).unwrap()
    }

    fn taken_bytes(segment: &Segment) -> u64 {
        rustix::fs::fstat(segment.file()).unwrap().st_blocks as u64 * 512
    }

    /// Memory of a block as a claim; the tests keep the block.
    fn part(block: *mut u8, offset: usize, bytes: usize) -> Payload<'static> {
        let start = std::ptr::with_exposed_provenance(block.expose_provenance() + offset);
        crate::memory::claim_for_tests(start, bytes)
    }

    fn fill(block: *mut u8, bytes: usize, seed: u8) {
        let data: Vec<u8> = (0..bytes).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect();
        crate::memory::claim_to_write_for_tests(block, bytes).write_at(0, Payload::from(&data[..]));
    }

    fn read(
        window: &mut MappedHeap,
        segment: &Segment,
        process_slot: u32,
        at: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, Unread> {
        let room = Heap::new(bytes);
        window.read(segment, process_slot, at, &mut room.memory())?;
        Ok(room.payload().to_vec())
    }

    #[test]
    fn what_the_owner_writes_others_read_and_it_goes_when_it_is_given_back() {
        let segment = segment();
        let before = taken_bytes(&segment);
        let heap = SharedHeap::new(segment.clone(), 1);
        let block = heap.take(100_000, 64).unwrap().unwrap();
        assert_eq!(taken_bytes(&segment) - before, 102_400, "whole pages, reserved at once");
        fill(block, 100_000, 3);
        let at = heap.locate(part(block, 5000, 90_000)).unwrap();
        let mut window = MappedHeap::default();
        let copy = read(&mut window, &segment, 1, at, 90_000).unwrap();
        assert_eq!(copy, part(block, 5000, 90_000).to_vec());
        assert!(heap.give_back(block));
        assert_eq!(taken_bytes(&segment), before);
        assert!(!heap.give_back(block), "given back once");
        assert_eq!(heap.locate(part(block, 5000, 10)), None, "nothing of it is described any more");
        assert_eq!(read(&mut window, &segment, 1, at, 90_000).unwrap(), vec![0; 90_000], "a hole is zeros");
    }

    #[test]
    fn only_memory_inside_of_one_block_has_a_place() {
        let heap = SharedHeap::new(segment(), 0);
        let blocks = [20_000, 8192, 50_000].map(|bytes| heap.take(bytes, 1).unwrap().unwrap());
        for (block, room) in blocks.into_iter().zip([20_480, 8192, 53_248]) {
            assert!(heap.locate(part(block, 0, room)).is_some());
            assert!(heap.locate(part(block, room - 1, 1)).is_some());
            assert!(heap.locate(part(block, 1, room)).is_none(), "it reaches beyond the end");
        }
        assert_eq!(heap.locate(Payload::from(&[1u8; 100][..])), None);
    }

    #[test]
    fn gaps_are_taken_again_and_blocks_never_overlap() {
        let segment = segment();
        let heap = SharedHeap::new(segment.clone(), 0);
        let mut blocks: Vec<(*mut u8, usize)> = Vec::new();
        let mut state = 7u64;
        let mut highest = 0;
        for turn in 0..400 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let dice = (state >> 33) as usize;
            if blocks.len() > 12 || (turn % 3 == 2 && !blocks.is_empty()) {
                let (block, bytes) = blocks.swap_remove(dice % blocks.len());
                assert_eq!(part(block, 0, bytes).to_vec(), vec![(bytes % 251) as u8; bytes], "turn {turn}");
                assert!(heap.give_back(block));
            } else {
                let bytes = 8192 + dice % 100_000;
                let block = heap.take(bytes, 1).unwrap().unwrap();
                let data = vec![(bytes % 251) as u8; bytes];
                crate::memory::claim_to_write_for_tests(block, bytes).write_at(0, Payload::from(&data[..]));
                highest = highest.max(heap.locate(part(block, 0, bytes)).unwrap());
                blocks.push((block, bytes));
            }
        }
        assert!(highest < segment.layout().heap_at(0) + (4 << 20), "gaps are not used: {highest}");
    }

    #[test]
    fn places_outside_of_the_peers_heap_are_strays() {
        let segment = segment();
        let heap = SharedHeap::new(segment.clone(), 1);
        let block = heap.take(10_000, 1).unwrap().unwrap();
        let at = heap.locate(part(block, 0, 10_000)).unwrap();
        let (area, area_bytes) = (segment.layout().heap_at(1), segment.layout().heap_bytes);
        let mut window = MappedHeap::default();
        for (at, bytes) in [
            (0, 8),
            (area - 1, 8),
            (area + area_bytes - 7, 8),
            (area + area_bytes, 1),
            (u64::MAX >> 1, 8),
            (u64::MAX, 8),
        ] {
            assert_eq!(read(&mut window, &segment, 1, at, bytes), Err(Unread::Stray), "{at}");
        }
        assert_eq!(read(&mut window, &segment, 0, at, 8), Err(Unread::Stray), "another process slot's heap");
        assert_eq!(read(&mut window, &segment, 1, area + area_bytes - 8, 8), Ok(vec![0; 8]));
        assert_eq!(read(&mut window, &segment, 1, at, 0), Ok(Vec::new()));
    }

    #[test]
    fn what_the_heap_is_not_for_is_left_to_others() {
        let heap = SharedHeap::new(segment(), 0);
        for (bytes, alignment) in [(100, 8), (0, 1), (1 << 20, 8192), (1 << 60, 8), (usize::MAX, 8)] {
            assert_eq!(heap.take(bytes, alignment), Ok(None), "{bytes} {alignment}");
        }
    }

    #[test]
    fn a_full_memory_is_an_error_that_says_how_much() {
        let heap = SharedHeap::new(segment().on_a_full_machine(), 0);
        let error = heap.take(123_456, 8).unwrap_err();
        assert!(error.to_string().contains("123456 bytes"), "{error}");
        assert!(
            error.to_string().lines().nth(1).is_some_and(|remedy| remedy.contains("more memory")),
            "{error}"
        );
    }

    #[test]
    fn more_than_the_machine_has_is_not_even_tried() {
        let segment = segment();
        let beyond = segment::machine_bytes() + 1;
        let fits = beyond <= segment.layout().heap_bytes;
        let taken = SharedHeap::new(segment, 0).take(beyond as usize, 8).map(|block| block.is_some());
        match taken {
            Err(error) => assert!(fits && error.to_string().contains("the whole machine"), "{error}"),
            Ok(there) => assert!(!fits && !there, "a heap is never wider than its area"),
        }
    }

    #[test]
    fn a_description_is_told_from_an_address() {
        assert_eq!(place(described(0x1234_5000, 7)), Some(0x1234_5000));
        assert_eq!(place(Exposed { words: [0x7fff_ffff_f000, 7] }), None);
    }
}
