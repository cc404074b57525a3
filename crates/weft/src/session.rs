//! Sessions: the beginning and the end of a process's part in a job.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use job::config::{Config, wrong};
use job::error::{Class, Error, Result};
use job::fabrics::{self, Fabrics, Opened, Place};
use job::key_value_exchange::{Cards, Exchange, KeyValueStore};
use job::lock::Threads;
use job::machine::Surroundings;
use job::numa_partition::Parts;
use job::tell;
use job::wait::{self, Policy};
use messaging::{Engine, Settings};
use process_manager::Manager;

use crate::communicator::{Communicator, FtModes};
use crate::contexts;
use crate::group::Group;
use crate::process::{Joined, Process, Restarts};
use crate::sets::ProcessSets;

/// A process's part in a job: joins it when started, leaves it when dropped.
///
/// A library that wants a session of its own asks a session for [another](Session::another): both are of the
/// same job, and the process leaves that with the last of them.
///
/// ```no_run
/// let session = weft::Session::start()?;
/// let world = session.world();
/// println!("rank {} of {}", world.rank().0, world.size());
/// # Ok::<(), weft::Error>(())
/// ```
pub struct Session {
    job: Arc<Job>,
}

/// What the sessions of a process share.
struct Job {
    world: Communicator,
    alone: Communicator,
    sets: ProcessSets,
    left: bool,
}

impl Session {
    /// Joins the job that the environment describes; the calling thread does all the calls. A process can do
    /// so once; for another session, ask this one for [another](Session::another).
    ///
    /// # Errors
    /// When the environment describes a job that cannot be joined, or resources are missing: with the remedy.
    pub fn start() -> Result<Session> {
        Session::start_for(Threads::One)
    }

    /// Joins the job that the environment describes, for calls from one thread or from many, as `threads`
    /// says. A process can do so once; for another session, ask this one for [another](Session::another).
    ///
    /// # Errors
    /// When the environment describes a job that cannot be joined, or resources are missing: with the remedy.
    pub fn start_for(threads: Threads) -> Result<Session> {
        Session::start_with(&Config::from_environment()?, threads)
    }

    /// Joins the job that the environment describes, with the settings of `config` and for calls from one
    /// thread or from many, as `threads` says. A process can do so once; for another session, ask this one
    /// for [another](Session::another).
    ///
    /// # Errors
    /// When the environment describes a job that cannot be joined, or resources are missing: with the remedy.
    pub fn start_with(config: &Config, threads: Threads) -> Result<Session> {
        let manager = Manager::from_environment(&config.manager)
            .map_err(|error| Error::of_text(Class::Other, &error.to_string()))?;
        let (rank, size) = (manager.rank(), manager.size());
        Session::join(rank, size, Exchange::of(manager), config, threads)
    }

