// ranks: 1 3
// exit: 0
// A process that knows sessions only: it takes leave of its job without MPI_Finalize, and its launcher is content.
// (MPI 5.0, section 11.3)
#include "check.h"

int main(void) {
    check_watchdog();
    for (int turn = 0; turn < 3; turn++) {
        MPI_Session session;
        MPI_Group group;
        section("a session");
        if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) return 1;
        if (MPI_Group_from_session_pset(session, "mpi://WORLD", &group) != MPI_SUCCESS) return 2;
        MPI_Group_rank(group, &check_rank);
        MPI_Group_free(&group);
        if (MPI_Session_finalize(&session) != MPI_SUCCESS) return 3;
    }
    if (check_rank == 0) printf("ok\n");
    return 0;
}
