//! Several cards of one provider: what is told of them, and an endpoint on each.

use super::*;
use crate::found::{Found, Link, Nic, PciAddress};
use crate::mock::{self, Card, Domain, Rules};

const fn card(device: &'static str, bus: u8, link: Link) -> Option<Card> {
    let pci = Some(PciAddress { domain: 0, bus, device: 0, function: 1 });
    Some(Card { device, pci, bits_per_second: 200_000_000_000, link })
}

const BARE: Option<Card> = Some(Card { device: "", pci: None, bits_per_second: 0, link: Link::Unknown });

const DOMAINS: &[Domain] = &[
    Domain { name: "mlx0", fabric: "rack", card: card("card0", 0x3b, Link::Up), fits: true },
    Domain { name: "old", fabric: "rack", card: None, fits: false },
    Domain { name: "mlx1", fabric: "rack", card: card("card1", 0xd8, Link::Down), fits: true },
    Domain { name: "bare", fabric: "island", card: BARE, fits: true },
    Domain { name: "soft", fabric: "island", card: None, fits: true },
];
const CARDS: Rules = Rules { domains: DOMAINS, ..Rules::NONE };

#[test]
fn cards_are_told_as_far_as_the_provider_does() {
    let library = mock::library(CARDS);
    let offers = Offer::find(library, Wanted::default()).unwrap();
    let names: Vec<String> = offers.iter().map(Offer::domain).collect();
    assert_eq!(names, ["mlx0", "mlx1", "bare", "soft"]);
    let nic = offers[0].nic().unwrap();
    let expected = Nic {
        device: "card0".into(),
        driver: "mock_core".into(),
        pci: Some(PciAddress { domain: 0, bus: 0x3b, device: 0, function: 1 }),
        bits_per_second: Some(200_000_000_000),
        link: Link::Up,
        network: "InfiniBand".into(),
    };
    assert_eq!(nic, expected);
    assert_eq!(nic.pci.unwrap().to_string(), "0000:3b:00.1");
    assert_eq!(offers[1].nic().unwrap().link, Link::Down);
    let bare = offers[2].nic().unwrap();
    assert_eq!((bare.device.as_str(), bare.pci, bare.bits_per_second), ("", None, None));
    assert_eq!((bare.link, bare.network.as_str()), (Link::Unknown, ""));
    assert_eq!(offers[3].nic(), None);
}

#[test]
fn all_that_there_is_tells_what_does_not_fit() {
    let all = Found::all(mock::library(CARDS)).unwrap();
    let told: Vec<(&str, &str, bool)> =
        all.iter().map(|found| (found.domain.as_str(), found.fabric.as_str(), found.fits)).collect();
    let expected =
        [("mlx0", "rack", true), ("old", "rack", false), ("mlx1", "rack", true), ("bare", "island", true)];
    assert_eq!(told[..4], expected);
    assert_eq!(told[4], ("soft", "island", true));
    assert!(all.iter().all(|found| found.provider == mock::PROVIDER));
    assert_eq!(all[0].address_format.to_string(), "PSM2");
}

#[test]
fn a_domain_is_opened_by_its_name() {
    let library = mock::library(CARDS);
    for one_sided in [false, true] {
        let named = |domain| {
            Offer::find(library, Wanted { domain: Some(domain), one_sided, ..Wanted::default() }).unwrap()
        };
        assert!(named("old").is_empty() && named("mlx").is_empty());
        let found = named("mlx1");
        assert_eq!((found.len(), found[0].nic().unwrap().device.as_str()), (1, "card1"));
        assert_eq!(found[0].terms().writes, one_sided);
    }
}

#[test]
fn an_endpoint_on_each_card_sends_to_those_of_its_network() {
    let library = mock::library(CARDS);
    let offers = Offer::find(library, Wanted::default()).unwrap();
    let mut open: Vec<Endpoint> =
        offers.iter().map(|offer| Endpoint::open(offer, CAPACITY).unwrap()).collect();
    let [first, second, island, _] = &mut open[..] else { panic!("four are offered") };
    assert!(first.insert(island.name()).is_err(), "another network");
    let to_second = first.insert(second.name()).unwrap();
    let mut room = vec![0u8; 4096];
    // SAFETY: `room` lives until the endpoints are closed, and is read when a message has come.
    let taken =
        unsafe { second.receive(Operation(0), Span::new(room.as_mut_ptr(), room.len()), None, Takes::Many) };
    assert_eq!(taken, Answer::Taken);
    turn_until(first, second, |first| first.inject(b"hello", to_second) == Answer::Taken);
    assert_eq!(next(second, first).bytes, 5);
    assert_eq!(mock::broken_rules(), [""; 0]);
}

#[test]
fn what_this_machine_has_is_told() {
    let Some(library) = library() else { return };
    let all = Found::all(library).unwrap();
    assert!(all.iter().any(|found| found.provider.contains("tcp") && found.fits), "{all:?}");
    let told = |found: &Found| !found.domain.is_empty() && !found.address_format.to_string().contains("kind");
    assert!(all.iter().all(told), "{all:?}");
    for (place, found) in all.iter().enumerate() {
        assert!(!all[..place].contains(found), "told twice: {found:?}");
    }
    for found in all.iter().filter(|found| found.fits) {
        let wanted =
            Wanted { provider: Some(&found.provider), domain: Some(&found.domain), ..Wanted::default() };
        let offers = Offer::find(library, wanted).unwrap();
        let offered: Vec<Found> = offers.iter().map(Offer::found).collect();
        assert!(offered.contains(found), "{found:?} is not among {offered:?}");
    }
}
