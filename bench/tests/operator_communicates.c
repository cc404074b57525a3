// ranks: 2 3
// exit: nonzero
// says: an operator of the program
// says: the operator communicates
// An operator of a nonblocking operation that communicates is told, in a program of one thread as in operator_left.c in one of many.
// (MPI 5.0, section 6.9.5)
#include "check.h"

static void communicates(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)in, (void)inout, (void)count, (void)type;
    MPI_Barrier(MPI_COMM_SELF);
}

int main(int argc, char **argv) {
    int one = 1, sum = 0;
    MPI_Op op;
    MPI_Request request;
    check_open(argc, argv);
    OK(MPI_Op_create(communicates, 1, &op));
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, op, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    _exit(0); /* the job has ended before */
}
