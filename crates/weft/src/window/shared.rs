//! Windows whose memory the members share, for loads and stores (MPI 5.0 §12.2.3).

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Mutex;

use datatype::Operator;
use fabric::{Peer, UserMemory};
use job::error::{Class, Error, Result};
use job::fabrics::{Common, CommonOffer, MemoryCard, OfferedMemory, PeerMemory, fetch_common};
use messaging::Rank;

use super::exposure::{Memory, shared_bytes};
use super::places::{Places, Sharers};
use super::words::WORDS_BYTES;
use super::{Extent, Flavor, Founding, PAGE_BYTES, Window, extents};
use crate::communicator::Communicator;
use crate::group::Group;
use crate::memory::Shareable;

/// How the parts of shared memory stand to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SharedPlacement {
    /// Each begins where the one of the rank before ends.
    #[default]
    Contiguous,
    /// Each may begin on a page of its own; it does where all members say so.
    Apart,
}

impl Window {
    /// A window on memory that all members can load from and store to (MPI 5.0 §12.2.3). It is all zeros.
    /// Collective.
    ///
    /// # Errors
    /// [`Class::RmaShared`] where the members are not processes of one node; [`Class::NoMemory`] at all of
    /// them where there is not so much memory; otherwise as [`Window::create`].
    pub fn allocate_shared(
        comm: &Communicator,
        bytes: usize,
        unit: usize,
        placement: SharedPlacement,
    ) -> Result<Window> {
        let extent = Extent { bytes, unit };
        check_node(comm)?;
        let founding = Founding::begin(comm, extent)?;
        let mine = i64::from(placement == SharedPlacement::Apart);
        let apart = founding.comm.all_reduce(&[mine], Operator::Min)?[0] == 1;
        let alignment = if apart { PAGE_BYTES } else { 1 };
        let memory = founding.share(extent, alignment, Flavor::Shared)?;
        founding.conclude(extent, Ok((memory, Sharers::All)))
    }
}

/// Whether all members who live are processes of this node. The answer is the same at all of them: who is not
/// on this node sees others that are not on its own.
pub(super) fn check_node(comm: &Communicator) -> Result<()> {
    match far(&comm.live(), comm.process().node()) {
        Some(Peer(peer)) if !comm.is_inter() => {
            let what = format!("{}: process {peer} of the job is on another node", comm.place());
            Err(Error::new(Class::RmaShared, what).remedy(
                "make a communicator of each node first: MPI_Comm_split_type with MPI_COMM_TYPE_SHARED",
            ))
        }
        _ => Ok(()),
    }
}

/// The first member that is not on a node.
fn far(members: &Group, node: &Group) -> Option<Peer> {
    members.peers().find(|peer| !node.contains(*peer))
}

impl Founding {
    /// The members that can share memory with this one, as members of a window of their own, and their
    /// numbers: all, or those of this node; none where this process is the only one of its node, or where
    /// ranks are blank.
    pub(super) fn node(&self) -> Result<Option<(Founding, Sharers)>> {
        let comm = &self.comm;
        if check_node(comm).is_ok() {
            return Ok(Some((Founding { comm: comm.clone() }, Sharers::All)));
        }
        let group = comm.group().intersection(comm.process().node());
        if comm.has_blanks() || group.size() < 2 {
            return Ok(None);
        }
        let ranks = (0..group.size()).filter_map(|rank| group.translate(Rank(rank), comm.group())).collect();
        let node = comm.create_group(&group, NODE)?;
        Ok(node.map(|comm| (Founding { comm }, Sharers::Node(ranks))))
    }

    /// Memory of all members, in which each part begins at a multiple of `alignment`, a power of two.
    pub(super) fn share(&self, extent: Extent, alignment: usize, flavor: Flavor) -> Result<Memory> {
        let alike = self.agree(extent, None)?;
        let places = match alike.filter(|_| !self.comm.has_blanks()) {
            Some(extent) => Places::even(self.comm.size(), extent, alignment),
            None => Places::listed(extents(&self.comm, extent)?.iter().copied(), alignment),
        };
        let sized = places.and_then(|places| Some((shared_bytes(&places, self.comm.size())?, places)));
        let what = || format!("{}: all parts together are more than can be addressed", self.comm.place());
        let (bytes, places) = sized.ok_or_else(|| Error::new(Class::NoMemory, what()))?;
        Ok(Memory::Shared { common: self.common(bytes)?, places, flavor })
    }

