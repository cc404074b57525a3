//! An open endpoint, with all that belongs to it.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::bindings::*;
use crate::inline;
use crate::library::{LibfabricError, Library};
use crate::offer::{Offer, Roomy, Terms};

mod completions;
mod one_sided;
mod regions;
#[cfg(test)]
mod tests;

pub use completions::{Completed, Failure};
pub use one_sided::{Atomic, AtomicKind, Atomics, Change, Local, Scalar, Until};
pub use regions::{Region, Remote, Use};

/// A reliable-datagram endpoint with its queue of completions, its table of addresses and its registered
/// memory.
///
/// All calls take `&mut self`: providers are told that one thread at a time uses a domain.
#[derive(Debug)]
pub struct Endpoint {
    library: Library,
    terms: Terms,
    atomics: Atomics,
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    addresses: *mut fid_av,
    queue: *mut fid_cq,
    ep: *mut fid_ep,
    name: Vec<u8>,
    regions: Vec<*mut fid_mr>,
    free_regions: Vec<u32>,
    next_key: u64,
    operations: *mut [OperationMemory],
    batch: Box<[fi_cq_data_entry; BATCH]>,
}

// SAFETY: the objects may be used by any thread, one at a time, which `&mut self` sees to; nobody else has
// them.
unsafe impl Send for Endpoint {}

/// How much an endpoint is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Operations that can be under way: sends, receive buffers, reads, writes, atomics.
    pub operations: u32,
    /// A receive buffer with less room than this takes no further message.
    pub message_bytes_max: usize,
}

/// The number of an operation: its caller chooses one that is not under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation(pub u32);

/// A peer's address, as a number of this endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address(u64);

/// Memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Its first byte. Calls that only read the memory take it, too.
    pub start: *mut u8,
    /// How many bytes there are.
    pub bytes: usize,
}

impl Span {
    /// The memory `start..start + bytes`.
    #[inline]
    #[must_use]
    pub fn new(start: *const u8, bytes: usize) -> Span {
        Span { start: start.cast_mut(), bytes }
    }
}

/// How many messages a receive buffer takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// One; the buffer is released with it, and nothing says so.
    One,
    /// As many as there is room for.
    Many,
}

/// What became of an operation that was posted.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The provider has it.
    Taken,
    /// Nothing was taken; to be tried again after the queue has been read.
    Again,
    /// The provider refuses, with an error number of libfabric.
    Failed(i32),
}

impl Endpoint {
    /// Opens what is offered.
    ///
    /// # Errors
    /// What the library said, and to which call.
    pub fn open(offer: &Offer, capacity: Capacity) -> Result<Endpoint, LibfabricError> {
        let operations = vec![OperationMemory::EMPTY; capacity.operations as usize].into_boxed_slice();
        let mut endpoint = Endpoint {
            library: offer.library(),
            terms: offer.terms(),
            atomics: Atomics::none(),
            fabric: null_mut(),
            domain: null_mut(),
            addresses: null_mut(),
            queue: null_mut(),
            ep: null_mut(),
            name: Vec::new(),
            regions: Vec::new(),
            free_regions: Vec::new(),
            next_key: 1,
            operations: Box::into_raw(operations),
            batch: Box::new([NO_ENTRY; BATCH]),
        };
        let library = endpoint.library;
        let offer = offer.for_one().ok_or_else(|| library.refused("fi_dupinfo", -FI_ENOMEM))?;
        // What was opened before an error is closed by `drop`.
        endpoint.open_domain(&offer)?;
        endpoint.open_endpoint(&offer, capacity)?;
        endpoint.read_name()?;
        if endpoint.terms.atomics {
            // SAFETY: the endpoint is enabled.
            endpoint.atomics = unsafe { Atomics::of(endpoint.ep) };
            endpoint.terms.atomics = !endpoint.atomics.is_empty();
        }
        Ok(endpoint)
    }

