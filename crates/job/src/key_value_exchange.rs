//! How the processes of a job tell each other their addresses: a process manager, or, for ranks that are
//! threads of one process, a key-value store they share.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use fabric::{FabricError, Fault, Peer};
use messaging::Directory;
use process_manager::{ExchangeError, Manager, NodeMap};

use crate::error::{Class, Error, Result};
use crate::lock::lock;
use crate::tell::tell;

/// What the processes of a job tell each other by: each leaves a card, all pass one fence, and then cards can
/// be read.
#[derive(Clone)]
pub enum Exchange {
    /// The process manager that started this process, or none at all.
    Manager(Arc<Mutex<Option<Manager>>>),
    /// A key-value store that the ranks of one process share.
    KeyValueStore(Arc<KeyValueStore>),
}

/// The key-value store of ranks that are threads.
pub struct KeyValueStore {
    job: String,
    cards: Mutex<HashMap<Peer, Vec<u8>>>,
    announced: Mutex<HashSet<String>>,
    fence: Mutex<Fence>,
    passed: Condvar,
    ranks: u32,
}

/// How far the ranks are with meeting at the fence.
#[derive(Default)]
struct Fence {
    waiting: u32,
    round: u64,
    /// A rank could not start, so the others will never be all.
    broken: bool,
}

impl KeyValueStore {
    /// The key-value store of that many ranks.
    #[must_use]
    pub fn new(ranks: u32) -> KeyValueStore {
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        KeyValueStore {
            job: format!("threads-{}-{number}", std::process::id()),
            cards: Mutex::default(),
            announced: Mutex::default(),
            fence: Mutex::default(),
            passed: Condvar::new(),
            ranks,
        }
    }

    /// A rank could not start: nobody shall wait for it.
    pub fn give_up(&self) {
        lock(&self.fence).broken = true;
        self.passed.notify_all();
    }

    fn wait(&self) -> Result<()> {
        let mut fence = lock(&self.fence);
        fence.waiting += 1;
        if fence.waiting == self.ranks {
            fence.waiting = 0;
            fence.round += 1;
            self.passed.notify_all();
            return Ok(());
        }
        let round = fence.round;
        while fence.round == round && !fence.broken {
            fence = self.passed.wait(fence).unwrap_or_else(PoisonError::into_inner);
        }
        if fence.round == round {
            Err(Error::new(Class::Other, "another rank could not start"))
        } else {
            Ok(())
        }
    }
}

impl Exchange {
    /// The exchange by a process manager.
    #[must_use]
    pub fn of(manager: Manager) -> Exchange {
        Exchange::Manager(Arc::new(Mutex::new(Some(manager))))
    }

    /// What the job is called; the same at all its processes.
    pub(crate) fn job(&self) -> String {
        match self {
            Exchange::Manager(manager) => {
                let manager = lock(manager);
                manager.as_ref().map(Manager::job).unwrap_or_default()
            }
            Exchange::KeyValueStore(store) => store.job.clone(),
        }
    }

    /// Leaves the card of this process for the others.
    pub(crate) fn put_card(&mut self, here: Peer, card: &[u8]) -> Result<()> {
        match self {
            Exchange::Manager(manager) => {
                with(manager, |manager| manager.put_as(here.0, CARD, card).map_err(|error| failed(&error)))
            }
            Exchange::KeyValueStore(store) => {
                lock(&store.cards).insert(here, card.to_vec());
                Ok(())
            }
        }
    }

    /// The card that a process left before the last fence.
    pub(crate) fn card(&mut self, peer: Peer) -> Result<Option<Vec<u8>>> {
        match self {
            Exchange::Manager(manager) => {
                with(manager, |manager| manager.get(peer.0, CARD).map_err(|error| failed(&error)))
            }
            Exchange::KeyValueStore(store) => Ok(lock(&store.cards).get(&peer).cloned()),
        }
    }

