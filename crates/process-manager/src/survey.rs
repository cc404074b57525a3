//! What the environment says about process managers, for people who ask. Nothing is joined.

use crate::pmix;
use crate::start::{self, Offer, SIZE_VARIABLES, StartError, Variables, Wire, Wishes};
use crate::{Protocol, inherited};

/// The process managers that were found, and the one that would be used.
#[derive(Debug)]
pub struct Survey {
    /// Each manager, whether it is there or not.
    pub seen: Vec<Seen>,
    /// The protocol that would be used, and why; or why none can be.
    pub chosen: Result<(Protocol, String), StartError>,
}

/// A process manager that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its name, for the user.
    pub name: &'static str,
    /// Whether a job could use it.
    pub usable: bool,
    /// What was found of the manager, in words.
    pub what: String,
}

impl Survey {
    /// Looks at these variables, and at the descriptors and libraries that they name.
    #[must_use]
    pub fn of(variables: Variables<'_>, wishes: &Wishes) -> Survey {
        let seen =
            vec![socket(variables), port(variables), pmix_server(variables), library(variables, wishes)];
        let chosen = start::offer(variables, wishes.protocol, inherited::is_socket);
        let chosen = chosen.map(|offer| reason(&offer, wishes, variables));
        Survey { seen, chosen }
    }
}

fn socket(variables: Variables<'_>) -> Seen {
    let name = "PMI socket (PMI-1, PMI-2)";
    let Some(text) = variables("PMI_FD") else {
        return Seen { name, usable: false, what: "PMI_FD is not set".to_owned() };
    };
    let usable = text.trim().parse().is_ok_and(inherited::is_socket);
    let rank = variables("PMI_RANK").unwrap_or_else(|| "?".to_owned());
    let size = variables("PMI_SIZE").unwrap_or_else(|| "?".to_owned());
    let state = if usable { "an open socket" } else { "no open socket: a leftover, or closed by a wrapper" };
    Seen { name, usable, what: format!("PMI_FD={text} is {state}; rank {rank} of {size}") }
}

fn port(variables: Variables<'_>) -> Seen {
    let what = match variables("PMI_PORT") {
        Some(address) => format!("PMI_PORT={address}, PMI_ID={}", variables("PMI_ID").unwrap_or_default()),
        None => "PMI_PORT is not set".to_owned(),
    };
    Seen { name: "PMI server (PMI-1, PMI-2)", usable: variables("PMI_PORT").is_some(), what }
}

fn pmix_server(variables: Variables<'_>) -> Seen {
    let what = match variables("PMIX_NAMESPACE") {
        Some(namespace) => {
            let version = variables("PMIX_VERSION").map(|version| format!(", version {version}"));
            format!("PMIX_NAMESPACE={namespace}{}", version.unwrap_or_default())
        }
        None => "PMIX_NAMESPACE is not set".to_owned(),
    };
    Seen { name: "PMIx server", usable: variables("PMIX_NAMESPACE").is_some(), what }
}

fn library(variables: Variables<'_>, wishes: &Wishes) -> Seen {
    let mut tried = Vec::new();
    for name in pmix::libraries(wishes.libpmix.as_deref(), variables) {
        match pmix_sys::Client::version(&name) {
            Ok(version) => {
                let what = format!("{}: {version}", name.to_string_lossy());
                return Seen { name: "PMIx library", usable: true, what };
            }
            Err(error) => tried.push(error.to_string()),
        }
    }
    let what = format!("{} (needed under PMIx launchers only; WEFT_LIBPMIX names another)", tried.join("; "));
    Seen { name: "PMIx library", usable: false, what }
}

fn reason(offer: &Offer, wishes: &Wishes, variables: Variables<'_>) -> (Protocol, String) {
    let protocol = |wire: &Wire| match wire {
        Wire::One => Protocol::Pmi1,
        Wire::Two => Protocol::Pmi2,
    };
    let (protocol, mut why) = match offer {
        Offer::Inherited { wire, socket, rank, size } => {
            (protocol(wire), format!("descriptor {socket} leads to the launcher of rank {rank} of {size}"))
        }
        Offer::Listening { wire, address, id } => {
            (protocol(wire), format!("a launcher listens at {address} for process {id}"))
        }
        Offer::Pmix { namespace, .. } => (Protocol::Pmix, format!("a PMIx server runs the job {namespace}")),
        Offer::Alone => {
            let stated = SIZE_VARIABLES.iter().find(|name| variables(name).is_some());
            let stated = stated.map(|name| format!(" ({name} says so)")).unwrap_or_default();
            (Protocol::None, format!("no launcher has started this: a job of one rank{stated}"))
        }
    };
    if wishes.protocol.is_some() {
        why = format!("WEFT_PROCESS_MANAGER wants it; {why}");
    }
    (protocol, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(pairs: &[(&str, &str)], wishes: &Wishes) -> Survey {
        let look_up =
            |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Survey::of(&look_up, wishes)
    }

    #[test]
    fn what_is_chosen_has_a_reason_and_what_cannot_be_has_one_too() {
        let none = survey(&[], &Wishes::default());
        assert!(none.seen.iter().filter(|seen| seen.name != "PMIx library").all(|seen| !seen.usable));
        let (protocol, why) = none.chosen.unwrap();
        assert!(protocol == Protocol::None && why.contains("job of one"), "{why}");
        let port = survey(&[("PMI_PORT", "n1:9"), ("PMI_ID", "3")], &Wishes::default());
        assert!(port.seen[1].usable);
        assert!(port.chosen.unwrap().1.contains("listens at n1:9 for process 3"));
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")];
        assert!(matches!(survey(&slurm, &Wishes::default()).chosen, Err(StartError::Slurm { .. })));
    }

    #[test]
    fn a_closed_descriptor_and_an_absent_library_are_told() {
        let wishes = Wishes { libpmix: Some("/nowhere/libpmix.so.2".into()), ..Wishes::default() };
        let found = survey(&[("PMI_FD", "1000000"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")], &wishes);
        assert!(!found.seen[0].usable && found.seen[0].what.contains("no open socket"));
        assert!(!found.seen[3].usable && found.seen[3].what.contains("/nowhere/libpmix.so.2"));
    }
}
