//! The watch on described hosts, and on this one with processes of its own.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use super::*;

/// A process with the environment that can be read of it.
type Described = (u32, u32, &'static str, Option<&'static str>);

/// Nodes that Slurm has given tasks 2 and 3 of 4, the watcher being 2 with process number 20.
fn slurm(name: &str) -> Option<String> {
    let value = match name {
        "SLURM_PROCID" => "2",
        "SLURM_GTIDS" => "2,3",
        "SLURM_STEP_NUM_TASKS" => "4",
        "SLURM_JOB_ID" => "7",
        "SLURM_STEP_ID" => "0",
        _ => return None,
    };
    Some(value.to_owned())
}

const TASK_2: Option<&str> = Some("A=B\0SLURM_PROCID=2\0SLURM_JOB_ID=7\0SLURM_STEP_ID=0\0");
const TASK_3: Option<&str> = Some("SLURM_JOB_ID=7\0SLURM_STEP_ID=0\0SLURM_PROCID=3\0");
const PARENT: Described = (10, 1, "slurmstepd", None);

fn missing_of(started: &[Started], own: u32, described: &[Described], ended: &[u32]) -> Vec<u32> {
    let process = |&(pid, parent, name, _): &Described| {
        (pid, Process { parent, name: name.to_owned(), ended: ended.contains(&pid) })
    };
    let environment = |pid: u32| {
        let found = described.iter().find(|(described, ..)| *described == pid)?;
        found.3.map(|text| text.as_bytes().to_vec())
    };
    let host = Host { processes: described.iter().map(process).collect(), environment: &environment };
    host.missing(own, started).map(|(_, missing)| missing.into_iter().collect()).unwrap_or_default()
}

fn missing(described: &[Described], ended: &[u32]) -> Vec<u32> {
    missing_of(&Started::by_whom(&slurm, 2, 4), 20, described, ended)
}

#[test]
fn who_has_ended_is_missed_and_who_lives_is_not() {
    let (watcher, other) = ((20, 10, "program", TASK_2), (21, 10, "program", TASK_3));
    assert_eq!(missing(&[PARENT, watcher, other], &[]), []);
    assert_eq!(missing(&[PARENT, watcher], &[]), [3]);
    assert_eq!(missing(&[PARENT, watcher, (21, 10, "program", Some(""))], &[21]), [3], "not yet asked after");
    assert_eq!(
        missing(&[PARENT, (20, 15, "program", TASK_2), (15, 10, "sh", TASK_2)], &[]),
        [3],
        "by a wrapper"
    );
}

#[test]
fn what_is_not_certain_is_not_said() {
    let watcher = (20, 10, "program", TASK_2);
    let silent = |described: &[Described], why: &str| assert_eq!(missing(described, &[]), [], "{why}");
    silent(&[PARENT, watcher, (21, 10, "slurmstepd", Some("PATH=/bin\0"))], "forked, and no program yet");
    silent(&[PARENT, watcher, (21, 10, "program", None)], "another user's, or one that cannot be read");
    silent(&[PARENT, watcher, (21, 10, "program", Some("SLURM_PROCID=9\0"))], "no task of ours");
    silent(&[PARENT, watcher, (21, 1, "program", TASK_3)], "put into the background");
    silent(&[PARENT, watcher, (22, 20, "sh", TASK_2), (21, 22, "program", TASK_3)], "far below");
    silent(&[(10, 1, "sh", None), watcher], "a parent that is not the launcher's");
    silent(&[(10, 1, "prted", None), watcher], "another launcher");
    silent(&[(20, 0, "program", TASK_2)], "a name space of its own");
    silent(&[PARENT, (20, 10, "program", Some("SLURM_PROCID=2\0"))], "an environment of another job");
    silent(&[(20, 21, "program", TASK_2), (21, 20, "program", TASK_3)], "a ring");
}

#[test]
fn those_of_other_jobs_are_nobody() {
    let watcher = (20, 10, "program", TASK_2);
    let other_step = (31, 1, "tmux", Some("SLURM_PROCID=3\0SLURM_JOB_ID=7\0SLURM_STEP_ID=1\0"));
    assert_eq!(missing(&[PARENT, watcher, other_step], &[]), [3]);
    let below_another = [(30, 1, "slurmstepd", None), (31, 30, "program", TASK_3)];
    assert_eq!(missing(&[&[PARENT, watcher], &below_another[..]].concat(), &[]), [3]);
}

fn hydra(name: &str) -> Option<String> {
    let value = match name {
        "MPI_LOCALRANKID" => "0",
        "MPI_LOCALNRANKS" => "2",
        // Hydra's proxies are tasks of Slurm here.
        _ => return slurm(name).filter(|_| name != "SLURM_STEP_NUM_TASKS"),
    };
    Some(value.to_owned())
}

