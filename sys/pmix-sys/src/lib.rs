//! The PMIx client library, behind a small safe face: [`Client`] is one process's part in a job of a PMIx
//! server.
//!
//! The library is loaded when a job needs it (`dlopen`), and never unloaded: it has threads of its own. A
//! program that runs without PMIx needs neither the library nor its headers; `bindings.rs` is committed (see
//! `generate`), and a test holds it against the headers where these are installed.
//!
//! **Invariant:** nothing that the library hands out is kept: bytes are copied, and its memory is given back.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[doc(hidden)]
#[allow(missing_docs, nonstandard_style, unsafe_op_in_unsafe_fn, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]
pub mod bindings;

use bindings::{
    Library, pmix_byte_object, pmix_event_notification_cbfunc_fn_t, pmix_info_t, pmix_proc_t, pmix_rank_t,
    pmix_status_t, pmix_value__bindgen_ty_1, pmix_value_t,
};

/// Why something about PMIx did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PmixError {
    /// The library is not there, or lacks a function.
    #[error("{library} cannot be loaded: {reason}")]
    NotLoaded {
        /// What was looked for.
        library: String,
        /// What the loader said.
        reason: String,
    },
    /// A call came back with an error.
    #[error("{call} answered {code} ({text})")]
    Refused {
        /// The function of PMIx.
        call: &'static str,
        /// Its answer.
        code: i32,
        /// Its answer in the library's words.
        text: String,
    },
    /// Text for the library holds a zero byte, or is too long.
    #[error("`{0}` cannot be handed to PMIx")]
    Text(String),
}

/// A process's part in a job, as PMIx sees it.
#[derive(Debug)]
pub struct Client {
    library: &'static Library,
    this: pmix_proc_t,
}

impl Client {
    /// Loads the library called `name`, a path or a soname, and joins the job that the environment describes.
    ///
    /// # Errors
    /// [`PmixError::NotLoaded`], or what the server said.
    pub fn join(name: &OsStr) -> Result<Client, PmixError> {
        let library: &'static Library = Box::leak(Box::new(load(name)?));
        // SAFETY: all bytes zero are a value of this struct of arrays and integers.
        let mut this: pmix_proc_t = unsafe { std::mem::zeroed() };
        // SAFETY: `this` is valid for writing, and no infos are handed over.
        let code = unsafe { library.PMIx_Init(&mut this, std::ptr::null_mut(), 0) };
        let client = Client { library, this };
        client.check("PMIx_Init", code)?;
        client.watch()?;
        Ok(client)
    }

    /// The version of a library, without joining anything.
    ///
    /// # Errors
    /// [`PmixError::NotLoaded`].
    pub fn version(name: &OsStr) -> Result<String, PmixError> {
        let library: &'static Library = Box::leak(Box::new(load(name)?));
        // SAFETY: the function may be called at any time and answers a static text.
        let text = unsafe { library.PMIx_Get_version() };
        Ok(text_at(text).trim().to_owned())
    }

