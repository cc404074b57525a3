//! The tests that are C programs: `bench/tests`, the benchmarks with small sizes, and the examples,
//! all compiled with the installed `mpicc`, or `mpicxx` where a source ends in `.cc`, and started with the installed
//! `weftrun`, over every
//! fabric. Over providers of libfabric, which take long to begin, each runs with one number of ranks; so do those that lose ranks
//! where some ranks share memory and others do not.
//!
//! A program in `bench/tests` says in its first lines how it wants to be run:
//!
//! ```text
//! // ranks: 1 2 3 8      once with each of these numbers of ranks
//! // exit: 7             this exit status is the right one; `nonzero` takes any but 0
//! // launch: -x A=B      options for weftrun
//! // says: in words      this stands somewhere in what is said; such lines may be several
//! // says not: in words  this does not
//! // bare: it counts …    left out where the library is instrumented, for this reason
//! // not libfabric: it …   left out over libfabric, for this reason
//! ```
//!
//! A test that is to exit with 0 also has to print the line `ok`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::hidden;
use crate::job::{self, Ending, Finished};
use crate::measured;
use crate::start;
use crate::tally::Tally;

/// Compiles and runs every C test whose name contains `filter` with the weft installed in `prefix`. Those that an
/// instrumented library makes meaningless are then left out.
///
/// # Errors
/// When the tests cannot be read or their folder cannot be made. A program that does not compile is a
/// failed test.
pub fn run(root: &Path, prefix: &Path, filter: &str, instrumented: bool) -> Result<Tally, String> {
    let folder = root.join("target/c-tests");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut place =
        Place { sources: root.join("bench"), bin: prefix.join("bin"), folder, fabrics: Vec::new() };
    place.fabrics = place.fabrics_here()?;
    let mut tally = Tally::default();
    let all = cases(&place.sources)?;
    let mut chosen: Vec<&Case> = Vec::new();
    for case in all.iter().filter(|case| case.name.contains(filter)) {
        match &case.bare {
            Some(reason) if instrumented => println!("LEFT OUT  {}: {reason}", case.name),
            _ => chosen.push(case),
        }
        if let Some(reason) = &case.not_libfabric {
            println!("LEFT OUT  {} over libfabric: {reason}", case.name);
        }
    }
    let (patient, others): (Vec<&Case>, Vec<&Case>) =
        chosen.into_iter().partition(|case| case.right == Right::Status(TIMED_OUT));
    thread::scope(|scope| {
        let patient = scope.spawn(|| place.run_side_by_side(&patient));
        // While one program runs, the next are compiled: many of them wait more than they compute.
        let (compiled, ready) = mpsc::sync_channel(COMPILED_AHEAD);
        let place = &place;
        scope.spawn(move || others.iter().all(|case| compiled.send((*case, place.compiled(case))).is_ok()));
        ready.iter().for_each(|(case, program)| place.run_case(case, program, &mut tally));
        let told = patient.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        told.into_iter().for_each(|(name, result)| tally.note(&name, result));
    });
    if "corrupt".contains(filter) {
        place.corrupted_contents_are_noticed(&mut tally);
    }
    if "mapped alloc_mem".contains(filter) {
        place.allocated_memory_is_mapped(&mut tally);
    }
    if "hidden libfabric".contains(filter) {
        match place.hello("hidden-hello") {
            Ok(program) => hidden::run(prefix, &program, &mut tally),
            Err(account) => tally.note("hidden libfabric, compiling", Err(account)),
        }
    }
    let leaves = "libfabric:shm leaves nothing in /dev/shm";
    if leaves.contains(filter) && place.fabrics.iter().any(|fabric| fabric.name == "libfabric:shm") {
        let looked = place.hello("leaves-hello").and_then(|hello| hidden::leaves_nothing(&place.bin, &hello));
        match looked {
            Ok(Err(reason)) => println!("LEFT OUT  {leaves}: {reason}"),
            looked => tally.note(leaves, looked.map(drop)),
        }
    }
    let start = "start, calls of the ranks";
    match "start".contains(filter) {
        true if instrumented => {
            println!("LEFT OUT  {start}: a sanitizer makes calls of its own at the start");
        }
        true => tally.note(start, place.starts_lean()),
        false => {}
    }
    Ok(tally)
}

