/* Consistent: whether a collective operation ever takes longer than others that do its work and more, or than itself
 * with more to do. What is told is the quotient of two times, which should not be above 1:
 *   consistent_allreduce   an allreduce, by a reduce and a bcast
 *   consistent_bcast       a bcast, by a scatter and an allgather of slices
 *   consistent_barrier     a barrier, by an allreduce of the least size
 *   consistent_bytes       bcast, reduce and allreduce, by the same of twice the bytes: the worst of the three
 *   consistent_ranks       barrier, bcast, reduce and allreduce, by the same of twice the ranks (from two up to the whole
 *                          job, the first of it): the worst of all
 * and, of each size, the worst of all of these as `consistent`. Both times of a quotient are of the same block, in turns,
 * so that they saw the same weather. Ranks that a part of the job leaves out nap. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BARRIER, BCAST, REDUCE, ALLREDUCE, REDUCE_BCAST, SCATTER_ALLGATHER, OPERATIONS };
enum { SIZES_MAX = 32, PARTS_MAX = 10, NAP_NS = 200000, CALLS_UNTIMED = 50 };
static const double BLOCK_SECONDS = 1e-3;

/* The first ranks of the job: two, four, eight, and at last all. */
struct part {
    MPI_Comm comm;
    int size;
    /* Seconds of a call, by block, size and operation. */
    double (*times)[SIZES_MAX][OPERATIONS];
};

struct run {
    struct bench *bench;
    unsigned char *out, *in;
    struct part parts[PARTS_MAX];
    int parts_count, sizes_count;
    size_t sizes[SIZES_MAX];
    int calls[PARTS_MAX][SIZES_MAX][OPERATIONS];
};

/* ---- the operations ---- */

static void fill(struct run *run, int rank, size_t bytes, unsigned seed) {
    double *values = (double *)run->out;
    for (size_t at = 0; at < bytes / sizeof *values; at++) values[at] = bench_element(rank, at, seed);
    memset(run->in, 0xff, bytes);
}

/* One call, or two that do the work of one. The root changes with every turn, so that no rank runs ahead. */
static void call(struct run *run, const struct part *part, int operation, size_t bytes, int turn) {
    int root = turn % part->size, count = (int)(bytes / sizeof(double)), rank;
    int slice = (int)((bytes + (size_t)part->size - 1) / (size_t)part->size);
    MPI_Comm_rank(part->comm, &rank);
    switch (operation) {
    case BARRIER: MPI_Barrier(part->comm); break;
    case REDUCE: MPI_Reduce(run->out, run->in, count, MPI_DOUBLE, MPI_SUM, root, part->comm); break;
    case ALLREDUCE: MPI_Allreduce(run->out, run->in, count, MPI_DOUBLE, MPI_SUM, part->comm); break;
    case REDUCE_BCAST:
        MPI_Reduce(run->out, run->in, count, MPI_DOUBLE, MPI_SUM, root, part->comm);
        MPI_Bcast(run->in, count, MPI_DOUBLE, root, part->comm);
        break;
    case BCAST: MPI_Bcast(rank == root ? run->out : run->in, (int)bytes, MPI_BYTE, root, part->comm); break;
    case SCATTER_ALLGATHER: {
        unsigned char *mine = run->in + (size_t)rank * (size_t)slice;
        void *into = rank == root ? MPI_IN_PLACE : mine;
        /* The root's slice stands in its own vector; all gather from where they have it. */
        MPI_Scatter(run->out, slice, MPI_BYTE, into, slice, MPI_BYTE, root, part->comm);
        if (rank == root) memcpy(mine, run->out + (size_t)rank * (size_t)slice, (size_t)slice);
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, run->in, slice, MPI_BYTE, part->comm);
        break;
    }
    default: break;
    }
}

