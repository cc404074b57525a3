//! Info objects: ordered pairs of strings (MPI 5.0 §10).
//!
//! They live in a table of the process, since they may be used before `MPI_Init` and after `MPI_Finalize`.
//! `MPI_INFO_ENV` is made anew at each look and cannot be changed.

use std::ffi::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;

use weft::{Class, Error, Result};

use crate::bodies::pointers::{Place, array, put_text, text};
use crate::bodies::world::null;
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::handles::Kind;
use crate::objects::lock;
use crate::state::{initial_errors, runtime, too_many};
use crate::table::Table;
use crate::types::*;

/// Keys and values in the order in which the keys came. Neither has a zero byte.
#[derive(Clone, Default, Debug)]
pub(crate) struct Pairs(Vec<(Vec<u8>, Vec<u8>)>);

static INFOS: Mutex<Table<Pairs>> = Mutex::new(Table::new(Kind::Info));

/// The handle of a living object, by its integer.
pub(crate) fn by_integer(integer: usize) -> Option<usize> {
    lock(&INFOS).by_integer(integer)
}

impl Pairs {
    /// Sets a value, instead of the one that may be there.
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) {
        match self.0.iter_mut().find(|pair| pair.0 == key) {
            Some(pair) => pair.1 = value.to_vec(),
            None => self.0.push((key.to_vec(), value.to_vec())),
        }
    }

    /// Sets all values of another's.
    pub(crate) fn set_all(&mut self, others: &Pairs) {
        others.iter().for_each(|(key, value)| self.set(key, value));
    }

    /// The value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<&[u8]> {
        self.find(key.as_bytes())
    }

    /// Keys and values, in the order in which the keys came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(key, value)| (&key[..], &value[..]))
    }

    fn find(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|pair| pair.0 == key).map(|pair| &pair.1[..])
    }

    fn remove(&mut self, key: &[u8]) -> Option<()> {
        let at = self.0.iter().position(|pair| pair.0 == key)?;
        self.0.remove(at);
        Some(())
    }
}