struct Place {
    sources: PathBuf,
    bin: PathBuf,
    folder: PathBuf,
    /// Those that can be had here.
    fabrics: Vec<Fabric>,
}

/// A fabric that programs run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fabric {
    /// As `--fabric` takes it.
    name: &'static str,
    /// A program runs with one number of ranks only: its largest that is not above this.
    ranks_max: Option<u32>,
    /// The ranks are dealt out to so many parts of this node, as if each were one.
    nodes: u32,
}

impl Fabric {
    const fn full(name: &'static str) -> Fabric {
        Fabric { name, ranks_max: None, nodes: 1 }
    }

    const fn brief(name: &'static str, ranks_max: u32) -> Fabric {
        Fabric { name, ranks_max: Some(ranks_max), nodes: 1 }
    }

    /// Shared memory among some ranks and tcp between others.
    const fn mixed(ranks_max: u32) -> Fabric {
        Fabric { name: "shm,tcp", ranks_max: Some(ranks_max), nodes: 2 }
    }

    /// As lines and files tell it.
    fn label(self) -> String {
        if self.nodes == 1 { self.name.to_owned() } else { format!("{} of {} nodes", self.name, self.nodes) }
    }

    /// The numbers of ranks with which a program runs over it. One rank alone opens no fabric, and a program that ends by
    /// its timeout tests a clock.
    fn ranks(self, case: &Case) -> Vec<u32> {
        if case.costs.is_some() && self.name != "shm" {
            return Vec::new();
        }
        let Some(most) = self.ranks_max else { return case.ranks.clone() };
        if self.nodes > 1 {
            let survives = case.launch.iter().any(|option| option.starts_with("--ft"));
            let ranks = case.ranks.iter().copied().filter(|ranks| (3..=most).contains(ranks) && survives);
            return ranks.max().into_iter().collect();
        }
        if case.not_libfabric.is_some() || case.right == Right::Status(TIMED_OUT) {
            return Vec::new();
        }
        case.ranks.iter().copied().filter(|ranks| (2..=most).contains(ranks)).max().into_iter().collect()
    }
}

/// One program and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Case {
    name: String,
    sources: Vec<PathBuf>,
    ranks: Vec<u32>,
    right: Right,
    options: &'static [&'static str],
    /// Options of the launcher.
    launch: Vec<String>,
    /// The costs to choose by, where they are not those that are usual for tests.
    costs: Option<&'static str>,
    /// What must stand in the output.
    says: Vec<String>,
    /// What must not stand there.
    says_not: Vec<String>,
    /// Why it says nothing about an instrumented library, where it does not.
    bare: Option<String>,
    /// Why it says nothing about libfabric, where it does not.
    not_libfabric: Option<String>,
}

/// The program, or the name of what failed and what the compiler said.
type Compiled = Result<PathBuf, (String, String)>;

/// What a right run looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// Status 0.
    Zero,
    /// Status 0, and the line `ok`.
    SaysOk,
    /// This status.
    Status(i32),
    /// Any status but 0, by itself.
    NotZero,
}

fn cases(sources: &Path) -> Result<Vec<Case>, String> {
    let mut cases = test_cases(&sources.join("tests"))?;
    cases.extend(EXAMPLES.map(|name| Case {
        ranks: vec![1, 2, 3, 8],
        ..plain(format!("example {name}"), vec![sources.join(format!("examples/{name}.c"))])
    }));
    cases.extend(ROD_MODES.map(|(mode, options)| Case {
        ranks: vec![1, 2, 4, 8],
        options,
        launch: vec![if mode == "rebuild" { "--ft=rebuild" } else { "--ft" }.to_owned()],
        says: vec!["at rest".to_owned()],
        not_libfabric: Some(
            "what a provider tells of a dead process differs from one to the next".to_owned(),
        ),
        ..plain(format!("example rod {mode}"), vec![sources.join("examples/rod.c")])
    }));
    cases.extend(DEATHS.map(|(mode, options)| Case {
        ranks: vec![3, 8],
        options,
        launch: vec!["--ft".to_owned()],
        says: vec!["recover_us".to_owned()],
        not_libfabric: Some(
            "what a provider tells of a dead process differs from one to the next".to_owned(),
        ),
        ..plain(format!("benchmark failures {mode}"), vec![sources.join("failures/failures.c")])
    }));
    cases.extend(BENCHMARKS.map(|(name, ranks)| benchmark(sources, name, ranks)));
    let by_quick_copies: Vec<Case> = cases
        .iter()
        .filter(|case| BY_QUICK_COPIES.contains(&case.name.as_str()))
        .map(|case| Case {
            name: format!("{} by quick copies", case.name),
            ranks: vec![2],
            costs: Some(QUICK_COPIES),
            ..case.clone()
        })
        .collect();
    cases.extend(by_quick_copies);
    Ok(cases)
}

