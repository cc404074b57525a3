//! The three ways of a collective operation: until it is over, begun (`MPI_I...`), and described, to be begun
//! again and again (`MPI_..._init`). One body says what an operation is, and serves all three (MPI 5.0 §6.12,
//! §6.13).

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use weft::claims::{Called, OwnedCombining, Payload, UserMemory};
use weft::collectives::{Around, Block, Buffers, Collective, Crossing, Listed, Schedule, Surround, Uneven};
use weft::{Combining, Communicator, Error, Rank, Result};

use crate::bodies::info;
use crate::bodies::operators::{self, TypedOperator};
use crate::bodies::persistent::{self, Plan};
use crate::claims::{Buffer, Place, Received, Sent, Slot};
use crate::entry::Target;
use crate::objects::RequestObject;
use crate::parts::{Input, Output, Section, check_sections_apart};
use crate::state::{self, Runtime, call};
use crate::types::*;

/// How an operation was called.
pub struct Way<'call> {
    name: &'static str,
    kind: CallKind<'call>,
    /// What is called, in words, for an operation that is compared while it goes on.
    called: Cell<Option<Called>>,
}

#[derive(Clone, Copy)]
enum CallKind<'call> {
    Blocking,
    Begun(Place<'call, MPI_Request>),
    Planned(MPI_Info, Place<'call, MPI_Request>),
}

impl<'call> Way<'call> {
    /// The call returns when the operation is over.
    pub fn blocking(name: &'static str) -> Way<'call> {
        Way { name, kind: CallKind::Blocking, called: Cell::new(None) }
    }

    /// The call begins it.
    pub fn begun(name: &'static str, request: Place<'call, MPI_Request>) -> Way<'call> {
        Way { name, kind: CallKind::Begun(request), called: Cell::new(None) }
    }

    /// The call describes it.
    pub fn planned(name: &'static str, info: MPI_Info, request: Place<'call, MPI_Request>) -> Way<'call> {
        Way { name, kind: CallKind::Planned(info, request), called: Cell::new(None) }
    }

    /// Whether the call returns when the operation is over.
    #[inline(always)]
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(self.kind, CallKind::Blocking)
    }

    /// Where the request goes of a call that begins the operation, if there is a place for it.
    pub(crate) fn begins(&self) -> Option<Slot<'call, MPI_Request>> {
        match self.kind {
            CallKind::Begun(request) => request.there(),
            CallKind::Blocking | CallKind::Planned(..) => None,
        }
    }

    /// The function that was called.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Compares the calls of all members (`WEFT_CHECK`): now, or beside the operation where the call does not
    /// wait.
    pub(crate) fn check(&self, comm: &Communicator, operation: impl FnOnce() -> String) -> Result<()> {
        match self.kind {
            CallKind::Blocking | CallKind::Planned(..) => comm.check(operation),
            CallKind::Begun(_) => {
                self.note(|called| called.by_all = operation());
                Ok(())
            }
        }
    }

    /// Compares what must be alike among the members of each group of an inter-communicator (`WEFT_CHECK`):
    /// now, or beside the operation where the call does not wait. Call it after [`Way::check`].
    pub(crate) fn check_sides(&self, comm: &Communicator, operation: impl FnOnce() -> String) -> Result<()> {
        match self.kind {
            CallKind::Blocking | CallKind::Planned(..) => comm.check_sides(operation),
            CallKind::Begun(_) => {
                self.note(|called| called.by_side = operation());
                Ok(())
            }
        }
    }

    fn note(&self, note: impl FnOnce(&mut Called)) {
        if state::checks() {
            let mut called = self.called.take().unwrap_or_default();
            note(&mut called);
            self.called.set(Some(called));
        }
    }

    /// Does what was called, with the operation as it is described.
    pub(crate) fn call(
        &self,
        comm: MPI_Comm,
        describe: impl FnOnce(&'static Runtime, &Communicator) -> Result<Described>,
    ) -> c_int {
        if let CallKind::Planned(hints, request) = self.kind {
            let plan = |runtime, held: &crate::objects::Held| {
                info::check(hints)?;
                let mut described = describe(runtime, &held.comm)?;
                described.check()?;
                described.tag = Some(held.comm.plan_tag());
                Ok(Plan::Collective(Arc::new(described)))
            };
            return persistent::adopt(self.name, comm, request, plan);
        }
        call(self.name, Target::Comm(comm), |runtime| {
            let object = runtime.comm(comm)?;
            let CallKind::Begun(request) = self.kind else {
                return describe(runtime, &object.comm)?.run(&object.comm);
            };
            let place = request.checked("request")?;
            let described = describe(runtime, &object.comm)?;
            let begun = described.begin(&object.comm, comm, self.called.take())?;
            place.set(runtime.adopt_request(begun)?);
            Ok(())
        })
    }
}

