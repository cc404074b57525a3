//! Exchanges of two in which each reads the other's memory: what comes where, reads that are refused, calls
//! that do not fit.

use collectives::node::chunking::{LONG_FROM, READ};
use collectives::node::tuners::READ_FROM;
use collectives::{Block, Collective, Each, Listed, Uneven, packed};
use fabric::slots::Slots;
use fabric::tuner::Alternative;
use job::error::{Class, Error};

use super::chunks_tests::{Elements, on_a_segment, on_cores};
use super::{Combining, Communicator};
use crate::memory::{reading, writing};

/// What one gives the other with that number.
fn block(from: usize, to: usize, number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 64 * 5 + at + 64 * from + 32 * to + 3 * number) as u8).collect()
}

/// The number of the next operation on the collective segment.
fn next(world: &Communicator) -> u32 {
    world.handle().unwrap().turn.try_hold().unwrap().credit.next()
}

/// Both try it once; from then on they go that way, but for a few that try the other one.
fn go(world: &Communicator, way: Alternative) {
    for bytes in [READ_FROM; 3] {
        exchange(world, 0, bytes, false).unwrap();
    }
    world.handle().unwrap().turn.try_hold().unwrap().turned_out(way);
    for bytes in [1, 2, 4, 8, 16, 32, 64].map(|times| times * READ_FROM) {
        exchange(world, 0, bytes, false).unwrap();
    }
}

/// Whether they do, in an exchange of so many bytes.
fn is_read(world: &Communicator, bytes: usize, in_place: bool) -> bool {
    let first = next(world);
    exchange(world, 0, bytes, in_place).unwrap();
    let segment = &world.handle().unwrap().segment;
    [0, 1].map(|place| segment.announced(place, first)[1] & READ != 0) == [true; 2]
}

fn exchange(world: &Communicator, number: usize, bytes: usize, in_place: bool) -> Result<(), Error> {
    let here = world.rank().0 as usize;
    let sends = [0, 1].map(|to| block(here, to, number, bytes)).concat();
    let comes = [0, 1].map(|from| block(from, here, number, bytes)).concat();
    let mut output = if in_place { sends.clone() } else { vec![0; 2 * bytes] };
    let input = if in_place { &[][..] } else { &sends[..] };
    let all = Collective::Alltoall(Each { bytes, in_place });
    world.perform(all, reading(input), writing(&mut output), Combining::Nothing)?;
    assert!(output == comes, "{bytes} bytes exchanged, in place {in_place}, at {here}");
    Ok(())
}

fn gather(world: &Communicator, number: usize, bytes: usize, in_place: bool) {
    let here = world.rank().0 as usize;
    let own = block(here, 0, number, bytes);
    let mut output = vec![0; 2 * bytes];
    if in_place {
        output[here * bytes..][..bytes].copy_from_slice(&own);
    }
    let input = if in_place { &[][..] } else { &own[..] };
    let all = Collective::Allgather(Each { bytes, in_place });
    world.perform(all, reading(input), writing(&mut output), Combining::Nothing).unwrap();
    let gathered = [0, 1].map(|from| block(from, 0, number, bytes)).concat();
    assert!(output == gathered, "{bytes} bytes gathered, in place {in_place}, at {here}");
}

/// The first gives `one` and gets `other`; what each keeps is as long as what it gives. `expected` is what
/// this one expects.
fn listed(world: &Communicator, [one, other]: [usize; 2], expected: usize) -> Result<(), Error> {
    let here = world.rank().0 as usize;
    let filled = |from: usize, bytes: usize| vec![from as u8 + 1; bytes];
    let gives = [one, other][here];
    let sends: Vec<Block> = packed([gives, gives]).to_vec();
    let keeps = if here == 0 { [gives, expected] } else { [expected, gives] };
    let receives: Vec<Block> = packed(keeps).to_vec();
    let (input, mut output) = (filled(here, 2 * gives), vec![0u8; gives + expected]);
    let listed = Listed { what: Uneven::Alltoall { in_place: false }, sends: &sends, receives: &receives };
    world.perform_uneven(listed, reading(&input), writing(&mut output), Combining::Nothing)?;
    assert!(output == [filled(0, keeps[0]), filled(1, keeps[1])].concat(), "{one} for {other} bytes");
    Ok(())
}

