//! Collective operations of few bytes among members that share a node's memory: each writes a line on a
//! collective segment, and reads the others' (decisions/0004). No message goes.
//!
//! What decides that an operation goes this way is the same at all members: which one it is and how long,
//! where they sit, and whether a collective segment was to be had, of which rank 0 tells the others once.

#[cfg(test)]
mod chunks_tests;
#[cfg(test)]
mod costs_tests;
mod message_path;
mod nonblocking;
#[cfg(test)]
mod reads_tests;
#[cfg(test)]
mod refused_tests;
#[cfg(test)]
mod several_tests;
#[cfg(test)]
mod sums_tests;
#[cfg(test)]
mod switches_tests;
#[cfg(test)]
mod tree_tests;
mod two_ranks;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use collectives::node::{
    ChoiceInputs, CollectiveProgress, Fault, Flow, LongBlocks, MemberRole, NeighbourExchange,
    SegmentAlgorithm, SegmentMember, SegmentOperation, SegmentState, others,
};
use collectives::{
    Activity, Buffers, Cause, Collective, Failed, Listed, Neighbourhood, Shape, Surround, judge,
};
use fabric::slots::{MEMBERS_MAX, Slots, is_before};
use fabric::{Payload, UserMemory};
use job::error::{Class, Error, Result};
use job::fabrics::{CollectiveSegment, CollectiveSegments, second_cache_bytes};
use job::lock::{Lock, Threads};
use messaging::{Envelope, Failures, Mode, Pattern, Rank, Sending, Standing};

pub(super) use self::message_path::Watch;
use self::nonblocking::PendingOperations;
use super::Communicator;
use super::combining::Combining;
use crate::memory::{reading, writing};
use crate::process::WaitsFor;
use crate::recent::RecentKind;

/// A collective segment, and how far this member is on it.
pub(super) struct SegmentHandle {
    segment: CollectiveSegment,
    /// Who has failed of the members.
    failures: Failures,
    standing: Arc<Standing>,
    /// Held by the thread that is in an operation.
    turn: Lock<SegmentState>,
    /// The operations that go on beside.
    begun: PendingOperations,
    /// From when its clock counts.
    since: Instant,
    /// How many operations by messages were begun before there was a collective segment; the same at all
    /// members.
    by_messages_before: u32,
}

/// What the founding of a collective segment came to: none where there is none for this communicator, and an
/// error where it is not known, since rank 0 is lost.
pub(super) type Founded = Result<Option<Box<SegmentHandle>>>;

/// This member on its communicator's collective segment: how it waits there.
#[derive(Clone, Copy)]
pub(super) struct CommunicatorMember<'a> {
    of: &'a Communicator,
    handle: &'a SegmentHandle,
}

impl Communicator {
    /// Does an operation on the collective segment, if there is to be one and it fits. `None`: nothing has
    /// happened.
    pub(super) fn perform_by_segment(
        &self,
        collective: Collective,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: Combining<'_>,
    ) -> Option<Result<()>> {
        if combining.program().is_some() {
            return None;
        }
        let setting = self.setting();
        let role = MemberRole::of(collective, &setting)?;
        let chosen = role.chosen(&setting)?;
        let SegmentAlgorithm { at_once, flow, bytes, .. } = chosen;
        self.run_operation(at_once, flow, bytes, |operation| {
            role.carry(&chosen, operation, input, output, combining)
        })
    }

