//! Reading the environment: which launcher started this process, if any.
//!
//! Launchers nest, and leave their variables behind for programs that another launcher starts, so the order
//! matters, from what can hardly be a leftover to what proves nothing:
//!
//! 1. `PMI_FD`, where that descriptor is an open socket: a launcher closes what an outer one had opened
//! 2. `PMIX_NAMESPACE`: a PMIx server
//! 3. `PMI_PORT`: a listening PMI server
//! 4. a mere statement that this is one of many (`PMI_SIZE`, `SLURM_PROCID` and others)
//!
//! In the last case starting alone would give as many jobs of one rank as there are tasks; that is always an
//! error. `WEFT_PROCESS_MANAGER` overrides the choice.

use std::ffi::OsString;
use std::os::fd::RawFd;

/// Looks up an environment variable; a function, so that a test needs no real environment.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The user's choice among the process managers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The only one to use; `None` leaves the choice to the environment.
    pub protocol: Option<Protocol>,
    /// The PMIx library to load, and no other.
    pub libpmix: Option<OsString>,
}

/// A way to talk to a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// PMI-1 over a socket.
    Pmi1,
    /// PMI-2 over a socket.
    Pmi2,
    /// PMIx, by its library.
    Pmix,
    /// None: a job of this process alone.
    None,
}

impl Protocol {
    /// By the name that `WEFT_PROCESS_MANAGER` gives it.
    #[must_use]
    pub fn named(name: &str) -> Option<Protocol> {
        [Protocol::Pmi1, Protocol::Pmi2, Protocol::Pmix, Protocol::None]
            .into_iter()
            .find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }

    /// Its name in `WEFT_PROCESS_MANAGER`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Pmi1 => "pmi1",
            Protocol::Pmi2 => "pmi2",
            Protocol::Pmix => "pmix",
            Protocol::None => "none",
        }
    }
}

/// The two protocols of a PMI socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    One,
    Two,
}

/// The process manager that the environment offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// A connected socket was inherited.
    Inherited { wire: Wire, socket: RawFd, rank: u32, size: u32 },
    /// A server listens for this process, which is number `id` to it.
    Listening { wire: Wire, address: String, id: u32 },
    /// A PMIx server; `alone` where the launcher says that the job has one process.
    Pmix { namespace: String, alone: bool },
    /// There is no launcher: a job of this process alone.
    Alone,
}

/// Why this process cannot learn its place in the job. The second line tells what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A variable of the launcher is missing or makes no sense.
    #[error(
        "the launcher's variable {name} is {found}, expected {expected}\n\
         start the program with weftrun, `srun --mpi=pmi2` or Hydra's mpiexec; or unset {name} to run it alone"
    )]
    Variable {
        /// The variable's name.
        name: &'static str,
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// `PMI_FD` names no open socket.
    #[error(
        "PMI_FD={number} is not an open socket ({source}), so rank {rank} of {size} cannot reach its launcher\n\
         a program that a rank starts must not take part in the job: start it with weftrun, or without \
         PMI_FD, PMI_RANK and PMI_SIZE; if a wrapper script closes descriptors, let it leave this one open"
    )]
    NoSocket {
        /// The number in `PMI_FD`.
        number: RawFd,
        /// This process's rank, as the launcher tells it.
        rank: u32,
        /// Ranks of the job.
        size: u32,
        /// What the system said.
        source: std::io::Error,
    },
    /// The server named by `PMI_PORT` cannot be reached.
    #[error(
        "cannot connect to the launcher's process manager at PMI_PORT={address}: {source}\n\
         check that the name resolves here and that no firewall stands between; the launcher may also have ended"
    )]
    Unreachable {
        /// `host:port`.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// One of several tasks of Slurm, without a process manager.
    #[error(
        "this is task {task} of {tasks} of a Slurm step that offers no process manager\n\
         start it with `srun --mpi=pmi2` or `srun --mpi=pmix`; for {tasks} separate jobs put `weftrun -n 1` before the program"
    )]
    Slurm {
        /// `SLURM_PROCID`.
        task: String,
        /// Tasks of the step.
        tasks: String,
    },
    /// The job needs PMIx, and its library is not there.
    #[error(
        "this process was started by a PMIx launcher (PMIX_NAMESPACE={namespace}), and no PMIx library can be \
         loaded: {tried}\n\
         install it (Debian: libpmix2), or name it with WEFT_LIBPMIX=/path/to/libpmix.so.2; under Slurm \
         `srun --mpi=pmi2` needs none"
    )]
    NoPmixLibrary {
        /// `PMIX_NAMESPACE`.
        namespace: String,
        /// The libraries that were tried, and what the loader said of each.
        tried: String,
    },
    /// The user wants a protocol that the launcher does not offer.
    #[error(
        "WEFT_PROCESS_MANAGER={wanted}, and {missing}\n\
         unset WEFT_PROCESS_MANAGER to take what the launcher offers; `weft doctor` shows it"
    )]
    NotOffered {
        /// The protocol's name.
        wanted: &'static str,
        /// What would have to be set.
        missing: &'static str,
    },
    /// A launcher states a size above one but hands over no connection.
    #[error(
        "{name}={size} says that this is one of {size} processes, but the launcher offers no process manager that this \
         library can talk to (PMI-1, PMI-2, PMIx)\n\
         start the program with weftrun, `srun --mpi=pmi2` or `--mpi=pmix`, Hydra's mpiexec, or prterun; or unset \
         {name} to run it alone"
    )]
    NoConnection {
        /// The variable that tells the size.
        name: &'static str,
        /// Its value.
        size: u32,
    },
    /// The launcher's server was reached and the first exchange failed.
    #[error(transparent)]
    Exchange(#[from] crate::ExchangeError),
}

