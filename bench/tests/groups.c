// ranks: 1 2 5 8
// Groups: their members, sets made of them, and ranks told from one in another. No communication.
// (MPI 5.0, section 7.3)
#include "check.h"

static MPI_Group world;

static void expect_members(MPI_Group group, int count, const int *members) {
    int size = -1, result = -1;
    OK(MPI_Group_size(group, &size));
    SAME(size, count);
    for (int i = 0; i < count; i++) {
        OK(MPI_Group_translate_ranks(group, 1, &i, world, &result));
        SAME(result, members[i]);
    }
}

static void compare(MPI_Group left, MPI_Group right, int expected) {
    int result = -1;
    OK(MPI_Group_compare(left, right, &result));
    SAME(result, expected);
}

static void basics(void) {
    int rank = -1, size = -1;
    section("basics");
    OK(MPI_Group_size(world, &size));
    OK(MPI_Group_rank(world, &rank));
    SAME(size, check_size);
    SAME(rank, check_rank);
    OK(MPI_Group_size(MPI_GROUP_EMPTY, &size));
    SAME(size, 0);
    OK(MPI_Group_rank(MPI_GROUP_EMPTY, &rank));
    SAME(rank, MPI_UNDEFINED);
    compare(world, world, MPI_IDENT);
    compare(world, MPI_GROUP_EMPTY, MPI_UNEQUAL);
}

static void chosen(void) {
    MPI_Group odd, rest, backwards;
    int members[64], n = 0, rank = -1;
    section("incl and excl");
    for (int r = 1; r < check_size; r += 2) members[n++] = r;
    OK(MPI_Group_incl(world, n, members, &odd));
    expect_members(odd, n, members);
    OK(MPI_Group_rank(odd, &rank));
    SAME(rank, check_rank % 2 ? check_rank / 2 : MPI_UNDEFINED);
    OK(MPI_Group_excl(world, n, members, &rest));
    for (int r = 0; r < check_size; r += 2) members[r / 2] = r;
    expect_members(rest, (check_size + 1) / 2, members);
    for (int r = 0; r < check_size; r++) members[r] = check_size - 1 - r;
    OK(MPI_Group_incl(world, check_size, members, &backwards));
    expect_members(backwards, check_size, members);
    compare(world, backwards, check_size == 1 ? MPI_IDENT : MPI_SIMILAR);
    section("translate");
    int all[64], got[64];
    for (int r = 0; r < check_size; r++) all[r] = r;
    OK(MPI_Group_translate_ranks(world, check_size, all, odd, got));
    for (int r = 0; r < check_size; r++) SAME(got[r], r % 2 ? r / 2 : MPI_UNDEFINED);
    int nobody = MPI_PROC_NULL;
    OK(MPI_Group_translate_ranks(world, 1, &nobody, odd, got));
    SAME(got[0], MPI_PROC_NULL);
    OK(MPI_Group_free(&odd));
    CHECK(odd == MPI_GROUP_NULL);
    OK(MPI_Group_free(&rest));
    OK(MPI_Group_free(&backwards));
}

static void sets(void) {
    MPI_Group low, high, both, common, without;
    int members[64], half = check_size / 2, third = check_size / 3;
    section("union, intersection, difference");
    for (int r = 0; r < check_size; r++) members[r] = r;
    OK(MPI_Group_incl(world, half, members, &low));                          /* 0 .. half */
    OK(MPI_Group_incl(world, check_size - third, members + third, &high));   /* third .. size */
    OK(MPI_Group_union(high, low, &both));
    int order[64], n = 0;
    for (int r = third; r < check_size; r++) order[n++] = r;
    for (int r = 0; r < half && r < third; r++) order[n++] = r;
    expect_members(both, n, order);
    OK(MPI_Group_intersection(low, high, &common));
    expect_members(common, half - third, members + third);
    OK(MPI_Group_difference(low, high, &without));
    expect_members(without, third, members);
    OK(MPI_Group_free(&low));
    OK(MPI_Group_free(&high));
    OK(MPI_Group_free(&both));
    OK(MPI_Group_free(&common));
    OK(MPI_Group_free(&without));
}

static void ranges(void) {
    MPI_Group some, others;
    int down[1][3] = {{check_size - 1, 0, -1}}, steps[1][3] = {{0, check_size - 1, 2}}, members[64];
    section("ranges");
    OK(MPI_Group_range_incl(world, 1, down, &some));
    for (int r = 0; r < check_size; r++) members[r] = check_size - 1 - r;
    expect_members(some, check_size, members);
    OK(MPI_Group_free(&some));
    OK(MPI_Group_range_incl(world, 1, steps, &some));
    OK(MPI_Group_range_excl(world, 1, steps, &others));
    for (int r = 0; r < check_size; r += 2) members[r / 2] = r;
    expect_members(some, (check_size + 1) / 2, members);
    for (int r = 1; r < check_size; r += 2) members[r / 2] = r;
    expect_members(others, check_size / 2, members);
    OK(MPI_Group_free(&some));
    OK(MPI_Group_free(&others));
}

static void wrong(void) {
    MPI_Group group = MPI_GROUP_NULL;
    int twice[2] = {0, 0}, outside[1] = {check_size}, size = -5;
    section("wrong arguments");
    STRICT_CLASS(MPI_Group_incl(world, 2, twice, &group), MPI_ERR_RANK);
    CLASS(MPI_Group_incl(world, 1, outside, &group), MPI_ERR_RANK);
    CHECK(group == MPI_GROUP_NULL);
    CLASS(MPI_Group_size(MPI_GROUP_NULL, &size), MPI_ERR_GROUP);
    SAME(size, -5);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    basics();
    chosen();
    sets();
    ranges();
    wrong();
    OK(MPI_Group_free(&world));
    return check_close();
}
