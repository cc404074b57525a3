//! Real processes on one segment: messages and pulls between them, refusals of the kernel, sudden death,
//! limits.
//!
//! This program starts itself again for the other processes of each test; the environment says who it is.
//! Every child dies with its parent, and a watchdog ends everything that hangs.

mod support;

use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fabric::{Exposed, Fabric, Header, Heap, Payload, Peer, Pulled};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, getpid, kill_process, wait, waitpid,
};
use shm::{LivenessDescriptor, LivenessDescriptors, Offer, Segment, Settings, fetch};
use support::{End, PATIENCE, pattern};

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        return child(&role);
    }
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&filter)) {
        watchdog(name);
        test();
        println!("test {name} ... ok");
    }
}

const TESTS: [(&str, fn()); 11] = [
    ("messages_of_every_size_go_both_ways", messages_of_every_size_go_both_ways),
    ("sleepers_are_woken_every_time", sleepers_are_woken_every_time),
    ("memory_is_pulled_from_another_process", memory_is_pulled_from_another_process),
    ("without_pull_nothing_is_pulled", without_pull_nothing_is_pulled),
    ("a_refusal_in_mid_run_is_an_answer", a_refusal_in_mid_run_is_an_answer),
    ("a_killed_sender_holds_up_nobody_else", a_killed_sender_holds_up_nobody_else),
    ("a_seat_cannot_be_taken_twice", a_process_slot_cannot_be_taken_twice),
    ("limits_are_errors_with_numbers_and_remedies", limits_are_errors_with_numbers_and_remedies),
    ("a_segment_is_fetched_over_a_socket", a_segment_is_fetched_over_a_socket),
    ("an_end_is_told_before_the_memory_goes", an_end_is_told_before_the_memory_goes),
    ("who_leaves_in_good_order_leaves_no_keeper", who_leaves_in_good_order_leaves_no_keeper),
];

fn child(role: &str) {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    // A thread of its own, just starting, would take part in a limit on address space; the parent's watches
    // too.
    if !LIMITS.contains(&role) {
        watchdog(role);
    }
    match role {
        "echo" => echo(),
        "napper" => napper(),
        "exposer" => exposer(),
        "reader" => reader(),
        "streamer" => streamer(),
        "counter" => counter(),
        "fetcher" => fetcher(),
        "latecomer" => latecomer(),
        "owner" => owner(),
        "leaver" => leaver(),
        limit => limited(limit),
    }
}

fn messages_of_every_size_go_both_ways() {
    for settings in [true, false].map(|pull| Settings { pull, ..Settings::default() }) {
        let job = Job::new(2);
        let echo = job.start("echo", 1);
        let mut end = job.end(settings);
        for (number, bytes) in SIZES.iter().enumerate() {
            let number = number as u32;
            end.send(1, numbered(number), pattern(*bytes, number));
        }
        for (number, bytes) in SIZES.iter().enumerate() {
            let (header, data) = end.receive(1);
            assert_eq!(header, numbered(number as u32));
            assert!(data == pattern(*bytes, number as u32), "{bytes} bytes came changed");
        }
        end.send(1, LAST, Vec::new());
        end.drain();
        succeeded("echo", echo);
    }
}

/// Sends back what comes.
fn echo() {
    let mut end = own_end();
    loop {
        let (header, data) = end.receive(0);
        if header == LAST {
            return;
        }
        end.send(0, header, data);
    }
}

/// Both sides sleep for each message; a lost wake-up would sleep until the watchdog barks.
fn sleepers_are_woken_every_time() {
    let job = Job::new(2);
    let napper = job.start("napper", 1);
    let mut end = job.end(Settings::default());
    for number in 0..NAPS {
        end.send(1, numbered(number), Vec::new());
        assert_eq!(end.receive(1).0, numbered(number));
    }
    succeeded("napper", napper);
}

fn napper() {
    let mut end = own_end();
    for number in 0..NAPS {
        let (header, data) = end.receive(0);
        assert_eq!(header, numbered(number));
        end.send(0, header, data);
        end.drain();
    }
}

