//! The target `libfabric_peer` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("libfabric_peer", input));
