// ranks: 2 3 4 5 8
// launch: --ft
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// Communicators that keep the places of dead ranks (BLANK): what all members do together, rule by rule. Rank 1 dies, and of
// four or more the last one, too; of two only one is left.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { RANKS_MAX = 16, TAG = 7, UNTOUCHED = -77, LONG = 100000 };

static int live[RANKS_MAX], lives;   /* the living ranks of the communicator at hand, in ascending order */
static int rank, size;
static MPI_Comm comm;

static int is_live(int which) {
    for (int at = 0; at < lives; at++)
        if (live[at] == which) return 1;
    return 0;
}

static int is_victim(int world_rank) {
    return world_rank == 1 || (check_size >= 4 && world_rank == check_size - 1);
}

/* The communicator that the tests are about, and who lives in it. */
static void take(MPI_Comm which, const int *world_ranks) {
    comm = which;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    lives = 0;
    for (int at = 0; at < size; at++)
        if (!is_victim(world_ranks[at])) live[lives++] = at;
}

static int first_blank(void) {
    for (int at = 0; at < size; at++)
        if (!is_live(at)) return at;
    return -1;
}

static int root_of(int round) { return live[round % lives]; }

static void set_all(int *numbers, int count, int value) {
    for (int at = 0; at < count; at++) numbers[at] = value;
}

static int calls;
static int disorder;

/* The digits of one operand behind those of the other: not commutative. What has no digits is nobody's. */
static void append(void *left, void *right, int *count, MPI_Datatype *datatype) {
    long *first = left, *second = right;
    (void)datatype;
    calls++;
    for (int at = 0; at < *count; at++) {
        long shift = 1;
        if (first[at] == 0 || second[at] == 0) disorder = 1;
        while (shift <= second[at]) shift *= 16;
        second[at] += first[at] * shift;
    }
}

static long appended(int from, int to) {
    long all = 0;
    for (int at = 0; at < lives; at++)
        if (live[at] >= from && live[at] <= to) all = all * 16 + live[at] + 1;
    return all;
}

static void c0_blank_roots(void) {
    int value[RANKS_MAX] = {0}, root = first_blank();
    section("C0: a blank root is an error at every caller");
    set_all(value, RANKS_MAX, UNTOUCHED);
    CLASS(MPI_Bcast(value, 1, MPI_INT, root, comm), MPI_ERR_ROOT);
    CLASS(MPI_Gather(&rank, 1, MPI_INT, value, 1, MPI_INT, root, comm), MPI_ERR_ROOT);
    CLASS(MPI_Scatter(value, 1, MPI_INT, value, 1, MPI_INT, root, comm), MPI_ERR_ROOT);
    CLASS(MPI_Reduce(&rank, value, 1, MPI_INT, MPI_SUM, root, comm), MPI_ERR_ROOT);
    for (int at = 0; at < RANKS_MAX; at++) SAME(value[at], UNTOUCHED);
}

