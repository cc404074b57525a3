// ranks: 1 2 3 5
// A send and a receive as one nonblocking operation, in place and with a copy; and looks at several requests that end
// none. (MPI 5.0, sections 3.7.6 and 3.10)
#include "check.h"

enum { COUNT = 5 };

static const int SIZES[] = {0, 1, 64, 5000, 70000, 1 << 20};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

static int next, previous;

static void ring(void) {
    for (int i = 0; i < SIZE_COUNT; i++) {
        size_t bytes = (size_t)SIZES[i];
        unsigned char *out = malloc(bytes + 1), *in = malloc(bytes + 1);
        MPI_Request request;
        MPI_Status status;
        int count = -1;
        section("isendrecv");
        fill(out, bytes, (unsigned)check_rank);
        memset(in, 0xee, bytes);
        OK(MPI_Isendrecv(out, SIZES[i], MPI_BYTE, next, 1, in, SIZES[i], MPI_BYTE, previous, 1, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, &status));
        CHECK(request == MPI_REQUEST_NULL);
        SAME(status.MPI_SOURCE, previous);
        SAME(status.MPI_TAG, 1);
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        SAME(count, bytes);
        VERIFY(in, bytes, (unsigned)previous);
        section("isendrecv_replace");
        OK(MPI_Isendrecv_replace(out, SIZES[i], MPI_BYTE, next, 2, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request));
        for (int flag = 0; !flag;) OK(MPI_Test(&request, &flag, &status));
        SAME(status.MPI_SOURCE, previous);
        SAME(status.MPI_TAG, 2);
        VERIFY(out, bytes, (unsigned)previous);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        section("sendrecv_replace");
        OK(MPI_Sendrecv_replace(in, SIZES[i], MPI_BYTE, previous, 3, next, 3, MPI_COMM_WORLD, &status));
        VERIFY(in, bytes, (unsigned)check_rank);
        free(out);
        free(in);
    }
}

