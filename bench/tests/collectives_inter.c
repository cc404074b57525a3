// ranks: 2 3 5 8
// Collective operations over the two groups of inter-communicators of every size: every root, amounts that differ from rank
// to rank and from group to group, gaps, operators that commute and that do not. (MPI 5.0, sections 6.2.3 and 6.3 to 6.10)
#include "check.h"

#include <stdint.h>

enum { MOST = 8, LONG = 40000 };

static MPI_Comm comm;
/* The own rank and group, the number of ranks in the other, and which group this is: 0 or 1. */
static int rank, size, others, side;
static int out[MOST * LONG], in[MOST * LONG];

/* The value at place `at` of what `from` in group `group` gives to `to` in the other. */
static int value(int group, int from, int to, int at) { return group * 50000017 + from * 1000003 + to * 10009 + at; }

static void give(int *where, int count, int to) {
    for (int i = 0; i < count; i++) where[i] = value(side, rank, to, i);
}

static void expect(const int *got, int count, int from, int to) {
    for (int i = 0; i < count; i++) SAME(got[i], value(1 - side, from, to, i));
}

static void clear(void) {
    for (int i = 0; i < MOST * LONG; i++) in[i] = -7;
}

/* The root as this rank names it, if it is rank `root` of group `of`. */
static int named(int of, int root) {
    if (of != side) return root;
    return root == rank ? MPI_ROOT : MPI_PROC_NULL;
}

static int roots(int of) { return of == side ? size : others; }

/* So many of what `from` gives to `to`; the same seen from both. */
static int amount(int from, int to, int most) { return (from + 2 * to) % 3 * (most / 2); }

static void with_root(int of, int root, int most) {
    int here = of == side && root == rank, there = of != side, me = named(of, root);
    int counts[MOST], places[MOST], end = 0;

    section("bcast");
    clear();
    if (here) give(in, most, 0);
    OK(MPI_Bcast(in, most, MPI_INT, me, comm));
    if (there) expect(in, most, root, 0);
    else if (!here) SAME(in[0], -7);

    section("gather");
    clear();
    if (there) give(out, most, root);
    OK(MPI_Gather(there ? out : NULL, there ? most : 0, MPI_INT, here ? in : NULL, here ? most : 0, MPI_INT, me, comm));
    for (int from = 0; here && from < others; from++) expect(in + from * most, most, from, rank);

    section("gatherv");
    clear();
    for (int i = others - 1; i >= 0; i--) { /* backwards and with gaps */
        counts[i] = amount(i, root, most);
        places[i] = end;
        end += counts[i] + 1;
    }
    if (there) give(out, most, root);
    OK(MPI_Gatherv(out, there ? amount(rank, root, most) : 0, MPI_INT, in, counts, places, MPI_INT, me, comm));
    for (int i = 0; here && i < others; i++) {
        expect(in + places[i], counts[i], i, rank);
        SAME(in[places[i] + counts[i]], -7);
    }

    section("scatter");
    clear();
    for (int to = 0; here && to < others; to++) give(out + to * most, most, to);
    OK(MPI_Scatter(here ? out : NULL, most, MPI_INT, there ? in : NULL, most, MPI_INT, me, comm));
    if (there) expect(in, most, root, rank);

    section("scatterv");
    clear();
    for (int to = 0, at = 0; here && to < others; to++) {
        counts[to] = amount(root, to, most);
        places[to] = at;
        give(out + at, counts[to], to);
        at += counts[to] + 3;
    }
    OK(MPI_Scatterv(out, counts, places, MPI_INT, in, there ? amount(root, rank, most) : 0, MPI_INT, me, comm));
    if (there) expect(in, amount(root, rank, most), root, rank);
    SAME(in[there ? amount(root, rank, most) : 0], -7);
}

static void of_all(int most) {
    int sends[MOST], receives[MOST], from[MOST], to[MOST];
    MPI_Datatype types[MOST];

    section("allgather, the groups giving different amounts");
    clear();
    int mine = most / (side + 1), theirs = most / (2 - side);
    give(out, mine, 0);
    OK(MPI_Allgather(out, mine, MPI_INT, in, theirs, MPI_INT, comm));
    for (int i = 0; i < others; i++) expect(in + i * theirs, theirs, i, 0);

    section("allgatherv");
    clear();
    for (int i = 0, at = 0; i < others; i++) {
        receives[i] = amount(i, 0, most);
        from[i] = at;
        at += receives[i] + 2;
    }
    give(out, amount(rank, 0, most), 0);
    OK(MPI_Allgatherv(out, amount(rank, 0, most), MPI_INT, in, receives, from, MPI_INT, comm));
    for (int i = 0; i < others; i++) {
        expect(in + from[i], receives[i], i, 0);
        SAME(in[from[i] + receives[i]], -7);
    }

    section("alltoall");
    clear();
    for (int i = 0; i < others; i++) give(out + i * mine, mine, i);
    OK(MPI_Alltoall(out, mine, MPI_INT, in, theirs, MPI_INT, comm));
    for (int i = 0; i < others; i++) expect(in + i * theirs, theirs, i, rank);

    section("alltoallv");
    clear();
    for (int i = 0, sent = 0, got = 0; i < others; i++) {
        sends[i] = amount(rank, i, most);
        to[i] = sent;
        give(out + sent, sends[i], i);
        sent += sends[i] + 1;
        receives[i] = amount(i, rank, most);
        from[i] = got;
        got += receives[i] + 1;
        types[i] = MPI_INT;
    }
    OK(MPI_Alltoallv(out, sends, to, MPI_INT, in, receives, from, MPI_INT, comm));
    for (int i = 0; i < others; i++) {
        expect(in + from[i], receives[i], i, rank);
        SAME(in[from[i] + receives[i]], -7);
    }

    section("alltoallw");
    clear();
    for (int i = 0; i < others; i++) {
        to[i] *= (int)sizeof(int);
        from[i] *= (int)sizeof(int);
    }
    OK(MPI_Alltoallw(out, sends, to, types, in, receives, from, types, comm));
    for (int i = 0; i < others; i++) expect(in + from[i] / (int)sizeof(int), receives[i], i, rank);
}

