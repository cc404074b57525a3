// ranks: 1 2 3 6 8
// Exchanges between neighbours, all forms on all kinds of topologies, against what each neighbour is known to send.
// (MPI 5.0, section 8.6)
#include "check.h"

enum { MOST = 64, LONG = 20000 };

/* Whom this process sends to and receives from, and with which edge of the other one each of its own meets. */
struct around {
    int in, out, sources[MOST], destinations[MOST], edges[MOST];
};

/* Along each axis first down, then up. What comes from below was sent up: the neighbour's other edge. */
static struct around of_grid(MPI_Comm grid, int ndims) {
    struct around around = {2 * ndims, 2 * ndims, {0}, {0}, {0}};
    for (int axis = 0; axis < ndims; axis++) {
        OK(MPI_Cart_shift(grid, axis, 1, &around.sources[2 * axis], &around.sources[2 * axis + 1]));
        for (int way = 0; way < 2; way++) {
            around.destinations[2 * axis + way] = around.sources[2 * axis + way];
            around.edges[2 * axis + way] = 2 * axis + 1 - way;
        }
    }
    return around;
}

/* A number that only this block of this edge of this process has. */
static int value(int rank, int edge, int at) { return rank * 1000000 + edge * 50000 + at + 1; }

static void fill_block(int *block, int count, int rank, int edge) {
    for (int at = 0; at < count; at++) block[at] = value(rank, edge, at);
}

static void check_block(const int *block, int count, int rank, int edge) {
    for (int at = 0; at < count; at++) SAME(block[at], rank == MPI_PROC_NULL ? -7 : value(rank, edge, at));
}

static int *blank(int count) {
    int *room = malloc((count + 1) * sizeof *room);
    for (int at = 0; at < count; at++) room[at] = -7;
    return room;
}

static void allgather(MPI_Comm comm, const struct around *around, int count) {
    int rank = -1, *mine = blank(count), *room = blank(around->in * (count + 3));
    OK(MPI_Comm_rank(comm, &rank));
    fill_block(mine, count, rank, 0);
    OK(MPI_Neighbor_allgather(mine, count, MPI_INT, room, count, MPI_INT, comm));
    for (int i = 0; i < around->in; i++) check_block(room + i * count, count, around->sources[i], 0);
    section("neighbor_allgatherv: places of its own for each, with gaps");
    int counts[MOST], places[MOST];
    for (int i = 0; i < around->in; i++) counts[i] = count, places[i] = (around->in - 1 - i) * (count + 3) + 1;
    for (int at = 0; at < around->in * (count + 3); at++) room[at] = -7;
    OK(MPI_Neighbor_allgatherv(mine, count, MPI_INT, room, counts, places, MPI_INT, comm));
    for (int i = 0; i < around->in; i++) {
        check_block(room + places[i], count, around->sources[i], 0);
        SAME(room[places[i] - 1], -7);
        SAME(room[places[i] + count], -7);
    }
    free(mine);
    free(room);
}

static void alltoall(MPI_Comm comm, const struct around *around, int count) {
    int rank = -1, *mine = blank(around->out * count), *room = blank(around->in * count);
    OK(MPI_Comm_rank(comm, &rank));
    for (int again = 0; again < 3; again++) {
        for (int i = 0; i < around->out; i++) fill_block(mine + i * count, count, rank, i);
        for (int at = 0; at < around->in * count; at++) room[at] = -7;
        OK(MPI_Neighbor_alltoall(mine, count, MPI_INT, room, count, MPI_INT, comm));
        for (int i = 0; i < around->in; i++) check_block(room + i * count, count, around->sources[i], around->edges[i]);
    }
    section("neighbor_alltoall_c: elements with gaps, which stay as they are");
    MPI_Datatype spread;
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread));
    OK(MPI_Type_commit(&spread));
    int *wide = blank(2 * (around->in > around->out ? around->in : around->out) * count);
    OK(MPI_Neighbor_alltoall_c(mine, count, MPI_INT, wide, count, spread, comm));
    for (int i = 0; i < around->in; i++)
        for (int at = 0; at < count; at++) {
            int from = around->sources[i];
            SAME(wide[2 * (i * count + at)], from == MPI_PROC_NULL ? -7 : value(from, around->edges[i], at));
            SAME(wide[2 * (i * count + at) + 1], -7);
        }
    OK(MPI_Neighbor_alltoall(wide, count, spread, room, count, MPI_INT, comm));
    OK(MPI_Type_free(&spread));
    free(wide);
    free(mine);
    free(room);
}

