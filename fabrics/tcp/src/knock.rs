//! How to tell a peer that computes from somebody else who listens and says nothing.
//!
//! Both take a connection, since kernels do that, and both are silent. But the peer's process has told its
//! kernel to let nobody in who comes from a few source ports. Its card names them: they are *barred*. A
//! foreign service lets them in like all others. So a greeting that stays without an answer is followed by a
//! knock, a connection from a barred port: whoever lets it in is not the peer, and where nothing comes back,
//! the peer is there and may take as long as it likes.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::memory;
use crate::poller::{Interest, Poller, Token};
use crate::socket::{dial_from, is_connected};

/// The source ports from which a process lets nobody in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Barred {
    /// Every port is let in: this kernel does not look.
    None,
    /// This one and the [`COUNT`] - 1 above it.
    From(u16),
}

impl Barred {
    /// Bars some ports at all listeners, anywhere in a range that kernels do not choose from. One that does
    /// not look would make this process a stranger at its own address, so then none is named.
    pub(crate) fn choose(listeners: &[OwnedFd], random: u16) -> Barred {
        let first = FIRST + random % SPREAD;
        let mut barring = listeners.iter().map(|one| memory::bar_source_ports(one.as_fd(), first, COUNT));
        if barring.all(|barred| barred.is_ok()) { Barred::From(first) } else { Barred::None }
    }

    /// As it stands in a card; 0 is none.
    pub(crate) fn encode(self) -> u16 {
        match self {
            Barred::None => 0,
            Barred::From(first) => first,
        }
    }

    /// Reads what came in a card.
    pub(crate) fn decode(number: u16) -> Option<Barred> {
        match number {
            0 => Some(Barred::None),
            first if first.checked_add(COUNT).is_some() => Some(Barred::From(first)),
            _ => None,
        }
    }

    pub(crate) fn contains(self, port: u16) -> bool {
        matches!(self, Barred::From(first) if (first..first + COUNT).contains(&port))
    }

    fn knock(self, at: SocketAddr) -> Result<OwnedFd, Errno> {
        let Barred::From(first) = self else { return Err(Errno::OPNOTSUPP) };
        (first..first + COUNT)
            .map(|from| dial_from(from, at))
            .find(|knock| !matches!(knock, Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL)))
            .unwrap_or(Err(Errno::ADDRINUSE))
    }
}

/// The question who is silent at one address, asked again and again.
pub(crate) struct Trial {
    barred: Barred,
    /// Before each knock, and for its answer.
    pause: Duration,
    state: TrialState,
}

enum TrialState {
    Resting { until: Instant },
    Knocking { knock: OwnedFd, until: Instant },
}

impl Trial {
    /// Gives the peer half of the time limit before the first knock, and the knock the other half.
    pub(crate) fn new(barred: Barred, greeted: Instant, limit: Duration) -> Trial {
        let pause = limit / 2;
        Trial { barred, pause, state: TrialState::Resting { until: greeted + pause } }
    }

    /// When [`finds_a_stranger`](Trial::finds_a_stranger) has something to do though nothing comes.
    pub(crate) fn due(&self) -> Option<Instant> {
        let (TrialState::Resting { until } | TrialState::Knocking { until, .. }) = &self.state;
        (self.barred != Barred::None).then_some(*until)
    }

    /// Goes on, and says whether a knock was let in, so that it is not the peer who listens at `at`.
    pub(crate) fn finds_a_stranger(
        &mut self,
        at: SocketAddr,
        now: Instant,
        token: Token,
        poller: &Poller,
    ) -> bool {
        if let TrialState::Resting { until } = self.state
            && until <= now
            && self.barred != Barred::None
        {
            let knock = self.barred.knock(at);
            let knock = knock.and_then(|knock| poller.add(&knock, token, Interest::Write).map(|()| knock));
            let until = now + self.pause;
            // Without a free port or descriptor nothing is known; later again.
            self.state =
                knock.map_or(TrialState::Resting { until }, |knock| TrialState::Knocking { knock, until });
        }
        let TrialState::Knocking { knock, until } = &self.state else { return false };
        match is_connected(knock) {
            Ok(true) => true,
            Ok(false) if now < *until => false,
            // Silence is the peer's answer. A refusal is nobody's: who refuses now had taken the greeting.
            Ok(false) | Err(_) => {
                self.state = TrialState::Resting { until: now + self.pause };
                false
            }
        }
    }
}

