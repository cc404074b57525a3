//! `weft topo`: the machine tree, as text for people, as JSON for programs, as a picture.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use topology::{Kind, Level, Machine};
use weft::Config;
use weft::machine::{MachineFrom, Origin};

mod picture;

/// What is asked of `weft topo`.
#[derive(Debug, Args)]
pub struct Topo {
    /// A machine to show in place of this one: a file of lstopo's, or as "pack:2 numa:2 l3:4 core:8 pu:1"
    #[arg(long, value_name = "FILE|SYNTHETIC")]
    machine: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Draw the machine into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Shows the tree; what is kept of this host's is renewed.
///
/// # Errors
/// Why there is none, or why the picture cannot be written.
pub fn show(asked: &Topo) -> Result<(), Box<dyn std::error::Error>> {
    let from = match &asked.machine {
        Some(text) => MachineFrom::Description(text.clone()),
        None => Config::from_environment()?.machine,
    };
    let known = from.renew();
    let Some(tree) = known.tree else {
        let trouble = known.trouble.ok_or("the machine tree cannot be read")?;
        // A description on the command line has no variable.
        let what = trouble.what.replace(
            "WEFT_MACHINE: ",
            if asked.machine.is_some() { "--machine: " } else { "WEFT_MACHINE: " },
        );
        return Err(format!("{what}\n  {}", trouble.remedy).into());
    };
    let (name, origin) = (name_of(&known.origin), story(&known.origin));
    if let Some(file) = &asked.svg {
        let picture = picture::draw(&tree, &format!("{name}, {origin}"));
        std::fs::write(file, picture).map_err(|error| {
            format!("cannot write {}: {error}\n  name a file that can be written: --svg FILE", file.display())
        })?;
    }
    let text = if asked.json {
        let whole = json!({ "name": name, "from": origin, "machine": part_as_json(&tree, 0) });
        format!("{whole:#}\n")
    } else {
        format!("{name}: {origin}\n{}\n\n{}", summary(&tree), outline(&tree))
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

fn name_of(origin: &Origin) -> String {
    match origin {
        Origin::Description(text) => text.clone(),
        Origin::Hwloc { .. } | Origin::Kept(_) => {
            rustix::system::uname().nodename().to_string_lossy().into_owned()
        }
    }
}

/// How the tree was found, in words.
pub fn story(origin: &Origin) -> String {
    match origin {
        Origin::Description(_) => "as described".to_owned(),
        Origin::Kept(path) => format!("as kept in {}", path.display()),
        Origin::Hwloc { took, kept } => {
            let took = format!("as hwloc sees it, in {:.1} ms", took.as_secs_f64() * 1e3);
            kept.as_ref().map_or(took.clone(), |path| format!("{took}; kept in {}", path.display()))
        }
    }
}

/// `2 packages, 4 NUMA nodes, 64 cores, 128 cpus`.
pub fn summary(tree: &Machine) -> String {
    let count = |level: Level| match tree.count(level) {
        0 => None,
        1 => Some(format!("1 {}", word(level))),
        count => Some(format!("{count} {}s", word(level))),
    };
    Level::ALL.into_iter().filter_map(count).collect::<Vec<_>>().join(", ")
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Package => "package",
        Level::NumaNode => "NUMA node",
        Level::L3Cache => "L3 cache",
        Level::L2Cache => "L2 cache",
        Level::Core => "core",
        Level::Cpu => "cpu",
    }
}

/// A part in a few words: what it is, its number, its size, and the system's number where that is another.
fn label(tree: &Machine, place: usize) -> String {
    let part = &tree.parts()[place];
    let name = match part.object.kind {
        Kind::Machine => "machine".to_owned(),
        Kind::Group => format!("group {}", part.number),
        Kind::Part(Level::Cpu) => format!("cpu {}", part.object.cpus),
        Kind::Part(level) => format!("{} {}", word(level), part.number),
    };
    let size = part.object.bytes.map(|bytes| format!(" {}", size(bytes))).unwrap_or_default();
    let is_cpu = part.object.kind == Kind::Part(Level::Cpu);
    let other =
        part.object.index.filter(|index| *index != part.number && !is_cpu && is_named(part.object.kind));
    let other = other.map(|index| format!(" (the system's {index})")).unwrap_or_default();
    format!("{name}{size}{other}")
}

/// Whether people see the system's numbers of that kind elsewhere.
fn is_named(kind: Kind) -> bool {
    matches!(kind, Kind::Part(Level::Package | Level::NumaNode))
}

/// One line for each part, indented; a part that is alone in another stands beside it.
fn outline(tree: &Machine) -> String {
    let mut text = String::new();
    let mut to_do = vec![(0, 0)];
    while let Some((mut place, indent)) = to_do.pop() {
        let mut line = label(tree, place);
        let within = loop {
            let within: Vec<usize> = tree.within(place).collect();
            match within[..] {
                [only] => {
                    place = only;
                    let _ = write!(line, " + {}", label(tree, place));
                }
                _ => break within,
            }
        };
        let cpus = tree.parts()[place].object.cpus.clone();
        let are_cpus = within.iter().all(|&part| tree.parts()[part].object.kind == Kind::Part(Level::Cpu));
        if are_cpus && !within.is_empty() {
            let _ = write!(line, ": cpus {cpus}");
        }
        let _ = writeln!(text, "{:indent$}{line}", "");
        to_do.extend(within.into_iter().rev().filter(|_| !are_cpus).map(|part| (part, indent + 2)));
    }
    text
}

fn part_as_json(tree: &Machine, place: usize) -> Value {
    let part = &tree.parts()[place];
    let parts: Vec<Value> = tree.within(place).map(|within| part_as_json(tree, within)).collect();
    json!({
        "kind": part.object.kind.name(),
        "number": part.number,
        "index": part.object.index,
        "bytes": part.object.bytes,
        "cpus": part.object.cpus.to_string(),
        "parts": parts,
    })
}

/// `8 GiB`, `512 KiB`: three digits at least where there is more.
fn size(bytes: u64) -> String {
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].iter();
    let (mut amount, mut unit) = (bytes as f64, units.next());
    while let Some(next) = units.as_slice().first()
        && amount >= 1024.0
    {
        amount /= 1024.0;
        unit = Some(next);
        units.next();
    }
    let digits = if amount < 100.0 && amount.fract() > 0.05 { 1 } else { 0 };
    format!("{amount:.digits$} {}", unit.unwrap_or(&"B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (32 << 20, "32 MiB"),
            (3 << 29, "1.5 GiB"),
            (48 << 40, "48 TiB"),
            (1 << 60, "1048576 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn the_outline_folds_what_is_alone() {
        let tree = Machine::from_synthetic("pack:2 [numa(memory=4GiB)] l3:1(size=8MiB) core:2 pu:2").unwrap();
        let expected = "machine 8 GiB\n\
            \x20 package 0 + NUMA node 0 4 GiB + L3 cache 0 8 MiB\n    core 0: cpus 0-1\n    core 1: cpus 2-3\n\
            \x20 package 1 + NUMA node 1 4 GiB + L3 cache 1 8 MiB\n    core 2: cpus 4-5\n    core 3: cpus 6-7\n";
        assert_eq!(outline(&tree), expected);
        assert_eq!(summary(&tree), "2 packages, 2 NUMA nodes, 2 L3 caches, 4 cores, 8 cpus");
        let small = Machine::from_synthetic("core:1 pu:1").unwrap();
        assert_eq!(outline(&small), "machine + NUMA node 0 + core 0 + cpu 0\n");
        let alone = Machine::from_synthetic("core:2 pu:1").unwrap();
        assert_eq!(outline(&alone), "machine + NUMA node 0\n  core 0 + cpu 0\n  core 1 + cpu 1\n");
    }
}
