//! `weft explain lanes`: a program of the job it explains. Every rank tells rank 0 of its lanes, and rank 0
//! prints.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use weft::lanes::{LaneAccount, Large, Measured, Thoroughness};
use weft::{
    Besides, Communicator, Config, Constants, ConstantsFrom, FabricName, Found, Line, Peer, Rank, Session,
    Threads,
};

/// What a command comes to.
pub type Done = Result<(), Box<dyn Error>>;

/// Explains the lanes of the job that this process is a rank of; outside of a job, of one that it starts.
pub fn lanes(measure: bool) -> Done {
    if !JOB_VARIABLES.iter().any(|name| std::env::var_os(name).is_some()) {
        return Err(start_job());
    }
    let config = Config::from_environment()?;
    // What is measured anew need not be there, or be right.
    let constants = if measure { ConstantsFrom::BuiltIn } else { config.constants.clone() };
    let session = Session::start_with(&Config { constants, ..config.clone() }, Threads::One)?;
    let world = session.world();
    let accounts = gather(&world)?;
    if world.rank() == Rank(0) {
        print!("{}", head(&world));
        print!("{}", describe(&accounts));
        print!("{}", not_used(&config, &world.process().fabrics(), &accounts));
    }
    if measure {
        measure_and_keep(&world, &config)?;
    } else if let Some(found) = world.process().constants().filter(|_| world.rank() == Rank(0)) {
        print!("{}", costs(&found.constants, &origin(&found), None));
    }
    Ok(session.finish()?)
}

/// Becomes the launcher of two ranks that run this program again; returns only when that cannot be.
fn start_job() -> Box<dyn Error> {
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return format!("cannot find this program itself: {error}").into(),
    };
    let beside = own.with_file_name(LAUNCHER);
    let launcher = if beside.exists() { beside } else { PathBuf::from(LAUNCHER) };
    // What is looked at is not changed by the look.
    let mut job = Command::new(&launcher);
    job.env("WEFT_COSTS", "off");
    let error = job.args(["-n", "2"]).arg(own).args(std::env::args_os().skip(1)).exec();
    let what = format!("cannot start two ranks with {}: {error}", launcher.display());
    format!("{what}\n  start them with your own launcher, as: mpiexec -n 2 weft explain lanes").into()
}

/// The lanes from each rank to each other one, at rank 0: lines of text by sender and receiver.
fn gather(world: &Communicator) -> weft::Result<BTreeMap<(u32, u32), String>> {
    let (here, size) = (world.rank().0, world.size());
    // A lane is chosen at the first message.
    for distance in 1..size {
        let (to, from) = (Rank((here + distance) % size), Rank((here + size - distance) % size));
        world.exchange(&[0u8], to, &mut [0u8], from, GREETING)?;
    }
    let own = (0..size).filter(|other| *other != here).map(|other| {
        let account = world.process().lane(Peer(other));
        (other, account.map_or_else(|| "no lane was chosen".to_owned(), |account| story(&account)))
    });
    if here != 0 {
        let text: Vec<String> = own.map(|(_, story)| story).collect();
        world.send(text.join(BETWEEN).as_bytes(), Rank(0), STORIES)?;
        return Ok(BTreeMap::new());
    }
    let mut all: BTreeMap<(u32, u32), String> = own.map(|(other, story)| ((0, other), story)).collect();
    for from in 1..size {
        let (text, _) = world.receive::<u8>(Rank(from), STORIES)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let others = (0..size).filter(|other| *other != from);
        all.extend(others.zip(text.split(BETWEEN)).map(|(other, story)| ((from, other), story.to_owned())));
    }
    Ok(all)
}

/// One lane, in words; the first is the fabric's name.
fn story(account: &LaneAccount) -> String {
    let large = match &account.large {
        Large::Pulled { at_once_bytes_max, shared_bytes_min } => format!(
            "{}the receiver reads the sender's memory (CMA: tried, and allowed);\n  {:<16} from {shared_bytes_min} B on \
             the sender helps, and both copy at once",
            longer_at_once(account.eager_bytes_max, *at_once_bytes_max),
            ""
        ),
        Large::Copied { why } => format!("asked for, then copied through shared memory (CMA {why})"),
        Large::Read => "the receiver reads the sender's memory over the network".to_owned(),
        Large::Sent => "asked for, then sent".to_owned(),
    };
    let over = account.over.as_ref().map(|over| format!("  {:<16} {over}\n", "over")).unwrap_or_default();
    let eager = format!("up to {} B", account.eager_bytes_max);
    format!("{}\n{over}  {eager:<16} sent at once (eager)\n  {:<16} {large}", account.fabric, "above")
}

