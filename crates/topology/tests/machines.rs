//! Trees from descriptions: short ones, hwloc's files, and our own text.

use proptest::prelude::*;
use topology::{CpuSet, Kind, Level, Machine, NotAMachine, Object};

fn cpus(list: &str) -> CpuSet {
    list.parse().expect("a list of cpus")
}

/// One line for each part: indent, kind, number, cpus.
fn picture(machine: &Machine) -> String {
    let line = |part: &topology::Part| {
        let indent = " ".repeat(part.depth as usize);
        format!("{indent}{} {} {}\n", part.object.kind.name(), part.number, part.object.cpus)
    };
    machine.parts().iter().map(line).collect()
}

fn why(text: &str) -> String {
    Machine::from_synthetic(text).expect_err(text).to_string()
}

#[test]
fn a_short_description_is_a_tree() {
    let machine = Machine::from_synthetic("pack:2 l3:1(size=32MiB) core:1 pu:2").unwrap();
    let expected = "Machine 0 0-3\n NUMANode 0 0-3\n  Package 0 0-1\n   L3Cache 0 0-1\n    Core 0 0-1\n     PU 0 0\n     PU 1 1\n  \
                    Package 1 2-3\n   L3Cache 1 2-3\n    Core 1 2-3\n     PU 2 2\n     PU 3 3\n";
    assert_eq!(picture(&machine), expected);
    assert_eq!(machine.parts()[3].object.bytes, Some(32 << 20));
    let packages: Vec<u32> = machine.within(1).map(|place| machine.parts()[place].number).collect();
    assert_eq!(packages, [0, 1]);
    assert_eq!((machine.count(Level::Cpu), machine.count(Level::L2Cache)), (4, 0));
}

#[test]
fn memory_stands_among_the_levels_or_in_brackets() {
    let count = |text: &str| Machine::from_synthetic(text).expect(text).count(Level::NumaNode);
    assert_eq!(count("pack:2 numa:2 core:8 pu:1"), 4);
    assert_eq!(count("pack:2 [numa(memory=64GiB)] core:8 pu:1"), 2);
    assert_eq!(count("(memory=3) [numa] Package:2 core:8(indexes=7,8) PU:1"), 1);
    // Fast memory beside slow: cpus near to the same nodes are one part.
    let both = Machine::from_synthetic("pack:2 [numa(memory=64GB)] group:2 [numa(memory=16GB)] core:2 pu:1")
        .unwrap();
    let memory: Vec<_> =
        both.parts().iter().filter(|part| part.object.kind == Kind::Part(Level::NumaNode)).collect();
    assert_eq!(memory.len(), 4);
    assert_eq!(memory[0].object.bytes, Some(16_000_000_000));
    assert_eq!(count("numa:2 pack:1 L3Cache:1 l2:1 L1d:1 core:1 pu:1"), 2);
}

#[test]
fn a_wrong_word_is_named() {
    for (text, told) in [
        ("", "the last level must be cpus"),
        ("pack:2", "the last level must be cpus"),
        ("pack:2 pu", "\"pu\" is no level"),
        ("pack:0 pu:1", "\"pack:0\" is no level"),
        ("pack:-1 pu:1", "\"pack:-1\" is no level"),
        ("tower:2 pu:1", "\"tower\" is none of"),
        ("2 4 2", "\"2\" is no level"),
        ("pack:2 pack:2 pu:1", "Package is there twice"),
        ("pu:2 core:1 pu:1", "PU is there twice"),
        ("pack:2 [core] pu:1", "in brackets"),
        ("pack:2 [numa pu:1", "in brackets"),
        ("pack:2 [numa(memory=4GiB] pu:1", "stays open"),
        ("l3:2(size=big) pu:1", "a size is none"),
        ("l3:2(size=99999999999999999TiB) pu:1", "a size is none"),
        ("pack:100000 pu:100000", "larger than any machine"),
        ("pack:4294967296 core:4294967296 pu:2", "larger than any machine"),
        ("core:9999 pu:2", "more than 16384 cpus"),
    ] {
        assert!(why(text).contains(told), "{text:?}: {}", why(text));
    }
    let long = "group:1 ".repeat(400);
    assert!(why(&format!("{long}pu:1")).contains("within each other"));
    assert!(why(&"x".repeat(5000)).contains("4096 bytes"));
}

