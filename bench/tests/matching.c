// ranks: 1 2 3 8
// Which message goes to which receive: order, wildcards, tags, and probes of both kinds.
// (MPI 5.0, sections 3.5 and 3.8)
#include "check.h"

enum { BIG = 200000 };

static unsigned char *out, *in;

/* Everyone but rank 0 sends numbered messages of mixed sizes under one tag; rank 0 takes them from
 * anyone and finds each sender's in order. */
static void order_under_wildcards(void) {
    enum { EACH = 40 };
    section("order under wildcards");
    if (check_rank != 0) {
        for (int i = 0; i < EACH; i++) {
            int bytes = i % 4 == 3 ? BIG : 8 + i;
            fill(out, (size_t)bytes, (unsigned)(check_rank * 100 + i));
            OK(MPI_Send(out, bytes, MPI_BYTE, 0, i % 3, MPI_COMM_WORLD));
        }
        return;
    }
    int *next = calloc((size_t)check_size, sizeof *next);
    for (int n = 0; n < EACH * (check_size - 1); n++) {
        MPI_Status status;
        int bytes = -1;
        OK(MPI_Recv(in, BIG, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count(&status, MPI_BYTE, &bytes));
        CHECK(status.MPI_SOURCE > 0 && status.MPI_SOURCE < check_size);
        int i = next[status.MPI_SOURCE]++;
        SAME(status.MPI_TAG, i % 3);
        SAME(bytes, i % 4 == 3 ? BIG : 8 + i);
        VERIFY(in, (size_t)bytes, (unsigned)(status.MPI_SOURCE * 100 + i));
    }
    free(next);
}

/* Messages alternate between tiny and big; receives posted in order, some before the message and
 * some after, must get them in that order. */
static void order_across_sizes(int to, int from) {
    enum { COUNT = 12 };
    MPI_Request sends[COUNT], receives[COUNT];
    section("order across sizes");
    for (int i = 0; i < COUNT / 2; i++)
        OK(MPI_Irecv(in + i * BIG, BIG, MPI_BYTE, i % 2 ? from : MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &receives[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++) {
        fill(out + i * BIG, BIG, (unsigned)i);
        OK(MPI_Isend(out + i * BIG, i % 2 ? 16 : BIG, MPI_BYTE, to, 1, MPI_COMM_WORLD, &sends[i]));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = COUNT / 2; i < COUNT; i++)
        OK(MPI_Irecv(in + i * BIG, BIG, MPI_BYTE, from, i % 3 ? 1 : MPI_ANY_TAG, MPI_COMM_WORLD, &receives[i]));
    for (int i = COUNT - 1; i >= 0; i--) {
        MPI_Status status;
        int bytes = -1;
        OK(MPI_Wait(&receives[i], &status));
        OK(MPI_Get_count(&status, MPI_BYTE, &bytes));
        SAME(bytes, i % 2 ? 16 : BIG);
        VERIFY(in + i * BIG, (size_t)bytes, (unsigned)i);
    }
    OK(MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE));
}

/* Receives of different kinds that all fit: the one posted first wins. */
static void first_posted_wins(int to, int from) {
    static const struct { int any_source, any_tag; } KINDS[] = {{1, 1}, {0, 0}, {1, 0}, {0, 1}, {0, 0}, {1, 1}};
    enum { COUNT = sizeof KINDS / sizeof *KINDS };
    int got[COUNT];
    MPI_Request receives[COUNT];
    section("first posted wins");
    for (int i = 0; i < COUNT; i++)
        OK(MPI_Irecv(&got[i], 1, MPI_INT, KINDS[i].any_source ? MPI_ANY_SOURCE : from,
                     KINDS[i].any_tag ? MPI_ANY_TAG : 6, MPI_COMM_WORLD, &receives[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++) OK(MPI_Send(&i, 1, MPI_INT, to, 6, MPI_COMM_WORLD));
    OK(MPI_Waitall(COUNT, receives, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COUNT; i++) SAME(got[i], i);
}

/* Tags are picked in any order, the largest tag among them. */
static void tags_in_any_order(int to, int from) {
    int *tag_max = NULL, found = 0;
    section("tags in any order");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_max, &found));
    CHECK(found && *tag_max >= 32767);
    int tags[] = {0, 77, *tag_max, 5, 32767}, picks[] = {2, 0, 4, 3, 1};
    MPI_Request sends[5];
    for (int i = 0; i < 5; i++) OK(MPI_Isend(&tags[i], 1, MPI_INT, to, tags[i], MPI_COMM_WORLD, &sends[i]));
    for (int i = 0; i < 5; i++) {
        int got = -1, tag = tags[picks[i]];
        OK(MPI_Recv(&got, 1, MPI_INT, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        SAME(got, tag);
    }
    OK(MPI_Waitall(5, sends, MPI_STATUSES_IGNORE));
}

static void probes(int to, int from) {
    MPI_Status status;
    MPI_Request request;
    int flag = 1, count = -1;
    section("probe finds nothing");
    OK(MPI_Iprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &flag, &status));
    CHECK(!flag);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int bytes = 0; bytes <= BIG; bytes = bytes == 0 ? 1 : bytes == BIG ? BIG + 1 : bytes * 9 < BIG ? bytes * 9 : BIG) {
        section("probe");
        fill(out, (size_t)bytes, (unsigned)bytes);
        OK(MPI_Isend(out, bytes, MPI_BYTE, to, 3, MPI_COMM_WORLD, &request));
        OK(MPI_Probe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        SAME(status.MPI_SOURCE, from);
        SAME(status.MPI_TAG, 3);
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        SAME(count, bytes);
        section("iprobe");
        OK(MPI_Iprobe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &flag, &status));
        CHECK(!flag);
        while (!flag) OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
        SAME(status.MPI_SOURCE, from);
        OK(MPI_Recv(in, count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        VERIFY(in, (size_t)bytes, (unsigned)bytes);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
}

/* A matched message belongs to whoever holds it: a later receive gets the one behind it. */
static void matched_probes(int to, int from) {
    enum { COUNT = 4 };
    MPI_Request sends[COUNT];
    MPI_Message first = MPI_MESSAGE_NULL, second = MPI_MESSAGE_NULL;
    MPI_Status status;
    int flag = 0, count = -1;
    section("mprobe");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++) {
        fill(out + i * BIG, BIG, (unsigned)(40 + i));
        OK(MPI_Isend(out + i * BIG, i % 2 ? BIG : 100, MPI_BYTE, to, 8, MPI_COMM_WORLD, &sends[i]));
    }
    OK(MPI_Mprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &first, &status));
    CHECK(first != MPI_MESSAGE_NULL && first != MPI_MESSAGE_NO_PROC);
    SAME(status.MPI_SOURCE, from);
    while (!flag) OK(MPI_Improbe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &second, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    SAME(count, BIG);
    OK(MPI_Recv(in, BIG, MPI_BYTE, from, 8, MPI_COMM_WORLD, &status));
    VERIFY(in, 100, 42);
    MPI_Request receive;
    OK(MPI_Imrecv(in, BIG, MPI_BYTE, &second, &receive));
    CHECK(second == MPI_MESSAGE_NULL);
    OK(MPI_Wait(&receive, &status));
    SAME(status.MPI_TAG, 8);
    VERIFY(in, BIG, 41);
    OK(MPI_Mrecv(in, 100, MPI_BYTE, &first, &status));
    CHECK(first == MPI_MESSAGE_NULL);
    SAME(status.MPI_SOURCE, from);
    VERIFY(in, 100, 40);
    OK(MPI_Recv(in, BIG, MPI_BYTE, from, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    VERIFY(in, BIG, 43);
    OK(MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE));
}

static void matched_probe_of_nobody(void) {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    MPI_Request request;
    int flag = 0, count = -1;
    section("mprobe of MPI_PROC_NULL");
    OK(MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC);
    SAME(status.MPI_SOURCE, MPI_PROC_NULL);
    OK(MPI_Mrecv(in, 10, MPI_BYTE, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL);
    OK(MPI_Improbe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &message, &status));
    CHECK(flag && message == MPI_MESSAGE_NO_PROC);
    OK(MPI_Imrecv(in, 10, MPI_BYTE, &message, &request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    SAME(count, 0);
    SAME(status.MPI_SOURCE, MPI_PROC_NULL);
}

/* Many messages that nobody waits for yet, taken from the last tag to the first. */
static void flood(void) {
    enum { EACH = 1500, WORDS = 16 };
    section("flood of unexpected messages");
    long long words[WORDS] = {0};
    if (check_rank != 0) {
        MPI_Request requests[EACH];
        static long long sent[EACH];
        for (int i = 0; i < EACH; i++) {
            sent[i] = check_rank * 10000LL + i;
            OK(MPI_Isend(&sent[i], 1, MPI_LONG_LONG, 0, i, MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Waitall(EACH, requests, MPI_STATUSES_IGNORE));
        return;
    }
    for (int from = check_size - 1; from > 0; from--) {
        for (int i = EACH - 1; i >= 0; i--) {
            OK(MPI_Recv(words, WORDS, MPI_LONG_LONG, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            SAME(words[0], from * 10000LL + i);
        }
    }
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    out = malloc(12 * BIG);
    in = malloc(12 * BIG);
    order_under_wildcards();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    order_across_sizes(next, previous);
    first_posted_wins(next, previous);
    tags_in_any_order(next, previous);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    probes(next, previous);
    matched_probes(next, previous);
    matched_probe_of_nobody();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    flood();
    free(out);
    free(in);
    return check_close();
}