    fn join(
        rank: u32,
        size: u32,
        mut exchange: Exchange,
        config: &Config,
        threads: Threads,
    ) -> Result<Session> {
        let rebuilt = config.rebuilt.as_ref();
        let here = fabric::Peer(rebuilt.map_or(rank, |rebuilt| rebuilt.number));
        let peers = size + config.restarts;
        let place = Place { here, ranks: size, peers, config };
        let Opened { fabrics, exchanged, met } = Fabrics::open(&place, &mut exchange)?;
        let node = Group::of(met.node);
        let settings = Settings { unexpected_bytes_max: config.unexpected_bytes_max };
        let cards = Box::new(Cards::new(exchange.clone(), exchanged));
        // One node needs no map; where one process sees several, all do.
        let nodes = if exchanged && node.size() < size { exchange.node_map()? } else { None };
        // Ranks that are threads end together.
        let is_of_threads = matches!(exchange, Exchange::KeyValueStore(_));
        let mut process = Process::new(Joined {
            here,
            peers,
            engine: Engine::new(fabrics, peers, cards, settings),
            exchange,
            threads: if config.progress_thread { Threads::Many } else { threads },
            policy: Policy::choose(config.wait, met.cores_here),
            cores: met.cores,
            node: node.clone(),
            spinning_max: wait::room(config, node.size().min(size)),
        });
        inherit(&mut process, config, is_of_threads)?;
        process.set_restarts(Restarts {
            allowed: config.restarts,
            fallback: config.rebuild_fallback,
            incarnation: rebuilt.map_or(0, |rebuilt| rebuilt.incarnation),
        });
        let process = Arc::new(process);
        process.set_checks(config.check);
        process.set_reads_peers(config.pull);
        process.set_guide(met.guide);
        if let Some(nodes) = nodes {
            process.set_nodes(nodes);
        }
        if let Some(text) = &config.parts {
            process.set_parts(parts(text, size)?);
        }
        process.set_surroundings(Surroundings::of(config));
        let world = match rebuilt {
            None => Communicator::world(process.clone(), size),
            Some(rebuilt) => Communicator::rejoin(&process, size, rebuilt)?,
        };
        let alone = Communicator::new(process, Group::of([here]), contexts::ALONE, "MPI_COMM_SELF");
        match (world, alone) {
            (Some(world), Some(alone)) => {
                world.rename("MPI_COMM_WORLD");
                alone.rename("MPI_COMM_SELF");
                if rebuilt.is_none() {
                    let (comm, messages) = (config.ft_mode, config.ft_messages);
                    world.set_ft_modes(FtModes { comm, messages, ..FtModes::NONE });
                }
                let sets = ProcessSets::new(here, world.group(), &node, &config.process_sets)?;
                Ok(Session { job: Arc::new(Job { world, alone, sets, left: false }) })
            }
            _ => Err(Error::new(Class::Internal, format!("rank {rank} is not in a job of {size}"))),
        }
    }

    /// Another session of the same job (MPI 5.0 §11.3): it may end before this one or after it.
    #[must_use]
    pub fn another(&self) -> Session {
        Session { job: self.job.clone() }
    }

    /// All processes of the job; once it was rebuilt or has shrunk in place, those that are in it now.
    #[must_use]
    pub fn world(&self) -> Communicator {
        self.job.world.latest()
    }

    /// This process alone.
    #[must_use]
    pub fn alone(&self) -> Communicator {
        self.job.alone.latest()
    }

    /// The process that this session is of.
    #[must_use]
    pub fn process(&self) -> &Arc<Process> {
        self.job.world.process()
    }

    /// The named sets of processes that this process is in (MPI 5.0 §11.3.2).
    #[must_use]
    pub fn process_sets(&self) -> &ProcessSets {
        &self.job.sets
    }

    /// The processes of a named set: what communicators without a parent are made of.
    ///
    /// ```
    /// # weft::run_threads(3, &weft::Config::default(), |session| {
    /// assert_eq!(session.group("mpi://WORLD")?.size(), 3);
    /// assert!(session.group("mpi://MOON").is_err());
    /// # Ok::<(), weft::Error>(())
    /// # })?;
    /// # Ok::<(), weft::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Class::Argument`] where there is no such set, or this process is not in it.
    pub fn group(&self, set: &str) -> Result<Group> {
        let found = self.job.sets.find(set).map(|set| set.group().clone());
        found.ok_or_else(|| {
            let names: Vec<&str> = self.job.sets.iter().map(crate::sets::ProcessSet::name).collect();
            let what = format!("there is no process set {set} that this process is in");
            Error::new(Class::Argument, what).remedy(format!("there are: {}", names.join(", ")))
        })
    }

    /// What the process manager calls the number of this program.
    #[must_use]
    pub fn appnum(&self) -> Option<u32> {
        self.process().exchange().appnum()
    }

    /// How many processes there could be, as far as the process manager knows.
    #[must_use]
    pub fn universe_size(&self) -> Option<u32> {
        self.process().exchange().universe_size()
    }

    /// Ends the session. The last one of the process leaves the job: waits for the others, sends what is
    /// under way, says good-bye. Dropping does the same.
    ///
    /// # Errors
    /// When another process is lost before it leaves.
    pub fn finish(self) -> Result<()> {
        Arc::into_inner(self.job).map_or(Ok(()), |mut job| job.leave())
    }

