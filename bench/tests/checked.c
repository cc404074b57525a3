// ranks: 2 3 5
// launch: -x WEFT_CHECK=1
// With WEFT_CHECK=1 collective calls that do not fit together are reported at every rank instead of hanging or giving
// wrong results, and the communicator goes on working. (docs/decisions/0012)
#include "check.h"
#include "reported.h"

static int numbers[64], others[64];

static void order(MPI_Comm comm) {
    int code;
    section("calls in another order");
    if (check_rank == 0) {
        code = MPI_Bcast(numbers, 4, MPI_INT, 0, comm);
    } else {
        code = MPI_Barrier(comm);
    }
    reported(code, "MPI_Bcast, root 0, 4 of MPI_INT at rank 0", "MPI_Barrier at rank");
    if (check_rank == 1) {
        code = MPI_Allreduce(numbers, others, 1, MPI_INT, MPI_SUM, comm);
    } else {
        code = MPI_Alltoall(numbers, 1, MPI_INT, others, 1, MPI_INT, comm);
    }
    reported(code, "MPI_Alltoall", "MPI_Allreduce, MPI_SUM, 1 of MPI_INT at rank 1");
}

static void arguments(MPI_Comm comm) {
    int last = check_size - 1, here = check_rank == last;
    section("roots, counts, types and operators that differ");
    reported(MPI_Bcast(numbers, 4, MPI_INT, here ? last : 0, comm), "root 0", "root");
    reported(MPI_Bcast(numbers, here ? 5 : 4, MPI_INT, 0, comm), "4 of MPI_INT", "5 of MPI_INT");
    reported(MPI_Bcast(numbers, 4, here ? MPI_FLOAT : MPI_INT, 0, comm), "MPI_INT", "MPI_FLOAT");
    reported(MPI_Reduce(numbers, others, 2, MPI_INT, here ? MPI_MAX : MPI_SUM, 0, comm), "MPI_SUM", "MPI_MAX");
    reported(MPI_Allreduce(numbers, others, here ? 1 : 2, MPI_INT, MPI_SUM, comm), "1 of", "2 of");
    reported(MPI_Scan(numbers, others, 2, here ? MPI_FLOAT : MPI_INT, MPI_SUM, comm), "MPI_INT", "MPI_FLOAT");
    reported(MPI_Gather(numbers, here ? 2 : 1, MPI_INT, others, 1, MPI_INT, 0, comm), "1 of", "2 of");
    reported(MPI_Scatter(numbers, 1, MPI_INT, others, here ? 2 : 1, MPI_INT, 0, comm), "1 of", "2 of");
    reported(MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, others, here ? 2 : 1, MPI_INT, comm), "1 of", "2 of");
}

/* What the standard allows to differ is no error. */
static void allowed(MPI_Comm comm) {
    MPI_Datatype pair;
    int counts[8], places[8];
    section("arguments that may differ");
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    if (check_rank == 0) {
        OK(MPI_Bcast(numbers, 2, pair, 0, comm));
    } else {
        OK(MPI_Bcast(numbers, 4, MPI_INT, 0, comm));
    }
    if (check_rank == 0) {
        OK(MPI_Gather(MPI_IN_PLACE, 0, MPI_INT, others, 1, pair, 0, comm));
    } else {
        OK(MPI_Gather(numbers, 2, MPI_INT, NULL, 0, MPI_INT, 0, comm));
    }
    for (int rank = 0; rank < check_size; rank++) counts[rank] = rank, places[rank] = rank * rank;
    OK(MPI_Gatherv(numbers, check_rank, MPI_INT, others, counts, places, MPI_INT, 0, comm));
    OK(MPI_Allgatherv(numbers, check_rank, MPI_INT, others, counts, places, MPI_INT, comm));
    OK(MPI_Allreduce(check_rank ? numbers : MPI_IN_PLACE, others, 3, MPI_INT, MPI_SUM, comm));
    OK(MPI_Type_free(&pair));
    section("no data are no other data");
    OK(MPI_Type_create_struct(2, (int[]){0, 0}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_INT, MPI_DOUBLE}, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Gather(numbers, check_rank ? 0 : 3, check_rank ? MPI_INT : pair, others, 0, MPI_INT, 0, comm));
    OK(MPI_Bcast(numbers, 0, check_rank ? MPI_INT : MPI_FLOAT, 0, comm));
    OK(MPI_Type_free(&pair));
}

static void creation(MPI_Comm comm) {
    MPI_Comm made = MPI_COMM_NULL;
    int code;
    section("creations that do not fit");
    reported(MPI_Cart_create(comm, 1, (int[]){1 + (check_rank == 1)}, (int[]){0}, 0, &made), "MPI_Cart_create, 1, reorder",
             "MPI_Cart_create, 2, reorder");
    reported(MPI_Cart_create(comm, 1, (int[]){1}, (int[]){0}, check_rank == 1, &made), "reorder false at rank",
             "reorder true at rank 1");
    reported(MPI_Graph_create(comm, 1, (int[]){check_rank == 1}, (int[]){0}, 0, &made), "1 nodes, 0 edges",
             "1 nodes, 1 edges");
    reported(MPI_Dist_graph_create(comm, 0, NULL, NULL, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, check_rank == 1, &made),
             "reorder false", "reorder true");
    if (check_rank == 0) {
        code = MPI_Comm_dup(comm, &made);
    } else {
        code = MPI_Comm_split(comm, 0, 0, &made);
    }
    reported(code, "MPI_Comm_dup at rank 0", "MPI_Comm_split at rank");
    CHECK(made == MPI_COMM_NULL);
    OK(MPI_Comm_split(comm, 0, 0, &made));
    OK(MPI_Barrier(made));
    OK(MPI_Comm_free(&made));
}

static void nonblocking(MPI_Comm comm) {
    MPI_Comm made = MPI_COMM_NULL, other;
    MPI_Request request;
    int code;
    section("a nonblocking duplicate where others do something else");
    if (check_rank == 0) {
        OK(MPI_Comm_idup(comm, &made, &request));
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        code = MPI_Barrier(comm);
    }
    reported(code, "MPI_Comm_idup at rank 0", "MPI_Barrier at rank");
    section("nonblocking duplicates, begun in one order, and blocking operations meanwhile");
    OK(MPI_Comm_idup(comm, &made, &request));
    OK(MPI_Barrier(comm));
    OK(MPI_Comm_dup(comm, &other));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(made));
    OK(MPI_Comm_free(&made));
    OK(MPI_Comm_free(&other));
}

static void merging(MPI_Comm comm) {
    MPI_Comm half, inter, made = MPI_COMM_NULL;
    int rank = -1, low = check_size / 2, second = check_rank >= low;
    section("merge: the two sides may say different things, the members of one may not");
    OK(MPI_Comm_split(comm, second, 0, &half));
    OK(MPI_Intercomm_create(half, 0, comm, second ? 0 : low, 1, &inter));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    OK(MPI_Intercomm_merge(inter, second, &made));
    OK(MPI_Comm_rank(made, &rank));
    SAME(rank, check_rank);
    OK(MPI_Comm_free(&made));
    if (check_size > 2) {
        reported(MPI_Intercomm_merge(inter, check_rank == check_size - 1, &made), "high 0 at", "high 1 at");
        CHECK(made == MPI_COMM_NULL);
    }
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
}

int main(int argc, char **argv) {
    MPI_Comm comm;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    order(comm);
    arguments(comm);
    creation(comm);
    allowed(comm);
    nonblocking(comm);
    merging(comm);
    OK(MPI_Comm_free(&comm));
    return check_close();
}
