//! What this library is and where it runs: versions, names, the facts of the ABI (MPI 5.0 §9.1, §9.2, ABI
//! chapter).

use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use weft::{Class, Error, Result};

use crate::bodies::communicator_creation::{HWLOC, MACHINE};
use crate::bodies::info::{self, Pairs};
use crate::claims::{List, Place, Places, Slot, TextPlace};
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::objects::lock;
use crate::state::{call, node_name};
use crate::types::*;

/// The version of MPI. Works at any time.
pub fn mpi_get_version(version: Place<'_, c_int>, subversion: Place<'_, c_int>) -> c_int {
    let told = tell_two((version, "version", MPI_VERSION), (subversion, "subversion", MPI_SUBVERSION));
    finish("MPI_Get_version", Target::World, told)
}

/// The version of the ABI. Works at any time.
pub fn mpi_abi_get_version(abi_major: Place<'_, c_int>, abi_minor: Place<'_, c_int>) -> c_int {
    let (major, minor) =
        ((abi_major, "abi_major", MPI_ABI_VERSION), (abi_minor, "abi_minor", MPI_ABI_SUBVERSION));
    let told = tell_two(major, minor);
    finish("MPI_Abi_get_version", Target::World, told)
}

/// Stores two numbers, or none when one has no place.
fn tell_two(first: (Place<'_, c_int>, &str, c_int), second: (Place<'_, c_int>, &str, c_int)) -> Result<()> {
    let places = (first.0.checked(first.1)?, second.0.checked(second.1)?);
    places.0.set(first.2);
    places.1.set(second.2);
    Ok(())
}

/// The name and version of this library. Works at any time.
pub fn mpi_get_library_version(version: TextPlace<'_>, resultlen: Place<'_, c_int>) -> c_int {
    let room = MPI_MAX_LIBRARY_VERSION_STRING as usize;
    let told = tell_text((version, "version"), LIBRARY.as_bytes(), room, resultlen);
    finish("MPI_Get_library_version", Target::World, told)
}

/// The name of this host; of a part of it that is taken for a node, with the part's number behind.
pub fn mpi_get_processor_name(name: TextPlace<'_>, resultlen: Place<'_, c_int>) -> c_int {
    call("MPI_Get_processor_name", Target::World, |_| {
        let room = MPI_MAX_PROCESSOR_NAME as usize;
        tell_text((name, "name"), node_name().as_bytes(), room, resultlen)
    })
}

