//! What atomics do with bytes.

use crate::bindings::*;

/// The bytes of an element, for the types that the provider knows.
pub(crate) fn element_bytes(datatype: fi_datatype) -> Option<usize> {
    match datatype {
        FI_INT8 | FI_UINT8 => Some(1),
        FI_INT16 | FI_UINT16 => Some(2),
        FI_INT32 | FI_UINT32 | FI_FLOAT => Some(4),
        FI_INT64 | FI_UINT64 | FI_DOUBLE => Some(8),
        _ => None,
    }
}

/// Which of the three functions an operation is for, and whether it is one for elements of that type.
pub(super) fn is_known(kind: MockAtomicKind, datatype: fi_datatype, op: fi_op) -> bool {
    let fits = match op {
        FI_ATOMIC_READ => kind == MockAtomicKind::Fetch,
        FI_CSWAP..=FI_MSWAP => kind == MockAtomicKind::Compare,
        _ => op <= FI_ATOMIC_WRITE && kind != MockAtomicKind::Compare,
    };
    let has_bits = !matches!(datatype, FI_FLOAT | FI_DOUBLE);
    fits && (has_bits || !matches!(op, FI_BOR | FI_BAND | FI_BXOR | FI_MSWAP))
}

/// Which function was called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MockAtomicKind {
    Update,
    Fetch,
    Compare,
}

/// Changes elements; `here` and `with` are as long, or empty where the operation does not look at them.
pub(crate) fn apply(datatype: fi_datatype, op: fi_op, there: &mut [u8], here: &[u8], with: &[u8]) {
    match datatype {
        FI_INT8 => each::<1, i8>(op, there, here, with),
        FI_UINT8 => each::<1, u8>(op, there, here, with),
        FI_INT16 => each::<2, i16>(op, there, here, with),
        FI_UINT16 => each::<2, u16>(op, there, here, with),
        FI_INT32 => each::<4, i32>(op, there, here, with),
        FI_UINT32 => each::<4, u32>(op, there, here, with),
        FI_INT64 => each::<8, i64>(op, there, here, with),
        FI_UINT64 => each::<8, u64>(op, there, here, with),
        FI_FLOAT => each::<4, f32>(op, there, here, with),
        FI_DOUBLE => each::<8, f64>(op, there, here, with),
        other => unreachable!("a type {other} that `element_bytes` does not know"),
    }
}

fn each<const BYTES: usize, T: Element<BYTES>>(op: fi_op, there: &mut [u8], here: &[u8], with: &[u8]) {
    for (index, there) in there.as_chunks_mut::<BYTES>().0.iter_mut().enumerate() {
        let of = |bytes: &[u8]| bytes.as_chunks().0.get(index).map_or(T::ZERO, |bytes| T::from_bytes(*bytes));
        *there = T::from_bytes(*there).combine(op, of(here), of(with)).to_bytes();
    }
}

