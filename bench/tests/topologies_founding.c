// ranks: 1 4 24
// The rules of an introduction to Cartesian topologies, one section each, in its order: what is created, who gets
// nothing, what is asked for afterwards.
#include "check.h"

static int product(int count, const int numbers[]) {
    int result = 1;
    for (int i = 0; i < count; i++) result *= numbers[i];
    return result;
}

static int equal(int count, const int left[], const int right[]) {
    for (int i = 0; i < count; i++)
        if (left[i] != right[i]) return 0;
    return 1;
}

static void create(void) {
    MPI_Comm grid;
    int periods[3] = {0, 1, 0}, rank = -1, size = -1, result = -1;
    section("cart_create: who does not fall into the new group gets MPI_COMM_NULL");
    int smaller[1] = {(check_size + 1) / 2};
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, smaller, periods, 0, &grid));
    CHECK((grid == MPI_COMM_NULL) == (check_rank >= smaller[0]));
    if (grid != MPI_COMM_NULL) {
        section("cart_create: reorder=false: identifiers are those of the old group");
        OK(MPI_Comm_rank(grid, &rank));
        OK(MPI_Comm_size(grid, &size));
        SAME(rank, check_rank);
        SAME(size, smaller[0]);
        OK(MPI_Comm_free(&grid));
    }
    section("cart_create: a grid larger than the group is an error");
    int larger[2] = {check_size, 2};
    CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, larger, periods, 0, &grid), MPI_ERR_DIMS);
    section("cart_create: reorder=true: identifiers may change, the members are the same");
    int all[1] = {check_size};
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, all, periods, 1, &grid));
    OK(MPI_Comm_compare(MPI_COMM_WORLD, grid, &result));
    CHECK(result == MPI_CONGRUENT || result == MPI_SIMILAR);
    OK(MPI_Comm_free(&grid));
}

static void dims_create(void) {
    section("dims_create: positive entries are kept, entries of 0 are computed");
    int some[3] = {0, 3, 0};
    OK(MPI_Dims_create(6, 3, some));
    CHECK(equal(3, some, (int[]){2, 3, 1}));
    section("dims_create: as even as possible, in falling order: 12 in three dimensions are 3 x 2 x 2");
    int twelve[3] = {0, 0, 0};
    OK(MPI_Dims_create(12, 3, twelve));
    CHECK(equal(3, twelve, (int[]){3, 2, 2}));
    section("dims_create: the answer serves as argument of cart_create");
    int dims[3] = {0, 0, 0}, periods[3] = {0, 0, 0}, size = -1;
    MPI_Comm grid;
    OK(MPI_Dims_create(check_size, 3, dims));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid));
    OK(MPI_Comm_size(grid, &size));
    SAME(size, check_size);
    OK(MPI_Comm_free(&grid));
    section("dims_create: entries must not be negative");
    int negative[2] = {-1, 0};
    CLASS(MPI_Dims_create(4, 2, negative), MPI_ERR_DIMS);
}

static void inquiry(void) {
    MPI_Comm grid;
    int dims[3] = {0, 0, 0}, periods[3] = {1, 0, 1}, ndims = -1;
    OK(MPI_Dims_create(check_size, 3, dims));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 1, &grid));
    section("cartdim_get: the number of dimensions, which serves as argument of cart_get");
    OK(MPI_Cartdim_get(grid, &ndims));
    SAME(ndims, 3);
    section("cart_get: extents, border conditions and the coordinates of the caller");
    int got_dims[3], got_periods[3], coords[3], rank = -1, back = -1;
    OK(MPI_Cart_get(grid, ndims, got_dims, got_periods, coords));
    CHECK(equal(3, got_dims, dims) && equal(3, got_periods, periods));
    section("cart_rank, cart_coords: identifier and coordinates name one process");
    OK(MPI_Comm_rank(grid, &rank));
    OK(MPI_Cart_rank(grid, coords, &back));
    SAME(back, rank);
    for (int other = 0; other < product(3, dims); other++) {
        int there[3];
        OK(MPI_Cart_coords(grid, other, 3, there));
        for (int axis = 0; axis < 3; axis++) CHECK(0 <= there[axis] && there[axis] < dims[axis]);
        OK(MPI_Cart_rank(grid, there, &back));
        SAME(back, other);
    }
    section("cart_rank: coordinates of periodic dimensions are brought into their range");
    int far[3] = {coords[0] - 5 * dims[0], coords[1], coords[2] + 7 * dims[2]};
    OK(MPI_Cart_rank(grid, far, &back));
    SAME(back, rank);
    section("cart_rank: coordinates of others are not");
    far[1] = dims[1];
    CLASS(MPI_Cart_rank(grid, far, &back), MPI_ERR_ARG);
    OK(MPI_Comm_free(&grid));
}

