// ranks: 16
// launch: -x WEFT_EXPLAIN=1
// says: mapped by
// A machine of four packages with four cores each, as WEFT_MACHINE describes it: what reordered grids and graphs gain
// on it, by default, by a hint, and by the functions of mpix.h.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix.h>

enum { CORES = 4 };

/* Of the edges along the axes asked for, those that lead to another package. */
static int cut(MPI_Comm grid, int first_axis, int last_axis) {
    int mine = check_rank / CORES, away = 0, all = -1, packages[64], size = -1;
    OK(MPI_Comm_size(grid, &size));
    OK(MPI_Allgather(&mine, 1, MPI_INT, packages, 1, MPI_INT, grid));
    for (int axis = first_axis; axis <= last_axis; axis++) {
        int ranks[2];
        OK(MPI_Cart_shift(grid, axis, 1, &ranks[0], &ranks[1]));
        for (int way = 0; way < 2; way++) away += ranks[way] != MPI_PROC_NULL && packages[ranks[way]] != mine;
    }
    OK(MPI_Allreduce(&away, &all, 1, MPI_INT, MPI_SUM, grid));
    return all;
}

static void by_default(void) {
    MPI_Comm grid, copy, again;
    int dims[2] = {4, 4}, periods[2] = {0, 0}, result = -1;
    section("ranks as they are: a row for each package");
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
    SAME(cut(grid, 0, 1), 24);
    OK(MPI_Comm_free(&grid));
    section("reordered: a square for each package");
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid));
    SAME(cut(grid, 0, 1), 16);
    OK(MPI_Comm_compare(grid, MPI_COMM_WORLD, &result));
    SAME(result, MPI_SIMILAR);
    section("reordered: what is known of the machine goes over to copies");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Cart_create(copy, 2, dims, periods, 1, &again));
    OK(MPI_Comm_compare(grid, again, &result));
    SAME(result, MPI_CONGRUENT);
    OK(MPI_Comm_free(&again));
    OK(MPI_Comm_free(&copy));
    section("a part of the ranks: whole packages where that is possible");
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){2, 4}, periods, 1, &again));
    if (again != MPI_COMM_NULL) {
        CHECK(cut(again, 0, 1) <= 4);
        OK(MPI_Comm_free(&again));
    }
    OK(MPI_Comm_free(&grid));
}

static void by_hint(void) {
    MPI_Comm hinted, grid;
    MPI_Info info, used;
    char value[64] = "";
    int dims[2] = {4, 4}, periods[2] = {0, 0}, flag = 0, length = sizeof value;
    section("a hint: messages along the first axis alone");
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "weft_stencil", "component"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &hinted));
    OK(MPI_Comm_get_info(hinted, &used));
    OK(MPI_Info_get_string(used, "weft_stencil", &length, value, &flag));
    CHECK(flag && strcmp(value, "component") == 0);
    OK(MPI_Info_free(&used));
    OK(MPI_Cart_create(hinted, 2, dims, periods, 1, &grid));
    SAME(cut(grid, 0, 0), 0);
    OK(MPI_Comm_free(&grid));
    section("a hint that is none");
    OK(MPI_Comm_set_errhandler(hinted, MPI_ERRORS_RETURN));
    OK(MPI_Info_set(info, "weft_stencil", "sideways"));
    CLASS(MPI_Comm_set_info(hinted, info), MPI_ERR_INFO_VALUE);
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&hinted));
}

static void by_function(void) {
    MPI_Comm grid = MPI_COMM_NULL;
    int dims[2] = {4, 4}, periods[2] = {0, 0}, stencil[4] = {1, 0, -1, 0};
    section("MPIX_Cart_stencil_comm");
    OK(MPIX_Cart_stencil_comm(MPI_COMM_WORLD, 2, dims, periods, 1, stencil, 2, &grid));
    SAME(cut(grid, 0, 0), 0);
    OK(MPI_Comm_free(&grid));
    OK(MPIX_Cart_stencil_comm(MPI_COMM_WORLD, 2, dims, periods, 0, stencil, 2, &grid));
    SAME(cut(grid, 0, 1), 24);
    OK(MPI_Comm_free(&grid));
    CLASS(MPIX_Cart_stencil_comm(MPI_COMM_WORLD, 2, dims, periods, 1, stencil, -1, &grid), MPI_ERR_ARG);
    CLASS(MPIX_Cart_stencil_comm(MPI_COMM_WORLD, 2, dims, periods, 1, (int[]){0, 0}, 1, &grid), MPI_ERR_ARG);
    CLASS(MPIX_Cart_stencil_comm(MPI_COMM_WORLD, -1, dims, periods, 1, stencil, 2, &grid), MPI_ERR_DIMS);
    section("MPIX_Cart_weighted_create: extents and mapping together");
    int chosen[2] = {0, 0}, got[2], rings[2], coords[2];
    OK(MPIX_Cart_weighted_create(MPI_COMM_WORLD, 2, NULL, periods, MPI_INFO_NULL, chosen, &grid));
    SAME(chosen[0] * chosen[1], 16);
    OK(MPI_Cart_get(grid, 2, got, rings, coords));
    CHECK(got[0] == chosen[0] && got[1] == chosen[1]);
    OK(MPI_Comm_free(&grid));
    section("MPIX_Cart_weighted_create: an axis whose faces are large is cut least");
    int long_way[2] = {0, 0};
    OK(MPIX_Cart_weighted_create(MPI_COMM_WORLD, 2, (int[]){1000, 1}, periods, MPI_INFO_NULL, long_way, &grid));
    CHECK(long_way[0] == 1 && long_way[1] == 16);
    OK(MPI_Comm_free(&grid));
    int fixed[2] = {3, 0};
    CLASS(MPIX_Cart_weighted_create(MPI_COMM_WORLD, 2, NULL, periods, MPI_INFO_NULL, fixed, &grid), MPI_ERR_DIMS);
    CLASS(MPIX_Cart_weighted_create(MPI_COMM_WORLD, 2, (int[]){0, 1}, periods, MPI_INFO_NULL, long_way, &grid),
          MPI_ERR_ARG);
}

/* Rank r talks to those that share its place in their packages: all edges leave packages, until ranks change. */
static void graph(void) {
    MPI_Comm made;
    int sources[CORES - 1], mine = check_rank / CORES, package[CORES - 1], degree = 0, away = 0, all = -1;
    for (int other = check_rank % CORES; other < check_size; other += CORES)
        if (other != check_rank) sources[degree++] = other;
    section("a distributed graph, reordered: who talks sits together");
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, degree, sources, MPI_UNWEIGHTED, degree, sources, MPI_UNWEIGHTED,
                                      MPI_INFO_NULL, 1, &made));
    OK(MPI_Neighbor_allgather(&mine, 1, MPI_INT, package, 1, MPI_INT, made));
    for (int i = 0; i < degree; i++) away += package[i] != mine;
    OK(MPI_Allreduce(&away, &all, 1, MPI_INT, MPI_SUM, made));
    SAME(all, 0);
    OK(MPI_Comm_free(&made));
}

int main(int argc, char **argv) {
    setenv("WEFT_MACHINE", "pack:4 core:4 pu:1", 1);
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    by_default();
    by_hint();
    by_function();
    graph();
    return check_close();
}