    fn open_domain(&mut self, offer: &Offer) -> Result<(), LibfabricError> {
        let (library, info) = (self.library, offer.info());
        // SAFETY: the info is whole, its part for the fabric belongs to it, and each object goes where it is
        // wanted.
        unsafe {
            let answer = (library.fabric)((*info).fabric_attr, &mut self.fabric, null_mut());
            library.check("fi_fabric", answer)?;
            let answer = inline::fi_domain(self.fabric, info, &mut self.domain, null_mut());
            library.check("fi_domain", answer)?;
        }
        Ok(())
    }

    fn open_endpoint(&mut self, offer: &Offer, capacity: Capacity) -> Result<(), LibfabricError> {
        let (library, info) = (self.library, offer.info());
        let mut for_addresses = Roomy::<fi_av_attr>::zeroed();
        let mut for_queue = Roomy::<fi_cq_attr>::zeroed();
        for_queue.known.format = FI_CQ_FORMAT_DATA;
        for_queue.known.size = (capacity.operations as usize).max(QUEUE_MIN);
        let least = capacity.message_bytes_max;
        // SAFETY: domain and info are open and whole; attributes live through the calls, which copy them.
        unsafe {
            if let Some(domain) = (*info).domain_attr.as_ref() {
                for_addresses.known.type_ = domain.av_type;
            }
            let answer =
                inline::fi_av_open(self.domain, for_addresses.as_mut_ptr(), &mut self.addresses, null_mut());
            library.check("fi_av_open", answer)?;
            let answer = inline::fi_cq_open(self.domain, for_queue.as_mut_ptr(), &mut self.queue, null_mut());
            library.check("fi_cq_open", answer)?;
            let answer = inline::fi_endpoint(self.domain, info, &mut self.ep, null_mut());
            library.check("fi_endpoint", answer)?;
            let answer = inline::fi_ep_bind(self.ep, &raw mut (*self.addresses).fid, 0);
            library.check("fi_ep_bind", answer)?;
            let answer = inline::fi_ep_bind(self.ep, &raw mut (*self.queue).fid, FI_TRANSMIT | FI_RECV);
            library.check("fi_ep_bind", answer)?;
            // The shm provider of libfabric 2 takes it until the endpoint is enabled, and afterwards only
            // says that it does; that of 1.17 has no place for it until then, and crashes.
            let is_early = library.version().major >= 2;
            if is_early {
                self.set_least_room(least)?;
            }
            library.check("fi_enable", inline::fi_enable(self.ep))?;
            if !is_early {
                self.set_least_room(least)?;
            }
        }
        Ok(())
    }

    /// A receive buffer with less room than this is done with. Without it a provider goes on to use one in
    /// which the next message has no place.
    fn set_least_room(&mut self, bytes: usize) -> Result<(), LibfabricError> {
        // SAFETY: the endpoint is open, and the value is copied.
        let answer = unsafe {
            inline::fi_setopt(
                &raw mut (*self.ep).fid,
                FI_OPT_ENDPOINT as c_int,
                FI_OPT_MIN_MULTI_RECV as c_int,
                (&raw const bytes).cast(),
                size_of::<usize>(),
            )
        };
        self.library.check("fi_setopt", answer).map(drop)
    }

    fn read_name(&mut self) -> Result<(), LibfabricError> {
        let mut name = vec![0u8; NAME_BYTES_MAX];
        let mut bytes = name.len();
        // SAFETY: the endpoint is enabled, and `name` has room for `bytes` bytes.
        let answer =
            unsafe { inline::fi_getname(&raw mut (*self.ep).fid, name.as_mut_ptr().cast(), &mut bytes) };
        self.library.check("fi_getname", answer)?;
        name.truncate(bytes);
        self.name = name;
        Ok(())
    }

