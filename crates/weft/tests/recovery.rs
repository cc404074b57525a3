//! Recovery without a death: of communicators that were revoked, and of such that have lost nobody. Ranks are
//! threads here, which cannot die alone; `bench/tests/blanks.c` has the others.

mod common;

use common::on_each_fabric;
use weft::claims::{OwnedCombining, Payload, UserMemory};
use weft::collectives::{Buffers, Collective};
use weft::{
    Class, CollectiveMode, Communicator, Comparison, FtMode, FtModes, Group, MessageMode, Operator, Rank,
    RecoverFlags,
};

const BLANK: FtModes = FtModes { comm: FtMode::Blank, ..FtModes::NONE };

/// What all members do together, and what two do.
fn works(comm: &Communicator) {
    let (rank, size) = (comm.rank().0, comm.size());
    assert_eq!(comm.all_reduce(&[1u32], Operator::Sum).unwrap(), [size]);
    assert_eq!(comm.all_gather(&[rank]).unwrap(), (0..size).collect::<Vec<_>>());
    let mut told = [rank];
    comm.broadcast(&mut told, Rank(size - 1)).unwrap();
    assert_eq!(told, [size - 1]);
    let request = comm.isend(vec![rank], Rank((rank + 1) % size), 7).unwrap();
    let before = Rank((rank + size - 1) % size);
    assert_eq!(comm.receive::<u32>(Some(before), Some(7)).unwrap().0, [before.0]);
    request.wait().unwrap();
}

#[test]
fn r4_nothing_changes_where_nothing_has_happened() {
    on_each_fabric(3, |session| {
        let comm = session.world().duplicate().unwrap();
        assert_eq!(comm.recover().unwrap_err().class, Class::Argument, "its mode is that nothing is done");
        comm.set_ft_modes(BLANK);
        let recovery = comm.recover().unwrap();
        assert!(recovery.communicator.is_same(&comm) && recovery.failed.is_empty());
        assert_eq!((recovery.generation, comm.blank().size(), comm.live().size()), (0, 0, 3));
        comm.set_ft_modes(FtModes { comm: FtMode::Shrink, ..BLANK });
        let other = comm.recover().unwrap().communicator;
        assert_eq!(other.compare(&comm), Comparison::Identical);
        assert_eq!(other.ft_modes(), comm.ft_modes());
        works(&other);
        works(&comm);
    });
}

#[test]
fn r5_different_modes_are_the_same_error_at_all() {
    on_each_fabric(4, |session| {
        let comm = session.world().duplicate().unwrap();
        let mode = if comm.rank() == Rank(2) { FtMode::Shrink } else { FtMode::Blank };
        comm.set_ft_modes(FtModes { comm: mode, ..BLANK });
        let error = comm.recover().unwrap_err();
        assert_eq!(error.class, Class::Argument);
        assert!(error.to_string().contains("not all members"), "{error}");
        works(&comm);
    });
}

#[test]
fn r13_what_was_revoked_is_usable_again() {
    for messages in [MessageMode::Reset, MessageMode::Continue] {
        on_each_fabric(3, |session| {
            let comm = session.world().duplicate().unwrap();
            comm.set_ft_modes(FtModes { messages, ..BLANK });
            for generation in 1..4 {
                if comm.rank() == Rank(generation % 3) {
                    comm.revoke();
                }
                while !comm.is_revoked() {}
                assert_eq!(comm.barrier().unwrap_err().class, Class::Revoked);
                let recovery = comm.recover().unwrap();
                assert_eq!((recovery.generation, comm.generation()), (generation, generation));
                assert!(recovery.failed.is_empty() && !comm.is_revoked() && !comm.is_blank(Rank(1)));
                works(&comm);
                works(&comm.duplicate().unwrap());
            }
        });
    }
}

