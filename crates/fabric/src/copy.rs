//! Copies between a program's memory, a rank's own and what ranks share.

/// Copies `bytes` bytes, from and to memory that may overlap. Up to 32 go as at most two whole words or vectors,
/// which spares the call of a general copy in the path of small messages.
///
/// # Safety
/// `from` must be readable and `to` writable for `bytes` bytes. Others may write either meanwhile; then the bytes
/// copied are any mixture of old and new.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: each arm moves two pieces of P bytes, one at the start and one ending at the end, where
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

/// Apart, so that what calls [`copy`] needs to keep nothing in memory for it.
///
/// # Safety
/// As for [`copy`].
#[inline(never)]
unsafe fn copy_many(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if STRINGS.contains(&bytes) && are_strings_slow() {
        let ahead = to.addr().wrapping_sub(from.addr());
        if bytes <= ahead && bytes <= ahead.wrapping_neg() {
            // SAFETY: the caller's promise is handed on; the two do not overlap, and the processor has AVX.
            return unsafe { copy_by_vectors(from, to, bytes) };
        }
    }
    // SAFETY: the caller's promise is handed on.
    unsafe { from.copy_to(to, bytes) }
}

/// Whether C libraries may copy by an instruction for strings of bytes where vectors are quicker (decisions/0069), and there are some.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn are_strings_slow() -> bool {
    use std::sync::atomic::{AtomicU8, Ordering};
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
    #[cold]
    fn find_out() -> u8 {
        let vendor = std::arch::x86_64::__cpuid(0);
        let is_amd =
            [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD";
        let found = if is_amd && std::arch::is_x86_feature_detected!("avx") { YES } else { NO };
        KNOWN.store(found, Ordering::Relaxed);
        found
    }
    match KNOWN.load(Ordering::Relaxed) {
        UNKNOWN => find_out() == YES,
        known => known == YES,
    }
}

/// Copies by vectors of 32 bytes.
///
/// # Safety
/// As for [`copy`]; there are as many bytes as in [`STRINGS`], the two do not overlap, and the processor has AVX.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx")]
unsafe fn copy_by_vectors(from: *const u8, to: *mut u8, bytes: usize) {
    type Vector = [u8; 32];
    type Step = [Vector; 4];
    // Vectors of the target are whole from the second one on.
    let first = size_of::<Vector>() - to.addr() % size_of::<Vector>();
    let last = bytes - size_of::<Step>();
    // SAFETY: all that is read and written lies within what the caller vouches for: at the beginning, at `at < last`, or at `last`.
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

/// Copies `bytes` bytes in each of some rows, from the first address to the second, some lines of each row at a time. A core waits
/// for lines that another one has written, and meanwhile copies what it has itself.
///
/// # Safety
/// Each row is as for [`copy`], but that no row is written where it or another one is read; else what is copied is any mixture of
/// what stands there before and afterwards.
pub unsafe fn copy_abreast<const ROWS: usize>(rows: [(*const u8, *mut u8); ROWS], bytes: usize) {
    if bytes < 2 * size_of::<Lines>() {
        // SAFETY: the caller's promise is handed on.
        return rows.into_iter().for_each(|(from, to)| unsafe { copy(from, to, bytes) });
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the caller's promise is handed on, and the processor has AVX.
        return unsafe { lines_by_vectors(rows, bytes) };
    }
    // SAFETY: the caller's promise is handed on.
    unsafe { lines_abreast(rows, bytes) }
}

/// As [`lines_abreast`], by vectors of 32 bytes.
///
/// # Safety
/// As there, and the processor has AVX.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx")]
unsafe fn lines_by_vectors<const ROWS: usize>(rows: [(*const u8, *mut u8); ROWS], bytes: usize) {
    // SAFETY: the caller's promise is handed on.
    unsafe { lines_abreast(rows, bytes) }
}

/// # Safety
/// As for [`copy_abreast`], and there are as many bytes as in [`Lines`].
#[inline(always)]
unsafe fn lines_abreast<const ROWS: usize>(rows: [(*const u8, *mut u8); ROWS], bytes: usize) {
    let last = bytes - size_of::<Lines>();
    // The first row's target is whole lines from the second step on.
    let first = size_of::<Lines>() - rows[0].1.addr() % LINE;
    let mut at = 0;
    let mut next = first;
    loop {
        for (from, to) in rows {
            // SAFETY: `at <= last`, so all that is read and written lies within what the caller vouches for.
            unsafe {
                to.add(at).cast::<Lines>().write_unaligned(from.add(at).cast::<Lines>().read_unaligned());
            };
        }
        if at == last {
            return;
        }
        at = next.min(last);
        next = at + size_of::<Lines>();
    }
}

/// What is copied of a row at a time.
type Lines = [[u8; 32]; 4];
/// A cache line.
const LINE: usize = 64;

/// How much C libraries copy by that instruction: from some length on, and up to where it exceeds a cache.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const STRINGS: std::ops::RangeInclusive<usize> = 2048..=1 << 20;

/// Moves the first and the last P bytes of `bytes`; reads both before it writes either.
///
/// # Safety
/// As for [`copy`], and `P <= bytes`.
#[inline(always)]
unsafe fn both_ends<const P: usize>(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: `P <= bytes`, so both pieces lie inside what the caller vouches for.
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
