/* Pi as the area under 4 / (1 + x^2) between 0 and 1: each rank sums every size-th strip, and
 * the strips are added up over all ranks. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double my_strips(long strips, int rank, int size) {
    double width = 1.0 / (double)strips, sum = 0;
    for (long i = rank; i < strips; i += size) {
        double x = ((double)i + 0.5) * width;
        sum += 4.0 / (1.0 + x * x);
    }
    return sum * width;
}

int main(int argc, char **argv) {
    int rank, size;
    long strips = 10000000;
    double mine, pi = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0 && argc > 1) strips = atol(argv[1]);
    MPI_Bcast(&strips, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    if (strips < 1000) {
        if (rank == 0) fprintf(stderr, "pi: ask for 1000 strips or more\n");
        MPI_Finalize();
        return 2;
    }
    double start = MPI_Wtime();
    mine = my_strips(strips, rank, size);
    MPI_Reduce(&mine, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - start, error = fabs(pi - 3.14159265358979323846);
    if (rank == 0) printf("pi is %.12f, off by %.1e (%ld strips, %d ranks, %.3f s)\n", pi, error, strips, size, seconds);
    MPI_Finalize();
    return rank == 0 && error > 1e-6;
}
