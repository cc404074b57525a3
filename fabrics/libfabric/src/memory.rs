//! The only file of this crate that hands memory to a provider by its address.
//!
//! [`Memory`] is an endpoint with all the memory that its operations work on: slots that small messages are
//! sent from, buffers that messages come into, memory of the engine that large transfers go to and from, and
//! memory that peers may use. It keeps each of them until the provider has done with it. Beside the endpoint
//! there may be others, the rails, which do nothing but help with large transfers.

use fabric::{Attached, Heap, Payload, UserMemory};
use libfabric_sys::{
    Address, Answer, Atomic, AtomicKind, Completed, Endpoint, LibfabricError, Local, Operation, Region,
    Remote, Span, Takes, Until, Use,
};

use crate::transfers::About;

/// An endpoint, and what its operations work on.
pub(crate) struct Memory {
    endpoint: Endpoint,
    rails: Vec<Endpoint>,
    slots: Registered,
    buffers: Registered,
    transfers: Vec<Option<Transfer>>,
    free_transfers: Vec<TransferId>,
    attached: Vec<Option<(Region, UserMemory)>>,
    slot_bytes: usize,
    buffer_bytes: usize,
}

/// Memory of our own, with its registration where the provider wants one.
struct Registered {
    heap: Heap,
    /// All of it, to be written.
    room: UserMemory,
    region: Option<Region>,
}

/// Memory of the engine that goes to or comes from that of a peer, and what the rest of the crate notes of
/// it.
pub(crate) struct Transfer {
    near: Near,
    regions: Regions,
    /// Operations under way.
    operations: u32,
    pub(crate) about: About,
}

/// A part of a transfer that moves in one operation.
#[derive(Clone, Copy)]
pub(crate) struct Move {
    /// Which rail moves it; 0 is the endpoint itself.
    pub(crate) rail: usize,
    /// Where it begins in the memory of the transfer.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    /// The peer's address at that rail.
    pub(crate) peer: Address,
    /// Where the part begins in the memory of the peer.
    pub(crate) remote: Remote,
}

/// The near end of a transfer.
enum Near {
    /// Room that is read into.
    Room(UserMemory),
    /// What is written to the peer.
    Source(UserMemory),
}

impl Near {
    fn memory(&self) -> Span {
        match self {
            Near::Room(memory) | Near::Source(memory) => Span::new(memory.start(), memory.bytes()),
        }
    }
}

/// The number of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TransferId(u32);

impl TransferId {
    /// That of none.
    pub(crate) const NONE: TransferId = TransferId(u32::MAX);
}

/// A registration at the endpoint and at each rail that has one.
type Regions = [Option<Region>; RAILS_MAX];

/// A payload that a peer may read.
pub(crate) struct Shown {
    regions: Regions,
    bytes: usize,
    pub(crate) remote: Remote,
    /// The key at each rail, that of the endpoint first; as many as there are.
    pub(crate) keys: Keys,
}

impl Shown {
    /// Whether all that can be read of another one can be read of this one, by the same keys.
    pub(crate) fn covers(&self, other: &Shown) -> bool {
        let mut keys = self.keys.0.iter().zip(other.keys.0);
        self.remote == other.remote
            && self.bytes >= other.bytes
            && keys.all(|(key, other)| other.is_none() || *key == other)
    }
}

/// A key for each rail that there is one for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Keys(pub(crate) [Option<u64>; RAILS_MAX]);

