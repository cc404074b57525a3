//! What the steps of schedules cost: constants in nanoseconds, by level of the machine.
//!
//! ```text
//! on a link      a message of n bytes      n <= eager:  latency + n * eager byte
//!                                          n >  eager:  latency + ask + n * byte, and on a node once more n * byte
//!                                                       where the sender does something else and does not help
//! at its ends    step                      what each end does for a message of any length
//! in a rank      copy, combine             fixed + n * byte
//! shared cores   turn                      until a core has gone from one rank to the next
//! ```
//! Ranks compare what algorithms take by these numbers, so the numbers must be the same at all of them
//! (decisions/0006). As a text, one line for each; a semicolon serves for the end of a line, so that all fit
//! into a variable:
//!
//! ```
//! use collectives::Costs;
//! let text = "weft costs 1;node 180 0.14 16384 870 0.041;network 9000 0.33 65536 9000 0.33;step 100;copy 20 0.025;combine 20 0.03;turn 900";
//! let costs = Costs::decode(text)?;
//! assert_eq!((costs.node.latency_ns, costs.network.eager_bytes_max), (180.0, 65536));
//! assert_eq!(costs.encode().replace('\n', ";").trim_end_matches(';'), text);
//! # Ok::<(), String>(())
//! ```

/// What a collective operation is made of, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Costs {
    /// Between two ranks of a node that have nothing of what follows between them.
    pub node: Link,
    /// Between two caches of a NUMA node; where nobody has told, as within one.
    pub cache: Option<Link>,
    /// Between two NUMA nodes of a package; where nobody has told, as within one.
    pub numa: Option<Link>,
    /// Between two packages of a node; where nobody has told, as within one.
    pub package: Option<Link>,
    /// Between two nodes.
    pub network: Link,
    /// The time that each end of a message spends on it, whatever its length.
    pub step_ns: f64,
    /// To copy within a rank.
    pub copy: Work,
    /// To combine one operand with another, so long each.
    pub combine: Work,
    /// Where ranks share cores: until a core has gone from one to the next.
    pub turn_ns: f64,
}

/// What lies between two ranks: the widest kind of part that does not hold both. From narrow to wide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HierarchyLevel {
    /// They share a NUMA node, and no cache.
    Cache,
    /// They share a package, and no NUMA node.
    Numa,
    /// They share a node, and no package.
    Package,
    /// They share nothing but the network.
    Node,
}

impl HierarchyLevel {
    /// All there are, from wide to narrow.
    pub const ALL: [HierarchyLevel; 4] =
        [HierarchyLevel::Node, HierarchyLevel::Package, HierarchyLevel::Numa, HierarchyLevel::Cache];

    /// The word for this level in files and variables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            HierarchyLevel::Numa => "numa",
            other => other.part(),
        }
    }

    /// What people call one of the parts that it is between.
    #[must_use]
    pub fn part(self) -> &'static str {
        match self {
            HierarchyLevel::Node => "node",
            HierarchyLevel::Package => "package",
            HierarchyLevel::Numa => "NUMA node",
            HierarchyLevel::Cache => "cache",
        }
    }
}

/// A level of the machine, as messages see it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// The way of an empty message.
    pub latency_ns: f64,
    /// Each byte of one that is sent at once.
    pub eager_byte_ns: f64,
    /// The longest message that is sent at once.
    pub eager_bytes_max: usize,
    /// What a longer one takes more, since its receiver is asked first.
    pub ask_ns: f64,
    /// Each byte of a longer one.
    pub byte_ns: f64,
}

/// What a rank does with bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Work {
    /// For no byte at all.
    pub fixed_ns: f64,
    /// For each byte.
    pub byte_ns: f64,
}

impl Work {
    /// Nothing is done.
    pub(crate) const NONE: Work = Work { fixed_ns: 0.0, byte_ns: 0.0 };

    /// The time for `bytes` bytes, in nanoseconds.
    #[must_use]
    pub fn of_ns(&self, bytes: usize) -> f64 {
        self.fixed_ns + self.byte_ns * bytes as f64
    }
}

