//! What the launcher tells of processes that have failed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fabric::{FabricError, Fault, Peer};
use job::error::{Class, Result};
use job::fabrics::{Fabrics, FailureLog, LivenessDescriptor, inherited_pipe};
use job::lock::lock;
use messaging::{Engine, Failure, Failures};

use super::Process;
use crate::group::Group;

impl Process {
    /// From now on the launcher's failure log is looked at by who waits, and who sleeps is woken for it if
    /// that can be.
    pub(crate) fn read_from(&mut self, failure_log: FailureLog) -> Result<()> {
        self.is_rung = match failure_log.pipe() {
            None => self.heap.is_some(),
            Some(number) => self.bell.hear(inherited_pipe(number)?),
        };
        self.failure_log = Some(Arc::new(failure_log));
        Ok(())
    }

    /// From now on the launcher sees when this process ends.
    pub(crate) fn is_watched_by(&self, liveness_descriptor: LivenessDescriptor) {
        *lock(&self.liveness_descriptor) = Some(liveness_descriptor);
    }

    /// The failures that this process knows.
    #[must_use]
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Whether the launcher leaves surviving processes alive, and tells which ones have failed; alike at all
    /// processes.
    #[inline]
    #[must_use]
    pub fn is_told_of_failures(&self) -> bool {
        self.failure_log.is_some()
    }

    /// One call of the engine that others may wait for.
    pub(crate) fn act<R>(&self, act: impl FnOnce(&mut Engine<Fabrics>) -> R) -> R {
        self.with(act)
    }

    /// Learns what there is to know of failures just now.
    pub(crate) fn notice_failures(&self) {
        let mut engine = self.hold();
        self.turn(&mut engine);
        self.read_failure_log(&mut engine);
    }

    /// Looks at the failure log, for who has waited or asked in vain; true where it has told something.
    #[inline]
    pub(super) fn read_failure_log(&self, engine: &mut Engine<Fabrics>) -> bool {
        match &self.failure_log {
            Some(failure_log) if failure_log.count() != self.read.load(Ordering::Relaxed) => {
                self.read_on(engine, failure_log);
                true
            }
            _ => false,
        }
    }

    #[cold]
    fn read_on(&self, engine: &mut Engine<Fabrics>, failure_log: &FailureLog) {
        let count = failure_log.count();
        let first = self.read.swap(count, Ordering::Relaxed);
        let failed: Vec<Peer> = (first..count).filter_map(|at| failure_log.peer(at)).collect();
        // What they have sent is here by now, and comes first.
        engine.receive_what_is_left();
        for peer in failed {
            let what = format!(
                "process {} has ended\nThe launcher has told how it ended, and its own messages may say why.",
                peer.0
            );
            engine.bury(peer, FabricError { fabric: "weftrun", fault: Fault::Died, what });
        }
        engine.progress();
        if self.is_shared() {
            self.rouse(engine);
        }
    }

    /// Learns of failures from the others.
    pub(crate) fn learn(&self, failed: &Group) {
        self.act(|engine| self.learn_at(engine, failed));
    }

    /// Learns of failures from the others, for a caller that has the engine in hand.
    pub(crate) fn learn_at(&self, engine: &mut Engine<Fabrics>, failed: &Group) {
        let news: Vec<Peer> = failed.iter().filter(|peer| !engine.is_lost(*peer)).collect();
        if news.is_empty() {
            return;
        }
        // What they have sent is here by now, and comes first.
        engine.receive_what_is_left();
        for peer in news {
            let what = format!("process {} has ended\nOther processes have learned of it first.", peer.0);
            engine.bury(peer, FabricError { fabric: "weft", fault: Fault::Died, what });
        }
        engine.progress();
    }
}

/// The kind of error that a failure is.
pub(crate) fn failure_class(failure: &Failure) -> Class {
    match failure {
        Failure::Truncated { .. } => Class::Truncated,
        Failure::Lost(_) => Class::ProcFailed,
        Failure::Unacknowledged(_) => Class::ProcFailedPending,
        Failure::Revoked => Class::Revoked,
    }
}
