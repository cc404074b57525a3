// ranks: 1 2 3 4
// Many threads of each rank at once, of all kinds that there are: blocking messages and windows of nonblocking ones on
// one communicator and on several, receives from anybody by one thread and by two, messages to oneself, collective
// operations on communicators of their own, and threads that only look. Every content is checked. (MPI 5.0, section 11.6)
#define _DEFAULT_SOURCE
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { ROUNDS = 60, WINDOW = 12, BYTES_MAX = 70000, TAKERS = 2, WORKERS_MAX = 32 };

struct worker {
    pthread_t thread;
    int number; /* of its kind */
    MPI_Comm comm;
    void (*work)(struct worker *);
};

static int next_rank, previous_rank;

/* Sizes on both sides of whatever a library changes its ways at. */
static int bytes_of(int round, int number) {
    static const int sizes[] = {0, 1, 8, 33, 240, 1000, 4096, 9000, 20000, BYTES_MAX};
    return sizes[(round * 7 + number * 3) % (int)(sizeof sizes / sizeof *sizes)];
}

static unsigned seed_of(int from, int number, int round) {
    return (unsigned)(from * 100003 + number * 1009 + round);
}

/* ---- by tag, on one communicator ---- */

static void blocking(struct worker *me) {
    unsigned char *out = malloc(BYTES_MAX), *in = malloc(BYTES_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        int bytes = bytes_of(round, me->number), got;
        MPI_Status status;
        fill(out, (size_t)bytes, seed_of(check_rank, me->number, round));
        /* In a ring somebody has to receive first; alone nobody can. */
        if (check_size == 1) {
            OK(MPI_Sendrecv(out, bytes, MPI_BYTE, 0, me->number, in, BYTES_MAX, MPI_BYTE, 0, me->number, me->comm, &status));
        } else if (check_rank == 0) {
            OK(MPI_Recv(in, BYTES_MAX, MPI_BYTE, previous_rank, me->number, me->comm, &status));
            OK(MPI_Send(out, bytes, MPI_BYTE, next_rank, me->number, me->comm));
        } else {
            OK(MPI_Send(out, bytes, MPI_BYTE, next_rank, me->number, me->comm));
            OK(MPI_Recv(in, BYTES_MAX, MPI_BYTE, previous_rank, me->number, me->comm, &status));
        }
        OK(MPI_Get_count(&status, MPI_BYTE, &got));
        SAME(got, bytes);
        VERIFY(in, (size_t)bytes, seed_of(previous_rank, me->number, round));
    }
    free(out);
    free(in);
}

/* Ends a window in one of the ways that there are. */
static void complete(int count, MPI_Request *requests, int way) {
    int done = 0, indices[2 * WINDOW], index, flag = 0;
    switch (way % 4) {
    case 0: OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE)); break;
    case 1:
        for (done = 0; done < count; done++) {
            OK(MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE));
            CHECK(index >= 0 && index < count);
        }
        break;
    case 2:
        while (done < count) {
            int some = 0;
            OK(MPI_Testsome(count, requests, &some, indices, MPI_STATUSES_IGNORE));
            if (some != MPI_UNDEFINED) done += some;
        }
        break;
    default:
        while (!flag) OK(MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE));
    }
}

static void windows(struct worker *me) {
    unsigned char *out = malloc((size_t)WINDOW * BYTES_MAX), *in = malloc((size_t)WINDOW * BYTES_MAX);
    MPI_Request requests[2 * WINDOW];
    for (int round = 0; round < ROUNDS / 4; round++) {
        for (int i = 0; i < WINDOW; i++) {
            int bytes = bytes_of(round + i, me->number);
            fill(out + (size_t)i * BYTES_MAX, (size_t)bytes, seed_of(check_rank, me->number, round * WINDOW + i));
            memset(in + (size_t)i * BYTES_MAX, 0, (size_t)bytes);
        }
        for (int i = 0; i < WINDOW; i++) {
            int bytes = bytes_of(round + i, me->number);
            size_t at = (size_t)i * BYTES_MAX;
            OK(MPI_Irecv(in + at, bytes, MPI_BYTE, previous_rank, me->number, me->comm, &requests[2 * i]));
            OK(MPI_Isend(out + at, bytes, MPI_BYTE, next_rank, me->number, me->comm, &requests[2 * i + 1]));
        }
        complete(2 * WINDOW, requests, round + me->number);
        for (int i = 0; i < WINDOW; i++)
            VERIFY(in + (size_t)i * BYTES_MAX, (size_t)bytes_of(round + i, me->number),
                   seed_of(previous_rank, me->number, round * WINDOW + i));
    }
    free(out);
    free(in);
}

