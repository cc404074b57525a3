//! Collective operations over two groups (MPI 5.0 §6.2.3): what one group gives, the other gets.
//!
//! The ranks of both groups are numbered together, those of a group one behind the other. What happens within
//! a group is the schedule of that operation, its ranks shifted to where the group stands.

use messaging::Rank;

use crate::blocks::Block;
use crate::schedule::{Buffer, Schedule, Span};
use crate::shape::{Operator, Shape};
use crate::{barrier, bcast, reduce, scatterv};

/// A collective operation over two groups, as a value. How much is moved stands in the blocks of its
/// [schedule](Crossing::schedule), but where every rank must know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Crossing {
    /// Nobody leaves before all of both groups have come.
    Barrier,
    /// The root's output becomes the other group's.
    Bcast {
        /// Who has the data.
        root: Root,
        /// How much.
        bytes: usize,
    },
    /// The inputs of the other group become the blocks of the root's output.
    Gather(Root),
    /// The blocks of the root's input become the outputs of the other group.
    Scatter(Root),
    /// The inputs of each group become the blocks of everybody's output in the other.
    Allgather,
    /// A block of the input for each of the other group, and one of theirs for a block of the output.
    Alltoall,
    /// The inputs of the other group are combined into the root's output.
    Reduce {
        /// Who gets the result.
        root: Root,
        /// Elements of each rank.
        count: usize,
        /// By what they are combined.
        operator: Operator,
    },
    /// The inputs of each group are combined into everybody's output in the other.
    Allreduce {
        /// Elements of each rank.
        count: usize,
        /// By what they are combined.
        operator: Operator,
    },
    /// The inputs of each group are combined, and each rank of the other gets a part of the result.
    ReduceScatter {
        /// Elements of the result for each rank of the own group; those of both groups come to the same sum.
        counts: Vec<usize>,
        /// By what they are combined.
        operator: Operator,
    },
}

impl Crossing {
    /// The rank of the other group that it begins or ends at.
    #[must_use]
    pub fn remote_root(&self) -> Option<Rank> {
        match *self {
            Crossing::Bcast { root: Root::Remote(rank), .. }
            | Crossing::Gather(Root::Remote(rank))
            | Crossing::Scatter(Root::Remote(rank))
            | Crossing::Reduce { root: Root::Remote(rank), .. } => Some(rank),
            _ => None,
        }
    }

    /// The rank's part in it, whose input and output have these blocks: one for each rank of the other group
    /// where it has one for each, else one or none.
    #[must_use]
    pub fn schedule(&self, across: &Across, input: &[Block], output: &[Block]) -> Schedule {
        let bytes = |blocks: &[Block]| blocks.iter().map(|block| block.bytes).sum();
        match self {
            Crossing::Barrier => across.barrier(),
            Crossing::Bcast { root, bytes } => across.bcast(*root, *bytes),
            Crossing::Gather(root) => across.gatherv(*root, bytes(input), output),
            Crossing::Scatter(root) => across.scatterv(*root, input, bytes(output)),
            Crossing::Allgather => across.allgatherv(bytes(input), output),
            Crossing::Alltoall => across.alltoallv(input, output),
            Crossing::Reduce { root, count, operator } => across.reduce(*root, *count, *operator),
            Crossing::Allreduce { count, operator } => across.allreduce(*count, *operator),
            Crossing::ReduceScatter { counts, operator } => across.reduce_scatter(counts, *operator),
        }
    }
}

/// The two groups, as a member of one of them sees them.
#[derive(Clone, Debug)]
pub struct Across {
    /// This rank's place in its own group.
    pub shape: Shape,
    /// The number of the own group's first rank.
    pub local_first: u32,
    /// The number of the other group's first rank.
    pub remote_first: u32,
    /// How many ranks the other group has.
    pub remote_size: u32,
    /// The ranks that live, where some are blank: then the numbers above count the living alone, and `shape`
    /// is a place among them; `remote_size`, roots and blocks are of all.
    pub living: Option<LivingAcross>,
}

/// The ranks that live in two groups of which some ranks are blank, in ascending order.
#[derive(Clone, Debug)]
pub struct LivingAcross {
    /// In the own group.
    pub local: Vec<Rank>,
    /// In the other one; at least one.
    pub remote: Vec<Rank>,
}

