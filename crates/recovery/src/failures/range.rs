//! How far failures reach: which communicators one revokes by itself (decision 0013).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fabric::Peer;

use super::{Failures, Standing, Watch};

/// Which failures revoke a communicator, as if a member had asked for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorRange {
    /// None: a failure ends what needs the dead, and nothing else.
    Local,
    /// Failures of members of the communicator.
    Group,
    /// Failures of any process.
    Universe,
}

impl ErrorRange {
    /// By its name in lower case.
    #[must_use]
    pub fn named(name: &str) -> Option<ErrorRange> {
        ALL.into_iter().find(|range| range.name() == name)
    }

    /// Its name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ErrorRange::Local => "local",
            ErrorRange::Group => "group",
            ErrorRange::Universe => "universe",
        }
    }
}

impl Standing {
    /// Which failures revoke it.
    #[must_use]
    pub fn range(&self) -> ErrorRange {
        ALL[self.range.load(Ordering::Relaxed) as usize]
    }

    /// Says which failures revoke it from now on; what was known before does not.
    pub fn set_range(&self, range: ErrorRange) {
        self.range.store(range as u8, Ordering::Relaxed);
    }
}

impl Failures {
    /// The communicators that the failure of a process revokes, in the order of their contexts.
    pub fn revoked_by(&self, peer: Peer) -> Vec<Arc<Standing>> {
        let book = self.hold();
        let reached = |watch: &Watch| watch.standing.upgrade().filter(|of| watch.is_reached(of, peer));
        let mut revoked: Vec<_> = book.watched.values().filter_map(reached).collect();
        // Tables have no order, and what happens has one.
        revoked.sort_unstable_by_key(|standing| standing.context);
        revoked
    }
}

impl Watch {
    fn is_reached(&self, standing: &Standing, peer: Peer) -> bool {
        let is_member = || standing.members.rank(peer).is_some() && !self.blank.contains(&peer);
        match standing.range() {
            _ if standing.is_retired() => false,
            ErrorRange::Local => false,
            ErrorRange::Group => is_member(),
            ErrorRange::Universe => true,
        }
    }
}

/// In the order of their numbers.
const ALL: [ErrorRange; 3] = [ErrorRange::Local, ErrorRange::Group, ErrorRange::Universe];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemberList, Rank};

    #[test]
    fn a_failure_revokes_those_that_it_reaches() {
        let failures = Failures::default();
        let watch = |context, range, members: &[u32]| {
            let standing = failures.watch(context, 0, Rank(0), Arc::new(MemberList(members.to_vec())));
            standing.set_range(range);
            standing
        };
        let _local = watch(2, ErrorRange::Local, &[1, 2]);
        let group = watch(8, ErrorRange::Group, &[1, 2]);
        let universe = watch(4, ErrorRange::Universe, &[1]);
        let reached =
            |peer| failures.revoked_by(Peer(peer)).iter().map(|of| of.context()).collect::<Vec<_>>();
        assert_eq!((reached(2), reached(3)), (vec![4, 8], vec![4]));
        failures.settle(&group, vec![Peer(2)]);
        assert_eq!(reached(2), [4], "its place is blank there");
        universe.retire();
        drop(group);
        assert_eq!(reached(2), []);
    }

    #[test]
    fn who_comes_into_the_place_of_the_dead_finds_the_same_range() {
        let failures = Failures::default();
        let before = failures.watch(4, 3, Rank(0), Arc::new(MemberList(vec![6, 7])));
        before.set_range(ErrorRange::Group);
        let after = failures.settle_among(&before, vec![Peer(7)], Arc::new(MemberList(vec![6, 9])));
        assert_eq!((after.range(), failures.revoked_by(Peer(9)).len()), (ErrorRange::Group, 1));
    }

    #[test]
    fn ranges_have_names() {
        for range in ALL {
            assert_eq!(ErrorRange::named(range.name()), Some(range));
        }
        assert_eq!(ErrorRange::named("world"), None);
    }
}
