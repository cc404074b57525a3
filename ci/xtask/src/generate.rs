//! Code generation for the C ABI.
//!
//! Everything below comes from three committed tables, `crates/abi/tables/{constants,types,functions}.csv`,
//! from the three of the same names in `tables/beyond` for what weft has beside the ABI, and from a textual
//! look at which bodies exist under `crates/abi/src/bodies`:
//!
//! | written | what |
//! |---|---|
//! | `crates/abi/include/mpi.h` | the C header |
//! | `crates/abi/src/generated/constants.rs`, `types.rs` | the same constants and types for Rust |
//! | `crates/abi/src/generated/functions/*.rs` | `MPI_X` and `PMPI_X` of every function, one file per chapter |
//! | `docs/generated/mpi-coverage.md` | which functions work |
//! | `docs/generated/thresholds.md` | lengths at which something changes, from constants of the code |
//!
//! Outputs are plain text in memory first; [`write()`] and [`stale`] differ only in what they do with them.

mod bodies;
mod chapters;
mod claims;
mod constants;
mod coverage;
mod ctype;
mod functions;
mod header;
mod rust_face;
mod signature;
mod tables;
mod thresholds;
mod types;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use bodies::Bodies;
use tables::Tables;

/// Why nothing could be generated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}\n  run this inside a complete checkout that you may write to")]
    File {
        /// The file, as it was asked for.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A table says something that the generator cannot read.
    #[error(
        "{table}: row `{row}`: {problem}\n  correct the row; the tables are the source of everything generated"
    )]
    Table {
        /// File name of the table.
        table: &'static str,
        /// Name in the row's first column.
        row: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A hand-written body does not fit the tables.
    #[error("{place}: {problem}\n  {remedy}")]
    Body {
        /// `file:line`, or the function that misses a body.
        place: String,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
}

/// A file to be: its path from the root of the workspace, and its text.
struct Output {
    path: String,
    text: String,
}

/// Brings the tree up to date; answers the paths that changed.
pub fn write(root: &Path) -> Result<Vec<String>, Error> {
    let outputs = outputs(root)?;
    let stale = differences(root, &outputs)?;
    for path in &stale {
        match outputs.iter().find(|output| output.path == *path) {
            Some(output) => write_file(root, output)?,
            None => fs::remove_file(root.join(path)).map_err(|source| file_error(path, source))?,
        }
    }
    Ok(stale)
}

/// The paths that [`write()`] would change; empty when the tree is fresh.
pub fn stale(root: &Path) -> Result<Vec<String>, Error> {
    differences(root, &outputs(root)?)
}

/// The signatures that the bodies of the functions named (or begun) by `prefixes` must have.
pub fn body_signatures(root: &Path, prefixes: &[String]) -> Result<String, Error> {
    let tables = Tables::read(&root.join(TABLES))?;
    let bodies = Bodies::scan(root, &tables)?;
    Ok(functions::body_signatures(&tables, &bodies, prefixes))
}

fn outputs(root: &Path) -> Result<Vec<Output>, Error> {
    let tables = Tables::read(&root.join(TABLES))?;
    let bodies = Bodies::scan(root, &tables)?;
    let mut outputs = vec![
        Output { path: "crates/abi/include/mpi.h".into(), text: header::text(&tables)? },
        Output { path: format!("{GENERATED}/mod.rs"), text: functions::root_module() },
        Output { path: format!("{GENERATED}/constants.rs"), text: constants::text(&tables)? },
        Output { path: format!("{GENERATED}/types.rs"), text: types::text(&tables)? },
        Output { path: format!("{GENERATED}/functions/mod.rs"), text: functions::chapters_module() },
        Output { path: "docs/generated/mpi-coverage.md".into(), text: coverage::text(&tables, &bodies) },
        Output { path: "docs/generated/thresholds.md".into(), text: thresholds::text(root)? },
    ];
    for chapter in chapters::CHAPTERS {
        let path = format!("{GENERATED}/functions/{}.rs", chapter.module);
        outputs.push(Output { path, text: functions::text(&tables, &bodies, chapter)? });
    }
    Ok(outputs)
}

/// Outputs whose file differs, and files in the generated folders that no output claims any more.
fn differences(root: &Path, outputs: &[Output]) -> Result<Vec<String>, Error> {
    let mut different = BTreeSet::new();
    for output in outputs {
        if fs::read_to_string(root.join(&output.path)).ok().as_deref() != Some(&output.text) {
            different.insert(output.path.clone());
        }
    }
    for folder in [GENERATED.to_string(), format!("{GENERATED}/functions")] {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if !outputs.iter().any(|output| output.path == path) {
                different.insert(path);
            }
        }
    }
    Ok(different.into_iter().collect())
}

fn write_file(root: &Path, output: &Output) -> Result<(), Error> {
    let path = root.join(&output.path);
    let folder = path.parent().unwrap_or(root);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, &output.text))
        .map_err(|source| file_error(&output.path, source))
}

fn file_error(path: &str, source: std::io::Error) -> Error {
    Error::File { path: path.to_string(), source }
}

const TABLES: &str = "crates/abi/tables";
const GENERATED: &str = "crates/abi/src/generated";
/// First line of every generated Rust file.
const MARK: &str = "// @generated by cargo xtask generate; edit the tables or the generator instead.\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn tree_with(path: &str, text: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        write_file(root.path(), &Output { path: path.into(), text: text.into() }).unwrap();
        root
    }

    #[test]
    fn changed_missing_and_surplus_files_are_stale() {
        let root = tree_with("crates/abi/src/generated/old.rs", "");
        write_file(root.path(), &Output { path: "a".into(), text: "old".into() }).unwrap();
        write_file(root.path(), &Output { path: "same".into(), text: "same".into() }).unwrap();
        let outputs = ["a", "b", "same"].map(|path| Output { path: path.into(), text: path.into() });
        let found = differences(root.path(), &outputs).unwrap();
        assert_eq!(found, ["a", "b", "crates/abi/src/generated/old.rs"]);
    }

    #[test]
    fn a_missing_table_names_the_file() {
        let root = tempfile::tempdir().unwrap();
        let error = stale(root.path()).unwrap_err().to_string();
        assert!(error.contains("functions.csv") || error.contains("constants.csv"), "{error}");
    }
}
