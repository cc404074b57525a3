// ranks: 1 2 3 6 8
// Cartesian topologies beyond the common case: no axes, copies, parts, maps, wrong arguments. (MPI 5.0, section 8.5)
#include "check.h"

enum { MOST = 6 };

static void no_axes(void) {
    MPI_Comm point, copy;
    int ndims = -1, rank = -1, status = -1, source, destination;
    section("a grid without axes has one cell");
    OK(MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &point));
    CHECK((point == MPI_COMM_NULL) == (check_rank > 0));
    OK(MPI_Dims_create(1, 0, NULL));
    if (point == MPI_COMM_NULL) return;
    OK(MPI_Cartdim_get(point, &ndims));
    SAME(ndims, 0);
    OK(MPI_Cart_get(point, 0, NULL, NULL, NULL));
    OK(MPI_Cart_rank(point, NULL, &rank));
    SAME(rank, 0);
    OK(MPI_Cart_coords(point, 0, 0, NULL));
    OK(MPI_Cart_sub(point, NULL, &copy));
    OK(MPI_Topo_test(copy, &status));
    SAME(status, MPI_CART);
    OK(MPI_Comm_set_errhandler(point, MPI_ERRORS_RETURN));
    CLASS(MPI_Cart_shift(point, 0, 1, &source, &destination), MPI_ERR_DIMS);
    OK(MPI_Neighbor_alltoall(NULL, 1, MPI_INT, NULL, 1, MPI_INT, point));
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&point));
}

static void copies(void) {
    MPI_Comm grid, made[3];
    MPI_Request request;
    int dims[2] = {0, 0}, periods[2] = {0, 1}, status = -1;
    section("copies have the topology, other children do not");
    OK(MPI_Dims_create(check_size, 2, dims));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid));
    OK(MPI_Comm_dup(grid, &made[0]));
    OK(MPI_Comm_dup_with_info(grid, MPI_INFO_NULL, &made[1]));
    OK(MPI_Comm_idup(grid, &made[2], &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < 3; i++) {
        int got[2], rings[2], coords[2], result = -1;
        OK(MPI_Topo_test(made[i], &status));
        SAME(status, MPI_CART);
        OK(MPI_Cart_get(made[i], 2, got, rings, coords));
        CHECK(got[0] == dims[0] && got[1] == dims[1] && rings[0] == 0 && rings[1] == 1);
        OK(MPI_Comm_compare(made[i], grid, &result));
        SAME(result, MPI_CONGRUENT);
        OK(MPI_Comm_free(&made[i]));
    }
    OK(MPI_Comm_split(grid, 0, 0, &made[0]));
    OK(MPI_Topo_test(made[0], &status));
    SAME(status, MPI_UNDEFINED);
    OK(MPI_Comm_free(&made[0]));
    OK(MPI_Comm_free(&grid));
}

/* Every part of every grid: who is in it, in which order. */
static void parts(void) {
    MPI_Comm grid, part;
    int dims[3] = {0, 0, 0}, periods[3] = {1, 0, 1}, coords[3];
    OK(MPI_Dims_create(check_size, 3, dims));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 1, &grid));
    int rank = -1;
    OK(MPI_Comm_rank(grid, &rank));
    OK(MPI_Cart_coords(grid, rank, 3, coords));
    for (int keep = 0; keep < 8; keep++) {
        int remain[3] = {keep & 1, keep >> 1 & 1, keep >> 2 & 1}, kept = 0, expected = 1, ndims = -1, size = -1;
        section("every part of a grid, in the order of its cells");
        for (int axis = 0; axis < 3; axis++)
            if (remain[axis]) kept++, expected *= dims[axis];
        OK(MPI_Cart_sub(grid, remain, &part));
        OK(MPI_Cartdim_get(part, &ndims));
        OK(MPI_Comm_size(part, &size));
        SAME(ndims, kept);
        SAME(size, expected);
        int got_dims[3], got_periods[3], got_coords[3], ranks[64], inside = -1, at = 0;
        OK(MPI_Cart_get(part, 3, got_dims, got_periods, got_coords));
        for (int axis = 0; axis < 3; axis++) {
            if (!remain[axis]) continue;
            SAME(got_dims[at], dims[axis]);
            SAME(got_periods[at], periods[axis]);
            SAME(got_coords[at], coords[axis]);
            at++;
        }
        OK(MPI_Comm_rank(part, &inside));
        OK(MPI_Allgather(&rank, 1, MPI_INT, ranks, 1, MPI_INT, part));
        SAME(ranks[inside], rank);
        for (int other = 1; other < size; other++) CHECK(ranks[other - 1] < ranks[other]);
        OK(MPI_Comm_free(&part));
    }
    OK(MPI_Comm_free(&grid));
}

