// ranks: 1 2
// exit: nonzero
// A process that exits in the middle of a session has not done what it was to do: its launcher says so.
#include "check.h"

int main(void) {
    MPI_Session session;
    check_watchdog();
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    return 0;
}
