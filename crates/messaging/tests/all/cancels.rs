//! Cancelled sends (MPI 5.0 §3.8.4): each ends, whatever its receiver does and whoever dies; either nobody
//! receives its message and its outcome says so, or a receive has all of it; and the messages behind it keep
//! their order.

use std::sync::Arc;

use fabric::simulated::{Network, Simulated, Weather};
use fabric::{Heap, Payload, Peer};
use messaging::MemberList;
use messaging::{
    Data, Engine, Envelope, EveryoneHere, Failure, Mode, Outcome, Pattern, Rank, Receiving, RequestId,
    Sending, Settings,
};

use super::crash_points::Copied;

/// How a message is sent.
#[derive(Clone, Copy, Debug)]
struct SendKind {
    bytes: usize,
    mode: Mode,
    /// The bytes are put together while they go.
    is_made: bool,
}

/// Those that wait for their receiver: by their mode, by their length, or by both.
fn waiting_kinds() -> Vec<SendKind> {
    let mut all = Vec::new();
    for is_made in [false, true] {
        all.extend([8, 300, 2500].map(|bytes| SendKind { bytes, mode: Mode::Synchronous, is_made }));
        all.extend([300, 2500].map(|bytes| SendKind { bytes, mode: Mode::Standard, is_made }));
    }
    all
}

/// The ways that messages go: read by the receiver; asked for; read in parts by both; and all of that, by
/// dice.
fn climates(seed: u64) -> [Weather; 4] {
    let short = Weather { seed, eager_bytes_max: 64, chunk_bytes_max: 700, ..Weather::fair() };
    [
        short,
        Weather { pull: false, ..short },
        Weather { share_percent: 100, later_percent: 50, delay_polls_max: 9, ..short },
        // What goes at once waits for nobody.
        Weather { at_once_percent: 0, ..Weather::storm(seed) },
    ]
}

fn engines(network: &Network, ranks: u32) -> Vec<Engine<Simulated>> {
    let engine =
        |rank| Engine::new(network.endpoint(Peer(rank)), ranks, Box::new(EveryoneHere), Settings::default());
    (0..ranks).map(engine).collect()
}

fn turn(engines: &mut [Engine<Simulated>]) -> usize {
    engines.iter_mut().map(Engine::progress).sum()
}

fn turns(engines: &mut [Engine<Simulated>], count: usize) {
    for _ in 0..count {
        turn(engines);
    }
}

/// The bytes of the message with that number.
fn content(number: usize, bytes: usize) -> &'static [u8] {
    &NUMBERED[number * 17..][..bytes]
}

static NUMBERED: [u8; 4096] = {
    let mut numbered = [0; 4096];
    let mut at = 0;
    while at < numbered.len() {
        numbered[at] = (at * 7 + at / 256) as u8;
        at += 1;
    }
    numbered
};

fn send(
    engine: &mut Engine<Simulated>,
    to: u32,
    tag: i32,
    number: usize,
    kind: SendKind,
) -> Option<RequestId> {
    let envelope = Envelope { context: CONTEXT, source: Rank(0), tag };
    let data = content(number, kind.bytes);
    let sending = match kind.is_made {
        true => engine.send(Peer(to), envelope, Data::Apart(&Copied(data)), kind.mode),
        false => engine.send(Peer(to), envelope, Payload::from(data), kind.mode),
    };
    match sending.expect("the peer is known") {
        Sending::Pending(request) => Some(request),
        Sending::Done => None,
    }
}

/// A receive of `room` bytes from rank 0.
struct Receive {
    room: Heap,
    request: Option<RequestId>,
    outcome: Option<Outcome>,
}

impl Receive {
    fn post(engine: &mut Engine<Simulated>, tag: i32, room: usize) -> Receive {
        let pattern = Pattern { context: CONTEXT, source: Some(Rank(0)), tag: Some(tag) };
        let room = Heap::new(room);
        Receive::of(engine.receive(pattern, Some(Peer(0)), room.memory()), room)
    }

    fn of(receiving: Receiving, room: Heap) -> Receive {
        match receiving {
            Receiving::Done(outcome) => Receive { room, request: None, outcome: Some(outcome) },
            Receiving::Pending(request) => Receive { room, request: Some(request), outcome: None },
        }
    }

    fn look(&mut self, engine: &mut Engine<Simulated>) -> bool {
        if self.outcome.is_none() {
            self.outcome = self.request.and_then(|request| engine.test(request));
        }
        self.outcome.is_some()
    }

