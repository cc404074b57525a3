// ranks: 1 2
// What a program can ask of its surroundings, before, during and after MPI.
// (MPI 5.0, chapters 9 and 11)
#include "check.h"

static void before(void) {
    int flag = -1, version = -1, subversion = -1, length = -1;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    OK(MPI_Initialized(&flag));
    SAME(flag, 0);
    OK(MPI_Finalized(&flag));
    SAME(flag, 0);
    OK(MPI_Get_version(&version, &subversion));
    SAME(version, MPI_VERSION);
    SAME(subversion, MPI_SUBVERSION);
    OK(MPI_Get_library_version(text, &length));
    CHECK(length > 0 && (size_t)length == strlen(text));
}

static void flags(void) {
    int flag = -1, level = -1;
    section("flags");
    OK(MPI_Initialized(&flag));
    SAME(flag, 1);
    OK(MPI_Finalized(&flag));
    SAME(flag, 0);
    OK(MPI_Is_thread_main(&flag));
    SAME(flag, 1);
    OK(MPI_Query_thread(&level));
    CHECK(level >= MPI_THREAD_SERIALIZED && level <= MPI_THREAD_MULTIPLE);
    CHECK(MPI_THREAD_SINGLE < MPI_THREAD_FUNNELED && MPI_THREAD_FUNNELED < MPI_THREAD_SERIALIZED);
}

static void clock(void) {
    double start = MPI_Wtime(), last = start, tick = MPI_Wtick();
    section("clock");
    CHECK(tick > 0 && tick < 1);
    for (int i = 0; i < 100000; i++) {
        double now = MPI_Wtime();
        CHECK(now >= last);
        last = now;
    }
    CHECK(last > start);
}

static void names(void) {
    char name[MPI_MAX_PROCESSOR_NAME];
    int length = -1, version = -1, subversion = -1;
    section("names and versions");
    OK(MPI_Get_processor_name(name, &length));
    CHECK(length > 0 && length < MPI_MAX_PROCESSOR_NAME);
    SAME(strlen(name), length);
    OK(MPI_Abi_get_version(&version, &subversion));
    SAME(version, MPI_ABI_VERSION);
}

static void memory(void) {
    unsigned char *lent = NULL;
    MPI_Aint address = 0, other = 0;
    int numbers[10];
    section("memory and addresses");
    OK(MPI_Alloc_mem(100000, MPI_INFO_NULL, &lent));
    CHECK(lent != NULL && (size_t)lent % 16 == 0);
    fill(lent, 100000, 3);
    VERIFY(lent, 100000, 3);
    OK(MPI_Free_mem(lent));
    OK(MPI_Get_address(&numbers[0], &address));
    OK(MPI_Get_address(&numbers[7], &other));
    SAME(MPI_Aint_diff(other, address), 7 * sizeof(int));
    SAME(MPI_Aint_add(address, 7 * sizeof(int)), other);
}

static void predefined_attributes(void) {
    int *value = NULL, found = 0;
    section("predefined attributes");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found));
    CHECK(found && *value >= 32767);
    value = NULL, found = 0;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &found));
    CHECK(!found || *value == 0 || *value == 1);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &found));
    CHECK(!found || *value >= check_size);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &found));
    CHECK(!found || *value >= 0);
}

int main(int argc, char **argv) {
    int flag = -1, provided = -1, version, subversion;
    before();
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided));
    CHECK(provided >= MPI_THREAD_SERIALIZED);
    check_world();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    flags();
    clock();
    names();
    memory();
    predefined_attributes();
    section("finalize");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    OK(MPI_Initialized(&flag));
    SAME(flag, 1);
    OK(MPI_Finalized(&flag));
    SAME(flag, 1);
    OK(MPI_Get_version(&version, &subversion));
    if (check_rank == 0) printf("ok\n");
    return 0;
}
