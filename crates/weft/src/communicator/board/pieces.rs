//! Operations whose data is too long for entries: it goes in pieces, one number for each, which stand in trays
//! (decisions/0059). So nothing is asked for, no call of the system is made, and each piece is combined or taken while it is in
//! the caches. Of two members here; of more in [`several`](super::several).
//!
//! A member gives up to [`Board::PIECES_AHEAD`] pieces before it takes the first one. How long the data is, and in how many pieces
//! it comes, stands in each entry: where that is not what the other expects, both go on to the last piece, so that they are at the
//! same number afterwards, and the data is lost.

use collectives::{Block, Cause};
use fabric::{Heap, Payload, UserMemory};
use messaging::Rank;

use super::pairs::Pairs;
use super::plan::{Hears, Plan, ROOM_BYTES, Then};
use super::{Communicator, Reduce, Visit, is_turn_due};
use crate::error::{Class, Error, Result};
use crate::fabrics::{Board, Course, is_before};
use crate::memory::giving;

/// How long the data is that each of two members gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lengths {
    pub gives: usize,
    pub gets: usize,
    /// Pieces are whole elements of so many bytes.
    pub element_bytes: usize,
}

/// Which lengths of an operation of two go in pieces, by what was measured (decisions/0059, 0064). Other data goes by entries or
/// messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lot {
    /// On any machine: from which length on, and up to which.
    anywhere: [usize; 2],
    /// Where copies through shared memory are no slower than reads of the other's memory.
    where_quick: [usize; 2],
    /// Up to here it is a message all the same where data goes one way time after time.
    passed: usize,
}

/// What goes in pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Carried {
    pub lengths: Lengths,
    /// Only where copies are quick.
    pub wants_quick: bool,
    /// How much of it may go by a message all the same, where data goes one way time after time.
    pub passed_bytes: usize,
}

impl Lot {
    /// Both give and get, and keep what they get.
    pub(super) const EXCHANGE: Lot = Lot {
        where_quick: [ENTRY_BYTES_MAX + 1, BYTES_MAX],
        ..Lot::anywhere(ENTRY_BYTES_MAX + 1, FRESH_BYTES_MAX)
    };
    /// The same, where what is gotten may be written over what is given, and they differ in length: all is given first.
    pub(super) const EXCHANGE_OVER: Lot = Lot::anywhere(ENTRY_BYTES_MAX + 1, AHEAD_BYTES);
    /// Both give, and combine what they get.
    pub(super) const COMBINED: Lot = Lot::anywhere(ENTRY_BYTES_MAX + 1, BYTES_MAX);
    /// One of them gives, and the other combines, each in its turn.
    pub(super) const REDUCED: Lot =
        Lot { passed: PASSED_BYTES_MAX, ..Lot::anywhere(TURNED_BYTES_MAX + 1, BYTES_MAX) };
    /// The lower one gives, and the higher one combines, time after time.
    pub(super) const SCANNED: Lot = Lot::anywhere(16 << 10, BYTES_MAX);
    /// One of them gives, and the other keeps it. Of longer messages the receiver finds out which way is quicker just then.
    pub(super) const ONE_WAY: Lot = Lot {
        where_quick: [TURNED_BYTES_MAX + 1, 256 << 10],
        passed: PASSED_BYTES_MAX,
        ..Lot::anywhere(TURNED_BYTES_MAX + 1, FRESH_BYTES_MAX)
    };
    /// One gives, and has got something before.
    const TURNED: Lot = Lot::anywhere(Board::PAYLOAD_BYTES_MAX + 1, TURNED_BYTES_MAX);

    const fn anywhere(least: usize, most: usize) -> Lot {
        Lot { anywhere: [least, most], where_quick: [least, most], passed: TURNED_BYTES_MAX }
    }
}

/// Data in pieces of one length; the last one may be shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cut {
    bytes: usize,
    piece_bytes: usize,
}

impl Lengths {
    /// In how many pieces it goes each way.
    #[cfg(test)]
    pub(super) fn pieces(&self) -> [u32; 2] {
        Cut::both(*self).map(Cut::pieces)
    }

