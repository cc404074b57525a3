//! The fate of a job: what each rank has done, why the job ends, and with which exit status. No input or
//! output.
//!
//! A job ends well when every rank has exited with status zero, having finalized if it ever initialised. It
//! ends badly for one [`Cause`], the first that becomes known; what follows from the clean-up is not told. A
//! status other than zero after finalizing harms no other rank, so it ends nothing and is told at the end.

mod exit_status;
mod message;

use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use weft::launch::{Action, Fault, Server, Standing};

pub use self::exit_status::status_of;
use crate::descendants::Ending;

/// A job of this launcher: its ranks, their process manager, and how it ends.
#[derive(Debug)]
pub struct Job {
    server: Server,
    /// By number: the ranks, and behind them those that were started again.
    places: Vec<Place>,
    /// The rank of each of these, as far as it was started.
    ranks: Vec<u32>,
    /// Whether the only rank is the launcher of several hosts.
    is_engine: bool,
    /// The number of each rank's program, where there are several.
    programs: Vec<u32>,
    /// What ranks have asked of the launcher.
    wishes: Vec<Wish>,
    cause: Option<Cause>,
    /// The ranks that have ended with status 0, or that run on without a connection to the process manager,
    /// and that have never spoken to it.
    silent_ends: Vec<u32>,
    /// The ranks whose connection to the process manager has been closed by all processes that held it.
    hung_up: Vec<u32>,
    /// The first rank that failed after finalizing.
    late_failure: Option<(u32, Ending)>,
    /// Whether surviving ranks go on when a rank fails.
    survives: bool,
    /// The ranks that have failed while the others went on, and how they ended.
    failed: Vec<(u32, Ending)>,
    /// How many processes were started again and have ended before any rank had heard of them.
    vanished: usize,
    /// How many of `failed` were told to the user.
    told: usize,
    /// The last signal that the launcher has received and passed on to the ranks.
    passed_on: Option<i32>,
    /// The last signal passed on that asks for the job's end.
    asked_to_end: Option<i32>,
}

/// A rank's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waiting,
    Running(Pid),
    Ended(Pid),
}

/// A rank's request to the launcher.
#[derive(Debug)]
pub enum Wish {
    /// To start new processes in the place of the failed processes of `ranks`, and to tell them `facts`.
    /// `asked` is the number of the recovery.
    Rebuild { asked: u64, ranks: Vec<u32>, facts: String },
    /// To tell the other ranks that the process with this number, which was started again, can be reached.
    Ready { number: u32 },
}

/// Why a job ends before all ranks are done.
#[derive(Debug)]
pub enum Cause {
    /// A rank failed.
    Died { rank: u32, ending: Ending },
    /// A rank exited with status zero in the middle of the job.
    LeftEarly { rank: u32 },
    /// A rank exited with status zero, or gave up its connection to the process manager, and never called
    /// MPI_Init, which others have called.
    NeverCame { rank: u32 },
    /// A rank asked for the end.
    Aborted { rank: u32, code: i32, message: Option<String> },
    /// A rank sent nonsense to the process manager.
    Broke(Fault),
    /// A rank could not be started.
    NotStarted { rank: u32, error: io::Error },
    /// The time of `--timeout` is over.
    TimedOut { limit: Duration },
    /// A rank ended by a signal that was passed on.
    PassedOn { signal: i32 },
    /// The user insisted, with this signal.
    AskedTwice { signal: i32 },
}

impl Job {
    /// A job of `ranks` ranks, none of them started. `space` is the name of its key-value space. Where it
    /// `survives`, those that are left go on when a rank fails, and up to `restarts` are started again.
    pub fn new(ranks: u32, restarts: u32, space: &str, survives: bool) -> Job {
        Job {
            server: Server::with_spares(ranks, restarts, space),
            places: vec![Place::Waiting; (ranks + restarts) as usize],
            ranks: (0..ranks).collect(),
            is_engine: false,
            programs: Vec::new(),
            wishes: Vec::new(),
            cause: None,
            silent_ends: Vec::new(),
            hung_up: Vec::new(),
            late_failure: None,
            survives,
            failed: Vec::new(),
            vanished: 0,
            told: 0,
            passed_on: None,
            asked_to_end: None,
        }
    }

    /// The ranks take each `ranks` successive ranks to be on a node of their own.
    #[must_use]
    pub fn with_nodes_of(self, ranks: u32) -> Job {
        Job { server: self.server.with_nodes_of(ranks), ..self }
    }

    /// The only rank is the launcher of several hosts: it tells by itself how its job has ended.
    #[must_use]
    pub fn run_by_engine(self, is_engine: bool) -> Job {
        Job { is_engine, ..self }
    }

