//! `weft measure`: the program of the small job that `weftrun` starts before the first real one on a machine.
//! It prints what it has measured as the file that jobs read, and keeps nothing itself.
//!
//! Rank 0 sits on the first core, and each other rank on a core that is the next farther kind away from it. A
//! machine is seldom at rest, so each number is the least of some runs, and one that is out of all reason is
//! left at what is built in.

use std::error::Error;

use topology::{CpuSet, Host, bind_current_thread, cpus_allowed};
use weft::collectives::HierarchyLevel;
use weft::lanes::{Measured, Thoroughness};
use weft::{Besides, Communicator, Config, Constants, Line, Owner, Rank, Session, Threads, lanes};

use crate::parts;

/// Measures, and prints it.
///
/// # Errors
/// What kept the ranks from it.
pub fn quickly() -> Result<(), Box<dyn Error>> {
    let config = Config::from_environment()?;
    let cores = parts::cores_apart(&Host::here(), &cpus_allowed()?);
    let session = Session::start_with(&config, Threads::One)?;
    let world = session.world();
    let (_, cpu) = cores.get(world.rank().0 as usize).ok_or("there are more ranks than kinds of cores")?;
    bind_current_thread(&CpuSet::from_iter([*cpu]))?;
    let borders = cores.iter().skip(1).map(|(border, _)| *border).take(world.size() as usize - 1);
    let mut found = Vec::new();
    for (border, other) in borders.zip((1..).map(Rank)) {
        if world.rank() == Rank(0) || world.rank() == other {
            found.push((border, between(&world, other, &config)?));
        }
    }
    if world.rank() == Rank(0) {
        let (constants, besides) = judged(&found);
        print!("{}", constants.encode(&besides, &Owner::here()));
    }
    Ok(session.finish()?)
}

/// What was found between rank 0 and another one: by the fabric alone, and one way of a whole message.
fn between(world: &Communicator, other: Rank, config: &Config) -> weft::Result<(Measured, f64)> {
    let mut least = lanes::measure(world, other, config, Thoroughness::Quick)?;
    for _ in 1..RUNS {
        least = least.or_less(&lanes::measure(world, other, config, Thoroughness::Quick)?);
    }
    Ok((least, lanes::message_ns(world, other)?))
}

/// What is kept of what was found, from narrow to wide; the first is of the nearest cores.
fn judged(found: &[(Option<HierarchyLevel>, (Measured, f64))]) -> (Constants, Besides) {
    let nearest = found.first().map(|(_, (measured, message_ns))| (fitted(measured), *message_ns));
    let (near, message_ns) = nearest.unwrap_or((Fitted::default(), f64::INFINITY));
    let step_ns = near.hand_over_ns.map(|hand_over_ns| (message_ns - hand_over_ns) / 2.0);
    let constants = near.or(&Constants::BUILT_IN);
    let wider = found.iter().skip(1).filter_map(|(border, (measured, _))| {
        let fitted = fitted(measured);
        // Half of a link is none.
        let is_whole = fitted.hand_over_ns.is_some() && fitted.copy.is_some() && fitted.pull.is_some();
        Some(((*border)?, fitted.or(&constants))).filter(|_| is_whole)
    });
    let besides = Besides {
        over: wider.collect(),
        step_ns: step_ns.filter(|step| (10.0..=1e3).contains(step)),
        is_of_first_use: true,
    };
    (constants, besides)
}

/// Constants as far as they are within reason. A pull may be within reason in that it is refused.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Fitted {
    hand_over_ns: Option<f64>,
    copy: Option<Line>,
    pull: Option<Option<Line>>,
}

impl Fitted {
    fn or(self, other: &Constants) -> Constants {
        Constants {
            hand_over_ns: self.hand_over_ns.unwrap_or(other.hand_over_ns),
            copy: self.copy.unwrap_or(other.copy),
            pull: self.pull.unwrap_or(other.pull),
        }
    }
}

fn fitted(measured: &Measured) -> Fitted {
    let is_sane = |line: &Line| line.fixed_ns <= 2e4 && (5e-3..=2.0).contains(&line.byte_ns);
    let is_time = |time: &f64| (20.0..=3e3).contains(time);
    // As a fit of each alone, so that one of them may be out of reason.
    let fit = |copied: &[(usize, f64)], pulled: &[(usize, f64)]| Constants::fit(0.0, copied, pulled);
    let copy = fit(&measured.copied, &[]).map(|fit| fit.copy).filter(is_sane);
    let pull = match measured.pulled.is_empty() {
        true => Some(None),
        false => fit(&measured.pulled, &[]).map(|fit| fit.copy).filter(is_sane).map(Some),
    };
    Fitted { hand_over_ns: Some(measured.hand_over_ns).filter(is_time), copy, pull }
}

const RUNS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(hand_over_ns: f64, copy: Line, pull: Line) -> Measured {
        let points = |line: Line| [2048, 16_384, 131_072].map(|bytes| (bytes, line.at(bytes))).to_vec();
        Measured { hand_over_ns, copied: points(copy), pulled: points(pull) }
    }

    fn is_like(one: Line, other: Line) -> bool {
        (one.fixed_ns - other.fixed_ns).abs() < 0.1 && (one.byte_ns - other.byte_ns).abs() < 1e-4
    }

    const COPY: Line = Line { fixed_ns: 300.0, byte_ns: 0.1 };
    const PULL: Line = Line { fixed_ns: 700.0, byte_ns: 0.03 };

    #[test]
    fn what_is_within_reason_is_kept() {
        let far = measured(400.0, Line { byte_ns: 0.2, ..COPY }, PULL);
        let found =
            [(None, (measured(150.0, COPY, PULL), 310.0)), (Some(HierarchyLevel::Package), (far, 700.0))];
        let (constants, besides) = judged(&found);
        assert!(is_like(constants.copy, COPY) && is_like(constants.pull.unwrap(), PULL), "{constants:?}");
        assert_eq!((constants.hand_over_ns, besides.step_ns), (150.0, Some(80.0)));
        let [(HierarchyLevel::Package, far)] = besides.over[..] else { panic!("{besides:?}") };
        assert_eq!((far.hand_over_ns, is_like(far.copy, COPY)), (400.0, false));
    }

    #[test]
    fn what_is_out_of_reason_stays_as_built_in() {
        let slow = Line { fixed_ns: 1e6, byte_ns: 0.1 };
        let near = measured(9000.0, slow, PULL);
        let far = measured(400.0, COPY, slow);
        let found = [(None, (near, 1e6)), (Some(HierarchyLevel::Cache), (far, 1e3))];
        let (constants, besides) = judged(&found);
        let built_in = Constants::BUILT_IN;
        assert_eq!((constants.hand_over_ns, constants.copy), (built_in.hand_over_ns, built_in.copy));
        assert!(is_like(constants.pull.unwrap(), PULL));
        assert_eq!(besides, Besides { is_of_first_use: true, ..Besides::default() });
        assert_eq!(judged(&[]).0, built_in);
    }

    #[test]
    fn where_reads_are_refused_there_is_no_time_for_them() {
        let refused = Measured { pulled: Vec::new(), ..measured(150.0, COPY, PULL) };
        assert_eq!(judged(&[(None, (refused, 300.0))]).0.pull, None);
    }
}
