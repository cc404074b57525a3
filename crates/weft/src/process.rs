//! One process of the job: its engine, and how its calls wait.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use collectives::{Cores, TuningConfig};
use fabric::{Bell, Fabric, Peer};
use job::config::FtMode;
use job::fabrics::{CollectiveSegments, Fabrics, FabricsBell, FailureLog, LivenessDescriptor, SharedHeap};
use job::key_value_exchange::Exchange;
use job::lock::{Guard, Lock, Threads, lock};
use job::machine::Surroundings;
use job::numa_partition::Parts;
use job::tell;
use job::wait::{Policy, Rest, Yields};
use job::waiting_threads::Crowd;
use messaging::{
    Engine, Failure, Failures, Interest, Message, Outcome, Pattern, Probed, Receiving, RequestId, Target,
};
use process_manager::NodeMap;

use crate::background::{Background, Operation};
use crate::communicator::{Counts, Objections, Registry};
use crate::contexts::{Contexts, Proposal};
use crate::group::Group;

mod lent;
mod messages;
mod news;
mod obituaries;
mod progress_thread;
mod restarts;
mod settings;
mod wait_states;
mod waiting;

use news::News;
pub(crate) use obituaries::failure_class;
pub(crate) use progress_thread::ProgressThread;
pub(crate) use restarts::Restarts;
use wait_states::Telling;
pub(crate) use wait_states::WaitsFor;

/// A process of the job: everything that is neither a communicator nor a global of C.
pub struct Process {
    here: Peer,
    peers: u32,
    engine: Lock<Engine<Fabrics>>,
    bell: FabricsBell,
    heap: Option<SharedHeap>,
    segments: Option<CollectiveSegments>,
    policy: Policy,
    /// Looks at one source between two turns of progress.
    looks: u32,
    /// What lies between two looks in vain.
    rest: Rest,
    /// Whether a core that is given away comes back soon.
    yields: Yields,
    /// What is known of the ranks' cores at all ranks alike.
    cores: Cores,
    /// Threads that sleep on the bell; whoever completes something for them rings it.
    sleepers: AtomicU32,
    /// Threads that wait, where several may.
    crowd: Crowd,
    /// Looks that found nothing.
    misses: AtomicU32,
    exchange: Mutex<Exchange>,
    /// Where a launcher writes who has failed, and how much of it was read.
    failure_log: Option<Arc<FailureLog>>,
    /// Whether the launcher wakes who sleeps when it has written there.
    is_rung: bool,
    /// By what the launcher sees when this process ends.
    liveness_descriptor: Mutex<Option<LivenessDescriptor>>,
    read: AtomicU32,
    /// Whom the program has asked to be told by that somebody has failed.
    news: Mutex<Option<News>>,
    restarts: Restarts,
    contexts: Mutex<Contexts>,
    failures: Failures,
    /// Counts communicators that were made from no other, by their arguments.
    made: Counts,
    /// The communicators that the program has made.
    registry: Registry,
    /// Calls of processes without a communicator that came to nothing.
    objections: Mutex<Objections>,
    /// Operations that go on with each turn.
    background: Background,
    /// The processes that share memory with this one, and this one.
    node: Group,
    finished: AtomicBool,
    /// Whether members compare what collective operations they call.
    checks: AtomicBool,
    /// Whether it may read and write memory of other processes by calls of the kernel.
    reads_peers: AtomicBool,
    surroundings: OnceLock<Surroundings>,
    /// By what collective algorithms are chosen.
    guide: OnceLock<&'static TuningConfig>,
    /// Who sits where, if the job has several nodes and the manager told all of its processes.
    nodes: OnceLock<NodeMap>,
    parts: OnceLock<Parts>,
    /// Where the launcher reads what calls wait for.
    telling: OnceLock<Telling>,
    progress_thread: progress_thread::KnownThread,
}

/// What a process has when it has joined its job.
pub(crate) struct Joined {
    /// This process.
    pub here: Peer,
    /// Numbers of the job's processes, with those that may come into the place of others.
    pub peers: u32,
    /// What sends and receives over the fabrics that are open.
    pub engine: Engine<Fabrics>,
    /// How the processes of the job tell each other of themselves.
    pub exchange: Exchange,
    /// Which threads will call.
    pub threads: Threads,
    /// How its ranks wait.
    pub policy: Policy,
    /// What is known of the ranks' cores at all ranks alike.
    pub cores: Cores,
    /// The processes that share memory with this one, and this one.
    pub node: Group,
    /// How many of its threads may spin at a time.
    pub spinning_max: u32,
}