/// What is sent at once although it could be read.
fn longer_at_once(eager_bytes_max: usize, at_once_bytes_max: usize) -> String {
    if at_once_bytes_max <= eager_bytes_max {
        return String::new();
    }
    format!(
        "up to {at_once_bytes_max} B at once while there is room, as copies are quick now; else\n  {:<16} ",
        ""
    )
}

fn head(world: &Communicator) -> String {
    match world.size() {
        1 => "This job has one rank, so it has no lanes: start more, as: weftrun -n 2 weft explain lanes\n"
            .to_owned(),
        size => format!("Lanes between the {size} ranks of this job\n"),
    }
}

/// Each way of sending, with the pairs that use it.
fn describe(accounts: &BTreeMap<(u32, u32), String>) -> String {
    let mut pairs_of: BTreeMap<&str, Vec<(u32, u32)>> = BTreeMap::new();
    for (pair, story) in accounts {
        pairs_of.entry(story).or_default().push(*pair);
    }
    let mut told: Vec<(&str, Vec<(u32, u32)>)> = pairs_of.into_iter().collect();
    told.sort_by_key(|(_, pairs)| pairs[0]);
    let mut text = String::new();
    for (story, pairs) in &told {
        let who = if pairs.len() == accounts.len() { "all pairs".to_owned() } else { listed(pairs) };
        let (fabric, rest) = story.split_once('\n').unwrap_or((story, ""));
        let _ = writeln!(text, "{fabric}: {who}\n{rest}");
    }
    text
}

/// `0 to 1, 2; 3 to 1`, in the order of the pairs.
fn listed(pairs: &[(u32, u32)]) -> String {
    let mut receivers: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (from, to) in pairs {
        receivers.entry(*from).or_default().push(to.to_string());
    }
    let senders: Vec<String> =
        receivers.iter().map(|(from, to)| format!("{from} to {}", to.join(", "))).collect();
    format!("rank {}", senders.join("; "))
}

/// Every fabric that no pair uses, with the reason.
fn not_used(config: &Config, open: &[&str], accounts: &BTreeMap<(u32, u32), String>) -> String {
    let mut text = String::new();
    for (fabric, name) in
        [(FabricName::Shm, "shm"), (FabricName::Tcp, "tcp"), (FabricName::Libfabric, "libfabric")]
    {
        let uses = |story: &String| story.lines().next() == Some(name);
        if accounts.is_empty() || accounts.values().any(uses) {
            continue;
        }
        let why = match (config.allows(fabric), open.contains(&name)) {
            (false, _) if name == "libfabric" => "used only where WEFT_FABRIC (or --fabric) names it",
            (false, _) => "WEFT_FABRIC (or --fabric) leaves it out",
            (true, true) => "open, and costs more",
            (true, false) if name != "shm" => "not opened: all ranks share the memory of this node",
            (true, false) => "not opened: no two ranks here have memory in common",
        };
        let _ = writeln!(text, "{name}: not used\n  {why}");
    }
    text
}

fn measure_and_keep(world: &Communicator, config: &Config) -> Done {
    if world.size() < 2 || world.process().lane(Peer(u32::from(world.rank() == Rank(0)))).is_none() {
        return Err(
            "to measure takes two ranks\n  start them as: weftrun -n 2 weft explain lanes --measure".into()
        );
    }
    if world.rank().0 > 1 {
        return Ok(());
    }
    if world.process().constants().is_none() {
        let remedy = "allow shm (WEFT_FABRIC, --fabric), and start the ranks on one node";
        return Err(format!("there is nothing to measure: ranks 0 and 1 share no memory\n  {remedy}").into());
    }
    let measured = weft::lanes::measure(world, Rank(1), config, Thoroughness::Thorough)?;
    if world.rank() == Rank(0) {
        let constants = measured.constants()?;
        // What only the first job measures stays as it is.
        let before = config.constants.find().map(|found| found.besides).unwrap_or_default();
        let path = config.constants.keep(&constants, &Besides { is_of_first_use: false, ..before })?;
        print!(
            "{}",
            costs(&constants, &format!("measured now, kept in {}", path.display()), Some(&measured))
        );
        println!("Jobs that start from now on use them; remove the file to return to the built-in ones.");
    }
    Ok(())
}

