//! Windows as objects: made, asked, named, freed (MPI 5.0 §12.2).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use weft::claims::UserMemory;
use weft::{Class, Communicator, Error, Extent, Rank, Result, Window};

use crate::bodies::info::Pairs;
use crate::bodies::window_attributes::{bytes, delete_all};
use crate::bodies::{allocation, error_handlers, groups, window_hints};
use crate::claims::{Buffer, Place, Received, Text, TextPlace, Variable, null};
use crate::convert::CountOut;
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::WinObject;
use crate::state::{call, too_many};
use crate::types::*;

/// What all calls that make a window have in common: its communicator, its hints, and where its handle goes.
struct Making<'call> {
    name: &'static str,
    info: MPI_Info,
    comm: MPI_Comm,
    win: Place<'call, MPI_Win>,
}

impl Making<'_> {
    /// Makes the window. Errors are the communicator's, since there is no window yet.
    fn with(&self, found: impl FnOnce(&Communicator, &Pairs) -> Result<Window>) -> c_int {
        call(self.name, Target::Comm(self.comm), |runtime| {
            let object = runtime.comm(self.comm)?;
            let place = self.win.checked("win")?;
            let hints = window_hints::known(self.info)?;
            object.comm.check(|| self.name.to_owned())?;
            let window = found(&object.comm, &hints)?;
            let made = Arc::new(WinObject::new(window, hints));
            let handle = runtime.objects().windows.insert(made).ok_or_else(too_many)?;
            place.set(MPI_Win::from_value(handle));
            Ok(())
        })
    }

    /// Makes a window that brings its own memory, whose address goes to `baseptr`. Errors are the
    /// communicator's, since there is no window yet.
    fn with_memory(
        &self,
        baseptr: Place<'_, *mut c_void>,
        found: impl FnOnce(&Communicator, &Pairs) -> Result<Window>,
    ) -> c_int {
        self.with(|comm, hints| {
            let base = baseptr.checked("baseptr")?;
            let window = found(comm, hints)?;
            base.set(window.base().cast());
            Ok(window)
        })
    }
}

/// A displacement unit that C gives.
fn unit(disp_unit: MPI_Aint) -> Result<usize> {
    let unit = usize::try_from(disp_unit).ok().filter(|&unit| unit > 0);
    let what = || format!("the displacement unit is {disp_unit} bytes");
    unit.ok_or_else(|| Error::new(Class::Displacement, what()))
}

/// Memory of the program's that a window is made of.
fn given(base: Received, size: MPI_Aint) -> Result<UserMemory> {
    let bytes = bytes(size)?;
    if base.is_null() && bytes > 0 {
        return Err(Error::new(
            Class::Base,
            format!("the base is a null pointer, and the size {bytes} bytes"),
        ));
    }
    Ok(base.memory(0, bytes))
}

/// A window on memory that the program has.
pub fn mpi_win_create(
    base: Received,
    size: MPI_Aint,
    disp_unit: MPI_Aint,
    info: MPI_Info,
    comm: MPI_Comm,
    win: Place<'_, MPI_Win>,
) -> c_int {
    let making = Making { name: "MPI_Win_create", info, comm, win };
    making.with(|comm, _| {
        let memory = given(base, size)?;
        Window::create(comm, memory, unit(disp_unit)?)
    })
}

/// A window on memory that the library allocates.
pub fn mpi_win_allocate(
    size: MPI_Aint,
    disp_unit: MPI_Aint,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: Place<'_, *mut c_void>,
    win: Place<'_, MPI_Win>,
) -> c_int {
    let making = Making { name: "MPI_Win_allocate", info, comm, win };
    making.with_memory(baseptr, |comm, hints| {
        let extent = Extent { bytes: bytes(size)?, unit: unit(disp_unit)? };
        Window::allocate_aligned(comm, extent, allocation::alignment_bytes(hints))
    })
}

/// A window on memory that all members can load from and store to.
pub fn mpi_win_allocate_shared(
    size: MPI_Aint,
    disp_unit: MPI_Aint,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: Place<'_, *mut c_void>,
    win: Place<'_, MPI_Win>,
) -> c_int {
    let making = Making { name: "MPI_Win_allocate_shared", info, comm, win };
    making.with_memory(baseptr, |comm, hints| {
        let (bytes, unit) = (bytes(size)?, unit(disp_unit)?);
        Window::allocate_shared(comm, bytes, unit, window_hints::placement(hints))
    })
}

