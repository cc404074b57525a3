// ranks: 3 4 8
// launch: --ft
// not libfabric: what a provider tells of a dead process differs from one to the next
// How far failures reach (mpi_error_range): a communicator that has lost nobody notices nothing, unless it says that any failure revokes
// it ("universe", rule G3); one that has lost a member is broken for what needs all, or revoked where it says so ("group"), so that those end, too,
// who wait for somebody that lives. It stays so over recoveries.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { TAG = 3 };

static void set(MPI_Comm comm, const char *range) {
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_error_range", range));
    OK(MPI_Comm_set_info(comm, info));
    OK(MPI_Info_free(&info));
}

static void is(MPI_Comm comm, const char *range) {
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL] = "local";
    int length = sizeof value, found;
    OK(MPI_Comm_get_info(comm, &info));
    OK(MPI_Info_get_string(info, "mpi_error_range", &length, value, &found));
    OK(MPI_Info_free(&info));
    SAME(strcmp(value, range), 0);
}

static MPI_Comm copy(MPI_Comm of, const char *range) {
    MPI_Comm made;
    OK(MPI_Comm_dup(of, &made));
    OK(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN));
    if (range != NULL) set(made, range);
    return made;
}

static int is_revoked(MPI_Comm comm) {
    int flag = -1;
    OK(MPIX_Comm_is_revoked(comm, &flag));
    return flag;
}

/* Of those who live, from one to the next. */
static void goes_round(MPI_Comm comm) {
    int rank = -1, size = -1, got = -1;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, TAG, &got, 1, MPI_INT, (rank + size - 1) % size, TAG, comm,
            MPI_STATUS_IGNORE));
    SAME(got, (rank + size - 1) % size);
}

/* All who live are here: the world, of which members are dead, agrees. */
static void meet(void) {
    int flag = 1;
    (void)MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
}

int main(int argc, char **argv) {
    MPI_Comm local, group, universe, others, others_universe, others_group;
    MPI_Request waits[2];
    int last, at_end, got;
    check_open(argc, argv);
    last = check_size - 1;
    at_end = check_rank == last;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    section("what is said is told");
    is(MPI_COMM_WORLD, "local");
    local = copy(MPI_COMM_WORLD, NULL);
    group = copy(MPI_COMM_WORLD, "group");
    universe = copy(group, "universe");
    is(local, "local");
    is(group, "group");
    is(universe, "universe");
    OK(MPI_Comm_split(MPI_COMM_WORLD, at_end, 0, &others));
    OK(MPI_Comm_set_errhandler(others, MPI_ERRORS_RETURN));
    others_group = copy(others, "group");
    others_universe = copy(others, "universe");
    section("a member dies");
    meet();
    if (at_end) raise(SIGKILL);
    /* Nobody sends these: who could, lives, and would wait as well. */
    section("who waits for the living in what is revoked ends");
    OK(MPI_Irecv(&got, 1, MPI_INT, (check_rank + 1) % last, TAG, group, &waits[0]));
    OK(MPI_Irecv(&got, 1, MPI_INT, (check_rank + 1) % last, TAG, others_universe, &waits[1]));
    CLASS(MPI_Wait(&waits[0], MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    CLASS(MPI_Wait(&waits[1], MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    CLASS(MPI_Recv(&got, 1, MPI_INT, 0, TAG, universe, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    CLASS(MPI_Barrier(others_universe), MPIX_ERR_REVOKED);
    CHECK(is_revoked(group) && is_revoked(universe) && is_revoked(others_universe));
    section("G3: who lost nobody notices nothing");
    meet();
    CHECK(!is_revoked(local) && !is_revoked(others) && !is_revoked(others_group) && !is_revoked(MPI_COMM_WORLD));
    OK(MPI_Barrier(others));
    OK(MPI_Barrier(others_group));
    goes_round(others_group);
    CLASS(MPI_Barrier(local), MPIX_ERR_PROC_FAILED);
    section("what was known before revokes nothing");
    set(others, "universe");
    goes_round(others);
    CHECK(!is_revoked(others));
    section("it stays so over a recovery in place, and a smaller one begins anew");
    MPI_Comm smaller;
    OK(MPIX_Comm_shrink(group, &smaller));
    is(smaller, "local");
    OK(MPI_Comm_free(&smaller));
    OK(MPIX_Comm_set_ft_mode(group, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_CONT, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    OK(MPIX_Comm_recover(group, 0, NULL, NULL));
    OK(MPIX_Comm_set_ft_mode(universe, MPIX_FT_MODE_SHRINK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    OK(MPIX_Comm_recover(universe, MPIX_RECOVER_IN_PLACE, NULL, NULL));
    is(group, "group");
    is(universe, "universe");
    CHECK(!is_revoked(group) && !is_revoked(universe));
    OK(MPI_Barrier(group));
    goes_round(universe);
    if (check_size > 3) {
        section("and the next failure revokes it again");
        meet();
        if (check_rank == last - 1) raise(SIGKILL);
        CLASS(MPI_Recv(&got, 1, MPI_INT, (check_rank + 1) % (last - 1), TAG, universe, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
        CLASS(MPI_Recv(&got, 1, MPI_INT, (check_rank + 1) % (last - 1), TAG, group, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
        CHECK(is_revoked(group) && is_revoked(universe));
    }
    section("all is freed");
    OK(MPI_Comm_free(&local));
    OK(MPI_Comm_free(&group));
    OK(MPI_Comm_free(&universe));
    OK(MPI_Comm_free(&others));
    OK(MPI_Comm_free(&others_group));
    OK(MPI_Comm_free(&others_universe));
    OK(MPIX_Comm_set_ft_mode(MPI_COMM_WORLD, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, 0, NULL, NULL));
    set(MPI_COMM_WORLD, "universe");
    return check_close();
}
