//! Jobs where the system forbids something, has no `/proc`, or has no network: they run all the same, or say
//! why not.
//!
//! This program is also what the tests start: as a wrapper that puts a filter of system calls on, and as the
//! ranks.

mod common;

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use common::{Outcome, start_command, weftrun};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use weft::{Session, Threads};

/// What a rank does: all meet. It is a test by itself, which has nothing to do unless one of those below has
/// started it.
#[test]
fn a_rank_that_meets_all() {
    if std::env::var_os(MEETS).is_none() {
        return;
    }
    let session = Session::start_for(Threads::One).unwrap();
    let world = session.world();
    world.barrier().unwrap();
    println!(
        "{} met {} by {}",
        world.rank().0,
        world.size(),
        std::env::var("WEFT_FABRIC").unwrap_or_default()
    );
}

/// Puts a filter on, and becomes the program behind. In the same way it is no test by itself.
#[test]
fn a_wrapper_that_forbids() {
    let Some(words) = std::env::var_os(FORBIDS) else { return };
    let words = words.into_string().unwrap();
    let mut words = words.split('\n');
    let rules = words.next().unwrap().split(' ').map(|call| (number(call), Vec::new())).collect();
    let refuse = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error() as u32);
    let machine = std::env::consts::ARCH.try_into().unwrap();
    let filter: BpfProgram =
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, machine).unwrap().try_into().unwrap();
    seccompiler::apply_filter(&filter).unwrap();
    panic!("{}", Command::new(words.next().unwrap()).args(words).env_remove(FORBIDS).exec());
}

fn number(call: &str) -> i64 {
    match call {
        "memfd_create" => libc::SYS_memfd_create,
        "socketpair" => libc::SYS_socketpair,
        other => panic!("{other}"),
    }
}

/// A job of ranks that meet, below a wrapper that forbids these calls, and in a name space of its own where
/// `wrapper` makes one.
fn job(forbidden: &str, wrapper: &[&str], options: &[&str]) -> Outcome {
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let ranks = [own, "--exact", "a_rank_that_meets_all", "--nocapture"];
    let (launcher, mark) = weftrun(&[options, &["-n", "3", "--timeout", "25"], &ranks].concat());
    let mut words: Vec<&str> = wrapper.to_vec();
    words.push(launcher.get_program().to_str().unwrap());
    words.extend(launcher.get_args().map(|word| word.to_str().unwrap()));
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    if !forbidden.is_empty() {
        command = Command::new(own);
        command.args(["--exact", "a_wrapper_that_forbids", "--nocapture"]);
        command.env(FORBIDS, [&[forbidden], &words[..]].concat().join("\n"));
    }
    command.envs(launcher.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env(MEETS, "").env_remove("WEFT_FABRIC").env_remove("OMP_NUM_THREADS");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    start_command(command, mark).finish()
}

fn must_meet(outcome: &Outcome, fabric: &str) {
    assert_eq!(outcome.code(), 0, "{}", outcome.errors);
    let met = outcome.output.lines().filter(|line| line.ends_with(&format!(" met 3 by {fabric}")));
    assert_eq!(met.count(), 3, "{} {}", outcome.output, outcome.errors);
}

/// Whether name spaces can be made here, as root or by leave.
fn can_unshare(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    let done = command.args(&words[1..]).arg("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let can = done.is_ok_and(|status| status.success());
    if !can {
        println!("LEFT OUT: {} cannot be done here", words.join(" "));
    }
    can
}

#[test]
fn memory_is_shared_where_memfd_is_forbidden() {
    for options in [&["--fabric", "shm"][..], &["--fabric", "shm", "--ft"]] {
        let outcome = job("memfd_create", &[], options);
        must_meet(&outcome, "shm");
        let errors = &outcome.errors;
        assert_eq!(errors.matches("memfd_create is refused here").count(), 1, "{errors}");
        assert!(errors.contains("ranks share an unlinked file on a tmpfs instead"), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
    // Ranks of parts of the node make their memory themselves.
    let outcome = job("memfd_create", &[], &["--nodes", "2"]);
    must_meet(&outcome, "");
}

#[test]
fn messages_go_over_tcp_where_no_memory_can_be_shared() {
    // The programs of this test may themselves lie in one of these folders: they stay readable.
    let no_tmpfs = "for folder in /dev/shm /run/shm /tmp /var/tmp; do if [ -d $folder ]; then \
        mount --bind $folder $folder && mount -o remount,bind,ro $folder || exit 9; \
        fi; done; exec \"$0\" \"$@\"";
    let wall = ["unshare", "--mount", "sh", "-c", no_tmpfs];
    if !can_unshare(&wall) {
        return;
    }
    let outcome = job("memfd_create", &wall, &[]);
    must_meet(&outcome, "tcp");
    assert!(outcome.errors.contains("no tmpfs serves instead: messages go over tcp"), "{}", outcome.errors);
    let outcome = job("memfd_create", &wall, &["--fabric", "shm"]);
    assert_eq!(outcome.code(), 1, "{}", outcome.errors);
    assert!(outcome.errors.contains("WEFT_FABRIC=tcp"), "{}", outcome.errors);
}

/// `mark` finds processes by `/proc`, which stands outside of the job's name space as ever.
#[test]
fn a_job_starts_without_proc() {
    let wall = ["unshare", "--mount", "sh", "-c", "umount -l /proc && exec \"$0\" \"$@\""];
    if !can_unshare(&wall) {
        return;
    }
    for options in [&["--fabric", "shm"][..], &["--fabric", "shm", "--ft"], &["--fabric", "tcp"]] {
        let outcome = job("", &wall, options);
        must_meet(&outcome, options[1]);
        assert_eq!(outcome.errors, "", "{options:?}");
    }
}

#[test]
fn what_is_missing_to_start_a_rank_is_told() {
    let outcome = job("socketpair", &[], &[]);
    assert_eq!(outcome.code(), 1, "{}", outcome.errors);
    assert!(outcome.errors.contains("cannot start rank 0"), "{}", outcome.errors);
    assert!(outcome.errors.contains("(socketpair): Operation not permitted"), "{}", outcome.errors);
    assert!(outcome.errors.contains("filter of system calls"), "{}", outcome.errors);
}

#[test]
fn a_host_without_a_network_is_told_of_its_interfaces() {
    let wall = ["unshare", "--net"];
    if !can_unshare(&wall) {
        return;
    }
    let outcome = job("", &wall, &["--fabric", "tcp"]);
    assert_ne!(outcome.code(), 0, "{}", outcome.errors);
    assert!(outcome.errors.contains("no network interface that is up"), "{}", outcome.errors);
    assert!(outcome.errors.contains("ip link set lo up"), "{}", outcome.errors);
    must_meet(&job("", &wall, &["--fabric", "shm"]), "shm");
}

const MEETS: &str = "WEFT_TEST_MEETS";
const FORBIDS: &str = "WEFT_TEST_FORBIDS";
