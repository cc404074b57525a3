/* Neighborhood alltoall on a torus of two axes: the size is what each rank sends to each of its four neighbours. */
#include "bench.h"

enum { NEIGHBOURS = 4 };

static MPI_Comm torus;
static int around[NEIGHBOURS];

/* By the sender alone: libraries differ in which of two blocks from one neighbour comes first, where both neighbours
 * along an axis are one process. The tests look at that. */
static unsigned seed_of(int from, unsigned seed) { return seed * 4099 + (unsigned)from; }

static void prepare(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, unsigned seed) {
    (void)bench;
    int here;
    MPI_Comm_rank(torus, &here);
    for (int way = 0; way < NEIGHBOURS; way++) {
        bench_fill(out + (size_t)way * bytes, bytes, seed_of(here, seed));
        bench_spoil(in + (size_t)way * bytes, bytes, seed_of(around[way], seed));
    }
}

static void call(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int operation) {
    (void)bench, (void)operation;
    MPI_Neighbor_alltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, torus);
}

static void verify(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed, int last) {
    (void)last;
    for (int way = 0; way < NEIGHBOURS; way++)
        bench_verify(bench, in + (size_t)way * bytes, bytes, seed_of(around[way], seed));
}

int main(int argc, char **argv) {
    struct bench bench;
    int dims[2] = {0, 0}, periods[2] = {1, 1};
    bench_open(&bench, "neighbours", argc, argv, 1, 1u << 18, 1);
    MPI_Dims_create(bench.size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &torus);
    for (int axis = 0; axis < 2; axis++) MPI_Cart_shift(torus, axis, 1, &around[2 * axis], &around[2 * axis + 1]);
    bench_collective(&bench, &(struct collective){
                                 .blocks = NEIGHBOURS, .prepare = prepare, .call = call, .verify = verify});
    MPI_Comm_free(&torus);
    return bench_close(&bench);
}
