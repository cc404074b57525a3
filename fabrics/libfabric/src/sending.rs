//! What goes to peers.

use fabric::{Header, Payload, Posted};
use libfabric_sys::Answer;

use crate::libfabric::Libfabric;
use crate::link::There;
use crate::port::{Port, Stamp};
use crate::trouble;
use crate::wire::{Frame, Kind, LENGTH_BYTES};

impl Libfabric {
    /// Sends one frame. To a peer that is lost, anything can be sent: its loss was or will be told, and with
    /// it that of this message.
    #[inline]
    pub(crate) fn send_frame(
        &mut self,
        index: u32,
        kind: Kind,
        header: &Header,
        payload: Payload<'_>,
    ) -> Posted {
        let there = match self.way(index) {
            Ok(there) => there,
            Err(posted) => return posted,
        };
        let head = self.frame(index, there, kind, header).encode();
        self.hand_over(index, payload, |port, stamp| port.send(stamp, there.address, head, payload))
    }

    /// Hands the next message for that link to the provider, in one way or the other.
    #[inline]
    fn hand_over(
        &mut self,
        index: u32,
        payload: Payload<'_>,
        send: impl FnOnce(&mut Port, Stamp) -> Answer,
    ) -> Posted {
        let link = &mut self.links[index as usize];
        // What a busy provider does not take was copied in vain.
        if payload.bytes() > CHEAP_BYTES_MAX && link.is_to_rest() {
            return Posted::Busy;
        }
        let stamp = Stamp { link: index, sequence: link.sent };
        match send(&mut self.port, stamp) {
            Answer::Taken => {}
            Answer::Again => {
                self.links[index as usize].note_busy();
                return Posted::Busy;
            }
            Answer::Failed(code) => self.refused(index, code),
        }
        let link = &mut self.links[index as usize];
        link.sent = stamp.sequence.wrapping_add(1);
        link.note_taken();
        Posted::Sent
    }

    /// Where a frame for that peer goes, who has heard who is speaking; or what became of it without going
    /// anywhere.
    #[inline]
    fn way(&mut self, index: u32) -> Result<There, Posted> {
        let link = &self.links[index as usize];
        if !link.is_waited_for() {
            return Err(self.send_in_vain(index));
        }
        let Some(there) = link.there else { return Err(Posted::Busy) };
        if link.sent == 0 && !self.greet(index, there) {
            return Err(Posted::Busy);
        }
        Ok(there)
    }

    /// To a peer that has ended well nothing may be sent any more, and whoever does so is told.
    #[cold]
    fn send_in_vain(&mut self, index: u32) -> Posted {
        let error = trouble::has_left(&self.who(index));
        self.fail(index, error);
        Posted::Sent
    }

    #[inline]
    fn frame(&self, index: u32, there: There, kind: Kind, header: &Header) -> Frame {
        let sequence = self.links[index as usize].sent;
        Frame { seal: there.seal, from: self.here, sequence, kind, header: *header }
    }

    /// The first message to a peer tells where this process is, since the peer may not know it.
    #[cold]
    fn greet(&mut self, index: u32, there: There) -> bool {
        let head = self.frame(index, there, Kind::Hello, &Header::default()).encode();
        let card = self.card.encode();
        let card = Payload::from(&card[..]);
        self.hand_over(index, card, |port, stamp| port.send(stamp, there.address, head, card)) == Posted::Sent
    }

    /// Begins with a message that is too long for one frame. Most such messages are read by their receiver
    /// instead.
    #[cold]
    pub(crate) fn begin_chunks(&mut self, index: u32, header: &Header, payload: Payload<'_>) -> Posted {
        let there = match self.way(index) {
            Ok(there) => there,
            Err(posted) => return posted,
        };
        let head = self.frame(index, there, Kind::Long, header).encode_long(payload.bytes());
        let first = share(payload.bytes() + LENGTH_BYTES, self.port.copied_bytes_max()) - LENGTH_BYTES;
        let first = payload.part(0, first);
        let posted = self.hand_over(index, first, |port, stamp| port.send(stamp, there.address, head, first));
        if posted == Posted::Busy {
            return Posted::Busy;
        }
        match first.bytes() + self.send_chunks(index, payload.after(first.bytes())) {
            bytes if bytes < payload.bytes() => Posted::Partly(bytes),
            _ => Posted::Sent,
        }
    }

    /// Sends as many chunks as go now; how many bytes of `rest` those were.
    pub(crate) fn send_chunks(&mut self, index: u32, rest: Payload<'_>) -> usize {
        let mut sent = 0;
        while sent < rest.bytes() {
            let chunk = rest.part(sent, share(rest.bytes() - sent, self.port.copied_bytes_max()));
            if self.send_frame(index, Kind::Chunk, &Header::default(), chunk) == Posted::Busy {
                break;
            }
            sent += chunk.bytes();
        }
        sent
    }

    /// True when everything that was sent has left, and `tell` has said to each peer what it has to say.
    pub(crate) fn settle(&mut self, tell: fn(&mut Libfabric, u32) -> bool) -> bool {
        let mut is_told = true;
        for index in 0..self.links.len() as u32 {
            let link = &self.links[index as usize];
            is_told &= !link.is_waited_for() || link.there.is_none() || tell(self, index);
        }
        is_told && !self.port.sending().any(|index| self.links[index as usize].is_waited_for())
    }

    /// Nobody tells whether what was injected has left; but what is sent behind it is told of.
    pub(crate) fn confirm(&mut self, index: u32) -> bool {
        !self.links[index as usize].is_unconfirmed() || self.send_confirmed(index, Kind::Nothing)
    }

    pub(crate) fn take_leave(&mut self, index: u32) -> bool {
        let is_told = self.links[index as usize].knows_farewell || self.send_confirmed(index, Kind::Farewell);
        self.links[index as usize].knows_farewell = is_told;
        is_told
    }

    /// Sends a frame of which the queue tells when it has left, and with it all before it.
    pub(crate) fn send_confirmed(&mut self, index: u32, kind: Kind) -> bool {
        let link = &self.links[index as usize];
        let Some(there) = link.there else { return true };
        if link.sent == 0 && !self.greet(index, there) {
            return false;
        }
        let head = self.frame(index, there, kind, &Header::default()).encode();
        let nothing = Payload::EMPTY;
        let send = |port: &mut Port, stamp| port.send_slot(stamp, there.address, &head, nothing);
        self.hand_over(index, nothing, send) == Posted::Sent
    }

    #[cold]
    pub(crate) fn refused(&mut self, index: u32, code: i32) {
        let said = self.port.text(code);
        self.lost_by_provider(index, &said);
    }
}

/// The length of the next chunk of so many bytes: all are about as long. A short one behind long ones would
/// cost as much as they do, and nothing is copied meanwhile.
fn share(bytes: usize, bytes_max: usize) -> usize {
    bytes.div_ceil(bytes.div_ceil(bytes_max).max(1))
}

/// A copy of so many bytes costs less than to count.
const CHEAP_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_alike_and_as_few_as_can_be() {
        for (bytes, bytes_max) in [(1, 8), (8, 8), (9, 8), (16_392, 16_344), (65_544, 16_344), (100, 7)] {
            let (mut left, mut chunks) = (bytes, Vec::new());
            while left > 0 {
                chunks.push(share(left, bytes_max));
                left -= chunks.last().unwrap();
            }
            assert_eq!(chunks.len(), bytes.div_ceil(bytes_max));
            let (least, most) = (chunks.iter().min().unwrap(), chunks.iter().max().unwrap());
            assert!(*most <= bytes_max && most - least <= 1, "{chunks:?}");
        }
    }
}
