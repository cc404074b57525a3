// ranks: 2
// exit: 124
// launch: -x WEFT_CHECK=1 --timeout 8
// says: MPI_Comm_create_group: waiting 5 s for rank
// Where several threads may call, one with the other tag may still come; WEFT_CHECK=1 tells who is waited for.
#include "check.h"

int main(int argc, char **argv) {
    MPI_Comm made;
    MPI_Group world;
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    check_watchdog();
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &check_rank));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    section("tags that differ");
    MPI_Comm_create_group(MPI_COMM_WORLD, world, check_rank, &made);
    return 1; /* nobody comes here */
}
