//! Waiting politely: spin where ranks have cores of their own, yield where they share them, sleep in the end.
//!
//! A rank that spins on a core that another rank needs keeps it from the very thing it waits for. So the cpus
//! that this process may really use are counted (affinity mask and cgroup quota) and compared with the ranks
//! here.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use collectives::Cores;

use crate::config::{Config, CpuTime, Wait};
use crate::lock::Threads;

/// How the ranks of this process wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Each rank has a core: looking again at once is the fastest.
    OwnCore,
    /// Cores are shared: give the core away after a look.
    SharedCore,
    /// Ranks have cores of their own, but more threads of this one wait than it has cores: give the core away
    /// after a few looks. The other side is mostly running, and so is this one, while two threads answer each
    /// other.
    Crowd,
}

impl Policy {
    /// The policy for ranks that have such cores, unless the user wants another.
    pub fn choose(wait: Wait, cores: Cores) -> Policy {
        match (wait, cores) {
            (Wait::Spin, _) | (Wait::Auto, Cores::Own) => Policy::OwnCore,
            (Wait::Yield, _) | (Wait::Auto, Cores::Shared) => Policy::SharedCore,
        }
    }

    /// Looks at one source between two turns of progress. Another thread may want the engine meanwhile, and
    /// another rank the core.
    pub fn looks(self, threads: Threads) -> u32 {
        match (self, threads) {
            (Policy::OwnCore, Threads::One) => LOOKS_PER_TURN,
            (Policy::OwnCore, Threads::Many) => LOOKS_PER_TURN / 4,
            (Policy::SharedCore | Policy::Crowd, _) => 1,
        }
    }
}

/// The rest between two looks that find nothing.
///
/// A process that looks all the time takes the line away from the process that is about to write into it, and
/// both wait for it. A rest of about the time that a line takes between two cores halves the latency of an
/// exchange, and makes a message that comes at any other time half a rest later.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    pauses: u32,
    short_pauses: u32,
}

impl Rest {
    /// Measured by the clock: processors differ tenfold in what a pause is. Takes a few microseconds.
    pub fn measured() -> Rest {
        let trial = || {
            let since = Instant::now();
            (0..PAUSES_TRIED).for_each(|_| std::hint::spin_loop());
            since.elapsed()
        };
        let shortest = (0..3).map(|_| trial()).min().unwrap_or_default();
        let pause_ns = (shortest.as_nanos() / u128::from(PAUSES_TRIED)).max(1);
        let pauses = |rest: Duration| (rest.as_nanos() / pause_ns).clamp(1, u128::from(PAUSES_TRIED)) as u32;
        Rest { pauses: pauses(REST), short_pauses: pauses(SHORT_REST) }
    }

    /// Rests between two looks at memory that a peer writes.
    #[inline(always)]
    pub fn take(self) {
        (0..self.pauses).for_each(|_| std::hint::spin_loop());
    }

    /// Rests for a shorter time: between two looks where each of two processes writes one line and looks at
    /// the other's.
    #[inline(always)]
    pub fn take_short(self) {
        (0..self.short_pauses).for_each(|_| std::hint::spin_loop());
    }
}

/// Whether each of `ranks` ranks has one of `cpus` cpus for itself.
pub fn cores(ranks: u32, cpus: CpuTime) -> Cores {
    if u64::from(ranks) * 100 <= u64::from(cpus.hundredths) { Cores::Own } else { Cores::Shared }
}

/// How many threads of each of `ranks` ranks on this node may spin at a time, without keeping one another
/// from a cpu.
pub fn room(config: &Config, ranks: u32) -> u32 {
    if config.wait == Wait::Spin {
        return u32::MAX;
    }
    let share = cpus(config).hundredths / 100 / ranks.max(1);
    let allowed = topology::cpus_allowed().map_or(1, |allowed| allowed.len() as u32);
    share.min(allowed).max(1)
}

