//! Barrier (MPI 5.0 §6.3).

use crate::choice::{self, Asked};
use crate::combining::ROOT;
use crate::nested;
use crate::schedule::Schedule;
use crate::shape::{Shape, distances};

/// The ways to wait for everybody. Messages have no payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Barrier {
    /// In round k every rank tells the one 2^k places ahead that it has heard of 2^k ranks; after ceil(log2
    /// p) rounds everybody has heard of all: p ceil(log2 p) messages.
    Dissemination,
    /// Everybody tells everybody: one round, p (p - 1) messages.
    EachToAll,
    /// Everybody tells one rank, which tells everybody: two rounds, 2 (p - 1) messages.
    GatherBroadcast,
    /// Up a tree within each node, dissemination between one rank of each, and down again: as many messages
    /// between nodes as N nodes need alone, N ceil(log2 N). As without nodes where it is not known who sits
    /// where.
    ByNode,
}

/// Nobody leaves before all have come.
#[must_use]
pub fn barrier(shape: &Shape) -> Schedule {
    choice::choose::<Barrier>(shape, Asked::bytes(0)).schedule(shape)
}

impl Barrier {
    /// [`barrier`] in this way.
    #[must_use]
    pub fn schedule(self, shape: &Shape) -> Schedule {
        match self {
            Barrier::Dissemination => dissemination(shape),
            Barrier::EachToAll => each_to_all(shape),
            Barrier::GatherBroadcast => by_gather_broadcast(shape),
            Barrier::ByNode => nested::barrier(shape),
        }
    }
}

fn dissemination(shape: &Shape) -> Schedule {
    let mut schedule = Schedule::new("barrier by dissemination");
    for distance in distances(shape.size()) {
        schedule.tell(shape.ahead(distance));
        schedule.hear(shape.behind(distance));
        schedule.wait();
    }
    schedule
}

fn each_to_all(shape: &Shape) -> Schedule {
    let mut schedule = Schedule::new("barrier by telling everybody");
    shape.others().for_each(|to| schedule.tell(to));
    shape.others().for_each(|from| schedule.hear(from));
    schedule.wait();
    schedule
}

fn by_gather_broadcast(shape: &Shape) -> Schedule {
    let mut schedule = Schedule::new("barrier by gather and broadcast");
    if shape.rank() == ROOT {
        shape.others().for_each(|from| schedule.hear(from));
        schedule.wait();
        shape.others().for_each(|to| schedule.tell(to));
    } else {
        schedule.tell(ROOT);
        schedule.hear(ROOT);
    }
    schedule.wait();
    schedule
}
