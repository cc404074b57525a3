//! The target `tcp_link` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("tcp_link", input));
