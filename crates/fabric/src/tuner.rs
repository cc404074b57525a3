//! Which of two alternatives is faster, found out by taking both: whether data is given or read, whether a
//! long message is pulled or pushed, whether it is sent at once or waits to be read.
//!
//! What each takes depends on what lies between two cores, on how much of the last cache is one's own, on
//! what the program does with its data, and on what others do there meanwhile: a virtual machine's cpus have
//! changed it within seconds. So nothing is taken from what a machine says of itself. The alternative that
//! was faster is taken most of the time, and the other one now and then (docs/decisions/0005, 0088).
//!
//! A [`Tuner`] reads no clock: whoever asks it measures, and tells it. There is one for each decision, peer
//! and size class ([`SizeClasses`]).

/// One of the two alternatives of a [`Tuner`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alternative {
    /// Taken before anything is known.
    First,
    /// The second alternative.
    Second,
}

impl Alternative {
    /// The one that this is not.
    #[must_use]
    pub fn other(self) -> Alternative {
        match self {
            Alternative::First => Alternative::Second,
            Alternative::Second => Alternative::First,
        }
    }
}

/// What is known of operations of one kind, of about one length.
#[derive(Clone, Copy, Debug)]
pub struct Tuner {
    first: Estimate,
    second: Estimate,
    /// The better alternative.
    better: Alternative,
    /// Of how many operations one takes the other; 0 where none does.
    every: u8,
    /// Operations since the other alternative was taken.
    since: u8,
}

impl Default for Tuner {
    fn default() -> Tuner {
        Tuner::NEW
    }
}

impl Tuner {
    /// Nothing is known yet.
    pub const NEW: Tuner = Tuner {
        first: Estimate::UNKNOWN,
        second: Estimate::UNKNOWN,
        better: Alternative::First,
        every: FIRST_OF,
        since: 0,
    };

    /// Which alternative the next operation takes. It is asked once for each operation, and only where both
    /// are possible.
    pub fn choose(&mut self) -> Alternative {
        self.since = self.since.wrapping_add(1);
        if self.every == 0 || self.since < self.every {
            return self.better;
        }
        self.since = 0;
        self.better.other()
    }

    /// Whether an operation that takes that alternative is worth two looks at the clock: not each of those
    /// that go as most do.
    #[must_use]
    pub fn is_timed(&self, taken: Alternative) -> bool {
        self.every == FIRST_OF || taken != self.better || self.since.is_multiple_of(TIMED_OF)
    }

    /// Notes that an operation that took the alternative `taken` needed `byte_ns` nanoseconds for each byte.
    pub fn took(&mut self, taken: Alternative, byte_ns: f32) {
        self.estimate(taken).took(byte_ns);
        self.weigh();
    }

    /// What that alternative takes for each byte, in ns, is computed and never measured: it needs no trying.
    pub fn suppose(&mut self, of: Alternative, byte_ns: f32) {
        *self.estimate(of) = Estimate { ns: byte_ns.max(LEAST_NS), times: SUPPOSED };
        self.weigh();
    }

    /// What that alternative takes for each byte, in ns, as far as it was measured.
    #[must_use]
    pub fn measured(&self, of: Alternative) -> Option<f32> {
        let Estimate { ns, times } = if of == Alternative::First { self.first } else { self.second };
        (1..=FIRST).contains(&times).then_some(ns)
    }

    fn estimate(&mut self, of: Alternative) -> &mut Estimate {
        match of {
            Alternative::First => &mut self.first,
            Alternative::Second => &mut self.second,
        }
    }

    /// Finds the better alternative, and how often the other one is to be tried.
    fn weigh(&mut self) {
        let Tuner { first, second, .. } = *self;
        if second.times == 0 || first.times == 0 {
            (self.better, self.every) = (Alternative::First, FIRST_OF);
            return;
        }
        let is_second = second.ns < WORTH_IT * first.ns;
        self.better = if is_second { Alternative::Second } else { Alternative::First };
        let other = if is_second { first } else { second };
        let apart = first.ns.max(second.ns) / first.ns.min(second.ns);
        self.every = match first.times.min(second.times) {
            _ if other.times == SUPPOSED => 0,
            FIRST.. => {
                TRIED_OF.into_iter().find(|&(most, _)| apart <= most).map_or(FAR_OF, |(_, every)| every)
            }
            _ => FIRST_OF,
        };
    }
}

