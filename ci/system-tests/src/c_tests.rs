//! The tests that are C programs: `bench/tests`, the benchmarks with small sizes, and the examples, all
//! compiled with the installed `mpicc`, or `mpicxx` where a source ends in `.cc`, and started with the
//! installed `weftrun`, over every fabric. Over libfabric, which takes half a second of a cpu for each rank
//! to begin, each runs with one number of ranks; and over one of its providers, half of them over each, where
//! all programs run. So do those that lose ranks where some ranks share memory and others do not.
//!
//! | part | what it knows |
//! |---|---|
//! | `case` | which programs there are, and how each is to end |
//! | `directives` | the comment at the head of a program, which says how it wants to be run |
//! | `fabrics` | the fabrics, and with how many ranks a program runs over each |
//! | `preloaded` | programs behind a library that damages messages or notes what the kernel reads |

mod case;
mod directives;
mod fabrics;
mod preloaded;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use case::{Case, Right, TIMED_OUT, cases, judge, plain};
pub use fabrics::fabrics_of;
use fabrics::{FABRICS, Fabric};

use crate::hidden;
use crate::job::{self, Finished};
use crate::start;
use crate::tally::Tally;

/// Compiles and runs every C test whose name contains `filter` with the weft installed in `prefix`. Those
/// that an instrumented library makes meaningless are then left out.
///
/// # Errors
/// When the tests cannot be read or their folder cannot be made. A program that does not compile is a
/// failed test.
pub fn run(root: &Path, prefix: &Path, filter: &str, instrumented: bool) -> Result<Tally, String> {
    let folder = root.join("target/c-tests");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut setup = CTestSetup {
        sources: root.join("bench"),
        bin: prefix.join("bin"),
        folder,
        fabrics: Vec::new(),
        all: filter.is_empty(),
    };
    setup.fabrics = setup.fabrics_here()?;
    let mut tally = Tally::default();
    let all = cases(&setup.sources)?;
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
        let patient = scope.spawn(|| setup.run_side_by_side(&patient));
        // While one program runs, the next are compiled: many of them wait more than they compute.
        let (compiled, ready) = mpsc::sync_channel(COMPILED_AHEAD);
        let setup = &setup;
        scope.spawn(move || others.iter().all(|case| compiled.send((*case, setup.compiled(case))).is_ok()));
        ready.iter().for_each(|(case, program)| setup.run_case(case, program, &mut tally));
        let told = patient.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        told.into_iter().for_each(|(name, result)| tally.note(&name, result));
    });
    if "corrupt".contains(filter) {
        setup.corrupted_contents_are_noticed(&mut tally);
    }
    if "mapped alloc_mem".contains(filter) {
        setup.allocated_memory_is_mapped(&mut tally);
    }
    if "hidden libfabric".contains(filter) {
        match setup.hello("hidden-hello") {
            Ok(program) => hidden::run(prefix, &program, &mut tally),
            Err(account) => tally.note("hidden libfabric, compiling", Err(account)),
        }
    }
    let leaves = "libfabric:shm leaves nothing in /dev/shm";
    if leaves.contains(filter) && setup.fabrics.iter().any(|fabric| fabric.name == "libfabric:shm") {
        let looked = setup.hello("leaves-hello").and_then(|hello| hidden::leaves_nothing(&setup.bin, &hello));
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
        true => tally.note(start, setup.starts_lean()),
        false => {}
    }
    Ok(tally)
}

struct CTestSetup {
    sources: PathBuf,
    bin: PathBuf,
    folder: PathBuf,
    /// Those that can be had here.
    fabrics: Vec<Fabric>,
    /// Whether all programs run.
    all: bool,
}

/// The program, or the name of what failed and what the compiler said.
type Compiled = Result<PathBuf, (String, String)>;

impl CTestSetup {
    /// All fabrics, without those of libfabric that cannot be had: these are named, with the reason.
    fn fabrics_here(&self) -> Result<Vec<Fabric>, String> {
        let program = self.hello("fabrics-hello")?;
        let mut here = Vec::new();
        for fabric in FABRICS {
            let may_be_absent = fabric.is_libfabric();
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
        let fabrics = self.fabrics.iter().filter(|fabric| !self.all || self.is_provider_of(case, fabric));
        fabrics.flat_map(|fabric| -> Vec<_> { over(fabric) }).collect()
    }

    /// Whether a program runs over a fabric where all programs run: of the providers of libfabric, over one
    /// that its name chooses.
    fn is_provider_of(&self, case: &Case, fabric: &Fabric) -> bool {
        let providers: Vec<_> = self.fabrics.iter().filter(|fabric| fabric.is_libfabric()).collect();
        let letters: usize = case.name.bytes().map(usize::from).sum();
        !fabric.is_libfabric() || providers[letters % providers.len()] == fabric
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
        if let Some(library) = preload {
            weftrun.arg("env").arg(format!("LD_PRELOAD={}", library.display()));
        }
        weftrun.arg(program).args(case.options);
        for part in &case.parts {
            weftrun.arg(":").args(&part.options).arg(program).args(&part.arguments);
        }
        job::run(&mut weftrun, LIMIT, &program.with_extension(format!("{}.log", fabric.label())))
    }

    fn starts_lean(&self) -> Result<(), String> {
        start::check(&self.bin.join("weftrun"), &self.hello("start-hello")?)
    }
}

const COMPILED_AHEAD: usize = 4;
/// Above the watchdogs of the programs, which know more about where they hang.
const LIMIT: Duration = Duration::from_secs(240);
