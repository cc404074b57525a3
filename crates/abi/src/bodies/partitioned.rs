//! Partitioned communication (MPI 5.0 §5): requests that are begun again and again, whose buffers are sent and received
//! in parts.

use std::ffi::{c_int, c_void};
use std::ptr::with_exposed_provenance_mut;
use std::sync::{Arc, Mutex};

use weft::claims::{Heap, Outcome, Payload, UserMemory};
use weft::{Class, Error, PartitionedReceive, PartitionedSend, Rank, Result};

use crate::arguments::{self, Partner, bytes_of};
use crate::bodies::datatypes::resolve_elements;
use crate::bodies::info;
use crate::bodies::persistent::{self, Plan};
use crate::bodies::pointers::{Place, array};
use crate::entry::Target;
use crate::generated::constants::MPI_REQUEST_NULL;
use crate::objects::{Held, RequestObject, Type, lock};
use crate::requests::no_request;
use crate::state::{self, Runtime, call};
use crate::status;
use crate::types::*;

/// The program's buffer, as so many pieces of `count` elements one behind the other.
struct Pieces {
    buffer: usize,
    count: i64,
    datatype: Type,
    /// Room for the packed data of all pieces, where elements have gaps.
    packed: Option<Heap>,
    /// Packed bytes of each.
    bytes: usize,
    partitions: u32,
}

impl Pieces {
    /// Checks the arguments.
    fn new(
        runtime: &'static Runtime,
        buffer: *const c_void,
        partitions: c_int,
        count: MPI_Count,
        datatype: MPI_Datatype,
    ) -> Result<Pieces> {
        let datatype = resolve_elements(runtime, count, datatype)?;
        let Ok(partitions) = u32::try_from(partitions) else {
            let what = format!("the number of partitions is {partitions}");
            return Err(Error::new(Class::Argument, what));
        };
        let bytes = bytes_of(count, &datatype)?;
        let total = i64::from(partitions).checked_mul(count);
        let total = total.ok_or_else(|| Error::new(Class::Count, "the partitions have too many elements"))?;
        arguments::buffer_span(buffer, total, &datatype)?;
        let packed = match datatype.is_dense() {
            true => None,
            false => Some(Heap::new(bytes_of(total, &datatype)?)),
        };
        Ok(Pieces { buffer: buffer.expose_provenance(), count, datatype, packed, bytes, partitions })
    }

    /// A number for the kinds of the first `bytes` bytes of all elements, with `WEFT_CHECK`; 0 without.
    fn signature(&self, bytes: usize) -> u32 {
        match state::checks() {
            true => self.datatype.digest(i64::from(self.partitions) * self.count, bytes as i64),
            false => 0,
        }
    }

    /// Where the elements of a partition begin.
    fn start(&self, partition: usize) -> *mut c_void {
        let each = self.count.wrapping_mul(self.datatype.extent()) as usize;
        with_exposed_provenance_mut(self.buffer.wrapping_add(partition.wrapping_mul(each)))
    }

