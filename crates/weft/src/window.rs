//! Windows: memory of each member of a group that the others may reach (MPI 5.0 chapter 12).
//!
//! A window has a context of its own, its members, and the memory of this process; decision 0016 says what it
//! keeps of the others. Windows of all four flavors are made here, with what hangs on them. Operations are
//! [begun](self::origin) by loads and stores where the members share their memory, else by messages to the
//! target's [server](self::server); [epochs](self::synchronization) complete them.

mod asking;
mod blocks;
mod epochs;
mod exposure;
mod origin;
mod places;
mod protocol;
mod server;
mod shared;
mod synchronization;
mod update;
mod words;

use std::alloc::Layout;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use datatype::Operator;
use fabric::UserMemory;
use job::error::{Class, Error, Result};
use job::lock::{Lock, Threads, lock};
use messaging::Rank;

use crate::attributes::Attributes;
use crate::communicator::Communicator;
use crate::group::Group;
use crate::memory::Allocation;
use crate::process::ProgressThread;
use asking::Outstanding;
use epochs::Epochs;
pub use epochs::LockKind;
use exposure::{Exposure, Memory};
pub use origin::{Begun, CompletedBy, Operands, TargetElements};
use places::Sharers;
#[cfg(feature = "fuzzing")]
pub use protocol::fuzz_window_request;
use server::{Server, Service};
pub use shared::{SharedPlacement, SharedWindow};
pub use synchronization::FencePromises;
pub use update::Change;

/// A window on memory of all members of a communicator.
///
/// Making one and [freeing](Window::free) it are collective. One that is dropped is gone at this process
/// alone.
///
/// ```
/// # weft::run_threads(2, &weft::Config::default(), |session| {
/// use weft::{Key, Window};
///
/// let window = Window::allocate(&session.world(), 1 << 16, 8)?;
/// window.rename("temperatures");
/// let steps: Key<u32> = Key::new();
/// window.set_attribute(&steps, 0);
/// assert_eq!((window.name().as_str(), window.group().size()), ("temperatures", 2));
/// window.free()
/// # })?.into_iter().collect::<weft::Result<Vec<()>>>()?;
/// # Ok::<(), weft::Error>(())
/// ```
pub struct Window {
    /// A duplicate of the communicator that it was made from.
    comm: Communicator,
    exposure: Arc<Exposure>,
    /// Extent of every member where that is the same.
    alike: Option<Extent>,
    /// Extents by rank, where they differ and the members do not share their memory.
    extents: Option<Box<[Extent]>>,
    name: Mutex<String>,
    attributes: Attributes,
    epochs: Lock<Epochs>,
    /// An epoch is open in which all members may be used.
    is_open_for_all: AtomicBool,
    /// What is under way by messages, by target.
    outstanding: Mutex<HashMap<Rank, Outstanding>>,
    /// Counts answers that this process waits for.
    answers: AtomicU32,
    /// Serves the members that reach this process's memory by messages; none where all load and store.
    service: Option<Arc<Service>>,
    /// Makes progress for them, while the program does something else.
    _progress: Option<Arc<ProgressThread>>,
}

/// How a window came to its memory (MPI 5.0 §12.2.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavor {
    /// The program gave it.
    Create,
    /// The library allocated it.
    Allocate,
    /// The program attaches and detaches memory while the window is there.
    Dynamic,
    /// The members share it.
    Shared,
}

/// How much memory a member has in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// Its bytes.
    pub bytes: usize,
    /// Bytes that a displacement counts in; not 0.
    pub unit: usize,
}

