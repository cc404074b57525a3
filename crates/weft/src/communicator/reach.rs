//! How far failures reach (decision 0013).

use messaging::ErrorRange;

use super::Communicator;

impl Communicator {
    /// Which failures revoke the communicator by themselves, as [`Communicator::revoke`] does.
    #[must_use]
    pub fn error_range(&self) -> ErrorRange {
        self.among_living().inner.standing.range()
    }

    /// Sets which failures revoke the communicator from now on; all members set the same. That stays so over
    /// a recovery in place. Communicators that are made from this one do not begin with it.
    pub fn set_error_range(&self, range: ErrorRange) {
        self.among_living().inner.standing.set_range(range);
        self.standing_of_messages().set_range(range);
    }
}
