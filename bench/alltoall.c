/* Alltoall: the size is what each rank sends to each other one. */
#include "bench.h"

static unsigned seed_of(int from, int to, unsigned seed) {
    return seed * 4099 + (unsigned)from * 64 + (unsigned)to;
}

static void prepare(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, unsigned seed) {
    for (int to = 0; to < bench->size; to++) {
        bench_fill(out + (size_t)to * bytes, bytes, seed_of(bench->rank, to, seed));
        bench_spoil(in + (size_t)to * bytes, bytes, seed_of(to, bench->rank, seed));
    }
}

static void call(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int operation) {
    (void)bench, (void)operation;
    MPI_Alltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void verify(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed, int last) {
    (void)last;
    for (int from = 0; from < bench->size; from++)
        bench_verify(bench, in + (size_t)from * bytes, bytes, seed_of(from, bench->rank, seed));
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "alltoall", argc, argv, 1, 1u << 20, 1);
    bench_collective(&bench, &(struct collective){
                                 .per_rank = 1, .prepare = prepare, .call = call, .verify = verify});
    return bench_close(&bench);
}
