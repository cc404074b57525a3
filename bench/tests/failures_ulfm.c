// ranks: 1 3 4 8
// launch: --ft
// not libfabric: what a provider tells of a dead process differs from one to the next
// Revoking, agreeing and shrinking, with nobody dead, with one dead, and with members that die meanwhile.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { TAG = 7, LONG = 1 << 20 };

static char long_message[LONG];

static int size_of(MPI_Comm comm) {
    int size = -1;
    OK(MPI_Comm_size(comm, &size));
    return size;
}

static void die(void) {
    fflush(NULL);
    raise(SIGKILL);
}

/* All collective, and messages in a ring. */
static void works(MPI_Comm comm) {
    int rank = -1, size = size_of(comm), one = 1, sum = 0, got = -1;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    SAME(sum, size);
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, TAG, &got, 1, MPI_INT, (rank + size - 1) % size, TAG, comm,
            MPI_STATUS_IGNORE));
    SAME(got, (rank + size - 1) % size);
    OK(MPI_Barrier(comm));
}

static void without_failures(void) {
    MPI_Comm copy, smaller;
    MPI_Group group;
    int flag, result = -1, size = -1;
    section("agree among all");
    for (int round = 0; round < 20; round++) {
        flag = ~(1 << check_rank) & 0xffff;
        OK(MPIX_Comm_agree(MPI_COMM_WORLD, &flag));
        SAME(flag, 0xffff & ~((1 << check_size) - 1));
    }
    flag = -1;
    OK(MPIX_Comm_agree(MPI_COMM_SELF, &flag));
    SAME(flag, -1);
    section("shrink without failures gives the same group");
    OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &smaller));
    OK(MPI_Comm_compare(MPI_COMM_WORLD, smaller, &result));
    SAME(result, MPI_CONGRUENT);
    works(smaller);
    OK(MPI_Comm_free(&smaller));
    section("agree and shrink, to be waited for");
    for (int round = 0; round < 3; round++) {
        MPI_Request requests[3];
        int other = 1 << check_rank, number = -1;
        flag = ~(1 << check_rank) & 0xffff;
        OK(MPIX_Comm_iagree(MPI_COMM_WORLD, &flag, &requests[0]));
        OK(MPIX_Comm_ishrink(MPI_COMM_WORLD, &smaller, &requests[1]));
        OK(MPIX_Comm_iagree(MPI_COMM_WORLD, &other, &requests[2]));
        works(MPI_COMM_WORLD);
        OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        SAME(flag, 0xffff & ~((1 << check_size) - 1));
        SAME(other, check_size == 1);
        OK(MPI_Comm_compare(MPI_COMM_WORLD, smaller, &result));
        SAME(result, MPI_CONGRUENT);
        OK(MPI_Comm_rank(smaller, &number));
        SAME(number, check_rank);
        works(smaller);
        OK(MPI_Comm_free(&smaller));
    }
    section("nobody has failed");
    OK(MPIX_Comm_get_failed(MPI_COMM_WORLD, &group));
    OK(MPI_Group_size(group, &size));
    SAME(size, 0);
    OK(MPI_Group_free(&group));
    section("a revoked communicator does nothing, and others go on");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPIX_Comm_is_revoked(copy, &flag));
    SAME(flag, 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == check_size - 1) OK(MPIX_Comm_revoke(copy));
    if (check_size > 1) {
        /* Whoever waits in it is woken. */
        CLASS(MPI_Recv(&flag, 1, MPI_INT, (check_rank + 1) % check_size, TAG, copy, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    }
    do {
        OK(MPIX_Comm_is_revoked(copy, &flag));
    } while (!flag);
    CLASS(MPI_Barrier(copy), check_size > 1 ? MPIX_ERR_REVOKED : MPI_SUCCESS);
    CLASS(MPI_Send(&flag, 1, MPI_INT, (check_rank + 1) % check_size, TAG, copy), MPIX_ERR_REVOKED);
    CLASS(MPI_Send(long_message, LONG, MPI_CHAR, (check_rank + 1) % check_size, TAG, copy), MPIX_ERR_REVOKED);
    CLASS(MPI_Recv(&flag, 1, MPI_INT, MPI_ANY_SOURCE, TAG, copy, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    CLASS(MPI_Probe(MPI_ANY_SOURCE, TAG, copy, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    works(MPI_COMM_WORLD);
    flag = 3;
    OK(MPIX_Comm_agree(copy, &flag));
    SAME(flag, 3);
    OK(MPIX_Comm_shrink(copy, &smaller));
    OK(MPIX_Comm_is_revoked(smaller, &flag));
    SAME(flag, 0);
    works(smaller);
    OK(MPI_Comm_free(&smaller));
    OK(MPI_Comm_free(&copy));
    works(MPI_COMM_WORLD);
}

/* The last rank dies in each of several ways; the answer is a communicator of those who are left. */
static MPI_Comm one_less(MPI_Comm comm, int way) {
    MPI_Comm smaller;
    MPI_Group failed;
    int rank = -1, size = size_of(comm), flag = -1, code, acked = -1, count = -1;
    OK(MPI_Comm_rank(comm, &rank));
    /* Whoever is the first to leave it may be dead before the others have. */
    code = MPI_Barrier(comm);
    if (code != MPI_SUCCESS && code != MPIX_ERR_REVOKED) CLASS(code, MPIX_ERR_PROC_FAILED);
    section("a member dies");
    if (rank == size - 1) {
        if (way == 1) (void)MPIX_Comm_agree(comm, &flag);
        if (way == 2) OK(MPIX_Comm_revoke(comm));
        die();
    }
    section("an agreement ends though a member is dead");
    code = MPIX_Comm_agree(comm, &flag);
    if (way != 1) CLASS(code, MPIX_ERR_PROC_FAILED);
    SAME(flag, -1);
    section("where all have acknowledged, it succeeds");
    OK(MPIX_Comm_get_failed(comm, &failed));
    OK(MPI_Group_size(failed, &count));
    OK(MPI_Group_free(&failed));
    while (count < 1) {
        OK(MPIX_Comm_get_failed(comm, &failed));
        OK(MPI_Group_size(failed, &count));
        OK(MPI_Group_free(&failed));
    }
    SAME(count, 1);
    OK(MPIX_Comm_ack_failed(comm, 1, &acked));
    SAME(acked, 1);
    flag = 5;
    OK(MPIX_Comm_agree(comm, &flag));
    SAME(flag, 5);
    section("who is left goes on together");
    OK(MPIX_Comm_revoke(comm));
    if (way == 0) {
        MPI_Request requests[2];
        int good = 7;
        OK(MPIX_Comm_iagree(comm, &good, &requests[0]));
        OK(MPIX_Comm_ishrink(comm, &smaller, &requests[1]));
        OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        SAME(good, 7);
    } else {
        OK(MPIX_Comm_shrink(comm, &smaller));
    }
    SAME(size_of(smaller), size - 1);
    works(smaller);
    return smaller;
}

int main(int argc, char **argv) {
    MPI_Comm comm, smaller;
    int way = 0;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    without_failures();
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    while (size_of(comm) > 1) {
        smaller = one_less(comm, way++ % 3);
        OK(MPI_Comm_free(&comm));
        comm = smaller;
    }
    works(comm);
    OK(MPI_Comm_free(&comm));
    section("the end");
    printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
