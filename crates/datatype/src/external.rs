//! The data representation `external32`, the same bytes on every machine (MPI 5.0 section 14.5.2):
//! big-endian, in sizes that the standard fixes, IEEE formats, one element behind the other.
//!
//! Elements go through a small stage: packed in this machine's formats first, by the layout, then converted
//! run by run of one kind. The other way round it is the reverse.

use fabric::{Payload, UserMemory};
use thiserror::Error;

use crate::{Basic, Datatype, DatatypeError, Predefined, ShortClaim, pack, unpack};

/// Why data could not be converted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExternalError {
    /// A claim is too short for the elements, or their span is not a number.
    #[error(transparent)]
    Claim(#[from] ShortClaim),
    /// The room for converted bytes, or the converted bytes themselves, are too few.
    #[error(
        "datatype: {needed} bytes of external32 are needed, {given} are there\nMPI_Pack_external_size tells them"
    )]
    Bytes {
        /// Bytes in external32.
        needed: i64,
        /// Bytes of the claim.
        given: usize,
    },
    /// A number that the smaller format of external32 does not hold.
    #[error(
        "datatype: the {predefined} {value} does not fit the {bytes} bytes that external32 has for it\nuse a datatype of fixed size, such as MPI_INT64_T"
    )]
    Value {
        /// The datatype of the element.
        predefined: Predefined,
        /// Its value.
        value: i128,
        /// Bytes in external32.
        bytes: usize,
    },
}

impl Predefined {
    /// Bytes of an element in external32.
    #[must_use]
    pub fn external_size(self) -> i64 {
        match self {
            Predefined::Long | Predefined::UnsignedLong => 4,
            Predefined::Wchar => 2,
            _ => match self.pair() {
                Some((value, index)) => value.external_size() + index.external_size(),
                None => self.size(),
            },
        }
    }
}

impl Datatype {
    /// Bytes that `count` elements take in external32.
    ///
    /// # Errors
    /// A negative count, or a number of packed bytes beyond `i64`.
    pub fn external_bytes(&self, count: i64) -> Result<i64, DatatypeError> {
        self.packed_bytes(count)?;
        Ok(self.signature().external_bytes() * count)
    }
}

/// Converts `count` elements of `source`, which covers their [`Datatype::span`], to external32 at the front
/// of `into`.
///
/// # Errors
/// [`ExternalError`]. What stands before an element that cannot be converted has been written then.
pub fn pack_external(
    datatype: &Datatype,
    count: i64,
    source: Payload<'_>,
    into: &mut UserMemory,
) -> Result<(), ExternalError> {
    check_external(datatype, count, into.bytes())?;
    pack(datatype, count, source, &mut [], 0)?;
    let mut natives = Natives { datatype, count, source, packed: 0, stage: [0; STAGE_BYTES], ready: 0..0 };
    let (mut converted, mut at) = ([0; STAGE_BYTES], 0);
    datatype.signature().each_run(count, &mut |predefined, mut elements| {
        let format = Format::of(predefined);
        while elements > 0 {
            let natives = natives.next(format.native, elements)?;
            let some = natives.len() / format.native;
            let converted = &mut converted[..some * format.external];
            format.export(natives, converted)?;
            into.write_at(at, Payload::from(&*converted));
            at += converted.len();
            elements -= some as i64;
        }
        Ok(())
    })
}

