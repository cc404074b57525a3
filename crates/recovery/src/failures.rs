//! Processes that have failed, and the communicators that they were members of (decision 0013).
//!
//! The engine notes who is lost; whoever makes communicators says who their members are. Both look here, and
//! only when something has failed, or a communicator comes or is asked about: no message that goes its way
//! does.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use fabric::{FabricError, Fault, Peer};

use crate::{Members, Rank};

mod range;

pub use range::ErrorRange;

/// What failures have made of a communicator. The holders of the communicator keep it; with the last of them
/// it is gone.
pub struct Standing {
    /// The even one of its two contexts: that of messages between two. The odd one is that of collective
    /// operations.
    context: u32,
    /// The number by which members name the communicator: it is the same at all of them, and no other
    /// communicator ever has it.
    identity: u64,
    /// This process among the members.
    here: Rank,
    members: Arc<dyn Members>,
    is_closed: AtomicBool,
    /// A member has failed whose place is not blank.
    is_broken: AtomicBool,
    is_revoked: AtomicBool,
    /// Where a member has failed, nobody sends or receives either.
    is_strict: AtomicBool,
    /// Another one has come into its place.
    is_retired: AtomicBool,
    /// Its members agree behind each operation of all of them.
    is_atomic: AtomicBool,
    /// Which failures revoke it.
    range: AtomicU8,
}

impl Standing {
    /// Of one that is just made: nobody has failed, as far as it is known.
    fn new(context: u32, identity: u64, here: Rank, members: Arc<dyn Members>) -> Standing {
        Standing {
            context,
            identity,
            here,
            members,
            is_closed: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            is_revoked: AtomicBool::new(false),
            is_strict: AtomicBool::new(false),
            is_retired: AtomicBool::new(false),
            is_atomic: AtomicBool::new(false),
            range: AtomicU8::new(ErrorRange::Local as u8),
        }
    }

    /// Whether it is revoked.
    #[inline]
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.is_revoked.load(Ordering::Relaxed)
    }

    /// Whether nothing that all members do together can succeed any more: a member has failed, or it is
    /// revoked.
    #[inline(always)]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// What all members do together goes another way from now on, or none.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Whether messages between two are hindered as well.
    fn is_shut(&self) -> bool {
        self.is_revoked() || self.is_strict() && self.is_broken.load(Ordering::Relaxed)
    }

    /// Whether calls must be kept from the shortest ways for its sake.
    fn is_guarded(&self) -> bool {
        self.is_shut() && !self.is_retired()
    }

    /// Whether a failure of a member keeps the others from messages between two as well.
    pub fn is_strict(&self) -> bool {
        self.is_strict.load(Ordering::Relaxed)
    }

    /// Whether a failure of a member keeps the others from messages between two as well, and not from
    /// collective operations only.
    pub fn set_strict(&self, is_strict: bool) {
        self.is_strict.store(is_strict, Ordering::Relaxed);
    }

    /// Whether another one has come into its place.
    pub fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    /// Another one comes into its place.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    /// Whether this process has given up what its members agree on behind each operation: none can succeed
    /// here any more.
    pub fn gives_up(&self) -> bool {
        // One thread may say that it is atomic, and another that it is revoked: one of them sees both.
        self.is_atomic.load(Ordering::SeqCst)
            && (self.is_revoked.load(Ordering::SeqCst)
                || self.is_retired()
                || self.is_broken.load(Ordering::Relaxed))
    }

    fn set_broken(&self, is_broken: bool) {
        self.is_broken.store(is_broken, Ordering::Relaxed);
        if is_broken {
            self.close();
        }
    }

    /// The members.
    #[must_use]
    pub fn members(&self) -> &dyn Members {
        &*self.members
    }

    /// The even one of its two contexts.
    #[inline]
    #[must_use]
    pub fn context(&self) -> u32 {
        self.context
    }

    /// A number that is the same at all members, and never given to another communicator.
    #[must_use]
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// The rank of this process.
    pub fn here(&self) -> u32 {
        self.here.0
    }

    /// The members, for a caller that keeps them.
    pub fn members_kept(&self) -> Arc<dyn Members> {
        Arc::clone(&self.members)
    }

    /// Marks the communicator as revoked: no operation on it can succeed any more (MPI 5.0 has no such call;
    /// it is that of ULFM).
    pub fn set_revoked(&self) {
        self.is_revoked.store(true, Ordering::SeqCst);
        self.close();
    }
}

