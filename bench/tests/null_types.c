// ranks: 1 2 3 4
// A list of datatypes may have MPI_DATATYPE_NULL, or any other handle, where the count is 0: no element is described by it.
// An empty message may have MPI_DATATYPE_NULL.
#include "check.h"

#define RANKS_MAX 8

static int rank, size;

/* Each rank sends its number to the next one, and nothing to the others. */
struct list {
    int sends[RANKS_MAX], receives[RANKS_MAX], displacements[RANKS_MAX];
    MPI_Datatype send_types[RANKS_MAX], receive_types[RANKS_MAX];
    int to, from, value, got;
};

static struct list describe(MPI_Datatype unused) {
    struct list list = {.to = (rank + 1) % size, .from = (rank + size - 1) % size, .value = rank + 10, .got = -1};
    for (int i = 0; i < size; i++) list.send_types[i] = list.receive_types[i] = unused;
    list.sends[list.to] = list.receives[list.from] = 1;
    list.send_types[list.to] = list.receive_types[list.from] = MPI_INT;
    return list;
}

#define LISTS(list) &(list).value, (list).sends, (list).displacements, (list).send_types, \
    &(list).got, (list).receives, (list).displacements, (list).receive_types

static void everybody(MPI_Datatype unused) {
    struct list list = describe(unused);
    MPI_Request request;
    section("MPI_Alltoallw");
    OK(MPI_Alltoallw(LISTS(list), MPI_COMM_WORLD));
    SAME(list.got, list.from + 10);
    section("MPI_Ialltoallw");
    list.got = -1;
    OK(MPI_Ialltoallw(LISTS(list), MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(list.got, list.from + 10);
    section("MPI_Alltoallw_init");
    OK(MPI_Alltoallw_init(LISTS(list), MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < 2; round++) {
        list.got = -1;
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        SAME(list.got, list.from + 10);
    }
    OK(MPI_Request_free(&request));
    section("nothing at all");
    for (int i = 0; i < size; i++) list.sends[i] = list.receives[i] = 0;
    for (int i = 0; i < size; i++) list.send_types[i] = list.receive_types[i] = unused;
    list.got = -1;
    OK(MPI_Alltoallw(LISTS(list), MPI_COMM_WORLD));
    SAME(list.got, -1);
    section("a type that is missing where it is needed");
    list.sends[list.to] = list.receives[list.from] = 1;
    if (unused == MPI_DATATYPE_NULL) CLASS(MPI_Alltoallw(LISTS(list), MPI_COMM_WORLD), MPI_ERR_TYPE);
}

/* A ring of two neighbours at each side, of which one has nothing. */
static void neighbours(MPI_Datatype unused) {
    int value[2] = {rank + 10, -2}, got[2] = {-1, -1}, counts[2] = {1, 0};
    int to[2] = {(rank + 1) % size, rank}, from[2] = {(rank + size - 1) % size, rank};
    MPI_Aint places[2] = {0, sizeof(int)};
    MPI_Datatype types[2] = {MPI_INT, unused};
    MPI_Request request;
    MPI_Comm ring;
    section("a ring");
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, MPI_UNWEIGHTED, 2, to, MPI_UNWEIGHTED, MPI_INFO_NULL,
            0, &ring));
    section("MPI_Neighbor_alltoallw");
    OK(MPI_Neighbor_alltoallw(value, counts, places, types, got, counts, places, types, ring));
    CHECK(got[0] == from[0] + 10 && got[1] == -1);
    section("MPI_Ineighbor_alltoallw");
    got[0] = -1;
    OK(MPI_Ineighbor_alltoallw(value, counts, places, types, got, counts, places, types, ring, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(got[0] == from[0] + 10 && got[1] == -1);
    section("MPI_Neighbor_alltoallw_init");
    got[0] = -1;
    OK(MPI_Neighbor_alltoallw_init(value, counts, places, types, got, counts, places, types, ring, MPI_INFO_NULL,
            &request));
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(got[0] == from[0] + 10 && got[1] == -1);
    OK(MPI_Request_free(&request));
    OK(MPI_Comm_free(&ring));
}

#define NOTHING NULL, 0, MPI_DATATYPE_NULL

static void messages(void) {
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, count = -1, one = 1;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request requests[2];
    MPI_Message message;
    MPI_Status status;
    section("empty messages");
    OK(MPI_Isend(NOTHING, next, 1, world, &requests[0]));
    OK(MPI_Recv(NOTHING, previous, 1, world, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(count == 0 && status.MPI_SOURCE == previous);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Irecv(NOTHING, previous, 2, world, &requests[0]));
    OK(MPI_Send(NOTHING, next, 2, world));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Sendrecv(NOTHING, next, 3, NOTHING, previous, 3, world, MPI_STATUS_IGNORE));
    OK(MPI_Isend(NOTHING, next, 4, world, &requests[0]));
    OK(MPI_Mprobe(previous, 4, world, &message, MPI_STATUS_IGNORE));
    OK(MPI_Mrecv(NOTHING, &message, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Send(NOTHING, MPI_PROC_NULL, 5, world));
    section("empty persistent and partitioned messages");
    OK(MPI_Send_init(NOTHING, next, 6, world, &requests[0]));
    OK(MPI_Recv_init(NOTHING, previous, 6, world, &requests[1]));
    OK(MPI_Startall(2, requests));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 2; i++) OK(MPI_Request_free(&requests[i]));
    OK(MPI_Psend_init(NULL, 1, 0, MPI_DATATYPE_NULL, next, 7, world, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(NULL, 1, 0, MPI_DATATYPE_NULL, previous, 7, world, MPI_INFO_NULL, &requests[1]));
    OK(MPI_Startall(2, requests));
    OK(MPI_Pready(0, requests[0]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 2; i++) OK(MPI_Request_free(&requests[i]));
    section("collective operations on nothing");
    OK(MPI_Bcast(NOTHING, 0, world));
    if (!check_library_is("MPICH")) { /* which takes it in MPI_Bcast alone */
        OK(MPI_Gather(NOTHING, NOTHING, 0, world));
        OK(MPI_Alltoall(NOTHING, NOTHING, world));
    }
    section("a type that is missing where there are elements");
    CLASS(MPI_Send(&one, 1, MPI_DATATYPE_NULL, next, 8, world), MPI_ERR_TYPE);
    CLASS(MPI_Recv(&one, 1, MPI_DATATYPE_NULL, previous, 8, world, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    CLASS(MPI_Bcast(&one, 1, MPI_DATATYPE_NULL, 0, world), MPI_ERR_TYPE);
}

int main(int argc, char **argv) {
    MPI_Datatype uncommitted;
    check_open(argc, argv);
    rank = check_rank, size = check_size;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Type_contiguous(2, MPI_INT, &uncommitted));
    everybody(MPI_DATATYPE_NULL);
    everybody(uncommitted);
    neighbours(MPI_DATATYPE_NULL);
    neighbours(uncommitted);
    messages();
    OK(MPI_Type_free(&uncommitted));
    return check_close();
}
