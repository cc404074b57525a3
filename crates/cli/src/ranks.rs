//! One rank's process, as its launcher holds it: how it is started, and the launcher's ends of what ties
//! them.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Rlimit};

use weft::launch::{FailureLogWriter, LivenessDescriptors, WaitStatesReader};

use crate::options::Input;
use crate::output::{Lines, Route};
use crate::plan::Plan;
use crate::spawn::{self, InheritedDescriptors};

/// A started rank.
#[derive(Debug)]
pub struct RankProcess {
    /// Its process, a child of this one.
    pub pid: Pid,
    /// The connection on which it speaks to the process manager; `None` once it has hung up.
    pub manager: Option<OwnedFd>,
    /// Its output and its errors, where they go through the launcher; `None` once they have ended.
    pub streams: [Option<Stream>; 2],
}

/// A stream of a rank on its way through the launcher.
#[derive(Debug)]
pub struct Stream {
    /// The end of the pipe that the launcher reads from, without waiting.
    pub pipe: OwnedFd,
    /// A file that gets a copy of the stream.
    pub copy: Option<File>,
    /// The buffer that cuts the stream into lines.
    pub lines: Lines,
}

/// The resources that all ranks of a job share.
#[derive(Debug)]
pub struct Shared {
    /// The memory that the ranks of this node have in common.
    pub segment: Option<OwnedFd>,
    /// The fabrics that are left where there can be no such memory.
    pub fabrics: Option<String>,
    /// The failure log, in a job whose surviving ranks go on: the launcher writes there which ranks have
    /// failed.
    pub failure_log: Option<FailureLogWriter>,
    /// The descriptors by which the launcher sees that a rank ends, in a job whose surviving ranks go on.
    pub liveness_descriptors: Option<Arc<LivenessDescriptors>>,
    /// How output and errors of each rank reach the launcher's.
    pub routes: [Route; 2],
    /// The memory in which ranks write what their calls wait for.
    pub wait_states: Option<WaitStatesReader>,
    /// The limit on open files that the launcher was started with.
    pub files_limit: Rlimit,
}

/// The memory that the ranks of a node have in common, and what a person should know of it.
#[derive(Debug, Default)]
pub struct Memory {
    /// The memory.
    pub segment: Option<OwnedFd>,
    /// The fabrics that are left where it cannot be had.
    pub fabrics: Option<String>,
    /// A remark for the user where the memory is not as usual, in one line.
    pub notice: Option<String>,
}

/// Memory for all ranks, made once per job and handed to each by number. A rank alone needs none, and neither
/// do ranks that may not use it; those of several parts of this node make their own. Where the system forbids
/// it, other fabrics serve.
pub fn memory(plan: &Plan) -> io::Result<Memory> {
    if plan.ranks == 1 || !plan.shares_memory || plan.ranks_per_node < plan.ranks {
        return Ok(Memory::default());
    }
    let made = weft::launch::create_segment(plan.ranks + plan.restarts);
    let refusal = weft::launch::memfd_refusal().map(|why| format!("memfd_create is refused here ({why})"));
    match (made, refusal) {
        (Ok(file), refusal) => Ok(Memory {
            segment: Some(file),
            fabrics: None,
            notice: refusal
                .map(|refused| format!("{refused}: ranks share an unlinked file on a tmpfs instead")),
        }),
        (Err(error), Some(refused)) => {
            let fabrics = other_fabrics(plan).ok_or_else(|| io::Error::other(error))?;
            let notice = format!("{refused}, and no tmpfs serves instead: messages go over {fabrics}");
            Ok(Memory { segment: None, fabrics: Some(fabrics), notice: Some(notice) })
        }
        (Err(error), None) => Err(io::Error::other(error)),
    }
}

/// What is allowed beside shared memory, if anything is.
fn other_fabrics(plan: &Plan) -> Option<String> {
    // All programs of a job have the same.
    let list = plan.programs[0].variable(&plan.environment, FABRIC).unwrap_or_default();
    let list = list.to_string_lossy();
    let others: Vec<&str> = list.split(',').map(str::trim).filter(|name| *name != "shm").collect();
    match (list.trim().is_empty(), others.join(",")) {
        (true, _) => Some("tcp".to_owned()),
        (false, others) => Some(others).filter(|others| !others.is_empty()),
    }
}