    /// Ends the session without waiting for other processes, which may go on. The last session of the process
    /// leaves the job; what is under way is sent first.
    pub fn depart(self) {
        if let Some(mut job) = Arc::into_inner(self.job) {
            job.left = true;
            job.world.process().finish();
            job.world.forget_latest();
        }
    }
}

impl Job {
    fn leave(&mut self) -> Result<()> {
        if self.left {
            return Ok(());
        }
        self.left = true;
        let parted = self.world.latest().part();
        self.world.process().finish();
        self.world.forget_latest();
        parted
    }
}

impl Drop for Job {
    /// A process that panics takes its job with it, since the others would wait for it for ever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            if self.world.size() > 1 && !self.left {
                tell(format_args!("weft: rank {} panicked; ending the job", self.world.rank().0));
                self.world.process().abort(PANIC_STATUS);
            }
        } else if let Err(error) = self.leave() {
            tell(format_args!("weft: while leaving the job: {error}"));
        }
    }
}

/// Takes what the launcher has left open for this process. Where it keeps no failure log of failures,
/// processes that do not end together tell each other.
fn inherit(process: &mut Process, config: &Config, is_of_threads: bool) -> Result<()> {
    let (here, peers) = (process.here(), process.peers());
    if let Some(number) = config.failure_log {
        process.read_from(fabrics::inherited_failure_log(number, peers)?)?;
    } else if !is_of_threads {
        process.act(|engine| engine.tell_of_failures(here));
    }
    if let Some(number) = config.liveness_descriptors {
        process.is_watched_by(fabrics::begin_liveness_descriptor(number, peers, here)?);
    }
    let states = config.wait_states.and_then(|number| fabrics::inherited_wait_states(number, peers));
    if let Some(states) = states {
        process.tells_waits(states);
    }
    Ok(())
}

/// Who sits on which part of its node, as the launcher has told it.
fn parts(text: &str, size: u32) -> Result<Parts> {
    let parts = Parts::parse(text, size);
    parts.ok_or_else(|| wrong("WEFT_PARTS", text, "parts of ranks, as package (vector,(0,2,16))"))
}

/// Runs `ranks` ranks as threads of this process, each with a session of its own, and returns what they
/// return, by rank. For tests and for programs that want ranks without a launcher.
///
/// # Errors
/// What went wrong at the start of the first rank that could not start.
///
/// # Panics
/// When a rank panics.
pub fn run_threads<R: Send>(
    ranks: u32,
    config: &Config,
    body: impl Fn(&Session) -> R + Sync,
) -> Result<Vec<R>> {
    run_threads_for(Threads::One, ranks, config, body)
}

/// Runs `ranks` ranks as threads of this process, each with a session of its own, and returns what they
/// return, by rank. Ranks may begin threads of their own, where `threads` allows it. For tests and for
/// programs that want ranks without a launcher.
///
/// # Errors
/// What went wrong at the start of the first rank that could not start.
///
/// # Panics
/// When a rank panics.
pub fn run_threads_for<R: Send>(
    threads: Threads,
    ranks: u32,
    config: &Config,
    body: impl Fn(&Session) -> R + Sync,
) -> Result<Vec<R>> {
    let owned = fabrics::segment_for_threads(ranks, config)?;
    let segment = owned.as_ref().map(AsRawFd::as_raw_fd);
    let store = Arc::new(KeyValueStore::new(ranks));
    let cpus = Some(wait::cpus(config));
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..ranks)
            .map(|rank| {
                let (store, body) = (store.clone(), &body);
                scope.spawn(move || {
                    let config = Config { segment, cpus, ..config.clone() };
                    let exchange = Exchange::KeyValueStore(store.clone());
                    let session = Session::join(rank, ranks, exchange, &config, threads)
                        .inspect_err(|_| store.give_up())?;
                    Ok(body(&session))
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("a rank panicked")).collect()
    })
}

/// The exit status of a Rust program that panics.
const PANIC_STATUS: i32 = 101;