/// There and back, in place and not: what is written over what is given is not read.
#[test]
fn what_is_read_is_where_it_belongs() {
    on_a_segment(|world| {
        go(world, Alternative::Second);
        let lengths = [READ_FROM, READ_FROM + 1, 98_305, LONG_FROM - 1, LONG_FROM, 400_001, 1_200_001];
        for (number, bytes) in lengths.into_iter().enumerate() {
            assert!(is_read(world, bytes, false), "{bytes} bytes");
            for number in (number..).take(4) {
                exchange(world, number, bytes, number % 2 > 0).unwrap();
                gather(world, number, bytes, number % 2 > 0);
                listed(world, [bytes, bytes / 3 + 1], [bytes / 3 + 1, bytes][world.rank().0 as usize])
                    .unwrap();
            }
        }
        assert!(!is_read(world, READ_FROM - 1, false));
        assert!(!is_read(world, READ_FROM, true), "it would be written over while it was read");
    });
}

/// Who decides finds it out, and the other one goes the same way from the same operation on.
#[test]
fn ways_are_tried_and_taken() {
    on_cores(|world| {
        let read = (0..40).filter(|_| is_read(world, READ_FROM, false)).count();
        assert!((1..40).contains(&read), "{read} of 40 were read, and both ways were to be tried");
        go(world, Alternative::First);
        assert!(!is_read(world, READ_FROM, false) && !is_read(world, 4 * READ_FROM, false));
    });
}

/// The system may refuse to read any time: then it is given, and is not tried again.
#[test]
fn what_cannot_be_read_is_given() {
    for refused in [[true, false], [false, true], [true, true]] {
        on_cores(move |world| {
            let here = world.rank().0 as usize;
            go(world, Alternative::Second);
            for bytes in [100_000, 100_001, 600_000] {
                assert!(is_read(world, bytes, false), "{bytes} bytes");
            }
            if refused[here] {
                world.handle().unwrap().segment.read_no_more();
            }
            for bytes in [100_000, 100_001, 600_000, 600_001] {
                // The next one is told of before anybody knows.
                (0..2).for_each(|number| exchange(world, number, bytes, false).unwrap());
                assert!(!is_read(world, bytes, false), "{bytes} bytes, {refused:?}, at {here}");
            }
        });
    }
}

/// Lengths that differ are told, to both where both have some error; and what follows goes well.
#[test]
fn reads_that_do_not_fit_are_told() {
    on_cores(|world| {
        let (here, sum) = (world.rank().0 as usize, Elements { bytes: 8, count: 5000 });
        for [bytes, more] in [[100_000, 120_000], [40_000, 600_000], [100_000, 100]] {
            for expects_more in [0, 1] {
                go(world, Alternative::Second);
                let expected = if here == expects_more { more } else { bytes };
                let ended = listed(world, [bytes; 2], expected);
                assert!(
                    here != expects_more || ended.is_err(),
                    "{bytes} given, {more} expected by {expects_more}"
                );
                let all = sum.perform(world, Collective::Allreduce(sum.reduction(false)), false);
                assert!(all == sum.of(0, 2), "behind {bytes} and {more} bytes, {expects_more}");
                // Neither has another way in mind than the other one.
                for bytes in [bytes, more, READ_FROM] {
                    exchange(world, 1, bytes, false).unwrap();
                }
            }
            go(world, Alternative::Second);
            let bytes = [bytes, more][here];
            let ended = exchange(world, 1, bytes, false);
            // Short data goes by slots, where nothing else would be told of.
            let classes = [Class::Truncated, Class::NotSame];
            assert!(classes.contains(&ended.unwrap_err().class), "{bytes} at {here}");
            exchange(world, 1, READ_FROM, false).unwrap();
        }
    });
}
