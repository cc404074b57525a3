//! Functions of the program that the library calls.

use std::ffi::c_void;

/// A type of functions of the program, as C hands one over: an address, or the number of a predefined
/// function.
pub trait CFunction: Copy {
    /// A function that can be called.
    type Pointer: Copy;

    /// What C handed over.
    fn address(self) -> *const c_void;

    /// What C would hand over for that address.
    fn at(address: *const c_void) -> Self;

    /// The function at an address.
    ///
    /// # Safety
    /// There is a C function of this very type.
    unsafe fn pointer(self) -> Self::Pointer;
}

/// A function of the program that the library calls, or a predefined one.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callback<F>(F);

impl<F: CFunction> Callback<F> {
    /// The function that a program has passed.
    ///
    /// # Safety
    /// `function` is null, the number of a predefined function, or the address of a C function of its type.
    /// That may be called with what the MPI standard says of it, as long as an object refers to it that it
    /// was an argument for.
    #[inline(always)]
    pub unsafe fn claim(function: F) -> Callback<F> {
        Callback(function)
    }

    /// A predefined function, or a null pointer.
    ///
    /// # Panics
    /// When it is a function of the program's.
    pub fn predefined(function: F) -> Callback<F> {
        assert!(function.address().addr() < PREDEFINED, "a predefined function has a number");
        Callback(function)
    }

    /// What the program passed, to be compared with the predefined functions.
    pub fn given(self) -> F {
        self.0
    }

    /// The program passed a null pointer.
    pub fn is_null(self) -> bool {
        self.0.address().is_null()
    }

    /// The function to call; `None` for a null pointer and for a predefined function.
    pub fn function(self) -> Option<F::Pointer> {
        // SAFETY: it is no number of a predefined function, so `claim` was promised a function there.
        (self.0.address().addr() >= PREDEFINED).then(|| unsafe { self.0.pointer() })
    }

    /// This callback under another name of its function type: MPI-1 and MPI-2 name the types of attribute
    /// functions differently.
    pub fn renamed<G: CFunction<Pointer = F::Pointer>>(self) -> Callback<G> {
        Callback(G::at(self.0.address()))
    }
}

/// Numbers of predefined functions are below this, and addresses of functions are not.
const PREDEFINED: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::constants::*;
    use crate::types::*;

    #[test]
    fn predefined_functions_are_none_of_the_program() {
        let [none, copies] = [MPI_NULL_COPY_FN, MPI_DUP_FN].map(Callback::predefined);
        assert!(none.is_null() && !copies.is_null());
        assert!(none.function().is_none() && copies.function().is_none());
        let renamed: Callback<MPI_Comm_copy_attr_function> = copies.renamed();
        assert_eq!((renamed.given(), none.renamed().given()), (MPI_COMM_DUP_FN, MPI_COMM_NULL_COPY_FN));
    }

    #[test]
    fn functions_come_back_to_be_called() {
        extern "C-unwind" fn answer(_extra_state: *mut c_void) -> std::ffi::c_int {
            42
        }
        // SAFETY: a function that looks at nothing.
        let callback = unsafe { Callback::claim(MPI_Grequest_free_function::from_function(answer)) };
        // SAFETY: as above.
        let code = callback.function().map(|function| unsafe { function(std::ptr::null_mut()) });
        assert_eq!(code, Some(42));
    }
}
