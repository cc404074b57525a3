// ranks: 1 2
// Attributes of communicators: kept, copied or not by what the program says, and deleted once.
// (MPI 5.0, section 7.7)
#include "check.h"

static int copies, deletions;
static void *deleted;

static int copy_next(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag) {
    (void)comm, (void)key;
    SAME(*(int *)extra, 4711);
    copies++;
    *(void **)copy = (int *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int forget(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key;
    SAME(*(int *)extra, 4711);
    deletions++;
    deleted = value;
    return MPI_SUCCESS;
}

static int refuse(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_ERR_OTHER;
}

static void *found_in(MPI_Comm comm, int key) {
    void *value = NULL;
    int found = -1;
    OK(MPI_Comm_get_attr(comm, key, &value, &found));
    return found ? value : NULL;
}

static void copied(void) {
    static int extra = 4711, numbers[4];
    int key = MPI_KEYVAL_INVALID;
    MPI_Comm copy, second;
    section("set, copy, delete");
    OK(MPI_Comm_create_keyval(copy_next, forget, &key, &extra));
    CHECK(key != MPI_KEYVAL_INVALID);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    CHECK(found_in(copy, key) == NULL);
    OK(MPI_Comm_set_attr(copy, key, &numbers[0]));
    CHECK(found_in(copy, key) == &numbers[0]);
    OK(MPI_Comm_dup(copy, &second));
    SAME(copies, 1);
    CHECK(found_in(second, key) == &numbers[1]);
    CHECK(found_in(MPI_COMM_WORLD, key) == NULL);
    OK(MPI_Comm_set_attr(second, key, &numbers[3])); /* the old value is deleted */
    SAME(deletions, 1);
    CHECK(deleted == &numbers[1]);
    OK(MPI_Comm_delete_attr(copy, key));
    SAME(deletions, 2);
    CHECK(found_in(copy, key) == NULL);
    OK(MPI_Comm_free_keyval(&key)); /* what is set under it stays until its communicator goes */
    SAME(key, MPI_KEYVAL_INVALID);
    OK(MPI_Comm_free(&second));
    SAME(deletions, 3);
    CHECK(deleted == &numbers[3]);
    OK(MPI_Comm_free(&copy));
    SAME(deletions, 3);
}

static void ready_made_functions(void) {
    int kept = MPI_KEYVAL_INVALID, dropped = MPI_KEYVAL_INVALID, number;
    MPI_Comm first, second;
    section("ready-made copy functions");
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &kept, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &dropped, NULL));
    CHECK(kept != dropped);
    OK(MPI_Comm_dup(MPI_COMM_SELF, &first));
    OK(MPI_Comm_set_attr(first, kept, &number));
    OK(MPI_Comm_set_attr(first, dropped, &number));
    OK(MPI_Comm_dup(first, &second));
    CHECK(found_in(second, kept) == &number);
    CHECK(found_in(second, dropped) == NULL);
    OK(MPI_Comm_free(&first));
    OK(MPI_Comm_free(&second));
    OK(MPI_Comm_free_keyval(&kept));
    OK(MPI_Comm_free_keyval(&dropped));
}

static void refused(void) {
    int key = MPI_KEYVAL_INVALID, number;
    MPI_Comm copy;
    section("a deletion that is refused");
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &key, NULL));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &copy));
    OK(MPI_Comm_set_attr(copy, key, &number));
    CHECK(MPI_Comm_delete_attr(copy, key) != MPI_SUCCESS);
    CHECK(MPI_Comm_free(&copy) != MPI_SUCCESS);
    OK(MPI_Comm_free_keyval(&key));
}

static void wrong(void) {
    int key = MPI_KEYVAL_INVALID, found = -1, tag_key = MPI_TAG_UB;
    void *value = NULL;
    section("wrong keys");
    CLASS(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &found), MPI_ERR_KEYVAL);
    CLASS(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &found), MPI_ERR_KEYVAL);
    CLASS(MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL);
    SAME(found, -1);
    CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, tag_key, &found) != MPI_SUCCESS);
    CHECK(MPI_Comm_delete_attr(MPI_COMM_WORLD, tag_key) != MPI_SUCCESS);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    copied();
    ready_made_functions();
    refused();
    wrong();
    return check_close();
}
