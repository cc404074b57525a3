//! Collective operations until they are over: what a rank's place in them is, and how their schedules are
//! carried out.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use collectives::node::Combine;
use collectives::{Advance, Buffers, Cause, Collective, Execution, Failed, Listed, Schedule, Shape};
use fabric::{Payload, Peer, UserMemory};
use job::error::{Class, Error, Result};
use messaging::Rank;

use super::combining::Combining;
use super::segment::Watch;
use super::{Communicator, TAGS, nodes};
use crate::process::Process;
use crate::recent::RecentKind;

impl Communicator {
    /// This rank's place in collective operations.
    #[inline]
    #[must_use]
    pub fn shape(&self) -> Shape {
        let process = &self.inner.process;
        let shape = Shape::new(self.rank(), self.size()).on(process.cores()).guided_by(process.guide());
        if process.nodes().is_some() || process.parts().is_some() && self.is_on_one_node() {
            return self.nested(shape);
        }
        shape.over_nodes(if self.is_on_one_node() { 1 } else { self.size() })
    }

    #[cold]
    fn nested(&self, shape: Shape) -> Shape {
        let process = &self.inner.process;
        let find = || nodes::hierarchy(self.group(), process.nodes(), process.parts());
        let counting = || Some(Arc::new(find()?.counting(&process.guide().costs, process.cores())));
        match self.inner.hierarchy.get_or_init(counting) {
            None => shape.over_nodes(if self.is_on_one_node() { 1 } else { self.size() }),
            Some(hierarchy) => shape.nested(hierarchy.clone()),
        }
    }

    /// Whether all members share memory; the same at all of them.
    pub(super) fn is_on_one_node(&self) -> bool {
        *self.inner.on_one_node.get_or_init(|| {
            let node = self.inner.process.node();
            node.size() == self.inner.process.peers() || self.group().iter().all(|peer| node.contains(peer))
        })
    }

    /// Tells once, at the first process of the job, of an algorithm that was asked for and does not serve.
    #[inline]
    pub(super) fn tell_of_passed_over(&self) {
        if self.inner.process.guide().is_forced() {
            self.tell_of_each_passed_over();
        }
    }

    #[cold]
    fn tell_of_each_passed_over(&self) {
        let process = &self.inner.process;
        while let Some(operation) = process.guide().take_notice() {
            if process.here() == Peer(0) {
                let forced = &process.guide().forced;
                crate::tell(format_args!(
                    "weft: WEFT_COLLECTIVE={forced}: that algorithm of {operation} does not serve on {}; the best one that \
                     does is taken",
                    self.label()
                ));
            }
        }
    }

    /// Does a collective operation. Few bytes go through the node's shared memory, as many more of two ranks;
    /// by messages one that was done lately costs no allocation.
    ///
    /// # Errors
    /// When a partner is lost or sends what does not fit; [`Class::Communicator`] for anything but a barrier
    /// over two groups.
    pub fn perform(
        &self,
        collective: Collective,
        input: Payload<'static>,
        mut output: UserMemory,
        combining: Combining<'_>,
    ) -> Result<()> {
        if self.is_inter() {
            return self.perform_across(collective);
        }
        if let Some(recovered) = self.recovered() {
            let masked = collective.masked(&recovered.ranks);
            return self.perform_masked(&recovered, masked, input, output, combining);
        }
        if let Some(done) = self.perform_by_segment(collective, input, &mut output, combining) {
            return self.counted(done);
        }
        let is = |kept: &RecentKind| matches!(kept, RecentKind::All(kept) if *kept == collective);
        let new = || (RecentKind::All(collective), collective.schedule(&self.shape()));
        let done = self.repeat(is, new, Buffers { input, output }, combining);
        self.counted(done)
    }

    /// Does a collective operation with blocks that differ in length. One that was done lately with the same
    /// blocks costs no allocation. Not over two groups.
    ///
    /// # Errors
    /// When a partner is lost or sends what does not fit.
    pub fn perform_uneven(
        &self,
        listed: Listed<'_>,
        input: Payload<'static>,
        output: UserMemory,
        combining: Combining<'_>,
    ) -> Result<()> {
        if let Some(recovered) = self.recovered() {
            let masked = listed.masked(&recovered.ranks, self.size());
            return self.perform_masked(&recovered, masked, input, output, combining);
        }
        let mut output = output;
        if let Some(done) = self.perform_uneven_by_segment(listed, input, &mut output, combining) {
            return self.counted(done);
        }
        let new = || (RecentKind::listed(listed), listed.schedule(&self.shape()));
        let done = self.repeat(|kept| kept.is_listed(listed), new, Buffers { input, output }, combining);
        self.counted(done)
    }

    /// Does an operation that may have been done lately, or a part of one, without counting it: `is` finds
    /// it, and `new` describes it.
    pub(super) fn repeat(
        &self,
        is: impl Fn(&RecentKind) -> bool,
        new: impl FnOnce() -> (RecentKind, Schedule),
        buffers: Buffers,
        combining: Combining<'_>,
    ) -> Result<()> {
        let kept = self.inner.recent.hold().take(is);
        let (kind, mut execution) = match kept {
            Some((kind, mut execution)) => {
                execution.again(buffers, self.next_tag());
                execution.wait_for(true);
                (kind, execution)
            }
            None => {
                let (kind, schedule) = new();
                (kind, Box::new(self.execution(schedule, buffers)))
            }
        };
        self.carry_out(&mut execution, combining)?;
        self.inner.recent.hold().keep(kind, execution);
        Ok(())
    }

