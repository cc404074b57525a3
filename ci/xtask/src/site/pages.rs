//! mdBook's sources, from the documents of the tree: its table of contents, and every page with links that
//! lead somewhere on the site.
//!
//! | in the tree | in the book |
//! |---|---|
//! | `README.md` | `index.md` |
//! | `docs/running.md` | `running.md` |
//! | a folder `docs/decisions` | `decisions/index.md`, a list of its pages |
//! | any other file that a page links to, such as `crates/fabric/src/slots.rs` | `source/crates/fabric/src/slots.rs.html`, with its lines |
//! | pictures below `docs` | as they are |

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use super::{files_below, html};
use crate::tidy::{self, File, links};

/// Writes the book's sources into `folder`. If something is wrong with the documents, answers what, and
/// writes nothing.
///
/// # Errors
/// When a file cannot be read or written.
pub fn write(root: &Path, folder: &Path) -> io::Result<Vec<String>> {
    let book = match plan(&tidy::files(root)) {
        Ok(book) => book,
        Err(complaints) => return Ok(complaints),
    };
    for file in book {
        let path = folder.join(&file.path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, file.text)?;
    }
    let docs = root.join("docs");
    for file in files_below(&docs)?.iter().filter(|file| file.extension().is_none_or(|ending| ending != "md"))
    {
        let path = folder.join(file.strip_prefix(&docs).unwrap_or(file));
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::copy(file, path)?;
    }
    Ok(Vec::new())
}

/// The text files of the book's sources.
///
/// # Errors
/// What is wrong with the documents, one line each: pages that [`PARTS`] does not name or that are not there,
/// and links to files that are not there.
pub fn plan(files: &[File]) -> Result<Vec<File>, Vec<String>> {
    let decisions: Vec<&File> =
        files.iter().filter(|file| file.path.starts_with(DECISIONS) && is_page(&file.path)).collect();
    let named: BTreeSet<&str> = PARTS.iter().flat_map(|(_, pages)| pages.iter().copied()).collect();
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with("docs/") && is_page(&file.path)) {
        if !named.contains(file.path.as_str()) && !file.path.starts_with(DECISIONS) {
            complaints.push(format!("{}: name it in PARTS of ci/xtask/src/site/pages.rs", file.path));
        }
    }
    let mut book = vec![
        File { path: "SUMMARY.md".into(), text: summary(files, &decisions) },
        File { path: "decisions/index.md".into(), text: index(&decisions) },
        File { path: "rust.md".into(), text: RUST_PAGE.into() },
    ];
    let mut sources = BTreeSet::new();
    for path in named.into_iter().chain(decisions.iter().map(|decision| decision.path.as_str())) {
        match file(files, path) {
            Some(page) => book.push(on_the_site(page, files, &mut sources, &mut complaints)),
            None => complaints
                .push(format!("{path}: PARTS of ci/xtask/src/site/pages.rs names it, but it is not there")),
        }
    }
    book.extend(sources.into_iter().filter_map(|path| file(files, path)).map(source_page));
    if complaints.is_empty() { Ok(book) } else { Err(complaints) }
}

/// mdBook's table of contents.
fn summary(files: &[File], decisions: &[&File]) -> String {
    let mut text = String::from("# Summary\n");
    for (part, pages) in PARTS {
        if !part.is_empty() {
            let _ = write!(text, "\n# {part}\n");
        }
        text.push('\n');
        for page in pages.iter().filter_map(|path| file(files, path)) {
            // The first part has no title, and mdBook wants no list there.
            let bullet = if part.is_empty() { "" } else { "- " };
            let _ = writeln!(text, "{bullet}[{}]({})", title(page), place(&page.path));
        }
        if part == PART_WITH_DECISIONS {
            text.push_str("- [Decisions](decisions/index.md)\n");
            for page in decisions {
                let _ = writeln!(text, "    - [{}]({})", title(page), place(&page.path));
            }
        }
        if part == PART_WITH_RUST {
            let _ = writeln!(text, "- [The Rust interface](rust.md)");
        }
    }
    text
}

/// The page that stands for the folder of the decisions.
fn index(decisions: &[&File]) -> String {
    let mut text = String::from("# Decisions\n\nWhy things are as they are.\n\n");
    for page in decisions {
        let _ = writeln!(text, "- [{}]({})", title(page), page.path.trim_start_matches(DECISIONS));
    }
    text
}

