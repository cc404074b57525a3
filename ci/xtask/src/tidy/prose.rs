//! Comments and pages: how wide, how doc comments begin, and words of our own that the field has another word
//! for.

use super::source::Source;
use super::{File, Finding};

/// What is wrong with the comments of a file, or with the words of a page.
pub fn check(file: &File) -> Vec<Finding> {
    if file.is_generated() || file.path.starts_with("ci/xtask/src/tidy/prose") {
        return Vec::new();
    }
    if file.path.ends_with(".md") {
        return words(file, file.text.lines().enumerate());
    }
    if !file.is_rust() {
        return Vec::new();
    }
    let source = Source::new(&file.text);
    let code: Vec<&str> = source.code.lines().collect();
    let is_comment = |(at, line): &(usize, &str)| {
        line.trim_start().starts_with("//") && code.get(*at).is_some_and(|code| code.trim().is_empty())
    };
    let comments: Vec<(usize, &str)> = file.text.lines().enumerate().filter(is_comment).collect();
    let mut findings = words(file, comments.iter().copied());
    let mut is_in_fence = false;
    let mut before = None;
    for (at, line) in comments {
        let text = line.trim_start();
        if text.contains("```") {
            is_in_fence = !is_in_fence;
        }
        let words = text.trim_start_matches(['/', '!']).trim_start();
        let is_table = words.starts_with('|');
        if line.chars().count() > COLUMNS && !is_in_fence && !is_table && words.contains(' ') {
            findings.push(Finding {
                file: file.path.clone(),
                line: at + 1,
                what: format!("a comment of {} columns, of at most {COLUMNS}", line.chars().count()),
                why: "comments keep the width of code",
            });
        }
        let is_doc = text.starts_with("///") || text.starts_with("//!");
        let is_first = before.is_none_or(|before| before + 1 < at);
        if is_doc && is_first && BEGINNINGS.iter().any(|beginning| words.starts_with(beginning)) {
            findings.push(Finding {
                file: file.path.clone(),
                line: at + 1,
                what: format!(
                    "a doc comment begins with {:?}",
                    words.split(' ').take(2).collect::<Vec<_>>().join(" ")
                ),
                why: "an editor shows it without its neighbours; say what the item does",
            });
        }
        before = Some(at);
    }
    findings
}

/// The words of our own in these lines.
fn words<'a>(file: &File, lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Finding> {
    let of_line = |(at, line): (usize, &'a str)| {
        let mut of = line.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_lowercase);
        let (word, better) = of.find_map(|word| {
            let singular = word.strip_suffix('s').unwrap_or(&word).to_owned();
            WORDS.into_iter().find(|(ours, _)| *ours == word || *ours == singular)
        })?;
        Some(Finding {
            file: file.path.clone(),
            line: at + 1,
            what: format!("`{word}`, where the field says {better}"),
            why: "an engineer of the field searches for the field's words",
        })
    };
    lines.filter_map(of_line).collect()
}

const COLUMNS: usize = 110;
/// With which no doc comment begins.
const BEGINNINGS: [&str; 4] = ["The same ", "As above", "As for ", "See "];
/// Words of our own, and what the field says.
const WORDS: [(&str, &str); 9] = [
    ("tray", "staging buffer"),
    ("bulletin", "handle of a collective segment"),
    ("parcel", "chunked message"),
    ("shelf", "large-message buffer"),
    ("mailbox", "single-slot channel"),
    ("foretold", "predicted"),
    ("sitter", "the process of a slot"),
    ("obituary", "death notice"),
    ("lookout", "poller thread"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let file = File { path: path.into(), text: text.into() };
        check(&file).into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn wide_comments_are_found_and_wide_code_is_not() {
        let wide = "word ".repeat(25);
        let text =
            format!("// {wide}\nconst A: &str = \"{wide}\";\n/// | {wide}|\n/// ```\n/// {wide}\n/// ```\n");
        assert_eq!(found("a.rs", &text), [(1, "a comment of 128 columns, of at most 110".to_owned())]);
    }

    #[test]
    fn a_doc_comment_stands_alone() {
        let text = "/// Sends.\n/// The same here is no beginning.\nfn a() {}\n\n/// The same with a tag.\nfn b() {}\n";
        assert_eq!(found("a.rs", text), [(5, "a doc comment begins with \"The same\"".to_owned())]);
    }

    #[test]
    fn words_of_our_own_are_found_in_comments_and_pages() {
        let told = "`tray`, where the field says staging buffer".to_owned();
        assert_eq!(found("a.rs", "// Two trays.\nfn tray() {}\n"), [(1, told.clone())]);
        assert_eq!(found("docs/a.md", "one\na tray\n"), [(2, told)]);
        assert_eq!(found("a.c", "// a tray\n"), []);
    }
}
