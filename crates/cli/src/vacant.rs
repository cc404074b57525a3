//! Which cores are free for a job that says nothing of places, and what its ranks are bound to by that.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rustix::thread::CpuSet;
use topology::Host;

use crate::claims::{self, Choice, Claims};
use crate::cores::{self, Core};

/// Why ranks are bound to nothing, where nobody has asked for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unbound {
    /// There is one rank.
    Alone,
    /// The kernel tells of no cores.
    Unknown,
    /// More ranks than cores, and no even number for each.
    Uneven { ranks: u32, cores: usize },
    /// Too few cores are left by others.
    Occupied { ranks: u32, cores: usize, taken: usize, busy: usize },
}

impl fmt::Display for Unbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Unbound::Alone => write!(f, "one rank alone may use all cores"),
            Unbound::Unknown => write!(f, "the system tells of no cores"),
            Unbound::Uneven { ranks, cores } => {
                write!(f, "{ranks} ranks cannot be shared out evenly among {cores} cores")
            }
            Unbound::Occupied { ranks, cores, taken, busy } => {
                write!(f, "{ranks} ranks need cores of their own, and of {cores} ")?;
                match (taken, busy) {
                    (_, 0) => write!(f, "{taken} are held by other jobs"),
                    (0, _) => write!(f, "{busy} are busy with other programs"),
                    _ => write!(f, "{taken} are held by other jobs and {busy} busy with other programs"),
                }
            }
        }
    }
}

/// How the cores of a job are, in their order.
#[derive(Debug)]
pub struct Occupancy {
    choice: Choice,
    cores: Vec<Core>,
    states: Vec<CpuState>,
    /// Threads of others that run or could run, on which cores nobody has looked at.
    elsewhere: usize,
}

/// How a core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuState {
    /// Nobody uses it.
    Free,
    /// Another job holds it.
    Taken,
    /// Something runs on it.
    Busy,
}

impl Occupancy {
    /// Takes what cores other jobs leave, for the time of the choice, and looks whether something else runs
    /// on them, where that is asked for.
    pub fn look(cores: Vec<Core>, needed: usize, minds_others: bool) -> Occupancy {
        Occupancy::look_at(&Host::here(), Path::new(claims::FOLDER), cores, needed, minds_others)
    }

    fn look_at(host: &Host, folder: &Path, cores: Vec<Core>, needed: usize, minds_others: bool) -> Occupancy {
        let mut choice = Choice::begin(folder);
        // All of its cpus are tried, also where the first is not to be had: so that nobody else gets half of
        // a core.
        let take = |core: &Core| match core.cpus().iter().filter(|cpu| !choice.take(**cpu)).count() {
            0 => CpuState::Free,
            _ => CpuState::Taken,
        };
        let states: Vec<CpuState> = cores.iter().map(take).collect();
        let mut occupancy = Occupancy { choice, cores, states, elsewhere: 0 };
        if minds_others && needed <= occupancy.free() {
            occupancy.look_for_others(host, needed);
        }
        occupancy
    }

    /// Counting takes microseconds; it takes [`SPAN`] to see on which cores they are, where that makes a
    /// difference.
    fn look_for_others(&mut self, host: &Host, needed: usize) {
        // What ranks of other jobs do is known already.
        let taken = self.cores.len() - self.free();
        let others = others(|| host.runnable().unwrap_or(0), taken);
        if others == 0 {
            return;
        }
        if self.free() < needed + others && is_all_of(&self.cores, host) {
            self.elsewhere = others;
            return;
        }
        let busy = host.busy_cpus(SPAN);
        for (core, state) in self.cores.iter().zip(&mut self.states) {
            if *state == CpuState::Free && core.cpus().iter().any(|cpu| busy.contains(*cpu)) {
                *state = CpuState::Busy;
            }
        }
    }

    /// How many cores nobody uses.
    pub fn free(&self) -> usize {
        count(&self.states, CpuState::Free).saturating_sub(self.elsewhere)
    }

    /// The cpus of the cores that nobody uses, or how many there are at most.
    pub fn free_cpus(&self) -> usize {
        let cpus: usize = self.free_cores().iter().map(|core| core.cpus().len()).sum();
        cpus.saturating_sub(self.elsewhere)
    }

    /// The cores that no other job uses.
    pub fn free_cores(&self) -> Vec<Core> {
        free_of(&self.cores, &self.states)
    }

    /// The cpus that each rank is bound to by default.
    pub fn share_out(&self, ranks: u32, threads: usize) -> Result<Vec<CpuSet>, Unbound> {
        by_default(&self.cores, &self.states, self.elsewhere, ranks, threads)
    }

    /// Keeps the claims on the cpus of `sets`, which the ranks are bound to, and lets the other claims go.
    pub fn hold(self, sets: &[CpuSet]) -> Claims {
        self.choice.keep(|cpu| sets.iter().any(|set| set.is_set(cpu)))
    }
}

