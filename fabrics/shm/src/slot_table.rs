//! The places of a collective segment: what its members write and read there, and the numbers by which they
//! know what is whose turn.
//!
//! **Numbers.** Operations are counted alike by all members, round and round: from a little before the
//! numbers come round, so that every program is past that soon. What a member wrote long ago has the number
//! of an operation to come, once they have; so each member [renews](SlotTable::renew) its place [now and
//! then](fabric::slots::Credit::is_renewal_due), whether it has written meanwhile or not.

use fabric::{Payload, crash};

use crate::layout::{
    COLLECTIVE_SEGMENT_BYTES_WORD, COLLECTIVE_SEGMENT_ELSEWHERE, COLLECTIVE_SEGMENT_ENTRY_BYTES,
    COLLECTIVE_SEGMENT_GIVEN_UP, COLLECTIVE_SEGMENT_GIVEN_UP_WORDS, COLLECTIVE_SEGMENT_LEFT,
    COLLECTIVE_SEGMENT_LEFT_WORDS, COLLECTIVE_SEGMENT_OWES, COLLECTIVE_SEGMENT_PAYLOAD,
    COLLECTIVE_SEGMENT_PLACE_BYTES, COLLECTIVE_SEGMENT_PLACES, COLLECTIVE_SEGMENT_READS,
    COLLECTIVE_SEGMENT_STANDS, COLLECTIVE_SEGMENT_WAITING, COLLECTIVE_SEGMENT_WAYS, LINE,
};
use crate::memory::Memory;
use crate::sync::{Ordering, Word, heavy_barrier, light_barrier};
use fabric::slots::{BEFORE_ALL, DEPTH, LINE_BYTES_MAX, SLOT_BYTES_MAX, is_before, way_at};

/// The places of a collective segment, as one of its members sees them.
#[derive(Clone, Copy)]
pub struct SlotTable {
    /// Where the collective segment stands.
    at: usize,
    /// This member's place.
    here: u32,
    members: u32,
}

impl SlotTable {
    pub fn new(at: usize, here: u32, members: u32) -> SlotTable {
        SlotTable { at, here, members }
    }

    /// Makes the places of so many members ready for the first operation, and counts these.
    pub fn found(memory: &impl Memory, at: usize, members: u32) {
        for here in 0..members {
            let places = SlotTable::new(at, here, members);
            memory.word(places.through_at(here)).store(BEFORE_ALL, Ordering::Relaxed);
            places.say_elsewhere(memory, 0);
            places.owed(memory, here).store(0, Ordering::Relaxed);
            memory.word(places.through_at(here) + COLLECTIVE_SEGMENT_READS).store(0, Ordering::Relaxed);
            (0..2).for_each(|slot| places.say_ways(memory, slot, (BEFORE_ALL.wrapping_sub(slot as u32), 0)));
            for word in 0..COLLECTIVE_SEGMENT_GIVEN_UP_WORDS {
                // A number that belongs into another word.
                places.given_up(memory, here, word).store(word.wrapping_add(1), Ordering::Relaxed);
            }
            places.renew(memory, BEFORE_ALL.wrapping_add(1));
        }
        memory.word(at + COLLECTIVE_SEGMENT_WAITING).store(0, Ordering::Relaxed);
        for word in 0..COLLECTIVE_SEGMENT_LEFT_WORDS {
            memory.word(at + COLLECTIVE_SEGMENT_LEFT + 4 * word as usize).store(0, Ordering::Relaxed);
        }
        memory.word(at).store(members, Ordering::Release);
    }

    /// Leaves the collective segment, and takes those off it that have died; true where nobody is left. Each
    /// is counted once, by whoever is first to say that it has left; nothing of the collective segment is
    /// looked at afterwards, since it may be somebody else's by then.
    pub fn leave(&self, memory: &impl Memory, dead: &[u32]) -> bool {
        let mut gone = 0;
        for &place in dead.iter().chain(&[self.here]).filter(|place| **place < self.members) {
            let (word, bit) = (place / u32::BITS, 1 << (place % u32::BITS));
            let before = memory
                .word(self.at + COLLECTIVE_SEGMENT_LEFT + 4 * word as usize)
                .fetch_or(bit, Ordering::AcqRel);
            gone += u32::from(before & bit == 0);
        }
        gone > 0 && memory.word(self.at).fetch_sub(gone, Ordering::AcqRel) == gone
    }