/// Decides from the environment and what is wished; `is_socket` tells whether a descriptor is one that is
/// open.
pub(crate) fn offer(
    variables: Variables<'_>,
    wanted: Option<Protocol>,
    is_socket: impl Fn(RawFd) -> bool,
) -> Result<Offer, StartError> {
    match wanted {
        Some(Protocol::None) => Ok(Offer::Alone),
        Some(Protocol::Pmi1) => pmi(variables, Wire::One)?.ok_or(not_offered("pmi1", NO_PMI)),
        Some(Protocol::Pmi2) => pmi(variables, Wire::Two)?.ok_or(not_offered("pmi2", NO_PMI)),
        Some(Protocol::Pmix) => pmix(variables).ok_or(not_offered("pmix", NO_PMIX)),
        None => by_environment(variables, is_socket),
    }
}

fn by_environment(variables: Variables<'_>, is_socket: impl Fn(RawFd) -> bool) -> Result<Offer, StartError> {
    let number = variables("PMI_FD").and_then(|text| text.trim().parse().ok());
    let handed_over = number.is_some_and(is_socket);
    if let Some(offer) = pmix(variables).filter(|_| !handed_over) {
        return Ok(offer);
    }
    if let Some(offer) = pmi(variables, Wire::One)? {
        return Ok(offer);
    }
    refuse_stated_size(variables)?;
    refuse_slurm_task(variables)?;
    Ok(Offer::Alone)
}

fn pmi(variables: Variables<'_>, wire: Wire) -> Result<Option<Offer>, StartError> {
    if variables("PMI_FD").is_some() {
        return inherited(variables, wire).map(Some);
    }
    match variables("PMI_PORT") {
        Some(address) => Ok(Some(Offer::Listening { wire, address, id: required(variables, "PMI_ID")? })),
        None => Ok(None),
    }
}

fn not_offered(wanted: &'static str, missing: &'static str) -> StartError {
    StartError::NotOffered { wanted, missing }
}

fn inherited(variables: Variables<'_>, wire: Wire) -> Result<Offer, StartError> {
    let socket = required(variables, "PMI_FD")?;
    let rank = required(variables, "PMI_RANK")?;
    let size = required(variables, "PMI_SIZE")?;
    if size <= rank {
        let found = format!("`{rank}` with PMI_SIZE={size}");
        return Err(StartError::Variable { name: "PMI_RANK", found, expected: "a rank below the size" });
    }
    Ok(Offer::Inherited { wire, socket, rank, size })
}

fn required<N: std::str::FromStr>(variables: Variables<'_>, name: &'static str) -> Result<N, StartError> {
    let value = variables(name);
    value.as_deref().and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        let found = value.map_or_else(|| "not set".to_owned(), |text| format!("`{text}`"));
        StartError::Variable { name, found, expected: "a decimal number" }
    })
}

/// A name space means a PMIx server. Some launchers also say how many processes the job has.
fn pmix(variables: Variables<'_>) -> Option<Offer> {
    let namespace = variables("PMIX_NAMESPACE")?;
    let of_slurm = namespace.starts_with("slurm.pmix.");
    let size = variables(if of_slurm { "SLURM_STEP_NUM_TASKS" } else { "OMPI_COMM_WORLD_SIZE" });
    Some(Offer::Pmix { namespace, alone: size.as_deref() == Some("1") })
}