fn tell_text(place: (TextPlace<'_>, &str), text: &[u8], room: usize, length: Place<'_, c_int>) -> Result<()> {
    let length = length.checked("resultlen")?;
    length.set(place.0.checked(place.1)?.put(text, room) as c_int);
    Ok(())
}

/// The address of a place in memory. Works at any time.
pub fn mpi_get_address(location: *const c_void, address: Place<'_, MPI_Aint>) -> c_int {
    let told = address.checked("address").map(|place| place.set(location.addr() as MPI_Aint));
    finish("MPI_Get_address", Target::World, told)
}

/// The kinds of hardware that this host has, by the names that guide `MPI_Comm_split_type`, each with whether
/// this process is restricted to one of that kind (MPI 5.0 §9.1.2). Works at any time.
pub fn mpi_get_hw_resource_info(hw_info: Place<'_, MPI_Info>) -> c_int {
    let place = hw_info.checked("hw_info");
    let machine = std::iter::once((MACHINE.to_owned(), true));
    let parts =
        weft::hardware().into_iter().map(|(level, is_one)| (format!("{HWLOC}{}", level.name()), is_one));
    let kinds: Vec<(String, bool)> = machine.chain(parts).collect();
    let pairs = kinds.iter().map(|(kind, is_one)| (kind.as_str(), is_one.to_string())).collect();
    finish("MPI_Get_hw_resource_info", Target::World, hand_out(place, Some(pairs)))
}

/// Gives out a new info object, or `MPI_INFO_NULL` where there is nothing to tell.
fn hand_out(place: Result<Slot<'_, MPI_Info>>, pairs: Option<Pairs>) -> Result<()> {
    let place = place?;
    place.set(pairs.map_or(Ok(MPI_INFO_NULL), info::adopt)?);
    Ok(())
}

/// The sizes of the ABI's integer types. Works at any time.
pub fn mpi_abi_get_info(info: Place<'_, MPI_Info>) -> c_int {
    let sizes = [
        ("mpi_aint_size", size_of::<MPI_Aint>()),
        ("mpi_count_size", size_of::<MPI_Count>()),
        ("mpi_offset_size", size_of::<MPI_Offset>()),
    ];
    let pairs = sizes.into_iter().map(|(key, bytes)| (key, bytes.to_string())).collect();
    finish("MPI_Abi_get_info", Target::World, hand_out(info.checked("info"), Some(pairs)))
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

/// What is known of the Fortran compiler; `MPI_INFO_NULL` until it was set. Works at any time.
pub fn mpi_abi_get_fortran_info(info: Place<'_, MPI_Info>) -> c_int {
    let facts = lock(&FORTRAN).facts.clone();
    finish("MPI_Abi_get_fortran_info", Target::World, hand_out(info.checked("info"), facts))
}

/// Tells the properties of the Fortran compiler, once. Works at any time.
pub fn mpi_abi_set_fortran_info(info: MPI_Info) -> c_int {
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

/// The values of `.TRUE.` and `.FALSE.` in a LOGICAL of `logical_size` bytes, if they were set. Works at any
/// time.
pub fn mpi_abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: Places<'_, u8>,
    logical_false: Places<'_, u8>,
    is_set: Place<'_, c_int>,
) -> c_int {
    let told = tell_booleans(logical_size, logical_true, logical_false, is_set);
    finish("MPI_Abi_get_fortran_booleans", Target::World, told)
}

fn tell_booleans(
    size: c_int,
    yes: Places<'_, u8>,
    no: Places<'_, u8>,
    is_set: Place<'_, c_int>,
) -> Result<()> {
    let bytes = check_logical_size(size)?;
    let is_set = is_set.checked("is_set")?;
    let (yes, no) = (yes.checked(bytes as i64, "logical_true")?, no.checked(bytes as i64, "logical_false")?);
    let fortran = lock(&FORTRAN);
    let known = fortran.booleans.as_ref().filter(|known| known.yes.len() == bytes);
    if let Some(known) = known {
        yes.put(&known.yes);
        no.put(&known.no);
    }
    is_set.set(c_int::from(known.is_some()));
    Ok(())
}

/// Tells the values of `.TRUE.` and `.FALSE.`, once. Works at any time.
pub fn mpi_abi_set_fortran_booleans(
    logical_size: c_int,
    logical_true: List<'_, u8>,
    logical_false: List<'_, u8>,
) -> c_int {
    let learned = learn_booleans(logical_size, logical_true, logical_false);
    finish("MPI_Abi_set_fortran_booleans", Target::World, learned)
}

fn learn_booleans(size: c_int, yes: List<'_, u8>, no: List<'_, u8>) -> Result<()> {
    let bytes = check_logical_size(size)?;
    let (yes, no) = (yes.slice(bytes as i64, "logical_true")?, no.slice(bytes as i64, "logical_false")?);
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
    use std::ffi::c_char;

    fn text(ask: fn(TextPlace<'_>, Place<'_, c_int>) -> c_int) -> String {
        let mut room = vec![1 as c_char; MPI_MAX_LIBRARY_VERSION_STRING as usize];
        let mut length = -1;
        assert_eq!(ask(TextPlace::of(&mut room), Place::of(&mut length)), MPI_SUCCESS);
        assert_eq!(ask(TextPlace::NULL, Place::of(&mut length)), MPI_ERR_ARG);
        assert_eq!(ask(TextPlace::of(&mut room), Place::NULL), MPI_ERR_ARG);
        assert_eq!(room[length as usize], 0);
        room[..length as usize].iter().map(|&byte| byte as u8 as char).collect()
    }

    #[test]
    fn versions_and_names_are_told() {
        testing::start();
        let (mut major, mut minor) = (0, 0);
        assert_eq!(mpi_get_version(Place::of(&mut major), Place::of(&mut minor)), MPI_SUCCESS);
        assert_eq!((major, minor), (5, 0));
        assert_eq!(mpi_abi_get_version(Place::of(&mut major), Place::of(&mut minor)), MPI_SUCCESS);
        assert_eq!((major, minor), (1, 0));
        assert_eq!(mpi_get_version(Place::NULL, Place::of(&mut minor)), MPI_ERR_ARG);
        assert_eq!(mpi_abi_get_version(Place::of(&mut major), Place::NULL), MPI_ERR_ARG);
        assert!(text(mpi_get_library_version).starts_with("weft 0."));
        assert_eq!(text(mpi_get_processor_name), crate::state::host_name());
    }

    #[test]
    fn addresses_are_numbers() {
        testing::start();
        let (array, mut address) = ([0u8; 4], 0);
        assert_eq!(mpi_get_address(array[3..].as_ptr().cast(), Place::of(&mut address)), MPI_SUCCESS);
        assert_eq!(address, array.as_ptr().addr() as MPI_Aint + 3);
        assert_eq!(mpi_get_address(MPI_BOTTOM, Place::of(&mut address)), MPI_SUCCESS);
        assert_eq!(address, 0);
        assert_eq!(mpi_get_address(MPI_BOTTOM, Place::NULL), MPI_ERR_ARG);
    }

    fn told(ask: fn(Place<'_, MPI_Info>) -> c_int) -> Option<Pairs> {
        let mut handle = MPI_INFO_ENV;
        assert_eq!(ask(Place::of(&mut handle)), MPI_SUCCESS);
        assert_eq!(ask(Place::NULL), MPI_ERR_ARG);
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
        mpi_abi_set_fortran_info(info::adopt(pairs).unwrap())
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
        assert_eq!(mpi_abi_set_fortran_info(MPI_INFO_NULL), MPI_ERR_INFO);
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
        let (ours, zero) = (List::of(&[0xffu8; 4]), List::of(&[0u8; 4]));
        let mut ask = |bytes| {
            let (yes, no) = (Places::of(&mut yes), Places::of(&mut no));
            assert_eq!(mpi_abi_get_fortran_booleans(bytes, yes, no, Place::of(&mut is_set)), MPI_SUCCESS);
            is_set
        };
        assert_eq!(ask(4), 0);
        assert_eq!(mpi_abi_set_fortran_booleans(3, ours, zero), MPI_ERR_ARG);
        assert_eq!(mpi_abi_set_fortran_booleans(4, List::NULL, zero), MPI_ERR_ARG);
        assert_eq!(mpi_abi_set_fortran_booleans(4, zero, ours), MPI_ERR_ABI);
        assert_eq!(mpi_abi_set_fortran_booleans(4, ours, zero), MPI_SUCCESS);
        assert_eq!(mpi_abi_set_fortran_booleans(4, ours, zero), MPI_ERR_ABI);
        assert_eq!(ask(2), 0);
        assert_eq!(ask(4), 1);
        assert_eq!((yes, no), ([0xff; 4], [0; 4]));
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
