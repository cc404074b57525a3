//! What members of a window send each other: requests of an origin, and answers of a target. What comes from
//! a peer is checked here for its form; whether it fits the window, whoever serves it checks.

use datatype::{Operator, Predefined};
use fabric::Payload;

use super::blocks::Block;
use super::epochs::LockKind;
use super::update::Change;
use super::words::Wanted;

/// Tags of a window's messages, in the context that it has of its own.
pub(super) const REQUEST: i32 = 0;
/// Data of a put that is no part of its request.
pub(super) const DATA: i32 = 1;
/// A target has opened an epoch for an origin.
pub(super) const POST: i32 = 2;
/// An origin has completed its epoch at a target.
pub(super) const COMPLETE: i32 = 3;
/// The first tag of answers.
const ANSWERS: i32 = 16;
/// So many answers may be under way to an origin.
const ANSWERS_MAX: u32 = 1 << 24;

/// The tag of an answer.
pub(super) fn answer_tag(number: u32) -> i32 {
    ANSWERS + (number % ANSWERS_MAX) as i32
}

/// What an origin asks of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// Write data that stands behind the request.
    Put { blocks: Vec<Block> },
    /// Write data that comes as a message of its own, with the tag [`DATA`].
    PutData { block: Block },
    /// Answer with what stands there.
    Get { blocks: Vec<Block>, answer: u32 },
    /// Change elements; operands stand behind the request. Answer with what they were, where that is wanted.
    Update { blocks: Vec<Block>, change: Change, predefined: Predefined, answer: Option<u32> },
    /// Answer when all requests before this one are done, and nothing was wrong with them.
    Flush { answer: u32 },
    /// Take a lock, and answer when it is taken.
    Take { wanted: Wanted, answer: u32 },
    /// Give a lock back when all requests before this one are done, and answer as to a flush.
    GiveBack { wanted: Wanted, answer: u32 },
}

impl Request {
    /// The request as bytes; its data follows.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut head = [0u32; HEAD_WORDS];
        let mut list: &[Block] = &[];
        match self {
            Request::Put { blocks } => (head[0], list) = (1, blocks),
            Request::PutData { block } => (head[0], list) = (2, std::slice::from_ref(block)),
            Request::Get { blocks, answer } => (head[0], head[1], list) = (3, *answer, blocks),
            Request::Update { blocks, change, predefined, answer } => {
                let code = match change {
                    Change::Combine(operator) => *operator as u32,
                    Change::CompareAndSwap => COMPARE_AND_SWAP,
                };
                (head[0], head[1], list) = (4, answer.unwrap_or(0), blocks);
                (head[2], head[3]) = (code, *predefined as u32);
                head[4] = u32::from(answer.is_some());
            }
            Request::Flush { answer } => (head[0], head[1]) = (5, *answer),
            Request::Take { wanted, answer } => (head[0], head[1], head[2]) = (6, *answer, code_of(*wanted)),
            Request::GiveBack { wanted, answer } => {
                (head[0], head[1], head[2]) = (7, *answer, code_of(*wanted));
            }
        }
        head[5] = list.len() as u32;
        let mut bytes = Vec::with_capacity(4 * HEAD_WORDS + BLOCK_BYTES * list.len());
        head.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        for Block { at, bytes: length } in list {
            bytes.extend(at.to_le_bytes());
            bytes.extend(length.to_le_bytes());
        }
        bytes
    }

    /// The request that stands at the beginning of a message, and the data behind it; none where that is no
    /// request.
    pub(super) fn decode(message: Payload<'_>) -> Option<(Request, Payload<'_>)> {
        let (head, mut rest) = message.split_first::<{ 4 * HEAD_WORDS }>()?;
        let head: Vec<u32> = head.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let count = head[5] as usize;
        if rest.bytes() / BLOCK_BYTES < count {
            return None;
        }
        let mut blocks = Vec::with_capacity(count);
        let mut total = 0u64;
        for _ in 0..count {
            let (at, behind) = rest.split_first()?;
            let (bytes, behind) = behind.split_first()?;
            let block = Block { at: u64::from_le_bytes(at), bytes: u64::from_le_bytes(bytes) };
            total = total.checked_add(block.bytes)?;
            block.end()?;
            blocks.push(block);
            rest = behind;
        }
        isize::try_from(total).ok()?;
        let answer = head[1];
        let request = match head[0] {
            1 => Request::Put { blocks },
            2 => Request::PutData { block: *blocks.first().filter(|_| count == 1)? },
            3 => Request::Get { blocks, answer },
            4 => {
                let change = match head[2] {
                    COMPARE_AND_SWAP => Change::CompareAndSwap,
                    code => Change::Combine(*Operator::ALL.iter().find(|one| **one as u32 == code)?),
                };
                let predefined = *Predefined::ALL.get(head[3] as usize)?;
                Request::Update { blocks, change, predefined, answer: (head[4] == 1).then_some(answer) }
            }
            5 => Request::Flush { answer },
            6 => Request::Take { wanted: wanted_of(head[2])?, answer },
            7 => Request::GiveBack { wanted: wanted_of(head[2])?, answer },
            _ => return None,
        };
        Some((request, rest))
    }
}