    /// Tells all whether something is so, as far as this process knows; every process does.
    pub(crate) fn announce(&mut self, what: &str, is_so: bool) -> Result<()> {
        match self {
            Exchange::Manager(manager) => {
                with(manager, |manager| manager.announce(what, is_so).map_err(|error| failed(&error)))
            }
            Exchange::KeyValueStore(store) => {
                if is_so {
                    lock(&store.announced).insert(what.to_owned());
                }
                Ok(())
            }
        }
    }

    /// The processes that the manager says are on this node, where it says so.
    pub(crate) fn local_size(&mut self) -> Result<Option<u32>> {
        match self {
            Exchange::Manager(manager) => {
                with(manager, |manager| manager.local_size().map_err(|error| failed(&error)))
            }
            Exchange::KeyValueStore(_) => Ok(None),
        }
    }

    /// Which process sits on which node, as the manager tells all of them alike, where it does.
    ///
    /// # Errors
    /// When the manager cannot be asked.
    pub fn node_map(&mut self) -> Result<Option<NodeMap>> {
        match self {
            Exchange::Manager(manager) => {
                with(manager, |manager| manager.node_map().map_err(|error| failed(&error)))
            }
            Exchange::KeyValueStore(_) => Ok(None),
        }
    }

    /// Whether any process announced before the last fence that it is so; one answer at all of them.
    pub(crate) fn is_announced(&mut self, what: &str) -> Result<bool> {
        match self {
            Exchange::Manager(manager) => {
                with(manager, |manager| manager.is_announced(what).map_err(|error| failed(&error)))
            }
            Exchange::KeyValueStore(store) => Ok(lock(&store.announced).contains(what)),
        }
    }

    /// Waits for all. `watches` tells, when it takes long, whether this process looks for those of its node
    /// that have ended before they came here.
    pub(crate) fn fence(&mut self, watches: &mut dyn FnMut() -> bool) -> Result<()> {
        let passed = match self {
            Exchange::Manager(manager) => with(manager, |manager| Ok(manager.fence_watched(watches)))?,
            Exchange::KeyValueStore(store) => return store.wait(),
        };
        if let Err(error @ ExchangeError::Ended { .. }) = &passed {
            // Whatever errors do here, the others can do nothing but wait: the job ends.
            tell(format_args!("weft: {}", failed(error)));
            self.abort(STATUS_WITHOUT_START);
            std::thread::sleep(UNTIL_ENDED);
        }
        passed.map_err(|error| failed(&error))
    }

    /// Asks the launcher for processes in the place of those of these ranks, to be told `facts`; it answers
    /// by its failure log.
    ///
    /// # Errors
    /// When the launcher cannot be asked; [`Class::Unsupported`] for ranks that are threads.
    pub fn rebuild(&mut self, asked: u64, ranks: &[u32], facts: &str) -> Result<()> {
        match self {
            Exchange::Manager(manager) => {
                with(manager, |manager| manager.rebuild(asked, ranks, facts).map_err(|error| failed(&error)))
            }
            Exchange::KeyValueStore(_) => {
                Err(Error::new(Class::Unsupported, "threads are not started again"))
            }
        }
    }

    /// Tells the launcher that this process, started in the place of another, can be reached.
    ///
    /// # Errors
    /// When the launcher cannot be told.
    pub fn ready(&mut self) -> Result<()> {
        match self {
            Exchange::Manager(manager) => {
                with(manager, |manager| manager.ready().map_err(|error| failed(&error)))
            }
            Exchange::KeyValueStore(_) => Ok(()),
        }
    }

    /// Tells the process manager to end the job with that code. The caller ends its own process, which is all
    /// there is to do for ranks that are threads.
    pub fn abort(&mut self, code: i32) {
        if let Exchange::Manager(manager) = self {
            if std::env::var_os("WEFT_LAUNCHER").is_none() {
                // Slurm and Hydra kill the ranks and themselves at once, and what a rank has just written, as
                // why it aborts, is lost.
                std::thread::sleep(PASSED_ON);
            }
            // An abort that cannot be told still ends this process, and the manager sees that.
            let _ = with(manager, |manager| manager.abort(code).map_err(|error| failed(&error)));
        }
    }

