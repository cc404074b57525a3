//! A value with an index, of any two datatypes that have an order: what the operators that search work on
//! where none of the predefined pairs is meant (MPI 5.0 section 6.9.4).
//!
//! There are too many of them for a kernel each. One that asks for the order of two elements by a function
//! serves all.

use std::cmp::Ordering;
use std::fmt;

use fabric::fold::front;
use fabric::{Payload, UserMemory, made};
use half::f16;

use crate::binary128::Quadruple;
use crate::element::{Element, LongDouble, Ordered};
use crate::reduce::{combine_apart, is_computable};
use crate::{Basic, Class, Datatype, DatatypeError, Field, Predefined, ShortClaim};

/// A value with an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    value: (Predefined, Basic),
    index: (Predefined, Basic),
}

/// Which of two packed elements comes first, where that with the lower value does, or with the higher; one
/// that is no number comes before all.
type Order = fn(Payload<'_>, Payload<'_>, bool) -> Ordering;

impl Pair {
    /// The pair of these two; `None` where the value has no order, the index is no integer, or this machine
    /// does not compute with one.
    #[must_use]
    pub fn new(value: Predefined, index: Predefined) -> Option<Pair> {
        let index = ordered(index).filter(|(index, _)| index.class() != Class::Floating)?;
        Some(Pair { value: ordered(value)?, index })
    }

    /// The datatype: the two as they stand in a `struct` of C.
    ///
    /// # Errors
    /// None but those that a struct of two numbers cannot have.
    pub fn datatype(self) -> Result<Datatype, DatatypeError> {
        let of = |(predefined, _): (Predefined, Basic)| predefined.datatype();
        let (value, index) = (self.value.1.bytes(), self.index.1.alignment_bytes());
        Datatype::structure(&[
            Field { length: 1, displacement: 0, datatype: of(self.value) },
            Field { length: 1, displacement: value.next_multiple_of(index) as i64, datatype: of(self.index) },
        ])
    }

    /// Bytes of a packed element.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.value.1.bytes() + self.index.1.bytes()
    }

    /// Of as many packed elements as both hold, puts those of `incoming` into `inout` whose values are lower,
    /// or higher; of equal values those with the lower index.
    pub fn search(self, highest: bool, incoming: Payload<'_>, inout: &mut UserMemory) {
        let (values, indices) = (order(self.value.1), order(self.index.1));
        let (Some(values), Some(indices)) = (values, indices) else { return };
        let (bytes, value_bytes) = (self.bytes(), self.value.1.bytes());
        for element in 0..incoming.bytes().min(inout.bytes()) / bytes {
            let (left, right) =
                (incoming.part(element * bytes, bytes), inout.payload().part(element * bytes, bytes));
            let by_index = || indices(left.after(value_bytes), right.after(value_bytes), false);
            if values(left, right, highest).then_with(by_index).is_le() {
                inout.write_at(element * bytes, left);
            }
        }
    }
}

impl Pair {
    /// Puts an element of `incoming` into `inout` where its value is lower (or higher, where `highest`) than
    /// the element there, or is equal and has the lower index. Both hold elements as they stand in a
    /// program's memory: `elements` is this pair's [datatype](Pair::datatype), or one like it, and the number
    /// of elements. Gaps between elements are left as they are.
    ///
    /// # Errors
    /// [`ShortClaim`]; nothing is written then.
    pub fn search_elements(
        self,
        highest: bool,
        elements: (&Datatype, i64),
        incoming: Payload<'_>,
        inout: &mut UserMemory,
    ) -> Result<(), ShortClaim> {
        let (datatype, count) = elements;
        combine_apart(datatype, count, self.bytes(), incoming, inout, |left, right| {
            made(right, |right| self.search(highest, Payload::from(left), right));
            Ok(())
        })
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {}", self.value.0, self.index.0)
    }
}

