//! What this library is and where it runs: versions, names, the facts of the ABI (MPI 5.0 §9.1, §9.2, ABI chapter).

use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;

use weft::{Class, Error, Result};

use crate::bodies::communicator_creation::{HWLOC, MACHINE};
use crate::bodies::info::{self, Pairs};
use crate::bodies::pointers::{Place, put_text};
use crate::bodies::world::null;
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::objects::lock;
use crate::state::{call, node_name};
use crate::types::*;

/// The version of MPI. Works at any time.
///
/// # Safety
/// Both pointers are null or writable.
pub unsafe fn mpi_get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    // SAFETY: the program's promise is handed on.
    let told =
        unsafe { tell_two((version, "version", MPI_VERSION), (subversion, "subversion", MPI_SUBVERSION)) };
    finish("MPI_Get_version", Target::World, told)
}

/// The version of the ABI. Works at any time.
///
/// # Safety
/// Both pointers are null or writable.
pub unsafe fn mpi_abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> c_int {
    let (major, minor) =
        ((abi_major, "abi_major", MPI_ABI_VERSION), (abi_minor, "abi_minor", MPI_ABI_SUBVERSION));
    // SAFETY: the program's promise is handed on.
    let told = unsafe { tell_two(major, minor) };
    finish("MPI_Abi_get_version", Target::World, told)
}

/// Stores two numbers, or none when one has no place.
///
/// # Safety
/// Both pointers are null or writable.
unsafe fn tell_two(first: (*mut c_int, &str, c_int), second: (*mut c_int, &str, c_int)) -> Result<()> {
    // SAFETY: the caller's promise is handed on.
    let places = unsafe { (Place::new(first.0, first.1)?, Place::new(second.0, second.1)?) };
    places.0.set(first.2);
    places.1.set(second.2);
    Ok(())
}

/// The name and version of this library. Works at any time.
///
/// # Safety
/// `version` is null or has `MPI_MAX_LIBRARY_VERSION_STRING` bytes, `resultlen` is null or writable.
pub unsafe fn mpi_get_library_version(version: *mut c_char, resultlen: *mut c_int) -> c_int {
    let room = MPI_MAX_LIBRARY_VERSION_STRING as usize;
    // SAFETY: the program's promise is handed on.
    let told = unsafe { tell_text((version, "version"), LIBRARY.as_bytes(), room, resultlen) };
    finish("MPI_Get_library_version", Target::World, told)
}

/// The name of this host; of a part of it that is taken for a node, with the part's number behind.
///
/// # Safety
/// `name` is null or has `MPI_MAX_PROCESSOR_NAME` bytes, `resultlen` is null or writable.
pub unsafe fn mpi_get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> c_int {
    call("MPI_Get_processor_name", Target::World, |_| {
        let room = MPI_MAX_PROCESSOR_NAME as usize;
        // SAFETY: the program's promise is handed on.
        unsafe { tell_text((name, "name"), node_name().as_bytes(), room, resultlen) }
    })
}

/// # Safety
/// The place is null or has `room` bytes, `length` is null or writable.
unsafe fn tell_text(place: (*mut c_char, &str), text: &[u8], room: usize, length: *mut c_int) -> Result<()> {
    // SAFETY: the caller's promise is handed on.
    let length = unsafe { Place::new(length, "resultlen")? };
    if place.0.is_null() {
        return Err(null(place.1));
    }
    // SAFETY: not null, and the caller promised that many bytes.
    length.set(unsafe { put_text(place.0, text, room) } as c_int);
    Ok(())
}

/// The address of a place in memory. Works at any time.
///
/// # Safety
/// `address` is null or writable.
pub unsafe fn mpi_get_address(location: *const c_void, address: *mut MPI_Aint) -> c_int {
    // SAFETY: the program's promise is handed on.
    let told = unsafe { Place::new(address, "address") }.map(|place| place.set(location.addr() as MPI_Aint));
    finish("MPI_Get_address", Target::World, told)
}

