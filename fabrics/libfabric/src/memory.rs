//! The only file of this crate that hands memory to a provider by its address.
//!
//! [`Memory`] is an endpoint with all the memory that its operations work on: slots that small messages are sent from,
//! buffers that messages come into, and rooms of the engine that large ones are read into. It keeps each of them until the
//! provider has done with it.

use fabric::{Heap, Payload, UserMemory};
use libfabric_sys::{Address, Answer, Completed, Endpoint, LibfabricError, Operation, Region, Remote, Use};

/// An endpoint, and what its operations work on.
pub(crate) struct Memory {
    endpoint: Endpoint,
    slots: Registered,
    buffers: Registered,
    /// What is being read; the places of those that are over stay for others.
    landings: Vec<Option<Landing>>,
    slot_bytes: usize,
}

/// Memory of our own, with its registration where the provider wants one.
struct Registered {
    heap: Heap,
    region: Option<Region>,
}

/// Room of the engine that the provider reads into.
struct Landing {
    room: UserMemory,
    region: Option<Region>,
    /// Reads under way.
    reads: u32,
}

/// The number of a room that is being read into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LandingId(u32);

impl LandingId {
    /// That of no room.
    pub(crate) const NONE: LandingId = LandingId(u32::MAX);
}

/// A payload that a peer may read.
pub(crate) struct Shown {
    region: Region,
    pub(crate) remote: Remote,
}

/// Receive buffers: enough that one is there while the others are used up and given back.
pub(crate) const BUFFERS: usize = 4;
/// With those that take the place of buffers which errors have made useless.
pub(crate) const BUFFERS_MAX: usize = 8;
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

impl Memory {
    /// Room for so many slots of so many bytes.
    pub(crate) fn new(endpoint: Endpoint, slots: usize, slot_bytes: usize) -> Result<Memory, LibfabricError> {
        let own = |bytes| Registered { heap: Heap::new(bytes), region: None };
        let (slots, buffers) = (own(slots * slot_bytes), own(BUFFERS_MAX * BUFFER_BYTES));
        let mut memory = Memory { endpoint, slots, buffers, landings: Vec::new(), slot_bytes };
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

    /// The same, to look at.
    pub(crate) fn endpoint_ref(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends head and payload out of a slot that is not in use. `operation` is the slot's.
    #[inline]
    pub(crate) fn send_slot(
        &mut self,
        operation: Operation,
        slot: usize,
        (head, payload): (&[u8], Payload<'_>),
        to: Address,
    ) -> Answer {
        let bytes = head.len() + payload.bytes();
        assert!(bytes <= self.slot_bytes, "{bytes} bytes do not fit into a slot");
        let mut room = self.slots.heap.memory();
        let start = slot * self.slot_bytes;
        room.write_at(start, Payload::from(head));
        let written = room.write_at(start + head.len(), payload);
        assert_eq!(written, payload.bytes(), "slot {slot} is not there");
        let memory = (room.part(start, bytes).start().cast_const(), bytes);
        // SAFETY: the slot lies in its heap, as the writes into it have shown, and the heap lives until the endpoint is
        // closed. Whoever calls keeps the slot, and with it its operation, aside until it has completed.
        unsafe { self.endpoint.send(operation, memory, self.slots.region.as_ref(), to) }
    }

    /// Hands a receive buffer to the provider. `operation` is the buffer's.
    pub(crate) fn post_buffer(&mut self, operation: Operation, buffer: usize) -> Answer {
        let mut room = self.buffers.heap.memory();
        let part = room.part(buffer * BUFFER_BYTES, BUFFER_BYTES);
        // SAFETY: the part lies in the heap, which lives until the endpoint is closed; only parts that the provider has told
        // of are read, and the buffer is posted again only after it has been released.
        unsafe {
            self.endpoint.receive(operation, (part.start(), part.bytes()), self.buffers.region.as_ref())
        }
    }

    /// The message that a completion tells of, if it lies in that buffer.
    #[inline]
    pub(crate) fn message(&self, buffer: usize, completed: &Completed) -> Option<Payload<'_>> {
        let all = self.buffers.heap.payload().part(buffer * BUFFER_BYTES, BUFFER_BYTES);
        let offset = completed.start.checked_sub(all.start().addr())?;
        let fits = offset <= BUFFER_BYTES && completed.bytes <= BUFFER_BYTES - offset;
        fits.then(|| all.part(offset, completed.bytes))
    }

    /// Lets peers read a payload that is being sent, until [`Memory::hide`].
    pub(crate) fn show(&mut self, payload: Payload<'_>) -> Result<Shown, LibfabricError> {
        let memory = (payload.start(), payload.bytes());
        // SAFETY: the contract of `Fabric::post` keeps the payload's memory until the message is sent, and so it is hidden
        // before; who drops the fabric earlier closes the endpoint first. Peers only read.
        let region = unsafe { self.endpoint.register(memory, Use::Remote) }?;
        let remote = self.endpoint.remote(&region, payload.start());
        Ok(Shown { region, remote })
    }

    /// Ends what [`Memory::show`] began.
    pub(crate) fn hide(&mut self, shown: Shown) {
        self.endpoint.deregister(shown.region);
    }

    /// Takes room that a payload will be read into.
    pub(crate) fn land(&mut self, mut room: UserMemory) -> Result<LandingId, LibfabricError> {
        let region = if self.endpoint.terms().memory.local {
            let part = room.part(0, room.bytes());
            // SAFETY: the room is kept until it is taken off, which ends the registration.
            Some(unsafe { self.endpoint.register((part.start().cast_const(), part.bytes()), Use::Local) }?)
        } else {
            None
        };
        let landing = Landing { room, region, reads: 0 };
        let free = self.landings.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.landings.push(None);
            self.landings.len() - 1
        });
        self.landings[place] = Some(landing);
        Ok(LandingId(place as u32))
    }

