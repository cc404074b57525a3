//! Small files in the user's folder for caches: what was found out about a machine, for the jobs to come.

use std::io::{Read as _, Result};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The folder for caches of the user that these variables describe.
pub(crate) fn folder(xdg: Option<String>, home: Option<String>) -> Option<PathBuf> {
    let absolute = |path: String| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")))
}

/// The text of a file; `None` where there is none. A longer one than that is refused.
pub(crate) fn read(path: &Path, bytes_max: u64) -> std::result::Result<Option<String>, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let mut text = String::new();
    match file.take(bytes_max + 1).read_to_string(&mut text) {
        Ok(bytes) if bytes as u64 > bytes_max => Err(wrong("it is too long to be such a file".to_owned())),
        Ok(_) => Ok(Some(text)),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// Whether a file that is there belongs to this user.
pub(crate) fn is_own(path: &Path) -> bool {
    let owner = std::fs::metadata(path).map(|about| about.uid());
    owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw())
}

/// Writes a file and its folder. A job that starts meanwhile reads the old file or the new one.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    // Ranks may be threads of one process.
    name.push(format!(".new.{}.{:?}", std::process::id(), std::thread::current().id()));
    let new = path.with_file_name(name);
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path));
    written.inspect_err(|_| drop(std::fs::remove_file(&new)))
}
