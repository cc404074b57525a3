//! What the one thread knows that is in an operation on a board: how far this member is, and, of two, which way data went last, by
//! which both decide alike whether what goes one way is a message (decisions/0062).

use fabric::Heap;
use job::fabrics::{Board, Course};

use super::trials::Trials;

/// What is a matter of the one thread that is in an operation.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) course: Course,
    /// Where contributions are combined.
    pub(super) room: Option<Heap>,
    /// The same for slices of long ones.
    pub(super) long_room: Option<Heap>,
    /// This member has not renewed its places where that was due, since not all were through with what was before.
    pub(super) owes_renewal: bool,
    /// The board is not this communicator's any more.
    pub(super) has_left: bool,
    /// How data of two is written that is long.
    pub(super) trials: Option<Box<Trials>>,
    /// What this one of two members has done in the last operation on the board, or by a message in its place, in which anything was given.
    pub(super) last: Flow,
}

/// Of two members, whether this one gives something in an operation, and whether it gets something; neither in a barrier.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Flow {
    pub(super) gives: bool,
    pub(super) gets: bool,
}

impl Flow {
    /// Whether data goes one way alone.
    #[inline(always)]
    pub(super) fn is_one_way(self) -> bool {
        self.gives != self.gets
    }

    /// Whether who gives has got nothing in the `last` operation: one call behind the other, data goes from one member to the other.
    /// The same at both.
    #[inline(always)]
    pub(super) fn goes_on_behind(self, last: Flow) -> bool {
        self.is_one_way() && !(if self.gives { last.gets } else { last.gives })
    }
}

impl Turn {
    /// Such an operation begins.
    #[inline(always)]
    pub(super) fn note(&mut self, flow: Flow) {
        if flow != Flow::default() {
            self.last = flow;
        }
    }

    /// Whether an operation of two, in which one of them gives so many bytes, goes by a message: these run ahead of who takes them
    /// with less effort, and nothing is known yet of who takes nothing from the other. The same at both members. It counts as one on the
    /// board for what comes behind, so that roots in turn are seen from the second call on; to ask again changes nothing.
    #[inline(always)]
    pub(super) fn is_message(&mut self, flow: Flow, bytes: usize) -> bool {
        let is_message = bytes > PASSED_BYTES_MAX && flow.goes_on_behind(self.last);
        if is_message {
            self.note(flow);
        }
        is_message
    }
}

/// What goes from one of two members to the other time after time stands in entries up to here.
const PASSED_BYTES_MAX: usize = Board::PAYLOAD_BYTES_MAX;
