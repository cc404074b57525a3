//! Which algorithm serves: the one that is predicted to take least, or the one that somebody has asked for.
//!
//! Everything that a choice looks at is the same at all ranks, so all ranks choose the same: what is asked of
//! the operation, where the ranks sit, and the guide (decisions/0006).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use messaging::Rank;

use crate::collective::{Collective, Reduction, Rooted};
use crate::cost_model::{CostModel, SegmentRound};
use crate::costs::Costs;
use crate::names::{Algorithm, Forced, OPERATIONS, Operation, with_ways};
use crate::schedule::Step;
use crate::shape::{Cores, Operator, Shape};

/// By what algorithms are chosen; the same at all ranks of a job.
#[derive(Debug)]
pub struct TuningConfig {
    /// What things take.
    pub costs: Costs,
    /// What was asked for.
    pub forced: Forced,
    /// For which operations that could not be, one bit each, and behind them of which of those it was told.
    passed_over: AtomicU32,
    /// Up to which lengths operations of two ranks are one message by it, once somebody has asked.
    one_message_of_two: OnceLock<OneMessageOfTwo>,
}

impl TuningConfig {
    /// By these costs, and by force where something is forced.
    #[must_use]
    pub const fn new(costs: Costs, forced: Forced) -> TuningConfig {
        TuningConfig { costs, forced, passed_over: AtomicU32::new(0), one_message_of_two: OnceLock::new() }
    }

    /// By the built-in costs, with nothing forced.
    #[must_use]
    pub fn built_in() -> &'static TuningConfig {
        &BUILT_IN
    }

    /// Whether any algorithm was asked for.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.forced != Forced::NOTHING
    }

    /// Up to which lengths the schedules of two ranks in which one gives something are one message.
    pub fn one_message_of_two(&'static self) -> OneMessageOfTwo {
        *self.one_message_of_two.get_or_init(|| OneMessageOfTwo {
            moved: self.one_message_up_to(&moved),
            summed: self.one_message_up_to(&|bytes| vec![Collective::Reduce(Rank(0), sum_of(bytes))]),
        })
    }

    /// Up to which length all of these operations are one message, wherever the two sit.
    #[cold]
    fn one_message_up_to(&'static self, of: &dyn Fn(usize) -> Vec<Collective>) -> Option<usize> {
        let places = [(Cores::Own, 1), (Cores::Own, 2), (Cores::Shared, 1), (Cores::Shared, 2)];
        let is_one = |(cores, nodes): (Cores, u32), collective: &Collective| {
            let of_rank = |rank| {
                let shape = Shape::new(Rank(rank), 2).on(cores).over_nodes(nodes).guided_by(self);
                let steps = collective.schedule(&shape).steps;
                steps.into_iter().filter(|step| matches!(step, Step::Send { .. })).count()
            };
            of_rank(0) + of_rank(1) == 1
        };
        let are_one = |bytes: &usize| {
            let operations = of(*bytes);
            places.into_iter().all(|place| operations.iter().all(|collective| is_one(place, collective)))
        };
        (0..=OneMessageOfTwo::BYTES_MAX.ilog2()).map(|power| 1 << power).take_while(are_one).last()
    }

    /// An operation for which the algorithm that was asked for could not serve, so that another one did; each
    /// is told of once.
    pub fn take_notice(&self) -> Option<&'static str> {
        let bits = self.passed_over.load(Ordering::Relaxed);
        let is_new = |place: &usize| bits >> place & 1 == 1 && bits >> (place + TOLD) & 1 == 0;
        let place = (0..OPERATIONS.len()).find(is_new)?;
        self.passed_over.fetch_or(1 << (place + TOLD), Ordering::Relaxed);
        Some(OPERATIONS[place])
    }

    #[cold]
    fn pass_over(&self, operation: &'static str) {
        let place = OPERATIONS.iter().position(|known| *known == operation);
        self.passed_over.fetch_or(place.map_or(0, |place| 1 << place), Ordering::Relaxed);
    }
}

impl PartialEq for TuningConfig {
    /// Whether they choose the same.
    fn eq(&self, other: &TuningConfig) -> bool {
        self.costs == other.costs && self.forced == other.forced
    }
}

/// The guide where nothing else is said.
pub(crate) static BUILT_IN: TuningConfig = TuningConfig::new(Costs::BUILT_IN, Forced::NOTHING);

/// What is asked of an operation, as far as it matters to a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    /// The whole vector, or one block where each rank has one.
    pub bytes: usize,
    /// Whether the order of operands may change; true where nothing is combined.
    pub commutative: bool,
}

impl Asked {
    pub(crate) fn bytes(bytes: usize) -> Asked {
        Asked { bytes, commutative: true }
    }

    pub(crate) fn elements(count: usize, operator: Operator) -> Asked {
        Asked { bytes: count * operator.element_bytes, commutative: operator.commutative }
    }
}

