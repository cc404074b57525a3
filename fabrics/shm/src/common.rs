//! Memory that several processes of a node load from and store to: an anonymous file of its own, mapped by
//! each.
//!
//! One of them makes the file ([`Common::create`]) and hands its descriptor to the others as a segment is
//! handed out ([`Offer`](crate::Offer), [`fetch`](crate::fetch)); each maps it ([`Common::adopt`]) and lets
//! the descriptor go. The memory is there as long as somebody has it mapped, and nothing of it has a name.

use std::os::fd::OwnedFd;

use memmap2::MmapOptions;
use rustix::fs::SealFlags;

use crate::anonymous;
use crate::layout::PAGE;
use crate::memory::Mapped;
use crate::segment::{self, SegmentError};

/// Memory in common with others, mapped here.
pub struct Common {
    memory: Mapped,
}

impl Common {
    /// Makes a file of so many bytes, all of them zero, and reserves its memory. The descriptor is
    /// close-on-exec.
    ///
    /// # Errors
    /// [`SegmentError::Resources`] where there is not so much memory, [`SegmentError::System`].
    pub fn create(bytes: usize) -> Result<OwnedFd, SegmentError> {
        let doing = "reserving memory in common";
        let whole = whole_pages(bytes).filter(|&bytes| i64::try_from(bytes).is_ok());
        let Some(whole) = whole.map(|bytes| bytes as u64) else {
            return Err(segment::exhausted(doing, bytes as u64, rustix::io::Errno::FBIG));
        };
        // Reserving more would take all there is before it failed.
        if whole > segment::machine_bytes() {
            return Err(segment::exhausted(doing, whole, rustix::io::Errno::NOMEM));
        }
        let file = anonymous::anonymous(c"weft-common")
            .map_err(|errno| segment::exhausted("making memory in common", whole, errno))?;
        segment::resize(&file, whole)?;
        segment::reserve(&file, 0, whole).map_err(|errno| segment::exhausted(doing, whole, errno))?;
        anonymous::seal(&file, SealFlags::SEAL)
            .map_err(|errno| segment::system("sealing memory in common", errno))?;
        Ok(file)
    }

    /// Maps a file that [`Common::create`] made with so many bytes, after checking that it is one: a
    /// descriptor comes from outside.
    ///
    /// # Errors
    /// [`SegmentError::Foreign`], [`SegmentError::Resources`].
    pub fn adopt(file: OwnedFd, bytes: usize) -> Result<Common, SegmentError> {
        let foreign = |what: String| SegmentError::Foreign(what);
        let there = rustix::fs::fstat(&file).map_err(|errno| foreign(errno.to_string()))?.st_size as u64;
        if whole_pages(bytes).map(|bytes| bytes as u64) != Some(there) {
            return Err(foreign(format!("it holds {there} bytes, and {bytes} were announced")));
        }
        if !anonymous::keeps_its_length(&file).map_err(|errno| foreign(errno.to_string()))? {
            return Err(foreign("it could be cut short while it is in use".into()));
        }
        let mapping = MmapOptions::new()
            .len(there as usize)
            .map_raw(&file)
            .map_err(|error| segment::no_address_space("mapping memory in common", there, &error))?;
        Ok(Common { memory: Mapped::new(mapping) })
    }

    /// Where it begins in this process; at a page.
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        self.memory.start()
    }

    /// The words and bytes of it.
    pub(crate) fn memory(&self) -> &Mapped {
        &self.memory
    }

    /// Its length, in whole pages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}

/// A mapping has one page at least.
fn whole_pages(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::sync::Ordering;
    use rustix::fs::MemfdFlags;

    fn refusal(file: OwnedFd, bytes: usize) -> String {
        Common::adopt(file, bytes).map(|common| common.bytes()).unwrap_err().to_string()
    }

    #[test]
    fn what_one_stores_the_other_loads() {
        let file = Common::create(10_000).unwrap();
        let (one, other) =
            (Common::adopt(file.try_clone().unwrap(), 10_000).unwrap(), Common::adopt(file, 10_000).unwrap());
        assert_eq!((one.bytes(), other.bytes()), (12_288, 12_288));
        assert_ne!(one.start(), other.start());
        assert_eq!(other.memory.word(9_996).load(Ordering::Relaxed), 0);
        one.memory.word(9_996).store(7, Ordering::Relaxed);
        assert_eq!(other.memory.word(9_996).load(Ordering::Relaxed), 7);
        drop(one);
        assert_eq!(other.memory.word(9_996).load(Ordering::Relaxed), 7, "it stays for those who have it");
    }

    #[test]
    fn no_bytes_are_a_place_too() {
        let common = Common::adopt(Common::create(0).unwrap(), 0).unwrap();
        assert!(!common.start().is_null());
    }

    #[test]
    fn more_than_the_machine_has_is_an_error_with_a_number() {
        for bytes in [1 << 60, usize::MAX, usize::MAX - 5000] {
            let error = Common::create(bytes).unwrap_err();
            assert!(matches!(error, SegmentError::Resources { .. }), "{error}");
        }
    }

    #[test]
    fn foreign_files_are_refused_in_words() {
        let made = |bytes: u64| {
            let file = rustix::fs::memfd_create(c"test", MemfdFlags::ALLOW_SEALING).unwrap();
            rustix::fs::ftruncate(&file, bytes).unwrap();
            file
        };
        assert!(refusal(made(4096), 9000).contains("4096 bytes, and 9000 were announced"));
        assert!(refusal(made(8192), 8192).contains("cut short"));
        let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
        assert!(refusal(socket.into(), 100).contains("not this job's shared memory"));
    }
}
