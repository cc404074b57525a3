//! The process that starts the ranks, serves them, and ends them: one loop over everything that can happen.
//!
//! It waits in one place only, so that nothing can keep it from noticing the end of a rank or of
//! the launcher. Each turn looks at what happened in this order: has the launcher gone; signals; ends of children;
//! the process manager; output. One thread beside it waits for the pulses of ranks ([`Watch`]), where they survive each other. So a dead rank's last words and the message about it come before what other ranks
//! have to say about its death.

mod hanging;

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use self::hanging::Hangs;
use crate::descendants::{self, Ended, Ending, Reaped};
use crate::job::{Cause, Job, Wish};
use crate::options::Input;
use crate::output::{Outlet, Route};
use crate::plan::Plan;
use crate::ranks::{self, Memory, RankProcess, Shared};
use crate::rebuild::{Rebuilding, Step};
use crate::signals::{Sender, Signals};
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
    /// What is left has been asked to end, and is killed at this time.
    Ending { kill_at: Instant },
    /// Nothing is left; output may be.
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
        let ledger = ranks::ledger(plan, segment.as_ref())?;
        let pulses = ranks::pulses(plan)?;
        let watch = pulses.clone().map(Watch::begin).transpose()?;
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
                ledger,
                pulses,
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

    fn takes_output(&self, kind: usize) -> bool {
        self.output_waits_until.is_none() && !self.outlets[kind].is_full()
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

    fn pass_on_signals(&mut self) -> io::Result<()> {
        for arrival in self.signals.take()? {
            let by_launcher = arrival.from == Sender::Process(Some(self.plan.launcher));
            match arrival.signal {
                Signal::CHILD => {}
                // The launcher's death sends this, to wake a stopped supervisor; others use it to wake the ranks.
                Signal::CONT => self.send(Signal::CONT),
                signal => self.on_signal(signal, by_launcher),
            }
        }
        Ok(())
    }

    /// A signal that does not come by way of the launcher was sent to the process group: the ranks have it already.
    fn on_signal(&mut self, signal: Signal, by_launcher: bool) {
        if signal == Signal::QUIT {
            self.tell_waits();
        }
        let now = Instant::now();
        self.group_signals.retain(|(_, time)| now.duration_since(*time) < GROUP_SIGNAL_LASTS);
        if by_launcher && self.group_signals.iter().any(|(known, _)| *known == signal) {
            return;
        }
        if by_launcher {
            self.send(signal);
        } else {
            self.group_signals.push((signal, now));
        }
        self.job.passes_on(signal.as_raw());
        if self.job.is_asked_to_end() {
            self.rebuilding.start_no_more();
        }
        match signal {
            Signal::TSTP => {
                // Where no shell does job control the kernel drops a SIGTSTP that nobody handles. Those who do
                // handle it have a moment for it.
                std::thread::sleep(BEFORE_STOP);
                self.send(Signal::STOP);
                let _ = kill_process(rustix::process::getpid(), Signal::STOP);
            }
            Signal::INT | Signal::TERM => self.on_wish_to_end(signal),
            _ => {}
        }
    }

    /// Who asks a second time does not want to wait for ranks that do not end.
    fn on_wish_to_end(&mut self, signal: Signal) {
        let now = Instant::now();
        // Programs like `timeout` send to the launcher and to its process group: that is one wish, which comes twice.
        let is_echo = |time: &Instant| now.duration_since(*time) < GROUP_SIGNAL_LASTS;
        if signal == Signal::TERM && self.wished_to_end.iter().any(is_echo) {
            return;
        }
        self.wished_to_end.push(now);
        if self.wished_to_end.len() < 2 {
            return;
        }
        self.job.end(Cause::AskedTwice { signal: signal.as_raw() });
        if let Phase::Ending { kill_at } = &mut self.phase {
            *kill_at = Instant::now();
        }
        // Whoever interrupts twice does not want to wait for a slow reader either.
        if self.phase == Phase::Over {
            self.outlets.iter_mut().for_each(Outlet::abandon);
        }
    }

    /// Those whose end has not been told of; of what they have started, only the system knows.
    fn ranks_left(&self) -> Vec<Pid> {
        self.job.running().map(|(_, pid)| pid).collect()
    }

    fn send(&self, signal: Signal) {
        for (_, pid) in self.job.running() {
            let _ = kill_process(pid, signal);
        }
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

    /// The connection ends a moment before the process does, and the other ranks may notice as soon as we do. So
    /// that the cause is told before its effects, their words wait until the end is known.
    fn hung_up(&mut self, place: usize) {
        self.processes[place].manager = None;
        self.job.hung_up(place as u32);
        self.hang_ups.push((place as u32, Instant::now() + HANG_UP_LASTS));
        if self.job.is_engaged(place as u32) && self.phase == Phase::Running {
            self.output_waits_until = Some(Instant::now() + OUTPUT_WAITS);
        }
    }

    /// Those whose pulse has stopped end, or run another program in their place: they are killed first, so that nothing is heard of
    /// them any more, and written down then. What there is to say of their end is known when they can be reaped.
    fn fence_ended(&mut self) {
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

    /// Tells the others that a process has ended, unless they are to end as well.
    fn write_down(&mut self, number: u32) {
        if let Some(ledger) = self.shared.ledger.as_mut().filter(|_| self.job.cause().is_none()) {
            ledger.write(weft::Peer(number));
        }
    }

    fn note_ends(&mut self, reaped: &Reaped) {
        let mut ends: Vec<(u32, Ending)> =
            reaped.ended.iter().filter_map(|ended| self.end_of_rank(ended)).collect();
        // What one turn finds has no order; a kill is more likely the cause of a failure than the other way round.
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

    /// Does what ranks have asked for.
    fn grant_wishes(&mut self) {
        for wish in self.job.take_wishes() {
            let steps = match wish {
                Wish::Rebuild { asked, ranks, facts } => self.rebuilding.ask(asked, &ranks, facts),
                Wish::Ready { number } => self.rebuilding.ready(number),
            };
            self.rebuild(steps);
        }
    }

    fn rebuild(&mut self, steps: Vec<Step>) {
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

    fn goes_on(&self) -> bool {
        self.phase == Phase::Running && self.job.cause().is_none()
    }

    fn note_restart(&mut self, rank: u32, process: RankProcess) {
        self.job.started_again(rank, process.pid);
        self.say(&format!("rank {rank} is started again, as process {}", process.pid));
        self.processes.push(process);
    }

    /// Tells those who have asked for new processes what has come of it.
    fn answer(&mut self, asked: u64, new: Option<Vec<(u32, u32)>>) {
        if new.is_none() {
            self.say(
                "ranks that have failed cannot be started again; --max-restarts says how often they may be",
            );
        }
        let new = new
            .map(|new| new.into_iter().map(|(rank, number)| (rank, weft::Peer(number))).collect::<Vec<_>>());
        let ledger = self.shared.ledger.as_mut();
        if !ledger.is_some_and(|ledger| ledger.write_answer(asked, new.as_deref())) {
            let what = "it asks for more processes than have ended".to_owned();
            self.job.end(Cause::Broke(weft::launch::Fault { rank: 0, what }));
        }
    }

    /// Tells the user of those that have failed while the others go on.
    fn tell_failures(&mut self) {
        for (rank, ending) in self.job.take_failures() {
            let message = self.job.obituary(rank, ending, &self.plan.host);
            self.drain(rank as usize);
            self.say(&message);
        }
    }

    fn end_of_rank(&self, ended: &Ended) -> Option<(u32, Ending)> {
        Some((self.job.rank_of(ended.pid)?, ended.ending))
    }

    /// A rank that ends hangs up a moment before: only one that has not ended after a while runs on.
    fn note_hang_ups(&mut self) {
        let now = Instant::now();
        for (rank, _) in self.hang_ups.extract_if(.., |(_, time)| *time <= now) {
            self.job.runs_without_manager(rank);
        }
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

    /// Takes all that a rank has written so far, and its last line as it stands.
    fn drain(&mut self, place: usize) {
        for kind in 0..self.outlets.len() {
            // Bounded by what a pipe holds, unless something still writes to it; then the rest comes later.
            self.read_stream(place, kind, READS_TO_DRAIN);
            let Some(process) = self.processes.get_mut(place) else { return };
            if let Some(stream) = &mut process.streams[kind] {
                stream.lines.finish(&mut self.outlets[kind]);
            }
        }
    }

    fn forward_output(&mut self, ready: &[(usize, usize)]) {
        for &(place, kind) in ready {
            if self.takes_output(kind) {
                self.read_stream(place, kind, READS_PER_TURN);
            }
        }
        for (kind, outlet) in self.outlets.iter().enumerate() {
            // Nobody reads the output any more; the ranks are to learn that as if they wrote to it themselves.
            if outlet.is_broken() {
                self.processes.iter_mut().for_each(|process| process.streams[kind] = None);
            }
        }
    }

    fn read_stream(&mut self, place: usize, kind: usize, reads_max: usize) {
        let Some(process) = self.processes.get_mut(place) else { return };
        let (slot, outlet) = (&mut process.streams[kind], &mut self.outlets[kind]);
        for _ in 0..reads_max {
            let Some(stream) = slot else { return };
            match rustix::io::read(&stream.pipe, &mut self.buffer[..]) {
                Ok(count @ 1..) => {
                    self.heard[kind] = Instant::now();
                    if let Some(copy) = &mut stream.copy {
                        // A disk that is full does not end a job whose output is seen elsewhere, too.
                        let _ = copy.write_all(&self.buffer[..count]);
                    }
                    stream.lines.take(&self.buffer[..count], outlet);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok(_) | Err(_) => {
                    stream.lines.finish(outlet);
                    *slot = None;
                }
            }
        }
    }

    /// The rank that reads the launcher's input may wait for an answer to a line that it does not end: it is shown when nothing has
    /// come from any rank for a moment.
    fn show_questions(&mut self) {
        for kind in 0..self.outlets.len() {
            let is_due = self.question_due(kind).is_some_and(|time| time <= Instant::now());
            let reader = self.reader();
            let asks = self.processes.get_mut(reader).and_then(|process| process.streams[kind].as_mut());
            if let Some(stream) = asks.filter(|_| is_due) {
                stream.lines.let_go(&mut self.outlets[kind]);
            }
        }
    }

    fn reader(&self) -> usize {
        match self.plan.input {
            Input::Rank(rank) => rank as usize,
            // Those who read what is not a person's ask nothing.
            Input::All | Input::None => 0,
        }
    }

    fn question_due(&self, kind: usize) -> Option<Instant> {
        let stream = self.processes.get(self.reader())?.streams[kind].as_ref()?;
        (stream.lines.may_ask() && self.takes_output(kind)).then(|| self.heard[kind] + QUESTION_WAITS)
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

/// What a supervisor's own end means for the launcher: its status is the launcher's.
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

/// What a rank gets to handle SIGTSTP in.
const BEFORE_STOP: Duration = Duration::from_millis(20);
/// Longer than the system takes from closing a process's files to reporting its end.
const OUTPUT_WAITS: Duration = Duration::from_millis(100);

/// Far longer than the system takes from closing a process's descriptors to reporting its end.
const HANG_UP_LASTS: Duration = Duration::from_secs(2);

const GROUP_SIGNAL_LASTS: Duration = Duration::from_millis(200);

/// For waits too long to say: waking up once a day harms nobody.
const LONG_TIME: Timespec = Timespec { tv_sec: 86_400, tv_nsec: 0 };

const READ_BYTES: usize = 4096;
const READS_PER_TURN: usize = 16;

/// What a pipe holds, unless someone changed it.
const STREAM_READ_BYTES: usize = 64 * 1024;

/// Long enough for a rank that is in the middle of a line to go on with it, and short for a person who is asked.
const QUESTION_WAITS: Duration = Duration::from_millis(100);

/// Someone may have enlarged a pipe, to 1 MiB at most for ordinary users.
const READS_TO_DRAIN: usize = 32;

/// Standard streams, signals, the lifeline, and what starting one rank takes for a moment.
const DESCRIPTORS_BESIDE_RANKS: u64 = 32;
