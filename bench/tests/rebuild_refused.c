// ranks: 3 5
// launch: --ft=rebuild --max-restarts=1
// says: cannot be started again
// not libfabric: what a provider tells of a dead process differs from one to the next
// One rank may be started again, and the second that dies stays blank, at all alike (rule R11).
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

static void sums(int right) {
    int one = 1, sum = 0;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum, right);
}

/* It dies when all others are through with what was before. */
static void dies(int rank) {
    int lives = 0;
    OK(MPIX_Comm_live_size(MPI_COMM_WORLD, &lives));
    if (check_rank != rank) OK(MPI_Send(NULL, 0, MPI_INT, rank, 1, MPI_COMM_WORLD));
    if (check_rank == rank) {
        for (int others = lives - 1; others > 0; others--)
            OK(MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        fflush(NULL);
        raise(SIGKILL);
    }
    while (MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS) {}
}

static void recover(int mode, int is_blank, int rank) {
    MPIX_Recover_info info;
    int flag = -1, members = 0;
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, 0, NULL, &info));
    SAME(info.mode, mode);
    SAME(info.restarted, !is_blank);
    OK(MPI_Group_size(info.failed, &members));
    SAME(members, 1);
    OK(MPI_Group_free(&info.failed));
    OK(MPIX_Comm_is_blank(MPI_COMM_WORLD, rank, &flag));
    SAME(flag, is_blank);
}

int main(int argc, char **argv) {
    int incarnation;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPIX_Process_incarnation(&incarnation));
    if (incarnation == 0) {
        section("the first is started again");
        dies(check_size - 1);
        recover(MPIX_FT_MODE_REBUILD, 0, check_size - 1);
    }
    sums(check_size);
    section("the second is not");
    dies(1);
    recover(MPIX_FT_MODE_BLANK, 1, 1);
    sums(check_size - 1);
    section("closing");
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