/// A program that is to end with 0, and no more.
fn plain(name: String, sources: Vec<PathBuf>) -> Case {
    let (ranks, launch) = (Vec::new(), Vec::new());
    let (says, says_not, bare, not_libfabric) = (Vec::new(), Vec::new(), None, None);
    Case {
        name,
        sources,
        ranks,
        right: Right::Zero,
        options: &[],
        launch,
        costs: None,
        says,
        says_not,
        bare,
        not_libfabric,
    }
}

fn benchmark(sources: &Path, name: &str, ranks: &[u32]) -> Case {
    Case {
        ranks: ranks.to_vec(),
        options: &["--iterations", "40", "--warmup", "4", "--max", "131072", "--window-bytes", "1M"],
        ..plain(format!("benchmark {name}"), measured::sources(sources, name))
    }
}

fn test_cases(folder: &Path) -> Result<Vec<Case>, String> {
    let unreadable = |error| format!("cannot read {}: {error}", folder.display());
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !is_program(&path) || LIBRARIES.contains(&name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(unreadable)?;
        let asked = directives(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let Directives { ranks, right, launch, says, says_not, bare, not_libfabric } = asked;
        let plain = plain(name, vec![path]);
        cases.push(Case { ranks, right, launch, says, says_not, bare, not_libfabric, ..plain });
    }
    cases.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(cases)
}

/// Whether that is a program's source, in C or in C++.
fn is_program(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "c" || extension == "cc")
}

/// Over which fabrics the test with that text runs, libfabric's apart: shm, tcp, and mixed, where some ranks share memory and others do not.
pub fn fabrics_of(text: &str) -> Vec<&'static str> {
    let Ok(Directives { ranks, right, launch, .. }) = directives(text) else { return Vec::new() };
    let case = Case { ranks, right, launch, ..plain(String::new(), Vec::new()) };
    let over = FABRICS.into_iter().zip(["shm", "tcp", "mixed"]);
    over.filter(|(fabric, _)| !fabric.ranks(&case).is_empty()).map(|(_, name)| name).collect()
}

/// What the comment at the head of a test asks for.
struct Directives {
    ranks: Vec<u32>,
    right: Right,
    launch: Vec<String>,
    says: Vec<String>,
    says_not: Vec<String>,
    bare: Option<String>,
    not_libfabric: Option<String>,
}

fn directives(text: &str) -> Result<Directives, String> {
    let all = |word: &str| -> Vec<&str> {
        let head = text.lines().take_while(|line| line.starts_with("//"));
        head.filter_map(|line| line.strip_prefix("// ")?.strip_prefix(word)?.strip_prefix(':')).collect()
    };
    let asked = |word: &str| all(word).first().copied();
    let ranks = asked("ranks").ok_or("no line `// ranks: 1 2 3` at its head")?;
    let ranks: Result<Vec<u32>, _> = ranks.split_whitespace().map(str::parse).collect();
    let ranks = ranks.map_err(|error| format!("ranks: {error}"))?;
    let right = match asked("exit").map(str::trim) {
        None => Right::SaysOk,
        Some("nonzero") => Right::NotZero,
        Some(status) => Right::Status(status.parse().map_err(|error| format!("exit: {error}"))?),
    };
    if ranks.is_empty() {
        return Err("no number of ranks".into());
    }
    let launch = asked("launch").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    let text_of = |word| asked(word).map(|words| words.trim().to_owned());
    let texts_of = |word| all(word).into_iter().map(|words| words.trim().to_owned()).collect();
    let (says, says_not) = (texts_of("says"), texts_of("says not"));
    let (bare, not_libfabric) = (text_of("bare"), text_of("not libfabric"));
    Ok(Directives { ranks, right, launch, says, says_not, bare, not_libfabric })
}

