/* Making communicators: a duplicate, a split in two halves, one of a group, and a grid whose ranks may change, beside
 * the one small allreduce that they need at least; and freeing them, which is local. The slowest rank of a block
 * counts. */
#include "bench.h"

enum { AT_ONCE_MAX = 1024 };

static MPI_Group half;
static MPI_Comm made[AT_ONCE_MAX];

static void allreduce(int call) {
    double one = 1, sum;
    (void)call;
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void dup(int call) { MPI_Comm_dup(MPI_COMM_WORLD, &made[call]); }
static void dup_of_self(int call) { MPI_Comm_dup(MPI_COMM_SELF, &made[call]); }
static void create(int call) { MPI_Comm_create(MPI_COMM_WORLD, half, &made[call]); }
static void give_up(int call) { MPI_Comm_free(&made[call]); }

static void split(int call) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &made[call]);
}

static void grid(int call) {
    int dims[2] = {0, 0}, periods[2] = {1, 0}, size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &made[call]);
}

/* In the order in which they are done; what one makes the next `comm_free` frees. */
static const struct {
    const char *name;
    void (*call)(int call);
} OPERATIONS[] = {{"allreduce", allreduce}, {"comm_dup", dup},      {"comm_free", give_up},
                  {"comm_split", split},    {"comm_free", give_up}, {"comm_create", create},
                  {"comm_free", give_up},   {"cart_create", grid},  {"comm_free", give_up},
                  {"comm_dup_self", dup_of_self}, {"comm_free", give_up}};
enum { OPERATIONS_COUNT = sizeof OPERATIONS / sizeof *OPERATIONS };

/* The time of a block of calls at the slowest rank, for each call. */
static double block_of(int operation, int calls) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int call = 0; call < calls; call++) OPERATIONS[operation].call(call);
    return bench_slowest((MPI_Wtime() - begun) / calls, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    struct bench bench;
    MPI_Group world;
    /* The samples are sorted when they are told; the first two are kept as they were measured, too. */
    static double samples[OPERATIONS_COUNT][BLOCKS], in_turn[2][BLOCKS];
    bench_open(&bench, "communicators", argc, argv, 8, 8, 1);
    int part[1][3] = {{bench.rank % 2, bench.size - 1, 2}}, calls = bench_block_operations(&bench, 8);
    if (calls > AT_ONCE_MAX) calls = AT_ONCE_MAX;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, part, &half);
    /* In turns, so that all see the same weather. */
    for (int block = -1; block < BLOCKS; block++)
        for (int operation = 0; operation < OPERATIONS_COUNT; operation++) {
            bench_settle(&bench);
            double time = block_of(operation, calls);
            if (block >= 0) samples[operation][block] = time;
            if (block >= 0 && operation < 2) in_turn[operation][block] = time;
        }
    for (int operation = 0; operation < OPERATIONS_COUNT; operation++) {
        if (OPERATIONS[operation].call == give_up && operation + 1 < OPERATIONS_COUNT) continue;
        bench.name = OPERATIONS[operation].name;
        bench_heading(&bench, MICROSECONDS);
        bench_row(&bench, MICROSECONDS, 8, samples[operation], 1, 1);
    }
    /* What a duplicate costs, in times of the allreduce beside it; as the table would have it, in microseconds. */
    for (int block = 0; block < BLOCKS; block++) in_turn[0][block] = in_turn[1][block] / in_turn[0][block] * 1e-6;
    bench.name = "comm_dup_by_allreduce";
    bench_heading(&bench, MICROSECONDS);
    bench_row(&bench, MICROSECONDS, 8, in_turn[0], 1, 1);
    MPI_Group_free(&half);
    MPI_Group_free(&world);
    return bench_close(&bench);
}
