/* Group algebra: what the calls of MPI_Group cost on one process, whose group is that of MPI_COMM_WORLD. The size of
 * the row is the number of processes: with one process it is what a call costs by itself. Results are compared with
 * each other, so that no library is praised for wrong ones. */
#include "bench.h"

#include <stdlib.h>

enum { RANGES_MAX = 16 };

static MPI_Group world, evens, odds, shuffled, reversed;
static int size, ranges[RANGES_MAX][3], range_count, *permutation, *answers;

static void expect(struct bench *bench, int good, const char *what) {
    if (!good) bench_wrong(bench, 1, what);
}

static void range_incl(void) {
    MPI_Group made;
    MPI_Group_range_incl(world, range_count, ranges, &made);
    MPI_Group_free(&made);
}

static void range_excl(void) {
    MPI_Group made;
    MPI_Group_range_excl(world, range_count, ranges, &made);
    if (made != MPI_GROUP_EMPTY) MPI_Group_free(&made);
}

static void incl(void) {
    MPI_Group made;
    MPI_Group_incl(world, size, permutation, &made);
    MPI_Group_free(&made);
}

static void combined(int (*combine)(MPI_Group, MPI_Group, MPI_Group *), MPI_Group first, MPI_Group second) {
    MPI_Group made;
    combine(first, second, &made);
    if (made != MPI_GROUP_EMPTY) MPI_Group_free(&made);
}

static void union_of_runs(void) { combined(MPI_Group_union, evens, odds); }
static void intersection_of_runs(void) { combined(MPI_Group_intersection, evens, reversed); }
static void difference_of_runs(void) { combined(MPI_Group_difference, reversed, odds); }
static void union_of_lists(void) { combined(MPI_Group_union, shuffled, world); }

static void compare_of_lists(void) {
    int result;
    MPI_Group_compare(shuffled, reversed, &result);
}

static void translate(void) { MPI_Group_translate_ranks(shuffled, size, permutation, reversed, answers); }

static const struct {
    const char *name;
    void (*call)(void);
} OPERATIONS[] = {
    {"range_incl", range_incl},
    {"range_excl", range_excl},
    {"incl", incl},
    {"union", union_of_runs},
    {"intersection", intersection_of_runs},
    {"difference", difference_of_runs},
    {"union_shuffled", union_of_lists},
    {"compare_shuffled", compare_of_lists},
    {"translate_shuffled", translate},
};

/* Pieces of every third rank, in two steps of each sixteenth part of the world. */
static void prepare(struct bench *bench) {
    int even[1][3] = {{0, size - 1, 2}}, odd[1][3] = {{1, size - 1, 2}}, down[1][3] = {{size - 1, 0, -1}}, result = -1;
    unsigned state = 12345;
    permutation = malloc(sizeof *permutation * (size_t)size);
    answers = malloc(sizeof *answers * (size_t)size);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, even, &evens);
    if (size > 1)
        MPI_Group_range_incl(world, 1, odd, &odds);
    else
        odds = MPI_GROUP_EMPTY;
    MPI_Group_range_incl(world, 1, down, &reversed);
    for (int at = 0; at < size; at++) permutation[at] = at;
    for (int at = size - 1; at > 0; at--) {
        state = state * 1103515245u + 12345u;
        int other = (int)(state >> 8) % (at + 1), kept = permutation[at];
        permutation[at] = permutation[other];
        permutation[other] = kept;
    }
    MPI_Group_incl(world, size, permutation, &shuffled);
    int each = size / RANGES_MAX;
    range_count = each > 0 ? RANGES_MAX : 1;
    for (int piece = 0; piece < range_count; piece++) {
        ranges[piece][0] = piece * each;
        ranges[piece][1] = each > 0 ? (piece + 1) * each - 1 : 0;
        ranges[piece][2] = 3;
    }
    MPI_Group both, most;
    int in_both = 0, in_most = 0, in_ranges = 0;
    MPI_Group_union(evens, odds, &both);
    MPI_Group_compare(both, world, &result);
    expect(bench, result == (size > 2 ? MPI_SIMILAR : MPI_IDENT), "the union of evens and odds is not the world");
    MPI_Group_range_incl(world, range_count, ranges, &most);
    MPI_Group_size(most, &in_ranges);
    MPI_Group_free(&most);
    MPI_Group_range_excl(world, range_count, ranges, &most);
    MPI_Group_size(both, &in_both);
    MPI_Group_size(most, &in_most);
    expect(bench, in_both == size && in_most + in_ranges == size, "a group has a wrong size");
    MPI_Group_translate_ranks(shuffled, size, permutation, reversed, answers);
    for (int at = 0; at < size; at++)
        expect(bench, answers[at] == size - 1 - permutation[permutation[at]], "a rank is translated wrongly");
    MPI_Group_free(&both);
    if (most != MPI_GROUP_EMPTY) MPI_Group_free(&most);
}

int main(int argc, char **argv) {
    struct bench bench;
    double samples[BLOCKS];
    bench_open(&bench, "groups", argc, argv, 8, 8, 1);
    size = bench.size;
    prepare(&bench);
    for (size_t operation = 0; operation < sizeof OPERATIONS / sizeof *OPERATIONS; operation++) {
        bench.name = OPERATIONS[operation].name;
        bench_heading(&bench, MICROSECONDS);
        int calls = bench_block_operations(&bench, 8);
        /* Local calls: one rank measures, the others keep still. */
        for (int block = -1; block < BLOCKS && bench.rank == 0; block++) {
            double begun = MPI_Wtime();
            for (int call = 0; call < calls; call++) OPERATIONS[operation].call();
            if (block >= 0) samples[block] = (MPI_Wtime() - begun) / calls;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        bench_row(&bench, MICROSECONDS, (size_t)size, samples, 1, 1);
    }
    MPI_Group *groups[] = {&world, &evens, &odds, &shuffled, &reversed};
    for (int at = 0; at < 5; at++)
        if (*groups[at] != MPI_GROUP_EMPTY) MPI_Group_free(groups[at]);
    free(permutation);
    free(answers);
    return bench_close(&bench);
}
