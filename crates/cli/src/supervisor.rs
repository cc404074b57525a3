//! The process that starts the ranks, serves them, and ends them: one loop over everything that can happen.
//!
//! It waits in one place only, so that nothing can keep it from noticing the end of a rank or of the
//! launcher. Each turn looks at what happened in this order: has the launcher gone; signals; ends of
//! children; the process manager; output. So a dead rank's last words and the message about it come before
//! what other ranks have to say about its death. Where ranks survive each other, a second thread waits for
//! their pulses ([`Watch`]).
//!
//! The loop stands here. What a turn does with signals, ends, restarts and output stands in a file each.

mod ends;
mod hanging;
mod output;
mod restarts;
mod signals;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, setrlimit};

use self::hanging::Hangs;
use self::output::STREAM_READ_BYTES;
use crate::descendants::{self, Ending};
use crate::job::{Cause, Job};
use crate::output::{Outlet, Route};
use crate::plan::Plan;
use crate::ranks::{self, Memory, RankProcess, Shared};
use crate::rebuild::Rebuilding;
use crate::signals::Signals;
use crate::watch::Watch;
use crate::{cores, job};

/// Runs a planned job to its end and returns the launcher's exit status.
///
/// `lifeline` reads as ended when the launcher has gone.
pub fn run(plan: &Plan, signals: Signals, lifeline: OwnedFd) -> io::Result<u8> {
    let mut supervisor = Supervisor::new(plan, signals, lifeline)?;
    supervisor.start_ranks();
    // Rank 0 has it now; holding on would keep whoever writes to it from noticing that rank 0 has gone.
    release_input();
    while !supervisor.turn()? {}
    Ok(supervisor.job.exit_status())
}

/// Points this process's standard input at nothing.
pub fn release_input() {
    if let Ok(nothing) = std::fs::File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(nothing);
    }
}

struct Supervisor<'a> {
    plan: &'a Plan,
    job: Job,
    rebuilding: Rebuilding,
    /// By number.
    processes: Vec<RankProcess>,
    signals: Signals,
    lifeline: OwnedFd,
    /// The launcher's output and errors, in the order of a rank's streams.
    outlets: [Outlet; 2],
    /// When something came last for each of them.
    heard: [Instant; 2],
    /// Where output of ranks is read to.
    buffer: Vec<u8>,
    phase: Phase,
    times_out_at: Option<Instant>,
    /// While a rank has hung up and its end is not known yet: until when the others' output waits.
    output_waits_until: Option<Instant>,
    /// The ranks that have hung up, each with the time when it is taken to run on without its connection.
    hang_ups: Vec<(u32, Instant)>,
    /// When somebody asked for the end of the job.
    wished_to_end: Vec<Instant>,
    /// Signals that were sent to the whole process group a moment ago, so that the ranks have them already.
    group_signals: Vec<(Signal, Instant)>,
    shared: Shared,
    /// Tells of the ends of ranks before they can be reaped.
    watch: Option<Watch>,
    hangs: Hangs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Ranks run.
    Running,
    /// The remaining ranks have been asked to end, and are killed at `kill_at`.
    Ending { kill_at: Instant },
    /// No process is left; output may still be queued.
    Over,
}

/// What a wait found.
#[derive(Debug, Default)]
struct Ready {
    launcher_gone: bool,
    managers: Vec<usize>,
    streams: Vec<(usize, usize)>,
}

/// What an entry of the poll table stands for.
#[derive(Clone, Copy, Debug)]
enum Token {
    Lifeline,
    Signals,
    Watch,
    Manager(usize),
    Stream(usize, usize),
    Outlet,
}

