//! Whether a process that the launcher started on this node has ended before it joined the job.
//!
//! Slurm and Hydra leave the others alone when a rank ends before `MPI_Init`, and the others would wait for
//! it at the fence for ever. But they are children of one parent, `slurmstepd` or `hydra_pmi_proxy`, and the
//! environment tells how many it started: so one of them looks whether all are still there (decisions/0009).
//!
//! It speaks only when it is certain. Both parents start all their ranks before they let the first one run or
//! answer it; a rank is missing when no living process of this node carries its number, and when that is so
//! twice running, with the fence still shut in between. Any child of the parent that it cannot place, a
//! process that it cannot see, and any other parent mean that nothing is said.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use crate::error::ExchangeError;
use crate::nodes::NodeMap;
use crate::start::Variables;

/// A launcher whose ranks on a node have one parent.
#[derive(Debug, PartialEq, Eq)]
struct Launcher {
    /// The name of the parent's program.
    parent: &'static str,
    /// The variable that tells the ranks of a parent apart.
    number: &'static str,
    /// Variables that are alike at all ranks of a parent, and not at those of another job.
    marks: &'static [&'static str],
}

const SLURM: Launcher =
    Launcher { parent: "slurmstepd", number: "SLURM_PROCID", marks: &["SLURM_JOB_ID", "SLURM_STEP_ID"] };

const HYDRA: Launcher = Launcher {
    parent: "hydra_pmi_proxy",
    number: "MPI_LOCALRANKID",
    marks: &["MPI_LOCALNRANKS", "PMI_PORT"],
};

/// Parents of ranks: who is below another one is of another job.
const PARENTS: [&str; 6] = [SLURM.parent, HYDRA.parent, "prted", "prterun", "orted", "weftrun"];

/// The processes that a launcher says it has started on this node: this process, and at least one more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Started {
    launcher: &'static Launcher,
    marks: Vec<Option<String>>,
    own: u32,
    numbers: BTreeSet<u32>,
}

impl Started {
    /// Launchers nest, and an inner one leaves the variables of an outer one as they are. Which of them
    /// counts is told by the parent.
    pub(crate) fn by_whom(variables: Variables<'_>, rank: u32, size: u32) -> Vec<Started> {
        [by_slurm(variables, rank, size), by_hydra(variables, size)].into_iter().flatten().collect()
    }

    fn new(
        launcher: &'static Launcher,
        variables: Variables<'_>,
        own: u32,
        numbers: BTreeSet<u32>,
    ) -> Option<Started> {
        let marks = launcher.marks.iter().map(|name| variables(name)).collect();
        let others = numbers.contains(&own) && 1 < numbers.len();
        others.then_some(Started { launcher, marks, own, numbers })
    }

    /// The numbers of those that are there no more; empty where that is not certain.
    fn missing(&self, parent: u32, host: &Host<'_>) -> BTreeSet<u32> {
        let mut missing = self.numbers.clone();
        for (&pid, _) in host.living().filter(|(_, process)| process.parent == parent) {
            match self.number_of((host.environment)(pid)) {
                Some(number) => missing.remove(&number),
                // Nobody knows who that is.
                None => return BTreeSet::new(),
            };
        }
        if missing.contains(&self.own) {
            return BTreeSet::new();
        }
        if missing.is_empty() {
            return missing;
        }
        // A wrapper may have put a rank into the background and ended.
        let ours = |pid: u32| host.parent_of_ranks(pid).is_none_or(|above| above == parent);
        for (&pid, _) in host.living().filter(|(pid, _)| ours(**pid)) {
            if let Some(number) = self.number_of((host.environment)(pid)) {
                missing.remove(&number);
            }
        }
        missing
    }

