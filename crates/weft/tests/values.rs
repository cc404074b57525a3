//! Structs, views and whatever sizes itself as messages: of ranks as threads, over each fabric.

#[path = "common/atom.rs"]
mod atom;
mod common;

use atom::Atom;
use common::on_each_fabric;
use weft::{Class, Datatype, Rank, Strided, StridedMut};

#[repr(C)]
#[derive(Datatype, Clone, Copy, Debug, Default, PartialEq)]
struct Pair<A: Datatype, B: Datatype>(A, B);

#[repr(transparent)]
#[derive(Datatype, Clone, Copy, Debug, Default, PartialEq)]
struct Metres(f32);

#[repr(C, align(16))]
#[derive(Datatype, Clone, Copy, Debug, Default, PartialEq)]
struct Aligned {
    bonds: [Pair<u32, Atom>; 2],
    length: Metres,
}

fn aligned(seed: u32) -> Aligned {
    let atom = |number: u32| Atom {
        kind: number as u16,
        place: [f64::from(number), 0.5, -f64::from(seed)],
        charge: (number as i8).wrapping_neg(),
    };
    Aligned { bonds: [Pair(seed, atom(seed)), Pair(seed + 1, atom(seed + 7))], length: Metres(seed as f32) }
}

fn all_aligned(count: u32) -> Vec<Aligned> {
    (0..count).map(aligned).collect()
}

#[test]
fn shapes_are_known_to_the_compiler() {
    const _: () = assert!(Atom::SHAPE.bytes() == 27 && Atom::SHAPE.extent() == 40);
    const _: () = assert!(!Atom::SHAPE.is_dense() && Metres::SHAPE.is_dense());
    const _: () = assert!(<[Pair<u32, f32>; 3]>::SHAPE.is_dense() && !Pair::<u8, u16>::SHAPE.is_dense());
    assert_eq!(Aligned::SHAPE.bytes(), 2 * (4 + 27) + 4);
    assert_eq!(Aligned::SHAPE.extent(), size_of::<Aligned>());
}

#[test]
fn structs_with_gaps_go_everywhere() {
    on_each_fabric(3, |session| {
        let world = session.world();
        let (here, size) = (world.rank(), world.size());
        let (next, before) = (Rank((here.0 + 1) % size), Rank((here.0 + size - 1) % size));
        for count in [0, 1, 100, 3000] {
            let mine = all_aligned(count);
            let mut room = vec![Aligned::default(); count as usize + 1];
            let status = world.exchange(&mine, next, &mut room, before, 1).unwrap();
            assert_eq!(status.bytes, 66 * count as usize);
            assert!(room[..count as usize] == mine && room[count as usize] == Aligned::default());
            let sending = world.isend(mine.clone(), next, 2).unwrap();
            let (came, _) = world.ireceive::<Aligned>(count as usize + 2, before, 2).unwrap().wait().unwrap();
            assert!(came == mine && sending.wait().unwrap().0 == mine);
        }
        let whole = Atom { kind: 7, place: [here.0.into(), 1.0, 2.0], charge: -1 };
        let everybody = |rank: u32| Atom { place: [rank.into(), 1.0, 2.0], ..whole };
        let all: Vec<Atom> = (0..size).map(everybody).collect();
        assert_eq!(world.all_gather(&[whole]).unwrap(), all);
        assert_eq!(world.gather(&[whole], Rank(1)).unwrap(), (here == Rank(1)).then(|| all.clone()));
        assert_eq!(world.scatter(&all, 1, Rank(2)).unwrap(), [whole]);
        assert_eq!(world.all_to_all(&vec![whole; size as usize]).unwrap(), all);
        let mut told = if here == Rank(0) { all.clone() } else { vec![Atom::default(); size as usize] };
        world.broadcast(&mut told, Rank(0)).unwrap();
        assert_eq!(told, all);
    });
}

#[test]
fn a_struct_is_the_row_of_its_fields_to_others() {
    on_each_fabric(2, |session| {
        let world = session.world();
        let pairs = [Pair(1u8, 0x0203u16), Pair(4, 0x0506)];
        if world.rank() == Rank(0) {
            world.send(&pairs, Rank(1), 0).unwrap();
            world.send(&[1u8, 2, 3, 4], Rank(1), 1).unwrap();
            world.send("täglich".as_bytes(), Rank(1), 2).unwrap();
            world.send(&[0xffu8], Rank(1), 3).unwrap();
        } else {
            let (bytes, _) = world.recv::<Box<[u8]>>(Rank(0), 0).unwrap();
            let expected =
                [[1].as_slice(), &0x0203u16.to_ne_bytes(), &[4], &0x0506u16.to_ne_bytes()].concat();
            assert_eq!(&bytes[..], expected);
            let refused = world.recv::<Vec<Pair<u8, u16>>>(Rank(0), 1).unwrap_err();
            assert_eq!(refused.class, Class::Type, "{refused}");
            assert_eq!(world.recv::<String>(Rank(0), 2).unwrap().0, "täglich");
            assert_eq!(world.recv::<String>(None, 3).unwrap_err().class, Class::Type);
        }
    });
}

#[test]
fn views_go_to_views_of_another_shape() {
    on_each_fabric(2, |session| {
        let world = session.world();
        let other = Rank(1 - world.rank().0);
        for rows in [1, 5, 20_000] {
            let matrix: Vec<u32> = (0..rows * 5).collect();
            // Columns 1 and 2 of five become column pairs of three, and nothing else is touched.
            let columns = Strided::new(&matrix[1..], 2, 5).unwrap();
            assert_eq!(columns.len(), rows as usize * 2);
            let mut room = vec![u32::MAX; rows as usize * 3];
            if world.rank() == Rank(0) {
                world.send_strided(columns, other, 4).unwrap();
            } else {
                let into = StridedMut::new(&mut room, 2, 3).unwrap();
                assert_eq!(into.len(), columns.len());
                let status = world.receive_strided(into, other, 4).unwrap();
                assert_eq!(status.bytes, columns.len() * 4);
                let came: Vec<&u32> = room.chunks(3).flat_map(|row| &row[..2]).collect();
                assert!(came == columns.iter().collect::<Vec<_>>());
                assert!(room.chunks(3).all(|row| row[2] == u32::MAX));
            }
        }
        let none = Strided::new(&[1.0f64; 3], 4, 4).unwrap();
        assert!(none.is_empty() && none.iter().next().is_none());
        for (block, stride) in [(0, 3), (3, 2)] {
            assert_eq!(Strided::new(&[1u8; 9], block, stride).unwrap_err().class, Class::Argument);
        }
    });
}
