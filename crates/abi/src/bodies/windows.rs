//! Windows as objects: made, asked, named, freed (MPI 5.0 §12.2). What is done with them comes later.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use weft::claims::UserMemory;
use weft::{Class, Communicator, Error, Extent, Rank, Result, Window};

use crate::bodies::info::Pairs;
use crate::bodies::pointers::{Place, check_count_out, put_text, text};
use crate::bodies::window_attributes::{bytes, delete_all};
use crate::bodies::world::null;
use crate::bodies::{allocation, error_handlers, groups, window_hints};
use crate::convert::CountOut;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::WinObject;
use crate::state::{call, too_many};
use crate::types::*;

/// What all calls that make a window have in common: its communicator, its hints, and where its handle goes.
struct Making {
    name: &'static str,
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
}

impl Making {
    /// Makes the window. Errors are the communicator's, since there is no window yet.
    ///
    /// # Safety
    /// `win` is null or writable.
    unsafe fn with(&self, found: impl FnOnce(&Communicator, &Pairs) -> Result<Window>) -> c_int {
        call(self.name, Target::Comm(self.comm), |runtime| {
            let object = runtime.comm(self.comm)?;
            // SAFETY: the caller's promise is handed on.
            let place = unsafe { Place::new(self.win, "win")? };
            let hints = window_hints::known(self.info)?;
            object.comm.check(|| self.name.to_owned())?;
            let window = found(&object.comm, &hints)?;
            let made = Arc::new(WinObject::new(window, hints));
            let handle = runtime.objects().windows.insert(made).ok_or_else(too_many)?;
            place.set(MPI_Win::from_value(handle));
            Ok(())
        })
    }

    /// The same where the window brings its memory, whose address goes to `baseptr`.
    ///
    /// # Safety
    /// `baseptr` is null or the address of a pointer, `win` is null or writable.
    unsafe fn with_memory(
        &self,
        baseptr: *mut c_void,
        found: impl FnOnce(&Communicator, &Pairs) -> Result<Window>,
    ) -> c_int {
        // SAFETY: the caller's promises are handed on.
        unsafe {
            self.with(|comm, hints| {
                let base = Place::new(baseptr.cast::<*mut c_void>(), "baseptr")?;
                let window = found(comm, hints)?;
                base.set(window.start().cast());
                Ok(window)
            })
        }
    }
}

/// A displacement unit that C gives.
fn unit(disp_unit: MPI_Aint) -> Result<usize> {
    let unit = usize::try_from(disp_unit).ok().filter(|&unit| unit > 0);
    let what = || format!("the displacement unit is {disp_unit} bytes");
    unit.ok_or_else(|| Error::new(Class::Displacement, what()))
}

/// Memory of the program's that a window is made of.
///
/// # Safety
/// The program's promise: it stays allocated until it is no part of the window any more.
unsafe fn given(base: *mut c_void, size: MPI_Aint) -> Result<UserMemory> {
    let bytes = bytes(size)?;
    if base.is_null() && bytes > 0 {
        return Err(Error::new(
            Class::Base,
            format!("the base is a null pointer, and the size {bytes} bytes"),
        ));
    }
    // SAFETY: the caller's promise is handed on.
    Ok(unsafe { UserMemory::claim(base.cast(), bytes) })
}

/// A window on memory that the program has.
///
/// # Safety
/// `size` bytes from `base` on stay allocated while the window is there; `win` is null or writable.
pub unsafe fn mpi_win_create(
    base: *mut c_void,
    size: MPI_Aint,
    disp_unit: MPI_Aint,
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> c_int {
    let making = Making { name: "MPI_Win_create", info, comm, win };
    // SAFETY: the program's promise is handed on, twice.
    unsafe {
        making.with(|comm, _| {
            let memory = given(base, size)?;
            Window::create(comm, memory, unit(disp_unit)?)
        })
    }
}

/// A window on memory that the library allocates.
///
/// # Safety
/// `baseptr` is null or the address of a pointer; `win` is null or writable.
pub unsafe fn mpi_win_allocate(
    size: MPI_Aint,
    disp_unit: MPI_Aint,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> c_int {
    let making = Making { name: "MPI_Win_allocate", info, comm, win };
    // SAFETY: the program's promise is handed on.
    unsafe {
        making.with_memory(baseptr, |comm, hints| {
            let extent = Extent { bytes: bytes(size)?, unit: unit(disp_unit)? };
            Window::allocate_aligned(comm, extent, allocation::alignment_bytes(hints))
        })
    }
}

/// A window on memory that all members can load from and store to.
///
/// # Safety
/// As for [`mpi_win_allocate`].
pub unsafe fn mpi_win_allocate_shared(
    size: MPI_Aint,
    disp_unit: MPI_Aint,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> c_int {
    let making = Making { name: "MPI_Win_allocate_shared", info, comm, win };
    // SAFETY: the program's promise is handed on.
    unsafe {
        making.with_memory(baseptr, |comm, hints| {
            let (bytes, unit) = (bytes(size)?, unit(disp_unit)?);
            Window::allocate_shared(comm, bytes, unit, window_hints::placement(hints))
        })
    }
}

/// A window to which memory is attached later.
///
/// # Safety
/// `win` is null or writable.
pub unsafe fn mpi_win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: *mut MPI_Win) -> c_int {
    let making = Making { name: "MPI_Win_create_dynamic", info, comm, win };
    // SAFETY: the program's promise is handed on.
    unsafe { making.with(|comm, _| Window::create_dynamic(comm)) }
}

/// Attaches memory to a dynamic window.
///
/// # Safety
/// `size` bytes from `base` on stay allocated until they are detached or the window is freed.
pub unsafe fn mpi_win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) -> c_int {
    call("MPI_Win_attach", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        // SAFETY: the program's promise is handed on.
        object.window.attach(unsafe { given(base, size)? })
    })
}

