//! What a node tells all others about its ranks, and the placement that everybody makes of what all nodes
//! have told.
//!
//! The byte form, numbers as LEB128 (seven bits a byte, the lowest first):
//! ```text
//! byte    1                                     the version of this form
//! number  runs; for each: start, stride, count  the ranks of the node in the order of its places
//! byte    a bit for each known kind of part     1 package, 2 NUMA node, 4 L3 cache
//! for each of these: number runs; for each: parts, size
//! number  length; the switch path               0 where the switch is not known
//! ```

use std::collections::HashMap;

use thiserror::Error;

use crate::switches::SwitchPath;
use crate::{Level, Machine, MachineLevel, NotAPlacement, Placement, Run, Seat, Sizes};

/// The ranks of one node, and how they lie in its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeShape {
    /// In the order of places.
    ranks: Vec<Ranks>,
    /// For each kind of part that is known for all ranks of the node, the sizes in ranks.
    parts: Vec<(Level, Sizes)>,
    switch: Option<SwitchPath>,
}

/// Ranks with equal distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ranks {
    start: u32,
    stride: u32,
    count: u32,
}

impl Ranks {
    /// `None` where the last one is no rank.
    fn new(start: u32, stride: u32, count: u32) -> Option<Ranks> {
        let is_run = count > 0 && stride > 0;
        let last = start.checked_add(stride.checked_mul(count.checked_sub(1)?)?)?;
        (is_run && last < u32::MAX).then_some(Ranks { start, stride, count })
    }

    fn iter(self) -> impl Iterator<Item = u32> {
        (0..self.count).map(move |place| self.start + place * self.stride)
    }
}

