// ranks: 1 2 4
// not libfabric: it measures memory, and a provider goes through all of its own before it takes the first again
// bare: it measures memory, which a sanitizer keeps for a while after it was freed
// Contexts: they never run out, never cross, and what is freed leaves nothing behind. (MPI 5.0, section 7.1.1)
#include "check.h"

#include <stdio.h>

/* Kibibytes of memory that belong to this process alone. */
static long private_kib(void) {
    char line[256];
    long kib = 0, number = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Private_Dirty: %ld", &number) == 1) kib += number;
    if (file != NULL) fclose(file);
    return kib;
}

static void cycle(int rounds) {
    MPI_Comm copy;
    for (int round = 0; round < rounds; round++) {
        int sum = 0, one = 1;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
        if (round % 64 == 0) {
            OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy));
            SAME(sum, check_size);
        }
        OK(MPI_Comm_free(&copy));
    }
}

/* What a cycle costs must not be kept. 100,000 communicators of 100 bytes would be 10 MB. */
static void flat(void) {
    int rounds = check_size == 1 ? 100000 : check_size == 2 ? 30000 : 3000;
    section("made and freed many times");
    cycle(rounds / 2);
    long before = private_kib();
    cycle(rounds);
    section("made and freed many times: memory");
    long after = private_kib();
    CHECK(after < before + 1024);
    MPI_Comm copy;
    section("of one process");
    for (int round = 0; round < 100000; round++) {
        OK(MPI_Comm_dup(MPI_COMM_SELF, &copy));
        OK(MPI_Comm_free(&copy));
    }
}

/* Messages that nobody receives before their communicator is freed must not turn up in another. */
static void strayed(void) {
    enum { STRAY = 40 };
    MPI_Comm copy, next[STRAY];
    int to = (check_rank + 1) % check_size, value = 0, flag = 1;
    /* MPICH refuses to free a communicator that has such messages. */
    if (check_library_is("MPICH")) return;
    section("messages that were left behind");
    for (int i = 0; i < STRAY; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
        OK(MPI_Send(&value, 1, MPI_INT, to, 0, copy));
        OK(MPI_Comm_free(&copy));
    }
    for (int i = 0; i < STRAY; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &next[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < STRAY; i++) {
        OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, next[i], &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        OK(MPI_Comm_free(&next[i]));
    }
}

/* A receive that is posted keeps its communicator's traffic apart, also when the handle is gone and others come. */
static void under_way(void) {
    enum { LATE = 20 };
    MPI_Comm copy, next;
    MPI_Request receives[LATE], sends[LATE];
    int got[LATE], from = (check_rank + check_size - 1) % check_size, to = (check_rank + 1) % check_size;
    MPI_Comm kept[LATE];
    section("freed while messages are under way");
    for (int i = 0; i < LATE; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &kept[i]));
        got[i] = -1;
        OK(MPI_Irecv(&got[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, &receives[i]));
        OK(MPI_Isend(&check_rank, 1, MPI_INT, to, i, copy, &sends[i]));
        OK(MPI_Comm_free(&copy));
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &next));
        int other = -7, sent = 1000 + i;
        MPI_Request request;
        OK(MPI_Irecv(&other, 1, MPI_INT, from, MPI_ANY_TAG, next, &request));
        OK(MPI_Send(&sent, 1, MPI_INT, to, i, next));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        SAME(other, 1000 + i);
        OK(MPI_Comm_free(&next));
    }
    OK(MPI_Waitall(LATE, receives, MPI_STATUSES_IGNORE));
    OK(MPI_Waitall(LATE, sends, MPI_STATUSES_IGNORE));
    for (int i = 0; i < LATE; i++) {
        SAME(got[i], from);
        OK(MPI_Comm_free(&kept[i]));
    }
}

/* Communicators of parts, made and freed in different numbers on different processes. */
static void uneven(void) {
    MPI_Comm mine, copy;
    section("parts that have different histories");
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &mine));
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < (check_rank % 2 ? 3 : 7); i++) {
            OK(MPI_Comm_dup(mine, &copy));
            OK(MPI_Comm_free(&copy));
        }
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
        int sum = 0, one = 1;
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy));
        SAME(sum, check_size);
        OK(MPI_Comm_free(&copy));
    }
    OK(MPI_Comm_free(&mine));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    flat();
    strayed();
    under_way();
    uneven();
    return check_close();
}
