//! By what the ranks of this job choose their collective algorithms: one guide for all of them.
//!
//! Ranks that chose differently would wait for each other for ever. So one process settles it: the launcher,
//! where it starts all ranks on its node and hands them the costs as a text, and process 0 otherwise, whose
//! card says it (decisions/0006).
//!
//! ```text
//! in a card   the algorithms that are forced, as in WEFT_COLLECTIVE; a newline; the costs, as in a file of theirs
//! ```

use std::path::PathBuf;

use collectives::{Costs, Forced, HierarchyLevel, Link, TuningConfig};

use crate::cache_directory;
use crate::config::Config;
use crate::constants::{Constants, ConstantsFrom, Found};
use crate::error::{Class, Error, Result};
use crate::measurements::Besides;

/// Where the costs of collective operations come from, as the environment says.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum CostsFrom {
    /// The built-in ones; those of a node are as measured, where they were.
    #[default]
    Usual,
    /// The built-in ones.
    BuiltIn,
    /// The costs in this text.
    Text(String),
    /// The costs in this file.
    File(PathBuf),
}

impl CostsFrom {
    /// By the value of `WEFT_COSTS`.
    #[must_use]
    pub fn of(value: Option<&str>) -> CostsFrom {
        match value {
            None => CostsFrom::Usual,
            Some("off") => CostsFrom::BuiltIn,
            Some(text) if Costs::is_text(text) => CostsFrom::Text(text.to_owned()),
            Some(file) => CostsFrom::File(file.into()),
        }
    }

    /// The costs, as this process finds them. `measured` says where those of the node are.
    ///
    /// # Errors
    /// What is wrong with a text or a file that was named.
    pub fn find(&self, measured: &ConstantsFrom) -> std::result::Result<Costs, String> {
        match self {
            CostsFrom::BuiltIn => Ok(Costs::BUILT_IN),
            CostsFrom::Text(text) => Costs::decode(text),
            CostsFrom::File(path) => {
                let wrong = |why: String| format!("{}: {why}", path.display());
                let text = cache_directory::read(path, FILE_BYTES_MAX)?;
                Costs::decode(&text.ok_or_else(|| wrong("there is no such file".to_owned()))?).map_err(wrong)
            }
            // What is wrong with measured constants is told where they serve for messages.
            CostsFrom::Usual => Ok(measured.find().map_or(Costs::BUILT_IN, |found| match found.file {
                Some(_) => of_node(&found),
                None => Costs::BUILT_IN,
            })),
        }
    }
}

/// The built-in costs with what was measured of a node.
fn of_node(found: &Found) -> Costs {
    let Besides { over, step_ns, .. } = &found.besides;
    let node = link(&found.constants, found.constants.eager_bytes_max());
    let mut costs = Costs { node, step_ns: step_ns.unwrap_or(Costs::BUILT_IN.step_ns), ..Costs::BUILT_IN };
    let mut narrower = node;
    for (border, constants) in over {
        let wider = no_less(&link(constants, node.eager_bytes_max), &narrower);
        if !takes_longer(&wider, &narrower) {
            continue;
        }
        narrower = wider;
        match border {
            HierarchyLevel::Cache => costs.cache = Some(wider),
            HierarchyLevel::Numa => costs.numa = Some(wider),
            HierarchyLevel::Package => costs.package = Some(wider),
            HierarchyLevel::Node => {}
        }
    }
    costs
}

/// The link between cores with such constants. What is sent at once is a matter of the process and not of the
/// link. A message is read by its receiver if that is quicker than to copy it through shared memory, and else
/// takes a word each way before its first byte does.
fn link(constants: &Constants, eager_bytes_max: usize) -> Link {
    let Constants { hand_over_ns, copy, pull } = *constants;
    let (ask_ns, byte_ns) = match pull {
        Some(pull) if pull.byte_ns < copy.byte_ns => (pull.fixed_ns, pull.byte_ns),
        Some(pull) => (pull.fixed_ns.min(2.0 * hand_over_ns), copy.byte_ns),
        None => ((copy.fixed_ns - hand_over_ns).max(0.0), copy.byte_ns),
    };
    Link { latency_ns: hand_over_ns, eager_byte_ns: copy.byte_ns, eager_bytes_max, ask_ns, byte_ns }
}