/// What a process knows of failures. Cheap to clone; all clones are the same one.
#[derive(Clone, Default)]
pub struct Failures {
    book: Arc<Mutex<Book>>,
    /// There may be something new that this process has given up.
    any_given_up: Arc<AtomicBool>,
    /// Called when this process has learned of a failure.
    teller: Arc<OnceLock<Teller>>,
}

/// What is to be done when this process has learned of a failure.
type Teller = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Book {
    /// In the order in which this process has learned of them; nobody is ever taken away.
    failed: Vec<(Peer, FabricError)>,
    watched: HashMap<u32, Watch>,
    /// The watches of communicators that are gone are looked for once there are so many.
    forget_at: usize,
}

struct Watch {
    standing: Weak<Standing>,
    identity: u64,
    /// The places of failed members in the list of all.
    failed: Vec<usize>,
    /// So many of them are acknowledged.
    acknowledged: usize,
    /// Members whose places are blank: their failures are acknowledged, before others' or behind them.
    blank: Vec<Peer>,
}

impl Failures {
    /// From now on failures of these members concern the communicator with that context; those that are known
    /// already do. `identity` is the same at all members, and no other communicator ever has it; `here` is
    /// this process's rank.
    #[must_use]
    pub fn watch(&self, context: u32, identity: u64, here: Rank, members: Arc<dyn Members>) -> Arc<Standing> {
        let mut book = self.hold();
        let is_member = |(_, (peer, _)): &(usize, &(Peer, FabricError))| members.rank(*peer).is_some();
        let failed: Vec<usize> = book.failed.iter().enumerate().filter(is_member).map(|(at, _)| at).collect();
        let standing = Arc::new(Standing::new(context, identity, here, members));
        if !failed.is_empty() {
            standing.set_broken(true);
        }
        book.forget();
        let (watched, blank) = (Arc::downgrade(&standing), Vec::new());
        book.watched.insert(context, Watch { standing: watched, identity, failed, acknowledged: 0, blank });
        standing
    }

    /// Says whether the members of a communicator agree behind each operation; all say the same. Where one of
    /// them can not go on, the others shall not wait there: from now on it brings nothing to the agreement
    /// once it knows of that ([`crate::GOES_ON`]).
    pub fn set_atomic(&self, standing: &Standing, is_atomic: bool) {
        standing.is_atomic.store(is_atomic, Ordering::SeqCst);
        if standing.gives_up() {
            self.any_given_up.store(true, Ordering::Relaxed);
        }
    }

    /// Whether to look at [`Failures::given_up`] since something was made, or has become so, that was broken
    /// before.
    pub fn take_any_given_up(&self) -> bool {
        self.any_given_up.load(Ordering::Relaxed) && self.any_given_up.swap(false, Ordering::Relaxed)
    }

    /// The communicators in which this process has given up what their members agree on behind each
    /// operation, in the order of their contexts.
    pub fn given_up(&self) -> Vec<Arc<Standing>> {
        let book = self.hold();
        let standings = book.watched.values().filter_map(|watch| watch.standing.upgrade());
        let mut given_up: Vec<_> = standings.filter(|standing| standing.gives_up()).collect();
        // Tables have no order, and what happens has one.
        given_up.sort_unstable_by_key(|standing| standing.context);
        given_up
    }

    /// Has `teller` called whenever the process has learned of a failure. The first `teller` stays: a later
    /// one is dropped. It may call nothing of MPI.
    pub fn tell(&self, teller: impl Fn() + Send + Sync + 'static) {
        let _ = self.teller.set(Box::new(teller));
    }

    /// All that this process knows of, in the order in which it has learned of them.
    #[must_use]
    pub fn all(&self) -> Vec<Peer> {
        self.hold().failed.iter().map(|(peer, _)| *peer).collect()
    }

    /// Whether it is known that this process has failed.
    pub fn knows(&self, peer: Peer) -> bool {
        self.hold().failed.iter().any(|(known, _)| *known == peer)
    }

