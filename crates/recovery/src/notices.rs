//! What processes tell each other of failures, where no launcher tells all of them (decision 0013).
//!
//! Who learns of one tells the next living processes 1, 2, 4, … places on, by their numbers, and when one of
//! those dies, the one that comes after it. That the next one always knows is what lets all know; the others
//! make it quick.

use std::collections::{HashMap, VecDeque};

use fabric::Peer;

/// The notices of a process.
#[derive(Default)]
pub struct Notices {
    /// This process, where it tells others.
    here: Option<Peer>,
    /// How many of the failures that are known, in their order, somebody was told of.
    told: HashMap<Peer, usize>,
    /// Who has failed as others say, and is not known to have here.
    heard: VecDeque<(Peer, Peer)>,
    /// They are acted on right now.
    is_acting: bool,
}

impl Notices {
    /// From now on others are told.
    pub fn begin(&mut self, here: Peer) {
        self.here = Some(here);
    }

    /// Whether this process tells others.
    pub fn is_telling(&self) -> bool {
        self.here.is_some()
    }

    /// Whether something was heard that is to be acted on.
    #[inline]
    pub fn is_any_heard(&self) -> bool {
        !self.heard.is_empty() && !self.is_acting
    }

    /// Says whether the caller is acting on notices that were heard.
    pub fn set_acting(&mut self, is_acting: bool) {
        self.is_acting = is_acting;
    }

    /// Notes that `from` has told that the process `who` has failed.
    pub fn hear(&mut self, from: Peer, who: Peer) {
        self.heard.push_back((from, who));
    }

    /// Who has failed, and who says so.
    pub fn take_heard(&mut self) -> Option<(Peer, Peer)> {
        self.heard.pop_front()
    }

    /// Whether that is this process.
    pub fn is_here(&self, peer: Peer) -> bool {
        self.here == Some(peer)
    }

    /// Whom to tell of whom, now that these have failed among so many processes: the latest at the end.
    pub fn spread(&mut self, failed: &[Peer], peers: u32) -> Vec<(Peer, Peer)> {
        let Some(Peer(here)) = self.here else { return Vec::new() };
        let mut letters = Vec::new();
        let distances = std::iter::successors(Some(1u32), |distance| distance.checked_mul(2));
        for distance in distances.take_while(|distance| *distance < peers) {
            let place = |step: u32| Peer(((u64::from(here) + u64::from(step)) % u64::from(peers)) as u32);
            let Some(to) = (distance..peers).map(place).find(|peer| !failed.contains(peer)) else { continue };
            let told = self.told.insert(to, failed.len()).unwrap_or(0);
            letters.extend(failed[told.min(failed.len())..].iter().map(|&who| (to, who)));
        }
        letters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(numbers: &[u32]) -> Vec<Peer> {
        numbers.iter().map(|&number| Peer(number)).collect()
    }

    fn told(notices: &mut Notices, failed: &[u32], of: u32) -> Vec<(u32, u32)> {
        let letters = notices.spread(&peers(failed), of);
        letters.into_iter().map(|(to, who)| (to.0, who.0)).collect()
    }

    #[test]
    fn who_learns_of_a_failure_tells_those_some_places_on_once() {
        let mut notices = Notices::default();
        assert_eq!(told(&mut notices, &[3], 8), [], "a launcher tells all");
        notices.begin(Peer(6));
        assert_eq!(told(&mut notices, &[3], 8), [(7, 3), (0, 3), (2, 3)]);
        assert_eq!(told(&mut notices, &[3], 8), []);
        assert_eq!(told(&mut notices, &[3, 5], 8), [(7, 5), (0, 5), (2, 5)]);
    }

    #[test]
    fn who_comes_after_one_that_has_died_is_told_all() {
        let mut notices = Notices::default();
        notices.begin(Peer(0));
        assert_eq!(told(&mut notices, &[3], 4), [(1, 3), (2, 3)]);
        assert_eq!(told(&mut notices, &[3, 1], 4), [(2, 1)], "the next one is that one now");
        assert_eq!(told(&mut notices, &[3, 1, 2], 4), [], "nobody is left");
    }

    /// Each process knows of a failure as soon as somebody does and notices have gone round, whoever dies
    /// meanwhile.
    #[test]
    fn all_who_live_learn_of_all() {
        for size in 2..if cfg!(miri) { 6u32 } else { 12 } {
            for first in 0..size {
                for dies_later in (0..size).filter(|&other| other != first) {
                    let mut all: Vec<(Notices, Vec<Peer>)> = (0..size).map(|_| Default::default()).collect();
                    all.iter_mut().zip(0..).for_each(|((notices, _), here)| notices.begin(Peer(here)));
                    let witness = (0..size).find(|&other| other != first && other != dies_later);
                    let mut mail: VecDeque<(Peer, Peer)> = VecDeque::new();
                    let note = |all: &mut Vec<(Notices, Vec<Peer>)>, at: u32, who: Peer| {
                        let (notices, failed) = &mut all[at as usize];
                        let is_news = !failed.contains(&who);
                        failed.extend(is_news.then_some(who));
                        if is_news { notices.spread(failed, size) } else { Vec::new() }
                    };
                    let Some(witness) = witness else { continue };
                    mail.extend(note(&mut all, witness, Peer(first)));
                    // That one is gone before it reads anything; the same process notices.
                    mail.extend(note(&mut all, witness, Peer(dies_later)));
                    while let Some((to, who)) = mail.pop_front() {
                        if to != Peer(first) && to != Peer(dies_later) {
                            mail.extend(note(&mut all, to.0, who));
                        }
                    }
                    for here in (0..size).filter(|&here| here != first && here != dies_later) {
                        assert_eq!(
                            all[here as usize].1.len(),
                            2,
                            "{here} of {size}, {first} and {dies_later}"
                        );
                    }
                }
            }
        }
    }
}
