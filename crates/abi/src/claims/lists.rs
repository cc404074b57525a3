//! Arrays, of which the program says elsewhere how long they are.

use std::cell::Cell;
use std::marker::PhantomData;

use weft::{Class, Error, Result};

use super::null;

/// An array that is read, or a null pointer.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct List<'call, T>(*const T, PhantomData<&'call T>);

/// An array of places for results, or a null pointer.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Places<'call, T>(*mut T, PhantomData<&'call T>);

/// So many places for results, which are there.
#[derive(Clone, Copy)]
pub struct Slots<'call, T> {
    start: *mut T,
    count: usize,
    lifetime: PhantomData<&'call T>,
}

/// An array that is read and written, or a null pointer.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Variables<'call, T>(*mut T, PhantomData<&'call Cell<T>>);

impl<'call, T: Copy> List<'call, T> {
    /// No array.
    pub const NULL: List<'call, T> = List(std::ptr::null(), PhantomData);

    /// The array that a program has passed.
    ///
    /// # Safety
    /// `start` is null, or an address below 4096 that stands for something else, or has as many elements as
    /// the MPI standard says of the argument, aligned. Until the MPI call returns nothing changes them but
    /// its own results, where the standard lets those go to the same elements.
    #[inline(always)]
    pub unsafe fn claim(start: *const T) -> Self {
        List(start, PhantomData)
    }

    /// All elements of a slice.
    pub fn of(elements: &'call [T]) -> Self {
        List(elements.as_ptr(), PhantomData)
    }

    /// The program passed a null pointer.
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address, to be compared with those that stand for something else.
    #[inline(always)]
    pub fn addr(self) -> usize {
        self.0.addr()
    }

    /// The elements of the argument `name`; none where `count` is 0, whatever the address.
    ///
    /// # Errors
    /// [`Class::Argument`] for a null pointer where there should be some, and for a negative count.
    pub fn slice(self, count: i64, name: &str) -> Result<&'call [T]> {
        match checked(self.0, count, name)? {
            0 => Ok(&[]),
            // SAFETY: not null, and `claim` was promised so many elements.
            count => Ok(unsafe { std::slice::from_raw_parts(self.0, count) }),
        }
    }

    /// The element at `index`, which is one of those that the array has; it is not null.
    #[inline(always)]
    pub(crate) fn at(self, index: usize) -> T {
        debug_assert!(!self.is_null());
        // SAFETY: `claim` was promised that there is such an element.
        unsafe { self.0.add(index).read() }
    }
}

impl<'call, T: Copy> Places<'call, T> {
    /// No array.
    pub const NULL: Places<'call, T> = Places(std::ptr::null_mut(), PhantomData);

    /// The array that a program has passed.
    ///
    /// # Safety
    /// `start` is null, or an address below 4096 that stands for something else, or has room for as many
    /// elements as the MPI standard says of the argument, aligned and writable until the MPI call returns.
    #[inline(always)]
    pub unsafe fn claim(start: *mut T) -> Self {
        Places(start, PhantomData)
    }

    /// The places of all elements of a slice.
    pub fn of(elements: &'call mut [T]) -> Self {
        Places(elements.as_mut_ptr(), PhantomData)
    }

    /// The program passed a null pointer.
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address, to be compared with those that stand for something else.
    pub fn addr(self) -> usize {
        self.0.addr()
    }

    /// The places of the argument `name`.
    ///
    /// # Errors
    /// [`Class::Argument`] for a null pointer where there should be some, and for a negative count.
    pub fn checked(self, count: i64, name: &str) -> Result<Slots<'call, T>> {
        let count = checked(self.0, count, name)?;
        Ok(Slots { start: self.0, count, lifetime: PhantomData })
    }
}

impl<T: Copy> Slots<'_, T> {
    /// Stores a result.
    pub fn set(self, index: usize, value: T) {
        assert!(index < self.count, "there are {} places, and not one {index}", self.count);
        // SAFETY: there are so many places, which `Places::claim` was promised to be writable.
        unsafe { self.start.add(index).write(value) };
    }

    /// Stores results from the first place on.
    pub fn put(self, values: &[T]) {
        values.iter().enumerate().for_each(|(index, &value)| self.set(index, value));
    }
}

