//! What a process exposes in a window, and what it can reach of others: memory to load from and store to,
//! and the words that order accesses to it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

use fabric::{Payload, UserMemory};
use job::fabrics::{Common, PeerMemory};
use job::lock::lock;
use messaging::Rank;

use super::blocks::Block;
use super::places::{Place, Places, Sharers};
use super::words::{WORDS, WORDS_BYTES, Words};
use super::{Extent, Flavor};
use crate::memory::{Allocation, shared_values, window_memory};

/// This process's memory in a window, and what keeps it.
pub(super) enum Memory {
    Given(Mutex<UserMemory>),
    Allocated(Allocation),
    Attached(Mutex<BTreeMap<usize, UserMemory>>),
    /// Memory of the sharers, which each of them has mapped, with the words of all of them.
    Shared {
        common: Common,
        places: Places,
        flavor: Flavor,
    },
    /// Memory of the program's, which the other sharers read and write by calls of the kernel. The words of
    /// all sharers stand in memory that they share.
    Foreign {
        own: Mutex<UserMemory>,
        words: Common,
        members: Box<[PeerMemory]>,
    },
}

/// Why a block cannot be read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Unreached {
    /// A part of it is outside of that member's memory.
    Outside,
    /// The kernel refuses, in these words.
    Refused(String),
}

/// What a process exposes in a window. The window holds it, and whoever serves other members.
pub(super) struct Exposure {
    pub memory: Memory,
    /// Whose memory this process reaches without messages, where it is [shared](Memory::Shared) or
    /// [foreign](Memory::Foreign).
    sharers: Sharers,
    pub rank: Rank,
    pub extent: Extent,
    /// The words of this process, where its memory is not shared.
    own_words: OnceLock<Box<[AtomicU64]>>,
}

impl Exposure {
    pub(super) fn new(memory: Memory, sharers: Sharers, rank: Rank, extent: Extent) -> Exposure {
        Exposure { memory, sharers, rank, extent, own_words: OnceLock::new() }
    }

    /// Where the memory of this process begins; null where it is still to be attached.
    pub(super) fn start(&self) -> *mut u8 {
        match &self.memory {
            Memory::Given(memory) | Memory::Foreign { own: memory, .. } => lock(memory).start(),
            Memory::Allocated(allocation) => allocation.start(),
            Memory::Attached(_) => std::ptr::null_mut(),
            Memory::Shared { common, .. } => {
                common.start().wrapping_add(self.part(self.rank).map_or(0, |part| part.offset))
            }
        }
    }

    /// The part of a sharer in memory that is mapped; none where that member shares none.
    #[inline(always)]
    fn part(&self, rank: Rank) -> Option<Place> {
        match &self.memory {
            Memory::Shared { places, .. } => places.of(self.sharers.number(rank)?),
            _ => None,
        }
    }

    /// How much a member has of memory that this process has mapped; none where that member shares none.
    #[inline(always)]
    pub(super) fn shared_extent(&self, rank: Rank) -> Option<Extent> {
        self.part(rank).map(|part| part.extent)
    }

    /// Where a member's part begins in memory that this process has mapped, and how much that is; none where
    /// that member shares none.
    pub(super) fn mapped(&self, rank: Rank) -> Option<(*mut u8, Extent)> {
        let Memory::Shared { common, .. } = &self.memory else { return None };
        self.part(rank).map(|part| (common.start().wrapping_add(part.offset), part.extent))
    }

    /// The values of a sharer, which all sharers load and store; none where that member shares none.
    pub(super) fn values<T: crate::memory::Shareable>(&self, rank: Rank) -> Option<&[T]> {
        let Memory::Shared { common, .. } = &self.memory else { return None };
        let (start, extent) = self.mapped(rank)?;
        // The mapping is as long as all parts together.
        shared_values(common, start, extent.bytes / size_of::<T>())
    }

    /// The first sharer that has any memory; none where memory is not shared.
    pub(super) fn first(&self) -> Option<Rank> {
        match &self.memory {
            Memory::Shared { places, .. } => Some(self.sharers.rank(places.first())),
            _ => None,
        }
    }

    /// The members of this node that reach each other's memory, in a window of members on several nodes;
    /// empty in any other window.
    pub(super) fn sharers(&self) -> &[Rank] {
        match &self.sharers {
            Sharers::All => &[],
            Sharers::Node(ranks) => ranks,
        }
    }

    /// Whether this process reaches the memory of all members, without messages.
    pub(super) fn reaches_all(&self) -> bool {
        matches!(self.memory, Memory::Shared { .. } | Memory::Foreign { .. })
            && matches!(self.sharers, Sharers::All)
    }

    /// Whether this process reaches the memory of that member, without messages.
    #[inline]
    pub(super) fn reaches(&self, target: Rank) -> bool {
        target == self.rank
            || matches!(self.memory, Memory::Shared { .. } | Memory::Foreign { .. })
                && self.sharers.number(target).is_some()
    }

    /// Reads a block of a member that this process [reaches](Exposure::reaches).
    #[inline]
    fn read(&self, target: Rank, block: Block, into: &mut UserMemory) -> Result<(), Unreached> {
        if let Some(memory) = self.block(target, block) {
            into.write_at(0, memory.payload());
            return Ok(());
        }
        self.foreign(target)?.read(block.at, into).map_err(Unreached::Refused)
    }

    /// Writes a block of a member that this process [reaches](Exposure::reaches).
    #[inline]
    fn write(&self, target: Rank, block: Block, from: Payload<'_>) -> Result<(), Unreached> {
        if let Some(mut memory) = self.block(target, block) {
            memory.write_at(0, from);
            return Ok(());
        }
        self.foreign(target)?.write(block.at, from).map_err(Unreached::Refused)
    }

