//! What a mapping costs: the edges between different parts of the machine, counted cell by cell.

use super::field::{Field, Span};
use crate::{Level, Sizes, Tier};

/// What a mapping costs. An edge goes from a cell to one that it sends to, and counts with its weight;
/// without weights each counts 1.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Score {
    /// All edges, wherever they go.
    pub edges: u64,
    /// The edges between different parts of each tier, from large parts to small ones.
    pub cut: Vec<(Tier, u64)>,
    /// The edges between different nodes.
    pub j_sum: u64,
    /// The most of these that leave one node.
    pub j_max: u64,
    /// Each edge times the weight of the largest parts that it leaves; 1 where it leaves none.
    pub cost: u64,
}

/// What an edge between two parts of a tier costs, compared with one that leaves no part. Between nodes that
/// no switch separates, or where none is known, it is 16; between nodes behind different switches 24.
#[must_use]
pub fn tier_weight(tier: Tier) -> u64 {
    match tier {
        Tier::Switch => 24,
        Tier::Node => 16,
        Tier::Part(Level::Package) => 4,
        Tier::Part(Level::NumaNode) => 3,
        Tier::Part(Level::L3Cache) => 2,
        Tier::Part(Level::L2Cache | Level::Core | Level::Cpu) => 1,
    }
}

impl Score {
    /// From the edges that are cut at each tier.
    pub(crate) fn new(edges: u64, cut: Vec<(Tier, u64)>, j_max: u64) -> Score {
        let j_sum = cut.iter().find(|(tier, _)| *tier == Tier::Node).map_or(0, |&(_, cut)| cut);
        let mut score = Score { edges, cut, j_sum, j_max, cost: 0 };
        score.cost = score.levels().map(|(tier, edges)| edges * tier.map_or(1, tier_weight)).sum();
        score
    }

    /// The edges by the largest parts that they leave, from large parts to small ones; last those that leave
    /// none.
    pub fn levels(&self) -> impl Iterator<Item = (Option<Tier>, u64)> + '_ {
        let above = [0].into_iter().chain(self.cut.iter().map(|&(_, cut)| cut));
        let tiers = self.cut.iter().map(|&(tier, cut)| (Some(tier), cut)).chain([(None, self.edges)]);
        tiers.zip(above).map(|((tier, cut), above)| (tier, cut - above))
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
    pub(crate) fn score(&mut self, cells: &[u32], tiers: &[(Tier, Sizes)], limit: u64) -> Score {
        let mut cut = Vec::with_capacity(tiers.len());
        for (tier, sizes) in tiers {
            self.label(cells, sizes);
            cut.push((*tier, self.cut()));
        }
        let mut score = Score::new(self.edges, cut, 0);
        let nodes = tiers.iter().find(|(tier, _)| *tier == Tier::Node);
        if let Some((_, nodes)) = nodes.filter(|_| score.cost <= limit) {
            if 1 < tiers.len() {
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
