//! Revocations and agreements among many, in every weather, with deaths.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabric::Peer;
use fabric::simulated::{Network, Simulated, Weather};
use messaging::MemberList;
use messaging::{Contribution, Decision, Engine, EveryoneHere, Members, Rank, Settings, Standing};

use super::{ALL, FailureWorld, is_revoked};

/// So many engines in the weather of that seed, and what each has of the one communicator of all.
fn in_a_storm(size: u32, seed: u64) -> (Network, Vec<Engine<Simulated>>, Vec<Arc<Standing>>) {
    let network = Network::new(size, Weather::storm(seed));
    let engine =
        |rank| Engine::new(network.endpoint(Peer(rank)), size, Box::new(EveryoneHere), Settings::default());
    let engines: Vec<Engine<Simulated>> = (0..size).map(engine).collect();
    let members: Arc<MemberList> = Arc::new(MemberList((0..size).collect()));
    let watch = |(engine, rank): (&Engine<Simulated>, u32)| {
        let members: Arc<dyn Members> = members.clone();
        engine.failures().watch(0, 5, Rank(rank), members)
    };
    let standings = engines.iter().zip(0..size).map(watch).collect();
    (network, engines, standings)
}

/// Revokes at one member of many, and kills others meanwhile: whoever lives hears of it.
#[test]
fn revocations_reach_all_who_live() {
    for seed in 0..if cfg!(miri) { 1 } else { 300u64 } {
        let size = 2 + (seed % 17) as u32;
        let (network, mut engines, standings) = in_a_storm(size, seed);
        let (origin, mut dice) = (seed % u64::from(size), seed);
        engines[origin as usize].revoke(&standings[origin as usize]);
        let mut dead = BTreeSet::new();
        for turn in 0..20_000 {
            dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let victim = (dice >> 33) % u64::from(size);
            if turn % 3 == 0 && dead.len() < size as usize / 2 && victim != origin && dead.insert(victim) {
                network.kill(Peer(victim as u32));
            }
            let living = (0..u64::from(size)).filter(|rank| !dead.contains(rank));
            let mut waiting = 0;
            for rank in living {
                engines[rank as usize].progress();
                waiting += usize::from(!standings[rank as usize].is_revoked());
            }
            if waiting == 0 {
                break;
            }
            assert!(turn < 19_999, "seed {seed}: {waiting} of {size} never hear of it");
        }
    }
}

/// The one who revokes dies at each of its steps: if anybody who lives has heard of it, all who live do.
#[test]
fn what_one_has_heard_of_a_revocation_reaches_all_though_who_revoked_has_died() {
    let sizes: &[u32] = if cfg!(miri) { &[3] } else { &[2, 3, 5, 9, 10, 17] };
    for &size in sizes {
        let (mut nobody, mut somebody) = (0, 0);
        for (what, mut engines, standings) in where_who_revokes_dies(size) {
            // What it has sent arrives, and what others tell each other.
            progress(&mut engines[1..], 300);
            let knowing = standings[1..].iter().filter(|standing| standing.is_revoked()).count();
            assert!(knowing == 0 || knowing == size as usize - 1, "{what}: {knowing} know of it");
            *(if knowing == 0 { &mut nobody } else { &mut somebody }) += 1;
        }
        assert!(nobody > 0 && somebody > 0, "{size}: {nobody} times nobody, {somebody} times somebody");
    }
}

/// The rank that revokes dies at each of its steps. Another rank that has heard of the revocation revokes as
/// well, as programs do, and makes no further call: all who live learn of it.
#[test]
fn who_has_heard_of_a_revocation_and_revokes_tells_all() {
    let mut heard = 0;
    for (what, mut engines, standings) in where_who_revokes_dies(5) {
        for _ in 0..20 {
            if !standings[1].is_revoked() {
                engines[1].progress();
            }
        }
        if !standings[1].is_revoked() {
            continue;
        }
        heard += 1;
        engines[1].revoke(&standings[1]);
        progress(&mut engines[2..], 300);
        assert!(standings[2..].iter().all(|standing| standing.is_revoked()), "{what}: not all know of it");
    }
    assert!(heard > 0);
}

