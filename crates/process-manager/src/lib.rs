//! Who am I, who else is there: what a process learns from, and tells to, the others before it can send
//! messages.
//!
//! A launcher starts the processes of a job and runs a small key-value service for them. Each process puts
//! its address under a key, all meet in a fence, and then each can get the addresses of the others.
//! [`Manager`] is that service as one process sees it: PMI-1 or PMI-2 over a socket (weftrun, Hydra, `srun
//! --mpi=pmi2`), PMIx by its library (`srun --mpi=pmix`, prterun), or, without any launcher, a job of one.
//! [`server`] is the other end of PMI-1, as a value without any input or output of its own.
//!
//! **Invariant:** a process that its environment calls one of many never starts alone. **Invariant:** all
//! unsafe code is in `inherited.rs`.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::os::fd::{OwnedFd, RawFd};

use error::{check_key, job_key};
use siblings::{Started, Waiting, Watch};
use start::{Offer, Wire};

mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod hangup_tests;
mod inherited;
mod nodes;
mod pmi1;
mod pmi2;
mod pmix;
mod segments;
pub mod server;
mod siblings;
mod start;
mod stream;
mod survey;
mod wire;

pub use error::ExchangeError;
pub use nodes::NodeMap;
pub use start::{Protocol, StartError, Variables, Wishes};
pub use survey::{Seen, Survey};

/// One process's conversation with its process manager.
///
/// ```
/// // Without a launcher the job has one rank, and what it puts it can get.
/// let mut manager = process_manager::Manager::from_variables(&|_| None, &Default::default())?;
/// manager.put("card", b"address")?;
/// manager.fence()?;
/// assert_eq!((manager.rank(), manager.size()), (0, 1));
/// assert_eq!(manager.get(0, "card")?.as_deref(), Some(&b"address"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Manager {
    kind: Kind,
    /// What a launcher says of the ranks that it started on this node.
    started: Vec<Started>,
    /// The number of this process's program, for launchers that do not tell it.
    program: Option<u32>,
}

#[derive(Debug)]
enum Kind {
    /// No launcher: a job of one rank.
    Singleton {
        store: BTreeMap<String, Vec<u8>>,
    },
    Pmi1(pmi1::Pmi1Client),
    Pmi2(pmi2::Pmi2Client),
    Pmix(pmix::PmixClient),
}

impl Manager {
    /// Joins the job that this process's environment describes.
    ///
    /// Call it once per process: a launcher's connection serves one conversation.
    pub fn from_environment(wishes: &Wishes) -> Result<Manager, StartError> {
        Manager::from_variables(&|name| std::env::var(name).ok(), wishes)
    }

    /// Joins the job that these variables describe.
    pub fn from_variables(variables: Variables<'_>, wishes: &Wishes) -> Result<Manager, StartError> {
        let mut manager = Manager::join(variables, wishes)?;
        manager.program = variables(PROGRAM).and_then(|number| number.parse().ok());
        if 1 < manager.size() {
            manager.started = Started::by_whom(variables, manager.rank(), manager.size());
        }
        Ok(manager)
    }

    fn join(variables: Variables<'_>, wishes: &Wishes) -> Result<Manager, StartError> {
        let libraries = || pmix::libraries(wishes.libpmix.as_deref(), variables);
        match start::offer(variables, wishes.protocol, inherited::is_socket)? {
            Offer::Alone => Ok(Manager::singleton()),
            // A job of one rank needs nobody. So a second program in the one-task shell that a launcher
            // opened starts although the launcher's connection was used up by the first, and none needs a
            // library.
            Offer::Inherited { wire, socket, rank: 0, size: 1 } => {
                Ok(inherit(wire, socket, 0, 1, variables).unwrap_or_else(|_| Manager::singleton()))
            }
            Offer::Pmix { namespace, alone: true } => {
                let joined = pmix::PmixClient::start(&libraries(), &namespace);
                Ok(joined.map_or_else(|_| Manager::singleton(), |client| Manager::of(Kind::Pmix(client))))
            }
            Offer::Inherited { wire, socket, rank, size } => inherit(wire, socket, rank, size, variables),
            Offer::Listening { wire, address, id } => connect(wire, &address, id, variables),
            Offer::Pmix { namespace, alone: false } => {
                Ok(Manager::of(Kind::Pmix(pmix::PmixClient::start(&libraries(), &namespace)?)))
            }
        }
    }

