// ranks: 1 2 3 5 8
// Windows as objects: the four flavors and what they tell of themselves, names, groups, hints, memory that is attached,
// wrong arguments and what they leave untouched. (MPI 5.0, sections 12.2 and 7.8)
#include "check.h"

/* What other libraries leave open, or get wrong, is looked at here alone. */
#define OURS_CLASS(call, right) \
    do { \
        if (check_library_is("weft")) CLASS(call, right); \
    } while (0)

#ifdef MPI_ABI_VERSION
#define TO_INTEGER MPI_Win_toint
#define FROM_INTEGER MPI_Win_fromint
#else
#define TO_INTEGER MPI_Win_c2f
#define FROM_INTEGER MPI_Win_f2c
#endif

static MPI_Comm comm;

static void tells(MPI_Win win, int flavor, const void *base, MPI_Aint size, int unit) {
    void *value = NULL;
    int found = 0, result, length = -1;
    char name[MPI_MAX_OBJECT_NAME] = "nothing";
    MPI_Group here, there;
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &found));
    CHECK(found);
    CHECK(value == base);
    OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &found));
    CHECK(found);
    SAME(*(MPI_Aint *)value, size);
    OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &found));
    CHECK(found);
    SAME(*(int *)value, unit);
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &found));
    CHECK(found);
    SAME(*(int *)value, flavor);
    OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &found));
    CHECK(found);
    CHECK(*(int *)value == MPI_WIN_UNIFIED || *(int *)value == MPI_WIN_SEPARATE);
    OK(MPI_Win_get_group(win, &there));
    OK(MPI_Comm_group(comm, &here));
    OK(MPI_Group_compare(here, there, &result));
    SAME(result, MPI_IDENT);
    OK(MPI_Group_free(&here));
    OK(MPI_Group_free(&there));
    OK(MPI_Win_get_name(win, name, &length));
    if (check_library_is("weft")) SAME(length, 0);
    OK(MPI_Win_set_name(win, "a window"));
    OK(MPI_Win_get_name(win, name, &length));
    SAME(length, 8);
    SAME(strcmp(name, "a window"), 0);
}

static void created(void) {
    static double values[20];
    MPI_Win win = MPI_WIN_NULL, other;
    MPI_Aint size = (MPI_Aint)sizeof(double) * (check_rank + 1);
    section("windows on memory of the program's");
    OK(MPI_Win_create(values, size, sizeof(double), MPI_INFO_NULL, comm, &win));
    CHECK(win != MPI_WIN_NULL);
    tells(win, MPI_WIN_FLAVOR_CREATE, values, size, sizeof(double));
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, comm, &other));
    CHECK(other != win);
    tells(other, MPI_WIN_FLAVOR_CREATE, NULL, 0, 1);
    OK(MPI_Win_free(&win));
    CHECK(win == MPI_WIN_NULL);
    OK(MPI_Win_free(&other));
}

static void allocated(void) {
    MPI_Win win;
    MPI_Info hints, used;
    char value[32] = "";
    int found = 0;
    unsigned char *base = NULL;
    section("windows on memory of the library's");
    for (MPI_Aint size = 0; size <= 100000; size = size * 10 + 10 * (check_rank + 1)) {
        MPI_Aint largest = 0;
        OK(MPI_Allreduce(&size, &largest, 1, MPI_AINT, MPI_MAX, comm));
        if (largest > 100000) break;
        OK(MPI_Win_allocate(size, 2, MPI_INFO_NULL, comm, &base, &win));
        if (size > 0) fill(base, (size_t)size, 3);
        if (size > 0 || check_library_is("weft")) tells(win, MPI_WIN_FLAVOR_ALLOCATE, base, size, 2);
        if (size > 0) VERIFY(base, (size_t)size, 3);
        OK(MPI_Win_free(&win));
    }
    OK(MPI_Info_create(&hints));
    OK(MPI_Info_set(hints, "mpi_minimum_memory_alignment", "4096"));
    OK(MPI_Info_set(hints, "no_locks", "true"));
    OK(MPI_Info_set(hints, "color_of_the_sky", "blue"));
    OK(MPI_Win_allocate(100, 1, hints, comm, &base, &win));
    OK(MPI_Win_get_info(win, &used));
    if (check_library_is("weft")) {
        SAME((size_t)base % 4096, 0);
        OK(MPI_Info_get(used, "no_locks", 31, value, &found));
        CHECK(found && strcmp(value, "true") == 0);
        OK(MPI_Info_get(used, "color_of_the_sky", 31, value, &found));
        CHECK(!found);
    }
    OK(MPI_Win_set_info(win, used));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Info_set(hints, "no_locks", "perhaps"));
    OURS_CLASS(MPI_Win_set_info(win, hints), MPI_ERR_INFO_VALUE);
    OK(MPI_Info_free(&used));
    OK(MPI_Info_free(&hints));
    OK(MPI_Win_free(&win));
}

