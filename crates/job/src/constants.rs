//! The cost model of a node's memory: constants in nanoseconds, and the thresholds that follow from them.
//!
//! ```text
//! copied through shared memory    t(n) = copy.fixed + n * copy.byte
//! read by the receiver            t(n) = hand over  + pull.fixed + n * pull.byte
//! ```
//! The request of a message that waits at its sender goes over first, and then the receiver reads. Where the
//! second line gets under the first, sending at once ends. A longer message may be sent at once as well,
//! where copies are quick just then (decision 0003).
//!
//! A job takes the constants from a small file, written for the first job that `weftrun` starts on the
//! machine (decisions/0006), or by `weft explain lanes --measure`: one `open` at start. Without one those
//! below hold; whether reads are slow is looked at when a process starts, since kernels and processors differ
//! most in that. Ranks may differ in them: how a message goes is its sender's choice.
//!
//! ```text
//! weft constants 1          the version of this format
//! host node7                whose they are: all three must be those of the reader
//! kernel 6.18.1
//! weft 0.1.0
//! hand-over 61.5            all times in nanoseconds
//! copy 410.0 0.0705         fixed, and for each byte
//! pull 540.0 0.0460         the same, or the word `refused`
//!                           and what else was measured (`measurements`)
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::cache_directory;
use crate::fabrics::Ways;
use crate::measurements::Besides;

/// What moving bytes between two processes of this node costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Constants {
    /// The time of one way of an empty message between two processes that answer each other.
    pub hand_over_ns: f64,
    /// Copied into shared memory and out of it.
    pub copy: Line,
    /// Read out of the other process's memory, where the kernel allows that.
    pub pull: Option<Line>,
}

/// A time that grows with the number of bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Line {
    /// For no byte at all.
    pub fixed_ns: f64,
    /// For each byte.
    pub byte_ns: f64,
}

/// Where the constants come from, as the environment says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConstantsFrom {
    /// The file of this host in the user's folder for caches, if there is one.
    Cache(PathBuf),
    /// This file.
    File(PathBuf),
    /// The built-in ones.
    BuiltIn,
}

/// The machine and the library that constants were measured for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The name of the machine.
    pub host: String,
    /// The release of its kernel.
    pub kernel: String,
    /// The version of this library.
    pub weft: String,
}

impl Constants {
    /// The constants that hold where nothing was measured: what `weft explain lanes --measure` said on a
    /// virtual machine with two cpus of a server, the middle of three runs, rounded to two digits. Another
    /// machine is measured by the same command.
    pub const BUILT_IN: Constants = Constants {
        hand_over_ns: 180.0,
        copy: Line { fixed_ns: 360.0, byte_ns: 0.14 },
        pull: Some(Line { fixed_ns: 870.0, byte_ns: 0.041 }),
    };

    /// The constants that fit what was measured; none where the times make no sense.
    #[must_use]
    pub fn fit(hand_over_ns: f64, copied: &[(usize, f64)], pulled: &[(usize, f64)]) -> Option<Constants> {
        let pull = if pulled.is_empty() { None } else { Some(Line::fit(pulled)?) };
        Some(Constants { hand_over_ns, copy: Line::fit(copied)?, pull }).filter(Constants::is_sane)
    }

    /// Time of one way of a message that is copied.
    #[must_use]
    pub fn copied_ns(&self, bytes: usize) -> f64 {
        self.copy.at(bytes)
    }

    /// Time of one way of a message whose receiver is asked, and reads it.
    #[must_use]
    pub fn pulled_ns(&self, bytes: usize) -> Option<f64> {
        self.pull.map(|pull| self.hand_over_ns + pull.at(bytes))
    }

    /// Up to here a message is best copied, at once; where reading never wins within reason, the upper limit.
    #[must_use]
    pub fn eager_bytes_max(&self) -> usize {
        let Some(pull) = self.pull else { return EAGER_BYTES_LEAST };
        let per_byte = self.copy.byte_ns - pull.byte_ns;
        let crossing = if per_byte > 0.0 { self.head_start_ns(pull) / per_byte } else { f64::INFINITY };
        // A cast of a float stops at the ends of the range.
        (crossing as usize).clamp(EAGER_BYTES_LEAST, EAGER_BYTES_MOST) / LINE_BYTES * LINE_BYTES
    }

