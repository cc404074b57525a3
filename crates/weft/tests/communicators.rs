//! Communicators made of others and of groups, from Rust: ranks are threads, over shm and over tcp.

mod common;

use common::on_each_fabric;
use weft::{Class, Communicator, Comparison, Group, Intercommunicator, Operator, Peer, Rank, SplitBy};

/// All members are there.
fn meets(comm: &Communicator) {
    assert_eq!(comm.all_reduce(&[1u32], Operator::Sum).unwrap(), [comm.size()]);
}

/// Peers are processes, ranks are places: those of the even ones are halves.
#[test]
fn groups_make_communicators() {
    on_each_fabric(5, |session| {
        let world = session.world();
        let even: Group = world.group().iter().filter(|peer| peer.0 % 2 == 0).collect();
        let odd = world.group() - &even;
        let mine = if even.contains(world.process().here()) { &even } else { &odd };
        let half = world.create(mine).unwrap().expect("everybody is in one");
        assert_eq!(half.group(), mine);
        meets(&half);
        // The group alone, and made from nothing at all.
        let again = world.create_group(mine, 3).unwrap().expect("a member");
        meets(&again);
        let anew = world.process().communicator_of(mine, "rust").unwrap().expect("a member");
        meets(&anew);
        assert_eq!(anew.compare(&half), Comparison::Identical);
        // Those that give no group, or one without themselves, get none.
        assert!(world.create(&Group::empty()).unwrap().is_none());
        let first = Group::of([Peer(0)]);
        assert_eq!(world.create(&first).unwrap().is_some(), world.rank() == Rank(0));
    });
}

#[test]
fn groups_that_do_not_match_are_an_error_everywhere() {
    on_each_fabric(3, |session| {
        let world = session.world();
        let here = Group::of([world.process().here()]);
        let mine = if world.rank() == Rank(1) { here } else { world.group().clone() };
        let error = world.create(&mine).unwrap_err();
        assert_eq!(error.class, Class::Group);
        let strange = Group::of([Peer(0), Peer(7)]);
        assert_eq!(world.create(&strange).unwrap_err().class, Class::Group);
        assert_eq!(world.create_group(&strange, 0).unwrap_err().class, Class::Group);
        assert_eq!(world.process().communicator_of(&strange, "x").unwrap_err().class, Class::Group);
        meets(&world.duplicate().unwrap());
    });
}

/// MPI 5.0 §7.4.2: a nonblocking duplicate goes on while its process waits for something else.
#[test]
fn duplicates_go_on_in_the_background() {
    on_each_fabric(4, |session| {
        let world = session.world();
        let many: Vec<_> = (0..5).map(|_| world.start_duplicate()).collect();
        if world.rank() == Rank(0) {
            for from in 1..world.size() {
                assert_eq!(world.receive::<u32>(Rank(from), 9).unwrap().0, [from]);
            }
        }
        let copies: Vec<Communicator> = many.into_iter().map(|copy| copy.wait().unwrap()).collect();
        if world.rank() != Rank(0) {
            world.send(&[world.rank().0], Rank(0), 9).unwrap();
        }
        copies.iter().rev().for_each(meets);
        // One that nobody waits for does not hold up the others.
        drop(world.start_duplicate());
        meets(&world);
    });
}

#[test]
fn two_groups_talk_and_merge() {
    on_each_fabric(5, |session| {
        let world = session.world();
        let side = world.rank().0 % 2;
        let half = world.split(Some(side), 0).unwrap().expect("a color was given");
        // Rank 0 of the other half is rank 1 - side of the world.
        let peers = (half.rank() == Rank(0)).then_some((&world, Rank(1 - side)));
        let inter = Intercommunicator::connect(&half, Rank(0), peers, 4).unwrap();
        assert_eq!((inter.local().size(), inter.remote().size()), (3 - side, 2 + side));
        assert!((inter.local() & inter.remote()).is_empty());
        let copy = inter.duplicate().unwrap();
        for (number, pair) in [&inter, &copy].into_iter().enumerate() {
            if let Some(partner) = (inter.rank().0 < inter.remote().size()).then_some(inter.rank()) {
                pair.messages().send(&[number as u64], partner, 0).unwrap();
            }
        }
        for (number, pair) in [&inter, &copy].into_iter().enumerate().rev() {
            if inter.rank().0 < inter.remote().size() {
                let (got, status) = pair.messages().receive::<u64>(None, None).unwrap();
                assert_eq!((got, status.source), (vec![number as u64], inter.rank()));
            }
        }
        let merged = inter.merge(side == 0).unwrap();
        assert_eq!(
            merged.group(),
            &if side == 0 { inter.remote() | inter.local() } else { inter.local() | inter.remote() }
        );
        meets(&merged);
        let firsts = inter.split((inter.rank() == Rank(0)).then_some(1), 0).unwrap();
        assert_eq!(firsts.is_some(), inter.rank() == Rank(0));
        assert_eq!(
            merged.process().connect(inter.local(), Rank(9), None, "t").unwrap_err().class,
            Class::Rank
        );
        assert_eq!(world.merge(true).unwrap_err().class, Class::Communicator);
    });
}

#[test]
fn members_of_a_node_find_each_other() {
    on_each_fabric(3, |session| {
        let world = session.world();
        let (node, level) = world.split_by(Some(&SplitBy::Node), 0).unwrap().expect("it sits somewhere");
        assert_eq!((node.size(), level), (3, None));
        let asks = (world.rank() != Rank(1)).then_some(&SplitBy::Node);
        assert_eq!(world.split_by(asks, 0).unwrap().is_some(), world.rank() != Rank(1));
        assert!(world.split_by(Some(&SplitBy::Unknown), 0).unwrap().is_none());
        let differ = if world.rank() == Rank(2) { SplitBy::NextLevel } else { SplitBy::Node };
        assert_eq!(world.split_by(Some(&differ), 0).unwrap_err().class, Class::Argument);
    });
}

/// Communicators free themselves: what was made is gone when nobody has it any more.
#[test]
fn thousands_come_and_go() {
    on_each_fabric(2, |session| {
        let world = session.world();
        for round in 0..3000 {
            let copy = world.duplicate().unwrap();
            if round % 100 == 0 {
                meets(&copy);
            }
        }
    });
}
