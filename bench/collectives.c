/* The collective operations that have no program of their own, one after the other, each with its own result. The size is
 * that of one block, which is what one rank gives to one other; in the operations with lists of lengths every second rank's
 * block is half as long, so theirs begin at 16 bytes. Roots change with every call, so that no rank runs ahead; in scans, whose
 * data goes one way, the first ranks may. Sums are of doubles. */
#include "bench.h"

#include <stdlib.h>

typedef unsigned char byte;

/* Lists of lengths and places, in bytes and in elements, for the size that is measured. */
static int *lengths, *places, *elements;

static int last_root(const struct bench *bench, size_t bytes) {
    return (bench_block_operations(bench, bytes) - 1) % bench->size;
}

static int listed_length(int rank, size_t bytes) {
    size_t half = bytes / 2 / sizeof(double) * sizeof(double);
    return (int)(rank % 2 == 0 ? bytes : half);
}

static void make_lists(const struct bench *bench, size_t bytes) {
    for (int rank = 0; rank < bench->size; rank++) {
        lengths[rank] = listed_length(rank, bytes);
        places[rank] = rank * (int)bytes;
        elements[rank] = lengths[rank] / (int)sizeof(double);
    }
}

/* ---- operations that move blocks ---- */

static unsigned block_seed(int from, int to, unsigned seed) { return seed * 4099 + (unsigned)from * 67 + (unsigned)to; }

/* Which block stands at `at` of what comes in, as (from, to); from is negative where nothing comes to this rank. */
struct way {
    int from, to;
};
typedef struct way expected(const struct bench *bench, int at, int root);

static struct way to_all(const struct bench *bench, int at, int root) {
    (void)bench, (void)root;
    return (struct way){at, 0};
}

static struct way to_root(const struct bench *bench, int at, int root) {
    return (struct way){bench->rank == root ? at : -1, 0};
}

static struct way from_root(const struct bench *bench, int at, int root) {
    return (struct way){at == 0 ? root : -1, bench->rank};
}

static struct way to_each(const struct bench *bench, int at, int root) {
    (void)root;
    return (struct way){at, bench->rank};
}

/* How long the block at `at` is: that of its sender, its receiver, or all the same. */
enum lengths_of { ALL_ALIKE, OF_SENDER, OF_RECEIVER };

static int block_length(const struct way *way, enum lengths_of of, size_t bytes) {
    return of == ALL_ALIKE ? (int)bytes : listed_length(of == OF_SENDER ? way->from : way->to, bytes);
}

static void prepare_blocks(struct bench *bench, byte *out, byte *in, size_t bytes, unsigned seed, expected *expected,
                           enum lengths_of of) {
    int root = last_root(bench, bytes);
    make_lists(bench, bytes);
    for (int at = 0; at < bench->size; at++) {
        struct way way = expected(bench, at, root);
        bench_fill(out + (size_t)at * bytes, bytes, block_seed(bench->rank, at, seed));
        if (way.from >= 0)
            bench_spoil(in + (size_t)at * bytes, (size_t)block_length(&way, of, bytes), block_seed(way.from, way.to, seed));
    }
}

static void verify_blocks(struct bench *bench, byte *in, size_t bytes, unsigned seed, int last, expected *expected,
                          enum lengths_of of) {
    for (int at = 0; at < bench->size; at++) {
        struct way way = expected(bench, at, last % bench->size);
        if (way.from < 0) continue;
        bench_verify(bench, in + (size_t)at * bytes, (size_t)block_length(&way, of, bytes),
                     block_seed(way.from, way.to, seed));
    }
}

#define MOVES(name, expected, of, ...) \
    static void name##_prepare(struct bench *bench, byte *out, byte *in, size_t bytes, unsigned seed) { \
        prepare_blocks(bench, out, in, bytes, seed, expected, of); \
    } \
    static void name##_call(struct bench *bench, byte *out, byte *in, size_t bytes, int operation) { \
        int root = operation % bench->size, rank = bench->rank, length = (int)bytes; \
        (void)root, (void)rank, (void)length; \
        __VA_ARGS__; \
    } \
    static void name##_verify(struct bench *bench, byte *in, size_t bytes, unsigned seed, int last) { \
        verify_blocks(bench, in, bytes, seed, last, expected, of); \
    }

#define WORLD MPI_COMM_WORLD
MOVES(gather, to_root, ALL_ALIKE, MPI_Gather(out, length, MPI_BYTE, in, length, MPI_BYTE, root, WORLD))
MOVES(gatherv, to_root, OF_SENDER,
      MPI_Gatherv(out, lengths[rank], MPI_BYTE, in, lengths, places, MPI_BYTE, root, WORLD))
MOVES(scatter, from_root, ALL_ALIKE, MPI_Scatter(out, length, MPI_BYTE, in, length, MPI_BYTE, root, WORLD))
MOVES(scatterv, from_root, OF_RECEIVER,
      MPI_Scatterv(out, lengths, places, MPI_BYTE, in, lengths[rank], MPI_BYTE, root, WORLD))
