//! The contract of segments with slots: memory that a few members of one node share for collective
//! operations.
//!
//! Each member writes its own slots, and every member reads all of them. A slot holds a sequence number, the
//! length of what is sent, and up to [`SLOT_BYTES_MAX`] bytes. Longer data goes in *chunks*: a chunk stands
//! in a staging buffer, and a slot announces it. A segment knows neither communicators nor operations: it
//! orders bytes.
//!
//! **Sequence numbers.** All members count operations alike, one number for each slot that may be written.
//! The slot of number `n` is reused for number `n + `[`DEPTH`], so a member writes it when all others have
//! [consumed](Slots::consumed) number `n`. [`Credit`] keeps what a member knows of that without looking.
//! Numbers wrap; before they do, members [renew](Slots::renew) their slots.
//!
//! Shared memory, the tests' plain memory and the models under loom implement [`Slots`].

pub mod plain;

use std::ops::Range;

use crate::{Payload, UserMemory};

/// The most bytes that one slot holds.
pub const SLOT_BYTES_MAX: usize = 2 * CACHE_LINE + (if cfg!(loom) { 0 } else { 2 << 10 }) - HEADER_BYTES;
/// The bytes of a slot that stand in its first cache line, beside its sequence number.
pub const LINE_BYTES_MAX: usize = CACHE_LINE - HEADER_BYTES;
/// The most members of a segment: each of them looks at the lines of all others.
pub const MEMBERS_MAX: u32 = 64;
/// How many slots a member may be ahead of the slowest reader. Models under loom have few, so that they come
/// to reuse one.
pub const DEPTH: u32 = if cfg!(loom) { 2 } else { 16 };
/// The bytes of a staging buffer of two members. Chunks of 16 and 64 KiB are as fast; chunks of 4 KiB take
/// half as long again.
const CHUNK_BYTES_OF_TWO: usize = if cfg!(loom) { CACHE_LINE } else { 32 << 10 };
/// The staging buffers of one member of three or more.
const CHUNK_BUFFERS: u32 = 2;
const CACHE_LINE: usize = 64;
/// Sequence number, length and count of chunks, and room up to where any element is aligned.
const HEADER_BYTES: usize = 16;

/// The most bytes that one chunk holds in a segment of `members` members. The staging buffers of many members
/// take no more than those of 16.
#[inline]
#[must_use]
pub const fn chunk_bytes_max(members: u32) -> usize {
    match members {
        0..=2 => CHUNK_BYTES_OF_TWO,
        3..=16 => 2 * CHUNK_BYTES_OF_TWO,
        _ => CHUNK_BYTES_OF_TWO / 2,
    }
}

/// The staging buffers that chunks of two members go through. Three and more members have one ring, whichever
/// is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ring {
    /// Few buffers: a chunk is still in the cache of the member that wrote it.
    Short,
    /// More buffers than such a cache holds, for long data (decisions/0005).
    Long,
}

impl Ring {
    /// How many chunks a member of two may send before it has received the first one.
    #[inline(always)]
    #[must_use]
    pub const fn ahead(self) -> u32 {
        match self {
            Ring::Short if cfg!(loom) => 1,
            Ring::Long if cfg!(loom) => 1,
            Ring::Short => 3,
            Ring::Long => 7,
        }
    }

    /// After so many sequence numbers a member reuses a staging buffer, when all others have consumed the
    /// chunk in it.
    #[inline(always)]
    #[must_use]
    pub const fn round(self, members: u32) -> u32 {
        if members == 2 { 2 * self.ahead() } else { CHUNK_BUFFERS }
    }
}

/// One chunk: in which staging buffers, of whom, and the number of the slot that announces it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// The staging buffers.
    pub ring: Ring,
    /// Who writes it.
    pub member: u32,
    /// The sequence number of the slot that announces it.
    pub number: u32,
}

