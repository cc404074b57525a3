//! Agreements and revocations of communicators: what members tell each other beside all matching, in any
//! call.
//!
//! Both go by the identity of a communicator, which is never given twice: what is left over from one that is
//! gone means nothing to the next that has its context.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use fabric::Peer;

use crate::agreement::{Agreement, Contribution, Decision, GOES_ON, Outbox, Word};
use crate::failures::Standing;
use crate::{Members, Rank};

/// A message, and for whom.
pub struct Letter {
    /// The process it is for.
    pub to: Peer,
    /// The [identity](Standing::identity) of the communicator.
    pub identity: u64,
    /// What it says.
    pub what: What,
}

/// What members tell each other.
pub enum What {
    /// A word of the agreement with that number.
    Agree {
        /// Which of the communicator's agreements, in the order of the calls.
        number: u32,
        /// What the member says in it.
        word: Word,
    },
    /// The communicator is revoked.
    Revoke {
        /// The even one of its two contexts.
        context: u32,
    },
}

/// All of them at a process.
#[derive(Default)]
pub struct Councils {
    all: HashMap<u64, Council>,
    /// How many were opened.
    opened: u64,
    /// With so many of them, those that are gone are looked for.
    forget_at: usize,
    /// Words for communicators in which this process has not agreed on anything yet.
    strays: VecDeque<(u64, u32, Peer, Vec<u8>)>,
    revoked: HashMap<u64, Revoked>,
    /// How many were revoked.
    revocations: u64,
    /// With so many of them, those that are gone are looked for.
    forget_revoked_at: usize,
    /// Those that were revoked, are gone, and are not told of any more; the latest at the end.
    past: VecDeque<u64>,
    /// Those that are revoked, and not known here yet.
    unknown: HashSet<u64>,
}

/// The agreements of one communicator. It outlives the communicator for a while: others may ask how the last
/// one ended.
struct Council {
    of: Weak<Standing>,
    /// How many were opened before it, and it.
    opened: u64,
    members: Arc<dyn Members>,
    here: u32,
    /// The number of the current agreement; that of the last one is one lower.
    number: u32,
    current: Agreement,
    last: Option<Agreement>,
    /// Decisions of agreements that this process has taken part in, and not asked about yet.
    outcomes: Vec<(u32, Decision)>,
    /// Words for the agreement behind the current one.
    early: Vec<(u32, Word)>,
    /// Somebody has given up: a decision was without [`GOES_ON`].
    is_given_up: bool,
    /// Agreements to come to which this process brings nothing.
    passed: BTreeSet<u32>,
}

/// A revocation that is known here, and whom this process has told. It outlives the communicator for a while:
/// somebody whom it has told may fail before having told others.
struct Revoked {
    of: Weak<Standing>,
    /// How many were revoked before it, and it.
    number: u64,
    context: u32,
    members: Arc<dyn Members>,
    here: u32,
    from: Revocation,
    told: BTreeSet<u32>,
    failed: BTreeSet<u32>,
}

/// Where a revocation comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Revocation {
    /// This process revokes.
    Here,
    /// Others know already, or learn of it as this process has.
    Heard,
}

impl Revocation {
    /// Whether others of so many members are told by the next turn only (decision 0014). Where they are few,
    /// who revokes tells all: what the others tell is for the case that it has died over it, and who waits
    /// here comes first.
    pub fn is_told_later(self, size: u32) -> bool {
        self == Revocation::Heard && size <= FEW
    }
}

impl Councils {
    /// Takes part in the next agreement of a communicator; the answer is its number.
    pub fn contribute(
        &mut self,
        standing: &Arc<Standing>,
        mine: Contribution,
        failed: &[Peer],
        letters: &mut Vec<Letter>,
    ) -> u32 {
        let identity = standing.identity();
        if !self.all.contains_key(&identity) {
            self.open(standing, failed, letters);
        }
        let council = self.all.get_mut(&identity).expect("it was opened just now, or before");
        let (number, mut out) = (council.number, Outbox::new());
        council.current.contribute(mine, &mut out);
        council.mail(identity, number, out, letters);
        council.go_on(identity, letters);
        number
    }

    /// This process gives up: to the agreement that is next, or under way and without its part, it brings
    /// nothing, so that nobody waits for it there. Once somebody has, nobody needs to any more.
    pub fn give_up(&mut self, standing: &Arc<Standing>, failed: &[Peer], letters: &mut Vec<Letter>) {
        let identity = standing.identity();
        if !self.all.contains_key(&identity) {
            self.open(standing, failed, letters);
        }
        if let Some(council) = self.all.get_mut(&identity).filter(|council| !council.is_given_up) {
            council.pass(identity, council.number, letters);
        }
    }