static void dynamic(void) {
    static char memory[300];
    MPI_Win win, fixed;
    void *base = &base;
    section("windows that memory is attached to");
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_attach(win, memory, 100));
    OK(MPI_Win_attach(win, memory + 100, 200));
    OURS_CLASS(MPI_Win_attach(win, memory + 50, 10), MPI_ERR_RMA_ATTACH);
    OURS_CLASS(MPI_Win_attach(win, memory, -1), MPI_ERR_SIZE);
    OURS_CLASS(MPI_Win_attach(win, NULL, 8), MPI_ERR_BASE);
    OK(MPI_Win_detach(win, memory + 100));
    OK(MPI_Win_detach(win, memory));
    OURS_CLASS(MPI_Win_detach(win, memory), MPI_ERR_BASE);
    OK(MPI_Win_attach(win, memory, 300));
    if (check_library_is("weft")) tells(win, MPI_WIN_FLAVOR_DYNAMIC, MPI_BOTTOM, 0, 1);
    OK(MPI_Win_free(&win)); /* with what is attached */
    OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, comm, &fixed));
    OK(MPI_Win_set_errhandler(fixed, MPI_ERRORS_RETURN));
    OURS_CLASS(MPI_Win_attach(fixed, memory, 10), MPI_ERR_RMA_FLAVOR);
    OURS_CLASS(MPI_Win_detach(fixed, memory), MPI_ERR_RMA_FLAVOR);
    OK(MPI_Win_free(&fixed));
}

static void integers(void) {
    MPI_Win win, other;
    section("handles as integers");
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &other));
    CHECK(TO_INTEGER(win) != TO_INTEGER(other));
    CHECK(FROM_INTEGER(TO_INTEGER(win)) == win && FROM_INTEGER(TO_INTEGER(other)) == other);
    CHECK(FROM_INTEGER(TO_INTEGER(MPI_WIN_NULL)) == MPI_WIN_NULL);
    OK(MPI_Win_free(&other));
    OK(MPI_Win_free(&win));
}

static void epochs(void) {
    int *base;
    MPI_Win win;
    section("epochs");
    OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    OK(MPI_Win_sync(win));
    OK(MPI_Win_flush(check_rank, win));
    OK(MPI_Win_flush_local(0, win));
    OK(MPI_Win_flush_all(win));
    OK(MPI_Win_flush_local_all(win));
    OURS_CLASS(MPI_Win_flush(check_size, win), MPI_ERR_RANK);
    OURS_CLASS(MPI_Win_flush(-1, win), MPI_ERR_RANK);
    OURS_CLASS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_unlock_all(win));
    OURS_CLASS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_fence(MPI_MODE_NOCHECK, win), MPI_ERR_ASSERT);
    OURS_CLASS(MPI_Win_lock_all(MPI_MODE_NOPUT, win), MPI_ERR_ASSERT);
    OK(MPI_Win_free(&win));
}

