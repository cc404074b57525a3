//! Operations of one round of two members: the plan in few numbers, which the compiler knows where the operation is known. Every
//! step of these counts (decisions/0063, 0084).

use std::sync::atomic::Ordering;

use collectives::{Activity, Block, Cause, Collective, Each, Reduction, Rooted, judge};
use fabric::{Heap, Payload, UserMemory};
use job::error::Result;
use job::fabrics::{Board, Ring};
use messaging::{Envelope, Pattern, Rank, Sending};

use super::pieces::{ENTRY_BYTES_MAX, PIECE_BYTES_MIN, is_whole};
use super::plan::{Operands, ROOM_BYTES};
use super::turn::Flow;
use super::{Bulletin, Combining, Communicator, Visit};
use crate::communicator::TAGS;
use crate::memory::giving;

/// What one of two members does. Nothing of it is lent to a function that is not a part of its caller, or all of it would stand in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OfTwo {
    /// Whether it gives the other something.
    pub gives: bool,
    /// That, where its contribution stands.
    pub give: Block,
    /// Whether it gets something, how much that is, and where it goes.
    pub gets: bool,
    pub place: usize,
    pub got_bytes: usize,
    /// Its contribution for itself, and where that goes if it must be brought there.
    pub own: Block,
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

    /// What the member of two does that is `here`: the same as [`Plan::of_two`](super::plan::Plan::of_two) has it. `None` where it is
    /// not of one round.
    #[inline(always)]
    pub(super) fn of(collective: Collective, here: Rank) -> Option<OfTwo> {
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

    #[inline(always)]
    fn flow(&self) -> Flow {
        let is_some = self.longest_bytes > 0;
        Flow { gives: is_some && self.gives, gets: is_some && self.gets }
    }
}

impl Communicator {
    /// Does an operation of one round of two members, on a board that there is. `None`: nothing has happened, and
    /// [`Communicator::perform_by_board`] knows what to do.
    #[inline(always)]
    pub(in crate::communicator) fn perform_of_two(
        &self,
        bulletin: &Bulletin,
        collective: Collective,
        input: Payload<'static>,
        output: &mut UserMemory,
        combining: Combining<'_>,
    ) -> Option<Result<()>> {
        if self.inner.standing.is_closed() {
            return None;
        }
        let two = OfTwo::of(collective, self.inner.rank)?;
        let Some(mut visit) = self.enter_board(bulletin, two.flow(), two.longest_bytes) else {
            let give = if two.is_loaded { giving(output) } else { input };
            let give = if two.gives { Some(give.part(two.give.offset, two.give.bytes)) } else { None };
            if two.kept.is_some() || two.operands.is_some() || two.gives == two.gets {
                return None;
            }
            return self.pass_message(
                bulletin,
                two.longest_bytes,
                give,
                output.part(two.place, two.got_bytes),
            );
        };
        if let Err(error) = visit.begin() {
            return Some(Err(error));
        }
        Some(visit.carry_of_two(two, input, output, combining))
    }

    /// Gives what stands there, or gets as much as there is room for, as a message: the one that the schedule of such an operation has, so that
    /// either member may go this way. It runs ahead of the member that takes it with less effort than anything on the board. `None`: nothing has
    /// happened, since it is not to be a message, or something stands in the way, or the message is not there within a few looks.
    #[inline(never)]
    fn pass_message(
        &self,
        bulletin: &Bulletin,
        bytes: usize,
        give: Option<Payload<'static>>,
        get: UserMemory,
    ) -> Option<Result<()>> {
        let inner = &*self.inner;
        let (here, flow) = (inner.rank, Flow { gives: give.is_some(), gets: give.is_none() });
        let mut turn = bulletin.turn.try_hold()?;
        let is_message = !turn.has_left && turn.is_message(flow, bytes);
        drop(turn);
        if !is_message || !inner.process.usual_for_two().has(false, bytes) {
            return None;
        }
        let with = Rank(1 - here.0);
        let peer = inner.group.peer(with)?;
        let (context, number) = (self.collective_context(), inner.sequence.load(Ordering::Relaxed));
        let tag = (number % TAGS) as i32;
        let (mut sending, mut failed) = (None, None);
        match give {
            Some(payload) => {
                let envelope = Envelope { context, source: here, tag };
                if let Sending::Pending(request) = inner.process.send_at_once(peer, envelope, payload)? {
                    sending = Some(request);
                }
            }
            None => {
                let pattern = Pattern { context, source: Some(with), tag: Some(tag) };
                let found = inner.process.receive_at_once(pattern, peer, get.room()?)?;
                if found.bytes != bytes {
                    failed = Some(Cause::Mismatch { sent_bytes: found.bytes, expected_bytes: bytes });
                }
            }
        }
        // One blocking operation is under way at a time (MPI 5.0 section 6.14).
        inner.sequence.store(number.wrapping_add(1), Ordering::Relaxed);
        self.tell_board();
        let sent = sending.map_or(Ok(()), |request| judge(&self.wait(request), with, Activity::Sending, 0));
        let done = failed.map_or(Ok(()), |cause| Err(self.collective_receive_failed(with, cause)));
        Some(done.and(sent.map_err(|failed| self.told(&failed))))
    }
}

