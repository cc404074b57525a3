//! The subjects of commits: `area: imperative summary`, short enough for one line of a list.

use std::path::Path;
use std::process::Command;

/// What is wrong with the subjects of the last commits that are no merges, one line each; `None` where this
/// is no checkout of git.
pub fn check(root: &Path) -> Option<Vec<String>> {
    let log = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["log", "--no-merges", "--format=%h %s", COMMITS])
        .output();
    let log = log.ok().filter(|log| log.status.success())?;
    let lines = String::from_utf8_lossy(&log.stdout).into_owned();
    let complaint = |line: &str| {
        let (commit, subject) = line.split_once(' ').unwrap_or((line, ""));
        wrong(subject).map(|what| format!("{commit} {subject:?}: {what}"))
    };
    Some(lines.lines().filter_map(complaint).collect())
}

/// What is wrong with a subject.
fn wrong(subject: &str) -> Option<&'static str> {
    let is_area = |c: char| c.is_ascii_alphanumeric() || "_/., -".contains(c);
    match subject.split_once(": ") {
        _ if subject.chars().count() > SUBJECT_MAX => Some("longer than 72 characters"),
        Some((area, summary)) if !area.is_empty() && area.chars().all(is_area) && !summary.is_empty() => None,
        _ => Some("not `area: summary`"),
    }
}

const COMMITS: &str = "-50";
const SUBJECT_MAX: usize = 72;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_names_an_area_and_is_short() {
        let fits = format!("shm/ring: {}", "x".repeat(62));
        for right in ["shm/ring: reuse the slot's line for short chunks", "abi, weft: say once", &fits] {
            assert_eq!(wrong(right), None, "{right}");
        }
        for bad in ["Fix things", "shm/ring:", ": nothing", "what (was) done: this", &format!("{fits}x")] {
            assert!(wrong(bad).is_some(), "{bad}");
        }
    }
}
