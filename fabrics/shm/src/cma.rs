//! Reading another process's memory in one copy (cross-memory attach), where the kernel allows it.
//!
//! Whether it does depends on users, namespaces, seccomp, yama and more, so nothing is deduced from settings:
//! a real word of the peer's memory is read and compared. Every later read may be refused all the same.

use std::time::{Duration, Instant};

use fabric::{Heap, Payload, UserMemory};
use rustix::io::Errno;

use crate::process_slot::SlotOwner;

/// A word of this process's memory that others read by way of trial. Stays where it is as long as it lives.
pub struct Probe {
    value: Box<u64>,
}

impl Probe {
    /// A probe with a value that nobody can guess.
    pub fn new(value: u64) -> Probe {
        Probe { value: Box::new(value) }
    }

    /// What others need to try.
    pub fn slot_owner(&self) -> SlotOwner {
        SlotOwner {
            pid: rustix::process::getpid().as_raw_nonzero().get() as u32,
            probe_address: std::ptr::from_ref(&*self.value).expose_provenance() as u64,
            probe_value: *self.value,
        }
    }
}

/// Lets the other processes of this user read this one's memory, where yama otherwise keeps that to parents.
pub fn admit_readers() {
    // Without yama the kernel knows no such call, and nothing needs to be allowed.
    let _ = rustix::process::set_ptracer(rustix::process::PTracer::Any);
}

/// Whether this process may read the memory of `slot_owner`: reads the 8 bytes of its probe, and compares
/// them with the value that the slot owner has published.
pub fn can_read(slot_owner: &SlotOwner) -> bool {
    try_read(slot_owner).is_ok()
}

/// Reads the 8 bytes of the probe of `slot_owner`, and compares them with the value that the slot owner has
/// published. Ok where this process may read that memory.
///
/// # Errors
/// [`Refusal::System`] where the kernel refuses the read, [`Refusal::Another`] where the word is another one.
pub fn try_read(slot_owner: &SlotOwner) -> Result<(), Refusal> {
    let room = Heap::new(size_of::<u64>());
    read(slot_owner.pid, slot_owner.probe_address, &mut room.memory()).map_err(Refusal::System)?;
    let mut value = [0; size_of::<u64>()];
    room.payload().copy_to(&mut value);
    if u64::from_ne_bytes(value) == slot_owner.probe_value { Ok(()) } else { Err(Refusal::Another) }
}

/// Memory of a process of this node, which others read and write by calls of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerMemory {
    pid: u32,
    address: u64,
}

/// Memory of this process that others are to read and write, and what they need to try whether they can. They
/// try while this lives.
pub struct OfferedMemory {
    probe: Probe,
    address: u64,
}

/// What an [`OfferedMemory`] says of itself: process number, address, and a word to try with.
pub type MemoryCard = [u64; 4];

impl OfferedMemory {
    /// Offers memory that begins at `start`.
    #[must_use]
    pub fn new(start: *const u8) -> OfferedMemory {
        admit_readers();
        let address = start.expose_provenance() as u64;
        OfferedMemory { probe: Probe::new(address.rotate_left(32) ^ 0x7765_6674), address }
    }

    /// What others need.
    #[must_use]
    pub fn card(&self) -> MemoryCard {
        let SlotOwner { pid, probe_address, probe_value } = self.probe.slot_owner();
        [u64::from(pid), self.address, probe_address, probe_value]
    }
}

impl PeerMemory {
    /// The memory that a card tells of, and whether this process may read and write it. The card comes from
    /// another process; the kernel checks its addresses.
    #[must_use]
    pub fn of([pid, address, probe_address, probe_value]: MemoryCard) -> (PeerMemory, bool) {
        let pid = pid as u32;
        let is_open = can_read(&SlotOwner { pid, probe_address, probe_value });
        (PeerMemory { pid, address }, is_open)
    }

    /// Fills `into` with what stands `offset` bytes behind the beginning.
    ///
    /// # Errors
    /// What the kernel says, in words.
    pub fn read(self, offset: u64, into: &mut UserMemory) -> Result<(), String> {
        let address = self.address.wrapping_add(offset);
        read(self.pid, address, into).map_err(|errno| self.refused(errno))
    }

    /// Writes `from`, `offset` bytes behind the beginning.
    ///
    /// # Errors
    /// What the kernel says, in words.
    pub fn write(self, offset: u64, from: Payload<'_>) -> Result<(), String> {
        let address = self.address.wrapping_add(offset);
        write(self.pid, address, from).map_err(|errno| self.refused(errno))
    }

