//! The fabrics as one: each call goes to the fabric of its lane.

use fabric::{
    Brought, Cost, Exposed, Fabric, FabricError, Header, Limits, Looked, Payload, Peer, Posted, Pulled,
    PulledShared, Sink, UserMemory, crash,
};

use super::{Fabrics, FabricsBell, Lane, Libfabric, TURNS_BETWEEN_LIFELINES, TURNS_BETWEEN_NETWORKS, Tcp};
use crate::card::Card;
use crate::config::FabricName;
use crate::tell::tell;

impl Fabrics {
    #[inline(always)]
    fn poll_networks(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        let Some(libfabric) = &mut self.libfabric else {
            return self.tcp.as_mut().map_or(0, |tcp| tcp.poll(sink, events));
        };
        let happened = libfabric.poll(sink, events);
        if self.tcp_rests > 0 {
            self.tcp_rests -= 1;
            return happened;
        }
        happened + self.poll_tcp_beside(sink, events)
    }

    /// Looks at tcp where libfabric is there as well, and says what that has to say of slow ways.
    #[inline(never)]
    fn poll_tcp_beside(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        if let Some(notice) = self.libfabric.as_mut().and_then(Libfabric::take_notice) {
            tell(format_args!("weft: {notice}"));
        }
        let (Some(tcp), Some(libfabric)) = (&mut self.tcp, &mut self.libfabric) else { return 0 };
        let happened = self.lifelines.poll(tcp, sink, events, |peer| libfabric.knows(peer));
        self.is_tcp_used |= self.lifelines.have_brought();
        self.tcp_rests = match (self.is_tcp_used, self.lifelines.is_hurried()) {
            (true, _) => 0,
            (false, true) => TURNS_BETWEEN_NETWORKS,
            (false, false) => TURNS_BETWEEN_LIFELINES,
        };
        for (peer, error) in self.lifelines.ended() {
            libfabric.lose(peer, error);
        }
        happened
    }

    #[cold]
    fn post_to_oneself(&mut self, header: &Header, payload: Payload<'_>) -> Posted {
        let posted = self.loopback.post((), header, payload);
        self.to_oneself += usize::from(posted == Posted::Sent);
        posted
    }

    /// The ways to a peer, with their prices.
    fn ways(&self, peer: Peer, card: &[u8]) -> Vec<(Cost, FabricName, Vec<u8>)> {
        let mut ways = Vec::new();
        if let Some(shm) = &self.shm
            && let Some(address) = shm.address_of(peer)
            && let Some(cost) = shm.reach(peer, &address)
        {
            ways.push((cost, FabricName::Shm, address));
        }
        let card = Card::decode(card).unwrap_or_default();
        if let Some(tcp) = self.tcp.as_ref().filter(|_| self.tcp_brings)
            && let Some(address) = card.tcp
            && let Some(cost) = tcp.reach(peer, &address)
        {
            ways.push((cost, FabricName::Tcp, address));
        }
        if let Some(libfabric) = &self.libfabric
            && let Some(address) = card.libfabric
            && let Some(cost) = libfabric.reach(peer, &address)
        {
            ways.push((cost, FabricName::Libfabric, address));
        }
        ways.sort_by_key(|(cost, _, _)| *cost);
        ways
    }

    /// That is the way to the peer from now on.
    fn chosen(&mut self, peer: Peer, lane: Lane, card: &[u8]) {
        match lane {
            Lane::Tcp(_) => self.is_tcp_used = true,
            Lane::Libfabric(_) => {
                if let (Some(tcp), Some(card)) = (&mut self.tcp, Card::decode(card))
                    && let Some(address) = card.tcp
                {
                    self.lifelines.watch(tcp, peer, &address);
                    self.tcp_rests = 0;
                }
            }
            Lane::Loopback | Lane::Shm(_) => {}
        }
    }
}

impl Fabric for Fabrics {
    type Lane = Lane;
    type Bell = FabricsBell;

