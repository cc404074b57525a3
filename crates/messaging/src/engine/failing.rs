//! Failures, revocations and agreements, for who asks the engine (decision 0013).

use std::sync::Arc;

use fabric::{Fabric, FabricError, Fault, Peer};
use recovery::{Contribution, Decision, Failures, Revocation, Standing};

use super::Engine;
use crate::arrivals::Told;
use crate::envelope::Pattern;
use crate::peers::{Parcel, Then};
use crate::protocol::Kind;
use crate::request::{Failure, Outcome, RequestId, State};

impl<F: Fabric> Engine<F> {
    /// Takes the outcome of a request, if it is over, for a caller that will not ask again. A receive from
    /// any source that an unacknowledged failure of a member holds up, and that could go on after an
    /// acknowledgement, ends here as [`Failure::Lost`].
    #[inline]
    pub fn conclude(&mut self, request: RequestId) -> Option<Outcome> {
        if self.core.is_troubled {
            return self.conclude_in_trouble(request);
        }
        self.core.requests.end(request)
    }

    #[cold]
    #[inline(never)]
    fn conclude_in_trouble(&mut self, request: RequestId) -> Option<Outcome> {
        let mut outcome = self.test(request)?;
        if let Some(Failure::Unacknowledged(error)) = outcome.failure.as_deref() {
            outcome = Outcome::failed(Failure::Lost(error.clone()));
            self.cancel(request);
            self.core.requests.remove(request);
        }
        Some(outcome)
    }

    /// A receive that cannot begin, as a request that has failed: its communicator is closed; or its source
    /// is gone and has left nothing for it.
    #[cold]
    #[inline(never)]
    pub(super) fn hindrance(&mut self, pattern: &Pattern, from: Option<Peer>) -> Option<RequestId> {
        let failure = match self.core.closed(pattern.context) {
            None if self.core.matching.find(pattern).is_none() => {
                from.and_then(|peer| self.core.lost(peer)).map(Failure::Lost)
            }
            closed => closed,
        };
        failure.map(|failure| self.failed(failure))
    }

    /// A request that has failed before it began: who asks how it ended learns why.
    #[cold]
    pub(super) fn failed(&mut self, failure: Failure) -> RequestId {
        let request = self.core.requests.insert(State::Queued { to: Peer(0) });
        self.core.requests.complete(request, Outcome::failed(failure));
        request
    }

    /// What is known of failures here.
    #[must_use]
    pub fn failures(&self) -> &Failures {
        &self.core.failures
    }

    /// Why nothing can be done under that context, if so: its communicator is revoked; or it is that of
    /// collective operations, and a member has failed.
    #[inline]
    pub fn closed(&mut self, context: u32) -> Option<Failure> {
        if self.core.is_troubled { self.core.closed(context) } else { None }
    }

    /// Why what `pattern` asks for may never come, though it is not here: its source is gone, a member whose
    /// part the operation needs, or one from whom it might come.
    #[inline]
    pub fn obstacle(&mut self, pattern: &Pattern, from: Option<Peer>) -> Option<Failure> {
        if self.core.is_troubled { self.find_obstacle(pattern, from) } else { None }
    }

    #[cold]
    fn find_obstacle(&mut self, pattern: &Pattern, from: Option<Peer>) -> Option<Failure> {
        match self.core.obstacle(pattern.context, from) {
            None if from.is_none() => self.core.failures.unacknowledged(pattern.context).map(Failure::Lost),
            obstacle => obstacle,
        }
    }

    /// Revokes a communicator: all members learn of it, whoever fails meanwhile, and whatever they do in it
    /// ends.
    pub fn revoke(&mut self, standing: &Arc<Standing>) {
        self.core.revoke(standing, Revocation::Here);
        self.act_on_notes();
        // Where there was no room for all of it: the program may not call again for long.
        for _ in 0..TURNS_TO_TELL {
            if self.core.busy.is_empty() && !self.core.has_notes() {
                return;
            }
            self.progress();
        }
    }

    /// Whether a communicator is known to be revoked, also where that was told before it was there.
    pub fn is_revoked(&mut self, standing: &Standing) -> bool {
        // Who looks, takes over what was told early.
        let _ = self.closed(standing.context());
        standing.is_revoked()
    }

    /// [`Standing::set_strict`] was called for a communicator that may have lost members already.
    pub fn look_at_strict(&mut self, standing: &Standing) {
        self.core.look_at_strict(standing);
        self.act_on_notes();
    }

    /// Another communicator has come into the place of this one: what is under way in it ends, and it hinders
    /// nobody.
    pub fn retire(&mut self, standing: &Standing) {
        self.core.retire(standing);
        self.act_on_notes();
    }