    /// What passes until the first byte of a message that is asked for and read, beyond what does for a
    /// copied one.
    fn head_start_ns(&self, pull: Line) -> f64 {
        self.hand_over_ns + pull.fixed_ns - self.copy.fixed_ns
    }

    /// Up to here a message is sooner copied if copies take what is said here, the receiver being there.
    #[must_use]
    pub fn at_once_bytes_max(&self) -> usize {
        self.ways().map_or(0, |ways| ways.copied_bytes_max(ways.copied_byte_ns))
    }

    /// What decides whether a message that is longer than [`Constants::eager_bytes_max`] is sent at once;
    /// none where none is.
    #[must_use]
    pub(crate) fn ways(&self) -> Option<Ways> {
        let pull = self.pull?;
        let ways = Ways {
            head_start_ns: self.head_start_ns(pull),
            copied_byte_ns: self.copy.byte_ns,
            // The sender helps with a long read.
            read_byte_ns: pull.byte_ns * OF_A_SHARED_READ,
        };
        (ways.copied_bytes_max(ways.copied_byte_ns) > self.eager_bytes_max()).then_some(ways)
    }

    /// The constants that hold where nothing was measured and reads are slow: what `weft explain lanes
    /// --measure` said on a virtual machine with two cpus that share their last cache, the middle of three
    /// runs, rounded to two digits.
    pub const WHERE_READS_ARE_SLOW: Constants = Constants {
        hand_over_ns: 86.0,
        copy: Line { fixed_ns: 120.0, byte_ns: 0.045 },
        pull: Some(Line { fixed_ns: 1900.0, byte_ns: 0.08 }),
    };

    pub(crate) fn is_sane(&self) -> bool {
        let hand_over = Line { fixed_ns: self.hand_over_ns, byte_ns: 0.0 };
        hand_over.is_sane() && self.copy.is_sane() && self.pull.is_none_or(|pull| pull.is_sane())
    }

    /// The text of the file.
    #[must_use]
    pub fn encode(&self, besides: &Besides, owner: &Owner) -> String {
        let mut text =
            format!("{MAGIC}\nhost {}\nkernel {}\nweft {}\n", owner.host, owner.kernel, owner.weft);
        let _ = writeln!(text, "hand-over {:.1}\ncopy {}", self.hand_over_ns, self.copy.encode());
        let _ = match self.pull {
            Some(pull) => writeln!(text, "pull {}", pull.encode()),
            None => writeln!(text, "pull refused"),
        };
        text + &besides.encode()
    }

    /// Reads such a text, and nothing else.
    ///
    /// # Errors
    /// The first line that is not as it must be.
    pub fn decode(text: &str) -> Result<(Constants, Besides, Owner), String> {
        if !text.ends_with('\n') {
            return Err("it ends in the midst of a line".to_owned());
        }
        let mut lines = text.lines();
        let mut value = |key: &str| {
            let line = lines.next().unwrap_or_default();
            let value = line.strip_prefix(key).and_then(|rest| rest.strip_prefix(' '));
            value.map(str::to_owned).ok_or_else(|| format!("`{key} …` is expected, and not {line:?}"))
        };
        let version = value(MAGIC_WORDS)?;
        if version != MAGIC_VERSION {
            return Err(format!("it is of version {version:?} of the format, and {MAGIC_VERSION} is read"));
        }
        let owner = Owner { host: value("host")?, kernel: value("kernel")?, weft: value("weft")? };
        let hand_over_ns = number(&value("hand-over")?)?;
        let copy = Line::decode(&value("copy")?)?;
        let pull = match value("pull")?.as_str() {
            "refused" => None,
            line => Some(Line::decode(line)?),
        };
        let besides = Besides::decode(lines)?;
        let constants = Constants { hand_over_ns, copy, pull };
        if constants.is_sane() {
            Ok((constants, besides, owner))
        } else {
            Err("its times are out of all reason".to_owned())
        }
    }
}

impl Line {
    /// The time for `bytes` bytes, in nanoseconds.
    #[must_use]
    pub fn at(&self, bytes: usize) -> f64 {
        self.fixed_ns + self.byte_ns * bytes as f64
    }

    pub(crate) fn is_sane(&self) -> bool {
        let is_time = |ns: f64| (0.0..=TIME_NS_MAX).contains(&ns);
        is_time(self.fixed_ns) && is_time(self.byte_ns)
    }

