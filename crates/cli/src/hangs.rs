//! What the ranks of a job wait for, as people are told where the job hangs.
//!
//! The ranks write what their calls wait for into memory that the launcher has made ([`WaitState`]); what
//! stands there may be anything. How far a rank has come at the start and at the end, the process manager
//! knows.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use weft::launch::{Standing, WaitState};

/// A rank that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Running {
    /// Its rank.
    pub rank: u32,
    /// How far the rank has come with the process manager.
    pub standing: Standing,
    /// What the rank's MPI call waits for, if it has waited for long.
    pub waits: Option<Waits>,
}

/// A wait that has become long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waits {
    /// The wait as the rank has written it down.
    pub state: WaitState,
    /// The ranks that are waited for, as far as they are known.
    pub ranks: Vec<u32>,
}

/// When it is told that all ranks have slept for long.
#[derive(Debug)]
pub struct Notice {
    /// How long all ranks must have slept; `None` is never to tell.
    limit: Option<Duration>,
    /// The waits that were told last: each rank's beginning of it.
    told: Vec<(u32, Duration)>,
}

impl Notice {
    /// By the value of the variable, if it is set.
    pub fn read(value: Option<&str>) -> Result<Notice, String> {
        let limit = match value.filter(|value| !value.is_empty()) {
            None => Some(LIMIT),
            Some("off") => None,
            Some(value) => {
                let seconds = value.parse().ok().filter(|seconds| *seconds > 0.0);
                let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                Some(limit.ok_or_else(|| {
                    format!("{VARIABLE} is {value:?}, and seconds or off are expected\n  unset {VARIABLE} or correct it")
                })?)
            }
        };
        Ok(Notice { limit, told: Vec::new() })
    }

    /// How often it is looked whether it is due.
    pub fn period(&self) -> Option<Duration> {
        self.limit.map(|limit| (limit / 4).clamp(PERIOD_MIN, PERIOD_MAX))
    }

    /// The message to the user if all ranks have slept in MPI for the limit; `None` otherwise, and where
    /// these waits were told before.
    pub fn due(&mut self, running: &[Running], now: Duration) -> Option<String> {
        let limit = self.limit?;
        let sleeps = |one: &Running| {
            let state = &one.waits.as_ref()?.state;
            (now.saturating_sub(state.quiet_since) >= limit).then_some((one.rank, state.begun))
        };
        let asleep: Option<Vec<_>> = running.iter().map(sleeps).collect();
        let asleep = asleep.filter(|asleep| !asleep.is_empty())?;
        if asleep == self.told {
            return None;
        }
        self.told = asleep;
        Some(format!("all ranks have slept in MPI for {} s or more; the job may hang", limit.as_secs_f64()))
    }
}

/// Ranks that do the same.
struct Alike {
    call: String,
    detail: String,
    /// The longest of their waits, if they wait.
    waited: Option<Duration>,
    ranks: Vec<u32>,
}

/// The report on a job that may hang: what each rank does, in one line for all ranks that do the same, and
/// which ranks wait for each other in a circle.
pub fn report(running: &[Running], host: &str, now: Duration) -> Vec<String> {
    let all = alike(running, now);
    let who: Vec<String> = all.iter().map(|of| format!("{} on {host}:", ranks_named(&of.ranks))).collect();
    let times: Vec<String> = all.iter().map(|of| of.waited.map_or(String::new(), seconds)).collect();
    let calls = all.iter().filter(|of| of.waited.is_some()).map(|of| &of.call);
    let widest = |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| text.chars().count()).max();
    let [who_width, call_width, time_width] =
        [widest(&mut who.iter()), widest(&mut { calls }), widest(&mut times.iter())]
            .map(Option::unwrap_or_default);
    let line = |((Alike { call, detail, waited, .. }, who), time): ((&Alike, &String), &String)| match waited
    {
        None => format!("{who:who_width$} {call}"),
        Some(_) => {
            let line = format!("{who:who_width$} {call:call_width$} for {time:>time_width$}  {detail}");
            line.trim_end().to_owned()
        }
    };
    all.iter().zip(&who).zip(&times).map(line).chain(circle_told(running)).collect()
}

fn alike(running: &[Running], now: Duration) -> Vec<Alike> {
    let mut all: Vec<Alike> = Vec::new();
    for one in running {
        let ([call, detail], since) = doing(one, running);
        let waited = since.map(|since| now.saturating_sub(since));
        let is_same = |of: &&mut Alike| {
            of.call == call && of.detail == detail && of.waited.is_some() == waited.is_some()
        };
        match all.iter_mut().find(is_same) {
            Some(known) => {
                known.ranks.push(one.rank);
                known.waited = known.waited.max(waited);
            }
            None => all.push(Alike { call, detail, waited, ranks: vec![one.rank] }),
        }
    }
    all.iter_mut().for_each(|of| of.ranks.sort_unstable());
    all
}

