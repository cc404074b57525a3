// ranks: 1 2
// The function that deletes an attribute of MPI_COMM_SELF fails within MPI_Finalize: its error is returned, and MPI is over all the
// same, so that the launcher has nothing to say.
#include "check.h"

static int calls;

static int refuse(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    calls++;
    return MPI_ERR_INTERN;
}

int main(int argc, char **argv) {
    int key, code, finalized = 0;
    check_open(argc, argv);
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &key, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &key));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    section("the end");
    code = MPI_Finalize();
    if (code == MPI_SUCCESS || calls != 1) {
        fprintf(stderr, "MPI_Finalize answers %d after %d calls\n", code, calls);
        return 1;
    }
    MPI_Finalized(&finalized);
    if (!finalized) return 2;
    if (check_rank == 0) puts("ok");
    return 0;
}