/// Reads any bytes as a request, for a fuzzer; true where it was believed.
///
/// # Panics
/// When what was believed cannot be said again, or covers more bytes than can be addressed.
#[cfg(feature = "fuzzing")]
pub fn fuzz_window_request(bytes: &[u8]) -> bool {
    let Some((request, data)) = Request::decode(Payload::from(bytes)) else { return false };
    let again = request.encode();
    assert_eq!(again.len() + data.bytes(), bytes.len());
    let (same, _) = Request::decode(Payload::from(&again[..])).expect("it was one");
    assert_eq!(same, request);
    if let Request::Put { blocks } | Request::Get { blocks, .. } | Request::Update { blocks, .. } = &request {
        let total: u64 = blocks.iter().map(|block| block.bytes).sum();
        assert!(isize::try_from(total).is_ok() && blocks.iter().all(|block| block.end().is_some()));
    }
    true
}

const WANTED: [Wanted; 4] =
    [Wanted::Member(LockKind::Shared), Wanted::Member(LockKind::Exclusive), Wanted::NoneOfAll, Wanted::All];

fn code_of(wanted: Wanted) -> u32 {
    WANTED.iter().position(|one| *one == wanted).unwrap_or(0) as u32
}

fn wanted_of(code: u32) -> Option<Wanted> {
    WANTED.get(code as usize).copied()
}

const HEAD_WORDS: usize = 6;
const BLOCK_BYTES: usize = 16;
const COMPARE_AND_SWAP: u32 = u32::MAX;

/// How requests before a flush have ended: an answer of one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    Well,
    /// A request was for memory that is none of the window's.
    Outside,
    /// A request made no sense.
    Unsound,
    /// The lock was not taken: a process that has failed may hold it.
    HolderFailed,
}

impl Ended {
    pub(super) const ALL: [Ended; 4] = [Ended::Well, Ended::Outside, Ended::Unsound, Ended::HolderFailed];

    pub(super) fn of(byte: u8) -> Ended {
        Ended::ALL.get(usize::from(byte)).copied().unwrap_or(Ended::Unsound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_out_as_they_went_in() {
        let blocks = vec![Block { at: 8, bytes: 16 }, Block { at: 1 << 40, bytes: 0 }];
        let update = |change, answer| Request::Update {
            blocks: blocks.clone(),
            change,
            predefined: Predefined::LongInt,
            answer,
        };
        let mut requests = vec![
            Request::Put { blocks: blocks.clone() },
            Request::PutData { block: blocks[0] },
            Request::Get { blocks: blocks.clone(), answer: 7 },
            update(Change::CompareAndSwap, Some(0)),
            update(Change::Combine(Operator::MaxLocation), None),
            Request::Flush { answer: u32::MAX },
        ];
        for wanted in WANTED {
            requests.push(Request::Take { wanted, answer: 1 });
            requests.push(Request::GiveBack { wanted, answer: 2 });
        }
        for request in requests {
            let mut bytes = request.encode();
            bytes.extend([1, 2, 3]);
            let (again, data) = Request::decode(Payload::from(&bytes[..])).expect("it is one");
            assert_eq!((again, data.to_vec()), (request, vec![1, 2, 3]));
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let good = Request::Get { blocks: vec![Block { at: 8, bytes: 16 }; 3], answer: 1 }.encode();
        for cut in 0..good.len() {
            assert!(Request::decode(Payload::from(&good[..cut])).is_none(), "{cut} bytes");
        }
        for (word, value) in [(0, 0u32), (0, 8), (5, 4), (5, u32::MAX)] {
            let mut bad = good.clone();
            bad[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
            assert!(Request::decode(Payload::from(&bad[..])).is_none(), "word {word} is {value}");
        }
        let far = Request::Put { blocks: vec![Block { at: u64::MAX, bytes: 2 }] }.encode();
        assert!(Request::decode(Payload::from(&far[..])).is_none());
    }
}