/// Makes the failure log of a job, in which ranks read which ranks have failed. `None` where surviving ranks
/// do not go on.
pub fn failure_log(plan: &Plan, segment: Option<&OwnedFd>) -> io::Result<Option<FailureLogWriter>> {
    if !plan.survives {
        return Ok(None);
    }
    // It is adopted with a description of its own, as every process does.
    let segment =
        segment.map(|file| weft::launch::anew(file.as_raw_fd())).transpose().map_err(io::Error::from)?;
    FailureLogWriter::create(plan.ranks + plan.restarts, segment).map(Some).map_err(io::Error::other)
}

/// Makes the descriptors by which the launcher sees that a rank of the job ends. `None` where surviving ranks
/// do not go on.
pub fn liveness_descriptors(plan: &Plan) -> io::Result<Option<Arc<LivenessDescriptors>>> {
    if !plan.survives {
        return Ok(None);
    }
    LivenessDescriptors::create(plan.ranks + plan.restarts)
        .map(|liveness_descriptors| Some(Arc::new(liveness_descriptors)))
        .map_err(io::Error::other)
}

/// Makes the memory in which the launcher reads what the calls of ranks wait for. `None` where there is no
/// memory for it: the job does well without.
pub fn wait_states(plan: &Plan) -> Option<WaitStatesReader> {
    WaitStatesReader::create(plan.ranks + plan.restarts).ok()
}

/// Starts `rank` of the planned job. `again` are the facts that a process is told which is started in the
/// place of a failed one.
pub fn start(plan: &Plan, rank: u32, shared: &Shared, again: Option<&str>) -> io::Result<RankProcess> {
    let program = plan.program_of(rank);
    let mut command = Command::new(&program.file);
    command.arg0(&program.command[0]).args(&program.command[1..]);
    if let Some(folder) = &program.folder {
        command.current_dir(folder);
    }
    command.stdin(input(plan, rank)?);
    let connected = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = connected.map_err(not_connected)?;
    set_environment(&mut command, plan, rank, theirs.as_raw_fd(), shared);
    match again {
        Some(told) => command.env(REBUILT, told),
        None => command.env_remove(REBUILT),
    };
    let streams = streams(&mut command, plan, rank, shared)?;
    let failure_log = shared.failure_log.iter().flat_map(FailureLogWriter::files);
    let liveness_descriptors = shared.liveness_descriptors.as_deref().map(LivenessDescriptors::file);
    let wait_states = shared.wait_states.as_ref().map(WaitStatesReader::file);
    let descriptors = std::iter::once(&theirs)
        .chain(&shared.segment)
        .map(AsFd::as_fd)
        .chain(failure_log)
        .chain(liveness_descriptors)
        .chain(wait_states)
        .collect();
    let cpus = plan.binding.as_ref().map(|sets| sets[rank as usize]);
    let child = spawn::start(
        &mut command,
        InheritedDescriptors { descriptors, cpus, files_limit: shared.files_limit },
    )?;
    Ok(RankProcess { pid: Pid::from_child(&child), manager: Some(ours), streams })
}

/// A shortage keeps its number, by which it is told what to do.
fn not_connected(errno: Errno) -> io::Error {
    match errno {
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => errno.into(),
        _ => io::Error::other(format!("connecting it to its process manager (socketpair): {errno}")),
    }
}

/// The launcher's ends of the streams that go through it; `command` gets the others.
fn pipe_streams(
    command: &mut Command,
    plan: &Plan,
    rank: u32,
    [output, errors]: [Route; 2],
) -> io::Result<[Option<Stream>; 2]> {
    let mut streams = [None, None];
    let label = || plan.label.then(|| format!("[{rank}] "));
    if output == Route::Piped {
        let (stream, writer) = stream(label())?;
        if errors == Route::WithOutput {
            command.stderr(writer.try_clone()?);
        }
        command.stdout(writer);
        streams[0] = Some(stream);
    }
    if errors == Route::Piped {
        let (stream, writer) = stream(label())?;
        command.stderr(writer);
        streams[1] = Some(stream);
    }
    Ok(streams)
}

