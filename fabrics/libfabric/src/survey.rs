//! What libfabric has on this host, and which of it a job takes: the one place that chooses.

use std::ffi::OsStr;
use std::path::PathBuf;

use fabric::FabricError;
use libfabric_sys::{Found, LibfabricError, Library, Link, Offer, SONAME, Version, Wanted};

use crate::hardware;
use crate::libfabric::Settings;
use crate::trouble;

/// What there is.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The version of the library.
    pub version: Version,
    /// The file that it was loaded from, as far as the loader tells.
    pub path: Option<PathBuf>,
    /// All ways with reliable-datagram endpoints, those that do not fit too, in the library's order.
    pub found: Vec<Found>,
    /// How near each of them is to this process.
    pub near: Vec<NearDomains>,
    /// The one that a process would take that is bound as this one is.
    pub chosen: Option<Found>,
    /// The offers that would help the chosen one with large messages.
    pub rails: Vec<Found>,
}

/// How near a card is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NearDomains {
    /// The cpus that it is plugged in nearest to, in the kernel's words, where it tells.
    pub local_cpus: Option<String>,
    /// How far it is: the number of the smallest of [`Around::rings`] that holds these cpus.
    pub distance: usize,
}

/// Where a process is among the cards of its host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Around {
    /// The cpus of parts of the machine that hold the cpus of this process, the smallest part first. Where
    /// there are none all cards are as near.
    pub rings: Vec<Vec<usize>>,
    /// The number of this process among those that are as near to the same cards: they take them in turn.
    pub number: usize,
    /// Where the kernel tells of cards, `/sys`.
    pub sys: PathBuf,
}

impl Default for Around {
    fn default() -> Around {
        Around { rings: Vec::new(), number: 0, sys: "/sys".into() }
    }
}

impl Around {
    /// How near a card is.
    fn near(&self, found: &Found) -> NearDomains {
        let local_cpus = hardware::local_cpus(&self.sys, found);
        let last = self.rings.len().saturating_sub(1);
        let distance = local_cpus.as_deref().and_then(hardware::cpus).map_or(last, |cpus| {
            let holds = |ring: &Vec<usize>| cpus.iter().all(|cpu| ring.contains(cpu));
            self.rings.iter().position(holds).unwrap_or(last)
        });
        NearDomains { local_cpus, distance }
    }
}

impl Survey {
    /// Looks at what a job with these settings would find. Takes as long as opening the fabric.
    ///
    /// # Errors
    /// That there is no library, or none that fits, with the remedy. That nothing is offered is no error.
    pub fn make(settings: &Settings) -> Result<Survey, FabricError> {
        let library = Library::load(settings.library.as_deref().unwrap_or_else(|| OsStr::new(SONAME)));
        Survey::with(library.map_err(|error| trouble::no_library(&error))?, settings)
    }

    /// Looks at what a job with these settings would find by a library that is loaded already.
    ///
    /// # Errors
    /// What the library says where it cannot be asked, with the remedy. That nothing is offered is no error.
    pub fn with(library: Library, settings: &Settings) -> Result<Survey, FabricError> {
        let provider = settings.provider.as_deref();
        let cannot_ask = |error| trouble::cannot_open(provider.unwrap_or("(any)"), &error);
        let offered = offers(library, settings).map_err(cannot_ask)?;
        let choice = choose(&offered, settings);
        let (chosen, rails) = choice.map(|(chosen, rails)| (chosen.found(), rails)).unzip();
        let rails = rails.unwrap_or_default().into_iter().map(Offer::found).collect();
        let found = Found::all(library).map_err(cannot_ask)?;
        let near = found.iter().map(|found| settings.around.near(found)).collect();
        Ok(Survey { version: library.version(), path: library.path(), found, near, chosen, rails })
    }
}

