// ranks: 1 2 3
// Requests and buffers that several threads have to do with at once, and requests that are given up
// before they are over. (MPI 5.0, sections 3.6, 3.7.3, 3.8.4 and 11.6)
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 4, MESSAGES = 200, BYTES = 3000 };

static int next_rank, previous_rank;

static void nap(long milliseconds) {
    struct timespec time = {.tv_sec = 0, .tv_nsec = milliseconds * 1000000};
    nanosleep(&time, NULL);
}

/* Every thread sends through the one attached buffer; whoever has no room waits for it. */
static void *buffered_worker(void *argument) {
    int number = *(int *)argument;
    unsigned char *out = malloc(BYTES);
    for (int i = 0; i < MESSAGES; i++) {
        int code, class = MPI_SUCCESS;
        fill(out, BYTES, (unsigned)(check_rank + number * 1000 + i));
        do {
            code = MPI_Bsend(out, BYTES, MPI_BYTE, next_rank, number, MPI_COMM_WORLD);
            MPI_Error_class(code, &class);
            CHECK(class == MPI_SUCCESS || class == MPI_ERR_BUFFER);
        } while (class == MPI_ERR_BUFFER);
        memset(out, 0, BYTES); /* the copy is the library's own */
    }
    free(out);
    return NULL;
}

/* Waits for what is in the buffer now, while others put more there. */
static void *flushing_worker(void *argument) {
    (void)argument;
    for (int i = 0; i < MESSAGES; i++) OK(MPI_Buffer_flush());
    return NULL;
}

