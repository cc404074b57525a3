//! Sends whose bytes are made while they go: into memory of the fabric where it has some, else into memory of our own.

use fabric::{Fabric, FabricError, Payload, Peer, Pool, Posted};

use super::{Engine, SENDS_PER_TURN, Sending};
use crate::arrivals::Core;
use crate::envelope::Envelope;
use crate::peers::{Parcel, Pieces};
use crate::protocol::{Kind, eager_header};
use crate::request::Mode;
use crate::scattered::{Gather, Source};

impl<F: Fabric> Engine<F> {
    /// Sends what `gather` makes if there is a link with nothing in its queue, the message is short, and the fabric has
    /// memory for it; false when nothing has happened. It is complete then.
    pub fn send_made_at_once(&mut self, to: Peer, envelope: Envelope, gather: &dyn Gather) -> bool {
        let Some(link) = self.core.peers.link(to) else { return false };
        let bytes = gather.bytes();
        if !link.queue.is_empty() || bytes >= link.eager_bytes_end {
            return false;
        }
        self.core.begun += 1;
        if self.core.begun > SENDS_PER_TURN {
            return false;
        }
        let header = eager_header(envelope);
        let made = self.fabric.post_made(link.lane, &header, bytes, |room| gather.gather(0, room));
        made == Some(Posted::Sent)
    }

    /// Sends what `gather` makes. A long message is made in pieces, each when the receiver has room for it.
    ///
    /// # Errors
    /// As [`Engine::send`].
    pub fn send_made(
        &mut self,
        to: Peer,
        envelope: Envelope,
        gather: Box<dyn Gather>,
        mode: Mode,
    ) -> Result<Sending, Box<FabricError>> {
        self.send_slowly(to, envelope, Source::Made(gather), mode, 0)
    }
}

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

impl Pieces {
    /// Offers the next pieces to the fabric, a few at a time: what comes in must be taken between.
    pub(super) fn push<F: Fabric>(&mut self, fabric: &mut F, lane: F::Lane, pool: &mut Pool) -> Posted {
        for pushed in 0..PIECES_PER_TURN {
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

    /// Offers the next piece, or the rest of it.
    fn push_one<F: Fabric>(&mut self, fabric: &mut F, lane: F::Lane, pool: &mut Pool) -> Posted {
        let bytes = self.piece_bytes.min(self.wanted - self.done);
        let header = Kind::Piece { receive: self.receive, offset: self.done as u64 }.header();
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

/// So many pieces go before others have their turn.
const PIECES_PER_TURN: usize = 8;
