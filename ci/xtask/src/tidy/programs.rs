//! A program of tests that stands in a folder compiles every file there: what its `main.rs` forgets would
//! never run, and nobody would miss it.

use super::{File, Finding};

/// The files that no `main.rs` beside them names.
pub fn check(files: &[File]) -> Vec<Finding> {
    let forgotten = |program: &File| -> Vec<Finding> {
        let Some(folder) = folder_of_program(&program.path) else { return Vec::new() };
        let modules = files.iter().filter_map(|file| Some((file, module_in(folder, &file.path)?)));
        let is_named = |module: &str| program.text.lines().any(|line| line == format!("mod {module};"));
        modules
            .filter(|(_, module)| *module != "main" && !is_named(module))
            .map(|(file, module)| Finding {
                file: file.path.clone(),
                line: 1,
                what: format!("{} has no line `mod {module};`", program.path),
                why: "tests that are not compiled find nothing",
            })
            .collect()
    };
    files.iter().flat_map(forgotten).collect()
}

/// The folder of which that file is the program.
fn folder_of_program(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("main.rs")?;
    folder.contains("/tests/").then_some(folder)
}

/// The module that a file is, if it stands in that very folder.
fn module_in<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(folder)?.strip_suffix(".rs").filter(|module| !module.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_file_that_is_not_named_is_found_and_no_other() {
        let files = [
            file("crates/a/src/main.rs", ""),
            file("crates/a/src/other.rs", ""),
            file("crates/a/tests/all/common/cases.rs", ""),
            file("crates/a/tests/all/forgotten.rs", ""),
            file("crates/a/tests/all/main.rs", "mod common;\nmod named;\n"),
            file("crates/a/tests/all/named.rs", ""),
            file("crates/a/tests/alone.rs", ""),
        ];
        let found: Vec<String> = check(&files).iter().map(ToString::to_string).collect();
        let said = "crates/a/tests/all/forgotten.rs:1: crates/a/tests/all/main.rs has no line `mod forgotten;`; \
                    tests that are not compiled find nothing";
        assert_eq!(found, [said]);
    }
}