    /// The endpoint's name, for [`Endpoint::insert`] of peers.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// What was agreed on.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The library's version.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Takes a peer's name into the table of addresses. A name of another length than this endpoint's own is
    /// refused; what it says is for the provider to check.
    ///
    /// # Errors
    /// What the library said.
    pub fn insert(&mut self, name: &[u8]) -> Result<Address, LibfabricError> {
        // Texts have lengths of their own; all others have the length of a structure, which the provider
        // reads.
        let is_text = self.terms.address_format == FI_ADDR_STR;
        let fits = if is_text { name.last() == Some(&0) } else { name.len() == self.name.len() };
        if !fits {
            return Err(self.library.refused("fi_av_insert", -FI_EINVAL));
        }
        let mut address = FI_ADDR_NOTAVAIL;
        // SAFETY: the name has the length of this endpoint's own, or ends with a zero byte where it is a
        // text.
        let answer = unsafe {
            inline::fi_av_insert(self.addresses, name.as_ptr().cast(), 1, &mut address, 0, null_mut())
        };
        self.library.check("fi_av_insert", answer)?;
        if answer == 1 && address != FI_ADDR_NOTAVAIL {
            Ok(Address(address))
        } else {
            Err(self.library.refused("fi_av_insert", -FI_EADDRNOTAVAIL))
        }
    }

    /// Sends a message of at most `inject_bytes_max` bytes. The bytes are taken when this returns; nothing
    /// completes.
    #[inline]
    pub fn inject(&mut self, data: &[u8], to: Address) -> Answer {
        debug_assert!(data.len() <= self.terms.inject_bytes_max, "more bytes than may be injected");
        // SAFETY: the endpoint is enabled, and the bytes are read before the call returns.
        Answer::of(unsafe { inline::fi_inject(self.ep, data.as_ptr().cast(), data.len(), to.0) })
    }

    /// Sends a message; completes under `operation`.
    ///
    /// # Safety
    /// The operation is not under way. `memory` stays readable and unchanged until it has completed or the
    /// endpoint is closed, and lies in `region` where there is one.
    #[inline]
    pub unsafe fn send(
        &mut self,
        operation: Operation,
        memory: Span,
        region: Option<&Region>,
        to: Address,
    ) -> Answer {
        let (context, desc) = (self.context(operation), self.descriptor(region));
        // SAFETY: the caller's promise; the context lives as long as the endpoint.
        Answer::of(unsafe {
            inline::fi_send(self.ep, memory.start.cast(), memory.bytes, desc, to.0, context)
        })
    }

    /// Hands over a receive buffer for one message or many, of any peers; completes under `operation` with
    /// each of them, and is released with the last or after it.
    ///
    /// # Safety
    /// The operation is not under way. Nobody but the provider writes `memory` until it is released or the
    /// endpoint is closed, and it lies in `region` where there is one.
    pub unsafe fn receive(
        &mut self,
        operation: Operation,
        memory: Span,
        region: Option<&Region>,
        takes: Takes,
    ) -> Answer {
        let (context, desc) = (self.context(operation), self.descriptor(region));
        let kept = context.cast::<OperationMemory>();
        let flags = if takes == Takes::Many { FI_MULTI_RECV } else { 0 };
        // SAFETY: `context` is that operation's memory, of which the provider uses the context only while it
        // is under way; vector and descriptor stay beside it. The rest is the caller's promise.
        Answer::of(unsafe {
            (*kept).vector = libc::iovec { iov_base: memory.start.cast(), iov_len: memory.bytes };
            (*kept).descriptor = desc;
            let message = fi_msg {
                msg_iov: &raw const (*kept).vector,
                desc: &raw mut (*kept).descriptor,
                iov_count: 1,
                addr: FI_ADDR_UNSPEC,
                context,
                data: 0,
            };
            inline::fi_recvmsg(self.ep, &message, flags)
        })
    }