impl Visit<'_> {
    /// Does an operation of one round of two members: writes this member's entry, or gives its only piece, and reads the other's.
    #[inline(always)]
    pub(super) fn carry_of_two(
        &mut self,
        two: OfTwo,
        input: Payload<'_>,
        output: &mut UserMemory,
        combining: Combining<'_>,
    ) -> Result<()> {
        let OfTwo { gives, give, gets, place, got_bytes, own, kept, is_loaded, operands, longest_bytes } =
            two;
        // Entries of few lines are as quick, and so are longer ones that go on behind each other.
        let in_entry_max = if self.goes_on_behind { Board::PAYLOAD_BYTES_MAX } else { ENTRY_BYTES_MAX };
        let is_piece = longest_bytes > in_entry_max;
        if is_piece {
            self.begin_pieces(Ring::Short, 1, gives)?;
        }
        let (number, next) = (self.number, self.number.wrapping_add(1));
        let in_entry = if is_piece { 0 } else { longest_bytes };
        let contribution = if is_loaded { giving(output) } else { input };
        // Shown as early as can be: the rest is done while the lines are on their way.
        if gives {
            self.give([contribution.part(give.offset, give.bytes), Payload::EMPTY], is_piece)?;
        }
        let own = contribution.part(own.offset, own.bytes);
        if let Some(place) = kept {
            output.write_at(place, own);
        }
        if !gets {
            if self.turn.course.has_room(next) {
                self.board().make_ready(next, in_entry);
            }
            return Ok(());
        }
        let other = 1 - self.of.inner.rank.0;
        if gives {
            self.board().wake();
        } else {
            self.board().look_ahead(other, next, in_entry);
        }
        self.hear_other(other, got_bytes, in_entry)?;
        self.turn.course.heard_all();
        // As its entry says that the other has given it.
        let [_, pieces] = self.board().announced(other, number);
        if pieces > 0 {
            self.take_piece(output.part(place, got_bytes), operands, (own, is_loaded), combining);
            return Ok(());
        }
        let (board, scratch) = (&self.bulletin.board, &mut self.turn.room);
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
        combining: Combining<'_>,
    ) {
        let (other, number) = (1 - self.of.inner.rank.0, self.number);
        let (board, scratch) = (&self.bulletin.board, &mut self.turn.room);
        board.read_piece((Ring::Short, other, number), out.bytes(), |theirs| match operands {
            None => _ = out.write_at(0, theirs),
            Some(operands) => combine(operands, own, theirs, (combining, scratch), &mut out),
        });
    }

    /// Waits for the entry of the other of two members, so much of which stands in the entry itself.
    #[inline(always)]
    fn hear_other(&mut self, other: u32, bytes: usize, in_entry: usize) -> Result<()> {
        let (board, number) = (&self.bulletin.board, self.number);
        // Two closures, so that the first one becomes a part of this.
        let is_soon = board.has_all(other, number, in_entry)
            || self.of.inner.process.is_soon(|| board.has_all(other, number, in_entry));
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
    (combining, scratch): (Combining<'_>, &mut Option<Heap>),
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
    (combining, scratch): (Combining<'_>, &mut Option<Heap>),
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
    use collectives::{Cores, Operator};

    use super::super::plan::Plan;
    use super::*;

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
