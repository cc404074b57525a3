// ranks: 3 4 8
// launch: --ft
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// What the public test programs of ULFM do that no other test here does: those of its authors, MPICH's and mpi4py's.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { TAG = 7, ROUNDS = 100, FAILED_STATUS = 1 };

static MPI_Comm handled;
static int handled_class, handlings;

static void handle(MPI_Comm *comm, int *code, ...) {
    handled = *comm;
    MPI_Error_class(*code, &handled_class);
    handlings++;
}

static void is_congruent(MPI_Comm one, MPI_Comm other) {
    int same = -1;
    OK(MPI_Comm_compare(one, other, &same));
    SAME(same, MPI_CONGRUENT);
}

/* All calls where nobody has failed: of a copy, which is revoked then. */
static void mpi4py_test_ulfm(MPI_Comm of) {
    MPI_Comm comm, smaller;
    MPI_Group failed;
    MPI_Request request;
    int flag = -1, same = -1, size = -1, acked = -1;
    section("mpi4py test_ulfm: nobody has failed");
    OK(MPI_Comm_dup(of, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_size(comm, &size));
    OK(MPIX_Comm_is_revoked(comm, &flag));
    SAME(flag, 0);
    OK(MPIX_Comm_get_failed(comm, &failed));
    OK(MPI_Group_compare(failed, MPI_GROUP_EMPTY, &same));
    SAME(same, MPI_IDENT);
    OK(MPI_Group_free(&failed));
    OK(MPIX_Comm_ack_failed(comm, 0, &acked));
    SAME(acked, 0);
    OK(MPIX_Comm_ack_failed(comm, size, &acked));
    SAME(acked, 0);
    for (int bits = 0; bits < 4; bits++) {
        flag = bits;
        OK(MPIX_Comm_agree(comm, &flag));
        SAME(flag, bits);
        OK(MPIX_Comm_iagree(comm, &flag, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        SAME(flag, bits);
    }
    OK(MPIX_Comm_shrink(comm, &smaller));
    is_congruent(comm, smaller);
    OK(MPI_Comm_free(&smaller));
    OK(MPIX_Comm_ishrink(comm, &smaller, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    is_congruent(comm, smaller);
    OK(MPI_Comm_free(&smaller));

    section("mpi4py test_ulfm: a revoked communicator does nothing, not even with nobody");
    /* Nobody revokes while another is in an operation before. */
    OK(MPI_Barrier(of));
    OK(MPIX_Comm_revoke(comm));
    OK(MPIX_Comm_is_revoked(comm, &flag));
    SAME(flag, 1);
    CLASS(MPI_Send(NULL, 0, MPI_BYTE, MPI_PROC_NULL, TAG, comm), MPIX_ERR_REVOKED);
    CLASS(MPI_Recv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, TAG, comm, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    OK(MPI_Isend(NULL, 0, MPI_BYTE, MPI_PROC_NULL, TAG, comm, &request));
    CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    OK(MPI_Irecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, TAG, comm, &request));
    CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Send(NULL, 0, MPI_BYTE, MPI_PROC_NULL, TAG, of));
}

static void api_revshrink(void) {
    MPI_Comm comm, smaller;
    section("api/revshrink: revoked and shrunk again and again");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int round = 0; round < ROUNDS; round++) {
        int code;
        OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
        if (check_rank == round % check_size) OK(MPIX_Comm_revoke(comm));
        /* It may have succeeded at some before they have heard of it. */
        do code = MPI_Barrier(comm);
        while (code == MPI_SUCCESS);
        CLASS(code, MPIX_ERR_REVOKED);
        OK(MPIX_Comm_shrink(comm, &smaller));
        is_congruent(comm, smaller);
        OK(MPI_Comm_free(&comm));
        comm = smaller;
    }
    OK(MPI_Comm_free(&comm));
}

/* Of MPICH's programs the one who fails ends by itself, with a status, and without MPI_Finalize. */
static void mpich_die(void) {
    MPI_Errhandler handler;
    int victim = check_size - 1, word = 1;
    MPI_Comm comm;
    section("mpich die, api/err_handler: who exits has failed, and handlers are called");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_create_errhandler(handle, &handler));
    OK(MPI_Comm_set_errhandler(comm, handler));
    OK(MPI_Errhandler_free(&handler));
    if (check_rank == victim) {
        for (int from = 0; from < victim; from++)
            OK(MPI_Recv(&word, 1, MPI_INT, from, TAG, comm, MPI_STATUS_IGNORE));
        exit(FAILED_STATUS);
    }
    OK(MPI_Send(&word, 1, MPI_INT, victim, TAG, comm));
    SAME(handlings, 0);
    CLASS(MPI_Recv(&word, 1, MPI_INT, victim, TAG, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    SAME(handlings, 1);
    SAME(handled_class, MPIX_ERR_PROC_FAILED);
    CHECK(handled == comm);

    section("mpich sendalive, multi_isendalive: those who live go on in the same communicator");
    for (int to = 0; to < victim; to++) {
        MPI_Request requests[2];
        int from = (2 * victim - to - check_rank) % victim;
        OK(MPI_Isend(&check_rank, 1, MPI_INT, from, TAG, comm, &requests[0]));
        OK(MPI_Irecv(&word, 1, MPI_INT, from, TAG, comm, &requests[1]));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        SAME(word, from);
    }
    SAME(handlings, 1);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    mpi4py_test_ulfm(MPI_COMM_WORLD);
    mpi4py_test_ulfm(MPI_COMM_SELF);
    api_revshrink();
    mpich_die();
    section("closing");
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
