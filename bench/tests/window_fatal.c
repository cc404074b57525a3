// ranks: 1 3
// exit: nonzero
// says: MPI_Win_unlock_all
// Errors of a window are fatal until it has another handler, whatever its communicator's handler does.
// (MPI 5.0, section 12.6)
#include "check.h"

int main(int argc, char **argv) {
    MPI_Win win;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Win_unlock_all(win);
    return check_close();
}
