//! Wait states: where each process of a job writes what its call of MPI waits for, so that the launcher can
//! tell it when the job hangs.
//!
//! It is memory of its own, for jobs over any fabric. The launcher makes it and reads it; a process writes
//! its record once a call has waited for long, and erases it when the wait goes on or ends. The launcher
//! reads without asking, so a process that is stuck needs to do nothing. Whatever stands there is read as
//! bytes of a stranger: any words are either a wait state within these bounds or none.
//!
//! ```text
//! page, words 0, 1    the form of this memory | the number of records
//! from RECORDS_AT     a record for each process number
//!
//! record, word 0      counts its changes; odd while it is being written
//! word 1              1 where there is a wait state, 0 where there is none
//! words 2-3, 4-5      when the call began to wait, and since when nothing has happened, in ns of the monotonic clock
//! word 6              bit 0: one of the peers is enough
//! word 7              how many peers
//! words 8 ..          the peers, PEERS_MAX at most
//! word TEXT_AT        bytes of the call's name | bytes of the detail << 16
//! words behind        both texts, one behind the other
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use fabric::Peer;

use crate::common::Common;
use crate::layout::PAGE;
use crate::memory::Memory;
use crate::segment::{self, SegmentError};
use crate::sync::{Ordering, Word, fence};

/// What a call of MPI waits for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WaitState {
    /// The function, as `MPI_Recv`; empty where it is not known.
    pub call: String,
    /// What it waits for, in words.
    pub detail: String,
    /// The processes it waits for, as far as they are known and have room.
    pub peers: Vec<Peer>,
    /// Whether one of the peers is enough.
    pub any: bool,
    /// When the wait began, by the monotonic clock of the host.
    pub begun: Duration,
    /// Since when nothing has happened, by the same clock.
    pub quiet_since: Duration,
}

/// The wait states of a job's processes.
pub struct WaitStates {
    common: Common,
    peers: u32,
}

/// The wait states as the launcher has them.
pub struct WaitStatesReader {
    states: WaitStates,
    file: OwnedFd,
}

impl WaitStates {
    /// Maps the wait states that the launcher made for `peers` processes, after checking that `file` holds
    /// such: a descriptor comes from outside.
    ///
    /// # Errors
    /// [`SegmentError::Foreign`], [`SegmentError::Resources`].
    pub fn adopt(file: OwnedFd, peers: u32) -> Result<WaitStates, SegmentError> {
        let states = WaitStates { common: Common::adopt(file, bytes(peers))?, peers };
        let front = [0, 4].map(|at| states.common.memory().word(at).load(Ordering::Relaxed));
        if front != [FORM, peers] {
            let what = "the launcher is of another version of weft than this library".to_owned();
            return Err(SegmentError::Foreign(what));
        }
        Ok(states)
    }

    /// Writes the wait state of process `here`, or erases it. One thread of a process at a time does so.
    ///
    /// # Panics
    /// Where there is no such process.
    pub fn write(&self, here: Peer, state: Option<&WaitState>) {
        let (words, end) = state.map_or(([0; RECORD_WORDS], 2), |state| (encode(state), RECORD_WORDS));
        let count = self.word(here, 0);
        let odd = count.load(Ordering::Relaxed) | 1;
        count.store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        for (at, word) in words[..end].iter().enumerate().skip(1) {
            self.word(here, at).store(*word, Ordering::Relaxed);
        }
        count.store(odd.wrapping_add(1), Ordering::Release);
    }

    /// Reads the wait state of a process; none where there is none, or none that can be read.
    #[must_use]
    pub fn read(&self, peer: Peer) -> Option<WaitState> {
        (0..READS).find_map(|_| self.read_once(peer)).and_then(|words| decode(&words))
    }

