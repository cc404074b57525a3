// ranks: 1 2 3
// What hangs on windows: copy functions are never called, delete functions are, the latest first, when an attribute is
// replaced, deleted, or its window freed; their codes end the call; they may call MPI. Error handlers of windows.
// (MPI 5.0, sections 7.7.3, 9.3 and 12.6)
#include "check.h"

static int my_class, my_code, failing, copies, deletions, order[8];
static MPI_Win deleted_of;
static MPI_Comm comm;

static MPI_Win made(void) {
    MPI_Win win;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    return win;
}

static int copy(MPI_Win win, int key, void *extra, void *value, void *out, int *flag) {
    (void)win, (void)key, (void)extra, (void)value, (void)out, (void)flag;
    copies++;
    return MPI_SUCCESS;
}

static int delete(MPI_Win win, int key, void *value, void *extra) {
    (void)key;
    CHECK(extra == &order);
    if (deletions < 8) order[deletions] = *(int *)value;
    deletions++;
    deleted_of = win;
    return failing ? my_code : MPI_SUCCESS;
}

static void order_of_deletion(void) {
    static int values[] = {1, 2, 3, 4};
    int keys[3], found = -1;
    void *value = NULL;
    MPI_Win win = made(), same = win;
    section("the latest goes first");
    for (int i = 0; i < 3; i++) {
        OK(MPI_Win_create_keyval(copy, delete, &keys[i], &order));
        OK(MPI_Win_set_attr(win, keys[i], &values[i]));
    }
    OK(MPI_Win_get_attr(win, keys[1], &value, &found));
    CHECK(found && value == &values[1]);
    deletions = 0;
    OK(MPI_Win_set_attr(win, keys[1], &values[3])); /* replaces 2, and is the latest now */
    SAME(deletions, 1);
    SAME(order[0], 2);
    for (int i = 0; i < 3; i++) OK(MPI_Win_free_keyval(&keys[i])); /* what hangs there stays */
    OK(MPI_Win_free(&win));
    SAME(deletions, 4);
    CHECK(deleted_of == same);
    if (check_library_is("weft")) CHECK(order[1] == 4 && order[2] == 3 && order[3] == 1);
    SAME(copies, 0);
}

static void codes(void) {
    int key, number = 5, other = 6, found;
    void *value;
    MPI_Win win = made(), same = win;
    section("codes of delete functions");
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete, &key, &order));
    OK(MPI_Win_set_attr(win, key, &number));
    failing = 1;
    SAME(MPI_Win_delete_attr(win, key), my_code);
    if (check_library_is("weft")) { /* others have lost it */
        SAME(MPI_Win_set_attr(win, key, &other), my_code);
        SAME(MPI_Win_free(&win), my_code);
        CHECK(win == same);
        OK(MPI_Win_get_attr(win, key, &value, &found));
        CHECK(found && value == &number);
    }
    failing = 0;
    OK(MPI_Win_free(&win));
    CHECK(win == MPI_WIN_NULL);
    OK(MPI_Win_free_keyval(&key));
}

static int inner_key, recursions;

/* Calls MPI for the very window and key that it is called for, and for others. */
static int recurse(MPI_Win win, int key, void *value, void *extra) {
    void *same = NULL;
    int found = 0, token = 7, mine = key;
    MPI_Group group;
    MPI_Win other;
    (void)extra;
    recursions++;
    OK(MPI_Win_get_attr(win, key, &same, &found));
    CHECK(found && same == value); /* it goes after this returns */
    OK(MPI_Win_get_group(win, &group));
    OK(MPI_Group_free(&group));
    OK(MPI_Win_set_attr(win, inner_key, &token));
    OK(MPI_Win_delete_attr(win, inner_key));
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &other));
    OK(MPI_Win_set_attr(other, inner_key, &token));
    OK(MPI_Win_free(&other));
    if (value == NULL) OK(MPI_Win_free_keyval(&mine)); /* its own key */
    return MPI_SUCCESS;
}

static void recursion(void) {
    int key, number;
    MPI_Win win = made();
    section("delete functions that call MPI");
    deletions = 0;
    OK(MPI_Win_create_keyval(MPI_WIN_DUP_FN, delete, &inner_key, &order));
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, recurse, &key, NULL));
    OK(MPI_Win_set_attr(win, key, &number));
    OK(MPI_Win_set_attr(win, key, NULL));
    OK(MPI_Win_free(&win));
    SAME(recursions, 2);
    SAME(deletions, 4);
    if (check_library_is("weft")) CLASS(MPI_Win_free_keyval(&key), MPI_ERR_KEYVAL); /* it is freed already */
    OK(MPI_Win_free_keyval(&inner_key));
}

static int again_calls, again_of[8];

/* Sets a value of the very key that it is called for, once. */
static int set_again(MPI_Win win, int key, void *value, void *extra) {
    if (again_calls < 8) again_of[again_calls] = *(int *)value;
    if (++again_calls == 1) OK(MPI_Win_set_attr(win, key, extra));
    return MPI_SUCCESS;
}

