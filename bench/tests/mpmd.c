// ranks: 1 2
// part: -n 2 second
// part: -n 1 third last
// Jobs of several programs: one world, whose ranks are in the order of the programs, and MPI_APPNUM counts these. (MPI 5.0, section 11.5;
// docs/running.md, Options of other launchers)
#include "check.h"

int main(int argc, char **argv) {
    int *value = NULL, found = 0, mine[2], all[2 * 8];
    OK(MPI_Init(&argc, &argv));
    check_world();
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &found));
    CHECK(found);
    /* Each program got arguments of its own. */
    mine[0] = argc == 1 ? 0 : strcmp(argv[1], "second") == 0 && argc == 2 ? 1 : strcmp(argv[1], "third") == 0 && argc == 3 ? 2 : -1;
    mine[1] = *value;
    SAME(mine[0], mine[1]);
    CHECK(check_size <= 8);
    OK(MPI_Allgather(mine, 2, MPI_INT, all, 2, MPI_INT, MPI_COMM_WORLD));
    for (int rank = 0; rank < check_size; rank++) {
        int behind = check_size - rank; /* 1: the third; 2 and 3: the second */
        SAME(all[2 * rank + 1], behind == 1 ? 2 : behind <= 3 ? 1 : 0);
    }
    OK(MPI_Finalize());
    if (check_rank == 0) printf("ok\n");
    return 0;
}