    /// The line with the least squares of relative errors: 50 ns count at 400 and not at 10 000.
    pub(crate) fn fit(points: &[(usize, f64)]) -> Option<Line> {
        let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (x, y) in points.iter().map(|&(bytes, time)| (bytes as f64, time)) {
            let weight = 1.0 / (y * y);
            (w, wx, wy) = (w + weight, wx + weight * x, wy + weight * y);
            (wxx, wxy) = (wxx + weight * x * x, wxy + weight * x * y);
        }
        let below = w * wxx - wx * wx;
        let byte_ns = (w * wxy - wx * wy) / below;
        let fixed_ns = (wy - byte_ns * wx) / w;
        // Where there are too few points for a line, both are no numbers.
        (byte_ns.is_finite() && fixed_ns.is_finite())
            // No byte takes less than no time: disturbed measurements may look so.
            .then_some(Line { fixed_ns: fixed_ns.max(0.0), byte_ns: byte_ns.max(0.0) })
    }

    fn decode(text: &str) -> Result<Line, String> {
        let (fixed, byte) =
            text.split_once(' ').ok_or_else(|| format!("two times are expected, and not {text:?}"))?;
        Line::of_words(fixed, byte)
    }

    pub(crate) fn of_words(fixed: &str, byte: &str) -> Result<Line, String> {
        Ok(Line { fixed_ns: number(fixed)?, byte_ns: number(byte)? })
    }

    pub(crate) fn encode(&self) -> String {
        format!("{:.1} {:.4}", self.fixed_ns, self.byte_ns)
    }
}

pub(crate) fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("{text:?} is no time"))
}

impl Owner {
    /// This machine and this library.
    #[must_use]
    pub fn here() -> Owner {
        let system = rustix::system::uname();
        // They stand in lines of a file and in its name.
        let plain = |text: &std::ffi::CStr| -> String {
            let keep = |c: char| if c.is_ascii_alphanumeric() || ".-_+".contains(c) { c } else { '_' };
            text.to_string_lossy().chars().map(keep).collect()
        };
        let (host, kernel) = (plain(system.nodename()), plain(system.release()));
        // A build for debugging is slower, and no measure for others.
        let build = if cfg!(debug_assertions) { "-debug" } else { "" };
        Owner { host, kernel, weft: format!("{}{build}", env!("CARGO_PKG_VERSION")) }
    }

    /// Their file in a folder for caches.
    #[must_use]
    pub fn path_in(&self, folder: &Path) -> PathBuf {
        folder.join("weft").join(format!("constants-{}-{}-{}", self.host, self.kernel, self.weft))
    }
}

/// Constants, and where they are from.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The constants.
    pub constants: Constants,
    /// What else was measured.
    pub besides: Besides,
    /// Their file; none for the built-in ones.
    pub file: Option<PathBuf>,
    /// A file that was passed over, and why, in one line.
    pub warning: Option<String>,
}

impl Found {
    /// These constants, or, where nothing was measured, the built-in ones for what a read of a few bytes
    /// takes in this process at least. There are two answers and no more, so that ranks of one machine have
    /// the same.
    #[must_use]
    pub(crate) fn looked_at(self, least_read_ns: Option<f64>) -> Found {
        match least_read_ns {
            Some(ns) if self.file.is_none() && ns >= SLOW_FROM_NS => {
                Found { constants: Constants::WHERE_READS_ARE_SLOW, ..self }
            }
            _ => self,
        }
    }
}

impl ConstantsFrom {
    /// The folder for caches of the user that these variables describe; without one, the built-in constants
    /// hold.
    pub(crate) fn cache(xdg: Option<String>, home: Option<String>) -> ConstantsFrom {
        cache_directory::folder(xdg, home).map_or(ConstantsFrom::BuiltIn, ConstantsFrom::Cache)
    }

