//! A collective operation as steps: plain data, and the few rules by which it is put together.

use std::fmt;

use messaging::Rank;

/// One rank's part of a collective operation.
///
/// Steps are taken in their order. A send or a receive only begins where it stands; a copy or a reduction is
/// done at once; [`Step::Wait`] lets nothing pass until everything begun before it is complete,
/// [`Step::WaitReceived`] until what is to come has come. The end is a wait as well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// The algorithm, as a person would name it.
    pub algorithm: &'static str,
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// Room that the steps need beside input and output.
    pub scratch_bytes: usize,
}

/// One step of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Begins to send the bytes. They stay as they are until the next [`Step::Wait`].
    Send {
        /// The rank that receives the bytes.
        to: Rank,
        /// Where they stand.
        from: Span,
    },
    /// Begins to receive exactly as many bytes as the span has. Nothing else touches the span until the next
    /// wait of either kind.
    Receive {
        /// The rank that sends the bytes.
        from: Rank,
        /// Where they go.
        into: Span,
    },
    /// Copies; both spans are of one length.
    Copy {
        /// Where the bytes stand.
        from: Span,
        /// Where they go.
        into: Span,
    },
    /// `into` = `from` op `into`, element by element: what lower ranks contributed stands in `from`, unless
    /// the operator is commutative. Both spans are of one length, a multiple of the element's.
    Reduce {
        /// The left operand.
        from: Span,
        /// The right operand, and the result.
        into: Span,
    },
    /// Every receive begun so far is complete. Sends may go on: their receivers may just be listening to
    /// others.
    WaitReceived,
    /// Everything begun so far is complete.
    Wait,
}

/// Some bytes of one of the three buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Which buffer.
    pub buffer: Buffer,
    /// Where in it they begin.
    pub offset: usize,
    /// How many they are.
    pub bytes: usize,
}

/// The memory a schedule speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffer {
    /// What the rank contributes; only read.
    Input,
    /// What the rank gets.
    Output,
    /// Room of the execution's own.
    Scratch,
}

impl Span {
    /// The first `bytes` bytes of the input.
    #[must_use]
    pub fn input(bytes: usize) -> Span {
        Span { buffer: Buffer::Input, offset: 0, bytes }
    }

    /// The first `bytes` bytes of the output.
    #[must_use]
    pub fn output(bytes: usize) -> Span {
        Span { buffer: Buffer::Output, offset: 0, bytes }
    }

    /// Where a rank's own contribution stands.
    pub(crate) fn own(bytes: usize, in_place: bool) -> Span {
        if in_place { Span::output(bytes) } else { Span::input(bytes) }
    }

    /// `bytes` bytes from `offset` on, counted from the span's beginning.
    pub(crate) fn part(self, offset: usize, bytes: usize) -> Span {
        Span { buffer: self.buffer, offset: self.offset + offset, bytes }
    }

    /// The bytes of this span where the contents of its buffer stand in `to`, from the beginning of `to` on.
    fn moved_to(self, to: Span) -> Span {
        to.part(self.offset, self.bytes)
    }

    /// The first byte behind it.
    #[must_use]
    pub fn end(&self) -> usize {
        self.offset + self.bytes
    }

    /// Whether the two have a byte in common.
    #[must_use]
    pub fn overlaps(&self, other: &Span) -> bool {
        let (start, end) = (self.offset.max(other.offset), self.end().min(other.end()));
        self.buffer == other.buffer && start < end
    }

    fn is_followed_by(&self, next: &Span) -> bool {
        self.buffer == next.buffer && self.end() == next.offset
    }

    fn and(self, more: usize) -> Span {
        Span { bytes: self.bytes + more, ..self }
    }
}

impl Schedule {
    /// A schedule without steps, for a rank that has no part in the operation.
    #[must_use]
    pub fn idle() -> Schedule {
        Schedule::new("nothing")
    }

    pub(crate) fn new(algorithm: &'static str) -> Schedule {
        Schedule { algorithm, steps: Vec::new(), scratch_bytes: 0 }
    }

    /// Whether the steps stay inside buffers of these lengths.
    #[must_use]
    pub fn fits(&self, input_bytes: usize, output_bytes: usize) -> bool {
        self.steps.iter().flat_map(Step::spans).all(|span| {
            let room = match span.buffer {
                Buffer::Input => input_bytes,
                Buffer::Output => output_bytes,
                Buffer::Scratch => self.scratch_bytes,
            };
            span.end() <= room
        })
    }

