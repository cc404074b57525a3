//! The shared memory of one job on one node: an anonymous file that exists only as descriptors and mappings,
//! so that nothing is ever left behind.
//!
//! A launcher makes it ([`Segment::create`]) and hands the descriptor down; each process adopts it. What is
//! used is reserved before it is touched, so a full memory is an error with a number in it, and never a
//! SIGBUS.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use fabric::{FabricError, Fault};
use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, SealFlags};
use rustix::io::Errno;

use crate::anonymous::{anonymous, keeps_its_length, seal};
use crate::layout::{HEAD_UNENLISTED, Layout, PROCESS_SLOTS_MAX};
use crate::memory::{Mapped, Memory};
use crate::sync::Ordering;

/// A mapped segment. Clones share the mapping.
#[derive(Clone)]
pub struct Segment {
    inner: Arc<Inner>,
}

struct Inner {
    file: OwnedFd,
    memory: Mapped,
    layout: Layout,
    identity: [u8; 16],
    /// How memory is reserved; a test puts a full machine here.
    reserve: Reserve,
}

/// Reserves a range of a file: offset, bytes.
type Reserve = fn(&OwnedFd, u64, u64) -> Result<(), Errno>;

/// Why there is no segment. The second line of each text is the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// No such number of processes shares a node.
    #[error(
        "shm: a segment has 1 to {PROCESS_SLOTS_MAX} process slots, and {0} were asked for\n\
         Start fewer processes on this node, or choose another fabric: WEFT_FABRIC=tcp"
    )]
    Seats(u32),
    /// The descriptor is none of a segment for this job.
    #[error(
        "shm: the descriptor handed down is not this job's shared memory: {0}\n\
         Start all processes of a job with one launcher and one version of weft"
    )]
    Foreign(String),
    /// Memory or a limit is exhausted.
    #[error("shm: {doing}: {bytes} bytes are needed: {reason}\n{remedy}")]
    Resources {
        /// What was being done.
        doing: &'static str,
        /// How much it needs.
        bytes: u64,
        /// The system's reason.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Another process has had the process slot.
    #[error(
        "shm: process slot {process_slot} of this node was taken before\n\
         Start one MPI program per process of the launcher: its place in the job can be taken only once"
    )]
    Taken {
        /// Which process slot.
        process_slot: u32,
    },
    /// There are fewer process slots than peers, or more.
    #[error(
        "shm: process slot {process_slot} of {peers} peers does not fit a segment of {process_slots} process slots\n\
             This is a mistake of whoever counted the processes of this node: please report it"
    )]
    Mismatch {
        /// The process slot asked for.
        process_slot: u32,
        /// Peers on this node.
        peers: usize,
        /// Process slots of the segment.
        process_slots: u32,
    },
    /// The system refused something else.
    #[error("shm: {doing}: {reason}\nIf a sandbox forbids it, choose another fabric: WEFT_FABRIC=tcp")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The system's reason.
        reason: String,
    },
}

impl Segment {
    /// Makes the segment of a job with `seats` processes on this node. The descriptor is close-on-exec;
    /// whoever hands it down clears that for the processes it starts.
    ///
    /// # Errors
    /// [`SegmentError::Seats`], [`SegmentError::Resources`], [`SegmentError::System`].
    pub fn create(process_slots: u32) -> Result<OwnedFd, SegmentError> {
        let layout = allowed(Layout::new(process_slots).ok_or(SegmentError::Seats(process_slots))?);
        let file = anonymous(c"weft-shm")
            .map_err(|errno| exhausted("making anonymous memory", layout.segment_bytes(), errno))?;
        resize(&file, layout.segment_bytes())?;
        reserve(&file, 0, layout.rings_at() as u64)
            .map_err(|errno| exhausted("reserving memory for the job", layout.rings_at() as u64, errno))?;
        write_head(&file, &layout)?;
        seal(&file, SealFlags::SEAL).map_err(|errno| system("sealing the segment", errno))?;
        Ok(file)
    }

