//! Strings of C.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;

use weft::Result;

use super::null;

/// A string that ends with a zero byte, or a null pointer.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text<'call>(*const c_char, PhantomData<&'call c_char>);

/// A place for a string, or a null pointer.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct TextPlace<'call>(*mut c_char, PhantomData<&'call c_char>);

impl<'call> Text<'call> {
    /// No string.
    pub const NULL: Text<'static> = Text(std::ptr::null(), PhantomData);

    /// The string that a program has passed.
    ///
    /// # Safety
    /// `start` is null, or ends with a zero byte and stays as it is until the MPI call returns.
    #[inline(always)]
    pub unsafe fn claim(start: *const c_char) -> Self {
        Text(start, PhantomData)
    }

    /// A string.
    pub fn of(text: &'call CStr) -> Self {
        Text(text.as_ptr(), PhantomData)
    }

    /// Its bytes without the zero byte at its end; `None` for a null pointer.
    pub fn bytes(self) -> Option<&'call [u8]> {
        // SAFETY: not null, and `claim` was promised a string.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// The bytes of the argument `name`.
    ///
    /// # Errors
    /// [`Class::Argument`](weft::Class::Argument) when the program passed a null pointer.
    pub fn checked(self, name: &str) -> Result<&'call [u8]> {
        self.bytes().ok_or_else(|| null(name))
    }
}

impl<'call> TextPlace<'call> {
    /// No place.
    pub const NULL: TextPlace<'static> = TextPlace(std::ptr::null_mut(), PhantomData);

    /// The place that a program has passed.
    ///
    /// # Safety
    /// `start` is null, or has room for as many bytes as the MPI standard says of the argument, writable
    /// until the MPI call returns.
    #[inline(always)]
    pub unsafe fn claim(start: *mut c_char) -> Self {
        TextPlace(start, PhantomData)
    }

    /// The room of a slice.
    pub fn of(room: &'call mut [c_char]) -> Self {
        TextPlace(room.as_mut_ptr(), PhantomData)
    }

    /// The program passed a null pointer.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The place of the argument `name`, which is there.
    ///
    /// # Errors
    /// [`Class::Argument`](weft::Class::Argument) when the program passed a null pointer.
    pub fn checked(self, name: &str) -> Result<TextPlace<'call>> {
        if self.is_null() { Err(null(name)) } else { Ok(self) }
    }

    /// Writes a string, cut to `room_bytes` with the zero byte at its end; returns its length without that
    /// byte. Nothing is written where there is no room, or no place.
    pub fn put(self, text: &[u8], room_bytes: usize) -> usize {
        let bytes = text.len().min(room_bytes.saturating_sub(1));
        if !self.is_null() && room_bytes > 0 {
            // SAFETY: `bytes + 1 <= room_bytes`, which `claim` was promised to be there and writable.
            unsafe {
                self.0.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), bytes);
                self.0.add(bytes).write(0);
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_cut_to_the_room() {
        let mut room = [b'x' as c_char; 6];
        assert_eq!(TextPlace::of(&mut room).put(b"abcdef", 4), 3);
        assert_eq!(room.map(|byte| byte as u8), *b"abc\0xx");
        assert_eq!(TextPlace::of(&mut room).put(b"abcdef", 0), 0);
        assert_eq!(TextPlace::NULL.put(b"ab", 8), 2);
        assert_eq!(room[0], b'a' as c_char);
    }

    #[test]
    fn strings_end_before_their_zero_byte() {
        assert_eq!(Text::of(c"abc").bytes(), Some(&b"abc"[..]));
        assert!(Text::NULL.bytes().is_none() && Text::NULL.checked("key").is_err());
    }
}
