// ranks: 2 3 4 5 8 16
// Few bytes among ranks of a node go by lines that all of them see, from the fourth operation of a communicator on. Here
// operations follow one another in random order, with lengths around what such a line holds, with ranks that come late, with
// messages between, on more communicators than there are boards; and nobody leaves a barrier early. (MPI 5.0, chapter 6)
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <stdint.h>
#include <time.h>

enum { MOST = 5000, LARGE = 300000, COMMUNICATORS = 70 };

static int rank, size;
static unsigned drawn;

/* The same numbers at all ranks. */
static unsigned draw(unsigned below) {
    drawn = drawn * 1664525u + 1013904223u;
    return (drawn >> 8) % below;
}

static void pause_us(long microseconds) {
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

/* One rank in four operations or so comes late, sometimes by longer than the others look before they sleep. */
static void maybe_late(void) {
    unsigned who = draw(4 * (unsigned)size), how_long = draw(16);
    if (who == (unsigned)rank) pause_us(how_long == 0 ? 5000 : 100);
}

static unsigned char byte_of(int from, unsigned round, size_t at) {
    return (unsigned char)(31u * (unsigned)from + 7u * round + (unsigned)at * 13u);
}

static void put(unsigned char *to, int from, unsigned round, size_t bytes) {
    for (size_t at = 0; at < bytes; at++) to[at] = byte_of(from, round, at);
}

static void found(const unsigned char *got, int from, unsigned round, size_t bytes) {
    for (size_t at = 0; at < bytes; at++) SAME(got[at], byte_of(from, round, at));
}

static size_t any_length(void) {
    static const size_t lengths[] = {0, 1, 8, 48, 63, 64, 65, 200, 1000, 2048, 2159, 2160, 2161, 4097};
    return lengths[draw(sizeof lengths / sizeof *lengths)];
}

static void bcast(MPI_Comm comm, unsigned round) {
    static unsigned char data[MOST];
    int root = (int)draw((unsigned)size);
    size_t bytes = any_length();
    memset(data, 0, sizeof data);
    if (rank == root) put(data, root, round, bytes);
    maybe_late();
    OK(MPI_Bcast(data, (int)bytes, MPI_BYTE, root, comm));
    found(data, root, round, bytes);
    SAME(data[bytes], 0);
}

static void allgather(MPI_Comm comm, unsigned round) {
    static unsigned char mine[MOST], all[16 * MOST];
    size_t bytes = any_length();
    int in_place = (int)draw(2);
    memset(all, 0, sizeof all);
    put(in_place ? all + (size_t)rank * bytes : mine, rank, round, bytes);
    maybe_late();
    OK(MPI_Allgather(in_place ? MPI_IN_PLACE : mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, comm));
    for (int from = 0; from < size; from++) found(all + (size_t)from * bytes, from, round, bytes);
    SAME(all[(size_t)size * bytes], 0);
}

/* Blocks of one length for all, or of half that for ranks in between. */
static size_t part_of(int of, size_t bytes, int is_even) { return is_even || of % 3 ? bytes : bytes / 2; }

static void allgatherv(MPI_Comm comm, unsigned round) {
    static unsigned char mine[MOST], all[16 * MOST];
    size_t bytes = any_length();
    int in_place = (int)draw(2), lengths[16], places[16];
    /* Backwards, and with a gap of a byte behind each. */
    for (int from = size, at = 0; from-- > 0; at += lengths[from] + 1) {
        lengths[from] = (int)part_of(from, bytes, 0);
        places[from] = at;
    }
    memset(all, 0, sizeof all);
    put(in_place ? all + places[rank] : mine, rank, round, (size_t)lengths[rank]);
    maybe_late();
    OK(MPI_Allgatherv(in_place ? MPI_IN_PLACE : mine, lengths[rank], MPI_BYTE, all, lengths, places, MPI_BYTE, comm));
    for (int from = 0; from < size; from++) {
        found(all + places[from], from, round, (size_t)lengths[from]);
        SAME(all[places[from] + lengths[from]], 0);
    }
}

static void gather(MPI_Comm comm, unsigned round) {
    static unsigned char mine[MOST], all[16 * MOST];
    int root = (int)draw((unsigned)size), in_place = (int)draw(2) && rank == root;
    size_t bytes = any_length();
    memset(all, 0, sizeof all);
    put(in_place ? all + (size_t)rank * bytes : mine, rank, round, bytes);
    maybe_late();
    OK(MPI_Gather(in_place ? MPI_IN_PLACE : mine, (int)bytes, MPI_BYTE, rank == root ? all : NULL, (int)bytes, MPI_BYTE,
                  root, comm));
    for (int from = 0; from < size && rank == root; from++) found(all + (size_t)from * bytes, from, round, bytes);
    SAME(all[(size_t)size * bytes], 0);
}

/* A block for `to` of `from`. */
static int between(int from, int to) { return 16 * from + to; }

static void scatter(MPI_Comm comm, unsigned round) {
    static unsigned char mine[MOST], all[16 * MOST];
    int root = (int)draw((unsigned)size), in_place = (int)draw(2) && rank == root;
    size_t bytes = any_length();
    memset(mine, 0, sizeof mine);
    for (int to = 0; to < size; to++) put(all + (size_t)to * bytes, between(root, to), round, bytes);
    maybe_late();
    OK(MPI_Scatter(rank == root ? all : NULL, (int)bytes, MPI_BYTE, in_place ? MPI_IN_PLACE : mine, (int)bytes, MPI_BYTE,
                   root, comm));
    if (!in_place) found(mine, between(root, rank), round, bytes);
    SAME(mine[in_place ? 0 : bytes], 0);
}

static void alltoall(MPI_Comm comm, unsigned round) {
    static unsigned char out[16 * MOST], in[16 * MOST];
    size_t bytes = any_length();
    int in_place = (int)draw(2);
    memset(in, 0, sizeof in);
    for (int to = 0; to < size; to++) put((in_place ? in : out) + (size_t)to * bytes, between(rank, to), round, bytes);
    maybe_late();
    OK(MPI_Alltoall(in_place ? MPI_IN_PLACE : out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, comm));
    for (int from = 0; from < size; from++) found(in + (size_t)from * bytes, between(from, rank), round, bytes);
    SAME(in[(size_t)size * bytes], 0);
}

/* What one rank gives another in the operations with lists: pairs know their own lengths alone, so some go by lines and others
 * by messages at a time. Backwards at even ranks, and with a gap of a byte behind each. */
static int pair_bytes(int from, int to, const size_t *lengths) { return (int)lengths[(from * 3 + to * 5) % 4]; }

struct list {
    int counts[16], places[16], end;
};

static struct list list_of(const size_t *lengths, int gives) {
    struct list list = {.end = 0};
    for (int i = 0; i < size; i++) {
        int other = rank % 2 ? i : size - 1 - i;
        list.counts[other] = gives ? pair_bytes(rank, other, lengths) : pair_bytes(other, rank, lengths);
        list.places[other] = list.end;
        list.end += list.counts[other] + 1;
    }
    return list;
}

static void any_lengths(size_t lengths[4]) {
    for (int i = 0; i < 4; i++) lengths[i] = any_length();
    if (draw(2)) lengths[1] = lengths[2] = lengths[3] = lengths[0];
}

static void gatherv(MPI_Comm comm, unsigned round) {
    static unsigned char mine[MOST], all[16 * (MOST + 1)];
    int root = (int)draw((unsigned)size), at_root = rank == root, in_place = (int)draw(2) && at_root;
    size_t lengths[4];
    any_lengths(lengths);
    struct list list = {.end = 0};
    for (int from = size; at_root && from-- > 0; list.end += list.counts[from] + 1) {
        list.counts[from] = pair_bytes(from, root, lengths);
        list.places[from] = list.end;
    }
    int bytes = pair_bytes(rank, root, lengths);
    memset(all, 0, sizeof all);
    put(in_place ? all + list.places[rank] : mine, rank, round, (size_t)bytes);
    maybe_late();
    OK(MPI_Gatherv(in_place ? MPI_IN_PLACE : mine, bytes, MPI_BYTE, at_root ? all : NULL, list.counts, list.places,
                   MPI_BYTE, root, comm));
    for (int from = 0; from < size && at_root; from++) {
        found(all + list.places[from], from, round, (size_t)list.counts[from]);
        SAME(all[list.places[from] + list.counts[from]], 0);
    }
}

static void scatterv(MPI_Comm comm, unsigned round) {
    static unsigned char mine[MOST + 1], all[16 * (MOST + 1)];
    int root = (int)draw((unsigned)size), at_root = rank == root, in_place = (int)draw(2) && at_root;
    size_t lengths[4];
    any_lengths(lengths);
    struct list list = at_root ? list_of(lengths, 1) : (struct list){.end = 0};
    int bytes = pair_bytes(root, rank, lengths);
    memset(mine, 0, sizeof mine);
    for (int to = 0; to < size && at_root; to++)
        put(all + list.places[to], between(root, to), round, (size_t)list.counts[to]);
    maybe_late();
    OK(MPI_Scatterv(at_root ? all : NULL, list.counts, list.places, MPI_BYTE, in_place ? MPI_IN_PLACE : mine, bytes, MPI_BYTE,
                    root, comm));
    if (!in_place) found(mine, between(root, rank), round, (size_t)bytes);
    SAME(mine[in_place ? 0 : bytes], 0);
}

/* In place, what goes to a rank is as long as what comes from it. */
static void alltoallv(MPI_Comm comm, unsigned round) {
    static unsigned char out[16 * (MOST + 1)], in[16 * (MOST + 1)];
    MPI_Datatype types[16];
    int in_place = (int)draw(2), with_types = (int)draw(2);
    size_t lengths[4];
    any_lengths(lengths);
    if (in_place) lengths[1] = lengths[2] = lengths[3] = lengths[0];
    struct list sends = list_of(lengths, 1), receives = list_of(lengths, 0);
    memset(in, 0, sizeof in);
    for (int to = 0; to < size; to++) {
        types[to] = MPI_BYTE;
        put(in_place ? in + receives.places[to] : out + sends.places[to], between(rank, to), round, (size_t)sends.counts[to]);
    }
    const void *given = in_place ? MPI_IN_PLACE : out;
    maybe_late();
    if (with_types)
        OK(MPI_Alltoallw(given, sends.counts, sends.places, types, in, receives.counts, receives.places, types, comm));
    else OK(MPI_Alltoallv(given, sends.counts, sends.places, MPI_BYTE, in, receives.counts, receives.places, MPI_BYTE, comm));
    for (int from = 0; from < size; from++) {
        found(in + receives.places[from], between(from, rank), round, (size_t)receives.counts[from]);
        SAME(in[receives.places[from] + receives.counts[from]], 0);
    }
}

/* x -> a x + b, modulo a prime: composed in another order they are another function. */
struct line {
    int64_t a, b;
};
static const int64_t PRIME = 1000003;

static struct line line_of(int from, unsigned round, int at) {
    return (struct line){2 + (from * 5 + (int)round + at) % 11, (from * 17 + at) % 101};
}

static struct line after(struct line first, struct line then) {
    return (struct line){first.a * then.a % PRIME, (first.b * then.a + then.b) % PRIME};
}

static void compose(void *left, void *right, int *count, MPI_Datatype *datatype) {
    struct line *first = left, *then = right;
    (void)datatype;
    for (int i = 0; i < *count; i++) then[i] = after(first[i], then[i]);
}

static MPI_Datatype line_type;
static MPI_Op composing;

/* The composition of the ranks from the first one to before another. */
static struct line composed(int end, unsigned round, int at) {
    struct line all = line_of(0, round, at);
    for (int from = 1; from < end; from++) all = after(all, line_of(from, round, at));
    return all;
}

static void allreduce_in_order(MPI_Comm comm, unsigned round) {
    struct line mine[100], all[100];
    int count = 1 + (int)draw(100), in_place = (int)draw(2);
    for (int i = 0; i < count; i++) (in_place ? all : mine)[i] = line_of(rank, round, i);
    maybe_late();
    OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : mine, all, count, line_type, composing, comm));
    for (int i = 0; i < count; i++) {
        struct line right = composed(size, round, i);
        SAME(all[i].a, right.a);
        SAME(all[i].b, right.b);
    }
}

