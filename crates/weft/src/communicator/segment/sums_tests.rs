//! Long sums of two that go by halves or as a whole, whichever has turned out to be quicker.

use collectives::node::chunking::{HALVES_FROM, LONG_FROM, ReduceScatterAllgather};
use collectives::{Collective, Each};
use fabric::slots::Ring;
use fabric::tuner::Alternative;
use job::error::Class;

use super::chunks_tests::{Elements, on_a_segment, on_cores};
use super::{Combining, Communicator};
use crate::memory::{reading, writing};

/// Sums up elements of so many bytes, so many in all; whether that went by halves.
fn is_by_halves(world: &Communicator, element_bytes: usize, bytes: usize, in_place: bool) -> bool {
    let next = || world.handle().unwrap().turn.try_hold().unwrap().credit.next();
    let elements = Elements { bytes: element_bytes, count: bytes / element_bytes };
    let first = next();
    let sum = elements.perform(world, Collective::Allreduce(elements.reduction(in_place)), in_place);
    assert!(sum == elements.of(0, 2), "{bytes} bytes of elements of {element_bytes}, in place {in_place}");
    let gone = next().wrapping_sub(first);
    let bytes = elements.count * element_bytes;
    [None, Some(Ring::Short)]
        .into_iter()
        .any(|ring| ReduceScatterAllgather::of(world.rank(), bytes, element_bytes, ring).chunks() == gone)
}

/// Both try it; from then on they go that way, but for a few that try the other one.
fn go(world: &Communicator, way: Alternative) {
    for _ in 0..3 {
        is_by_halves(world, 8, HALVES_FROM, false);
    }
    world.handle().unwrap().turn.try_hold().unwrap().turned_out(way);
    for bytes in [1, 2, 4, 8, 16, 32, 64].map(|times| times * HALVES_FROM) {
        is_by_halves(world, 8, bytes, false);
    }
}

/// There and back, in place and not, elements that fit lines and that do not.
#[test]
fn either_way_has_the_same_sum() {
    on_a_segment(|world| {
        for (way, is_halves) in
            [(Alternative::First, true), (Alternative::Second, false), (Alternative::First, true)]
        {
            go(world, way);
            for bytes in [HALVES_FROM, HALVES_FROM + 8, 100_008, LONG_FROM - 8, LONG_FROM, 600_000] {
                assert_eq!(is_by_halves(world, 8, bytes, false), is_halves, "{bytes} bytes");
                for (element_bytes, in_place) in [(8, true), (24, false), (1000, true), (8, false)] {
                    is_by_halves(world, element_bytes, bytes, in_place);
                }
            }
        }
    });
}

/// Who decides finds it out, and the other one goes the same way from the same operation on.
#[test]
fn both_ways_are_tried() {
    on_cores(|world| {
        let halves = (0..60).filter(|_| is_by_halves(world, 8, 2 * HALVES_FROM, false)).count();
        assert!((1..60).contains(&halves), "{halves} of 60 went by halves, and both ways were to be tried");
    });
}

/// What goes with a few numbers of each round meets what goes with all of them, of the same length.
#[test]
fn another_operation_of_that_length_is_told() {
    on_a_segment(|world| {
        for (bytes, sums_up) in [(70_000, 0), (70_000, 1), (130_000, 0), (300_000, 1)] {
            let elements = Elements { bytes: 8, count: bytes / 8 };
            let input = elements.of(world.rank().0, 1);
            let mut output = vec![0; 2 * bytes];
            let operation = if world.rank().0 == sums_up {
                Collective::Allreduce(elements.reduction(false))
            } else {
                Collective::Allgather(Each { bytes, in_place: false })
            };
            let out = writing(&mut output[..if world.rank().0 == sums_up { bytes } else { 2 * bytes }]);
            let ended = world.perform(operation, reading(&input), out, Combining::Nothing);
            assert_eq!(ended.unwrap_err().class, Class::Truncated, "{bytes} bytes");
            is_by_halves(world, 8, HALVES_FROM, false);
        }
    });
}
