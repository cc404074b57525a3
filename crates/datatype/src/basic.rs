//! What a machine-level element looks like: the number format behind one or more predefined datatypes.
//!
//! `MPI_INT`, `MPI_INTEGER` and `MPI_INT32_T` are three datatypes and one [`Basic`]. Which operators a
//! datatype may be used with is the matter of its [`Class`](crate::Class), not of its number format.

/// The number format of an element.
///
/// Pairs are a value followed by an index, with the gaps that a C `struct` of the two has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // the names say it all: I is signed, U unsigned, F floating, C complex; then bits a part
pub enum Basic {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    F16,
    F32,
    F64,
    /// The x87 long double: 80 bits of number in 16 bytes.
    F80,
    /// Quadruple precision.
    F128,
    C16,
    C32,
    C64,
    C80,
    C128,
    PairF32I32,
    PairF64I32,
    PairI64I32,
    PairI32I32,
    PairI16I32,
    PairF80I32,
    PairF32F32,
    PairF64F64,
}

impl Basic {
    /// Bytes of data, without gaps: what one element takes in packed form.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self.pair() {
            Some((value, index)) => value.bytes() + index.bytes(),
            None => self.single_bytes(),
        }
    }

    /// The address of an element in memory is a multiple of this.
    #[must_use]
    pub const fn alignment_bytes(self) -> usize {
        match (self.pair(), self.part()) {
            (Some((value, index)), _) => greater(value.alignment_bytes(), index.alignment_bytes()),
            (None, Some(part)) => part.alignment_bytes(),
            (None, None) => self.single_bytes(),
        }
    }

    /// Bytes from one element of an array to the next.
    #[must_use]
    pub const fn extent_bytes(self) -> usize {
        match self.pair() {
            Some((_, index)) => {
                (self.index_offset() + index.bytes()).next_multiple_of(self.alignment_bytes())
            }
            None => self.single_bytes(),
        }
    }

    /// Value and index of a pair; `None` for everything else.
    #[must_use]
    pub const fn pair(self) -> Option<(Basic, Basic)> {
        match self {
            Basic::PairF32I32 => Some((Basic::F32, Basic::I32)),
            Basic::PairF64I32 => Some((Basic::F64, Basic::I32)),
            Basic::PairI64I32 => Some((Basic::I64, Basic::I32)),
            Basic::PairI32I32 => Some((Basic::I32, Basic::I32)),
            Basic::PairI16I32 => Some((Basic::I16, Basic::I32)),
            Basic::PairF80I32 => Some((Basic::F80, Basic::I32)),
            Basic::PairF32F32 => Some((Basic::F32, Basic::F32)),
            Basic::PairF64F64 => Some((Basic::F64, Basic::F64)),
            _ => None,
        }
    }

    /// Where the index of a pair stands in memory, counted from the value; 0 for everything else.
    #[must_use]
    pub const fn index_offset(self) -> usize {
        match self.pair() {
            Some((value, index)) => value.bytes().next_multiple_of(index.alignment_bytes()),
            None => 0,
        }
    }

    /// What the two parts of a complex number are.
    const fn part(self) -> Option<Basic> {
        match self {
            Basic::C16 => Some(Basic::F16),
            Basic::C32 => Some(Basic::F32),
            Basic::C64 => Some(Basic::F64),
            Basic::C80 => Some(Basic::F80),
            Basic::C128 => Some(Basic::F128),
            _ => None,
        }
    }

    /// Bytes of everything that is not a pair.
    const fn single_bytes(self) -> usize {
        match self {
            Basic::I8 | Basic::U8 => 1,
            Basic::I16 | Basic::U16 | Basic::F16 => 2,
            Basic::I32 | Basic::U32 | Basic::F32 | Basic::C16 => 4,
            Basic::I64 | Basic::U64 | Basic::F64 | Basic::C32 => 8,
            Basic::I128 | Basic::U128 | Basic::F80 | Basic::F128 | Basic::C64 => 16,
            Basic::C80 | Basic::C128 => 32,
            _ => 0,
        }
    }
}

/// `usize::max`, in a constant context.
const fn greater(left: usize, right: usize) -> usize {
    if left < right { right } else { left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct CPair<V, I>(V, I);

    fn assert_like_c<V, I>(basic: Basic) {
        assert_eq!(basic.extent_bytes(), size_of::<CPair<V, I>>(), "{basic:?}");
        assert_eq!(basic.alignment_bytes(), align_of::<CPair<V, I>>(), "{basic:?}");
        assert_eq!(basic.index_offset(), std::mem::offset_of!(CPair<V, I>, 1), "{basic:?}");
        assert_eq!(basic.bytes(), size_of::<V>() + size_of::<I>(), "{basic:?}");
    }

    #[test]
    fn pairs_stand_in_memory_like_a_c_struct() {
        assert_like_c::<f32, i32>(Basic::PairF32I32);
        assert_like_c::<f64, i32>(Basic::PairF64I32);
        assert_like_c::<i64, i32>(Basic::PairI64I32);
        assert_like_c::<i32, i32>(Basic::PairI32I32);
        assert_like_c::<i16, i32>(Basic::PairI16I32);
        assert_like_c::<u128, i32>(Basic::PairF80I32);
        assert_like_c::<f32, f32>(Basic::PairF32F32);
        assert_like_c::<f64, f64>(Basic::PairF64F64);
    }

    #[test]
    fn complex_numbers_align_like_their_parts() {
        assert_eq!((Basic::C64.bytes(), Basic::C64.alignment_bytes()), (16, 8));
        assert_eq!((Basic::C80.bytes(), Basic::C80.alignment_bytes()), (32, 16));
        assert_eq!((Basic::C16.bytes(), Basic::C16.alignment_bytes()), (4, 2));
    }
}
