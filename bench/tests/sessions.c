// ranks: 1 2 3 5
// Sessions without MPI_Init: opened and closed many times, several at once, before and after the world model, with
// process sets, groups and error handlers. (MPI 5.0, sections 11.3 and 7.3.2)
#include "check.h"

/* There is no world at first: whatever fails ends this process alone, and the launcher ends the others. */
static MPI_Session open_session(void) {
    MPI_Session session = MPI_SESSION_NULL;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK(session != MPI_SESSION_NULL);
    return session;
}

static void close_session(MPI_Session session) {
    OK(MPI_Session_finalize(&session));
    CHECK(session == MPI_SESSION_NULL);
}

static int set_size(MPI_Session session, const char *name) {
    MPI_Info info;
    char value[16];
    int room = sizeof value, found = 0;
    OK(MPI_Session_get_pset_info(session, name, &info));
    OK(MPI_Info_get_string(info, "mpi_size", &room, value, &found));
    CHECK(found);
    OK(MPI_Info_free(&info));
    return atoi(value);
}

static void sets(void) {
    MPI_Session session = open_session();
    int count = 0, found = 0;
    section("process sets");
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    CHECK(count >= (check_library_is("MPICH") ? 2 : 3)); /* which has no mpi://SHARED */
    for (int n = 0; n < count; n++) {
        char name[MPI_MAX_PSET_NAME_LEN], cut[5] = "????";
        int length = 0, room = sizeof name, size, rank, little = 4;
        MPI_Group group = MPI_GROUP_NULL;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, NULL));
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &room, name));
        SAME(length, (int)strlen(name) + 1);
        if (!check_library_is("MPICH")) SAME(room, length);
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &little, cut));
        CHECK(strncmp(cut, name, 3) == 0 && cut[3] == '\0' && cut[4] == '\0');
        OK(MPI_Group_from_session_pset(session, name, &group));
        OK(MPI_Group_size(group, &size));
        OK(MPI_Group_rank(group, &rank));
        SAME(size, set_size(session, name));
        CHECK(rank >= 0 && rank < size); /* a process sees the sets that it is in */
        if (strcmp(name, "mpi://WORLD") == 0) {
            found |= 1, check_rank = rank, check_size = size;
        } else if (strcmp(name, "mpi://SELF") == 0) {
            found |= 2;
            SAME(size, 1);
        } else if (strcmp(name, "mpi://SHARED") == 0) {
            found |= 4;
            CHECK(size <= set_size(session, "mpi://WORLD")); /* how many exactly, comm_create.c looks at */
        }
        OK(MPI_Group_free(&group));
    }
    SAME(found | (check_library_is("MPICH") ? 4 : 0), 7);
    close_session(session);
}

static void wrong(void) {
    MPI_Session session = open_session();
    MPI_Group group = MPI_GROUP_EMPTY;
    int number = 0;
    section("wrong arguments");
    CLASS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 99, &number, NULL), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Session_get_num_psets(session, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    if (!check_library_is("MPICH")) {
        CLASS(MPI_Group_from_session_pset(session, "mpi://MOON", &group), MPI_ERR_ARG);
        CHECK(group == MPI_GROUP_NULL);
    }
    close_session(session);
}

static int noted, calls;
static MPI_Session of_session;

static void note(MPI_Session *session, int *code, ...) {
    of_session = *session;
    noted = *code;
    calls++;
}

static void handlers(void) {
    MPI_Errhandler mine, found;
    MPI_Session session;
    int length = 0;
    section("error handlers of sessions");
    OK(MPI_Session_create_errhandler(note, &mine));
    OK(MPI_Session_init(MPI_INFO_NULL, mine, &session));
    OK(MPI_Session_get_errhandler(session, &found));
    CHECK(found == mine);
    OK(MPI_Errhandler_free(&found));
    OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    SAME(calls, 1);
    SAME(noted, MPI_ERR_OTHER);
    CHECK(of_session == session);
    STRICT_CLASS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &length, NULL), MPI_ERR_ARG);
    SAME(calls, check_library_is("MPICH") ? 1 : 2);
    CHECK(of_session == session);
    calls = 0;
    OK(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
    OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    SAME(calls, 0);
    OK(MPI_Errhandler_free(&mine));
    close_session(session);
}

static void many(void) {
    MPI_Session kept = open_session();
    section("many sessions");
    for (int turn = 0; turn < 50; turn++) {
        MPI_Session first = open_session(), second = open_session();
        CHECK(first != second && first != kept);
        close_session(first);
        close_session(second);
    }
    close_session(kept);
}

static void info(void) {
    MPI_Session session;
    MPI_Info hints, used;
    char value[64];
    int room = sizeof value, found = 0;
    section("hints");
    OK(MPI_Info_create(&hints));
    OK(MPI_Info_set(hints, "thread_level", "MPI_THREAD_MULTIPLE"));
    OK(MPI_Session_init(hints, MPI_ERRORS_RETURN, &session));
    OK(MPI_Info_free(&hints));
    OK(MPI_Session_get_info(session, &used));
    OK(MPI_Info_get_string(used, "thread_level", &room, value, &found));
    CHECK(found && strncmp(value, "MPI_THREAD_", 11) == 0);
    OK(MPI_Info_free(&used));
    close_session(session);
}

static void world_between(int argc, char **argv) {
    MPI_Session before = open_session(), within;
    MPI_Group of_set, of_world;
    int result = -1, flag = -1, level = -1;
    section("the world model between sessions");
    OK(MPI_Initialized(&flag));
    SAME(flag, 0); /* sessions do not count */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    OK(MPI_Initialized(&flag));
    SAME(flag, 1);
    check_world();
    within = open_session();
    OK(MPI_Group_from_session_pset(within, "mpi://WORLD", &of_set));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &of_world));
    OK(MPI_Group_compare(of_set, of_world, &result));
    SAME(result, MPI_IDENT);
    OK(MPI_Group_free(&of_set));
    OK(MPI_Group_free(&of_world));
    close_session(before);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    MPI_Finalize();
    section("a session after the world model");
    SAME(set_size(within, "mpi://WORLD"), check_size);
    close_session(within);
    close_session(open_session());
    OK(MPI_Finalized(&flag));
    SAME(flag, 1);
}

int main(int argc, char **argv) {
    check_watchdog();
    sets();
    wrong();
    handlers();
    many();
    info();
    world_between(argc, argv);
    return 0;
}