/// Memory of the program that an operation reads or writes.
pub(crate) struct Side<B> {
    buffer: B,
    sections: BlocksOfCall,
}

enum BlocksOfCall {
    One([Section; 1]),
    Listed(Vec<Section>),
}

impl<B: Buffer> Side<B> {
    /// One section at the beginning of a buffer.
    pub(crate) fn whole(buffer: B, section: [Section; 1]) -> Side<B> {
        Side { buffer, sections: BlocksOfCall::One(section) }
    }

    /// Sections anywhere.
    pub(crate) fn listed(buffer: B, sections: Vec<Section>) -> Side<B> {
        Side { buffer, sections: BlocksOfCall::Listed(sections) }
    }

    /// Nothing.
    pub(crate) fn none() -> Side<B> {
        Side::listed(B::NULL, Vec::new())
    }

    /// Its address and its sections.
    fn stands(&self) -> (*const c_void, &[Section]) {
        (self.buffer.start(), self.sections())
    }

    pub(crate) fn sections(&self) -> &[Section] {
        match &self.sections {
            BlocksOfCall::One(section) => section,
            BlocksOfCall::Listed(sections) => sections,
        }
    }
}

/// An operation, ready to be done: what stands in the program's memory is looked at when it begins.
pub(crate) struct Described {
    pub gives: Side<Sent>,
    pub gets: Side<Received>,
    /// The receive buffer holds this rank's contribution, or a part of it, when the operation begins
    /// (`MPI_IN_PLACE`, or the buffer of a broadcast).
    pub loaded: bool,
    /// Whether the operation writes to the receive buffer: at the root of a broadcast it does not.
    pub receives: bool,
    pub what: What,
    /// The operator and datatype of a reduction.
    pub operation: Option<TypedOperator>,
    /// The tag of the operation's messages, where members may begin operations in different orders
    /// (persistent collectives).
    pub tag: Option<i32>,
}

/// The kind of a collective operation: all that its schedule depends on, beside the lengths of its blocks.
pub(crate) enum What {
    /// Every rank contributes equally much, so the schedule may be used again.
    Even(Collective),
    /// Each rank has parts of different lengths. `sends` are the blocks of the input; `None` where they are
    /// as the send side describes them.
    Uneven { what: Uneven, sends: Option<Vec<Block>> },
    /// An operation with neighbours, of equally long blocks.
    Around(Around),
    /// One block is sent to all neighbours. `receives` are the blocks of their data in the output; `None`
    /// where they are as the receive side describes them.
    AroundToAll { receives: Option<Vec<Block>> },
    /// A block of its own for each neighbour. `sends` and `receives` are the blocks of input and output;
    /// `None` where they are as the two sides describe them.
    AroundEach { sends: Option<Vec<Block>>, receives: Option<Vec<Block>> },
    /// An operation over the two groups of an inter-communicator.
    Across(Crossing),
}

impl What {
    /// The rank that it begins or ends at; over two groups, that of the other one.
    fn root(&self) -> Option<Rank> {
        match self {
            What::Even(collective) => collective.root(),
            What::Uneven { what, .. } => what.root(),
            What::Across(crossing) => crossing.remote_root(),
            _ => None,
        }
    }

    /// What is exchanged with neighbours, where it is with them.
    fn surround<'a>(&'a self, input: &'a Input, output: &'a Output) -> Option<Surround<'a>> {
        let standing = |blocks: &'a Option<Vec<Block>>, all: &'a [Block]| blocks.as_deref().unwrap_or(all);
        match self {
            What::Around(around) => Some(Surround::Even(*around)),
            What::AroundToAll { receives } => Some(Surround::ToAll {
                bytes: input.payload.bytes(),
                receives: standing(receives, &output.blocks),
            }),
            What::AroundEach { sends, receives } => Some(Surround::Each {
                sends: standing(sends, &input.blocks),
                receives: standing(receives, &output.blocks),
            }),
            What::Even(_) | What::Uneven { .. } | What::Across(_) => None,
        }
    }

    fn schedule(&self, comm: &Communicator, input: &Input, output: &Output) -> Result<Schedule> {
        Ok(match self {
            What::Even(collective) => collective.schedule(&comm.shape()),
            What::Uneven { what, sends } => {
                listed(*what, sends.as_deref(), input, output).schedule(&comm.shape())
            }
            What::Around(_) | What::AroundToAll { .. } | What::AroundEach { .. } => {
                let surround = self.surround(input, output).expect("it is with neighbours");
                surround.schedule(comm.among_living().neighbourhood()?)
            }
            What::Across(crossing) => crossing.schedule(&comm.two_groups()?, &input.blocks, &output.blocks),
        })
    }
}

/// An operation with the blocks of its buffers.
fn listed<'a>(what: Uneven, sends: Option<&'a [Block]>, input: &'a Input, output: &'a Output) -> Listed<'a> {
    Listed { what, sends: sends.unwrap_or(&input.blocks), receives: &output.blocks }
}