/// What each rank is bound to where nothing is said. Each gets free cores of its own, as many as it has
/// threads or an even share of those that are free: a thread library that knows that it has fewer cpus than
/// threads does not spin for long. Where nobody else uses a core, more ranks than cores share each evenly:
/// ranks that take turns on a core do so faster when the system does not move them about. One rank alone gets
/// no binding: there is nobody to keep it apart from, and a program with threads of its own would be
/// squeezed.
fn by_default(
    cores: &[Core],
    states: &[CpuState],
    elsewhere: usize,
    ranks: u32,
    threads: usize,
) -> Result<Vec<CpuSet>, Unbound> {
    let free = free_of(cores, states);
    let each = threads.min(free.len().saturating_sub(elsewhere) / ranks.max(1) as usize);
    if ranks == 1 {
        return Err(Unbound::Alone);
    }
    if cores.is_empty() {
        return Err(Unbound::Unknown);
    }
    if let Some(sets) = cores::share_out(&free, ranks, each) {
        return Ok(sets);
    }
    let (taken, busy) = (count(states, CpuState::Taken), count(states, CpuState::Busy) + elsewhere);
    match (taken, busy) {
        (0, 0) => cores::share_evenly(cores, ranks).ok_or(Unbound::Uneven { ranks, cores: cores.len() }),
        _ => Err(Unbound::Occupied { ranks, cores: cores.len(), taken, busy: busy.min(cores.len()) }),
    }
}

/// How many threads run beyond those that ranks of other jobs have: the least of a few looks, since much runs
/// for a moment only.
fn others(runnable: impl Fn() -> usize, of_other_jobs: usize) -> usize {
    let look = || runnable().saturating_sub(of_other_jobs);
    let mut least = look();
    for _ in 1..LOOKS {
        if least > 0 {
            std::thread::sleep(PAUSE);
            least = least.min(look());
        }
    }
    least
}

/// Whether these are all cores of the host, so that all that runs runs on them.
fn is_all_of(cores: &[Core], host: &Host) -> bool {
    let cpus: usize = cores.iter().map(|core| core.cpus().len()).sum();
    host.online().is_some_and(|online| online.len() == cpus)
}

fn free_of(cores: &[Core], states: &[CpuState]) -> Vec<Core> {
    let free = cores.iter().zip(states).filter(|(_, state)| **state == CpuState::Free);
    free.map(|(core, _)| core.clone()).collect()
}

fn count(states: &[CpuState], wanted: CpuState) -> usize {
    states.iter().filter(|state| **state == wanted).count()
}

const LOOKS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(1);
/// Long enough for two of the kernel's steps.
const SPAN: Duration = Duration::from_millis(25);

#[cfg(test)]
mod tests {
    use super::CpuState::{Busy, Free, Taken};
    use super::*;

    /// Two cpus each, the second hardware threads behind the first ones of all.
    fn machine(cores: usize) -> Vec<Core> {
        (0..cores).map(|core| Core::of(&[core, core + cores])).collect()
    }

    fn chosen(
        states: &[CpuState],
        elsewhere: usize,
        ranks: u32,
        threads: usize,
    ) -> Result<Vec<String>, Unbound> {
        let sets = by_default(&machine(states.len()), states, elsewhere, ranks, threads)?;
        Ok(sets.iter().map(cores::list).collect())
    }

    fn words(lists: &[&str]) -> Result<Vec<String>, Unbound> {
        Ok(lists.iter().map(|list| (*list).to_owned()).collect())
    }

    #[test]
    fn ranks_get_the_first_cores_that_nobody_uses() {
        assert_eq!(chosen(&[Free; 4], 0, 2, 1), words(&["0,4", "1,5"]));
        assert_eq!(chosen(&[Taken, Free, Busy, Free], 0, 2, 1), words(&["1,5", "3,7"]));
        assert_eq!(chosen(&[Taken, Taken, Free, Free], 0, 2, 1), words(&["2,6", "3,7"]));
        assert_eq!(chosen(&[Free; 4], 2, 2, 1), words(&["0,4", "1,5"]), "two are left for two others");
    }

    #[test]
    fn ranks_with_threads_get_as_many_cores_or_an_even_share() {
        assert_eq!(chosen(&[Free; 4], 0, 2, 2), words(&["0-1,4-5", "2-3,6-7"]));
        assert_eq!(chosen(&[Free; 2], 0, 2, 2), words(&["0,2", "1,3"]));
        assert_eq!(chosen(&[Free; 6], 0, 2, 4), words(&["0-2,6-8", "3-5,9-11"]));
        assert_eq!(chosen(&[Taken, Free, Free, Free], 0, 2, 2), words(&["1,5", "2,6"]));
        assert_eq!(chosen(&[Free; 2], 0, 4, 2), words(&["0,2", "0,2", "1,3", "1,3"]));
    }