fn memory_is_pulled_from_another_process() {
    let job = Job::new(2);
    let exposer = job.start("exposer", 1);
    let mut end = job.end(Settings::default());
    let exposed = received_exposed(&mut end);
    let data = pattern(EXPOSED_BYTES, 42);
    let lane = end.lanes[1];
    assert!(end.shm.limits(lane).pull, "this machine lets no process read another; see the yama settings");
    for (offset, bytes) in [(0, EXPOSED_BYTES), (0, 0), (EXPOSED_BYTES, 0), (12_345, 1), (4095, 70_000)] {
        let room = Heap::new(bytes);
        assert_eq!(end.shm.pull(lane, exposed, offset, &mut room.memory(), 0), Pulled::Done);
        assert!(room.payload().to_vec() == data[offset..offset + bytes]);
    }
    for (offset, bytes) in [(0, EXPOSED_BYTES + 1), (EXPOSED_BYTES, 1), (usize::MAX, 2)] {
        let refused = end.shm.pull(lane, exposed, offset, &mut Heap::new(bytes).memory(), 0);
        assert_eq!(refused, Pulled::Refused, "{bytes} bytes at {offset} are not exposed");
    }
    assert!(end.shm.limits(lane).pull, "asking for too much is no reason to give up");
    end.send(1, LAST, Vec::new());
    end.drain();
    succeeded("exposer", exposer);
    // It has gone, and its memory with it.
    assert_eq!(end.shm.pull(lane, exposed, 0, &mut Heap::new(8).memory(), 0), Pulled::Refused);
    assert!(!end.shm.limits(lane).pull);
}

fn without_pull_nothing_is_pulled() {
    let job = Job::new(2);
    let exposer = job.start("exposer", 1);
    let mut end = job.end(Settings { pull: false, ..Settings::default() });
    let exposed = received_exposed(&mut end);
    let lane = end.lanes[1];
    assert!(!end.shm.limits(lane).pull);
    assert_eq!(end.shm.pull(lane, exposed, 0, &mut Heap::new(8).memory(), 0), Pulled::Refused);
    end.send(1, LAST, Vec::new());
    end.drain();
    succeeded("exposer", exposer);
}

/// Exposes memory; goes out of reach when asked to, and ends when told.
fn exposer() {
    become_ordinary();
    let mut end = own_end();
    let data = pattern(EXPOSED_BYTES, 42);
    let [start, bytes] = end.shm.register_memory(end.lanes[0], Payload::from(&data[..])).words;
    let words = [start as u32, (start >> 32) as u32, bytes as u32, 0, 0, 0];
    end.send(0, Header { words }, Vec::new());
    loop {
        let (header, _) = end.receive(0);
        if header == LAST {
            return;
        }
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).unwrap();
        end.send(0, header, Vec::new());
    }
}

/// Gives up what root has: the right to read any process. The kernel lets nobody read a process with more
/// rights.
fn become_ordinary() {
    let mut capabilities = rustix::thread::capabilities(None).unwrap();
    capabilities.effective.remove(rustix::thread::CapabilitySet::SYS_PTRACE);
    capabilities.permitted.remove(rustix::thread::CapabilitySet::SYS_PTRACE);
    rustix::thread::set_capabilities(None, capabilities).unwrap();
}

fn received_exposed(end: &mut End) -> Exposed {
    let [low, high, bytes, ..] = end.receive(1).0.words;
    Exposed { words: [u64::from(low) | u64::from(high) << 32, bytes.into()] }
}

fn a_refusal_in_mid_run_is_an_answer() {
    let job = Job::new(2);
    let exposer = job.start("exposer", 1);
    let reader = job.start("reader", 0);
    succeeded("reader", reader);
    succeeded("exposer", exposer);
}

