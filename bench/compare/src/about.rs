//! Where and when a comparison was run, and of what.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// What a reader has to know before the numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Processor, number of cpus, caches, kernel.
    pub machine: String,
    /// Day, in UTC.
    pub date: String,
    /// Commit of the tree; with a `+` where it was changed since.
    pub commit: String,
    /// Contestant and what its library calls itself.
    pub libraries: Vec<(String, String)>,
    /// Full rounds, or a quick look.
    pub quick: bool,
    /// How far apart the cpus were.
    #[serde(default)]
    pub apart: String,
}

impl std::fmt::Display for About {
    /// The run in a few words.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let depth = if self.quick { "a quick run" } else { "a full run" };
        write!(f, "{}, commit `{}`, {depth}", self.date, self.commit)
    }
}

impl About {
    /// Asks the machine and git; what does not answer is "unknown".
    /// Of long names of libraries the part before the packager stays.
    pub fn here(root: &Path, libraries: Vec<(String, String)>, quick: bool) -> About {
        let brief = |name: String| {
            let kept = name.split(", package").next().unwrap_or_default();
            kept.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let libraries = libraries.into_iter().map(|(one, name)| (one, brief(name))).collect();
        About {
            machine: machine(),
            date: said("date", &["-u", "+%Y-%m-%d"], root),
            commit: commit(root),
            libraries,
            quick,
            apart: String::new(),
        }
    }
}

fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    describe(&cpuinfo, kernel.trim(), cpus, &cache(2))
}

fn describe(cpuinfo: &str, kernel: &str, cpus: usize, cache: &str) -> String {
    let model = field(cpuinfo, "model name").unwrap_or("unknown processor");
    let number = field(cpuinfo, "model").map_or(String::new(), |model| format!(" (model {model})"));
    let guest =
        if field(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")) {
            ", virtual machine"
        } else {
            ""
        };
    format!("{model}{number}, {cpus} cpus, {cache} of second-level cache each{guest}, Linux {kernel}")
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn cache(level: u32) -> String {
    let path = format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size");
    fs::read_to_string(path).map_or("unknown size".to_owned(), |size| size.trim().to_owned())
}

fn commit(root: &Path) -> String {
    let hash = said("git", &["rev-parse", "--short", "HEAD"], root);
    let changed = said("git", &["status", "--porcelain", "--untracked-files=no"], root);
    if changed.is_empty() || changed == "unknown" { hash } else { format!("{hash}+") }
}

fn said(program: &str, arguments: &[&str], root: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(root).output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_one_line() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 207\nmodel name\t: Some Cpu\nflags\t\t: fpu hypervisor\n";
        let text = describe(cpuinfo, "6.1", 2, "2048K");
        assert_eq!(
            text,
            "Some Cpu (model 207), 2 cpus, 2048K of second-level cache each, virtual machine, Linux 6.1"
        );
        assert!(!describe("flags : nohypervisor", "6.1", 2, "1K").contains("virtual"));
    }

    #[test]
    fn what_does_not_answer_is_unknown() {
        assert_eq!(said("/no/such/program", &[], Path::new("/")), "unknown");
    }
}