#[test]
fn r7_what_was_made_from_the_world_recovers_with_it() {
    on_each_fabric(4, |session| {
        let world = session.world();
        world.set_ft_modes(BLANK);
        let rank = world.rank();
        let half = world.split(Some(rank.0 % 2), 0).unwrap().unwrap();
        let copy = half.duplicate().unwrap();
        let two: Group = world.group().iter().take(2).collect();
        let part = world.create_group(&two, 3).unwrap();
        let nothing = world.recover_all().unwrap();
        assert_eq!((nothing.generation, half.generation()), (0, 0), "nothing has happened");
        // Each waits for one that has gone to recover, or waits itself for one.
        match rank.0 {
            0 => copy.revoke(),
            1 => assert_eq!(half.receive::<u32>(None, Some(5)).unwrap_err().class, Class::Revoked),
            2 => assert_eq!(copy.barrier().unwrap_err().class, Class::Revoked),
            _ => assert_eq!(world.barrier().unwrap_err().class, Class::Revoked),
        }
        let recovery = world.recover_all().unwrap();
        assert_eq!((recovery.generation, recovery.failed.is_empty()), (1, true));
        for comm in [Some(&world), Some(&half), Some(&copy), part.as_ref()].into_iter().flatten() {
            assert_eq!((comm.generation(), comm.is_revoked()), (1, false));
            works(comm);
        }
        assert_eq!(world.recover_all().unwrap().generation, 1);
        assert_eq!(half.recover_all().unwrap_err().class, Class::Communicator);
        world.set_ft_modes(FtModes { comm: FtMode::Shrink, ..BLANK });
        assert_eq!(world.recover_all().unwrap_err().class, Class::Argument);
        works(&half);
    });
}

/// Nobody is in what was before, so that who revokes something now ends nothing of it.
fn all_are_here(comm: &Communicator) {
    assert_eq!(comm.agree(1).unwrap().flags, 1);
}

#[test]
fn r3_one_that_shrinks_in_place_is_another_one_for_whoever_asks() {
    on_each_fabric(3, |session| {
        let world = session.world();
        let comm = world.duplicate().unwrap();
        comm.rename("kept");
        comm.set_ft_modes(FtModes { comm: FtMode::Shrink, ..BLANK });
        let nothing = comm.recover_in_place().unwrap();
        assert!(nothing.communicator.is_same(&comm) && comm.latest().is_same(&comm));
        assert_eq!((nothing.generation, comm.last_recovery().is_none()), (0, true));
        for generation in 1..4 {
            let before = comm.latest();
            before.revoke();
            assert_eq!(before.barrier().unwrap_err().class, Class::Revoked);
            // Who still has the first one means the latest.
            let recovery = comm.recover_in_place().unwrap();
            assert!(recovery.communicator.is_same(&comm.latest()) && !comm.latest().is_same(&before));
            assert_eq!(
                (recovery.generation, comm.last_recovery().unwrap().generation),
                (generation, generation)
            );
            let latest = comm.latest();
            assert_eq!((latest.name(), latest.generation()), ("kept".to_owned(), generation));
            assert_eq!(latest.ft_modes(), comm.ft_modes());
            works(&latest);
            all_are_here(&latest);
        }
        let latest = comm.latest();
        latest.set_ft_modes(FtModes { messages: MessageMode::Continue, ..latest.ft_modes() });
        assert_eq!(latest.recover_in_place().unwrap_err().class, Class::Argument, "ranks would change");
        works(&latest);
    });
}

#[test]
fn r7_the_world_shrinks_with_all_that_was_made_from_it() {
    on_each_fabric(4, |session| {
        let world = session.world();
        world.set_ft_modes(FtModes { comm: FtMode::Shrink, ..BLANK });
        let half = world.split(Some(world.rank().0 % 2), 0).unwrap().unwrap();
        half.set_ft_modes(BLANK);
        let flags = RecoverFlags { all: true, in_place: true };
        assert_eq!(world.recover_with(flags).unwrap().generation, 0);
        for generation in 1..3 {
            if session.world().rank() == Rank(generation) {
                session.world().revoke();
            }
            let recovery = world.recover_with(flags).unwrap();
            assert!(recovery.communicator.is_same(&session.world()) && !session.world().is_same(&world));
            assert_eq!((recovery.generation, half.latest().generation()), (generation, generation));
            assert_eq!(half.latest().ft_modes(), BLANK, "by the modes of the world, and its own stay");
            works(&session.world());
            works(&half.latest());
            all_are_here(&session.world());
        }
        assert_eq!(half.latest().recover().unwrap().generation, 2);
        let different = RecoverFlags { in_place: world.rank() == Rank(3), all: false };
        assert_eq!(world.recover_with(different).unwrap_err().class, Class::Argument, "R5");
    });
}