/// What a byte takes in the mean, in ns: operations that were interrupted say little.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    ns: f32,
    /// Operations that were timed, up to [`FIRST`]; or [`SUPPOSED`].
    times: u8,
}

impl Estimate {
    const UNKNOWN: Estimate = Estimate { ns: 0.0, times: 0 };

    fn took(&mut self, now: f32) {
        // Clocks may stand still.
        let (now, before) = (now.max(LEAST_NS), self.ns);
        self.ns = match self.times {
            0 | SUPPOSED => now,
            1..FIRST => now.min(before),
            _ => before + (now.min(INTERRUPTED * before) - before) / STEP,
        };
        self.times = if self.times == SUPPOSED { 1 } else { FIRST.min(self.times + 1) };
    }
}

/// Lengths that share what is known: each class has lengths of up to twice those of the class before, and the
/// last one all that are longer.
#[derive(Clone, Copy, Debug)]
pub struct SizeClasses {
    /// The shortest length, in bytes, for which there are two alternatives.
    pub from: usize,
    /// How many classes there are.
    pub count: usize,
}

impl SizeClasses {
    /// The class of so many bytes; `None` where they are fewer than [`SizeClasses::from`].
    #[must_use]
    pub fn of(&self, bytes: usize) -> Option<usize> {
        (self.from <= bytes).then(|| ((bytes / self.from).ilog2() as usize).min(self.count - 1))
    }
}

/// So often each alternative is timed before it counts as known.
const FIRST: u8 = 3;
/// More times than any that were timed.
const SUPPOSED: u8 = u8::MAX;
/// One operation of so many tries the other alternative: as long as one is not known; where they are no more
/// than so many times apart; and where they are. Odd numbers: a program may do two kinds of operations in
/// turn.
const FIRST_OF: u8 = 3;
const TRIED_OF: [(f32, u8); 2] = [(1.15, 17), (1.4, 65)];
const FAR_OF: u8 = 201;
/// Of so many that take the better alternative one is timed.
const TIMED_OF: u8 = 7;
/// Both are not the same.
const WORTH_IT: f32 = 0.95;
/// What takes so many times as long as is usual was interrupted, and counts as if it had taken that.
const INTERRUPTED: f32 = 1.6;
/// How much of what an operation took is new. Short and long ones count alike: one alternative may take much
/// longer at one time than at another, and what counts is what it takes in the mean.
const STEP: f32 = 4.0;
const LEAST_NS: f32 = 1e-4;

#[cfg(test)]
mod tests {
    use super::*;

    /// So many operations, which take so long for each byte one way, and the other one; how many went that.
    fn operations(tuner: &mut Tuner, count: u32, [first, second]: [f32; 2]) -> u32 {
        (0..count)
            .filter(|_| {
                let taken = tuner.choose();
                tuner.took(taken, if taken == Alternative::Second { second } else { first });
                taken == Alternative::Second
            })
            .count() as u32
    }

    #[test]
    fn the_quicker_way_is_found_and_kept() {
        let mut tuner = Tuner::NEW;
        assert_eq!(operations(&mut tuner, 2, [0.1, 0.05]), 0, "the first one at first");
        operations(&mut tuner, 11, [0.1, 0.05]);
        assert!(operations(&mut tuner, 1005, [0.1, 0.05]) >= 995);
        let mut tuner = Tuner::NEW;
        operations(&mut tuner, 15, [0.1, 0.2]);
        assert!((4..=6).contains(&operations(&mut tuner, 1005, [0.1, 0.2])));
        let mut tuner = Tuner::NEW;
        operations(&mut tuner, 15, [0.1, 0.098]);
        assert!((9..=11).contains(&operations(&mut tuner, 170, [0.1, 0.098])), "looked at more often");
    }

    /// Where only those are timed that are to be.
    #[test]
    fn few_of_those_that_go_the_better_way_are_timed() {
        let mut tuner = Tuner::NEW;
        let mut run = |count: u32, [first, second]: [f32; 2]| {
            let mut went = [0; 3];
            for _ in 0..count {
                let taken = tuner.choose();
                went[taken as usize] += 1;
                if tuner.is_timed(taken) {
                    went[2] += 1;
                    tuner.took(taken, if taken == Alternative::Second { second } else { first });
                }
            }
            went
        };
        assert_eq!(run(6, [0.1, 0.05])[2], 6, "all, as long as one is not known");
        let [first, _, timed] = run(2010, [0.1, 0.05]);
        assert!(first <= 11 && (280..=310).contains(&timed), "{first} {timed}");
        let [_, second, _] = run(400, [0.1, 0.3]);
        assert!(second <= 60, "{second}: what is taken most of the time has become slow");
    }

