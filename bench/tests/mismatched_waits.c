// ranks: 3
// exit: 124
// launch: -x WEFT_CHECK=1 --timeout 8
// says: the other leader: waiting 5 s for rank 2
// A leader that names one that does not lead waits for ever; only WEFT_CHECK=1 can tell.
#include "check.h"

int main(int argc, char **argv) {
    MPI_Comm half, made;
    check_open(argc, argv);
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank > 0, 0, &half));
    section("rank 1 leads, and rank 0 names rank 2");
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, check_rank == 0 ? 2 : 0, 5, &made);
    return 1; /* nobody comes here */
}
