//! The target `pmi_client2` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("pmi_client2", input));