fn begin_barrier(comm: &Communicator) -> weft::Ongoing {
    let buffers = Buffers { input: Payload::EMPTY, output: UserMemory::EMPTY };
    comm.start(Collective::Barrier, buffers, OwnedCombining::Nothing, None, None)
}

/// A broadcast to which one member comes too late: it has revoked the communicator, having heard that the
/// root is through, or having waited.
fn broadcast_in_vain(session: &weft::Session, comm: &Communicator) -> weft::Result<()> {
    let (world, root, late) = (session.world(), Rank(0), Rank(1));
    if comm.rank() == late {
        if comm.ft_modes().collectives == CollectiveMode::Local {
            world.receive::<u32>(Some(root), Some(1)).unwrap();
        } else {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        comm.revoke();
    }
    let ended = comm.broadcast(&mut [comm.rank().0], root);
    if comm.rank() == root && comm.ft_modes().collectives == CollectiveMode::Local {
        world.send(&[0u32], late, 1).unwrap();
    }
    ended
}

#[test]
fn d5_an_operation_succeeds_at_all_members_or_at_none() {
    on_each_fabric(3, |session| {
        let comm = session.world().duplicate().unwrap();
        comm.set_ft_modes(FtModes { collectives: CollectiveMode::Atomic, ..BLANK });
        for generation in 1..4 {
            works(&comm);
            works(&comm.split(Some(0), 0).unwrap().unwrap());
            let class = broadcast_in_vain(session, &comm).unwrap_err().class;
            assert!(matches!(class, Class::ProcFailed | Class::Revoked), "{class:?}");
            let recovery = comm.recover().unwrap();
            assert_eq!(recovery.generation, generation);
            let completed = recovery.completed.unwrap();
            assert_eq!(completed.start(), completed.end(), "D6");
        }
        works(&comm);
    });
}

#[test]
fn d5_who_recovers_while_others_are_in_an_operation_ends_it() {
    on_each_fabric(4, |session| {
        let comm = session.world().duplicate().unwrap();
        comm.set_ft_modes(FtModes { collectives: CollectiveMode::Atomic, ..BLANK });
        for generation in 1..4 {
            if comm.rank() == Rank(generation) {
                comm.revoke();
            } else {
                assert!(comm.barrier().is_err());
            }
            // Of those who agree before, all mean the same.
            assert_eq!(comm.agree(6 | comm.rank().0 << 4).unwrap().flags & 15, 6);
            assert_eq!(comm.recover().unwrap().generation, generation);
            works(&comm);
            let begun = begin_barrier(&comm);
            comm.barrier().unwrap();
            begun.wait().unwrap();
        }
    });
}

#[test]
fn d6_a_recovery_tells_how_many_operations_have_succeeded_everywhere() {
    on_each_fabric(3, |session| {
        let comm = session.world().duplicate().unwrap();
        comm.set_ft_modes(BLANK);
        assert_eq!(comm.completed(), 0);
        for generation in 1..8 {
            let before = comm.completed();
            comm.barrier().unwrap();
            comm.all_reduce(&[1u32], Operator::Sum).unwrap();
            begin_barrier(&comm).wait().unwrap();
            comm.all_gather(&vec![1u64; 1000]).unwrap();
            assert_eq!(comm.completed(), before + 4);
            // Nobody revokes while another is in the last of them.
            session.world().barrier().unwrap();
            let ended = broadcast_in_vain(session, &comm);
            assert_eq!(comm.completed(), before + 4 + u64::from(ended.is_ok()));
            let completed = comm.recover().unwrap().completed;
            assert_eq!(completed, Some(before + 4..=before + 5), "the root was through, and one was not");
            assert_eq!(comm.last_recovery().unwrap().generation, generation);
            // All go on from the same.
            works(&comm);
        }
    });
}
