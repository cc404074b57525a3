// ranks: 2
// exit: 124
// launch: --timeout 8 -x WEFT_HANG_NOTICE=0.5
// says: all ranks have slept in MPI for 0.5 s or more
// says: MPI_Wait  for
// says: MPI_Probe for
// says: from rank 0, tag 5, MPI_COMM_WORLD
// Where all ranks sleep in MPI this is told while the job goes on. (docs/running.md, When something goes wrong)
#include "check.h"

int main(int argc, char **argv) {
    MPI_Request request;
    int value = 0;
    check_open(argc, argv);
    if (check_rank == 0) {
        OK(MPI_Irecv(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Probe(0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    return 1;
}
