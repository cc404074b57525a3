// ranks: 3 5
// launch: --ft
// says: the second was noticed
// not libfabric: what a provider tells of a dead process differs from one to the next
// Who waits for one that lives hears of another's death meanwhile, and goes on hearing: when the one that is waited for dies as
// well, the wait ends. (rules G1, G3)
#define _DEFAULT_SOURCE 1
#include "check.h"

#include <mpix_ft.h>

enum { FIRST = 1, SECOND = 2, TAG = 7 };

static void die_after(useconds_t microseconds) {
    usleep(microseconds);
    raise(SIGKILL);
}

int main(int argc, char **argv) {
    int got = 0, rank, kept = 0;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    check_world();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    section("all are here");
    for (int to = FIRST; to <= SECOND; to++) OK(MPI_Send(NULL, 0, MPI_INT, to, TAG, MPI_COMM_WORLD));
    /* Whoever dies has heard of all before: nobody is in this any more. */
    for (int from = 0; from < check_size && (rank == FIRST || rank == SECOND); from++)
        OK(MPI_Recv(NULL, 0, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    section("two deaths, one after the other");
    if (rank == FIRST) die_after(100 * 1000);
    if (rank == SECOND) die_after(400 * 1000);
    CLASS(MPI_Recv(&got, 1, MPI_INT, SECOND, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    section("both are known");
    MPI_Group failed;
    OK(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed));
    OK(MPI_Group_size(failed, &kept));
    OK(MPI_Group_free(&failed));
    CHECK(kept == 2);
    if (rank == 0) printf("the second was noticed\nok\n");
    OK(MPI_Finalize());
    return 0;
}