/// The call and what it waits for, and since when, where it waits.
fn doing(one: &Running, running: &[Running]) -> ([String; 2], Option<Duration>) {
    let plain = |text: &str| ([text.to_owned(), String::new()], None);
    match (&one.waits, one.standing) {
        (Some(Waits { state, .. }), _) => {
            let call = if state.call.is_empty() { "a call of MPI" } else { &state.call };
            ([call.to_owned(), state.detail.clone()], Some(state.begun))
        }
        (None, Standing::Silent) => plain("not in MPI: it has not called MPI_Init"),
        (None, Standing::Finalized) => plain("not in MPI: it has called MPI_Finalize"),
        (None, Standing::Speaking) => plain("not in MPI, or in a call that does not wait"),
        (None, Standing::Waiting) => {
            let absent = running.iter().filter(|other| !matches!(other.standing, Standing::Waiting));
            let absent: Vec<u32> = absent.map(|other| other.rank).collect();
            plain(&format!("MPI_Init, waits for {}", ranks_named(&absent)))
        }
    }
}

/// The time by the clock by which ranks say since when they wait.
pub fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn circle_told(running: &[Running]) -> Option<String> {
    let waits = running.iter().filter_map(|one| {
        let waits = one.waits.as_ref()?;
        // Where one of several is enough, no single one is needed.
        let is_needed = !waits.state.any || waits.ranks.len() == 1;
        is_needed.then(|| (one.rank, waits.ranks.clone()))
    });
    let circle = circle(&waits.collect::<Vec<_>>())?;
    let arrows: Vec<String> = circle.iter().chain(circle.first()).map(u32::to_string).collect();
    let what = match circle.len() {
        1 => "waits for itself",
        _ => "wait for each other, so that none of them goes on",
    };
    Some(match circle.len() {
        1 => format!("rank {} {what}", circle[0]),
        _ => format!("ranks {} {what}", arrows.join(" -> ")),
    })
}

/// Ranks each of which waits for the next, and the last one for the first. `waits` says for which ranks each
/// rank waits.
pub fn circle(waits: &[(u32, Vec<u32>)]) -> Option<Vec<u32>> {
    let place = |rank: u32| waits.iter().position(|(other, _)| *other == rank);
    let edges: Vec<Vec<usize>> =
        waits.iter().map(|(_, ranks)| ranks.iter().filter_map(|rank| place(*rank)).collect()).collect();
    let mut is_done = vec![false; waits.len()];
    for start in 0..waits.len() {
        // The way from the start, with the edges of each that were not gone yet.
        let mut way = vec![(start, 0)];
        while let Some((at, next)) = way.last_mut() {
            let Some(&to) = edges[*at].get(*next).filter(|_| !is_done[*at]) else {
                is_done[*at] = true;
                way.pop();
                continue;
            };
            *next += 1;
            if let Some(first) = way.iter().position(|(other, _)| *other == to) {
                return Some(way[first..].iter().map(|(at, _)| waits[*at].0).collect());
            }
            if !is_done[to] {
                way.push((to, 0));
            }
        }
    }
    None
}

/// Ranks in their order, as people write them: `ranks 0-3, 8`.
pub fn ranks_named(ranks: &[u32]) -> String {
    let runs = ranks.chunk_by(|left, right| left + 1 == *right).map(|run| match run {
        [one] => one.to_string(),
        many => format!("{}-{}", many[0], many[many.len() - 1]),
    });
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", runs.collect::<Vec<_>>().join(", "))
}

/// The variable that says after how many seconds it is told that all ranks sleep.
pub const VARIABLE: &str = "WEFT_HANG_NOTICE";
/// What to do about ranks that all sleep.
pub const REMEDY: &str =
    "the job goes on, and this is said once; weftrun --timeout SECONDS ends a job that hangs";
