/* What mapping a grid onto the machine gains: the ranks of a torus of two axes exchange blocks with their four
 * neighbours, once with the ranks as they are and once as MPI_Cart_create has reordered them. The size is that of a
 * block. Told beside the times: how many bytes of an exchange leave a host. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEIGHBOURS = 4, WAYS = 2 };

static const char *const NAMES[WAYS] = {"mapped_halo_as_started", "mapped_halo_reordered"};
static MPI_Comm torus[WAYS];

/* Of the messages of an exchange, those that go to another host. */
static int leaving(MPI_Comm comm) {
    char(*names)[MPI_MAX_PROCESSOR_NAME], mine[MPI_MAX_PROCESSOR_NAME] = {0};
    int size, length, away = 0, all = 0;
    MPI_Comm_size(comm, &size);
    names = calloc((size_t)size, sizeof *names);
    MPI_Get_processor_name(mine, &length);
    MPI_Allgather(mine, sizeof mine, MPI_CHAR, names, sizeof mine, MPI_CHAR, comm);
    for (int axis = 0; axis < 2; axis++) {
        int ranks[2];
        MPI_Cart_shift(comm, axis, 1, &ranks[0], &ranks[1]);
        for (int way = 0; way < 2; way++) away += strcmp(names[ranks[way]], mine) != 0;
    }
    MPI_Allreduce(&away, &all, 1, MPI_INT, MPI_SUM, comm);
    free(names);
    return all;
}

static double block(MPI_Comm comm, unsigned char *out, unsigned char *in, size_t bytes, int operations) {
    MPI_Barrier(comm);
    double begun = MPI_Wtime();
    for (int operation = 0; operation < operations; operation++)
        MPI_Neighbor_alltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, comm);
    return bench_slowest((MPI_Wtime() - begun) / operations, comm);
}

static void verify(struct bench *bench, MPI_Comm comm, unsigned char *out, unsigned char *in, size_t bytes) {
    int here;
    MPI_Comm_rank(comm, &here);
    for (int way = 0; way < NEIGHBOURS; way++) bench_fill(out + (size_t)way * bytes, bytes, (unsigned)here);
    memset(in, 0xa5, NEIGHBOURS * bytes);
    block(comm, out, in, bytes, 1);
    for (int axis = 0; axis < 2; axis++) {
        int ranks[2];
        MPI_Cart_shift(comm, axis, 1, &ranks[0], &ranks[1]);
        for (int way = 0; way < 2; way++)
            bench_verify(bench, in + (size_t)(2 * axis + way) * bytes, bytes, (unsigned)ranks[way]);
    }
}

int main(int argc, char **argv) {
    struct bench bench;
    int dims[2] = {0, 0}, periods[2] = {1, 1}, away[WAYS];
    bench_open(&bench, "mapped_halo", argc, argv, 1024, 64 * 1024, 1);
    MPI_Dims_create(bench.size, 2, dims);
    for (int way = 0; way < WAYS; way++) {
        MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, way, &torus[way]);
        away[way] = leaving(torus[way]);
    }
    if (bench.rank == 0)
        printf("# torus of %d x %d: %d messages of an exchange leave a host as started, %d when reordered\n", dims[0],
               dims[1], away[0], away[1]);
    unsigned char *out = bench_buffer(NEIGHBOURS * bench.options.bytes_max);
    unsigned char *in = bench_buffer(NEIGHBOURS * bench.options.bytes_max);
    for (size_t bytes = bench.options.bytes_min; bytes <= bench.options.bytes_max; bytes *= 8) {
        static double samples[WAYS][BLOCKS];
        int operations = bench_block_operations(&bench, bytes);
        for (int way = 0; way < WAYS; way++) verify(&bench, torus[way], out, in, bytes);
        /* In turns, so that both see the same weather. */
        for (int at = -1; at < BLOCKS; at++)
            for (int way = 0; way < WAYS; way++) {
                double time = block(torus[way], out, in, bytes, operations);
                if (at >= 0) samples[way][at] = time;
            }
        for (int way = 0; way < WAYS; way++) {
            bench.name = NAMES[way];
            bench_heading(&bench, MICROSECONDS);
            bench_row(&bench, MICROSECONDS, bytes, samples[way], 1, 1);
        }
    }
    for (int way = 0; way < WAYS; way++) MPI_Comm_free(&torus[way]);
    free(out);
    free(in);
    return bench_close(&bench);
}
