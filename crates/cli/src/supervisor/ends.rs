//! The ends of ranks: how the supervisor notices them, whom it tells, and when it takes a closed connection
//! for an end.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::{Phase, Supervisor};
use crate::descendants::{Ended, Ending, Reaped};
use crate::watch::Watch;

impl Supervisor<'_> {
    /// Notes that a rank has closed its connection to the process manager. That happens a moment before its
    /// process ends, and the other ranks may notice it as soon as the launcher. So that the user reads the
    /// cause before its effects, the output of all ranks waits until the end of the process is known.
    pub(super) fn hung_up(&mut self, place: usize) {
        self.processes[place].manager = None;
        self.job.hung_up(place as u32);
        self.hang_ups.push((place as u32, Instant::now() + HANG_UP_LASTS));
        if self.job.is_engaged(place as u32) && self.phase == Phase::Running {
            self.output_waits_until = Some(Instant::now() + OUTPUT_WAITS);
        }
    }

    /// Kills the processes whose liveness descriptor the kernel has marked, since they end or run another
    /// program in their place. Then nothing is heard of them any more, and the other ranks are told that they
    /// have failed. How they have ended is known when they are reaped.
    pub(super) fn fence_ended(&mut self) {
        for number in self.watch.as_ref().map(Watch::ended).unwrap_or_default() {
            let running = self.job.running().find(|(other, _)| *other == number);
            let Some((_, pid)) = running.filter(|_| self.goes_on()) else { continue };
            let _ = kill_process(pid, Signal::KILL);
            // It may have said that the job is to end.
            self.serve(number as usize);
            // How it has ended is known when it is reaped; if it did as it was asked to, so shall all others.
            if !self.job.is_asked_to_end() {
                self.write_down(number);
            }
        }
    }

    /// Tells the other ranks that a process has ended, unless the whole job is to end.
    fn write_down(&mut self, number: u32) {
        if let Some(failure_log) = self.shared.failure_log.as_mut().filter(|_| self.job.cause().is_none()) {
            failure_log.write(weft::Peer(number));
        }
    }

    pub(super) fn note_ends(&mut self, reaped: &Reaped) {
        let mut ends: Vec<(u32, Ending)> =
            reaped.ended.iter().filter_map(|ended| self.end_of_rank(ended)).collect();
        // What one turn finds has no order; a kill is more likely the cause of a failure than the other way
        // round.
        ends.sort_by_key(|(_, ending)| match ending {
            Ending::Signal(_) => 0,
            Ending::Code(1..) => 1,
            Ending::Code(_) => 2,
        });
        for (rank, ending) in ends {
            // What it said last may explain its end.
            self.serve(rank as usize);
            match self.rebuilding.ended(rank) {
                None => self.job.ended(rank, ending),
                // It was to come into the place of another, and ends as the others do.
                Some(steps) if !steps.is_empty() && self.job.is_asked_to_end() => {
                    self.job.ended(rank, ending);
                }
                Some(steps) => {
                    let message = self.job.vanished(rank, ending, &self.plan.host);
                    self.drain(rank as usize);
                    self.say(&message);
                    self.rebuild(steps);
                }
            }
            self.output_waits_until = None;
            // Also who has left in good order answers nobody any more.
            self.write_down(rank);
            self.tell_failures();
        }
        if self.output_waits_until.is_some_and(|time| time <= Instant::now()) {
            self.output_waits_until = None;
        }
    }

    /// Tells the user of ranks that have failed, in a job whose surviving ranks go on.
    pub(super) fn tell_failures(&mut self) {
        for (rank, ending) in self.job.take_failures() {
            let message = self.job.obituary(rank, ending, &self.plan.host);
            self.drain(rank as usize);
            self.say(&message);
        }
    }

    fn end_of_rank(&self, ended: &Ended) -> Option<(u32, Ending)> {
        Some((self.job.rank_of(ended.pid)?, ended.ending))
    }

    /// Notes which ranks run on though they have closed their connection: those that have not ended a while
    /// after it.
    pub(super) fn note_hang_ups(&mut self) {
        let now = Instant::now();
        for (rank, _) in self.hang_ups.extract_if(.., |(_, time)| *time <= now) {
            self.job.runs_without_manager(rank);
        }
    }
}

/// How long output waits for the end of a rank that has closed its connection: longer than the system takes
/// from closing the files of a process to reporting its end.
const OUTPUT_WAITS: Duration = Duration::from_millis(100);

/// After this long a rank that has closed its connection is taken to run on: far longer than the system takes
/// from closing the descriptors of a process to reporting its end.
const HANG_UP_LASTS: Duration = Duration::from_secs(2);
