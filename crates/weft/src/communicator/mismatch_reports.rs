//! What processes that have no communicator for it tell each other when their calls do not fit together: the
//! operations in `strangers` and the leaders in `inter` would else wait for each other for ever (decision
//! 0011).
//!
//! Their messages carry a tag that follows from the arguments of the call. Messages between two processes
//! keep their order, and a program of one thread is in one such call at a time. So a process that waits for
//! another's message under one tag, and finds one of it under another tag, knows that this one is in another
//! call, and challenges it:
//!
//! ```text
//! who waits -> whom it waits for   challenge  "under your tag: I am in that other call"
//! who is challenged -> challenger  withdrawal "under your tag: that is so, give up"
//! both -> their own partners       withdrawal "under our tag: give up"
//! ```
//! Who is not in that call any more says nothing to a challenge: its withdrawal is on its way. A tag that
//! came to nothing is dead: the same arguments lead to another tag from then on. A process with many threads
//! may be in many such calls; it does not challenge, and gives no answer.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use fabric::{Heap, Payload, Peer};
use job::error::{Class, Error};
use job::fabrics::Fabrics;
use job::tell;
use messaging::{Engine, Envelope, Mode, Pattern, Rank, Receiving, RequestId, Sending};

use super::check::{PATIENCE, ranks};
use crate::contexts::{self, mix};
use crate::group::Group;
use crate::memory::sending;
use crate::process::Process;

/// What a call is for: what must be the same at all who take part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Purpose {
    pub kind: ReportKind,
    /// The communicator it is made from, or another number that all know.
    pub base: u64,
    /// The fingerprint of the group, where all know it.
    pub group: u64,
    pub tag: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReportKind {
    /// `MPI_Comm_create_group`.
    Part,
    /// `MPI_Comm_create_from_group`.
    Found,
    /// The leaders of `MPI_Intercomm_create`.
    Meet,
    /// The leaders of `MPI_Intercomm_create_from_groups`.
    MeetStranger,
    /// One side of the latter.
    Side,
    /// Both sides of either.
    Join,
}

impl Purpose {
    /// A number for all of it.
    pub(super) fn number(&self) -> u64 {
        let words = [self.kind as u64, self.base, self.group, self.tag];
        words.into_iter().fold(1, |sum, word| mix(sum ^ word))
    }

    /// What is wrong, where a partner is in a call for something else.
    fn at_odds(&self, other: &Purpose) -> Class {
        if self.kind != other.kind {
            Class::Other
        } else if self.base != other.base {
            Class::Communicator
        } else if self.group != other.group {
            Class::Group
        } else if matches!(self.kind, ReportKind::Part | ReportKind::Meet) {
            Class::Tag
        } else {
            Class::Argument
        }
    }
}

/// What this process knows of calls that came to nothing.
#[derive(Default)]
pub(crate) struct Objections {
    /// Tags that this process was concerned with, and that are not used again.
    dead: HashSet<i32>,
    /// Tags that others have given up before this process has come to use them.
    announced: HashMap<i32, Objection>,
}

impl Objections {
    /// The tag of a purpose.
    fn tag_of(&self, purpose: &Purpose) -> i32 {
        let tag = |attempt: u64| (mix(purpose.number() ^ attempt) >> 33) as i32;
        (0..).map(tag).find(|&tag| self.is_alive(tag)).unwrap_or_default()
    }

    /// Whether a challenge from a call under this tag is to be heard. Who challenges out of a call that is
    /// known here to have come to nothing has not heard so yet: whoever ended that call tells all who take
    /// part in it.
    fn is_alive(&self, tag: i32) -> bool {
        !self.dead.contains(&tag)
    }

    fn bury(&mut self, tag: i32) {
        self.dead.insert(tag);
        // What was at odds with a call of this process has been told by that.
        let dead = &mut self.dead;
        self.announced.retain(|&tag, objection| {
            let known = dead.contains(&tag) || dead.contains(&objection.other);
            if known {
                dead.insert(tag);
            }
            !known
        });
    }

    /// Others have given up a tag that this process does not use at this moment.
    fn announce(&mut self, tag: i32, objection: Objection) {
        if self.dead.contains(&objection.other) {
            self.bury(tag);
        } else if self.is_alive(tag) {
            self.announced.insert(tag, objection);
        }
    }
}

/// Why a call came to nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Objection {
    class: Class,
    /// The tag of the call that this one is at odds with.
    other: i32,
    /// Who is to be told that it was right to challenge.
    challenger: Option<Peer>,
    /// Whether all partners have been told by another.
    is_told: bool,
}