/// A page of the tree as a page of the book: its links lead to where their targets are in the book.
fn on_the_site<'a>(
    page: &File,
    files: &'a [File],
    sources: &mut BTreeSet<&'a str>,
    complaints: &mut Vec<String>,
) -> File {
    let place_of_page = place(&page.path);
    let mut text = String::new();
    let mut is_in_fence = false;
    for (number, line) in (1..).zip(page.text.lines()) {
        is_in_fence ^= line.trim_start().starts_with("```");
        let mut written = 0;
        for range in if is_in_fence { Vec::new() } else { targets(line) } {
            let item = line[..range.start].strip_suffix("`](").and_then(|before| before.rsplit_once("[`"));
            match target(page, &line[range.clone()], item.map(|(_, item)| item), files) {
                Ok((path, source)) => {
                    text.push_str(&line[written..range.start]);
                    text.push_str(&relative(&place_of_page, &path));
                    sources.extend(source);
                    written = range.end;
                }
                Err(Kept::Elsewhere) => {}
                Err(Kept::Nowhere) => {
                    complaints.push(format!("{}:{number}: `{}` is not there", page.path, &line[range]));
                }
            }
        }
        text.push_str(&line[written..]);
        text.push('\n');
    }
    File { path: place_of_page, text }
}

/// Why a link stays as it is.
enum Kept {
    /// It leads out of the tree, or to a place in its own page.
    Elsewhere,
    /// It leads to a file that is not there.
    Nowhere,
}

/// Where in the book a link leads, and the file of source code that must be there for it.
fn target<'a>(
    page: &File,
    link: &str,
    item: Option<&str>,
    files: &'a [File],
) -> Result<(String, Option<&'a str>), Kept> {
    if link.starts_with('#') || link.contains("://") || link.starts_with("mailto:") {
        return Err(Kept::Elsewhere);
    }
    let (link, anchor) = link.split_at(link.find('#').unwrap_or(link.len()));
    let path = links::resolved(&page.path, link.trim_end_matches('/'));
    if format!("{path}/") == DECISIONS {
        return Ok(("decisions/index.md".into(), None));
    }
    let is_picture = path.starts_with("docs/") && !is_page(&path);
    let Some(source) = file(files, &path) else {
        // A picture need not be text; the check of the built links finds one that is not there.
        return if is_picture { Ok((place(&path), None)) } else { Err(Kept::Nowhere) };
    };
    let is_in_parts = PARTS.iter().any(|(_, pages)| pages.contains(&path.as_str()));
    if is_picture || is_in_parts || path.starts_with(DECISIONS) {
        return Ok((format!("{}{anchor}", place(&path)), None));
    }
    let name = item.map(|item| item.rsplit("::").next().unwrap_or(item));
    let line = name.and_then(|name| source.text.lines().position(|line| links::defines(line, name)));
    let anchor = line.map_or_else(String::new, |line| format!("#l{}", line + 1));
    Ok((format!("{}{anchor}", source_place(&path)), Some(&source.path)))
}

/// Where the targets of the links of a line are. What stands in backticks has none.
fn targets(line: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = line[at..].find(['`', ']']) {
        at += next;
        let rest = &line[at..];
        if rest.starts_with('`') {
            let length = rest.len() - rest.trim_start_matches('`').len();
            let behind = &rest[length..];
            at += length + end_of_code(behind, length).unwrap_or(0);
        } else if let Some(begin) = rest.strip_prefix("](")
            && let Some(length) = begin.find(')')
        {
            found.push(at + 2..at + 2 + length);
            at += 2 + length;
        } else {
            at += 1;
        }
    }
    found
}

/// Where code ends that so many backticks have begun; `None` when it does not end in this line.
fn end_of_code(line: &str, backticks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(next) = line[at..].find('`') {
        at += next;
        let length = line[at..].len() - line[at..].trim_start_matches('`').len();
        at += length;
        if length == backticks {
            return Some(at);
        }
    }
    None
}

/// A file of the tree as a page of HTML, with an id for each line.
fn source_page(file: &File) -> File {
    let path = html::escaped(&file.path);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{path}</title>\n<style>{SOURCE_STYLE}</style>\n<h1>{path}</h1>\n<pre>"
    );
    for (number, line) in (1..).zip(file.text.lines()) {
        let _ = writeln!(text, "<span id=\"l{number}\">{}</span>", html::escaped(line));
    }
    text.push_str("</pre>\n</html>\n");
    File { path: source_place(&file.path), text }
}

/// The path in the book of a document.
fn place(path: &str) -> String {
    match path {
        "README.md" => "index.md".into(),
        path => path.strip_prefix("docs/").unwrap_or(path).into(),
    }
}

fn source_place(path: &str) -> String {
    format!("source/{path}.html")
}

/// A path of the book as it is seen from a page of the book.
fn relative(page: &str, path: &str) -> String {
    format!("{}{path}", "../".repeat(page.matches('/').count()))
}

/// What stands in a page's first heading.
fn title(page: &File) -> &str {
    page.text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(&page.path)
}

fn file<'a>(files: &'a [File], path: &str) -> Option<&'a File> {
    files.iter().find(|file| file.path == path)
}

fn is_page(path: &str) -> bool {
    path.ends_with(".md")
}

