/* One-sided communication: in each pair of ranks the even one puts to, gets from and changes memory of the odd one.
 * A series for each operation and each synchronization; a time is that of one operation with its synchronization,
 * a rate that of a window of operations with one flush. The slowest pair counts; a last rank without a partner waits. */
#include "bench.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WORLD MPI_COMM_WORLD

typedef unsigned char byte;

enum operation { PUT, GET, ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP };
enum synchronization { FLUSH, FLUSH_LOCAL, LOCK, FENCE, POST_START };
enum { TARGET = 1 };

static const struct series {
    const char *name;
    enum operation operation;
    enum synchronization synchronization;
    int created; /* MPI_Win_create in place of MPI_Win_allocate */
    int rate;    /* a window of operations at a time */
} SERIES[] = {
    {"put_flush", PUT, FLUSH, 0, 0},
    {"put_flush_local", PUT, FLUSH_LOCAL, 0, 0},
    {"put_lock", PUT, LOCK, 0, 0},
    {"put_fence", PUT, FENCE, 0, 0},
    {"put_post_start", PUT, POST_START, 0, 0},
    {"put_created_flush", PUT, FLUSH, 1, 0},
    {"put_bandwidth", PUT, FLUSH, 0, 1},
    {"get_flush", GET, FLUSH, 0, 0},
    {"get_lock", GET, LOCK, 0, 0},
    {"get_fence", GET, FENCE, 0, 0},
    {"get_post_start", GET, POST_START, 0, 0},
    {"get_created_flush", GET, FLUSH, 1, 0},
    {"get_bandwidth", GET, FLUSH, 0, 1},
    {"accumulate_flush", ACCUMULATE, FLUSH, 0, 0},
    {"accumulate_lock", ACCUMULATE, LOCK, 0, 0},
    {"accumulate_created_flush", ACCUMULATE, FLUSH, 1, 0},
    {"fetch_and_op_flush", FETCH_AND_OP, FLUSH, 0, 0},
    {"compare_and_swap_flush", COMPARE_AND_SWAP, FLUSH, 0, 0},
};

/* The two ranks of a pair, in a communicator of their own. */
struct pair {
    struct bench *bench;
    const struct series *series;
    MPI_Comm comm;
    MPI_Group other;
    int rank, is_alone;
    MPI_Win win;
    byte *memory; /* the target's window memory */
    byte *local;  /* the origin's buffer */
    int64_t next; /* what the next counting operation is to find */
};

static void operate(struct pair *pair, size_t bytes, size_t offset) {
    byte *local = pair->local + offset;
    MPI_Aint at = (MPI_Aint)offset;
    switch (pair->series->operation) {
    case PUT: MPI_Put(local, (int)bytes, MPI_BYTE, TARGET, at, (int)bytes, MPI_BYTE, pair->win); break;
    case GET: MPI_Get(local, (int)bytes, MPI_BYTE, TARGET, at, (int)bytes, MPI_BYTE, pair->win); break;
    case ACCUMULATE: {
        int count = (int)(bytes / sizeof(double));
        MPI_Accumulate(local, count, MPI_DOUBLE, TARGET, at, count, MPI_DOUBLE, MPI_SUM, pair->win);
        break;
    }
    default: break;
    }
}

/* An operation on one counter, which must find it as the one before has left it. */
static void count_one(struct pair *pair) {
    int64_t one = 1, after = pair->next + 1, found = -1;
    if (pair->series->operation == FETCH_AND_OP) MPI_Fetch_and_op(&one, &found, MPI_INT64_T, TARGET, 0, MPI_SUM, pair->win);
    else MPI_Compare_and_swap(&after, &pair->next, &found, MPI_INT64_T, TARGET, 0, pair->win);
    MPI_Win_flush(TARGET, pair->win);
    if (found != pair->next) bench_wrong(pair->bench, sizeof found, "a counter was not as it had been left");
    pair->next = after;
}