/// What a rank reads.
fn input(plan: &Plan, rank: u32) -> io::Result<Stdio> {
    match plan.input {
        Input::Rank(reader) if reader == rank => Ok(Stdio::inherit()),
        // Opened anew, so that each rank begins at the beginning.
        Input::All => File::open("/proc/self/fd/0").map(Stdio::from),
        Input::Rank(_) | Input::None => Ok(Stdio::null()),
    }
}

/// The launcher's ends of the streams that go through it, where some go to files.
fn streams(
    command: &mut Command,
    plan: &Plan,
    rank: u32,
    shared: &Shared,
) -> io::Result<[Option<Stream>; 2]> {
    let open = |kind| plan.files.open(kind, rank, &plan.host, plan.launcher.as_raw_pid());
    let [output, errors] = [open(0)?, open(1)?];
    let is_file = [output.is_some(), errors.is_some()];
    let streams = pipe_streams(command, plan, rank, plan.files.routes(is_file, shared.routes))?;
    let [mut out, mut err] = streams;
    if plan.files.copies {
        out.iter_mut()
            .for_each(|stream| stream.copy = output.as_ref().and_then(|file| file.try_clone().ok()));
        err.iter_mut()
            .for_each(|stream| stream.copy = errors.as_ref().and_then(|file| file.try_clone().ok()));
        return Ok([out, err]);
    }
    if let Some(file) = output {
        command.stdout(file);
    }
    if let Some(file) = errors {
        command.stderr(file);
    }
    Ok([out, err])
}

/// A stream, and the end that the rank writes to.
fn stream(label: Option<String>) -> io::Result<(Stream, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // Only this end: the rank's own writes shall wait as they do for any pipe.
    fcntl_setfl(&reader, OFlags::NONBLOCK)?;
    Ok((Stream { pipe: reader, copy: None, lines: Lines::new(label) }, writer))
}

fn set_environment(command: &mut Command, plan: &Plan, rank: u32, manager: i32, shared: &Shared) {
    let program = plan.program_of(rank);
    let is_kept = |name: &OsString| !is_of_another_launcher(name) && program.environment.passes(name);
    for name in std::env::vars_os().map(|(name, _)| name).filter(|name| !is_kept(name)) {
        command.env_remove(name);
    }
    command.envs(program.environment.set.iter().map(|(name, value)| (name, value)));
    command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
    if plan.is_engine {
        return;
    }
    if let Some(path) = library_path(command) {
        command.env(LIBRARY_PATH, path);
    }
    let node = rank / plan.ranks_per_node;
    let first = node * plan.ranks_per_node;
    let here = plan.ranks_per_node.min(plan.ranks - first);
    for (name, value) in [
        ("PMI_FD", i64::from(manager)),
        ("PMI_RANK", i64::from(rank)),
        ("PMI_SIZE", i64::from(plan.ranks)),
        // Scripts use these to choose a device for each rank of a node.
        ("MPI_LOCALRANKID", i64::from(rank - first)),
        ("MPI_LOCALNRANKS", i64::from(here)),
        ("WEFT_LAUNCHER", i64::from(plan.launcher.as_raw_pid())),
    ] {
        command.env(name, value.to_string());
    }
    if let Some(cpus) = plan.cpus {
        // The parts of a node share its cpus, and their ranks know of none but their own part.
        let share = u64::from(cpus.hundredths) * u64::from(here) / u64::from(plan.ranks);
        command.env("WEFT_CPUS", weft::CpuTime { hundredths: share as u32 }.to_string());
    }
    if let Some(fabrics) = &shared.fabrics {
        command.env(FABRIC, fabrics);
    }
    if let Some(segment) = &shared.segment {
        command.env("WEFT_SHM_FD", segment.as_raw_fd().to_string());
    }
    if plan.ranks_per_node < plan.ranks {
        command.env("WEFT_NODE", node.to_string());
    }
    if plan.restarts > 0 {
        command.env("WEFT_RESTARTS", plan.restarts.to_string());
    }
    if let Some(failure_log) = &shared.failure_log {
        command.env("WEFT_FAILURES_FD", failure_log.file().as_raw_fd().to_string());
    }
    if let Some(liveness_descriptors) = &shared.liveness_descriptors {
        command.env("WEFT_PULSES_FD", liveness_descriptors.file().as_raw_fd().to_string());
    }
    if let Some(wait_states) = &shared.wait_states {
        command.env("WEFT_WAIT_STATES_FD", wait_states.file().as_raw_fd().to_string());
    }
}

