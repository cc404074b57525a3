//! The rows that others of their kind are made of, and what they share: contestants, sizes, options of
//! programs and gates.

use crate::contestant::{Contestant, Way};
use crate::row::{Gate, Row, Rule, Unit, floor, gate, stretch};

pub(super) const K: u64 = 1 << 10;
pub(super) const M: u64 = 1 << 20;
/// Slower than the floor by a twentieth at most, as a limit on time.
pub(super) const NEARLY: f64 = 1.0 / 0.95;

const ON_A_NODE: &[Contestant] =
    &[Contestant::Mpich, Contestant::Openmpi, Contestant::OpenmpiUcx, Contestant::Impi];
const ON_SHARED_CPUS: &[Contestant] = &[Contestant::Mpich, Contestant::Openmpi, Contestant::Impi];
const BY_SOCKETS: &[Contestant] = ON_A_NODE;
pub(super) const ALL: &[Contestant] = &[
    Contestant::Mpich,
    Contestant::Openmpi,
    Contestant::OpenmpiUcx,
    Contestant::OpenmpiSm,
    Contestant::Impi,
];
/// The peer whose word on its provider can be had.
const BY_LIBFABRIC: &[Contestant] = &[Contestant::Mpich];
pub(super) const BETWEEN_NAMESPACES: &[Contestant] = ON_SHARED_CPUS;

const SIZES: &[u64] = &[8, 64, K, 4 * K, 8 * K, 64 * K, M, 4 * M];
pub(super) const LARGE: &[u64] = &[64 * K, 256 * K, M, 4 * M];
const COLLECTIVE: &[u64] = &[8, K, 64 * K, M];

/// A window that stays in the second-level cache, as in programs that send from one buffer.
pub(super) const IN_CACHE: &[&str] = &["--window-bytes", "1M", "--iterations", "4000"];

/// A latency between two ranks of a node: what the other rows differ from.
pub(super) const PAIR: Row = Row {
    id: "latency",
    title: "Latency: half a round trip",
    program: "latency",
    result: None,
    arguments: &["--min", "1", "--iterations", "10000"],
    quick: &["--iterations", "4000"],
    ranks: &[2],
    way: Way::Node,
    shared_cpus: false,
    unit: Unit::Microseconds,
    peers: ON_A_NODE,
    floors: &[],
    gates: &[],
    shown: SIZES,
    rounds: 5,
};

/// A collective of two ranks.
pub(super) const CALL: Row =
    Row { arguments: &["--min", "8", "--iterations", "4000"], shown: COLLECTIVE, ..PAIR };

/// A collective of two ranks on data that programs have just written, and read afterwards. Both are within
/// the time.
pub(super) const FRESH: Row = Row {
    arguments: &["--min", "1K", "--iterations", "4000", "--fresh", "yes"],
    shown: &[4 * K, 16 * K, 64 * K, M],
    rounds: 3,
    ..PAIR
};

/// One of the collectives that `bench/collectives.c` measures one after the other.
pub(super) const COLLECTIVES: Row = Row {
    program: "collectives",
    arguments: &["--iterations", "1000"],
    quick: &["--iterations", "400"],
    gates: G9,
    rounds: 3,
    ..CALL
};

/// One of the collectives of `bench/collectives.c` that take lists of lengths.
pub(super) const LISTED: Row = Row { gates: G9_LISTED, shown: &[16, K, 64 * K, M], ..COLLECTIVES };

/// One of the operations that `bench/one_sided.c` measures one after the other.
pub(super) const ONE_SIDED: Row = Row {
    program: "one_sided",
    arguments: &["--iterations", "2000"],
    quick: &["--iterations", "400"],
    shown: COLLECTIVE,
    rounds: 3,
    ..PAIR
};

/// A window of operations, and one flush.
pub(super) const ONE_SIDED_BANDWIDTH: Row = Row {
    unit: Unit::Gigabytes,
    gates: &[
        gate("one-sided", 64 * K, 64 * K, Rule::Best(1.0 / 1.2)),
        gate("one-sided", M, M, Rule::Best(1.0 / 1.2)),
    ],
    shown: &[K, 64 * K, M],
    ..ONE_SIDED
};

