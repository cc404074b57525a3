//! Groups against a naive model, and the rules of the standard by name.

use std::collections::HashSet;

use job::error::Class;
use proptest::prelude::*;

use super::*;

fn of(peers: &[u32]) -> Group {
    Group::of(peers.iter().map(|&peer| Peer(peer)))
}

fn list(group: &Group) -> Vec<u32> {
    group.peers().map(|peer| peer.0).collect()
}

fn runs(group: &Group) -> usize {
    group.members.runs().expect("kept as runs").len()
}

fn ranks(numbers: &[u32]) -> Vec<Rank> {
    numbers.iter().copied().map(Rank).collect()
}

fn range(first: i64, last: i64, stride: i64) -> RankRange {
    RankRange { first, last, stride }
}

/// Members as programs make them: blocks, strides, shuffled, with holes.
fn members() -> impl Strategy<Value = Vec<u32>> {
    let strided = (0u32..300, 1u32..60, 1i64..8, any::<bool>());
    let pieces = proptest::collection::vec(strided, 0..8).prop_map(|pieces| {
        let mut seen = HashSet::new();
        let numbers = pieces.into_iter().flat_map(|(first, count, step, falls)| {
            let mut numbers: Vec<u32> = (0..count).map(|at| first + at * step as u32).collect();
            if falls {
                numbers.reverse();
            }
            numbers
        });
        numbers.filter(|&number| seen.insert(number)).collect::<Vec<u32>>()
    });
    let shuffled = Just((0..200).collect::<Vec<u32>>()).prop_shuffle();
    let sparse = proptest::collection::hash_set(0u32..4_000_000_000, 0..60)
        .prop_map(|numbers| numbers.into_iter().collect::<Vec<u32>>());
    prop_oneof![4 => pieces, 1 => shuffled, 1 => sparse]
}

fn some_ranges() -> impl Strategy<Value = Vec<RankRange>> {
    let one =
        (-2i64..120, -2i64..120, -9i64..10).prop_map(|(first, last, stride)| range(first, last, stride));
    proptest::collection::vec(one, 0..6)
}