fn refuse_stated_size(variables: Variables<'_>) -> Result<(), StartError> {
    for name in SIZE_VARIABLES {
        match variables(name).and_then(|size| size.trim().parse().ok()) {
            Some(size) if 1 < size => return Err(StartError::NoConnection { name, size }),
            _ => {}
        }
    }
    Ok(())
}

/// A batch script and the shell of an allocation are told the tasks of the *job* (`SLURM_NTASKS`), yet run
/// once; what runs once per task is a step, and only a step carries `SLURM_STEP_ID`.
fn refuse_slurm_task(variables: Variables<'_>) -> Result<(), StartError> {
    let in_step = || variables("SLURM_STEP_ID").or_else(|| variables("SLURM_STEPID"));
    let tasks = variables("SLURM_STEP_NUM_TASKS").or_else(|| in_step().and(variables("SLURM_NTASKS")));
    match (variables("SLURM_PROCID"), tasks) {
        (Some(task), Some(tasks)) if tasks.trim() != "1" => Err(StartError::Slurm { task, tasks }),
        _ => Ok(()),
    }
}

const NO_PMI: &str = "neither PMI_FD nor PMI_PORT is set";
const NO_PMIX: &str = "PMIX_NAMESPACE is not set";

/// Where launchers state the size of a job: those of MPICH and Cray, Open MPI, MVAPICH, Flux and IBM's.
pub(crate) const SIZE_VARIABLES: [&str; 5] =
    ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "FLUX_JOB_SIZE", "JSM_NAMESPACE_SIZE"];

#[cfg(test)]
mod tests {
    use super::*;

    fn offer_in(variables: &[(&str, &str)]) -> Result<Offer, StartError> {
        wanted_in(variables, None)
    }

    /// Descriptor 5 and 7 are sockets.
    fn wanted_in(variables: &[(&str, &str)], wanted: Option<Protocol>) -> Result<Offer, StartError> {
        let look_up =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        offer(&look_up, wanted, |number| [5, 7].contains(&number))
    }

    #[test]
    fn nothing_said_is_alone() {
        assert_eq!(offer_in(&[]).unwrap(), Offer::Alone);
    }

    #[test]
    fn an_inherited_socket_is_taken() {
        let found = offer_in(&[("PMI_FD", "5"), ("PMI_RANK", "2"), ("PMI_SIZE", "4"), ("PMI_JOBID", "9.0")]);
        assert_eq!(found.unwrap(), Offer::Inherited { wire: Wire::One, socket: 5, rank: 2, size: 4 });
    }

    #[test]
    fn a_port_is_taken_with_its_id() {
        let found = offer_in(&[("PMI_PORT", "n1:4711"), ("PMI_ID", "3")]);
        assert_eq!(
            found.unwrap(),
            Offer::Listening { wire: Wire::One, address: "n1:4711".to_owned(), id: 3 }
        );
        let error = offer_in(&[("PMI_PORT", "n1:4711")]).unwrap_err().to_string();
        assert!(error.contains("PMI_ID is not set"), "{error}");
    }

