//! Starts the ranks of a job on this node. Installed as `weftrun`, `mpiexec` and `mpirun`.
//!
//! It is two processes: the *front* (`front.rs`), which the user knows, and the *supervisor*
//! (`supervisor.rs`), which starts the ranks and serves them as their process manager. Whichever is killed,
//! the other ends the job and leaves nothing behind. `plan.rs` settles what the command line means here,
//! `job.rs` decides how a job ends.
//!
//! **Invariant:** neither process has a second thread, and neither ever waits without watching the other.
//! **Invariant:** all unsafe code is in `spawn.rs`.

// `weft::tell` writes a line in one piece, so that those of several ranks do not get mixed.
#![deny(clippy::print_stderr)]

use std::process::ExitCode;

use engine::{Handed, LauncherPlace, Surroundings};
use options::Options;
use plan::{NoPlan, Plan};

mod claims;
mod cores;
mod descendants;
mod engine;
mod files;
mod first;
mod front;
mod hangs;
mod hosts;
mod job;
mod options;
mod output;
mod parts;
mod plan;
mod policy;
mod program;
mod ranks;
mod rebuild;
mod signals;
mod spawn;
mod supervisor;
mod told;
mod vacant;
mod watch;

fn main() -> ExitCode {
    let mut options = Options::from_arguments();
    let name = options::invoked_name(std::env::args_os().next().as_ref());
    let planned = prepare(&mut options, &name);
    // What the launcher of several hosts reads is there as long as this is held.
    let (plan, _handed) = match planned {
        Ok(planned) => planned,
        Err(status) => return status,
    };
    if options.display_map && !plan.is_engine {
        weft::tell(format_args!("{name}: {}", plan.map()));
    }
    match front::run(&plan) {
        Ok(status) => ExitCode::from(status),
        Err(error) => fail(&name, &error, 1),
    }
}

/// Settles what is started: the ranks on this host, or the launcher of several hosts.
fn prepare(options: &mut Options, name: &str) -> Result<(Plan, Option<Handed>), ExitCode> {
    let wrong = |message: String| {
        weft::tell(format_args!("{name}: {message}"));
        ExitCode::from(1)
    };
    let no_plan = |error: NoPlan| fail(name, &error, error.exit_status());
    let hosts = hosts::named(&options.hosts).map_err(wrong)?;
    let around = Surroundings::here().map_err(wrong)?;
    let own = hosts::own_name();
    match engine::place(hosts, &around, &|host| hosts::is_here(host, &own)) {
        LauncherPlace::Here(slots) => {
            options.slots = slots;
            tell_ignored(options, name);
            Ok((Plan::new(options, name.to_owned()).map_err(no_plan)?, None))
        }
        LauncherPlace::Elsewhere(hosts) => {
            let handed = engine::hand_on(options, &hosts, &around).map_err(wrong)?;
            if !options.quiet {
                weft::tell(format_args!("{name}: handed on to: {}", engine::shown(&handed.command)));
            }
            Ok((Plan::for_engine(options, &handed, name.to_owned()).map_err(no_plan)?, Some(handed)))
        }
    }
}

/// Tells once of all options that mean nothing here.
fn tell_ignored(options: &Options, name: &str) {
    let ignored = options.ignored_here();
    if !ignored.is_empty() && !options.quiet {
        weft::tell(format_args!(
            "{name}: ignored, since it means nothing on this host: {}",
            ignored.join(", ")
        ));
    }
}

fn fail(name: &str, error: &dyn std::error::Error, status: u8) -> ExitCode {
    weft::tell(format_args!("{name}: {error}"));
    ExitCode::from(status)
}