    /// This process brings nothing to the agreement with that number, if it has brought nothing yet, and does
    /// not ask for its decision.
    pub fn pass(&mut self, standing: &Standing, number: u32, letters: &mut Vec<Letter>) {
        let identity = standing.identity();
        if let Some(council) = self.all.get_mut(&identity) {
            council.pass(identity, number, letters);
        }
    }

    /// Whether somebody has given up, as far as it is decided.
    pub fn is_given_up(&self, standing: &Standing) -> bool {
        self.all.get(&standing.identity()).is_some_and(|council| council.is_given_up)
    }

    /// How an agreement ended, if it did; it is told once.
    pub fn take_decision(&mut self, standing: &Standing, number: u32) -> Option<Decision> {
        let outcomes = &mut self.all.get_mut(&standing.identity())?.outcomes;
        let at = outcomes.iter().position(|(known, _)| *known == number)?;
        Some(outcomes.swap_remove(at).1)
    }

    /// The number of the agreement that a communicator's members take part in next, or are in.
    pub fn current(&self, standing: &Standing) -> u32 {
        self.all.get(&standing.identity()).map_or(0, |council| council.number)
    }

    /// A word from a member; true when it has brought a decision about.
    pub fn hear(
        &mut self,
        from: Peer,
        identity: u64,
        number: u32,
        word: &[u8],
        letters: &mut Vec<Letter>,
    ) -> bool {
        let Some(council) = self.all.get_mut(&identity) else {
            if self.strays.len() == STRAYS_MAX {
                self.strays.pop_front();
            }
            self.strays.push_back((identity, number, from, word.to_vec()));
            return false;
        };
        let before = council.number;
        council.hear(from, identity, number, word, letters);
        council.number != before
    }

    /// A process has failed; true when that has brought a decision about.
    pub fn lose(&mut self, peer: Peer, letters: &mut Vec<Letter>) -> bool {
        let mut decided = false;
        for (&identity, council) in &mut self.all {
            let Some(Rank(rank)) = council.members.rank(peer) else { continue };
            let before = council.number;
            let (number, mut out) = (council.number, Outbox::new());
            council.current.lose(rank, &mut out);
            council.mail(identity, number, out, letters);
            if let Some(last) = &mut council.last {
                last.lose(rank, &mut Outbox::new());
            }
            council.go_on(identity, letters);
            decided |= council.number != before;
        }
        for (&identity, revoked) in &mut self.revoked {
            if let Some(Rank(rank)) = revoked.members.rank(peer) {
                revoked.failed.insert(rank);
                revoked.spread(identity, letters);
            }
        }
        decided
    }

    /// A communicator is revoked, here or by a message. All members are told, as far as this one is the one
    /// to do so; of what is known already nobody is.
    pub fn revoke(
        &mut self,
        standing: &Arc<Standing>,
        from: Revocation,
        failed: &[Peer],
        letters: &mut Vec<Letter>,
    ) {
        let identity = standing.identity();
        self.unknown.remove(&identity);
        if self.revoked.contains_key(&identity) {
            return;
        }
        let (members, here) = (standing.members_kept(), standing.here());
        let failed = failed.iter().filter_map(|peer| members.rank(*peer)).map(|rank| rank.0).collect();
        self.revocations += 1;
        let mut revoked = Revoked {
            of: Arc::downgrade(standing),
            number: self.revocations,
            context: standing.context(),
            members,
            here,
            from,
            told: BTreeSet::new(),
            failed,
        };
        revoked.spread(identity, letters);
        self.revoked.insert(identity, revoked);
        self.forget_revoked();
    }

    /// A communicator is revoked that is not known here yet, or not any more; true where that is to be looked
    /// out for.
    pub fn revoke_unknown(&mut self, identity: u64) -> bool {
        let is_known = self.revoked.contains_key(&identity) || self.past.contains(&identity);
        let is_noted = !is_known && self.unknown.len() < STRAYS_MAX;
        if is_noted {
            self.unknown.insert(identity);
        }
        is_noted
    }

    /// Whether a communicator that has become known was revoked before.
    pub fn was_revoked(&self, identity: u64) -> bool {
        self.unknown.contains(&identity)
    }

    /// Whether a communicator was revoked that is not known here yet.
    pub fn any_unknown(&self) -> bool {
        !self.unknown.is_empty()
    }

