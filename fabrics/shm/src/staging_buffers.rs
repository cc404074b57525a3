//! Staging buffers: what members of a collective segment pass to each other that is too long for its slots.
//!
//! A chunk stands in a staging buffer, and a slot of the collective segment says that it is there.
//!
//! **Of two members** staging buffers come in pairs, and the pairs take turns; of a pair each member has one,
//! and they swap with each turn: who has taken a chunk out of a staging buffer puts its next one there. So a
//! member writes lines that it has read last, which costs less than to write those that it has written and
//! the other has read, and needs no word of the other that the staging buffer is free. docs/decisions/0005
//! has the figures. There are two [rings](Ring) of such pairs, one of which is for long data
//! (docs/decisions/0005). **More members** have staging buffers of their own, which all others read.

use std::ops::Range;

use fabric::slots::{Chunk, Ring, chunk_bytes_max, staging_buffer};
use fabric::{Payload, UserMemory, crash};

use crate::layout::staging_buffers_bytes;
use crate::memory::Memory;

/// The staging buffers of a collective segment, as one of its members sees them.
#[derive(Clone, Copy)]
pub struct StagingBuffers {
    /// Where they stand.
    at: usize,
    /// This member's place on the collective segment.
    here: u32,
    members: u32,
}

impl StagingBuffers {
    pub fn new(at: usize, here: u32, members: u32) -> StagingBuffers {
        StagingBuffers { at, here, members }
    }

    /// Where the staging buffers of that ring stand that this member writes.
    pub fn written(&self, ring: Ring) -> std::ops::Range<usize> {
        if self.members == 2 {
            let first = self.at + staging_buffer(2, ring, 0, 0) as usize * self.staging_buffer_bytes();
            return first..first + ring.round(self.members) as usize * self.staging_buffer_bytes();
        }
        let each = staging_buffers_bytes(self.members) / self.members as usize;
        let first = self.at + self.here as usize * each;
        first..first + each
    }

    /// Puts a chunk, which is two parts, into this member's staging buffer of that number; as much of it as
    /// there is room for.
    #[inline]
    pub fn put(&self, memory: &impl Memory, ring: Ring, number: u32, [front, back]: [Payload<'_>; 2]) {
        crash::point();
        let (at, front) =
            (self.staging_buffer_at(ring, self.here, number), front.part(0, self.staging_buffer_bytes()));
        memory.put(at, front);
        if back.bytes() > 0 {
            memory.put(at + front.bytes(), back.part(0, self.staging_buffer_bytes() - front.bytes()));
        }
    }

    /// Has `write` put `bytes` bytes, no more than a staging buffer holds, into this member's staging buffer
    /// of that number.
    #[inline]
    pub fn make(
        &self,
        memory: &impl Memory,
        ring: Ring,
        number: u32,
        bytes: usize,
        write: impl FnOnce(&mut UserMemory),
    ) {
        crash::point();
        memory.make(
            self.staging_buffer_at(ring, self.here, number),
            bytes.min(self.staging_buffer_bytes()),
            write,
        );
    }

    /// Lends these bytes of a chunk, no more than a staging buffer holds.
    #[inline]
    pub fn read<R>(
        &self,
        memory: &impl Memory,
        Chunk { ring, member, number }: Chunk,
        bytes: Range<usize>,
        reader: impl FnOnce(Payload<'_>) -> R,
    ) -> R {
        let start = bytes.start.min(self.staging_buffer_bytes());
        let length = bytes.len().min(self.staging_buffer_bytes() - start);
        memory.read(self.staging_buffer_at(ring, member, number) + start, length, reader)
    }

    #[inline(always)]
    fn staging_buffer_bytes(&self) -> usize {
        chunk_bytes_max(self.members)
    }

    /// Where the staging buffer stands that is that member's in the turn of that number.
    #[inline(always)]
    fn staging_buffer_at(&self, ring: Ring, place: u32, number: u32) -> usize {
        self.at + staging_buffer(self.members, ring, place, number) as usize * self.staging_buffer_bytes()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use fabric::slots::MEMBERS_MAX;

    use super::*;

    #[test]
    fn members_swap_staging_buffers_with_each_turn() {
        [Ring::Short, Ring::Long].into_iter().for_each(swap_staging_buffers_with_each_turn);
    }

    fn swap_staging_buffers_with_each_turn(ring: Ring) {
        let [one, other] = [0, 1].map(|here| StagingBuffers::new(4096, here, 2));
        let round = ring.round(2);
        // Where numbers come round all begins anew: nothing is in a staging buffer then.
        for number in (0..3 * round).chain(u32::MAX - 3 * round..u32::MAX - round) {
            let next = number + ring.ahead();
            let at = |staging_buffers: &StagingBuffers, place, number| {
                staging_buffers.staging_buffer_at(ring, place, number)
            };
            assert_eq!(at(&one, 0, number), at(&one, 1, next), "{number:#x}");
            assert_eq!(at(&one, 1, number), at(&one, 0, next), "{number:#x}");
            assert_eq!(at(&one, 0, number), at(&other, 0, number));
            assert_eq!(at(&one, 0, number), at(&one, 0, number + round));
        }
        let places = places_of(&one, ring);
        assert_eq!(places.len(), round as usize, "each has a staging buffer of its own in each turn");
        let written = one.written(ring);
        assert!(places.iter().all(|at| written.contains(at) && at + chunk_bytes_max(2) <= written.end));
        assert_eq!(written.len(), places.len() * chunk_bytes_max(2));
    }

    fn places_of(staging_buffers: &StagingBuffers, ring: Ring) -> HashSet<usize> {
        (0..ring.ahead())
            .flat_map(|number| [0, 1].map(|place| staging_buffers.staging_buffer_at(ring, place, number)))
            .collect()
    }

    #[test]
    fn no_staging_buffer_is_in_both_rings() {
        let staging_buffers = StagingBuffers::new(4096, 0, 2);
        let [short, long] = [Ring::Short, Ring::Long].map(|ring| places_of(&staging_buffers, ring));
        assert!(short.is_disjoint(&long));
        assert!(long.iter().all(|at| at + chunk_bytes_max(2) <= 4096 + staging_buffers_bytes(2)));
    }

    #[test]
    fn more_members_have_staging_buffers_of_their_own() {
        for members in 3..=MEMBERS_MAX {
            let staging_buffers = StagingBuffers::new(0, 1, members);
            let at = |place, number| staging_buffers.staging_buffer_at(Ring::Short, place, number);
            let round = Ring::Short.round(members);
            let all = (0..members).flat_map(|place| (0..round).map(move |number| at(place, number)));
            let places: HashSet<usize> = all.collect();
            assert_eq!(places.len() * chunk_bytes_max(members), staging_buffers_bytes(members));
            assert!(places.iter().all(|at| at + chunk_bytes_max(members) <= staging_buffers_bytes(members)));
            let own = staging_buffers.written(Ring::Short);
            assert!((0..round).all(|number| own.contains(&at(1, number))) && !own.contains(&at(2, 0)));
            assert_eq!(at(members, 0), at(members - 1, 0), "who does not exist");
            assert_eq!(at(2, u32::MAX), at(2, 1));
        }
    }
}
