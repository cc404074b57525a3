//! What the one thread knows that is in an operation on a collective segment: how far this member is, and, of
//! two, which way data went last, by which both decide alike whether what goes one way is a message
//! (decisions/0005).

use fabric::Heap;
use fabric::slots::{Credit, SLOT_BYTES_MAX};
use fabric::tuner::Alternative;

use super::tuners::SegmentTuners;

/// What is a matter of the one thread that is in an operation.
#[derive(Default)]
pub struct SegmentState {
    /// How far this member and its peers are.
    pub credit: Credit,
    /// The scratch buffer in which contributions are combined.
    pub(super) room: Option<Heap>,
    /// The scratch buffer in which slices of long contributions are combined.
    pub(super) long_room: Option<Heap>,
    /// This member has not renewed its places where that was due, since not all were through with what was
    /// before.
    pub owes_renewal: bool,
    /// The collective segment is not this communicator's any more.
    pub has_left: bool,
    /// Whether long data of two is given or read, and long sums go by halves.
    pub(super) tuners: Option<Box<SegmentTuners>>,
    /// What this one of two members has done in the last operation on the collective segment, or by a message
    /// in its place, in which anything was given.
    pub(super) last: Flow,
}

/// Of two members, whether this one gives something in an operation, and whether it gets something; neither
/// in a barrier.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Whether this member gives something.
    pub gives: bool,
    /// Whether this member gets something.
    pub gets: bool,
}

impl Flow {
    /// Whether data goes one way alone.
    #[inline(always)]
    #[must_use]
    pub fn is_one_way(self) -> bool {
        self.gives != self.gets
    }

    /// Whether who gives has got nothing in the `last` operation: one call behind the other, data goes from
    /// one member to the other. The same at both.
    #[inline(always)]
    #[must_use]
    pub fn goes_on_behind(self, last: Flow) -> bool {
        self.is_one_way() && !(if self.gives { last.gets } else { last.gives })
    }
}

impl SegmentState {
    /// Such an operation begins.
    #[inline(always)]
    pub fn note(&mut self, flow: Flow) {
        if flow != Flow::default() {
            self.last = flow;
        }
    }

    /// Whether an operation of two, in which one of them gives so many bytes, goes by a message: these run
    /// ahead of who takes them with less effort, and nothing is known yet of who takes nothing from the
    /// other. The same at both members. It counts as one on the collective segment for what comes behind, so
    /// that roots in turn are seen from the second call on; to ask again changes nothing.
    #[inline(always)]
    #[must_use]
    pub fn is_message(&mut self, flow: Flow, bytes: usize) -> bool {
        let is_message = bytes > PASSED_BYTES_MAX && flow.goes_on_behind(self.last);
        if is_message {
            self.note(flow);
        }
        is_message
    }

    /// This member leaves the segment: no operation follows.
    pub fn leave(&mut self) {
        *self = SegmentState { has_left: true, ..SegmentState::default() };
    }

    /// Makes the tuner take operations of every length for faster that way: for tests.
    #[doc(hidden)]
    pub fn turned_out(&mut self, faster: Alternative) {
        self.tuners.get_or_insert_default().turned_out(faster);
    }
}

/// What goes from one of two members to the other time after time stands in slots up to here.
const PASSED_BYTES_MAX: usize = SLOT_BYTES_MAX;
