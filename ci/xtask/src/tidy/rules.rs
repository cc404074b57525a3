//! The table of the rules of failures and their tests: every rule is there, its tests exist and bear its
//! number, and the fabrics that the table claims are those that the tests run over.

use std::collections::BTreeSet;

use system_tests::c_tests;

use super::{File, Finding};

/// The findings in the table of MPI's rules: what is wrong with its rows.
pub fn check(files: &[File]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for (line, cells) in rows(&page.text, HEADING) {
        let finding = |what: String| Finding { file: PAGE.into(), line, what, why: WHY };
        let rules: Vec<&str> = cells[0].split(", ").collect();
        findings.extend(look_at(&cells, &rules, files).into_iter().map(finding));
        seen.extend(rules.into_iter().map(str::to_owned));
    }
    for (line, cells) in rows(&page.text, PROGRAMS) {
        let finding = |what: String| Finding { file: PAGE.into(), line, what, why: WHY_OF_PROGRAMS };
        findings.extend(look_at(&cells, &[], files).into_iter().map(finding));
    }
    let missing = all_rules().filter(|rule| !seen.contains(rule));
    findings.extend(missing.map(|rule| Finding {
        file: PAGE.into(),
        line: 1,
        what: format!("no row for rule {rule}"),
        why: WHY,
    }));
    findings
}

/// The rows of the table below that heading, with their lines: rules or programs, words, tests, fabrics.
fn rows(page: &str, heading: &str) -> Vec<(usize, Vec<String>)> {
    let lines = page.lines().enumerate().skip_while(|(_, line)| *line != heading).skip(1);
    let section = lines.take_while(|(_, line)| !line.starts_with("## "));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    let table = section.filter(|(_, line)| line.starts_with('|'));
    // Behind the head and the line below it.
    table.skip(2).map(|(index, line)| (index + 1, cells(line))).collect()
}

fn look_at(cells: &[String], rules: &[&str], files: &[File]) -> Vec<String> {
    let [_, _, tests, fabrics] = cells else { return vec!["a row without four cells".into()] };
    let mut wrong = Vec::new();
    let (mut named, mut labels) = (Vec::new(), BTreeSet::new());
    for (is_file, word) in names(tests) {
        if is_file {
            named = files.iter().filter(|file| is_named(file, word)).collect();
            if named.is_empty() {
                wrong.push(format!("there is no test {word}"));
            }
        } else if named.iter().any(|file| bears(&file.text, word)) {
            labels.insert(word.to_lowercase());
        } else {
            wrong.push(format!("nothing in the file before it bears \"{word}\""));
        }
    }
    if fabrics == NOT_TESTED {
        return wrong;
    }
    let without = rules.iter().filter(|rule| !labels.contains(&rule.to_lowercase()));
    wrong.extend(without.map(|rule| format!("no test that is named here bears \"{rule}\"")));
    let over = fabrics_of(tests, files);
    if *fabrics != over {
        wrong.push(format!("the tests run over {over}, not over {fabrics}"));
    }
    wrong
}

/// The files, true, and the labels in quotes, in their order.
fn names(tests: &str) -> Vec<(bool, &str)> {
    let (mut names, mut rest) = (Vec::new(), tests);
    while let Some(at) = rest.find(['`', '"']) {
        let (quote, inner) = rest[at..].split_at(1);
        let Some((name, behind)) = inner.split_once(quote) else { break };
        names.push((quote == "`", name));
        rest = behind;
    }
    names
}

fn is_named(file: &File, name: &str) -> bool {
    let is_test = file.path.starts_with("bench/tests/") || file.is_rust();
    is_test && file.path.strip_suffix(name).is_some_and(|before| before.ends_with('/'))
}

/// The fabrics that the C programs of a row run over, all together.
fn fabrics_of(tests: &str, files: &[File]) -> String {
    let mut over = BTreeSet::new();
    for name in tests.split('`').filter(|name| name.ends_with(".c")) {
        let file = files.iter().find(|file| is_named(file, name));
        over.extend(file.into_iter().flat_map(|file| c_tests::fabrics_of(&file.text)));
    }
    ["shm", "tcp", "mixed"].into_iter().filter(|fabric| over.contains(fabric)).collect::<Vec<_>>().join(", ")
}

/// Whether that stands in the text, as a word of its own or at the front of a name.
fn bears(text: &str, label: &str) -> bool {
    let (text, label) = (text.to_lowercase(), label.to_lowercase());
    text.match_indices(&label).any(|(at, _)| {
        let ends = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric());
        ends(text[..at].chars().next_back()) && ends(text[at + label.len()..].chars().next())
    })
}

fn all_rules() -> impl Iterator<Item = String> {
    RULES.into_iter().flat_map(|(letter, numbers)| numbers.map(move |number| format!("{letter}{number}")))
}

const PAGE: &str = "docs/fault-tolerance.md";
const HEADING: &str = "## Rules and their tests";
const PROGRAMS: &str = "## Programs of others";
const NOT_TESTED: &str = "none";
const WHY: &str = "each rule of failures has a test that bears its number";
const WHY_OF_PROGRAMS: &str = "what others' programs do is done by tests that are there";
/// Those of the specification.
const RULES: [(char, std::ops::RangeInclusive<u32>); 5] =
    [('G', 1..=9), ('C', 0..=16), ('D', 1..=6), ('K', 1..=14), ('R', 1..=15)];

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "// ranks: 2 3\n// launch: --ft\nsection(\"G1: nobody waits\");";

    fn wrong_with(row: &str) -> Vec<String> {
        let page =
            format!("{HEADING}\n| rule | what | test | over |\n|---|---|---|---|\n{row}\n## Next\n| G2 |\n");
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let files = [
            file(PAGE, &page),
            file("bench/tests/a.c", TEST),
            file("crates/x/tests/b.rs", "fn d11_no() {} fn d1_yes() {}"),
        ];
        let found = check(&files).into_iter().filter(|finding| finding.line > 1);
        found.map(|finding| finding.what).collect()
    }

    #[test]
    fn a_row_names_tests_that_are_there_and_bear_its_rules() {
        assert_eq!(wrong_with("| G1 | x | `a.c` \"G1\" | shm, tcp, mixed |"), [""; 0]);
        assert_eq!(wrong_with("| G1, D1 | x | `a.c` \"g1\", `b.rs` \"d1\" | shm, tcp, mixed |"), [""; 0]);
        assert_eq!(wrong_with("| K14 | x | not there | none |"), [""; 0]);
        assert_eq!(wrong_with("| G1 | x | `c.c` | none |"), ["there is no test c.c"]);
        let unnamed = "no test that is named here bears \"G2\"";
        assert_eq!(wrong_with("| G2 | x | `a.c` \"G1\" | shm, tcp, mixed |"), [unnamed]);
        let label = "nothing in the file before it bears \"d\"";
        assert_eq!(wrong_with("| D1 | x | `b.rs` \"d1\", \"d\" |  |"), [label]);
        let over = "the tests run over shm, tcp, mixed, not over shm";
        assert_eq!(wrong_with("| G1 | x | `a.c` \"G1\" | shm |"), [over]);
    }

    #[test]
    fn a_rule_without_a_row_is_found() {
        let files = [File { path: PAGE.into(), text: HEADING.into() }];
        assert_eq!(check(&files).len(), 9 + 17 + 6 + 14 + 15);
    }
}
