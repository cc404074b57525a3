// ranks: 3 4 8
// launch: --ft
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// Processes that are killed, and what that ends at the others (rules G1 to G4, G6 to G8, D1, D4 of failures).
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { LONG = 1 << 20, TAG = 7 };

static char long_message[LONG];
static int victim;
static MPI_Comm survivors;

/* A failure is known at once or a little later; a program that has time asks again. */
static int known_failures(MPI_Comm comm) {
    MPI_Group failed;
    int size = -1;
    OK(MPIX_Comm_get_failed(comm, &failed));
    OK(MPI_Group_size(failed, &size));
    OK(MPI_Group_free(&failed));
    return size;
}

static void until_known(int count) {
    while (known_failures(MPI_COMM_WORLD) < count) {}
}

static void die(void) {
    fflush(NULL);
    raise(SIGKILL);
}

/* MPI before anybody has failed. */
static void nobody_has_failed(void) {
    int acked = -1;
    section("nobody has failed");
    SAME(known_failures(MPI_COMM_WORLD), 0);
    OK(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 5, &acked));
    SAME(acked, 0);
    CLASS(MPIX_Comm_ack_failed(MPI_COMM_WORLD, -1, &acked), MPI_ERR_ARG);
}

static void g7_what_the_dead_has_sent_is_received(void) {
    int value = -1;
    section("g7: what the dead has sent is received, and no more");
    OK(MPI_Recv(&value, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(value, 100 + check_rank);
    CLASS(MPI_Recv(&value, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    CLASS(MPI_Recv(&value, 1, MPI_INT, victim, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
}

static void g6_errors_come_with_the_end_of_a_request(void) {
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int value = 1, flag = -1;
    section("g6: errors come with the end of a request");
    OK(MPI_Isend(&value, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, &requests[0]));
    CLASS(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    CHECK(requests[0] == MPI_REQUEST_NULL);
    OK(MPI_Irecv(&value, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, &requests[0]));
    CLASS(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    SAME(flag, 1);
    OK(MPI_Isend(long_message, LONG, MPI_CHAR, victim, TAG, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Irecv(&value, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Isend(&value, 1, MPI_INT, check_rank, TAG, MPI_COMM_WORLD, &requests[2]));
    OK(MPI_Irecv(&flag, 1, MPI_INT, check_rank, TAG, MPI_COMM_WORLD, &requests[3]));
    CLASS(MPI_Waitall(4, requests, statuses), MPI_ERR_IN_STATUS);
    SAME(statuses[0].MPI_ERROR, MPIX_ERR_PROC_FAILED);
    SAME(statuses[1].MPI_ERROR, MPIX_ERR_PROC_FAILED);
    SAME(statuses[2].MPI_ERROR, MPI_SUCCESS);
    SAME(statuses[3].MPI_ERROR, MPI_SUCCESS);
    for (int at = 0; at < 4; at++) CHECK(requests[at] == MPI_REQUEST_NULL);
    section("g6: a receive from the dead can be cancelled, and a persistent one begun");
    OK(MPI_Recv_init(&value, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Start(&requests[0]));
    CLASS(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Irecv(&value, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Cancel(&requests[0]));
    CLASS(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
}

/* Asks in a loop for two requests of which one is over, so that every question has an answer of a kind. */
static void g1_who_asks_learns_of_it(void) {
    MPI_Request requests[2];
    int value = 1, got = -1, flag = 0, code = MPI_SUCCESS;
    section("g1: who asks for several requests learns of a failure");
    OK(MPI_Irecv(&got, 1, MPI_INT, victim, TAG + 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(&value, 1, MPI_INT, 0, TAG + 2, MPI_COMM_SELF, &requests[1]));
    while (!flag) code = MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
    CLASS(code, MPI_ERR_IN_STATUS);
    OK(MPI_Recv(&got, 1, MPI_INT, 0, TAG + 2, MPI_COMM_SELF, MPI_STATUS_IGNORE));
}

static void g7_sends_to_the_dead_do_not_hang(void) {
    int code, value = 1;
    section("g7: sends to the dead do not hang");
    for (int size = 1; size <= LONG; size *= 64) {
        code = MPI_Send(long_message, size, MPI_CHAR, victim, TAG, MPI_COMM_WORLD);
        if (code != MPI_SUCCESS) CLASS(code, MPIX_ERR_PROC_FAILED);
    }
    CLASS(MPI_Ssend(&value, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
    CLASS(MPI_Sendrecv(&value, 1, MPI_INT, check_rank, TAG, &code, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE),
            MPIX_ERR_PROC_FAILED);
    OK(MPI_Recv(&code, 1, MPI_INT, check_rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void g1_receives_from_anybody(void) {
    MPI_Request request, same;
    MPI_Status status;
    MPI_Group failed, acked;
    int value = -1, flag = -1, count = -1, index = -1, result = -1, next = (check_rank + 1) % (check_size - 1);
    section("g1: nobody waits for anybody when somebody has failed");
    OK(MPI_Barrier(survivors));
    CLASS(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            MPIX_ERR_PROC_FAILED);
    CLASS(MPI_Probe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status), MPIX_ERR_PROC_FAILED);
    CLASS(MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &flag, &status), MPIX_ERR_PROC_FAILED);
    CLASS(MPI_Probe(victim, TAG, MPI_COMM_WORLD, &status), MPIX_ERR_PROC_FAILED);
    section("g1: a request for a message from anybody stays");
    OK(MPI_Barrier(survivors));
    OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &request));
    same = request;
    CLASS(MPI_Wait(&request, &status), MPIX_ERR_PROC_FAILED_PENDING);
    CLASS(MPI_Test(&request, &flag, &status), MPIX_ERR_PROC_FAILED_PENDING);
    CLASS(MPI_Waitany(1, &request, &index, &status), MPIX_ERR_PROC_FAILED_PENDING);
    SAME(index, 0);
    CLASS(MPI_Waitall(1, &request, &status), MPI_ERR_IN_STATUS);
    SAME(status.MPI_ERROR, MPIX_ERR_PROC_FAILED_PENDING);
    CLASS(MPI_Waitsome(1, &request, &count, &index, &status), MPI_ERR_IN_STATUS);
    SAME(count, 1);
    CHECK(request == same);
    section("g1: what is acknowledged is no hindrance");
    OK(MPI_Barrier(survivors));
    OK(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 0, &count));
    SAME(count, 0);
    OK(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &acked));
    OK(MPI_Group_size(acked, &count));
    SAME(count, 0);
    OK(MPI_Group_free(&acked));
    OK(MPIX_Comm_failure_ack(MPI_COMM_WORLD));
    OK(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 0, &count));
    SAME(count, 1);
    OK(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed));
    OK(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &acked));
    OK(MPI_Group_compare(failed, acked, &result));
    SAME(result, MPI_IDENT);
    OK(MPI_Group_free(&failed));
    OK(MPI_Group_free(&acked));
    OK(MPI_Send(&check_rank, 1, MPI_INT, next, TAG, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, &status));
    SAME(value, status.MPI_SOURCE);
    SAME(status.MPI_SOURCE, (check_rank + check_size - 2) % (check_size - 1));
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Barrier(survivors));
}

static void g3_others_notice_nothing(void) {
    int value = 1, sum = 0, next = (check_rank + 1) % (check_size - 1);
    int before = (check_rank + check_size - 2) % (check_size - 1);
    section("g3: communicators without the dead work");
    OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, survivors));
    SAME(sum, check_size - 1);
    SAME(known_failures(survivors), 0);
    SAME(known_failures(MPI_COMM_SELF), 0);
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, next, TAG, &value, 1, MPI_INT, MPI_ANY_SOURCE, TAG, survivors,
            MPI_STATUS_IGNORE));
    SAME(value, before);
    section("g3: members that live can be spoken to where another is dead");
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, next, TAG, &value, 1, MPI_INT, before, TAG, MPI_COMM_WORLD,
            MPI_STATUS_IGNORE));
    SAME(value, before);
}

static void d4_collective_operations_fail(void) {
    MPI_Request request;
    MPI_Comm copy = MPI_COMM_NULL;
    int value = 1, sum = 0;
    section("d4: collective operations of the dead's communicator fail");
    CLASS(MPI_Barrier(MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
    CLASS(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
    CLASS(MPI_Bcast(long_message, LONG, MPI_CHAR, 0, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    CLASS(MPI_Comm_dup(MPI_COMM_WORLD, &copy), MPIX_ERR_PROC_FAILED);
}

/* What fails is one operation, and its class says why; what ended well before stays so, and what needs nobody who is dead goes on. */
static void g2_an_error_is_of_the_operation(void) {
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int value = -1, next = (check_rank + 1) % victim, before = (check_rank + victim - 1) % victim;
    section("g2: an error is of the operation");
    OK(MPI_Irecv(&value, 1, MPI_INT, before, TAG, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Isend(&check_rank, 1, MPI_INT, next, TAG, MPI_COMM_WORLD, &requests[2]));
    CLASS(MPI_Waitall(3, requests, statuses), MPI_ERR_IN_STATUS);
    SAME(statuses[0].MPI_ERROR, MPI_SUCCESS);
    CLASS(statuses[1].MPI_ERROR, MPIX_ERR_PROC_FAILED);
    SAME(statuses[2].MPI_ERROR, MPI_SUCCESS);
    SAME(value, before);
}

static void g4_classes(void) {
    const int classes[] = {MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED};
    char text[MPI_MAX_ERROR_STRING];
    int class, added, length;
    section("g4: the classes of failures");
    OK(MPI_Add_error_class(&added));
    for (int at = 0; at < 3; at++) {
        OK(MPI_Error_class(classes[at], &class));
        SAME(class, classes[at]);
        /* Beyond the classes of the standard, and none that a program adds. */
        CHECK(class > MPI_ERR_ABI);
        CHECK(class != added);
        OK(MPI_Error_string(class, text, &length));
        CHECK(length > 0);
    }
    CLASS(MPI_Bcast(long_message, 1, MPI_CHAR, 0, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
}

/* The first to fail is noticed by those who wait for it in a collective operation, of which it has seen nothing. */
static void d1_who_waits_for_the_dead_ends(void) {
    int code;
    section("d1: a barrier that the dead never entered succeeds nowhere");
    code = MPI_Barrier(MPI_COMM_WORLD);
    CLASS(code, MPIX_ERR_PROC_FAILED);
    until_known(1);
}

int main(int argc, char **argv) {
    int value;
    check_open(argc, argv);
    victim = check_size - 1;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    nobody_has_failed();
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank == victim ? MPI_UNDEFINED : 0, 0, &survivors));
    if (check_rank != victim) OK(MPI_Send(NULL, 0, MPI_INT, victim, TAG, MPI_COMM_WORLD));
    if (check_rank == victim) {
        /* When all others have what they made. */
        for (int from = 0; from < victim; from++) OK(MPI_Recv(NULL, 0, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int to = 0; to < victim; to++) {
            value = 100 + to;
            OK(MPI_Send(&value, 1, MPI_INT, to, TAG, MPI_COMM_WORLD));
        }
        die();
    }
    OK(MPI_Comm_set_errhandler(survivors, MPI_ERRORS_RETURN));
    g1_who_asks_learns_of_it();
    d1_who_waits_for_the_dead_ends();
    g7_what_the_dead_has_sent_is_received();
    g6_errors_come_with_the_end_of_a_request();
    g7_sends_to_the_dead_do_not_hang();
    g1_receives_from_anybody();
    g3_others_notice_nothing();
    d4_collective_operations_fail();
    g2_an_error_is_of_the_operation();
    g4_classes();
    section("g8: the end");
    OK(MPI_Barrier(survivors));
    OK(MPI_Comm_free(&survivors));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
