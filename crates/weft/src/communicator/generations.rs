//! The generations of a communicator that keeps the places of the dead: what it has become by its last
//! recovery, and what it was before, which it gives back when nobody asks for it any more. So a job may
//! recover as often as it likes.

use std::sync::Arc;

use job::error::{Class, Error, Result};
use job::lock::lock;
use messaging::Rank;

use super::Communicator;
use super::recovery::Past;

/// What a communicator has become by a recovery that has kept the places of the dead. Whoever is within an
/// operation has a share of it.
pub(super) struct Recovered {
    /// Those who live.
    pub living: Communicator,
    /// Their ranks in the communicator that has recovered, in ascending order; where there are two groups,
    /// those of the other one.
    pub ranks: Vec<Rank>,
    pub generation: u32,
    pub past: Past,
}

/// What a communicator has become by its recoveries: what it is, and what it was and is still asked for.
#[derive(Default)]
pub(super) struct RecoveryCourse {
    latest: Option<Arc<Recovered>>,
    /// The one before the latest, and those that something goes by or waits in.
    before: Vec<Arc<Recovered>>,
}

impl Communicator {
    #[cold]
    pub(super) fn last_recovered(&self) -> Option<Arc<Recovered>> {
        lock(&self.inner.recoveries.course).latest.clone()
    }

    /// The contexts that messages between two go by, or went by before a recovery, as long as any of them may
    /// be asked for.
    pub(super) fn contexts(&self) -> Vec<u32> {
        let course = lock(&self.inner.recoveries.course);
        let of_living = course.before.iter().chain(&course.latest).map(|one| one.context());
        [self.context(), self.inner.standing.context()].into_iter().chain(of_living).collect()
    }

    /// What it was before `last` is given back, unless messages go by its context or receives are under way
    /// there. `last` stays until the next recovery: what others have sent in it is still to be dropped when
    /// it comes.
    pub(super) fn become_recovered(&self, last: Option<Arc<Recovered>>, next: Recovered) -> Result<()> {
        let messages = self.context();
        let earlier = lock(&self.inner.recoveries.course).before.clone();
        let is_needed = |one: &&Arc<Recovered>| {
            one.context() == messages || self.process().with_engine(|engine| engine.lends(one.context()))
        };
        let mut before: Vec<_> = earlier.iter().filter(is_needed).cloned().collect();
        before.extend(last.clone());
        let mut course = lock(&self.inner.recoveries.course);
        if course.latest.as_ref().map(Arc::as_ptr) != last.as_ref().map(Arc::as_ptr) {
            let what = format!("{}: two threads recover it at once", self.place());
            return Err(Error::new(Class::Communicator, what));
        }
        let gone = std::mem::replace(&mut *course, RecoveryCourse { latest: Some(Arc::new(next)), before });
        drop(course);
        // Whoever had the last share of one gives its context and its collective segment back, which takes
        // other locks.
        drop((gone, earlier));
        Ok(())
    }
}

impl Recovered {
    /// What messages among those who live go by.
    fn context(&self) -> u32 {
        self.living.inner.standing.context()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::Arc;

    use crate::communicator::FtModes;
    use crate::{Config, run_threads};
    use crate::{FtMode, MessageMode};

    #[test]
    fn generations_of_before_are_given_back() {
        run_threads(2, &Config::default(), |session| {
            let copy = session.world().duplicate().unwrap();
            for messages in [MessageMode::Reset, MessageMode::Continue] {
                copy.set_ft_modes(FtModes { comm: FtMode::Blank, messages, ..FtModes::NONE });
                let mut first = None;
                for _ in 0..20 {
                    copy.revoke();
                    copy.recover().unwrap();
                    first.get_or_insert_with(|| Arc::downgrade(&copy.last_recovered().unwrap()));
                    assert!(copy.contexts().len() <= 5, "{:?}", copy.contexts());
                }
                assert_eq!(first.unwrap().strong_count(), 0);
            }
            assert_eq!(copy.generation(), 40);
        })
        .unwrap();
    }
}