/// Converts external32 at the front of `external` to `count` elements of `into`, which covers their
/// [`Datatype::span`]. Gaps stay as they are.
///
/// # Errors
/// [`ExternalError`]; nothing is written then.
pub fn unpack_external(
    datatype: &Datatype,
    count: i64,
    external: Payload<'_>,
    into: &mut UserMemory,
) -> Result<(), ExternalError> {
    check_external(datatype, count, external.bytes())?;
    unpack(datatype, count, Payload::EMPTY, into, 0)?;
    let (mut stage, mut filled, mut packed) = ([0; STAGE_BYTES], 0, 0);
    let (mut foreign, mut at) = ([0; STAGE_BYTES], 0);
    let mut flush = |stage: &[u8]| -> Result<(), ExternalError> {
        packed += unpack(datatype, count, Payload::from(stage), into, packed)? as i64;
        Ok(())
    };
    datatype.signature().each_run(count, &mut |predefined, mut elements| {
        let format = Format::of(predefined);
        while elements > 0 {
            if STAGE_BYTES - filled < format.native {
                flush(&stage[..filled])?;
                filled = 0;
            }
            let some =
                ((STAGE_BYTES - filled) / format.native).min(usize::try_from(elements).unwrap_or(usize::MAX));
            let foreign = &mut foreign[..some * format.external];
            external.after(at).copy_to(foreign);
            format.import(foreign, &mut stage[filled..filled + some * format.native]);
            at += foreign.len();
            filled += some * format.native;
            elements -= some as i64;
        }
        Ok::<(), ExternalError>(())
    })?;
    flush(&stage[..filled])
}

fn check_external(datatype: &Datatype, count: i64, given: usize) -> Result<(), ExternalError> {
    let needed = datatype.external_bytes(count).map_err(ShortClaim::Span)?;
    if i64::try_from(given).is_ok_and(|given| given < needed) {
        return Err(ExternalError::Bytes { needed, given });
    }
    Ok(())
}

/// Elements in this machine's formats, packed a stage at a time.
struct Natives<'a> {
    datatype: &'a Datatype,
    count: i64,
    source: Payload<'a>,
    /// Packed bytes that have come into the stage.
    packed: i64,
    stage: [u8; STAGE_BYTES],
    /// Those of the stage that nobody has taken.
    ready: std::ops::Range<usize>,
}

impl Natives<'_> {
    /// The next elements of `bytes` bytes each, at least one and at most `most`.
    fn next(&mut self, bytes: usize, most: i64) -> Result<&[u8], ShortClaim> {
        if self.ready.len() < bytes {
            self.stage.copy_within(self.ready.clone(), 0);
            let kept = self.ready.len();
            let came = pack(self.datatype, self.count, self.source, &mut self.stage[kept..], self.packed)?;
            self.packed += came as i64;
            self.ready = 0..kept + came;
        }
        let elements = (self.ready.len() / bytes).min(usize::try_from(most).unwrap_or(usize::MAX));
        let taken = self.ready.start..self.ready.start + elements * bytes;
        self.ready.start = taken.end;
        Ok(&self.stage[taken])
    }
}

/// How elements of one kind stand here and in external32.
struct Format {
    predefined: Predefined,
    native: usize,
    external: usize,
    /// Bytes of a number: a complex one is two.
    part: usize,
    conversion: Conversion,
}

#[derive(Clone, Copy)]
enum Conversion {
    /// The bytes of a number in big-endian order: reversed, or copied on a big-endian machine.
    Order,
    /// An integer of which the lower bytes are kept; signed or not.
    Narrow { signed: bool },
    /// An x87 long double, which becomes a quadruple one.
    LongDouble,
}

impl Format {
    /// Of a datatype that is no pair.
    fn of(predefined: Predefined) -> Format {
        let native = predefined.size() as usize;
        let external = predefined.external_size() as usize;
        let (part, conversion) = match predefined.basic() {
            _ if external < native => (native, Conversion::Narrow { signed: predefined == Predefined::Long }),
            Basic::F80 if X87 => (16, Conversion::LongDouble),
            Basic::C80 if X87 => (16, Conversion::LongDouble),
            Basic::C16 | Basic::C32 | Basic::C64 | Basic::C80 | Basic::C128 => {
                (native / 2, Conversion::Order)
            }
            _ => (native, Conversion::Order),
        };
        Format { predefined, native, external, part, conversion }
    }