/// Bytes that are not the shape of a node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "what a node told of its ranks makes no sense: {0}\nis the same version of weft installed on all nodes?"
)]
pub struct NotAShape(&'static str);

impl NodeShape {
    /// The kinds of parts that are told.
    const LEVELS: [Level; 3] = [Level::Package, Level::NumaNode, Level::L3Cache];

    /// The shape of a node with `ranks`, each with its seat, in any order, behind the switches of `switch`. A
    /// kind of part counts where it is known for all ranks. Parts come in the order of their lowest ranks;
    /// within a part ranks are in ascending order.
    ///
    /// # Panics
    /// When there is no rank, or more than 65536: no node has so many.
    #[must_use]
    pub fn new(ranks: &[(u32, Seat)], switch: Option<SwitchPath>) -> NodeShape {
        assert!((1..=RANKS_MAX).contains(&ranks.len()), "a node of {} ranks", ranks.len());
        let is_known = |level: &Level| ranks.iter().all(|(_, seat)| seat.part(*level).is_some());
        let levels: Vec<Level> = NodeShape::LEVELS.into_iter().filter(is_known).collect();
        let path = |seat: &Seat| levels.iter().filter_map(|level| seat.part(*level)).collect::<Vec<u32>>();
        let paths: Vec<(Vec<u32>, u32)> = ranks.iter().map(|(rank, seat)| (path(seat), *rank)).collect();
        let order = in_order(&paths);
        let sizes = |depth: usize| sizes_of(order.iter().map(|&item| &paths[item].0[..=depth]));
        NodeShape {
            ranks: runs_of(order.iter().map(|&item| ranks[item].0)),
            parts: levels.iter().enumerate().map(|(depth, level)| (*level, sizes(depth))).collect(),
            switch,
        }
    }

    /// How many ranks the node has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ranks.iter().map(|run| u64::from(run.count)).sum()
    }

    /// Never: a node has ranks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// The ranks, in the order of places.
    pub fn ranks(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranks.iter().flat_map(|run| run.iter())
    }

    /// The sizes of the parts of that kind, in the order of places; none where they are not known.
    #[must_use]
    pub fn parts(&self, level: Level) -> Option<&Sizes> {
        self.parts.iter().find(|(known, _)| *known == level).map(|(_, sizes)| sizes)
    }

    /// The lowest rank.
    fn lowest(&self) -> u32 {
        self.ranks.iter().map(|run| run.start).min().unwrap_or(u32::MAX)
    }

    /// The byte form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        put(&mut bytes, self.ranks.len() as u32);
        for run in &self.ranks {
            [run.start, run.stride, run.count].into_iter().for_each(|number| put(&mut bytes, number));
        }
        let bit =
            |level: Level| NodeShape::LEVELS.iter().position(|it| *it == level).map_or(0, |bit| 1 << bit);
        bytes.push(self.parts.iter().map(|(level, _)| bit(*level)).sum());
        for (_, sizes) in &self.parts {
            put(&mut bytes, sizes.runs().len() as u32);
            sizes
                .runs()
                .iter()
                .flat_map(|run| [run.parts, run.size])
                .for_each(|number| put(&mut bytes, number));
        }
        let switch = self.switch.as_ref().map_or("", SwitchPath::as_str);
        put(&mut bytes, switch.len() as u32);
        bytes.extend_from_slice(switch.as_bytes());
        bytes
    }

    /// Reads the byte form, which comes from another process.
    ///
    /// # Errors
    /// Whatever [`NodeShape::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Result<NodeShape, NotAShape> {
        let mut reader = Reader { bytes };
        if reader.byte()? != VERSION {
            return Err(NotAShape("it is of another version"));
        }
        let ranks = (0..reader.number()?).map(|_| reader.ranks()).collect::<Result<Vec<_>, _>>()?;
        let known = reader.byte()?;
        let mut shape = NodeShape { ranks, parts: Vec::new(), switch: None };
        if !(1..=RANKS_MAX as u64).contains(&shape.len()) {
            return Err(NotAShape("it has no ranks, or too many"));
        }
        let mut coarser = Sizes::equal(1, shape.len() as u32);
        for (_, level) in NodeShape::LEVELS.into_iter().enumerate().filter(|(bit, _)| known >> bit & 1 == 1) {
            let sizes = reader.sizes(shape.len())?;
            if !sizes.refine(&coarser) {
                return Err(NotAShape("its parts do not lie within each other"));
            }
            coarser = sizes.clone();
            shape.parts.push((level, sizes));
        }
        shape.switch = reader.switch()?;
        if known >> NodeShape::LEVELS.len() != 0 || !reader.bytes.is_empty() {
            return Err(NotAShape("there is more than is known here"));
        }
        Ok(shape)
    }
}

impl Placement {
    /// The placement of `ranks` ranks, made of the shapes of all nodes. Nodes come in the order of their
    /// lowest ranks, within their switches if all nodes know these. A kind of part counts if all nodes know
    /// it, and if it divides the parts above it.
    ///
    /// # Errors
    /// When the nodes have not each rank once.
    pub fn of_nodes(nodes: &[NodeShape], ranks: u32) -> Result<Placement, NotAPlacement> {
        if nodes.is_empty() || nodes.iter().map(NodeShape::len).sum::<u64>() != u64::from(ranks) {
            return Err(NotAPlacement::NotAPermutation);
        }
        let switches = switch_paths(nodes);
        let items: Vec<(Vec<u32>, u32)> = match &switches {
            Some(paths) => {
                nodes.iter().zip(paths).map(|(node, path)| (path.clone(), node.lowest())).collect()
            }
            None => nodes.iter().map(|node| (Vec::new(), node.lowest())).collect(),
        };
        let order = in_order(&items);
        let ordered = || order.iter().map(|&node| &nodes[node]);
        let mut levels: Vec<(MachineLevel, Sizes)> = Vec::new();
        let of_nodes: Sizes = ordered().map(|node| node.len() as u32).collect();
        if switches.is_some() {
            levels.push((MachineLevel::Switch, switch_sizes(&order, &items, nodes)));
        }
        levels.push((MachineLevel::Node, of_nodes));
        for level in NodeShape::LEVELS {
            let of_level: Option<Vec<&Sizes>> = ordered().map(|node| node.parts(level)).collect();
            let sizes =
                of_level.map(|sizes| sizes.iter().flat_map(|sizes| sizes.runs().iter().copied()).collect());
            levels.extend(sizes.map(|sizes| (MachineLevel::Part(level), sizes)));
        }
        let is_straight = ordered().flat_map(|node| &node.ranks).try_fold(0, |next, run| {
            (run.start == next && (run.stride == 1 || run.count == 1)).then_some(next + run.count)
        });
        let by_place =
            if is_straight.is_some() { Vec::new() } else { ordered().flat_map(NodeShape::ranks).collect() };
        Placement::new(by_place, without_repeats(levels))
    }

