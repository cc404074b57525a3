//! A board: lines that each of some processes of a node writes for all others of them, and nobody else writes.
//!
//! What takes one look of each and no message: a process puts its entry down, and the others find it there. So a barrier of
//! p processes is p lines, and nobody acts for another. `layout` draws what stands where, `places` has what is done there;
//! decisions/0029 says what boards are for.
//!
//! **Order.** Entries have numbers, the same at all members, which grow by one ([`Credit`](fabric::slots::Credit)). A member's entry takes
//! the place of the one [`DEPTH`](fabric::slots::DEPTH) before, so it is written only when all members are
//! [through](Slots::consumed) with that one. Nothing is claimed in common: a member that dies leaves what it has written, and its next entry never comes.

mod reads;

use std::sync::Arc;

use fabric::slots::{MEMBERS_MAX, Ring, Slots, chunk_bytes_max};
use fabric::{Payload, Peer, UserMemory, crash};

use crate::bell::wake;
use crate::layout::{BOARD_PLACE_BYTES, BOARD_PLACES, BOARDS, HEAD_BOARDS};
use crate::memory::{Memory, Window};
use crate::places::{self, Places};
use crate::seat::Seat;
use crate::segment::Segment;
use crate::sync::{Ordering, Word};
use crate::trays::Trays;

/// The boards of a segment, as one process sees them.
#[derive(Clone)]
pub struct Boards {
    segment: Segment,
    /// The peers of this node, by seat.
    peers: Arc<[Peer]>,
    /// Whether processes may read each other's memory, as far as this one has a say in it.
    pull: bool,
}

/// A board, as one of its members has it. Dropping it leaves it; with the last member it is free for others.
pub struct Board {
    segment: Segment,
    number: u32,
    /// The places of all members, as this one has them.
    places: Places,
    /// What is too long for entries.
    trays: Trays,
    /// Whether the memory of those is taken that this member writes, by ring.
    has_trays: [Word; 2],
    /// All members' seats, by their places.
    seats: Vec<Seat>,
    /// Whether this member has left it.
    has_left: Word,
    /// The beginning of the board, and each member's place.
    head: Window<BOARD_PLACES>,
    windows: Box<[Window<BOARD_PLACE_BYTES>]>,
    pull: bool,
    /// The process whose memory this one of two members reads, as soon as that was tried; `reads::REFUSED` where it may not.
    read_from: Word,
}

impl Boards {
    pub(crate) fn new(segment: Segment, peers: &[Peer], pull: bool) -> Boards {
        Boards { segment, peers: peers.into(), pull }
    }

    /// Takes a free board for so many members and makes it ready: its number is for all of them, who must then
    /// [join](Boards::join). `None` where none is free, the members are too many, or there is no memory.
    #[must_use]
    pub fn found(&self, members: u32) -> Option<u32> {
        if members == 0 || members > MEMBERS_MAX {
            return None;
        }
        let number = (0..BOARDS).find(|&number| self.take(number))?;
        let at = self.at(number);
        let bytes = BOARD_PLACES + members as usize * BOARD_PLACE_BYTES;
        if self.segment.reserve(at, bytes).is_err() {
            self.give_back(number);
            return None;
        }
        Places::found(self.segment.memory(), at, members);
        Some(number)
    }

