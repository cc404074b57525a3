//! What matching looks at: source, tag, context.

use recovery::Rank;

/// Source, tag and context of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Envelope {
    /// Keeps one communicator's traffic apart from another's.
    pub context: u32,
    /// The sender's place in the communicator's group.
    pub source: Rank,
    /// The tag; for user messages not negative.
    pub tag: i32,
}

/// What a receive asks for. `None` is a wildcard (`MPI_ANY_SOURCE`, `MPI_ANY_TAG`); contexts have none. Any
/// tag is any that a user may give: the negative ones are for the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// The communicator's context.
    pub context: u32,
    /// The source, or any.
    pub source: Option<Rank>,
    /// The tag, or any that is not negative.
    pub tag: Option<i32>,
}

impl Pattern {
    /// Whether a message with that envelope is asked for.
    #[inline]
    #[must_use]
    pub fn matches(&self, envelope: &Envelope) -> bool {
        self.context == envelope.context
            && self.source.is_none_or(|source| source == envelope.source)
            && self.tag.map_or(envelope.tag >= 0, |tag| tag == envelope.tag)
    }

    /// The one envelope it asks for, unless it has a wildcard.
    #[inline]
    pub(crate) fn exact(&self) -> Option<Envelope> {
        Some(Envelope { context: self.context, source: self.source?, tag: self.tag? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stop_at_the_context_and_at_tags_of_the_library() {
        let any = Pattern { context: 4, source: None, tag: None };
        let envelope = Envelope { context: 4, source: Rank(1), tag: 7 };
        assert!(any.matches(&envelope));
        assert!(!any.matches(&Envelope { context: 5, ..envelope }));
        assert!(!Pattern { tag: Some(8), ..any }.matches(&envelope));
        assert!(!Pattern { source: Some(Rank(2)), ..any }.matches(&envelope));
        let own = Envelope { tag: -7, ..envelope };
        assert!(!any.matches(&own) && Pattern { tag: Some(-7), ..any }.matches(&own));
    }
}
