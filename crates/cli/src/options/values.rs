//! Values of options: what they may be, and what they are.

use std::time::Duration;

/// The ranks that read the launcher's standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// This rank.
    Rank(u32),
    /// All ranks, each all of it.
    All,
    /// No rank.
    None,
}

/// The value of the attribute MPI_UNIVERSE_SIZE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Universe {
    /// The number of cores of this node.
    System,
    /// The attribute is not set.
    Infinite,
    /// This number.
    Number(u32),
}

pub fn fabrics(list: &str) -> Result<String, String> {
    for fabric in list.split(',') {
        let known = matches!(fabric, "shm" | "tcp" | "libfabric");
        let provider = fabric.strip_prefix("libfabric:").is_some_and(|provider| !provider.is_empty());
        if !known && !provider {
            return Err(format!("`{fabric}` is no fabric: choose from shm, tcp, libfabric[:PROVIDER]"));
        }
    }
    Ok(list.to_owned())
}

pub fn failure_mode(name: &str) -> Result<String, String> {
    match weft::FtMode::named(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err("choose from none, abort, blank, shrink and rebuild".to_owned()),
    }
}

pub fn rebuild_fallback(name: &str) -> Result<String, String> {
    match weft::FtMode::named(name) {
        Some(weft::FtMode::Blank | weft::FtMode::Abort) => Ok(name.to_owned()),
        _ => Err("choose from blank and abort".to_owned()),
    }
}

pub fn failure_mode_elsewhere(name: &str) -> Result<String, String> {
    match name {
        "ulfm" | "mpi" | "yes" | "true" => Ok(weft::FtMode::None.name().to_owned()),
        NO_FAILURES | "none" | "false" => Ok(NO_FAILURES.to_owned()),
        _ => failure_mode(name)
            .map_err(|_| "choose from ulfm, abort, blank, shrink, rebuild and no".to_owned()),
    }
}

pub fn message_mode(name: &str) -> Result<String, String> {
    match weft::MessageMode::named(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err("choose from reset and cont".to_owned()),
    }
}

pub fn error_handler(name: &str) -> Result<String, String> {
    let known = weft::InitialErrors::named(name).map(|errors| errors.name().to_owned());
    known.ok_or_else(|| "choose from mpi_errors_are_fatal, mpi_errors_abort, mpi_errors_return".to_owned())
}

/// Checks one definition of a process set, as `WEFT_PSETS` holds it. The library's own reader decides, so
/// that the ranks cannot come to another answer.
pub fn process_set(text: &str) -> Result<String, String> {
    let read = weft::Config::from_variables(&|name| (name == "WEFT_PSETS").then(|| text.to_owned()));
    match read {
        Ok(config) if config.process_sets.len() == 1 => Ok(text.to_owned()),
        Ok(_) => Err("one set for each --pset".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "a time is a number of seconds above zero".to_owned())
}

pub fn ranks(text: &str) -> Result<u32, String> {
    let number: i64 = text.parse().map_err(|_| "a whole number is needed: write -n N".to_owned())?;
    let ranks = u32::try_from(number).ok().filter(|_| (1..=super::RANKS_MAX).contains(&number));
    let why = "leave a program out that is to have no rank";
    ranks.ok_or_else(|| format!("{number} is not in 1..={}: {why}", super::RANKS_MAX))
}

pub fn count(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| "a whole number above zero is needed".to_owned())
}

pub fn input(text: &str) -> Result<Input, String> {
    match text {
        "all" => Ok(Input::All),
        "none" => Ok(Input::None),
        number => number.parse().map(Input::Rank).map_err(|_| "choose a rank, all or none".to_owned()),
    }
}

pub fn universe(text: &str) -> Result<Universe, String> {
    match text {
        "SYSTEM" => Ok(Universe::System),
        "INFINITE" => Ok(Universe::Infinite),
        number => {
            number.parse().map(Universe::Number).map_err(|_| "choose a number, SYSTEM or INFINITE".to_owned())
        }
    }
}

/// How others say that ranks end with each other.
pub const NO_FAILURES: &str = "no";
