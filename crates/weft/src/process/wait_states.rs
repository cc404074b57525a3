//! What the calls of this process wait for, written where the launcher reads it once a wait has become long.
//!
//! Nothing of it happens before a thread has slept for [`LONG`] with nothing having come, so it costs no call
//! anything. The record is erased when something comes.

use std::fmt::Write;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use fabric::Peer;
use job::fabrics::{Fabrics, WaitState, WaitStates};
use job::lock::lock;
use messaging::{Engine, Interest, Pending, Rank, RequestId};
use rustix::time::{ClockId, clock_gettime};

use super::Process;
use crate::communicator::Communicator;
use crate::contexts;

/// Where this process writes what its calls wait for.
pub(crate) struct Telling {
    states: WaitStates,
    /// Which function of MPI the calling thread is in.
    current_call: OnceLock<fn() -> &'static str>,
    told: Mutex<ToldWait>,
}

/// The waits that are long, the first of which is written.
#[derive(Default)]
struct ToldWait {
    waits: Vec<(u32, WaitState)>,
    tokens: u32,
}

/// A wait of one thread that was written, as that thread knows it.
pub(super) struct Long {
    token: u32,
    /// Since when nothing has come.
    quiet_since: Instant,
    /// The time on cpus that other threads of this process had used when it was written last.
    others_worked: Duration,
}

/// What a call waits for.
pub(crate) enum WaitsFor {
    /// Operations, of which the first are named; how many there are.
    Operations(Vec<Pending>, usize),
    /// These members of a communicator.
    Members(String, Vec<(Rank, Peer)>),
    /// That is not known.
    Unknown,
}

impl WaitsFor {
    /// Of the requests that a call waits for, those that are not over.
    pub(crate) fn requests(engine: &Engine<Fabrics>, requests: impl Iterator<Item = RequestId>) -> WaitsFor {
        let (mut first, mut count) = (Vec::new(), 0);
        for request in requests {
            match (first.len() < NAMED_MAX).then(|| engine.pending(Interest::Request(request))) {
                Some(None) => continue,
                Some(Some(pending)) => first.push(pending),
                None => {}
            }
            count += 1;
        }
        WaitsFor::Operations(first, count)
    }

    /// These members of a communicator.
    pub(crate) fn members(of: &Communicator, ranks: impl Iterator<Item = Rank>) -> WaitsFor {
        let member = |rank| Some((rank, of.group().peer(rank)?));
        WaitsFor::Members(of.label(), ranks.filter_map(member).collect())
    }

    /// What an engine tells of a wait of which nothing else is known: in a collective operation, the messages
    /// of that.
    pub(super) fn interest(process: &Process, engine: &Engine<Fabrics>, interest: Interest) -> WaitsFor {
        let asked = engine.pending(interest);
        if let (Interest::Request(request), Some(Pending::Several)) = (interest, asked)
            && let Some(beside) = process.background.waits_for(request)
        {
            return beside;
        }
        if let Some(pending) = asked.filter(|pending| *pending != Pending::Several) {
            return WaitsFor::Operations(vec![pending], 1);
        }
        let is_collective = |pending: &Pending| pending.context().is_some_and(is_collective);
        let all: Vec<Pending> = engine.all_pending().filter(is_collective).collect();
        match asked {
            _ if !all.is_empty() => WaitsFor::Operations(all, 0),
            Some(pending) => WaitsFor::Operations(vec![pending], 1),
            None => WaitsFor::Unknown,
        }
    }

    /// In words, and the processes.
    fn told(self, process: &Process) -> (String, Vec<Peer>) {
        match self {
            WaitsFor::Unknown => (String::new(), Vec::new()),
            WaitsFor::Members(label, members) => {
                let mut ranks: Vec<u32> = members.iter().map(|(rank, _)| rank.0).collect();
                ranks.sort_unstable();
                let text = format!("{label}, waits for {}", ranks_told(&ranks));
                (text, members.into_iter().map(|(_, peer)| peer).collect())
            }
            WaitsFor::Operations(pending, count) => operations_told(process, &pending, count),
        }
    }
}

impl Process {
    /// From now on this process writes there what its calls wait for.
    pub(crate) fn tells_waits(&self, states: WaitStates) {
        let telling = Telling { states, current_call: OnceLock::new(), told: Mutex::default() };
        // A process has one launcher.
        let _ = self.telling.set(telling);
    }

