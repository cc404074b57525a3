//! What happens when processes fail: what the user has asked for, and what a launcher tells of it.

use super::{Config, parse, wrong};
use crate::error::Result;

/// What becomes of a communicator that has lost members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FtMode {
    /// Nothing by itself: the program acknowledges, agrees and shrinks.
    None,
    /// The job ends.
    Abort,
    /// Their places stay, with nobody in them.
    Blank,
    /// A communicator of the others, in their order, comes beside it, or into its place where that is asked
    /// for.
    Shrink,
    /// New processes come into their places.
    Rebuild,
}

impl FtMode {
    /// All modes, in the order of their numbers.
    pub const ALL: [FtMode; 5] =
        [FtMode::None, FtMode::Abort, FtMode::Blank, FtMode::Shrink, FtMode::Rebuild];

    /// By its name in lower case.
    #[must_use]
    pub fn named(name: &str) -> Option<FtMode> {
        FtMode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Its name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FtMode::None => "none",
            FtMode::Abort => "abort",
            FtMode::Blank => "blank",
            FtMode::Shrink => "shrink",
            FtMode::Rebuild => "rebuild",
        }
    }
}

/// What becomes of messages when a communicator recovers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageMode {
    /// Nothing that was sent before is received afterwards; and from a failure until the recovery nobody
    /// sends or receives.
    Reset,
    /// Messages between two living members go on.
    Continue,
}

impl MessageMode {
    /// By its name in lower case.
    #[must_use]
    pub fn named(name: &str) -> Option<MessageMode> {
        [MessageMode::Reset, MessageMode::Continue].into_iter().find(|mode| mode.name() == name)
    }

    /// Its name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MessageMode::Reset => "reset",
            MessageMode::Continue => "cont",
        }
    }
}

/// What happens on an error where no error handler has been set (MPI 5.0 §9.3, §11.8.4).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum InitialErrors {
    /// The job ends.
    #[default]
    Fatal,
    /// The processes concerned end.
    Abort,
    /// The call returns its code.
    Return,
}

impl InitialErrors {
    /// By the name that the standard gives it.
    #[must_use]
    pub fn named(name: &str) -> Option<InitialErrors> {
        [InitialErrors::Fatal, InitialErrors::Abort, InitialErrors::Return]
            .into_iter()
            .find(|errors| errors.name().eq_ignore_ascii_case(name))
    }

    /// The name that the standard gives it, as in the info key `mpi_initial_errhandler`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            InitialErrors::Fatal => "mpi_errors_are_fatal",
            InitialErrors::Abort => "mpi_errors_abort",
            InitialErrors::Return => "mpi_errors_return",
        }
    }
}

/// What a launcher tells a process that it has started in the place of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rebuilt {
    /// How often there was another one before.
    pub incarnation: u32,
    /// The number by which others know it, which is not its rank.
    pub number: u32,
    /// Under what number the others have asked for it.
    pub asked: u64,
    /// What they tell it.
    pub facts: String,
    /// The ranks whose processes have come into the place of others before, and their numbers.
    pub moved: Vec<(u32, u32)>,
}

impl Rebuilt {
    /// What the launcher writes.
    #[must_use]
    pub fn encode(&self) -> String {
        let Rebuilt { incarnation, number, asked, facts, moved } = self;
        let moved: Vec<String> = moved.iter().map(|(rank, number)| format!("{rank}:{number}")).collect();
        format!("{incarnation};{number};{asked:x};{facts};{}", moved.join(","))
    }

    /// `INCARNATION;NUMBER;ASKED;FACTS;RANK:NUMBER,...`
    fn read(text: &str) -> Option<Rebuilt> {
        let mut parts = text.split(';');
        let mut part = || parts.next();
        let (incarnation, number) = (part()?.parse().ok()?, part()?.parse().ok()?);
        let (asked, facts) = (u64::from_str_radix(part()?, 16).ok()?, part()?.to_owned());
        let pair = |pair: &str| {
            let (rank, number) = pair.split_once(':')?;
            Some((rank.parse().ok()?, number.parse().ok()?))
        };
        let moved = part()?.split(',').filter(|pair| !pair.is_empty()).map(pair).collect::<Option<_>>()?;
        Some(Rebuilt { incarnation, number, asked, facts, moved })
    }
}

impl Config {
    /// What happens when processes fail.
    pub(super) fn read_failures(&mut self, read: &dyn Fn(&'static str) -> Option<String>) -> Result<()> {
        if let Some(value) = read("WEFT_FT_MODE") {
            self.ft_mode = FtMode::named(&value)
                .ok_or_else(|| wrong("WEFT_FT_MODE", &value, "none, abort, blank, shrink or rebuild"))?;
        }
        if let Some(value) = read("WEFT_FT_MESSAGES") {
            self.ft_messages = MessageMode::named(&value)
                .ok_or_else(|| wrong("WEFT_FT_MESSAGES", &value, "reset or cont"))?;
        }
        if let Some(value) = read("WEFT_REBUILD_FALLBACK") {
            let known = FtMode::named(&value).filter(|mode| matches!(mode, FtMode::Blank | FtMode::Abort));
            self.rebuild_fallback =
                known.ok_or_else(|| wrong("WEFT_REBUILD_FALLBACK", &value, "blank or abort"))?;
        }
        if let Some(value) = read("WEFT_RESTARTS") {
            self.restarts = parse("WEFT_RESTARTS", &value, "a number")?;
        }
        if let Some(value) = read("WEFT_REBUILT") {
            let known = Rebuilt::read(&value);
            self.rebuilt = Some(known.ok_or_else(|| wrong("WEFT_REBUILT", &value, "what weftrun writes"))?);
        }
        if let Some(value) = read("WEFT_FAILURES_FD") {
            self.failure_log = Some(parse("WEFT_FAILURES_FD", &value, "a descriptor number")?);
        }
        if let Some(value) = read("WEFT_PULSES_FD") {
            self.liveness_descriptors = Some(parse("WEFT_PULSES_FD", &value, "a descriptor number")?);
        }
        if let Some(value) = read("WEFT_WAIT_STATES_FD") {
            self.wait_states = Some(parse("WEFT_WAIT_STATES_FD", &value, "a descriptor number")?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;

    #[test]
    fn who_was_started_again_reads_what_it_was_told() {
        let told = |text: &'static str| read("WEFT_REBUILT", text).map(|config| config.rebuilt.unwrap());
        let rebuilt = told("2;7;ff;1.2.3;1:4,3:6").unwrap();
        assert_eq!((rebuilt.incarnation, rebuilt.number, rebuilt.asked), (2, 7, 255));
        assert_eq!(rebuilt.encode(), "2;7;ff;1.2.3;1:4,3:6");
        assert_eq!((&rebuilt.facts[..], rebuilt.moved), ("1.2.3", vec![(1, 4), (3, 6)]));
        assert_eq!(told("1;4;0;f;").unwrap().moved, []);
        for nonsense in ["1", "1;4;x;f;", "1;4;0;f", "1;4;0;f;1", "1;4;0;f;1:x"] {
            assert!(told(nonsense).unwrap_err().to_string().contains("WEFT_REBUILT"), "{nonsense}");
        }
        assert!(read("WEFT_REBUILD_FALLBACK", "shrink").is_err());
        assert_eq!(read("WEFT_RESTARTS", "3").unwrap().restarts, 3);
    }
}
