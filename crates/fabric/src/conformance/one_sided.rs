//! The part of the suite for fabrics that use memory of peers without their doing.

use super::Pair;
use super::wired::{Heard, Sending, Watchdog, Wired, fewer_for_miri, numbered, pattern};
use crate::{
    Atomic, Attached, Begun, Change, Elements, Fabric, FabricError, Heap, KEY_BYTES_MAX, OneSided, Payload,
    Peer, Scalar, UserMemory,
};

/// What is put arrives as it was, in its place and nowhere else, and what is gotten is what is there.
pub fn puts_and_gets_of_every_size<P: Pair>()
where
    P::Fabric: OneSided,
{
    let sizes = [1, 2, 7, 8, 9, 63, 1000, 4096, 4097, 70_000, 300_000].map(fewer_for_miri);
    let mut one = Sides::open::<P>(sizes.iter().sum::<usize>() + 2 * sizes.len());
    let abilities = one.wire.right.abilities(one.wire.to_left);
    let mut expected = one.memory.payload().to_vec();
    let mut offset = 1;
    for (number, bytes) in sizes.into_iter().enumerate() {
        let data = pattern(bytes, number as u64);
        if abilities.put {
            one.put(offset, &data).expect("a put succeeds");
            expected[offset..offset + bytes].copy_from_slice(&data);
            assert!(one.memory.payload().to_vec() == expected, "{bytes} bytes put at {offset}");
        }
        if abilities.get {
            let room = Heap::new(bytes);
            one.get(offset, &room).expect("a get succeeds");
            assert!(room.payload().to_vec() == expected[offset..offset + bytes], "{bytes} bytes at {offset}");
        }
        offset += bytes + 1;
    }
    assert!(abilities.get, "nothing can be gotten");
    one.over();
}

/// Many at once in both ways, and messages between them: each ends once, with its own bytes.
pub fn puts_and_gets_many_at_once<P: Pair>()
where
    P::Fabric: OneSided,
{
    let (each, count) = (fewer_for_miri(20_000), if cfg!(miri) { 10 } else { 40 });
    let mut one = Sides::open::<P>(each * count);
    let abilities = one.wire.right.abilities(one.wire.to_left);
    let data: Vec<Heap> = (0..count).map(|number| filled(&pattern(each - number, number as u64))).collect();
    let rooms: Vec<Heap> = data.iter().map(|data| Heap::new(data.bytes())).collect();
    for puts in [true, false] {
        if puts && !abilities.put {
            for (number, data) in data.iter().enumerate() {
                one.memory.memory().write_at(number * each, data.payload());
            }
            continue;
        }
        for (number, data) in data.iter().enumerate() {
            let place = (one.there, number * each);
            one.begin(number as u64, |fabric, lane, ticket| match puts {
                true => fabric.put(lane, data.memory(), place, ticket),
                false => fabric.get(lane, place, rooms[number].memory(), ticket),
            });
            if number % 5 == 0 {
                one.wire.send_right(&numbered(number as u32), b"between");
            }
        }
        one.end_all();
        for (number, data) in data.iter().enumerate() {
            let (there, data) =
                (one.memory.payload().part(number * each, data.bytes()), data.payload().to_vec());
            assert!(there.to_vec() == data, "put {number}");
            assert!(puts || rooms[number].payload().to_vec() == data, "get {number}");
        }
    }
    for number in (0..count).step_by(5) {
        for _ in 0..1 + usize::from(abilities.put) {
            assert!(one.wire.take_right().0.words[0].is_multiple_of(5), "message {number}");
        }
    }
    one.over();
}

/// Each atomic that is offered changes what it must and fetches what was there; what is not offered is
/// refused.
pub fn atomics_do_what_they_say<P: Pair>()
where
    P::Fabric: OneSided,
{
    let mut one = Sides::open::<P>(64);
    let values = [[3u8, 0xf0, 0, 1, 2, 0x3f, 0x80, 0x3f], [1, 0, 0, 0, 0, 0, 0x40, 0x40]].concat();
    for change in Change::ALL {
        for scalar in Scalar::ALL {
            for fetches in [true, false] {
                let atomic = Atomic { change, scalar };
                let count = one.wire.right.atomic_count_max(one.wire.to_left, atomic, fetches);
                assert!(count == 0 || atomic.is_defined(), "{atomic:?} is offered");
                if atomic.is_defined() && !(change.compares() || change == Change::Read) | fetches {
                    one.one_atomic(atomic, count.min(3), fetches, &values);
                }
            }
        }
    }
    one.over();
}

