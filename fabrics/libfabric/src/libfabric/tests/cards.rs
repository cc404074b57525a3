//! Several network cards: which is taken, who reaches whom, and large messages over several.

use super::faults::{Noting, connect, post, until};
use super::*;
use crate::survey::Survey;
use fabric::Heap;
use libfabric_sys::mock::{Card as MockCard, Domain};
use libfabric_sys::{Link as CardLink, PciAddress};

const fn card(device: &'static str, bus: u8, link: CardLink) -> Option<MockCard> {
    let pci = Some(PciAddress { domain: 0, bus, device: 0, function: 0 });
    Some(MockCard { device, pci, bits_per_second: 100_000_000_000, link })
}

const fn domain(name: &'static str, fabric: &'static str, bus: u8, link: CardLink) -> Domain {
    Domain { name, fabric, card: card(name, bus, link), fits: true }
}

/// Two cards near cpus 0 to 3, one near 4 to 7, one that is down, and one on another network.
const CARDS: Rules = Rules {
    domains: &[
        domain("far", "rack", 0x80, CardLink::Up),
        domain("near0", "rack", 0x10, CardLink::Up),
        domain("down", "rack", 0x11, CardLink::Down),
        domain("near1", "rack", 0x12, CardLink::Unknown),
        domain("island", "island", 0x13, CardLink::Up),
    ],
    ..MEMORY
};

