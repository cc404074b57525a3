// ranks: 4
// exit: nonzero
// launch: --timeout 20
// says: all ranks must call the same collective operations
// Who waits for few bytes of all ranks is told that one of them sends many also where it waits for another one first, which
// comes later: many are so many that they go by messages. (docs/decisions/0004)
#include "check.h"

#define MANY 16384

int main(int argc, char **argv) {
    static double mine[MANY], all[4 * MANY];
    int token = 0;
    check_open(argc, argv);
    for (int round = 0; round < 20; round++) OK(MPI_Gather(mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD));
    section("ranks 2 and 3 give many numbers, and rank 1 comes when rank 0 is through");
    if (check_rank == 1) OK(MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    int count = check_rank < 2 ? 1 : MANY;
    MPI_Gather(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    /* What these have given may be on its way at once; the job ends while they wait. */
    if (check_rank >= 2) OK(MPI_Recv(&token, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Send(&token, 1, MPI_INT, 1, 1, MPI_COMM_WORLD));
    return 0; /* nobody comes here */
}
