//! How two members write long data: to the caches or past them, whichever has turned out to be quicker (decisions/0074).

use std::time::Instant;

use fabric::Stores;

use super::Visit;
use super::pieces::Lengths;
use crate::fabrics::Trial;

/// What one of two members knows, by how long data is.
pub(super) struct Trials {
    /// What it takes and the other gives, where that goes one way: the other is told what to do.
    taken: [Trial; CLASSES],
    /// What it keeps for itself of an exchange.
    kept: [Trial; CLASSES],
    /// What it has told: a bit for each class of what it takes.
    told: u32,
}

impl Default for Trials {
    fn default() -> Trials {
        Trials { taken: [Trial::READ; CLASSES], kept: [Trial::LEFT; CLASSES], told: 0 }
    }
}

/// Data of twice the length is in the next class; and the shortest.
const CLASSES: usize = 8;
pub(super) const TRIED_FROM: usize = 512 << 10;

/// The class of so many bytes, `None` where they are few, which stay in caches, and where there is one way to write.
fn class(bytes: usize) -> Option<usize> {
    (TRIED_FROM <= bytes && Stores::ARE_TWO).then(|| ((bytes / TRIED_FROM).ilog2() as usize).min(CLASSES - 1))
}

/// An operation, from when the time counts.
pub(super) struct Timed {
    class: usize,
    since: Instant,
}

impl Timed {
    /// Of so many bytes, if they are to be timed.
    pub(super) fn begin(bytes: usize) -> Option<Timed> {
        class(bytes).map(|class| Timed { class, since: Instant::now() })
    }

    /// So many bytes were taken meanwhile: what each took.
    fn byte_ns(&self, bytes: usize) -> f32 {
        self.since.elapsed().as_nanos() as f32 / bytes.max(1) as f32
    }
}

impl Visit<'_> {
    fn trials(&mut self) -> &mut Trials {
        self.turn.trials.get_or_insert_default()
    }

    /// How the other of two members is to be given so many bytes, which gives nothing itself, as it has said.
    pub(super) fn stores_for(&self, other: u32, bytes: usize) -> Stores {
        match class(bytes) {
            Some(class) if self.board().preferred(other) >> class & 1 != 0 => Stores::Past,
            _ => Stores::Cached,
        }
    }

    /// This member has taken so many bytes since, which the other has written so. The next ones may be wanted otherwise.
    pub(super) fn has_taken(&mut self, timed: Timed, bytes: usize, stores: Stores) {
        let (class, byte_ns) = (timed.class, timed.byte_ns(bytes));
        let trials = self.trials();
        trials.taken[class].took(stores, byte_ns);
        let bit = u32::from(trials.taken[class].choose() == Stores::Past) << class;
        let told = trials.told & !(1 << class) | bit;
        if told != trials.told {
            trials.told = told;
            self.board().prefer(told);
        }
    }

    /// How this member writes so many bytes that it keeps of an exchange, where both ways are tried: not where they are few beside what
    /// comes, or many. Members of one exchange count alike, and so try the same.
    pub(super) fn stores_beside(
        &mut self,
        kept_bytes: usize,
        Lengths { gives, gets, .. }: Lengths,
    ) -> Option<Stores> {
        let is_alike = gives > 0 && kept_bytes / 2 <= gets && gets / 2 <= kept_bytes;
        class(gets).filter(|_| is_alike).map(|class| self.trials().kept[class].choose())
    }

    /// It has, and has taken so many bytes since then.
    pub(super) fn has_kept(&mut self, timed: Timed, bytes: usize, stores: Stores) {
        let byte_ns = timed.byte_ns(bytes);
        self.trials().kept[timed.class].took(stores, byte_ns);
    }
}
