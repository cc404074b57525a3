//! Reading what does not come: messages that were asked for in pieces, of which none has come for a while.

use fabric::{Fabric, Pulled};

use super::Engine;
use crate::peers::{Parcel, Then};
use crate::protocol::Kind;
use crate::request::Carrier;

impl<F: Fabric> Engine<F> {
    /// Minds the messages that come in pieces and could be read: the rest of one whose pieces are overdue is read. Returns
    /// how many.
    #[inline(never)]
    pub(super) fn mind_readables(&mut self) -> usize {
        let Some((readable, next, mut rest)) = self.core.overdue() else { return 0 };
        let Some(lane) = self.core.peers.link(readable.from).map(|link| link.lane) else { return 0 };
        let bytes = rest.bytes();
        match self.fabric.pull(lane, readable.exposed, next, &mut rest, readable.receive.ticket()) {
            Pulled::Done => {
                self.core.overtake(&readable, next, bytes);
                let done = Kind::Done { send: readable.send };
                self.core.reply(readable.from, done, Parcel::small(&[]), Then::Nothing);
                self.core.finish_landing(readable.receive);
                self.act_on_notes();
            }
            Pulled::Underway => {
                self.core.overtake(&readable, next, bytes);
                self.core.carried_by(readable.receive, Carrier::Fabric { send: readable.send });
            }
            // Nothing but pieces will bring it.
            Pulled::Refused => self.core.readables.forget(readable.receive),
        }
        1
    }
}