/* Whatever the machine: each process gets one cell, and cart_map says which. */
static void reordered(void) {
    for (int ndims = 1; ndims <= MOST; ndims++) {
        MPI_Comm grid;
        int dims[MOST] = {0}, periods[MOST] = {0, 1, 0, 1, 0, 1}, mapped = -9, rank = -1, seen[64] = {0}, cells = 1;
        section("reordered grids: a permutation, which cart_map tells");
        OK(MPI_Dims_create(check_size - (check_size > 4), ndims, dims));
        for (int axis = 0; axis < ndims; axis++) cells *= dims[axis];
        OK(MPI_Cart_map(MPI_COMM_WORLD, ndims, dims, periods, &mapped));
        OK(MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 1, &grid));
        CHECK((grid == MPI_COMM_NULL) == (mapped == MPI_UNDEFINED));
        if (grid != MPI_COMM_NULL) {
            OK(MPI_Comm_rank(grid, &rank));
            SAME(rank, mapped);
            int all[64];
            OK(MPI_Allgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, grid));
            for (int cell = 0; cell < cells; cell++) {
                CHECK(!seen[all[cell]]);
                seen[all[cell]] = 1;
            }
            OK(MPI_Comm_free(&grid));
        }
    }
}

/* A grid without cells has no place for anybody. */
static void no_cells(void) {
    int periods[2] = {0, 1}, mapped = -9;
    section("cart_map on a grid without cells");
    OK(MPI_Cart_map(MPI_COMM_WORLD, 2, (int[]){check_size, 0}, periods, &mapped));
    SAME(mapped, MPI_UNDEFINED);
    mapped = -9;
    OK(MPI_Cart_map(MPI_COMM_WORLD, 1, (int[]){0}, periods, &mapped));
    SAME(mapped, MPI_UNDEFINED);
}

