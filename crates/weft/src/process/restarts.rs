//! Processes that are started in the place of those that have failed: what they and the others know of each
//! other.

use fabric::Peer;
use job::config::FtMode;
use job::error::Result;
use job::lock::lock;

use super::Process;

/// What the launcher has said of starting processes again.
#[derive(Clone, Copy)]
pub(crate) struct Restarts {
    /// How many may be started; 0 where none can be.
    pub allowed: u32,
    /// What is done instead.
    pub fallback: FtMode,
    /// How often there was another process before in the place of this one.
    pub incarnation: u32,
}

impl Process {
    pub(crate) fn set_restarts(&mut self, restarts: Restarts) {
        self.restarts = restarts;
    }

    /// How often there was another process in the place of this one before it: 0 for a process that was there
    /// from the beginning.
    #[must_use]
    pub fn incarnation(&self) -> u32 {
        self.restarts.incarnation
    }

    /// What a recovery does where no process can be started.
    pub(crate) fn rebuild_fallback(&self) -> FtMode {
        self.restarts.fallback
    }

    /// Has processes started in the place of those that were in these ranks of the world, and waits until
    /// they can be reached. All who live ask for the same under one number, and get one answer: the ranks
    /// with the new processes, or nothing where they cannot be started.
    pub(crate) fn rebuild(&self, asked: u64, ranks: &[u32], facts: &str) -> Option<Vec<(u32, Peer)>> {
        if self.restarts.allowed == 0 || self.failure_log.is_none() {
            return None;
        }
        // A launcher that is gone ends this process while it waits.
        let _ = lock(&self.exchange).rebuild(asked, ranks, facts);
        self.answered(asked)
    }

    /// Tells the launcher that this process can be reached, and waits for what it tells all.
    pub(crate) fn rejoin(&self, asked: u64) -> Result<Option<Vec<(u32, Peer)>>> {
        lock(&self.exchange).ready()?;
        let answer = self.answered(asked);
        // Who is dead already is known before there is a communicator.
        self.notice_failures();
        Ok(answer)
    }

    fn answered(&self, asked: u64) -> Option<Vec<(u32, Peer)>> {
        let failure_log = self.failure_log.as_ref()?;
        self.until_seen(|_| super::WaitsFor::Unknown, |_| failure_log.answer(asked))
    }
}
