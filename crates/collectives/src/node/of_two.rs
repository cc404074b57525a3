//! Operations of one round of two members: the plan in few numbers, which the compiler knows where the operation is known. Every
//! step of these counts (decisions/0063, 0084).

use fabric::slots::{Ring, SLOT_BYTES_MAX, Slots};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

use super::pieces::{ENTRY_BYTES_MAX, PIECE_BYTES_MIN, is_whole};
use super::plan::{Operands, ROOM_BYTES};
use super::turn::Flow;
use super::{Combine, Member, Result, Visit};
use crate::memory::reading;
use crate::{Block, Collective, Each, Reduction, Rooted};

/// What one of two members does. Nothing of it is lent to a function that is not a part of its caller, or all of it would stand in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfTwo {
    /// Whether it gives the other something.
    pub gives: bool,
    /// That, where its contribution stands.
    pub give: Block,
    /// Whether it gets something.
    pub gets: bool,
    /// Where that goes in its output.
    pub place: usize,
    /// How many bytes it gets.
    pub got_bytes: usize,
    /// Its contribution for itself.
    pub own: Block,
    /// Where that goes in its output, if it must be copied there.
    pub kept: Option<usize>,
    /// Whether its contribution stands in its output.
    pub is_loaded: bool,
    /// What is combined, if anything.
    pub operands: Option<Operands>,
    /// The longest block of both.
    pub longest_bytes: usize,
}

impl OfTwo {
    /// All blocks are so long, and this member gives and gets one, which is all that it has.
    #[inline(always)]
    const fn exchange(bytes: usize) -> OfTwo {
        let all = Block { offset: 0, bytes };
        OfTwo {
            gives: true,
            give: all,
            gets: true,
            place: 0,
            got_bytes: bytes,
            own: all,
            kept: None,
            is_loaded: false,
            operands: None,
            longest_bytes: bytes,
        }
    }

    /// What the member of two does that is `here`: the same as `Plan::of_two` has it. `None` where it is
    /// not of one round.
    #[inline(always)]
    #[must_use]
    pub fn of(collective: Collective, here: Rank) -> Option<OfTwo> {
        let (first, other) = (here.0 == 0, 1 - here.0 as usize);
        let here = here.0 as usize;
        let is_at = |root: Rank| root.0 as usize == here;
        let two = match collective {
            Collective::Barrier => return Some(OfTwo::exchange(0)),
            Collective::Bcast { root, bytes } => {
                let (gives, all) = (is_at(root), OfTwo::exchange(bytes));
                OfTwo { gives, gets: !gives, is_loaded: true, ..all }
            }
            Collective::Gather(Rooted { root, bytes, in_place }) => {
                let (gets, all) = (is_at(root), OfTwo::exchange(bytes));
                let kept = if gets && !in_place { Some(here * bytes) } else { None };
                OfTwo { gives: !gets, gets, place: other * bytes, kept, ..all }
            }
            Collective::Scatter(Rooted { root, bytes, in_place }) => {
                let (gives, all) = (is_at(root), OfTwo::exchange(bytes));
                let kept = if gives && !in_place { Some(0) } else { None };
                let [give, own] = [other, here].map(|rank| Block { offset: rank * bytes, bytes });
                OfTwo { gives, give, gets: !gives, own, kept, ..all }
            }
            Collective::Allgather(Each { bytes, in_place }) => {
                let all = OfTwo::exchange(bytes);
                let own = Block { offset: if in_place { here * bytes } else { 0 }, bytes };
                let kept = if in_place { None } else { Some(here * bytes) };
                OfTwo { give: own, place: other * bytes, own, kept, is_loaded: in_place, ..all }
            }
            Collective::Alltoall(Each { bytes, in_place }) => {
                let all = OfTwo::exchange(bytes);
                let [give, own] = [other, here].map(|rank| Block { offset: rank * bytes, bytes });
                let kept = if in_place { None } else { Some(here * bytes) };
                OfTwo { give, place: other * bytes, own, kept, is_loaded: in_place, ..all }
            }
            Collective::Allreduce(of) => OfTwo::sum(of, first),
            Collective::Reduce(root, of) => {
                let gets = is_at(root);
                let sum = OfTwo::sum(of, first);
                OfTwo { gives: !gets, gets, operands: if gets { sum.operands } else { None }, ..sum }
            }
            Collective::ReduceScatterBlock(of) => {
                let sum = OfTwo::sum(of, first);
                let bytes = sum.longest_bytes;
                let [give, own] = [other, here].map(|rank| Block { offset: rank * bytes, bytes });
                OfTwo { give, own, ..sum }
            }
            Collective::Scan(of) => {
                let sum = OfTwo::sum(of, first);
                let kept = if first && !of.in_place { Some(0) } else { None };
                OfTwo {
                    gives: first,
                    gets: !first,
                    kept,
                    operands: if first { None } else { sum.operands },
                    ..sum
                }
            }
            Collective::Exscan(of) => {
                let operands = if first { None } else { Some(Operands::TheirsAlone) };
                OfTwo { gives: first, gets: !first, operands, ..OfTwo::sum(of, first) }
            }
        };
        if two.longest_bytes == 0 || two.longest_bytes > PIECE_BYTES_MIN { None } else { Some(two) }
    }