/// A short operation on memory of a peer, whose data go through a slot.
#[derive(Clone, Copy)]
pub(crate) enum Deed<'a> {
    Put(Payload<'a>),
    Get(usize),
    Atomic(AtomicKind, Atomic, [Payload<'a>; 2]),
}

/// The endpoint, and as many more as may help it.
pub(crate) const RAILS_MAX: usize = 4;
/// Receive buffers: enough that one is there while the others are used up and given back.
pub(crate) const BUFFERS: usize = 4;
/// With those that take the place of buffers which errors have made useless.
pub(crate) const BUFFERS_MAX: usize = 8;
/// No receive buffer is longer.
pub(crate) const BUFFER_BYTES_MAX: usize = 256 << 10;
/// A slot holds what is taken from here, what is compared with, and what comes back.
const PARTS: usize = 3;
/// Each begins at a multiple of this.
const PART_ALIGNMENT: usize = 64;

impl Memory {
    /// Allocates `slots` slots of `slot_bytes` bytes, and receive buffers of `buffer_bytes` bytes, and
    /// registers both where the provider asks for that.
    pub(crate) fn new(
        endpoint: Endpoint,
        rails: Vec<Endpoint>,
        slots: usize,
        slot_bytes: usize,
        buffer_bytes: usize,
    ) -> Result<Memory, LibfabricError> {
        assert!(rails.len() < RAILS_MAX, "{} rails beside the endpoint", rails.len());
        let own = |bytes| {
            let heap = Heap::new(bytes);
            Registered { room: heap.memory(), heap, region: None }
        };
        let (slots, buffers) = (own(slots * slot_bytes), own(BUFFERS_MAX * buffer_bytes));
        let (transfers, free_transfers, attached) = Default::default();
        let mut memory = Memory {
            endpoint,
            rails,
            slots,
            buffers,
            transfers,
            free_transfers,
            attached,
            slot_bytes,
            buffer_bytes,
        };
        if memory.endpoint.terms().memory.local {
            memory.slots.register(&mut memory.endpoint)?;
            memory.buffers.register(&mut memory.endpoint)?;
        }
        Ok(memory)
    }

    /// The endpoint, for whatever needs no memory.
    pub(crate) fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// One of the rails, to look at; 0 is the endpoint itself.
    pub(crate) fn endpoint_ref(&self) -> &Endpoint {
        &self.endpoint
    }

    /// How many endpoints there are.
    pub(crate) fn rails(&self) -> usize {
        1 + self.rails.len()
    }

    /// One of the endpoints; the first is that for everything.
    pub(crate) fn rail(&mut self, rail: usize) -> &mut Endpoint {
        match rail.checked_sub(1) {
            None => &mut self.endpoint,
            Some(place) => &mut self.rails[place],
        }
    }

    /// One of the rails, to look at; 0 is the endpoint itself.
    pub(crate) fn rail_ref(&self, rail: usize) -> &Endpoint {
        rail.checked_sub(1).map_or(&self.endpoint, |place| &self.rails[place])
    }

    /// Sends head and payload out of a slot that is not in use. `operation` is the slot's.
    #[inline]
    pub(crate) fn send_slot(
        &mut self,
        operation: Operation,
        slot: usize,
        head: &[u8],
        payload: Payload<'_>,
        to: Address,
    ) -> Answer {
        let bytes = head.len() + payload.bytes();
        assert!(bytes <= self.slot_bytes, "{bytes} bytes do not fit into a slot");
        let (room, start) = (&mut self.slots.room, slot * self.slot_bytes);
        room.write_at(start, Payload::from(head));
        let written = room.write_at(start + head.len(), payload);
        assert!(written == payload.bytes() && start + bytes <= room.bytes(), "slot {slot} is not there");
        let memory = Span::new(room.start().wrapping_add(start), bytes);
        // SAFETY: the slot lies in its heap, as the writes into it have shown, and the heap lives until the
        // endpoint is closed. Whoever calls keeps the slot, and with it its operation, aside until it has
        // completed.
        unsafe { self.endpoint.send(operation, memory, self.slots.region.as_ref(), to) }
    }

    /// The longest data of a short operation.
    pub(crate) fn short_bytes_max(&self) -> usize {
        self.slot_bytes / PARTS / PART_ALIGNMENT * PART_ALIGNMENT
    }

    /// Begins a short operation through a slot that is not in use. `operation` is the slot's.
    pub(crate) fn short(
        &mut self,
        operation: Operation,
        slot: usize,
        deed: Deed<'_>,
        to: Address,
        remote: Remote,
    ) -> Answer {
        let (taken, bytes) = match deed {
            Deed::Put(data) => ([data, Payload::EMPTY], 0),
            Deed::Get(bytes) => ([Payload::EMPTY; 2], bytes),
            Deed::Atomic(_, atomic, taken) => (taken, atomic.count * atomic.scalar.bytes()),
        };
        let mut parts = [0, 1, 2].map(|part| self.part(slot, part));
        for (part, data) in parts.iter_mut().zip(taken) {
            assert_eq!(part.write_at(0, data), data.bytes(), "more data than a slot takes");
        }
        assert!(bytes <= self.short_bytes_max(), "more data than a slot takes");
        let region = self.slots.region.as_ref();
        let [source, compare, result] = parts.each_ref().map(|part| Local { start: part.start(), region });
        let endpoint = &mut self.endpoint;
        // SAFETY: the parts lie in the slot, which is kept aside until the operation has completed, in a heap
        // that lives until the endpoint is closed; what is read, written or changed is no longer than a part,
        // as was looked at.
        unsafe {
            match deed {
                Deed::Put(data) => {
                    let memory = Span::new(source.start, data.bytes());
                    endpoint.write(operation, memory, region, to, remote, Until::Delivered)
                }
                Deed::Get(bytes) => {
                    endpoint.read(operation, Span::new(result.start, bytes), region, to, remote)
                }
                Deed::Atomic(AtomicKind::Update, atomic, _) => {
                    endpoint.atomic(operation, source, atomic, to, remote, Until::Delivered)
                }
                Deed::Atomic(AtomicKind::Fetch, atomic, _) => {
                    endpoint.fetch_atomic(operation, source, result, atomic, to, remote)
                }
                Deed::Atomic(AtomicKind::Compare, atomic, _) => {
                    endpoint.compare_atomic(operation, [source, compare], result, atomic, to, remote)
                }
            }
        }
    }

    /// Brings to where it goes what a short operation through that slot has fetched.
    pub(crate) fn fetched(&self, slot: usize, into: &mut UserMemory) {
        let mut part = self.part(slot, 2);
        let bytes = into.bytes();
        into.write_at(0, part.part(0, bytes).payload());
    }

    /// One of the parts of a slot.
    fn part(&self, slot: usize, part: usize) -> UserMemory {
        let bytes = self.short_bytes_max();
        let room = self.slots.heap.memory().part(slot * self.slot_bytes + part * bytes, bytes);
        assert_eq!(room.bytes(), bytes, "slot {slot} is not there");
        room
    }

    /// Hands a receive buffer to the provider. `operation` is the buffer's.
    pub(crate) fn post_buffer(&mut self, operation: Operation, buffer: usize, takes: Takes) -> Answer {
        let mut room = self.buffers.heap.memory();
        let part = room.part(buffer * self.buffer_bytes, self.buffer_bytes);
        // SAFETY: the part lies in the heap, which lives until the endpoint is closed; only parts that the
        // provider has told of are read, and the buffer is posted again only after it has been released.
        unsafe {
            let memory = Span::new(part.start(), part.bytes());
            self.endpoint.receive(operation, memory, self.buffers.region.as_ref(), takes)
        }
    }

    /// Where a receive buffer begins.
    pub(crate) fn start_of(&self, buffer: usize) -> usize {
        self.buffers.heap.payload().part(buffer * self.buffer_bytes, self.buffer_bytes).start().addr()
    }

    /// The message that a completion tells of, if it lies in that buffer.
    #[inline]
    pub(crate) fn message(&self, buffer: usize, completed: &Completed) -> Option<Payload<'_>> {
        let bytes = self.buffer_bytes;
        let all = self.buffers.heap.payload().part(buffer * bytes, bytes);
        let offset = completed.start.checked_sub(all.start().addr())?;
        let fits = offset <= bytes && completed.bytes <= bytes - offset;
        fits.then(|| all.part(offset, completed.bytes))
    }
}

/// Memory that peers use.
impl Memory {
    /// Lets peers read a payload that is being sent, until [`Memory::hide`]; over the rails, too, if it is to
    /// be.
    pub(crate) fn show(&mut self, payload: Payload<'_>, over_rails: bool) -> Result<Shown, LibfabricError> {
        let memory = Span::new(payload.start(), payload.bytes());
        let rails = if over_rails { self.rails() } else { 1 };
        let regions = self.register(memory, Use::Remote, rails)?;
        let remotes = std::array::from_fn::<_, RAILS_MAX, _>(|rail| {
            let region = regions[rail].as_ref()?;
            Some(self.rail_ref(rail).remote(region, payload.start()))
        });
        let remote = remotes[0].expect("the endpoint has registered it");
        // Rails are of one provider, so that memory has the same address for all of them.
        let keys =
            remotes.map(|other| other.filter(|other| other.address == remote.address).map(|other| other.key));
        Ok(Shown { regions, bytes: memory.bytes, remote, keys: Keys(keys) })
    }

    /// Ends what [`Memory::show`] began.
    pub(crate) fn hide(&mut self, shown: Shown) {
        self.deregister(shown.regions);
    }

    /// Lets peers use memory, until [`Memory::detach`].
    pub(crate) fn attach(
        &mut self,
        mut memory: UserMemory,
        purpose: Use,
    ) -> Result<(Attached, Remote), LibfabricError> {
        let bytes = memory.bytes();
        let start = memory.part(0, bytes).start().cast_const();
        // SAFETY: the contract of `OneSided::detach` keeps the memory until peers have done with it, and it
        // is kept here until then; who drops the fabric earlier closes the endpoint first.
        let region = unsafe { self.endpoint.register(Span::new(start, bytes), purpose) }?;
        let remote = self.endpoint.remote(&region, start);
        let free = self.attached.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.attached.push(None);
            self.attached.len() - 1
        });
        self.attached[place] = Some((region, memory));
        Ok((Attached(place as u32), remote))
    }

    /// Ends what [`Memory::attach`] began.
    pub(crate) fn detach(&mut self, attached: Attached) {
        let place = self.attached.get_mut(attached.0 as usize);
        let Some((region, memory)) = place.and_then(Option::take) else { return };
        if !self.endpoint.deregister(region) {
            // The provider goes on to let it be used; better to lose some memory than to have another's
            // changed.
            std::mem::forget(memory);
        }
    }

    /// Whether there is memory that peers use at any time.
    pub(crate) fn is_anything_attached(&self) -> bool {
        self.attached.iter().any(Option::is_some)
    }

    /// Registers memory at the endpoint and at the rails that follow it, so many in all. A rail that refuses
    /// does not help.
    fn register(&mut self, memory: Span, purpose: Use, rails: usize) -> Result<Regions, LibfabricError> {
        let mut regions = Regions::default();
        for (rail, region) in regions.iter_mut().enumerate().take(rails) {
            // SAFETY: whoever calls keeps the memory until he has given the regions back, or its endpoint is
            // closed.
            match unsafe { self.rail(rail).register(memory, purpose) } {
                Ok(registered) => *region = Some(registered),
                Err(error) if rail == 0 => return Err(error),
                Err(_) => {}
            }
        }
        Ok(regions)
    }

    /// Gives registrations back. One that the provider keeps does no harm here: nothing is written by it, and
    /// who reads by it has been told that the message is over.
    fn deregister(&mut self, regions: Regions) {
        for (rail, region) in regions.into_iter().enumerate() {
            if let Some(region) = region {
                self.rail(rail).deregister(region);
            }
        }
    }
}

