// ranks: 1 4 7
// The rules of the standard on groups, as MPI 2.2 wrote them down (sections 6.3.1 to 6.3.3, pages 192 to 198); each
// section names its rule. No communication.
#include "check.h"

static MPI_Group world, empty = MPI_GROUP_EMPTY;

static MPI_Group range(MPI_Group group, int first, int last, int stride) {
    MPI_Group made;
    int ranges[1][3] = {{first, last, stride}};
    OK(MPI_Group_range_incl(group, 1, ranges, &made));
    return made;
}

static void compare(MPI_Group left, MPI_Group right, int expected) {
    int result = -1;
    OK(MPI_Group_compare(left, right, &result));
    SAME(result, expected);
}

static void drop(MPI_Group *group) {
    OK(MPI_Group_free(group));
    CHECK(*group == MPI_GROUP_NULL);
}

static void accessors(void) {
    int size = -1, rank = -1, top = check_size - 1;
    section("192: size is the number of processes, rank that of the caller or MPI_UNDEFINED");
    MPI_Group last = range(world, top, top, 1);
    OK(MPI_Group_size(last, &size));
    OK(MPI_Group_rank(last, &rank));
    SAME(size, 1);
    SAME(rank, check_rank == top ? 0 : MPI_UNDEFINED);
    section("193: translate_ranks: MPI_UNDEFINED where no correspondence exists, MPI_PROC_NULL to itself");
    int from[3] = {0, MPI_PROC_NULL, top}, to[3] = {-9, -9, -9};
    OK(MPI_Group_translate_ranks(world, 3, from, last, to));
    SAME(to[0], check_size == 1 ? 0 : MPI_UNDEFINED);
    SAME(to[1], MPI_PROC_NULL);
    SAME(to[2], 0);
    OK(MPI_Group_translate_ranks(world, 0, NULL, last, NULL));
    drop(&last);
    section("193: compare: IDENT for members and order, SIMILAR for members, UNEQUAL otherwise");
    MPI_Group same = range(world, 0, top, 1), reversed = range(world, top, 0, -1), other = range(world, 0, 0, 1);
    compare(world, world, MPI_IDENT);
    compare(world, same, MPI_IDENT);
    compare(world, reversed, check_size == 1 ? MPI_IDENT : MPI_SIMILAR);
    compare(world, other, check_size == 1 ? MPI_IDENT : MPI_UNEQUAL);
    drop(&same);
    drop(&reversed);
    drop(&other);
}

static void constructors(void) {
    MPI_Group made, comm_group;
    int top = check_size - 1, half = check_size / 2, size = -1;
    section("193: a process may define a group that does not include itself, and distinct groups on different processes");
    made = range(world, (check_rank + 1) % check_size, (check_rank + 1) % check_size, 1);
    OK(MPI_Group_size(made, &size));
    SAME(size, 1);
    drop(&made);
    section("194: comm_group returns the group of the communicator");
    OK(MPI_Comm_group(MPI_COMM_WORLD, &comm_group));
    compare(comm_group, world, MPI_IDENT);
    drop(&comm_group);
    section("195: union, intersection, difference: ordered by the first group, then by the second");
    MPI_Group down = range(world, top, half, -1), up = range(world, 0, top, 1), left, right, both;
    OK(MPI_Group_union(down, up, &made));
    MPI_Group below = half > 0 ? range(world, 0, half - 1, 1) : empty;
    OK(MPI_Group_union(down, below, &both));
    compare(made, both, MPI_IDENT);
    OK(MPI_Group_intersection(up, down, &left));
    OK(MPI_Group_intersection(down, up, &right));
    compare(right, down, MPI_IDENT);
    compare(left, right, check_size - half < 2 ? MPI_IDENT : MPI_SIMILAR);
    drop(&made);
    OK(MPI_Group_difference(up, down, &made));
    compare(made, below, MPI_IDENT);
    section("195: neither union nor intersection is commutative, both are associative");
    MPI_Group first, second, third;
    OK(MPI_Group_union(down, below, &first));
    OK(MPI_Group_union(first, up, &second));
    OK(MPI_Group_union(below, up, &first));
    OK(MPI_Group_union(down, first, &third));
    compare(second, third, MPI_IDENT);
    section("195: the new group can be empty, that is, equal to MPI_GROUP_EMPTY");
    OK(MPI_Group_difference(up, up, &made));
    CHECK(made == MPI_GROUP_EMPTY);
    OK(MPI_Group_intersection(below, down, &made));
    CHECK(made == MPI_GROUP_EMPTY);
}

