//! Partitioned communication (MPI 5.0 §5): requests that are begun again and again, whose buffers are sent
//! and received in parts.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use weft::claims::{Heap, Outcome, Payload, UserMemory};
use weft::{Class, Error, PartitionedReceive, PartitionedSend, Rank, Result};

use crate::arguments::{self, Partner, bytes_of};
use crate::bodies::datatypes::resolve_elements;
use crate::bodies::info;
use crate::bodies::persistent::{self, Plan};
use crate::claims::{Buffer, List, Place, Received, Sent};
use crate::entry::Target;
use crate::generated::constants::MPI_REQUEST_NULL;
use crate::objects::{Held, RequestObject, Type, lock};
use crate::requests::no_request;
use crate::state::{self, Runtime, call};
use crate::status;
use crate::types::*;

/// The program's buffer, as so many sections of `count` elements one behind the other.
struct PartitionLayout<B> {
    buffer: B,
    count: i64,
    datatype: Type,
    /// Room for the packed data of all sections, where elements have gaps.
    packed: Option<Heap>,
    /// Packed bytes of each.
    bytes: usize,
    partitions: u32,
}

impl<B: Buffer> PartitionLayout<B> {
    /// Checks the arguments.
    fn new(
        runtime: &'static Runtime,
        buffer: B,
        partitions: c_int,
        count: MPI_Count,
        datatype: MPI_Datatype,
    ) -> Result<PartitionLayout<B>> {
        let datatype = resolve_elements(runtime, count, datatype)?;
        let Ok(partitions) = u32::try_from(partitions) else {
            let what = format!("the number of partitions is {partitions}");
            return Err(Error::new(Class::Argument, what));
        };
        let bytes = bytes_of(count, &datatype)?;
        let total = i64::from(partitions).checked_mul(count);
        let total = total.ok_or_else(|| Error::new(Class::Count, "the partitions have too many elements"))?;
        arguments::buffer_span(buffer.start(), total, &datatype)?;
        let packed = match datatype.is_dense() {
            true => None,
            false => Some(Heap::new(bytes_of(total, &datatype)?)),
        };
        Ok(PartitionLayout { buffer, count, datatype, packed, bytes, partitions })
    }

    /// A number for the kinds of the first `bytes` bytes of all elements, with `WEFT_CHECK`; 0 without.
    fn signature(&self, bytes: usize) -> u32 {
        match state::checks() {
            true => self.datatype.digest(i64::from(self.partitions) * self.count, bytes as i64),
            false => 0,
        }
    }

    /// How many bytes stand before the elements of a partition.
    fn start(&self, partition: usize) -> usize {
        let each = self.count.wrapping_mul(self.datatype.extent()) as usize;
        partition.wrapping_mul(each)
    }
}

impl PartitionLayout<Sent> {
    /// All of it, for a send.
    fn payload(&self) -> Result<Payload<'static>> {
        match &self.packed {
            // SAFETY: the request keeps what is packed as long as it is there, and a round of it that is
            // under way.
            Some(packed) => Ok(unsafe { packed.memory().reading() }),
            None => {
                let total = i64::from(self.partitions) * self.count;
                arguments::readable(self.buffer, total, &self.datatype)
            }
        }
    }

    /// Packs a partition, where that is needed.
    fn pack(&self, partition: usize) -> Result<()> {
        let Some(packed) = &self.packed else { return Ok(()) };
        let from = self.buffer.behind(self.start(partition));
        let span = arguments::readable(from, self.count, &self.datatype)?;
        let mut into = packed.memory().part(partition * self.bytes, self.bytes);
        datatype::pack_memory(&self.datatype, self.count, span, &mut into, 0)
            .map(drop)
            .map_err(|error| Error::new(Class::Buffer, error.to_string()))
    }
}

impl PartitionLayout<Received> {
    /// Room for all of it, for a receive.
    fn memory(&self) -> Result<UserMemory> {
        match &self.packed {
            Some(packed) => Ok(packed.memory()),
            None => {
                let total = i64::from(self.partitions) * self.count;
                arguments::writable(self.buffer, total, &self.datatype)
            }
        }
    }

    /// Brings the packed data of a partition to its place, as far as there are `bytes` of all data.
    fn unpack(&self, partition: usize, bytes: usize) -> Result<()> {
        let Some(packed) = &self.packed else { return Ok(()) };
        let to = self.buffer.behind(self.start(partition));
        let mut span = arguments::writable(to, self.count, &self.datatype)?;
        let start = partition * self.bytes;
        let there = packed.payload().part(start, self.bytes.min(bytes.saturating_sub(start)));
        datatype::unpack(&self.datatype, self.count, there, &mut span, 0)
            .map(drop)
            .map_err(|error| Error::new(Class::Buffer, error.to_string()))
    }
}

/// The sending side, as C describes it.
pub(crate) struct Sender {
    sections: PartitionLayout<Sent>,
    side: PartitionedSend,
}

/// The receiving side, as C describes it.
pub(crate) struct Receiver {
    sections: PartitionLayout<Received>,
    side: PartitionedReceive,
    /// Which partitions of a layout with gaps are in their places.
    placed: Mutex<Vec<bool>>,
}

