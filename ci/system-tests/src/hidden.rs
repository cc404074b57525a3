//! weft where there is no libfabric, where nobody asked for it, and after it was used.
//!
//! One binary is for both kinds of machines: nothing that is installed links the library, a job that does not
//! name it opens nothing of it, and a job that names it where it is not there says so. It is hidden here as
//! on a machine that never had it, as far as a loader can tell: in a mount namespace an empty file lies over
//! each of its files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::job::{self, Finished};
use crate::tally::Tally;

/// Why a fabric of libfabric cannot be had on this machine; none where a job over it starts, and none where
/// it fails in another way, for the tests to tell.
pub fn absent(bin: &Path, fabric: &str, program: &Path) -> Option<String> {
    let finished = job_over(bin, fabric, program).ok()?;
    if finished.succeeded() { None } else { reason(&finished.output) }
}

/// What a job says that has no library or no such provider.
fn reason(output: &str) -> Option<String> {
    let told = |line: &&str| line.contains(NOT_LOADED) || line.contains("no provider");
    output.lines().find(told).map(|line| line.trim().to_owned())
}

/// Whether a job over the provider shm that ends well leaves files behind; it runs where `/dev/shm` is its
/// own. The inner error is why that cannot be looked at here.
pub fn leaves_nothing(bin: &Path, hello: &Path) -> Result<Result<(), String>, String> {
    let log = hello.with_extension("log");
    let mut tried = Command::new(NAMESPACE[0]);
    let tried = job::run(tried.args(&NAMESPACE[1..]).arg("true"), LIMIT, &log)?;
    if !tried.succeeded() {
        return Ok(Err(format!("no mount namespace: {}", tried.account())));
    }
    let script = "mount -t tmpfs none /dev/shm && \"$@\" && ls -A /dev/shm && echo listed";
    let weftrun = weftrun(bin, Some("libfabric:shm"), hello);
    let mut command = Command::new(NAMESPACE[0]);
    command.args(&NAMESPACE[1..]).args(["sh", "-c", script, "sh"]);
    command.arg(weftrun.get_program()).args(weftrun.get_args());
    let finished = job::succeed("a job over libfabric:shm", &mut command, LIMIT, &log)?;
    left_over(&finished.output).map(Ok)
}

/// The first file that stands behind what the ranks have said.
fn left_over(output: &str) -> Result<(), String> {
    match output.lines().find(|line| !line.starts_with("hello from rank ")) {
        Some("listed") => Ok(()),
        Some(file) => Err(format!("{file} is left in /dev/shm")),
        None => Err(format!("/dev/shm was not listed: {output}")),
    }
}

/// Tests the weft in `prefix` with this program.
pub fn run(prefix: &Path, program: &Path, tally: &mut Tally) {
    let setup =
        HiddenSetup { prefix: prefix.to_path_buf(), bin: prefix.join("bin"), program: program.to_path_buf() };
    tally.note("hidden libfabric: nothing links it", setup.nothing_links_it());
    tally.note("hidden libfabric: a library that is not there is told", setup.is_told());
    for fabric in [None, Some("shm"), Some("tcp"), Some("shm,tcp"), Some("shm,libfabric:tcp;ofi_rxm")] {
        let name =
            format!("hidden libfabric: not looked for by a job over {}", fabric.unwrap_or("what there is"));
        tally.note(
            &name,
            setup.looks_for_it(fabric).and_then(|looks| if looks { Err(LOOKED.into()) } else { Ok(()) }),
        );
    }
    let looks = setup.looks_for_it(Some(NAMED));
    let seen = "hidden libfabric: looked for by a job that names it";
    tally.note(
        seen,
        looks.and_then(|looks| if looks { Ok(()) } else { Err("the trace shows nothing of it".into()) }),
    );
    let hidden = "hidden libfabric: the demo without it";
    match setup.wall() {
        Err(reason) => println!("LEFT OUT  {hidden}: {reason}"),
        Ok(wall) => {
            tally.note("hidden libfabric: a job that names it says what to do", setup.misses_it(&wall));
            tally.note(hidden, setup.demo(&wall));
        }
    }
}

struct HiddenSetup {
    prefix: PathBuf,
    bin: PathBuf,
    program: PathBuf,
}

impl HiddenSetup {
    fn log(&self) -> PathBuf {
        self.program.with_extension("log")
    }