/* A described operation, which goes by messages: begins it, and waits for its end. */
static void end_planned(MPI_Request request) {
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&request));
}

/* Sums that round: all ranks have the same bits, and the same as whoever adds in another way of the library's. */
static void allreduce_rounding(MPI_Comm comm, unsigned round) {
    double mine[300], all[300], again[300];
    int count = 1 + (int)draw(300);
    for (int i = 0; i < count; i++) mine[i] = 1.0 / (1 + rank + (int)round + i) * (i % 2 ? 1e9 : 1);
    maybe_late();
    OK(MPI_Allreduce(mine, all, count, MPI_DOUBLE, MPI_SUM, comm));
    if (round % 8 == 0 && count * 8 * size <= 8192) {
        MPI_Request request;
        OK(MPI_Allreduce_init(mine, again, count, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &request));
        end_planned(request);
        CHECK(memcmp(all, again, (size_t)count * sizeof *all) == 0);
    }
    memcpy(again, all, sizeof all);
    OK(MPI_Bcast(again, count, MPI_DOUBLE, 0, comm));
    CHECK(memcmp(all, again, (size_t)count * sizeof *all) == 0);
}

static void scan_in_order(MPI_Comm comm, unsigned round) {
    struct line mine[100], all[100];
    int count = 1 + (int)draw(100), in_place = (int)draw(2), exclusive = (int)draw(2);
    for (int i = 0; i < count; i++) mine[i] = all[i] = line_of(rank, round, i);
    maybe_late();
    /* The first rank gets nothing, and need not say where. */
    void *room = exclusive && !in_place && rank == 0 && round % 2 ? NULL : all;
    if (exclusive) OK(MPI_Exscan(in_place ? MPI_IN_PLACE : mine, room, count, line_type, composing, comm));
    else OK(MPI_Scan(in_place ? MPI_IN_PLACE : mine, all, count, line_type, composing, comm));
    for (int i = 0; i < count; i++) {
        /* An exclusive scan leaves what the first rank has as it is. */
        struct line right = composed(exclusive && rank > 0 ? rank : rank + 1, round, i);
        SAME(all[i].a, right.a);
        SAME(all[i].b, right.b);
    }
}

