//! The fate of a job: what each rank has done, why the job ends, and with which exit status. No input or output.
//!
//! A job ends well when every rank has exited with status zero, having finalized if it ever initialised. It ends
//! badly for one [`Cause`], the first that becomes known; what follows from the clean-up is not told. A status other
//! than zero after finalizing harms no other rank, so it ends nothing and is told at the end.

use std::fmt::Write;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use weft::launch::{Action, Fault, Server, Standing};

use crate::descendants::Ending;
use crate::hangs::ranks_named;
use crate::signals;

/// One job.
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
    /// Those that have ended well, or run on without a connection to the process manager, and have never spoken to it.
    silent_ends: Vec<u32>,
    /// Those to whose process manager's connection nobody holds the other end any more.
    hung_up: Vec<u32>,
    /// The first rank that failed after finalizing.
    late_failure: Option<(u32, Ending)>,
    /// Whether the others go on when a rank fails.
    survives: bool,
    /// Those that have failed, and how, while the others went on.
    failed: Vec<(u32, Ending)>,
    /// How many were started again and have ended before anybody had heard of them.
    vanished: usize,
    /// How many of them were told.
    told: usize,
    /// The last signal that the ranks were sent on behalf of whoever sent it to the launcher.
    passed_on: Option<i32>,
    /// The last of them that asks for the end.
    asked_to_end: Option<i32>,
}

/// A rank's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waiting,
    Running(Pid),
    Ended(Pid),
}

/// What a rank asks of the launcher.
#[derive(Debug)]
pub enum Wish {
    /// Processes in the place of those that have failed.
    Rebuild { asked: u64, ranks: Vec<u32>, facts: String },
    /// That others are told that it can be reached, being such a process.
    Ready { number: u32 },
}

/// Why a job ends before all ranks are done.
#[derive(Debug)]
pub enum Cause {
    /// A rank failed.
    Died { rank: u32, ending: Ending },
    /// A rank exited with status zero in the middle of the job.
    LeftEarly { rank: u32 },
    /// A rank exited with status zero, or gave up its connection to the process manager, and never called MPI_Init, which
    /// others have called.
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
    /// A job of `ranks` ranks, none of them started. `space` is the name of its key-value space.
    /// Where it `survives`, those that are left go on when a rank fails, and up to `restarts` are started again.
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

    /// The ranks take so many of them, in their order, to be on a node.
    #[must_use]
    pub fn with_nodes_of(self, ranks: u32) -> Job {
        Job { server: self.server.with_nodes_of(ranks), ..self }
    }

    /// The only rank is the launcher of several hosts: it tells by itself how its job has ended.
    #[must_use]
    pub fn run_by_engine(self, is_engine: bool) -> Job {
        Job { is_engine, ..self }
    }

    /// So many ranks each, in their order, run the programs of the job.
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

    /// The ranks are told that so many processes are possible, or nothing of it.
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

    /// Notes that a process has ended that was started again and that nobody has heard of. The answer is what to tell the user.
    pub fn vanished(&mut self, number: u32, ending: Ending, host: &str) -> String {
        if let Place::Running(pid) = self.places[number as usize] {
            self.places[number as usize] = Place::Ended(pid);
        }
        self.vanished += 1;
        format!("{} {} before the others had heard of it", self.who(number, host), told(ending))
    }

    /// What ranks have asked since this was asked.
    pub fn take_wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    /// The running rank whose process this is, by its number.
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

    /// A rank that has failed never comes to the place where all meet at the start. One that has ended without a word never calls
    /// MPI_Init, unless a process that it has left behind may still speak for it: once another has called it, that one belongs
    /// to a world that is never complete. Where ranks share memory they meet nowhere that the launcher could see.
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

    /// Notes that nobody can send anything to the process manager for `rank` any more.
    pub fn hung_up(&mut self, rank: u32) {
        self.hung_up.push(rank);
        self.end_without_a_start();
    }

    /// Notes that `rank` runs on a while after that: it has become a program that does not know MPI.
    pub fn runs_without_manager(&mut self, rank: u32) {
        if self.is_silent(rank) && matches!(self.places[rank as usize], Place::Running(_)) {
            self.silent_ends.push(rank);
            self.end_without_a_start();
        }
    }

    /// Those that have failed since this was asked, while the others go on.
    pub fn take_failures(&mut self) -> Vec<(u32, Ending)> {
        let told = std::mem::replace(&mut self.told, self.failed.len());
        self.failed[told..].to_vec()
    }