/// A predefined datatype that has an order, with its number format.
fn ordered(predefined: Predefined) -> Option<(Predefined, Basic)> {
    let has_order = matches!(
        predefined.class(),
        Class::CInteger | Class::FortranInteger | Class::Floating | Class::MultiLanguage
    );
    let basic = predefined.basic();
    order(basic).filter(|_| has_order && is_computable(basic)).map(|_| (predefined, basic))
}

fn order(basic: Basic) -> Option<Order> {
    Some(match basic {
        Basic::I8 => compared::<i8>,
        Basic::I16 => compared::<i16>,
        Basic::I32 => compared::<i32>,
        Basic::I64 => compared::<i64>,
        Basic::I128 => compared::<i128>,
        Basic::U8 => compared::<u8>,
        Basic::U16 => compared::<u16>,
        Basic::U32 => compared::<u32>,
        Basic::U64 => compared::<u64>,
        Basic::U128 => compared::<u128>,
        Basic::F16 => compared::<f16>,
        Basic::F32 => compared::<f32>,
        Basic::F64 => compared::<f64>,
        Basic::F80 => compared::<LongDouble>,
        Basic::F128 => compared::<Quadruple>,
        _ => return None,
    })
}

fn compared<T: Ordered>(left: Payload<'_>, right: Payload<'_>, highest: bool) -> Ordering {
    let of = |payload| front(payload).map(<T as Element>::of_packed);
    let (Some(left), Some(right)) = (of(left), of(right)) else { return Ordering::Equal };
    let comes_first = |one: T, other: T| {
        let (low, high) = if highest { (other, one) } else { (one, other) };
        one.is_nan() || low.is_below(high)
    };
    comes_first(right, left).cmp(&comes_first(left, right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Operator, reduce};

    /// Values that are equal often, not numbers sometimes, and of both signs.
    fn elements(seed: u32) -> Vec<u8> {
        let mut state = seed;
        let mut next = |bound: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % bound
        };
        let element = |_| {
            let value = [f64::NAN, f64::INFINITY, 0.0, -1.5][next(4) as usize] * f64::from(next(3));
            [&value.to_ne_bytes()[..], &(next(5) as i32 - 2).to_ne_bytes()].concat()
        };
        (0..if cfg!(miri) { 60 } else { 500 }).flat_map(element).collect()
    }

    #[test]
    fn it_searches_as_the_predefined_pairs_do() {
        let pair = Pair::new(Predefined::Double, Predefined::Int).expect("both have an order");
        assert_eq!(pair.bytes(), 12);
        for (operator, highest) in [(Operator::MinLocation, false), (Operator::MaxLocation, true)] {
            let (incoming, before) = (elements(1), elements(2));
            let (mut expected, mut got) = (before.clone(), before);
            reduce(operator, Predefined::DoubleInt, &incoming, &mut expected).expect("legal");
            fabric::made(&mut got, |inout| pair.search(highest, Payload::from(&incoming[..]), inout));
            assert!(got == expected, "{operator}");
        }
    }

    #[test]
    fn it_stands_in_memory_like_a_struct_of_c() {
        use Predefined as P;
        for (value, index, place, extent) in [
            (P::Int8, P::Long, 8, 16),
            (P::Long, P::Int8, 8, 16),
            (P::Float, P::Short, 4, 8),
            (P::LongDouble, P::Uint8, 16, 32),
        ] {
            let datatype = Pair::new(value, index).and_then(|pair| pair.datatype().ok()).expect("legal");
            let end = place + index.size();
            assert_eq!((datatype.extent(), datatype.true_extent()), (extent, end), "{value} {index}");
        }
    }

    #[test]
    fn what_has_no_order_makes_no_pair() {
        use Predefined as P;
        for other in [P::Char, P::Byte, P::CBool, P::CDoubleComplex, P::DoubleInt, P::Packed] {
            assert_eq!(Pair::new(P::Double, other), None, "{other}");
            assert_eq!(Pair::new(other, P::Int), None, "{other}");
        }
    }
}