/// A window to which memory is attached later.
pub fn mpi_win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: Place<'_, MPI_Win>) -> c_int {
    let making = Making { name: "MPI_Win_create_dynamic", info, comm, win };
    making.with(|comm, _| Window::create_dynamic(comm))
}

/// Attaches memory to a dynamic window.
pub fn mpi_win_attach(win: MPI_Win, base: Received, size: MPI_Aint) -> c_int {
    call("MPI_Win_attach", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        object.window.attach(given(base, size)?)
    })
}

/// Detaches memory from a dynamic window.
pub fn mpi_win_detach(win: MPI_Win, base: *const c_void) -> c_int {
    call("MPI_Win_detach", Target::Win(win), |runtime| runtime.win(win)?.window.detach(base.cast()))
}

/// The address, size and displacement unit of a member's window memory, where this process can load and store
/// it; a size of 0 and a null pointer where it cannot.
pub fn mpi_win_shared_query(
    win: MPI_Win,
    rank: c_int,
    size: Place<'_, MPI_Aint>,
    disp_unit: CountOut<'_>,
    baseptr: Place<'_, *mut c_void>,
) -> c_int {
    call("MPI_Win_shared_query", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        let (size, base) = (size.checked("size")?, baseptr.checked("baseptr")?);
        let disp_unit = disp_unit.checked("disp_unit")?;
        let found = object.window.load_and_store(member(&object.window, rank)?)?;
        let (start, Extent { bytes, unit }) =
            found.unwrap_or((std::ptr::null_mut(), Extent { bytes: 0, unit: 1 }));
        disp_unit.write_or_undefined(unit as i64);
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

/// Frees a window when all members do. Attributes go first: a delete function that fails stops the call here,
/// and the others wait until it is called again.
pub fn mpi_win_free(win: Variable<'_, MPI_Win>) -> c_int {
    const NAME: &str = "MPI_Win_free";
    let Some(win) = win.there() else { return call(NAME, Target::World, |_| Err(null("win"))) };
    let handle = win.get();
    call(NAME, Target::Win(handle), |runtime| {
        let object = runtime.win(handle)?;
        object.window.check_closed()?;
        object.window.check(|| NAME.to_owned())?;
        delete_all(&object, handle)?;
        object.window.leave()?;
        let freed = runtime.objects().windows.remove(handle.value());
        let freed =
            freed.ok_or_else(|| Error::new(Class::Window, "the window was freed by another thread"))?;
        error_handlers::release(freed.errhandler());
        win.set(MPI_WIN_NULL);
        Ok(())
    })
}

/// The members of a window.
pub fn mpi_win_get_group(win: MPI_Win, group: Place<'_, MPI_Group>) -> c_int {
    call("MPI_Win_get_group", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        let place = group.checked("group")?;
        place.set(groups::adopt(runtime, object.window.group().clone(), None)?);
        Ok(())
    })
}

/// Names a window.
pub fn mpi_win_set_name(win: MPI_Win, win_name: Text<'_>) -> c_int {
    call("MPI_Win_set_name", Target::Win(win), |runtime| {
        let object = runtime.win(win)?;
        let name = win_name.bytes().ok_or_else(|| null("win_name"))?;
        let kept = &name[..name.len().min(MPI_MAX_OBJECT_NAME as usize - 1)];
        object.window.rename(&String::from_utf8_lossy(kept));
        Ok(())
    })
}

/// The name of a window.
pub fn mpi_win_get_name(win: MPI_Win, win_name: TextPlace<'_>, resultlen: Place<'_, c_int>) -> c_int {
    call("MPI_Win_get_name", Target::Win(win), |runtime| {
        // MPI 5.0 §7.8: the null handle has a name, too.
        let name = match win {
            MPI_WIN_NULL => "MPI_WIN_NULL".to_owned(),
            _ => runtime.win(win)?.window.name(),
        };
        let length = resultlen.checked("resultlen")?;
        let win_name = win_name.checked("win_name")?;
        let bytes = win_name.put(name.as_bytes(), MPI_MAX_OBJECT_NAME as usize);
        length.set(bytes as c_int);
        Ok(())
    })
}
