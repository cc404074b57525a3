//! On which part of its node each process of a job sits, as the launcher tells all of them alike.
//!
//! ```text
//! package (vector,(0,2,16));cache (vector,(0,8,4))
//! ```
//! A word for each kind of part, from wide to narrow, and who sits on which, in the notation of launchers for
//! nodes. Processes on parts of one number sit together if they share their node and all wider parts.

use collectives::HierarchyLevel;
use process_manager::NodeMap;

/// Which rank sits on which part of its node.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Parts {
    kinds: Vec<(HierarchyLevel, NodeMap)>,
}

impl Parts {
    /// Writes what [`Parts::parse`] reads: the number of each rank's part, of each kind.
    #[must_use]
    pub fn encode(kinds: &[(HierarchyLevel, Vec<u32>)]) -> String {
        let kind = |(border, parts): &(HierarchyLevel, Vec<u32>)| {
            let runs = parts.chunk_by(|one, next| one == next);
            let runs: Vec<String> = runs.map(|run| format!("({},1,{})", run[0], run.len())).collect();
            format!("{} (vector,{})", border.word(), runs.join(","))
        };
        kinds.iter().map(kind).collect::<Vec<_>>().join(";")
    }

    /// Reads the text of [`Parts::encode`] for a job of `ranks` ranks; none where the text is not of that
    /// form.
    #[must_use]
    pub fn parse(text: &str, ranks: u32) -> Option<Parts> {
        let kinds = text.split(';').map(|kind| {
            let (name, map) = kind.trim().split_once(' ')?;
            let border = KINDS.into_iter().find(|border| border.word() == name)?;
            Some((border, NodeMap::parse(map, ranks)?))
        });
        let kinds = kinds.collect::<Option<Vec<_>>>()?;
        kinds.is_sorted_by(|(wider, _), (narrower, _)| wider > narrower).then_some(Parts { kinds })
    }

    /// The kinds that are told of, from wide to narrow, with who sits on which.
    #[must_use]
    pub fn kinds(&self) -> &[(HierarchyLevel, NodeMap)] {
        &self.kinds
    }
}

/// The kinds of parts of a node.
const KINDS: [HierarchyLevel; 3] = [HierarchyLevel::Package, HierarchyLevel::Numa, HierarchyLevel::Cache];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_launcher_writes_the_ranks_read() {
        let kinds =
            [(HierarchyLevel::Package, vec![0, 0, 1, 1, 0]), (HierarchyLevel::Numa, vec![3, 4, 5, 5, 4])];
        let text = Parts::encode(&kinds);
        assert_eq!(
            text,
            "package (vector,(0,1,2),(1,1,2),(0,1,1));numa (vector,(3,1,1),(4,1,1),(5,1,2),(4,1,1))"
        );
        let parts = Parts::parse(&text, 5).expect("it is well-formed");
        for ((border, numbers), (told, map)) in kinds.iter().zip(parts.kinds()) {
            assert_eq!(border, told);
            assert_eq!((0..5).map(|rank| map.node(rank).unwrap()).collect::<Vec<_>>(), *numbers);
        }
    }

    #[test]
    fn nonsense_is_none() {
        for text in ["", "two", "package", "package two", "node (vector,(0,2,1))", "socket (vector,(0,2,1))"]
        {
            assert_eq!(Parts::parse(text, 2), None, "{text}");
        }
        let one = "(vector,(0,2,1))";
        assert_eq!(Parts::parse(&format!("cache {one};package {one}"), 2), None, "narrow before wide");
        assert_eq!(Parts::parse(&format!("cache {one};cache {one}"), 2), None, "twice");
    }
}
