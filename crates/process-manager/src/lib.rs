//! Who am I, who else is there: what a process learns from, and tells to, the others before it can send messages.
//!
//! A launcher starts the processes of a job and runs a small key-value service for them. Each process puts its
//! address under a key, all meet in a fence, and then each can get the addresses of the others. [`Manager`] is
//! that service as one process sees it: PMI-1 over a socket (weftrun, Hydra, `srun --mpi=pmi2`), or, without any
//! launcher, a job of one. [`server`] is the other end, as a value without any input or output of its own.
//!
//! **Invariant:** a process that its environment calls one of many never starts alone.
//! **Invariant:** all unsafe code is in `inherited.rs`.

use std::collections::BTreeMap;
use std::os::fd::RawFd;

use start::Offer;

mod client;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod inherited;
mod nodes;
mod segments;
pub mod server;
mod start;
mod wire;

pub use client::ExchangeError;
pub use nodes::NodeMap;
pub use start::{StartError, Variables};

/// One process's conversation with its process manager.
///
/// ```
/// // Without a launcher the job has one rank, and what it puts it can get.
/// let mut manager = process_manager::Manager::from_variables(&|_| None)?;
/// manager.put("card-0", b"address")?;
/// manager.fence()?;
/// assert_eq!((manager.rank(), manager.size()), (0, 1));
/// assert_eq!(manager.get("card-0")?.as_deref(), Some(&b"address"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Manager(Kind);

#[derive(Debug)]
enum Kind {
    /// No launcher: a job of one rank.
    Singleton {
        store: BTreeMap<String, Vec<u8>>,
    },
    Pmi1(client::Client),
}

impl Manager {
    /// Joins the job that this process's environment describes.
    ///
    /// Call it once per process: a launcher's connection serves one conversation.
    pub fn from_environment() -> Result<Manager, StartError> {
        Manager::from_variables(&|name| std::env::var(name).ok())
    }

    /// Joins the job that these variables describe.
    pub fn from_variables(variables: Variables<'_>) -> Result<Manager, StartError> {
        match start::offer(variables)? {
            Offer::Alone => Ok(Manager::singleton()),
            Offer::Inherited { socket, rank: 0, size: 1 } => Ok(Manager::alone_with(socket)),
            Offer::Inherited { socket, rank, size } => join(socket, rank, size),
            Offer::Listening { address, id } => {
                Ok(Manager(Kind::Pmi1(client::Client::connect(&address, id)?)))
            }
        }
    }

    /// A job of this process alone, whatever the environment says.
    pub fn singleton() -> Manager {
        Manager(Kind::Singleton { store: BTreeMap::new() })
    }

    /// A job of one rank needs nobody. So a second program in the one-task shell that a launcher opened starts
    /// although the launcher's connection was used up by the first.
    fn alone_with(socket: RawFd) -> Manager {
        join(socket, 0, 1).unwrap_or_else(|_| Manager::singleton())
    }

    /// This process's place among all, from zero.
    pub fn rank(&self) -> u32 {
        match &self.0 {
            Kind::Singleton { .. } => 0,
            Kind::Pmi1(client) => client.rank(),
        }
    }

    /// Processes of the job.
    pub fn size(&self) -> u32 {
        match &self.0 {
            Kind::Singleton { .. } => 1,
            Kind::Pmi1(client) => client.size(),
        }
    }

    /// Whether no launcher takes part.
    pub fn is_singleton(&self) -> bool {
        matches!(self.0, Kind::Singleton { .. })
    }

    /// Publishes `value` under `key` to the whole job; the others see it after the next [`Manager::fence`].
    ///
    /// A key can be put once. It has at most 57 letters, digits, `-`, `_` or `.`. Values are bytes of any length,
    /// though a few hundred fit best: each started 900 bytes of text cost one exchange with the launcher.
    pub fn put(&mut self, key: &str, value: &[u8]) -> Result<(), ExchangeError> {
        match &mut self.0 {
            Kind::Singleton { store } => {
                client::check_key(key)?;
                store.insert(key.to_owned(), value.to_owned());
                Ok(())
            }
            Kind::Pmi1(client) => client.put(key, value),
        }
    }

    /// The value that some rank put under `key` before the last fence, or `None` when none did.
    pub fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, ExchangeError> {
        match &mut self.0 {
            Kind::Singleton { store } => {
                client::check_key(key)?;
                Ok(store.get(key).cloned())
            }
            Kind::Pmi1(client) => client.get(key),
        }
    }

