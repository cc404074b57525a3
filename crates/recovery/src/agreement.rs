//! How the living members of a communicator come to one decision, whoever fails meanwhile (decision 0013).
//!
//! A state machine: failures and messages go in, messages and the decision come out. Members are ranks here.
//!
//! **The tree.** Contributions go up a tree of those whom the last decision left alive, and the decision
//! comes down: all have the same tree without a word. **The leader.** Who knows of a newer failure, or is
//! asked, leaves the tree for good, and turns to the lowest member alive. That one asks all, waits for all
//! who live, and takes the decision that one of them has, or else makes it.
//!
//! Why all who stay alive decide alike: a leader decides when it has heard of each of them, or has the
//! decision of one. Whoever had decided by then has said so. Whoever had not has promised to take no decision
//! but that of this leader or of a higher one, which asks it again; and there is a higher one only when this
//! one is dead. That nobody who lives is taken for dead, others see to.

use std::collections::{BTreeMap, BTreeSet};

/// What a member brings.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Contribution {
    /// Bits, of which those stay that all have brought.
    pub flags: u64,
    /// The failures that it has acknowledged, as ranks.
    pub acknowledged: BTreeSet<u32>,
    /// A number, of which the least and the most are told.
    pub count: u64,
}

/// The bit of [`Contribution::flags`] that each member brings to each agreement unless it has given up: a
/// decision without this bit says that a member has.
pub const GOES_ON: u64 = 1 << 61;

impl Contribution {
    /// The contribution of a member that has given up.
    pub fn nothing() -> Contribution {
        Contribution { flags: 0, acknowledged: BTreeSet::new(), count: 0 }
    }
}

/// What was decided: equal at all members that stay alive.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Decision {
    /// The bits that all have brought.
    pub flags: u64,
    /// The failed members, as ranks: each member that has not contributed is among them.
    pub failed: BTreeSet<u32>,
    /// Whether all who have contributed have acknowledged all of these.
    pub is_acknowledged: bool,
    /// The least and the most of the numbers that were brought.
    pub counts: Counts,
}

/// The least and the most of some numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Counts {
    /// The least of them.
    pub least: u64,
    /// The most of them.
    pub most: u64,
}

impl Counts {
    fn of(count: u64) -> Counts {
        Counts { least: count, most: count }
    }

    fn with(self, other: Counts) -> Counts {
        Counts { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// What a branch of the tree has brought.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Brought {
    flags: u64,
    /// Whether all in it have acknowledged the earlier failures.
    is_acknowledged: bool,
    counts: Counts,
}

impl Brought {
    fn with(self, other: Brought) -> Brought {
        Brought {
            flags: self.flags & other.flags,
            is_acknowledged: self.is_acknowledged && other.is_acknowledged,
            counts: self.counts.with(other.counts),
        }
    }
}

/// What members tell each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Word {
    /// Up the tree: what a whole branch has brought.
    Up(Brought),
    /// Down the tree.
    Down(Decision),
    /// From a leader: what do you have?
    Ask,
    /// To a leader: this is what I bring, and whom I know to have failed.
    Bring(Contribution, BTreeSet<u32>),
    /// It is decided. To a leader from a member that has a decision, or from a leader.
    Decided(Decision),
}

/// One agreement, as one of its members sees it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Agreement {
    size: u32,
    here: u32,
    /// Whom an earlier decision has left behind: they are not in the tree.
    before: BTreeSet<u32>,
    /// Who is known to have failed.
    failed: BTreeSet<u32>,
    mine: Option<Contribution>,
    way: Way,
    decision: Option<Decision>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Way {
    /// Up and down the tree; what branches have brought.
    Tree { brought: BTreeMap<u32, Brought>, is_up: bool },
    /// By a leader.
    Led {
        /// Decisions of lower ones are not taken any more.
        promised: u32,
        /// Whom this member has told what it brings.
        told: Option<u32>,
        /// Whom it has asked, being the leader.
        asked: BTreeSet<u32>,
        /// What it has heard, being the leader, or about to be.
        heard: BTreeMap<u32, (Contribution, BTreeSet<u32>)>,
    },
}

/// What is to be sent, and to whom.
pub type Outbox = Vec<(u32, Word)>;

impl Agreement {
    /// An agreement of `size` members, of whom those in `before` were left behind by an earlier decision.
    pub fn new(size: u32, here: u32, before: BTreeSet<u32>) -> Agreement {
        let failed = before.clone();
        let way = Way::Tree { brought: BTreeMap::new(), is_up: false };
        Agreement { size, here, before, failed, mine: None, way, decision: None }
    }

    /// The decision, once there is one.
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// The members that are known to have failed, as ranks.
    pub fn failed(&self) -> &BTreeSet<u32> {
        &self.failed
    }

    /// This member takes part.
    pub fn contribute(&mut self, mine: Contribution, out: &mut Outbox) {
        self.mine.get_or_insert(mine);
        self.advance(out);
    }