static void c1_barrier(void) {
    MPI_Request request;
    section("C1: a barrier waits for the living");
    for (int round = 0; round < 40; round++) OK(MPI_Barrier(comm));
    OK(MPI_Ibarrier(comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void c2_bcast(void) {
    static int numbers[LONG];
    section("C2: a broadcast reaches the living");
    for (int round = 0; round < 2 * lives; round++) {
        int count = round % 2 ? LONG : 3, root = root_of(round);
        set_all(numbers, count, rank == root ? 100 + round : UNTOUCHED);
        OK(MPI_Bcast(numbers, count, MPI_INT, root, comm));
        for (int at = 0; at < count; at++) SAME(numbers[at], 100 + round);
    }
}

static void c3_reduce(MPI_Op op) {
    static int give[LONG], get[LONG];
    long digits = rank + 1, all = 0;
    int sum = 0, least = live[0] + 5;
    struct { int value, at; } mine = {rank + 5, rank}, found = {-1, -1};
    for (int at = 0; at < lives; at++) sum += 1 << live[at];
    section("C3: a reduction combines what the living give, and nothing else");
    for (int round = 0; round < 2 * lives; round++) {
        int count = round % 2 ? LONG : 2, root = root_of(round);
        set_all(give, count, 1 << rank);
        set_all(get, count, UNTOUCHED);
        OK(MPI_Reduce(give, get, count, MPI_INT, MPI_SUM, root, comm));
        for (int at = 0; at < count; at++) SAME(get[at], rank == root ? sum : UNTOUCHED);
        set_all(give, count, rank + 5);
        OK(MPI_Reduce(give, get, count, MPI_INT, MPI_MIN, root, comm));
        if (rank == root) SAME(get[count - 1], least);
        set_all(give, count, -rank - 5);
        OK(MPI_Reduce(give, get, count, MPI_INT, MPI_MAX, root, comm));
        if (rank == root) SAME(get[count - 1], -least);
        set_all(give, count, 2);
        OK(MPI_Reduce(give, get, count, MPI_INT, MPI_PROD, root, comm));
        if (rank == root) SAME(get[0], 1 << lives);
        set_all(give, count, 1);
        OK(MPI_Reduce(give, get, count, MPI_INT, MPI_LAND, root, comm));
        if (rank == root) SAME(get[0], 1);
        OK(MPI_Reduce(&mine, &found, 1, MPI_2INT, MPI_MINLOC, root, comm));
        if (rank == root) SAME(found.at, live[0]);
        OK(MPI_Reduce(&mine, &found, 1, MPI_2INT, MPI_MAXLOC, root, comm));
        if (rank == root) SAME(found.at, live[lives - 1]);
    }
    section("C12: operands stand in the order of the living");
    calls = disorder = 0;
    OK(MPI_Reduce(&digits, &all, 1, MPI_LONG, op, root_of(1), comm));
    if (rank == root_of(1)) CHECK(all == appended(0, size));
    SAME(disorder, 0);
    if (lives == 1) SAME(calls, 0);
    section("C13: in place");
    all = digits;
    if (rank == root_of(1)) OK(MPI_Reduce(MPI_IN_PLACE, &all, 1, MPI_LONG, op, root_of(1), comm));
    else OK(MPI_Reduce(&digits, NULL, 1, MPI_LONG, op, root_of(1), comm));
    if (rank == root_of(1)) CHECK(all == appended(0, size));
}

static void c4_gather(MPI_Datatype spaced) {
    int get[4 * RANKS_MAX], counts[RANKS_MAX], places[RANKS_MAX];
    int give[4] = {rank, 100 + rank, 200 + rank, 300 + rank};
    for (int round = 0; round < lives; round++) {
        int root = root_of(round);
        section("C4: what is gathered leaves the places of blanks as they are");
        set_all(get, 4 * RANKS_MAX, UNTOUCHED);
        OK(MPI_Gather(give, 2, MPI_INT, get, 2, MPI_INT, root, comm));
        for (int at = 0; at < 2 * size; at++)
            SAME(get[at], rank == root && is_live(at / 2) ? at / 2 + 100 * (at % 2) : UNTOUCHED);
        section("C4: with gaps in the datatype");
        set_all(get, 4 * RANKS_MAX, UNTOUCHED);
        OK(MPI_Gather(give, 2, MPI_INT, get, 2, spaced, root, comm));
        for (int at = 0; at < 4 * size; at++) {
            int came = rank == root && is_live(at / 4) && at % 2 == 0;
            SAME(get[at], came ? at / 4 + 100 * (at % 4 / 2) : UNTOUCHED);
        }
        section("C4: what is said of blanks is not read");
        for (int at = 0; at < size; at++) {
            counts[at] = is_live(at) ? 1 + at % 2 : -5;
            places[at] = is_live(at) ? 2 * (size - 1 - at) : 1 << 30;
        }
        set_all(get, 4 * RANKS_MAX, UNTOUCHED);
        OK(MPI_Gatherv(give, 1 + rank % 2, MPI_INT, get, counts, places, MPI_INT, root, comm));
        for (int at = 0; at < size; at++) {
            int *there = get + 2 * (size - 1 - at), came = rank == root && is_live(at);
            SAME(there[0], came ? at : UNTOUCHED);
            SAME(there[1], came && at % 2 ? 100 + at : UNTOUCHED);
        }
        section("C13: gathered in place");
        set_all(get, 4 * RANKS_MAX, UNTOUCHED);
        get[rank] = rank;
        if (rank == root) OK(MPI_Gather(MPI_IN_PLACE, 0, MPI_INT, get, 1, MPI_INT, root, comm));
        else OK(MPI_Gather(give, 1, MPI_INT, NULL, 1, MPI_INT, root, comm));
        if (rank == root)
            for (int at = 0; at < size; at++) SAME(get[at], is_live(at) ? at : UNTOUCHED);
    }
}

static void c5_scatter(void) {
    int give[2 * RANKS_MAX], get[3], counts[RANKS_MAX], places[RANKS_MAX];
    for (int at = 0; at < 2 * size; at++) give[at] = 1000 + at;
    for (int round = 0; round < lives; round++) {
        int root = root_of(round);
        section("C5: what is scattered comes to the living");
        set_all(get, 3, UNTOUCHED);
        OK(MPI_Scatter(give, 2, MPI_INT, get, 2, MPI_INT, root, comm));
        SAME(get[0], 1000 + 2 * rank);
        SAME(get[1], 1001 + 2 * rank);
        SAME(get[2], UNTOUCHED);
        for (int at = 0; at < size; at++) {
            counts[at] = is_live(at) ? 1 : -3;
            places[at] = is_live(at) ? 2 * at + 1 : -(1 << 30);
        }
        OK(MPI_Scatterv(give, counts, places, MPI_INT, get, 1, MPI_INT, root, comm));
        SAME(get[0], 1001 + 2 * rank);
    }
}

static void c6_allgather(MPI_Datatype spaced) {
    int get[4 * RANKS_MAX], counts[RANKS_MAX], places[RANKS_MAX];
    section("C6: each one's own places of blanks stay as they are");
    set_all(get, 4 * RANKS_MAX, UNTOUCHED - rank);
    OK(MPI_Allgather(&rank, 1, MPI_INT, get, 1, MPI_INT, comm));
    for (int at = 0; at < size; at++) SAME(get[at], is_live(at) ? at : UNTOUCHED - rank);
    set_all(get, 4 * RANKS_MAX, UNTOUCHED - rank);
    OK(MPI_Allgather(&rank, 1, MPI_INT, get, 1, spaced, comm));
    for (int at = 0; at < 2 * size; at++)
        SAME(get[at], is_live(at / 2) && at % 2 == 0 ? at / 2 : UNTOUCHED - rank);
    for (int at = 0; at < size; at++) {
        counts[at] = is_live(at) ? 1 : -1;
        places[at] = size - 1 - at;
    }
    set_all(get, 4 * RANKS_MAX, UNTOUCHED - rank);
    OK(MPI_Allgatherv(&rank, 1, MPI_INT, get, counts, places, MPI_INT, comm));
    for (int at = 0; at < size; at++) SAME(get[size - 1 - at], is_live(at) ? at : UNTOUCHED - rank);
    section("C13: gathered by all in place");
    set_all(get, 4 * RANKS_MAX, UNTOUCHED - rank);
    get[rank] = rank;
    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, get, 1, MPI_INT, comm));
    for (int at = 0; at < size; at++) SAME(get[at], is_live(at) ? at : UNTOUCHED - rank);
}

static void c7_allreduce(MPI_Op op) {
    static double give[LONG], get[LONG];
    long digits = rank + 1, all = 0;
    double same = 0, sum = 0;
    section("C7: all reduce over the living, to the same bits");
    for (int at = 0; at < lives; at++) sum += live[at] + 1;
    for (int count = 1; count <= LONG; count = count * 100 - 1) {
        for (int at = 0; at < count; at++) give[at] = rank + 1;
        OK(MPI_Allreduce(give, get, count, MPI_DOUBLE, MPI_SUM, comm));
        CHECK(get[0] == sum && get[count - 1] == sum);
    }
    give[0] = 1.0 / (rank + 3);
    OK(MPI_Allreduce(give, get, 1, MPI_DOUBLE, MPI_SUM, comm));
    same = get[0];
    OK(MPI_Bcast(&same, 1, MPI_DOUBLE, live[0], comm));
    CHECK(memcmp(&same, get, sizeof same) == 0);
    calls = disorder = 0;
    OK(MPI_Allreduce(&digits, &all, 1, MPI_LONG, op, comm));
    CHECK(all == appended(0, size));
    SAME(disorder, 0);
    if (lives == 1) SAME(calls, 0);
}

static void c8_alltoall(void) {
    int give[2 * RANKS_MAX], get[2 * RANKS_MAX], counts[RANKS_MAX], places[RANKS_MAX], bytes[RANKS_MAX];
    MPI_Datatype types[RANKS_MAX];
    section("C8: nothing is exchanged with blanks");
    for (int at = 0; at < 2 * size; at++) give[at] = 100 * rank + at;
    set_all(get, 2 * RANKS_MAX, UNTOUCHED);
    OK(MPI_Alltoall(give, 2, MPI_INT, get, 2, MPI_INT, comm));
    for (int at = 0; at < 2 * size; at++)
        SAME(get[at], is_live(at / 2) ? 100 * (at / 2) + 2 * rank + at % 2 : UNTOUCHED);
    for (int at = 0; at < size; at++) {
        counts[at] = is_live(at) ? 1 : -9;
        places[at] = is_live(at) ? at : 1 << 30;
        bytes[at] = places[at] * (is_live(at) ? (int)sizeof(int) : 1);
        types[at] = is_live(at) ? MPI_INT : MPI_DATATYPE_NULL;
    }
    set_all(get, 2 * RANKS_MAX, UNTOUCHED);
    OK(MPI_Alltoallv(give, counts, places, MPI_INT, get, counts, places, MPI_INT, comm));
    for (int at = 0; at < size; at++) SAME(get[at], is_live(at) ? 100 * at + rank : UNTOUCHED);
    set_all(get, 2 * RANKS_MAX, UNTOUCHED);
    OK(MPI_Alltoallw(give, counts, bytes, types, get, counts, bytes, types, comm));
    for (int at = 0; at < size; at++) SAME(get[at], is_live(at) ? 100 * at + rank : UNTOUCHED);
    section("C13: exchanged in place");
    OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, give, 2, MPI_INT, comm));
    for (int at = 0; at < 2 * size; at++)
        SAME(give[at], is_live(at / 2) ? 100 * (at / 2) + 2 * rank + at % 2 : 100 * rank + at);
}