impl Costs {
    /// Those that hold where nothing else is said. The level of the node is as `weft explain lanes --measure`
    /// had it on a virtual machine with two cpus, but for the longest message that is sent at once: that is 8
    /// KiB where reads are quick and 20 KiB where they are slow, which not all ranks need see alike. Copies
    /// and operators are as measured with vectors of the processor; a network, steps and turns are round
    /// figures of the same order as what tcp between two processes and programs there took.
    pub const BUILT_IN: Costs = Costs {
        node: Link {
            latency_ns: 180.0,
            eager_byte_ns: 0.14,
            eager_bytes_max: 16384,
            ask_ns: 870.0,
            byte_ns: 0.041,
        },
        cache: None,
        numa: None,
        package: None,
        network: Link {
            latency_ns: 9000.0,
            eager_byte_ns: 0.33,
            eager_bytes_max: 65536,
            ask_ns: 9000.0,
            byte_ns: 0.33,
        },
        step_ns: 100.0,
        copy: Work { fixed_ns: 20.0, byte_ns: 0.025 },
        combine: Work { fixed_ns: 20.0, byte_ns: 0.03 },
        turn_ns: 900.0,
    };

    /// The link over a border: where nobody has told, that of the next narrower one of which somebody has.
    #[must_use]
    pub fn over(&self, border: HierarchyLevel) -> &Link {
        let told = match border {
            HierarchyLevel::Node => Some(&self.network),
            HierarchyLevel::Package => self
                .told(HierarchyLevel::Package)
                .or(self.told(HierarchyLevel::Numa))
                .or(self.told(HierarchyLevel::Cache)),
            HierarchyLevel::Numa => self.told(HierarchyLevel::Numa).or(self.told(HierarchyLevel::Cache)),
            HierarchyLevel::Cache => self.told(HierarchyLevel::Cache),
        };
        told.unwrap_or(&self.node)
    }

    /// The link over a border, if somebody has told of it. Between nodes somebody always has.
    #[must_use]
    pub fn told(&self, border: HierarchyLevel) -> Option<&Link> {
        match border {
            HierarchyLevel::Node => Some(&self.network),
            HierarchyLevel::Package => self.package.as_ref(),
            HierarchyLevel::Numa => self.numa.as_ref(),
            HierarchyLevel::Cache => self.cache.as_ref(),
        }
    }

    /// Whether somebody has told of any border within a node.
    #[must_use]
    pub fn know_parts(&self) -> bool {
        self.package.is_some() || self.numa.is_some() || self.cache.is_some()
    }

    /// In how many chunks so many bytes go best, where n of them take n - 1 + `depth` rounds, and each round
    /// a chunk over that link.
    ///
    /// With rounds of a + m b for chunks of m bytes, that is the root of all bytes times depth times b / a;
    /// once for chunks that are sent at once, and once for longer ones.
    pub(crate) fn chunks(&self, link: &Link, bytes: usize, depth: usize) -> usize {
        let (all, depth) = (bytes as f64, depth as f64);
        let at_once = 2.0 * self.step_ns + link.latency_ns;
        let asked = at_once + link.ask_ns + link.latency_ns;
        let best = |round: f64, byte: f64| (all * depth * byte / round.max(1.0)).sqrt();
        let least = bytes.div_ceil(link.eager_bytes_max.max(1)) as f64;
        let whole = |count: f64| count.round().clamp(1.0, CHUNKS_MAX);
        let short = whole(best(at_once, link.eager_byte_ns).max(least));
        let long = whole(best(asked, link.byte_ns));
        let time = |count: f64| {
            let chunk = (all / count).ceil();
            let bytes = if chunk <= link.eager_bytes_max as f64 { link.eager_byte_ns } else { link.byte_ns };
            let round = if chunk <= link.eager_bytes_max as f64 { at_once } else { asked };
            (count - 1.0 + depth) * (round + chunk * bytes)
        };
        if time(short) <= time(long) { short as usize } else { long as usize }
    }

