//! A process's place in the segment: how others wake it, how they tell it that they have opened a ring, and
//! what they need to read its memory.
//!
//! The **bell** lets a process sleep without costing the senders anything while it does not: they look at one
//! word after each message, and only where somebody sleeps do they make a system call. That a message and a
//! falling asleep never miss each other is paid by the sleeper, by [`heavy_barrier`].
//!
//! The **knocks** are the inbox of those who have hardly spoken: a receiver polls only the rings it knows of,
//! and a sender makes its ring known by setting its bit. One atomic "or", so a sender that dies at any point
//! leaves nothing half done for the others.

use crate::layout::{
    PROCESS_SLOT_BELL, PROCESS_SLOT_IDENTITY, PROCESS_SLOT_KNOCKS, PROCESS_SLOT_SLEEPERS, PROCESS_SLOT_STATE,
};
use crate::memory::Memory;
use crate::sync::{Ordering, Word, heavy_barrier, light_barrier};

/// One process slot, by its offset in the segment.
#[derive(Clone, Copy, Debug)]
pub struct ProcessSlot {
    at: usize,
}

/// Who sits there, and a word of its memory by which others try whether they may read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotOwner {
    /// The process, as it sees itself.
    pub pid: u32,
    /// Where `probe_value` stands in its memory.
    pub probe_address: u64,
    /// A random number.
    pub probe_value: u64,
}

impl ProcessSlot {
    /// The process slot at an offset.
    pub fn at(at: usize) -> ProcessSlot {
        ProcessSlot { at }
    }

