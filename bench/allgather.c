/* Allgather: the size is what each rank contributes. */
#include "bench.h"

static void prepare(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, unsigned seed) {
    bench_fill(out, bytes, seed * 64 + (unsigned)bench->rank);
    for (int from = 0; from < bench->size; from++)
        bench_spoil(in + (size_t)from * bytes, bytes, seed * 64 + (unsigned)from);
}

static void call(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int operation) {
    (void)bench, (void)operation;
    MPI_Allgather(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void verify(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed, int last) {
    (void)last;
    for (int from = 0; from < bench->size; from++)
        bench_verify(bench, in + (size_t)from * bytes, bytes, seed * 64 + (unsigned)from);
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "allgather", argc, argv, 1, 1u << 20, 1);
    bench_collective(&bench, &(struct collective){
                                 .per_rank = 1, .prepare = prepare, .call = call, .verify = verify});
    return bench_close(&bench);
}