    /// What decides how operations go on the collective segment; the same at all members.
    #[inline(always)]
    fn setting(&self) -> ChoiceInputs<'_, impl Fn() -> Shape> {
        ChoiceInputs {
            here: self.inner.rank,
            size: self.size(),
            cores: self.inner.process.cores(),
            choices: &self.inner.choices,
            shape: || self.shape(),
        }
    }

    /// Whether members share cores, so that a member that waits for another one gives its core away; the same
    /// at all.
    #[cfg(test)]
    fn shares_cores(&self) -> bool {
        self.inner.process.cores() == collectives::Cores::Shared
    }

    /// Exchanges with the neighbours, where there are two members and it fits. `None`: nothing has happened.
    pub(super) fn perform_around_by_segment(
        &self,
        neighbourhood: &Neighbourhood,
        surround: Surround<'_>,
        input: Payload<'static>,
        output: &mut UserMemory,
    ) -> Option<Result<()>> {
        if self.size() != 2 {
            return None;
        }
        let around = NeighbourExchange::of(neighbourhood, surround)?;
        let (flow, bytes) = around.flow();
        self.run_operation(false, flow, bytes, |operation| operation.carry_around(&around, input, output))
    }

    /// Does an operation with blocks that differ in length on the collective segment. `None`: nothing has
    /// happened.
    #[inline]
    pub(super) fn perform_uneven_by_segment(
        &self,
        listed: Listed<'_>,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: Combining<'_>,
    ) -> Option<Result<()>> {
        if combining.program().is_some() {
            return None;
        }
        let setting = self.setting();
        let role = MemberRole::listed(listed, &setting)?;
        let chosen = role.chosen(&setting)?;
        // What is refused before it begins has no rest.
        let mut is_begun = false;
        let SegmentAlgorithm { at_once, flow, bytes, .. } = chosen;
        let done = self.run_operation(at_once, flow, bytes, |operation| {
            is_begun = true;
            role.carry(&chosen, operation, input, output, combining)
        })?;
        Some(match role.rest(&chosen) {
            Some(rest) if is_begun => self.exchange_rest(done, rest, input, output, combining),
            _ => done,
        })
    }

    /// Exchanges the blocks that are too long for slots, as an operation of its own: of more than two members
    /// each counts it, whether it has such blocks or not; of two, both have them. Where a short block has not
    /// fitted, others wait for the long ones all the same.
    fn exchange_rest(
        &self,
        exchanged: Result<()>,
        rest: Option<LongBlocks>,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: Combining<'_>,
    ) -> Result<()> {
        let goes_on = exchanged.as_ref().err().is_none_or(|error| error.class == Class::Truncated);
        let Some(rest) = rest.filter(|_| goes_on) else {
            let is_given_up = exchanged.as_ref().is_err_and(|error| error.class == Class::NotSame);
            if self.size() > 2 || is_given_up {
                self.next_tag();
            }
            if is_given_up {
                self.say_last_given_up();
            }
            return exchanged;
        };
        let (listed, buffers) = (rest.listed(), Buffers { input, output: output.part(0, output.bytes()) });
        let new = || (RecentKind::listed(listed), listed.schedule(&self.shape()));
        exchanged.and(self.repeat(|kept| kept.is_listed(listed), new, buffers, combining))
    }

    /// Nothing is done in it any more: what it has kept for operations to come goes, unless somebody is
    /// within one.
    pub(super) fn put_away(&self) {
        if let Some(mut recent) = self.inner.recent.try_hold() {
            *recent = crate::recent::Recent::default();
        }
        if let Some(Ok(Some(handle))) = self.inner.handle.get() {
            handle.begun.no_more.store(true, Ordering::SeqCst);
            // Who holds it now leaves the collective segment itself.
            if let Some(mut turn) = handle.turn.try_hold() {
                handle.end(&mut turn);
            }
        }
    }

    /// Does the next operation on the collective segment, if there is one. `at_once` where a collective
    /// segment is to be had from the first operation on, so that sums are always made in one order; of two
    /// members, data flows so, and one of them sends so many bytes. `None`: nothing has happened, also where
    /// that goes by a message.
    #[inline(always)]
    fn run_operation(
        &self,
        at_once: bool,
        flow: Flow,
        bytes: usize,
        carry: impl FnOnce(&mut SegmentOperation<'_, CommunicatorMember<'_>>) -> std::result::Result<(), Fault>,
    ) -> Option<Result<()>> {
        // What has lost a member, or is revoked, says so by messages.
        if self.inner.standing.is_closed() {
            return None;
        }
        let founded = match self.inner.handle.get() {
            Some(known) => known,
            None => self.found_handle(at_once)?,
        };
        let handle = match founded {
            Ok(handle) => handle.as_deref()?,
            Err(lost) => return Some(Err(lost.clone())),
        };
        // One blocking operation is under way at a time (MPI 5.0 §6.14).
        let Some(mut turn) = handle.turn.try_hold() else { return self.turn_is_held(handle).map(Err) };
        let done = {
            let mut operation = SegmentOperation::enter(self.on(handle), &mut turn, flow, bytes)?;
            operation.begin().and_then(|()| carry(&mut operation))
        };
        // Another thread that puts the collective segment away finds the turn free: to word an error may take
        // the engine.
        drop(turn);
        Some(done.map_err(|fault| self.failed_on_node(fault)))
    }

    #[inline(always)]
    fn on<'a>(&'a self, handle: &'a SegmentHandle) -> CommunicatorMember<'a> {
        CommunicatorMember { of: self, handle }
    }

    /// The error of an operation on the collective segment that has failed.
    #[cold]
    pub(super) fn failed_on_node(&self, fault: Fault) -> Error {
        let given_up = |by: Rank, why: &str| {
            format!("{}: rank {} has given the operation up: {why}", self.place(), by.0)
        };
        match fault {
            Fault::Elsewhere(with) => {
                self.told(&Failed { with, activity: Activity::Receiving, cause: Cause::Elsewhere })
            }
            Fault::Mismatch { with, sent_expected } => {
                let [sent_bytes, expected_bytes] = *sent_expected;
                self.collective_receive_failed(with, Cause::Mismatch { sent_bytes, expected_bytes })
            }
            Fault::Misfit(by) => {
                Error::new(Class::Truncated, given_up(by, "what ranks give in it does not fit together"))
                    .remedy("see what that rank has told of it")
            }
            Fault::GivenUp(by) => Error::new(Class::Other, given_up(by, "its operator has panicked"))
                .remedy("see what that rank has told of it"),
            Fault::ExpectsMore { with, bytes } => {
                let what = format!(
                    "{}: rank {} gives {bytes} bytes, as was to come, but in an operation in which it expects more than this rank gives",
                    self.place(),
                    with.0
                );
                Error::new(Class::Truncated, what)
                    .remedy("all ranks must give as much as the others expect of them")
            }
            Fault::NoMemory => {
                let what = format!(
                    "{}: there is no shared memory left for what its members give each other",
                    self.place()
                );
                Error::new(Class::NoMemory, what).remedy("free memory of this machine, or of the container")
            }
            Fault::Closed(failure) => self.nothing_comes(&failure),
            Fault::Withdrawn(other) => self.has_withdrawn(other),
        }
    }

    /// The other of two members has left an exchange in which this one reads its memory.
    #[cold]
    fn has_withdrawn(&self, other: Rank) -> Error {
        let context = self.collective_context();
        if let Some(failure) = self.process().act(|engine| engine.closed(context)) {
            return self.nothing_comes(&failure);
        }
        let what = format!("{}: rank {} has left the operation before its end", self.place(), other.0);
        Error::new(Class::Other, what).remedy("see what that rank has told of it")
    }

    /// Another thread is in an operation, which is an error; or it takes the collective segment away, and
    /// what there is to do goes by messages.
    #[cold]
    pub(super) fn turn_is_held(&self, handle: &SegmentHandle) -> Option<Error> {
        (!handle.begun.no_more.load(Ordering::SeqCst)).then(|| self.two_at_once())
    }

    /// What came from a member is not what was to come.
    #[cold]
    fn collective_receive_failed(&self, with: Rank, cause: Cause) -> Error {
        self.told(&Failed { with, activity: Activity::Receiving, cause })
    }

    /// Several threads call collective operations of one communicator at the same time.
    #[cold]
    fn two_at_once(&self) -> Error {
        let what =
            format!("{}: another thread is in a collective operation of this communicator", self.place());
        Error::new(Class::Other, what).remedy(
            "call its collective operations from one thread at a time, or give each thread a duplicate",
        )
    }

    /// The collective segment, if there is to be one: rank 0 takes one and tells the others, when a few
    /// operations that could have gone by it have shown that it is worth its memory.
    #[cold]
    fn found_handle(&self, at_once: bool) -> Option<&Founded> {
        let inner = &*self.inner;
        if !self.may_have_segment() {
            return Some(inner.handle.get_or_init(|| Ok(None)));
        }
        if !at_once && inner.before_handle.fetch_add(1, Ordering::Relaxed) < OPERATIONS_BEFORE {
            return None;
        }
        Some(inner.handle.get_or_init(|| self.join_segment()))
    }

    /// Whether a collective segment serves; the same at all members.
    fn may_have_segment(&self) -> bool {
        let process = self.process();
        (2..=MEMBERS_MAX).contains(&self.size())
            && process.segments().is_some()
            && !process.guide().is_forced()
            && !process.checks()
            && self.is_on_one_node()
    }

    fn join_segment(&self) -> Founded {
        let Some(segments) = self.process().segments() else { return Ok(None) };
        let number = self.agree_on_segment(segments)?;
        let Some(segment) = segments.join(number, self.rank().0, self.group().iter()) else {
            return Ok(None);
        };
        let threads = if self.process().is_shared() { Threads::Many } else { Threads::One };
        let (failures, standing) = (self.process().failures().clone(), Arc::clone(&self.inner.standing));
        let turn = Lock::new(threads, SegmentState::default());
        let (begun, since, by_messages_before) =
            (PendingOperations::default(), Instant::now(), self.by_messages_at_all());
        let handle = SegmentHandle { segment, failures, standing, turn, begun, since, by_messages_before };
        Ok(Some(Box::new(handle)))
    }

    /// The number of the collective segment that rank 0 has taken. It tells each member by a message of its
    /// own: whoever has died then, all who live know of the collective segment, as long as rank 0 does; the
    /// operation itself tells of the lost one.
    fn agree_on_segment(&self, segments: &CollectiveSegments) -> Result<u32> {
        let (context, tag, source) = (self.collective_context(), self.next_tag(), Rank(0));
        if self.rank() != source {
            let mut number = [NO_SEGMENT];
            let (pattern, expected) =
                (Pattern { context, source: Some(source), tag: Some(tag) }, size_of_val(&number));
            let from = self.group().peer(source);
            let outcome = self.process().receive_awaited(pattern, from, writing(&mut number));
            judge(&outcome, source, Activity::Receiving, expected).map_err(|failed| self.told(&failed))?;
            return Ok(number[0]);
        }
        let number = [segments.found(self.size()).unwrap_or(NO_SEGMENT)];
        let tell = |to| {
            let sent =
                self.process().send(to, Envelope { context, source, tag }, reading(&number), Mode::Standard);
            if let Ok(Sending::Pending(request)) = sent { Some(request) } else { None }
        };
        let under_way: Vec<_> = self.group().iter().skip(1).filter_map(tell).collect();
        for request in under_way {
            self.wait(request);
        }
        Ok(number[0])
    }
}