/// A message about a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Notice {
    /// I wait for you in a call for that purpose, under that tag.
    Challenge { purpose: Purpose, tag: i32 },
    /// The call has come to nothing.
    Withdrawal { class: Class, other: i32 },
}

impl Notice {
    fn encode(&self) -> [u64; WORDS] {
        match *self {
            Notice::Challenge { purpose: Purpose { kind, base, group, tag: given }, tag } => {
                [CHALLENGE, tag as u64, kind as u64, base, group, given]
            }
            Notice::Withdrawal { class, other } => [WITHDRAWAL, other as u64, class_code(class), 0, 0, 0],
        }
    }

    fn decode([what, tag, word, base, group, given]: [u64; WORDS]) -> Option<Notice> {
        let tag = i32::try_from(tag).ok()?;
        match what {
            CHALLENGE => {
                let kind = *KINDS.get(usize::try_from(word).ok()?)?;
                Some(Notice::Challenge { purpose: Purpose { kind, base, group, tag: given }, tag })
            }
            WITHDRAWAL => Some(Notice::Withdrawal { class: class_of(word), other: tag }),
            _ => None,
        }
    }
}

/// A call under way.
pub(super) struct Encounter<'a> {
    process: &'a Process,
    /// All who take part.
    partners: &'a Group,
    purpose: &'a Purpose,
    tag: i32,
    /// What was there when notices were last looked for.
    signs: Option<u64>,
    challenged: Vec<(Peer, i32)>,
    notices: Vec<(Heap, RequestId)>,
    /// When it began, where that is to be told after a while.
    since: Option<Instant>,
}

