//! The predefined datatypes: one table with the name, the class and the number format of each.
//!
//! The rows stand in the order of the standard ABI's numbers, but know none of them: which handle means which
//! row is the affair of the ABI room.

use std::fmt;
use std::sync::LazyLock;

use crate::{Basic, Datatype};

/// Which operators a predefined datatype may be used with (MPI 5.0 section 6.9.2 groups them like this).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Integers of C, except the characters.
    CInteger,
    /// Integers of Fortran.
    FortranInteger,
    /// Real numbers of C and Fortran.
    Floating,
    /// Complex numbers of C, C++ and Fortran.
    Complex,
    /// Truth values: C `bool`, C++ `bool`, Fortran `LOGICAL` of any width.
    Logical,
    /// Uninterpreted bytes.
    Byte,
    /// Addresses, counts and file offsets, which mean the same in every language.
    MultiLanguage,
    /// A value with an index, for the operators that search.
    Pair,
    /// C's `char`. The standard means a printable character, which no operator combines; every library
    /// combines it as a small integer.
    CCharacter,
    /// Other printable characters: no operator combines them.
    Character,
    /// What `MPI_Pack` has written.
    Packed,
}

/// Writes the enum, the table of rows beside it, and the list of all.
macro_rules! predefined {
    ($($variant:ident = $name:literal, $class:ident, $basic:ident;)*) => {
        /// A predefined datatype. `as usize` is its row, from 0 on without a gap.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Predefined { $(#[doc = concat!("`", $name, "`")] $variant,)* }

        impl Predefined {
            /// Every predefined datatype, by row.
            pub const ALL: &'static [Predefined] = &[$(Predefined::$variant,)*];
        }

        /// What is known of each, by row.
        const ROWS: &[Row] =
            &[$(Row { name: $name, class: Class::$class, basic: Basic::$basic },)*];
    };
}

