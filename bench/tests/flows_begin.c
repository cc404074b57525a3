// ranks: 2 5
// Which way the first data of two ranks on a communicator goes follows from what was done before, and both must see it alike, though one
// calls as most programs do and the other one in place or with a datatype that is built. Each time on a new communicator, on which
// there were barriers alone. Of five ranks, of which two do it, on two cpus, they share them.
#include "check.h"

#include <stdint.h>

enum { COMMUNICATORS = 300, OPERATIONS = 4, ELEMENTS_MAX = 2048 };

static const int LENGTHS[] = {1, 8, 64, 125, 270, 271, 512, 1024, 1025, 2048};
enum { LENGTH_COUNT = sizeof LENGTHS / sizeof *LENGTHS };

static unsigned draw(unsigned *state, unsigned end) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % end;
}

static int64_t value(int rank, int at, int round) { return (int64_t)rank * 1000003 + at * 17 + round; }

static void put(int64_t *where, int rank, int elements, int round) {
    for (int at = 0; at < elements; at++) where[at] = value(rank, at, round);
}

static void same(const int64_t *where, int rank, int elements, int round) {
    for (int at = 0; at < elements; at++) SAME(where[at], value(rank, at, round));
}

int main(int argc, char **argv) {
    static int64_t mine[ELEMENTS_MAX], all[2 * ELEMENTS_MAX];
    MPI_Datatype pair;
    unsigned common = 7, own;
    check_open(argc, argv);
    own = (unsigned)check_rank;
    OK(MPI_Type_contiguous(2, MPI_INT64_T, &pair));
    OK(MPI_Type_commit(&pair));
    /* The first two do it, and the others wait in the end. */
    MPI_Comm two;
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank < 2 ? 0 : MPI_UNDEFINED, 0, &two));
    for (int turn = 0; turn < COMMUNICATORS && two != MPI_COMM_NULL; turn++) {
        MPI_Comm comm;
        OK(MPI_Comm_dup(two, &comm));
        for (int i = 0; i < 5; i++) OK(MPI_Barrier(comm));
        for (int i = 0; i < OPERATIONS; i++) {
            int elements = LENGTHS[draw(&common, LENGTH_COUNT)], root = (int)draw(&common, 2), here = check_rank == root;
            int round = turn * OPERATIONS + i, is_built = elements % 2 == 0 && draw(&own, 2) == 0;
            int count = is_built ? elements / 2 : elements;
            MPI_Datatype type = is_built ? pair : MPI_INT64_T;
            switch (draw(&common, 3)) {
            case 0:
                put(here ? all + check_rank * elements : mine, check_rank, elements, round);
                OK(MPI_Gather(here ? MPI_IN_PLACE : mine, count, type, all, count, type, root, comm));
                for (int from = 0; from < 2 && here; from++) same(all + from * elements, from, elements, round);
                break;
            case 1:
                for (int to = 0; to < 2; to++) put(all + to * elements, to, elements, round);
                OK(MPI_Scatter(all, count, type, here ? MPI_IN_PLACE : mine, count, type, root, comm));
                if (!here) same(mine, check_rank, elements, round);
                break;
            default:
                put(mine, here ? root : 9, elements, round);
                OK(MPI_Bcast(mine, count, type, root, comm));
                same(mine, root, elements, round);
            }
        }
        OK(MPI_Comm_free(&comm));
    }
    if (two != MPI_COMM_NULL) OK(MPI_Comm_free(&two));
    OK(MPI_Type_free(&pair));
    return check_close();
}
