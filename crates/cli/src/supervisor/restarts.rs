//! Ranks that are started again in the place of those that have failed, as the ranks that are left ask for
//! it.

use rustix::process::{Signal, kill_process};

use super::Supervisor;
use crate::job::{Cause, Wish};
use crate::ranks::{self, RankProcess};
use crate::rebuild::Step;

impl Supervisor<'_> {
    /// Does what ranks have asked the launcher for: starts ranks again, or notes that such a rank can be
    /// reached.
    pub(super) fn grant_wishes(&mut self) {
        for wish in self.job.take_wishes() {
            let steps = match wish {
                Wish::Rebuild { asked, ranks, facts } => self.rebuilding.ask(asked, &ranks, facts),
                Wish::Ready { number } => self.rebuilding.ready(number),
            };
            self.rebuild(steps);
        }
    }

    pub(super) fn rebuild(&mut self, steps: Vec<Step>) {
        // A job that ends starts nobody.
        let mut steps = std::collections::VecDeque::from(steps);
        while let Some(step) = steps.pop_front().filter(|_| self.goes_on()) {
            match step {
                Step::Kill { number } => {
                    let running = self.job.running().find(|(other, _)| *other == number);
                    if let Some((_, pid)) = running {
                        let _ = kill_process(pid, Signal::KILL);
                    }
                }
                Step::Start { rank, number, told } => {
                    match ranks::start(self.plan, rank, &self.shared, Some(&told)) {
                        Ok(process) => self.note_restart(rank, process),
                        Err(error) => {
                            self.say(&format!(
                                "cannot start rank {rank} again on {}: {error}",
                                self.plan.host
                            ));
                            steps = self.rebuilding.not_started(number).into();
                        }
                    }
                }
                Step::Answer { asked, new } => self.answer(asked, new),
            }
        }
    }

    fn note_restart(&mut self, rank: u32, process: RankProcess) {
        self.job.started_again(rank, process.pid);
        self.say(&format!("rank {rank} is started again, as process {}", process.pid));
        self.processes.push(process);
    }

    /// Tells the ranks that have asked for new processes which ones were started, or that none can be.
    fn answer(&mut self, asked: u64, new: Option<Vec<(u32, u32)>>) {
        if new.is_none() {
            self.say(
                "ranks that have failed cannot be started again; --max-restarts says how often they may be",
            );
        }
        let new = new
            .map(|new| new.into_iter().map(|(rank, number)| (rank, weft::Peer(number))).collect::<Vec<_>>());
        let failure_log = self.shared.failure_log.as_mut();
        if !failure_log.is_some_and(|failure_log| failure_log.write_answer(asked, new.as_deref())) {
            let what = "it asks for more processes than have ended".to_owned();
            self.job.end(Cause::Broke(weft::launch::Fault { rank: 0, what }));
        }
    }
}
