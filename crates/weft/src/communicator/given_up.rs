//! Members without a board tell each other by messages that they have given a collective operation up (decision 0054).
//!
//! ```text
//! who gives up -> the others   no bytes, under a tag that names the operation and that no schedule uses; the source is that of
//!                              rank 0 whoever sends it, so that one look finds what anybody has sent
//! ```
//! Who hears of it in the middle of the operation gives up, too, and tells the others in its turn. What was sent and nobody has received is taken
//! back: who would have received it is told.

use std::sync::atomic::Ordering;

use collectives::{Cause, Execution, Failed};
use fabric::{Payload, Peer, UserMemory};
use messaging::{Engine, Envelope, Mode, Pattern, Rank, RequestId, Sending};

use super::{Communicator, TAGS};
use crate::fabrics::Fabrics;

/// What is told of one operation by messages.
pub(super) struct GivenUp {
    /// The tag under which it is told.
    tag: i32,
    /// The engine's signs at the last look: nothing has come since if they are the same.
    signs: Option<u64>,
    /// Who has given it up, as far as this member was told.
    by: Vec<Peer>,
    /// What this member tells others, and has not gone yet.
    telling: Vec<RequestId>,
}

impl Communicator {
    /// What is told of an operation that has that tag; of a blocking one, of the last that has begun.
    pub(super) fn given_up(&self, tag: i32) -> GivenUp {
        let number = match u32::try_from(tag) {
            Ok(tag) if tag >= TAGS => BEGUN | (tag - TAGS),
            _ => self.inner.sequence.load(Ordering::Relaxed).wrapping_sub(1) & !(TOLD | BEGUN),
        };
        GivenUp { tag: (TOLD | number).cast_signed(), signs: None, by: Vec::new(), telling: Vec::new() }
    }

    /// Tells the other of two members that a swap by messages, the last operation that has begun, has failed here: it may
    /// have more to send.
    #[cold]
    pub(super) fn tell_of_swap(&self, tag: i32) {
        let mut given_up = self.given_up(tag);
        let other = Rank(1 - self.rank().0);
        self.process().act(|engine| given_up.tell(self, engine, std::iter::once(other)));
        self.process().until(|engine| given_up.is_over(engine).then_some(()));
    }
}

impl GivenUp {
    fn envelope(&self, of: &Communicator) -> Envelope {
        Envelope { context: of.collective_context(), source: Rank(0), tag: self.tag }
    }

    /// Gives an operation up that somebody has given up.
    #[inline]
    pub(super) fn look(&mut self, of: &Communicator, execution: &mut Execution, engine: &mut Engine<Fabrics>) {
        if self.signs != Some(engine.signs()) {
            self.hear(of, engine);
            if !self.by.is_empty() {
                self.follow(of, execution, engine);
            }
        }
    }

    fn hear(&mut self, of: &Communicator, engine: &mut Engine<Fabrics>) {
        let Envelope { context, source, tag } = self.envelope(of);
        let pattern = Pattern { context, source: Some(source), tag: Some(tag) };
        while let Some(message) = engine.take(&pattern) {
            self.by.push(message.from());
            let _ = engine.receive_matched(message, UserMemory::EMPTY);
        }
        self.signs = Some(engine.signs());
    }

    /// Gives up because of whoever was the first to say so: also one with whom this member has nothing to do may be what its
    /// partners wait for, and two of them may be in different operations and wait for each other.
    #[cold]
    fn follow(&mut self, of: &Communicator, execution: &mut Execution, engine: &mut Engine<Fabrics>) {
        let with = self.by.iter().find_map(|&peer| of.inner.group.rank(peer));
        let activity = execution.partners().next().map(|(activity, _)| activity);
        // What is closed ends by itself.
        if let (Some(activity), Some(with), None) = (activity, with, engine.closed(of.collective_context())) {
            execution.give_up(engine, Failed { with, activity, cause: Cause::Elsewhere }, &|_| true);
        }
    }

    /// Tells the others that the operation is given up, and takes back what nobody has received.
    #[cold]
    pub(super) fn tell_of(
        &mut self,
        of: &Communicator,
        execution: &mut Execution,
        engine: &mut Engine<Fabrics>,
    ) {
        execution.expect_nothing_of(&|_| true);
        match of.size() {
            size @ ..=TOLD_MAX => self.tell(of, engine, (0..size).map(Rank)),
            _ => self.tell(of, engine, execution.members().into_iter()),
        }
    }

    /// Tells these members, but for this one.
    #[cold]
    pub(super) fn tell(
        &mut self,
        of: &Communicator,
        engine: &mut Engine<Fabrics>,
        members: impl Iterator<Item = Rank>,
    ) {
        if engine.closed(of.collective_context()).is_some() {
            return;
        }
        let envelope = self.envelope(of);
        for rank in members.filter(|&rank| rank != of.rank()) {
            let Some(peer) = of.inner.group.peer(rank) else { continue };
            // Who cannot be reached waits for nobody.
            if let Ok(Sending::Pending(request)) = engine.send(peer, envelope, Payload::EMPTY, Mode::Standard)
            {
                self.telling.push(request);
            }
        }
    }

    /// Whether all is told that there was to tell.
    pub(super) fn is_over(&mut self, engine: &mut Engine<Fabrics>) -> bool {
        self.telling.retain(|&request| engine.test(request).is_none());
        self.telling.is_empty()
    }
}

/// Tags of what is told have this bit, and no others of collective operations.
const TOLD: u32 = 1 << 31;
/// They have this one where the operation was begun, so that it has a tag of its own.
const BEGUN: u32 = 1 << 30;
/// Of so many members all are told: they may have chosen different algorithms. Of more, those that this one's algorithm knows.
const TOLD_MAX: u32 = 64;
