// ranks: 2 3
// Which way a collective operation of two goes follows from who gave what before, and both must see it alike: many operations in
// an order that is drawn by lot, of lengths around those at which another way is taken, blocking and begun, and each rank calls
// with a plain datatype or one that is built, as its own lot says. Contents are verified.
#include "check.h"

#include <stdint.h>

enum { ROUNDS = 40000, BYTES_MAX = 280000, ALIKE_MAX = 12, LONG_IN = 12 };

enum operation {
    BARRIER, BCAST, GATHER, SCATTER, GATHERV, SCATTERV, ALLTOALLV, SCAN, EXSCAN, REDUCE, ALLREDUCE, IBCAST, OPERATIONS
};

static const int LIMITS[] = {8, 64, 112, 128, 256, 512, 1024, 2048, 2160, 4096, 8192, 16384};
enum { LIMIT_COUNT = sizeof LIMITS / sizeof *LIMITS };
/* Drawn once among LONG_IN others. */
static const int LONG_LIMITS[] = {32768, 65536, 98304, 196608, 262144};
enum { LONG_COUNT = sizeof LONG_LIMITS / sizeof *LONG_LIMITS };

static unsigned long draw(unsigned long *state, unsigned long end) {
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return (*state >> 33) % end;
}

static unsigned char *out, *in;
static int *counts, *places;
static MPI_Datatype pair;
static char named_section[100];

/* Elements of eight bytes, as the rank chooses to name them. */
static void named(unsigned long *own, int elements, int *count, MPI_Datatype *datatype) {
    int is_built = elements % 2 == 0 && draw(own, 2) == 0;
    *count = is_built ? elements / 2 : elements;
    *datatype = is_built ? pair : MPI_INT64_T;
}

static int64_t value(int rank, int at, int round) { return (int64_t)rank * 1000003 + at * 17 + round; }

static void put_values(unsigned char *where, int rank, int first, int elements, int round) {
    for (int at = 0; at < elements; at++) ((int64_t *)where)[at] = value(rank, first + at, round);
}

static void same_values(const unsigned char *where, int rank, int first, int elements, int round) {
    for (int at = 0; at < elements; at++) SAME(((const int64_t *)where)[at], value(rank, first + at, round));
}

/* The sum of what the first ranks have put. */
static void same_sums(const unsigned char *where, int ranks, int elements, int round) {
    for (int at = 0; at < elements; at++) {
        int64_t sum = 0;
        for (int rank = 0; rank < ranks; rank++) sum += value(rank, at, round);
        SAME(((const int64_t *)where)[at], sum);
    }
}

/* What one rank has for another begins there in all that it has. */
static int first_of(int to) { return to * (BYTES_MAX / 8); }

