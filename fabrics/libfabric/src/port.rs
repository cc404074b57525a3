//! The endpoint as the fabric uses it: which operations are under way, for whom, and what has become of them.

mod completions;
mod operations;

use fabric::{Attached, Payload, UserMemory};
use libfabric_sys::{
    Address, Answer, Atomics, Capacity, Endpoint, Failure, LibfabricError, Offer, Remote, Terms, Use,
};

pub(crate) use self::completions::{Ahead, Arrival, Event, Failed};
use self::operations::{MOVES, PLACES, Part, Places, SLOTS, TURNS};
use crate::memory::{
    BUFFER_BYTES_MAX, BUFFERS, BUFFERS_MAX, Deed, Memory, Move, RAILS_MAX, Shown, TransferId,
};
use crate::transfers::About;
use crate::wire::FRAME_BYTES;

/// An endpoint with its operations. Sends come first among them, then receive buffers, then those of
/// transfers; rails have only the last.
pub(crate) struct Port {
    memory: Memory,
    /// What each slot was used for last.
    slots: Vec<Task>,
    free_slots: Places,
    /// Slots that short operations are in.
    short: u32,
    /// For each rail and each of its operations, which transfer it is a part of.
    moves: Vec<[TransferId; MOVES]>,
    free_moves: [Places; RAILS_MAX],
    /// Receive buffers that the provider could not take yet.
    idle_buffers: Vec<u32>,
    /// Those that it does not have.
    free_buffers: Places,
    /// For each receive buffer a bit: another has taken its place.
    replaced: u64,
    /// How many receive buffers have been used so far; those of which an error has told are not used again.
    buffers: u32,
    /// What is injected is put together here.
    scratch: Box<[u8]>,
    /// The longest message.
    frame_bytes_max: usize,
    moved_bytes_max: usize,
    /// Completions that have been read from a queue, and how many of them have been told.
    batch: (usize, usize),
    /// Whose queue that is.
    rail: usize,
    /// What a queue has told of when somebody only wanted to see what is next.
    failure: Option<Box<Failure>>,
}

/// What a slot is used for.
enum Task {
    /// A message.
    Message(Stamp),
    /// A short operation, with the room for what it fetches.
    Short(Errand, UserMemory),
}

/// A short operation on memory of a peer: whose, and what the engine calls it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errand {
    pub(crate) link: u32,
    pub(crate) ticket: u64,
}

/// Whose message it is, and its number among those for that link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stamp {
    pub(crate) link: u32,
    pub(crate) sequence: u32,
}

impl Port {
    /// Opens an endpoint, and the rails that can be opened beside it; others do not stay in the list. A slot
    /// has `slot_bytes` bytes, if messages may be so long. `injects`: messages are as short as can be
    /// injected.
    pub(crate) fn open(
        offer: &Offer,
        rails: &mut Vec<&Offer>,
        slot_bytes: usize,
        injects: bool,
    ) -> Result<Port, LibfabricError> {
        let terms = offer.terms();
        let inject_bytes = terms.inject_bytes_max.min(INJECT_BYTES_MAX);
        let slot_bytes = terms.message_bytes_max.min(slot_bytes) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
        let are_injected = injects && inject_bytes >= INJECT_BYTES_MAX;
        let frame_bytes_max = if are_injected { inject_bytes } else { slot_bytes };
        let capacity = Capacity { operations: (PLACES * TURNS) as u32, message_bytes_max: frame_bytes_max };
        let endpoint = Endpoint::open(offer, capacity)?;
        let for_moves = Capacity { operations: (MOVES * TURNS) as u32, message_bytes_max: slot_bytes };
        let mut opened = Vec::new();
        rails.retain(|rail| {
            let is_wanted = opened.len() < RAILS_MAX - 1 && rail.terms().memory == terms.memory;
            let endpoint = if is_wanted { Endpoint::open(rail, for_moves).ok() } else { None };
            let is_open = endpoint.is_some();
            opened.extend(endpoint);
            is_open
        });
        let buffer_bytes = (FRAMES_OF_BUFFER * frame_bytes_max).min(BUFFER_BYTES_MAX);
        let memory = Memory::new(endpoint, opened, SLOTS, slot_bytes, buffer_bytes)?;
        let mut port = Port {
            slots: (0..SLOTS).map(|_| Task::Message(Stamp::default())).collect(),
            free_slots: Places::all(SLOTS),
            short: 0,
            moves: vec![[TransferId::NONE; MOVES]; memory.rails()],
            free_moves: [Places::all(MOVES); RAILS_MAX],
            memory,
            idle_buffers: (0..BUFFERS as u32).collect(),
            free_buffers: Places::all(BUFFERS_MAX),
            replaced: 0,
            buffers: BUFFERS as u32,
            scratch: vec![0; inject_bytes].into(),
            frame_bytes_max,
            moved_bytes_max: terms.message_bytes_max.min(MOVED_BYTES_MAX),
            batch: (0, 0),
            rail: 0,
            failure: None,
        };
        port.post_buffers();
        Ok(port)
    }

