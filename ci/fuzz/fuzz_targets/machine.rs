//! The target `machine` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("machine", input));
