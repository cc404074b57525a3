//! `weft explain allreduce 1MiB -n 64`: which algorithms there are for a collective operation, what each is
//! predicted to take, which one is chosen, and what a rank does in it; without a job.

use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;

use clap::{Args, Subcommand};
use topology::Machine;
use weft::collectives::node::{self, ChoiceInputs, SegmentAlgorithm, SegmentChoices};
use weft::collectives::{
    Candidate, Collective, Cores, Costs, Each, Forecast, Hierarchy, HierarchyLevel, Link, Operator,
    Reduction, Rooted, Schedule, Shape, TuningConfig, forecast,
};
use weft::{Besides, Config, CostsFrom, Found, Rank};

use crate::explain::Done;
use crate::parts;

/// A collective operation to explain.
#[derive(Debug, Subcommand)]
pub enum Operation {
    /// How a barrier goes
    Barrier(AlgorithmRequest),
    /// How a vector of that length goes from one rank to all
    Bcast(AlgorithmRequest),
    /// How a block of that length comes from each rank to one
    Gather(AlgorithmRequest),
    /// How a block of that length goes to each rank from one
    Scatter(AlgorithmRequest),
    /// How a block of that length goes from each rank to all
    Allgather(AlgorithmRequest),
    /// How a block of that length goes from each rank to each
    Alltoall(AlgorithmRequest),
    /// How vectors of that length are reduced to one rank
    Reduce(AlgorithmRequest),
    /// How vectors of that length are reduced to all ranks
    Allreduce(AlgorithmRequest),
    /// How a block of that length is reduced to each rank
    #[command(name = "reduce_scatter", alias = "reduce-scatter")]
    ReduceScatter(AlgorithmRequest),
    /// How vectors of that length are reduced up to each rank
    Scan(AlgorithmRequest),
    /// How vectors of that length are reduced up to before each rank
    Exscan(AlgorithmRequest),
}

/// What is asked about it.
#[derive(Debug, Args)]
pub struct AlgorithmRequest {
    /// How many bytes, as 8, 64k or 1MiB
    #[arg(value_name = "BYTES", default_value = "0", value_parser = bytes)]
    bytes: usize,
    /// How many ranks
    #[arg(short = 'n', long = "ranks", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: u32,
    /// On how many nodes, which they fill evenly in order
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    nodes: u32,
    /// On how many packages of each node, which they fill evenly in order
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    packages: u32,
    /// What each node is, as "pack:2 numa:2 l3:4 core:8 pu:1", or a file of lstopo's; its ranks take cpus in
    /// order
    #[arg(long, value_name = "DESCRIPTION", conflicts_with = "packages")]
    machine: Option<String>,
    /// Whose steps to show
    #[arg(long, value_name = "RANK", default_value = "0")]
    rank: u32,
    /// Who has it all, where one rank has
    #[arg(long, value_name = "RANK", default_value = "0")]
    root: u32,
    /// The algorithm whose steps to show, in place of the one that is chosen
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// The ranks share cores
    #[arg(long)]
    shared_cores: bool,
    /// The operator does not commute
    #[arg(long)]
    ordered: bool,
    /// Length of an element in bytes
    #[arg(long, value_name = "BYTES", default_value = "8", value_parser = clap::value_parser!(u32).range(1..))]
    element: u32,
    /// Show all steps, however many they are
    #[arg(long)]
    all_steps: bool,
}

/// Prints the costs in use, as a file.
///
/// # Errors
/// Where they cannot be read.
pub fn costs() -> Done {
    let config = Config::from_environment()?;
    let costs = config.costs.find(&config.constants)?;
    print!("{}", origins(&config, &costs));
    println!(
        "# node, cache, numa, package, network: latency, a byte of a message sent at once, the longest such, asking, a byte of a longer one"
    );
    println!(
        "# copy, combine: fixed, a byte; step: each end of a message; turn: from rank to rank of a core; all in ns"
    );
    print!("{}", costs.encode());
    Ok(())
}

