// ranks: 2 3 5
// Calls that do not fit together, where no communicator of those who call stands behind them: with tags, groups,
// communicators or operations that differ, every caller gets an error, nothing hangs, and all is well afterwards.
// (MPI 5.0, sections 7.4.2, 7.6.2; docs/decisions/0011)
#include "check.h"

#include <time.h>

static MPI_Group world, both; /* all; the first two */
static MPI_Comm made;

static MPI_Group range(int first, int last) {
    MPI_Group group;
    int ranges[1][3] = {{first, last, first <= last ? 1 : -1}};
    OK(MPI_Group_range_incl(world, 1, ranges, &group));
    return group;
}

static void is_refused(int code, int class) {
    CLASS(code, class);
    CHECK(made == MPI_COMM_NULL);
    made = MPI_COMM_NULL;
}

static void meets(MPI_Group group, int tag) {
    int ones = 1, sum = 0, size = -1;
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &made));
    OK(MPI_Comm_size(made, &size));
    OK(MPI_Allreduce(&ones, &sum, 1, MPI_INT, MPI_SUM, made));
    SAME(sum, size);
    OK(MPI_Comm_free(&made));
}

/* With the arguments of either side, as if nothing had happened. */
static void all_is_well(MPI_Group group, int first, int second) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < 3; round++) {
        meets(group, first);
        meets(group, second);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void tags(void) {
    for (int round = 0; round < 3; round++) {
        section("create_group: one process gives another tag");
        int odd_one = round % check_size;
        is_refused(MPI_Comm_create_group(MPI_COMM_WORLD, world, check_rank == odd_one ? 7 : 8, &made), MPI_ERR_TAG);
        section("create_group: as well as ever afterwards");
        all_is_well(world, 7, 8);
    }
}

static void pause_briefly(void) {
    struct timespec tenth = {0, 100000000};
    nanosleep(&tenth, NULL);
}

static void late(void) {
    section("create_group: the others come late");
    if (check_rank > 0) pause_briefly();
    is_refused(MPI_Comm_create_group(MPI_COMM_WORLD, world, check_rank == 0, &made), MPI_ERR_TAG);
    all_is_well(world, 0, 1);
    if (check_rank == 0) pause_briefly();
    is_refused(MPI_Comm_create_group(MPI_COMM_WORLD, world, check_rank == 0, &made), MPI_ERR_TAG);
    all_is_well(world, 1, 0);
}

static void groups(void) {
    section("create_group: two processes give groups of another order");
    MPI_Group reversed = range(1, 0);
    if (check_rank < 2)
        is_refused(MPI_Comm_create_group(MPI_COMM_WORLD, check_rank ? both : reversed, 1, &made), MPI_ERR_GROUP);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank < 2) {
        meets(reversed, 1);
        meets(both, 1);
    }
    OK(MPI_Group_free(&reversed));
    all_is_well(world, 1, 2);
}

static void communicators(void) {
    MPI_Comm copy;
    section("create_group: the same group of another communicator");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
    is_refused(MPI_Comm_create_group(check_rank == 0 ? copy : MPI_COMM_WORLD, world, 1, &made), MPI_ERR_COMM);
    all_is_well(world, 1, 2);
    OK(MPI_Comm_free(&copy));
}

static void strings(void) {
    section("create_from_group: other strings");
    const char *string = check_rank == 0 ? "weft://zero" : "weft://others";
    is_refused(MPI_Comm_create_from_group(world, string, MPI_INFO_NULL, MPI_ERRORS_RETURN, &made), MPI_ERR_ARG);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Comm_create_from_group(world, "weft://others", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made));
    OK(MPI_Comm_free(&made));
}

/* The even ranks and the odd ones; ranks 0 and 1 lead. */
static int connect(MPI_Comm half, MPI_Comm peers, int tag) {
    return MPI_Intercomm_create(half, 0, peers, check_rank % 2 == 0, tag, &made);
}

static void connected(MPI_Comm half, int tag) {
    int remote = -1;
    OK(connect(half, MPI_COMM_WORLD, tag));
    OK(MPI_Comm_remote_size(made, &remote));
    SAME(remote, (check_size + check_rank % 2) / 2);
    OK(MPI_Comm_free(&made));
}

static void leaders(void) {
    MPI_Comm half, copy;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &half));
    OK(MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN));
    for (int round = 0; round < 3; round++) {
        section("intercomm_create: the sides give other tags");
        is_refused(connect(half, MPI_COMM_WORLD, 5 + check_rank % 2), MPI_ERR_TAG);
        section("intercomm_create: at once again, with one tag");
        connected(half, 5);
        connected(half, 6);
    }
    section("intercomm_create: the leaders meet in other communicators");
    is_refused(connect(half, check_rank % 2 ? copy : MPI_COMM_WORLD, 5), MPI_ERR_COMM);
    connected(half, 5);
    section("intercomm_create: the other leader makes another communicator");
    if (check_rank == 0) {
        is_refused(MPI_Comm_create_group(MPI_COMM_WORLD, both, 5, &made), MPI_ERR_OTHER);
    } else if (check_rank % 2) {
        is_refused(connect(half, MPI_COMM_WORLD, 5), MPI_ERR_OTHER);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    connected(half, 5);
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&copy));
}

static void sides(void) {
    MPI_Group local, remote;
    int even[1][3] = {{0, check_size - 1, 2}}, odd[1][3] = {{1, check_size - 1, 2}};
    OK(MPI_Group_range_incl(world, 1, check_rank % 2 ? odd : even, &local));
    OK(MPI_Group_range_incl(world, 1, check_rank % 2 ? even : odd, &remote));
    section("intercomm_create_from_groups: other strings");
    is_refused(MPI_Intercomm_create_from_groups(local, 0, remote, 0, check_rank % 2 ? "odd" : "even", MPI_INFO_NULL,
                                                MPI_ERRORS_RETURN, &made),
               MPI_ERR_ARG);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Intercomm_create_from_groups(local, 0, remote, 0, "odd", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made));
    OK(MPI_Comm_free(&made));
    OK(MPI_Group_free(&local));
    OK(MPI_Group_free(&remote));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    if (check_library_is("MPICH")) return check_close(); /* it does not look, and waits for ever */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    both = range(0, 1);
    made = MPI_COMM_NULL;
    tags();
    late();
    groups();
    communicators();
    strings();
    leaders();
    sides();
    OK(MPI_Group_free(&both));
    OK(MPI_Group_free(&world));
    return check_close();
}