    /// Maps the segment that a launcher made for `seats` processes, after checking that it is one: a
    /// descriptor comes from outside. It must have an open description of its own ([`anew`](crate::anew)), so
    /// that no other process has this one's locks ([`presence`](crate::presence)), and becomes close-on-exec.
    ///
    /// # Errors
    /// [`SegmentError::Foreign`], [`SegmentError::Resources`], [`SegmentError::System`].
    pub fn adopt(file: OwnedFd, process_slots: u32) -> Result<Segment, SegmentError> {
        let layout = made_with(&file, Layout::new(process_slots).ok_or(SegmentError::Seats(process_slots))?);
        let identity = check(&file, &layout)?;
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC)
            .map_err(|errno| system("keeping the descriptor to this process", errno))?;
        let mapping = map(&file, layout.heaps_at())?;
        let memory = Mapped::new(mapping);
        Ok(Segment { inner: Arc::new(Inner { file, memory, layout, identity, reserve }) })
    }

    /// The segment, but on a machine without memory for more than is reserved already.
    #[cfg(test)]
    pub(crate) fn on_a_full_machine(self) -> Segment {
        let Some(inner) = Arc::into_inner(self.inner) else { panic!("the segment is in use") };
        Segment { inner: Arc::new(Inner { reserve: |_, _, _| Err(Errno::NOSPC), ..inner }) }
    }

    /// Process slots of the segment.
    #[must_use]
    pub fn process_slots(&self) -> u32 {
        self.inner.layout.process_slots
    }

    /// The descriptor, to be handed to another process.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.inner.file.as_fd()
    }

    /// The random number that tells this segment from all others.
    pub(crate) fn identity(&self) -> &[u8; 16] {
        &self.inner.identity
    }

    #[inline]
    pub(crate) fn memory(&self) -> &Mapped {
        &self.inner.memory
    }

    #[inline]
    pub(crate) fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    /// Makes sure that the memory is there before it is touched.
    pub(crate) fn reserve(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        (self.inner.reserve)(&self.inner.file, offset as u64, bytes as u64)
    }

    /// Gives memory back that nobody will look at any more. Where the system does not, it stays until the job
    /// ends.
    pub(crate) fn release(&self, offset: usize, bytes: usize) {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.inner.file, hole, offset as u64, bytes as u64);
    }

    /// Tells all that the barrier leaves this process out.
    pub(crate) fn count_unenlisted(&self) {
        self.memory().word(HEAD_UNENLISTED).fetch_add(1, Ordering::SeqCst);
    }

    /// Whether the barrier reaches everybody who has sat down.
    pub(crate) fn all_enlisted(&self) -> bool {
        self.memory().word(HEAD_UNENLISTED).load(Ordering::SeqCst) == 0
    }
}

/// The error of a ring whose `bytes` could not be reserved.
pub(crate) fn ring_refused(bytes: u64, whom: &str, errno: Errno) -> FabricError {
    let fault = if is_exhaustion(errno) { Fault::Resources } else { Fault::System };
    FabricError {
        fabric: "shm",
        fault,
        what: format!(
            "reserving {bytes} bytes of shared memory for messages to {whom}: {errno}\n{MORE_MEMORY}"
        ),
    }
}

/// Checks everything that can be said of a descriptor; returns the segment's identity.
fn check(file: &OwnedFd, layout: &Layout) -> Result<[u8; 16], SegmentError> {
    let foreign = |what: String| SegmentError::Foreign(what);
    let bytes = rustix::fs::fstat(file).map_err(|errno| foreign(errno.to_string()))?.st_size as u64;
    let mut head = [0; HEAD_BYTES];
    let read = rustix::io::pread(file, &mut head, 0).map_err(|errno| foreign(errno.to_string()))?;
    if read < HEAD_BYTES || head[..8] != MAGIC {
        return Err(foreign(format!("it holds {bytes} bytes of something else")));
    }
    let ours = head_of(layout, [0; 16]);
    if head[8..IDENTITY_AT] != ours[8..IDENTITY_AT] {
        return Err(foreign(format!(
            "it was made for {} process slots by version {} of the layout, and {} process slots and version {VERSION} are wanted",
            word_at(&head, 12),
            word_at(&head, 8),
            layout.process_slots
        )));
    }
    if bytes != layout.segment_bytes() {
        return Err(foreign(format!("it holds {bytes} bytes instead of {}", layout.segment_bytes())));
    }
    if !keeps_its_length(file).map_err(|errno| foreign(errno.to_string()))? {
        return Err(foreign("it could be cut short while it is in use".into()));
    }
    let mut identity = [0; 16];
    identity.copy_from_slice(&head[IDENTITY_AT..]);
    Ok(identity)
}

fn map(file: &OwnedFd, bytes: u64) -> Result<MmapRaw, SegmentError> {
    let mapping = MmapOptions::new()
        .len(bytes as usize)
        .map_raw(file)
        .map_err(|error| no_address_space("mapping the segment", bytes, &error))?;
    // A child that the program forks has no business here, and would break the rings if it tried.
    mapping.advise(Advice::DontFork).map_err(|error| system("keeping the segment from children", error))?;
    Ok(mapping)
}

