//! What hwloc says of this machine, as a text, through `libweft_hwloc.so`.
//!
//! That library links libhwloc; nothing else does, so that programs start where libhwloc is not installed. It
//! is loaded at the first question, from beside the file that this code is in: the library `libmpi_abi.so.1`
//! of a program, or the command `weft`; a Rust program that contains weft finds it where the system looks for
//! libraries. That it cannot be loaded is an ordinary answer.
//!
//! **Invariant:** nothing is trusted that comes back: a length is checked, and the text is for [`describe`]'s
//! caller to doubt.

use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use thiserror::Error;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoAnswer {
    /// The library is nowhere that it could be.
    #[error("{LIBRARY} is neither in {} nor where the system looks for libraries", shown(.looked_in))]
    Absent {
        /// Where it was looked for.
        looked_in: Vec<PathBuf>,
    },
    /// The library is there, and the loader refuses it; mostly because libhwloc is not there.
    #[error("{} cannot be loaded: {reason}", library.display())]
    NotLoaded {
        /// Which file.
        library: PathBuf,
        /// What the loader said.
        reason: String,
    },
    /// The library is of another version of weft.
    #[error("{} is of another version of weft", library.display())]
    OtherVersion {
        /// Which file.
        library: PathBuf,
    },
    /// hwloc does not know this machine, or says what cannot be.
    #[error("hwloc cannot read this machine")]
    Unreadable,
}

impl NoAnswer {
    /// What a person can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            NoAnswer::Absent { .. } | NoAnswer::OtherVersion { .. } => "install weft anew: ci/install PREFIX",
            NoAnswer::NotLoaded { .. } => "install hwloc's library: apt install libhwloc15",
            NoAnswer::Unreadable => "unset the variables HWLOC_…, or describe the machine by WEFT_MACHINE",
        }
    }
}

/// What hwloc says of this machine: the text form of `topology::Machine`.
///
/// # Errors
/// [`NoAnswer`].
pub fn describe() -> Result<String, NoAnswer> {
    let folders = folders();
    let library = folders.iter().map(|folder| folder.join(LIBRARY)).find(|library| library.exists());
    match library {
        Some(library) => describe_by(&library),
        None => match describe_by(Path::new(LIBRARY)) {
            Err(NoAnswer::NotLoaded { reason, .. }) if reason.starts_with(NOT_FOUND) => {
                Err(NoAnswer::Absent { looked_in: folders })
            }
            answer => answer,
        },
    }
}

/// What hwloc says of this machine, by the reader library at the path `library`: the text form of
/// `topology::Machine`.
///
/// # Errors
/// [`NoAnswer`].
pub fn describe_by(library: &Path) -> Result<String, NoAnswer> {
    let refused = |error: libloading::Error| {
        let reason = error.to_string();
        NoAnswer::NotLoaded { library: library.to_owned(), reason }
    };
    // SAFETY: its name is that of our own library, which does nothing when it is loaded; libhwloc, which
    // comes with it, is made for being loaded by anybody.
    let loaded = unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) }.map_err(refused)?;
    // SAFETY: this is the type that the library declares for this name; another version of the call is
    // refused by it.
    let call: Symbol<Call> = unsafe { loaded.get(CALL.as_bytes()) }.map_err(refused)?;
    let call = *call;
    // hwloc may keep its plug-ins and their threads.
    std::mem::forget(loaded);
    let mut text = vec![0u8; BYTES_AT_FIRST];
    for _ in 0..ATTEMPTS {
        // SAFETY: the call writes at most as many bytes as it is told that there are.
        let answer = unsafe { call(VERSION, text.as_mut_ptr(), text.len()) };
        match usize::try_from(answer) {
            Ok(length) if length <= text.len() => {
                text.truncate(length);
                return String::from_utf8(text).map_err(|_| NoAnswer::Unreadable);
            }
            Ok(length) if length <= BYTES_MAX => text = vec![0; length],
            _ if answer == OTHER_VERSION => {
                return Err(NoAnswer::OtherVersion { library: library.to_owned() });
            }
            _ => return Err(NoAnswer::Unreadable),
        }
    }
    Err(NoAnswer::Unreadable)
}

/// Where the library may be: beside the file that this code is in, in the `lib` beside the `bin` that a
/// program is in, and where cargo puts it.
fn folders() -> Vec<PathBuf> {
    let Some(folder) = file_of_this_code().and_then(|file| Some(file.parent()?.to_owned())) else {
        return Vec::new();
    };
    let beside = folder.parent().map(|above| above.join("lib"));
    let of_cargo = [folder.clone(), folder.join("..")].map(|above| above.join("deps"));
    let of_cargo = of_cargo.into_iter().filter(|deps| deps.is_dir());
    [Some(folder), beside].into_iter().flatten().chain(of_cargo).collect()
}

/// The file that this code was loaded from, by the kernel's list of what is mapped where.
fn file_of_this_code() -> Option<PathBuf> {
    let here = file_of_this_code as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| file_at(line, here))
}

/// The file of a line `start-end access offset device inode   path`, if the address is in its range.
fn file_at(line: &str, address: usize) -> Option<PathBuf> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let path = rest.find('/').map(|at| &rest[at..])?;
    (number(start)? <= address && address < number(end)?).then(|| PathBuf::from(path))
}

fn shown(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

type Call = unsafe extern "C" fn(u32, *mut u8, usize) -> i64;

/// The name of the library.
pub const LIBRARY: &str = "libweft_hwloc.so";
/// How the loader begins where the library itself, and not one that it needs, is nowhere.
const NOT_FOUND: &str = "libweft_hwloc.so: cannot open";
const CALL: &str = "weft_hwloc_machine";
const VERSION: u32 = 1;
const OTHER_VERSION: i64 = -2;
/// Enough for a machine of a thousand cpus.
const BYTES_AT_FIRST: usize = 1 << 16;
const BYTES_MAX: usize = 16 << 20;
/// A second one suffices, unless the machine grows meanwhile.
const ATTEMPTS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_knows_the_file_that_it_is_in() {
        let file = file_of_this_code().expect("a file");
        assert_eq!(file, std::env::current_exe().expect("a program"));
    }

    #[test]
    fn a_line_of_the_map_tells_its_file() {
        let line = "7f00-7f80 r-xp 00001000 08:01 1234    /opt/my lib/libmpi_abi.so.1";
        assert_eq!(file_at(line, 0x7f10), Some("/opt/my lib/libmpi_abi.so.1".into()));
        for (line, address) in
            [(line, 0x7f80), ("7f00-7f80 rw-p 0 00:00 0 [heap]", 0x7f10), ("", 0), ("a b /c", 0)]
        {
            assert_eq!(file_at(line, address), None, "{line}");
        }
    }

    #[test]
    fn a_library_that_is_none_is_an_answer_with_a_remedy() {
        let absent = describe_by(Path::new("/nowhere/libweft_hwloc.so")).unwrap_err();
        assert!(
            matches!(absent, NoAnswer::NotLoaded { .. }) && absent.to_string().contains("/nowhere"),
            "{absent}"
        );
        let other = describe_by(Path::new("libc.so.6")).unwrap_err();
        assert!(other.to_string().contains(CALL), "{other}");
        assert!(absent.remedy().contains("libhwloc15"));
        let nowhere = NoAnswer::Absent { looked_in: vec!["/a".into(), "/b".into()] };
        assert_eq!(
            nowhere.to_string(),
            "libweft_hwloc.so is neither in /a, /b nor where the system looks for libraries"
        );
        assert!(NOT_FOUND.starts_with(LIBRARY));
    }
}
