// ranks: 4 6 8
// launch: --ft
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// What is made from a communicator with blank ranks (BLANK), and what it keeps: groups compared, communicators created from
// groups, grids and graphs and parts of grids (rules K1 to K3, K6 to K9, K12). Rank 1 dies, and of six or more the last one, too.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { RANKS_MAX = 8, UNTOUCHED = -77 };

static int is_victim(int rank) { return rank == 1 || (check_size >= 6 && rank == check_size - 1); }

static int lives_among(const int *ranks, int count) {
    int number = 0;
    for (int at = 0; at < count; at++) number += !is_victim(ranks[at]);
    return number;
}

/* The members of comm are those ranks of the world, in that order; those who have died are blank in it, and the others
 * reach each other. */
static void is_of(MPI_Comm comm, const int *ranks, int count) {
    int rank, number, flag, sum = 0, all[RANKS_MAX], one = 1;
    OK(MPI_Comm_size(comm, &number));
    SAME(number, count);
    OK(MPI_Comm_rank(comm, &rank));
    SAME(ranks[rank], check_rank);
    OK(MPIX_Comm_live_size(comm, &number));
    SAME(number, lives_among(ranks, count));
    for (int at = 0; at < count; at++) {
        OK(MPIX_Comm_is_blank(comm, at, &flag));
        SAME(flag, is_victim(ranks[at]));
        all[at] = UNTOUCHED;
    }
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    SAME(sum, lives_among(ranks, count));
    OK(MPI_Allgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, comm));
    for (int at = 0; at < count; at++) SAME(all[at], is_victim(ranks[at]) ? UNTOUCHED : ranks[at]);
}

static void k1_groups(MPI_Comm whole) {
    MPI_Group all, blank, live, both;
    int number, backward[RANKS_MAX];
    section("K1, K2, K3: groups with blank members");
    OK(MPI_Comm_group(whole, &all));
    OK(MPIX_Comm_blank_group(whole, &blank));
    OK(MPIX_Comm_live_group(whole, &live));
    OK(MPI_Group_union(live, blank, &both));
    OK(MPI_Group_compare(all, both, &number));
    SAME(number, MPI_SIMILAR);
    OK(MPI_Group_free(&both));
    OK(MPI_Group_difference(all, live, &both));
    OK(MPI_Group_compare(both, blank, &number));
    SAME(number, MPI_IDENT);
    OK(MPI_Group_free(&both));
    OK(MPI_Group_intersection(blank, live, &both));
    SAME(both == MPI_GROUP_EMPTY, 1);
    for (int at = 0; at < check_size; at++) {
        int ahead = check_size - 1 - at, behind;
        backward[at] = ahead;
        OK(MPI_Group_translate_ranks(all, 1, &ahead, all, &behind));
        SAME(behind, ahead);
    }
    OK(MPI_Group_incl(all, check_size, backward, &both));
    OK(MPI_Group_compare(all, both, &number));
    SAME(number, MPI_SIMILAR);
    OK(MPI_Group_free(&both));
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&blank));
    OK(MPI_Group_free(&live));
}

/* A communicator of some ranks, in that order; who is not among them gets none. */
static void create(MPI_Comm whole, const int *ranks, int count) {
    MPI_Group all, some;
    MPI_Comm made;
    int mine;
    OK(MPI_Comm_group(whole, &all));
    OK(MPI_Group_incl(all, count, ranks, &some));
    OK(MPI_Group_rank(some, &mine));
    OK(MPI_Comm_create(whole, some, &made));
    SAME(made == MPI_COMM_NULL, mine == MPI_UNDEFINED);
    if (made != MPI_COMM_NULL) {
        is_of(made, ranks, count);
        OK(MPI_Comm_free(&made));
    }
    /* The same by those alone who are to have it, twice, so that the second is another one. */
    for (int again = 0; again < 2 && mine != MPI_UNDEFINED; again++) {
        OK(MPI_Comm_create_group(whole, some, 5, &made));
        is_of(made, ranks, count);
        OK(MPI_Comm_free(&made));
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&some));
}

static void k6_create(MPI_Comm whole) {
    int backward[RANKS_MAX], few[2] = {1, 0}, living[RANKS_MAX], lives = 0;
    section("K6: communicators of groups with and without blank members");
    for (int at = 0; at < check_size; at++) {
        backward[at] = check_size - 1 - at;
        if (!is_victim(at)) living[lives++] = at;
    }
    create(whole, backward, check_size);
    create(whole, few, 2);
    create(whole, living, lives);
}

