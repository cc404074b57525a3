//! Barrier (MPI 5.0 §6.3).

use crate::schedule::Schedule;
use crate::shape::{Shape, distances};

/// Nobody leaves before all have come.
///
/// Dissemination: in round k every rank tells the one 2^k places ahead that it has heard of 2^k ranks; after
/// ceil(log2 p) rounds everybody has heard of all. Messages have no payload.
#[must_use]
pub fn barrier(shape: &Shape) -> Schedule {
    let mut schedule = Schedule::new("barrier by dissemination");
    for distance in distances(shape.size()) {
        schedule.signal(shape.ahead(distance), shape.behind(distance));
    }
    schedule
}
