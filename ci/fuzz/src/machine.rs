//! What tells of the machine: hwloc's files, short descriptions, our own text, what nodes tell each other,
//! and switches.

use topology::{CpuSet, Level, Machine, NodeShape, Placement, Seat, Switches};

use crate::tape::{Tape, Writer};

/// One byte chooses the reader, the rest is for it.
pub fn run(input: &[u8]) {
    let mut tape = Tape::new(input);
    let choice = tape.below(5);
    let bytes = tape.rest();
    let text = String::from_utf8_lossy(bytes);
    match choice {
        0 => machine(Machine::from_xml(&text).ok()),
        1 => machine(Machine::from_synthetic(&text).ok()),
        2 => machine(Machine::decode(&text).ok()),
        3 => shapes(bytes),
        _ => switches(&text),
    }
}

/// Parts lie within each other and have their numbers, and each cpu has a seat.
fn machine(read: Option<Machine>) {
    let Some(machine) = read else { return };
    assert_eq!(Machine::decode(&machine.encode()).as_ref(), Ok(&machine));
    for (place, part) in machine.parts().iter().enumerate() {
        for within in machine.within(place) {
            let within = &machine.parts()[within];
            assert!(within.object.cpus.is_subset(&part.object.cpus) && within.depth == part.depth + 1);
        }
    }
    let first: CpuSet = machine.cpus().iter().take(1).collect();
    let seat = machine.seat(&first).expect("a cpu of the machine");
    assert!(seat.part(Level::Cpu).is_some());
    let own = machine.seat_in_turn(machine.count(Level::Cpu) as u32);
    assert_eq!(own, machine.seat_in_turn(0));
}

/// Two nodes, cut anywhere, beside one that is known.
fn shapes(bytes: &[u8]) {
    let known = NodeShape::new(&[(0, Seat::UNKNOWN), (1, Seat::UNKNOWN)], None);
    let (one, other) = bytes.split_at(bytes.len() / 2);
    for bytes in [bytes, one, other] {
        let Ok(shape) = NodeShape::decode(bytes) else { continue };
        assert_eq!(NodeShape::decode(&shape.encode()).as_ref(), Ok(&shape));
        let ranks = u32::try_from(shape.len()).expect("not more than 65536") + 2;
        if let Ok(placement) = Placement::of_nodes(&[known.clone(), shape], ranks) {
            assert_eq!(placement.len(), ranks);
            assert!(placement.levels().windows(2).all(|pair| pair[1].1.refine(&pair[0].1)));
        }
    }
}

fn switches(text: &str) {
    if let Ok(switches) = Switches::parse(text) {
        for host in ["", "node1", "n12", "left", "node001.cluster"] {
            if let Some(path) = switches.of(host) {
                assert_eq!(path.as_str().parse().as_ref(), Ok(path));
            }
        }
    }
}

/// Real ones of each kind.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let of = |choice: u8, bytes: &[u8]| Writer::default().bytes(&[choice]).bytes(bytes).0;
    let tree =
        Machine::from_synthetic("pack:2 [numa(memory=4GiB)] l3:1(size=8MiB) core:2 pu:1").expect("a machine");
    let seat = |cpu: usize| tree.seat(&CpuSet::from_iter([cpu])).expect("a seat");
    let path = "core/left".parse().expect("a path");
    let shape = NodeShape::new(&[(2, seat(3)), (5, seat(0)), (4, seat(1)), (3, seat(2))], Some(path));
    vec![
        ("xml", of(0, XML.as_bytes())),
        ("xml-old", of(0, XML_OLD.as_bytes())),
        ("synthetic", of(1, b"pack:2 numa:2 l3:4(size=32MiB) core:8 pu:1")),
        (
            "synthetic-attached",
            of(1, b"(memory=1) Package:2 [numa(memory=4GB)] group:2 [numa] l2:1 Core:2 PU:2(indexes=0,1)"),
        ),
        ("text", of(2, tree.encode().as_bytes())),
        ("shape", of(3, &shape.encode())),
        ("switches", of(4, b"node[1-16,20] core/left # a\nlogin core\n")),
        (
            "switches-slurm",
            of(4, b"SwitchName=left Nodes=node[001-12]\nSwitchName=core \\\n Switches=left LinkSpeed=1\n"),
        ),
    ]
}

const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">
<object type="Machine" cpuset="0x00000003"><object type="Package" os_index="0" cpuset="0x00000003">
<object type="NUMANode" os_index="0" cpuset="0x00000003" local_memory="4096"/><object type="L3Cache" cpuset="0x00000003" cache_size="64">
<object type="PU" os_index="0" cpuset="0x00000001"/><object type="PU" os_index="1" cpuset="0x00000002"/></object></object></object></topology>"#;
const XML_OLD: &str = r#"<topology><object type="Node" cpuset="0x1,,0x3"><object type="Socket" cpuset="0x3"><object type="Cache" depth="2" cpuset="0x3">
<object type="PU" cpuset="0x1"/><object type="PU" cpuset="0x2"/></object></object><object type="PU" cpuset="0x1,0x0,0x0"/></object></topology>"#;