    pub(crate) fn terms(&self) -> &Terms {
        self.memory.endpoint_ref().terms()
    }

    /// The name of the endpoint, or of one of the rails.
    pub(crate) fn name(&self, rail: usize) -> &[u8] {
        self.memory.rail_ref(rail).name()
    }

    /// How many endpoints there are, with those that only help.
    pub(crate) fn rails(&self) -> usize {
        self.memory.rails()
    }

    pub(crate) fn atomics(&self) -> &Atomics {
        self.memory.endpoint_ref().atomics()
    }

    #[cfg(test)]
    pub(crate) fn library(&self) -> &libfabric_sys::Library {
        self.memory.endpoint_ref().library()
    }

    pub(crate) fn text(&self, code: i32) -> String {
        self.memory.endpoint_ref().library().text(code)
    }

    pub(crate) fn insert(&mut self, rail: usize, name: &[u8]) -> Result<Address, LibfabricError> {
        self.memory.rail(rail).insert(name)
    }

    /// The longest payload of a message that is copied.
    pub(crate) fn copied_bytes_max(&self) -> usize {
        self.frame_bytes_max - FRAME_BYTES
    }

    /// Sends a message: in one call where it is short, or out of a slot, which tells when it has left. `head`
    /// goes before the payload.
    #[inline]
    pub(crate) fn send<const N: usize>(
        &mut self,
        stamp: Stamp,
        to: Address,
        head: [u8; N],
        payload: Payload<'_>,
    ) -> Answer {
        let bytes = N + payload.bytes();
        if bytes > self.scratch.len() {
            return self.send_long(stamp, to, head, payload);
        }
        let (front, rest) = self.scratch.split_at_mut(N);
        front.copy_from_slice(&head);
        payload.copy_to(rest);
        self.memory.endpoint().inject(&self.scratch[..bytes], to)
    }

    #[inline(never)]
    fn send_long<const N: usize>(
        &mut self,
        stamp: Stamp,
        to: Address,
        head: [u8; N],
        payload: Payload<'_>,
    ) -> Answer {
        // Some slots are left for what ends a link, or one peer that takes nothing would keep this process
        // for ever.
        let has_room = self.free_slots.count() > SLOTS_KEPT;
        if has_room { self.send_slot(stamp, to, &head, payload) } else { Answer::Again }
    }

    /// Sends a message so that the queue tells when it has left.
    #[inline]
    pub(crate) fn send_slot(
        &mut self,
        stamp: Stamp,
        to: Address,
        head: &[u8],
        payload: Payload<'_>,
    ) -> Answer {
        let Some(slot) = self.free_slots.first() else { return Answer::Again };
        let operation = Part::Slot(slot as usize).operation(0, self.free_slots.turn(slot));
        let answer = self.memory.send_slot(operation, slot as usize, head, payload, to);
        if answer == Answer::Taken {
            self.free_slots.take(slot);
            self.slots[slot as usize] = Task::Message(stamp);
        }
        answer
    }

    /// The longest data of a short operation.
    pub(crate) fn short_bytes_max(&self) -> usize {
        self.memory.short_bytes_max()
    }

    /// Begins a short operation on memory of a peer; what it fetches goes to `into`.
    pub(crate) fn short(
        &mut self,
        errand: Errand,
        deed: Deed<'_>,
        into: UserMemory,
        to: Address,
        remote: Remote,
    ) -> Answer {
        let Some(slot) = self.free_slots.first().filter(|_| self.free_slots.count() > SLOTS_KEPT) else {
            return Answer::Again;
        };
        let operation = Part::Slot(slot as usize).operation(0, self.free_slots.turn(slot));
        let answer = self.memory.short(operation, slot as usize, deed, to, remote);
        if answer == Answer::Taken {
            self.free_slots.take(slot);
            self.slots[slot as usize] = Task::Short(errand, into);
            self.short += 1;
        }
        answer
    }