/// Which rank sends, or receives, in an operation with a root.
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
    /// # Panics
    /// Where the rank is blank: who asks for an operation has seen to it that its root lives.
    fn remote(&self, rank: Rank) -> Rank {
        let number =
            self.living.as_ref().map_or(rank, |living| crate::masked::number_of(rank, &living.remote));
        Rank(self.remote_first + number.0)
    }

    /// The number of the rank of the other group that its operations go by.
    fn remote_leader(&self) -> Rank {
        Rank(self.remote_first)
    }

    /// How many ranks of the other group live.
    fn remote_count(&self) -> u32 {
        self.living.as_ref().map_or(self.remote_size, |living| living.remote.len() as u32)
    }

    /// All ranks of the other group that live, beginning with another one at each rank.
    fn remotes(&self) -> impl Iterator<Item = Rank> {
        let (here, count) = (self.shape.rank().0, self.remote_count());
        (0..count).map(move |step| {
            let at = (here + step) % count;
            self.living.as_ref().map_or(Rank(at), |living| living.remote[at as usize])
        })
    }

    fn is_leader(&self) -> bool {
        self.shape.rank() == Rank(0)
    }

    fn barrier(&self) -> Schedule {
        let Across { ref shape, local_first, .. } = *self;
        let all = shape.size() + self.remote_count();
        barrier(&Shape::new(Rank(local_first + shape.rank().0), all).on(shape.cores()))
    }

    fn bcast(&self, root: Root, bytes: usize) -> Schedule {
        let mut schedule = Schedule::new("bcast to the other group's first rank, and on among them");
        match root {
            Root::Here => schedule.send(self.remote_leader(), Span::output(bytes)),
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

    fn gatherv(&self, root: Root, bytes: usize, blocks: &[Block]) -> Schedule {
        let mut schedule = Schedule::new("gather from the other group, rank by rank");
        match root {
            Root::Here => self.receive_all(&mut schedule, blocks),
            Root::Elsewhere => {}
            Root::Remote(root) => schedule.send(self.remote(root), Span::input(bytes)),
        }
        schedule
    }

    fn scatterv(&self, root: Root, blocks: &[Block], bytes: usize) -> Schedule {
        let mut schedule = Schedule::new("scatter to the other group, rank by rank");
        match root {
            Root::Here => self.send_all(&mut schedule, |rank| blocks[rank.0 as usize].of(Buffer::Input)),
            Root::Elsewhere => {}
            Root::Remote(root) => schedule.receive(self.remote(root), Span::output(bytes)),
        }
        schedule
    }

    fn allgatherv(&self, bytes: usize, blocks: &[Block]) -> Schedule {
        let mut schedule = Schedule::new("allgather, each to all of the other group");
        self.receive_all(&mut schedule, blocks);
        self.send_all(&mut schedule, |_| Span::input(bytes));
        schedule
    }

    fn alltoallv(&self, sends: &[Block], receives: &[Block]) -> Schedule {
        let mut schedule = Schedule::new("alltoall, each to all of the other group");
        self.receive_all(&mut schedule, receives);
        self.send_all(&mut schedule, |rank| sends[rank.0 as usize].of(Buffer::Input));
        schedule
    }

    fn reduce(&self, root: Root, count: usize, operator: Operator) -> Schedule {
        let mut schedule = Schedule::new("reduce to the first rank, and to the other group's root");
        match root {
            Root::Here => {
                schedule.receive(self.remote_leader(), Span::output(count * operator.element_bytes));
            }
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

    fn allreduce(&self, count: usize, operator: Operator) -> Schedule {
        let mut schedule = Schedule::new("reduce to the first ranks, which change their results, and bcast");
        let bytes = count * operator.element_bytes;
        let sum = self.reduce_here(&mut schedule, count, operator);
        if self.is_leader() {
            schedule.receive(self.remote_leader(), Span::output(bytes));
            schedule.send(self.remote_leader(), sum);
        }
        schedule.append(bcast(&self.shape, Rank(0), bytes).shifted(self.local_first));
        schedule
    }

    fn reduce_scatter(&self, counts: &[usize], operator: Operator) -> Schedule {
        let mut schedule =
            Schedule::new("reduce to the first ranks, which change their results, and scatter");
        let total = counts.iter().sum::<usize>();
        let sum = self.reduce_here(&mut schedule, total, operator);
        let theirs = schedule.scratch(if self.is_leader() { sum.bytes } else { 0 });
        if self.is_leader() {
            schedule.receive(self.remote_leader(), theirs);
            schedule.send(self.remote_leader(), sum);
        }
        let mut blocks = crate::blocks::packed(counts.iter().map(|count| count * operator.element_bytes));
        if let Some(living) = &self.living {
            // Nobody gets the part of a blank rank, which has its room in the result all the same.
            blocks = living.local.iter().map(|rank| blocks[rank.0 as usize]).collect();
        }
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
