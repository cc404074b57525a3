//! A struct with gaps.

use weft::Datatype;

/// Gaps behind `kind` and at the end.
#[repr(C)]
#[derive(Datatype, Clone, Copy, Debug, Default, PartialEq)]
pub struct Atom {
    pub kind: u16,
    pub place: [f64; 3],
    pub charge: i8,
}