impl Place {
    /// All fabrics, without those of libfabric that cannot be had: these are named, with the reason.
    fn fabrics_here(&self) -> Result<Vec<Fabric>, String> {
        let program = self.hello("fabrics-hello")?;
        let mut here = Vec::new();
        for fabric in FABRICS {
            let may_be_absent = fabric.name.starts_with("libfabric");
            let absent = may_be_absent.then(|| hidden::absent(&self.bin, fabric.name, &program)).flatten();
            match absent {
                Some(reason) => println!("LEFT OUT  everything over {}: {reason}", fabric.name),
                None => here.push(fabric),
            }
        }
        Ok(here)
    }

    /// The smallest program.
    fn hello(&self, name: &str) -> Result<PathBuf, String> {
        let program = self.folder.join(name);
        let sources = vec![self.sources.join("examples/hello.c")];
        self.compile(&plain("hello".to_owned(), sources), &program)?;
        Ok(program)
    }

    fn run_case(&self, case: &Case, program: Compiled, tally: &mut Tally) {
        match program {
            Err((name, account)) => tally.note(&name, Err(account)),
            Ok(program) => {
                for (fabric, ranks) in self.runs(case) {
                    let (name, result) = self.run_once(case, &program, fabric, ranks);
                    tally.note(&name, result);
                }
            }
        }
    }