    /// Packs blocks of a member that this process [reaches](Exposure::reaches) into `packed`, which is as
    /// long as all of them.
    #[inline]
    pub(super) fn collect(
        &self,
        target: Rank,
        blocks: &[Block],
        packed: &mut UserMemory,
    ) -> Result<(), Unreached> {
        match self.foreign(target) {
            Ok(peer) if blocks.len() > 1 => {
                peer.read_blocks(&lengths(blocks), packed).map_err(Unreached::Refused)
            }
            _ => {
                let mut done = 0;
                for block in blocks {
                    self.read(target, *block, &mut packed.part(done, block.bytes as usize))?;
                    done += block.bytes as usize;
                }
                Ok(())
            }
        }
    }

    /// Writes packed bytes to blocks of a member that this process [reaches](Exposure::reaches).
    #[inline]
    pub(super) fn spread(
        &self,
        target: Rank,
        blocks: &[Block],
        packed: Payload<'_>,
    ) -> Result<(), Unreached> {
        match self.foreign(target) {
            Ok(peer) if blocks.len() > 1 => {
                peer.write_blocks(&lengths(blocks), packed).map_err(Unreached::Refused)
            }
            _ => {
                let mut done = 0;
                for block in blocks {
                    self.write(target, *block, packed.part(done, block.bytes as usize))?;
                    done += block.bytes as usize;
                }
                Ok(())
            }
        }
    }

    /// The memory of another member that the kernel reaches.
    fn foreign(&self, target: Rank) -> Result<PeerMemory, Unreached> {
        match &self.memory {
            Memory::Foreign { members, .. } if target != self.rank => {
                let number = self.sharers.number(target).ok_or(Unreached::Outside)?;
                members.get(number as usize).copied().ok_or(Unreached::Outside)
            }
            _ => Err(Unreached::Outside),
        }
    }

    /// The memory of a block of a member, where this process loads from it and stores to it; none, where a
    /// part of it is outside of that member's memory.
    #[inline]
    pub(super) fn block(&self, target: Rank, block: Block) -> Option<UserMemory> {
        let (at, bytes) = (usize::try_from(block.at).ok()?, usize::try_from(block.bytes).ok()?);
        let fits = |memory: usize| at.checked_add(bytes).is_some_and(|end| end <= memory);
        match &self.memory {
            Memory::Shared { common, .. } => {
                let part = self.part(target).filter(|part| fits(part.extent.bytes))?;
                window_memory(common, common.start().wrapping_add(part.offset + at), bytes)
            }
            _ if target != self.rank => None,
            Memory::Given(memory) | Memory::Foreign { own: memory, .. } => {
                let mut memory = lock(memory);
                fits(memory.bytes()).then(|| memory.part(at, bytes))
            }
            Memory::Allocated(allocation) => {
                let start = allocation.start().wrapping_add(at);
                if fits(self.extent.bytes) { window_memory(allocation, start, bytes) } else { None }
            }
            Memory::Attached(attached) => {
                let mut attached = lock(attached);
                let (start, memory) = attached.range_mut(..=at).next_back()?;
                let inside = at - start;
                inside.checked_add(bytes).filter(|end| *end <= memory.bytes())?;
                Some(memory.part(inside, bytes))
            }
        }
    }

    /// The words of a member that this process [reaches](Exposure::reaches).
    pub(super) fn words(&self, target: Rank) -> Option<Words<'_>> {
        let offset = |target| Some(WORDS_BYTES * self.sharers.number(target)? as usize);
        match &self.memory {
            Memory::Shared { common, places, .. } => {
                let start = common.start().wrapping_add(words_at(places).checked_add(offset(target)?)?);
                shared_values(common, start, WORDS).map(Words::new)
            }
            Memory::Foreign { words, .. } => {
                let start = words.start().wrapping_add(offset(target)?);
                shared_values(words, start, WORDS).map(Words::new)
            }
            _ if target != self.rank => None,
            _ => {
                let words = || (0..WORDS).map(|_| AtomicU64::new(0)).collect();
                Some(Words::new(self.own_words.get_or_init(words)))
            }
        }
    }

    /// Whether all who change elements of a member can do so by atomics: not where the kernel alone reaches
    /// them.
    pub(super) fn has_atomics(&self) -> bool {
        !matches!(self.memory, Memory::Foreign { .. })
    }

    /// An element of a block of a member that this process reaches, as an atomic; none where it is not
    /// aligned, or outside of that member's memory.
    pub(super) fn atomic<T: crate::memory::Shareable>(&self, target: Rank, at: u64) -> Option<&T> {
        let memory = self.block(target, Block { at, bytes: size_of::<T>() as u64 })?;
        shared_values::<T, _>(self, memory.start(), 1)?.first()
    }
}

/// Blocks as the kernel is told them.
fn lengths(blocks: &[Block]) -> Vec<(u64, usize)> {
    blocks.iter().map(|block| (block.at, block.bytes as usize)).collect()
}

/// Where the words of all sharers stand in memory that they share: behind all parts, each a line.
pub(super) fn words_at(places: &Places) -> usize {
    places.bytes().next_multiple_of(WORDS_BYTES)
}

/// How much memory the sharers share, of parts and words together; none where that cannot be addressed.
pub(super) fn shared_bytes(places: &Places, sharers: u32) -> Option<usize> {
    let parts = places.bytes().checked_next_multiple_of(WORDS_BYTES)?;
    parts.checked_add(WORDS_BYTES.checked_mul(sharers as usize)?)
}
