//! How two members write long data, to the caches or past them (decisions/0074), whether what they exchange is given, or read from the
//! other's memory (decisions/0075), and whether each combines half of a sum or all of it (decisions/0076): whichever has turned out to be
//! quicker.

use fabric::Stores;
use fabric::slots::{Ring, Slots};

use super::pieces::{Exchange, HALVES_FROM, Lengths};
use super::trial::{Trial, Way};
use super::{Member, Visit};

/// What one of two members knows, by how long data is.
pub(super) struct Trials {
    /// What it takes and the other gives, where that goes one way: the other is told what to do.
    taken: [Trial; CLASSES],
    /// What it keeps for itself of an exchange.
    kept: [Trial; CLASSES],
    /// What it has told: a bit for each class of what it takes.
    told: u32,
    /// What both do, as the first one of two decides for both: exchanges, and then sums.
    decided: [Trial; DECIDED_CLASSES],
    /// What it has said of that: a bit for each class that goes the second way, and how often it has said anything.
    said: u32,
    /// What it says in any case.
    always: Option<u32>,
    times_said: usize,
    /// A read was refused.
    is_refused: bool,
}

impl Default for Trials {
    fn default() -> Trials {
        Trials {
            taken: [Trial::READ; CLASSES],
            kept: [Trial::LEFT; CLASSES],
            told: 0,
            decided: [Trial::READ; DECIDED_CLASSES],
            said: 0,
            always: None,
            times_said: 0,
            is_refused: false,
        }
    }
}

/// Data of twice the length is in the next class; and the shortest.
const CLASSES: usize = 8;
/// Data so long may be written by non-temporal stores.
pub const TRIED_FROM: usize = 512 << 10;

/// The class of so many bytes, `None` where they are few, which stay in caches, and where there is one way to write.
fn class(bytes: usize) -> Option<usize> {
    (TRIED_FROM <= bytes && Stores::ARE_TWO).then(|| class_from(TRIED_FROM, bytes, CLASSES))
}

/// The same of classes that begin with that length, which is no more than there are bytes.
fn class_from(first: usize, bytes: usize, classes: usize) -> usize {
    ((bytes / first).ilog2() as usize).min(classes - 1)
}

/// Exchanged data so long may be read. Data of twice the length is in the next class.
pub const READ_FROM: usize = 32 << 10;
const EXCHANGED_CLASSES: usize = 16;
/// Their classes stand behind those of exchanges.
const SUMMED_CLASSES: usize = 12;
const DECIDED_CLASSES: usize = EXCHANGED_CLASSES + SUMMED_CLASSES;

/// Said beside the classes that go the second way: that no pieces go through the long ring.
const SHORT: u32 = 1 << 31;
const _: () = assert!(DECIDED_CLASSES < 31);
/// The long ring has trays that have left the other core's second-level cache when they are read. Of a cache that holds both rings many times
/// over they never do, and then there is less room in it for the data (decisions/0075).
const SHORT_FROM: usize = 1 << 20;

/// What the first of two says in any case.
fn ways_always(of: impl Member) -> u32 {
    if of.second_cache_bytes().is_some_and(|bytes| SHORT_FROM <= bytes) { SHORT } else { 0 }
}

/// Which way an operation goes of the two by which it may: an exchange through trays or by reads, a sum by halves or as a whole.
pub(super) struct Route {
    class: usize,
    /// How many bytes the longer way has.
    bytes: usize,
    way: Way,
    /// Pieces go through the short ring, however long all are.
    is_short: bool,
    /// The next one of that class, as the first of two decides, which also looks at the time.
    next: Option<Way>,
    since: Option<u64>,
    waited: u64,
    /// A read was refused, here or there.
    is_refused: bool,
}

impl Route {
    /// Whether each of the two reads what the other has, or combines all of it.
    pub(super) fn is_second(&self) -> bool {
        self.way == Way::Second
    }

    /// Through which trays pieces go, where that is not a matter of their length.
    pub(super) fn ring(&self) -> Option<Ring> {
        self.is_short.then_some(Ring::Short)
    }

    /// The time, where it counts.
    pub(super) fn now(&self, of: impl Member) -> Option<u64> {
        self.since.map(|_| of.now_ns())
    }

    /// The other one came later: that is no matter of the way.
    pub(super) fn has_waited(&mut self, of: impl Member, since: u64) {
        self.waited += of.now_ns().saturating_sub(since);
    }

    pub(super) fn is_refused(&mut self) {
        self.is_refused = true;
    }
}

/// An operation, from when the time counts.
pub(super) struct Timed {
    class: usize,
    since: u64,
}

impl Timed {
    /// Of so many bytes, if they are to be timed.
    pub(super) fn begin(of: impl Member, bytes: usize) -> Option<Timed> {
        class(bytes).map(|class| Timed { class, since: of.now_ns() })
    }

    /// So many bytes were taken meanwhile: what each took.
    fn byte_ns(&self, of: impl Member, bytes: usize) -> f32 {
        of.now_ns().saturating_sub(self.since) as f32 / bytes.max(1) as f32
    }
}

/// Of the two ways to write.
fn way(stores: Stores) -> Way {
    match stores {
        Stores::Cached => Way::First,
        Stores::Past => Way::Second,
    }
}