static void c9_reduce_scatter(void) {
    int give[3 * RANKS_MAX], get[3 * RANKS_MAX], counts[RANKS_MAX], place = 0, total = 0;
    section("C9: each of the living gets its block, and nobody that of a blank");
    for (int at = 0; at < 2 * size; at++) give[at] = 1000 * rank + at;
    set_all(get, 3 * RANKS_MAX, UNTOUCHED);
    OK(MPI_Reduce_scatter_block(give, get, 2, MPI_INT, MPI_MAX, comm));
    SAME(get[0], 1000 * live[lives - 1] + 2 * rank);
    SAME(get[1], 1000 * live[lives - 1] + 2 * rank + 1);
    SAME(get[2], UNTOUCHED);
    section("C9: the count of a blank is room in what is given");
    for (int at = 0; at < size; at++) {
        if (at == rank) place = total;
        total += counts[at] = 1 + at % 2;
    }
    for (int at = 0; at < total; at++) give[at] = 1000 * rank + at;
    set_all(get, 3 * RANKS_MAX, UNTOUCHED);
    OK(MPI_Reduce_scatter(give, get, counts, MPI_INT, MPI_MAX, comm));
    SAME(get[0], 1000 * live[lives - 1] + place);
    SAME(get[counts[rank]], UNTOUCHED);
    section("C13: reduced and scattered in place");
    OK(MPI_Reduce_scatter(MPI_IN_PLACE, give, counts, MPI_INT, MPI_MAX, comm));
    SAME(give[0], 1000 * live[lives - 1] + place);
    for (int at = 0; at < 2 * size; at++) give[at] = 1000 * rank + at;
    OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, give, 2, MPI_INT, MPI_MAX, comm));
    SAME(give[1], 1000 * live[lives - 1] + 2 * rank + 1);
}

