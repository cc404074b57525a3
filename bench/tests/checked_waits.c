// ranks: 2
// exit: 124
// launch: -x WEFT_CHECK=1 --timeout 8
// says: waiting 5 s for rank
// Two ranks that enter two communicators in different orders wait for each other for ever; WEFT_CHECK=1 tells where.
#include "check.h"

int main(int argc, char **argv) {
    MPI_Comm copy;
    check_open(argc, argv);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    section("a circle");
    MPI_Barrier(check_rank == 0 ? copy : MPI_COMM_WORLD);
    MPI_Barrier(check_rank == 0 ? MPI_COMM_WORLD : copy);
    return 1; /* nobody comes here */
}
