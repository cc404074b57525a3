//! Copies between a program's memory, a rank's own and what ranks share.

/// Copies `bytes` bytes, from and to memory that may overlap. Up to 32 go as at most two whole words or
/// vectors, which spares the call of a general copy in the path of small messages.
///
/// # Safety
/// `from` must be readable and `to` writable for `bytes` bytes. Others may write either meanwhile; then the
/// bytes copied are any mixture of old and new.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: each arm moves two chunks of P bytes, one at the start and one ending at the end, where
    // `P <= bytes <= 2 * P`; both lie inside what the caller vouches for.
    unsafe {
        // A double, or two, is what a small message holds most of the time.
        if bytes >= 8 {
            match bytes {
                8..=16 => both_ends::<8>(from, to, bytes),
                17..=32 => both_ends::<16>(from, to, bytes),
                _ => copy_many(from, to, bytes),
            }
            return;
        }
        match bytes {
            0 => {}
            1 => to.write(from.read()),
            2..4 => both_ends::<2>(from, to, bytes),
            _ => both_ends::<4>(from, to, bytes),
        }
    }
}

/// Copies `bytes` bytes to memory that another core reads next, and has read before: that core's caches hold
/// what is written over. The two memories do not overlap.
///
/// # Safety
/// `from` must be readable and `to` writable for `bytes` bytes. Others may write either meanwhile; then the
/// bytes copied are any mixture of old and new.
#[inline(always)]
pub unsafe fn hand_over(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if GIVEN_STRINGS.contains(&bytes) && CopyStrategy::of_this_processor() == CopyStrategy::LongStrings {
        // SAFETY: the caller's promise is handed on.
        return unsafe { copy_as_string(from, to, bytes) };
    }
    // SAFETY: the caller's promise is handed on.
    unsafe { copy(from, to, bytes) }
}

/// Copies more than 32 bytes, from and to memory that may overlap. A function apart, so that what calls
/// [`copy`] needs to keep nothing in memory for it.
///
/// # Safety
/// `from` must be readable and `to` writable for `bytes` bytes. Others may write either meanwhile; then the
/// bytes copied are any mixture of old and new.
#[inline(never)]
unsafe fn copy_many(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if OWN.contains(&bytes) {
        let (habit, ahead) = (CopyStrategy::of_this_processor(), to.addr().wrapping_sub(from.addr()));
        if habit != CopyStrategy::Library && bytes <= ahead && bytes <= ahead.wrapping_neg() {
            // SAFETY: the caller's promise is handed on; the two do not overlap, and the processor has AVX.
            return unsafe {
                match habit {
                    CopyStrategy::LongStrings if STRINGS_FROM <= bytes => copy_as_string(from, to, bytes),
                    _ => copy_by_vectors(from, to, bytes),
                }
            };
        }
    }
    // SAFETY: the caller's promise is handed on.
    unsafe { from.copy_to(to, bytes) }
}

/// How this processor copies most quickly (decisions/0003).
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum CopyStrategy {
    /// As its C library does, which may use the instruction for strings of bytes.
    Library,
    /// By vectors: that instruction is slow at times.
    Vectors,
    /// By vectors what is short, and by that instruction what is long.
    LongStrings,
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl CopyStrategy {
    #[inline]
    fn of_this_processor() -> CopyStrategy {
        use std::sync::atomic::{AtomicU8, Ordering};
        const UNKNOWN: u8 = u8::MAX;
        static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
        const VECTORS: u8 = CopyStrategy::Vectors as u8;
        const LONG_STRINGS: u8 = CopyStrategy::LongStrings as u8;
        match KNOWN.load(Ordering::Relaxed) {
            VECTORS => CopyStrategy::Vectors,
            LONG_STRINGS => CopyStrategy::LongStrings,
            UNKNOWN => {
                let found = CopyStrategy::find_out();
                KNOWN.store(found as u8, Ordering::Relaxed);
                found
            }
            _ => CopyStrategy::Library,
        }
    }

    #[cold]
    fn find_out() -> CopyStrategy {
        let vendor = std::arch::x86_64::__cpuid(0);
        let is_amd =
            [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD";
        if !is_amd || !std::arch::is_x86_feature_detected!("avx") {
            return CopyStrategy::Library;
        }
        let signature = std::arch::x86_64::__cpuid(1).eax;
        let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
        if ZEN_5_FAMILY <= family { CopyStrategy::LongStrings } else { CopyStrategy::Vectors }
    }
}

/// Copies by the instruction for strings of bytes.
///
/// # Safety
/// `from` must be readable and `to` writable for `bytes` bytes. Others may write either meanwhile; then the
/// bytes copied are any mixture of old and new. The two memories do not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_as_string(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise is handed on; the direction flag is clear, as it is between functions.
    unsafe {
        std::arch::asm!("rep movsb", inout("rcx") bytes => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags));
    }
}

