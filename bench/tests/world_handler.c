// ranks: 1 2
// Errors that belong to no object: while nobody has set the error handler of MPI_COMM_SELF, that of MPI_COMM_WORLD serves, as in
// MPICH and Open MPI; from then on that of MPI_COMM_SELF does. (MPI 5.0, section 9.3)
#include "check.h"

static int calls;
static MPI_Comm told;

static void note(MPI_Comm *comm, int *code, ...) {
    (void)code;
    told = *comm;
    calls++;
}

static int unset_query(void *extra, MPI_Status *status) {
    (void)extra, (void)status;
    return MPI_ERR_IO;
}
static int unset_free(void *extra) {
    (void)extra;
    return MPI_SUCCESS;
}
static int unset_cancel(void *extra, int complete) {
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

/* One call of each class that belongs to no object; their number is answered. */
static int fail_all(void) {
    MPI_Datatype type = MPI_INT;
    MPI_Op op = MPI_SUM;
    MPI_Request request;
    int size, bad_key = MPI_KEYVAL_INVALID, before = calls;
    CLASS(MPI_Type_free(&type), MPI_ERR_TYPE);
    CLASS(MPI_Type_size(MPI_DATATYPE_NULL, &size), MPI_ERR_TYPE);
    CLASS(MPI_Group_size(MPI_GROUP_NULL, &size), MPI_ERR_GROUP);
    CLASS(MPI_Op_free(&op), MPI_ERR_OP);
    CLASS(MPI_Comm_free_keyval(&bad_key), MPI_ERR_KEYVAL);
    CLASS(MPI_Comm_size(MPI_COMM_NULL, &size), MPI_ERR_COMM);
    OK(MPI_Grequest_start(unset_query, unset_free, unset_cancel, NULL, &request));
    OK(MPI_Grequest_complete(request));
    CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_IO);
    return calls - before;
}

int main(int argc, char **argv) {
    MPI_Errhandler mine, found;
    check_open(argc, argv);
    section("only MPI_COMM_WORLD returns errors");
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    fail_all();
    OK(MPI_Comm_get_errhandler(MPI_COMM_SELF, &found));
    CHECK(found == MPI_ERRORS_ARE_FATAL);
    section("a function of MPI_COMM_WORLD is called with it");
    OK(MPI_Comm_create_errhandler(note, &mine));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine));
    if (!check_library_is("MPICH")) {
        SAME(fail_all(), 7);
        CHECK(told == MPI_COMM_WORLD);
    }
    section("MPI_COMM_SELF has one of its own");
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    SAME(fail_all(), 0);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    fail_all();
    if (!check_library_is("MPICH")) {
        OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, mine));
        SAME(fail_all(), 7);
        CHECK(told == MPI_COMM_SELF);
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&mine));
    return check_close();
}