impl<'a> Encounter<'a> {
    /// Begins a call.
    ///
    /// # Errors
    /// Where a partner has given it up already.
    pub(super) fn new(
        process: &'a Process,
        partners: &'a Group,
        purpose: &'a Purpose,
    ) -> Result<Encounter<'a>, Error> {
        let (signs, challenged, notices) = (None, Vec::new(), Vec::new());
        let since = process.checks().then(Instant::now);
        let mut encounter =
            Encounter { process, partners, purpose, tag: NO_TAG, signs, challenged, notices, since };
        // What has come until now is about earlier calls, or about this one before it has begun.
        if !process.is_shared() {
            process.with_engine(|engine| encounter.hear(engine));
        }
        let objections = process.objections();
        let tag = objections.tag_of(purpose);
        let announced = objections.announced.get(&tag).copied();
        drop(objections);
        encounter.tag = tag;
        match announced {
            Some(objection) => Err(encounter.fail(objection)),
            None => Ok(encounter),
        }
    }

    /// The tag of its messages.
    pub(super) fn tag(&self) -> i32 {
        self.tag
    }

    /// Waits for the outcome of `step`, which also tells whom it still waits for when that is asked.
    ///
    /// # Errors
    /// When the partners are in other calls. What was begun is still under way then.
    pub(super) fn until<R>(
        &mut self,
        mut step: impl FnMut(&mut Engine<Fabrics>, Option<&mut Vec<Peer>>) -> Option<R>,
    ) -> Result<R, Error> {
        let process = self.process;
        let end = process.until(|engine| match step(engine, None) {
            Some(outcome) => Some(Ok(outcome)),
            None => self.look(engine, &mut step).map(Err),
        });
        end.map_err(|objection| self.fail(objection))
    }

    /// Looks whether anything stands in the way, if anything has come.
    fn look<R>(
        &mut self,
        engine: &mut Engine<Fabrics>,
        step: &mut impl FnMut(&mut Engine<Fabrics>, Option<&mut Vec<Peer>>) -> Option<R>,
    ) -> Option<Objection> {
        let overdue = self.since.is_some_and(|since| PATIENCE <= since.elapsed());
        let news = !self.process.is_shared() && self.signs != Some(engine.signs());
        if !overdue && !news {
            return None;
        }
        let mut awaited = Vec::new();
        // It has just said that it is not over.
        let _ = step(engine, Some(&mut awaited));
        if overdue {
            self.since = None;
            self.tell(&awaited);
        }
        self.signs = Some(engine.signs());
        if self.process.is_shared() {
            return None;
        }
        let objection = self.hear(engine);
        if objection.is_none() {
            awaited.into_iter().for_each(|peer| self.challenge(engine, peer));
        }
        objection
    }

    /// Tells once whom it waits for.
    #[cold]
    fn tell(&self, awaited: &[Peer]) {
        let missing = ranks(awaited.iter().map(|peer| peer.0));
        let (here, seconds) = (self.process.here().0, PATIENCE.as_secs());
        let what = match self.purpose.kind {
            ReportKind::Part => "MPI_Comm_create_group",
            ReportKind::Found => "MPI_Comm_create_from_group",
            ReportKind::Meet => "MPI_Intercomm_create, the other leader",
            ReportKind::MeetStranger => "MPI_Intercomm_create_from_groups, the other leader",
            ReportKind::Side => "MPI_Intercomm_create_from_groups, this side",
            ReportKind::Join => "MPI_Intercomm_create, both sides",
        };
        tell(format_args!("weft: MPI_COMM_WORLD, rank {here}: {what}: waiting {seconds} s for {missing}"));
    }

    /// Takes all notices that have come; the answer is what one of them says against this call.
    fn hear(&mut self, engine: &mut Engine<Fabrics>) -> Option<Objection> {
        let any = Pattern { context: NOTICES, source: None, tag: None };
        let mut objection = None;
        while let Some(message) = engine.take(&any) {
            let (from, tag) = (Peer(message.probed().source.0), message.probed().tag);
            let room = Heap::new(8 * WORDS);
            if !matches!(engine.receive_matched(message, room.memory()), Receiving::Done(_)) {
                // Nobody sends notices so large that they would not be there at once.
                continue;
            }
            let mut words = [[0; 8]; WORDS];
            room.payload().copy_to(words.as_flattened_mut());
            if let Some(notice) = Notice::decode(words.map(u64::from_le_bytes)) {
                let heard = self.heard(engine, from, tag, notice);
                // The first one counts: what follows it may be about what its sender did next.
                objection = objection.or(heard);
            }
        }
        objection
    }

    fn heard(&self, engine: &mut Engine<Fabrics>, from: Peer, tag: i32, notice: Notice) -> Option<Objection> {
        match notice {
            Notice::Challenge { purpose, tag: other } => {
                let counts = tag == self.tag && self.process.objections().is_alive(other);
                counts.then(|| Objection {
                    class: self.purpose.at_odds(&purpose),
                    other,
                    challenger: Some(from),
                    is_told: false,
                })
            }
            Notice::Withdrawal { class, other } => {
                discard(engine, from, tag);
                let challenged = self.challenged.iter().any(|&(peer, _)| peer == from);
                let objection = Objection { class, other, challenger: None, is_told: !challenged };
                if tag == self.tag {
                    return Some(objection);
                }
                self.process.objections().announce(tag, Objection { is_told: true, ..objection });
                None
            }
        }
    }

    /// Challenges a process that is waited for and has sent something else.
    fn challenge(&mut self, engine: &mut Engine<Fabrics>, peer: Peer) {
        let any = Pattern { context: contexts::STRANGERS * 2 + 1, source: Some(Rank(peer.0)), tag: None };
        while let Some(found) = engine.probe(&any).filter(|found| found.tag != self.tag) {
            if self.process.objections().dead.contains(&found.tag) {
                // Left over from a call that came to nothing.
                if !discard(engine, peer, found.tag) {
                    return;
                }
                continue;
            }
            if !self.challenged.contains(&(peer, found.tag)) {
                self.challenged.push((peer, found.tag));
                let notice = Notice::Challenge { purpose: *self.purpose, tag: self.tag };
                self.send(engine, peer, found.tag, notice);
            }
            return;
        }
    }

    /// The call ends in vain: says so to all who may wait for this process.
    #[cold]
    fn fail(&mut self, objection: Objection) -> Error {
        let Objection { class, other, challenger, is_told } = objection;
        let (process, here) = (self.process, self.process.here());
        process.with_engine(|engine| {
            if let Some(challenger) = challenger {
                self.send(engine, challenger, other, Notice::Withdrawal { class, other: self.tag });
            }
            let partners = self.partners.iter().filter(|&peer| !is_told && peer != here);
            let withdrawal = Notice::Withdrawal { class, other };
            partners.for_each(|peer| self.send(engine, peer, self.tag, withdrawal));
        });
        let mut objections = process.objections();
        objections.bury(self.tag);
        objections.bury(other);
        drop(objections);
        for (room, request) in self.notices.drain(..) {
            process.wait(request);
            drop(room);
        }
        // What the others do next must not overtake it.
        process.flush();
        disagreement(class)
    }

    fn send(&mut self, engine: &mut Engine<Fabrics>, to: Peer, tag: i32, notice: Notice) {
        let room = Heap::new(8 * WORDS);
        let words = notice.encode().map(u64::to_le_bytes);
        room.memory().write_at(0, Payload::from(words.as_flattened()));
        let envelope = Envelope { context: NOTICES, source: Rank(self.process.here().0), tag };
        // A partner that cannot be reached is told nothing.
        if let Ok(Sending::Pending(request)) = engine.send(to, envelope, sending(&room), Mode::Standard) {
            self.notices.push((room, request));
        }
    }
}