/* Several at once, waited for together with an ordinary request. */
static void several(void) {
    int out[COUNT], in[COUNT + 1], last = -5;
    MPI_Request requests[COUNT + 1];
    MPI_Status statuses[COUNT + 1];
    section("several exchanges at once");
    for (int i = 0; i < COUNT; i++) {
        out[i] = check_rank * 100 + i;
        OK(MPI_Isendrecv(&out[i], 1, MPI_INT, next, i, &in[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, &requests[i]));
    }
    OK(MPI_Irecv(&in[COUNT], 1, MPI_INT, next, 77, MPI_COMM_WORLD, &requests[COUNT]));
    OK(MPI_Send(&last, 1, MPI_INT, previous, 77, MPI_COMM_WORLD));
    OK(MPI_Waitall(COUNT + 1, requests, statuses));
    for (int i = 0; i < COUNT; i++) {
        SAME(in[i], previous * 100 + i);
        SAME(statuses[i].MPI_TAG, i);
        CHECK(requests[i] == MPI_REQUEST_NULL);
    }
    SAME(in[COUNT], -5);
}

static void unusual(void) {
    int out = 3, in[2] = {-1, -1}, pair[2] = {1, 2}, flag = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    section("MPI_PROC_NULL");
    OK(MPI_Isendrecv(&out, 1, MPI_INT, MPI_PROC_NULL, 1, in, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, &status));
    SAME(status.MPI_SOURCE, MPI_PROC_NULL);
    SAME(in[0], -1);
    section("truncation");
    OK(MPI_Isendrecv(pair, 2, MPI_INT, next, 4, in, 1, MPI_INT, previous, 4, MPI_COMM_WORLD, &request));
    CLASS(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE);
    SAME(in[1], -1);
    section("wrong arguments");
    request = MPI_REQUEST_NULL;
    CLASS(MPI_Isendrecv(&out, -1, MPI_INT, next, 1, in, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    CLASS(MPI_Isendrecv(&out, 1, MPI_INT, next, 1, in, 1, MPI_INT, check_size, 1, MPI_COMM_WORLD, &request), MPI_ERR_RANK);
    CLASS(MPI_Isendrecv(&out, 1, MPI_INT, next, -9, in, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &request), MPI_ERR_TAG);
    CLASS(MPI_Isendrecv_replace(in, 1, MPI_DATATYPE_NULL, next, 1, previous, 1, MPI_COMM_WORLD, &request), MPI_ERR_TYPE);
    CLASS(MPI_Isendrecv_replace(in, 1, MPI_INT, next, 1, previous, 1, MPI_COMM_NULL, &request), MPI_ERR_COMM);
    CHECK(request == MPI_REQUEST_NULL);
    section("nothing was left behind");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
    CHECK(!flag);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* What is sent is what stood there when the call was made, whatever is received into it. */
static void overlapping(void) {
    double values[8];
    MPI_Datatype even;
    MPI_Request request;
    section("isendrecv_replace, a datatype with gaps");
    OK(MPI_Type_vector(4, 1, 2, MPI_DOUBLE, &even));
    OK(MPI_Type_commit(&even));
    for (int i = 0; i < 8; i++) values[i] = check_rank * 10 + i;
    OK(MPI_Isendrecv_replace(values, 1, even, next, 6, previous, 6, MPI_COMM_WORLD, &request));
    OK(MPI_Type_free(&even));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < 8; i++) SAME(values[i], (i % 2 == 0 ? previous : check_rank) * 10 + i);
}

static void together(void) { OK(MPI_Barrier(MPI_COMM_WORLD)); }

/* Looks at several requests end none of them. */
static void looks(void) {
    int values[COUNT], value, index = 0, flag = 1, count = 0, indices[COUNT];
    MPI_Request requests[COUNT], nulls[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status, statuses[COUNT];
    section("looks at null requests");
    OK(MPI_Request_get_status_any(2, nulls, &index, &flag, &status));
    CHECK(flag);
    SAME(index, MPI_UNDEFINED);
    SAME(status.MPI_SOURCE, MPI_ANY_SOURCE);
    OK(MPI_Request_get_status_all(2, nulls, &flag, statuses));
    CHECK(flag);
    SAME(statuses[1].MPI_SOURCE, MPI_ANY_SOURCE);
    OK(MPI_Request_get_status_some(2, nulls, &count, indices, statuses));
    SAME(count, MPI_UNDEFINED);
    OK(MPI_Request_get_status_all(0, NULL, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag);
    section("looks at requests under way");
    for (int i = 0; i < COUNT; i++) OK(MPI_Irecv(&values[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Request_get_status_any(COUNT, requests, &index, &flag, &status));
    CHECK(!flag);
    OK(MPI_Request_get_status_all(COUNT, requests, &flag, statuses));
    CHECK(!flag);
    OK(MPI_Request_get_status_some(COUNT, requests, &count, indices, statuses));
    SAME(count, 0);
    together();
    section("looks at one that is over");
    value = 300;
    OK(MPI_Send(&value, 1, MPI_INT, next, 3, MPI_COMM_WORLD));
    for (flag = 0; !flag;) OK(MPI_Request_get_status_any(COUNT, requests, &index, &flag, &status));
    SAME(index, 3);
    SAME(status.MPI_TAG, 3);
    SAME(status.MPI_SOURCE, previous);
    OK(MPI_Request_get_status_some(COUNT, requests, &count, indices, statuses));
    SAME(count, 1);
    SAME(indices[0], 3);
    SAME(statuses[0].MPI_TAG, 3);
    OK(MPI_Request_get_status_all(COUNT, requests, &flag, statuses));
    CHECK(!flag);
    CHECK(requests[3] != MPI_REQUEST_NULL);
    together();
    section("looks at all, over");
    for (int i = 0; i < COUNT; i++) {
        value = 100 * i;
        if (i != 3) OK(MPI_Send(&value, 1, MPI_INT, next, i, MPI_COMM_WORLD));
    }
    for (flag = 0; !flag;) OK(MPI_Request_get_status_all(COUNT, requests, &flag, statuses));
    for (int i = 0; i < COUNT; i++) SAME(statuses[i].MPI_TAG, i);
    OK(MPI_Request_get_status_all(COUNT, requests, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag);
    OK(MPI_Waitall(COUNT, requests, statuses));
    for (int i = 0; i < COUNT; i++) SAME(values[i], 100 * i);
    section("looks, wrong arguments");
    STRICT_CLASS(MPI_Request_get_status_any(1, requests, NULL, &flag, &status), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Request_get_status_all(-1, requests, &flag, statuses), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Request_get_status_some(2, NULL, &count, indices, statuses), MPI_ERR_ARG);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    next = (check_rank + 1) % check_size;
    previous = (check_rank + check_size - 1) % check_size;
    ring();
    several();
    unusual();
    overlapping();
    looks();
    return check_close();
}