/// Where ranks look for libraries: behind all that the user has named in this launcher's own folder, for
/// programs that were built without the path to it. Nothing where that is so already, or the folder holds no
/// library of ours.
fn library_path(command: &Command) -> Option<OsString> {
    let folder = std::env::current_exe().ok()?.parent()?.parent()?.join("lib");
    if !folder.join(LIBRARY).exists() {
        return None;
    }
    let set = command
        .get_envs()
        .find(|(name, _)| *name == LIBRARY_PATH)
        .map(|(_, value)| value.map(OsString::from));
    let named = set.unwrap_or_else(|| std::env::var_os(LIBRARY_PATH)).unwrap_or_default();
    if named.is_empty() {
        return Some(folder.into());
    }
    let mut path = named.clone();
    path.push(":");
    path.push(&folder);
    (!std::env::split_paths(&named).any(|known| known == folder)).then_some(path)
}

/// A job started inside another one must not see the outer one's place in it.
fn is_of_another_launcher(name: &OsString) -> bool {
    let Some(name) = name.to_str() else { return false };
    OUTER_NAMES.contains(&name) || OUTER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
const LIBRARY: &str = "libmpi_abi.so.1";

/// Names the fabrics that are allowed.
const FABRIC: &str = "WEFT_FABRIC";

/// What a process is told that comes into the place of another.
const REBUILT: &str = "WEFT_REBUILT";

const OUTER_NAMES: [&str; 20] = [
    "WEFT_APPNUM",
    "WEFT_NODE",
    "WEFT_PARTS",
    "PMI_FD",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_PORT",
    "PMI_ID",
    "PMI_JOBID",
    "PMI_SPAWNED",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "HYDI_CONTROL_FD",
    "WEFT_SHM_FD",
    "WEFT_FAILURES_FD",
    "WEFT_PULSES_FD",
    "WEFT_WAIT_STATES_FD",
    "WEFT_RESTARTS",
    REBUILT,
    "WEFT_CPUS",
];

const OUTER_PREFIXES: [&str; 2] = ["PMIX_SERVER_", "OMPI_COMM_WORLD_"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Claims;
    use crate::options::environment::Environment;
    use crate::plan::Program;
    use rustix::fs::{MemfdFlags, memfd_create};
    use rustix::process::{Resource, WaitOptions, getpid, getrlimit, waitpid};

    fn plan(script: &str) -> Plan {
        Plan {
            name: "weftrun".to_owned(),
            launcher: getpid(),
            host: "n1".to_owned(),
            programs: vec![Program {
                file: "/bin/sh".into(),
                command: ["sh", "-c", script].map(OsString::from).to_vec(),
                ranks: 4,
                folder: None,
                environment: Environment::default(),
            }],
            ranks: 4,
            ranks_per_node: 4,
            universe: Some(4),
            environment: vec![("COLOUR".into(), "blue".into())],
            binding: None,
            unbound: None,
            claims: Claims::default(),
            places: None,
            reports_bindings: false,
            cpus: Some(weft::CpuTime::of(1.5)),
            shares_memory: true,
            survives: false,
            restarts: 0,
            label: false,
            files: crate::files::Files::default(),
            input: Input::Rank(0),
            is_engine: false,
            timeout: None,
            verbose: false,
        }
    }

    fn status(script: &str, segment: Option<OwnedFd>) -> Option<i32> {
        let shared = Shared { segment, ..nothing_shared() };
        let rank = start(&plan(script), 2, &shared, None).unwrap();
        let (_, status) = waitpid(Some(rank.pid), WaitOptions::empty()).unwrap().unwrap();
        status.exit_status()
    }

    /// What ranks get that share nothing and write where the test writes.
    fn nothing_shared() -> Shared {
        Shared {
            segment: None,
            fabrics: None,
            failure_log: None,
            liveness_descriptors: None,
            routes: [Route::Inherited; 2],
            wait_states: None,
            files_limit: getrlimit(Resource::Nofile),
        }
    }

    #[test]
    fn a_rank_knows_its_place() {
        let known =
            r#"test "$PMI_RANK $PMI_SIZE $MPI_LOCALRANKID $MPI_LOCALNRANKS $COLOUR" = "2 4 2 4 blue""#;
        assert_eq!(status(known, None), Some(0));
        assert_eq!(status(r#"test -S /proc/self/fd/$PMI_FD"#, None), Some(0));
        assert_eq!(status(r#"test -z "$WEFT_SHM_FD""#, None), Some(0));
        assert_eq!(status(r#"test "$WEFT_CPUS" = 1.50"#, None), Some(0));
        assert_eq!(status(&format!("test $WEFT_LAUNCHER = {}", getpid()), None), Some(0));
    }

    #[test]
    fn a_rank_knows_its_part_of_the_node() {
        let known = r#"test "$WEFT_NODE $MPI_LOCALRANKID $MPI_LOCALNRANKS $WEFT_CPUS" = "0 2 3 1.12""#;
        let shared = nothing_shared();
        for (rank, known) in [
            (2, known),
            (3, r#"test "$WEFT_NODE $MPI_LOCALRANKID $MPI_LOCALNRANKS $WEFT_CPUS" = "1 0 1 0.37""#),
        ] {
            let rank = start(&Plan { ranks_per_node: 3, ..plan(known) }, rank, &shared, None).unwrap();
            let (_, ended) = waitpid(Some(rank.pid), WaitOptions::empty()).unwrap().unwrap();
            assert_eq!(ended.exit_status(), Some(0));
        }
        assert_eq!(status(r#"test -z "$WEFT_NODE""#, None), Some(0));
        assert!(memory(&Plan { ranks_per_node: 3, ..plan("") }).unwrap().segment.is_none());
    }

    #[test]
    fn who_comes_into_the_place_of_another_is_told_so() {
        let shared = nothing_shared();
        let plan =
            Plan { restarts: 3, ..plan(r#"test "$WEFT_REBUILT $WEFT_RESTARTS $PMI_RANK" = "it 3 1""#) };
        for (again, status) in [(Some("it"), 0), (None, 1)] {
            let rank = start(&plan, 1, &shared, again).unwrap();
            let (_, ended) = waitpid(Some(rank.pid), WaitOptions::empty()).unwrap().unwrap();
            assert_eq!(ended.exit_status(), Some(status));
        }
    }

    #[test]
    fn a_rank_can_read_the_segment_by_its_number() {
        let segment = memfd_create("segment", MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&segment, b"common ground").unwrap();
        let read = r#"test "$(cat /proc/self/fd/$WEFT_SHM_FD)" = "common ground""#;
        assert_eq!(status(read, Some(segment)), Some(0));
    }

    #[test]
    fn a_segment_is_made_only_where_ranks_can_share_it() {
        let made = |ranks, shares_memory| {
            memory(&Plan { ranks, shares_memory, ..plan("") }).unwrap().segment.is_some()
        };
        assert!(made(4, true));
        assert!(!made(4, false), "the fabrics that may be used do not include shared memory");
        assert!(!made(1, true), "one rank has nobody to share with");
    }

    #[test]
    fn variables_of_other_launchers_are_known() {
        for name in ["WEFT_CPUS", "PMIX_RANK", "PMIX_SERVER_URI41", "OMPI_COMM_WORLD_SIZE", "PMI_SPAWNED"] {
            assert!(is_of_another_launcher(&name.into()), "{name}");
        }
        for name in ["PATH", "PMIX_MCA_x", "SLURM_PROCID", "WEFT_FABRIC"] {
            assert!(!is_of_another_launcher(&name.into()), "{name}");
        }
    }
}
