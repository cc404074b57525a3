// ranks: 2 3
// exit: nonzero
// says: an operator of the program
// says: longjmp has left it
// An operator of a nonblocking operation that longjmp leaves keeps what its operation holds: the next call of that thread tells so, and
// does not wait for ever.
#include "check.h"

#include <setjmp.h>

static jmp_buf before;

static void leaves(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)in, (void)inout, (void)count, (void)type;
    longjmp(before, 1);
}

int main(int argc, char **argv) {
    int one = 1, sum = 0, provided;
    MPI_Op op;
    MPI_Request request;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    check_world();
    OK(MPI_Op_create(leaves, 1, &op));
    if (!setjmp(before)) {
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, op, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    _exit(0); /* the job has ended before */
}