predefined! {
    Aint = "MPI_AINT", MultiLanguage, I64;
    Count = "MPI_COUNT", MultiLanguage, I64;
    Offset = "MPI_OFFSET", MultiLanguage, I64;
    Packed = "MPI_PACKED", Packed, U8;
    Short = "MPI_SHORT", CInteger, I16;
    Int = "MPI_INT", CInteger, I32;
    Long = "MPI_LONG", CInteger, I64;
    LongLong = "MPI_LONG_LONG", CInteger, I64;
    UnsignedShort = "MPI_UNSIGNED_SHORT", CInteger, U16;
    Unsigned = "MPI_UNSIGNED", CInteger, U32;
    UnsignedLong = "MPI_UNSIGNED_LONG", CInteger, U64;
    UnsignedLongLong = "MPI_UNSIGNED_LONG_LONG", CInteger, U64;
    Float = "MPI_FLOAT", Floating, F32;
    CFloatComplex = "MPI_C_COMPLEX", Complex, C32;
    CxxFloatComplex = "MPI_CXX_FLOAT_COMPLEX", Complex, C32;
    Double = "MPI_DOUBLE", Floating, F64;
    CDoubleComplex = "MPI_C_DOUBLE_COMPLEX", Complex, C64;
    CxxDoubleComplex = "MPI_CXX_DOUBLE_COMPLEX", Complex, C64;
    Logical = "MPI_LOGICAL", Logical, U32;
    Integer = "MPI_INTEGER", FortranInteger, I32;
    Real = "MPI_REAL", Floating, F32;
    Complex = "MPI_COMPLEX", Complex, C32;
    DoublePrecision = "MPI_DOUBLE_PRECISION", Floating, F64;
    DoubleComplex = "MPI_DOUBLE_COMPLEX", Complex, C64;
    Character = "MPI_CHARACTER", Character, U8;
    LongDouble = "MPI_LONG_DOUBLE", Floating, F80;
    CLongDoubleComplex = "MPI_C_LONG_DOUBLE_COMPLEX", Complex, C80;
    CxxLongDoubleComplex = "MPI_CXX_LONG_DOUBLE_COMPLEX", Complex, C80;
    FloatInt = "MPI_FLOAT_INT", Pair, PairF32I32;
    DoubleInt = "MPI_DOUBLE_INT", Pair, PairF64I32;
    LongInt = "MPI_LONG_INT", Pair, PairI64I32;
    TwoInt = "MPI_2INT", Pair, PairI32I32;
    ShortInt = "MPI_SHORT_INT", Pair, PairI16I32;
    LongDoubleInt = "MPI_LONG_DOUBLE_INT", Pair, PairF80I32;
    TwoReal = "MPI_2REAL", Pair, PairF32F32;
    TwoDoublePrecision = "MPI_2DOUBLE_PRECISION", Pair, PairF64F64;
    TwoInteger = "MPI_2INTEGER", Pair, PairI32I32;
    CBool = "MPI_C_BOOL", Logical, U8;
    CxxBool = "MPI_CXX_BOOL", Logical, U8;
    Wchar = "MPI_WCHAR", Character, I32;
    Int8 = "MPI_INT8_T", CInteger, I8;
    Uint8 = "MPI_UINT8_T", CInteger, U8;
    Char = "MPI_CHAR", CCharacter, I8;
    SignedChar = "MPI_SIGNED_CHAR", CInteger, I8;
    UnsignedChar = "MPI_UNSIGNED_CHAR", CInteger, U8;
    Byte = "MPI_BYTE", Byte, U8;
    Int16 = "MPI_INT16_T", CInteger, I16;
    Uint16 = "MPI_UINT16_T", CInteger, U16;
    Int32 = "MPI_INT32_T", CInteger, I32;
    Uint32 = "MPI_UINT32_T", CInteger, U32;
    Int64 = "MPI_INT64_T", CInteger, I64;
    Uint64 = "MPI_UINT64_T", CInteger, U64;
    Logical1 = "MPI_LOGICAL1", Logical, U8;
    Integer1 = "MPI_INTEGER1", FortranInteger, I8;
    Logical2 = "MPI_LOGICAL2", Logical, U16;
    Integer2 = "MPI_INTEGER2", FortranInteger, I16;
    Real2 = "MPI_REAL2", Floating, F16;
    Logical4 = "MPI_LOGICAL4", Logical, U32;
    Integer4 = "MPI_INTEGER4", FortranInteger, I32;
    Real4 = "MPI_REAL4", Floating, F32;
    Complex4 = "MPI_COMPLEX4", Complex, C16;
    Logical8 = "MPI_LOGICAL8", Logical, U64;
    Integer8 = "MPI_INTEGER8", FortranInteger, I64;
    Real8 = "MPI_REAL8", Floating, F64;
    Complex8 = "MPI_COMPLEX8", Complex, C32;
    Logical16 = "MPI_LOGICAL16", Logical, U128;
    Integer16 = "MPI_INTEGER16", FortranInteger, I128;
    Real16 = "MPI_REAL16", Floating, F128;
    Complex16 = "MPI_COMPLEX16", Complex, C64;
    Complex32 = "MPI_COMPLEX32", Complex, C128;
}

impl Predefined {
    /// The name that MPI gives it, such as `MPI_INT`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Which operators it may be used with.
    #[inline]
    #[must_use]
    pub fn class(self) -> Class {
        self.row().class
    }

    /// Its number format.
    ///
    /// Fortran datatypes have the sizes that gfortran gives them without options: 4 bytes for `INTEGER`,
    /// `REAL` and `LOGICAL`, 8 for `DOUBLE PRECISION`.
    #[inline]
    #[must_use]
    pub fn basic(self) -> Basic {
        self.row().basic
    }

    /// Bytes of data in an element.
    #[must_use]
    pub fn size(self) -> i64 {
        self.basic().bytes() as i64
    }