    #[inline]
    pub fn members(&self) -> u32 {
        self.members
    }

    #[inline]
    pub fn here(&self) -> u32 {
        self.here
    }

    #[inline]
    pub fn is_here(&self, place: u32) -> bool {
        self.here == place
    }

    #[cfg(test)]
    pub fn put(&self, memory: &impl Memory, number: u32, parts: [Payload<'_>; 2]) {
        put(memory, (self.through_at(self.here), number), parts);
    }

    /// Writes a part of this member's slot of that number, which is not there yet, as far as there is room;
    /// how much.
    #[inline]
    pub fn fill(&self, memory: &impl Memory, number: u32, at: usize, part: Payload<'_>) -> usize {
        fill(memory, (self.through_at(self.here), number), at, part)
    }

    /// The slot of that number is there, and so long.
    #[inline]
    pub fn post(&self, memory: &impl Memory, number: u32, bytes: usize) {
        self.announce(memory, number, [bytes.min(SLOT_BYTES_MAX) as u32, 0]);
    }

    /// The slot of that number is there: how many bytes in all, and in how many chunks, of which one stands
    /// in a staging buffer; 0 of them where all stands in the slot.
    #[inline]
    pub fn announce(&self, memory: &impl Memory, number: u32, told: [u32; 2]) {
        announce(memory, (self.through_at(self.here), number), told);
    }

    /// What a slot that is there [announces](SlotTable::announce), as its writer says.
    #[cfg(test)]
    pub fn announced(&self, memory: &impl Memory, place: u32, number: u32) -> [u32; 2] {
        announced(memory, (self.through_at(place), number))
    }

    #[inline]
    pub fn has(&self, memory: &impl Memory, place: u32, number: u32) -> bool {
        place < self.members && has(memory, (self.through_at(place), number))
    }

    #[cfg(test)]
    pub fn bytes(&self, memory: &impl Memory, place: u32, number: u32) -> usize {
        let [bytes, _] = self.announced(memory, place, number);
        (bytes as usize).min(SLOT_BYTES_MAX)
    }

    #[cfg(test)]
    pub fn read<R>(
        &self,
        memory: &impl Memory,
        (place, number): (u32, u32),
        bytes: usize,
        reader: impl FnOnce(Payload<'_>) -> R,
    ) -> R {
        read(memory, (self.through_at(place), number), bytes, reader)
    }

    #[cfg(test)]
    pub fn pass(&self, memory: &impl Memory, number: u32) {
        pass(memory, self.through_at(self.here), number);
    }

    #[inline]
    pub fn through(&self, memory: &impl Memory, place: u32) -> u32 {
        memory.word(self.through_at(place)).load(Ordering::Acquire)
    }

    /// Says that this member has written all that it writes for operations up to that number; to be said
    /// where it owes nothing.
    pub fn stand(&self, memory: &impl Memory, number: u32) {
        memory.word(self.through_at(self.here) + COLLECTIVE_SEGMENT_STANDS).store(number, Ordering::Release);
    }

    /// Whether the member at that place has begun the operation of that number, as far as can be seen.
    fn has_begun(&self, memory: &impl Memory, place: u32, number: u32) -> bool {
        self.has_written(memory, place, number) || self.has(memory, place, number)
    }

    /// Whether the member at that place has written all that it writes for the operation of that number, as
    /// far as it has said so.
    fn has_written(&self, memory: &impl Memory, place: u32, number: u32) -> bool {
        let stands = memory.word(self.through_at(place) + COLLECTIVE_SEGMENT_STANDS).load(Ordering::Acquire);
        !is_before(self.through(memory, place), number) || !is_before(stands, number)
    }

    /// Publishes how many operations this member has begun on the message path. A member that reads this
    /// number sees what this member has written before. Called only by the thread that begins such an
    /// operation.
    pub fn say_elsewhere(&self, memory: &impl Memory, begun: u32) {
        memory
            .word(self.through_at(self.here) + COLLECTIVE_SEGMENT_ELSEWHERE)
            .store(begun, Ordering::Release);
    }

    /// What the member at that place has said so.
    fn elsewhere(&self, memory: &impl Memory, place: u32) -> u32 {
        memory.word(self.through_at(place) + COLLECTIVE_SEGMENT_ELSEWHERE).load(Ordering::Acquire)
    }

    /// Publishes that this member has given up the operation that was number `begun` of those it has begun on
    /// the message path: it sends and receives nothing more for it.
    pub fn give_up(&self, memory: &impl Memory, begun: u32) {
        self.given_up(memory, self.here, begun).store(begun, Ordering::Release);
    }

    /// Whether the member at that place has said so of this operation, and of none since whose word is the
    /// same.
    pub fn has_given_up(&self, memory: &impl Memory, place: u32, begun: u32) -> bool {
        place < self.members && self.given_up(memory, place, begun).load(Ordering::Acquire) == begun
    }

    /// Says by which ways operations go from a number on, whatever its bits mean. Both slots are written in
    /// turn, the second one first, and only by who has heard from all others in the operation for which that
    /// was said that stands in the other one: so nobody goes by what is written over.
    pub fn say_ways(&self, memory: &impl Memory, slot: usize, (from, ways): (u32, u32)) {
        let at = self.through_at(self.here) + COLLECTIVE_SEGMENT_WAYS + 8 * slot;
        memory.word(at + 4).store(ways, Ordering::Relaxed);
        memory.word(at).store(from, Ordering::Release);
    }

    /// What the member at that place has said so for that number.
    pub fn ways(&self, memory: &impl Memory, place: u32, number: u32) -> u32 {
        way_at(self.said_ways(memory, place), number)
    }

    /// Both that it has said, one of which may be being written over.
    fn said_ways(&self, memory: &impl Memory, place: u32) -> [(u32, u32); 2] {
        let at = self.through_at(place) + COLLECTIVE_SEGMENT_WAYS;
        [0, 8].map(|slot| {
            let from = memory.word(at + slot).load(Ordering::Acquire);
            (from, memory.word(at + slot + 4).load(Ordering::Relaxed))
        })
    }

    /// Says something of reads of memory. Whatever this member writes afterwards anywhere, others see behind
    /// this.
    pub fn say_of_reads(&self, memory: &impl Memory, word: u32) {
        memory.word(self.through_at(self.here) + COLLECTIVE_SEGMENT_READS).store(word, Ordering::Release);
        heavy_barrier();
    }

    /// What the member at that place has said so.
    pub fn said_of_reads(&self, memory: &impl Memory, place: u32) -> u32 {
        memory.word(self.through_at(place) + COLLECTIVE_SEGMENT_READS).load(Ordering::Acquire)
    }

    /// Where a member says that it has given that operation up.
    fn given_up<'a>(&self, memory: &'a impl Memory, place: u32, begun: u32) -> &'a Word {
        let word = (begun % COLLECTIVE_SEGMENT_GIVEN_UP_WORDS) as usize;
        memory.word(self.through_at(place) + COLLECTIVE_SEGMENT_GIVEN_UP + 4 * word)
    }