/// What a key does not cover is refused before anything goes out, as is what lies askew, or has no sense.
pub fn what_is_beyond_the_end_is_refused<P: Pair>()
where
    P::Fabric: OneSided,
{
    let mut one = Sides::open::<P>(100);
    let before = one.memory.payload().to_vec();
    let (lane, there) = (one.wire.to_left, one.there);
    for (offset, bytes) in [(0, 101), (93, 8), (100, 1), (101, 1), (usize::MAX, 1), (usize::MAX - 3, 8)] {
        let (data, room) = (filled(&vec![7; bytes]), Heap::new(bytes));
        let put = one.wire.right.put(lane, data.memory(), (there, offset), 1);
        let get = one.wire.right.get(lane, (there, offset), room.memory(), 2);
        assert_eq!((put, get), (Begun::Refused, Begun::Refused), "{bytes} bytes at {offset}");
    }
    let sum = Atomic { change: Change::Sum, scalar: Scalar::U32 };
    let swap = Atomic { change: Change::SwapIfEqual, ..sum };
    let (operand, fetched) = (7u32.to_ne_bytes(), Heap::new(4));
    let nothing = || (Payload::EMPTY, UserMemory::EMPTY);
    for (atomic, count, offset, (compare, fetched)) in [
        (sum, 1, 100, nothing()),
        (sum, 1, 98, nothing()),
        (sum, 1, 2, nothing()),
        (sum, 2, 0, nothing()),
        (sum, 0, 0, nothing()),
        (sum, 1, 0, (Payload::from(&operand[..]), UserMemory::EMPTY)),
        (sum, 1, 0, (Payload::EMPTY, fetched.memory().part(0, 3))),
        (swap, 1, 0, (Payload::EMPTY, fetched.memory())),
        (Atomic { change: Change::BitAnd, scalar: Scalar::F32 }, 1, 0, nothing()),
        (sum, usize::MAX / 2, 0, nothing()),
    ] {
        let elements = Elements { count, operand: Payload::from(&operand[..]), compare, fetched };
        let begun = one.wire.right.atomic(lane, atomic, elements, (there, offset), 3);
        assert_eq!(begun, Begun::Refused, "{atomic:?} of {count} at {offset}");
    }
    assert!(one.memory.payload().to_vec() == before, "something was changed");
    one.over();
}

/// Keys come from outside: nonsense, and those of memory that is detached, end as failed, or cost the peer
/// where the network breaks with it. Nothing is changed by them.
pub fn keys_that_are_none_harm_nobody<P: Pair>()
where
    P::Fabric: OneSided,
{
    let mut one = Sides::open::<P>(5000);
    let before = one.memory.payload().to_vec();
    assert!(one.wire.right.remote(one.wire.to_left, &[]).is_none());
    let mut keys: Vec<Vec<u8>> = (0..=KEY_BYTES_MAX).map(|bytes| pattern(bytes, 77 + bytes as u64)).collect();
    let other = Heap::new(6000);
    let (attached, stale) = one.wire.left.attach(other.memory()).expect("memory is attached");
    one.wire.left.detach(attached);
    keys.push(stale);
    one.wire.may_break();
    for key in keys {
        let Some(there) = one.wire.right.remote(one.wire.to_left, &key) else { continue };
        for bytes in [8, 4500] {
            let (data, room) = (filled(&vec![9; bytes]), Heap::new(bytes));
            let put = one.run(|fabric, lane, ticket| fabric.put(lane, data.memory(), (there, 0), ticket));
            let get = one.run(|fabric, lane, ticket| fabric.get(lane, (there, 0), room.memory(), ticket));
            assert!(put.is_err() && get.is_err(), "{key:?}: {put:?}, {get:?}");
        }
        let operand = [1u8; 8];
        let sum = Atomic { change: Change::Sum, scalar: Scalar::U64 };
        let summed = one.run(|fabric, lane, ticket| {
            let (compare, fetched) = (Payload::EMPTY, UserMemory::EMPTY);
            let elements = Elements { count: 1, operand: Payload::from(&operand[..]), compare, fetched };
            fabric.atomic(lane, sum, elements, (there, 0), ticket)
        });
        assert!(summed.is_err(), "{key:?}: {summed:?}");
    }
    assert!(one.memory.payload().to_vec() == before && other.payload().to_vec() == [0; 6000]);
    let room = Heap::new(before.len());
    one.goes_on();
    assert!(
        one.get(0, &room).is_ok() || one.wire.right_heard.lost == 1,
        "what was right before is wrong now"
    );
    one.over();
}

