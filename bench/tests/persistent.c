// ranks: 1 2 3 5
// Persistent requests: begun again and again in every mode, waited for in every way, cancelled, freed while they are
// active; and what is no request to be started. (MPI 5.0, section 3.9)
#include "check.h"

enum { ROUNDS = 20, COUNT = 4 };

static int next, previous;

typedef int (*init_function)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static unsigned seed(int from, int round) { return (unsigned)(from * 17 + round); }

/* A ring in which both ends are persistent. The barrier makes a ready send legal. */
static void mode(const char *name, init_function init, int bytes) {
    unsigned char *out = malloc((size_t)bytes + 1), *in = malloc((size_t)bytes + 1);
    MPI_Request requests[2], kept[2];
    MPI_Status statuses[2];
    section(name);
    OK(MPI_Recv_init(in, bytes, MPI_BYTE, previous, 3, MPI_COMM_WORLD, &requests[0]));
    OK(init(out, bytes, MPI_BYTE, next, 3, MPI_COMM_WORLD, &requests[1]));
    memcpy(kept, requests, sizeof kept);
    for (int round = 0; round < ROUNDS; round++) {
        int count = -1;
        fill(out, (size_t)bytes, seed(check_rank, round));
        memset(in, 0xee, (size_t)bytes);
        OK(MPI_Start(&requests[0]));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Start(&requests[1]));
        OK(MPI_Waitall(2, requests, statuses));
        CHECK(memcmp(kept, requests, sizeof kept) == 0); /* the handles stay */
        SAME(statuses[0].MPI_SOURCE, previous);
        SAME(statuses[0].MPI_TAG, 3);
        OK(MPI_Get_count(&statuses[0], MPI_BYTE, &count));
        SAME(count, bytes);
        VERIFY(in, (size_t)bytes, seed(previous, round));
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    free(out);
    free(in);
}

static void modes(int bytes) {
    mode("send_init", MPI_Send_init, bytes);
    mode("ssend_init", MPI_Ssend_init, bytes);
    mode("rsend_init", MPI_Rsend_init, bytes);
}

static void check_empty(const MPI_Status *status) {
    int count = -1;
    SAME(status->MPI_SOURCE, MPI_ANY_SOURCE);
    SAME(status->MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Get_count(status, MPI_BYTE, &count));
    SAME(count, 0);
}

/* A request that was not started is over, and nothing comes of it. */
static void inactive(void) {
    int value = 0, flag = 0, index = 0, count = 0, indices[2];
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status, statuses[2];
    section("inactive requests");
    OK(MPI_Recv_init(&value, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &requests[0]));
    memset(&status, 1, sizeof status);
    OK(MPI_Wait(&requests[0], &status));
    check_empty(&status);
    OK(MPI_Test(&requests[0], &flag, &status));
    CHECK(flag);
    OK(MPI_Waitall(2, requests, statuses));
    check_empty(&statuses[0]);
    OK(MPI_Testall(2, requests, &flag, statuses));
    CHECK(flag);
    OK(MPI_Waitany(2, requests, &index, &status));
    SAME(index, MPI_UNDEFINED);
    flag = 0;
    OK(MPI_Testany(2, requests, &index, &flag, &status));
    CHECK(flag);
    SAME(index, MPI_UNDEFINED);
    OK(MPI_Waitsome(2, requests, &count, indices, statuses));
    SAME(count, MPI_UNDEFINED);
    OK(MPI_Testsome(2, requests, &count, indices, statuses));
    SAME(count, MPI_UNDEFINED);
    flag = 0;
    OK(MPI_Request_get_status(requests[0], &flag, &status));
    CHECK(flag);
    check_empty(&status);
    CHECK(requests[0] != MPI_REQUEST_NULL);
    OK(MPI_Request_free(&requests[0]));
}

