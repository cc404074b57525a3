// ranks: 1 2 3
// Callbacks of attributes: their error codes end the call and leave the object as it was; they may call MPI, also for
// the object and the key that they are called for; at MPI_Finalize those of MPI_COMM_SELF come last set, first
// deleted. (MPI 5.0, sections 7.7 and 11.2.4)
#include "check.h"

enum { OF_COPY = 1, OF_DELETE = 2 };
static int my_class, my_code, failing, copies, deletions;

static int copy(MPI_Comm comm, int key, void *extra, void *value, void *out, int *flag) {
    (void)comm, (void)key, (void)extra;
    copies++;
    *(void **)out = value;
    *flag = 1;
    return failing & OF_COPY ? my_code : MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    deletions++;
    return failing & OF_DELETE ? my_code : MPI_SUCCESS;
}

static int type_copy(MPI_Datatype type, int key, void *extra, void *value, void *out, int *flag) {
    (void)type;
    return copy(MPI_COMM_NULL, key, extra, value, out, flag);
}

static int type_delete(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type;
    return delete(MPI_COMM_NULL, key, value, extra);
}

static void codes_of_comms(void) {
    int key, number, found;
    void *value;
    MPI_Comm first, second = MPI_COMM_NULL;
    section("codes of callbacks of communicators");
    OK(MPI_Comm_create_keyval(copy, delete, &key, NULL));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &first));
    OK(MPI_Comm_set_errhandler(first, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_attr(first, key, &number));
    failing = OF_COPY;
    SAME(MPI_Comm_dup(first, &second), my_code);
    CHECK(second == MPI_COMM_NULL);
    failing = OF_DELETE;
    SAME(MPI_Comm_delete_attr(first, key), my_code);
    SAME(MPI_Comm_set_attr(first, key, NULL), my_code);
    second = first;
    SAME(MPI_Comm_free(&second), my_code);
    CHECK(second == first);
    OK(MPI_Comm_get_attr(first, key, &value, &found));
    CHECK((found && value == &number) || check_library_is("MPICH")); /* it is as it was */
    failing = 0;
    OK(MPI_Comm_dup(first, &second));
    deletions = 0;
    OK(MPI_Comm_free(&first));
    OK(MPI_Comm_free(&second));
    if (!check_library_is("MPICH")) SAME(deletions, 2); /* which has lost it */
    OK(MPI_Comm_free_keyval(&key));
}

static void codes_of_types(void) {
    int key, number, found;
    void *value;
    MPI_Datatype first, second = MPI_DATATYPE_NULL;
    section("codes of callbacks of datatypes");
    OK(MPI_Type_create_keyval(type_copy, type_delete, &key, NULL));
    OK(MPI_Type_contiguous(3, MPI_INT, &first));
    OK(MPI_Type_set_attr(first, key, &number));
    failing = OF_COPY;
    SAME(MPI_Type_dup(first, &second), my_code);
    CHECK(second == MPI_DATATYPE_NULL);
    failing = OF_DELETE;
    SAME(MPI_Type_delete_attr(first, key), my_code);
    if (!check_library_is("MPICH")) { /* which has lost it */
        second = first;
        SAME(MPI_Type_free(&second), my_code);
        CHECK(second == first);
        OK(MPI_Type_get_attr(first, key, &value, &found));
        CHECK(found && value == &number);
    }
    failing = 0;
    OK(MPI_Type_free(&first));
    OK(MPI_Type_free_keyval(&key));
}

static int inner_key, recursions;