/// Large transfers.
impl Memory {
    /// Takes room that a peer's memory will be read into; over the rails, too, if it is to be.
    pub(crate) fn land(&mut self, room: UserMemory, about: About) -> Result<TransferId, LibfabricError> {
        self.begin(Near::Room(room), about)
    }

    /// Takes what will be written to a peer's memory.
    pub(crate) fn launch(&mut self, source: UserMemory, about: About) -> Result<TransferId, LibfabricError> {
        self.begin(Near::Source(source), about)
    }

    fn begin(&mut self, near: Near, about: About) -> Result<TransferId, LibfabricError> {
        let regions = if self.endpoint.terms().memory.local {
            // The memory is kept until the transfer is over, which ends the registrations.
            self.register(near.memory(), Use::Local, about.way.rails())?
        } else {
            Regions::default()
        };
        let id = self.free_transfers.pop().unwrap_or_else(|| {
            self.transfers.push(None);
            TransferId(self.transfers.len() as u32 - 1)
        });
        self.transfers[id.0 as usize] = Some(Transfer { near, regions, operations: 0, about });
        Ok(id)
    }

    /// What is noted of a transfer that is not over.
    pub(crate) fn about(&mut self, id: TransferId) -> Option<&mut About> {
        self.transfers.get_mut(id.0 as usize)?.as_mut().map(|transfer| &mut transfer.about)
    }