impl Window {
    /// A window on memory of the program's (MPI 5.0 §12.2.1), which claims it until the window is free.
    /// Collective.
    ///
    /// # Errors
    /// [`Class::Displacement`] where `unit` is 0; [`Class::Communicator`] for one of two groups; a lost
    /// member.
    pub fn create(comm: &Communicator, memory: UserMemory, unit: usize) -> Result<Window> {
        let extent = Extent { bytes: memory.bytes(), unit };
        let founding = Founding::begin(comm, extent)?;
        let memory = match founding.node()? {
            Some((node, sharers)) => (node.given(memory)?, sharers),
            None => (Memory::Given(Mutex::new(memory)), Sharers::All),
        };
        founding.conclude(extent, Ok(memory))
    }

    /// A window on memory that the library allocates (MPI 5.0 §12.2.2), where the other processes of the node
    /// can map it. Collective.
    ///
    /// # Errors
    /// [`Class::Displacement`] where `unit` is 0; [`Class::Communicator`] for one of two groups;
    /// [`Class::NoMemory`] at all members where one has too little; a lost member.
    pub fn allocate(comm: &Communicator, bytes: usize, unit: usize) -> Result<Window> {
        Window::allocate_aligned(comm, Extent { bytes, unit }, CACHE_LINE_BYTES)
    }

    /// A window on memory that the library allocates (MPI 5.0 §12.2.2), aligned to `alignment_bytes`, a power
    /// of two, where the other processes of the node can map it. Collective.
    ///
    /// # Errors
    /// [`Class::Size`] where no memory is so large and so aligned; [`Class::Displacement`] where the unit is
    /// 0; [`Class::Communicator`] for one of two groups; [`Class::NoMemory`] at all members where one has too
    /// little; a lost member.
    pub fn allocate_aligned(comm: &Communicator, extent: Extent, alignment_bytes: usize) -> Result<Window> {
        // No bytes have an address of their own all the same.
        let layout = Layout::from_size_align(extent.bytes.max(1), alignment_bytes)
            .map_err(|_| Error::new(Class::Size, format!("the size is {} bytes", extent.bytes)))?;
        let founding = Founding::begin(comm, extent)?;
        if let Some((node, sharers)) = founding.node()?
            && let Ok(memory) = node.share(extent, alignment_bytes.max(PAGE_BYTES), Flavor::Allocate)
        {
            return founding.conclude(extent, Ok((memory, sharers)));
        }
        // Where the processes of a node cannot share memory, each of them has memory of its own.
        let allocation = Allocation::new(layout, comm.process().shared_heap());
        founding.conclude(extent, allocation.map(|allocation| (Memory::Allocated(allocation), Sharers::All)))
    }

    /// A window without memory, which is attached later (MPI 5.0 §12.2.4). Displacements are addresses.
    /// Collective.
    ///
    /// # Errors
    /// [`Class::Communicator`] for one of two groups; a lost member.
    pub fn create_dynamic(comm: &Communicator) -> Result<Window> {
        let extent = Extent { bytes: 0, unit: 1 };
        let founding = Founding::begin(comm, extent)?;
        founding.conclude(extent, Ok((Memory::Attached(Mutex::default()), Sharers::All)))
    }

    /// How the window came to its memory.
    #[must_use]
    pub fn flavor(&self) -> Flavor {
        match &self.exposure.memory {
            Memory::Given(_) | Memory::Foreign { .. } => Flavor::Create,
            Memory::Allocated(_) => Flavor::Allocate,
            Memory::Attached(_) => Flavor::Dynamic,
            Memory::Shared { flavor, .. } => *flavor,
        }
    }