    /// Memory of the program's, which all members reach by calls of the kernel where each of them can, with
    /// words that they share. The answer is of one kind at all members.
    pub(super) fn given(&self, memory: UserMemory) -> Result<Memory> {
        let comm = &self.comm;
        if comm.size() == 1 || comm.has_blanks() {
            return Ok(Memory::Given(Mutex::new(memory)));
        }
        let offered = OfferedMemory::new(memory.start());
        let cards = comm.all_gather_segments(&offered.card())?;
        let card = |rank| cards.of(Rank(rank)).and_then(|card| MemoryCard::try_from(card).ok());
        let members: Option<Vec<(PeerMemory, bool)>> =
            (0..comm.size()).map(|rank| card(rank).map(PeerMemory::of)).collect();
        let is_open = comm.process().reads_peers()
            && members.as_ref().is_some_and(|members| members.iter().all(|(_, is_open)| *is_open));
        let are_all = comm.all_reduce(&[i64::from(is_open)], Operator::Min)?[0] == 1;
        drop(offered);
        let own = Mutex::new(memory);
        let Some(members) = members.filter(|_| are_all) else { return Ok(Memory::Given(own)) };
        match self.common(WORDS_BYTES * comm.size() as usize) {
            Ok(words) => {
                let members = members.into_iter().map(|(member, _)| member).collect();
                Ok(Memory::Foreign { own, words, members })
            }
            Err(_) => Ok(Memory::Given(own)),
        }
    }

    /// Memory of all members: the first of those who live makes it, the others fetch it from there.
    fn common(&self, bytes: usize) -> Result<Common> {
        let others = self.comm.live().size() as usize - 1;
        let mapped = if self.comm.rank() == self.first() {
            let offer = CommonOffer::open(bytes);
            let card = offer.as_ref().map_or_else(|_| Vec::new(), |(_, card)| card.clone());
            self.tell_card(&card)?;
            offer.and_then(|(offer, _)| offer.serve(others))
        } else {
            match self.tell_card(&[])? {
                card if card.is_empty() => Err(self.trouble_at_first()),
                card => fetch_common(&card, bytes),
            }
        };
        let mapped = mapped.map_err(|error| error.during(self.comm.place()));
        // MPI 5.0 §12.2.3: nobody has the window where one of them cannot.
        self.agree(Extent::default(), mapped.as_ref().err())?;
        mapped
    }

    /// The lowest rank that is not blank.
    fn first(&self) -> Rank {
        let first = (0..self.comm.size()).map(Rank).find(|rank| !self.comm.is_blank(*rank));
        first.unwrap_or(self.comm.rank())
    }

    /// The card of the first at all members; empty where it has none.
    fn tell_card(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let mut told = [0u8; CARD_ROOM_BYTES];
        let fits = mine.len() < CARD_ROOM_BYTES;
        if fits {
            told[0] = mine.len() as u8;
            told[1..=mine.len()].copy_from_slice(mine);
        }
        self.comm.broadcast(&mut told, self.first())?;
        // Whoever serves does not look after messages meanwhile.
        self.comm.process().flush();
        Ok(told[1..].iter().copied().take(usize::from(told[0])).collect())
    }

    #[cold]
    fn trouble_at_first(&self) -> Error {
        let (place, Rank(first)) = (self.comm.place(), self.first());
        let what = format!("{place}: rank {first} cannot make memory to share");
        Error::new(Class::NoMemory, what).remedy(format!("the message of rank {first} says more"))
    }
}