static void c10_scan(MPI_Op op) {
    long digits = rank + 1, all = UNTOUCHED;
    int sum = 0, mine = 1 << rank, got = UNTOUCHED;
    section("C10: scans go over the living");
    for (int at = 0; at < lives && live[at] <= rank; at++) sum += 1 << live[at];
    OK(MPI_Scan(&mine, &got, 1, MPI_INT, MPI_SUM, comm));
    SAME(got, sum);
    got = UNTOUCHED;
    OK(MPI_Exscan(&mine, &got, 1, MPI_INT, MPI_SUM, comm));
    SAME(got, rank == live[0] ? UNTOUCHED : sum - mine);
    OK(MPI_Scan(&digits, &all, 1, MPI_LONG, op, comm));
    CHECK(all == appended(0, rank));
}

static void c14_other_ways(void) {
    MPI_Request requests[3];
    int one = 1 << rank, sum = 0, all = 0, get[RANKS_MAX], give[RANKS_MAX], block = 0;
    section("C14: what goes on beside, and what was planned");
    for (int at = 0; at < lives; at++) all += 1 << live[at];
    set_all(get, RANKS_MAX, UNTOUCHED);
    for (int at = 0; at < size; at++) give[at] = rank + at;
    OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[0]));
    OK(MPI_Iallgather(&rank, 1, MPI_INT, get, 1, MPI_INT, comm, &requests[1]));
    OK(MPI_Ireduce_scatter_block(give, &block, 1, MPI_INT, MPI_MAX, comm, &requests[2]));
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    SAME(sum, all);
    SAME(block, live[lives - 1] + rank);
    for (int at = 0; at < size; at++) SAME(get[at], is_live(at) ? at : UNTOUCHED);
    OK(MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[0]));
    for (int round = 0; round < 3; round++) {
        sum = 0;
        OK(MPI_Start(&requests[0]));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        SAME(sum, all);
    }
    OK(MPI_Request_free(&requests[0]));
}

