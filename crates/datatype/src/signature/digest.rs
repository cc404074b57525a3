//! One number for the kinds of elements that follow each other, so that two processes can see whether they
//! mean the same.
//!
//! It is a polynomial in the kinds, modulo a prime: what is repeated is a power, so a million structs cost no
//! more than one, and parts are put together from their numbers.

use super::{Signature, SignatureShape, whole};
use crate::{Datatype, Predefined};

impl Datatype {
    /// A number for the kinds of the elements in the first `bytes` bytes of `count` elements, without their
    /// places: the same for all datatypes that have the same kinds of numbers in the same order. 0 where that
    /// is not known (`MPI_PACKED`), and 1, which no whole elements have, where the bytes end inside an
    /// element or beyond the last.
    #[must_use]
    pub fn digest(&self, count: i64, bytes: i64) -> u32 {
        let signature = self.signature();
        let all = signature.bytes.checked_mul(count);
        if all.is_none_or(|all| bytes > all) {
            return NOT_WHOLE;
        }
        match signature.digest(bytes) {
            Ok(digest) => digest.folded(),
            Err(Undigested::Unknown) => UNKNOWN,
            Err(Undigested::NotWhole) => NOT_WHOLE,
        }
    }
}

/// Why there is no number.
enum Undigested {
    Unknown,
    NotWhole,
}

/// The number of a sequence, and what one before it is multiplied by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Digest {
    value: u64,
    factor: u64,
}

impl Signature {
    /// Of as many elements as `bytes` bytes hold, of this again and again.
    fn digest(&self, bytes: i64) -> Result<Digest, Undigested> {
        if bytes == 0 {
            return Ok(Digest::EMPTY);
        }
        let times = bytes.checked_div(self.bytes).ok_or(Undigested::NotWhole)?;
        let rest = bytes % self.bytes;
        let once = if times > 0 { self.part(self.bytes)?.times(times) } else { Digest::EMPTY };
        Ok(once.then(self.part(rest)?))
    }

    /// Of the first `bytes` bytes of this.
    fn part(&self, mut bytes: i64) -> Result<Digest, Undigested> {
        match &self.shape {
            SignatureShape::Uniform(kind) => {
                let elements = whole(bytes, kind.size()).ok_or(Undigested::NotWhole)?;
                Ok(Digest::of(*kind)?.times(elements))
            }
            SignatureShape::Repeat { inner } => inner.digest(bytes),
            SignatureShape::Sequence(parts) => {
                let mut digest = Digest::EMPTY;
                for part in parts.iter() {
                    if bytes == 0 {
                        break;
                    }
                    let here = bytes.min(part.bytes);
                    digest = digest.then(part.part(here)?);
                    bytes -= here;
                }
                Ok(digest)
            }
        }
    }
}

impl Digest {
    const EMPTY: Digest = Digest { value: 0, factor: 1 };

    fn of(kind: Predefined) -> Result<Digest, Undigested> {
        match kind {
            Predefined::Packed => Err(Undigested::Unknown),
            kind => Ok(Digest { value: kind.basic() as u64 + 1, factor: FACTOR }),
        }
    }

    /// This, and the other behind it.
    fn then(self, next: Digest) -> Digest {
        let value = (u128::from(self.value) * u128::from(next.factor) + u128::from(next.value)) % PRIME;
        let factor = u128::from(self.factor) * u128::from(next.factor) % PRIME;
        Digest { value: value as u64, factor: factor as u64 }
    }

    /// This, so many times.
    fn times(self, mut count: i64) -> Digest {
        let (mut result, mut power) = (Digest::EMPTY, self);
        while count > 0 {
            if count % 2 == 1 {
                result = result.then(power);
            }
            power = power.then(power);
            count /= 2;
        }
        result
    }

    /// In few bits, and never one of the numbers that mean something else.
    fn folded(self) -> u32 {
        ((self.value ^ self.value >> 32) as u32).max(NOT_WHOLE + 1)
    }
}

const PRIME: u128 = (1 << 61) - 1;
const FACTOR: u64 = 0x0123_4567_89ab_cdef;
const UNKNOWN: u32 = 0;
const NOT_WHOLE: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;

    fn basic(kind: Predefined) -> Datatype {
        kind.datatype().clone()
    }

    fn pair(first: Predefined, second: Predefined, stride: i64) -> Datatype {
        let (first, second) = (basic(first), basic(second));
        let field = |datatype, displacement| Field { length: 1, displacement, datatype };
        Datatype::structure(&[field(&first, 0), field(&second, stride)]).expect("it is right")
    }

    #[test]
    fn layouts_of_one_signature_have_one_number() {
        let int = basic(Predefined::Int);
        let vector = Datatype::vector(3, 2, 5, &int).expect("it is right");
        let all = int.digest(6, 24);
        assert_eq!(vector.digest(1, 24), all);
        assert_eq!(vector.digest(2, 24), all, "a message may be shorter than its room");
        assert_eq!(vector.digest(1, 20), int.digest(9, 20));
        let (near, far) =
            (pair(Predefined::Int, Predefined::Double, 8), pair(Predefined::Int, Predefined::Double, 64));
        assert_eq!(near.digest(1_000_000, 12_000_000), far.digest(2_000_000, 12_000_000));
        assert_eq!(near.digest(3, 16), far.digest(2, 16));
    }

    #[test]
    fn other_kinds_and_orders_have_other_numbers() {
        let (int, float) = (basic(Predefined::Int), basic(Predefined::Float));
        assert_ne!(int.digest(4, 16), float.digest(4, 16));
        assert_ne!(int.digest(4, 16), int.digest(4, 12));
        let (there, back) =
            (pair(Predefined::Int, Predefined::Float, 4), pair(Predefined::Float, Predefined::Int, 4));
        assert_ne!(there.digest(5, 40), back.digest(5, 40));
        assert_eq!(there.digest(2, 4), int.digest(1, 4));
    }

    #[test]
    fn what_is_not_whole_and_what_is_not_known_is_told_apart() {
        let int = basic(Predefined::Int);
        for bytes in [1, 5, 12] {
            assert_eq!(int.digest(2, bytes), NOT_WHOLE, "{bytes} bytes");
        }
        assert_eq!(basic(Predefined::Packed).digest(9, 9), UNKNOWN);
        assert!(int.digest(0, 0) > NOT_WHOLE && int.digest(1, 4) > NOT_WHOLE);
    }
}
