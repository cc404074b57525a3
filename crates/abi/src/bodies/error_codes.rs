//! Error classes, codes and strings: the standard's, and those that the program adds (MPI 5.0 §9.4, §9.5).
//!
//! All calls work before `MPI_Init` and after `MPI_Finalize`. A number that was given away once is never
//! given again, so `MPI_LASTUSEDCODE` only grows, and a code that was removed stays unknown.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

use weft::{Class, Error, Result};

use crate::claims::{Place, Text, TextPlace, null};
use crate::entry::Target;
use crate::errors::{finish, is_class, text_of};
use crate::generated::constants::*;
use crate::objects::lock;

/// An error class or an error code of the program's own.
struct Added {
    /// The class of a code; `None` for a class.
    class: Option<c_int>,
    /// Its string, without the zero byte.
    text: Option<Vec<u8>>,
}

static ADDED: Mutex<BTreeMap<c_int, Added>> = Mutex::new(BTreeMap::new());

/// The highest number in use: the value of the attribute `MPI_LASTUSEDCODE`.
static LAST_USED: AtomicI32 = AtomicI32::new(MPI_ERR_LASTCODE);

/// Where the value of the attribute `MPI_LASTUSEDCODE` stands.
pub(crate) fn last_used_code() -> *mut c_int {
    LAST_USED.as_ptr()
}

/// What to tell a person about a code; an empty string for codes of the program's own that have none.
pub(crate) fn describe(code: c_int) -> Vec<u8> {
    match lock(&ADDED).get(&code) {
        Some(added) => added.text.clone().unwrap_or_default(),
        None => text_of(code).into_bytes(),
    }
}

/// The class of a code; `None` for a number that is neither.
pub(crate) fn class_of(code: c_int) -> Option<c_int> {
    if is_class(code) {
        return Some(code);
    }
    lock(&ADDED).get(&code).map(|added| added.class.unwrap_or(code))
}

#[cold]
fn unknown(code: c_int) -> Error {
    Error::new(Class::Argument, format!("{code} is neither an error class nor an error code"))
}

/// The class of an error code.
pub fn mpi_error_class(errorcode: c_int, errorclass: Place<'_, c_int>) -> c_int {
    let place = errorclass.checked("errorclass");
    let told = place.and_then(|place| {
        place.set(class_of(errorcode).ok_or_else(|| unknown(errorcode))?);
        Ok(())
    });
    finish("MPI_Error_class", Target::World, told)
}

/// The text of an error class or code.
pub fn mpi_error_string(errorcode: c_int, string: TextPlace<'_>, resultlen: Place<'_, c_int>) -> c_int {
    let place = resultlen.checked("resultlen");
    let told = place.and_then(|place| {
        let string = string.checked("string")?;
        class_of(errorcode).ok_or_else(|| unknown(errorcode))?;
        let text = describe(errorcode);
        place.set(string.put(&text, MPI_MAX_ERROR_STRING as usize) as c_int);
        Ok(())
    });
    finish("MPI_Error_string", Target::World, told)
}

fn add(name: &'static str, class: Option<c_int>, number: Place<'_, c_int>) -> c_int {
    let argument = if class.is_some() { "errorcode" } else { "errorclass" };
    let place = number.checked(argument);
    let added = place.and_then(|place| {
        let mut added = lock(&ADDED);
        if let Some(class) = class.filter(|class| !is_class(*class) && !is_added_class(&added, *class)) {
            return Err(Error::new(Class::Argument, format!("{class} is not an error class")));
        }
        // Only this function stores it, and only while it holds the table.
        let number = LAST_USED.load(Ordering::Relaxed).checked_add(1).ok_or_else(crate::state::too_many)?;
        LAST_USED.store(number, Ordering::Relaxed);
        added.insert(number, Added { class, text: None });
        place.set(number);
        Ok(())
    });
    finish(name, Target::World, added)
}

fn is_added_class(added: &BTreeMap<c_int, Added>, class: c_int) -> bool {
    added.get(&class).is_some_and(|added| added.class.is_none())
}

/// Adds an error class.
pub fn mpi_add_error_class(errorclass: Place<'_, c_int>) -> c_int {
    add("MPI_Add_error_class", None, errorclass)
}

/// Adds an error code to a class.
pub fn mpi_add_error_code(errorclass: c_int, errorcode: Place<'_, c_int>) -> c_int {
    add("MPI_Add_error_code", Some(errorclass), errorcode)
}

/// Gives an error class or code of the program's own a text, instead of the one it may have.
pub fn mpi_add_error_string(errorcode: c_int, string: Text<'_>) -> c_int {
    let text = string.bytes();
    finish("MPI_Add_error_string", Target::World, set_text(errorcode, text))
}

fn set_text(code: c_int, text: Option<&[u8]>) -> Result<()> {
    let text = text.ok_or_else(|| null("string"))?;
    if text.len() >= MPI_MAX_ERROR_STRING as usize {
        let what = format!("the text has {} bytes, of at most {}", text.len(), MPI_MAX_ERROR_STRING - 1);
        return Err(Error::new(Class::Argument, what));
    }
    change(code, |added| {
        added.text = Some(text.to_vec());
        Ok(())
    })
}

/// Changes a code of the program's own; those of the standard stay as they are.
fn change(code: c_int, work: impl FnOnce(&mut Added) -> Result<()>) -> Result<()> {
    match lock(&ADDED).get_mut(&code) {
        Some(added) => work(added),
        None => Err(not_added(code)),
    }
}

#[cold]
fn not_added(code: c_int) -> Error {
    Error::new(Class::Argument, format!("{code} was not added by this program, or is removed already"))
}

