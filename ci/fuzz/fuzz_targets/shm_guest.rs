//! The target `shm_guest` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("shm_guest", input));