/// A window of values that all members load and store.
///
/// Others, in other processes, may do so at any time, so the values are atomic: what a plain slice would
/// promise, nobody can keep. All members name the same type.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use weft::{Rank, SharedWindow};
///
/// # weft::run_threads(3, &weft::Config::default(), |session| {
/// let world = session.world();
/// let seats: SharedWindow<AtomicU64> = SharedWindow::allocate(&world, 4)?;
/// seats.mine()[0].store(u64::from(world.rank().0) + 1, Ordering::Relaxed);
/// seats.fence()?;
/// let left = Rank((world.rank().0 + 2) % 3);
/// assert_eq!(seats.part(left)?[0].load(Ordering::Relaxed), u64::from(left.0) + 1);
/// seats.free()
/// # })?.into_iter().collect::<weft::Result<Vec<()>>>()?;
/// # Ok::<(), weft::Error>(())
/// ```
pub struct SharedWindow<T> {
    window: Window,
    values: PhantomData<fn() -> T>,
}

impl<T: Shareable> SharedWindow<T> {
    /// A window with `count` values of this process, all of them zero; the parts of the ranks follow each
    /// other (MPI 5.0 §12.2.3). Collective.
    ///
    /// # Errors
    /// [`Class::RmaShared`] where the members are not processes of one node; [`Class::NoMemory`] at all of
    /// them where there is not so much memory; [`Class::Size`] where no memory is so large; [`Class::Type`]
    /// where the members name types of different sizes; [`Class::Communicator`] for one of two groups; a lost
    /// member.
    pub fn allocate(comm: &Communicator, count: usize) -> Result<SharedWindow<T>> {
        let unit = size_of::<T>();
        let bytes = count.checked_mul(unit).filter(|&bytes| isize::try_from(bytes).is_ok());
        let bytes = bytes
            .ok_or_else(|| Error::new(Class::Size, format!("{count} values of {unit} bytes are too many")))?;
        let window = Window::allocate_shared(comm, bytes, unit, SharedPlacement::Contiguous)?;
        let shared = SharedWindow { window, values: PhantomData };
        shared.check_type()?;
        Ok(shared)
    }

    /// Atomic accesses of different widths to the same bytes are not defined.
    fn check_type(&self) -> Result<()> {
        let unit = size_of::<T>();
        let other = (0..self.group().size())
            .map(Rank)
            .filter(|&rank| !self.comm.is_blank(rank))
            .find(|&rank| self.exposure.shared_extent(rank).is_some_and(|extent| extent.unit != unit));
        let what = |rank: Rank| format!("{}: rank {} shares values of another size", self.place(), rank.0);
        other.map_or(Ok(()), |rank| Err(Error::new(Class::Type, what(rank))))
    }

    /// The values of this process.
    #[must_use]
    pub fn mine(&self) -> &[T] {
        self.exposure.values(self.rank()).unwrap_or_default()
    }

    /// The values of a member.
    ///
    /// # Errors
    /// [`Class::Rank`].
    pub fn part(&self, rank: Rank) -> Result<&[T]> {
        self.check_rank(rank)?;
        Ok(self.exposure.values(rank).unwrap_or_default())
    }

    /// Frees the window, when all members do (MPI 5.0 §12.2.5). Collective.
    ///
    /// # Errors
    /// [`Class::RmaSync`] between [`Window::lock_all`] and [`Window::unlock_all`].
    pub fn free(self) -> Result<()> {
        self.window.free()
    }
}

impl<T> Deref for SharedWindow<T> {
    type Target = Window;

    fn deref(&self) -> &Window {
        &self.window
    }
}

/// The tag by which the members of a node find each other.
const NODE: i32 = 0;
/// A byte for the length and a card.
const CARD_ROOM_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_on_another_node_is_found() {
        let world = Group::world(1_000_000);
        let (first, second) = (Group::of((0..48).map(Peer)), Group::of((48..96).map(Peer)));
        assert_eq!(far(&first, &first), None);
        assert_eq!(far(&Group::of([Peer(7), Peer(3)]), &first), None);
        assert_eq!(far(&world, &first), Some(Peer(48)));
        assert_eq!(far(&world, &second), Some(Peer(0)));
        assert_eq!(far(&Group::of([Peer(50), Peer(3), Peer(60)]), &second), Some(Peer(3)));
        assert_eq!(far(&Group::empty(), &first), None);
    }
}