    /// The failed processes that are known to have died, in the order in which this process has learned of
    /// them. Other failed processes are only out of the reach of this process, as where its descriptors are
    /// short.
    pub fn dead(&self) -> Vec<Peer> {
        let book = self.hold();
        book.failed.iter().filter(|(_, error)| error.fault == Fault::Died).map(|(peer, _)| *peer).collect()
    }

    /// The failed members of a communicator, in the order in which this process has learned of them: each
    /// answer begins with the one before.
    #[must_use]
    pub fn of(&self, standing: &Standing) -> Vec<Peer> {
        let book = self.hold();
        let Some(watch) = book.watched.get(&standing.context) else { return Vec::new() };
        watch.failed.iter().map(|&at| book.failed[at].0).collect()
    }

    /// Acknowledges the first `count` failures of members, unless more are; the answer is how many are now.
    /// Receives from anybody go on as before where all are.
    pub fn acknowledge(&self, standing: &Standing, count: usize) -> usize {
        let mut book = self.hold();
        let Book { failed, watched, .. } = &mut *book;
        let Some(watch) = watched.get_mut(&standing.context) else { return 0 };
        watch.acknowledge(count, failed);
        watch.acknowledged
    }

    /// The places of these members are blank from now on: their failures, and no others', are acknowledged
    /// and hinder no message between two any more, in whatever order this process hears of them. Collective
    /// operations stay broken: what had begun among all can never end, and those who live have a context of
    /// their own for the next ones.
    pub fn settle(&self, standing: &Standing, blank: Vec<Peer>) {
        let mut book = self.hold();
        let Book { failed, watched, .. } = &mut *book;
        let Some(watch) = watched.get_mut(&standing.context) else { return };
        watch.blank = blank;
        watch.acknowledge(0, failed);
        if let Some(standing) = watch.standing.upgrade() {
            standing.set_broken(watch.broken_by(failed).is_some());
        }
    }

    /// Settles a communicator in which new processes have come into the places of `gone`: `members` are its
    /// members from now on. The failures of `gone`, and of those whose places were blank before, are
    /// acknowledged and hinder no message between two members any more. The answer is the standing of the
    /// context as it is now; it is [closed](Standing::close).
    #[must_use]
    pub fn settle_among(
        &self,
        standing: &Standing,
        mut gone: Vec<Peer>,
        members: Arc<dyn Members>,
    ) -> Arc<Standing> {
        let &Standing { context, identity, here, .. } = standing;
        let renewed = Arc::new(Standing::new(context, identity, here, Arc::clone(&members)));
        renewed.close();
        renewed.set_strict(standing.is_strict());
        renewed.set_range(standing.range());
        if standing.is_revoked() {
            renewed.set_revoked();
        }
        let mut book = self.hold();
        if let Some(watch) = book.watched.get_mut(&standing.context) {
            watch.standing = Arc::downgrade(&renewed);
        }
        let Book { failed, watched, .. } = &mut *book;
        if let Some(watch) = watched.get_mut(&standing.context) {
            gone.extend(&watch.blank);
            for (at, (peer, _)) in failed.iter().enumerate() {
                if members.rank(*peer).is_some() && !watch.failed.contains(&at) {
                    watch.failed.push(at);
                }
            }
        }
        drop(book);
        self.settle(&renewed, gone);
        renewed
    }

    /// Acknowledges in one communicator, from its first failure on, what is acknowledged in another one with
    /// the same processes.
    pub fn acknowledge_alike(&self, known: &Standing, alike: &Standing) {
        let mut book = self.hold();
        let Some(watch) = book.watched.get(&known.context) else { return };
        let acknowledged = watch.failed[..watch.acknowledged].to_vec();
        let Book { failed, watched, .. } = &mut *book;
        let Some(watch) = watched.get_mut(&alike.context) else { return };
        // Who was blank or replaced before is acknowledged in any case.
        let is_settled = |at: &&usize| acknowledged.contains(at) || watch.blank.contains(&failed[**at].0);
        let count = watch.failed.iter().take_while(is_settled).count();
        watch.acknowledge(count, failed);
    }

