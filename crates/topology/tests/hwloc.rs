//! Our readers against hwloc itself. hwloc takes its description from the environment, which a process must
//! not change while others read it; so this program starts itself again for each.

use std::path::Path;
use std::process::Command;

use topology::{CpuSet, Level, Machine, Object, cpus_allowed};

/// In a child, what hwloc says by the child's environment; printed for the parent.
#[test]
fn tell_what_hwloc_says() {
    if std::env::var_os(TELL).is_some() {
        let machine = Machine::of_this_host().expect("libhwloc is installed by ci/setup");
        println!("{BEGIN}\n{}{END}", machine.encode());
    }
}

/// What hwloc says where these variables are set.
fn hwloc_says(variables: &[(&str, &str)]) -> Machine {
    let own = std::env::current_exe().expect("a program");
    let mut command = Command::new("timeout");
    command.args(["-k", "5", PATIENCE_SECONDS]).arg(own).args([
        "--exact",
        "tell_what_hwloc_says",
        "--nocapture",
    ]);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HWLOC_")) {
        command.env_remove(name);
    }
    let output = command.env(TELL, "1").envs(variables.iter().copied()).output().expect("timeout is there");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let text =
        told.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map(|(text, _)| text.trim_start());
    let text =
        text.unwrap_or_else(|| panic!("{variables:?}: {told}{}", String::from_utf8_lossy(&output.stderr)));
    Machine::decode(text).expect("a machine")
}

/// A machine without what one side does not know: sizes that no text names, and numbers.
fn plain(machine: &Machine, with: impl Fn(&Object) -> Object) -> Machine {
    Machine::of(machine.parts().iter().map(|part| with(&part.object)).collect()).expect("the same machine")
}

#[test]
fn short_descriptions_are_read_as_hwloc_reads_them() {
    for text in [
        "pack:2 numa:2 l3:4 core:8 pu:1",
        "pack:2 core:4 pu:2",
        "pu:3",
        "package:2 [numa] l3:2 l2:2 l1d:1 core:1 pu:2",
        "[numa] pack:2 core:2 pu:1",
        "pack:2 die:2 l3:2 core:2 pu:1",
        "numa:2 pack:2 core:2 pu:1",
        "pack:2 l3:1 numa:2 core:2 pu:1",
        "group:3 pack:1 l2:2 core:1 pu:1",
        "pack:1 [numa] group:2 [numa] core:2 pu:1",
        "L3Cache:2 Core:2 PU:2",
    ] {
        let ours = Machine::from_synthetic(text).expect(text);
        let hwlocs = hwloc_says(&[("HWLOC_SYNTHETIC", text)]);
        let cpus_only = |object: &Object| Object { bytes: None, index: None, ..object.clone() };
        assert_eq!(plain(&ours, cpus_only).encode(), plain(&hwlocs, cpus_only).encode(), "{text}");
    }
    let sized = "pack:2 [numa(memory=3GiB)] l3:2(size=5MB) l2:1(size=256kiB) core:2 pu:1";
    let ours = Machine::from_synthetic(sized).expect("a machine");
    let hwlocs = hwloc_says(&[("HWLOC_SYNTHETIC", sized)]);
    let without_numbers = |object: &Object| Object { index: None, ..object.clone() };
    assert_eq!(plain(&ours, without_numbers).encode(), plain(&hwlocs, without_numbers).encode());
}

#[test]
fn files_are_read_as_hwloc_reads_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hwloc");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("a folder of files").flatten() {
        let path = entry.path();
        let ours = Machine::from_xml(&std::fs::read_to_string(&path).expect("a text")).expect("a machine");
        let name = path.to_str().expect("a plain name");
        // Else hwloc leaves out what this process may not use of this machine.
        let hwlocs = hwloc_says(&[("HWLOC_XMLFILE", name), ("HWLOC_THISSYSTEM", "0")]);
        assert_eq!(ours.encode(), hwlocs.encode(), "{name}");
        count += 1;
    }
    assert!(count >= 3, "{count} files in {}", folder.display());
}

#[test]
fn this_host_has_the_cpus_that_this_process_may_use() {
    let machine = hwloc_says(&[]);
    let allowed = cpus_allowed().expect("a mask");
    assert!(allowed.is_subset(machine.cpus()), "{allowed} of {}", machine.cpus());
    for cpu in allowed.iter() {
        let seat = machine.seat(&CpuSet::from_iter([cpu])).expect("a seat");
        assert!(
            seat.part(Level::Cpu).is_some() && seat.part(Level::NumaNode).is_some(),
            "cpu {cpu}: {seat:?}"
        );
    }
}

const TELL: &str = "WEFT_TEST_TELL_HWLOC";
const BEGIN: &str = "=== machine";
const END: &str = "=== end";
const PATIENCE_SECONDS: &str = "60";