    /// Packs blocks, each so many bytes at an offset, into `into`, which is as long as all of them. A call of
    /// the kernel serves many blocks.
    ///
    /// # Errors
    /// What the kernel says, in words.
    pub fn read_blocks(self, blocks: &[(u64, usize)], into: &mut UserMemory) -> Result<(), String> {
        let mut done = 0;
        for group in blocks.chunks(BLOCKS_MAX) {
            let bytes = group.iter().map(|(_, bytes)| bytes).sum();
            let mut packed = into.part(done, bytes);
            if read_remote(self.pid, &mut packed, &self.remote(group)) != Ok(bytes) {
                // Where it stopped, and why, each block tells by itself.
                let mut at = 0;
                for (offset, bytes) in group {
                    self.read(*offset, &mut packed.part(at, *bytes))?;
                    at += bytes;
                }
            }
            done += bytes;
        }
        Ok(())
    }

    /// Writes packed bytes to blocks, as [`PeerMemory::read_blocks`] reads them.
    ///
    /// # Errors
    /// What the kernel says, in words.
    pub fn write_blocks(self, blocks: &[(u64, usize)], from: Payload<'_>) -> Result<(), String> {
        let mut done = 0;
        for group in blocks.chunks(BLOCKS_MAX) {
            let bytes = group.iter().map(|(_, bytes)| bytes).sum();
            let packed = from.part(done, bytes);
            if write_remote(self.pid, packed, &self.remote(group)) != Ok(bytes) {
                let mut at = 0;
                for (offset, bytes) in group {
                    self.write(*offset, packed.part(at, *bytes))?;
                    at += bytes;
                }
            }
            done += bytes;
        }
        Ok(())
    }

    fn remote(self, blocks: &[(u64, usize)]) -> Vec<libc::iovec> {
        let block = |&(offset, bytes): &(u64, usize)| remote_block(self.address.wrapping_add(offset), bytes);
        blocks.iter().map(block).collect()
    }

    #[cold]
    fn refused(self, errno: Errno) -> String {
        format!("the kernel does not reach memory of process {}: {errno}", self.pid)
    }
}

/// Why a peer's memory cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The system says so.
    System(Errno),
    /// The process of that number is another one: the peer has numbers of its own (a container).
    Another,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::System(errno) => write!(f, "the kernel says: {errno}"),
            Refusal::Another => write!(f, "its process number is that of another process here"),
        }
    }
}

/// What a read of a few bytes takes here, in nanoseconds: the least of some of this process's own memory,
/// since whatever else goes on makes some of them longer and none shorter. None where the kernel refuses even
/// those.
#[must_use]
pub fn least_read_ns() -> Option<f64> {
    let (probe, room) = (Probe::new(0), Heap::new(size_of::<u64>()));
    let SlotOwner { pid, probe_address, .. } = probe.slot_owner();
    let mut least = Duration::MAX;
    for _ in 0..READS_TRIED {
        let start = Instant::now();
        read(pid, probe_address, &mut room.memory()).ok()?;
        least = least.min(start.elapsed());
    }
    Some(least.as_nanos() as f64)
}