/// What the kernel would tell of these cards.
fn sys() -> tempfile::TempDir {
    let sys = tempfile::tempdir().unwrap();
    for (bus, cpus) in [("80", "4-7"), ("10", "0-3"), ("11", "0-3"), ("12", "0-3"), ("13", "0-3")] {
        let folder = sys.path().join(format!("bus/pci/devices/0000:{bus}:00.0"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("local_cpulist"), format!("{cpus}\n")).unwrap();
    }
    sys
}

/// The settings of a process that is bound to one cpu of a machine with two parts of four.
fn settings(sys: &tempfile::TempDir, cpu: usize, number: usize, rails: usize) -> Settings {
    let part = if cpu < 4 { 0..4 } else { 4..8 };
    let rings = vec![vec![cpu], part.collect(), (0..8).collect()];
    let around = Around { rings, number, sys: sys.path().to_owned() };
    Settings { provider: Some(mock::PROVIDER.to_owned()), peers: 8, rails, around, ..Settings::default() }
}

fn domains(fabric: &Libfabric) -> Vec<&str> {
    fabric.domains().collect()
}

#[test]
fn processes_take_the_nearest_cards_in_turn_and_reach_each_other() {
    let (sys, library) = (sys(), mock::library(CARDS));
    let mut fabrics: Vec<Libfabric> = [(0, 0), (1, 1), (2, 2), (5, 3)]
        .into_iter()
        .map(|(cpu, number)| {
            let settings = settings(&sys, cpu, number, 1);
            Libfabric::open_with(Peer(number as u32), library, &settings).unwrap()
        })
        .collect();
    let taken: Vec<Vec<&str>> = fabrics.iter().map(domains).collect();
    assert_eq!(taken, [["near0"], ["near1"], ["near0"], ["far"]]);
    let mut heard = Noting::default();
    for to in 1..4 {
        let [from, others @ ..] = &mut fabrics[..] else { panic!("four are open") };
        let other = &mut others[to - 1];
        let lane = connect(from, other);
        post(from, lane, &[to as u8; 3000], &mut heard);
        let mut there = Noting::default();
        until("a message between cards", || {
            from.poll(&mut heard, 16);
            other.poll(&mut there, 16);
            !there.messages.is_empty()
        });
        assert_eq!(there.messages, [vec![to as u8; 3000]]);
    }
    assert_eq!(mock::broken_rules(), [""; 0]);
}

#[test]
fn who_is_on_another_network_is_not_reached_and_that_is_said() {
    let (sys, library) = (sys(), mock::library(CARDS));
    let near = settings(&sys, 0, 0, 1);
    let island = Settings { domains: Some(vec!["island".to_owned()]), ..near.clone() };
    let mut here = Libfabric::open_with(Peer(0), library, &near).unwrap();
    let there = Libfabric::open_with(Peer(1), library, &island).unwrap();
    assert_eq!(here.reach(Peer(1), &there.address()), None);
    let error = here.connect(Peer(1), &there.address()).unwrap_err();
    assert!(error.what.contains("network island") && error.what.contains("network rack"), "{error}");
    let nothing = Settings { domains: Some(vec!["moon".to_owned()]), ..near };
    assert!(Libfabric::open_with(Peer(2), library, &nothing).is_err());
}

#[test]
fn sockets_reach_other_networks_but_no_host_by_addresses_of_its_own() {
    let (left, right) = real("tcp;ofi_rxm", false);
    let reaches = |network: &str, is_near: bool| {
        let mut card = Card::decode(&right.address()).unwrap();
        card.network = network.to_owned();
        // The last byte is of the network namespace.
        card.host_identity.0[15] ^= u8::from(!is_near);
        left.reach(Peer(1), &card.encode()).is_some()
    };
    assert!(reaches("203.0.113.0/24", true) && reaches("203.0.113.0/24", false));
    assert!(reaches("127.0.0.1/32", true) && !reaches("127.0.0.1/32", false));
}

#[test]
fn a_survey_tells_what_would_be_taken_and_how_near_it_is() {
    let sys = sys();
    let survey = Survey::with(mock::library(CARDS), &settings(&sys, 6, 0, 3)).unwrap();
    let name = |found: &Found| found.domain.clone();
    assert_eq!(survey.chosen.as_ref().map(name).as_deref(), Some("far"));
    assert_eq!(survey.rails.iter().map(name).collect::<Vec<_>>(), ["near0", "near1"]);
    let near: Vec<usize> = survey.near.iter().map(|near| near.distance).collect();
    assert_eq!(near, [1, 2, 2, 2, 2]);
    assert_eq!(survey.near[0].local_cpus.as_deref(), Some("4-7"));
}

/// Two ends of which each has so many rails.
fn railed(rules: Rules, rails: [usize; 2]) -> [Libfabric; 2] {
    let (sys, library) = (sys(), mock::library(rules));
    [0, 1].map(|number| {
        let settings = settings(&sys, number, number, rails[number]);
        Libfabric::open_with(Peer(number as u32), library, &settings).unwrap()
    })
}

/// Brings a large message from the left to the right by a pull. How much each endpoint has moved for it.
fn pull(sides: &mut [Libfabric; 2], bytes: usize) -> Vec<usize> {
    let before = mock::moved_bytes();
    let [left, right] = sides;
    let (to_right, to_left) = (connect(left, right), connect(right, left));
    let data: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 1000) as u8).collect();
    let (mut at_left, mut at_right) = (Noting::default(), Noting::default());
    let mut turn = |left: &mut Libfabric, right: &mut Libfabric, at_right: &mut Noting| {
        left.poll(&mut at_left, 16);
        right.poll(at_right, 16);
        assert!(
            at_left.lost.is_empty() && at_right.lost.is_empty(),
            "{:?} {:?}",
            at_left.lost,
            at_right.lost
        );
    };
    let mut say = |left: &mut Libfabric, right: &mut Libfabric, at_right: &mut Noting, what: &[u8]| {
        let mut sent = false;
        until("a message", || {
            sent = sent || left.post(to_right, &Header::default(), Payload::from(what)) == Posted::Sent;
            turn(left, right, at_right);
            at_right.messages.last().is_some_and(|message| message == what)
        });
    };
    say(left, right, &mut at_right, b"before");
    let exposed = left.register_memory(to_right, Payload::from(&data[..]));
    say(left, right, &mut at_right, b"here it is");
    let room = Heap::new(bytes);
    assert_eq!(right.pull(to_left, exposed, 0, &mut room.memory(), 1), Pulled::Underway);
    until("the message", || {
        turn(left, right, &mut at_right);
        !at_right.pulled.is_empty()
    });
    assert_eq!(at_right.pulled, [(1, true)]);
    assert!(room.payload().to_vec() == data, "{bytes} bytes have changed on the way");
    left.deregister_memory(Peer(1), exposed);
    assert_eq!(mock::broken_rules(), [""; 0]);
    mock::moved_bytes().iter().zip(before).map(|(now, before)| now - before).collect()
}

