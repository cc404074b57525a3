//! The tree of this host, as hwloc sees it.

use hwloc::NoAnswer;
use thiserror::Error;

use super::{Machine, NotAMachine};

/// Why hwloc gives no tree of this host.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unseen {
    /// There is no hwloc, or it does not know.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// hwloc's answer does not describe a machine.
    #[error("what hwloc says makes no sense: {0}")]
    Nonsense(#[from] NotAMachine),
}

impl Unseen {
    /// What the user can do about the error.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Unseen::NoAnswer(why) => why.remedy(),
            Unseen::Nonsense(_) => "describe the machine by WEFT_MACHINE=FILE.xml, or as pack:2 core:8 pu:1",
        }
    }
}

pub(super) fn read() -> Result<Machine, Unseen> {
    Ok(Machine::decode(&hwloc::describe()?)?)
}