impl<'a> FromIterator<(&'a str, String)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (&'a str, String)>>(pairs: I) -> Pairs {
        Pairs(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

/// A handle for new pairs.
pub(crate) fn adopt(pairs: Pairs) -> Result<MPI_Info> {
    lock(&INFOS).insert(pairs).map(MPI_Info::from_value).ok_or_else(too_many)
}

/// A handle for the hints of an object, and the kinds of memory that it works with.
pub(crate) fn adopt_hints(mut pairs: Pairs) -> Result<MPI_Info> {
    pairs.set(b"mpi_memory_alloc_kinds", b"mpi,system");
    adopt(pairs)
}

/// The pairs of an info object as they are now; none for `MPI_INFO_NULL`, which stands for no hints.
pub(crate) fn pairs(info: MPI_Info) -> Result<Pairs> {
    if info == MPI_INFO_NULL { Ok(Pairs::default()) } else { contents(info) }
}

/// Whether a handle may be given where hints are asked for.
pub(crate) fn check(info: MPI_Info) -> Result<()> {
    let known = matches!(info, MPI_INFO_NULL | MPI_INFO_ENV) || lock(&INFOS).find(info.value()).is_some();
    if known { Ok(()) } else { Err(no_info(info)) }
}

/// Tells the program something by a value in its info object; `MPI_INFO_NULL` does not want to know.
pub(crate) fn tell(info: MPI_Info, key: &str, value: &str) -> Result<()> {
    if info == MPI_INFO_NULL {
        return Ok(());
    }
    change(info, |pairs| pairs.set(key.as_bytes(), value.as_bytes()))
}

fn contents(info: MPI_Info) -> Result<Pairs> {
    look(info, Pairs::clone)
}

fn look<R>(info: MPI_Info, ask: impl FnOnce(&Pairs) -> R) -> Result<R> {
    if info == MPI_INFO_ENV {
        return Ok(ask(&environment(std::env::args_os().map(|text| text.as_bytes().to_vec()).collect())));
    }
    lock(&INFOS).find(info.value()).map(ask).ok_or_else(|| no_info(info))
}

fn change<R>(info: MPI_Info, work: impl FnOnce(&mut Pairs) -> R) -> Result<R> {
    if info == MPI_INFO_ENV {
        return Err(
            Error::new(Class::Info, "MPI_INFO_ENV cannot be changed").remedy("change a copy, MPI_Info_dup")
        );
    }
    lock(&INFOS).find_mut(info.value()).map(work).ok_or_else(|| no_info(info))
}

#[cold]
fn no_info(info: MPI_Info) -> Error {
    if info == MPI_INFO_NULL {
        return Error::new(Class::Info, "the info object is MPI_INFO_NULL");
    }
    Error::new(Class::Info, format!("{:#x} is not an info object, or not any more", info.value()))
}

/// What is known of how this process was started (MPI 5.0 §11.2.1 lists the keys); unknown keys are left out: the
/// launcher tells neither `soft` nor `file`, and asks for no `thread_level`.
fn environment(arguments: Vec<Vec<u8>>) -> Pairs {
    let mut pairs = Pairs::default();
    let mut known = |key: &str, value: &[u8]| {
        if value.len() < MPI_MAX_INFO_VAL as usize {
            pairs.set(key.as_bytes(), value);
        }
    };
    if let Some((command, rest)) = arguments.split_first() {
        known("command", command);
        known("argv", &rest.join(&b' '));
    }
    if let Some(processes) = processes() {
        known("maxprocs", processes.as_bytes());
    }
    let machine = rustix::system::uname();
    known("host", machine.nodename().to_bytes());
    known("arch", machine.machine().to_bytes());
    if let Ok(folder) = std::env::current_dir() {
        known("wdir", folder.as_os_str().as_bytes());
    }
    known("mpi_initial_errhandler", initial_errors().name().as_bytes());
    pairs
}

/// How many processes were started, also where MPI has not begun or has ended: launchers by the protocol of PMI say
/// it in the environment. A process without a launcher is one.
fn processes() -> Option<String> {
    match runtime() {
        Some(runtime) => Some(runtime.size().to_string()),
        None => match std::env::var("PMI_SIZE") {
            Ok(size) => size.parse::<u32>().ok().map(|size| size.to_string()),
            Err(_) => {
                let launched =
                    ["PMI_FD", "PMI_PORT"].into_iter().any(|name| std::env::var_os(name).is_some());
                (!launched).then(|| "1".to_owned())
            }
        },
    }
}

/// # Safety
/// `key` is null, or ends with a zero byte and stays as it is until the MPI call returns.
unsafe fn key<'a>(key: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: the caller's promise is handed on.
    let key = unsafe { text(key) }.ok_or_else(|| Error::new(Class::InfoKey, "the key is a null pointer"))?;
    match key.len() {
        0 => Err(Error::new(Class::InfoKey, "the key is empty")),
        bytes if bytes >= MPI_MAX_INFO_KEY as usize => {
            let what = format!("the key has {bytes} bytes, of at most {}", MPI_MAX_INFO_KEY - 1);
            Err(Error::new(Class::InfoKey, what))
        }
        _ => Ok(key),
    }
}

/// # Safety
/// As for [`key`].
unsafe fn value<'a>(value: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: the caller's promise is handed on.
    let value =
        unsafe { text(value) }.ok_or_else(|| Error::new(Class::InfoValue, "the value is a null pointer"))?;
    if value.len() < MPI_MAX_INFO_VAL as usize {
        return Ok(value);
    }
    let what = format!("the value has {} bytes, of at most {}", value.len(), MPI_MAX_INFO_VAL - 1);
    Err(Error::new(Class::InfoValue, what))
}

fn at_any_time(name: &'static str, work: impl FnOnce() -> Result<()>) -> c_int {
    finish(name, Target::World, work())
}

/// Makes an info object without pairs.
///
/// # Safety
/// `info` is null or writable.
pub unsafe fn mpi_info_create(info: *mut MPI_Info) -> c_int {
    at_any_time("MPI_Info_create", || {
        // SAFETY: the program's promise is handed on.
        let place = unsafe { Place::new(info, "info")? };
        place.set(adopt(Pairs::default())?);
        Ok(())
    })
}