/* Errors of making are the communicator's; those of a handle that is none go to MPI_COMM_SELF. */
static void wrong(void) {
    char memory[8];
    void *base = memory;
    MPI_Win win = MPI_WIN_NULL, gone;
    MPI_Aint size = 77;
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm both, half;
    int unit = 77, length = 77;
    char name[MPI_MAX_OBJECT_NAME];
    section("wrong arguments of what makes windows");
    CLASS(MPI_Win_create(memory, 8, 1, MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM);
    CLASS(MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, comm, &win), MPI_ERR_SIZE);
    CLASS(MPI_Win_create(memory, 8, 0, MPI_INFO_NULL, comm, &win), MPI_ERR_DISP);
    CLASS(MPI_Win_create(memory, 8, -1, MPI_INFO_NULL, comm, &win), MPI_ERR_DISP);
    CLASS(MPI_Win_create(NULL, 8, 1, MPI_INFO_NULL, comm, &win), MPI_ERR_BASE);
    CLASS(MPI_Win_create(memory, 8, 1, MPI_INFO_NULL, comm, NULL), MPI_ERR_ARG);
    CLASS(MPI_Win_create_c(memory, 8, 0, MPI_INFO_NULL, comm, &win), MPI_ERR_DISP);
    CLASS(MPI_Win_allocate(-1, 1, MPI_INFO_NULL, comm, &base, &win), MPI_ERR_SIZE);
    CLASS(MPI_Win_allocate(8, 0, MPI_INFO_NULL, comm, &base, &win), MPI_ERR_DISP);
    CLASS(MPI_Win_allocate(8, 1, MPI_INFO_NULL, comm, NULL, &win), MPI_ERR_ARG);
    CLASS(MPI_Win_allocate(8, 1, MPI_INFO_NULL, comm, &base, NULL), MPI_ERR_ARG);
    CLASS(MPI_Win_allocate_shared(-1, 1, MPI_INFO_NULL, comm, &base, &win), MPI_ERR_SIZE);
    CLASS(MPI_Win_allocate_shared(8, -7, MPI_INFO_NULL, comm, &base, &win), MPI_ERR_DISP);
    CLASS(MPI_Win_allocate_shared((MPI_Aint)1 << 60, 1, MPI_INFO_NULL, comm, &base, &win), MPI_ERR_NO_MEM);
    CLASS(MPI_Win_allocate((MPI_Aint)1 << 60, 1, MPI_INFO_NULL, comm, &base, &win), MPI_ERR_NO_MEM);
    CLASS(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM);
    CHECK(base == memory && win == MPI_WIN_NULL);
    if (check_size > 1) {
        OK(MPI_Comm_split(comm, check_rank % 2, 0, &half));
        OK(MPI_Intercomm_create(half, 0, comm, 1 - check_rank % 2, 5, &both));
        OK(MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN));
        CLASS(MPI_Win_create_dynamic(MPI_INFO_NULL, both, &win), MPI_ERR_COMM);
        CLASS(MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, both, &base, &win), MPI_ERR_COMM);
        OK(MPI_Comm_free(&both));
        OK(MPI_Comm_free(&half));
    }
    section("handles that are none");
    CLASS(MPI_Win_free(NULL), MPI_ERR_ARG);
    CLASS(MPI_Win_free(&win), MPI_ERR_WIN);
    CLASS(MPI_Win_get_group(win, &group), MPI_ERR_WIN);
    CLASS(MPI_Win_get_info(win, &info), MPI_ERR_WIN);
    CLASS(MPI_Win_set_info(win, MPI_INFO_NULL), MPI_ERR_WIN);
    CLASS(MPI_Win_get_errhandler(win, &handler), MPI_ERR_WIN);
    CLASS(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN), MPI_ERR_WIN);
    CLASS(MPI_Win_call_errhandler(win, MPI_ERR_OTHER), MPI_ERR_WIN);
    CLASS(MPI_Win_set_name(win, "name"), MPI_ERR_WIN);
    CLASS(MPI_Win_fence(0, win), MPI_ERR_WIN);
    CLASS(MPI_Win_sync(win), MPI_ERR_WIN);
    CLASS(MPI_Win_attach(win, memory, 8), MPI_ERR_WIN);
    CLASS(MPI_Win_detach(win, memory), MPI_ERR_WIN);
    CLASS(MPI_Win_shared_query(win, 0, &size, &unit, &base), MPI_ERR_WIN);
    OK(MPI_Win_get_name(win, name, &length)); /* which it has */
    SAME(strcmp(name, "MPI_WIN_NULL"), 0);
    SAME(length, 12);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    gone = win;
    CLASS(MPI_Win_get_group(win, NULL), MPI_ERR_ARG);
    CLASS(MPI_Win_get_info(win, NULL), MPI_ERR_ARG);
    CLASS(MPI_Win_get_errhandler(win, NULL), MPI_ERR_ARG);
    CLASS(MPI_Win_get_name(win, NULL, &length), MPI_ERR_ARG);
    CLASS(MPI_Win_get_name(win, name, NULL), MPI_ERR_ARG);
    CLASS(MPI_Win_set_name(win, NULL), MPI_ERR_ARG);
    CLASS(MPI_Win_set_errhandler(win, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    CLASS(MPI_Win_shared_query(win, 0, &size, &unit, &base), MPI_ERR_RMA_FLAVOR);
    CHECK(size == 77 && unit == 77 && base == memory && group == MPI_GROUP_NULL && info == MPI_INFO_NULL);
    CHECK(handler == MPI_ERRHANDLER_NULL);
    OK(MPI_Win_free(&win));
    CLASS(MPI_Win_free(&gone), MPI_ERR_WIN);
    CLASS(MPI_Win_get_name(gone, name, &length), MPI_ERR_WIN);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    created();
    allocated();
    dynamic();
    integers();
    epochs();
    if (check_library_is("weft")) wrong();
    OK(MPI_Comm_free(&comm));
    return check_close();
}