    fn open(&mut self, standing: &Arc<Standing>, failed: &[Peer], letters: &mut Vec<Letter>) {
        self.forget();
        let (members, here, identity) = (standing.members_kept(), standing.here(), standing.identity());
        self.opened += 1;
        let mut council = Council {
            opened: self.opened,
            of: Arc::downgrade(standing),
            here,
            number: 0,
            current: Agreement::new(members.size(), here, BTreeSet::new()),
            last: None,
            outcomes: Vec::new(),
            early: Vec::new(),
            is_given_up: false,
            passed: BTreeSet::new(),
            members,
        };
        let mut out = Outbox::new();
        for rank in failed.iter().filter_map(|peer| council.members.rank(*peer)) {
            council.current.lose(rank.0, &mut out);
        }
        council.mail(identity, 0, out, letters);
        let (mine, others): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.strays).into_iter().partition(|stray| stray.0 == identity);
        self.strays = others;
        for (_, number, from, word) in mine {
            council.hear(from, identity, number, &word, letters);
        }
        self.all.insert(identity, council);
    }

    /// Communicators that are gone are asked about by those who missed how the last agreement ended; some are
    /// kept for them.
    fn forget(&mut self) {
        if self.all.len() < self.forget_at {
            return;
        }
        let gone = self.all.iter().filter(|(_, council)| council.of.strong_count() == 0);
        for identity in oldest(gone.map(|(&identity, council)| (council.opened, identity))) {
            self.all.remove(&identity);
        }
        self.forget_at = self.all.len() + GONE_MAX / 2;
    }

    /// Forgets the oldest revocations of communicators that are gone, once there are many. That such a
    /// communicator was revoked is known for longer than which members were told of it.
    fn forget_revoked(&mut self) {
        if self.revoked.len() < self.forget_revoked_at {
            return;
        }
        let gone = self.revoked.iter().filter(|(_, revoked)| revoked.of.strong_count() == 0);
        for identity in oldest(gone.map(|(&identity, revoked)| (revoked.number, identity))) {
            self.revoked.remove(&identity);
            if self.past.len() == STRAYS_MAX {
                self.past.pop_front();
            }
            self.past.push_back(identity);
        }
        self.forget_revoked_at = self.revoked.len() + GONE_MAX / 2;
    }
}

/// Of communicators that are gone, by number and identity, those to be forgotten. Those that came last may
/// still be asked about.
fn oldest(gone: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
    let mut gone: Vec<(u64, u64)> = gone.collect();
    gone.sort_unstable();
    gone.truncate(gone.len().saturating_sub(GONE_MAX / 2));
    gone.into_iter().map(|(_, identity)| identity).collect()
}

impl Council {
    fn hear(&mut self, from: Peer, identity: u64, number: u32, word: &[u8], letters: &mut Vec<Letter>) {
        let Some(Rank(rank)) = self.members.rank(from) else { return };
        let Some(word) = Word::decode(word, self.members.size()) else { return };
        let mut out = Outbox::new();
        if number == self.number {
            self.current.hear(rank, word, &mut out);
        } else if number == self.number.wrapping_add(1) {
            self.early.push((rank, word));
        } else if let Some(last) = self.last.as_mut().filter(|_| number.wrapping_add(1) == self.number) {
            last.hear(rank, word, &mut out);
        }
        self.mail(identity, number, out, letters);
        self.go_on(identity, letters);
    }

    /// What comes after a decision: the next agreement, for which there may be words already.
    fn go_on(&mut self, identity: u64, letters: &mut Vec<Letter>) {
        while let Some(decision) = self.current.decision() {
            let (before, failed) = (decision.failed.clone(), self.current.failed().clone());
            self.is_given_up |= decision.flags & GOES_ON == 0;
            self.outcomes.push((self.number, decision.clone()));
            let next = Agreement::new(self.members.size(), self.here, before);
            self.last = Some(std::mem::replace(&mut self.current, next));
            self.number = self.number.wrapping_add(1);
            let mut out = Outbox::new();
            failed.into_iter().for_each(|rank| self.current.lose(rank, &mut out));
            for (from, word) in std::mem::take(&mut self.early) {
                self.current.hear(from, word, &mut out);
            }
            let gives_up = || self.of.upgrade().is_some_and(|of| of.gives_up()) && !self.is_given_up;
            if self.passed.remove(&self.number) || gives_up() {
                self.current.contribute(Contribution::nothing(), &mut out);
            }
            self.mail(identity, self.number, out, letters);
        }
    }

    fn pass(&mut self, identity: u64, number: u32, letters: &mut Vec<Letter>) {
        // Numbers come again after 2^32 of them.
        match number.wrapping_sub(self.number) {
            0 => {
                let mut out = Outbox::new();
                self.current.contribute(Contribution::nothing(), &mut out);
                self.mail(identity, number, out, letters);
                self.go_on(identity, letters);
            }
            ahead if ahead < u32::MAX / 2 => {
                self.passed.insert(number);
            }
            _ => self.outcomes.retain(|(known, _)| *known != number),
        }
    }