    /// How many successive ranks run each program of the job, by program.
    #[must_use]
    pub fn with_programs(mut self, ranks: impl Iterator<Item = u32>) -> Job {
        let mut rank = 0;
        for (program, ranks) in (0..).zip(ranks) {
            (rank..rank + ranks).for_each(|rank| self.server.set_program(rank, program));
            self.programs.extend((0..ranks).map(|_| program));
            rank += ranks;
        }
        self
    }

    /// The ranks are told that `universe` processes are possible; `None` is to tell nothing.
    #[must_use]
    pub fn with_universe(self, universe: Option<u32>) -> Job {
        Job { server: self.server.with_universe(universe), ..self }
    }

    /// Notes that `rank` runs as process `pid`.
    pub fn started(&mut self, rank: u32, pid: Pid) {
        self.places[rank as usize] = Place::Running(pid);
    }

    /// Notes that `rank` runs again, as process `pid` with the next number.
    pub fn started_again(&mut self, rank: u32, pid: Pid) {
        let number = self.ranks.len();
        self.places[number] = Place::Running(pid);
        self.ranks.push(rank);
        if let Some(&program) = self.programs.get(rank as usize) {
            self.server.set_program(number as u32, program);
        }
    }

    /// Notes that a process has ended that was started again and that nobody has heard of. The answer is what
    /// to tell the user.
    pub fn vanished(&mut self, number: u32, ending: Ending, host: &str) -> String {
        if let Place::Running(pid) = self.places[number as usize] {
            self.places[number as usize] = Place::Ended(pid);
        }
        self.vanished += 1;
        format!("{} {} before the others had heard of it", self.who(number, host), message::told(ending))
    }

    /// The requests of ranks since the last call.
    pub fn take_wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    /// The number of the running rank whose process is `pid`.
    pub fn rank_of(&self, pid: Pid) -> Option<u32> {
        (0..).zip(&self.places).find_map(|(rank, place)| (*place == Place::Running(pid)).then_some(rank))
    }

