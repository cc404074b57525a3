// ranks: 2
// Exchanges between the neighbours of a topology of two ranks, in all their forms: each rank calls with blocks that stand one behind
// the other or apart, with a plain datatype or one with gaps, as its own lot says, and both must see alike which way it goes; of
// lengths around those at which another way is taken, among other operations. Contents are verified.
#include "check.h"

#include <stdint.h>

enum { ROUNDS = 12000, MOST = 4, ELEMENTS_MAX = 1030, GAP = 3, ALIKE_MAX = 5 };

/* Whom this rank exchanges with, and with which edge of the other one each of its sources' edges meets. */
struct around {
    const char *name;
    MPI_Comm comm;
    int in, out, sources[MOST], destinations[MOST], edges[MOST];
};

enum operation { ALLTOALL, ALLTOALL_APART, ALLTOALLV, ALLTOALLW, ALLGATHER, ALLGATHERV, BARRIER, BCAST, EXSCAN, OPERATIONS };

/* Elements of each block: what two, three or four of them come to is around the limits of lines, entries and messages. */
static const int COUNTS[] = {1, 3, 4, 7, 8, 14, 15, 16, 28, 30, 60, 64, 67, 68, 85, 90, 128, 134, 135, 256, 270, 271, 340, 342, 511, 512, 513, 1024};
enum { COUNT_COUNT = sizeof COUNTS / sizeof *COUNTS };

static unsigned long draw(unsigned long *state, unsigned long end) {
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return (*state >> 33) % end;
}

static int64_t out[MOST * (ELEMENTS_MAX + GAP) * 2], in[MOST * (ELEMENTS_MAX + GAP) * 2];
static MPI_Datatype wide; /* one element, and a gap as long */

static int64_t value(int rank, int edge, int at, int round) {
    return (int64_t)rank * 1000000007 + edge * 100003 + at * 17 + round;
}

/* Block `edge` of `count` elements, each `step` places behind the one before. */
static void put_block(int64_t *block, int step, int count, int rank, int edge, int round) {
    for (int at = 0; at < count; at++) block[step * at] = value(rank, edge, at, round);
}

static void same_block(const int64_t *block, int step, int count, int rank, int edge, int round) {
    for (int at = 0; at < count; at++) {
        SAME(block[step * at], value(rank, edge, at, round));
        if (step == 2) SAME(block[2 * at + 1], -7);
    }
}

static void blank(int64_t *room) {
    for (size_t at = 0; at < sizeof in / sizeof *in; at++) room[at] = -7;
}

/* Lengths that differ from edge to edge, as its sender and its receiver count them. */
static int of_edge(int count, int sender, int edge) { return edge % 2 == 0 ? count : (count + sender) / 2; }

static void alltoall(const struct around *around, int count, int round, unsigned long *own) {
    int sends = draw(own, 3) == 0 ? 2 : 1, receives = draw(own, 3) == 0 ? 2 : 1;
    for (int i = 0; i < around->out; i++) put_block(out + i * count * sends, sends, count, check_rank, i, round);
    OK(MPI_Neighbor_alltoall(out, count, sends == 2 ? wide : MPI_INT64_T, in, count, receives == 2 ? wide : MPI_INT64_T,
                             around->comm));
    for (int i = 0; i < around->in; i++)
        same_block(in + i * count * receives, receives, count, around->sources[i], around->edges[i], round);
}

/* Where each block stands: apart, the last one first. */
static int place(int blocks, int i) { return (blocks - 1 - i) * (ELEMENTS_MAX + GAP) + 1; }

static void alltoall_listed(const struct around *around, int with_types, int even, int count, int round) {
    int counts[MOST], places[MOST], room_counts[MOST], room_places[MOST];
    MPI_Aint bytes[MOST], room_bytes[MOST];
    MPI_Datatype types[MOST];
    for (int i = 0; i < around->out; i++) {
        counts[i] = even ? count : of_edge(count, check_rank, i), places[i] = place(around->out, i);
        put_block(out + places[i], 1, counts[i], check_rank, i, round);
    }
    for (int i = 0; i < around->in; i++) {
        room_counts[i] = even ? count : of_edge(count, around->sources[i], around->edges[i]);
        room_places[i] = place(around->in, i);
    }
    for (int i = 0; i < MOST; i++) types[i] = MPI_INT64_T;
    for (int i = 0; i < around->out; i++) bytes[i] = 8 * (MPI_Aint)places[i];
    for (int i = 0; i < around->in; i++) room_bytes[i] = 8 * (MPI_Aint)room_places[i];
    if (with_types)
        OK(MPI_Neighbor_alltoallw(out, counts, bytes, types, in, room_counts, room_bytes, types, around->comm));
    else
        OK(MPI_Neighbor_alltoallv(out, counts, places, MPI_INT64_T, in, room_counts, room_places, MPI_INT64_T,
                                  around->comm));
    for (int i = 0; i < around->in; i++) {
        same_block(in + room_places[i], 1, room_counts[i], around->sources[i], around->edges[i], round);
        SAME(in[room_places[i] - 1], -7);
        SAME(in[room_places[i] + room_counts[i]], -7);
    }
}

