//! Documents that name an item of the code: where a link's text is an item in backticks and its target a Rust
//! file, that file defines the item.

use super::{File, Finding};

/// Every link of a page to an item that its target does not define, or whose target is not there.
pub fn check(files: &[File]) -> Vec<Finding> {
    let pages = files.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| check_page(page, files)).collect()
}

fn check_page(page: &File, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(page.text.lines()) {
        for (item, target) in links(text) {
            let path = resolved(&page.path, target);
            let found = files.iter().find(|file| file.path == path);
            let is_there = found.is_some_and(|file| file.text.lines().any(|line| defines(line, item)));
            if !is_there {
                findings.push(Finding {
                    file: page.path.clone(),
                    line,
                    what: format!("`{item}` is not defined in {path}"),
                    why: "a reader follows the name and finds nothing; name what does this now",
                });
            }
        }
    }
    findings
}

/// The links of a line whose text is in backticks and whose target is a Rust file: the item's own name, and
/// the target.
fn links(line: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for begin in line.split("[`").skip(1) {
        let Some((item, rest)) = begin.split_once("`](") else { continue };
        let Some((target, _)) = rest.split_once(')') else { continue };
        if target.ends_with(".rs") && !target.contains("://") {
            found.push((item.rsplit("::").next().unwrap_or(item), target));
        }
    }
    found
}

/// The path from the root of the tree of a target that is relative to a page.
pub(crate) fn resolved(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether a line begins the definition of an item of that name.
pub(crate) fn defines(line: &str, item: &str) -> bool {
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    let is_kind = |word: &str| KINDS.contains(&word);
    let mut before = words.next();
    for word in words {
        if word == item && before.is_some_and(is_kind) {
            return true;
        }
        before = Some(word);
    }
    false
}

const KINDS: [&str; 9] = ["fn", "struct", "enum", "union", "trait", "type", "const", "mod", "macro_rules"];

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn what_a_page_names_is_defined_where_it_says() {
        let code =
            file("crates/a/src/b.rs", "pub(crate) unsafe fn put<T>(at: T) {}\nstruct Ring;\n// fn gone()\n");
        let page = |text: &str| check(&[file("docs/page.md", text), file("crates/a/src/b.rs", &code.text)]);
        assert_eq!(page("[`Ring::put`](../crates/a/src/b.rs) and [`Ring`](../crates/a/src/b.rs)"), []);
        assert_eq!(
            page("[`gone`](https://docs.rs/x.rs), [`other`](../README.md), `put` and [words](../b.rs)"),
            []
        );
        let missing = page("first\n[`Ring::take`](../crates/a/src/b.rs)");
        assert_eq!((missing.len(), missing[0].line), (1, 2));
        assert!(missing[0].what.contains("`take` is not defined in crates/a/src/b.rs"), "{}", missing[0]);
        assert_eq!(page("[`put`](b.rs)").len(), 1, "there is no such file");
    }

    #[test]
    fn paths_count_from_the_page() {
        assert_eq!(resolved("docs/decisions/1.md", "../../crates/a.rs"), "crates/a.rs");
        assert_eq!(resolved("README.md", "./src/a.rs"), "src/a.rs");
    }
}