/// The way to do it.
pub(crate) fn choose<W: Algorithm>(shape: &Shape, asked: Asked) -> W {
    let guide = shape.guide();
    let model = CostModel::of(shape);
    if let Some(way) = W::forced(&guide.forced).filter(|_| !shape.is_part()) {
        if way.cost(&model, asked).is_some() {
            return way;
        }
        guide.pass_over(W::OPERATION);
    }
    model.best(asked).map_or(W::ALL[0], |(way, _)| way)
}

/// All ways that serve, by name, with what each is predicted to take.
pub(crate) fn candidates<W: Algorithm>(shape: &Shape, asked: Asked) -> Vec<(&'static str, f64)> {
    let model = CostModel::of(shape);
    let predicted = |way: &W| Some((way.name(), model.ns(way.cost(&model, asked)?)));
    W::ALL.iter().filter_map(predicted).collect()
}

/// Which of these ways through a segment takes least; `None` where the best schedule takes less than any.
pub(crate) fn best_through_segment(
    shape: &Shape,
    operation: Operation,
    asked: Asked,
    ways: impl IntoIterator<Item = Option<Vec<SegmentRound>>>,
) -> Option<usize> {
    let model = CostModel::of(shape);
    let ns = |(place, rounds): (usize, Option<Vec<SegmentRound>>)| {
        Some((place, model.through_segment_ns(&rounds?)))
    };
    let (best, best_ns) =
        ways.into_iter().enumerate().filter_map(ns).min_by(|one, other| one.1.total_cmp(&other.1))?;
    let by_messages = with_ways!(operation, W => model.best::<W>(asked).map(|(_, cost)| cost), else None);
    by_messages.is_none_or(|cost| best_ns <= model.ns(cost)).then_some(best)
}

/// Up to which lengths operations of two ranks in which one gives something are one message; none where they
/// are not at any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneMessageOfTwo {
    /// Broadcasts, gathers and scatters.
    pub moved: Option<usize>,
    /// Reduces.
    pub summed: Option<usize>,
}

impl OneMessageOfTwo {
    /// Nobody asks of longer ones.
    pub const BYTES_MAX: usize = 16 << 10;
    /// By the built-in costs.
    pub const BUILT_IN: OneMessageOfTwo =
        OneMessageOfTwo { moved: Some(Self::BYTES_MAX), summed: Some(Self::BYTES_MAX) };

    /// Whether an operation, a reduce or another one, is one message where at most `bytes` bytes are sent.
    #[inline(always)]
    #[must_use]
    pub fn has(self, is_reduce: bool, bytes: usize) -> bool {
        let most = if is_reduce { self.summed } else { self.moved };
        most.is_some_and(|most| bytes <= most)
    }
}

fn sum_of(bytes: usize) -> Reduction {
    let operator = Operator { element_bytes: 1, commutative: true };
    Reduction { count: bytes, operator, in_place: false }
}

/// The operations of two ranks in which one gives so many bytes, and nothing is combined.
fn moved(bytes: usize) -> Vec<Collective> {
    let rooted = Rooted { root: Rank(0), bytes, in_place: false };
    vec![Collective::Bcast { root: Rank(0), bytes }, Collective::Gather(rooted), Collective::Scatter(rooted)]
}

