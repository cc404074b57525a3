//! The predefined operators, and which datatypes each may be used with.

use std::fmt;

use crate::{Class, Datatype, Predefined};

/// A predefined operator (MPI 5.0 section 6.9.2 and 6.9.4, and section 12.3.4 for the last two).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operator {
    /// `MPI_SUM`. Integers wrap.
    Sum,
    /// `MPI_MIN`. With a NaN on either side the result is one; -0 is below +0.
    Min,
    /// `MPI_MAX`. With a NaN on either side the result is one; +0 is above -0.
    Max,
    /// `MPI_PROD`. Integers wrap.
    Prod,
    /// `MPI_BAND`.
    BitAnd,
    /// `MPI_BOR`.
    BitOr,
    /// `MPI_BXOR`.
    BitXor,
    /// `MPI_LAND`. Anything but 0 is true; the result is 0 or 1.
    LogicalAnd,
    /// `MPI_LOR`. As for [`Operator::LogicalAnd`].
    LogicalOr,
    /// `MPI_LXOR`. As for [`Operator::LogicalAnd`].
    LogicalXor,
    /// `MPI_MINLOC`. Of equal values the lower index; a NaN counts as below every number.
    MinLocation,
    /// `MPI_MAXLOC`. Of equal values the lower index; a NaN counts as above every number.
    MaxLocation,
    /// `MPI_REPLACE`: what comes in. For accumulate operations only.
    Replace,
    /// `MPI_NO_OP`: what is there. For accumulate operations only.
    NoOperation,
}

impl Operator {
    /// Every operator.
    pub const ALL: [Operator; 14] = [
        Operator::Sum,
        Operator::Min,
        Operator::Max,
        Operator::Prod,
        Operator::BitAnd,
        Operator::BitOr,
        Operator::BitXor,
        Operator::LogicalAnd,
        Operator::LogicalOr,
        Operator::LogicalXor,
        Operator::MinLocation,
        Operator::MaxLocation,
        Operator::Replace,
        Operator::NoOperation,
    ];