/// The index of the staging buffer that a chunk of `member` stands in, among all of a segment of `members`
/// members; that of the last member for members that do not exist.
///
/// Two members have pairs of buffers, which take turns; of a pair each member has one, and they swap with
/// each turn: a member that has read a chunk writes its next one there (decisions/0005). Three and more have
/// buffers of their own. Where numbers wrap, a pair may come twice in a row: members renew their slots there,
/// and every chunk has been consumed then.
#[inline(always)]
#[must_use]
pub const fn staging_buffer(members: u32, ring: Ring, member: u32, number: u32) -> u32 {
    if members == 2 {
        let (pair, turn) = (number % ring.ahead(), number / ring.ahead());
        let first = match ring {
            Ring::Short => 0,
            Ring::Long => 2 * Ring::Short.ahead(),
        };
        return first + 2 * pair + ((turn ^ member) & 1);
    }
    let member = if member < members { member } else { members - 1 };
    member * ring.round(members) + number % ring.round(members)
}

/// What holds for `number` of both values that a member has [published](Slots::publish_ways), each with the
/// number from which it holds; 0 where neither holds yet.
#[must_use]
pub fn way_at(said: [(u32, u32); 2], number: u32) -> u32 {
    let so_far = said.into_iter().filter(|&(from, _)| !is_before(number, from));
    so_far
        .reduce(|one, other| if is_before(one.0, other.0) { other } else { one })
        .map_or(0, |(_, ways)| ways)
}

// Two members swap buffers with each round: with an even number of pairs a member that sends one chunk at a
// time would never reuse the buffer that it has read last.
const _: () = assert!(!Ring::Short.ahead().is_multiple_of(2) && !Ring::Long.ahead().is_multiple_of(2));
const _: () = assert!(2 * Ring::Long.ahead() <= DEPTH);

