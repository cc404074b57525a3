//! Attributes: what programs and libraries hang on communicators, datatypes and windows (MPI 5.0 §7.7). Those
//! of windows stand in `window_attributes`.
//!
//! A key lives in a table of the process; it is gone when it was freed and nothing is hung on it any more.
//! Callbacks are called with no lock held, so they may use MPI.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::AtomicI32;
use std::sync::{Arc, Mutex, OnceLock};

use weft::{Class, Error, Result, Session};

use crate::bodies::datatypes;
use crate::bodies::error_codes::last_used_code;
use crate::claims::{Callback, Place, Variable};
use crate::entry::Target;
use crate::errors::finish;
use crate::generated::constants::*;
use crate::objects::{CommObject, lock};
use crate::state::{Runtime, call, too_many};
use crate::types::*;

/// Attributes of an object: keys and values, in the order in which they were set.
pub(crate) type Attributes = Mutex<Vec<(c_int, usize)>>;

/// The object that attributes hang on, as callbacks are told.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    Comm(MPI_Comm),
    Type(MPI_Datatype),
    Win(MPI_Win),
}

/// The program's functions of a key; 0 and 1 stand for predefined ones.
#[derive(Clone, Copy)]
enum Callbacks {
    Comm(Callback<MPI_Comm_copy_attr_function>, Callback<MPI_Comm_delete_attr_function>),
    Type(Callback<MPI_Type_copy_attr_function>, Callback<MPI_Type_delete_attr_function>),
    /// Windows have no duplicates, so nothing is ever copied (MPI 5.0 §7.7.3).
    Win(Callback<MPI_Win_delete_attr_function>),
}

/// A key that the program made.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    callbacks: Callbacks,
    /// A pointer of the program's, handed to its callbacks.
    extra_state: usize,
    /// Attributes that hang on it.
    attached: u32,
    freed: bool,
}

static KEYS: Mutex<BTreeMap<c_int, Key>> = Mutex::new(BTreeMap::new());

/// The next key; numbers are not used again, so that a key that was freed stays unknown.
static NEXT: Mutex<c_int> = Mutex::new(FIRST_KEY);

impl Key {
    fn serves(&self, owner: Owner) -> bool {
        matches!(
            (self.callbacks, owner),
            (Callbacks::Comm(..), Owner::Comm(_))
                | (Callbacks::Type(..), Owner::Type(_))
                | (Callbacks::Win(..), Owner::Win(_))
        )
    }

    /// What the copy of an object gets; `None` is nothing.
    fn copy(&self, owner: Owner, number: c_int, value: usize) -> Result<Option<usize>> {
        let (mut copied, mut flag) = (null_mut::<c_void>(), 0);
        let (extra, value_in) = (without_provenance_mut(self.extra_state), without_provenance_mut(value));
        let out: *mut c_void = (&raw mut copied).cast();
        // SAFETY: predefined functions are told apart first; the program gave the others as functions of
        // their types. `out` and `flag` are writable. What a function of the program does is its own affair.
        let code = unsafe {
            match (self.callbacks, owner) {
                (Callbacks::Comm(copy, _), _) if copy.given() == MPI_COMM_DUP_FN => return Ok(Some(value)),
                (Callbacks::Type(copy, _), _) if copy.given() == MPI_TYPE_DUP_FN => return Ok(Some(value)),
                (Callbacks::Comm(copy, _), Owner::Comm(comm)) => {
                    let Some(copy) = copy.function() else { return Ok(None) };
                    copy(comm, number, extra, value_in, out, &raw mut flag)
                }
                (Callbacks::Type(copy, _), Owner::Type(datatype)) => {
                    let Some(copy) = copy.function() else { return Ok(None) };
                    copy(datatype, number, extra, value_in, out, &raw mut flag)
                }
                _ => return Ok(None),
            }
        };
        check_callback("copy", number, code)?;
        Ok((flag != 0).then_some(copied.addr()))
    }

    /// Tells the program that an attribute goes.
    fn delete(&self, owner: Owner, number: c_int, value: usize) -> Result<()> {
        let (extra, value) = (without_provenance_mut(self.extra_state), without_provenance_mut(value));
        // SAFETY: the predefined function is a null pointer; the program gave others as functions of their
        // types. What they do is its own affair.
        let code = unsafe {
            match (self.callbacks, owner) {
                (Callbacks::Comm(_, delete), Owner::Comm(comm)) => {
                    delete.function().map(|delete| delete(comm, number, value, extra))
                }
                (Callbacks::Type(_, delete), Owner::Type(datatype)) => {
                    delete.function().map(|delete| delete(datatype, number, value, extra))
                }
                (Callbacks::Win(delete), Owner::Win(win)) => {
                    delete.function().map(|delete| delete(win, number, value, extra))
                }
                _ => None,
            }
        };
        check_callback("delete", number, code.unwrap_or(MPI_SUCCESS))
    }
}