    /// Says by what the name of the function is found that the calling thread is in.
    pub fn names_calls_by(&self, current: fn() -> &'static str) {
        if let Some(telling) = self.telling.get() {
            let _ = telling.current_call.set(current);
        }
    }

    /// Whether a wait in which nothing has come `quiet_since` then has become long and is to be written; one
    /// in which something has come since it was written is erased.
    pub(super) fn is_to_be_told(&self, quiet_since: Instant, long: &mut Option<Long>) -> bool {
        let Some(telling) = self.telling.get() else { return false };
        match long {
            Some(long) if long.quiet_since == quiet_since => {
                telling.note_work(self.here, long);
                return false;
            }
            _ => self.wait_goes_on(long),
        }
        quiet_since.elapsed() >= LONG
    }

    /// Writes a wait that has become long.
    pub(super) fn tell_wait(
        &self,
        begun: Instant,
        quiet_since: Instant,
        waits_for: WaitsFor,
    ) -> Option<Long> {
        let telling = self.telling.get()?;
        let call = telling.current_call.get().map_or("", |current| current());
        let (detail, peers) = waits_for.told(self);
        let clock = |at: Instant| now().saturating_sub(at.elapsed());
        let state = WaitState {
            call: call.to_owned(),
            detail,
            peers,
            any: matches!(call, "MPI_Waitany" | "MPI_Waitsome"),
            begun: clock(begun),
            quiet_since: clock(quiet_since),
        };
        let token = telling.enter(self.here, state);
        Some(Long { token, quiet_since, others_worked: others_worked() })
    }

    /// Erases what was written of a wait: something has come, or it is over.
    #[cold]
    pub(super) fn wait_goes_on(&self, long: &mut Option<Long>) {
        if let (Some(telling), Some(long)) = (self.telling.get(), long.take()) {
            telling.leave(self.here, long.token);
        }
    }

    /// The communicator whose messages have that context, if the program has made it.
    fn communicator_with(&self, context: u32) -> Option<Communicator> {
        self.registry().living().into_iter().find(|one| one.has_gone_by(context & !1))
    }
}

impl Telling {
    fn enter(&self, here: Peer, state: WaitState) -> u32 {
        let mut told = lock(&self.told);
        told.tokens = told.tokens.wrapping_add(1);
        let token = told.tokens;
        told.waits.push((token, state));
        self.write(here, &told);
        token
    }

    fn leave(&self, here: Peer, token: u32) {
        let mut told = lock(&self.told);
        told.waits.retain(|(other, _)| *other != token);
        self.write(here, &told);
    }

    /// A process is not asleep whose other threads compute.
    fn note_work(&self, here: Peer, long: &mut Long) {
        let worked = others_worked();
        if worked.saturating_sub(long.others_worked) > WORK_OF_SLEEPERS {
            let mut told = lock(&self.told);
            let now = now();
            told.waits.iter_mut().for_each(|(_, state)| state.quiet_since = now);
            self.write(here, &told);
        }
        long.others_worked = worked;
    }

    fn write(&self, here: Peer, told: &ToldWait) {
        self.states.write(here, told.waits.first().map(|(_, state)| state));
    }
}

/// What the other threads of this process have used of cpus.
fn others_worked() -> Duration {
    let [all, own] = [ClockId::ProcessCPUTime, ClockId::ThreadCPUTime]
        .map(|clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default());
    all.saturating_sub(own)
}

/// The time by the clock that all processes of the host have in common.
fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

/// Whether the messages of that context belong to collective operations.
fn is_collective(context: u32) -> bool {
    context % 2 == 1
}