    fn mail(&self, identity: u64, number: u32, out: Outbox, letters: &mut Vec<Letter>) {
        for (rank, word) in out {
            if let Some(to) = self.members.peer(Rank(rank)) {
                letters.push(Letter { to, identity, what: What::Agree { number, word } });
            }
        }
    }
}

impl Revoked {
    /// Tells the next living members 1, 2, 4, … places on; also those that have come into the place of one
    /// that is dead. That the next one always knows is what lets all know. Of few members who revokes tells
    /// all itself, in one step, and the others the next one only.
    fn spread(&mut self, identity: u64, letters: &mut Vec<Letter>) {
        let size = self.members.size();
        let further = |distance: &u32| match self.from {
            _ if size > FEW => distance.checked_mul(2),
            Revocation::Here => Some(distance + 1),
            Revocation::Heard => None,
        };
        let distances: Vec<u32> =
            std::iter::successors(Some(1u32), further).take_while(|distance| *distance < size).collect();
        for distance in distances {
            let place = |step: u32| ((u64::from(self.here) + u64::from(step)) % u64::from(size)) as u32;
            let next = (distance..size).map(place).find(|rank| !self.failed.contains(rank));
            if let Some(rank) = next.filter(|rank| self.told.insert(*rank))
                && let Some(to) = self.members.peer(Rank(rank))
            {
                letters.push(Letter { to, identity, what: What::Revoke { context: self.context } });
            }
        }
    }
}

/// So many are told by one: as many as take part in one step of an agreement.
const FEW: u32 = 9;
/// Words and revocations for communicators that are not known here, at most.
const STRAYS_MAX: usize = 4096;
/// Communicators that are gone and whose last decision, or revocation, is still kept; half of them at least,
/// since to look for those that are gone takes longer than all the rest of a revocation.
const GONE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemberList;
    use crate::failures::Failures;

    /// Whom a member tells, by rank, of so many of whom those have failed.
    fn told(size: u32, here: u32, from: Revocation, failed: &[u32]) -> Vec<u32> {
        let (mut councils, failures, mut letters) = (Councils::default(), Failures::default(), Vec::new());
        let standing = failures.watch(8, 1, Rank(here), Arc::new(MemberList((0..size).collect())));
        let failed: Vec<Peer> = failed.iter().map(|&rank| Peer(rank)).collect();
        councils.revoke(&standing, from, &failed, &mut letters);
        letters.iter().map(|letter| letter.to.0).collect()
    }

    #[test]
    fn of_few_members_who_revokes_tells_all_and_of_many_everybody_some() {
        assert_eq!(told(5, 3, Revocation::Here, &[]), [4, 0, 1, 2]);
        assert_eq!(told(5, 3, Revocation::Here, &[4, 1]), [0, 2]);
        assert_eq!(told(5, 3, Revocation::Heard, &[4]), [0], "the next who lives always knows");
        for from in [Revocation::Here, Revocation::Heard] {
            assert_eq!(told(20, 3, from, &[]), [4, 5, 7, 11, 19]);
            assert_eq!(told(1, 0, from, &[]), []);
        }
    }

    #[test]
    fn communicators_that_were_revoked_and_are_gone_are_forgotten() {
        let (mut councils, failures, mut letters) = (Councils::default(), Failures::default(), Vec::new());
        let watch = |identity| failures.watch(8, identity, Rank(0), Arc::new(MemberList(vec![0, 1])));
        let end = if cfg!(miri) { 4 * GONE_MAX as u64 } else { 1000 };
        // More than are kept of those that are gone.
        let (first, kept) = (2 * GONE_MAX as u64, (1..2 * GONE_MAX as u64).map(watch).collect::<Vec<_>>());
        for standing in &kept {
            councils.revoke(standing, Revocation::Here, &[], &mut letters);
        }
        for identity in first..end {
            councils.revoke(&watch(identity), Revocation::Here, &[], &mut letters);
        }
        assert_eq!(letters.len() as u64, end - 1, "the other member is told of each");
        let gone = councils.revoked.len() - kept.len();
        assert!((GONE_MAX / 2..=GONE_MAX).contains(&gone), "{gone} are kept");
        for standing in &kept {
            councils.revoke(standing, Revocation::Here, &[], &mut letters);
        }
        assert_eq!(letters.len() as u64, end - 1, "these are there, and known to be revoked");
        for identity in 1..end {
            assert!(!councils.revoke_unknown(identity), "it was known");
        }
        assert!(!councils.any_unknown());
    }
}
