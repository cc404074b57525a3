// ranks: 1 2 3 5
// Arguments of one-sided communication that are none: each is refused with its class, and nothing is changed.
// (MPI 5.0, sections 12.3, 12.5 and 12.6)
#include "check.h"

/* What other libraries leave open, or get wrong, is looked at here alone. */
#define OURS_CLASS(call, right) \
    do { \
        if (is_ours) CLASS(call, right); \
    } while (0)

enum { ELEMENTS = 16, WIDTH = sizeof(int) };

static int is_ours, next, memory[ELEMENTS], wrong[3];
static MPI_Comm comm;
static MPI_Win win;

static void add(void *in, void *inout, int *length, MPI_Datatype *datatype) {
    (void)in, (void)inout, (void)length, (void)datatype;
}

/* Arguments of synchronization, and those that all operations have. */
static void arguments(void) {
    MPI_Win none = MPI_WIN_NULL;
    int value = 5, flag;
    section("ranks, locks and assertions that are none");
    for (int i = 0; i < 3; i++) {
        CLASS(MPI_Win_lock(MPI_LOCK_SHARED, wrong[i], 0, win), MPI_ERR_RANK);
        OURS_CLASS(MPI_Win_unlock(wrong[i], win), MPI_ERR_RANK);
    }
    OURS_CLASS(MPI_Win_lock(77, next, 0, win), MPI_ERR_LOCKTYPE);
    OURS_CLASS(MPI_Win_lock(-1, next, 0, win), MPI_ERR_LOCKTYPE);
    OURS_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, next, MPI_MODE_NOPUT, win), MPI_ERR_ASSERT);
    OURS_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, next, 1 << 30, win), MPI_ERR_ASSERT);
    OURS_CLASS(MPI_Win_lock_all(1 << 30, win), MPI_ERR_ASSERT);
    OURS_CLASS(MPI_Win_fence(1 << 30, win), MPI_ERR_ASSERT);
    OURS_CLASS(MPI_Win_post(MPI_GROUP_EMPTY, MPI_MODE_NOSUCCEED, win), MPI_ERR_ASSERT);
    OURS_CLASS(MPI_Win_start(MPI_GROUP_EMPTY, MPI_MODE_NOSTORE, win), MPI_ERR_ASSERT);
    OURS_CLASS(MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    OURS_CLASS(MPI_Win_start(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    OURS_CLASS(MPI_Win_test(win, NULL), MPI_ERR_ARG);
    section("windows that are none");
    OURS_CLASS(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, none), MPI_ERR_WIN);
    OURS_CLASS(MPI_Fetch_and_op(&value, &value, MPI_INT, 0, 0, MPI_SUM, none), MPI_ERR_WIN);
    OURS_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, none), MPI_ERR_WIN);
    OURS_CLASS(MPI_Win_unlock_all(none), MPI_ERR_WIN);
    OURS_CLASS(MPI_Win_flush(0, none), MPI_ERR_WIN);
    OURS_CLASS(MPI_Win_post(MPI_GROUP_EMPTY, 0, none), MPI_ERR_WIN);
    OURS_CLASS(MPI_Win_test(none, &flag), MPI_ERR_WIN);
    section("windows that cannot be");
    OURS_CLASS(MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, comm, &none), MPI_ERR_SIZE);
    OURS_CLASS(MPI_Win_create(memory, 8, 0, MPI_INFO_NULL, comm, &none), MPI_ERR_DISP);
    OURS_CLASS(MPI_Win_create(memory, 8, -4, MPI_INFO_NULL, comm, &none), MPI_ERR_DISP);
}

