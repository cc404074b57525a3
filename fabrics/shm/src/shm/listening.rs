//! Whose rings are looked at, and how peers that knock become pairs.

use fabric::{Peer, Sink};

use super::trouble::wild_writer;
use super::{NOWHERE, Pair, RINGS_AT_A_TIME, Shm, ShmLane};

impl Shm {
    /// Begins to poll the rings that have become known.
    #[cold]
    pub(super) fn answer_knocks(&mut self) {
        let words = self.segment.layout().knock_words();
        let (process_slot, segment) = (self.process_slot, self.segment.clone());
        process_slot.answer_knocks(segment.memory(), words, |from| {
            let Some(&peer) = self.peers.get(from as usize) else { return };
            if self.lost.contains(&from) {
                return;
            }
            let place = self.pair_with(from, peer);
            let pair = &mut self.pairs[place as usize];
            // A second knock opens nothing.
            if !pair.is_heard {
                pair.is_heard = true;
                self.heard.push(place);
            }
        });
    }

    /// Where the pair with a process slot is, on which `peer` sits; it is made where there is none.
    pub(super) fn pair_with(&mut self, process_slot: u32, peer: Peer) -> u32 {
        let place = &mut self.by_process_slot[process_slot as usize];
        if *place == NOWHERE {
            *place = self.pairs.len() as u32;
            self.pairs.push(Pair::new(self.segment.layout(), self.here, process_slot, peer));
        }
        *place
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
        let place = self.heard[index];
        let (done, says, result) = self.pairs[place as usize].listen(self.segment.memory(), sink, events);
        if done > 0 {
            self.recent_heard = index;
        }
        if says != 0 {
            self.attend_writer(ShmLane { index: place }, says);
        }
        if let Err(wild) = result {
            let peer = self.pairs[place as usize].peer;
            self.lose(peer, wild_writer(self.describe(peer), wild));
        }
        done
    }

    /// The ring that spoke last. It may not use up all events while there are others.
    #[inline]
    pub(super) fn listen_recent(&mut self, sink: &mut impl Sink, events: usize) -> usize {
        match self.heard.len() {
            0 => 0,
            1 => self.listen(0, sink, events),
            rings if self.recent_heard < rings => self.listen(self.recent_heard, sink, events.div_ceil(2)),
            _ => 0,
        }
    }

    /// The other rings, in turn: a few of them while there is something to do, and all before it is said that
    /// nothing has come, since the caller may then sleep. The ring that spoke last is asked in between.
    pub(super) fn listen_others(&mut self, sink: &mut impl Sink, events: usize, mut done: usize) -> usize {
        let mut unasked = self.heard.len();
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
        let recent = self.recent_heard;
        let mut done = 0;
        for _ in 0..rings {
            if done >= events {
                break;
            }
            // A fault shortens the list.
            let index = if self.next_heard < self.heard.len() { self.next_heard } else { 0 };
            self.next_heard = index + 1;
            if index != recent && index < self.heard.len() {
                done += self.listen(index, sink, events - done);
            }
        }
        done
    }
}