fn check_callback(which: &str, number: c_int, code: c_int) -> Result<()> {
    if code == MPI_SUCCESS {
        return Ok(());
    }
    let what = format!("the {which} function of key {number} returned error {code}");
    Err(Error::new(Class::Callback(code), what))
}

/// A key that serves such an object. One that was freed serves as long as something hangs on it.
pub(crate) fn usable(number: c_int, owner: Owner) -> Result<Key> {
    let key = lock(&KEYS).get(&number).copied();
    key.filter(|key| key.serves(owner)).ok_or_else(|| no_key(number))
}

#[cold]
fn no_key(number: c_int) -> Error {
    let what = match number {
        MPI_KEYVAL_INVALID => "the key is MPI_KEYVAL_INVALID".to_owned(),
        MPI_TAG_UB..=MPI_WIN_MODEL => format!("the predefined key {number} does not serve here"),
        _ => format!("{number} is not a key of this kind of object, or not any more"),
    };
    Error::new(Class::Keyval, what)
}

/// A key that still has attributes hanging on it, also after it was freed.
fn attached(number: c_int) -> Option<Key> {
    lock(&KEYS).get(&number).copied()
}

fn attach(number: c_int) {
    if let Some(key) = lock(&KEYS).get_mut(&number) {
        key.attached += 1;
    }
}

fn detach(number: c_int) {
    let mut keys = lock(&KEYS);
    let Some(key) = keys.get_mut(&number) else { return };
    key.attached = key.attached.saturating_sub(1);
    if key.freed && key.attached == 0 {
        keys.remove(&number);
    }
}

pub(crate) fn value_of(attributes: &Attributes, number: c_int) -> Option<usize> {
    lock(attributes).iter().find(|(key, _)| *key == number).map(|&(_, value)| value)
}

/// Takes an attribute away whose delete function has been called, unless that has put another value in its
/// place.
fn take(attributes: &Attributes, number: c_int, value: usize) {
    let mut list = lock(attributes);
    let before = list.len();
    list.retain(|there| *there != (number, value));
    if list.len() < before {
        detach(number);
    }
}

pub(crate) fn set(attributes: &Attributes, owner: Owner, number: c_int, value: usize) -> Result<()> {
    let key = usable(number, owner)?;
    // Before the former value goes, so that a key that was freed does not go along with it.
    let attached = AttributeValue::new(number);
    // More than one where a delete function sets a value of the key that it is called for.
    while let Some(former) = value_of(attributes, number) {
        key.delete(owner, number, former)?;
        take(attributes, number, former);
    }
    attached.keep();
    lock(attributes).push((number, value));
    Ok(())
}

/// A value that is about to hang on an object, and does not where a delete function fails or throws before.
struct AttributeValue(c_int);

