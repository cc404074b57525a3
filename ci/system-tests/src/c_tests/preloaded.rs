//! Libraries of `bench/tests` that are put before weft's or before libc with `LD_PRELOAD`: one damages
//! messages, the other tells of reads of other processes' memory.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::{Case, Right, benchmark, judge, plain};
use super::fabrics::Fabric;
use super::{CTestSetup, LIMIT};
use crate::job;
use crate::tally::Tally;

impl CTestSetup {
    /// A benchmark that does not notice wrong bytes proves nothing: a library put before ours, which
    /// turns one bit of what is received, must make it fail. That it can be put before ours is tested
    /// here, too.
    pub fn corrupted_contents_are_noticed(&self, tally: &mut Tally) {
        let library = match self.preloaded("corrupt") {
            Ok(library) => library,
            Err(account) => return tally.note("corrupt, compiling", Err(account)),
        };
        for name in ["latency", "allreduce"] {
            tally.note(&format!("corrupt {name}"), self.notices(name, &library));
        }
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

    /// Large messages out of MPI_Alloc_mem are not read by the kernel for their receiver, but mapped. (The
    /// sender may still help, and write parts.) That the messages of this program are read by it otherwise
    /// shows that the library before libc sees it.
    pub fn allocated_memory_is_mapped(&self, tally: &mut Tally) {
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
}

/// Whether the kernel has read messages for their receivers, as it should or should not. Where it refuses to,
/// it cannot.
fn kernel_reads(output: &str, expected: bool) -> Result<(), String> {
    let said = |text: &str| output.lines().any(|line| line.contains(text));
    match (said("read by the kernel"), said("refused by the kernel")) {
        (read, _) if read == expected => Ok(()),
        (false, true) => Ok(()),
        (true, _) => Err("the kernel has read messages that could be mapped".into()),
        (false, false) => Err("the kernel has read no message: what is counted here?".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_other_processes_are_judged() {
        assert!(kernel_reads("ok\n", false).is_ok());
        assert!(kernel_reads("read by the kernel\nok\n", false).is_err());
        assert!(kernel_reads("read by the kernel\n", true).is_ok());
        assert!(kernel_reads("ok\n", true).is_err(), "a count that counts nothing proves nothing");
        assert!(kernel_reads("refused by the kernel\n", true).is_ok());
    }
}
