//! Short descriptions of regular machines, in hwloc's form: `pack:2 [numa(memory=64GiB)] l3:4(size=32MiB)
//! core:8 pu:2`.
//!
//! Each word is a kind of part and how many of them each part of the word before has; the last is `pu`. In
//! brackets stands memory that belongs to the part before. In parentheses stand attributes, of which sizes
//! are read and others are passed over. Where no memory is named, all of it is one NUMA node.

use super::{Kind, Machine, Near, NotAMachine, Object, TooMuch, memory_parts};
use crate::{CpuSet, Level};

/// One word of the description.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    what: What,
    /// In each part of the level before; 1 for what stands in brackets.
    count: usize,
    bytes: Option<u64>,
    is_attached: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Known(Kind),
    /// A kind that the tree leaves out, such as caches of the first level.
    LeftOut,
}

pub(super) fn read(text: &str) -> Result<Machine, NotAMachine> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(NotAMachine::Text(format!("it has more than {TEXT_BYTES_MAX} bytes")));
    }
    let words = words(text)?;
    let cpus = count_cpus(&words)?;
    let (mut objects, mut near) = (Vec::new(), Vec::new());
    let mut parts = 1;
    for word in words {
        parts *= word.count;
        TooMuch::Objects.check(objects.len() + near.len() + parts)?;
        let each = cpus / parts;
        for number in 0..parts {
            let cpus: CpuSet = (number * each..(number + 1) * each).collect();
            match word.what {
                What::Known(Kind::Part(Level::NumaNode)) => {
                    near.push(Near { index: Some(near.len() as u32), bytes: word.bytes, cpus });
                }
                What::Known(kind) => {
                    objects.push(Object { kind, index: Some(number as u32), bytes: word.bytes, cpus });
                }
                What::LeftOut => {}
            }
        }
    }
    memory_parts(near, &mut objects);
    Machine::of(objects)
}

/// All cpus; the words are checked.
fn count_cpus(words: &[Word]) -> Result<usize, NotAMachine> {
    let levels: Vec<&Word> = words.iter().filter(|word| !word.is_attached).collect();
    TooMuch::Depth.check(levels.len())?;
    let is_cpu = |word: &Word| word.what == What::Known(Kind::Part(Level::Cpu));
    if levels.last().is_none_or(|last| !is_cpu(last)) {
        return Err(NotAMachine::Text("the last level must be cpus, as pu:1".to_owned()));
    }
    for (place, word) in levels.iter().enumerate() {
        let again = levels[..place].iter().any(|other| other.what == word.what);
        if let What::Known(kind @ Kind::Part(_)) = word.what
            && again
        {
            return Err(NotAMachine::Text(format!("{} is there twice", kind.name())));
        }
    }
    let too_large = NotAMachine::TooLarge { what: TooMuch::Cpus };
    let product = levels.iter().try_fold(1usize, |product, word| product.checked_mul(word.count));
    let cpus = product.ok_or(too_large)?;
    TooMuch::Cpus.check(cpus)?;
    Ok(cpus)
}

fn words(text: &str) -> Result<Vec<Word>, NotAMachine> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    // Attributes of the whole machine may come first.
    if rest.starts_with('(') {
        rest = attributes(rest, text)?.1.trim_start();
    }
    while !rest.is_empty() {
        let (word, behind) = match rest.strip_prefix('[') {
            Some(inside) => attached(inside, text)?,
            None => level(rest, text)?,
        };
        words.push(word);
        rest = behind.trim_start();
    }
    Ok(words)
}