    /// Value and index of a pair; `None` for everything else.
    #[must_use]
    pub fn pair(self) -> Option<(Predefined, Predefined)> {
        use Predefined as P;
        Some(match self {
            P::FloatInt => (P::Float, P::Int),
            P::DoubleInt => (P::Double, P::Int),
            P::LongInt => (P::Long, P::Int),
            P::TwoInt => (P::Int, P::Int),
            P::ShortInt => (P::Short, P::Int),
            P::LongDoubleInt => (P::LongDouble, P::Int),
            P::TwoReal => (P::Real, P::Real),
            P::TwoDoublePrecision => (P::DoublePrecision, P::DoublePrecision),
            P::TwoInteger => (P::Integer, P::Integer),
            _ => return None,
        })
    }

    /// The datatype itself.
    #[must_use]
    pub fn datatype(self) -> &'static Datatype {
        &DATATYPES[self as usize]
    }

    /// The predefined datatype of this MPI name; the second names of two of them are understood.
    #[must_use]
    pub fn named(name: &str) -> Option<Predefined> {
        let name = match name {
            "MPI_LONG_LONG_INT" => "MPI_LONG_LONG",
            "MPI_C_FLOAT_COMPLEX" => "MPI_C_COMPLEX",
            name => name,
        };
        Predefined::ALL.iter().copied().find(|predefined| predefined.name() == name)
    }

    #[inline]
    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

impl fmt::Display for Predefined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

struct Row {
    name: &'static str,
    class: Class,
    basic: Basic,
}

/// The datatypes by row, made once for the process.
static DATATYPES: LazyLock<Vec<Datatype>> =
    LazyLock::new(|| Predefined::ALL.iter().map(|&predefined| Datatype::of_predefined(predefined)).collect());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_variants_stand_in_one_order() {
        assert_eq!(Predefined::ALL.len(), ROWS.len());
        for (row, &predefined) in Predefined::ALL.iter().enumerate() {
            assert_eq!(predefined as usize, row);
            assert_eq!(Predefined::named(predefined.name()), Some(predefined));
        }
    }

    #[test]
    fn sizes_are_those_of_the_machine() {
        for (predefined, bytes) in [
            (Predefined::Long, size_of::<std::ffi::c_long>()),
            (Predefined::LongLong, size_of::<std::ffi::c_longlong>()),
            (Predefined::Short, size_of::<std::ffi::c_short>()),
            (Predefined::Int, size_of::<std::ffi::c_int>()),
            (Predefined::Aint, size_of::<isize>()),
            (Predefined::Byte, 1),
            (Predefined::LongDouble, 16),
            (Predefined::DoubleInt, 12),
        ] {
            assert_eq!(predefined.size(), bytes as i64, "{predefined}");
        }
    }

    #[test]
    fn names_that_carry_a_size_have_it() {
        let sized = [("INTEGER", 1), ("REAL", 1), ("LOGICAL", 1), ("COMPLEX", 1), ("INT", 8), ("UINT", 8)];
        for &predefined in Predefined::ALL {
            let stem = predefined.name().trim_start_matches("MPI_").trim_end_matches("_T");
            let name = stem.trim_end_matches(|character: char| character.is_ascii_digit());
            let Ok(number) = stem[name.len()..].parse::<i64>() else { continue };
            let &(_, units) = sized.iter().find(|(stem, _)| *stem == name).expect("a known family");
            assert_eq!(predefined.size() * units, number, "{predefined}");
        }
    }

    #[test]
    fn parts_of_pairs_are_what_the_number_format_says() {
        for &predefined in Predefined::ALL {
            let parts = predefined.pair().map(|(value, index)| (value.basic(), index.basic()));
            let formats = predefined.basic().pair();
            assert_eq!(parts, formats, "{predefined}");
        }
    }

    #[test]
    fn second_names_are_understood() {
        assert_eq!(Predefined::named("MPI_LONG_LONG_INT"), Some(Predefined::LongLong));
        for name in ["MPI_C_COMPLEX", "MPI_C_FLOAT_COMPLEX"] {
            assert_eq!(Predefined::named(name), Some(Predefined::CFloatComplex));
        }
        assert_eq!(
            Predefined::CFloatComplex.name(),
            "MPI_C_COMPLEX",
            "the first name of the two in MPI 5.0 section 3.2.2"
        );
        assert_eq!(Predefined::named("MPI_QUATERNION"), None);
    }
}