/* Startall, and every way to wait; which of them are active changes from round to round. */
static void many(void) {
    int in[COUNT], out[COUNT], indices[COUNT], flag, index, count;
    MPI_Request receives[COUNT], sends[COUNT];
    MPI_Status statuses[COUNT];
    section("startall and every way to wait");
    for (int i = 0; i < COUNT; i++) {
        OK(MPI_Recv_init(&in[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, &receives[i]));
        OK(MPI_Send_init(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &sends[i]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        int active = 1 + round % COUNT, done = 0;
        for (int i = 0; i < COUNT; i++) out[i] = check_rank * 1000 + round * 10 + i, in[i] = -1;
        OK(MPI_Startall(active, receives));
        OK(MPI_Startall(active, sends));
        while (done < active) switch (round % 4) {
            case 0:
                OK(MPI_Waitany(COUNT, receives, &index, &statuses[0]));
                CHECK(index >= 0 && index < active);
                SAME(statuses[0].MPI_TAG, index);
                done++;
                break;
            case 1:
                OK(MPI_Testany(COUNT, receives, &index, &flag, &statuses[0]));
                if (flag) CHECK(index != MPI_UNDEFINED);
                done += flag;
                break;
            case 2:
                OK(MPI_Waitsome(COUNT, receives, &count, indices, statuses));
                for (int n = 0; n < count; n++) SAME(statuses[n].MPI_TAG, indices[n]);
                done += count;
                break;
            default:
                for (int i = 0; i < active; i++) {
                    OK(MPI_Wait(&receives[i], &statuses[i]));
                    SAME(statuses[i].MPI_TAG, i);
                }
                done = active;
        }
        OK(MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE));
        for (int i = 0; i < COUNT; i++) SAME(in[i], i < active ? previous * 1000 + round * 10 + i : -1);
    }
    for (int i = 0; i < COUNT; i++) {
        OK(MPI_Request_free(&receives[i]));
        OK(MPI_Request_free(&sends[i]));
    }
}

/* Columns of a matrix go out and come in; the type is freed before the request is started. */
static void layouts(void) {
    int out[6][4], in[6][4];
    MPI_Datatype column;
    MPI_Request requests[2];
    section("a datatype with gaps, freed after the init");
    OK(MPI_Type_vector(6, 1, 4, MPI_INT, &column));
    OK(MPI_Type_commit(&column));
    OK(MPI_Recv_init(&in[0][2], 1, column, previous, 5, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Send_init(&out[0][1], 1, column, next, 5, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Type_free(&column));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 4; j++) out[i][j] = check_rank * 10000 + round * 100 + i * 4 + j, in[i][j] = -1;
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 4; j++) SAME(in[i][j], j == 2 ? previous * 10000 + round * 100 + i * 4 + 1 : -1);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
}

static void buffered(void) {
    enum { BYTES = 3000 };
    unsigned char out[BYTES], in[BYTES];
    int room = 2 * (BYTES + MPI_BSEND_OVERHEAD), size = 0;
    void *memory = malloc((size_t)room), *detached = NULL;
    MPI_Request request;
    section("bsend_init");
    OK(MPI_Bsend_init(out, BYTES, MPI_BYTE, next, 6, MPI_COMM_WORLD, &request));
    CLASS(MPI_Start(&request), MPI_ERR_BUFFER); /* no buffer is attached */
    OK(MPI_Buffer_attach(memory, room));
    for (int round = 0; round < ROUNDS; round++) {
        fill(out, BYTES, seed(check_rank, round));
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        memset(out, 0, BYTES);
        OK(MPI_Recv(in, BYTES, MPI_BYTE, previous, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        VERIFY(in, BYTES, seed(previous, round));
        OK(MPI_Buffer_flush());
    }
    OK(MPI_Buffer_detach(&detached, &size));
    OK(MPI_Request_free(&request));
    free(memory);
}

static void nobody(void) {
    int value = -1, count = -1;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    section("MPI_PROC_NULL");
    OK(MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]));
    for (int round = 0; round < 2; round++) {
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, statuses));
        SAME(statuses[0].MPI_SOURCE, MPI_PROC_NULL);
        OK(MPI_Get_count(&statuses[0], MPI_INT, &count));
        SAME(count, 0);
    }
    SAME(value, -1);
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
}

/* The receive that was cancelled can be started again. */
static void cancelled(void) {
    int in = -1, out, flag = 0;
    MPI_Request request;
    MPI_Status status;
    section("cancel");
    OK(MPI_Recv_init(&in, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &request));
    STRICT_CLASS(MPI_Cancel(&request), MPI_ERR_REQUEST); /* nothing is under way */
    for (int round = 0; round < 3; round++) {
        OK(MPI_Start(&request));
        OK(MPI_Cancel(&request));
        OK(MPI_Wait(&request, &status));
        OK(MPI_Test_cancelled(&status, &flag));
        CHECK(flag);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Start(&request));
        out = round;
        OK(MPI_Send(&out, 1, MPI_INT, next, 7, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, &status));
        OK(MPI_Test_cancelled(&status, &flag));
        CHECK(!flag);
        SAME(in, round);
        SAME(status.MPI_SOURCE, previous);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Request_free(&request));
}

