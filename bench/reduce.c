/* Reduce: the sum of doubles at a root that changes with every call, so that no rank runs ahead.
 * The size is that of one rank's vector, in bytes, and begins at 8. */
#include "bench.h"

#include <stdio.h>

static double element(int rank, size_t at, unsigned seed) {
    return (double)((at * 29 + seed * 19 + (unsigned)rank * 5) % 1019);
}

static void prepare(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, unsigned seed) {
    double *values = (double *)out, *sums = (double *)in;
    for (size_t at = 0; at < bytes / sizeof *values; at++) {
        values[at] = element(bench->rank, at, seed);
        sums[at] = -1;
    }
}

static void call(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int operation) {
    MPI_Reduce(out, in, (int)(bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, operation % bench->size,
               MPI_COMM_WORLD);
}

static void verify(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed, int last) {
    const double *sums = (const double *)in;
    if (bench->rank != last % bench->size) return;
    for (size_t at = 0; at < bytes / sizeof *sums; at++) {
        char text[128];
        double right = 0;
        for (int rank = 0; rank < bench->size; rank++) right += element(rank, at, seed);
        if (sums[at] == right) continue;
        snprintf(text, sizeof text, "element %zu of %zu bytes is %g, not %g", at, bytes, sums[at], right);
        bench_wrong(bench, sizeof *sums, text);
        return;
    }
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "reduce", argc, argv, 8, 1u << 20, 1);
    if (bench.options.bytes_min < sizeof(double)) bench.options.bytes_min = sizeof(double);
    bench_collective(&bench, &(struct collective){.prepare = prepare, .call = call, .verify = verify});
    return bench_close(&bench);
}