    #[inline(always)]
    fn sum(of: Reduction, first: bool) -> OfTwo {
        let operands = if first { Operands::OwnBeforeTheirs } else { Operands::TheirsBeforeOwn };
        let all = OfTwo::exchange(of.count * of.operator.element_bytes);
        OfTwo { is_loaded: of.in_place, operands: Some(operands), ..all }
    }

    /// Which way data flows.
    #[inline(always)]
    #[must_use]
    pub fn flow(&self) -> Flow {
        let is_some = self.longest_bytes > 0;
        Flow { gives: is_some && self.gives, gets: is_some && self.gets }
    }
}

impl<M: Member> Visit<'_, M> {
    /// Does an operation of one round of two members: writes this member's slot, or sends its only chunk, and reads the other's.
    ///
    /// # Errors
    /// When the peer has failed, or sends what does not fit.
    #[inline(always)]
    pub fn carry_of_two(
        &mut self,
        two: OfTwo,
        input: Payload<'_>,
        output: &mut UserMemory,
        combining: impl Combine,
    ) -> Result<()> {
        let OfTwo { gives, give, gets, place, got_bytes, own, kept, is_loaded, operands, longest_bytes } =
            two;
        // Entries of few lines are as quick, and so are longer ones that go on behind each other.
        let in_entry_max = if self.goes_on_behind { SLOT_BYTES_MAX } else { ENTRY_BYTES_MAX };
        let is_piece = longest_bytes > in_entry_max;
        if is_piece {
            self.begin_pieces(Ring::Short, 1, gives)?;
        }
        let (number, next) = (self.number, self.number.wrapping_add(1));
        let in_entry = if is_piece { 0 } else { longest_bytes };
        let contribution = if is_loaded { reading(output) } else { input };
        // Shown as early as can be: the rest is done while the lines are on their way.
        if gives {
            self.give([contribution.part(give.offset, give.bytes), Payload::EMPTY], is_piece)?;
        }
        let own = contribution.part(own.offset, own.bytes);
        if let Some(place) = kept {
            output.write_at(place, own);
        }
        if !gets {
            if self.turn.credit.has_room(next) {
                self.board().prefetch_own(next, in_entry);
            }
            return Ok(());
        }
        let other = 1 - self.of.rank().0;
        if gives {
            self.board().wake();
        } else {
            self.board().prefetch(other, next, in_entry);
        }
        self.hear_other(other, got_bytes, in_entry)?;
        self.turn.credit.heard_all();
        // As its entry says that the other has given it.
        let [_, pieces] = self.board().announced(other, number);
        if pieces > 0 {
            self.take_piece(output.part(place, got_bytes), operands, (own, is_loaded), combining);
            return Ok(());
        }
        let (board, scratch) = (self.of.slots(), &mut self.turn.room);
        match operands {
            None => board.read(other, number, got_bytes, |theirs| _ = output.write_at(place, theirs)),
            Some(operands) => board.read(other, number, got_bytes, |theirs| {
                let out = &mut output.part(0, got_bytes);
                combine(operands, (own, is_loaded), theirs, (combining, scratch), out);
            }),
        }
        Ok(())
    }

    /// Takes the other's only piece.
    #[inline(never)]
    fn take_piece(
        &mut self,
        mut out: UserMemory,
        operands: Option<Operands>,
        own: (Payload<'_>, bool),
        combining: impl Combine,
    ) {
        let (other, number) = (1 - self.of.rank().0, self.number);
        let (board, scratch) = (self.of.slots(), &mut self.turn.room);
        board.read_chunk((Ring::Short, other, number), out.bytes(), |theirs| match operands {
            None => _ = out.write_at(0, theirs),
            Some(operands) => combine(operands, own, theirs, (combining, scratch), &mut out),
        });
    }

    /// Waits for the entry of the other of two members, so much of which stands in the entry itself.
    #[inline(always)]
    fn hear_other(&mut self, other: u32, bytes: usize, in_entry: usize) -> Result<()> {
        let (board, number) = (self.of.slots(), self.number);
        // Two closures, so that the first one becomes a part of this.
        let is_soon = board.has_all(other, number, in_entry)
            || self.of.is_soon(|| board.has_all(other, number, in_entry));
        if is_soon && is_whole(board.announced(other, number), bytes) {
            return Ok(());
        }
        self.hear_other_late(other, bytes)
    }

    /// The same where the entry is not there soon, or is another one.
    #[cold]
    #[inline(never)]
    fn hear_other_late(&mut self, other: u32, bytes: usize) -> Result<()> {
        self.hear(Rank(other), &|from| (from == Rank(other)).then_some(bytes))
    }
}

