//! An agreement on who has failed: the group that all living members go on from.
//!
//! It is an agreement without flags: what is decided there names all whom a member
//! knew to have failed when it came, and all who have not come.

use std::sync::{Arc, Mutex};

use job::error::Result;
use job::fabrics::Fabrics;
use job::lock::lock;
use messaging::{Engine, RequestId};

use super::Communicator;
use super::atomic::Call;
use super::failures::Deciding;
use super::ongoing::{Ongoing, SharedOutcome};
use crate::background::Operation;
use crate::group::Group;

impl Communicator {
    /// Agrees with all living members on which members have failed: the same group, in the same order, at all
    /// of them. In it are the members that any of them knew to have failed when it came here, and those that
    /// are blank; [`Communicator::failed`] has them all afterwards. It succeeds whichever members fail, and
    /// in a revoked communicator; nothing is acknowledged by it. Collective.
    ///
    /// # Errors
    /// [`Class::Argument`](crate::Class::Argument) where some members shrink or recover the communicator
    /// instead, or agree on something else; at all alike.
    pub fn agree_failed(&self) -> Result<Group> {
        let agreed = self.agree_as(Call::AgreeFailed, 0)?;
        Ok(self.all_failed(&agreed.failed))
    }

    /// Begins to agree with all living members on which members have failed, as
    /// [`Communicator::agree_failed`] does; it goes on with whatever this process does next. Collective.
    pub fn start_agree_failed(&self) -> AgreeingFailed {
        let (process, of) = (self.process(), self.among_living());
        let (id, ended) = (process.with_engine(|engine| engine.promise()), Arc::default());
        let failed = Arc::new(Mutex::new(Group::empty()));
        process.entrust(Box::new(RecordedAgreement {
            deciding: of.deciding(Call::AgreeFailed.bits(), of.next_agreement(), 0),
            of: self.clone(),
            id,
            ended: Arc::clone(&ended),
            failed: Arc::clone(&failed),
        }));
        AgreeingFailed { ongoing: Ongoing::new(self.clone(), id, ended), failed }
    }

    /// In the order of the members: those who were decided on, and those who are blank since an earlier
    /// decision.
    fn all_failed(&self, decided: &Group) -> Group {
        let live = self.live();
        let is_gone = |peer: &_| decided.contains(*peer) || !live.contains(*peer);
        Group::of(self.everybody().iter().filter(is_gone))
    }
}

/// An agreement on who has failed that is under way. Dropping it does not stop it: the other members count on
/// it.
#[must_use = "who has failed is what comes out when this is waited for"]
pub struct AgreeingFailed {
    ongoing: Ongoing,
    failed: Arc<Mutex<Group>>,
}

impl AgreeingFailed {
    /// The communicator whose members agree.
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
    /// [`Class::Argument`](crate::Class::Argument) where some members shrink or recover the communicator
    /// instead, or agree on something else; at all alike.
    pub fn wait(self) -> Result<Group> {
        self.communicator().wait(self.request());
        self.take()
    }

    /// The group, when its request has been ended by other means.
    ///
    /// # Errors
    /// [`Class::Pending`](crate::Class::Pending) when the agreement is not over;
    /// [`Class::Argument`](crate::Class::Argument) where some members shrink or recover the communicator
    /// instead, or agree on something else; at all alike.
    pub fn take(&self) -> Result<Group> {
        self.ongoing.take()?;
        Ok(lock(&self.failed).clone())
    }
}

/// What goes on by itself.
struct RecordedAgreement {
    deciding: Deciding,
    of: Communicator,
    id: RequestId,
    ended: Arc<SharedOutcome>,
    failed: Arc<Mutex<Group>>,
}

impl Operation for RecordedAgreement {
    fn advance(&mut self, engine: &mut Engine<Fabrics>) -> bool {
        let Some((decision, heard)) = self.deciding.advance_call(Call::AgreeFailed, 0, engine) else {
            return false;
        };
        let decided = self.deciding.of.members_of(&decision.failed);
        self.of.process().learn_at(engine, &decided);
        *lock(&self.failed) = self.of.all_failed(&decided);
        *lock(&self.ended) = Some(heard);
        engine.fulfil(self.id);
        true
    }
}
