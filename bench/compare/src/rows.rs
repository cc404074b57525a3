//! What is measured: one table of rows, and what each row must reach.
//!
//! The letters of the gates (G1, G2, ...) are those of `docs/generated/performance.md`. A gate compares weft
//! with the best peer, or with a floor: what the machine does with no library between.

mod templates;

use self::templates::{
    ALGEBRA, ALL, BETWEEN_NAMESPACES, CALL, COLLECTIVES, CONSISTENT, CROWD, CROWD_ALLREDUCE, CROWD_CALL,
    DUPLICATE, FRESH, G6, G9, G12, GRID, HALO, IN_CACHE, K, LARGE, LIBFABRIC_BANDWIDTH, LIBFABRIC_LATENCY,
    LISTED, M, MAKING, MAKING_IN_A_CROWD, NEARLY, ONE_SIDED, ONE_SIDED_BANDWIDTH, PAIR, TCP_BANDWIDTH,
    TCP_LATENCY, THREADS, left, overlap,
};
use super::contestant::Way;
use super::row::{Floor, Row, Rule, Unit, floor, gate, stretch};

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
        id: "put",
        title: "Put and flush",
        result: Some("put_flush"),
        gates: &[gate("one-sided", 8, 8, Rule::Best(0.5))],
        ..ONE_SIDED
    },
    Row {
        id: "put-lock",
        title: "Lock, put and unlock",
        result: Some("put_lock"),
        gates: &[gate("one-sided", 8, 8, Rule::Best(0.6))],
        ..ONE_SIDED
    },
    Row {
        id: "put-fence",
        title: "Put and fence",
        result: Some("put_fence"),
        gates: &[gate("one-sided", 8, 8, Rule::Best(0.8))],
        ..ONE_SIDED
    },
    Row { id: "put-post", title: "Put, start to complete", result: Some("put_post_start"), ..ONE_SIDED },
    Row {
        id: "put-created",
        title: "Put and flush, window of MPI_Win_create",
        result: Some("put_created_flush"),
        ..ONE_SIDED
    },
    Row {
        id: "put-bandwidth",
        title: "Bandwidth of puts",
        result: Some("put_bandwidth"),
        ..ONE_SIDED_BANDWIDTH
    },
    Row {
        id: "get",
        title: "Get and flush",
        result: Some("get_flush"),
        gates: &[gate("one-sided", 8, 8, Rule::Best(0.5))],
        ..ONE_SIDED
    },
    Row {
        id: "get-bandwidth",
        title: "Bandwidth of gets",
        result: Some("get_bandwidth"),
        ..ONE_SIDED_BANDWIDTH
    },
    Row { id: "accumulate", title: "Accumulate and flush", result: Some("accumulate_flush"), ..ONE_SIDED },
    Row {
        id: "fetch-and-op",
        title: "Fetch_and_op and flush",
        result: Some("fetch_and_op_flush"),
        gates: &[gate("one-sided", 8, 8, Rule::Best(0.5))],
        ..ONE_SIDED
    },
    Row {
        id: "compare-and-swap",
        title: "Compare_and_swap and flush",
        result: Some("compare_and_swap_flush"),
        gates: &[gate("one-sided", 8, 8, Rule::Best(0.5))],
        ..ONE_SIDED
    },
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
