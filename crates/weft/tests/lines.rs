//! What a rank tells a person is written in one piece.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use weft::{Config, run_threads};

/// Where standard error is a socket of messages, each write is one.
#[test]
fn a_line_is_one_write() {
    if std::env::var_os(ROLE).is_some() {
        panic_in_a_job();
    }
    let (here, there) = UnixDatagram::pair().unwrap();
    here.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_line_is_one_write", "--nocapture"])
        .env(ROLE, "rank")
        .stdout(Stdio::null())
        .stderr(OwnedFd::from(there))
        .spawn()
        .unwrap();
    let mut lines = Vec::new();
    let mut room = [0; 4096];
    while let Ok(bytes @ 1..) = here.recv(&mut room) {
        lines.push(String::from_utf8_lossy(&room[..bytes]).into_owned());
        if room[..bytes].ends_with(b"ending the job\n") {
            break;
        }
    }
    child.wait().unwrap();
    assert!(lines.iter().any(|line| line == "weft: rank 1 panicked; ending the job\n"), "{lines:?}");
}

/// Ends this process.
fn panic_in_a_job() -> ! {
    let _ = run_threads(2, &Config::default(), |session| {
        let world = session.world();
        if world.rank().0 == 1 {
            panic!("on purpose");
        }
        let _ = world.barrier();
    });
    unreachable!("a rank that panics ends its job")
}

const ROLE: &str = "WEFT_TEST_LINES";
