// ranks: 2 5
// launch: --ft
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// A program asks for REBUILD under a launcher that starts nobody again: the places of the dead stay blank, at all alike, also when
// they recover once more (rule R11); and where nothing has failed, nothing changes (R4).
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "victim.h"

#include <mpix_ft.h>

static void recover(int mode, int generation, int failed) {
    MPIX_Recover_info info;
    int members = -1;
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, 0, NULL, &info));
    SAME(info.mode, mode);
    SAME(info.generation, generation);
    SAME(info.restarted, 0);
    OK(MPI_Group_size(info.failed, &members));
    SAME(members, failed);
    OK(MPI_Group_free(&info.failed));
}

int main(int argc, char **argv) {
    int incarnation = -1, one = 1, sum = 0;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPIX_Process_incarnation(&incarnation));
    SAME(incarnation, 0);
    OK(MPIX_Comm_set_ft_mode(MPI_COMM_WORLD, MPIX_FT_MODE_REBUILD, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL,
            MPIX_FT_P2P_PROC_NULL));
    section("nothing has failed");
    recover(MPIX_FT_MODE_REBUILD, 0, 0);
    for (int dead = 1; dead < check_size && dead < 3; dead++) {
        section("somebody dies");
        dies(dead);
        recover(MPIX_FT_MODE_BLANK, dead, 1);
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        SAME(sum, check_size - dead);
    }
    section("closing");
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