    fn read_once(&self, peer: Peer) -> Option<[u32; RECORD_WORDS]> {
        if peer.0 >= self.peers {
            return None;
        }
        let before = self.word(peer, 0).load(Ordering::Acquire);
        let words = std::array::from_fn(|at| self.word(peer, at).load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let after = self.word(peer, 0).load(Ordering::Relaxed);
        (before == after && before.is_multiple_of(2)).then_some(words)
    }

    fn word(&self, peer: Peer, at: usize) -> &Word {
        assert!(peer.0 < self.peers && at < RECORD_WORDS);
        self.common.memory().word(RECORDS_AT + 4 * (peer.0 as usize * RECORD_WORDS + at))
    }
}

impl WaitStatesReader {
    /// Makes the wait states of a job of so many processes.
    ///
    /// # Errors
    /// [`SegmentError::Resources`], [`SegmentError::System`].
    pub fn create(peers: u32) -> Result<WaitStatesReader, SegmentError> {
        let file = Common::create(bytes(peers))?;
        let mapped = file.try_clone().map_err(|error| segment::system("mapping the wait states", error))?;
        let common = Common::adopt(mapped, bytes(peers))?;
        common.memory().word(0).store(FORM, Ordering::Relaxed);
        common.memory().word(4).store(peers, Ordering::Relaxed);
        Ok(WaitStatesReader { states: WaitStates { common, peers }, file })
    }

    /// The descriptor, to be handed to the ranks.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Reads the wait state of the process `peer`; `None` where it has published none, where there is no such
    /// process, or where its record cannot be read.
    #[must_use]
    pub fn read(&self, peer: Peer) -> Option<WaitState> {
        self.states.read(peer)
    }
}

impl std::fmt::Debug for WaitStatesReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WaitStatesReader(of {} processes)", self.states.peers)
    }
}

/// A record of that state. What has no room is cut off.
fn encode(state: &WaitState) -> [u32; RECORD_WORDS] {
    let mut words = [0; RECORD_WORDS];
    let peers = state.peers.get(..PEERS_MAX).unwrap_or(&state.peers);
    let call = cut(&state.call, TEXT_BYTES_MAX);
    let detail = cut(&state.detail, TEXT_BYTES_MAX - call.len());
    words[1] = 1;
    for (at, time) in [(2, state.begun), (4, state.quiet_since)] {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        (words[at], words[at + 1]) = (ns as u32, (ns >> 32) as u32);
    }
    words[6] = u32::from(state.any);
    words[7] = peers.len() as u32;
    for (word, peer) in words[PEERS_AT..].iter_mut().zip(peers) {
        *word = peer.0;
    }
    words[TEXT_AT] = (call.len() | detail.len() << 16) as u32;
    let text: Vec<u8> = call.bytes().chain(detail.bytes()).collect();
    for (word, bytes) in words[TEXT_AT + 1..].iter_mut().zip(text.chunks(4)) {
        let mut four = [0; 4];
        four[..bytes.len()].copy_from_slice(bytes);
        *word = u32::from_le_bytes(four);
    }
    words
}

/// The state that such words are a record of; none where they are none.
fn decode(words: &[u32; RECORD_WORDS]) -> Option<WaitState> {
    if words[1] != 1 {
        return None;
    }
    let time = |at: usize| Duration::from_nanos(u64::from(words[at]) | u64::from(words[at + 1]) << 32);
    let peers = words[PEERS_AT..TEXT_AT].iter().take(words[7] as usize).map(|peer| Peer(*peer)).collect();
    let text: Vec<u8> = words[TEXT_AT + 1..].iter().flat_map(|word| word.to_le_bytes()).collect();
    let (call_bytes, detail_bytes) = ((words[TEXT_AT] & 0xffff) as usize, (words[TEXT_AT] >> 16) as usize);
    let call = text.get(..call_bytes)?;
    let detail = text.get(call_bytes..call_bytes + detail_bytes)?;
    Some(WaitState {
        call: printable(call),
        detail: printable(detail),
        peers,
        any: words[6] & 1 != 0,
        begun: time(2),
        quiet_since: time(4),
    })
}

/// Text of a stranger, for a terminal.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|one| if one.is_control() { '?' } else { one }).collect()
}

/// As much of the text as has room, in whole characters.
fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

fn bytes(peers: u32) -> usize {
    RECORDS_AT + 4 * RECORD_WORDS * peers as usize
}

