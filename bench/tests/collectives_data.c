// ranks: 1 2 3 4 5 8
// The blocking collectives that move data, from every root, in place and not, with varying counts
// and gaps, on the world and on a communicator of the same ranks backwards. (MPI 5.0, chapter 6)
#include "check.h"

#include <time.h>

static MPI_Comm comm;
static int rank, size;

/* The value at place `at` of what `from` gives to `to`. */
static int value(int from, int to, int at) { return from * 1000003 + to * 1009 + at; }

static int *ints(long count) {
    int *memory = malloc((size_t)(count > 0 ? count : 1) * sizeof(int));
    for (long i = 0; i < count; i++) memory[i] = -7;
    return memory;
}

static void expect(const int *got, int from, int to, int count) {
    for (int i = 0; i < count; i++) SAME(got[i], value(from, to, i));
}

static void barrier(void) {
    struct timespec now;
    double mine[2], most[2];
    section("barrier");
    for (int late = 0; late < size; late++) {
        if (rank == late) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
        mine[0] = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
        OK(MPI_Barrier(comm));
        clock_gettime(CLOCK_MONOTONIC, &now);
        mine[1] = -((double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
        OK(MPI_Allreduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, comm));
        CHECK(most[0] <= -most[1]);
    }
}

static void bcast(void) {
    static const int COUNTS[] = {0, 1, 5, 16, 1000, 30011, 250000};
    section("bcast");
    for (size_t n = 0; n < sizeof COUNTS / sizeof *COUNTS; n++) {
        for (int root = 0; root < size; root++) {
            int *buffer = ints(COUNTS[n]);
            if (rank == root)
                for (int i = 0; i < COUNTS[n]; i++) buffer[i] = value(root, 0, i);
            OK(MPI_Bcast(buffer, COUNTS[n], MPI_INT, root, comm));
            expect(buffer, root, 0, COUNTS[n]);
            free(buffer);
        }
    }
}

/* Sender and receiver may spell the same data differently. */
static void bcast_of_other_type(void) {
    MPI_Datatype four;
    int buffer[12];
    section("bcast with another datatype");
    OK(MPI_Type_contiguous(4, MPI_INT, &four));
    OK(MPI_Type_commit(&four));
    for (int i = 0; i < 12; i++) buffer[i] = rank == size - 1 ? value(1, 2, i) : -7;
    if (rank % 2 == 0) OK(MPI_Bcast(buffer, 3, four, size - 1, comm));
    else OK(MPI_Bcast(buffer, 12, MPI_INT, size - 1, comm));
    expect(buffer, 1, 2, 12);
    OK(MPI_Type_free(&four));
}

static void gather(int count) {
    section("gather");
    for (int root = 0; root < size; root++) {
        int *mine = ints(count), *all = rank == root ? ints((long)count * size) : NULL;
        for (int i = 0; i < count; i++) mine[i] = value(rank, root, i);
        if (rank == root && root % 2 == 1) {
            memcpy(all + (long)root * count, mine, (size_t)count * sizeof(int));
            OK(MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_INT, root, comm));
        } else {
            OK(MPI_Gather(mine, count, MPI_INT, all, rank == root ? count : 0, MPI_INT, root, comm));
        }
        if (rank == root)
            for (int from = 0; from < size; from++) expect(all + (long)from * count, from, root, count);
        free(mine);
        free(all);
    }
}

static void scatter(int count) {
    section("scatter");
    for (int root = 0; root < size; root++) {
        int *mine = ints(count), *all = rank == root ? ints((long)count * size) : NULL;
        if (rank == root)
            for (int to = 0; to < size; to++)
                for (int i = 0; i < count; i++) all[(long)to * count + i] = value(root, to, i);
        if (rank == root && root % 2 == 1)
            OK(MPI_Scatter(all, count, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, comm));
        else
            OK(MPI_Scatter(all, rank == root ? count : 0, MPI_INT, mine, count, MPI_INT, root, comm));
        if (rank != root || root % 2 == 0) expect(mine, root, rank, count);
        free(mine);
        free(all);
    }
}

/* The v-forms: rank r has (r * 7) % 5 * scale elements (so some have none), and one unused element
 * lies between the pieces. */
struct pieces {
    int *counts, *places;
    long total;
};

