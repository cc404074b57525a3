//! Which variables ranks get, as the command line says it.
//!
//! MPICH's rules: what a part says about passing variables on wins over what is said for the job; without a
//! word all of the launcher's variables are passed on. Variables that are set come on top: those of the job
//! first, those of the part over them. Open MPI's `-x` counts for its part and for those behind it that do
//! not say otherwise.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// The variables of the ranks of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Which of the launcher's variables are passed on.
    pub inherits: Inherits,
    /// The variables that are set, each once.
    pub set: Vec<(OsString, OsString)>,
    /// Names that were to be passed on by themselves; one that ends in `*` means all that begin so.
    pub exported: Vec<String>,
}

/// Which of the launcher's variables are passed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Inherits {
    /// All variables.
    #[default]
    All,
    /// The variables with these names.
    Only(Vec<String>),
}

/// A word of the command line about variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Which of the launcher's variables are passed on.
    Inherit(Inherits),
    /// A variable that is set.
    Set(OsString, OsString),
    /// The name of a variable that is passed on whatever other rules say.
    Export(String),
}

impl Environment {
    /// The rules of the job and, over them, those of a part; `carried` are the exports of the parts before
    /// it.
    pub fn of(job: &[Rule], carried: &[Rule], part: &[Rule]) -> Environment {
        let inherits = |rules: &[Rule]| {
            rules.iter().rev().find_map(|rule| match rule {
                Rule::Inherit(inherits) => Some(inherits.clone()),
                _ => None,
            })
        };
        let mut environment = Environment {
            inherits: inherits(part).or_else(|| inherits(job)).unwrap_or_default(),
            ..Environment::default()
        };
        for rule in job.iter().chain(carried).chain(part) {
            match rule {
                Rule::Set(name, value) => {
                    environment.set.retain(|(known, _)| known != name);
                    environment.set.push((name.clone(), value.clone()));
                }
                Rule::Export(name) => environment.exported.push(name.clone()),
                Rule::Inherit(_) => {}
            }
        }
        environment
    }

    /// Whether the launcher's variable of this name is passed on.
    pub fn passes(&self, name: &OsString) -> bool {
        let Inherits::Only(names) = &self.inherits else { return true };
        let is_meant = |meant: &String| match meant.strip_suffix('*') {
            Some(start) => name.as_bytes().starts_with(start.as_bytes()),
            None => name == meant.as_str(),
        };
        names.iter().any(|listed| name == listed.as_str()) || self.exported.iter().any(is_meant)
    }

    /// The value of a rank's variable `name`, where the launcher's has the value `outer`.
    pub fn value(&self, name: &str, outer: Option<OsString>) -> Option<OsString> {
        let set = self.set.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        set.or_else(|| outer.filter(|_| self.passes(&name.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> Rule {
        Rule::Set(name.into(), value.into())
    }

    fn seen(environment: &Environment, name: &str) -> Option<String> {
        let outer = [("HOME", "/h"), ("PATH", "/p"), ("LC_ALL", "C")];
        let outer = outer.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        environment.value(name, outer).map(|value| value.into_string().unwrap())
    }

    #[test]
    fn a_part_wins_over_the_job() {
        let only = |names: &[&str]| {
            Rule::Inherit(Inherits::Only(names.iter().map(|name| (*name).to_owned()).collect()))
        };
        let all = Rule::Inherit(Inherits::All);
        for (job, part, home, path) in [
            (vec![], vec![], true, true),
            (vec![only(&[])], vec![], false, false),
            (vec![only(&[])], vec![all.clone()], true, true),
            (vec![all.clone()], vec![only(&["HOME"])], true, false),
            (vec![only(&["PATH"])], vec![], false, true),
            (vec![only(&["PATH"])], vec![only(&["HOME"])], true, false),
            (vec![only(&[])], vec![Rule::Export("PATH".to_owned())], false, true),
            (vec![only(&[])], vec![Rule::Export("H*".to_owned())], true, false),
        ] {
            let environment = Environment::of(&job, &[], &part);
            let is_seen = |name| seen(&environment, name).is_some();
            assert_eq!((is_seen("HOME"), is_seen("PATH")), (home, path), "{job:?} {part:?}");
        }
    }

    #[test]
    fn the_last_setting_counts_and_the_part_comes_last() {
        let environment = Environment::of(
            &[set("A", "1"), set("HOME", "/j")],
            &[set("B", "2")],
            &[set("A", "3"), set("A", "4")],
        );
        assert_eq!(seen(&environment, "A").as_deref(), Some("4"));
        assert_eq!(seen(&environment, "B").as_deref(), Some("2"));
        assert_eq!(seen(&environment, "HOME").as_deref(), Some("/j"));
        assert_eq!(seen(&environment, "C"), None);
        // PRRTE would take the first of several.
        assert_eq!(environment.set.iter().filter(|(name, _)| name == "A").count(), 1);
    }
}