/// Makes an info object with what `MPI_INFO_ENV` tells, where the arguments are those given.
///
/// # Safety
/// `argv` is null or has `argc` strings; `info` is null or writable.
pub unsafe fn mpi_info_create_env(argc: c_int, argv: *mut *mut c_char, info: *mut MPI_Info) -> c_int {
    at_any_time("MPI_Info_create_env", || {
        // SAFETY: the program's promise is handed on.
        let place = unsafe { Place::new(info, "info")? };
        // SAFETY: as above; a null pointer is allowed when there are no arguments.
        let pointers = unsafe { array(argv, i64::from(argc), "argv")? };
        // SAFETY: as above.
        let arguments = pointers.iter().map_while(|&pointer| unsafe { text(pointer) }.map(<[u8]>::to_vec));
        place.set(adopt(environment(arguments.collect()))?);
        Ok(())
    })
}

/// Makes an info object with the same pairs in the same order.
///
/// # Safety
/// `newinfo` is null or writable.
pub unsafe fn mpi_info_dup(info: MPI_Info, newinfo: *mut MPI_Info) -> c_int {
    at_any_time("MPI_Info_dup", || {
        // SAFETY: the program's promise is handed on.
        let place = unsafe { Place::new(newinfo, "newinfo")? };
        place.set(adopt(contents(info)?)?);
        Ok(())
    })
}

/// Frees an info object.
///
/// # Safety
/// `info` is null or an info object, writable.
pub unsafe fn mpi_info_free(info: *mut MPI_Info) -> c_int {
    at_any_time("MPI_Info_free", || {
        // SAFETY: the program's promise is handed on.
        let place = unsafe { Place::new(info, "info")? };
        let handle = place.value();
        if handle == MPI_INFO_ENV {
            return Err(Error::new(Class::Info, "MPI_INFO_ENV cannot be freed"));
        }
        lock(&INFOS).remove(handle.value()).ok_or_else(|| no_info(handle))?;
        place.set(MPI_INFO_NULL);
        Ok(())
    })
}

/// Sets the value of a key.
///
/// # Safety
/// `key` and `value` are null or end with a zero byte.
pub unsafe fn mpi_info_set(info: MPI_Info, key: *const c_char, value: *const c_char) -> c_int {
    at_any_time("MPI_Info_set", || {
        // SAFETY: the program's promise is handed on.
        let (key, value) = unsafe { (self::key(key)?, self::value(value)?) };
        change(info, |pairs| pairs.set(key, value))
    })
}

/// Removes a key with its value.
///
/// # Safety
/// `key` is null or ends with a zero byte.
pub unsafe fn mpi_info_delete(info: MPI_Info, key: *const c_char) -> c_int {
    at_any_time("MPI_Info_delete", || {
        // SAFETY: the program's promise is handed on.
        let key = unsafe { self::key(key)? };
        change(info, |pairs| pairs.remove(key))?.ok_or_else(|| {
            Error::new(Class::InfoNoKey, format!("there is no key \"{}\"", String::from_utf8_lossy(key)))
        })
    })
}

/// The value of a key, and the bytes that it takes with its zero byte.
///
/// # Safety
/// `key` is null or ends with a zero byte; `buflen` and `flag` are null or writable; `value` has `*buflen` bytes.
pub unsafe fn mpi_info_get_string(
    info: MPI_Info,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    at_any_time("MPI_Info_get_string", || {
        // SAFETY: the program's promise is handed on.
        let (key, length, flag) =
            unsafe { (self::key(key)?, Place::new(buflen, "buflen")?, Place::new(flag, "flag")?) };
        let room = usize::try_from(length.value())
            .map_err(|_| Error::new(Class::Argument, format!("buflen is {}", length.value())))?;
        if room > 0 && value.is_null() {
            return Err(null("value"));
        }
        let found = look(info, |pairs| pairs.find(key).map(<[u8]>::to_vec))?;
        if let Some(found) = &found {
            if room > 0 {
                // SAFETY: not null, and the program promised that many bytes.
                unsafe { put_text(value, found, room) };
            }
            length.set(found.len() as c_int + 1);
        }
        flag.set(c_int::from(found.is_some()));
        Ok(())
    })
}

