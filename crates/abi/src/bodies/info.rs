//! Info objects: ordered pairs of strings (MPI 5.0 §10).
//!
//! They live in a table of the process, since they may be used before `MPI_Init` and after `MPI_Finalize`.
//! `MPI_INFO_ENV` is made anew at each look and cannot be changed.

use std::ffi::c_int;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;

use weft::{Class, Error, Result};

use crate::claims::{List, Place, Text, TextPlace, Variable, null};
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::handles::HandleKind;
use crate::objects::lock;
use crate::state::{initial_errors, runtime, too_many};
use crate::table::Table;
use crate::types::*;

/// Keys and values in the order in which the keys came. Neither has a zero byte.
#[derive(Clone, Default, Debug)]
pub(crate) struct Pairs(Vec<(Vec<u8>, Vec<u8>)>);

static INFOS: Mutex<Table<Pairs>> = Mutex::new(Table::new(HandleKind::Info));

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

/// What is known of how this process was started (MPI 5.0 §11.2.1 lists the keys); unknown keys are left out:
/// the launcher tells neither `soft` nor `file`, and asks for no `thread_level`.
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

/// How many processes were started, also where MPI has not begun or has ended: launchers by the protocol of
/// PMI say it in the environment. A process without a launcher is one.
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

fn key(key: Text<'_>) -> Result<&[u8]> {
    let key = key.bytes().ok_or_else(|| Error::new(Class::InfoKey, "the key is a null pointer"))?;
    match key.len() {
        0 => Err(Error::new(Class::InfoKey, "the key is empty")),
        bytes if bytes >= MPI_MAX_INFO_KEY as usize => {
            let what = format!("the key has {bytes} bytes, of at most {}", MPI_MAX_INFO_KEY - 1);
            Err(Error::new(Class::InfoKey, what))
        }
        _ => Ok(key),
    }
}