/// Memory that is detached while others write to it: each write ends, and nobody else notices.
pub fn detaches_while_others_write<P: Pair>()
where
    P::Fabric: OneSided,
{
    let bytes = fewer_for_miri(50_000);
    let mut one = Sides::open::<P>(bytes);
    if one.wire.right.abilities(one.wire.to_left).put {
        let data = filled(&pattern(bytes, 3));
        for number in 0..20 {
            let part = || data.memory().part(0, bytes >> (number % 7));
            let place = (one.there, 0);
            one.begin(number, |fabric, lane, ticket| fabric.put(lane, part(), place, ticket));
        }
        one.wire.left.detach(one.attached);
        one.wire.may_break();
        one.wait();
        one.wire.right_heard.done.clear();
        assert!(one.put(0, &[1; 8]).is_err(), "what is detached was written");
    }
    one.goes_on();
    one.over();
}

/// The owner goes with everything under way: each operation ends, and those begun afterwards do not last for
/// ever.
pub fn ends_all_when_the_peer_goes<P: Pair>()
where
    P::Fabric: OneSided,
{
    let bytes = fewer_for_miri(50_000);
    let mut one = Sides::open::<P>(bytes);
    let rooms: Vec<Heap> = (0..20).map(|number| Heap::new(bytes >> (number % 7))).collect();
    for (number, room) in rooms.iter().enumerate() {
        let place = (one.there, 0);
        one.begin(number as u64, |fabric, lane, ticket| fabric.get(lane, place, room.memory(), ticket));
    }
    let Sides { wire, under_way, .. } = one;
    let Wired { left, mut right, mut right_heard, .. } = wire;
    drop(left);
    right_heard.may_lose = true;
    let watchdog = Watchdog::start("ends_all_when_the_peer_goes");
    while right_heard.done.len() < under_way {
        right.poll(&mut right_heard, 16);
        watchdog.check(|| format!("{} of {under_way} have ended", right_heard.done.len()));
    }
    let mut tickets: Vec<u64> = right_heard.done.iter().map(|(ticket, _)| *ticket).collect();
    tickets.sort_unstable();
    tickets.dedup();
    assert_eq!(tickets.len(), under_way, "one has ended twice");
}

/// Memory with these bytes.
fn filled(data: &[u8]) -> Heap {
    let heap = Heap::new(data.len());
    heap.memory().write_at(0, Payload::from(data));
    heap
}

/// Two ends, of which the right uses memory of the left.
struct Sides<F: OneSided> {
    wire: Wired<F>,
    memory: Heap,
    attached: Attached,
    there: F::Remote,
    /// Operations that were begun, and are to end by a report.
    under_way: usize,
}

impl<F: OneSided> Sides<F> {
    fn open<P: Pair<Fabric = F>>(bytes: usize) -> Self {
        let mut wire = Wired::open::<P>();
        // As aligned as any element, for atomics.
        let heaps = std::iter::repeat_with(|| Heap::new(bytes));
        let mut taken = Vec::new();
        let memory = heaps
            .inspect(|heap| taken.push(heap.clone()))
            .find(|heap| heap.payload().start().addr().is_multiple_of(8))
            .expect("heaps do not end");
        memory.memory().write_at(0, Payload::from(&pattern(bytes, 55)[..]));
        let (attached, key) = wire.left.attach(memory.memory()).expect("memory is attached");
        assert!(key.len() <= KEY_BYTES_MAX, "a key of {} bytes", key.len());
        let there = wire.right.remote(wire.to_left, &key).expect("a key that was just made");
        Sides { wire, memory, attached, there, under_way: 0 }
    }

    /// Begins an operation that the fabric has.
    fn begin(&mut self, ticket: u64, mut act: impl FnMut(&mut F, F::Lane, u64) -> Begun) {
        let watchdog = Watchdog::start("begin");
        loop {
            match act(&mut self.wire.right, self.wire.to_left, ticket) {
                Begun::Done => return,
                Begun::Underway => return self.under_way += 1,
                Begun::Busy => {}
                Begun::Refused => panic!("what the fabric offers was refused"),
            }
            self.wire.turn();
            watchdog.check(|| self.wire.state());
        }
    }

    /// Waits until all have ended.
    fn wait(&mut self) {
        let watchdog = Watchdog::start("one-sided operations");
        while self.wire.right_heard.done.len() < self.under_way {
            self.wire.turn();
            watchdog.check(|| {
                let (ended, begun) = (self.wire.right_heard.done.len(), self.under_way);
                format!("{ended} of {begun} have ended; {}", self.wire.state())
            });
        }
        self.under_way = 0;
    }