trait Element<const BYTES: usize>: Copy + PartialOrd {
    const ZERO: Self;
    const ONE: Self;
    fn from_bytes(bytes: [u8; BYTES]) -> Self;
    fn to_bytes(self) -> [u8; BYTES];
    fn add(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    /// What is done with bits; floating point numbers have none.
    fn bits(self, op: fi_op, here: Self, with: Self) -> Self;

    fn combine(self, op: fi_op, here: Self, with: Self) -> Self {
        let logical = |is: bool| if is { Self::ONE } else { Self::ZERO };
        let (is, is_here) = (self != Self::ZERO, here != Self::ZERO);
        let swap_if = |is: bool| if is { here } else { self };
        match op {
            FI_MIN => swap_if(here < self),
            FI_MAX => swap_if(here > self),
            FI_SUM => self.add(here),
            FI_PROD => self.multiply(here),
            FI_LOR => logical(is || is_here),
            FI_LAND => logical(is && is_here),
            FI_LXOR => logical(is != is_here),
            FI_ATOMIC_READ => self,
            FI_ATOMIC_WRITE => here,
            FI_CSWAP => swap_if(with == self),
            FI_CSWAP_NE => swap_if(with != self),
            FI_CSWAP_LE => swap_if(with <= self),
            FI_CSWAP_LT => swap_if(with < self),
            FI_CSWAP_GE => swap_if(with >= self),
            FI_CSWAP_GT => swap_if(with > self),
            _ => self.bits(op, here, with),
        }
    }
}

macro_rules! integers {
    ($($bytes:literal: $($type:ty),*;)*) => {$($(
        impl Element<$bytes> for $type {
            const ZERO: $type = 0;
            const ONE: $type = 1;
            fn from_bytes(bytes: [u8; $bytes]) -> $type {
                <$type>::from_ne_bytes(bytes)
            }
            fn to_bytes(self) -> [u8; $bytes] {
                self.to_ne_bytes()
            }
            fn add(self, other: $type) -> $type {
                self.wrapping_add(other)
            }
            fn multiply(self, other: $type) -> $type {
                self.wrapping_mul(other)
            }
            fn bits(self, op: fi_op, here: $type, with: $type) -> $type {
                match op {
                    FI_BOR => self | here,
                    FI_BAND => self & here,
                    FI_BXOR => self ^ here,
                    _ => (here & with) | (self & !with),
                }
            }
        }
    )*)*};
}

integers! {
    1: i8, u8;
    2: i16, u16;
    4: i32, u32;
    8: i64, u64;
}

macro_rules! floats {
    ($($bytes:literal: $type:ty;)*) => {$(
        impl Element<$bytes> for $type {
            const ZERO: $type = 0.0;
            const ONE: $type = 1.0;
            fn from_bytes(bytes: [u8; $bytes]) -> $type {
                <$type>::from_ne_bytes(bytes)
            }
            fn to_bytes(self) -> [u8; $bytes] {
                self.to_ne_bytes()
            }
            fn add(self, other: $type) -> $type {
                self + other
            }
            fn multiply(self, other: $type) -> $type {
                self * other
            }
            fn bits(self, op: fi_op, _here: $type, _with: $type) -> $type {
                unreachable!("`is_known` keeps {op} from numbers without bits")
            }
        }
    )*};
}

floats! {
    4: f32;
    8: f64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(op: fi_op, there: [i32; 2], here: [i32; 2], with: [i32; 2]) -> [i32; 2] {
        let bytes = |numbers: [i32; 2]| numbers.map(i32::to_ne_bytes).concat();
        let mut there = bytes(there);
        apply(FI_INT32, op, &mut there, &bytes(here), &bytes(with));
        [0, 4].map(|at| i32::from_ne_bytes(there[at..at + 4].try_into().unwrap()))
    }

    #[test]
    fn each_element_is_changed_by_its_own() {
        assert_eq!(changed(FI_SUM, [1, i32::MAX], [2, 1], [0; 2]), [3, i32::MIN]);
        assert_eq!(changed(FI_MIN, [1, 5], [2, -5], [0; 2]), [1, -5]);
        assert_eq!(changed(FI_CSWAP, [1, 5], [8, 9], [1, 4]), [8, 5]);
        // libfabric puts the element to compare with on the left.
        assert_eq!(changed(FI_CSWAP_LT, [1, 5], [8, 9], [1, 4]), [1, 9]);
        assert_eq!(changed(FI_MSWAP, [0b1100, 0], [0b1010, 7], [0b0110, 4]), [0b1010, 4]);
        assert_eq!(changed(FI_LXOR, [3, 0], [0, 0], [0; 2]), [1, 0]);
    }

    #[test]
    fn what_is_known_is_what_can_be_applied() {
        for datatype in 0..FI_DATATYPE_LAST {
            for op in 0..FI_ATOMIC_OP_LAST {
                let Some(bytes) = element_bytes(datatype) else { continue };
                let kinds = [MockAtomicKind::Update, MockAtomicKind::Fetch, MockAtomicKind::Compare];
                if kinds.iter().any(|kind| is_known(*kind, datatype, op)) {
                    apply(datatype, op, &mut vec![1; bytes], &vec![2; bytes], &vec![3; bytes]);
                }
            }
        }
        assert!(
            !is_known(MockAtomicKind::Update, FI_INT32, FI_ATOMIC_READ)
                && !is_known(MockAtomicKind::Fetch, FI_FLOAT, FI_BOR)
        );
    }
}