impl Described {
    /// An operation that combines nothing.
    pub(crate) fn new(what: What, gives: Side<Sent>, gets: Side<Received>, loaded: bool) -> Described {
        Described { gives, gets, loaded, receives: true, what, operation: None, tag: None }
    }

    /// Whether the memory can be what it is said to be; the memory itself is not looked at.
    fn check(&self) -> Result<()> {
        Input::check(self.gives.buffer, self.gives.sections())?;
        Input::check(self.gets.buffer, self.gets.sections())?;
        check_sections_apart(self.gives.stands(), self.gets.stands())
    }

    fn bind(&self, comm: &Communicator) -> Result<(Input, Output)> {
        let input = Input::new(self.gives.buffer, self.gives.sections())?;
        // The places of blank ranks come out as they went in.
        let loaded = self.loaded || comm.has_blanks();
        let mut output = Output::new(self.gets.buffer, self.gets.sections(), loaded)?;
        input.check_apart(&output, self.gives.stands(), self.gets.stands())?;
        if !self.receives {
            output.keep();
        }
        Ok((input, output))
    }

    /// Why it cannot be done: its root is blank. Over two groups those of the root's cannot know that, and
    /// count one more operation that does nothing; so the others do the same.
    fn refused(&self, comm: &Communicator) -> Option<Error> {
        comm.check_root(self.what.root()?).err()
    }

    /// Does it.
    fn run(&self, comm: &Communicator) -> Result<()> {
        let (input, mut output) = self.bind(comm)?;
        let (payload, lent) = (input.payload, output.lend());
        let by = |left: Payload<'_>, right: Option<Payload<'_>>, out: &mut UserMemory| {
            if let Some(operation) = &self.operation {
                operation.combine(left, right, out);
            }
        };
        let combine = match self.operation {
            None => Combining::Nothing,
            Some(TypedOperator::Predefined(operator, predefined)) => {
                Combining::Predefined(operator, predefined)
            }
            Some(TypedOperator::Search(..)) => Combining::By(&by),
            Some(TypedOperator::User { .. }) => Combining::Program(&by),
        };
        match &self.what {
            What::Even(collective) => comm.perform(*collective, payload, lent, combine)?,
            What::Uneven { what, sends } => {
                let listed = listed(*what, sends.as_deref(), &input, &output);
                comm.perform_uneven(listed, payload, lent, combine)?;
            }
            What::Around(_) | What::AroundToAll { .. } | What::AroundEach { .. } => {
                let surround = self.what.surround(&input, &output).expect("it is with neighbours");
                comm.perform_around(surround, payload, lent)?;
            }
            what => {
                let refused = self.refused(comm);
                let schedule = match refused {
                    None => what.schedule(comm, &input, &output)?,
                    Some(_) => Schedule::idle(),
                };
                comm.run(schedule, payload, lent, combine)?;
                refused.map_or(Ok(()), Err)?;
            }
        }
        output.finish()
    }

    /// Begins the operation. `called`, where it is known, is compared with the calls of the other members
    /// (`WEFT_CHECK`).
    pub(super) fn begin(
        &self,
        comm: &Communicator,
        errors_to: MPI_Comm,
        called: Option<Called>,
    ) -> Result<RequestObject> {
        // What was planned may have lost its root since.
        if let Some(error) = self.refused(comm) {
            if comm.is_inter() && self.tag.is_none() {
                let nothing = Buffers { input: Payload::EMPTY, output: UserMemory::EMPTY };
                drop(comm.start_schedule(Schedule::idle(), nothing, OwnedCombining::Nothing, None, called));
            }
            return Err(error);
        }
        let (input, mut output) = self.bind(comm)?;
        let combine = match self.operation.clone() {
            None => OwnedCombining::Nothing,
            Some(TypedOperator::Predefined(operator, predefined)) => {
                OwnedCombining::Predefined(operator, predefined)
            }
            Some(operation) => OwnedCombining::By(Box::new(move |left, right, out| {
                let _within = operators::Within::enter(operators::Holding::Engine);
                operation.combine(left, right, out);
            })),
        };
        let buffers = Buffers { input: input.payload, output: output.lend() };
        let ongoing = match self.what {
            What::Even(collective) if !comm.is_inter() => {
                comm.start(collective, buffers, combine, self.tag, called)
            }
            What::Uneven { what, ref sends } => {
                let listed = listed(what, sends.as_deref(), &input, &output);
                comm.start_uneven(listed, buffers, combine, self.tag, called)
            }
            _ => {
                let schedule = self.what.schedule(comm, &input, &output)?;
                comm.start_schedule(schedule, buffers, combine, self.tag, called)
            }
        };
        Ok(RequestObject::Collective { errors_to, ongoing, input, output })
    }
}