/// The layout without heaps where the size of files is limited below them: they are worth having, and no
/// more.
fn allowed(layout: Layout) -> Layout {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < layout.segment_bytes()) { layout.without_heaps() } else { layout }
}

/// The layout that the maker of a segment has chosen: whether there are heaps shows in its size.
fn made_with(file: &OwnedFd, layout: Layout) -> Layout {
    let bytes = rustix::fs::fstat(file).map_or(0, |about| about.st_size as u64);
    if bytes == layout.without_heaps().segment_bytes() { layout.without_heaps() } else { layout }
}

/// Sets the length. A limit on the size of files would otherwise end the process with a signal.
pub(crate) fn resize(file: &OwnedFd, bytes: u64) -> Result<(), SegmentError> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < bytes) {
        return Err(SegmentError::Resources {
            doing: "making anonymous memory",
            bytes,
            reason: format!("the limit on the size of files is {} bytes", limit.unwrap_or(0)),
            remedy: "This is address space, not memory: lift the limit (ulimit -f unlimited)",
        });
    }
    rustix::fs::ftruncate(file, bytes).map_err(|errno| exhausted("making anonymous memory", bytes, errno))
}

/// The memory of this machine, with what it can swap.
pub(crate) fn machine_bytes() -> u64 {
    let about = rustix::system::sysinfo();
    let units = about.totalram.saturating_add(about.totalswap);
    units.saturating_mul(u64::from(about.mem_unit))
}

fn write_head(file: &OwnedFd, layout: &Layout) -> Result<(), SegmentError> {
    let mut identity = [0; 16];
    getrandom::fill(&mut identity).map_err(|error| system("drawing a random number", error))?;
    let head = head_of(layout, identity);
    match rustix::io::pwrite(file, &head, 0) {
        Ok(HEAD_BYTES) => Ok(()),
        Ok(_) => Err(system("writing the segment's head", "it was cut short")),
        Err(errno) => Err(system("writing the segment's head", errno)),
    }
}

/// Takes memory for a range of the file, at once and not at first touch.
pub(crate) fn reserve(file: &OwnedFd, offset: u64, bytes: u64) -> Result<(), Errno> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, bytes) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn head_of(layout: &Layout, identity: [u8; 16]) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    let words = [VERSION, layout.process_slots, layout.ring.lines, layout.ring.data_bytes];
    for (word, place) in words.iter().zip(head[8..24].chunks_exact_mut(4)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    head[24..IDENTITY_AT].copy_from_slice(&layout.segment_bytes().to_le_bytes());
    head[IDENTITY_AT..].copy_from_slice(&identity);
    head
}

