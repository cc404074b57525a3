// ranks: 4 7
// launch: --ft=shrink
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// What the program has of communicators that shrink in place (rules R6, R7): copies that are being made, a window, planned operations,
// MPI_COMM_SELF, and several threads that recover at once (R15).
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>
#include <pthread.h>
#include <stdatomic.h>

enum { TAG = 7, ROUNDS = 40, IN_PLACE = MPIX_RECOVER_IN_PLACE };

static MPI_Comm copy, begun, smaller, side;
static MPI_Request being_made, being_shrunk, sends, gets, reduces;
static MPI_Win window;
static int *shared, value, sum, key;

static void set_mode(MPI_Comm comm) {
    OK(MPIX_Comm_set_ft_mode(comm, MPIX_FT_MODE_SHRINK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
}

static int has_attribute(MPI_Comm comm) {
    void *found = NULL;
    int flag = 0;
    OK(MPI_Comm_get_attr(comm, key, &found, &flag));
    return flag && found == &key;
}

/* So many members do something together, and next to each other. */
static void works(MPI_Comm comm, int size) {
    int rank, count, one = 1, all = 0, got = -1;
    OK(MPI_Comm_size(comm, &count));
    SAME(count, size);
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm));
    SAME(all, size);
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, TAG, &got, 1, MPI_INT, (rank + size - 1) % size, TAG, comm, MPI_STATUS_IGNORE));
    SAME(got, (rank + size - 1) % size);
}

/* It is over, and nobody has taken what came of it. */
static void is_there(MPI_Request request) {
    int flag = 0;
    while (!flag) OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
}

static void make(void) {
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    section("making");
    set_mode(MPI_COMM_WORLD);
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_attr(copy, key, &key));
    OK(MPI_Comm_idup(copy, &begun, &being_made));
    OK(MPIX_Comm_ishrink(copy, &smaller, &being_shrunk));
    OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, copy, &shared, &window));
    *shared = check_rank;
    OK(MPI_Send_init(&check_rank, 1, MPI_INT, next, TAG, copy, &sends));
    OK(MPI_Recv_init(&value, 1, MPI_INT, before, TAG, copy, &gets));
    OK(MPI_Allreduce_init(&check_rank, &sum, 1, MPI_INT, MPI_SUM, copy, MPI_INFO_NULL, &reduces));
    is_there(being_made);
    is_there(being_shrunk);
}

static void is_refused(MPI_Request *request) {
    int class = -1, code = MPI_Start(request);
    if (code == MPI_SUCCESS) code = MPI_Wait(request, MPI_STATUS_IGNORE);
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED);
    OK(MPI_Request_free(request));
}

static void r7_all_shrink(void) {
    int left = check_size - 1, dead = check_size - 2;
    section("R7: all shrink");
    /* Whoever is the first to leave it may be gone before the others are through. */
    (void)MPI_Barrier(copy);
    if (check_rank == dead) {
        fflush(NULL);
        raise(SIGKILL);
    }
    while (MPI_Barrier(copy) == MPI_SUCCESS) continue;
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, MPIX_RECOVER_ALL | IN_PLACE, NULL, NULL));
    works(MPI_COMM_WORLD, left);
    works(copy, left);
    section("R7: what had been made, and was not waited for");
    OK(MPI_Wait(&being_made, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&being_shrunk, MPI_STATUS_IGNORE));
    CHECK(has_attribute(copy) && has_attribute(begun));
    works(begun, left);
    works(smaller, left);
    section("R6: what was planned for those of before");
    is_refused(&sends);
    is_refused(&gets);
    is_refused(&reduces);
    section("R7: a window is of the one before, and is freed");
    SAME(*shared, check_rank);
    OK(MPI_Win_free(&window));
    CHECK(window == MPI_WIN_NULL);
}

static void r3_alone(void) {
    int flag = -1;
    section("R3: MPI_COMM_SELF");
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    set_mode(MPI_COMM_SELF);
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &key));
    OK(MPIX_Comm_revoke(MPI_COMM_SELF));
    OK(MPIX_Comm_is_revoked(MPI_COMM_SELF, &flag));
    SAME(flag, 1);
    OK(MPIX_Comm_recover(MPI_COMM_SELF, IN_PLACE, NULL, NULL));
    OK(MPIX_Comm_is_revoked(MPI_COMM_SELF, &flag));
    SAME(flag, 0);
    CHECK(has_attribute(MPI_COMM_SELF));
    works(MPI_COMM_SELF, 1);
}

/* What hangs on it stays, and its handle stands for the latest. */
static void revoke_and_recover(MPI_Comm comm) {
    for (int round = 0; round < ROUNDS; round++) {
        int generation = -1;
        OK(MPIX_Comm_revoke(comm));
        OK(MPIX_Comm_recover(comm, IN_PLACE, NULL, NULL));
        CHECK(has_attribute(comm));
        OK(MPIX_Comm_generation(comm, &generation));
        SAME(generation, round + 1 + (comm == MPI_COMM_WORLD));
    }
}

static void *of_a_copy(void *comm) {
    revoke_and_recover(*(MPI_Comm *)comm);
    return NULL;
}

/* Nothing has happened to it, but it looks at all handles again and again. */
static void *of_itself(void *is_over) {
    while (!atomic_load((atomic_int *)is_over)) OK(MPIX_Comm_recover(MPI_COMM_SELF, IN_PLACE, NULL, NULL));
    return NULL;
}

static void r15_threads(void) {
    pthread_t of_side, of_self;
    atomic_int is_over = 0;
    int size, here = 1;
    section("R15: threads recover at once");
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &key));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &side));
    OK(MPI_Comm_set_attr(side, key, &key));
    set_mode(MPI_COMM_SELF);
    /* Nobody is in what is revoked now. */
    OK(MPIX_Comm_agree(MPI_COMM_WORLD, &here));
    CHECK(pthread_create(&of_side, NULL, of_a_copy, &side) == 0);
    CHECK(pthread_create(&of_self, NULL, of_itself, &is_over) == 0);
    revoke_and_recover(MPI_COMM_WORLD);
    CHECK(pthread_join(of_side, NULL) == 0);
    atomic_store(&is_over, 1);
    CHECK(pthread_join(of_self, NULL) == 0);
    works(MPI_COMM_WORLD, size);
    works(side, size);
    OK(MPI_Comm_free(&side));
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    SAME(provided, MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    make();
    r7_all_shrink();
    r3_alone();
    r15_threads();
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&begun));
    OK(MPI_Comm_free(&smaller));
    OK(MPI_Comm_free_keyval(&key));
    return check_close();
}