    /// This process's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.this.rank
    }

    /// The job's name.
    #[must_use]
    pub fn namespace(&self) -> String {
        text_at(self.this.nspace.as_ptr())
    }

    /// A number that the server knows of the job, under one of [`JobNumber`]'s keys; none where it does not.
    ///
    /// # Errors
    /// [`PmixError::Refused`].
    pub fn job_number(&self, number: JobNumber) -> Result<Option<u32>, PmixError> {
        let (key, owner) = match number {
            JobNumber::Size => (bindings::PMIX_JOB_SIZE.as_slice(), bindings::PMIX_RANK_WILDCARD),
            JobNumber::Universe => (bindings::PMIX_UNIV_SIZE.as_slice(), bindings::PMIX_RANK_WILDCARD),
            JobNumber::OnThisNode => (bindings::PMIX_LOCAL_SIZE.as_slice(), bindings::PMIX_RANK_WILDCARD),
            JobNumber::Program => (bindings::PMIX_APPNUM.as_slice(), self.this.rank),
        };
        let key = c_str(key);
        let value = self.fetch(owner, key, &[])?;
        Ok(match value {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        })
    }

    /// The server's own account of which rank sits where, as `(vector,(0,2,2))`; few tell.
    ///
    /// # Errors
    /// [`PmixError::Refused`].
    pub fn node_map(&self) -> Result<Option<String>, PmixError> {
        let asked = [flag(bindings::PMIX_OPTIONAL)];
        Ok(match self.fetch(bindings::PMIX_RANK_WILDCARD, c_str(bindings::PMIX_ANL_MAP), &asked)? {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        })
    }

    /// Publishes bytes under a key of this process; the others see them after the next [`Client::fence`].
    ///
    /// # Errors
    /// [`PmixError::Refused`], [`PmixError::Text`].
    pub fn put(&self, key: &str, bytes: &[u8]) -> Result<(), PmixError> {
        let key = key_of(key)?;
        let object = pmix_byte_object { bytes: bytes.as_ptr().cast_mut().cast(), size: bytes.len() as u64 };
        let data = pmix_value__bindgen_ty_1 { bo: object };
        let mut value = pmix_value_t { type_: bindings::PMIX_BYTE_OBJECT as u16, data };
        // SAFETY: key and value live through the call, which copies them and writes to neither.
        let code = unsafe { self.library.PMIx_Put(bindings::PMIX_GLOBAL as u8, key.as_ptr(), &mut value) };
        self.check("PMIx_Put", code)
    }

    /// Begins to wait until all processes of the job have called it; then each can get what the others have
    /// put.
    ///
    /// # Errors
    /// [`PmixError::Refused`].
    pub fn fence(&self) -> Result<Fence<'_>, PmixError> {
        // SAFETY: the function takes nothing.
        self.check("PMIx_Commit", unsafe { self.library.PMIx_Commit() })?;
        // A process has one fence, and the library may look at these as long as that lasts: they stay.
        let everybody = Box::leak(Box::new(self.place(bindings::PMIX_RANK_WILDCARD)));
        let collect = Box::leak(Box::new(flag(bindings::PMIX_COLLECT_DATA)));
        let state = Arc::new(FenceState::default());
        let theirs = Arc::into_raw(state.clone()).cast_mut().cast();
        // SAFETY: one process and one info are handed over, which are never freed, with a share of the state,
        // which `on_fence` gives back; the library calls that once.
        let code = unsafe { self.library.PMIx_Fence_nb(everybody, 1, collect, 1, Some(on_fence), theirs) };
        if code != bindings::PMIX_SUCCESS as pmix_status_t {
            // SAFETY: it is over already, or never began: the library does not call `on_fence` then.
            drop(unsafe { Arc::from_raw(theirs.cast_const().cast::<FenceState>()) });
            self.check("PMIx_Fence_nb", code)?;
            *lock(&state.answer) = Some(bindings::PMIX_SUCCESS as pmix_status_t);
        }
        Ok(Fence { client: self, state })
    }

    /// What process `owner` has put under the key before the last fence.
    ///
    /// # Errors
    /// [`PmixError::Refused`], [`PmixError::Text`].
    pub fn get(&self, owner: u32, key: &str) -> Result<Option<Vec<u8>>, PmixError> {
        // Not at once: a server may have to fetch what a process of another node has put.
        let value = self.fetch(owner, &key_of(key)?, &[])?;
        Ok(match value {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        })
    }

    /// Asks for the end of the whole job with that exit status.
    ///
    /// # Errors
    /// [`PmixError::Refused`].
    pub fn abort(&self, code: i32) -> Result<(), PmixError> {
        // SAFETY: the text is static, and no processes are named, which means all.
        let answer = unsafe { self.library.PMIx_Abort(code, c"MPI_Abort".as_ptr(), std::ptr::null_mut(), 0) };
        self.check("PMIx_Abort", answer)
    }

    /// Takes leave of the server.
    ///
    /// # Errors
    /// [`PmixError::Refused`].
    pub fn finalize(&self) -> Result<(), PmixError> {
        // SAFETY: no infos are handed over.
        self.check("PMIx_Finalize", unsafe { self.library.PMIx_Finalize(std::ptr::null(), 0) })
    }

    /// Whether the library has told that the server is gone.
    #[must_use]
    pub fn lost(&self) -> bool {
        LOST.load(Ordering::Relaxed)
    }

    /// Lets the library tell when the server is gone.
    fn watch(&self) -> Result<(), PmixError> {
        let mut codes = [bindings::PMIX_ERR_LOST_CONNECTION, bindings::PMIX_ERR_UNREACH];
        // SAFETY: the codes live through the call, which waits for the registration as no callback is given;
        // `on_lost` lives for ever.
        let answer = unsafe {
            self.library.PMIx_Register_event_handler(
                codes.as_mut_ptr(),
                codes.len() as u64,
                std::ptr::null_mut(),
                0,
                Some(on_lost),
                None,
                std::ptr::null_mut(),
            )
        };
        // Answers the number of the handler, from zero.
        if answer >= 0 { Ok(()) } else { self.check("PMIx_Register_event_handler", answer) }
    }

    fn fetch(
        &self,
        owner: pmix_rank_t,
        key: &CStr,
        infos: &[pmix_info_t],
    ) -> Result<Option<Value>, PmixError> {
        let place = self.place(owner);
        let mut found: *mut pmix_value_t = std::ptr::null_mut();
        // SAFETY: place, key and infos live through the call; `found` is valid for writing.
        let code = unsafe {
            self.library.PMIx_Get(&place, key.as_ptr(), infos.as_ptr(), infos.len() as u64, &mut found)
        };
        if code == bindings::PMIX_ERR_NOT_FOUND {
            return Ok(None);
        }
        self.check("PMIx_Get", code)?;
        if found.is_null() {
            return Ok(None);
        }
        // SAFETY: on success the library hands over a value that it allocated with malloc.
        Ok(unsafe { take(found) })
    }

    fn place(&self, rank: pmix_rank_t) -> pmix_proc_t {
        pmix_proc_t { rank, ..self.this }
    }

    fn check(&self, call: &'static str, code: pmix_status_t) -> Result<(), PmixError> {
        if code == bindings::PMIX_SUCCESS as pmix_status_t || code == bindings::PMIX_OPERATION_SUCCEEDED {
            return Ok(());
        }
        // SAFETY: the function may be called with any number and answers a static text.
        let text = text_at(unsafe { self.library.PMIx_Error_string(code) });
        Err(PmixError::Refused { call, code, text })
    }
}

