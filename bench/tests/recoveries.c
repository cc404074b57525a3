// ranks: 5 8
// launch: --ft
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// A communicator that loses three members one after the other, and recovers each time in place, by changing message modes:
// messages between two who live, from anybody, and partitioned ones, before each recovery and after it (rules R3, R6, C14 and
// section 3.2 of failures); and topologies that are made afterwards.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { TAG = 7, PARTS = 4, RANKS_MAX = 8, LONG = 1 << 21 };

static MPI_Comm comm;
static int lives, dead;

static void set_mode(int messages, int blanks) {
    OK(MPIX_Comm_set_ft_mode(comm, MPIX_FT_MODE_BLANK, messages, MPIX_FT_COLL_LOCAL, blanks));
}

/* The others are in a long operation, which the one that dies never begins, and recover at once: it ends at all of them. */
static MPI_Comm slow = MPI_COMM_NULL;
static MPI_Request begun;
static int from[LONG], sums[LONG];

static void begin_long(void) {
    if (check_rank < lives - 1) OK(MPI_Iallreduce(from, sums, LONG, MPI_INT, MPI_SUM, slow, &begun));
}

static void end_long(void) {
    int one = 1, sum = 0;
    MPIX_Recover_info info;
    OK(MPIX_Comm_recover(slow, 0, NULL, &info));
    SAME(info.generation, 1);
    OK(MPI_Group_free(&info.failed));
    CLASS(MPI_Wait(&begun, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, slow, &begun));
    OK(MPI_Wait(&begun, MPI_STATUS_IGNORE));
    SAME(sum, lives);
    OK(MPI_Comm_free(&slow));
}

/* The last of the living dies, and the others know it. */
static void last_dies(void) {
    int known = 0;
    (void)MPI_Barrier(comm);
    if (slow != MPI_COMM_NULL) begin_long();
    if (check_rank == lives - 1) {
        fflush(NULL);
        raise(SIGKILL);
    }
    lives--;
    if (slow != MPI_COMM_NULL) end_long();
    dead++;
    while (known < dead) {
        MPI_Group failed;
        OK(MPIX_Comm_get_failed(comm, &failed));
        OK(MPI_Group_size(failed, &known));
        OK(MPI_Group_free(&failed));
    }
    SAME(known, dead);
}

/* Topologies are made as ever: a ring of the living, whose edges others give, and a row that might be mapped. */
static void topologies(void) {
    int from = (check_rank + 1) % lives, to = (check_rank + 2) % lives, one = 1, size = check_size, open = 0;
    int got = -1, rank = -1, before = (check_rank + lives - 1) % lives;
    MPI_Comm ring, row;
    OK(MPI_Dist_graph_create(comm, 1, &from, &one, &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 1, &ring));
    OK(MPI_Neighbor_allgather(&check_rank, 1, MPI_INT, &got, 1, MPI_INT, ring));
    SAME(got, before);
    OK(MPI_Comm_free(&ring));
    OK(MPI_Cart_create(comm, 1, &size, &open, 1, &row));
    OK(MPI_Comm_rank(row, &rank));
    SAME(rank, check_rank);
    OK(MPI_Comm_free(&row));
}

static void recover(int generation) {
    MPIX_Recover_info info;
    int number = -1;
    OK(MPIX_Comm_recover(comm, 0, NULL, &info));
    SAME(info.generation, generation);
    OK(MPI_Group_free(&info.failed));
    OK(MPIX_Comm_live_size(comm, &number));
    SAME(number, lives);
    topologies();
}

/* A message to the next of the living, and one from the one before, asked for by name. */
static void ring(void) {
    int next = (check_rank + 1) % lives, before = (check_rank + lives - 1) % lives, value = -1;
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, next, TAG, &value, 1, MPI_INT, before, TAG, comm, MPI_STATUS_IGNORE));
    SAME(value, before);
}

static void ring_from_anybody(void) {
    int next = (check_rank + 1) % lives, before = (check_rank + lives - 1) % lives, value = -1;
    MPI_Status status;
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, next, TAG, &value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
    SAME(value, before);
    SAME(status.MPI_SOURCE, before);
    SAME(status.MPI_TAG, TAG);
}

static void works(void) {
    int one = 1, sum = 0;
    ring();
    ring_from_anybody();
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    SAME(sum, lives);
}

/* Rank 0 sends to rank 1 in partitions; the others look on. */
static int numbers[PARTS];

static MPI_Request describe(MPI_Comm over) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (check_rank == 0) OK(MPI_Psend_init(numbers, PARTS, 1, MPI_INT, 1, TAG, over, MPI_INFO_NULL, &request));
    if (check_rank == 1) OK(MPI_Precv_init(numbers, 2, PARTS / 2, MPI_INT, 0, TAG, over, MPI_INFO_NULL, &request));
    return request;
}

/* The class that its end has. */
static int in_partitions(MPI_Request *request, int add) {
    int code, class = -1;
    if (check_rank > 1) return MPI_SUCCESS;
    for (int at = 0; at < PARTS; at++) numbers[at] = check_rank == 0 ? add + at : -1;
    OK(MPI_Start(request));
    if (check_rank == 0) OK(MPI_Pready_range(0, PARTS - 1, *request));
    code = MPI_Wait(request, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS)
        for (int at = 0; at < PARTS; at++) SAME(numbers[at], add + at);
    OK(MPI_Error_class(code, &class));
    return class;
}

