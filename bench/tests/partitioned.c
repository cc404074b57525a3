// ranks: 1 2 3
// Partitioned communication: every pair of partition counts, partitions ready in any order and from several threads,
// each of which travels when it is ready; layouts with gaps; and what is no partition. (MPI 5.0, section 5)
#include "check.h"

#include <pthread.h>

enum { ROUNDS = 3, THREADS = 4 };

static int next, previous;
static unsigned dice = 12345;

static unsigned roll(unsigned below) {
    dice = dice * 1103515245u + 12345u;
    return (dice >> 16) % below;
}

static unsigned seed(int from, int round) { return (unsigned)(from * 17 + round * 5); }

static void shuffle(int *order, int count) {
    for (int i = 0; i < count; i++) order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int other = (int)roll((unsigned)i + 1), kept = order[i];
        order[i] = order[other], order[other] = kept;
    }
}

/* Waits until partition `partition` has arrived. */
static void arrive(MPI_Request request, int partition) {
    for (int flag = 0; !flag;) OK(MPI_Parrived(request, partition, &flag));
}

/* `total` bytes in `out_parts` partitions here and `in_parts` there; every second round is looked at in parts. */
static void ring(int out_parts, int in_parts, int total) {
    unsigned char *out = calloc(1, (size_t)total + 1), *in = malloc((size_t)total + 9);
    int *order = malloc((size_t)(out_parts + in_parts) * sizeof *order);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    OK(MPI_Psend_init(out, out_parts, total / out_parts, MPI_BYTE, next, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(in, in_parts, total / in_parts, MPI_BYTE, previous, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int round = 0; round < ROUNDS; round++) {
        int count = -1, flag = 0;
        memset(in, 0xee, (size_t)total + 8);
        OK(MPI_Startall(2, requests));
        OK(MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE));
        CHECK(!flag); /* nobody has said that anything is ready: see the barrier */
        OK(MPI_Barrier(MPI_COMM_WORLD));
        fill(out, (size_t)total, seed(check_rank, round));
        shuffle(order, out_parts);
        for (int i = 0; i < out_parts; i++) OK(MPI_Pready(order[i], requests[0]));
        if (round % 2 == 1) {
            shuffle(order, in_parts);
            for (int i = 0; i < in_parts; i++) {
                size_t bytes = (size_t)(total / in_parts), start = (size_t)order[i] * bytes;
                arrive(requests[1], order[i]);
                for (size_t at = start; at < start + bytes; at++) SAME(in[at], pattern(at, seed(previous, round)));
            }
        }
        OK(MPI_Waitall(2, requests, statuses));
        CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
        SAME(statuses[1].MPI_SOURCE, previous);
        SAME(statuses[1].MPI_TAG, 3);
        OK(MPI_Get_count(&statuses[1], MPI_BYTE, &count));
        SAME(count, total);
        VERIFY(in, (size_t)total, seed(previous, round));
        UNTOUCHED(in + total, 8, 0xee);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    free(out);
    free(in);
    free(order);
}

static void rings(void) {
    static const int parts[][2] = {{1, 1}, {1, 8}, {8, 1}, {6, 4}, {4, 6}, {32, 32}, {64, 12}};
    for (int i = 0; i < (int)(sizeof parts / sizeof *parts); i++) {
        section("a few bytes");
        ring(parts[i][0], parts[i][1], 192);
        section("kilobytes");
        ring(parts[i][0], parts[i][1], 192 * 100);
        section("megabytes");
        ring(parts[i][0], parts[i][1], 192 * 8000);
    }
    section("no bytes");
    ring(4, 4, 0);
}

/* A partition is there while others are not ready. */
static void one_by_one(void) {
    enum { PARTS = 8, EACH = 30000 };
    static unsigned char out[PARTS * EACH], in[PARTS * EACH];
    MPI_Request requests[2];
    section("a partition travels when it is ready");
    OK(MPI_Psend_init(out, PARTS, EACH, MPI_BYTE, next, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(in, PARTS, EACH, MPI_BYTE, previous, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int round = 0; round < ROUNDS; round++) {
        int flag = 1, last = PARTS - 1;
        OK(MPI_Startall(2, requests));
        fill(out, sizeof out, seed(check_rank, round));
        for (int i = 0; i < PARTS; i++) {
            OK(MPI_Pready(i, requests[0]));
            /* The others of the ring do the same, so that it comes without anybody waiting. */
            arrive(requests[1], i);
            for (size_t at = (size_t)i * EACH; at < (size_t)(i + 1) * EACH; at++)
                SAME(in[at], pattern(at, seed(previous, round)));
            if (i < last) {
                OK(MPI_Barrier(MPI_COMM_WORLD));
                OK(MPI_Parrived(requests[1], last, &flag));
                CHECK(!flag);
                OK(MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE));
                CHECK(!flag);
                OK(MPI_Barrier(MPI_COMM_WORLD));
            }
        }
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        OK(MPI_Parrived(requests[1], 0, &flag));
        CHECK(flag); /* inactive */
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
}

/* Operations with one tag are matched in the order in which they are described, and apart from messages. */
static void order(void) {
    enum { OPERATIONS = 4, PARTS = 3 };
    int out[OPERATIONS][PARTS], in[OPERATIONS][PARTS], plain = -1, sent = 77;
    MPI_Request sends[OPERATIONS], receives[OPERATIONS], request;
    MPI_Status status;
    section("matched in the order of their descriptions");
    for (int i = 0; i < OPERATIONS; i++) {
        int tag = i < 2 ? 5 : 6 + i % 2;
        OK(MPI_Psend_init(out[i], PARTS, 1, MPI_INT, next, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]));
    }
    for (int i = OPERATIONS - 1; i >= 0; i--) {
        int at = i < 2 ? 1 - i : i, tag = at < 2 ? 5 : 6 + at % 2;
        OK(MPI_Precv_init(in[at], PARTS, 1, MPI_INT, previous, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[at]));
    }
    OK(MPI_Irecv(&plain, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request));
    for (int i = 0; i < OPERATIONS; i++)
        for (int part = 0; part < PARTS; part++) out[i][part] = check_rank * 100 + i * 10 + part, in[i][part] = -1;
    for (int i = OPERATIONS - 1; i >= 0; i--) {
        OK(MPI_Start(&receives[i]));
        OK(MPI_Start(&sends[i]));
        OK(MPI_Pready_range(0, PARTS - 1, sends[i]));
    }
    OK(MPI_Waitall(OPERATIONS, receives, MPI_STATUSES_IGNORE));
    OK(MPI_Waitall(OPERATIONS, sends, MPI_STATUSES_IGNORE));
    for (int i = 0; i < OPERATIONS; i++)
        for (int part = 0; part < PARTS; part++) SAME(in[i][part], previous * 100 + i * 10 + part);
    SAME(plain, -1);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Send(&sent, 1, MPI_INT, next, 5, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, &status));
    SAME(plain, 77);
    SAME(status.MPI_TAG, 5);
    for (int i = 0; i < OPERATIONS; i++) {
        OK(MPI_Request_free(&sends[i]));
        OK(MPI_Request_free(&receives[i]));
    }
}

/* The receiver starts long after the sender is through. */
static void early(void) {
    enum { PARTS = 16, EACH = 64 };
    static unsigned char out[PARTS * EACH], in[PARTS * EACH];
    static const int list[] = {3, 9, 1};
    int rest[PARTS], count = 0;
    MPI_Request send, receive;
    section("sent before the receive is described");
    for (int i = 0; i < PARTS; i++)
        if (i != 3 && i != 9 && i != 1) rest[count++] = i;
    fill(out, sizeof out, 1);
    OK(MPI_Psend_init(out, PARTS, EACH, MPI_BYTE, next, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Start(&send));
    OK(MPI_Pready_list(3, list, send));
    OK(MPI_Pready_list(count, rest, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Precv_init(in, PARTS, EACH, MPI_BYTE, previous, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    OK(MPI_Start(&receive));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    VERIFY(in, sizeof in, 1);
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
}

/* Columns of a matrix, one a partition, on both sides in different layouts; what lies between is not touched. */
static void layouts(void) {
    enum { ROWS = 7, COLUMNS = 6 };
    int out[ROWS][COLUMNS], in[ROWS][COLUMNS], packed[COLUMNS / 2 * ROWS];
    MPI_Datatype column, columns;
    MPI_Request requests[2], other[2];
    section("a datatype with gaps");
    OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column));
    OK(MPI_Type_create_resized(column, 0, 2 * (MPI_Aint)sizeof(int), &columns)); /* every second column */
    OK(MPI_Type_commit(&columns));
    OK(MPI_Psend_init(out, COLUMNS / 2, 1, columns, next, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(&in[0][1], 1, COLUMNS / 2, columns, previous, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    OK(MPI_Psend_init(out, COLUMNS / 2, 1, columns, next, 10, MPI_COMM_WORLD, MPI_INFO_NULL, &other[0]));
    OK(MPI_Precv_init(packed, ROWS, COLUMNS / 2, MPI_INT, previous, 10, MPI_COMM_WORLD, MPI_INFO_NULL, &other[1]));
    OK(MPI_Type_free(&column));
    OK(MPI_Type_free(&columns));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++) out[i][j] = check_rank * 1000 + i * 10 + j + round, in[i][j] = -1;
        OK(MPI_Startall(2, requests));
        OK(MPI_Startall(2, other));
        OK(MPI_Pready_range(0, COLUMNS / 2 - 1, requests[0]));
        OK(MPI_Pready_range(0, COLUMNS / 2 - 1, other[0]));
        if (round == 1) arrive(requests[1], 0); /* then it is in its place already */
        if (round < 2) OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        else arrive(requests[1], 0);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++) SAME(in[i][j], j % 2 ? previous * 1000 + i * 10 + j - 1 + round : -1);
        arrive(other[1], ROWS - 1);
        OK(MPI_Waitall(2, other, MPI_STATUSES_IGNORE));
        for (int i = 0; i < ROWS * COLUMNS / 2; i++)
            SAME(packed[i], previous * 1000 + i % ROWS * 10 + i / ROWS * 2 + round);
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    for (int i = 0; i < 2; i++) {
        OK(MPI_Request_free(&requests[i]));
        OK(MPI_Request_free(&other[i]));
    }
}

struct work {
    MPI_Request request;
    unsigned char *out;
    int thread, parts, each, round;
};

static void *fill_some(void *argument) {
    struct work *work = argument;
    for (int part = work->thread; part < work->parts; part += THREADS) {
        for (int i = 0; i < work->each; i++) {
            size_t at = (size_t)part * (size_t)work->each + (size_t)i;
            work->out[at] = pattern(at, seed(check_rank, work->round));
        }
        OK(MPI_Pready(part, work->request));
    }
    return NULL;
}

static void threads(void) {
    enum { PARTS = 64, EACH = 3000 };
    static unsigned char out[PARTS * EACH], in[PARTS * EACH];
    MPI_Request requests[2];
    section("ready from several threads");
    OK(MPI_Psend_init(out, PARTS, EACH, MPI_BYTE, next, 11, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(in, PARTS / 4, EACH * 4, MPI_BYTE, previous, 11, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int round = 0; round < 10; round++) {
        pthread_t threads[THREADS];
        struct work works[THREADS];
        OK(MPI_Startall(2, requests));
        for (int i = 0; i < THREADS; i++) {
            works[i] = (struct work){requests[0], out, i, PARTS, EACH, round};
            CHECK(pthread_create(&threads[i], NULL, fill_some, &works[i]) == 0);
        }
        if (round % 2 == 0)
            for (int part = 0; part < PARTS / 4; part++) arrive(requests[1], part);
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
        VERIFY(in, sizeof in, seed(previous, round));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
}

static void nobody(void) {
    int value[2] = {-1, -1}, flag = 0;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    section("MPI_PROC_NULL");
    OK(MPI_Psend_init(value, 2, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(value, 2, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    OK(MPI_Startall(2, requests));
    OK(MPI_Pready_range(0, 1, requests[0]));
    OK(MPI_Parrived(requests[1], 1, &flag));
    CHECK(flag);
    OK(MPI_Waitall(2, requests, statuses));
    SAME(statuses[1].MPI_SOURCE, MPI_PROC_NULL);
    SAME(value[0], -1);
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    MPI_Datatype gaps;
    int spread[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    OK(MPI_Precv_init(spread, 2, 1, gaps, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    OK(MPI_Start(&requests[1]));
    OK(MPI_Parrived(requests[1], 0, &flag));
    SAME(flag, 1);
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    for (int i = 0; i < 8; i++) SAME(spread[i], i + 1);
    OK(MPI_Request_free(&requests[1]));
    OK(MPI_Type_free(&gaps));
}

/* The count is an MPI_Count: none of its bits is left out. */
static void long_counts(void) {
    int (*const send_init)(const void *, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request *) =
        MPI_Psend_init;
    int (*const receive_init)(void *, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request *) =
        MPI_Precv_init;
    const MPI_Count many = (MPI_Count)1 << 62;
    MPI_Request request = MPI_REQUEST_NULL;
    int value = 7;
    section("counts that no int holds");
    CLASS(send_init(&value, 1, many, MPI_INT, next, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_COUNT);
    CLASS(receive_init(&value, 1, many, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_COUNT);
    CHECK(request == MPI_REQUEST_NULL);
}

static void wrong(void) {
    int value[4] = {1, 2, 3, 4}, got[4], flag = 1;
    static const int list[] = {1, 9};
    MPI_Datatype type;
    MPI_Info none = MPI_INFO_NULL;
    MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL, plain;
    section("wrong arguments");
    CLASS(MPI_Psend_init(value, -1, 1, MPI_INT, next, 1, MPI_COMM_WORLD, none, &send), MPI_ERR_ARG);
    CLASS(MPI_Psend_init(value, 2, -1, MPI_INT, next, 1, MPI_COMM_WORLD, none, &send), MPI_ERR_COUNT);
    CLASS(MPI_Psend_init(value, 2, 1, MPI_INT, check_size, 1, MPI_COMM_WORLD, none, &send), MPI_ERR_RANK);
    CLASS(MPI_Psend_init(value, 2, 1, MPI_INT, next, -4, MPI_COMM_WORLD, none, &send), MPI_ERR_TAG);
    CLASS(MPI_Psend_init(value, 2, 1, MPI_DATATYPE_NULL, next, 1, MPI_COMM_WORLD, none, &send), MPI_ERR_TYPE);
    CLASS(MPI_Psend_init(NULL, 2, 1, MPI_INT, next, 1, MPI_COMM_WORLD, none, &send), MPI_ERR_BUFFER);
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    CLASS(MPI_Precv_init(got, 2, 1, type, previous, 1, MPI_COMM_WORLD, none, &receive), MPI_ERR_TYPE);
    OK(MPI_Type_free(&type));
    CLASS(MPI_Precv_init(got, 2, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, none, &receive), MPI_ERR_RANK);
    CLASS(MPI_Precv_init(got, 2, 1, MPI_INT, previous, MPI_ANY_TAG, MPI_COMM_WORLD, none, &receive), MPI_ERR_TAG);
    CLASS(MPI_Precv_init(got, 2, 1, MPI_INT, previous, 1, MPI_COMM_NULL, none, &receive), MPI_ERR_COMM);
    CHECK(send == MPI_REQUEST_NULL && receive == MPI_REQUEST_NULL);
    section("wrong partitions");
    OK(MPI_Psend_init(value, 4, 1, MPI_INT, next, 12, MPI_COMM_WORLD, none, &send));
    OK(MPI_Precv_init(got, 2, 2, MPI_INT, previous, 12, MPI_COMM_WORLD, none, &receive));
    CLASS(MPI_Pready(0, send), MPI_ERR_REQUEST); /* not started */
    OK(MPI_Start(&receive));
    OK(MPI_Start(&send));
    CLASS(MPI_Start(&send), MPI_ERR_REQUEST);
    CLASS(MPI_Pready(4, send), MPI_ERR_ARG);
    CLASS(MPI_Pready(-1, send), MPI_ERR_ARG);
    CLASS(MPI_Pready_range(2, 4, send), MPI_ERR_ARG);
    CLASS(MPI_Pready_range(2, 1, send), MPI_ERR_ARG);
    CLASS(MPI_Pready_list(2, list, send), MPI_ERR_ARG); /* and the first of them is not ready, either */
    CLASS(MPI_Pready_list(1, NULL, send), MPI_ERR_ARG);
    CLASS(MPI_Parrived(receive, 2, &flag), MPI_ERR_ARG);
    CLASS(MPI_Parrived(receive, -1, &flag), MPI_ERR_ARG);
    CLASS(MPI_Parrived(receive, 0, NULL), MPI_ERR_ARG);
    CLASS(MPI_Parrived(send, 0, &flag), MPI_ERR_REQUEST);
    CLASS(MPI_Pready(0, receive), MPI_ERR_REQUEST);
    OK(MPI_Pready(2, send));
    CLASS(MPI_Pready(2, send), MPI_ERR_ARG); /* twice */
    OK(MPI_Pready_range(0, 1, send));
    CLASS(MPI_Pready_range(0, 1, send), MPI_ERR_ARG);
    OK(MPI_Pready(3, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    for (int i = 0; i < 4; i++) SAME(got[i], i + 1);
    OK(MPI_Parrived(MPI_REQUEST_NULL, 0, &flag));
    CHECK(flag);
    CLASS(MPI_Pready(0, MPI_REQUEST_NULL), MPI_ERR_REQUEST);
    OK(MPI_Irecv(got, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &plain));
    CLASS(MPI_Pready(0, plain), MPI_ERR_REQUEST);
    CLASS(MPI_Parrived(plain, 0, &flag), MPI_ERR_REQUEST);
    OK(MPI_Cancel(&plain));
    OK(MPI_Wait(&plain, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    section("more than there is room for");
    OK(MPI_Psend_init(value, 4, 1, MPI_INT, next, 13, MPI_COMM_WORLD, none, &send));
    OK(MPI_Precv_init(got, 1, 3, MPI_INT, previous, 13, MPI_COMM_WORLD, none, &receive));
    memset(got, 0xee, sizeof got);
    OK(MPI_Start(&receive));
    OK(MPI_Start(&send));
    OK(MPI_Pready_range(0, 3, send));
    CLASS(MPI_Wait(&receive, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    UNTOUCHED(&got[3], sizeof got[3], 0xee);
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
}

/* A receive that expects more than is sent ends with an error when all of that has come: partitions to which nothing comes are
 * left alone. 2^32 + 3 elements are not 3. */
static void less_than_room(void) {
    enum { PARTS = 4, EACH = 2, SENT = 5, LONG = 300000 };
    static char out[SENT * LONG], in[PARTS * EACH * LONG];
    int numbers[SENT], spread[PARTS * EACH][2], flag, count;
    MPI_Datatype gapped;
    MPI_Request send, receive;
    MPI_Status status;
    section("less than there is room for");
    OK(MPI_Type_create_resized(MPI_INT, 0, sizeof spread[0], &gapped));
    OK(MPI_Type_commit(&gapped));
    OK(MPI_Psend_init(numbers, SENT, 1, MPI_INT, next, 15, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(spread, PARTS, EACH, gapped, previous, 15, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    for (int round = 0; round < ROUNDS; round++) {
        memset(spread, 0xee, sizeof spread);
        for (int i = 0; i < SENT; i++) numbers[i] = check_rank * 10 + i + round;
        OK(MPI_Start(&receive));
        OK(MPI_Start(&send));
        OK(MPI_Pready_range(0, SENT - 1, send));
        for (int part = PARTS - 1; part >= 0; part--)
            for (flag = 0; !flag;) OK(MPI_Parrived(receive, part, &flag));
        CLASS(MPI_Wait(&receive, &status), MPI_ERR_TYPE);
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        OK(MPI_Get_count(&status, gapped, &count));
        SAME(count, SENT);
        for (int i = 0; i < SENT; i++) {
            SAME(spread[i][0], previous * 10 + i + round);
            UNTOUCHED(&spread[i][1], sizeof spread[i][1], 0xee);
        }
        UNTOUCHED(spread[SENT], (PARTS * EACH - SENT) * sizeof spread[0], 0xee);
    }
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    OK(MPI_Type_free(&gapped));
    section("less than there is room for: where nothing comes");
    OK(MPI_Psend_init(out, SENT, LONG, MPI_BYTE, next, 16, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(in, PARTS, EACH * LONG, MPI_BYTE, previous, 16, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    for (int round = 0; round < ROUNDS; round++) {
        memset(in, 0xee, sizeof in);
        fill((unsigned char *)out, sizeof out, (unsigned)(check_rank + round));
        OK(MPI_Start(&receive));
        OK(MPI_Start(&send));
        OK(MPI_Pready_range(1, SENT - 1, send));
        OK(MPI_Barrier(MPI_COMM_WORLD)); /* how the sender divides its data is known by now */
        OK(MPI_Parrived(receive, PARTS - 1, &flag));
        CHECK(!flag);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Pready(0, send));
        for (flag = 0; !flag;) OK(MPI_Parrived(receive, PARTS - 1, &flag));
        VERIFY((unsigned char *)in, sizeof out, (unsigned)(previous + round));
        UNTOUCHED(in + sizeof out, sizeof in - sizeof out, 0xee);
        CLASS(MPI_Wait(&receive, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    section("less than is expected: 2^32 + 3 elements at one place");
    OK(MPI_Type_create_resized(MPI_BYTE, 0, 0, &gapped));
    OK(MPI_Type_commit(&gapped));
    OK(MPI_Psend_init(out, 1, 3, gapped, next, 17, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(in, 1, ((MPI_Count)1 << 32) + 3, gapped, previous, 17, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    OK(MPI_Start(&receive));
    OK(MPI_Start(&send));
    OK(MPI_Pready(0, send));
    CLASS(MPI_Wait(&receive, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    OK(MPI_Type_free(&gapped));
}

/* Many partitions of a few bytes, and operations that come and go. */
static void many(void) {
    enum { PARTS = 5000, OPERATIONS = 300 };
    static int out[PARTS], in[PARTS];
    MPI_Request requests[2];
    section("many partitions");
    OK(MPI_Psend_init(out, PARTS, 1, MPI_INT, next, 14, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(in, PARTS, 1, MPI_INT, previous, 14, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int round = 0; round < ROUNDS; round++) {
        OK(MPI_Startall(2, requests));
        for (int i = PARTS - 1; i >= 0; i--) {
            out[i] = i * 3 + round + check_rank;
            OK(MPI_Pready(i, requests[0]));
        }
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < PARTS; i++) SAME(in[i], i * 3 + round + previous);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    section("many operations");
    for (int i = 0; i < OPERATIONS; i++) {
        OK(MPI_Psend_init(out, 4, 1, MPI_INT, next, i % 7, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
        OK(MPI_Precv_init(in, 2, 2, MPI_INT, previous, i % 7, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
        for (int part = 0; part < 4; part++) out[part] = i + part;
        OK(MPI_Startall(2, requests));
        OK(MPI_Pready_range(0, 3, requests[0]));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        for (int part = 0; part < 4; part++) SAME(in[part], i + part);
        OK(MPI_Request_free(&requests[0]));
        OK(MPI_Request_free(&requests[1]));
    }
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    next = (check_rank + 1) % check_size;
    previous = (check_rank + check_size - 1) % check_size;
    rings();
    one_by_one();
    order();
    early();
    layouts();
    nobody();
    if (!check_library_is("MPICH")) long_counts();
    if (!check_library_is("MPICH")) wrong();
    if (!check_library_is("MPICH")) less_than_room();
    many();
    if (provided == MPI_THREAD_MULTIPLE) threads();
    return check_close();
}