    /// Waits until every rank of the job has called it. Costs milliseconds under some launchers: call it once.
    pub fn fence(&mut self) -> Result<(), ExchangeError> {
        match &mut self.0 {
            Kind::Singleton { .. } => Ok(()),
            Kind::Pmi1(client) => client.fence(),
        }
    }

    /// Which rank sits on which node, where the launcher tells it. A hint: see [`NodeMap`].
    pub fn node_map(&mut self) -> Result<Option<NodeMap>, ExchangeError> {
        match &mut self.0 {
            Kind::Singleton { .. } => Ok(Some(NodeMap::one_node(1))),
            Kind::Pmi1(client) => {
                let text = client.get_text("PMI_process_mapping")?;
                Ok(text.and_then(|text| NodeMap::parse(&text, client.size())))
            }
        }
    }

    /// The number of this process's program among those that the launcher was given (MPI 5.0 §11.10.3,
    /// `MPI_APPNUM`), where the launcher tells it.
    pub fn appnum(&mut self) -> Result<Option<u32>, ExchangeError> {
        match &mut self.0 {
            Kind::Singleton { .. } => Ok(None),
            Kind::Pmi1(client) => client.appnum(),
        }
    }

    /// How many processes the launcher could start in all (MPI 5.0 §11.10.1, `MPI_UNIVERSE_SIZE`), where it tells.
    /// Some launchers state less than the size of the job.
    pub fn universe_size(&mut self) -> Result<Option<u32>, ExchangeError> {
        match &mut self.0 {
            Kind::Singleton { .. } => Ok(None),
            Kind::Pmi1(client) => client.universe_size(),
        }
    }

    /// Asks the launcher to end the whole job with exit status `code`.
    ///
    /// Returns once that is said; the launcher's signal may come at any time after. End the process then, with
    /// the same code: without a launcher nobody else does.
    pub fn abort(&mut self, code: i32) -> Result<(), ExchangeError> {
        match &mut self.0 {
            Kind::Singleton { .. } => Ok(()),
            Kind::Pmi1(client) => client.abort(code),
        }
    }

    /// Takes leave of the launcher; from now on this process may exit without that being taken for a death.
    pub fn finalize(mut self) -> Result<(), ExchangeError> {
        match &mut self.0 {
            Kind::Singleton { .. } => Ok(()),
            Kind::Pmi1(client) => client.finalize(),
        }
    }

    /// Whether the launcher has hung up, so that the job is about to end. Does not wait.
    pub fn lost(&self) -> bool {
        match &self.0 {
            Kind::Singleton { .. } => false,
            Kind::Pmi1(client) => client.lost(),
        }
    }
}

fn join(number: RawFd, rank: u32, size: u32) -> Result<Manager, StartError> {
    let socket = inherited::socket(number).map_err(|error| StartError::NoSocket {
        number,
        rank,
        size,
        source: error.into(),
    })?;
    Ok(Manager(Kind::Pmi1(client::Client::start(socket, rank, size)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn a_closed_socket_is_an_error_for_many_and_a_singleton_for_one() {
        let many = [("PMI_FD", "1000000"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")];
        let error = Manager::from_variables(&variables(&many)).unwrap_err().to_string();
        assert!(error.contains("PMI_FD=1000000 is not an open socket"), "{error}");
        let one = [("PMI_FD", "1000000"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")];
        assert!(Manager::from_variables(&variables(&one)).unwrap().is_singleton());
    }

    #[test]
    fn a_singleton_answers_everything_itself() {
        let mut manager = Manager::singleton();
        assert_eq!(manager.get("nothing").unwrap(), None);
        assert!(matches!(manager.put("PMI_x", b""), Err(ExchangeError::BadKey { .. })));
        assert_eq!(manager.node_map().unwrap().unwrap().node(0), Some(0));
        assert_eq!((manager.appnum().unwrap(), manager.universe_size().unwrap()), (None, None));
        assert!(!manager.lost());
        manager.abort(3).unwrap();
        manager.finalize().unwrap();
    }

    #[test]
    fn a_port_where_nobody_listens_is_told() {
        // Port 1 of the loopback address: reserved, and closed on any machine that runs tests.
        let port = [("PMI_PORT", "127.0.0.1:1"), ("PMI_ID", "0")];
        let error = Manager::from_variables(&variables(&port)).unwrap_err().to_string();
        assert!(error.contains("PMI_PORT=127.0.0.1:1") && error.contains("firewall"), "{error}");
    }
}
