//! Lists of requests, as `MPI_Waitall` and its kin are given them.

use std::ffi::c_int;

use weft::claims::RequestId;
use weft::{Class, Error, Process, Result, WaitListEntry};

use crate::claims::{Variables, null};
use crate::generated::constants::*;
use crate::requests::{Look, SENT, left_of, named_receive, no_request};
use crate::state::Runtime;
use crate::types::*;

/// A list of requests that the program handed over.
#[derive(Clone, Copy)]
pub(super) struct RequestList<'call> {
    entries: Variables<'call, MPI_Request>,
    pub(super) count: usize,
}

impl<'call> RequestList<'call> {
    pub(super) fn check(count: c_int, entries: Variables<'call, MPI_Request>) -> Result<RequestList<'call>> {
        let count = check_count(count)?;
        if entries.is_null() && count > 0 {
            return Err(null("array_of_requests"));
        }
        Ok(RequestList { entries, count })
    }

    #[inline(always)]
    pub(super) fn at(self, index: usize) -> MPI_Request {
        self.entries.at(index).get()
    }

    /// Says that the operation of an entry is over. A persistent request stays where it is.
    pub(super) fn clear(self, index: usize) {
        let entry = self.entries.at(index);
        entry.set(left_of(entry.get()));
    }

    /// Says that the operation of an entry is over whose request is not persistent: the entry becomes
    /// `MPI_REQUEST_NULL`.
    #[inline(always)]
    pub(super) fn clear_lent(self, index: usize) {
        self.entries.at(index).set(MPI_REQUEST_NULL);
    }

    /// What is to be waited for in the entry, if the engine alone knows of it.
    #[inline(always)]
    pub(super) fn wanted(self, index: usize) -> WaitListEntry {
        if index >= self.count {
            return WaitListEntry::Stop;
        }
        match self.at(index) {
            MPI_REQUEST_NULL | SENT => WaitListEntry::Nothing,
            request => named_receive(request).map_or(WaitListEntry::Stop, WaitListEntry::Receive),
        }
    }

    /// An error if one of the entries is neither null nor a request.
    pub(super) fn check_requests(self, runtime: &'static Runtime) -> Result<()> {
        let mut index = 0;
        while index < self.count {
            index += runtime.process().count_lent(|place| self.wanted(index + place));
            if index < self.count {
                let request = self.at(index);
                if !runtime.is_request(request) {
                    return Err(no_request(request));
                }
                index += 1;
            }
        }
        Ok(())
    }

    /// The entries that are neither null nor inactive, with their positions; an error if one of them is no
    /// request.
    pub(super) fn active(self, runtime: &'static Runtime) -> Result<Vec<(usize, Look)>> {
        active(runtime, (0..self.count).map(|index| self.at(index)))
    }
}

/// Those requests that are neither null nor inactive, with their positions; an error if one of them is no
/// request.
pub(super) fn active(
    runtime: &'static Runtime,
    requests: impl Iterator<Item = MPI_Request>,
) -> Result<Vec<(usize, Look)>> {
    let mut active = Vec::new();
    for (index, request) in requests.enumerate().filter(|(_, request)| *request != MPI_REQUEST_NULL) {
        match runtime.look_at_request(request)? {
            Look::Inactive => {}
            look => active.push((index, look)),
        }
    }
    Ok(active)
}

/// A number of requests.
pub(super) fn check_count(count: c_int) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::new(Class::Count, format!("the number of requests is {count}")))
}

/// Positions in `active` of requests that are over; after a turn of progress.
pub(super) fn ready(active: &[(usize, Look)]) -> Vec<usize> {
    let (owners, ids) = ids_of(active);
    match process_of(active) {
        Some(process) => complete(active.len(), &owners, &process.ready(&ids)),
        None => (0..active.len()).collect(),
    }
}

/// Waits until at least one request of `active` is over. The answer are the positions in `active` of all that
/// are over then.
pub(super) fn wait_ready(active: &[(usize, Look)]) -> Vec<usize> {
    let (owners, ids) = ids_of(active);
    let Some(process) = process_of(active) else { return ready(active) };
    if active.iter().any(|(_, look)| matches!(look, Look::Over | Look::Inactive)) {
        return ready(active);
    }
    let mut over = vec![false; ids.len()];
    loop {
        // Those that are over are asked for no more, or there would be no waiting for the others of their
        // request.
        let left: Vec<usize> = (0..ids.len()).filter(|&place| !over[place]).collect();
        let asked: Vec<Option<RequestId>> = left.iter().map(|&place| ids[place]).collect();
        process.wait_ready(&asked).into_iter().for_each(|place| over[left[place]] = true);
        let places: Vec<usize> = (0..ids.len()).filter(|&place| over[place]).collect();
        let found = complete(active.len(), &owners, &places);
        if !found.is_empty() {
            return found;
        }
    }
}

/// The engine's requests, `None` for what is over, and to which entry each belongs.
fn ids_of(active: &[(usize, Look)]) -> (Vec<usize>, Vec<Option<RequestId>>) {
    let (mut owners, mut ids) = (Vec::with_capacity(active.len()), Vec::with_capacity(active.len()));
    for (owner, (_, look)) in active.iter().enumerate() {
        match look {
            Look::Over | Look::Inactive => ids.push(None),
            Look::Under(_, id) => ids.push(Some(*id)),
            Look::Several(_, several) => ids.extend(several.iter().copied().map(Some)),
        }
        owners.resize(ids.len(), owner);
    }
    (owners, ids)
}

/// The entries all of whose requests are among those that are over.
fn complete(entries: usize, owners: &[usize], over: &[usize]) -> Vec<usize> {
    if owners.len() == entries {
        return over.to_vec();
    }
    let mut left = vec![0usize; entries];
    owners.iter().for_each(|&owner| left[owner] += 1);
    over.iter().for_each(|&place| left[owners[place]] -= 1);
    (0..entries).filter(|&entry| left[entry] == 0).collect()
}

/// The process whose engine has them; none where all are over.
fn process_of(active: &[(usize, Look)]) -> Option<&Process> {
    active.iter().find_map(|(_, look)| match look {
        Look::Under(comm, _) | Look::Several(comm, _) => Some(&**comm.process()),
        Look::Over | Look::Inactive => None,
    })
}
