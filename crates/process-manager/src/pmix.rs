//! PMIx, through its own library: what goes over the wire is private to that library and its server.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use pmix_sys::{JobNumber, PmixError};

use crate::error::ExchangeError;
use crate::siblings::Waiting;
use crate::start::{StartError, Variables};

/// A part in a job of a PMIx server.
#[derive(Debug)]
pub(crate) struct PmixClient {
    client: pmix_sys::Client,
    size: u32,
}

impl PmixClient {
    /// Joins with the first of these libraries that can be loaded.
    pub(crate) fn start(libraries: &[OsString], namespace: &str) -> Result<PmixClient, StartError> {
        let mut tried = Vec::new();
        for name in libraries {
            match pmix_sys::Client::join(name) {
                Ok(client) => return Ok(PmixClient::enter(client)?),
                Err(error @ PmixError::NotLoaded { .. }) => tried.push(error.to_string()),
                Err(error) => return Err(failed(UNKNOWN_RANK, error).into()),
            }
        }
        Err(StartError::NoPmixLibrary { namespace: namespace.to_owned(), tried: tried.join("; ") })
    }

    fn enter(client: pmix_sys::Client) -> Result<PmixClient, ExchangeError> {
        let rank = client.rank();
        let size = client.job_number(JobNumber::Size).map_err(|error| failed(rank, error))?;
        match size {
            Some(size) if rank < size => Ok(PmixClient { client, size }),
            _ => Err(ExchangeError::Garbled {
                rank,
                request: "PMIx_Get",
                answer: format!("rank {rank} of a job of {size:?}"),
            }),
        }
    }

