/* What the death of a rank costs the others, and what an agreement costs while nobody dies:
 *
 *     weftrun --ft -n 8 ./failures blank       recovery in place, with the dead rank's place blank
 *     weftrun --ft -n 8 ./failures shrink      recovery that makes a communicator of the others
 *     mpiexec --with-ft ulfm -n 8 ./failures ulfm    MPIX_Comm_shrink, also of Open MPI
 *
 * The last rank kills itself, once: so a job gives one sample of each time, and jobs are to be repeated. It leaves the time of
 * its death in memory that all share (all ranks on one node). One JSON line from rank 0:
 *   notice_us    from the death to the last of those who wait in a receive from the dead rank and hear of it
 *   recover_us   the call that recovers, begun by all at once when all know of the death; the slowest rank
 *   agree_us     MPIX_Comm_agree while nobody has died, allreduce_us MPI_Allreduce of 8 bytes beside it: medians
 *   revoke_us    from the call of MPIX_Comm_revoke at rank 0 to the last of those who wait in a receive in that communicator and hear of it,
 *                bcast_us from the call of MPI_Bcast of 8 bytes at rank 0 to the last of those who wait in it, beside it: medians */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#if __has_include(<mpix_ft.h>)
#include <mpix_ft.h>
#define HAS_MODES 1
#else
#include <mpi-ext.h>
#define HAS_MODES 0
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 200, WARMUP = 20, REVOCATIONS = 50, PAUSE_US = 100, TAG = 1 };

static int rank, size;

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void must(int code, const char *what) {
    if (code == MPI_SUCCESS) return;
    fprintf(stderr, "failures: rank %d: %s answers %d\n", rank, what, code);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int ascending(const void *left, const void *right) {
    double one = *(const double *)left, other = *(const double *)right;
    return (one > other) - (one < other);
}

static double median(double *samples, int count) {
    qsort(samples, (size_t)count, sizeof *samples, ascending);
    return samples[count / 2];
}

static double slowest(double mine, MPI_Comm comm) {
    double most = 0;
    must(MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, comm), "MPI_Allreduce of a time");
    return most;
}

/* The two in turn, so that what disturbs one disturbs the other. */
static void agreements(MPI_Comm comm, double *agree_us, double *allreduce_us) {
    double agreed[ROUNDS], reduced[ROUNDS];
    for (int round = -WARMUP; round < ROUNDS; round++) {
        int flag = ~(1 << (rank % 31)), all;
        double sum = 0, one = 1, begin, middle;
        must(MPI_Barrier(comm), "MPI_Barrier");
        begin = now_us();
        must(MPIX_Comm_agree(comm, &flag), "MPIX_Comm_agree");
        middle = now_us();
        must(MPI_Barrier(comm), "MPI_Barrier");
        if (round >= 0) agreed[round] = middle - begin;
        begin = now_us();
        must(MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, comm), "MPI_Allreduce");
        if (round >= 0) reduced[round] = now_us() - begin;
        all = ~0;
        for (int at = 0; at < size && at < 31; at++) all &= ~(1 << at);
        if (flag != all || sum != size) must(MPI_ERR_OTHER, "a wrong result");
    }
    *agree_us = slowest(median(agreed, ROUNDS), comm);
    *allreduce_us = slowest(median(reduced, ROUNDS), comm);
}

/* Rank 0 begins something when the others wait for it, and leaves the time of that where all see it. */
static void begins(double *begun) {
    double begin = now_us();
    while (now_us() < begin + PAUSE_US) {}
    *begun = now_us();
}

