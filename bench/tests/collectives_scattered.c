// ranks: 2 3
// A reduce-scatter whose blocks differ in length, where some ranks have their elements in the result and others apart: that is each
// rank's own affair, and must not decide which way data goes. Also as the first operations of a communicator.
#include "check.h"

#include <stdint.h>

enum { ELEMENTS_MAX = 60000, LENGTHS = 7, SHAPES = 6, CALLS = 5 };

static int64_t value(int rank, int at, int round) { return (int64_t)rank * 1000003 + at * 17 + round; }

int main(int argc, char **argv) {
    static const int lengths[LENGTHS] = {1, 30, 300, 1024, 2048, 2049, 9000};
    /* How often a length each rank has. */
    static const int shapes[SHAPES][3] = {{1, 0, 1}, {0, 1, 0}, {1, 2, 1}, {2, 1, 0}, {1, 1, 1}, {3, 2, 1}};
    static int64_t out[ELEMENTS_MAX], in[ELEMENTS_MAX];
    char name[80];
    int round = 0;
    check_open(argc, argv);
    for (int length = 0; length < LENGTHS; length++)
        for (int shape = 0; shape < SHAPES; shape++)
            for (int who = 0; who < 1 << check_size; who++) {
                int counts[3], all = 0, first = 0, in_place = who >> check_rank & 1;
                for (int rank = 0; rank < check_size; rank++) {
                    counts[rank] = lengths[length] * shapes[shape][rank];
                    if (rank == check_rank) first = all;
                    all += counts[rank];
                }
                MPI_Comm comm;
                OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
                for (int call = 0; call < CALLS; call++, round++) {
                    snprintf(name, sizeof name, "%d elements, shape %d, in place %d, call %d", lengths[length], shape, who, call);
                    section(name);
                    for (int at = 0; at < all; at++) out[at] = in[at] = value(check_rank, at, round);
                    const void *from = in_place ? MPI_IN_PLACE : out;
                    OK(MPI_Reduce_scatter(from, in, counts, MPI_INT64_T, MPI_SUM, comm));
                    for (int at = 0; at < counts[check_rank]; at++) {
                        int64_t sum = 0;
                        for (int rank = 0; rank < check_size; rank++) sum += value(rank, first + at, round);
                        SAME(in[at], sum);
                    }
                    for (int at = 0; at < all; at++) SAME(out[at], value(check_rank, at, round));
                }
                OK(MPI_Comm_free(&comm));
            }
    return check_close();
}