#[test]
fn a_large_message_goes_over_all_rails_and_a_smaller_over_one() {
    let storm = Rules { busy_percent: 30, reorders: true, seed: 11, ..CARDS };
    let own_keys = Rules { provider_keys: false, by_address: false, ..CARDS };
    let wide = Rules { message_bytes_max: 1 << 30, ..CARDS };
    for rules in [CARDS, storm, own_keys, wide] {
        let mut sides = railed(rules, [3, 3]);
        assert_eq!(sides.each_ref().map(domains), [["near0", "near1", "far"], ["near1", "near0", "far"]]);
        // The left has the first three endpoints, and reads nothing.
        let moved = pull(&mut sides, 3_000_000);
        assert_eq!(moved[..3], [0, 0, 0]);
        assert_eq!(moved.iter().sum::<usize>(), 3_000_000);
        assert!(moved[3..].iter().all(|bytes| (900_000..=1_100_000).contains(bytes)), "{moved:?}");
        assert_eq!(pull(&mut sides, 100_000)[3..], [100_000, 0, 0]);
    }
}

#[test]
fn who_has_more_rails_than_the_peer_uses_those_that_both_have() {
    for (rails, used) in [([3, 1], 1), ([1, 3], 1), ([2, 3], 2), ([3, 2], 2)] {
        let moved = pull(&mut railed(CARDS, rails), 2_000_000);
        assert_eq!(moved.iter().filter(|bytes| **bytes > 0).count(), used, "{rails:?}: {moved:?}");
    }
}

#[test]
fn a_rail_that_does_not_register_memory_does_not_help() {
    let mut sides = railed(Rules { message_bytes_max: 1 << 20, ..CARDS }, [2, 2]);
    // Two for each end's own memory, two for what the left shows, and one for where the right reads it to.
    mock::change(|rules| rules.regions_max = 4 + 2 + 1);
    let moved = pull(&mut sides, 1_000_000);
    assert_eq!(moved.iter().filter(|bytes| **bytes > 0).count(), 1, "{moved:?}");
}

/// Providers that cache registrations answer the same key for all that begins at one place.
#[test]
fn memory_that_is_shown_twice_stays_shown_until_both_are_over() {
    let mut sides = railed(Rules { shares_keys: true, ..CARDS }, [2, 2]);
    let [left, right] = &mut sides;
    let (to_right, to_left) = (connect(left, right), connect(right, left));
    let (mut at_left, mut heard) = (Noting::default(), Noting::default());
    post(left, to_right, b"before", &mut at_left);
    until("a message", || {
        left.poll(&mut at_left, 16);
        right.poll(&mut heard, 16);
        !heard.messages.is_empty()
    });
    let data = vec![7u8; 1 << 20];
    let short = left.register_memory(to_right, Payload::from(&data[..100_000]));
    let long = left.register_memory(to_right, Payload::from(&data[..]));
    assert_eq!(short, long);
    // Of the short one, which was over first.
    left.deregister_memory(Peer(1), short);
    until("the keys", || {
        left.poll(&mut at_left, 16);
        right.poll(&mut heard, 16);
        right.links[to_left.0 as usize].heard == 3
    });
    let room = Heap::new(data.len());
    assert_eq!(right.pull(to_left, long, 0, &mut room.memory(), 9), Pulled::Underway);
    until("the message", || {
        left.poll(&mut at_left, 16);
        right.poll(&mut heard, 16);
        !heard.pulled.is_empty()
    });
    assert_eq!(heard.pulled, [(9, true)]);
    assert!(room.payload().to_vec() == data && heard.lost.is_empty(), "{:?}", heard.lost);
    assert!(mock::moved_bytes().iter().filter(|bytes| **bytes > 0).count() == 2, "over both rails");
    assert!(left.is_hasty());
    left.deregister_memory(Peer(1), long);
    assert!(!left.is_hasty());
    assert_eq!(mock::broken_rules(), [""; 0]);
}

