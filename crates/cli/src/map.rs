//! `weft map`: which rank would take which cell of a grid, and what that saves, without a job.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use topology::{
    Grid, Machine, MachineLevel, Mapping, NodeShape, NotAStencil, Placement, Sizes, Stencil, level_weight,
    map,
};

mod picture;

/// What is asked of `weft map`.
#[derive(Debug, Args)]
pub struct Map {
    /// Extents of the grid, as 50x48
    #[arg(long, value_name = "EXTENTS", allow_hyphen_values = true)]
    dims: String,
    /// How many nodes
    #[arg(long, value_name = "COUNT", allow_hyphen_values = true)]
    nodes: Option<String>,
    /// Ranks on each node
    #[arg(long, value_name = "COUNT", allow_hyphen_values = true)]
    ppn: Option<String>,
    /// Ranks on each node where they differ, as 20,28,48
    #[arg(long, value_name = "COUNTS", allow_hyphen_values = true)]
    node_sizes: Option<String>,
    /// For each axis whether it closes to a ring, as 1,0
    #[arg(long, value_name = "0|1,...", allow_hyphen_values = true)]
    periods: Option<String>,
    /// Who sends to whom: nearest, component, hops, nearest:4,1 with weights by axis, or a file with an
    /// offset on each line, as `1,0 *4`
    #[arg(long, value_name = "NAME|FILE", default_value = "nearest", allow_hyphen_values = true)]
    stencil: String,
    /// What each node is like inside: a file of lstopo's, or as "pack:2 numa:2 l3:4 core:8 pu:1"
    #[arg(long, value_name = "FILE|SYNTHETIC")]
    machine: Option<String>,
    /// Print JSON, with the coordinates of each rank
    #[arg(long)]
    json: bool,
    /// Draw the grid, before and after, into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// What an option means.
struct MapRequest {
    grid: Grid,
    nodes: Sizes,
    stencil: Stencil,
    placement: Placement,
}

type Answer<T> = Result<T, Box<dyn Error>>;

/// Computes the mapping and shows what it saves.
///
/// # Errors
/// Which option is wrong and what to give instead; a picture that cannot be written.
pub fn show(options: &Map) -> Answer<()> {
    let asked = MapRequest::of(options)?;
    let mapping = map(&asked.grid, &asked.stencil, &asked.placement)?;
    if let Some(file) = &options.svg {
        let picture = picture::draw(&asked.grid, &asked.placement, &mapping).ok_or_else(|| {
            format!("--svg: a grid of {} cells is too large to draw\n  {SMALLER}", asked.grid.cells())
        })?;
        std::fs::write(file, picture).map_err(|error| {
            format!("cannot write {}: {error}\n  name a file that can be written: --svg FILE", file.display())
        })?;
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let written = match options.json {
        true => write_json(&mut out, &asked, &mapping),
        false => out.write_all(text(options, &asked, &mapping).as_bytes()),
    };
    match written.and_then(|()| out.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

impl MapRequest {
    fn of(options: &Map) -> Answer<MapRequest> {
        let dims = numbers("--dims", &options.dims, 'x', "extents as 50x48")?;
        let periods = match &options.periods {
            Some(text) => periods(text, dims.len())?,
            None => vec![false; dims.len()],
        };
        let grid = Grid::new(&dims, &periods)
            .map_err(|error| format!("--dims {}: {error}\n  give extents as 50x48", options.dims))?;
        let nodes = nodes(options, &grid)?;
        let ranks = nodes.total();
        if ranks < u64::from(grid.cells()) {
            let short = format!(
                "--dims {} are {} cells, and the nodes have {ranks} ranks",
                options.dims,
                grid.cells()
            );
            return Err(format!(
                "{short}\n  give more nodes (--nodes), more ranks on each (--ppn), or a smaller grid"
            )
            .into());
        }
        let stencil = stencil(&options.stencil, dims.len())?;
        let placement = placement(options.machine.as_deref(), &nodes)?;
        Ok(MapRequest { grid, nodes, stencil, placement })
    }
}

/// Positive numbers between separators.
fn numbers(option: &str, text: &str, separator: char, remedy: &str) -> Answer<Vec<u32>> {
    text.split(separator).map(|word| number(option, word, remedy)).collect()
}

fn number(option: &str, word: &str, remedy: &str) -> Answer<u32> {
    let value = word.trim().parse::<u64>().ok().filter(|value| (1..=i32::MAX as u64).contains(value));
    value.map(|value| value as u32).ok_or_else(|| {
        format!("{option}: {:?} is no number from 1 to {}\n  give {remedy}", word.trim(), i32::MAX).into()
    })
}

fn periods(text: &str, axes: usize) -> Answer<Vec<bool>> {
    let ring = |word: &str| match word.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(format!(
            "--periods: {other:?} is neither 0 nor 1\n  give 1 for each axis that is a ring, as 1,0"
        )),
    };
    let periods: Vec<bool> = text.split(',').map(ring).collect::<Result<_, _>>()?;
    if periods.len() != axes {
        let counts = format!("--periods has {} entries, and --dims has {axes} extents", periods.len());
        return Err(format!("{counts}\n  give 0 or 1 for each axis, as {}", vec!["1"; axes].join(",")).into());
    }
    Ok(periods)
}

/// The sizes of the nodes: as listed, or so many of one size; what is not given is what the grid needs.
fn nodes(options: &Map, grid: &Grid) -> Answer<Sizes> {
    let count = options.nodes.as_deref().map(|word| number("--nodes", word, "a count as 50")).transpose()?;
    let each = options.ppn.as_deref().map(|word| number("--ppn", word, "a count as 48")).transpose()?;
    if let Some(list) = &options.node_sizes {
        let sizes = numbers("--node-sizes", list, ',', "the ranks on each node, as 20,28,48")?;
        if count.is_some_and(|count| count as usize != sizes.len()) {
            let counts =
                format!("--node-sizes has {} entries, and --nodes says {}", sizes.len(), count.unwrap_or(0));
            return Err(format!("{counts}\n  leave out one of them").into());
        }
        if each.is_some() {
            return Err(
                "--ppn and --node-sizes both say how many ranks a node has\n  leave out one of them".into()
            );
        }
        return checked(sizes.into_iter().collect(), "--node-sizes");
    }
    match (count, each) {
        (Some(count), Some(each)) => checked(Sizes::equal(count, each), "--nodes times --ppn"),
        (Some(count), None) => checked(Sizes::equal(count, grid.cells().div_ceil(count)), "--nodes"),
        (None, Some(each)) => checked(Sizes::equal(grid.cells().div_ceil(each), each), "--ppn"),
        (None, None) => {
            Err("how many nodes there are is not said\n  give --nodes and --ppn, or --node-sizes".into())
        }
    }
}

fn checked(nodes: Sizes, option: &str) -> Answer<Sizes> {
    match nodes.total() <= i32::MAX as u64 {
        true => Ok(nodes),
        false => {
            let what =
                format!("{option}: {} ranks are more than the {} that can be", nodes.total(), i32::MAX);
            Err(format!("{what}\n  give fewer nodes, or fewer ranks on each").into())
        }
    }
}

fn stencil(text: &str, axes: usize) -> Answer<Stencil> {
    let remedy = "give nearest, component, hops, nearest:4,1 with a weight for each axis, or a file with an offset on \
                  each line, as: 1,0 *4";
    let read = match std::fs::read_to_string(text) {
        Ok(content) => Stencil::parse(&content, axes),
        Err(_) => Stencil::parse(text, axes),
    };
    read.map_err(|error| match error {
        NotAStencil::Unknown(word) => {
            format!("--stencil: {word:?} is neither a stencil nor a file that can be read\n  {remedy}").into()
        }
        error => format!("--stencil {text}: {error}\n  {remedy}").into(),
    })
}

/// Ranks that fill the nodes in order, and on each node the cpus in order if its machine is known.
fn placement(machine: Option<&str>, nodes: &Sizes) -> Answer<Placement> {
    let Some(machine) = machine else { return Ok(Placement::blocked(nodes.clone())) };
    let tree =
        Machine::described(machine).map_err(|error| format!("--machine: {error}\n  {}", error.remedy()))?;
    let largest = nodes.runs().iter().map(|run| run.size).max().unwrap_or(0);
    let seats: Vec<_> = (0..largest).map(|process| tree.seat_in_turn(process)).collect();
    let shape = |(start, size): (u64, u32)| {
        let ranks: Vec<_> = (start as u32..).zip(seats.iter().cloned()).take(size as usize).collect();
        NodeShape::new(&ranks, None)
    };
    let shapes: Vec<NodeShape> = nodes.starts().zip(nodes.iter()).map(shape).collect();
    Ok(Placement::of_nodes(&shapes, nodes.total() as u32)?)
}

/// A table for people.
fn text(options: &Map, asked: &MapRequest, mapping: &Mapping) -> String {
    let rings = asked.grid.periods().iter().filter(|&&is_ring| is_ring).count();
    let rings = match rings {
        0 => String::new(),
        1 => ", one axis a ring".to_owned(),
        rings if rings == asked.grid.axes() => ", all axes rings".to_owned(),
        rings => format!(", {rings} axes rings"),
    };
    let mut text = format!("grid     {}, {} cells{rings}\n", extents(&asked.grid), asked.grid.cells());
    let _ = writeln!(text, "machine  {}", machine(options, &asked.nodes));
    let _ = writeln!(text, "stencil  {}", options.stencil);
    let _ = writeln!(text, "mapping  {}", story(mapping));
    let (before, after) = (mapping.before(), mapping.after());
    let _ = writeln!(text, "\n{:<34} {:>12} {:>12} {:>12}", "edges", "before", "after", "at least");
    let row = |name: &str, before: u64, after: u64| format!("{name:<34} {before:>12} {after:>12}");
    let bound = mapping.lower_bound();
    let _ = writeln!(text, "{} {bound:>12}", row("between nodes (J_sum)", before.j_sum, after.j_sum));
    let _ = writeln!(text, "{}", row("the most that leave a node (J_max)", before.j_max, after.j_max));
    if 1 < before.cut.len() {
        text.push_str("by the largest part they leave\n");
        for ((machine_level, before), (_, after)) in before.levels().zip(after.levels()) {
            let weight = machine_level.map_or(1, level_weight);
            let name =
                machine_level.map_or("none".to_owned(), |machine_level| machine_level.name().to_owned());
            let _ = writeln!(text, "{}", row(&format!("  {name} (weight {weight})"), before, after));
        }
        let _ = writeln!(text, "{}", row("sum of weights", before.cost, after.cost));
    }
    text
}

fn extents(grid: &Grid) -> String {
    grid.dims().iter().map(u32::to_string).collect::<Vec<_>>().join("x")
}

fn machine(options: &Map, nodes: &Sizes) -> String {
    let ranks = nodes.total();
    let nodes = match (nodes.common(), nodes.parts()) {
        (Some(size), 1) => format!("1 node of {size} ranks"),
        (Some(size), count) => format!("{count} nodes of {size}, {ranks} ranks"),
        (None, count) => {
            let (least, most) = (nodes.iter().min().unwrap_or(0), nodes.iter().max().unwrap_or(0));
            format!("{count} nodes of {least} to {most}, {ranks} ranks")
        }
    };
    match &options.machine {
        Some(machine) => format!("{nodes}; each {machine}"),
        None => nodes,
    }
}

fn story(mapping: &Mapping) -> String {
    let name = mapping.algorithm().name();
    match mapping.is_identity() {
        true => format!("{name}: nothing better was found than to leave each rank at the cell of its number"),
        false => name.to_owned(),
    }
}

/// One object on one line. The coordinates come in the order of places; `null` for a place that gets no cell.
fn write_json(out: &mut dyn std::io::Write, asked: &MapRequest, mapping: &Mapping) -> std::io::Result<()> {
    let (before, after) = (mapping.before(), mapping.after());
    let levels: serde_json::Map<String, serde_json::Value> = before
        .levels()
        .zip(after.levels())
        .map(|((machine_level, before), (_, after))| {
            let weight = machine_level.map_or(1, level_weight);
            let level = json!({ "before": before, "after": after, "weight": weight });
            (machine_level.map_or("none", MachineLevel::name).to_owned(), level)
        })
        .collect();
    let head = json!({
        "dims": asked.grid.dims(),
        "periods": asked.grid.periods().iter().map(|&is_ring| u8::from(is_ring)).collect::<Vec<u8>>(),
        "node_sizes": asked.nodes.iter().collect::<Vec<u32>>(),
        "algorithm": mapping.algorithm().name(),
        "edges": before.edges,
        "j_sum": after.j_sum,
        "j_max": after.j_max,
        "j_sum_before": before.j_sum,
        "j_max_before": before.j_max,
        "cost": after.cost,
        "cost_before": before.cost,
        "lower_bound": mapping.lower_bound(),
        "levels": levels,
    })
    .to_string();
    write!(out, "{},\"coords\":[", head.strip_suffix('}').unwrap_or(&head))?;
    let mut coordinates = vec![0; asked.grid.axes()];
    for place in 0..asked.placement.len() {
        let separator = if place > 0 { "," } else { "" };
        match mapping.cell(place) {
            Some(cell) => {
                asked.grid.coordinates(cell, &mut coordinates);
                write!(out, "{separator}{}", json!(coordinates))?;
            }
            None => write!(out, "{separator}null")?,
        }
    }
    writeln!(out, "]}}")
}

const SMALLER: &str = "draw a grid of up to 65536 cells";