/// Farther is no quicker, whatever was measured.
fn no_less(link: &Link, narrower: &Link) -> Link {
    Link {
        latency_ns: link.latency_ns.max(narrower.latency_ns),
        eager_byte_ns: link.eager_byte_ns.max(narrower.eager_byte_ns),
        ask_ns: link.ask_ns.max(narrower.ask_ns),
        byte_ns: link.byte_ns.max(narrower.byte_ns),
        ..*link
    }
}

/// Whether a border makes a difference, beyond that by which measurements differ: else algorithms need not
/// know it.
fn takes_longer(link: &Link, narrower: &Link) -> bool {
    [0, 4 << 10, 256 << 10].into_iter().any(|bytes| link.way_ns(bytes) > NOTED * narrower.way_ns(bytes))
}

/// What this process would have all ranks choose by; the text of a card.
pub(crate) fn proposal(config: &Config) -> Result<String> {
    let costs = config.costs.find(&config.constants).map_err(|why| refused(&why))?;
    Ok(encode(&costs, &config.forced))
}

/// The guide where all processes read the same variables from one launcher, and nobody is asked.
pub(crate) fn of_launcher(config: &Config) -> Result<&'static TuningConfig> {
    let costs = match &config.costs {
        // A file may be written anew while the ranks start.
        CostsFrom::Usual => Costs::BUILT_IN,
        told => told.find(&config.constants).map_err(|why| refused(&why))?,
    };
    Ok(keep(costs, config.forced))
}

/// The guide by the card of process 0; without a word there, the built-in one.
pub(crate) fn of_card(text: Option<&str>) -> Result<&'static TuningConfig> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(TuningConfig::built_in()) };
    let (forced, costs) = text.split_once('\n').unwrap_or((text, ""));
    let wrong = |why: String| {
        Error::new(
            Class::Other,
            format!("process 0 says how to choose algorithms, and it makes no sense: {why}"),
        )
        .remedy("all processes must load the same library")
    };
    let forced: Forced = forced.parse().map_err(|error: collectives::NotForced| wrong(error.to_string()))?;
    Ok(keep(Costs::decode(costs).map_err(wrong)?, forced))
}

/// A text for a card; empty for the built-in guide.
fn encode(costs: &Costs, forced: &Forced) -> String {
    if *costs == Costs::BUILT_IN && *forced == Forced::NOTHING {
        return String::new();
    }
    format!("{forced}\n{}", costs.encode())
}

/// A guide in words, for a comparison of calls between ranks: guides that differ have different words. Empty
/// for the built-in guide.
#[must_use]
pub fn words(guide: &TuningConfig) -> String {
    if *guide == *TuningConfig::built_in() {
        return String::new();
    }
    let costs = if guide.costs == Costs::BUILT_IN { String::new() } else { digest(&guide.costs.encode()) };
    format!("{WORDS}{} {costs}", guide.forced)
}

/// The part of a text that [`words`] has put there; nothing where there is none.
#[must_use]
pub fn told(text: &str) -> &str {
    let Some(begin) = text.find(WORDS) else { return "" };
    let rest = &text[begin..];
    // What members of one side compare stands behind a comma.
    rest.find(", ").map_or(rest, |end| &rest[..end])
}

fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("by costs {:08x}", hash >> 32)
}

/// Shapes of all communicators refer to it, and it is one for each part that a process takes in a job.
fn keep(costs: Costs, forced: Forced) -> &'static TuningConfig {
    let guide = TuningConfig::new(costs, forced);
    if guide == *TuningConfig::built_in() { TuningConfig::built_in() } else { Box::leak(Box::new(guide)) }
}

fn refused(why: &str) -> Error {
    Error::new(Class::Argument, format!("the costs of collective operations cannot be used: {why}"))
        .remedy("correct WEFT_COSTS, or leave it out; `weft explain costs` shows what such a file looks like")
}

