// ranks: 4
// launch: --ft --timeout 120
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// Who has ended and who has not, however it looks from outside ("g9", and docs/decisions/0013): a process that is stopped, whose threads
// end, or that forks lives; one that has given way to another program is dead, and killed before that is told.
#include "known.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

enum { TAG = 5, GIVES_WAY = 1, LEAVES_A_CHILD = 2, LIVES = 3 };

static void pause_ms(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void *nothing(void *argument) { return argument; }

/* Threads that end, a child that ends, and a while in which this process is stopped: none of it is an end. */
static void seem_to_end(void) {
    pthread_t thread;
    pid_t child;
    for (int at = 0; at < 20; at++) {
        CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
        pthread_join(thread, NULL);
    }
    child = fork();
    if (child == 0) {
        /* Somebody who wakes this process when it is stopped. */
        pause_ms(700);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    CHECK(waitpid(child, NULL, 0) == child);
}

static void expect_end(int rank, int failed_before) {
    int word;
    CLASS(MPI_Recv(&word, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    SAME(known_failed(), failed_before + 1);
}

int main(int argc, char **argv) {
    int process, word = 7;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    section("who seems to have ended");
    if (check_rank == LIVES) {
        seem_to_end();
        for (int to = 0; to < LIVES; to++) OK(MPI_Send(&word, 1, MPI_INT, to, TAG, MPI_COMM_WORLD));
    } else {
        word = 0;
        OK(MPI_Recv(&word, 1, MPI_INT, LIVES, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        SAME(word, 7);
    }
    SAME(known_failed(), 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));

    section("g9: who gives way to another program");
    process = (int)getpid();
    OK(MPI_Bcast(&process, 1, MPI_INT, GIVES_WAY, MPI_COMM_WORLD));
    if (check_rank == GIVES_WAY) {
        /* When the others have it. */
        for (int from = 0; from < check_size; from++)
            if (from != GIVES_WAY) OK(MPI_Recv(&word, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        execlp("sleep", "sleep", "1000", (char *)NULL);
        CHECK(!"sleep is a program");
    }
    OK(MPI_Send(&word, 1, MPI_INT, GIVES_WAY, TAG, MPI_COMM_WORLD));
    expect_end(GIVES_WAY, 0);
    /* It was killed before that was told; the launcher takes it away. */
    while (kill((pid_t)process, 0) == 0) pause_ms(1);
    SAME(errno, ESRCH);

    section("who leaves a child behind");
    if (check_rank == LEAVES_A_CHILD) {
        /* When the others have looked. */
        OK(MPI_Recv(&word, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Recv(&word, 1, MPI_INT, LIVES, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (fork() == 0) {
            alarm(0);
            execlp("sleep", "sleep", "1000", (char *)NULL);
            _exit(1);
        }
        raise(SIGKILL);
    }
    OK(MPI_Send(&word, 1, MPI_INT, LEAVES_A_CHILD, TAG, MPI_COMM_WORLD));
    expect_end(LEAVES_A_CHILD, 1);
    section("closing");
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
