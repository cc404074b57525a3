// ranks: 3
// launch: --ft
// exit: nonzero
// says: the job is ended
// not libfabric: what a provider tells of a dead process differs from one to the next
// A failure that meets the fatal error handler ends the job, also for a rank that has no part in it (rule G5).
#define _POSIX_C_SOURCE 200809L
#include "check.h"

int main(int argc, char **argv) {
    int value = 0;
    MPI_Comm pair;
    check_open(argc, argv);
    section("G5: a fatal error by a failure");
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank == 2 ? 1 : 0, 0, &pair));
    if (check_rank != 1) OK(MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
    if (check_rank == 1) {
        for (int other = 0; other < 3; other += 2) OK(MPI_Recv(&value, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        fflush(NULL);
        raise(SIGKILL);
    }
    /* The third rank waits for a message of its own that it never sends. */
    MPI_Recv(&value, 1, MPI_INT, check_rank == 2 ? 0 : 1, 1, pair, MPI_STATUS_IGNORE);
    _exit(0); /* going on after the error would be wrong */
}