    /// The text of these constants.
    #[must_use]
    pub fn encode(&self) -> String {
        let link = |name: &str, link: &Link| {
            let Link { latency_ns, eager_byte_ns, eager_bytes_max, ask_ns, byte_ns } = link;
            format!("{name} {latency_ns} {eager_byte_ns} {eager_bytes_max} {ask_ns} {byte_ns}\n")
        };
        let part =
            |name: &str, told: &Option<Link>| told.as_ref().map(|told| link(name, told)).unwrap_or_default();
        let (cache, numa, package) =
            (part("cache", &self.cache), part("numa", &self.numa), part("package", &self.package));
        let (node, network) = (link("node", &self.node), link("network", &self.network));
        let work = |name: &str, work: &Work| format!("{name} {} {}\n", work.fixed_ns, work.byte_ns);
        let (copy, combine) = (work("copy", &self.copy), work("combine", &self.combine));
        format!(
            "{MAGIC}\n{node}{cache}{numa}{package}{network}step {}\n{copy}{combine}turn {}\n",
            self.step_ns, self.turn_ns
        )
    }

    /// Reads such a text. Lines may be left out and come in any order; what is left out is as in
    /// [`Costs::BUILT_IN`]. What stands behind a `#` is for people.
    ///
    /// # Errors
    /// The first line that is not as it must be.
    pub fn decode(text: &str) -> Result<Costs, String> {
        let without_words = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let lines = without_words.flat_map(|line| line.split(';')).map(str::trim);
        let mut lines = lines.filter(|line| !line.is_empty());
        match lines.next() {
            Some(MAGIC) => {}
            first => {
                let found = first.unwrap_or_default();
                return Err(format!("it must begin with `{MAGIC}`, and begins with {found:?}"));
            }
        }
        let mut costs = Costs::BUILT_IN;
        for line in lines {
            let (name, values) = line.split_once(' ').unwrap_or((line, ""));
            let values = values.split_whitespace().map(number).collect::<Result<Vec<f64>, String>>()?;
            match (name, &values[..]) {
                ("node", [..]) if values.len() == LINK_VALUES => costs.node = Link::of(&values),
                ("cache", [..]) if values.len() == LINK_VALUES => costs.cache = Some(Link::of(&values)),
                ("numa", [..]) if values.len() == LINK_VALUES => costs.numa = Some(Link::of(&values)),
                ("package", [..]) if values.len() == LINK_VALUES => costs.package = Some(Link::of(&values)),
                ("network", [..]) if values.len() == LINK_VALUES => costs.network = Link::of(&values),
                ("step", [value]) => costs.step_ns = *value,
                ("copy", &[fixed_ns, byte_ns]) => costs.copy = Work { fixed_ns, byte_ns },
                ("combine", &[fixed_ns, byte_ns]) => costs.combine = Work { fixed_ns, byte_ns },
                ("turn", [value]) => costs.turn_ns = *value,
                _ => return Err(format!("{line:?} is none of its lines: {LINES}")),
            }
        }
        Ok(costs)
    }

    /// Whether a text is meant as constants, and not as the name of a file with some.
    #[must_use]
    pub fn is_text(text: &str) -> bool {
        text.starts_with(MAGIC)
    }
}

impl Link {
    fn of(values: &[f64]) -> Link {
        Link {
            latency_ns: values[0],
            eager_byte_ns: values[1],
            // A cast of a float stops at the ends of the range.
            eager_bytes_max: values[2] as usize,
            ask_ns: values[3],
            byte_ns: values[4],
        }
    }

    /// The way of a message, without what its ends do.
    #[must_use]
    pub fn way_ns(&self, bytes: usize) -> f64 {
        self.latency_ns + self.moving_ns(bytes)
    }

    /// What the bytes add to the way of an empty message.
    #[must_use]
    pub fn moving_ns(&self, bytes: usize) -> f64 {
        if self.is_eager(bytes) {
            self.eager_byte_ns * bytes as f64
        } else {
            self.ask_ns + self.byte_ns * bytes as f64
        }
    }

