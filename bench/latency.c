/* Latency: rank 0 and rank 1 pass one message back and forth; half of a round trip is told.
 * Further ranks wait. */
#include "bench.h"

#include <stdlib.h>

enum { TAG = 1 };

static void round_trip(const struct bench *bench, unsigned char *out, unsigned char *in, int bytes) {
    if (bench->rank == 0) {
        MPI_Send(out, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
}

static double block(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int number) {
    int operations = bench_block_operations(bench, bytes);
    unsigned seed = 2 * (unsigned)number;
    bench_fill(out, bytes, seed + (unsigned)bench->rank);
    bench_spoil(in, bytes, seed + (unsigned)(1 - bench->rank));
    bench_settle(bench);
    round_trip(bench, out, in, 0); /* both are here now */
    double start = MPI_Wtime();
    for (int i = 0; i < operations; i++) round_trip(bench, out, in, (int)bytes);
    double seconds = MPI_Wtime() - start;
    bench_verify(bench, in, bytes, seed + (unsigned)(1 - bench->rank));
    return seconds / operations / 2;
}

static void sweep(struct bench *bench, unsigned char *out, unsigned char *in) {
    double samples[BLOCKS];
    for (size_t bytes = bench->options.bytes_min; bytes <= bench->options.bytes_max; bytes = bench_next(bytes)) {
        for (int i = 0; i < bench->options.warmup; i++) round_trip(bench, out, in, (int)bytes);
        for (int i = 0; i < BLOCKS; i++) samples[i] = block(bench, out, in, bytes, i);
        bench_row(bench, MICROSECONDS, bytes, samples, (double)bytes, 1);
    }
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "latency", argc, argv, 0, 4u << 20, 2);
    unsigned char *out = bench_buffer(bench.options.bytes_max);
    unsigned char *in = bench_buffer(bench.options.bytes_max);
    bench_heading(&bench, MICROSECONDS);
    if (bench.rank < 2) sweep(&bench, out, in);
    free(out);
    free(in);
    return bench_close(&bench);
}
