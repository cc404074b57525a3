// Ends as its argument says, for tests of launchers:
//   killed, leaves, aborts   rank 1 is killed, exits without a word, or aborts when all have talked to each other
//   early, rung, shot        rank 1 never joins: it returns, the same while a timer interrupts the others, or it is killed
//   within                   rank 1 is killed in MPI_Init, where it is the first
//   late                     rank 1 joins when the others have waited for it, and all is well
//   apart                    rank 2 shares no memory with the others, and all is well
//   well
//
// Where all is well, each rank has talked to each other one, all have done operations of few bytes, and rank 0 prints `ok`.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

// The rank before MPI_Init, by whichever launcher.
static int told_rank(void) {
    const char *names[] = {"PMIX_RANK", "PMI_RANK", "PMI_ID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i])) return atoi(getenv(names[i]));
    return 0;
}

static void nap(int milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static void ring(int signal) { (void)signal; }

// So many that they go by memory that all see, where all share some.
static int operations(int rank, int size) {
    int right = 1;
    for (int i = 0; i < 20; i++) {
        int value = rank == i % size ? i : -1, one = 1, sum = 0;
        MPI_Bcast(&value, 1, MPI_INT, i % size, MPI_COMM_WORLD);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        right = right && value == i && sum == size;
    }
    return right;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "well";
    if (!strcmp(how, "apart") && told_rank() == 2) setenv("WEFT_FABRIC", "tcp", 1);
    if (!strcmp(how, "early") && told_rank() == 1) return 3;
    if (!strcmp(how, "rung")) {
        struct itimerval often = {{0, 10000}, {0, 10000}};
        struct sigaction action = {.sa_handler = ring};
        if (told_rank() == 1) return 3;
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
    }
    if (!strcmp(how, "shot") && told_rank() == 1) raise(SIGKILL);
    if (!strcmp(how, "late") && told_rank() == 1) nap(2500);
    if (!strcmp(how, "within") && told_rank() == 1) alarm(2);
    // The last one comes when that has rung, so that all are in MPI_Init until then.
    if (!strcmp(how, "within") && told_rank() != 1) nap(told_rank() == 0 ? 4000 : 500);
    MPI_Init(&argc, &argv);
    int rank, size, node_size, right = 1;
    MPI_Comm node;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &node_size);
    int *sent = malloc(sizeof *sent * (size_t)size), *got = malloc(sizeof *got * (size_t)size);
    for (int i = 0; i < size; i++) sent[i] = rank * size + i;
    MPI_Alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) right = right && got[i] == i * size + rank;
    right = operations(rank, size) && right;
    if (rank == 1 && !strcmp(how, "killed")) raise(SIGKILL);
    if (rank == 1 && !strcmp(how, "leaves")) exit(5);
    if (rank == 1 && !strcmp(how, "aborts")) MPI_Abort(MPI_COMM_WORLD, 7);
    int all_right = 0;
    MPI_Allreduce(&right, &all_right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0) printf("%d ranks, %d on this node\n%s\n", size, node_size, all_right ? "ok" : "wrong");
    MPI_Finalize();
    return !all_right;
}