    fn of(kind: Kind) -> Manager {
        Manager { kind, started: Vec::new(), program: None }
    }

    /// A job of this process alone, whatever the environment says.
    pub fn singleton() -> Manager {
        Manager::of(Kind::Singleton { store: BTreeMap::new() })
    }

    /// This process's place among all, from zero.
    pub fn rank(&self) -> u32 {
        match &self.kind {
            Kind::Singleton { .. } => 0,
            Kind::Pmi1(client) => client.rank(),
            Kind::Pmi2(client) => client.rank(),
            Kind::Pmix(client) => client.rank(),
        }
    }

    /// Processes of the job.
    pub fn size(&self) -> u32 {
        match &self.kind {
            Kind::Singleton { .. } => 1,
            Kind::Pmi1(client) => client.size(),
            Kind::Pmi2(client) => client.size(),
            Kind::Pmix(client) => client.size(),
        }
    }

    /// How this process talks to its launcher.
    pub fn protocol(&self) -> Protocol {
        match &self.kind {
            Kind::Singleton { .. } => Protocol::None,
            Kind::Pmi1(_) => Protocol::Pmi1,
            Kind::Pmi2(_) => Protocol::Pmi2,
            Kind::Pmix(_) => Protocol::Pmix,
        }
    }

    /// The launcher's name of the job: the same at all ranks, and different for different jobs of one
    /// launcher. Empty without a launcher.
    pub fn job(&self) -> String {
        match &self.kind {
            Kind::Singleton { .. } => String::new(),
            Kind::Pmi1(client) => client.job().to_owned(),
            Kind::Pmi2(client) => client.job().to_owned(),
            Kind::Pmix(client) => client.job(),
        }
    }

    /// Whether no launcher takes part.
    pub fn is_singleton(&self) -> bool {
        matches!(self.kind, Kind::Singleton { .. })
    }

    /// Publishes `value` under this rank's `key` to the whole job; the others see it after the next
    /// [`Manager::fence`].
    ///
    /// A rank can put a key once. It has at most 46 letters, digits, `-`, `_` or `.`. Values are bytes of any
    /// length, though a few hundred fit best: each started 900 bytes of text cost one exchange with the
    /// launcher.
    pub fn put(&mut self, key: &str, value: &[u8]) -> Result<(), ExchangeError> {
        self.put_as(self.rank(), key, value)
    }

    /// Publishes `value` under the `key` of `owner` to the whole job, for a process that has come into the
    /// place of another: the other processes know it by the number `owner`. Where the manager is PMIx, the
    /// key is always that of this rank.
    pub fn put_as(&mut self, owner: u32, key: &str, value: &[u8]) -> Result<(), ExchangeError> {
        check_key(key)?;
        let job_key = job_key(key, owner);
        match &mut self.kind {
            Kind::Singleton { store } => {
                store.insert(job_key, value.to_owned());
                Ok(())
            }
            Kind::Pmi1(client) => client.put(&job_key, value),
            Kind::Pmi2(client) => client.put(&job_key, value),
            Kind::Pmix(client) => client.put(key, value),
        }
    }

    /// The value that rank `owner` put under `key` before the last fence, or `None` when it did not.
    pub fn get(&mut self, owner: u32, key: &str) -> Result<Option<Vec<u8>>, ExchangeError> {
        check_key(key)?;
        let job_key = job_key(key, owner);
        match &mut self.kind {
            Kind::Singleton { store } => Ok(store.get(&job_key).cloned()),
            Kind::Pmi1(client) => client.get(&job_key),
            Kind::Pmi2(client) => client.get(&job_key),
            Kind::Pmix(client) => client.get(owner, key),
        }
    }