    /// Takes part in the next agreement of the members of a communicator. The answer is its number, by which
    /// [`Engine::take_decision`] is asked; a member takes part in one after the other.
    pub fn agree(&mut self, standing: &Arc<Standing>, mine: Contribution) -> u32 {
        let (failed, mut letters) = (self.core.failures.all(), Vec::new());
        let number = self.core.councils.contribute(standing, mine, &failed, &mut letters);
        self.core.post(letters);
        self.act_on_notes();
        number
    }

    /// Leaves the agreement with that number, if this process has not contributed to it yet: it contributes
    /// nothing, and will not ask how the agreement ends.
    pub fn pass_agreement(&mut self, standing: &Standing, number: u32) {
        let mut letters = Vec::new();
        self.core.councils.pass(standing, number, &mut letters);
        self.core.post(letters);
        self.act_on_notes();
    }

    /// Whether a member has given up: it has brought nothing to an agreement that is decided, so that no
    /// operation of these members can succeed behind which they agree.
    #[must_use]
    pub fn is_given_up(&self, standing: &Standing) -> bool {
        self.core.councils.is_given_up(standing)
    }

    /// How the agreement with that number ended, if it did; it is told once.
    pub fn take_decision(&mut self, standing: &Standing, number: u32) -> Option<Decision> {
        self.core.councils.take_decision(standing, number)
    }

    /// The number of the agreement of a communicator that is the next one, or is under way.
    #[must_use]
    pub fn current_agreement(&self, standing: &Standing) -> u32 {
        self.core.councils.current(standing)
    }

    /// Receives all messages that have arrived, before the failures of their senders are noted.
    pub fn receive_what_is_left(&mut self) {
        let mut in_vain = 0;
        for _ in 0..TURNS_MAX {
            self.core.set_aside();
            in_vain = if self.progress() == 0 { in_vain + 1 } else { 0 };
            if in_vain == TURNS_IN_VAIN {
                return;
            }
        }
    }

    /// Somebody who knows it says that the process has ended. What it has sent is to be received first:
    /// [`Engine::receive_what_is_left`]. Where no launcher sees to it that it has, one that lives all the
    /// same, and was only out of the reach of another, hears of it last of all.
    pub fn bury(&mut self, peer: Peer, error: FabricError) {
        if !self.core.peers.knows(peer) || self.core.lost(peer).is_some() {
            return;
        }
        if self.core.notices.is_telling() && self.core.peers.link(peer).is_some() {
            self.core.reply(peer, Kind::Failed { who: peer }, Parcel::small(&[]), Then::Nothing);
            self.act_on_notes();
        }
        if !self.fabric.bury(peer, error.clone()) {
            self.core.lose(peer, error, Told::Here);
        }
    }

    /// From now on this process, which has that number, tells others of failures: nobody else tells all.
    pub fn tell_of_failures(&mut self, here: Peer) {
        self.core.notices.begin(here);
    }

    /// What others have told of failures.
    #[inline]
    pub(super) fn act_on_notices(&mut self) -> usize {
        if self.core.notices.is_any_heard() { self.believe() } else { 0 }
    }

    #[cold]
    fn believe(&mut self) -> usize {
        let mut believed = 0;
        // What is received meanwhile brings more of them, one turn within the other.
        self.core.notices.set_acting(true);
        while let Some((from, who)) = self.core.notices.take_heard() {
            if self.core.notices.is_here(who) {
                self.directory.taken_for_dead(from);
            } else if self.core.peers.knows(who) && self.core.lost(who).is_none() {
                self.receive_what_is_left();
                let what = format!("process {} has ended\nProcess {} has told it.", who.0, from.0);
                self.bury(who, FabricError { fabric: "weft", fault: Fault::Died, what });
            }
            believed += 1;
        }
        self.core.notices.set_acting(false);
        believed
    }

    /// Whether the process is lost.
    pub fn is_lost(&mut self, peer: Peer) -> bool {
        self.core.lost(peer).is_some()
    }
}

/// A turn may look at some ways only; so many look at all.
const TURNS_IN_VAIN: u32 = 64;
/// The living may always have something to say.
const TURNS_MAX: u32 = 4096;

/// Who revokes makes so many turns at most until all are told, where there is no room for it at first.
const TURNS_TO_TELL: u32 = 64;

#[cfg(test)]
mod tests {
    use fabric::simulated::{Network, Weather};
    use fabric::{Heap, Payload, Sink as _};
    use recovery::Rank;

    use super::*;
    use crate::engine::{EveryoneHere, Settings};
    use crate::envelope::Envelope;
    use crate::request::Mode;