impl<'a> SegmentMember for CommunicatorMember<'a> {
    type Slots = CollectiveSegment;

    #[inline(always)]
    fn slots(&self) -> &CollectiveSegment {
        &self.handle.segment
    }

    #[inline(always)]
    fn rank(self) -> Rank {
        self.of.inner.rank
    }

    #[inline(always)]
    fn size(self) -> u32 {
        self.of.size()
    }

    #[inline(always)]
    fn is_soon(self, so: impl FnMut() -> bool) -> bool {
        self.of.inner.process.is_soon(so)
    }

    #[inline(always)]
    fn is_at_once(self, so: impl FnMut() -> bool) -> bool {
        self.of.inner.process.is_at_once(so)
    }

    #[inline(never)]
    fn wait(
        self,
        [number, written]: [u32; 2],
        owes: Option<&dyn Fn(Rank) -> Option<usize>>,
        so: &dyn Fn(&CollectiveSegment) -> bool,
    ) -> std::result::Result<(), Fault> {
        let (comm, segment) = (self.of, &self.handle.segment);
        let stage = CollectiveProgress { number, by_messages: comm.by_messages(self.handle) };
        if owes.is_some() && !segment.owes() {
            segment.stand(written);
        }
        segment.await_others();
        let ended = comm.process().until_seen(
            |_| self.waits_for(number, owes),
            |engine| {
                if so(segment) {
                    return Some(Ok(()));
                }
                if let Some(failure) = engine.closed(comm.collective_context()) {
                    return Some(Err(Fault::Closed(Box::new(failure))));
                }
                stage.absent(self, owes?).map(|from| Err(Fault::Elsewhere(from)))
            },
        );
        if owes.is_none() && ended.is_err() {
            // Its slot is owed for ever: nobody learns anything any more from where this member stands.
            segment.owe();
        }
        segment.await_no_more();
        ended
    }