/// Copies by vectors of 32 bytes.
///
/// # Safety
/// `from` must be readable and `to` writable for `bytes` bytes. Others may write either meanwhile; then the
/// bytes copied are any mixture of old and new. `bytes` is in [`OWN`], the two memories do not overlap, and
/// the processor has AVX.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx")]
unsafe fn copy_by_vectors(from: *const u8, to: *mut u8, bytes: usize) {
    type Vector = [u8; 32];
    type Step = [Vector; 4];
    // Vectors of the target are whole from the second one on.
    let first = size_of::<Vector>() - to.addr() % size_of::<Vector>();
    let last = bytes - size_of::<Step>();
    // SAFETY: all that is read and written lies within what the caller vouches for: at the beginning, at `at
    // < last`, or at `last`.
    unsafe {
        to.cast::<Vector>().write_unaligned(from.cast::<Vector>().read_unaligned());
        let mut at = first;
        while at < last {
            to.add(at).cast::<Step>().write_unaligned(from.add(at).cast::<Step>().read_unaligned());
            at += size_of::<Step>();
        }
        to.add(last).cast::<Step>().write_unaligned(from.add(last).cast::<Step>().read_unaligned());
    }
}

/// Whether rows that are written together take less time a line of each at a time than one after the other:
/// not on processors on which the instruction for strings of bytes is quicker than lines (decisions/0003).
#[inline]
pub fn are_rows_abreast() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return CopyStrategy::of_this_processor() != CopyStrategy::LongStrings;
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    true
}

/// Copies `bytes` bytes in each of up to three rows, from the first address to the second, a line of each row
/// at a time where the processor has vectors for it. A core waits for lines that another one has written, and
/// meanwhile copies what it has itself.
///
/// # Safety
/// Each row is as for [`copy`], but that no row is written where it or another one is read; else what is
/// copied is any mixture of what stands there before and afterwards.
pub unsafe fn copy_abreast<const ROWS: usize>(rows: [(*const u8, *mut u8); ROWS], bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if ROWS > 1 && bytes >= LINE && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the caller's promise is handed on, the processor has AVX, and there is a line.
        return unsafe { lines_abreast::<ROWS>(rows, bytes) };
    }
    for (from, to) in rows {
        // SAFETY: the caller's promise is handed on.
        unsafe { copy(from, to, bytes) }
    }
}

/// Copies lines of all rows by vectors of 32 bytes.
///
/// # Safety
/// Each row is readable at its first address and writable at its second for `bytes` bytes, as for
/// [`copy_abreast`]. `bytes` is a line at least, and the processor has AVX.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx")]
unsafe fn lines_abreast<const ROWS: usize>(rows: [(*const u8, *mut u8); ROWS], bytes: usize) {
    type Line = [[u8; 32]; 2];
    const { assert!(1 <= ROWS && ROWS <= 3 && LINE == size_of::<Line>()) };
    // All is read before anything is written: a processor takes a store for one that a load needs where both
    // are as far behind a page.
    let step = |at: usize| {
        // SAFETY: there are `at` and a line of each row, as the caller has vouched.
        unsafe {
            let lines = rows.map(|(from, _)| from.add(at).cast::<Line>().read_unaligned());
            for ((_, to), line) in rows.into_iter().zip(lines) {
                to.add(at).cast::<Line>().write_unaligned(line);
            }
        }
    };
    let last = bytes - LINE;
    step(0);
    step(last);
    // The first row's target is whole lines from the second one on.
    let mut at = LINE - rows[0].1.addr() % LINE;
    while at < last {
        step(at);
        at += LINE;
    }
}

/// A cache line.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LINE: usize = 64;

/// Lengths at which C libraries may copy by the instruction for strings of bytes: from some length on, and up
/// to where it exceeds a cache.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const OWN: std::ops::RangeInclusive<usize> = 2048..=1 << 20;
/// From this length on the instruction for strings of bytes is quicker than vectors, on processors of
/// [`CopyStrategy::LongStrings`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
const STRINGS_FROM: usize = 8192;
/// Lengths at which the instruction for strings of bytes is quicker than vectors where what is written over
/// stands in another core's caches. From [`STRINGS_FROM`] on it is quicker in any case.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const GIVEN_STRINGS: std::ops::Range<usize> = 2048..STRINGS_FROM;
/// What AMD's processors of the fifth generation say of themselves; those before have 0x17 and 0x19.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const ZEN_5_FAMILY: u32 = 0x1a;

