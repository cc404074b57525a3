//! Rules of the workspace that the compiler does not know, as checks with a reason each.
//!
//! | check | file |
//! |---|---|
//! | dependencies between crates follow the table of arrows; one file knows the fabrics | [`arrows`], [`fences`] |
//! | `unsafe`, raw atomics and `no_mangle` stay where they belong, and `unsafe` says why it is sound | [`fences`] |
//! | files and functions stay small | [`sizes`] |
//! | comments keep the width of code, doc comments stand alone, words are the field's | [`prose`] |
//! | names of types are unique within a crate | [`types`] |
//! | a program of tests in a folder compiles every file there | [`programs`] |
//! | the table of the rules of failures names tests that are there, for every rule | [`rules`] |
//! | an item that a page links to is defined in the file that it names | [`links`] |
//! | generated files are fresh, every crate's invariant is written down, no path of one machine slips in | [`documents`] |
//!
//! The checks read text; [`source`] is the little of Rust's grammar that they need.

pub mod arrows;
pub mod documents;
pub mod fences;
pub mod links;
pub mod programs;
pub mod prose;
pub mod rules;
pub mod sizes;
pub mod source;
pub mod types;

use std::fmt;
use std::fs;
use std::path::Path;

/// A place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root of the workspace.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// Why it matters, or what to do.
    pub why: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.file, self.line, self.what, self.why)
    }
}

/// A text file of the tree.
pub struct File {
    /// Path from the root of the workspace, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// Whether the file was written by the generator.
    pub fn is_generated(&self) -> bool {
        self.text.lines().next().is_some_and(|line| line.contains("@generated"))
    }

    /// Whether the file is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Everything that is wrong with the tree, in the order of files and lines.
pub fn findings(root: &Path) -> Vec<Finding> {
    let files = files(root);
    let mut findings = arrows::check(&files);
    for file in &files {
        findings.extend(sizes::check(file));
        findings.extend(fences::check(file));
        findings.extend(documents::check_words(file));
        findings.extend(prose::check(file));
    }
    findings.extend(documents::check_invariants(&files));
    findings.extend(documents::check_generated(root));
    findings.extend(links::check(&files));
    findings.extend(programs::check(&files));
    findings.extend(rules::check(&files));
    findings.extend(types::check(&files));
    findings.sort();
    findings
}

/// All text files below `root`, without what is built or belongs to git.
pub(crate) fn files(root: &Path) -> Vec<File> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let kind = entry.file_type();
            // In a second working tree of a clone, `.git` is a file.
            if SKIPPED.iter().any(|skipped| name == *skipped) {
                continue;
            }
            if kind.as_ref().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if kind.is_ok_and(|kind| kind.is_file())
                && let Ok(text) = fs::read_to_string(&path)
            {
                let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                found.push(File { path, text });
            }
        }
    }
    found.sort_by(|left, right| left.path.cmp(&right.path));
    found
}

/// What holds nothing written by hand; `.git` is a folder, or a file in a second worktree.
const SKIPPED: [&str; 4] = [".git", "target", "prefix", "__pycache__"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_as_one_line() {
        let finding = Finding { file: "a.rs".into(), line: 3, what: "too long".into(), why: "split it" };
        assert_eq!(finding.to_string(), "a.rs:3: too long; split it");
    }

    #[test]
    fn built_and_binary_files_are_not_read() {
        let root = tempfile::tempdir().unwrap();
        let files_there: [(&str, &[u8]); 4] =
            [("target/a.rs", b"x"), ("src/b.rs", b"y"), ("c.png", &[0x89, 0xff]), (".git", b"gitdir: /x")];
        for (path, bytes) in files_there {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let paths: Vec<_> = files(root.path()).into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["src/b.rs"]);
    }
}
