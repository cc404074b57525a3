//! What nodes tell of their ranks: nothing gets lost on the way to a placement, and other bytes are refused.

use proptest::prelude::*;
use topology::{Level, Machine, MachineLevel, NodeShape, NotAPlacement, Placement, Seat, Sizes, SwitchPath};

fn machine(text: &str) -> Machine {
    Machine::from_synthetic(text).expect(text)
}

fn seats(machine: &Machine, cpus: &[usize]) -> Vec<Seat> {
    cpus.iter().map(|cpu| machine.seat(&[*cpu].into_iter().collect()).expect("on the machine")).collect()
}

fn shape(machine: &Machine, ranks: &[u32], cpus: &[usize], switch: Option<&str>) -> NodeShape {
    let ranks: Vec<(u32, Seat)> = ranks.iter().copied().zip(seats(machine, cpus)).collect();
    NodeShape::new(&ranks, switch.map(|path| path.parse().expect("a path")))
}

fn sizes(placement: &Placement, level: MachineLevel) -> Option<Vec<u32>> {
    placement.levels().iter().find(|(known, _)| *known == level).map(|(_, sizes)| sizes.iter().collect())
}

fn by_place(placement: &Placement) -> Vec<u32> {
    (0..placement.len()).map(|place| placement.rank(place)).collect()
}

#[test]
fn ranks_come_in_the_order_of_the_parts_they_sit_in() {
    let two = machine("pack:2 l3:2 core:2 pu:1");
    // Ranks go round the packages: 0 and 2 sit on the second, 1 and 3 on the first.
    let told = shape(&two, &[0, 1, 2, 3], &[4, 0, 6, 1], None);
    assert_eq!(told.ranks().collect::<Vec<_>>(), [0, 2, 1, 3]);
    assert_eq!(told.parts(Level::Package).unwrap().iter().collect::<Vec<_>>(), [2, 2]);
    assert_eq!(told.parts(Level::L3Cache).unwrap().iter().collect::<Vec<_>>(), [1, 1, 2]);
    let placement = Placement::of_nodes(&[told], 4).unwrap();
    assert_eq!(by_place(&placement), [0, 2, 1, 3]);
    // All memory is one NUMA node, which is the whole node.
    assert_eq!(sizes(&placement, MachineLevel::Part(Level::NumaNode)), None);
    assert_eq!(sizes(&placement, MachineLevel::Part(Level::Package)), Some(vec![2, 2]));
}

#[test]
fn a_part_that_one_rank_does_not_know_is_left_out() {
    let two = machine("pack:2 l3:2 core:2 pu:1");
    let across = two.seat(&[0, 1, 2, 3].into_iter().collect()).unwrap();
    assert_eq!((across.part(Level::Package), across.part(Level::L3Cache)), (Some(0), None));
    let known = shape(&two, &[0, 1], &[0, 4], None);
    let partly = NodeShape::new(&[(2, across), (3, seats(&two, &[4])[0])], None);
    let placement = Placement::of_nodes(&[partly.clone(), known.clone()], 4).unwrap();
    assert_eq!(sizes(&placement, MachineLevel::Part(Level::Package)), Some(vec![1, 1, 1, 1]));
    assert_eq!(sizes(&placement, MachineLevel::Part(Level::L3Cache)), None);
    assert!(placement.is_straight());
    let unknown = NodeShape::new(&[(2, Seat::UNKNOWN), (3, Seat::UNKNOWN)], None);
    let placement = Placement::of_nodes(&[unknown, known], 4).unwrap();
    assert_eq!(placement.levels().len(), 1, "nodes only");
}

#[test]
fn nodes_come_by_switch_if_all_know_theirs() {
    let one = machine("pu:4");
    let at = |ranks: [u32; 2], switch| shape(&one, &ranks, &[0, 1], switch);
    let nodes = [
        at([4, 5], Some("core/b")),
        at([0, 1], Some("core/a")),
        at([2, 3], Some("core/b")),
        at([6, 7], Some("core/a")),
        at([8, 9], Some("core")),
    ];
    let placement = Placement::of_nodes(&nodes, 10).unwrap();
    assert_eq!(by_place(&placement), [0, 1, 6, 7, 2, 3, 4, 5, 8, 9]);
    assert_eq!(sizes(&placement, MachineLevel::Switch), Some(vec![4, 4, 2]));
    let mut partly = nodes.to_vec();
    partly[4] = at([8, 9], None);
    let placement = Placement::of_nodes(&partly, 10).unwrap();
    assert!(placement.is_straight() && sizes(&placement, MachineLevel::Switch).is_none());
    // One switch for all, and one for each, tell nothing.
    for paths in [["a", "a"], ["a", "b"]] {
        let nodes = [at([0, 1], Some(paths[0])), at([2, 3], Some(paths[1]))];
        assert_eq!(Placement::of_nodes(&nodes, 4).unwrap(), Placement::blocked(Sizes::equal(2, 2)));
    }
}

