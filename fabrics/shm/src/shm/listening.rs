//! Whose rings are looked at, and how peers that knock become pairs.

use fabric::Sink;

use super::incoming::Incoming;
use super::trouble::wild_writer;
use super::{NOWHERE, Pair, RINGS_AT_A_TIME, Shm};
use crate::ring::Consumer;
use crate::seat::Seat;

impl Shm {
    /// Begins to poll the rings that have become known.
    #[cold]
    pub(super) fn answer_knocks(&mut self) {
        let layout = *self.segment.layout();
        let words = layout.knock_words();
        let (seat, segment) = (self.seat, self.segment.clone());
        seat.answer_knocks(segment.memory(), words, |from| {
            let Shm { peers, incoming, pairs, known, here, .. } = self;
            let Some(peer) = peers.get(from as usize) else { return };
            let (word, bit) = (from / u32::BITS, 1 << (from % u32::BITS));
            if known[word as usize] & bit != 0 {
                return;
            }
            known[word as usize] |= bit;
            pairs[from as usize].incoming = incoming.len() as u32;
            incoming.push(Incoming {
                peer: *peer,
                seat: Seat::at(layout.seat_at(from)),
                seat_number: from,
                consumer: Consumer::new(layout.ring_at(from, *here), layout.ring),
                landing: None,
                lane: NOWHERE,
                choices: None,
            });
            self.pair_up(from);
        });
    }

    /// Notes for the lane to the peer on a seat where the ring from it is, and the other way round.
    pub(super) fn pair_up(&mut self, seat: u32) {
        #[cfg(test)]
        {
            self.paired += 1;
        }
        let Pair { outgoing, incoming } = self.pairs[seat as usize];
        if let Some(incoming) = self.incoming.get_mut(incoming as usize) {
            incoming.lane = outgoing;
        }
        if let Some(outgoing) = self.outgoing.get_mut(outgoing as usize) {
            outgoing.incoming = incoming;
        }
    }

    /// Nothing more is heard of the peer on a seat. The rings behind it in the list move up.
    pub(super) fn forget_incoming(&mut self, seat: usize) {
        let place = std::mem::replace(&mut self.pairs[seat].incoming, NOWHERE);
        self.pair_up(seat as u32);
        if place == NOWHERE {
            return;
        }
        self.incoming.remove(place as usize);
        for place in place as usize..self.incoming.len() {
            let seat = self.incoming[place].seat_number;
            self.pairs[seat as usize].incoming = place as u32;
            self.pair_up(seat);
        }
    }
}

impl Shm {
    #[cold]
    pub(super) fn report_faults(&mut self, sink: &mut impl Sink) -> usize {
        let faults = std::mem::take(&mut self.faults);
        let told = faults.len();
        for (peer, error) in faults {
            sink.lost(peer, error);
        }
        told
    }

    /// Polls one ring. A fault of its writer ends it.
    #[inline]
    pub(super) fn listen(&mut self, index: usize, sink: &mut impl Sink, events: usize) -> usize {
        let incoming = &mut self.incoming[index];
        let mailbox = incoming.lane().map(|lane| &mut self.outgoing[lane.index as usize].mailbox);
        let (done, says, result) = incoming.listen(self.segment.memory(), mailbox, sink, events);
        if done > 0 {
            self.recent_incoming = index;
        }
        if says != 0 {
            self.attend_writer(index, says);
        }
        if let Err(wild) = result {
            let peer = self.incoming[index].peer;
            self.lose(peer, wild_writer(self.describe(peer), wild));
        }
        done
    }

    /// The ring that spoke last. It may not use up all events while there are others.
    #[inline]
    pub(super) fn listen_recent(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        match self.incoming.len() {
            0 => 0,
            1 => self.listen(0, sink, events),
            rings if self.recent_incoming < rings => {
                self.listen(self.recent_incoming, sink, events.div_ceil(2))
            }
            _ => 0,
        }
    }

    /// The other rings, in turn: a few of them while there is something to do, and all before it is said that
    /// nothing has come, since the caller may then sleep. The ring that spoke last is asked in between.
    pub(super) fn listen_others(&mut self, sink: &mut impl Sink, events: usize, mut done: usize) -> usize {
        let mut unasked = self.incoming.len();
        loop {
            let rings = unasked.min(RINGS_AT_A_TIME);
            done += self.listen_around(sink, events - done, rings);
            unasked -= rings;
            if done > 0 || unasked == 0 {
                return done;
            }
            done += self.listen_recent(sink, events);
        }
    }

    /// The next `rings` rings but the most recent one.
    fn listen_around(&mut self, sink: &mut impl Sink, events: usize, rings: usize) -> usize {
        let recent = self.recent_incoming;
        let mut done = 0;
        for _ in 0..rings {
            if done >= events {
                break;
            }
            // A fault shortens the list.
            let index = if self.next_incoming < self.incoming.len() { self.next_incoming } else { 0 };
            self.next_incoming = index + 1;
            if index != recent && index < self.incoming.len() {
                done += self.listen(index, sink, events - done);
            }
        }
        done
    }
}