    fn must_have(&self, number: usize, bytes: usize, name: &str) {
        let outcome = self.outcome.as_ref().expect("it is over");
        let fits = bytes.min(self.room.bytes());
        assert_eq!((outcome.cancelled, outcome.bytes), (false, fits), "{name}: {outcome:?}");
        let truncated = Failure::Truncated { sent_bytes: bytes, room_bytes: fits };
        assert_eq!(outcome.failure.as_deref(), (fits < bytes).then_some(&truncated), "{name}");
        assert!(self.room.payload().part(0, fits).to_vec() == content(number, fits), "{name}: other bytes");
    }
}

fn look_at_all(receives: &mut [Receive], engine: &mut Engine<Simulated>) {
    for receive in receives {
        receive.look(engine);
    }
}

#[test]
fn a_message_that_no_receive_has_matched_is_cancelled_and_nobody_sees_it() {
    for (seed, kind) in waiting_kinds().into_iter().enumerate() {
        for weather in climates(seed as u64) {
            let (name, network) = (format!("{kind:?}, {weather:?}"), Network::new(2, weather));
            let mut pair = engines(&network, 2);
            let request = send(&mut pair[0], 1, TAG, 0, kind).expect("it waits for its receiver");
            turns(&mut pair, QUIET);
            let any = Pattern { context: CONTEXT, source: None, tag: None };
            assert!(pair[1].probe(&any).is_some(), "{name}: it has not come");
            // Who asks again asks in vain, and does no harm.
            (0..3).for_each(|_| pair[0].cancel(request));
            turns(&mut pair, QUIET);
            assert_eq!(pair[0].test(request).map(|outcome| outcome.cancelled), Some(true), "{name}");
            assert_eq!((pair[1].probe(&any), pair[1].unexpected_bytes()), (None, 0), "{name}");
            assert_eq!(network.exposures(), 0, "{name}: what was cancelled is still shown");
        }
    }
}

/// Two messages of one envelope, of which the first is cancelled; and two receives, of which the first may be
/// too short, at every moment before, between and after.
#[test]
fn of_cancel_and_match_the_first_counts_and_what_follows_keeps_its_order() {
    let (mut cancelled, mut received) = (0, 0);
    for (seed, kind) in waiting_kinds().into_iter().enumerate() {
        for weather in climates(seed as u64) {
            for (cancel_at, receive_at) in
                (0..MOMENTS).flat_map(|at| (0..MOMENTS).map(move |other| (at, other)))
            {
                let name = format!("{kind:?}, {weather:?}, cancel {cancel_at}, receive {receive_at}");
                let room = if cancel_at % 3 == 0 { kind.bytes / 2 } else { kind.bytes };
                match race(kind, weather, (cancel_at, receive_at), room, &name) {
                    true => cancelled += 1,
                    false => received += 1,
                }
            }
        }
    }
    assert!(cancelled > 100 && received > 100, "{cancelled} were cancelled, {received} received");
}

fn race(
    kind: SendKind,
    weather: Weather,
    (cancel_at, receive_at): (usize, usize),
    room: usize,
    name: &str,
) -> bool {
    let network = Network::new(2, weather);
    let mut pair = engines(&network, 2);
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    let mut is_cancelled = false;
    for at in 0..TURNS_MAX {
        if at == 0 {
            sends.extend([0, 1].map(|number| send(&mut pair[0], 1, TAG, number, kind)));
        }
        if at == receive_at {
            receives.extend([0, 1].map(|_| Receive::post(&mut pair[1], TAG, room)));
        }
        if at == cancel_at {
            sends[0].into_iter().for_each(|request| pair[0].cancel(request));
        }
        turn(&mut pair);
        for (number, send) in sends.iter_mut().enumerate() {
            if let Some(outcome) = send.and_then(|request| pair[0].test(request)) {
                assert_eq!((outcome.failure, outcome.cancelled && number > 0), (None, false), "{name}");
                *send = None;
                is_cancelled |= outcome.cancelled;
            }
        }
        look_at_all(&mut receives, &mut pair[1]);
        let over = receives.iter().filter(|receive| receive.outcome.is_some()).count();
        if sends.iter().all(Option::is_none) && over == 2 - usize::from(is_cancelled) {
            turns(&mut pair, QUIET);
            look_at_all(&mut receives, &mut pair[1]);
            let numbers: &[usize] = if is_cancelled { &[1] } else { &[0, 1] };
            for (receive, number) in receives.iter().zip(numbers) {
                receive.must_have(*number, kind.bytes, name);
            }
            assert_eq!(
                receives.iter().filter(|receive| receive.outcome.is_some()).count(),
                numbers.len(),
                "{name}"
            );
            assert_eq!((pair[1].unexpected_bytes(), network.exposures()), (0, 0), "{name}");
            return is_cancelled;
        }
    }
    panic!("{name} hangs:\n{}\n{}", pair[0].describe(), pair[1].describe());
}