impl Process {
    pub(crate) fn new(joined: Joined) -> Process {
        let Joined { here, peers, engine, exchange, threads, policy, cores, node, spinning_max } = joined;
        Process {
            here,
            peers,
            bell: engine.fabric().bell(),
            heap: engine.fabric().heap(),
            segments: engine.fabric().segments(),
            failures: engine.failures().clone(),
            engine: Lock::new(threads, engine),
            policy,
            looks: policy.looks(threads),
            rest: Rest::measured(),
            yields: Yields::default(),
            cores,
            sleepers: AtomicU32::new(0),
            crowd: Crowd::new(spinning_max),
            misses: AtomicU32::new(0),
            exchange: Mutex::new(exchange),
            failure_log: None,
            is_rung: false,
            liveness_descriptor: Mutex::new(None),
            read: AtomicU32::new(0),
            news: Mutex::new(None),
            restarts: Restarts { allowed: 0, fallback: FtMode::Blank, incarnation: 0 },
            contexts: Mutex::new(Contexts::new()),
            made: Counts::default(),
            registry: Registry::default(),
            objections: Mutex::default(),
            background: Background::default(),
            node,
            finished: AtomicBool::new(false),
            checks: AtomicBool::new(false),
            reads_peers: AtomicBool::new(true),
            surroundings: OnceLock::new(),
            guide: OnceLock::new(),
            nodes: OnceLock::new(),
            parts: OnceLock::new(),
            telling: OnceLock::new(),
            progress_thread: progress_thread::KnownThread::default(),
        }
    }

    /// This process.
    pub fn here(&self) -> Peer {
        self.here
    }

    /// How many numbers the job's processes have: more than it has ranks, where some may be started again.
    pub fn peers(&self) -> u32 {
        self.peers
    }

    /// What cores the job's ranks have; the same at all of them.
    pub(crate) fn cores(&self) -> Cores {
        self.cores
    }