/* What was planned for somebody who is blank now. */
static void planned_for_a_blank(MPI_Request planned[4], int is_error) {
    int flag = 0;
    for (int at = 0; at < 4; at++) {
        MPI_Status status;
        if (is_error) {
            CLASS(MPI_Start(&planned[at]), MPI_ERR_RANK);
            continue;
        }
        OK(MPI_Start(&planned[at]));
        if (at == 2) OK(MPI_Pready_range(0, PARTS - 1, planned[at]));
        if (at == 3) OK(MPI_Parrived(planned[at], 0, &flag));
        OK(MPI_Wait(&planned[at], &status));
        if (at % 2 == 1) SAME(status.MPI_SOURCE, MPI_PROC_NULL);
    }
}

int main(int argc, char **argv) {
    MPI_Request before, beside, after, planned[4];
    MPI_Comm other;
    int value = -1, sent = 5, room[PARTS], flag = -1;
    check_open(argc, argv);
    lives = check_size;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    set_mode(MPIX_FT_MSG_CONT, MPIX_FT_P2P_PROC_NULL);
    OK(MPI_Comm_dup(comm, &slow));
    before = describe(comm);
    beside = describe(other);
    OK(MPI_Send_init(&sent, 1, MPI_INT, check_size - 1, TAG + 1, comm, &planned[0]));
    OK(MPI_Recv_init(&value, 1, MPI_INT, check_size - 1, TAG + 1, comm, &planned[1]));
    OK(MPI_Psend_init(room, PARTS, 1, MPI_INT, check_size - 1, TAG + 1, comm, MPI_INFO_NULL, &planned[2]));
    OK(MPI_Precv_init(room, PARTS, 1, MPI_INT, check_size - 1, TAG + 1, comm, MPI_INFO_NULL, &planned[3]));
    SAME(in_partitions(&before, 10), MPI_SUCCESS);
    works();

    section("the first dies");
    last_dies();
    section("partitions go their way where somebody else has died");
    SAME(in_partitions(&beside, 20), MPI_SUCCESS);
    SAME(in_partitions(&before, 30), MPI_SUCCESS);
    section("CONT: recovery");
    recover(1);
    works();
    section("CONT: partitions go on after a recovery");
    SAME(in_partitions(&before, 40), MPI_SUCCESS);
    section("3.2: what was planned for a blank");
    planned_for_a_blank(planned, 0);
    set_mode(MPIX_FT_MSG_CONT, MPIX_FT_P2P_ERROR);
    planned_for_a_blank(planned, 1);
    for (int at = 0; at < 4; at++) OK(MPI_Request_free(&planned[at]));

    section("from CONT to RESET");
    set_mode(MPIX_FT_MSG_RESET, MPIX_FT_P2P_PROC_NULL);
    works();
    SAME(in_partitions(&before, 50), MPI_SUCCESS);
    if (check_rank == 1) OK(MPI_Send(&sent, 1, MPI_INT, 0, TAG + 2, comm));
    section("the second dies");
    last_dies();
    section("RESET: nobody sends or receives before the recovery");
    CLASS(MPI_Send(&sent, 1, MPI_INT, (check_rank + 1) % lives, TAG, comm), MPIX_ERR_PROC_FAILED);
    CLASS(MPI_Recv(&value, 1, MPI_INT, (check_rank + 1) % lives, TAG, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    section("RESET: recovery");
    recover(2);
    works();
    OK(MPI_Iprobe(MPI_ANY_SOURCE, TAG + 2, comm, &flag, MPI_STATUS_IGNORE));
    SAME(flag, 0);
    section("R6: what was described before begins, and fails");
    SAME(in_partitions(&before, 60), check_rank > 1 ? MPI_SUCCESS : MPIX_ERR_PROC_FAILED);
    section("RESET: what is described anew goes");
    after = describe(comm);
    SAME(in_partitions(&after, 70), MPI_SUCCESS);

    section("from RESET to CONT");
    set_mode(MPIX_FT_MSG_CONT, MPIX_FT_P2P_PROC_NULL);
    works();
    if (check_rank == 1) OK(MPI_Send(&sent, 1, MPI_INT, 0, TAG + 2, comm));
    section("the third dies");
    last_dies();
    ring();
    section("CONT: recovery after one of the other mode");
    recover(3);
    if (check_rank == 0) {
        OK(MPI_Recv(&value, 1, MPI_INT, 1, TAG + 2, comm, MPI_STATUS_IGNORE));
        SAME(value, sent);
    }
    works();
    SAME(in_partitions(&after, 80), MPI_SUCCESS);
    section("R13: revoked where messages have kept their context");
    /* Whoever is the first to leave it may revoke before the others have left. */
    value = 1;
    OK(MPIX_Comm_agree(comm, &value));
    if (check_rank == 0) OK(MPIX_Comm_revoke(comm));
    do {
        OK(MPIX_Comm_is_revoked(comm, &flag));
    } while (!flag);
    while (MPI_Recv(&value, 1, MPI_INT, (check_rank + 1) % lives, TAG + 3, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS) {}
    recover(4);
    works();
    section("G8: the end");
    if (check_rank < 2) {
        OK(MPI_Request_free(&before));
        OK(MPI_Request_free(&beside));
        OK(MPI_Request_free(&after));
    }
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_free(&other));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
