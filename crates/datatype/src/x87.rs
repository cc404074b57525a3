//! Sum and product of 80-bit long doubles, by the x87 unit: Rust has no type for them.
//!
//! This is the only `unsafe` of the crate. Comparing needs no instruction and lives with the other elements.
//!
//! ```text
//! byte   0         7 8      9 10     15
//!        [ mantissa ][ s | exp ][ unused ]
//!          64 bits,    1   15
//!          the leading 1 is written out
//! ```

/// Bytes of a long double in memory, of which the first ten are the number. Results have zeroes in the
/// others, so that equal operands give equal bytes.
pub(crate) type Bytes = [u8; 16];

/// Whether this machine computes with them: `long double` is the x87 format on x86-64 alone.
pub(crate) const AVAILABLE: bool = cfg!(target_arch = "x86_64");

/// One two-operand instruction between two loads and a store.
macro_rules! computed {
    ($instruction:literal, $left:expr, $right:expr) => {{
        let (left, right) = ($left, $right);
        let mut result: Bytes = [0; 16];
        // SAFETY: the three addresses are those of live local arrays of 16 bytes, of which the instructions
        // read and write ten. The register stack is empty at every call boundary by the ABI and is left
        // empty: two loads, one operation that pops, one store that pops. All of it is declared as clobbered.
        unsafe {
            std::arch::asm!(
                "fld tbyte ptr [{left}]",
                "fld tbyte ptr [{right}]",
                $instruction,
                "fstp tbyte ptr [{result}]",
                left = in(reg) left.as_ptr(),
                right = in(reg) right.as_ptr(),
                result = in(reg) result.as_mut_ptr(),
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        result
    }};
}

/// `left + right`, rounded as the machine is set (to nearest, 64 bits of mantissa, unless a program changes
/// it).
#[cfg(target_arch = "x86_64")]
pub(crate) fn sum(left: Bytes, right: Bytes) -> Bytes {
    computed!("faddp st(1), st", left, right)
}

/// `left * right`, rounded likewise.
#[cfg(target_arch = "x86_64")]
pub(crate) fn product(left: Bytes, right: Bytes) -> Bytes {
    computed!("fmulp st(1), st", left, right)
}

/// Never called: no operator is legal for long doubles where [`AVAILABLE`] is false.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn sum(left: Bytes, _: Bytes) -> Bytes {
    left
}

/// Never called: no operator is legal for long doubles where [`AVAILABLE`] is false.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn product(left: Bytes, _: Bytes) -> Bytes {
    left
}
