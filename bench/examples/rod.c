/* Heat along a rod by Jacobi's method, which goes on when a rank dies:
 *
 *     weftrun --ft -n 4 ./rod blank      the dead rank's part of the rod stays as its neighbours saw it last
 *     weftrun --ft -n 4 ./rod shrink     the others share the rod anew, with the dead rank's part cold
 *     weftrun --ft=rebuild -n 4 ./rod rebuild     the dead rank is started again, and begins with a cold part
 *
 * One end of the rod is hot and the other cold; the heat comes to rest where each cell is the mean of its
 * neighbours. In its 20th step the middle rank kills itself, to show what happens. */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <mpix_ft.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { CELLS = 48, STEPS_PER_LOOK = 50, FATAL_STEP = 20, TAG = 1 };

static double rod[CELLS + 2], next[CELLS + 2]; /* a rank knows its own cells, and one more on each side */
static int rank, size, first, end;             /* its own cells are those from first to before end */
static int dies;

static double larger(double one, double other) { return one > other ? one : other; }
static double size_of(double number) { return number < 0 ? -number : number; }

/* Deals the cells out to the ranks of comm. */
static void share(MPI_Comm comm) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    first = 1 + CELLS * rank / size;
    end = 1 + CELLS * (rank + 1) / size;
}

/* Brings the cells next to one's own from the ranks that have them. From a blank rank nothing comes: the
 * cell stays as it is. */
static int swap_edges(MPI_Comm comm) {
    int below = rank > 0 ? rank - 1 : MPI_PROC_NULL, above = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    int code = MPI_Sendrecv(&rod[first], 1, MPI_DOUBLE, below, TAG, &rod[end], 1, MPI_DOUBLE, above, TAG, comm,
            MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
    return MPI_Sendrecv(&rod[end - 1], 1, MPI_DOUBLE, above, TAG, &rod[first - 1], 1, MPI_DOUBLE, below, TAG, comm,
            MPI_STATUS_IGNORE);
}

/* Steps until no cell changes any more; the first error of MPI ends it. */
static int solve(MPI_Comm comm) {
    for (int step = 1;; step++) {
        double change = 0, largest = 0;
        int code = swap_edges(comm);
        if (code != MPI_SUCCESS) return code;
        if (dies && step == FATAL_STEP) raise(SIGKILL);
        for (int at = first; at < end; at++) {
            next[at] = (rod[at - 1] + rod[at + 1]) / 2;
            change = larger(change, size_of(next[at] - rod[at]));
        }
        memcpy(&rod[first], &next[first], (size_t)(end - first) * sizeof(double));
        if (step % STEPS_PER_LOOK != 0) continue;
        code = MPI_Allreduce(&change, &largest, 1, MPI_DOUBLE, MPI_MAX, comm);
        if (code != MPI_SUCCESS) return code;
        if (largest < 1e-10) return MPI_SUCCESS;
    }
}

/* After SHRINK the ranks are others: each tells what it has, and all know the rod but for the lost part. */
static int share_anew(MPI_Comm comm) {
    double mine[CELLS + 2] = {0};
    memcpy(&mine[first], &rod[first], (size_t)(end - first) * sizeof(double));
    mine[0] = rank == 0 ? rod[0] : 0;
    share(comm);
    mine[0] = rank == 0 ? 100 : 0;
    return MPI_Allreduce(mine, rod, CELLS + 2, MPI_DOUBLE, MPI_SUM, comm);
}

static int mode_of(const char *name) {
    if (strcmp(name, "shrink") == 0) return MPIX_FT_MODE_SHRINK;
    return strcmp(name, "rebuild") == 0 ? MPIX_FT_MODE_REBUILD : MPIX_FT_MODE_BLANK;
}

int main(int argc, char **argv) {
    MPI_Comm comm = MPI_COMM_WORLD; /* which alone can be rebuilt */
    int mode = mode_of(argc > 1 ? argv[1] : "blank");
    int good = 0, lost = 0, incarnation = 0;
    double wrong = 0, most = 0;
    MPI_Init(&argc, &argv);
    MPIX_Process_incarnation(&incarnation);
    if (mode != MPIX_FT_MODE_REBUILD) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPIX_Comm_set_ft_mode(comm, mode, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL);
    share(comm);
    rod[0] = 100;
    dies = size > 1 && rank == size / 2 && incarnation == 0;
    for (;;) {
        good = solve(comm) == MPI_SUCCESS;
        MPIX_Comm_agree(comm, &good); /* was it good everywhere? */
        if (good) break;
        MPIX_Recover_info info;
        MPI_Comm recovered;
        int failed = 0;
        MPIX_Comm_recover(comm, 0, &recovered, &info);
        MPI_Group_size(info.failed, &failed);
        MPI_Group_free(&info.failed);
        lost += failed;
        if (recovered != comm) {
            MPI_Comm_free(&comm);
            comm = recovered;
            MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
            if (share_anew(comm) != MPI_SUCCESS) continue; /* and the next solve fails at once */
        }
    }
    for (int at = first; at < end; at++) wrong = larger(wrong, size_of(rod[at - 1] - 2 * rod[at] + rod[at + 1]));
    if (mode != MPIX_FT_MODE_BLANK)
        for (int at = first; at < end; at++)
            wrong = larger(wrong, size_of(rod[at] - 100.0 * (CELLS + 1 - at) / (CELLS + 1)) / 1000);
    MPI_Allreduce(&wrong, &most, 1, MPI_DOUBLE, MPI_MAX, comm);
    if (rank == 0)
        printf("rod: %d cells, %d ranks lost, %s: %s\n", CELLS, lost, argc > 1 ? argv[1] : "blank",
               most < 1e-6 ? "at rest" : "WRONG");
    if (comm != MPI_COMM_WORLD) MPI_Comm_free(&comm);
    MPI_Finalize();
    return most < 1e-6 ? 0 : 1;
}
