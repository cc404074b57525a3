// ranks: 1 2
// Generalized requests: operations of the program's own that are waited for, looked at, cancelled and freed like those
// of the library. (MPI 5.0, section 13.2)
#include "check.h"

#include <pthread.h>
#include <sched.h>

struct operation {
    int queries, frees, cancels, complete_at_cancel, answer, answer_of_free;
    MPI_Request request;
};

static int query(void *extra, MPI_Status *status) {
    struct operation *operation = extra;
    operation->queries++;
    OK(MPI_Status_set_elements(status, MPI_INT, 7));
    OK(MPI_Status_set_cancelled(status, operation->cancels > 0));
    status->MPI_SOURCE = 42;
    status->MPI_TAG = 43;
    return operation->answer;
}

static int release(void *extra) {
    struct operation *operation = extra;
    operation->frees++;
    return operation->answer_of_free;
}

static int cancel(void *extra, int complete) {
    struct operation *operation = extra;
    operation->cancels++;
    operation->complete_at_cancel = complete;
    return MPI_SUCCESS;
}

static struct operation *start(void) {
    struct operation *operation = calloc(1, sizeof *operation);
    OK(MPI_Grequest_start(query, release, cancel, operation, &operation->request));
    CHECK(operation->request != MPI_REQUEST_NULL);
    return operation;
}

static void check_status(const MPI_Status *status, int was_cancelled) {
    int count = -1, flag = -1;
    SAME(status->MPI_SOURCE, 42);
    SAME(status->MPI_TAG, 43);
    OK(MPI_Get_count(status, MPI_INT, &count));
    SAME(count, 7);
    OK(MPI_Test_cancelled(status, &flag));
    SAME(flag, was_cancelled);
}

static void alone(void) {
    struct operation *operation = start();
    MPI_Status status;
    int flag = 1;
    section("test, look, wait");
    OK(MPI_Test(&operation->request, &flag, &status));
    CHECK(!flag);
    OK(MPI_Request_get_status(operation->request, &flag, &status));
    CHECK(!flag);
    SAME(operation->queries, 0);
    OK(MPI_Grequest_complete(operation->request));
    OK(MPI_Request_get_status(operation->request, &flag, &status));
    CHECK(flag);
    check_status(&status, 0);
    SAME(operation->frees, 0); /* a look does not end it */
    OK(MPI_Wait(&operation->request, &status));
    check_status(&status, 0);
    CHECK(operation->request == MPI_REQUEST_NULL);
    SAME(operation->frees, 1);
    free(operation);
}

static void among_others(void) {
    struct operation *operations[2] = {start(), start()};
    int value = -1, sent = 5, flag = 1, index = -1;
    MPI_Request requests[4] = {operations[0]->request, MPI_REQUEST_NULL, operations[1]->request};
    MPI_Status statuses[4];
    section("among other requests");
    OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &requests[3]));
    OK(MPI_Testany(4, requests, &index, &flag, &statuses[0]));
    CHECK(!flag);
    OK(MPI_Grequest_complete(requests[2]));
    OK(MPI_Waitany(4, requests, &index, &statuses[0]));
    SAME(index, 2);
    check_status(&statuses[0], 0);
    SAME(operations[1]->frees, 1);
    OK(MPI_Testall(4, requests, &flag, statuses));
    CHECK(!flag);
    OK(MPI_Grequest_complete(requests[0]));
    OK(MPI_Send(&sent, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD));
    OK(MPI_Waitall(4, requests, statuses));
    check_status(&statuses[0], 0);
    SAME(statuses[3].MPI_SOURCE, check_rank);
    SAME(value, 5);
    SAME(operations[0]->frees, 1);
    free(operations[0]);
    free(operations[1]);
}

static void freed(void) {
    struct operation *operation = start();
    MPI_Request kept = operation->request;
    section("freed before it is complete");
    OK(MPI_Request_free(&operation->request));
    CHECK(operation->request == MPI_REQUEST_NULL);
    SAME(operation->frees, 0);
    OK(MPI_Grequest_complete(kept));
    SAME(operation->frees, 1);
    SAME(operation->queries, 0);
    free(operation);
    section("freed when it is complete");
    operation = start();
    OK(MPI_Grequest_complete(operation->request));
    OK(MPI_Request_free(&operation->request));
    SAME(operation->frees, 1);
    SAME(operation->queries, 0);
    free(operation);
}

static void cancelled(void) {
    struct operation *operation = start();
    MPI_Status status;
    section("cancel");
    OK(MPI_Cancel(&operation->request));
    SAME(operation->cancels, 1);
    SAME(operation->complete_at_cancel, 0);
    OK(MPI_Grequest_complete(operation->request));
    OK(MPI_Cancel(&operation->request));
    CHECK(operation->complete_at_cancel);
    OK(MPI_Wait(&operation->request, &status));
    check_status(&status, 1);
    free(operation);
}