#[test]
fn a_process_sits_in_the_smallest_parts_with_all_its_cpus() {
    let machine = Machine::from_synthetic("pack:2 numa:2 l3:2 core:2 pu:2").unwrap();
    let seat = |list: &str| {
        let seat = machine.seat(&cpus(list)).unwrap();
        Level::ALL.map(|level| seat.part(level))
    };
    assert_eq!(seat("9"), [Some(0), Some(1), Some(2), None, Some(4), Some(9)]);
    assert_eq!(seat("8-9"), [Some(0), Some(1), Some(2), None, Some(4), None]);
    assert_eq!(seat("8-11"), [Some(0), Some(1), Some(2), None, None, None]);
    assert_eq!(seat("8,12"), [Some(0), Some(1), None, None, None, None]);
    assert_eq!(seat("0,15"), [Some(0), None, None, None, None, None]);
    assert_eq!(seat("0-31"), [None; 6]);
    let error = machine.seat(&cpus("30-32")).unwrap_err().to_string();
    assert_eq!(error, "a process is bound to cpus 30-32, and the machine has cpus 0-31 only");
    assert!(machine.seat(&CpuSet::new()).is_err());
    assert_eq!(machine.seat_in_turn(9), machine.seat(&cpus("9")).unwrap());
    assert_eq!(machine.seat_in_turn(32 + 31), machine.seat(&cpus("31")).unwrap());
}

fn object(kind: Kind, list: &str) -> Object {
    Object { kind, index: None, bytes: None, cpus: cpus(list) }
}

#[test]
fn contradictions_are_told() {
    let pus = || ["0", "1", "2", "3"].map(|cpu| object(Kind::Part(Level::Cpu), cpu)).to_vec();
    let with =
        |more: &[Object]| Machine::of([pus(), more.to_vec()].concat()).map(|machine| picture(&machine));
    let package = |list| object(Kind::Part(Level::Package), list);
    let cache = |list| object(Kind::Part(Level::L3Cache), list);
    let told = with(&[package("0-2"), cache("2-3")]).unwrap_err().to_string();
    assert_eq!(told, "Package with cpus 0-2 and L3Cache with cpus 2-3 contradict each other");
    for more in [
        vec![package("0-2"), package("0-1")],
        vec![package("0-1"), package("0-1")],
        vec![package("0-1"), cache("1-2")],
        vec![object(Kind::Part(Level::Cpu), "3")],
    ] {
        assert!(matches!(with(&more), Err(NotAMachine::Contradiction(_))), "{more:?}");
    }
    for more in [vec![package("3-4")], vec![object(Kind::Part(Level::Cpu), "1-2")]] {
        assert!(matches!(with(&more), Err(NotAMachine::Strange { .. })), "{more:?}");
    }
    assert_eq!(Machine::of(vec![package("0")]), Err(NotAMachine::NoCpus));
    let group = |list| object(Kind::Group, list);
    let groups = with(&[group("0-1"), group("0-2"), group("0-3"), group("3"), package("0-2")]).unwrap();
    assert_eq!(
        groups,
        "Machine 0 0-3\n Package 0 0-2\n  Group 0 0-1\n   PU 0 0\n   PU 1 1\n  PU 2 2\n PU 3 3\n"
    );
}

const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" nodeset="0x00000003" gp_index="1">
    <info name="Backend" value="Linux"/>
    <object type="Package" os_index="3" cpuset="0x0000000a">
      <object type="NUMANode" os_index="1" cpuset="0x0000000a" local_memory="4096"><page_type size="4096" count="1"/></object>
      <object type="L3Cache" cpuset="0xa" cache_size="1024" depth="3"><object type="Core" os_index="0" cpuset="0x2">
        <object type="PU" os_index="1" cpuset="0x00000002"/></object><object type="Core" os_index="1" cpuset="0x8">
        <object type="PU" os_index="3" cpuset="0x00000008"/></object></object>
    </object>
    <object type="Package" os_index="4" cpuset="0x00000005">
      <object type="NUMANode" os_index="0" cpuset="0x00000005" local_memory="8192"/>
      <object type="PU" os_index="0" cpuset="0x00000001"/><object type="PU" os_index="2" cpuset="0x00000004"/>
    </object>
    <object type="Bridge" gp_index="9"><object type="PCIDev"/></object>
  </object>
