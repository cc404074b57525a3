//! The machine tree of one host: packages, NUMA nodes, caches, cores and cpus, each within the one that holds
//! its cpus.
//!
//! Wherever a tree comes from, it comes as a list of objects with their cpus, and this file finds out what
//! lies in what: cpus that are in two parts of which neither holds the other are a contradiction, and no
//! machine.
//!
//! Of memory hwloc knows more than a tree can hold: a cpu may be near to several NUMA nodes, and these may
//! overlap. Here cpus that are near to the same NUMA nodes are one part, which has the number of the first of
//! them.

use std::collections::HashMap;
use std::fmt;

use thiserror::Error;

use crate::{CpuSet, Level, Seat};

mod described;
mod hwloc;
mod synthetic;
mod text;
mod xml;

pub use self::described::Undescribed;
pub use self::hwloc::Unseen;

/// A kind of object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// The host itself.
    Machine,
    /// A part with a name of its own.
    Part(Level),
    /// Cpus that belong together for another reason; dies are such.
    Group,
}

impl Kind {
    /// hwloc's name for this kind of object.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Machine => "Machine",
            Kind::Part(level) => level.name(),
            Kind::Group => "Group",
        }
    }
}

/// An object of a machine, as its description tells of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// The number that the system gives it, where it has one.
    pub index: Option<u32>,
    /// The size of a cache, or of the memory of a NUMA node and of what lies in it.
    pub bytes: Option<u64>,
    /// The cpus that it holds.
    pub cpus: CpuSet,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.index.map(|index| format!(" {index}")).unwrap_or_default();
        write!(f, "{}{index} with cpus {}", self.kind.name(), self.cpus)
    }
}

/// An object in its place in the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The kind of the part, and the cpus that it holds.
    pub object: Object,
    /// Its number among those of its kind, from 0 in the order of the tree.
    pub number: u32,
    /// How many parts hold it.
    pub depth: u32,
    /// Where, in the order of the tree, its own parts end.
    end: usize,
}

/// The tree of one host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Each part before those within it; the first is the host.
    parts: Vec<Part>,
}

/// Why a description is not one of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAMachine {
    /// The description has no cpus.
    #[error("it has no cpus")]
    NoCpus,
    /// An object that cannot be: a cpu of several cpus, or a cache of none.
    #[error("{} with cpus \"{cpus}\" is nothing that there is", kind.name())]
    Strange {
        /// What it claims to be.
        kind: Kind,
        /// Its cpus.
        cpus: CpuSet,
    },
    /// Two parts share cpus, and neither lies within the other.
    #[error("{} and {} contradict each other", .0[0], .0[1])]
    Contradiction(Box<[Object; 2]>),
    /// Beyond all reason.
    #[error("it is larger than any machine: more than {} {what}", what.most())]
    TooLarge {
        /// Of what there is too much.
        what: TooMuch,
    },
    /// A text that is not of its format, with the reason.
    #[error("{0}")]
    Text(String),
}

/// A quantity that is limited in a description of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMuch {
    /// Objects of any kind.
    Objects,
    /// Cpus, or numbers of cpus.
    Cpus,
    /// Objects within objects.
    Depth,
    /// Bytes of text.
    Bytes,
}

impl TooMuch {
    const fn most(self) -> usize {
        match self {
            TooMuch::Objects => 1 << 16,
            TooMuch::Cpus => 1 << 14,
            TooMuch::Depth => 32,
            TooMuch::Bytes => 16 << 20,
        }
    }

    fn check(self, count: usize) -> Result<(), NotAMachine> {
        if count <= self.most() { Ok(()) } else { Err(NotAMachine::TooLarge { what: self }) }
    }
}

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TooMuch::Objects => "objects",
            TooMuch::Cpus => "cpus",
            TooMuch::Depth => "objects within each other",
            TooMuch::Bytes => "bytes",
        })
    }
}

