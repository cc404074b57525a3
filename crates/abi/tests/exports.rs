//! The shared library shows exactly the names of the ABI and of the tables beyond it, under the ABI's file name, and tools can replace them.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{compile, library, succeed, table};

#[test]
fn exactly_the_functions_of_the_table_are_exported() {
    let text = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let exported: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let functions = table("functions");
    let expected: BTreeSet<String> =
        functions.iter().flat_map(|row| [row["name"].clone(), format!("P{}", row["name"])]).collect();
    assert_eq!(expected.len(), 1328);
    let beyond = table("beyond/functions");
    let expected: BTreeSet<String> = expected
        .into_iter()
        .chain(beyond.iter().flat_map(|row| [row["name"].clone(), format!("P{}", row["name"])]))
        .collect();
    assert_eq!(expected.len(), 1328 + 2 * 28);
    let missing: Vec<_> = expected.iter().filter(|name| !exported.contains(name.as_str())).collect();
    let header = concat!(
        include_str!("../include/mpix.h"),
        include_str!("../include/mpix_ft.h"),
        include_str!("../include/mpix_ftmpi.h")
    );
    let is_extension = |name: &str| name.starts_with("MPIX_") && header.contains(&format!("int {name}("));
    let is_known = |name: &str| expected.contains(name) || is_extension(name);
    let surplus: Vec<_> = exported.iter().filter(|name| !is_known(name)).collect();
    assert_eq!(
        header.matches("int MPIX_").count(),
        exported.iter().filter(|name| is_extension(name)).count()
    );
    assert!(missing.is_empty() && surplus.is_empty(), "missing: {missing:?}\nsurplus: {surplus:?}");
}

#[test]
fn every_export_is_a_strong_function() {
    let text = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let weak: Vec<_> = text.lines().filter(|line| line.split_whitespace().nth(1) != Some("T")).collect();
    assert!(weak.is_empty(), "{weak:?}");
}

#[test]
fn the_library_bears_the_name_of_the_abi_and_stays_loaded() {
    let text = succeed(Command::new("readelf").args(["-W", "-d"]).arg(library()));
    assert!(text.contains("Library soname: [libmpi_abi.so.1]"), "{text}");
    assert!(text.contains("NODELETE"), "{text}");
}

#[test]
fn the_library_needs_only_what_every_system_has() {
    let text = succeed(Command::new("readelf").args(["-W", "-d"]).arg(library()));
    let needed: Vec<&str> = text.lines().filter(|line| line.contains("(NEEDED)")).collect();
    let is_common = |line: &&&str| {
        ["libc.so", "libm.so", "libgcc_s.so", "ld-linux"].iter().any(|name| line.contains(name))
    };
    assert!(!needed.is_empty() && needed.iter().filter(is_common).count() == needed.len(), "{needed:?}");
}

#[test]
fn nothing_inside_goes_through_a_replaceable_name() {
    let text = succeed(Command::new("readelf").args(["-W", "-r"]).arg(library()));
    assert!(text.contains("Relocation section"), "{text}");
    let through_names: Vec<_> = text.lines().filter(|line| line.contains("MPI_")).collect();
    assert!(through_names.is_empty(), "{through_names:#?}");
}

#[test]
fn a_preloaded_tool_sees_calls_of_the_program_and_reaches_the_library() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    link_library(path);
    let tool = build(path, "tool", TOOL, &["-shared", "-fPIC"]);
    let program = build(path, "program", PROGRAM, &[]);
    let run = |preload: Option<&Path>| {
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", path);
        preload.map(|tool| command.env("LD_PRELOAD", tool));
        succeed(&mut command)
    };
    assert_eq!(run(None), "own 257 profiled 257\n");
    assert_eq!(run(Some(&tool)), "own 1257 profiled 257\n");
}

#[test]
fn a_definition_in_the_program_wins_over_the_library() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    link_library(path);
    let program = build(path, "program", &format!("{TOOL}{PROGRAM}"), &[]);
    let text = succeed(Command::new(program).env("LD_LIBRARY_PATH", path));
    assert_eq!(text, "own 1257 profiled 257\n");
}

#[test]
fn functions_that_return_no_code_work_without_initialization() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    link_library(path);
    let text = "#include <mpi.h>\nint main(void) {\n\
        \x20   double begin = MPI_Wtime();\n\
        \x20   char data[8];\n\
        \x20   MPI_Aint base = (MPI_Aint)data;\n\
        \x20   if (!(MPI_Wtick() > 0.0) || MPI_Wtime() < begin) return 1;\n\
        \x20   if (MPI_Aint_add(base, 5) != (MPI_Aint)(data + 5) || MPI_Aint_diff(base + 5, base) != 5) return 2;\n\
        \x20   if (MPI_Type_fromint(MPI_Type_toint(MPI_COMPLEX32)) != MPI_COMPLEX32) return 3;\n\
        \x20   if (MPI_Pcontrol(2, \"any\", 1.5) != MPI_SUCCESS) return 4;\n\
        \x20   return 0;\n}\n";
    let program = build(path, "program", text, &[]);
    succeed(Command::new(program).env("LD_LIBRARY_PATH", path));
}

/// Makes the library available in `folder` under the name that programs ask for.
fn link_library(folder: &Path) {
    std::os::unix::fs::symlink(library(), folder.join("libmpi_abi.so.1")).expect("a link to the library");
}

fn build(folder: &Path, name: &str, text: &str, arguments: &[&str]) -> std::path::PathBuf {
    let (source, result) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&source, text).expect("the source is written");
    let arguments: Vec<_> = arguments.iter().copied().chain(["-o", result.to_str().unwrap()]).collect();
    compile("cc", &arguments, &source, Some(&folder.join("libmpi_abi.so.1")));
    result
}

/// Changes the answer of one function.
const TOOL: &str = "
#include <mpi.h>
int MPI_Comm_toint(MPI_Comm comm) {
    return PMPI_Comm_toint(comm) + 1000;
}
";

/// Calls that function under both names.
const PROGRAM: &str = "
#include <mpi.h>
#include <stdio.h>
int main(void) {
    int own = MPI_Comm_toint(MPI_COMM_WORLD), profiled = PMPI_Comm_toint(MPI_COMM_WORLD);
    printf(\"own %d profiled %d\\n\", own, profiled);
    return 0;
}
";