</topology>
"#;

#[test]
fn hwlocs_files_are_read() {
    let machine = Machine::from_xml(XML).unwrap();
    let expected = "Machine 0 0-3\n Package 0 0,2\n  NUMANode 0 0,2\n   PU 0 0\n   PU 1 2\n Package 1 1,3\n  NUMANode 1 1,3\n   \
                    L3Cache 0 1,3\n    Core 0 1\n     PU 2 1\n    Core 1 3\n     PU 3 3\n";
    assert_eq!(picture(&machine), expected);
    assert_eq!((machine.parts()[0].object.bytes, machine.parts()[1].object.index), (Some(12288), Some(4)));
    // The older form: sockets, caches with a depth, memory among the other parts.
    let old = r#"<topology><object type="Machine" cpuset="0x00000003"><object type="Node" os_index="0" cpuset="0x3" local_memory="4096">
        <object type="Socket" os_index="0" cpuset="0x3"><object type="Cache" depth="3" cache_size="64" cpuset="0x3">
        <object type="Cache" depth="1" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x00000001"/></object>
        <object type="PU" os_index="1" cpuset="0x00000002"/></object></object></object></object></topology>"#;
    let expected =
        "Machine 0 0-1\n Package 0 0-1\n  NUMANode 0 0-1\n   L3Cache 0 0-1\n    PU 0 0\n    PU 1 1\n";
    assert_eq!(picture(&Machine::from_xml(old).unwrap()), expected);
}

#[test]
fn damaged_files_are_refused() {
    for (from, to, told) in [
        ("</topology>", "", "never closed"),
        ("<topology", "<typology", "expected"),
        ("version=\"2.0\"", "version=\"3.0\"", "version 3.0"),
        (
            "0x0000000a\">\n      <object type=\"N",
            "0x0000000b\">\n      <object type=\"N",
            "contradict each other",
        ),
        ("cpuset=\"0xa\"", "cpuset=\"ten\"", "line 8: cpuset of L3Cache is \"ten\""),
        ("cpuset=\"0xa\"", "cpuset=\"0xf...f,0xa\"", "no set of cpus"),
        ("cache_size=\"1024\"", "cache_size=\"much\"", "cache_size of L3Cache"),
        ("os_index=\"3\" cpuset=\"0x00000008\"", "os_index=\"2\" cpuset=\"0x00000008\"", "PU 2 has cpuset 3"),
        ("<object type=\"PCIDev\"/>", "<object/>", "has no type"),
        ("\"PU\"", "\"Thread\"", "no cpus"),
    ] {
        let damaged = XML.replace(from, to);
        assert_ne!(damaged, XML, "{from}");
        let error = Machine::from_xml(&damaged).expect_err(told).to_string();
        assert!(error.contains(told), "{from} -> {to}: {error}");
    }
    let wide = format!("<topology><object type=\"PU\" cpuset=\"0x1{}\"/></topology>", ",".repeat(100_000));
    assert!(Machine::from_xml(&wide).is_err());
    let laughs = "<!DOCTYPE t [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;\">\
                  <!ENTITY d \"&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;\"><!ENTITY e \"&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;\"><!ENTITY f \"&e;&e;&e;&e;&e;&e;\">]>\
                  <topology>&f;&f;&f;&f;</topology>";
    assert!(Machine::from_xml(laughs).is_err());
    let deep = format!("<topology>{}", "<object type=\"Group\" cpuset=\"0x1\">".repeat(200_000));
    assert!(Machine::from_xml(&deep).is_err());
    let closed = format!("{deep}{}</topology>", "</object>".repeat(200_000));
    assert!(Machine::from_xml(&closed).is_err());
}

#[test]
fn a_description_is_a_file_or_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    assert_eq!(Machine::described(&file("a.xml", XML)).unwrap(), Machine::from_xml(XML).unwrap());
    assert_eq!(Machine::described(&file("b", XML)).unwrap(), Machine::from_xml(XML).unwrap());
    assert_eq!(Machine::described("core:2 pu:1").unwrap().count(Level::Core), 2);
    for (text, told) in [
        ("absent.xml".to_owned(), "absent.xml: No such file"),
        ("core:2".to_owned(), "\"core:2\" describes no machine: the last level"),
        (file("c.xml", "core:2 pu:1"), "c.xml: "),
    ] {
        let error = Machine::described(&text).unwrap_err();
        assert!(error.to_string().contains(told) && error.remedy().contains("lstopo"), "{error}");
    }
}