/// Cpus that a machine does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a process is bound to cpus {bound}, and the machine has cpus {present} only")]
pub struct NotOnMachine {
    /// The cpus that the process may use.
    pub bound: CpuSet,
    /// The cpus of the machine.
    pub present: CpuSet,
}

impl Machine {
    /// The tree of these objects, in any order. Objects without cpus and groups that add nothing are left
    /// out.
    ///
    /// # Errors
    /// What contradicts itself.
    pub fn of(objects: Vec<Object>) -> Result<Machine, NotAMachine> {
        TooMuch::Objects.check(objects.len())?;
        TooMuch::Cpus.check(objects.iter().map(|object| object.cpus.words() * 64).max().unwrap_or(0))?;
        let mut objects: Vec<Object> =
            objects.into_iter().filter(|it| it.kind != Kind::Machine && !it.cpus.is_empty()).collect();
        let cpus: CpuSet = of_kind(&objects, Level::Cpu).flat_map(|object| object.cpus.iter()).collect();
        if cpus.is_empty() {
            return Err(NotAMachine::NoCpus);
        }
        if let Some(strange) = objects.iter().find(|object| !is_sane(object, &cpus)) {
            return Err(NotAMachine::Strange { kind: strange.kind, cpus: strange.cpus.clone() });
        }
        let memory =
            of_kind(&objects, Level::NumaNode).try_fold(0, |sum: u64, it| sum.checked_add(it.bytes?));
        objects.push(Object { kind: Kind::Machine, index: None, bytes: memory.filter(|sum| *sum > 0), cpus });
        // Large before small, and among those of the same cpus as the kinds lie within each other.
        objects.sort_by_cached_key(|object| {
            (std::cmp::Reverse(object.cpus.len()), object.kind, object.cpus.first())
        });
        nest(objects)
    }

    /// The tree of this host, as hwloc sees it; that takes some milliseconds.
    ///
    /// # Errors
    /// Why hwloc does not tell, with a remedy.
    pub fn of_this_host() -> Result<Machine, Unseen> {
        hwloc::read()
    }

    /// The machine that `text` describes: the name of a file of hwloc's, which ends in `.xml` or is there, or
    /// a short description.
    ///
    /// # Errors
    /// What is wrong with either, with a remedy.
    pub fn described(text: &str) -> Result<Machine, Undescribed> {
        described::read(text)
    }

    /// Reads a description as hwloc writes it (`lstopo FILE.xml`), of its version 1 or 2.
    ///
    /// # Errors
    /// What is wrong with the text, or contradicts itself.
    pub fn from_xml(text: &str) -> Result<Machine, NotAMachine> {
        xml::read(text)
    }

    /// Reads a short description, such as `pack:2 numa:2 l3:4 core:8 pu:1`: what each part has of the next.
    ///
    /// # Errors
    /// Which word is wrong, and what is expected.
    pub fn from_synthetic(text: &str) -> Result<Machine, NotAMachine> {
        synthetic::read(text)
    }

    /// The text form, which [`Machine::decode`] reads.
    #[must_use]
    pub fn encode(&self) -> String {
        text::write(self)
    }

    /// Reads the text form: that of our file of this host's tree, and of the library that asks hwloc.
    ///
    /// # Errors
    /// What is wrong with the text, or contradicts itself.
    pub fn decode(text: &str) -> Result<Machine, NotAMachine> {
        text::read(text)
    }

    /// All parts in the order of the tree, each before those within it; the first is the host.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The parts right within a part, which is named by its place in [`Machine::parts`].
    pub fn within(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.parts[place].end;
        let first = Some(place + 1).filter(|first| *first < end);
        std::iter::successors(first, move |&part| Some(self.parts[part].end).filter(|next| *next < end))
    }

