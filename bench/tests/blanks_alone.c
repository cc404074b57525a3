// ranks: 2 3 5
// launch: --ft
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// Nobody else lives ("C16"): every collective operation is that of one rank, over the buffers of all. A rank in the middle is the last one.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { RANKS_MAX = 8, UNTOUCHED = -77 };

static int from[RANKS_MAX], to[RANKS_MAX], counts[RANKS_MAX], places[RANKS_MAX];
static int here, calls;

static void begin(void) {
    for (int at = 0; at < RANKS_MAX; at++) {
        from[at] = 100 + at;
        to[at] = UNTOUCHED;
    }
}

/* Nothing but this one's own place was written, and that with what stands there. */
static void only_here(int value) {
    for (int at = 0; at < RANKS_MAX; at++) SAME(to[at], at == here ? value : UNTOUCHED);
}

/* Nothing but the first place was written. */
static void only_first(int value) {
    for (int at = 0; at < RANKS_MAX; at++) SAME(to[at], at == 0 ? value : UNTOUCHED);
}

static void never(void *left, void *right, int *count, MPI_Datatype *datatype) {
    (void)left, (void)right, (void)count, (void)datatype;
    calls++;
}

static void c16_moving(MPI_Comm comm) {
    section("C16: what is moved over the buffers of all");
    begin();
    OK(MPI_Barrier(comm));
    OK(MPI_Bcast(from, 1, MPI_INT, here, comm));
    SAME(from[0], 100);
    OK(MPI_Gather(from, 1, MPI_INT, to, 1, MPI_INT, here, comm));
    only_here(100);
    begin();
    OK(MPI_Gatherv(from, 1, MPI_INT, to, counts, places, MPI_INT, here, comm));
    only_here(100);
    begin();
    OK(MPI_Scatter(from, 1, MPI_INT, to, 1, MPI_INT, here, comm));
    only_first(100 + here);
    begin();
    OK(MPI_Scatterv(from, counts, places, MPI_INT, to, 1, MPI_INT, here, comm));
    only_first(100 + here);
    begin();
    OK(MPI_Allgather(from, 1, MPI_INT, to, 1, MPI_INT, comm));
    only_here(100);
    begin();
    OK(MPI_Allgatherv(from, 1, MPI_INT, to, counts, places, MPI_INT, comm));
    only_here(100);
    begin();
    OK(MPI_Alltoall(from, 1, MPI_INT, to, 1, MPI_INT, comm));
    only_here(100 + here);
    begin();
    OK(MPI_Alltoallv(from, counts, places, MPI_INT, to, counts, places, MPI_INT, comm));
    only_here(100 + here);
}

static void c16_reducing(MPI_Comm comm) {
    MPI_Op op;
    section("C16: what is reduced is one's own, and no operator is called");
    OK(MPI_Op_create(never, 0, &op));
    begin();
    OK(MPI_Reduce(from, to, 1, MPI_INT, op, here, comm));
    only_first(100);
    begin();
    OK(MPI_Allreduce(from, to, 1, MPI_INT, op, comm));
    only_first(100);
    begin();
    OK(MPI_Reduce_scatter_block(from, to, 1, MPI_INT, op, comm));
    only_first(100 + here);
    begin();
    OK(MPI_Reduce_scatter(from, to, counts, MPI_INT, op, comm));
    only_first(100 + here);
    begin();
    OK(MPI_Scan(from, to, 1, MPI_INT, op, comm));
    only_first(100);
    begin();
    OK(MPI_Exscan(from, to, 1, MPI_INT, op, comm));
    for (int at = 0; at < RANKS_MAX; at++) SAME(to[at], UNTOUCHED);
    SAME(calls, 0);
    OK(MPI_Op_free(&op));
}

int main(int argc, char **argv) {
    MPI_Comm copy;
    MPIX_Recover_info info;
    int size = -1, lives = -1;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPIX_Comm_set_ft_mode(MPI_COMM_WORLD, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    here = check_size / 2;
    for (int at = 0; at < check_size; at++) {
        counts[at] = 1;
        places[at] = at;
    }
    section("all but one die");
    /* Whoever is through may be dead before the others are. */
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank != here) raise(SIGKILL);
    do {
        OK(MPIX_Comm_recover(MPI_COMM_WORLD, 0, NULL, &info));
        OK(MPI_Group_free(&info.failed));
        OK(MPIX_Comm_live_size(MPI_COMM_WORLD, &lives));
    } while (lives > 1);
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    SAME(size, check_size);
    c16_moving(MPI_COMM_WORLD);
    c16_reducing(MPI_COMM_WORLD);
    section("C16: of a copy");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_size(copy, &size));
    SAME(size, check_size);
    c16_moving(copy);
    c16_reducing(copy);
    OK(MPI_Comm_free(&copy));
    section("G8: the end");
    printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
