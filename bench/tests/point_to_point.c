// ranks: 1 2 3 8
// Blocking and nonblocking sends and receives in every mode, of every size from nothing to 16 MiB,
// to others and to oneself, and to MPI_PROC_NULL. (MPI 5.0, sections 3.2 to 3.4, 3.7, 3.10, 3.11)
#include "check.h"

enum { MANY = 24, LARGE = 16 << 20 };

static const int SIZES[] = {0, 1, 7, 8, 9, 63, 64, 65, 1000, 4095, 4096, 4097, 8192, 20000, 65536, 65537, 300001, 1 << 20};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

static unsigned char *out, *in;

static unsigned seed(int from, int to, int number) {
    return (unsigned)(from * 31 + to * 7 + number);
}

static void check_status(const MPI_Status *status, int source, int tag, int bytes) {
    int count = -1;
    SAME(status->MPI_SOURCE, source);
    SAME(status->MPI_TAG, tag);
    OK(MPI_Get_count(status, MPI_BYTE, &count));
    SAME(count, bytes);
}

typedef int (*send_function)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int (*isend_function)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

/* Round the ring; the receive is posted before, and the barrier makes a ready send legal. */
static void blocking_mode(const char *name, send_function send) {
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    section(name);
    for (int i = 0; i < SIZE_COUNT; i++) {
        MPI_Request request;
        MPI_Status status;
        fill(out, (size_t)SIZES[i], seed(check_rank, next, i));
        memset(in, 0xee, (size_t)SIZES[i] + 8);
        OK(MPI_Irecv(in, SIZES[i], MPI_BYTE, previous, i, MPI_COMM_WORLD, &request));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(send(out, SIZES[i], MPI_BYTE, next, i, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, &status));
        CHECK(request == MPI_REQUEST_NULL);
        check_status(&status, previous, i, SIZES[i]);
        VERIFY(in, (size_t)SIZES[i], seed(previous, check_rank, i));
        UNTOUCHED(in + SIZES[i], 8, 0xee);
    }
}

/* Pairs, the receive not yet posted when the send begins; and a receive with room to spare. */
static void blocking_pairs(void) {
    int partner = check_rank ^ 1;
    section("blocking pairs");
    if (partner >= check_size) return;
    for (int i = 0; i < SIZE_COUNT; i++) {
        MPI_Status status;
        fill(out, (size_t)SIZES[i], seed(check_rank, partner, i));
        if (check_rank < partner) OK(MPI_Send(out, SIZES[i], MPI_BYTE, partner, 5, MPI_COMM_WORLD));
        memset(in, 0xee, (size_t)SIZES[i] + 100);
        OK(MPI_Recv(in, SIZES[i] + 100, MPI_BYTE, partner, 5, MPI_COMM_WORLD, &status));
        check_status(&status, partner, 5, SIZES[i]);
        VERIFY(in, (size_t)SIZES[i], seed(partner, check_rank, i));
        UNTOUCHED(in + SIZES[i], 100, 0xee);
        if (check_rank > partner) OK(MPI_Send(out, SIZES[i], MPI_BYTE, partner, 5, MPI_COMM_WORLD));
    }
}

/* Everybody to everybody, oneself included, many at once; half of the receives come late. */
static void nonblocking_mode(const char *name, isend_function isend, int posted_first) {
    enum { BYTES = 3000 };
    MPI_Request requests[2 * MANY];
    MPI_Status statuses[2 * MANY];
    int n = 0;
    section(name);
    for (int shift = 0; shift < check_size; shift++) {
        int to = (check_rank + shift) % check_size, from = (check_rank + check_size - shift) % check_size;
        n = 0;
        for (int i = 0; i < MANY; i++) fill(out + i * BYTES, BYTES, seed(check_rank, to, i));
        memset(in, 0, MANY * BYTES);
        for (int i = 0; i < MANY; i += posted_first ? 1 : 2, n++)
            OK(MPI_Irecv(in + i * BYTES, BYTES, MPI_BYTE, from, i, MPI_COMM_WORLD, &requests[n]));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < MANY; i++, n++)
            OK(isend(out + i * BYTES, BYTES, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[n]));
        if (!posted_first)
            for (int i = MANY - 1; i > 0; i -= 2, n++)
                OK(MPI_Irecv(in + i * BYTES, BYTES, MPI_BYTE, from, i, MPI_COMM_WORLD, &requests[n]));
        SAME(n, 2 * MANY);
        OK(MPI_Waitall(n, requests, statuses));
        for (int i = 0; i < n; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
        for (int i = 0; i < MANY; i++) VERIFY(in + i * BYTES, BYTES, seed(from, check_rank, i));
    }
}