    /// This process's rank in it.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.comm.rank()
    }

    /// Its members (MPI 5.0 §12.2.6).
    #[must_use]
    pub fn group(&self) -> &Group {
        self.comm.group()
    }

    /// How much memory this process has in it.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.exposure.extent
    }

    /// How much a member has in it; none where memory is attached.
    fn extent_of(&self, rank: Rank) -> Option<Extent> {
        if matches!(self.exposure.memory, Memory::Attached(_)) {
            return None;
        }
        let listed = || self.extents.as_ref()?.get(rank.0 as usize).copied();
        self.alike.or_else(|| self.exposure.shared_extent(rank)).or_else(listed)
    }

    /// How much every member has in it, where that is the same.
    #[must_use]
    pub fn common_extent(&self) -> Option<Extent> {
        self.alike
    }

    /// Where the memory of this process begins; null where it is still to be attached.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.exposure.start()
    }

    /// Where this process can load and store what belongs to a member, and how much that is (MPI 5.0
    /// §12.2.3); `None` where it cannot. Without a rank: that of the first member that has any memory.
    ///
    /// # Errors
    /// [`Class::Rank`]; [`Class::RmaFlavor`] where memory is attached.
    pub fn load_and_store(&self, rank: Option<Rank>) -> Result<Option<(*mut u8, Extent)>> {
        if let Some(rank) = rank {
            self.check_rank(rank)?;
        }
        match &self.exposure.memory {
            Memory::Attached(_) => {
                Err(self.wrong_flavor("memory of a dynamic window is nobody's but its owner's"))
            }
            Memory::Shared { .. } => {
                Ok(rank.or_else(|| self.exposure.first()).and_then(|rank| self.exposure.mapped(rank)))
            }
            // The first member may be another one, whose memory is out of reach.
            Memory::Given(_) | Memory::Allocated(_) | Memory::Foreign { .. } => {
                let here = rank.unwrap_or(Rank(0)) == self.rank() && self.extent().bytes > 0;
                Ok(here.then(|| (self.base(), self.extent())))
            }
        }
    }

    /// Attaches memory to a dynamic window (MPI 5.0 §12.2.4).
    ///
    /// # Errors
    /// [`Class::RmaFlavor`] for another window; [`Class::RmaAttach`] where a part of it is attached already.
    pub fn attach(&self, memory: UserMemory) -> Result<()> {
        let mut attached = self.attached()?;
        let (start, end) = (memory.start().addr(), memory.start().addr().saturating_add(memory.bytes()));
        let before = attached.range(..=start).next_back();
        let covers = |(at, held): (&usize, &UserMemory)| *at == start || start < at + held.bytes();
        if before.is_some_and(covers) || attached.range(start..end).next().is_some() {
            let what =
                format!("{}: a part of {} bytes at {start:#x} is attached", self.place(), memory.bytes());
            return Err(Error::new(Class::RmaAttach, what).remedy("detach it first, or attach it once"));
        }
        attached.insert(start, memory);
        Ok(())
    }

    /// Detaches what was attached at that address (MPI 5.0 §12.2.4).
    ///
    /// # Errors
    /// [`Class::RmaFlavor`] for another window; [`Class::Base`] where nothing was attached there.
    pub fn detach(&self, start: *const u8) -> Result<()> {
        let former = self.attached()?.remove(&start.addr());
        let what = || format!("{}: nothing is attached at {start:p}", self.place());
        former.map(drop).ok_or_else(|| Error::new(Class::Base, what()))
    }

    fn attached(&self) -> Result<MutexGuard<'_, BTreeMap<usize, UserMemory>>> {
        match &self.exposure.memory {
            Memory::Attached(attached) => Ok(lock(attached)),
            _ => Err(self.wrong_flavor("memory is attached to dynamic windows only")),
        }
    }

    #[cold]
    fn wrong_flavor(&self, why: &str) -> Error {
        Error::new(Class::RmaFlavor, format!("{}: {why}", self.place()))
    }

    fn check_rank(&self, rank: Rank) -> Result<()> {
        if self.group().peer(rank).is_some() {
            return Ok(());
        }
        let what =
            format!("{}: rank {} does not exist, the size is {}", self.place(), rank.0, self.group().size());
        Err(Error::new(Class::Rank, what))
    }

    /// The communicator of its own that it has, which requests of its operations belong to.
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.comm
    }

    /// Whether an operation with that member is one with nobody, since its rank is blank.
    ///
    /// # Errors
    /// [`Class::ProcFailed`] where that is an error for messages ([`crate::BlankPartner::Error`]).
    pub fn is_with_nobody(&self, rank: Rank) -> Result<bool> {
        self.comm.is_with_nobody(rank)
    }

    /// The name that it was given (MPI 5.0 §7.8); empty where it was given none.
    #[must_use]
    pub fn name(&self) -> String {
        lock(&self.name).clone()
    }

    /// Gives the window another name (MPI 5.0 §7.8).
    pub fn rename(&self, name: &str) {
        name.clone_into(&mut lock(&self.name));
        self.comm.rename(name);
    }

    /// The label of this window and this rank, as messages to people begin.
    #[must_use]
    pub fn place(&self) -> String {
        self.comm.place()
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// With checks on, compares what the members have called, as [`Communicator::check`] does. Collective.
    ///
    /// # Errors
    /// [`Class::NotSame`] at all members, with what each of them called; a lost peer.
    pub fn check(&self, call: impl FnOnce() -> String) -> Result<()> {
        self.comm.latest().check(call)
    }

    /// Orders this process's loads and stores before it and after it (MPI 5.0 §12.5.4, `MPI_Win_sync`).
    pub fn sync(&self) {
        self.serve_others();
        full_fence();
    }

    /// Frees the window, when all members do (MPI 5.0 §12.2.5). Collective.
    ///
    /// # Errors
    /// [`Class::RmaSync`] where an epoch is open that no fence has begun.
    pub fn free(self) -> Result<()> {
        self.leave()
    }

    /// Frees a window that has other holders in this process, too, when all members do (MPI 5.0 §12.2.5):
    /// waits for all members, after which nobody reaches the others' memory any more; that of this process
    /// goes with the last holder. Nobody waits for members that have failed. Collective.
    ///
    /// # Errors
    /// [`Class::RmaSync`] where an epoch is open that no fence has begun.
    pub fn leave(&self) -> Result<()> {
        self.check_closed()?;
        // What an epoch was to complete that no fence has ended.
        let done = self.complete_there(&self.unheard());
        let left = self.comm.latest().part();
        if let Some(service) = &self.service {
            service.close();
            // Answers are sent from memory that goes with the window.
            self.comm
                .process()
                .until(|_| (service.has_ended() || !self.comm.process().is_busy_beside()).then_some(()));
        }
        left.and(
            done.or_else(|error| if self.comm.process().is_told_of_failures() { Ok(()) } else { Err(error) }),
        )
    }

    /// Whether the process of a member has ended.
    fn is_lost(&self, rank: Rank) -> bool {
        let peer = self.group().peer(rank);
        peer.is_some_and(|peer| self.comm.process().with_engine(|engine| engine.is_lost(peer)))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if let Some(service) = &self.service {
            service.close();
        }
    }
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Window({}, {:?}, {} bytes)", self.place(), self.flavor(), self.extent().bytes)
    }
}