static int before_values[2], after_values[2];

/* What is planned while all live: from a rank that will be blank, and among all. */
static void plan_before(MPI_Comm which, MPI_Request planned[2]) {
    int victim = 0;
    while (!is_victim(victim)) victim++;
    OK(MPI_Bcast_init(&before_values[0], 1, MPI_INT, victim, which, MPI_INFO_NULL, &planned[0]));
    OK(MPI_Allreduce_init(&before_values[0], &before_values[1], 1, MPI_INT, MPI_SUM, which, MPI_INFO_NULL, &planned[1]));
}

static void begin_planned(MPI_Request planned[2]) {
    MPI_Request both[2] = {planned[1], MPI_REQUEST_NULL};
    int sum = 0;
    for (int at = 0; at < lives; at++) sum += live[at];
    section("C0, C14: planned from a root that is blank now");
    CLASS(MPI_Start(&planned[0]), MPI_ERR_ROOT);
    OK(MPI_Request_free(&planned[0]));
    section("C14: planned before and after, begun in any order");
    OK(MPI_Allreduce_init(&after_values[0], &after_values[1], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &both[1]));
    for (int round = 0; round < 10; round++) {
        before_values[0] = rank;
        after_values[0] = 100 * rank;
        OK(MPI_Start(&both[(rank + round) % 2]));
        OK(MPI_Start(&both[(rank + round + 1) % 2]));
        OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
        SAME(before_values[1], sum);
        SAME(after_values[1], 100 * sum);
    }
    OK(MPI_Request_free(&both[0]));
    OK(MPI_Request_free(&both[1]));
}

static void all_collectives(void) {
    MPI_Datatype spaced;
    MPI_Op op;
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced));
    OK(MPI_Type_commit(&spaced));
    OK(MPI_Op_create(append, 0, &op));
    c0_blank_roots();
    c1_barrier();
    c2_bcast();
    c3_reduce(op);
    c4_gather(spaced);
    c5_scatter();
    c6_allgather(spaced);
    c7_allreduce(op);
    c8_alltoall();
    c9_reduce_scatter();
    c10_scan(op);
    c14_other_ways();
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&spaced));
}

/* Messages between two (section 3.2 of the rules). */
static void messages(void) {
    MPI_Status status;
    MPI_Request requests[2];
    int value = UNTOUCHED, count = -1, blank = first_blank(), at = 0, next, before;
    section("K11, P2P: to and from a blank rank nothing goes");
    while (live[at] != rank) at++;
    next = live[(at + 1) % lives];
    before = live[(at + lives - 1) % lives];
    OK(MPI_Send(&rank, 1, MPI_INT, blank, TAG, comm));
    OK(MPI_Recv(&value, 1, MPI_INT, blank, TAG, comm, &status));
    SAME(value, UNTOUCHED);
    SAME(status.MPI_SOURCE, MPI_PROC_NULL);
    SAME(status.MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Get_count(&status, MPI_INT, &count));
    SAME(count, 0);
    OK(MPI_Isend(&rank, 1, MPI_INT, blank, TAG, comm, &requests[0]));
    OK(MPI_Irecv(&value, 1, MPI_INT, blank, TAG, comm, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    SAME(value, UNTOUCHED);
    section("P2P: the living speak to each other");
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, next, TAG, &value, 1, MPI_INT, before, TAG, comm, MPI_STATUS_IGNORE));
    SAME(value, before);
    OK(MPI_Irecv(&value, 1, MPI_INT, before, TAG, comm, &requests[1]));
    OK(MPI_Isend(&rank, 1, MPI_INT, next, TAG, comm, &requests[0]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    SAME(value, before);
    section("P2P: who receives from anybody waits among the living");
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, next, TAG, &value, 1, MPI_INT, MPI_ANY_SOURCE, TAG, comm, &status));
    SAME(value, before);
    SAME(status.MPI_SOURCE, before);
}

