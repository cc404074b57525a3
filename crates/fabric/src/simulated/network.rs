//! What all endpoints of a simulated network share: messages under way, deaths, copies.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};

use super::Weather;
use crate::{Exposed, Header, Payload, Peer, UserMemory};

/// What all endpoints share.
pub(super) struct SimulatedShared {
    pub(super) weather: Weather,
    pub(super) dice: Dice,
    pub(super) now: u64,
    pub(super) posted: u64,
    pub(super) inboxes: Vec<Inbox>,
    /// When the latest message from one process to another may be seen; the next may not be seen earlier.
    pub(super) last_delivery: HashMap<(Peer, Peer), u64>,
    pub(super) exposures: HashMap<(Peer, u64), Vec<u8>>,
    pub(super) exposed: u64,
    /// Copies that both sides take part in, by their invitation.
    pub(super) shares: HashMap<u64, SharedCopy>,
    pub(super) lost: Vec<Peer>,
    /// Deaths that somebody has still to be told of: by who is told and who has died.
    pub(super) notices: BTreeMap<(Peer, Peer), Notice>,
    /// Of each process.
    pub(super) steps: Vec<Steps>,
}

/// When somebody is told of a death.
#[derive(Clone, Copy)]
pub(super) struct Notice {
    at: u64,
    /// What is still under way from the dead is lost; else it comes first.
    cuts: bool,
}

/// How far a process is, and the step that it dies at.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    pub(super) taken: u64,
    pub(super) ends_at: u64,
}

/// A pull that ends later.
pub(super) struct Pulling {
    pub(super) from: Peer,
    pub(super) exposed: Exposed,
    pub(super) offset: usize,
    pub(super) room: UserMemory,
    pub(super) ticket: u64,
    pub(super) due: u64,
}

/// A message of which the receiver has left a part to the sender, or will.
pub(super) struct SharedCopy {
    pub(super) sender: Peer,
    pub(super) receiver: Peer,
    /// Messages that were posted when the invitation was made: one more, and it is on its way.
    pub(super) posted: u64,
    /// Where the sender's part begins, once that is known, and the room for it.
    pub(super) left: Option<(usize, UserMemory)>,
}

impl SimulatedShared {
    /// Copies what `from` has exposed, if it is there.
    pub(super) fn read(&self, from: Peer, exposed: Exposed, offset: usize, into: &mut UserMemory) -> bool {
        let Some(bytes) = self.exposures.get(&(from, exposed.words[0])) else { return false };
        let part = Payload::from(&bytes[..]).part(offset, into.bytes());
        part.bytes() == into.bytes() && into.write_at(0, part) == part.bytes()
    }

    /// Counts a step of that process; false where it is dead, or dies here.
    pub(super) fn step(&mut self, here: Peer) -> bool {
        if self.lost.contains(&here) {
            return false;
        }
        let steps = &mut self.steps[here.0 as usize];
        steps.taken += 1;
        if steps.taken == steps.ends_at {
            self.kill(here);
            return false;
        }
        true
    }

    pub(super) fn kill(&mut self, peer: Peer) {
        if self.lost.contains(&peer) {
            return;
        }
        self.lost.push(peer);
        self.shares.retain(|_, share| share.sender != peer && share.receiver != peer);
        self.exposures.retain(|(owner, _), _| *owner != peer);
        self.inboxes[peer.0 as usize] = Inbox::default();
        let Weather { delay_polls_max, cut_percent, .. } = self.weather;
        for other in (0..self.inboxes.len() as u32).map(Peer).filter(|other| *other != peer) {
            let at = self.now + self.dice.below(delay_polls_max + 1);
            let cuts = self.dice.happens(cut_percent);
            self.notices.insert((other, peer), Notice { at, cuts });
        }
    }

    /// The dead of whom that process is told now. What was under way from them is taken out of its inbox.
    pub(super) fn take_notices(&mut self, here: Peer, is_arriving: impl Fn(&Peer) -> bool) -> Vec<Peer> {
        if self.notices.is_empty() {
            return Vec::new();
        }
        let (now, inbox) = (self.now, &mut self.inboxes[here.0 as usize]);
        let of_here = self.notices.range((here, Peer(0))..=(here, Peer(u32::MAX)));
        let is_due = |(_, dead): (Peer, Peer), notice: Notice| {
            let is_quiet = inbox.flights.get(&dead).is_none_or(VecDeque::is_empty) && !is_arriving(&dead);
            notice.at <= now && (notice.cuts || is_quiet)
        };
        let due: BTreeSet<Peer> =
            of_here.filter(|(pair, notice)| is_due(**pair, **notice)).map(|((_, dead), _)| *dead).collect();
        for dead in &due {
            self.notices.remove(&(here, *dead));
            inbox.messages -= inbox.flights.remove(dead).map_or(0, |flights| flights.len());
        }
        inbox.due.retain(|flight| !due.contains(&flight.from));
        // In the order of their deaths.
        self.lost.iter().filter(|dead| due.contains(dead)).copied().collect()
    }

    pub(super) fn is_busy(&mut self, to: Peer) -> bool {
        let chance = self.weather.busy_percent;
        self.inboxes[to.0 as usize].messages >= self.weather.queue_messages_max || self.dice.happens(chance)
    }

    pub(super) fn send(&mut self, from: Peer, to: Peer, flight: Flight) {
        self.posted += 1;
        if self.lost.contains(&to) || self.lost.contains(&from) {
            return;
        }
        let delay = self.weather.delay_polls_max;
        let soonest = self.now + self.dice.below(delay + 1);
        let at = self.last_delivery.entry((from, to)).or_default();
        *at = soonest.max(*at);
        let inbox = &mut self.inboxes[to.0 as usize];
        inbox.messages += 1;
        inbox.due.push(Due { at: *at, number: self.posted, from });
        inbox.flights.entry(from).or_default().push_back(flight);
    }
}

/// Messages under way to one process.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) messages: usize,
    pub(super) due: BinaryHeap<Due>,
    pub(super) flights: HashMap<Peer, VecDeque<Flight>>,
}

/// A message under way.
pub(super) struct Flight {
    pub(super) header: Header,
    pub(super) bytes: usize,
    pub(super) payload: Vec<u8>,
}

/// A message that has begun to arrive.
pub(super) struct Arriving {
    pub(super) memory: UserMemory,
    pub(super) payload: Vec<u8>,
    pub(super) done: usize,
}

/// When a message from somebody may be seen. Ordered so that the heap gives the earliest first.
#[derive(PartialEq, Eq)]
pub(super) struct Due {
    pub(super) at: u64,
    pub(super) number: u64,
    pub(super) from: Peer,
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Random numbers by a seed (splitmix64): enough for dice, the same on every machine.
pub(super) struct Dice {
    pub(super) state: u64,
}

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound - 1`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(super) fn happens(&mut self, percent: u64) -> bool {
        percent > 0 && self.below(100) < percent
    }
}