    /// Waits until all operations have ended, and checks that each has ended well and once.
    fn end_all(&mut self) {
        self.wait();
        let mut tickets = Vec::new();
        for (ticket, outcome) in self.wire.right_heard.done.drain(..) {
            outcome.expect("all end well");
            assert!(!tickets.contains(&ticket), "{ticket} has ended twice");
            tickets.push(ticket);
        }
    }

    /// Runs one operation to its end; a refusal is an error without words.
    fn run(&mut self, mut act: impl FnMut(&mut F, F::Lane, u64) -> Begun) -> Result<(), Option<FabricError>> {
        const TICKET: u64 = 0xdead_beef_0000_0007;
        let watchdog = Watchdog::start("an operation");
        loop {
            match act(&mut self.wire.right, self.wire.to_left, TICKET) {
                Begun::Done => return Ok(()),
                Begun::Underway => break,
                Begun::Busy => {}
                Begun::Refused => return Err(None),
            }
            self.wire.turn();
            watchdog.check(|| self.wire.state());
        }
        self.under_way = 1;
        self.wait();
        let heard: &mut Heard = &mut self.wire.right_heard;
        let [(ticket, outcome)] = <[_; 1]>::try_from(std::mem::take(&mut heard.done)).expect("one has ended");
        assert_eq!(ticket, TICKET);
        outcome.map_err(Some)
    }

    fn put(&mut self, offset: usize, data: &[u8]) -> Result<(), Option<FabricError>> {
        let (there, data) = ((self.there, offset), filled(data));
        self.run(|fabric, lane, ticket| fabric.put(lane, data.memory(), there, ticket))
    }

    fn get(&mut self, offset: usize, room: &Heap) -> Result<(), Option<FabricError>> {
        let there = (self.there, offset);
        self.run(|fabric, lane, ticket| fabric.get(lane, there, room.memory(), ticket))
    }

    /// Does an atomic on elements that are there as `values` say, and compares with the model.
    fn one_atomic(&mut self, atomic: Atomic, count: usize, fetches: bool, values: &[u8]) {
        let element = atomic.scalar.bytes();
        let elements = count.max(1);
        let bytes = elements * element;
        let offset = 16;
        let old: Vec<u8> = values.iter().copied().cycle().take(bytes).collect();
        let operand: Vec<u8> = values.iter().copied().cycle().skip(8).take(bytes).collect();
        // The first is equal, others are not.
        let compare: Vec<u8> = [&old[..element], &operand[element..]].concat();
        self.memory.memory().write_at(offset, Payload::from(&old[..]));
        let mut expected = self.memory.payload().to_vec();
        let of = |data: &Vec<u8>, is_wanted: bool| if is_wanted { data.clone() } else { Vec::new() };
        let (operand, compare) =
            (of(&operand, atomic.change.has_operand()), of(&compare, atomic.change.compares()));
        let fetched = Heap::new(if fetches { bytes } else { 0 });
        let there = (self.there, offset);
        let ended = self.run(|fabric, lane, ticket| {
            let elements = Elements {
                count: elements,
                operand: Payload::from(&operand[..]),
                compare: Payload::from(&compare[..]),
                fetched: fetched.memory(),
            };
            fabric.atomic(lane, atomic, elements, there, ticket)
        });
        if count > 0 {
            ended.unwrap_or_else(|error| panic!("{atomic:?}: {error:?}"));
            atomic.apply(&mut expected[offset..offset + bytes], &operand, &compare);
            assert!(!fetches || fetched.payload().to_vec() == old, "{atomic:?} has fetched something else");
        } else {
            assert!(
                ended.is_err_and(|error| error.is_none()),
                "{atomic:?} is not offered, and was not refused"
            );
        }
        assert_eq!(self.memory.payload().to_vec(), expected, "{atomic:?}, {elements} elements");
    }

    /// Messages go as before, unless the network has broken with the peer, of which is told once.
    fn goes_on(&mut self) {
        let mut sending = Sending::new(numbered(1), b"after");
        let watchdog = Watchdog::start("a message afterwards");
        while self.wire.right_heard.whole.is_empty() && self.wire.right_heard.lost == 0 {
            sending.push(&mut self.wire.left, self.wire.to_right);
            self.wire.turn();
            watchdog.check(|| self.wire.state());
        }
        let (heard, lost) = (self.wire.right_heard.whole.pop_front(), self.wire.right_heard.lost);
        assert!(heard.is_some_and(|message| message.1 == b"after") || lost == 1, "lost {lost} times");
    }

    /// Nothing came that nobody has asked for.
    fn over(mut self) {
        self.wire.turn();
        assert!(self.wire.right_heard.done.is_empty() && self.wire.left_heard.done.is_empty());
        assert_eq!(self.wire.left_heard.from, Peer(1));
    }
}