/// Reads as long as it may, and is refused from some point on.
fn reader() {
    become_ordinary();
    let mut end = own_end();
    let exposed = received_exposed(&mut end);
    let lane = end.lanes[1];
    let room = Heap::new(1000);
    assert_eq!(end.shm.pull(lane, exposed, 0, &mut room.memory(), 0), Pulled::Done);
    end.send(1, numbered(0), Vec::new());
    end.receive(1);
    assert_eq!(end.shm.pull(lane, exposed, 0, &mut room.memory(), 0), Pulled::Refused);
    assert!(!end.shm.limits(lane).pull, "a lane that was refused goes on offering");
    end.send(1, LAST, pattern(500_000, 1));
    end.drain();
}

/// One sender is killed in the midst of a message. The other's messages come, all of them, in order.
fn a_killed_sender_holds_up_nobody_else() {
    for round in 0..5u64 {
        let job = Job::new(3);
        let mut streamer = job.start("streamer", 1);
        let counter = job.start("counter", 2);
        let mut end = job.end(Settings::default());
        end.until("the first of the stream", |end| end.heard.whole.get(&1).map(|_| ()));
        let kill_at = Instant::now() + Duration::from_millis(round * 3);
        let mut alive = true;
        for number in 0..COUNTED {
            let (header, data) = end.receive(2);
            assert_eq!(header, numbered(number));
            assert!(data == pattern(number as usize * 40, number), "message {number} came changed");
            if alive && (number == COUNTED / 2 || Instant::now() > kill_at) {
                streamer.0.kill().unwrap();
                streamer.0.wait().unwrap();
                alive = false;
            }
        }
        end.send(2, LAST, Vec::new());
        end.drain();
        succeeded("counter", counter);
    }
}

/// Sends large messages until it is killed.
fn streamer() {
    let mut end = own_end();
    loop {
        end.send(0, numbered(0), pattern(100_000, 0));
        end.drain();
    }
}

/// Sends a known number of messages.
fn counter() {
    let mut end = own_end();
    for number in 0..COUNTED {
        end.send(0, numbered(number), pattern(number as usize * 40, number));
    }
    assert_eq!(end.receive(0).0, LAST);
}

fn a_process_slot_cannot_be_taken_twice() {
    let job = Job::new(2);
    let _end = job.end(Settings::default());
    let output = finish(job.start("latecomer", 0));
    assert!(
        output.contains("process slot 0 of this node was taken before\nStart one MPI program"),
        "{output}"
    );
}

fn latecomer() {
    let taken =
        shm::Shm::open(own_segment(), number_in(PROCESS_SLOT), vec![fabric::Peer(0)], Settings::default());
    match taken {
        Ok(_) => panic!("a seat was taken twice"),
        Err(error) => println!("{error}"),
    }
}

fn limits_are_errors_with_numbers_and_remedies() {
    let job = Job::new(2);
    for (limit, texts) in [
        ("fsize", ["the limit on the size of files is 65536 bytes", "ulimit -f unlimited"]),
        ("nofile", ["bytes are needed", "ulimit -n"]),
        ("as", ["mapping the segment", "ulimit -v unlimited"]),
    ] {
        let output = finish(job.start(limit, 1));
        for text in texts {
            assert!(output.contains(text), "{limit}: {output}");
        }
    }
}

/// Lowers a limit and makes or adopts a segment; prints the error.
fn limited(limit: &str) {
    let file = own_file();
    let lower = |resource, bytes| {
        let maximum = rustix::process::getrlimit(resource).maximum;
        rustix::process::setrlimit(resource, Rlimit { current: Some(bytes), maximum }).unwrap();
    };
    let error = match limit {
        "fsize" => {
            lower(Resource::Fsize, 65_536);
            Segment::create(2).map(drop)
        }
        "nofile" => {
            lower(Resource::Nofile, 3);
            Segment::create(2).map(drop)
        }
        "as" => {
            // What the process has already and a little more: enough to tell the error, far too little for
            // the segment.
            lower(Resource::As, address_space_bytes() + (512 << 10));
            Segment::adopt(file, 2).map(drop)
        }
        other => panic!("nobody knows the role {other}"),
    };
    match error {
        Ok(()) => panic!("the limit {limit} had no effect"),
        Err(error) => println!("{error}"),
    }
}