    /// Tells the whole job this rank's answer `is_so` to the question named `key`. Every rank calls it, and
    /// after the next fence [`Manager::is_announced`] gives all of them one answer.
    pub fn announce(&mut self, key: &str, is_so: bool) -> Result<(), ExchangeError> {
        check_key(key)?;
        let said = match (&mut self.kind, is_so) {
            (Kind::Pmix(client), true) => client.put(key, YES),
            (Kind::Pmix(client), false) => client.put(key, NO),
            (_, false) => Ok(()),
            (Kind::Singleton { store }, true) => {
                store.insert(key.to_owned(), Vec::new());
                Ok(())
            }
            (Kind::Pmi1(client), true) => client.put(key, YES),
            (Kind::Pmi2(client), true) => client.put(key, YES),
        };
        match said {
            // Some servers let a key be put once: another rank has said so already.
            Err(ExchangeError::Refused { .. }) if self.protocol() != Protocol::Pmix => Ok(()),
            said => said,
        }
    }

    /// Whether any rank announced before the last fence that it is so. The same answer at all ranks, for one
    /// or a few questions to the launcher, however many ranks there are.
    ///
    /// PMI has one space of keys for the job, so the answer is exact. PMIx has one for each rank: there, a
    /// few ranks all over the job speak for it.
    pub fn is_announced(&mut self, key: &str) -> Result<bool, ExchangeError> {
        check_key(key)?;
        match &mut self.kind {
            Kind::Singleton { store } => Ok(store.contains_key(key)),
            Kind::Pmi1(client) => Ok(client.get(key)?.is_some()),
            Kind::Pmi2(client) => Ok(client.get(key)?.is_some()),
            Kind::Pmix(client) => client.is_said(key, YES),
        }
    }

    /// Ranks of the job on this node, where the launcher tells. A hint.
    pub fn local_size(&mut self) -> Result<Option<u32>, ExchangeError> {
        match &self.kind {
            Kind::Singleton { .. } => Ok(Some(1)),
            Kind::Pmi1(_) | Kind::Pmi2(_) => Ok(None),
            Kind::Pmix(client) => client.local_size(),
        }
    }

    /// Waits until every rank of the job has called it. Costs milliseconds under some launchers: call it
    /// once.
    pub fn fence(&mut self) -> Result<(), ExchangeError> {
        self.fence_watched(&mut || false)
    }

    /// Waits until every rank of the job has called it, and looks meanwhile whether a process that the
    /// launcher started on this node has ended before it joined: the others would wait for it for ever. It is
    /// enough if one process of a node looks: `watches` is asked now and then whether this one is to.
    ///
    /// # Errors
    /// [`ExchangeError::Ended`] where a process is missing for certain. No other rank is told:
    /// [abort](Manager::abort) then.
    pub fn fence_watched(&mut self, watches: &mut dyn FnMut() -> bool) -> Result<(), ExchangeError> {
        // Once the fence is under way nothing can be asked.
        let map = match siblings::wants_map(&self.started) && watches() {
            true => self.node_map()?,
            false => None,
        };
        let mut watch = Watch::new(std::mem::take(&mut self.started), self.rank(), map);
        let mut look = || if watches() { watch.look() } else { Ok(()) };
        let mut waiting = Waiting::new(&mut look);
        match &mut self.kind {
            Kind::Singleton { .. } => Ok(()),
            Kind::Pmi1(client) => client.fence(&mut waiting),
            Kind::Pmi2(client) => client.fence(&mut waiting),
            Kind::Pmix(client) => client.fence(&mut waiting),
        }
    }

    /// Which rank sits on which node, where the launcher tells it. A hint: see [`NodeMap`].
    pub fn node_map(&mut self) -> Result<Option<NodeMap>, ExchangeError> {
        let text = match &mut self.kind {
            Kind::Singleton { .. } => return Ok(Some(NodeMap::one_node(1))),
            Kind::Pmi1(client) => client.get_text("PMI_process_mapping")?,
            Kind::Pmi2(client) => client.node_map()?,
            Kind::Pmix(client) => client.node_map()?,
        };
        Ok(text.and_then(|text| NodeMap::parse(&text, self.size())))
    }