    /// Runs programs that do nothing but wait until they are ended, all at once.
    fn run_side_by_side(&self, cases: &[&Case]) -> Vec<(String, Result<(), String>)> {
        let mut told = Vec::new();
        thread::scope(|scope| {
            let mut running = Vec::new();
            for case in cases {
                match self.compiled(case) {
                    Err((name, account)) => told.push((name, Err(account))),
                    Ok(program) => running.extend(self.runs(case).into_iter().map(|(fabric, ranks)| {
                        let program = program.clone();
                        scope.spawn(move || self.run_once(case, &program, fabric, ranks))
                    })),
                }
            }
            for one in running {
                told.push(one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
        });
        told
    }

    fn runs(&self, case: &Case) -> Vec<(Fabric, u32)> {
        let over = |fabric: &Fabric| fabric.ranks(case).into_iter().map(|ranks| (*fabric, ranks)).collect();
        self.fabrics.iter().flat_map(|fabric| -> Vec<_> { over(fabric) }).collect()
    }

    fn compiled(&self, case: &Case) -> Compiled {
        let program = self.folder.join(case.name.replace(' ', "-"));
        let compiled = self.compile(case, &program);
        compiled.map_err(|account| (format!("{}, compiling", case.name), account))?;
        Ok(program)
    }

    fn run_once(
        &self,
        case: &Case,
        program: &Path,
        fabric: Fabric,
        ranks: u32,
    ) -> (String, Result<(), String>) {
        let finished = self.launch(fabric, ranks, program, case, None);
        let time = finished.as_ref().map_or(Duration::ZERO, |finished| finished.time);
        let result = finished.and_then(|finished| {
            judge(case.right, &finished)?;
            case.says.iter().try_for_each(|words| finished.must_say(&[words]))?;
            case.says_not.iter().try_for_each(|words| finished.must_not_say(words))
        });
        let name = format!("{}, {ranks} ranks, {}, {:.1} s", case.name, fabric.label(), time.as_secs_f64());
        (name, result)
    }

    fn compile(&self, case: &Case, program: &Path) -> Result<(), String> {
        let strict = ["-g", "-Wall", "-Wextra", "-Werror"];
        job::compile(&self.bin.join("mpicc"), &strict, &case.sources, program, LIMIT)
    }

    /// Whatever this user has measured of the machine, tests do without.
    fn weftrun(&self) -> Command {
        let mut weftrun = Command::new(self.bin.join("weftrun"));
        weftrun.env("XDG_CACHE_HOME", &self.folder);
        weftrun
    }

    fn launch(
        &self,
        fabric: Fabric,
        ranks: u32,
        program: &Path,
        case: &Case,
        preload: Option<&Path>,
    ) -> Result<Finished, String> {
        let mut weftrun = self.weftrun();
        weftrun.args(["-n", &ranks.to_string(), "--fabric", fabric.name]).args(&case.launch);
        weftrun.args(["--nodes", &fabric.nodes.to_string()]);
        weftrun.envs(case.costs.map(|costs| ("WEFT_COSTS", costs)));
        if let Some(library) = preload {
            weftrun.arg("env").arg(format!("LD_PRELOAD={}", library.display()));
        }
        weftrun.arg(program).args(case.options);
        job::run(&mut weftrun, LIMIT, &program.with_extension(format!("{}.log", fabric.label())))
    }

    /// A benchmark that does not notice wrong bytes proves nothing: a library put before ours, which
    /// turns one bit of what is received, must make it fail. That it can be put before ours is tested
    /// here, too.
    fn corrupted_contents_are_noticed(&self, tally: &mut Tally) {
        let library = match self.preloaded("corrupt") {
            Ok(library) => library,
            Err(account) => return tally.note("corrupt, compiling", Err(account)),
        };
        for name in ["latency", "allreduce"] {
            tally.note(&format!("corrupt {name}"), self.notices(name, &library));
        }
    }

    /// Large messages out of MPI_Alloc_mem are not read by the kernel for their receiver, but mapped. (The sender may
    /// still help, and write parts.) That the messages of this program are read by it otherwise shows that the library
    /// before libc sees it.
    fn allocated_memory_is_mapped(&self, tally: &mut Tally) {
        let compiled = self.preloaded("reads").and_then(|library| {
            let program = self.folder.join("mapped-alloc_mem");
            let sources = vec![self.sources.join("tests/alloc_mem.c")];
            let name = "mapped alloc_mem".to_owned();
            let case = Case { ranks: vec![2], right: Right::SaysOk, ..plain(name, sources) };
            self.compile(&case, &program).map(|()| (library, program))
        });
        let (library, program) = match compiled {
            Ok(both) => both,
            Err(account) => return tally.note("mapped alloc_mem, compiling", Err(account)),
        };
        for (name, launcher, options) in [
            ("mapped alloc_mem", &[][..], &[][..]),
            ("mapped alloc_mem, WEFT_CMA=0", &["-x", "WEFT_CMA=0"], &[]),
            ("mapped alloc_mem, malloc instead", &[], &["plain"]),
        ] {
            let mut weftrun = self.weftrun();
            weftrun.args(["-n", "2", "--fabric", "shm"]).args(launcher);
            weftrun.arg("env").arg(format!("LD_PRELOAD={}", library.display())).arg(&program).args(options);
            let finished = job::run(&mut weftrun, LIMIT, &program.with_extension("log"));
            let result = finished.and_then(|finished| {
                judge(Right::SaysOk, &finished)?;
                kernel_reads(&finished.output, !options.is_empty())
            });
            tally.note(name, result);
        }
    }

    /// Compiles a library of `bench/tests` that is put before others.
    fn preloaded(&self, name: &str) -> Result<PathBuf, String> {
        let library = self.folder.join(format!("lib{name}.so"));
        let mut mpicc = Command::new(self.bin.join("mpicc"));
        mpicc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library);
        mpicc.arg(self.sources.join(format!("tests/{name}.c")));
        job::succeed("mpicc", &mut mpicc, LIMIT, &self.folder.join("mpicc.log"))?;
        Ok(library)
    }

    fn starts_lean(&self) -> Result<(), String> {
        start::check(&self.bin.join("weftrun"), &self.hello("start-hello")?)
    }

    fn notices(&self, name: &str, library: &Path) -> Result<(), String> {
        let program = self.folder.join(format!("corrupt-{name}"));
        let options = &["--iterations", "40", "--max", "64"];
        let case = Case { options, ..benchmark(&self.sources, name, &[2]) };
        self.compile(&case, &program)?;
        let finished = self.launch(Fabric::full("shm"), 2, &program, &case, Some(library))?;
        judge(Right::Status(1), &finished)?;
        finished.must_say(&["were not as they were sent"])
    }
}

/// Whether the kernel has read messages for their receivers, as it should or should not. Where it refuses to, it cannot.
fn kernel_reads(output: &str, expected: bool) -> Result<(), String> {
    let said = |text: &str| output.lines().any(|line| line.contains(text));
    match (said("read by the kernel"), said("refused by the kernel")) {
        (read, _) if read == expected => Ok(()),
        (false, true) => Ok(()),
        (true, _) => Err("the kernel has read messages that could be mapped".into()),
        (false, false) => Err("the kernel has read no message: what is counted here?".into()),
    }
}

fn judge(right: Right, finished: &Finished) -> Result<(), String> {
    let says_ok = || finished.output.lines().any(|line| line == "ok");
    let good = match right {
        Right::Zero => finished.succeeded(),
        Right::SaysOk => finished.succeeded() && says_ok(),
        Right::Status(status) => finished.ending == Ending::Exited(status),
        Right::NotZero => matches!(finished.ending, Ending::Exited(status) if status != 0),
    };
    if good { Ok(()) } else { Err(format!("{right:?} was expected: {}", finished.account())) }
}

const FABRICS: [Fabric; 5] = [
    Fabric::full("shm"),
    Fabric::full("tcp"),
    Fabric::mixed(RANKS_MIXED),
    Fabric::brief("libfabric:tcp;ofi_rxm", RANKS_OVER_LIBFABRIC),
    Fabric::brief("libfabric:shm", RANKS_OVER_LIBFABRIC),
];
const COMPILED_AHEAD: usize = 4;
const RANKS_OVER_LIBFABRIC: u32 = 4;
/// Three at least, so that two share memory and another does not.
const RANKS_MIXED: u32 = 6;
/// With this status `weftrun` ends a job that took too long.
const TIMED_OUT: i32 = 124;
/// Two ranks give each other long data in other ways where copies take less than reads.
const BY_QUICK_COPIES: [&str; 5] = [
    "collectives_data",
    "collectives_reduce",
    "collectives_flows",
    "collectives_scattered",
    "benchmark collectives",
];
const QUICK_COPIES: &str = "weft costs 1;node 60 0.02 16384 120 0.02";
/// How the example that loses a rank goes on.
const ROD_MODES: [(&str, &[&str]); 3] =
    [("blank", &["blank"]), ("shrink", &["shrink"]), ("rebuild", &["rebuild"])];
const DEATHS: [(&str, &[&str]); 3] = [("blank", &["blank"]), ("shrink", &["shrink"]), ("ulfm", &["ulfm"])];
const EXAMPLES: [&str; 4] = ["halo", "hello", "pi", "ring"];
const BENCHMARKS: [(&str, &[u32]); 21] = [
    ("allgather", &[1, 2, 5]),
    ("allreduce", &[1, 2, 5]),
    ("alltoall", &[1, 2, 5]),
    ("bandwidth", &[2, 3]),
    ("barrier", &[1, 2, 5]),
    ("bcast", &[1, 2, 5]),
    ("bibandwidth", &[2, 3]),
    ("blocked", &[2, 3]),
    ("latency", &[2, 3]),
    ("collectives", &[1, 2, 5]),
    ("communicators", &[1, 2, 5]),
    ("consistent", &[2, 5]),
    ("groups", &[1, 40]),
    ("mapped_halo", &[1, 6]),
    ("message_rate", &[2, 3, 4]),
    ("neighbours", &[1, 2, 6]),
    ("overlap", &[1, 2]),
    ("reduce", &[1, 2, 5]),
    ("startup", &[1, 2, 5]),
    ("thread_rate", &[2, 3]),
    ("vector_latency", &[2, 3]),
];
/// Libraries for tests, no tests by themselves: the first damages messages, the second tells of reads of other
/// processes' memory.
const LIBRARIES: [&str; 2] = ["corrupt", "reads"];
/// Above the watchdogs of the programs, which know more about where they hang.
const LIMIT: Duration = Duration::from_secs(240);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn finished(ending: Ending, output: &str) -> Finished {
        Finished { ending, output: output.into(), time: Duration::ZERO }
    }

