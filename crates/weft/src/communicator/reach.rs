//! How far failures reach (decision 0013).

use messaging::ErrorRange;

use super::Communicator;

impl Communicator {
    /// Which failures revoke it by themselves, as [`Communicator::revoke`] does.
    #[must_use]
    pub fn error_range(&self) -> ErrorRange {
        self.among_living().inner.standing.range()
    }

    /// Says which failures revoke it from now on; all members say the same. It stays so over a recovery in
    /// place. Those that are made from it do not begin with that.
    pub fn set_error_range(&self, range: ErrorRange) {
        self.among_living().inner.standing.set_range(range);
        self.standing_of_messages().set_range(range);
    }
}
