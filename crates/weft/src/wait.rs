//! Waiting politely: spin where ranks have cores of their own, yield where they share them, sleep in the end.
//!
//! A rank that spins on a core that another rank needs keeps it from the very thing it waits for. So the cpus that
//! this process may really use are counted (affinity mask and cgroup quota) and compared with the ranks here.

use std::time::{Duration, Instant};

use crate::config::Wait;

/// How the ranks of this process wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    /// Each rank has a core: looking again at once is the fastest.
    OwnCore,
    /// Cores are shared: give the core away after a look.
    SharedCore,
}

impl Policy {
    /// The policy for `ranks` ranks on this node. `bound`: the launcher has given each of them cores of its own,
    /// so that the affinity mask of one says nothing of the others.
    pub(crate) fn choose(wait: Wait, ranks: u32, bound: bool) -> Policy {
        match wait {
            Wait::Spin => Policy::OwnCore,
            Wait::Yield => Policy::SharedCore,
            Wait::Auto if f64::from(ranks) <= cpus(bound) => Policy::OwnCore,
            Wait::Auto => Policy::SharedCore,
        }
    }
}

/// Cpus that the ranks of this node may use together. Where the machine does not tell, they are taken as shared:
/// yielding costs little where it was not needed, spinning much where it was wrong.
fn cpus(bound: bool) -> f64 {
    match topology::cpus() {
        Ok(cpus) if bound => cpus.quota.unwrap_or(f64::INFINITY),
        Ok(cpus) => cpus.effective,
        Err(_) => 0.0,
    }
}

/// One wait: what to do after each look that found nothing.
pub(crate) struct Patience {
    policy: Policy,
    looks: u32,
    since: Option<Instant>,
    armed: Armed,
    has_looked: bool,
}

/// Whether the bell is armed: its answer, and then whether the look that follows found anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Armed {
    No,
    Looking(u32),
    Nothing(u32),
    Something,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
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
    pub(crate) fn new(policy: Policy) -> Patience {
        Patience { policy, looks: 0, since: None, armed: Armed::No, has_looked: false }
    }

    /// Notes what a look has found. When something came, though not what is waited for, the patience is fresh again.
    #[inline]
    pub(crate) fn looked(&mut self, happened: usize) {
        self.has_looked = true;
        if happened > 0 {
            self.looks = 0;
            self.since = None;
        }
        if let Armed::Looking(armed) = self.armed {
            self.armed = if happened > 0 { Armed::Something } else { Armed::Nothing(armed) };
        }
    }

    /// Whether there was a look at all.
    #[inline]
    pub(crate) fn has_looked(&self) -> bool {
        self.has_looked
    }

    /// Notes the bell's answer.
    pub(crate) fn armed(&mut self, answer: u32) {
        self.armed = Armed::Looking(answer);
    }

    /// Whether the bell must be disarmed.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.armed != Armed::No
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Next {
        if self.is_armed() {
            return self.asleep();
        }
        self.looks += 1;
        let (free_looks, limit, before_limit) = match self.policy {
            Policy::OwnCore => (LOOKS_BEFORE_CLOCK, SPIN, Next::Look),
            Policy::SharedCore => (LOOKS_BEFORE_YIELD, YIELD, Next::Yield),
        };
        let unclocked = self.policy == Policy::OwnCore && !self.looks.is_multiple_of(LOOKS_PER_CLOCK);
        if self.looks <= free_looks || unclocked {
            Next::Look
        } else if self.waited() < limit {
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

    fn waited(&mut self) -> Duration {
        self.since.get_or_insert_with(Instant::now).elapsed()
    }
}

/// Looks that pass before the clock is read at all: most waits are over by then.
const LOOKS_BEFORE_CLOCK: u32 = 256;
/// The clock is read once per so many looks.
const LOOKS_PER_CLOCK: u32 = 32;
/// About as long as it takes to wake a sleeper on a virtual machine.
const SPIN: Duration = Duration::from_micros(50);
/// Where cores are shared, one look more costs little.
const LOOKS_BEFORE_YIELD: u32 = 2;
/// A rank that has yielded so long waits for something slow.
const YIELD: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_cores_are_given_away_at_once_and_nobody_spins_for_ever() {
        for policy in [Policy::OwnCore, Policy::SharedCore] {
            let mut patience = Patience::new(policy);
            let mut looks = 0u32;
            let mut yields = 0u32;
            loop {
                match patience.next() {
                    Next::Look => looks += 1,
                    Next::Yield => yields += 1,
                    Next::Arm => break,
                    Next::Sleep(_) => unreachable!("nothing was armed"),
                }
                assert!(looks + yields < 1_000_000_000, "spins for ever");
            }
            match policy {
                Policy::OwnCore => assert_eq!(yields, 0),
                Policy::SharedCore => assert!(looks <= LOOKS_BEFORE_YIELD && yields > 0),
            }
        }
    }
}
