//! Requests that are made of several messages.

use fabric::{Fabric, FabricError, Payload, Peer};

use super::{Engine, Receiving, Sending};
use crate::envelope::{Envelope, Pattern};
use crate::request::{Failure, Mode, RequestId, State};
use crate::scattered::Target;

impl<F: Fabric> Engine<F> {
    /// A request that ends when its caller has called [`Engine::fulfil`] and all its parts are over: for
    /// operations that are made of several messages.
    pub fn promise(&mut self) -> RequestId {
        self.core.requests.insert(State::Gathering { left: 1, failure: None })
    }

    /// Says that a request of [`Engine::promise`] gets no more parts.
    pub fn fulfil(&mut self, request: RequestId) {
        self.core.requests.end_of_part(request, None);
    }

    /// Says why a request of [`Engine::promise`] will have failed when it is over, if nothing has failed
    /// before.
    pub fn fail(&mut self, request: RequestId, failure: Failure) {
        self.core.requests.note_failure(request, Some(Box::new(failure)));
    }

    /// Sends as a part of a request of [`Engine::promise`].
    ///
    /// # Errors
    /// When the peer cannot be reached or is gone. The request `whole` goes on without this part then.
    pub fn send_part(
        &mut self,
        whole: RequestId,
        to: Peer,
        envelope: Envelope,
        payload: Payload<'static>,
    ) -> Result<(), Box<FabricError>> {
        if let Sending::Pending(part) = self.send(to, envelope, payload, Mode::Standard)? {
            self.core.requests.join(part, whole);
        }
        Ok(())
    }

    /// Receives as a part of a request of [`Engine::promise`]; the name of the part, to be asked for by
    /// [`Engine::is_over`], where it goes on.
    pub fn receive_part(
        &mut self,
        whole: RequestId,
        pattern: Pattern,
        from: Option<Peer>,
        target: impl Into<Target>,
    ) -> Option<RequestId> {
        match self.receive(pattern, from, target) {
            Receiving::Done(outcome) => {
                self.core.requests.note_failure(whole, outcome.failure);
                None
            }
            Receiving::Pending(part) => {
                self.core.requests.join(part, whole);
                Some(part)
            }
        }
    }

    /// Whether a part is over, and so gone.
    pub fn is_over(&mut self, part: RequestId) -> bool {
        self.core.requests.find(part).is_none()
    }
}
