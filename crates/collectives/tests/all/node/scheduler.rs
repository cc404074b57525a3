//! Who goes on: one thread a member, one of them at a time, as a seed chooses.

use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Call;

/// Who runs, and what is to happen.
pub(super) struct Scheduler {
    pub(super) state: Mutex<State>,
    /// What each member waits at for its turn.
    pub(super) turns: Vec<Condvar>,
}

pub(super) struct State {
    pub(super) random: Random,
    /// The members that have not ended.
    pub(super) alive: Vec<bool>,
    pub(super) runs: usize,
    pub(super) trouble: Trouble,
    pub(super) accesses: Vec<u64>,
    pub(super) has_died: Option<usize>,
    /// One member has called something else, and somebody has done all of its program: others may wait for it
    /// in vain.
    pub(super) is_closed: bool,
    /// Whether another member goes on wherever one may, or only where one waits.
    pub(super) is_stormy: bool,
}

/// What goes wrong in a program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    Nothing,
    /// A member dies before its access of that number.
    Dies(usize, u64),
    /// A member calls something else in the place of the operation of that number.
    CallsOther(u32, usize, Call),
}

/// More accesses than any program of these tests makes: members wait for each other for ever.
const ACCESSES_MAX: u64 = 400_000;

impl Scheduler {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before an access of the member that runs. False where it is dead.
    pub(super) fn step(&self, here: usize, waits: bool) -> bool {
        let mut state = self.lock();
        if state.has_died == Some(here) {
            return false;
        }
        state.accesses[here] += 1;
        if let Trouble::Dies(member, access) = state.trouble
            && (member, access) == (here, state.accesses[here])
        {
            state.has_died = Some(here);
            drop(state);
            resume_unwind(Box::new("dies"));
        }
        assert!(state.accesses[here] < ACCESSES_MAX, "a hang: accesses {:?}", state.accesses);
        if waits || state.is_stormy && state.random.next().is_multiple_of(3) {
            self.let_go_on(&mut state);
            while state.runs != here {
                state = self.turns[here].wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        true
    }

    /// Chooses who runs next.
    fn let_go_on(&self, state: &mut State) {
        let alive: Vec<usize> = (0..state.alive.len()).filter(|&member| state.alive[member]).collect();
        if alive.is_empty() {
            return;
        }
        let chosen = match state.is_stormy {
            true => alive[state.random.next() as usize % alive.len()],
            false => *alive.iter().find(|&&member| member > state.runs).unwrap_or(&alive[0]),
        };
        state.runs = chosen;
        self.turns[chosen].notify_one();
    }

    pub(super) fn end(&self, here: usize) {
        let mut state = self.lock();
        state.is_closed |= matches!(state.trouble, Trouble::CallsOther(..));
        state.alive[here] = false;
        self.let_go_on(&mut state);
    }
}

/// Numbers that follow from a seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn of(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
}