fn word_at(head: &[u8; HEAD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

pub(crate) fn exhausted(doing: &'static str, bytes: u64, errno: Errno) -> SegmentError {
    if !is_exhaustion(errno) {
        return system(doing, errno);
    }
    let remedy = match errno {
        Errno::MFILE | Errno::NFILE => "Allow more open files (ulimit -n)",
        _ => MORE_MEMORY,
    };
    SegmentError::Resources { doing, bytes, reason: errno.to_string(), remedy }
}

fn is_exhaustion(errno: Errno) -> bool {
    [Errno::NOSPC, Errno::NOMEM, Errno::FBIG, Errno::MFILE, Errno::NFILE, Errno::DQUOT].contains(&errno)
}

/// A file cannot be mapped.
pub(crate) fn no_address_space(doing: &'static str, bytes: u64, error: &std::io::Error) -> SegmentError {
    SegmentError::Resources {
        doing,
        bytes,
        reason: error.to_string(),
        remedy: "This is address space, not memory: lift the limit on it (ulimit -v unlimited)",
    }
}

pub(crate) fn system(doing: &'static str, reason: impl ToString) -> SegmentError {
    SegmentError::System { doing, reason: reason.to_string() }
}

const MORE_MEMORY: &str =
    "Start fewer processes on this node, or give the job (its container or cgroup) more memory";

/// The head, as `layout` draws it: the first 48 bytes.
const HEAD_BYTES: usize = 48;
const IDENTITY_AT: usize = 32;
const MAGIC: [u8; 8] = *b"weftshm\0";
/// To be raised with every change of what stands in a segment.
const VERSION: u32 = 11;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::PAGE;
    use crate::memory::Use;
    use rustix::fs::MemfdFlags;

    fn refusal(file: OwnedFd, process_slots: u32) -> String {
        match Segment::adopt(file, process_slots) {
            Ok(_) => panic!("a foreign file was adopted"),
            Err(error) => error.to_string(),
        }
    }

    fn bare(head: &[u8], bytes: u64) -> OwnedFd {
        let file = rustix::fs::memfd_create(c"test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::io::pwrite(&file, head, 0).unwrap();
        rustix::fs::ftruncate(&file, bytes).unwrap();
        file
    }

    #[test]
    fn what_was_made_is_adopted_and_has_one_identity() {
        let file = Segment::create(3).unwrap();
        let twin = Segment::adopt(file.try_clone().unwrap(), 3).unwrap();
        let segment = Segment::adopt(file, 3).unwrap();
        assert_eq!(segment.identity(), twin.identity());
        assert_ne!(segment.identity(), Segment::adopt(Segment::create(3).unwrap(), 3).unwrap().identity());
        segment.memory().word(1 << 13).store(5, Ordering::Relaxed);
        assert_eq!(twin.memory().word(1 << 13).load(Ordering::Relaxed), 5);
    }

    /// Minor faults of this thread so far.
    fn faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, behind_the_name) = stat.rsplit_once(") ").unwrap();
        behind_the_name.split(' ').nth(7).unwrap().parse().unwrap()
    }

    #[test]
    fn memory_that_is_brought_in_is_touched_without_faults() {
        for (wanted, most) in [(None, u64::MAX), (Some(Use::Write), 16)] {
            let segment = Segment::adopt(Segment::create(2).unwrap(), 2).unwrap();
            let shape = segment.layout().ring;
            let (at, bytes) =
                (segment.layout().ring_at(0, 1) + shape.data_at as usize, shape.data_bytes as usize);
            segment.reserve(at, bytes).unwrap();
            if let Some(wanted) = wanted {
                segment.memory().bring_in(at, bytes, wanted);
            }
            let before = faults();
            for page in (0..bytes).step_by(PAGE) {
                segment.memory().word(at + page).store(1, Ordering::Relaxed);
            }
            let after = faults() - before;
            assert!(after <= most && (wanted.is_some() || after >= 16), "{wanted:?}: {after} faults");
        }
    }

    #[test]
    fn foreign_files_are_refused_in_words() {
        assert!(refusal(bare(b"hello", 5), 2).contains("5 bytes of something else"));
        assert!(refusal(bare(&[], 0), 2).contains("0 bytes of something else"));
        let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
        assert!(refusal(socket.into(), 2).contains("not this job's shared memory"));
        assert!(
            refusal(Segment::create(2).unwrap(), 3)
                .contains(&format!("2 process slots by version {VERSION}"))
        );
    }

    #[test]
    fn a_segment_that_is_short_or_could_become_short_is_refused() {
        let layout = Layout::new(2).unwrap();
        let head = head_of(&layout, [1; 16]);
        assert!(refusal(bare(&head, 4096), 2).contains("4096 bytes instead of"));
        assert!(refusal(bare(&head, layout.segment_bytes()), 2).contains("cut short"));
    }

    #[test]
    fn a_segment_without_heaps_is_one_all_the_same() {
        let layout = Layout::new(2).unwrap().without_heaps();
        let file = rustix::fs::memfd_create(c"test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::io::pwrite(&file, &head_of(&layout, [1; 16]), 0).unwrap();
        rustix::fs::ftruncate(&file, layout.segment_bytes()).unwrap();
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        let segment = Segment::adopt(file, 2).unwrap();
        assert_eq!(segment.layout().heap_bytes, 0);
        assert_eq!(crate::heap::SharedHeap::new(segment, 1).take(1 << 20, 8), Ok(None));
    }

    #[test]
    fn a_made_segment_cannot_be_cut_short() {
        let file = Segment::create(2).unwrap();
        assert_eq!(rustix::fs::ftruncate(&file, 100), Err(Errno::PERM));
    }

    #[test]
    fn too_many_process_slots_are_an_error_that_says_how_many_there_can_be() {
        let error = Segment::create(PROCESS_SLOTS_MAX + 1).unwrap_err().to_string();
        assert!(error.contains("2048") && error.contains("2049"), "{error}");
        assert!(Segment::create(0).is_err());
    }

    #[test]
    fn a_full_memory_names_bytes_and_remedy() {
        let error = ring_refused(73_728, "process 5", Errno::NOSPC);
        assert_eq!(error.fault, Fault::Resources);
        assert!(error.what.contains("73728 bytes") && error.what.contains("process 5"), "{error}");
        assert!(error.what.lines().nth(1).is_some_and(|remedy| remedy.contains("more memory")), "{error}");
    }
}
