//! Files without a name, which are memory: they exist only as descriptors and mappings, so that nothing is
//! ever left behind.
//!
//! The kernel makes them (memfd_create(2)). Where a filter of system calls forbids that, a file on a tmpfs
//! serves, which has no name either; it cannot be sealed, so that it is known by having no name and one
//! owner.

use std::ffi::CStr;
use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

use crate::system;

/// Makes a file without a name. That it is never executed must be said where the kernel knows of it (6.3 and
/// later), and some refuse to make one that could be.
pub fn anonymous(name: &CStr) -> Result<OwnedFd, Errno> {
    memfd(name).or_else(|errno| match is_refusal(errno) {
        true => FOLDERS.iter().find_map(|folder| unnamed(Path::new(folder))).ok_or(errno),
        false => Err(errno),
    })
}

fn memfd(name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        made => made,
    }
}

/// Why the kernel makes no files without a name for this process, where a filter of system calls forbids it.
#[must_use]
pub fn memfd_refusal() -> Option<String> {
    memfd(c"weft-test").err().filter(|errno| is_refusal(*errno)).map(|errno| errno.to_string())
}

fn is_refusal(errno: Errno) -> bool {
    [Errno::PERM, Errno::ACCESS, Errno::NOSYS].contains(&errno)
}

/// A file in a folder that is memory, without a name from the beginning on, or from the next moment on.
fn unnamed(folder: &Path) -> Option<OwnedFd> {
    let about = rustix::fs::statfs(folder).ok()?;
    if about.f_type != TMPFS {
        return None;
    }
    let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    rustix::fs::open(folder, flags | OFlags::TMPFILE, mode).ok().or_else(|| {
        let mut number = [0; 8];
        getrandom::fill(&mut number).ok()?;
        let path = folder.join(format!("weft-{:016x}", u64::from_ne_bytes(number)));
        let file = rustix::fs::openat(CWD, &path, flags | OFlags::CREATE | OFlags::EXCL, mode).ok()?;
        rustix::fs::unlink(&path).ok()?;
        Some(file)
    })
}

/// Makes sure that the file keeps its length, and what else `more` says. One that the kernel does not seal at
/// all keeps it as long as those who have its descriptor let it.
pub fn seal(file: &OwnedFd, more: SealFlags) -> Result<(), Errno> {
    let sealed = rustix::fs::fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW | more);
    sealed.or_else(|errno| if is_unnamed(file) { Ok(()) } else { Err(errno) })
}

/// Whether the length of a file that comes from outside cannot shrink under a mapping, or could only by this
/// user's own doing.
pub fn keeps_its_length(file: &OwnedFd) -> Result<bool, Errno> {
    Ok(rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK) || is_unnamed(file))
}

/// Whether this is such a file as [`unnamed`] makes: nobody but this user's processes that were handed it can
/// have it open.
fn is_unnamed(file: &OwnedFd) -> bool {
    let is_sealable = rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| !seals.contains(SealFlags::SEAL));
    let Ok(about) = rustix::fs::fstat(file) else { return false };
    let is_private = about.st_mode & 0o7777 == 0o600 && about.st_uid == rustix::process::geteuid().as_raw();
    !is_sealable && is_private && about.st_nlink == 0
}

/// The file behind an open descriptor of this process, with a description of its own. Without `/proc` there
/// is none, and the description is that of the descriptor: this process is not told from others that have it
/// then.
///
/// # Errors
/// What the system says where there is none.
pub fn anew(descriptor: RawFd) -> Result<OwnedFd, Errno> {
    if !has_descriptions() {
        return system::duplicate(descriptor);
    }
    let path = format!("/proc/self/fd/{descriptor}");
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// Whether [`anew`] makes descriptions of its own.
pub fn has_descriptions() -> bool {
    rustix::fs::access("/proc/self/fd", rustix::fs::Access::EXISTS).is_ok()
}

/// Where there may be a tmpfs that this process may write to.
const FOLDERS: [&str; 4] = ["/dev/shm", "/run/shm", "/tmp", "/var/tmp"];

/// `TMPFS_MAGIC`.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_file_on_a_tmpfs_is_private_and_has_no_name() {
        let file = unnamed(Path::new("/dev/shm")).expect("tests run where /dev/shm is");
        seal(&file, SealFlags::SEAL).unwrap();
        assert!(keeps_its_length(&file).unwrap());
        let again = anew(file.as_raw_fd()).unwrap();
        assert!(keeps_its_length(&again).unwrap(), "however it is opened");
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644)).unwrap();
        assert!(!keeps_its_length(&file).unwrap(), "others may open it");
        assert!(unnamed(Path::new("/proc")).is_none(), "no memory");
    }

    #[test]
    fn files_with_a_name_are_not_taken() {
        let path = format!("/dev/shm/weft-test-{}", std::process::id());
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE;
        let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(!keeps_its_length(&file).unwrap());
        assert!(seal(&file, SealFlags::SEAL).is_err());
        std::fs::remove_file(path).unwrap();
        assert!(keeps_its_length(&file).unwrap());
        let open = rustix::fs::memfd_create(c"test", MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(!keeps_its_length(&open).unwrap());
    }
}