    /// Memory that the steps take.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.steps.capacity() * size_of::<Step>()
    }

    /// Begins to send; nothing is sent where there is nothing to send, and the receiver knows it as well.
    pub(crate) fn send(&mut self, to: Rank, from: Span) {
        if from.bytes > 0 {
            self.steps.push(Step::Send { to, from });
        }
    }

    /// Begins to receive, unless there is nothing to come.
    pub(crate) fn receive(&mut self, from: Rank, into: Span) {
        if into.bytes > 0 {
            self.steps.push(Step::Receive { from, into });
        }
    }

    /// Receives now, whatever becomes of the sends: one message after the other costs least where they are
    /// short.
    pub(crate) fn receive_now(&mut self, from: Rank, into: Span) {
        if into.bytes > 0 {
            self.steps.extend([Step::Receive { from, into }, Step::WaitReceived]);
        }
    }

    /// Sends a message without content.
    pub(crate) fn tell(&mut self, to: Rank) {
        self.steps.push(Step::Send { to, from: Span::output(0) });
    }

    /// Receives a message without content.
    pub(crate) fn hear(&mut self, from: Rank) {
        self.steps.push(Step::Receive { from, into: Span::output(0) });
    }

    /// Copies, unless the bytes are there already. A copy that only continues the last one becomes part of
    /// it.
    pub(crate) fn copy(&mut self, from: Span, into: Span) {
        debug_assert_eq!(from.bytes, into.bytes, "a copy changes its length");
        if from.bytes == 0 || from == into {
            return;
        }
        if let Some(Step::Copy { from: last_from, into: last_into }) = self.steps.last_mut()
            && last_from.is_followed_by(&from)
            && last_into.is_followed_by(&into)
            && !last_from.and(from.bytes).overlaps(&last_into.and(into.bytes))
        {
            (*last_from, *last_into) = (last_from.and(from.bytes), last_into.and(into.bytes));
            return;
        }
        self.steps.push(Step::Copy { from, into });
    }

    /// `into` = `from` op `into`.
    pub(crate) fn reduce(&mut self, from: Span, into: Span) {
        debug_assert_eq!(from.bytes, into.bytes, "operands of different lengths");
        if from.bytes > 0 {
            self.steps.push(Step::Reduce { from, into });
        }
    }

    /// Lets nothing pass until everything begun is complete; says nothing where nothing was begun.
    pub(crate) fn wait(&mut self) {
        let mut received = false;
        for step in self.steps.iter().rev().take_while(|step| **step != Step::Wait) {
            received |= *step == Step::WaitReceived;
            if matches!(step, Step::Send { .. }) || !received && matches!(step, Step::Receive { .. }) {
                return self.steps.push(Step::Wait);
            }
        }
    }

    /// This schedule among other ranks: each rank's number is `by` higher.
    pub(crate) fn shifted(self, by: u32) -> Schedule {
        self.among(|rank| Rank(rank.0 + by))
    }

    /// This schedule among other ranks: each rank is replaced by what `member` answers for it.
    pub(crate) fn among(mut self, member: impl Fn(Rank) -> Rank) -> Schedule {
        for step in &mut self.steps {
            if let Step::Send { to: partner, .. } | Step::Receive { from: partner, .. } = step {
                *partner = member(*partner);
            }
        }
        self
    }

    /// Goes on with another schedule when everything begun so far is complete. Its scratch is room of its own
    /// here.
    pub(crate) fn append(&mut self, next: Schedule) {
        self.append_with(next, |span| span);
    }

    /// Goes on with another schedule when everything begun so far is complete. What `next` has in `buffer`
    /// stands in `to` instead, from the beginning of `to` on.
    pub(crate) fn append_redirected(&mut self, next: Schedule, buffer: Buffer, to: Span) {
        self.append_with(next, |span| if span.buffer == buffer { span.moved_to(to) } else { span });
    }

    /// Goes on with another schedule when everything begun so far is complete. What `next` has in its input
    /// and its output stands in the spans `input` and `output` instead, from their beginnings on.
    pub(crate) fn append_between(&mut self, next: Schedule, input: Span, output: Span) {
        self.append_with(next, |span| match span.buffer {
            Buffer::Input => span.moved_to(input),
            _ => span.moved_to(output),
        });
    }

    /// Goes on with another schedule that leaves alone what is still being sent: it waits only for what is to
    /// come.
    pub(crate) fn append_readers(&mut self, next: Schedule) {
        self.wait_received();
        self.join(next, |span| span);
    }

    fn append_with(&mut self, next: Schedule, place: impl Fn(Span) -> Span) {
        self.wait();
        self.join(next, place);
    }

    fn join(&mut self, mut next: Schedule, place: impl Fn(Span) -> Span) {
        let room = self.scratch(next.scratch_bytes);
        let place = |span: &mut Span| match span.buffer {
            Buffer::Scratch => span.offset += room.offset,
            _ => *span = place(*span),
        };
        for step in &mut next.steps {
            match step {
                Step::Send { from, .. } => place(from),
                Step::Receive { into, .. } => place(into),
                Step::Copy { from, into } | Step::Reduce { from, into } => {
                    place(from);
                    place(into);
                }
                Step::WaitReceived | Step::Wait => {}
            }
        }
        self.steps.append(&mut next.steps);
    }

    /// Lets nothing pass until all receives begun are complete; says nothing where there are none.
    pub(crate) fn wait_received(&mut self) {
        let open =
            self.steps.iter().rev().take_while(|step| !matches!(step, Step::Wait | Step::WaitReceived));
        if open.into_iter().any(|step| matches!(step, Step::Receive { .. })) {
            self.steps.push(Step::WaitReceived);
        }
    }

    /// Scratch room of its own, where any element is aligned.
    pub(crate) fn scratch(&mut self, bytes: usize) -> Span {
        let offset = self.scratch_bytes.next_multiple_of(SCRATCH_ALIGNMENT_BYTES);
        self.scratch_bytes = offset + bytes;
        Span { buffer: Buffer::Scratch, offset, bytes }
    }
}