/* Block i has i + 1 elements at its sender, so that lengths differ from edge to edge. */
static void alltoallv(MPI_Comm comm, const struct around *around) {
    int rank = -1, total = 0, room_total = 0, counts[MOST], places[MOST], room_counts[MOST], room_places[MOST];
    OK(MPI_Comm_rank(comm, &rank));
    for (int i = 0; i < around->out; i++) counts[i] = i % 3, places[i] = total + 1, total += counts[i] + 1;
    for (int i = 0; i < around->in; i++)
        room_counts[i] = around->edges[i] % 3, room_places[i] = room_total + 1, room_total += room_counts[i] + 1;
    int *mine = blank(total + 1), *room = blank(room_total + 1);
    for (int i = 0; i < around->out; i++) fill_block(mine + places[i], counts[i], rank, i);
    OK(MPI_Neighbor_alltoallv(mine, counts, places, MPI_INT, room, room_counts, room_places, MPI_INT, comm));
    for (int i = 0; i < around->in; i++) {
        check_block(room + room_places[i], room_counts[i], around->sources[i], around->edges[i]);
        SAME(room[room_places[i] - 1], -7);
    }
    section("neighbor_alltoallw: displacements in bytes, a type for each");
    MPI_Aint bytes[MOST], room_bytes[MOST];
    MPI_Datatype types[MOST], room_types[MOST];
    MPI_Datatype pair;
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    for (int i = 0; i < around->out; i++) {
        bytes[i] = places[i] * (MPI_Aint)sizeof(int);
        types[i] = counts[i] == 2 ? pair : MPI_INT;
        if (counts[i] == 2) counts[i] = 1;
    }
    for (int i = 0; i < around->in; i++) {
        room_bytes[i] = room_places[i] * (MPI_Aint)sizeof(int);
        room_types[i] = MPI_INT;
    }
    for (int at = 0; at < room_total; at++) room[at] = -7;
    OK(MPI_Neighbor_alltoallw(mine, counts, bytes, types, room, room_counts, room_bytes, room_types, comm));
    for (int i = 0; i < around->in; i++)
        check_block(room + room_places[i], room_counts[i], around->sources[i], around->edges[i]);
    OK(MPI_Type_free(&pair));
    free(mine);
    free(room);
}

static void all_forms(const char *name, MPI_Comm comm, const struct around *around) {
    for (int count = 0; count <= LONG; count = count ? count * 40 : 1) {
        section(name);
        allgather(comm, around, count);
        section(name);
        alltoall(comm, around, count);
    }
    alltoallv(comm, around);
}

static void grids(void) {
    for (int ndims = 1; ndims <= 3; ndims++)
        for (int rings = 0; rings < 2; rings++) {
            MPI_Comm grid;
            int dims[3] = {0}, periods[3] = {rings, rings, rings};
            OK(MPI_Dims_create(check_size, ndims, dims));
            OK(MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 1, &grid));
            struct around around = of_grid(grid, ndims);
            all_forms(rings ? "on a torus, also with one or two cells along an axis" : "on an open grid", grid, &around);
            OK(MPI_Comm_free(&grid));
        }
}

static void graph(void) {
    MPI_Comm made;
    int index[MOST], edges[2 * MOST], size = check_size;
    for (int node = 0; node < size; node++) {
        index[node] = 2 * node + 2;
        edges[2 * node] = (node + size - 1) % size;
        edges[2 * node + 1] = (node + 1) % size;
    }
    OK(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &made));
    struct around around = {2, 2, {edges[2 * check_rank], edges[2 * check_rank + 1]}, {0}, {1, 0}};
    memcpy(around.destinations, around.sources, sizeof around.sources);
    /* Two edges to one node: the first meets the first. */
    if (size <= 2) around.edges[0] = 0, around.edges[1] = 1;
    all_forms("on a graph", made, &around);
    OK(MPI_Comm_free(&made));
}

/* From everybody to all of higher rank, and from the last to the first. */
static void distributed(void) {
    MPI_Comm made;
    struct around around = {0, 0, {0}, {0}, {0}};
    for (int other = 0; other < check_rank; other++) {
        around.sources[around.in] = other;
        around.edges[around.in++] = check_rank - other - 1;
    }
    for (int other = check_rank + 1; other < check_size; other++) around.destinations[around.out++] = other;
    if (check_rank == 0) around.sources[around.in] = check_size - 1, around.edges[around.in++] = 0;
    if (check_rank == check_size - 1) around.destinations[around.out++] = 0;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, around.in, around.sources, MPI_UNWEIGHTED, around.out,
                                      around.destinations, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made));
    all_forms("on a distributed graph", made, &around);
    OK(MPI_Comm_free(&made));
}

static void wrong(void) {
    MPI_Comm grid;
    int dims[1] = {check_size}, periods[1] = {1}, numbers[4] = {0};
    section("wrong arguments");
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid));
    OK(MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN));
    CLASS(MPI_Neighbor_alltoall(numbers, -1, MPI_INT, numbers, 1, MPI_INT, grid), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Neighbor_alltoall(MPI_IN_PLACE, 1, MPI_INT, numbers, 1, MPI_INT, grid), MPI_ERR_BUFFER);
    STRICT_CLASS(MPI_Neighbor_allgather(numbers, 1, MPI_INT, NULL, 1, MPI_INT, grid), MPI_ERR_BUFFER);
    CLASS(MPI_Neighbor_allgather(numbers, 1, MPI_DATATYPE_NULL, numbers, 1, MPI_INT, grid), MPI_ERR_TYPE);
    STRICT_CLASS(MPI_Neighbor_alltoallv(numbers, NULL, numbers, MPI_INT, numbers, numbers, numbers, MPI_INT, grid),
                 MPI_ERR_ARG);
    CLASS(MPI_Neighbor_alltoall(numbers, 1, MPI_INT, numbers, 1, MPI_INT, MPI_COMM_NULL), MPI_ERR_COMM);
    OK(MPI_Comm_free(&grid));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    grids();
    graph();
    distributed();
    wrong();
    return check_close();
}
