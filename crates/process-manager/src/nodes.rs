//! Which rank sits on which node, as the launcher tells it.
//!
//! Launchers describe the job in a few tuples, `(vector,(first_node,node_count,ranks_per_node),…)`: the ranks
//! are dealt to the nodes of each tuple in turn, and when the tuples are used up before the ranks are,
//! dealing starts over with the first. Hydra 5 writes `node` for one rank on it, and `[…]x2` for tuples that
//! stand there twice. The map keeps the tuples, so that it stays a few bytes for a million ranks.

/// The node of every rank of a job, in a few blocks.
///
/// Some launchers claim wrong maps for hand-made distributions: treat it as a hint, and what peers say about
/// their hosts as the truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMap {
    blocks: Vec<Block>,
    ranks: u32,
    /// Ranks dealt by all blocks once; never zero.
    ranks_per_round: u64,
}

/// `nodes` nodes from number `first_node` on, with `ranks_per_node` ranks each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    first_node: u32,
    nodes: u32,
    ranks_per_node: u32,
}

impl NodeMap {
    /// All ranks on one node.
    pub fn one_node(ranks: u32) -> NodeMap {
        let block = Block { first_node: 0, nodes: 1, ranks_per_node: ranks.max(1) };
        NodeMap { blocks: vec![block], ranks, ranks_per_round: block.ranks() }
    }

    /// Reads the launchers' notation for a job of `ranks` ranks; `None` when the text is not of that form.
    pub fn parse(text: &str, ranks: u32) -> Option<NodeMap> {
        let items = text.trim().strip_prefix("(vector,")?.strip_suffix(')')?.trim();
        // What stands alone is dealt again and again in any case.
        let repeated = items.strip_prefix('[').and_then(|rest| rest.split_once("]x"));
        let once = repeated.filter(|(_, times)| times.parse::<u32>().is_ok_and(|times| 0 < times));
        let blocks = blocks_of(once.map_or(items, |(inner, _)| inner))?;
        let ranks_per_round = blocks.iter().try_fold(0u64, |sum, block| sum.checked_add(block.ranks()))?;
        if ranks_per_round == 0 { None } else { Some(NodeMap { blocks, ranks, ranks_per_round }) }
    }

    /// The node that `rank` sits on; nodes are numbered from zero as the launcher does. `None` beyond the
    /// job.
    pub fn node(&self, rank: u32) -> Option<u32> {
        if self.ranks <= rank {
            return None;
        }
        let mut left = u64::from(rank) % self.ranks_per_round;
        self.blocks.iter().find_map(|block| block.node(&mut left))
    }

    /// Ranks of the job.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The map as runs of consecutive ranks on one node, `(node, ranks)`, in rank order.
    pub fn runs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let round = self.blocks.iter().flat_map(|block| block.runs());
        round.cycle().scan(self.ranks, |left, (node, ranks)| {
            let taken = ranks.min(*left);
            *left -= taken;
            (taken != 0).then_some((node, taken))
        })
    }
}

/// Reads items: `(first_node,node_count,ranks_per_node)`, `node` for one rank, and `[items]xTIMES`.
fn blocks_of(items: &str) -> Option<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut rest = items;
    loop {
        let end = if let Some(tuple) = rest.strip_prefix('(') {
            let (tuple, behind) = tuple.split_once(')')?;
            blocks.push(Block::parse(tuple)?);
            behind
        } else if let Some(group) = rest.strip_prefix('[') {
            let (group, behind) = group.split_once("]x")?;
            let (times, behind) = behind.split_at(behind.find(',').unwrap_or(behind.len()));
            let (group, times) = (blocks_of(group)?, times.parse::<usize>().ok()?);
            if times == 0 || BLOCKS_MAX < group.len().checked_mul(times)? {
                return None;
            }
            blocks.extend(group.repeat(times));
            behind
        } else {
            let (node, behind) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
            blocks.push(Block::parse(&format!("{node},1,1"))?);
            behind
        };
        match end.strip_prefix(',') {
            _ if BLOCKS_MAX < blocks.len() => return None,
            Some(more) => rest = more,
            None => return end.is_empty().then_some(blocks),
        }
    }
}

/// More than any launcher needs to describe a machine, and little memory.
const BLOCKS_MAX: usize = 100_000;

impl Block {
    fn parse(text: &str) -> Option<Block> {
        let mut numbers = text.split(',').map(|number| number.trim().parse::<u32>().ok());
        let mut next = || numbers.next()?;
        let block = Block { first_node: next()?, nodes: next()?, ranks_per_node: next()? };
        // The last node's number must exist, and an empty block would say nothing.
        block.first_node.checked_add(block.nodes)?;
        (numbers.next().is_none() && block.ranks() != 0).then_some(block)
    }

