//! Sums and barriers of many members that have cores of their own: up a tree, and down by one slot that all
//! read.
//!
//! Where every member reads every slot, n members move n² cache lines, and each waits for n - 1 lines of its
//! own. In the tree a member reads at most three slots for each factor of four members, publishes what comes
//! of them, and then reads the slot of the root: 3 n lines in all. Every member publishes one slot, under one
//! sequence number, as in every operation of one round.
//!
//! The tree combines in pairs of pairs, in the order of [`combining_order`](crate::combining_order), and so
//! gives the same bits.

use fabric::slots::{DEPTH, Slots};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

use super::plan::{ROOM_BYTES, SegmentPlan, Use};
use super::{Combine, Result, SegmentMember, SegmentOperation};
use crate::memory::reading;
use crate::shape::{Core, Part};

/// From this number of members on, each with a core of its own, barriers and sums that fit slots go up a
/// tree. Reads of lines of several cores overlap, about three of them in the time of one, but a tree has to
/// wait for one level after the other: up to eight members one look at all takes less.
pub(super) const TREE_FROM: u32 = 9;

/// One member's part in the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct SumTree {
    core: Core,
    /// This member's number among those that combine; `None` for an extra rank, whose partner combines for
    /// it.
    number: Option<u32>,
    /// The extra rank for which this member combines.
    extra: Option<Rank>,
}

/// The numbers that one member combines at one level: its own, and one or three others'.
type Children = [Option<Rank>; 3];

impl SumTree {
    pub(super) fn of(here: Rank, size: u32) -> SumTree {
        let core = Core::new(size);
        match core.part(here) {
            Part::Extra(_) => SumTree { core, number: None, extra: None },
            Part::Member(number, extra) => SumTree { core, number: Some(number), extra },
        }
    }

    /// The member that combines everything.
    pub(super) fn root(self) -> Rank {
        self.core.rank(0)
    }

    /// The extra rank whose contribution is put before this member's own.
    pub(super) fn extra(self) -> Option<Rank> {
        self.extra
    }

    /// Whose partial results this member combines, level by level.
    pub(super) fn levels(self) -> impl Iterator<Item = Children> {
        let (core, mut width) = (self.core, 1);
        std::iter::from_fn(move || {
            let number = self.number?;
            let arity = match core.size / width {
                0 | 1 => return None,
                2 | 3 => 2,
                _ => 4,
            };
            if !number.is_multiple_of(arity * width) {
                return None;
            }
            let child = |at: u32| (at < arity).then(|| core.rank(number + at * width));
            let children = [child(1), child(2), child(3)];
            width *= arity;
            Some(children)
        })
    }
}

