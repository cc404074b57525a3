//! The simulated fabric by the conformance suite, and what only it can do.

use super::*;
use crate::conformance::Pair;

fn pair(weather: Weather) -> (Simulated, Simulated) {
    let network = Network::new(2, weather);
    (network.endpoint(Peer(0)), network.endpoint(Peer(1)))
}

impl Pair for Simulated {
    type Fabric = Simulated;

    fn pair() -> (Simulated, Simulated) {
        pair(Weather::fair())
    }
}

crate::conformance!(Simulated);

/// The conformance suite when everything goes wrong that may.
mod stormy {
    use super::*;

    struct Stormy;

    impl Pair for Stormy {
        type Fabric = Simulated;

        fn pair() -> (Simulated, Simulated) {
            pair(Weather::storm(4))
        }
    }

    crate::conformance!(Stormy);
}

struct Recorder(Vec<(Peer, u32)>, Vec<Peer>);

impl Sink for Recorder {
    fn message(&mut self, from: Peer, header: &Header, _payload: Payload<'_>) {
        self.0.push((from, header.words[0]));
    }
    fn arriving(&mut self, _: Peer, _: &Header, _: usize) -> UserMemory {
        unreachable!("fair weather brings everything whole")
    }
    fn landed(&mut self, _: Peer) {}
    fn lost(&mut self, peer: Peer, _: FabricError) {
        self.1.push(peer);
    }
}

#[test]
fn different_senders_overtake_each_other_and_the_seed_decides() {
    let run = |seed| {
        let network = Network::new(3, Weather { seed, delay_polls_max: 50, ..Weather::fair() });
        let mut ends: Vec<_> = (0..3).map(|peer| network.endpoint(Peer(peer))).collect();
        for number in 0..20 {
            let header = Header { words: [number; 6] };
            let sender = 1 + number as usize % 2;
            assert_eq!(ends[sender].post(Peer(0), &header, Payload::EMPTY), Posted::Sent);
        }
        let mut heard = Recorder(Vec::new(), Vec::new());
        while heard.0.len() < 20 {
            ends[0].poll(&mut heard, 8);
        }
        heard.0
    };
    let order = run(7);
    assert_eq!(order, run(7));
    assert_ne!(order, run(8));
    assert!(!order.is_sorted_by_key(|(_, number)| *number), "nobody overtook anybody");
    for sender in [1, 2] {
        assert!(order.iter().filter(|(from, _)| from.0 == sender).is_sorted());
    }
}

#[test]
fn everybody_learns_of_a_death_once() {
    let network = Network::new(2, Weather::fair());
    let mut end = network.endpoint(Peer(0));
    let mut heard = Recorder(Vec::new(), Vec::new());
    network.kill(Peer(1));
    end.poll(&mut heard, 8);
    end.poll(&mut heard, 8);
    assert_eq!(heard.1, [Peer(1)]);
}

#[test]
fn what_was_sent_before_a_death_is_heard_before_it_or_cut_off() {
    let (mut cut, seeds) = (0, if cfg!(miri) { 8 } else { 40 });
    for seed in 0..seeds {
        let weather = Weather { seed, delay_polls_max: 9, cut_percent: 50, ..Weather::fair() };
        let network = Network::new(3, weather);
        let mut ends: Vec<_> = (0..3).map(|peer| network.endpoint(Peer(peer))).collect();
        for number in 0..5 {
            let header = Header { words: [number; 6] };
            assert_eq!(ends[1].post(Peer(0), &header, Payload::EMPTY), Posted::Sent);
        }
        network.kill(Peer(1));
        let mut heard = Recorder(Vec::new(), Vec::new());
        while heard.1.is_empty() {
            ends[0].poll(&mut heard, 8);
        }
        let before = heard.0.len();
        (0..50).for_each(|_| _ = ends[0].poll(&mut heard, 8));
        assert_eq!((heard.0.len(), &heard.1[..]), (before, &[Peer(1)][..]), "seed {seed}");
        assert!(heard.0.iter().zip(0..).all(|((_, number), expected)| *number == expected), "seed {seed}");
        cut += u64::from(before < 5);
    }
    assert!((1..seeds).contains(&cut), "cut off {cut} times out of {seeds}");
}

#[test]
fn a_process_dies_at_the_step_that_was_said_and_does_nothing_from_then_on() {
    for step in 1..=4 {
        let network = Network::new(2, Weather::fair());
        let (mut dying, mut other) = (network.endpoint(Peer(0)), network.endpoint(Peer(1)));
        network.kill_at(Peer(0), step);
        let mut sent = 0;
        for number in 0..3 {
            let header = Header { words: [number; 6] };
            sent += u64::from(dying.post(Peer(1), &header, Payload::EMPTY) == Posted::Sent);
        }
        let exposed = dying.register_memory(Peer(1), Payload::from(&[1u8; 8][..]));
        assert_eq!((sent, network.is_dead(Peer(0))), (step - 1, true));
        assert_eq!((network.steps(Peer(0)), exposed, network.exposures()), (step, Exposed::default(), 0));
        let mut heard = Recorder(Vec::new(), Vec::new());
        (0..3).for_each(|_| _ = other.poll(&mut heard, 8));
        assert_eq!((heard.0.len() as u64, &heard.1[..]), (sent, &[Peer(0)][..]));
    }
}