    #[test]
    fn directives_stand_at_the_head() {
        let asked = directives("// ranks: 1 2 8\n// exit: 7\n// words\nint x;\n// ranks: 9\n").unwrap();
        assert_eq!((asked.ranks, asked.right), (vec![1, 2, 8], Right::Status(7)));
        assert!(asked.launch.is_empty() && asked.says.is_empty());
        let asked = directives("// ranks: 3\n// not libfabric: its ports\n").unwrap();
        assert_eq!((asked.bare, asked.not_libfabric.as_deref()), (None, Some("its ports")));
        let says = "// says: a: b\n// says not: c\n// says: d\n";
        let head = format!("// ranks: 3\n// launch: -x A=B -l\n{says}// bare: it counts\n");
        let asked = directives(&head).unwrap();
        assert_eq!((asked.bare.as_deref(), asked.not_libfabric), (Some("it counts"), None));
        assert_eq!((asked.ranks, asked.right), (vec![3], Right::SaysOk));
        assert_eq!((asked.launch.join(" "), asked.says.join(", ")), ("-x A=B -l".into(), "a: b, d".into()));
        assert_eq!(asked.says_not, ["c"]);
        assert_eq!(directives("// exit: nonzero\n// ranks: 1\n").unwrap().right, Right::NotZero);
    }