/// Where the bits begin of what was told.
const TOLD: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::{Link, Work};
    use crate::{Allgather, Allreduce, Barrier, Bcast, Cores, Rank, Reduce, ReduceScatter};

    const SUM: Operator = Operator { element_bytes: 1, commutative: true };
    const ORDERED: Operator = Operator { element_bytes: 1, commutative: false };

    fn shape(size: u32) -> Shape {
        Shape::new(Rank(size - 1), size)
    }

    fn guide(costs: Costs, forced: &str) -> &'static TuningConfig {
        Box::leak(Box::new(TuningConfig::new(costs, forced.parse().expect("known names"))))
    }

    #[test]
    fn few_bytes_want_few_rounds_and_many_want_few_bytes() {
        let allreduce = |bytes| choose::<Allreduce>(&shape(64), Asked::elements(bytes, SUM));
        let small = [Allreduce::RecursiveDoubling, Allreduce::Gathering];
        assert!(small.contains(&allreduce(8)), "{:?}", allreduce(8));
        assert!(!small.contains(&allreduce(16 << 20)), "{:?}", allreduce(16 << 20));
        assert_eq!(choose::<Bcast>(&shape(64), Asked::bytes(8)), Bcast::Binomial);
        assert_ne!(choose::<Bcast>(&shape(64), Asked::bytes(16 << 20)), Bcast::Binomial);
    }

    #[test]
    fn costs_decide() {
        let link =
            Link { latency_ns: 1.0, eager_byte_ns: 1.0, eager_bytes_max: 1 << 40, ask_ns: 0.0, byte_ns: 1.0 };
        let free = Work { fixed_ns: 0.0, byte_ns: 0.0 };
        let costs = Costs {
            node: link,
            cache: None,
            numa: None,
            package: None,
            network: link,
            step_ns: 0.0,
            copy: free,
            combine: free,
            turn_ns: 0.0,
        };
        let far = Costs { node: Link { latency_ns: 1e6, ..link }, ..costs };
        let bcast = |costs| choose::<Bcast>(&shape(64).guided_by(guide(costs, "")), Asked::bytes(1 << 12));
        assert_eq!(bcast(far), Bcast::Binomial, "where rounds cost much");
        assert_ne!(bcast(costs), Bcast::Binomial, "where bytes do");
    }

    #[test]
    fn on_shared_cores_rounds_are_saved() {
        for size in [4, 8, 32, 128] {
            let shape = shape(size).on(Cores::Shared);
            assert_eq!(choose::<Barrier>(&shape, Asked::bytes(0)), Barrier::GatherBroadcast, "{size} ranks");
            assert_eq!(
                choose::<Allreduce>(&shape, Asked::elements(8, ORDERED)),
                Allreduce::GatherBroadcast,
                "{size} ranks"
            );
        }
        assert_eq!(choose::<Barrier>(&shape(4), Asked::bytes(0)), Barrier::Dissemination);
    }

    #[test]
    fn where_order_matters_nothing_is_chosen_that_changes_it() {
        for size in [1, 2, 3, 8, 1000] {
            for bytes in [0, 1, 1 << 10, 1 << 20, 1 << 30] {
                let asked = Asked::elements(bytes, ORDERED);
                assert_eq!(choose::<Reduce>(&shape(size), asked), Reduce::Binomial);
                let allreduce: Allreduce = choose(&shape(size), asked);
                assert!(!matches!(allreduce, Allreduce::Ring | Allreduce::Rabenseifner));
                assert_eq!(choose::<ReduceScatter>(&shape(size), asked), ReduceScatter::ReduceThenScatter);
            }
        }
    }

    #[test]
    fn what_two_ranks_pass_as_one_message_is_one_by_all_costs() {
        let by = |costs| guide(costs, "").one_message_of_two();
        assert_eq!(by(Costs::BUILT_IN), OneMessageOfTwo::BUILT_IN);
        let quick = Link {
            latency_ns: 39.0,
            eager_byte_ns: 0.0314,
            eager_bytes_max: 20480,
            ask_ns: 78.0,
            byte_ns: 0.0314,
        };
        // As some machines are: a reduce of 16 KiB goes by slices there, and what is moved does not.
        let some = by(Costs { node: quick, step_ns: 87.4, ..Costs::BUILT_IN });
        assert!(
            some.has(false, 16 << 10) && some.has(true, 4 << 10) && !some.has(true, 16 << 10),
            "{some:?}"
        );
        let slow = Work { byte_ns: 0.16, ..Costs::BUILT_IN.combine };
        let some = by(Costs { combine: slow, ..Costs::BUILT_IN });
        assert!(some.has(true, 2048) && !some.has(true, 8192), "{some:?}");
        let forced = guide(Costs::BUILT_IN, "reduce:ring-gather").one_message_of_two();
        assert!(!forced.has(true, 2), "{forced:?}");
    }

    #[test]
    fn many_ranks_never_get_rings_of_crumbs() {
        let million = shape((1 << 20) - 1);
        assert_ne!(choose::<Bcast>(&million, Asked::bytes(1 << 20)), Bcast::ScatterRing);
        assert_ne!(choose::<Allreduce>(&million, Asked::elements(1 << 20, SUM)), Allreduce::Ring);
        assert_ne!(choose::<Allgather>(&million, Asked::bytes(8)), Allgather::Ring);
    }

    #[test]
    fn who_asks_for_a_way_gets_it_where_it_serves() {
        let guide = guide(Costs::BUILT_IN, "allreduce:ring,allgather:recursive-doubling");
        let eight = shape(8).guided_by(guide);
        assert_eq!(choose::<Allreduce>(&eight, Asked::elements(8, SUM)), Allreduce::Ring);
        assert_eq!(choose::<Allgather>(&eight, Asked::bytes(1 << 20)), Allgather::RecursiveDoubling);
        assert_eq!(guide.take_notice(), None);
        assert_ne!(choose::<Allreduce>(&eight, Asked::elements(8, ORDERED)), Allreduce::Ring);
        let seven = shape(7).guided_by(guide);
        assert_ne!(choose::<Allgather>(&seven, Asked::bytes(8)), Allgather::RecursiveDoubling);
        assert_eq!((guide.take_notice(), guide.take_notice()), (Some("allgather"), Some("allreduce")));
        assert_ne!(choose::<Allreduce>(&eight, Asked::elements(8, ORDERED)), Allreduce::Ring);
        assert_eq!(guide.take_notice(), None, "once is enough");
    }
}