    /// All of it, for a send.
    ///
    /// # Safety
    /// The program's promise: the elements are readable until the operation is over.
    unsafe fn payload(&self) -> Result<Payload<'static>> {
        match &self.packed {
            // SAFETY: the request keeps what is packed as long as it is there, and a round of it that is under way.
            Some(packed) => Ok(unsafe { packed.memory().reading() }),
            None => {
                let total = i64::from(self.partitions) * self.count;
                // SAFETY: the caller's promise is handed on.
                unsafe { arguments::readable(self.start(0), total, &self.datatype) }
            }
        }
    }

    /// Packs a partition, where that is needed.
    ///
    /// # Safety
    /// The program's promise: the elements of the partition are readable now.
    unsafe fn pack(&self, partition: usize) -> Result<()> {
        let Some(packed) = &self.packed else { return Ok(()) };
        // SAFETY: the caller's promise is handed on.
        let span = unsafe { arguments::readable(self.start(partition), self.count, &self.datatype)? };
        let mut into = packed.memory().part(partition * self.bytes, self.bytes);
        datatype::pack_memory(&self.datatype, self.count, span, &mut into, 0)
            .map(drop)
            .map_err(|error| Error::new(Class::Buffer, error.to_string()))
    }

    /// Room for all of it, for a receive.
    ///
    /// # Safety
    /// The program's promise: the elements are its to give until the operation is over.
    unsafe fn memory(&self) -> Result<UserMemory> {
        match &self.packed {
            Some(packed) => Ok(packed.memory()),
            None => {
                let total = i64::from(self.partitions) * self.count;
                // SAFETY: the caller's promise is handed on.
                unsafe { arguments::writable(self.start(0), total, &self.datatype) }
            }
        }
    }

    /// Brings the packed data of a partition to its place, as far as there are `bytes` of all data.
    ///
    /// # Safety
    /// The program's promise: the elements of the partition are its to give now.
    unsafe fn unpack(&self, partition: usize, bytes: usize) -> Result<()> {
        let Some(packed) = &self.packed else { return Ok(()) };
        // SAFETY: the caller's promise is handed on.
        let mut span = unsafe { arguments::writable(self.start(partition), self.count, &self.datatype)? };
        let start = partition * self.bytes;
        let there = packed.payload().part(start, self.bytes.min(bytes.saturating_sub(start)));
        datatype::unpack(&self.datatype, self.count, there, &mut span, 0)
            .map(drop)
            .map_err(|error| Error::new(Class::Buffer, error.to_string()))
    }
}

/// The sending side, as C describes it.
pub(crate) struct Sender {
    pieces: Pieces,
    side: PartitionedSend,
}

/// The receiving side, as C describes it.
pub(crate) struct Receiver {
    pieces: Pieces,
    side: PartitionedReceive,
    /// Which partitions of a layout with gaps are in their places.
    placed: Mutex<Vec<bool>>,
}

impl Sender {
    /// Begins a round.
    pub(super) fn begin(self: Arc<Sender>, errors_to: MPI_Comm) -> Result<RequestObject> {
        // SAFETY: the program promised it with the call that described the operation.
        let id = self.side.start(unsafe { self.pieces.payload()? })?;
        Ok(RequestObject::PartitionedSend { sender: self, errors_to, id })
    }

    /// Whose engine has the request.
    pub(crate) fn communicator(&self) -> &weft::Communicator {
        self.side.communicator()
    }

    /// Whether a round went well.
    pub(super) fn conclude(&self, outcome: &Outcome) -> Result<()> {
        self.side.conclude(outcome)
    }

    fn ready(&self, partitions: impl Iterator<Item = c_int> + Clone) -> Result<()> {
        let last = self.side.partitions();
        let exists = |partition: &c_int| usize::try_from(*partition).is_ok_and(|at| at < last);
        if let Some(partition) = partitions.clone().find(|partition| !exists(partition)) {
            let what = format!("partition {partition} does not exist, there are {last}");
            return Err(Error::new(Class::Argument, what));
        }
        if self.pieces.packed.is_some() {
            // What is under way is not packed again.
            let fresh = |partition: &c_int| !self.side.is_ready(*partition as usize);
            for partition in partitions.clone().filter(fresh) {
                // SAFETY: the program says by this call that the partition is filled.
                unsafe { self.pieces.pack(partition as usize)? };
            }
        }
        self.side.ready(partitions.map(|partition| partition as u32))
    }
}

impl Receiver {
    /// Begins a round.
    pub(super) fn begin(self: Arc<Receiver>, errors_to: MPI_Comm) -> Result<RequestObject> {
        // SAFETY: the program promised it with the call that described the operation.
        let memory = unsafe { self.pieces.memory()? };
        lock(&self.placed).fill(false);
        let id = self.side.start(memory)?;
        Ok(RequestObject::PartitionedReceive { receiver: self, errors_to, id })
    }

    /// Whose engine has the request.
    pub(crate) fn communicator(&self) -> &weft::Communicator {
        self.side.communicator()
    }

    /// What is known of the message when a round is over, and what went wrong.
    pub(super) fn received(&self, outcome: &Outcome) -> (MPI_Status, Option<Error>) {
        if self.side.is_with_nobody() {
            return (status::NOBODY, None);
        }
        let received = self.communicator().conclude_receive(&self.side.outcome(outcome));
        (status::of(&received.status), received.error.or_else(|| self.mismatch()))
    }

