//! Whether what two members exchange is given, or read from the other's memory (decisions/0005), and whether
//! each combines half of a sum or all of it (decisions/0003): whichever has turned out to be quicker.

use fabric::slots::{Ring, Slots};
use fabric::tuner::{Alternative, SizeClasses, Tuner};

use super::chunking::{HALVES_FROM, PairExchange, TransferLengths};
use super::{SegmentMember, SegmentOperation};

/// What one of two members knows, by how long data is.
pub(super) struct SegmentTuners {
    /// What both do, as the first one of two decides for both: exchanges, and then sums.
    decided: [Tuner; DECIDED],
    /// What it has said of that: a bit for each class that goes the second way, and how often it has said
    /// anything.
    said: u32,
    /// What it says in any case.
    always: Option<u32>,
    times_said: usize,
    /// A read was refused.
    is_refused: bool,
}

impl Default for SegmentTuners {
    fn default() -> SegmentTuners {
        SegmentTuners {
            decided: [Tuner::NEW; DECIDED],
            said: 0,
            always: None,
            times_said: 0,
            is_refused: false,
        }
    }
}

/// Exchanged data that may be read.
const EXCHANGED: SizeClasses = SizeClasses { from: READ_FROM, count: 16 };
/// From this length on, in bytes, each of two members may read the peer's memory in an exchange.
pub const READ_FROM: usize = 32 << 10;
/// Sums that may be combined by halves. Their classes stand behind those of exchanges.
const SUMMED: SizeClasses = SizeClasses { from: HALVES_FROM, count: 12 };
const DECIDED: usize = EXCHANGED.count + SUMMED.count;

/// Said beside the classes that go the second way: that no chunks go through the long ring.
const SHORT: u32 = 1 << 31;
const _: () = assert!(DECIDED < 31);
/// The long ring has staging buffers that have left the other core's second-level cache when they are read.
/// Of a cache that holds both rings many times over they never do, and then there is less room in it for the
/// data (decisions/0005).
const SHORT_FROM: usize = 1 << 20;

/// What the first of two says in any case.
fn ways_always(of: impl SegmentMember) -> u32 {
    if of.second_cache_bytes().is_some_and(|bytes| SHORT_FROM <= bytes) { SHORT } else { 0 }
}

/// Which way an operation goes of the two by which it may: an exchange through staging buffers or by reads, a
/// sum by halves or as a whole.
pub(super) struct TunedChoice {
    class: usize,
    /// How many bytes the longer way has.
    bytes: usize,
    way: Alternative,
    /// Chunks go through the short ring, however long all are.
    is_short: bool,
    /// The next one of that class, as the first of two decides, which also looks at the time.
    next: Option<Alternative>,
    since: Option<u64>,
    waited: u64,
    /// A read was refused, here or there.
    is_refused: bool,
}

impl TunedChoice {
    /// Whether each of the two reads what the other has, or combines all of it.
    pub(super) fn is_second(&self) -> bool {
        self.way == Alternative::Second
    }

    /// Through which staging buffers chunks go, where that is not a matter of their length.
    pub(super) fn ring(&self) -> Option<Ring> {
        self.is_short.then_some(Ring::Short)
    }

    /// The time, where it counts.
    pub(super) fn now(&self, of: impl SegmentMember) -> Option<u64> {
        self.since.map(|_| of.now_ns())
    }

    /// The other one came later: that is no matter of the way.
    pub(super) fn has_waited(&mut self, of: impl SegmentMember, since: u64) {
        self.waited += of.now_ns().saturating_sub(since);
    }

    pub(super) fn is_refused(&mut self) {
        self.is_refused = true;
    }
}

impl SegmentTuners {
    /// As if operations of any length had turned out to be quicker that way.
    pub(super) fn turned_out(&mut self, faster: Alternative) {
        for tuner in &mut self.decided {
            *tuner = Tuner::NEW;
            for _ in 0..3 {
                tuner.took(faster, 1e-4);
                tuner.took(faster.other(), 1e4);
            }
        }
    }
}

impl<M: SegmentMember> SegmentOperation<'_, M> {
    fn tuners(&mut self) -> &mut SegmentTuners {
        self.turn.tuners.get_or_insert_default()
    }

    /// Which way an exchange goes; `None` where there is only one.
    pub(super) fn route_for(&mut self, what: &PairExchange) -> Option<TunedChoice> {
        let TransferLengths { gives, gets, .. } = what.lengths;
        let bytes = gives.max(gets);
        let class = EXCHANGED.of(bytes).filter(|_| gives.min(gets) > 0 && !what.is_written_over)?;
        let is_tried = self.segment().can_both_read() && !self.tuners().is_refused;
        Some(self.route(class, bytes, is_tried))
    }

    /// Which way so many bytes go that both combine; `None` where there is only one.
    pub(super) fn route_for_sum(&mut self, bytes: usize) -> Option<TunedChoice> {
        SUMMED.of(bytes).map(|class| self.route(EXCHANGED.count + class, bytes, true))
    }

    /// Which way an operation of that class goes, and whether the next one is to try another.
    fn route(&mut self, class: usize, bytes: usize, is_tried: bool) -> TunedChoice {
        let ways = self.segment().ways(0, self.number);
        let way = if ways >> class & 1 != 0 { Alternative::Second } else { Alternative::First };
        let decides = self.of.rank().0 == 0;
        let of = self.of;
        let tuner = &mut self.tuners().decided[class];
        let since = (decides && is_tried && tuner.is_timed(way)).then(|| of.now_ns());
        let next = decides.then(|| if is_tried { tuner.choose() } else { Alternative::First });
        let (is_short, waited) = (ways & SHORT != 0, 0);
        TunedChoice { class, bytes, way, is_short, next, since, waited, is_refused: false }
    }

    /// Says what the first of two has decided for the next operation of this class, which has that number at
    /// least.
    pub(super) fn decide_next(&mut self, route: &TunedChoice, from: u32) {
        let Some(next) = route.next else { return };
        let of = self.of;
        let tuners = self.tuners();
        let always = *tuners.always.get_or_insert_with(|| ways_always(of));
        let said = tuners.said & !(1 << route.class)
            | u32::from(next == Alternative::Second) << route.class
            | always;
        if said != tuners.said {
            (tuners.said, tuners.times_said) = (said, tuners.times_said + 1);
            let slot = tuners.times_said;
            self.segment().publish_ways(slot, (from, said));
        }
    }

    /// An operation has gone well.
    pub(super) fn has_gone(&mut self, route: TunedChoice) {
        let of = self.of;
        let tuners = self.tuners();
        tuners.is_refused |= route.is_refused;
        if let Some(since) = route.since.filter(|_| !route.is_refused) {
            let took = of.now_ns().saturating_sub(since).saturating_sub(route.waited);
            tuners.decided[route.class].took(route.way, took as f32 / route.bytes as f32);
        }
    }
}