/// The same, where some message out of a buffer is always on its way.
#[test]
fn memory_that_is_never_done_with_is_registered_no_more_than_it_must() {
    let mut sides = railed(Rules { shares_keys: true, ..CARDS }, [2, 2]);
    let [left, right] = &mut sides;
    let (to_right, to_left) = (connect(left, right), connect(right, left));
    // Two for each end's own memory, two for the longest that the left shows, two for one more, and two to
    // read it to.
    mock::change(|rules| rules.regions_max = 4 + 2 + 2 + 2);
    let data: Vec<u8> = (0..1 << 20).map(|place: u32| (place / 7) as u8).collect();
    let lengths = [300_000, 1 << 20, 300_000, 90_000, 700_000];
    let mut before = None;
    for (number, bytes) in lengths.into_iter().cycle().take(60).enumerate() {
        let exposed = left.register_memory(to_right, Payload::from(&data[..bytes]));
        assert_ne!(exposed, Exposed::default(), "message {number} is not registered");
        if let Some(before) = before.replace(exposed) {
            left.deregister_memory(Peer(1), before);
        }
        let room = Heap::new(bytes);
        assert_eq!(right.pull(to_left, exposed, 0, &mut room.memory(), 9), Pulled::Underway);
        let mut heard = Noting::default();
        until("the message", || {
            left.poll(&mut Noting::default(), 16);
            right.poll(&mut heard, 16);
            !heard.pulled.is_empty()
        });
        assert_eq!(heard.pulled, [(9, true)]);
        assert!(room.payload().to_vec() == data[..bytes], "message {number}");
    }
    left.deregister_memory(Peer(1), before.expect("the last message"));
    assert!(!left.is_hasty());
    assert_eq!(mock::broken_rules(), [""; 0]);
}

#[test]
fn a_rail_that_fails_loses_the_peer_and_is_told_once() {
    let [mut left, mut right] = railed(CARDS, [2, 2]);
    let (to_right, to_left) = (connect(&mut left, &right), connect(&mut right, &left));
    let data = vec![4u8; 1 << 20];
    let (mut at_left, mut heard) = (Noting::default(), Noting::default());
    post(&mut left, to_right, b"before", &mut at_left);
    let exposed = left.register_memory(to_right, Payload::from(&data[..]));
    post(&mut left, to_right, b"here it is", &mut at_left);
    until("word of the message", || {
        left.poll(&mut at_left, 16);
        right.poll(&mut heard, 16);
        heard.messages.len() == 2
    });
    // The second endpoint of the left is its rail.
    mock::change(|rules| rules.dead = Some(1));
    let room = Heap::new(data.len());
    assert_eq!(right.pull(to_left, exposed, 0, &mut room.memory(), 9), Pulled::Underway);
    until("the loss", || {
        left.poll(&mut at_left, 16);
        right.poll(&mut heard, 16);
        !heard.lost.is_empty()
    });
    assert_eq!((heard.pulled, heard.lost.len()), (vec![(9, false)], 1));
}

/// Over two interfaces of this host, on networks that do not lead to each other.
#[test]
fn a_large_message_goes_over_two_interfaces() {
    let library = std::env::var_os("WEFT_LIBFABRIC");
    let provider = Some("tcp;ofi_rxm".to_owned());
    let settings = Settings { library, provider, peers: 2, rails: 2, ..Settings::default() };
    let mut sides = [0, 1].map(|number| Libfabric::open(Peer(number), &settings).expect("a fabric opens"));
    if sides[0].domains().count() < 2 {
        return println!("LEFT OUT: this host has one network interface");
    }
    let [left, right] = &mut sides;
    let to_right = connect(left, right);
    assert!(left.links[to_right.0 as usize].rails.is_some(), "no rail leads to the other end");
    for bytes in [300_000, 5_000_000] {
        pull(&mut sides, bytes);
    }
}