    /// Says that this member writes one slot more later than others of it, or never; before anything of what
    /// follows is begun.
    pub fn owe(&self, memory: &impl Memory) {
        self.owed(memory, self.here).fetch_add(1, Ordering::Relaxed);
    }

    /// Says that one of the slots is written that this member has owed; by whichever thread.
    pub fn owe_no_more(&self, memory: &impl Memory) {
        self.owed(memory, self.here).fetch_sub(1, Ordering::Release);
    }

    /// Whether the member at that place owes a slot. Where it does not, all that it has owed is seen.
    pub fn owes(&self, memory: &impl Memory, place: u32) -> bool {
        self.owed(memory, place).load(Ordering::Acquire) != 0
    }

    /// How many slots a member owes.
    fn owed<'a>(&self, memory: &'a impl Memory, place: u32) -> &'a Word {
        memory.word(self.through_at(place) + COLLECTIVE_SEGMENT_OWES)
    }

    /// Whether the member at that place has not written its slot of that number, and never will, as one that
    /// has begun so many operations elsewhere before it can see.
    pub fn will_not_write(&self, memory: &impl Memory, (place, number): (u32, u32), begun: u32) -> bool {
        // What it owes it has said before it is seen to have gone on, and what it has written before it said
        // that it owes no more.
        (self.has_written(memory, place, number) || is_before(begun, self.elsewhere(memory, place)))
            && !self.owes(memory, place)
            && !self.has(memory, place, number)
    }

    /// Whether the member at that place is in an operation after that number, and has not begun so many
    /// elsewhere.
    pub fn has_passed_over(&self, memory: &impl Memory, (place, number): (u32, u32), begun: u32) -> bool {
        // It says what it begins elsewhere before anything can be seen of what it does then.
        self.has_begun(memory, place, number.wrapping_add(1))
            && is_before(self.elsewhere(memory, place), begun)
    }

    /// Gives all of this member's slots the numbers before `number`, as if they had been written and read.
    pub fn renew(&self, memory: &impl Memory, number: u32) {
        self.stand(memory, number.wrapping_sub(1));
        // What was said long ago would be of a number to come.
        let ways = self.ways(memory, self.here, number);
        let [first, second] = self.said_ways(memory, self.here).map(|(from, _)| from);
        let older = usize::from(is_before(second, first));
        self.say_ways(memory, 1 - older, (number, ways));
        self.say_ways(memory, older, (number.wrapping_sub(1), ways));
        for before in (1..=DEPTH).map(|back| number.wrapping_sub(back)) {
            memory.word(self.entry_at(self.here, before)).store(before, Ordering::Relaxed);
        }
    }

    pub fn await_others(&self, memory: &impl Memory) {
        memory.word(self.at + COLLECTIVE_SEGMENT_WAITING).fetch_add(1, Ordering::SeqCst);
    }

    pub fn await_no_more(&self, memory: &impl Memory) {
        memory.word(self.at + COLLECTIVE_SEGMENT_WAITING).fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a member waits that may sleep; to be asked after something was written for it.
    #[cfg(test)]
    pub fn is_awaited(&self, memory: &impl Memory) -> bool {
        is_awaited(memory, self.at)
    }

    /// Where the line stands that says how far a member is; that of the last one for those that do not exist.
    #[inline(always)]
    pub fn through_at(&self, place: u32) -> usize {
        self.at
            + COLLECTIVE_SEGMENT_PLACES
            + place.min(self.members - 1) as usize * COLLECTIVE_SEGMENT_PLACE_BYTES
    }

    /// Where its slot of that number stands.
    #[inline(always)]
    fn entry_at(&self, place: u32, number: u32) -> usize {
        self.through_at(place) + entry_in(number)
    }
}