const WORDS: &str = "; algorithms: ";
const FILE_BYTES_MAX: u64 = 4096;
/// By so much two pairs of cores on both sides of no border were seen to differ, and more.
const NOTED: f64 = 1.15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::Line;

    #[test]
    fn what_one_process_says_the_others_read() {
        let config = Config {
            forced: "allreduce:ring".parse().unwrap(),
            costs: CostsFrom::of(Some("weft costs 1;step 7")),
            ..Config::default()
        };
        let guide = of_card(Some(&proposal(&config).unwrap())).unwrap();
        assert_eq!(guide.costs, Costs { step_ns: 7.0, ..Costs::BUILT_IN });
        assert_eq!(guide.forced.to_string(), "allreduce:ring");
        assert_eq!(of_launcher(&config).unwrap(), guide);
        assert!(words(guide).starts_with("; algorithms: allreduce:ring by costs "), "{}", words(guide));
    }

    #[test]
    fn where_nothing_is_said_nothing_is_handed_round() {
        let usual = Config::default();
        assert_eq!(proposal(&usual).unwrap(), "");
        assert!(std::ptr::eq(of_card(None).unwrap(), TuningConfig::built_in()));
        assert!(std::ptr::eq(of_launcher(&usual).unwrap(), TuningConfig::built_in()));
        assert_eq!(words(TuningConfig::built_in()), "");
    }

    #[test]
    fn nonsense_is_told() {
        for text in ["ring", "allreduce:rings\n", "allreduce:ring\nweft costs 2"] {
            assert!(of_card(Some(text)).is_err(), "{text}");
        }
        let costs = |value: &str| CostsFrom::of(Some(value)).find(&ConstantsFrom::BuiltIn).unwrap_err();
        assert!(costs("/nowhere/costs").contains("/nowhere/costs: there is no such file"));
        assert!(costs("weft costs 1;stop 3").contains("stop 3"));
    }

    #[test]
    fn measured_constants_serve_for_the_node() {
        let found =
            |constants: Constants, besides: Besides| Found { constants, besides, file: None, warning: None };
        let costs = of_node(&found(Constants::BUILT_IN, Besides::default()));
        // What is sent at once differs between processors, and what is not measured has a length between
        // those.
        let node = Link { eager_bytes_max: costs.node.eager_bytes_max, ..Costs::BUILT_IN.node };
        let others = Costs { node, ..Costs::BUILT_IN };
        assert_eq!(costs, others, "the built-in ones say the same in both places");
        let without = Constants { pull: None, ..Constants::BUILT_IN };
        let refused = of_node(&found(without, Besides::default()));
        assert_eq!(refused.node.byte_ns, Constants::BUILT_IN.copy.byte_ns);
        // Where copies are quicker, long messages are copied as well.
        let quick = Constants { copy: Line { fixed_ns: 90.0, byte_ns: 0.02 }, ..Constants::BUILT_IN };
        let quick = of_node(&found(quick, Besides::default()));
        assert_eq!((quick.node.byte_ns, quick.node.ask_ns), (0.02, 360.0));

        let near = Constants::BUILT_IN;
        let at = |times: f64| Constants { hand_over_ns: near.hand_over_ns * times, ..near };
        let costs = of_node(&found(
            near,
            Besides {
                over: vec![
                    (HierarchyLevel::Cache, at(1.1)),
                    (HierarchyLevel::Numa, at(2.0)),
                    (HierarchyLevel::Package, at(1.5)),
                ],
                step_ns: Some(50.0),
                is_of_first_use: true,
            },
        ));
        assert_eq!(costs.cache, None, "it makes no difference");
        assert_eq!(costs.numa.map(|link| link.latency_ns), Some(2.0 * near.hand_over_ns));
        assert_eq!(costs.package, None, "farther is no quicker");
        assert_eq!((costs.step_ns, costs.copy), (50.0, Costs::BUILT_IN.copy));
        assert_eq!((costs.network, costs.turn_ns), (Costs::BUILT_IN.network, Costs::BUILT_IN.turn_ns));
    }
}
