//! Which algorithm serves: the one that is foretold to take least, or the one that somebody has asked for.
//!
//! Everything that a choice looks at is the same at all ranks, so all ranks choose the same: what is asked of the
//! operation, where the ranks sit, and the guide (decisions/0024).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use messaging::Rank;

use crate::collective::{Collective, Each, Reduction, Rooted};
use crate::costs::Costs;
use crate::effort::Terrain;
use crate::names::{Forced, OPERATIONS, Way};
use crate::shape::{Cores, Operator, Shape};

/// By what algorithms are chosen; the same at all ranks of a job.
#[derive(Debug)]
pub struct Guide {
    /// What things take.
    pub costs: Costs,
    /// What was asked for.
    pub forced: Forced,
    /// For which operations that could not be, one bit each, and behind them of which of those it was told.
    passed_over: AtomicU32,
    /// Up to which lengths it chooses for two ranks as the built-in costs do, once somebody has asked.
    usual_for_two: OnceLock<UsualForTwo>,
}

impl Guide {
    /// By these costs, and by force where something is forced.
    #[must_use]
    pub const fn new(costs: Costs, forced: Forced) -> Guide {
        Guide { costs, forced, passed_over: AtomicU32::new(0), usual_for_two: OnceLock::new() }
    }

    /// By the built-in costs, with nothing forced.
    #[must_use]
    pub fn built_in() -> &'static Guide {
        &BUILT_IN
    }

    /// Whether any algorithm was asked for.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.forced != Forced::NOTHING
    }

    /// How long what two ranks give each other may be, so that an operation is one message each way: it goes by the algorithm that the
    /// built-in costs choose.
    pub fn usual_for_two(&'static self) -> UsualForTwo {
        *self.usual_for_two.get_or_init(|| match self.is_forced() {
            true => UsualForTwo { both_give: None, one_gives: None },
            false => UsualForTwo {
                both_give: self.chooses_up_to(UsualForTwo::BUILT_IN.both_give, &both_give),
                one_gives: self.chooses_up_to(UsualForTwo::BUILT_IN.one_gives, &one_gives),
            },
        })
    }

    /// Up to which length, `most` at most, it chooses for two ranks as the built-in costs do.
    #[cold]
    fn chooses_up_to(
        &'static self,
        most: Option<usize>,
        of: &dyn Fn(usize) -> Vec<Collective>,
    ) -> Option<usize> {
        let places = [(Cores::Own, 1), (Cores::Own, 2), (Cores::Shared, 1), (Cores::Shared, 2)];
        let alike = |(cores, nodes): (Cores, u32), collective: &Collective| {
            let by = |guide| Shape::new(Rank(0), 2).on(cores).over_nodes(nodes).guided_by(guide);
            collective.chosen(&by(self)) == collective.chosen(&by(&BUILT_IN))
        };
        let are_alike = |bytes: &usize| {
            let operations = of(*bytes);
            places.into_iter().all(|place| operations.iter().all(|collective| alike(place, collective)))
        };
        (0..=most?.ilog2()).map(|power| 1 << power).take_while(are_alike).last()
    }

    /// An operation for which the algorithm that was asked for could not serve, so that another one did; each is
    /// told of once.
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

impl PartialEq for Guide {
    /// Whether they choose the same.
    fn eq(&self, other: &Guide) -> bool {
        self.costs == other.costs && self.forced == other.forced
    }
}

/// The guide where nothing else is said.
pub(crate) static BUILT_IN: Guide = Guide::new(Costs::BUILT_IN, Forced::NOTHING);

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
pub(crate) fn choose<W: Way>(shape: &Shape, asked: Asked) -> W {
    let guide = shape.guide();
    let terrain = Terrain::of(shape);
    if let Some(way) = W::forced(&guide.forced).filter(|_| !shape.is_part()) {
        if way.effort(&terrain, asked).is_some() {
            return way;
        }
        guide.pass_over(W::OPERATION);
    }
    terrain.best(asked).map_or(W::ALL[0], |(way, _)| way)
}