#[test]
fn what_is_told_of_a_usual_node_is_short() {
    let large = machine("pack:2 numa:4 l3:2 core:8 pu:2");
    let filled: Vec<usize> = (0..256).collect();
    let of = |ranks: Vec<u32>, cpus: &[usize], switch| shape(&large, &ranks, cpus, switch).encode().len();
    assert!(of((2560..2816).collect(), &filled, None) < 24);
    assert!(of((2560..2816).collect(), &filled, Some("core/row7/leaf12")) < 48);
    let in_turn: Vec<usize> = (0..128).flat_map(|cpu| [cpu, cpu + 128]).collect();
    assert!(of((0..256).collect(), &in_turn, None) < 32);
    assert!(of((0..256).map(|rank| rank * 1000 + 7).collect(), &filled, None) < 32);
}

#[test]
fn a_job_that_fills_equal_machines_is_foreseen() {
    let two = machine("pack:2 [numa] l3:2 core:2 pu:1");
    let placement = Placement::on(&two, &[8, 8, 6].into_iter().collect()).unwrap();
    assert!(placement.is_straight());
    assert_eq!(sizes(&placement, MachineLevel::Part(Level::Package)), Some(vec![4, 4, 4, 4, 4, 2]));
    assert_eq!(sizes(&placement, MachineLevel::Part(Level::L3Cache)), Some(vec![2; 11]));
    assert_eq!(sizes(&placement, MachineLevel::Part(Level::NumaNode)), None, "they are the packages");
    // More ranks than cpus begin again at the first.
    let placement = Placement::on(&machine("pack:2 pu:1"), &Sizes::equal(1, 4)).unwrap();
    assert_eq!(by_place(&placement), [0, 2, 1, 3]);
    assert_eq!(Placement::on(&two, &Sizes::default()), Err(NotAPlacement::NotAPermutation));
}

#[test]
fn nodes_that_contradict_each_other_make_no_placement() {
    let node = |ranks: &[(u32, Seat)]| NodeShape::new(ranks, None);
    let two = node(&[(0, Seat::UNKNOWN), (1, Seat::UNKNOWN)]);
    for nodes in
        [vec![], vec![two.clone(), two.clone()], vec![node(&[(0, Seat::UNKNOWN), (2, Seat::UNKNOWN)])]]
    {
        for ranks in [0, 2, 3, 4] {
            assert_eq!(Placement::of_nodes(&nodes, ranks), Err(NotAPlacement::NotAPermutation));
        }
    }
    let huge = NodeShape::decode(&[1, 1, 0, 1, 0x80, 0x80, 0x04, 0, 0]).expect("65536 ranks in nine bytes");
    assert_eq!(Placement::of_nodes(&[huge], 2), Err(NotAPlacement::NotAPermutation));
}

