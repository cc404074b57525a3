// ranks: 3 4
// launch: --ft
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// A descriptor that tells of failures (MPIX_Failure_fd): who sleeps on it, and calls nothing of MPI, wakes when another is killed.
#define _POSIX_C_SOURCE 200809L
#include "known.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

enum { TAG = 5, FOR_EVER = -1 };

/* Whether it is readable, waiting so many milliseconds. */
static int readable(int fd, int milliseconds) {
    struct pollfd polled = {fd, POLLIN, 0};
    int count = poll(&polled, 1, milliseconds);
    CHECK(count >= 0);
    return count == 1 && (polled.revents & POLLIN) != 0;
}

/* Reads all that is there. */
static void take(int fd) {
    char bytes[16];
    ssize_t got = read(fd, bytes, sizeof bytes);
    CHECK(got > 0);
    while (got > 0) got = read(fd, bytes, sizeof bytes);
    CHECK(got < 0 && errno == EAGAIN);
}

static int descriptor(void) {
    int fd = -1;
    OK(MPIX_Failure_fd(&fd));
    CHECK(fd > 2);
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    return fd;
}

/* `victim` dies when those who live have said that they are about to sleep. */
static void all_wait_for_the_end_of(int victim) {
    int word = 0;
    if (check_rank == victim) {
        for (int from = 0; from < victim; from++)
            OK(MPI_Recv(&word, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        poll(NULL, 0, 20);
        raise(SIGKILL);
    }
    OK(MPI_Send(&word, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD));
}

/* A child that shares the descriptor, and looks, and does not read. */
static pid_t child_that_looks(int fd) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(readable(fd, FOR_EVER) ? 0 : 1);
    return child;
}

int main(int argc, char **argv) {
    int first, second, third, status = -1;
    char byte;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));

    section("nobody has failed");
    CLASS(MPIX_Failure_fd(NULL), MPI_ERR_ARG);
    first = descriptor();
    second = descriptor();
    CHECK(first != second);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(!readable(first, 20) && !readable(second, 0));
    CHECK(read(first, &byte, 1) < 0 && errno == EAGAIN);

    section("one dies while the others sleep on the descriptor");
    all_wait_for_the_end_of(check_size - 1);
    CHECK(readable(first, FOR_EVER));
    CHECK(readable(first, 0));
    take(first);
    CHECK(!readable(first, 0));
    /* The other one has news of its own. */
    CHECK(readable(second, FOR_EVER));
    take(second);
    SAME(known_failed(), 1);
    third = descriptor();
    CHECK(!readable(third, 20) && !readable(first, 0) && !readable(second, 0));
    close(third);

    section("one was closed, and a child has the other, too");
    close(first);
    if (check_rank < check_size - 2) {
        pid_t child = child_that_looks(second);
        all_wait_for_the_end_of(check_size - 2);
        CHECK(readable(second, FOR_EVER));
        CHECK(waitpid(child, &status, 0) == child);
        SAME(status, 0);
        /* No call has told of it yet. */
        third = descriptor();
        CHECK(readable(third, 0));
        take(second);
        take(third);
        SAME(known_failed(), 2);
        CHECK(!readable(second, 0) && !readable(third, 0));
    } else {
        all_wait_for_the_end_of(check_size - 2);
    }

    section("closing");
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    CHECK(readable(second, FOR_EVER));
    while (read(second, &byte, 1) > 0) {}
    SAME(read(second, &byte, 1), 0);
    close(second);
    close(third);
    return 0;
}