    fn ranks(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.ranks_per_node)
    }

    /// The node of the rank that stands `left` places into this block; takes the block's ranks off when
    /// beyond.
    fn node(&self, left: &mut u64) -> Option<u32> {
        if *left < self.ranks() {
            // Less than `nodes`, since `left < nodes * ranks_per_node`.
            return Some(self.first_node + (*left / u64::from(self.ranks_per_node)) as u32);
        }
        *left -= self.ranks();
        None
    }

    fn runs(self) -> impl Iterator<Item = (u32, u32)> + Clone {
        (0..self.nodes).map(move |index| (self.first_node + index, self.ranks_per_node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes(text: &str, ranks: u32) -> Vec<u32> {
        let map = NodeMap::parse(text, ranks).unwrap();
        (0..ranks).map(|rank| map.node(rank).unwrap()).collect()
    }

    #[test]
    fn maps_seen_in_the_wild() {
        assert_eq!(nodes("(vector,(0,2,2))", 4), [0, 0, 1, 1]);
        assert_eq!(nodes("(vector,(0,1,3),(1,1,2))", 5), [0, 0, 0, 1, 1]);
        assert_eq!(nodes("(vector,(0,3,1),(0,2,1))", 5), [0, 1, 2, 0, 1], "cyclic");
        assert_eq!(nodes("(vector,(0,2,2),(0,2,2))", 8), [0, 0, 1, 1, 0, 0, 1, 1], "plane of two");
        assert_eq!(nodes("(vector,(0,2,1))", 5), [0, 1, 0, 1, 0], "the list starts again");
        assert_eq!(nodes("(vector, (0,1,4))", 4), [0; 4]);
        assert_eq!(nodes("(vector,[(0,2,1)]x2)", 4), [0, 1, 0, 1], "Hydra 5, one by one");
        assert_eq!(nodes("(vector,(0,2,2),(0,1,2),1)", 7), [0, 0, 1, 1, 0, 0, 1]);
        assert_eq!(nodes("(vector,0,(1,1,3),(2,1,2))", 6), [0, 1, 1, 1, 2, 2]);
        assert_eq!(nodes("(vector,[0,(1,1,2)]x2,2)", 7), [0, 1, 1, 0, 1, 1, 2]);
    }

    #[test]
    fn runs_tell_the_same_as_nodes() {
        let map = NodeMap::parse("(vector,(0,2,2),(2,1,3))", 9).unwrap();
        assert_eq!(map.runs().collect::<Vec<_>>(), [(0, 2), (1, 2), (2, 3), (0, 2)]);
        assert_eq!(map.node(9), None);
    }

    #[test]
    fn a_million_ranks_take_one_block() {
        let map = NodeMap::parse("(vector,(0,10000,100))", 1_000_000).unwrap();
        assert_eq!(map.blocks.len(), 1);
        assert_eq!(map.node(999_999), Some(9999));
    }

    #[test]
    fn other_texts_are_no_map() {
        let texts = ["", "(vector)", "(vector,)", "(vector,())", "(vector,(0,1))", "(vector,(0,1,2,3))"];
        let more = ["(vector,(0,0,1))", "(vector,(0,1,0))", "(vector,(-1,1,1))", "(vector,(4294967295,2,1))"];
        let hydra = [
            "(vector,[(0,1,1)])",
            "(vector,[(0,1,1)]x0)",
            "(vector,1,[(0,1,1)]x99999999)",
            "(vector,[[0]x2]x2,1)",
        ];
        let cut = ["(vector,1,)", "(vector,(0,1,1)1)", "(vector,[(0,1,1)]x2x)", "(vector,x)"];
        for text in texts.iter().chain(&more).chain(&hydra).chain(&cut) {
            assert_eq!(NodeMap::parse(text, 4), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\(vector,[0-9(),\\[\\]x]{0,40}\\)", rank in any::<u32>()) {
            if let Some(map) = NodeMap::parse(&text, u32::MAX) {
                let _ = map.node(rank);
                let _ = map.runs().take(100).count();
            }
        }

        #[test]
        fn runs_and_nodes_agree(blocks in proptest::collection::vec((0u32..9, 1u32..5, 1u32..5), 1..4), ranks in 0u32..200) {
            let tuples: Vec<String> = blocks.iter().map(|(first, nodes, per)| format!("({first},{nodes},{per})")).collect();
            let map = NodeMap::parse(&format!("(vector,{})", tuples.join(",")), ranks).unwrap();
            let by_runs: Vec<u32> = map.runs().flat_map(|(node, count)| std::iter::repeat_n(node, count as usize)).collect();
            let by_rank: Vec<u32> = (0..ranks).map(|rank| map.node(rank).unwrap()).collect();
            prop_assert_eq!(by_runs, by_rank);
        }
    }
}