    /// Whether it goes in pieces, and how: the same at both members.
    #[inline]
    pub(super) fn carried(self, lot: Lot) -> Option<Carried> {
        let longest = self.gives.max(self.gets);
        let is_in = |[least, most]: [usize; 2]| least <= longest && longest <= most;
        let wants_quick = !is_in(lot.anywhere);
        let is_any = (!wants_quick || is_in(lot.where_quick)) && self.element_bytes <= STRIP_BYTES;
        let passed_bytes = if longest <= lot.passed { longest } else { 0 };
        is_any.then_some(Carried { lengths: self, wants_quick, passed_bytes })
    }

    /// The same of what goes one way: short data is in one piece, whoever has got something before.
    #[inline]
    pub(super) fn carried_one_way(self, lot: Lot) -> Option<Carried> {
        self.carried(Lot::TURNED).or_else(|| self.carried(lot))
    }
}

impl Cut {
    /// What is given and what is gotten: two pieces at least, so that one is taken while the other is given, and as many each way
    /// as the longer one has, so that trays are swapped with each.
    fn both(lengths: Lengths) -> [Cut; 2] {
        let Lengths { gives, gets, element_bytes } = lengths;
        let longest = gives.max(gets);
        let half = longest.div_ceil(2).next_multiple_of(PIECE_BYTES_MIN);
        let piece_bytes = half.clamp(PIECE_BYTES_MIN, Board::piece_bytes_max(2));
        let longest =
            Cut { bytes: longest, piece_bytes: whole(piece_bytes.max(element_bytes), element_bytes) };
        let pieces = longest.pieces().max(1) as usize;
        [gives, gets].map(|bytes| {
            let least = bytes.div_ceil(pieces).next_multiple_of(element_bytes);
            let lines = whole(least.next_multiple_of(LINE), element_bytes).max(least);
            Cut { bytes, piece_bytes: lines.clamp(element_bytes, longest.piece_bytes) }
        })
    }

    fn pieces(self) -> u32 {
        self.bytes.div_ceil(self.piece_bytes) as u32
    }

    fn piece(self, number: u32) -> std::ops::Range<usize> {
        let at = number as usize * self.piece_bytes;
        at.min(self.bytes)..self.bytes.min(at + self.piece_bytes)
    }
}

/// As many whole elements as fit.
pub(super) fn whole(bytes: usize, element_bytes: usize) -> usize {
    bytes / element_bytes * element_bytes
}