    #[test]
    fn over_libfabric_a_program_runs_once_if_it_says_anything() {
        let ranks = |fabric: Fabric, ranks: &[u32], change: &dyn Fn(&mut Case)| {
            let mut case = Case { ranks: ranks.to_vec(), ..plain("a".into(), Vec::new()) };
            change(&mut case);
            fabric.ranks(&case)
        };
        let (full, brief) = (Fabric::full("tcp"), Fabric::brief("libfabric:x", 4));
        assert_eq!(ranks(full, &[1, 2, 8], &|_| ()), [1, 2, 8]);
        assert_eq!(ranks(brief, &[1, 2, 3, 8], &|_| ()), [3]);
        assert_eq!(ranks(brief, &[1, 8], &|_| ()), [0; 0]);
        assert_eq!(ranks(brief, &[2], &|case| case.not_libfabric = Some("its ports".into())), [0; 0]);
        let waits = |case: &mut Case| case.right = Right::Status(TIMED_OUT);
        assert_eq!(ranks(brief, &[2], &waits), [0; 0]);
        assert_eq!(ranks(full, &[2], &waits), [2]);
    }

    #[test]
    fn a_test_without_ranks_is_an_error() {
        for text in [
            "int main;",
            "// ranks:\n",
            "// ranks: two\n",
            "int x;\n// ranks: 2\n",
            "// ranks: 1\n// exit: x\n",
        ] {
            assert!(directives(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ends_are_judged() {
        let silent = finished(Ending::Exited(0), "");
        assert!(judge(Right::Zero, &silent).is_ok());
        assert!(judge(Right::SaysOk, &silent).is_err(), "a test that prints no ok did not get to its end");
        assert!(judge(Right::SaysOk, &finished(Ending::Exited(0), "x\nok\n")).is_ok());
        assert!(judge(Right::SaysOk, &finished(Ending::Exited(1), "ok\n")).is_err());
        assert!(judge(Right::Status(7), &finished(Ending::Exited(7), "")).is_ok());
        assert!(judge(Right::NotZero, &silent).is_err());
        assert!(judge(Right::NotZero, &finished(Ending::Signalled(11), "")).is_err(), "a crash is no answer");
        let hung = finished(Ending::TimedOut(LIMIT), "rank 1 hangs\n");
        assert!(judge(Right::NotZero, &hung).unwrap_err().contains("rank 1 hangs"));
    }

    #[test]
    fn reads_of_other_processes_are_judged() {
        assert!(kernel_reads("ok\n", false).is_ok());
        assert!(kernel_reads("read by the kernel\nok\n", false).is_err());
        assert!(kernel_reads("read by the kernel\n", true).is_ok());
        assert!(kernel_reads("ok\n", true).is_err(), "a count that counts nothing proves nothing");
        assert!(kernel_reads("refused by the kernel\n", true).is_ok());
    }

    #[test]
    fn every_committed_program_is_a_case() {
        let sources = crate::workspace_root().join("bench");
        let cases = cases(&sources).unwrap();
        let missing: Vec<_> =
            cases.iter().flat_map(|case| &case.sources).filter(|path| !path.exists()).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let programs = |folder: &str| {
            let entries = fs::read_dir(sources.join(folder)).unwrap();
            entries.filter(|entry| is_program(&entry.as_ref().unwrap().path())).count()
        };
        let shared_parts = 3;
        let not_run_alone = LIBRARIES.len() + ["instructions", "kills"].len();
        let folders: usize = ["", "examples", "tests", "failures"].map(programs).into_iter().sum();
        let all = folders - shared_parts - not_run_alone;
        let run: BTreeSet<_> = cases.iter().map(|case| &case.sources[0]).collect();
        assert_eq!(run.len(), all, "a program in bench/ is not run by anything");
    }
}