    /// What to tell the user of such a failure.
    pub fn obituary(&self, rank: u32, ending: Ending, host: &str) -> String {
        let what = match self.cause_of(rank, ending) {
            Cause::NeverCame { .. } => "exited without calling MPI_Init".to_owned(),
            _ => told(ending),
        };
        format!("{} {what}; the others go on", self.who(rank, host))
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

    /// Whether somebody has asked for the job's end: who ends from then on in the middle of it has not failed, and the job ends.
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

    /// The exit status of the launcher.
    pub fn exit_status(&self) -> u8 {
        match (&self.cause, self.late_failure, self.failed.first()) {
            (Some(cause), ..) => cause.exit_status(),
            (None, Some((_, ending)), _) => status_of(ending),
            // Nobody is left who could have done well.
            (None, None, Some((_, ending))) if self.failed.len() + self.vanished == self.ranks.len() => {
                status_of(*ending)
            }
            (None, None, _) => 0,
        }
    }

    /// What to tell the user about the end of the job, if anything: a line of what happened, a line of what to do.
    pub fn message(&self, host: &str) -> Option<String> {
        let Some(cause) = &self.cause else {
            let (rank, ending) = self.late_failure?;
            return Some(format!("{} {} after MPI_Finalize", self.who(rank, host), told(ending)));
        };
        if let (true, Cause::Died { .. }) = (self.is_engine, cause) {
            return None;
        }
        let mut message = self.what_happened(cause, host);
        if self.culprit().is_some() && 1 < self.ranks.len() {
            message.push_str("; the job is ended");
        }
        if let Some(remedy) = self.remedy(cause) {
            let _ = write!(message, "\n  {remedy}");
        }
        Some(message)
    }

    fn what_happened(&self, cause: &Cause, host: &str) -> String {
        let who = |rank| self.who(rank, host);
        match cause {
            Cause::Died { rank, ending } => format!("{} {}", who(*rank), told(*ending)),
            Cause::LeftEarly { rank } => format!("{} exited without calling MPI_Finalize", who(*rank)),
            Cause::NeverCame { rank } => {
                let did = match self.places[*rank as usize] {
                    Place::Running(_) => "closed its connection to the launcher",
                    _ => "exited",
                };
                format!("{} {did} without calling MPI_Init, which others have called", who(*rank))
            }
            Cause::Aborted { rank, code, message: None } => {
                format!("{} called MPI_Abort({code})", who(*rank))
            }
            Cause::Aborted { rank, code, message: Some(said) } => {
                format!("{} called MPI_Abort({code}): {said}", who(*rank))
            }
            Cause::Broke(fault) => {
                format!("{} broke the process manager's protocol: {}", who(fault.rank), fault.what)
            }
            Cause::NotStarted { rank, error } => format!("cannot start rank {rank} on {host}: {error}"),
            Cause::TimedOut { limit } if self.is_engine => {
                format!("the job was not done after {} s", limit.as_secs_f64())
            }
            Cause::TimedOut { limit } => {
                format!(
                    "the job was not done after {} s; still running: {}",
                    limit.as_secs_f64(),
                    self.who_runs()
                )
            }
            Cause::PassedOn { signal } => format!("the job was ended by {}", signals::name(*signal)),
            Cause::AskedTwice { signal } if *signal == Signal::INT.as_raw() => {
                "interrupted twice: the ranks are killed".to_owned()
            }
            Cause::AskedTwice { signal } => {
                format!("asked to end twice, last by {}: the ranks are killed", signals::name(*signal))
            }
        }
    }

    fn remedy(&self, cause: &Cause) -> Option<&'static str> {
        Some(match cause {
            Cause::Died { ending: Ending::Signal(9), .. } => {
                "if nobody killed it, the system may have been out of memory: see `dmesg`"
            }
            Cause::Died { ending: Ending::Signal(13), .. } => "whoever read its output has gone",
            Cause::Died { ending: Ending::Signal(14), .. } => "a timer of its own ran out (alarm, setitimer)",
            Cause::Died { ending: Ending::Signal(signal), .. } if signals::leaves_core(*signal) => {
                "for a core file: `ulimit -c unlimited`, and start it again"
            }
            Cause::Died { ending: Ending::Signal(_), .. } => {
                "neither the launcher nor a fault sent it: a person, a batch system or a program did"
            }
            Cause::Died { rank, .. } if self.is_silent(*rank) => {
                "it had not called MPI_Init; look for its own message above"
            }
            Cause::Died { .. } => "look for its own message above",
            Cause::LeftEarly { .. } => "call MPI_Finalize on every way out of main, or MPI_Abort to give up",
            Cause::NeverCame { .. } => "let every rank call MPI_Init, or start fewer of them",
            Cause::Broke(_) => {
                "an MPI library that speaks PMI-1 is needed; is PMI_FD used by something else?"
            }
            Cause::NotStarted { error, .. } => remedy_for_start(error),
            Cause::TimedOut { .. } => "give it more time with --timeout, or leave that out",
            Cause::Aborted { .. } | Cause::PassedOn { .. } | Cause::AskedTwice { .. } => return None,
        })
    }

