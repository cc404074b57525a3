// ranks: 3 5
// launch: --ft=rebuild --max-restarts=1
// says: cannot be started again
// not libfabric: what a provider tells of a dead process differs from one to the next
// One rank may be started again, and the second that dies stays blank, at all alike (rule R11).
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "victim.h"

#include <mpix_ft.h>

static void sums(int right) {
    int one = 1, sum = 0;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum, right);
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