    fn nothing_links_it(&self) -> Result<(), String> {
        let installed = ["lib/libmpi_abi.so.1", "lib/libweft_hwloc.so", "bin/weftrun", "bin/weft"];
        let installed = installed.map(|name| self.prefix.join(name));
        for file in installed.iter().chain([&self.program]).filter(|file| file.exists()) {
            let finished = job::succeed("ldd", Command::new("ldd").arg(file), LIMIT, &self.log())?;
            if let Some(line) = linked(&finished.output) {
                return Err(format!("{} wants {line}", file.display()));
            }
        }
        Ok(())
    }

    fn is_told(&self) -> Result<(), String> {
        let mut weftrun = weftrun(&self.bin, Some(NAMED), &self.program);
        let finished = job::run(weftrun.env("WEFT_LIBFABRIC", NOWHERE), LIMIT, &self.log())?;
        refused(&finished, &[NOWHERE, NOT_LOADED, "libfabric1", "WEFT_LIBFABRIC="])
    }

    /// Whether any process of a job opens, or looks for, a file of libfabric.
    fn looks_for_it(&self, fabric: Option<&str>) -> Result<bool, String> {
        let trace = self.program.with_extension("trace");
        let weftrun = weftrun(&self.bin, fabric, &self.program);
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-qq", "-e", "trace=file", "-o"])
            .arg(&trace)
            .arg(weftrun.get_program())
            .args(weftrun.get_args());
        strace.env_remove("WEFT_LIBFABRIC").env_remove("WEFT_FABRIC");
        // Where the library is not there, the job that names it fails; it has looked for it all the same.
        let finished = job::run(&mut strace, LIMIT, &self.log())?;
        if fabric != Some(NAMED) && !finished.succeeded() {
            return Err(finished.account());
        }
        let text =
            std::fs::read_to_string(&trace).map_err(|error| format!("{}: {error}", trace.display()))?;
        opened(&text)
    }

    /// The words that start a command where no file of libfabric is to be found.
    fn wall(&self) -> Result<Vec<String>, String> {
        let cache =
            job::succeed("ldconfig -p", Command::new("/sbin/ldconfig").arg("-p"), LIMIT, &self.log())?;
        let files = files(&cache.output);
        let empty = self.program.with_extension("empty");
        std::fs::write(&empty, "").map_err(|error| format!("{}: {error}", empty.display()))?;
        let script = "empty=$1; shift; while [ \"$1\" != -- ]; do mount --bind \"$empty\" \"$1\" || exit; shift; done; \
                      shift; exec \"$@\"";
        let mut wall: Vec<String> = NAMESPACE.map(str::to_owned).into();
        wall.extend(["sh", "-c", script, "sh"].map(str::to_owned));
        wall.push(empty.display().to_string());
        wall.extend(files);
        wall.push("--".to_owned());
        let tried = job::run(self.behind(&wall).arg("true"), LIMIT, &self.log())?;
        if tried.succeeded() { Ok(wall) } else { Err(format!("no mount namespace: {}", tried.account())) }
    }

    fn behind(&self, wall: &[String]) -> Command {
        let mut command = Command::new(&wall[0]);
        command.args(&wall[1..]).env_remove("WEFT_LIBFABRIC").env_remove("WEFT_FABRIC");
        command
    }

    fn misses_it(&self, wall: &[String]) -> Result<(), String> {
        let weftrun = weftrun(&self.bin, Some(NAMED), &self.program);
        let mut command = self.behind(wall);
        command.arg(weftrun.get_program()).args(weftrun.get_args());
        let finished = job::run(&mut command, LIMIT, &self.log())?;
        refused(&finished, &["libfabric.so.1", NOT_LOADED, "libfabric1"])
    }

    /// The whole demo, over shm and over tcp.
    fn demo(&self, wall: &[String]) -> Result<(), String> {
        let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let mut command = self.behind(wall);
        command.arg(own).arg("demo").arg(&self.prefix);
        let finished = job::succeed("the demo", &mut command, LIMIT, &self.log())?;
        finished.must_say(&["halo, 8 ranks, shm", "halo, 8 ranks, tcp", "picture: "])
    }
}

fn weftrun(bin: &Path, fabric: Option<&str>, program: &Path) -> Command {
    let mut weftrun = Command::new(bin.join("weftrun"));
    weftrun.args(["-n", "2", "--timeout", "60"]);
    weftrun.args(fabric.iter().flat_map(|fabric| ["--fabric", fabric])).arg(program);
    weftrun
}