/// What the fabric can do with, of what may be used.
pub(crate) fn offers(library: Library, settings: &Settings) -> Result<Vec<Offer>, LibfabricError> {
    let (provider, strict_memory) = (settings.provider.as_deref(), settings.strict_memory);
    let wanted = Wanted { provider, strict_memory, one_sided: true, ..Wanted::default() };
    let mut offers = Offer::find(library, wanted)?;
    offers.retain(|offer| offer.terms().message_bytes_max >= MESSAGE_BYTES_MIN);
    if let Some(domains) = &settings.domains {
        offers.retain(|offer| domains.contains(&offer.domain()));
    }
    Ok(offers)
}

/// The offer that is taken, if any serves, and those that help it with large messages.
pub(crate) fn choose<'a>(offers: &'a [Offer], settings: &Settings) -> Option<(&'a Offer, Vec<&'a Offer>)> {
    let found: Vec<Found> = offers.iter().map(Offer::found).collect();
    let distances: Vec<usize> = found.iter().map(|found| settings.around.near(found).distance).collect();
    let (first, rails) = places(&found, &distances, settings)?;
    Some((&offers[first], rails.into_iter().map(|place| &offers[place]).collect()))
}

/// The place of the one that is taken, and of those that help it.
///
/// The library brings the best provider first, so that, of a card whose link is not down, says on which
/// network this host is. Of the cards on that network the nearest is taken, and of several that are as near
/// each process takes another. Those that help are the nearest of the others, those on that network first,
/// and one for each card.
fn places(found: &[Found], distances: &[usize], settings: &Settings) -> Option<(usize, Vec<usize>)> {
    let first = &found[first(found, settings.provider.is_some())?];
    let is_alike = |other: &Found| {
        other.provider == first.provider
            && other.address_format == first.address_format
            && (is_down(first) || !is_down(other))
    };
    let mut cards: Vec<usize> = Vec::new();
    for place in (0..found.len()).filter(|&place| is_alike(&found[place])) {
        if !cards.iter().any(|&other| found[other].domain == found[place].domain) {
            cards.push(place);
        }
    }
    let is_there = |place: usize| network(&found[place]) == network(first);
    let nearest = cards.iter().filter(|&&place| is_there(place)).map(|&place| distances[place]).min()?;
    let near: Vec<usize> =
        cards.iter().copied().filter(|&place| is_there(place) && distances[place] == nearest).collect();
    let turn = settings.around.number % near.len();
    // The others in the order in which they follow, so that processes that take different ones are helped by
    // different ones.
    let mut others: Vec<usize> = near[turn + 1..].iter().chain(&near[..turn]).copied().collect();
    let mut far: Vec<usize> = cards.into_iter().filter(|place| !near.contains(place)).collect();
    far.sort_by_key(|&place| (is_within_host(&found[place].fabric), !is_there(place), distances[place]));
    others.extend(far);
    others.truncate(settings.rails.saturating_sub(1));
    Some((near[turn], others))
}

/// The place of the first that serves. Where nobody has named a provider, only those for hardware serve.
fn first(offered: &[Found], is_named: bool) -> Option<usize> {
    let serves = |found: &Found| is_named || Nature::of(found) == Nature::Hardware;
    let mut serving = offered.iter().enumerate().filter(|(_, found)| serves(found));
    let best = serving.next()?;
    let up = std::iter::once(best).chain(serving).find(|(_, found)| !is_down(found));
    Some(up.unwrap_or(best).0)
}

fn is_down(found: &Found) -> bool {
    found.nic.as_ref().is_some_and(|nic| nic.link == Link::Down)
}

/// The network that a way leads to. Older EFA providers give the card's own address for it, but all of them
/// are on one.
pub(crate) fn network(found: &Found) -> String {
    match found.provider.split(';').next() {
        Some("efa") => "efa".to_owned(),
        _ => found.fabric.clone(),
    }
}

/// Whether a network is the host itself, by the names that providers over sockets give it.
pub(crate) fn is_within_host(network: &str) -> bool {
    network.starts_with("127.") || network.starts_with("::1/")
}

/// What a provider stands on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nature {
    /// Network cards that move the bytes by themselves.
    Hardware,
    /// The sockets of the kernel, which the tcp fabric uses with less between.
    Sockets,
    /// The memory of one host, which the shm fabric uses with less between.
    OneHost,
}