    #[test]
    fn a_nested_launcher_beats_what_surrounds_it() {
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_STEP_ID", "0")];
        let pmix = [("PMIX_NAMESPACE", "prterun-n1-77@1"), ("PMIX_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "8")];
        let inner = [("PMI_FD", "7"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")];
        let all = [&slurm[..], &pmix[..], &inner[..]].concat();
        assert_eq!(
            offer_in(&all).unwrap(),
            Offer::Inherited { wire: Wire::One, socket: 7, rank: 0, size: 2 }
        );
    }

    #[test]
    fn a_slurm_step_without_pmi_is_an_error_with_the_remedy() {
        let step = [("SLURM_PROCID", "1"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")];
        let old = [("SLURM_PROCID", "1"), ("SLURM_STEPID", "0"), ("SLURM_NTASKS", "4")];
        for variables in [step, old] {
            let error = offer_in(&variables).unwrap_err().to_string();
            assert!(error.contains("task 1 of 4") && error.contains("srun --mpi=pmi2"), "{error}");
        }
    }

    #[test]
    fn a_batch_script_or_allocation_shell_is_alone() {
        let batch = [("SLURM_JOB_ID", "9"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")];
        assert_eq!(offer_in(&batch).unwrap(), Offer::Alone);
        let shell = [("SLURM_JOB_ID", "9"), ("SLURM_NTASKS", "4")];
        assert_eq!(offer_in(&shell).unwrap(), Offer::Alone);
        // The shell of an interactive allocation is itself a step, of one task.
        let interactive = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert_eq!(offer_in(&interactive).unwrap(), Offer::Alone);
    }

    #[test]
    fn a_descriptor_that_is_no_socket_is_a_leftover_under_pmix() {
        let pmix = [("PMIX_NAMESPACE", "prterun-n1-77@1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        let left = [("PMI_FD", "9"), ("PMI_RANK", "0"), ("PMI_SIZE", "4")];
        let of_pmix = Offer::Pmix { namespace: "prterun-n1-77@1".to_owned(), alone: false };
        assert_eq!(offer_in(&[&pmix[..], &left[..]].concat()).unwrap(), of_pmix);
        let port = [("PMI_PORT", "n1:4711"), ("PMI_ID", "3")];
        assert_eq!(offer_in(&[&pmix[..], &port[..]].concat()).unwrap(), of_pmix);
        assert!(
            matches!(offer_in(&left).unwrap(), Offer::Inherited { socket: 9, .. }),
            "and nothing else there"
        );
    }

    #[test]
    fn pmix_says_whether_the_job_has_one_process() {
        let alone_in = |variables: &[(&str, &str)]| match offer_in(variables).unwrap() {
            Offer::Pmix { alone, .. } => alone,
            other => panic!("{other:?}"),
        };
        let slurm = ("PMIX_NAMESPACE", "slurm.pmix.9.0");
        assert!(!alone_in(&[slurm, ("SLURM_STEP_NUM_TASKS", "4")]));
        assert!(alone_in(&[slurm, ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_PROCID", "0")]));
        // Inside a Slurm step of one task, another launcher may still have started many.
        assert!(!alone_in(&[("PMIX_NAMESPACE", "prterun-n1-77@1"), ("SLURM_STEP_NUM_TASKS", "1")]));
    }

    #[test]
    fn what_is_wished_is_taken_or_told_to_be_absent() {
        let both = [
            ("PMIX_NAMESPACE", "x@1"),
            ("PMI_FD", "5"),
            ("PMI_RANK", "2"),
            ("PMI_SIZE", "4"),
            ("SLURM_PROCID", "2"),
            ("SLURM_STEP_NUM_TASKS", "4"),
        ];
        let inherited = |wire| Offer::Inherited { wire, socket: 5, rank: 2, size: 4 };
        assert_eq!(wanted_in(&both, Some(Protocol::Pmi1)).unwrap(), inherited(Wire::One));
        assert_eq!(wanted_in(&both, Some(Protocol::Pmi2)).unwrap(), inherited(Wire::Two));
        assert!(matches!(wanted_in(&both, Some(Protocol::Pmix)).unwrap(), Offer::Pmix { .. }));
        assert_eq!(wanted_in(&both, Some(Protocol::None)).unwrap(), Offer::Alone);
        for (wanted, missing) in
            [(Protocol::Pmi1, "PMI_FD"), (Protocol::Pmi2, "PMI_PORT"), (Protocol::Pmix, "PMIX_NAMESPACE")]
        {
            let error = wanted_in(&[], Some(wanted)).unwrap_err().to_string();
            let set = format!("WEFT_PROCESS_MANAGER={}", wanted.name());
            assert!(error.contains(missing) && error.contains(&set), "{error}");
            assert_eq!(Protocol::named(wanted.name()), Some(wanted));
        }
        assert_eq!(Protocol::named("pmi3"), None);
    }

    #[test]
    fn a_stated_size_without_connection_is_an_error() {
        for name in SIZE_VARIABLES {
            let error = offer_in(&[(name, "4")]).unwrap_err().to_string();
            assert!(error.contains(&format!("{name}=4")) && error.contains("weftrun"), "{error}");
            assert_eq!(offer_in(&[(name, "1")]).unwrap(), Offer::Alone);
        }
    }

    #[test]
    fn nonsense_is_told_with_the_variable_that_holds_it() {
        for (fd, rank, size, told) in [
            ("x", "0", "1", "PMI_FD is `x`"),
            ("5", "-1", "1", "PMI_RANK is `-1`"),
            ("5", "4", "4", "PMI_RANK is `4` with PMI_SIZE=4"),
            ("5", "0", "0", "PMI_RANK is `0` with PMI_SIZE=0"),
        ] {
            let error =
                offer_in(&[("PMI_FD", fd), ("PMI_RANK", rank), ("PMI_SIZE", size)]).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        let error = offer_in(&[("PMI_FD", "5")]).unwrap_err().to_string();
        assert!(error.contains("PMI_RANK is not set"), "{error}");
    }
}
