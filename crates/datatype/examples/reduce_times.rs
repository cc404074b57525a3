//! What predefined operators take, beside copying as many bytes and beside a bare sum of doubles that two
//! slices allow.
//!
//! `cargo run --release -p weft-datatype --example reduce_times [OPERATOR DATATYPE]...`: nanoseconds per KiB
//! of one operand, the best and the median of 25 blocks, all kinds in turn within each. Figures move with the
//! machine; compare columns.

use std::hint::black_box;
use std::time::{Duration, Instant};

use datatype::{Operator, Predefined, reduce_packed};
use fabric::{Heap, Payload};

const BLOCKS: usize = 25;
const BYTES: [usize; 6] = [64, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Bytes combined in a block.
const BLOCK_BYTES: usize = 8 << 20;

fn main() {
    let kinds = kinds(&std::env::args().skip(1).collect::<Vec<_>>());
    println!("   bytes                                           ns per KiB: best (median)");
    for bytes in BYTES {
        let (left, right) = (Heap::new(bytes), Heap::new(bytes));
        for heap in [&left, &right] {
            let numbers: Vec<u8> = (0..bytes / 8).flat_map(|at| (at as f64 + 1.5).to_ne_bytes()).collect();
            heap.memory().write_at(0, Payload::from(&numbers[..]));
        }
        let mut times = vec![Vec::new(); kinds.len() + 2];
        for _ in 0..BLOCKS {
            times[0].push(timed(bytes, &mut || {
                black_box(right.memory().write_at(0, black_box(left.payload())));
            }));
            let (incoming, mut inout) = (vec![1.5f64; bytes / 8], vec![2.5f64; bytes / 8]);
            times[1].push(timed(bytes, &mut || bare_sum(black_box(&incoming), black_box(&mut inout))));
            for (&(operator, predefined), times) in kinds.iter().zip(&mut times[2..]) {
                let count = bytes / predefined.size() as usize;
                times.push(timed(bytes, &mut || {
                    reduce_packed(
                        operator,
                        predefined,
                        count,
                        black_box(left.payload()),
                        &mut right.memory(),
                    )
                    .expect("the operator takes the datatype");
                }));
            }
        }
        let names = ["copy".to_string(), "bare".to_string()];
        let names = names.into_iter().chain(kinds.iter().map(|(o, p)| format!("{o} {p}")));
        for (name, mut times) in names.zip(times) {
            times.sort();
            let each = |time: Duration| time.as_secs_f64() * 1e9 / (BLOCK_BYTES / 1024) as f64;
            println!("{bytes:>8} {name:>40} {:8.1} ({:.1})", each(times[0]), each(times[BLOCKS / 2]));
        }
    }
}

fn kinds(named: &[String]) -> Vec<(Operator, Predefined)> {
    let operator = |name: &str| Operator::ALL.into_iter().find(|operator| operator.name() == name);
    let kinds = named.chunks_exact(2).filter_map(|two| operator(&two[0]).zip(Predefined::named(&two[1])));
    let kinds: Vec<_> = kinds.collect();
    if kinds.is_empty() { vec![(Operator::Sum, Predefined::Double)] } else { kinds }
}

/// How long it takes to go through [`BLOCK_BYTES`] bytes.
fn timed(bytes: usize, work: &mut dyn FnMut()) -> Duration {
    let begun = Instant::now();
    for _ in 0..BLOCK_BYTES / bytes {
        work();
    }
    begun.elapsed()
}

#[inline(never)]
fn bare_sum(incoming: &[f64], inout: &mut [f64]) {
    for (incoming, inout) in incoming.iter().zip(inout) {
        *inout += incoming;
    }
}
