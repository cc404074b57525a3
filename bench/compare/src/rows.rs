//! What is measured: one table of rows, and what each row must reach.
//!
//! The letters of the gates (G1, G2, ...) are those of `docs/performance.md`. A gate compares weft with
//! the best peer, or with a floor: what the machine does with no library between.

use super::contestant::{Contestant, Way};
use super::row::{Floor, Gate, Row, Rule, Unit, floor, gate, stretch};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
/// Slower than the floor by a twentieth at most, as a limit on time.
const NEARLY: f64 = 1.0 / 0.95;

const ON_A_NODE: &[Contestant] =
    &[Contestant::Mpich, Contestant::Openmpi, Contestant::OpenmpiUcx, Contestant::Impi];
const ON_SHARED_CPUS: &[Contestant] = &[Contestant::Mpich, Contestant::Openmpi, Contestant::Impi];
const BY_SOCKETS: &[Contestant] = ON_A_NODE;
const ALL: &[Contestant] = &[
    Contestant::Mpich,
    Contestant::Openmpi,
    Contestant::OpenmpiUcx,
    Contestant::OpenmpiSm,
    Contestant::Impi,
];
/// The peer whose word on its provider can be had.
const BY_LIBFABRIC: &[Contestant] = &[Contestant::Mpich];
const BETWEEN_NAMESPACES: &[Contestant] = ON_SHARED_CPUS;

const SIZES: &[u64] = &[8, 64, K, 4 * K, 8 * K, 64 * K, M, 4 * M];
const LARGE: &[u64] = &[64 * K, 256 * K, M, 4 * M];
const COLLECTIVE: &[u64] = &[8, K, 64 * K, M];

/// A window that stays in the second-level cache, as in programs that send from one buffer.
const IN_CACHE: &[&str] = &["--window-bytes", "1M", "--iterations", "4000"];

