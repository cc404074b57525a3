//! All tests of this crate from outside, in one program: each of them runs the same engine on the simulated
//! fabric, which takes longest to compile. `cargo xtask tidy` sees to it that no file is forgotten.

mod common;

mod bounds;
mod consistent;
mod crash_points;
mod creation;
mod crossings;
mod execution;
mod exhaustive;
mod nested;
mod node;
mod orders;
mod parts;
mod predicted;
mod schedules;
mod storm;
mod thousand_ranks;
