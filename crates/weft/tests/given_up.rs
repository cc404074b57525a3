//! Who has given an operation up is waited for by nobody (decision 0014): members of an atomic communicator
//! that have gone to recover something else, and those that came to recover before they knew why.

mod common;

use std::time::Duration;

use common::on_each_fabric;
use weft::claims::{OwnedCombining, Payload, UserMemory};
use weft::collectives::{Buffers, Collective};
use weft::{Class, CollectiveMode, Communicator, FtMode, FtModes, Group, Operator, Rank, Session};

const BLANK: FtModes = FtModes { comm: FtMode::Blank, ..FtModes::NONE };
const ATOMIC: FtModes = FtModes { collectives: CollectiveMode::Atomic, ..BLANK };

fn works(comm: &Communicator) {
    for _ in 0..3 {
        assert_eq!(comm.all_reduce(&[1u32], Operator::Sum).unwrap(), [comm.size()]);
    }
}

fn begin_barrier(comm: &Communicator) -> weft::Ongoing {
    let buffers = Buffers { input: Payload::EMPTY, output: UserMemory::EMPTY };
    comm.start(Collective::Barrier, buffers, OwnedCombining::Nothing, None, None)
}

/// The world, and an atomic copy of it.
fn atomic_copy(session: &Session) -> (Communicator, Communicator) {
    let world = session.world();
    world.set_ft_modes(BLANK);
    let copy = world.duplicate().unwrap();
    copy.set_ft_modes(ATOMIC);
    works(&copy);
    (world, copy)
}

/// Nobody is in what was before, so that who revokes something now ends nothing of it.
fn all_are_here(comm: &Communicator) {
    assert_eq!(comm.agree(1).unwrap().flags, 1);
}

fn has_failed(ended: &weft::Result<()>) {
    let class = ended.as_ref().unwrap_err().class;
    assert!(matches!(class, Class::ProcFailed | Class::Revoked), "{class:?}");
}

#[test]
fn who_recovers_everything_ends_atomic_operations_of_others() {
    on_each_fabric(4, |session| {
        let (world, copy) = atomic_copy(session);
        for generation in 1..4 {
            if world.rank() == Rank(generation) {
                world.revoke();
            } else if world.rank() == Rank(0) {
                has_failed(&copy.barrier());
            }
            assert_eq!(world.recover_all().unwrap().generation, generation);
            works(&copy);
            works(&world);
            all_are_here(&world);
        }
    });
}

#[test]
fn who_has_revoked_ends_atomic_operations_of_others() {
    on_each_fabric(3, |session| {
        let (world, copy) = atomic_copy(session);
        if world.rank() == Rank(1) {
            copy.revoke();
        } else {
            has_failed(&copy.barrier());
            has_failed(&copy.barrier());
        }
        assert_eq!(world.agree(3).unwrap().flags, 3);
        assert_eq!(copy.agree(5).unwrap().flags, 5);
        works(&copy.shrink().unwrap());
        assert_eq!(copy.recover().unwrap().generation, 1);
        works(&copy);
    });
}

#[test]
fn who_has_begun_more_than_others_gets_an_end_of_each() {
    for recovers_all in [true, false] {
        on_each_fabric(3, |session| {
            let (world, copy) = atomic_copy(session);
            for generation in 1..4 {
                let count = if world.rank() == Rank(0) { 3 } else { world.rank().0 };
                let begun: Vec<_> = (0..count).map(|_| begin_barrier(&copy)).collect();
                if world.rank() == Rank(2) {
                    copy.revoke();
                }
                let ended: Vec<_> = begun.into_iter().map(weft::Ongoing::wait).collect();
                ended.iter().skip(1).for_each(has_failed);
                let all = if recovers_all { world.recover_all() } else { copy.recover() };
                assert_eq!(all.unwrap().generation, generation);
                works(&copy);
                all_are_here(&world);
            }
        });
    }
}

#[test]
fn what_a_recovery_finds_under_way_ends() {
    for comm in [FtMode::Blank, FtMode::Shrink] {
        on_each_fabric(3, |session| {
            let (world, copy) = atomic_copy(session);
            world.set_ft_modes(FtModes { comm, ..BLANK });
            let begun = (world.rank() == Rank(0)).then(|| begin_barrier(&copy));
            if world.rank() == Rank(1) {
                world.revoke();
            }
            let flags = weft::RecoverFlags { all: true, in_place: true };
            assert_eq!(world.recover_with(flags).unwrap().generation, 1);
            if let Some(begun) = begun {
                has_failed(&begun.wait());
            }
            works(&copy.latest());
        });
    }
}

#[test]
fn who_learns_while_it_recovers_calls_the_others_too() {
    on_each_fabric(3, |session| {
        let world = session.world();
        world.set_ft_modes(BLANK);
        let two: Group = world.group().iter().take(2).collect();
        let part = world.create_group(&two, 3).unwrap();
        match (world.rank().0, &part) {
            // It waits for who has come to recover, and knew of nothing to recover from when it came.
            (1, Some(part)) => {
                assert_eq!(part.receive::<u32>(Some(Rank(0)), Some(5)).unwrap_err().class, Class::Revoked);
            }
            (2, _) => {
                std::thread::sleep(Duration::from_millis(20));
                world.revoke();
            }
            _ => {}
        }
        assert_eq!(world.recover_all().unwrap().generation, 1);
        works(&session.world());
    });
}

/// What two members call at once that are in something else each: all of them learn of it, and nothing has
/// changed.
#[test]
fn agreements_of_different_kinds_are_the_same_error_at_all() {
    on_each_fabric(4, |session| {
        let (_, copy) = atomic_copy(session);
        copy.set_ft_modes(BLANK);
        let is_first = copy.rank() == Rank(0);
        for turn in 0..4 {
            if turn == 2 {
                copy.set_ft_modes(ATOMIC);
            }
            let mut ends = [
                if is_first { copy.agree_failed().map(drop) } else { copy.recover().map(drop) },
                if is_first { copy.agree_failed().map(drop) } else { copy.shrink().map(drop) },
                if is_first { copy.agree(u32::MAX).map(drop) } else { copy.recover().map(drop) },
                if is_first { copy.shrink().map(drop) } else { copy.agree(u32::MAX).map(drop) },
                if is_first { copy.start_agree_failed().wait().map(drop) } else { copy.agree(7).map(drop) },
                if is_first { copy.start_shrink().wait().map(drop) } else { copy.recover().map(drop) },
            ]
            .into_iter();
            assert!(ends.all(|end| end.unwrap_err().class == Class::Argument));
            assert!(copy.agree_failed().unwrap().is_empty());
            assert_eq!((copy.recover().unwrap().generation, copy.agree(5).unwrap().flags), (0, 5));
            works(&copy);
        }
    });
}