impl<'call, T: Copy> Variables<'call, T> {
    /// No array.
    pub const NULL: Variables<'call, T> = Variables(std::ptr::null_mut(), PhantomData);

    /// The array that a program has passed.
    ///
    /// # Safety
    /// `start` is null, or has as many elements as the MPI standard says of the argument, aligned, which may
    /// be read and written until the MPI call returns.
    #[inline(always)]
    pub unsafe fn claim(start: *mut T) -> Self {
        Variables(start, PhantomData)
    }

    /// All elements of a slice.
    pub fn of(elements: &'call mut [T]) -> Self {
        Variables(elements.as_mut_ptr(), PhantomData)
    }

    /// The program passed a null pointer.
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The element at `index`, which is one of those that the array has; it is not null.
    #[inline(always)]
    pub(crate) fn at(self, index: usize) -> &'call Cell<T> {
        debug_assert!(!self.is_null());
        // SAFETY: `claim` was promised that there is such an element, to be read and written.
        unsafe { &*self.0.add(index).cast::<Cell<T>>() }
    }

    /// The elements of the argument `name`.
    ///
    /// # Errors
    /// [`Class::Argument`] for a null pointer where there should be some, and for a negative count.
    pub fn checked(self, count: i64, name: &str) -> Result<&'call [Cell<T>]> {
        match checked(self.0, count, name)? {
            0 => Ok(&[]),
            // SAFETY: not null, and `claim` was promised so many elements, to be read and written.
            count => Ok(unsafe { std::slice::from_raw_parts(self.0.cast::<Cell<T>>(), count) }),
        }
    }
}

/// How many elements there are; refuses a null pointer where there should be some, and a negative count.
fn checked<T>(start: *const T, count: i64, name: &str) -> Result<usize> {
    let length = usize::try_from(count)
        .map_err(|_| Error::new(Class::Argument, format!("the number of elements is {count}")))?;
    if length > 0 && start.is_null() { Err(null(name)) } else { Ok(length) }
}

/// An array whose elements are read, each before its place is written, as programs give it.
#[cfg(test)]
pub(crate) fn in_place<T: Copy>(elements: &mut [T]) -> (List<'_, T>, Places<'_, T>) {
    let start = elements.as_mut_ptr();
    (List(start, PhantomData), Places(start, PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_may_be_null_only_when_empty() {
        let none = List::<i32>::NULL;
        assert_eq!(none.slice(0, "ranks").unwrap(), &[] as &[i32]);
        assert_eq!(none.slice(1, "ranks").unwrap_err().class, Class::Argument);
        assert_eq!(List::of(&[1, 2, 3]).slice(3, "ranks").unwrap(), [1, 2, 3]);
        assert_eq!(List::of(&[1]).slice(-1, "ranks").unwrap_err().class, Class::Argument);
        assert_eq!(List::of(&[4, 5]).at(1), 5);
        assert!(
            Places::<i32>::NULL.checked(1, "ranks").is_err() && Variables::<i32>::NULL.checked(0, "").is_ok()
        );
    }

    #[test]
    fn results_go_to_their_places() {
        let mut room = [1, 2, 3];
        let places = Places::of(&mut room).checked(3, "ranks").unwrap();
        places.put(&[7, 8]);
        places.set(2, 9);
        assert_eq!(room, [7, 8, 9]);
        let variables = Variables::of(&mut room).checked(2, "ranks").unwrap();
        variables[1].set(variables[0].get() + 10);
        assert_eq!(room, [7, 17, 9]);
    }

    #[test]
    #[should_panic(expected = "there are 1 places")]
    fn nothing_is_written_behind_the_last_place() {
        let mut room = [1, 2];
        Places::of(&mut room).checked(1, "ranks").unwrap().set(1, 5);
    }
}