/// All ways that serve, by name, with what each is foretold to take.
pub(crate) fn candidates<W: Way>(shape: &Shape, asked: Asked) -> Vec<(&'static str, f64)> {
    let terrain = Terrain::of(shape);
    let foretold = |way: &W| Some((way.name(), terrain.ns(way.effort(&terrain, asked)?)));
    W::ALL.iter().filter_map(foretold).collect()
}

/// Up to which lengths operations of two ranks are one message each way; none where they are not at any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsualForTwo {
    /// Those in which both ranks give something.
    pub both_give: Option<usize>,
    /// Those in which one of them does.
    pub one_gives: Option<usize>,
}

impl UsualForTwo {
    /// Nobody asks of longer ones in which something is combined.
    pub const COMBINED_BYTES_MAX: usize = 8 << 10;
    /// By the built-in costs; longer ones are not asked for.
    pub const BUILT_IN: UsualForTwo = UsualForTwo { both_give: Some(2 << 10), one_gives: Some(16 << 10) };

    /// Whether an operation is one message each way in which at most so many bytes are given.
    #[inline(always)]
    #[must_use]
    pub fn has(self, both: bool, bytes: usize) -> bool {
        let most = if both { self.both_give } else { self.one_gives };
        most.is_some_and(|most| bytes <= most)
    }
}

fn sum_of(bytes: usize) -> Reduction {
    let operator = Operator { element_bytes: 1, commutative: true };
    Reduction { count: bytes, operator, in_place: false }
}

/// The operations on so many bytes in which each of two ranks makes one message.
fn both_give(bytes: usize) -> Vec<Collective> {
    let each = Each { bytes, in_place: false };
    vec![
        Collective::Barrier,
        Collective::Allgather(each),
        Collective::Alltoall(each),
        Collective::Allreduce(sum_of(bytes)),
        Collective::ReduceScatterBlock(sum_of(bytes)),
    ]
}

/// Those in which one of them does.
fn one_gives(bytes: usize) -> Vec<Collective> {
    let rooted = Rooted { root: Rank(0), bytes, in_place: false };
    let moved =
        [Collective::Bcast { root: Rank(0), bytes }, Collective::Gather(rooted), Collective::Scatter(rooted)];
    let combined =
        (bytes <= UsualForTwo::COMBINED_BYTES_MAX).then(|| Collective::Reduce(Rank(0), sum_of(bytes)));
    moved.into_iter().chain(combined).collect()
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

    fn guide(costs: Costs, forced: &str) -> &'static Guide {
        Box::leak(Box::new(Guide::new(costs, forced.parse().expect("known names"))))
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
            assert_eq!(choose::<Barrier>(&shape, Asked::bytes(0)), Barrier::Hub, "{size} ranks");
            assert_eq!(
                choose::<Allreduce>(&shape, Asked::elements(8, ORDERED)),
                Allreduce::Hub,
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
    fn two_ranks_go_as_usual_by_nearly_all_costs() {
        let usual = |costs| guide(costs, "").usual_for_two();
        let twice = Link { latency_ns: 360.0, eager_byte_ns: 0.09, ..Costs::BUILT_IN.node };
        assert_eq!(usual(Costs::BUILT_IN), UsualForTwo::BUILT_IN);
        assert_eq!(usual(Costs { node: twice, step_ns: 50.0, ..Costs::BUILT_IN }), UsualForTwo::BUILT_IN);
        let none = UsualForTwo { both_give: None, one_gives: None };
        assert_eq!(guide(Costs::BUILT_IN, "allreduce:ring").usual_for_two(), none);
        let dear = Work { fixed_ns: 1e6, byte_ns: 1e3 };
        assert!(!usual(Costs { copy: dear, combine: dear, ..Costs::BUILT_IN }).has(true, 2048));
        // A reduce goes by slices from some length on that is less than what is asked for.
        let slow = Work { byte_ns: 0.16, ..Costs::BUILT_IN.combine };
        let some = usual(Costs { combine: slow, ..Costs::BUILT_IN });
        assert!(some.has(false, 2048) && !some.has(false, 8192), "{some:?}");
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