/// The value of a key, cut to `valuelen` bytes and a zero byte. Deprecated since MPI 4.0.
///
/// # Safety
/// `key` is null or ends with a zero byte; `flag` is null or writable; `value` has `valuelen + 1` bytes.
pub unsafe fn mpi_info_get(
    info: MPI_Info,
    key: *const c_char,
    valuelen: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    at_any_time("MPI_Info_get", || {
        // SAFETY: the program's promise is handed on.
        let (key, flag) = unsafe { (self::key(key)?, Place::new(flag, "flag")?) };
        let room = usize::try_from(valuelen)
            .map_err(|_| Error::new(Class::Argument, format!("valuelen is {valuelen}")))?;
        if value.is_null() {
            return Err(null("value"));
        }
        let found = look(info, |pairs| pairs.find(key).map(<[u8]>::to_vec))?;
        if let Some(found) = &found {
            // SAFETY: not null, and the program promised that many bytes.
            unsafe { put_text(value, found, room + 1) };
        }
        flag.set(c_int::from(found.is_some()));
        Ok(())
    })
}

/// The length of a key's value, without its zero byte. Deprecated since MPI 4.0.
///
/// # Safety
/// `key` is null or ends with a zero byte; `valuelen` and `flag` are null or writable.
pub unsafe fn mpi_info_get_valuelen(
    info: MPI_Info,
    key: *const c_char,
    valuelen: *mut c_int,
    flag: *mut c_int,
) -> c_int {
    at_any_time("MPI_Info_get_valuelen", || {
        // SAFETY: the program's promise is handed on.
        let (key, length, flag) =
            unsafe { (self::key(key)?, Place::new(valuelen, "valuelen")?, Place::new(flag, "flag")?) };
        let found = look(info, |pairs| pairs.find(key).map(<[u8]>::len))?;
        if let Some(bytes) = found {
            length.set(bytes as c_int);
        }
        flag.set(c_int::from(found.is_some()));
        Ok(())
    })
}

/// The number of keys.
///
/// # Safety
/// `nkeys` is null or writable.
pub unsafe fn mpi_info_get_nkeys(info: MPI_Info, nkeys: *mut c_int) -> c_int {
    at_any_time("MPI_Info_get_nkeys", || {
        // SAFETY: the program's promise is handed on.
        let place = unsafe { Place::new(nkeys, "nkeys")? };
        place.set(look(info, |pairs| pairs.0.len())? as c_int);
        Ok(())
    })
}