impl Sender {
    /// Begins a round.
    pub(super) fn begin(self: Arc<Sender>, errors_to: MPI_Comm) -> Result<RequestObject> {
        let id = self.side.start(self.sections.payload()?)?;
        Ok(RequestObject::PartitionedSend { sender: self, errors_to, id })
    }

    /// The communicator whose engine has the request.
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
        if self.sections.packed.is_some() {
            // What is under way is not packed again.
            let fresh = |partition: &c_int| !self.side.is_ready(*partition as usize);
            for partition in partitions.clone().filter(fresh) {
                self.sections.pack(partition as usize)?;
            }
        }
        self.side.ready(partitions.map(|partition| partition as u32))
    }
}

impl Receiver {
    /// Begins a round.
    pub(super) fn begin(self: Arc<Receiver>, errors_to: MPI_Comm) -> Result<RequestObject> {
        let memory = self.sections.memory()?;
        lock(&self.placed).fill(false);
        let id = self.side.start(memory)?;
        Ok(RequestObject::PartitionedReceive { receiver: self, errors_to, id })
    }

    /// The communicator whose engine has the request.
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

    /// What is wrong with the elements that the sender has described: there are fewer than the receive
    /// expects or, with `WEFT_CHECK`, they are of other kinds. Where there are too many, the round says so.
    /// (MPI 5.0 section 5.2: both sides describe as much data)
    fn mismatch(&self) -> Option<Error> {
        let brings = self.side.brings()?;
        let sent_bytes = brings.total_bytes();
        let are_alike = !self.brings_others();
        let are_fewer = sent_bytes < self.sections.partitions as usize * self.sections.bytes;
        if are_alike && !are_fewer {
            return None;
        }
        let what = format!(
            "{}: MPI_Precv_init expects {} partitions of {} of {}, and MPI_Psend_init at rank {} sends {} partitions of {} bytes \
             which are {} elements",
            self.communicator().place(),
            self.sections.partitions,
            self.sections.count,
            self.sections.datatype.name(),
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
            let expected = self.sections.signature(brings.total_bytes());
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
            self.sections.unpack(partition, bytes)?;
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
            self.sections.unpack(partition as usize, bytes)?;
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
pub fn mpi_psend_init(
    buf: Sent,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: Place<'_, MPI_Request>,
) -> c_int {
    persistent::adopt("MPI_Psend_init", comm, request, |runtime, held| {
        info::check(info)?;
        let (to, tag) = (partner(held, dest)?, arguments::tag(tag)?);
        let sections = PartitionLayout::new(runtime, buf, partitions, count, datatype)?;
        let signature = sections.signature(sections.partitions as usize * sections.bytes);
        let side = held.comm.partitioned_send(to, tag, sections.partitions, sections.bytes, signature)?;
        Ok(Plan::PartitionedSend(Arc::new(Sender { sections, side })))
    })
}

/// Describes a partitioned receive.
pub fn mpi_precv_init(
    buf: Received,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: Place<'_, MPI_Request>,
) -> c_int {
    persistent::adopt("MPI_Precv_init", comm, request, |runtime, held| {
        info::check(info)?;
        let (from, tag) = (partner(held, dest)?, arguments::tag(tag)?);
        let sections = PartitionLayout::new(runtime, buf, partitions, count, datatype)?;
        let side = held.comm.partitioned_receive(from, tag, sections.partitions, sections.bytes)?;
        let with_gaps = if sections.packed.is_some() { sections.partitions as usize } else { 0 };
        let placed = Mutex::new(vec![false; with_gaps]);
        Ok(Plan::PartitionedReceive(Arc::new(Receiver { sections, side, placed })))
    })
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
pub fn mpi_pready(partition: c_int, request: MPI_Request) -> c_int {
    with_sender("MPI_Pready", request, |sender| sender.ready(std::iter::once(partition)))
}

/// Says that the partitions from one to another are ready, both included.
pub fn mpi_pready_range(partition_low: c_int, partition_high: c_int, request: MPI_Request) -> c_int {
    with_sender("MPI_Pready_range", request, |sender| {
        if partition_low > partition_high {
            let what = format!("the range from {partition_low} to {partition_high} is empty");
            return Err(Error::new(Class::Argument, what));
        }
        sender.ready(partition_low..=partition_high)
    })
}

/// Says that the partitions of a list are ready.
pub fn mpi_pready_list(length: c_int, array_of_partitions: List<'_, c_int>, request: MPI_Request) -> c_int {
    with_sender("MPI_Pready_list", request, |sender| {
        let partitions = array_of_partitions.slice(i64::from(length), "array_of_partitions")?;
        sender.ready(partitions.iter().copied())
    })
}

/// Whether a partition has arrived. Of a request that is null or was not started, all have.
pub fn mpi_parrived(request: MPI_Request, partition: c_int, flag: Place<'_, c_int>) -> c_int {
    call("MPI_Parrived", Target::World, |runtime| {
        let flag = flag.checked("flag")?;
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