    fn who(&self, number: u32, host: &str) -> String {
        let rank = self.ranks.get(number as usize).unwrap_or(&number);
        match self.places[number as usize] {
            Place::Running(pid) | Place::Ended(pid) => format!("rank {rank} (process {pid} on {host})"),
            Place::Waiting => format!("rank {rank} (on {host})"),
        }
    }

    /// The running ranks, as in `rank 3` or `ranks 0-2, 5`.
    fn who_runs(&self) -> String {
        let mut ranks: Vec<u32> = self.running().map(|(number, _)| self.ranks[number as usize]).collect();
        ranks.sort_unstable();
        ranks_named(&ranks)
    }
}

impl Cause {
    fn exit_status(&self) -> u8 {
        match self {
            Cause::Died { ending, .. } => status_of(*ending),
            Cause::Aborted { code, .. } => low_byte(*code),
            Cause::LeftEarly { .. } | Cause::NeverCame { .. } | Cause::Broke(_) => 1,
            Cause::NotStarted { error, .. } => match error.kind() {
                io::ErrorKind::NotFound => 127,
                io::ErrorKind::PermissionDenied => 126,
                _ => 1,
            },
            Cause::TimedOut { .. } => 124,
            Cause::PassedOn { signal } | Cause::AskedTwice { signal } => status_of(Ending::Signal(*signal)),
        }
    }
}

fn told(ending: Ending) -> String {
    match ending {
        Ending::Code(code) => format!("exited with status {code}"),
        Ending::Signal(signal) => format!("was killed by {}", signals::name(signal)),
    }
}

/// A shell's reading of an end: the status itself, or 128 and the signal's number.
pub fn status_of(ending: Ending) -> u8 {
    match ending {
        Ending::Code(code) => low_byte(code),
        Ending::Signal(signal) => 128 | low_byte(signal & 127),
    }
}

/// What the system keeps of a status. A failure whose low byte is zero must not look like success.
fn low_byte(code: i32) -> u8 {
    match code.to_le_bytes()[0] {
        0 => 1,
        low => low,
    }
}

