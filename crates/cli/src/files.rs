//! Output of ranks that goes to files: their names, by the rank and the host.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::output::Route;

/// The files that the ranks' output and errors go to, if any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The pattern of the files for output and for errors: `%r` is the rank, `%h` the host, `%g` the number
    /// of the job.
    pub patterns: [Option<String>; 2],
    /// Whether the launcher's streams get the same as well.
    pub copies: bool,
}

impl Files {
    /// The routes of a rank's output and errors, of which these go to files.
    pub fn routes(&self, is_file: [bool; 2], routes: [Route; 2]) -> [Route; 2] {
        let through = if self.copies { Route::Piped } else { Route::Inherited };
        match (is_file, routes) {
            ([true, true], _) => [through; 2],
            // What took the way of the output takes its own.
            ([true, false], [_, Route::WithOutput]) => [through, Route::Piped],
            ([true, false], [_, errors]) => [through, errors],
            ([false, true], [output, _]) => [output, through],
            ([false, false], routes) => routes,
        }
    }

    /// The file of a rank for its output (0) or its errors (1).
    fn name(&self, kind: usize, rank: u32, host: &str, job: i32) -> Option<PathBuf> {
        let pattern = self.patterns[kind].as_deref()?;
        let mut name = String::new();
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            match (letter, letter == '%') {
                (_, true) => match letters.next() {
                    Some('r') => name.push_str(&rank.to_string()),
                    Some('h') => name.push_str(host),
                    Some('g') => name.push_str(&job.to_string()),
                    Some('p') => name.push('0'),
                    other => name.extend(std::iter::once('%').chain(other.filter(|other| *other != '%'))),
                },
                (letter, false) => name.push(letter),
            }
        }
        Some(name.into())
    }

    /// Empties the files of all ranks, so that what cannot be written is told before anything is started. The
    /// error names the file.
    pub fn begin(&self, ranks: u32, host: &str, job: i32) -> Result<(), (PathBuf, io::Error)> {
        for kind in 0..2 {
            for rank in 0..ranks {
                let Some(name) = self.name(kind, rank, host, job) else { break };
                begin(&name).map_err(|error| (name, error))?;
            }
        }
        Ok(())
    }

    /// Opens the file of a rank, where it has one; several ranks that have the same add their lines to it.
    pub fn open(&self, kind: usize, rank: u32, host: &str, job: i32) -> io::Result<Option<File>> {
        let name = self.name(kind, rank, host, job);
        name.map(|name| OpenOptions::new().append(true).create(true).open(name)).transpose()
    }
}

fn begin(name: &Path) -> io::Result<()> {
    if let Some(folder) = name.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    OpenOptions::new().write(true).create(true).truncate(true).open(name).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_the_rank_and_the_host_in_them() {
        let files = Files { patterns: [Some("out-%r-%h-%g-%p-%%-%x-%".to_owned()), None], copies: false };
        assert_eq!(files.name(0, 3, "n1", 7), Some("out-3-n1-7-0-%-%x-%".into()));
        assert_eq!(files.name(1, 3, "n1", 7), None);
    }

    #[test]
    fn what_goes_to_a_file_leaves_the_other_stream_its_way() {
        use Route::{Inherited, Piped, WithOutput};
        let route = |copies, is_file, routes| Files { copies, ..Files::default() }.routes(is_file, routes);
        assert_eq!(route(false, [true, false], [Piped, WithOutput]), [Inherited, Piped]);
        assert_eq!(route(false, [false, true], [Piped, WithOutput]), [Piped, Inherited]);
        assert_eq!(route(true, [true, true], [Inherited, Inherited]), [Piped, Piped]);
        assert_eq!(route(false, [false, false], [Piped, WithOutput]), [Piped, WithOutput]);
    }

    #[test]
    fn files_are_emptied_first_and_then_added_to() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("deep/all");
        let files = Files { patterns: [Some(shared.to_str().unwrap().to_owned()), None], copies: false };
        for _ in 0..2 {
            files.begin(2, "n1", 7).unwrap();
            for rank in 0..2 {
                writeln!(files.open(0, rank, "n1", 7).unwrap().unwrap(), "{rank}").unwrap();
            }
            assert_eq!(std::fs::read_to_string(&shared).unwrap(), "0\n1\n");
        }
        assert!(files.open(1, 0, "n1", 7).unwrap().is_none());
        let under_a_file = Files { patterns: [None, Some(format!("{}/x", shared.display()))], copies: false };
        assert_eq!(under_a_file.begin(1, "n1", 7).unwrap_err().0, shared.join("x"));
    }
}
