//! weft beside its peers: the same C benchmarks on each library, in turn on the same cpus, with what
//! the machine could do at best measured between them.
//!
//! | part | what it knows |
//! |---|---|
//! | [`row`] | what a row is: a program, a unit, gates |
//! | [`rows`] | what is measured, and which gates it must pass: data |
//! | [`contestant`] | who is measured, and how each launcher is called |
//! | [`providers`] | the library of libfabric, and whether everybody goes by it |
//! | [`field`] | installing, compiling, running: everything that takes time |
//! | [`samples`], [`judge`] | medians, ratios, verdicts: pure functions |
//! | [`tell`], [`page`] | tables on the terminal; the page in `docs/` and its pictures |
//! | [`kept`] | results in a file |
//! | [`osu`] | the public OSU micro-benchmarks, in one table of every size |
//! | [`apart`] | how far apart the cpus are that everybody is measured on |
//! | [`about`] | machine, date, commit |

pub mod about;
pub mod apart;
pub mod contestant;
pub mod field;
pub mod judge;
pub mod kept;
pub mod namespaces;
pub mod osu;
pub mod page;
pub mod providers;
pub mod row;
pub mod rows;
#[cfg(test)]
mod rows_tests;
pub mod samples;
pub mod tell;

use std::path::{Path, PathBuf};
use std::time::Instant;

use about::About;
use contestant::Peer;
use judge::Measured;

/// What the command line says.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The peers, separated by commas [default: mpich,openmpi,impi; with --osu none]
    #[arg(long, value_delimiter = ',')]
    pub against: Option<Vec<Peer>>,
    /// Measure with the public OSU micro-benchmarks: a folder that has, below `weft`, `mpich`, `openmpi` and
    /// `impi`, that suite as it was built by hand with the compiler of each
    #[arg(long, value_name = "DIR")]
    pub osu: Option<PathBuf>,
    /// With --osu: another installed weft, which the same programs run on in turn
    #[arg(long, value_name = "DIR", requires = "osu")]
    pub before: Option<PathBuf>,
    /// With --osu: only these numbers of ranks
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "osu")]
    pub ranks: Vec<u32>,
    /// With --osu: write the table to this file too
    #[arg(long, value_name = "FILE", requires = "osu")]
    pub table: Option<PathBuf>,
    /// Only this row, or the rows whose names begin so; may be given several times
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Three rounds, and fewer operations in each
    #[arg(long)]
    pub quick: bool,
    /// So many rounds of each row, whatever else is said
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,
    /// Write all samples, ratios and verdicts to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Take the rows that are not measured now from this file, as `--json` wrote it earlier
    #[arg(long, value_name = "FILE")]
    pub merge: Option<PathBuf>,
    /// The weft to measure, as `ci/install` has put it; without it, one is built
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Folder of the peers' virtual environments; what is missing there is installed
    #[arg(long, value_name = "DIR")]
    pub peers: Option<PathBuf>,
    /// Write docs/generated/performance.md and its pictures, which else only a full run of all rows does
    #[arg(long)]
    pub write_docs: bool,
    /// Where the cpus of a virtual machine move: measure two ranks while a cache line takes as long between
    /// them as it usually does, the least, the most, or however long it takes
    #[arg(long, value_name = "DISTANCE", default_value = "usual")]
    pub apart: apart::Wanted,
    /// Start every run through this command, as "flock /some/file"
    #[arg(long, value_name = "COMMAND", default_value = "")]
    pub through: String,
}

impl Options {
    /// The peers that are measured beside weft.
    pub fn peers_wanted(&self) -> Vec<Peer> {
        let all = if self.osu.is_some() { vec![] } else { vec![Peer::Mpich, Peer::Openmpi, Peer::Impi] };
        self.against.clone().unwrap_or(all)
    }
}

/// Measures, tells, and answers whether everything could be measured with right contents. A gate that
/// is missed is told, and is no failure of the comparison.
///
/// # Errors
/// When something that all rows need cannot be had: weft, a peer, a compiler, a row of that name.
pub fn run(root: &Path, options: &Options) -> Result<bool, String> {
    if let Some(tree) = &options.osu {
        return osu::run(root, tree, options);
    }
    let chosen = rows::select(&options.only)?;
    let field = field::Field::prepare(root, options)?;
    let libraries = field.libraries.iter().map(|(one, name)| (one.name().to_owned(), name.clone())).collect();
    let about = About { apart: field.told_apart(), ..About::here(root, libraries, options.quick) };
    println!("{}\n{}, commit {}", about.machine, about.date, about.commit);
    println!("{}", about.apart);
    about.libraries.iter().for_each(|(name, library)| println!("{name}: {library}"));
    let earlier = options.merge.as_deref().map_or(Ok(Vec::new()), kept::read)?;
    let mut all: Vec<Measured> = Vec::new();
    for row in chosen {
        let start = Instant::now();
        let measured = field.measure(row);
        print!("{}", tell::table(&measured));
        println!("  measured in {} s", start.elapsed().as_secs());
        all.push(measured);
        if let Some(path) = &options.json {
            // After each row: a long run that is broken off has not been for nothing.
            kept::write(path, &about, &kept::merge(&all, &earlier))?;
        }
    }
    println!();
    for verdict in all.iter().flat_map(Measured::verdicts) {
        println!("{}", tell::sentence(&verdict));
    }
    let everything = options.only.is_empty() && !options.quick && options.rounds.is_none();
    if options.write_docs || everything {
        page::write(root, &about, &kept::merge(&all, &earlier))?;
    }
    Ok(all.iter().all(|measured| measured.weft().failure.is_none()))
}