impl AttributeValue {
    fn new(number: c_int) -> AttributeValue {
        attach(number);
        AttributeValue(number)
    }

    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for AttributeValue {
    fn drop(&mut self) {
        detach(self.0);
    }
}

/// Deleting what is not there is no error.
pub(crate) fn delete(attributes: &Attributes, owner: Owner, number: c_int) -> Result<()> {
    let key = usable(number, owner)?;
    if let Some(value) = value_of(attributes, number) {
        key.delete(owner, number, value)?;
        take(attributes, number, value);
    }
    Ok(())
}

/// Where a copy function fails, what was copied until then is deleted again, so that nothing is lost that
/// copy functions may have allocated.
fn copy_attributes((from, owner): (&Attributes, Owner), (to, copy): (&Attributes, Owner)) -> Result<()> {
    let list = lock(from).clone();
    for (number, value) in list {
        let copied = attached(number).map_or(Ok(None), |key| key.copy(owner, number, value));
        match copied {
            Ok(Some(value)) => {
                attach(number);
                lock(to).push((number, value));
            }
            Ok(None) => {}
            Err(error) => {
                // The first error is the call's.
                let _ = delete_attributes(to, copy);
                let left = std::mem::take(&mut *lock(to));
                left.iter().for_each(|(number, _)| detach(*number));
                return Err(error);
            }
        }
    }
    Ok(())
}

/// The latest goes first (MPI 5.0 §11.4.2 asks so of `MPI_COMM_SELF` at finalize). Stops at a callback that
/// fails; its attribute stays.
pub(crate) fn delete_attributes(attributes: &Attributes, owner: Owner) -> Result<()> {
    loop {
        let Some((number, value)) = lock(attributes).last().copied() else { return Ok(()) };
        if let Some(key) = attached(number) {
            key.delete(owner, number, value)?;
        }
        take(attributes, number, value);
    }
}

/// Whether anything hangs on a communicator.
pub(crate) fn has_any(on: &CommObject) -> bool {
    !lock(&on.attributes).is_empty()
}

/// Copies the attributes of a communicator that want to be copied to its duplicate.
///
/// # Errors
/// When a copy function fails; the duplicate has no attributes then.
pub(crate) fn copy_all(
    (from, from_handle): (&CommObject, MPI_Comm),
    (to, to_handle): (&CommObject, MPI_Comm),
) -> Result<()> {
    copy_attributes((&from.attributes, Owner::Comm(from_handle)), (&to.attributes, Owner::Comm(to_handle)))
}

/// Deletes the attributes of a communicator, the latest first.
///
/// # Errors
/// When a delete function fails; that attribute and the earlier ones stay.
pub(crate) fn delete_all(object: &CommObject, handle: MPI_Comm) -> Result<()> {
    delete_attributes(&object.attributes, Owner::Comm(handle))
}

/// Copies the attributes of a datatype that want to be copied to its duplicate.
///
/// # Errors
/// When a copy function fails; the duplicate has no attributes then.
pub(crate) fn copy_of_type(
    (from, from_handle): (&Attributes, MPI_Datatype),
    (to, to_handle): (&Attributes, MPI_Datatype),
) -> Result<()> {
    copy_attributes((from, Owner::Type(from_handle)), (to, Owner::Type(to_handle)))
}

/// Deletes the attributes of a datatype, the latest first.
///
/// # Errors
/// When a delete function fails; that attribute and the earlier ones stay.
pub(crate) fn delete_of_type(attributes: &Attributes, handle: MPI_Datatype) -> Result<()> {
    delete_attributes(attributes, Owner::Type(handle))
}

fn create(
    name: &'static str,
    callbacks: Callbacks,
    keyval: Place<'_, c_int>,
    extra_state: *mut c_void,
) -> c_int {
    let place = keyval.checked("keyval");
    let created = place.and_then(|place| {
        let mut next = lock(&NEXT);
        let number = *next;
        *next = number.checked_add(1).ok_or_else(too_many)?;
        let key = Key { callbacks, extra_state: extra_state.addr(), attached: 0, freed: false };
        lock(&KEYS).insert(number, key);
        place.set(number);
        Ok(())
    });
    finish(name, Target::World, created)
}

fn free(name: &'static str, owner: Owner, keyval: Variable<'_, c_int>) -> c_int {
    let place = keyval.checked("keyval");
    let freed = place.and_then(|place| {
        let number = place.get();
        let mut keys = lock(&KEYS);
        match keys.get_mut(&number) {
            Some(key) if !key.serves(owner) => return Err(no_key(number)),
            // Freeing a key again is accepted until its last attribute goes: programs free a key in its own
            // delete function, and again elsewhere.
            Some(key) if key.attached > 0 => key.freed = true,
            Some(_) => drop(keys.remove(&number)),
            None => return Err(no_key(number)),
        }
        place.set(MPI_KEYVAL_INVALID);
        Ok(())
    });
    finish(name, Target::World, freed)
}

/// A key for attributes of communicators.
pub fn mpi_comm_create_keyval(
    comm_copy_attr_fn: Callback<MPI_Comm_copy_attr_function>,
    comm_delete_attr_fn: Callback<MPI_Comm_delete_attr_function>,
    comm_keyval: Place<'_, c_int>,
    extra_state: *mut c_void,
) -> c_int {
    let callbacks = Callbacks::Comm(comm_copy_attr_fn, comm_delete_attr_fn);
    create("MPI_Comm_create_keyval", callbacks, comm_keyval, extra_state)
}

/// A key for attributes of communicators, by its name of MPI 1.
pub fn mpi_keyval_create(
    copy_fn: Callback<MPI_Copy_function>,
    delete_fn: Callback<MPI_Delete_function>,
    keyval: Place<'_, c_int>,
    extra_state: *mut c_void,
) -> c_int {
    // The types are the same under two names, and so are the predefined functions.
    let callbacks = Callbacks::Comm(copy_fn.renamed(), delete_fn.renamed());
    create("MPI_Keyval_create", callbacks, keyval, extra_state)
}

/// A key for attributes of datatypes.
pub fn mpi_type_create_keyval(
    type_copy_attr_fn: Callback<MPI_Type_copy_attr_function>,
    type_delete_attr_fn: Callback<MPI_Type_delete_attr_function>,
    type_keyval: Place<'_, c_int>,
    extra_state: *mut c_void,
) -> c_int {
    let callbacks = Callbacks::Type(type_copy_attr_fn, type_delete_attr_fn);
    create("MPI_Type_create_keyval", callbacks, type_keyval, extra_state)
}

/// Gives a key up; attributes that hang on it stay until they are deleted.
pub fn mpi_comm_free_keyval(comm_keyval: Variable<'_, c_int>) -> c_int {
    free("MPI_Comm_free_keyval", Owner::Comm(MPI_COMM_NULL), comm_keyval)
}

/// Gives up a key for attributes of communicators: [`mpi_comm_free_keyval`] by its name of MPI 1.
pub fn mpi_keyval_free(keyval: Variable<'_, c_int>) -> c_int {
    free("MPI_Keyval_free", Owner::Comm(MPI_COMM_NULL), keyval)
}

/// Gives up a key for attributes of datatypes; attributes under it stay until they are deleted.
pub fn mpi_type_free_keyval(type_keyval: Variable<'_, c_int>) -> c_int {
    free("MPI_Type_free_keyval", Owner::Type(MPI_DATATYPE_NULL), type_keyval)
}

/// A key for attributes of windows. Its copy function is never called, since windows have no duplicates.
pub fn mpi_win_create_keyval(
    _win_copy_attr_fn: Callback<MPI_Win_copy_attr_function>,
    win_delete_attr_fn: Callback<MPI_Win_delete_attr_function>,
    win_keyval: Place<'_, c_int>,
    extra_state: *mut c_void,
) -> c_int {
    let callbacks = Callbacks::Win(win_delete_attr_fn);
    create("MPI_Win_create_keyval", callbacks, win_keyval, extra_state)
}

/// Gives up a key for attributes of windows; attributes under it stay until they are deleted.
pub fn mpi_win_free_keyval(win_keyval: Variable<'_, c_int>) -> c_int {
    free("MPI_Win_free_keyval", Owner::Win(MPI_WIN_NULL), win_keyval)
}

fn set_of_comm(name: &'static str, comm: MPI_Comm, keyval: c_int, value: *mut c_void) -> c_int {
    call(name, Target::Comm(comm), |runtime| {
        set(&runtime.comm(comm)?.attributes, Owner::Comm(comm), keyval, value.addr())
    })
}

fn delete_of_comm(name: &'static str, comm: MPI_Comm, keyval: c_int) -> c_int {
    call(name, Target::Comm(comm), |runtime| {
        delete(&runtime.comm(comm)?.attributes, Owner::Comm(comm), keyval)
    })
}

fn get_of_comm(
    name: &'static str,
    comm: MPI_Comm,
    keyval: c_int,
    value: Place<'_, *mut c_void>,
    flag: Place<'_, c_int>,
) -> c_int {
    call(name, Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let of_ftmpi = || object.ftmpi.find(&object.comm, keyval).map(Some);
        let found = match predefined(runtime, keyval).or_else(of_ftmpi) {
            Some(fact) => fact.map(<*mut c_int>::cast),
            None => {
                usable(keyval, Owner::Comm(comm))?;
                value_of(&object.attributes, keyval).map(without_provenance_mut)
            }
        };
        tell(found, value, flag)
    })
}

