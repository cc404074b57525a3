// ranks: 1 2 3 5
// What is sent must not stand where something is received: an error of the buffer in every collective operation, blocking, begun
// and described, and nothing is sent, so that the communicator goes on working; and buffers that lie between each other, or
// mean nothing at a rank, are none. (MPI 5.0, sections 2.3 and 6.1 to 6.13, 8.6)
#include "check.h"

enum { ROOM = 4096, COUNT = 8 };

static int data[ROOM], apart[ROOM];
static MPI_Comm comm;
static int rank, size;

/* All ranks are refused alike: nobody waits for anybody. */
#define REFUSED(...) STRICT_CLASS((__VA_ARGS__), MPI_ERR_BUFFER)

/* The three ways of a call. */
#define THREE_WAYS(name, begun, ...)                                                                            \
    do {                                                                                                        \
        MPI_Request request = MPI_REQUEST_NULL;                                                                 \
        section(#name);                                                                                         \
        REFUSED(MPI_##name(__VA_ARGS__, comm));                                                                 \
        REFUSED(MPI_##begun(__VA_ARGS__, comm, &request));                                                      \
        CHECK(request == MPI_REQUEST_NULL);                                                                     \
        REFUSED(MPI_##name##_init(__VA_ARGS__, comm, MPI_INFO_NULL, &request));                                 \
        CHECK(request == MPI_REQUEST_NULL);                                                                     \
    } while (0)

static int counts[64], places[64], offsets[64];
static MPI_Datatype types[64];

/* Calls of which every rank's arguments are wrong. */
static void everywhere(int count) {
    int step = count / 2; /* some overlap in a part alone */
    for (int i = 0; i < size; i++) counts[i] = count, places[i] = i * count, types[i] = MPI_INT;
    for (int i = 0; i < size; i++) offsets[i] = places[i] * (int)sizeof(int);
    THREE_WAYS(Allgather, Iallgather, data, count, MPI_INT, data, count, MPI_INT);
    THREE_WAYS(Allgather, Iallgather, data + rank * count, count, MPI_INT, data, count, MPI_INT);
    THREE_WAYS(Allgatherv, Iallgatherv, data + rank * count + step, count, MPI_INT, data, counts, places, MPI_INT);
    THREE_WAYS(Alltoall, Ialltoall, data, count, MPI_INT, data, count, MPI_INT);
    THREE_WAYS(Alltoall, Ialltoall, data, count, MPI_INT, data + step, count, MPI_INT);
    THREE_WAYS(Alltoallv, Ialltoallv, data, counts, places, MPI_INT, data, counts, places, MPI_INT);
    THREE_WAYS(Alltoallv, Ialltoallv, data, counts, places, MPI_INT, data + (size - 1) * count + step, counts, places, MPI_INT);
    THREE_WAYS(Alltoallw, Ialltoallw, data, counts, offsets, types, data + step, counts, offsets, types);
    THREE_WAYS(Allreduce, Iallreduce, data, data, count, MPI_INT, MPI_SUM);
    THREE_WAYS(Allreduce, Iallreduce, data + step, data, count, MPI_INT, MPI_SUM);
    THREE_WAYS(Scan, Iscan, data, data + step, count, MPI_INT, MPI_SUM);
    THREE_WAYS(Reduce_scatter_block, Ireduce_scatter_block, data, data + step, count, MPI_INT, MPI_SUM);
    THREE_WAYS(Reduce_scatter, Ireduce_scatter, data, data + (size - 1) * count + step, counts, MPI_INT, MPI_SUM);
}

/* Those in which it is wrong at the root alone: here each rank is the root of a communicator of its own. */
static void at_roots(int count) {
    MPI_Comm world = comm;
    int step = count / 2, one = count, none = 0;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    THREE_WAYS(Gather, Igather, data, count, MPI_INT, data + step, count, MPI_INT, 0);
    THREE_WAYS(Gatherv, Igatherv, data, count, MPI_INT, data + step, &one, &none, MPI_INT, 0);
    THREE_WAYS(Scatter, Iscatter, data, count, MPI_INT, data, count, MPI_INT, 0);
    THREE_WAYS(Scatterv, Iscatterv, data + step, &one, &none, MPI_INT, data, count, MPI_INT, 0);
    THREE_WAYS(Reduce, Ireduce, data, data + step, count, MPI_INT, MPI_MAX, 0);
    OK(MPI_Comm_free(&comm));
    comm = world;
}

/* An exclusive scan means no result at rank 0; so it is wrong at the others, and that one must not wait for them. */
static void exclusive(int count) {
    if (size == 1) {
        OK(MPI_Exscan(data, data, count, MPI_INT, MPI_SUM, comm));
        return;
    }
    section("Exscan");
    /* Rank 0 takes no part: its message would be left for those that are refused. */
    if (rank > 0) THREE_WAYS(Exscan, Iexscan, data, data, count, MPI_INT, MPI_SUM);
}

static void neighbours(int count) {
    MPI_Comm grid, before = comm;
    section("a ring");
    OK(MPI_Cart_create(comm, 1, &size, (int[]){1}, 0, &grid));
    OK(MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN));
    comm = grid;
    for (int i = 0; i < 2; i++) counts[i] = count, places[i] = i * count, types[i] = MPI_INT;
    MPI_Aint far[2] = {0, (MPI_Aint)((size_t)count * sizeof(int))};
    THREE_WAYS(Neighbor_allgather, Ineighbor_allgather, data, count, MPI_INT, data, count, MPI_INT);
    THREE_WAYS(Neighbor_allgatherv, Ineighbor_allgatherv, data + count, count, MPI_INT, data, counts, places, MPI_INT);
    THREE_WAYS(Neighbor_alltoall, Ineighbor_alltoall, data, count, MPI_INT, data + count, count, MPI_INT);
    THREE_WAYS(Neighbor_alltoallv, Ineighbor_alltoallv, data, counts, places, MPI_INT, data, counts, places, MPI_INT);
    THREE_WAYS(Neighbor_alltoallw, Ineighbor_alltoallw, data, counts, far, types, data, counts, far, types);
    comm = before;
    OK(MPI_Comm_free(&grid));
}

/* What is no overlap: blocks between blocks, nothing at all, and buffers that mean nothing here. */
static void allowed(int count) {
    MPI_Datatype column;
    int result[COUNT], root = size - 1;
    section("what lies between");
    for (int i = 0; i < ROOM; i++) data[i] = -1;
    for (int i = 0; i < size; i++) counts[i] = count, places[i] = 2 * i * count;
    for (int i = 0; i < size * count; i++) data[places[i / count] + i % count] = 100 * rank + i / count;
    OK(MPI_Alltoallv(data, counts, places, MPI_INT, data + count, counts, places, MPI_INT, comm));
    for (int i = 0; i < size * count; i++) {
        SAME(data[places[i / count] + i % count], 100 * rank + i / count);
        SAME(data[count + places[i / count] + i % count], 100 * (i / count) + rank);
    }
    section("columns of one matrix");
    OK(MPI_Type_vector(count, 1, 2, MPI_INT, &column));
    OK(MPI_Type_commit(&column));
    for (int i = 0; i < count; i++) data[2 * i] = i, data[2 * i + 1] = -1;
    OK(MPI_Alltoallw(data, (int[]){1}, (int[]){0}, &column, data, (int[]){1}, (int[]){(int)sizeof(int)}, &column, MPI_COMM_SELF));
    for (int i = 0; i < count; i++) SAME(data[2 * i], i), SAME(data[2 * i + 1], i);
    OK(MPI_Type_free(&column));
    section("buffers that mean nothing here, and nothing at all");
    for (int i = 0; i < COUNT; i++) data[i] = rank;
    OK(MPI_Reduce(data, rank == root ? result : data, COUNT, MPI_INT, MPI_SUM, root, comm));
    if (rank == root) SAME(result[0], size * (size - 1) / 2);
    OK(MPI_Gather(data, 1, MPI_INT, rank == root ? apart : data, 1, MPI_INT, root, comm));
    OK(MPI_Allreduce(data, data, 0, MPI_INT, MPI_SUM, comm));
    OK(MPI_Allgather(data, 0, MPI_INT, data, 0, MPI_INT, comm));
}

static void goes_on(void) {
    int mine = rank + 1, sum = 0;
    section("the communicator goes on");
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm));
    SAME(sum, size * (size + 1) / 2);
}

int main(int argc, char **argv) {
    MPI_Comm aside;
    check_open(argc, argv);
    rank = check_rank, size = check_size;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    /* The second time the operations could go by lines that all see. */
    for (int round = 0; round < 2; round++) {
        if (!check_library_is("MPICH") && !check_library_is("Open MPI")) {
            everywhere(COUNT);
            everywhere(COUNT * 16);
            at_roots(COUNT);
            neighbours(COUNT);
            OK(MPI_Comm_dup(comm, &aside));
            exclusive(COUNT);
            OK(MPI_Comm_free(&aside));
        }
        allowed(2);
        for (int i = 0; i < 8; i++) goes_on();
    }
    OK(MPI_Comm_free(&comm));
    return check_close();
}
