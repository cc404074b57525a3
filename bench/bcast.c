/* Bcast: the root changes with every call, so that no rank runs ahead of the others; the time is
 * that of one call in such a chain. */
#include "bench.h"

/* Every rank fills what it will send as root; what comes in is the last root's. */
static void prepare(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, unsigned seed) {
    bench_fill(out, bytes, seed * 64 + (unsigned)bench->rank);
    int root = (bench_block_operations(bench, bytes) - 1) % bench->size;
    bench_spoil(in, bytes, seed * 64 + (unsigned)root);
}

static void call(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int operation) {
    int root = operation % bench->size;
    MPI_Bcast(bench->rank == root ? out : in, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void verify(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed, int last) {
    int root = last % bench->size;
    if (bench->rank != root) bench_verify(bench, in, bytes, seed * 64 + (unsigned)root);
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "bcast", argc, argv, 1, 1u << 20, 1);
    bench_collective(&bench, &(struct collective){.prepare = prepare, .call = call, .verify = verify});
    return bench_close(&bench);
}