    #[test]
    fn who_has_not_taken_what_came_keeps_nothing_else_from_being_received() {
        let network = Network::new(2, Weather::fair());
        let engine =
            |at| Engine::new(network.endpoint(Peer(at)), 2, Box::new(EveryoneHere), Settings::default());
        let (mut receiver, mut sender) = (engine(0), engine(1));
        let room = Heap::new(8);
        let pattern = Pattern { context: 0, source: Some(Rank(1)), tag: Some(1) };
        let ticket =
            receiver.receive_awaited(pattern, Some(Peer(1)), room.memory()).expect("nothing is here");
        let envelope = Envelope { context: 0, source: Rank(1), tag: 1 };
        static SENT: [[u8; 8]; 2] = [[5; 8], [6; 8]];
        for bytes in &SENT {
            let payload = Payload::from(&bytes[..]);
            let _ = sender.send(Peer(0), envelope, payload, Mode::Standard).expect("it is known");
        }
        while !receiver.core.enough() {
            sender.progress();
            receiver.progress();
        }
        receiver.receive_what_is_left();
        assert!(!receiver.core.enough(), "turns still end before they have looked at all");
        assert!(receiver.probe(&pattern).is_some(), "the second message was left where it was");
        let outcome = receiver.take_awaited(ticket).expect("it has come");
        assert_eq!((outcome.failure, room.payload().to_vec()), (None, vec![5; 8]));
    }

    #[derive(Clone, Default)]
    struct EndLog(Arc<std::sync::Mutex<Vec<Peer>>>);

    impl crate::Directory for EndLog {
        fn address(&mut self, peer: Peer) -> Result<Vec<u8>, FabricError> {
            EveryoneHere.address(peer)
        }

        fn taken_for_dead(&mut self, by: Peer) {
            self.0.lock().expect("nobody has panicked").push(by);
        }
    }

    /// Six processes, of which 5 has a way to 2; and what comes of it that 3 loses 2, which lives, for that
    /// reason: who of the others knows of it, and who has told 2 that it is to end.
    fn loses(fault: Fault) -> (Vec<u32>, Vec<Peer>) {
        let network = Network::new(6, Weather::fair());
        let ends: Vec<EndLog> = (0..6).map(|_| EndLog::default()).collect();
        let mut all: Vec<_> = (0..6)
            .map(|at| {
                let directory = Box::new(ends[at as usize].clone());
                let mut engine = Engine::new(network.endpoint(Peer(at)), 6, directory, Settings::default());
                engine.tell_of_failures(Peer(at));
                engine
            })
            .collect();
        let envelope = Envelope { context: 0, source: Rank(5), tag: 1 };
        static SENT: [u8; 8] = [5; 8];
        let _ =
            all[5].send(Peer(2), envelope, Payload::from(&SENT[..]), Mode::Standard).expect("it is known");
        all[3].bury(Peer(2), FabricError { fabric: "test", fault, what: String::new() });
        for _ in 0..if cfg!(miri) { 30 } else { 1000 } {
            for engine in &mut all {
                engine.progress();
            }
        }
        let told = |at: usize| ends[at].0.lock().expect("nobody has panicked").clone();
        assert!((0..6).all(|at| at == 2 || told(at).is_empty()), "one that nobody has lost is to end");
        ((0..6).filter(|&at| at != 2 && all[at as usize].is_lost(Peer(2))).collect(), told(2))
    }

    #[test]
    fn g1_one_tells_all_of_a_failure_that_it_alone_has_seen() {
        assert_eq!(loses(Fault::Died), (vec![0, 1, 3, 4, 5], vec![Peer(5)]));
    }

    #[test]
    fn what_is_out_of_the_reach_of_one_alone_is_no_death() {
        for fault in [Fault::Resources, Fault::System, Fault::Unreachable] {
            assert_eq!(loses(fault), (vec![3], vec![]));
        }
    }

    #[test]
    fn a_failure_that_is_known_revokes_nothing() {
        let network = Network::new(4, Weather::fair());
        let mut engine =
            Engine::new(network.endpoint(Peer(0)), 4, Box::new(EveryoneHere), Settings::default());
        let failures = engine.failures().clone();
        let watch = |context: u32, members: &[u32]| {
            let members = Arc::new(recovery::MemberList(members.to_vec()));
            failures.watch(context, context.into(), Rank(0), members)
        };
        let died = |who| FabricError { fabric: "test", fault: Fault::Died, what: format!("{who} died") };
        let (universe, group) = (watch(4, &[0, 1]), watch(6, &[0, 2]));
        engine.core.lose(Peer(2), died(2), Told::Here);
        universe.set_range(crate::ErrorRange::Universe);
        group.set_range(crate::ErrorRange::Group);
        // Somebody else tells it, or another way has ended.
        engine.core.lose(Peer(2), died(2), Told::ByFabric);
        engine.bury(Peer(2), died(2));
        assert!(!universe.is_revoked() && !group.is_revoked());
        engine.core.lose(Peer(3), died(3), Told::Here);
        assert!(universe.is_revoked() && !group.is_revoked());
    }
}
