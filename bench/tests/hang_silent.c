// ranks: 2
// launch: -x WEFT_HANG_NOTICE=0.3
// says not: have slept in MPI
// A rank that waits for one that sleeps, computes, or looks for messages in a loop is no hang, and neither is one that gets a
// message now and then: nothing is told. (docs/running.md, When something goes wrong)
#include "check.h"

#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void nap(double seconds) {
    struct timespec time = {0, (long)(seconds * 1e9)};
    nanosleep(&time, NULL);
}

static void meet(int value) {
    if (check_rank == 0) OK(MPI_Send(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD));
    else OK(MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv) {
    int flag = 0, value = 0;
    double until;
    check_open(argc, argv);
    section("the other sleeps");
    if (check_rank == 0) nap(0.9);
    meet(1);
    section("the other computes");
    for (until = now() + 0.9; check_rank == 0 && now() < until;) value++;
    meet(2);
    section("the other looks for a message that does not come");
    for (until = now() + 0.9; check_rank == 0 && now() < until;)
        OK(MPI_Iprobe(1, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    meet(3);
    section("messages come now and then");
    for (int i = 0; i < 6; i++) {
        if (check_rank == 0) nap(0.2);
        meet(i);
    }
    return check_close();
}