/// The kinds of hardware that this host has, by the names that guide `MPI_Comm_split_type`, each with whether this process is
/// restricted to one of that kind (MPI 5.0 §9.1.2). Works at any time.
///
/// # Safety
/// `hw_info` is null or writable.
pub unsafe fn mpi_get_hw_resource_info(hw_info: *mut MPI_Info) -> c_int {
    // SAFETY: the program's promise is handed on.
    let place = unsafe { Place::new(hw_info, "hw_info") };
    let machine = std::iter::once((MACHINE.to_owned(), true));
    let parts =
        weft::hardware().into_iter().map(|(level, is_one)| (format!("{HWLOC}{}", level.name()), is_one));
    let kinds: Vec<(String, bool)> = machine.chain(parts).collect();
    let pairs = kinds.iter().map(|(kind, is_one)| (kind.as_str(), is_one.to_string())).collect();
    finish("MPI_Get_hw_resource_info", Target::World, hand_out(place, Some(pairs)))
}

/// Gives out a new info object, or `MPI_INFO_NULL` where there is nothing to tell.
fn hand_out(place: Result<Place<MPI_Info>>, pairs: Option<Pairs>) -> Result<()> {
    let place = place?;
    place.set(pairs.map_or(Ok(MPI_INFO_NULL), info::adopt)?);
    Ok(())
}

/// The sizes of the ABI's integer types. Works at any time.
///
/// # Safety
/// `info` is null or writable.
pub unsafe fn mpi_abi_get_info(info: *mut MPI_Info) -> c_int {
    let sizes = [
        ("mpi_aint_size", size_of::<MPI_Aint>()),
        ("mpi_count_size", size_of::<MPI_Count>()),
        ("mpi_offset_size", size_of::<MPI_Offset>()),
    ];
    let pairs = sizes.into_iter().map(|(key, bytes)| (key, bytes.to_string())).collect();
    // SAFETY: the program's promise is handed on.
    finish("MPI_Abi_get_info", Target::World, hand_out(unsafe { Place::new(info, "info") }, Some(pairs)))
}

/// What a Fortran layer has told about its compiler; each part can be told once in the life of the process.
struct Fortran {
    facts: Option<Pairs>,
    booleans: Option<Booleans>,
}

/// The bytes of `.TRUE.` and `.FALSE.` in a LOGICAL.
struct Booleans {
    yes: Vec<u8>,
    no: Vec<u8>,
}

static FORTRAN: Mutex<Fortran> = Mutex::new(Fortran { facts: None, booleans: None });

/// What is known of the Fortran compiler; `MPI_INFO_NULL` until somebody tells. Works at any time.
///
/// # Safety
/// `info` is null or writable.
pub unsafe fn mpi_abi_get_fortran_info(info: *mut MPI_Info) -> c_int {
    let facts = lock(&FORTRAN).facts.clone();
    // SAFETY: the program's promise is handed on.
    finish("MPI_Abi_get_fortran_info", Target::World, hand_out(unsafe { Place::new(info, "info") }, facts))
}

/// Tells the properties of the Fortran compiler, once. Works at any time.
///
/// # Safety
/// None: the argument is a handle.
pub unsafe fn mpi_abi_set_fortran_info(info: MPI_Info) -> c_int {
    finish("MPI_Abi_set_fortran_info", Target::World, learn_fortran(info))
}

fn learn_fortran(info: MPI_Info) -> Result<()> {
    if info == MPI_INFO_NULL {
        return Err(Error::new(Class::Info, "the info object is MPI_INFO_NULL"));
    }
    let given = info::pairs(info)?;
    let mut facts = Pairs::default();
    for &(key, bytes) in FORTRAN_SIZES {
        check_size(&given, key, bytes)?;
        facts.set(key.as_bytes(), bytes.to_string().as_bytes());
    }
    for key in optional_types() {
        // A type that is not spoken of is not supported.
        let told = given.value(&key) == Some(b"true");
        facts.set(key.as_bytes(), if told { b"true" } else { b"false" });
    }
    let mut fortran = lock(&FORTRAN);
    if fortran.facts.is_some() {
        return Err(told_already("the properties of the Fortran compiler are"));
    }
    fortran.facts = Some(facts);
    Ok(())
}