#[test]
fn what_a_matched_probe_has_taken_is_received() {
    for (seed, kind) in waiting_kinds().into_iter().enumerate() {
        for weather in climates(seed as u64) {
            let (name, network) = (format!("{kind:?}, {weather:?}"), Network::new(2, weather));
            let mut pair = engines(&network, 2);
            let request = send(&mut pair[0], 1, TAG, 0, kind).expect("it waits for its receiver");
            turns(&mut pair, QUIET);
            let pattern = Pattern { context: CONTEXT, source: None, tag: Some(TAG) };
            let message = pair[1].take(&pattern).expect("it has come");
            pair[0].cancel(request);
            turns(&mut pair, QUIET);
            assert_eq!(pair[0].test(request), None, "{name}: nobody has said what became of it");
            let room = Heap::new(kind.bytes);
            let mut receive = Receive::of(pair[1].receive_matched(message, room.memory()), room);
            turns(&mut pair, 2 * QUIET);
            assert!(receive.look(&mut pair[1]), "{name} hangs");
            receive.must_have(0, kind.bytes, &name);
            assert_eq!(pair[0].test(request), Some(Outcome::sent()), "{name}");
        }
    }
}

#[test]
fn what_waits_in_the_queue_is_cancelled_at_once_and_the_others_go() {
    let network = Network::new(2, Weather { queue_messages_max: 2, eager_bytes_max: 64, ..Weather::fair() });
    let mut pair = engines(&network, 2);
    let kind = |number: usize| match number % 3 {
        0 => SendKind { bytes: 8, mode: Mode::Standard, is_made: number.is_multiple_of(2) },
        1 => SendKind { bytes: 8, mode: Mode::Synchronous, is_made: number.is_multiple_of(2) },
        _ => SendKind { bytes: 300, mode: Mode::Standard, is_made: number.is_multiple_of(2) },
    };
    let mut sends: Vec<_> = (0..30).map(|number| send(&mut pair[0], 1, TAG, number, kind(number))).collect();
    assert_eq!(sends.iter().filter(|send| send.is_none()).count(), 1, "only the first is on its way");
    for number in (3..30).step_by(2) {
        let request = sends[number].take().expect("it waits");
        pair[0].cancel(request);
        assert_eq!(pair[0].test(request).map(|outcome| outcome.cancelled), Some(true), "message {number}");
    }
    for number in (0..30).filter(|&number| number < 3 || number % 2 == 0) {
        let mut receive = Receive::post(&mut pair[1], TAG, 300);
        while !receive.look(&mut pair[1]) {
            assert!(turn(&mut pair) > 0, "message {number} is not received:\n{}", pair[0].describe());
        }
        receive.must_have(number, kind(number).bytes, &format!("message {number}"));
    }
    while turn(&mut pair) > 0 {}
    assert!(sends.into_iter().flatten().all(|send| pair[0].test(send) == Some(Outcome::sent())));
    assert_eq!((pair[1].unexpected_bytes(), network.exposures()), (0, 0));
}

#[test]
fn one_that_need_not_wait_completes_once_its_message_has_begun_to_leave() {
    let network = Network::new(2, Weather { partly_percent: 100, ..Weather::fair() });
    let mut pair = engines(&network, 2);
    let kind = SendKind { bytes: 2500, mode: Mode::Standard, is_made: false };
    let request = send(&mut pair[0], 1, TAG, 0, kind).expect("it goes in parts");
    pair[0].cancel(request);
    let mut receive = Receive::post(&mut pair[1], TAG, 2500);
    while !receive.look(&mut pair[1]) {
        turn(&mut pair);
    }
    receive.must_have(0, 2500, "a message that had begun to leave");
    assert_eq!(pair[0].test(request), Some(Outcome::sent()));
}