impl Nature {
    /// The nature of an offer, by the names of its provider and network. Providers that stand on others, as
    /// `verbs;ofi_rxm`, name the lowest first; psm3 works over sockets too, and says so in the name of the
    /// network.
    #[must_use]
    pub fn of(found: &Found) -> Nature {
        match found.provider.split(';').next().unwrap_or_default() {
            "tcp" | "net" | "udp" | "sockets" => Nature::Sockets,
            "psm3" if found.fabric.starts_with("TCP-") => Nature::Sockets,
            "shm" | "sm2" => Nature::OneHost,
            _ => Nature::Hardware,
        }
    }
}

/// The least that a provider's message must hold: a hello with the longest card.
const MESSAGE_BYTES_MIN: usize = 1024;

#[cfg(test)]
pub(crate) mod tests {
    use libfabric_sys::{AddressFormat, Nic, PciAddress, mock};

    use super::*;

    pub(crate) fn nic(device: &str, pci: Option<PciAddress>) -> Nic {
        let (driver, network) = Default::default();
        Nic { device: device.to_owned(), driver, pci, bits_per_second: None, link: Link::Unknown, network }
    }

    pub(crate) fn found(provider: &str, domain: &str, link: Option<Link>) -> Found {
        let nic = link.map(|link| Nic { link, ..nic(domain, None) });
        let (provider, domain) = (provider.to_owned(), domain.to_owned());
        let fabric = "a network".to_owned();
        Found { provider, domain, fabric, address_format: AddressFormat(0), nic, fits: true }
    }

    /// The one that is taken where all are as near.
    fn place(found: &[Found], is_named: bool) -> Option<usize> {
        let provider = is_named.then(|| "x".to_owned());
        let settings = Settings { provider, ..Settings::default() };
        places(found, &vec![0; found.len()], &settings).map(|(place, _)| place)
    }

    #[test]
    fn the_nearest_is_taken_and_of_several_each_process_takes_another() {
        let mut cards: Vec<Found> =
            (0..5).map(|card| found("verbs;ofi_rxm", &format!("mlx5_{card}"), Some(Link::Up))).collect();
        let taken = |cards: &[Found], number, rails| {
            let around = Around { number, ..Around::default() };
            let settings = Settings { around, rails, ..Settings::default() };
            places(cards, &[2, 0, 0, 1, 0][..cards.len()], &settings).unwrap()
        };
        assert_eq!([0, 1, 2, 3].map(|number| taken(&cards, number, 0).0), [1, 2, 4, 1]);
        assert_eq!(taken(&cards, 1, 4), (2, vec![4, 1, 3]));
        assert_eq!(taken(&cards, 0, 9), (1, vec![2, 4, 3, 0]));
        // What is down or on another network is not taken, and only the other network helps.
        cards[1].nic.as_mut().unwrap().link = Link::Down;
        cards[2].fabric = "another".to_owned();
        assert_eq!([0, 1].map(|number| taken(&cards, number, 0).0), [4, 4]);
        assert_eq!(taken(&cards, 0, 9), (4, vec![3, 0, 2]));
        // A card comes once for each of its addresses, and other providers with the same cards.
        let mut again = vec![cards[0].clone(), cards[0].clone()];
        again.push(found("tcp;ofi_rxm", "ib0", None));
        assert_eq!(taken(&again, 1, 9), (0, vec![]));
    }