fn remedy_for_start(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOMEM) => {
            "too many processes or too little memory: see `ulimit -u` and `free`"
        }
        Some(libc::EMFILE | libc::ENFILE) => "too few descriptors: raise `ulimit -n`, or start fewer ranks",
        None => "a sandbox may forbid it: look for a filter of system calls (seccomp)",
        Some(libc::ENOENT) => {
            "the program is there, but not what loads it: `file PROGRAM` names its interpreter"
        }
        _ => "check that the program can be run by hand on this node",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    /// A job whose rank `i` is process `100 + i`.
    fn running(ranks: u32) -> Job {
        started(Job::new(ranks, 0, "space", false), ranks)
    }

    fn started(mut job: Job, ranks: u32) -> Job {
        for rank in 0..ranks {
            job.started(rank, pid(100 + rank as i32));
        }
        job
    }

    fn say(job: &mut Job, rank: u32, lines: &[&str]) {
        for line in lines {
            job.receive(rank, format!("cmd={line}\n").as_bytes(), &mut Vec::new());
        }
    }

    const INIT: &str = "init pmi_version=1 pmi_subversion=1";

    #[test]
    fn a_job_of_programs_that_know_nothing_of_mpi_ends_well() {
        let mut job = running(2);
        assert_eq!(job.rank_of(pid(101)), Some(1));
        job.ended(0, Ending::Code(0));
        job.ended(1, Ending::Code(0));
        assert_eq!((job.running().count(), job.exit_status()), (0, 0));
        assert!(job.message("n1").is_none());
        assert_eq!(job.rank_of(pid(101)), None, "its number may belong to another process now");
    }

    #[test]
    fn the_first_failure_is_the_one_that_is_told() {
        let mut job = running(3);
        job.ended(1, Ending::Code(3));
        job.ended(2, Ending::Signal(9));
        assert_eq!((job.exit_status(), job.culprit()), (3, Some(1)));
        let message = job.message("n1").unwrap();
        assert!(
            message.starts_with("rank 1 (process 101 on n1) exited with status 3; the job is ended\n"),
            "{message}"
        );
        assert!(message.contains("had not called MPI_Init"), "{message}");
    }

    #[test]
    fn a_signal_is_told_by_name_and_makes_the_status() {
        let mut job = running(1);
        job.ended(0, Ending::Signal(11));
        assert_eq!(job.exit_status(), 139);
        let message = job.message("n1").unwrap();
        assert!(message.contains("was killed by SIGSEGV") && message.contains("ulimit -c"), "{message}");
        assert!(!message.contains("the job is ended"), "there is nobody else: {message}");
    }

    #[test]
    fn leaving_without_finalize_is_a_death() {
        let mut job = running(2);
        say(&mut job, 1, &[INIT]);
        job.ended(1, Ending::Code(0));
        assert_eq!(job.exit_status(), 1);
        assert!(job.message("n1").unwrap().contains("exited without calling MPI_Finalize"));
    }

    #[test]
    fn a_failure_after_finalize_is_told_at_the_end_and_harms_nobody() {
        let mut job = running(2);
        say(&mut job, 0, &[INIT, "finalize"]);
        job.ended(0, Ending::Code(5));
        assert!(job.cause().is_none());
        job.ended(1, Ending::Code(0));
        assert_eq!(job.exit_status(), 5);
        assert!(job.message("n1").unwrap().contains("exited with status 5 after MPI_Finalize"));
    }

    #[test]
    fn a_kill_after_finalize_still_ends_the_job() {
        let mut job = running(2);
        say(&mut job, 0, &[INIT, "finalize"]);
        job.ended(0, Ending::Signal(9));
        assert_eq!((job.culprit(), job.exit_status()), (Some(0), 137));
    }

    #[test]
    fn an_abort_gives_its_code() {
        for (code, status) in [(7, 7), (0, 1), (256, 1), (-1, 255)] {
            let mut job = running(2);
            say(&mut job, 1, &[INIT, &format!("abort exitcode={code} message=abort")]);
            job.ended(1, Ending::Signal(15));
            assert_eq!(job.exit_status(), status);
            let message = job.message("n1").unwrap();
            assert!(
                message.starts_with(&format!("rank 1 (process 101 on n1) called MPI_Abort({code})")),
                "{message}"
            );
        }
    }

    #[test]
    fn an_abort_may_say_why() {
        let mut job = running(1);
        say(&mut job, 0, &[INIT, "abort exitcode=2 message=no such file"]);
        assert!(job.message("n1").unwrap().ends_with("called MPI_Abort(2): no such file"));
    }

    #[test]
    fn a_signal_that_was_passed_on_is_no_ranks_fault() {
        let mut job = running(2);
        job.passes_on(15);
        job.ended(0, Ending::Signal(15));
        assert_eq!((job.exit_status(), job.culprit()), (143, None));
        assert_eq!(job.message("n1").unwrap(), "the job was ended by SIGTERM");
    }

    #[test]
    fn who_ends_as_asked_is_no_failure_of_a_job_that_goes_on_without_the_failed() {
        for (signal, ending, status) in [
            (15, Ending::Signal(15), Some(143)),
            (15, Ending::Code(3), Some(143)),
            (2, Ending::Signal(9), Some(130)),
            (10, Ending::Signal(10), Some(138)),
            (10, Ending::Signal(9), None),
        ] {
            let mut job = started(Job::new(2, 4, "space", true), 2);
            for rank in 0..2 {
                say(&mut job, rank, &[INIT]);
            }
            job.passes_on(signal);
            job.ended(1, ending);
            assert_eq!(job.cause().is_some(), status.is_some(), "{signal} {ending:?}");
            if let Some(status) = status {
                assert_eq!((job.exit_status(), job.take_failures()), (status, Vec::new()));
                let name = signals::name(signal);
                assert_eq!(job.message("n1").unwrap(), format!("the job was ended by {name}"));
            }
        }
    }

    #[test]
    fn g8_the_status_of_a_job_that_goes_on_is_that_of_the_survivors() {
        for (ending, last, status) in [
            (Ending::Signal(9), 0, 0),
            (Ending::Code(1), 0, 0),
            (Ending::Code(0), 0, 0),
            (Ending::Signal(9), 4, 4),
        ] {
            let mut job = started(Job::new(2, 0, "space", true), 2);
            say(&mut job, 0, &[INIT]);
            say(&mut job, 1, &[INIT]);
            job.ended(1, ending);
            assert!(job.cause().is_none());
            assert_eq!((job.take_failures(), job.take_failures()), (vec![(1, ending)], Vec::new()));
            assert!(job.obituary(1, ending, "n1").ends_with("; the others go on"));
            say(&mut job, 0, &["finalize"]);
            job.ended(0, Ending::Code(last));
            assert_eq!(job.exit_status(), status);
        }
    }

    #[test]
    fn a_job_of_which_nobody_is_left_has_failed() {
        let mut job = started(Job::new(2, 0, "space", true), 2);
        for rank in 0..2 {
            say(&mut job, rank, &[INIT]);
        }
        job.ended(1, Ending::Signal(9));
        job.ended(0, Ending::Code(3));
        assert_eq!(job.exit_status(), 137);
    }

    #[test]
    fn a_rank_that_fails_before_all_have_met_ends_every_job() {
        for barrier_first in [true, false] {
            let mut job = started(Job::new(3, 0, "space", true), 3);
            for rank in 0..3 {
                say(&mut job, rank, &[INIT]);
            }
            if barrier_first {
                say(&mut job, 0, &["barrier_in"]);
            }
            job.ended(1, Ending::Signal(9));
            if !barrier_first {
                assert!(job.cause().is_none());
                say(&mut job, 0, &["barrier_in"]);
            }
            assert!(matches!(job.cause(), Some(Cause::Died { rank: 1, .. })));
        }
        let mut job = started(Job::new(2, 0, "space", true), 2);
        job.ended(1, Ending::Signal(9));
        assert_eq!(job.exit_status(), 137, "it had not even begun");
    }

    #[test]
    fn r9_who_was_started_again_is_told_of_by_its_rank() {
        let mut job = started(Job::new(2, 2, "space", true), 2);
        for rank in 0..2 {
            say(&mut job, rank, &[INIT]);
        }
        job.ended(1, Ending::Signal(9));
        say(&mut job, 0, &["weft_rebuild asked=a ranks=1 facts=f"]);
        assert!(matches!(&job.take_wishes()[..], [Wish::Rebuild { asked: 10, ranks, .. }] if ranks == &[1]));
        job.started_again(1, pid(102));
        assert_eq!(job.rank_of(pid(102)), Some(2));
        say(&mut job, 2, &[INIT, "weft_ready"]);
        assert!(matches!(job.take_wishes()[..], [Wish::Ready { number: 2 }]));
        assert_eq!(job.who_runs(), "ranks 0-1");
        job.ended(2, Ending::Signal(9));
        assert!(job.cause().is_none());
        assert!(
            job.obituary(2, Ending::Signal(9), "n1").starts_with("rank 1 (process 102 on n1) was killed")
        );
        job.started_again(1, pid(103));
        let told = job.vanished(3, Ending::Code(3), "n1");
        assert!(told.starts_with("rank 1 (process 103 on n1) exited with status 3 before"), "{told}");
        say(&mut job, 0, &["finalize"]);
        job.ended(0, Ending::Code(0));
        assert_eq!((job.running().count(), job.exit_status()), (0, 0));
    }

    #[test]
    fn g8_where_nobody_has_done_well_the_status_is_that_of_the_first_failure() {
        let mut job = started(Job::new(2, 1, "space", true), 2);
        for rank in 0..2 {
            say(&mut job, rank, &[INIT]);
        }
        job.ended(1, Ending::Signal(9));
        job.started_again(1, pid(102));
        let _ = job.vanished(2, Ending::Code(3), "n1");
        job.ended(0, Ending::Signal(11));
        assert_eq!((job.running().count(), job.exit_status()), (0, 137));
    }

    #[test]
    fn nonsense_ends_the_job() {
        let mut job = running(2);
        job.receive(1, b"hello\n", &mut Vec::new());
        let message = job.message("n1").unwrap();
        assert!(
            message.starts_with("rank 1 (process 101 on n1) broke the process manager's protocol"),
            "{message}"
        );
        assert_eq!(job.exit_status(), 1);
    }

    #[test]
    fn a_timeout_names_who_still_runs() {
        let mut job = running(6);
        job.ended(3, Ending::Code(0));
        job.end(Cause::TimedOut { limit: Duration::from_millis(1500) });
        assert_eq!(job.exit_status(), 124);
        assert!(job.message("n1").unwrap().contains("after 1.5 s; still running: ranks 0-2, 4-5"));
    }

    #[test]
    fn a_rank_that_cannot_start_is_told_with_the_reason() {
        let mut job = running(1);
        job.end(Cause::NotStarted { rank: 0, error: io::Error::from_raw_os_error(libc::EMFILE) });
        let message = job.message("n1").unwrap();
        assert!(message.contains("cannot start rank 0 on n1") && message.contains("ulimit -n"), "{message}");
    }
}
