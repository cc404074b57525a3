//! How far apart the two cpus are. In a virtual machine that changes from second to second, by a factor of
//! three and more, and with it every time of two ranks. So the benchmarks of two ranks are told which
//! distance is wanted, and wait for it before each block (`bench/apart.h`): everybody is measured at the same
//! one.

use std::fs;
use std::path::PathBuf;

/// Which of the distances that a machine has is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Wanted {
    /// That which it has most of the time.
    #[default]
    Usual,
    /// The least.
    Near,
    /// The longest.
    Far,
    /// As it comes.
    Any,
}

/// Distances that belong together: half a round trip of a line each way, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    middle: f64,
    /// Of all that were looked at.
    share: f64,
    least: f64,
    most: f64,
}

/// A distance that benchmarks wait for, and the file by which two ranks find it out.
#[derive(Debug)]
pub struct Apart {
    group: Group,
    /// For people: this distance, and which others there are.
    pub told: String,
    file: PathBuf,
}

impl Apart {
    /// The distance to wait for, on a machine where `distances` were measured. `None` where any distance will
    /// do, or where the usual one is wanted and the machine has had only one. The nearest or the longest is
    /// waited for in any case, since the machine may come to another distance later.
    pub fn of(distances: &[f64], wanted: Wanted) -> Option<Apart> {
        let groups = groups(distances);
        let chosen = chosen(&groups, wanted)?;
        let others: Vec<String> = groups
            .iter()
            .filter(|group| **group != chosen)
            .map(|group| format!("{:.0} ns", group.middle))
            .collect();
        let told = format!(
            "rows of two ranks on a node count while a cache line takes {:.0} ns from one cpu to the other, as it does {:.0} % of \
             the time; else it is {}",
            chosen.middle,
            100.0 * chosen.share,
            if others.is_empty() { "rarely anything else".to_owned() } else { others.join(" or ") }
        );
        let file = PathBuf::from(format!("/dev/shm/weft-compare-{}", std::process::id()));
        Some(Apart { group: chosen, told, file })
    }

    /// The arguments by which a benchmark of two ranks waits for the distance.
    pub fn words(&self) -> [String; 2] {
        ["--apart".to_owned(), format!("{},{}", self.limits(), self.file.display())]
    }

    /// The arguments by which a floor of two processes waits for the distance.
    pub fn floor_words(&self) -> [String; 2] {
        ["--apart".to_owned(), self.limits()]
    }

    fn limits(&self) -> String {
        format!("{:.1},{:.1}", self.group.least, self.group.most)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = fs::remove_file(&self.file);
    }
}

/// The groups of these distances, from the nearest; those that are rare are left out.
fn groups(distances: &[f64]) -> Vec<Group> {
    let mut sorted: Vec<f64> = distances.iter().copied().filter(|distance| *distance > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    let all = sorted.len() as f64;
    let runs: Vec<&[f64]> = sorted.chunk_by(|left, right| *right < GAP * *left).collect();
    let between = |left: &[f64], right: &[f64]| (left[left.len() - 1] * right[0]).sqrt();
    let group = |(at, run): (usize, &&[f64])| {
        let middle = run[run.len() / 2];
        let least = if at == 0 { middle / 2.0 } else { between(runs[at - 1], run) };
        let most = runs.get(at + 1).map_or(2.0 * middle, |next| between(run, next));
        Group { middle, share: run.len() as f64 / all, least, most }
    };
    runs.iter().enumerate().map(group).filter(|group| group.share >= SHARE_MIN).collect()
}

fn chosen(groups: &[Group], wanted: Wanted) -> Option<Group> {
    match wanted {
        Wanted::Usual if groups.len() < 2 => None,
        Wanted::Any => None,
        Wanted::Near => groups.first().copied(),
        Wanted::Far => groups.last().copied(),
        Wanted::Usual => groups.iter().copied().max_by(|left, right| left.share.total_cmp(&right.share)),
    }
}

/// Distances belong together where each is less than this times the one before.
const GAP: f64 = 1.6;
/// What a machine has more rarely than this would be waited for in vain.
const SHARE_MIN: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: [f64; 20] = [
        54.0, 51.0, 180.0, 47.0, 16.0, 205.0, 58.0, 46.0, 190.0, 50.0, 57.0, 172.0, 52.0, 46.0, 188.0, 53.0,
        49.0, 175.0, 51.0, 55.0,
    ];

    #[test]
    fn distances_fall_into_groups_and_rare_ones_are_left_out() {
        let groups = groups(&SEEN);
        assert_eq!(groups.len(), 2, "{groups:?}");
        assert_eq!((groups[0].middle, groups[0].share), (51.0, 0.65));
        // Between the rare 16 and 46, and between 58 and 172.
        assert!(
            (17.0..46.0).contains(&groups[0].least) && (59.0..172.0).contains(&groups[0].most),
            "{groups:?}"
        );
        assert_eq!(groups[0].most.to_bits(), groups[1].least.to_bits());
    }

    #[test]
    fn one_is_chosen_where_there_are_several() {
        let middle = |wanted| Apart::of(&SEEN, wanted).map(|apart| apart.group.middle);
        assert_eq!([middle(Wanted::Usual), middle(Wanted::Near)], [Some(51.0); 2]);
        assert_eq!((middle(Wanted::Far), middle(Wanted::Any)), (Some(188.0), None));
        assert!(Apart::of(&[70.0, 71.0, 69.0], Wanted::Usual).is_none());
        let near = Apart::of(&[70.0, 71.0, 69.0], Wanted::Near).unwrap();
        assert!(near.limits() == "35.0,140.0" && near.told.contains("100 % of the time; else it is rarely"));
        assert!(Apart::of(&[], Wanted::Near).is_none());
    }

    #[test]
    fn benchmarks_and_floors_are_given_the_same_limits() {
        let apart = Apart::of(&SEEN, Wanted::Far).unwrap();
        let (words, floor) = (apart.words(), apart.floor_words());
        assert!(words[1].starts_with(&format!("{},/", floor[1])), "{words:?} {floor:?}");
        assert!(apart.told.contains("188 ns") && apart.told.contains("51 ns") && apart.told.contains("30 %"));
    }
}
