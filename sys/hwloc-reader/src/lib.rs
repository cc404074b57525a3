//! `libweft_hwloc.so`: asks hwloc what this machine is, and writes the answer as text into memory of the
//! caller.
//!
//! The crate `hwloc2` links libhwloc, so that whatever contains it cannot start where libhwloc is not
//! installed. This library is the only thing that contains it; weft loads it when it wants to know, and does
//! without where it cannot.
//!
//! Parts of `hwloc2` must not be called. `Display`, `name` and asking for NUMA nodes by type write or free
//! memory that is not theirs, or panic; sets of cpus point into the topology and must not outlive it. NUMA
//! nodes are found by what they are near to: cpus with the same set of nodes are one part, and hwloc knows
//! the memory of an object with these cpus.
//!
//! **Invariant:** nothing of hwloc is kept; all of it is copied into text before the topology is dropped.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::catch_unwind;

use hwloc2::{ObjectType, Topology, TopologyFlag, TopologyObject};

/// Writes the tree of this machine, in the text form of `topology::Machine`, to `buffer`, which has room for
/// `bytes`. Answers how many bytes the text has: where that is more than there is room for, nothing was
/// written. Below zero there is no answer: -1 where hwloc cannot tell, -2 where the caller wants another
/// version of the text than this one.
///
/// # Safety
/// `buffer` is valid for writing `bytes` bytes, and nobody else touches these meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_hwloc_machine(version: u32, buffer: *mut u8, bytes: usize) -> i64 {
    if version != VERSION {
        return OTHER_VERSION;
    }
    // A panic must not reach the caller, who may not be Rust.
    let Some(text) = catch_unwind(describe).ok().flatten() else { return NO_ANSWER };
    if text.len() <= bytes {
        // SAFETY: the caller vouches for `bytes` bytes at `buffer`, the text has no more, and it is our own
        // memory.
        unsafe { buffer.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
    }
    text.len() as i64
}

/// The text, or nothing where hwloc fails.
fn describe() -> Option<String> {
    // Also cpus that this process may not use: what is kept of the answer is for all jobs of this host.
    let topology = Topology::with_flags(vec![TopologyFlag::IncludeDisallowed])?;
    let mut lines =
        Lines { text: format!("weft machine {VERSION}\n"), near: BTreeMap::new(), bytes: BTreeMap::new() };
    let mut to_do = vec![topology.object_at_root()];
    while let Some(object) = to_do.pop() {
        lines.add(object)?;
        to_do.extend(object.children());
    }
    Some(lines.finish())
}

struct Lines {
    text: String,
    /// The cpus that are near to the same NUMA nodes, by these.
    near: BTreeMap<Vec<u32>, Vec<u32>>,
    /// The memory in objects that hold these cpus.
    bytes: BTreeMap<Vec<u32>, u64>,
}

impl Lines {
    /// `None` where hwloc says what cannot be.
    fn add(&mut self, object: &TopologyObject) -> Option<()> {
        let cpus: Vec<u32> = numbers(object.cpuset()?)?;
        if cpus.is_empty() {
            return Some(());
        }
        self.bytes.entry(cpus.clone()).or_insert(object.total_memory());
        let cache_bytes = || object.cache_attributes().map(|cache| cache.size()).filter(|bytes| *bytes > 0);
        let (name, bytes) = match object.object_type() {
            ObjectType::Package => ("Package", None),
            ObjectType::Die | ObjectType::Group => ("Group", None),
            ObjectType::L3Cache => ("L3Cache", cache_bytes()),
            ObjectType::L2Cache => ("L2Cache", cache_bytes()),
            ObjectType::Core => ("Core", None),
            ObjectType::PU => {
                self.near.entry(numbers(object.nodeset()?)?).or_default().extend(&cpus);
                ("PU", None)
            }
            _ => return Some(()),
        };
        self.line(name, Some(object.os_index()).filter(|index| *index != UNKNOWN), bytes, &cpus);
        Some(())
    }

    fn line(&mut self, name: &str, index: Option<u32>, bytes: Option<u64>, cpus: &[u32]) {
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let _ =
            writeln!(self.text, "{name} {} {} {}", number(index.map(u64::from)), number(bytes), list(cpus));
    }

    fn finish(mut self) -> String {
        for (nodes, mut cpus) in
            std::mem::take(&mut self.near).into_iter().filter(|(nodes, _)| !nodes.is_empty())
        {
            cpus.sort_unstable();
            let bytes = self.bytes.get(&cpus).copied().filter(|bytes| *bytes > 0);
            self.line("NUMANode", nodes.first().copied(), bytes, &cpus);
        }
        self.text
    }
}

/// The numbers of a set, ascending; `None` for one without an end.
fn numbers(set: hwloc2::Bitmap) -> Option<Vec<u32>> {
    (set.weight() >= 0).then(|| set.into_iter().collect())
}

/// `0-3,8`.
fn list(cpus: &[u32]) -> String {
    let mut text = String::new();
    for range in cpus.chunk_by(|one, next| one + 1 == *next) {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match range {
            [only] => write!(text, "{comma}{only}"),
            [first, .., last] => write!(text, "{comma}{first}-{last}"),
            [] => Ok(()),
        };
    }
    text
}

/// The version of the text, and of the call.
const VERSION: u32 = 1;
const NO_ANSWER: i64 = -1;
const OTHER_VERSION: i64 = -2;
/// What hwloc says where the system gives no number.
const UNKNOWN: u32 = u32::MAX;