MOVES(allgatherv, to_all, OF_SENDER,
      MPI_Allgatherv(out, lengths[rank], MPI_BYTE, in, lengths, places, MPI_BYTE, WORLD))
/* The pair's length is that of both sides' lists: all that even ranks get is whole, all that odd ranks get is half. */
static int *alike;
MOVES(alltoallv, to_each, OF_RECEIVER, {
    for (int from = 0; from < bench->size; from++) alike[from] = lengths[rank];
    MPI_Alltoallv(out, lengths, places, MPI_BYTE, in, alike, places, MPI_BYTE, WORLD);
})

/* ---- operations that sum ---- */

static void prepare_sums(struct bench *bench, byte *out, byte *in, size_t bytes, unsigned seed) {
    make_lists(bench, bytes);
    bench_fill_elements(bench, out, in, bytes / sizeof(double) * (size_t)bench->size, seed);
}

static void reduce_scatter_block_call(struct bench *bench, byte *out, byte *in, size_t bytes, int operation) {
    (void)bench, (void)operation;
    MPI_Reduce_scatter_block(out, in, (int)(bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, WORLD);
}

static void reduce_scatter_block_verify(struct bench *bench, byte *in, size_t bytes, unsigned seed, int last) {
    size_t count = bytes / sizeof(double);
    (void)last;
    bench_verify_sums(bench, in, count, count * (size_t)bench->rank, 0, bench->size - 1, seed);
}

static void reduce_scatter_call(struct bench *bench, byte *out, byte *in, size_t bytes, int operation) {
    (void)bench, (void)bytes, (void)operation;
    MPI_Reduce_scatter(out, in, elements, MPI_DOUBLE, MPI_SUM, WORLD);
}

static void reduce_scatter_verify(struct bench *bench, byte *in, size_t bytes, unsigned seed, int last) {
    size_t before = 0;
    (void)bytes, (void)last;
    for (int rank = 0; rank < bench->rank; rank++) before += (size_t)elements[rank];
    bench_verify_sums(bench, in, (size_t)elements[bench->rank], before, 0, bench->size - 1, seed);
}

static void scan_call(struct bench *bench, byte *out, byte *in, size_t bytes, int operation) {
    (void)bench, (void)operation;
    MPI_Scan(out, in, (int)(bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, WORLD);
}

static void scan_verify(struct bench *bench, byte *in, size_t bytes, unsigned seed, int last) {
    (void)last;
    bench_verify_sums(bench, in, bytes / sizeof(double), 0, 0, bench->rank, seed);
}

static void exscan_call(struct bench *bench, byte *out, byte *in, size_t bytes, int operation) {
    (void)bench, (void)operation;
    MPI_Exscan(out, in, (int)(bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, WORLD);
}

static void exscan_verify(struct bench *bench, byte *in, size_t bytes, unsigned seed, int last) {
    (void)last;
    if (bench->rank > 0) bench_verify_sums(bench, in, bytes / sizeof(double), 0, 0, bench->rank - 1, seed);
}

#define MOVED(name, bytes_min) {#name, bytes_min, {.per_rank = 1, .prepare = name##_prepare, .call = name##_call, .verify = name##_verify}}
#define SUMMED(name, bytes_min) {#name, bytes_min, {.per_rank = 1, .prepare = prepare_sums, .call = name##_call, .verify = name##_verify}}

static const struct {
    const char *name;
    size_t bytes_min; /* below, it would be another operation */
    struct collective collective;
} OPERATIONS[] = {MOVED(gather, 8),      MOVED(gatherv, 16),     MOVED(scatter, 8),
                  MOVED(scatterv, 16),   MOVED(allgatherv, 16),  MOVED(alltoallv, 16),
                  SUMMED(reduce_scatter_block, 8), SUMMED(reduce_scatter, 16), SUMMED(scan, 8),
                  SUMMED(exscan, 8)};

static int *list(const struct bench *bench) {
    int *made = calloc((size_t)bench->size, sizeof *made);
    if (made == NULL) MPI_Abort(WORLD, 1);
    return made;
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "collectives", argc, argv, 8, 1u << 20, 1);
    size_t bytes_min = bench.options.bytes_min;
    lengths = list(&bench), places = list(&bench), elements = list(&bench), alike = list(&bench);
    for (size_t at = 0; at < sizeof OPERATIONS / sizeof *OPERATIONS; at++) {
        bench.name = OPERATIONS[at].name;
        bench.options.bytes_min = bytes_min > OPERATIONS[at].bytes_min ? bytes_min : OPERATIONS[at].bytes_min;
        bench_collective(&bench, &OPERATIONS[at].collective);
    }
    free(lengths), free(places), free(elements), free(alike);
    return bench_close(&bench);
}
