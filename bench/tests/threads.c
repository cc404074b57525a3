// ranks: 1 2 3
// Four threads of each rank at once, with MPI_THREAD_MULTIPLE: messages under tags of their own,
// then on communicators of their own, then collectives. (MPI 5.0, section 11.6)
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 300, BYTES_MAX = 20000 };

struct worker {
    pthread_t thread;
    int number;
    MPI_Comm comm;
    int by_tag; /* all threads on one communicator, told apart by tag */
};

static void ping_pong(struct worker *worker, unsigned char *out, unsigned char *in) {
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    int tag = worker->by_tag ? worker->number : 0;
    for (int round = 0; round < ROUNDS; round++) {
        int bytes = round % 10 == 9 ? BYTES_MAX : round;
        unsigned seed = (unsigned)(worker->number * 1000 + round);
        MPI_Request request;
        fill(out, (size_t)bytes, seed + (unsigned)check_rank);
        OK(MPI_Isend(out, bytes, MPI_BYTE, next, tag, worker->comm, &request));
        OK(MPI_Recv(in, BYTES_MAX, MPI_BYTE, previous, tag, worker->comm, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        VERIFY(in, (size_t)bytes, seed + (unsigned)previous);
    }
}

static void *message_worker(void *argument) {
    unsigned char *out = malloc(BYTES_MAX), *in = malloc(BYTES_MAX);
    int main_thread = -1;
    OK(MPI_Is_thread_main(&main_thread));
    SAME(main_thread, 0);
    ping_pong(argument, out, in);
    free(out);
    free(in);
    return NULL;
}

static void *collective_worker(void *argument) {
    struct worker *worker = argument;
    for (int round = 0; round < ROUNDS / 10; round++) {
        int mine = check_rank + worker->number * 100 + round, sum = -1;
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, worker->comm));
        SAME(sum, check_size * (check_size - 1) / 2 + check_size * (worker->number * 100 + round));
    }
    return NULL;
}

static void run(const char *name, struct worker *workers, void *(*body)(void *)) {
    section(name);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i].thread, NULL, body, &workers[i]) != 0)
            check_failed(__FILE__, __LINE__, "cannot start a thread");
    for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
}

/* One thread waits in a receive while others work; the library must not stand still. */
static void *waiting_worker(void *argument) {
    int got = -1;
    (void)argument;
    OK(MPI_Recv(&got, 1, MPI_INT, (check_rank + check_size - 1) % check_size, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(got, 77);
    return NULL;
}

int main(int argc, char **argv) {
    struct worker workers[THREADS];
    pthread_t waiting;
    int provided = -1, word = 77;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    SAME(provided, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.number = i, .comm = MPI_COMM_WORLD, .by_tag = 1};
    }
    if (pthread_create(&waiting, NULL, waiting_worker, NULL) != 0)
        check_failed(__FILE__, __LINE__, "cannot start a thread");
    run("threads by tag", workers, message_worker);
    for (int i = 0; i < THREADS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm));
        workers[i].by_tag = 0;
    }
    run("threads by communicator", workers, message_worker);
    run("threads in collectives", workers, collective_worker);
    section("the waiting thread");
    OK(MPI_Send(&word, 1, MPI_INT, (check_rank + 1) % check_size, 1000, MPI_COMM_WORLD));
    pthread_join(waiting, NULL);
    for (int i = 0; i < THREADS; i++) OK(MPI_Comm_free(&workers[i].comm));
    return check_close();
}
