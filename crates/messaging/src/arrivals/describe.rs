//! What a person reads of the state of all requests.

use std::fmt::Write as _;

use super::Core;
use crate::awaited::Awaited;
use crate::envelope::Pattern;
use crate::request::State;

impl<L> Core<L> {
    /// Every request that is not over, one a line.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        if let Awaited::Posted { pattern, .. } = &self.awaited {
            let _ = writeln!(text, "  waited for: {}", describe_posted(pattern));
        }
        for (id, state) in self.requests.pending() {
            let line = match state {
                State::Queued { to } => format!("send to process {}: waits for room", to.0),
                State::AwaitingReceiver { to, source, retracted: None, .. } => {
                    format!("send to process {}: {} bytes wait for the receiver", to.0, source.bytes())
                }
                State::AwaitingReceiver { to, .. } => {
                    format!("send to process {}: it is taken back, if no receive has matched it", to.0)
                }
                State::Posted { pattern, .. } => describe_posted(pattern),
                State::Landing { source, tag, sent_bytes, .. }
                | State::Following { source, tag, sent_bytes, .. } => {
                    format!("receive from rank {} tag {tag}: {sent_bytes} bytes are on the way", source.0)
                }
                State::Gathering { left, .. } => {
                    format!("an operation of several messages: {left} are not over")
                }
                State::Received(_) | State::Done(_) => continue,
            };
            let _ = writeln!(text, "  request {}: {line}", id.index);
        }
        let _ = writeln!(
            text,
            "  {} unexpected messages ({} bytes), {} peers busy, {} replies to send",
            self.matching.unexpected(),
            self.matching.kept_bytes,
            self.busy.len(),
            self.outbox.len(),
        );
        text
    }
}

/// A receive that nothing has matched, in words.
fn describe_posted(pattern: &Pattern) -> String {
    format!(
        "receive in context {} from {} tag {}: nothing has come",
        pattern.context,
        pattern.source.map_or("any source".into(), |rank| format!("rank {}", rank.0)),
        pattern.tag.map_or("any".into(), |tag| tag.to_string()),
    )
}