/// A window that is being made.
struct Founding {
    comm: Communicator,
}

impl Founding {
    fn begin(comm: &Communicator, extent: Extent) -> Result<Founding> {
        if extent.unit == 0 {
            return Err(Error::new(Class::Displacement, "the displacement unit is 0 bytes"));
        }
        if comm.is_inter() {
            let what = format!("{}: a window is made from one group, and this has two", comm.place());
            return Err(Error::new(Class::Communicator, what).remedy("merge it with MPI_Intercomm_merge"));
        }
        Ok(Founding { comm: comm.duplicate_bare(WINDOW)? })
    }

    /// Tells all members whether this one has its memory, and what it has, and makes the window. One member
    /// that fails fails all.
    fn conclude(self, extent: Extent, memory: Result<(Memory, Sharers)>) -> Result<Window> {
        let alike = self.agree(extent, memory.as_ref().err())?;
        let (memory, sharers) = memory?;
        let Founding { comm } = self;
        let is_attached = matches!(memory, Memory::Attached(_));
        let is_mapped = matches!((&memory, &sharers), (Memory::Shared { .. }, Sharers::All));
        // Every member comes to the same: whether all share memory is known to all.
        let is_listed = alike.is_none() && !is_attached && !is_mapped;
        let extents = if is_listed { Some(extents(&comm, extent)?) } else { None };
        let exposure = Arc::new(Exposure::new(memory, sharers, comm.rank(), extent));
        let service = (!exposure.reaches_all() && comm.size() > 1).then(Arc::<Service>::default);
        if let Some(service) = &service {
            comm.process().entrust(Box::new(Server {
                service: service.clone(),
                exposure: exposure.clone(),
                comm: comm.clone(),
                origins: HashMap::new(),
                answers: Vec::new(),
            }));
        }
        let threads = if comm.process().is_shared() { Threads::Many } else { Threads::One };
        let progress = service.as_ref().and_then(|_| comm.process().progress_thread());
        Ok(Window {
            _progress: progress,
            comm,
            exposure,
            alike,
            extents,
            name: Mutex::default(),
            attributes: Attributes::default(),
            epochs: Lock::new(threads, Epochs::default()),
            is_open_for_all: AtomicBool::new(false),
            outstanding: Mutex::default(),
            answers: AtomicU32::new(0),
            service,
        })
    }