    /// What `bytes` bytes add to the time of an empty message, in nanoseconds, where the other end does not
    /// help: a message that is too long to be eager is read by the receiver alone, and its bytes count twice.
    #[must_use]
    pub fn moving_alone_ns(&self, bytes: usize) -> f64 {
        let more = if self.is_eager(bytes) { 0.0 } else { self.byte_ns * bytes as f64 };
        self.moving_ns(bytes) + more
    }

    /// Whether a message of `bytes` bytes is eager: sent without asking its receiver.
    #[must_use]
    pub fn is_eager(&self, bytes: usize) -> bool {
        bytes <= self.eager_bytes_max
    }
}

/// A number within reason: not negative, and no time beyond a second.
fn number(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (0.0..=VALUE_MAX).contains(&value) { Ok(value) } else { Err(format!("{text} is out of all reason")) }
}

const MAGIC: &str = "weft costs 1";
const LINES: &str = "node, cache, numa, package and network with latency, eager byte, eager limit, asking and byte; copy and \
                     combine with fixed and byte; step and turn with one number";
const LINK_VALUES: usize = 5;
/// Whatever a round costs: a schedule has steps for each chunk.
const CHUNKS_MAX: f64 = 4096.0;
/// A second.
const VALUE_MAX: f64 = 1e9;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read_again() {
        let odd = Costs { step_ns: 1.0 / 3.0, turn_ns: 0.1 + 0.2, ..Costs::BUILT_IN };
        let two_packages = Costs { package: Some(Costs::BUILT_IN.network), ..odd };
        let caches =
            Costs { cache: Some(Link { latency_ns: 0.3, ..odd.node }), numa: Some(odd.node), ..two_packages };
        for costs in [Costs::BUILT_IN, odd, two_packages, caches] {
            assert_eq!(Costs::decode(&costs.encode()), Ok(costs));
            assert_eq!(Costs::decode(&costs.encode().replace('\n', ";")), Ok(costs));
        }
        let some = "# by hand; of a laptop\nweft costs 1\nturn 5 # ns; about\n";
        assert_eq!(Costs::decode(some), Ok(Costs { turn_ns: 5.0, ..Costs::BUILT_IN }));
        assert!(Costs::is_text("weft costs 1;turn 5") && !Costs::is_text("/home/weft costs"));
    }

    #[test]
    fn what_nobody_has_told_is_as_within() {
        let link = |latency_ns: f64| Link { latency_ns, ..Costs::BUILT_IN.node };
        let over = |costs: &Costs| HierarchyLevel::ALL.map(|border| costs.over(border).latency_ns);
        let told = Costs { node: link(1.0), network: link(9.0), ..Costs::BUILT_IN };
        assert_eq!((over(&told), told.know_parts()), ([9.0, 1.0, 1.0, 1.0], false));
        let of_cache = Costs { cache: Some(link(2.0)), ..told };
        assert_eq!((over(&of_cache), of_cache.know_parts()), ([9.0, 2.0, 2.0, 2.0], true));
        assert_eq!(over(&Costs { package: Some(link(4.0)), ..told }), [9.0, 4.0, 1.0, 1.0]);
        assert_eq!(over(&Costs { numa: Some(link(3.0)), ..of_cache }), [9.0, 3.0, 3.0, 2.0]);
    }

    #[test]
    fn damage_is_told() {
        for (text, told) in [
            ("", "must begin with `weft costs 1`, and begins with \"\""),
            ("weft costs 2", "begins with \"weft costs 2\""),
            ("weft costs 1;stop 3", "\"stop 3\" is none of its lines"),
            ("weft costs 1;step 3 4", "\"step 3 4\" is none of its lines"),
            ("weft costs 1;node 1 2 3", "\"node 1 2 3\" is none"),
            ("weft costs 1;step many", "\"many\" is no number"),
            ("weft costs 1;step -1", "-1 is out of all reason"),
            ("weft costs 1;step NaN", "NaN is out of all reason"),
            ("weft costs 1;step 1e30", "out of all reason"),
        ] {
            let error = Costs::decode(text).unwrap_err();
            assert!(error.contains(told), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(noise: String) {
            let _ = Costs::decode(&noise);
            let _ = Costs::decode(&format!("{MAGIC};{noise}"));
        }
    }
}