    /// Takes leave of the process manager. Nothing can be asked afterwards.
    pub fn finish(&mut self) {
        if let Exchange::Manager(manager) = self
            && let Some(manager) = lock(manager).take()
        {
            // Nothing is left to do with a manager that hangs up while the process says good-bye.
            let _ = manager.finalize();
        }
    }

    /// Whether the process manager hung up.
    #[must_use]
    pub fn lost(&self) -> bool {
        match self {
            Exchange::Manager(manager) => {
                let manager = lock(manager);
                manager.as_ref().is_some_and(Manager::lost)
            }
            Exchange::KeyValueStore(_) => false,
        }
    }

    /// The number of this program among those of the job, where the manager tells.
    pub fn appnum(&mut self) -> Option<u32> {
        match self {
            Exchange::Manager(manager) => {
                with(manager, |manager| manager.appnum().map_err(|error| failed(&error))).ok().flatten()
            }
            Exchange::KeyValueStore(_) => None,
        }
    }

    /// How many processes there could be, where the manager tells.
    pub fn universe_size(&mut self) -> Option<u32> {
        match self {
            Exchange::Manager(manager) => {
                with(manager, |manager| manager.universe_size().map_err(|error| failed(&error)))
                    .ok()
                    .flatten()
            }
            Exchange::KeyValueStore(_) => None,
        }
    }
}

fn with<R>(manager: &Mutex<Option<Manager>>, act: impl FnOnce(&mut Manager) -> Result<R>) -> Result<R> {
    match lock(manager).as_mut() {
        Some(manager) => act(manager),
        None => Err(Error::new(Class::Other, "the process manager has been taken leave of")),
    }
}

fn failed(error: &ExchangeError) -> Error {
    Error::of_text(Class::Other, &error.to_string())
}

/// A launcher passes on what a rank has written within this time.
const PASSED_ON: Duration = Duration::from_millis(100);

/// Within this time a launcher ends the job that it was asked to end.
const UNTIL_ENDED: Duration = Duration::from_secs(5);

/// The status of a job that cannot start, as far as the launcher keeps one.
const STATUS_WITHOUT_START: i32 = 1;

/// The name under which each process's card is kept.
const CARD: &str = "weft-card";

/// Collective segments that this process has made.
static STORES: AtomicU32 = AtomicU32::new(0);

/// Cards by peer, fetched when first asked for.
pub struct Cards {
    exchange: Exchange,
    /// Whether the processes exchanged cards at all; where all reach each other by inheritance they do not.
    exchanged: bool,
}

impl Cards {
    /// The cards of a job; where none were `exchanged` all of them are empty.
    #[must_use]
    pub fn new(exchange: Exchange, exchanged: bool) -> Cards {
        Cards { exchange, exchanged }
    }
}

impl Directory for Cards {
    fn address(&mut self, peer: Peer) -> std::result::Result<Vec<u8>, FabricError> {
        if !self.exchanged {
            return Ok(Vec::new());
        }
        let missing =
            |what: String| FabricError { fabric: "process manager", fault: Fault::Unreachable, what };
        match self.exchange.card(peer) {
            Ok(Some(card)) => Ok(card),
            Ok(None) => Err(missing(format!("process {} has left no address", peer.0))),
            Err(error) => Err(missing(format!("the address of process {} cannot be had: {error}", peer.0))),
        }
    }

    /// Nothing that this process does can be heard any more, so it is to do nothing.
    fn taken_for_dead(&mut self, by: Peer) {
        tell(format_args!(
            "weft: process {} takes this one for dead, and tells all others; ending\n  \
             the connection between the two has broken, or one of the two has broken its protocol",
            by.0
        ));
        // At once, with nothing of the program's own end.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        std::process::abort();
    }
}