    /// The ranks whose processes run.
    pub fn running(&self) -> impl Iterator<Item = (u32, Pid)> + '_ {
        (0..).zip(&self.places).filter_map(|(rank, place)| match place {
            Place::Running(pid) => Some((rank, *pid)),
            _ => None,
        })
    }

    /// The rank of a process, by its number, if it was started.
    pub fn rank_numbered(&self, number: u32) -> Option<u32> {
        self.ranks.get(number as usize).copied()
    }

    /// How far a process has come, by its number.
    pub fn standing(&self, number: u32) -> Standing {
        self.server.standing(number)
    }

    /// Whether `rank` is in the middle of its part in the job, so that its end would be a death.
    pub fn is_engaged(&self, rank: u32) -> bool {
        matches!(self.server.standing(rank), Standing::Speaking | Standing::Waiting)
    }

    /// Takes bytes that `rank` sent to the process manager; what is to be answered is appended to `answers`.
    pub fn receive(&mut self, rank: u32, bytes: &[u8], answers: &mut Vec<(u32, Vec<u8>)>) {
        let mut actions = Vec::new();
        let result = self.server.receive(rank, bytes, &mut actions);
        for action in actions {
            match action {
                Action::Write { rank, bytes } => answers.push((rank, bytes)),
                Action::Abort { rank, code, message } => {
                    // Some clients send this word for want of a message.
                    let message = message.filter(|said| said != "abort");
                    self.end(Cause::Aborted { rank, code, message });
                }
                Action::Finalized { .. } => {}
                Action::Rebuild { asked, ranks, facts } => {
                    self.wishes.push(Wish::Rebuild { asked, ranks, facts });
                }
                Action::Ready { rank } => self.wishes.push(Wish::Ready { number: rank }),
            }
        }
        if let Err(fault) = result {
            self.end(Cause::Broke(fault));
        }
        self.end_without_a_start();
    }

    /// A rank that has failed never comes to the place where all meet at the start. One that has ended
    /// without a word never calls MPI_Init, unless a process that it has left behind may still speak for it:
    /// once another has called it, that one belongs to a world that is never complete. Where ranks share
    /// memory they meet nowhere that the launcher could see.
    fn end_without_a_start(&mut self) {
        let standings = (0..self.places.len() as u32).map(|rank| self.server.standing(rank));
        let (mut has_begun, mut waits) = (false, false);
        for standing in standings {
            has_begun |= standing != Standing::Silent;
            waits |= standing == Standing::Waiting;
        }
        let never_comes = |rank: &u32| self.hung_up.contains(rank) && self.is_silent(*rank);
        let absent = self.silent_ends.iter().copied().find(never_comes).filter(|_| has_begun);
        if let Some(&(rank, ending)) = self.failed.first().filter(|_| waits) {
            self.end(self.cause_of(rank, ending));
        } else if let Some(rank) = absent {
            let goes_on = self.survives && !waits && matches!(self.places[rank as usize], Place::Ended(_));
            if goes_on {
                self.silent_ends.retain(|&other| other != rank);
                self.failed.push((rank, Ending::Code(0)));
            } else {
                self.end(Cause::NeverCame { rank });
            }
        }
    }

    /// Why a job ends that cannot go on without this one.
    fn cause_of(&self, rank: u32, ending: Ending) -> Cause {
        match ending {
            Ending::Code(0) if self.is_silent(rank) => Cause::NeverCame { rank },
            _ => Cause::Died { rank, ending },
        }
    }

    fn is_silent(&self, rank: u32) -> bool {
        self.server.standing(rank) == Standing::Silent
    }

    /// Notes that the connection of `rank` to the process manager is closed: no process can send anything on
    /// it any more.
    pub fn hung_up(&mut self, rank: u32) {
        self.hung_up.push(rank);
        self.end_without_a_start();
    }

    /// Notes that `rank` still runs a while after its connection to the process manager was closed: it has
    /// become a program that does not know MPI.
    pub fn runs_without_manager(&mut self, rank: u32) {
        if self.is_silent(rank) && matches!(self.places[rank as usize], Place::Running(_)) {
            self.silent_ends.push(rank);
            self.end_without_a_start();
        }
    }

    /// The ranks that have failed since the last call, in a job whose surviving ranks go on, and how they
    /// ended.
    pub fn take_failures(&mut self) -> Vec<(u32, Ending)> {
        let told = std::mem::replace(&mut self.told, self.failed.len());
        self.failed[told..].to_vec()
    }

    /// Notes that the process of `rank` has ended. Everything it sent before must have been received.
    pub fn ended(&mut self, rank: u32, ending: Ending) {
        if let Place::Running(pid) = self.places[rank as usize] {
            self.places[rank as usize] = Place::Ended(pid);
        }
        let finalized = self.server.standing(rank) == Standing::Finalized;
        if self.survives && self.is_engaged(rank) && self.cause.is_none() {
            let meant = self.passed_on.filter(|signal| ending == Ending::Signal(*signal));
            if let Some(signal) = meant.or(self.asked_to_end) {
                return self.end(Cause::PassedOn { signal });
            }
            self.failed.push((rank, ending));
            return self.end_without_a_start();
        }
        match ending {
            Ending::Code(0) if self.is_engaged(rank) => self.end(Cause::LeftEarly { rank }),
            Ending::Code(0) if self.is_silent(rank) => {
                self.silent_ends.push(rank);
                self.end_without_a_start();
            }
            Ending::Code(0) => {}
            Ending::Code(_) if finalized => self.late_failure = self.late_failure.or(Some((rank, ending))),
            Ending::Signal(signal) if self.passed_on == Some(signal) => self.end(Cause::PassedOn { signal }),
            _ => self.end(Cause::Died { rank, ending }),
        }
    }

    /// Notes a signal that is passed on to the ranks.
    pub fn passes_on(&mut self, signal: i32) {
        self.passed_on = Some(signal);
        if [Signal::TERM, Signal::INT].map(Signal::as_raw).contains(&signal) {
            self.asked_to_end = Some(signal);
        }
    }

    /// Whether a signal has asked for the job's end. A rank that ends in the middle of the job from then on
    /// has not failed, and the job ends.
    pub fn is_asked_to_end(&self) -> bool {
        self.asked_to_end.is_some()
    }

    /// Ends the job, unless it is ending already.
    pub fn end(&mut self, cause: Cause) {
        if self.cause.is_none() {
            self.cause = Some(cause);
        }
    }

    /// Why the job ends, once it does.
    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// The rank to blame, where there is one.
    pub fn culprit(&self) -> Option<u32> {
        match self.cause.as_ref()? {
            Cause::Died { rank, .. } | Cause::Aborted { rank, .. } | Cause::NotStarted { rank, .. } => {
                Some(*rank)
            }
            Cause::LeftEarly { rank } | Cause::NeverCame { rank } => Some(*rank),
            Cause::Broke(fault) => Some(fault.rank),
            Cause::TimedOut { .. } | Cause::PassedOn { .. } | Cause::AskedTwice { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
