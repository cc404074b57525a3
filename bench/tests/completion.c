// ranks: 1 2 3 8
// Every way of completing requests: wait and test of one, any, some and all; null and inactive
// requests; freeing and looking without freeing. (MPI 5.0, sections 3.7.3 to 3.7.6)
#include "check.h"

enum { COUNT = 6, GO = 99 };

static int partner;

/* Receives from the partner that cannot complete before `release` was called on the other side. */
static void post(int *values, MPI_Request *requests) {
    for (int i = 0; i < COUNT; i++) {
        values[i] = -1;
        OK(MPI_Irecv(&values[i], 1, MPI_INT, partner, i, MPI_COMM_WORLD, &requests[i]));
    }
}

/* Sends message `i` to the partner. Both do the same, so each one's receive number `i` completes. */
static void release(int i) {
    int value = 100 + i;
    OK(MPI_Send(&value, 1, MPI_INT, partner, i, MPI_COMM_WORLD));
}

/* Both sides have tested that nothing is there before either sends. */
static void together(void) {
    OK(MPI_Sendrecv(NULL, 0, MPI_INT, partner, GO, NULL, 0, MPI_INT, partner, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void check_message(const MPI_Status *status, int i, int value) {
    int count = -1;
    SAME(status->MPI_SOURCE, partner);
    SAME(status->MPI_TAG, i);
    OK(MPI_Get_count(status, MPI_INT, &count));
    SAME(count, 1);
    SAME(value, 100 + i);
}

static void check_empty(const MPI_Status *status) {
    int count = -1, cancelled = -1;
    SAME(status->MPI_SOURCE, MPI_ANY_SOURCE);
    SAME(status->MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Get_count(status, MPI_INT, &count));
    SAME(count, 0);
    OK(MPI_Test_cancelled(status, &cancelled));
    SAME(cancelled, 0);
}

static void null_requests(void) {
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status, statuses[3];
    int index = 0, flag = 0, count = 0, indices[3];
    section("null requests");
    memset(&status, 1, sizeof status);
    OK(MPI_Wait(&requests[0], &status));
    check_empty(&status);
    SAME(status.MPI_ERROR, MPI_SUCCESS);
    memset(&status, 1, sizeof status);
    OK(MPI_Test(&requests[0], &flag, &status));
    CHECK(flag);
    check_empty(&status);
    SAME(status.MPI_ERROR, MPI_SUCCESS);
    OK(MPI_Waitall(3, requests, statuses));
    for (int i = 0; i < 3; i++) check_empty(&statuses[i]);
    OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    flag = 0;
    OK(MPI_Testall(3, requests, &flag, statuses));
    CHECK(flag);
    memset(&status, 1, sizeof status);
    OK(MPI_Waitany(3, requests, &index, &status));
    SAME(index, MPI_UNDEFINED);
    check_empty(&status);
    SAME(status.MPI_ERROR, MPI_SUCCESS);
    flag = 0, index = 0;
    OK(MPI_Testany(3, requests, &index, &flag, &status));
    CHECK(flag);
    SAME(index, MPI_UNDEFINED);
    OK(MPI_Waitsome(3, requests, &count, indices, statuses));
    SAME(count, MPI_UNDEFINED);
    count = 0;
    OK(MPI_Testsome(3, requests, &count, indices, statuses));
    SAME(count, MPI_UNDEFINED);
    flag = 0;
    memset(&status, 1, sizeof status);
    OK(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status));
    CHECK(flag);
    check_empty(&status);
    SAME(status.MPI_ERROR, MPI_SUCCESS);
}

static void one(void) {
    int values[COUNT], flag = 1;
    MPI_Request requests[COUNT];
    MPI_Status status;
    section("test of one");
    post(values, requests);
    for (int i = 0; i < COUNT; i++) {
        flag = 1;
        OK(MPI_Test(&requests[i], &flag, &status));
        CHECK(!flag && requests[i] != MPI_REQUEST_NULL);
        OK(MPI_Request_get_status(requests[i], &flag, &status));
        CHECK(!flag);
    }
    together();
    for (int i = 0; i < COUNT; i++) release(i);
    for (int i = 0; i < COUNT / 2; i++) {
        for (flag = 0; !flag;) OK(MPI_Test(&requests[i], &flag, i == 0 ? MPI_STATUS_IGNORE : &status));
        CHECK(requests[i] == MPI_REQUEST_NULL);
        if (i > 0) check_message(&status, i, values[i]);
    }
    section("looking without freeing, then wait");
    for (int i = COUNT / 2; i < COUNT; i++) {
        for (flag = 0; !flag;) OK(MPI_Request_get_status(requests[i], &flag, &status));
        CHECK(requests[i] != MPI_REQUEST_NULL);
        check_message(&status, i, values[i]);
        OK(MPI_Wait(&requests[i], &status));
        check_message(&status, i, values[i]);
        CHECK(requests[i] == MPI_REQUEST_NULL);
    }
}

static void any(void) {
    int values[COUNT], flag = 1, index = -1, order[] = {3, 0, 5, 1, 4, 2};
    MPI_Request requests[COUNT];
    MPI_Status status;
    section("any");
    post(values, requests);
    OK(MPI_Testany(COUNT, requests, &index, &flag, &status));
    CHECK(!flag);
    SAME(index, MPI_UNDEFINED);
    together();
    for (int n = 0; n < COUNT; n++) {
        release(order[n]);
        if (n % 2 == 0) OK(MPI_Waitany(COUNT, requests, &index, &status));
        else for (flag = 0; !flag;) OK(MPI_Testany(COUNT, requests, &index, &flag, &status));
        SAME(index, order[n]);
        CHECK(requests[index] == MPI_REQUEST_NULL);
        check_message(&status, index, values[index]);
        together();
    }
    OK(MPI_Waitany(COUNT, requests, &index, MPI_STATUS_IGNORE));
    SAME(index, MPI_UNDEFINED);
}

/* Takes what is there until all six have come, each once. */
static void some(int waiting) {
    int values[COUNT], indices[COUNT], count = -1, seen[COUNT] = {0}, all = 0;
    MPI_Request requests[COUNT];
    MPI_Status statuses[COUNT];
    section(waiting ? "waitsome" : "testsome");
    post(values, requests);
    OK(MPI_Testsome(COUNT, requests, &count, indices, statuses));
    SAME(count, 0);
    together();
    for (int i = COUNT - 1; i >= 0; i--) release(i);
    while (all < COUNT) {
        if (waiting) OK(MPI_Waitsome(COUNT, requests, &count, indices, statuses));
        else OK(MPI_Testsome(COUNT, requests, &count, indices, statuses));
        CHECK(count >= (waiting ? 1 : 0) && count <= COUNT - all);
        for (int n = 0; n < count; n++) {
            SAME(seen[indices[n]]++, 0);
            CHECK(requests[indices[n]] == MPI_REQUEST_NULL);
            check_message(&statuses[n], indices[n], values[indices[n]]);
        }
        all += count;
    }
    OK(MPI_Waitsome(COUNT, requests, &count, indices, MPI_STATUSES_IGNORE));
    SAME(count, MPI_UNDEFINED);
}

static void all(void) {
    int values[COUNT + 1], flag = 1;
    MPI_Request requests[COUNT + 1];
    MPI_Status statuses[COUNT + 1];
    section("all");
    post(values, requests);
    requests[COUNT] = MPI_REQUEST_NULL;
    for (int i = 0; i < COUNT - 1; i++) release(i);
    for (int n = 0; n < 20; n++) {
        OK(MPI_Testall(COUNT + 1, requests, &flag, statuses));
        CHECK(!flag);
    }
    for (int i = 0; i < COUNT; i++) CHECK(requests[i] != MPI_REQUEST_NULL);
    together();
    release(COUNT - 1);
    for (flag = 0; !flag;) OK(MPI_Testall(COUNT + 1, requests, &flag, statuses));
    for (int i = 0; i < COUNT; i++) {
        CHECK(requests[i] == MPI_REQUEST_NULL);
        check_message(&statuses[i], i, values[i]);
    }
    check_empty(&statuses[COUNT]);
    section("waitall, statuses ignored");
    post(values, requests);
    for (int i = 0; i < COUNT; i++) release(i);
    OK(MPI_Waitall(COUNT + 1, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COUNT; i++) SAME(values[i], 100 + i);
}

/* A send that was freed is still delivered. */
static void freed(void) {
    static int value;
    int got = -1;
    MPI_Request request, receive;
    section("request_free");
    value = 500 + check_rank;
    OK(MPI_Irecv(&got, 1, MPI_INT, partner, 50, MPI_COMM_WORLD, &receive));
    OK(MPI_Isend(&value, 1, MPI_INT, partner, 50, MPI_COMM_WORLD, &request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    SAME(got, 500 + partner);
}

static void cancelled(void) {
    int value = -1, flag = 0;
    MPI_Request request;
    MPI_Status status;
    section("cancel of a receive");
    OK(MPI_Irecv(&value, 1, MPI_INT, partner, 60, MPI_COMM_WORLD, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);
    together();
    /* the message goes to the receive that comes after */
    int sent = 7;
    OK(MPI_Sendrecv(&sent, 1, MPI_INT, partner, 60, &value, 1, MPI_INT, partner, 60, MPI_COMM_WORLD, &status));
    SAME(value, 7);
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(!flag);
}

/* Thousands of requests at once, completed back to front. */
static void many(void) {
    enum { MANY = 3000 };
    static int sent[MANY], got[MANY];
    static MPI_Request sends[MANY], receives[MANY];
    section("thousands of requests");
    for (int i = 0; i < MANY; i++) {
        sent[i] = i * 3;
        OK(MPI_Irecv(&got[i], 1, MPI_INT, partner, i, MPI_COMM_WORLD, &receives[i]));
    }
    for (int i = 0; i < MANY; i++) OK(MPI_Isend(&sent[i], 1, MPI_INT, partner, i, MPI_COMM_WORLD, &sends[i]));
    for (int i = MANY - 1; i >= 0; i--) {
        OK(MPI_Wait(&receives[i], MPI_STATUS_IGNORE));
        SAME(got[i], 3 * i);
    }
    OK(MPI_Waitall(MANY, sends, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    partner = (check_rank ^ 1) < check_size ? check_rank ^ 1 : check_rank;
    null_requests();
    one();
    any();
    some(1);
    some(0);
    all();
    freed();
    cancelled();
    many();
    return check_close();
}
