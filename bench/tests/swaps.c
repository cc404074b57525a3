// ranks: 2
// Between two ranks few bytes take a short way where datatype and operator are the library's own, and many bytes another one. Here each
// rank takes it and the general way, in every mix, early and late; and calls that do not fit each other are told. (MPI 5.0, chapter 6)
#include "check.h"

#include <math.h>
#include <time.h>

enum { FEW = 1024, MOST = 70001, ROUNDS = 32 };

static MPI_Datatype twin; /* an int by another name, which goes the long way */
static int rank, other, round_number;

/* Each rank goes the long way in half of the rounds, and comes late in half of them, in every mix. */
static MPI_Datatype type(void) { return round_number >> rank & 1 ? twin : MPI_INT; }

static void maybe_late(void) {
    if (round_number >> (2 + rank) & 1) nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
}

static int value(int from, int at) { return 100000 * round_number + 10000 * from + at; }

static void give(int *where, int count) {
    for (int i = 0; i < count; i++) where[i] = value(rank, i);
}

static void expect(const int *got, int from, int count) {
    for (int i = 0; i < count; i++) SAME(got[i], value(from, i));
}

static void data(int count) {
    static int mine[2 * MOST], all[2 * MOST];
    for (int root = 0; root < 2; root++) {
        section("bcast");
        memset(all, 0, sizeof all);
        if (rank == root) give(all, count);
        maybe_late();
        OK(MPI_Bcast(all, count, type(), root, MPI_COMM_WORLD));
        expect(all, root, count);
    }
    section("allgather");
    give(mine, count);
    maybe_late();
    OK(MPI_Allgather(mine, count, type(), all, count, type(), MPI_COMM_WORLD));
    for (int from = 0; from < 2; from++) expect(all + from * count, from, count);
    section("alltoall");
    give(mine + other * count, count);
    for (int i = 0; i < count; i++) mine[rank * count + i] = -i;
    maybe_late();
    OK(MPI_Alltoall(mine, count, type(), all, count, type(), MPI_COMM_WORLD));
    expect(all + other * count, other, count);
    for (int i = 0; i < count; i++) SAME(all[rank * count + i], -i);
    for (int root = 0; root < 2; root++) {
        section("gather");
        give(mine, count);
        memset(all, 0, sizeof all);
        maybe_late();
        /* What is said of the room means nothing but at the root. */
        OK(MPI_Gather(mine, count, type(), rank == root ? all : NULL, rank == root ? count : -7,
                      rank == root ? type() : MPI_DATATYPE_NULL, root, MPI_COMM_WORLD));
        for (int from = 0; from < 2 && rank == root; from++) expect(all + from * count, from, count);
        section("scatter");
        for (int to = 0; to < 2; to++) {
            for (int i = 0; i < count; i++) mine[to * count + i] = value(root, i) + to;
        }
        memset(all, 0, sizeof all);
        maybe_late();
        OK(MPI_Scatter(rank == root ? mine : NULL, rank == root ? count : -7, rank == root ? type() : MPI_DATATYPE_NULL, all,
                       count, type(), root, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++) SAME(all[i], value(root, i) + rank);
        SAME(all[count], 0);
    }
    section("barrier");
    maybe_late();
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* How many elements one rank gives the other, or itself, in the operations with lists. */
static int length(int from, int to, int count) { return count == 0 ? 0 : (count >> from) + to; }

/* Lists of the lengths that this rank gives or gets, the other's first, with a gap behind each. */
static void lay_out(int count, int gives, int lengths[2], int places[2]) {
    for (int i = 0, end = 0; i < 2; i++) {
        int at = i == 0 ? other : rank;
        lengths[at] = gives ? length(rank, at, count) : length(at, rank, count);
        places[at] = end;
        end += lengths[at] + 1;
    }
}

static void lists(int count) {
    static int mine[2 * MOST + 8], all[2 * MOST + 8];
    int gives[2], from_places[2], gets[2], to_places[2];
    section("alltoallv");
    lay_out(count, 1, gives, from_places);
    lay_out(count, 0, gets, to_places);
    memset(all, 0, sizeof all);
    for (int to = 0; to < 2; to++) give(mine + from_places[to], gives[to]);
    maybe_late();
    OK(MPI_Alltoallv(mine, gives, from_places, type(), all, gets, to_places, type(), MPI_COMM_WORLD));
    for (int from = 0; from < 2; from++) {
        expect(all + to_places[from], from, gets[from]);
        SAME(all[to_places[from] + gets[from]], 0);
    }
    section("allgatherv");
    for (int from = 0; from < 2; from++) gets[from] = length(from, 1, count), to_places[from] = from * (MOST + 2);
    memset(all, 0, sizeof all);
    give(mine, gets[rank]);
    maybe_late();
    OK(MPI_Allgatherv(mine, gets[rank], type(), all, gets, to_places, type(), MPI_COMM_WORLD));
    for (int from = 0; from < 2; from++) {
        expect(all + to_places[from], from, gets[from]);
        SAME(all[to_places[from] + gets[from]], 0);
    }
    for (int root = 0; root < 2; root++) {
        /* What is said of all blocks means nothing but at the root. */
        int here = rank == root;
        section("gatherv");
        for (int from = 0; from < 2; from++) gets[from] = length(from, root, count), to_places[from] = (1 - from) * (MOST + 2);
        memset(all, 0, sizeof all);
        give(mine, gets[rank]);
        maybe_late();
        OK(MPI_Gatherv(mine, gets[rank], type(), here ? all : NULL, here ? gets : NULL, here ? to_places : NULL,
                       here ? type() : MPI_DATATYPE_NULL, root, MPI_COMM_WORLD));
        for (int from = 0; from < 2 && here; from++) {
            expect(all + to_places[from], from, gets[from]);
            SAME(all[to_places[from] + gets[from]], 0);
        }
        section("scatterv");
        int bytes = length(root, rank, count);
        lay_out(count, 1, gives, from_places);
        for (int to = 0; to < 2; to++) give(mine + from_places[to], gives[to]);
        memset(all, 0, sizeof all);
        maybe_late();
        OK(MPI_Scatterv(here ? mine : NULL, here ? gives : NULL, here ? from_places : NULL, here ? type() : MPI_DATATYPE_NULL,
                        all, bytes, type(), root, MPI_COMM_WORLD));
        expect(all, root, bytes);
        SAME(all[bytes], 0);
    }
}

/* Blocks of two lengths. */
static void reduce_scatter_listed(int count, MPI_Op op, int in_place) {
    static int mine[2 * MOST], got[2 * MOST];
    int counts[2] = {count, count / 3}, first = rank * count;
    section("reduce_scatter");
    give(mine, counts[0] + counts[1]);
    memset(got, 0, sizeof got);
    if (in_place) memcpy(got, mine, sizeof got);
    maybe_late();
    OK(MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : mine, got, counts, MPI_INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < counts[rank]; i++) SAME(got[i], value(0, first + i) + value(1, first + i));
    for (int i = counts[rank]; i < counts[0] + counts[1]; i++) SAME(got[i], in_place ? mine[i] : 0);
}

static void chain(void *left, void *right, int *count, MPI_Datatype *datatype) {
    (void)datatype;
    for (int i = 0; i < *count; i++) ((int *)right)[i] += ((int *)left)[i];
}

/* What each rank gets of a scan, where the first one keeps what it has in an exclusive one. */
static void scans(int count, MPI_Op op, int in_place) {
    static int mine[MOST], got[MOST];
    for (int exclusive = 0; exclusive < 2; exclusive++) {
        section(exclusive ? "exscan" : "scan");
        give(mine, count);
        memcpy(got, mine, sizeof got);
        if (!in_place && !(exclusive && rank == 0)) memset(got, 0, sizeof got);
        maybe_late();
        /* The first rank gets nothing, and need not say where. */
        void *room = exclusive && !in_place && rank == 0 && count % 2 ? NULL : got;
        if (exclusive) OK(MPI_Exscan(in_place ? MPI_IN_PLACE : mine, room, count, MPI_INT, op, MPI_COMM_WORLD));
        else OK(MPI_Scan(in_place ? MPI_IN_PLACE : mine, got, count, MPI_INT, op, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++)
            SAME(got[i], rank == 0 || exclusive ? value(0, i) : value(0, i) + value(1, i));
    }
}

static void reduce_scatter(int count, MPI_Op op, int in_place) {
    static int mine[2 * MOST], got[2 * MOST];
    section("reduce_scatter_block");
    give(mine, 2 * count);
    memset(got, 0, sizeof got);
    if (in_place) memcpy(got, mine, sizeof got);
    maybe_late();
    OK(MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : mine, got, count, MPI_INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) SAME(got[i], value(0, rank * count + i) + value(1, rank * count + i));
    for (int i = count; i < 2 * count; i++) SAME(got[i], in_place ? mine[i] : 0);
}

static void reductions(int count, MPI_Op sum) {
    static int mine[MOST], got[MOST];
    MPI_Op op = round_number & 1 ? sum : MPI_SUM; /* the same at both, as MPI 5.0 section 6.9 asks: the program's own go another way */
    for (int in_place = 0; in_place < 2; in_place++) {
        scans(count, op, in_place);
        reduce_scatter(count, op, in_place);
        reduce_scatter_listed(count, op, in_place);
        section("allreduce");
        give(mine, count);
        memcpy(got, mine, sizeof got);
        maybe_late();
        OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : mine, got, count, MPI_INT, op, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++) SAME(got[i], value(0, i) + value(1, i));
        for (int root = 0; root < 2; root++) {
            section("reduce");
            give(got, count);
            maybe_late();
            if (rank == root)
                OK(MPI_Reduce(in_place ? MPI_IN_PLACE : mine, got, count, MPI_INT, op, root, MPI_COMM_WORLD));
            else OK(MPI_Reduce(mine, in_place ? NULL : got, count, MPI_INT, op, root, MPI_COMM_WORLD));
            for (int i = 0; i < count; i++) SAME(got[i], rank == root ? value(0, i) + value(1, i) : value(rank, i));
        }
    }
}

/* Both have the same bits, also where a op b and b op a differ in some. */
static void same_bits(void) {
    double mine = rank == 0 ? 0.0 : -0.0, got = 7, there = 7;
    section("the same bits");
    OK(MPI_Allreduce(&mine, &got, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    OK(MPI_Sendrecv(&got, 1, MPI_DOUBLE, other, 1, &there, 1, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(signbit(got) == signbit(there));
}

static void wrong(void) {
    static int in[MOST], out[2 * MOST];
    section("what does not fit");
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int times = 1; times <= 10000; times *= 10) {
        for (int mix = 0; mix < 4; mix++) {
            int late = mix & 1, longer = mix >> 1, count = ((rank == 0) == longer ? 6 : 3) * times;
            if (rank == late) nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
            STRICT_CLASS(MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
            STRICT_CLASS(MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
        }
    }
    section("lists that do not fit");
    for (int late = 0; late < 2; late++) {
        for (int longer = 0; longer < 2; longer++) {
            /* What comes from the other is another length than what it gives. */
            int gives[] = {3, 3}, gets[] = {3, 3}, places[] = {0, 10};
            gets[other] = longer ? 6 : 2;
            if (rank == late) nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
            STRICT_CLASS(MPI_Alltoallv(in, gives, places, MPI_INT, in + 20, gets, places, MPI_INT, MPI_COMM_WORLD),
                         MPI_ERR_TRUNCATE);
        }
    }
    section("a short list that does not fit beside a long one that does");
    for (int turn = 0; turn < 3; turn++) {
        static int given[2000], got[2000];
        int gives[2] = {0, 0}, gets[2] = {0, 0}, places[2] = {0, 0};
        gives[other] = rank == 0 ? 2000 : 3;
        gets[other] = rank == 0 ? 2 : 2000;
        STRICT_CLASS(MPI_Alltoallv(given, gives, places, MPI_INT, got, gets, places, MPI_INT, MPI_COMM_WORLD),
                     rank == 0 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    STRICT_CLASS(MPI_Gather(in, 1, MPI_INT, in + 20, 1, MPI_INT, 2, MPI_COMM_WORLD), MPI_ERR_ROOT);
    STRICT_CLASS(MPI_Scatter(in, 1, MPI_INT, in + 20, 1, MPI_INT, -3, MPI_COMM_WORLD), MPI_ERR_ROOT);
    STRICT_CLASS(MPI_Scan(in, in + 20, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP);
    STRICT_CLASS(MPI_Bcast(in, 1, MPI_INT, 2, MPI_COMM_WORLD), MPI_ERR_ROOT);
    STRICT_CLASS(MPI_Bcast(in, 1, MPI_INT, -1, MPI_COMM_WORLD), MPI_ERR_ROOT);
    STRICT_CLASS(MPI_Bcast(in, -1, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Allreduce(in, in + 20, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP);
    STRICT_CLASS(MPI_Allreduce(in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    STRICT_CLASS(MPI_Allgather(in, 2, MPI_INT, in + 20, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
}

int main(int argc, char **argv) {
    MPI_Op sum;
    check_open(argc, argv);
    rank = check_rank;
    other = 1 - rank;
    OK(MPI_Type_contiguous(1, MPI_INT, &twin));
    OK(MPI_Type_commit(&twin));
    OK(MPI_Op_create(chain, 1, &sum));
    for (round_number = 0; round_number < ROUNDS; round_number++) {
        int counts[] = {0, 1, 2, 16, 1000, FEW, 2049, 4096, 4097, 20000, MOST};
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            data(counts[i]);
            lists(counts[i]);
            reductions(counts[i], sum);
        }
    }
    same_bits();
    if (!check_library_is("MPICH") && !check_library_is("Open MPI")) wrong();
    OK(MPI_Op_free(&sum));
    OK(MPI_Type_free(&twin));
    return check_close();
}
