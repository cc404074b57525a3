//! Hosts that have gone without a word: who has sent them something and hears nothing, not even that it has
//! come, takes their processes for dead after a while (`WEFT_NODE_TIMEOUT`). A host answers as long as it
//! runs, whatever its processes do. Idle connections are probed by the kernel.

use std::time::{Duration, Instant};

use super::{State, Tcp};
use crate::system::{self, Unanswered};

/// How long a host has been silent on one connection, as far as it was looked.
#[derive(Default)]
pub(crate) struct Silence {
    /// The first look that found something unanswered, of those since the last one that did not.
    since: Option<Instant>,
}

impl Silence {
    /// A look that found so much unanswered; how long the host has been silent, where that is longer than the
    /// limit.
    ///
    /// One question may be lost on the way, or not be answered yet, however long it is since the last answer:
    /// where nobody there reads, the kernel asks less and less often. And two looks with something unanswered
    /// may be far apart, with answers between them: who computes does not look.
    pub(crate) fn longer_than(
        &mut self,
        limit: Duration,
        now: Instant,
        found: Unanswered,
    ) -> Option<Duration> {
        if found.times == 0 {
            self.since = None;
            return None;
        }
        let silent = now.saturating_duration_since(*self.since.get_or_insert(now)).min(found.last);
        (silent >= limit && found.times >= TIMES_MIN).then_some(silent)
    }
}

impl Tcp {
    /// Looks for such hosts; the next poll tells of them.
    #[cold]
    pub(super) fn look_for_silence(&mut self) {
        if self.silence_looked_for.elapsed() < self.node_timeout / LOOKS {
            return;
        }
        let now = Instant::now();
        self.silence_looked_for = now;
        for index in 0..self.links.len() as u32 {
            let State::Open(open) = &mut self.links[index as usize].state else { continue };
            let unanswered = system::unanswered(&open.socket);
            let Some(silent) = open.silence.longer_than(self.node_timeout, now, unanswered) else { continue };
            let ended =
                open.broken(format!("its host has answered nothing for {:.1} s", silent.as_secs_f64()));
            self.end(index, ended);
        }
    }
}

/// Where nobody says otherwise.
pub(super) const NODE_TIMEOUT: Duration = Duration::from_secs(90);
/// In the time that a host may be silent.
const LOOKS: u32 = 16;
/// Fewer questions without an answer say nothing.
pub(crate) const TIMES_MIN: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(90);

    /// What looks come to, each so many seconds after the first, with so many questions unanswered and the
    /// last answer so old.
    fn looks(looks: &[(u64, u32, u64)]) -> Vec<Option<u64>> {
        let (mut silence, first) = (Silence::default(), Instant::now());
        let look = |&(second, times, last): &(u64, u32, u64)| {
            let found = Unanswered { times, last: Duration::from_secs(last) };
            let silent = silence.longer_than(LIMIT, first + Duration::from_secs(second), found);
            silent.map(|silent| silent.as_secs())
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn a_host_is_silent_when_nothing_was_answered_for_so_long() {
        let found = looks(&[(0, 0, 0), (10, 1, 10), (60, 5, 60), (99, 7, 99), (100, 7, 100)]);
        assert_eq!(found, [None, None, None, None, Some(90)]);
    }

    #[test]
    fn an_answer_ends_it() {
        let found = looks(&[(0, 5, 5), (50, 0, 1), (60, 3, 11), (95, 6, 46), (150, 9, 101)]);
        assert_eq!(found, [None, None, None, None, Some(90)]);
    }

    /// A connection that was idle, or whose receiver has no room, for minutes: the last answer is old, and
    /// one question is on its way.
    #[test]
    fn one_question_that_was_lost_is_no_silence() {
        assert_eq!(looks(&[(0, 1, 600), (91, 1, 691), (119, 2, 719), (239, 0, 0)]), [None, None, None, None]);
        assert_eq!(looks(&[(0, 1, 600), (119, 2, 719), (240, 3, 840)]), [None, None, Some(240)]);
    }

    /// Each of them is found with something unanswered, and between them all was.
    #[test]
    fn two_looks_that_are_far_apart_are_no_silence() {
        assert_eq!(looks(&[(0, 1, 1), (3600, 3, 2)]), [None, None]);
    }
}
