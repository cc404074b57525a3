//! The one thread of the launcher: it waits for the kernel to mark the pulse of a rank that ends, which is
//! before anything else tells of it, and hands its number to the supervisor, which waits in one place for
//! everything.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};

use weft::launch::LivenessDescriptors;

/// Watches ranks, and reports the numbers of processes that have ended.
#[derive(Debug)]
pub struct Watch {
    /// The pipe on which the numbers arrive.
    pub numbers: OwnedFd,
    /// Stays open when the thread has ended: an end of the pipe would be something to read for ever.
    _told: OwnedFd,
}

impl Watch {
    /// Begins to watch. Where the system cannot watch so the ends of ranks are told of when they have been
    /// reaped, as without.
    pub fn begin(liveness_descriptors: Arc<LivenessDescriptors>) -> io::Result<Watch> {
        let (numbers, told) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&numbers, OFlags::NONBLOCK)?;
        let kept = told.try_clone()?;
        std::thread::Builder::new().name("weftrun-watch".into()).spawn(move || {
            // A pipe that is full, or has no reader, belongs to a supervisor that is beyond help.
            let _ =
                liveness_descriptors.watch(|peer| rustix::io::write(&told, &peer.0.to_le_bytes()).is_ok());
        })?;
        Ok(Watch { numbers, _told: kept })
    }

    /// The processes that have ended since.
    pub fn ended(&self) -> Vec<u32> {
        let mut ended = Vec::new();
        let mut number = [0; 4];
        while let Ok(4) = rustix::io::read(&self.numbers, &mut number) {
            ended.push(u32::from_le_bytes(number));
        }
        ended
    }
}
