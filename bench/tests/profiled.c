// ranks: 1 2 3
// A program that defines functions of MPI itself, as a tool that is linked into it does: each sees the
// calls of the program, reaches the library by its profiling name, and is never called by the library.
// (MPI 5.0, chapter 15)
#include "check.h"

static int sends, receives, reductions, barriers;

int MPI_Send(const void *data, int count, MPI_Datatype datatype, int rank, int tag, MPI_Comm comm) {
    sends++;
    return PMPI_Send(data, count, datatype, rank, tag, comm);
}

int MPI_Recv(void *data, int count, MPI_Datatype datatype, int rank, int tag, MPI_Comm comm,
             MPI_Status *status) {
    receives++;
    return PMPI_Recv(data, count, datatype, rank, tag, comm, status);
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
    reductions++;
    return PMPI_Allreduce(from, to, count, datatype, op, comm);
}

int MPI_Barrier(MPI_Comm comm) {
    barriers++;
    return PMPI_Barrier(comm);
}

static void messages(void) {
    int next = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size, got = -1;
    MPI_Request request;
    section("messages");
    OK(PMPI_Irecv(&got, 1, MPI_INT, from, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Send(&check_rank, 1, MPI_INT, next, 1, MPI_COMM_WORLD));
    OK(PMPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(got == from && sends == 1);
    OK(PMPI_Isend(&check_rank, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &request));
    OK(MPI_Recv(&got, 1, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(PMPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(got == from && receives == 1);
}

static void collectives(void) {
    int sum = -1;
    section("collectives");
    OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == check_size * (check_size - 1) / 2 && reductions == 1);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(barriers == 1);
}

/* Calls inside of which a library may well communicate. */
static void others(void) {
    MPI_Comm copy, half;
    MPI_Win window;
    int *memory;
    section("others");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_split(copy, check_rank % 2, 0, &half));
    OK(MPI_Win_allocate((MPI_Aint)sizeof *memory, (int)sizeof *memory, MPI_INFO_NULL, copy, &memory, &window));
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_free(&window));
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&copy));
    OK(PMPI_Barrier(MPI_COMM_WORLD));
    CHECK(sends == 1 && receives == 1 && reductions == 1 && barriers == 1);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    sends = receives = reductions = barriers = 0;
    messages();
    collectives();
    others();
    return check_close();
}