    /// Where this machine's constants are kept; none where they are not.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            ConstantsFrom::BuiltIn => None,
            ConstantsFrom::File(path) => Some(path.clone()),
            ConstantsFrom::Cache(folder) => Some(Owner::here().path_in(folder)),
        }
    }

    /// Reads what there is. Only a file that somebody has named must be there and be right; one in the cache
    /// is passed over otherwise.
    ///
    /// # Errors
    /// What is wrong with the file that was named.
    pub fn find(&self) -> Result<Found, String> {
        let built_in =
            Found { constants: Constants::BUILT_IN, besides: Besides::default(), file: None, warning: None };
        let Some(path) = self.path() else { return Ok(built_in) };
        let found =
            |constants, besides| Found { constants, besides, file: Some(path.clone()), warning: None };
        let is_named = matches!(self, ConstantsFrom::File(_));
        let why = match read(&path) {
            Ok(Some((constants, besides, owner))) if is_named || owner == Owner::here() => {
                return Ok(found(constants, besides));
            }
            Ok(Some(_)) => format!("{}: it is of another machine, kernel or version", path.display()),
            Ok(None) if is_named => format!("{}: there is no such file", path.display()),
            Ok(None) => return Ok(built_in),
            Err(why) => why,
        };
        if is_named {
            return Err(why);
        }
        // What is in a folder of somebody else's, this user cannot put right.
        if !cache_directory::is_own(&path) {
            return Ok(built_in);
        }
        let warning = format!("{why}; passed over, until `weft explain lanes --measure` writes it anew");
        Ok(Found { warning: Some(warning), ..built_in })
    }

    /// Keeps constants of this machine, for the jobs that start from now on. Returns where.
    ///
    /// # Errors
    /// What could not be written and why, in words for a person.
    pub fn keep(&self, constants: &Constants, besides: &Besides) -> Result<PathBuf, String> {
        let path = self
            .path()
            .ok_or("there is no folder for caches\n  set HOME, or name a file: WEFT_CONSTANTS=FILE")?;
        let refused = |error: std::io::Error| {
            format!(
                "cannot write {}: {error}\n  name a file that can be written: WEFT_CONSTANTS=FILE",
                path.display()
            )
        };
        cache_directory::write(&path, &constants.encode(besides, &Owner::here())).map_err(refused)?;
        Ok(path)
    }
}

/// `None` where there is no file.
fn read(path: &Path) -> Result<Option<(Constants, Besides, Owner)>, String> {
    let decode = |text: String| Constants::decode(&text).map_err(|why| format!("{}: {why}", path.display()));
    cache_directory::read(path, FILE_BYTES_MAX)?.map(decode).transpose()
}

