//! Long data of three and more members that share cores.

use collectives::node::n_ranks;
use collectives::{Collective, Each};
use fabric::{Payload, UserMemory};
use job::error::Class;
use job::tuning::CostsFrom;
use messaging::Rank;

use super::chunks_tests::{Elements, ONE_CORE, of_several};
use super::{Combining, Communicator};
use crate::memory::{reading, writing};

/// Several threads that are told to have one core in all, and that no message goes without asking, which
/// takes long: so whatever can go through the segment does.
fn among_several(members: u32, each: impl Fn(&Communicator) + Send + Sync + 'static) {
    of_several(members, ONE_CORE, CostsFrom::of(Some("weft costs 1;node 180 0.14 0 1000000 100")), each);
}

#[test]
fn several_keep_the_order_of_operands_too() {
    for members in [3, 4, 5, 8] {
        among_several(members, move |world| {
            // Of the longest some have none in their slice.
            for bytes in [2, 24, 1000, 4096] {
                let chunk = n_ranks::chunk_bytes(members, bytes);
                let lengths = [
                    2048,
                    2049,
                    9000,
                    16 << 10,
                    (32 << 10) + 1,
                    chunk - bytes,
                    chunk,
                    chunk + 1,
                    2 * chunk + 3 * bytes,
                ];
                for (length, in_place) in
                    lengths.into_iter().flat_map(|length| [(length, false), (length, true)])
                {
                    let elements = Elements { bytes, count: length.div_ceil(bytes) };
                    let of = elements.reduction(in_place);
                    let got = elements.perform(world, Collective::Allreduce(of), in_place);
                    assert!(got == elements.of(0, members), "{elements:?}, in place {in_place}");
                }
            }
        });
    }
}

/// Where calls of several do not fit, whoever learns of it has an error, and what follows goes as if nothing
/// had been.
#[test]
fn several_are_told_of_lengths_that_differ() {
    among_several(4, |world| {
        let odd_one = world.rank() == Rank(2);
        let lengths = [(10_000, 200_000), (200_000, 10_000), (140_000, 141_000), (9_000, 9_001)];
        for (one, others) in lengths {
            let elements = Elements { bytes: 1, count: if odd_one { one } else { others } };
            let (input, mut output) = (vec![1u8; elements.count], vec![0u8; elements.count]);
            let sum = Collective::Allreduce(elements.reduction(false));
            let ended = world.perform(sum, reading(&input), writing(&mut output), Combining::Nothing);
            assert_eq!(ended.unwrap_err().class, Class::Truncated, "{one} and {others}");
            let sum = Elements { bytes: 8, count: 2000 };
            let all = sum.perform(world, Collective::Allreduce(sum.reduction(false)), false);
            assert!(all == sum.of(0, 4), "behind {one} and {others}");
            let bytes = if odd_one { one * 8 } else { others * 8 };
            let (input, mut output) = (vec![1u8; bytes], vec![0u8; 4 * bytes]);
            let each = Collective::Allgather(Each { bytes, in_place: false });
            let ended = world.perform(each, reading(&input), writing(&mut output), Combining::Nothing);
            assert_eq!(ended.unwrap_err().class, Class::Truncated, "{one} and {others} gathered");
            world.barrier().unwrap();
        }
    });
}

/// One has a slot, one a chunk for the first to sum up, and one many chunks.
#[test]
fn several_are_told_where_all_lengths_differ() {
    among_several(3, |world| {
        let here = world.rank().0 as usize;
        for places in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let odd = Elements { bytes: 8, count: [100, 1250, 25_000][places[here]] };
            let (input, mut output) = (odd.of(here as u32, 1), vec![0u8; 8 * odd.count]);
            let sum = Collective::Allreduce(odd.reduction(false));
            let ended = world.perform(sum, reading(&input), writing(&mut output), Combining::Nothing);
            assert_eq!(ended.unwrap_err().class, Class::Truncated, "{places:?} at {here}");
            for count in [2000, 3, 9000] {
                let sum = Elements { bytes: 8, count };
                let all = sum.perform(world, Collective::Allreduce(sum.reduction(false)), false);
                assert!(all == sum.of(0, 3), "{count} behind {places:?} at {here}");
            }
        }
    });
}

/// The first one does something of its own before: who then take each other's halves for something else do
/// not have them for sums.
#[test]
fn several_who_are_one_operation_apart_have_no_sum() {
    among_several(4, |world| {
        let (root, mut told) = (Rank(0), [1u8; 8]);
        if world.rank() == root {
            let bcast = Collective::Bcast { root, bytes: told.len() };
            world.perform(bcast, Payload::EMPTY, writing(&mut told), Combining::Nothing).unwrap();
        }
        let odd = Elements { bytes: 8, count: 1250 };
        let (input, mut output) = (odd.of(world.rank().0, 1), vec![0u8; 8 * odd.count]);
        let sum = Collective::Allreduce(odd.reduction(false));
        let combine = |left: Payload<'_>, right: Option<Payload<'_>>, out: &mut UserMemory| {
            odd.combine(left, right, out);
        };
        let ended = world.perform(sum, reading(&input), writing(&mut output), Combining::By(&combine));
        assert!(ended.is_err(), "at {:?}", world.rank());
    });
}

/// One gives all others as many bytes as they sum up.
#[test]
fn several_are_told_of_another_operation_of_that_length() {
    for (bytes, members) in [(10_000, 4), (1536, 8)] {
        among_several(members, move |world| {
            let (here, last) = (world.rank(), Rank(members - 1));
            let sum = Elements { bytes: 8, count: bytes / 8 };
            let (input, mut output) = (sum.of(here.0, 1), vec![0u8; bytes]);
            let combine = |left: Payload<'_>, right: Option<Payload<'_>>, out: &mut UserMemory| {
                sum.combine(left, right, out);
            };
            if here == last {
                let bcast = Collective::Bcast { root: last, bytes };
                world.perform(bcast, Payload::EMPTY, writing(&mut output), Combining::By(&combine)).unwrap();
                return;
            }
            let sum = Collective::Allreduce(sum.reduction(false));
            let error = world
                .perform(sum, reading(&input), writing(&mut output), Combining::By(&combine))
                .unwrap_err();
            assert!(!error.to_string().contains("panicked"), "{error} at {here:?}");
        });
    }
}

#[test]
fn who_panics_among_several_lets_the_others_end() {
    among_several(4, |world| {
        let elements = Elements { bytes: 8, count: 30_000 };
        for (panicking, at_call) in [(0, 1), (3, 4), (1, 9)] {
            let sum = elements.sum_with_a_bug(world, panicking, at_call);
            // The others do not take for a sum what was not summed up.
            assert!(sum.is_none(), "at {:?}", world.rank());
            world.barrier().unwrap();
            // The first one sums up what is shorter.
            let at_root = Elements { bytes: 8, count: 1000 };
            let sum = at_root.sum_with_a_bug(world, panicking, 1);
            assert_eq!(sum, (panicking != 0).then(|| at_root.of(0, 4)), "at {:?}", world.rank());
            world.barrier().unwrap();
            let short = Elements { bytes: 8, count: 3 };
            let sum = Collective::Allreduce(short.reduction(false));
            assert!(short.perform(world, sum, false) == short.of(0, 4));
        }
    });
}
