//! A machine that somebody describes: by a file of hwloc's, or by a few words.

use std::io::Read as _;
use std::path::Path;

use thiserror::Error;

use super::{Machine, NotAMachine, TooMuch};

/// A description that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Undescribed {
    /// The file cannot be read.
    #[error("{file}: {cause}")]
    File {
        /// Its name.
        file: String,
        /// What the system said.
        cause: String,
    },
    /// The content of the file does not describe a machine.
    #[error("{file}: {cause}")]
    Content {
        /// Its name.
        file: String,
        /// What is wrong with it.
        cause: NotAMachine,
    },
    /// The words are no machine.
    #[error("{text:?} describes no machine: {cause}")]
    Words {
        /// The words.
        text: String,
        /// What is wrong with them.
        cause: NotAMachine,
    },
}

impl Undescribed {
    /// What the user can do about the error.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        "name a file that lstopo has written (lstopo FILE.xml), or say what there is, as: pack:2 numa:2 l3:4 core:8 pu:1"
    }
}

pub(super) fn read(text: &str) -> Result<Machine, Undescribed> {
    if !text.ends_with(".xml") && !Path::new(text).is_file() {
        return Machine::from_synthetic(text)
            .map_err(|cause| Undescribed::Words { text: text.chars().take(SHOWN).collect(), cause });
    }
    let refused =
        |cause: std::io::Error| Undescribed::File { file: text.to_owned(), cause: cause.to_string() };
    let file = std::fs::File::open(text).map_err(refused)?;
    let mut content = String::new();
    file.take(TooMuch::Bytes.most() as u64 + 1).read_to_string(&mut content).map_err(refused)?;
    Machine::from_xml(&content).map_err(|cause| Undescribed::Content { file: text.to_owned(), cause })
}

/// As much of a wrong description as fits a line.
const SHOWN: usize = 80;
