//! What the kernel tells of network cards, without libfabric: which there are, and where they are plugged in.

use std::path::{Path, PathBuf};

use libfabric_sys::{Found, PciAddress};

/// The network cards of this host that providers of libfabric other than plain sockets may serve, by their
/// names in the kernel: `mlx5_0`, `efa_0`, `cxi0`. `sys` is where the kernel tells, `/sys`. Takes some
/// microseconds, where loading the library and asking its providers takes up to some hundred milliseconds.
#[must_use]
pub fn cards(sys: &Path) -> Vec<String> {
    let mut cards: Vec<String> = (CLASSES.iter())
        .filter_map(|class| std::fs::read_dir(sys.join("class").join(class)).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect();
    cards.sort();
    cards
}

/// The cpus that a way's card is plugged in nearest to, in the kernel's words, as `0-15,32-47`; none where
/// there is no card, or nobody knows.
pub(crate) fn local_cpus(sys: &Path, found: &Found) -> Option<String> {
    let pci = found.nic.as_ref().and_then(|nic| nic.pci);
    let on_bus = pci.map(|pci: PciAddress| sys.join("bus/pci/devices").join(pci.to_string()));
    let device = found.nic.as_ref().map(|nic| nic.device.as_str()).unwrap_or_default();
    let mut folders: Vec<PathBuf> = on_bus.into_iter().collect();
    for name in [device, &found.domain].into_iter().filter(|name| is_file_name(name)) {
        for class in CLASSES.iter().chain(&["net"]) {
            let device = sys.join("class").join(class).join(name).join("device");
            // What stands between, as a virtual device, has no place of its own.
            folders.extend([device.clone(), device.join("..")]);
        }
    }
    let text =
        folders.iter().find_map(|folder| std::fs::read_to_string(folder.join("local_cpulist")).ok())?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Whether there are cards that are plugged in at different places, so that it matters which one is taken.
#[must_use]
pub fn are_cards_apart(sys: &Path) -> bool {
    let mut places: Vec<String> = (CLASSES.iter().chain(&["net"]))
        .filter_map(|class| std::fs::read_dir(sys.join("class").join(class)).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path().join("device")))
        .flat_map(|device| [device.join("local_cpulist"), device.join("../local_cpulist")])
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .collect();
    places.sort_unstable();
    places.dedup();
    places.len() > 1
}

/// The cpus of a list in the kernel's words; `None` where it is none.
pub(crate) fn cpus(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains('/')
}

/// InfiniBand, RoCE, EFA, Omni-Path and the like; Slingshot.
const CLASSES: [&str; 2] = ["infiniband", "cxi"];
/// No machine has more.
const CPUS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_found_where_there_are_any() {
        let sys = tempfile::tempdir().unwrap();
        assert_eq!(cards(sys.path()), [""; 0]);
        for card in ["infiniband/mlx5_1", "infiniband/mlx5_0", "cxi/cxi0", "net/eth0"] {
            std::fs::create_dir_all(sys.path().join("class").join(card)).unwrap();
        }
        assert_eq!(cards(sys.path()), ["cxi0", "mlx5_0", "mlx5_1"]);
    }

    #[test]
    fn a_cards_place_is_found_by_its_bus_or_its_name() {
        let sys = tempfile::tempdir().unwrap();
        let write = |file: &str, cpus: &str| {
            let file = sys.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, cpus).unwrap();
        };
        write("bus/pci/devices/0000:3b:00.1/local_cpulist", "0-7\n");
        write("class/infiniband/mlx5_9/device/local_cpulist", "8-15\n");
        assert!(!are_cards_apart(sys.path()), "one place");
        write("class/net/eth0/device/none", "");
        write("class/net/eth0/local_cpulist", "4,6-7\n");
        assert!(are_cards_apart(sys.path()));
        let pci = PciAddress { domain: 0, bus: 0x3b, device: 0, function: 1 };
        let found = |device: &str, domain: &str, pci| {
            let nic = crate::survey::tests::nic(device, pci);
            Found { nic: Some(nic), ..crate::survey::tests::found("x", domain, None) }
        };
        let cpus_of = |found: &Found| local_cpus(sys.path(), found);
        assert_eq!(cpus_of(&found("mlx5_9", "a", Some(pci))).as_deref(), Some("0-7"), "the bus knows best");
        assert_eq!(cpus_of(&found("mlx5_9", "a", None)).as_deref(), Some("8-15"));
        assert_eq!(cpus_of(&found("", "eth0", None)).as_deref(), Some("4,6-7"), "behind a virtual device");
        for nonsense in ["", "..", "a/../../bus", "lo"] {
            assert_eq!(cpus_of(&found(nonsense, nonsense, None)), None, "{nonsense}");
        }
    }

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(cpus("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        for nonsense in ["", "a", "3-1", "1-", "0-99999999999", "0-70000"] {
            assert_eq!(cpus(nonsense), None, "{nonsense}");
        }
    }
}
