//! Operations on a collective segment that are refused before they begin.

use std::sync::atomic::Ordering;

use collectives::{Block, Listed, Uneven};
use job::error::{Class, Result};
use job::lock::Threads;

use super::{Combining, Communicator};
use crate::memory::{reading, writing};
use crate::{Config, run_threads_for};

/// Every member gives every member one byte.
fn exchange(world: &Communicator) -> Result<Vec<u8>> {
    let blocks: Vec<Block> = (0..world.size() as usize).map(|offset| Block { offset, bytes: 1 }).collect();
    let listed = Listed { what: Uneven::Alltoall { in_place: false }, sends: &blocks, receives: &blocks };
    let (given, mut got) = (vec![world.rank().0 as u8; blocks.len()], vec![0; blocks.len()]);
    world.perform_uneven(listed, reading(&given), writing(&mut got), Combining::Nothing)?;
    Ok(got)
}

/// Nothing was exchanged, so nothing counts as an operation by messages: peers would take this member for one
/// that has gone on.
#[test]
fn an_exchange_that_is_refused_counts_as_nothing() {
    for size in [2, 3] {
        run_threads_for(Threads::Many, size, &Config::default(), |session| {
            let world = session.world();
            (0..5).for_each(|_| world.barrier().unwrap());
            let begun = || world.inner.sequence.load(Ordering::Relaxed);
            let before = begun();
            {
                let handle = world.handle().expect("there is a board");
                let _another_thread = handle.turn.try_hold().expect("nobody else has it");
                assert_eq!(exchange(&world).expect_err("it is not its turn").class, Class::Other);
            }
            assert_eq!(begun(), before);
            let all: Vec<u8> = (0..size as u8).collect();
            (0..20).for_each(|_| assert_eq!(exchange(&world).unwrap(), all));
        })
        .unwrap();
    }
}
