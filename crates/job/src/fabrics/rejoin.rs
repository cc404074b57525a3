//! How a process that was started in the place of another finds its job, whose processes have met long ago.

use collectives::Cores;
use fabric::Fabric;

use super::{CORES_SHARED, FIRST, Fabrics, Met, Place};
use crate::card::Card;
use crate::error::Result;
use crate::key_value_exchange::Exchange;
use crate::{tuning, wait};

impl Fabrics {
    /// Leaves a card under a number of its own, and reads what the others have agreed on when they met. It
    /// meets nobody: the launcher that has started it is on the node of all others.
    pub(super) fn rejoin(&mut self, place: &Place<'_>, exchange: &mut Exchange) -> Result<Met> {
        let mut card = Card::of_this_process();
        self.open_networks(place, exchange)?;
        card.tcp = self.tcp.as_ref().map(Fabric::address);
        card.libfabric = self.libfabric.as_ref().map(Fabric::address);
        exchange.put_card(place.here, &card.encode())?;
        let (_, guide) = card.agree(place.here, exchange.card(FIRST)?.as_deref())?;
        let cores = if exchange.is_announced(CORES_SHARED)? { Cores::Shared } else { Cores::Own };
        // On a part of the node it has come too late for the memory that the others share: it is alone there.
        let is_alone = place.config.node.is_some();
        let cores_here = if is_alone { cores } else { wait::cores(place.ranks, wait::cpus(place.config)) };
        let node = if is_alone { vec![place.here] } else { place.everybody() };
        Ok(Met { cores_here, cores, node, guide: tuning::of_card(guide.as_deref())? })
    }
}
