//! All tests of this crate from outside, in one program: each of them runs the same engine on the simulated
//! fabric, which takes longest to compile. `cargo xtask tidy` sees to it that no file is forgotten.

mod cancels;
mod crash_points;
mod failures;
mod parts;
mod programs;
mod scattered;