static struct pieces cut(int scale, int turn) {
    struct pieces pieces = {ints(size), ints(size), 0};
    for (int r = 0; r < size; r++) {
        pieces.counts[r] = (r + turn) * 7 % 5 * scale;
        pieces.places[r] = (int)pieces.total;
        pieces.total += pieces.counts[r] + 1;
    }
    return pieces;
}

static void release(struct pieces *pieces) {
    free(pieces->counts);
    free(pieces->places);
}

static void check_gaps(const struct pieces *pieces, const int *all) {
    for (int r = 0; r < size; r++) SAME(all[pieces->places[r] + pieces->counts[r]], -7);
}

static void gatherv(int scale) {
    struct pieces pieces = cut(scale, 1);
    section("gatherv");
    for (int root = 0; root < size; root++) {
        int *mine = ints(pieces.counts[rank]), *all = rank == root ? ints(pieces.total) : NULL;
        for (int i = 0; i < pieces.counts[rank]; i++) mine[i] = value(rank, root, i);
        if (rank == root && root % 2 == 1) {
            memcpy(all + pieces.places[root], mine, (size_t)pieces.counts[root] * sizeof(int));
            OK(MPI_Gatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, pieces.counts, pieces.places, MPI_INT, root, comm));
        } else if (rank == root) {
            OK(MPI_Gatherv(mine, pieces.counts[rank], MPI_INT, all, pieces.counts, pieces.places, MPI_INT, root, comm));
        } else {
            OK(MPI_Gatherv(mine, pieces.counts[rank], MPI_INT, NULL, NULL, NULL, MPI_DATATYPE_NULL, root, comm));
        }
        if (rank == root) {
            for (int from = 0; from < size; from++)
                expect(all + pieces.places[from], from, root, pieces.counts[from]);
            check_gaps(&pieces, all);
        }
        free(mine);
        free(all);
    }
    release(&pieces);
}

static void scatterv(int scale) {
    struct pieces pieces = cut(scale, 2);
    section("scatterv");
    for (int root = 0; root < size; root++) {
        int *mine = ints(pieces.counts[rank] + 1), *all = rank == root ? ints(pieces.total) : NULL;
        if (rank == root)
            for (int to = 0; to < size; to++)
                for (int i = 0; i < pieces.counts[to]; i++) all[pieces.places[to] + i] = value(root, to, i);
        if (rank == root && root % 2 == 1)
            OK(MPI_Scatterv(all, pieces.counts, pieces.places, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, comm));
        else if (rank == root)
            OK(MPI_Scatterv(all, pieces.counts, pieces.places, MPI_INT, mine, pieces.counts[rank], MPI_INT, root, comm));
        else
            OK(MPI_Scatterv(NULL, NULL, NULL, MPI_DATATYPE_NULL, mine, pieces.counts[rank], MPI_INT, root, comm));
        if (rank != root || root % 2 == 0) {
            expect(mine, root, rank, pieces.counts[rank]);
            SAME(mine[pieces.counts[rank]], -7);
        }
        free(mine);
        free(all);
    }
    release(&pieces);
}

static void allgather(int count, int in_place) {
    int *mine = ints(count), *all = ints((long)count * size);
    section(in_place ? "allgather in place" : "allgather");
    for (int i = 0; i < count; i++) mine[i] = value(rank, 0, i);
    if (in_place) {
        memcpy(all + (long)rank * count, mine, (size_t)count * sizeof(int));
        OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_INT, comm));
    } else {
        OK(MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, comm));
    }
    for (int from = 0; from < size; from++) expect(all + (long)from * count, from, 0, count);
    free(mine);
    free(all);
}

static void allgatherv(int scale, int in_place) {
    struct pieces pieces = cut(scale, 3);
    int *mine = ints(pieces.counts[rank]), *all = ints(pieces.total);
    section(in_place ? "allgatherv in place" : "allgatherv");
    for (int i = 0; i < pieces.counts[rank]; i++) mine[i] = value(rank, 0, i);
    if (in_place) {
        memcpy(all + pieces.places[rank], mine, (size_t)pieces.counts[rank] * sizeof(int));
        OK(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, pieces.counts, pieces.places, MPI_INT, comm));
    } else {
        OK(MPI_Allgatherv(mine, pieces.counts[rank], MPI_INT, all, pieces.counts, pieces.places, MPI_INT, comm));
    }
    for (int from = 0; from < size; from++) expect(all + pieces.places[from], from, 0, pieces.counts[from]);
    check_gaps(&pieces, all);
    free(mine);
    free(all);
    release(&pieces);
}