/// What is left, after each number of steps in each of some storms, where member 0 has revoked and has died
/// over it.
fn where_who_revokes_dies(
    size: u32,
) -> impl Iterator<Item = (String, Vec<Engine<Simulated>>, Vec<Arc<Standing>>)> {
    let seeds = 0..if cfg!(miri) { 1 } else { 20u64 };
    let all = seeds.flat_map(move |seed| (1..=2 * u64::from(size)).map(move |step| (seed, step)));
    all.map(move |(seed, step)| {
        let (network, mut engines, standings) = in_a_storm(size, seed);
        network.kill_at(Peer(0), step);
        engines[0].revoke(&standings[0]);
        progress(&mut engines[..1], 4);
        // It has died by then in any case.
        network.kill(Peer(0));
        (format!("{size}, {seed}, {step}"), engines, standings)
    })
}

pub(super) fn progress(engines: &mut [Engine<Simulated>], turns: u32) {
    for _ in 0..turns {
        for engine in &mut *engines {
            engine.progress();
        }
    }
}

#[test]
fn who_hears_of_a_revocation_ends_what_it_waits_for_and_tells_others_with_its_next_turn() {
    let mut world = FailureWorld::new();
    let (receive, _room) = world.post(1, Some(0), ALL, 8);
    let standing = Arc::clone(&world.all[2]);
    world.engines[2].revoke(&standing);
    let sent = world.network.messages();
    assert!(!world.engines[1].flush(), "there is something to be sent");
    assert!(is_revoked(world.engines[1].conclude(receive).as_ref()));
    assert_eq!(world.network.messages(), sent, "it has told nobody yet");
    world.engines[1].progress();
    assert_eq!(world.network.messages(), sent + 1, "the next one");
}

/// All members agree, one after the other or at once, some of them are killed meanwhile; the decisions are
/// those of one mind.
#[test]
fn agreements_end_alike_at_all_who_live() {
    for seed in 0..if cfg!(miri) { 1 } else { 300u64 } {
        let size = 1 + (seed % 9) as u32;
        let (network, mut engines, standings) = in_a_storm(size, seed);
        let mut asked: Vec<Option<u32>> = vec![None; size as usize];
        let mut decided: Vec<Vec<Decision>> = vec![Vec::new(); size as usize];
        let (mut dead, mut dice) = (BTreeSet::new(), seed);
        for turn in 0.. {
            assert!(turn < 100_000, "seed {seed}: somebody waits for ever: {decided:?}");
            dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let victim = ((dice >> 33) % u64::from(size)) as usize;
            if turn % 7 == 6
                && 2 * dead.len() + 1 < size as usize
                && (dice >> 20) % 4 == 0
                && dead.insert(victim)
            {
                network.kill(Peer(victim as u32));
            }
            let mut is_over = true;
            for at in (0..size as usize).filter(|at| !dead.contains(at)) {
                engines[at].progress();
                if let Some(number) = asked[at]
                    && let Some(decision) = engines[at].take_decision(&standings[at], number)
                {
                    decided[at].push(decision);
                    asked[at] = None;
                }
                is_over &= decided[at].len() == ROUNDS;
                if asked[at].is_none() && decided[at].len() < ROUNDS && (dice >> at) & 1 == 0 {
                    let flags = !(1 << at);
                    let mine = Contribution { flags, acknowledged: BTreeSet::new(), count: 0 };
                    asked[at] = Some(engines[at].agree(&standings[at], mine));
                }
            }
            if is_over {
                break;
            }
        }
        let living: Vec<usize> = (0..size as usize).filter(|at| !dead.contains(at)).collect();
        for &at in &living {
            assert_eq!(decided[at], decided[living[0]], "seed {seed}");
            for decision in &decided[at] {
                assert!(
                    living.iter().all(|rank| decision.flags & 1 << rank == 0),
                    "seed {seed}: {decision:?}"
                );
                assert!(decision.failed.iter().all(|rank| dead.contains(&(*rank as usize))), "seed {seed}");
            }
        }
    }
}

/// Agreements of each run.
const ROUNDS: usize = 5;