static void wrong(void) {
    MPI_Comm grid, other = MPI_COMM_NULL;
    int dims[2] = {check_size, 1}, periods[2] = {0, 1}, numbers[4], number = -1;
    section("wrong arguments of cart_create");
    CLASS(MPI_Cart_create(MPI_COMM_NULL, 1, dims, periods, 0, &other), MPI_ERR_COMM);
    CLASS(MPI_Cart_create(MPI_COMM_WORLD, -1, dims, periods, 0, &other), MPI_ERR_DIMS);
    CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){1, 0}, periods, 0, &other), MPI_ERR_DIMS);
    CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){-1, -1}, periods, 0, &other), MPI_ERR_DIMS);
    CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){65536, 65536}, periods, 0, &other), MPI_ERR_DIMS);
    CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){check_size, 2}, periods, 1, &other), MPI_ERR_DIMS);
    STRICT_CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, NULL, periods, 0, &other), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, NULL, 0, &other), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, NULL), MPI_ERR_ARG);
    CHECK(other == MPI_COMM_NULL);
    section("wrong arguments of dims_create");
    CLASS(MPI_Dims_create(6, 2, (int[]){4, 0}), MPI_ERR_DIMS);
    CLASS(MPI_Dims_create(6, 2, (int[]){2, 2}), MPI_ERR_DIMS);
    CLASS(MPI_Dims_create(6, -1, numbers), MPI_ERR_DIMS);
    CLASS(MPI_Dims_create(7, 3, (int[]){0, 3, 0}), MPI_ERR_DIMS);
    CLASS(MPI_Dims_create(6, 3, (int[]){65536, 65536, 0}), MPI_ERR_DIMS);
    STRICT_CLASS(MPI_Dims_create(6, 2, NULL), MPI_ERR_ARG);
    section("communicators without a grid");
    CLASS(MPI_Cartdim_get(MPI_COMM_WORLD, &number), MPI_ERR_TOPOLOGY);
    CLASS(MPI_Cart_get(MPI_COMM_WORLD, 2, numbers, numbers, numbers), MPI_ERR_TOPOLOGY);
    CLASS(MPI_Cart_rank(MPI_COMM_WORLD, numbers, &number), MPI_ERR_TOPOLOGY);
    CLASS(MPI_Cart_coords(MPI_COMM_WORLD, 0, 2, numbers), MPI_ERR_TOPOLOGY);
    CLASS(MPI_Cart_shift(MPI_COMM_WORLD, 0, 1, &number, &number), MPI_ERR_TOPOLOGY);
    CLASS(MPI_Cart_sub(MPI_COMM_WORLD, numbers, &other), MPI_ERR_TOPOLOGY);
    CLASS(MPI_Graphdims_get(MPI_COMM_WORLD, &number, &number), MPI_ERR_TOPOLOGY);
    CLASS(MPI_Dist_graph_neighbors_count(MPI_COMM_WORLD, &number, &number, &number), MPI_ERR_TOPOLOGY);
    CLASS(MPI_Neighbor_alltoall(numbers, 1, MPI_INT, numbers, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TOPOLOGY);
    section("wrong questions to a grid");
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
    OK(MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN));
    STRICT_CLASS(MPI_Cart_get(grid, 1, numbers, numbers, numbers), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Cart_coords(grid, 0, 1, numbers), MPI_ERR_ARG);
    CLASS(MPI_Cart_coords(grid, check_size, 2, numbers), MPI_ERR_RANK);
    CLASS(MPI_Cart_coords(grid, -1, 2, numbers), MPI_ERR_RANK);
    CLASS(MPI_Cart_rank(grid, (int[]){check_size, 0}, &number), MPI_ERR_ARG);
    CLASS(MPI_Cart_rank(grid, (int[]){-1, 0}, &number), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Cart_shift(grid, 2, 1, &number, &number), MPI_ERR_DIMS);
    STRICT_CLASS(MPI_Cart_shift(grid, -1, 1, &number, &number), MPI_ERR_DIMS);
    CLASS(MPI_Graph_get(grid, 4, 4, numbers, numbers), MPI_ERR_TOPOLOGY);
    section("huge displacements");
    int source = -1, destination = -1;
    OK(MPI_Cart_shift(grid, 0, 2147483647, &source, &destination));
    SAME(source, MPI_PROC_NULL);
    SAME(destination, MPI_PROC_NULL);
    OK(MPI_Cart_shift(grid, 1, -2147483647 - 1, &source, &destination));
    SAME(source, check_rank);
    OK(MPI_Comm_free(&grid));
}

static void between_groups(void) {
    MPI_Comm half, between, made = MPI_COMM_NULL;
    int dims[1] = {1}, periods[1] = {0};
    if (check_size < 2) return;
    section("inter-communicators have no topologies");
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - check_rank % 2, 3, &between));
    OK(MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN));
    CLASS(MPI_Cart_create(between, 1, dims, periods, 0, &made), MPI_ERR_COMM);
    OK(MPI_Comm_free(&between));
    OK(MPI_Comm_free(&half));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    no_axes();
    copies();
    parts();
    reordered();
    no_cells();
    wrong();
    between_groups();
    return check_close();
}
