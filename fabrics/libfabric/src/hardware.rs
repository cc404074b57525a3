//! Whether it is worth asking libfabric at all.

use std::path::Path;

/// The network cards of this host that providers of libfabric other than plain sockets may serve, by their names in the
/// kernel: `mlx5_0`, `efa_0`, `cxi0`. `sys` is where the kernel tells, `/sys`. Takes some microseconds, where loading the
/// library and asking its providers takes up to some hundred milliseconds.
#[must_use]
pub fn cards(sys: &Path) -> Vec<String> {
    let mut cards: Vec<String> = (CLASSES.iter())
        .filter_map(|class| std::fs::read_dir(sys.join("class").join(class)).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect();
    cards.sort();
    cards
}

/// InfiniBand, RoCE, EFA, Omni-Path and the like; Slingshot.
const CLASSES: [&str; 2] = ["infiniband", "cxi"];

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
}
