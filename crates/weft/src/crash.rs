//! Where a process dies that a test wants to die, in builds that are made for it (docs/decisions/0018).

use fabric::crash;

/// Between the two marks of a program the steps of the library are counted. At the step that `WEFT_CRASH_AT`
/// names, as `RANK:STEP`, that rank kills itself; a rank that comes to the second mark tells how many steps
/// it has made.
pub fn mark(rank: u32, is_first: bool) {
    if is_first {
        crash::begin(last_step(rank), die);
    } else {
        crate::tell(format_args!("crash points: rank {rank} has passed {}", crash::end()));
    }
}

fn last_step(rank: u32) -> Option<u64> {
    let asked = std::env::var("WEFT_CRASH_AT").ok()?;
    let (who, step) = asked.split_once(':')?;
    if who.parse() == Ok(rank) { step.parse().ok() } else { None }
}

/// As whoever is ended from outside: nothing is put in order.
fn die() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}