pub(crate) fn tell(
    found: Option<*mut c_void>,
    value: Place<'_, *mut c_void>,
    flag: Place<'_, c_int>,
) -> Result<()> {
    let (value, flag) = (value.checked("attribute_val")?, flag.checked("flag")?);
    if let Some(found) = found {
        value.set(found);
    }
    flag.set(c_int::from(found.is_some()));
    Ok(())
}

/// Hangs a value on a communicator; the delete function is called for the one that was there.
pub fn mpi_comm_set_attr(comm: MPI_Comm, comm_keyval: c_int, attribute_val: *mut c_void) -> c_int {
    set_of_comm("MPI_Comm_set_attr", comm, comm_keyval, attribute_val)
}

/// Sets an attribute of a communicator: [`mpi_comm_set_attr`] by its name of MPI 1.
pub fn mpi_attr_put(comm: MPI_Comm, keyval: c_int, attribute_val: *mut c_void) -> c_int {
    set_of_comm("MPI_Attr_put", comm, keyval, attribute_val)
}

/// The value that hangs on a communicator under a key. Predefined keys are known on every communicator.
pub fn mpi_comm_get_attr(
    comm: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: Place<'_, *mut c_void>,
    flag: Place<'_, c_int>,
) -> c_int {
    get_of_comm("MPI_Comm_get_attr", comm, comm_keyval, attribute_val, flag)
}

