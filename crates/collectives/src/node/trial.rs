//! Which of two ways to bring data to another process is quicker, found out by taking both.
//!
//! What stores past the caches are worth, or reads of the other's memory, depends on what lies between two cores, on how much of the last
//! cache is one's own, on what the program does with its data, and on what others do there meanwhile: a virtual machine's cpus have changed
//! it within seconds. So nothing is taken from what a machine says of itself. The way that was quicker is taken most of the time, and the
//! other one now and then (docs/decisions/0074, 0075).

/// One of two ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Taken before anything is known.
    First,
    /// The other one.
    Second,
}

/// What is known of operations of one kind, of about one length.
#[derive(Clone, Copy)]
pub struct Trial {
    first: Usual,
    second: Usual,
    /// What the second way must gain for each byte, in ns.
    least_gain_ns: f32,
    /// The better way, and of how many operations one takes the other.
    standing: (Way, u8),
    /// Operations since the other way was taken.
    since: u8,
}

impl Trial {
    /// Of data that is read within the operation: then it has cost what it costs.
    pub const READ: Trial = Trial::new(0.0);
    /// Of data that is left to the program: if it reads that soon, it has to fetch from memory what was written past the caches.
    pub const LEFT: Trial = Trial::new(0.08);

    const fn new(least_gain_ns: f32) -> Trial {
        let standing = (Way::First, FIRST_OF);
        Trial { first: Usual::UNKNOWN, second: Usual::UNKNOWN, least_gain_ns, standing, since: 0 }
    }

    /// How the next operation goes. It is asked once for each, and only where there are two ways.
    pub fn choose(&mut self) -> Way {
        let (better, every) = self.standing;
        self.since = self.since.saturating_add(1);
        if self.since < every {
            return better;
        }
        self.since = 0;
        match better {
            Way::First => Way::Second,
            Way::Second => Way::First,
        }
    }

    /// Whether an operation that goes that way is worth two looks at the clock: not each of those that go as most do.
    #[must_use]
    pub fn is_timed(&self, way: Way) -> bool {
        let (better, every) = self.standing;
        every == FIRST_OF || way != better || self.since.is_multiple_of(TIMED_OF)
    }

    fn found(&self) -> (Way, u8) {
        let [Usual { ns: first, times }, Usual { ns: second, times: second_times }] =
            [self.first, self.second];
        if second_times == 0 {
            return (Way::First, FIRST_OF);
        }
        let better = if second + self.least_gain_ns < WORTH_IT * first { Way::Second } else { Way::First };
        let apart = first.max(second) / first.min(second);
        let (_, every) = match times.min(second_times) {
            FIRST.. => TRIED_OF.into_iter().find(|&(most, _)| apart <= most).unwrap_or((apart, FAR_OF)),
            _ => (apart, FIRST_OF),
        };
        (better, every)
    }

    /// An operation that went so took so long for each byte.
    pub fn took(&mut self, way: Way, byte_ns: f32) {
        match way {
            Way::First => self.first.took(byte_ns),
            Way::Second => self.second.took(byte_ns),
        }
        self.standing = self.found();
    }
}

/// What a byte takes as a rule, in ns: operations that were interrupted, or waited for the other, say little, and quick ones much. Slower to
/// rise than a [`Mean`](crate::pace::Mean) of copies, since these wait for nobody.
#[derive(Clone, Copy)]
struct Usual {
    ns: f32,
    /// Operations that were timed, as long as they are few.
    times: u8,
}

impl Usual {
    const UNKNOWN: Usual = Usual { ns: 0.0, times: 0 };

    fn took(&mut self, now: f32) {
        // Clocks may stand still.
        let (now, before) = (now.max(LEAST_NS), self.ns);
        self.ns = match self.times {
            0 => now,
            1..FIRST => now.min(before),
            _ if now < before => f32::midpoint(before, now),
            _ => before + (now - before).min(before) / RISE,
        };
        self.times = FIRST.min(self.times + 1);
    }
}

/// So often each way is timed before it counts as known.
const FIRST: u8 = 3;
/// One operation of so many tries the other way: as long as one is not known; where they are no more than so many times apart; and where
/// they are. Odd numbers: a program may do two kinds of operations in turn.
const FIRST_OF: u8 = 5;
const TRIED_OF: [(f32, u8); 2] = [(1.15, 17), (1.4, 65)];
const FAR_OF: u8 = 201;
/// Of so many that go the better way one is timed.
const TIMED_OF: u8 = 7;
/// Both are not the same.
const WORTH_IT: f32 = 0.95;
/// How slowly what is usual becomes longer.
const RISE: f32 = 8.0;
const LEAST_NS: f32 = 1e-4;