/// How much of this node's cpus the ranks on it may use together: what the launcher has found out for all of
/// them, or else what this process sees.
///
/// Where the machine does not tell, there is nothing for them: yielding costs little where it was not needed,
/// spinning much where it was wrong.
pub fn cpus(config: &Config) -> CpuTime {
    if let Some(cpus) = config.cpus {
        return cpus;
    }
    match topology::cpus() {
        Ok(cpus) => CpuTime::of(cpus.effective),
        Err(_) => CpuTime::of(0.0),
    }
}

/// One wait: what to do after each look that found nothing.
pub struct Patience {
    policy: Policy,
    /// Since the wait began, or since something came.
    looks: u32,
    /// Looks that are free before the core is given away or the clock is read.
    free: u32,
    since: Option<Instant>,
    armed: Armed,
}

/// Whether the bell is armed: its answer, and then whether the look that follows found anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Armed {
    No,
    Looking(u32),
    Nothing(u32),
    Something,
}

/// What a waiting thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Look again at once.
    Look,
    /// Give the core away, then look.
    Yield,
    /// Arm the bell, then look.
    Arm,
    /// Sleep until the bell rings (unless something came while it was armed), and disarm it.
    Sleep(Option<u32>),
}

impl Patience {
    /// The patience of a wait that begins now.
    #[must_use]
    pub fn new(policy: Policy) -> Patience {
        let free = match policy {
            Policy::OwnCore => LOOKS_BEFORE_CLOCK,
            Policy::SharedCore => 0,
            Policy::Crowd => LOOKS_IN_A_CROWD,
        };
        Patience { policy, looks: 0, free, since: None, armed: Armed::No }
    }

    /// Notes what a look has found. When something came, though not what is waited for, the patience is fresh
    /// again. Whoever sent it may be sending more on another core at this moment, so a few looks are worth it
    /// also where cores are shared.
    #[inline]
    pub fn looked(&mut self, happened: usize) {
        if happened > 0 {
            self.looks = 0;
            self.since = None;
            self.free = self.free.max(LOOKS_AFTER_NEWS);
        }
        if let Armed::Looking(armed) = self.armed {
            self.armed = if happened > 0 { Armed::Something } else { Armed::Nothing(armed) };
        }
    }

    /// Notes that the bell was armed, and its answer.
    pub fn armed(&mut self, answer: u32) {
        self.armed = Armed::Looking(answer);
    }

    /// Whether the bell must be disarmed.
    #[inline]
    pub fn is_armed(&self) -> bool {
        self.armed != Armed::No
    }

    /// What to do now that a look has found nothing that is waited for. Nobody gives a core away that stays
    /// away: it is slept instead.
    #[inline]
    pub fn next(&mut self, yields: &Yields) -> Next {
        if self.is_armed() {
            return self.asleep();
        }
        self.looks += 1;
        if self.looks <= self.free {
            return Next::Look;
        }
        let (limit, before_limit) = match self.policy {
            Policy::OwnCore => (SPIN, Next::Look),
            Policy::SharedCore | Policy::Crowd => (YIELD, Next::Yield),
        };
        if before_limit == Next::Yield && yields.are_slow() {
            // Who sleeps is asked since when.
            self.waited();
            return Next::Arm;
        }
        if !self.looks.is_multiple_of(LOOKS_PER_CLOCK) || self.waited() < limit {
            before_limit
        } else {
            Next::Arm
        }
    }

    #[cold]
    fn asleep(&mut self) -> Next {
        match std::mem::replace(&mut self.armed, Armed::No) {
            Armed::Nothing(armed) => Next::Sleep(Some(armed)),
            _ => Next::Sleep(None),
        }
    }

    /// Since when nothing has come, as far as the clock was read.
    pub fn quiet_since(&self) -> Option<Instant> {
        self.since
    }

    fn waited(&mut self) -> Duration {
        self.since.get_or_insert_with(Instant::now).elapsed()
    }
}