    /// Becomes the member at place `here` of a board that was founded for these processes, in the order of their places.
    /// `None` where there is no such board, or one of them is not of this node.
    #[must_use]
    pub fn join(&self, number: u32, here: u32, members: impl Iterator<Item = Peer>) -> Option<Board> {
        let seat = |peer: Peer| {
            let seat = self.peers.iter().position(|other| *other == peer)? as u32;
            Some(Seat::at(self.segment.layout().seat_at(seat)))
        };
        let seats: Vec<Seat> = members.map(seat).collect::<Option<_>>()?;
        let is_one = number < BOARDS && (here as usize) < seats.len() && seats.len() <= MEMBERS_MAX as usize;
        is_one.then(|| {
            let at = self.at(number);
            let places = Places::new(at, here, seats.len() as u32);
            let trays = Trays::new(at + self.segment.layout().trays_at(), here, seats.len() as u32);
            let (has_left, has_trays) = (Word::new(0), [Word::new(0), Word::new(0)]);
            let head = Window::new(&self.segment, at);
            let window = |place| Window::new(&self.segment, places.through_at(place));
            let windows = (0..seats.len() as u32).map(window).collect();
            let (segment, pull, read_from) = (self.segment.clone(), self.pull, Word::new(reads::UNTRIED));
            Board {
                segment,
                number,
                places,
                trays,
                has_trays,
                seats,
                has_left,
                head,
                windows,
                pull,
                read_from,
            }
        })
    }

    fn at(&self, number: u32) -> usize {
        self.segment.layout().board_at(number)
    }

    /// Takes a board if it is free.
    fn take(&self, number: u32) -> bool {
        let bit = 1 << (number % u32::BITS);
        self.taken(number).fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    fn give_back(&self, number: u32) {
        self.taken(number).fetch_and(!(1 << (number % u32::BITS)), Ordering::Release);
    }

    /// The word with the bit that says whether a board is taken.
    fn taken(&self, number: u32) -> &crate::sync::Word {
        self.segment.memory().word(HEAD_BOARDS + (number / u32::BITS) as usize * 4)
    }
}

impl Board {
    #[inline(always)]
    fn own(&self) -> &Window<BOARD_PLACE_BYTES> {
        &self.windows[self.places.here() as usize]
    }

    /// That member's place; that of the last one for those that do not exist.
    #[inline(always)]
    fn of(&self, place: u32) -> &Window<BOARD_PLACE_BYTES> {
        &self.windows[(place as usize).min(self.windows.len() - 1)]
    }

    #[cold]
    fn take_trays(&self, ring: Ring) -> bool {
        let written = self.trays.written(ring);
        let taken = self.segment.reserve(written.start, written.len()).is_ok();
        self.has_trays[ring as usize].store(taken.into(), Ordering::Relaxed);
        taken
    }

    /// Publishes how many operations this member has begun on the message path, as the thread that begins one, while it has not left;
    /// none at first. It is ordered between what this member has written before and what it writes later, for all that see it.
    pub fn say_elsewhere(&self, begun: u32) {
        if self.has_left.load(Ordering::Relaxed) == 0 {
            self.places.say_elsewhere(self.segment.memory(), begun);
        }
    }

    /// Publishes that this member has given up the last operation of so many that it has begun on the message path: it sends and
    /// receives nothing more for it. Of those that were given up, the last few are known.
    pub fn give_up(&self, begun: u32) {
        if self.has_left.load(Ordering::Relaxed) == 0 {
            self.places.give_up(self.segment.memory(), begun);
        }
    }

    /// Whether the member at that place has [given up](Board::give_up) that operation.
    #[must_use]
    pub fn has_given_up(&self, place: u32, begun: u32) -> bool {
        self.places.has_given_up(self.segment.memory(), place, begun)
    }

    /// Whether the member at that place is seen in an operation after that number, and has not begun so many on the message path.
    #[must_use]
    pub fn has_passed_over(&self, place: u32, number: u32, begun: u32) -> bool {
        self.places.has_passed_over(self.segment.memory(), (place, number), begun)
    }

    /// Wakes the members that sleep, whether any is known to or not.
    #[cold]
    pub fn wake_sleepers(&self) {
        let memory = self.segment.memory();
        for (place, seat) in (0..).zip(&self.seats) {
            if !self.places.is_here(place) && seat.must_wake(memory) {
                wake(memory, *seat);
            }
        }
    }
}

impl Slots for Board {
    #[inline(always)]
    fn members(&self) -> u32 {
        self.places.members()
    }

