//! Operations on a collective segment that were begun, and go on beside what the program does.
//!
//! A member writes its slot when it begins one, so nobody waits for another's next call: with the last member
//! that begins it, all there is to do for the others is to look. Each is through with it when it has looked
//! at all slots that are for it, in any order; so it says to be through with what is before the oldest that
//! it is not through with.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use collectives::node::{
    CollectiveProgress, Fault, NonblockingOperation, NonblockingPlan, is_turn_due, others,
};
use collectives::{Buffers, Collective};
use fabric::Heap;
use fabric::slots::{Credit, Slots, is_before};
use job::error::Result;
use job::fabrics::{CollectiveSegment, Fabrics};
use job::lock::{Guard, lock};
use messaging::{Engine, RequestId};

use super::super::combining::OwnedCombining;
use super::super::ongoing::{Ongoing, SharedOutcome};
use super::message_path::LOOKS_PER_WATCH;
use super::{Communicator, SegmentHandle, SegmentState};
use crate::background::Operation;
use crate::process::WaitsFor;

/// The operations that this member has begun and is not through with.
#[derive(Default)]
pub(super) struct PendingOperations {
    count: AtomicUsize,
    /// No operation follows, blocking or not: with the last that is under way this member leaves the
    /// collective segment. Apart from the turn, which a thread that begins a blocking operation has to find
    /// free.
    pub(super) no_more: AtomicBool,
    underway: Mutex<Numbers>,
    /// Where contributions are combined.
    room: Mutex<Option<Heap>>,
}

#[derive(Default)]
struct Numbers {
    /// The oldest first.
    underway: Vec<u32>,
    /// The last operation that this member is through with.
    last: u32,
}

impl PendingOperations {
    /// Whether nonblocking operations are under way.
    #[inline(always)]
    pub(super) fn is_busy(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Whether nonblocking operations are under way, for a caller that has said that no more operations come:
    /// either the last one that ends sees that, or this call sees that it has ended.
    pub(super) fn is_busy_still(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// This member is through with an operation during which others went on.
    #[cold]
    pub(super) fn left(&self, segment: &CollectiveSegment, number: u32) {
        let mut numbers = lock(&self.underway);
        if is_before(numbers.last, number) {
            numbers.last = number;
        }
        let oldest = numbers.underway.first();
        segment.consume(oldest.map_or(numbers.last, |oldest| oldest.wrapping_sub(1)));
        // Who finds none says by itself how far this member is, so that has to come behind.
        self.count.store(numbers.underway.len(), Ordering::SeqCst);
    }

    fn begin(&self, number: u32) {
        let mut numbers = lock(&self.underway);
        if numbers.underway.is_empty() {
            numbers.last = number.wrapping_sub(1);
        }
        numbers.underway.push(number);
        self.count.store(numbers.underway.len(), Ordering::Release);
    }

    fn end(&self, segment: &CollectiveSegment, number: u32) {
        lock(&self.underway).underway.retain(|&other| other != number);
        self.left(segment, number);
    }
}

/// One of them.
struct Beside {
    of: Communicator,
    part: Part,
    /// Whether this member has said on the collective segment that it may sleep.
    is_awaiting: bool,
    id: RequestId,
    ended: Arc<SharedOutcome>,
}

/// This member's part in one, as far as it has come.
pub(super) struct Part {
    /// The context of its communicator when it began: another one after a recovery.
    context: u32,
    pending: NonblockingOperation,
    stage: CollectiveProgress,
    combining: OwnedCombining,
    /// How often it was looked in vain.
    looks: u32,
}

/// The next operation on the collective segment, which is to go on beside.
pub(in crate::communicator) struct Next<'a> {
    of: &'a Communicator,
    handle: &'a SegmentHandle,
    turn: Guard<'a, SegmentState>,
    plan: NonblockingPlan,
}

impl Communicator {
    /// The next operation on the collective segment, where there is one already and the operation fits; an
    /// error where another thread is in one. `None`: nothing has happened.
    pub(in crate::communicator) fn next_on_segment(
        &self,
        collective: Collective,
    ) -> Option<Result<Next<'_>>> {
        let handle = self.handle()?;
        if self.inner.standing.is_closed() {
            return None;
        }
        let plan = NonblockingPlan::of(collective, &self.setting())?;
        let Some(mut turn) = handle.turn.try_hold() else { return self.turn_is_held(handle).map(Err) };
        if turn.has_left {
            return None;
        }
        self.prepare_to_begin(handle, &mut turn)?;
        Some(Ok(Next { of: self, handle, turn, plan }))
    }

