//! Where one process sits on its machine, as a few numbers that can be sent to others.

use crate::Level;

/// For each kind of part the number of the one that holds all cpus of a process; none where they lie in
/// several, or where the machine has no such parts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seat {
    numbers: [u32; Level::ALL.len()],
}

impl Seat {
    /// The seat of a process of which nothing is known.
    pub const UNKNOWN: Seat = Seat { numbers: [NONE; Level::ALL.len()] };
    /// The length of the byte form.
    pub const BYTES: usize = 4 * Level::ALL.len();

    /// The number of the part of that kind, unique on this machine.
    #[must_use]
    pub fn part(&self, level: Level) -> Option<u32> {
        Some(self.numbers[level as usize]).filter(|number| *number != NONE)
    }

    /// This seat with `number` as the part of kind `level` that holds the process.
    #[must_use]
    pub fn with(mut self, level: Level, number: u32) -> Seat {
        self.numbers[level as usize] = number;
        self
    }

    /// The byte form.
    #[must_use]
    pub fn encode(&self) -> [u8; Seat::BYTES] {
        let mut bytes = [0; Seat::BYTES];
        for (place, number) in bytes.chunks_exact_mut(4).zip(self.numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads the byte form. Any bytes of that length are a seat: numbers only say who sits together.
    #[must_use]
    pub fn decode(bytes: &[u8; Seat::BYTES]) -> Seat {
        let mut seat = Seat::UNKNOWN;
        for (number, place) in seat.numbers.iter_mut().zip(bytes.chunks_exact(4)) {
            *number = u32::from_le_bytes([place[0], place[1], place[2], place[3]]);
        }
        seat
    }
}

const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_read_as_it_was_written() {
        let seat = Seat::UNKNOWN.with(Level::Package, 1).with(Level::Cpu, 0);
        assert_eq!(Seat::decode(&seat.encode()), seat);
        assert_eq!((seat.part(Level::Package), seat.part(Level::Cpu)), (Some(1), Some(0)));
        assert_eq!(seat.part(Level::L3Cache), None);
        assert!(Level::ALL.iter().enumerate().all(|(place, level)| *level as usize == place));
    }
}