static void exchange(void) {
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    MPI_Status status;
    section("sendrecv");
    for (int i = 0; i < SIZE_COUNT; i++) {
        fill(out, (size_t)SIZES[i], seed(check_rank, next, i));
        OK(MPI_Sendrecv(out, SIZES[i], MPI_BYTE, next, 3, in, SIZES[i], MPI_BYTE, previous, 3, MPI_COMM_WORLD, &status));
        check_status(&status, previous, 3, SIZES[i]);
        VERIFY(in, (size_t)SIZES[i], seed(previous, check_rank, i));
    }
    section("sendrecv_replace");
    for (int i = 0; i < SIZE_COUNT; i++) {
        fill(in, (size_t)SIZES[i], seed(check_rank, previous, i));
        OK(MPI_Sendrecv_replace(in, SIZES[i], MPI_BYTE, previous, 4, next, 4, MPI_COMM_WORLD, &status));
        check_status(&status, next, 4, SIZES[i]);
        VERIFY(in, (size_t)SIZES[i], seed(next, check_rank, i));
    }
}

static void nobody(void) {
    int count = -1, flag = 0;
    MPI_Status status;
    MPI_Request request;
    section("MPI_PROC_NULL");
    memset(in, 0xee, 16);
    OK(MPI_Send(out, 16, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    OK(MPI_Ssend(out, 16, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    OK(MPI_Isend(out, 16, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Recv(in, 16, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status));
    check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Irecv(in, 16, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, &status));
    check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status));
    check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Iprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &status));
    CHECK(flag);
    OK(MPI_Sendrecv(out, 16, MPI_BYTE, MPI_PROC_NULL, 1, in, 16, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    SAME(count, 0);
    UNTOUCHED(in, 16, 0xee);
}

static void no_bytes(void) {
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    MPI_Status status;
    MPI_Request request;
    section("zero size, null buffers");
    OK(MPI_Irecv(NULL, 0, MPI_INT, previous, 9, MPI_COMM_WORLD, &request));
    OK(MPI_Send(NULL, 0, MPI_INT, next, 9, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, &status));
    check_status(&status, previous, 9, 0);
}

/* Posted, then unexpected, then both ways at once. */
static void large(void) {
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    MPI_Request requests[2];
    section("16 MiB, posted");
    fill(out, LARGE, seed(check_rank, next, 1));
    OK(MPI_Irecv(in, LARGE, MPI_BYTE, previous, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Send(out, LARGE, MPI_BYTE, next, 1, MPI_COMM_WORLD));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    VERIFY(in, LARGE, seed(previous, check_rank, 1));
    section("16 MiB, unexpected");
    memset(in, 0, LARGE);
    OK(MPI_Isend(out, LARGE, MPI_BYTE, next, 2, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Recv(in, LARGE, MPI_BYTE, previous, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    VERIFY(in, LARGE, seed(previous, check_rank, 1));
}

/* A message that is longer than the receive: the class, the bytes beyond, and what comes after. */
static void truncated(int bytes, int room) {
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    memset(in, 0xee, (size_t)bytes);
    fill(out, (size_t)bytes, 1);
    OK(MPI_Isend(out, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD, &requests[0]));
    CLASS(MPI_Recv(in, room, MPI_BYTE, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    UNTOUCHED(in + room, (size_t)(bytes - room), 0xee);
    OK(MPI_Irecv(in, room, MPI_BYTE, previous, 2, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(out, bytes, MPI_BYTE, next, 2, MPI_COMM_WORLD, &requests[1]));
    CLASS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    CLASS(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE);
    if (statuses[1].MPI_ERROR == MPI_ERR_PENDING) OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    else OK(statuses[1].MPI_ERROR);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    UNTOUCHED(in + room, (size_t)(bytes - room), 0xee);
    OK(MPI_Sendrecv(out, bytes, MPI_BYTE, next, 3, in, bytes, MPI_BYTE, previous, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    VERIFY(in, (size_t)bytes, 1);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    out = malloc(LARGE);
    in = malloc(LARGE + 128);
    blocking_mode("send", MPI_Send);
    blocking_mode("ssend", MPI_Ssend);
    blocking_mode("rsend", MPI_Rsend);
    blocking_pairs();
    nonblocking_mode("isend", MPI_Isend, 0);
    nonblocking_mode("issend", MPI_Issend, 0);
    nonblocking_mode("irsend", MPI_Irsend, 1);
    exchange();
    nobody();
    no_bytes();
    large();
    section("truncation");
    truncated(100, 40);
    truncated(8, 0);
    truncated(1 << 20, 1000);
    free(out);
    free(in);
    return check_close();
}
