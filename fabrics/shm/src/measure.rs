//! What this machine's shared memory costs, measured between two processes: what the constants of the cost
//! model are taken from.
//!
//! Both run the same [`measure`] on a segment of their own, made for this. Everything goes the way that
//! messages go, through `post`, `poll` and `pull`; the lower quartile of many short blocks is taken, since
//! other work on the machine disturbs some blocks and not others.

use std::time::{Duration, Instant};

use fabric::{
    Exposed, Fabric, FabricError, Fault, Header, Heap, Payload, Peer, Posted, Pulled, Sink, UserMemory,
};

use crate::segment::Segment;
use crate::shm::{Settings, Shm, ShmLane};

/// Times in nanoseconds, as one process has measured them.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// One way of a message without payload between two processes that answer each other.
    pub hand_over_ns: f64,
    /// One way of a message that is copied in and out: bytes and time.
    pub copied: Vec<(usize, f64)>,
    /// One read of the peer's memory: bytes and time; empty where the kernel refuses.
    pub pulled: Vec<(usize, f64)>,
}

/// How long to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thoroughness {
    /// For a person who waits for it: some tenths of a second.
    Thorough,
    /// For a job that is about to start: some milliseconds.
    Quick,
}

impl Thoroughness {
    /// By how much the least there is to do is multiplied. Tests want the outcome and not the numbers; two
    /// threads of theirs on one cpu take long for each turn.
    fn times(self) -> usize {
        match self {
            _ if cfg!(test) => 1,
            Thoroughness::Thorough => 32,
            Thoroughness::Quick => 2,
        }
    }
}

/// Measures together with the process on the other process slot of `segment`, which has two process slots and
/// is used for nothing else. Both must call; the other process slot's process answers within `patience` or
/// there is an error.
///
/// # Errors
/// What kept the two from talking, in words for a person.
pub fn measure(
    segment: Segment,
    process_slot: u32,
    settings: Settings,
    thoroughness: Thoroughness,
    patience: Duration,
) -> Result<Measured, FabricError> {
    let mut end = MeasuredEnd::open(segment, process_slot, settings, patience)?;
    let turns = |bytes: usize| {
        let most = SMALL_TURNS * thoroughness.times();
        (TURN_BYTES * thoroughness.times() / bytes.max(1)).clamp(4 * BLOCK_TURNS, most)
    };
    let hand_over_ns = end.exchange(0, turns(0))?;
    let mut copied = Vec::new();
    for bytes in COPIED_BYTES {
        copied.push((bytes, end.exchange(bytes, turns(bytes))?));
    }
    let mut pulled = Vec::new();
    for bytes in PULLED_BYTES {
        if let Some(time) = end.pull_in_turn(bytes, turns(bytes))? {
            pulled.push((bytes, time));
        }
    }
    Ok(Measured { hand_over_ns, copied, pulled })
}

/// One end, with the buffers it sends from and receives into.
struct MeasuredEnd {
    shm: Shm,
    lane: ShmLane,
    leads: bool,
    patience: Duration,
    outbox: Heap,
    heard: ReceivedMessages,
}

/// What has come.
struct ReceivedMessages {
    messages: usize,
    inbox: Heap,
    exposed: Exposed,
    lost: Option<FabricError>,
}

impl MeasuredEnd {
    fn open(
        segment: Segment,
        process_slot: u32,
        settings: Settings,
        patience: Duration,
    ) -> Result<MeasuredEnd, FabricError> {
        let refused = |what: String| FabricError { fabric: "shm", fault: Fault::System, what };
        let peers = vec![Peer(0), Peer(1)];
        let mut shm =
            Shm::open(segment, process_slot, peers, settings).map_err(|error| refused(error.to_string()))?;
        let other = Peer(1 - process_slot.min(1));
        let address =
            shm.address_of(other).ok_or_else(|| refused("there is no other process slot".to_owned()))?;
        let lane = shm.connect(other, &address)?;
        let largest = COPIED_BYTES.into_iter().chain(PULLED_BYTES).max().unwrap_or(0);
        let heard = ReceivedMessages {
            messages: 0,
            inbox: Heap::new(largest),
            exposed: Exposed::default(),
            lost: None,
        };
        Ok(MeasuredEnd { shm, lane, leads: process_slot == 0, patience, outbox: Heap::new(largest), heard })
    }

