//! The text form of a machine tree: one line for each object, in the order of the tree.
//!
//! ```text
//! weft machine 1                the version of this format
//! Package 0 - 0-3               kind, the system's number or `-`, bytes or `-`, cpus
//! NUMANode 0 8589934592 0-3
//! PU 0 - 0
//! ```

use std::fmt::Write as _;

use super::{Kind, Machine, NotAMachine, Object, TooMuch};
use crate::Level;

pub(super) fn write(machine: &Machine) -> String {
    let mut text = format!("{MAGIC}\n");
    let number = |number: Option<u64>| number.map_or_else(|| ABSENT.to_owned(), |number| number.to_string());
    for Object { kind, index, bytes, cpus } in machine.parts().iter().skip(1).map(|part| &part.object) {
        let (index, bytes) = (number(index.map(u64::from)), number(*bytes));
        let _ = writeln!(text, "{} {index} {bytes} {cpus}", kind.name());
    }
    text
}

pub(super) fn read(text: &str) -> Result<Machine, NotAMachine> {
    TooMuch::Bytes.check(text.len())?;
    let wrong =
        |line: &str| NotAMachine::Text(format!("`KIND NUMBER BYTES CPUS` is expected, and not {line:?}"));
    let mut lines = text.lines();
    let magic = lines.next().unwrap_or_default();
    if magic != MAGIC {
        return Err(NotAMachine::Text(format!("`{MAGIC}` is expected, and not {magic:?}")));
    }
    if !text.ends_with('\n') {
        return Err(NotAMachine::Text("it ends in the midst of a line".to_owned()));
    }
    let mut budget = super::Budget::default();
    for line in lines {
        let object = parse(line).ok_or_else(|| wrong(line))?;
        budget.take(object)?;
    }
    Machine::of(budget.objects)
}

fn parse(line: &str) -> Option<Object> {
    let mut words = line.split(' ');
    let mut word = || words.next();
    let kind = kind_named(word()?)?;
    let (index, bytes, cpus) = (number(word()?)?, number(word()?)?, word()?.parse().ok()?);
    let index = index.map(u32::try_from).transpose().ok()?;
    word().is_none().then_some(Object { kind, index, bytes, cpus })
}

fn kind_named(name: &str) -> Option<Kind> {
    if name == Kind::Group.name() { Some(Kind::Group) } else { Level::named(name).map(Kind::Part) }
}

/// A number, or the sign that there is none; the outer `None` is for anything else.
fn number(text: &str) -> Option<Option<u64>> {
    if text == ABSENT { Some(None) } else { text.parse().ok().map(Some) }
}

const MAGIC: &str = "weft machine 1";
const ABSENT: &str = "-";
