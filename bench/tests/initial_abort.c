// ranks: 1 3
// exit: nonzero
// launch: --initial-errhandler mpi_errors_abort
// says: MPI_Comm_rank
// With mpi_errors_abort an error before MPI_Init ends the process that made it. (MPI 5.0, section 9.3)
#include "check.h"

int main(void) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    _exit(0); /* going on after the error would be wrong */
}
