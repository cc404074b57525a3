//! What is written beside the code: fresh generated files, one invariant per room, nothing about one machine.

use std::path::Path;

use super::arrows::rooms;
use super::{File, Finding};
use crate::generate;

/// Generated files that differ from what the generator would write.
pub fn check_generated(root: &Path) -> Vec<Finding> {
    let finding = |file, what| Finding { file, line: 1, what, why: "run `cargo xtask generate`" };
    match generate::stale(root) {
        Ok(paths) => {
            paths.into_iter().map(|path| finding(path, "stale generated file".to_string())).collect()
        }
        Err(error) => vec![finding("crates/abi".to_string(), format!("cannot generate: {error}"))],
    }
}

/// Rooms whose invariant is missing from the page on architecture.
pub fn check_invariants(files: &[File]) -> Vec<Finding> {
    let page = files.iter().find(|file| file.path == ARCHITECTURE);
    let text = page.map_or("", |page| page.text.as_str());
    let finding = |room| Finding {
        file: ARCHITECTURE.to_string(),
        line: 1,
        what: format!("no `**Invariant` for `{room}`"),
        why: "each room says in bold what it must never know or do",
    };
    rooms(files).into_iter().filter(|room| !has_invariant(text, room)).map(finding).collect()
}

/// Words that have no place in the tree.
pub fn check_words(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        findings.extend(FORBIDDEN.iter().filter(|word| line.contains(**word)).map(|word| Finding {
            file: file.path.clone(),
            line: index + 1,
            what: format!("`{word}`"),
            why: "it exists on one machine only; whoever clones the tree has no such path",
        }));
    }
    findings
}

/// A heading or paragraph begins with the room's name, and before the next one there is an invariant.
fn has_invariant(text: &str, room: &str) -> bool {
    let name = format!("`{room}`");
    let mut about_room = false;
    for line in text.lines() {
        let begin = line.trim_start_matches(['#', '-', '*', '>', '|', ' ']);
        if begin.starts_with('`') || line.starts_with('#') {
            about_room = begin.starts_with(&name) || begin.starts_with(&format!("`crates/{room}`"));
            about_room |= begin.starts_with(&format!("`fabrics/{room}`"))
                || begin.starts_with(&format!("`sys/{room}`"));
        }
        if about_room && line.contains("**Invariant") {
            return true;
        }
    }
    false
}

const ARCHITECTURE: &str = "docs/architecture.md";
/// Put together here so that this file does not contain them.
const FORBIDDEN: [&str; 2] = [concat!("/wo", "rk/"), concat!("../sh", "ared")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_room_needs_its_own_invariant() {
        let page = "# Rooms\n`shm` — rings.\n**Invariant:** knows no tag.\n\n`tcp` — sockets.\n\n## `fabric`\n\nThe contract.\n\n\
                    **Invariant:** no I/O.\n- `weft` nouns. **Invariant:** x\n";
        let has = |room| has_invariant(page, room);
        assert!(has("shm") && has("fabric") && has("weft"));
        assert!(!has("tcp") && !has("cli"));
        let manifest = |path: &str| File { path: path.into(), text: String::new() };
        let page = File { path: ARCHITECTURE.into(), text: page.into() };
        let files = [manifest("fabrics/shm/Cargo.toml"), manifest("fabrics/tcp/Cargo.toml"), page];
        let found: Vec<_> = check_invariants(&files).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, ["no `**Invariant` for `tcp`"]);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let text = format!("fine\nsee {}x\n", FORBIDDEN[0]);
        let found = check_words(&File { path: "a.md".into(), text });
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
    }

    #[test]
    fn what_cannot_be_generated_is_a_finding() {
        let empty = tempfile::tempdir().unwrap();
        let found = check_generated(empty.path());
        assert!(found[0].what.contains("cannot generate"), "{found:?}");
    }
}
