/* What a small message costs in instructions, for `cargo system-tests instructions`: rank 0 sends 8 bytes
 * to rank 1, and valgrind counts inside `counted_send` and `counted_receive` only. No benchmark: it
 * measures no time, and is run under valgrind alone.
 *
 *     instructions burst FILE      all messages are sent, then all are received
 *     instructions turns FILE      each message is answered before the next is sent
 *     instructions window FILE     receives are posted, messages sent, and all waited for at once
 *     instructions turns-made FILE, window-made FILE   the same in a duplicate of the world
 *
 * A receive that must wait would count the waiting. So the ranks tell each other by a number in
 * FILE, outside of MPI, how far they are, and a receive begins when its message is there. */
#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    MESSAGES = 40, /* few enough that none waits for room */
    WARMUP = 100,
    TAG = 3,
    WATCHDOG_SECONDS = 60,
};

static MPI_Comm comm = MPI_COMM_WORLD;

/* Valgrind finds these by their names. */
__attribute__((noinline, noclone)) void counted_send(const double *value);
__attribute__((noinline, noclone)) void counted_receive(double *value);

void counted_send(const double *value) { MPI_Send(value, 1, MPI_DOUBLE, 1, TAG, comm); }

void counted_receive(double *value) {
    MPI_Recv(value, 1, MPI_DOUBLE, 0, TAG, comm, MPI_STATUS_IGNORE);
}

/* A window of messages, by the nonblocking calls: what each of them takes, and its share of the wait. */
__attribute__((noinline, noclone)) void counted_send_window(const double *values, MPI_Request *requests);
__attribute__((noinline, noclone)) void counted_receive_window(double *values, MPI_Request *requests);
__attribute__((noinline, noclone)) void counted_receive_wait(MPI_Request *requests);

static void send_window(const double *values, MPI_Request *requests) {
    for (int i = 0; i < MESSAGES; i++)
        MPI_Isend(&values[i], 1, MPI_DOUBLE, 1, TAG, comm, &requests[i]);
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
}

static void receive_window(double *values, MPI_Request *requests) {
    for (int i = 0; i < MESSAGES; i++)
        MPI_Irecv(&values[i], 1, MPI_DOUBLE, 0, TAG, comm, &requests[i]);
}

void counted_send_window(const double *values, MPI_Request *requests) { send_window(values, requests); }

void counted_receive_window(double *values, MPI_Request *requests) { receive_window(values, requests); }

void counted_receive_wait(MPI_Request *requests) {
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
}

static void answer(double value) { MPI_Send(&value, 1, MPI_DOUBLE, 0, TAG, comm); }

static double answered(void) {
    double value = -1;
    MPI_Recv(&value, 1, MPI_DOUBLE, 1, TAG, comm, MPI_STATUS_IGNORE);
    return value;
}

static void stop(const char *what) {
    fprintf(stderr, "instructions: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void expect(double got, double right) {
    char text[100];
    if (got == right) return;
    snprintf(text, sizeof text, "%g came, and %g was sent", got, right);
    stop(text);
}

/* The number in the file, which both ranks map. */
static atomic_int *shared_step(const char *path) {
    int file = open(path, O_RDWR);
    if (file < 0) stop("cannot open FILE");
    void *page = mmap(NULL, sizeof(atomic_int), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) stop("cannot map FILE: it must hold a few zero bytes");
    close(file);
    return page;
}

static void wait_for(const atomic_int *step, int number) {
    const struct timespec pause = {0, 200000};
    while (atomic_load(step) != number) nanosleep(&pause, NULL);
}

/* Whatever is made at the first message is there afterwards. */
static void warm_up(int rank) {
    for (int i = 0; i < WARMUP; i++) {
        double value = i;
        if (rank == 0) {
            MPI_Send(&value, 1, MPI_DOUBLE, 1, TAG, comm);
            expect(answered(), i);
        } else {
            MPI_Recv(&value, 1, MPI_DOUBLE, 0, TAG, comm, MPI_STATUS_IGNORE);
            answer(value);
        }
    }
}

static void burst(int rank, atomic_int *step) {
    for (int i = 0; i < MESSAGES && rank == 0; i++) {
        double value = i;
        counted_send(&value);
    }
    if (rank == 0) atomic_store(step, 1);
    wait_for(step, 1);
    for (int i = 0; i < MESSAGES && rank == 1; i++) {
        double value = -1;
        counted_receive(&value);
        expect(value, i);
    }
}

static void turns(int rank, atomic_int *step) {
    for (int i = 0; i < MESSAGES; i++) {
        double value = i;
        if (rank == 0) {
            counted_send(&value);
            atomic_store(step, 2 * i + 1);
            wait_for(step, 2 * i + 2);
            expect(answered(), i);
        } else {
            wait_for(step, 2 * i + 1);
            counted_receive(&value);
            answer(value);
            atomic_store(step, 2 * i + 2);
        }
    }
}

static void window(int rank, atomic_int *step) {
    double values[MESSAGES];
    MPI_Request requests[MESSAGES];
    /* What grows with the first window is there afterwards. */
    if (rank == 0) {
        for (int i = 0; i < MESSAGES; i++) values[i] = i;
        send_window(values, requests);
        answered();
    } else {
        receive_window(values, requests);
        MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
        answer(0);
        counted_receive_window(values, requests);
        atomic_store(step, 1);
    }
    wait_for(step, rank == 0 ? 1 : 2);
    if (rank == 0) {
        counted_send_window(values, requests);
        atomic_store(step, 2);
        return;
    }
    counted_receive_wait(requests);
    for (int i = 0; i < MESSAGES; i++) expect(values[i], i);
}

int main(int argc, char **argv) {
    int rank, size;
    alarm(WATCHDOG_SECONDS);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3 || size != 2) stop("start it with two ranks as: instructions burst|turns|window|turns-made|window-made FILE");
    atomic_int *step = shared_step(argv[2]);
    if (strstr(argv[1], "-made") != NULL) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    warm_up(rank);
    if (strcmp(argv[1], "burst") == 0) burst(rank, step);
    else if (strncmp(argv[1], "turns", 5) == 0) turns(rank, step);
    else if (strncmp(argv[1], "window", 6) == 0) window(rank, step);
    else stop("say burst, turns or window, turns-made or window-made");
    /* Under valgrind there is no vdso, and the clock must be read all the same. */
    if (MPI_Wtime() <= 0) stop("MPI_Wtime tells no time");
    if (rank == 0) printf("messages: %d\n", MESSAGES);
    MPI_Finalize();
    return 0;
}