    /// The extent of all members, if they have the same.
    fn agree(&self, extent: Extent, trouble: Option<&Error>) -> Result<Option<Extent>> {
        let Extent { bytes, unit } = extent;
        let (bytes, unit) = (bytes as i64, unit as i64);
        let said = match trouble.map(|error| error.class) {
            None => 0,
            Some(Class::RmaShared) => NOT_SHARED,
            Some(_) => NO_MEMORY,
        };
        let all = self.comm.all_reduce(&[bytes, !bytes, unit, !unit, said], Operator::Max)?;
        match (trouble, all[4]) {
            (Some(trouble), _) => Err(trouble.clone()),
            (None, 0) => Ok((all[0] == !all[1] && all[2] == !all[3]).then_some(extent)),
            (None, said) => Err(self.trouble_elsewhere(said)),
        }
    }

    #[cold]
    fn trouble_elsewhere(&self, said: i64) -> Error {
        let (class, why) = match said {
            NOT_SHARED => (Class::RmaShared, "cannot share memory with the others"),
            _ => (Class::NoMemory, "has no memory for its part"),
        };
        let what = format!("{}: another member {why}", self.comm.place());
        Error::new(class, what).remedy("that member's message says more")
    }
}

/// What each member has.
fn extents(comm: &Communicator, own: Extent) -> Result<Box<[Extent]>> {
    let all = comm.all_gather_segments(&[own.bytes as u64, own.unit as u64])?;
    // Nobody is at a blank rank, who would have brought anything.
    let extent = |rank| match all.of(rank) {
        Some(two) => Extent { bytes: two[0] as usize, unit: two[1] as usize },
        None => Extent { bytes: 0, unit: 1 },
    };
    Ok((0..comm.size()).map(Rank).map(extent).collect())
}

/// Orders all loads and stores before it and after it.
///
/// On x86-64 any exchange with memory does so, and takes half as long as the instruction for it that a fence
/// is compiled to.
#[inline]
fn full_fence() {
    #[cfg(target_arch = "x86_64")]
    {
        let own = AtomicU32::new(0);
        std::hint::black_box(&own).swap(1, Ordering::SeqCst);
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// What a member says that has no memory, or cannot share it.
const NO_MEMORY: i64 = 1;
const NOT_SHARED: i64 = 2;
/// How windows are called in messages, before the name of their communicator.
const WINDOW: &str = "window of ";
/// Pages are no larger where this runs, or a multiple of it.
const PAGE_BYTES: usize = 4096;
/// The least alignment that is worth having.
const CACHE_LINE_BYTES: usize = 64;

#[cfg(test)]
mod operations_tests;
#[cfg(test)]
mod tests;