    #[test]
    fn a_card_is_as_far_as_the_part_of_the_machine_that_holds_both() {
        let sys = tempfile::tempdir().unwrap();
        for (card, cpus) in [("a", "0-3"), ("b", "4-7"), ("c", "0-7"), ("d", "8-15"), ("e", "0-99")] {
            let folder = sys.path().join("class/infiniband").join(card).join("device");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("local_cpulist"), cpus).unwrap();
        }
        let rings = [1..2, 0..4, 0..8, 0..16].map(Vec::from_iter).to_vec();
        let around = Around { rings, number: 0, sys: sys.path().to_owned() };
        let distance = |card: &str| around.near(&found("x", card, None)).distance;
        assert_eq!(["a", "b", "c", "d", "e", "nowhere"].map(distance), [1, 2, 2, 3, 3, 3]);
        assert_eq!(around.near(&found("x", "b", None)).local_cpus.as_deref(), Some("4-7"));
        let nothing = Around { rings: Vec::new(), ..around };
        assert!(["a", "d"].iter().all(|card| nothing.near(&found("x", card, None)).distance == 0));
    }

    #[test]
    fn networks_are_told_apart_by_their_names_but_those_of_efa() {
        let of = |provider, fabric: &str| {
            network(&Found { fabric: fabric.to_owned(), ..found(provider, "a", None) })
        };
        assert_eq!(of("efa", "EFA-fe80::94:3dff:fe89:1b70"), of("efa", "efa"));
        assert_ne!(
            of("verbs;ofi_rxm", "IB-0xfe80000000000000"),
            of("verbs;ofi_rxm", "IB-0xfe80000000000001")
        );
        assert!(
            is_within_host("127.0.0.1/32") && is_within_host("::1/128") && !is_within_host("192.0.2.0/24")
        );
    }

    #[test]
    fn hardware_is_taken_where_nobody_is_named() {
        let software = [
            found("tcp;ofi_rxm", "eth0", Some(Link::Up)),
            found("net", "eth0", None),
            found("udp;ofi_rxd", "eth0", None),
            found("sockets", "eth0", None),
            found("shm", "shm", None),
            found("sm2", "sm2", None),
        ];
        assert_eq!(place(&software, false), None);
        assert_eq!(place(&software[4..], true), Some(0), "who names one gets it");
        for hardware in ["verbs;ofi_rxm", "efa", "cxi", "psm3", "opx", "a provider of tomorrow"] {
            let mut all = software.to_vec();
            all.push(found(hardware, "card", None));
            assert_eq!(place(&all, false), Some(6), "{hardware}");
        }
    }

    #[test]
    fn psm3_is_hardware_only_where_it_does_not_use_sockets() {
        let mut ways = [found("psm3", "eth0", None)];
        assert_eq!(place(&ways, false), Some(0));
        ways[0].fabric = "TCP-192.0.2.0/24".to_owned();
        assert_eq!((place(&ways, false), place(&ways, true)), (None, Some(0)));
    }

    #[test]
    fn a_link_that_is_down_is_passed_over() {
        let mut cards = [
            found("verbs;ofi_rxm", "mlx5_0", Some(Link::Down)),
            found("verbs;ofi_rxm", "mlx5_1", Some(Link::Unknown)),
            found("verbs;ofi_rxm", "mlx5_2", Some(Link::Up)),
        ];
        assert_eq!(place(&cards, false), Some(1));
        cards.swap(0, 2);
        assert_eq!(place(&cards, false), Some(0));
        // With no other it is taken, and the provider says what is wrong.
        assert_eq!(place(&cards[2..], false), Some(0));
        assert_eq!(place(&[], true), None);
    }

    #[test]
    fn what_holds_no_hello_is_not_taken() {
        let chosen = |message_bytes_max| {
            let library = mock::library(mock::Rules { message_bytes_max, ..mock::Rules::NONE });
            let offers = offers(library, &Settings::default()).unwrap();
            choose(&offers, &Settings::default()).map(|(offer, _)| offer.provider())
        };
        assert_eq!(chosen(MESSAGE_BYTES_MIN).as_deref(), Some(mock::PROVIDER));
        assert_eq!(chosen(MESSAGE_BYTES_MIN - 1), None);
    }

    #[test]
    fn a_library_that_is_not_there_is_an_answer_with_a_remedy() {
        let error = Survey::make(&Settings {
            library: Some("/nowhere/libfabric.so.1".into()),
            ..Settings::default()
        });
        let error = error.unwrap_err();
        assert!(error.what.contains("/nowhere/libfabric.so.1 cannot be loaded"), "{error}");
        assert!(error.what.contains("\nInstall it"), "{error}");
    }
}
