//! What libfabric has on this host, and which of it a job takes: the one place that chooses.

use std::ffi::OsStr;
use std::path::PathBuf;

use fabric::FabricError;
use libfabric_sys::{Found, LibfabricError, Library, Link, Offer, SONAME, Version, Wanted};

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
    /// The one that a job would take.
    pub chosen: Option<Found>,
}

impl Survey {
    /// Looks, with the library and the provider that are named, if they are. Takes as long as opening the fabric.
    ///
    /// # Errors
    /// That there is no library, or none that fits, with the remedy. That nothing is offered is no error.
    pub fn make(library: Option<&OsStr>, provider: Option<&str>) -> Result<Survey, FabricError> {
        let library = Library::load(library.unwrap_or_else(|| OsStr::new(SONAME)));
        let library = library.map_err(|error| trouble::no_library(&error))?;
        let cannot_ask = |error| trouble::cannot_open(provider.unwrap_or("(any)"), &error);
        let wanted = Wanted { provider, ..Wanted::default() };
        let offered = offers(library, wanted).map_err(cannot_ask)?;
        let chosen = choose(&offered, provider.is_some()).map(Offer::found);
        let found = Found::all(library).map_err(cannot_ask)?;
        Ok(Survey { version: library.version(), path: library.path(), found, chosen })
    }
}

/// What the fabric can do with.
pub(crate) fn offers(library: Library, wanted: Wanted<'_>) -> Result<Vec<Offer>, LibfabricError> {
    let mut offers = Offer::find(library, wanted)?;
    offers.retain(|offer| offer.terms().message_bytes_max >= MESSAGE_BYTES_MIN);
    Ok(offers)
}

/// The offer that is taken, if any serves.
pub(crate) fn choose(offers: &[Offer], is_named: bool) -> Option<&Offer> {
    let found: Vec<Found> = offers.iter().map(Offer::found).collect();
    place(&found, is_named).map(|place| &offers[place])
}

/// The place of the one that is taken: the first, since the library brings the best first, of a card whose link is not
/// down. Where nobody has named a provider, only those for hardware serve.
fn place(offered: &[Found], is_named: bool) -> Option<usize> {
    let serves = |found: &Found| is_named || Nature::of(found) == Nature::Hardware;
    let is_down = |found: &Found| found.nic.as_ref().is_some_and(|nic| nic.link == Link::Down);
    let serving = || offered.iter().enumerate().filter(|(_, found)| serves(found));
    let up = serving().find(|(_, found)| !is_down(found));
    up.or_else(|| serving().next()).map(|(place, _)| place)
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
    /// That of a way, by the names of its provider and network. Those that stand on others, as `verbs;ofi_rxm`, name the
    /// lowest first; psm3 works over sockets too, and says so in the name of the network.
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
mod tests {
    use libfabric_sys::{AddressFormat, Nic, mock};

    use super::*;

    fn found(provider: &str, domain: &str, link: Option<Link>) -> Found {
        let nic = link.map(|link| Nic {
            device: domain.to_owned(),
            driver: String::new(),
            pci: None,
            bits_per_second: None,
            link,
            network: String::new(),
        });
        let (provider, domain) = (provider.to_owned(), domain.to_owned());
        let fabric = "a network".to_owned();
        Found { provider, domain, fabric, address_format: AddressFormat(0), nic, fits: true }
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
            let offers = offers(library, Wanted::default()).unwrap();
            choose(&offers, false).map(Offer::provider)
        };
        assert_eq!(chosen(MESSAGE_BYTES_MIN).as_deref(), Some(mock::PROVIDER));
        assert_eq!(chosen(MESSAGE_BYTES_MIN - 1), None);
    }

    #[test]
    fn a_library_that_is_not_there_is_an_answer_with_a_remedy() {
        let error = Survey::make(Some(OsStr::new("/nowhere/libfabric.so.1")), None).unwrap_err();
        assert!(error.what.contains("/nowhere/libfabric.so.1 cannot be loaded"), "{error}");
        assert!(error.what.contains("\nInstall it"), "{error}");
    }
}
