//! Which locked instructions of the library a small message executes: none, or a lock was taken.
//!
//! Taking a mutex is an instruction with the prefix `lock`, or an exchange with memory, whether anybody else
//! wants it or not; so is every other step that keeps other cores out. The disassembler says which
//! instructions of the library are of that kind, and callgrind how often each was executed while a message
//! was sent or received. A provider of libfabric is another library: what it locks is its own affair.

use std::collections::{BTreeMap, BTreeSet};

/// The addresses of locked instructions in what `objdump -d --no-show-raw-insn` says of a library for x86-64,
/// each with the function that it is in.
pub fn locked(disassembled: &str) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    let mut function = "?";
    for line in disassembled.lines() {
        if let Some((_, name)) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
            function = name;
        } else if let Some((address, instruction)) = line.trim_start().split_once(":\t") {
            // An exchange of registers locks nothing, and is how an instruction of no effect is written.
            let is_locked = instruction.starts_with("lock ")
                || instruction.starts_with("xchg ") && instruction.contains('(');
            if let (true, Ok(address)) = (is_locked, u64::from_str_radix(address, 16)) {
                found.insert(address, function.to_owned());
            }
        }
    }
    found
}

/// How often each instruction of the library was executed, by its address, in what callgrind has written with
/// `--dump-instr=yes --compress-pos=no --compress-strings=no`.
pub fn executed(callgrind: &str, library: &str) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    let (mut is_in_library, mut is_call) = (false, false);
    for line in callgrind.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            is_in_library = object.rsplit('/').next().is_some_and(|name| name.starts_with(library));
        } else if line.starts_with("calls=") {
            // The next line counts what was called, which stands elsewhere, too.
            is_call = true;
        } else if let Some(numbers) = line.strip_prefix("0x") {
            let mut numbers = numbers.split(' ');
            let address = numbers.next().and_then(|number| u64::from_str_radix(number, 16).ok());
            let count = numbers.nth(1).and_then(|number| number.parse::<u64>().ok());
            if let (Some(address), Some(count), true, false) = (address, count, is_in_library, is_call) {
                *counts.entry(address).or_default() += count;
            }
            is_call = false;
        }
    }
    counts
}

/// Checks that instructions of the library were executed, and that no locked one was executed for a message.
/// A locked instruction that is executed once in many messages belongs to something beside them, such as a
/// connection that is being opened.
///
/// # Errors
/// What was locked, or that nothing can be said.
pub fn judge(
    locked: &BTreeMap<u64, String>,
    executed: &BTreeMap<u64, u64>,
    messages: u64,
) -> Result<u64, String> {
    let total: u64 = executed.values().sum();
    if total == 0 || locked.is_empty() {
        return Err(format!("{} locked instructions are known, and {total} were executed", locked.len()));
    }
    let hits: BTreeSet<String> = executed
        .iter()
        .filter(|(_, count)| **count > messages / MANY)
        .filter_map(|(address, count)| {
            Some(format!("{address:x} in {}, {count} times in {messages} messages", locked.get(address)?))
        })
        .collect();
    if hits.is_empty() {
        return Ok(total);
    }
    let hits: Vec<String> = hits.into_iter().collect();
    Err(format!(
        "{}\n  a small message takes no lock: move what does so out of its way (docs/style.md, The hot path)",
        hits.join("; ")
    ))
}

/// Once in more messages than these is not for a message's sake.
const MANY: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const DISASSEMBLED: &str = "0000000000001000 <quick>:\n    1000:\tmov    %rsp,%rbp\n    1003:\txchg   %ax,%ax\n\n\
                                0000000000002000 <slow>:\n    2000:\tlock cmpxchg %ecx,0x10(%rdi)\n    \
                                2006:\txchg   %eax,(%rdi)\n    2008:\tret\n";
    const CALLGRIND: &str = "positions: instr line\nevents: Ir\n\nob=/a/lib/libmpi_abi.so.1\nfl=???\nfn=quick\n\
                             0x1000 0 40\n0x1003 0 40\ncfn=slow\ncalls=40 0x2000 0 \n0x1003 0 9999\n\
                             ob=/b/libfabric.so.1\n0x2000 0 7\n";

    #[test]
    fn locked_instructions_are_found() {
        let found = locked(DISASSEMBLED);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0x2000, 0x2006]);
        assert!(found.values().all(|function| function == "slow"));
    }

    #[test]
    fn what_the_library_executes_is_counted_and_nothing_else() {
        let counts = executed(CALLGRIND, "libmpi_abi.so");
        assert_eq!(counts, BTreeMap::from([(0x1000, 40), (0x1003, 40)]));
        assert_eq!(judge(&locked(DISASSEMBLED), &counts, 40), Ok(80));
    }

    #[test]
    fn a_lock_is_told_with_its_function() {
        let text = CALLGRIND.replace("fn=quick\n", "fn=slow\n0x2000 0 40\n");
        let judge_of = |messages| judge(&locked(DISASSEMBLED), &executed(&text, "libmpi_abi.so"), messages);
        for messages in [10, 40, 399] {
            let error = judge_of(messages).unwrap_err();
            assert!(error.contains("2000 in slow, 40 times"), "{error}");
        }
        assert_eq!(judge_of(400), Ok(120), "once in ten messages is not for each");
        let counts = executed(CALLGRIND, "libmpi_abi.so");
        assert!(judge(&locked(DISASSEMBLED), &BTreeMap::new(), 1).is_err(), "nothing was executed");
        assert!(judge(&BTreeMap::new(), &counts, 1).is_err(), "nothing is known of the library");
    }
}