fn origin(found: &Found) -> String {
    match &found.file {
        Some(file) if found.besides.is_of_first_use => {
            format!("measured when the first job started here, {}", file.display())
        }
        Some(file) => format!("measured, {}", file.display()),
        None if found.constants != Constants::BUILT_IN => {
            "built in, for where reads are slow; `weft explain lanes --measure` measures this machine"
                .to_owned()
        }
        None => "built in; `weft explain lanes --measure` measures this machine".to_owned(),
    }
}

/// The constants, the thresholds that follow, and the times they foretell beside those that were measured.
fn costs(constants: &Constants, origin: &str, measured: Option<&Measured>) -> String {
    let mut text = format!("What moving bytes costs within this node ({origin})\n");
    let line = |line: Line| {
        format!("{:.0} ns + {:.4} ns a byte ({:.1} GB/s)", line.fixed_ns, line.byte_ns, 1.0 / line.byte_ns)
    };
    let pull = constants.pull.map_or_else(|| "refused".to_owned(), line);
    let _ = writeln!(text, "  {:<28} {:.0} ns", "hand-over of a line", constants.hand_over_ns);
    let _ = writeln!(text, "  {:<28} {}", "copied through shared memory", line(constants.copy));
    let _ = writeln!(text, "  {:<28} {pull}", "read by the receiver (CMA)");
    let _ = writeln!(text, "Thresholds that follow");
    let eager = constants.eager_bytes_max();
    let _ = writeln!(text, "  {:<28} {eager} B", "eager to rendezvous");
    let _ = writeln!(
        text,
        "  {:<28} {}",
        "copy to CMA",
        match (constants.pull, constants.at_once_bytes_max()) {
            (None, _) => "never".to_owned(),
            (_, 0) => "the same: a receiver that is asked reads, where it may".to_owned(),
            (_, bytes) => format!(
                "{bytes} B, and half a ring, while it has room and copies are as quick; else the same"
            ),
        }
    );
    let _ = writeln!(text, "{:>10} {:>14} {:>14}", "bytes", "copied", "read");
    for bytes in SHOWN_BYTES {
        let copied = measured.map(|measured| &measured.copied);
        let read = measured.map(|measured| &measured.pulled);
        let before = constants.hand_over_ns;
        let copied = cell(Some(constants.copied_ns(bytes)), at(copied, bytes));
        let read = cell(constants.pulled_ns(bytes), at(read, bytes).map(|time| time + before));
        let _ = writeln!(text, "{bytes:>10} {copied:>14} {read:>14}");
    }
    let _ = writeln!(
        text,
        "  one way, in us{}",
        if measured.is_some() { ": by the model, and as measured" } else { "" }
    );
    text
}

fn at(times: Option<&Vec<(usize, f64)>>, bytes: usize) -> Option<f64> {
    times?.iter().find(|(size, _)| *size == bytes).map(|(_, time)| *time)
}

fn cell(model_ns: Option<f64>, measured_ns: Option<f64>) -> String {
    let microseconds =
        |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns / 1000.0));
    match measured_ns {
        Some(_) => format!("{} {}", microseconds(model_ns), microseconds(measured_ns)),
        None => microseconds(model_ns),
    }
}

/// Set for the ranks of a job, by whichever launcher.
const JOB_VARIABLES: [&str; 4] = ["PMI_FD", "PMI_PORT", "PMI_RANK", "PMIX_RANK"];
const LAUNCHER: &str = "weftrun";
const GREETING: i32 = 1;
const STORIES: i32 = 2;
/// No story has an empty line in it.
const BETWEEN: &str = "\n\n";
const SHOWN_BYTES: [usize; 6] = [2 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10];

#[cfg(test)]
mod tests {
    use super::*;

    fn account(fabric: &'static str, large: Large) -> String {
        let over = (fabric == "libfabric").then(|| "verbs;ofi_rxm on mlx5_0, helped by mlx5_1".to_owned());
        story(&LaneAccount { fabric, over, eager_bytes_max: 8192, large })
    }