/// The key number `n`, counted from 0.
///
/// # Safety
/// `key` is null or has `MPI_MAX_INFO_KEY` bytes.
pub unsafe fn mpi_info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) -> c_int {
    at_any_time("MPI_Info_get_nthkey", || {
        if key.is_null() {
            return Err(null("key"));
        }
        let keys = contents(info)?.0;
        let Some((found, _)) = usize::try_from(n).ok().and_then(|n| keys.get(n)) else {
            return Err(Error::new(
                Class::Argument,
                format!("there is no key {n}, there are {}", keys.len()),
            ));
        };
        // SAFETY: not null, and the program promised room for the longest key.
        unsafe { put_text(key, found, MPI_MAX_INFO_KEY as usize) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::testing::{self, Answer};
    use std::ffi::{CStr, CString};
    use std::ptr::{null, null_mut};

    fn new() -> MPI_Info {
        let mut info = MPI_INFO_NULL;
        // SAFETY: `info` is writable.
        assert_eq!(unsafe { mpi_info_create(&raw mut info) }, MPI_SUCCESS);
        info
    }

    fn set(info: MPI_Info, key: &CStr, value: &CStr) -> c_int {
        // SAFETY: both are strings of C.
        unsafe { mpi_info_set(info, key.as_ptr(), value.as_ptr()) }
    }

    /// The value as far as `room` bytes hold it, and the bytes it would need.
    fn get(info: MPI_Info, key: &CStr, room: usize) -> Option<(String, c_int)> {
        let mut value = vec![b'?' as c_char; room + 1];
        let (mut length, mut flag) = (room as c_int, -1);
        // SAFETY: there are as many bytes as are said to be.
        let code = unsafe {
            mpi_info_get_string(info, key.as_ptr(), &raw mut length, value.as_mut_ptr(), &raw mut flag)
        };
        assert_eq!(code, MPI_SUCCESS);
        assert_eq!(value[room], b'?' as c_char, "no byte beyond the room is written");
        let text = value.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char).collect();
        (flag == 1).then_some((text, length))
    }

    fn nth(info: MPI_Info, n: c_int) -> Answer<String> {
        let mut key = [0 as c_char; MPI_MAX_INFO_KEY as usize];
        // SAFETY: there is room for the longest key.
        match unsafe { mpi_info_get_nthkey(info, n, key.as_mut_ptr()) } {
            MPI_SUCCESS => {
                Ok(key.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char).collect())
            }
            code => Err(code),
        }
    }

    fn keys(info: MPI_Info) -> Vec<String> {
        let mut count = -1;
        // SAFETY: `count` is writable.
        assert_eq!(unsafe { mpi_info_get_nkeys(info, &raw mut count) }, MPI_SUCCESS);
        (0..count).map(|n| nth(info, n).unwrap()).collect()
    }

    fn free(mut info: MPI_Info) -> c_int {
        // SAFETY: `info` is writable.
        let code = unsafe { mpi_info_free(&raw mut info) };
        assert!(code != MPI_SUCCESS || info == MPI_INFO_NULL);
        code
    }

    #[test]
    fn pairs_are_set_found_copied_and_deleted_in_order() {
        testing::start();
        let info = new();
        for (key, value) in [(c"b", c"1"), (c"a", c"2"), (c"c", c"3"), (c"b", c"four")] {
            assert_eq!(set(info, key, value), MPI_SUCCESS);
        }
        assert_eq!(keys(info), ["b", "a", "c"]);
        let mut copy = MPI_INFO_NULL;
        // SAFETY: handles, strings of C, and writable places.
        unsafe {
            assert_eq!(mpi_info_dup(info, &raw mut copy), MPI_SUCCESS);
            assert_eq!(mpi_info_delete(info, c"b".as_ptr()), MPI_SUCCESS);
            assert_eq!(mpi_info_delete(info, c"b".as_ptr()), MPI_ERR_INFO_NOKEY);
        }
        assert_eq!(
            (keys(info), keys(copy)),
            (vec!["a".into(), "c".into()], vec!["b".into(), "a".into(), "c".into()])
        );
        assert_eq!((get(info, c"b", 9), get(copy, c"b", 9)), (None, Some(("four".into(), 5))));
        assert_eq!([free(info), free(copy), free(copy)], [MPI_SUCCESS, MPI_SUCCESS, MPI_ERR_INFO]);
    }

    #[test]
    fn values_are_cut_to_the_room() {
        testing::start();
        let info = new();
        assert_eq!(set(info, c"key", c"value"), MPI_SUCCESS);
        assert_eq!(get(info, c"key", 6), Some(("value".into(), 6)));
        assert_eq!(get(info, c"key", 3), Some(("va".into(), 6)));
        assert_eq!(get(info, c"key", 0), Some(("?".into(), 6)), "no byte is written where there is no room");
        let (mut value, mut flag, mut length) = ([b'?' as c_char; 6], -1, -1);
        // SAFETY: there are four bytes and more.
        unsafe {
            assert_eq!(
                mpi_info_get(info, c"key".as_ptr(), 3, value.as_mut_ptr(), &raw mut flag),
                MPI_SUCCESS
            );
            assert_eq!((value.map(|byte| byte as u8), flag), (*b"val\0??", 1));
            assert_eq!(
                mpi_info_get(info, c"none".as_ptr(), 3, value.as_mut_ptr(), &raw mut flag),
                MPI_SUCCESS
            );
            assert_eq!((value.map(|byte| byte as u8), flag), (*b"val\0??", 0));
            let code = mpi_info_get_valuelen(info, c"key".as_ptr(), &raw mut length, &raw mut flag);
            assert_eq!((code, length, flag), (MPI_SUCCESS, 5, 1));
        }
        free(info);
    }

    #[test]
    fn the_longest_strings_fit_and_longer_ones_do_not() {
        testing::start();
        let info = new();
        let text = |bytes| CString::new("k".repeat(bytes as usize)).unwrap();
        assert_eq!(set(info, &text(MPI_MAX_INFO_KEY - 1), &text(MPI_MAX_INFO_VAL - 1)), MPI_SUCCESS);
        assert_eq!(nth(info, 0).unwrap().len(), MPI_MAX_INFO_KEY as usize - 1);
        assert_eq!(set(info, &text(MPI_MAX_INFO_KEY), c"value"), MPI_ERR_INFO_KEY);
        assert_eq!(set(info, c"key", &text(MPI_MAX_INFO_VAL)), MPI_ERR_INFO_VALUE);
        assert_eq!(set(info, c"", c"value"), MPI_ERR_INFO_KEY);
        assert_eq!(set(info, c"empty", c""), MPI_SUCCESS);
        free(info);
    }

    #[test]
    fn wrong_arguments_get_their_class() {
        testing::start();
        let info = new();
        let mut flag = 0;
        // SAFETY: handles, null pointers, strings of C and writable places.
        unsafe {
            assert_eq!(mpi_info_set(info, null(), c"v".as_ptr()), MPI_ERR_INFO_KEY);
            assert_eq!(mpi_info_set(info, c"k".as_ptr(), null()), MPI_ERR_INFO_VALUE);
            assert_eq!(mpi_info_create(null_mut()), MPI_ERR_ARG);
            assert_eq!(mpi_info_free(null_mut()), MPI_ERR_ARG);
            assert_eq!(mpi_info_get(info, c"k".as_ptr(), -1, null_mut(), &raw mut flag), MPI_ERR_ARG);
            assert_eq!(mpi_info_get_nkeys(MPI_INFO_NULL, &raw mut flag), MPI_ERR_INFO);
            let mut none = MPI_INFO_NULL;
            assert_eq!(mpi_info_create_env(2, null_mut(), &raw mut none), MPI_ERR_ARG);
        }
        assert_eq!([nth(info, 0), nth(info, -1)], [Err(MPI_ERR_ARG), Err(MPI_ERR_ARG)]);
        assert_eq!([set(MPI_INFO_NULL, c"k", c"v"), set(MPI_INFO_ENV, c"k", c"v")], [MPI_ERR_INFO; 2]);
        assert_eq!([free(MPI_INFO_NULL), free(MPI_INFO_ENV)], [MPI_ERR_INFO; 2]);
        free(info);
        assert!(check(info).is_err() && check(MPI_INFO_NULL).is_ok() && check(MPI_INFO_ENV).is_ok());
    }

    #[test]
    fn the_environment_is_described() {
        testing::start();
        assert!(keys(MPI_INFO_ENV).contains(&"command".to_owned()), "{:?}", keys(MPI_INFO_ENV));
        assert_eq!(get(MPI_INFO_ENV, c"maxprocs", 9), Some(("1".into(), 2)));
        let mut argv = [c"solve", c"-n", c"3"].map(|text| text.as_ptr().cast_mut());
        let mut info = MPI_INFO_NULL;
        // SAFETY: there are three strings, and `info` is writable.
        assert_eq!(unsafe { mpi_info_create_env(3, argv.as_mut_ptr(), &raw mut info) }, MPI_SUCCESS);
        assert_eq!(get(info, c"command", 99), Some(("solve".into(), 6)));
        assert_eq!(get(info, c"argv", 99), Some(("-n 3".into(), 5)));
        assert_eq!(set(info, c"argv", c"other"), MPI_SUCCESS);
        assert_eq!(free(info), MPI_SUCCESS);
    }
}
