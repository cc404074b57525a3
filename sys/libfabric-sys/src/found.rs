//! What there is, in types that hold nothing of the library: for people who ask, and for whoever chooses.

use std::fmt;

use crate::bindings::*;
use crate::library::{LibfabricError, Library, text_at};
use crate::offer::{Asked, Offer, Wanted};

/// A way to a network, as it describes itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The provider's name, as `verbs;ofi_rxm`.
    pub provider: String,
    /// The domain's name: mostly that of a network card, or of an interface.
    pub domain: String,
    /// The name of the network, which those have in common that can reach each other, as far as the provider
    /// knows.
    pub fabric: String,
    /// The kind of its addresses.
    pub address_format: AddressFormat,
    /// The card, where the provider tells of one.
    pub nic: Option<Nic>,
    /// Whether [`Offer::find`] offers it: it has all features that are demanded, and demands nothing that is
    /// not granted.
    pub fits: bool,
}

impl Found {
    /// All ways with reliable-datagram endpoints, those that do not fit too; each once, in the library's
    /// order.
    ///
    /// # Errors
    /// What the library said. That there is nothing is no error.
    pub fn all(library: Library) -> Result<Vec<Found>, LibfabricError> {
        let fitting = Offer::find(library, Wanted::default())?;
        let mut all: Vec<Found> = Vec::new();
        for offer in Offer::ask(library, Wanted::default(), Asked::NOTHING)? {
            let fits = fitting.iter().any(|other| other.is_same_way(&offer));
            let found = Found { fits, ..offer.found() };
            if !all.contains(&found) {
                all.push(found);
            }
        }
        Ok(all)
    }
}

/// A network card, as far as its provider tells of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nic {
    /// Its name, as `mlx5_0`; empty where it is not told, as the other texts.
    pub device: String,
    /// The kernel's driver.
    pub driver: String,
    /// Where it is plugged in.
    pub pci: Option<PciAddress>,
    /// How fast its link is now.
    pub bits_per_second: Option<u64>,
    /// Whether its link is up.
    pub link: Link,
    /// The kind of network, as `InfiniBand` or `Ethernet`.
    pub network: String,
}

/// Where a card is on the PCI bus; written as the kernel writes it, `0000:3b:00.1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PciAddress {
    /// The PCI domain.
    pub domain: u16,
    /// The bus of the domain.
    pub bus: u8,
    /// The slot of the bus.
    pub device: u8,
    /// The function of the card.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

/// Whether a link is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// Not told.
    Unknown,
    /// Nothing goes over it.
    Down,
    /// The link works.
    Up,
}

/// A kind of addresses, with libfabric's number for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressFormat(pub u32);

impl fmt::Display for AddressFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "kind {}", self.0),
        }
    }
}

const NAMES: [(u32, &str); 14] = [
    (FI_FORMAT_UNSPEC, "any"),
    (FI_SOCKADDR, "socket"),
    (FI_SOCKADDR_IN, "IPv4"),
    (FI_SOCKADDR_IN6, "IPv6"),
    (FI_SOCKADDR_IB, "InfiniBand"),
    (FI_ADDR_PSMX, "PSM"),
    (FI_ADDR_MLX, "MLX"),
    (FI_ADDR_STR, "text"),
    (FI_ADDR_PSMX2, "PSM2"),
    (FI_ADDR_IB_UD, "InfiniBand datagram"),
    (FI_ADDR_EFA, "EFA"),
    (FI_ADDR_PSMX3, "PSM3"),
    (FI_ADDR_OPX, "OPX"),
    (FI_ADDR_CXI, "CXI"),
];

impl Offer {
    /// What the offer says of itself.
    #[must_use]
    pub fn found(&self) -> Found {
        Found {
            provider: self.provider(),
            domain: self.domain(),
            fabric: self.fabric(),
            address_format: AddressFormat(self.terms().address_format),
            nic: self.nic(),
            fits: true,
        }
    }

    /// The network card, where the provider tells of one.
    #[must_use]
    pub fn nic(&self) -> Option<Nic> {
        // SAFETY: the structure is whole; `part` looks at pointers before it follows them, and all of these
        // are its own.
        let (device, bus, link) = unsafe {
            let nic = self.part((*self.info()).nic)?;
            (self.part(nic.device_attr), self.part(nic.bus_attr), self.part(nic.link_attr))
        };
        let pci = bus.filter(|bus| bus.bus_type == FI_BUS_PCI).map(|bus| {
            // SAFETY: the kind of bus says which part of the union is filled.
            let pci = unsafe { bus.attr.pci };
            PciAddress {
                domain: pci.domain_id,
                bus: pci.bus_id,
                device: pci.device_id,
                function: pci.function_id,
            }
        });
        Some(Nic {
            device: device.map(|device| text_at(device.name)).unwrap_or_default(),
            driver: device.map(|device| text_at(device.driver)).unwrap_or_default(),
            pci,
            bits_per_second: link.map(|link| link.speed as u64).filter(|speed| *speed > 0),
            link: match link.map(|link| link.state) {
                Some(FI_LINK_UP) => Link::Up,
                Some(FI_LINK_DOWN) => Link::Down,
                _ => Link::Unknown,
            },
            network: link.map(|link| text_at(link.network_type)).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_know_them() {
        let address = PciAddress { domain: 0, bus: 0x3b, device: 0x1f, function: 1 };
        assert_eq!(address.to_string(), "0000:3b:1f.1");
        assert_eq!(AddressFormat(FI_SOCKADDR_IN6).to_string(), "IPv6");
        assert_eq!(AddressFormat(4711).to_string(), "kind 4711");
    }
}