    /// Takes a free process slot; false when somebody has had it before.
    pub fn take(&self, memory: &impl Memory) -> bool {
        let state = memory.word(self.at + PROCESS_SLOT_STATE);
        state.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Publishes the process that has taken this slot: others may read its identity, and look whether it is
    /// still there if it has claimed the slot.
    pub fn sit(&self, memory: &impl Memory, slot_owner: &SlotOwner, claimed: bool) {
        let [address, value] = [slot_owner.probe_address, slot_owner.probe_value].map(halves);
        memory.put_words(
            self.at + PROCESS_SLOT_IDENTITY,
            [slot_owner.pid, address[0], address[1], value[0], value[1]],
        );
        let state = if claimed { CLAIMED } else { READY };
        memory.word(self.at + PROCESS_SLOT_STATE).store(state, Ordering::Release);
    }

    /// Whether somebody has sat down, has not gone, and would be missed.
    pub fn is_claimed(&self, memory: &impl Memory) -> bool {
        memory.word(self.at + PROCESS_SLOT_STATE).load(Ordering::Acquire) == CLAIMED
    }

    /// The process that has this slot; `None` before that process has published itself and after it has gone.
    pub fn slot_owner(&self, memory: &impl Memory) -> Option<SlotOwner> {
        if !matches!(memory.word(self.at + PROCESS_SLOT_STATE).load(Ordering::Acquire), READY | CLAIMED) {
            return None;
        }
        let [pid, address @ .., value_low, value_high] =
            memory.take_words::<5>(self.at + PROCESS_SLOT_IDENTITY);
        Some(SlotOwner { pid, probe_address: whole(address), probe_value: whole([value_low, value_high]) })
    }

    /// Goes; the process slot stays used.
    pub fn leave(&self, memory: &impl Memory) {
        memory.word(self.at + PROCESS_SLOT_STATE).store(CLOSED, Ordering::Release);
    }

    /// Tells the process of a ring from process slot `from`.
    pub fn knock(&self, memory: &impl Memory, from: u32) {
        let word = memory.word(self.at + PROCESS_SLOT_KNOCKS + (from / u32::BITS) as usize * 4);
        word.fetch_or(1 << (from % u32::BITS), Ordering::Release);
    }

    /// Whether anybody has knocked since the last answer, in `words` words of bits.
    #[inline]
    pub fn knocked(&self, memory: &impl Memory, words: usize) -> bool {
        let knocks = self.at + PROCESS_SLOT_KNOCKS;
        (0..words).any(|word| memory.word(knocks + word * 4).load(Ordering::Relaxed) != 0)
    }

    /// Takes all knocks, and calls `answer` with the process slot each came from. A process slot may be named
    /// that does not exist.
    pub fn answer_knocks(&self, memory: &impl Memory, words: usize, mut answer: impl FnMut(u32)) {
        for word in 0..words {
            let mut bits = memory.word(self.at + PROCESS_SLOT_KNOCKS + word * 4).swap(0, Ordering::Acquire);
            while bits != 0 {
                answer(word as u32 * u32::BITS + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }

    /// To be called after something was published for the process: true when it sleeps, or is about to, and
    /// must be woken at [`ProcessSlot::bell`].
    #[inline(always)]
    pub fn must_wake(&self, memory: &impl Memory) -> bool {
        light_barrier();
        if memory.word(self.at + PROCESS_SLOT_SLEEPERS).load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.strike(memory);
        true
    }

    /// Whether the process seems to sleep, so that an answer of it takes long.
    pub fn seems_asleep(&self, memory: &impl Memory) -> bool {
        memory.word(self.at + PROCESS_SLOT_SLEEPERS).load(Ordering::Relaxed) != 0
    }

    /// Makes the bell differ from what sleepers saw when they armed.
    #[cold]
    pub fn strike(&self, memory: &impl Memory) {
        self.bell(memory).fetch_add(1, Ordering::SeqCst);
    }

    /// Says that a thread is about to sleep; it must look for work once more and then sleep only while the
    /// bell still holds the answer.
    pub fn arm(&self, memory: &impl Memory) -> u32 {
        let seen = self.bell(memory).load(Ordering::Acquire);
        memory.word(self.at + PROCESS_SLOT_SLEEPERS).fetch_add(1, Ordering::SeqCst);
        heavy_barrier();
        seen
    }

    /// Takes back an `arm`.
    pub fn disarm(&self, memory: &impl Memory) {
        memory.word(self.at + PROCESS_SLOT_SLEEPERS).fetch_sub(1, Ordering::Relaxed);
    }

    /// The word that sleepers sleep on.
    pub fn bell<'m>(&self, memory: &'m impl Memory) -> &'m Word {
        memory.word(self.at + PROCESS_SLOT_BELL)
    }
}

fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The states of a process slot. Nobody has had it.
const FREE: u32 = 0;
/// Somebody is sitting down.
const TAKEN: u32 = 1;
/// Others may read who sits there.
const READY: u32 = 2;
/// Whoever sat there has gone.
const CLOSED: u32 = 3;
/// Others may read who sits there, as in [`READY`], and that process holds the lock of this process slot.
const CLAIMED: u32 = 4;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::Mapped;

    #[test]
    fn a_process_slot_is_had_once() {
        let memory = Mapped::heap(256);
        let process_slot = ProcessSlot::at(0);
        let slot_owner = SlotOwner { pid: 7, probe_address: 0x1234_5678_9abc, probe_value: u64::MAX - 1 };
        assert!(process_slot.take(&memory));
        assert_eq!(process_slot.slot_owner(&memory), None);
        for claimed in [false, true] {
            process_slot.sit(&memory, &slot_owner, claimed);
            assert_eq!(process_slot.slot_owner(&memory), Some(slot_owner));
            assert_eq!(process_slot.is_claimed(&memory), claimed);
            assert!(!process_slot.take(&memory));
        }
        process_slot.leave(&memory);
        assert_eq!(process_slot.slot_owner(&memory), None);
        assert!(!process_slot.is_claimed(&memory) && !process_slot.take(&memory));
    }

    #[test]
    fn every_knock_is_answered_once() {
        let memory = Mapped::heap(256);
        let process_slot = ProcessSlot::at(0);
        assert!(!process_slot.knocked(&memory, 3));
        for from in [0, 31, 32, 95, 95] {
            process_slot.knock(&memory, from);
        }
        let mut heard = Vec::new();
        assert!(process_slot.knocked(&memory, 3));
        process_slot.answer_knocks(&memory, 3, |from| heard.push(from));
        process_slot.answer_knocks(&memory, 3, |from| heard.push(from));
        assert_eq!(heard, [0, 31, 32, 95]);
    }

    #[test]
    fn only_sleepers_are_woken() {
        let memory = Mapped::heap(256);
        let process_slot = ProcessSlot::at(0);
        assert!(!process_slot.must_wake(&memory));
        let armed = process_slot.arm(&memory);
        assert!(process_slot.must_wake(&memory));
        assert_ne!(process_slot.bell(&memory).load(Ordering::Relaxed), armed);
        process_slot.disarm(&memory);
        assert!(!process_slot.must_wake(&memory));
    }
}
