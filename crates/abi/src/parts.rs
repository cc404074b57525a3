//! Buffers of collective operations: what a rank gives and what it gets, as packed bytes.
//!
//! Schedules move packed bytes. Where the program's elements stand packed already, its own memory is used;
//! elsewhere they are packed into memory of ours before, and unpacked after.

use std::ffi::c_void;
use std::ops::{Deref, DerefMut, Range};

use datatype::Datatype;
use weft::claims::{Heap, Payload, UserMemory};
use weft::collectives::Block;
use weft::{Class, Error, Result};

use crate::arguments::{bytes_of, pooled};
use crate::claims::{Buffer, Received, Sent};
use crate::objects::Type;

/// Some elements of a buffer, meant for or coming from one rank.
pub(crate) struct Section {
    /// Where the elements begin, in bytes from the buffer's address.
    pub offset: i64,
    /// How many elements.
    pub count: i64,
    /// The datatype of an element.
    pub datatype: Type,
}

/// The blocks of sections in a buffer: offsets and lengths in bytes. A single block takes no memory from the
/// heap.
pub(crate) enum BufferBlocks {
    /// A single block.
    One(Block),
    /// Any other number of blocks.
    Listed(Vec<Block>),
}

/// The receive side of a collective operation: memory for packed bytes, and the places of the program that
/// they are unpacked to in the end.
pub(crate) struct Output {
    pub memory: UserMemory,
    /// Where each section stands in `memory`.
    pub blocks: BufferBlocks,
    scattered: Option<Scattered>,
}

/// Packed room of ours and the places that its bytes belong to.
struct Scattered {
    packed: Heap,
    places: Vec<BufferPlace>,
}

struct BufferPlace {
    memory: UserMemory,
    count: i64,
    datatype: Datatype,
}

/// The send side of a collective operation, as packed bytes.
pub(crate) struct Input {
    pub payload: Payload<'static>,
    /// Where each section stands in `payload`.
    pub blocks: BufferBlocks,
    /// Keeps packed data of ours.
    keeps: Option<Heap>,
}

impl Output {
    /// The output of a rank that receives nothing.
    pub(crate) fn nothing() -> Output {
        Output { memory: UserMemory::EMPTY, blocks: BufferBlocks::One(Block::NOTHING), scattered: None }
    }

    /// The sections of a buffer. `loaded`: what stands there now is the rank's contribution.
    pub(crate) fn new(buffer: Received, sections: &[Section], loaded: bool) -> Result<Output> {
        let extent = Extent::of(buffer.start(), sections)?;
        if extent.dense {
            // What lies between the sections is claimed as well and never touched: schedules touch blocks
            // only.
            let memory = buffer.memory(extent.low as isize, extent.bytes);
            return Ok(Output { memory, blocks: extent.blocks, scattered: None });
        }
        let places = places(buffer, sections)?;
        let (packed, blocks) = packed_room(sections)?;
        if loaded {
            for (place, block) in places.iter().zip(&*blocks) {
                pack((&place.datatype, place.count), place.memory.payload(), &packed, block)?;
            }
        }
        let memory = packed.memory();
        Ok(Output { memory, blocks, scattered: Some(Scattered { packed, places }) })
    }

    /// The memory for packed bytes, lent to the schedule.
    pub(crate) fn lend(&mut self) -> UserMemory {
        self.memory.part(0, self.memory.bytes())
    }

    /// Leaves the places as they are when the operation is over.
    pub(crate) fn keep(&mut self) {
        if let Some(scattered) = &mut self.scattered {
            scattered.places.clear();
        }
    }

    /// Brings the packed bytes to their places.
    pub(crate) fn finish(self) -> Result<()> {
        let Some(Scattered { packed, places }) = self.scattered else { return Ok(()) };
        for (mut place, block) in places.into_iter().zip(&*self.blocks) {
            let bytes = packed.payload().part(block.offset, block.bytes);
            datatype::unpack(&place.datatype, place.count, bytes, &mut place.memory, 0)
                .map_err(|error| Error::new(Class::Buffer, error.to_string()))?;
        }
        Ok(())
    }
}

impl Input {
    /// The input of a rank that sends nothing.
    pub(crate) fn nothing() -> Input {
        Input { payload: Payload::EMPTY, blocks: BufferBlocks::One(Block::NOTHING), keeps: None }
    }

    /// Whether the sections of a buffer can be where they are said to be.
    pub(crate) fn check(buffer: impl Buffer, sections: &[Section]) -> Result<()> {
        Extent::of(buffer.start(), sections).map(drop)
    }

