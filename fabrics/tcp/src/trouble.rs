//! Errors in words for a person: what, with whom, where, the system's reason; and below it what to do.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use fabric::{FabricError, Fault, Peer};
use rustix::io::Errno;

use crate::card::BadCard;

/// The name of this fabric in every message.
pub(crate) const NAME: &str = "tcp";

pub(crate) fn trouble(fault: Fault, what: String) -> FabricError {
    FabricError { fabric: NAME, fault, what }
}

/// The system's reason as the C library words it, with its number.
pub(crate) fn reason(errno: Errno) -> String {
    std::io::Error::from(errno).to_string()
}

/// Whether the process, or the whole system, has no descriptor left.
pub(crate) fn is_out_of_descriptors(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE)
}

/// A system call failed while the fabric was opened.
pub(crate) fn cannot_open(step: &str, errno: Errno) -> FabricError {
    let (fault, remedy) = if is_out_of_descriptors(errno) {
        (Fault::Resources, descriptors_remedy("the fabric itself needs four descriptors"))
    } else {
        let remedy = "Start the program where it may use tcp, or leave tcp out with WEFT_FABRIC=shm.";
        (Fault::System, remedy.to_string())
    };
    trouble(fault, format!("cannot {step}: {}\n{remedy}", reason(errno)))
}

/// No port of the range can be had.
pub(crate) fn no_port(first: u16, last: u16, errno: Errno) -> FabricError {
    let what = format!(
        "no port from {first} to {last} can be listened on: {}\nWEFT_TCP_PORTS must offer at least one free port \
         for each process on a host, none of them below 1024.",
        reason(errno)
    );
    trouble(Fault::Resources, what)
}

/// What came as an address is none, or one of another version.
pub(crate) fn bad_card(peer: Peer, bad: &BadCard) -> FabricError {
    let peer = peer.0;
    match bad {
        BadCard::Foreign => {
            let what = format!(
                "process {peer} has no tcp address that can be read\nStart all processes with the same version \
                 of weft and the same fabrics."
            );
            trouble(Fault::BadAddress, what)
        }
        BadCard::Version { .. } => {
            let what = format!("cannot connect to process {peer}: {bad}\n{VERSION_REMEDY}");
            trouble(Fault::Protocol, what)
        }
    }
}

/// How one address was tried, and what came of it.
pub(crate) struct Tried {
    pub(crate) address: SocketAddr,
    pub(crate) reason: Failure,
}

/// Why one address is no way to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The system's reason.
    System(Errno),
    /// Nothing came back in this time.
    Silence(Duration),
    /// The connection was closed before the handshake was done, as often as it was tried.
    Closed,
    /// A process took a connection and closed it, and now none listens at this address.
    Gone,
    /// A process that is not the peer took the connection and said nothing.
    Unproved,
    /// The process that listens at this address does not know the secret, or speaks another protocol.
    Stranger,
    /// The peer itself has no descriptor left.
    NoDescriptors,
    /// The peer speaks another version.
    Version(u16),
    /// The peer says that there is another connection already.
    Another,
}

impl Failure {
    fn words(self) -> String {
        match self {
            Failure::System(errno) => reason(errno),
            Failure::Silence(limit) => format!("no answer within {limit:?}"),
            Failure::Closed => "closed again and again before the handshake was done".to_string(),
            Failure::Gone => "took a connection, closed it, and does not listen any more".to_string(),
            Failure::Unproved => "answered, but did not prove to be that process".to_string(),
            Failure::Stranger => "somebody else listens there".to_string(),
            Failure::NoDescriptors => "that process has no file descriptor left".to_string(),
            Failure::Version(theirs) => {
                let ours = crate::handshake::VERSION;
                format!(
                    "that process speaks version {theirs} of the tcp protocol, and this one version {ours}"
                )
            }
            Failure::Another => "that process had a connection to this one, which has ended".to_string(),
        }
    }

    fn is_about_descriptors(self) -> bool {
        match self {
            Failure::System(errno) => is_out_of_descriptors(errno),
            other => other == Failure::NoDescriptors,
        }
    }
}

/// No address of a peer leads to it. `pair` names both ends; `tried` is every address.
pub(crate) fn unreachable(pair: &str, tried: &[Tried]) -> FabricError {
    if tried.is_empty() {
        let what = format!(
            "cannot connect {pair}: it offers no address that another host can dial\nGive its host a network \
             address, or name its interface in WEFT_TCP_INTERFACES if that is set."
        );
        return trouble(Fault::Unreachable, what);
    }
    let list: Vec<String> =
        tried.iter().map(|tried| format!("{}: {}", tried.address, tried.reason.words())).collect();
    let (fault, remedy) = remedy_for(tried);
    trouble(fault, format!("cannot connect {pair}: {}\n{remedy}", list.join("; ")))
}