fn a_segment_is_fetched_over_a_socket() {
    let job = Job::new(3);
    let (offer, card) = Offer::open().unwrap();
    let hex: String = card.iter().map(|byte| format!("{byte:02x}")).collect();
    let fetchers: Vec<Running> = (1..3)
        .map(|process_slot| launch(command("fetcher", process_slot).env("WEFT_TEST_CARD", &hex)))
        .collect();
    offer.serve(job.file.as_fd(), 2, PATIENCE).unwrap();
    let mut end = job.end(Settings::default());
    for process_slot in 1..3 {
        assert_eq!(end.receive(process_slot).0, numbered(process_slot));
    }
    for fetcher in fetchers {
        succeeded("fetcher", fetcher);
    }
}

fn fetcher() {
    let hex = std::env::var("WEFT_TEST_CARD").unwrap();
    let card: Vec<u8> =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    let segment = Segment::adopt(fetch(&card, PATIENCE).unwrap(), 3).unwrap();
    let process_slot = number_in(PROCESS_SLOT);
    let mut end = End::open(segment, process_slot, Settings::default());
    end.send(0, numbered(process_slot), Vec::new());
    end.drain();
}

/// What keeps its memory is stopped, so it is there for certain when the end is told.
fn an_end_is_told_before_the_memory_goes() {
    // As the launcher: what the dead leave behind becomes a child of this process.
    rustix::process::set_child_subreaper(Some(getpid())).unwrap();
    let liveness_descriptors = LivenessDescriptors::create(2).unwrap();
    let mut owner = start_with_liveness_descriptor("owner", &liveness_descriptors);
    let number = Pid::from_child(&owner.0);
    let keeper = until(|| keeper_of(number));
    until(|| (memory_bytes(number) > OWNED_BYTES as u64).then_some(()));
    until(|| (std::fs::read_dir(format!("/proc/{keeper}/fd")).unwrap().count() == 1).then_some(()));
    kill_process(keeper, Signal::STOP).unwrap();
    owner.0.kill().unwrap();
    owner.0.wait().unwrap();
    assert!(memory_bytes(keeper) > OWNED_BYTES as u64, "the memory of the dead has gone");
    kill_process(keeper, Signal::CONT).unwrap();
    let (_, status) = waitpid(Some(keeper), WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(status.exit_status(), Some(0), "it ends by itself");
}

/// Owns memory, and waits to be killed.
fn owner() {
    let owned = vec![1u8; OWNED_BYTES];
    let _liveness_descriptor = LivenessDescriptor::begin(own_file(), 2, Peer(1)).unwrap();
    loop {
        std::hint::black_box(&owned);
        std::thread::park();
    }
}

fn who_leaves_in_good_order_leaves_no_keeper() {
    let liveness_descriptors = LivenessDescriptors::create(2).unwrap();
    succeeded("leaver", start_with_liveness_descriptor("leaver", &liveness_descriptors));
}

/// Has a keeper of which a program sees nothing that waits for its children, and then has none.
fn leaver() {
    let liveness_descriptor = LivenessDescriptor::begin(own_file(), 2, Peer(1)).unwrap();
    until(|| keeper_of(getpid()));
    assert_eq!(wait(WaitOptions::NOHANG).unwrap_err(), Errno::CHILD, "the program's own children only");
    drop(liveness_descriptor);
    assert_eq!(keeper_of(getpid()), None, "not even as one that nobody has waited for");
}

fn start_with_liveness_descriptor(role: &str, liveness_descriptors: &LivenessDescriptors) -> Running {
    rustix::io::fcntl_setfd(liveness_descriptors.file(), rustix::io::FdFlags::empty()).unwrap();
    let number = liveness_descriptors.file().as_raw_fd().to_string();
    launch(command(role, 1).env(FILE, number))
}

/// The child of that process that keeps its memory.
fn keeper_of(parent: Pid) -> Option<Pid> {
    let child = format!(" {} ", parent.as_raw_pid());
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|folder| {
        let stat = std::fs::read_to_string(folder.path().join("stat")).ok()?;
        // `pid (name) state parent …`
        let (number, behind) = stat.split_once(" (weft-keeper) ")?;
        behind[1..].starts_with(&child).then(|| Pid::from_raw(number.parse().unwrap()))?
    })
}