static void verify(struct run *run, const struct part *part, int operation, size_t bytes, unsigned seed, int last) {
    const double *got = (const double *)run->in;
    int root = last % part->size, rank, sums = operation != BCAST && operation != SCATTER_ALLGATHER;
    MPI_Comm_rank(part->comm, &rank);
    if (operation == BARRIER || (operation == REDUCE && rank != root) || (operation == BCAST && rank == root)) return;
    for (size_t at = 0; at < bytes / sizeof *got; at++) {
        double right = sums ? bench_sum(0, part->size - 1, at, seed) : bench_element(root, at, seed);
        if (got[at] == right) continue;
        bench_wrong(run->bench, sizeof *got, "an element is wrong");
        return;
    }
}

/* ---- the measurement ---- */

/* Seconds of a call at the slowest rank. The first calls are not timed: what was done before should not matter. */
static double block_of(struct run *run, const struct part *part, int operation, size_t bytes, int calls) {
    int first = calls < CALLS_UNTIMED ? calls : CALLS_UNTIMED;
    for (int turn = 0; turn < first; turn++) call(run, part, operation, bytes, turn);
    if (part->size == 2) bench_settle(run->bench);
    MPI_Barrier(part->comm);
    double begun = MPI_Wtime();
    for (int turn = 0; turn < calls; turn++) call(run, part, operation, bytes, turn);
    return bench_slowest((MPI_Wtime() - begun) / calls, part->comm);
}

/* A barrier has no size, so it is measured beside the least. */
static int is_measured(int operation, int size) {
    return operation != BARRIER || size == 0;
}

static void measure_block(struct run *run, int at, int block) {
    struct part *part = &run->parts[at];
    int rank;
    MPI_Comm_rank(part->comm, &rank);
    for (int size = 0; size < run->sizes_count; size++) {
        size_t bytes = run->sizes[size];
        for (int operation = 0; operation < OPERATIONS; operation++) {
            int *calls = &run->calls[at][size][operation];
            if (!is_measured(operation, size)) continue;
            fill(run, rank, bytes, (unsigned)block);
            if (block < 0) {
                /* The second trial is warm, and says how many calls a block has room for. */
                block_of(run, part, operation, bytes, 2);
                double seconds = block_of(run, part, operation, bytes, 2);
                double fitting = seconds > 0 ? BLOCK_SECONDS / seconds : 1e9;
                int most = bench_block_operations(run->bench, bytes);
                *calls = fitting < 1 ? 1 : fitting < most ? (int)fitting : most;
                continue;
            }
            part->times[block][size][operation] = block_of(run, part, operation, bytes, *calls);
            if (run->bench->options.validate) verify(run, part, operation, bytes, (unsigned)block, *calls - 1);
        }
    }
}

/* Waits for all without keeping a cpu from those who measure. */
static void nap_until_all_are_here(void) {
    MPI_Request request;
    int over = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &over, MPI_STATUS_IGNORE); !over; MPI_Test(&request, &over, MPI_STATUS_IGNORE))
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static void measure(struct run *run) {
    for (int block = -1; block < BLOCKS; block++)
        for (int at = 0; at < run->parts_count; at++) {
            if (run->parts[at].comm != MPI_COMM_NULL) measure_block(run, at, block);
            nap_until_all_are_here();
        }
}

/* ---- the quotients ---- */

/* Two times, the first of which should not be the longer one. */
struct pair {
    const struct part *less_part, *more_part;
    int less, more, less_size, more_size;
};

/* Keeps the quotients of the worst pair so far. */
static void weigh(struct pair pair, double *worst) {
    double samples[BLOCKS];
    for (int block = 0; block < BLOCKS; block++)
        samples[block] = pair.less_part->times[block][pair.less_size][pair.less] /
                         pair.more_part->times[block][pair.more_size][pair.more];
    if (bench_median(samples) > bench_median(worst)) memcpy(worst, samples, sizeof samples);
}

enum rule { BY_REDUCE_BCAST, BY_SCATTER_ALLGATHER, BY_ALLREDUCE, BY_BYTES, BY_RANKS, RULES };
static const char *const NAMES[RULES] = {"consistent_allreduce", "consistent_bcast", "consistent_barrier",
                                         "consistent_bytes", "consistent_ranks"};