/* Calls MPI for the very communicator and key that it is called for, and for others. */
static int recurse_delete(MPI_Comm comm, int key, void *value, void *extra) {
    void *same = NULL;
    int found = 0, size, token = 7, back = 0, mine = key;
    MPI_Comm other;
    (void)extra;
    recursions++;
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Comm_get_attr(comm, key, &same, &found));
    CHECK(found && same == value); /* it goes after this returns */
    OK(MPI_Comm_set_attr(comm, inner_key, &token));
    OK(MPI_Comm_delete_attr(comm, inner_key));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &other));
    OK(MPI_Comm_set_attr(other, inner_key, &token));
    OK(MPI_Comm_free(&other));
    OK(MPI_Sendrecv(&token, 1, MPI_INT, 0, 0, &back, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    SAME(back, token);
    if (value == NULL) OK(MPI_Comm_free_keyval(&mine)); /* its own key */
    return MPI_SUCCESS;
}

static int recurse_copy(MPI_Comm comm, int key, void *extra, void *value, void *out, int *flag) {
    MPI_Comm other;
    (void)comm, (void)key, (void)extra;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &other));
    OK(MPI_Comm_free(&other));
    *(void **)out = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static void recursion(void) {
    int key, number;
    MPI_Comm first, second;
    section("callbacks that call MPI");
    deletions = 0;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &inner_key, NULL));
    OK(MPI_Comm_create_keyval(recurse_copy, recurse_delete, &key, NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &first));
    OK(MPI_Comm_set_attr(first, key, &number));
    OK(MPI_Comm_dup(first, &second));
    OK(MPI_Comm_free(&second));
    OK(MPI_Comm_set_attr(first, key, NULL));
    OK(MPI_Comm_free(&first));
    SAME(recursions, 3);
    SAME(deletions, 6);
    STRICT_CLASS(MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL); /* it was freed in its callback */
    OK(MPI_Comm_free_keyval(&inner_key));
}

/* A key is known, also to a second call that frees it, until its last attribute goes. */
static void freed_again(void) {
    int key, again, third;
    MPI_Comm first, second;
    section("keys that are freed again while an object has their attribute");
    recursions = 0;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &inner_key, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, recurse_delete, &key, NULL));
    again = third = key;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &first));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &second));
    OK(MPI_Comm_set_attr(first, key, NULL));
    OK(MPI_Comm_set_attr(second, key, &key));
    OK(MPI_Comm_free(&first)); /* its delete function frees the key */
    SAME(recursions, 1);
    OK(MPI_Comm_free_keyval(&key));
    SAME(key, MPI_KEYVAL_INVALID);
    if (!check_library_is("Open MPI")) { /* which counts how often a key is freed */
        OK(MPI_Comm_free_keyval(&again));
        SAME(again, MPI_KEYVAL_INVALID);
        OK(MPI_Comm_free(&second));
        SAME(recursions, 2);
        STRICT_CLASS(MPI_Comm_free_keyval(&third), MPI_ERR_KEYVAL);
    }
    OK(MPI_Comm_free_keyval(&inner_key));
}

static void kinds(void) {
    int win_key, comm_key, type_key, copy_of_key;
    section("keys of three kinds");
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &win_key, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL));
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL));
    CHECK(win_key != comm_key && comm_key != type_key && win_key != type_key);
    copy_of_key = win_key;
    STRICT_CLASS(MPI_Comm_set_attr(MPI_COMM_SELF, win_key, NULL), MPI_ERR_KEYVAL);
    STRICT_CLASS(MPI_Comm_free_keyval(&copy_of_key), MPI_ERR_KEYVAL);
    SAME(copy_of_key, win_key);
    STRICT_CLASS(MPI_Win_free_keyval(&comm_key), MPI_ERR_KEYVAL);
    OK(MPI_Win_free_keyval(&win_key));
    SAME(win_key, MPI_KEYVAL_INVALID);
    STRICT_CLASS(MPI_Win_free_keyval(&copy_of_key), MPI_ERR_KEYVAL);
    OK(MPI_Comm_free_keyval(&comm_key));
    OK(MPI_Type_free_keyval(&type_key));
}

static int order[3], deleted, finalized = -1;

static int at_end(MPI_Comm comm, int key, void *value, void *extra) {
    int rank = -1;
    (void)key, (void)extra;
    MPI_Finalized(&finalized);
    MPI_Comm_rank(comm, &rank); /* MPI still works */
    if (deleted < 3 && rank == 0) order[deleted++] = *(int *)value;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    static int values[] = {1, 2, 3};
    int keys[3];
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Add_error_class(&my_class));
    OK(MPI_Add_error_code(my_class, &my_code));
    codes_of_comms();
    codes_of_types();
    recursion();
    freed_again();
    kinds();
    section("the end");
    for (int i = 0; i < 3; i++) {
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &keys[i], NULL));
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, keys[i], &values[i]));
        OK(MPI_Comm_free_keyval(&keys[i]));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    if (deleted != 3 || order[0] != 3 || order[1] != 2 || order[2] != 1 || finalized != 0) return 1;
    if (check_rank == 0) printf("ok\n");
    return 0;
}