/// A message back and forth over sockets.
pub(super) const TCP_LATENCY: Row = Row {
    id: "tcp-latency",
    title: "TCP over loopback: half a round trip",
    arguments: &["--min", "1", "--iterations", "4000"],
    quick: &["--iterations", "2000"],
    way: Way::Loopback,
    peers: BY_SOCKETS,
    floors: &[floor("tcp-latency")],
    gates: G11_LATENCY,
    rounds: 3,
    ..PAIR
};

/// A stream over sockets.
pub(super) const TCP_BANDWIDTH: Row = Row {
    id: "tcp-bandwidth",
    title: "TCP over loopback: bandwidth",
    program: "bandwidth",
    arguments: &["--min", "1K", "--iterations", "2000"],
    quick: &["--min", "64K"],
    way: Way::Loopback,
    unit: Unit::Gigabytes,
    peers: BY_SOCKETS,
    floors: &[floor("tcp-stream"), floor("tcp-stream-large")],
    gates: G11_STREAM,
    shown: LARGE,
    rounds: 3,
    ..PAIR
};

/// A message back and forth over a provider of libfabric, which is given by its whole name. All contestants
/// use the same library of libfabric.
pub(super) const LIBFABRIC_LATENCY: Row = Row {
    id: "libfabric-rxm-latency",
    title: "libfabric's tcp;ofi_rxm: half a round trip",
    arguments: &["--min", "8", "--iterations", "4000"],
    quick: &["--iterations", "2000"],
    way: Way::Libfabric("libfabric:tcp;ofi_rxm"),
    peers: BY_LIBFABRIC,
    floors: &[floor("libfabric-pingpong")],
    gates: G16_LATENCY,
    ..PAIR
};

/// A stream over a provider of libfabric.
pub(super) const LIBFABRIC_BANDWIDTH: Row = Row {
    id: "libfabric-rxm-bandwidth",
    title: "libfabric's tcp;ofi_rxm: bandwidth",
    program: "bandwidth",
    arguments: &["--min", "1K", "--iterations", "2000"],
    quick: &["--min", "64K"],
    unit: Unit::Gigabytes,
    floors: &[floor("libfabric-stream")],
    gates: G16_STREAM,
    shown: LARGE,
    ..LIBFABRIC_LATENCY
};

/// A row with more ranks than cpus.
pub(super) const CROWD: Row = Row {
    arguments: &["--iterations", "2000", "--warmup", "20"],
    quick: &[],
    shared_cpus: true,
    peers: ON_SHARED_CPUS,
    shown: &[],
    rounds: 3,
    ..PAIR
};

/// A collective of eight ranks on two cpus, beside the peers that wait there without minutes for each point.
pub(super) const CROWD_CALL: Row = Row {
    arguments: &["--min", "8", "--max", "64K", "--iterations", "400", "--warmup", "5"],
    ranks: &[8],
    peers: &[Contestant::Openmpi, Contestant::Impi],
    shown: &[8, K, 8 * K, 64 * K],
    ..CROWD
};

/// A nonblocking operation of two ranks behind a computation of its length.
const OVERLAP: Row = Row {
    program: "overlap",
    arguments: &["--iterations", "1000", "--warmup", "10"],
    quick: &["--iterations", "400"],
    unit: Unit::Overlap,
    peers: ON_SHARED_CPUS,
    shown: COLLECTIVE,
    rounds: 3,
    ..PAIR
};

/// How much of a nonblocking operation is hidden behind the computation.
pub(super) const fn overlap(id: &'static str, title: &'static str, result: &'static str) -> Row {
    Row { id, title, result: Some(result), ..OVERLAP }
}

/// How much time a nonblocking operation takes beside the computation.
pub(super) const fn left(id: &'static str, title: &'static str, result: &'static str) -> Row {
    Row { id, title, result: Some(result), unit: Unit::Microseconds, ..OVERLAP }
}

/// Times of operations, in times of others that do their work and more; the worst of all rules at each size.
pub(super) const CONSISTENT: Row = Row {
    id: "consistent",
    title: "Collectives beside others that do their work, 2 ranks",
    program: "consistent",
    arguments: &[],
    quick: &["--iterations", "500"],
    unit: Unit::Others,
    peers: ON_SHARED_CPUS,
    gates: &[gate("G17", 8, M, Rule::Value(1.1))],
    shown: COLLECTIVE,
    rounds: 3,
    ..PAIR
};