    #[test]
    fn a_lane_over_libfabric_names_provider_and_cards() {
        let text = account("libfabric", Large::Read);
        let expected = "libfabric\n  over             verbs;ofi_rxm on mlx5_0, helped by mlx5_1\n  up to 8192 B     sent at \
                        once (eager)\n  above            the receiver reads the sender's memory over the network";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_goes_at_once_though_it_could_be_read_is_told() {
        let told = |at_once_bytes_max| {
            let text = account("shm", Large::Pulled { at_once_bytes_max, shared_bytes_min: 32_768 });
            (text.contains("up to 99999 B at once"), text.contains("the receiver reads"))
        };
        assert_eq!((told(0), told(99_999)), ((false, true), (true, true)));
        let slow = costs(&Constants::WHERE_READS_ARE_SLOW, "built in", None);
        assert!(slow.contains("262144 B, and half a ring, while it has room"), "{slow}");
    }

    #[test]
    fn pairs_that_go_the_same_way_are_told_together() {
        let refused = Large::Copied { why: "refused: the kernel says: EPERM".to_owned() };
        let (shm, tcp) = (account("shm", refused), account("tcp", Large::Sent));
        let pairs =
            [((0, 1), &shm), ((1, 0), &shm), ((0, 2), &tcp), ((1, 2), &tcp), ((2, 0), &tcp), ((2, 1), &tcp)];
        let accounts: BTreeMap<_, _> = pairs.map(|(pair, story)| (pair, story.clone())).into();
        let text = describe(&accounts);
        assert!(text.contains("shm: rank 0 to 1; 1 to 0\n  up to 8192 B"), "{text}");
        assert!(text.contains("CMA refused: the kernel says: EPERM"), "{text}");
        assert!(text.contains("tcp: rank 0 to 2; 1 to 2; 2 to 0, 1\n"), "{text}");
        // What a rank finds out about reads may differ from what the other one does.
        let quick = account("shm", Large::Pulled { at_once_bytes_max: 9000, shared_bytes_min: 1 });
        let each = BTreeMap::from([((0, 1), quick), ((1, 0), shm.clone())]);
        assert!(
            describe(&each).starts_with("shm: rank 0 to 1\n"),
            "in the order of ranks: {}",
            describe(&each)
        );
        let one_way: BTreeMap<_, _> = accounts.into_keys().map(|pair| (pair, tcp.clone())).collect();
        assert!(describe(&one_way).starts_with("tcp: all pairs\n"));
    }

    #[test]
    fn a_fabric_that_is_not_used_has_a_reason() {
        let accounts = |story: &String| BTreeMap::from([((0, 1), story.clone()), ((1, 0), story.clone())]);
        let (shm, tcp) = (
            account("shm", Large::Pulled { at_once_bytes_max: 0, shared_bytes_min: 32_768 }),
            account("tcp", Large::Sent),
        );
        let config = |list: &str| {
            Config::from_variables(&|name| (name == "WEFT_FABRIC").then(|| list.to_owned())).unwrap()
        };
        let told = |list, open: &[&str], story| not_used(&config(list), open, &accounts(story));
        assert!(told("shm,tcp", &["shm"], &shm).contains("tcp: not used\n  not opened: all ranks share"));
        assert!(told("shm,tcp", &["shm", "tcp"], &shm).contains("costs more"));
        assert!(told("tcp", &["tcp"], &tcp).contains("shm: not used\n  WEFT_FABRIC"));
        assert!(told("shm,tcp", &["tcp"], &tcp).contains("no two ranks here have memory"));
        assert_eq!(
            not_used(&config("tcp"), &["tcp"], &BTreeMap::new()),
            "",
            "a job of one rank uses nothing"
        );
    }

    #[test]
    fn costs_are_shown_with_what_was_measured() {
        let constants = Constants { pull: None, ..Constants::BUILT_IN };
        let text = costs(&constants, "built in", None);
        assert!(
            text.contains("read by the receiver (CMA)   refused") && text.contains("copy to CMA"),
            "{text}"
        );
        let measured =
            Measured { hand_over_ns: 60.0, copied: vec![(2048, 12_340.0)], pulled: vec![(2048, 900.0)] };
        let text = costs(&Constants::BUILT_IN, "now", Some(&measured));
        assert!(text.contains(" 12.34 ") && text.contains("as measured"), "{text}");
    }
}