fn remedy_for(tried: &[Tried]) -> (Fault, String) {
    if tried.iter().any(|tried| tried.reason.is_about_descriptors()) {
        return (Fault::Resources, descriptors_remedy("every connection needs a descriptor"));
    }
    if tried.iter().any(|tried| matches!(tried.reason, Failure::Version(_))) {
        return (Fault::Protocol, VERSION_REMEDY.to_string());
    }
    if tried.iter().any(|tried| matches!(tried.reason, Failure::Unproved | Failure::Stranger)) {
        let remedy = "Somebody else takes connections there: a proxy, a firewall that answers for others, or a \
                      program that has the same address. Choose the way with WEFT_TCP_INTERFACES, or other ports \
                      with WEFT_TCP_PORTS=20000-20999.";
        return (Fault::Unreachable, remedy.to_string());
    }
    if tried.iter().any(|tried| tried.reason == Failure::Gone) {
        let remedy = "That process has ended; its own messages, or its process manager's, say why.";
        return (Fault::Died, remedy.to_string());
    }
    let remedy = "If that process still runs, a firewall is likely between the two: let tcp through, or name the \
                  open ports in WEFT_TCP_PORTS=20000-20999; WEFT_CONNECT_TIMEOUT sets how long to try.";
    (Fault::Unreachable, remedy.to_string())
}

/// An open connection broke.
pub(crate) fn died(who: &dyn Display, how: &str) -> FabricError {
    let what = format!(
        "lost {who}: {how}\nIts own messages, or its process manager's, say why it ended; if it still runs, the \
         network between the hosts broke."
    );
    trouble(Fault::Died, what)
}

/// A peer whose loss was told is wanted again.
pub(crate) fn was_lost(peer: Peer, host: &str) -> FabricError {
    let what = format!(
        "cannot connect to process {} on {host}: it was lost before\nThe first error about it says why; a lost \
         process stays lost.",
        peer.0
    );
    trouble(Fault::Died, what)
}

/// Something was sent to a peer that had said goodbye.
pub(crate) fn has_ended(who: &dyn Display) -> FabricError {
    let what = format!(
        "cannot send to {who}: it has ended its part of the job in good order\nEvery process must finish its \
         communication before any of them finalizes."
    );
    trouble(Fault::Died, what)
}

/// A peer that had proved itself sent what is no frame.
pub(crate) fn broke_protocol(who: &dyn Display, what: &dyn Display) -> FabricError {
    let what = format!(
        "{who} sent {what}\nIts memory is damaged, or it runs another version of weft; the connection is closed."
    );
    trouble(Fault::Protocol, what)
}

fn descriptors_remedy(need: &str) -> String {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or("unlimited".to_string(), |limit| limit.to_string());
    format!("Raise the limit of open files with ulimit -n (it is {limit} here): {need}.")
}

const VERSION_REMEDY: &str = "Start all processes of a job with the same version of weft.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_named_with_its_reason_and_the_remedy_below() {
        let tried = [
            Tried {
                address: "10.0.0.7:20003".parse().expect("an address"),
                reason: Failure::System(Errno::CONNREFUSED),
            },
            Tried {
                address: "[fd00::7]:20003".parse().expect("an address"),
                reason: Failure::Silence(Duration::from_secs(10)),
            },
        ];
        let error = unreachable("from process 0 on a to process 3 on b", &tried);
        assert_eq!(error.fault, Fault::Unreachable);
        let (first, second) = error.what.split_once('\n').expect("two lines");
        for part in ["process 0 on a", "process 3 on b", "10.0.0.7:20003: Connection refused", "within 10s"] {
            assert!(first.contains(part), "{part} is missing in {first}");
        }
        assert!(second.contains("firewall") && second.contains("WEFT_TCP_PORTS"), "{second}");
    }

    #[test]
    fn descriptors_and_versions_have_remedies_of_their_own() {
        let address = "127.0.0.1:9".parse().expect("an address");
        let error = unreachable("x", &[Tried { address, reason: Failure::System(Errno::MFILE) }]);
        assert_eq!(error.fault, Fault::Resources);
        assert!(error.what.contains("ulimit -n"), "{error}");
        let error = unreachable("x", &[Tried { address, reason: Failure::Version(9) }]);
        assert_eq!(error.fault, Fault::Protocol);
        assert!(error.what.contains("version 9") && error.what.contains("same version"), "{error}");
    }
}
