//! Finding the program before any rank is started, so that a missing one is told once.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Why the program cannot be started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    /// There is none.
    #[error("cannot find the program `{name}`\n  {hint}")]
    Missing {
        /// As the user wrote it.
        name: String,
        /// What may help.
        hint: String,
    },
    /// It is there, but is no program.
    #[error("cannot run `{name}`: {why}\n  {hint}")]
    NotExecutable {
        /// As the user wrote it.
        name: String,
        /// Why not.
        why: &'static str,
        /// What may help.
        hint: String,
    },
}

impl NoProgram {
    /// The exit status that shells use for this.
    pub fn exit_status(&self) -> u8 {
        match self {
            NoProgram::Missing { .. } => 127,
            NoProgram::NotExecutable { .. } => 126,
        }
    }
}

/// Finds `name` as a shell does: as it stands when it holds a slash, else in the folders of `search_path`.
///
/// Relative names are taken from `here`, or from the current folder where that is not given.
pub fn find(name: &OsStr, search_path: Option<&OsStr>, here: Option<&Path>) -> Result<PathBuf, NoProgram> {
    let here = here.unwrap_or(Path::new(""));
    if name.as_bytes().contains(&b'/') {
        let path = here.join(name);
        return check(&path, name).map(|()| path);
    }
    let folders = std::env::split_paths(search_path.unwrap_or_default());
    let mut failure = missing(name, hint_for_bare(name, here));
    for folder in folders.filter(|_| !name.is_empty()) {
        let candidate = here.join(folder).join(name);
        match check(&candidate, name) {
            Ok(()) => return Ok(candidate),
            Err(NoProgram::Missing { .. }) => {}
            Err(other) => failure = other,
        }
    }
    Err(failure)
}

fn check(path: &Path, name: &OsStr) -> Result<(), NoProgram> {
    match std::fs::metadata(path) {
        Err(_) => Err(missing(name, "check the spelling, and that this node sees the same files".to_owned())),
        Ok(about) if about.is_dir() => {
            Err(not_executable(name, "it is a folder", "name a program in it".to_owned()))
        }
        Ok(_) if access(path, Access::EXEC_OK).is_err() => {
            let hint = format!("allow it with: chmod +x {}", path.display());
            Err(not_executable(name, "it is not marked executable", hint))
        }
        Ok(_) => Ok(()),
    }
}

fn missing(name: &OsStr, hint: String) -> NoProgram {
    NoProgram::Missing { name: shown(name), hint }
}

fn not_executable(name: &OsStr, why: &'static str, hint: String) -> NoProgram {
    NoProgram::NotExecutable { name: shown(name), why, hint }
}

/// The commonest slip: a program of this folder, named without the folder.
fn hint_for_bare(name: &OsStr, here: &Path) -> String {
    if here.join(name).is_file() {
        return format!("it is in this folder, but not in PATH: write ./{}", shown(name));
    }
    "it is in no folder of PATH; check the spelling".to_owned()
}

fn shown(name: &OsStr) -> String {
    OsString::from(name).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder_with(name: &str, mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        folder
    }

    fn find_in(folders: &[&Path], name: &str) -> Result<PathBuf, NoProgram> {
        let search_path = std::env::join_paths(folders).unwrap();
        find(OsStr::new(name), Some(&search_path), None)
    }

    #[test]
    fn the_first_program_in_the_search_path_is_taken() {
        let (text, program) = (folder_with("tool", 0o644), folder_with("tool", 0o755));
        let found = find_in(&[text.path(), program.path()], "tool").unwrap();
        assert_eq!(found, program.path().join("tool"));
    }

    #[test]
    fn what_cannot_run_is_told_apart_from_what_is_not_there() {
        let folder = folder_with("tool", 0o755);
        let error = find_in(&[folder.path()], "toll").unwrap_err();
        assert_eq!(error.exit_status(), 127);
        let error = find(folder.path().as_os_str(), None, None).unwrap_err();
        assert_eq!(error.exit_status(), 126);
        assert!(error.to_string().contains("it is a folder"), "{error}");
        assert_eq!(
            find(OsStr::new(""), Some(folder.path().as_os_str()), None).unwrap_err().exit_status(),
            127
        );
    }

    #[test]
    fn a_program_of_this_folder_gets_the_right_hint() {
        // Tests run in the crate's own folder.
        let error = find_in(&[Path::new("/nonexistent")], "Cargo.toml").unwrap_err();
        assert!(error.to_string().contains("write ./Cargo.toml"), "{error}");
    }
}
