// ranks: 1 2
// Info objects: order of keys, limits of keys and values, cut values, copies, MPI_INFO_ENV and its copies, and all of it
// before MPI_Init and after MPI_Finalize. (MPI 5.0, sections 10 and 11.2.1)
#include "check.h"

static void expect(MPI_Info info, const char *key, const char *right) {
    char value[MPI_MAX_INFO_VAL];
    int room = sizeof value, found = -1;
    OK(MPI_Info_get_string(info, key, &room, value, &found));
    SAME(found, right != NULL);
    if (right == NULL) return;
    SAME(room, (int)strlen(right) + 1);
    CHECK(strcmp(value, right) == 0);
}

static void order(void) {
    static const char *const keys[] = {"zebra", "ant", "mouse", "Ant"};
    MPI_Info info, copy;
    char key[MPI_MAX_INFO_KEY];
    int count = -1;
    section("keys stay in the order in which they came");
    OK(MPI_Info_create(&info));
    for (int n = 0; n < 4; n++) OK(MPI_Info_set(info, keys[n], keys[3 - n]));
    OK(MPI_Info_set(info, "ant", "new")); /* another value, the same place */
    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_delete(info, "zebra"));
    OK(MPI_Info_get_nkeys(copy, &count));
    SAME(count, 4);
    for (int n = 0; n < 4; n++) {
        OK(MPI_Info_get_nthkey(copy, n, key));
        CHECK(strcmp(key, keys[n]) == 0);
    }
    OK(MPI_Info_get_nkeys(info, &count));
    SAME(count, 3);
    OK(MPI_Info_get_nthkey(info, 0, key));
    CHECK(strcmp(key, "ant") == 0);
    expect(copy, "ant", "new");
    expect(copy, "Ant", "zebra"); /* case counts */
    expect(info, "zebra", NULL);
    OK(MPI_Info_free(&copy));
    OK(MPI_Info_free(&info));
    CHECK(info == MPI_INFO_NULL);
}

static void limits(void) {
    static char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    char cut[8];
    MPI_Info info;
    int room, found;
    section("limits");
    OK(MPI_Info_create(&info));
    memset(key, 'k', MPI_MAX_INFO_KEY);
    memset(value, 'v', MPI_MAX_INFO_VAL);
    STRICT_CLASS(MPI_Info_set(info, key, "x"), MPI_ERR_INFO_KEY);
    STRICT_CLASS(MPI_Info_set(info, "x", value), MPI_ERR_INFO_VALUE);
    key[MPI_MAX_INFO_KEY - 1] = value[MPI_MAX_INFO_VAL - 1] = '\0';
    OK(MPI_Info_set(info, key, value));
    expect(info, key, value);
    STRICT_CLASS(MPI_Info_set(info, "", "x"), MPI_ERR_INFO_KEY);
    OK(MPI_Info_set(info, "empty", ""));
    expect(info, "empty", "");
    section("values that are cut");
    OK(MPI_Info_set(info, "long", "0123456789"));
    memset(cut, '?', sizeof cut);
    room = 5;
    OK(MPI_Info_get_string(info, "long", &room, cut, &found));
    CHECK(found && room == 11 && strcmp(cut, "0123") == 0 && cut[5] == '?');
    room = 0;
    OK(MPI_Info_get_string(info, "long", &room, NULL, &found));
    CHECK(found && room == 11);
    section("wrong arguments");
    CLASS(MPI_Info_delete(info, "absent"), MPI_ERR_INFO_NOKEY);
    STRICT_CLASS(MPI_Info_get_nthkey(info, 3, cut), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Info_get_nthkey(info, -1, cut), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Info_set(MPI_INFO_NULL, "a", "b"), MPI_ERR_INFO);
    OK(MPI_Info_free(&info));
    STRICT_CLASS(MPI_Info_free(&info), MPI_ERR_INFO);
    info = MPI_INFO_ENV;
    STRICT_CLASS(MPI_Info_set(info, "a", "b"), MPI_ERR_INFO);
    STRICT_CLASS(MPI_Info_delete(info, "host"), MPI_ERR_INFO);
    STRICT_CLASS(MPI_Info_free(&info), MPI_ERR_INFO);
    CHECK(info == MPI_INFO_ENV || check_library_is("MPICH"));
}

static void environment(char **argv) {
    MPI_Info copy, made;
    char key[MPI_MAX_INFO_KEY], value[MPI_MAX_INFO_VAL], folder[4096];
    char *arguments[] = {"/bin/prog", "one", "two"};
    int count, found, room = sizeof value;
    section("MPI_INFO_ENV");
    if (check_library_is("MPICH")) return; /* has fewer keys, and other values */
    expect(MPI_INFO_ENV, "command", argv[0]);
    expect(MPI_INFO_ENV, "argv", "");
    expect(MPI_INFO_ENV, "wdir", getcwd(folder, sizeof folder));
    expect(MPI_INFO_ENV, "mpi_initial_errhandler", "mpi_errors_are_fatal");
    OK(MPI_Info_get_string(MPI_INFO_ENV, "maxprocs", &room, value, &found));
    CHECK(found && atoi(value) >= 1 && (check_size < 0 || atoi(value) == check_size));
    for (int n = 0; n < 2; n++) {
        room = sizeof value;
        OK(MPI_Info_get_string(MPI_INFO_ENV, n ? "host" : "arch", &room, value, &found));
        CHECK(found && room > 1);
    }
    OK(MPI_Info_get_nkeys(MPI_INFO_ENV, &count));
    OK(MPI_Info_dup(MPI_INFO_ENV, &copy));
    for (int n = 0; n < count; n++) {
        OK(MPI_Info_get_nthkey(copy, n, key));
        room = sizeof value;
        OK(MPI_Info_get_string(MPI_INFO_ENV, key, &room, value, &found));
        CHECK(found);
        expect(copy, key, value);
    }
    OK(MPI_Info_set(copy, "host", "elsewhere"));
    expect(copy, "host", "elsewhere");
    OK(MPI_Info_free(&copy));
    section("MPI_Info_create_env");
    OK(MPI_Info_create_env(3, arguments, &made));
    expect(made, "command", "/bin/prog");
    expect(made, "argv", "one two");
    OK(MPI_Info_free(&made));
    OK(MPI_Info_create_env(0, NULL, &made));
    expect(made, "command", NULL);
    OK(MPI_Info_free(&made));
}

int main(int argc, char **argv) {
    check_watchdog();
    order();
    environment(argv);
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    order();
    limits();
    environment(argv);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    section("after the end");
    order();
    environment(argv);
    return 0;
}
