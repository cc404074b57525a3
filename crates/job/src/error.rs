//! Errors as a person meets them: what happened, where, with whom, and what to do.

use std::fmt;
use std::ops::Deref;

use fabric::{FabricError, Fault};

/// The result of an operation on the message-passing library.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. `Display` gives one line that names the operation, the place and the partner, and where
/// there is one, a second line with the remedy.
///
/// One pointer, so that a result on the way of a message travels in a register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    told: Box<Told>,
}

/// What an [`Error`] says; its fields are read through it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// The kind of error (MPI 5.0 §9.4).
    pub class: Class,
    /// What happened, in one sentence without full stop.
    pub what: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// The kinds of errors, by the names that MPI gives them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Class {
    Buffer,
    Count,
    Type,
    Tag,
    Communicator,
    Rank,
    Request,
    Root,
    Group,
    Operator,
    Topology,
    Dimensions,
    Argument,
    Truncated,
    Other,
    Internal,
    InStatus,
    Keyval,
    NoMemory,
    Info,
    InfoKey,
    InfoValue,
    InfoNoKey,
    Unsupported,
    Window,
    File,
    Session,
    ErrorHandler,
    /// A process is gone that the operation needs.
    ProcFailed,
    /// The communicator is revoked.
    Revoked,
    /// A process is gone that the message might have come from; the receive goes on.
    ProcFailedPending,
    ValueTooLarge,
    Pending,
    Spawn,
    Abi,
    NotSame,
    Base,
    Size,
    Displacement,
    Assertion,
    RmaSync,
    RmaAttach,
    RmaRange,
    LockType,
    RmaShared,
    RmaFlavor,
    Datarep,
    /// What a function of the program returned when it was called back.
    Callback(i32),
}

impl Error {
    /// An error of that class.
    #[cold]
    pub fn new(class: Class, what: impl Into<String>) -> Error {
        Error { told: Box::new(Told { class, what: what.into(), remedy: None }) }
    }

    /// An error of that class from a text whose first line says what happened, and whose second what to do.
    pub fn of_text(class: Class, text: &str) -> Error {
        match text.split_once('\n') {
            Some((what, remedy)) => Error::new(class, what).remedy(remedy.trim()),
            None => Error::new(class, text),
        }
    }

    /// This error with what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Error {
        self.told.remedy = Some(remedy.into());
        self
    }

    /// This error as one of another class.
    #[must_use]
    pub fn of_class(mut self, class: Class) -> Error {
        self.told.class = class;
        self
    }

    /// This error, told in the context of an operation: `place: what`.
    #[must_use]
    pub fn during(mut self, place: impl fmt::Display) -> Error {
        self.told.what = format!("{place}: {}", self.what);
        self
    }
}

impl Deref for Error {
    type Target = Told;
    fn deref(&self) -> &Told {
        &self.told
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n  {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl From<Box<FabricError>> for Error {
    fn from(error: Box<FabricError>) -> Error {
        Error::from(*error)
    }
}

impl From<FabricError> for Error {
    fn from(error: FabricError) -> Error {
        let class = match error.fault {
            Fault::Died | Fault::Protocol => Class::ProcFailed,
            Fault::Resources => Class::NoMemory,
            Fault::Unreachable | Fault::BadAddress | Fault::System => Class::Other,
        };
        Error::of_text(class, &error.what).during(error.fabric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_stands_on_a_line_of_its_own() {
        let what = "cannot reach host b\nopen the ports".to_owned();
        let error = Error::from(FabricError { fabric: "tcp", fault: Fault::Unreachable, what });
        assert_eq!(
            error.during("MPI_Send").to_string(),
            "MPI_Send: tcp: cannot reach host b\n  open the ports"
        );
    }
}
