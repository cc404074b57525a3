//! Which file the loader takes for a shared library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::job;

/// The file of libfabric that `program` loads, by the word of `ldd`; the bare soname, which means the
/// system's library, where `program` is none or loads none. What `ldd` says is kept in `log`.
pub fn libfabric_of(program: Option<&Path>, log: &Path) -> PathBuf {
    let said = |program: &Path| job::succeed("ldd", Command::new("ldd").arg(program), LIMIT, log).ok();
    let found = program.and_then(said).and_then(|finished| loaded(&finished.output));
    found.unwrap_or_else(|| PathBuf::from(LIBFABRIC))
}

/// The path in the line of `ldd` about libfabric.
fn loaded(ldd: &str) -> Option<PathBuf> {
    let line = ldd.lines().find_map(|line| line.trim().strip_prefix(LIBFABRIC)?.trim().strip_prefix("=>"))?;
    line.split_whitespace().next().filter(|path| path.starts_with('/')).map(PathBuf::from)
}

/// The soname of libfabric.
pub const LIBFABRIC: &str = "libfabric.so.1";
const LIMIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_names_the_library() {
        let ldd = "\tlibmpi_abi.so.1 => /p/lib/libmpi_abi.so.1 (0x1)\n\tlibfabric.so.1 => /p/fabric/libfabric.so.1 (0x2)\n";
        assert_eq!(loaded(ldd), Some("/p/fabric/libfabric.so.1".into()));
        assert_eq!(loaded("\tlibfabric.so.1 => not found\n"), None);
        assert_eq!(loaded("\tlibc.so.6 => /lib/libc.so.6 (0x1)\n"), None);
    }
}
