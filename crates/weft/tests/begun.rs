//! Operations that are begun and own their values: of any length, and of values that stand apart.

#[path = "common/atom.rs"]
mod atom;
mod common;

use atom::Atom;
use common::on_each_fabric;
use weft::{Class, Rank, Strided, block_on};

fn atoms(count: u32) -> Vec<Atom> {
    (0..count)
        .map(|number| Atom { kind: number as u16, place: [f64::from(number); 3], charge: number as i8 })
        .collect()
}

#[test]
fn a_message_of_any_length_makes_its_room() {
    on_each_fabric(2, |session| {
        let world = session.world();
        let other = Rank(1 - world.rank().0);
        for (tag, count) in (0..).zip([0u32, 1, 5, 1000, 9000, 300_000]) {
            let numbers: Vec<u64> = (0..u64::from(count)).collect();
            let (came, structs) = block_on(async {
                let receive =
                    (world.irecv::<u64>(other, tag).unwrap(), world.irecv::<Atom>(None, tag).unwrap());
                let sent = world.isend(numbers.clone(), other, tag).unwrap();
                let more = world.isend(atoms(count / 10), other, tag).unwrap();
                assert_eq!(sent.await.unwrap().0, numbers);
                more.await.unwrap();
                (receive.0.await.unwrap(), receive.1.await.unwrap())
            });
            assert_eq!((came.0 == numbers, came.1.bytes), (true, 8 * numbers.len()));
            assert_eq!((structs.0 == atoms(count / 10), structs.1.source), (true, other));
        }
        // Before its message is there, and after.
        if world.rank() == Rank(0) {
            let receive = world.irecv::<u8>(other, 90).unwrap();
            world.barrier().unwrap();
            assert_eq!(receive.wait().unwrap().0, [3; 40_000]);
        } else {
            world.barrier().unwrap();
            world.send(&[3u8; 40_000], other, 90).unwrap();
        }
        world.barrier().unwrap();
    });
}

#[test]
fn they_are_received_in_the_order_in_which_they_were_begun() {
    on_each_fabric(2, |session| {
        let world = session.world();
        let other = Rank(1 - world.rank().0);
        let first = world.irecv::<u32>(None, None).unwrap();
        let second = world.ireceive::<u32>(3, None, None).unwrap();
        let third = world.irecv::<u32>(None, None).unwrap();
        for value in 1..4u32 {
            world.send(&vec![value; value as usize], other, 0).unwrap();
        }
        // Asked about in another order.
        assert_eq!(block_on(third).unwrap().0, [3; 3]);
        assert_eq!(block_on(first).unwrap().0, [1]);
        assert_eq!(block_on(second).unwrap().0, [2; 2]);
    });
}

#[test]
fn what_ends_inside_of_a_value_is_an_error_and_what_is_given_up_is_cancelled() {
    on_each_fabric(2, |session| {
        let world = session.world();
        let other = Rank(1 - world.rank().0);
        drop(world.irecv::<u32>(other, 7).unwrap());
        let receive = world.irecv::<u32>(other, 7).unwrap();
        world.send(&[1u8; 6], other, 7).unwrap();
        let error = receive.wait().unwrap_err();
        assert!(error.class == Class::Type && error.to_string().contains("6 bytes"), "{error}");
        assert_eq!(world.irecv::<u32>(Rank(2), 0).err().map(|error| error.class), Some(Class::Rank));
    });
}

#[test]
fn values_that_stand_apart_go_and_come_while_something_else_is_done() {
    on_each_fabric(2, |session| {
        let world = session.world();
        let (here, other) = (world.rank(), Rank(1 - world.rank().0));
        for (rows, block, stride) in [(0, 1, 4), (3, 1, 4), (200, 3, 7), (40_000, 2, 5), (500, 4, 4)] {
            let mine: Vec<u64> = (0..rows * stride).map(|at| at as u64 + 1000 * u64::from(here.0)).collect();
            let theirs: Vec<u64> =
                (0..rows * stride).map(|at| at as u64 + 1000 * u64::from(other.0)).collect();
            let places = vec![u64::MAX; mine.len()];
            let receive = world.ireceive_strided(places, block, stride, other, 1).unwrap();
            let send = world.isend_strided(mine.clone(), block, stride, other, 1).unwrap();
            let (back, came) = block_on(async { (send.await.unwrap().0, receive.await.unwrap()) });
            assert!(back == mine, "it is given back as it was");
            assert_eq!(came.1.bytes, 8 * rows * block);
            for (at, value) in came.0.into_iter().enumerate() {
                assert_eq!(value, if at % stride < block { theirs[at] } else { u64::MAX }, "place {at}");
            }
        }
        // One side has a row.
        let matrix = atoms(30);
        let send = world.isend_strided(matrix.clone(), 2, 10, other, 2).unwrap();
        let row = world.irecv::<Atom>(other, 2).unwrap().wait().unwrap().0;
        assert!(row.iter().eq(Strided::new(&matrix, 2, 10).unwrap().iter()));
        send.wait().unwrap();
        let overlap = world.isend_strided(vec![0u8; 9], 3, 2, other, 0).err();
        let overlap = overlap.map(|not_begun| (not_begun.error.class, not_begun.values));
        assert_eq!(overlap, Some((Class::Argument, vec![0; 9])));
    });
}

#[test]
fn a_vector_comes_back_also_where_nothing_comes_of_it() {
    on_each_fabric(2, |session| {
        let world = session.world();
        let other = Rank(1 - world.rank().0);
        let matrix: Vec<u32> = (0..12).collect();
        // It cannot be begun.
        let nobody = Rank(7);
        let receive = world.ireceive_strided(matrix.clone(), 1, 4, nobody, 1).err().unwrap();
        let send = world.isend(matrix.clone(), nobody, 1).err().unwrap();
        let column = world.isend_strided(matrix.clone(), 1, 4, other, -1).err().unwrap();
        assert_eq!(
            [receive.error.class, send.error.class, column.error.class],
            [Class::Rank, Class::Rank, Class::Tag]
        );
        assert!([receive.values, send.values, column.values].iter().all(|values| *values == matrix));
        // It fails later: what has a place is there, and all between the places is as it was.
        for long in [5, 5000] {
            let mut receive = world.ireceive_strided(matrix.clone(), 1, 4, other, 2).unwrap();
            let whole = world.ireceive::<u32>(3, other, 3).unwrap();
            world.isend(vec![77u32; long], other, 2).unwrap().wait().unwrap();
            world.isend(vec![77u32; long], other, 3).unwrap().wait().unwrap();
            if long == 5 {
                // A future that has failed says so again, and has its vector still.
                assert_eq!(block_on(&mut receive).unwrap_err().class, Class::Truncated);
            }
            let (came, ended) = receive.wait_with_values();
            assert_eq!(ended.unwrap_err().class, Class::Truncated);
            assert_eq!(came, [77, 1, 2, 3, 77, 5, 6, 7, 77, 9, 10, 11]);
            let (came, ended) = whole.wait_with_values();
            assert_eq!((came, ended.unwrap_err().class), (vec![77; 3], Class::Truncated));
        }
    });
}
