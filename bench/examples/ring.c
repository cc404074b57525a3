/* A token goes round the ring of ranks; each adds its number. Works with one rank, too. */
#include <mpi.h>
#include <stdio.h>

enum { TAG = 7, ROUNDS = 3 };

int main(int argc, char **argv) {
    int rank, size;
    long token = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request;
        if (rank == 0) {
            MPI_Isend(&token, 1, MPI_LONG, next, TAG, MPI_COMM_WORLD, &request);
            long arrived = -1;
            MPI_Recv(&arrived, 1, MPI_LONG, previous, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            token = arrived;
        } else {
            MPI_Recv(&token, 1, MPI_LONG, previous, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token += rank;
            MPI_Send(&token, 1, MPI_LONG, next, TAG, MPI_COMM_WORLD);
        }
    }
    long right = (long)ROUNDS * size * (size - 1) / 2;
    if (rank == 0) printf("the token went %d times round %d ranks and says %ld\n", ROUNDS, size, token);
    MPI_Finalize();
    if (rank == 0 && token != right) {
        fprintf(stderr, "ring: the token should say %ld\n", right);
        return 1;
    }
    return 0;
}
