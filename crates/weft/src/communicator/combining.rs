//! How a collective operation combines elements of two ranks. It goes down with the call as a value, to where
//! the elements stand.

use collectives::node::Combine;
use datatype::{Operator, Predefined, combine_packed};
use fabric::{Payload, UserMemory};

/// A function that combines packed elements: its last argument becomes the first op the second. Where there
/// is no second, the second operand is what stands in the last, and otherwise the last overlaps neither. It
/// is called with any number of elements: a part of those that a rank contributes, or those of several ranks,
/// one behind the other.
pub type CombineFn<'a> = dyn Fn(Payload<'_>, Option<Payload<'_>>, &mut UserMemory) + 'a;

/// A [`CombineFn`] that any thread may call.
pub type SentCombineFn = dyn Fn(Payload<'_>, Option<Payload<'_>>, &mut UserMemory) + Send;

/// How a collective operation combines packed elements.
#[derive(Clone, Copy)]
pub enum Combining<'a> {
    /// It combines nothing.
    Nothing,
    /// By an operator of MPI, which is legal for the datatype.
    Predefined(Operator, Predefined),
    /// By a function of the caller, which combines and does nothing else.
    By(&'a CombineFn<'a>),
    /// By a function of a program in another language, which may call the library, throw an exception, or be
    /// left by `longjmp`. It is called while nothing is held; so the operation goes by messages.
    Program(&'a CombineFn<'a>),
}

/// How a collective operation combines packed elements that goes on after the call that begins it.
pub enum OwnedCombining {
    /// It combines nothing.
    Nothing,
    /// By an operator of MPI, which is legal for the datatype.
    Predefined(Operator, Predefined),
    /// By a function of the caller.
    By(Box<SentCombineFn>),
}

impl Combine for Combining<'_> {
    #[inline]
    fn combine(self, left: Payload<'_>, right: Option<Payload<'_>>, out: &mut UserMemory) {
        match self {
            Combining::Nothing => {}
            Combining::Predefined(operator, predefined) => {
                combine_packed(operator, predefined, left, right, out)
                    .expect("whoever describes a reduction has seen that the operator is legal");
            }
            Combining::By(function) | Combining::Program(function) => function(left, right, out),
        }
    }
}

impl<'a> Combining<'a> {
    /// The function of a program in another language, where it is one.
    #[inline(always)]
    pub(super) fn program(self) -> Option<&'a CombineFn<'a>> {
        match self {
            Combining::Program(function) => Some(function),
            _ => None,
        }
    }

    /// How an operation combines that goes on after the call that begins it; `None` where a function of the
    /// caller is borrowed, which may be gone by then.
    #[must_use]
    pub fn owned(self) -> Option<OwnedCombining> {
        match self {
            Combining::Nothing => Some(OwnedCombining::Nothing),
            Combining::Predefined(operator, predefined) => {
                Some(OwnedCombining::Predefined(operator, predefined))
            }
            Combining::By(_) | Combining::Program(_) => None,
        }
    }
}

impl OwnedCombining {
    /// As the progress engine uses it in one turn.
    #[inline]
    #[must_use]
    pub fn lend(&self) -> Combining<'_> {
        match self {
            OwnedCombining::Nothing => Combining::Nothing,
            OwnedCombining::Predefined(operator, predefined) => Combining::Predefined(*operator, *predefined),
            OwnedCombining::By(function) => Combining::By(&**function),
        }
    }
}

/// A function that combines in place, as a [`CombineFn`]: it sets its second argument to first op second.
pub(super) fn in_place(
    combine: impl Fn(Payload<'_>, &mut UserMemory),
) -> impl Fn(Payload<'_>, Option<Payload<'_>>, &mut UserMemory) {
    move |left, right, out| {
        right.map(|right| out.write_at(0, right));
        combine(left, out);
    }
}
