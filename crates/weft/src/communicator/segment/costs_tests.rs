//! Operations of two in which one gives, by costs that choose other schedules than the built-in ones: where
//! one member passes its data as a message without looking at the schedule, the other one's schedule takes
//! it.

use collectives::{Collective, Operator, Reduction, Rooted};
use fabric::{Payload, UserMemory};
use job::config::CpuTime;
use job::tuning::CostsFrom;
use messaging::Rank;

use super::super::combining::in_place;
use super::chunks_tests::of_several;
use super::{Combining, Communicator};
use crate::memory::{reading, writing};

/// As MPI's functions do it.
fn perform(world: &Communicator, collective: Collective, input: &[u8], output: &mut [u8]) {
    let add = in_place(|left: Payload<'_>, right: &mut UserMemory| {
        let sums: Vec<u8> = left
            .to_vec()
            .iter()
            .zip(right.payload().to_vec())
            .map(|(one, other)| one.wrapping_add(other))
            .collect();
        right.write_at(0, Payload::from(&sums[..]));
    });
    let room = writing(output).room().expect("memory of the caller's");
    let done = world.try_perform(collective, reading(input), room, Combining::By(&add));
    done.unwrap_or_else(|| world.perform(collective, reading(input), writing(output), Combining::By(&add)))
        .unwrap_or_else(|error| panic!("{collective:?}: {error}"));
}

fn go(world: &Communicator) {
    let here = world.rank();
    let root = Rank(0);
    let at_root = |bytes: usize| if here == root { bytes } else { 0 };
    for bytes in (1..=20).map(|kib| kib * 1024).chain([100, 9000, 16_000]) {
        let number = |rank: Rank, at: usize| (at * 7 + rank.0 as usize * 13) as u8;
        let own: Vec<u8> = (0..bytes).map(|at| number(here, at)).collect();
        let sum: Vec<u8> =
            (0..bytes).map(|at| number(Rank(0), at).wrapping_add(number(Rank(1), at))).collect();
        let of_both: Vec<u8> =
            [0, 1].iter().flat_map(|&rank| (0..bytes).map(move |at| number(Rank(rank), at))).collect();
        // Time after time, since only then is it a message.
        for _ in 0..5 {
            let operator = Operator { element_bytes: 1, commutative: true };
            let reduction = Reduction { count: bytes, operator, in_place: false };
            let mut got = vec![0; at_root(bytes)];
            perform(world, Collective::Reduce(root, reduction), &own, &mut got);
            assert!(here != root || got == sum, "reduce of {bytes} B");
        }
        for _ in 0..5 {
            let mut got = if here == root { own.clone() } else { vec![0; bytes] };
            perform(world, Collective::Bcast { root, bytes }, &[], &mut got);
            assert!((0..bytes).all(|at| got[at] == number(root, at)), "bcast of {bytes} B");
        }
        let rooted = Rooted { root, bytes, in_place: false };
        for _ in 0..5 {
            let mut got = vec![0; at_root(2 * bytes)];
            perform(world, Collective::Gather(rooted), &own, &mut got);
            assert!(here != root || got == of_both, "gather of {bytes} B");
        }
        for _ in 0..5 {
            let (mut got, all) = (vec![0; bytes], if here == root { &of_both[..] } else { &[] });
            perform(world, Collective::Scatter(rooted), all, &mut got);
            assert_eq!(got, own, "scatter of {bytes} B");
        }
    }
}

#[test]
fn both_of_two_agree_by_any_costs() {
    for costs in [
        // A reduce goes by slices from 8 KiB on.
        "weft costs 1;node 39 0.0314 20480 78 0.0314;step 87.4",
        "weft costs 1;node 30 0.5 4096 60 0.5;step 10;combine 20 0.3",
        "weft costs 1;node 5000 0.001 65536 9000 0.001;step 500",
        "weft costs 1;node 60 0.02 16384 120 0.02",
    ] {
        of_several(2, CpuTime::UNLIMITED, CostsFrom::of(Some(costs)), go);
    }
}
