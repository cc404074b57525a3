// ranks: 1 2 3 5 8
// Making, comparing and freeing communicators, and that their traffic stays apart.
// (MPI 5.0, sections 7.4 and 7.3.1)
#include "check.h"

static void compare(MPI_Comm left, MPI_Comm right, int expected) {
    int result = -1;
    OK(MPI_Comm_compare(left, right, &result));
    SAME(result, expected);
}

static void basics(void) {
    int rank = -1, size = -1, inter = -1;
    section("world and self");
    OK(MPI_Comm_rank(MPI_COMM_SELF, &rank));
    OK(MPI_Comm_size(MPI_COMM_SELF, &size));
    SAME(rank, 0);
    SAME(size, 1);
    OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &inter));
    SAME(inter, 0);
    compare(MPI_COMM_WORLD, MPI_COMM_WORLD, MPI_IDENT);
    compare(MPI_COMM_SELF, MPI_COMM_WORLD, check_size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
}

/* The same source and tag on two communicators: each receive gets its own communicator's message,
 * whatever came first, also under wildcards. */
static void apart(void) {
    MPI_Comm copy;
    MPI_Request requests[4];
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    int on_world = 1000 + check_rank, on_copy = 2000 + check_rank, got_world = -1, got_copy = -1;
    MPI_Status status;
    section("dup keeps traffic apart");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    compare(MPI_COMM_WORLD, copy, MPI_CONGRUENT);
    OK(MPI_Isend(&on_world, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(&on_copy, 1, MPI_INT, next, 1, copy, &requests[1]));
    OK(MPI_Recv(&got_copy, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, &status));
    SAME(got_copy, 2000 + previous);
    SAME(status.MPI_SOURCE, previous);
    OK(MPI_Recv(&got_world, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(got_world, 1000 + previous);
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    section("collectives do not take messages");
    got_world = -1;
    OK(MPI_Irecv(&got_world, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, &requests[0]));
    OK(MPI_Allreduce(&on_world, &got_copy, 1, MPI_INT, MPI_MAX, copy));
    OK(MPI_Barrier(copy));
    SAME(got_copy, 1000 + check_size - 1);
    OK(MPI_Send(&on_copy, 1, MPI_INT, next, 3, copy));
    OK(MPI_Wait(&requests[0], &status));
    SAME(got_world, 2000 + previous);
    SAME(status.MPI_TAG, 3);
    OK(MPI_Comm_free(&copy));
    CHECK(copy == MPI_COMM_NULL);
}

static void split_by_parity(void) {
    MPI_Comm half;
    int rank = -1, size = -1, sum = -1, right = 0;
    section("split by parity, backwards");
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, -check_rank, &half));
    OK(MPI_Comm_rank(half, &rank));
    OK(MPI_Comm_size(half, &size));
    SAME(size, (check_size + 1 - check_rank % 2) / 2);
    SAME(rank, size - 1 - check_rank / 2);
    for (int r = check_rank % 2; r < check_size; r += 2) right += r;
    OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, half));
    SAME(sum, right);
    /* ranks in a status are those of the communicator */
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, got = -1;
    MPI_Status status;
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, next, 2, &got, 1, MPI_INT, MPI_ANY_SOURCE, 2, half, &status));
    SAME(status.MPI_SOURCE, previous);
    SAME(got, (size - 1 - previous) * 2 + check_rank % 2);
    OK(MPI_Comm_free(&half));
}

static void split_with_ties_and_without(void) {
    MPI_Comm part;
    int rank = -1, size = -1, result = -1;
    section("split with equal keys");
    OK(MPI_Comm_split(MPI_COMM_WORLD, 3, 0, &part));
    compare(part, MPI_COMM_WORLD, MPI_CONGRUENT);
    OK(MPI_Comm_free(&part));
    section("split backwards is similar");
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, check_size - check_rank, &part));
    OK(MPI_Comm_compare(part, MPI_COMM_WORLD, &result));
    SAME(result, check_size == 1 ? MPI_CONGRUENT : MPI_SIMILAR);
    OK(MPI_Comm_free(&part));
    section("split with MPI_UNDEFINED");
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank == 0 ? MPI_UNDEFINED : 1, 0, &part));
    if (check_rank == 0) {
        CHECK(part == MPI_COMM_NULL);
        return;
    }
    OK(MPI_Comm_rank(part, &rank));
    OK(MPI_Comm_size(part, &size));
    SAME(rank, check_rank - 1);
    SAME(size, check_size - 1);
    OK(MPI_Comm_free(&part));
}

/* Halves of halves, down to single ranks, with traffic on every level at the same time. */
static void nested(void) {
    enum { LEVELS = 5 };
    MPI_Comm levels[LEVELS];
    int depth = 0, size = check_size, rank = check_rank;
    section("nested splits");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &levels[0]));
    while (size > 1) {
        OK(MPI_Comm_split(levels[depth], rank < size / 2, rank, &levels[depth + 1]));
        depth++;
        OK(MPI_Comm_rank(levels[depth], &rank));
        OK(MPI_Comm_size(levels[depth], &size));
    }
    for (int level = depth; level >= 0; level--) {
        int ones = 1, sum = -1, members = -1;
        OK(MPI_Comm_size(levels[level], &members));
        OK(MPI_Allreduce(&ones, &sum, 1, MPI_INT, MPI_SUM, levels[level]));
        SAME(sum, members);
    }
    for (int level = 0; level <= depth; level++) OK(MPI_Comm_free(&levels[level]));
}

/* Contexts come back when communicators go; many at once stay apart. */
static void many(void) {
    enum { AT_ONCE = 20, ROUNDS = 15 };
    MPI_Comm comms[AT_ONCE];
    section("many communicators, made and freed");
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_ONCE; i++) OK(MPI_Comm_dup(i == 0 ? MPI_COMM_WORLD : comms[i - 1], &comms[i]));
        for (int i = AT_ONCE - 1; i >= 0; i--) {
            int got = check_rank == i % check_size ? 50 + i : -1;
            OK(MPI_Bcast(&got, 1, MPI_INT, i % check_size, comms[i]));
            SAME(got, 50 + i);
        }
        for (int i = 0; i < AT_ONCE; i++) OK(MPI_Comm_free(&comms[(i * 7) % AT_ONCE]));
    }
}

/* A communicator may be freed while a receive on it waits; the receive still completes. */
static void freed_while_busy(void) {
    MPI_Comm copy;
    MPI_Request requests[2];
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    int got = -1;
    section("freed while a receive waits");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Irecv(&got, 1, MPI_INT, previous, 1, copy, &requests[0]));
    OK(MPI_Isend(&check_rank, 1, MPI_INT, next, 1, copy, &requests[1]));
    OK(MPI_Comm_free(&copy));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    SAME(got, previous);
}

static void self_traffic(void) {
    MPI_Comm copy;
    MPI_Request request;
    int sent = 5, got = -1;
    section("self");
    OK(MPI_Comm_dup(MPI_COMM_SELF, &copy));
    OK(MPI_Irecv(&got, 1, MPI_INT, 0, 1, copy, &request));
    OK(MPI_Send(&sent, 1, MPI_INT, 0, 1, copy));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(got, 5);
    OK(MPI_Comm_free(&copy));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    basics();
    apart();
    split_by_parity();
    split_with_ties_and_without();
    nested();
    many();
    freed_while_busy();
    self_traffic();
    return check_close();
}