fn value(value: Text<'_>) -> Result<&[u8]> {
    let value = value.bytes().ok_or_else(|| Error::new(Class::InfoValue, "the value is a null pointer"))?;
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
pub fn mpi_info_create(info: Place<'_, MPI_Info>) -> c_int {
    at_any_time("MPI_Info_create", || {
        let place = info.checked("info")?;
        place.set(adopt(Pairs::default())?);
        Ok(())
    })
}

/// Makes an info object with what `MPI_INFO_ENV` tells, where the arguments are those given.
pub fn mpi_info_create_env(argc: c_int, argv: List<'_, Text<'_>>, info: Place<'_, MPI_Info>) -> c_int {
    at_any_time("MPI_Info_create_env", || {
        let place = info.checked("info")?;
        let pointers = argv.slice(i64::from(argc), "argv")?;
        let arguments = pointers.iter().map_while(|&pointer| pointer.bytes().map(<[u8]>::to_vec));
        place.set(adopt(environment(arguments.collect()))?);
        Ok(())
    })
}

/// Makes an info object with the same pairs in the same order.
pub fn mpi_info_dup(info: MPI_Info, newinfo: Place<'_, MPI_Info>) -> c_int {
    at_any_time("MPI_Info_dup", || {
        let place = newinfo.checked("newinfo")?;
        place.set(adopt(contents(info)?)?);
        Ok(())
    })
}

/// Frees an info object.
pub fn mpi_info_free(info: Variable<'_, MPI_Info>) -> c_int {
    at_any_time("MPI_Info_free", || {
        let place = info.checked("info")?;
        let handle = place.get();
        if handle == MPI_INFO_ENV {
            return Err(Error::new(Class::Info, "MPI_INFO_ENV cannot be freed"));
        }
        lock(&INFOS).remove(handle.value()).ok_or_else(|| no_info(handle))?;
        place.set(MPI_INFO_NULL);
        Ok(())
    })
}

/// Sets the value of a key.
pub fn mpi_info_set(info: MPI_Info, key: Text<'_>, value: Text<'_>) -> c_int {
    at_any_time("MPI_Info_set", || {
        let (key, value) = (self::key(key)?, self::value(value)?);
        change(info, |pairs| pairs.set(key, value))
    })
}

/// Removes a key with its value.
pub fn mpi_info_delete(info: MPI_Info, key: Text<'_>) -> c_int {
    at_any_time("MPI_Info_delete", || {
        let key = self::key(key)?;
        change(info, |pairs| pairs.remove(key))?.ok_or_else(|| {
            Error::new(Class::InfoNoKey, format!("there is no key \"{}\"", String::from_utf8_lossy(key)))
        })
    })
}

/// The value of a key, and the bytes that it takes with its zero byte.
pub fn mpi_info_get_string(
    info: MPI_Info,
    key: Text<'_>,
    buflen: Variable<'_, c_int>,
    value: TextPlace<'_>,
    flag: Place<'_, c_int>,
) -> c_int {
    at_any_time("MPI_Info_get_string", || {
        let (key, length, flag) = (self::key(key)?, buflen.checked("buflen")?, flag.checked("flag")?);
        let room = usize::try_from(length.get())
            .map_err(|_| Error::new(Class::Argument, format!("buflen is {}", length.get())))?;
        if room > 0 && value.is_null() {
            return Err(null("value"));
        }
        let found = look(info, |pairs| pairs.find(key).map(<[u8]>::to_vec))?;
        if let Some(found) = &found {
            if room > 0 {
                value.put(found, room);
            }
            length.set(found.len() as c_int + 1);
        }
        flag.set(c_int::from(found.is_some()));
        Ok(())
    })
}

/// The value of a key, cut to `valuelen` bytes and a zero byte. Deprecated since MPI 4.0.
pub fn mpi_info_get(
    info: MPI_Info,
    key: Text<'_>,
    valuelen: c_int,
    value: TextPlace<'_>,
    flag: Place<'_, c_int>,
) -> c_int {
    at_any_time("MPI_Info_get", || {
        let (key, flag) = (self::key(key)?, flag.checked("flag")?);
        let room = usize::try_from(valuelen)
            .map_err(|_| Error::new(Class::Argument, format!("valuelen is {valuelen}")))?;
        let value = value.checked("value")?;
        let found = look(info, |pairs| pairs.find(key).map(<[u8]>::to_vec))?;
        if let Some(found) = &found {
            value.put(found, room + 1);
        }
        flag.set(c_int::from(found.is_some()));
        Ok(())
    })
}

/// The length of a key's value, without its zero byte. Deprecated since MPI 4.0.
pub fn mpi_info_get_valuelen(
    info: MPI_Info,
    key: Text<'_>,
    valuelen: Place<'_, c_int>,
    flag: Place<'_, c_int>,
) -> c_int {
    at_any_time("MPI_Info_get_valuelen", || {
        let (key, length, flag) = (self::key(key)?, valuelen.checked("valuelen")?, flag.checked("flag")?);
        let found = look(info, |pairs| pairs.find(key).map(<[u8]>::len))?;
        if let Some(bytes) = found {
            length.set(bytes as c_int);
        }
        flag.set(c_int::from(found.is_some()));
        Ok(())
    })
}

/// The number of keys.
pub fn mpi_info_get_nkeys(info: MPI_Info, nkeys: Place<'_, c_int>) -> c_int {
    at_any_time("MPI_Info_get_nkeys", || {
        let place = nkeys.checked("nkeys")?;
        place.set(look(info, |pairs| pairs.0.len())? as c_int);
        Ok(())
    })
}

/// The key number `n`, counted from 0.
pub fn mpi_info_get_nthkey(info: MPI_Info, n: c_int, key: TextPlace<'_>) -> c_int {
    at_any_time("MPI_Info_get_nthkey", || {
        let key = key.checked("key")?;
        let keys = contents(info)?.0;
        let Some((found, _)) = usize::try_from(n).ok().and_then(|n| keys.get(n)) else {
            return Err(Error::new(
                Class::Argument,
                format!("there is no key {n}, there are {}", keys.len()),
            ));
        };
        key.put(found, MPI_MAX_INFO_KEY as usize);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::testing::{self, Answer};
    use std::ffi::c_char;
    use std::ffi::{CStr, CString};

    fn new() -> MPI_Info {
        let mut info = MPI_INFO_NULL;
        assert_eq!(mpi_info_create(Place::of(&mut info)), MPI_SUCCESS);
        info
    }

    fn set(info: MPI_Info, key: &CStr, value: &CStr) -> c_int {
        mpi_info_set(info, Text::of(key), Text::of(value))
    }

    /// The value as far as `room` bytes hold it, and the bytes it would need.
    fn get(info: MPI_Info, key: &CStr, room: usize) -> Option<(String, c_int)> {
        let mut value = vec![b'?' as c_char; room + 1];
        let (mut length, mut flag) = (room as c_int, -1);
        let code = mpi_info_get_string(
            info,
            Text::of(key),
            Variable::of(&mut length),
            TextPlace::of(&mut value),
            Place::of(&mut flag),
        );
        assert_eq!(code, MPI_SUCCESS);
        assert_eq!(value[room], b'?' as c_char, "no byte beyond the room is written");
        let text = value.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char).collect();
        (flag == 1).then_some((text, length))
    }

    fn nth(info: MPI_Info, n: c_int) -> Answer<String> {
        let mut key = [0 as c_char; MPI_MAX_INFO_KEY as usize];
        match mpi_info_get_nthkey(info, n, TextPlace::of(&mut key)) {
            MPI_SUCCESS => {
                Ok(key.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char).collect())
            }
            code => Err(code),
        }
    }

    fn keys(info: MPI_Info) -> Vec<String> {
        let mut count = -1;
        assert_eq!(mpi_info_get_nkeys(info, Place::of(&mut count)), MPI_SUCCESS);
        (0..count).map(|n| nth(info, n).unwrap()).collect()
    }

    fn free(mut info: MPI_Info) -> c_int {
        let code = mpi_info_free(Variable::of(&mut info));
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
        assert_eq!(mpi_info_dup(info, Place::of(&mut copy)), MPI_SUCCESS);
        assert_eq!(mpi_info_delete(info, Text::of(c"b")), MPI_SUCCESS);
        assert_eq!(mpi_info_delete(info, Text::of(c"b")), MPI_ERR_INFO_NOKEY);
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
        assert_eq!(
            mpi_info_get(info, Text::of(c"key"), 3, TextPlace::of(&mut value), Place::of(&mut flag)),
            MPI_SUCCESS
        );
        assert_eq!((value.map(|byte| byte as u8), flag), (*b"val\0??", 1));
        assert_eq!(
            mpi_info_get(info, Text::of(c"none"), 3, TextPlace::of(&mut value), Place::of(&mut flag)),
            MPI_SUCCESS
        );
        assert_eq!((value.map(|byte| byte as u8), flag), (*b"val\0??", 0));
        let code =
            mpi_info_get_valuelen(info, Text::of(c"key"), Place::of(&mut length), Place::of(&mut flag));
        assert_eq!((code, length, flag), (MPI_SUCCESS, 5, 1));
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
        assert_eq!(mpi_info_set(info, Text::NULL, Text::of(c"v")), MPI_ERR_INFO_KEY);
        assert_eq!(mpi_info_set(info, Text::of(c"k"), Text::NULL), MPI_ERR_INFO_VALUE);
        assert_eq!(mpi_info_create(Place::NULL), MPI_ERR_ARG);
        assert_eq!(mpi_info_free(Variable::NULL), MPI_ERR_ARG);
        assert_eq!(
            mpi_info_get(info, Text::of(c"k"), -1, TextPlace::NULL, Place::of(&mut flag)),
            MPI_ERR_ARG
        );
        assert_eq!(mpi_info_get_nkeys(MPI_INFO_NULL, Place::of(&mut flag)), MPI_ERR_INFO);
        let mut none = MPI_INFO_NULL;
        assert_eq!(mpi_info_create_env(2, List::NULL, Place::of(&mut none)), MPI_ERR_ARG);
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
        let argv = [c"solve", c"-n", c"3"].map(Text::of);
        let mut info = MPI_INFO_NULL;
        assert_eq!(mpi_info_create_env(3, List::of(&argv), Place::of(&mut info)), MPI_SUCCESS);
        assert_eq!(get(info, c"command", 99), Some(("solve".into(), 6)));
        assert_eq!(get(info, c"argv", 99), Some(("-n 3".into(), 5)));
        assert_eq!(set(info, c"argv", c"other"), MPI_SUCCESS);
        assert_eq!(free(info), MPI_SUCCESS);
    }
}