static void do_one(enum operation operation, int root, int elements, int round, unsigned long *own) {
    MPI_Comm world = MPI_COMM_WORLD;
    int here = check_rank, size = check_size, is_root = here == root, count, other;
    MPI_Datatype datatype, other_type;
    MPI_Request request;
    named(own, elements, &count, &datatype);
    named(own, elements, &other, &other_type);
    for (int rank = 0; rank < size; rank++) {
        counts[rank] = rank % 2 == 0 ? elements : elements / 2;
        places[rank] = first_of(rank);
        put_values(out + 8 * (size_t)first_of(rank), here, first_of(rank), elements, round);
    }
    for (int rank = 0; rank < size; rank++) memset(in + 8 * (size_t)first_of(rank), 0xee, 8 * (size_t)elements);
    switch (operation) {
    case BARRIER: OK(MPI_Barrier(world)); break;
    case BCAST:
    case IBCAST:
        put_values(in, is_root ? root : -1, 0, elements, round);
        if (operation == BCAST) {
            OK(MPI_Bcast(in, count, datatype, root, world));
        } else {
            OK(MPI_Ibcast(in, count, datatype, root, world, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        same_values(in, root, 0, elements, round);
        break;
    case GATHER:
        OK(MPI_Gather(out, count, datatype, in, other, other_type, root, world));
        for (int from = 0; is_root && from < size; from++) same_values(in + 8 * from * elements, from, 0, elements, round);
        break;
    case SCATTER:
        for (int to = 0; to < size; to++) put_values(out + 8 * to * elements, here, first_of(to), elements, round);
        OK(MPI_Scatter(out, count, datatype, in, other, other_type, root, world));
        same_values(in, root, first_of(here), elements, round);
        break;
    case GATHERV:
        OK(MPI_Gatherv(out, counts[here], MPI_INT64_T, in, counts, places, MPI_INT64_T, root, world));
        for (int from = 0; is_root && from < size; from++)
            same_values(in + 8 * (size_t)places[from], from, 0, counts[from], round);
        break;
    case SCATTERV:
        OK(MPI_Scatterv(out, counts, places, MPI_INT64_T, in, counts[here], MPI_INT64_T, root, world));
        same_values(in, root, first_of(here), counts[here], round);
        break;
    case ALLTOALLV: {
        int alike[ALIKE_MAX];
        for (int from = 0; from < size; from++) alike[from] = counts[here];
        OK(MPI_Alltoallv(out, counts, places, MPI_INT64_T, in, alike, places, MPI_INT64_T, world));
        for (int from = 0; from < size; from++)
            same_values(in + 8 * (size_t)places[from], from, first_of(here), counts[here], round);
        break;
    }
    case SCAN:
        OK(MPI_Scan(out, in, elements, MPI_INT64_T, MPI_SUM, world));
        same_sums(in, here + 1, elements, round);
        break;
    case EXSCAN:
        OK(MPI_Exscan(out, in, elements, MPI_INT64_T, MPI_SUM, world));
        if (here > 0) same_sums(in, here, elements, round);
        break;
    case REDUCE:
        OK(MPI_Reduce(out, in, elements, MPI_INT64_T, MPI_SUM, root, world));
        if (is_root) same_sums(in, size, elements, round);
        break;
    case ALLREDUCE:
        OK(MPI_Allreduce(out, in, elements, MPI_INT64_T, MPI_SUM, world));
        same_sums(in, size, elements, round);
        break;
    case OPERATIONS: break;
    }
}

int main(int argc, char **argv) {
    unsigned long all = 20261124, own;
    check_open(argc, argv);
    own = 77 + (unsigned long)check_rank;
    out = malloc((size_t)check_size * BYTES_MAX);
    in = malloc((size_t)check_size * BYTES_MAX);
    counts = malloc(sizeof(int) * (size_t)check_size);
    places = malloc(sizeof(int) * (size_t)check_size);
    OK(MPI_Type_contiguous(2, MPI_INT64_T, &pair));
    OK(MPI_Type_commit(&pair));
    for (int round = 0; round < ROUNDS;) {
        enum operation operation = (enum operation)draw(&all, OPERATIONS);
        int root = (int)draw(&all, (unsigned long)check_size), changes = draw(&all, 2) == 0;
        int is_long = draw(&all, LONG_IN) == 0;
        int limit = is_long ? LONG_LIMITS[draw(&all, LONG_COUNT)] : LIMITS[draw(&all, LIMIT_COUNT)];
        int elements = limit / 8 + (int)draw(&all, 3) - 1;
        /* Some of the same kind one behind the other, with one root or with roots in turn. */
        for (int alike = (int)draw(&all, ALIKE_MAX); alike >= 0; alike--, round++) {
            snprintf(named_section, sizeof named_section, "operation %d, root %d, %d elements, round %d", (int)operation, root, elements, round);
            section(named_section);
            do_one(operation, root, elements, round, &own);
            if (changes) root = (root + 1) % check_size;
        }
    }
    OK(MPI_Type_free(&pair));
    free(out), free(in), free(counts), free(places);
    return check_close();
}
