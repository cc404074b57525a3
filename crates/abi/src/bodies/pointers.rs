//! Pointers that C hands over for results, arrays and strings: checked before anything is done with them.

use std::ffi::{CStr, c_char};

use weft::{Class, Error, Result};

use crate::bodies::world::null;
use crate::convert::{CountOut, Counts, Displacements};

/// A place of the program's where a result goes.
#[derive(Clone, Copy)]
pub(crate) struct Place<T>(*mut T);

impl<T: Copy> Place<T> {
    /// The place behind a pointer that the program calls `name`.
    ///
    /// # Safety
    /// `pointer` is null, or writable until the MPI call returns; readable too where [`Place::value`] is used.
    pub(crate) unsafe fn new(pointer: *mut T, name: &str) -> Result<Place<T>> {
        if pointer.is_null() { Err(null(name)) } else { Ok(Place(pointer)) }
    }

    /// Stores a result.
    pub(crate) fn set(self, value: T) {
        // SAFETY: not null, and whoever called `new` promised that it is writable.
        unsafe { self.0.write(value) };
    }

    /// What the program has put there.
    pub(crate) fn value(self) -> T {
        // SAFETY: not null, and whoever called `new` promised that it is readable.
        unsafe { self.0.read() }
    }
}

/// Refuses a null pointer for a number in either width.
pub(crate) fn check_count_out(place: CountOut, name: &str) -> Result<()> {
    if place.is_null() { Err(null(name)) } else { Ok(()) }
}

/// Refuses a null pointer where `count` elements are needed, and a negative count; for arrays of results.
pub(crate) fn check_array<T>(start: *const T, count: i64, name: &str) -> Result<()> {
    if length(count)? > 0 && start.is_null() { Err(null(name)) } else { Ok(()) }
}

/// An array of the program's; of no elements where `count` is 0, whatever the pointer.
///
/// # Safety
/// `start` is null, or has `count` elements that stay as they are until the MPI call returns.
pub(crate) unsafe fn array<'a, T>(start: *const T, count: i64, name: &str) -> Result<&'a [T]> {
    check_array(start, count, name)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: not null, and the caller promised that many elements.
    Ok(unsafe { std::slice::from_raw_parts(start, length(count)?) })
}

/// The numbers of an array in either width.
///
/// # Safety
/// As for [`array`].
pub(crate) unsafe fn counts(array: Counts, count: i64, name: &str) -> Result<Vec<i64>> {
    let count = length(count)?;
    if count > 0 && array.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null where there are elements, and the caller promised that many.
    Ok((0..count).map(|index| unsafe { array.at(index) }).collect())
}

/// The displacements of an array in any width.
///
/// # Safety
/// As for [`array`].
pub(crate) unsafe fn displacements(array: Displacements, count: i64, name: &str) -> Result<Vec<i64>> {
    let count = length(count)?;
    if count > 0 && array.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null where there are elements, and the caller promised that many.
    Ok((0..count).map(|index| unsafe { array.at(index) }).collect())
}

fn length(count: i64) -> Result<usize> {
    usize::try_from(count)
        .map_err(|_| Error::new(Class::Argument, format!("the number of elements is {count}")))
}

/// The bytes of a string without the zero byte at its end; `None` for a null pointer.
///
/// # Safety
/// `text` is null, or ends with a zero byte and stays as it is until the MPI call returns.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: not null, and the caller promised a string.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Writes a string, cut to `room_bytes` with the zero byte at its end; returns its length without that byte.
///
/// # Safety
/// `place` has room for that many bytes, and for at least one.
pub(crate) unsafe fn put_text(place: *mut c_char, text: &[u8], room_bytes: usize) -> usize {
    let bytes = text.len().min(room_bytes.saturating_sub(1));
    // SAFETY: `bytes + 1 <= room_bytes`, which the caller promised.
    unsafe {
        place.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), bytes);
        place.add(bytes).write(0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_take_results_and_refuse_null() {
        let mut number = 3;
        // SAFETY: `number` outlives the place.
        let place = unsafe { Place::new(&raw mut number, "number") }.unwrap();
        place.set(place.value() + 4);
        assert_eq!(number, 7);
        // SAFETY: null is allowed.
        let refused = unsafe { Place::<i32>::new(std::ptr::null_mut(), "number") }.err().unwrap();
        assert!(refused.class == Class::Argument && refused.what.contains("number"), "{refused:?}");
    }

    #[test]
    fn arrays_may_be_null_only_when_empty() {
        let null = std::ptr::null::<i32>();
        // SAFETY: null is allowed, and three elements are there.
        unsafe {
            assert_eq!(array(null, 0, "ranks").unwrap(), &[] as &[i32]);
            assert_eq!(array(null, 1, "ranks").unwrap_err().class, Class::Argument);
            assert_eq!(array([1, 2, 3].as_ptr(), 3, "ranks").unwrap(), [1, 2, 3]);
            assert_eq!(array([1].as_ptr(), -1, "ranks").unwrap_err().class, Class::Argument);
            assert_eq!(counts(Counts::Int(null), 0, "sizes").unwrap(), [0; 0]);
            assert_eq!(counts(Counts::Int(null), 2, "sizes").unwrap_err().class, Class::Argument);
            assert_eq!(displacements(Displacements::Int([-4].as_ptr()), 1, "starts").unwrap(), [-4]);
        }
    }

    #[test]
    fn strings_are_cut_to_the_room() {
        let mut room = [b'x' as c_char; 6];
        // SAFETY: no more than six bytes are written, and they end with a zero byte.
        unsafe {
            assert_eq!(put_text(room.as_mut_ptr(), b"abcdef", 4), 3);
            assert_eq!(text(room.as_ptr()), Some(&b"abc"[..]));
            assert_eq!(room[4], b'x' as c_char);
            assert_eq!(text(std::ptr::null()), None);
        }
    }
}