/// Operations in words, and the processes that they need.
fn operations_told(process: &Process, pending: &[Pending], count: usize) -> (String, Vec<Peer>) {
    let mut peers: Vec<Peer> = pending.iter().filter_map(peer_of).collect();
    peers.dedup();
    let collective = pending.iter().filter_map(Pending::context).find(|&context| is_collective(context));
    if let Some(context) = collective {
        let known = process.communicator_with(context);
        let label = label(known.as_ref(), context);
        let mut ranks: Vec<u32> = peers.iter().map(|&peer| rank_in(known.as_ref(), peer).0).collect();
        ranks.sort_unstable();
        ranks.dedup();
        return (format!("{label}, waits for {}", ranks_told(&ranks)), peers);
    }
    let first: Vec<String> = pending.iter().take(NAMED_MAX).map(|one| operation_told(process, one)).collect();
    let mut text = if count > 1 { format!("{count} requests: ") } else { String::new() };
    text.push_str(&first.join("; "));
    if count > first.len() && !first.is_empty() {
        let _ = write!(text, "; and {} more", count - first.len());
    }
    (text, peers)
}

fn operation_told(process: &Process, pending: &Pending) -> String {
    let known = pending.context().and_then(|context| process.communicator_with(context));
    let label = |context| label(known.as_ref(), context);
    let rank = |peer| rank_told(rank_in(known.as_ref(), peer), peer);
    match *pending {
        Pending::Send { to, under: Some((context, tag)) } => {
            format!("to {}, tag {tag}, {}", rank(to), label(context))
        }
        Pending::Send { to, under: None } => format!("to process {}, which takes nothing", to.0),
        Pending::Receive { from, pattern } => {
            let source = match (pattern.source, from) {
                (Some(source), Some(from)) => rank_told(source, from),
                (Some(source), None) => format!("rank {}", source.0),
                (None, _) => "any source".to_owned(),
            };
            let tag = pattern.tag.map_or("any tag".to_owned(), |tag| format!("tag {tag}"));
            format!("from {source}, {tag}, {}", label(pattern.context))
        }
        Pending::Arriving { from, source, tag } => {
            format!("the rest of a message from {}, tag {tag}", rank_told(source, from))
        }
        Pending::Several => "a nonblocking operation".to_owned(),
    }
}

fn label(known: Option<&Communicator>, context: u32) -> String {
    match (known, context / 2) {
        (Some(known), _) => known.label(),
        (None, contexts::WORLD) => "MPI_COMM_WORLD".to_owned(),
        (None, contexts::ALONE) => "MPI_COMM_SELF".to_owned(),
        (None, number) => format!("communicator {number}"),
    }
}

fn rank_in(known: Option<&Communicator>, peer: Peer) -> Rank {
    known.and_then(|known| known.rank_of(peer)).unwrap_or(Rank(peer.0))
}

/// A rank of a communicator; with its rank in the job where that is another.
fn rank_told(rank: Rank, peer: Peer) -> String {
    match rank.0 == peer.0 {
        true => format!("rank {}", rank.0),
        false => format!("rank {} (rank {} of the job)", rank.0, peer.0),
    }
}

fn peer_of(pending: &Pending) -> Option<Peer> {
    match pending {
        Pending::Send { to, .. } => Some(*to),
        Pending::Receive { from, .. } => *from,
        Pending::Arriving { from, .. } => Some(*from),
        Pending::Several => None,
    }
}

/// Ranks in their order, in ranges: `ranks 0-3, 7`.
fn ranks_told(ranks: &[u32]) -> String {
    if ranks.is_empty() {
        return "the others".to_owned();
    }
    let runs = ranks.chunk_by(|left, right| left + 1 == *right).map(|run| match run {
        [one] => one.to_string(),
        many => format!("{}-{}", many[0], many[many.len() - 1]),
    });
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", runs.collect::<Vec<_>>().join(", "))
}

/// A wait is long when so much time has passed in which nothing has come.
const LONG: Duration = Duration::from_millis(80);
/// So many operations are named.
const NAMED_MAX: usize = 3;
/// Threads that only sleep in MPI use less of the cpus between two looks at the clock.
const WORK_OF_SLEEPERS: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_told_in_ranges() {
        assert_eq!(ranks_told(&[3]), "rank 3");
        assert_eq!(ranks_told(&[0, 1, 2, 5, 7, 8]), "ranks 0-2, 5, 7-8");
        assert_eq!(ranks_told(&[]), "the others");
    }

    #[test]
    fn a_rank_has_its_rank_in_the_job_beside_it_where_that_differs() {
        assert_eq!(rank_told(Rank(2), Peer(2)), "rank 2");
        assert_eq!(rank_told(Rank(0), Peer(5)), "rank 0 (rank 5 of the job)");
    }
}