/* The two in turn, each in a communicator of its own; `begun` is in memory that all share. */
static void revocations(double *begun, double *revoke_us, double *bcast_us) {
    double revoked[REVOCATIONS], told[REVOCATIONS], word = 0;
    for (int round = -WARMUP; round < REVOCATIONS; round++) {
        MPI_Comm comm;
        must(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
        for (int at = 0; at < WARMUP; at++) must(MPI_Bcast(&word, 1, MPI_DOUBLE, 0, comm), "MPI_Bcast");
        must(MPI_Barrier(comm), "MPI_Barrier");
        if (rank == 0) begins(begun);
        must(MPI_Bcast(&word, 1, MPI_DOUBLE, 0, comm), "MPI_Bcast");
        word = slowest(rank == 0 ? 0 : now_us() - *begun, MPI_COMM_WORLD);
        if (round >= 0) told[round] = word;
        if (rank == 0) {
            begins(begun);
            must(MPIX_Comm_revoke(comm), "MPIX_Comm_revoke");
        } else if (MPI_Recv(&word, 1, MPI_DOUBLE, 0, TAG, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
            must(MPI_ERR_OTHER, "a receive in a revoked communicator");
        }
        word = slowest(rank == 0 ? 0 : now_us() - *begun, MPI_COMM_WORLD);
        if (round >= 0) revoked[round] = word;
        must(MPI_Comm_free(&comm), "MPI_Comm_free");
    }
    *revoke_us = median(revoked, REVOCATIONS);
    *bcast_us = median(told, REVOCATIONS);
}

/* Makes the communicator usable again; the answer has the living only, or blank places as well. */
static MPI_Comm recovered(MPI_Comm comm) {
    MPI_Comm next = comm;
#if HAS_MODES
    int mode[4];
    must(MPIX_Comm_get_ft_mode(comm, &mode[0], &mode[1], &mode[2], &mode[3]), "MPIX_Comm_get_ft_mode");
    if (mode[0] != MPIX_FT_MODE_NONE) {
        MPIX_Recover_info info;
        must(MPIX_Comm_recover(comm, 0, &next, &info), "MPIX_Comm_recover");
        MPI_Group_free(&info.failed);
        return next;
    }
#endif
    must(MPIX_Comm_shrink(comm, &next), "MPIX_Comm_shrink");
    return next;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "blank";
    double *death, agree_us, allreduce_us, revoke_us, bcast_us, notice_us, recover_us, begin, one = 1, sum = 0;
    int unit, failed = 0, word = 0;
    MPI_Aint bytes;
    MPI_Comm comm, node, others, next;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    must(size > 2 ? MPI_SUCCESS : MPI_ERR_ARG, "a job of fewer than three ranks");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    must(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    must(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
    must(MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1, rank, &others), "MPI_Comm_split");
    must(MPI_Win_allocate_shared(rank == 0 ? sizeof *death : 0, 1, MPI_INFO_NULL, node, &death, &win), "the window");
    must(MPI_Win_shared_query(win, 0, &bytes, &unit, &death), "MPI_Win_shared_query");
#if HAS_MODES
    int what = strcmp(mode, "blank") == 0 ? MPIX_FT_MODE_BLANK : MPIX_FT_MODE_SHRINK;
    if (strcmp(mode, "ulfm") == 0) what = MPIX_FT_MODE_NONE;
    MPIX_Comm_set_ft_mode(comm, what, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL);
#endif
    agreements(comm, &agree_us, &allreduce_us);
    revocations(death, &revoke_us, &bcast_us);
    must(MPI_Barrier(comm), "MPI_Barrier");
    if (rank == size - 1) {
        /* The others wait by then. */
        struct timespec pause = {0, 20 * 1000 * 1000};
        nanosleep(&pause, NULL);
        *death = now_us();
        raise(SIGKILL);
    }
    must(MPI_Recv(&word, 1, MPI_INT, size - 1, TAG, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS ? MPI_SUCCESS : MPI_ERR_OTHER,
            "a receive from the dead");
    notice_us = slowest(now_us() - *death, others);
    /* All know of it, and are here. */
    must(MPI_Barrier(others), "MPI_Barrier");
    begin = now_us();
    next = recovered(comm);
    recover_us = slowest(now_us() - begin, others);
    must(MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, next), "MPI_Allreduce after the recovery");
    failed = sum != size - 1;
    if (rank == 0)
        printf("{\"benchmark\":\"failures\",\"mode\":\"%s\",\"ranks\":%d,\"notice_us\":%.1f,\"recover_us\":%.1f,"
               "\"agree_us\":%.2f,\"allreduce_us\":%.2f,\"revoke_us\":%.2f,\"bcast_us\":%.2f}\n",
                mode, size, notice_us, recover_us, agree_us, allreduce_us, revoke_us, bcast_us);
    fflush(stdout);
    MPI_Finalize();
    return failed;
}