    /// Its cpus.
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.parts[0].object.cpus
    }

    /// How many parts of a kind there are.
    #[must_use]
    pub fn count(&self, level: Level) -> usize {
        self.parts.iter().filter(|part| part.object.kind == Kind::Part(level)).count()
    }

    /// The seat of a process that may run on `cpus`: the numbers of the parts that hold all of them.
    ///
    /// # Errors
    /// Where `cpus` is empty, or this machine does not have all of them.
    pub fn seat(&self, cpus: &CpuSet) -> Result<Seat, NotOnMachine> {
        if cpus.is_empty() || !cpus.is_subset(self.cpus()) {
            return Err(NotOnMachine { bound: cpus.clone(), present: self.cpus().clone() });
        }
        let holds = |place: &usize| cpus.is_subset(&self.parts[*place].object.cpus);
        let chain = std::iter::successors(Some(0), |&place| self.within(place).find(holds));
        Ok(self.seat_of(chain))
    }

    /// The seat of the process with number `process` on its node, where each process has one cpu in the order
    /// of the tree. Behind the last cpu they start again from the first.
    #[must_use]
    pub fn seat_in_turn(&self, process: u32) -> Seat {
        let number = process % self.count(Level::Cpu) as u32;
        let is_it = |part: &Part| part.object.kind == Kind::Part(Level::Cpu) && part.number == number;
        let place = self.parts.iter().position(is_it).expect("cpus are numbered without gaps");
        self.seat_of((0..=place).filter(|&above| place < self.parts[above].end))
    }

    fn seat_of(&self, chain: impl Iterator<Item = usize>) -> Seat {
        chain.fold(Seat::UNKNOWN, |seat, place| match self.parts[place].object.kind {
            Kind::Part(level) => seat.with(level, self.parts[place].number),
            Kind::Machine | Kind::Group => seat,
        })
    }
}

/// Objects that are read from a text, as long as they are within reason together.
#[derive(Default)]
struct Budget {
    objects: Vec<Object>,
    words: usize,
}

impl Budget {
    fn take(&mut self, object: Object) -> Result<(), NotAMachine> {
        TooMuch::Cpus.check(object.cpus.words() * 64)?;
        self.words += object.cpus.words();
        TooMuch::Objects.check(self.objects.len() + 1)?;
        TooMuch::Objects.check(self.words / WORDS_PER_OBJECT)?;
        self.objects.push(object);
        Ok(())
    }
}

/// In the middle of a description at its largest: most objects are small ones.
const WORDS_PER_OBJECT: usize = 128;

/// A NUMA node, and the cpus that it is near to.
struct Near {
    index: Option<u32>,
    bytes: Option<u64>,
    cpus: CpuSet,
}

/// Adds a part for each set of cpus that are near to the same NUMA nodes. Without any, all memory is near to
/// all.
fn memory_parts(mut near: Vec<Near>, objects: &mut Vec<Object>) {
    let cpus: Vec<usize> = of_kind(objects, Level::Cpu).filter_map(|object| object.cpus.first()).collect();
    if near.is_empty() {
        near.push(Near { index: Some(0), bytes: None, cpus: cpus.iter().copied().collect() });
    }
    near.sort_by_key(|node| node.index);
    let mut nodes_of: HashMap<usize, Vec<usize>> = cpus.iter().map(|cpu| (*cpu, Vec::new())).collect();
    for (place, node) in near.iter().enumerate() {
        node.cpus.iter().for_each(|cpu| nodes_of.entry(cpu).or_default().push(place));
    }
    let mut parts: HashMap<Vec<usize>, CpuSet> = HashMap::new();
    for (cpu, nodes) in nodes_of.into_iter().filter(|(_, nodes)| !nodes.is_empty()) {
        parts.entry(nodes).or_default().insert(cpu);
    }
    for (nodes, cpus) in parts {
        let within = near.iter().filter(|node| !node.cpus.is_empty() && node.cpus.is_subset(&cpus));
        let bytes = within.filter_map(|node| node.bytes).reduce(u64::saturating_add);
        let (kind, index) = (Kind::Part(Level::NumaNode), near[nodes[0]].index);
        objects.push(Object { kind, index, bytes, cpus });
    }
}