    /// A member has failed.
    pub fn lose(&mut self, rank: u32, out: &mut Outbox) {
        if self.failed.insert(rank) {
            if let Way::Led { heard, .. } = &mut self.way {
                heard.remove(&rank);
            }
            self.advance(out);
        }
    }

    /// A member has said something. The dead say nothing any more.
    pub fn hear(&mut self, from: u32, word: Word, out: &mut Outbox) {
        if self.failed.contains(&from) || from >= self.size || from == self.here {
            return;
        }
        if let Some(decision) = &self.decision {
            if matches!(word, Word::Ask | Word::Bring(..)) {
                out.push((from, Word::Decided(decision.clone())));
            }
            return;
        }
        match word {
            Word::Up(branch) => {
                if let Way::Tree { brought, .. } = &mut self.way {
                    brought.insert(from, branch);
                }
            }
            Word::Down(decision) => {
                if matches!(self.way, Way::Tree { .. }) {
                    return self.decide(decision, out);
                }
            }
            // All below a leader are dead, or it would not be one.
            Word::Ask => {
                self.turn_to(from);
                if let Way::Led { told, .. } = &mut self.way {
                    *told = None;
                }
            }
            Word::Bring(brings, knows) => {
                self.turn_to(self.here);
                if let Way::Led { heard, .. } = &mut self.way {
                    heard.insert(from, (brings, knows));
                }
            }
            Word::Decided(decision) => {
                let is_welcome = match &self.way {
                    Way::Tree { .. } => true,
                    // One who answers this leader is not bound to be a leader itself.
                    Way::Led { promised, .. } => from >= *promised,
                };
                if is_welcome {
                    return self.decide(decision, out);
                }
            }
        }
        self.advance(out);
    }

    /// Leaves the tree, and takes no decision of leaders below this one any more.
    fn turn_to(&mut self, leader: u32) {
        match &mut self.way {
            Way::Led { promised, .. } => *promised = leader.max(*promised),
            Way::Tree { .. } => {
                let (asked, heard) = (BTreeSet::new(), BTreeMap::new());
                self.way = Way::Led { promised: leader, told: None, asked, heard };
            }
        }
    }

    /// Goes as far as it can.
    fn advance(&mut self, out: &mut Outbox) {
        if self.decision.is_some() {
            return;
        }
        if self.failed != self.before || matches!(self.way, Way::Led { .. }) {
            let lowest = self.living().next().unwrap_or(self.here);
            self.turn_to(lowest);
            self.follow(out);
        } else {
            self.climb(out);
        }
    }

    /// A member of the tree goes on when all of its branches have brought what they have.
    fn climb(&mut self, out: &mut Outbox) {
        let (parent, children) = self.place();
        let Way::Tree { brought, is_up } = &mut self.way else { return };
        let Some(mine) = self.mine.as_ref().filter(|_| !*is_up) else { return };
        if !children.iter().all(|child| brought.contains_key(child)) {
            return;
        }
        let is_acknowledged = self.before.is_subset(&mine.acknowledged);
        let mine = Brought { flags: mine.flags, is_acknowledged, counts: Counts::of(mine.count) };
        let branches = children.iter().filter_map(|child| brought.get(child));
        let all = branches.fold(mine, |all, branch| all.with(*branch));
        *is_up = true;
        match parent {
            Some(parent) => out.push((parent, Word::Up(all))),
            None => {
                let Brought { flags, is_acknowledged, counts } = all;
                self.decide(Decision { flags, failed: self.before.clone(), is_acknowledged, counts }, out);
            }
        }
    }

    /// A member that has left the tree tells its leader what it brings, or leads.
    fn follow(&mut self, out: &mut Outbox) {
        let living: Vec<u32> = self.living().collect();
        let (here, failed) = (self.here, self.failed.clone());
        let Way::Led { promised, told, asked, heard } = &mut self.way else { return };
        let Some(mine) = self.mine.clone() else { return };
        let leader = *promised;
        if leader != here {
            if *told != Some(leader) {
                *told = Some(leader);
                out.push((leader, Word::Bring(mine, failed)));
            }
            return;
        }
        for &member in &living {
            if member != here && !heard.contains_key(&member) && asked.insert(member) {
                out.push((member, Word::Ask));
            }
        }
        if living.iter().all(|member| *member == here || heard.contains_key(member)) {
            let all = heard.values().cloned().chain([(mine, failed)]);
            let decision = combined(all);
            self.decide(decision, out);
        }
    }

    fn decide(&mut self, decision: Decision, out: &mut Outbox) {
        match &self.way {
            Way::Tree { .. } => {
                let children = self.place().1.into_iter();
                out.extend(children.map(|child| (child, Word::Down(decision.clone()))));
            }
            Way::Led { promised, .. } if *promised == self.here => {
                let others = self.living().filter(|member| *member != self.here);
                out.extend(others.map(|member| (member, Word::Decided(decision.clone()))));
            }
            Way::Led { .. } => {}
        }
        self.decision = Some(decision);
    }

    fn living(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.size).filter(|rank| !self.failed.contains(rank))
    }

