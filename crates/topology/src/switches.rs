//! Behind which switches the hosts of a cluster are: from a file, or from Slurm, where it tells.
//!
//! A file is in one of two forms, or in both; `#` begins a comment. The first has a host, or a pattern of
//! hosts, and its switches from the top:
//! ```text
//! node[1-16]   core/left
//! node[17-32]  core/right
//! ```
//! The second is Slurm's `topology.conf`:
//! ```text
//! SwitchName=left  Nodes=node[1-16]
//! SwitchName=right Nodes=node[17-32]
//! SwitchName=core  Switches=left,right
//! ```

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

mod pattern;

use pattern::Patterns;

/// The switches above a host, from the top, as `core/left`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SwitchPath {
    text: String,
}

/// A text that is no path of switches.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{text:?} names no switches: write them from the top, as core/left, in at most {PATH_BYTES_MAX} bytes"
)]
pub struct NotASwitchPath {
    /// The text that was read.
    pub text: String,
}

impl SwitchPath {
    /// The names, from the top.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.text.split('/')
    }

    /// The names with a slash between each two.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// By what Slurm tells each process: `SLURM_TOPOLOGY_ADDR`, as `core.left.node7`, and its pattern
    /// `SLURM_TOPOLOGY_ADDR_PATTERN`, as `switch.switch.node`. None where that names no switches.
    #[must_use]
    pub fn of_slurm(address: &str, pattern: &str) -> Option<SwitchPath> {
        let (names, kinds) = (address.split('.'), pattern.split('.'));
        let named: Vec<(&str, &str)> = names.zip(kinds).collect();
        // A host's own name may have dots: there are more names than kinds then, and the host is the last.
        let path: Vec<&str> =
            named.iter().take_while(|(_, kind)| *kind != "node").map(|(name, _)| *name).collect();
        (pattern.split('.').next_back() == Some("node")).then(|| path.join("/").parse().ok())?
    }
}

impl FromStr for SwitchPath {
    type Err = NotASwitchPath;

    fn from_str(text: &str) -> Result<SwitchPath, NotASwitchPath> {
        let is_name =
            |name: &str| !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control());
        if text.len() <= PATH_BYTES_MAX && text.split('/').all(is_name) {
            return Ok(SwitchPath { text: text.to_owned() });
        }
        let shown: String = text.chars().take(PATH_BYTES_MAX).collect();
        Err(NotASwitchPath { text: shown })
    }
}

impl fmt::Display for SwitchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The switches of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Switches {
    entries: Vec<Entry>,
}

/// Hosts and their switches.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    hosts: Patterns,
    path: SwitchPath,
}

/// A file of switches that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct NotSwitches {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with the line.
    pub what: String,
}

impl Switches {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The first line that is not as it must be, or that contradicts the others.
    pub fn parse(text: &str) -> Result<Switches, NotSwitches> {
        let mut entries = Vec::new();
        let mut declared: Vec<Declared> = Vec::new();
        for (line, text) in joined_lines(text) {
            let wrong = |what: String| NotSwitches { line, what };
            let is_slurm = text.split_whitespace().next().is_some_and(|word| word.contains('='));
            if is_slurm {
                declared.push(Declared::parse(line, &text).map_err(wrong)?);
                continue;
            }
            let expected = || wrong(format!("`HOST SWITCH/SWITCH` is expected, and not {text:?}"));
            let (hosts, path) = text.split_once(char::is_whitespace).ok_or_else(expected)?;
            let path = path.trim().parse().map_err(|error: NotASwitchPath| wrong(error.to_string()))?;
            entries.push(Entry { hosts: Patterns::parse(hosts).map_err(wrong)?, path });
        }
        for place in 0..declared.len() {
            if let Some(hosts) = declared[place].nodes.clone() {
                entries.push(Entry { hosts, path: path_of(&declared, place)? });
            }
        }
        if entries.is_empty() {
            return Err(NotSwitches { line: 1, what: "there is no host in it".to_owned() });
        }
        Ok(Switches { entries })
    }

    /// The switches above a host; the file may name hosts with their domain or without. The first line with
    /// the host counts.
    #[must_use]
    pub fn of(&self, host: &str) -> Option<&SwitchPath> {
        let find = |name: &str| self.entries.iter().find(|entry| entry.hosts.have(name));
        let short = host.split('.').next().unwrap_or(host);
        find(host).or_else(|| find(short)).map(|entry| &entry.path)
    }
}

/// A switch of Slurm's form.
struct Declared {
    line: usize,
    name: String,
    nodes: Option<Patterns>,
    switches: Option<Patterns>,
}