    fn export(&self, natives: &[u8], externals: &mut [u8]) -> Result<(), ExternalError> {
        match self.conversion {
            Conversion::Order => {
                reordered(natives, externals, self.part);
                Ok(())
            }
            Conversion::LongDouble => {
                each_part::<16, 16>(natives, externals, |native| quadruple(native).to_be_bytes());
                Ok(())
            }
            Conversion::Narrow { signed } => {
                let pairs = natives.chunks_exact(self.native).zip(externals.chunks_exact_mut(self.external));
                for (native, external) in pairs {
                    self.export_narrow(native, external, signed)?;
                }
                Ok(())
            }
        }
    }

    fn export_narrow(&self, native: &[u8], external: &mut [u8], signed: bool) -> Result<(), ExternalError> {
        let value = integer(native, signed);
        let (low, high) = if signed {
            (-(1 << (self.external * 8 - 1)), 1 << (self.external * 8 - 1))
        } else {
            (0, 1 << (self.external * 8))
        };
        if !(low..high).contains(&value) {
            return Err(ExternalError::Value { predefined: self.predefined, value, bytes: self.external });
        }
        external.copy_from_slice(&value.to_be_bytes()[16 - self.external..]);
        Ok(())
    }

    fn import(&self, externals: &[u8], natives: &mut [u8]) {
        match self.conversion {
            Conversion::Order => reordered(externals, natives, self.part),
            Conversion::LongDouble => {
                each_part::<16, 16>(externals, natives, |external| {
                    long_double(u128::from_be_bytes(external))
                });
            }
            Conversion::Narrow { signed } => {
                let pairs = externals.chunks_exact(self.external).zip(natives.chunks_exact_mut(self.native));
                for (external, native) in pairs {
                    let mut ordered = [0; 16];
                    let ordered = &mut ordered[..self.external];
                    reordered(external, ordered, self.external);
                    let value = integer(ordered, signed);
                    let bytes = value.to_ne_bytes();
                    let low = if cfg!(target_endian = "big") { 16 - self.native } else { 0 };
                    native.copy_from_slice(&bytes[low..low + self.native]);
                }
            }
        }
    }
}

/// An integer in this machine's order of bytes.
fn integer(native: &[u8], signed: bool) -> i128 {
    let byte = |index: usize| {
        if cfg!(target_endian = "big") { native[index] } else { native[native.len() - 1 - index] }
    };
    let start = if signed && byte(0) >> 7 == 1 { -1 } else { 0 };
    (0..native.len()).fold(start, |value: i128, index| value << 8 | i128::from(byte(index)))
}

/// Copies numbers of `part` bytes, from this machine's order of bytes to big-endian or back.
fn reordered(from: &[u8], to: &mut [u8], part: usize) {
    match part {
        1 => to.copy_from_slice(from),
        2 => each_part::<2, 2>(from, to, |bytes| u16::from_ne_bytes(bytes).to_be_bytes()),
        4 => each_part::<4, 4>(from, to, |bytes| u32::from_ne_bytes(bytes).to_be_bytes()),
        8 => each_part::<8, 8>(from, to, |bytes| u64::from_ne_bytes(bytes).to_be_bytes()),
        _ => each_part::<16, 16>(from, to, |bytes| u128::from_ne_bytes(bytes).to_be_bytes()),
    }
}

#[inline]
fn each_part<const FROM: usize, const TO: usize>(
    from: &[u8],
    to: &mut [u8],
    convert: impl Fn([u8; FROM]) -> [u8; TO],
) {
    for (from, to) in from.as_chunks::<FROM>().0.iter().zip(to.as_chunks_mut::<TO>().0) {
        *to = convert(*from);
    }
}

// Both formats have a sign, 15 bits of exponent with one bias, and a fraction; the leading bit is written out
// in one of them:
//
//   x87         s | exponent 15 |                 lead 1 | fraction 63
//   quadruple   s | exponent 15 | fraction 112

