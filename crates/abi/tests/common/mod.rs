//! What the tests of the C side share: the tables, the compilers, and running a command under a watchdog.
#![allow(dead_code)] // every test file uses its own part

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A row of a table by column name.
pub type Row = HashMap<String, String>;

/// Reads `tables/NAME.csv`.
pub fn table(name: &str) -> Vec<Row> {
    let path = crate_folder().join("tables").join(format!("{name}.csv"));
    let mut reader =
        csv::Reader::from_path(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows: Vec<Row> = reader.deserialize().map(|row| row.expect("a row of the table")).collect();
    assert!(!rows.is_empty(), "{} is empty", path.display());
    rows
}

/// The folder of this crate, as cargo says when it runs the test: checkouts may share a target folder.
pub fn crate_folder() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()).into()
}

/// The shared library that cargo built for these tests.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let path = test.parent().expect("its folder").join("libmpi_abi.so");
    assert!(path.is_file(), "{} is missing: cargo builds it beside the tests of this crate", path.display());
    path
}

/// Runs the C or C++ compiler, `cc` or `c++`, on `source` and demands that it is silent.
pub fn compile(compiler: &str, arguments: &[&str], source: &Path, library: Option<&Path>) {
    let include = format!("-I{}", crate_folder().join("include").display());
    let mut command = Command::new(compiler);
    command
        .args(["-Wall", "-Wextra", "-pedantic", "-Werror", &include])
        .args(arguments)
        .arg(source)
        .args(library);
    let text = succeed(&mut command);
    assert_eq!(text, "", "{compiler} had something to say");
}

/// Makes the library available in `folder` under the name that programs ask for.
pub fn link_library(folder: &Path) {
    std::os::unix::fs::symlink(library(), folder.join("libmpi_abi.so.1")).expect("a link to the library");
}

/// Compiles the C program or library `name` in `folder` and links it with the library there, see
/// [`link_library`].
pub fn build(folder: &Path, name: &str, text: &str, arguments: &[&str]) -> PathBuf {
    let (source, result) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&source, text).expect("the source is written");
    let arguments: Vec<_> = arguments.iter().copied().chain(["-o", result.to_str().unwrap()]).collect();
    compile("cc", &arguments, &source, Some(&folder.join("libmpi_abi.so.1")));
    result
}

/// Runs a command to its end; panics with all it said unless it succeeds.
pub fn succeed(command: &mut Command) -> String {
    let what = format!("{command:?}");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{what}: {error}\n  is it installed? see ci/setup"));
    let output = collect(child.stdout.take().expect("piped"));
    let complaints = collect(child.stderr.take().expect("piped"));
    let success = finish_within_watch(&mut child, &what);
    let (output, complaints) = (output.join().expect("output"), complaints.join().expect("errors"));
    assert!(success, "{what} failed\n{output}\n{complaints}");
    output + &complaints
}

fn collect(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        let _ = from.read_to_string(&mut text);
        text
    })
}

fn finish_within_watch(child: &mut Child, what: &str) -> bool {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the state of a child") {
            return status.success();
        }
        if begin.elapsed() > WATCH {
            let _ = child.kill();
            panic!("{what} (process {}) did not end within {WATCH:?} and was killed", child.id());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Far beyond what any of these commands needs, also on a busy machine.
const WATCH: Duration = Duration::from_secs(300);