impl<'a> Supervisor<'a> {
    fn new(plan: &'a Plan, signals: Signals, lifeline: OwnedFd) -> io::Result<Supervisor<'a>> {
        // Process numbers come again, and are the same in several containers.
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let space = format!("weft_{}_{now:x}", plan.launcher);
        let outlets = [Outlet::new(rustix::stdio::stdout())?, Outlet::new(rustix::stdio::stderr())?];
        let routes = Route::of(plan.ranks, plan.label, [outlets[0].as_fd(), outlets[1].as_fd()]);
        let files_limit = make_room_for_descriptors(plan, routes)?;
        let Memory { segment, fabrics, notice } = ranks::memory(plan)?;
        let failure_log = ranks::failure_log(plan, segment.as_ref())?;
        let liveness_descriptors = ranks::liveness_descriptors(plan)?;
        let watch = liveness_descriptors.clone().map(Watch::begin).transpose()?;
        if watch.is_some() {
            weft::launch::be_prompt();
        }
        let mut supervisor = Supervisor {
            plan,
            job: Job::new(plan.ranks, plan.restarts, &space, plan.survives)
                .with_nodes_of(plan.ranks_per_node)
                .run_by_engine(plan.is_engine)
                .with_programs(plan.programs.iter().map(|program| program.ranks))
                .with_universe(plan.universe),
            rebuilding: Rebuilding::new(plan.ranks, plan.restarts),
            processes: Vec::new(),
            signals,
            lifeline,
            outlets,
            heard: [Instant::now(); 2],
            buffer: vec![0; STREAM_READ_BYTES],
            phase: Phase::Running,
            times_out_at: plan.timeout.and_then(|limit| Instant::now().checked_add(limit)),
            output_waits_until: None,
            hang_ups: Vec::new(),
            wished_to_end: Vec::new(),
            group_signals: Vec::new(),
            shared: Shared {
                segment,
                fabrics,
                failure_log,
                liveness_descriptors,
                routes,
                wait_states: ranks::wait_states(plan),
                files_limit,
            },
            watch,
            hangs: Hangs::new(plan)?,
        };
        if let Some(notice) = notice {
            supervisor.say(&notice);
        }
        Ok(supervisor)
    }

    fn start_ranks(&mut self) {
        for rank in 0..self.plan.ranks {
            match ranks::start(self.plan, rank, &self.shared, None) {
                Ok(process) => self.note_start(rank, process),
                Err(error) => return self.job.end(Cause::NotStarted { rank, error }),
            }
            // Many ranks take a while; do not start more for a launcher that has gone.
            if self.launcher_gone() {
                return;
            }
        }
    }

    fn note_start(&mut self, rank: u32, process: RankProcess) {
        self.job.started(rank, process.pid);
        if self.plan.verbose {
            let sets = self.plan.binding.as_ref().map(|sets| cores::list(&sets[rank as usize]));
            let place = match (sets, self.plan.unbound) {
                (Some(list), _) => format!("on cpus {list}"),
                (None, Some(why)) => format!("not bound: {why}"),
                (None, None) => "not bound".to_owned(),
            };
            self.say(&format!("rank {rank} is process {}, {place}", process.pid));
        }
        if let Some(place) = self.plan.places.as_ref().filter(|_| self.plan.reports_bindings) {
            self.say(&format!("rank {rank} is bound to {}", place[rank as usize]));
        }
        self.processes.push(process);
    }

    /// One round of the loop; true when all is done.
    fn turn(&mut self) -> io::Result<bool> {
        let ready = self.wait()?;
        if ready.launcher_gone {
            descendants::kill_all(self.ranks_left());
            return Ok(true);
        }
        // Who has ended may have had the same signal.
        self.pass_on_signals()?;
        self.fence_ended();
        let reaped = descendants::reap();
        for &place in &ready.managers {
            self.serve(place);
        }
        self.note_ends(&reaped);
        self.note_hang_ups();
        self.tell_failures();
        self.grant_wishes();
        self.note_timeout();
        self.note_hang();
        self.advance(reaped.some_left);
        self.forward_output(&ready.streams);
        self.show_questions();
        self.flush();
        Ok(self.phase == Phase::Over && !self.outlets.iter().any(Outlet::is_pending))
    }

    fn flush(&mut self) {
        self.outlets.iter_mut().for_each(Outlet::flush);
        if let Some(errno) = self.outlets[0].take_trouble() {
            self.say(&format!("cannot write what the ranks print: {errno}"));
            self.outlets[1].flush();
        }
    }

    /// Waits for something to happen, or for the time when something is due.
    fn wait(&self) -> io::Result<Ready> {
        let (tokens, mut entries): (Vec<Token>, Vec<PollFd<'_>>) = self.watched().into_iter().unzip();
        let left = self.next_time().map(|time| time.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec::try_from(left).unwrap_or(LONG_TIME));
        match poll(&mut entries, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = Ready::default();
        for (token, entry) in tokens.into_iter().zip(&entries) {
            if !entry.revents().is_empty() {
                ready.note(token);
            }
        }
        Ok(ready)
    }

    fn watched(&self) -> Vec<(Token, PollFd<'_>)> {
        let mut watched = vec![
            (Token::Lifeline, PollFd::new(&self.lifeline, PollFlags::IN)),
            (Token::Signals, PollFd::new(&self.signals, PollFlags::IN)),
        ];
        watched.extend(
            self.watch.as_ref().map(|watch| (Token::Watch, PollFd::new(&watch.numbers, PollFlags::IN))),
        );
        for outlet in self.outlets.iter().filter(|outlet| outlet.is_pending()) {
            watched.push((Token::Outlet, PollFd::new(outlet, PollFlags::OUT)));
        }
        for (place, process) in self.processes.iter().enumerate() {
            if let Some(manager) = &process.manager {
                watched.push((Token::Manager(place), PollFd::new(manager, PollFlags::IN)));
            }
            for (kind, stream) in process.streams.iter().enumerate() {
                if let Some(stream) = stream.as_ref().filter(|_| self.takes_output(kind)) {
                    watched.push((Token::Stream(place, kind), PollFd::new(&stream.pipe, PollFlags::IN)));
                }
            }
        }
        watched
    }

    fn next_time(&self) -> Option<Instant> {
        let kill_at = match self.phase {
            // What could not be started ends nobody that the system could tell of.
            Phase::Running if self.is_done() => Some(Instant::now()),
            Phase::Ending { kill_at } => Some(kill_at),
            Phase::Running | Phase::Over => None,
        };
        let hang_up = self.hang_ups.iter().map(|(_, time)| *time).min();
        let question = (0..self.outlets.len()).filter_map(|kind| self.question_due(kind)).min();
        let hang = self.hangs.looks_at.filter(|_| self.phase == Phase::Running);
        let times = [kill_at, self.times_out_at, self.output_waits_until, hang_up, question, hang];
        times.into_iter().flatten().min()
    }

    fn launcher_gone(&self) -> bool {
        let mut entry = [PollFd::new(&self.lifeline, PollFlags::IN)];
        poll(&mut entry, Some(&Timespec::default())).is_ok_and(|ready| ready != 0)
    }

    /// Those whose end has not been told of; of what they have started, only the system knows.
    fn ranks_left(&self) -> Vec<Pid> {
        self.job.running().map(|(_, pid)| pid).collect()
    }

    /// Reads what a rank sends to the process manager, and answers.
    fn serve(&mut self, place: usize) {
        let mut bytes = [0; READ_BYTES];
        for _ in 0..READS_PER_TURN {
            let Some(manager) = &self.processes[place].manager else { return };
            match recv(manager, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return self.hung_up(place),
                Ok((count, _)) => self.serve_bytes(place, &bytes[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.hung_up(place),
            }
        }
    }

    fn serve_bytes(&mut self, place: usize, bytes: &[u8]) {
        let mut answers = Vec::new();
        self.job.receive(place as u32, bytes, &mut answers);
        for (rank, bytes) in answers {
            let Some(manager) = &self.processes[rank as usize].manager else { continue };
            // An answer is short and a client waits for it before it asks again, so it fits; a peer that lets
            // answers pile up is no client. One that has gone will be reaped.
            let sent = send(manager, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            if matches!(sent, Err(Errno::AGAIN)) || sent.is_ok_and(|count| count < bytes.len()) {
                let what = "it does not read its answers".to_owned();
                self.job.end(Cause::Broke(weft::launch::Fault { rank, what }));
            }
        }
    }

    fn goes_on(&self) -> bool {
        self.phase == Phase::Running && self.job.cause().is_none()
    }

    fn note_timeout(&mut self) {
        if self.times_out_at.is_some_and(|time| time <= Instant::now()) {
            self.times_out_at = None;
            if let (Phase::Running, Some(limit)) = (self.phase, self.plan.timeout) {
                self.job.end(Cause::TimedOut { limit });
            }
        }
    }

    /// Goes from running over ending to over, as far as things have come.
    fn advance(&mut self, some_left: bool) {
        if self.phase == Phase::Running && self.is_done() {
            self.conclude(some_left);
        }
        match self.phase {
            Phase::Ending { .. } if !some_left => self.finish(),
            Phase::Ending { kill_at } if kill_at <= Instant::now() => {
                let left = descendants::kill_all(self.ranks_left());
                if !left.is_empty() {
                    self.say(&format!(
                        "these processes cannot be ended: {left:?}\n  they hang in the system"
                    ));
                }
                self.finish();
            }
            _ => {}
        }
    }

    /// Whether the job is to end, or nobody is left.
    fn is_done(&self) -> bool {
        self.job.cause().is_some() || self.job.running().next().is_none()
    }

    /// Tells why the job ends, after the last words of whoever caused it, and asks what is left to end.
    fn conclude(&mut self, some_left: bool) {
        self.times_out_at = None;
        self.output_waits_until = None;
        if let Some(rank) = self.job.culprit() {
            self.drain(rank as usize);
        }
        if let Some(message) = self.job.message(&self.plan.host) {
            self.outlets[0].flush();
            self.say(&message);
            if matches!(self.job.cause(), Some(Cause::TimedOut { .. })) {
                self.tell_waits();
            }
            self.outlets.iter_mut().for_each(Outlet::flush);
        }
        if some_left {
            let ranks = self.ranks_left();
            descendants::signal_all(Signal::TERM, &ranks);
            // A stopped process would not hear the above.
            descendants::signal_all(Signal::CONT, &ranks);
        }
        let at_once = matches!(self.job.cause(), Some(Cause::AskedTwice { .. }));
        let grace = match at_once {
            true => Duration::ZERO,
            // A launcher of several hosts ends ranks there.
            false if self.plan.is_engine => ENGINE_GRACE,
            false => GRACE,
        };
        self.phase = Phase::Ending { kill_at: Instant::now() + grace };
    }

    /// All processes have ended, so that their streams end as well.
    fn finish(&mut self) {
        (0..self.processes.len()).for_each(|place| self.drain(place));
        self.phase = Phase::Over;
    }

    fn say(&mut self, message: &str) {
        let line = format!("{}: {message}\n", self.plan.name);
        let to = if self.shared.routes[1] == Route::WithOutput { 0 } else { 1 };
        self.outlets[to].say(&line);
    }
}

impl Ready {
    fn note(&mut self, token: Token) {
        match token {
            Token::Lifeline => self.launcher_gone = true,
            Token::Manager(place) => self.managers.push(place),
            Token::Stream(place, kind) => self.streams.push((place, kind)),
            Token::Signals | Token::Watch | Token::Outlet => {}
        }
    }
}

/// Raises the limit on open files when the ranks need more than it allows. Returns what it was.
fn make_room_for_descriptors(plan: &Plan, routes: [Route; 2]) -> io::Result<Rlimit> {
    let limit = getrlimit(Resource::Nofile);
    let piped = || routes.iter().filter(|route| **route == Route::Piped).count() as u64;
    // Each of two streams with its file.
    let for_each_rank = 1 + if plan.files.copies { 4 } else { piped() };
    let held = plan.claims.descriptors() as u64;
    let needed = u64::from(plan.ranks) * for_each_rank + held + DESCRIPTORS_BESIDE_RANKS;
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        let maximum = limit.maximum.unwrap_or_default();
        return Err(io::Error::other(format!(
            "{} ranks need {needed} descriptors, and only {maximum} are allowed\n  raise `ulimit -Hn`, or start fewer",
            plan.ranks
        )));
    }
    if limit.current.is_some_and(|current| current < needed) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })?;
    }
    Ok(limit)
}

/// The exit status of the launcher whose supervisor has ended so: that of the supervisor.
pub fn status_of(ending: Ending) -> u8 {
    match ending {
        // Zero is success here, unlike in a rank's failure.
        Ending::Code(0) => 0,
        other => job::status_of(other),
    }
}

/// From asking to killing. Ranks that have something to save have this long.
const GRACE: Duration = Duration::from_millis(250);

const ENGINE_GRACE: Duration = Duration::from_secs(5);

/// For waits too long to say: waking up once a day harms nobody.
const LONG_TIME: Timespec = Timespec { tv_sec: 86_400, tv_nsec: 0 };

const READ_BYTES: usize = 4096;
const READS_PER_TURN: usize = 16;

/// Standard streams, signals, the liveness connection, and what starting one rank takes for a moment.
const DESCRIPTORS_BESIDE_RANKS: u64 = 32;
