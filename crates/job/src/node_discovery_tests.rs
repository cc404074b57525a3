//! Meetings of threads: each is a process to the others.

use std::io::Write;
use std::sync::Barrier;
use std::time::Instant;

use super::*;
use proptest::prelude::*;

fn claim(process: u32, cpus: f64) -> Claim {
    Claim { process, cpus: CpuTime::of(cpus), offer: vec![process as u8; 5] }
}

/// A job name that no other test and no other run has.
fn job(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// Runs the meeting of these processes; each answer is whether the process announced, and what it was told.
fn meet(job: &str, processes: u32, claims: &[Claim], tokens: &[Token]) -> Vec<(bool, Result<Neighbours>)> {
    let fence = Barrier::new(claims.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = claims
            .iter()
            .zip(tokens)
            .map(|(claim, token)| {
                let fence = &fence;
                scope.spawn(move || {
                    let meeting = Meeting::begin(job, processes, claim.clone()).unwrap();
                    let announces = meeting.announces();
                    fence.wait();
                    (announces, meeting.end(processes, token))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn all_of_a_node_find_each_other_and_one_says_that_cores_are_shared() {
    for (cpus, announcing, cores) in [(8.0, 0, Cores::Own), (2.0, 1, Cores::Shared), (0.5, 1, Cores::Shared)]
    {
        let claims: Vec<Claim> = [9, 2, 4, 7, 1].map(|process| claim(process, cpus)).to_vec();
        let met = meet(&job("all"), 10, &claims, &[[3; 16]; 5]);
        let numbers = [1, 2, 4, 7, 9].map(|process| (process, true)).to_vec();
        for (_, told) in &met {
            let told = told.as_ref().unwrap();
            assert_eq!((&told.processes, told.cores, &told.offer[..]), (&numbers, cores, &[1; 5][..]));
        }
        assert_eq!(met.iter().filter(|(announces, _)| *announces).count(), announcing, "{cpus} cpus");
    }
}

#[test]
fn the_least_of_cpus_counts_and_one_that_shares_no_memory_is_there_all_the_same() {
    let mut claims = vec![claim(0, 4.0), claim(1, 1.0), claim(2, 4.0)];
    claims[0].offer.clear();
    let met = meet(&job("least"), 3, &claims, &[[3; 16]; 3]);
    for (_, told) in &met {
        let told = told.as_ref().unwrap();
        assert_eq!(told.processes, [(0, false), (1, true), (2, true)]);
        assert_eq!((told.cores, &told.offer[..]), (Cores::Shared, &[1; 5][..]));
    }
}

#[test]
fn one_alone_is_a_node() {
    let met = meet(&job("one"), 4, &[claim(3, 1.0)], &[[3; 16]]);
    assert_eq!(met[0].1.as_ref().unwrap().processes, [(3, true)]);
    assert!(!met[0].0);
}

#[test]
fn processes_of_another_job_of_this_name_are_told_apart() {
    let claims = [claim(0, 8.0), claim(1, 8.0), claim(2, 8.0)];
    let met = meet(&job("twins"), 4, &claims, &[[3; 16], [3; 16], [4; 16]]);
    // Whoever was the leader keeps its own; the others are refused.
    let told: Vec<Vec<u32>> = met
        .iter()
        .filter_map(|(_, told)| told.as_ref().ok())
        .map(|told| told.processes.iter().map(|(process, _)| *process).collect())
        .collect();
    assert!(told == vec![vec![0, 1], vec![0, 1]] || told == vec![vec![2]], "{told:?}");
    let errors: Vec<String> =
        met.iter().filter_map(|(_, told)| Some(told.as_ref().err()?.to_string())).collect();
    assert!(errors.iter().all(|error| error.contains("two jobs of one name")), "{errors:?}");
    assert_eq!(errors.len() + told.len(), 3);
}

#[test]
fn a_stranger_that_says_nothing_or_nonsense_is_no_neighbour() {
    let job = job("strangers");
    let meeting = Meeting::begin(&job, 2, claim(0, 8.0)).unwrap();
    let address = SocketAddr::from_abstract_name(name(&job, 2, 0)).unwrap();
    let mut nonsense = UnixStream::connect_addr(&address).unwrap();
    nonsense.write_all(&[7; 40]).unwrap();
    drop(UnixStream::connect_addr(&address).unwrap());
    let fence = Barrier::new(2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let meeting = Meeting::begin(&job, 2, claim(1, 8.0)).unwrap();
            fence.wait();
            meeting.end(2, &[3; 16]).unwrap()
        });
        fence.wait();
        let told = meeting.end(2, &[3; 16]).unwrap();
        assert_eq!(told.processes, [(0, true), (1, true)]);
        assert_eq!(other.join().unwrap(), told);
    });
}

#[test]
fn a_leader_that_dies_is_an_error_and_one_that_gives_up_leaves_no_name() {
    let job = job("death");
    let leader = Meeting::begin(&job, 2, claim(0, 8.0)).unwrap();
    let other = Meeting::begin(&job, 2, claim(1, 8.0)).unwrap();
    drop(leader);
    let error = other.end(2, &[3; 16]).unwrap_err().to_string();
    assert!(error.contains("does not tell"), "{error}");
    let again = Meeting::begin(&job, 2, claim(0, 8.0)).unwrap();
    assert!(matches!(again.role, Role::Leader(_)), "the name is free again");
}

#[test]
fn the_leader_watches_and_when_it_has_gone_one_other_does() {
    let job = job("watch");
    let mut leader = Meeting::begin(&job, 3, claim(0, 8.0)).unwrap();
    let mut others = [1, 2].map(|process| Meeting::begin(&job, 3, claim(process, 8.0)).unwrap());
    assert!(leader.watches() && !others[0].watches() && !others[1].watches());
    drop(leader);
    // Its end comes with that of its thread. The first that sees it takes the name.
    let watchdog = Instant::now();
    while !others[1].watches() {
        assert!(watchdog.elapsed() < Duration::from_secs(20), "nobody stands in");
        std::thread::yield_now();
    }
    assert!(others[1].watches() && !others[0].watches(), "one, and it stays that one");
}

#[test]
fn ranks_that_cannot_be_are_refused() {
    for claims in [[claim(0, 8.0), claim(0, 8.0)], [claim(0, 8.0), claim(2, 8.0)]] {
        let error = gather(claims.to_vec(), 2).unwrap_err().to_string();
        assert!(error.contains("cannot all be on this node"), "{error}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        mut numbers: Vec<u32>, offer: Vec<u8>, crowded: bool, process: u32, hundredths: u32,
    ) {
        numbers.sort_unstable();
        numbers.dedup();
        let processes = numbers.iter().map(|&number| (number, number % 3 == 0)).collect();
        let cores = if crowded { Cores::Shared } else { Cores::Own };
        let neighbours = Neighbours { processes, cores, offer: offer.clone() };
        prop_assert_eq!(neighbours_of(&table_of(&neighbours)), Some(neighbours));
        let claim = Claim { process, cpus: CpuTime { hundredths }, offer };
        prop_assert_eq!(claim_of(&hello(&claim)), Some(claim));
    }

    #[test]
    fn any_bytes_are_answered(bytes: Vec<u8>) {
        let _ = neighbours_of(&bytes);
        let _ = claim_of(&bytes);
    }
}
