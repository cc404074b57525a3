//! Rows over a provider of libfabric: the one library that everybody is measured with, and whether each
//! really goes by it.

use std::path::Path;
use std::time::Duration;

use system_tests::{job, loader, measured};

use super::contestant::{Contestant, Job, Place, Way};

/// A remark for the row on the library of libfabric that was used.
pub type Library = String;

/// Whether the provider works here at all: two endpoints of it exchange messages with no MPI between.
///
/// # Errors
/// Why not, for the row that is left out.
pub fn probe(place: &Place, way: Way, log: &Path) -> Result<Library, String> {
    let few = ["--min", "8", "--max", "8", "--iterations", "40"].map(str::to_owned);
    let words = [vec!["libfabric-pingpong".to_owned()], place.provider_words(way), few.into()].concat();
    let finished = job::run(&mut place.floor(&words, SECONDS), LIMIT, log)?;
    if !finished.succeeded() {
        let said = finished.output.lines().find(|line| line.starts_with("floors: "));
        return Err(said.map_or_else(|| finished.ending.to_string(), str::to_owned));
    }
    let rows = measured::rows(&finished.output)?;
    let name = rows.first().map(|row| row.library.clone()).unwrap_or_default();
    let whose =
        if place.libfabric == Path::new(loader::LIBFABRIC) { "of this system" } else { "that mpich brings" };
    Ok(format!("{name}, the one {whose}"))
}

/// Asks a contestant by which provider it goes, in a run of its own.
///
/// # Errors
/// When it names another one, or none.
pub fn check(place: &Place, one: Contestant, way: Way, log: &Path) -> Result<(), String> {
    let program = if one == Contestant::Weft { EXPLAIN } else { "startup" };
    let job = Job { program, path: None, ranks: 2, way, shared_cpus: false };
    let mut command = place.command(one, &job, SECONDS);
    let right = match one {
        Contestant::Weft => {
            // It has no other way, and goes by no provider but the one that was named.
            command.args(["explain", "lanes"]);
            "libfabric: all pairs".to_owned()
        }
        Contestant::Mpich => {
            command.env("MPIR_CVAR_DEBUG_SUMMARY", "1");
            format!("libfabric provider: {} ", way.provider().unwrap_or_default())
        }
        _ => return Err("nobody has looked by which provider it goes".into()),
    };
    job::succeed("asking for the provider", &mut command, LIMIT, log)?.must_say(&[&right])
}

/// weft's own program, which is installed with it.
pub const EXPLAIN: &str = "weft";
const SECONDS: u32 = 30;
/// Waiting for others, where runs go through a lock, may take any time.
const LIMIT: Duration = Duration::from_secs(3600);
