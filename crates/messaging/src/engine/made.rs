//! Sends whose bytes are made while they go: into memory of the fabric where it has some, else into memory of
//! our own.

use fabric::{Fabric, Payload, Pool, Posted};

use crate::arrivals::Core;
use crate::peers::{Chunks, Parcel};
use crate::protocol::Kind;
use crate::scattered::Source;

impl<L> Core<L> {
    /// All of a message, to go as one.
    pub(super) fn whole(&mut self, source: Source) -> Parcel {
        match source {
            Source::Row(payload) => Parcel::User(payload),
            Source::Made(gather) => {
                let heap = self.pool.take(gather.bytes());
                gather.gather(0, &mut heap.memory());
                Parcel::Packed(heap)
            }
        }
    }
}

impl Chunks {
    /// Offers the next chunks to the fabric, a few at a time: what comes in must be taken between.
    pub(super) fn push<F: Fabric>(&mut self, fabric: &mut F, lane: F::Lane, pool: &mut Pool) -> Posted {
        for pushed in 0..CHUNKS_PER_TURN {
            if self.done >= self.wanted {
                return Posted::Sent;
            }
            match self.push_one(fabric, lane, pool) {
                Posted::Sent => {}
                Posted::Busy if pushed == 0 => return Posted::Busy,
                Posted::Busy | Posted::Partly(_) => return Posted::Partly(self.done),
            }
        }
        if self.done >= self.wanted { Posted::Sent } else { Posted::Partly(self.done) }
    }

    /// Offers the next chunk, or the rest of it.
    fn push_one<F: Fabric>(&mut self, fabric: &mut F, lane: F::Lane, pool: &mut Pool) -> Posted {
        let bytes = self.chunk_bytes.min(self.wanted - self.done);
        let header = Kind::Chunk { receive: self.receive, offset: self.done as u64 }.header();
        if let (Source::Made(gather), None, None) = (&self.source, self.taken, &self.made) {
            let posted = fabric.post_made(lane, &header, bytes, |room| gather.gather(self.done, room));
            match posted {
                Some(Posted::Sent) => self.done += bytes,
                Some(Posted::Busy | Posted::Partly(_)) => {}
                None => {
                    let heap = pool.take(bytes);
                    gather.gather(self.done, &mut heap.memory());
                    self.made = Some(heap);
                }
            }
            if let Some(posted) = posted {
                return posted;
            }
        }
        let payload = match (&self.source, &self.made) {
            (Source::Row(payload), _) => payload.part(self.done, bytes),
            (Source::Made(_), Some(heap)) => heap.payload(),
            (Source::Made(_), None) => Payload::EMPTY,
        };
        let posted = match self.taken {
            None => fabric.post(lane, &header, payload),
            Some(taken) => fabric.resume(lane, payload.after(taken)),
        };
        match posted {
            Posted::Sent => {
                self.done += bytes;
                (self.taken, self.made) = (None, None);
            }
            Posted::Partly(more) => self.taken = Some(self.taken.unwrap_or(0) + more),
            Posted::Busy => {}
        }
        posted
    }
}

/// So many chunks go before others have their turn.
const CHUNKS_PER_TURN: usize = 8;
