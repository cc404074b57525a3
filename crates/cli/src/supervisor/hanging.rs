//! Ranks that hang: when what they wait for is told, and how that is read.

use std::io;
use std::time::{Duration, Instant};

use super::{Phase, Supervisor};
use crate::hangs;
use crate::plan::Plan;

/// When it is told that all ranks sleep, and when that is looked for next.
pub(super) struct Hangs {
    notice: hangs::Notice,
    pub(super) looks_at: Option<Instant>,
}

impl Hangs {
    pub(super) fn new(plan: &Plan) -> io::Result<Hangs> {
        let here = || std::env::var_os(hangs::VARIABLE);
        let value = match plan.programs.first() {
            Some(program) => program.environment.value(hangs::VARIABLE, here()),
            None => here(),
        };
        let value = value.as_ref().map(|value| value.to_string_lossy());
        let notice = hangs::Notice::read(value.as_deref()).map_err(io::Error::other)?;
        let mut hangs = Hangs { notice, looks_at: None };
        hangs.look_later();
        Ok(hangs)
    }

    fn look_later(&mut self) {
        self.looks_at = self.notice.period().and_then(|period| Instant::now().checked_add(period));
    }
}

impl Supervisor<'_> {
    /// Tells once what all ranks wait for, if all have slept for long.
    pub(super) fn note_hang(&mut self) {
        let due = self.hangs.looks_at.is_some_and(|time| time <= Instant::now());
        if self.phase != Phase::Running || self.plan.is_engine || !due {
            return;
        }
        self.hangs.look_later();
        let (running, now) = (self.waits(), hangs::now());
        if let Some(notice) = self.hangs.notice.due(&running, now) {
            self.say(&format!("{notice}\n  {}", hangs::REMEDY));
            self.tell(&running, now);
        }
    }

    /// Tells what each rank waits for.
    pub(super) fn tell_waits(&mut self) {
        // The ranks of a launcher of several hosts are not this one's.
        if self.plan.is_engine {
            return;
        }
        let (running, now) = (self.waits(), hangs::now());
        self.tell(&running, now);
    }

    fn tell(&mut self, running: &[hangs::Running], now: Duration) {
        for line in hangs::report(running, &self.plan.host, now) {
            self.say(&line);
        }
    }

    /// What the ranks that run do.
    fn waits(&self) -> Vec<hangs::Running> {
        let states = self.shared.wait_states.as_ref();
        let of = |(number, _)| {
            let state = states.and_then(|states| states.read(weft::Peer(number)));
            let waits = state.map(|state| {
                let ranks = state.peers.iter().filter_map(|peer| self.job.rank_numbered(peer.0)).collect();
                hangs::Waits { state, ranks }
            });
            let rank = self.job.rank_numbered(number)?;
            Some(hangs::Running { rank, standing: self.job.standing(number), waits })
        };
        self.job.running().filter_map(of).collect()
    }
}