/* One operation at the origin, with its synchronization. */
static void access_once(struct pair *pair, size_t bytes) {
    switch (pair->series->synchronization) {
    case FLUSH: operate(pair, bytes, 0), MPI_Win_flush(TARGET, pair->win); break;
    case FLUSH_LOCAL: operate(pair, bytes, 0), MPI_Win_flush_local(TARGET, pair->win); break;
    case LOCK:
        MPI_Win_lock(MPI_LOCK_SHARED, TARGET, 0, pair->win);
        operate(pair, bytes, 0);
        MPI_Win_unlock(TARGET, pair->win);
        break;
    case FENCE: operate(pair, bytes, 0), MPI_Win_fence(0, pair->win); break;
    case POST_START:
        MPI_Win_start(pair->other, 0, pair->win);
        operate(pair, bytes, 0);
        MPI_Win_complete(pair->win);
        break;
    }
}

/* What the target does meanwhile. */
static void expose_once(struct pair *pair) {
    if (pair->series->synchronization == FENCE) MPI_Win_fence(0, pair->win);
    if (pair->series->synchronization == POST_START) MPI_Win_post(pair->other, 0, pair->win), MPI_Win_wait(pair->win);
}

static void step(struct pair *pair, size_t bytes) {
    if (pair->rank == TARGET) {
        expose_once(pair);
    } else if (pair->series->operation >= FETCH_AND_OP) {
        count_one(pair);
    } else if (pair->series->rate) {
        int window = bench_window(pair->bench, bytes);
        for (int i = 0; i < window; i++) operate(pair, bytes, (size_t)i * bytes);
        MPI_Win_flush(TARGET, pair->win);
    } else {
        access_once(pair, bytes);
    }
}

/* Epochs that last as long as the block does. */
static void open_block(struct pair *pair) {
    int is_flushed = pair->series->synchronization == FLUSH || pair->series->synchronization == FLUSH_LOCAL;
    if (is_flushed && pair->rank != TARGET) MPI_Win_lock(MPI_LOCK_SHARED, TARGET, 0, pair->win);
    if (pair->series->synchronization == FENCE) MPI_Win_fence(MPI_MODE_NOPRECEDE, pair->win);
}

static void close_block(struct pair *pair) {
    int is_flushed = pair->series->synchronization == FLUSH || pair->series->synchronization == FLUSH_LOCAL;
    if (is_flushed && pair->rank != TARGET) MPI_Win_unlock(TARGET, pair->win);
    if (pair->series->synchronization == FENCE) MPI_Win_fence(MPI_MODE_NOSUCCEED, pair->win);
}

/* Fills the buffer that is read, and spoils the one that is written. */
static void prepare(struct pair *pair, size_t bytes, unsigned seed) {
    int writes = pair->series->operation != GET;
    byte *mine = pair->rank == TARGET ? pair->memory : pair->local;
    if (pair->series->operation == ACCUMULATE) {
        double *elements = (double *)mine;
        for (size_t i = 0; i < bytes / sizeof(double); i++)
            elements[i] = pair->rank == TARGET ? 0 : bench_element(0, i, seed);
    } else if (pair->series->operation >= FETCH_AND_OP) {
        if (pair->rank == TARGET) memset(mine, 0, sizeof(int64_t));
        pair->next = 0;
    } else if (writes == (pair->rank != TARGET)) {
        bench_fill(mine, bytes, seed);
    } else {
        bench_spoil(mine, bytes, seed);
    }
}

static void verify(struct pair *pair, size_t bytes, unsigned seed, int operations) {
    if (!pair->bench->options.validate) return;
    if (pair->series->operation == PUT && pair->rank == TARGET) bench_verify(pair->bench, pair->memory, bytes, seed);
    if (pair->series->operation == GET && pair->rank != TARGET) bench_verify(pair->bench, pair->local, bytes, seed);
    if (pair->series->operation == ACCUMULATE && pair->rank == TARGET) {
        const double *sums = (const double *)pair->memory;
        size_t wrong = 0;
        for (size_t i = 0; i < bytes / sizeof(double); i++) wrong += sums[i] != operations * bench_element(0, i, seed);
        if (wrong > 0) bench_wrong(pair->bench, wrong * sizeof(double), "a sum was wrong");
    }
}

