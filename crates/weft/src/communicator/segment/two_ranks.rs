//! Operations of one round of two members, without anything that only more members or longer data need: every
//! step of these counts (decisions/0005, 0004).

use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

use collectives::node::{Flow, SegmentOperation, TwoRankPlan};
use collectives::{Activity, Cause, Collective, Failed, judge};
use fabric::{Payload, Room, UserMemory};
use job::error::Result;
use messaging::{Envelope, Mode, Pattern, Rank, Sending};

use super::{Combining, Communicator, SegmentHandle};
use crate::communicator::TAGS;
use crate::memory::giving;

impl Communicator {
    /// Does a collective operation of two members that goes through the node's shared memory in one round, as
    /// few bytes do: what [`Communicator::perform`] does as well, for callers who know which operation it is
    /// when they are compiled. `None`: nothing has happened, and [`Communicator::perform`] knows what to do.
    #[inline(always)]
    #[must_use]
    pub fn try_perform(
        &self,
        collective: Collective,
        input: Payload<'static>,
        output: Room,
        combining: Combining<'_>,
    ) -> Option<Result<()>> {
        let handle = self.handle()?;
        if handle.members() != 2 || self.inner.standing.is_closed() {
            return None;
        }
        let two = TwoRankPlan::of(collective, self.inner.rank)?;
        let mut turn = handle.turn.try_hold()?;
        // A room keeps nothing.
        let mut output = ManuallyDrop::new(output.memory());
        let Some(mut operation) =
            SegmentOperation::enter(self.on(handle), &mut turn, two.flow(), two.longest_bytes)
        else {
            drop(turn);
            let give = if two.is_loaded { giving(&output) } else { input };
            let give = if two.gives { Some(give.part(two.give.offset, two.give.bytes)) } else { None };
            if two.kept.is_some() || two.operands.is_some() || two.gives == two.gets {
                return None;
            }
            let is_reduce = matches!(collective, Collective::Reduce(..));
            let get = output.part(two.place, two.got_bytes);
            let done = self.pass_message(handle, (is_reduce, two.longest_bytes), give, get)?;
            return Some(self.counted(done));
        };
        let done = match operation.begin() {
            Ok(()) => operation.carry_of_two(two, input, &mut output, combining),
            Err(fault) => Err(fault),
        };
        drop(operation);
        drop(turn);
        Some(self.counted(done.map_err(|fault| self.failed_on_node(fault))))
    }

    /// Gives what stands there, or gets as much as there is room for, as a message: the one that the schedule
    /// of such an operation has, so that either member may go this way. It runs ahead of the member that
    /// takes it with less effort than anything on the collective segment. `None`: nothing has happened, since
    /// it is not to be a message, or something stands in the way, or the message is not there within a few
    /// looks.
    #[inline(never)]
    fn pass_message(
        &self,
        handle: &SegmentHandle,
        (is_reduce, bytes): (bool, usize),
        give: Option<Payload<'static>>,
        get: UserMemory,
    ) -> Option<Result<()>> {
        let inner = &*self.inner;
        let (here, flow) = (inner.rank, Flow { gives: give.is_some(), gets: give.is_none() });
        let mut turn = handle.turn.try_hold()?;
        let is_message = !turn.has_left && turn.is_message(flow, bytes);
        drop(turn);
        if !is_message || !inner.process.one_message_of_two().has(is_reduce, bytes) {
            return None;
        }
        let with = Rank(1 - here.0);
        let peer = inner.group.peer(with)?;
        let (context, number) = (self.collective_context(), inner.sequence.load(Ordering::Relaxed));
        let tag = (number % TAGS) as i32;
        let (mut sending, mut failed) = (None, None);
        match give {
            Some(payload) => {
                let envelope = Envelope { context, source: here, tag };
                let sent = inner.process.act(|engine| {
                    engine.way_out(peer, bytes)?;
                    Some(engine.send(peer, envelope, payload, Mode::Standard))
                })?;
                match sent {
                    Ok(Sending::Pending(request)) => sending = Some(request),
                    Ok(Sending::Done) => {}
                    Err(error) => failed = Some((Activity::Sending, Cause::Lost(*error))),
                }
            }
            None => {
                let pattern = Pattern { context, source: Some(with), tag: Some(tag) };
                let found = inner.process.receive_if_soon(pattern, peer, get.room()?)?;
                if found.bytes != bytes {
                    let cause = Cause::Mismatch { sent_bytes: found.bytes, expected_bytes: bytes };
                    failed = Some((Activity::Receiving, cause));
                }
            }
        }
        // One blocking operation is under way at a time (MPI 5.0 section 6.14).
        inner.sequence.store(number.wrapping_add(1), Ordering::Relaxed);
        self.tell_segment();
        let sent = sending.map_or(Ok(()), |request| judge(&self.wait(request), with, Activity::Sending, 0));
        let done = failed.map_or(Ok(()), |(activity, cause)| Err(Failed { with, activity, cause }));
        Some(done.and(sent).map_err(|failed| self.told(&failed)))
    }
}
