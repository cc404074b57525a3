/* A rank of MPI_COMM_WORLD that dies, and the others learn of it. */
#ifndef WEFT_VICTIM_H
#define WEFT_VICTIM_H

#include "check.h"

#include <mpix_ft.h>

/* It dies when all others are through with what was before. */
static void dies(int rank) {
    int lives = 0;
    OK(MPIX_Comm_live_size(MPI_COMM_WORLD, &lives));
    if (check_rank != rank) OK(MPI_Send(NULL, 0, MPI_INT, rank, 1, MPI_COMM_WORLD));
    if (check_rank == rank) {
        for (int others = lives - 1; others > 0; others--)
            OK(MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        fflush(NULL);
        raise(SIGKILL);
    }
    while (MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS) {}
}

#endif