    /// What is wrong with the elements that the sender has described: there are fewer than the receive expects or, with
    /// `WEFT_CHECK`, they are of other kinds. Where there are too many, the round says so. (MPI 5.0 section 5.2: both sides
    /// describe as much data)
    fn mismatch(&self) -> Option<Error> {
        let brings = self.side.brings()?;
        let sent_bytes = brings.total_bytes();
        let are_alike = !self.brings_others();
        let are_fewer = sent_bytes < self.pieces.partitions as usize * self.pieces.bytes;
        if are_alike && !are_fewer {
            return None;
        }
        let what = format!(
            "{}: MPI_Precv_init expects {} partitions of {} of {}, and MPI_Psend_init at rank {} sends {} partitions of {} bytes \
             which are {} elements",
            self.communicator().place(),
            self.pieces.partitions,
            self.pieces.count,
            self.pieces.datatype.name(),
            brings.source.0,
            brings.partitions,
            brings.bytes,
            if are_alike { "fewer" } else { "other" },
        );
        Some(
            Error::new(Class::Type, what)
                .remedy("give both ends as many elements, of the same kinds in the same order"),
        )
    }

    /// Whether the sender has described elements that are no such as this side's, with `WEFT_CHECK`.
    fn brings_others(&self) -> bool {
        self.side.brings().filter(|_| state::checks()).is_some_and(|brings| {
            let expected = self.pieces.signature(brings.total_bytes());
            expected != 0 && brings.signature != 0 && expected != brings.signature
        })
    }

    /// Brings all data to its place.
    pub(super) fn finish(&self, status: &MPI_Status) -> Result<()> {
        if self.brings_others() {
            return Ok(());
        }
        let bytes = status::bytes(status) as usize;
        let mut placed = lock(&self.placed);
        for (partition, placed) in placed.iter_mut().enumerate().filter(|(_, placed)| !**placed) {
            // SAFETY: the program promised it with the call that described the operation, which is over just now.
            unsafe { self.pieces.unpack(partition, bytes)? };
            *placed = true;
        }
        Ok(())
    }

    fn arrived(&self, partition: u32) -> Result<bool> {
        if !self.side.arrived(partition)? {
            return Ok(false);
        }
        if self.side.is_with_nobody() || self.brings_others() {
            return Ok(true);
        }
        if let Some(placed) = lock(&self.placed).get_mut(partition as usize)
            && !std::mem::replace(placed, true)
        {
            let bytes = self.side.brings().map_or(0, |brings| brings.total_bytes());
            // SAFETY: the round goes on, so the buffer is the operation's.
            unsafe { self.pieces.unpack(partition as usize, bytes)? };
        }
        Ok(true)
    }
}

/// Whom an operation is with; `None` is nobody.
fn partner(held: &Held, rank: c_int) -> Result<Option<Rank>> {
    Ok(match arguments::destination(&held.comm, rank)? {
        Partner::Rank(rank) => Some(rank),
        Partner::Nobody | Partner::Any => None,
    })
}

/// Describes a partitioned send.
///
/// # Safety
/// `buf` holds `partitions` times `count` elements of `datatype`; each partition is readable from the call that says that
/// it is ready until the request is over. `request` is null or writable.
pub unsafe fn mpi_psend_init(
    buf: *const c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe {
        persistent::adopt("MPI_Psend_init", comm, request, |runtime, held| {
            info::check(info)?;
            let (to, tag) = (partner(held, dest)?, arguments::tag(tag)?);
            let pieces = Pieces::new(runtime, buf, partitions, count, datatype)?;
            let signature = pieces.signature(pieces.partitions as usize * pieces.bytes);
            let side = held.comm.partitioned_send(to, tag, pieces.partitions, pieces.bytes, signature)?;
            Ok(Plan::PartitionedSend(Arc::new(Sender { pieces, side })))
        })
    }
}

