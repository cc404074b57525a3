//! Checks the schedules of all ranks against each other, as data: no fabric, no memory.

use std::collections::HashMap;

use collectives::{Buffer, Rank, Schedule, Span, Step};

/// Panics unless every send has its receive, nothing waits for itself, and no step touches what is on its
/// way.
pub fn verify(what: &str, schedules: &[Schedule]) {
    for (rank, schedule) in schedules.iter().enumerate() {
        check_hazards(&format!("{what}: rank {rank}"), schedule);
    }
    check_pairs(what, schedules);
    check_progress(what, schedules);
}

/// The messages of each ordered pair of ranks, seen from both sides.
fn check_pairs(what: &str, schedules: &[Schedule]) {
    let mut sent = HashMap::<(u32, u32), Vec<usize>>::new();
    let mut received = HashMap::<(u32, u32), Vec<usize>>::new();
    for (schedule, here) in schedules.iter().zip(0..) {
        for step in &schedule.steps {
            let (other, messages, pair, bytes) = match *step {
                Step::Send { to, from } => (to, &mut sent, (here, to.0), from.bytes),
                Step::Receive { from, into } => (from, &mut received, (from.0, here), into.bytes),
                _ => continue,
            };
            assert!(other != Rank(here), "{what}: rank {here} sends to itself");
            assert!((other.0 as usize) < schedules.len(), "{what}: there is no {other:?}");
            messages.entry(pair).or_default().push(bytes);
        }
    }
    assert_eq!(sent, received, "{what}: sends and receives differ");
}

/// Between two waits, what is received into is touched by nothing else, and what is sent stays as it is.
fn check_hazards(what: &str, schedule: &Schedule) {
    let (mut sent, mut received) = (Vec::<Span>::new(), Vec::<Span>::new());
    for step in &schedule.steps {
        let (read, written) = match *step {
            Step::Send { from, .. } => (Some(from), None),
            Step::Receive { into, .. } => (None, Some(into)),
            Step::Copy { from, into } => (Some(from), Some(into)),
            Step::Reduce { from, into } => {
                assert!(!from.overlaps(&into), "{what}: {step}");
                (Some(from), Some(into))
            }
            Step::WaitReceived => {
                received.clear();
                (None, None)
            }
            Step::Wait => {
                sent.clear();
                received.clear();
                (None, None)
            }
        };
        let is_hit =
            |spans: &[Span], by: Option<Span>| by.is_some_and(|by| spans.iter().any(|s| s.overlaps(&by)));
        let safe = !is_hit(&received, read) && !is_hit(&received, written) && !is_hit(&sent, written);
        assert!(safe, "{what}: this touches what is on its way: {step}\n{schedule}");
        assert!(written.is_none_or(|span| span.buffer != Buffer::Input), "{what}: {step}");
        match step {
            Step::Send { from, .. } => sent.push(*from),
            Step::Receive { into, .. } => received.push(*into),
            _ => {}
        }
    }
}

/// Runs the schedules as if no message were ever sent before its receive is posted: whoever waits, waits for
/// both sides.
fn check_progress(what: &str, schedules: &[Schedule]) {
    let mut begun = HashMap::<(u32, u32, bool), usize>::new();
    let mut awaited = vec![Vec::new(); schedules.len()];
    let mut next = vec![0; schedules.len()];
    loop {
        let mut moved = false;
        for (schedule, here) in schedules.iter().zip(0u32..) {
            let waits = &mut awaited[here as usize];
            while next[here as usize] < schedule.steps.len() {
                match schedule.steps[next[here as usize]] {
                    Step::Send { to, .. } => waits.push(begin(&mut begun, here, to.0, true)),
                    Step::Receive { from, .. } => waits.push(begin(&mut begun, from.0, here, false)),
                    Step::WaitReceived
                        if !waits.iter().filter(|(_, to, ..)| *to == here).all(|w| is_met(&begun, *w)) =>
                    {
                        break;
                    }
                    Step::WaitReceived => waits.retain(|(_, to, ..)| *to != here),
                    Step::Wait if !waits.iter().all(|wait| is_met(&begun, *wait)) => break,
                    Step::Wait => waits.clear(),
                    _ => {}
                }
                next[here as usize] += 1;
                moved = true;
            }
        }
        let stuck = (0..next.len()).find(|&rank| next[rank] < schedules[rank].steps.len());
        match stuck {
            None => return,
            Some(rank) if !moved => panic!("{what}: rank {rank} waits for ever at step {}", next[rank]),
            Some(_) => {}
        }
    }
}

/// Notes one side of a message; the answer says what the other side must have come to.
fn begin(
    begun: &mut HashMap<(u32, u32, bool), usize>,
    from: u32,
    to: u32,
    sending: bool,
) -> (u32, u32, bool, usize) {
    let count = begun.entry((from, to, sending)).or_default();
    *count += 1;
    (from, to, !sending, *count)
}

fn is_met(begun: &HashMap<(u32, u32, bool), usize>, wait: (u32, u32, bool, usize)) -> bool {
    let (from, to, side, count) = wait;
    begun.get(&(from, to, side)).is_some_and(|&begun| begun >= count)
}
