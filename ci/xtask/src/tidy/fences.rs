//! Things that may stand in a few files only: `unsafe`, raw atomics, exported names, the names of the
//! fabrics.

use super::source::{Source, UnsafeKind, is_word};
use super::{File, Finding};

/// Everything in this file that is fenced in elsewhere.
pub fn check(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let source = Source::new(&file.text);
    // A generator gives no reasons; what it writes is fenced in all the same.
    let mut findings = if file.is_generated() { Vec::new() } else { unsafe_without_note(file, &source) };
    findings.extend(unsafe_outside(file, &source));
    findings.extend(raw_atomics(file, &source));
    findings.extend(exported_names(file, &source));
    findings.extend(fabric_names(file, &source));
    findings.extend(hwloc_names(file, &source));
    findings
}

fn unsafe_outside(file: &File, source: &Source<'_>) -> Option<Finding> {
    let (line, _) = *source.unsafes().first()?;
    let allowed = UNSAFE_ALLOWED.iter().any(|(pattern, _)| matches(pattern, &file.path));
    (!allowed).then(|| Finding {
        file: file.path.clone(),
        line,
        what: "`unsafe` outside the fence".to_string(),
        why: "use the safe face of one of the files in UNSAFE_ALLOWED (ci/xtask/src/tidy/fences.rs)",
    })
}

fn unsafe_without_note(file: &File, source: &Source<'_>) -> Vec<Finding> {
    let bare = source.unsafes().into_iter().filter(|&(line, kind)| match kind {
        UnsafeKind::Vouched => !source.has_note(line, &["SAFETY:"]),
        UnsafeKind::Demanded => !source.has_note(line, &["# Safety", "SAFETY:"]),
    });
    let finding = |(line, kind)| Finding {
        file: file.path.clone(),
        line,
        what: match kind {
            UnsafeKind::Vouched => "`unsafe` without `// SAFETY:`".to_string(),
            UnsafeKind::Demanded => "`unsafe` item without `# Safety`".to_string(),
        },
        why: "name the condition and who established it",
    };
    bare.map(finding).collect()
}

fn raw_atomics(file: &File, source: &Source<'_>) -> Vec<Finding> {
    if !file.path.starts_with("fabrics/shm/src/") || file.path.ends_with("/sync.rs") {
        return Vec::new();
    }
    let raw = source.words("atomic").filter(|&offset| {
        let before = &source.code[..offset];
        before.ends_with("core::sync::") || before.ends_with("std::sync::")
    });
    let finding = |offset| Finding {
        file: file.path.clone(),
        line: source.line(offset),
        what: "a raw atomic".to_string(),
        why: "take it from sync.rs, so that loom can replace it",
    };
    raw.map(finding).collect()
}

fn exported_names(file: &File, source: &Source<'_>) -> Vec<Finding> {
    if file.path.starts_with("crates/abi/") || file.path == HWLOC_FILE {
        return Vec::new();
    }
    let words = ["no_mangle", "export_name"];
    let finding = |offset| Finding {
        file: file.path.clone(),
        line: source.line(offset),
        what: "an exported name".to_string(),
        why: "only crates/abi shows names to the linker, and sys/hwloc-reader one to weft",
    };
    words.iter().flat_map(|word| source.words(word)).map(finding).collect()
}

fn fabric_names(file: &File, source: &Source<'_>) -> Vec<Finding> {
    if !file.path.starts_with("crates/job/src/") || file.path == FABRICS_FILE {
        return Vec::new();
    }
    let finding = |offset| Finding {
        file: file.path.clone(),
        line: source.line(offset),
        what: "the name of a fabric's crate".to_string(),
        why: "crates/job/src/fabrics.rs is the one file that knows the fabrics; go through it",
    };
    let used = FABRICS.iter().flat_map(|name| {
        source
            .words(name)
            .filter(|&offset| names_a_crate(&source.code[..offset], &source.code[offset + name.len()..]))
    });
    used.map(finding).collect()
}