/// The sizes of `MPI_INTEGER` and its kin are fixed in this library, so another compiler's cannot be served.
fn check_size(given: &Pairs, key: &str, bytes: usize) -> Result<()> {
    let Some(value) = given.value(key) else {
        return Err(Error::new(Class::Abi, format!("the key {key} is missing")));
    };
    let value = String::from_utf8_lossy(value);
    if value.trim().parse() == Ok(bytes) {
        return Ok(());
    }
    let what = format!("{key} is {value}, and this library has {bytes}");
    Err(Error::new(Class::Abi, what).remedy("compile Fortran without options that change the default kinds"))
}

/// The keys that say whether the compiler has a type.
fn optional_types() -> impl Iterator<Item = String> {
    let families: [(&str, &[u32]); 4] = [
        ("logical", &[1, 2, 4, 8, 16]),
        ("integer", &[1, 2, 4, 8, 16]),
        ("real", &[2, 4, 8, 16]),
        ("complex", &[4, 8, 16, 32]),
    ];
    let sized = families
        .into_iter()
        .flat_map(|(family, sizes)| sizes.iter().map(move |bytes| format!("mpi_{family}{bytes}_supported")));
    sized.chain(["mpi_double_complex_supported".to_owned()])
}

#[cold]
fn told_already(what: &str) -> Error {
    Error::new(Class::Abi, format!("{what} told already, and count only once"))
}

fn check_logical_size(bytes: c_int) -> Result<usize> {
    match bytes {
        1 | 2 | 4 | 8 | 16 => Ok(bytes as usize),
        _ => Err(Error::new(Class::Argument, format!("a LOGICAL has 1, 2, 4, 8 or 16 bytes, not {bytes}"))),
    }
}

/// The values of `.TRUE.` and `.FALSE.` in a LOGICAL of so many bytes, if told. Works at any time.
///
/// # Safety
/// `logical_true` and `logical_false` are null or have `logical_size` bytes; `is_set` is null or writable.
pub unsafe fn mpi_abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> c_int {
    // SAFETY: the program's promise is handed on.
    let told = unsafe { tell_booleans(logical_size, logical_true.cast(), logical_false.cast(), is_set) };
    finish("MPI_Abi_get_fortran_booleans", Target::World, told)
}

/// # Safety
/// As for [`mpi_abi_get_fortran_booleans`].
unsafe fn tell_booleans(size: c_int, yes: *mut u8, no: *mut u8, is_set: *mut c_int) -> Result<()> {
    let bytes = check_logical_size(size)?;
    // SAFETY: the caller's promise is handed on.
    let is_set = unsafe { Place::new(is_set, "is_set")? };
    check_both(yes, no)?;
    let fortran = lock(&FORTRAN);
    let known = fortran.booleans.as_ref().filter(|known| known.yes.len() == bytes);
    if let Some(known) = known {
        // SAFETY: neither is null, and the caller promised that many bytes in each.
        unsafe {
            yes.copy_from_nonoverlapping(known.yes.as_ptr(), bytes);
            no.copy_from_nonoverlapping(known.no.as_ptr(), bytes);
        }
    }
    is_set.set(c_int::from(known.is_some()));
    Ok(())
}

fn check_both<T>(yes: *const T, no: *const T) -> Result<()> {
    match (yes.is_null(), no.is_null()) {
        (false, false) => Ok(()),
        (true, _) => Err(null("logical_true")),
        (false, true) => Err(null("logical_false")),
    }
}

/// Tells the values of `.TRUE.` and `.FALSE.`, once. Works at any time.
///
/// # Safety
/// `logical_true` and `logical_false` are null or have `logical_size` bytes.
pub unsafe fn mpi_abi_set_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> c_int {
    // SAFETY: the program's promise is handed on.
    let learned = unsafe { learn_booleans(logical_size, logical_true.cast(), logical_false.cast()) };
    finish("MPI_Abi_set_fortran_booleans", Target::World, learned)
}

