//! How a thread of this process waits: it makes turns of progress, or stands by while another one does, and
//! sleeps in the end.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fabric::Bell;
use job::fabrics::Fabrics;
use job::lock::Guard;
use job::wait::{Next, Patience, Policy};
use messaging::{Engine, Interest};

use super::Process;
use super::wait_states::{Long, WaitsFor};

impl Process {
    /// Makes progress until `ready` has an answer.
    #[inline(always)]
    pub(crate) fn until<R>(&self, ready: impl FnMut(&mut Engine<Fabrics>) -> Option<R>) -> R {
        self.until_held(self.hold(), Interest::Anything, ready)
    }

    /// Makes progress until `ready` has an answer; `waits_for` says for people what is waited for.
    #[inline(always)]
    pub(crate) fn until_told<R>(
        &self,
        waits_for: impl FnMut(&mut Engine<Fabrics>) -> WaitsFor,
        ready: impl FnMut(&mut Engine<Fabrics>) -> Option<R>,
    ) -> R {
        self.until_held_told(self.hold(), Interest::Anything, waits_for, ready)
    }

    /// Makes progress until `ready` has an answer that comes by memory, whose writer rings the bell where it
    /// is waited for there; `waits_for` says for people what is waited for. No other thread can tell of it,
    /// so this one looks and makes turns itself.
    pub(crate) fn until_seen<R>(
        &self,
        waits_for: impl FnMut(&mut Engine<Fabrics>) -> WaitsFor,
        ready: impl FnMut(&mut Engine<Fabrics>) -> Option<R>,
    ) -> R {
        self.until_held_told(self.hold(), Interest::Memory, waits_for, ready)
    }