    /// The sections of a buffer.
    pub(crate) fn new(buffer: Sent, sections: &[Section]) -> Result<Input> {
        let extent = Extent::of(buffer.start(), sections)?;
        if extent.dense {
            // As in `Output::new`.
            let payload = buffer.payload(extent.low as isize, extent.bytes);
            return Ok(Input { payload, blocks: extent.blocks, keeps: None });
        }
        let (packed, blocks) = packed_room(sections)?;
        for (section, block) in sections.iter().zip(&*blocks) {
            let (offset, bytes) = place_of(section)?;
            pack((&section.datatype, section.count), buffer.payload(offset, bytes), &packed, block)?;
        }
        // SAFETY: the input keeps what is packed, and the operation keeps the input.
        let payload = unsafe { packed.memory().reading() };
        Ok(Input { payload, blocks, keeps: Some(packed) })
    }

    /// An error where the send buffer and the receive buffer overlap (MPI 5.0 §6.1). `gives` and `gets` are
    /// the program's buffers and sections that this input and `output` were made of.
    #[inline]
    pub(crate) fn check_apart(
        &self,
        output: &Output,
        gives: (*const c_void, &[Section]),
        gets: (*const c_void, &[Section]),
    ) -> Result<()> {
        let (given, gotten) = (&self.payload, &output.memory);
        if given.bytes() == 0 || gotten.bytes() == 0 {
            return Ok(());
        }
        let range = |start: usize, bytes| start..start + bytes;
        let (given, gotten) =
            (range(given.start().addr(), given.bytes()), range(gotten.start().addr(), gotten.bytes()));
        // Where they are packed, the program's elements stand elsewhere.
        let is_packed = self.keeps.is_some() || output.scattered.is_some();
        if !is_packed && are_apart(&given, &gotten) { Ok(()) } else { check_sections_apart(gives, gets) }
    }
}

/// An error where a section of the send buffer overlaps one of the receive buffer; sections may lie between
/// sections of the other buffer. Of noncontiguous elements only the first byte is compared.
#[cold]
pub(crate) fn check_sections_apart(
    gives: (*const c_void, &[Section]),
    gets: (*const c_void, &[Section]),
) -> Result<()> {
    let stretches = |(buffer, sections): (*const c_void, &[Section])| -> Result<Vec<Range<usize>>> {
        let mut stretches = Vec::with_capacity(sections.len());
        for section in sections {
            let Stand { start, end, bytes } = Stand::of(section)?;
            let start = buffer.addr().wrapping_add(start as usize);
            match (bytes, section.datatype.is_dense()) {
                (0, _) => {}
                (_, true) => stretches.push(start..buffer.addr().wrapping_add(end as usize)),
                (_, false) => stretches.push(start..start.wrapping_add(1)),
            }
        }
        stretches.sort_unstable_by_key(|stretch| stretch.start);
        Ok(stretches)
    };
    let (gives, gets) = (stretches(gives)?, stretches(gets)?);
    let mut gets = gets.iter().peekable();
    for given in &gives {
        while gets.next_if(|gotten| gotten.end <= given.start).is_some() {}
        if let Some(gotten) = gets.peek().filter(|gotten| !are_apart(given, gotten)) {
            let what = format!(
                "what is sent stands at {:#x} to {:#x}, and what is received is to come to {:#x} to {:#x}",
                given.start, given.end, gotten.start, gotten.end
            );
            return Err(Error::new(Class::Buffer, what)
                .remedy("give two buffers that do not overlap, or MPI_IN_PLACE where the operation has it"));
        }
    }
    Ok(())
}

/// Whether two stretches of memory have no byte in common.
#[inline(always)]
pub(crate) fn are_apart(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.end <= other.start || other.end <= one.start
}

/// The part of memory that the sections of a buffer span.
struct Extent {
    /// Whether every section stands packed in memory.
    dense: bool,
    /// From the buffer's address to the first byte.
    low: i64,
    bytes: usize,
    blocks: BufferBlocks,
}