/// # Safety
/// As for [`mpi_abi_set_fortran_booleans`].
unsafe fn learn_booleans(size: c_int, yes: *const u8, no: *const u8) -> Result<()> {
    let bytes = check_logical_size(size)?;
    check_both(yes, no)?;
    // SAFETY: neither is null, and the caller promised that many bytes in each.
    let (yes, no) =
        unsafe { (std::slice::from_raw_parts(yes, bytes), std::slice::from_raw_parts(no, bytes)) };
    // The operators take zero for false and answer with the number 1, which must be a true value here.
    if no.iter().any(|&byte| byte != 0) || yes[0] & 1 == 0 {
        let what = format!("this library cannot compute with .TRUE. = {yes:02x?} and .FALSE. = {no:02x?}");
        return Err(
            Error::new(Class::Abi, what).remedy("choose a Fortran compiler or option where .FALSE. is zero")
        );
    }
    let mut fortran = lock(&FORTRAN);
    if fortran.booleans.is_some() {
        return Err(told_already("the values of .TRUE. and .FALSE. are"));
    }
    fortran.booleans = Some(Booleans { yes: yes.to_vec(), no: no.to_vec() });
    Ok(())
}

/// What this library calls itself.
const LIBRARY: &str = concat!("weft ", env!("CARGO_PKG_VERSION"), " (MPI 5.0, ABI 1.0; fabrics: shm, tcp)");