/// Fills `into` with what stands at `address` of process `pid`. The address is the peer's claim, and the
/// kernel checks it.
///
/// # Errors
/// What the kernel says: `PERM` where it refuses, `SRCH` where the process is gone, `FAULT` where nothing is
/// mapped there. Then nothing can be said of the bytes in `into`.
pub fn read(pid: u32, address: u64, into: &mut UserMemory) -> Result<(), Errno> {
    let mut done = 0;
    while done < into.bytes() {
        let from = address.checked_add(done as u64).ok_or(Errno::FAULT)?;
        let mut rest = into.part(done, CALL_BYTES_MAX);
        match read_some(pid, from, &mut rest) {
            Ok(0) => return Err(Errno::FAULT),
            Ok(bytes) => done += bytes,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Writes `from` to `address` of process `pid`. The address is the peer's claim, and the kernel checks it.
///
/// # Errors
/// What the kernel says: `PERM` where it refuses, `SRCH` where the process is gone, `FAULT` where nothing is
/// mapped there. Then nothing can be said of the bytes at `address`.
pub fn write(pid: u32, address: u64, from: Payload<'_>) -> Result<(), Errno> {
    let mut done = 0;
    while done < from.bytes() {
        let to = address.checked_add(done as u64).ok_or(Errno::FAULT)?;
        match write_some(pid, to, from.part(done, CALL_BYTES_MAX)) {
            Ok(0) => return Err(Errno::FAULT),
            Ok(bytes) => done += bytes,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// One call of the kernel; the number of bytes it moved.
fn write_some(pid: u32, address: u64, from: Payload<'_>) -> Result<usize, Errno> {
    write_remote(pid, from, &[remote_block(address, from.bytes())])
}

/// Bytes in another process, for a call of the kernel.
fn remote_block(address: u64, bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: std::ptr::without_provenance_mut(address as usize), iov_len: bytes }
}

/// One call of the kernel, to as many blocks as it takes; the number of bytes it moved.
fn write_remote(pid: u32, from: Payload<'_>, remote: &[libc::iovec]) -> Result<usize, Errno> {
    let local = libc::iovec { iov_base: from.start().cast_mut().cast(), iov_len: from.bytes() };
    // SAFETY: `local` covers what `from` claims, which the kernel only reads, and both vectors live during
    // the call. `remote` are addresses in the other process, which the kernel checks there.
    let moved = unsafe {
        libc::process_vm_writev(
            pid as libc::pid_t,
            &local,
            1,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    if moved >= 0 { Ok(moved as usize) } else { Err(last_errno()) }
}

/// One call of the kernel; the number of bytes it moved.
fn read_some(pid: u32, address: u64, into: &mut UserMemory) -> Result<usize, Errno> {
    let remote = [remote_block(address, into.bytes())];
    read_remote(pid, into, &remote)
}

/// One call of the kernel, from as many blocks as it takes; the number of bytes it moved.
fn read_remote(pid: u32, into: &mut UserMemory, remote: &[libc::iovec]) -> Result<usize, Errno> {
    let local = libc::iovec { iov_base: into.start().cast(), iov_len: into.bytes() };
    // SAFETY: `local` covers what `into` claims, writable and unused by others until the claim is gone, and
    // both vectors live during the call. `remote` are addresses in the other process, which the kernel checks
    // there.
    let moved = unsafe {
        libc::process_vm_readv(
            pid as libc::pid_t,
            &local,
            1,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    if moved >= 0 { Ok(moved as usize) } else { Err(last_errno()) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The kernel takes so many blocks in a call (`IOV_MAX`).
const BLOCKS_MAX: usize = 1024;
/// Some twenty microseconds at the start of a process.
const READS_TRIED: usize = 9;
/// The kernel moves at most this much in one call, whatever it is asked for.
const CALL_BYTES_MAX: usize = 0x7fff_f000;

#[cfg(test)]
mod tests {
    use super::*;

    fn own_pid() -> u32 {
        Probe::new(0).slot_owner().pid
    }

    #[test]
    fn the_probe_tells_a_right_word_from_a_wrong_one() {
        let probe = Probe::new(0x0123_4567_89ab_cdef);
        let slot_owner = probe.slot_owner();
        assert!(can_read(&slot_owner), "a process may read its own memory");
        assert!(!can_read(&SlotOwner { probe_value: 1, ..slot_owner }));
        assert!(!can_read(&SlotOwner { probe_address: 8, ..slot_owner }));
        assert!(!can_read(&SlotOwner { pid: u32::MAX / 2, ..slot_owner }));
    }

    /// More blocks than a call takes, and one that is nowhere.
    #[test]
    fn blocks_are_read_and_written_many_at_a_time() {
        let memory = Heap::new(3 * 5000);
        let bytes: Vec<u8> = (0..15_000u32).map(|at| (at * 7 + at / 256) as u8).collect();
        memory.memory().write_at(0, Payload::from(&bytes[..]));
        let offered = OfferedMemory::new(memory.memory().start());
        let (peer, is_open) = PeerMemory::of(offered.card());
        assert!(is_open);
        let mut blocks: Vec<(u64, usize)> = (0..5000).map(|at| (3 * at, 1 + at as usize % 3)).collect();
        let total = blocks.iter().map(|(_, bytes)| bytes).sum();
        let packed = Heap::new(total);
        peer.read_blocks(&blocks, &mut packed.memory()).unwrap();
        let block = |&(at, length): &(u64, usize)| bytes[at as usize..at as usize + length].to_vec();
        assert_eq!(packed.payload().to_vec(), blocks.iter().flat_map(block).collect::<Vec<u8>>());
        let other: Vec<u8> = packed.payload().to_vec().iter().map(|byte| !byte).collect();
        peer.write_blocks(&blocks, Payload::from(&other[..])).unwrap();
        peer.read_blocks(&blocks, &mut packed.memory()).unwrap();
        assert_eq!(packed.payload().to_vec(), other);
        blocks[4000].0 = u64::MAX / 2;
        assert!(peer.read_blocks(&blocks, &mut packed.memory()).unwrap_err().contains("does not reach"));
        assert!(peer.write_blocks(&blocks, Payload::from(&other[..])).is_err());
    }

    #[test]
    fn a_read_takes_time() {
        assert!(least_read_ns().is_some_and(|ns| ns > 0.0));
    }

    #[test]
    fn an_address_that_is_none_is_an_error() {
        let room = Heap::new(64);
        assert_eq!(read(own_pid(), 16, &mut room.memory()), Err(Errno::FAULT));
        assert_eq!(read(own_pid(), u64::MAX - 3, &mut room.memory()), Err(Errno::FAULT));
    }

    #[test]
    fn a_read_that_runs_out_of_mapped_pages_is_an_error() {
        let page = memmap2::MmapMut::map_anon(3 * 4096).unwrap();
        // Only the first page: the second is given back, and the read must not be taken for whole.
        let end = page.as_ptr().expose_provenance() as u64;
        drop(page);
        let room = Heap::new(4 * 4096);
        assert!(read(own_pid(), end, &mut room.memory()).is_err());
    }
}
