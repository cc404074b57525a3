//! The pages that processes share, and the only file of this crate that touches them.
//!
//! Everything above works on offsets into a [`Memory`]. Bytes there are never `&[u8]`, since another process
//! may write them at any moment: they are copied in, copied out, or lent as a [`Payload`]. Every access
//! checks its offset and length against the mapping, so a wrong offset is a panic and never a stray write.

use fabric::{Heap, Payload, UserMemory};

use crate::layout::{
    COLLECTIVE_SEGMENT_BYTES_WORD, COLLECTIVE_SEGMENT_PAYLOAD, LINE_FRONT, LINE_PAYLOAD, LINE_SEQUENCE,
};
use crate::sync::{Ordering, Word};

/// Shared bytes, seen as offset and length. One implementation is a mapping, another belongs to the model
/// checker.
///
/// Accesses to the same bytes from two sides are ordered by words: whoever writes bytes publishes a word
/// afterwards (release), and whoever reads them has seen that word before (acquire).
pub trait Memory {
    /// The atomic word at `offset`, a multiple of 4.
    fn word(&self, offset: usize) -> &Word;

    /// Writes `words` at `offset`, not atomically.
    fn put_words<const N: usize>(&self, offset: usize, words: [u32; N]);

    /// Reads words at `offset`, not atomically.
    fn take_words<const N: usize>(&self, offset: usize) -> [u32; N];

    /// Writes a whole line: the payload (at most [`LINE_PAYLOAD_BYTES_MAX`] bytes), what stands before it,
    /// and at last the number, which makes it visible.
    #[inline(always)]
    fn publish_line(&self, slot: Slot, front: [u32; 7], payload: Payload<'_>) {
        self.put(slot.at + LINE_PAYLOAD, payload);
        self.put_words(slot.at + LINE_FRONT, front);
        self.word(slot.at + LINE_SEQUENCE).store(slot.number, Ordering::Release);
    }

    /// Writes the first line of a slot of a collective segment, at `offset`, a multiple of 64: the payload
    /// (at most [`LINE_BYTES_MAX`] bytes), what is told of it, and at last the number, which makes it
    /// visible.
    #[inline(always)]
    fn publish_entry(&self, offset: usize, number: u32, told: [u32; 2], payload: Payload<'_>) {
        self.put(offset + COLLECTIVE_SEGMENT_PAYLOAD, payload);
        self.put_words(offset + COLLECTIVE_SEGMENT_BYTES_WORD, told);
        self.word(offset).store(number, Ordering::Release);
    }

    /// The number of the line at `offset`, a multiple of 64.
    #[inline(always)]
    fn number(&self, offset: usize) -> &Word {
        self.word(offset + LINE_SEQUENCE)
    }

    /// What follows the number of the line at `offset`.
    #[inline(always)]
    fn take_front(&self, offset: usize) -> [u32; 7] {
        self.take_words(offset + LINE_FRONT)
    }

