//! Which crate may depend on which: arrows point down, and stay so.

use super::{File, Finding};

/// Every dependency between rooms of the workspace that is not in the table.
pub fn check(files: &[File]) -> Vec<Finding> {
    files
        .iter()
        .filter_map(|file| Some((room_of(&file.path)?, file)))
        .flat_map(|(room, file)| check_room(room, file))
        .collect()
}

/// The rooms of the workspace, without the chores, the comparison and the tests of what is installed.
pub fn rooms(files: &[File]) -> Vec<&str> {
    files
        .iter()
        .filter_map(|file| room_of(&file.path))
        .filter(|room| !["compare", "system-tests", "xtask"].contains(room))
        .collect()
}

fn check_room(room: &str, manifest: &File) -> Vec<Finding> {
    let finding = |line, what| Finding {
        file: manifest.path.clone(),
        line,
        what,
        why: "arrows between rooms point down; the table is ARROWS in ci/xtask/src/tidy/arrows.rs",
    };
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == room) else {
        return vec![finding(1, format!("room `{room}` is not in the table of arrows"))];
    };
    let in_tests = TEST_ARROWS.iter().find(|(name, _)| *name == room).map_or(&[][..], |(_, rooms)| rooms);
    let wrong = dependencies(&manifest.text).into_iter().filter(|dependency| {
        let is_room = ARROWS.iter().any(|(name, _)| *name == dependency.room);
        let is_allowed = allowed.contains(&dependency.room.as_str());
        is_room && !is_allowed && !(dependency.tests_only && in_tests.contains(&dependency.room.as_str()))
    });
    wrong
        .map(|dependency| finding(dependency.line, format!("`{room}` depends on `{}`", dependency.room)))
        .collect()
}

/// A line of a manifest that names a dependency.
#[derive(Debug, PartialEq, Eq)]
struct Dependency {
    room: String,
    line: usize,
    tests_only: bool,
}

fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut section = String::new();
    for (index, line) in manifest.lines().map(str::trim).enumerate() {
        let tests_only = section.contains("dev-dependencies");
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = name.to_string();
            if let Some((head, key)) = name.rsplit_once("dependencies.") {
                found.push(Dependency {
                    room: room_name(key),
                    line: index + 1,
                    tests_only: head.ends_with("dev-"),
                });
            }
        } else if section.ends_with("dependencies") && !line.is_empty() && !line.starts_with('#') {
            let key = line.split(['=', '.', ' ']).next().unwrap_or_default();
            found.push(Dependency { room: room_name(key), line: index + 1, tests_only });
        }
    }
    found
}

/// `shm` and `weft-shm` are the same room.
fn room_name(key: &str) -> String {
    let key = key.trim_matches('"');
    key.strip_prefix("weft-").unwrap_or(key).to_string()
}

/// `shm` for `fabrics/shm/Cargo.toml`; nothing for other files.
fn room_of(path: &str) -> Option<&str> {
    let (folder, room) = path.strip_suffix("/Cargo.toml")?.split_once('/')?;
    (["bench", "crates", "fabrics", "sys", "ci"].contains(&folder) && !room.contains('/')).then_some(room)
}

/// From each room to the rooms it may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("cli", &["weft", "topology"]),
    ("abi", &["weft", "datatype"]),
    (
        "weft",
        &["collectives", "datatype", "derive", "topology", "messaging", "fabric", "process-manager", "job"],
    ),
    (
        "job",
        &["collectives", "topology", "messaging", "fabric", "process-manager", "shm", "tcp", "libfabric"],
    ),
    ("collectives", &["messaging", "datatype", "fabric"]),
    ("messaging", &["recovery", "fabric"]),
    ("recovery", &["fabric"]),
    ("datatype", &["fabric"]),
    ("derive", &[]),
    ("topology", &["fabric", "hwloc"]),
    ("process-manager", &["pmix-sys"]),
    ("fabric", &[]),
    ("shm", &["fabric"]),
    ("tcp", &["fabric"]),
    ("libfabric", &["fabric", "libfabric-sys"]),
    ("libfabric-sys", &[]),
    ("pmix-sys", &[]),
    ("hwloc", &[]),
    ("hwloc-reader", &[]),
    ("xtask", &["system-tests"]),
    ("compare", &["system-tests"]),
    ("system-tests", &[]),
    (
        "fuzz",
        &[
            "weft",
            "datatype",
            "messaging",
            "fabric",
            "libfabric",
            "libfabric-sys",
            "process-manager",
            "shm",
            "tcp",
            "topology",
        ],
    ),
];
/// What tests may use besides: the engine's tests run on every fabric and on libfabric's mock provider, and
/// those about the machine want the library built that asks hwloc.
const TEST_ARROWS: &[(&str, &[&str])] = &[
    ("messaging", &["shm", "tcp"]),
    ("collectives", &["shm", "tcp"]),
    ("job", &["libfabric-sys"]),
    ("topology", &["hwloc-reader"]),
    ("cli", &["hwloc-reader"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(path: &str, text: &str) -> Vec<(usize, String)> {
        let files = [File { path: path.into(), text: text.into() }];
        check(&files).into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn an_arrow_that_points_up_is_found() {
        let text =
            "[package]\nname = \"weft-fabric\"\n\n[dependencies]\nthiserror = \"2\"\nweft.workspace = true\n";
        assert_eq!(whats("crates/fabric/Cargo.toml", text), [(6, "`fabric` depends on `weft`".to_string())]);
        assert_eq!(whats("crates/abi/Cargo.toml", text), []);
        let table = "[dependencies.weft-shm]\npath = \"x\"\n";
        assert_eq!(whats("fabrics/tcp/Cargo.toml", table), [(1, "`tcp` depends on `shm`".to_string())]);
        let target = "[target.'cfg(loom)'.dependencies]\ntcp = { workspace = true }\n";
        assert_eq!(whats("fabrics/shm/Cargo.toml", target).len(), 1);
    }

    #[test]
    fn tests_of_the_engine_may_use_fabrics() {
        let text = "[dev-dependencies]\nshm.workspace = true\n";
        assert_eq!(whats("crates/messaging/Cargo.toml", text), []);
        assert_eq!(whats("crates/messaging/Cargo.toml", &text.replace("dev-", "")).len(), 1);
        assert_eq!(whats("crates/datatype/Cargo.toml", text).len(), 1);
    }

    #[test]
    fn a_new_room_must_enter_the_table() {
        let found = whats("crates/cellar/Cargo.toml", "");
        assert_eq!(found, [(1, "room `cellar` is not in the table of arrows".to_string())]);
        assert_eq!(whats("bench/Cargo.toml", "[dependencies]\nshm = \"1\""), []);
    }

    #[test]
    fn the_table_itself_has_no_cycle() {
        fn depth(room: &str, seen: usize) -> usize {
            assert!(seen <= ARROWS.len(), "a cycle through {room}");
            let below = ARROWS.iter().find(|(name, _)| *name == room).map_or(&[][..], |(_, rooms)| rooms);
            below.iter().map(|room| 1 + depth(room, seen + 1)).max().unwrap_or(0)
        }
        assert!(depth("abi", 0) >= 3);
        assert!(ARROWS.iter().all(|(room, _)| depth(room, 0) < ARROWS.len()));
    }
}