/// An x87 long double as a quadruple one, which holds each of its numbers. What is no number of the format
/// becomes a NaN.
fn quadruple(native: [u8; 16]) -> u128 {
    let [m0, m1, m2, m3, m4, m5, m6, m7, e0, e1, ..] = native;
    let mantissa = u64::from_le_bytes([m0, m1, m2, m3, m4, m5, m6, m7]);
    let head = u16::from_le_bytes([e0, e1]);
    let (sign, exponent) = (head >> 15, head & EXPONENT_MAX);
    let (lead, fraction) = (mantissa >> 63 == 1, mantissa & (LEAD - 1));
    let (exponent, fraction) = match (exponent, lead) {
        // A number below the normal ones whose leading bit is set is the first normal one's neighbour.
        (0, true) => (1, fraction),
        (0, false) | (_, true) => (exponent, fraction),
        (_, false) => (EXPONENT_MAX, fraction | LEAD >> 1),
    };
    u128::from(sign) << 127 | u128::from(exponent) << 112 | u128::from(fraction) << SPARE_BITS
}

/// A quadruple number as the nearest x87 long double, of two equally near the even one.
fn long_double(external: u128) -> [u8; 16] {
    let head = (external >> 112) as u16;
    let (sign, exponent) = (head & !EXPONENT_MAX, head & EXPONENT_MAX);
    let fraction = external & ((1 << 112) - 1);
    let (kept, rest) = ((fraction >> SPARE_BITS) as u64, fraction & ((1 << SPARE_BITS) - 1));
    let (exponent, mantissa) = match exponent {
        EXPONENT_MAX if fraction == 0 => (exponent, LEAD),
        // One bit is set for certain, so that it stays a NaN.
        EXPONENT_MAX => (exponent, LEAD | LEAD >> 1 | kept),
        _ => rounded(exponent, kept, rest),
    };
    let mut native = [0; 16];
    native[..8].copy_from_slice(&mantissa.to_le_bytes());
    native[8..10].copy_from_slice(&(sign | exponent).to_le_bytes());
    native
}

/// Exponent and mantissa of a number of which `rest` is cut off.
fn rounded(exponent: u16, kept: u64, rest: u128) -> (u16, u64) {
    let half = 1 << (SPARE_BITS - 1);
    let up = half < rest || rest == half && kept & 1 == 1;
    let fraction = kept + u64::from(up);
    match (exponent, fraction == LEAD) {
        // The fraction ran over: the next exponent begins, whether numbers were normal or not.
        (_, true) => (exponent + 1, LEAD),
        (0, false) => (0, fraction),
        (_, false) => (exponent, LEAD | fraction),
    }
}