static void k10_leaders(MPI_Comm whole) {
    MPI_Comm across = MPI_COMM_NULL;
    section("K10: a blank rank leads nobody");
    CLASS(MPI_Intercomm_create(whole, 1, MPI_COMM_WORLD, 0, 3, &across), MPI_ERR_RANK);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CLASS(MPI_Intercomm_create(MPI_COMM_SELF, 0, whole, 1, 3, &across), MPI_ERR_RANK);
    CHECK(across == MPI_COMM_NULL);
}

static void k3_compare(MPI_Comm whole) {
    MPI_Comm copy, part;
    int number;
    section("K3: communicators with blank members are compared by their places");
    OK(MPI_Comm_dup(whole, &copy));
    OK(MPI_Comm_compare(whole, copy, &number));
    SAME(number, MPI_CONGRUENT);
    OK(MPI_Comm_split(whole, 0, 0, &part));
    OK(MPI_Comm_compare(whole, part, &number));
    SAME(number, MPI_UNEQUAL);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&part));
}

/* What the neighbours give is got, and of blank ones nothing. */
static void exchange(MPI_Comm comm, const int *sources, int count) {
    int got[2 * RANKS_MAX];
    for (int at = 0; at < count; at++) got[at] = UNTOUCHED;
    OK(MPI_Neighbor_allgather(&check_rank, 1, MPI_INT, got, 1, MPI_INT, comm));
    for (int at = 0; at < count; at++)
        SAME(got[at], sources[at] == MPI_PROC_NULL || is_victim(sources[at]) ? UNTOUCHED : sources[at]);
}

static void k7_graphs(MPI_Comm whole) {
    MPI_Comm graph;
    int indices[RANKS_MAX], edges[2 * RANKS_MAX], got[2], number;
    int before = (check_rank + check_size - 1) % check_size, after = (check_rank + 1) % check_size;
    int sources[2] = {before, after};
    section("K7, K9: graphs have edges to blank ranks");
    for (int at = 0; at < check_size; at++) {
        indices[at] = 2 * (at + 1);
        edges[2 * at] = (at + check_size - 1) % check_size;
        edges[2 * at + 1] = (at + 1) % check_size;
    }
    OK(MPI_Graph_create(whole, check_size, indices, edges, 0, &graph));
    OK(MPI_Graph_neighbors(graph, 1, 2, got));
    SAME(got[0], 0);
    SAME(got[1], 2);
    OK(MPI_Graph_neighbors(graph, check_rank, 2, got));
    SAME(got[0], before);
    SAME(got[1], after);
    exchange(graph, sources, 2);
    OK(MPI_Comm_free(&graph));
    OK(MPI_Dist_graph_create_adjacent(whole, 2, sources, MPI_UNWEIGHTED, 2, sources, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                      &graph));
    OK(MPI_Dist_graph_neighbors_count(graph, &number, &got[0], &got[1]));
    SAME(number, 2);
    OK(MPI_Dist_graph_neighbors(graph, 2, sources, MPI_UNWEIGHTED, 2, got, MPI_UNWEIGHTED));
    SAME(sources[0], before);
    SAME(got[1], after);
    exchange(graph, sources, 2);
    OK(MPI_Comm_free(&graph));
}

