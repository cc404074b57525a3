//! Places of single values.

use std::cell::Cell;
use std::marker::PhantomData;

use weft::Result;

use super::null;

/// A place of the program's where a result goes, or a null pointer.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Place<'call, T>(*mut T, PhantomData<&'call T>);

/// A place of the program's where a result goes, which is there.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Slot<'call, T>(*mut T, PhantomData<&'call T>);

/// A variable of the program's, which is read and written, or a null pointer.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Variable<'call, T>(*mut T, PhantomData<&'call Cell<T>>);

impl<'call, T: Copy> Place<'call, T> {
    /// No place.
    pub const NULL: Place<'call, T> = Place(std::ptr::null_mut(), PhantomData);

    /// The place that a program has passed.
    ///
    /// # Safety
    /// `pointer` is null, or writable until the MPI call returns, and aligned.
    #[inline(always)]
    pub unsafe fn claim(pointer: *mut T) -> Self {
        Place(pointer, PhantomData)
    }

    /// The place of a variable.
    pub fn of(variable: &'call mut T) -> Self {
        Place(variable, PhantomData)
    }

    /// The program passed a null pointer.
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The place, if the program passed one.
    #[inline(always)]
    pub fn there(self) -> Option<Slot<'call, T>> {
        (!self.is_null()).then_some(Slot(self.0, PhantomData))
    }

    /// The place of the argument `name`.
    ///
    /// # Errors
    /// [`Class::Argument`](weft::Class::Argument) when the program passed a null pointer.
    #[inline(always)]
    pub fn checked(self, name: &str) -> Result<Slot<'call, T>> {
        self.there().ok_or_else(|| null(name))
    }

    /// Stores a result that the program need not want.
    #[inline(always)]
    pub fn set_if_there(self, value: T) {
        if let Some(slot) = self.there() {
            slot.set(value);
        }
    }
}

impl<T: Copy> Slot<'_, T> {
    /// Stores a result.
    #[inline(always)]
    pub fn set(self, value: T) {
        // SAFETY: not null, so `Place::claim` was promised that it is writable.
        unsafe { self.0.write(value) };
    }
}

impl<'call, T: Copy> Variable<'call, T> {
    /// No variable.
    pub const NULL: Variable<'call, T> = Variable(std::ptr::null_mut(), PhantomData);

    /// The variable that a program has passed.
    ///
    /// # Safety
    /// `pointer` is null, or a value that stands there aligned, and may be read and written until the MPI
    /// call returns.
    #[inline(always)]
    pub unsafe fn claim(pointer: *mut T) -> Self {
        Variable(pointer, PhantomData)
    }

    /// A variable.
    pub fn of(variable: &'call mut T) -> Self {
        Variable(variable, PhantomData)
    }

    /// The program passed a null pointer.
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The variable, if the program passed one.
    #[inline(always)]
    pub fn there(self) -> Option<&'call Cell<T>> {
        // SAFETY: a null pointer is told apart; of others `claim` was promised that they can be read and
        // written so long.
        unsafe { self.0.cast::<Cell<T>>().as_ref() }
    }

    /// The variable of the argument `name`.
    ///
    /// # Errors
    /// [`Class::Argument`](weft::Class::Argument) when the program passed a null pointer.
    #[inline(always)]
    pub fn checked(self, name: &str) -> Result<&'call Cell<T>> {
        self.there().ok_or_else(|| null(name))
    }

    /// This variable as a place where a result goes.
    #[inline(always)]
    pub fn place(self) -> Place<'call, T> {
        Place(self.0, PhantomData)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft::Class;

    #[test]
    fn places_take_results_and_refuse_null() {
        let mut number = 3;
        Place::of(&mut number).checked("number").unwrap().set(7);
        assert_eq!(number, 7);
        let refused = Place::<i32>::NULL.checked("number").err().unwrap();
        assert!(refused.class == Class::Argument && refused.what.contains("number"), "{refused:?}");
        Place::<i32>::NULL.set_if_there(7);
    }

    #[test]
    fn variables_are_read_and_written() {
        let mut number = 3;
        let variable = Variable::of(&mut number).checked("number").unwrap();
        variable.set(variable.get() + 4);
        assert_eq!(number, 7);
        assert_eq!(Variable::<i32>::NULL.checked("number").unwrap_err().class, Class::Argument);
    }
}
