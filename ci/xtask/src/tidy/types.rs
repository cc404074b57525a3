//! Names of types: each is defined once in a crate, so that a reader who searches for a name finds the type.

use std::collections::BTreeMap;

use super::source::{Source, is_word};
use super::{File, Finding};

/// Types whose name another type of the crate has already.
pub fn check(files: &[File]) -> Vec<Finding> {
    let mut definitions: BTreeMap<(&str, String), (&str, usize)> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some(of_crate) = crate_of(&file.path) else { continue };
        for (line, name) in types(&Source::new(&file.text)) {
            let Some((first, at)) = definitions.get(&(of_crate, name.clone())) else {
                definitions.insert((of_crate, name), (&file.path, line));
                continue;
            };
            findings.push(Finding {
                file: file.path.clone(),
                line,
                what: format!("a second type `{name}`, beside the one in {first}:{at}"),
                why: "names of types are unique within a crate; say in the name what the type is",
            });
        }
    }
    findings
}

/// The path up to the sources of a crate: `…/src`, or a file or folder of `…/tests` and `…/examples`.
fn crate_of(path: &str) -> Option<&str> {
    let end_of = |folder: &str| path.find(folder).map(|at| at + folder.len());
    if let Some(end) = end_of("/src/") {
        return Some(&path[..end]);
    }
    let end = ["/tests/", "/examples/", "/fuzz_targets/"].into_iter().find_map(end_of)?;
    Some(path[end..].find('/').map_or(path, |name| &path[..end + name]))
}

/// The lines and names of all types that the source defines. An alias counts where it stands in a module:
/// elsewhere it is a trait's associated type, or is known in one function only.
fn types(source: &Source<'_>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for keyword in ["struct", "enum", "union", "trait", "type"] {
        for offset in source.words(keyword) {
            let rest = &source.code[offset + keyword.len()..];
            let name: String = rest.trim_start().chars().take_while(|&c| is_word(c)).collect();
            if !name.is_empty() && (keyword != "type" || is_in_module(&source.code[..offset])) {
                found.push((source.line(offset), name));
            }
        }
    }
    found.sort();
    found
}

/// Whether the end of the code stands in no block, or in that of a module.
fn is_in_module(before: &str) -> bool {
    let mut closed = 0;
    let opening = before.char_indices().rev().find(|(_, c)| {
        match c {
            '}' => closed += 1,
            '{' if closed == 0 => return true,
            '{' => closed -= 1,
            _ => {}
        }
        false
    });
    let Some((opening, _)) = opening else { return true };
    let head = before[..opening].rsplit([';', '{', '}']).next().unwrap_or_default();
    head.split(|c| !is_word(c)).any(|word| word == "mod")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |&(path, text): &(&str, &str)| File { path: path.into(), text: text.into() };
        let files: Vec<File> = files.iter().map(file).collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_second_type_of_a_name_is_found() {
        for second in
            ["struct Slot;", "enum Slot {}", "pub trait Slot {}", "union Slot {}", "type Slot = u8;"]
        {
            let files = [
                ("crates/a/src/one.rs", "pub(crate) struct Slot<T>(T);"),
                ("crates/a/src/two/three.rs", &format!("mod tests {{\n    {second}\n}}")),
            ];
            let said = "crates/a/src/two/three.rs:2: a second type `Slot`, beside the one in crates/a/src/one.rs:1; \
                        names of types are unique within a crate; say in the name what the type is";
            assert_eq!(found(&files), [said], "{second}");
        }
    }

    #[test]
    fn other_crates_may_use_the_name() {
        let paths = [
            "crates/a/src/lib.rs",
            "crates/b/src/lib.rs",
            "crates/a/tests/alone.rs",
            "crates/a/tests/all/main.rs",
            "crates/a/examples/slot.rs",
            "build.rs",
        ];
        assert_eq!(found(&paths.map(|path| (path, "struct Slot;"))), [""; 0]);
        let of_one = ["crates/a/tests/all/main.rs", "crates/a/tests/all/more.rs"];
        assert_eq!(found(&of_one.map(|path| (path, "struct Slot;"))).len(), 1);
    }

    #[test]
    fn associated_and_local_aliases_and_words_are_no_definitions() {
        let text = "struct Error;\nimpl Iterator for A {\n    fn f() { g() }\n    type Error = u8;\n}\n\
                    trait T<const N: usize> {\n    type Error: Copy;\n}\n// struct Error;\nlet a = \"enum Error\";\n\
                    fn f(_: u8) -> impl Copy { struct Other; }\nmacro_rules! m { ($name:ident) => { struct $name; } }";
        assert_eq!(found(&[("crates/a/src/lib.rs", text)]), [""; 0]);
        let local = "struct Error;\nfn f() {\n    type Error = u8;\n}\n";
        assert_eq!(found(&[("crates/a/src/lib.rs", local)]), [""; 0]);
    }
}