/// Explains a collective operation.
///
/// # Errors
/// Which argument makes no sense.
pub fn show(operation: &Operation) -> Done {
    let (asked, collective) = operation.described();
    for (option, rank) in [("--rank", asked.rank), ("--root", asked.root)] {
        if rank >= asked.ranks {
            return Err(
                format!("{option} {rank} is not among {} ranks\n  give one from 0 on", asked.ranks).into()
            );
        }
    }
    let config = Config::from_environment()?;
    let costs = config.costs.find(&config.constants)?;
    let guide: &'static TuningConfig = Box::leak(Box::new(TuningConfig::new(costs, config.forced)));
    let cores = if asked.shared_cores { Cores::Shared } else { Cores::Own };
    let shape = Shape::new(Rank(asked.rank), asked.ranks).on(cores).guided_by(guide);
    let seats = seats(asked)?;
    let text = explain(asked, &collective, &seated(&seats, shape), seats.as_ref(), &origin(&config, &costs))?;
    match std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Where the ranks sit, as asked; nothing where all sit together.
fn seats(asked: &AlgorithmRequest) -> Result<Option<Hierarchy>, Box<dyn Error>> {
    let (ranks, nodes) = (asked.ranks, asked.nodes.min(asked.ranks));
    let machine = asked.machine.as_deref().map(Machine::described).transpose();
    let machine = machine.map_err(|error| format!("--machine: {error}\n  {}", error.remedy()))?;
    let part = |rank: u32, border: HierarchyLevel| {
        let (node, number, of_node) = dealt(rank, ranks, nodes);
        match (border, &machine) {
            (HierarchyLevel::Node, _) => Some(node),
            (_, Some(machine)) => parts::described(machine, border, number),
            (HierarchyLevel::Package, None) => Some(dealt(number, of_node, asked.packages.min(of_node)).0),
            _ => None,
        }
    };
    let kinds =
        HierarchyLevel::ALL.into_iter().filter(|border| part(0, *border).is_some()).collect::<Vec<_>>();
    Ok(Hierarchy::by_parts(ranks, &kinds, part).filter(|seats| seats.widest().is_some()))
}

/// Where one of some ranks is that fill so many places in order, the first ones with one more where it does
/// not come out even: in which, as which one there, and of how many.
fn dealt(rank: u32, ranks: u32, places: u32) -> (u32, u32, u32) {
    let (each, larger) = (ranks / places, ranks % places);
    let in_larger = larger * (each + 1);
    if rank < in_larger {
        return (rank / (each + 1), rank % (each + 1), each + 1);
    }
    (larger + (rank - in_larger) / each, (rank - in_larger) % each, each)
}

/// The shape of ranks that sit so.
fn seated(seats: &Option<Hierarchy>, shape: Shape) -> Shape {
    match seats {
        Some(seats) => {
            let counting = seats.clone().counting(&shape.guide().costs, shape.cores());
            shape.nested(Arc::new(counting))
        }
        None => shape,
    }
}

/// `one node of 2 packages, 8 caches`.
fn places(shape: &Shape, seats: Option<&Hierarchy>) -> String {
    let kinds =
        seats.into_iter().flat_map(Hierarchy::kinds).filter(|(border, _)| *border != HierarchyLevel::Node);
    let kinds: Vec<String> = kinds.map(|(border, parts)| format!("{parts} {}s", border.part())).collect();
    let nodes = if shape.nodes() == 1 { "one node".to_owned() } else { format!("{} nodes", shape.nodes()) };
    if kinds.is_empty() { nodes } else { format!("{nodes} of {}", kinds.join(", ")) }
}

/// What lies between the ranks and what it costs, and what does not count.
fn borders(text: &mut String, shape: &Shape, seats: &Hierarchy) {
    let costs = &shape.guide().costs;
    let counts = |border: HierarchyLevel| {
        shape.hierarchy().is_some_and(|hierarchy| hierarchy.kinds().any(|kind| kind.0 == border))
    };
    let (counting, others): (Vec<HierarchyLevel>, Vec<HierarchyLevel>) =
        seats.kinds().map(|kind| kind.0).partition(|border| counts(*border));
    let mut line = |what: String, link: &Link| {
        let Link { latency_ns, byte_ns, .. } = link;
        let _ = writeln!(text, "  {what:<20} {latency_ns:>8.0} ns {byte_ns:>8.3} ns a byte of long messages");
    };
    if counting.iter().any(|border| *border != HierarchyLevel::Node) {
        counting.iter().for_each(|border| line(format!("between {}s", border.part()), costs.over(*border)));
        line("within all of these".to_owned(), &costs.node);
    }
    if !others.is_empty() {
        let why = match shape.cores() {
            Cores::Shared => "ranks share cores",
            Cores::Own => "the costs have no line for them",
        };
        let names: Vec<String> = others.iter().map(|border| format!("{}s", border.part())).collect();
        let _ = writeln!(text, "{} do not count, since {why}", names.join(" and "));
    }
}

/// Where the costs come from, in a few words.
fn origin(config: &Config, costs: &Costs) -> String {
    match &config.costs {
        CostsFrom::File(path) => format!("costs of {}", path.display()),
        CostsFrom::Text(_) => "costs of WEFT_COSTS".to_owned(),
        CostsFrom::Usual if *costs != Costs::BUILT_IN => match measured(config) {
            Some(found) if found.besides.is_of_first_use => {
                "costs as measured for the first job here".to_owned()
            }
            _ => "built-in costs, those of the node as measured (weft explain lanes)".to_owned(),
        },
        CostsFrom::Usual | CostsFrom::BuiltIn => "built-in costs".to_owned(),
    }
}

/// What was measured here, if it counts.
fn measured(config: &Config) -> Option<Found> {
    let found = config.constants.find().ok()?;
    (config.costs == CostsFrom::Usual && found.file.is_some()).then_some(found)
}

/// Where each line of the costs comes from, for people.
fn origins(config: &Config, costs: &Costs) -> String {
    let mut text = format!("# {}\n", origin(config, costs));
    let Some(found) = measured(config) else { return text };
    let Besides { over, step_ns, is_of_first_use } = &found.besides;
    let when = if *is_of_first_use { "for the first job here" } else { "by weft explain lanes --measure" };
    let file = found.file.as_ref().map_or_else(String::new, |file| format!(", {}", file.display()));
    let _ = writeln!(text, "# node: measured {when}{file}");
    let borders = over.iter().map(|(border, _)| (border.part(), costs.told(*border).is_some()));
    for (name, counts) in borders {
        let why =
            if counts { "measured for the first job here" } else { "measured, and as within one: no line" };
        let _ = writeln!(text, "# between {name}s: {why}");
    }
    let (step, others) = match step_ns {
        Some(_) => ("# step: measured for the first job here\n", "network"),
        None => ("", "step, network"),
    };
    let _ = writeln!(text, "{step}# {others}, copy, combine, turn: built in");
    text
}

impl Operation {
    fn described(&self) -> (&AlgorithmRequest, Collective) {
        let rooted =
            |asked: &AlgorithmRequest| Rooted { root: Rank(asked.root), bytes: asked.bytes, in_place: false };
        let each = |asked: &AlgorithmRequest| Each { bytes: asked.bytes, in_place: false };
        let reduction = |asked: &AlgorithmRequest| {
            let element_bytes = asked.element as usize;
            let operator = Operator { element_bytes, commutative: !asked.ordered };
            Reduction { count: asked.bytes.div_ceil(element_bytes), operator, in_place: false }
        };
        match self {
            Operation::Barrier(asked) => (asked, Collective::Barrier),
            Operation::Bcast(asked) => {
                (asked, Collective::Bcast { root: Rank(asked.root), bytes: asked.bytes })
            }
            Operation::Gather(asked) => (asked, Collective::Gather(rooted(asked))),
            Operation::Scatter(asked) => (asked, Collective::Scatter(rooted(asked))),
            Operation::Allgather(asked) => (asked, Collective::Allgather(each(asked))),
            Operation::Alltoall(asked) => (asked, Collective::Alltoall(each(asked))),
            Operation::Reduce(asked) => (asked, Collective::Reduce(Rank(asked.root), reduction(asked))),
            Operation::Allreduce(asked) => (asked, Collective::Allreduce(reduction(asked))),
            Operation::ReduceScatter(asked) => (asked, Collective::ReduceScatterBlock(reduction(asked))),
            Operation::Scan(asked) => (asked, Collective::Scan(reduction(asked))),
            Operation::Exscan(asked) => (asked, Collective::Exscan(reduction(asked))),
        }
    }
}

fn explain(
    asked: &AlgorithmRequest,
    collective: &Collective,
    shape: &Shape,
    seats: Option<&Hierarchy>,
    origin: &str,
) -> Result<String, Box<dyn Error>> {
    let operation = collective.operation();
    let length =
        if *collective == Collective::Barrier { String::new() } else { format!(" of {} B", asked.bytes) };
    let nodes = places(shape, seats);
    let shared = if asked.shared_cores { ", which share cores" } else { "" };
    let mut text = format!("{operation}{length}, {} ranks on {nodes}{shared}; {origin}\n", asked.ranks);
    if let Some(seats) = seats {
        borders(&mut text, shape, seats);
    }
    let candidates = collective.candidates(shape);
    let chosen = collective.chosen(shape);
    if let Some(chosen) = chosen {
        table(&mut text, collective, shape, &candidates, chosen);
        let why = match collective.is_forced(shape) {
            true => "asked for by WEFT_COLLECTIVE",
            false => "the least by its formula",
        };
        let _ = writeln!(text, "* {chosen}: chosen, {why}");
    } else {
        let _ = writeln!(text, "{operation} has one algorithm only");
        if let Some(forecast) = predict(shape, |shape| Some(collective.schedule(shape))) {
            let _ = writeln!(
                text,
                "{} messages in {} rounds, {}",
                forecast.messages,
                forecast.rounds,
                time(forecast.ns)
            );
        }
    }
    if let Some(chosen) = through_memory(asked, collective, shape) {
        let since = if chosen.at_once { "the first" } else { "the fourth" };
        let predicted =
            chosen.predicted_ns(*collective, shape).map(|ns| format!(", by formula {}", time(ns)));
        let _ = writeln!(
            text,
            "Blocking ones go through memory that all ranks share instead ({}{}), from {since} on a communicator on: see \"What is not \
             predicted\" in docs/collectives.md",
            chosen.way().0,
            predicted.unwrap_or_default()
        );
    }
    let schedule = match &asked.by {
        None => collective.schedule(shape),
        Some(name) => collective.schedule_by(shape, name).ok_or_else(|| {
            let names: Vec<&str> = candidates.iter().map(|candidate| candidate.name).collect();
            format!("{operation} has no algorithm {name:?}\n  choose from {}", names.join(", "))
        })?,
    };
    steps(&mut text, asked, &schedule);
    Ok(text)
}

/// How blocking operations on one node go by no schedule, if they do. Those whose order of operands matters
/// have operators of the program, which go by messages.
fn through_memory(
    asked: &AlgorithmRequest,
    collective: &Collective,
    shape: &Shape,
) -> Option<SegmentAlgorithm> {
    let setting = ChoiceInputs {
        here: shape.rank(),
        size: shape.size(),
        cores: shape.cores(),
        choices: &SegmentChoices::default(),
        shape: || shape.clone(),
    };
    let is_on_segment = (2..=node::MEMBERS_MAX).contains(&shape.size()) && asked.nodes == 1;
    if !is_on_segment || asked.ordered || shape.guide().is_forced() {
        return None;
    }
    SegmentAlgorithm::of(*collective, &setting)
}

fn table(text: &mut String, collective: &Collective, shape: &Shape, candidates: &[Candidate], chosen: &str) {
    let _ = writeln!(
        text,
        "  {:<20} {:>12} {:>12} {:>8} {:>10} {:>16}",
        "algorithm", "simulated", "by formula", "rounds", "messages", "bytes by a rank"
    );
    for candidate in candidates {
        let mark = if candidate.name == chosen { '*' } else { ' ' };
        let simulated = predict(shape, |shape| collective.schedule_by(shape, candidate.name));
        let cell = |of: fn(&Forecast) -> String| simulated.as_ref().map_or_else(|| "-".to_owned(), of);
        let _ = writeln!(
            text,
            "{mark} {:<20} {:>12} {:>12} {:>8} {:>10} {:>16}",
            candidate.name,
            cell(|of| time(of.ns)),
            time(candidate.predicted_ns),
            cell(|of| of.rounds.to_string()),
            cell(|of| of.messages.to_string()),
            cell(|of| of.bytes_most.to_string()),
        );
    }
}

/// Simulates it, unless that were too many steps to wait for.
fn predict(shape: &Shape, schedule: impl Fn(&Shape) -> Option<Schedule>) -> Option<Forecast> {
    let steps = |rank| Some(schedule(&shape.of(Rank(rank)))?.steps.len() as u64);
    // The first rank may do for all what no other does.
    if steps(0)?.max(steps(shape.size() / 2)?) * u64::from(shape.size()) > STEPS_MAX {
        return None;
    }
    let schedules: Option<Vec<Schedule>> =
        (0..shape.size()).map(|rank| schedule(&shape.of(Rank(rank)))).collect();
    Some(forecast(&schedules?, shape, &shape.guide().costs))
}

fn steps(text: &mut String, asked: &AlgorithmRequest, schedule: &Schedule) {
    let shown = if asked.all_steps { usize::MAX } else { STEPS_SHOWN };
    let _ = writeln!(text, "Rank {}: {}", asked.rank, schedule.algorithm);
    let (count, scratch) = (schedule.steps.len(), schedule.scratch_bytes);
    let _ = writeln!(text, "  {count} steps, {scratch} bytes of room besides the buffers");
    for step in schedule.steps.iter().take(shown) {
        let _ = writeln!(text, "  {step}");
    }
    if count > shown {
        let _ = writeln!(text, "  and {} more, which --all-steps shows", count - shown);
    }
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

/// A number with a unit of 1024 or none.
fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err("give bytes as 8, 64k or 1MiB".to_owned()),
    };
    let bytes = number.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.filter(|bytes| *bytes <= BYTES_MAX).ok_or_else(|| "give bytes as 8, 64k or 1MiB".to_owned())
}

