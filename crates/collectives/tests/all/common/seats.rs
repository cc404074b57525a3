//! Where ranks sit, at random.

use std::sync::Arc;

use collectives::{Hierarchy, HierarchyLevel, Run};

/// Who sits where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Seats {
    /// Nobody knows.
    #[default]
    Unknown,
    /// Nodes of random sizes hold consecutive ranks; so do their parts.
    Straight(u64),
    /// Ranks are dealt to the places at random.
    Dealt(u64),
    /// Equal nodes, as far as it comes out even, are dealt one rank in turn.
    Cyclic(u32),
}

impl Seats {
    pub fn hierarchy(self, size: u32) -> Option<Arc<Hierarchy>> {
        let hierarchy = match self {
            Seats::Unknown => return None,
            Seats::Straight(seed) => random(size, seed, &[]),
            Seats::Dealt(seed) => random(size, seed, &shuffled(size, seed)),
            Seats::Cyclic(nodes) => cyclic(size, nodes),
        };
        Some(Arc::new(hierarchy.expect("sound")))
    }
}

fn random(size: u32, seed: u64, ranks: &[u32]) -> Option<Hierarchy> {
    let mut numbers = Numbers(seed);
    let widest = 1 + numbers.below(size);
    let nodes: Vec<u32> = cut(size, widest, &mut numbers);
    let parts: Vec<u32> = nodes.iter().flat_map(|&node| cut(node, node.div_ceil(2), &mut numbers)).collect();
    let caches: Vec<u32> = parts.iter().flat_map(|&part| cut(part, 3, &mut numbers)).collect();
    let kinds = [
        (HierarchyLevel::Node, runs(&nodes)),
        (HierarchyLevel::Package, runs(&parts)),
        (HierarchyLevel::Cache, runs(&caches)),
    ];
    Hierarchy::new(ranks, &kinds[..1 + numbers.below(3) as usize])
}

fn cyclic(size: u32, nodes: u32) -> Option<Hierarchy> {
    let of_node = |node: u32| (node..size).step_by(nodes as usize);
    let ranks: Vec<u32> = (0..nodes).flat_map(of_node).collect();
    let sizes: Vec<u32> = (0..nodes).map(|node| of_node(node).count() as u32).collect();
    Hierarchy::new(&ranks, &[(HierarchyLevel::Node, runs(&sizes))])
}

fn runs(sizes: &[u32]) -> Vec<Run> {
    sizes.iter().map(|&size| Run { groups: 1, size }).collect()
}

/// Chunks of random sizes.
fn cut(mut whole: u32, widest: u32, numbers: &mut Numbers) -> Vec<u32> {
    let mut chunks = Vec::new();
    while whole > 0 {
        let chunk = (1 + numbers.below(widest)).min(whole);
        chunks.push(chunk);
        whole -= chunk;
    }
    chunks
}

fn shuffled(size: u32, seed: u64) -> Vec<u32> {
    let mut numbers = Numbers(!seed);
    let mut ranks: Vec<u32> = (0..size).collect();
    for end in (1..size).rev() {
        ranks.swap(end as usize, numbers.below(end + 1) as usize);
    }
    ranks
}

/// Random numbers that are the same each time.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) as u32 % bound.max(1)
    }
}