fn of_kind(objects: &[Object], level: Level) -> impl Iterator<Item = &Object> {
    objects.iter().filter(move |object| object.kind == Kind::Part(level))
}

fn is_sane(object: &Object, cpus: &CpuSet) -> bool {
    (object.kind != Kind::Part(Level::Cpu) || object.cpus.len() == 1) && object.cpus.is_subset(cpus)
}

/// Puts each object into the smallest one before it that has its cpus. The first has all.
fn nest(objects: Vec<Object>) -> Result<Machine, NotAMachine> {
    let mut nest = Nest { holder: vec![0; objects[0].cpus.words() * 64], ..Nest::default() };
    for object in objects {
        nest.put(object)?;
    }
    Ok(nest.in_order())
}

#[derive(Default)]
struct Nest {
    /// For each cpu the smallest object so far that has it.
    holder: Vec<usize>,
    objects: Vec<Object>,
    /// What lies right within each.
    within: Vec<Vec<usize>>,
    /// How deep each lies.
    depths: Vec<u32>,
    /// The kinds of each and of all above it, a bit each.
    kinds: Vec<u32>,
}

impl Nest {
    fn put(&mut self, object: Object) -> Result<(), NotAMachine> {
        let (place, kind) = (self.objects.len(), bit_of(object.kind));
        let above = object.cpus.first().map_or(0, |first| self.holder[first]);
        let (mut depth, mut kinds) = (0, kind);
        if let Some(over) = self.objects.get(above) {
            let astray = object.cpus.iter().map(|cpu| self.holder[cpu]).find(|holder| *holder != above);
            if object.kind == Kind::Group && astray.is_none() && over.cpus == object.cpus {
                return Ok(());
            }
            let is_again = object.kind != Kind::Group && self.kinds[above] & kind != 0;
            if let Some(other) = astray.map(|other| other.max(above)).or(is_again.then_some(above)) {
                return Err(NotAMachine::Contradiction(Box::new([self.objects.swap_remove(other), object])));
            }
            (depth, kinds) = (self.depths[above] + 1, kinds | self.kinds[above]);
            TooMuch::Depth.check(depth as usize)?;
            self.within[above].push(place);
        }
        object.cpus.iter().for_each(|cpu| self.holder[cpu] = place);
        self.objects.push(object);
        self.within.push(Vec::new());
        self.depths.push(depth);
        self.kinds.push(kinds);
        Ok(())
    }

    /// The tree, its parts in the order of their first cpus.
    fn in_order(mut self) -> Machine {
        let mut parts: Vec<Part> = Vec::with_capacity(self.objects.len());
        let mut counts: HashMap<Kind, u32> = HashMap::new();
        let mut objects: Vec<Option<Object>> = self.objects.into_iter().map(Some).collect();
        let mut to_do = vec![0];
        while let Some(place) = to_do.pop() {
            let object = objects[place].take().expect("each is within one other");
            let count = counts.entry(object.kind).or_default();
            let number = std::mem::replace(count, *count + 1);
            parts.push(Part { object, number, depth: self.depths[place], end: 0 });
            let mut within = std::mem::take(&mut self.within[place]);
            within.sort_by_key(|&it| std::cmp::Reverse(objects[it].as_ref().and_then(|it| it.cpus.first())));
            to_do.extend(within);
        }
        // A part ends where the next begins that is not deeper.
        let mut open: Vec<usize> = Vec::new();
        for place in 0..=parts.len() {
            let depth = parts.get(place).map_or(0, |part| part.depth);
            while let Some(last) = open.pop_if(|last| depth <= parts[*last].depth) {
                parts[last].end = place;
            }
            open.push(place);
        }
        Machine { parts }
    }
}

fn bit_of(kind: Kind) -> u32 {
    match kind {
        Kind::Machine => 1,
        Kind::Part(level) => 2 << level as u32,
        Kind::Group => 1 << 31,
    }
}