/* Keeps the digits of both operands, the left ones first: does not commute. */
static void chain(void *left, void *right, int *count, MPI_Datatype *datatype) {
    int64_t *a = left, *b = right;
    (void)datatype;
    for (int i = 0; i < *count; i++) {
        int64_t shift = 1;
        while (shift <= b[i]) shift *= 10;
        b[i] += a[i] * shift;
    }
}

/* What the other group's digits chained are. */
static int64_t chained(int at) {
    int64_t sum = 0;
    for (int i = 0; i < others; i++) sum = sum * 10 + (i + at) % 9 + 1;
    return sum;
}

static void reductions(int count) {
    static int64_t mine[LONG], got[LONG];
    int counts[MOST], before = 0, left = count;
    MPI_Op op;
    OK(MPI_Op_create(chain, 0, &op));
    for (int i = 0; i < count; i++) mine[i] = (rank + i) % 9 + 1;
    for (int of = 0; of < 2; of++) {
        for (int root = 0; root < roots(of); root++) {
            int here = of == side && root == rank;
            section("reduce");
            memset(got, 0, sizeof got);
            OK(MPI_Reduce(mine, here ? got : NULL, count, MPI_INT64_T, op, named(of, root), comm));
            for (int i = 0; here && i < count; i++) SAME(got[i], chained(i));
        }
    }
    section("allreduce");
    memset(got, 0, sizeof got);
    OK(MPI_Allreduce(mine, got, count, MPI_INT64_T, op, comm));
    for (int i = 0; i < count; i++) SAME(got[i], chained(i));
    section("allreduce by MPI_SUM");
    OK(MPI_Allreduce(mine, got, count, MPI_INT64_T, MPI_SUM, comm));
    for (int i = 0; i < count; i++) {
        int64_t sum = 0;
        for (int from = 0; from < others; from++) sum += (from + i) % 9 + 1;
        SAME(got[i], sum);
    }
    section("reduce_scatter");
    memset(got, 0, sizeof got);
    for (int i = 0; i < size; i++) {
        counts[i] = i == size - 1 ? left : left / 2;
        left -= counts[i];
        if (i < rank) before += counts[i];
    }
    OK(MPI_Reduce_scatter(mine, got, counts, MPI_INT64_T, op, comm));
    for (int i = 0; i < counts[rank]; i++) SAME(got[i], chained(before + i));
    section("reduce_scatter_block");
    int each = count / (size * others);
    memset(got, 0, sizeof got);
    OK(MPI_Reduce_scatter_block(mine, got, each * others, MPI_INT64_T, op, comm));
    for (int i = 0; i < each * others; i++) SAME(got[i], chained(rank * each * others + i));
    OK(MPI_Op_free(&op));
}

static void wrong(void) {
    int value = 0, got = 0;
    section("only the root says anything in its group");
    OK(MPI_Bcast(NULL, -5, MPI_DATATYPE_NULL, MPI_PROC_NULL, comm));
    OK(MPI_Reduce(NULL, NULL, -5, MPI_DATATYPE_NULL, MPI_OP_NULL, MPI_PROC_NULL, comm));
    OK(MPI_Gather(NULL, -5, MPI_DATATYPE_NULL, NULL, -5, MPI_DATATYPE_NULL, MPI_PROC_NULL, comm));
    section("wrong arguments");
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    STRICT_CLASS(MPI_Bcast(&value, 1, MPI_INT, others, comm), MPI_ERR_ROOT);
    STRICT_CLASS(MPI_Bcast(&value, 1, MPI_INT, -77, comm), MPI_ERR_ROOT);
    STRICT_CLASS(MPI_Scan(&value, &got, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_COMM);
    STRICT_CLASS(MPI_Exscan(&value, &got, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_COMM);
    STRICT_CLASS(MPI_Allreduce(MPI_IN_PLACE, &got, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER);
    STRICT_CLASS(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, in, 1, MPI_INT, comm), MPI_ERR_BUFFER);
    STRICT_CLASS(MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, in, 1, MPI_INT, 0, comm), MPI_ERR_BUFFER);
}

/* Groups of `first` ranks and of the rest; every second time the later ranks make the first group. */
static void between(int first, int backwards) {
    MPI_Comm half;
    int world = backwards ? check_size - 1 - check_rank : check_rank;
    side = world >= first;
    section("making an inter-communicator");
    OK(MPI_Comm_split(MPI_COMM_WORLD, side, world, &half));
    int leader = side ? 0 : first;
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, backwards ? check_size - 1 - leader : leader, 5, &comm));
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Comm_remote_size(comm, &others));
    OK(MPI_Barrier(comm));
    for (int of = 0; of < 2; of++)
        for (int root = 0; root < roots(of); root++) {
            with_root(of, root, 0);
            with_root(of, root, 10);
            if (root == roots(of) / 2) with_root(of, root, LONG - 2);
        }
    of_all(10);
    of_all(LONG - 2);
    reductions(0);
    reductions(size * others);
    reductions(LONG / (size * others) * size * others);
    wrong();
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    for (int first = 1; first < check_size; first += 1 + check_size / 4) between(first, first % 2);
    return check_close();
}
