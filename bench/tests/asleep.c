// ranks: 4
// launch: --ft --timeout 120
// not libfabric: who sleeps over it wakes now and then to look
// Who waits long for a message sleeps, whatever fabrics are open, and is woken by it: a process that took naps would give its cpu
// away and take it back a thousand times in a second, and this counts how often it does. The message comes from near and from afar.
#define _GNU_SOURCE 1
#include "check.h"

#include <sys/resource.h>
#include <time.h>

enum { TAG = 3, PAUSE_MS = 500, ROUNDS = 20, SWITCHES_MAX = 250 };

static void pause_ms(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static long switches(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_nvcsw;
}

/* Rank `from` sends to all others after a pause; none of them may have woken more often than so many times in a second. */
static void wait_long_for(int from) {
    int word = from;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == from) {
        pause_ms(PAUSE_MS);
        for (int to = 0; to < check_size; to++)
            if (to != from) OK(MPI_Send(&word, 1, MPI_INT, to, TAG, MPI_COMM_WORLD));
        return;
    }
    long before = switches();
    double began = seconds();
    OK(MPI_Recv(&word, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    double rate = (double)(switches() - before) / (seconds() - began);
    SAME(word, from);
    if (rate > SWITCHES_MAX) printf("rank %d woke %.0f times in a second\n", check_rank, rate);
    CHECK(rate <= SWITCHES_MAX);
}

int main(int argc, char **argv) {
    int word = 0, last;
    check_open(argc, argv);
    last = check_size - 1;

    section("one rank sends late to all");
    for (int from = 0; from < check_size; from++) wait_long_for(from);

    section("each wakes the next one");
    for (int round = 0; round < ROUNDS; round++) {
        if (check_rank == 0) {
            pause_ms(5);
            OK(MPI_Send(&round, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD));
            OK(MPI_Recv(&word, 1, MPI_INT, last, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Recv(&word, 1, MPI_INT, check_rank - 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Send(&word, 1, MPI_INT, (check_rank + 1) % check_size, TAG, MPI_COMM_WORLD));
        }
        SAME(word, round);
    }
    return check_close();
}