static void queries(int generation) {
    MPI_Group group, whole;
    int number = -1, flag = -1;
    section("K1, K2, K11, R10: who is blank and who lives");
    OK(MPIX_Comm_generation(comm, &number));
    SAME(number, generation);
    OK(MPIX_Comm_live_size(comm, &number));
    SAME(number, lives);
    OK(MPIX_Comm_live_group(comm, &group));
    OK(MPI_Group_size(group, &number));
    SAME(number, lives);
    OK(MPI_Group_free(&group));
    OK(MPIX_Comm_blank_group(comm, &group));
    OK(MPI_Comm_group(comm, &whole));
    OK(MPI_Group_size(group, &number));
    SAME(number, size - lives);
    flag = 0;
    OK(MPI_Group_translate_ranks(group, 1, &flag, whole, &number));
    SAME(number, first_blank());
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&whole));
    for (int at = 0; at < size; at++) {
        OK(MPIX_Comm_is_blank(comm, at, &flag));
        SAME(flag, !is_live(at));
    }
    CLASS(MPIX_Comm_is_blank(comm, size, &flag), MPI_ERR_RANK);
}

static void c11_neighbours(MPI_Comm ring, const int *world_ranks) {
    int give[2], get[2] = {UNTOUCHED, UNTOUCHED}, below, above;
    take(ring, world_ranks);
    section("C11, K9: a blank neighbour is a neighbour of whom nothing comes");
    OK(MPI_Cart_shift(comm, 0, 1, &below, &above));
    SAME(above, (rank + 1) % size);
    give[0] = 10 * rank;
    give[1] = 10 * rank + 1;
    OK(MPI_Neighbor_alltoall(give, 1, MPI_INT, get, 1, MPI_INT, comm));
    SAME(get[0], is_live(below) ? 10 * below + 1 : UNTOUCHED);
    SAME(get[1], is_live(above) ? 10 * above : UNTOUCHED);
    set_all(get, 2, UNTOUCHED);
    OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, get, 1, MPI_INT, comm));
    SAME(get[0], is_live(below) ? below : UNTOUCHED);
    SAME(get[1], is_live(above) ? above : UNTOUCHED);
}

static void derived(MPI_Comm whole, const int *world_ranks) {
    MPI_Comm copy, part;
    int number = -1;
    take(whole, world_ranks);
    section("K4: a copy has the same blanks");
    OK(MPI_Comm_dup(whole, &copy));
    take(copy, world_ranks);
    queries(1);
    all_collectives();
    messages();
    OK(MPI_Comm_free(&copy));
    section("K5: what is split off has no blanks");
    OK(MPI_Comm_split(whole, 0, 0, &part));
    OK(MPI_Comm_size(part, &number));
    SAME(number, lives);
    OK(MPI_Barrier(part));
    OK(MPI_Comm_free(&part));
}

static int number_of_failed(MPI_Group failed) {
    int number = -1;
    OK(MPI_Group_size(failed, &number));
    OK(MPI_Group_free(&failed));
    return number;
}