/// `core:8(…)`, from the front.
fn level<'a>(text: &'a str, all: &str) -> Result<(Word, &'a str), NotAMachine> {
    let end = text.find([' ', '\t', '\n', '(', '[']).unwrap_or(text.len());
    let (word, behind) = text.split_at(end);
    let wrong = || NotAMachine::Text(format!("{word:?} is no level: write KIND:COUNT, as core:8"));
    let (name, count) = word.split_once(':').ok_or_else(wrong)?;
    let what = named(name).ok_or_else(|| {
        NotAMachine::Text(format!("{name:?} is none of pack, die, group, numa, l5 to l1, core and pu"))
    })?;
    let count = count.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
    let (bytes, behind) = if behind.starts_with('(') { attributes(behind, all)? } else { (None, behind) };
    Ok((Word { what, count, bytes, is_attached: false }, behind))
}

/// `numa(…)]`, from the front; the opening bracket is gone.
fn attached<'a>(text: &'a str, all: &str) -> Result<(Word, &'a str), NotAMachine> {
    let wrong = || {
        NotAMachine::Text(format!(
            "what stands in brackets is [numa] or [numa(memory=4GiB)], and not {text:?}"
        ))
    };
    let end = text.find(['(', ']']).ok_or_else(wrong)?;
    let (name, behind) = text.split_at(end);
    let what = match name.trim() {
        name if is_short_for(name, "memcache", 4) => What::LeftOut,
        name => {
            named(name).filter(|what| *what == What::Known(Kind::Part(Level::NumaNode))).ok_or_else(wrong)?
        }
    };
    let (bytes, behind) = if behind.starts_with('(') { attributes(behind, all)? } else { (None, behind) };
    let behind = behind.trim_start().strip_prefix(']').ok_or_else(wrong)?;
    Ok((Word { what, count: 1, bytes, is_attached: true }, behind))
}

/// `(memory=4GiB indexes=…)`, from the front: the size in it, if any, and what follows.
fn attributes<'a>(text: &'a str, all: &str) -> Result<(Option<u64>, &'a str), NotAMachine> {
    let wrong = |what: &str| NotAMachine::Text(format!("{what} in {all:?}"));
    let inside = text.strip_prefix('(').ok_or_else(|| wrong("( is expected"))?;
    let (inside, behind) = inside.split_once(')').ok_or_else(|| wrong("a parenthesis stays open"))?;
    let mut bytes = None;
    for attribute in inside.split([' ', ',']) {
        if let Some(("memory" | "size", size)) = attribute.split_once('=') {
            bytes = Some(size_in_bytes(size).ok_or_else(|| wrong("a size is none, such as 4GiB,"))?);
        }
    }
    Ok((bytes, behind))
}

fn size_in_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn named(name: &str) -> Option<What> {
    let name = name.trim();
    let part = |level| Some(What::Known(Kind::Part(level)));
    if is_short_for(name, "package", 2) || is_short_for(name, "socket", 2) {
        return part(Level::Package);
    }
    if is_short_for(name, "numanode", 2) || is_short_for(name, "node", 2) {
        return part(Level::NumaNode);
    }
    if is_short_for(name, "die", 2)
        || is_short_for(name.trim_end_matches(|c: char| c.is_ascii_digit()), "group", 2)
    {
        return Some(What::Known(Kind::Group));
    }
    if is_short_for(name, "core", 2) {
        return part(Level::Core);
    }
    if name.eq_ignore_ascii_case("pu") {
        return part(Level::Cpu);
    }
    let lower = name.to_ascii_lowercase();
    let cache = lower.strip_suffix("cache").unwrap_or(&lower);
    match cache.trim_end_matches(['d', 'u']) {
        "l3" => part(Level::L3Cache),
        "l2" => part(Level::L2Cache),
        "l1" | "l4" | "l5" | "l1i" | "l2i" | "l3i" => Some(What::LeftOut),
        _ => None,
    }
}

/// Whether `name` is the beginning of `whole`, with at least so many letters.
fn is_short_for(name: &str, whole: &str, least: usize) -> bool {
    let beginning = whole.get(..name.len());
    least <= name.len() && beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(name))
}

const TEXT_BYTES_MAX: usize = 4096;
const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("kB", 1000),
    ("kiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];
