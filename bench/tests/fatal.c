// ranks: 1 2 3
// exit: nonzero
// Errors are fatal unless the program says otherwise: one rank's wrong call ends the job.
#include "check.h"

int main(int argc, char **argv) {
    int word = 0;
    check_open(argc, argv);
    section("fatal error");
    if (check_rank == check_size - 1) MPI_Send(&word, -1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    if (check_rank == check_size - 1) _exit(0); /* going on after the error would be wrong */
    MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 0;
}
