//! Ends of several requests: wait and test of all, any and some (MPI 5.0, section 3.7.5).

use std::ffi::c_int;

use weft::{Class, Result};

use super::{Ended, Failed, end_unusual, report, take_over, wait_and_take};
use crate::bodies::request_lists::{RequestList, ready, wait_ready};
use crate::calls;
use crate::claims::{Place, Places, Slot, StatusPlace, StatusPlaces, Variables, null};
use crate::entry::Target;
use crate::errors::raise;
use crate::generated::constants::*;
use crate::requests::Look;
use crate::state::{Runtime, with_runtime};
use crate::status;
use crate::types::*;

/// Waits for all.
pub fn mpi_waitall(
    count: c_int,
    array_of_requests: Variables<'_, MPI_Request>,
    array_of_statuses: StatusPlaces<'_>,
) -> c_int {
    calls::enter("MPI_Waitall");
    with_runtime("MPI_Waitall", |runtime| {
        let list = RequestList::check(count, array_of_requests)
            .and_then(|list| list.check_requests(runtime).map(|()| list));
        match list {
            Err(error) => report("MPI_Waitall", Err(error)),
            Ok(list) => end_all("MPI_Waitall", runtime, list, array_of_statuses),
        }
    })
}

/// Tests whether all are over; only then is any of them touched.
pub fn mpi_testall(
    count: c_int,
    array_of_requests: Variables<'_, MPI_Request>,
    flag: Place<'_, c_int>,
    array_of_statuses: StatusPlaces<'_>,
) -> c_int {
    with_runtime("MPI_Testall", |runtime| {
        let Some(flag) = flag.there() else { return report("MPI_Testall", Err(null("flag"))) };
        match checked(runtime, count, array_of_requests) {
            Err(error) => report("MPI_Testall", Err(error)),
            Ok((list, active)) => {
                let all = ready(&active).len() == active.len();
                flag.set(c_int::from(all));
                if all { end_all("MPI_Testall", runtime, list, array_of_statuses) } else { MPI_SUCCESS }
            }
        }
    })
}

pub(super) fn checked<'call>(
    runtime: &'static Runtime,
    count: c_int,
    requests: Variables<'call, MPI_Request>,
) -> Result<(RequestList<'call>, Vec<(usize, Look)>)> {
    let list = RequestList::check(count, requests)?;
    let active = list.active(runtime)?;
    Ok((list, active))
}

/// Waits for all of a checked list, and writes the statuses; errors are told in them (MPI 5.0 §3.7.5).
fn end_all(
    name: &'static str,
    runtime: &'static Runtime,
    list: RequestList<'_>,
    statuses: StatusPlaces<'_>,
) -> c_int {
    let mut failures = Vec::new();
    let mut end = |index, ended: Ended| {
        if !ended.goes_on() {
            list.clear(index);
        }
        statuses.at(index).write(&ended.status);
        if ended.failed.is_some() {
            failures.push((index, ended));
        }
    };
    let (mut index, mut unusual) = (0, Vec::new());
    while index < list.count {
        // What the engine alone knows of is waited for together.
        let ended = runtime.process().wait_lent(
            |place| list.wanted(index + place),
            |place, status| {
                list.clear_lent(index + place);
                if !statuses.are_ignored() {
                    let status = status.as_ref().map_or(status::EMPTY, status::of);
                    statuses.at(index + place).write(&status);
                }
            },
            |place| unusual.push(index + place),
        );
        for index in unusual.drain(..) {
            end(index, end_unusual(runtime, list.at(index)).unwrap_or(Ended::NOTHING));
        }
        index += ended;
        if index < list.count {
            end(index, wait_and_take(runtime, list.at(index)).unwrap_or(Ended::NOTHING));
            index += 1;
        }
    }
    if failures.is_empty() {
        return MPI_SUCCESS;
    }
    if !statuses.are_ignored() {
        let mut codes = vec![MPI_SUCCESS; list.count];
        failures.iter().for_each(|(index, ended)| codes[*index] = ended.code());
        codes.into_iter().enumerate().for_each(|(index, code)| statuses.at(index).write_error(code));
    }
    report_in_status(name, failures.into_iter().map(|(_, ended)| ended))
}

fn report_several(name: &'static str, statuses: StatusPlaces<'_>, ends: Vec<Ended>) -> c_int {
    let failed = ends.iter().any(|ended| ended.failed.is_some());
    for (index, ended) in ends.iter().enumerate() {
        if failed {
            statuses.at(index).write_with_error(&ended.status, ended.code());
        } else {
            statuses.at(index).write(&ended.status);
        }
    }
    report_in_status(name, ends.into_iter())
}

/// Reports that some of several have failed, by the first of them.
fn report_in_status(name: &'static str, mut ends: impl Iterator<Item = Ended>) -> c_int {
    match ends.find_map(|ended| ended.failed) {
        None => MPI_SUCCESS,
        Some(Failed { error, comm, _held }) => {
            let error = error.of_class(Class::InStatus);
            raise(name, Target::Comm(comm), &error)
        }
    }
}