/* The worst quotient of a rule at a size; 0 where the rule says nothing there. */
static void apply(const struct run *run, int rule, int size, double *worst) {
    const struct part *all = &run->parts[run->parts_count - 1];
    if (rule == BY_REDUCE_BCAST) weigh((struct pair){all, all, ALLREDUCE, REDUCE_BCAST, size, size}, worst);
    if (rule == BY_SCATTER_ALLGATHER) weigh((struct pair){all, all, BCAST, SCATTER_ALLGATHER, size, size}, worst);
    if (rule == BY_ALLREDUCE && size == 0) weigh((struct pair){all, all, BARRIER, ALLREDUCE, 0, 0}, worst);
    for (int operation = BCAST; rule == BY_BYTES && size + 1 < run->sizes_count && operation <= ALLREDUCE; operation++)
        weigh((struct pair){all, all, operation, operation, size, size + 1}, worst);
    for (int at = 0; rule == BY_RANKS && at + 1 < run->parts_count; at++)
        for (int operation = size == 0 ? BARRIER : BCAST; operation <= ALLREDUCE; operation++)
            weigh((struct pair){&run->parts[at], &run->parts[at + 1], operation, operation, size, size}, worst);
}

static void tell(struct run *run) {
    static double worst[SIZES_MAX][BLOCKS], samples[BLOCKS];
    for (int rule = 0; rule < RULES; rule++) {
        run->bench->name = NAMES[rule];
        bench_heading(run->bench, TIMES);
        for (int size = 0; size < run->sizes_count; size++) {
            memset(samples, 0, sizeof samples);
            apply(run, rule, size, samples);
            if (bench_median(samples) > bench_median(worst[size])) memcpy(worst[size], samples, sizeof samples);
            if (bench_median(samples) > 0) bench_row(run->bench, TIMES, run->sizes[size], samples, 0, 0);
        }
    }
    run->bench->name = "consistent";
    bench_heading(run->bench, TIMES);
    for (int size = 0; size < run->sizes_count; size++) bench_row(run->bench, TIMES, run->sizes[size], worst[size], 0, 0);
}

/* ---- opening and closing ---- */

static void open_part(struct run *run, int size) {
    struct part *part = &run->parts[run->parts_count++];
    int rank = run->bench->rank;
    part->size = size;
    part->times = calloc(BLOCKS, sizeof *part->times);
    if (part->times == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_split(MPI_COMM_WORLD, rank < size ? 0 : MPI_UNDEFINED, rank, &part->comm);
}

static void open_run(struct run *run, struct bench *bench) {
    size_t bytes = bench->options.bytes_min;
    *run = (struct run){.bench = bench};
    for (; bytes <= bench->options.bytes_max && run->sizes_count < SIZES_MAX; bytes = bench_next(bytes))
        run->sizes[run->sizes_count++] = bytes;
    /* Slices that do not come out even stand a little beyond. */
    size_t room = bench->options.bytes_max + (size_t)bench->size * sizeof(double);
    run->out = bench_buffer(room);
    run->in = bench_buffer(room);
    for (int size = 2; size < bench->size && run->parts_count + 1 < PARTS_MAX; size *= 2) open_part(run, size);
    open_part(run, bench->size);
}

static void close_run(struct run *run) {
    for (int at = 0; at < run->parts_count; at++) {
        free(run->parts[at].times);
        if (run->parts[at].comm != MPI_COMM_NULL) MPI_Comm_free(&run->parts[at].comm);
    }
    free(run->out);
    free(run->in);
}

int main(int argc, char **argv) {
    struct bench bench;
    static struct run run;
    bench_open(&bench, "consistent", argc, argv, sizeof(double), 1u << 20, 2);
    if (bench.options.bytes_min < sizeof(double)) bench.options.bytes_min = sizeof(double);
    open_run(&run, &bench);
    measure(&run);
    if (bench.rank == 0) tell(&run);
    close_run(&run);
    return bench_close(&bench);
}
