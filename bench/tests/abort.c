// ranks: 1 2 8
// exit: 7
// One rank aborts while the others wait for messages that never come: the job ends with its code.
#include "check.h"

int main(int argc, char **argv) {
    int word;
    check_open(argc, argv);
    section("abort");
    if (check_rank == check_size - 1) MPI_Abort(MPI_COMM_WORLD, 7);
    MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 3;
}
