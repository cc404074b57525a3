// ranks: 1 2 3 6
// Arrays that are dealt out to a grid of processes: everybody's part goes to rank 0 and lands where it belongs.
// (MPI 5.0, section 5.1.4)
#include "check.h"

enum { DIMENSIONS = 3, TAG = 5 };
static const int sizes[DIMENSIONS] = {7, 10, 5};

struct deal { int distribution[DIMENSIONS], argument[DIMENSIONS], order; };

/* The process that has an element: by the number of its block along each dimension. */
static int owner(const struct deal *deal, const int *grid, const int *index) {
    int rank = 0;
    for (int i = 0; i < DIMENSIONS; i++) {
        int block = deal->argument[i];
        if (deal->distribution[i] == MPI_DISTRIBUTE_NONE) block = sizes[i];
        else if (block == MPI_DISTRIBUTE_DFLT_DARG)
            block = deal->distribution[i] == MPI_DISTRIBUTE_BLOCK ? (sizes[i] + grid[i] - 1) / grid[i] : 1;
        rank = rank * grid[i] + index[i] / block % grid[i];
    }
    return rank;
}

static int place(const struct deal *deal, const int *index) {
    return deal->order == MPI_ORDER_C ? (index[0] * sizes[1] + index[1]) * sizes[2] + index[2]
                                      : (index[2] * sizes[1] + index[1]) * sizes[0] + index[0];
}

static MPI_Datatype part(const struct deal *deal, const int *grid, int rank, int large) {
    MPI_Datatype made;
    if (large) {
        MPI_Count counts[DIMENSIONS] = {sizes[0], sizes[1], sizes[2]};
        OK(MPI_Type_create_darray_c(check_size, rank, DIMENSIONS, counts, deal->distribution, deal->argument, grid,
                                    deal->order, MPI_INT, &made));
    } else {
        OK(MPI_Type_create_darray(check_size, rank, DIMENSIONS, sizes, deal->distribution, deal->argument, grid,
                                  deal->order, MPI_INT, &made));
    }
    OK(MPI_Type_commit(&made));
    return made;
}

static void dealt(const struct deal *deal, const int *grid) {
    enum { TOTAL = 7 * 10 * 5 };
    int array[TOTAL], mine[TOTAL], bytes, count = 0, index[DIMENSIONS];
    MPI_Aint lower, extent;
    MPI_Request request;
    MPI_Datatype type = part(deal, grid, check_rank, 0);
    OK(MPI_Type_get_extent(type, &lower, &extent));
    SAME(lower, 0);
    SAME(extent, TOTAL * sizeof(int));
    /* My part in memory order is what the datatype names. */
    for (int at = 0; at < TOTAL; at++) array[at] = 1000 + at;
    memset(mine, 0, sizeof mine);
    for (int i = 0; i < TOTAL; i++) {
        int fast = deal->order == MPI_ORDER_C ? 2 : 0;
        index[1] = i / sizes[fast] % sizes[1];
        index[fast] = i % sizes[fast];
        index[2 - fast] = i / sizes[fast] / sizes[1];
        SAME(place(deal, index), i);
        if (owner(deal, grid, index) == check_rank) mine[count++] = array[i];
    }
    OK(MPI_Type_size(type, &bytes));
    SAME(bytes, count * sizeof(int));
    OK(MPI_Isend(mine, count, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request));
    if (check_rank == 0) {
        memset(array, 0, sizeof array);
        for (int rank = 0; rank < check_size; rank++) {
            MPI_Datatype other = part(deal, grid, rank, 1);
            MPI_Status status;
            OK(MPI_Recv(array, 1, other, rank, TAG, MPI_COMM_WORLD, &status));
            OK(MPI_Get_count(&status, other, &count));
            OK(MPI_Type_size(other, &bytes));
            if (bytes > 0) SAME(count, 1);
            OK(MPI_Type_free(&other));
        }
        for (int at = 0; at < TOTAL; at++) SAME(array[at], 1000 + at);
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Type_free(&type));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void all_ways(void) {
    enum { D = MPI_DISTRIBUTE_DFLT_DARG, B = MPI_DISTRIBUTE_BLOCK, C = MPI_DISTRIBUTE_CYCLIC };
    const struct deal deals[] = {
        {{B, B, B}, {D, D, D}, MPI_ORDER_C},  {{C, C, C}, {D, D, D}, MPI_ORDER_FORTRAN},
        {{C, B, C}, {2, 10, 3}, MPI_ORDER_C}, {{C, C, B}, {3, 2, D}, MPI_ORDER_FORTRAN},
        {{B, C, B}, {7, 1, 5}, MPI_ORDER_C},  {{C, C, C}, {40, 4, 2}, MPI_ORDER_C},
    };
    for (size_t i = 0; i < sizeof deals / sizeof *deals; i++) {
        int grid[DIMENSIONS] = {0, 0, 0};
        section("grid of three dimensions");
        OK(MPI_Dims_create(check_size, DIMENSIONS, grid));
        dealt(&deals[i], grid);
        section("dimensions that are whole");
        for (int whole = 0; whole < DIMENSIONS; whole++) {
            struct deal deal = deals[i];
            int flat[DIMENSIONS] = {0, 0, 0};
            flat[whole] = 1;
            deal.distribution[whole] = MPI_DISTRIBUTE_NONE;
            deal.argument[whole] = D;
            OK(MPI_Dims_create(check_size, DIMENSIONS, flat));
            dealt(&deal, flat);
        }
    }
}

static void refused(void) {
    const int block[1] = {MPI_DISTRIBUTE_BLOCK}, whole[1] = {MPI_DISTRIBUTE_NONE}, other[1] = {99};
    const int elements[1] = {4}, one[1] = {1}, two[1] = {2}, none[1] = {0}, usual[1] = {MPI_DISTRIBUTE_DFLT_DARG};
    MPI_Datatype made = MPI_DATATYPE_NULL;
    section("refused");
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
#define DARRAY(size, rank, n, sizes, kind, arguments, grid, order, type) \
    STRICT_CLASS(MPI_Type_create_darray(size, rank, n, sizes, kind, arguments, grid, order, type, &made), \
                 type == MPI_DATATYPE_NULL ? MPI_ERR_TYPE : MPI_ERR_ARG)
    DARRAY(2, 2, 1, elements, block, usual, two, MPI_ORDER_C, MPI_INT);
    DARRAY(2, -1, 1, elements, block, usual, two, MPI_ORDER_C, MPI_INT);
    DARRAY(3, 0, 1, elements, block, usual, two, MPI_ORDER_C, MPI_INT);
    DARRAY(2, 0, 1, elements, block, one, two, MPI_ORDER_C, MPI_INT);
    DARRAY(2, 0, 1, elements, block, none, two, MPI_ORDER_C, MPI_INT);
    DARRAY(2, 0, 1, elements, whole, usual, two, MPI_ORDER_C, MPI_INT);
    DARRAY(2, 0, 1, elements, other, usual, two, MPI_ORDER_C, MPI_INT);
    DARRAY(2, 0, 1, none, block, usual, two, MPI_ORDER_C, MPI_INT);
    DARRAY(2, 0, 1, elements, block, usual, two, 99, MPI_INT);
    DARRAY(2, 0, 1, elements, block, usual, two, MPI_ORDER_C, MPI_DATATYPE_NULL);
    CHECK(made == MPI_DATATYPE_NULL);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    all_ways();
    refused();
    return check_close();
}