/// What the first word says of this form, and no other.
const FORM: u32 = 0x7773_0001;
const RECORDS_AT: usize = PAGE;
/// Words of a record: two lines of the cache for what is read first, and six for text.
const RECORD_WORDS: usize = 128;
const PEERS_AT: usize = 8;
const PEERS_MAX: usize = 16;
const TEXT_AT: usize = PEERS_AT + PEERS_MAX;
const TEXT_BYTES_MAX: usize = 4 * (RECORD_WORDS - TEXT_AT - 1);
/// How often a record is read that is being written.
const READS: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state(call: &str, detail: &str, peers: &[u32]) -> WaitState {
        WaitState {
            call: call.to_owned(),
            detail: detail.to_owned(),
            peers: peers.iter().copied().map(Peer).collect(),
            any: true,
            begun: Duration::from_millis(5_000_000_000),
            quiet_since: Duration::from_nanos(u64::MAX),
        }
    }

    #[test]
    fn what_a_process_writes_the_launcher_reads_until_it_is_erased() {
        let reader = WaitStatesReader::create(9).unwrap();
        let rank = WaitStates::adopt(reader.file().try_clone_to_owned().unwrap(), 9).unwrap();
        let (third, last) = (state("MPI_Recv", "from rank 7, tag 5", &[7]), state("", "", &[]));
        assert_eq!(reader.read(Peer(3)), None);
        rank.write(Peer(3), Some(&third));
        rank.write(Peer(8), Some(&last));
        assert_eq!([3, 8, 2, 9].map(|peer| reader.read(Peer(peer))), [Some(third), Some(last), None, None]);
        rank.write(Peer(3), None);
        assert_eq!(reader.read(Peer(3)), None);
    }

    #[test]
    fn what_is_too_long_is_cut_between_characters() {
        let peers: Vec<u32> = (0..40).collect();
        let long = state("MPI_Waitall", &"é".repeat(400), &peers);
        let read = decode(&encode(&long)).unwrap();
        assert_eq!((read.peers.len(), read.call), (PEERS_MAX, long.call));
        assert!(read.detail.len() > 380 && long.detail.starts_with(&read.detail));
    }

    #[test]
    fn a_record_that_is_being_written_is_none() {
        let reader = WaitStatesReader::create(1).unwrap();
        reader.states.write(Peer(0), Some(&state("MPI_Wait", "", &[])));
        reader.states.word(Peer(0), 0).fetch_or(1, Ordering::Relaxed);
        assert_eq!(reader.read(Peer(0)), None);
        reader.states.write(Peer(0), Some(&state("MPI_Test", "", &[])));
        assert_eq!(reader.read(Peer(0)).unwrap().call, "MPI_Test", "its next writer makes it good");
    }

    #[test]
    fn something_else_is_refused() {
        let reader = WaitStatesReader::create(4).unwrap();
        let file = || reader.file().try_clone_to_owned().unwrap();
        assert!(WaitStates::adopt(file(), 4000).is_err());
        reader.states.common.memory().word(0).store(1, Ordering::Relaxed);
        let refused = WaitStates::adopt(file(), 4).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("another version"), "{refused}");
    }

    proptest! {
        #[test]
        fn any_words_are_a_bounded_text_or_nothing(words in prop::collection::vec(any::<u32>(), RECORD_WORDS), lengths in any::<(u8, u8)>()) {
            let mut words: [u32; RECORD_WORDS] = words.try_into().unwrap();
            words[1] = 1;
            let _ = decode(&words);
            words[TEXT_AT] = u32::from(lengths.0) | u32::from(lengths.1) << 16;
            if let Some(state) = decode(&words) {
                prop_assert!(state.peers.len() <= PEERS_MAX);
                // Each byte is one replacement character at most.
                prop_assert!(state.call.len() + state.detail.len() <= 3 * TEXT_BYTES_MAX);
                prop_assert!(!state.call.chars().chain(state.detail.chars()).any(char::is_control));
            }
        }

        #[test]
        fn what_has_room_is_read_as_it_was_written(call in "[A-Za-z_]{0,40}", detail in "[ -~é]{0,120}", peers in prop::collection::vec(any::<u32>(), 0..=PEERS_MAX)) {
            let written = state(&call, &detail, &peers);
            prop_assert_eq!(decode(&encode(&written)), Some(written));
        }
    }
}
