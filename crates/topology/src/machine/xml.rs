//! hwloc's own files, as `lstopo FILE.xml` writes them, of version 2 and of version 1.
//!
//! ```xml
//! <topology version="2.0">
//!   <object type="Machine" os_index="0" cpuset="0x0000000f" …>
//!     <object type="NUMANode" os_index="0" cpuset="0x0000000f" local_memory="8589934592" …/>
//!     <object type="L3Cache" cpuset="0x0000000f" cache_size="33554432" …>
//! ```
//! What lies in what is told by the cpus alone, so that both versions are read alike: version 1 has NUMA
//! nodes among the other parts, `Socket` for packages and `Cache` with a depth.

use roxmltree::{Document, Node, ParsingOptions};

use super::{Budget, Kind, Machine, Near, NotAMachine, Object, TooMuch, memory_parts};
use crate::{CpuSet, Level};

pub(super) fn read(text: &str) -> Result<Machine, NotAMachine> {
    TooMuch::Bytes.check(text.len())?;
    let options = ParsingOptions { allow_dtd: true, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document =
        Document::parse_with_options(text, options).map_err(|error| NotAMachine::Text(error.to_string()))?;
    let root = document.root_element();
    if root.tag_name().name() != "topology" {
        let found = root.tag_name().name();
        return Err(NotAMachine::Text(format!("the element `topology` is expected, and not `{found}`")));
    }
    if let Some(version) = root.attribute("version").filter(|version| !version.starts_with(['1', '2'])) {
        return Err(NotAMachine::Text(format!(
            "it is of version {version} of the format, and 1 and 2 are read"
        )));
    }
    let (mut budget, mut near) = (Budget::default(), Budget::default());
    for node in root.descendants().filter(|node| node.has_tag_name("object")) {
        if let Some(object) = object(&node)? {
            let list = if object.kind == Kind::Part(Level::NumaNode) { &mut near } else { &mut budget };
            list.take(object)?;
        }
    }
    let near = near.objects.into_iter().map(|Object { index, bytes, cpus, .. }| Near { index, bytes, cpus });
    memory_parts(near.collect(), &mut budget.objects);
    Machine::of(budget.objects)
}

/// An object of the tree; none where it is no part of one, such as a network card.
fn object(node: &Node<'_, '_>) -> Result<Option<Object>, NotAMachine> {
    let wrong = |what: String| {
        let at = node.document().text_pos_at(node.range().start);
        NotAMachine::Text(format!("line {}: {what}", at.row))
    };
    let name = node.attribute("type").ok_or_else(|| wrong("an object has no type".to_owned()))?;
    let number = |key: &str| match node.attribute(key).map(str::parse::<u64>) {
        Some(Err(_)) => Err(wrong(format!("{key} of {name} is no number"))),
        Some(Ok(number)) => Ok(Some(number)),
        None => Ok(None),
    };
    let kind = match name {
        "Package" | "Socket" => Kind::Part(Level::Package),
        "Die" | "Group" => Kind::Group,
        "Cache" if number("depth")? == Some(3) => Kind::Part(Level::L3Cache),
        "Cache" if number("depth")? == Some(2) => Kind::Part(Level::L2Cache),
        // The name of NUMA nodes before version 1.11.
        "Node" => Kind::Part(Level::NumaNode),
        "Machine" => return Ok(None),
        name => match Level::ALL.into_iter().find(|level| level.name() == name) {
            Some(level) => Kind::Part(level),
            None => return Ok(None),
        },
    };
    let Some(text) = node.attribute("cpuset") else { return Ok(None) };
    let cpus =
        cpu_set(text).ok_or_else(|| wrong(format!("cpuset of {name} is {text:?}, and no set of cpus")))?;
    let index = number("os_index")?.and_then(|index| u32::try_from(index).ok());
    let bytes =
        if kind == Kind::Part(Level::NumaNode) { number("local_memory")? } else { number("cache_size")? };
    if kind == Kind::Part(Level::Cpu) && index.is_some_and(|index| cpus.first() != Some(index as usize)) {
        return Err(wrong(format!("PU {} has cpuset {cpus}", index.unwrap_or(0))));
    }
    Ok(Some(Object { kind, index, bytes, cpus }))
}

/// `0x00000003,0xffffffff`: words of 32 cpus, the highest first; a word of none may be left out.
fn cpu_set(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    let words: Vec<&str> = text.split(',').collect();
    TooMuch::Cpus.check(words.len() * 32).ok()?;
    for (place, word) in words.iter().rev().enumerate() {
        let bits =
            if word.is_empty() { 0 } else { u32::from_str_radix(word.strip_prefix("0x")?, 16).ok()? };
        (0..32).filter(|bit| bits >> bit & 1 == 1).for_each(|bit| cpus.insert(place * 32 + bit));
    }
    Some(cpus)
}

/// Elements and texts between them, of which a description has about a dozen for each cpu.
const NODES_MAX: u32 = 1 << 20;