/* What is under way goes on to its end when its request is freed. */
static void freed(void) {
    enum { BYTES = 200000 };
    static unsigned char out[BYTES], in[BYTES];
    MPI_Request request;
    section("free of an active request");
    fill(out, BYTES, seed(check_rank, 1));
    OK(MPI_Send_init(out, BYTES, MPI_BYTE, next, 8, MPI_COMM_WORLD, &request));
    OK(MPI_Start(&request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Recv(in, BYTES, MPI_BYTE, previous, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    VERIFY(in, BYTES, seed(previous, 1));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* A message that is too long is an error of that round only. */
static void truncated(void) {
    int in[2] = {-1, -1}, out[2] = {1, 2};
    MPI_Request request;
    section("truncation");
    OK(MPI_Recv_init(in, 1, MPI_INT, previous, 9, MPI_COMM_WORLD, &request));
    OK(MPI_Start(&request));
    OK(MPI_Send(out, 2, MPI_INT, next, 9, MPI_COMM_WORLD));
    CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    SAME(in[1], -1);
    OK(MPI_Start(&request));
    OK(MPI_Send(out, 1, MPI_INT, next, 9, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(in[0], 1);
    OK(MPI_Request_free(&request));
}

static void wrong(void) {
    int value = 0;
    MPI_Datatype type;
    MPI_Request request = MPI_REQUEST_NULL, other, both[2];
    section("wrong arguments");
    CLASS(MPI_Send_init(&value, -1, MPI_INT, next, 1, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    CLASS(MPI_Ssend_init(&value, 1, MPI_INT, check_size, 1, MPI_COMM_WORLD, &request), MPI_ERR_RANK);
    CLASS(MPI_Rsend_init(&value, 1, MPI_INT, next, -5, MPI_COMM_WORLD, &request), MPI_ERR_TAG);
    CLASS(MPI_Bsend_init(&value, 1, MPI_DATATYPE_NULL, next, 1, MPI_COMM_WORLD, &request), MPI_ERR_TYPE);
    CLASS(MPI_Recv_init(&value, 1, MPI_INT, next, 1, MPI_COMM_NULL, &request), MPI_ERR_COMM);
    CLASS(MPI_Recv_init(NULL, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER);
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    CLASS(MPI_Recv_init(&value, 1, type, next, 1, MPI_COMM_WORLD, &request), MPI_ERR_TYPE);
    OK(MPI_Type_free(&type));
    CHECK(request == MPI_REQUEST_NULL);
    section("what cannot be started");
    CLASS(MPI_Start(NULL), MPI_ERR_ARG);
    CLASS(MPI_Start(&request), MPI_ERR_REQUEST);
    if (check_library_is("MPICH")) return;
    OK(MPI_Irecv(&value, 1, MPI_INT, previous, 10, MPI_COMM_WORLD, &other));
    CLASS(MPI_Start(&other), MPI_ERR_REQUEST);
    OK(MPI_Recv_init(&value, 1, MPI_INT, previous, 11, MPI_COMM_WORLD, &request));
    both[0] = request, both[1] = other;
    CLASS(MPI_Startall(2, both), MPI_ERR_REQUEST);
    OK(MPI_Start(&request));
    CLASS(MPI_Start(&request), MPI_ERR_REQUEST); /* active already */
    OK(MPI_Send(&check_rank, 1, MPI_INT, next, 11, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(value, previous);
    both[0] = request;
    OK(MPI_Request_free(&request));
    CLASS(MPI_Start(&both[0]), MPI_ERR_REQUEST); /* freed */
    CLASS(MPI_Request_free(&both[0]), MPI_ERR_REQUEST);
    CLASS(MPI_Wait(&both[0], MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    OK(MPI_Cancel(&other));
    OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
}

/* A handle as an integer leads back to the request. */
static void integers(void) {
    int value = 0;
    MPI_Request request;
    section("as an integer");
    if (check_library_is("MPICH")) return;
    OK(MPI_Recv_init(&value, 1, MPI_INT, previous, 12, MPI_COMM_WORLD, &request));
    CHECK(MPI_Request_fromint(MPI_Request_toint(request)) == request);
    OK(MPI_Request_free(&request));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    next = (check_rank + 1) % check_size;
    previous = (check_rank + check_size - 1) % check_size;
    modes(0);
    modes(100);
    modes(300000);
    inactive();
    many();
    layouts();
    buffered();
    nobody();
    cancelled();
    freed();
    truncated();
    wrong();
    integers();
    return check_close();
}
