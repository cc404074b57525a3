// ranks: 3
// exit: 124
// launch: --timeout 8 -x WEFT_HANG_NOTICE=0.5
// says: MPI_Barrier for
// says: MPI_COMM_WORLD, waits for rank
// says: not in MPI, or in a call that does not wait
// says not: wait for each other
// says not: have slept in MPI
// One rank never comes to a barrier, since it sleeps in the program: the others wait for it, and it is not in MPI. Nobody is
// told before the timeout, since not all sleep in MPI. (docs/running.md, When something goes wrong)
#include "check.h"

int main(int argc, char **argv) {
    check_open(argc, argv);
    for (int i = 0; i < 10; i++) OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 2) sleep(50);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return 1;
}
