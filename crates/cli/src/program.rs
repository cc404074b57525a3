//! Finding the program before any rank is started, so that a missing one is told once.

use std::ffi::{OsStr, OsString};
use std::io::Read;
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
    /// The file is a script whose interpreter does not exist or cannot run.
    #[error("cannot run `{name}`: its first line names the interpreter `{interpreter}`, {why}\n  {hint}")]
    NoInterpreter {
        /// As the user wrote it.
        name: String,
        /// As the script names it, made safe to show.
        interpreter: String,
        /// What is wrong with it.
        why: &'static str,
        /// What may help.
        hint: String,
    },
    /// The file exists, but cannot be executed.
    #[error("cannot run `{name}`: {why}\n  {hint}")]
    NotExecutable {
        /// As the user wrote it.
        name: String,
        /// Why not.
        why: String,
        /// What may help.
        hint: String,
    },
}

impl NoProgram {
    /// The exit status that shells use for this.
    pub fn exit_status(&self) -> u8 {
        match self {
            NoProgram::Missing { .. } | NoProgram::NoInterpreter { .. } => 127,
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
        Ok(_) => check_interpreter(path, name),
    }
}

/// A script whose interpreter is missing would be told as a program that is missing.
fn check_interpreter(path: &Path, name: &OsStr) -> Result<(), NoProgram> {
    let Some(interpreter) = interpreter(path) else { return Ok(()) };
    let known = Path::new(OsStr::from_bytes(&interpreter));
    let (why, hint) = match (interpreter.last(), known.metadata()) {
        (Some(b'\r'), Err(_)) => (
            "with the end of line of Windows (CR LF)",
            format!("write its lines as Unix does: sed -i 's/\\r$//' {}", path.display()),
        ),
        (_, Err(_)) => ("which is not there", "install it, or correct the script's first line".to_owned()),
        (_, Ok(about)) if about.is_dir() || access(known, Access::EXEC_OK).is_err() => (
            "which cannot be executed",
            "correct the script's first line, or what the interpreter's mode allows".to_owned(),
        ),
        _ => return Ok(()),
    };
    let interpreter = String::from_utf8_lossy(&interpreter).escape_debug().to_string();
    Err(NoProgram::NoInterpreter { name: shown(name), interpreter, why, hint })
}

/// What the first line of a script names, as the kernel reads it.
fn interpreter(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    std::fs::File::open(path).ok()?.take(HEAD_BYTES_MAX).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    words.next().map(<[u8]>::to_vec)
}

/// The kernel reads no more of a first line.
const HEAD_BYTES_MAX: u64 = 256;

fn missing(name: &OsStr, hint: String) -> NoProgram {
    NoProgram::Missing { name: shown(name), hint }
}

fn not_executable(name: &OsStr, why: &str, hint: String) -> NoProgram {
    NoProgram::NotExecutable { name: shown(name), why: why.to_owned(), hint }
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
    fn a_script_without_its_interpreter_is_told_of_it() {
        for (line, told) in [
            ("#!/no/such arg\n", Some(("`/no/such`, which is not there", "install it"))),
            ("#! /bin/sh\r\n", Some(("`/bin/sh\\r`, with the end of line of Windows", "sed -i 's/\\r$//'"))),
            ("#!/etc/passwd", Some(("`/etc/passwd`, which cannot be executed", "first line"))),
            ("#!/bin/sh -e\n", None),
            ("#!\n", None),
            ("\x7fELF", None),
        ] {
            let folder = folder_with("tool", 0o755);
            std::fs::write(folder.path().join("tool"), line).unwrap();
            match (find_in(&[folder.path()], "tool"), told) {
                (Ok(_), None) => {}
                (Err(error), Some((what, remedy))) => {
                    assert_eq!(error.exit_status(), 127);
                    let error = error.to_string();
                    assert!(error.contains(what) && error.contains(remedy), "{error}");
                }
                (found, _) => panic!("{line}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_program_of_this_folder_gets_the_right_hint() {
        // Tests run in the crate's own folder.
        let error = find_in(&[Path::new("/nonexistent")], "Cargo.toml").unwrap_err();
        assert!(error.to_string().contains("write ./Cargo.toml"), "{error}");
    }
}
