//! Plays the committed corpus, and a few thousand changed copies of it, to every target.

use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use fuzz::{TARGETS, Target, corpus};

/// Tells which input it was, since neither a panic in a target nor one that hangs does.
fn play(target: &Target, what: &str, input: &[u8]) {
    let (over, watched) = mpsc::channel::<()>();
    let story = format!("{}: {what} hangs; its bytes: {}", target.name, input.escape_ascii());
    let watchdog = std::thread::spawn(move || {
        if watched.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{story}");
            std::process::abort();
        }
    });
    let played = std::panic::catch_unwind(|| (target.run)(input));
    drop(over);
    watchdog.join().expect("a watchdog only watches");
    assert!(
        played.is_ok(),
        "{}: {what} has found something; its bytes: {}",
        target.name,
        input.escape_ascii()
    );
}

fn play_all(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let inputs = corpus::inputs(target).expect("a corpus that can be read");
    assert!(inputs.len() >= (target.seeds)().len(), "the corpus of {name} is not there");
    for (name, input) in &inputs {
        play(target, name, input);
    }
    let mut dice = Dice(0x5eed);
    for round in 0..CHANGED {
        let (name, input) = &inputs[dice.below(inputs.len())];
        let mut changed = input.clone();
        for _ in 0..1 + dice.below(6) {
            dice.change(&mut changed);
        }
        play(target, &format!("change {round} of {name}"), &changed);
    }
}

macro_rules! each {
    ($($name:ident)*) => {
        $(#[test] fn $name() { play_all(stringify!($name)); })*

        #[test]
        fn every_target_is_played() {
            let played = [$(stringify!($name)),*];
            let all: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(all, played);
        }
    };
}

each! { cards datatypes engine libfabric_peer machine pmi_client pmi_client2 pmi_server shm_client shm_peer tcp_link tcp_meeting }

#[test]
fn the_committed_seeds_are_those_of_the_generator() {
    for target in TARGETS {
        for (name, bytes) in (target.seeds)() {
            let path = corpus::folder().join(target.name).join(format!("seed-{name}"));
            assert!(
                fs::read(&path).is_ok_and(|committed| committed == bytes),
                "{} is not what the generator writes: run `cargo run -p weft-fuzz --example corpus seeds`",
                path.display()
            );
        }
    }
}

#[test]
fn what_is_packed_is_unpacked() {
    let inputs = vec![vec![], vec![1, 2, 3], vec![0; 300]];
    let packed = corpus::pack(&inputs);
    assert_eq!(corpus::unpack(&packed), inputs);
    assert_eq!(
        corpus::unpack(&packed[..packed.len() - 1]).len(),
        3,
        "a pack that is cut short is read as far as it goes"
    );
}

/// Random numbers by a seed (splitmix64), the same on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Changes, adds, removes or doubles something.
    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(5) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = self.next() as u8,
            2 if !bytes.is_empty() => drop(bytes.remove(at)),
            3 => bytes.insert(at, self.next() as u8),
            _ => {
                let end = at + self.below(bytes.len() - at + 1);
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
}

const CHANGED: usize = 5000;
/// Above the sleep of any machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(120);