#[test]
fn other_bytes_are_refused() {
    let told = shape(&machine("pack:2 l3:2 core:2 pu:1"), &[0, 1, 2, 9], &[4, 0, 6, 1], Some("core/a"));
    let bytes = told.encode();
    assert_eq!(NodeShape::decode(&bytes), Ok(told));
    for end in 0..bytes.len() {
        assert!(NodeShape::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(NodeShape::decode(&longer).is_err());
    for (bytes, told) in [
        (&[9, 1, 0, 1, 1, 0, 0][..], "another version"),
        (&[1, 0, 0, 0], "no ranks"),
        (&[1, 1, 0, 1, 0, 0, 0], "ranks are none"),
        (&[1, 1, 0, 0, 2, 0, 0], "ranks are none"),
        (&[1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1, 0, 0], "ranks are none"),
        (&[1, 1, 0, 1, 0x81, 0x80, 0x04, 0, 0], "too many"),
        (&[1, 1, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 1, 0, 0], "too large"),
        (&[1, 1, 0, 1, 2, 8, 0], "more than is known"),
        (&[1, 1, 0, 1, 2, 1, 1, 1, 3, 0], "more ranks"),
        (&[1, 1, 0, 1, 2, 1, 1, 1, 1, 0], "fewer ranks"),
        (&[1, 1, 0, 1, 2, 1, 1, 0, 1, 0], "empty"),
        (&[1, 1, 0, 1, 4, 3, 1, 2, 2, 2, 1, 1, 1, 3, 0], "within each other"),
        (&[1, 1, 0, 1, 2, 0, 1, b'/'], "no name"),
        (&[1, 1, 0, 1, 2, 0, 1, 0xff], "no name"),
    ] {
        let error = NodeShape::decode(bytes).expect_err(told).to_string();
        assert!(error.contains(told), "{bytes:?}: {error}, and not {told}");
    }
}

/// Nodes on which ranks sit anyhow: for each node the cpus of its ranks, and the order in which ranks are
/// dealt out.
fn jobs() -> impl Strategy<Value = (Vec<Vec<usize>>, Vec<u32>, Vec<Option<u8>>)> {
    let nodes = prop::collection::vec(prop::collection::vec(0..32usize, 1..12), 1..8);
    nodes.prop_flat_map(|nodes| {
        let ranks: u32 = nodes.iter().map(|node| node.len() as u32).sum();
        let switches = prop::collection::vec(prop::option::weighted(0.9, 0..3u8), nodes.len());
        (Just(nodes), Just((0..ranks).collect::<Vec<_>>()).prop_shuffle(), switches)
    })
}

proptest! {
    #[test]
    fn every_rank_is_somewhere_and_parts_are_as_the_seats_say((nodes, dealt, switches) in jobs()) {
        let machine = machine("pack:2 numa:2 l3:2 core:2 pu:2");
        let mut left = dealt.as_slice();
        let mut shapes = Vec::new();
        let mut home = vec![(0, Seat::UNKNOWN); dealt.len()];
        for (node, (cpus, switch)) in nodes.iter().zip(&switches).enumerate() {
            let (ranks, rest) = left.split_at(cpus.len());
            left = rest;
            let path = switch.map(|switch| format!("s{switch}"));
            for (rank, seat) in ranks.iter().zip(seats(&machine, cpus)) {
                home[*rank as usize] = (node, seat);
            }
            let told = shape(&machine, ranks, cpus, path.as_deref());
            prop_assert_eq!(NodeShape::decode(&told.encode()), Ok(told.clone()));
            shapes.push(told);
        }
        let placement = Placement::of_nodes(&shapes, dealt.len() as u32).unwrap();
        let order = by_place(&placement);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert!(sorted.into_iter().eq(0..dealt.len() as u32));
        for pair in placement.levels().windows(2) {
            prop_assert!(pair[1].1.refine(&pair[0].1) && pair[1].1 != pair[0].1);
        }
        for (level, sizes) in placement.levels() {
            // Two ranks are in one part if and only if all that the level stands for is equal.
            let name = |rank: u32| {
                let (node, seat) = home[rank as usize];
                match level {
                    MachineLevel::Switch => vec![switches[node].map_or(9, u32::from)],
                    MachineLevel::Node => vec![node as u32],
                    MachineLevel::Part(level) => vec![node as u32, seat.part(*level).unwrap()],
                }
            };
            let mut seen = Vec::new();
            for (start, size) in sizes.starts().zip(sizes.iter()) {
                let part = &order[start as usize..start as usize + size as usize];
                prop_assert!(part.iter().all(|rank| name(*rank) == name(part[0])));
                prop_assert!(!seen.contains(&name(part[0])), "a part in two pieces");
                seen.push(name(part[0]));
            }
        }
    }

    #[test]
    fn bytes_from_anywhere_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(shape) = NodeShape::decode(&bytes) {
            prop_assert_eq!(NodeShape::decode(&shape.encode()), Ok(shape));
        }
    }

    #[test]
    fn paths_of_switches_are_read_as_written(text in "[a-z/ ]{0,12}") {
        if let Ok(path) = text.parse::<SwitchPath>() {
            prop_assert_eq!(path.to_string(), text);
        }
    }
}