    fn name(&self) -> &'static str {
        "weft"
    }

    fn address(&self) -> Vec<u8> {
        Vec::new()
    }

    fn reach(&self, peer: Peer, address: &[u8]) -> Option<Cost> {
        self.ways(peer, address).first().map(|(cost, _, _)| *cost)
    }

    fn connect(&mut self, peer: Peer, card: &[u8]) -> std::result::Result<Lane, FabricError> {
        if peer == self.here {
            return Ok(Lane::Loopback);
        }
        let mut last = None;
        for (_, name, address) in self.ways(peer, card) {
            let lane = match (name, &mut self.shm, &mut self.tcp, &mut self.libfabric) {
                (FabricName::Shm, Some(shm), ..) => shm.connect(peer, &address).map(Lane::Shm),
                (FabricName::Tcp, _, Some(tcp), _) => tcp.connect(peer, &address).map(Lane::Tcp),
                (FabricName::Libfabric, .., Some(libfabric)) => {
                    libfabric.connect(peer, &address).map(Lane::Libfabric)
                }
                _ => continue,
            };
            match lane {
                Ok(lane) => {
                    self.chosen(peer, lane, card);
                    return Ok(lane);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| self.unreachable(peer)))
    }

    fn limits(&self, lane: Lane) -> Limits {
        match (lane, &self.shm, &self.tcp, &self.libfabric) {
            (Lane::Shm(lane), Some(shm), ..) => shm.limits(lane),
            (Lane::Tcp(lane), _, Some(tcp), _) => tcp.limits(lane),
            (Lane::Libfabric(lane), .., Some(libfabric)) => libfabric.limits(lane),
            _ => self.loopback.limits(()),
        }
    }

    #[inline(always)]
    fn post(&mut self, lane: Lane, header: &Header, payload: Payload<'_>) -> Posted {
        crash::point();
        match (lane, &mut self.shm, &mut self.tcp, &mut self.libfabric) {
            (Lane::Shm(lane), Some(shm), ..) => shm.post(lane, header, payload),
            (Lane::Tcp(lane), _, Some(tcp), _) => tcp.post(lane, header, payload),
            (Lane::Libfabric(lane), .., Some(libfabric)) => libfabric.post(lane, header, payload),
            _ => self.post_to_oneself(header, payload),
        }
    }

    #[inline]
    fn post_made(
        &mut self,
        lane: Lane,
        header: &Header,
        bytes: usize,
        write: impl FnOnce(&mut UserMemory),
    ) -> Option<Posted> {
        crash::point();
        match (lane, &mut self.shm) {
            (Lane::Shm(lane), Some(shm)) => shm.post_made(lane, header, bytes, write),
            _ => None,
        }
    }

    fn resume(&mut self, lane: Lane, rest: Payload<'_>) -> Posted {
        crash::point();
        match (lane, &mut self.shm, &mut self.tcp, &mut self.libfabric) {
            (Lane::Shm(lane), Some(shm), ..) => shm.resume(lane, rest),
            (Lane::Tcp(lane), _, Some(tcp), _) => tcp.resume(lane, rest),
            (Lane::Libfabric(lane), .., Some(libfabric)) => libfabric.resume(lane, rest),
            _ => self.loopback.resume((), rest),
        }
    }

    #[inline(always)]
    fn poll(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        let mut happened = 0;
        if self.to_oneself > 0 {
            happened = self.loopback.poll(sink, events);
            self.to_oneself -= happened;
        }
        if let Some(shm) = &mut self.shm {
            happened += shm.poll(sink, events);
        }
        if self.tcp.is_some() || self.libfabric.is_some() {
            // A look at a network is a system call. Where shm is there too, they are looked at now and then,
            // and in any case: others that always have something must not keep them waiting for ever.
            let is_slept_on = self.tcp.as_ref().is_some_and(Tcp::is_slept_on);
            let is_due = self.shm.is_none() || self.networks_rest == 0 || is_slept_on;
            if is_due || self.libfabric.as_ref().is_some_and(Libfabric::is_hasty) {
                happened += self.poll_networks(sink, events);
                // Who has slept looks at once.
                self.networks_rest = if is_slept_on { 0 } else { self.networks_rests };
            } else {
                self.networks_rest -= 1;
            }
        }
        if happened > 0 {
            crash::point();
        }
        happened
    }

    #[inline(always)]
    fn look<R>(&mut self, lane: Lane, reader: impl FnOnce(&Header, Payload<'_>) -> Option<R>) -> Looked<R> {
        match (lane, &mut self.shm, &mut self.libfabric) {
            (Lane::Shm(lane), Some(shm), _) => shm.look(lane, reader),
            (Lane::Libfabric(lane), _, Some(libfabric)) => libfabric.look(lane, reader),
            _ => Looked::Nothing,
        }
    }

    fn call_roll(&mut self) -> bool {
        if let Some(shm) = &mut self.shm {
            shm.call_roll();
        }
        if let Some(tcp) = &mut self.tcp {
            tcp.call_roll();
        }
        let (Some(tcp), Some(libfabric)) = (&mut self.tcp, &mut self.libfabric) else { return false };
        self.tcp_rests = 0;
        // Whoever has waited for a moment only need not ask who is there.
        if !self.stillness.is_long(libfabric.events()) {
            return false;
        }
        for peer in self.lifelines.have_left(|peer| tcp.has_ended(peer)) {
            libfabric.let_go(peer);
        }
        true
    }

    fn bury(&mut self, peer: Peer, error: FabricError) -> bool {
        // The next poll tells of it, whichever fabric has the peer.
        (self.networks_rest, self.tcp_rests) = (0, 0);
        if let Some(libfabric) = self.libfabric.as_mut().filter(|libfabric| libfabric.knows(peer)) {
            libfabric.lose(peer, error);
            return true;
        }
        let in_shm = self.shm.as_mut().is_some_and(|shm| shm.bury(peer, error.clone()));
        in_shm || self.tcp_brings && self.tcp.as_mut().is_some_and(|tcp| tcp.bury(peer, error))
    }

    fn bell(&self) -> FabricsBell {
        FabricsBell::new(self.shm.as_ref(), self.tcp.as_ref(), self.libfabric.as_ref())
    }

    fn register_memory(&mut self, lane: Lane, memory: Payload<'_>) -> Exposed {
        crash::point();
        match (lane, &mut self.shm, &mut self.libfabric) {
            (Lane::Shm(lane), Some(shm), _) => shm.register_memory(lane, memory),
            (Lane::Libfabric(lane), _, Some(libfabric)) => libfabric.register_memory(lane, memory),
            _ => Exposed::default(),
        }
    }

    fn deregister_memory(&mut self, peer: Peer, exposed: Exposed) {
        // To shared memory it makes no difference, and nothing is exposed to a peer by two fabrics.
        if let Some(libfabric) = &mut self.libfabric {
            libfabric.deregister_memory(peer, exposed);
        }
    }

    fn pull(
        &mut self,
        lane: Lane,
        exposed: Exposed,
        offset: usize,
        into: &mut UserMemory,
        ticket: u64,
    ) -> Pulled {
        crash::point();
        match (lane, &mut self.shm, &mut self.libfabric) {
            (Lane::Shm(lane), Some(shm), _) => shm.pull(lane, exposed, offset, into, ticket),
            (Lane::Libfabric(lane), _, Some(libfabric)) => {
                libfabric.pull(lane, exposed, offset, into, ticket)
            }
            _ => Pulled::Refused,
        }
    }

    fn takes_at_once(&mut self, lane: Lane, payload: Payload<'_>) -> bool {
        match (lane, &mut self.shm) {
            (Lane::Shm(lane), Some(shm)) => shm.takes_at_once(lane, payload),
            _ => false,
        }
    }

    fn rather_posted(&mut self, lane: Lane, exposed: Exposed, bytes: usize) -> bool {
        match (lane, &mut self.shm) {
            (Lane::Shm(lane), Some(shm)) => shm.rather_posted(lane, exposed, bytes),
            _ => false,
        }
    }

    fn invite(&mut self, lane: Lane, exposed: Exposed, into: &UserMemory) -> Option<Exposed> {
        crash::point();
        match (lane, &mut self.shm) {
            (Lane::Shm(lane), Some(shm)) => shm.invite(lane, exposed, into),
            _ => None,
        }
    }

    fn pull_shared(
        &mut self,
        lane: Lane,
        exposed: Exposed,
        invitation: Exposed,
        into: &mut UserMemory,
    ) -> PulledShared {
        match (lane, &mut self.shm) {
            (Lane::Shm(lane), Some(shm)) => shm.pull_shared(lane, exposed, invitation, into),
            _ => PulledShared::Refused { peer_brings: false },
        }
    }

    fn bring(&mut self, lane: Lane, invitation: Exposed, memory: Payload<'_>) -> Brought {
        crash::point();
        match (lane, &mut self.shm) {
            (Lane::Shm(lane), Some(shm)) => shm.bring(lane, invitation, memory),
            _ => Brought { claimed: false, bytes: 0 },
        }
    }

    fn flush(&mut self) -> bool {
        let shm = self.shm.as_mut().is_none_or(Fabric::flush);
        let tcp = self.tcp.as_mut().is_none_or(Fabric::flush);
        let libfabric = self.libfabric.as_mut().is_none_or(Fabric::flush);
        shm && tcp && libfabric
    }

    fn leave(&mut self) -> bool {
        let shm = self.shm.as_mut().is_none_or(Fabric::leave);
        let libfabric = self.libfabric.as_mut().is_none_or(Fabric::leave);
        // Whoever hears a goodbye over tcp takes it for the end of all that comes by the others, too.
        shm && libfabric && self.tcp.as_mut().is_none_or(Fabric::leave)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use collectives::Cores;

    use super::super::{Opened, Place, Segment, tcp_settings};
    use super::*;
    use crate::config::Config;
    use crate::key_value_exchange::Exchange;
    use crate::liveness_connections::tests::Heard;

    #[test]
    fn who_is_buried_is_lost_with_the_next_poll_although_networks_rest() {
        let config = Config::default();
        let place = Place { here: Peer(0), ranks: 3, peers: 3, config: &config };
        let alone = Place { ranks: 1, peers: 1, ..place };
        let Opened { mut fabrics, .. } =
            Fabrics::open(&alone, &mut Exchange::Manager(Arc::default())).unwrap();
        let shared = (Segment::create(2).unwrap(), vec![Peer(0), Peer(1)]);
        fabrics.open_shm(&place, shared.0, shared.1, Cores::Own).unwrap();
        let tcp = |here| Tcp::open(here, tcp_settings(&config, 3)).unwrap();
        let (mut here, there) = (tcp(Peer(0)), tcp(Peer(2)));
        here.connect(Peer(2), &there.address()).unwrap();
        (fabrics.tcp, fabrics.tcp_brings) = (Some(here), true);
        let mut sink = Heard::default();
        fabrics.poll(&mut sink, 1);
        assert!(fabrics.networks_rest > 1 && sink.1.is_empty());
        let what = "it has ended".to_owned();
        assert!(fabrics.bury(Peer(2), FabricError { fabric: "test", fault: fabric::Fault::Died, what }));
        fabrics.poll(&mut sink, 1);
        assert_eq!(sink.1, [Peer(2)]);
    }
}
