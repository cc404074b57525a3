/* Allreduce: the sum of doubles over all ranks. The size is that of one rank's vector, in bytes,
 * and begins at 8. Repeated calls read the same input, so the values stay exact. */
#include "bench.h"

#include <stdio.h>

/* Small whole numbers: their sums are exact in any order and on any number of ranks. */
static double element(int rank, size_t at, unsigned seed) {
    return (double)((at * 31 + seed * 17 + (unsigned)rank * 7) % 1021);
}

static void prepare(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, unsigned seed) {
    double *values = (double *)out, *sums = (double *)in;
    for (size_t at = 0; at < bytes / sizeof *values; at++) {
        values[at] = element(bench->rank, at, seed);
        sums[at] = -1;
    }
}

static void call(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int operation) {
    (void)bench, (void)operation;
    MPI_Allreduce(out, in, (int)(bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static double expected(const struct bench *bench, size_t at, unsigned seed) {
    double sum = 0;
    for (int rank = 0; rank < bench->size; rank++) sum += element(rank, at, seed);
    return sum;
}

static void verify(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed, int last) {
    const double *sums = (const double *)in;
    (void)last;
    for (size_t at = 0; at < bytes / sizeof *sums; at++) {
        char text[128];
        double right = expected(bench, at, seed);
        if (sums[at] == right) continue;
        snprintf(text, sizeof text, "element %zu of %zu bytes is %g, not %g", at, bytes, sums[at], right);
        bench_wrong(bench, sizeof *sums, text);
        return;
    }
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "allreduce", argc, argv, 8, 1u << 20, 1);
    if (bench.options.bytes_min < sizeof(double)) bench.options.bytes_min = sizeof(double);
    bench_collective(&bench, &(struct collective){.prepare = prepare, .call = call, .verify = verify});
    return bench_close(&bench);
}