impl Step {
    /// The spans it touches.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        let pair = match *self {
            Step::Send { from, .. } => [Some(from), None],
            Step::Receive { into, .. } => [Some(into), None],
            Step::Copy { from, into } | Step::Reduce { from, into } => [Some(from), Some(into)],
            Step::WaitReceived | Step::Wait => [None, None],
        };
        pair.into_iter().flatten()
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} steps, {} scratch bytes", self.algorithm, self.steps.len(), self.scratch_bytes)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Send { to, from } => write!(f, "send    {from} to rank {}", to.0),
            Step::Receive { from, into } => write!(f, "receive {into} from rank {}", from.0),
            Step::Copy { from, into } => write!(f, "copy    {from} into {into}"),
            Step::Reduce { from, into } => write!(f, "reduce  {from} into {into}"),
            Step::WaitReceived => write!(f, "wait for what comes"),
            Step::Wait => write!(f, "wait"),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffer = match self.buffer {
            Buffer::Input => "input",
            Buffer::Output => "output",
            Buffer::Scratch => "scratch",
        };
        write!(f, "{buffer} {}..{}", self.offset, self.end())
    }
}

/// Scratch spans begin at multiples of a cache line, which aligns every predefined element too.
const SCRATCH_ALIGNMENT_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_side_by_side_become_one() {
        let mut schedule = Schedule::new("test");
        schedule.copy(Span::input(0), Span::output(0));
        schedule.copy(Span::output(4), Span::output(4));
        assert_eq!(schedule.steps, []);
        for block in 0..3 {
            schedule.copy(Span::input(9).part(block * 3, 3), Span::output(20).part(10 + block * 3, 3));
        }
        let whole = Step::Copy { from: Span::input(9), into: Span::output(19).part(10, 9) };
        assert_eq!(schedule.steps, [whole]);
    }

    #[test]
    fn copies_that_read_what_the_last_one_wrote_stay_apart() {
        let mut schedule = Schedule::new("test");
        let data = Span::output(9);
        schedule.copy(data.part(0, 3), data.part(3, 3));
        schedule.copy(data.part(3, 3), data.part(6, 3));
        assert_eq!(schedule.steps.len(), 2);
    }

    #[test]
    fn a_wait_for_nothing_is_left_out() {
        let mut schedule = Schedule::new("test");
        schedule.wait();
        schedule.send(Rank(1), Span::input(1));
        schedule.copy(Span::input(1), Span::output(1));
        schedule.wait();
        schedule.copy(Span::input(1), Span::output(1));
        schedule.wait();
        assert_eq!(schedule.steps.iter().filter(|step| **step == Step::Wait).count(), 1);
        schedule.receive_now(Rank(1), Span::output(1));
        schedule.wait();
        assert_eq!(schedule.steps.last(), Some(&Step::WaitReceived), "what has come need not be waited for");
        schedule.send(Rank(1), Span::input(1));
        schedule.receive_now(Rank(1), Span::output(1));
        schedule.wait();
        assert_eq!(schedule.steps.last(), Some(&Step::Wait), "the send may not be over");
    }

    #[test]
    fn a_schedule_reads_like_a_list() {
        let mut schedule = Schedule::new("example");
        let room = schedule.scratch(8);
        schedule.send(Rank(3), Span::input(8));
        schedule.receive(Rank(2), room);
        schedule.wait();
        schedule.reduce(Span::input(8), room);
        schedule.copy(room, Span::output(16).part(8, 8));
        let expected = "example: 5 steps, 8 scratch bytes\n  send    input 0..8 to rank 3\n  receive scratch 0..8 \
                        from rank 2\n  wait\n  reduce  input 0..8 into scratch 0..8\n  copy    scratch 0..8 into \
                        output 8..16\n";
        assert_eq!(schedule.to_string(), expected);
        assert!(schedule.fits(8, 16) && !schedule.fits(7, 16) && !schedule.fits(8, 15));
    }
}
