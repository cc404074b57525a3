// ranks: 3
// exit: 124
// launch: --timeout 8
// says: MPI_Recv
// says: from rank 1 (rank 2 of the job), any tag, the other way
// says: to rank 0, tag 8, MPI_COMM_WORLD
// says: MPI_Waitall
// says: 6 requests: from rank 1, tag 0, MPI_COMM_WORLD; from rank 1, tag 1,
// says: and 3 more
// says: ranks 0 -> 1 -> 2 -> 0 wait for each other
// Rank 0 waits for rank 1, which waits for rank 2 in a communicator of another order, which waits for rank 0. What each waits
// for is told by the ranks of its communicator. (docs/running.md, When something goes wrong)
#include "check.h"

int main(int argc, char **argv) {
    MPI_Comm turned;
    MPI_Request requests[6];
    int values[6];
    check_open(argc, argv);
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, check_rank == 0 ? 2 : check_rank - 1, &turned));
    OK(MPI_Comm_set_name(turned, "the other way"));
    if (check_rank == 0) {
        for (int i = 0; i < 6; i++) OK(MPI_Irecv(&values[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]));
        OK(MPI_Waitall(6, requests, MPI_STATUSES_IGNORE));
    } else if (check_rank == 1) {
        OK(MPI_Recv(values, 1, MPI_INT, 1, MPI_ANY_TAG, turned, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Issend(&values[0], 1, MPI_INT, 0, 8, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Irecv(&values[1], 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &requests[1]));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    }
    return 1;
}