fn job_over(bin: &Path, fabric: &str, program: &Path) -> Result<Finished, String> {
    job::run(&mut weftrun(bin, Some(fabric), program), LIMIT, &program.with_extension("log"))
}

/// A job that could not be, by its own words.
fn refused(finished: &Finished, words: &[&str]) -> Result<(), String> {
    finished.must_say(words)?;
    if finished.succeeded() { Err(format!("it started: {}", finished.account())) } else { Ok(()) }
}

/// The line of `ldd` that names libfabric.
fn linked(ldd: &str) -> Option<&str> {
    ldd.lines().map(str::trim).find(|line| line.contains(STEM))
}

/// Whether a trace of calls on files has one on a file of libfabric.
fn opened(trace: &str) -> Result<bool, String> {
    if !trace.contains("libmpi_abi.so.1") {
        return Err("the trace does not even show that the ranks loaded weft".into());
    }
    // Programs are named on the command line, too, and `--fabric libfabric:…` is.
    Ok(trace.lines().any(|line| !line.contains("execve(") && line.contains(&format!("{STEM}.so"))))
}

/// The paths of libfabric in the loader's list.
fn files(cache: &str) -> Vec<String> {
    let lines = cache.lines().filter(|line| line.trim_start().starts_with(STEM));
    lines.filter_map(|line| line.split_once("=> ")).map(|(_, path)| path.trim().to_owned()).collect()
}

/// The words before a command that may mount what only it sees.
const NAMESPACE: [&str; 4] = ["unshare", "--user", "--map-root-user", "--mount"];
const STEM: &str = "libfabric";
const NAMED: &str = "libfabric:tcp;ofi_rxm";
const NOWHERE: &str = "/nowhere/libfabric.so.1";
const NOT_LOADED: &str = "cannot be loaded";
const LOOKED: &str = "a process looks for libfabric, and nobody named it";
const LIMIT: Duration = Duration::from_secs(180);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_missing_library_or_provider_and_nothing_else() {
        let missing = "weft: libfabric: libfabric.so.1 cannot be loaded: no such file\n  Install it\n";
        assert_eq!(reason(missing).as_deref(), Some(missing.lines().next().unwrap()));
        assert!(reason("weft: libfabric: no provider `shm` offers anything").is_some());
        assert_eq!(
            reason("rank 1 was killed"),
            None,
            "what fails in another way is no reason to leave it out"
        );
    }

    #[test]
    fn what_is_left_over_is_named() {
        let said = "hello from rank 1 of 2 on a\nhello from rank 0 of 2 on a\n";
        assert_eq!(left_over(&format!("{said}listed\n")), Ok(()));
        assert_eq!(left_over(&format!("{said}7:0:0\nlisted\n")), Err("7:0:0 is left in /dev/shm".into()));
        assert!(left_over(said).is_err(), "nobody has looked");
    }

    #[test]
    fn libraries_are_found_in_what_tools_say() {
        let ldd = "\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\tlibfabric.so.1 => /lib/libfabric.so.1 (0x2)\n";
        assert_eq!(linked(ldd), Some("libfabric.so.1 => /lib/libfabric.so.1 (0x2)"));
        assert_eq!(linked("\tlibc.so.6 => /lib/libc.so.6 (0x1)\n"), None);
        let cache =
            "\tlibfabric.so.1 (libc6,x86-64) => /lib/libfabric.so.1\n\tlibm.so (libc6) => /lib/libm.so\n";
        assert_eq!(files(cache), ["/lib/libfabric.so.1"]);
    }

    #[test]
    fn a_trace_shows_who_looks_for_it() {
        let weft = "8 openat(AT_FDCWD, \"/p/lib/libmpi_abi.so.1\", O_RDONLY) = 3\n";
        let named = "8 execve(\"/p/bin/weftrun\", [\"--fabric\", \"libfabric.so\"], 0x1) = 0\n";
        let looks = "8 openat(AT_FDCWD, \"/lib/libfabric.so.1\", O_RDONLY) = -1 ENOENT\n";
        assert_eq!(opened(&[weft, named].concat()), Ok(false));
        assert_eq!(opened(&[weft, looks].concat()), Ok(true));
        assert!(opened(looks).is_err(), "a trace of nothing proves nothing");
    }
}
