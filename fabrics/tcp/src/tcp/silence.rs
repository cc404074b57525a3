//! Hosts that have gone without a word: who has sent them something and hears nothing, not even that it has come, takes their
//! processes for dead after a while (`WEFT_NODE_TIMEOUT`). A host answers as long as it runs, whatever its processes do. Idle
//! connections are probed by the kernel.

use std::time::{Duration, Instant};

use super::{State, Tcp};
use crate::system;

impl Tcp {
    /// Looks for such hosts; the next poll tells of them.
    #[cold]
    pub(super) fn look_for_silence(&mut self) {
        if self.silence_looked_for.elapsed() < self.node_timeout / LOOKS {
            return;
        }
        self.silence_looked_for = Instant::now();
        for index in 0..self.links.len() as u32 {
            let State::Open(open) = &self.links[index as usize].state else { continue };
            let Some(silent) = system::unanswered_for(&open.socket).filter(|time| *time >= self.node_timeout)
            else {
                continue;
            };
            let ended =
                open.broken(format!("its host has answered nothing for {:.1} s", silent.as_secs_f64()));
            self.end(index, ended);
        }
    }
}

/// Where nobody says otherwise.
pub(super) const NODE_TIMEOUT: Duration = Duration::from_secs(90);
/// In the time that a host may be silent.
const LOOKS: u32 = 16;