/* ---- from anybody ---- */

/* Each rank sends to each one in each round; of one sender they come in order. */
static void anybody(struct worker *me) {
    int *next = calloc((size_t)check_size, sizeof *next), word[2];
    MPI_Request *requests = malloc((size_t)check_size * sizeof *requests);
    for (int round = 0; round < ROUNDS; round++) {
        word[0] = check_rank;
        word[1] = round;
        for (int to = 0; to < check_size; to++)
            OK(MPI_Isend(word, 2, MPI_INT, to, round % 5, me->comm, &requests[to]));
        for (int i = 0; i < check_size; i++) {
            MPI_Status status;
            int got[2] = {-1, -1};
            OK(MPI_Recv(got, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, me->comm, &status));
            SAME(got[0], status.MPI_SOURCE);
            SAME(got[1], next[status.MPI_SOURCE]);
            SAME(status.MPI_TAG, got[1] % 5);
            next[status.MPI_SOURCE]++;
        }
        OK(MPI_Waitall(check_size, requests, MPI_STATUSES_IGNORE));
    }
    for (int from = 0; from < check_size; from++) SAME(next[from], ROUNDS);
    free(requests);
    free(next);
}

/* Several threads take messages from one communicator: each message goes to one of them, whole. */
static atomic_int taken;

static void giver(struct worker *me) {
    unsigned char *out = malloc(BYTES_MAX);
    for (int round = 0; round < ROUNDS; round++)
        for (int to = 0; to < check_size; to++) {
            int bytes = bytes_of(round, 0);
            fill(out, (size_t)bytes, seed_of(check_rank, to, round));
            OK(MPI_Send(out, bytes, MPI_BYTE, to, round, me->comm));
        }
    free(out);
}

static void taker(struct worker *me) {
    unsigned char *in = malloc(BYTES_MAX);
    int all = ROUNDS * check_size;
    while (atomic_load(&taken) < all) {
        MPI_Message message;
        MPI_Status status;
        int found = 0, bytes;
        OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, me->comm, &found, &message, &status));
        if (!found) {
            sched_yield();
            continue;
        }
        OK(MPI_Get_count(&status, MPI_BYTE, &bytes));
        SAME(bytes, bytes_of(status.MPI_TAG, 0));
        OK(MPI_Mrecv(in, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE));
        VERIFY(in, (size_t)bytes, seed_of(status.MPI_SOURCE, check_rank, status.MPI_TAG));
        atomic_fetch_add(&taken, 1);
    }
    free(in);
}

/* ---- to oneself ---- */

static atomic_int echoes;

static void caller(struct worker *me) {
    for (int round = 0; round < ROUNDS; round++) {
        int back = -1;
        OK(MPI_Ssend(&round, 1, MPI_INT, check_rank, 1, me->comm));
        OK(MPI_Recv(&back, 1, MPI_INT, check_rank, 2, me->comm, MPI_STATUS_IGNORE));
        SAME(back, ~round);
    }
    SAME(atomic_load(&echoes), ROUNDS);
}

static void echo(struct worker *me) {
    for (int round = 0; round < ROUNDS; round++) {
        int got = -1, back;
        OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, me->comm, MPI_STATUS_IGNORE));
        SAME(got, round);
        back = ~got;
        atomic_fetch_add(&echoes, 1);
        OK(MPI_Send(&back, 1, MPI_INT, check_rank, 2, me->comm));
    }
}

/* ---- collective operations ---- */

static int sum_of(int round, int number) {
    return check_size * (check_size - 1) / 2 + check_size * (round * 31 + number);
}