/// A fence that is under way. Dropping it does not end it.
pub struct Fence<'a> {
    client: &'a Client,
    state: Arc<FenceState>,
}

/// How a fence went, once that is known.
#[derive(Default)]
struct FenceState {
    answer: Mutex<Option<pmix_status_t>>,
    answered: Condvar,
}

impl Fence<'_> {
    /// Waits for its end, at most so long; `None` where it is still under way.
    ///
    /// # Errors
    /// [`PmixError::Refused`].
    pub fn wait(&self, at_most: Duration) -> Option<Result<(), PmixError>> {
        let waited = self
            .state
            .answered
            .wait_timeout_while(lock(&self.state.answer), at_most, |answer| answer.is_none());
        let (answer, _) = waited.unwrap_or_else(PoisonError::into_inner);
        answer.map(|code| self.client.check("PMIx_Fence_nb", code))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the server knows of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobNumber {
    /// Its processes.
    Size,
    /// Those of them that the server's node has.
    OnThisNode,
    /// Processes that there could be.
    Universe,
    /// The number of this process's program among those of the job.
    Program,
}

/// A value of the kinds that are used here.
enum Value {
    Number(u32),
    Text(String),
    Bytes(Vec<u8>),
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library")
    }
}

fn load(name: &OsStr) -> Result<Library, PmixError> {
    // SAFETY: whoever names the library vouches for what its constructors do; its functions have the types of
    // `bindings.rs` in all versions with this soname.
    unsafe { Library::new(name) }.map_err(|error| PmixError::NotLoaded {
        library: name.to_string_lossy().into_owned(),
        reason: error.to_string(),
    })
}