/// The standard's own words: range calls are as if the ranges were written out (MPI 2.2, 6.3.2).
fn expanded(size: usize, ranges: &[RankRange]) -> Result<Vec<u32>, Class> {
    let mut all = Vec::new();
    for &RankRange { first, last, stride } in ranges {
        if stride == 0 || first != last && (last > first) != (stride > 0) {
            return Err(Class::Argument);
        }
        let mut rank = first;
        while if stride > 0 { rank <= last } else { rank >= last } {
            if !(0..size as i64).contains(&rank) {
                return Err(Class::Rank);
            }
            all.push(rank as u32);
            rank += stride;
        }
    }
    let mut seen = HashSet::new();
    if all.iter().all(|rank| seen.insert(*rank)) { Ok(all) } else { Err(Class::Rank) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn members_go_both_ways(members in members()) {
        let group = of(&members);
        prop_assert_eq!(list(&group), &members[..]);
        prop_assert_eq!((group.size() as usize, group.iter().len()), (members.len(), members.len()));
        for (rank, &peer) in members.iter().enumerate() {
            prop_assert_eq!(group.rank(Peer(peer)), Some(Rank(rank as u32)));
            prop_assert_eq!(group.peer(Rank(rank as u32)), Some(Peer(peer)));
        }
        let set: HashSet<u32> = members.iter().copied().collect();
        for peer in 0..800 {
            prop_assert_eq!(group.contains(Peer(peer)), set.contains(&peer));
        }
        prop_assert_eq!(group.peer(Rank(members.len() as u32)), None);
        prop_assert_eq!(Group::decode(&group.encode(), u32::MAX), Some(group));
    }

    #[test]
    fn sets_are_those_of_the_model(first in members(), second in members()) {
        let (left, right) = (of(&first), of(&second));
        let in_first: HashSet<u32> = first.iter().copied().collect();
        let in_second: HashSet<u32> = second.iter().copied().collect();
        let only_second = second.iter().copied().filter(|peer| !in_first.contains(peer));
        let union: Vec<u32> = first.iter().copied().chain(only_second).collect();
        let both: Vec<u32> = first.iter().copied().filter(|peer| in_second.contains(peer)).collect();
        let only: Vec<u32> = first.iter().copied().filter(|peer| !in_second.contains(peer)).collect();
        prop_assert_eq!(list(&(&left | &right)), &union[..]);
        prop_assert_eq!(list(&(&left & &right)), &both[..]);
        prop_assert_eq!(list(&(&left - &right)), &only[..]);
        let comparison = match (first == second, in_first == in_second) {
            (true, _) => Comparison::Identical,
            (false, true) => Comparison::Similar,
            _ => Comparison::Unequal,
        };
        prop_assert_eq!(left.compare(&right), comparison);
        // However a group came about, equal ones are equal and have one fingerprint.
        for (made, model) in [(&left | &right, union), (&left & &right, both), (&left - &right, only)] {
            prop_assert_eq!(&made, &of(&model));
            prop_assert_eq!(made.fingerprint(), of(&model).fingerprint());
        }
        for (rank, peer) in first.iter().enumerate() {
            let translated = second.iter().position(|other| other == peer).map(|rank| Rank(rank as u32));
            prop_assert_eq!(left.translate(Rank(rank as u32), &right), translated);
        }
    }

    #[test]
    fn another_order_is_similar(members in members().prop_flat_map(|m| (Just(m.clone()), Just(m).prop_shuffle()))) {
        let (first, second) = members;
        let expected = if first == second { Comparison::Identical } else { Comparison::Similar };
        prop_assert_eq!(of(&first).compare(&of(&second)), expected);
    }

    #[test]
    fn lists_of_ranks_choose(members in members(), chosen in proptest::collection::vec(0u32..90, 0..50)) {
        let group = of(&members);
        let mut seen = HashSet::new();
        let good = chosen.iter().all(|&rank| (rank as usize) < members.len() && seen.insert(rank));
        let (include, exclude) = (group.include(ranks(&chosen)), group.exclude(&ranks(&chosen)));
        if !good {
            prop_assert_eq!(include.unwrap_err().class, Class::Rank);
            prop_assert_eq!(exclude.unwrap_err().class, Class::Rank);
            return Ok(());
        }
        let inside: Vec<u32> = chosen.iter().map(|&rank| members[rank as usize]).collect();
        let outside: Vec<u32> =
            (0..).zip(&members).filter(|(rank, _)| !chosen.contains(rank)).map(|(_, peer)| *peer).collect();
        prop_assert_eq!(include.unwrap(), of(&inside));
        prop_assert_eq!(exclude.unwrap(), of(&outside));
    }

    #[test]
    fn ranges_are_as_if_written_out(members in members(), ranges in some_ranges()) {
        let group = of(&members);
        let (include, exclude) = (group.include_ranges(&ranges), group.exclude_ranges(&ranges));
        match expanded(members.len(), &ranges) {
            Err(class) => {
                // Where several things are wrong, any of them may be told.
                let wrong = [Class::Rank, Class::Argument];
                prop_assert!(wrong.contains(&include.unwrap_err().class), "{:?}", class);
                prop_assert!(wrong.contains(&exclude.unwrap_err().class));
            }
            Ok(written) => {
                prop_assert_eq!(include.unwrap(), group.include(ranks(&written)).unwrap());
                prop_assert_eq!(exclude.unwrap(), group.exclude(&ranks(&written)).unwrap());
            }
        }
    }

    #[test]
    fn what_is_left_of_a_group_is_a_group(
        steps in proptest::collection::vec((0i64..40, 2i64..20), 1..5), size in 3000u32..5000,
    ) {
        let end = i64::from(size) - 1;
        let mut gone = HashSet::new();
        let mut ranges = Vec::new();
        for (first, stride) in steps {
            let numbers: Vec<i64> = (first..=end).step_by(stride as usize).collect();
            if numbers.iter().all(|number| !gone.contains(number)) {
                gone.extend(numbers);
                ranges.push(range(first, end, stride));
            }
        }
        let group = Group::world(size).exclude_ranges(&ranges).unwrap();
        let members: Vec<u32> = (0..size).filter(|&peer| !gone.contains(&i64::from(peer))).collect();
        prop_assert_eq!(group.size() as usize, members.len());
        for (rank, &peer) in members.iter().enumerate().step_by(7) {
            prop_assert_eq!(group.peer(Rank(rank as u32)), Some(Peer(peer)));
            prop_assert_eq!(group.rank(Peer(peer)), Some(Rank(rank as u32)));
        }
        prop_assert!(gone.iter().all(|&peer| !group.contains(Peer(peer as u32))));
        prop_assert_eq!(group.peer(Rank(members.len() as u32)), None);
        let other = of(&members);
        prop_assert_eq!((group.compare(&other), other.compare(&group)), (Comparison::Identical, Comparison::Identical));
        prop_assert_eq!(&group, &Group::world(size).exclude_ranges(&ranges).unwrap());
        prop_assert!((&other - &group).is_empty() && (&group - &other).is_empty());
        prop_assert_eq!(list(&group), members);
    }

    #[test]
    fn any_numbers_are_decoded_or_refused(numbers in proptest::collection::vec(-3i64..40, 0..12)) {
        if let Some(group) = Group::decode(&numbers, 30) {
            let distinct: HashSet<Peer> = group.iter().collect();
            prop_assert_eq!(distinct.len(), group.size() as usize);
            prop_assert!(group.iter().all(|peer| peer.0 < 30));
        }
    }
}

const MILLION: u32 = 1 << 20;

#[test]
fn worlds_and_strides_are_one_run() {
    for group in [Group::world(MILLION), Group::of((0..MILLION / 2).rev().map(|peer| Peer(2 * peer)))] {
        assert_eq!(runs(&group), 1);
    }
}

/// MPI 2.2, 6.3.2, advice to implementors: ranges are not enumerated.
#[test]
fn ranges_of_a_million_ranks_take_as_many_runs() {
    let world = Group::world(MILLION);
    let each = i64::from(MILLION) / 16;
    for stride in [1, 2, 3, -5] {
        let piece = |at: i64| match stride > 0 {
            true => range(at * each, (at + 1) * each - 1, stride),
            false => range((at + 1) * each - 1, at * each, stride),
        };
        let ranges: Vec<RankRange> = (0..16).map(piece).collect();
        let included = world.include_ranges(&ranges).unwrap();
        assert!(runs(&included) <= 32, "{included:?}");
        let excluded = world.exclude_ranges(&ranges).unwrap();
        assert_eq!(included.size() + excluded.size(), MILLION);
        match &excluded.members {
            Members::Without(without) => assert_eq!(without.gone.len(), 16),
            _ => assert!(runs(&excluded) <= 64, "{excluded:?}"),
        }
        assert_eq!(excluded.rank(included.peer(Rank(77)).unwrap()), None);
    }
}

/// What two compressed groups have in common is found by arithmetic, in runs again.
#[test]
fn strides_meet_in_strides() {
    let world = Group::world(MILLION);
    let every = |stride: i64| world.include_ranges([range(0, i64::from(MILLION) - 1, stride)]).unwrap();
    let both = &every(6) & &every(10);
    assert_eq!(both, every(30));
    assert_eq!(runs(&both), 1);
    let odd = &world - &every(2);
    assert_eq!(runs(&odd), 1);
    let woven = &every(2) | &odd;
    assert_eq!(runs(&woven), 2);
    assert_eq!(woven.compare(&world), Comparison::Similar);
    assert_eq!(runs(&(&world & &woven)), 1, "one after the other, they are all");
}

#[test]
fn lists_with_a_pattern_become_runs() {
    let world = Group::world(MILLION);
    let down: Vec<Rank> = (0..MILLION).rev().map(Rank).collect();
    assert_eq!(runs(&world.include(&down).unwrap()), 1);
    let even: Vec<Rank> = (0..MILLION).step_by(2).map(Rank).collect();
    assert_eq!(runs(&world.exclude(&even).unwrap()), 1);
}

#[test]
fn set_operations_keep_the_order_of_the_first() {
    let (first, second) = (of(&[5, 1, 3]), of(&[3, 9, 5]));
    assert_eq!(list(&first.union(&second)), [5, 1, 3, 9]);
    assert_eq!(list(&first.intersection(&second)), [5, 3]);
    assert_eq!(list(&first.difference(&second)), [1]);
}

#[test]
fn peers_that_come_again_are_left_out_when_collecting() {
    let group: Group = [3, 1, 3, 2, 1].map(Peer).into_iter().collect();
    assert_eq!(list(&group), [3, 1, 2]);
}

#[test]
fn wrong_ranks_are_told() {
    let group = of(&[5, 1, 3]);
    let class = |group: crate::Result<Group>| group.unwrap_err().class;
    assert_eq!(class(group.include([Rank(3)])), Class::Rank);
    assert_eq!(class(group.exclude(&[Rank(1), Rank(1)])), Class::Rank);
    assert_eq!(class(group.include_ranges([range(0, 2, 0)])), Class::Argument);
    assert_eq!(class(group.include_ranges([range(0, 2, -1)])), Class::Argument);
    assert_eq!(class(group.include_ranges([range(i64::MIN, i64::MAX, 1)])), Class::Argument);
    assert_eq!(class(group.include_ranges([range(0, 2, 1), range(1, 1, 7)])), Class::Rank);
    assert_eq!(class(group.exclude_ranges([range(-1, 2, 1)])), Class::Rank);
    assert_eq!(list(&group.include_ranges([range(0, 3, 2)]).unwrap()), [5, 3], "the last is not hit");
}