/// How much of its memory is there.
fn memory_bytes(process: Pid) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap();
    let pages: u64 = pages.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// Looks until there is something to see; the watchdog ends it.
fn until<T>(look: impl Fn() -> Option<T>) -> T {
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A child that is killed when nobody waits for it any more.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(role: &str, process_slot: u32) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ROLE, role).env(PROCESS_SLOT, process_slot.to_string()).stdout(Stdio::piped());
    command
}

/// A segment and its number of seats.
struct Job {
    file: OwnedFd,
    process_slots: u32,
}

impl Job {
    fn new(process_slots: u32) -> Job {
        let file = Segment::create(process_slots).unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        Job { file, process_slots }
    }

    /// Starts a child that inherits the segment, as a launcher does it.
    fn start(&self, role: &str, process_slot: u32) -> Running {
        let number = self.file.as_raw_fd().to_string();
        launch(
            command(role, process_slot).env(FILE, number).env(PROCESS_SLOTS, self.process_slots.to_string()),
        )
    }

    /// Takes seat 0.
    fn end(&self, settings: Settings) -> End {
        End::open(
            Segment::adopt(own_descriptor(self.file.as_raw_fd()), self.process_slots).unwrap(),
            0,
            settings,
        )
    }
}

fn launch(command: &mut Command) -> Running {
    Running(command.spawn().unwrap())
}

fn succeeded(role: &str, mut child: Running) {
    let status: ExitStatus = child.0.wait().unwrap();
    assert!(status.success(), "the {role} ended with {status}");
}

/// Waits for a child, and returns what it has printed.
fn finish(mut child: Running) -> String {
    let mut output = String::new();
    std::io::Read::read_to_string(child.0.stdout.as_mut().unwrap(), &mut output).unwrap();
    let status = child.0.wait().unwrap();
    assert!(status.success(), "ended with {status}: {output}");
    output
}

/// The address space that this process takes up.
fn address_space_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split_whitespace().next().unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// A descriptor of this process, opened once more by its number.
fn own_descriptor(number: i32) -> OwnedFd {
    OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{number}")).unwrap().into()
}

/// The inherited segment.
fn own_file() -> OwnedFd {
    own_descriptor(number_in(FILE) as i32)
}

fn own_segment() -> Segment {
    Segment::adopt(own_file(), number_in(PROCESS_SLOTS)).unwrap()
}

fn own_end() -> End {
    End::open(own_segment(), number_in(PROCESS_SLOT), Settings::default())
}

fn number_in(variable: &str) -> u32 {
    std::env::var(variable).unwrap().parse().unwrap()
}

fn numbered(number: u32) -> Header {
    Header { words: [number, !number, 1, 2, 3, 4] }
}

/// Ends this process, loudly, if `what` takes far too long.
fn watchdog(what: &str) {
    let what = what.to_owned();
    std::thread::spawn(move || {
        std::thread::sleep(3 * PATIENCE);
        eprintln!("watchdog: {what} hangs (process {})", std::process::id());
        std::process::exit(101);
    });
}

/// The roles that lower a limit.
const LIMITS: [&str; 3] = ["fsize", "nofile", "as"];
const ROLE: &str = "WEFT_TEST_ROLE";
const PROCESS_SLOT: &str = "WEFT_TEST_SEAT";
const PROCESS_SLOTS: &str = "WEFT_TEST_SEATS";
const FILE: &str = "WEFT_TEST_FILE";

const LAST: Header = Header { words: [u32::MAX; 6] };
const SIZES: [usize; 12] = [0, 1, 8, 32, 33, 1000, 8192, 16_384, 16_385, 300_000, 5 << 20, 7];
const NAPS: u32 = 2000;
const COUNTED: u32 = 400;
const OWNED_BYTES: usize = 64 << 20;
const EXPOSED_BYTES: usize = 3 << 20;