#[test]
fn the_text_form_says_what_it_expects() {
    for (text, told) in [
        ("", "`weft machine 1` is expected"),
        ("weft machine 2\n", "`weft machine 1` is expected"),
        ("weft machine 1\nPU 0 - 0", "midst of a line"),
        ("weft machine 1\n", "no cpus"),
        ("weft machine 1\nPU 0 - 0 1\n", "KIND NUMBER BYTES CPUS"),
        ("weft machine 1\nPU x - 0\n", "KIND NUMBER BYTES CPUS"),
        ("weft machine 1\nHouse 0 - 0\n", "KIND NUMBER BYTES CPUS"),
        ("weft machine 1\nMachine - - 0\nPU 0 - 0\n", "KIND NUMBER BYTES CPUS"),
        ("weft machine 1\nPU 0 - 0-1\n", "nothing that there is"),
        ("weft machine 1\nPU 0 - 1000000\n", "16384 cpus"),
    ] {
        let error = Machine::decode(text).expect_err(text).to_string();
        assert!(error.contains(told), "{text:?}: {error}");
    }
}

/// Trees of any form: cuts of a line of cpus into parts, level by level, and the cpus in any order.
fn objects() -> impl Strategy<Value = Vec<Object>> {
    let levels = prop::collection::vec(prop::collection::vec(any::<bool>(), 24), 5);
    (levels, Just((0..25usize).collect::<Vec<_>>()).prop_shuffle()).prop_map(|(levels, numbers)| {
        let mut cuts = [false; 24];
        let mut objects: Vec<Object> =
            (0..25).map(|cpu| object(Kind::Part(Level::Cpu), &cpu.to_string())).collect();
        for (level, more) in Level::ALL.into_iter().zip(levels) {
            // Each level keeps the cuts of the one above.
            cuts.iter_mut().zip(more).for_each(|(cut, also)| *cut |= also);
            let mut start = 0;
            for end in 1..=25 {
                if end == 25 || cuts[end - 1] {
                    let cpus = numbers[start..end].iter().copied().collect();
                    objects.push(Object {
                        kind: Kind::Part(level),
                        index: Some(start as u32),
                        bytes: Some(end as u64),
                        cpus,
                    });
                    start = end;
                }
            }
        }
        objects
    })
}

proptest! {
    #[test]
    fn a_tree_holds_all_its_objects_and_is_read_as_it_is_written(objects in objects()) {
        let machine = Machine::of(objects.clone()).unwrap();
        prop_assert_eq!(machine.parts().len(), objects.len() + 1);
        prop_assert_eq!(Machine::decode(&machine.encode()), Ok(machine.clone()));
        let mut backwards = objects;
        backwards.reverse();
        prop_assert_eq!(&Machine::of(backwards).unwrap(), &machine);
        for (place, part) in machine.parts().iter().enumerate() {
            let mut within = CpuSet::new();
            for below in machine.within(place) {
                let below = &machine.parts()[below];
                prop_assert_eq!(below.depth, part.depth + 1);
                prop_assert!(below.object.cpus.is_subset(&part.object.cpus));
                prop_assert!(below.object.cpus.intersection(&within).is_empty());
                below.object.cpus.iter().for_each(|cpu| within.insert(cpu));
            }
            prop_assert!(within.is_empty() || within == part.object.cpus);
        }
        for cpu in 0..25 {
            let seat = machine.seat(&[cpu].into_iter().collect()).unwrap();
            for level in Level::ALL {
                let number = seat.part(level);
                let holds = machine.parts().iter().find(|part| {
                    part.object.kind == Kind::Part(level) && part.object.cpus.contains(cpu)
                });
                prop_assert_eq!(number, holds.map(|part| part.number));
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "([a-z0-9:()\\[\\]= ,-]|pack:|pu:1|numa|core:2 ){0,12}") {
        if let Ok(machine) = Machine::from_synthetic(&text) {
            prop_assert_eq!(Machine::decode(&machine.encode()), Ok(machine));
        }
        let _ = Machine::from_xml(&text);
        let _ = Machine::decode(&text);
    }
}
