//! Several processes in one thread: what they post, hear and lose, with a watchdog over every wait.
#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fabric::{Fabric, FabricError, Header, Heap, Payload, Peer, Posted, Sink, UserMemory};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tcp::{Lane, Settings, Tcp};

/// One process: its fabric, what it has heard, and what it wants to send.
pub struct Process {
    pub tcp: Tcp,
    pub heard: Heard,
}

impl Process {
    pub fn open(number: u32) -> Process {
        Process::open_with(number, Settings::default())
    }

    pub fn open_with(number: u32, settings: Settings) -> Process {
        let tcp = Tcp::open(Peer(number), settings).expect("a fabric opens");
        Process { tcp, heard: Heard::default() }
    }

    pub fn poll(&mut self) -> usize {
        self.tcp.poll(&mut self.heard, 16)
    }

    pub fn connect(&mut self, to: &Process, number: u32) -> Lane {
        self.tcp.connect(Peer(number), &to.tcp.address()).expect("a lane")
    }

    /// Posts a small message; false where the fabric is busy.
    pub fn post(&mut self, lane: Lane, number: u32) -> bool {
        let payload = number.to_le_bytes();
        match self.tcp.post(lane, &numbered(number), Payload::from(&payload[..])) {
            Posted::Sent => true,
            Posted::Busy => false,
            Posted::Partly(bytes) => panic!("four bytes were taken partly: {bytes}"),
        }
    }
}

/// Everything a process has heard, checked as it comes.
#[derive(Default)]
pub struct Heard {
    pub messages: HashMap<Peer, Vec<(Header, Vec<u8>)>>,
    pub arriving: HashMap<Peer, (Header, Heap)>,
    pub lost: Vec<(Peer, FabricError)>,
}

impl Heard {
    pub fn count(&self) -> usize {
        self.messages.values().map(Vec::len).sum()
    }

    /// The numbers of the small messages that came from a peer, in their order.
    pub fn numbers(&self, from: u32) -> Vec<u32> {
        let messages = self.messages.get(&Peer(from)).map(Vec::as_slice).unwrap_or_default();
        messages.iter().map(|(header, _)| header.words[0]).collect()
    }
}

impl Sink for Heard {
    fn message(&mut self, from: Peer, header: &Header, payload: Payload<'_>) {
        assert!(!self.arriving.contains_key(&from), "a message from {from:?} overtook one that arrives");
        self.messages.entry(from).or_default().push((*header, payload.to_vec()));
    }

    fn arriving(&mut self, from: Peer, header: &Header, bytes: usize) -> UserMemory {
        let heap = Heap::new(bytes);
        let memory = heap.memory();
        let before = self.arriving.insert(from, (*header, heap));
        assert!(before.is_none(), "two messages from {from:?} arrive at once");
        memory
    }

    fn landed(&mut self, from: Peer) {
        let (header, heap) = self.arriving.remove(&from).expect("what landed was arriving");
        self.messages.entry(from).or_default().push((header, heap.payload().to_vec()));
    }

    fn lost(&mut self, peer: Peer, error: FabricError) {
        self.arriving.remove(&peer);
        self.lost.push((peer, error));
    }
}

/// Polls all until `done`, or fails with the state at hand.
pub fn until(what: &str, processes: &mut [Process], mut done: impl FnMut(&mut [Process]) -> bool) {
    let began = Instant::now();
    while !done(processes) {
        for process in processes.iter_mut() {
            process.poll();
        }
        assert!(began.elapsed() < WATCHDOG, "{what} hangs: {}", state(processes));
    }
}

fn state(processes: &[Process]) -> String {
    let one = |(number, process): (usize, &Process)| {
        let heard = &process.heard;
        let (messages, lost) = (heard.count(), &heard.lost);
        format!("process {number} heard {messages}, arriving {}, lost {lost:?}", heard.arriving.len())
    };
    processes.iter().enumerate().map(one).collect::<Vec<_>>().join("; ")
}

pub fn numbered(number: u32) -> Header {
    Header { words: [number, 1, 2, 3, 4, !number] }
}

/// How many descriptors this process has open.
pub fn descriptors() -> usize {
    // Reading the list takes one itself.
    std::fs::read_dir("/proc/self/fd").expect("the kernel lists descriptors").count() - 1
}

/// The numbers of the descriptors that are open.
pub fn open_descriptors() -> Vec<usize> {
    let list = std::fs::read_dir("/proc/self/fd").expect("the kernel lists descriptors");
    let numbers = list.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<usize> = numbers.collect();
    // The one that read the list is closed by now.
    numbers.retain(|number| std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok());
    numbers
}

/// Allows this program as many descriptors as the system lets it: all processes of a test share one table.
pub fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the hard limit");
}

/// Long enough for the slowest machine; a hang is a bug and not a slow run.
pub const WATCHDOG: Duration = Duration::from_secs(60);