/// Whether the core that a thread of this process gives away comes back soon.
///
/// Other ranks that wait give it back within microseconds. A program that never waits keeps it for a slice of
/// the scheduler's, and newer kernels count what was given away as used: who only gives away hardly runs. Who
/// sleeps loses nothing, and comes before such a program when it is woken, but to sleep and be woken takes
/// far longer than a yield among ranks that wait. So when much of some time was lost to such absences, waits
/// sleep at once for a while; a single one means nothing. The while grows as long as the core still stays
/// away when it is tried again.
#[derive(Debug)]
pub struct Yields {
    begun: Instant,
    /// How often the core was given away.
    given: AtomicU32,
    /// Until when each yield is timed, in nanoseconds from the beginning; 0 while only some are.
    watched_until_ns: AtomicU64,
    /// What was lost to long absences since then, in nanoseconds.
    lost_ns: AtomicU64,
    /// Until when waits sleep at once; 0 while they do not.
    until_ns: AtomicU64,
    /// How long they did the last time; 0 where the core has come back soon since.
    while_ns: AtomicU64,
}

impl Default for Yields {
    fn default() -> Yields {
        Yields {
            begun: Instant::now(),
            given: AtomicU32::new(0),
            watched_until_ns: AtomicU64::new(0),
            lost_ns: AtomicU64::new(0),
            until_ns: AtomicU64::new(0),
            while_ns: AtomicU64::new(0),
        }
    }
}

impl Yields {
    /// Gives the core away for a moment.
    #[inline]
    pub fn give_away(&self) {
        // Threads that do so at the same time may count as one.
        let given = self.given.load(Ordering::Relaxed);
        self.given.store(given.wrapping_add(1), Ordering::Relaxed);
        if !given.is_multiple_of(YIELDS_PER_CLOCK) && !self.is_watching() {
            return std::thread::yield_now();
        }
        let since = Instant::now();
        std::thread::yield_now();
        let now = Instant::now();
        self.note(now - since, now - self.begun);
    }

    /// Whether each yield of this thread is timed.
    #[inline]
    fn is_watching(&self) -> bool {
        self.watched_until_ns.load(Ordering::Relaxed) != 0 && QUICK.get() < QUICK_ENOUGH
    }

    /// The core was away for so long, until `now` from the beginning.
    fn note(&self, away: Duration, now: Duration) {
        let (away_ns, now_ns) = (away.as_nanos() as u64, now.as_nanos() as u64);
        QUICK.set(if away < LONG_AWAY { QUICK.get().saturating_add(1) } else { 0 });
        let is_watch_over = now_ns.saturating_sub(away_ns) >= self.watched_until_ns.load(Ordering::Relaxed);
        if is_watch_over {
            self.watched_until_ns.store(0, Ordering::Relaxed);
            self.while_ns.store(0, Ordering::Relaxed);
            self.lost_ns.store(0, Ordering::Relaxed);
        }
        // While ranks start, those that wait give way to those that still load their libraries.
        if away < LONG_AWAY || now < STARTING {
            return;
        }
        let watch_ns = WATCH.as_nanos() as u64;
        if is_watch_over {
            self.watched_until_ns.store(now_ns + watch_ns, Ordering::Relaxed);
        }
        let lost_ns = self.lost_ns.load(Ordering::Relaxed) + away_ns;
        let last = self.while_ns.load(Ordering::Relaxed);
        if last == 0 && lost_ns < LOST_MAX.as_nanos() as u64 {
            return self.lost_ns.store(lost_ns, Ordering::Relaxed);
        }
        let next = (2 * last).clamp(LOST_MAX.as_nanos() as u64, WHILE_MAX.as_nanos() as u64);
        self.while_ns.store(next, Ordering::Relaxed);
        self.until_ns.store(now_ns + next, Ordering::Relaxed);
        self.watched_until_ns.store(now_ns + next + watch_ns, Ordering::Relaxed);
    }

    /// Whether who waits now had better sleep.
    #[inline]
    pub fn are_slow(&self) -> bool {
        self.until_ns.load(Ordering::Relaxed) != 0 && self.are_slow_at(self.begun.elapsed())
    }

