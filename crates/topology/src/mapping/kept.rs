//! Which places a grid uses that is smaller than the machine: whole nodes are left out first, from the last
//! on.

use crate::{MachineLevel, Placement, Run, Sizes};

/// The places that are used. They are numbered anew, in their order; such a number is a position.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Places side by side that are all used.
    stretches: Vec<Stretch>,
    /// The parts of the machine, with the places that are used only.
    pub(crate) levels: Vec<(MachineLevel, Sizes)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    place: u32,
    position: u32,
    length: u32,
}

impl Kept {
    /// `cells` places, of at least as many.
    pub(crate) fn new(placement: &Placement, cells: u32) -> Kept {
        let counts = used_per_node(placement.nodes(), placement.len() - cells);
        let mut stretches: Vec<Stretch> = Vec::new();
        let (mut place, mut position) = (0, 0);
        for (run, used) in counts {
            for _ in 0..run.parts {
                match stretches.last_mut() {
                    Some(last) if last.place + last.length == place => last.length += used,
                    _ => stretches.push(Stretch { place, position, length: used }),
                }
                place += run.size;
                position += used;
            }
        }
        stretches.retain(|stretch| stretch.length > 0);
        let levels = placement.levels().iter().map(|(level, sizes)| (*level, cut_down(sizes, &stretches)));
        Kept { levels: levels.collect(), stretches }
    }

    /// The place behind a position.
    pub(crate) fn place(&self, position: u32) -> u32 {
        let index = self.stretches.partition_point(|stretch| stretch.position <= position) - 1;
        let stretch = self.stretches[index];
        stretch.place + (position - stretch.position)
    }

    /// The position of a place, if it is used.
    pub(crate) fn position(&self, place: u32) -> Option<u32> {
        let index = self.stretches.partition_point(|stretch| stretch.place <= place).checked_sub(1)?;
        let stretch = self.stretches[index];
        (place - stretch.place < stretch.length).then(|| stretch.position + (place - stretch.place))
    }

    /// Whether they are the first ones.
    pub(crate) fn is_first(&self) -> bool {
        matches!(self.stretches[..], [Stretch { place: 0, .. }])
    }

    /// The nodes, with the places that are used only.
    pub(crate) fn nodes(&self) -> &Sizes {
        let nodes = self.levels.iter().find(|(level, _)| *level == MachineLevel::Node);
        &nodes.expect("a placement has nodes").1
    }
}

/// How many places of each node are used, if that many are not: of whole nodes none, as far as that goes, and
/// of the last of the others some. Runs of nodes of one size and use, in the order of places.
fn used_per_node(nodes: &Sizes, unused: u32) -> Vec<(Run, u32)> {
    let mut unused = unused;
    let mut reversed: Vec<(Run, u32)> = Vec::new();
    for &run in nodes.runs().iter().rev() {
        let out = (unused / run.size).min(run.parts);
        unused -= out * run.size;
        reversed.push((Run { parts: out, size: run.size }, 0));
        reversed.push((Run { parts: run.parts - out, size: run.size }, run.size));
    }
    let last = reversed.iter().position(|&(run, used)| run.parts > 0 && used > 0);
    if let Some(last) = last.filter(|_| unused > 0) {
        let run = reversed[last].0;
        reversed[last].0.parts -= 1;
        reversed.insert(last, (Run { parts: 1, size: run.size }, run.size - unused));
    }
    reversed.retain(|(run, _)| run.parts > 0);
    reversed.reverse();
    reversed
}

/// The parts of a level, with the places in `stretches` only.
fn cut_down(sizes: &Sizes, stretches: &[Stretch]) -> Sizes {
    if let [Stretch { place: 0, length, .. }] = *stretches {
        return shortened(sizes, length);
    }
    let mut next = 0;
    let parts = sizes.starts().zip(sizes.iter()).map(|(start, size)| {
        let (start, end) = (start as u32, start as u32 + size);
        while next < stretches.len() && stretches[next].place + stretches[next].length <= start {
            next += 1;
        }
        let shared = |stretch: &Stretch| {
            let (low, high) = (stretch.place.max(start), (stretch.place + stretch.length).min(end));
            high.saturating_sub(low)
        };
        stretches[next..].iter().take_while(|stretch| stretch.place < end).map(shared).sum::<u32>()
    });
    parts.collect()
}

/// The first `length` places.
fn shortened(sizes: &Sizes, length: u32) -> Sizes {
    let mut rest = length;
    let mut runs = Vec::new();
    for run in sizes.runs() {
        let whole = (rest / run.size).min(run.parts);
        runs.push(Run { parts: whole, size: run.size });
        rest -= whole * run.size;
        if whole < run.parts {
            runs.push(Run { parts: 1, size: rest });
            break;
        }
    }
    runs.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    fn sizes(list: &[u32]) -> Sizes {
        list.iter().copied().collect()
    }

    fn used(nodes: &[u32], cells: u32) -> (Vec<u32>, Vec<u32>) {
        let placement = Placement::blocked(sizes(nodes));
        let kept = Kept::new(&placement, cells);
        let places: Vec<u32> = (0..cells).map(|position| kept.place(position)).collect();
        let back: Vec<Option<u32>> = (0..placement.len()).map(|place| kept.position(place)).collect();
        assert_eq!(back.iter().flatten().count(), cells as usize);
        for (position, &place) in (0..).zip(&places) {
            assert_eq!(back[place as usize], Some(position));
        }
        (kept.nodes().iter().collect(), places)
    }

    #[test]
    fn whole_nodes_are_left_out_first() {
        assert_eq!(used(&[4, 4, 4], 12), (vec![4, 4, 4], (0..12).collect()));
        assert_eq!(used(&[4, 4, 4], 9), (vec![4, 4, 1], (0..9).collect()));
        assert_eq!(used(&[4, 4, 4], 3), (vec![3], (0..3).collect()));
        // The last node is larger than what is left over; the one before is not.
        assert_eq!(used(&[4, 4, 8], 12), (vec![4, 8], vec![0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15]));
        assert_eq!(used(&[4, 3, 8], 10), (vec![4, 6], vec![0, 1, 2, 3, 7, 8, 9, 10, 11, 12]));
        assert_eq!(used(&[5, 3, 3], 1), (vec![1], vec![0]));
    }

    #[test]
    fn finer_parts_follow() {
        let levels = vec![
            (MachineLevel::Node, sizes(&[4, 3, 8])),
            (MachineLevel::Part(Level::Package), sizes(&[2, 2, 1, 2, 4, 4])),
        ];
        let placement = Placement::new(Vec::new(), levels).expect("sound");
        assert_eq!(Kept::new(&placement, 10).levels[1].1, sizes(&[2, 2, 4, 2]));
        assert_eq!(Kept::new(&placement, 15).levels[1].1, sizes(&[2, 2, 1, 2, 4, 4]));
    }
}
