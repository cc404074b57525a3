//! What can go wrong between a process and its process manager, and which keys all managers take.

/// Why the process manager did not do what was asked. The second line tells what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The connection ended or broke.
    #[error(
        "rank {rank} lost its process manager during `{request}`: {reason}\n\
         the launcher has ended, or ended the job; look at its messages and at the first rank that failed"
    )]
    Lost {
        /// This process's rank.
        rank: u32,
        /// What was under way.
        request: &'static str,
        /// What the system said.
        reason: String,
    },
    /// The answer makes no sense.
    #[error(
        "rank {rank} got an answer to `{request}` that it does not understand: {answer}\n\
         the launcher speaks another dialect than it should; try another protocol with WEFT_PROCESS_MANAGER, or report \
         this line"
    )]
    Garbled {
        /// This process's rank.
        rank: u32,
        /// What was asked.
        request: &'static str,
        /// The start of the answer.
        answer: String,
    },
    /// The server understood, and said no.
    #[error(
        "the process manager refused `{request}` of rank {rank}: {answer}\n\
         a key can be put once, and the server's memory is bounded; if neither is the cause, report this line"
    )]
    Refused {
        /// This process's rank.
        rank: u32,
        /// What was asked.
        request: &'static str,
        /// The start of the answer.
        answer: String,
    },
    /// A process of the job has ended before it joined, so the fence cannot open.
    #[error(
        "{who} has ended on {host} before it was through MPI_Init, and the job cannot start without it\n\
         what it wrote, or the exit status that the launcher tells, may say why; every process of a job must call \
         MPI_Init or MPI_Session_init"
    )]
    Ended {
        /// Its rank; where that is not known, what else tells it.
        who: String,
        /// Its host.
        host: String,
    },
    /// The key cannot be used with every launcher.
    #[error(
        "`{key}` cannot be a key of the process manager\n\
         use 1 to {KEY_BYTES_MAX} letters, digits, `-`, `_` or `.`, not starting with PMI_"
    )]
    BadKey {
        /// The key as given.
        key: String,
    },
    /// A value was put by something that is not this library, or only in part.
    #[error(
        "rank {rank} found a damaged value under the key `{key}`\n\
         all ranks must run the same version of this library; check which one each node loads"
    )]
    Damaged {
        /// This process's rank.
        rank: u32,
        /// The key asked for.
        key: String,
    },
}

impl ExchangeError {
    /// The conversation broke.
    pub(crate) fn lost(rank: u32, request: &'static str, reason: impl ToString) -> ExchangeError {
        ExchangeError::Lost { rank, request, reason: reason.to_string() }
    }
}

pub(crate) fn check_key(key: &str) -> Result<(), ExchangeError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let length_fits = (1..=KEY_BYTES_MAX).contains(&key.len());
    if length_fits && key.bytes().all(plain) && !key.starts_with("PMI_") {
        return Ok(());
    }
    Err(ExchangeError::BadKey { key: key.to_owned() })
}

/// The key of `owner` as a server knows it, which has one set of keys for the whole job: the rank that put it
/// is appended.
pub(crate) fn job_key(key: &str, owner: u32) -> String {
    format!("{key}-{owner}")
}

/// Servers take keys of 63 bytes; the owner's rank and the number of a chunk must still fit behind ours.
pub(crate) const KEY_BYTES_MAX: usize = JOB_KEY_BYTES_MAX - OWNER_SUFFIX_BYTES_MAX;

/// The longest key with its owner.
pub(crate) const JOB_KEY_BYTES_MAX: usize = 63 - CHUNK_SUFFIX_BYTES_MAX;

/// `-` and five digits.
const CHUNK_SUFFIX_BYTES_MAX: usize = 6;

/// `-` and ten digits.
const OWNER_SUFFIX_BYTES_MAX: usize = 11;

/// Values of 1023 bytes are known to fail where 1024 are announced.
pub(crate) const TEXT_BYTES_MAX: usize = 900;