static void replaced_meanwhile(void) {
    static int values[] = {1, 2, 3};
    int key, found;
    void *value;
    MPI_Win win = made();
    section("a delete function that sets its own attribute");
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, set_again, &key, &values[1]));
    OK(MPI_Win_set_attr(win, key, &values[0]));
    OK(MPI_Win_set_attr(win, key, &values[2]));
    /* The 1, which stands there until its function returns, is replaced twice; the 2 is not lost. */
    SAME(again_calls, 3);
    CHECK(again_of[0] == 1 && again_of[1] == 1 && again_of[2] == 2);
    OK(MPI_Win_get_attr(win, key, &value, &found));
    CHECK(found && value == &values[2]);
    OK(MPI_Win_free(&win));
    SAME(again_calls, 4);
    SAME(again_of[3], 3);
    OK(MPI_Win_free_keyval(&key));
}

static void wrong(void) {
    int win_key, comm_key, found = 77;
    void *value = &value;
    MPI_Win win = made();
    section("keys that do not serve");
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &win_key, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL));
    CLASS(MPI_Win_set_attr(win, comm_key, NULL), MPI_ERR_KEYVAL);
    CLASS(MPI_Win_get_attr(win, comm_key, &value, &found), MPI_ERR_KEYVAL);
    CLASS(MPI_Win_get_attr(win, MPI_TAG_UB, &value, &found), MPI_ERR_KEYVAL);
    CLASS(MPI_Win_get_attr(win, MPI_KEYVAL_INVALID, &value, &found), MPI_ERR_KEYVAL);
    CLASS(MPI_Win_delete_attr(win, comm_key), MPI_ERR_KEYVAL);
    CLASS(MPI_Win_set_attr(win, MPI_WIN_SIZE, NULL), MPI_ERR_KEYVAL);
    CLASS(MPI_Win_delete_attr(win, MPI_WIN_BASE), MPI_ERR_KEYVAL);
    CLASS(MPI_Comm_get_attr(comm, MPI_WIN_BASE, &value, &found), MPI_ERR_KEYVAL);
    CLASS(MPI_Win_set_attr(MPI_WIN_NULL, win_key, NULL), MPI_ERR_WIN);
    CLASS(MPI_Win_get_attr(MPI_WIN_NULL, win_key, &value, &found), MPI_ERR_WIN);
    CLASS(MPI_Win_delete_attr(MPI_WIN_NULL, win_key), MPI_ERR_WIN);
    CLASS(MPI_Win_get_attr(win, win_key, NULL, &found), MPI_ERR_ARG);
    CLASS(MPI_Win_get_attr(win, win_key, &value, NULL), MPI_ERR_ARG);
    CHECK(found == 77 && value == &value);
    OK(MPI_Win_get_attr(win, win_key, &value, &found));
    CHECK(!found && value == &value);
    OK(MPI_Win_delete_attr(win, win_key)); /* nothing hangs there */
    OK(MPI_Win_free_keyval(&win_key));
    OK(MPI_Comm_free_keyval(&comm_key));
    OK(MPI_Win_free(&win));
}

static int calls, code_told;
static MPI_Win told_of;

static void note(MPI_Win *win, int *code, ...) {
    calls++;
    told_of = *win;
    MPI_Error_class(*code, &code_told);
}

static void handlers(void) {
    MPI_Errhandler mine, found, of_comm;
    MPI_Win win;
    section("error handlers of windows");
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_get_errhandler(win, &found));
    CHECK(found == MPI_ERRORS_ARE_FATAL); /* whatever its communicator has */
    OK(MPI_Win_create_errhandler(note, &mine));
    OK(MPI_Win_set_errhandler(win, mine));
    OK(MPI_Win_get_errhandler(win, &found));
    CHECK(found == mine);
    OK(MPI_Errhandler_free(&found));
    OK(MPI_Win_call_errhandler(win, MPI_ERR_RMA_CONFLICT));
    SAME(calls, 1);
    SAME(code_told, MPI_ERR_RMA_CONFLICT);
    CHECK(told_of == win);
    if (check_library_is("weft")) {
        CLASS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC); /* its function is told, and the call returns */
        SAME(calls, 2);
        SAME(code_told, MPI_ERR_RMA_SYNC);
        CLASS(MPI_Comm_set_errhandler(MPI_COMM_SELF, mine), MPI_ERR_ERRHANDLER);
        OK(MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)(void (*)(void))note, &of_comm));
        CLASS(MPI_Win_set_errhandler(win, of_comm), MPI_ERR_ERRHANDLER);
        SAME(calls, 3);
        OK(MPI_Errhandler_free(&of_comm));
    }
    OK(MPI_Errhandler_free(&mine)); /* it lives on the window */
    CHECK(mine == MPI_ERRHANDLER_NULL);
    calls = 0;
    OK(MPI_Win_call_errhandler(win, MPI_ERR_OTHER));
    SAME(calls, 1);
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Add_error_class(&my_class));
    OK(MPI_Add_error_code(my_class, &my_code));
    order_of_deletion();
    codes();
    recursion();
    if (check_library_is("weft")) {
        replaced_meanwhile();
        wrong();
    }
    handlers();
    OK(MPI_Comm_free(&comm));
    return check_close();
}