#[test]
fn hydra_counts_those_of_a_node() {
    let started = Started::by_whom(&hydra, 1, 4);
    assert_eq!(started.len(), 1, "{started:?}");
    let watcher = (20, 10, "program", Some("MPI_LOCALRANKID=0\0MPI_LOCALNRANKS=2\0SLURM_PROCID=2\0"));
    let described =
        [(10, 9, "hydra_pmi_proxy", Some("SLURM_PROCID=2\0")), (9, 1, "slurmstepd", None), watcher];
    assert_eq!(missing_of(&started, 20, &described, &[]), [1]);
    let named = |map: &str| started[0].names(&BTreeSet::from([1]), 1, NodeMap::parse(map, 4).as_ref());
    assert_eq!(named("(vector,[(0,2,1)]x2)"), "rank 3", "one by one to two nodes");
    assert_eq!(
        named("(vector,(0,2,2))"),
        "what the launcher started with MPI_LOCALRANKID=1",
        "a map that is wrong"
    );
    assert_eq!(named("none"), "what the launcher started with MPI_LOCALRANKID=1");
}

#[test]
fn variables_that_do_not_agree_start_no_watch() {
    let with = |name: &'static str, value: &'static str| {
        move |asked: &str| if asked == name { Some(value.to_owned()) } else { slurm(asked) }
    };
    assert_eq!(Started::by_whom(&slurm, 2, 4).len(), 1);
    assert!(Started::by_whom(&slurm, 1, 4).is_empty(), "a launcher within the step has numbered anew");
    assert!(Started::by_whom(&slurm, 2, 8).is_empty());
    for tasks in ["2", "3", "0,1", "2,x", "2,9", ""] {
        assert!(Started::by_whom(&with("SLURM_GTIDS", tasks), 2, 4).is_empty(), "{tasks}");
    }
    assert!(Started::by_whom(&|_| None, 0, 2).is_empty());
    let crowd = |name: &str| if name == "MPI_LOCALNRANKS" { Some("9".to_owned()) } else { hydra(name) };
    assert!(Started::by_whom(&crowd, 1, 4).is_empty());
}

#[test]
fn somebody_is_missed_at_the_second_look() {
    let alone = [PARENT, (20, 10, "program", TASK_2)];
    let both = [PARENT, (20, 10, "program", TASK_2), (21, 10, "program", TASK_3)];
    let mut watch = Watch::new(Started::by_whom(&slurm, 2, 4), 2, None);
    let mut look = |described: &[Described]| {
        let process = |&(pid, parent, name, _): &Described| {
            (pid, Process { parent, name: name.to_owned(), ended: false })
        };
        let environment =
            |pid: u32| described.iter().find(|(described, ..)| *described == pid)?.3.map(|text| text.into());
        let host = Host { processes: described.iter().map(process).collect(), environment: &environment };
        watch.judge(20, &host).map_err(|error| error.to_string())
    };
    assert_eq!((look(&alone), look(&both), look(&alone)), (Ok(()), Ok(()), Ok(())), "never twice running");
    let told = look(&alone).unwrap_err();
    assert!(told.starts_with("rank 3 has ended on ") && told.contains("must call MPI_Init"), "{told}");
}

#[test]
fn a_line_of_a_process_is_read_whatever_its_name() {
    let line = |name: &str, state: &str, threads: u32| {
        format!("12 ({name}) {state} 34 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 99 0 0\n")
    };
    let read = |name: &str, state: &str, threads: u32| Process::parse(&line(name, state, threads)).unwrap();
    let of = |name: &str, ended: bool| Process { parent: 34, name: name.to_owned(), ended };
    assert_eq!(read("a) R 1 (b", "S", 1), of("a) R 1 (b", false));
    assert_eq!(read("", "Z", 1), of("", true));
    assert_eq!(read("x", "Z", 2), of("x", false), "its first thread has ended, and another runs");
    for bad in ["", "12 (x", "12 (x) ", "12 (x) S", "12 (x) S 1 2", "x) S y 1 2 3"] {
        assert_eq!(Process::parse(bad), None, "{bad}");
    }
}

/// A process of this test that ends with it.
struct Rank(Child);

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn rank(number: u32) -> Rank {
    let mut command = Command::new("sleep");
    command.arg("1000").arg0("rank").env("SLURM_PROCID", number.to_string());
    command.env("SLURM_JOB_ID", "7").env("SLURM_STEP_ID", "0");
    Rank(command.spawn().expect("a rank"))
}

/// The table and the environments of the real host: this process stands in for the launcher's.
#[test]
fn real_processes_are_seen_and_missed() {
    let (watcher, mut other) = (rank(2), rank(3));
    let ours = [std::process::id(), watcher.0.id(), other.0.id()];
    let judged = || {
        let mut processes = host().expect("processes can be seen");
        let own = processes.get_mut(&std::process::id()).expect("this process");
        assert!(!own.ended);
        own.name = SLURM.parent.to_owned();
        // What other tests have started.
        processes.retain(|pid, _| ours.contains(pid));
        let host = Host { processes, environment: &environment };
        let started = Started::by_whom(&slurm, 2, 4);
        host.missing(watcher.0.id(), &started).map(|(_, missing)| missing).unwrap_or_default()
    };
    assert_eq!(judged(), BTreeSet::new());
    other.0.kill().unwrap();
    let ended =
        |pid: u32| Process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).unwrap()).unwrap().ended;
    while !ended(other.0.id()) {
        std::thread::yield_now();
    }
    assert_eq!(judged(), BTreeSet::from([3]), "a process that nobody has waited for");
    other.0.wait().unwrap();
}