static void operations(void) {
    int out[2] = {7, 8}, in[2] = {9, 9}, lengths[] = {1, 1}, t = next;
    double reals[2] = {0};
    MPI_Aint places[] = {0, 8};
    MPI_Datatype mixed, pair, raw, kinds[] = {MPI_INT, MPI_DOUBLE};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Op mine;
    section("arguments of operations");
    OK(MPI_Type_create_struct(2, lengths, places, kinds, &mixed));
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_contiguous(2, MPI_INT, &raw));
    OK(MPI_Type_commit(&mixed));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Op_create(add, 1, &mine));
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 3; i++) {
        int none = wrong[i];
        CLASS(MPI_Put(out, 1, MPI_INT, none, 0, 1, MPI_INT, win), MPI_ERR_RANK);
        CLASS(MPI_Get(in, 1, MPI_INT, none, 0, 1, MPI_INT, win), MPI_ERR_RANK);
        CLASS(MPI_Accumulate(out, 1, MPI_INT, none, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RANK);
        CLASS(MPI_Get_accumulate(out, 1, MPI_INT, in, 1, MPI_INT, none, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RANK);
        CLASS(MPI_Fetch_and_op(out, in, MPI_INT, none, 0, MPI_SUM, win), MPI_ERR_RANK);
        CLASS(MPI_Compare_and_swap(out, out, in, MPI_INT, none, 0, win), MPI_ERR_RANK);
        CLASS(MPI_Rput(out, 1, MPI_INT, none, 0, 1, MPI_INT, win, &request), MPI_ERR_RANK);
        CLASS(MPI_Rget(in, 1, MPI_INT, none, 0, 1, MPI_INT, win, &request), MPI_ERR_RANK);
        OURS_CLASS(MPI_Win_flush(none, win), MPI_ERR_RANK);
        OURS_CLASS(MPI_Win_flush_local(none, win), MPI_ERR_RANK);
    }
    CHECK(request == MPI_REQUEST_NULL);
    CLASS(MPI_Put(out, -1, MPI_INT, t, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    CLASS(MPI_Get(in, 1, MPI_INT, t, 0, -1, MPI_INT, win), MPI_ERR_COUNT);
    CLASS(MPI_Put(out, 1, MPI_DATATYPE_NULL, t, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    CLASS(MPI_Get(in, 1, MPI_INT, t, 0, 1, MPI_DATATYPE_NULL, win), MPI_ERR_TYPE);
    OURS_CLASS(MPI_Put(out, 1, raw, t, 0, 1, pair, win), MPI_ERR_TYPE);
    OURS_CLASS(MPI_Put(out, 1, pair, t, 0, 1, raw, win), MPI_ERR_TYPE);
    OURS_CLASS(MPI_Put(NULL, 1, MPI_INT, t, 0, 1, MPI_INT, win), MPI_ERR_BUFFER);
    OURS_CLASS(MPI_Get(NULL, 1, MPI_INT, t, 0, 1, MPI_INT, win), MPI_ERR_BUFFER);
    OURS_CLASS(MPI_Rput(out, 1, MPI_INT, t, 0, 1, MPI_INT, win, NULL), MPI_ERR_ARG);
    CLASS(MPI_Accumulate(out, 1, MPI_INT, t, 0, 1, MPI_INT, mine, win), MPI_ERR_OP);
    CLASS(MPI_Get_accumulate(out, 1, MPI_INT, in, 1, MPI_INT, t, 0, 1, MPI_INT, mine, win), MPI_ERR_OP);
    OURS_CLASS(MPI_Fetch_and_op(out, in, MPI_INT, t, 0, mine, win), MPI_ERR_OP);
    CLASS(MPI_Accumulate(out, 1, MPI_INT, t, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP);
    OURS_CLASS(MPI_Accumulate(out, 1, MPI_INT, t, 0, 1, MPI_INT, MPI_MINLOC, win), MPI_ERR_OP);
    OURS_CLASS(MPI_Accumulate(out, 1, MPI_2INT, t, 0, 1, MPI_2INT, MPI_SUM, win), MPI_ERR_OP);
    OURS_CLASS(MPI_Fetch_and_op(reals, reals, MPI_DOUBLE, t, 0, MPI_BXOR, win), MPI_ERR_OP);
    OURS_CLASS(MPI_Get_accumulate(reals, 1, MPI_C_DOUBLE_COMPLEX, reals, 1, MPI_C_DOUBLE_COMPLEX, t, 0, 1,
                                  MPI_C_DOUBLE_COMPLEX, MPI_MAX, win), MPI_ERR_OP);
    section("datatypes of accumulates");
    OURS_CLASS(MPI_Accumulate(out, 1, MPI_INT, t, 0, 1, MPI_FLOAT, MPI_SUM, win), MPI_ERR_TYPE);
    OURS_CLASS(MPI_Accumulate(reals, 1, MPI_DOUBLE, t, 0, 2, MPI_INT, MPI_SUM, win), MPI_ERR_TYPE);
    OURS_CLASS(MPI_Accumulate(reals, 1, mixed, t, 0, 1, mixed, MPI_REPLACE, win), MPI_ERR_TYPE);
    OURS_CLASS(MPI_Get_accumulate(out, 1, MPI_INT, in, 1, MPI_INT, t, 0, 1, MPI_UNSIGNED, MPI_SUM, win), MPI_ERR_TYPE);
    OURS_CLASS(MPI_Fetch_and_op(out, in, pair, t, 0, MPI_SUM, win), MPI_ERR_TYPE);
    OURS_CLASS(MPI_Compare_and_swap(reals, reals, reals, MPI_DOUBLE, t, 0, win), MPI_ERR_TYPE);
    OURS_CLASS(MPI_Compare_and_swap(out, out, in, pair, t, 0, win), MPI_ERR_TYPE);
    OURS_CLASS(MPI_Compare_and_swap(out, out, in, MPI_DATATYPE_NULL, t, 0, win), MPI_ERR_TYPE);
    if (is_ours) { /* more or less than fits */
        CHECK(MPI_Put(out, 2, MPI_INT, t, 0, 1, MPI_INT, win) != MPI_SUCCESS);
        CHECK(MPI_Get(in, 1, MPI_INT, t, 0, 2, MPI_INT, win) != MPI_SUCCESS);
        CHECK(MPI_Accumulate(out, 1, MPI_INT, t, 0, 2, MPI_INT, MPI_SUM, win) != MPI_SUCCESS);
        CHECK(MPI_Get_accumulate(out, 1, MPI_INT, in, 2, MPI_INT, t, 0, 1, MPI_INT, MPI_SUM, win) != MPI_SUCCESS);
    }
    OK(MPI_Win_unlock_all(win));
    CHECK(in[0] == 9 && in[1] == 9);
    OK(MPI_Op_free(&mine));
    OK(MPI_Type_free(&mixed));
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&raw));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    is_ours = check_library_is("weft");
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    next = (check_rank + 1) % check_size;
    wrong[0] = check_size, wrong[1] = -77, wrong[2] = 1 << 30;
    memset(memory, 0xee, sizeof memory);
    OK(MPI_Win_create(memory, sizeof memory, WIDTH, MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    arguments();
    operations();
    OK(MPI_Win_free(&win));
    UNTOUCHED(memory, sizeof memory, 0xee);
    OK(MPI_Comm_free(&comm));
    return check_close();
}
