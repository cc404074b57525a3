// ranks: 1 2 4
// A program may end its job by MPI_Abort(comm, 0), as a search does that has found something: the launcher's status is 0 then, as
// MPICH's and Open MPI's are. The others wait for messages that never come.
#include "check.h"

int main(int argc, char **argv) {
    int word;
    check_open(argc, argv);
    if (check_rank == check_size - 1) {
        printf("ok\n");
        MPI_Abort(MPI_COMM_WORLD, 0);
    }
    MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 1;
}
