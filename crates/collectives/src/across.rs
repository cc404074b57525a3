//! Collective operations over two groups (MPI 5.0 §6.2.3): what one group gives, the other gets.
//!
//! The ranks of both groups are numbered together, those of a group one behind the other. What happens within a group is
//! the schedule of that operation, its ranks shifted to where the group stands.

use messaging::Rank;

use crate::blocks::Block;
use crate::schedule::{Buffer, Schedule, Span};
use crate::shape::{Operator, Shape};
use crate::{bcast, reduce, scatterv};

/// The two groups, as a member of one of them sees them.
#[derive(Clone, Copy, Debug)]
pub struct Across {
    /// This rank's place in its own group.
    pub shape: Shape,
    /// The number of the own group's first rank.
    pub local_first: u32,
    /// The number of the other group's first rank.
    pub remote_first: u32,
    /// How many ranks the other group has.
    pub remote_size: u32,
}

/// Who gives, or gets, in an operation with a root.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Root {
    /// This rank (`MPI_ROOT`).
    Here,
    /// Another rank of the own group (`MPI_PROC_NULL`): this rank has no part in it.
    Elsewhere,
    /// That rank of the other group.
    Remote(Rank),
}

impl Across {
    fn remote(&self, rank: Rank) -> Rank {
        Rank(self.remote_first + rank.0)
    }

    /// All ranks of the other group, beginning with another one at each rank.
    fn remotes(&self) -> impl Iterator<Item = Rank> {
        let (here, size) = (self.shape.rank().0, self.remote_size);
        (0..size).map(move |step| Rank((here + step) % size))
    }

    fn is_leader(&self) -> bool {
        self.shape.rank() == Rank(0)
    }

    /// The root's output becomes the other group's.
    #[must_use]
    pub fn bcast(&self, root: Root, bytes: usize) -> Schedule {
        let mut schedule = Schedule::new("bcast to the other group's first rank, and on among them");
        match root {
            Root::Here => schedule.send(self.remote(Rank(0)), Span::output(bytes)),
            Root::Elsewhere => {}
            Root::Remote(root) => {
                if self.is_leader() {
                    schedule.receive(self.remote(root), Span::output(bytes));
                }
                let among = bcast(&self.shape, Rank(0), bytes).shifted(self.local_first);
                schedule.append(among);
            }
        }
        schedule
    }

    /// The other group's input, `bytes` of this rank, becomes the root's output, whose `blocks` are in their order.
    #[must_use]
    pub fn gatherv(&self, root: Root, bytes: usize, blocks: &[Block]) -> Schedule {
        let mut schedule = Schedule::new("gather from the other group, rank by rank");
        match root {
            Root::Here => self.receive_all(&mut schedule, blocks),
            Root::Elsewhere => {}
            Root::Remote(root) => schedule.send(self.remote(root), Span::input(bytes)),
        }
        schedule
    }

    /// The root's `blocks` of its input become the other group's output, `bytes` of this rank.
    #[must_use]
    pub fn scatterv(&self, root: Root, blocks: &[Block], bytes: usize) -> Schedule {
        let mut schedule = Schedule::new("scatter to the other group, rank by rank");
        match root {
            Root::Here => self.send_all(&mut schedule, |rank| blocks[rank.0 as usize].of(Buffer::Input)),
            Root::Elsewhere => {}
            Root::Remote(root) => schedule.receive(self.remote(root), Span::output(bytes)),
        }
        schedule
    }

    /// This rank's input goes to all of the other group; theirs become the `blocks` of the output.
    #[must_use]
    pub fn allgatherv(&self, bytes: usize, blocks: &[Block]) -> Schedule {
        let mut schedule = Schedule::new("allgather, each to all of the other group");
        self.receive_all(&mut schedule, blocks);
        self.send_all(&mut schedule, |_| Span::input(bytes));
        schedule
    }

    /// A block of the input to each of the other group, and one of theirs into the output.
    #[must_use]
    pub fn alltoallv(&self, sends: &[Block], receives: &[Block]) -> Schedule {
        let mut schedule = Schedule::new("alltoall, each to all of the other group");
        self.receive_all(&mut schedule, receives);
        self.send_all(&mut schedule, |rank| sends[rank.0 as usize].of(Buffer::Input));
        schedule
    }

    /// The other group's inputs are combined into the root's output.
    #[must_use]
    pub fn reduce(&self, root: Root, count: usize, operator: Operator) -> Schedule {
        let mut schedule = Schedule::new("reduce to the first rank, and to the other group's root");
        match root {
            Root::Here => schedule.receive(self.remote(Rank(0)), Span::output(count * operator.element_bytes)),
            Root::Elsewhere => {}
            Root::Remote(root) => {
                let sum = self.reduce_here(&mut schedule, count, operator);
                if self.is_leader() {
                    schedule.send(self.remote(root), sum);
                }
            }
        }
        schedule
    }

    /// The other group's inputs are combined into everybody's output.
    #[must_use]
    pub fn allreduce(&self, count: usize, operator: Operator) -> Schedule {
        let mut schedule = Schedule::new("reduce to the first ranks, which change their results, and bcast");
        let bytes = count * operator.element_bytes;
        let sum = self.reduce_here(&mut schedule, count, operator);
        if self.is_leader() {
            schedule.receive(self.remote(Rank(0)), Span::output(bytes));
            schedule.send(self.remote(Rank(0)), sum);
        }
        schedule.append(bcast(&self.shape, Rank(0), bytes).shifted(self.local_first));
        schedule
    }

    /// The other group's inputs are combined, and each rank of this one gets as many elements of the result as
    /// `counts` says; what both groups' counts come to is the same.
    #[must_use]
    pub fn reduce_scatter(&self, counts: &[usize], operator: Operator) -> Schedule {
        let mut schedule = Schedule::new("reduce to the first ranks, which change their results, and scatter");
        let total = counts.iter().sum::<usize>();
        let sum = self.reduce_here(&mut schedule, total, operator);
        let theirs = schedule.scratch(if self.is_leader() { sum.bytes } else { 0 });
        if self.is_leader() {
            schedule.receive(self.remote(Rank(0)), theirs);
            schedule.send(self.remote(Rank(0)), sum);
        }
        let blocks = crate::blocks::packed(counts.iter().map(|count| count * operator.element_bytes));
        let mine = blocks[self.shape.rank().0 as usize].bytes;
        let among = scatterv(&self.shape, Rank(0), if self.is_leader() { &blocks } else { &[] }, mine, false);
        schedule.append_redirected(among.shifted(self.local_first), Buffer::Input, theirs);
        schedule
    }

    /// Combines the own group's inputs; the result stands at its first rank where the answer says.
    fn reduce_here(&self, schedule: &mut Schedule, count: usize, operator: Operator) -> Span {
        let sum = schedule.scratch(if self.is_leader() { count * operator.element_bytes } else { 0 });
        let among = reduce(&self.shape, Rank(0), count, operator, false);
        schedule.append_redirected(among.shifted(self.local_first), Buffer::Output, sum);
        schedule.wait();
        sum
    }

    fn receive_all(&self, schedule: &mut Schedule, blocks: &[Block]) {
        for rank in self.remotes() {
            schedule.receive(self.remote(rank), blocks[rank.0 as usize].of(Buffer::Output));
        }
    }

    fn send_all(&self, schedule: &mut Schedule, span: impl Fn(Rank) -> Span) {
        for rank in self.remotes() {
            schedule.send(self.remote(rank), span(rank));
        }
    }
}