#[test]
fn a_synchronous_one_that_has_begun_to_leave_comes_back() {
    let network = Network::new(2, Weather { partly_percent: 100, ..Weather::fair() });
    let mut pair = engines(&network, 2);
    let kind = SendKind { bytes: 2500, mode: Mode::Synchronous, is_made: false };
    let request = send(&mut pair[0], 1, TAG, 0, kind).expect("it goes in parts");
    pair[0].cancel(request);
    while turn(&mut pair) > 0 {}
    assert_eq!(pair[0].test(request).map(|outcome| outcome.cancelled), Some(true));
    assert_eq!(pair[1].unexpected_bytes(), 0);
}

#[test]
fn a_message_to_oneself_is_cancelled_as_well() {
    let network = Network::new(1, Weather { eager_bytes_max: 64, ..Weather::fair() });
    let mut alone = engines(&network, 1);
    for kind in waiting_kinds() {
        let request = send(&mut alone[0], 0, TAG, 0, kind).expect("it waits for its receiver");
        while turn(&mut alone) > 0 {}
        alone[0].cancel(request);
        while turn(&mut alone) > 0 {}
        assert_eq!(alone[0].test(request).map(|outcome| outcome.cancelled), Some(true), "{kind:?}");
        assert_eq!(alone[0].unexpected_bytes(), 0, "{kind:?}");
    }
}

#[test]
fn one_that_is_cancelled_in_a_communicator_that_is_revoked_meanwhile_ends() {
    for (seed, kind) in waiting_kinds().into_iter().enumerate() {
        for weather in climates(seed as u64) {
            for at in 0..8 {
                let name = format!("{kind:?}, {weather:?}, revoked {at} turns later");
                let network = Network::new(2, weather);
                let mut pair = engines(&network, 2);
                let standings: Vec<_> = (0..2u32)
                    .map(|here| {
                        let failures = pair[here as usize].failures().clone();
                        failures.watch(CONTEXT, 1, Rank(here), Arc::new(MemberList(vec![0, 1])))
                    })
                    .collect();
                let request = send(&mut pair[0], 1, TAG, 0, kind).expect("it waits for its receiver");
                turns(&mut pair, at / 2);
                pair[0].cancel(request);
                turns(&mut pair, at);
                let who = at % 2;
                pair[who].revoke(&standings[who]);
                turns(&mut pair, 2 * QUIET);
                let outcome = pair[0].test(request).unwrap_or_else(|| panic!("{name} hangs"));
                let is_revoked = outcome.failure.as_deref() == Some(&Failure::Revoked);
                assert!(outcome.cancelled || is_revoked, "{name}: {outcome:?}");
                assert_eq!((pair[1].unexpected_bytes(), network.exposures()), (0, 0), "{name}");
            }
        }
    }
}

/// Rank 0 sends to both others, cancels, and tells each what became of it; one of the three dies at each of
/// its steps in turn.
#[test]
fn whoever_dies_all_who_live_come_to_an_end() {
    let mut deaths = 0;
    for (seed, kind) in waiting_kinds().into_iter().enumerate() {
        for weather in climates(seed as u64) {
            let moments = (seed % 4, seed / 2);
            let whole = CancelWorld::new(kind, weather, moments, None).run();
            for (rank, steps) in (0..RANKS).zip(whole) {
                for step in (1..=steps).step_by(if cfg!(miri) { 50 } else { 1 }) {
                    CancelWorld::new(kind, weather, moments, Some((rank, step))).run();
                    deaths += 1;
                }
            }
        }
    }
    assert!(deaths > 100, "{deaths} are not all there are");
}

struct CancelWorld {
    name: String,
    kind: SendKind,
    network: Network,
    engines: Vec<Engine<Simulated>>,
    cancel_at: usize,
    receive_at: usize,
    /// To whom each goes, until it is over.
    sends: Vec<(u32, RequestId)>,
    others: Vec<Other>,
}

/// What a receiver waits for: the message, and what became of it.
struct Other {
    here: u32,
    message: Option<Receive>,
    verdict: Receive,
    is_given_up: bool,
}

impl CancelWorld {
    fn new(
        kind: SendKind,
        weather: Weather,
        moments: (usize, usize),
        victim: Option<(u32, u64)>,
    ) -> CancelWorld {
        let name = format!("{kind:?}, {weather:?}, {moments:?}, rank and step {victim:?}");
        let network = Network::new(RANKS, weather);
        let mut engines = engines(&network, RANKS);
        let others = (1..RANKS)
            .map(|here| {
                let verdict = Receive::post(&mut engines[here as usize], VERDICT, 8);
                Other { here, message: None, verdict, is_given_up: false }
            })
            .collect();
        if let Some((rank, step)) = victim {
            network.kill_at(Peer(rank), step);
        }
        let (cancel_at, receive_at) = moments;
        CancelWorld { name, kind, network, engines, cancel_at, receive_at, sends: Vec::new(), others }
    }

