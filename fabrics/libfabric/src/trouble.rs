//! What is said when something goes wrong: what, with whom, by which provider, why, and what to do.

use fabric::{FabricError, Fault, Peer};
use libfabric_sys::LibfabricError;

use crate::card::BadCard;

pub(crate) const NAME: &str = "libfabric";

pub(crate) fn trouble(fault: Fault, what: String) -> FabricError {
    FabricError { fabric: NAME, fault, what }
}

/// The library cannot be used.
pub(crate) fn no_library(error: &LibfabricError) -> FabricError {
    let remedy = match error {
        LibfabricError::NotLoaded { .. } => {
            "Install it (Debian: libfabric1), or name it with WEFT_LIBFABRIC=/path/to/libfabric.so.1."
        }
        _ => {
            "Install libfabric 1.14 or newer (Debian: libfabric1), or name one with \
             WEFT_LIBFABRIC=/path/to/libfabric.so.1."
        }
    };
    trouble(Fault::System, format!("{error}\n{remedy}"))
}

/// No provider offers what is needed.
pub(crate) fn no_provider(wanted: Option<&str>) -> FabricError {
    let wanted = wanted.map_or_else(|| "no provider".to_owned(), |name| format!("no provider `{name}`"));
    let what = format!(
        "{wanted} offers a reliable-datagram endpoint with messages and reads of remote memory here\n\
         `fi_info -t FI_EP_RDM` (Debian: libfabric-bin) lists what there is."
    );
    trouble(Fault::System, what)
}

/// An endpoint cannot be opened.
pub(crate) fn cannot_open(provider: &str, error: &LibfabricError) -> FabricError {
    let fault = if is_short(error) { Fault::Resources } else { Fault::System };
    let what = format!("provider {provider} cannot open an endpoint: {error}\n{}", remedy(error));
    trouble(fault, what)
}

/// A card of a peer that cannot be used.
pub(crate) fn bad_card(peer: Peer, bad: BadCard) -> FabricError {
    let (fault, remedy) = match bad {
        BadCard::Foreign => {
            (Fault::BadAddress, "Its card was damaged on the way, or it runs another program.")
        }
        BadCard::Version(_) => {
            (Fault::Protocol, "Start all processes of a job with the same version of weft.")
        }
    };
    trouble(fault, format!("cannot reach process {}: {bad}\n{remedy}", peer.0))
}

/// A peer that is on another network: it uses the provider `theirs`, and this process `ours`.
pub(crate) fn elsewhere(peer: Peer, theirs: &str, ours: &str) -> FabricError {
    let what = format!(
        "cannot reach process {}: it uses provider {theirs}, and this process {ours}, or one of another host\n\
         Choose a provider that all hosts have: WEFT_FABRIC=libfabric:NAME.",
        peer.0
    );
    trouble(Fault::Unreachable, what)
}

/// The provider does not take a peer's name.
pub(crate) fn cannot_insert(who: &str, provider: &str, error: &LibfabricError) -> FabricError {
    let what = format!(
        "provider {provider} cannot reach {who}: {error}\nWEFT_FABRIC=tcp goes another way, if slowly."
    );
    trouble(Fault::Unreachable, what)
}

/// The provider says that a peer cannot be reached any more.
pub(crate) fn lost(who: &str, provider: &str, said: &str) -> FabricError {
    let what = format!(
        "lost {who}: provider {provider} says: {said}\nIts own messages, or its process manager's, say why it \
         ended; if it still runs, the network between the hosts broke."
    );
    trouble(Fault::Died, what)
}

/// Memory of a large message is not registered.
pub(crate) fn cannot_register(provider: &str, bytes: usize, error: &LibfabricError) -> FabricError {
    let what = format!(
        "provider {provider} does not register {bytes} bytes of memory: {error}; large messages go in chunks, which is slower\n{}",
        remedy(error)
    );
    trouble(Fault::Resources, what)
}

/// The provider did not do what was wanted of a peer's memory.
pub(crate) fn denied(who: &str, provider: &str, said: &str) -> FabricError {
    let what = format!(
        "the memory of {who} cannot be used: provider {provider} says: {said}\nIt is not offered any more, or never was; if \
         the process has ended, its own messages say why."
    );
    trouble(Fault::Protocol, what)
}

/// Memory is not registered that peers are to use.
pub(crate) fn cannot_attach(provider: &str, bytes: usize, error: &LibfabricError) -> FabricError {
    let what = format!(
        "provider {provider} does not let peers use {bytes} bytes of memory: {error}\n{}",
        remedy(error)
    );
    trouble(Fault::Resources, what)
}

/// Something is sent to a peer that has said farewell.
pub(crate) fn has_left(who: &str) -> FabricError {
    let what = format!(
        "cannot send to {who}: it has ended its part of the job in good order\nEvery process must finish its \
         communication before any of them finalizes."
    );
    trouble(Fault::Died, what)
}

/// A peer that was lost is wanted again.
pub(crate) fn was_lost(who: &str) -> FabricError {
    let what = format!(
        "cannot connect to {who}: it was lost before\nThe first error about it says why; a lost process stays lost."
    );
    trouble(Fault::Died, what)
}

/// A peer sent what it must not.
pub(crate) fn broke_protocol(who: &str, what: &str) -> FabricError {
    let what = format!("{who} sent {what}\nIts memory is damaged, or it runs another version of weft.");
    trouble(Fault::Protocol, what)
}

fn remedy(error: &LibfabricError) -> &'static str {
    if is_short(error) {
        "Network cards lock the memory they read: raise the limit with ulimit -l unlimited, where the daemons of \
         the cluster's process manager start, too."
    } else {
        "FI_LOG_LEVEL=warn lets libfabric say more; WEFT_FABRIC=tcp does without it."
    }
}

/// Memory, or locked memory, is exhausted.
fn is_short(error: &LibfabricError) -> bool {
    const OUT_OF_MEMORY: i32 = 12;
    matches!(error, LibfabricError::Refused { code: OUT_OF_MEMORY, .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_memory_has_a_remedy_of_its_own() {
        let short = LibfabricError::Refused { call: "fi_mr_reg", code: 12, text: "Cannot allocate".into() };
        let error = cannot_register("verbs;ofi_rxm", 1 << 20, &short);
        for part in ["1048576 bytes", "verbs;ofi_rxm", "fi_mr_reg answered 12"] {
            assert!(error.what.contains(part), "{part} is missing in {error}");
        }
        assert!(error.what.contains("ulimit -l"), "{error}");
        let other = LibfabricError::Refused { call: "fi_mr_reg", code: 22, text: "Invalid".into() };
        assert!(!cannot_open("x", &other).what.contains("ulimit"));
    }
}