    /// What is due before an operation is begun: a turn of progress, as a program may do nothing else, and a
    /// renewal. `None` where it goes by messages.
    #[inline]
    pub(super) fn prepare_to_begin(&self, handle: &SegmentHandle, turn: &mut SegmentState) -> Option<()> {
        let number = turn.credit.next();
        if is_turn_due(number) {
            self.inner.process.progress();
        }
        match turn.owes_renewal || Credit::is_renewal_due(number) {
            true => self.renew_or_owe(handle, turn, number),
            false => Some(()),
        }
    }

    /// Renews this member's places before the operation of that number begins, if all others are through with
    /// what was before. Nobody waits for them here, so it may stay owed; `None` where it was owed for as long
    /// as can be.
    #[cold]
    fn renew_or_owe(&self, handle: &SegmentHandle, turn: &mut SegmentState, number: u32) -> Option<()> {
        let last = number.wrapping_sub(1);
        let mut others = others(self.rank(), self.size());
        if others.all(|place| !is_before(handle.segment.consumed(place.0), last)) {
            turn.credit.all_consumed(last);
            handle.segment.renew(number);
            turn.owes_renewal = false;
            return Some(());
        }
        let is_late = turn.owes_renewal && Credit::is_renewal_due(number);
        turn.owes_renewal = true;
        (!is_late).then_some(())
    }

    /// The collective segment, if it was founded.
    #[inline]
    pub(in crate::communicator) fn handle(&self) -> Option<&SegmentHandle> {
        self.inner.handle.get()?.as_ref().ok()?.as_deref()
    }

    /// Begins an operation on the collective segment; `None` where it is over, and has gone well.
    pub(in crate::communicator) fn start_by_segment(
        &self,
        next: Result<Next<'_>>,
        buffers: Buffers,
        combining: OwnedCombining,
    ) -> Option<Ongoing> {
        match next {
            Ok(next) => next.begin(buffers, combining),
            Err(error) => Some(self.ended(Err(error))),
        }
    }

    /// This member's part goes on beside.
    fn let_go_on(&self, part: Part) -> Ongoing {
        let process = &self.inner.process;
        let (id, ended) = (process.promise(), Arc::<SharedOutcome>::default());
        let beside = Beside { of: self.clone(), part, is_awaiting: false, id, ended: Arc::clone(&ended) };
        process.entrust(Box::new(beside));
        Ongoing::new(self.clone(), id, ended)
    }
}

impl Next<'_> {
    /// Begins it; `None` where it is over within a few looks, and has gone well.
    fn begin(mut self, buffers: Buffers, combining: OwnedCombining) -> Option<Ongoing> {
        let Next { of, handle, plan, .. } = self;
        let process = &of.inner.process;
        let number = plan.begin(&mut self.turn.credit);
        self.turn.note(plan.flow());
        let stage = CollectiveProgress { number, by_messages: of.by_messages(handle) };
        let pending = NonblockingOperation::new(plan, number, buffers);
        let mut part = Part { context: of.collective_context(), pending, stage, combining, looks: 0 };
        part.pending.begin(&handle.segment, &mut self.turn.credit);
        let mut ended = None;
        if !part.pending.owes() && !process.is_busy_beside() {
            process.is_there_now(|| {
                ended = part.poll(of, handle);
                ended.is_some()
            });
        }
        match ended {
            None => {
                handle.begun.begin(number);
                part.tell(&handle.segment);
                // Whoever holds the engine may want the turn.
                drop(self.turn);
                Some(of.let_go_on(part))
            }
            Some(Ok(())) => {
                plan.credit(&mut self.turn.credit);
                handle.leave(number);
                of.inner.completed.one_begun();
                None
            }
            Some(Err(error)) => {
                handle.leave(number);
                drop(self.turn);
                Some(of.ended(Err(error)))
            }
        }
    }
}

impl Part {
    /// Says on the collective segment how far this member is.
    fn tell(&self, segment: &CollectiveSegment) {
        if self.pending.owes() {
            segment.owe();
        } else if !segment.owes() {
            segment.stand(self.stage.number);
        }
    }