/* Two rows; rank 1 is in the first one. */
static void k8_grids(MPI_Comm whole, MPI_Comm older) {
    MPI_Comm grids[2], row;
    int sizes[2] = {2, check_size / 2}, around[2] = {0, 1}, keep[2] = {0, 1}, here[2], there[2], sources[4];
    int ranks[RANKS_MAX];
    OK(MPI_Cart_create(whole, 2, sizes, around, 0, &grids[0]));
    grids[1] = older;
    for (int which = 0; which < 2; which++) {
        section(which == 0 ? "K7, K9: a grid that is made with blank ranks" : "K7, K9: a grid that was made before");
        for (int at = 0; at < check_size; at++) ranks[at] = at;
        is_of(grids[which], ranks, check_size);
        OK(MPI_Cart_coords(grids[which], 1, 2, there));
        SAME(there[0], 0);
        SAME(there[1], 1);
        OK(MPI_Cart_coords(grids[which], check_rank, 2, here));
        OK(MPI_Cart_shift(grids[which], 0, 1, &sources[0], &sources[1]));
        OK(MPI_Cart_shift(grids[which], 1, 1, &sources[2], &sources[3]));
        SAME(sources[0], here[0] == 0 ? MPI_PROC_NULL : check_rank - sizes[1]);
        SAME(sources[3], here[0] * sizes[1] + (here[1] + 1) % sizes[1]);
        exchange(grids[which], sources, 4);
        section("K8: blank ranks stay in their rows");
        OK(MPI_Cart_sub(grids[which], keep, &row));
        for (int at = 0; at < sizes[1]; at++) ranks[at] = here[0] * sizes[1] + at;
        is_of(row, ranks, sizes[1]);
        OK(MPI_Cart_shift(row, 0, 1, &sources[0], &sources[1]));
        SAME(sources[1], (here[1] + 1) % sizes[1]);
        OK(MPI_Comm_free(&row));
    }
    OK(MPI_Comm_free(&grids[0]));
}

static int kept = 42, handled;

static void handle(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    handled++;
}

static void k12_kept(MPI_Comm whole, int keyval) {
    char name[MPI_MAX_OBJECT_NAME], value[32];
    int length = sizeof value, flag = 0, *attribute = NULL;
    MPI_Info info;
    section("K12: name, attributes, hints and error handler are as before");
    OK(MPI_Comm_get_name(whole, name, &flag));
    SAME(strcmp(name, "survivors"), 0);
    OK(MPI_Comm_get_attr(whole, keyval, &attribute, &flag));
    SAME(flag, 1);
    SAME(*attribute, 42);
    OK(MPI_Comm_get_info(whole, &info));
    OK(MPI_Info_get_string(info, "mpi_assert_allow_overtaking", &length, value, &flag));
    SAME(flag && strcmp(value, "true") == 0, 1);
    OK(MPI_Info_free(&info));
    handled = 0;
    CLASS(MPI_Send(&kept, -1, MPI_INT, 0, 0, whole), MPI_ERR_COUNT);
    SAME(handled, 1);
}

int main(int argc, char **argv) {
    MPI_Comm whole, grid;
    MPI_Errhandler handler;
    MPI_Info hints;
    MPIX_Recover_info info;
    int keyval, sizes[2], around[2] = {0, 1};
    check_open(argc, argv);
    section("before");
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &whole));
    OK(MPIX_Comm_set_ft_mode(whole, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    sizes[0] = 2;
    sizes[1] = check_size / 2;
    OK(MPI_Cart_create(whole, 2, sizes, around, 0, &grid));
    OK(MPI_Comm_set_name(whole, "survivors"));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    OK(MPI_Comm_set_attr(whole, keyval, &kept));
    OK(MPI_Info_create(&hints));
    OK(MPI_Info_set(hints, "mpi_assert_allow_overtaking", "true"));
    OK(MPI_Comm_set_info(whole, hints));
    OK(MPI_Info_free(&hints));
    OK(MPI_Comm_create_errhandler(handle, &handler));
    OK(MPI_Comm_set_errhandler(whole, handler));
    OK(MPI_Errhandler_free(&handler));
    /* Whoever is the first to leave it may be gone before the others are through. */
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (is_victim(check_rank)) {
        fflush(NULL);
        raise(SIGKILL);
    }
    section("recovery");
    while (MPI_Barrier(whole) == MPI_SUCCESS) continue;
    do {
        OK(MPIX_Comm_recover(whole, 0, NULL, &info));
        OK(MPI_Group_free(&info.failed));
        OK(MPIX_Comm_live_size(whole, &sizes[0]));
    } while (sizes[0] > check_size - 1 - (check_size >= 6));
    do {
        OK(MPIX_Comm_recover(grid, 0, NULL, &info));
        OK(MPI_Group_free(&info.failed));
        OK(MPIX_Comm_live_size(grid, &sizes[0]));
    } while (sizes[0] > check_size - 1 - (check_size >= 6));
    k12_kept(whole, keyval);
    k1_groups(whole);
    k3_compare(whole);
    k6_create(whole);
    k10_leaders(whole);
    k7_graphs(whole);
    k8_grids(whole, grid);
    section("the end");
    OK(MPI_Comm_free_keyval(&keyval));
    OK(MPI_Comm_free(&grid));
    OK(MPI_Comm_free(&whole));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