/// Moves the first and the last P bytes of `bytes`; reads both before it writes either.
///
/// # Safety
/// `from` must be readable and `to` writable for `bytes` bytes. Others may write either meanwhile; then the
/// bytes copied are any mixture of old and new. `P <= bytes`.
#[inline(always)]
unsafe fn both_ends<const P: usize>(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: `P <= bytes`, so both chunks lie inside what the caller vouches for.
    unsafe {
        let last = bytes - P;
        let head = from.cast::<[u8; P]>().read_unaligned();
        let tail = from.add(last).cast::<[u8; P]>().read_unaligned();
        to.cast::<[u8; P]>().write_unaligned(head);
        to.add(last).cast::<[u8; P]>().write_unaligned(tail);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Heap, Payload, write_abreast};

    /// Rows of all lengths around a step and a line, and of several lengths, at all places in a line.
    #[test]
    fn rows_abreast_are_copied_each_for_itself() {
        let before: Vec<u8> = (0..2000u32).map(|at| (at % 251) as u8).collect();
        let sources = Heap::new(before.len());
        sources.memory().write_at(0, Payload::from(&before[..]));
        let lengths = [0, 1, 63, 64, 127, 128, 129, 191, 192, 255, 256, 257, 300, 384, 449];
        for (place, bytes) in (0..64)
            .step_by(if cfg!(miri) { 21 } else { 1 })
            .flat_map(|place| lengths.map(|bytes| (place, bytes)))
        {
            let targets = Heap::new(before.len());
            let each = [(bytes, place), (bytes, 7), (bytes / 2, 0)];
            let rows = [0, 1, 2].map(|row| {
                let (bytes, place) = each[row];
                (
                    targets.memory().part(600 * row + place, bytes),
                    sources.payload().part(500 * row + 3 * place, bytes),
                )
            });
            write_abreast(rows);
            let mut expected = vec![0; before.len()];
            for (row, (bytes, place)) in each.into_iter().enumerate() {
                expected[600 * row + place..][..bytes]
                    .copy_from_slice(&before[500 * row + 3 * place..][..bytes]);
            }
            assert!(targets.payload().to_vec() == expected, "{bytes} bytes at {place}");
        }
    }

    /// By each of the ways that some processor takes, whatever this one does.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn all_ways_copy_the_same() {
        let before: Vec<u8> = (0..30_000u32).map(|at| (at % 251) as u8).collect();
        for (bytes, from, to) in [(2048, 0, 0), (2049, 1, 63), (8192, 16, 8), (8191, 0, 31), (20_001, 7, 64)]
        {
            let (source, target) = (Heap::new(before.len()), Heap::new(before.len()));
            source.memory().write_at(0, Payload::from(&before[..]));
            let copied = |copy: unsafe fn(*const u8, *mut u8, usize)| {
                target.memory().write_at(0, Payload::from(&vec![9; before.len()][..]));
                // SAFETY: both have as many bytes behind those places, and nobody else uses them.
                unsafe { copy(source.payload().start().add(from), target.memory().start().add(to), bytes) };
                let mut expected = vec![9; before.len()];
                expected[to..to + bytes].copy_from_slice(&before[from..from + bytes]);
                assert!(target.payload().to_vec() == expected, "{bytes} bytes from {from} to {to}");
            };
            copied(super::copy_as_string);
            copied(super::hand_over);
            if std::arch::is_x86_feature_detected!("avx") {
                copied(super::copy_by_vectors);
            }
        }
    }

    /// Among others the places of which many C libraries' copies are slow, and overlaps of both kinds.
    #[test]
    fn copies_are_the_same_at_all_distances() {
        let before: Vec<u8> = (0..40_000u32).map(|at| (at % 251) as u8).collect();
        let distances = [0, 1, 16, 31, 32, 4096 + 16, 8192, 8192 + 1, 8192 + 16, 8192 + 31, 12288 + 40];
        let lengths = [33, 2049, 1024, 2047, 2048, 4100, 8191, 8192];
        for bytes in lengths.into_iter().take(if cfg!(miri) { 2 } else { lengths.len() }) {
            for (from, to) in distances.into_iter().flat_map(|far| [(64, 64 + far), (64 + far, 64)]) {
                let mut expected = before.clone();
                expected.copy_within(from..from + bytes, to);
                let heap = Heap::new(before.len());
                heap.memory().write_at(0, Payload::from(&before[..]));
                heap.memory().write_at(to, heap.payload().part(from, bytes));
                assert!(heap.payload().to_vec() == expected, "{bytes} bytes from {from} to {to}");
            }
        }
    }
}