const LIMIT: Duration = Duration::from_secs(60);
const PERIOD_MIN: Duration = Duration::from_millis(50);
const PERIOD_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1000);

    fn waits(rank: u32, call: &str, detail: &str, ranks: &[u32], seconds: f64) -> Running {
        let begun = NOW - Duration::from_secs_f64(seconds);
        let state = WaitState {
            call: call.to_owned(),
            detail: detail.to_owned(),
            begun,
            quiet_since: begun,
            ..WaitState::default()
        };
        Running { rank, standing: Standing::Speaking, waits: Some(Waits { state, ranks: ranks.to_vec() }) }
    }

    fn computes(rank: u32) -> Running {
        Running { rank, standing: Standing::Speaking, waits: None }
    }

    #[test]
    fn circles_are_found_and_lines_are_none() {
        let of = |waits: &[(u32, &[u32])]| {
            circle(&waits.iter().map(|(rank, ranks)| (*rank, ranks.to_vec())).collect::<Vec<_>>())
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(0, &[1]), (1, &[2])]), None, "rank 2 computes");
        assert_eq!(of(&[(0, &[1]), (1, &[0])]), Some(vec![0, 1]));
        assert_eq!(of(&[(4, &[4])]), Some(vec![4]));
        assert_eq!(of(&[(0, &[1]), (1, &[2]), (2, &[0])]), Some(vec![0, 1, 2]));
        assert_eq!(of(&[(0, &[1, 2]), (1, &[3]), (2, &[3]), (3, &[9])]), None, "two ways to one end");
        assert_eq!(of(&[(0, &[1]), (1, &[7, 2]), (2, &[3]), (3, &[1])]), Some(vec![1, 2, 3]));
        let long: Vec<(u32, Vec<u32>)> = (0..5000).map(|rank| (rank, vec![(rank + 1) % 5000])).collect();
        assert_eq!(circle(&long).map(|circle| circle.len()), Some(5000));
    }

    #[test]
    fn each_rank_is_told_in_its_column_and_those_alike_in_one_line() {
        let running = [
            waits(0, "MPI_Ssend", "to rank 1, tag 7, MPI_COMM_WORLD", &[1], 12.0),
            waits(1, "MPI_Recv", "from rank 0, tag 8, MPI_COMM_WORLD", &[0], 3.25),
            waits(2, "MPI_Barrier", "MPI_COMM_WORLD, waits for ranks 0-1", &[0, 1], 3.0),
            waits(3, "MPI_Barrier", "MPI_COMM_WORLD, waits for ranks 0-1", &[0, 1], 4.0),
            computes(4),
        ];
        assert_eq!(
            report(&running, "n1", NOW),
            [
                "rank 0 on n1:    MPI_Ssend   for 12.0 s  to rank 1, tag 7, MPI_COMM_WORLD",
                "rank 1 on n1:    MPI_Recv    for  3.2 s  from rank 0, tag 8, MPI_COMM_WORLD",
                "ranks 2-3 on n1: MPI_Barrier for  4.0 s  MPI_COMM_WORLD, waits for ranks 0-1",
                "rank 4 on n1:    not in MPI, or in a call that does not wait",
                "ranks 0 -> 1 -> 0 wait for each other, so that none of them goes on",
            ]
        );
    }

    #[test]
    fn what_the_process_manager_knows_is_told_as_well() {
        let running: Vec<Running> =
            [Standing::Silent, Standing::Waiting, Standing::Finalized, Standing::Waiting]
                .into_iter()
                .zip(0..)
                .map(|(standing, rank)| Running { rank, standing, waits: None })
                .collect();
        assert_eq!(
            report(&running, "n1", NOW),
            [
                "rank 0 on n1:     not in MPI: it has not called MPI_Init",
                "ranks 1, 3 on n1: MPI_Init, waits for ranks 0, 2",
                "rank 2 on n1:     not in MPI: it has called MPI_Finalize",
            ]
        );
    }

    #[test]
    fn one_of_several_is_no_circle() {
        let mut any = waits(0, "MPI_Waitany", "2 requests", &[1, 2], 5.0);
        any.waits.as_mut().unwrap().state.any = true;
        let one = waits(1, "MPI_Recv", "from rank 0", &[0], 5.0);
        assert_eq!(circle_told(&[any.clone(), one.clone()]), None);
        any.waits.as_mut().unwrap().ranks = vec![1];
        assert!(circle_told(&[any, one]).is_some());
        let alone = waits(3, "MPI_Recv", "from rank 3", &[3], 5.0);
        assert_eq!(circle_told(&[alone]).unwrap(), "rank 3 waits for itself");
    }

    #[test]
    fn a_notice_comes_once_for_the_same_waits_and_never_while_somebody_works() {
        let mut notice = Notice::read(Some("2.5")).unwrap();
        let asleep = |seconds| [waits(0, "MPI_Recv", "", &[1], seconds), waits(1, "MPI_Recv", "", &[0], 9.0)];
        assert_eq!(notice.due(&asleep(2.0), NOW), None, "not long enough");
        assert_eq!(notice.due(&[computes(0), waits(1, "", "", &[], 9.0)], NOW), None);
        assert!(notice.due(&asleep(3.0), NOW).unwrap().contains("for 2.5 s"));
        assert_eq!(notice.due(&asleep(3.0), NOW), None, "it was told");
        assert!(notice.due(&asleep(4.0), NOW).is_some(), "another wait");
        let mut busy = asleep(3.0);
        busy[0].waits.as_mut().unwrap().state.quiet_since = NOW;
        assert_eq!(notice.due(&busy, NOW), None, "something has come");
        assert_eq!(notice.due(&[], NOW), None);
    }

    #[test]
    fn the_variable_is_seconds_or_off() {
        assert_eq!(Notice::read(None).unwrap().limit, Some(LIMIT));
        assert_eq!(Notice::read(Some("")).unwrap().limit, Some(LIMIT));
        let mut never = Notice::read(Some("off")).unwrap();
        assert_eq!((never.period(), never.due(&[waits(0, "", "", &[0], 900.0)], NOW)), (None, None));
        for wrong in ["abc", "-1", "0", "nan", "1e300"] {
            assert!(Notice::read(Some(wrong)).unwrap_err().contains("seconds or off"), "{wrong}");
        }
    }
}
