//! Which MPI functions have a hand-written body, found by reading `crates/abi/src/bodies/**/*.rs` as text.
//!
//! A body is a function whose line begins with `pub fn mpi_x(` or `pub unsafe fn mpi_x(` (`pub(crate)` serves
//! too), where `mpi_x` is the C name in lower case. Modules on the way to it must be `pub` or `pub(crate)`.
//!
//! One whose last parameter is `way: Way<'_>` serves the blocking call, the nonblocking one and the
//! persistent one.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::tables::Tables;
use super::{Error, file_error};

/// All bodies by name.
pub struct Bodies(HashMap<String, Body>);

/// One hand-written function.
#[derive(Debug, PartialEq, Eq)]
pub struct Body {
    /// Its path from the root of the crate, `bodies::point_to_point::mpi_send`.
    pub path: String,
    /// Whether the function takes a `Way` as its last argument.
    pub has_ways: bool,
}

impl Bodies {
    /// Reads the bodies of the tree under `root`; one that answers to no MPI function is an error.
    pub fn scan(root: &Path, tables: &Tables) -> Result<Bodies, Error> {
        let mut found = HashMap::new();
        for file in rust_files(&root.join(FOLDER))? {
            let text =
                fs::read_to_string(&file).map_err(|source| file_error(&file.to_string_lossy(), source))?;
            let module = module_path(file.strip_prefix(root.join(FOLDER)).unwrap_or(&file));
            for Declaration { line, name, has_ways } in declarations(&text) {
                let place = format!("{}:{line}", file.strip_prefix(root).unwrap_or(&file).display());
                let known = tables.functions.iter().any(|function| function.body_name() == name);
                let path = format!("bodies{module}::{name}");
                let earlier = found.insert(name.to_string(), Body { path, has_ways });
                check(&place, name, known, earlier.as_ref())?;
            }
        }
        Ok(Bodies(found))
    }

    /// The body of that name.
    pub fn find(&self, name: &str) -> Option<&Body> {
        self.0.get(name)
    }

    /// Bodies with these names, for tests; names that end with a star take a `Way`.
    #[cfg(test)]
    pub fn of(names: &[&str]) -> Bodies {
        let body = |name: &str, has_ways| Body { path: format!("bodies::{name}"), has_ways };
        let named = |name: &&str| {
            let plain = name.trim_end_matches('*');
            (plain.to_string(), body(plain, name.ends_with('*')))
        };
        Bodies(names.iter().map(named).collect())
    }
}

fn check(place: &str, name: &str, known: bool, earlier: Option<&Body>) -> Result<(), Error> {
    let (problem, remedy) = match (known, earlier) {
        (true, None) => return Ok(()),
        (true, Some(earlier)) => (
            format!("`{name}` is also {}", earlier.path),
            "keep one of the two; every MPI function has one body",
        ),
        (false, _) => (
            format!("`{name}` is the body of no MPI function"),
            "spell it as the C name in lower case, or give a private function a name that does not begin with mpi_",
        ),
    };
    Err(Error::Body { place: place.to_string(), problem, remedy })
}

/// A body as it is declared.
#[derive(Debug, PartialEq, Eq)]
struct Declaration<'a> {
    line: usize,
    name: &'a str,
    has_ways: bool,
}

/// Every body declared in a source text.
fn declarations(text: &str) -> impl Iterator<Item = Declaration<'_>> {
    let mut start = 0;
    let lines = text.split_inclusive('\n').enumerate().map(move |(index, line)| {
        start += line.len();
        (index, line, &text[start - line.len()..])
    });
    lines.filter_map(|(index, line, from_here)| {
        let rest = line.trim_start();
        let rest = rest.strip_prefix("pub(crate) ").or_else(|| rest.strip_prefix("pub "))?;
        let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
        let name = rest.strip_prefix("fn ")?.split(['(', '<']).next()?;
        let has_ways = || {
            let parameters = from_here.split_once(") ->").map_or("", |(parameters, _)| parameters);
            parameters.trim_end().trim_end_matches(',').ends_with("way: Way<'_>")
        };
        let declaration = || Declaration { line: index + 1, name, has_ways: has_ways() };
        name.starts_with("mpi_").then(declaration)
    })
}

/// `pt2pt/send.rs` is `::pt2pt::send`, `pt2pt/mod.rs` is `::pt2pt`, `mod.rs` is nothing.
fn module_path(relative: &Path) -> String {
    let parts = relative.with_extension("");
    let names = parts.iter().map(|part| part.to_string_lossy());
    names.filter(|name| name != "mod").map(|name| format!("::{name}")).collect()
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return Ok(files) };
    for entry in entries {
        let path = entry.map_err(|source| file_error(&folder.to_string_lossy(), source))?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

const FOLDER: &str = "crates/abi/src/bodies";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_declarations_and_nothing_else() {
        let text = "pub unsafe fn mpi_send(\n    pub fn mpi_wtime() -> f64 {\n// pub fn mpi_no(\nfn mpi_private() {}\n\
                    pub(crate) fn mpi_barrier(comm: MPI_Comm) {}\npub fn other() {}\n";
        let declared = |line, name, has_ways| Declaration { line, name, has_ways };
        let found: Vec<_> = declarations(text).collect();
        let others = [declared(2, "mpi_wtime", false), declared(5, "mpi_barrier", false)];
        assert_eq!(found[0], declared(1, "mpi_send", false));
        assert_eq!(found[1..], others);
        let ways = "pub unsafe fn mpi_bcast(\n    n: c_int,\n    way: Way<'_>,\n) -> c_int {\npub fn mpi_x(way: Way<'_>) -> c_int {";
        let found: Vec<_> = declarations(ways).collect();
        assert_eq!(found, [declared(1, "mpi_bcast", true), declared(5, "mpi_x", true)]);
    }

    #[test]
    fn modules_follow_files() {
        assert_eq!(module_path(Path::new("pt2pt/send.rs")), "::pt2pt::send");
        assert_eq!(module_path(Path::new("pt2pt/mod.rs")), "::pt2pt");
        assert_eq!(module_path(Path::new("mod.rs")), "");
    }

    #[test]
    fn a_misspelt_or_doubled_body_is_an_error() {
        let earlier = Body { path: "bodies::a::mpi_send".into(), has_ways: false };
        assert!(check("f.rs:1", "mpi_send", true, None).is_ok());
        let doubled = check("f.rs:1", "mpi_send", true, Some(&earlier)).unwrap_err().to_string();
        assert!(doubled.contains("bodies::a::mpi_send"), "{doubled}");
        let misspelt = check("f.rs:7", "mpi_sned", false, None).unwrap_err().to_string();
        assert!(misspelt.starts_with("f.rs:7") && misspelt.contains("lower case"), "{misspelt}");
    }
}