/* The blocks of a reduce-scatter: all of one length, or different ones. */
static void reduce_scatter(MPI_Comm comm, unsigned round) {
    static int64_t mine[16 * 300], all[16 * 300];
    int most = 1 + (int)draw(300), is_even = (int)draw(2), in_place = (int)draw(2), counts[16], first = 0, end = 0;
    for (int to = 0; to < size; to++) {
        counts[to] = (int)part_of(to, (size_t)most, is_even);
        first += to < rank ? counts[to] : 0;
        end += counts[to];
    }
    for (int i = 0; i < end; i++) mine[i] = (int64_t)(rank + 1) * (i + (int)round);
    memset(all, 0, sizeof all);
    if (in_place) memcpy(all, mine, (size_t)end * sizeof *all);
    const void *given = in_place ? MPI_IN_PLACE : mine;
    maybe_late();
    if (is_even) OK(MPI_Reduce_scatter_block(given, all, most, MPI_INT64_T, MPI_SUM, comm));
    else OK(MPI_Reduce_scatter(given, all, counts, MPI_INT64_T, MPI_SUM, comm));
    for (int i = 0; i < counts[rank]; i++) SAME(all[i], (int64_t)size * (size + 1) / 2 * (first + i + (int)round));
    /* What is behind it stays as it is. */
    for (int i = counts[rank]; i < end; i++) SAME(all[i], in_place ? mine[i] : 0);
}

