//! Starts the ranks of a job on this node. Installed as `weftrun`, `mpiexec` and `mpirun`.
//!
//! It is two processes: the *front* (`front.rs`), which the user knows, and the *supervisor* (`supervisor.rs`),
//! which starts the ranks and serves them as their process manager. Whichever is killed, the other ends the job and
//! leaves nothing behind. `plan.rs` settles what the command line means here, `job.rs` decides how a job ends.
//!
//! **Invariant:** neither process has a second thread, and neither ever waits without watching the other.
//! **Invariant:** all unsafe code is in `spawn.rs`.

// `weft::tell` writes a line in one piece, so that those of several ranks do not get mixed.
#![deny(clippy::print_stderr)]

use std::process::ExitCode;

use options::Options;
use plan::Plan;

mod cores;
mod descendants;
mod first;
mod front;
mod job;
mod options;
mod output;
mod parts;
mod plan;
mod program;
mod ranks;
mod rebuild;
mod signals;
mod spawn;
mod supervisor;
mod told;
mod watch;

fn main() -> ExitCode {
    let options = Options::from_arguments();
    let name = options::invoked_name(std::env::args_os().next().as_ref());
    let plan = match Plan::new(options, name.clone()) {
        Ok(plan) => plan,
        Err(error) => return fail(&name, &error, error.exit_status()),
    };
    match front::run(&plan) {
        Ok(status) => ExitCode::from(status),
        Err(error) => fail(&name, &error, 1),
    }
}

fn fail(name: &str, error: &dyn std::error::Error, status: u8) -> ExitCode {
    weft::tell(format_args!("{name}: {error}"));
    ExitCode::from(status)
}