    /// Makes progress until `ready` has an answer, for a caller that holds the engine. Where several threads
    /// wait, `ready` is asked again when something of `interest` may have come, and now and then.
    #[inline(always)]
    pub(super) fn until_held<'a, R>(
        &'a self,
        engine: Guard<'a, Engine<Fabrics>>,
        interest: Interest,
        ready: impl FnMut(&mut Engine<Fabrics>) -> Option<R>,
    ) -> R {
        let waits_for = |engine: &mut Engine<Fabrics>| WaitsFor::interest(self, engine, interest);
        self.until_held_told(engine, interest, waits_for, ready)
    }

    /// Makes progress until `ready` has an answer, for a caller that holds the engine; `waits_for` says for
    /// people what is waited for.
    #[inline(always)]
    fn until_held_told<'a, R>(
        &'a self,
        mut engine: Guard<'a, Engine<Fabrics>>,
        interest: Interest,
        mut waits_for: impl FnMut(&mut Engine<Fabrics>) -> WaitsFor,
        mut ready: impl FnMut(&mut Engine<Fabrics>) -> Option<R>,
    ) -> R {
        let mut waiting = Waiting::new(self);
        let mut looks_left = self.looks;
        let mut happened = None;
        // The one place where `ready` is called, so that it becomes a part of this loop.
        loop {
            if let Some(answer) = ready(&mut engine) {
                return answer;
            }
            looks_left -= 1;
            if looks_left > 0
                && let Some(lane) = engine.looks_at()
            {
                self.rest_before(lane);
                continue;
            }
            if let Some(happened) = happened {
                waiting.patience.looked(happened);
                if happened > 0 && waiting.long.is_some() {
                    self.wait_goes_on(&mut waiting.long);
                }
                if self.read_failure_log(&mut engine) {
                    // What it has told may be what is waited for, and nobody rings for it again.
                    looks_left = self.looks;
                    continue;
                }
                engine = self.pause(engine, &mut waiting, &mut waits_for);
            }
            if self.is_shared() && !waiting.makes_turns() && interest != Interest::Memory {
                engine = self.stand_by(engine, &mut waiting, interest);
                engine = self.tell_if_long(engine, &mut waiting, &mut waits_for);
                (happened, looks_left) = (None, 1);
                continue;
            }
            happened = Some(self.turn(&mut engine));
            looks_left = self.looks;
        }
    }

    /// Whether operations go on beside, which are to have their turns.
    #[inline(always)]
    pub(crate) fn is_busy_beside(&self) -> bool {
        self.background.is_busy()
    }

    /// Looks a few times for what is to come at once by memory that the other alone writes.
    #[inline(always)]
    pub(crate) fn is_at_once(&self, so: impl FnMut() -> bool) -> bool {
        self.is_within(self.looks_at_line(), so)
    }

    /// Looks a few times for what is to come at once by memory, for a caller that does not wait: as long as
    /// it takes to see what the other process writes at the same time, and less than what it takes to let
    /// other operations go on.
    #[inline]
    pub(crate) fn is_there_now(&self, so: impl FnMut() -> bool) -> bool {
        let looks =
            if self.policy == Policy::OwnCore { LOOKS_IN_PASSING.min(self.looks_at_line()) } else { 1 };
        self.is_within(looks, so)
    }

    /// Looks so often, with rests between.
    #[inline(always)]
    fn is_within(&self, looks: u32, mut so: impl FnMut() -> bool) -> bool {
        (0..looks).any(|look| {
            if look > 0 {
                self.rest_before_line();
            }
            so()
        })
    }

    /// How often one line is looked at for what is to come at once, while the other looks at one of this
    /// process.
    #[inline(always)]
    pub(crate) fn looks_at_line(&self) -> u32 {
        LOOKS_AT_LINE * self.looks
    }

    /// Rests between two of these looks.
    #[inline(always)]
    pub(crate) fn rest_before_line(&self) {
        self.rest.take_short();
    }

    /// Looks a few times for what comes by memory and by no message, as long as it may take to be there; then
    /// it is to be waited for by [`Process::until_seen`].
    #[inline]
    pub(crate) fn is_soon(&self, mut so: impl FnMut() -> bool) -> bool {
        if so() {
            return true;
        }
        if self.is_busy_beside() {
            return false;
        }
        match self.policy {
            Policy::OwnCore => (0..LOOKS_BEFORE_STANDING).any(|_| {
                self.rest_before_line();
                so()
            }),
            Policy::SharedCore | Policy::Crowd => {
                (0..LOOKS_BEFORE_TURN).take_while(|_| !self.yields.are_slow()).any(|_| {
                    self.yields.give_away();
                    so()
                })
            }
        }
    }

    /// What lies between two looks: nothing much, another thread's or process's turn, or a sleep.
    #[inline]
    fn pause<'a>(
        &'a self,
        engine: Guard<'a, Engine<Fabrics>>,
        waiting: &mut Waiting<'_>,
        waits_for: &mut impl FnMut(&mut Engine<Fabrics>) -> WaitsFor,
    ) -> Guard<'a, Engine<Fabrics>> {
        match waiting.patience.next(&self.yields) {
            Next::Look if !self.engine.is_wanted() => {
                std::hint::spin_loop();
                engine
            }
            next @ Next::Sleep(_) => {
                let engine = self.pause_long(engine, waiting, next);
                self.tell_if_long(engine, waiting, waits_for)
            }
            next => self.pause_long(engine, waiting, next),
        }
    }

    /// Writes for the launcher what this thread waits for, if it has waited for long.
    #[cold]
    fn tell_if_long<'a>(
        &'a self,
        mut engine: Guard<'a, Engine<Fabrics>>,
        waiting: &mut Waiting<'_>,
        waits_for: &mut dyn FnMut(&mut Engine<Fabrics>) -> WaitsFor,
    ) -> Guard<'a, Engine<Fabrics>> {
        let Some(quiet_since) = waiting.patience.quiet_since() else { return engine };
        let begun = *waiting.begun.get_or_insert(quiet_since);
        if !self.is_to_be_told(quiet_since, &mut waiting.long) {
            return engine;
        }
        let found = waits_for(&mut engine);
        // Communicators are looked up, and let go, which may want the engine.
        drop(engine);
        waiting.long = self.tell_wait(begun, quiet_since, found);
        self.hold()
    }

    #[cold]
    fn pause_long<'a>(
        &'a self,
        mut engine: Guard<'a, Engine<Fabrics>>,
        waiting: &mut Waiting<'_>,
        next: Next,
    ) -> Guard<'a, Engine<Fabrics>> {
        match next {
            Next::Look => {
                drop(engine);
                self.engine.give_way();
            }
            // Whoever runs then makes the turns.
            Next::Yield => {
                waiting.give_turns_up();
                drop(engine);
                self.yields.give_away();
            }
            // What came before is seen by the look that follows, what comes later makes the sleep short. The
            // manager is asked now, and not after the sleep: whoever wakes is waited for.
            Next::Arm => {
                engine.call_roll();
                self.background.lie_down();
                drop(engine);
                self.die_with_the_manager();
                self.sleepers.fetch_add(1, Ordering::SeqCst);
                waiting.patience.armed(self.bell.arm());
            }
            Next::Sleep(None) => {
                drop(engine);
                self.disarm();
            }
            Next::Sleep(Some(armed)) => {
                waiting.drops_off();
                drop(engine);
                self.bell.sleep(armed, self.sleep_max());
                self.disarm();
                let engine = self.hold();
                waiting.is_up();
                return engine;
            }
        }
        self.hold()
    }

    /// Another thread makes the turns: looks whether anything has ended, and sleeps after a while.
    #[cold]
    fn stand_by<'a>(
        &'a self,
        engine: Guard<'a, Engine<Fabrics>>,
        waiting: &mut Waiting<'_>,
        interest: Interest,
    ) -> Guard<'a, Engine<Fabrics>> {
        let seen = engine.signs();
        drop(engine);
        for _ in 0..LOOKS_STANDING_BY {
            match waiting.patience.next(&self.yields) {
                Next::Look => self.rest.take(),
                Next::Yield => self.yields.give_away(),
                Next::Arm | Next::Sleep(_) => return self.sleep_standing_by(seen, waiting, interest),
            }
            if self.crowd.signs() != seen || !self.crowd.is_turning() {
                break;
            }
        }
        self.hold()
    }

    #[cold]
    fn sleep_standing_by(
        &self,
        seen: u64,
        waiting: &mut Waiting<'_>,
        interest: Interest,
    ) -> Guard<'_, Engine<Fabrics>> {
        let engine = self.hold();
        if engine.signs() != seen || !self.crowd.is_turning() {
            return engine;
        }
        self.crowd.lie_down(interest);
        drop(engine);
        std::thread::park_timeout(SLEEP_MAX);
        let engine = self.hold();
        if self.crowd.rise() {
            waiting.patience = Patience::new(waiting.policy);
        }
        engine
    }

    fn sleep_max(&self) -> Duration {
        if self.failure_log.is_some() && !self.is_rung { NAP } else { SLEEP_MAX }
    }

    #[cold]
    pub(super) fn disarm(&self) {
        self.bell.disarm();
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A thread that waits. Whether it gets what it waits for or panics on the way, nobody counts on it any more.
struct Waiting<'a> {
    process: &'a Process,
    patience: Patience,
    policy: Policy,
    /// It is one of the waiting threads, since it has not found what it waits for at once.
    crowded: bool,
    /// It makes the turns of progress for the waiting threads.
    turning: bool,
    /// When the clock was read first.
    begun: Option<Instant>,
    /// It was written for the launcher.
    long: Option<Long>,
}