/// One member's side of a segment with slots.
///
/// Members have indices from 0. `number` is a sequence number throughout. A method that takes `member` reads
/// what that member has written; every other method writes what belongs to this member.
pub trait Slots {
    /// Writes two parts, one behind the other, into this member's slot and publishes it. Call [`Slots::wake`]
    /// afterwards.
    fn put(&self, number: u32, parts: [Payload<'_>; 2]);

    /// Writes `part` at byte `at` of this member's slot, as much of it as the slot has room for, without
    /// publishing the slot.
    fn fill(&self, number: u32, at: usize, part: Payload<'_>);

    /// Publishes this member's slot of `bytes` bytes, which [`Slots::fill`] has written. Call [`Slots::wake`]
    /// afterwards.
    fn post(&self, number: u32, bytes: usize);

    /// Whether `member` has published its slot of that number. A member reuses a slot only after all readers
    /// have consumed it.
    fn has(&self, member: u32, number: u32) -> bool;

    /// [`Slots::has`] for a slot that is to hold `bytes` bytes: prefetches its lines behind the first one.
    fn has_all(&self, member: u32, number: u32, bytes: usize) -> bool {
        let _ = bytes;
        self.has(member, number)
    }

    /// Prefetches another member's slot of `bytes` bytes, which is read soon. Does nothing that can be seen.
    fn prefetch(&self, member: u32, number: u32, bytes: usize) {
        let _ = (member, number, bytes);
    }

    /// Prefetches this member's own slot of `bytes` bytes, which is written soon. Does nothing that can be
    /// seen.
    fn prefetch_own(&self, number: u32, bytes: usize) {
        let _ = (number, bytes);
    }

    /// Lends the first `bytes` bytes of a published slot of `member` to `reader`; no more than a slot holds.
    fn read<R>(&self, member: u32, number: u32, bytes: usize, reader: impl FnOnce(Payload<'_>) -> R) -> R;

    /// Whether this member can send chunks through that ring. Allocates the staging buffers with the first
    /// call; false where there is no memory for them.
    fn can_send_chunks(&self, ring: Ring) -> bool;

    /// Writes a chunk of two parts into this member's staging buffer and publishes the slot that announces it
    /// with `told`: the bytes of the whole message and the count of its chunks. [`Slots::can_send_chunks`]
    /// was true, and all others have consumed the chunk [`Ring::round`] numbers before. Call [`Slots::wake`]
    /// afterwards.
    fn send_chunk(&self, ring: Ring, number: u32, told: [u32; 2], parts: [Payload<'_>; 2]);

    /// Has `write` fill this member's staging buffer with `bytes` bytes. [`Slots::announce_chunk`] publishes
    /// them.
    fn fill_chunk(&self, ring: Ring, number: u32, bytes: usize, write: impl FnOnce(&mut UserMemory));

    /// Publishes the slot that announces the chunk in this member's staging buffer, with `told` as in
    /// [`Slots::send_chunk`].
    fn announce_chunk(&self, number: u32, told: [u32; 2]);

    /// Lends these bytes of a published chunk to `reader`, no more than a chunk holds.
    fn read_chunk<R>(&self, chunk: Chunk, bytes: Range<usize>, reader: impl FnOnce(Payload<'_>) -> R) -> R;

    /// Lends the first `bytes` bytes of a published slot, or of the chunk of the short ring that it
    /// announces, to `reader`.
    #[inline(always)]
    fn read_either<R>(
        &self,
        member: u32,
        number: u32,
        bytes: usize,
        reader: impl FnOnce(Payload<'_>) -> R,
    ) -> R {
        match self.announced(member, number) {
            [_, chunks] if chunks > 0 => {
                self.read_chunk(Chunk { ring: Ring::Short, member, number }, 0..bytes, reader)
            }
            _ => self.read(member, number, bytes, reader),
        }
    }

    /// What a published slot of `member` says: the bytes of the whole message, and the count of its chunks; 0
    /// chunks where the slot holds the message.
    fn announced(&self, member: u32, number: u32) -> [u32; 2];

    /// Publishes that this member has consumed all slots up to that number.
    fn consume(&self, number: u32);

    /// The number up to which `member` has consumed all slots.
    fn consumed(&self, member: u32) -> u32;

    /// Publishes that this member has written all slots that it writes up to that number, for peers that wait
    /// for one that is never written. Only while this member [owes](Slots::owes) no slot.
    fn stand(&self, number: u32);

    /// Publishes which algorithms are used from number `from` on, by bits on which members agree. Rank 0
    /// calls it before it writes anything in an earlier operation in which every member hears every other.
    /// Slots 0 and 1 are used in turn.
    fn publish_ways(&self, slot: usize, from_ways: (u32, u32));

    /// Which algorithms `member` has [published](Slots::publish_ways) for that number: the same at all
    /// members that have been in all operations before; 0 at first.
    fn ways(&self, member: u32, number: u32) -> u32;

    /// Publishes that this member has one more slot to write for an operation that is pending. Until it
    /// [owes](Slots::owes) none, no peer concludes from this member's position that a slot is never written.
    fn owe(&self);

    /// Publishes that this member has written one slot that it [owed](Slots::owe).
    fn owe_no_more(&self);

    /// Whether this member owes a slot.
    fn owes(&self) -> bool;

    /// Whether `member` has not published its slot of that number and never will: it has consumed that
    /// number, or [stands](Slots::stand) in it, or has begun more than `by_messages` operations on the
    /// message path; and it owes no slot.
    fn will_not_write(&self, member: u32, number: u32, by_messages: u32) -> bool;

    /// Rewrites this member's slots, so that nothing that it wrote long ago is taken for a slot to come. Only
    /// where [due](Credit::is_renewal_due), and after all members have consumed the number before.
    fn renew(&self, number: u32);

    /// Publishes that this member is about to sleep until a peer writes, before it looks for the last time.
    fn await_others(&self);

    /// Withdraws [`Slots::await_others`].
    fn await_no_more(&self);

    /// Wakes the members that sleep. To be called after something was written for them; costs one look where
    /// no member sleeps.
    fn wake(&self);

    /// Whether both of two members have found that they may read each other's memory. The first call tries
    /// it.
    fn can_both_read(&self) -> bool;

    /// The address under which the peer of two [fetches](Slots::fetch) `memory`. The memory stays as it is
    /// until the peer says that it has read it.
    fn lend(&self, memory: Payload<'_>) -> u64;

    /// Fills `into` from that address of the peer's memory. False where the system refuses, and then `into`
    /// may hold anything.
    fn fetch(&self, address: u64, into: &mut UserMemory) -> bool;

    /// Publishes for good that this member leaves an operation in which the peer of two may be reading its
    /// memory: what the peer has read may be anything.
    fn withdraw(&self);

    /// Whether the peer of two has [withdrawn](Slots::withdraw), before whatever it has written to its memory
    /// since.
    fn has_peer_withdrawn(&self) -> bool;
}

/// What a member knows of sequence numbers: its own, and the number that all members are known to have
/// consumed. With it a member mostly writes its slot without a look at its peers.
#[derive(Debug)]
pub struct Credit {
    /// The number of the last operation that has begun here.
    number: u32,
    /// All members have consumed the slots up to this number.
    consumed_by_all: u32,
    /// The last operation that is pending beside what this member does: a member that writes a later slot may
    /// still read its slots.
    pending: u32,
}

impl Default for Credit {
    fn default() -> Credit {
        Credit { number: BEFORE_ALL, consumed_by_all: BEFORE_ALL, pending: BEFORE_ALL }
    }
}

impl Credit {
    /// The number of the last operation that has begun here.
    #[inline(always)]
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The number of the next operation.
    #[inline(always)]
    #[must_use]
    pub fn next(&self) -> u32 {
        self.number.wrapping_add(1)
    }

    /// Begins the next operation and returns its number.
    #[inline(always)]
    pub fn begin(&mut self) -> u32 {
        self.number = self.next();
        self.number
    }

    /// Begins the next operation, which is pending while others go on, and returns its number.
    pub fn begin_pending(&mut self) -> u32 {
        self.pending = self.begin();
        self.pending
    }

    /// Begins an operation of several numbers, up to `last`.
    #[inline]
    pub fn begin_up_to(&mut self, last: u32) {
        self.number = last;
    }

    /// Whether all members are known to have consumed the slot that number `number` reuses.
    #[inline(always)]
    #[must_use]
    pub fn has_room(&self, number: u32) -> bool {
        self.has_room_behind(number, DEPTH)
    }

    /// Whether all members are known to have consumed the slot `ahead` numbers before `number`.
    #[inline]
    #[must_use]
    pub fn has_room_behind(&self, number: u32, ahead: u32) -> bool {
        !is_before(self.consumed_by_all, number.wrapping_sub(ahead))
    }

    /// All members have published that they have consumed the slots up to `number`.
    pub fn all_consumed(&mut self, number: u32) {
        self.consumed_by_all = number;
    }

    /// The peer of two is seen to have consumed every number before `number` that is not pending.
    #[inline]
    pub fn heard_before(&mut self, number: u32) {
        let last = number.wrapping_sub(1);
        if !is_before(self.consumed_by_all, self.pending) && is_before(self.consumed_by_all, last) {
            self.consumed_by_all = last;
        }
    }

    /// One peer's slot of the last operation was seen: its writer knew that all have consumed the slot that
    /// it reuses.
    pub fn heard_one(&mut self) {
        let least = self.number.wrapping_sub(DEPTH);
        // The slots of pending operations may still be read.
        if !is_before(self.consumed_by_all, self.pending) && is_before(self.consumed_by_all, least) {
            self.consumed_by_all = least;
        }
    }

    /// All slots of the last operation were seen: their writers have consumed all numbers before that are not
    /// pending.
    #[inline(always)]
    pub fn heard_all(&mut self) {
        if !is_before(self.consumed_by_all, self.pending) {
            self.consumed_by_all = self.number.wrapping_sub(1);
        }
    }

    /// This member has [renewed](Slots::renew) its slots for the last operation: all members had consumed all
    /// numbers before.
    pub fn renewed(&mut self) {
        self.consumed_by_all = self.number.wrapping_sub(1);
        self.pending = self.consumed_by_all;
    }

    /// Whether members [renew](Slots::renew) their slots before they begin the operation of that number.
    #[inline]
    #[must_use]
    pub fn is_renewal_due(number: u32) -> bool {
        number.is_multiple_of(RENEWAL_INTERVAL)
    }

    /// The first number behind `number` at which a renewal is due.
    #[inline]
    #[must_use]
    pub fn renewal_behind(number: u32) -> u32 {
        (number / RENEWAL_INTERVAL).wrapping_add(1).wrapping_mul(RENEWAL_INTERVAL)
    }
}

/// Whether the slot of `number` may be written, where all members have consumed the numbers up to `consumed`.
#[inline(always)]
#[must_use]
pub fn is_room(number: u32, consumed: u32) -> bool {
    !is_before(consumed, number.wrapping_sub(DEPTH))
}

/// Whether one sequence number comes before another one, which is less than half of all numbers away.
#[inline(always)]
#[must_use]
pub fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

/// The number before the first one: a hundred before numbers wrap, so that every program passes that soon.
pub const BEFORE_ALL: u32 = 0u32.wrapping_sub(101);
/// After so many numbers members renew their slots: a quarter of all, so that no slot is as old as half of
/// them.
pub const RENEWAL_INTERVAL: u32 = 1 << 30;
