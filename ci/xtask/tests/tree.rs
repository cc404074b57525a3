//! The tree as it stands: its generated files are fresh, it keeps the rules, and its documents make a site.

use system_tests::workspace_root;
use xtask::{generate, site, tidy};

#[test]
fn generated_files_are_fresh() {
    let stale = generate::stale(&workspace_root()).unwrap_or_else(|error| panic!("{error}"));
    assert!(stale.is_empty(), "stale; run `cargo xtask generate`:\n{}", stale.join("\n"));
}

#[test]
fn the_tree_is_tidy() {
    let findings = tidy::findings(&workspace_root());
    let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} finding(s):\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn signatures_of_bodies_are_printed() {
    let text =
        generate::body_signatures(&workspace_root(), &["MPI_Gatherv".to_string()]).expect("readable tables");
    let line = text.lines().find(|line| line.contains("fn mpi_gatherv(")).expect("the body's line");
    assert!(line.contains("recvcounts: Counts<'_>, displs: Displacements<'_>"), "{line}");
}

#[test]
fn the_documents_make_a_site() {
    let folder = tempfile::tempdir().unwrap();
    let complaints = site::pages::write(&workspace_root(), folder.path()).expect("readable documents");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    let picture = "images/point-to-point.svg";
    assert!(folder.path().join("SUMMARY.md").is_file() && folder.path().join(picture).is_file());
}