static double block(struct pair *pair, size_t bytes, int number) {
    int operations = bench_block_operations(pair->bench, bytes);
    int copies = pair->series->rate ? bench_window(pair->bench, bytes) : 1;
    double seconds = 0;
    if (!pair->is_alone) prepare(pair, bytes * (size_t)copies, (unsigned)number);
    MPI_Barrier(WORLD);
    if (!pair->is_alone) {
        open_block(pair);
        double start = MPI_Wtime();
        for (int i = 0; i < operations; i++) step(pair, bytes);
        if (pair->rank != TARGET) seconds = MPI_Wtime() - start;
        close_block(pair);
    }
    MPI_Barrier(WORLD);
    if (!pair->is_alone) verify(pair, bytes * (size_t)copies, (unsigned)number, operations);
    return bench_slowest(seconds, WORLD) / operations;
}

static void open_window(struct pair *pair, size_t bytes, byte *own) {
    if (pair->series->created) {
        pair->memory = own;
        MPI_Win_create(own, (MPI_Aint)bytes, 1, MPI_INFO_NULL, pair->comm, &pair->win);
    } else {
        MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, pair->comm, &pair->memory, &pair->win);
        memset(pair->memory, 0, bytes);
    }
}

static void sweep(struct pair *pair, size_t least) {
    struct bench *bench = pair->bench;
    double samples[BLOCKS];
    int is_counter = pair->series->operation >= FETCH_AND_OP;
    enum unit unit = pair->series->rate ? MEGABYTES_PER_SECOND : MICROSECONDS;
    bench->name = pair->series->name;
    bench_heading(bench, unit);
    for (size_t bytes = least; bytes <= (is_counter ? least : bench->options.bytes_max); bytes = bench_next(bytes)) {
        size_t copies = pair->series->rate ? (size_t)bench_window(bench, bytes) : 1;
        block(pair, bytes, 0);
        for (int i = 0; i < BLOCKS; i++) samples[i] = block(pair, bytes, i);
        bench_row(bench, unit, bytes, samples, (double)(bytes * copies * (size_t)(bench->size / 2)), (double)copies);
    }
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "one_sided", argc, argv, 8, 1u << 20, 2);
    struct pair pair = {.bench = &bench};
    MPI_Comm_split(WORLD, bench.rank / 2, bench.rank, &pair.comm);
    int size;
    MPI_Comm_rank(pair.comm, &pair.rank);
    MPI_Comm_size(pair.comm, &size);
    pair.is_alone = size == 1;
    MPI_Group both;
    MPI_Comm_group(pair.comm, &both);
    int other = 1 - pair.rank;
    MPI_Group_incl(both, pair.is_alone ? 0 : 1, &other, &pair.other);
    MPI_Group_free(&both);
    /* Elements are doubles, and counters have eight bytes. */
    size_t least = bench.options.bytes_min < sizeof(double) ? sizeof(double) : bench.options.bytes_min;
    size_t bytes = bench.options.window_bytes > bench.options.bytes_max ? bench.options.window_bytes : bench.options.bytes_max;
    if (bytes < 2 * bench.options.bytes_max) bytes = 2 * bench.options.bytes_max; /* a window has two slots at least */
    byte *own = bench_buffer(bytes);
    pair.local = bench_buffer(bytes);
    for (size_t at = 0; at < sizeof SERIES / sizeof *SERIES; at++) {
        pair.series = &SERIES[at];
        open_window(&pair, bytes, own);
        sweep(&pair, least);
        MPI_Win_free(&pair.win);
    }
    MPI_Group_free(&pair.other);
    MPI_Comm_free(&pair.comm);
    free(own);
    free(pair.local);
    return bench_close(&bench);
}