impl<M: SegmentMember> SegmentOperation<'_, M> {
    /// Does a barrier or a sum for all up the tree.
    pub(super) fn carry_in_tree(
        &mut self,
        plan: &SegmentPlan<'_>,
        input: Payload<'_>,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        let tree = SumTree::of(plan.here, plan.size);
        let own = if plan.is_loaded { reading(output) } else { input }.part(0, plan.longest_bytes());
        let room = self.turn.room.take().unwrap_or_else(|| Heap::new(ROOM_BYTES));
        let done = self.carry_up(tree, plan, own, &room, output, combining);
        self.turn.room = Some(room);
        done
    }

    fn carry_up(
        &mut self,
        tree: SumTree,
        plan: &SegmentPlan<'_>,
        own: Payload<'_>,
        room: &Heap,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        let bytes = own.bytes();
        let part =
            |at: usize| (room.memory().part(at * bytes, bytes), room.payload().part(at * bytes, bytes));
        let [(mut result, of_result), (mut lower, of_lower), (mut higher, of_higher)] = [0, 1, 2].map(part);
        let (sums, mut so_far) = (matches!(plan.then, Use::Combined(_)), own);
        self.has_yet_to_write = true;
        if let Some(extra) = tree.extra() {
            self.hear_all(&[Some(extra)], bytes)?;
            if sums {
                self.with(extra, bytes, |theirs| combining.combine(theirs, Some(own), &mut result));
                so_far = of_result;
            }
        }
        for children in tree.levels() {
            self.hear_all(&children, bytes)?;
            let [Some(first), second, third] = children else { continue };
            if !sums {
                continue;
            }
            self.with(first, bytes, |theirs| combining.combine(so_far, Some(theirs), &mut lower));
            if let (Some(second), Some(third)) = (second, third) {
                self.with(second, bytes, |left| {
                    self.with(third, bytes, |right| combining.combine(left, Some(right), &mut higher));
                });
                combining.combine(of_lower, Some(of_higher), &mut result);
            } else {
                result.write_at(0, of_lower);
            }
            so_far = of_result;
        }
        let is_root = plan.here == tree.root();
        self.await_room(DEPTH)?;
        self.has_yet_to_write = false;
        self.segment().put(self.number, [so_far, Payload::EMPTY]);
        self.segment().wake();
        if is_root {
            self.turn.credit.heard_all();
            output.write_at(0, so_far);
            return Ok(());
        }
        self.hear_all(&[Some(tree.root())], bytes)?;
        // The root has heard, by way of its children, of every member.
        self.turn.credit.heard_all();
        self.with(tree.root(), bytes, |data| _ = output.write_at(0, data));
        Ok(())
    }

    /// Waits for the slots of those members, of so many bytes each.
    fn hear_all(&mut self, from: &[Option<Rank>], bytes: usize) -> Result<()> {
        let owes = |rank: Rank| from.contains(&Some(rank)).then_some(bytes);
        from.iter().flatten().try_for_each(|&from| self.hear(from, bytes, &owes))
    }

    /// Lends what the slot of a member holds.
    fn with(&self, from: Rank, bytes: usize, reader: impl FnOnce(Payload<'_>)) {
        self.segment().read_either(from.0, self.number, bytes, reader);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::combining_order;

    /// What stands for all members, with a bracket around each pair that is combined.
    fn by_order(size: u32) -> String {
        let mut standing: Vec<String> = (0..size).map(|rank| rank.to_string()).collect();
        for (lower, higher) in combining_order(size) {
            let [lower, higher] = [lower, higher].map(|rank| rank.0 as usize);
            standing[higher] = format!("({} {})", standing[lower], standing[higher]);
        }
        standing.pop().expect("there is a member")
    }

    fn by_tree(here: Rank, size: u32) -> String {
        let (tree, mut so_far) = (SumTree::of(here, size), here.0.to_string());
        if let Some(extra) = tree.extra() {
            so_far = format!("({} {so_far})", by_tree(extra, size));
        }
        for children in tree.levels() {
            let of = |child: Option<Rank>| child.map(|child| by_tree(child, size));
            so_far = match children.map(of) {
                [Some(first), Some(second), Some(third)] => {
                    format!("(({so_far} {first}) ({second} {third}))")
                }
                [Some(first), ..] => format!("({so_far} {first})"),
                [None, ..] => unreachable!("a level has a child"),
            };
        }
        so_far
    }

    #[test]
    fn the_tree_combines_in_the_order_of_all_others() {
        for size in 2..=70 {
            let root = SumTree::of(Rank(0), size).root();
            assert_eq!(by_tree(root, size), by_order(size), "{size} members");
        }
    }

    #[test]
    fn every_member_but_the_root_has_one_parent() {
        for size in 2..=70 {
            let mut parents = vec![0; size as usize];
            for tree in (0..size).map(|here| SumTree::of(Rank(here), size)) {
                let children = tree.levels().flatten().flatten().chain(tree.extra());
                children.for_each(|child| parents[child.0 as usize] += 1);
            }
            let root = SumTree::of(Rank(0), size).root();
            let right = |rank: u32| u32::from(Rank(rank) != root);
            assert!((0..size).all(|rank| parents[rank as usize] == right(rank)), "{size}: {parents:?}");
        }
    }
}
