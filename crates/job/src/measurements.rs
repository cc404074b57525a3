//! What is measured of a machine besides the constants of its nearest cores: wider borders, and what the ends
//! of a message do.
//!
//! It stands behind these constants in their file, a line for each thing, and any of them may be missing:
//!
//! ```text
//! over cache 250.0 410.0 0.0905 540.0 0.0560    cores with that border between them: hand-over, copy, pull (or `refused`)
//! step 80.0                                     what each end does for a message
//! first-use                                     nobody has asked for it: it was measured for the first job
//! ```

use std::fmt::Write as _;

use collectives::HierarchyLevel;

use crate::constants::{Constants, Line, number};

/// What was measured besides the constants of the nearest cores.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Besides {
    /// Between cores with such a border between them, from narrow to wide.
    pub over: Vec<(HierarchyLevel, Constants)>,
    /// The time that each end of a message spends on it.
    pub step_ns: Option<f64>,
    /// Whether all this was measured for the first job on this machine, and nobody has asked for it since.
    pub is_of_first_use: bool,
}

impl Besides {
    /// The lines of the file.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        for (border, constants) in &self.over {
            let Constants { hand_over_ns, copy, pull } = constants;
            let pull = pull.map_or_else(|| "refused".to_owned(), |pull| pull.encode());
            let _ = writeln!(text, "over {} {hand_over_ns:.1} {} {pull}", border.word(), copy.encode());
        }
        if let Some(step_ns) = self.step_ns {
            let _ = writeln!(text, "step {step_ns:.1}");
        }
        text + if self.is_of_first_use { "first-use\n" } else { "" }
    }

    /// Reads such lines.
    pub(crate) fn decode<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Besides, String> {
        let mut besides = Besides::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["over", border, hand_over, fixed, byte, ref pull @ ..] => {
                    let border = KINDS.into_iter().find(|kind| kind.word() == border);
                    let border =
                        border.ok_or_else(|| format!("{line:?} is of no kind of parts of a node"))?;
                    let hand_over_ns = number(hand_over)?;
                    let copy = Line::of_words(fixed, byte)?;
                    let pull = match *pull {
                        ["refused"] => None,
                        [fixed, byte] => Some(Line::of_words(fixed, byte)?),
                        _ => {
                            return Err(format!(
                                "two times or `refused` are expected at the end of {line:?}"
                            ));
                        }
                    };
                    besides.over.push((border, Constants { hand_over_ns, copy, pull }));
                }
                ["step", time] => besides.step_ns = Some(number(time)?),
                ["first-use"] => besides.is_of_first_use = true,
                _ => return Err(format!("nothing more is expected, and there is {line:?}")),
            }
        }
        if besides.is_sane() { Ok(besides) } else { Err("its times are out of all reason".to_owned()) }
    }

    fn is_sane(&self) -> bool {
        let is_sane = |step_ns: f64| Line { fixed_ns: step_ns, byte_ns: 0.0 }.is_sane();
        let is_sorted = self.over.is_sorted_by(|(narrower, _), (wider, _)| narrower < wider);
        is_sorted
            && self.over.iter().all(|(_, constants)| constants.is_sane())
            && self.step_ns.is_none_or(is_sane)
    }
}

/// The kinds of parts of a node.
const KINDS: [HierarchyLevel; 3] = [HierarchyLevel::Cache, HierarchyLevel::Numa, HierarchyLevel::Package];

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Besides {
        let pull = Some(Line { fixed_ns: 540.0, byte_ns: 0.046 });
        let constants =
            Constants { hand_over_ns: 250.0, copy: Line { fixed_ns: 410.0, byte_ns: 0.09 }, pull };
        Besides {
            over: vec![
                (HierarchyLevel::Cache, constants),
                (HierarchyLevel::Package, Constants { pull: None, ..constants }),
            ],
            step_ns: Some(80.0),
            is_of_first_use: true,
        }
    }

    #[test]
    fn what_was_written_is_read_again() {
        for besides in [some(), Besides::default(), Besides { over: Vec::new(), ..some() }] {
            assert_eq!(Besides::decode(besides.encode().lines()), Ok(besides));
        }
    }

    #[test]
    fn damage_is_told_by_the_line() {
        for (line, told) in [
            ("more", "nothing more is expected, and there is \"more\""),
            ("over node 1 1 1 1 1", "no kind of parts"),
            ("over cache 1 1 1 1", "two times or `refused`"),
            ("over cache 1 1 one 1 1", "\"one\" is no time"),
            ("step -1", "out of all reason"),
            ("step NaN", "out of all reason"),
            ("over numa 1 1 1 refused\nover cache 1 1 1 refused", "out of all reason"),
        ] {
            let error = Besides::decode(line.lines()).unwrap_err();
            assert!(error.contains(told), "{line}: {error}");
        }
    }
}