/* What the program's function answers is what the call answers. */
static void failing(void) {
    struct operation *operation = start(), *good = start();
    MPI_Request requests[2];
    MPI_Status statuses[2];
    section("a query that fails");
    operation->answer = MPI_ERR_FILE;
    OK(MPI_Grequest_complete(operation->request));
    CLASS(MPI_Wait(&operation->request, &statuses[0]), MPI_ERR_FILE);
    SAME(operation->frees, 1);
    free(operation);
    operation = start();
    operation->answer = MPI_ERR_FILE;
    requests[0] = good->request, requests[1] = operation->request;
    OK(MPI_Grequest_complete(requests[0]));
    OK(MPI_Grequest_complete(requests[1]));
    CLASS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    CLASS(statuses[0].MPI_ERROR, MPI_SUCCESS);
    CLASS(statuses[1].MPI_ERROR, MPI_ERR_FILE);
    SAME(good->frees, 1);
    SAME(operation->frees, 1);
    free(operation);
    free(good);
}

/* Where both functions fail, the code of the one that was called last counts, which lets go of the operation. */
static void failing_twice(void) {
    struct operation *operations[3];
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int indices[3], count, index;
    section("a query and a free function that fail");
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 3; i++) {
            operations[i] = start();
            operations[i]->answer = i == 0 ? MPI_SUCCESS : MPI_ERR_IO;
            operations[i]->answer_of_free = i == 2 ? MPI_SUCCESS : MPI_ERR_QUOTA;
            requests[i] = operations[i]->request;
            OK(MPI_Grequest_complete(requests[i]));
        }
        const int right[3] = {MPI_ERR_QUOTA, MPI_ERR_QUOTA, MPI_ERR_IO};
        switch (round) {
        case 0:
            for (int i = 0; i < 3; i++) CLASS(MPI_Wait(&requests[i], MPI_STATUS_IGNORE), right[i]);
            break;
        case 1:
            for (int i = 0; i < 3; i++) CLASS(MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE), right[i]);
            break;
        case 2:
            CLASS(MPI_Waitall(3, requests, statuses), MPI_ERR_IN_STATUS);
            for (int i = 0; i < 3; i++) CLASS(statuses[i].MPI_ERROR, right[i]);
            break;
        default:
            CLASS(MPI_Waitsome(3, requests, &count, indices, statuses), MPI_ERR_IN_STATUS);
            SAME(count, 3);
            for (int i = 0; i < 3; i++) CLASS(statuses[i].MPI_ERROR, right[indices[i]]);
        }
        for (int i = 0; i < 3; i++) {
            SAME(operations[i]->frees, 1);
            CHECK(requests[i] == MPI_REQUEST_NULL);
            free(operations[i]);
        }
    }
}

static void wrong(void) {
    struct operation *operation = start();
    int value;
    MPI_Request kept = operation->request, receive;
    section("wrong arguments");
    OK(MPI_Grequest_complete(kept));
    STRICT_CLASS(MPI_Grequest_complete(kept), MPI_ERR_REQUEST); /* twice */
    OK(MPI_Wait(&operation->request, MPI_STATUS_IGNORE));
    free(operation);
    if (check_library_is("MPICH")) return;
    CLASS(MPI_Grequest_complete(kept), MPI_ERR_REQUEST);
    CLASS(MPI_Grequest_complete(MPI_REQUEST_NULL), MPI_ERR_REQUEST);
    CLASS(MPI_Grequest_start(query, release, cancel, NULL, NULL), MPI_ERR_ARG);
    OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, 2, MPI_COMM_WORLD, &receive));
    CLASS(MPI_Grequest_complete(receive), MPI_ERR_REQUEST);
    OK(MPI_Cancel(&receive));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
}

static void *complete_later(void *request) {
    for (int i = 0; i < 1000; i++) sched_yield();
    OK(MPI_Grequest_complete(*(MPI_Request *)request));
    return NULL;
}

/* What the requests are for: another thread does the work. */
static void by_a_thread(void) {
    section("completed by another thread while this one waits");
    for (int round = 0; round < 5; round++) {
        struct operation *operation = start();
        MPI_Request copy = operation->request;
        MPI_Status status;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, complete_later, &copy) == 0);
        if (round % 2 == 0) OK(MPI_Wait(&operation->request, &status));
        else OK(MPI_Waitall(1, &operation->request, &status));
        check_status(&status, 0);
        SAME(operation->frees, 1);
        CHECK(pthread_join(thread, NULL) == 0);
        free(operation);
    }
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    alone();
    among_others();
    freed();
    cancelled();
    failing();
    failing_twice();
    wrong();
    by_a_thread();
    return check_close();
}