/// Takes away what has come from a process under a tag that came to nothing; true where that was anything.
fn discard(engine: &mut Engine<Fabrics>, from: Peer, tag: i32) -> bool {
    let context = contexts::STRANGERS * 2 + 1;
    let pattern = Pattern { context, source: Some(Rank(from.0)), tag: Some(tag) };
    let mut any = false;
    while let Some(message) = engine.take(&pattern) {
        // Cut off at once, whatever its length.
        let _ = engine.receive_matched(message, fabric::UserMemory::EMPTY);
        any = true;
    }
    any
}

/// What members are told of a call that came to nothing.
#[cold]
pub(super) fn disagreement(class: Class) -> Error {
    let what = match class {
        Class::Tag => "the processes that take part do not give the same tag",
        Class::Argument => "the processes that take part do not give the same string",
        Class::Group => "the processes that take part do not give the same group",
        Class::Communicator => "the processes that take part do not give the same communicator",
        _ => "a process that should take part has called another operation",
    };
    Error::new(class, what).remedy("all who take part must call the same, in the same order")
}

/// A class as a number for other processes.
pub(super) fn class_code(class: Class) -> u64 {
    CLASSES.iter().position(|&known| known == class).unwrap_or_default() as u64
}

/// What [`class_code`] wrote.
pub(super) fn class_of(code: u64) -> Class {
    usize::try_from(code).ok().and_then(|code| CLASSES.get(code)).copied().unwrap_or(Class::Other)
}

/// Notices have a context of their own.
const NOTICES: u32 = contexts::STRANGERS * 2;
const WORDS: usize = 6;
const CHALLENGE: u64 = 1;
const WITHDRAWAL: u64 = 2;
/// Before a tag is chosen.
const NO_TAG: i32 = -1;
const KINDS: [ReportKind; 6] = [
    ReportKind::Part,
    ReportKind::Found,
    ReportKind::Meet,
    ReportKind::MeetStranger,
    ReportKind::Side,
    ReportKind::Join,
];
const CLASSES: [Class; 8] = [
    Class::Other,
    Class::Tag,
    Class::Argument,
    Class::Group,
    Class::Communicator,
    Class::Rank,
    Class::ProcFailed,
    Class::Internal,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn purpose(kind: ReportKind) -> Purpose {
        Purpose { kind, base: 7, group: u64::MAX, tag: 3 }
    }

    #[test]
    fn notices_are_read_as_they_were_written() {
        for kind in KINDS {
            let notice = Notice::Challenge { purpose: purpose(kind), tag: i32::MAX };
            assert_eq!(Notice::decode(notice.encode()), Some(notice));
        }
        for class in CLASSES {
            let notice = Notice::Withdrawal { class, other: 5 };
            assert_eq!(Notice::decode(notice.encode()), Some(notice));
        }
        assert_eq!(Notice::decode([CHALLENGE, 0, KINDS.len() as u64, 0, 0, 0]), None);
        assert_eq!(Notice::decode([WITHDRAWAL, u64::MAX, 0, 0, 0, 0]), None);
        assert_eq!(Notice::decode([9; WORDS]), None);
    }

    #[test]
    fn what_is_wrong_is_the_first_thing_that_differs() {
        let mine = purpose(ReportKind::Part);
        assert_eq!(mine.at_odds(&Purpose { tag: 4, ..mine }), Class::Tag);
        assert_eq!(mine.at_odds(&Purpose { tag: 4, group: 1, ..mine }), Class::Group);
        assert_eq!(mine.at_odds(&Purpose { base: 4, group: 1, ..mine }), Class::Communicator);
        assert_eq!(mine.at_odds(&purpose(ReportKind::Meet)), Class::Other);
        let strings = purpose(ReportKind::Found);
        assert_eq!(strings.at_odds(&Purpose { tag: 4, ..strings }), Class::Argument);
    }

    #[test]
    fn a_dead_tag_is_not_used_again() {
        let mut objections = Objections::default();
        let tags: HashSet<i32> = (0..100)
            .map(|_| {
                let tag = objections.tag_of(&purpose(ReportKind::Part));
                objections.bury(tag);
                tag
            })
            .collect();
        assert_eq!(tags.len(), 100);
        assert!(tags.iter().all(|&tag| tag >= 0));
    }
}