    /// One that is quick at times and slow in the mean is not taken for its quick times.
    #[test]
    fn what_counts_is_the_mean() {
        let mut tuner = Tuner::NEW;
        let mut went = 0;
        for number in 0..2000 {
            let taken = tuner.choose();
            let varies = if number % 5 == 0 { 0.04 } else { 0.09 };
            tuner.took(taken, if taken == Alternative::Second { 0.065 } else { varies });
            went += u32::from(taken == Alternative::Second);
        }
        assert!(went > 1700, "{went}");
    }

    #[test]
    fn it_is_found_again_when_it_changes() {
        let mut tuner = Tuner::NEW;
        operations(&mut tuner, 100, [0.08, 0.11]);
        assert!(operations(&mut tuner, 100, [0.16, 0.1]) > 70, "what is taken all the time is known at once");
        operations(&mut tuner, 1000, [0.05, 0.1]);
        assert!(operations(&mut tuner, 200, [0.05, 0.1]) <= 4, "the other has to be looked at some times");
    }

    /// Two kinds of operations in turn, of which one takes longer both ways.
    #[test]
    fn both_of_two_kinds_are_tried() {
        let mut tuner = Tuner::NEW;
        let went_other = (0..2000)
            .filter(|number| {
                let taken = tuner.choose();
                let times = if number % 2 == 0 { 1.0 } else { 2.0 };
                tuner.took(taken, times * if taken == Alternative::Second { 0.05 } else { 0.1 });
                taken == Alternative::Second
            })
            .count();
        assert!(went_other > 1800, "{went_other}");
    }

    #[test]
    fn a_clock_that_stands_still_decides_nothing_for_good() {
        let mut tuner = Tuner::NEW;
        (0..3).for_each(|_| tuner.took(Alternative::Second, 0.0));
        operations(&mut tuner, 400, [0.1, 0.2]);
        assert!(operations(&mut tuner, 400, [0.1, 0.2]) <= 4);
    }

    #[test]
    fn an_interruption_changes_nothing() {
        let mut tuner = Tuner::NEW;
        operations(&mut tuner, 100, [0.1, 0.15]);
        for _ in 0..3 {
            tuner.took(Alternative::First, 1e6);
        }
        assert!(operations(&mut tuner, 64, [0.1, 0.15]) <= 1);
        let mut tuner = Tuner::NEW;
        tuner.took(Alternative::Second, 1e6);
        operations(&mut tuner, 20, [0.1, 0.05]);
        assert!(operations(&mut tuner, 201, [0.1, 0.05]) >= 200, "the first time may be such a one");
    }

    #[test]
    fn what_is_computed_is_not_tried() {
        let mut tuner = Tuner::default();
        tuner.suppose(Alternative::First, 0.1);
        tuner.suppose(Alternative::Second, 0.22);
        assert_eq!(tuner.measured(Alternative::First), None);
        assert!(
            (0..1000).all(|_| tuner.choose() == Alternative::First),
            "the other one would not be measured"
        );
        (0..50).for_each(|_| tuner.took(Alternative::First, 0.3));
        assert!(tuner.measured(Alternative::First).is_some_and(|ns| ns > 0.29));
        let tried = (0..2010).filter(|_| tuner.choose() == Alternative::First).count();
        assert!((30..=31).contains(&tried), "{tried}: one in 65 where they are 1.4 times apart or less");
        (0..3).for_each(|_| tuner.took(Alternative::First, 0.1));
        let timed =
            (0..700).filter(|_| tuner.choose() == Alternative::First && tuner.is_timed(Alternative::First));
        let timed = timed.count();
        assert!((100..=101).contains(&timed), "{timed}: of what goes well one in 7 is timed");
    }

    #[test]
    fn lengths_are_in_classes() {
        let classes = SizeClasses { from: 1000, count: 3 };
        let of = [999, 1000, 1999, 2000, 3999, 4000, usize::MAX].map(|bytes| classes.of(bytes));
        assert_eq!(of, [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(2)]);
    }
}
