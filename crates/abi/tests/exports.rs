//! The shared library shows exactly the names of the ABI and of the tables beyond it, under the ABI's file
//! name.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use common::{build, library, link_library, succeed, table};

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
fn both_names_of_a_function_hold_the_same_code() {
    let text = succeed(Command::new("nm").args(["-D", "-S", "--defined-only"]).arg(library()));
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let exported: BTreeMap<_, _> = lines.map(|words| (words[3], (words[0], words[1]))).collect();
    for row in table("functions").iter().chain(&table("beyond/functions")) {
        let own = exported[row["name"].as_str()];
        let profiling = exported[format!("P{}", row["name"]).as_str()];
        // Optimisation leaves one function with two names; without it, there are two of the same length.
        assert!(own.0 == profiling.0 || own.1 == profiling.1, "{}: {own:?}, {profiling:?}", row["name"]);
    }
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
