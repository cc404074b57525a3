// ranks: 2 3 4 8
// Operations of few bytes that are begun go by the lines that all ranks of a node see, too, and go on beside others: many more
// of them than a rank has lines, of all kinds and lengths, blocking ones and messages between, ended in any order, with ranks
// that come late; and who has begun one need not call anything for the others to end it. (MPI 5.0, section 6.12)
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <sched.h>
#include <stdint.h>
#include <time.h>

enum { UNDERWAY = 40, LINES = 33, RANKS_MAX = 8 };

/* x -> a x + b, modulo a prime: composed in another order they are another function. */
struct line {
    int64_t a, b;
};
static const int64_t PRIME = 1000003;
static MPI_Datatype line_type;
static MPI_Op composing;

enum kind { BARRIER, BCAST, ALLREDUCE, ALLGATHER, ALLTOALL, GATHER, SCATTER, SCAN, EXSCAN, REDUCE, SUM, REDUCE_SCATTER, KINDS };

static struct underway {
    enum kind kind;
    int count, root, in_place;
    unsigned round;
    struct line given[RANKS_MAX * LINES], got[RANKS_MAX * LINES + 1];
} all_underway[UNDERWAY];
static MPI_Request requests[UNDERWAY];
static int rank, size;

static unsigned next_of(unsigned *seed, unsigned below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* The same numbers at all ranks, and others at each. */
static unsigned common, own;
static unsigned draw(unsigned below) { return next_of(&common, below); }
static unsigned draw_alone(unsigned below) { return next_of(&own, below); }

static void maybe_late(void) {
    if (draw_alone(8 * (unsigned)size) == 0)
        nanosleep(&(struct timespec){.tv_nsec = draw_alone(20) == 0 ? 4000000 : 50000}, NULL);
}

static struct line line_of(int from, int to, unsigned round, int at) {
    return (struct line){2 + (from * 5 + to * 3 + (int)round + at) % 11, (from * 17 + to * 29 + at) % 101};
}

static struct line after(struct line first, struct line then) {
    return (struct line){first.a * then.a % PRIME, (first.b * then.a + then.b) % PRIME};
}

static void compose(void *left, void *right, int *count, MPI_Datatype *datatype) {
    struct line *first = left, *then = right;
    (void)datatype;
    for (int i = 0; i < *count; i++) then[i] = after(first[i], then[i]);
}

static void expect(const struct line *got, struct line right) {
    SAME(got->a, right.a);
    SAME(got->b, right.b);
}

/* The composition of what the ranks up to one have given. */
static void expect_composed(const struct line *got, int last, int to, const struct underway *of, int at) {
    struct line all = line_of(0, to, of->round, at);
    for (int from = 1; from <= last; from++) all = after(all, line_of(from, to, of->round, at));
    expect(got, all);
}

/* The sum of all. */
static void expect_summed(const struct line *got, const struct underway *of, int at) {
    struct line all = {0, 0};
    for (int from = 0; from < size; from++) {
        struct line one = line_of(from, 0, of->round, at);
        all.a += one.a;
        all.b += one.b;
    }
    expect(got, all);
}

static void fill_lines(struct line *to, int from, int whose, const struct underway *of) {
    for (int at = 0; at < of->count; at++) to[at] = line_of(from, whose, of->round, at);
}

static void begin(struct underway *of, unsigned round, MPI_Request *request) {
    static const int counts[] = {0, 1, 1, 1, 3, 9, LINES};
    of->kind = (enum kind)draw(KINDS);
    of->count = counts[draw(sizeof counts / sizeof *counts)];
    of->root = (int)draw((unsigned)size);
    of->in_place = (int)draw(2);
    of->round = round;
    int count = of->count, root = of->root, in_place = of->in_place, at_root = rank == root;
    struct line *given = of->given, *got = of->got;
    MPI_Comm comm = MPI_COMM_WORLD;
    /* A line is two numbers as well, as each rank chooses to name it. */
    int is_plain = (int)draw_alone(2), named = is_plain ? 2 * count : count;
    MPI_Datatype type = is_plain ? MPI_INT64_T : line_type;
    memset(got, 0x55, sizeof of->got);
    maybe_late();
    switch (of->kind) {
    case BARRIER: OK(MPI_Ibarrier(comm, request)); break;
    case BCAST:
        if (at_root) fill_lines(got, root, 0, of);
        OK(MPI_Ibcast(got, named, type, root, comm, request));
        break;
    case ALLREDUCE:
    case SCAN:
    case EXSCAN:
        fill_lines(in_place ? got : given, rank, 0, of);
        if (of->kind == ALLREDUCE)
            OK(MPI_Iallreduce(in_place ? MPI_IN_PLACE : given, got, count, line_type, composing, comm, request));
        else if (of->kind == SCAN)
            OK(MPI_Iscan(in_place ? MPI_IN_PLACE : given, got, count, line_type, composing, comm, request));
        else OK(MPI_Iexscan(in_place ? MPI_IN_PLACE : given, got, count, line_type, composing, comm, request));
        break;
    case SUM:
        fill_lines(in_place ? got : given, rank, 0, of);
        OK(MPI_Iallreduce(in_place ? MPI_IN_PLACE : given, got, 2 * count, MPI_INT64_T, MPI_SUM, comm, request));
        break;
    case ALLGATHER:
        fill_lines(in_place ? got + rank * count : given, rank, 0, of);
        OK(MPI_Iallgather(in_place ? MPI_IN_PLACE : given, named, type, got, named, type, comm, request));
        break;
    case ALLTOALL:
        for (int to = 0; to < size; to++) fill_lines((in_place ? got : given) + to * count, rank, to, of);
        OK(MPI_Ialltoall(in_place ? MPI_IN_PLACE : given, named, type, got, named, type, comm, request));
        break;
    case GATHER:
        fill_lines(in_place && at_root ? got + rank * count : given, rank, 0, of);
        OK(MPI_Igather(in_place && at_root ? MPI_IN_PLACE : given, named, type, got, named, type, root, comm, request));
        break;
    case SCATTER:
        for (int to = 0; to < size; to++) fill_lines(given + to * count, root, to, of);
        OK(MPI_Iscatter(given, named, type, in_place && at_root ? MPI_IN_PLACE : got, named, type, root, comm, request));
        break;
    case REDUCE:
        fill_lines(in_place && at_root ? got : given, rank, 0, of);
        OK(MPI_Ireduce(in_place && at_root ? MPI_IN_PLACE : given, got, count, line_type, composing, root, comm, request));
        break;
    default:
        for (int to = 0; to < size; to++) fill_lines((in_place ? got : given) + to * count, rank, to, of);
        OK(MPI_Ireduce_scatter_block(in_place ? MPI_IN_PLACE : given, got, count, line_type, composing, comm, request));
    }
}

static void check_got(const struct underway *of) {
    const struct line *got = of->got;
    int count = of->count, at_root = rank == of->root;
    for (int at = 0; at < count; at++)
        switch (of->kind) {
        case BARRIER: break;
        case BCAST: expect(got + at, line_of(of->root, 0, of->round, at)); break;
        case ALLREDUCE: expect_composed(got + at, size - 1, 0, of, at); break;
        case SUM: expect_summed(got + at, of, at); break;
        case SCAN: expect_composed(got + at, rank, 0, of, at); break;
        case EXSCAN:
            if (rank > 0) expect_composed(got + at, rank - 1, 0, of, at);
            break;
        case ALLGATHER:
        case ALLTOALL:
        case GATHER:
            for (int from = 0; from < size && (at_root || of->kind != GATHER); from++)
                expect(got + from * count + at, line_of(from, of->kind == ALLTOALL ? rank : 0, of->round, at));
            break;
        case SCATTER:
            if (!of->in_place || !at_root) expect(got + at, line_of(of->root, rank, of->round, at));
            break;
        case REDUCE:
            if (at_root) expect_composed(got + at, size - 1, 0, of, at);
            break;
        default: expect_composed(got + at, size - 1, rank, of, at);
        }
    UNTOUCHED(got + RANKS_MAX * LINES, sizeof *got, 0x55);
}

static void blocking_between(int turn) {
    int64_t mine = rank + turn, sum = 0, value = rank == turn % size ? turn : -1;
    switch (draw(4)) {
    case 0: OK(MPI_Barrier(MPI_COMM_WORLD)); break;
    case 1:
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
        SAME(sum, (int64_t)size * (size - 1) / 2 + (int64_t)size * turn);
        break;
    case 2:
        OK(MPI_Bcast(&value, 1, MPI_INT64_T, turn % size, MPI_COMM_WORLD));
        SAME(value, turn);
        break;
    default:
        OK(MPI_Sendrecv(&mine, 1, MPI_INT64_T, (rank + 1) % size, 3, &value, 1, MPI_INT64_T, (rank + size - 1) % size, 3,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        SAME(value, (rank + size - 1) % size + turn);
    }
}

/* Each rank ends them in another order, one after the other or as they come. */
static void end_all(int count) {
    int left[UNDERWAY], lefts = count, flag = 0, index = 0;
    for (int i = 0; i < count; i++) left[i] = i;
    if (draw_alone(3) == 0) {
        for (int i = 0; i < count; i++) {
            OK(MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE));
            check_got(&all_underway[index]);
        }
        return;
    }
    while (lefts > 0) {
        int place = (int)draw_alone((unsigned)lefts);
        index = left[place];
        maybe_late();
        if (draw_alone(2)) OK(MPI_Test(&requests[index], &flag, MPI_STATUS_IGNORE));
        else {
            OK(MPI_Wait(&requests[index], MPI_STATUS_IGNORE));
            flag = 1;
        }
        if (!flag) continue;
        check_got(&all_underway[index]);
        left[place] = left[--lefts];
    }
}

static void heaps_of_them(void) {
    section("many at once, in any order");
    for (unsigned round = 0; round < 120; round++) {
        int count = 1 + (int)draw(draw(3) == 0 ? UNDERWAY : 4);
        for (int i = 0; i < count; i++) {
            begin(&all_underway[i], round * UNDERWAY + (unsigned)i, &requests[i]);
            if (draw(6) == 0) blocking_between((int)round + i);
        }
        end_all(count);
    }
}

/* Who only gives goes on, also where nobody has taken what it gave, for longer than it has lines. */
static void one_gives_ahead(void) {
    enum { TURNS = 34 };
    section("who gives is far ahead of who takes");
    for (int round = 0; round < 60; round++) {
        /* All but the first and the last come from the one who takes these. */
        int64_t got[TURNS];
        MPI_Request under_way[TURNS];
        int turns = draw(2) ? 17 : 2 + (int)draw(TURNS - 1), is_blocking = (int)draw(2), late = (int)draw(2);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (late == (rank == 0)) nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
        for (int turn = 0; turn < turns; turn++) {
            int root = turn == 0 || turn == turns - 1 ? 0 : 1;
            got[turn] = rank == root ? 1000 * round + turn : -1;
            under_way[turn] = MPI_REQUEST_NULL;
            if (is_blocking && root == 1) OK(MPI_Barrier(MPI_COMM_WORLD));
            else OK(MPI_Ibcast(&got[turn], 1, MPI_INT64_T, root, MPI_COMM_WORLD, &under_way[turn]));
        }
        if (rank != 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        OK(MPI_Waitall(turns, under_way, MPI_STATUSES_IGNORE));
        for (int turn = 0; turn < turns; turn++)
            if (!is_blocking || turn == 0 || turn == turns - 1) SAME(got[turn], 1000 * round + turn);
    }
}

/* All but the last rank begin an operation and call nothing until the last one has its result. */
static void nobody_else_calls(void) {
    const char *fabric = getenv("WEFT_FABRIC");
    int is_by_lines = check_library_is("weft") && (fabric == NULL || strcmp(fabric, "shm") == 0);
    volatile int *over = NULL;
    MPI_Win win;
    if (!is_by_lines) return;
    section("who has begun one need not call anything");
    OK(MPI_Win_allocate_shared(rank == 0 ? sizeof *over : 0, sizeof *over, MPI_INFO_NULL, MPI_COMM_WORLD, (void *)&over, &win));
    MPI_Aint bytes;
    int unit;
    OK(MPI_Win_shared_query(win, 0, &bytes, &unit, (void *)&over));
    OK(MPI_Win_lock_all(0, win));
    for (int round = 1; round <= 20; round++) {
        int64_t mine = rank + round, sum = 0;
        MPI_Request request;
        OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, &request));
        if (rank == size - 1) {
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            *over = round;
        } else {
            while (*over != round) sched_yield();
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        SAME(sum, (int64_t)size * (size - 1) / 2 + (int64_t)size * round);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    rank = check_rank, size = check_size, own = (unsigned)rank;
    OK(MPI_Type_contiguous(2, MPI_INT64_T, &line_type));
    OK(MPI_Type_commit(&line_type));
    OK(MPI_Op_create(compose, 0, &composing));
    /* Lines are there after a few blocking operations. */
    for (int i = 0; i < 5; i++) OK(MPI_Barrier(MPI_COMM_WORLD));
    nobody_else_calls();
    one_gives_ahead();
    heaps_of_them();
    OK(MPI_Op_free(&composing));
    OK(MPI_Type_free(&line_type));
    return check_close();
}
