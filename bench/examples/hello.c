/* Every rank says where it runs; rank 0 prints them in order. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 512, TAG = 1 };

int main(int argc, char **argv) {
    int rank, size, length;
    char name[MPI_MAX_PROCESSOR_NAME], line[LINE];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &length);
    snprintf(line, sizeof line, "hello from rank %d of %d on %s", rank, size, name);
    if (rank != 0) {
        MPI_Send(line, (int)strlen(line) + 1, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
    } else {
        printf("%s\n", line);
        for (int from = 1; from < size; from++) {
            MPI_Recv(line, LINE, MPI_CHAR, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            printf("%s\n", line);
        }
    }
    MPI_Finalize();
    return 0;
}
