//! The queue of completions: which operations are over, which messages have come, and what has failed.

use std::ffi::{c_int, c_void};

use super::{BATCH, Endpoint, Operation, OperationMemory};
use crate::bindings::*;
use crate::inline;
use crate::library::text_at;
use crate::offer::Roomy;

/// A completion, as the queue tells of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completed {
    /// The operation that has completed; `None` for something that was never posted.
    pub operation: Option<Operation>,
    /// A message has come, into a part of a receive buffer.
    pub received: bool,
    /// The receive buffer is not used any more, and may be posted again.
    pub released: bool,
    /// How long the message is.
    pub bytes: usize,
    /// The address of the message. The caller checks that it lies in the buffer.
    pub start: usize,
}

impl Completed {
    /// Whether it tells only that a receive buffer is free again, and of no message.
    #[must_use]
    pub fn is_release_only(&self) -> bool {
        self.released && !self.received
    }
}

/// An operation that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The operation that failed; `None` where the provider does not tell, as for an injected message.
    pub operation: Option<Operation>,
    /// Whether the operation is a receive buffer that the provider does not use any more.
    pub released: bool,
    /// The error number of libfabric.
    pub code: i32,
    /// The words of libfabric and of the provider for it.
    pub text: String,
}

impl Endpoint {
    /// Reads the queue; the answer is how many completions [`Endpoint::completed`] tells of, at most
    /// `at_most`.
    ///
    /// # Errors
    /// An operation that failed. There may be more behind it.
    #[inline(always)]
    pub fn poll(&mut self, at_most: usize) -> Result<usize, Box<Failure>> {
        let count = at_most.min(BATCH);
        // SAFETY: the queue is open and of the format of `batch`, which has room for as many.
        let answer = unsafe { inline::fi_cq_read(self.queue, self.batch.as_mut_ptr().cast(), count) };
        match usize::try_from(answer) {
            Ok(read) => Ok(read.min(count)),
            Err(_) if answer == -(FI_EAGAIN as isize) => Ok(0),
            Err(_) => self.failed(answer as c_int),
        }
    }

    /// One of the completions of the last [`Endpoint::poll`].
    #[inline]
    #[must_use]
    pub fn completed(&self, index: usize) -> Completed {
        let entry = &self.batch[index];
        Completed {
            operation: self.operation_of(entry.op_context),
            received: entry.flags & FI_RECV != 0,
            released: entry.flags & FI_MULTI_RECV != 0,
            bytes: entry.len,
            start: entry.buf.addr(),
        }
    }

    #[cold]
    fn failed(&mut self, answer: c_int) -> Result<usize, Box<Failure>> {
        if answer != -(FI_EAVAIL as c_int) {
            let text = self.library.text(answer);
            return Err(Box::new(Failure { operation: None, released: false, code: -answer, text }));
        }
        let mut entry = Roomy::<fi_cq_err_entry>::zeroed();
        // SAFETY: the queue is open, and the entry has room also for what newer libraries write.
        let answer = unsafe { inline::fi_cq_readerr(self.queue, entry.as_mut_ptr(), 0) };
        if answer <= 0 {
            return Ok(0);
        }
        let entry = &entry.known;
        let mut room = [0; TEXT_BYTES_MAX];
        // SAFETY: the entry's data are valid until the queue is read again; `room` takes a text of its
        // length.
        let provider = text_at(unsafe {
            inline::fi_cq_strerror(
                self.queue,
                entry.prov_errno,
                entry.err_data,
                room.as_mut_ptr(),
                room.len(),
            )
        });
        Err(Box::new(Failure {
            operation: self.operation_of(entry.op_context),
            released: entry.flags & FI_MULTI_RECV != 0,
            // Some providers give the negative.
            code: entry.err.saturating_abs(),
            text: format!("{}; {provider} ({})", self.library.text(entry.err), entry.prov_errno),
        }))
    }

    #[inline]
    fn operation_of(&self, context: *mut c_void) -> Option<Operation> {
        let offset = context.addr().checked_sub(self.operations.cast::<u8>().addr())?;
        let (index, rest) = (offset / size_of::<OperationMemory>(), offset % size_of::<OperationMemory>());
        (rest == 0 && index < self.operations.len()).then_some(Operation(index as u32))
    }
}

const TEXT_BYTES_MAX: usize = 256;