/// Combines the contributions of two members where they stand, but for this member's own where it is to be written over.
#[inline(always)]
pub(super) fn combine(
    operands: Operands,
    (own, is_loaded): (Payload<'_>, bool),
    theirs: Payload<'_>,
    (combining, scratch): (impl Combine, &mut Option<Heap>),
    out: &mut UserMemory,
) {
    if is_loaded {
        return combine_aside(operands, own, theirs, (combining, scratch), out);
    }
    match operands {
        Operands::OwnBeforeTheirs => combining.combine(own, Some(theirs), out),
        Operands::TheirsBeforeOwn => combining.combine(theirs, Some(own), out),
        Operands::TheirsAlone => _ = out.write_at(0, theirs),
        Operands::OwnAlone => _ = out.write_at(0, own),
    }
}

/// The same with a copy of this member's own contribution, of at most [`ROOM_BYTES`] bytes.
#[inline(never)]
fn combine_aside(
    operands: Operands,
    own: Payload<'_>,
    theirs: Payload<'_>,
    (combining, scratch): (impl Combine, &mut Option<Heap>),
    out: &mut UserMemory,
) {
    let heap = scratch.take().unwrap_or_else(|| Heap::new(ROOM_BYTES));
    heap.memory().write_at(0, own);
    let own = heap.payload().part(0, own.bytes());
    combine(operands, (own, false), theirs, (combining, &mut None), out);
    *scratch = Some(heap);
}

#[cfg(test)]
mod tests {

    use super::super::plan::Plan;
    use super::*;
    use crate::{Cores, Operator};

    /// What is known where the operation is known is what the plan of any number of members says.
    #[test]
    fn two_members_do_what_their_plan_says() {
        let operator = Operator { element_bytes: 4, commutative: true };
        for bytes in [0, 4, 112, 116, 4096, PIECE_BYTES_MIN, PIECE_BYTES_MIN + 4] {
            for (root, in_place) in [(0, false), (0, true), (1, false), (1, true)] {
                let root = Rank(root);
                let (rooted, each) = (Rooted { root, bytes, in_place }, Each { bytes, in_place });
                let sum = Reduction { count: bytes / 4, operator, in_place };
                let all = [
                    Collective::Barrier,
                    Collective::Bcast { root, bytes },
                    Collective::Gather(rooted),
                    Collective::Scatter(rooted),
                    Collective::Allgather(each),
                    Collective::Alltoall(each),
                    Collective::Reduce(root, sum),
                    Collective::Allreduce(sum),
                    Collective::ReduceScatterBlock(sum),
                    Collective::Scan(sum),
                    Collective::Exscan(sum),
                ];
                for (collective, here) in all.into_iter().flat_map(|one| [0, 1].map(|here| (one, Rank(here))))
                {
                    let plan = Plan::of(collective, here, 2, Cores::Own).expect("two have a plan");
                    let (short, long) = (OfTwo::of(collective, here), plan.of_two());
                    let what = |two: OfTwo| {
                        // Where nothing is given, gotten or kept, nobody asks how much.
                        let give = if two.gives { two.give } else { Block::NOTHING };
                        let got = if two.gets { (two.place, two.got_bytes) } else { (0, 0) };
                        let has_own = two.kept.is_some() || two.operands.is_some();
                        let own = if has_own { two.own } else { Block::NOTHING };
                        (
                            two.gives,
                            give,
                            two.gets,
                            got,
                            own,
                            two.kept,
                            two.is_loaded,
                            two.operands,
                            two.longest_bytes,
                        )
                    };
                    assert_eq!(short.map(what), long.map(what), "{collective:?} at {here:?}");
                    assert_eq!(
                        short.map(|two| two.flow()),
                        long.map(|_| plan.flow()),
                        "{collective:?} at {here:?}"
                    );
                }
            }
        }
    }
}
