//! Sums and barriers of so many members with cores of their own that these go up a tree.

use collectives::{Collective, Operator, Reduction};
use fabric::{Payload, UserMemory};
use job::config::CpuTime;
use job::error::Class;
use messaging::Rank;

use super::super::combining::in_place;
use super::{Combining, Communicator};
use crate::memory::{reading, writing};
use crate::{Config, run_threads};
use collectives::node::SegmentAlgorithm;

const MEMBERS: u32 = 11;

fn among_many(each: impl Fn(&Communicator) + Send + Sync + 'static) {
    let config = Config { cpus: Some(CpuTime::UNLIMITED), ..Config::default() };
    run_threads(MEMBERS, &config, move |session| {
        let world = &session.world();
        (0..5).for_each(|_| world.barrier().unwrap());
        assert!(world.handle().is_some());
        each(world);
    })
    .unwrap();
}

fn sum_of(count: usize) -> Collective {
    let operator = Operator { element_bytes: 4, commutative: true };
    Collective::Allreduce(Reduction { count, operator, in_place: false })
}

/// The sum of what all members have, which is so many times the number of `round` and theirs.
fn sum(world: &Communicator, round: u32, count: usize) -> crate::Result<Vec<u32>> {
    let (own, mut got) = (vec![round * world.rank().0; count], vec![0; count]);
    let numbers =
        |of: &[u8]| of.chunks(4).map(|four| u32::from_ne_bytes(four.try_into().unwrap())).collect::<Vec<_>>();
    let add = in_place(|left: Payload<'_>, right: &mut UserMemory| {
        let [left, own] = [left.to_vec(), right.payload().to_vec()].map(|of| numbers(&of));
        let sums: Vec<u8> =
            left.iter().zip(own).flat_map(|(one, other)| (one + other).to_ne_bytes()).collect();
        right.write_at(0, Payload::from(&sums[..]));
    });
    world.perform(sum_of(count), reading(&own), writing(&mut got), Combining::By(&add))?;
    Ok(got)
}

#[test]
fn sums_of_many_go_up_a_tree() {
    among_many(|world| {
        assert_eq!(
            SegmentAlgorithm::of(sum_of(1), &world.setting()).map(|chosen| chosen.way().0),
            Some("slots up a tree")
        );
        let all = MEMBERS * (MEMBERS - 1) / 2;
        for round in 1..40 {
            for count in [1, 7, 100] {
                assert_eq!(sum(world, round, count).unwrap(), vec![round * all; count]);
            }
            if round % 7 == 0 {
                world.barrier().unwrap();
            }
        }
    });
}

/// Every member is told where one has more to add than the others, or it has the sum of those that fit.
#[test]
fn lengths_that_differ_are_told_up_and_down_the_tree() {
    for odd in [0, 1, 4, 10] {
        among_many(move |world| {
            let count = if world.rank() == Rank(odd) { 3 } else { 1 };
            let told = sum(world, 1, count).expect_err("it does not fit").class;
            assert!(matches!(told, Class::Truncated | Class::NotSame), "{told:?}");
        });
    }
}