impl Declared {
    fn parse(line: usize, text: &str) -> Result<Declared, String> {
        let mut found = Declared { line, name: String::new(), nodes: None, switches: None };
        for word in text.split_whitespace() {
            let (key, value) =
                word.split_once('=').ok_or_else(|| format!("KEY=VALUE is expected, and not {word:?}"))?;
            match key.to_ascii_lowercase().as_str() {
                "switchname" => found.name = value.to_owned(),
                "nodes" => found.nodes = Some(Patterns::parse(value)?),
                "switches" => found.switches = Some(Patterns::parse(value)?),
                "linkspeed" => {}
                _ => return Err(format!("{key} is none of SwitchName, Nodes, Switches and LinkSpeed")),
            }
        }
        if found.name.is_empty() {
            return Err("the switch has no name: SwitchName=NAME is expected".to_owned());
        }
        Ok(found)
    }
}

/// The names from the top down to a switch.
fn path_of(declared: &[Declared], place: usize) -> Result<SwitchPath, NotSwitches> {
    let wrong = |what: String| NotSwitches { line: declared[place].line, what };
    let mut names = vec![declared[place].name.as_str()];
    loop {
        let below = names[names.len() - 1];
        let mut above =
            declared.iter().filter(|it| it.switches.as_ref().is_some_and(|switches| switches.have(below)));
        match (above.next(), above.next()) {
            (None, _) => break,
            (Some(one), None) if !names.contains(&one.name.as_str()) => names.push(&one.name),
            (Some(one), None) => return Err(wrong(format!("switch {} is above itself", one.name))),
            (Some(one), Some(other)) => {
                return Err(wrong(format!(
                    "switch {below} is below {} and below {}, and can be below one",
                    one.name, other.name
                )));
            }
        }
    }
    names.reverse();
    names.join("/").parse().map_err(|error: NotASwitchPath| wrong(error.to_string()))
}

/// Lines without comments, with their numbers. A backslash at the end goes on in the next one.
fn joined_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        let part = line.strip_suffix('\\');
        match lines.last_mut() {
            Some((_, last)) if goes_on => {
                last.push(' ');
                last.push_str(part.unwrap_or(line).trim());
            }
            _ => lines.push((number, part.unwrap_or(line).trim().to_owned())),
        }
        goes_on = part.is_some();
    }
    lines.retain(|(_, line)| !line.is_empty());
    lines
}

const PATH_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str, host: &str) -> Option<String> {
        Switches::parse(text).expect(text).of(host).map(SwitchPath::to_string)
    }

    #[test]
    fn both_forms_tell_the_path() {
        let plain = "# two halves\nnode[1-16] core/left\n\nnode[17-32],login core/right # the other\n";
        let slurm = "SwitchName=left Nodes=node[1-16] LinkSpeed=100\nswitchname=right \\\n  nodes=node[17-32],login\nSwitchName=core Switches=left,right\n";
        for text in [plain, slurm] {
            for (host, switch) in
                [("node7", "left"), ("node16", "left"), ("node17", "right"), ("login", "right")]
            {
                assert_eq!(path(text, host), Some(format!("core/{switch}")), "{host} in {text}");
            }
            assert_eq!(path(text, "node7.cluster"), Some("core/left".to_owned()));
            assert_eq!((path(text, "node0"), path(text, "node33"), path(text, "")), (None, None, None));
        }
        let fat = "SwitchName=s[1-2] Nodes=a\n";
        assert_eq!(path(fat, "a"), Some("s[1-2]".to_owned()), "a name is a name");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line, told) in [
            ("", 1, "no host"),
            ("# nothing\n", 1, "no host"),
            ("node1\n", 1, "HOST SWITCH/SWITCH"),
            ("node1 a//b\n", 1, "names no switches"),
            ("node1 a b\n", 1, "names no switches"),
            ("\nnode[1- a\n", 2, "node[1-"),
            ("SwitchName=a Nodes=n1\nNodes=n2\n", 2, "has no name"),
            ("SwitchName=a Node=n1\n", 1, "Node is none of"),
            ("SwitchName=a Nodes=n1 Switches\n", 1, "KEY=VALUE"),
            ("SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Switches=a\n", 1, "above itself"),
            (
                "SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n",
                1,
                "below b and below c",
            ),
        ] {
            let error = Switches::parse(text).expect_err(text);
            assert!(error.line == line && error.what.contains(told), "{text:?}: {error}");
        }
        let long = format!("node1 {}\n", "x".repeat(300));
        assert!(Switches::parse(&long).is_err());
    }

    #[test]
    fn slurm_tells_by_its_address() {
        let of = |address, pattern| SwitchPath::of_slurm(address, pattern).map(|path| path.to_string());
        assert_eq!(of("core.left.node7", "switch.switch.node").as_deref(), Some("core/left"));
        assert_eq!(of("left.node7.cluster.org", "switch.node").as_deref(), Some("left"));
        for (address, pattern) in
            [("node7", "node"), ("", ""), ("a.b", "switch"), ("a", "switch.switch"), (".n", "switch.node")]
        {
            assert_eq!(of(address, pattern), None, "{address} {pattern}");
        }
    }
}