    /// Lends the payload of `bytes` bytes, at most
    /// [`LINE_PAYLOAD_BYTES_MAX`](crate::layout::LINE_PAYLOAD_BYTES_MAX), of the line at `offset` to
    /// `reader`.
    #[inline(always)]
    fn read_line<R>(&self, offset: usize, bytes: usize, reader: impl FnOnce(Payload<'_>) -> R) -> R {
        self.read(offset + LINE_PAYLOAD, bytes, reader)
    }

    /// Copies a payload in at `offset`.
    fn put(&self, offset: usize, payload: Payload<'_>);

    /// Lends `bytes` bytes at `offset` to `write`, which fills them.
    fn make(&self, offset: usize, bytes: usize, write: impl FnOnce(&mut UserMemory)) {
        let heap = Heap::new(bytes);
        write(&mut heap.memory());
        self.put(offset, heap.payload());
    }

    /// Fetches the line at `offset` ahead of its use. Changes nothing, whatever is there.
    #[inline(always)]
    fn prefetch(&self, _offset: usize) {}

    /// Fetches the line at `offset` ahead of a write to it. Changes nothing, whatever is there.
    #[inline(always)]
    fn prefetch_to_write(&self, _offset: usize) {}

    /// Has the system bring `bytes` bytes at `offset` into this process at once, which otherwise comes page
    /// by page with their first use; where it cannot, it does not.
    fn bring_in(&self, _offset: usize, _bytes: usize, _use: Use) {}

    /// Lends `bytes` bytes at `offset` to `reader`.
    fn read<R>(&self, offset: usize, bytes: usize, reader: impl FnOnce(Payload<'_>) -> R) -> R;
}

/// A line that this process is to write next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Where it stands, a multiple of 64.
    pub at: usize,
    /// What makes it visible.
    pub number: u32,
}

/// What memory is brought in for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// To be read.
    Read,
    /// To be written as well.
    Write,
}

#[cfg(not(loom))]
pub use mapped::{Mapped, SegmentView};
#[cfg(all(test, not(loom)))]
pub use mapped::{claim_for_tests, claim_to_write_for_tests};

#[cfg(all(test, loom))]
pub use modelled::Lines;

#[cfg(not(loom))]
mod mapped {
    use fabric::{Payload, UserMemory};
    use memmap2::{Advice, MmapRaw};

    use super::{Memory, Slot, Use};
    use crate::layout::{
        COLLECTIVE_SEGMENT_BYTES_WORD, COLLECTIVE_SEGMENT_PAYLOAD, LINE, LINE_FRONT, LINE_PAYLOAD,
        LINE_PAYLOAD_BYTES_MAX, LINE_SEQUENCE,
    };
    use crate::segment::Segment;
    use crate::sync::{Ordering, Word};
    use fabric::slots::LINE_BYTES_MAX;

    /// Memory of a mapping, or of the heap in tests.
    pub struct Mapped {
        start: *mut u8,
        bytes: usize,
        owner: Owner,
    }

    /// What keeps the memory there.
    enum Owner {
        Mapping(MmapRaw),
        #[cfg(test)]
        Heap(#[allow(dead_code, reason = "held for its Drop")] HeapLines),
    }

    /// Cache lines on the heap. Not a `Box`, which would claim that nobody else points there.
    #[cfg(test)]
    struct HeapLines(*mut [HeapLine]);

    #[cfg(test)]
    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct HeapLine(#[allow(dead_code, reason = "reached through a pointer")] [u8; 64]);

    #[cfg(test)]
    impl Drop for HeapLines {
        fn drop(&mut self) {
            // SAFETY: made by `Box::into_raw` in `Mapped::heap`, and dropped once.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }

    // SAFETY: `Mapped` is an address and a length that stay valid as long as `owner` lives. All access goes
    // through `Memory`, whose words order it between threads exactly as between processes.
    unsafe impl Send for Mapped {}
    // SAFETY: as above.
    unsafe impl Sync for Mapped {}

    impl Mapped {
        /// The whole of a shared mapping.
        pub fn new(mapping: MmapRaw) -> Mapped {
            Mapped { start: mapping.as_mut_ptr(), bytes: mapping.len(), owner: Owner::Mapping(mapping) }
        }

        /// Where it begins in this process.
        pub fn start(&self) -> *mut u8 {
            self.start
        }

        /// Length in bytes.
        pub fn bytes(&self) -> usize {
            self.bytes
        }

        /// Zero bytes on the heap, aligned to a cache line; for tests, also under Miri.
        #[cfg(test)]
        pub fn heap(bytes: usize) -> Mapped {
            let lines = Box::into_raw(vec![HeapLine([0; 64]); bytes.div_ceil(64)].into_boxed_slice());
            Mapped { start: lines.cast(), bytes: lines.len() * 64, owner: Owner::Heap(HeapLines(lines)) }
        }
    }

    /// Bytes of this process that others have mapped as well.
    ///
    /// # Safety
    /// What `place` answers is allocated as long as the implementor is borrowed, for as many bytes as were
    /// asked for, and aligned to a line where the offset is. It panics where they are not all inside.
    unsafe trait Pages {
        fn start(&self) -> *mut u8;

        /// The address of `bytes` bytes at `offset`, all of them inside.
        fn place(&self, offset: usize, bytes: usize) -> *mut u8;

        /// Has the system bring `bytes` bytes at `offset` into this process at once, for the use `_wanted`;
        /// where it cannot, it does not ([`Memory::bring_in`]).
        fn populate(&self, _offset: usize, _bytes: usize, _wanted: Use) {}
    }

    // SAFETY: `place` checks both, and the owner keeps `self.bytes` bytes allocated, which begin with a page
    // or a line.
    unsafe impl Pages for Mapped {
        #[inline(always)]
        fn start(&self) -> *mut u8 {
            self.start
        }

        #[inline(always)]
        fn place(&self, offset: usize, bytes: usize) -> *mut u8 {
            if offset > self.bytes || bytes > self.bytes - offset {
                beyond(offset, bytes, self.bytes);
            }
            // SAFETY: `offset <= self.bytes` was checked above, and the owner keeps `self.bytes` bytes
            // allocated.
            unsafe { self.start.add(offset) }
        }

        #[cold]
        fn populate(&self, offset: usize, bytes: usize, wanted: Use) {
            let advice = match wanted {
                Use::Read => Advice::PopulateRead,
                Use::Write => Advice::PopulateWrite,
            };
            match &self.owner {
                // Before Linux 5.14 there is no such thing.
                Owner::Mapping(mapping) => drop(mapping.advise_range(advice, offset, bytes)),
                #[cfg(test)]
                Owner::Heap(_) => {}
            }
        }
    }

    /// So many bytes of a segment, for who uses them all the time: they are looked up once, and what is known
    /// of offsets when this is compiled is not checked again.
    pub struct SegmentView<const BYTES: usize> {
        start: *mut u8,
        #[allow(dead_code, reason = "keeps the memory there")]
        segment: Segment,
    }

    // SAFETY: as for `Mapped`, which the segment keeps.
    unsafe impl<const BYTES: usize> Send for SegmentView<BYTES> {}
    // SAFETY: as above.
    unsafe impl<const BYTES: usize> Sync for SegmentView<BYTES> {}

    impl<const BYTES: usize> SegmentView<BYTES> {
        /// The window onto the bytes of `segment` at `offset`, a multiple of 64.
        pub fn new(segment: &Segment, offset: usize) -> SegmentView<BYTES> {
            if !offset.is_multiple_of(LINE) {
                askew(offset);
            }
            SegmentView { start: segment.memory().place(offset, BYTES), segment: segment.clone() }
        }
    }

    // SAFETY: `new` has seen that `BYTES` bytes from `start` on are inside a mapping that the segment keeps,
    // and begin with a line.
    unsafe impl<const BYTES: usize> Pages for SegmentView<BYTES> {
        #[inline(always)]
        fn start(&self) -> *mut u8 {
            self.start
        }

        #[inline(always)]
        fn place(&self, offset: usize, bytes: usize) -> *mut u8 {
            if offset > BYTES || bytes > BYTES - offset {
                beyond(offset, bytes, BYTES);
            }
            // SAFETY: `offset <= BYTES` was checked above.
            unsafe { self.start.add(offset) }
        }
    }

    impl<P: Pages> Memory for P {
        fn bring_in(&self, offset: usize, bytes: usize, wanted: Use) {
            self.populate(offset, bytes, wanted);
        }

        #[inline(always)]
        fn word(&self, offset: usize) -> &Word {
            if !offset.is_multiple_of(align_of::<Word>()) {
                askew(offset);
            }
            // SAFETY: `place` checked the bounds; pages and heap lines are aligned to 64 bytes at least, so
            // an offset that is a multiple of 4 is aligned. Every process touches these words atomically.
            unsafe { Word::from_ptr(self.place(offset, size_of::<Word>()).cast()) }
        }

        #[inline(always)]
        fn publish_line(&self, slot: Slot, front: [u32; 7], payload: Payload<'_>) {
            assert!(payload.bytes() <= LINE_PAYLOAD_BYTES_MAX && slot.at.is_multiple_of(LINE));
            let line = self.place(slot.at, LINE);
            // SAFETY: `place` checked the bounds of the line, and its payload has room for
            // LINE_PAYLOAD_BYTES_MAX; the word is aligned as the line is, and every process touches it
            // atomically.
            unsafe {
                fabric::copy(payload.start(), line.add(LINE_PAYLOAD), payload.bytes());
                line.add(LINE_FRONT).cast::<[u32; 7]>().write_unaligned(front);
                Word::from_ptr(line.add(LINE_SEQUENCE).cast()).store(slot.number, Ordering::Release);
            }
        }

        // The three below ask the same of the same line, so that one check serves for all of them.
        #[inline(always)]
        fn number(&self, offset: usize) -> &Word {
            if !offset.is_multiple_of(LINE) {
                askew(offset);
            }
            // SAFETY: `place` checked the bounds of the line, which is aligned; every process touches the
            // word atomically.
            unsafe { Word::from_ptr(self.place(offset, LINE).add(LINE_SEQUENCE).cast()) }
        }

        #[inline(always)]
        fn take_front(&self, offset: usize) -> [u32; 7] {
            // SAFETY: `place` checked the bounds of the line; any bit pattern is a `u32`.
            unsafe { self.place(offset, LINE).add(LINE_FRONT).cast::<[u32; 7]>().read_unaligned() }
        }

        #[inline(always)]
        fn read_line<R>(&self, offset: usize, bytes: usize, reader: impl FnOnce(Payload<'_>) -> R) -> R {
            let bytes = bytes.min(LINE_PAYLOAD_BYTES_MAX);
            // SAFETY: `place` checked the bounds of the line, and the payload stays inside; as in `read`.
            reader(unsafe { Payload::claim(self.place(offset, LINE).add(LINE_PAYLOAD), bytes) })
        }

        #[inline(always)]
        fn publish_entry(&self, offset: usize, number: u32, told: [u32; 2], payload: Payload<'_>) {
            assert!(payload.bytes() <= LINE_BYTES_MAX && offset.is_multiple_of(LINE));
            let line = self.place(offset, LINE);
            // SAFETY: `place` checked the bounds of the line, and behind BOARD_PAYLOAD it has room for
            // LINE_BYTES_MAX; the word is aligned as the line is, and every process touches it atomically.
            unsafe {
                fabric::copy(payload.start(), line.add(COLLECTIVE_SEGMENT_PAYLOAD), payload.bytes());
                line.add(COLLECTIVE_SEGMENT_BYTES_WORD).cast::<[u32; 2]>().write_unaligned(told);
                Word::from_ptr(line.cast()).store(number, Ordering::Release);
            }
        }

        #[inline(always)]
        fn put_words<const N: usize>(&self, offset: usize, words: [u32; N]) {
            let place = self.place(offset, N * size_of::<u32>());
            // SAFETY: `place` checked the bounds of the N words; an unaligned write asks for nothing more.
            unsafe { place.cast::<[u32; N]>().write_unaligned(words) }
        }

        #[inline(always)]
        fn take_words<const N: usize>(&self, offset: usize) -> [u32; N] {
            let place = self.place(offset, N * size_of::<u32>());
            // SAFETY: `place` checked the bounds of the N words; any bit pattern is a `u32`.
            unsafe { place.cast::<[u32; N]>().read_unaligned() }
        }

        #[inline(always)]
        fn put(&self, offset: usize, payload: Payload<'_>) {
            let place = self.place(offset, payload.bytes());
            // SAFETY: `place` checked the bounds for `payload.bytes()`, and the payload claims as many.
            unsafe { fabric::hand_over(payload.start(), place, payload.bytes()) }
        }

        #[inline(always)]
        fn make(&self, offset: usize, bytes: usize, write: impl FnOnce(&mut UserMemory)) {
            let place = self.place(offset, bytes);
            // SAFETY: `place` checked the bounds, and `self` keeps the memory allocated while `write` runs.
            // Nothing else of this process uses it before the word is published that follows; what others
            // write there, they write into bytes that are only ever copied.
            write(&mut unsafe { UserMemory::claim(place, bytes) });
        }

        #[cfg(all(target_arch = "x86_64", not(miri)))]
        #[inline(always)]
        fn prefetch(&self, offset: usize) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch may name any address; it is a hint, and no access.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.start().wrapping_add(offset).cast()) };
        }

        #[cfg(all(target_arch = "x86_64", not(miri)))]
        #[inline(always)]
        fn prefetch_to_write(&self, offset: usize) {
            let line = self.start().wrapping_add(offset);
            // SAFETY: a prefetch may name any address; it is a hint, and no access. Processors that do not
            // know it do nothing.
            unsafe { std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags)) };
        }

        #[inline(always)]
        fn read<R>(&self, offset: usize, bytes: usize, reader: impl FnOnce(Payload<'_>) -> R) -> R {
            let place = self.place(offset, bytes);
            // SAFETY: `place` checked the bounds, and `self` keeps the memory allocated while `reader` runs.
            // Others may write there; a payload is made for that.
            reader(unsafe { Payload::claim(place, bytes) })
        }
    }

    // Apart, and with values as arguments: a message that refers to what is checked would keep it in memory.
    #[cold]
    #[inline(never)]
    fn beyond(offset: usize, bytes: usize, all: usize) -> ! {
        panic!("{bytes} bytes at {offset} reach beyond the {all} bytes of the segment")
    }

    #[cold]
    #[inline(never)]
    fn askew(offset: usize) -> ! {
        panic!("a word at {offset} is not aligned")
    }

    /// Memory that a test keeps, to be read.
    #[cfg(test)]
    pub fn claim_for_tests(start: *const u8, bytes: usize) -> Payload<'static> {
        // SAFETY: the tests of blocks look at those that they have not given back, or at no byte.
        unsafe { Payload::claim(start, bytes) }
    }

    /// Memory that a test keeps, to be written.
    #[cfg(test)]
    pub fn claim_to_write_for_tests(start: *mut u8, bytes: usize) -> fabric::UserMemory {
        // SAFETY: as above.
        unsafe { fabric::UserMemory::claim(start, bytes) }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn every_short_length_is_copied_exactly() {
            let data: Vec<u8> = (1..=80).collect();
            for bytes in 0..=80 {
                let memory = Mapped::heap(192);
                memory.put(64, Payload::from(&data[..bytes]));
                let copy = memory.read(60, 90, |payload| payload.to_vec());
                assert_eq!(copy[..4], [0; 4], "{bytes} bytes wrote before their place");
                assert_eq!(copy[4..4 + bytes], data[..bytes]);
                assert!(
                    copy[4 + bytes..].iter().all(|byte| *byte == 0),
                    "{bytes} bytes wrote beyond their end"
                );
            }
        }

        #[test]
        #[should_panic(expected = "reach beyond the 64 bytes")]
        fn nothing_is_written_beyond_the_end() {
            Mapped::heap(64).put(60, Payload::from(&[0u8; 5][..]));
        }

        #[test]
        #[should_panic(expected = "reach beyond")]
        fn an_offset_near_the_top_of_the_numbers_does_not_wrap() {
            Mapped::heap(64).take_words::<2>(usize::MAX - 3);
        }
    }
}

#[cfg(all(test, loom))]
mod modelled {
    use fabric::Payload;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    use super::Memory;
    use crate::layout::LINE;
    use crate::sync::Word;

    /// Memory by cache lines. Atomic words and plain bytes of a line are kept apart, as the code uses any one
    /// offset as the one or the other only.
    pub struct Lines {
        lines: Vec<(Vec<Word>, UnsafeCell<[u8; LINE]>)>,
    }

    // SAFETY: the cells are reached through loom's `with` and `with_mut` only, which report every data race.
    unsafe impl Sync for Lines {}
    // SAFETY: as above.
    unsafe impl Send for Lines {}

    impl Lines {
        /// Zero bytes for several threads.
        pub fn shared(bytes: usize) -> Arc<Lines> {
            let line = || ((0..LINE / 4).map(|_| Word::new(0)).collect(), UnsafeCell::new([0; LINE]));
            Arc::new(Lines { lines: (0..bytes.div_ceil(LINE)).map(|_| line()).collect() })
        }

        fn put_bytes(&self, mut offset: usize, mut bytes: &[u8]) {
            while !bytes.is_empty() {
                let (line, at) = (&self.lines[offset / LINE].1, offset % LINE);
                let (now, rest) = bytes.split_at(bytes.len().min(LINE - at));
                // SAFETY: loom has checked that nobody else touches the cell now.
                line.with_mut(|cell| unsafe { (&mut *cell)[at..at + now.len()].copy_from_slice(now) });
                (offset, bytes) = (offset + now.len(), rest);
            }
        }

        fn take_bytes(&self, mut offset: usize, bytes: usize) -> Vec<u8> {
            let mut taken = Vec::new();
            while taken.len() < bytes {
                let (line, at) = (&self.lines[offset / LINE].1, offset % LINE);
                let now = (bytes - taken.len()).min(LINE - at);
                // SAFETY: loom has checked that nobody writes the cell now.
                line.with(|cell| taken.extend_from_slice(unsafe { &(&*cell)[at..at + now] }));
                offset += now;
            }
            taken
        }
    }

    impl Memory for Lines {
        fn word(&self, offset: usize) -> &Word {
            &self.lines[offset / LINE].0[offset % LINE / 4]
        }

        fn put_words<const N: usize>(&self, offset: usize, words: [u32; N]) {
            self.put_bytes(offset, &words.map(u32::to_ne_bytes).concat());
        }

        fn take_words<const N: usize>(&self, offset: usize) -> [u32; N] {
            let bytes = self.take_bytes(offset, N * 4);
            std::array::from_fn(|word| {
                let at = word * 4;
                u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
            })
        }

        fn put(&self, offset: usize, payload: Payload<'_>) {
            self.put_bytes(offset, &payload.to_vec());
        }

        fn read<R>(&self, offset: usize, bytes: usize, reader: impl FnOnce(Payload<'_>) -> R) -> R {
            reader(Payload::from(&self.take_bytes(offset, bytes)[..]))
        }
    }
}
