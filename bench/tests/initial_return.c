// ranks: 1 2
// launch: --initial-errhandler mpi_errors_return --pset app://first=0 --pset app://one=0
// The error handler that the launcher chooses is in force before MPI_Init, on the world and after MPI_Finalize, and
// MPI_INFO_ENV names it; so are the process sets that it names. (MPI 5.0, sections 9.3, 11.2.1 and 11.8.4)
#include "check.h"

static void environment(void) {
    char value[64];
    int room = sizeof value, found = 0;
    OK(MPI_Info_get_string(MPI_INFO_ENV, "mpi_initial_errhandler", &room, value, &found));
    CHECK(found && strcmp(value, "mpi_errors_return") == 0);
    room = sizeof value;
    OK(MPI_Info_get_string(MPI_INFO_ENV, "maxprocs", &room, value, &found));
    CHECK(found && atoi(value) >= 1);
}

static void handler_of(MPI_Comm comm) {
    MPI_Errhandler found;
    MPI_Comm copy;
    OK(MPI_Comm_get_errhandler(comm, &found));
    CHECK(found == MPI_ERRORS_RETURN);
    OK(MPI_Comm_dup(comm, &copy));
    OK(MPI_Comm_get_errhandler(copy, &found));
    CHECK(found == MPI_ERRORS_RETURN);
    OK(MPI_Comm_free(&copy));
}

static void sets(void) {
    MPI_Session session;
    MPI_Group group;
    char name[MPI_MAX_PSET_NAME_LEN];
    int count, room = sizeof name, size;
    section("process sets that the launcher names");
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    SAME(count, check_rank == 0 ? 5 : 3); /* a process sees the sets that it is in */
    if (check_rank == 0) {
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 4, &room, name));
        CHECK(strcmp(name, "app://one") == 0);
        OK(MPI_Group_from_session_pset(session, name, &group));
        OK(MPI_Group_size(group, &size));
        SAME(size, 1);
        OK(MPI_Group_free(&group));
    }
    OK(MPI_Session_finalize(&session));
    section("parts that are process sets");
    MPI_Info info;
    MPI_Comm part;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_pset_name", "app://first"));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &part));
    CHECK((part != MPI_COMM_NULL) == (check_rank == 0)); /* who is not in the set gets none */
    if (part != MPI_COMM_NULL) {
        OK(MPI_Comm_size(part, &size));
        SAME(size, 1);
        OK(MPI_Comm_free(&part));
    }
    OK(MPI_Info_set(info, "mpi_pset_name", "mpi://SELF")); /* one for each process */
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &part));
    OK(MPI_Comm_size(part, &size));
    SAME(size, 1);
    OK(MPI_Comm_free(&part));
    OK(MPI_Info_free(&info));
}

int main(int argc, char **argv) {
    int flag;
    check_watchdog();
    section("before MPI_Init");
    CLASS(MPI_Barrier(MPI_COMM_WORLD), MPI_ERR_OTHER);
    CLASS(MPI_Info_free(NULL), MPI_ERR_ARG);
    environment();
    section("the world");
    OK(MPI_Init(&argc, &argv));
    check_world();
    environment();
    handler_of(MPI_COMM_WORLD);
    handler_of(MPI_COMM_SELF);
    CLASS(MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    sets();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    section("after MPI_Finalize");
    CLASS(MPI_Barrier(MPI_COMM_WORLD), MPI_ERR_OTHER);
    CLASS(MPI_Init(&argc, &argv), MPI_ERR_OTHER);
    CLASS(MPI_Info_free(NULL), MPI_ERR_ARG);
    OK(MPI_Finalized(&flag));
    SAME(flag, 1);
    return 0;
}