impl<'a> Waiting<'a> {
    #[inline(always)]
    fn new(process: &'a Process) -> Waiting<'a> {
        let policy = process.policy;
        let patience = Patience::new(policy);
        Waiting { process, patience, policy, crowded: false, turning: false, begun: None, long: None }
    }

    /// Whether this thread is the one that makes the turns; it holds the engine.
    #[inline]
    fn makes_turns(&mut self) -> bool {
        if !self.crowded {
            self.join();
        }
        if !self.turning {
            self.turning = self.process.crowd.take_turns();
        }
        self.turning
    }

    fn join(&mut self) {
        self.crowded = true;
        if !self.process.crowd.enter() && self.policy == Policy::OwnCore {
            self.policy = Policy::Crowd;
            self.patience = Patience::new(self.policy);
        }
    }

    /// Goes to sleep on the bell; others may make the turns.
    fn drops_off(&mut self) {
        if self.crowded {
            self.give_turns_up();
            self.process.crowd.count_awake(-1);
        }
    }

    /// Is back from there.
    fn is_up(&mut self) {
        if self.crowded {
            self.process.crowd.count_awake(1);
        }
    }

    fn give_turns_up(&mut self) {
        if std::mem::take(&mut self.turning) {
            self.process.crowd.give_turns_up();
        }
    }

    #[cold]
    fn tidy(&mut self) {
        self.process.wait_goes_on(&mut self.long);
        if self.patience.is_armed() {
            self.process.disarm();
        }
        if self.crowded {
            self.give_turns_up();
            self.process.crowd.leave();
            self.process.crowd.pass_on(self.process.sleepers.load(Ordering::SeqCst) > 0);
        }
    }
}

impl Drop for Waiting<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.crowded || self.patience.is_armed() || self.long.is_some() {
            self.tidy();
        }
    }
}

/// Looks for what comes by memory, where cores are shared, before messages have a turn.
const LOOKS_BEFORE_TURN: u32 = 8;
/// Looks for what comes by memory, where this process has a core, with short rests between: some
/// microseconds, as long as it takes to copy what one chunk of a collective operation holds. A process that
/// waits longer says so in lines that the others read and write (decisions/0003).
const LOOKS_BEFORE_STANDING: u32 = 192;
/// Short rests in a long one.
const LOOKS_AT_LINE: u32 = 3;
/// Looks of whoever does not wait.
const LOOKS_IN_PASSING: u32 = 7;
/// A thread that stands by asks for the engine after so many looks at nothing but the waiting threads: what
/// it waits for may be nothing that the engine tells of.
const LOOKS_STANDING_BY: u32 = 256;
/// The longest sleep without a look at the process manager.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// The longest sleep without a look at the failure log, where nobody rings.
const NAP: Duration = Duration::from_millis(1);
