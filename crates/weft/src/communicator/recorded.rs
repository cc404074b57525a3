//! An agreement on who has failed: the group that all living members go on from.
//!
//! It is the agreement of [`Communicator::agree`], of which the flags are left out: what is decided there names all whom a member
//! knew to have failed when it came, and all who have not come.

use std::sync::{Arc, Mutex};

use messaging::{Engine, RequestId};

use super::Communicator;
use super::atomic::{OF_CALLS, is_of_calls};
use super::failures::Deciding;
use super::ongoing::{Ended, Ongoing};
use crate::background::Operation;
use crate::error::Result;
use crate::fabrics::Fabrics;
use crate::group::Group;
use crate::lock::lock;

impl Communicator {
    /// Agrees with all living members on who has failed: the same group, in the same order, at all who live. In it are those whom any
    /// of them knew to have failed when it came here, and those who are blank; [`Communicator::failed`] has them all afterwards. It
    /// succeeds whoever fails, and in a revoked communicator; nothing is acknowledged by it. Collective.
    #[must_use]
    pub fn agree_failed(&self) -> Group {
        let agreed = self.agree(u32::MAX);
        self.all_failed(&agreed.failed)
    }

    /// Begins the same; it goes on with whatever this process does next.
    pub fn start_agree_failed(&self) -> AgreeingFailed {
        let (process, of) = (self.process(), self.among_living());
        let (id, ended) = (process.with_engine(|engine| engine.promise()), Arc::default());
        let failed = Arc::new(Mutex::new(Group::empty()));
        process.entrust(Box::new(Agreeing {
            deciding: of.deciding(NO_FLAGS, of.next_agreement(), 0),
            of: self.clone(),
            id,
            ended: Arc::clone(&ended),
            failed: Arc::clone(&failed),
        }));
        AgreeingFailed { ongoing: Ongoing::new(self.clone(), id, ended), failed }
    }

    /// In the order of the members: those who were decided on, and those who are blank since an earlier decision.
    fn all_failed(&self, decided: &Group) -> Group {
        let live = self.live();
        let is_gone = |peer: &_| decided.contains(*peer) || !live.contains(*peer);
        Group::of(self.everybody().iter().filter(is_gone))
    }
}

/// An agreement on who has failed that is under way. Dropping it does not stop it: the other members count on it.
#[must_use = "who has failed is what comes out when this is waited for"]
pub struct AgreeingFailed {
    ongoing: Ongoing,
    failed: Arc<Mutex<Group>>,
}

impl AgreeingFailed {
    /// Whose members agree.
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        self.ongoing.communicator()
    }

    /// The request that ends with it.
    #[must_use]
    pub fn request(&self) -> RequestId {
        self.ongoing.request()
    }

    /// Makes one turn of progress; true when [`AgreeingFailed::wait`] would not wait.
    #[must_use]
    pub fn test(&self) -> bool {
        self.ongoing.test()
    }

    /// Waits for the group.
    ///
    /// # Errors
    /// None is known.
    pub fn wait(self) -> Result<Group> {
        self.communicator().wait(self.request());
        self.take()
    }

    /// The group, when its request has been ended by other means.
    ///
    /// # Errors
    /// [`Class::Pending`](crate::Class::Pending) when it is not over.
    pub fn take(&self) -> Result<Group> {
        self.ongoing.take()?;
        Ok(lock(&self.failed).clone())
    }
}

/// What goes on by itself.
struct Agreeing {
    deciding: Deciding,
    of: Communicator,
    id: RequestId,
    ended: Arc<Ended>,
    failed: Arc<Mutex<Group>>,
}

impl Operation for Agreeing {
    fn advance(&mut self, engine: &mut Engine<Fabrics>) -> bool {
        let decision = loop {
            let Some(decision) = self.deciding.advance(engine) else { return false };
            if is_of_calls(&decision) {
                break decision;
            }
            let among = &self.deciding.of;
            self.deciding = among.deciding(NO_FLAGS, among.next_agreement(), 0);
        };
        let decided = self.deciding.of.members_of(&decision.failed);
        self.of.process().learn_at(engine, &decided);
        *lock(&self.failed) = self.of.all_failed(&decided);
        *lock(&self.ended) = Some(Ok(()));
        engine.fulfil(self.id);
        true
    }
}

/// What a member brings that says nothing but that it is there.
const NO_FLAGS: u64 = u32::MAX as u64 | OF_CALLS;
