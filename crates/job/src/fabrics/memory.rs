//! Memory that processes of a node have in common: made by one of them, and handed to the others.

use std::os::fd::{AsFd, OwnedFd};

use fabric::Peer;

use super::{
    Common, FailureLog, HANDOUT_TIMEOUT, HandoutError, LivenessDescriptor, Offer, Place, Segment,
    SegmentError, WaitStates, anew, fetch, refused,
};
use crate::config::{Config, FabricName};
use crate::error::{Class, Error, Result};

/// Shared memory for a job of `ranks` ranks on this node, to be handed down to them.
///
/// # Errors
/// With the bytes that were needed, where memory or descriptors are short.
pub fn create_segment(ranks: u32) -> Result<OwnedFd> {
    Segment::create(ranks).map_err(|error| segment_refused(&error))
}

/// Shared memory for ranks that are threads; none where shm is not allowed.
///
/// # Errors
/// Where memory or descriptors are short.
pub fn segment_for_threads(ranks: u32, config: &Config) -> Result<Option<OwnedFd>> {
    if ranks == 1 || !config.allows(FabricName::Shm) {
        return Ok(None);
    }
    create_segment(ranks).map(Some)
}

/// The segment of this node, by the descriptor that the launcher left open for us.
pub(super) fn inherited_segment(number: i32) -> Result<OwnedFd> {
    inherited(number, "shm: ", "WEFT_SHM_FD")
}

/// The launcher's failure log of failures, by the number of the descriptor that it left open.
///
/// # Errors
/// Where the descriptor is closed, or is of no such memory.
pub fn inherited_failure_log(number: i32, peers: u32) -> Result<FailureLog> {
    let file = inherited(number, "", "WEFT_FAILURES_FD")?;
    FailureLog::adopt(&file, peers).map_err(|error| segment_refused(&error))
}

/// The pipe that the launcher writes to when it has written into the failure log of failures.
///
/// # Errors
/// Where the descriptor is closed.
pub fn inherited_pipe(number: i32) -> Result<OwnedFd> {
    inherited(number, "", "the failure log")
}

/// Begins the pulse by which the launcher sees when this process ends.
///
/// # Errors
/// Where the descriptor is closed, or is of no such memory.
pub fn begin_liveness_descriptor(number: i32, peers: u32, here: Peer) -> Result<LivenessDescriptor> {
    let file = inherited(number, "", "WEFT_PULSES_FD")?;
    LivenessDescriptor::begin(file, peers, here).map_err(|error| segment_refused(&error))
}

/// Where this process writes what its calls wait for, by the number of the descriptor that the launcher left
/// open; none where it cannot be had, since a job does well without.
#[must_use]
pub fn inherited_wait_states(number: i32, peers: u32) -> Option<WaitStates> {
    WaitStates::adopt(inherited(number, "", "WEFT_WAIT_STATES_FD").ok()?, peers).ok()
}

/// A descriptor that the launcher left open for us, opened anew: the number itself is not ours to own.
fn inherited(number: i32, whose: &str, told_by: &str) -> Result<OwnedFd> {
    anew(number).map_err(|errno| {
        let what = format!("{whose}descriptor {number} of {told_by} cannot be opened: {errno}");
        Error::new(Class::Other, what)
            .remedy("start the program with weftrun, and do not close inherited descriptors before MPI_Init")
    })
}

/// The lowest of those who share makes the segment and hands it to the others.
pub(super) fn share_segment(
    place: &Place<'_>,
    offer: &Offer,
    sharing: &[Peer],
    lowest_offer: &[u8],
) -> Result<OwnedFd> {
    if sharing[0] == place.here {
        let segment = create_segment(sharing.len() as u32)?;
        offer
            .serve(segment.as_fd(), sharing.len() - 1, HANDOUT_TIMEOUT)
            .map_err(|error| refused("shm", &error))?;
        return Ok(segment);
    }
    fetch(lowest_offer, HANDOUT_TIMEOUT).map_err(|error| refused("shm", &error))
}

/// Memory in common that another process makes, by the card that came from it.
///
/// # Errors
/// [`Class::RmaShared`] where it cannot be handed over, [`Class::NoMemory`] where it cannot be mapped.
pub fn fetch_common(card: &[u8], bytes: usize) -> Result<Common> {
    let file = fetch(card, HANDOUT_TIMEOUT).map_err(|error| not_shared(&error))?;
    Common::adopt(file, bytes).map_err(|error| segment_refused(&error))
}

/// Memory in common that this process makes, and others will fetch.
pub struct CommonOffer {
    file: OwnedFd,
    offer: Offer,
    bytes: usize,
}

impl CommonOffer {
    /// Makes memory in common; the second value is the card that [`fetch_common`] takes.
    ///
    /// # Errors
    /// Where memory or descriptors are short.
    pub fn open(bytes: usize) -> Result<(CommonOffer, Vec<u8>)> {
        let file = Common::create(bytes).map_err(|error| segment_refused(&error))?;
        let (offer, card) = Offer::open().map_err(|error| not_shared(&error))?;
        Ok((CommonOffer { file, offer, bytes }, card))
    }

    /// Waits until `others` other processes have fetched the memory, and maps it.
    ///
    /// # Errors
    /// Where one of them has not come in time, or the memory cannot be mapped.
    pub fn serve(self, others: usize) -> Result<Common> {
        self.offer.serve(self.file.as_fd(), others, HANDOUT_TIMEOUT).map_err(|error| not_shared(&error))?;
        Common::adopt(self.file, self.bytes).map_err(|error| segment_refused(&error))
    }
}

/// Makes shared memory for `ranks` ranks, as a job would, and hands it out to itself.
///
/// # Errors
/// With what is short, or refused.
pub fn share_memory(ranks: u32) -> Result<()> {
    let segment = create_segment(ranks)?;
    let (offer, card) = Offer::open().map_err(|error| refused("shm", &error))?;
    std::thread::scope(|scope| {
        let fetched = scope.spawn(|| fetch(&card, HANDOUT_TIMEOUT).map(drop));
        let served = offer.serve(segment.as_fd(), 1, HANDOUT_TIMEOUT);
        let fetched = fetched.join().map_err(|_| Error::new(Class::Internal, "fetching panicked"))?;
        served.and(fetched).map_err(|error| refused("shm", &error))
    })
}

/// Memory in common did not come from one process to another.
fn not_shared(error: &HandoutError) -> Error {
    let what = error.to_string();
    let what = what.lines().next().unwrap_or_default();
    Error::new(Class::RmaShared, what)
        .remedy("processes of one node that run in different containers cannot share memory so")
}

pub(super) fn segment_refused(error: &SegmentError) -> Error {
    Error::of_text(Class::NoMemory, &error.to_string())
}