static void shift(void) {
    MPI_Comm grid;
    int dims[2] = {0, 0}, periods[2] = {1, 0}, coords[2], rank = -1, source = -9, destination = -9;
    OK(MPI_Dims_create(check_size, 2, dims));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
    OK(MPI_Comm_rank(grid, &rank));
    OK(MPI_Cart_coords(grid, rank, 2, coords));
    section("cart_shift: cyclic along a periodic dimension, whatever the sign");
    for (int by = -2 * dims[0]; by <= 2 * dims[0]; by++) {
        OK(MPI_Cart_shift(grid, 0, by, &source, &destination));
        int up = ((coords[0] + by) % dims[0] + dims[0]) % dims[0];
        int down = ((coords[0] - by) % dims[0] + dims[0]) % dims[0];
        SAME(destination, up * dims[1] + coords[1]);
        SAME(source, down * dims[1] + coords[1]);
    }
    section("cart_shift: MPI_PROC_NULL at open borders");
    for (int by = -dims[1]; by <= dims[1]; by++) {
        OK(MPI_Cart_shift(grid, 1, by, &source, &destination));
        int up = coords[1] + by, down = coords[1] - by;
        SAME(destination, 0 <= up && up < dims[1] ? rank + by : MPI_PROC_NULL);
        SAME(source, 0 <= down && down < dims[1] ? rank - by : MPI_PROC_NULL);
    }
    section("cart_shift: its answer serves as arguments of sendrecv, borders included");
    int mine = rank, got = -1;
    OK(MPI_Cart_shift(grid, 1, 1, &source, &destination));
    OK(MPI_Sendrecv(&mine, 1, MPI_INT, destination, 5, &got, 1, MPI_INT, source, 5, grid, MPI_STATUS_IGNORE));
    SAME(got, source == MPI_PROC_NULL ? -1 : source);
    section("cart_shift: dimension and displacement may differ from process to process");
    OK(MPI_Cart_shift(grid, check_rank % 2, check_rank, &source, &destination));
    OK(MPI_Comm_free(&grid));
}

static void sub(void) {
    MPI_Comm grid, part;
    int dims[3] = {2, 3, 4}, periods[3] = {0, 0, 1}, coords[3];
    if (check_size < 24) return;
    section("cart_sub: 2 x 3 x 4 with (true, false, true) gives three communicators of 2 x 4");
    OK(MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid));
    OK(MPI_Cart_coords(grid, check_rank, 3, coords));
    OK(MPI_Cart_sub(grid, (int[]){1, 0, 1}, &part));
    int got_dims[2], got_periods[2], got_coords[2], size = -1, first = check_rank;
    OK(MPI_Cart_get(part, 2, got_dims, got_periods, got_coords));
    CHECK(equal(2, got_dims, (int[]){2, 4}) && equal(2, got_periods, (int[]){0, 1}));
    CHECK(equal(2, got_coords, (int[]){coords[0], coords[2]}));
    section("cart_sub: each has a third of the processes, those with the same coordinate");
    OK(MPI_Comm_size(part, &size));
    SAME(size, 8);
    OK(MPI_Bcast(&first, 1, MPI_INT, 0, part));
    SAME(first, coords[1] * 4);
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_free(&grid));
}

static void kind(void) {
    MPI_Comm made;
    int status = -1, dims[1] = {check_size}, periods[1] = {0};
    section("topo_test: MPI_UNDEFINED, MPI_CART, MPI_GRAPH");
    OK(MPI_Topo_test(MPI_COMM_WORLD, &status));
    SAME(status, MPI_UNDEFINED);
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &made));
    OK(MPI_Topo_test(made, &status));
    SAME(status, MPI_CART);
    OK(MPI_Comm_free(&made));
    OK(MPI_Graph_create(MPI_COMM_WORLD, 1, (int[]){1}, (int[]){0}, 0, &made));
    CHECK((made == MPI_COMM_NULL) == (check_rank > 0));
    if (made == MPI_COMM_NULL) return;
    OK(MPI_Topo_test(made, &status));
    SAME(status, MPI_GRAPH);
    OK(MPI_Comm_free(&made));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    create();
    dims_create();
    inquiry();
    shift();
    sub();
    kind();
    return check_close();
}