/// Describes a partitioned receive.
///
/// # Safety
/// `buf` has room for `partitions` times `count` elements of `datatype`, untouched whenever the request is active, but for
/// partitions that have arrived. `request` is null or writable.
pub unsafe fn mpi_precv_init(
    buf: *mut c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the program's promise is handed on.
    unsafe {
        persistent::adopt("MPI_Precv_init", comm, request, |runtime, held| {
            info::check(info)?;
            let (from, tag) = (partner(held, dest)?, arguments::tag(tag)?);
            let pieces = Pieces::new(runtime, buf, partitions, count, datatype)?;
            let side = held.comm.partitioned_receive(from, tag, pieces.partitions, pieces.bytes)?;
            let with_gaps = if pieces.packed.is_some() { pieces.partitions as usize } else { 0 };
            let placed = Mutex::new(vec![false; with_gaps]);
            Ok(Plan::PartitionedReceive(Arc::new(Receiver { pieces, side, placed })))
        })
    }
}

/// Does something with the sender behind a request that is active.
fn with_sender(name: &'static str, request: MPI_Request, act: impl FnOnce(&Sender) -> Result<()>) -> c_int {
    call(name, Target::World, |runtime| {
        let sender = match runtime.objects().operation(request) {
            Some(Some(RequestObject::PartitionedSend { sender, .. })) => Arc::clone(sender),
            Some(None) => return Err(no_request(request).during("the request was not started")),
            _ => return Err(no_request(request).during("not a partitioned send")),
        };
        act(&sender)
    })
}

/// Says that a partition is ready.
///
/// # Safety
/// The partition is readable and stays as it is until the request is over.
pub unsafe fn mpi_pready(partition: c_int, request: MPI_Request) -> c_int {
    with_sender("MPI_Pready", request, |sender| sender.ready(std::iter::once(partition)))
}

/// Says that the partitions from one to another are ready, both included.
///
/// # Safety
/// As for [`mpi_pready`], for all of them.
pub unsafe fn mpi_pready_range(partition_low: c_int, partition_high: c_int, request: MPI_Request) -> c_int {
    with_sender("MPI_Pready_range", request, |sender| {
        if partition_low > partition_high {
            let what = format!("the range from {partition_low} to {partition_high} is empty");
            return Err(Error::new(Class::Argument, what));
        }
        sender.ready(partition_low..=partition_high)
    })
}

/// Says that the partitions of a list are ready.
///
/// # Safety
/// As for [`mpi_pready`], for all of them; `array_of_partitions` has `length` entries.
pub unsafe fn mpi_pready_list(
    length: c_int,
    array_of_partitions: *const c_int,
    request: MPI_Request,
) -> c_int {
    with_sender("MPI_Pready_list", request, |sender| {
        // SAFETY: the program's promise is handed on.
        let partitions = unsafe { array(array_of_partitions, i64::from(length), "array_of_partitions")? };
        sender.ready(partitions.iter().copied())
    })
}

/// Whether a partition has arrived. Of a request that is null or was not started, all have.
///
/// # Safety
/// `flag` is null or writable.
pub unsafe fn mpi_parrived(request: MPI_Request, partition: c_int, flag: *mut c_int) -> c_int {
    call("MPI_Parrived", Target::World, |runtime| {
        // SAFETY: the program's promise is handed on.
        let flag = unsafe { Place::new(flag, "flag")? };
        let arrived = match find_receiver(runtime, request)? {
            None => true,
            Some(receiver) => match u32::try_from(partition) {
                Ok(partition) => receiver.arrived(partition)?,
                Err(_) => {
                    let what = format!("partition {partition} does not exist");
                    return Err(Error::new(Class::Argument, what));
                }
            },
        };
        flag.set(c_int::from(arrived));
        Ok(())
    })
}

/// The receiver behind a request that is active.
fn find_receiver(runtime: &'static Runtime, request: MPI_Request) -> Result<Option<Arc<Receiver>>> {
    if request == MPI_REQUEST_NULL {
        return Ok(None);
    }
    match runtime.objects().operation(request) {
        Some(Some(RequestObject::PartitionedReceive { receiver, .. })) => Ok(Some(Arc::clone(receiver))),
        Some(None) => Ok(None),
        _ => Err(no_request(request).during("not a partitioned receive")),
    }
}
