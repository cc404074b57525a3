//! The target `tcp_meeting` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("tcp_meeting", input));