    /// Which of the started ones a process with this environment is.
    fn number_of(&self, environment: Option<Vec<u8>>) -> Option<u32> {
        let environment = environment?;
        let value = |name: &str| {
            let mut entries = environment.split(|&byte| byte == 0);
            let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
            std::str::from_utf8(value).ok().map(str::to_owned)
        };
        let ours = self.launcher.marks.iter().map(|name| value(name)).eq(self.marks.iter().cloned());
        let number = value(self.launcher.number)?.parse().ok()?;
        (ours && self.numbers.contains(&number)).then_some(number)
    }

    /// What to call them. Slurm numbers ranks; Hydra those of a node, in the order of their ranks.
    fn names(&self, numbers: &BTreeSet<u32>, rank: u32, map: Option<&NodeMap>) -> String {
        let ranks: Option<Vec<String>> = match self.launcher.number == SLURM.number {
            true => Some(numbers.iter().map(u32::to_string).collect()),
            false => map.and_then(|map| {
                let node = map.node(rank)?;
                let here: Vec<u32> = (0..map.ranks()).filter(|&rank| map.node(rank) == Some(node)).collect();
                let right = here.len() == self.numbers.len() && here.get(self.own as usize) == Some(&rank);
                let names = numbers.iter().map(|&number| here.get(number as usize).map(u32::to_string));
                names.collect::<Option<_>>().filter(|_| right)
            }),
        };
        match ranks {
            Some(ranks) if ranks.len() == 1 => format!("rank {}", ranks[0]),
            Some(ranks) => format!("each of ranks {}", ranks.join(", ")),
            None => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                format!("what the launcher started with {}={}", self.launcher.number, numbers.join(", "))
            }
        }
    }
}

/// Slurm lists the tasks of this node, of a step of which this process is a task.
fn by_slurm(variables: Variables<'_>, rank: u32, size: u32) -> Option<Started> {
    let number = |name| variables(name)?.trim().parse::<u32>().ok();
    let own = number(SLURM.number)?;
    if own != rank || number("SLURM_STEP_NUM_TASKS")? != size {
        return None;
    }
    let numbers: Option<BTreeSet<u32>> =
        variables("SLURM_GTIDS")?.split(',').map(|task| task.trim().parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.last().is_some_and(|&last| last < size))?;
    Started::new(&SLURM, variables, own, numbers)
}

/// Hydra tells how many ranks its proxy has.
fn by_hydra(variables: Variables<'_>, size: u32) -> Option<Started> {
    let number = |name| variables(name)?.trim().parse::<u32>().ok();
    let count = number("MPI_LOCALNRANKS").filter(|&count| count <= size)?;
    Started::new(&HYDRA, variables, number(HYDRA.number)?, (0..count).collect())
}

/// A process as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    parent: u32,
    name: String,
    /// Nothing of it runs any more; its parent has not asked yet how it ended.
    ended: bool,
}

impl Process {
    /// Reads the line of `/proc/PID/stat`, where the name may hold anything.
    pub(crate) fn parse(line: &str) -> Option<Process> {
        let (head, rest) = line.rsplit_once(") ")?;
        let name = head.split_once('(')?.1.to_owned();
        let mut fields = rest.split(' ');
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        // Other threads may run on when the first one has ended.
        let threads: u32 = fields.nth(THREADS_BEHIND_PARENT)?.parse().ok()?;
        Some(Process { parent, name, ended: matches!(state, "Z" | "X") && threads < 2 })
    }
}

/// Fields of `/proc/PID/stat` between the parent and the number of threads.
const THREADS_BEHIND_PARENT: usize = 15;

/// The processes that can be seen here.
struct Host<'a> {
    processes: BTreeMap<u32, Process>,
    environment: &'a dyn Fn(u32) -> Option<Vec<u8>>,
}

