// ranks: 1 2
// What signals do is the program's affair: MPI_Init changes nothing of it, over whatever fabric. (MPI 5.0,
// section 2.9.2)
#include "check.h"

#include <signal.h>

/// Signals have the numbers below this, where none is for real time.
enum { SIGNALS = 32, FLAGS = SA_RESTART | SA_SIGINFO | SA_NODEFER | SA_NOCLDWAIT };

static struct sigaction before[SIGNALS];

/// libfabric's provider for shared memory removes its file at signals that end a process, then calls what was there before.
static int is_the_providers(int number) {
    const char *fabric = getenv("WEFT_FABRIC");
    int ends = number == SIGINT || number == SIGTERM || number == SIGBUS || number == SIGSEGV;
    return ends && fabric && strstr(fabric, "libfabric:shm");
}

/// Handlers and flags as they were.
static void same_as_before(void) {
    for (int number = 1; number < SIGNALS; number++) {
        struct sigaction now;
        if (sigaction(number, NULL, &now) != 0 || is_the_providers(number)) continue;
        if (now.sa_handler != before[number].sa_handler) fprintf(stderr, "signal %d has another handler\n", number);
        CHECK(now.sa_handler == before[number].sa_handler);
        CHECK((now.sa_flags & FLAGS) == (before[number].sa_flags & FLAGS));
    }
}

static void mine(int number) { (void)number; }

int main(int argc, char **argv) {
    struct sigaction own;
    memset(&own, 0, sizeof own);
    own.sa_handler = mine;
    own.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGSEGV, &own, NULL) == 0);
    CHECK(sigaction(SIGUSR1, &own, NULL) == 0);
    check_watchdog();
    for (int number = 1; number < SIGNALS; number++) sigaction(number, NULL, &before[number]);
    check_open(argc, argv);
    section("after MPI_Init");
    same_as_before();
    int word = check_rank, sum = 0;
    OK(MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    section("after an operation");
    same_as_before();
    return check_close();
}