    /// The number of this process's program among those that the launcher was given (MPI 5.0 §11.10.3,
    /// `MPI_APPNUM`), where the launcher tells it.
    pub fn appnum(&mut self) -> Result<Option<u32>, ExchangeError> {
        let told = match &mut self.kind {
            Kind::Singleton { .. } => None,
            Kind::Pmi1(client) => client.appnum()?,
            Kind::Pmi2(client) => client.appnum(),
            Kind::Pmix(client) => client.appnum()?,
        };
        Ok(told.or(self.program))
    }

    /// How many processes the launcher could start in all (MPI 5.0 §11.10.1, `MPI_UNIVERSE_SIZE`), where it
    /// tells. Some launchers state less than the size of the job.
    pub fn universe_size(&mut self) -> Result<Option<u32>, ExchangeError> {
        match &mut self.kind {
            Kind::Singleton { .. } => Ok(None),
            Kind::Pmi1(client) => client.universe_size(),
            Kind::Pmi2(client) => client.universe_size(),
            Kind::Pmix(client) => client.universe_size(),
        }
    }

    /// Asks the launcher to start new processes in the place of the failed processes of `ranks`, and to tell
    /// them `facts`. Every surviving process asks, under the number `asked`, which is the same for all of
    /// them and used once. The launcher answers by its failure log.
    ///
    /// # Errors
    /// [`ExchangeError::Refused`] where the launcher cannot: it is not weftrun, or not meant to.
    pub fn rebuild(&mut self, asked: u64, ranks: &[u32], facts: &str) -> Result<(), ExchangeError> {
        match &mut self.kind {
            Kind::Pmi1(client) => client.rebuild(asked, ranks, facts),
            _ => Err(self.no_rebuilding("weft_rebuild")),
        }
    }

    /// Tells the launcher that this process, which was started in the place of another, can be reached.
    ///
    /// # Errors
    /// [`ExchangeError::Refused`] where the launcher cannot: it is not weftrun, or not meant to.
    pub fn ready(&mut self) -> Result<(), ExchangeError> {
        match &mut self.kind {
            Kind::Pmi1(client) => client.ready(),
            _ => Err(self.no_rebuilding("weft_ready")),
        }
    }

    fn no_rebuilding(&self, request: &'static str) -> ExchangeError {
        let answer = "only weftrun starts processes again".to_owned();
        ExchangeError::Refused { rank: self.rank(), request, answer }
    }

    /// Asks the launcher to end the whole job with exit status `code`.
    ///
    /// Returns once that is said; the launcher's signal may come at any time after. End the process then,
    /// with the same code: without a launcher nobody else does.
    pub fn abort(&mut self, code: i32) -> Result<(), ExchangeError> {
        match &mut self.kind {
            Kind::Singleton { .. } => Ok(()),
            Kind::Pmi1(client) => client.abort(code),
            Kind::Pmi2(client) => client.abort(code),
            Kind::Pmix(client) => client.abort(code),
        }
    }

    /// Takes leave of the launcher; from now on this process may exit without that being taken for a death.
    pub fn finalize(mut self) -> Result<(), ExchangeError> {
        match &mut self.kind {
            Kind::Singleton { .. } => Ok(()),
            Kind::Pmi1(client) => client.finalize(),
            Kind::Pmi2(client) => client.finalize(),
            Kind::Pmix(client) => client.finalize(),
        }
    }

    /// Whether the launcher has hung up, so that the job is about to end. Does not wait.
    pub fn lost(&self) -> bool {
        match &self.kind {
            Kind::Singleton { .. } => false,
            Kind::Pmi1(client) => client.lost(),
            Kind::Pmi2(client) => client.lost(),
            Kind::Pmix(client) => client.lost(),
        }
    }
}