static void alltoall(int count, int in_place) {
    int *out = ints((long)count * size), *in = ints((long)count * size);
    section(in_place ? "alltoall in place" : "alltoall");
    for (int to = 0; to < size; to++)
        for (int i = 0; i < count; i++)
            (in_place ? in : out)[(long)to * count + i] = value(rank, to, i);
    if (in_place) OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, count, MPI_INT, comm));
    else OK(MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, comm));
    for (int from = 0; from < size; from++) expect(in + (long)from * count, from, rank, count);
    free(out);
    free(in);
}

/* What rank `from` has for rank `to`: symmetric, as the in-place form asks for. */
static int share(int from, int to, int scale) { return (from + to) % 4 * scale; }

static struct pieces cut_shares(int scale) {
    struct pieces pieces = {ints(size), ints(size), 0};
    for (int r = 0; r < size; r++) {
        pieces.counts[r] = share(rank, r, scale);
        pieces.places[r] = (int)pieces.total;
        pieces.total += pieces.counts[r] + 1;
    }
    return pieces;
}

static void alltoallv(int scale, int in_place) {
    struct pieces pieces = cut_shares(scale);
    int *out = ints(pieces.total), *in = ints(pieces.total);
    section(in_place ? "alltoallv in place" : "alltoallv");
    for (int to = 0; to < size; to++)
        for (int i = 0; i < pieces.counts[to]; i++)
            (in_place ? in : out)[pieces.places[to] + i] = value(rank, to, i);
    if (in_place)
        OK(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in, pieces.counts, pieces.places, MPI_INT, comm));
    else
        OK(MPI_Alltoallv(out, pieces.counts, pieces.places, MPI_INT, in, pieces.counts, pieces.places, MPI_INT, comm));
    for (int from = 0; from < size; from++) expect(in + pieces.places[from], from, rank, pieces.counts[from]);
    check_gaps(&pieces, in);
    free(out);
    free(in);
    release(&pieces);
}

/* Places in bytes, and a type for each partner: odd ones get bytes, even ones get ints. */
static void alltoallw(int scale) {
    struct pieces pieces = cut_shares(scale);
    int *out = ints(pieces.total), *in = ints(pieces.total), *counts = ints(size), *places = ints(size);
    MPI_Datatype *types = malloc((size_t)size * sizeof *types);
    section("alltoallw");
    for (int r = 0; r < size; r++) {
        int bytes = (rank + r) % 2;
        types[r] = bytes ? MPI_BYTE : MPI_INT;
        counts[r] = pieces.counts[r] * (bytes ? (int)sizeof(int) : 1);
        places[r] = pieces.places[r] * (int)sizeof(int);
        for (int i = 0; i < pieces.counts[r]; i++) out[pieces.places[r] + i] = value(rank, r, i);
    }
    OK(MPI_Alltoallw(out, counts, places, types, in, counts, places, types, comm));
    for (int from = 0; from < size; from++) expect(in + pieces.places[from], from, rank, pieces.counts[from]);
    check_gaps(&pieces, in);
    free(out);
    free(in);
    free(counts);
    free(places);
    free(types);
    release(&pieces);
}

static void all_on(MPI_Comm on) {
    static const int COUNTS[] = {0, 1, 3, 700, 20000};
    comm = on;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    barrier();
    bcast();
    bcast_of_other_type();
    for (size_t n = 0; n < sizeof COUNTS / sizeof *COUNTS; n++) {
        int count = COUNTS[n];
        gather(count);
        scatter(count);
        gatherv(count);
        scatterv(count);
        for (int in_place = 0; in_place < 2; in_place++) {
            allgather(count, in_place);
            allgatherv(count, in_place);
            alltoall(count, in_place);
            alltoallv(count, in_place);
        }
        alltoallw(count);
    }
}

int main(int argc, char **argv) {
    MPI_Comm backwards;
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &backwards));
    all_on(MPI_COMM_WORLD);
    all_on(backwards);
    OK(MPI_Comm_free(&backwards));
    all_on(MPI_COMM_SELF);
    return check_close();
}