    /// Notes a failure; the answer is the contexts of the communicators that it concerns: the odd one where
    /// it concerns collective operations only, since the place was blank before. One that is known concerns
    /// none.
    pub fn note(&self, peer: Peer, error: &FabricError) -> Vec<u32> {
        let mut book = self.hold();
        if book.failed.iter().any(|(known, _)| *known == peer) {
            return Vec::new();
        }
        let at = book.failed.len();
        book.failed.push((peer, error.clone()));
        let Book { failed, watched, .. } = &mut *book;
        let mut concerned = Vec::new();
        for (&context, watch) in watched {
            let Some(standing) = watch.standing.upgrade() else { continue };
            if standing.members.rank(peer).is_some() {
                watch.failed.push(at);
                watch.acknowledge(0, failed);
                if watch.blank.contains(&peer) {
                    concerned.push(context | 1);
                } else {
                    standing.set_broken(true);
                    concerned.push(context);
                }
            }
        }
        drop(book);
        if let Some(tell) = self.teller.get() {
            tell();
        }
        // Tables have no order, and what happens has one.
        concerned.sort_unstable();
        concerned
    }

    /// Why nothing can be received from anybody under that context: a failure that is not acknowledged.
    pub fn unacknowledged(&self, context: u32) -> Option<FabricError> {
        let book = self.hold();
        let watch = book.watched.get(&context)?;
        watch.standing.upgrade()?;
        let &at = watch.failed.get(watch.acknowledged)?;
        Some(book.failed[at].1.clone())
    }

    /// Why nothing can be done under that context, where a member has failed: collective operations, or
    /// everything.
    pub fn broken(&self, context: u32) -> Option<FabricError> {
        let book = self.hold();
        let watch = book.watched.get(&(context & !1))?;
        let standing = watch.standing.upgrade()?;
        let at = match is_collective(context) {
            true => watch.failed.first().copied(),
            false if standing.is_strict() => watch.broken_by(&book.failed),
            false => None,
        };
        at.map(|at| book.failed[at].1.clone())
    }

    /// Why another communicator came into the place of one: a member that it does not keep as blank has
    /// failed, if one has.
    pub fn retired_by(&self, context: u32) -> Option<FabricError> {
        let book = self.hold();
        let at = book.watched.get(&(context & !1))?.broken_by(&book.failed)?;
        Some(book.failed[at].1.clone())
    }

    /// The communicator that has that context, if it is there.
    #[must_use]
    pub fn standing(&self, context: u32) -> Option<Arc<Standing>> {
        self.hold().standing(context)
    }

    /// Whether that communicator was here, and is gone.
    pub fn knew(&self, context: u32, identity: u64) -> bool {
        let book = self.hold();
        let watch = book.watched.get(&(context & !1));
        watch.is_some_and(|watch| watch.identity == identity && watch.standing.strong_count() == 0)
    }

    /// Whether a communicator is there for whose sake calls must be kept from the shortest ways.
    pub fn any_guarded(&self) -> bool {
        let book = self.hold();
        book.watched
            .values()
            .filter_map(|watch| watch.standing.upgrade())
            .any(|standing| standing.is_guarded())
    }

    fn hold(&self) -> MutexGuard<'_, Book> {
        // Nothing is left half done where somebody panics.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn standing(&self, context: u32) -> Option<Arc<Standing>> {
        self.watched.get(&(context & !1))?.standing.upgrade()
    }

    fn forget(&mut self) {
        if self.watched.len() >= self.forget_at {
            self.watched.retain(|_, watch| watch.standing.strong_count() > 0);
            self.forget_at = (2 * self.watched.len()).max(WATCHED_MIN);
        }
    }
}

impl Watch {
    /// Acknowledges the first `count` failures, and those of blank members that are the next.
    fn acknowledge(&mut self, count: usize, all: &[(Peer, FabricError)]) {
        self.acknowledged = self.acknowledged.max(count.min(self.failed.len()));
        let next = self.failed[self.acknowledged..].iter();
        self.acknowledged += next.take_while(|&&at| self.blank.contains(&all[at].0)).count();
    }

    /// The first failure of a member whose place is not blank.
    fn broken_by(&self, all: &[(Peer, FabricError)]) -> Option<usize> {
        self.failed.iter().copied().find(|&at| !self.blank.contains(&all[at].0))
    }
}

/// Whether that is the context of a communicator's collective operations.
pub fn is_collective(context: u32) -> bool {
    context & 1 == 1
}

/// With fewer of them nobody is looked for who is gone.
const WATCHED_MIN: usize = 64;

#[cfg(test)]
#[path = "failures_tests.rs"]
mod tests;