/// Takes the text of an error class or code away.
pub fn mpi_remove_error_string(errorcode: c_int) -> c_int {
    let removed = change(errorcode, |added| {
        let what = || Error::new(Class::Argument, format!("error {errorcode} has no text"));
        added.text.take().map(|_| ()).ok_or_else(what)
    });
    finish("MPI_Remove_error_string", Target::World, removed)
}

/// Removes an error code that has no text any more.
pub fn mpi_remove_error_code(errorcode: c_int) -> c_int {
    finish("MPI_Remove_error_code", Target::World, remove(errorcode, false))
}

/// Removes an error class that has neither a text nor codes any more.
pub fn mpi_remove_error_class(errorclass: c_int) -> c_int {
    finish("MPI_Remove_error_class", Target::World, remove(errorclass, true))
}

fn remove(number: c_int, is_class: bool) -> Result<()> {
    let mut added = lock(&ADDED);
    let Some(found) = added.get(&number).filter(|found| found.class.is_none() == is_class) else {
        return Err(not_added(number));
    };
    let in_use =
        |by| Error::new(Class::Other, format!("error {number} still has {by}")).remedy("remove that first");
    if found.text.is_some() {
        return Err(in_use("a text"));
    }
    if added.values().any(|other| other.class == Some(number)) {
        return Err(in_use("error codes"));
    }
    added.remove(&number);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::testing;
    use std::ffi::c_char;

    fn class(code: c_int) -> c_int {
        let mut class = -1;
        let answer = mpi_error_class(code, Place::of(&mut class));
        if answer == MPI_SUCCESS { class } else { -answer }
    }

    fn string(code: c_int) -> String {
        let mut text = [1 as c_char; MPI_MAX_ERROR_STRING as usize];
        let mut length = -1;
        assert_eq!(mpi_error_string(code, TextPlace::of(&mut text), Place::of(&mut length)), MPI_SUCCESS);
        assert_eq!(text[length as usize], 0);
        text[..length as usize].iter().map(|&byte| byte as u8 as char).collect()
    }

    fn new_class() -> c_int {
        let mut class = 0;
        assert_eq!(mpi_add_error_class(Place::of(&mut class)), MPI_SUCCESS);
        class
    }

    fn new_code(class: c_int) -> c_int {
        let mut code = 0;
        let answer = mpi_add_error_code(class, Place::of(&mut code));
        if answer == MPI_SUCCESS { code } else { -answer }
    }

    #[test]
    fn classes_of_the_standard_are_their_own_class_and_have_words() {
        testing::start();
        for code in [MPI_SUCCESS, MPI_ERR_TRUNCATE, MPI_ERR_ABI, MPI_ERR_LASTCODE] {
            assert_eq!(class(code), code);
            assert!(string(code).starts_with("MPI_"), "{}", string(code));
        }
        assert_eq!(class(MPI_ERR_LASTCODE - 1), -MPI_ERR_ARG);
        assert_eq!(class(-1), -MPI_ERR_ARG);
    }

    #[test]
    fn codes_of_the_program_live_as_long_as_it_wants() {
        testing::start();
        let mine = new_class();
        assert!(mine > MPI_ERR_LASTCODE && LAST_USED.load(Ordering::Relaxed) >= mine);
        let (code, other) = (new_code(mine), new_code(MPI_ERR_OTHER));
        assert_eq!([class(mine), class(code), class(other)], [mine, mine, MPI_ERR_OTHER]);
        assert_eq!(string(code), "");
        assert_eq!(mpi_add_error_string(code, Text::of(c"the moon is full")), MPI_SUCCESS);
        assert_eq!(string(code), "the moon is full");
        assert_eq!(mpi_remove_error_class(mine), MPI_ERR_OTHER);
        assert_eq!(mpi_remove_error_code(code), MPI_ERR_OTHER);
        assert_eq!(mpi_remove_error_code(mine), MPI_ERR_ARG, "it is a class");
        assert_eq!(mpi_remove_error_string(code), MPI_SUCCESS);
        assert_eq!(mpi_remove_error_string(code), MPI_ERR_ARG);
        assert_eq!(mpi_remove_error_code(code), MPI_SUCCESS);
        assert_eq!(mpi_remove_error_class(mine), MPI_SUCCESS);
        assert_eq!(mpi_remove_error_class(mine), MPI_ERR_ARG);
        assert_eq!(class(code), -MPI_ERR_ARG);
        assert!(new_class() > other, "no number comes twice");
    }

    #[test]
    fn what_is_not_the_programs_stays() {
        testing::start();
        assert_eq!(new_code(12345), -MPI_ERR_ARG);
        let code = new_code(MPI_ERR_OTHER);
        assert_eq!(new_code(code), -MPI_ERR_ARG, "a code is not a class");
        let long = std::ffi::CString::new("x".repeat(MPI_MAX_ERROR_STRING as usize)).unwrap();
        assert_eq!(mpi_add_error_string(MPI_ERR_TYPE, Text::of(c"mine")), MPI_ERR_ARG);
        assert_eq!(mpi_add_error_string(code, Text::NULL), MPI_ERR_ARG);
        assert_eq!(mpi_add_error_string(code, Text::of(&long)), MPI_ERR_ARG);
        assert_eq!(mpi_remove_error_class(MPI_SUCCESS), MPI_ERR_ARG);
        assert_eq!(mpi_remove_error_string(MPI_ERR_TYPE), MPI_ERR_ARG);
        assert_eq!(mpi_add_error_class(Place::NULL), MPI_ERR_ARG);
        let mut length = 0;
        assert_eq!(mpi_error_string(code, TextPlace::NULL, Place::of(&mut length)), MPI_ERR_ARG);
    }
}
