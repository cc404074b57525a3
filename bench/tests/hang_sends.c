// ranks: 2
// exit: 124
// launch: --timeout 8
// says: MPI_Ssend for
// says: to rank 1, tag 7, MPI_COMM_WORLD
// says: to rank 0, tag 7, MPI_COMM_WORLD
// says: ranks 0 -> 1 -> 0 wait for each other
// Two synchronous sends towards each other never end; at the timeout it is told who waits for whom.
// (docs/running.md, When something goes wrong)
#include "check.h"

int main(int argc, char **argv) {
    int value = 1;
    check_open(argc, argv);
    OK(MPI_Ssend(&value, 1, MPI_INT, 1 - check_rank, 7, MPI_COMM_WORLD));
    return 1;
}
