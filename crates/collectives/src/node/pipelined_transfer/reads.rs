//! An exchange in which each of two members reads what the other has out of its memory (decisions/0005): no
//! data is written but where it belongs. Each is told where to read, and then that the other has read.

use fabric::slots::Slots;
use fabric::{Payload, UserMemory};

use super::super::chunking::{CHUNK_BYTES_MIN, MISFIT, PairExchange, TransferLengths};
use super::super::{Fault, Result, SegmentMember};
use super::{OwnBlockCopy, PipelinedTransfer};

impl<M: SegmentMember> PipelinedTransfer<'_, '_, M> {
    /// Reads what is to be gotten, and keeps what this member has for itself. The answer is what is left to
    /// be given and to be gotten, since reads were refused: the same at both, as seen from each.
    pub(in crate::node) fn read_and_finish(
        &mut self,
        what: &PairExchange,
        output: &mut UserMemory,
    ) -> Result<TransferLengths> {
        let PairExchange { lengths, give, kept, place, .. } = *what;
        self.tell(self.operation.segment().lend(give))?;
        match self.read_theirs(kept, place, output) {
            Ok([has_read, is_read]) => {
                let gives = if is_read { 0 } else { lengths.gives };
                let gets = if has_read { 0 } else { lengths.gets };
                self.finish(&mut |_, _, _, _| {}).map(|()| TransferLengths { gives, gets, ..lengths })
            }
            Err(error) => {
                let operation = &self.operation;
                // The other one may be reading what the program is going to change. Who is in another
                // operation is not.
                if operation.of.is_closed() {
                    operation.segment().withdraw();
                }
                Err(error)
            }
        }
    }

    /// Whether this member has read, and the other one. Where what the other has told is not what was to
    /// come, that is told by who finishes.
    fn read_theirs(
        &mut self,
        kept: Option<(usize, Payload<'static>)>,
        place: usize,
        output: &mut UserMemory,
    ) -> Result<[bool; 2]> {
        let mut own = OwnBlockCopy::new(kept, 1, self.is_back);
        if !self.is_back {
            own.write_rest(output);
        }
        while own.is_left() && !self.operation.segment().has(self.other.0, self.first) {
            own.write(CHUNK_BYTES_MIN, output);
        }
        let theirs = self.hear()?;
        let has_read = theirs.is_some_and(|theirs| self.read(theirs, place, output));
        own.write_rest(output);
        if self.operation.segment().has_peer_withdrawn() {
            return Err(Fault::Withdrawn(self.other));
        }
        self.tell(has_read.into())?;
        let is_read = self.hear()? == Some(1);
        if !(has_read && is_read)
            && let Some(route) = &mut self.route
        {
            route.is_refused();
        }
        Ok([has_read, is_read])
    }

    /// Reads what stands there in the other's memory; false where that is refused.
    fn read(&self, theirs: u64, place: usize, output: &mut UserMemory) -> bool {
        let (bytes, segment) = (self.lengths.gets, self.operation.segment());
        let count = bytes.div_ceil(READ_BYTES);
        (0..count).all(|number| {
            let at = READ_BYTES * if self.is_back { count - 1 - number } else { number };
            let mut into = output.part(place + at, READ_BYTES.min(bytes - at));
            theirs.checked_add(at as u64).is_some_and(|theirs| segment.fetch(theirs, &mut into))
        })
    }

    /// Gives that word as the next chunk. Where what the other has told is not what was to come, it learns of
    /// it: neither has anything left to give then.
    fn tell(&mut self, word: u64) -> Result<()> {
        let told_bytes = if self.failed.is_some() { MISFIT as usize } else { self.lengths.gives };
        self.give_this(told_bytes, Some(Payload::from(&word.to_ne_bytes()[..])))
    }

    /// Takes the word that is the next chunk; `None` where what comes is not what was to come, and has no
    /// such chunk perhaps.
    fn hear(&mut self) -> Result<Option<u64>> {
        let mut word = None;
        if self.taken == self.coming {
            return Ok(word);
        }
        self.take(false, &mut |_, _, data, _| {
            word = data.split_first().map(|(head, _)| u64::from_ne_bytes(head));
        })?;
        Ok(word)
    }
}

/// What is read by one call of the system: the processor's caches hold several of these.
const READ_BYTES: usize = 256 << 10;
