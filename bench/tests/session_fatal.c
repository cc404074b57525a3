// ranks: 1 2
// exit: nonzero
// says: MPI_Session_get_nth_pset
// A session with MPI_ERRORS_ARE_FATAL: an error of it ends the job, without MPI_Init. (MPI 5.0, section 9.3)
#include "check.h"

int main(void) {
    MPI_Session session;
    int length = 0;
    check_watchdog();
    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) != MPI_SUCCESS) _exit(0);
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &length, NULL);
    _exit(0); /* going on after the error would be wrong */
}
