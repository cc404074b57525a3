//! Reading the environment: which launcher started this process, if any.
//!
//! Launchers nest, and leave their variables behind for programs that another launcher starts, so the order
//! matters: a connection that is handed over (`PMI_FD`, `PMI_PORT`) beats a mere statement of size. Where the
//! environment says that this is one of many tasks and no connection can be had, starting alone would give as
//! many jobs of one rank as there are tasks; that is always an error.

use std::os::fd::RawFd;

/// Looks up an environment variable; a function, so that a test needs no real environment.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What the environment offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// A connected socket was inherited.
    Inherited { socket: RawFd, rank: u32, size: u32 },
    /// A server listens for this process, which is number `id` to it.
    Listening { address: String, id: u32 },
    /// Nobody else is there.
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
         start it with `srun --mpi=pmi2`; for {tasks} separate jobs put `weftrun -n 1` before the program"
    )]
    Slurm {
        /// `SLURM_PROCID`.
        task: String,
        /// Tasks of the step.
        tasks: String,
    },
    /// Started by a launcher that offers PMIx only.
    #[error(
        "the launcher offers only PMIx (PMIX_NAMESPACE={namespace}), which this library does not speak\n\
         under Slurm use `srun --mpi=pmi2`; on one node use weftrun; elsewhere Hydra's mpiexec"
    )]
    PmixOnly {
        /// `PMIX_NAMESPACE`.
        namespace: String,
    },
    /// A launcher states a size above one but hands over no connection.
    #[error(
        "{name}={size} says that this is one of {size} processes, but the launcher offers no PMI connection\n\
         start the program with weftrun, `srun --mpi=pmi2` or Hydra's mpiexec; or unset {name} to run it alone"
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

/// Decides from the environment alone.
pub(crate) fn offer(variables: Variables<'_>) -> Result<Offer, StartError> {
    if variables("PMI_FD").is_some() {
        return inherited(variables);
    }
    if let Some(address) = variables("PMI_PORT") {
        return Ok(Offer::Listening { address, id: required(variables, "PMI_ID")? });
    }
    refuse_pmix(variables)?;
    refuse_stated_size(variables)?;
    refuse_slurm_task(variables)?;
    Ok(Offer::Alone)
}

fn inherited(variables: Variables<'_>) -> Result<Offer, StartError> {
    let socket = required(variables, "PMI_FD")?;
    let rank = required(variables, "PMI_RANK")?;
    let size = required(variables, "PMI_SIZE")?;
    if size <= rank {
        let found = format!("`{rank}` with PMI_SIZE={size}");
        return Err(StartError::Variable { name: "PMI_RANK", found, expected: "a rank below the size" });
    }
    Ok(Offer::Inherited { socket, rank, size })
}

fn required<N: std::str::FromStr>(variables: Variables<'_>, name: &'static str) -> Result<N, StartError> {
    let value = variables(name);
    value.as_deref().and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        let found = value.map_or_else(|| "not set".to_owned(), |text| format!("`{text}`"));
        StartError::Variable { name, found, expected: "a decimal number" }
    })
}

/// A PMIx namespace means a launcher that we cannot talk to, unless it also says that the job has one process.
fn refuse_pmix(variables: Variables<'_>) -> Result<(), StartError> {
    let Some(namespace) = variables("PMIX_NAMESPACE") else { return Ok(()) };
    let of_slurm = namespace.starts_with("slurm.pmix.");
    let size = variables(if of_slurm { "SLURM_STEP_NUM_TASKS" } else { "OMPI_COMM_WORLD_SIZE" });
    if size.as_deref() == Some("1") { Ok(()) } else { Err(StartError::PmixOnly { namespace }) }
}

fn refuse_stated_size(variables: Variables<'_>) -> Result<(), StartError> {
    for name in ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"] {
        match variables(name).and_then(|size| size.trim().parse().ok()) {
            Some(size) if 1 < size => return Err(StartError::NoConnection { name, size }),
            _ => {}
        }
    }
    Ok(())
}

/// A batch script and the shell of an allocation are told the tasks of the *job* (`SLURM_NTASKS`), yet run once;
/// what runs once per task is a step, and only a step carries `SLURM_STEP_ID`.
fn refuse_slurm_task(variables: Variables<'_>) -> Result<(), StartError> {
    let in_step = || variables("SLURM_STEP_ID").or_else(|| variables("SLURM_STEPID"));
    let tasks = variables("SLURM_STEP_NUM_TASKS").or_else(|| in_step().and(variables("SLURM_NTASKS")));
    match (variables("SLURM_PROCID"), tasks) {
        (Some(task), Some(tasks)) if tasks.trim() != "1" => Err(StartError::Slurm { task, tasks }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer_in(variables: &[(&str, &str)]) -> Result<Offer, StartError> {
        offer(&|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn nothing_said_is_alone() {
        assert_eq!(offer_in(&[]).unwrap(), Offer::Alone);
    }

    #[test]
    fn an_inherited_socket_is_taken() {
        let found = offer_in(&[("PMI_FD", "5"), ("PMI_RANK", "2"), ("PMI_SIZE", "4"), ("PMI_JOBID", "9.0")]);
        assert_eq!(found.unwrap(), Offer::Inherited { socket: 5, rank: 2, size: 4 });
    }

    #[test]
    fn a_port_is_taken_with_its_id() {
        let found = offer_in(&[("PMI_PORT", "n1:4711"), ("PMI_ID", "3")]);
        assert_eq!(found.unwrap(), Offer::Listening { address: "n1:4711".to_owned(), id: 3 });
        let error = offer_in(&[("PMI_PORT", "n1:4711")]).unwrap_err().to_string();
        assert!(error.contains("PMI_ID is not set"), "{error}");
    }

    #[test]
    fn a_nested_launcher_beats_what_surrounds_it() {
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_STEP_ID", "0")];
        let pmix = [("PMIX_NAMESPACE", "prterun-n1-77@1"), ("PMIX_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "8")];
        let inner = [("PMI_FD", "7"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")];
        let all = [&slurm[..], &pmix[..], &inner[..]].concat();
        assert_eq!(offer_in(&all).unwrap(), Offer::Inherited { socket: 7, rank: 0, size: 2 });
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
    fn pmix_alone_is_an_error_unless_the_job_has_one_process() {
        let pmix = [("PMIX_NAMESPACE", "slurm.pmix.9.0"), ("SLURM_STEP_NUM_TASKS", "4")];
        let error = offer_in(&pmix).unwrap_err().to_string();
        assert!(error.contains("slurm.pmix.9.0") && error.contains("--mpi=pmi2"), "{error}");
        let one =
            [("PMIX_NAMESPACE", "slurm.pmix.9.0"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_PROCID", "0")];
        assert_eq!(offer_in(&one).unwrap(), Offer::Alone);
        // Inside a Slurm step of one task, another launcher may still have started many.
        let nested = [("PMIX_NAMESPACE", "prterun-n1-77@1"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert!(matches!(offer_in(&nested), Err(StartError::PmixOnly { .. })));
    }

    #[test]
    fn a_stated_size_without_connection_is_an_error() {
        for name in ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"] {
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