/* Sums that round, by rank: the same bits as those that were described, which go by messages. */
static void sums_rounding(MPI_Comm comm, unsigned round) {
    double mine[16 * 60], now[60] = {0}, planned[60] = {0};
    int count = 1 + (int)draw(60);
    if (count * 8 * size > 2160) count = 2160 / 8 / size;
    for (int i = 0; i < count * size; i++) mine[i] = 1.0 / (1 + rank + (int)round + i) * (i % 2 ? 1e9 : 1);
    MPI_Request request = MPI_REQUEST_NULL;
    switch (draw(3)) {
    case 0:
        OK(MPI_Scan(mine, now, count, MPI_DOUBLE, MPI_SUM, comm));
        OK(MPI_Scan_init(mine, planned, count, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &request));
        break;
    case 1:
        OK(MPI_Exscan(mine, now, count, MPI_DOUBLE, MPI_SUM, comm));
        OK(MPI_Exscan_init(mine, planned, count, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &request));
        break;
    default:
        if (size > 2) return;
        OK(MPI_Reduce_scatter_block(mine, now, count, MPI_DOUBLE, MPI_SUM, comm));
        OK(MPI_Reduce_scatter_block_init(mine, planned, count, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &request));
    }
    end_planned(request);
    CHECK(memcmp(now, planned, sizeof now) == 0);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void barrier(MPI_Comm comm) {
    double mine[2], most[2];
    maybe_late();
    mine[0] = now();
    OK(MPI_Barrier(comm));
    mine[1] = -now();
    OK(MPI_Allreduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, comm));
    CHECK(most[0] <= -most[1]);
}