fn stores(way: Way) -> Stores {
    match way {
        Way::First => Stores::Cached,
        Way::Second => Stores::Past,
    }
}

impl Trials {
    /// As if operations of any length had turned out to be quicker that way.
    pub(super) fn turned_out(&mut self, quicker: Way) {
        let slower = if quicker == Way::First { Way::Second } else { Way::First };
        for trial in &mut self.decided {
            *trial = Trial::READ;
            for _ in 0..3 {
                trial.took(quicker, 1e-4);
                trial.took(slower, 1e4);
            }
        }
    }
}

impl<M: Member> Visit<'_, M> {
    fn trials(&mut self) -> &mut Trials {
        self.turn.trials.get_or_insert_default()
    }

    /// Which way an exchange goes; `None` where there is only one.
    pub(super) fn route_for(&mut self, what: &Exchange) -> Option<Route> {
        let Lengths { gives, gets, .. } = what.lengths;
        let bytes = gives.max(gets);
        if bytes < READ_FROM || gives.min(gets) == 0 || what.is_written_over {
            return None;
        }
        let class = class_from(READ_FROM, bytes, EXCHANGED_CLASSES);
        let is_tried = self.board().can_both_read() && !self.trials().is_refused;
        Some(self.route(class, bytes, is_tried))
    }

    /// Which way so many bytes go that both combine; `None` where there is only one.
    pub(super) fn route_for_sum(&mut self, bytes: usize) -> Option<Route> {
        let class = || class_from(HALVES_FROM, bytes, SUMMED_CLASSES);
        (HALVES_FROM <= bytes).then(|| self.route(EXCHANGED_CLASSES + class(), bytes, true))
    }

    /// Which way an operation of that class goes, and whether the next one is to try another.
    fn route(&mut self, class: usize, bytes: usize, is_tried: bool) -> Route {
        let ways = self.board().ways(0, self.number);
        let way = if ways >> class & 1 != 0 { Way::Second } else { Way::First };
        let decides = self.of.rank().0 == 0;
        let of = self.of;
        let trial = &mut self.trials().decided[class];
        let since = (decides && is_tried && trial.is_timed(way)).then(|| of.now_ns());
        let next = decides.then(|| if is_tried { trial.choose() } else { Way::First });
        let (is_short, waited) = (ways & SHORT != 0, 0);
        Route { class, bytes, way, is_short, next, since, waited, is_refused: false }
    }

    /// Says what the first of two has decided for the next operation of this class, which has that number at least.
    pub(super) fn decide_next(&mut self, route: &Route, from: u32) {
        let Some(next) = route.next else { return };
        let of = self.of;
        let trials = self.trials();
        let always = *trials.always.get_or_insert_with(|| ways_always(of));
        let said = trials.said & !(1 << route.class) | u32::from(next == Way::Second) << route.class | always;
        if said != trials.said {
            (trials.said, trials.times_said) = (said, trials.times_said + 1);
            let slot = trials.times_said;
            self.board().publish_ways(slot, (from, said));
        }
    }

    /// An operation has gone well.
    pub(super) fn has_gone(&mut self, route: Route) {
        let of = self.of;
        let trials = self.trials();
        trials.is_refused |= route.is_refused;
        if let Some(since) = route.since.filter(|_| !route.is_refused) {
            let took = of.now_ns().saturating_sub(since).saturating_sub(route.waited);
            trials.decided[route.class].took(route.way, took as f32 / route.bytes as f32);
        }
    }

    /// How the other of two members is to be given so many bytes, which gives nothing itself, as it has said.
    pub(super) fn stores_for(&self, other: u32, bytes: usize) -> Stores {
        match class(bytes) {
            Some(class) if self.board().preferred(other) >> class & 1 != 0 => Stores::Past,
            _ => Stores::Cached,
        }
    }

    /// This member has taken so many bytes since, which the other has written so. The next ones may be wanted otherwise.
    pub(super) fn has_taken(&mut self, timed: Timed, bytes: usize, stores: Stores) {
        let (class, byte_ns) = (timed.class, timed.byte_ns(self.of, bytes));
        let trials = self.trials();
        trials.taken[class].took(way(stores), byte_ns);
        let bit = u32::from(trials.taken[class].choose() == Way::Second) << class;
        let told = trials.told & !(1 << class) | bit;
        if told != trials.told {
            trials.told = told;
            self.board().prefer(told);
        }
    }

    /// How this member writes so many bytes that it keeps of an exchange, where both ways are tried: not where they are few beside what
    /// comes, or many. Members of one exchange count alike, and so try the same.
    pub(super) fn stores_beside(
        &mut self,
        kept_bytes: usize,
        Lengths { gives, gets, .. }: Lengths,
    ) -> Option<Stores> {
        let is_alike = gives > 0 && kept_bytes / 2 <= gets && gets / 2 <= kept_bytes;
        class(gets).filter(|_| is_alike).map(|class| stores(self.trials().kept[class].choose()))
    }

    /// It has, and has taken so many bytes since then.
    pub(super) fn has_kept(&mut self, timed: Timed, bytes: usize, stores: Stores) {
        let byte_ns = timed.byte_ns(self.of, bytes);
        self.trials().kept[timed.class].took(way(stores), byte_ns);
    }
}