    /// Runs a collective schedule to its end; over two groups, one that numbers the ranks of both
    /// ([`Communicator::two_groups`]).
    ///
    /// # Errors
    /// When a partner is lost or sends what does not fit.
    pub fn run(
        &self,
        schedule: Schedule,
        input: Payload<'static>,
        output: UserMemory,
        combining: Combining<'_>,
    ) -> Result<()> {
        let meeting = self.meeting();
        let done = meeting.carry_out(&mut meeting.execution(schedule, Buffers { input, output }), combining);
        meeting.counted(done)
    }

    pub(super) fn carry_out(&self, execution: &mut Execution, combining: Combining<'_>) -> Result<()> {
        let is_atomic = self.is_atomic();
        if is_atomic && self.is_given_up() {
            return self.ended_among_few(Ok(()));
        }
        let ended = finish(self, execution, combining).map_err(|failed| self.told(&failed));
        if is_atomic { self.conclude_with_all(ended) } else { ended }
    }

    /// One more is completed, if it is.
    #[inline]
    pub(super) fn counted(&self, ended: Result<()>) -> Result<()> {
        if ended.is_ok() {
            self.inner.completed.one();
        }
        ended
    }

    /// The error of an operation among these members.
    #[cold]
    pub(super) fn told(&self, failed: &Failed) -> Error {
        let failed = Failed { with: self.named(failed.with), ..failed.clone() };
        collective_failed(&failed).during(self.place())
    }

    /// A collective schedule that has not moved yet.
    pub(super) fn execution(&self, schedule: Schedule, buffers: Buffers) -> Execution {
        let (context, rank) = (self.collective_context(), self.inner.rank);
        self.tell_of_passed_over();
        Execution::new(schedule, buffers, context, self.next_tag(), rank).waited_for()
    }

    /// The tag of the next blocking operation. There is one at a time (MPI 5.0 §6.14), and what two of them
    /// send between the same ranks is received in the order in which it is sent; so tags may come again, and
    /// the queues behind them in the engine with them. Several are used in turn, so that what is left over
    /// from an operation that failed is not taken for a part of the next one.
    #[inline]
    pub(super) fn next_tag(&self) -> i32 {
        let number = self.inner.sequence.fetch_add(1, Ordering::Relaxed);
        self.tell_segment();
        (number % TAGS) as i32
    }
}

/// Runs a collective operation to its end.
#[inline]
fn finish(
    of: &Communicator,
    execution: &mut Execution,
    combining: Combining<'_>,
) -> std::result::Result<(), Failed> {
    let (process, group) = (&of.inner.process, &of.inner.group);
    let mut unwound = Unwound { of, execution, is_combining: false };
    let place = |rank: Rank| group.peer(rank).expect("schedules name ranks of the communicator");
    let mut watch = None;
    loop {
        let end = process.until(|engine| {
            let Unwound { execution, is_combining, .. } = &mut unwound;
            let mut combine = |input: Payload<'_>, inout: &mut UserMemory| {
                *is_combining = true;
                combining.combine(input, None, inout);
                *is_combining = false;
            };
            let advance = match combining.program() {
                None => Some(execution.advance(engine, &place, &mut combine)),
                Some(_) => execution.advance_to_combine(engine, &place),
            };
            if let Some(Advance::Pending) = advance {
                watch.get_or_insert_with(|| of.watch()).look(of, execution, engine);
                return None;
            }
            Some(advance)
        });
        let Some(end) = end else {
            unwound.combine(combining);
            continue;
        };
        match end {
            Advance::Failed(failed) => return Err(give_up(of, unwound.execution, watch, failed)),
            Advance::Done | Advance::Pending => {
                settle(process, unwound.execution);
                return Ok(());
            }
        }
    }
}

/// Ends an operation that has failed: tells the other members, and waits until nothing uses its buffers.
#[cold]
fn give_up(of: &Communicator, execution: &mut Execution, watch: Option<Watch>, failed: Failed) -> Failed {
    let mut watch = watch.unwrap_or_else(|| of.watch());
    watch.tell_of(of, &failed);
    of.inner.process.until(|engine| {
        watch.look_back(of, execution);
        execution.abandon(engine);
        execution.is_settled().then_some(failed.clone())
    })
}

/// An operation whose combining function panics is brought to its end all the same, with nothing combined any
/// more: the other members wait for its messages, and its buffers are in use until then.
struct Unwound<'a> {
    of: &'a Communicator,
    execution: &'a mut Execution,
    /// The function has been called, and has not returned.
    is_combining: bool,
}

impl Drop for Unwound<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_combining {
            self.go_on();
        }
    }
}

impl Unwound<'_> {
    /// Combines what the execution has come to, while nothing is held.
    #[inline(never)]
    fn combine(&mut self, combining: Combining<'_>) {
        if let Some((left, mut out)) = self.execution.take_operands() {
            self.is_combining = true;
            combining.combine(left, None, &mut out);
            self.is_combining = false;
        }
    }

    #[cold]
    fn go_on(&mut self) {
        self.is_combining = false;
        // Its members know nothing of what happened here; whoever panics tells of it.
        let _ = finish(self.of, self.execution, Combining::Nothing);
    }
}

/// The buffers are in use until what was begun is over.
#[inline]
pub(super) fn settle(process: &Process, execution: &mut Execution) {
    if !execution.is_settled() {
        process.until(|engine| {
            execution.abandon(engine);
            execution.is_settled().then_some(())
        });
    }
}

#[cold]
pub(super) fn collective_failed(failed: &Failed) -> Error {
    let class = match failed.cause {
        Cause::Mismatch { .. } => Class::Truncated,
        Cause::Lost(_) => Class::ProcFailed,
        Cause::Revoked => Class::Revoked,
        Cause::Elsewhere => Class::NotSame,
    };
    Error::of_text(class, &failed.to_string())
}
