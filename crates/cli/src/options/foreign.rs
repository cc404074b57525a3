//! The options of other launchers, as data: how many values each takes, and what is done about it here.
//!
//! Names stand without their dashes: all launchers take one dash and two alike. What this launcher has by the
//! same name stands in `mod.rs`; an option that is in neither place is refused.

/// Options that mean the same under several names.
#[derive(Debug)]
pub struct Foreign {
    /// The names of the option, without dashes.
    pub names: &'static [&'static str],
    /// How many values follow the option.
    pub values: usize,
    /// What is done about the option.
    pub what: What,
}

/// What is done about an option of other launchers.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// The option is another name for this option of weftrun.
    Ours(&'static str),
    /// The option stands for this option of weftrun with this value.
    OursWith(&'static str, &'static str),
    /// The option says which variables the ranks get.
    Environment(Scope, Variables),
    /// The option names hosts.
    Hosts(HostsIn),
    /// The option names a file of which each line is a part of the job.
    Parts,
    /// The option asks for what weftrun does anyway.
    Met,
    /// The option is passed to Hydra where Hydra starts the job; it has no meaning on this host.
    ForHydra,
    /// The option is passed to PRRTE where PRRTE starts the job; it has no meaning on this host.
    ForPrrte,
    /// The option has no meaning here and is ignored.
    Ignored,
    /// The option is refused: a job that ignored it would not be the one that the user has asked for. The
    /// remedy says what to write.
    Refused(&'static str),
}

/// For which ranks variables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All ranks of the job.
    Job,
    /// The ranks of one part.
    Part,
}

/// The form in which an option names variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variables {
    /// `NAME VALUE`, or `NAME=VALUE` as one word.
    Set,
    /// `NAME` or `NAME=VALUE`.
    Export,
    /// A comma list of names: no others are passed on.
    List,
    /// All are passed on.
    All,
    /// None is passed on.
    Nothing,
}

/// The form in which an option names hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostsIn {
    /// In a comma list.
    List,
    /// In a file.
    File,
}

/// Looks an option up by its name without dashes.
pub fn find(name: &str) -> Option<&'static Foreign> {
    FOREIGN.iter().find(|foreign| foreign.names.contains(&name))
}

const fn word(names: &'static [&'static str], values: usize, what: What) -> Foreign {
    Foreign { names, values, what }
}

use self::What::{ForHydra, ForPrrte, Hosts, Ignored, Met, Ours, OursWith, Parts, Refused};