    #[inline(always)]
    fn put(&self, number: u32, parts: [Payload<'_>; 2]) {
        places::put(self.own(), (0, number), parts);
    }

    #[inline]
    fn fill(&self, number: u32, at: usize, part: Payload<'_>) {
        self.places.fill(self.segment.memory(), number, at, part);
    }

    #[inline]
    fn post(&self, number: u32, bytes: usize) {
        self.places.post(self.segment.memory(), number, bytes);
    }

    #[inline(always)]
    fn has(&self, member: u32, number: u32) -> bool {
        self.windows.get(member as usize).is_some_and(|window| places::has(window, (0, number)))
    }

    #[inline(always)]
    fn has_all(&self, member: u32, number: u32, bytes: usize) -> bool {
        places::fetch(self.of(member), (0, number), 1, bytes);
        self.has(member, number)
    }

    #[inline(always)]
    fn prefetch(&self, member: u32, number: u32, bytes: usize) {
        places::fetch(self.of(member), (0, number), 0, bytes);
    }

    #[inline(always)]
    fn prefetch_own(&self, number: u32, bytes: usize) {
        places::fetch_to_write(self.own(), (0, number), bytes);
    }

    #[inline(always)]
    fn read<R>(&self, member: u32, number: u32, bytes: usize, reader: impl FnOnce(Payload<'_>) -> R) -> R {
        places::read(self.of(member), (0, number), bytes, reader)
    }

    #[inline]
    fn can_send_chunks(&self, ring: Ring) -> bool {
        self.has_trays[ring as usize].load(Ordering::Relaxed) != 0 || self.take_trays(ring)
    }

    #[inline]
    fn send_chunk(&self, (ring, number): (Ring, u32), told: [u32; 2], parts: [Payload<'_>; 2]) {
        debug_assert!(parts[0].bytes() + parts[1].bytes() <= chunk_bytes_max(self.members()));
        self.trays.put(self.segment.memory(), (ring, number), parts);
        self.places.announce(self.segment.memory(), number, told);
    }

    #[inline]
    fn fill_chunk(&self, (ring, number): (Ring, u32), bytes: usize, write: impl FnOnce(&mut UserMemory)) {
        debug_assert!(bytes <= chunk_bytes_max(self.members()));
        self.trays.make(self.segment.memory(), (ring, number), bytes, write);
    }

    #[inline]
    fn announce_chunk(&self, number: u32, told: [u32; 2]) {
        self.places.announce(self.segment.memory(), number, told);
    }

    #[inline]
    fn read_chunk<R>(
        &self,
        (ring, member, number): (Ring, u32, u32),
        bytes: usize,
        reader: impl FnOnce(Payload<'_>) -> R,
    ) -> R {
        self.trays.read(self.segment.memory(), (ring, member, number), bytes, reader)
    }

    #[inline(always)]
    fn announced(&self, member: u32, number: u32) -> [u32; 2] {
        places::announced(self.of(member), (0, number))
    }

    #[inline(always)]
    fn consume(&self, number: u32) {
        places::pass(self.own(), 0, number);
    }

    #[inline(always)]
    fn consumed(&self, member: u32) -> u32 {
        self.places.through(self.segment.memory(), member)
    }

    fn stand(&self, number: u32) {
        self.places.stand(self.segment.memory(), number);
    }

    fn prefer(&self, which: u32) {
        self.places.prefer(self.segment.memory(), which);
    }

    fn preferred(&self, member: u32) -> u32 {
        self.places.preferred(self.segment.memory(), member)
    }

    fn publish_ways(&self, slot: usize, from_ways: (u32, u32)) {
        self.places.say_ways(self.segment.memory(), slot & 1, from_ways);
    }

    fn ways(&self, member: u32, number: u32) -> u32 {
        self.places.ways(self.segment.memory(), member, number)
    }

    fn owe(&self) {
        self.places.owe(self.segment.memory());
    }

    fn owe_no_more(&self) {
        self.places.owe_no_more(self.segment.memory());
    }

    fn owes(&self) -> bool {
        self.places.owes(self.segment.memory(), self.places.here())
    }

    fn will_not_write(&self, member: u32, number: u32, by_messages: u32) -> bool {
        self.places.will_not_write(self.segment.memory(), (member, number), by_messages)
    }

    #[cold]
    fn renew(&self, number: u32) {
        self.places.renew(self.segment.memory(), number);
    }

    fn await_others(&self) {
        self.places.await_others(self.segment.memory());
    }

    fn await_no_more(&self) {
        self.places.await_no_more(self.segment.memory());
    }

    #[inline(always)]
    fn wake(&self) {
        crash::point();
        if places::is_awaited(&self.head, 0) {
            self.wake_sleepers();
        }
    }

    fn can_both_read(&self) -> bool {
        self.both_read()
    }

    fn lend(&self, memory: Payload<'_>) -> u64 {
        memory.start().expose_provenance() as u64
    }

    fn fetch(&self, address: u64, into: &mut UserMemory) -> bool {
        self.fetch_from_other(address, into)
    }

    #[cold]
    fn withdraw(&self) {
        self.places.say_of_reads(self.segment.memory(), reads::WITHDRAWN);
    }

    fn has_peer_withdrawn(&self) -> bool {
        self.said_by_other() == reads::WITHDRAWN
    }
}

impl Board {
    /// Leaves it, once: nothing of it may be used afterwards. With the last member that lives it is free for others: each tells
    /// which members, by their places, it knows to be dead.
    pub fn leave(&self, dead: &[u32]) {
        if self.has_left.swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        // A peer may write any number there; the board is then lost, or shared by members who do not know of each other and
        // get nonsense from it. Nothing else comes of it.
        if self.places.leave(self.segment.memory(), dead) {
            Boards { segment: self.segment.clone(), peers: Arc::new([]), pull: false }.give_back(self.number);
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.leave(&[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::slots::{Credit, DEPTH, LINE_BYTES_MAX, SLOT_BYTES_MAX};

    fn boards(seats: u32) -> Boards {
        let segment = Segment::adopt(Segment::create(seats).unwrap(), seats).unwrap();
        Boards::new(segment, &(10..10 + seats).map(Peer).collect::<Vec<_>>(), false)
    }

    fn all(boards: &Boards, members: u32) -> Vec<Board> {
        let number = boards.found(members).unwrap();
        (0..members).map(|here| boards.join(number, here, (10..10 + members).map(Peer)).unwrap()).collect()
    }

    #[test]
    fn an_entry_is_seen_by_all_and_under_its_number_alone() {
        let members = all(&boards(3), 3);
        let data: Vec<u8> = (0..200).collect();
        members[1].put(1, [Payload::from(&data[..150]), Payload::from(&data[150..])]);
        for member in &members {
            assert!(member.has(1, 1) && !member.has(0, 1) && !member.has(1, 2) && !member.has(1, 1 + DEPTH));
            assert_eq!(
                member.read(1, 1, member.announced(1, 1)[0] as usize, |payload| payload.to_vec()),
                data
            );
        }
        members[1].put(2, [Payload::EMPTY; 2]);
        assert!(members[0].has(1, 1) && members[0].has(1, 2), "the last few stay");
        assert!(!members[0].has(3, 1), "there is no such member");
    }

    /// An entry of one line is written in one step, and is as any other.
    #[test]
    fn entries_of_any_length_are_alike() {
        let members = all(&boards(2), 2);
        let data: Vec<u8> = (0..SLOT_BYTES_MAX).map(|at| at as u8).collect();
        for number in 1..=4 * DEPTH {
            let (writer, reader) = (number % 2, 1 - number % 2);
            let bytes = number as usize * 7 % (2 * LINE_BYTES_MAX);
            assert!(!members[reader as usize].has(writer, number));
            members[writer as usize].put(number, [Payload::from(&data[..bytes]), Payload::EMPTY]);
            assert!(!members[writer as usize].has(reader, number), "that is the other's");
            let reader = &members[reader as usize];
            assert!(reader.has(writer, number) && reader.has_all(writer, number, bytes));
            assert_eq!(reader.announced(writer, number), [bytes as u32, 0]);
            assert_eq!(reader.read(writer, number, bytes, |payload| payload.to_vec()), data[..bytes]);
            members[writer as usize].consume(number);
            assert_eq!(reader.consumed(writer), number);
        }
    }

    #[test]
    fn members_say_how_far_they_are() {
        let members = all(&boards(2), 2);
        let before = Credit::default().number();
        assert_eq!([0, 1].map(|place| members[0].consumed(place)), [before, before]);
        members[1].consume(7);
        assert_eq!([0, 1].map(|place| members[0].consumed(place)), [before, 7]);
    }

    #[test]
    fn members_say_where_they_stand_and_what_they_do_elsewhere() {
        let members = all(&boards(3), 3);
        let first = Credit::default().next();
        let (before, second) = (first.wrapping_sub(1), first.wrapping_add(1));
        let [one, other, third] = &members[..] else { unreachable!("there are three") };
        assert!(
            (0..3)
                .all(|place| !one.will_not_write(place, first, 0) && !one.has_passed_over(place, before, 1))
        );
        other.put(first, [Payload::EMPTY; 2]);
        assert!(one.has_passed_over(1, before, 1) && !one.has_passed_over(1, before, 0));
        assert!(!one.will_not_write(1, first, 0) && !one.has_passed_over(1, first, 1));
        third.stand(first);
        assert!(one.will_not_write(2, first, 0) && !one.will_not_write(2, second, 0));
        assert!(one.has_passed_over(2, before, 1) && !one.has_passed_over(2, first, 1));
        one.consume(first);
        assert!(other.will_not_write(0, first, 0), "who is through has written what it had to");
        other.say_elsewhere(14);
        assert!(one.will_not_write(1, second, 13) && !one.will_not_write(1, second, 14));
        assert!(!one.has_passed_over(1, before, 14) && one.has_passed_over(1, before, 15));
        other.owe();
        other.owe();
        other.owe_no_more();
        assert!(other.owes() && !one.owes() && !one.will_not_write(1, second, 13), "it may write it yet");
        other.owe_no_more();
        assert!(!other.owes() && one.will_not_write(1, second, 13));
    }

    #[test]
    fn members_say_what_they_have_given_up() {
        let boards = boards(2);
        let members = all(&boards, 2);
        let asked = |begun: u32| members[0].has_given_up(1, begun);
        let around = || (0..20u32).chain((0..20).map(|back| u32::MAX - back));
        assert!(around().all(|begun| !asked(begun)), "nothing is given up at first, wherever numbers are");
        members[1].give_up(3);
        members[1].give_up(4);
        assert!(around().all(|begun| asked(begun) == (begun == 3 || begun == 4)));
        assert!(
            !members[1].has_given_up(0, 3) && !members[0].has_given_up(2, 3),
            "that one, and nobody else"
        );
        members[1].give_up(11);
        assert!(asked(11) && asked(4) && !asked(3), "the last few");
        members[1].leave(&[]);
        members[1].give_up(5);
        assert!(!asked(5), "who has left says nothing on what may be others' board");
    }

    /// What somebody said half a round ago does not come true by itself.
    #[test]
    fn who_renews_says_where_it_stands() {
        let members = all(&boards(2), 2);
        let first = Credit::default().next();
        let late = first.wrapping_add(1 << 31);
        members[1].stand(first);
        members[1].consume(late);
        assert!(members[0].will_not_write(1, late.wrapping_add(1), 0), "it is as if it had said so");
        members[1].renew(late.wrapping_add(1));
        assert!(!members[0].will_not_write(1, late.wrapping_add(1), 0));
    }

    #[test]
    fn who_sleeps_is_woken_where_somebody_waits() {
        let members = all(&boards(2), 2);
        let (memory, seat) = (members[0].segment.memory(), members[1].seats[1]);
        let armed = seat.arm(memory);
        members[0].wake();
        assert_eq!(seat.bell(memory).load(Ordering::Relaxed), armed, "that one waits for something else");
        members[1].await_others();
        members[1].wake();
        assert_eq!(seat.bell(memory).load(Ordering::Relaxed), armed, "nobody wakes itself");
        members[0].wake();
        assert_ne!(seat.bell(memory).load(Ordering::Relaxed), armed);
        members[1].await_no_more();
        assert!(!members[0].places.is_awaited(memory));
    }

    #[test]
    fn entries_of_the_largest_board_stand_apart() {
        let members = all(&boards(64), MEMBERS_MAX);
        let of = |place: u32, number: u32| vec![(place * DEPTH + number) as u8; SLOT_BYTES_MAX];
        for number in 1..=DEPTH {
            for (place, member) in members.iter().enumerate() {
                member.put(number, [Payload::from(&of(place as u32, number)[..]), Payload::EMPTY]);
                member.consume(number);
            }
        }
        for (place, number) in (0..MEMBERS_MAX).flat_map(|place| (1..=DEPTH).map(move |n| (place, n))) {
            assert!(members[0].has(place, number));
            let found =
                members[0].read(place, number, members[0].announced(place, number)[0] as usize, |payload| {
                    payload.to_vec()
                });
            assert_eq!(found, of(place, number), "place {place}, entry {number}");
            assert_eq!(members[0].consumed(place), DEPTH);
        }
    }

    #[test]
    fn a_board_is_free_again_with_its_last_member_and_clean() {
        let boards = boards(2);
        let numbers: Vec<u32> = std::iter::from_fn(|| boards.found(2)).take(1000).collect();
        assert_eq!(numbers.len(), BOARDS as usize, "each is had once");
        let join = |here| boards.join(numbers[5], here, [10, 11].map(Peer).into_iter()).unwrap();
        let (first, second) = (join(0), join(1));
        first.put(1, [Payload::EMPTY; 2]);
        first.consume(9);
        drop(first);
        assert_eq!(boards.found(2), None, "the other member still looks at it");
        drop(second);
        assert_eq!(boards.found(2), Some(numbers[5]));
        let again = join(0);
        assert!(!again.has(0, 1) && again.consumed(0) == Credit::default().number());
    }

    #[test]
    fn those_who_live_give_back_the_board_of_the_dead_as_well() {
        for members in [2, 3, 32, 33, 64] {
            let boards = boards(64);
            let mut left = all(&boards, members);
            let number = left[0].number;
            // The last one has died, and has not left.
            std::mem::forget(left.pop());
            let last = left.pop().unwrap();
            left.iter().for_each(|board| board.leave(&[]));
            drop(left);
            assert_ne!(boards.found(1), Some(number), "one who lives looks at it, {members} members");
            last.leave(&[members - 1]);
            drop(last);
            assert!((0..BOARDS).any(|_| boards.found(1) == Some(number)), "{members} members");
        }
    }

    #[test]
    fn what_is_no_board_is_none() {
        let boards = boards(2);
        assert_eq!(boards.found(0), None);
        assert_eq!(boards.found(MEMBERS_MAX + 1), None);
        let members = || [10, 11].map(Peer).into_iter();
        assert!(boards.join(BOARDS, 0, members()).is_none() && boards.join(0, 2, members()).is_none());
        assert!(boards.join(0, 0, [10, 99].map(Peer).into_iter()).is_none(), "process 99 is elsewhere");
    }

    #[test]
    fn without_memory_there_is_none_and_none_is_lost() {
        let segment = Segment::adopt(Segment::create(2).unwrap(), 2).unwrap().on_a_full_machine();
        let boards = Boards::new(segment, &[10, 11].map(Peer), false);
        assert!((0..2 * BOARDS).all(|_| boards.found(2).is_none()));
        assert!(boards.take(0), "it was given back");
    }
}
