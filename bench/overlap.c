/* Overlap: how much of a nonblocking collective operation goes on while the program computes. A computation of about the
 * length of the operation stands between its call and its wait; what the two take together says how much of the
 * operation was hidden behind the computation:
 *     overlap = 100 * (1 - (together - computation) / operation)
 * 0 where nothing of it was, 100 where all of it was; and `left`, what it still takes beside the computation, in
 * microseconds: an operation that is quick has little to hide. Told twice: where the program makes no call of MPI while it
 * computes, and where it tests the request now and then (`--tests` times), which counts as a part of the operation. The
 * times are means over the ranks. The size is what a rank gives to each other one (ialltoall), to all (iallgather), or
 * has in its vector. */
#include "bench.h"

#include <stdio.h>

/* An operation, its buffers, and how to see that it was done. */
struct operation {
    const char *name;
    int sized;                 /* has bytes */
    void (*begin)(struct bench *, unsigned char *out, unsigned char *in, size_t bytes, int turn, MPI_Request *);
    void (*prepare)(struct bench *, unsigned char *out, unsigned char *in, size_t bytes, unsigned seed);
    void (*verify)(struct bench *, unsigned char *in, size_t bytes, unsigned seed);
};

/* ---- the operations ---- */

static unsigned seed_of(unsigned seed, int from, int to) {
    return seed * 4099 + (unsigned)from * 67 + (unsigned)to;
}

static void begin_barrier(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int turn,
                          MPI_Request *request) {
    (void)bench, (void)out, (void)in, (void)bytes, (void)turn;
    MPI_Ibarrier(MPI_COMM_WORLD, request);
}

static void prepare_nothing(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, unsigned seed) {
    (void)bench, (void)out, (void)in, (void)bytes, (void)seed;
}

static void verify_nothing(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed) {
    (void)bench, (void)in, (void)bytes, (void)seed;
}

/* Every rank is the root in its turn, and has a block that it gives and one for each that it gets. */
static void begin_bcast(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int turn,
                        MPI_Request *request) {
    int root = turn % bench->size;
    unsigned char *buffer = bench->rank == root ? out : in + (size_t)root * bytes;
    MPI_Ibcast(buffer, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD, request);
}

static void begin_allgather(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int turn,
                            MPI_Request *request) {
    (void)bench, (void)turn;
    MPI_Iallgather(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD, request);
}

static void prepare_one_for_all(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes,
                                unsigned seed) {
    bench_fill(out, bytes, seed_of(seed, bench->rank, 0));
    for (int from = 0; from < bench->size; from++)
        bench_spoil(in + (size_t)from * bytes, bytes, seed_of(seed, from, 0));
}

static void verify_bcast(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed) {
    for (int from = 0; from < bench->size; from++)
        if (from != bench->rank) bench_verify(bench, in + (size_t)from * bytes, bytes, seed_of(seed, from, 0));
}

static void verify_allgather(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed) {
    for (int from = 0; from < bench->size; from++)
        bench_verify(bench, in + (size_t)from * bytes, bytes, seed_of(seed, from, 0));
}

static void begin_alltoall(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int turn,
                           MPI_Request *request) {
    (void)bench, (void)turn;
    MPI_Ialltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD, request);
}

static void prepare_alltoall(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, unsigned seed) {
    for (int other = 0; other < bench->size; other++) {
        bench_fill(out + (size_t)other * bytes, bytes, seed_of(seed, bench->rank, other));
        bench_spoil(in + (size_t)other * bytes, bytes, seed_of(seed, other, bench->rank));
    }
}

static void verify_alltoall(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed) {
    for (int from = 0; from < bench->size; from++)
        bench_verify(bench, in + (size_t)from * bytes, bytes, seed_of(seed, from, bench->rank));
}