/// Waits for any one.
pub fn mpi_waitany(
    count: c_int,
    array_of_requests: Variables<'_, MPI_Request>,
    index: Place<'_, c_int>,
    status: StatusPlace<'_>,
) -> c_int {
    calls::enter("MPI_Waitany");
    with_runtime("MPI_Waitany", |runtime| {
        let Some(index) = index.there() else { return report("MPI_Waitany", Err(null("index"))) };
        match checked(runtime, count, array_of_requests) {
            Err(error) => report("MPI_Waitany", Err(error)),
            Ok((list, active)) => {
                let place = if active.is_empty() { None } else { wait_ready(&active).first().copied() };
                end_any("MPI_Waitany", runtime, list, place.map(|place| active[place].0), index, status)
            }
        }
    })
}

/// Tests whether any one is over.
pub fn mpi_testany(
    count: c_int,
    array_of_requests: Variables<'_, MPI_Request>,
    index: Place<'_, c_int>,
    flag: Place<'_, c_int>,
    status: StatusPlace<'_>,
) -> c_int {
    with_runtime("MPI_Testany", |runtime| {
        let Some(flag) = flag.there() else { return report("MPI_Testany", Err(null("flag"))) };
        let Some(index) = index.there() else { return report("MPI_Testany", Err(null("index"))) };
        match checked(runtime, count, array_of_requests) {
            Err(error) => report("MPI_Testany", Err(error)),
            Ok((list, active)) => {
                let place = ready(&active).first().copied();
                let over = active.is_empty() || place.is_some();
                flag.set(c_int::from(over));
                if !over {
                    index.set(MPI_UNDEFINED);
                    return MPI_SUCCESS;
                }
                end_any("MPI_Testany", runtime, list, place.map(|place| active[place].0), index, status)
            }
        }
    })
}

/// Ends the request at `found`, or says that there was none.
fn end_any(
    name: &'static str,
    runtime: &'static Runtime,
    list: RequestList<'_>,
    found: Option<usize>,
    index: Slot<'_, c_int>,
    status: StatusPlace<'_>,
) -> c_int {
    let Some(at) = found else {
        index.set(MPI_UNDEFINED);
        status.write_empty();
        return MPI_SUCCESS;
    };
    let ended = take_over(runtime, list.at(at));
    if !ended.as_ref().is_ok_and(Ended::goes_on) {
        list.clear(at);
    }
    index.set(at as c_int);
    if let Ok(ended) = &ended {
        status.write(&ended.status);
    }
    report(name, ended)
}

/// Waits until some are over.
pub fn mpi_waitsome(
    incount: c_int,
    array_of_requests: Variables<'_, MPI_Request>,
    outcount: Place<'_, c_int>,
    array_of_indices: Places<'_, c_int>,
    array_of_statuses: StatusPlaces<'_>,
) -> c_int {
    some(
        "MPI_Waitsome",
        wait_ready,
        (incount, array_of_requests),
        outcount,
        array_of_indices,
        array_of_statuses,
    )
}

/// Tests which are over.
pub fn mpi_testsome(
    incount: c_int,
    array_of_requests: Variables<'_, MPI_Request>,
    outcount: Place<'_, c_int>,
    array_of_indices: Places<'_, c_int>,
    array_of_statuses: StatusPlaces<'_>,
) -> c_int {
    some("MPI_Testsome", ready, (incount, array_of_requests), outcount, array_of_indices, array_of_statuses)
}

fn some(
    name: &'static str,
    find: fn(&[(usize, Look)]) -> Vec<usize>,
    (incount, requests): (c_int, Variables<'_, MPI_Request>),
    outcount: Place<'_, c_int>,
    indices: Places<'_, c_int>,
    statuses: StatusPlaces<'_>,
) -> c_int {
    calls::enter(name);
    with_runtime(name, |runtime| {
        let places = outcount.checked("outcount").and_then(|outcount| {
            Ok((outcount, indices.checked(i64::from(incount.max(0)), "array_of_indices")?))
        });
        let checked = places.and_then(|places| Ok((places, checked(runtime, incount, requests)?)));
        let ((outcount, indices), (list, active)) = match checked {
            Ok(checked) => checked,
            Err(error) => return report(name, Err(error)),
        };
        if active.is_empty() {
            outcount.set(MPI_UNDEFINED);
            return MPI_SUCCESS;
        }
        let found = find(&active);
        outcount.set(found.len() as c_int);
        let mut ends = Vec::with_capacity(found.len());
        for (at, place) in found.into_iter().enumerate() {
            let index = active[place].0;
            let ended = take_over(runtime, list.at(index)).unwrap_or(Ended::NOTHING);
            if !ended.goes_on() {
                list.clear(index);
            }
            ends.push(ended);
            indices.set(at, index as c_int);
        }
        report_several(name, statuses, ends)
    })
}