/// What becomes of a piece that has come: it begins there in all that comes.
type Taken<'a> = &'a mut dyn FnMut(usize, Payload<'_>);

impl Visit<'_> {
    /// The operation, which has begun, has so many numbers; whether this member gives any of them. They are renewed between
    /// operations only.
    pub(super) fn begin_pieces(&mut self, pieces: u32, gives: bool) -> Result<()> {
        let renewal = Course::renewal_behind(self.number);
        if !is_before(self.number.wrapping_add(pieces - 1), renewal) {
            self.bulletin.leave(renewal.wrapping_sub(1));
            self.number = renewal;
            self.turn.course.begin_up_to(renewal);
            self.renew()?;
        }
        if gives && !self.board().can_give_pieces() {
            // All members count alike.
            self.number = self.number.wrapping_add(pieces - 1);
            self.turn.course.begin_up_to(self.number);
            return Err(self.of.no_memory_for_pieces());
        }
        Ok(())
    }

    /// Does an operation of two that goes in pieces.
    pub(super) fn carry_pieces(
        &mut self,
        plan: &Plan<'_>,
        lengths: Lengths,
        input: Payload<'static>,
        output: &mut UserMemory,
        reduce: Reduce<'_>,
    ) -> Result<()> {
        let contribution = if plan.is_loaded { giving(output) } else { input };
        let part = |Block { offset, bytes }| contribution.part(offset, bytes);
        let [front, back] = plan.entry();
        let give = if plan.gives { part(if front.bytes > 0 { front } else { back }) } else { Payload::EMPTY };
        let own = part(plan.own());
        let Then::Combined(sum) = plan.then else {
            let kept = plan.kept().map(|place| (place, own));
            let place = plan.place(Rank(1 - plan.here.0));
            return self.hand_over(lengths, give, kept, place, output);
        };
        let mut passage = Passage::begin(self, lengths, give)?;
        passage.give_ahead()?;
        if plan.hears == Hears::Lower && lengths.gets == 0 {
            output.write_at(0, own);
        }
        let room = passage.visit.turn.room.take().unwrap_or_else(|| Heap::new(ROOM_BYTES));
        let operands =
            if sum.of(plan.size).count() == 1 { Operands::TheirsAlone } else { Operands::of(plan.here) };
        let strip_bytes = whole(STRIP_BYTES, lengths.element_bytes);
        let strips = Strips { own, is_loaded: plan.is_loaded, operands, room: &room, strip_bytes };
        let finished = passage.finish(&mut |at, data| strips.combine(at, data, output, &mut *reduce));
        self.turn.room = Some(room);
        finished
    }

    /// The same where each of the two knows the lengths of its own blocks.
    pub(super) fn exchange_pieces(
        &mut self,
        pairs: &Pairs<'_>,
        lengths: Lengths,
        input: Payload<'static>,
        output: &mut UserMemory,
    ) -> Result<()> {
        let contribution = if pairs.is_loaded() { giving(output) } else { input };
        let part = |Block { offset, bytes }| contribution.part(offset, bytes);
        let other = Rank(1 - self.of.rank().0);
        let give = pairs.given_to(other).map_or(Payload::EMPTY, part);
        let kept = pairs.kept().map(|[own, place]| (place.offset, part(own)));
        let place = pairs.gotten_from(other).unwrap_or(Block::NOTHING).offset;
        self.hand_over(lengths, give, kept, place, output)
    }

    /// Gives that, keeps what this member has for itself at its place, and gets the other's to `place`.
    fn hand_over(
        &mut self,
        lengths: Lengths,
        give: Payload<'static>,
        kept: Option<(usize, Payload<'static>)>,
        place: usize,
        output: &mut UserMemory,
    ) -> Result<()> {
        let keep = |output: &mut UserMemory| {
            if let Some((at, own)) = kept {
                output.write_at(at, own);
            }
        };
        let mut passage = Passage::begin(self, lengths, give)?;
        // The other takes meanwhile.
        if lengths.gets == 0 {
            passage.finish(&mut |_, _| {})?;
            keep(output);
            return Ok(());
        }
        passage.give_ahead()?;
        keep(output);
        passage.finish(&mut |at, data| {
            output.write_at(place + at, data);
        })
    }
}

impl Communicator {
    #[cold]
    fn no_memory_for_pieces(&self) -> Error {
        let what =
            format!("{}: there is no shared memory left for what its members give each other", self.place());
        Error::new(Class::NoMemory, what).remedy("free memory of this machine, or of the container")
    }
}

/// What is combined of two contributions, of which one is this member's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operands {
    OwnBeforeTheirs,
    TheirsBeforeOwn,
    TheirsAlone,
}

impl Operands {
    fn of(here: Rank) -> Operands {
        if here == Rank(0) { Operands::OwnBeforeTheirs } else { Operands::TheirsBeforeOwn }
    }
}

/// Combines what comes with this member's own.
struct Strips<'a> {
    own: Payload<'static>,
    /// Whether that stands somewhere in the output.
    is_loaded: bool,
    operands: Operands,
    room: &'a Heap,
    strip_bytes: usize,
}