static void buffered(void) {
    static int numbers[THREADS];
    pthread_t threads[THREADS], flushing;
    int bytes = 16 * (BYTES + MPI_BSEND_OVERHEAD), detached_bytes = 0;
    void *memory = malloc((size_t)bytes), *detached = NULL;
    unsigned char *in = malloc(BYTES);
    int next[THREADS] = {0};
    section("buffered sends of four threads");
    OK(MPI_Buffer_attach(memory, bytes));
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, buffered_worker, &numbers[i]) != 0)
            check_failed(__FILE__, __LINE__, "cannot start a thread");
    }
    if (pthread_create(&flushing, NULL, flushing_worker, NULL) != 0)
        check_failed(__FILE__, __LINE__, "cannot start a thread");
    /* Whichever comes: the messages of one thread may fill the buffer, and need not leave it before they are received. */
    for (int i = 0; i < THREADS * MESSAGES; i++) {
        MPI_Status status;
        OK(MPI_Recv(in, BYTES, MPI_BYTE, previous_rank, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        CHECK(status.MPI_TAG >= 0 && status.MPI_TAG < THREADS);
        VERIFY(in, BYTES, (unsigned)(previous_rank + status.MPI_TAG * 1000 + next[status.MPI_TAG]++));
    }
    for (int number = 0; number < THREADS; number++) SAME(next[number], MESSAGES);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    pthread_join(flushing, NULL);
    OK(MPI_Buffer_detach(&detached, &detached_bytes));
    CHECK(detached == memory);
    SAME(detached_bytes, bytes);
    free(memory);
    free(in);
}

static MPI_Request waited_for;

static void *waiter(void *argument) {
    MPI_Status status;
    int cancelled = -1;
    (void)argument;
    OK(MPI_Wait(&waited_for, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    SAME(cancelled, 1);
    return NULL;
}

/* Only completing a request twice is wrong; cancelling what another thread waits for is not. */
static void cancelled_while_waited_for(void) {
    pthread_t thread;
    int word = 0;
    MPI_Request same;
    section("cancelled while another thread waits");
    OK(MPI_Irecv(&word, 1, MPI_INT, previous_rank, 99, MPI_COMM_WORLD, &waited_for));
    same = waited_for;
    if (pthread_create(&thread, NULL, waiter, NULL) != 0) check_failed(__FILE__, __LINE__, "cannot start a thread");
    nap(20);
    OK(MPI_Cancel(&same));
    pthread_join(thread, NULL);
}

static void *self_sender(void *argument) {
    (void)argument;
    for (int i = 0; i < MESSAGES; i++) {
        int word = -1;
        OK(MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE));
        OK(MPI_Send(&word, 1, MPI_INT, 0, 2, MPI_COMM_SELF));
    }
    return NULL;
}

/* Two threads of one rank talk to each other; a sleeper that is not woken makes this very long. */
static void talk_to_oneself(void) {
    pthread_t thread;
    section("threads of one rank talk");
    if (pthread_create(&thread, NULL, self_sender, NULL) != 0)
        check_failed(__FILE__, __LINE__, "cannot start a thread");
    for (int i = 0; i < MESSAGES; i++) {
        int word = -1;
        if (i % 20 == 0) nap(5); /* long enough for the other to fall asleep */
        OK(MPI_Send(&i, 1, MPI_INT, 0, 1, MPI_COMM_SELF));
        OK(MPI_Recv(&word, 1, MPI_INT, 0, 2, MPI_COMM_SELF, MPI_STATUS_IGNORE));
        SAME(word, i);
    }
    pthread_join(thread, NULL);
}

/* A receive that is given up still fills its buffer, gaps left alone. */
static void given_up(void) {
    int out[2] = {7, 8}, in[4] = {-1, -1, -1, -1}, token = 1;
    MPI_Datatype gapped;
    MPI_Request request;
    section("a receive that is given up");
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &gapped));
    OK(MPI_Type_commit(&gapped));
    OK(MPI_Irecv(in, 1, gapped, previous_rank, 5, MPI_COMM_WORLD, &request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Send(out, 2, MPI_INT, next_rank, 5, MPI_COMM_WORLD));
    OK(MPI_Sendrecv_replace(&token, 1, MPI_INT, next_rank, 6, previous_rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* what came before the token is there */
    SAME(in[0], 7);
    SAME(in[1], -1);
    SAME(in[2], 8);
    SAME(in[3], -1);
    OK(MPI_Type_free(&gapped));
}

/* Several threads look for messages of one tag and take them, each its own; with `waits` they sleep until there is one. */
enum { TAKEN = 600, TAKE_TAG = 9, LONGEST = 60000 };

static atomic_int left_to_take, left_to_find;

/* Lengths on both sides of what comes at once; each message is known by its length. */
static int length_of(int number) { return number % 40 == 0 ? LONGEST - number : 1 + number * 13; }

static void *taker(void *argument) {
    int waits = *(int *)argument;
    unsigned char *room = malloc(LONGEST);
    while (waits ? atomic_fetch_sub(&left_to_take, 1) > 0 : atomic_load(&left_to_find) > 0) {
        MPI_Message message;
        MPI_Request request;
        MPI_Status status;
        int flag = 1, bytes = -1;
        if (waits) OK(MPI_Mprobe(MPI_ANY_SOURCE, TAKE_TAG, MPI_COMM_WORLD, &message, &status));
        else OK(MPI_Improbe(MPI_ANY_SOURCE, TAKE_TAG, MPI_COMM_WORLD, &flag, &message, &status));
        if (!flag) continue;
        atomic_fetch_sub(&left_to_find, 1);
        SAME(status.MPI_SOURCE, previous_rank);
        OK(MPI_Get_count(&status, MPI_BYTE, &bytes));
        if (bytes % 2 == 0) {
            OK(MPI_Mrecv(room, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Imrecv(room, bytes, MPI_BYTE, &message, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        CHECK(message == MPI_MESSAGE_NULL);
        VERIFY(room, (size_t)bytes, (unsigned)bytes);
    }
    free(room);
    return NULL;
}

static void taken_by_several(int waits) {
    static MPI_Request requests[TAKEN];
    static unsigned char *out[TAKEN];
    pthread_t threads[THREADS];
    section(waits ? "taken by several threads that wait" : "taken by several threads that look");
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* all that came before is taken */
    atomic_store(&left_to_take, TAKEN);
    atomic_store(&left_to_find, TAKEN);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, taker, &waits) == 0);
    for (int i = 0; i < TAKEN; i++) {
        out[i] = malloc((size_t)length_of(i));
        fill(out[i], (size_t)length_of(i), (unsigned)length_of(i));
        if (waits && i % 100 == 0) nap(2); /* long enough for some to fall asleep */
        OK(MPI_Isend(out[i], length_of(i), MPI_BYTE, next_rank, TAKE_TAG, MPI_COMM_WORLD, &requests[i]));
    }
    OK(MPI_Waitall(TAKEN, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < TAKEN; i++) free(out[i]);
}

int main(int argc, char **argv) {
    int provided = MPI_THREAD_SINGLE;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    SAME(provided, MPI_THREAD_MULTIPLE);
    check_world();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    next_rank = (check_rank + 1) % check_size;
    previous_rank = (check_rank + check_size - 1) % check_size;
    buffered();
    cancelled_while_waited_for();
    talk_to_oneself();
    given_up();
    taken_by_several(0);
    taken_by_several(1);
    return check_close();
}
