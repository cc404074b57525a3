// ranks: 1 2 3
// Receives whose requests are nothing but a name: as integers, freed before they are over, cancelled,
// among requests of other kinds, failing, and asked for once too often. (MPI 5.0, sections 3.7, 3.8.4)
#include "check.h"

enum { GO = 99, COUNT = 5 };

static int partner;

static void together(void) {
    OK(MPI_Sendrecv(NULL, 0, MPI_INT, partner, GO, NULL, 0, MPI_INT, partner, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void send(int value, int tag, MPI_Comm comm) {
    OK(MPI_Send(&value, 1, MPI_INT, partner, tag, comm));
}

static void integers(void) {
#ifdef MPI_ABI_VERSION
    int value = -1, other = -1;
    MPI_Request request, second;
    section("a receive as an integer");
    OK(MPI_Irecv(&value, 1, MPI_INT, partner, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Irecv(&other, 1, MPI_INT, partner, 2, MPI_COMM_WORLD, &second));
    int number = MPI_Request_toint(request), next = MPI_Request_toint(second);
    CHECK(number > 0 && next > 0 && number != next);
    CHECK(MPI_Request_fromint(number) == request && MPI_Request_fromint(next) == second);
    together();
    send(7, 1, MPI_COMM_WORLD);
    send(8, 2, MPI_COMM_WORLD);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(value, 7);
    CHECK(MPI_Request_fromint(number) == MPI_REQUEST_NULL);
    CHECK(MPI_Request_fromint(next) == second);
    OK(MPI_Wait(&second, MPI_STATUS_IGNORE));
    SAME(other, 8);
    /* The place is used again, the name is not. */
    MPI_Request old = second;
    OK(MPI_Irecv(&value, 1, MPI_INT, partner, 3, MPI_COMM_WORLD, &second));
    CHECK(second != old && MPI_Request_fromint(MPI_Request_toint(second)) == second);
    OK(MPI_Cancel(&second));
    OK(MPI_Wait(&second, MPI_STATUS_IGNORE));
#endif
}

static void freed(void) {
    static int value;
    int later = -1;
    MPI_Request request;
    section("a receive that is freed goes on");
    value = -1;
    OK(MPI_Irecv(&value, 1, MPI_INT, partner, 10, MPI_COMM_WORLD, &request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    together();
    send(70, 10, MPI_COMM_WORLD);
    send(71, 10, MPI_COMM_WORLD);
    OK(MPI_Recv(&later, 1, MPI_INT, partner, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(value, 70);
    SAME(later, 71);
}

static void too_long(MPI_Comm comm, MPI_Request *request, int *value) {
    MPI_Status status;
    OK(MPI_Irecv(value, 1, MPI_INT, partner, 13, comm, request));
    together();
    int two[2] = {1, 2};
    OK(MPI_Send(two, 2, MPI_INT, partner, 13, comm));
    CLASS(MPI_Wait(request, &status), MPI_ERR_TRUNCATE);
    CHECK(*request == MPI_REQUEST_NULL);
    SAME(status.MPI_SOURCE, partner);
}

/* In a communicator that the program has made, a receive is nothing but a name as well. What fails belongs to that
 * communicator's error handler (the world's would end the job), and one that is freed keeps its messages for itself as
 * long as a receive waits for them. */
static void made(void) {
    enum { COPIES = 20 };
    MPI_Comm other, copies[COPIES];
    MPI_Request request;
    int value = -1, late = 77, got = -1;
    section("receives in communicators that were made");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    OK(MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    too_long(other, &request, &value);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    section("a communicator that is freed while a receive is under way");
    OK(MPI_Irecv(&value, 1, MPI_INT, partner, 14, other, &request));
    int sends = check_rank >= partner, receives = check_rank <= partner;
    if (receives && !sends) OK(MPI_Comm_free(&other));
    for (int i = 0; i < COPIES; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &copies[i]));
    for (int i = 0; i < COPIES; i++) {
        OK(MPI_Sendrecv(&i, 1, MPI_INT, partner, 14, &got, 1, MPI_INT, partner, 14, copies[i], MPI_STATUS_IGNORE));
        SAME(got, i);
        OK(MPI_Comm_free(&copies[i]));
    }
    if (sends) OK(MPI_Send(&late, 1, MPI_INT, partner, 14, other));
    if (!receives) OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (receives) SAME(value, late);
    if (sends) OK(MPI_Comm_free(&other));
    section("a receive that fails in a communicator that is freed");
    int two[2] = {1, 2};
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    OK(MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Irecv(&value, 1, MPI_INT, partner, 15, other, &request));
    together();
    OK(MPI_Send(two, 2, MPI_INT, partner, 15, other));
    OK(MPI_Comm_free(&other));
    CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
}

/* What else may still fail when its communicator is freed: its handler is told, and not that of MPI_COMM_SELF. */
static void freed_meanwhile(void) {
    enum { GAPS, EXCHANGE, PLANNED, TAKEN, KINDS };
    int three[3] = {1, 2, 3}, room[4];
    MPI_Datatype gaps;
    section("other operations that fail in a communicator that is freed");
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
    for (int kind = 0; kind < KINDS; kind++) {
        MPI_Comm other;
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Message message;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
        OK(MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN));
        if (kind == GAPS) OK(MPI_Irecv(room, 1, gaps, partner, 16, other, &request));
        if (kind == PLANNED) {
            OK(MPI_Recv_init(room, 2, MPI_INT, partner, 16, other, &request));
            OK(MPI_Start(&request));
        }
        together();
        if (kind == EXCHANGE) {
            OK(MPI_Isendrecv(three, 3, MPI_INT, partner, 16, room, 2, MPI_INT, partner, 16, other, &request));
        } else {
            OK(MPI_Send(three, 3, MPI_INT, partner, 16, other));
        }
        if (kind == TAKEN) OK(MPI_Mprobe(partner, 16, other, &message, MPI_STATUS_IGNORE));
        OK(MPI_Comm_free(&other));
        if (kind == TAKEN) CLASS(MPI_Mrecv(room, 1, gaps, &message, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        else CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        if (kind == PLANNED) OK(MPI_Request_free(&request));
        CHECK(request == MPI_REQUEST_NULL);
        together();
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Type_free(&gaps));
}

/* Usual receives among sends, receives with gaps, receives on another communicator, and nulls. */
static void mixed(void) {
    MPI_Comm other;
    MPI_Datatype gaps;
    section("requests of several kinds in one list");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    for (int round = 0; round < 3; round++) {
        int out[2] = {5, 6}, in[COUNT][3], flag = 0, left = 7;
        MPI_Request requests[7];
        MPI_Status statuses[7];
        memset(in, -1, sizeof in);
        OK(MPI_Irecv(in[0], 1, MPI_INT, partner, 20, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Irecv(in[1], 1, gaps, partner, 21, MPI_COMM_WORLD, &requests[1]));
        OK(MPI_Irecv(in[2], 1, MPI_INT, partner, 22, other, &requests[2]));
        requests[3] = MPI_REQUEST_NULL;
        OK(MPI_Irecv(in[3], 1, MPI_INT, MPI_ANY_SOURCE, 23, MPI_COMM_WORLD, &requests[4]));
        OK(MPI_Irecv(in[4], 1, MPI_INT, partner, 24, MPI_COMM_WORLD, &requests[5]));
        OK(MPI_Isend(out, 2, MPI_INT, partner, 21, MPI_COMM_WORLD, &requests[6]));
        together();
        send(1, 24, MPI_COMM_WORLD);
        send(2, 23, MPI_COMM_WORLD);
        send(3, 22, other);
        send(4, 20, MPI_COMM_WORLD);
        if (round == 0) OK(MPI_Waitall(7, requests, statuses));
        if (round == 1) while (!flag) OK(MPI_Testall(7, requests, &flag, statuses));
        while (round == 2 && left > 1) {
            int count = 0, indices[7];
            MPI_Status some[7];
            OK(MPI_Waitsome(7, requests, &count, indices, some));
            for (int i = 0; i < count; i++) statuses[indices[i]] = some[i];
            left -= count;
        }
        SAME(in[0][0], 4);
        CHECK(in[1][0] == 5 && in[1][1] == -1 && in[1][2] == 6);
        SAME(in[2][0], 3);
        SAME(in[3][0], 2);
        SAME(in[4][0], 1);
        for (int i = 0; i < 7; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
        int tags[7] = {20, 21, 22, MPI_ANY_TAG, 23, 24, MPI_ANY_TAG};
        for (int i = 0; i < 6; i++)
            if (i != 3) {
                SAME(statuses[i].MPI_TAG, tags[i]);
                SAME(statuses[i].MPI_SOURCE, partner);
            }
    }
    OK(MPI_Type_free(&gaps));
    OK(MPI_Comm_free(&other));
}

/* One of several receives has no room for its message: the others are well, and their statuses say so. */
static void truncated(void) {
    int in[3] = {-1, -1, -1}, out[2] = {8, 9}, class = -1, count = -1;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    section("a receive without room among others");
    for (int i = 0; i < 3; i++) OK(MPI_Irecv(&in[i], 1, MPI_INT, partner, 30 + i, MPI_COMM_WORLD, &requests[i]));
    together();
    OK(MPI_Send(out, 1, MPI_INT, partner, 30, MPI_COMM_WORLD));
    OK(MPI_Send(out, 2, MPI_INT, partner, 31, MPI_COMM_WORLD));
    OK(MPI_Send(out, 1, MPI_INT, partner, 32, MPI_COMM_WORLD));
    OK(MPI_Error_class(MPI_Waitall(3, requests, statuses), &class));
    SAME(class, MPI_ERR_IN_STATUS);
    for (int i = 0; i < 3; i++) {
        OK(MPI_Error_class(statuses[i].MPI_ERROR, &class));
        SAME(class, i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        SAME(statuses[i].MPI_TAG, 30 + i);
        OK(MPI_Get_count(&statuses[i], MPI_INT, &count));
        SAME(count, 1);
        SAME(in[i], 8);
        CHECK(requests[i] == MPI_REQUEST_NULL);
    }
    section("the same, alone");
    OK(MPI_Irecv(&in[0], 1, MPI_INT, partner, 33, MPI_COMM_WORLD, &requests[0]));
    together();
    OK(MPI_Send(out, 2, MPI_INT, partner, 33, MPI_COMM_WORLD));
    OK(MPI_Error_class(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), &class));
    SAME(class, MPI_ERR_TRUNCATE);
}

/* Whoever asks again for what is over gets an error, and nothing else happens. */
static void stale(void) {
#ifdef MPI_ABI_VERSION
    int value = -1, flag = 0, class = -1;
    MPI_Request request, copy;
    section("a name that is over");
    if (check_library_is("MPICH")) return; /* which does not look */
    OK(MPI_Irecv(&value, 1, MPI_INT, partner, 40, MPI_COMM_WORLD, &request));
    copy = request;
    together();
    send(1, 40, MPI_COMM_WORLD);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    request = copy;
    OK(MPI_Error_class(MPI_Wait(&request, MPI_STATUS_IGNORE), &class));
    SAME(class, MPI_ERR_REQUEST);
    OK(MPI_Error_class(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), &class));
    SAME(class, MPI_ERR_REQUEST);
    OK(MPI_Error_class(MPI_Waitall(1, &request, MPI_STATUSES_IGNORE), &class));
    SAME(class, MPI_ERR_REQUEST);
    OK(MPI_Error_class(MPI_Cancel(&request), &class));
    SAME(class, MPI_ERR_REQUEST);
    OK(MPI_Error_class(MPI_Request_free(&request), &class));
    SAME(class, MPI_ERR_REQUEST);
    OK(MPI_Error_class(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE), &class));
    SAME(class, MPI_ERR_REQUEST);
    section("a name that was freed while its receive goes on");
    OK(MPI_Irecv(&value, 1, MPI_INT, partner, 41, MPI_COMM_WORLD, &request));
    copy = request;
    OK(MPI_Request_free(&request));
    CHECK(MPI_Request_fromint(MPI_Request_toint(copy)) == MPI_REQUEST_NULL);
    request = copy;
    OK(MPI_Error_class(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE), &class));
    SAME(class, MPI_ERR_REQUEST);
    OK(MPI_Error_class(MPI_Request_free(&request), &class));
    SAME(class, MPI_ERR_REQUEST);
    OK(MPI_Error_class(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), &class));
    SAME(class, MPI_ERR_REQUEST);
    together();
    send(1, 41, MPI_COMM_WORLD);
    together();
#endif
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    /* What is no request belongs to no communicator: such errors are MPI_COMM_SELF's. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    partner = (check_rank ^ 1) < check_size ? check_rank ^ 1 : check_rank;
    integers();
    freed();
    made();
    freed_meanwhile();
    mixed();
    truncated();
    stale();
    return check_close();
}