    /// Parent and children in the tree of those who were alive at the last decision.
    fn place(&self) -> (Option<u32>, Vec<u32>) {
        let base: Vec<u32> = (0..self.size).filter(|rank| !self.before.contains(rank)).collect();
        let at = base.iter().position(|&rank| rank == self.here).unwrap_or(0);
        let parent = (at != 0).then(|| base[(at - 1) / CHILDREN]);
        (parent, base.iter().skip(CHILDREN * at + 1).take(CHILDREN).copied().collect())
    }
}

/// What a leader decides of what all living have brought.
fn combined(all: impl Iterator<Item = (Contribution, BTreeSet<u32>)>) -> Decision {
    let (mut flags, mut failed, mut acknowledged) = (u64::MAX, BTreeSet::new(), None::<BTreeSet<u32>>);
    let mut counts = Counts { least: u64::MAX, most: 0 };
    for (brings, knows) in all {
        flags &= brings.flags;
        counts = counts.with(Counts::of(brings.count));
        failed.extend(knows);
        acknowledged = Some(match acknowledged {
            None => brings.acknowledged,
            Some(others) => &others & &brings.acknowledged,
        });
    }
    let is_acknowledged = failed.is_subset(&acknowledged.unwrap_or_default());
    Decision { flags, failed, is_acknowledged, counts }
}

/// Words as bytes: what, flags, whether acknowledged, the least and the most count, then lists of ranks, each
/// behind its length.
impl Word {
    /// The bytes that members send each other.
    pub fn encode(&self) -> Vec<u8> {
        let decided = |decision: &Decision| Brought {
            flags: decision.flags,
            is_acknowledged: decision.is_acknowledged,
            counts: decision.counts,
        };
        let (what, numbers, lists): (u32, Brought, [Option<&BTreeSet<u32>>; 2]) = match self {
            Word::Up(branch) => (UP, *branch, [None, None]),
            Word::Down(decision) => (DOWN, decided(decision), [Some(&decision.failed), None]),
            Word::Ask => (ASK, NOTHING, [None, None]),
            Word::Bring(Contribution { flags, acknowledged, count }, knows) => {
                let brings = Brought { flags: *flags, is_acknowledged: false, counts: Counts::of(*count) };
                (BRING, brings, [Some(acknowledged), Some(knows)])
            }
            Word::Decided(decision) => (DECIDED, decided(decision), [Some(&decision.failed), None]),
        };
        let Brought { flags, is_acknowledged, counts } = numbers;
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&what.to_le_bytes());
        bytes.extend_from_slice(&u32::from(is_acknowledged).to_le_bytes());
        [flags, counts.least, counts.most]
            .iter()
            .for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        for list in lists.into_iter().flatten() {
            bytes.extend_from_slice(&(list.len() as u32).to_le_bytes());
            list.iter().for_each(|rank| bytes.extend_from_slice(&rank.to_le_bytes()));
        }
        bytes
    }

    /// The word that those bytes are, among `size` members; `None` for what no member writes.
    pub fn decode(bytes: &[u8], size: u32) -> Option<Word> {
        let mut reader = Reader { bytes };
        let (what, acknowledged) = (reader.word()?, reader.word()?);
        let (flags, least, most) = (reader.number()?, reader.number()?, reader.number()?);
        let (is_acknowledged, counts) = (acknowledged == 1, Counts { least, most });
        let decision = |failed| Some(Decision { flags, failed: failed?, is_acknowledged, counts });
        let word = match what {
            UP => Word::Up(Brought { flags, is_acknowledged, counts }),
            DOWN => Word::Down(decision(reader.list(size))?),
            ASK => Word::Ask,
            BRING => {
                let brings = Contribution { flags, acknowledged: reader.list(size)?, count: least };
                Word::Bring(brings, reader.list(size)?)
            }
            DECIDED => Word::Decided(decision(reader.list(size))?),
            _ => return None,
        };
        (reader.bytes.is_empty() && acknowledged <= 1).then_some(word)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.bytes.split_first_chunk::<4>()?;
        self.bytes = rest;
        Some(u32::from_le_bytes(*word))
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from(self.word()?) | u64::from(self.word()?) << 32)
    }

    /// Ranks below `size`.
    fn list(&mut self, size: u32) -> Option<BTreeSet<u32>> {
        let length = self.word()?;
        (0..length).map(|_| self.word().filter(|rank| *rank < size)).collect()
    }
}

/// Children of a member in the tree: so many that up to nine members need one step up and one down, since
/// where members share cores each step costs a turn of all of them. Tests try all orders of small groups, in
/// which there are to be members between.
const CHILDREN: usize = if cfg!(test) { 2 } else { 8 };
/// What a question brings.
const NOTHING: Brought = Brought { flags: 0, is_acknowledged: false, counts: Counts { least: 0, most: 0 } };
const UP: u32 = 1;
const DOWN: u32 = 2;
const ASK: u32 = 3;
const BRING: u32 = 4;
const DECIDED: u32 = 5;

#[cfg(test)]
mod tests;