    /// Passes a message back and forth; the time of one way.
    fn exchange(&mut self, bytes: usize, turns: usize) -> Result<f64, FabricError> {
        let turn = |end: &mut MeasuredEnd| {
            if end.leads {
                end.send(bytes, Header::default())?;
                end.receive()
            } else {
                end.receive()?;
                end.send(bytes, Header::default())
            }
        };
        // Whatever is made at the first messages is there afterwards.
        for _ in 0..WARMUP_TURNS.min(turns) {
            turn(self)?;
        }
        let mut blocks = Vec::new();
        for _ in 0..turns / BLOCK_TURNS {
            let start = Instant::now();
            for _ in 0..BLOCK_TURNS {
                turn(self)?;
            }
            blocks.push(start.elapsed().as_nanos() as f64 / (2 * BLOCK_TURNS) as f64);
        }
        Ok(quartile(blocks))
    }

    /// Each reads the other's memory, in turn; the time of one read, or none where it is refused. As in
    /// `exchange`, nobody writes it again in between: the two are compared, and must find their caches alike.
    fn pull_in_turn(&mut self, bytes: usize, turns: usize) -> Result<Option<f64>, FabricError> {
        let mut times = Some(Vec::new());
        for _ in 0..turns {
            if self.leads {
                self.offer(bytes)?;
            }
            self.receive()?;
            times = self.pull_timed(bytes).zip(times).map(|(time, mut times)| {
                times.push(time);
                times
            });
            if !self.leads {
                self.offer(bytes)?;
            }
        }
        // The other's last read must be over before anything else is done.
        self.exchange(0, BLOCK_TURNS)?;
        Ok(times.map(quartile))
    }

    /// Says where the memory is.
    fn offer(&mut self, bytes: usize) -> Result<(), FabricError> {
        let [start, length] = self.shm.register_memory(self.lane, self.outbox.payload().part(0, bytes)).words;
        let words = [start as u32, (start >> 32) as u32, length as u32, (length >> 32) as u32, 0, 0];
        self.send(0, Header { words })
    }

    fn pull_timed(&mut self, bytes: usize) -> Option<f64> {
        if !self.shm.limits(self.lane).pull {
            return None;
        }
        let mut memory = self.heard.inbox.memory().part(0, bytes);
        let start = Instant::now();
        let pulled = self.shm.pull(self.lane, self.heard.exposed, 0, &mut memory, 0);
        let time = start.elapsed().as_nanos() as f64;
        (pulled == Pulled::Done).then_some(time)
    }

    fn send(&mut self, bytes: usize, header: Header) -> Result<(), FabricError> {
        let mut taken = None;
        self.until("sending", |end| {
            let payload = end.outbox.payload().part(0, bytes);
            let posted = match taken {
                None => end.shm.post(end.lane, &header, payload),
                Some(taken) => end.shm.resume(end.lane, payload.after(taken)),
            };
            match posted {
                Posted::Sent => return true,
                Posted::Partly(more) => taken = Some(taken.unwrap_or(0) + more),
                Posted::Busy => {
                    end.shm.poll(&mut end.heard, EVENTS);
                }
            }
            false
        })
    }

    fn receive(&mut self) -> Result<(), FabricError> {
        self.until("receiving", |end| {
            if end.heard.messages == 0 {
                end.shm.poll(&mut end.heard, EVENTS);
            }
            end.heard.messages > 0
        })?;
        self.heard.messages -= 1;
        Ok(())
    }