/// Reads an attribute of a communicator: [`mpi_comm_get_attr`] by its name of MPI 1.
pub fn mpi_attr_get(
    comm: MPI_Comm,
    keyval: c_int,
    attribute_val: Place<'_, *mut c_void>,
    flag: Place<'_, c_int>,
) -> c_int {
    get_of_comm("MPI_Attr_get", comm, keyval, attribute_val, flag)
}

/// Takes the value under a key away from a communicator.
pub fn mpi_comm_delete_attr(comm: MPI_Comm, comm_keyval: c_int) -> c_int {
    delete_of_comm("MPI_Comm_delete_attr", comm, comm_keyval)
}

/// Deletes an attribute of a communicator: [`mpi_comm_delete_attr`] by its name of MPI 1.
pub fn mpi_attr_delete(comm: MPI_Comm, keyval: c_int) -> c_int {
    delete_of_comm("MPI_Attr_delete", comm, keyval)
}

/// Hangs a value on a datatype.
pub fn mpi_type_set_attr(datatype: MPI_Datatype, type_keyval: c_int, attribute_val: *mut c_void) -> c_int {
    call("MPI_Type_set_attr", Target::World, |runtime| {
        let attributes: Arc<Attributes> = datatypes::attributes(runtime, datatype)?;
        set(&attributes, Owner::Type(datatype), type_keyval, attribute_val.addr())
    })
}

/// The value that hangs on a datatype under a key.
pub fn mpi_type_get_attr(
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: Place<'_, *mut c_void>,
    flag: Place<'_, c_int>,
) -> c_int {
    call("MPI_Type_get_attr", Target::World, |runtime| {
        let attributes = datatypes::attributes(runtime, datatype)?;
        usable(type_keyval, Owner::Type(datatype))?;
        let found = value_of(&attributes, type_keyval).map(without_provenance_mut);
        tell(found, attribute_val, flag)
    })
}

/// Takes the value under a key away from a datatype.
pub fn mpi_type_delete_attr(datatype: MPI_Datatype, type_keyval: c_int) -> c_int {
    call("MPI_Type_delete_attr", Target::World, |runtime| {
        delete(&*datatypes::attributes(runtime, datatype)?, Owner::Type(datatype), type_keyval)
    })
}

/// The values of predefined keys, where programs may keep pointers to them. They are atomics only to stand in
/// memory that can be written: a program that writes there harms nobody but itself.
struct PredefinedAttributes {
    tag_max: AtomicI32,
    any_process_does_io: AtomicI32,
    no_host: AtomicI32,
    clocks_differ: AtomicI32,
    program: Option<AtomicI32>,
    universe: Option<AtomicI32>,
}

/// `None` when the key is not predefined; the inner `None` when its value is not known (MPI 5.0 §9.1.1,
/// §11.10).
fn predefined(runtime: &'static Runtime, keyval: c_int) -> Option<Option<*mut c_int>> {
    static FACTS: OnceLock<PredefinedAttributes> = OnceLock::new();
    let facts = FACTS.get_or_init(|| facts(runtime));
    Some(match keyval {
        MPI_TAG_UB => Some(facts.tag_max.as_ptr()),
        MPI_IO => Some(facts.any_process_does_io.as_ptr()),
        MPI_HOST => Some(facts.no_host.as_ptr()),
        MPI_WTIME_IS_GLOBAL => Some(facts.clocks_differ.as_ptr()),
        MPI_APPNUM => facts.program.as_ref().map(AtomicI32::as_ptr),
        MPI_UNIVERSE_SIZE => facts.universe.as_ref().map(AtomicI32::as_ptr),
        MPI_LASTUSEDCODE => Some(last_used_code()),
        _ => return None,
    })
}

fn facts(runtime: &'static Runtime) -> PredefinedAttributes {
    let ask = |ask: fn(&Session) -> Option<u32>| {
        let known = runtime.with_session(ask).flatten();
        known.map(|number| AtomicI32::new(i32::try_from(number).unwrap_or(i32::MAX)))
    };
    PredefinedAttributes {
        tag_max: AtomicI32::new(c_int::MAX),
        any_process_does_io: AtomicI32::new(MPI_ANY_SOURCE),
        no_host: AtomicI32::new(MPI_PROC_NULL),
        clocks_differ: AtomicI32::new(0),
        program: ask(Session::appnum),
        universe: ask(Session::universe_size),
    }
}

/// Keys of the program begin here, above all predefined ones.
const FIRST_KEY: c_int = 4096;

#[cfg(test)]
#[path = "attributes_tests.rs"]
mod tests;