/// Copies a value, and gives it back to the allocator; `None` for kinds that are not used here.
///
/// # Safety
/// The value comes from `PMIx_Get`, and nobody uses it afterwards.
unsafe fn take(found: *mut pmix_value_t) -> Option<Value> {
    // SAFETY: the caller's promise; the kind tells which member of the union was written.
    unsafe {
        let value = &*found;
        let (copy, inner): (Option<Value>, *mut c_void) = match u32::from(value.type_) {
            bindings::PMIX_UINT32 => (Some(Value::Number(value.data.uint32)), std::ptr::null_mut()),
            bindings::PMIX_PROC_RANK => (Some(Value::Number(value.data.rank)), std::ptr::null_mut()),
            bindings::PMIX_UINT16 => (Some(Value::Number(value.data.uint16.into())), std::ptr::null_mut()),
            bindings::PMIX_INT => {
                (u32::try_from(value.data.integer).ok().map(Value::Number), std::ptr::null_mut())
            }
            bindings::PMIX_STRING => {
                (Some(Value::Text(text_at(value.data.string))), value.data.string.cast())
            }
            bindings::PMIX_BYTE_OBJECT => {
                let object = value.data.bo;
                let bytes = match object.bytes.is_null() {
                    true => Vec::new(),
                    false => std::slice::from_raw_parts(object.bytes.cast(), object.size as usize).to_vec(),
                };
                (Some(Value::Bytes(bytes)), object.bytes.cast())
            }
            _ => (None, std::ptr::null_mut()),
        };
        libc::free(inner);
        libc::free(found.cast());
        copy
    }
}

/// An info that says yes to a key.
fn flag(key: &[u8]) -> pmix_info_t {
    // SAFETY: all bytes zero are a value of this struct of arrays, integers and a union of the same.
    let mut info: pmix_info_t = unsafe { std::mem::zeroed() };
    info.key.iter_mut().zip(key).for_each(|(to, from)| *to = *from as c_char);
    info.value.type_ = bindings::PMIX_BOOL as u16;
    info.value.data.flag = true;
    info
}

fn key_of(key: &str) -> Result<CString, PmixError> {
    let fits = key.len() <= bindings::PMIX_MAX_KEYLEN as usize;
    CString::new(key).ok().filter(|_| fits).ok_or_else(|| PmixError::Text(key.to_owned()))
}

fn c_str(bytes: &'static [u8]) -> &'static CStr {
    CStr::from_bytes_with_nul(bytes).expect("constants of the header end with a zero byte")
}

/// Text of the library; empty where there is none.
fn text_at(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and the library's texts, like a name space in its array of one byte more than its
    // longest, end with a zero byte.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Set when the server is gone. A process has one PMIx server, so this is the process's.
static LOST: AtomicBool = AtomicBool::new(false);

/// Called by a thread of the library when the server is gone.
///
/// # Safety
/// Only for the library to call.
unsafe extern "C" fn on_lost(
    _handler: u64,
    _status: pmix_status_t,
    _source: *const pmix_proc_t,
    _infos: *mut pmix_info_t,
    _info_count: u64,
    _results: *mut pmix_info_t,
    _result_count: u64,
    done: pmix_event_notification_cbfunc_fn_t,
    data: *mut c_void,
) {
    LOST.store(true, Ordering::Relaxed);
    if let Some(done) = done {
        let complete = bindings::PMIX_EVENT_ACTION_COMPLETE as c_int;
        // SAFETY: the library's own callback, with the data that belongs to it, and no results.
        unsafe { done(complete, std::ptr::null_mut(), 0, None, std::ptr::null_mut(), data) };
    }
}

/// Called by a thread of the library when a fence is over.
///
/// # Safety
/// Only for the library to call, once, with the share of a [`FenceState`] that [`Client::fence`] gave it.
unsafe extern "C" fn on_fence(status: pmix_status_t, data: *mut c_void) {
    // SAFETY: the caller's promise.
    let state = unsafe { Arc::from_raw(data.cast_const().cast::<FenceState>()) };
    *lock(&state.answer) = Some(status);
    state.answered.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let error = Client::version(OsStr::new("libnothing-of-this-name.so.9")).unwrap_err().to_string();
        assert!(error.contains("libnothing-of-this-name.so.9 cannot be loaded"), "{error}");
        let another = Client::version(OsStr::new("libc.so.6")).unwrap_err().to_string();
        assert!(another.contains("PMIx_Init"), "{another}");
    }

    #[test]
    fn a_flag_is_a_key_that_is_true() {
        let info = flag(bindings::PMIX_OPTIONAL);
        assert_eq!(text_at(info.key.as_ptr()), "pmix.optional");
        // SAFETY: `flag` wrote this member.
        assert!(unsafe { info.value.data.flag });
    }

    #[test]
    fn keys_for_the_library_end_where_they_end() {
        assert!(matches!(key_of("a\0b"), Err(PmixError::Text(_))));
        assert!(matches!(key_of(&"k".repeat(512)), Err(PmixError::Text(_))));
        assert!(key_of(&"k".repeat(511)).is_ok());
    }
}
