//! How it is found out which connection has something.
//!
//! Few connections are read in turn, and the poller does not watch them: each message would pay 5 % for that.
//! Many are watched, and the poller is asked who has something, which costs a call for each message. Even
//! among many, one often speaks alone for a while; it becomes the *favourite*, which is read directly again.

use super::*;

impl Tcp {
    /// Whether the poller is asked this time: always when it may know something that reading would not find.
    #[inline]
    pub(super) fn is_poller_due(&self) -> bool {
        let is_their_turn = !self.favourite.is_talking || self.turns.is_multiple_of(TURNS_OF_FAVOURITE);
        (self.is_watching && is_their_turn)
            || self.turns.is_multiple_of(POLLER_TURNS)
            || !self.opening.is_empty()
            || self.door.has_unproved()
            || self.is_waiting
            || self.poller.has_sleepers()
    }

    /// Has the poller watch the links, or not, as it is cheaper now.
    pub(super) fn choose_watching(&mut self) {
        let has_sleepers = self.poller.has_sleepers();
        let wanted = has_sleepers || self.is_crowd();
        // Who has slept may soon sleep again, so watching ends only now and then.
        if wanted != self.is_watching && (wanted || self.turns.is_multiple_of(POLLER_TURNS)) {
            self.is_watching = wanted;
            self.favourite = Favourite::default();
            for index in self.open.clone() {
                self.watch(index);
            }
        } else if has_sleepers {
            self.favour(None);
        }
    }

    fn is_crowd(&self) -> bool {
        self.open.len() > DIRECT_MAX
    }

    /// Reads the one link that the poller does not watch.
    #[inline]
    pub(super) fn read_favourite(&mut self, index: u32, sink: &mut impl Sink, turn: &mut Turn) {
        let before = turn.happened;
        self.read_link(index, sink, turn);
        if turn.happened > before {
            self.favourite.has_spoken();
        }
    }

    /// The poller was right about a link, which may make it the favourite.
    pub(super) fn heard_by_poller(&mut self, index: u32) {
        if !self.is_crowd() || self.poller.has_sleepers() {
            return;
        }
        match self.favourite.another_has_spoken(index) {
            Change::None => {}
            Change::Drop => self.favour(None),
            Change::Take => self.favour(Some(index)),
        }
    }

    fn favour(&mut self, link: Option<u32>) {
        let favourite = Favourite { link, is_talking: link.is_some(), ..Favourite::default() };
        let before = std::mem::replace(&mut self.favourite, favourite);
        for index in [before.link, link].into_iter().flatten() {
            self.watch(index);
        }
    }

    /// Takes a link that ends out of the lists.
    pub(super) fn forget(&mut self, index: u32) {
        self.open.retain(|open| *open != index);
        if self.favourite.link == Some(index) {
            self.favourite = Favourite::default();
        }
    }

    /// Has the poller watch a link exactly for what is to be known of it: nothing where it is read directly,
    /// and room in the socket only as long as there is none.
    pub(super) fn watch(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        let State::Open(open) = &link.state else { return };
        let busy = if open.is_blocked() { Interest::Both } else { Interest::Read };
        let is_watched = self.is_watching && self.favourite.link != Some(index);
        let wanted = is_watched.then_some(busy);
        let outcome = match (link.watched, wanted) {
            (before, after) if before == after => return,
            (None, Some(interest)) => self.poller.add(&open.socket, Token::Link(index), interest),
            (Some(_), Some(interest)) => self.poller.change(&open.socket, Token::Link(index), interest),
            (_, None) => self.poller.remove(&open.socket),
        };
        link.watched = wanted;
        if let Err(errno) = outcome {
            let error = trouble::died(&open.who(), &trouble::reason(errno));
            self.forget(index);
            self.fail(index, error);
        }
    }
}

/// The link that is read directly while all others are watched, and who may follow it.
#[derive(Default)]
pub(super) struct Favourite {
    link: Option<u32>,
    /// The last message was the favourite's: then the others are looked at less often.
    is_talking: bool,
    /// Messages of others since.
    missed: u8,
    /// Who spoke last of the others, and how often without being interrupted.
    follower: u32,
    follows: u8,
}

/// What a message of another link changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    None,
    /// No connection is the favourite any more.
    Drop,
    /// Another connection is the favourite from now on.
    Take,
}

impl Favourite {
    #[inline]
    pub(super) fn link(&self) -> Option<u32> {
        self.link
    }

    #[inline]
    fn has_spoken(&mut self) {
        (self.is_talking, self.missed, self.follows) = (true, 0, 0);
    }

    fn another_has_spoken(&mut self, index: u32) -> Change {
        self.is_talking = false;
        self.missed = self.missed.saturating_add(1);
        self.follows = if self.follower == index { self.follows.saturating_add(1) } else { 1 };
        self.follower = index;
        if self.follows >= FOLLOWS {
            Change::Take
        } else if self.link.is_some() && self.missed >= MISSED_MAX {
            Change::Drop
        } else {
            Change::None
        }
    }
}

/// Up to this many connections are read directly; beyond, one call that asks which of them has something is
/// cheaper.
pub(super) const DIRECT_MAX: usize = 4;
/// While connections are read directly, every so many turns the poller is asked who knocks. Costs 1 % of a
/// turn.
pub(super) const POLLER_TURNS: usize = 32;
/// While the favourite talks, every so many turns the poller is asked who else does.
const TURNS_OF_FAVOURITE: usize = 4;
/// So many messages in a row make a favourite: changing costs as much as one message.
const FOLLOWS: u8 = 8;
/// After so many messages of others the favourite is none any more, and costs nothing.
const MISSED_MAX: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_alone_becomes_the_favourite_and_who_falls_silent_is_none() {
        let mut favourite = Favourite::default();
        let spoken =
            (1..=FOLLOWS).map(|_| favourite.another_has_spoken(7)).filter(|change| *change == Change::Take);
        assert_eq!(spoken.count(), 1, "after {FOLLOWS} messages in a row");
        let mut favourite = Favourite { link: Some(7), ..Favourite::default() };
        for round in 0..100 {
            favourite.has_spoken();
            assert!(favourite.is_talking);
            for other in [1, 2, 1] {
                assert_eq!(favourite.another_has_spoken(other), Change::None, "round {round}");
                assert!(!favourite.is_talking, "then others may speak again");
            }
        }
        let changes: Vec<Change> =
            (0..MISSED_MAX).map(|at| favourite.another_has_spoken(u32::from(at % 2))).collect();
        assert!(changes.contains(&Change::Drop) && !changes.contains(&Change::Take), "{changes:?}");
    }
}