    /// Goes as far as it can; what came of it, when it is over.
    fn go_on(
        &mut self,
        of: &Communicator,
        handle: &SegmentHandle,
        engine: &mut Engine<Fabrics>,
    ) -> Option<Result<()>> {
        let owed = self.pending.owes();
        let ended = self.poll(of, handle);
        let owes = self.pending.owes();
        if owed && !owes {
            handle.segment.owe_no_more();
        }
        ended.or_else(|| {
            let closed = engine.closed(self.context).map(|failure| Err(of.nothing_comes(&failure)));
            // What it owes it may yet write.
            closed.or_else(|| if owes { None } else { self.look(of, handle) })
        })
    }

    /// Goes as far as it can on the collective segment; the result, when the operation is over there.
    fn poll(&mut self, of: &Communicator, handle: &SegmentHandle) -> Option<Result<()>> {
        if let Err(fault) = self.pending.poll(&handle.segment)? {
            return Some(Err(of.failed_on_node(fault)));
        }
        if self.pending.receives() {
            let mut scratch = lock(&handle.begun.room).take();
            self.pending.receive(&handle.segment, self.combining.lend(), &mut scratch);
            *lock(&handle.begun.room) = scratch;
        }
        Some(Ok(()))
    }

    /// Looks, once in a few times, whether the slots that are not there can still come.
    fn look(&mut self, of: &Communicator, handle: &SegmentHandle) -> Option<Result<()>> {
        self.looks = self.looks.wrapping_add(1);
        if !self.looks.is_multiple_of(LOOKS_PER_WATCH) {
            return None;
        }
        let elsewhere = self.pending.unheard().find(|&from| handle.will_not_write(from, self.stage));
        elsewhere.map(|from| Err(of.failed_on_node(Fault::Elsewhere(from))))
    }
}

impl Operation for Beside {
    fn advance(&mut self, engine: &mut Engine<Fabrics>) -> bool {
        let handle = self.of.handle().expect("it was begun in a collective segment");
        let Some(ended) = self.part.go_on(&self.of, handle, engine) else { return false };
        if self.is_awaiting {
            handle.segment.await_no_more();
        }
        handle.begun.end(&handle.segment, self.part.stage.number);
        // A member some slots ahead may sleep until this one is through.
        handle.segment.wake();
        if handle.begun.no_more.load(Ordering::SeqCst) {
            handle.quit_unless_busy();
        }
        if ended.is_ok() {
            self.of.inner.completed.one_begun();
        }
        *lock(&self.ended) = Some(ended);
        engine.fulfil(self.id);
        true
    }

    fn waits_for(&self, request: RequestId) -> Option<WaitsFor> {
        let handle = self.of.handle().filter(|_| request == self.id)?;
        Some(WaitsFor::members(&self.of, self.part.pending.awaited(&handle.segment).into_iter()))
    }

    fn lie_down(&mut self) {
        if !self.is_awaiting {
            self.of.handle().expect("it was begun in a collective segment").segment.await_others();
            self.is_awaiting = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use collectives::{Operator, Reduction};
    use fabric::{Payload, UserMemory};
    use job::config::CpuTime;

    use super::*;
    use crate::communicator::Rank;
    use crate::communicator::combining::{Combining, in_place};
    use crate::memory::{giving, reading, writing};
    use crate::{Config, run_threads};

    /// A sum of one number of each member, under way.
    struct Sum {
        ongoing: Ongoing,
        _given: Box<[u64]>,
        got: Box<[u64]>,
    }

    impl Sum {
        fn begin(world: &Communicator, given: u64) -> Sum {
            let (given, mut got) = (Box::from([given]), Box::from([0u64]));
            let operator = Operator { element_bytes: 8, commutative: true };
            let sum = Collective::Allreduce(Reduction { count: 1, operator, in_place: false });
            let buffers = Buffers { input: reading(&given), output: writing(&mut got) };
            let add = in_place(|left: Payload<'_>, right: &mut UserMemory| {
                let numbers = |of: Payload<'_>| {
                    of.to_vec()
                        .chunks(8)
                        .map(|eight| u64::from_ne_bytes(eight.try_into().unwrap()))
                        .collect::<Vec<_>>()
                };
                for (at, (one, other)) in numbers(left).into_iter().zip(numbers(giving(right))).enumerate() {
                    right.write_at(8 * at, Payload::from(&(one + other).to_ne_bytes()[..]));
                }
            });
            let add = OwnedCombining::By(Box::new(add));
            Sum { ongoing: world.start(sum, buffers, add, None, None), _given: given, got }
        }

        fn wait(self) -> u64 {
            self.ongoing.wait().unwrap();
            self.got[0]
        }
    }