    fn is_closed(self) -> bool {
        self.of.process().act(|engine| engine.closed(self.of.collective_context())).is_some()
    }

    fn progress(self) {
        self.of.process().progress();
    }

    #[inline(always)]
    fn leave(self, number: u32) {
        self.handle.leave(number);
    }

    #[inline(always)]
    fn is_over(self, turn: &mut SegmentState) {
        if self.handle.begun.no_more.load(Ordering::Relaxed) {
            self.handle.end(turn);
        }
    }

    fn now_ns(self) -> u64 {
        self.handle.since.elapsed().as_nanos() as u64
    }

    fn second_cache_bytes(self) -> Option<usize> {
        second_cache_bytes()
    }
}

impl CommunicatorMember<'_> {
    /// Those whose slots are not there, or that have not consumed what was before.
    #[cold]
    fn waits_for(self, number: u32, owes: Option<&dyn Fn(Rank) -> Option<usize>>) -> WaitsFor {
        let (segment, last) = (&self.handle.segment, number.wrapping_sub(1));
        let is_awaited = |&from: &Rank| match owes {
            Some(owes) => owes(from).is_some() && !segment.has(from.0, number),
            None => self.size() == 2 || is_before(segment.consumed(from.0), last),
        };
        WaitsFor::members(self.of, others(self.rank(), self.size()).filter(is_awaited))
    }
}

