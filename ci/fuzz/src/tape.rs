//! Fuzzer input as a tape of choices: what is read beyond its end is zero, so that every input means
//! something.

use std::os::fd::AsFd;

use rustix::net::SendFlags;

/// The rest of an input.
#[derive(Clone, Copy, Debug)]
pub struct Tape<'a>(&'a [u8]);

impl<'a> Tape<'a> {
    /// All of an input.
    #[must_use]
    pub fn new(input: &'a [u8]) -> Tape<'a> {
        Tape(input)
    }

    /// Whether all was read.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u8) -> u8 {
        self.byte() % end.max(1)
    }

    /// Two bytes as a number.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Four bytes as a number.
    pub fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Eight bytes as a number.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// At most `bytes` bytes as they stand.
    pub fn chunk(&mut self, bytes: usize) -> &'a [u8] {
        let (chunk, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        chunk
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.chunk(usize::MAX)
    }

    /// `N` bytes, filled up with zeros.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let chunk = self.chunk(N);
        let mut array = [0; N];
        array[..chunk.len()].copy_from_slice(chunk);
        array
    }
}

/// Says what goes without waiting. Under libFuzzer a broken connection would otherwise be a signal.
pub fn say(socket: impl AsFd, bytes: &[u8]) {
    let _ = rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// A tape that is being written, for seeds.
#[derive(Clone, Default, Debug)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Adds bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Writer {
        self.0.extend(bytes);
        self
    }

    /// Adds a byte and, behind it, a counted chunk: one byte of length, then the chunk.
    #[must_use]
    pub fn counted(self, choice: u8, chunk: &[u8]) -> Writer {
        self.bytes(&[choice, chunk.len() as u8]).bytes(chunk)
    }
}
