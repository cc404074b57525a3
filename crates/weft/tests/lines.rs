//! What a rank tells a person is written in one piece.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use weft::{Config, Rank, run_threads};

/// Where standard error is a socket of messages, each write is one.
#[test]
fn a_line_is_one_write() {
    if std::env::var_os(ROLE).is_some() {
        panic_in_a_job();
    }
    let lines = lines_of("a_line_is_one_write", b"ending the job\n");
    assert!(lines.iter().any(|line| line == "weft: rank 1 panicked; ending the job\n"), "{lines:?}");
}

/// With checks on, who has to wait long for others in an operation is told of them; but nobody waits for one
/// that was begun while the program does something else, however long that takes.
#[test]
fn nobody_is_told_of_what_nobody_waits_for() {
    if std::env::var_os(ROLE).is_some() {
        return begin_long_before();
    }
    let lines = lines_of("nobody_is_told_of_what_nobody_waits_for", b"well\n");
    let told: Vec<&String> = lines.iter().filter(|line| line.contains("waiting")).collect();
    assert!(told.is_empty() && lines.iter().any(|line| line == "well\n"), "{lines:?}");
}

/// Runs that test as another process, up to the line that ends so: what it writes, each write for itself.
fn lines_of(test: &str, last: &[u8]) -> Vec<String> {
    let (here, there) = UnixDatagram::pair().unwrap();
    here.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, "rank")
        .stdout(Stdio::null())
        .stderr(OwnedFd::from(there))
        .spawn()
        .unwrap();
    let mut lines = Vec::new();
    let mut room = [0; 4096];
    while let Ok(bytes @ 1..) = here.recv(&mut room) {
        lines.push(String::from_utf8_lossy(&room[..bytes]).into_owned());
        if room[..bytes].ends_with(last) {
            break;
        }
    }
    child.wait().unwrap();
    lines
}

/// Rank 0 begins to copy its world, and waits for a message; rank 1 comes to both after longer than anybody
/// waits in silence.
fn begin_long_before() {
    let config = Config { check: true, ..Config::default() };
    run_threads(2, &config, |session| {
        let world = session.world();
        if world.rank().0 == 1 {
            std::thread::sleep(Duration::from_secs(6));
            world.send(&[1u8], Rank(0), 1).unwrap();
            return drop(world.start_duplicate().wait().unwrap());
        }
        let copying = world.start_duplicate();
        world.receive::<u8>(Rank(1), 1).unwrap();
        drop(copying.wait().unwrap());
    })
    .unwrap();
    weft::tell(format_args!("well"));
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