/// All of them.
pub const FOREIGN: &[Foreign] = &[
    // How many, and where on this host.
    word(&["c", "n", "ntasks"], 1, Ours("np")),
    word(&["N", "npernode", "perhost", "ntasks-per-node"], 1, Ours("ppn")),
    word(&["pernode"], 0, OursWith("ppn", "1")),
    word(&["npersocket"], 1, Ours("per-socket")),
    word(&["cpus-per-proc", "cpus-per-rank", "cpus-per-task"], 1, Ours("cores-per-rank")),
    word(&["cpu-list"], 1, Ours("cpu-set")),
    word(&["bind"], 1, Ours("bind-to")),
    word(&["bind-to-core"], 0, OursWith("bind-to", "core")),
    word(&["bind-to-socket"], 0, OursWith("bind-to", "socket")),
    word(&["bind-to-none"], 0, OursWith("bind-to", "none")),
    word(&["bycore"], 0, OursWith("map-by", "core")),
    word(&["bysocket"], 0, OursWith("map-by", "socket")),
    word(&["byslot", "bynode"], 0, OursWith("map-by", "slot")),
    word(&["use-hwthread-cpus"], 0, OursWith("map-by", "hwthread")),
    word(&["print-rank-map", "display-allocation", "display-devel-map"], 0, Ours("display-map")),
    word(&["oversubscribe", "nooversubscribe", "no-oversubscribe", "overcommit"], 0, Met),
    word(&["allow-run-as-root", "forward-signals-default", "bind-upwards"], 0, Met),
    // Folder and files.
    word(&["wd", "chdir"], 1, Ours("wdir")),
    word(&["configfile", "app"], 1, Parts),
    word(
        &["preload-files"],
        1,
        Refused("copy the files to the hosts first, or keep them on a file system that all share"),
    ),
    word(
        &["s", "preload-binary"],
        0,
        Refused("copy the program to the hosts first, or keep it on a file system that all share"),
    ),
    word(&["set-cwd-to-session-dir"], 0, Refused("name a folder with -wdir DIR")),
    // Variables.
    word(&["x", "set-env"], 1, What::Environment(Scope::Part, Variables::Export)),
    word(&["env"], 2, What::Environment(Scope::Part, Variables::Set)),
    word(&["envlist"], 1, What::Environment(Scope::Part, Variables::List)),
    word(&["envall"], 0, What::Environment(Scope::Part, Variables::All)),
    word(&["envnone"], 0, What::Environment(Scope::Part, Variables::Nothing)),
    word(&["genv"], 2, What::Environment(Scope::Job, Variables::Set)),
    word(&["genvlist"], 1, What::Environment(Scope::Job, Variables::List)),
    word(&["genvall"], 0, What::Environment(Scope::Job, Variables::All)),
    word(&["genvnone"], 0, What::Environment(Scope::Job, Variables::Nothing)),
    word(&["export"], 1, Refused("write -x NAME, -x NAME=VALUE, -genvall, -genvnone or -genvlist NAMES")),
    word(&["unset-env"], 1, Refused("start the program by `env -u NAME PROGRAM`")),
    word(&["append-env", "prepend-env"], 2, Refused("write -x NAME=VALUE with the whole value")),
    // Output and input.
    word(&["prepend-rank", "tag-output"], 0, Ours("label")),
    word(
        &["prepend-pattern"],
        1,
        Refused("write -l for the rank before each line; no other pattern is known here"),
    ),
    word(&["timestamp-output", "merge-stderr-to-stdout", "stream-buffering-off"], 0, Ignored),
    word(&["stream-buffering"], 1, Ignored),
    word(&["output-directory"], 1, Ours("output-filename")),
    word(&["xml", "parsable", "parseable", "show-progress", "output-proctable"], 0, Ignored),
    word(&["xterm"], 1, Refused("start a terminal as the program: -n N xterm -e PROGRAM")),
    word(&["input"], 1, Ours("stdin")),
    // Time and failures.
    word(&["disable-recovery", "report-state-on-timeout", "get-stack-traces"], 0, Met),
    word(&["enable-recovery", "continuous"], 0, OursWith("with-ft", "ulfm")),
    word(&["kill-on-bad-exit", "no-kill", "print-all-exitcodes", "silent-abort"], 0, Ignored),
    word(&["report-child-jobs-separately", "leave-session-attached"], 0, Ignored),
    word(&["spawn-timeout", "forward-signals"], 1, Ignored),
    // Several hosts.
    word(&["host", "hosts", "H", "nodelist"], 1, Hosts(HostsIn::List)),
    word(&["hostfile", "machinefile", "machine", "f", "default-hostfile"], 1, Hosts(HostsIn::File)),
    word(&["add-host", "add-hostfile"], 1, Refused("name all hosts with -hosts or -hostfile")),
    word(
        &["rankfile", "rf", "rankmap"],
        1,
        Refused("name the cpus of each rank with --bind-to user:LIST, and hosts with -hosts"),
    ),
    word(&["nolocal", "skip-launch-node"], 0, Refused("name the hosts to use with -hosts")),
    word(
        &["launcher", "launcher-exec", "bootstrap", "bootstrap-exec", "iface", "rmk", "localhost"],
        1,
        ForHydra,
    ),
    word(&["enable-x", "disable-x", "hybrid-hosts", "disable-hostname-propagation", "pmi-port"], 0, ForHydra),
    word(&["order-nodes", "nameserver", "demux", "topolib", "membind", "gpus-per-proc", "gpus"], 1, ForHydra),
    word(&["mca", "gmca", "omca", "gomca", "prtemca", "gprtemca", "pmixmca", "gpmixmca"], 2, ForPrrte),
    word(&["launch-agent", "max-vm-size", "personality", "prefix", "tmpdir", "gpu-support"], 1, ForPrrte),
    word(&["noprefix", "enable-orterun-prefix-by-default", "do-not-resolve", "debug-daemons"], 0, ForPrrte),
    // What others have of their own.
    word(&["tune", "am", "amca", "runtime-options", "display", "memory-alloc-kinds"], 1, Ignored),
    word(&["profile", "display-comm", "display-comm-finalize", "display-topo", "trace"], 0, Ignored),
    word(&["mpi", "ompi-server", "keepalive", "info-file"], 1, Ignored),
    word(
        &["do-not-launch"],
        0,
        Refused("--display-map says before the start where ranks go; `true` as the program does nothing"),
    ),
    word(
        &["stop-on-exec", "stop-in-init", "stop-in-app", "debug", "tv", "gdb"],
        0,
        Refused("start a debugger as the program: -n N gdb PROGRAM"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_once() {
        let mut names: Vec<&str> = FOREIGN.iter().flat_map(|foreign| foreign.names).copied().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.iter().all(|name| !name.starts_with('-')));
    }
}
