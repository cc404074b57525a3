//! What making communicators takes at scale: runs it on the simulated fabric, with as many ranks as are
//! named, and prints rounds, messages and bytes.
//!
//! ```sh
//! cargo run --release -p weft-collectives --example creation -- 65536
//! ```

#[path = "../tests/all/common/mod.rs"]
mod common;

use common::creation::{Cost, agreement, choices, cost, job, parts, run_agreement, run_split};

fn main() {
    let ranks: u32 = std::env::args().nth(1).and_then(|ranks| ranks.parse().ok()).unwrap_or(4096);
    let (agreed, up, down) = (cost(ranks, agreement), cost(ranks, choices), cost(ranks, parts));
    let split = Cost {
        rounds: agreed.rounds + up.rounds + down.rounds,
        messages: agreed.messages + up.messages + down.messages,
        bytes_median: agreed.bytes_median + up.bytes_median + down.bytes_median,
        bytes_most: agreed.bytes_most + up.bytes_most.max(down.bytes_most),
    };
    println!("{ranks} ranks             rounds   messages   bytes sent by the median rank   by most");
    for (name, cost) in [("dup, create", agreed), ("split", split)] {
        let Cost { rounds, messages, bytes_median, bytes_most } = cost;
        println!("{name:<22} {rounds:>6} {messages:>10} {bytes_median:>31} {bytes_most:>9}");
    }
    let mut job = job(ranks);
    run_agreement(&mut job, ranks);
    run_split(&mut job, ranks);
    println!("run on the simulated fabric: {} messages with those of its protocol", job.network.messages());
}