/// Speaks over the socket that the launcher has left open as descriptor `number`. The messages of errors tell
/// `rank` and `size`.
fn inherit(
    wire: Wire,
    number: RawFd,
    rank: u32,
    size: u32,
    variables: Variables<'_>,
) -> Result<Manager, StartError> {
    let socket = inherited::socket(number).map_err(|error| StartError::NoSocket {
        number,
        rank,
        size,
        source: error.into(),
    })?;
    Ok(Manager::of(match wire {
        Wire::One => Kind::Pmi1(pmi1::Pmi1Client::start(socket, rank, size)?),
        Wire::Two => Kind::Pmi2(pmi2::Pmi2Client::start(socket, rank, variables("PMI_JOBID").as_deref())?),
    }))
}

/// Connects to the server at `address`, which knows this process as `id`.
fn connect(wire: Wire, address: &str, id: u32, variables: Variables<'_>) -> Result<Manager, StartError> {
    let unreachable = |source| StartError::Unreachable { address: address.to_owned(), source };
    let stream = TcpStream::connect(address).map_err(unreachable)?;
    // Requests are answered one by one, so waiting to fill packets would only delay each.
    stream.set_nodelay(true).map_err(unreachable)?;
    let socket = OwnedFd::from(stream);
    Ok(Manager::of(match wire {
        Wire::One => Kind::Pmi1(pmi1::Pmi1Client::connect(socket, id)?),
        Wire::Two => Kind::Pmi2(pmi2::Pmi2Client::start(socket, id, variables("PMI_JOBID").as_deref())?),
    }))
}

/// The variable that our launcher sets where Slurm starts several programs.
const PROGRAM: &str = "WEFT_APPNUM";
/// The value that is put under a key for "it is so". It is not empty, since some servers take no empty value.
const YES: &[u8] = b"1";
const NO: &[u8] = b"0";

#[cfg(test)]
mod tests {
    use super::*;

    fn variables<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn a_closed_socket_is_an_error_for_many_and_a_singleton_for_one() {
        let many = [("PMI_FD", "1000000"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")];
        let error = Manager::from_variables(&variables(&many), &Wishes::default()).unwrap_err().to_string();
        assert!(error.contains("PMI_FD=1000000 is not an open socket"), "{error}");
        let one = [("PMI_FD", "1000000"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")];
        assert!(Manager::from_variables(&variables(&one), &Wishes::default()).unwrap().is_singleton());
    }

    #[test]
    fn a_singleton_answers_everything_itself() {
        let mut manager = Manager::singleton();
        assert_eq!(manager.get(0, "nothing").unwrap(), None);
        assert!(!manager.is_announced("something").unwrap());
        manager.announce("something", false).unwrap();
        assert!(!manager.is_announced("something").unwrap());
        manager.announce("something", true).unwrap();
        assert!(manager.is_announced("something").unwrap());
        assert_eq!((manager.protocol(), manager.job().as_str()), (Protocol::None, ""));
        assert!(matches!(manager.put("PMI_x", b""), Err(ExchangeError::BadKey { .. })));
        assert_eq!(manager.node_map().unwrap().unwrap().node(0), Some(0));
        assert_eq!((manager.appnum().unwrap(), manager.universe_size().unwrap()), (None, None));
        assert!(!manager.lost());
        manager.abort(3).unwrap();
        manager.finalize().unwrap();
    }

    #[test]
    fn a_launcher_that_does_not_tell_the_program_has_a_variable_for_it() {
        let number = |text| {
            let started = Manager::from_variables(&variables(&[("WEFT_APPNUM", text)]), &Wishes::default());
            started.unwrap().appnum().unwrap()
        };
        assert_eq!((number("2"), number("two")), (Some(2), None));
    }

    #[test]
    fn a_port_where_nobody_listens_is_told() {
        // Port 1 of the loopback address: reserved, and closed on any machine that runs tests.
        let port = [("PMI_PORT", "127.0.0.1:1"), ("PMI_ID", "0")];
        let error = Manager::from_variables(&variables(&port), &Wishes::default()).unwrap_err().to_string();
        assert!(error.contains("PMI_PORT=127.0.0.1:1") && error.contains("firewall"), "{error}");
    }
}