impl Drop for SegmentHandle {
    fn drop(&mut self) {
        self.quit();
    }
}

impl SegmentHandle {
    /// How many members the collective segment has.
    #[inline(always)]
    pub(super) fn members(&self) -> u32 {
        self.segment.members()
    }

    /// No operation follows.
    #[cold]
    fn end(&self, turn: &mut SegmentState) {
        turn.leave();
        self.quit_unless_busy();
    }

    /// Leaves the collective segment for good, unless operations go on beside: the last of those does it.
    fn quit_unless_busy(&self) {
        if !self.begun.is_busy_still() {
            self.quit();
        }
    }

    /// Leaves the collective segment, for those who have died as well.
    fn quit(&self) {
        let members = self.standing.members();
        let dead = self.failures.of(&self.standing).into_iter().filter_map(|peer| members.rank(peer));
        self.segment.leave(&dead.map(|Rank(place)| place).collect::<Vec<_>>());
    }

    /// This member is through with the operation.
    #[inline(always)]
    fn leave(&self, number: u32) {
        if self.begun.is_busy() {
            self.begun.left(&self.segment, number);
        } else {
            self.segment.consume(number);
        }
        // A member some slots ahead may sleep until this one is through.
        self.segment.wake();
    }
}

/// Before so many operations a collective segment is not worth its memory.
const OPERATIONS_BEFORE: u32 = 3;
/// What rank 0 says where no collective segment is to be had.
const NO_SEGMENT: u32 = u32::MAX;