/// How many ports are barred: several, so that several processes of one host can knock at the same time.
const COUNT: u16 = 4;
/// Where barred ports are looked for: above those that need a privilege, below those that kernels choose
/// unless told otherwise. Who comes from a barred port by chance dials again.
const FIRST: u16 = 10_000;
const SPREAD: u16 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{accept, dial, listen};
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn a_barred_port_is_met_with_silence_and_others_are_let_in() {
        let (listener, port) = listen(None, 0).expect("a listener");
        let listeners = [listener];
        let Barred::From(first) = Barred::choose(&listeners, std::process::id() as u16) else {
            panic!("this kernel bars no ports")
        };
        for host in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
            let at = SocketAddr::new(host, port);
            let ordinary = dial(at, true).expect("a dial");
            assert_eq!(is_connected(&ordinary), Ok(true), "{at} lets ordinary ports in");
            for barred in first..first + COUNT {
                let knock = dial_from(barred, at).expect("a knock");
                assert_eq!(is_connected(&knock), Ok(false), "{at} lets port {barred} in");
            }
            for beside in [first - 1, first + COUNT] {
                let other = dial_from(beside, at).expect("a dial");
                assert_eq!(is_connected(&other), Ok(true), "{at} bars port {beside}");
            }
        }
        while let Ok(accepted) = accept(&listeners[0]) {
            let again = memory::stop_looking(accepted.as_fd());
            assert_eq!(again, Err(Errno::NOENT), "a connection that was let in is looked at no more");
        }
    }

    #[test]
    fn every_listener_of_a_process_bars_the_same() {
        let addresses = ["127.0.0.1", "127.0.0.5"].map(|text| text.parse().expect("an address"));
        let (listeners, port) =
            crate::entrances::listen_at_each(&addresses, None, 0).expect("a port that is free at both");
        let Barred::From(first) = Barred::choose(&listeners, std::process::id() as u16 ^ 77) else {
            panic!("this kernel bars no ports")
        };
        for address in addresses {
            let knock = dial_from(first, SocketAddr::new(address, port)).expect("a knock");
            assert_eq!(is_connected(&knock), Ok(false), "{address} lets a barred port in");
        }
    }

    #[test]
    fn a_trial_finds_strangers_and_leaves_the_peer_in_peace() {
        let poller = Poller::new().expect("a poller");
        let (peer, peer_port) = listen(None, 0).expect("a listener");
        let peer = [peer];
        let barred = Barred::choose(&peer, 4711);
        let (_stranger, stranger_port) = listen(None, 0).expect("a listener");
        let (now, limit) = (Instant::now(), Duration::from_secs(8));
        for (port, is_strange) in [(peer_port, false), (stranger_port, true)] {
            let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let mut trial = Trial::new(barred, now, limit);
            let mut finds = |after| {
                let found = trial.finds_a_stranger(at, now + limit * after / 4, Token::Opening(0), &poller);
                (found, trial.due())
            };
            assert_eq!(finds(1), (false, Some(now + limit / 2)), "too early to knock");
            assert_eq!(finds(2).0, is_strange, "the knock is answered at once or never");
            if !is_strange {
                assert_eq!(finds(4), (false, Some(now + limit * 3 / 2)), "it asks again later");
                assert!(!finds(6).0 && !finds(8).0);
            }
        }
    }

    #[test]
    fn numbers_that_are_no_ports_are_refused() {
        for number in [0, 1, FIRST, u16::MAX - COUNT] {
            assert_eq!(Barred::decode(number).map(Barred::encode), Some(number));
        }
        assert_eq!(Barred::decode(u16::MAX), None);
        assert!(!Barred::None.contains(0));
        assert!(Barred::From(9).contains(9) && Barred::From(9).contains(12) && !Barred::From(9).contains(13));
    }
}
