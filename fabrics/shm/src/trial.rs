//! Which of two ways to write is quicker, found out by taking both.
//!
//! What stores past the caches are worth depends on what lies between two cores, on how much of the last cache is one's own, and on what
//! others do there meanwhile: a virtual machine's cpus have changed it within seconds. So nothing is taken from what a machine says of
//! itself. The way that was quicker is taken most of the time, and the other one now and then (docs/decisions/0074).

use fabric::Stores;

/// What is known of operations of one kind, of about one length.
#[derive(Clone, Copy)]
pub struct Trial {
    cached: Usual,
    past: Usual,
    /// What stores past the caches must gain for each byte, in ns.
    least_gain_ns: f32,
    /// Operations since the other way was taken.
    since: u8,
}

impl Trial {
    /// Of data that is read within the operation: then it has cost what it costs.
    pub const READ: Trial = Trial::new(0.0);
    /// Of data that is left to the program: if it reads that soon, it has to fetch from memory what was written past the caches.
    pub const LEFT: Trial = Trial::new(0.08);

    const fn new(least_gain_ns: f32) -> Trial {
        Trial { cached: Usual(None), past: Usual(None), least_gain_ns, since: 0 }
    }

    /// How the next operation writes. It is asked once for each.
    pub fn choose(&mut self) -> Stores {
        let (better, every) = self.standing();
        self.since = self.since.saturating_add(1);
        if !Stores::ARE_TWO || self.since < every {
            return better;
        }
        self.since = 0;
        match better {
            Stores::Cached => Stores::Past,
            Stores::Past => Stores::Cached,
        }
    }

    /// The better way, and of how many operations one takes the other.
    fn standing(&self) -> (Stores, u8) {
        let (Some(cached), Some(past)) = (self.cached.0, self.past.0) else {
            return (Stores::Cached, FIRST_OF);
        };
        let better =
            if past + self.least_gain_ns < WORTH_IT * cached { Stores::Past } else { Stores::Cached };
        let apart = cached.max(past) / cached.min(past);
        let (_, every) = TRIED_OF.into_iter().find(|&(most, _)| apart <= most).unwrap_or((apart, FAR_OF));
        (better, every)
    }

    /// An operation that has written so took so long for each byte.
    pub fn took(&mut self, stores: Stores, byte_ns: f32) {
        match stores {
            Stores::Cached => self.cached.took(byte_ns),
            Stores::Past => self.past.took(byte_ns),
        }
    }
}

/// What a byte takes as a rule, in ns: operations that were interrupted, or waited for the other, say little, and quick ones much.
#[derive(Clone, Copy)]
struct Usual(Option<f32>);

impl Usual {
    fn took(&mut self, now: f32) {
        self.0 = Some(match self.0 {
            None => now,
            Some(before) if now < before => f32::midpoint(before, now),
            Some(before) => before + (now - before).min(before) / RISE,
        });
    }
}

/// As long as one way is not known.
const FIRST_OF: u8 = 4;
/// Where one takes no more than so many times the other, it is seldom or often looked which one is better.
const TRIED_OF: [(f32, u8); 2] = [(1.15, 16), (1.4, 64)];
const FAR_OF: u8 = 200;
/// Both are not the same.
const WORTH_IT: f32 = 0.95;
/// How slowly what is usual becomes longer.
const RISE: f32 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// So many operations, which take so long for each byte by the caches, and past them; how many went past.
    fn operations(trial: &mut Trial, count: u32, [cached, past]: [f32; 2]) -> u32 {
        (0..count)
            .filter(|_| {
                let stores = trial.choose();
                trial.took(stores, if stores == Stores::Past { past } else { cached });
                stores == Stores::Past
            })
            .count() as u32
    }

    #[test]
    fn the_quicker_way_is_found_and_kept() {
        let mut trial = Trial::READ;
        assert_eq!(operations(&mut trial, 3, [0.1, 0.05]), 0, "by the caches at first");
        operations(&mut trial, 2, [0.1, 0.05]);
        assert_eq!(operations(&mut trial, 1000, [0.1, 0.05]), 995);
        let mut trial = Trial::READ;
        operations(&mut trial, 5, [0.1, 0.2]);
        assert_eq!(operations(&mut trial, 1000, [0.1, 0.2]), 5);
        let mut trial = Trial::READ;
        operations(&mut trial, 5, [0.1, 0.095]);
        assert_eq!(operations(&mut trial, 160, [0.1, 0.098]), 10, "not worth it, and looked at more often");
        let mut trial = Trial::LEFT;
        operations(&mut trial, 5, [0.2, 0.14]);
        assert!(operations(&mut trial, 640, [0.2, 0.14]) <= 10, "it would take longer to be read");
        operations(&mut trial, 300, [0.4, 0.25]);
        assert!(operations(&mut trial, 640, [0.4, 0.25]) >= 630);
    }

    #[test]
    fn it_is_found_again_when_it_changes() {
        let mut trial = Trial::READ;
        operations(&mut trial, 100, [0.08, 0.11]);
        assert!(operations(&mut trial, 100, [0.16, 0.1]) > 70, "what is taken all the time is known at once");
        operations(&mut trial, 1000, [0.05, 0.1]);
        assert!(operations(&mut trial, 200, [0.05, 0.1]) <= 4, "the other has to be looked at some times");
    }

    #[test]
    fn an_interruption_changes_nothing() {
        let mut trial = Trial::READ;
        operations(&mut trial, 100, [0.1, 0.15]);
        for _ in 0..3 {
            trial.took(Stores::Cached, 1e6);
        }
        assert!(operations(&mut trial, 64, [0.1, 0.15]) <= 1);
    }
}