    fn on_a_segment(ranks: u32, body: impl Fn(&Communicator) + Sync) {
        let config = Config { cpus: Some(CpuTime::UNLIMITED), ..Config::default() };
        run_threads(ranks, &config, |session| {
            let world = session.world();
            (0..5).for_each(|_| world.barrier().unwrap());
            assert!(world.handle().is_some(), "there is one after a few operations");
            body(&world);
        })
        .unwrap();
    }

    #[test]
    fn who_has_begun_one_need_not_call_anything() {
        let is_over = std::sync::Barrier::new(4);
        on_a_segment(4, |world| {
            let sum = Sum::begin(world, 10 + u64::from(world.rank().0));
            let is_last = world.rank() == Rank(3);
            if !is_last {
                is_over.wait();
            }
            assert_eq!(sum.wait(), 46);
            if is_last {
                is_over.wait();
            }
        });
    }

    /// Where numbers come round, and no blocking operation is there that would wait for all, they stay on the
    /// collective segment.
    #[test]
    fn places_are_renewed_without_anybody_who_waits() {
        on_a_segment(2, |world| {
            let number = || world.handle().unwrap().turn.try_hold().unwrap().credit.number();
            let first = number();
            for at in 0..300u64 {
                assert_eq!(Sum::begin(world, at + u64::from(world.rank().0)).wait(), 2 * at + 1);
            }
            assert_eq!(number().wrapping_sub(first), 300);
            assert!(first > number(), "numbers have come round");
            // Who waits in any case, does what is owed.
            (0..40).for_each(|_| world.barrier().unwrap());
            assert!(!world.handle().unwrap().turn.try_hold().unwrap().owes_renewal);
            assert_eq!(Sum::begin(world, 1).wait(), 2);
        });
    }

    /// A chunk that nobody has taken stays where it is, also where numbers come round and it would be the
    /// next one's turn.
    #[test]
    fn chunks_are_taken_before_numbers_come_round() {
        on_a_segment(2, |world| {
            let number = || world.handle().unwrap().turn.try_hold().unwrap().credit.number();
            let bcast = |value: u8| {
                let mut data = vec![if world.rank() == Rank(0) { value } else { 0 }; 4096];
                let of = Collective::Bcast { root: Rank(0), bytes: data.len() };
                world.perform(of, Payload::EMPTY, writing(&mut data), Combining::Nothing).unwrap();
                assert!(data.iter().all(|byte| *byte == value), "{} in place of {value}", data[0]);
            };
            let begin = || {
                let nothing = Buffers { input: Payload::EMPTY, output: UserMemory::EMPTY };
                world.start(Collective::Barrier, nothing, OwnedCombining::Nothing, None, None)
            };
            while number() != 0u32.wrapping_sub(5) {
                world.barrier().unwrap();
            }
            // Both give: so the one who gives next has got something, and that is a chunk.
            let mut both = [0u8; 2];
            let all = Collective::Allgather(collectives::Each { bytes: 1, in_place: false });
            world.perform(all, reading(&[1]), writing(&mut both), Combining::Nothing).unwrap();
            if world.rank() == Rank(1) {
                std::thread::sleep(std::time::Duration::from_millis(30));
            }
            bcast(1);
            let barriers = [begin(), begin()];
            assert_eq!(number(), u32::MAX);
            let sum = Sum::begin(world, 1);
            bcast(2);
            barriers.into_iter().for_each(|barrier| barrier.wait().unwrap());
            assert_eq!(sum.wait(), 2);
        });
    }

    /// More than a member has slots, past where numbers come round, ended in another order than begun,
    /// blocking ones between.
    #[test]
    fn many_go_on_beside_each_other() {
        on_a_segment(3, |world| {
            for round in 0..6u64 {
                let sums: Vec<(u64, Sum)> = (0..40)
                    .map(|at| {
                        let mine = 1000 * round + at;
                        if at % 13 == 12 {
                            world.barrier().unwrap();
                        }
                        (3 * mine + 3, Sum::begin(world, mine + u64::from(world.rank().0)))
                    })
                    .collect();
                let here = u64::from(world.rank().0);
                let ends_from_the_back = (round + here).is_multiple_of(2);
                let ended = |(right, sum): (u64, Sum)| assert_eq!(sum.wait(), right);
                if ends_from_the_back {
                    sums.into_iter().rev().for_each(ended);
                } else {
                    sums.into_iter().for_each(ended);
                }
            }
            let begun = &world.handle().unwrap().begun;
            assert!(!begun.is_busy() && lock(&begun.underway).underway.is_empty());
        });
    }
}