/// Whether a long double is the x87 one here. Elsewhere it is taken for a quadruple one.
const X87: bool = cfg!(target_arch = "x86_64");
const LEAD: u64 = 1 << 63;
const EXPONENT_MAX: u16 = 0x7fff;
/// Bits of a quadruple number's fraction beyond those of a long double's.
const SPARE_BITS: u32 = 49;
/// Elements on their way; a multiple of every size.
const STAGE_BYTES: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    fn x87(head: u16, mantissa: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&mantissa.to_le_bytes());
        bytes[8..10].copy_from_slice(&head.to_le_bytes());
        bytes
    }

    #[test]
    fn known_numbers_have_the_bits_of_the_quadruple_format() {
        for (head, mantissa, expected) in [
            (0x3fff, LEAD, 0x3fff << 112),                                     // 1
            (0xc000, LEAD | LEAD >> 1, 0xc_0008 << 108),                       // -3
            (0, 0, 0),                                                         // 0
            (0x8000, 0, 0x8000 << 112),                                        // -0
            (0x7fff, LEAD, 0x7fff << 112),                                     // infinity
            (0, 1, 1 << 49),                                                   // the smallest of the x87's
            (0x7fff, LEAD | LEAD >> 1, 0x7_fff8 << 108),                       // a NaN
            (0x3ffd, 0xaaaa_aaaa_aaaa_aaab, 0x3ffd_5555_5555_5555_5556 << 48), // a third
        ] {
            assert_eq!(quadruple(x87(head, mantissa)), expected, "{head:x} {mantissa:x}");
            assert_eq!(long_double(expected), x87(head, mantissa), "{expected:x}");
        }
    }

    #[test]
    fn what_is_no_number_becomes_a_nan_and_pseudo_denormals_their_value() {
        let unnormal = quadruple(x87(0x3fff, 1));
        assert!(unnormal >> 112 == 0x7fff && unnormal << 16 != 0);
        assert_eq!(quadruple(x87(0, LEAD | 5)), 1 << 112 | 5 << SPARE_BITS);
    }

    #[test]
    fn numbers_between_two_long_doubles_go_to_the_nearest() {
        let one = 0x3fff_u128 << 112;
        let half = 1_u128 << (SPARE_BITS - 1);
        for (external, mantissa) in [
            (one | half, LEAD),
            (one | (half + 1), LEAD + 1),
            (one | 1 << SPARE_BITS | half, LEAD + 2),
            (one | (half - 1), LEAD),
        ] {
            assert_eq!(long_double(external), x87(0x3fff, mantissa), "{external:x}");
        }
        let all = (1_u128 << 112) - 1;
        assert_eq!(long_double(one | all), x87(0x4000, LEAD));
        assert_eq!(long_double(all), x87(1, LEAD), "the largest below the normal ones");
        assert_eq!(long_double(0x7ffe_u128 << 112 | all), x87(0x7fff, LEAD), "beyond all numbers");
        assert_eq!(long_double(0x7fff_u128 << 112 | 1), x87(0x7fff, LEAD | LEAD >> 1));
    }

    #[test]
    fn sizes_are_those_of_the_standard() {
        for (predefined, bytes) in [
            (Predefined::Long, 4),
            (Predefined::UnsignedLong, 4),
            (Predefined::LongLong, 8),
            (Predefined::Int64, 8),
            (Predefined::Aint, 8),
            (Predefined::Wchar, 2),
            (Predefined::CBool, 1),
            (Predefined::Logical, 4),
            (Predefined::LongDouble, 16),
            (Predefined::CLongDoubleComplex, 32),
            (Predefined::Real16, 16),
            (Predefined::Complex32, 32),
            (Predefined::LongInt, 8),
            (Predefined::LongDoubleInt, 20),
        ] {
            assert_eq!(predefined.external_size(), bytes, "{predefined}");
        }
        for &predefined in Predefined::ALL {
            assert!(predefined.external_size() <= predefined.size(), "{predefined}");
            let elements = STAGE_BYTES as i64 % predefined.size();
            assert!(predefined.pair().is_some() || elements == 0, "{predefined}");
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let long = Predefined::Long.datatype();
        let mut room = [0u8; 8];
        for (value, fits) in [
            (i64::from(i32::MIN), true),
            (i64::from(i32::MAX), true),
            (1 << 31, false),
            (-(1 << 31) - 1, false),
        ] {
            let heap = fabric::Heap::new(8);
            let bytes = [7i64, value].map(i64::to_ne_bytes).concat();
            let found = pack_external(long, 2, Payload::from(&bytes[..]), &mut heap.memory());
            assert_eq!(found.is_ok(), fits, "{value}");
            if fits {
                heap.payload().copy_to(&mut room);
                assert_eq!(room[..4], [0, 0, 0, 7]);
                assert_eq!(room[4..], (value as i32).to_be_bytes());
            } else {
                let refusal =
                    ExternalError::Value { predefined: Predefined::Long, value: value.into(), bytes: 4 };
                assert_eq!(found, Err(refusal));
            }
        }
    }
}