    #[test]
    fn ranks_are_not_bound_where_others_leave_too_few_cores() {
        let occupied = |ranks, cores, taken, busy| Err(Unbound::Occupied { ranks, cores, taken, busy });
        assert_eq!(chosen(&[Taken, Taken], 0, 2, 1), occupied(2, 2, 2, 0));
        assert_eq!(chosen(&[Free, Taken], 0, 2, 1), occupied(2, 2, 1, 0));
        assert_eq!(chosen(&[Free, Busy], 0, 2, 2), occupied(2, 2, 0, 1));
        assert_eq!(chosen(&[Free, Free], 1, 2, 1), occupied(2, 2, 0, 1));
        assert_eq!(chosen(&[Free, Free], 9, 2, 1), occupied(2, 2, 0, 2));
        assert_eq!(chosen(&[Free, Taken], 0, 4, 1), occupied(4, 2, 1, 0), "no sharing of what others use");
        assert_eq!(chosen(&[Free, Free], 0, 3, 1), Err(Unbound::Uneven { ranks: 3, cores: 2 }));
        assert_eq!(chosen(&[Free, Free], 0, 1, 1), Err(Unbound::Alone));
        assert_eq!(chosen(&[], 0, 2, 1), Err(Unbound::Unknown));
        let told = Unbound::Occupied { ranks: 2, cores: 4, taken: 2, busy: 1 }.to_string();
        assert_eq!(
            told,
            "2 ranks need cores of their own, and of 4 2 are held by other jobs and 1 busy with other programs"
        );
    }

    #[test]
    fn what_runs_for_a_moment_only_does_not_count() {
        let looks = |counts: &[usize], of_other_jobs| {
            let counts = std::cell::RefCell::new(counts.iter());
            others(|| *counts.borrow_mut().next().expect("no further look"), of_other_jobs)
        };
        assert_eq!((looks(&[0], 0), looks(&[3, 0], 0), looks(&[3, 1, 2], 0)), (0, 0, 1));
        assert_eq!((looks(&[2], 2), looks(&[3, 2], 2), looks(&[5, 4, 4], 2)), (0, 0, 2));
    }

    /// A host of these cpus, with a count of what runs, whose counts of time stand still: no cpu is ever
    /// busy.
    fn host(cpus: usize, runnable: usize) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: String| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/loadavg", format!("0 0 0 {}/99 1\n", runnable + 1));
        write("proc/stat", String::new());
        write("sys/devices/system/cpu/online", format!("0-{}\n", cpus - 1));
        (0..cpus).for_each(|cpu| write(&format!("sys/devices/system/cpu/cpu{cpu}/x"), String::new()));
        root
    }

    #[test]
    fn jobs_at_once_get_different_cores_and_a_third_is_not_bound() {
        let root = host(8, 0);
        let folder = root.path().join("sys/devices/system/cpu");
        let look = || Occupancy::look_at(&Host::at(root.path()), &folder, machine(4), 2, true);
        let job = || {
            let occupancy = look();
            let sets = occupancy.share_out(2, 1)?;
            Ok((sets.iter().map(cores::list).collect::<Vec<_>>(), occupancy.hold(&sets)))
        };
        let first: Result<_, Unbound> = job();
        let (first, second) = (first.unwrap(), job().unwrap());
        assert_eq!([&first.0[..], &second.0[..]].concat(), ["0,4", "1,5", "2,6", "3,7"]);
        assert_eq!(job().unwrap_err(), Unbound::Occupied { ranks: 2, cores: 4, taken: 4, busy: 0 });
        assert_eq!(look().free_cpus(), 0);
        drop(first);
        assert_eq!(job().unwrap().0, ["0,4", "1,5"], "what has ended has left its cores");
        drop(second);
    }

    #[test]
    fn a_busy_machine_is_seen_without_a_look_at_each_cpu_where_that_is_enough() {
        let root = host(4, 2);
        let folder = root.path().join("sys/devices/system/cpu");
        let look =
            |needed, minds| Occupancy::look_at(&Host::at(root.path()), &folder, machine(2), needed, minds);
        assert_eq!(
            look(2, true).share_out(2, 1).unwrap_err(),
            Unbound::Occupied { ranks: 2, cores: 2, taken: 0, busy: 2 }
        );
        let busy = look(2, true);
        assert_eq!((busy.free(), busy.free_cpus()), (0, 2));
        drop(busy);
        assert!(look(2, false).share_out(2, 1).is_ok(), "nobody minds them");
        // On a larger machine it is seen where they are: here nowhere.
        let root = host(16, 2);
        let folder = root.path().join("sys/devices/system/cpu");
        let occupancy = Occupancy::look_at(&Host::at(root.path()), &folder, machine(8), 2, true);
        assert!(occupancy.free() == 8 && occupancy.share_out(2, 1).is_ok());
    }
}