    /// Reads `bytes` bytes into the room, from `offset` on. `operation` is not under way.
    pub(crate) fn read(
        &mut self,
        operation: Operation,
        id: LandingId,
        (offset, bytes): (usize, usize),
        from: Address,
        remote: Remote,
    ) -> Answer {
        let landing = self.landings[id.0 as usize].as_mut().expect("a room that is being read into");
        let part = landing.room.part(offset, bytes);
        assert_eq!(part.bytes(), bytes, "more is read than there is room");
        let memory = (part.start(), bytes);
        // SAFETY: the part lies in the room, which is kept until no read is under way any more. The caller counts operations.
        let answer = unsafe { self.endpoint.read(operation, memory, landing.region.as_ref(), from, remote) };
        landing.reads += u32::from(answer == Answer::Taken);
        answer
    }

    /// A read has ended, well or not.
    pub(crate) fn read_ended(&mut self, id: LandingId) {
        if let Some(landing) = &mut self.landings[id.0 as usize] {
            landing.reads = landing.reads.saturating_sub(1);
        }
    }

    /// Gives the room back; false while reads are under way.
    pub(crate) fn take_off(&mut self, id: LandingId) -> bool {
        match self.landings[id.0 as usize].take() {
            Some(landing) if landing.reads > 0 => {
                self.landings[id.0 as usize] = Some(landing);
                false
            }
            Some(Landing { region: Some(region), .. }) => {
                self.endpoint.deregister(region);
                true
            }
            _ => true,
        }
    }
}

impl Memory {
    /// Closes the endpoint, after which nobody touches the memory any more.
    pub(crate) fn close(&mut self) {
        if !self.endpoint.close() {
            // The provider may still write; better to lose some memory than to have it written when it is another's.
            std::mem::forget((self.slots.heap.clone(), self.buffers.heap.clone()));
            std::mem::forget(std::mem::take(&mut self.landings));
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
        let memory = (self.heap.memory().start().cast_const(), self.heap.bytes());
        // SAFETY: this is part of a `Memory`, which closes its endpoint before it gives up its heaps.
        self.region = Some(unsafe { endpoint.register(memory, Use::Local) }?);
        Ok(())
    }
}
