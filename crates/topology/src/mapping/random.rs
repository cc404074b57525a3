//! Numbers that look random and are the same on every machine: a small generator with a seed (xorshift, 64
//! bits).

/// The generator.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    /// From 0 to below `bound`, which is above 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (((self.state >> 32) * u64::from(bound)) >> 32) as u32
    }
}