    #[cold]
    fn are_slow_at(&self, now: Duration) -> bool {
        let are_slow = (now.as_nanos() as u64) < self.until_ns.load(Ordering::Relaxed);
        if !are_slow {
            self.until_ns.store(0, Ordering::Relaxed);
        }
        are_slow
    }
}

thread_local! {
    /// How many yields of this thread that were timed have been quick, one behind the other.
    static QUICK: Cell<u32> = const { Cell::new(0) };
}

/// About as long as a line takes from one core to another and back.
const REST: Duration = Duration::from_nanos(70);
/// Where both write a line of their own and look at the other's, who rests longer only sees it later
/// (decisions/0005).
const SHORT_REST: Duration = Duration::from_nanos(25);
const PAUSES_TRIED: u32 = 64;
/// A look at one source takes a tenth of a turn of progress. With so many between two turns, a message is
/// mostly found by a look, and the others wait a fraction of a microsecond longer for theirs.
const LOOKS_PER_TURN: u32 = 8;
/// Looks that pass before the clock is read at all: most waits are over by then.
const LOOKS_BEFORE_CLOCK: u32 = 256;
/// The clock is read once per so many looks, or turns of others.
const LOOKS_PER_CLOCK: u32 = 32;
/// About as long as it takes to wake a sleeper on a virtual machine.
const SPIN: Duration = Duration::from_micros(50);
/// Where cores are shared, whoever is waited for mostly has yet to run: a look more finds nothing and costs
/// all. Only where something has come, so many are made.
const LOOKS_AFTER_NEWS: u32 = 2;
/// Turns that an answer takes at most which comes from a thread that runs.
const LOOKS_IN_A_CROWD: u32 = 16;
/// A rank that has yielded so long waits for something slow.
const YIELD: Duration = Duration::from_millis(2);
/// A core that is given away for longer was with a program that never waits: more than all ranks of a full
/// node take that look, find nothing, and give the core on; less than a slice.
pub const LONG_AWAY: Duration = Duration::from_millis(1);
/// The clock is read around one of so many yields: twice, it takes a fifth of what a yield does.
const YIELDS_PER_CLOCK: u32 = 32;
/// A thread to which its core has come back soon so often, one time behind the other, times one of
/// [`YIELDS_PER_CLOCK`] again, also while the yields of the process are watched: another thread may be on a
/// core that stays away.
const QUICK_ENOUGH: u32 = 64;
/// So long after the process has become part of the job a long absence means nothing.
const STARTING: Duration = Duration::from_millis(100);
/// After a long absence all yields of so long are timed.
const WATCH: Duration = Duration::from_millis(25);
/// When as much of that was lost, waits sleep at once, first for as long again.
const LOST_MAX: Duration = Duration::from_millis(10);
/// And for so long at most: a slice that is lost whenever a yield is tried again is little beside that.
const WHILE_MAX: Duration = Duration::from_millis(160);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_as_soon_as_one_rank_has_none() {
        let (two, one_and_a_half) = (CpuTime::of(2.0), CpuTime::of(1.5));
        assert_eq!((cores(2, two), cores(3, two)), (Cores::Own, Cores::Shared));
        assert_eq!((cores(1, one_and_a_half), cores(2, one_and_a_half)), (Cores::Own, Cores::Shared));
        assert_eq!(cores(1 << 24, CpuTime::UNLIMITED), Cores::Own);
        assert_eq!(cores(1, CpuTime::of(0.0)), Cores::Shared);
    }

    #[test]
    fn what_the_launcher_found_counts() {
        let told = Config { cpus: Some(CpuTime::of(0.5)), ..Config::default() };
        assert_eq!(cpus(&told), CpuTime::of(0.5));
        assert!(cpus(&Config::default()) > CpuTime::of(0.0), "there is a cpu to run this on");
    }

    #[test]
    fn shared_cores_are_given_away_at_once_and_nobody_spins_for_ever() {
        let cores = Yields::default();
        for policy in [Policy::OwnCore, Policy::SharedCore, Policy::Crowd] {
            let mut patience = Patience::new(policy);
            let mut looks = 0u32;
            let mut yields = 0u32;
            loop {
                match patience.next(&cores) {
                    Next::Look => looks += 1,
                    Next::Yield => yields += 1,
                    Next::Arm => break,
                    Next::Sleep(_) => unreachable!("nothing was armed"),
                }
                assert!(looks + yields < 1_000_000_000, "spins for ever");
            }
            match policy {
                Policy::OwnCore => assert_eq!(yields, 0),
                Policy::SharedCore => assert!(looks == 0 && yields > 0),
                Policy::Crowd => assert!(looks == LOOKS_IN_A_CROWD && yields > 0),
            }
        }
    }

    #[test]
    fn a_core_that_stays_away_is_slept_for() {
        let (yields, ms) = (Yields::default(), Duration::from_millis);
        let sleeps_from_to = |from: Duration, to: Duration| {
            yields.until_ns.load(Ordering::Relaxed) != 0
                && yields.are_slow_at(from)
                && yields.are_slow_at(to - Duration::from_millis(1))
                && !yields.are_slow_at(to)
        };
        let slice = ms(4);
        (0..5).for_each(|at| yields.note(slice, ms(5 * at)));
        assert!(!yields.are_slow(), "others start");
        let ms = |after: u64| STARTING + ms(after);
        yields.note(slice, ms(10));
        yields.note(Duration::ZERO, ms(15));
        assert!(!yields.are_slow(), "once means nothing");
        yields.note(slice, ms(45));
        yields.note(slice, ms(85));
        assert!(!yields.are_slow(), "nor now and then");
        yields.note(slice, ms(90));
        yields.note(Duration::ZERO, ms(91));
        yields.note(slice, ms(100));
        assert!(sleeps_from_to(ms(100), ms(100) + LOST_MAX), "most of the time");
        yields.note(slice, ms(120));
        assert!(sleeps_from_to(ms(120), ms(120) + 2 * LOST_MAX), "it is still away");
        let mut now = ms(120);
        for _ in 0..8 {
            now += Duration::from_nanos(yields.while_ns.load(Ordering::Relaxed)) + 2 * slice;
            yields.note(slice, now);
        }
        assert!(sleeps_from_to(now, now + WHILE_MAX));
        let over = now + WHILE_MAX + WATCH;
        yields.note(Duration::ZERO, over);
        yields.note(slice, over + slice);
        assert!(!yields.are_slow_at(over + slice), "it has come back soon meanwhile");
        // A process that was stopped for an hour loses little more.
        let hour = Duration::from_secs(3600);
        yields.note(hour, over + hour);
        assert!(sleeps_from_to(over + hour, over + hour + LOST_MAX));
    }

    #[test]
    fn a_core_that_comes_back_soon_is_timed_seldom() {
        let yields = Yields::default();
        let (slice, now) = (Duration::from_millis(4), STARTING + Duration::from_millis(10));
        assert!(!yields.is_watching());
        for _ in 0..2 {
            yields.note(slice, now);
            (1..QUICK_ENOUGH).for_each(|_| yields.note(Duration::ZERO, now));
            assert!(yields.is_watching());
            yields.note(Duration::ZERO, now);
            assert!(!yields.is_watching(), "of this thread");
            std::thread::scope(|scope| scope.spawn(|| assert!(yields.is_watching())).join().unwrap());
        }
        assert_eq!(
            yields.lost_ns.load(Ordering::Relaxed),
            2 * slice.as_nanos() as u64,
            "nothing is forgotten"
        );
    }

    #[test]
    fn news_on_a_shared_core_is_worth_a_few_looks() {
        let (mut patience, yields) = (Patience::new(Policy::SharedCore), Yields::default());
        for _ in 0..3 {
            assert_eq!(patience.next(&yields), Next::Yield);
            patience.looked(1);
            let looks = (0..).take_while(|_| patience.next(&yields) == Next::Look).count();
            assert_eq!(looks as u32, LOOKS_AFTER_NEWS);
        }
    }
}