    /// For whom short operations have not ended.
    pub(crate) fn errands(&self) -> impl Iterator<Item = u32> {
        let slots = (0..).zip(&self.slots).filter(|_| self.short > 0);
        slots.filter(|(slot, _)| !self.free_slots.has(*slot)).filter_map(|(_, task)| match task {
            Task::Short(errand, _) => Some(errand.link),
            Task::Message(_) => None,
        })
    }

    /// Whether memory of peers is read or changed.
    pub(crate) fn is_transferring(&self) -> bool {
        self.short > 0 || self.memory.is_transferring()
    }

    /// Closes the endpoint. Nothing may be sent or looked for afterwards.
    pub(crate) fn close(&mut self) {
        self.memory.close();
    }

    /// Whether another part of a transfer may begin.
    pub(crate) fn may_transfer(&self) -> bool {
        self.free_moves[..self.rails()].iter().any(|free| free.first().is_some())
    }

    /// For whom something that was sent has not left yet.
    pub(crate) fn sending(&self) -> impl Iterator<Item = u32> {
        let slots = (0..).zip(&self.slots);
        slots.filter(|(slot, _)| !self.free_slots.has(*slot)).map(|(_, task)| match task {
            Task::Message(stamp) => stamp.link,
            Task::Short(errand, _) => errand.link,
        })
    }

    pub(crate) fn show(&mut self, payload: Payload<'_>, over_rails: bool) -> Result<Shown, LibfabricError> {
        self.memory.show(payload, over_rails)
    }

    pub(crate) fn hide(&mut self, shown: Shown) {
        self.memory.hide(shown);
    }

    pub(crate) fn attach(
        &mut self,
        memory: UserMemory,
        purpose: Use,
    ) -> Result<(Attached, Remote), LibfabricError> {
        self.memory.attach(memory, purpose)
    }

    pub(crate) fn detach(&mut self, attached: Attached) {
        self.memory.detach(attached);
    }

    pub(crate) fn is_anything_attached(&self) -> bool {
        self.memory.is_anything_attached()
    }

    pub(crate) fn land(&mut self, room: UserMemory, about: About) -> Result<TransferId, LibfabricError> {
        self.memory.land(room, about)
    }

    pub(crate) fn launch(&mut self, source: UserMemory, about: About) -> Result<TransferId, LibfabricError> {
        self.memory.launch(source, about)
    }

    pub(crate) fn about(&mut self, id: TransferId) -> Option<&mut About> {
        self.memory.about(id)
    }

    pub(crate) fn transfers(&self) -> impl Iterator<Item = (TransferId, &About)> {
        self.memory.transfers()
    }

    pub(crate) fn can_move(&self, id: TransferId, rail: usize) -> bool {
        self.memory.can_move(id, rail)
    }

    /// Ends a transfer; `None` while a part of it is under way.
    pub(crate) fn end(&mut self, id: TransferId) -> Option<About> {
        self.memory.end(id)
    }

    /// The longest part of a transfer.
    pub(crate) fn moved_bytes_max(&self) -> usize {
        self.moved_bytes_max
    }

    /// Begins to move a part of a transfer over one of the rails.
    pub(crate) fn transfer(&mut self, id: TransferId, moved: Move) -> Answer {
        let rail = moved.rail;
        let Some(place) = self.free_moves[rail].first() else { return Answer::Again };
        let operation = Part::Move(place as usize).operation(rail, self.free_moves[rail].turn(place));
        let answer = self.memory.transfer(operation, id, moved);
        if answer == Answer::Taken {
            self.free_moves[rail].take(place);
            self.moves[rail][place as usize] = id;
        }
        answer
    }
}

/// Of these, so many are kept for what ends a link.
const SLOTS_KEPT: u32 = 4;
/// What a slot holds where nothing else is said. The providers that stand on others (rxm) copy up to here,
/// too.
pub(crate) const SLOT_BYTES: usize = 16 << 10;
/// Slots begin at multiples of this.
const SLOT_ALIGNMENT: usize = 64;
/// So many of the longest messages have room in a receive buffer, if that is not too long. Messages go
/// through all buffers in turn, so that those of short messages should fit into a second-level cache
/// together.
const FRAMES_OF_BUFFER: usize = 16;
/// One part. Providers cut it as they need; this only bounds what one failure costs.
const MOVED_BYTES_MAX: usize = 1 << 30;
/// Beyond this a copy into a slot costs no more than a copy to be injected.
const INJECT_BYTES_MAX: usize = 4 << 10;