    /// Whether any thread may call.
    pub fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }

    /// Waits until the request is over.
    #[inline]
    pub(crate) fn wait(&self, request: RequestId) -> Outcome {
        self.until_held(self.hold(), Interest::Request(request), |engine| {
            self.or_wanted(engine.conclude(request), request)
        })
    }

    /// Waits until the request is over, or has something to tell although it goes on ([`Outcome::goes_on`]);
    /// it stays.
    pub fn wait_here(&self, request: RequestId) {
        let waits_for =
            |engine: &mut Engine<Fabrics>| WaitsFor::interest(self, engine, Interest::Request(request));
        self.until_told(waits_for, |engine| self.or_wanted(engine.peek(request), request).map(drop));
    }

    /// One turn of progress, then whether the request is over.
    pub(crate) fn test(&self, request: RequestId) -> Option<Outcome> {
        self.look(|engine| self.or_wanted(engine.conclude(request), request))
    }

    /// Takes a request that is over; `None` when it is not, or not any more.
    pub fn end(&self, request: RequestId) -> Option<Outcome> {
        self.with(|engine| engine.conclude(request))
    }

    /// Looks at how a request ended without taking it.
    pub fn peek(&self, request: RequestId) -> Option<Outcome> {
        self.look(|engine| self.or_wanted(engine.peek(request), request))
    }

    /// Of a request that is not over, the operation behind it learns that somebody wants its end.
    #[inline]
    fn or_wanted(&self, ended: Option<Outcome>, request: RequestId) -> Option<Outcome> {
        if ended.is_none() && self.checks() {
            self.background.want(request);
        }
        ended
    }

    /// The positions of the requests that are over.
    fn over(&self, engine: &mut Engine<Fabrics>, requests: &[Option<RequestId>]) -> Vec<usize> {
        let mut is_over = |request: RequestId| self.or_wanted(engine.peek(request), request).is_some();
        (0..requests.len()).filter(|&place| requests[place].is_none_or(&mut is_over)).collect()
    }

    /// One turn of progress, then the positions of the requests that are over; `None` counts as over.
    #[must_use]
    pub fn ready(&self, requests: &[Option<RequestId>]) -> Vec<usize> {
        // Some that are over must not keep the others from getting on: the turn comes first.
        let mut turned = false;
        let ready = self.look(|engine| {
            let ready = self.over(engine, requests);
            let all = ready.len() == requests.len();
            let answer = if turned { !ready.is_empty() } else { all };
            turned = true;
            answer.then_some(ready)
        });
        ready.unwrap_or_default()
    }

    /// Waits until one of the requests is over, then the positions of those that are; `None` counts as over.
    #[must_use]
    pub fn wait_ready(&self, requests: &[Option<RequestId>]) -> Vec<usize> {
        let waits_for =
            |engine: &mut Engine<Fabrics>| WaitsFor::requests(engine, requests.iter().flatten().copied());
        self.until_told(waits_for, |engine| {
            Some(self.over(engine, requests)).filter(|ready| !ready.is_empty())
        })
    }

    /// Waits until one of the requests is over, or until another thread sets `woken` and rings, then the
    /// positions of those that are over; `None` counts as over.
    pub(crate) fn wait_ready_or(&self, requests: &[Option<RequestId>], woken: &AtomicBool) -> Vec<usize> {
        self.until(|engine| {
            let ready = self.over(engine, requests);
            (woken.load(Ordering::SeqCst) || !ready.is_empty()).then_some(ready)
        })
    }

    /// Wakes the threads of this process that sleep in a call, but for those that stand by for another: they
    /// are unparked.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    /// One turn of progress, then whether a message is there.
    pub(crate) fn probe(&self, pattern: &Pattern) -> Option<Probed> {
        self.look(|engine| engine.probe(pattern))
    }

    /// One turn of progress, then takes a message if one is there.
    pub(crate) fn take(&self, pattern: &Pattern) -> Option<Message> {
        self.look(|engine| engine.take(pattern))
    }

    pub(crate) fn receive_matched(&self, message: Message, target: impl Into<Target>) -> Receiving {
        self.with(|engine| engine.receive_matched(message, target))
    }

    /// A request that ends when [`Process::fulfil`] says so.
    #[must_use]
    pub fn promise(&self) -> RequestId {
        self.with(Engine::promise)
    }

    /// Ends a request of [`Process::promise`], and wakes who waits for it.
    pub fn fulfil(&self, request: RequestId) {
        self.with(|engine| engine.fulfil(request));
    }

    /// Cancels a request. A message to this very process is cancelled when this returns, or it has been
    /// received: no other process has to do anything for that.
    pub(crate) fn cancel(&self, request: RequestId) {
        let mut engine = self.hold();
        engine.cancel(request);
        while engine.asked_back_from(request) == Some(self.here) && self.turn(&mut engine) > 0 {}
        if self.is_shared() {
            self.rouse(&engine);
        }
    }

    /// One turn of progress.
    pub fn progress(&self) {
        let mut engine = self.hold();
        self.turn(&mut engine);
    }

    /// A rank whose launcher is gone has nobody to tell and nobody who would end it: it ends itself.
    fn die_with_the_manager(&self) {
        let lost = self.exchange.try_lock().is_ok_and(|exchange| exchange.lost());
        if lost && !self.finished.load(Ordering::Relaxed) {
            tell(format_args!("weft: process {}: the process manager is gone; ending", self.here.0));
            std::process::exit(EXIT_MANAGER_LOST);
        }
    }

    #[inline]
    fn turn(&self, engine: &mut Engine<Fabrics>) -> usize {
        let happened = engine.progress();
        if self.background.is_busy() {
            self.background.advance(engine);
        }
        // Where there is only one thread, it is awake.
        if self.is_shared() {
            self.rouse(engine);
        }
        happened
    }

    /// Tells the other threads of this process that wait if something has come about that they may wait for.
    #[inline]
    fn rouse(&self, engine: &Engine<Fabrics>) {
        let signs = engine.signs();
        if signs == self.crowd.signs() {
            return;
        }
        self.crowd.tell(signs, |interest| engine.may_be_over(interest));
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.bell.ring();
        }
    }

    /// One call of the engine.
    #[inline(always)]
    fn with<R>(&self, act: impl FnOnce(&mut Engine<Fabrics>) -> R) -> R {
        let mut engine = self.hold();
        let answer = act(&mut engine);
        if self.is_shared() {
            self.rouse(&engine);
        }
        answer
    }

    /// Looks, makes one turn of progress if nothing is there, and looks again. A program that looks in a loop
    /// gives its core away now and then where cores are shared, or the one it waits for would never run.
    pub(crate) fn look<R>(&self, mut ready: impl FnMut(&mut Engine<Fabrics>) -> Option<R>) -> Option<R> {
        let mut engine = self.hold();
        if let Some(answer) = ready(&mut engine) {
            return Some(answer);
        }
        let happened = self.turn(&mut engine);
        if happened == 0 {
            self.read_failure_log(&mut engine);
        }
        let answer = ready(&mut engine);
        drop(engine);
        if answer.is_none() && happened == 0 && self.policy == Policy::SharedCore {
            let misses = self.misses.fetch_add(1, Ordering::Relaxed);
            if misses.is_multiple_of(LOOKS_PER_YIELD) {
                if !self.yields.are_slow() {
                    self.yields.give_away();
                } else if misses.is_multiple_of(LOOKS_PER_NAP) {
                    std::thread::sleep(SHORT_NAP);
                }
            }
        }
        answer
    }

    #[inline]
    fn hold(&self) -> Guard<'_, Engine<Fabrics>> {
        self.engine.hold()
    }

    /// Memory for messages that the other processes of this node can map; none where no memory is shared.
    #[must_use]
    pub fn shared_heap(&self) -> Option<&SharedHeap> {
        self.heap.as_ref()
    }

    /// Lines that processes of this node write for each other; none where no memory is shared.
    pub(crate) fn segments(&self) -> Option<&CollectiveSegments> {
        self.segments.as_ref()
    }

    /// A look at the engine that changes nothing others wait for.
    pub(crate) fn with_engine<R>(&self, look: impl FnOnce(&mut Engine<Fabrics>) -> R) -> R {
        look(&mut self.hold())
    }

    /// The engine's requests, one a line, for a person who wonders.
    #[must_use]
    pub fn describe(&self) -> String {
        self.hold().describe()
    }

    /// The processes of this node: those that can share memory with this one, and this one.
    #[must_use]
    pub fn node(&self) -> &Group {
        &self.node
    }

    /// The context numbers of this process. Nobody asks for anything else while holding them.
    pub(crate) fn contexts(&self) -> std::sync::MutexGuard<'_, Contexts> {
        lock(&self.contexts)
    }

    /// The communicators that the program has made.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// How often communicators were made from no other.
    pub(crate) fn made(&self) -> &Counts {
        &self.made
    }

    /// Calls of processes without a communicator that came to nothing.
    pub(crate) fn objections(&self) -> std::sync::MutexGuard<'_, Objections> {
        lock(&self.objections)
    }

    /// Numbers for a new communicator that come into question here.
    pub(crate) fn propose_context(&self, seed: u64) -> Proposal {
        let mut contexts = self.contexts();
        if contexts.is_overdue() {
            drop(contexts);
            let waiting =
                self.with_engine(|engine| engine.unexpected_contexts().map(|context| context / 2).collect());
            contexts = self.contexts();
            contexts.wake(&waiting);
        }
        contexts.propose(seed)
    }

    /// Lets an operation go on with each turn of progress, until it is over.
    pub(crate) fn entrust(&self, operation: Box<dyn Operation>) {
        let mut engine = self.hold();
        self.background.add(operation, &mut engine);
        if self.is_shared() {
            // Whoever sleeps shall take it along.
            self.bell.ring();
        }
    }

    /// Tells the process manager that the job is to end with that code. The caller ends the process.
    pub fn announce_abort(&self, code: i32) {
        if let Ok(mut exchange) = self.exchange.lock() {
            exchange.abort(code);
        }
    }

    /// Ends the whole job with that code.
    pub fn abort(&self, code: i32) -> ! {
        self.announce_abort(code);
        std::process::exit(code)
    }

    /// Returns when everything that is under way from here has been sent.
    pub fn flush(&self) {
        self.until(|engine| engine.flush().then_some(()));
    }

    /// Sends what is under way and takes leave of the process manager. Nothing may be sent afterwards.
    pub(crate) fn finish(&self) {
        if self.finished.swap(true, Ordering::SeqCst) {
            return;
        }
        self.until(|engine| engine.leave().then_some(()));
        drop(lock(&self.news).take());
        drop(lock(&self.liveness_descriptor).take());
        lock(&self.exchange).finish();
    }

    /// What the process manager knows beyond ranks.
    pub(crate) fn exchange(&self) -> std::sync::MutexGuard<'_, Exchange> {
        lock(&self.exchange)
    }
}