impl Strips<'_> {
    fn combine(&self, at: usize, theirs: Payload<'_>, output: &mut UserMemory, reduce: Reduce<'_>) {
        let is_in_place = self.own.start() == output.start().cast_const();
        let mut out = output.part(at, theirs.bytes());
        let own = self.own.part(at, theirs.bytes());
        match self.operands {
            Operands::TheirsAlone => {
                out.write_at(0, theirs);
            }
            Operands::TheirsBeforeOwn if is_in_place => reduce(theirs, None, &mut out),
            Operands::OwnBeforeTheirs if !self.is_loaded => reduce(own, Some(theirs), &mut out),
            Operands::TheirsBeforeOwn if !self.is_loaded => reduce(theirs, Some(own), &mut out),
            // What this member has is read before it is written over, a strip at a time.
            operands => {
                for begin in (0..theirs.bytes()).step_by(self.strip_bytes) {
                    let own = self.aside(own.part(begin, self.strip_bytes));
                    let theirs = theirs.part(begin, self.strip_bytes);
                    let is_lower = operands == Operands::OwnBeforeTheirs;
                    let [left, right] = if is_lower { [own, theirs] } else { [theirs, own] };
                    reduce(left, Some(right), &mut out.part(begin, theirs.bytes()));
                }
            }
        }
    }

    /// A copy of a strip that is to be written over.
    fn aside(&self, own: Payload<'_>) -> Payload<'_> {
        self.room.memory().write_at(0, own);
        self.room.payload().part(0, own.bytes())
    }
}

/// One operation, until this member has given all and taken all.
struct Passage<'v, 'a> {
    visit: &'v mut Visit<'a>,
    other: Rank,
    give: Payload<'static>,
    gives: Cut,
    gets: Cut,
    /// The number of the first piece.
    first: u32,
    given: u32,
    taken: u32,
    /// How many pieces come.
    coming: u32,
    /// What came is not as long as it was to be.
    mismatch: Option<Cause>,
    /// Nothing more is given or taken.
    is_over: bool,
}

impl<'v, 'a> Passage<'v, 'a> {
    fn begin(visit: &'v mut Visit<'a>, lengths: Lengths, give: Payload<'static>) -> Result<Passage<'v, 'a>> {
        let [gives, gets] = Cut::both(lengths);
        visit.begin_pieces(gives.pieces().max(gets.pieces()), lengths.gives > 0)?;
        let (first, coming) = (visit.number, gets.pieces());
        let other = Rank(1 - visit.of.rank().0);
        Ok(Passage {
            visit,
            other,
            give,
            gives,
            gets,
            first,
            given: 0,
            taken: 0,
            coming,
            mismatch: None,
            is_over: false,
        })
    }

    /// Gives what can be given before anything is taken.
    fn give_ahead(&mut self) -> Result<()> {
        while self.may_give() && self.given < Board::PIECES_AHEAD {
            self.give()?;
        }
        Ok(())
    }

    /// Gives the rest, and takes what comes.
    fn finish(mut self, taken: Taken<'_>) -> Result<()> {
        self.go_on(taken)?;
        match self.mismatch.take() {
            None => Ok(()),
            Some(cause) => Err(self.visit.of.swap_failed(self.other, cause)),
        }
    }

    fn go_on(&mut self, taken: Taken<'_>) -> Result<()> {
        loop {
            if self.may_give() {
                self.give()?;
            } else if self.taken < self.coming {
                self.take(taken)?;
            } else {
                self.is_over = true;
                return Ok(());
            }
        }
    }

    /// Whether the next piece may be given as far as this member's own part goes: it has taken what stood in that tray.
    fn may_give(&self) -> bool {
        let is_taken = self.given < self.taken + Board::PIECES_AHEAD || self.taken == self.coming;
        self.given < self.gives.pieces() && is_taken
    }

    fn give(&mut self) -> Result<()> {
        let number = self.first.wrapping_add(self.given);
        // Who only gives may never have to wait.
        if is_turn_due(number) && self.gets.bytes == 0 && self.given > 0 {
            self.visit.of.process().progress();
        }
        if !self.visit.turn.course.has_room_behind(number, self.visit.board().pieces_round()) {
            self.await_tray(number)?;
        }
        let piece = self.gives.piece(self.given);
        let told = [self.gives.bytes as u32, self.gives.pieces()];
        let piece = self.give.part(piece.start, piece.len());
        self.visit.board().give_piece(number, told, [piece, Payload::EMPTY]);
        self.visit.board().wake();
        self.given += 1;
        Ok(())
    }