static void set_mode(MPI_Comm which, int messages) {
    OK(MPIX_Comm_set_ft_mode(which, MPIX_FT_MODE_BLANK, messages, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
}

/* Recovers, and looks at what that has come to. */
static void recover(MPI_Comm which, const int *world_ranks) {
    MPIX_Recover_info info;
    take(which, world_ranks);
    section("R1, R2, R3: recovery");
    OK(MPIX_Comm_recover(which, 0, NULL, &info));
    SAME(info.generation, 1);
    SAME(info.mode, MPIX_FT_MODE_BLANK);
    SAME(number_of_failed(info.failed), size - lives);
    section("R4: recovery when nothing has failed since");
    OK(MPIX_Comm_recover(which, 0, NULL, &info));
    SAME(info.generation, 1);
    SAME(number_of_failed(info.failed), 0);
    queries(1);
}

int main(int argc, char **argv) {
    MPI_Comm forward, backward, ring, same;
    MPIX_Recover_info info;
    MPI_Request planned[2];
    int ahead[RANKS_MAX], behind[RANKS_MAX], mode[4], periodic = 1, code, value = 0;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &forward));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &backward));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &check_size, &periodic, 0, &ring));
    for (int at = 0; at < check_size; at++) {
        ahead[at] = at;
        behind[at] = check_size - 1 - at;
    }
    section("R5: members that want different modes");
    OK(MPIX_Comm_set_ft_mode(forward, check_rank == 0 ? MPIX_FT_MODE_SHRINK : MPIX_FT_MODE_BLANK, MPIX_FT_MSG_CONT,
            MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    CLASS(MPIX_Comm_recover(forward, 0, &same, &info), MPI_ERR_ARG);
    section("R4: recovery when nothing has failed");
    set_mode(forward, MPIX_FT_MSG_CONT);
    set_mode(backward, MPIX_FT_MSG_RESET);
    set_mode(ring, MPIX_FT_MSG_RESET);
    OK(MPIX_Comm_get_ft_mode(backward, &mode[0], &mode[1], &mode[2], &mode[3]));
    SAME(mode[0], MPIX_FT_MODE_BLANK);
    SAME(mode[1], MPIX_FT_MSG_RESET);
    OK(MPIX_Comm_recover(forward, 0, NULL, &info));
    SAME(info.generation, 0);
    SAME(number_of_failed(info.failed), 0);
    OK(MPI_Barrier(forward));
    plan_before(forward, planned);
    /* Something for each of the living that is received in spite of the death of others, or because of it is not. */
    if (!is_victim(check_rank)) {
        OK(MPI_Send(&check_rank, 1, MPI_INT, 0, TAG + 1, forward));
        OK(MPI_Send(&check_rank, 1, MPI_INT, check_size - 1, TAG + 1, backward));
    }
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (is_victim(check_rank)) {
        fflush(NULL);
        raise(SIGKILL);
    }
    section("D1: a barrier that the dead never entered succeeds nowhere");
    CLASS(MPI_Barrier(forward), MPIX_ERR_PROC_FAILED);
    recover(forward, ahead);
    recover(backward, behind);
    recover(ring, ahead);
    take(forward, ahead);
    section("message mode CONT: what was sent before is received");
    if (check_rank == 0)
        for (int at = 0; at < lives; at++) {
            OK(MPI_Recv(&value, 1, MPI_INT, live[at], TAG + 1, forward, MPI_STATUS_IGNORE));
            SAME(value, live[at]);
        }
    section("message mode RESET: what was sent before is not received");
    if (check_rank == 0) {
        OK(MPI_Iprobe(MPI_ANY_SOURCE, TAG + 1, backward, &value, MPI_STATUS_IGNORE));
        SAME(value, 0);
    }
    all_collectives();
    begin_planned(planned);
    messages();
    take(backward, behind);
    all_collectives();
    messages();
    c11_neighbours(ring, ahead);
    derived(forward, ahead);
    derived(backward, behind);
    section("R13: a revoked communicator recovers");
    take(forward, ahead);
    /* Whoever is the first to leave it may revoke before the others have left; so it is another one's. */
    OK(MPI_Barrier(backward));
    if (rank == live[0]) OK(MPIX_Comm_revoke(forward));
    do {
        OK(MPIX_Comm_is_revoked(forward, &value));
    } while (!value);
    CLASS(MPI_Barrier(forward), lives > 1 ? MPIX_ERR_REVOKED : MPI_SUCCESS);
    OK(MPIX_Comm_recover(forward, 0, NULL, &info));
    SAME(info.generation, 2);
    SAME(number_of_failed(info.failed), 0);
    OK(MPIX_Comm_is_revoked(forward, &value));
    SAME(value, 0);
    messages();
    OK(MPI_Barrier(forward));
    section("3.2: blanks as errors");
    OK(MPIX_Comm_set_ft_mode(forward, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_CONT, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_ERROR));
    code = MPI_Send(&rank, 1, MPI_INT, first_blank(), TAG, forward);
    CLASS(code, MPI_ERR_RANK);
    CLASS(MPI_Recv(&value, 1, MPI_INT, first_blank(), TAG, forward, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    section("G8: the end");
    OK(MPI_Barrier(forward));
    OK(MPI_Comm_free(&forward));
    OK(MPI_Comm_free(&backward));
    OK(MPI_Comm_free(&ring));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