    /// All transfers that are not over.
    pub(crate) fn transfers(&self) -> impl Iterator<Item = (TransferId, &About)> {
        let all = (0..).zip(&self.transfers);
        all.filter_map(|(place, transfer)| Some((TransferId(place), &transfer.as_ref()?.about)))
    }

    /// Whether there are any.
    pub(crate) fn is_transferring(&self) -> bool {
        self.free_transfers.len() < self.transfers.len()
    }

    /// Begins to move bytes of a transfer. `operation` of the rail of `moved` is not under way. The answer is
    /// `Again` where that rail could not register the memory.
    pub(crate) fn transfer(&mut self, operation: Operation, id: TransferId, moved: Move) -> Answer {
        let Move { rail, offset, bytes, peer, remote } = moved;
        let transfer = self.transfers[id.0 as usize].as_mut().expect("a transfer that is not over");
        let Span { start, bytes: all } = transfer.near.memory();
        assert!(offset <= all && bytes <= all - offset, "more is moved than there is");
        let (memory, region) =
            (Span::new(start.wrapping_add(offset), bytes), transfer.regions[rail].as_ref());
        let endpoint = match rail.checked_sub(1) {
            None => &mut self.endpoint,
            Some(place) => &mut self.rails[place],
        };
        // SAFETY: the part lies in the memory of the transfer, as was just looked at, which is kept until no
        // operation is under way any more. The caller counts operations.
        let answer = unsafe {
            match transfer.near {
                Near::Room(_) => endpoint.read(operation, memory, region, peer, remote),
                Near::Source(_) => endpoint.write(operation, memory, region, peer, remote, Until::Delivered),
            }
        };
        transfer.operations += u32::from(answer == Answer::Taken);
        answer
    }

