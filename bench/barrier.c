/* Barrier: the time of one, back to back. The only row has size 0. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <time.h>

static void prepare(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, unsigned seed) {
    (void)bench, (void)out, (void)in, (void)bytes, (void)seed;
}

static void call(struct bench *bench, unsigned char *out, unsigned char *in, size_t bytes, int operation) {
    (void)bench, (void)out, (void)in, (void)bytes, (void)operation;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The clock that all processes of one machine share. */
static double machine_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int on_one_machine(void) {
    char name[MPI_MAX_PROCESSOR_NAME];
    int length;
    long word[2] = {5381, 0}, most[2];
    MPI_Get_processor_name(name, &length);
    for (int i = 0; i < length; i++) word[0] = (word[0] * 33 + (unsigned char)name[i]) & 0x7fffffff;
    word[1] = -word[0];
    MPI_Allreduce(word, most, 2, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    return most[0] == -most[1];
}

/* Nobody may leave before the last one has come. One rank in turn comes late; the last arrival
 * must not be after the first departure. Two machines have two clocks, so there it is not checked. */
static void verify(struct bench *bench, unsigned char *in, size_t bytes, unsigned seed, int last) {
    double mine[2], most[2];
    (void)in, (void)bytes, (void)last;
    if (!on_one_machine()) return;
    if ((unsigned)bench->rank == seed % (unsigned)bench->size)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    mine[0] = machine_seconds();
    MPI_Barrier(MPI_COMM_WORLD);
    mine[1] = -machine_seconds();
    MPI_Allreduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (bench->rank == 0 && most[0] > -most[1])
        bench_wrong(bench, 1, "a rank left the barrier before all had come");
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "barrier", argc, argv, 0, 0, 1);
    bench.options.bytes_min = bench.options.bytes_max = 0;
    bench_collective(&bench, &(struct collective){.prepare = prepare, .call = call, .verify = verify});
    return bench_close(&bench);
}
