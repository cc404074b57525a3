// ranks: 2
// exit: 131
// launch: --timeout 60
// says: MPI_Recv for
// says: from rank 0, tag 6, MPI_COMM_WORLD
// says: not in MPI, or in a call that does not wait
// says: ended by SIGQUIT
// A SIGQUIT for the launcher ends the job as it always did, and tells before what the ranks wait for.
// (docs/running.md, When something goes wrong)
#include "check.h"

int main(int argc, char **argv) {
    const char *launcher = getenv("WEFT_LAUNCHER");
    int value = 0;
    check_open(argc, argv);
    CHECK(launcher != NULL);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 1) {
        OK(MPI_Recv(&value, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        return 1;
    }
    sleep(2); /* the other has gone to sleep long before */
    CHECK(kill(atoi(launcher), SIGQUIT) == 0);
    for (;;) pause();
}
