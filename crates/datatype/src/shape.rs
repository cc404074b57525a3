//! Shapes: what the memory of a Rust type holds, said in constants, so that the compiler knows it.
//!
//! A [`Shape`] is a tree of numbers, rows and records. Its sizes and whether it has gaps are constants; the
//! [`Datatype`] of one is made when it is first needed, and there is nothing to commit.

use crate::{Datatype, DatatypeError, Field, Predefined};

/// The shape of a Rust value that messages are made of: its numbers, in the order of memory.
#[derive(Clone, Copy, Debug)]
pub enum TypeShape {
    /// A number.
    Number {
        /// What it is.
        predefined: Predefined,
        /// Its bytes.
        bytes: usize,
    },
    /// Values of one shape in a row, as an array has them.
    Row {
        /// The shape of each value.
        of: &'static TypeShape,
        /// How many values.
        count: usize,
    },
    /// Fields with their places.
    Record {
        /// Bytes from one record to the next.
        bytes: usize,
        /// The fields, which do not overlap.
        fields: &'static [ShapePart],
    },
}

/// A field of a record.
#[derive(Clone, Copy, Debug)]
pub struct ShapePart {
    /// The offset of the field in the record, in bytes.
    pub offset: usize,
    /// What it is.
    pub shape: &'static TypeShape,
}

impl TypeShape {
    /// Bytes of memory that a value takes.
    #[must_use]
    pub const fn extent(&self) -> usize {
        match self {
            TypeShape::Number { bytes, .. } | TypeShape::Record { bytes, .. } => *bytes,
            TypeShape::Row { of, count } => of.extent() * *count,
        }
    }

    /// Bytes of data in a value, without gaps.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        match self {
            TypeShape::Number { bytes, .. } => *bytes,
            TypeShape::Row { of, count } => of.bytes() * *count,
            TypeShape::Record { fields, .. } => {
                let (mut sum, mut at) = (0, 0);
                while at < fields.len() {
                    sum += fields[at].shape.bytes();
                    at += 1;
                }
                sum
            }
        }
    }

    /// Whether values are sent as they stand in memory: there are no gaps, and fields come in the order of
    /// memory.
    #[must_use]
    pub const fn is_dense(&self) -> bool {
        match self {
            TypeShape::Number { .. } => true,
            TypeShape::Row { of, .. } => of.is_dense(),
            TypeShape::Record { bytes, fields } => {
                let (mut end, mut at) = (0, 0);
                while at < fields.len() {
                    if fields[at].offset != end || !fields[at].shape.is_dense() {
                        return false;
                    }
                    end += fields[at].shape.extent();
                    at += 1;
                }
                end == *bytes
            }
        }
    }
}

impl Datatype {
    /// The datatype of a value of this shape.
    ///
    /// # Errors
    /// Overflow of a bound or of the size, or nesting too deep.
    pub fn of_shape(shape: &TypeShape) -> Result<Datatype, DatatypeError> {
        match shape {
            TypeShape::Number { predefined, .. } => Ok(predefined.datatype().clone()),
            TypeShape::Row { of, count } => Datatype::contiguous(*count as i64, &Datatype::of_shape(of)?),
            TypeShape::Record { bytes, fields } => {
                let types: Result<Vec<Datatype>, DatatypeError> =
                    fields.iter().map(|field| Datatype::of_shape(field.shape)).collect();
                let types = types?;
                let fields: Vec<Field<'_>> = std::iter::zip(*fields, &types)
                    .map(|(part, datatype)| Field { length: 1, displacement: part.offset as i64, datatype })
                    .collect();
                Datatype::structure(&fields)?.resized(0, *bytes as i64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOUBLE: TypeShape = TypeShape::Number { predefined: Predefined::Double, bytes: 8 };
    const SHORT: TypeShape = TypeShape::Number { predefined: Predefined::Short, bytes: 2 };
    const PLACE: TypeShape = TypeShape::Row { of: &DOUBLE, count: 3 };
    const ATOM: TypeShape = TypeShape::Record {
        bytes: 32,
        fields: &[ShapePart { offset: 0, shape: &SHORT }, ShapePart { offset: 8, shape: &PLACE }],
    };
    const DENSE: TypeShape = TypeShape::Record {
        bytes: 32,
        fields: &[ShapePart { offset: 0, shape: &PLACE }, ShapePart { offset: 24, shape: &DOUBLE }],
    };
    const SWAPPED: TypeShape = TypeShape::Record {
        bytes: 16,
        fields: &[ShapePart { offset: 8, shape: &DOUBLE }, ShapePart { offset: 0, shape: &DOUBLE }],
    };
    const LATE: TypeShape =
        TypeShape::Record { bytes: 16, fields: &[ShapePart { offset: 8, shape: &DOUBLE }] };
    const NOTHING: TypeShape = TypeShape::Record { bytes: 0, fields: &[] };

    #[test]
    fn constants_agree_with_the_compiled_datatype() {
        const ATOMS: TypeShape = TypeShape::Row { of: &ATOM, count: 5 };
        const NONE: TypeShape = TypeShape::Row { of: &ATOM, count: 0 };
        for (shape, dense) in [
            (DOUBLE, true),
            (PLACE, true),
            (ATOM, false),
            (ATOMS, false),
            (DENSE, true),
            (SWAPPED, false),
            (LATE, false),
            (NOTHING, true),
        ] {
            let datatype = Datatype::of_shape(&shape).expect("small");
            assert_eq!(datatype.size(), shape.bytes() as i64, "{shape:?}");
            assert_eq!(datatype.extent(), shape.extent() as i64, "{shape:?}");
            assert_eq!(shape.is_dense(), dense, "{shape:?}");
            assert!(shape.bytes() == 0 || datatype.is_dense() == dense, "{shape:?}");
        }
        assert_eq!((NONE.bytes(), NONE.extent()), (0, 0));
        const _: () = assert!(ATOM.bytes() == 26 && !ATOM.is_dense());
    }
}
