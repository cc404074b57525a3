//! `weft doctor`: what works here, what is slow, what is broken, and what to do about each.
//!
//! It looks where a job would look, and starts two small jobs on this node. What it says fits a page.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use weft::doctor::{self, Survey};
use weft::machine::MachineFrom;
use weft::{Config, ConstantsFrom, FabricName, Found, VARIABLES};

mod networks;

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    /// Not there, and not needed.
    Absent,
    /// It works, and could be better.
    Slow,
    /// A job cannot do with it as it is.
    Broken,
}

/// One line of the page, and one with what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    name: String,
    state: State,
    what: String,
    remedy: Option<String>,
}

impl Check {
    fn new(name: &str, state: State, what: impl Into<String>) -> Check {
        Check { name: name.to_owned(), state, what: what.into(), remedy: None }
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Check {
        self.remedy = Some(remedy.into());
        self
    }

    /// An error of the library: its first line is what happened, the second what to do.
    fn broken(name: &str, error: &dyn std::fmt::Display) -> Check {
        let text = error.to_string();
        let (what, remedy) = text.split_once('\n').unwrap_or((&text, ""));
        let check = Check::new(name, State::Broken, what);
        if remedy.is_empty() { check } else { check.remedy(remedy.trim()) }
    }
}

/// Prints the page; true where a job could start.
pub fn examine() -> bool {
    if is_further_task() {
        return true;
    }
    let mut sections = Vec::new();
    match Config::from_environment() {
        Ok(config) => {
            sections.push(("Launcher", launcher(&doctor::managers(&config))));
            sections.push(("Fabrics", fabrics(&config)));
            sections.push(("Network cards", networks::section(&config)));
            sections.push(("Machine", machine(&config)));
        }
        Err(error) => sections.push(("Settings", vec![Check::broken("environment", &error)])),
    }
    sections.push(("Variables", variables(std::env::vars())));
    let host = rustix::system::uname();
    let head = format!("weft {} on {}\n", env!("CARGO_PKG_VERSION"), host.nodename().to_string_lossy());
    print!("{head}{}", page(&sections));
    !sections.iter().flat_map(|(_, checks)| checks).any(|check| check.state == State::Broken)
}

/// Prints all variables with their meaning and what they hold.
pub fn environment() {
    for variable in VARIABLES {
        let value = std::env::var(variable.name).map(|value| format!("  (now {value:?})"));
        println!("{:<24} {}{}", variable.name, variable.meaning, value.unwrap_or_default());
    }
}

/// Under a launcher of many, the first task speaks for all.
fn is_further_task() -> bool {
    let rank = RANK_VARIABLES.iter().find_map(|name| std::env::var(name).ok());
    rank.is_some_and(|rank| rank.trim() != "0")
}

fn page(sections: &[(&str, Vec<Check>)]) -> String {
    let mut text = String::new();
    for (title, checks) in sections.iter().filter(|(_, checks)| !checks.is_empty()) {
        let _ = writeln!(text, "\n{title}");
        for check in checks {
            let state = match check.state {
                State::Good => "ok",
                State::Absent => "-",
                State::Slow => "slow",
                State::Broken => "BROKEN",
            };
            let _ = writeln!(text, "  {state:<7}{:<26} {}", check.name, check.what);
            if let Some(remedy) = &check.remedy {
                let _ = writeln!(text, "         remedy: {remedy}");
            }
        }
    }
    let broken = sections.iter().flat_map(|(_, checks)| checks);
    let broken = broken.filter(|check| check.state == State::Broken).count();
    let _ = match broken {
        0 => writeln!(text, "\nA job can start here."),
        1 => writeln!(text, "\nA job cannot start as things are: 1 thing is broken."),
        count => writeln!(text, "\nA job cannot start as things are: {count} things are broken."),
    };
    text
}

fn launcher(survey: &Survey) -> Vec<Check> {
    let chosen = match &survey.chosen {
        Ok((protocol, why)) => Check::new("chosen", State::Good, format!("{}: {why}", protocol.name())),
        Err(error) => Check::broken("chosen", error),
    };
    let seen = survey.seen.iter().map(|seen| {
        let state = if seen.usable { State::Good } else { State::Absent };
        Check::new(seen.name, state, seen.what.clone())
    });
    std::iter::once(chosen).chain(seen).collect()
}

fn fabrics(config: &Config) -> Vec<Check> {
    let mut checks = Vec::new();
    if config.allows(FabricName::Shm) {
        checks.push(match doctor::share_memory(RANKS_TRIED) {
            Ok(()) => Check::new("shared memory", State::Good, "memory without a name (memfd), handed over"),
            Err(error) => Check::broken("shared memory", &error),
        });
        checks.extend(trial("a job over shm", "shm", reading));
    } else {
        checks.push(Check::new("shared memory", State::Absent, "left out by WEFT_FABRIC"));
    }
    if config.allows(FabricName::Tcp) {
        checks.push(addresses(config));
        checks.extend(trial("a job over tcp", "tcp", |_| None));
    } else {
        checks.push(Check::new("sockets", State::Absent, "left out by WEFT_FABRIC"));
    }
    checks
}

fn addresses(config: &Config) -> Check {
    match doctor::addresses(config) {
        Ok(found) if found.iter().any(|(address, _)| !address.ip().is_loopback()) => {
            let shown: Vec<String> =
                found.iter().map(|(address, whom)| format!("{} ({whom})", address.ip())).collect();
            Check::new("sockets", State::Good, format!("would be reached at {}", shown.join(", ")))
        }
        Ok(_) => Check::new("sockets", State::Slow, "only this host itself could reach a process here")
            .remedy("for jobs on several hosts bring up an interface, or correct WEFT_TCP_INTERFACES"),
        Err(error) => Check::broken("sockets", &error),
    }
}

/// Starts a job of two ranks that is confined to a fabric, and tells how its messages go.
fn trial(name: &str, fabric: &str, more: impl Fn(&str) -> Option<Check>) -> Vec<Check> {
    let told = start_trial(fabric);
    // Behind a colon stands a provider.
    let fabric = fabric.split(':').next().unwrap_or(fabric);
    match told {
        Ok(told) => {
            let ways = told
                .lines()
                .skip(1)
                .take_while(|line| !line.starts_with(char::is_alphabetic) || line.starts_with(fabric));
            let ways: Vec<&str> = ways.map(str::trim).filter(|line| line.starts_with("up to")).collect();
            let way = ways.first().copied().unwrap_or("started and ended").split_whitespace();
            let way = format!("2 ranks met; {}", way.collect::<Vec<_>>().join(" "));
            std::iter::once(Check::new(name, State::Good, way)).chain(more(&told)).collect()
        }
        Err(why) => vec![Check::broken(name, &why)],
    }
}

fn start_trial(fabric: &str) -> Result<String, String> {
    start_two(&["--fabric", fabric], &["explain", "lanes"]).map(|told| told.output)
}

/// What a job of two ranks has written.
struct Told {
    output: String,
    errors: String,
}

/// Starts a job of two ranks of this program.
fn start_two(options: &[&str], arguments: &[&str]) -> Result<Told, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let beside = own.with_file_name(LAUNCHER);
    let launcher = if beside.exists() { beside } else { PathBuf::from(LAUNCHER) };
    let mut command = Command::new(&launcher);
    command.args(["-n", "2", "--timeout", TRIAL_SECONDS]).args(options).arg(own).args(arguments);
    // The trial is a job of its own, whatever has started this process.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if OTHERS.iter().any(|other| name.starts_with(other)) {
            command.env_remove(name);
        }
    }
    command.env_remove("WEFT_PROCESS_MANAGER");
    let output = command.output().map_err(|error| {
        format!("cannot start {}: {error}\ninstall weft anew: ci/install PREFIX", launcher.display())
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let told = Told { output: text(&output.stdout), errors: text(&output.stderr) };
    if output.status.success() {
        return Ok(told);
    }
    let said = told.errors.trim();
    Err(if said.is_empty() { format!("the trial ended with {}", output.status) } else { said.to_owned() })
}

/// Whether two ranks would have cores of their own at this moment, as the launcher says when it starts them.
/// Where it cannot, the trials of fabrics tell why.
fn binding() -> Option<Check> {
    start_two(&["--verbose"], &["--version"]).ok().map(|told| bound_by(&told.errors))
}

fn bound_by(told: &str) -> Check {
    let name = "binding";
    match told.lines().find_map(|line| line.split_once("not bound: ")) {
        None => Check::new(name, State::Good, "ranks get cores of their own, as long as there are enough"),
        Some((_, why)) => Check::new(name, State::Slow, format!("ranks would not be bound now: {why}"))
            .remedy(
                "nothing, if that is so; else end what runs, or bind with --bind-to core or WEFT_BUSY=ignore",
            ),
    }
}

/// Whether a rank may read another's memory, by what the trial says.
fn reading(told: &str) -> Option<Check> {
    let name = "reading memory (CMA)";
    let line = told.lines().find(|line| line.contains("CMA"))?.trim();
    if line.contains("tried, and allowed") {
        return Some(Check::new(name, State::Good, "allowed: large messages are copied once"));
    }
    let why = line.split_once("CMA").map_or(line, |(_, why)| why).trim_matches([' ', ':', '(', ')', ';']);
    let check = Check::new(name, State::Slow, format!("{why}: large messages are copied twice"));
    Some(check.remedy(
        "in a container allow process_vm_readv (docker: --cap-add=SYS_PTRACE); or MPI_Alloc_mem, which needs no leave",
    ))
}

fn machine(config: &Config) -> Vec<Check> {
    let mut checks = vec![cpus(), descriptors()];
    checks.extend(binding());
    checks.push(match &config.constants {
        ConstantsFrom::BuiltIn => Check::new("thresholds", State::Good, "built in"),
        other => match other.find() {
            Ok(Found { warning: Some(warning), .. }) => Check::new("thresholds", State::Slow, warning)
                .remedy("measure anew: weft explain lanes --measure"),
            Ok(Found { file: Some(file), .. }) => {
                Check::new("thresholds", State::Good, format!("measured, in {}", file.display()))
            }
            Ok(_) => Check::new("thresholds", State::Good, "built in"),
            Err(why) => {
                Check::new("thresholds", State::Broken, why).remedy("unset WEFT_CONSTANTS, or measure anew")
            }
        },
    });
    checks.push(hwloc());
    checks.push(tree(config));
    checks.extend(switches(config));
    checks
}

fn hwloc() -> Check {
    let start = std::time::Instant::now();
    match topology::Machine::of_this_host() {
        Ok(tree) => {
            let took = start.elapsed().as_secs_f64() * 1e3;
            Check::new(
                "hwloc",
                State::Good,
                format!("answers in {took:.1} ms: {}", crate::topo::summary(&tree)),
            )
        }
        Err(error) => {
            let what = format!("{error}: grids are mapped by nodes only, and not by what is in a node");
            Check::new("hwloc", State::Slow, what).remedy(error.remedy())
        }
    }
}

/// Where jobs have the machine tree from.
fn tree(config: &Config) -> Check {
    let name = "machine tree";
    let known = match &config.machine {
        // Looking makes no file.
        from @ MachineFrom::Host { .. } => match from.kept_at() {
            Some(path) if path.exists() => {
                return Check::new(name, State::Good, format!("kept in {}", path.display()));
            }
            Some(path) => {
                let what = format!("from hwloc; the first job that asks keeps it in {}", path.display());
                return Check::new(name, State::Good, what);
            }
            None => return Check::new(name, State::Good, "from hwloc, at each start that asks"),
        },
        described => described.find(),
    };
    match (known.tree, known.trouble) {
        (Some(tree), _) => {
            let what = format!("described by WEFT_MACHINE: {}", crate::topo::summary(&tree));
            Check::new(name, State::Good, what)
        }
        (None, Some(trouble)) => Check::new(name, State::Slow, trouble.what).remedy(trouble.remedy),
        (None, None) => Check::new(name, State::Slow, "is not known"),
    }
}

fn switches(config: &Config) -> Option<Check> {
    match config.switches.find() {
        Ok(path) => Some(Check::new("switches", State::Good, format!("this host is below {}", path?))),
        Err(trouble) => Some(Check::new("switches", State::Slow, trouble.what).remedy(trouble.remedy)),
    }
}

fn cpus() -> Check {
    match topology::cpus() {
        Ok(cpus) => {
            let quota =
                cpus.quota.map(|quota| format!(", and a cgroup grants {quota:.2}")).unwrap_or_default();
            let what = format!("{} may be used ({}){quota}", cpus.allowed.len(), cpus.allowed);
            let check = Check::new("cpus", State::Good, what);
            match cpus.quota {
                Some(quota) if quota < cpus.allowed.len() as f64 => Check { state: State::Slow, ..check }.remedy(
                    "more ranks than granted cpus take turns; start fewer, or raise the quota of the container",
                ),
                _ => check,
            }
        }
        Err(error) => {
            let text = error.to_string().replace('\n', "; ");
            Check::new("cpus", State::Slow, text).remedy("ranks give their core away at each wait")
        }
    }
}

fn descriptors() -> Check {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let words = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
    let what = format!(
        "a process may open {} (the administrator allows {})",
        words(limit.current),
        words(limit.maximum)
    );
    let few = limit.current.is_some_and(|current| current < DESCRIPTORS_WANTED);
    if few {
        let remedy = format!("one is needed per tcp peer that is spoken to: ulimit -n {DESCRIPTORS_WANTED}");
        return Check::new("descriptors", State::Slow, what).remedy(remedy);
    }
    Check::new("descriptors", State::Good, what)
}

/// Those of ours that are set; a name that is none of ours is mostly a slip of the finger.
fn variables(all: impl Iterator<Item = (String, String)>) -> Vec<Check> {
    let mut ours: Vec<(String, String)> = all.filter(|(name, _)| name.starts_with("WEFT_")).collect();
    ours.sort();
    let known = |name: &str| {
        VARIABLES.iter().any(|variable| variable.name == name) || OF_THE_COMPILERS.contains(&name)
    };
    let check = |(name, value): (String, String)| match known(&name) {
        true => Check::new(&name, State::Good, value),
        false => Check::new(&name, State::Slow, "is no variable of this version, and has no effect")
            .remedy("weft doctor --env lists them"),
    };
    ours.into_iter().map(check).collect()
}

const LAUNCHER: &str = "weftrun";
/// As many as a large node has.
const RANKS_TRIED: u32 = 64;
const TRIAL_SECONDS: &str = "20";
const DESCRIPTORS_WANTED: u64 = 1024;
/// Where launchers tell the rank.
const RANK_VARIABLES: [&str; 4] = ["PMIX_RANK", "PMI_RANK", "PMI_ID", "SLURM_PROCID"];
/// What other launchers leave in the environment.
const OTHERS: [&str; 5] = ["PMI_", "PMIX_", "SLURM_", "OMPI_", "PRTE_"];
/// Read by `mpicc` and `mpicxx`.
const OF_THE_COMPILERS: [&str; 2] = ["WEFT_CC", "WEFT_CXX"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_ranks_are_bound_is_what_the_launcher_tells() {
        let good =
            bound_by("weftrun: rank 0 is process 3, on cpus 0\nweftrun: rank 1 is process 4, on cpus 1\n");
        assert_eq!((good.state, good.remedy), (State::Good, None));
        let slow = bound_by("weftrun: rank 0 is process 3, not bound: of 2 cores 2 are busy\n");
        assert_eq!(
            (slow.state, slow.what.as_str()),
            (State::Slow, "ranks would not be bound now: of 2 cores 2 are busy")
        );
    }

    #[test]
    fn what_is_broken_is_counted_and_has_its_remedy_below() {
        let error = "shm: no memory\nraise the limit of the container";
        let sections = [
            ("Launcher", vec![Check::new("chosen", State::Good, "none")]),
            (
                "Fabrics",
                vec![Check::broken("shared memory", &error), Check::new("libfabric", State::Absent, "no")],
            ),
            ("Variables", Vec::new()),
        ];
        let text = page(&sections);
        let expected = "  BROKEN shared memory              shm: no memory\n         remedy: raise the limit of the container\n";
        assert!(text.contains(expected), "{text}");
        assert!(text.ends_with("1 thing is broken.\n") && !text.contains("Variables"), "{text}");
        assert!(page(&sections[..1]).ends_with("A job can start here.\n"));
    }

    #[test]
    fn a_misspelt_variable_is_found() {
        let set = [("WEFT_FABRIC", "shm"), ("WEFT_FABRICS", "shm"), ("HOME", "/root"), ("WEFT_CC", "clang")];
        let checks = variables(set.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter());
        let states: Vec<(&str, State)> =
            checks.iter().map(|check| (check.name.as_str(), check.state)).collect();
        assert_eq!(
            states,
            [("WEFT_CC", State::Good), ("WEFT_FABRIC", State::Good), ("WEFT_FABRICS", State::Slow)]
        );
    }

    #[test]
    fn whether_memory_may_be_read_is_taken_from_the_trial() {
        let allowed = "shm: all pairs\n  above            the receiver reads the sender's memory (CMA: tried, and allowed);\n";
        assert_eq!(reading(allowed).unwrap().state, State::Good);
        let refused = "  above  copied, in chunks (CMA refused: the kernel says: Operation not permitted (os error 1))\n";
        let check = reading(refused).unwrap();
        assert!(check.state == State::Slow && check.what.contains("Operation not permitted"), "{check:?}");
        assert!(reading("tcp: all pairs\n").is_none());
    }
}
