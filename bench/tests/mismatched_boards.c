// ranks: 2 3
// exit: nonzero
// launch: --timeout 20
// says: all ranks must call the same collective operations
// Few bytes go another way than many among the ranks of a node (docs/decisions/0004): whoever calls with few while the others
// call with many waits for what never comes, and is told so without WEFT_CHECK.
#include "check.h"

#define MANY 4096

int main(int argc, char **argv) {
    static double mine[MANY], all[MANY];
    check_open(argc, argv);
    for (int round = 0; round < 20; round++) OK(MPI_Allreduce(mine, all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    section("rank 0 gives one number, the others many");
    MPI_Allreduce(mine, all, check_rank == 0 ? 1 : MANY, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return 0; /* nobody comes here */
}