    /// The placement of ranks that fill nodes of these sizes in order, on hosts like `machine`, each rank on
    /// one cpu. A job that is bound in this way would find the same.
    ///
    /// # Errors
    /// When there are no ranks, or too many.
    pub fn on(machine: &Machine, nodes: &Sizes) -> Result<Placement, NotAPlacement> {
        let Ok(total) = u32::try_from(nodes.total()) else { return Err(NotAPlacement::NotAPermutation) };
        if nodes.runs().iter().any(|run| run.size as usize > RANKS_MAX) {
            return Err(NotAPlacement::NotAPermutation);
        }
        let most = nodes.runs().iter().map(|run| run.size).max().unwrap_or(0);
        let seats: Vec<Seat> = (0..most).map(|process| machine.seat_in_turn(process)).collect();
        let shape = |(start, size): (u64, u32)| {
            let ranks: Vec<(u32, Seat)> =
                (start as u32..).zip(seats[..size as usize].iter().copied()).collect();
            NodeShape::new(&ranks, None)
        };
        let shapes: Vec<NodeShape> = nodes.starts().zip(nodes.iter()).map(shape).collect();
        Placement::of_nodes(&shapes, total)
    }
}

/// The items in an order in which those with a common beginning of their paths are neighbours, and what has
/// the lowest number in it comes first, at each depth.
fn in_order(items: &[(Vec<u32>, u32)]) -> Vec<usize> {
    let mut lowest: HashMap<&[u32], u32> = HashMap::new();
    for (path, number) in items {
        for depth in 1..=path.len() {
            let least = lowest.entry(&path[..depth]).or_insert(u32::MAX);
            *least = (*least).min(*number);
        }
    }
    let key = |item: usize| -> Vec<u32> {
        let (path, number) = &items[item];
        (1..=path.len()).map(|depth| lowest[&path[..depth]]).chain([*number]).collect()
    };
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_cached_key(|&item| key(item));
    order
}

/// The lengths of stretches of equal neighbours.
fn sizes_of<T: PartialEq>(items: impl Iterator<Item = T>) -> Sizes {
    let mut last: Option<(T, u32)> = None;
    let mut sizes: Vec<u32> = Vec::new();
    for item in items {
        match &mut last {
            Some((known, size)) if *known == item => *size += 1,
            _ => sizes.extend(last.replace((item, 1)).map(|(_, size)| size)),
        }
    }
    sizes.into_iter().chain(last.map(|(_, size)| size)).collect()
}

fn runs_of(ranks: impl Iterator<Item = u32>) -> Vec<Ranks> {
    let mut runs: Vec<Ranks> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some(run) if run.count == 1 && run.start < rank => {
                *run = Ranks { stride: rank - run.start, count: 2, ..*run };
            }
            Some(run)
                if run.count > 1
                    && u64::from(run.start) + u64::from(run.stride) * u64::from(run.count)
                        == u64::from(rank) =>
            {
                run.count += 1;
            }
            _ => runs.push(Ranks { start: rank, stride: 1, count: 1 }),
        }
    }
    runs
}

