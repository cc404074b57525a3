/* Not a test but a library for one: put before the MPI library with LD_PRELOAD, it turns one bit in
 * what some calls deliver, so that one can see whether a program notices. It also shows that a tool
 * can stand between a program and the library. (MPI 5.0, chapter 15) */
#include <mpi.h>

static void turn_a_bit(void *buffer, int count) {
    if (count > 0) *(unsigned char *)buffer ^= 4;
}

int MPI_Recv(void *buffer, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
             MPI_Status *status) {
    int code = PMPI_Recv(buffer, count, datatype, source, tag, comm, status);
    turn_a_bit(buffer, count);
    return code;
}

/* Only sums of doubles: the verdict at the end of a benchmark is a sum of longs. */
int MPI_Allreduce(const void *out, void *in, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
    int code = PMPI_Allreduce(out, in, count, datatype, op, comm);
    if (datatype == MPI_DOUBLE && op == MPI_SUM) turn_a_bit(in, count);
    return code;
}