const MAGIC: &str = "weft constants 1";
const MAGIC_WORDS: &str = "weft constants";
const MAGIC_VERSION: &str = "1";
const FILE_BYTES_MAX: u64 = 4096;
/// A second: whatever takes longer is no constant of a machine.
const TIME_NS_MAX: f64 = 1e9;
/// A process that reads a few bytes of its own memory in so long is on a machine where reads are slow: 1750
/// to 1850 were seen on one, and on that of the built-in constants it is less than the 870 that a read of
/// another process takes.
const SLOW_FROM_NS: f64 = 1300.0;
/// What a read takes for each byte where the sender writes some of them, of what it takes alone: 0.55 to 0.67
/// were seen on two machines, from 64 KiB to 1 MiB.
const OF_A_SHARED_READ: f64 = 0.6;
/// Below, asking first costs two hand-overs that no copy can win back, and messages nobody waits for are
/// small.
const EAGER_BYTES_LEAST: usize = 8 << 10;
/// Above, both sides copy a message whose receiver is known, and one that nobody waits for is much memory.
const EAGER_BYTES_MOST: usize = 20 << 10;
const LINE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owner() -> Owner {
        Owner { host: "node7".to_owned(), kernel: "6.18.1".to_owned(), weft: "0.1.0".to_owned() }
    }

    const CONSTANTS: Constants = Constants {
        hand_over_ns: 61.5,
        copy: Line { fixed_ns: 410.0, byte_ns: 0.0705 },
        pull: Some(Line { fixed_ns: 540.0, byte_ns: 0.046 }),
    };

    #[test]
    fn where_nothing_was_measured_a_slow_read_is_seen() {
        let besides = Besides::default();
        let built_in = Found { constants: Constants::BUILT_IN, besides, file: None, warning: None };
        let quick = built_in.clone().looked_at(Some(500.0)).constants.eager_bytes_max();
        let slow = built_in.clone().looked_at(Some(1900.0)).constants.eager_bytes_max();
        let disturbed = built_in.clone().looked_at(Some(1e9)).constants.eager_bytes_max();
        assert_eq!((quick, slow, disturbed), (EAGER_BYTES_LEAST, EAGER_BYTES_MOST, EAGER_BYTES_MOST));
        assert_eq!(built_in.clone().looked_at(None), built_in);
        let measured = Found { file: Some("constants".into()), ..built_in };
        assert_eq!(measured.clone().looked_at(Some(1900.0)), measured);
    }

    #[test]
    fn what_was_written_is_read_again() {
        for constants in [CONSTANTS, Constants { pull: None, ..CONSTANTS }, Constants::BUILT_IN] {
            let besides = Besides { step_ns: Some(80.0), is_of_first_use: true, ..Besides::default() };
            let text = constants.encode(&besides, &owner());
            assert_eq!(Constants::decode(&text), Ok((constants, besides, owner())));
        }
    }

    #[test]
    fn damage_is_told_by_the_line() {
        let good = CONSTANTS.encode(&Besides::default(), &owner());
        for (damaged, told) in [
            (String::new(), "midst of a line"),
            (good[..good.len() - 3].to_owned(), "midst of a line"),
            (good.replace("constants 1", "constants 2"), "version \"2\""),
            (good.replace("host", "hots"), "`host …`"),
            (good.replace("61.5", "sixty"), "\"sixty\" is no time"),
            (good.replace("61.5", "-61.5"), "out of all reason"),
            (good.replace("61.5", "NaN"), "out of all reason"),
            (good.replace("0.0705", "inf"), "out of all reason"),
            (good.replace("copy 410.0 0.0705", "copy 410.0"), "two times"),
            (good.replace("pull 540.0 0.0460", "pull perhaps"), "two times"),
            (format!("{good}more\n"), "nothing more"),
        ] {
            let error = Constants::decode(&damaged).unwrap_err();
            assert!(error.contains(told), "{damaged:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(noise: String, at in 0usize..200, byte in 0u8..128) {
            let mut text = CONSTANTS.encode(&Besides::default(), &owner()).into_bytes();
            let at = at % text.len();
            text[at] = byte;
            for text in [noise, String::from_utf8(text).unwrap()] {
                if let Ok((constants, ..)) = Constants::decode(&text) {
                    let eager = constants.eager_bytes_max();
                    assert!((EAGER_BYTES_LEAST..=EAGER_BYTES_MOST).contains(&eager));
                }
            }
        }
    }

    #[test]
    fn eager_ends_where_reading_becomes_cheaper() {
        let eager = CONSTANTS.eager_bytes_max();
        let cheaper = |bytes| CONSTANTS.pulled_ns(bytes).unwrap() < CONSTANTS.copied_ns(bytes);
        // (61.5 + 540 - 410) / (0.0705 - 0.046) = 7816, which is less than the least.
        assert_eq!(eager, EAGER_BYTES_LEAST);
        let slow = Constants { pull: Some(Line { fixed_ns: 800.0, byte_ns: 0.046 }), ..CONSTANTS };
        let eager = slow.eager_bytes_max();
        assert_eq!(eager, 18_368);
        assert!(cheaper(8 << 10));
        assert!(slow.pulled_ns(eager - 64).unwrap() > slow.copied_ns(eager - 64));
        assert!(slow.pulled_ns(eager + 128).unwrap() < slow.copied_ns(eager + 128));
        let never = Constants { pull: Some(Line { fixed_ns: 1.0, byte_ns: 0.08 }), ..CONSTANTS };
        assert_eq!(never.eager_bytes_max(), EAGER_BYTES_MOST);
        assert_eq!(Constants { pull: None, ..CONSTANTS }.eager_bytes_max(), EAGER_BYTES_LEAST);
    }

    #[test]
    fn copies_at_once_end_where_reading_becomes_cheaper() {
        let with = |copy, pull| Constants { copy, pull: Some(pull), ..CONSTANTS }.at_once_bytes_max();
        let line = |fixed_ns, byte_ns| Line { fixed_ns, byte_ns };
        // (61.5 + 2000 - 400) / (0.05 - 0.03) = 83075
        assert!(with(line(400.0, 0.05), line(2000.0, 0.05)).abs_diff(83_075) < 2);
        assert_eq!(with(line(400.0, 0.05), line(300.0, 0.05)), 0, "a read is there at once");
        assert_eq!(with(line(400.0, 0.05), line(2000.0, 0.09)), Ways::COPIED_BYTES_MAX);
        assert_eq!(
            with(line(400.0, 0.13), line(400.0, 0.05)),
            0,
            "shorter than what goes at once in any case"
        );
        assert_eq!(Constants { pull: None, ..CONSTANTS }.at_once_bytes_max(), 0);
        assert_eq!(Constants::BUILT_IN.ways(), None, "all that is not eager is read");
        assert_eq!(Constants::WHERE_READS_ARE_SLOW.at_once_bytes_max(), Ways::COPIED_BYTES_MAX);
    }

    #[test]
    fn a_line_is_found_again_in_its_points() {
        let points = |line: Line| [2048, 4096, 16_384, 131_072].map(|bytes| (bytes, line.at(bytes)));
        let fit = Constants::fit(60.0, &points(CONSTANTS.copy), &points(CONSTANTS.pull.unwrap())).unwrap();
        assert!(
            (fit.copy.fixed_ns - 410.0).abs() < 0.01 && (fit.copy.byte_ns - 0.0705).abs() < 1e-6,
            "{fit:?}"
        );
        assert_eq!(Constants::fit(60.0, &points(CONSTANTS.copy), &[]).unwrap().pull, None);
        assert_eq!(Constants::fit(60.0, &[(1024, 5.0)], &[]), None, "one point is no line");
        assert_eq!(Constants::fit(f64::INFINITY, &points(CONSTANTS.copy), &[]), None);
    }

    #[test]
    fn the_cache_is_read_when_it_is_ours_and_passed_over_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let from = ConstantsFrom::Cache(folder.path().to_owned());
        let empty = from.find().unwrap();
        assert_eq!((empty.constants, empty.file, empty.warning), (Constants::BUILT_IN, None, None));
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "looking makes no file");
        let path = from.keep(&CONSTANTS, &Besides::default()).unwrap();
        let found = from.find().unwrap();
        assert_eq!((found.constants, found.file.as_ref()), (CONSTANTS, Some(&path)));
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
        for damaged in
            [CONSTANTS.encode(&Besides::default(), &owner()), "x".repeat(10_000), "\0\n".to_owned()]
        {
            std::fs::write(&path, damaged).unwrap();
            let found = from.find().unwrap();
            let warning = found.warning.unwrap();
            assert_eq!((found.constants, found.file), (Constants::BUILT_IN, None));
            assert!(warning.contains(path.to_str().unwrap()) && !warning.contains('\n'), "{warning}");
        }
    }

    #[test]
    fn a_file_that_was_named_must_be_right() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine");
        let from = ConstantsFrom::File(path.clone());
        assert!(from.find().unwrap_err().contains("no such file"));
        std::fs::write(&path, CONSTANTS.encode(&Besides::default(), &owner())).unwrap();
        assert_eq!(from.find().unwrap().constants, CONSTANTS, "whoever names it knows why");
        std::fs::write(&path, "weft\n").unwrap();
        assert!(from.find().is_err());
    }

    #[test]
    fn what_is_in_a_folder_of_somebody_elses_is_not_told_of_at_every_start() {
        let folder = tempfile::tempdir().unwrap();
        let from = ConstantsFrom::Cache(folder.path().to_owned());
        let path = from.path().unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "of some other version").unwrap();
        assert!(from.find().unwrap().warning.is_some(), "the user can put that right");
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
            println!("LEFT OUT: only root can give files away");
            return;
        }
        assert_eq!(from.find().unwrap().warning, None);
    }

    #[test]
    fn the_folder_for_caches_is_that_of_the_user() {
        let cache = |xdg: &str, home: &str| {
            let value = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            ConstantsFrom::cache(value(xdg), value(home))
        };
        let folder = |path: &str| ConstantsFrom::Cache(PathBuf::from(path));
        assert_eq!(cache("/tmp/cache", "/home/a"), folder("/tmp/cache"));
        assert_eq!(cache("", "/home/a"), folder("/home/a/.cache"));
        assert_eq!(cache("relative", "/home/a"), folder("/home/a/.cache"), "as the XDG specification asks");
        assert_eq!(cache("", ""), ConstantsFrom::BuiltIn);
        assert!(
            ConstantsFrom::BuiltIn
                .keep(&CONSTANTS, &Besides::default())
                .unwrap_err()
                .contains("WEFT_CONSTANTS")
        );
    }
}