    /// Reads a peer's memory; completes under `operation`.
    ///
    /// # Safety
    /// The operation is not under way. Nobody but the provider uses `memory` until it has completed or the
    /// endpoint is closed, and it lies in `region` where there is one.
    pub unsafe fn read(
        &mut self,
        operation: Operation,
        memory: Span,
        region: Option<&Region>,
        from: Address,
        remote: Remote,
    ) -> Answer {
        let (context, desc) = (self.context(operation), self.descriptor(region));
        // SAFETY: the caller's promise. What the peer told of its memory is checked by its provider.
        Answer::of(unsafe {
            inline::fi_read(
                self.ep,
                memory.start.cast(),
                memory.bytes,
                desc,
                from.0,
                remote.address,
                remote.key,
                context,
            )
        })
    }

    /// Closes everything; the answer is whether nobody can touch memory any more that was handed over.
    pub fn close(&mut self) -> bool {
        // SAFETY: each object is open or null, and those that others stand on are closed after these.
        unsafe {
            // Some providers keep an endpoint while registrations are bound to it; others want it closed
            // before them.
            let mut closed = close(&mut self.ep);
            for mr in &mut self.regions {
                close(mr);
            }
            if !closed {
                closed = close(&mut self.ep);
            }
            if closed {
                close(&mut self.queue);
                close(&mut self.addresses);
                close(&mut self.domain);
                close(&mut self.fabric);
            }
            closed
        }
    }

    /// What the provider is given for an operation.
    #[inline]
    fn context(&self, operation: Operation) -> *mut c_void {
        assert!(
            (operation.0 as usize) < self.operations.len(),
            "operation {} is beyond the end",
            operation.0
        );
        // SAFETY: the index is inside, as was checked.
        unsafe { self.operations.cast::<OperationMemory>().add(operation.0 as usize) }.cast()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.close() {
            // SAFETY: made by `Box::into_raw`, and the provider has nothing of it any more.
            drop(unsafe { Box::from_raw(self.operations) });
        }
    }
}

impl Answer {
    /// The provider has no room for the operation.
    pub const NO_ROOM: Answer = Answer::Failed(FI_ENOMEM);

    #[inline]
    fn of(answer: isize) -> Answer {
        match answer {
            0 => Answer::Taken,
            _ if answer == -(FI_EAGAIN as isize) => Answer::Again,
            _ => Answer::Failed(answer.unsigned_abs() as i32),
        }
    }
}

/// Closes an object if there is one; false where the provider will not. Then it stays.
///
/// # Safety
/// The object is open or null.
unsafe fn close<T>(object: &mut *mut T) -> bool {
    if !object.is_null() {
        // SAFETY: the caller's promise; every object begins with its `fid`.
        if unsafe { inline::fi_close(object.cast()) } != 0 {
            return false;
        }
        *object = null_mut();
    }
    true
}

/// What an operation keeps while it is under way. The context comes first: its address is the operation's,
/// and the number is found from it by a shift.
#[repr(C, align(128))]
#[derive(Clone, Copy)]
struct OperationMemory {
    context: fi_context2,
    vector: libc::iovec,
    descriptor: *mut c_void,
    remote: fi_rma_iov,
}

impl OperationMemory {
    const EMPTY: OperationMemory = OperationMemory {
        context: fi_context2 { internal: [null_mut(); 8] },
        vector: libc::iovec { iov_base: null_mut(), iov_len: 0 },
        descriptor: null_mut(),
        remote: fi_rma_iov { addr: 0, len: 0, key: 0 },
    };
}

const _: () = assert!(std::mem::offset_of!(OperationMemory, context) == 0);
const NO_ENTRY: fi_cq_data_entry =
    fi_cq_data_entry { op_context: null_mut(), flags: 0, len: 0, buf: null_mut(), data: 0 };
/// Completions that are read at once.
const BATCH: usize = 16;
/// Even a small endpoint can get this many completions between two looks.
const QUEUE_MIN: usize = 1024;
const NAME_BYTES_MAX: usize = 512;