const RANKS_MAX: i64 = 1 << 24;
/// More is a slip of the finger, and would overflow lengths of buffers of many ranks.
const BYTES_MAX: usize = 1 << 40;
/// Steps that are simulated within about a second.
const STEPS_MAX: u64 = 2 << 20;
const STEPS_SHOWN: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(bytes: usize, ranks: u32) -> AlgorithmRequest {
        let by = None;
        let (nodes, packages, machine, rank, root, element) = (1, 1, None, 0, 0, 8);
        let (shared_cores, ordered, all_steps) = (false, false, false);
        AlgorithmRequest {
            bytes,
            ranks,
            nodes,
            packages,
            machine,
            rank,
            root,
            by,
            shared_cores,
            ordered,
            element,
            all_steps,
        }
    }

    fn text(operation: &Operation, forced: &str) -> String {
        let (asked, collective) = operation.described();
        let guide = Box::leak(Box::new(TuningConfig::new(Costs::BUILT_IN, forced.parse().unwrap())));
        let shape = Shape::new(Rank(asked.rank), asked.ranks).over_nodes(asked.nodes).guided_by(guide);
        explain(asked, &collective, &shape, None, "built-in costs").unwrap()
    }

    #[test]
    fn sizes_are_read_by_any_habit() {
        for (text, expected) in
            [("8", 8), ("64k", 65536), ("1MiB", 1 << 20), ("2 mb", 2 << 20), ("1G", 1 << 30)]
        {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "k", "-1", "1.5k", "1 tib", "99999999999999999999", "9999999g"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_chosen_one_is_marked_and_its_steps_are_shown() {
        let told = text(&Operation::Allreduce(asked(1 << 20, 64)), "");
        assert!(told.starts_with("allreduce of 1048576 B, 64 ranks on one node; built-in costs\n"), "{told}");
        assert!(told.contains(": chosen, the least by its formula\nRank 0: allreduce "), "{told}");
        assert!(told.contains("which --all-steps shows"), "{told}");
        assert!(!told.contains("memory that all ranks share"), "{told}");
        let of_few_bytes = text(&Operation::Allreduce(asked(8, 4)), "");
        assert!(of_few_bytes.contains("memory that all ranks share"), "{of_few_bytes}");
        let forced = text(&Operation::Allreduce(asked(8, 4)), "allreduce:ring");
        assert!(!forced.contains("memory that all ranks share"), "{forced}");
        let told = text(&Operation::Allreduce(asked(1 << 20, 64)), "allreduce:ring");
        assert!(
            told.contains("\n* ring ") && told.contains("* ring: chosen, asked for by WEFT_COLLECTIVE"),
            "{told}"
        );
    }

    #[test]
    fn packages_count_where_crossing_them_costs_more() {
        let on_packages = |costs: Costs, shared_cores: bool| {
            let operation =
                Operation::Bcast(AlgorithmRequest { packages: 2, shared_cores, ..asked(1 << 20, 32) });
            let (asked, collective) = operation.described();
            let cores = if shared_cores { Cores::Shared } else { Cores::Own };
            let guide = Box::leak(Box::new(TuningConfig::new(costs, weft::collectives::Forced::NOTHING)));
            let shape = Shape::new(Rank(0), 32).on(cores).guided_by(guide);
            let seats = seats(asked).unwrap();
            explain(asked, &collective, &seated(&seats, shape), seats.as_ref(), "some costs").unwrap()
        };
        let told = on_packages(Costs::BUILT_IN, false);
        assert!(told.contains("of 2 packages") && told.contains("no line for them"), "{told}");
        assert!(!told.contains("by-node"), "{told}");
        let far = Costs::decode("weft costs 1;package 400 0.5 8192 1200 0.2").unwrap();
        let told = on_packages(far, false);
        assert!(told.starts_with("bcast of 1048576 B, 32 ranks on one node of 2 packages; some"), "{told}");
        assert!(told.contains("* by-node: chosen, the least by its formula"), "{told}");
        assert!(on_packages(far, true).contains("do not count, since ranks share cores"));
    }

    #[test]
    fn a_machine_is_described_with_its_levels() {
        let told = |ranks: u32, nodes: u32, machine: &str| {
            let machine = Some(machine.to_owned());
            let operation = Operation::Bcast(AlgorithmRequest { machine, nodes, ..asked(1 << 20, ranks) });
            let (asked, collective) = operation.described();
            let costs = "weft costs 1;package 400 0.5 8192 1200 0.2;cache 250 0.3 8192 1200 0.1";
            let forced = weft::collectives::Forced::NOTHING;
            let guide = Box::leak(Box::new(TuningConfig::new(Costs::decode(costs).unwrap(), forced)));
            let seats = seats(asked).map_err(|error| error.to_string())?;
            let shape = seated(&seats, Shape::new(Rank(0), ranks).guided_by(guide));
            Ok::<_, String>(explain(asked, &collective, &shape, seats.as_ref(), "some costs").unwrap())
        };
        let text = told(32, 2, "pack:2 numa:2 l3:2 core:2 pu:1").unwrap();
        assert!(text.contains("32 ranks on 2 nodes of 4 packages, 8 NUMA nodes, 16 caches; some"), "{text}");
        assert!(text.contains("NUMA nodes do not count, since the costs have no line for them"), "{text}");
        for line in ["between packages          400 ns    0.200", "between caches            250 ns    0.100"]
        {
            assert!(text.contains(line), "{text}");
        }
        let text = told(4, 1, "pack:2 core:4 pu:1").unwrap();
        assert!(text.starts_with("bcast of 1048576 B, 4 ranks on one node; some"), "{text}");
        assert!(told(4, 1, "tower:2").unwrap_err().contains("--machine: \"tower:2\""));
    }

    #[test]
    fn ranks_are_dealt_evenly() {
        let dealt = |ranks, places| (0..ranks).map(|rank| dealt(rank, ranks, places)).collect::<Vec<_>>();
        assert_eq!(dealt(5, 2), [(0, 0, 3), (0, 1, 3), (0, 2, 3), (1, 0, 2), (1, 1, 2)]);
        assert_eq!(dealt(2, 2), [(0, 0, 1), (1, 0, 1)]);
    }

    #[test]
    fn another_algorithm_may_be_looked_at() {
        let by = |name: &str| Operation::Bcast(AlgorithmRequest { by: Some(name.to_owned()), ..asked(8, 4) });
        assert!(text(&by("scatter-ring"), "").contains("Rank 0: bcast by scatter and ring"));
        let operation = by("ring");
        let (asked, collective) = operation.described();
        let shape = Shape::new(Rank(0), 4);
        let error = explain(asked, &collective, &shape, None, "").unwrap_err().to_string();
        assert!(
            error.contains("bcast has no algorithm \"ring\"\n  choose from binomial, scatter-ring"),
            "{error}"
        );
    }

    #[test]
    fn what_has_one_way_only_is_told_as_well() {
        let told = text(&Operation::Scan(asked(8, 4)), "");
        assert!(
            told.contains("scan has one algorithm only") && told.contains("Rank 0: scan by doubling"),
            "{told}"
        );
        assert!(text(&Operation::Barrier(asked(0, 3)), "").starts_with("barrier, 3 ranks"));
    }

    #[test]
    fn too_many_steps_are_not_waited_for() {
        let told = text(&Operation::Allreduce(asked(1 << 20, 1 << 13)), "");
        assert!(told.lines().any(|line| line.contains(" ring ") && line.contains(" - ")), "{told}");
    }
}
