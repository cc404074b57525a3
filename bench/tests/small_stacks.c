// ranks: 1 2 3
// not libfabric: its providers need more stack than that in calls of their own
// Threads with the smallest stack that there is, 16 KiB, send, receive, wait and take part in collective operations. What the threads
// of a program need for themselves comes out of it, too.
#include "check.h"

#include <pthread.h>

enum { STACK = 16 << 10, LONG = 1 << 20 };

static int *out, *in;

static void messages(int count) {
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    MPI_Request requests[2];
    for (int at = 0; at < count; at++) out[at] = check_rank + at, in[at] = -1;
    OK(MPI_Irecv(in, count, MPI_INT, previous, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(out, count, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int at = 0; at < count; at++) SAME(in[at], previous + at);
    if (check_size > 1) {
        if (check_rank == 0) OK(MPI_Send(out, count, MPI_INT, 1, 2, MPI_COMM_WORLD));
        if (check_rank == 1) OK(MPI_Recv(in, count, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (check_rank == 1) OK(MPI_Ssend(out, count, MPI_INT, 0, 3, MPI_COMM_WORLD));
        if (check_rank == 0) {
            MPI_Status status;
            OK(MPI_Probe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &status));
            OK(MPI_Recv(in, count, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &status));
        }
    }
}

static void together(int count) {
    for (int at = 0; at < count; at++) out[at] = at;
    OK(MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int at = 0; at < count; at++) SAME(in[at], at * check_size);
    OK(MPI_Bcast(out, count, MPI_INT, 0, MPI_COMM_WORLD));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Reduce(out, in, count, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD));
    MPI_Request request;
    OK(MPI_Iallreduce(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int at = 0; at < count; at++) SAME(in[at], at * check_size);
}

static void *work(void *unused) {
    static const int COUNTS[] = {0, 1, 100, 3000, 40000, LONG};
    (void)unused;
    for (int i = 0; i < 6; i++) {
        messages(COUNTS[i]);
        together(COUNTS[i]);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    pthread_attr_t small;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    check_world();
    out = malloc(LONG * sizeof *out), in = malloc(LONG * sizeof *in);
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, STACK) == 0);
    section("threads with small stacks");
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, &small, work, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    free(out);
    free(in);
    return check_close();
}
