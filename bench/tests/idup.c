// ranks: 1 2 3 5 8
// Nonblocking duplicates: they go on whatever the process does, several at a time, with what was cached when they
// began. (MPI 5.0, section 7.4.2)
#include "check.h"

static void works(MPI_Comm comm) {
    int sum = 0, size = 0, one = 1, result = -1;
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    SAME(sum, size);
    OK(MPI_Comm_compare(comm, MPI_COMM_WORLD, &result));
    SAME(result, MPI_CONGRUENT);
}

/* The others send only when their duplicate is there: it must go on while rank 0 waits for something else. */
static void goes_on_by_itself(void) {
    MPI_Comm copy;
    MPI_Request request;
    int got = -1;
    section("it goes on while something else is waited for");
    OK(MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request));
    if (check_rank == 0) {
        for (int from = 1; from < check_size; from++)
            OK(MPI_Recv(&got, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Send(&check_rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
    }
    CHECK(request == MPI_REQUEST_NULL);
    works(copy);
    OK(MPI_Comm_free(&copy));
}

static void several(void) {
    enum { COUNT = 12 };
    MPI_Comm copies[COUNT], between;
    MPI_Request requests[COUNT];
    section("several at a time, between other operations");
    for (int i = 0; i < COUNT; i++) {
        if (i == COUNT / 2) {
            OK(MPI_Comm_dup(MPI_COMM_WORLD, &between));
            works(between);
        }
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &copies[i], &requests[i]));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int flag = 0;
    if (check_rank % 2) {
        OK(MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE));
    } else {
        while (!flag) OK(MPI_Testall(COUNT, requests, &flag, MPI_STATUSES_IGNORE));
    }
    section("several: each is its own");
    for (int i = COUNT - 1; i >= 0; i--) works(copies[i]);
    int to = (check_rank + 1) % check_size, got[COUNT];
    MPI_Request sends[COUNT];
    int mine[COUNT];
    for (int i = 0; i < COUNT; i++) {
        mine[i] = i;
        OK(MPI_Isend(&mine[i], 1, MPI_INT, to, 0, copies[i], &sends[i]));
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        OK(MPI_Recv(&got[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copies[i], MPI_STATUS_IGNORE));
        SAME(got[i], i);
    }
    OK(MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COUNT; i++) OK(MPI_Comm_free(&copies[i]));
    OK(MPI_Comm_free(&between));
}

static int copied;
static int copy_one(MPI_Comm comm, int key, void *extra, void *from, void *to, int *flag) {
    (void)comm, (void)key, (void)extra;
    copied++;
    *(void **)to = from;
    *flag = 1;
    return MPI_SUCCESS;
}

static void caches(void) {
    MPI_Comm copy;
    MPI_Request request;
    MPI_Status status;
    int key = MPI_KEYVAL_INVALID, flag = 0, early = 1, late = 2;
    void *value = NULL;
    char name[MPI_MAX_OBJECT_NAME] = "?";
    int length = -1;
    section("attributes are copied when it begins, names are not");
    OK(MPI_Comm_create_keyval(copy_one, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    MPI_Comm parent;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    OK(MPI_Comm_set_name(parent, "parent"));
    OK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_attr(parent, key, &early));
    OK(MPI_Comm_idup_with_info(parent, MPI_INFO_NULL, &copy, &request));
    SAME(copied, 1);
    OK(MPI_Comm_set_attr(parent, key, &late));
    OK(MPI_Comm_free(&parent));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Comm_get_attr(copy, key, &value, &flag));
    CHECK(flag && value == &early);
    OK(MPI_Comm_get_name(copy, name, &length));
    SAME(length, 0);
    MPI_Errhandler handler;
    OK(MPI_Comm_get_errhandler(copy, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    works(copy);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free_keyval(&key));
    section("wrong arguments");
    copy = MPI_COMM_NULL;
    CLASS(MPI_Comm_idup(MPI_COMM_NULL, &copy, &request), MPI_ERR_COMM);
    STRICT_CLASS(MPI_Comm_idup(MPI_COMM_WORLD, NULL, &request), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Comm_idup(MPI_COMM_WORLD, &copy, NULL), MPI_ERR_ARG);
    CHECK(copy == MPI_COMM_NULL);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    goes_on_by_itself();
    several();
    caches();
    return check_close();
}