    /// Waits until the other has taken the piece that was given a round ago. Where nothing was to come of it, and something has,
    /// it does something else.
    #[cold]
    fn await_tray(&mut self, number: u32) -> Result<()> {
        let (other, least) = (self.other.0, number.wrapping_sub(self.visit.board().pieces_round()));
        let (first, is_silent) = (self.first, self.gets.bytes == 0);
        let is_elsewhere = |board: &Board| is_silent && board.has(other, first);
        let is_free = |board: &Board| !is_before(board.through(other), least);
        let awaited = self.visit.until(None, |board| is_free(board) || is_elsewhere(board));
        self.is_over = awaited.is_err() || !is_free(self.visit.board());
        awaited?;
        if self.is_over {
            return Err(self.visit.of.is_elsewhere(self.other));
        }
        let through = self.visit.board().through(other);
        self.visit.turn.course.all_through(through);
        Ok(())
    }

    fn take(&mut self, taken: Taken<'_>) -> Result<()> {
        let number = self.first.wrapping_add(self.taken);
        self.await_piece(number).inspect_err(|_| self.is_over = true)?;
        if self.taken == 0 {
            self.compare(number);
        }
        let piece = self.gets.piece(self.taken);
        self.taken += 1;
        if self.mismatch.is_none() {
            let other = self.other.0;
            self.visit.board().read_piece(other, number, piece.len(), |data| taken(piece.start, data));
        }
        // Before it has given this, it has taken what this member gave so many numbers before, and what was before this operation.
        let before = number.wrapping_sub((Board::PIECES_AHEAD - 1).min(self.taken - 1));
        self.visit.turn.course.heard_before(before);
        self.visit.bulletin.leave(number);
        Ok(())
    }

    fn await_piece(&mut self, number: u32) -> Result<()> {
        let (other, bytes) = (self.other, self.gets.bytes);
        self.visit.number = number;
        if is_turn_due(number) && number != self.first {
            self.visit.of.process().progress();
        }
        self.visit.until(Some(&|from| (from == other).then_some(bytes)), |board| board.has(other.0, number))
    }

    /// Whether what comes is what was to come.
    fn compare(&mut self, number: u32) {
        let [bytes, pieces] = self.visit.board().announced(self.other.0, number);
        let (sent_bytes, expected_bytes) = (bytes as usize, self.gets.bytes);
        if sent_bytes != expected_bytes || pieces != self.coming {
            self.coming = pieces.clamp(1, PIECES_MAX);
            self.mismatch = Some(Cause::Mismatch { sent_bytes, expected_bytes });
        }
    }
}

impl Drop for Passage<'_, '_> {
    /// Also where an operator has panicked: the other goes on, and both count alike.
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.go_on(&mut |_, _| {});
        }
        let last = self.first.wrapping_add(self.gives.pieces().max(self.coming) - 1);
        self.visit.number = last;
        self.visit.turn.course.begin_up_to(last);
    }
}

/// What two exchange stands in entries up to here, which are two lines then.
pub(super) const ENTRY_BYTES_MAX: usize = 112;
/// The shortest pieces.
pub(super) const PIECE_BYTES_MIN: usize = 8 << 10;
/// What goes one way is in a tray up to here.
pub(super) const TURNED_BYTES_MAX: usize = PIECE_BYTES_MIN;
/// Data that its giver has just written is read from its caches more slowly than it is copied, up to here at least (decisions/0067).
const FRESH_BYTES_MAX: usize = 64 << 10;
/// Longer data of one way is not a message all the same, where it goes in pieces.
const PASSED_BYTES_MAX: usize = 16 << 10;
/// The longest data; it is told in 32 bits.
pub(super) const BYTES_MAX: usize = 1 << 30;
/// No data has more pieces.
pub(super) const PIECES_MAX: u32 = (BYTES_MAX / STRIP_BYTES) as u32;
/// So much is given before anything is taken: three pieces at most, as whole elements of any length.
const AHEAD_BYTES: usize = 2 * PIECE_BYTES_MIN;
const _: () = assert!(3 <= Board::PIECES_AHEAD);
/// Pieces begin where lines do, as far as elements let them.
const LINE: usize = 64;
/// What is combined at a time.
pub(super) const STRIP_BYTES: usize = 4 << 10;