#[cfg(test)]
mod tests {
    use super::*;

    /// So many operations, which take so long for each byte one way, and the other one; how many went that.
    fn operations(trial: &mut Trial, count: u32, [first, second]: [f32; 2]) -> u32 {
        (0..count)
            .filter(|_| {
                let way = trial.choose();
                trial.took(way, if way == Way::Second { second } else { first });
                way == Way::Second
            })
            .count() as u32
    }

    #[test]
    fn the_quicker_way_is_found_and_kept() {
        let mut trial = Trial::READ;
        assert_eq!(operations(&mut trial, 4, [0.1, 0.05]), 0, "the first one at first");
        operations(&mut trial, 11, [0.1, 0.05]);
        assert!(operations(&mut trial, 1005, [0.1, 0.05]) >= 995);
        let mut trial = Trial::READ;
        operations(&mut trial, 15, [0.1, 0.2]);
        assert!((4..=6).contains(&operations(&mut trial, 1005, [0.1, 0.2])));
        let mut trial = Trial::READ;
        operations(&mut trial, 15, [0.1, 0.098]);
        assert!((9..=11).contains(&operations(&mut trial, 170, [0.1, 0.098])), "looked at more often");
        let mut trial = Trial::LEFT;
        operations(&mut trial, 15, [0.2, 0.14]);
        assert!(operations(&mut trial, 650, [0.2, 0.14]) <= 10, "it would take longer to be read");
        operations(&mut trial, 300, [0.4, 0.25]);
        assert!(operations(&mut trial, 650, [0.4, 0.25]) >= 630);
    }

    /// Where only those are timed that are to be.
    #[test]
    fn few_of_those_that_go_the_better_way_are_timed() {
        let mut trial = Trial::READ;
        let mut run = |count: u32, [first, second]: [f32; 2]| {
            let mut went = [0; 3];
            for _ in 0..count {
                let way = trial.choose();
                went[way as usize] += 1;
                if trial.is_timed(way) {
                    went[2] += 1;
                    trial.took(way, if way == Way::Second { second } else { first });
                }
            }
            went
        };
        assert_eq!(run(7, [0.1, 0.05])[2], 7, "all, as long as one is not known");
        let [first, _, timed] = run(2010, [0.1, 0.05]);
        assert!(first <= 11 && (280..=310).contains(&timed), "{first} {timed}");
        let [_, second, _] = run(400, [0.1, 0.3]);
        assert!(second <= 60, "{second}: what is taken most of the time has become slow");
    }

    #[test]
    fn it_is_found_again_when_it_changes() {
        let mut trial = Trial::READ;
        operations(&mut trial, 100, [0.08, 0.11]);
        assert!(operations(&mut trial, 100, [0.16, 0.1]) > 70, "what is taken all the time is known at once");
        operations(&mut trial, 1000, [0.05, 0.1]);
        assert!(operations(&mut trial, 200, [0.05, 0.1]) <= 4, "the other has to be looked at some times");
    }

    /// Two kinds of operations in turn, of which one takes longer both ways.
    #[test]
    fn both_of_two_kinds_are_tried() {
        let mut trial = Trial::READ;
        let went_other = (0..2000)
            .filter(|number| {
                let way = trial.choose();
                let times = if number % 2 == 0 { 1.0 } else { 2.0 };
                trial.took(way, times * if way == Way::Second { 0.05 } else { 0.1 });
                way == Way::Second
            })
            .count();
        assert!(went_other > 1800, "{went_other}");
    }

    #[test]
    fn a_clock_that_stands_still_decides_nothing_for_good() {
        let mut trial = Trial::READ;
        (0..3).for_each(|_| trial.took(Way::Second, 0.0));
        operations(&mut trial, 400, [0.1, 0.2]);
        assert!(operations(&mut trial, 400, [0.1, 0.2]) <= 4);
    }

    #[test]
    fn an_interruption_changes_nothing() {
        let mut trial = Trial::READ;
        operations(&mut trial, 100, [0.1, 0.15]);
        for _ in 0..3 {
            trial.took(Way::First, 1e6);
        }
        assert!(operations(&mut trial, 64, [0.1, 0.15]) <= 1);
        let mut trial = Trial::READ;
        trial.took(Way::Second, 1e6);
        operations(&mut trial, 20, [0.1, 0.05]);
        assert!(operations(&mut trial, 201, [0.1, 0.05]) >= 200, "the first time may be such a one");
    }
}