static void chosen(void) {
    MPI_Group made;
    int ranks[64], size = check_size, triple[3][3];
    section("196: incl: process i of the new group is the one with rank ranks[i]");
    for (int i = 0; i < size; i++) ranks[i] = (i + 1) % size;
    OK(MPI_Group_incl(world, size, ranks, &made));
    for (int i = 0; i < size; i++) {
        int back = -1;
        OK(MPI_Group_translate_ranks(made, 1, &i, world, &back));
        SAME(back, ranks[i]);
    }
    drop(&made);
    section("196: incl of none is MPI_GROUP_EMPTY, excl of none is identical to the group");
    OK(MPI_Group_incl(world, 0, NULL, &made));
    CHECK(made == MPI_GROUP_EMPTY);
    OK(MPI_Group_excl(world, 0, NULL, &made));
    compare(made, world, MPI_IDENT);
    section("196: ranks must be valid and distinct");
    int bad[2] = {0, size}, twice[2] = {size - 1, size - 1};
    made = MPI_GROUP_NULL;
    CLASS(MPI_Group_incl(world, 2, bad, &made), MPI_ERR_RANK);
    CLASS(MPI_Group_excl(world, 2, bad, &made), MPI_ERR_RANK);
    STRICT_CLASS(MPI_Group_incl(world, 2, twice, &made), MPI_ERR_RANK);
    STRICT_CLASS(MPI_Group_excl(world, 2, twice, &made), MPI_ERR_RANK);
    CHECK(made == MPI_GROUP_NULL);
    section("197: range_incl is as if its ranges were written out; first may be greater than last, the stride negative");
    int n = 0, count = 0;
    triple[0][0] = size - 1, triple[0][1] = size / 2, triple[0][2] = -2;
    for (int r = size - 1; r >= size / 2; r -= 2) ranks[n++] = r;
    count = 1;
    if (size > 3) {
        triple[1][0] = 0, triple[1][1] = size / 2 - 1, triple[1][2] = 3;
        for (int r = 0; r < size / 2; r += 3) ranks[n++] = r;
        count = 2;
    }
    MPI_Group written, excluded, rest;
    OK(MPI_Group_range_incl(world, count, triple, &made));
    OK(MPI_Group_incl(world, n, ranks, &written));
    compare(made, written, MPI_IDENT);
    section("198: range_excl is as if its ranges were written out");
    OK(MPI_Group_range_excl(world, count, triple, &excluded));
    OK(MPI_Group_excl(world, n, ranks, &rest));
    compare(excluded, rest, MPI_IDENT);
    section("197, 198: incl and excl are range calls with (i, i, 1)");
    int singles[64][3];
    for (int i = 0; i < n; i++) singles[i][0] = ranks[i], singles[i][1] = ranks[i], singles[i][2] = 1;
    MPI_Group by_ones;
    OK(MPI_Group_range_incl(world, n, singles, &by_ones));
    compare(by_ones, written, MPI_IDENT);
    OK(MPI_Group_range_excl(world, n, singles, &by_ones));
    compare(by_ones, rest, MPI_IDENT);
    section("197: the stride cannot be zero, computed ranks must be valid and distinct");
    int zero[1][3] = {{0, 0, 0}}, beyond[1][3] = {{0, size, 1}}, overlap[2][3] = {{0, 0, 1}, {0, 0, 5}};
    made = MPI_GROUP_NULL;
    CLASS(MPI_Group_range_incl(world, 1, zero, &made), MPI_ERR_ARG);
    CLASS(MPI_Group_range_excl(world, 1, zero, &made), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Group_range_incl(world, 1, beyond, &made), MPI_ERR_RANK);
    STRICT_CLASS(MPI_Group_range_excl(world, 1, beyond, &made), MPI_ERR_RANK);
    STRICT_CLASS(MPI_Group_range_incl(world, 2, overlap, &made), MPI_ERR_RANK);
    STRICT_CLASS(MPI_Group_range_excl(world, 2, overlap, &made), MPI_ERR_RANK);
    CHECK(made == MPI_GROUP_NULL);
}

/* A group lives on in what was made of it. */
static void freed(void) {
    MPI_Group first, second, third;
    MPI_Comm copy;
    int size = -1;
    section("198: free sets the handle to MPI_GROUP_NULL; operations that use the group complete normally");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_group(copy, &first));
    OK(MPI_Group_excl(first, 0, NULL, &second));
    OK(MPI_Comm_create(copy, first, &copy));
    drop(&first);
    OK(MPI_Group_size(second, &size));
    SAME(size, check_size);
    OK(MPI_Comm_group(copy, &third));
    compare(second, third, MPI_IDENT);
    OK(MPI_Barrier(copy));
    OK(MPI_Comm_free(&copy));
    compare(second, third, MPI_IDENT);
    drop(&second);
    drop(&third);
    section("198: a freed group is no group");
    MPI_Group gone = world, stale = range(world, 0, 0, 1);
    gone = stale;
    drop(&stale);
    STRICT_CLASS(MPI_Group_size(gone, &size), MPI_ERR_GROUP);
    STRICT_CLASS(MPI_Group_free(&gone), MPI_ERR_GROUP);
    CLASS(MPI_Group_free(&stale), MPI_ERR_GROUP);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    accessors();
    constructors();
    chosen();
    freed();
    drop(&world);
    return check_close();
}
