//! weft beside its peers: the same C benchmarks on each library, in turn on the same cpus, with what
//! the machine could do at best measured between them.
//!
//! | part | what it knows |
//! |---|---|
//! | [`rows`] | what is measured, and which gates it must pass: data |
//! | [`contestant`] | who is measured, and how each launcher is called |
//! | [`field`] | installing, compiling, running: everything that takes time |
//! | [`samples`], [`judge`] | medians, ratios, verdicts: pure functions |
//! | [`tell`] | tables |

pub mod contestant;
pub mod field;
pub mod judge;
pub mod namespaces;
pub mod rows;
pub mod samples;
pub mod tell;

use std::path::{Path, PathBuf};

use contestant::Peer;
use judge::Measured;

/// What the command line says.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The peers, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "mpich,openmpi,impi")]
    pub against: Vec<Peer>,
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
    /// The weft to measure, as `ci/install` has put it; without it, one is built
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Folder of the peers' virtual environments; what is missing there is installed
    #[arg(long, value_name = "DIR")]
    pub peers: Option<PathBuf>,
    /// Start every run through this command, as "flock /some/file"
    #[arg(long, value_name = "COMMAND", default_value = "")]
    pub through: String,
}

/// Measures, tells, and answers whether everything could be measured with right contents. A gate that
/// is missed is told, and is no failure of the comparison.
///
/// # Errors
/// When something that all rows need cannot be had: weft, a peer, a compiler, a row of that name.
pub fn run(root: &Path, options: &Options) -> Result<bool, String> {
    let chosen = rows::select(&options.only)?;
    let field = field::Field::prepare(root, options)?;
    let mut all: Vec<Measured> = Vec::new();
    for row in chosen {
        let measured = field.measure(row);
        print!("{}", tell::table(&measured));
        all.push(measured);
    }
    println!();
    for verdict in all.iter().flat_map(Measured::verdicts) {
        println!("{}", tell::sentence(&verdict));
    }
    Ok(all.iter().all(|measured| measured.weft().failure.is_none()))
}