impl Extent {
    fn of(buffer: *const c_void, sections: &[Section]) -> Result<Extent> {
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        let mut blocks = BufferBlocks::of(sections, |section| {
            let Stand { start, end, bytes } = Stand::of(section)?;
            if bytes == 0 {
                return Ok(Block::NOTHING);
            }
            (low, high) = (low.min(start), high.max(end));
            Ok(Block { offset: start as usize, bytes })
        })?;
        if low > high {
            (low, high) = (0, 0);
        }
        if buffer.is_null() && low < high && (0..NOT_AN_ADDRESS).contains(&low) {
            return Err(Error::new(Class::Buffer, "the buffer is a null pointer, and counts are not 0"));
        }
        // Counted from the first byte, now that it is known.
        for block in blocks.iter_mut().filter(|block| block.bytes > 0) {
            block.offset = block.offset.wrapping_sub(low as usize);
        }
        let dense = sections.iter().all(|section| section.datatype.is_dense() || section.count == 0);
        let bytes = high.checked_sub(low).and_then(|bytes| usize::try_from(bytes).ok());
        let bytes =
            bytes.filter(|&bytes| isize::try_from(bytes).is_ok()).ok_or_else(|| too_far(&"the buffer"))?;
        Ok(Extent { dense, low, bytes, blocks })
    }
}

/// Where one section stands, in bytes from the buffer's address.
struct Stand {
    start: i64,
    end: i64,
    /// Its length when it is packed.
    bytes: usize,
}

impl Stand {
    #[inline]
    fn of(section: &Section) -> Result<Stand> {
        let bytes = bytes_of(section.count, &section.datatype)?;
        let span = section.datatype.span(section.count).map_err(|error| too_far(&error))?;
        let beyond = || too_far(&"a displacement");
        let start = section.offset.checked_add(span.start).ok_or_else(beyond)?;
        // A section without data stands nowhere.
        let end = if bytes == 0 { start } else { start.checked_add(span.bytes).ok_or_else(beyond)? };
        Ok(Stand { start, end, bytes })
    }
}

impl BufferBlocks {
    fn of(sections: &[Section], block: impl FnMut(&Section) -> Result<Block>) -> Result<BufferBlocks> {
        let mut blocks = sections.iter().map(block);
        match sections {
            [_] => Ok(BufferBlocks::One(blocks.next().transpose()?.unwrap_or(Block::NOTHING))),
            _ => Ok(BufferBlocks::Listed(blocks.collect::<Result<_>>()?)),
        }
    }
}

impl Deref for BufferBlocks {
    type Target = [Block];

    fn deref(&self) -> &[Block] {
        match self {
            BufferBlocks::One(block) => std::slice::from_ref(block),
            BufferBlocks::Listed(blocks) => blocks,
        }
    }
}

impl DerefMut for BufferBlocks {
    fn deref_mut(&mut self) -> &mut [Block] {
        match self {
            BufferBlocks::One(block) => std::slice::from_mut(block),
            BufferBlocks::Listed(blocks) => blocks,
        }
    }
}

/// Room for the packed sections, one behind the other, and where each stands there.
fn packed_room(sections: &[Section]) -> Result<(Heap, BufferBlocks)> {
    let blocks = behind_each_other(sections)?;
    Ok((pooled(blocks.iter().map(|block| block.bytes).sum()), blocks))
}

/// Packs the elements of one section, which stand in `from`, into their block.
fn pack((datatype, count): (&Datatype, i64), from: Payload<'_>, packed: &Heap, block: &Block) -> Result<()> {
    let mut into = packed.memory().part(block.offset, block.bytes);
    datatype::pack_memory(datatype, count, from, &mut into, 0)
        .map_err(|error| Error::new(Class::Buffer, error.to_string()))?;
    Ok(())
}

/// Where the elements of a section stand: how far from the buffer's address, and how many bytes they span.
fn place_of(section: &Section) -> Result<(isize, usize)> {
    let span = section.datatype.span(section.count).map_err(|error| too_far(&error))?;
    Ok(((section.offset + span.start) as isize, span.bytes as usize))
}

fn places(buffer: Received, sections: &[Section]) -> Result<Vec<BufferPlace>> {
    let place = |section: &Section| {
        let (offset, bytes) = place_of(section)?;
        let memory = buffer.memory(offset, bytes);
        Ok(BufferPlace { memory, count: section.count, datatype: Datatype::clone(&section.datatype) })
    };
    sections.iter().map(place).collect()
}

/// Blocks for sections that are packed one behind the other.
fn behind_each_other(sections: &[Section]) -> Result<BufferBlocks> {
    let mut offset = 0;
    BufferBlocks::of(sections, |section| {
        let bytes = bytes_of(section.count, &section.datatype)?;
        let block = Block { offset, bytes };
        offset += bytes;
        Ok(block)
    })
}

#[cold]
fn too_far(what: &dyn std::fmt::Display) -> Error {
    Error::new(Class::Count, format!("{what} reaches beyond what can be addressed"))
}

/// No object of a program lies below: displacements that small from a null pointer are no absolute addresses.
const NOT_AN_ADDRESS: i64 = 4096;