/// Making a communicator of two ranks, each with a cpu.
pub(super) const MAKING: Row = Row {
    program: "communicators",
    arguments: &["--iterations", "4000"],
    quick: &[],
    peers: ON_SHARED_CPUS,
    shown: &[],
    ..PAIR
};

/// Four threads of each of two ranks, on two cpus.
pub(super) const THREADS: Row = Row {
    program: "thread_rate",
    // Fewer would tell how long threads take to begin.
    arguments: &["--min", "8", "--iterations", "2000"],
    quick: &["--iterations", "1000", "--max", "8"],
    shared_cpus: true,
    unit: Unit::Messages,
    peers: ON_SHARED_CPUS,
    shown: &[8, 64, K, 4 * K],
    rounds: 3,
    ..PAIR
};

/// Making a communicator of eight ranks on two cpus.
pub(super) const MAKING_IN_A_CROWD: Row = Row { ranks: &[8], shared_cpus: true, ..MAKING };

/// Gates of `MPI_Comm_dup`, as a multiple of one small reduction: MPI 5.0 asks for no more than that.
pub(super) const DUPLICATE: &[Gate] =
    &[gate("dup", 8, 8, Rule::Value(1.2)), stretch("dup", 8, 8, Rule::Value(1.1))];

/// A grid whose ranks may change costs no more than a duplicate.
/// Libraries that change no ranks should not be quicker than one that does.
pub(super) const GRID: &[Gate] = &[gate("grid", 8, 8, Rule::Best(1.0))];

/// Calls of group algebra on one rank, by the number of ranks.
pub(super) const ALGEBRA: Row = Row {
    program: "groups",
    arguments: &["--iterations", "20000"],
    quick: &[],
    ranks: &[1, 8],
    shared_cpus: true,
    peers: ON_SHARED_CPUS,
    gates: &[gate("groups", 1, 8, Rule::Best(1.0))],
    shown: &[],
    rounds: 3,
    ..PAIR
};

pub(super) const CROWD_ALLREDUCE: &[&str] =
    &["--min", "8", "--max", "8", "--iterations", "2000", "--warmup", "20"];
pub(super) const G12: &[Gate] =
    &[gate("G12", 0, 8, Rule::Best(0.8)), stretch("G12", 0, 8, Rule::Floor("yield-barrier", 1.3))];
pub(super) const HALO: &[Gate] = &[gate("halo", 1, 256 * 1024, Rule::Best(0.8))];
pub(super) const G9: &[Gate] = &[
    gate("G9", 8, 8, Rule::Best(0.8)),
    gate("G9", M, M, Rule::Best(0.8)),
    stretch("G9", 8, 8, Rule::Best(0.6)),
    stretch("G9", M, M, Rule::Best(0.6)),
];
const G9_LISTED: &[Gate] = &[
    gate("G9", 16, 16, Rule::Best(0.8)),
    gate("G9", M, M, Rule::Best(0.8)),
    stretch("G9", 16, 16, Rule::Best(0.6)),
    stretch("G9", M, M, Rule::Best(0.6)),
];
pub(super) const G6: &[Gate] =
    &[gate("G6", 64, 256 * K, Rule::Best(0.5)), gate("G6", M, 4 * M, Rule::Best(0.8))];
const G11_LATENCY: &[Gate] = &[gate("G11", 8, 8, Rule::Floor("tcp-latency", 1.1))];
const G11_STREAM: &[Gate] = &[
    gate("G11", 64 * K, 4 * M, Rule::Floor("tcp-stream", 0.95)),
    stretch("G11", 64 * K, 4 * M, Rule::Floor("tcp-stream-large", 0.95)),
];

const G16_LATENCY: &[Gate] = &[
    gate("G16", 8, 8, Rule::Floor("libfabric-pingpong", 1.1)),
    gate("G16", M, M, Rule::Floor("libfabric-pingpong", 1.1)),
    gate("G16", 8, 8, Rule::Best(1.0)),
    gate("G16", M, M, Rule::Best(1.0)),
];
const G16_STREAM: &[Gate] =
    &[gate("G16", M, M, Rule::Floor("libfabric-stream", 1.0 / 1.1)), gate("G16", M, M, Rule::Best(1.0))];