/// The sizes of Fortran's default types, in bytes.
const FORTRAN_SIZES: &[(&str, usize)] = &[
    ("mpi_logical_size", 4),
    ("mpi_integer_size", 4),
    ("mpi_real_size", 4),
    ("mpi_double_precision_size", 8),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::testing;
    use datatype::Predefined;
    use std::ptr::null_mut;

    fn text(ask: unsafe fn(*mut c_char, *mut c_int) -> c_int) -> String {
        let mut room = vec![1 as c_char; MPI_MAX_LIBRARY_VERSION_STRING as usize];
        let mut length = -1;
        // SAFETY: there is room for the longest text.
        unsafe {
            assert_eq!(ask(room.as_mut_ptr(), &raw mut length), MPI_SUCCESS);
            assert_eq!(ask(null_mut(), &raw mut length), MPI_ERR_ARG);
            assert_eq!(ask(room.as_mut_ptr(), null_mut()), MPI_ERR_ARG);
        }
        assert_eq!(room[length as usize], 0);
        room[..length as usize].iter().map(|&byte| byte as u8 as char).collect()
    }

    #[test]
    fn versions_and_names_are_told() {
        testing::start();
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writable places, and null pointers.
        unsafe {
            assert_eq!(mpi_get_version(&raw mut major, &raw mut minor), MPI_SUCCESS);
            assert_eq!((major, minor), (5, 0));
            assert_eq!(mpi_abi_get_version(&raw mut major, &raw mut minor), MPI_SUCCESS);
            assert_eq!((major, minor), (1, 0));
            assert_eq!(mpi_get_version(null_mut(), &raw mut minor), MPI_ERR_ARG);
            assert_eq!(mpi_abi_get_version(&raw mut major, null_mut()), MPI_ERR_ARG);
        }
        assert!(text(mpi_get_library_version).starts_with("weft 0."));
        assert_eq!(text(mpi_get_processor_name), crate::state::host_name());
    }

    #[test]
    fn addresses_are_numbers() {
        testing::start();
        let (array, mut address) = ([0u8; 4], 0);
        // SAFETY: `address` is writable.
        unsafe {
            assert_eq!(mpi_get_address(array[3..].as_ptr().cast(), &raw mut address), MPI_SUCCESS);
            assert_eq!(address, array.as_ptr().addr() as MPI_Aint + 3);
            assert_eq!(mpi_get_address(MPI_BOTTOM, &raw mut address), MPI_SUCCESS);
            assert_eq!(address, 0);
            assert_eq!(mpi_get_address(MPI_BOTTOM, null_mut()), MPI_ERR_ARG);
        }
    }

    fn told(ask: unsafe fn(*mut MPI_Info) -> c_int) -> Option<Pairs> {
        let mut handle = MPI_INFO_ENV;
        // SAFETY: `handle` is writable; null is refused.
        unsafe {
            assert_eq!(ask(&raw mut handle), MPI_SUCCESS);
            assert_eq!(ask(null_mut()), MPI_ERR_ARG);
        }
        (handle != MPI_INFO_NULL).then(|| info::pairs(handle).unwrap())
    }

    #[test]
    fn the_abi_tells_its_sizes() {
        testing::start();
        let pairs = told(mpi_abi_get_info).unwrap();
        for key in ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"] {
            assert_eq!(pairs.value(key), Some(&b"8"[..]), "{key}");
        }
        assert!(told(mpi_get_hw_resource_info).is_some());
    }

    fn tell(pairs: &[(&str, &str)]) -> c_int {
        let pairs = pairs.iter().map(|&(key, value)| (key, value.to_owned())).collect();
        // SAFETY: a handle.
        unsafe { mpi_abi_set_fortran_info(info::adopt(pairs).unwrap()) }
    }

    #[test]
    fn a_fortran_layer_tells_its_compiler_once() {
        testing::start();
        assert!(told(mpi_abi_get_fortran_info).is_none());
        let sizes = [("mpi_integer_size", "4"), ("mpi_real_size", "4"), ("mpi_double_precision_size", "8")];
        assert_eq!(tell(&sizes), MPI_ERR_ABI, "one size is missing");
        assert_eq!(
            tell(&[&sizes[..], &[("mpi_logical_size", "8")]].concat()),
            MPI_ERR_ABI,
            "another default kind"
        );
        // SAFETY: a handle.
        assert_eq!(unsafe { mpi_abi_set_fortran_info(MPI_INFO_NULL) }, MPI_ERR_INFO);
        let all = [&sizes[..], &[("mpi_logical_size", "4"), ("mpi_real16_supported", "true")]].concat();
        assert_eq!([tell(&all), tell(&all)], [MPI_SUCCESS, MPI_ERR_ABI]);
        let facts = told(mpi_abi_get_fortran_info).unwrap();
        assert_eq!(facts.value("mpi_real16_supported"), Some(&b"true"[..]));
        assert_eq!(facts.value("mpi_complex4_supported"), Some(&b"false"[..]));
        assert_eq!(facts.value("mpi_logical_size"), Some(&b"4"[..]));
    }

    #[test]
    fn a_fortran_layer_tells_its_booleans_once() {
        testing::start();
        let (mut yes, mut no, mut is_set) = ([7u8; 4], [7u8; 4], -1);
        let (yes_place, no_place) = (yes.as_mut_ptr().cast(), no.as_mut_ptr().cast());
        let (mut minus_one, mut nought) = ([0xffu8; 4], [0u8; 4]);
        let (ours, zero) = (minus_one.as_mut_ptr().cast(), nought.as_mut_ptr().cast());
        // SAFETY: all places have four bytes; `is_set` is writable.
        unsafe {
            assert_eq!(mpi_abi_get_fortran_booleans(4, yes_place, no_place, &raw mut is_set), MPI_SUCCESS);
            assert_eq!(is_set, 0);
            assert_eq!(mpi_abi_set_fortran_booleans(3, ours, zero), MPI_ERR_ARG);
            assert_eq!(mpi_abi_set_fortran_booleans(4, null_mut(), zero), MPI_ERR_ARG);
            assert_eq!(mpi_abi_set_fortran_booleans(4, zero, ours), MPI_ERR_ABI);
            assert_eq!(mpi_abi_set_fortran_booleans(4, ours, zero), MPI_SUCCESS);
            assert_eq!(mpi_abi_set_fortran_booleans(4, ours, zero), MPI_ERR_ABI);
            assert_eq!(mpi_abi_get_fortran_booleans(2, yes_place, no_place, &raw mut is_set), MPI_SUCCESS);
            assert_eq!(is_set, 0);
            assert_eq!(mpi_abi_get_fortran_booleans(4, yes_place, no_place, &raw mut is_set), MPI_SUCCESS);
        }
        assert_eq!((yes, no, is_set), ([0xff; 4], [0; 4], 1));
    }

    #[test]
    fn fortran_sizes_are_those_of_the_datatypes() {
        let size = |predefined: Predefined| predefined.size() as usize;
        let ours = [
            size(Predefined::Logical),
            size(Predefined::Integer),
            size(Predefined::Real),
            size(Predefined::DoublePrecision),
        ];
        assert_eq!(ours, [0, 1, 2, 3].map(|row| FORTRAN_SIZES[row].1));
    }
}