static void collectives(struct worker *me) {
    int *all = malloc((size_t)check_size * sizeof *all), *out = malloc((size_t)check_size * sizeof *out);
    enum { LONG = 5000 };
    int *words = malloc(LONG * sizeof *words);
    for (int round = 0; round < ROUNDS / 2; round++) {
        int mine = check_rank + round * 31 + me->number, sum = -1, root = round % check_size, later = -1;
        MPI_Request request;
        OK(MPI_Iallreduce(&mine, &later, 1, MPI_INT, MPI_SUM, me->comm, &request));
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, me->comm));
        SAME(sum, sum_of(round, me->number));
        for (int i = 0; i < LONG; i++) words[i] = check_rank == root ? root * 7 + i + round : -1;
        OK(MPI_Bcast(words, LONG, MPI_INT, root, me->comm));
        for (int i = 0; i < LONG; i++) SAME(words[i], root * 7 + i + round);
        for (int to = 0; to < check_size; to++) out[to] = check_rank * 1000 + to * 10 + me->number;
        OK(MPI_Alltoall(out, 1, MPI_INT, all, 1, MPI_INT, me->comm));
        for (int from = 0; from < check_size; from++) SAME(all[from], from * 1000 + check_rank * 10 + me->number);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        SAME(later, sum_of(round, me->number));
        OK(MPI_Barrier(me->comm));
    }
    free(words);
    free(out);
    free(all);
}

/* ---- looking only ---- */

static atomic_int working;

static void watcher(struct worker *me) {
    while (atomic_load(&working) > 0) {
        int flag = -1;
        MPI_Status status;
        OK(MPI_Iprobe(MPI_ANY_SOURCE, 77, me->comm, &flag, &status));
        SAME(flag, 0);
        sched_yield();
    }
}

static void *run(void *argument) {
    struct worker *me = argument;
    me->work(me);
    if (me->work != watcher) atomic_fetch_sub(&working, 1);
    return NULL;
}

/* ---- all at once ---- */

static struct worker workers[WORKERS_MAX];
static int workers_count;

static void add(void (*work)(struct worker *), int number, MPI_Comm comm) {
    CHECK(workers_count < WORKERS_MAX);
    workers[workers_count++] = (struct worker){.number = number, .comm = comm, .work = work};
}

/* Begins and ends them; each rank begins them in another order. */
static void all_at_once(const char *name) {
    section(name);
    atomic_store(&working, 0);
    for (int i = 0; i < workers_count; i++)
        if (workers[i].work != watcher) atomic_fetch_add(&working, 1);
    for (int i = 0; i < workers_count; i++) {
        struct worker *worker = &workers[(i + check_rank) % workers_count];
        if (pthread_create(&worker->thread, NULL, run, worker) != 0)
            check_failed(__FILE__, __LINE__, "cannot start a thread");
    }
    for (int i = 0; i < workers_count; i++) pthread_join(workers[i].thread, NULL);
    workers_count = 0;
}

int main(int argc, char **argv) {
    enum { COMMS = 8 };
    MPI_Comm comms[COMMS];
    int provided = -1;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    SAME(provided, MPI_THREAD_MULTIPLE);
    check_world();
    next_rank = (check_rank + 1) % check_size;
    previous_rank = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < COMMS; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));

    for (int i = 0; i < 4; i++) add(blocking, i, MPI_COMM_WORLD);
    all_at_once("blocking messages on one communicator");
    for (int i = 0; i < 4; i++) add(windows, i, MPI_COMM_WORLD);
    all_at_once("windows on one communicator");
    for (int i = 0; i < 4; i++) add(windows, i, comms[i]);
    all_at_once("windows on several communicators");
    for (int i = 0; i < TAKERS; i++) add(taker, i, comms[0]);
    add(giver, 0, comms[0]);
    add(anybody, 0, comms[1]);
    add(anybody, 1, comms[2]);
    all_at_once("receives from anybody");
    for (int i = 0; i < 4; i++) add(collectives, i, comms[i]);
    all_at_once("collective operations on several communicators");
    atomic_store(&taken, 0);
    add(blocking, 0, MPI_COMM_WORLD);
    add(blocking, 1, MPI_COMM_WORLD);
    add(windows, 2, MPI_COMM_WORLD);
    add(windows, 3, comms[0]);
    add(anybody, 0, comms[1]);
    for (int i = 0; i < TAKERS; i++) add(taker, i, comms[2]);
    add(giver, 0, comms[2]);
    add(collectives, 0, comms[3]);
    add(collectives, 1, comms[4]);
    add(caller, 0, comms[5]);
    add(echo, 0, comms[5]);
    add(watcher, 0, comms[6]);
    all_at_once("everything at once");
    for (int i = 0; i < COMMS; i++) OK(MPI_Comm_free(&comms[i]));
    return check_close();
}