static void begin_allreduce(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int turn,
                            MPI_Request *request) {
    (void)bench, (void)turn;
    MPI_Iallreduce(out, in, (int)(bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, request);
}

static void prepare_allreduce(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes,
                              unsigned seed) {
    bench_fill_elements(bench, out, in, bytes / sizeof(double), seed);
}

static void verify_allreduce(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed) {
    bench_verify_sums(bench, in, bytes / sizeof(double), 0, 0, bench->size - 1, seed);
}

static const struct operation OPERATIONS[] = {
    {"overlap_ibarrier", 0, begin_barrier, prepare_nothing, verify_nothing},
    {"overlap_ibcast", 1, begin_bcast, prepare_one_for_all, verify_bcast},
    {"overlap_iallreduce", 1, begin_allreduce, prepare_allreduce, verify_allreduce},
    {"overlap_iallgather", 1, begin_allgather, prepare_one_for_all, verify_allgather},
    {"overlap_ialltoall", 1, begin_alltoall, prepare_alltoall, verify_alltoall},
};
enum { OPERATIONS_COUNT = sizeof OPERATIONS / sizeof *OPERATIONS };

/* ---- the computation ---- */

static volatile double result;

/* Multiplications that wait for each other, so that all take the same time. */
static void compute(long units) {
    double value = result;
    for (long unit = 0; unit < units; unit++)
        for (int step = 0; step < 8; step++) value = value * 0.999 + 1e-3;
    result = value;
}

/* How many units take so long, by the quickest of a few trials. */
static long units_of(double seconds) {
    enum { TRIALS = 5, UNITS = 2000 };
    double least = 1;
    for (int trial = 0; trial < TRIALS; trial++) {
        double begun = MPI_Wtime();
        compute(UNITS);
        double took = MPI_Wtime() - begun;
        if (took < least) least = took;
    }
    long units = (long)(seconds / (least / UNITS));
    return units < 1 ? 1 : units;
}

/* ---- the measurement ---- */

/* Seconds of one operation on this rank, or means over all of them. */
struct times {
    double operation, computation, together, tested;
};

struct run {
    struct bench *bench;
    const struct operation *operation;
    unsigned char *out, *in;
    size_t bytes;
    int turn;
};

/* The operation with a computation of so many units in so many slices behind it, after each but the last of which the
 * request is tested. */
static double take(struct run *run, long units, int slices) {
    MPI_Request request;
    int over = 0;
    bench_settle(run->bench);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    run->operation->begin(run->bench, run->out, run->in, run->bytes, run->turn, &request);
    for (int slice = 0; slice < slices; slice++) {
        compute(units * (slice + 1) / slices - units * slice / slices);
        if (slice + 1 < slices && !over) MPI_Test(&request, &over, MPI_STATUS_IGNORE);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return MPI_Wtime() - begun;
}

static double take_computation(long units) {
    double begun = MPI_Wtime();
    compute(units);
    return MPI_Wtime() - begun;
}

/* A block: all four in turn, so that all see the same weather. Each rank is the root as often as the others. */
static struct times block_of(struct run *run, int calls, long units, int slices) {
    struct times mine = {0}, all;
    for (int call = 0; call < calls; call++) {
        run->turn = call;
        mine.operation += take(run, 0, 0);
        mine.computation += take_computation(units);
        mine.together += take(run, units, 1);
        mine.tested += take(run, units, slices);
    }
    MPI_Allreduce(&mine, &all, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double each = 1.0 / calls / run->bench->size;
    return (struct times){all.operation * each, all.computation * each, all.together * each, all.tested * each};
}

static double overlap(const struct times *times, double together) {
    double percent = 100 * (1 - (together - times->computation) / times->operation);
    return percent < 0 ? 0 : percent > 100 ? 100 : percent;
}

static int calls_of(const struct bench *bench, size_t bytes) {
    int calls = bench_block_operations(bench, bytes);
    return (calls + bench->size - 1) / bench->size * bench->size;
}

/* What is told of each size, and how the results are called after the operation. */
enum { PLAIN, TESTED, LEFT, LEFT_TESTED, ALONE, RESULTS };
static const char *const SUFFIXES[RESULTS] = {"", "_tested", "_left", "_left_tested", "_alone"};
enum { SIZES_MAX = 32 };

static void measure(struct run *run, double (*samples)[SIZES_MAX][BLOCKS], int size) {
    struct bench *bench = run->bench;
    int calls = calls_of(bench, run->bytes), slices = bench->options.tests + 1;
    run->operation->prepare(bench, run->out, run->in, run->bytes, 0);
    struct times times = block_of(run, calls, 1, slices);
    for (int block = 0; block < BLOCKS; block++) {
        run->operation->prepare(bench, run->out, run->in, run->bytes, (unsigned)block + 1);
        /* The computation is as long as the operation was in the block before. */
        times = block_of(run, calls, units_of(times.operation), slices);
        samples[PLAIN][size][block] = overlap(&times, times.together);
        samples[TESTED][size][block] = overlap(&times, times.tested);
        samples[LEFT][size][block] = times.together - times.computation;
        samples[LEFT_TESTED][size][block] = times.tested - times.computation;
        samples[ALONE][size][block] = times.operation;
        if (bench->options.validate) run->operation->verify(bench, run->in, run->bytes, (unsigned)block + 1);
    }
}

static void tell(struct bench *bench, const char *name, int result, size_t bytes, double (*samples)[BLOCKS], int sizes) {
    static char full[64];
    enum unit unit = result <= TESTED ? PERCENT : MICROSECONDS;
    snprintf(full, sizeof full, "%s%s", name, SUFFIXES[result]);
    bench->name = full;
    bench_heading(bench, unit);
    for (int size = 0; size < sizes; size++, bytes = bench_next(bytes))
        bench_row(bench, unit, bytes, samples[size], (double)bytes, 1);
}

static void measure_all(struct run *run) {
    static double samples[RESULTS][SIZES_MAX][BLOCKS];
    const struct operation *operation = run->operation;
    size_t first = operation->sized ? run->bench->options.bytes_min : 0;
    size_t last = operation->sized ? run->bench->options.bytes_max : 0;
    int sizes = 0;
    for (size_t bytes = first; bytes <= last && sizes < SIZES_MAX; bytes = bench_next(bytes), sizes++) {
        run->bytes = bytes;
        measure(run, samples, sizes);
    }
    for (int result = 0; result < RESULTS; result++)
        tell(run->bench, operation->name, result, first, samples[result], sizes);
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "overlap", argc, argv, 8, 1u << 20, 1);
    if (bench.options.bytes_min < sizeof(double)) bench.options.bytes_min = sizeof(double);
    size_t room = bench.options.bytes_max * (size_t)bench.size;
    struct run run = {.bench = &bench, .out = bench_buffer(room), .in = bench_buffer(room)};
    for (int at = 0; at < OPERATIONS_COUNT; at++) {
        run.operation = &OPERATIONS[at];
        measure_all(&run);
    }
    return bench_close(&bench);
}
