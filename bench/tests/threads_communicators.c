// ranks: 1 2 3
// Threads that make communicators from different ones at the same time, in whatever order they come: nobody waits for
// another, and no two get the same context. (MPI 5.0, sections 7.4.2 and 11.6.2)
#include "check.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, ROUNDS = 25 };

static MPI_Comm lines[THREADS];

/* Thread t works on line t only; how far it is differs from rank to rank. */
static void *work(void *argument) {
    int line = (int)(size_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm copy, part, later;
        MPI_Request request;
        int sum = 0, mine = 1 << line, got = -1;
        for (int turn = 0; turn < (check_rank + line + round) % 3; turn++) sched_yield();
        OK(MPI_Comm_idup(lines[line], &later, &request));
        OK(MPI_Comm_dup(lines[line], &copy));
        OK(MPI_Comm_split(copy, 0, -check_rank, &part));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, part));
        SAME(sum, check_size << line);
        int sent = line * 1000 + round, to = (check_rank + 1) % check_size;
        OK(MPI_Isend(&sent, 1, MPI_INT, to, 0, later, &request));
        OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, later, MPI_STATUS_IGNORE));
        SAME(got, sent);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Comm_free(&later));
        OK(MPI_Comm_free(&part));
        OK(MPI_Comm_free(&copy));
    }
    return NULL;
}

/* create_group by two threads on one communicator, told apart by their tags. */
static void *partial(void *argument) {
    int tag = (int)(size_t)argument;
    MPI_Group world;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm made;
        int sum = 0;
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, world, tag, &made));
        OK(MPI_Allreduce(&tag, &sum, 1, MPI_INT, MPI_SUM, made));
        SAME(sum, tag * check_size);
        OK(MPI_Comm_free(&made));
    }
    OK(MPI_Group_free(&world));
    return NULL;
}

static void all_at_once(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    /* In another order on each rank. */
    for (int i = 0; i < THREADS; i++) {
        int line = (i + check_rank) % THREADS;
        CHECK(pthread_create(&threads[i], NULL, body, (void *)(size_t)line) == 0);
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv) {
    int provided = -1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    SAME(provided, MPI_THREAD_MULTIPLE);
    section("duplicates and splits by several threads");
    for (int line = 0; line < THREADS; line++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &lines[line]));
    all_at_once(work);
    section("create_group by several threads");
    all_at_once(partial);
    for (int line = 0; line < THREADS; line++) OK(MPI_Comm_free(&lines[line]));
    return check_close();
}