/// The parts of the table of contents, and their pages in the order in which they are read. The decisions
/// need no names here.
const PARTS: [(&str, &[&str]); 5] = [
    ("", &["README.md"]),
    (
        "Run programs",
        &[
            "docs/running.md",
            "docs/clusters.md",
            "docs/fabrics.md",
            "docs/fault-tolerance.md",
            "docs/one-sided.md",
            "docs/mapping.md",
            "docs/machine.md",
            "docs/questions.md",
        ],
    ),
    (
        "What to expect",
        &[
            "docs/generated/mpi-coverage.md",
            "docs/performance.md",
            "docs/generated/performance.md",
            "CHANGELOG.md",
        ],
    ),
    (
        PART_WITH_DECISIONS,
        &[
            "docs/architecture.md",
            "docs/shm.md",
            "docs/wire-tcp.md",
            "docs/collectives.md",
            "docs/generated/thresholds.md",
        ],
    ),
    ("Work on it", &["docs/contributing.md", "docs/style.md", "docs/testing.md", "docs/benchmarks.md"]),
];
const PART_WITH_DECISIONS: &str = "How it works";
const PART_WITH_RUST: &str = "What to expect";
const DECISIONS: &str = "docs/decisions/";
const RUST_PAGE: &str = "# The Rust interface\n\n[The crate `weft`](rust/weft/index.html): every type, function \
                         and trait of the Rust interface, as rustdoc describes them.\n";
const SOURCE_STYLE: &str = ":root{color-scheme:light dark}body{margin:1em;font-family:sans-serif}\
    h1{font-size:1.1em;overflow-wrap:anywhere}pre{overflow-x:auto;counter-reset:line}\
    span{counter-increment:line}span:target{background:#fc08}\
    span::before{content:counter(line);display:inline-block;width:3em;margin-right:1em;text-align:right;opacity:.5}";

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    /// A tree with all pages that [`PARTS`] names, a decision and source code.
    fn tree(readme: &str) -> Vec<File> {
        let named = PARTS.iter().flat_map(|(_, pages)| pages.iter());
        let mut files: Vec<File> = named.map(|path| file(path, "# A title\n")).collect();
        files[0].text = readme.into();
        files.push(file("docs/decisions/0001-a.md", "# 0001: A\n[`Ring`](../../a/b.rs), [x](../shm.md#y)\n"));
        files.push(file("a/b.rs", "// <first>\nstruct Ring;\n"));
        files
    }

    fn text<'a>(book: &'a [File], path: &str) -> &'a str {
        &book.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}")).text
    }

    #[test]
    fn links_lead_to_places_of_the_book() {
        let book =
            plan(&tree("# weft\n[a](docs/shm.md), [b](docs/decisions), ![c](docs/images/d.svg)\n")).unwrap();
        assert_eq!(
            text(&book, "index.md"),
            "# weft\n[a](shm.md), [b](decisions/index.md), ![c](images/d.svg)\n"
        );
        let decision = text(&book, "decisions/0001-a.md");
        assert_eq!(decision, "# 0001: A\n[`Ring`](../source/a/b.rs.html#l2), [x](../shm.md#y)\n");
        assert!(text(&book, "source/a/b.rs.html").contains("<span id=\"l1\">// &lt;first&gt;</span>\n"));
    }

    #[test]
    fn what_is_code_or_leaves_the_tree_stays() {
        let readme = "# weft\n[a](https://x.org), [b](#c) and `[d](e)` and ``f`[g](h)``\n```\n[i](j)\n```\n";
        assert_eq!(text(&plan(&tree(readme)).unwrap(), "index.md"), readme);
    }

    #[test]
    fn the_contents_have_every_page_with_its_title() {
        let book = plan(&tree("# weft\n")).unwrap();
        let summary = text(&book, "SUMMARY.md");
        assert!(
            summary
                .starts_with("# Summary\n\n[weft](index.md)\n\n# Run programs\n\n- [A title](running.md)\n")
        );
        assert!(
            summary.contains("- [Decisions](decisions/index.md)\n    - [0001: A](decisions/0001-a.md)\n")
        );
        assert!(text(&book, "decisions/index.md").ends_with("- [0001: A](0001-a.md)\n"));
    }

    #[test]
    fn forgotten_pages_and_links_to_nothing_are_told() {
        let mut files = tree("# weft\n\n[a](crates/gone.rs)\n");
        files.push(file("docs/new.md", "# New\n"));
        files.retain(|file| file.path != "docs/style.md");
        let complaints = plan(&files).err().unwrap();
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert!(complaints[0].starts_with("docs/new.md: name it in PARTS"));
        assert_eq!(complaints[1], "README.md:3: `crates/gone.rs` is not there");
        assert!(complaints[2].starts_with("docs/style.md: PARTS"));
    }
}