static void any_operation(MPI_Comm comm, unsigned round) {
    switch (draw(16)) {
    case 0: return barrier(comm);
    case 1: return allgather(comm, round);
    case 2: return allreduce_in_order(comm, round);
    case 3: return allreduce_rounding(comm, round);
    case 4: return allgatherv(comm, round);
    case 5: return gather(comm, round);
    case 6: return scatter(comm, round);
    case 7: return alltoall(comm, round);
    case 8: return scan_in_order(comm, round);
    case 9: return reduce_scatter(comm, round);
    case 10: return sums_rounding(comm, round);
    case 11: return gatherv(comm, round);
    case 12: return scatterv(comm, round);
    case 13: return alltoallv(comm, round);
    default: return bcast(comm, round);
    }
}

/* A root that is far ahead of the others waits before it writes over what they have not read. */
static void floods(MPI_Comm comm) {
    int64_t value = 0;
    for (int i = 0; i < 3000; i++) {
        if (rank != i / 1000 % size && i % 500 == 250) pause_us(i % 1000 == 250 ? 20000 : 300);
        if (rank == i / 1000 % size) value = i * 3;
        OK(MPI_Bcast(&value, 1, MPI_INT64_T, i / 1000 % size, comm));
        SAME(value, i * 3);
    }
}

/* A message that is begun before operations, and one that needs its sender to look at messages while it waits in them. */
static void messages_between(MPI_Comm comm) {
    static unsigned char out[LARGE], in[LARGE];
    MPI_Request requests[2];
    int ahead = (rank + 1) % size, behind = (rank + size - 1) % size;
    put(out, rank, 1, LARGE);
    OK(MPI_Isend(out, LARGE, MPI_BYTE, ahead, 5, comm, &requests[0]));
    for (unsigned round = 0; round < 20; round++) any_operation(comm, round);
    OK(MPI_Irecv(in, LARGE, MPI_BYTE, behind, 5, comm, &requests[1]));
    for (unsigned round = 0; round < 20; round++) any_operation(comm, round);
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    found(in, behind, 1, LARGE);
    /* Rank 0 waits for rank 1 in a barrier, and rank 1 for rank 0's message before it comes there. */
    if (rank == 1) OK(MPI_Recv(in, LARGE, MPI_BYTE, 0, 6, comm, MPI_STATUS_IGNORE));
    if (rank == 0) OK(MPI_Isend(out, LARGE, MPI_BYTE, 1, 6, comm, &requests[0]));
    OK(MPI_Barrier(comm));
    if (rank == 0) OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    if (rank == 1) found(in, 0, 1, LARGE);
}

static void many_communicators(void) {
    static MPI_Comm comms[COMMUNICATORS];
    for (int time = 0; time < 3; time++) {
        for (int i = 0; i < COMMUNICATORS; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        for (unsigned round = 0; round < 400; round++) any_operation(comms[draw(COMMUNICATORS)], round);
        for (int i = 0; i < COMMUNICATORS; i++) OK(MPI_Comm_free(&comms[i]));
    }
}

/* The ranks of a part are others there, and both parts go on at the same time. */
static void parts(void) {
    MPI_Comm part;
    int world_rank = rank, world_size = size;
    unsigned before = drawn;
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part));
    OK(MPI_Comm_rank(part, &rank));
    OK(MPI_Comm_size(part, &size));
    for (unsigned round = 0; round < 100; round++) any_operation(part, round);
    OK(MPI_Comm_free(&part));
    rank = world_rank, size = world_size, drawn = before;
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    rank = check_rank, size = check_size;
    OK(MPI_Type_contiguous(2, MPI_INT64_T, &line_type));
    OK(MPI_Type_commit(&line_type));
    OK(MPI_Op_create(compose, 0, &composing));
    section("operations in any order");
    for (unsigned round = 0; round < 1200; round++) any_operation(MPI_COMM_WORLD, round);
    section("a root ahead");
    floods(MPI_COMM_WORLD);
    section("messages between");
    messages_between(MPI_COMM_WORLD);
    section("many communicators");
    many_communicators();
    section("parts");
    parts();
    OK(MPI_Op_free(&composing));
    OK(MPI_Type_free(&line_type));
    return check_close();
}