/// The switches of each node as numbers, from the top; none unless all nodes know theirs.
fn switch_paths(nodes: &[NodeShape]) -> Option<Vec<Vec<u32>>> {
    let known: Vec<&SwitchPath> = nodes.iter().map(|node| node.switch.as_ref()).collect::<Option<_>>()?;
    let mut names: HashMap<&str, u32> = HashMap::new();
    let numbered = known.into_iter().map(|path| {
        let mut numbers = Vec::new();
        for name in path.parts() {
            let next = names.len() as u32;
            numbers.push(*names.entry(name).or_insert(next));
        }
        // A node right at a switch that has switches below, too, is a part of its own.
        numbers.push(END_OF_PATH);
        numbers
    });
    Some(numbered.collect())
}

/// How many ranks are behind each switch, for nodes in this order.
fn switch_sizes(order: &[usize], paths: &[(Vec<u32>, u32)], nodes: &[NodeShape]) -> Sizes {
    let behind = order.chunk_by(|&one, &other| paths[one].0 == paths[other].0);
    behind.map(|switch| switch.iter().map(|&node| nodes[node].len() as u32).sum::<u32>()).collect()
}

/// Without the levels that are as the one above, and without switches that are as the nodes.
fn without_repeats(levels: Vec<(MachineLevel, Sizes)>) -> Vec<(MachineLevel, Sizes)> {
    let total = levels.first().map_or(0, |(_, sizes)| sizes.total() as u32);
    let mut kept: Vec<(MachineLevel, Sizes)> = Vec::new();
    for (level, sizes) in levels {
        let whole = Sizes::equal(1, total);
        let above = kept.last().map_or(&whole, |(_, sizes)| sizes);
        if level == MachineLevel::Node {
            kept.retain(|(_, switches)| *switches != sizes);
            kept.push((level, sizes));
        } else if sizes != *above {
            kept.push((level, sizes));
        }
    }
    kept
}

fn put(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 1 << 7 {
        bytes.push(number as u8 | 1 << 7);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Bytes of another process, from the front.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, NotAShape> {
        let (first, rest) = self.bytes.split_first().ok_or(NotAShape("it is cut short"))?;
        self.bytes = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u32, NotAShape> {
        let mut number = 0u64;
        for place in 0..5 {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 1 << 7 {
                return u32::try_from(number).map_err(|_| NotAShape("a number is too large"));
            }
        }
        Err(NotAShape("a number is too long"))
    }

    fn ranks(&mut self) -> Result<Ranks, NotAShape> {
        let (start, stride, count) = (self.number()?, self.number()?, self.number()?);
        Ranks::new(start, stride, count).ok_or(NotAShape("its ranks are none"))
    }

    /// Sizes of so many ranks together.
    fn sizes(&mut self, ranks: u64) -> Result<Sizes, NotAShape> {
        let mut left = ranks;
        let mut runs = Vec::new();
        for _ in 0..self.number()? {
            let run = Run { parts: self.number()?, size: self.number()? };
            let together = u64::from(run.parts) * u64::from(run.size);
            left = left.checked_sub(together).ok_or(NotAShape("its parts hold more ranks than it has"))?;
            if together == 0 {
                return Err(NotAShape("a part is empty"));
            }
            runs.push(run);
        }
        if left > 0 {
            Err(NotAShape("its parts hold fewer ranks than it has"))
        } else {
            Ok(runs.into_iter().collect())
        }
    }

    fn switch(&mut self) -> Result<Option<SwitchPath>, NotAShape> {
        let length = self.number()? as usize;
        let (path, rest) = self.bytes.split_at_checked(length).ok_or(NotAShape("it is cut short"))?;
        self.bytes = rest;
        if length == 0 {
            return Ok(None);
        }
        let path = std::str::from_utf8(path).ok().and_then(|path| path.parse().ok());
        path.map(Some).ok_or(NotAShape("its switch has no name"))
    }
}

const VERSION: u8 = 1;
/// No node has so many processors, and a number from another process must not take memory.
const RANKS_MAX: usize = 1 << 16;
const END_OF_PATH: u32 = u32::MAX;