/// Detaches memory from a dynamic window.
///
/// # Safety
/// None: the address is only looked up.
pub unsafe fn mpi_win_detach(win: MPI_Win, base: *const c_void) -> c_int {
    call("MPI_Win_detach", Target::Win(win), |runtime| runtime.win(win)?.window.detach(base.cast()))
}

/// Where this process can load and store what belongs to a member; a size of 0 and a null pointer where it cannot.
///
/// # Safety
/// `size` and `disp_unit` are null or writable, `baseptr` is null or the address of a pointer.
pub unsafe fn mpi_win_shared_query(
    win: MPI_Win,
    rank: c_int,
    size: *mut MPI_Aint,
    disp_unit: CountOut,
    baseptr: *mut c_void,
) -> c_int {
    call("MPI_Win_shared_query", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        // SAFETY: the program's promise is handed on.
        let (size, base) =
            unsafe { (Place::new(size, "size")?, Place::new(baseptr.cast::<*mut c_void>(), "baseptr")?) };
        check_count_out(disp_unit, "disp_unit")?;
        let found = object.window.load_and_store(member(&object.window, rank)?)?;
        let (start, Extent { bytes, unit }) =
            found.unwrap_or((std::ptr::null_mut(), Extent { bytes: 0, unit: 1 }));
        // SAFETY: not null, and the program promised that it is writable.
        unsafe { disp_unit.write_or_undefined(unit as i64) };
        size.set(bytes as MPI_Aint);
        base.set(start.cast());
        Ok(())
    })
}

/// The member of a rank; `MPI_PROC_NULL` stands for the first that has any memory.
fn member(window: &Window, rank: c_int) -> Result<Option<Rank>> {
    match u32::try_from(rank) {
        Ok(rank) => Ok(Some(Rank(rank))),
        Err(_) if rank == MPI_PROC_NULL => Ok(None),
        Err(_) => Err(Error::new(Class::Rank, format!("{}: rank {rank} does not exist", window.place()))),
    }
}

/// Frees a window when all members do. Attributes go first: a delete function that fails stops the call here, and the
/// others wait until it is called again.
///
/// # Safety
/// `win` is null or a window handle, writable.
pub unsafe fn mpi_win_free(win: *mut MPI_Win) -> c_int {
    const NAME: &str = "MPI_Win_free";
    if win.is_null() {
        return call(NAME, Target::World, |_| Err(null("win")));
    }
    // SAFETY: not null, and the program promised a handle.
    let handle = unsafe { win.read() };
    call(NAME, Target::Win(handle), |runtime| {
        let object = runtime.win(handle)?;
        object.window.check_unlocked("it is locked and cannot be freed")?;
        object.window.check(|| NAME.to_owned())?;
        delete_all(&object, handle)?;
        object.window.leave()?;
        let freed = runtime.objects().windows.remove(handle.value());
        let freed =
            freed.ok_or_else(|| Error::new(Class::Window, "the window was freed by another thread"))?;
        error_handlers::release(freed.errhandler());
        // SAFETY: as above.
        unsafe { win.write(MPI_WIN_NULL) };
        Ok(())
    })
}

/// The members of a window.
///
/// # Safety
/// `group` is null or writable.
pub unsafe fn mpi_win_get_group(win: MPI_Win, group: *mut MPI_Group) -> c_int {
    call("MPI_Win_get_group", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        // SAFETY: the program's promise is handed on.
        let place = unsafe { Place::new(group, "group")? };
        place.set(groups::adopt(runtime, object.window.group().clone(), None)?);
        Ok(())
    })
}

/// Names a window.
///
/// # Safety
/// `win_name` is null or a string that ends with a zero byte.
pub unsafe fn mpi_win_set_name(win: MPI_Win, win_name: *const c_char) -> c_int {
    call("MPI_Win_set_name", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        // SAFETY: the program's promise is handed on.
        let name = unsafe { text(win_name) }.ok_or_else(|| null("win_name"))?;
        let kept = &name[..name.len().min(MPI_MAX_OBJECT_NAME as usize - 1)];
        object.window.rename(&String::from_utf8_lossy(kept));
        Ok(())
    })
}

/// The name of a window.
///
/// # Safety
/// `win_name` is null or has `MPI_MAX_OBJECT_NAME` bytes, `resultlen` is null or writable.
pub unsafe fn mpi_win_get_name(win: MPI_Win, win_name: *mut c_char, resultlen: *mut c_int) -> c_int {
    call("MPI_Win_get_name", Target::Win(win), |runtime| {
        // MPI 5.0 §7.8: the null handle has a name, too.
        let name = match win {
            MPI_WIN_NULL => "MPI_WIN_NULL".to_owned(),
            _ => runtime.win(win)?.window.name(),
        };
        // SAFETY: the program's promise is handed on.
        let length = unsafe { Place::new(resultlen, "resultlen")? };
        if win_name.is_null() {
            return Err(null("win_name"));
        }
        // SAFETY: not null, and the program promised the room that the standard asks for.
        let bytes = unsafe { put_text(win_name, name.as_bytes(), MPI_MAX_OBJECT_NAME as usize) };
        length.set(bytes as c_int);
        Ok(())
    })
}
