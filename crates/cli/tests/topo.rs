//! `weft topo` as people call it.

use std::path::Path;
use std::process::{Command, Output};

const WEFT: &str = env!("CARGO_BIN_EXE_weft");
const PATIENCE_SECONDS: &str = "60";

/// What it says on both streams, and its status.
fn topo(arguments: &[&str], variables: &[(&str, &str)]) -> (String, String, Option<i32>) {
    let home = tempfile::tempdir().expect("a folder");
    topo_at(home.path(), WEFT, arguments, variables)
}

fn topo_at(
    home: &Path,
    weft: &str,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> (String, String, Option<i32>) {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", PATIENCE_SECONDS, weft, "topo"]).args(arguments);
    for (name, _) in std::env::vars() {
        if ["WEFT_", "HWLOC_", "XDG_", "LD_LIBRARY_PATH"].iter().any(|start| name.starts_with(start)) {
            command.env_remove(name);
        }
    }
    let Output { stdout, stderr, status } = command
        .env("HOME", home)
        .envs(variables.iter().copied())
        .output()
        .expect("timeout is a command everywhere");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(stdout), text(stderr), status.code())
}

#[test]
fn this_host_is_shown_and_kept() {
    let home = tempfile::tempdir().expect("a folder");
    let (told, complaint, status) = topo_at(home.path(), WEFT, &[], &[]);
    assert_eq!((status, complaint.as_str()), (Some(0), ""), "{told}");
    assert!(told.contains("as hwloc sees it, in ") && told.contains("\nmachine"), "{told}");
    let kept: Vec<_> =
        std::fs::read_dir(home.path().join(".cache/weft")).expect("a folder").flatten().collect();
    assert!(kept.len() == 1 && told.contains(kept[0].path().to_str().expect("a name")), "{told} {kept:?}");
    let allowed = topology::cpus_allowed().expect("a mask");
    let (json, _, _) = topo_at(home.path(), WEFT, &["--json"], &[]);
    let tree: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let cpus: topology::CpuSet = tree["machine"]["cpus"].as_str().expect("a list").parse().expect("cpus");
    assert!(allowed.is_subset(&cpus), "{json}");
}

#[test]
fn a_described_machine_is_shown_in_each_form() {
    let machine = "pack:2 [numa(memory=4GiB)] core:2 pu:2";
    let (told, _, status) = topo(&["--machine", machine], &[]);
    assert_eq!(status, Some(0), "{told}");
    assert!(
        told.starts_with(&format!(
            "{machine}: as described\n2 packages, 2 NUMA nodes, 4 cores, 8 cpus\n\nmachine 8 GiB\n"
        )),
        "{told}"
    );
    assert_eq!(topo(&[], &[("WEFT_MACHINE", machine)]).0, told);
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("machine.svg");
    let (json, _, status) =
        topo(&["--machine", machine, "--json", "--svg", picture.to_str().expect("a name")], &[]);
    assert_eq!(status, Some(0), "{json}");
    let tree: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(tree["machine"]["parts"][1]["parts"][0]["bytes"], 4_294_967_296_u64);
    let svg = std::fs::read_to_string(picture).expect("a picture");
    let svg = roxmltree::Document::parse(&svg).expect("XML");
    assert_eq!(svg.descendants().filter(|node| node.has_tag_name("text")).count(), 1 + 2 + 2 + 4 + 1);
}

#[test]
fn what_is_wrong_is_told_with_a_remedy_and_status_1() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (arguments, variables, told) in [
        (&["--machine", "tower:2"][..], &[][..], "--machine: \"tower:2\" describes no machine"),
        (&["--machine", "absent.xml"], &[], "absent.xml: No such file"),
        (&["--machine", file], &[], "Cargo.toml: "),
        (&[], &[("WEFT_MACHINE", "core:2")], "WEFT_MACHINE: \"core:2\" describes no machine"),
        (&["--machine", "pu:1", "--svg", "/proc/nowhere/a.svg"], &[], "cannot write /proc/nowhere/a.svg"),
    ] {
        let (out, complaint, status) = topo(arguments, variables);
        assert_eq!((status, out.as_str()), (Some(1), ""), "{complaint}");
        assert!(complaint.contains(told) && complaint.trim_end().lines().count() == 2, "{complaint}");
    }
}

#[test]
fn without_hwloc_it_says_what_to_install() {
    // A command that stands alone: the library is neither beside it nor in a `lib`.
    let folder = tempfile::tempdir().expect("a folder");
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    let alone = bin.join("weft");
    std::fs::copy(WEFT, &alone).expect("a copy");
    let alone = alone.to_str().expect("a name");
    let (out, complaint, status) = topo_at(folder.path(), alone, &[], &[]);
    assert_eq!((status, out.as_str()), (Some(1), ""), "{complaint}");
    assert!(
        complaint.contains("libweft_hwloc.so is neither in") && complaint.contains("ci/install"),
        "{complaint}"
    );
    // A library that the loader refuses, as ours is where libhwloc is not.
    let lib = folder.path().join("lib");
    std::fs::create_dir(&lib).expect("a folder");
    std::fs::write(lib.join("libweft_hwloc.so"), "no library").expect("a file");
    let (_, complaint, status) = topo_at(folder.path(), alone, &[], &[]);
    assert_eq!(status, Some(1), "{complaint}");
    assert!(
        complaint.contains("cannot be loaded") && complaint.contains("apt install libhwloc15"),
        "{complaint}"
    );
    // What was described needs neither.
    assert_eq!(topo_at(folder.path(), alone, &["--machine", "pu:2"], &[]).2, Some(0));
}

#[test]
fn who_reads_the_beginning_only_is_no_error() {
    let script = "\"$0\" topo --machine 'core:4096 pu:1' | head -n 1";
    let output = Command::new("timeout")
        .args(["-k", "5", PATIENCE_SECONDS, "sh", "-c", script, WEFT])
        .output()
        .expect("timeout is a command everywhere");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "core:4096 pu:1: as described\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
