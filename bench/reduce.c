/* Reduce: the sum of doubles at a root that changes with every call, so that no rank runs ahead.
 * The size is that of one rank's vector, in bytes, and begins at 8. */
#include "bench.h"

static void prepare(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, unsigned seed) {
    bench_fill_elements(bench, out, in, bytes / sizeof(double), seed);
}

static void call(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int operation) {
    MPI_Reduce(out, in, (int)(bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, operation % bench->size,
               MPI_COMM_WORLD);
}

static void verify(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed, int last) {
    if (bench->rank == last % bench->size) bench_verify_sums(bench, in, bytes / sizeof(double), 0, 0, bench->size - 1, seed);
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "reduce", argc, argv, 8, 1u << 20, 1);
    if (bench.options.bytes_min < sizeof(double)) bench.options.bytes_min = sizeof(double);
    bench_collective(&bench, &(struct collective){.prepare = prepare, .call = call, .verify = verify});
    return bench_close(&bench);
}
