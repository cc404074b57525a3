/* A job that goes on when it loses processes, under whatever has started it:
 *
 *     survives blank|shrink killed     the last rank kills itself
 *     survives blank|shrink cut        nobody dies; what lies between the nodes breaks, once rank 0 has said "ready"
 *
 * The others wait in a barrier, and not all of them have a way to the one that dies: so those who see it must tell the rest. Then
 * they recover and go on among themselves. Rank 0, or the lowest of those who are left together, says how many are left, and how
 * late the last of them learned of the death: the victim names the time of its death before. */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <mpix_ft.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_SECONDS = 100 };

static int rank, size;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void must(int code, const char *what) {
    if (code == MPI_SUCCESS) return;
    fprintf(stderr, "survives: rank %d: %s answers %d\n", rank, what, code);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Waits without calling MPI. */
static void until(double time) {
    while (now() < time) {
        struct timespec pause = {0, 1000 * 1000};
        nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv) {
    int what, is_cut, code, code_class, left = 0, one = 1, lowest = 0;
    double death = 0, late = 0, latest = 0;
    MPI_Comm comm, next;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    must(argc == 3 && size > 1 ? MPI_SUCCESS : MPI_ERR_ARG, "a job of two ranks with MODE and HOW");
    alarm(PATIENCE_SECONDS);
    what = strcmp(argv[1], "blank") == 0 ? MPIX_FT_MODE_BLANK : MPIX_FT_MODE_SHRINK;
    is_cut = strcmp(argv[2], "cut") == 0;
    must(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    must(MPIX_Comm_set_ft_mode(comm, what, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL), "the mode");
    death = now() + 0.3;
    must(MPI_Bcast(&death, 1, MPI_DOUBLE, size - 1, comm), "MPI_Bcast");
    must(MPI_Barrier(comm), "MPI_Barrier");
    if (rank == 0) {
        printf("ready\n");
        fflush(stdout);
    }
    if (is_cut) {
        /* Nobody calls MPI meanwhile, and nobody is taken for dead for that. */
        until(death + 1);
    } else if (rank == size - 1) {
        until(death);
        raise(SIGKILL);
    }
    while ((code = MPI_Barrier(comm)) == MPI_SUCCESS) until(now() + 0.01);
    late = now() - death;
    MPI_Error_class(code, &code_class);
    must(code_class == MPIX_ERR_PROC_FAILED ? MPI_SUCCESS : code, "MPI_Barrier without all");
    /* The other failures are those of the next round. */
    for (;;) {
        must(MPIX_Comm_recover(comm, 0, &next, NULL), "MPIX_Comm_recover");
        comm = next;
        code = MPI_Allreduce(&one, &left, 1, MPI_INT, MPI_SUM, comm);
        if (code == MPI_SUCCESS) code = MPI_Allreduce(&rank, &lowest, 1, MPI_INT, MPI_MIN, comm);
        if (code == MPI_SUCCESS) code = MPI_Allreduce(&late, &latest, 1, MPI_DOUBLE, MPI_MAX, comm);
        if (code == MPI_SUCCESS && !(is_cut && left == size)) break;
        until(now() + 0.05);
    }
    if (rank == lowest) printf("%d of %d go on by %s, the last heard of it after %.1f ms\n", left, size, argv[1], latest * 1e3);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