    /// Tries until it is done, the other is lost, or time is up.
    fn until(
        &mut self,
        doing: &str,
        mut done: impl FnMut(&mut MeasuredEnd) -> bool,
    ) -> Result<(), FabricError> {
        let mut tries = 0u32;
        let mut since = None;
        while !done(self) {
            if let Some(error) = self.heard.lost.take() {
                return Err(error);
            }
            tries = tries.wrapping_add(1);
            if !tries.is_multiple_of(TRIES_PER_YIELD) {
                std::hint::spin_loop();
                continue;
            }
            // Two on one cpu must take turns.
            std::thread::yield_now();
            if since.get_or_insert_with(Instant::now).elapsed() > self.patience {
                return Err(FabricError {
                    fabric: "shm",
                    fault: Fault::Died,
                    what: format!(
                        "measuring: the other process did nothing for {} s while {doing}\n\
                         start the measurement again; if it stays, one of the two is stopped or was killed",
                        self.patience.as_secs()
                    ),
                });
            }
        }
        Ok(())
    }
}

impl Sink for ReceivedMessages {
    fn message(&mut self, _from: Peer, header: &Header, payload: Payload<'_>) {
        self.inbox.memory().write_at(0, payload);
        let [start, start_high, length, length_high, ..] = header.words;
        let whole = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        self.exposed = Exposed { words: [whole(start, start_high), whole(length, length_high)] };
        self.messages += 1;
    }

    fn arriving(&mut self, _from: Peer, _header: &Header, _bytes: usize) -> UserMemory {
        self.inbox.memory()
    }

    fn landed(&mut self, _from: Peer) {
        self.messages += 1;
    }

    fn lost(&mut self, _peer: Peer, error: FabricError) {
        self.lost = Some(error);
    }
}

fn quartile(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 4).copied().unwrap_or(f64::INFINITY)
}

/// Sizes around which a message may go either way.
const COPIED_BYTES: [usize; 6] = [2 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10];
const PULLED_BYTES: [usize; 6] = [2 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10];
/// Turns of short messages, at the least thoroughness.
const SMALL_TURNS: usize = 640;
const WARMUP_TURNS: usize = 200;
/// A block is short enough that many of them are undisturbed.
const BLOCK_TURNS: usize = 20;
/// Bytes that are moved for each size, at the least thoroughness.
const TURN_BYTES: usize = 1 << 20;
const TRIES_PER_YIELD: u32 = 4096;
const EVENTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn segment() -> Segment {
        Segment::adopt(Segment::create(2).unwrap(), 2).unwrap()
    }

    fn both(settings: Settings) -> [Measured; 2] {
        let segment = segment();
        std::thread::scope(|scope| {
            [0, 1]
                .map(|process_slot| {
                    let segment = segment.clone();
                    scope.spawn(move || {
                        measure(segment, process_slot, settings, Thoroughness::Quick, PATIENCE)
                    })
                })
                .map(|end| end.join().unwrap().unwrap())
        })
    }

    #[test]
    fn both_measure_every_size() {
        for measured in both(Settings::default()) {
            assert!(measured.hand_over_ns > 0.0 && measured.hand_over_ns.is_finite());
            assert_eq!(measured.copied.iter().map(|(bytes, _)| *bytes).collect::<Vec<_>>(), COPIED_BYTES);
            assert!(measured.copied.iter().all(|(_, time)| *time > 0.0 && time.is_finite()));
            // A machine may refuse pulls; then there is no time for any size.
            assert!(measured.pulled.is_empty() || measured.pulled.len() == PULLED_BYTES.len());
        }
    }

    #[test]
    fn where_pulls_are_not_allowed_there_is_no_time_for_them() {
        for measured in both(Settings { pull: false, ..Settings::default() }) {
            assert_eq!(measured.pulled, []);
            assert_eq!(measured.copied.len(), COPIED_BYTES.len());
        }
    }

    #[test]
    fn nobody_on_the_other_process_slot_is_an_error() {
        let error =
            measure(segment(), 0, Settings::default(), Thoroughness::Quick, Duration::from_millis(50))
                .unwrap_err();
        assert_eq!(error.fault, Fault::Died);
        assert!(error.what.contains("receiving"), "{error}");
    }
}