    fn run(mut self) -> Vec<u64> {
        for at in 0..TURNS_MAX {
            let dead: Vec<bool> = (0..RANKS).map(|rank| self.network.is_dead(Peer(rank))).collect();
            for (engine, _) in self.engines.iter_mut().zip(&dead).filter(|(_, is_dead)| !**is_dead) {
                engine.progress();
            }
            let has_sent = dead[0] || self.go_on_sending(at);
            let has_received = (1..RANKS).all(|rank| dead[rank as usize] || self.go_on_receiving(at, rank));
            if has_sent && has_received && self.network.exposures() == 0 {
                return (0..RANKS).map(|rank| self.network.steps(Peer(rank))).collect();
            }
        }
        let states: Vec<String> = self.engines.iter().map(Engine::describe).collect();
        panic!("{} hangs:\n{}", self.name, states.join("\n"));
    }

    fn go_on_sending(&mut self, at: usize) -> bool {
        let CancelWorld { engines, sends, kind, name, .. } = self;
        let engine = &mut engines[0];
        if at == 0 {
            for to in 1..RANKS {
                let sending = send(engine, to, TAG, to as usize, *kind);
                sends.push((to, sending.expect("it waits for its receiver")));
            }
        }
        if at == self.cancel_at {
            sends.iter().for_each(|(_, request)| engine.cancel(*request));
        }
        let mut told = Vec::new();
        sends.retain(|(to, request)| {
            let Some(outcome) = engine.test(*request) else { return true };
            match outcome.failure {
                None => told.push((*to, outcome.cancelled)),
                Some(_) => assert!(engine.is_lost(Peer(*to)), "{name}: {outcome:?}"),
            }
            false
        });
        for (to, is_cancelled) in told {
            // The first byte of another message, which is never the same.
            let kind = SendKind { bytes: 8, mode: Mode::Standard, is_made: false };
            let _request = send(engine, to, VERDICT, if is_cancelled { CANCELLED } else { COMPLETED }, kind);
        }
        at >= self.cancel_at && sends.is_empty()
    }

    fn go_on_receiving(&mut self, at: usize, rank: u32) -> bool {
        let (engine, name) = (&mut self.engines[rank as usize], &self.name);
        let other = &mut self.others[rank as usize - 1];
        if at >= self.receive_at && other.message.is_none() {
            other.message = Some(Receive::post(engine, TAG, self.kind.bytes));
        }
        let has_verdict = other.verdict.look(engine);
        let Some(message) = &mut other.message else { return false };
        let has_ended = message.look(engine);
        if !has_verdict {
            return false;
        }
        let verdict = other.verdict.outcome.clone().expect("it was there a moment ago");
        let is_cancelled =
            verdict.failure.is_none() && other.verdict.room.payload().to_vec() == content(CANCELLED, 8);
        if is_cancelled && !other.is_given_up && !has_ended {
            other.is_given_up = true;
            message.request.into_iter().for_each(|request| engine.cancel(request));
            return false;
        }
        if !has_ended {
            return false;
        }
        let outcome = message.outcome.clone().expect("it has ended");
        let lost = matches!(outcome.failure.as_deref(), Some(Failure::Lost(_)));
        match (verdict.failure.is_none(), is_cancelled) {
            (true, true) => {
                assert!(outcome.cancelled || lost, "{name}: {} got what was cancelled", other.here);
            }
            (true, false) => message.must_have(rank as usize, self.kind.bytes, name),
            // The sender has died, and nobody knows what it would have said.
            (false, _) if !lost => message.must_have(rank as usize, self.kind.bytes, name),
            (false, _) => {}
        }
        true
    }
}

const RANKS: u32 = 3;
const CONTEXT: u32 = 4;
const TAG: i32 = 5;
const VERDICT: i32 = 6;
/// Which bytes say what became of a message.
const CANCELLED: usize = 20;
const COMPLETED: usize = 30;
/// After so many turns nothing is under way in any weather here.
const QUIET: usize = 400;
/// Moments at which something is done in a race.
const MOMENTS: usize = if cfg!(miri) { 3 } else { 12 };
const TURNS_MAX: usize = 5000;