/// Writes the slot of that number of the member whose place begins at `place`: two parts, one behind the
/// other.
#[inline(always)]
pub fn put(memory: &impl Memory, (place, number): (usize, u32), [front, back]: [Payload<'_>; 2]) {
    debug_assert!(front.bytes() + back.bytes() <= SLOT_BYTES_MAX);
    if back.bytes() == 0 && front.bytes() <= LINE_BYTES_MAX {
        crash::point();
        memory.publish_entry(place + entry_in(number), number, [front.bytes() as u32, 0], front);
        return;
    }
    let front_bytes = fill(memory, (place, number), 0, front);
    let back_bytes = if back.bytes() > 0 { fill(memory, (place, number), front_bytes, back) } else { 0 };
    announce(memory, (place, number), [(front_bytes + back_bytes) as u32, 0]);
}

/// Writes a part of a slot that is not there yet, as far as there is room; how much.
#[inline(always)]
pub fn fill(memory: &impl Memory, (place, number): (usize, u32), at: usize, part: Payload<'_>) -> usize {
    let at = at.min(SLOT_BYTES_MAX);
    let part = part.part(0, SLOT_BYTES_MAX - at);
    memory.put(place + entry_in(number) + COLLECTIVE_SEGMENT_PAYLOAD + at, part);
    part.bytes()
}

/// Makes a slot visible that is written, or whose chunk is, with what it tells, as [`SlotTable::announce`].
#[inline(always)]
pub fn announce(memory: &impl Memory, (place, number): (usize, u32), told: [u32; 2]) {
    let entry = place + entry_in(number);
    memory.put_words(entry + COLLECTIVE_SEGMENT_BYTES_WORD, told);
    crash::point();
    memory.word(entry).store(number, Ordering::Release);
}

/// Whether the slot of that number is there in that place.
#[inline(always)]
pub fn has(memory: &impl Memory, (place, number): (usize, u32)) -> bool {
    memory.word(place + entry_in(number)).load(Ordering::Acquire) == number
}

/// What a slot that is there tells, as [`SlotTable::announced`].
#[inline(always)]
pub fn announced(memory: &impl Memory, (place, number): (usize, u32)) -> [u32; 2] {
    memory.take_words(place + entry_in(number) + COLLECTIVE_SEGMENT_BYTES_WORD)
}

/// Fetches the lines of a slot of so many bytes from that one on, which is read soon.
#[inline(always)]
pub fn fetch(memory: &impl Memory, (place, number): (usize, u32), first: usize, bytes: usize) {
    let entry = place + entry_in(number);
    (first..lines_ahead(bytes)).for_each(|line| memory.prefetch(entry + line * LINE));
}

/// Fetches the lines of a slot of so many bytes that is written soon.
#[inline(always)]
pub fn fetch_to_write(memory: &impl Memory, (place, number): (usize, u32), bytes: usize) {
    let entry = place + entry_in(number);
    (0..lines_ahead(bytes)).for_each(|line| memory.prefetch_to_write(entry + line * LINE));
}

/// Lends so many bytes of the slot in that place.
#[inline(always)]
pub fn read<R>(
    memory: &impl Memory,
    (place, number): (usize, u32),
    bytes: usize,
    reader: impl FnOnce(Payload<'_>) -> R,
) -> R {
    memory.read(place + entry_in(number) + COLLECTIVE_SEGMENT_PAYLOAD, bytes.min(SLOT_BYTES_MAX), reader)
}

/// Publishes that the member whose place begins at `place` has consumed all slots up to `number`.
#[inline(always)]
pub fn pass(memory: &impl Memory, place: usize, number: u32) {
    crash::point();
    memory.word(place).store(number, Ordering::Release);
}

/// Whether a member of the collective segment at `collective_segment` waits that may sleep; to be asked after
/// something was written for it.
#[inline(always)]
pub fn is_awaited(memory: &impl Memory, collective_segment: usize) -> bool {
    // The sleeper pays for the order of this look and what was written before: it arms its bell after it has
    // said that it waits.
    light_barrier();
    memory.word(collective_segment + COLLECTIVE_SEGMENT_WAITING).load(Ordering::Relaxed) != 0
}

/// Where a slot stands in its place.
#[inline(always)]
fn entry_in(number: u32) -> usize {
    2 * LINE + (number % DEPTH) as usize * COLLECTIVE_SEGMENT_ENTRY_BYTES
}

/// The lines of a slot so long that are fetched ahead of their use.
#[inline(always)]
fn lines_ahead(bytes: usize) -> usize {
    ((COLLECTIVE_SEGMENT_PAYLOAD + bytes - 1) / LINE + 1).min(LINES_AHEAD_MAX)
}

/// More lines than that would be taken away from a writer that is still at work on them (decisions/0007).
const LINES_AHEAD_MAX: usize = 4;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use fabric::slots::{Credit, RENEWAL_INTERVAL, is_room};

    use crate::layout::PAGE;
    use crate::memory::Mapped;

    fn founded(members: u32) -> (Mapped, Vec<SlotTable>) {
        let memory = Mapped::heap(2 * PAGE + members as usize * COLLECTIVE_SEGMENT_PLACE_BYTES);
        SlotTable::found(&memory, PAGE, members);
        (memory, (0..members).map(|here| SlotTable::new(PAGE, here, members)).collect())
    }

    #[test]
    fn ways_hold_from_a_number_on_until_others_do() {
        let (memory, members) = founded(2);
        let first = Credit::default().next();
        let ways = |behind: u32| members[1].ways(&memory, 0, first.wrapping_add(behind));
        assert_eq!([0, 1, 1 << 30].map(ways), [0; 3]);
        members[0].say_ways(&memory, 1, (first.wrapping_add(200), 5));
        assert_eq!([0, 199, 200, 1 << 30].map(ways), [0, 0, 5, 5], "also where numbers come round");
        members[0].say_ways(&memory, 0, (first.wrapping_add(300), 6));
        assert_eq!([200, 299, 300].map(ways), [5, 5, 6]);
        let later = first.wrapping_add(RENEWAL_INTERVAL);
        members[0].renew(&memory, later);
        assert_eq!(ways(RENEWAL_INTERVAL), 6);
        let much_later = later.wrapping_add(RENEWAL_INTERVAL);
        members[0].renew(&memory, much_later);
        assert_eq!(
            [0, RENEWAL_INTERVAL].map(|more| members[1].ways(&memory, 0, much_later.wrapping_add(more))),
            [6; 2]
        );
        assert_eq!(members[0].ways(&memory, 1, much_later), 0, "the other has said nothing");
    }

    /// Waits for another thread.
    fn until(so: impl Fn() -> bool) {
        while !so() {
            std::thread::yield_now();
        }
    }

    /// Exchanges and broadcasts in turn, some of them before the numbers come round and some afterwards.
    fn operations(places: SlotTable, memory: &Mapped, operations: u32) {
        let mut credit = Credit::default();
        let others: Vec<u32> = (0..places.members()).filter(|&place| !places.is_here(place)).collect();
        for _ in 0..operations {
            let number = credit.begin();
            let root = number % places.members();
            let writes = |place: &u32| number.is_multiple_of(2) || *place == root;
            if Credit::is_renewal_due(number) {
                let before = number.wrapping_sub(1);
                others.iter().for_each(|&place| until(|| !is_before(places.through(memory, place), before)));
                places.renew(memory, number);
            }
            if writes(&places.here) {
                others.iter().for_each(|&place| until(|| is_room(number, places.through(memory, place))));
                places.put(memory, number, [Payload::from(&[number as u8; 37][..]), Payload::EMPTY]);
            }
            for &place in others.iter().filter(|place| writes(place)) {
                until(|| places.has(memory, place, number));
                assert_eq!(places.bytes(memory, place, number), 37, "operation {number:#x}, place {place}");
                let come = places.read(memory, (place, number), 37, |payload| payload.to_vec());
                assert_eq!(come, [number as u8; 37]);
            }
            places.pass(memory, number);
        }
    }

    #[test]
    fn operations_go_on_where_numbers_come_round() {
        let (memory, members) = founded(3);
        let rounds = if cfg!(miri) { 110 } else { 1000 };
        assert!(Credit::default().number() > u32::MAX - rounds);
        std::thread::scope(|scope| {
            for &places in &members {
                let memory = &memory;
                scope.spawn(move || operations(places, memory, rounds));
            }
        });
    }

    /// Nobody waits for everybody's numbers to come round in a test: their end is played.
    #[test]
    fn what_was_written_a_round_ago_is_no_entry_to_come() {
        let (memory, members) = founded(2);
        members[1].put(&memory, 5, [Payload::from(&[1u8; 3][..]), Payload::EMPTY]);
        assert!(members[0].has(&memory, 1, 5));
        let due: Vec<u32> = (0..4u32).map(|quarter| (quarter + 1).wrapping_mul(1 << 30)).collect();
        assert!(due.iter().all(|&number| Credit::is_renewal_due(number)), "{due:x?}");
        for &number in &due {
            members[1].renew(&memory, number);
            assert!(
                (0..1000).all(|ahead| !members[0].has(&memory, 1, number.wrapping_add(ahead))),
                "{number:#x}"
            );
        }
    }

    /// Who has written a slot is through with all before, but not with what goes on beside.
    #[test]
    fn an_entry_says_nothing_of_operations_that_go_on_beside() {
        let mut credit = Credit::default();
        let ahead = |credit: &Credit, by: u32| credit.has_room(credit.number().wrapping_add(by));
        credit.begin();
        credit.heard_all();
        assert!(ahead(&credit, DEPTH - 1) && !ahead(&credit, DEPTH));
        let beside = credit.begin_pending();
        credit.begin();
        credit.heard_all();
        assert!(!ahead(&credit, DEPTH - 2), "the one beside may still be read");
        credit.all_consumed(beside);
        credit.heard_all();
        assert!(ahead(&credit, DEPTH - 1), "all are through with it");
        let beside = credit.begin_pending();
        (0..=DEPTH).for_each(|_| {
            credit.begin();
            credit.heard_one();
            credit.heard_before(credit.number());
            credit.heard_all();
        });
        assert!(
            !credit.has_room(beside.wrapping_add(DEPTH)),
            "whoever hears one hears nothing of what goes on beside"
        );
        credit.renewed();
        credit.begin();
        credit.heard_all();
        assert!(ahead(&credit, DEPTH - 1), "whoever renews knows that all are through");
    }

    #[test]
    fn a_collective_segment_is_ready_for_its_first_operation() {
        let (memory, members) = founded(2);
        let mut credit = Credit::default();
        assert!((1..=DEPTH).all(|ahead| credit.has_room(credit.number().wrapping_add(ahead))));
        assert!(!credit.has_room(credit.number().wrapping_add(DEPTH + 1)));
        assert_eq!(members[0].through(&memory, 1), credit.number());
        let first = credit.begin();
        assert!((0..8).all(|ahead| !members[0].has(&memory, 1, first.wrapping_add(ahead))));
        credit.heard_all();
        assert!(
            credit.has_room(first.wrapping_add(DEPTH - 1)) && !credit.has_room(first.wrapping_add(DEPTH))
        );
    }
}