impl Host<'_> {
    fn living(&self) -> impl Iterator<Item = (&u32, &Process)> {
        self.processes.iter().filter(|(_, process)| !process.ended)
    }

    /// The nearest process above this one that starts ranks.
    fn parent_of_ranks(&self, pid: u32) -> Option<u32> {
        let mut at = self.processes.get(&pid)?.parent;
        // A process that has moved meanwhile must not make a ring of this.
        for _ in 0..GENERATIONS_MAX {
            let above = self.processes.get(&at)?;
            if PARENTS.contains(&above.name.as_str()) {
                return Some(at);
            }
            at = above.parent;
        }
        None
    }

    /// Who of those that started with process `own` is there no more.
    fn missing<'a>(&self, own: u32, started: &'a [Started]) -> Option<(&'a Started, BTreeSet<u32>)> {
        let parent = self.parent_of_ranks(own)?;
        let name = &self.processes.get(&parent)?.name;
        let started = started.iter().find(|started| started.launcher.parent == name)?;
        let missing = started.missing(parent, self);
        (!missing.is_empty()).then_some((started, missing))
    }
}

const GENERATIONS_MAX: usize = 100;

/// Looks at the processes of this host now.
fn host() -> Option<BTreeMap<u32, Process>> {
    // That of another name space has other numbers.
    let told = fs::read_link("/proc/self").ok()?;
    if told.to_str()?.parse() != Ok(std::process::id()) {
        return None;
    }
    let numbers =
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let process = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Some((pid, Process::parse(&String::from_utf8_lossy(&line))?))
    };
    Some(numbers.filter_map(process).collect())
}

/// The environment that a process of this user was started with.
fn environment(pid: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok()
}

/// Looks for processes of this node that have ended, while this process waits.
#[derive(Debug)]
pub(crate) struct Watch {
    started: Vec<Started>,
    /// The processes that were missing at the last look.
    missing: BTreeSet<u32>,
    rank: u32,
    map: Option<NodeMap>,
}

impl Watch {
    pub(crate) fn new(started: Vec<Started>, rank: u32, map: Option<NodeMap>) -> Watch {
        Watch { started, missing: BTreeSet::new(), rank, map }
    }

    /// Looks once. An error as soon as a process is missing for the second time in a row.
    pub(crate) fn look(&mut self) -> Result<(), ExchangeError> {
        if self.started.is_empty() {
            return Ok(());
        }
        match host() {
            Some(processes) => self.judge(std::process::id(), &Host { processes, environment: &environment }),
            None => Ok(()),
        }
    }

    fn judge(&mut self, own: u32, host: &Host<'_>) -> Result<(), ExchangeError> {
        let before = std::mem::take(&mut self.missing);
        let Some((started, missing)) = host.missing(own, &self.started) else { return Ok(()) };
        let twice: BTreeSet<u32> = missing.intersection(&before).copied().collect();
        if twice.is_empty() {
            self.missing = missing;
            return Ok(());
        }
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Err(ExchangeError::Ended { who: started.names(&twice, self.rank, self.map.as_ref()), host })
    }
}

/// Whether names need what the manager knows of nodes.
pub(crate) fn wants_map(started: &[Started]) -> bool {
    started.iter().any(|started| started.launcher == &HYDRA)
}

/// How a process waits for an answer that may take long: it calls `look` after each pause.
pub(crate) struct Waiting<'a> {
    look: &'a mut dyn FnMut() -> Result<(), ExchangeError>,
    pause: Duration,
    due: Instant,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(look: &'a mut dyn FnMut() -> Result<(), ExchangeError>) -> Waiting<'a> {
        Waiting::paced(look, FIRST_PAUSE, PAUSE)
    }

    /// With other pauses before the first look and between looks.
    pub(crate) fn paced(
        look: &'a mut dyn FnMut() -> Result<(), ExchangeError>,
        first: Duration,
        pause: Duration,
    ) -> Waiting<'a> {
        Waiting { look, pause, due: Instant::now() + first }
    }

    /// How long to wait for the answer before the next look. Wake-ups in between do not put the look off.
    pub(crate) fn left(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// No answer has come until a look was due.
    pub(crate) fn look(&mut self) -> Result<(), ExchangeError> {
        let looked = (self.look)();
        self.due = Instant::now() + self.pause;
        looked
    }
}

/// Most jobs have started by then, and have looked at nobody.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
#[path = "siblings_tests.rs"]
mod tests;
