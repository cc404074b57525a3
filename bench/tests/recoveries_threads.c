// ranks: 3 5
// launch: --ft
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// A thread that waits for a receive while another one recovers its communicator (rule R15): with RESET it returns with an error;
// with CONT it goes on waiting for one who lives, and gets what that one sends after the recovery. The last rank dies.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>
#include <pthread.h>

enum { TAG = 7 };

typedef struct {
    MPI_Comm comm;
    MPI_Request request;
    int code, value;
    pthread_t thread;
} Waiting;

static void *wait_for_it(void *argument) {
    Waiting *waiting = argument;
    waiting->code = MPI_Wait(&waiting->request, MPI_STATUS_IGNORE);
    return NULL;
}

/* The receive is begun before anybody recovers, whenever the thread may come to wait for it. */
static void begin(Waiting *waiting) {
    OK(MPI_Irecv(&waiting->value, 1, MPI_INT, 1 - check_rank, TAG, waiting->comm, &waiting->request));
    CHECK(pthread_create(&waiting->thread, NULL, wait_for_it, waiting) == 0);
}

int main(int argc, char **argv) {
    Waiting reset = {.value = -1}, go_on = {.value = -1};
    MPIX_Recover_info info;
    int provided, class, mine;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    SAME(provided, MPI_THREAD_MULTIPLE);
    section("before");
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &reset.comm));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &go_on.comm));
    OK(MPIX_Comm_set_ft_mode(reset.comm, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    OK(MPIX_Comm_set_ft_mode(go_on.comm, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_CONT, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    if (check_rank < 2) {
        begin(&reset);
        begin(&go_on);
    }
    /* Whoever is the first to leave it may be gone before the others are through. */
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == check_size - 1) {
        fflush(NULL);
        raise(SIGKILL);
    }
    section("R15: one thread recovers");
    OK(MPIX_Comm_recover(reset.comm, 0, NULL, &info));
    OK(MPI_Group_free(&info.failed));
    if (info.generation == 0) {
        /* It was not known yet. */
        while (MPI_Barrier(reset.comm) == MPI_SUCCESS) continue;
        OK(MPIX_Comm_recover(reset.comm, 0, NULL, &info));
        OK(MPI_Group_free(&info.failed));
    }
    SAME(info.generation, 1);
    OK(MPIX_Comm_recover(go_on.comm, 0, NULL, &info));
    OK(MPI_Group_free(&info.failed));
    SAME(info.generation, 1);
    if (check_rank < 2) {
        section("R15: with RESET the other returns");
        CHECK(pthread_join(reset.thread, NULL) == 0);
        OK(MPI_Error_class(reset.code, &class));
        CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED);
        SAME(reset.value, -1);
        section("R15: with CONT it goes on");
        mine = 100 + check_rank;
        OK(MPI_Send(&mine, 1, MPI_INT, 1 - check_rank, TAG, go_on.comm));
        CHECK(pthread_join(go_on.thread, NULL) == 0);
        OK(go_on.code);
        SAME(go_on.value, 100 + 1 - check_rank);
    }
    section("both are usable");
    OK(MPI_Barrier(reset.comm));
    OK(MPI_Barrier(go_on.comm));
    OK(MPI_Comm_free(&reset.comm));
    OK(MPI_Comm_free(&go_on.comm));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
