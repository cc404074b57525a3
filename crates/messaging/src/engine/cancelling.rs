//! Cancelling (MPI 5.0 §3.8.4). A receive that nothing has matched ends here. A send ends here while its
//! message has not left; a message that waits for its receiver is asked back, and the answer says which came
//! first, that or a receive.

use fabric::{Fabric, Peer};

use super::Engine;
use crate::arrivals::Core;
use crate::awaited::Ticket;
use crate::peers::{Outgoing, Then};
use crate::protocol::Kind;
use crate::request::{Outcome, RequestId, Retracted, State};

impl<F: Fabric> Engine<F> {
    /// Whom a send asks its message back from, while no answer has come.
    #[must_use]
    pub fn asked_back_from(&mut self, request: RequestId) -> Option<Peer> {
        match self.core.requests.find(request) {
            Some(State::AwaitingReceiver { to, retracted: Some(Retracted::Cancelled), .. }) => Some(*to),
            _ => None,
        }
    }

    /// Cancels an operation whose message nobody has matched: its outcome says so, and nobody receives the
    /// message. Others go on as if nothing was said, and so does a send that need not wait for its receiver
    /// and whose message has left.
    pub fn cancel(&mut self, request: RequestId) {
        match self.core.requests.find(request) {
            Some(State::Posted { pattern, .. }) => {
                let pattern = *pattern;
                if self.core.matching.withdraw(&pattern, request) {
                    self.core.requests.complete(request, Outcome::cancelled());
                }
            }
            Some(State::Queued { .. } | State::AwaitingReceiver { retracted: None, .. }) => {
                self.core.cancel_send(request);
                if self.core.has_notes() {
                    self.act_on_notes();
                }
            }
            _ => {}
        }
    }

    /// Cancels a receive of [`Engine::receive_awaited`] that no message has matched: its outcome says so (MPI
    /// 5.0 §3.8.4). A receive that has matched goes on as if nothing was said. In both cases its ticket must
    /// be waited for to its end.
    #[cold]
    pub fn cancel_awaited(&mut self, ticket: Ticket) {
        match ticket {
            Ticket::Request(request) => self.cancel(request),
            Ticket::Awaited if self.core.awaited.is_posted() => self.core.end_awaited(Outcome::cancelled()),
            Ticket::Awaited => {}
        }
    }
}

impl<L> Core<L> {
    #[cold]
    fn cancel_send(&mut self, send: RequestId) {
        let (to, exposed) = match self.requests.find(send) {
            Some(State::Queued { to }) => (*to, None),
            Some(State::AwaitingReceiver { to, exposed, .. }) => (*to, Some(*exposed)),
            _ => return,
        };
        let queue = self.peers.link(to).map(|link| &mut link.queue);
        let found = queue.and_then(|queue| Some((queue.iter().position(|one| announces(one, send))?, queue)));
        let Some((at, queue)) = found else {
            self.take_back_for(send, || Retracted::Cancelled);
            return;
        };
        if queue[at].taken.is_none() {
            queue.remove(at);
            if queue.is_empty() {
                self.busy.retain(|&busy| busy != to);
            }
            if let Some(exposed) = exposed {
                self.deregister_memory(to, exposed);
            }
            return self.requests.complete(send, Outcome::cancelled());
        }
        // Its beginning is on the way, and the question follows it.
        if let Then::AwaitReceiver(_, context, tag) = queue[at].then {
            queue[at].then = Then::AwaitAnswer(send, context, tag);
            self.ask_back(to, send);
        } else {
            self.take_back_for(send, || Retracted::Cancelled);
        }
    }
}

/// Whether that is the message of a send by which its receiver learns of it.
fn announces(outgoing: &Outgoing, send: RequestId) -> bool {
    match Kind::of(&outgoing.header) {
        Some(Kind::Request(_, by) | Kind::Synchronous(_, by)) => by == send,
        Some(Kind::Eager(_) | Kind::Signed(..)) => outgoing.then == Then::Complete(send),
        _ => false,
    }
}
