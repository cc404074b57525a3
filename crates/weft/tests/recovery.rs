//! Recovery without a death: of communicators that were revoked, and of such that have lost nobody. Ranks are threads here, which
//! cannot die alone; `bench/tests/blanks.c` has the others.

mod common;

use common::on_each_fabric;
use weft::{BlankPartner, Class, Communicator, Comparison, FtMode, FtModes, MessageMode, Operator, Rank};

const BLANK: FtModes =
    FtModes { comm: FtMode::Blank, messages: MessageMode::Reset, blanks: BlankPartner::Nobody };

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