/// One entry of the list that [`Process::wait_lent`] waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitListEntry {
    /// A receive.
    Receive(RequestId),
    /// No receive; the wait goes on to the next entry.
    Nothing,
    /// The end of the list.
    Stop,
}

/// A failure in words, with the peer's place in the communicator.
pub(crate) fn failure_text(failure: &Failure) -> Cow<'static, str> {
    match failure {
        Failure::Truncated { sent_bytes, room_bytes } => {
            format!("the message has {sent_bytes} bytes, the buffer has {room_bytes} bytes").into()
        }
        Failure::Lost(error) | Failure::Unacknowledged(error) => error.to_string().into(),
        Failure::Revoked => "the communicator is revoked".into(),
    }
}

/// A program that only looks gives its core away once per so many looks in vain.
const LOOKS_PER_YIELD: u32 = 2;
/// Where the core stays away for long, such a program sleeps a moment once per so many looks: whoever uses
/// the core meanwhile has most of it.
const LOOKS_PER_NAP: u32 = 32;
/// As short as a sleep can be, which is some ten microseconds.
const SHORT_NAP: Duration = Duration::from_nanos(1);
/// The exit status of a rank whose launcher vanished: that of a process ended by SIGKILL, as the launcher
/// was.
const EXIT_MANAGER_LOST: i32 = 137;