    pub(crate) fn rank(&self) -> u32 {
        self.client.rank()
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn job(&self) -> String {
        self.client.namespace()
    }

    pub(crate) fn put(&self, key: &str, value: &[u8]) -> Result<(), ExchangeError> {
        self.client.put(key, value).map_err(|error| failed(self.rank(), error))
    }

    pub(crate) fn get(&self, owner: u32, key: &str) -> Result<Option<Vec<u8>>, ExchangeError> {
        self.client.get(owner, key).map_err(|error| failed(self.rank(), error))
    }

    /// Whether one of a few processes all over the job says so. See [`crate::Manager::is_announced`].
    pub(crate) fn is_said(&self, key: &str, yes: &[u8]) -> Result<bool, ExchangeError> {
        for owner in sample(self.size) {
            if self.get(owner, key)?.is_some_and(|said| said == yes) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn local_size(&self) -> Result<Option<u32>, ExchangeError> {
        self.client.job_number(JobNumber::OnThisNode).map_err(|error| failed(self.rank(), error))
    }

    pub(crate) fn fence(&self, waiting: &mut Waiting<'_>) -> Result<(), ExchangeError> {
        let fence = self.client.fence().map_err(|error| failed(self.rank(), error))?;
        loop {
            match fence.wait(waiting.left()) {
                Some(passed) => return passed.map_err(|error| failed(self.rank(), error)),
                None => waiting.look()?,
            }
        }
    }

    pub(crate) fn node_map(&self) -> Result<Option<String>, ExchangeError> {
        self.client.node_map().map_err(|error| failed(self.rank(), error))
    }

    pub(crate) fn appnum(&self) -> Result<Option<u32>, ExchangeError> {
        self.client.job_number(JobNumber::Program).map_err(|error| failed(self.rank(), error))
    }

    pub(crate) fn universe_size(&self) -> Result<Option<u32>, ExchangeError> {
        self.client.job_number(JobNumber::Universe).map_err(|error| failed(self.rank(), error))
    }

    pub(crate) fn abort(&self, code: i32) -> Result<(), ExchangeError> {
        self.client.abort(code).map_err(|error| failed(self.rank(), error))
    }

    pub(crate) fn finalize(&self) -> Result<(), ExchangeError> {
        self.client.finalize().map_err(|error| failed(self.rank(), error))
    }

    pub(crate) fn lost(&self) -> bool {
        self.client.lost()
    }
}

/// The libraries to try, in order: the one that the user names and no other; else the one that belongs to the
/// launcher, where it tells its place, since a library of another version makes some servers grumble; else
/// what the loader finds.
pub(crate) fn libraries(named: Option<&OsStr>, variables: Variables<'_>) -> Vec<OsString> {
    if let Some(named) = named {
        return vec![named.to_owned()];
    }
    let beside = PREFIX_VARIABLES.iter().filter_map(|name| variables(name)).flat_map(|prefix| {
        FOLDERS.iter().map(move |folder| PathBuf::from(&prefix).join(folder).join(SONAME).into_os_string())
    });
    beside.filter(|path| std::path::Path::new(path).exists()).chain([OsString::from(SONAME)]).collect()
}

fn failed(rank: u32, error: PmixError) -> ExchangeError {
    match error {
        PmixError::Refused { call, code, .. } if LOST_CODES.contains(&code) => {
            ExchangeError::lost(rank, call, error)
        }
        PmixError::Refused { call, .. } => {
            ExchangeError::Refused { rank, request: call, answer: error.to_string() }
        }
        _ => ExchangeError::Refused { rank, request: "PMIx", answer: error.to_string() },
    }
}

/// The first, the last and two between them, each once.
fn sample(size: u32) -> Vec<u32> {
    let mut ranks = vec![0, size / 3, size - size.div_ceil(3), size - 1];
    ranks.dedup();
    ranks
}

/// What the library is called, in all versions whose interface is the one we use.
pub(crate) const SONAME: &str = "libpmix.so.2";

/// Where a launcher tells that it is installed.
const PREFIX_VARIABLES: [&str; 3] = ["PMIX_PREFIX", "PRTE_PREFIX", "OPAL_PREFIX"];
const FOLDERS: [&str; 3] = ["lib", "lib64", "lib/openmpi"];

const LOST_CODES: [i32; 2] =
    [pmix_sys::bindings::PMIX_ERR_LOST_CONNECTION, pmix_sys::bindings::PMIX_ERR_UNREACH];

/// Before the server has told.
const UNKNOWN_RANK: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_each_rank_once_and_the_first_and_the_last() {
        for size in 1..1000 {
            let ranks = sample(size);
            assert!(ranks.windows(2).all(|pair| pair[0] < pair[1]), "{ranks:?} of {size}");
            assert_eq!((ranks[0], *ranks.last().unwrap()), (0, size - 1));
            assert!(ranks.len() == 4 || ranks.len() as u32 == size, "{ranks:?} of {size}");
        }
    }

    #[test]
    fn a_library_that_the_user_names_is_the_only_one() {
        let names = libraries(Some(OsStr::new("/opt/libpmix.so.2")), &|_| Some("/usr".to_owned()));
        assert_eq!(names, ["/opt/libpmix.so.2"]);
    }

    #[test]
    fn the_launchers_own_library_comes_first_where_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lib/openmpi");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join(SONAME), b"").unwrap();
        let prefix = folder.path().display().to_string();
        let names = libraries(None, &|name| (name == "OPAL_PREFIX").then(|| prefix.clone()));
        assert_eq!(names, [place.join(SONAME).into_os_string(), OsString::from(SONAME)]);
        assert_eq!(libraries(None, &|_| None), [OsString::from(SONAME)]);
    }

    #[test]
    fn a_library_that_is_absent_is_an_error_that_names_it() {
        let names = [OsString::from("/nowhere/libpmix.so.2"), OsString::from("libabsent-pmix.so.2")];
        let error = PmixClient::start(&names, "prterun-n1-77@1").unwrap_err().to_string();
        for told in ["/nowhere/libpmix.so.2", "libabsent-pmix.so.2", "WEFT_LIBPMIX", "prterun-n1-77@1"] {
            assert!(error.contains(told), "{told} in {error}");
        }
    }
}