static void allgather(const struct around *around, int listed, int count, int round, unsigned long *own) {
    int step = draw(own, 3) == 0 ? 2 : 1, counts[MOST], places[MOST];
    put_block(out, step, count, check_rank, 0, round);
    for (int i = 0; i < MOST; i++) counts[i] = count, places[i] = place(around->in, i);
    if (listed)
        OK(MPI_Neighbor_allgatherv(out, count, step == 2 ? wide : MPI_INT64_T, in, counts, places, MPI_INT64_T,
                                   around->comm));
    else
        OK(MPI_Neighbor_allgather(out, count, step == 2 ? wide : MPI_INT64_T, in, count, MPI_INT64_T, around->comm));
    for (int i = 0; i < around->in; i++)
        same_block(in + (listed ? places[i] : i * count), 1, count, around->sources[i], 0, round);
}

static void do_one(const struct around *around, enum operation operation, int count, int round, unsigned long *own) {
    int root = round % 2;
    blank(in);
    switch (operation) {
    case ALLTOALL: alltoall(around, count, round, own); break;
    case ALLTOALL_APART: alltoall_listed(around, 0, 1, count, round); break;
    case ALLTOALLV: alltoall_listed(around, 0, 0, count, round); break;
    case ALLTOALLW: alltoall_listed(around, 1, 0, count, round); break;
    case ALLGATHER: allgather(around, 0, count, round, own); break;
    case ALLGATHERV: allgather(around, 1, count, round, own); break;
    case BARRIER: OK(MPI_Barrier(around->comm)); break;
    case BCAST:
        put_block(in, 1, count, check_rank, 0, round);
        OK(MPI_Bcast(in, count, MPI_INT64_T, root, around->comm));
        same_block(in, 1, count, root, 0, round);
        break;
    case EXSCAN:
        put_block(out, 1, count, check_rank, 0, round);
        OK(MPI_Exscan(out, in, count, MPI_INT64_T, MPI_SUM, around->comm));
        if (check_rank == 1) same_block(in, 1, count, 0, 0, round);
        break;
    case OPERATIONS: break;
    }
}

/* Both neighbours along the first axis are the other rank, both along the second one this one: what goes down comes from above. */
static struct around torus(void) {
    int dims[2] = {2, 1}, periods[2] = {1, 1}, here = check_rank, other = 1 - here;
    struct around made = {"a torus", MPI_COMM_NULL, 4, 4, {other, other, here, here}, {other, other, here, here}, {1, 0, 3, 2}};
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &made.comm));
    return made;
}

static struct around of_graph(const char *name, struct around made) {
    made.name = name;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, made.in, made.sources, MPI_UNWEIGHTED, made.out, made.destinations,
                                      MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made.comm));
    return made;
}

/* Rank 0 has two edges to rank 1 and one to itself, rank 1 has one to rank 0. */
static struct around uneven(void) {
    struct around first = {.in = 2, .out = 3, .sources = {0, 1}, .destinations = {1, 0, 1}, .edges = {1, 0}};
    struct around second = {.in = 2, .out = 1, .sources = {0, 0}, .destinations = {0}, .edges = {0, 2}};
    return of_graph("an uneven graph", check_rank == 0 ? first : second);
}

static struct around one_way(void) {
    struct around first = {.in = 0, .out = 1, .destinations = {1}}, second = {.in = 1, .out = 0, .sources = {0}};
    return of_graph("a graph of one edge", check_rank == 0 ? first : second);
}

/* What a rank gives to itself does not fit: it is told so, and the other is not. */
static void own_blocks_that_do_not_fit(void) {
    struct around around = torus();
    int counts[MOST] = {1, 1, 1, 1}, places[MOST] = {0, 1, 2, 3}, own[MOST] = {1, 1, 2, 1};
    section("own blocks that do not fit");
    OK(MPI_Comm_set_errhandler(around.comm, MPI_ERRORS_RETURN));
    for (int round = 0; round < 20; round++) {
        int *sent = check_rank == 0 ? own : counts;
        blank(in);
        for (int i = 0; i < MOST; i++) put_block(out + i, 1, 1, check_rank, i, round);
        int code = MPI_Neighbor_alltoallv(out, sent, places, MPI_INT64_T, in, counts, places, MPI_INT64_T, around.comm);
        CHECK((code != MPI_SUCCESS) == (check_rank == 0));
        for (int i = 0; i < 2; i++) same_block(in + i, 1, 1, around.sources[i], around.edges[i], round);
    }
    OK(MPI_Comm_free(&around.comm));
}

int main(int argc, char **argv) {
    unsigned long all = 20261126, own;
    static char named_section[120];
    check_open(argc, argv);
    own = 77 + (unsigned long)check_rank;
    OK(MPI_Type_create_resized(MPI_INT64_T, 0, 16, &wide));
    OK(MPI_Type_commit(&wide));
    struct around arounds[] = {torus(), uneven(), one_way()};
    for (int round = 0; round < ROUNDS;) {
        const struct around *around = &arounds[draw(&all, 3)];
        enum operation operation = (enum operation)draw(&all, OPERATIONS);
        int count = COUNTS[draw(&all, COUNT_COUNT)];
        for (int alike = (int)draw(&all, ALIKE_MAX); alike >= 0; alike--, round++) {
            snprintf(named_section, sizeof named_section, "%s: operation %d, %d elements, round %d", around->name, (int)operation,
                     count, round);
            section(named_section);
            do_one(around, operation, count, round, &own);
        }
    }
    for (int at = 0; at < 3; at++) OK(MPI_Comm_free(&arounds[at].comm));
    own_blocks_that_do_not_fit();
    OK(MPI_Type_free(&wide));
    return check_close();
}