    /// The name that MPI gives it, such as `MPI_SUM`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operator::Sum => "MPI_SUM",
            Operator::Min => "MPI_MIN",
            Operator::Max => "MPI_MAX",
            Operator::Prod => "MPI_PROD",
            Operator::BitAnd => "MPI_BAND",
            Operator::BitOr => "MPI_BOR",
            Operator::BitXor => "MPI_BXOR",
            Operator::LogicalAnd => "MPI_LAND",
            Operator::LogicalOr => "MPI_LOR",
            Operator::LogicalXor => "MPI_LXOR",
            Operator::MinLocation => "MPI_MINLOC",
            Operator::MaxLocation => "MPI_MAXLOC",
            Operator::Replace => "MPI_REPLACE",
            Operator::NoOperation => "MPI_NO_OP",
        }
    }

    /// Whether collective operations may use it. `MPI_REPLACE` and `MPI_NO_OP` belong to accumulate
    /// operations.
    #[inline]
    #[must_use]
    pub fn is_collective(self) -> bool {
        !matches!(self, Operator::Replace | Operator::NoOperation)
    }

    /// Whether the order of the operands makes no difference; so it is for all but `MPI_REPLACE` and
    /// `MPI_NO_OP`.
    #[must_use]
    pub fn is_commutative(self) -> bool {
        self.is_collective()
    }

    /// Whether it may be used with elements of this datatype. Predefined operators take predefined datatypes
    /// only (MPI 5.0 section 6.9.2); what a constructor made is refused, also a duplicate.
    /// [`Pair`](crate::Pair) is for searches among pairs without a name.
    #[must_use]
    pub fn is_legal(self, datatype: &Datatype) -> bool {
        datatype.predefined().is_some_and(|predefined| self.is_legal_for(predefined))
    }

    /// Whether it may be used with elements of this predefined datatype.
    #[inline]
    #[must_use]
    pub fn is_legal_for(self, predefined: Predefined) -> bool {
        crate::reduce::is_computable(predefined.basic()) && self.accepts(predefined.class())
    }

    /// Whether the standard's table (MPI 5.0 section 6.9.2) has this operator for this predefined datatype.
    /// Programs are portable with such pairs alone; [`Operator::is_legal_for`] takes more.
    #[must_use]
    pub fn is_standard_for(self, predefined: Predefined) -> bool {
        self.is_in_table(predefined.class())
    }

    /// The table of MPI 5.0 section 6.9.2, and what MPICH and Open MPI both take beyond it:
    /// `tables/operators.csv`.
    #[inline]
    fn accepts(self, class: Class) -> bool {
        let is_beyond = match class {
            Class::CCharacter => !matches!(self, Operator::MinLocation | Operator::MaxLocation),
            Class::MultiLanguage => self.is_logical(),
            _ => false,
        };
        is_beyond || self.is_in_table(class)
    }

    /// The table of MPI 5.0 section 6.9.2.
    #[inline]
    fn is_in_table(self, class: Class) -> bool {
        use Class::{Byte, CInteger, Complex, Floating, FortranInteger, Logical, MultiLanguage, Pair};
        match self {
            Operator::Min | Operator::Max => {
                matches!(class, CInteger | FortranInteger | Floating | MultiLanguage)
            }
            Operator::Sum | Operator::Prod => {
                matches!(class, CInteger | FortranInteger | Floating | Complex | MultiLanguage)
            }
            Operator::LogicalAnd | Operator::LogicalOr | Operator::LogicalXor => {
                matches!(class, CInteger | Logical)
            }
            Operator::BitAnd | Operator::BitOr | Operator::BitXor => {
                matches!(class, CInteger | FortranInteger | Byte | MultiLanguage)
            }
            Operator::MinLocation | Operator::MaxLocation => matches!(class, Pair),
            Operator::Replace | Operator::NoOperation => true,
        }
    }

    #[inline]
    fn is_logical(self) -> bool {
        matches!(self, Operator::LogicalAnd | Operator::LogicalOr | Operator::LogicalXor)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn legal(operator: Operator) -> Vec<&'static str> {
        let all = Predefined::ALL.iter().copied();
        all.filter(|&predefined| operator.is_legal_for(predefined)).map(Predefined::name).collect()
    }

    #[test]
    fn all_lists_each_operator_once_in_order() {
        for (place, operator) in Operator::ALL.into_iter().enumerate() {
            assert_eq!(operator as usize, place);
        }
    }

    #[test]
    fn search_operators_take_pairs_alone() {
        let pairs = [
            "MPI_FLOAT_INT",
            "MPI_DOUBLE_INT",
            "MPI_LONG_INT",
            "MPI_2INT",
            "MPI_SHORT_INT",
            "MPI_LONG_DOUBLE_INT",
            "MPI_2REAL",
            "MPI_2DOUBLE_PRECISION",
            "MPI_2INTEGER",
        ];
        assert_eq!(legal(Operator::MinLocation), pairs);
        assert_eq!(legal(Operator::MaxLocation), pairs);
    }

    #[test]
    fn combinations_that_programs_try_are_told_apart() {
        use Predefined as P;
        for (operator, predefined, expected) in [
            (Operator::Sum, P::Int, true),
            (Operator::Sum, P::CDoubleComplex, true),
            (Operator::Max, P::CDoubleComplex, false),
            (Operator::Sum, P::Char, true),
            (Operator::MaxLocation, P::Char, false),
            (Operator::Sum, P::Character, false),
            (Operator::Sum, P::SignedChar, true),
            (Operator::Sum, P::Wchar, false),
            (Operator::Sum, P::Byte, false),
            (Operator::BitOr, P::Byte, true),
            (Operator::BitOr, P::Double, false),
            (Operator::BitAnd, P::Aint, true),
            (Operator::LogicalAnd, P::Aint, true),
            (Operator::LogicalAnd, P::CBool, true),
            (Operator::LogicalAnd, P::Logical8, true),
            (Operator::LogicalAnd, P::Integer, false),
            (Operator::Sum, P::Logical, false),
            (Operator::Max, P::Count, true),
            (Operator::Sum, P::Packed, false),
            (Operator::Sum, P::DoubleInt, false),
            (Operator::Sum, P::Real16, true),
            (Operator::Replace, P::Char, true),
            (Operator::Replace, P::Complex32, true),
        ] {
            assert_eq!(operator.is_legal_for(predefined), expected, "{operator} {predefined}");
        }
    }

    #[test]
    fn derived_datatypes_are_refused() {
        let int = Predefined::Int.datatype();
        assert!(Operator::Sum.is_legal(int));
        assert!(!Operator::Sum.is_legal(&int.duplicate()));
        assert!(!Operator::Sum.is_legal(&Datatype::contiguous(1, int).expect("small")));
    }
}