/// A latency between two ranks of a node: what the other rows differ from.
const PAIR: Row = Row {
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
const CALL: Row = Row { arguments: &["--min", "8", "--iterations", "4000"], shown: COLLECTIVE, ..PAIR };

/// The same of what programs have just made, and look at behind it; both are within the time.
const FRESH: Row = Row {
    arguments: &["--min", "1K", "--iterations", "4000", "--fresh", "yes"],
    shown: &[4 * K, 16 * K, 64 * K, M],
    rounds: 3,
    ..PAIR
};

/// One of the collectives that `bench/collectives.c` measures one after the other.
const COLLECTIVES: Row = Row {
    program: "collectives",
    arguments: &["--iterations", "1000"],
    quick: &["--iterations", "400"],
    gates: G9,
    rounds: 3,
    ..CALL
};

/// The same for those with lists of lengths.
const LISTED: Row = Row { gates: G9_LISTED, shown: &[16, K, 64 * K, M], ..COLLECTIVES };

/// A message back and forth over sockets.
const TCP_LATENCY: Row = Row {
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
const TCP_BANDWIDTH: Row = Row {
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

/// A message back and forth over a provider of libfabric, which is told by its whole name; everybody has the same library.
const LIBFABRIC_LATENCY: Row = Row {
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

/// A stream over the same.
const LIBFABRIC_BANDWIDTH: Row = Row {
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

/// More ranks than cpus, on this many.
const CROWD: Row = Row {
    arguments: &["--iterations", "2000", "--warmup", "20"],
    quick: &[],
    shared_cpus: true,
    peers: ON_SHARED_CPUS,
    shown: &[],
    rounds: 3,
    ..PAIR
};

/// A collective of eight ranks on two cpus, beside the peers that wait there without minutes for each point.
const CROWD_CALL: Row = Row {
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

/// How much of an operation is hidden.
const fn overlap(id: &'static str, title: &'static str, result: &'static str) -> Row {
    Row { id, title, result: Some(result), ..OVERLAP }
}

/// What an operation takes beside its computation all the same.
const fn left(id: &'static str, title: &'static str, result: &'static str) -> Row {
    Row { id, title, result: Some(result), unit: Unit::Microseconds, ..OVERLAP }
}

/// Times of operations, in times of others that do their work and more; the worst of all rules at each size.
const CONSISTENT: Row = Row {
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
const MAKING: Row = Row {
    program: "communicators",
    arguments: &["--iterations", "4000"],
    quick: &[],
    peers: ON_SHARED_CPUS,
    shown: &[],
    ..PAIR
};

/// Four threads of each of two ranks, on two cpus.
const THREADS: Row = Row {
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

/// The same of eight ranks on two cpus.
const MAKING_IN_A_CROWD: Row = Row { ranks: &[8], shared_cpus: true, ..MAKING };

/// MPI 5.0 asks for no more: a duplicate is one small reduction.
const DUPLICATE: &[Gate] = &[gate("dup", 8, 8, Rule::Value(1.2)), stretch("dup", 8, 8, Rule::Value(1.1))];

/// A grid whose ranks may change costs no more than a duplicate.
/// Libraries that change no ranks should not be quicker than one that does.
const GRID: &[Gate] = &[gate("grid", 8, 8, Rule::Best(1.0))];

/// Calls of group algebra on one rank, by the number of ranks.
const ALGEBRA: Row = Row {
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

const CROWD_ALLREDUCE: &[&str] = &["--min", "8", "--max", "8", "--iterations", "2000", "--warmup", "20"];
const G12: &[Gate] =
    &[gate("G12", 0, 8, Rule::Best(0.8)), stretch("G12", 0, 8, Rule::Floor("yield-barrier", 1.3))];
const HALO: &[Gate] = &[gate("halo", 1, 256 * 1024, Rule::Best(0.8))];
const G9: &[Gate] = &[
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
const G6: &[Gate] = &[gate("G6", 64, 256 * K, Rule::Best(0.5)), gate("G6", M, 4 * M, Rule::Best(0.8))];
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

/// All rows, in the order in which they are measured and told.
pub const ROWS: &[Row] = &[
    Row {
        floors: &[floor("bounce-one-line"), floor("bounce-two-lines"), floor("cma"), floor("split")],
        gates: &[
            gate("G1", 8, 8, Rule::Best(0.7)),
            gate("G1", 8, 8, Rule::Floor("bounce-two-lines", 1.1)),
            stretch("G1", 8, 8, Rule::Floor("bounce-one-line", 1.5)),
            gate("G2", 64, 64, Rule::Best(0.6)),
            gate("G2", K, K, Rule::Best(0.6)),
            gate("G2", 4 * K, 4 * K, Rule::Best(0.5)),
            gate("G4", 64 * K, 64 * K, Rule::Best(0.75)),
            gate("G4", M, M, Rule::Best(0.5)),
            gate("G4", 4 * M, 4 * M, Rule::Best(0.6)),
            stretch("G4", 64 * K, 4 * M, Rule::Floor("split", NEARLY)),
            gate("no cliff", 1, 4 * M, Rule::Cliff(2.2)),
        ],
        ..PAIR
    },
    Row {
        id: "latency-large",
        title: "Latency of very large messages",
        arguments: &["--min", "4M", "--max", "64M", "--iterations", "200", "--warmup", "2"],
        quick: &["--max", "16M"],
        gates: &[gate("no cliff", 4 * M, 64 * M, Rule::Cliff(2.2))],
        shown: &[],
        rounds: 3,
        ..PAIR
    },
    Row {
        id: "latency-refused",
        title: "Latency where memory of others may not be read (weft only; peers may)",
        arguments: &["--min", "4K", "--iterations", "4000"],
        quick: &["--iterations", "2000"],
        way: Way::NodeWithoutPull,
        floors: &[floor("double-copy"), floor("cma")],
        gates: &[
            gate("G5", 4 * M, 4 * M, Rule::Floor("double-copy", NEARLY)),
            stretch("G5", 4 * M, 4 * M, Rule::Best(1.0)),
            gate("no cliff", 4 * K, 4 * M, Rule::Cliff(2.2)),
        ],
        shown: &[4 * K, 64 * K, M, 4 * M],
        rounds: 3,
        ..PAIR
    },
    Row {
        id: "vector-8",
        title: "Latency of vectors of 8-byte blocks",
        program: "vector_latency",
        arguments: &["--block", "8", "--iterations", "1000", "--warmup", "10"],
        quick: &["--max", "1M"],
        floors: &[floor("pack-8")],
        gates: G6,
        shown: &[64, K, 64 * K, 256 * K, M, 4 * M],
        rounds: 3,
        ..PAIR
    },
    Row {
        id: "vector-64",
        title: "Latency of vectors of 64-byte blocks",
        program: "vector_latency",
        arguments: &["--block", "64", "--iterations", "1000", "--warmup", "10"],
        quick: &["--max", "1M"],
        floors: &[floor("pack-64")],
        gates: G6,
        shown: &[64, K, 64 * K, 256 * K, M, 4 * M],
        rounds: 3,
        ..PAIR
    },
    Row {
        id: "bandwidth",
        title: "Bandwidth, one way",
        program: "bandwidth",
        arguments: IN_CACHE,
        quick: &["--iterations", "2000"],
        unit: Unit::Gigabytes,
        floors: &[floor("copy"), floor("split")],
        shown: LARGE,
        rounds: 3,
        ..PAIR
    },
    Row {
        id: "bibandwidth",
        title: "Bandwidth, both ways at once",
        program: "bibandwidth",
        arguments: IN_CACHE,
        quick: &["--iterations", "2000"],
        unit: Unit::Gigabytes,
        shown: LARGE,
        rounds: 3,
        ..PAIR
    },
    Row {
        id: "rate",
        title: "Message rate, window of 64, one pair",
        program: "message_rate",
        arguments: &["--min", "1", "--iterations", "10000"],
        unit: Unit::Messages,
        floors: &[floor("cells")],
        gates: &[gate("G3", 8, 8, Rule::Best(2.0)), stretch("G3", 8, 8, Rule::Best(4.0))],
        shown: &[8, 64, K, 4 * K],
        ..PAIR
    },
    Row {
        id: "threads-one",
        title: "Message rate of 4 threads a rank, one communicator, window of 64",
        result: Some("thread_rate_one_communicator"),
        ..THREADS
    },
    Row {
        id: "threads-own",
        title: "Message rate of 4 threads a rank, a communicator for each pair, window of 64",
        result: Some("thread_rate_own_communicators"),
        ..THREADS
    },
    Row {
        id: "threads-blocking",
        title: "Blocking messages there and back of 4 threads a rank, one communicator",
        result: Some("thread_rate_there_and_back"),
        ..THREADS
    },
    Row {
        id: "barrier",
        title: "Barrier, 2 ranks",
        program: "barrier",
        arguments: &["--iterations", "20000"],
        floors: &[floor("exchange")],
        gates: &[gate("G7", 0, 0, Rule::Best(0.65)), stretch("G7", 0, 0, Rule::Floor("exchange", 1.25))],
        shown: &[],
        ..CALL
    },
    Row {
        id: "allreduce",
        title: "Allreduce of doubles, 2 ranks",
        program: "allreduce",
        floors: &[floor("exchange")],
        gates: &[
            gate("G7", 8, 8, Rule::Best(0.65)),
            gate("G8", 64 * K, 64 * K, Rule::Best(0.8)),
            gate("G8", M, M, Rule::Best(0.8)),
            stretch("G8", 64 * K, 64 * K, Rule::Best(0.6)),
            stretch("G8", M, M, Rule::Best(0.6)),
        ],
        ..CALL
    },
    Row { id: "bcast", title: "Bcast, 2 ranks, roots in turn", program: "bcast", gates: G9, ..CALL },
    Row { id: "reduce", title: "Reduce, 2 ranks, roots in turn", program: "reduce", gates: G9, ..CALL },
    Row { id: "alltoall", title: "Alltoall, 2 ranks", program: "alltoall", gates: G9, ..CALL },
    Row { id: "allgather", title: "Allgather, 2 ranks", program: "allgather", gates: G9, ..CALL },
    Row {
        id: "fresh-bcast",
        title: "Bcast of fresh data, 2 ranks, roots in turn",
        program: "bcast",
        ..FRESH
    },
    Row {
        id: "fresh-reduce",
        title: "Reduce of fresh data, 2 ranks, roots in turn",
        program: "reduce",
        ..FRESH
    },
    Row {
        id: "fresh-allreduce",
        title: "Allreduce of fresh doubles, 2 ranks",
        program: "allreduce",
        ..FRESH
    },
    Row { id: "fresh-alltoall", title: "Alltoall of fresh data, 2 ranks", program: "alltoall", ..FRESH },
    Row { id: "fresh-allgather", title: "Allgather of fresh data, 2 ranks", program: "allgather", ..FRESH },
    Row { id: "gather", title: "Gather, 2 ranks, roots in turn", result: Some("gather"), ..COLLECTIVES },
    Row { id: "gatherv", title: "Gatherv, 2 ranks, roots in turn", result: Some("gatherv"), ..LISTED },
    Row { id: "scatter", title: "Scatter, 2 ranks, roots in turn", result: Some("scatter"), ..COLLECTIVES },
    Row { id: "scatterv", title: "Scatterv, 2 ranks, roots in turn", result: Some("scatterv"), ..LISTED },
    Row { id: "allgatherv", title: "Allgatherv, 2 ranks", result: Some("allgatherv"), ..LISTED },
    Row { id: "alltoallv", title: "Alltoallv, 2 ranks", result: Some("alltoallv"), ..LISTED },
    Row {
        id: "reduce-scatter-block",
        title: "Reduce_scatter_block of doubles, 2 ranks",
        result: Some("reduce_scatter_block"),
        ..COLLECTIVES
    },
    Row {
        id: "reduce-scatter",
        title: "Reduce_scatter of doubles, 2 ranks",
        result: Some("reduce_scatter"),
        ..LISTED
    },
    Row { id: "scan", title: "Scan of doubles, 2 ranks", result: Some("scan"), ..COLLECTIVES },
    Row { id: "exscan", title: "Exscan of doubles, 2 ranks", result: Some("exscan"), ..COLLECTIVES },
    Row {
        id: "neighbours",
        title: "Neighborhood alltoall, torus of 2 ranks",
        program: "neighbours",
        gates: HALO,
        ..CALL
    },
    Row {
        id: "neighbours-4",
        title: "Neighborhood alltoall, torus of 2x2 ranks on 2 cpus",
        program: "neighbours",
        arguments: CALL.arguments,
        ranks: &[4],
        gates: HALO,
        shown: CALL.shown,
        ..CROWD
    },
    Row {
        id: "barrier-4",
        title: "Barrier, 4 ranks on 2 cpus",
        program: "barrier",
        ranks: &[4],
        floors: &[Floor { name: "yield-barrier", arguments: &["--ranks", "4"] }],
        gates: G12,
        ..CROWD
    },
    Row {
        id: "barrier-8",
        title: "Barrier, 8 ranks on 2 cpus",
        program: "barrier",
        ranks: &[8],
        floors: &[Floor { name: "yield-barrier", arguments: &["--ranks", "8"] }],
        gates: G12,
        ..CROWD
    },
    Row {
        id: "barrier-32",
        title: "Barrier, 32 ranks on 2 cpus",
        program: "barrier",
        ranks: &[32],
        floors: &[Floor { name: "yield-barrier", arguments: &["--ranks", "32"] }],
        gates: G12,
        rounds: 3,
        ..CROWD
    },
    Row {
        id: "allreduce-4",
        title: "Allreduce of 8 bytes, 4 ranks on 2 cpus",
        program: "allreduce",
        arguments: CROWD_ALLREDUCE,
        ranks: &[4],
        gates: &[gate("G12", 8, 8, Rule::Best(0.8))],
        ..CROWD
    },
    Row {
        id: "allreduce-8",
        title: "Allreduce of 8 bytes, 8 ranks on 2 cpus",
        program: "allreduce",
        arguments: CROWD_ALLREDUCE,
        ranks: &[8],
        gates: &[gate("G12", 8, 8, Rule::Best(0.8))],
        ..CROWD
    },
    Row {
        id: "allreduce-32",
        title: "Allreduce of 8 bytes, 32 ranks on 2 cpus",
        program: "allreduce",
        arguments: CROWD_ALLREDUCE,
        ranks: &[32],
        gates: &[gate("G12", 8, 8, Rule::Best(0.8))],
        rounds: 3,
        ..CROWD
    },
    Row { id: "bcast-8", title: "Bcast, roots in turn, 8 ranks on 2 cpus", program: "bcast", ..CROWD_CALL },
    Row {
        id: "reduce-8",
        title: "Reduce, roots in turn, 8 ranks on 2 cpus",
        program: "reduce",
        ..CROWD_CALL
    },
    Row { id: "alltoall-8", title: "Alltoall, 8 ranks on 2 cpus", program: "alltoall", ..CROWD_CALL },
    Row { id: "allgather-8", title: "Allgather, 8 ranks on 2 cpus", program: "allgather", ..CROWD_CALL },
    CONSISTENT,
    Row {
        id: "consistent-4",
        title: "Collectives beside others that do their work, 4 ranks on 2 cpus",
        ranks: &[4],
        shared_cpus: true,
        ..CONSISTENT
    },
    Row {
        id: "consistent-8",
        title: "Collectives beside others that do their work, 8 ranks on 2 cpus",
        ranks: &[8],
        shared_cpus: true,
        ..CONSISTENT
    },
    overlap("overlap-ibarrier", "Ibarrier: hidden behind a computation without calls", "overlap_ibarrier"),
    overlap(
        "overlap-ibarrier-tested",
        "Ibarrier: hidden behind one with ten tests",
        "overlap_ibarrier_tested",
    ),
    left("overlap-ibarrier-left", "Ibarrier: what is left beside ten tests", "overlap_ibarrier_left_tested"),
    overlap("overlap-ibcast", "Ibcast: hidden behind a computation without calls", "overlap_ibcast"),
    overlap("overlap-ibcast-tested", "Ibcast: hidden behind one with ten tests", "overlap_ibcast_tested"),
    left("overlap-ibcast-left", "Ibcast: what is left beside ten tests", "overlap_ibcast_left_tested"),
    overlap(
        "overlap-iallreduce",
        "Iallreduce: hidden behind a computation without calls",
        "overlap_iallreduce",
    ),
    overlap(
        "overlap-iallreduce-tested",
        "Iallreduce: hidden behind one with ten tests",
        "overlap_iallreduce_tested",
    ),
    left(
        "overlap-iallreduce-left",
        "Iallreduce: what is left beside ten tests",
        "overlap_iallreduce_left_tested",
    ),
    overlap(
        "overlap-iallgather",
        "Iallgather: hidden behind a computation without calls",
        "overlap_iallgather",
    ),
    overlap(
        "overlap-iallgather-tested",
        "Iallgather: hidden behind one with ten tests",
        "overlap_iallgather_tested",
    ),
    left(
        "overlap-iallgather-left",
        "Iallgather: what is left beside ten tests",
        "overlap_iallgather_left_tested",
    ),
    overlap("overlap-ialltoall", "Ialltoall: hidden behind a computation without calls", "overlap_ialltoall"),
    overlap(
        "overlap-ialltoall-tested",
        "Ialltoall: hidden behind one with ten tests",
        "overlap_ialltoall_tested",
    ),
    left(
        "overlap-ialltoall-left",
        "Ialltoall: what is left beside ten tests",
        "overlap_ialltoall_left_tested",
    ),
    Row { id: "comm-dup", title: "MPI_Comm_dup, 2 ranks", result: Some("comm_dup"), ..MAKING },
    Row { id: "comm-split", title: "MPI_Comm_split, 2 ranks", result: Some("comm_split"), ..MAKING },
    Row { id: "comm-create", title: "MPI_Comm_create, 2 ranks", result: Some("comm_create"), ..MAKING },
    Row {
        id: "comm-dup-cost",
        title: "MPI_Comm_dup in times of a small allreduce, 2 ranks",
        result: Some("comm_dup_by_allreduce"),
        unit: Unit::Allreduces,
        gates: DUPLICATE,
        ..MAKING
    },
    Row {
        id: "cart-create",
        title: "MPI_Cart_create, reorder, 2 ranks",
        result: Some("cart_create"),
        gates: GRID,
        ..MAKING
    },
    Row {
        id: "comm-dup-8",
        title: "MPI_Comm_dup, 8 ranks on 2 cpus",
        result: Some("comm_dup"),
        ..MAKING_IN_A_CROWD
    },
    Row {
        id: "comm-split-8",
        title: "MPI_Comm_split, 8 ranks on 2 cpus",
        result: Some("comm_split"),
        ..MAKING_IN_A_CROWD
    },
    Row {
        id: "comm-create-8",
        title: "MPI_Comm_create, 8 ranks on 2 cpus",
        result: Some("comm_create"),
        ..MAKING_IN_A_CROWD
    },
    Row {
        id: "comm-dup-cost-8",
        title: "MPI_Comm_dup in times of a small allreduce, 8 ranks on 2 cpus",
        result: Some("comm_dup_by_allreduce"),
        unit: Unit::Allreduces,
        gates: DUPLICATE,
        ..MAKING_IN_A_CROWD
    },
    Row {
        id: "cart-create-8",
        title: "MPI_Cart_create, reorder, 8 ranks on 2 cpus",
        result: Some("cart_create"),
        gates: GRID,
        ..MAKING_IN_A_CROWD
    },
    Row { id: "group-range-incl", title: "MPI_Group_range_incl", result: Some("range_incl"), ..ALGEBRA },
    Row { id: "group-range-excl", title: "MPI_Group_range_excl", result: Some("range_excl"), ..ALGEBRA },
    Row { id: "group-incl", title: "MPI_Group_incl, shuffled", result: Some("incl"), ..ALGEBRA },
    Row { id: "group-union", title: "MPI_Group_union", result: Some("union"), ..ALGEBRA },
    Row { id: "group-difference", title: "MPI_Group_difference", result: Some("difference"), ..ALGEBRA },
    Row {
        id: "group-compare",
        title: "MPI_Group_compare of shuffled groups",
        result: Some("compare_shuffled"),
        ..ALGEBRA
    },
    Row {
        id: "group-translate",
        title: "MPI_Group_translate_ranks of a shuffled group",
        result: Some("translate_shuffled"),
        ..ALGEBRA
    },
    TCP_LATENCY,
    TCP_BANDWIDTH,
    Row {
        id: "tcp-latency-namespaces",
        title: "TCP between two network namespaces: half a round trip",
        way: Way::Namespaces,
        peers: BETWEEN_NAMESPACES,
        ..TCP_LATENCY
    },
    Row {
        id: "tcp-bandwidth-namespaces",
        title: "TCP between two network namespaces: bandwidth",
        way: Way::Namespaces,
        peers: BETWEEN_NAMESPACES,
        ..TCP_BANDWIDTH
    },
    LIBFABRIC_LATENCY,
    LIBFABRIC_BANDWIDTH,
    Row {
        id: "libfabric-shm-latency",
        title: "libfabric's shm: half a round trip",
        way: Way::Libfabric("libfabric:shm"),
        ..LIBFABRIC_LATENCY
    },
    Row {
        id: "libfabric-shm-bandwidth",
        title: "libfabric's shm: bandwidth",
        way: Way::Libfabric("libfabric:shm"),
        ..LIBFABRIC_BANDWIDTH
    },
    Row {
        id: "blocked-wake",
        title: "A rank blocked for 25 ms: from the send to its return",
        program: "blocked",
        arguments: &[],
        quick: &[],
        gates: &[gate("G13", 8, 8, Rule::Value(45.0))],
        shown: &[],
        rounds: 3,
        ..PAIR
    },
    Row {
        id: "blocked-cpu",
        title: "A rank blocked for 250 ms: what it uses of a cpu",
        program: "blocked",
        arguments: &[],
        quick: &[],
        unit: Unit::Cpu,
        gates: &[gate("G13", 8, 8, Rule::Value(1.0))],
        shown: &[],
        rounds: 3,
        ..PAIR
    },
    Row {
        id: "startup",
        title: "Launch, init, a little traffic, finalize",
        program: "startup",
        arguments: &[],
        quick: &[],
        ranks: &[2, 8, 32, 64],
        shared_cpus: true,
        unit: Unit::Launch,
        peers: ALL,
        gates: &[
            gate("G14", 2, 2, Rule::Best(0.25)),
            gate("G14", 32, 64, Rule::Best(0.25)),
            stretch("G14", 2, 64, Rule::Best(0.1)),
        ],
        shown: &[],
        rounds: 3,
        ..PAIR
    },
    Row {
        id: "memory",
        title: "Memory of a rank after init (PSS)",
        program: "startup",
        arguments: &[],
        quick: &[],
        ranks: &[2, 32],
        shared_cpus: true,
        unit: Unit::Memory,
        peers: ALL,
        gates: &[
            gate("G15", 2, 2, Rule::Best(0.5)),
            gate("G15", 32, 32, Rule::Best(0.5)),
            stretch("G15", 2, 2, Rule::Value(1.5)),
            stretch("G15", 32, 32, Rule::Value(1.0)),
        ],
        shown: &[],
        rounds: 3,
        ..PAIR
    },
];

/// The rows whose id is one of these or begins with one of these; an id in full selects itself only.
///
/// # Errors
/// When a word selects nothing.
pub fn select(only: &[String]) -> Result<Vec<&'static Row>, String> {
    let hits = |word: &str| -> Vec<&'static str> {
        let exact = ROWS.iter().filter(|row| row.id == word).map(|row| row.id).collect::<Vec<_>>();
        if !exact.is_empty() {
            return exact;
        }
        ROWS.iter().filter(|row| row.id.starts_with(word)).map(|row| row.id).collect()
    };
    if let Some(word) = only.iter().find(|word| hits(word).is_empty()) {
        let ids: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
        return Err(format!("no row is called {word}\n  there are {}", ids.join(", ")));
    }
    let wanted: Vec<&str> = only.iter().flat_map(|word| hits(word)).collect();
    Ok(ROWS.iter().filter(|row| only.is_empty() || wanted.contains(&row.id)).collect())
}
