//! How long the messages are that the layer ofi_rxm of libfabric sends at once.

use crate::memory::BUFFER_BYTES_MAX;
use crate::port::SLOT_BYTES;

/// How long a message may be that ofi_rxm sends at once, in bytes: libfabric reads it when it is loaded, in
/// each process. A connection between two that have read different numbers is refused.
pub const PACKET_VARIABLE: &str = "FI_OFI_RXM_BUFFER_SIZE";
/// The best value of [`PACKET_VARIABLE`]: a message of 16 KiB goes at once with its frame. The provider takes
/// 16 KiB where the variable is not set.
pub const PACKET_BYTES: usize = SLOT_BYTES + 64;

/// What libfabric takes a value of [`PACKET_VARIABLE`] for. It reads numbers by C's `strtol` with base 0:
/// decimal, with `0x` in front hexadecimal, with `0` in front octal; what follows the digits is not looked
/// at, and what begins with none is zero, in place of which it takes the least that it can do with.
#[must_use]
pub fn packet_bytes(value: &str) -> usize {
    let value = value.trim_start();
    let (is_negative, value) = match value.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, value.strip_prefix('+').unwrap_or(value)),
    };
    let is_hexadecimal = value.get(..2).is_some_and(|front| front.eq_ignore_ascii_case("0x"));
    let (base, digits) = match is_hexadecimal {
        true => (16, &value[2..]),
        false if value.starts_with('0') => (8, value),
        false => (10, value),
    };
    let digits = digits.chars().map_while(|digit| digit.to_digit(base));
    let number = digits
        .fold(0_usize, |number, digit| number.saturating_mul(base as usize).saturating_add(digit as usize));
    // A negative number is a very large one, once it is a length.
    if is_negative { number.wrapping_neg() } else { number }
}

/// How long a slot is where ofi_rxm sends so much at once; `None` where nobody has said.
pub(crate) fn slot_bytes(provider: &str, packet_bytes: Option<usize>) -> usize {
    let packet_bytes = packet_bytes.filter(|_| provider.ends_with(LAYER)).unwrap_or(SLOT_BYTES);
    packet_bytes.clamp(PACKET_BYTES_LEAST, PACKET_BYTES_MOST)
}

/// What is added to the names of providers that go through ofi_rxm.
const LAYER: &str = ";ofi_rxm";
/// Whatever the variable says, slots are no smaller and no larger: a receive buffer takes two such messages.
const PACKET_BYTES_LEAST: usize = 2 << 10;
const PACKET_BYTES_MOST: usize = BUFFER_BYTES_MAX / 2;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_those_of_libfabric() {
        for value in ["16448", "0x4040", "0X4040k", "040100", " +16448", "16448 bytes"] {
            assert_eq!(packet_bytes(value), 16448, "{value}");
        }
        assert_eq!(["16K", "many", "", "0x", "09"].map(packet_bytes), [16, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_value_makes_a_slot(value: String, number: i64) {
            let few = slot_bytes("verbs;ofi_rxm", Some(packet_bytes(&value)));
            prop_assert!((PACKET_BYTES_LEAST..=PACKET_BYTES_MOST).contains(&few));
            prop_assert_eq!(packet_bytes(&number.to_string()), number as usize);
            prop_assert_eq!(packet_bytes(&format!("{number:#x}")), number as usize);
        }
    }
}
