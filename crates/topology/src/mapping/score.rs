//! What a mapping costs: the edges between different parts of the machine, counted cell by cell.

use super::field::{Field, Span};
use crate::{Level, MachineLevel, Sizes};

/// What a mapping costs. An edge goes from a cell to one that it sends to, and counts with its weight;
/// without weights each counts 1.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Score {
    /// All edges, wherever they go.
    pub edges: u64,
    /// The edges between different parts of each level, from large parts to small ones.
    pub cut: Vec<(MachineLevel, u64)>,
    /// The edges between different nodes.
    pub j_sum: u64,
    /// The most of these that leave one node.
    pub j_max: u64,
    /// Each edge times the weight of the largest parts that it leaves; 1 where it leaves none.
    pub cost: u64,
}

/// What an edge between two parts of a level costs, compared with one that leaves no part. Between nodes that
/// no switch separates, or where none is known, it is 16; between nodes behind different switches 24.
#[must_use]
pub fn level_weight(level: MachineLevel) -> u64 {
    match level {
        MachineLevel::Switch => 24,
        MachineLevel::Node => 16,
        MachineLevel::Part(Level::Package) => 4,
        MachineLevel::Part(Level::NumaNode) => 3,
        MachineLevel::Part(Level::L3Cache) => 2,
        MachineLevel::Part(Level::L2Cache | Level::Core | Level::Cpu) => 1,
    }
}

impl Score {
    /// From the edges that are cut at each level.
    pub(crate) fn new(edges: u64, cut: Vec<(MachineLevel, u64)>, j_max: u64) -> Score {
        let j_sum = cut.iter().find(|(level, _)| *level == MachineLevel::Node).map_or(0, |&(_, cut)| cut);
        let mut score = Score { edges, cut, j_sum, j_max, cost: 0 };
        score.cost = score.levels().map(|(level, edges)| edges * level.map_or(1, level_weight)).sum();
        score
    }

    /// The edges by the largest parts that they leave, from large parts to small ones; last those that leave
    /// none.
    pub fn levels(&self) -> impl Iterator<Item = (Option<MachineLevel>, u64)> + '_ {
        let above = [0].into_iter().chain(self.cut.iter().map(|&(_, cut)| cut));
        let levels = self.cut.iter().map(|&(level, cut)| (Some(level), cut)).chain([(None, self.edges)]);
        levels.zip(above).map(|((level, cut), above)| (level, cut - above))
    }
}

/// Counts edges on a field.
pub(crate) struct Scorer<'a> {
    field: &'a Field,
    spans: Vec<Vec<Span>>,
    edges: u64,
    labels: Vec<u32>,
    out: Vec<u64>,
}

impl<'a> Scorer<'a> {
    pub(crate) fn new(field: &'a Field) -> Scorer<'a> {
        let spans: Vec<Vec<Span>> = field.links.iter().map(|link| field.spans(link)).collect();
        let pairs = |spans: &Vec<Span>| spans.iter().map(|span| u64::from(span.length)).sum::<u64>();
        let edges = field.links.iter().zip(&spans).map(|(link, spans)| link.weight() * pairs(spans)).sum();
        Scorer { field, spans, edges, labels: vec![0; field.cells as usize], out: Vec::new() }
    }

    /// The score of an order: the cell at each position, with the parts of the machine as runs of positions.
    /// Where it costs more than `limit`, the most that leave a node are not counted.
    pub(crate) fn score(&mut self, cells: &[u32], levels: &[(MachineLevel, Sizes)], limit: u64) -> Score {
        let mut cut = Vec::with_capacity(levels.len());
        for (level, sizes) in levels {
            self.label(cells, sizes);
            cut.push((*level, self.cut()));
        }
        let mut score = Score::new(self.edges, cut, 0);
        let nodes = levels.iter().find(|(level, _)| *level == MachineLevel::Node);
        if let Some((_, nodes)) = nodes.filter(|_| score.cost <= limit) {
            if 1 < levels.len() {
                self.label(cells, nodes);
            }
            score.j_max = self.most_out(nodes.parts() as usize);
        }
        score
    }

    fn label(&mut self, cells: &[u32], sizes: &Sizes) {
        let mut rest = cells;
        for (part, size) in (0..).zip(sizes.iter()) {
            let (own, others) = rest.split_at((size as usize).min(rest.len()));
            for &cell in own {
                self.labels[cell as usize] = part;
            }
            rest = others;
        }
    }

    fn cut(&self) -> u64 {
        let mut cut = 0;
        for (link, spans) in self.field.links.iter().zip(&self.spans) {
            let pairs: u64 = spans.iter().map(|&span| self.different(span)).sum();
            cut += pairs * link.weight();
        }
        cut
    }

    fn different(&self, span: Span) -> u64 {
        let from = &self.labels[span.from as usize..(span.from + span.length) as usize];
        let to = &self.labels[span.to as usize..(span.to + span.length) as usize];
        u64::from(from.iter().zip(to).map(|(from, to)| u32::from(from != to)).sum::<u32>())
    }

    fn most_out(&mut self, parts: usize) -> u64 {
        self.out.clear();
        self.out.resize(parts, 0);
        for (link, spans) in self.field.links.iter().zip(&self.spans) {
            for span in spans {
                let from = &self.labels[span.from as usize..(span.from + span.length) as usize];
                let to = &self.labels[span.to as usize..(span.to + span.length) as usize];
                for (&from, &to) in from.iter().zip(to).filter(|(from, to)| from != to) {
                    self.out[from as usize] += link.there;
                    self.out[to as usize] += link.back;
                }
            }
        }
        self.out.iter().copied().max().unwrap_or(0)
    }
}