    /// Whether that rail can move a transfer's memory.
    pub(crate) fn can_move(&self, id: TransferId, rail: usize) -> bool {
        let is_registered = |transfer: &Transfer| transfer.regions[rail].is_some();
        let transfer = self.transfers.get(id.0 as usize).and_then(Option::as_ref);
        !self.endpoint.terms().memory.local || transfer.is_some_and(is_registered)
    }

    /// An operation of a transfer has ended, well or not.
    pub(crate) fn operation_ended(&mut self, id: TransferId) {
        if let Some(Some(transfer)) = self.transfers.get_mut(id.0 as usize) {
            transfer.operations = transfer.operations.saturating_sub(1);
        }
    }

    /// Ends a transfer; `None` while operations are under way.
    pub(crate) fn end(&mut self, id: TransferId) -> Option<About> {
        let place = self.transfers.get_mut(id.0 as usize)?;
        let Transfer { regions, about, .. } = place.take_if(|transfer| transfer.operations == 0)?;
        self.free_transfers.push(id);
        self.deregister(regions);
        Some(about)
    }
}

impl Memory {
    /// Closes the endpoints, after which nobody touches the memory any more.
    pub(crate) fn close(&mut self) {
        let are_rails_closed = self.rails.iter_mut().fold(true, |all, rail| rail.close() & all);
        if !self.endpoint.close() || !are_rails_closed {
            // The provider may still write; better to lose some memory than to have it written when it is
            // another's.
            std::mem::forget((self.slots.heap.clone(), self.buffers.heap.clone()));
            std::mem::forget((std::mem::take(&mut self.transfers), std::mem::take(&mut self.attached)));
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.close();
    }
}

impl Registered {
    fn register(&mut self, endpoint: &mut Endpoint) -> Result<(), LibfabricError> {
        let memory = Span::new(self.room.start(), self.room.bytes());
        // SAFETY: this is part of a `Memory`, which closes its endpoint before it gives up its heaps.
        self.region = Some(unsafe { endpoint.register(memory, Use::Local) }?);
        Ok(())
    }
}