fn hwloc_names(file: &File, source: &Source<'_>) -> Vec<Finding> {
    if file.path == HWLOC_FILE {
        return Vec::new();
    }
    let finding = |offset| Finding {
        file: file.path.clone(),
        line: source.line(offset),
        what: "the crate hwloc2".to_string(),
        why: "it links libhwloc; sys/hwloc-reader/src/lib.rs is the one file that may use it (docs/decisions/0010)",
    };
    source.words("hwloc2").map(finding).collect()
}

/// `shm::…` or `use shm…`, but not `crate::fabrics::shm::…` and not a variable.
fn names_a_crate(before: &str, after: &str) -> bool {
    let before = before.trim_end();
    let imported = before.ends_with("use") && !before[..before.len() - 3].ends_with(is_word);
    !before.ends_with("::") && (after.starts_with("::") || imported)
}

/// `**` stands for anything below a folder, a leading `*/` for any folder.
fn matches(pattern: &str, path: &str) -> bool {
    match (pattern.strip_suffix("**"), pattern.split_once('*')) {
        (Some(folder), _) => path.starts_with(folder),
        (None, Some((start, end))) => path.starts_with(start) && path.ends_with(end),
        (None, None) => pattern == path,
    }
}

/// Where `unsafe` may stand, and what for.
const UNSAFE_ALLOWED: &[(&str, &str)] = &[
    ("crates/abi/src/claims/**", "what C hands over by address, taken for what it is promised to be"),
    ("crates/abi/src/entry.rs", "the exported functions, which make those claims"),
    ("crates/abi/src/types.rs", "handles and addresses of functions, which any thread may know"),
    ("crates/abi/src/errors.rs", "calls error handlers of the program"),
    ("crates/abi/src/bodies/attributes.rs", "calls functions of the program that copy and delete attributes"),
    ("crates/abi/src/bodies/generalized.rs", "calls functions of the program for its requests"),
    ("crates/abi/src/bodies/operators.rs", "calls operators of the program, with arrays of elements"),
    ("crates/abi/src/bodies/*_tests.rs", "functions of a program, for tests"),
    ("crates/abi/src/parts.rs", "packed data that an operation keeps until it is over"),
    ("crates/abi/src/bodies/buffered.rs", "copies of messages, kept until they are gone"),
    ("crates/abi/src/bodies/partitioned.rs", "packed data that a request keeps"),
    ("crates/abi/src/bodies/point_to_point.rs", "packed data that a request keeps"),
    ("crates/abi/src/state.rs", "the runtime behind a pointer"),
    ("crates/abi/src/state/usual.rs", "the world's communicator behind a pointer"),
    ("crates/abi/src/state/exit.rs", "the end of the process, which libc makes"),
    ("crates/abi/src/missing.rs", "asks the loader where this library lies"),
    ("sys/**", "declares foreign C"),
    ("*/memory.rs", "user memory and shared memory, one module per room"),
    ("crates/fabric/src/copy.rs", "copies from and to such memory"),
    (
        "crates/fabric/src/fold.rs",
        "elements of two memories combined, whose number is taken from both claims",
    ),
    ("crates/fabric/src/strided.rs", "copies of blocks that stand apart, checked once for all of them"),
    ("fabrics/shm/src/cma.rs", "process_vm_readv and its relatives"),
    ("fabrics/shm/src/segment.rs", "mappings of shared memory"),
    (
        "fabrics/shm/src/system.rs",
        "locks of open descriptions, who is at the other end of a socket, and robust lists",
    ),
    ("fabrics/tcp/src/system.rs", "what the kernel knows of a connection"),
    ("crates/job/src/lock.rs", "the engine's lock"),
    ("crates/cli/src/spawn.rs", "between fork and exec"),
    ("crates/process-manager/src/inherited.rs", "descriptors that the launcher left open"),
    ("crates/datatype/src/x87.rs", "long double arithmetic"),
    ("crates/derive/src/lib.rs", "promises for structs whose fields have promised the same"),
];
/// The one file that asks hwloc; it is a library of its own, with one name in it.
const HWLOC_FILE: &str = "sys/hwloc-reader/src/lib.rs";
const FABRICS_FILE: &str = "crates/job/src/fabrics.rs";
const FABRICS: [&str; 3] = ["shm", "tcp", "libfabric"];

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(path: &str, text: &str) -> Vec<String> {
        check(&File { path: path.into(), text: text.into() })
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn generated_code_needs_no_notes_and_stays_inside_the_fence() {
        let text = "// @generated by a program\npub unsafe fn f() {}\n";
        assert!(whats("sys/pmix-sys/src/bindings.rs", text).is_empty());
        assert_eq!(whats("crates/weft/src/bindings.rs", text), ["`unsafe` outside the fence"]);
    }

    #[test]
    fn unsafe_stays_inside_the_fence() {
        let text = "// SAFETY: sure\nunsafe { f() }";
        assert_eq!(whats("crates/messaging/src/engine.rs", text), ["`unsafe` outside the fence"]);
        for path in ["crates/abi/src/claims/b.rs", "crates/fabric/src/memory.rs", "fabrics/shm/src/cma.rs"] {
            assert_eq!(whats(path, text), [""; 0], "{path}");
        }
        assert_eq!(whats("crates/messaging/src/engine.rs", "// unsafe { }"), [""; 0]);
        let body = "crates/abi/src/bodies/groups.rs";
        assert_eq!(whats(body, text), ["`unsafe` outside the fence"], "bodies are safe");
    }

    #[test]
    fn unsafe_says_why() {
        assert_eq!(whats("sys/a/src/lib.rs", "unsafe { f() }"), ["`unsafe` without `// SAFETY:`"]);
        assert_eq!(whats("sys/a/src/lib.rs", "pub unsafe fn f() {}"), ["`unsafe` item without `# Safety`"]);
        let documented = "/// # Safety\n/// Do.\n#[inline]\npub unsafe fn f() {}";
        assert_eq!(whats("sys/a/src/lib.rs", documented), [""; 0]);
    }

    #[test]
    fn atomics_of_shm_come_from_one_file() {
        let text = "use std::sync::atomic::AtomicU32;";
        assert_eq!(whats("fabrics/shm/src/ring.rs", text), ["a raw atomic"]);
        assert_eq!(whats("fabrics/shm/src/sync.rs", text), [""; 0]);
        for path in ["fabrics/tcp/src/poll.rs", "fabrics/shm/tests/processes.rs"] {
            assert_eq!(whats(path, text), [""; 0], "{path}"); // loom never runs these
        }
    }

    #[test]
    fn only_the_abi_exports_names() {
        let text = "#[unsafe(no_mangle)] fn f() {}";
        assert_eq!(whats("crates/weft/src/lib.rs", text), ["an exported name"]);
        assert_eq!(whats("crates/abi/src/x.rs", text), [""; 0]);
        assert_eq!(whats("sys/hwloc/src/lib.rs", text).len(), 1);
    }

    #[test]
    fn one_file_knows_hwloc() {
        assert_eq!(whats("crates/topology/src/lib.rs", "use hwloc2::Topology;"), ["the crate hwloc2"]);
        assert_eq!(whats("crates/topology/src/lib.rs", "// hwloc2\nuse hwloc;"), [""; 0]);
        assert_eq!(whats(HWLOC_FILE, "use hwloc2::Topology;"), [""; 0]);
    }

    #[test]
    fn one_file_knows_the_fabrics() {
        let found = |text| whats("crates/job/src/key_value_exchange.rs", text);
        assert_eq!(found("let x = shm::Shm::new();"), ["the name of a fabric's crate"]);
        assert_eq!(found("use tcp;"), ["the name of a fabric's crate"]);
        assert_eq!(found("use tcp::Tcp;").len(), 1);
        assert_eq!(found("crate::fabrics::shm::open(); let tcp = 1; f(tcp); \"tcp::x\";"), [""; 0]);
        assert_eq!(whats("crates/job/src/fabrics.rs", "use shm::Shm;"), [""; 0]);
    }
}
